"""The builds that users make, and the page of the docs that says which of them were tried."""

import datetime
from dataclasses import dataclass
from pathlib import Path

from ci.table import put_rows

PAGE = Path(__file__).resolve().parent.parent / "docs" / "builds.md"
HEAD = """# The builds that are tried

Each row is written by `ci/matrix --publish NAME`: configured with these flags, built, `make test` and CPython's whole suite beside a stock CPython
of the same tree and flags. What fails on that too is not counted as failed. CPython's tests that `make test` has are run once, with the whole suite, and
counted there (rows of commits before dc425b4 have them in both columns). `ci/arm64` writes the row of arm64: cross-built, under qemu's
emulation, with the tests in C and Python in place of `make test` (rows of commits after d53cecb with those of `ferrule_jit`), and of CPython's those
about frames.

| build | flags | commit | when | `make test` | CPython's suite |
|---|---|---|---|---|---|
"""


@dataclass(frozen=True)
class Build:
    what: str
    flags: tuple[str, ...] = ()
    # A program that has to be there.
    needs: str = ""
    # It is built in a Debian 13, with these packages beside what `make deps` installs; None: on this machine.
    debian: tuple[str, ...] | None = None


BUILDS = {
    "default": Build("as `make` builds it: no LTO"),
    "thinlto": Build("ThinLTO across C and Rust", ("--with-lto=thin", "--with-cross-lto=yes")),
    "pgo": Build("profile-guided, LTO across C and Rust, as a distribution builds it", ("--enable-optimizations", "--with-lto")),
    "debug": Build("CPython's own checks", ("--with-pydebug",)),
    "free-threaded": Build("without the GIL", ("--disable-gil",)),
    "free-threaded-debug": Build("without the GIL, with CPython's own checks", ("--disable-gil", "--with-pydebug")),
    "shared": Build("a shared library", ("--enable-shared",)),
    "pystats": Build("CPython's counters of the specializing interpreter", ("--enable-pystats",)),
    "trace-refs": Build("a list of all objects", ("--with-pydebug", "--with-trace-refs")),
    "tier2": Build("the second tier's interpreter, on", ("--enable-experimental-jit=interpreter",)),
    "gcc": Build("gcc, without LTO", ("CC=gcc",), "gcc"),
    "gcc-lto": Build("gcc, with its LTO: calls into Rust stay calls", ("CC=gcc", "--with-lto"), "gcc"),
    "gcc-pgo": Build("gcc, profile-guided", ("CC=gcc", "--enable-optimizations", "--with-lto"), "gcc"),
    "debian-13": Build("Debian 13's clang 19 and rustc 1.85", debian=()),
    "jit": Build("the copy-and-patch compiler, in Debian 13", ("--enable-experimental-jit",), debian=("clang-18", "llvm-18")),
    "3.13.15": Build("the newest release that is pinned", ("CPYTHON_VERSION=3.13.15",)),
}
# The row that `ci/arm64` writes.
ARM64 = "arm64"


def row(name: str, flags: tuple[str, ...], commit: str, tests: str, suite: str) -> str:
    return f"| {name} | {' '.join(f'`{flag}`' for flag in flags)} | {commit} | {datetime.date.today()} | {tests} | {suite} |"


def publish(rows: dict[str, str]) -> None:
    put_rows(PAGE, HEAD, rows, [*BUILDS, ARM64])
