"""The libraries of a binary, built of Debian's sources against the sysroot: in archives, but OpenSSL, which is shared by two modules.

Their symbols are hidden, so that a wheel's own copy of a library finds its own functions.
"""

import os
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from cpython.upstream.messages import Unreachable
from tools import places, running
from tools.binary.debian import Suite
from tools.environment import jobs
from tools.errors import BuildError

# Whose security team maintains what is built in; the second where the first's archive lacks the files.
SUITES = ("trixie", "bookworm")
FLAGS = "-O2 -g0 -fPIC -fno-semantic-interposition -ffunction-sections -fdata-sections"
# As Debian's own library has them, and what Python's users ask for.
SQLITE = ("SECURE_DELETE", "ENABLE_COLUMN_METADATA", "ENABLE_FTS3", "ENABLE_FTS3_PARENTHESIS", "ENABLE_FTS3_TOKENIZER", "ENABLE_FTS4",
          "ENABLE_FTS5", "ENABLE_RTREE", "ENABLE_GEOPOLY", "ENABLE_DBSTAT_VTAB", "ENABLE_MATH_FUNCTIONS", "ENABLE_LOAD_EXTENSION",
          "ENABLE_SESSION", "ENABLE_PREUPDATE_HOOK", "ENABLE_STMTVTAB", "ENABLE_UNLOCK_NOTIFY", "USE_URI")


@dataclass(frozen=True)
class Tools:
    """The programs of one build, as environment variables name them, and where their result goes."""

    compiler: str
    home: Path
    prefix: Path

    @property
    def programs(self) -> Path:
        """A directory with the compiler, as `cc`."""
        return self.prefix / "programs"

    def environment(self, flags: str) -> dict[str, str]:
        return {
            "PATH": f"{self.programs}:{os.environ['PATH']}", "HOME": os.environ.get("HOME", "/"), "LC_ALL": "C.UTF-8",
            "CC": self.compiler, "AR": str(self.home / "llvm-ar"), "RANLIB": str(self.home / "llvm-ranlib"),
            "CFLAGS": flags, "CPPFLAGS": f"-I{self.prefix}/include -I{self.prefix}/include/ncursesw", "LDFLAGS": f"-L{self.prefix}/lib",
            "PKG_CONFIG_LIBDIR": f"{self.prefix}/lib/pkgconfig",
        }


@dataclass(frozen=True)
class Library:
    """A source package of Debian, the file that says that it is built, and its license's name by SPDX."""

    source: str
    made: str
    license: str
    commands: Callable[[Tools], list[list[str]]]
    hidden: bool = True


# Debian's patches are newer than what autoconf has made before, and change nothing of it that matters here.
GENERATED = """if test -x configure; then
    touch aclocal.m4 && touch configure && find . -name '*.h.in' -exec touch {} + && find . -name Makefile.in -exec touch {} +
else
    autoreconf --install --force
fi"""


def autoconf(tools: Tools, *options: str) -> list[list[str]]:
    return [["sh", "-c", GENERATED],
            ["./configure", f"--prefix={tools.prefix}", f"--libdir={tools.prefix}/lib", "--disable-shared", "--enable-static", *options],
            ["make", *jobs()], ["make", "install"]]


def zlib(tools: Tools) -> list[list[str]]:
    return [["./configure", f"--prefix={tools.prefix}", "--static"], ["make", *jobs(), "libz.a"], ["make", "install"]]


def bzip2(tools: Tools) -> list[list[str]]:
    flags = f"{FLAGS} -fvisibility=hidden -D_FILE_OFFSET_BITS=64"
    described = f"Name: bzip2\nDescription: bzip2\nVersion: 1.0\nLibs: -L{tools.prefix}/lib -lbz2\nCflags: -I{tools.prefix}/include\n"
    return [["make", *jobs(), "libbz2.a", f"CC={tools.compiler}", f"AR={tools.home}/llvm-ar", f"RANLIB={tools.home}/llvm-ranlib", f"CFLAGS={flags}"],
            ["install", "-m644", "libbz2.a", f"{tools.prefix}/lib"], ["install", "-m644", "bzlib.h", f"{tools.prefix}/include"],
            ["sh", "-c", 'printf %s "$0" >"$1"', described, f"{tools.prefix}/lib/pkgconfig/bzip2.pc"]]


def xz(tools: Tools) -> list[list[str]]:
    programs = ("xz", "xzdec", "lzmadec", "lzmainfo", "lzma-links", "scripts", "doc", "nls")
    return autoconf(tools, *(f"--disable-{name}" for name in programs))


def libffi(tools: Tools) -> list[list[str]]:
    return autoconf(tools, "--disable-docs", "--disable-multi-os-directory")


def uuid(tools: Tools) -> list[list[str]]:
    return autoconf(tools, "--disable-all-programs", "--enable-libuuid", "--disable-nls", "--disable-bash-completion", "--without-systemd",
                    "--disable-asciidoc", "--disable-poman", "--localstatedir=/var", "--runstatedir=/run")


def sqlite(tools: Tools) -> list[list[str]]:
    options = " ".join(f"-DSQLITE_{name}" for name in SQLITE)
    return [["./configure", f"--prefix={tools.prefix}", "--disable-shared", "--enable-static", "--disable-tcl", "--disable-readline",
             f"CFLAGS={FLAGS} -fvisibility=hidden {options}"],
            ["make", *jobs(), "libsqlite3.la", "sqlite3.h", "sqlite3.pc"],
            ["sh", "-c", 'cp .libs/libsqlite3.a "$0/lib" && cp sqlite3.h "$0/include" && cp src/sqlite3ext.h "$0/include" && '
                         'cp sqlite3.pc "$0/lib/pkgconfig"', str(tools.prefix)]]


