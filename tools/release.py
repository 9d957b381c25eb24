#!/usr/bin/env python3
"""Make what Ferrule is released as.

  release.py dist    one source tarball, from which an offline machine builds all; and beside it the definition that pyenv
                     installs it by
  release.py source  Debian's source package: the project, CPython, Debian's packaging of it and the crates, each as an
                     orig tarball of its own
  release.py deb     that source package, built where this runs: on Debian 13 all packages, on Debian 12 the self-contained one

Each file is the same wherever and whenever it is made of the same commit, the same releases and the same crates. They go to
build/dist. `dist` and `source` need cargo and, where they are not in the cache, a way to Debian and to the crates; `deb`
needs what debian/control lists (`--install` gets it, as root), and no network.
"""

import argparse
import datetime
import email.utils
import json
import os
import re
import shutil
import subprocess
import tarfile
import tempfile
import tomllib
from pathlib import Path
from typing import Any

from cpython.upstream.cache import Cache, default_cache
from cpython.upstream.choosing import over_network
from cpython.upstream.files import remove, sha256
from tools import profile, program, sbom
from tools.environment import for_children
from tools.errors import BuildError
from tools.places import BUILD
from tools.progress import say

ROOT = Path(__file__).resolve().parent.parent

NAME = "ferrule"
DIST = BUILD / "dist"
# Which crates are compiled: those of the platforms that Ferrule supports.
PLATFORMS = ("x86_64-unknown-linux-gnu", "aarch64-unknown-linux-gnu")
# Of a source release, beside the project's own files.
VENDOR, SOURCES = "vendor", "sources"
CARGO_CONFIG = f'[source.crates-io]\nreplace-with = "vendored-sources"\n\n[source.vendored-sources]\ndirectory = "{VENDOR}"\n'
# The build profile that leaves out the packages over Debian's own library, which Debian 12 does not have.
OWN_LIBRARY_ONLY = "pkg.ferrule.own"


def run(command: list[Any], **options: Any) -> str:
    """What a command prints; an error that shows what it said."""
    if shutil.which(str(command[0])) is None:
        raise BuildError(f"{command[0]} is not on PATH")
    done = subprocess.run([str(word) for word in command], text=True, capture_output=True, **options)
    if done.returncode != 0:
        raise BuildError(f"{' '.join(map(str, command[:3]))} failed: {(done.stderr or done.stdout).strip()[-1500:]}")
    return done.stdout


# ---- what is released --------------------------------------------------------

def version() -> str:
    """The project's version, from its crate."""
    for line in (ROOT / "rust-core" / "Cargo.toml").read_text().splitlines():
        if line.startswith("version = "):
            return line.split('"')[1]
    raise BuildError("rust-core/Cargo.toml has no version")


def epoch() -> int:
    """When this source was made: the time of its last commit, or what a source release says of it."""
    if "SOURCE_DATE_EPOCH" in os.environ:
        return int(os.environ["SOURCE_DATE_EPOCH"])
    noted = ROOT / "release.json"
    if noted.exists():
        return json.loads(noted.read_text())["epoch"]
    return int(run(["git", "-C", ROOT, "log", "-1", "--format=%ct"]))


def copy_project(target: Path) -> None:
    """The files of the last commit, or of the source release that this is."""
    target.mkdir(parents=True)
    if (ROOT / ".git").exists():
        with tempfile.TemporaryDirectory() as temporary:
            archive = Path(temporary) / "project.tar"
            run(["git", "-C", ROOT, "archive", "--format=tar", "--output", archive, "HEAD"])
            run(["tar", "-xf", archive, "-C", target])
    else:
        for name in json.loads((ROOT / "release.json").read_text())["files"]:
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, target / name)
    files = sorted(path.relative_to(target).as_posix() for path in target.rglob("*") if not path.is_dir())
    # A release has no history to ask.
    if "release.json" in files:
        files.remove("release.json")
    (target / "release.json").write_text(json.dumps({"epoch": epoch(), "files": files}, indent=1) + "\n")


def cpython_files() -> tuple[Path, Path, Path, Path]:
    """Of CPython's source package in Debian, verified: the tarball, the packaging, the .dsc; and the cache's record of them."""
    pins, release = profile.packaged()
    places = [ROOT / SOURCES] if (ROOT / SOURCES).is_dir() else [default_cache(os.environ, ROOT).absolute()]
    cache = Cache(places[0])
    found = cache.get(release, "debian") if cache.path.is_dir() else None
    if found is None:
        found = over_network(pins, release, "debian", cache)
    record = cache.record(release)
    return found.tarball, found.fixes, cache.path / json.loads(record.read_text())["dsc"], record


