#!/usr/bin/env python3
"""The profile that packages and binaries are optimized by: one for each major version of LLVM, in packaging/profile.

  profile.py         make it anew: builds the last commit, of Debian's whole series, with counters, in build/profile,
                     and trains it with CPython's tests
  profile.py --check fail where the profile is of other patches than these

A function that a patch has changed since is optimized as if it had no profile.
"""

import argparse
import lzma
import os
import re
import sys
from pathlib import Path

from cpython.upstream.messages import FetchError
from cpython.upstream.pins import Pins
from tools import patches, progress
from tools.clone import at_last_commit
from tools.errors import BuildError, cause, explain
from tools.places import BUILD, ROOT, logs
from tools.progress import say
from tools.running import said

PROFILES = ROOT / "packaging" / "profile"
# What `make dist`, `make deb` and `make binary` take with it: PROFILE=stale.
VARIABLE, ALLOWED = "PROFILE", "stale"
# What the profile is made of, and the first half of CPython's own target for such a build.
CHOICES = ["CPYTHON_SERIES=debian", "--enable-optimizations", "--with-lto"]
TRAINED = "profile-run-stamp"


def packaged() -> tuple[Pins, dict]:
    """The release of CPython that packages have."""
    pins = Pins(ROOT / "cpython" / "upstream.toml")
    return pins, next(release for release in pins.releases.values() if release["debian_fixes"])


def patches_in(tree: Path) -> str:
    version = packaged()[1]["version"]
    return patches.digest(tree / patches.default_directory(version).relative_to(ROOT), version, compiled=True)


def patches_of(profile: Path) -> Path:
    """The file that names the patches that a profile was made of."""
    return profile.with_name(profile.name.removesuffix(".profdata.xz") + ".patches")


def stale() -> list[str]:
    """The names of the profiles that were made of other patches."""
    now = patches_in(ROOT)
    return [profile.name for profile in sorted(PROFILES.glob("*.profdata.xz"))
            if not patches_of(profile).exists() or patches_of(profile).read_text().strip() != now]


def refuse_stale() -> None:
    """A release is made with a profile of its own patches, unless PROFILE=stale says otherwise."""
    names = stale()
    if not names:
        return
    problem = f"{', '.join(names)} was made of other patches: what they have changed since is built without a profile"
    if os.environ.get(VARIABLE) != ALLOWED:
        raise BuildError(f"{problem}\n  `make profile` makes it anew; {VARIABLE}={ALLOWED} takes it as it is")
    say(f"warning: {problem}")


def make() -> None:
    """Builds and trains in a clone, so that what this clone has configured and built stays."""
    if not (ROOT / ".git").exists():
        raise BuildError("a profile is made in a clone of the project, and this is no clone: a source release comes with its profile")
    place = BUILD / "profile"
    at_last_commit(ROOT, place)
    # A build that was interrupted keeps the stamp of its training.
    build = place / "build" / "ferrule"
    (build / TRAINED).unlink(missing_ok=True)
    run(["./configure", *CHOICES], place, "configure")
    run([sys.executable, "-B", "-m", "tools.build", "make", "ferrule", TRAINED], place, "train")
    keep(build, patches_in(place))


def run(command: list[str], place: Path, name: str) -> None:
    log = logs() / f"profile-{name}.log"
    if progress.run(command, label=f"profile: {name}", log=log, cwd=place, env=environment()) != 0:
        raise BuildError(f"the profile was not made: {cause(log.read_text(errors='replace'))}\n  the whole log is {log}")


def environment() -> dict[str, str]:
    """Without what a make above says to its children, and without choices for another build."""
    kept = ("PATH", "HOME", "FERRULE_CACHE", "XDG_CACHE_HOME", "CARGO_HOME", "RUSTUP_HOME", "CARGO_NET_OFFLINE", "TMPDIR", "LANG", "TERM",
            "CPYTHON_TARBALL", "CPYTHON_DEBIAN", "CC", "V")
    return {name: os.environ[name] for name in kept if name in os.environ}


def keep(build: Path, of_patches: str) -> None:
    """Stores the profile of a build, compressed, under its compiler's major version."""
    found = build / "code.profclangd"
    if not found.exists():
        raise BuildError(f"{build} has no profile")
    compiler = re.search(r"^CC=[ \t]*(\S+)", (build / "Makefile").read_text(), re.M)
    major = re.search(r"clang version (\d+)", said([compiler[1], "--version"])) if compiler else None
    if major is None:
        raise BuildError(f"{build} was not made by clang ({compiler and compiler[1]})")
    target = PROFILES / f"llvm-{major[1]}.profdata.xz"
    target.write_bytes(lzma.compress(found.read_bytes(), preset=9))
    patches_of(target).write_text(of_patches + "\n")
    say(f"{target.name}: {target.stat().st_size / 1e6:.1f} MB; commit it with {patches_of(target).name}")


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="make nothing; fail where the profile is of other patches")
    if not parser.parse_args(arguments).check:
        progress.heed_interrupts()
        make()
    elif names := stale():
        raise BuildError(f"{', '.join(names)} was made of other patches; `make profile` makes it anew")


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except (BuildError, FetchError) as error:
        sys.exit(f"ferrule: {error}")
    except OSError as error:
        sys.exit(f"ferrule: {explain(error)}")
