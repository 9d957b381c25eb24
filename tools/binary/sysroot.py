"""The C library that a binary is linked against: the oldest one that it runs with."""

import os
import shutil
from pathlib import Path

from tools.binary.debian import Suite

# glibc 2.31.
SUITE = "bullseye"
PACKAGES = ["libc6", "libc6-dev", "linux-libc-dev", "libcrypt1", "libcrypt-dev", "libgcc-10-dev", "libgcc-s1"]
DONE = "made-of"


def make(place: Path, work: Path) -> Path:
    """Headers and libraries below `place`."""
    if not (place / DONE).exists():
        shutil.rmtree(place, ignore_errors=True)
        versions = Suite(SUITE, work / SUITE).unpack(PACKAGES, place)
        keep_links_inside(place)
        (place / DONE).write_text("\n".join(versions) + "\n")
    return place


def keep_links_inside(place: Path) -> None:
    """Makes links relative: an absolute one leads out of the sysroot."""
    for path in place.rglob("*"):
        if path.is_symlink() and path.readlink().is_absolute():
            target = place / path.readlink().relative_to("/")
            path.unlink()
            path.symlink_to(os.path.relpath(target, path.parent))