def vendor(target: Path) -> None:
    """All crates of Cargo.lock; those of other platforms as empty ones, which cargo wants to see and never compiles."""
    if (ROOT / VENDOR).is_dir():
        shutil.copytree(ROOT / VENDOR, target)
        return
    run(["cargo", "vendor", "--locked", "--versioned-dirs", target], cwd=ROOT)
    needed = set()
    for platform in PLATFORMS:
        metadata = json.loads(run(["cargo", "metadata", "--locked", "--format-version", "1", "--filter-platform", platform],
                                  cwd=ROOT))
        needed |= {(node["name"], node["version"]) for node in metadata["packages"]}
    for crate in sorted(target.iterdir()):
        manifest = tomllib.loads((crate / "Cargo.toml").read_text())
        if (manifest["package"]["name"], manifest["package"]["version"]) not in needed:
            empty(crate)
        else:
            without_unwanted(crate)


# The manifest as its author wrote it, which cargo keeps and does not read: build systems take its name for a backup's. And
# libraries of Windows, for tests: a source has nothing that was compiled.
UNWANTED = ("*.orig", "*.dll")


def without_unwanted(crate: Path) -> None:
    checksum = json.loads((crate / ".cargo-checksum.json").read_text())
    for path in sorted(path for pattern in UNWANTED for path in crate.rglob(pattern)):
        path.unlink()
        checksum["files"].pop(path.relative_to(crate).as_posix(), None)
    (crate / ".cargo-checksum.json").write_text(json.dumps(checksum))


def empty(crate: Path) -> None:
    """Leave the manifest, which cargo resolves with, and the licenses; cargo checks the files that are listed."""
    checksum = json.loads((crate / ".cargo-checksum.json").read_text())
    keep = [path for path in crate.iterdir() if path.name == "Cargo.toml" or path.name.upper().startswith(("LICENSE", "COPYING"))]
    for path in crate.iterdir():
        if path not in keep and path.name != ".cargo-checksum.json":
            remove(path)
    (crate / "src").mkdir()
    (crate / "src" / "lib.rs").write_text("")
    checksum["files"] = {path.relative_to(crate).as_posix(): sha256(path)
                         for path in sorted(crate.rglob("*")) if path.is_file() and path.name != ".cargo-checksum.json"}
    (crate / ".cargo-checksum.json").write_text(json.dumps(checksum))


# ---- tarballs ------------------------------------------------------------------

def pack(directory: Path, target: Path) -> Path:
    """A .tar.xz of a directory: sorted, without an owner, of one time."""
    target.parent.mkdir(parents=True, exist_ok=True)
    temporary = target.with_name(target.name + ".tmp")
    when = epoch()
    # What a user set for other files would make another one.
    own = {name: value for name, value in os.environ.items() if name not in ("XZ_OPT", "XZ_DEFAULTS")}
    with temporary.open("wb") as written:
        packed = subprocess.Popen(["xz", "-T1", "-6"], stdin=subprocess.PIPE, stdout=written, env=own)
    assert packed.stdin is not None
    with tarfile.open(fileobj=packed.stdin, mode="w|", format=tarfile.GNU_FORMAT) as tar:
        for path in [directory, *sorted(directory.rglob("*"))]:
            add_file(tar, path, str(path.relative_to(directory.parent)), when)
    packed.stdin.close()
    if packed.wait() != 0:
        raise BuildError(f"xz failed for {target}")
    temporary.replace(target)
    return target


def add_file(tar: tarfile.TarFile, path: Path, name: str, when: int) -> None:
    """Adds a file, directory or link, without an owner, of that time."""
    info = tar.gettarinfo(path, name)
    info.uid = info.gid = 0
    info.uname = info.gname = "root"
    info.mtime = when
    info.mode = 0o755 if path.is_dir() or info.mode & 0o100 else 0o644
    if info.isreg():
        with path.open("rb") as file:
            tar.addfile(info, file)
    else:
        tar.addfile(info)


def report(path: Path) -> None:
    say(f"{path.relative_to(ROOT) if path.is_relative_to(ROOT) else path}: {path.stat().st_size / 1e6:.1f} MB, "
        f"sha256 {sha256(path)}")


