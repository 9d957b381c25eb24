"""The tarball, and the list of it that uv reads."""

import gzip
import hashlib
import json
import os
import subprocess
import tarfile
from pathlib import Path

from tools.release import add_file

# The names that uv and python-build-standalone have for it.
TRIPLE = "x86_64-unknown-linux-gnu"
DOWNLOADS = "downloads.json"


def name(version: str, ours: str) -> str:
    return f"cpython-{version}+ferrule.{ours}-{TRIPLE}-install_only.tar.gz"


def compile_all(root: Path, python: Path, when: int) -> None:
    """Bytecode, valid for files of that time."""
    for path in root.rglob("*.py"):
        if not path.is_symlink():
            set_time(path, when)
    subprocess.run([python, "-I", "-m", "compileall", "-q", "-j0", "-s", str(root), "-p", "", str(root / "lib")], check=True,
                   stdin=subprocess.DEVNULL)


def set_time(path: Path, when: int) -> None:
    os.utime(path, (when, when))


def tarball(root: Path, target: Path, when: int) -> str:
    """Packs `root` as `python/`: sorted, without an owner, of one time. Returns its sha256."""
    target.parent.mkdir(parents=True, exist_ok=True)
    temporary = target.with_name(target.name + ".tmp")
    with temporary.open("wb") as raw, gzip.GzipFile("", "wb", 9, raw, mtime=0) as packed, \
            tarfile.open(fileobj=packed, mode="w|", format=tarfile.GNU_FORMAT) as tar:
        for path in [root, *sorted(root.rglob("*"))]:
            add_file(tar, path, str(Path("python") / path.relative_to(root)), when)
    temporary.replace(target)
    with target.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def downloads(tar: Path, version: str, sha256: str, build: str) -> str:
    """For `uv python install --python-downloads-json-url`: the tarball beside it."""
    major, minor, patch = version.split(".")
    return json.dumps({f"cpython-{version}-linux-x86_64-gnu": {
        "name": "cpython", "arch": {"family": "x86_64", "variant": None}, "os": "linux", "libc": "gnu", "major": int(major), "minor": int(minor),
        "patch": int(patch), "prerelease": "", "url": tar.absolute().as_uri(), "sha256": sha256, "variant": None, "build": build,
    }}, indent=1) + "\n"
