"""A relocatable interpreter in one tarball, for any Linux with glibc 2.31 or newer.

It is linked against the C library of Debian 11 (sysroot) and has its other libraries built in or beside it (libraries). Its
files find each other from where they are (relocate), in the layout of python-build-standalone's `install_only` archives, so that
the tools that install those install it (pack).
"""