def ncurses(tools: Tools) -> list[list[str]]:
    return [["./configure", f"--prefix={tools.prefix}", f"--libdir={tools.prefix}/lib", "--without-shared", "--with-normal", "--without-debug",
             "--without-ada", "--without-cxx", "--without-cxx-binding", "--without-progs", "--without-tests", "--without-manpages",
             "--enable-widec", "--enable-pc-files", f"--with-pkg-config-libdir={tools.prefix}/lib/pkgconfig", "--disable-stripping",
             "--enable-overwrite=no", "--with-default-terminfo-dir=/usr/share/terminfo",
             "--with-terminfo-dirs=/etc/terminfo:/lib/terminfo:/usr/share/terminfo:/usr/lib/terminfo"],
            ["make", *jobs(), "libs"], ["make", "install.libs", "install.includes"],
            # What asks for the name that every system has.
            ["ln", "-sf", "libncursesw.a", f"{tools.prefix}/lib/libncurses.a"]]


def libedit(tools: Tools) -> list[list[str]]:
    return autoconf(tools, "--disable-examples")


def openssl(tools: Tools) -> list[list[str]]:
    # Its legacy algorithms are part of the library: a module of their own would be looked for where it was built. The library has the
    # command of its compiler in it: the one that is on PATH, a script.
    staged = tools.prefix / "openssl"
    return [["./Configure", "linux-x86_64-clang", "--prefix=/usr", "--libdir=lib", "--openssldir=/etc/ssl", "shared", "no-tests",
             "no-docs", "no-apps", "no-module", f"{FLAGS}", "CC=cc", "CPPFLAGS="],
            ["make", *jobs(), "build_libs"], ["make", "install_dev", f"DESTDIR={staged}"],
            ["sh", "-c", 'cp -a "$0/usr/." "$1" && rm -r "$0"', str(staged), str(tools.prefix)]]


LIBRARIES = (
    Library("zlib", "libz.a", "Zlib", zlib),
    Library("bzip2", "libbz2.a", "bzip2-1.0.6", bzip2),
    Library("xz-utils", "liblzma.a", "0BSD", xz),
    Library("libffi", "libffi.a", "MIT", libffi),
    Library("util-linux", "libuuid.a", "BSD-3-Clause", uuid),
    Library("sqlite3", "libsqlite3.a", "blessing", sqlite),
    Library("ncurses", "libncursesw.a", "X11-distribute-modifications-variant", ncurses),
    Library("libedit", "libedit.a", "BSD-3-Clause", libedit),
    Library("openssl", "libssl.so.3", "Apache-2.0", openssl, hidden=False),
)
VERSIONS = "versions"


def make(tools: Tools, work: Path) -> dict[str, str]:
    """Builds what is missing in `tools.prefix`. Returns the versions of the source packages."""
    for directory in ("lib/pkgconfig", "include", VERSIONS):
        (tools.prefix / directory).mkdir(parents=True, exist_ok=True)
    tools.programs.mkdir(exist_ok=True)
    script = tools.programs / "cc"
    script.write_text(f'#!/bin/sh\nexec {tools.compiler} "$@"\n')
    script.chmod(0o755)
    missing = [library for library in LIBRARIES if not (tools.prefix / VERSIONS / library.source).exists()]
    suites = [Suite(name, work / "apt" / name) for name in SUITES] if missing else []
    for library in missing:
        source = work / "source" / library.source
        shutil.rmtree(source, ignore_errors=True)
        source.parent.mkdir(parents=True, exist_ok=True)
        version = unpack(library.source, suites, source)
        build(library, tools, source)
        keep_license(library, source, tools.prefix)
        (tools.prefix / VERSIONS / library.source).write_text(version)
        shutil.rmtree(source)
    return {library.source: (tools.prefix / VERSIONS / library.source).read_text() for library in LIBRARIES}


def unpack(name: str, suites: list[Suite], target: Path) -> str:
    errors = []
    for suite in suites:
        try:
            return suite.source(name, target)
        except Unreachable as error:
            errors.append(str(error))
    raise Unreachable("; ".join(errors))


def build(library: Library, tools: Tools, source: Path) -> None:
    flags = FLAGS + (" -fvisibility=hidden" if library.hidden else "")
    for number, command in enumerate(library.commands(tools)):
        log = places.logs() / f"binary-{library.source}-{number}.log"
        label = f"{library.source}: {Path(command[0]).name} {' '.join(command[1:2]) if command[0] == 'make' else ''}".rstrip()
        running.logged(command, f"building {library.source} failed", label=label, log=log, cwd=source, env=tools.environment(flags))
    if not (tools.prefix / "lib" / library.made).exists():
        raise BuildError(f"building {library.source} left no {library.made} in {tools.prefix}/lib")


def keep_license(library: Library, source: Path, prefix: Path) -> None:
    """What Debian says of who holds the copyright, for the tarball."""
    place = prefix / "licenses"
    place.mkdir(exist_ok=True)
    shutil.copyfile(source / "debian" / "copyright", place / f"{library.source}.txt")