def dist(key: str | None) -> Path:
    profile.refuse_stale(profile.PACKAGES)
    top = f"{NAME}-{version()}"
    signature = DIST / f"{top}.tar.xz.asc"
    # That of an earlier tarball says nothing of this one.
    signature.unlink(missing_ok=True)
    with tempfile.TemporaryDirectory() as temporary:
        tree = Path(temporary) / top
        copy_project(tree)
        vendor(tree / VENDOR)
        check_licenses(tree / VENDOR)
        (tree / ".cargo").mkdir(exist_ok=True)
        (tree / ".cargo" / "config.toml").write_text(CARGO_CONFIG)
        (tree / SOURCES).mkdir()
        cpython = cpython_files()
        for file in cpython:
            shutil.copyfile(file, tree / SOURCES / file.name)
        made = pack(tree, DIST / f"{top}.tar.xz")
        if sbom.available():
            for bill in sbom.write(tree, cpython[0], DIST, top, epoch()):
                report(bill)
        else:
            say("no bills of materials: cargo-cyclonedx is not there (ci/supply installs it)")
        definition = pyenv_definition(tree, sha256(made))
    if key:
        run(["gpg", "--batch", "--local-user", key, "--armor", "--detach-sign", "--output", signature, made])
        report(signature)
    report(made)
    (DIST / top).write_text(definition)
    say(f"{(DIST / top).relative_to(ROOT)}: for pyenv install")
    return made


def pyenv_definition(tree: Path, digest: str) -> str:
    """What pyenv's python-build reads to install the tarball of this tree."""
    text = (tree / "packaging" / "pyenv.in").read_text()
    for name, value in (("TOP", tree.name), ("VERSION", version()), ("SHA256", digest)):
        text = text.replace(f"@{name}@", value)
    return text


# ---- Debian ----------------------------------------------------------------------

def source_package(release: int = 13) -> Path:
    """The tree of Debian's source package, beside its orig tarballs; its .dsc where dpkg-dev is here."""
    profile.refuse_stale(profile.PACKAGES)
    top, work = f"{NAME}-{version()}", DIST / f"debian-{release}"
    remove(work)
    work.mkdir(parents=True)
    origin = f"{NAME}_{version()}.orig"
    tree = work / top
    copy_project(tree)
    packaging_of_ours = work / "packaging"
    (tree / "packaging" / "debian").rename(packaging_of_ours)
    pack(tree, work / f"{origin}.tar.xz")
    tarball, packaging, *_ = cpython_files()
    # As they are: who checks them finds the very files of CPython's release and of Debian's archive.
    shutil.copyfile(tarball, work / f"{origin}-cpython-source.tar.xz")
    shutil.copyfile(packaging, work / f"{origin}-cpython-debian.tar.xz")
    with tempfile.TemporaryDirectory() as temporary:
        crates = Path(temporary) / VENDOR
        vendor(crates)
        pack(crates, work / f"{origin}-{VENDOR}.tar.xz")
    for component in ("cpython-source", "cpython-debian", VENDOR):
        (tree / component).mkdir()
        run(["tar", "-xf", work / f"{origin}-{component}.tar.xz", "-C", tree / component, "--strip-components=1"])
    packaging_of_ours.rename(tree / "debian")
    if release < 13:
        backport(tree / "debian" / "changelog", release)
    (tree / "debian" / "copyright").write_text(copyright_file(tree / "debian" / "copyright", tree))
    if shutil.which("dpkg-source"):
        run(["dpkg-source", "-b", top], cwd=work, env={**os.environ, "SOURCE_DATE_EPOCH": str(epoch())})
        for file in sorted(work.glob("*.dsc")):
            report(file)
    return tree


def backport(changelog: Path, release: int) -> None:
    """A revision for an older Debian: lower than that of the newest, so that an upgrade of the system replaces it."""
    first, rest = changelog.read_text().split(")", 1)
    changed = "\n\n  * For an older Debian: the package with a library of its own.\n\n"
    [(name, when), *_] = re.findall(r"^( -- .*>  )(.*)$", rest, re.M)
    # An entry must be newer than the one below it.
    later = email.utils.parsedate_to_datetime(when) + datetime.timedelta(minutes=1)
    signed = name + email.utils.format_datetime(later)
    changelog.write_text(f"{first}~deb{release}u1){rest.splitlines()[0]}{changed}{signed}\n\n{first}){rest}")


