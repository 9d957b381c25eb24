"""Whether the interpreter that is tested sends scripts to other processes: sys.remote_exec()."""

import sys
import sysconfig
import unittest

# What `./configure --without-remote-debug` leaves out.
LEFT_OUT = "--without-remote-debug" in (sysconfig.get_config_var("CONFIG_ARGS") or "")


def needs_remote(test):
    """Decorates tests, or a class of them, that send scripts."""
    test = unittest.skipIf(LEFT_OUT, "this interpreter was built without remote debugging")(test)
    return unittest.skipUnless(hasattr(sys, "remote_exec"), "only on Ferrule: sys.remote_exec() is not there")(test)
