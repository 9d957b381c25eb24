#!/usr/bin/env python3
"""Put Ferrule into Debian's own source package of python3.13, as a foreign package would.

  into_debian.py RELEASE.tar.xz DIRECTORY

DIRECTORY is what `apt-get source python3.13` unpacks, and RELEASE.tar.xz is made by `make dist`. The release becomes a component
of the source package, below ferrule/. Its patches and the files that it adds go to debian/patches, after Debian's. debian/rules
gives configure the directory, debian/control names Rust, and debian/changelog has a new revision. `dpkg-buildpackage` then builds
all of Debian's packages, without a network, with the compiler that Debian uses.
"""

import argparse
import difflib
import email.utils
import json
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from cpython.upstream.cases import regenerate_cases
from cpython.upstream.files import remove
from cpython.upstream.messages import FetchError
from cpython.upstream.tree import overlay_files
from tools import patches
from tools.errors import BuildError, explain
from tools.progress import say

COMPONENT = "ferrule"
NEEDED = ("cargo (>= 1.85)", "rustc (>= 1.85)", "libclang-dev")
# Debian's rules give each of the five builds these arguments; configure gets the core's place. The crates are in the
# component, and cargo reads so from the directory that it takes for its home. What it writes there goes with a clean, or the
# next source package would have it.
RULES = f"""# The frame core in Rust.
common_configure_args += FERRULE_DIR=$(CURDIR)/{COMPONENT} FERRULE_DEBIAN_REVISION=$(DEB_VERSION)
export CARGO_HOME = $(CURDIR)/{COMPONENT}/.cargo
export CARGO_NET_OFFLINE = true
clean: clean-{COMPONENT}
.PHONY: clean-{COMPONENT}
clean-{COMPONENT}:
	rm -rf {COMPONENT}/build
	find {COMPONENT}/.cargo -mindepth 1 ! -name config.toml -delete

"""
AFTER = "# FIXME, only temporaray"


def main(release: Path, tree: Path) -> None:
    changelog = tree / "debian" / "changelog"
    if not changelog.exists():
        raise BuildError(f"{tree} is no unpacked source package: it has no debian/changelog")
    named = re.match(r"python3\.13 \(((?:\d+:)?([\d.]+)-\S+)\) ([^;]+);", changelog.read_text())
    if named is None:
        raise BuildError(f"{changelog} is not that of python3.13")
    if (tree / COMPONENT).exists():
        raise BuildError(f"{tree} has {COMPONENT} already: unpack the source package anew")
    revision, version, suite = named.groups()
    new = f"{revision}+{release_version(release).replace('-', '')}"
    # What may be refused comes before anything is written.
    texts = {"rules": with_inserted(tree / "debian" / "rules", AFTER, RULES)}
    for name in ("control", "control.in"):
        texts[name] = with_inserted(tree / "debian" / name, "  quilt, autoconf,", "".join(f"  {package},\n" for package in NEEDED))
    component(release, tree, version)
    for name, text in texts.items():
        (tree / "debian" / name).write_text(text)
    added = add_patches(tree / COMPONENT, tree / "debian" / "patches", version)
    made = json.loads((tree / COMPONENT / "release.json").read_text())["epoch"]
    entry = (f"python3.13 ({new}) {suite}; urgency=medium\n\n  * The frame core in Rust, of {release.name}.\n\n"
             f" -- Ferrule maintainers <ferrule@example.org>  {email.utils.formatdate(made)}\n\n")
    changelog.write_text(entry + changelog.read_text())
    say(f"{tree}: {len(added)} patches, revision {new}; `dpkg-buildpackage` builds it")


def release_version(release: Path) -> str:
    named = re.fullmatch(r"(ferrule-[\w.]+?)\.tar\.xz", release.name)
    if named is None:
        raise BuildError(f"{release} is not a source release of Ferrule (ferrule-VERSION.tar.xz)")
    return named[1]


def component(release: Path, tree: Path, version: str) -> None:
    """The release beside CPython's tarball, and unpacked where dpkg-source looks for it."""
    (tree / COMPONENT).mkdir()
    unpacked = subprocess.run(["tar", "-xf", release, "-C", tree / COMPONENT, "--strip-components=1"], capture_output=True, text=True)
    if unpacked.returncode == 0:
        shutil.copyfile(release, tree.parent / f"python3.13_{version}.orig-{COMPONENT}.tar.xz")
    else:
        remove(tree / COMPONENT)
        raise BuildError(f"{release} cannot be unpacked: {unpacked.stderr.strip()[-500:]}")


def add_patches(project: Path, place: Path, version: str) -> list[str]:
    """The series, and a patch with what CPython's generators make of it and the files that are added whole, after Debian's."""
    target = place / COMPONENT
    target.mkdir()
    names = []
    for path in patches.selected(project / "patches" / version.rpartition(".")[0], version):
        shutil.copyfile(path, target / path.name)
        names.append(f"{COMPONENT}/{path.name}")
    for name, title, text in (
            ("generated.patch", "What CPython's generators make of the patched instructions", generated_patch(project, place.parent.parent, version)),
            ("overlay.patch", "Files that are added to CPython's", overlay_patch(project / "overlay"))):
        if text:
            (target / name).write_text(f"{title}\n\n{text}")
            names.append(f"{COMPONENT}/{name}")
    series = place / "series"
    series.write_text(series.read_text().rstrip("\n") + "\n" + "".join(f"{name}\n" for name in names))
    return names


def generated_patch(project: Path, tree: Path, version: str) -> str:
    """Of a copy of the tree, patched: `make` does not run the generators, and would compile what they made before."""
    parts: list[str] = []
    with tempfile.TemporaryDirectory() as temporary:
        copy = Path(temporary) / "tree"
        shutil.copytree(tree, copy, symlinks=True, ignore=lambda directory, names: (
            {"debian", COMPONENT, ".pc"} & set(names) if Path(directory) == tree else set()))
        written = patches.apply_series(copy, project / "patches" / version.rpartition(".")[0], version)
        for name in regenerate_cases(copy, written):
            old, new = ((place / name).read_text().splitlines(keepends=True) for place in (tree, copy))
            parts += difflib.unified_diff(old, new, f"a/{name}", f"b/{name}")
    return "".join(parts)


def overlay_patch(overlay: Path) -> str:
    parts: list[str] = []
    for name in overlay_files(overlay):
        lines = (overlay / name).read_text().splitlines(keepends=True)
        parts += difflib.unified_diff([], lines, "/dev/null", f"b/{name}")
    return "".join(parts)


def with_inserted(file: Path, before: str, text: str) -> str:
    """The file with text before the one line that starts so."""
    lines = file.read_text().splitlines(keepends=True)
    found = [number for number, line in enumerate(lines) if line.startswith(before)]
    if len(found) != 1:
        raise BuildError(f"{file} has {len(found)} lines that start with {before!r}, not one: it is not Debian's of 3.13.5")
    lines.insert(found[0], text)
    return "".join(lines)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("release", type=Path, metavar="RELEASE.tar.xz")
    parser.add_argument("tree", type=Path, metavar="DIRECTORY")
    options = parser.parse_args()
    try:
        main(options.release.absolute(), options.tree.absolute())
    except (BuildError, patches.PatchError, FetchError) as error:
        sys.exit(f"ferrule: {error}")
    except OSError as error:
        sys.exit(f"ferrule: {explain(error)}")
