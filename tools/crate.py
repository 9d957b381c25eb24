#!/usr/bin/env python3
"""Lay out the crate framehook and the crates that it needs, as cargo's directory source has them.

  crate.py DIRECTORY

A project then names DIRECTORY in its .cargo/config.toml ([source.crates-io] replace-with, [source.NAME] directory), and
`framehook = "0.2"` needs no network, nor does PyO3. Runs in a source tree with vendored crates.
"""

import json
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
CRATE = "framehook"
# What is never compiled here: PyO3's tools for a platform that is not Linux.
LEFT_OUT = {"pyo3": "emscripten"}


def needed() -> list[dict]:
    """What the crate depends on, and what that depends on, as cargo describes it."""
    output = subprocess.run(["cargo", "metadata", "--locked", "--format-version", "1"], cwd=ROOT, capture_output=True, text=True,
                          check=True)
    metadata = json.loads(output.stdout)
    packages = {package["id"]: package for package in metadata["packages"]}
    nodes = {node["id"]: node["dependencies"] for node in metadata["resolve"]["nodes"]}
    first = next(identity for identity, package in packages.items() if package["name"] == CRATE)
    found, open_ = [], list(nodes[first])
    while open_:
        identity = open_.pop()
        if packages[identity] not in found:
            found.append(packages[identity])
            open_ += nodes[identity]
    return found


def leave_out(crate: Path, directory: str) -> None:
    """Take a directory away, and out of the list of files that cargo checks."""
    shutil.rmtree(crate / directory)
    noted = crate / ".cargo-checksum.json"
    checksum = json.loads(noted.read_text())
    checksum["files"] = {name: digest for name, digest in checksum["files"].items() if not name.startswith(directory + "/")}
    noted.write_text(json.dumps(checksum))


def main(target: Path) -> None:
    with tempfile.TemporaryDirectory() as temporary:
        # A package's manifest names what the workspace's leaves to the workspace.
        subprocess.run(["cargo", "package", "--quiet", "--package", CRATE, "--allow-dirty", "--no-verify", "--offline",
                        "--target-dir", temporary], cwd=ROOT, check=True)
        archive, = Path(temporary).glob(f"package/{CRATE}-*.crate")
        with tarfile.open(archive) as tar:
            tar.extractall(target, filter="data") if hasattr(tarfile, "data_filter") else tar.extractall(target)
        crate = target / archive.stem
        # What cargo notes of the machine, and its lock, which is the user's to make.
        for name in ("Cargo.lock", "Cargo.toml.orig", ".cargo_vcs_info.json"):
            (crate / name).unlink(missing_ok=True)
        (crate / ".cargo-checksum.json").write_text('{"files": {}}\n')
    for package in needed():
        source = Path(package["manifest_path"]).parent
        crate = target / f"{package['name']}-{package['version']}"
        shutil.copytree(source, crate)
        if package["name"] in LEFT_OUT:
            leave_out(crate, LEFT_OUT[package["name"]])
    # cargo gives its own files no time.
    for path in target.rglob("*"):
        os.utime(path)


if __name__ == "__main__":
    if len(sys.argv) != 2 or sys.argv[1].startswith("-"):
        sys.exit(__doc__)
    main(Path(sys.argv[1]))