# Where the text of a license is, in the tree of the source package; where Debian has it, that is said instead.
COMMON = "On Debian systems, the full text of this license is in /usr/share/common-licenses/"
LICENSE_TEXTS = {
    "Apache-2.0": COMMON + "Apache-2.0.",
    "LGPL-2.1-or-later": COMMON + "LGPL-2.1.",
    "MPL-2.0": COMMON + "MPL-2.0.",
    "PSF-2.0": "cpython-source/LICENSE",
    "Apache-2.0-with-LLVM-exception": f"{VENDOR}/rustix-*/LICENSE-Apache-2.0_WITH_LLVM-exception",
    "BSD-2-Clause": f"{VENDOR}/zerocopy-*/LICENSE-BSD",
    "BSD-3-Clause": f"{VENDOR}/bindgen-*/LICENSE",
    "CDDL-1.0": f"{VENDOR}/inferno-*/LICENSE",
    "BSD-3-Clause-Go": f"{VENDOR}/minimal-lexical-*/LICENSE.md",
    "Expat": f"{VENDOR}/libc-*/LICENSE-MIT",
    "ISC": f"{VENDOR}/libloading-*/LICENSE",
    "Unicode-3.0": f"{VENDOR}/unicode-ident-*/LICENSE-UNICODE",
    "Unlicense": f"{VENDOR}/memchr-*/UNLICENSE",
    "Zlib": f"{VENDOR}/bytemuck-*/LICENSE-ZLIB",
}
# What the files of a license say before the license itself.
LICENSE_BEGINS = {"BSD-3-Clause-Go": "Redistribution and use"}
# Files of a crate that are under another license than its manifest names.
OTHERWISE = {"minimal-lexical": (("src/bellerophon.rs",), "2009 The Go Authors. All rights reserved", "BSD-3-Clause-Go")}
# The files that say whose a crate is, and under which license.
LICENSE_FILES = ("LICENSE", "LICENCE", "COPYING", "COPYRIGHT", "NOTICE")


def license_of(crate: Path) -> str:
    """A crate's license, as debian/copyright has it."""
    license_ = tomllib.loads((crate / "Cargo.toml").read_text())["package"].get("license", "").replace("/", " OR ")
    if not license_:
        raise BuildError(f"{crate.name} does not name its license")
    return debian_license(license_)


def licenses_in(named: str) -> set[str]:
    return set(named.replace(",", "").split()) - {"or", "and"}


def check_licenses(crates: Path) -> None:
    """Each license of a crate is one whose text is known."""
    for crate in sorted(crates.iterdir()):
        for name in sorted(licenses_in(license_of(crate)) - LICENSE_TEXTS.keys()):
            raise BuildError(f"the license {name} of {crate.name} is not among those of tools/release.py: add where its text is")


def license_text(name: str, tree: Path) -> str:
    text = LICENSE_TEXTS[name]
    if not text.startswith(COMMON):
        files = sorted(tree.glob(text))
        if not files:
            raise BuildError(f"the text of the license {name} is not where tools/release.py looks for it: {text}")
        text = files[0].read_text()
        text = text[text.index(LICENSE_BEGINS.get(name, "")):]
    if name == "Apache-2.0-with-LLVM-exception":
        # Debian has the license; what is added to it comes at the end.
        text = LICENSE_TEXTS["Apache-2.0"] + "\n\n" + text[text.index("LLVM Exceptions"):].lstrip("- ")
    lines = [f" {line.rstrip()}" if line.strip() else " ." for line in text.strip().splitlines()]
    return f"License: {name}\n" + "\n".join(lines) + "\n"


def notices(crate: Path) -> list[str]:
    """What the files of a crate's license say of whose it is; no forms that were not filled in."""
    found: dict[str, None] = {}
    for path in sorted(crate.iterdir()):
        if path.is_file() and path.name.upper().startswith(LICENSE_FILES):
            for line in path.read_text(errors="replace").splitlines():
                holder = re.match(r"\W*Copyright (?:(?:\(c\)|©) ?|(?=\d{4}|individual))(.*)", line, re.I)
                # A name, and not years alone.
                if holder and re.search(r"[^\W\d]{3}", holder[1]) and not re.search(r"[\[{<](year|yyyy)", holder[1]):
                    found[holder[1].strip().rstrip(".")] = None
    return list(found)


