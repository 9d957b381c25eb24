#!/usr/bin/env python3
"""The crates with the oldest Rust that they say they need, which is what Debian 13 has: `cargo check` of the workspace, without its tests.

A newer compiler accepts what that one does not know yet. It is taken from Debian's packages, and unpacked into build/tools: nothing is installed.
Where apt offers none of this version, this is skipped. It needs build/ferrule. The last line is the counts.
"""

import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

from ci.checks import check, counts, run, total
from tools import places, pyo3

FERRULE = places.BUILD / "ferrule" / "python"


def asked_apt(*words: str) -> str:
    return subprocess.run(("apt-cache", *words), capture_output=True, text=True).stdout


def packages(version: str) -> list[str]:
    """Its packages, with their versions; none if it is not offered."""
    # Debian 12 has a newer Rust than its own under the second name, for browsers.
    for kind in ("", "-web"):
        for line in asked_apt("madison", f"rustc{kind}").splitlines():
            found = line.split("|")[1].strip()
            if found.startswith(f"{version}."):
                library = f"libstd-rust{kind}-{version}={found}"
                llvm = re.findall(r"libllvm\d+", asked_apt("show", library))
                return [f"rustc{kind}={found}", f"libstd-rust{kind}-dev={found}", library, *llvm[:1]]
    return []


def unpacked(names: list[str], directory: Path) -> bool:
    """Whether they are there, or are now."""
    if (directory / "complete").exists():
        return True
    directory.mkdir(parents=True, exist_ok=True)
    if not run("apt-get", "download", *names, cwd=directory):
        return False
    if not all(run("dpkg-deb", "--extract", file, directory) for file in directory.glob("*.deb")):
        return False
    (directory / "complete").touch()
    return True


def main() -> int:
    version: str = tomllib.loads((places.ROOT / "Cargo.toml").read_text())["workspace"]["package"]["rust-version"]
    names = packages(version)
    if not names:
        counts.passed, counts.skipped = 0, 1
        print(f"skipped: apt offers no rustc {version} (Debian 12 and 13 do)", flush=True)
        print(counts)
        return 0
    directory = places.BUILD / "tools" / f"rust-{version}"
    if check(unpacked(names, directory), f"rustc {version} of Debian"):
        libraries = next(directory.glob("usr/lib/*-linux-gnu"))
        os.environ.update(pyo3.environment(str(FERRULE), places.BUILD / "cargo-oldest"), RUSTC=str(directory / "usr" / "bin" / "rustc"),
                          LD_LIBRARY_PATH=str(libraries), PYO3_BUILD_EXTENSION_MODULE="1", RUSTFLAGS="-Awarnings")
        check(run("cargo", "check", "--quiet", "--locked", "--workspace", "--target-dir", places.BUILD / "cargo-oldest"),
              f"cargo check --workspace with rustc {version}")
    return total()


if __name__ == "__main__":
    sys.exit(main())
