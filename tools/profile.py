#!/usr/bin/env python3
"""The profiles that packages and binaries are optimized by, in packaging/profile: for each major version of LLVM, one of each base.

  profile.py         make them anew: builds the last commit with counters in build/profile, and trains it with CPython's tests and programs.py
  profile.py --base 3.13.15   one of them
  profile.py --check fail where a profile is of other patches than these

A function that a patch has changed since is optimized as if it had no profile. CPYTHON_TARBALL= names the source of the binary's base
where python.org is not within reach.
"""

import argparse
import lzma
import os
import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from cpython.upstream.pins import Pins
from tools import patches, program, progress, running
from tools.clone import at_last_commit
from tools.errors import BuildError
from tools.places import BUILD, ROOT, logs
from tools.progress import say
from tools.running import said

PROFILES = ROOT / "packaging" / "profile"
# What `make dist`, `make deb` and `make binary` take with it: PROFILE=stale.
VARIABLE, ALLOWED = "PROFILE", "stale"
# The first half of CPython's own target for such a build.
FLAGS = ["--enable-optimizations", "--with-lto"]
TRAINED = "profile-run-stamp"


@dataclass(frozen=True)
class Base:
    """A release of CPython that something is published of: its choices, and the variables that it takes from the environment."""

    version: str
    choices: tuple[str, ...]
    variables: tuple[str, ...] = ()

    def profile(self, llvm: int | str) -> Path:
        return PROFILES / f"{self.version}-llvm-{llvm}.profdata.xz"

    def patches(self, tree: Path) -> str:
        """A digest of the patches of a tree for this release."""
        return patches.digest(tree / patches.default_directory(self.version).relative_to(ROOT), self.version, compiled=True)


# Debian's packages share the library of Debian's python3.13. Who downloads an interpreter expects the newest.
PACKAGES = Base("3.13.5", ("CPYTHON_SERIES=debian",))
BINARY = Base("3.13.15", ("CPYTHON_VERSION=3.13.15",), ("CPYTHON_TARBALL",))
BASES = (PACKAGES, BINARY)


def packaged() -> tuple[Pins, dict]:
    """The release of CPython that packages have."""
    pins = Pins(ROOT / "cpython" / "upstream.toml")
    return pins, pins.release(PACKAGES.version)


def patches_of(profile: Path) -> Path:
    """The file that names the patches that a profile was made of."""
    return profile.with_name(profile.name.removesuffix(".profdata.xz") + ".patches")


def stale(bases: Sequence[Base] = BASES) -> list[str]:
    """The names of the profiles that were made of other patches."""
    return [profile.name for base in bases for profile in sorted(PROFILES.glob(base.profile("*").name))
            if not patches_of(profile).exists() or patches_of(profile).read_text().strip() != base.patches(ROOT)]


def refuse_stale(base: Base) -> None:
    """A release is made with a profile of its own patches, unless PROFILE=stale says otherwise."""
    names = stale([base])
    if not names:
        return
    problem = f"{', '.join(names)} was made of other patches: what they have changed since is built without a profile"
    if os.environ.get(VARIABLE) != ALLOWED:
        raise BuildError(f"{problem}\n  `make profile` makes it anew; {VARIABLE}={ALLOWED} takes it as it is")
    say(f"warning: {problem}")


def make(base: Base) -> None:
    """Builds and trains in a clone, so that what this clone has configured and built stays."""
    if not (ROOT / ".git").exists():
        raise BuildError("a profile is made in a clone of the project, and this is no clone: a source release comes with its profile")
    place = BUILD / "profile"
    at_last_commit(ROOT, place)
    # A build that was interrupted keeps the stamp of its training.
    build = place / "build" / "ferrule"
    (build / TRAINED).unlink(missing_ok=True)
    for what, command in (("configure", ["./configure", *base.choices, *FLAGS]),
                          ("train", [sys.executable, "-B", "-m", "tools.build", "make", "ferrule", TRAINED])):
        run(command, place, f"{base.version}-{what}", environment(base))
    keep(build, base, base.patches(place))


def run(command: list[str], place: Path, name: str, variables: dict[str, str]) -> None:
    log = logs() / f"profile-{name}.log"
    running.logged(command, "the profile was not made", label=f"profile: {name}", log=log, cwd=place, env=variables)


def environment(base: Base) -> dict[str, str]:
    """Without what a make above says to its children, and without choices for another build."""
    kept = ("PATH", "HOME", "FERRULE_CACHE", "XDG_CACHE_HOME", "CARGO_HOME", "RUSTUP_HOME", "CARGO_NET_OFFLINE", "TMPDIR", "LANG", "TERM", "V",
            *base.variables)
    return {name: os.environ[name] for name in kept if name in os.environ}


def keep(build: Path, base: Base, of_patches: str) -> None:
    """Stores the profile of a build, compressed, under its release and its compiler's major version."""
    found = build / "code.profclangd"
    if not found.exists():
        raise BuildError(f"{build} has no profile")
    compiler = re.search(r"^CC=[ \t]*(\S+)", (build / "Makefile").read_text(), re.M)
    major = re.search(r"clang version (\d+)", said([compiler[1], "--version"])) if compiler else None
    if major is None:
        raise BuildError(f"{build} was not made by clang ({compiler and compiler[1]})")
    target = base.profile(major[1])
    target.write_bytes(lzma.compress(found.read_bytes(), preset=9))
    patches_of(target).write_text(of_patches + "\n")
    say(f"{target.name}: {target.stat().st_size / 1e6:.1f} MB; commit it with {patches_of(target).name}")


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="make nothing; fail where the profile is of other patches")
    parser.add_argument("--base", choices=[base.version for base in BASES], help="the profile of one base (default: all, one after the other)")
    options = parser.parse_args(arguments)
    if not options.check:
        progress.heed_interrupts()
        for base in BASES:
            if options.base in (None, base.version):
                make(base)
    elif names := stale():
        raise BuildError(f"{', '.join(names)} was made of other patches; `make profile` makes it anew")


if __name__ == "__main__":
    program.run(main)
