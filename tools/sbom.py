"""What a release is made of, as bills of materials: of its crates by cargo-cyclonedx, and of what CPython has taken over by CPython itself.

release.py writes them beside what it makes, if cargo-cyclonedx is there. `ci/supply` installs it, and fails without it.
"""

import json
import os
import shutil
import subprocess
import tarfile
import tomllib
from pathlib import Path

from tools.errors import BuildError

# The crates of ours that something is built of, and where they are.
MEMBERS = {
    "ferrule-core": "rust-core",
    "ferrule-build": "build.rs-wrapper",
    "framehook": "rust-core/framehook-sdk",
    "ferrule_profiler": "clients/profiler",
    "ferrule_dynamo": "clients/dynamo",
    "ferrule_jit": "clients/jit",
}
# In CPython's source: what it has of others, by SPDX.
OF_CPYTHON = "Misc/sbom.spdx.json"
ROOT = Path(__file__).resolve().parent.parent
TOOLS = ROOT / "build" / "tools" / "bin"


def with_tools() -> dict[str, str]:
    """The environment in which what `ci/supply` has installed is found."""
    return {**os.environ, "PATH": f"{TOOLS}{os.pathsep}{os.environ['PATH']}"}


def available() -> bool:
    return shutil.which("cargo-cyclonedx", path=with_tools()["PATH"]) is not None


def cargo(tree: Path, *words: str, epoch: int | None = None) -> str:
    environment = with_tools()
    if epoch is not None:
        # Then it invents no number and takes no time of day.
        environment["SOURCE_DATE_EPOCH"] = str(epoch)
    done = subprocess.run(["cargo", *words], cwd=tree, env=environment, capture_output=True, text=True)
    if done.returncode != 0:
        raise BuildError(f"cargo {' '.join(words[:2])} failed: {done.stderr.strip()[-1500:]}")
    return done.stdout


def write(tree: Path, cpython: Path, out: Path, name: str, epoch: int) -> list[Path]:
    """The bills of a source tree, and of the tarball of CPython that it is built with."""
    # It writes beside each manifest.
    cargo(tree, "cyclonedx", "--format", "json", "--spec-version", "1.5", "--target", "all", "--quiet", epoch=epoch)
    found = {path.parent.relative_to(tree).as_posix(): path for path in tree.rglob("*.cdx.json") if "vendor" not in path.parts}
    made = []
    out.mkdir(parents=True, exist_ok=True)
    for member, place in MEMBERS.items():
        # Where it was made is no matter of what it is made of.
        bill = json.loads(found[place].read_text().replace(f"{tree.as_uri()}", f"file:///{name}"))
        check(bill, member, tree)
        made.append(out / f"{name}.{member}.cdx.json")
        made[-1].write_text(json.dumps(bill, indent=1, sort_keys=True) + "\n")
    for path in found.values():
        path.unlink()
    with tarfile.open(cpython) as tar:
        listed = next((one for one in tar if one.name.partition("/")[2] == OF_CPYTHON), None)
        packed = tar.extractfile(listed) if listed else None
        if packed is None:
            raise BuildError(f"{cpython.name} has no {OF_CPYTHON}")
        text = packed.read()
    if not json.loads(text).get("packages"):
        raise BuildError(f"{OF_CPYTHON} of {cpython.name} names no packages")
    made.append(out / f"{name}.cpython.spdx.json")
    made[-1].write_bytes(text)
    return made


def check(bill: dict, member: str, tree: Path) -> None:
    """A bill has all that cargo would compile for its crate, with the digests of Cargo.lock, and nothing else."""
    locked = {(package["name"], package["version"]): package.get("checksum")
              for package in tomllib.loads((tree / "Cargo.lock").read_text())["package"]}
    named = {}
    for component in bill.get("components", []):
        key = component["name"], component["version"]
        named[key] = {one["content"] for one in component.get("hashes", []) if one["alg"] == "SHA-256"}
        if key not in locked:
            raise BuildError(f"the bill of {member} names {' '.join(key)}, which is not in Cargo.lock")
        if named[key] != ({locked[key]} if locked[key] else set()):
            raise BuildError(f"the bill of {member} has another digest of {' '.join(key)} than Cargo.lock")
    lines = cargo(tree, "tree", "--locked", "--offline", "--package", member, "--edges", "normal,build", "--target", "all",
                  "--prefix", "none", "--format", "{p}").splitlines()
    needed = {(words[0], words[1].removeprefix("v")) for words in map(str.split, lines) if words and words[0] != member}
    if missing := needed - named.keys():
        raise BuildError(f"the bill of {member} leaves out {sorted(missing)}")
