#!/usr/bin/env python3
"""Build packaging/Containerfile from the tarball of `make binary`, and use what came out.

The base image is a Debian 13 made by debootstrap, so no registry is contacted. As root, with debootstrap and buildah; the steps run
in chroots, which needs no container runtime. --storage keeps images and the steps that were built, and uses them again.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from tests.binary.run import tarball
from tests.debian.chroot import Chroot, Failed, counted

ROOT = Path(__file__).resolve().parents[2]
BASE, IMAGE = "localhost/debian:trixie-slim", "localhost/ferrule"
# What a user of the image does first: look at it, make an environment, install into it, and use a hook.
USE = (
    ("python3", "-c", "import _framecore, sys; print(sys.version)"),
    ("pip", "--version"),
    ("sh", "-c", "python -m venv /tmp/env && /tmp/env/bin/pip --version"),
    ("python3", "-c", "import framehook, ssl, sqlite3, ctypes, lzma, bz2, zlib, curses, readline, uuid, dbm.sqlite3"),
    ("python3", "-m", "pydoc", "framehook"),
)


class Buildah:
    def __init__(self, storage: Path):
        self.options = ("--storage-driver", "vfs", "--root", str(storage / "images"), "--runroot", str(storage / "run"))

    def run(self, *words: str, seconds: int = 600) -> str:
        done = subprocess.run(["buildah", *self.options, *words], capture_output=True, text=True, errors="replace",
                              stdin=subprocess.DEVNULL, timeout=seconds)
        if done.returncode != 0:
            raise Failed(f"buildah {' '.join(words)[:200]}: exit status {done.returncode}\n{(done.stdout + done.stderr)[-3000:]}")
        return done.stdout

    def base(self, directory: Path) -> None:
        """The base image, of a directory with a Debian in it; where it is kept, that one, or no step that was built is found again."""
        if self.run("images", "--quiet", "--filter", f"reference={BASE}").strip():
            return
        container = self.run("from", "scratch").strip()
        self.run("add", "--quiet", container, str(directory), "/")
        self.run("commit", "--quiet", container, BASE)
        self.run("rm", container)


def use(buildah: Buildah) -> list[list[str]]:
    """The first line of what each said."""
    container = buildah.run("from", IMAGE).strip()
    try:
        return [buildah.run("run", "--isolation", "chroot", container, "--", *words).splitlines()[0:1] for words in USE]
    finally:
        buildah.run("rm", container)


def layers(buildah: Buildah, place: Path) -> list[int]:
    """The sizes of the image's layers as a registry would have them, the base's first."""
    buildah.run("push", "--compression-format", "gzip", IMAGE, f"oci:{place}")

    def blob(described: dict) -> dict:
        return json.loads((place / "blobs" / described["digest"].replace(":", "/")).read_text())

    manifest = blob(json.loads((place / "index.json").read_text())["manifests"][0])
    return [layer["size"] for layer in manifest["layers"]]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--root", type=Path, help="a chroot of Debian 13 to make, or to use again; kept")
    parser.add_argument("--storage", type=Path, help="where images are; kept")
    options = parser.parse_args()
    if os.geteuid() != 0 or not all(map(shutil.which, ("debootstrap", "buildah"))):
        sys.exit("container.py: run as root, with debootstrap and buildah installed")
    binary = tarball()
    with tempfile.TemporaryDirectory() as temporary:
        chroot = Chroot((options.root or Path(temporary) / "trixie").absolute())
        buildah = Buildah((options.storage or Path(temporary) / "storage").absolute())
        context = Path(temporary) / "context"
        context.mkdir()

        def steps() -> Iterator[bool]:
            shutil.copy(binary, context)
            chroot.make()
            buildah.base(chroot.root)
            buildah.run("bud", "--layers", "--isolation", "chroot", "--build-arg", f"BASE={BASE}", "--tag", IMAGE,
                        "--file", str(ROOT / "packaging/Containerfile"), str(context))
            base, *ours = layers(buildah, Path(temporary) / "image")
            print(f"built: {sum(ours) / 1e6:.0f} MB, compressed, above a base of {base / 1e6:.0f}: {[round(size / 1e6, 1) for size in ours]}", flush=True)
            yield True
            for said in use(buildah):
                print("  ", *said, flush=True)
            yield True
        return counted(steps())


if __name__ == "__main__":
    sys.exit(main())
