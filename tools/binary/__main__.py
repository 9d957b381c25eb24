"""Make an interpreter that is installed by unpacking it: python3 -m tools.binary (make binary).

Writes build/dist/cpython-VERSION+ferrule.OURS-x86_64-unknown-linux-gnu-install_only.tar.gz, and beside it downloads.json, from which
uv installs it. It runs on any Linux of this machine's kind with glibc 2.31 or newer. The first time takes half an hour: the libraries
and the interpreter are built, without training, with the profile in packaging/profile. CPYTHON_TARBALL= names CPython's source where
python.org is not within reach. The libraries are kept in build/binary/libraries: remove it to take Debian's sources of today.
"""

import argparse
import json
import platform
import shutil
from pathlib import Path

from tools import places, profile, program, progress, release, toolchain
from tools.binary import interpreter, libraries, pack, relocate, sysroot
from tools.errors import BuildError
from tools.progress import say

WORK = places.BUILD / "binary"
# Programs, and Debian's packages of them.
NEEDED = {"dpkg-source": "dpkg-dev", "patchelf": "patchelf", "pkg-config": "pkg-config", "tclsh": "tcl", "autoreconf": "autoconf",
          "automake": "automake", "libtoolize": "libtool", "autopoint": "autopoint"}
# What libffi's configure.ac is made of, and its package.
LTDL = Path("/usr/share/aclocal/ltdl.m4"), "libltdl-dev"


def check_machine() -> None:
    if platform.machine() != "x86_64":
        raise BuildError(f"binaries are made for x86-64, and this is {platform.machine()}: build from source (docs/packaging.md)")


def check_programs() -> None:
    missing = [package for program, package in NEEDED.items() if shutil.which(program) is None]
    if not LTDL[0].exists():
        missing.append(LTDL[1])
    if missing:
        raise BuildError(f"what builds the libraries is missing: as root, apt-get install {' '.join(missing)}")


def tools_of(sysroot_: Path) -> libraries.Tools:
    rust = toolchain.find_rust()
    compiler = toolchain.find_compiler(rust.llvm if rust else None, sysroot=str(sysroot_))
    if not compiler.is_clang or not compiler.has_lld:
        raise BuildError(f"a binary is built with clang and lld, and this is {compiler.description}: run `make deps`")
    named = compiler.arguments[0].removeprefix("CC=")
    return libraries.Tools(named, Path(named.split()[0]).parent, WORK / "libraries")


def make() -> Path:
    profile.refuse_stale(profile.BINARY)
    check_machine()
    check_programs()
    base = sysroot.make(WORK / "sysroot", WORK / "apt")
    tools = tools_of(base)
    versions = libraries.make(tools, WORK)
    installed = interpreter.build(tools, base, WORK)
    root = WORK / "python"
    shutil.rmtree(root, ignore_errors=True)
    shutil.copytree(installed, root, symlinks=True)
    series = "3.13"
    names = [path.name for path in (tools.prefix / "lib").glob("lib*.so.3")]
    for name in names:
        shutil.copy2(tools.prefix / "lib" / name, root / "lib" / name)
    interpreter.trim(root, tools.home / "llvm-strip")
    machine = relocate.Machine((WORK, places.ROOT))
    relocate.everything(root, machine, series)
    relocate.libraries_beside(root, series, names)
    if found := relocate.left(root, machine):
        raise BuildError(f"these files name directories of this machine: {', '.join(found)}")
    describe(root, tools, versions)
    pack.compile_all(root, root / "bin" / f"python{series}", release.epoch())
    target = release.DIST / pack.name(interpreter.VERSION, release.version())
    digest = pack.tarball(root, target, release.epoch())
    (release.DIST / pack.DOWNLOADS).write_text(pack.downloads(target, interpreter.VERSION, digest, release.version()))
    say(f"{target.relative_to(places.ROOT)}: {target.stat().st_size / 1e6:.1f} MB, sha256 {digest}")
    return target


def describe(root: Path, tools: libraries.Tools, versions: dict[str, str]) -> None:
    """What it is made of, and the licenses."""
    place = root / "share" / "doc" / "ferrule"
    shutil.copytree(tools.prefix / "licenses", place / "licenses")
    shutil.copyfile(places.ROOT / "LICENSE", place / "LICENSE")
    (place / "binary.json").write_text(json.dumps({"cpython": interpreter.VERSION, "ferrule": release.version(), "libraries": versions,
                                                   "glibc": "2.31"}, indent=1) + "\n")


def main(arguments: list[str]) -> None:
    argparse.ArgumentParser(prog="make binary", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter).parse_args(arguments)
    progress.heed_interrupts()
    make()


if __name__ == "__main__":
    program.run(main)
