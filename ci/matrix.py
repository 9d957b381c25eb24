#!/usr/bin/env python3
"""Build Ferrule as its users do, in each of the ways below, and run all tests on what came out.

    ci/matrix --list           the builds, and what each is for
    ci/matrix NAME...          these builds, one after the other; an hour and a half each
    ci/matrix --publish NAME   and write the rows to docs/builds.md
    ci/matrix --quick NAME     the project's tests of frames alone, and none of CPython's: half an hour
    ci/matrix --short NAME     a smaller part, which needs no stock build beside: ten minutes. Of the Python tests that is a third,
                               which moves on by one with every fourth commit

Each is built from the last commit, in a clone of its own below build/matrix, which is kept and used again; so is a stock CPython
of the same tree and flags. What fails there too is no failure here. Some are built in a Debian 13 (root, debootstrap), which is
kept too. The last line is the counts.
"""

import argparse
import fcntl
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from ci.builds import BUILDS, PAGE, publish, row
from tests import run as project_tests
from tests.debian.chroot import Chroot, Failed
from tests.steps import Counts
from tools.clone import at_last_commit

ROOT = Path(__file__).resolve().parent.parent

BELOW = ROOT / "build" / "matrix"
HOUR = 3600
# All that `make test` runs, but for CPython's tests about frames: they are among those of CPython's whole suite.
ALL = ("--groups", ",".join(group for group in project_tests.DEFAULT_GROUPS if group != "cpython"))
# Of the project's tests, those of what depends on how it was built; and those of them that need no stock build beside.
QUICK = ("--groups", "c,python,differential,greenlet")
SHORT = ("--groups", "c,python")


class Place:
    """The last commit, in a clone below build/matrix that an earlier run may have left; and commands in it."""

    def __init__(self, name: str):
        self.directory = BELOW / name

    def prepare(self) -> None:
        at_last_commit(ROOT, self.directory)

    def git(self, *words: str) -> str:
        return subprocess.run(["git", *words], cwd=self.directory, capture_output=True, text=True, check=True).stdout.strip()

    def commit(self) -> str:
        return self.git("rev-parse", "--short", "HEAD")

    def commits(self) -> int:
        return int(self.git("rev-list", "--count", "HEAD"))

    def command(self, words: tuple[str, ...], file: IO[str]) -> int:
        # What was chosen for the clone that this runs in is not for that one.
        clean = {key: value for key, value in os.environ.items() if not re.match(r"(CC|CFLAGS|LDFLAGS|CPYTHON_\w+|MAKEFLAGS|MFLAGS|PROFILE_\w+)$", key)}
        return subprocess.run(words, cwd=self.directory, stdout=file, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, env=clean).returncode

    def run(self, log: Path, *words: str) -> tuple[int, str]:
        """(exit status, what it said)."""
        print(f"  {' '.join(words)}   (log: {log.relative_to(ROOT)})", flush=True)
        log.parent.mkdir(parents=True, exist_ok=True)
        with log.open("w") as file:
            status = self.command(words, file)
        return status, log.read_text(errors="replace")


class PlaceInDebian(Place):
    """A clone in a Debian 13 of its own, with the compilers that are there."""

    def __init__(self, name: str, packages: tuple[str, ...]):
        self.chroot, self.inside = Chroot(BELOW / "chroot"), f"/root/{name}"
        self.directory, self.packages = self.chroot.root / self.inside.lstrip("/"), packages

    def prepare(self) -> None:
        if os.geteuid() != 0 or not shutil.which("debootstrap"):
            raise Failed("run as root, with debootstrap installed")
        self.chroot.make()
        # greenlet, which tests build, is C++.
        self.chroot.install("make", "git", "python3", "ca-certificates", "g++", *self.packages)
        super().prepare()
        self.chroot.run("make", "-C", self.inside, "deps")

    def command(self, words: tuple[str, ...], file: IO[str]) -> int:
        return self.chroot.run("sh", "-c", 'cd "$0" && exec "$@"', self.inside, *words, check=False, seconds=5 * HOUR, output=file).returncode


@contextmanager
def alone(name: str) -> Iterator[None]:
    """No other run of this build works in its place meanwhile."""
    BELOW.mkdir(parents=True, exist_ok=True)
    with (BELOW / f"{name}.lock").open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise Failed("another run of this build is under way") from None
        yield


def attempt(name: str, groups: tuple[str, ...]) -> tuple[Counts, str]:
    """The counts of all steps, and the row for the table; a build that does not come to be is one failure. Without `groups` all tests
    run, CPython's too."""
    build, logs = BUILDS[name], BELOW / "logs"
    place = Place(name) if build.debian is None else PlaceInDebian(name, build.debian)
    place.prepare()
    beside: tuple[str, ...] = ("--stock", "build/stock/python")
    if groups == SHORT:
        beside = ("--part", str(place.commits() // 4 % 3 + 1), "3")
    steps = [("configure", "./configure", *build.flags), ("make", "make"), *([("make-stock", "make", "stock")] if groups != SHORT else [])]
    for what, *words in steps:
        status, said = place.run(logs / f"{name}-{what}.log", *words)
        if status != 0:
            reason = next((line for line in reversed(said.splitlines()) if line.startswith("ferrule: ")), f"exit status {status}")
            print(f"  FAILED: {reason}", flush=True)
            return Counts(failed=1), row(name, build.flags, place.commit(), f"does not build: {reason}", "")
    cells: list[str] = []
    total = Counts()
    for what, *words in [("test", *groups)] if groups else [("test", *ALL), ("suite", "--suite")]:
        status, said = place.run(logs / f"{name}-{what}.log", "python3", "tests/run.py", "--python", "build/ferrule/python", *beside, *words)
        counts = Counts.of_summary(said, status)
        print(*re.findall(r"^ +failed: .*\n", said, re.M), sep="", end="", flush=True)
        total += counts
        cells.append(str(counts))
        print(f"  {cells[-1]}", flush=True)
    return total, row(name, build.flags, place.commit(), *[*cells, ""][:2])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"one of {', '.join(BUILDS)}; or all")
    parser.add_argument("--list", action="store_true", help="say which builds there are")
    parser.add_argument("--quick", action="store_true", help="a part of the tests")
    parser.add_argument("--short", action="store_true", help="a smaller part")
    parser.add_argument("--publish", action="store_true", help=f"write {PAGE.relative_to(ROOT)}")
    options = parser.parse_args()
    if options.list:
        for name, build in BUILDS.items():
            print(f"{name:20} {' '.join(build.flags):48} {build.what}")
        return 0
    names = list(BUILDS) if options.names == ["all"] else options.names
    if not names or (unknown := [name for name in names if name not in BUILDS]):
        parser.error("name a build, or all; --list says which there are" if not names else f"there is no build {', '.join(unknown)}")
    if options.publish and (options.quick or options.short):
        parser.error("--publish is for all tests")
    groups = SHORT if options.short else QUICK if options.quick else ()
    total, rows = Counts(), {}
    for name in names:
        print(f"=== {name}: {BUILDS[name].what}", flush=True)
        if BUILDS[name].needs and not shutil.which(BUILDS[name].needs):
            print(f"  skipped: {BUILDS[name].needs} is not there", flush=True)
            total.skipped += 1
            continue
        try:
            with alone(name):
                counts, rows[name] = attempt(name, groups)
        except (Failed, subprocess.SubprocessError) as error:
            print(f"  FAILED: {error}", flush=True)
            total.failed += 1
            continue
        total += counts
        if options.publish:
            publish(rows)
    print(total)
    return 1 if total.failed or not total.passed else 0


if __name__ == "__main__":
    sys.exit(main())