def paragraph(files: list[str], holders: list[str], license_: str) -> str:
    return f"Files: {' '.join(files)}\nCopyright: {f'{chr(10)} '.join(holders)}\nLicense: {license_}\n"


def copyright_file(own: Path, tree: Path) -> str:
    """debian/copyright with a paragraph for each crate, made of what the crates say of themselves."""
    check_licenses(tree / VENDOR)
    paragraphs, licenses = [], {"PSF-2.0"}
    for crate in sorted((tree / VENDOR).iterdir()):
        package = tomllib.loads((crate / "Cargo.toml").read_text())["package"]
        authors = ", ".join(name.split("<")[0].strip() for name in package.get("authors", []))
        named = license_of(crate)
        licenses |= licenses_in(named)
        names, notice, other = OTHERWISE.get(package["name"], ((), "", ""))
        holders = [text for text in notices(crate) if text != notice]
        if authors and not any(authors in text for text in holders):
            holders.append(authors)
        paragraphs.append(paragraph([f"{VENDOR}/{crate.name}/*"], holders or [f"the authors of {package['name']}"], named))
        # Of a crate for another platform these files are not there.
        files = [f"{VENDOR}/{crate.name}/{name}" for name in names if (crate / name).exists()]
        if files:
            paragraphs.append(paragraph(files, [notice], other))
            licenses.add(other)
    paragraphs += [license_text(name, tree) for name in sorted(licenses)]
    return own.read_text().rstrip() + "\n\n" + "\n".join(paragraphs)


def debian_license(spdx: str) -> str:
    """SPDX's expression as debian/copyright has it."""
    for old, new in (("Apache-2.0 WITH LLVM-exception", "Apache-2.0-with-LLVM-exception"), (" OR ", " or "),
                     (") AND ", ", and "), (" AND ", " and "), ("(", ""), (")", "")):
        spdx = spdx.replace(old, new)
    return " ".join("Expat" if word == "MIT" else word for word in spdx.split())


def deb(install: bool) -> None:
    if shutil.which("dpkg-buildpackage") is None:
        raise BuildError("dpkg-buildpackage is missing: as root, apt-get install dpkg-dev")
    if install and os.geteuid() != 0:
        raise BuildError("installing what the build needs is for root; without DEPS=1 nothing is installed")
    release = release_of_debian()
    profiles = [OWN_LIBRARY_ONLY] if release < 13 else []
    tree = source_package(release)
    if install:
        say("apt-get build-dep: what the build needs")
        run(["apt-get", "build-dep", "-y", "--no-install-recommends", *(f"-P{profile}" for profile in profiles), tree])
    log = BUILD / "logs" / "deb.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    say(f"dpkg-buildpackage: half an hour; log: {log}")
    # What the make that called was given is not for those of the packages.
    environment = {name: value for name, value in for_children().items() if name != "MAKEFLAGS"}
    with log.open("w") as file:
        done = subprocess.run(["dpkg-buildpackage", "-us", "-uc", "-b", *(f"-P{profile}" for profile in profiles)], cwd=tree,
                              stdout=file, stderr=file, env=environment)
    if done.returncode != 0:
        raise BuildError(f"dpkg-buildpackage failed; its log is {log}")
    for package in sorted(tree.parent.glob("*.deb")):
        report(package)


def release_of_debian() -> int:
    lines = dict(line.split("=", 1) for line in Path("/etc/os-release").read_text().splitlines() if "=" in line)
    # Testing has no number, and is newer than all that have one.
    return int(lines.get("VERSION_ID", '"13"').strip('"').split(".")[0])


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("dist", "source", "deb"))
    parser.add_argument("--release", type=int, help="of Debian, that `source` is for (default: 13)")
    parser.add_argument("--key", help="sign the source tarball with this key of gpg's")
    parser.add_argument("--install", action="store_true", help="install what building the packages needs")
    options = parser.parse_args(arguments)
    if options.key and options.what != "dist":
        parser.error("--key is for dist")
    if options.install and options.what != "deb":
        parser.error("--install is for deb")
    if options.release and options.what != "source":
        parser.error("--release is for source")
    if options.what == "dist":
        dist(options.key)
    elif options.what == "source":
        source_package(options.release or 13)
    else:
        deb(options.install)


if __name__ == "__main__":
    program.run(main)
