#!/usr/bin/env python3
"""Build Ferrule's packages in a fresh Debian, without a network, and look at what came out.

  build.py                 all packages on Debian 13, to build/dist/debian-13
  build.py --suite bookworm  the self-contained one on Debian 12, to build/dist/debian-12
  build.py --again         build a second time: in another directory, at another time, as another user, with another locale and
                           number of jobs; and compare. What differs is an error; diffoscope says what it is

As root. lintian must find no error. The chroot is made by debootstrap, anew each time; --root keeps it and uses it again.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from tests.debian.chroot import RELEASES, Chroot, Failed, counted

ROOT = Path(__file__).resolve().parents[2]
OWN = "pkg.ferrule.own"
HOUR = 3600


def source_package(release: int) -> Path:
    subprocess.run([sys.executable, "-B", "-m", "tools.release", "source", "--release", str(release)], cwd=ROOT, check=True)
    tree, = (path for path in (ROOT / "build" / "dist" / f"debian-{release}").iterdir() if path.is_dir())
    return tree


def prepare(chroot: Chroot, tree: Path, profiles: list[str]) -> None:
    chroot.make()
    chroot.install("dpkg-dev", "debhelper", "lintian", "adduser", "locales-all")
    place = chroot.root / "build"
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir()
    shutil.copytree(tree, place / tree.name, symlinks=True)
    for file in tree.parent.glob("*.*"):
        if file.suffix in (".dsc", ".xz"):
            shutil.copy(file, place)
    chroot.run("apt-get", "build-dep", "-y", *(f"-P{profile}" for profile in profiles), f"/build/{tree.name}", seconds=HOUR)


def build(chroot: Chroot, tree: Path, where: str, profiles: list[str], environment: dict[str, str], jobs: int) -> Path:
    """The directory with the packages, made of a copy of the tree at this place of the chroot."""
    place = chroot.root / where.lstrip("/") / tree.name
    shutil.rmtree(place.parent, ignore_errors=True)
    place.parent.mkdir(parents=True)
    shutil.copytree(tree, place, symlinks=True)
    if "USER" in environment:
        if chroot.run("id", environment["USER"], check=False).returncode != 0:
            chroot.run("adduser", "--disabled-password", "--gecos", "", environment["USER"])
        chroot.run("chown", "-R", environment["USER"], where)
    words = ["dpkg-buildpackage", "-us", "-uc", "-b", f"-j{jobs}", *(f"-P{profile}" for profile in profiles)]
    command = f"cd {where}/{tree.name} && umask {environment.pop('UMASK', '022')} && {' '.join(words)} >../log 2>&1"
    who = ["runuser", "-u", environment["USER"], "--"] if "USER" in environment else []
    started = time.monotonic()
    done = chroot.run(*who, "sh", "-c", command, check=False, seconds=3 * HOUR, network=False, environment=environment)
    log = place.parent / "log"
    if done.returncode != 0:
        raise Failed(f"dpkg-buildpackage failed:\n{done.stderr}{log.read_text(errors='replace')[-3000:]}")
    print(f"built in {(time.monotonic() - started) / 60:.0f} minutes, without a network: {place.parent}", flush=True)
    return place.parent


def differing(first: Path, second: Path) -> list[str]:
    names = {path.name for place in (first, second) for path in place.glob("*.deb")}
    return [name for name in sorted(names)
            if not ((first / name).exists() and (second / name).exists())
            or (first / name).read_bytes() != (second / name).read_bytes()]


def lint(chroot: Chroot, place: Path) -> list[str]:
    """What lintian has to say of the packages and of their source; its errors are ours."""
    inside = "/" + str(place.relative_to(chroot.root))
    # Without dpkg-dev outside the chroot there is no .dsc.
    source = " /build/*.dsc" if list((chroot.root / "build").glob("*.dsc")) else ""
    said = chroot.run("sh", "-c", f"lintian --fail-on none --tag-display-limit 0 {inside}/*.changes{source}", seconds=HOUR).stdout
    print(said, flush=True)
    return [line for line in said.splitlines() if line.startswith("E:")]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--suite", default="trixie", choices=("trixie", "bookworm"))
    parser.add_argument("--root", type=Path, help="a chroot to make, or to use again; kept")
    parser.add_argument("--again", action="store_true")
    options = parser.parse_args()
    if os.geteuid() != 0 or not shutil.which("debootstrap"):
        sys.exit("build.py: run as root, with debootstrap installed")
    profiles = [OWN] if options.suite == "bookworm" else []
    with tempfile.TemporaryDirectory() as temporary:
        chroot = Chroot((options.root or Path(temporary) / options.suite).absolute(), options.suite)

        def steps() -> Iterator[bool]:
            tree = source_package(RELEASES[options.suite])
            prepare(chroot, tree, profiles)
            first = build(chroot, tree, "/build/first", profiles, {}, 2)
            yield True
            yield not lint(chroot, first)
            for deb in first.glob("*.deb"):
                shutil.copy(deb, tree.parent)
            if options.again:
                second = build(chroot, tree, "/srv/a/second/place", profiles, {
                    "USER": "builder", "HOME": "/home/builder", "LC_ALL": "de_DE.UTF-8", "TZ": "Pacific/Auckland", "UMASK": "002"}, 1)
                other = differing(first, second)
                print(f"the same packages both times: {not other}", *other, sep="\n  ", flush=True)
                yield not other
        return counted(steps())


if __name__ == "__main__":
    sys.exit(main())
