"""What the frame core can be built for. Known before anything is fetched, so that no user waits for a build that cannot end."""

import platform
import re
import struct
import sys

from tools.errors import BuildError

# What follows `--host=` for machines with pointers of four bytes.
NARROW = re.compile(r"(i[3-6]86|arm(v[5-8][a-z]*)?|mips(el)?|powerpc|ppc|s390|sparc|riscv32|hppa|m68k|sh4|wasm32)-|.*(-gnux32|-muslx32)$")
WITHOUT = "./configure --without-rust-core builds stock CPython from the same tree"
# One name for each processor.
OTHER_NAMES = {"amd64": "x86_64", "arm64": "aarch64"}


def host_of(flags: list[str]) -> str:
    """The machine that `--host=` names, or ''."""
    return next((flag.removeprefix("--host=") for flag in reversed(flags) if flag.startswith("--host=")), "")


def processor_of(machine: str) -> str:
    name = machine.lower().partition("-")[0]
    return OTHER_NAMES.get(name, name)


def check(flags: list[str], variables: dict[str, str], system: str = sys.platform, pointer: int = struct.calcsize("P")) -> None:
    """Raises BuildError where the frame core is wanted, and cannot be built for this target.

    `flags` and `variables` are configure's; `pointer` is the size of the machine's pointers in bytes.
    """
    host = host_of(flags)
    if "darwin" in host or (not host and system == "darwin"):
        raise BuildError(f"macOS: the frame core is linked as an ELF object, and programs there are Mach-O. {WITHOUT}")
    if re.search(r"mingw|cygwin|msys|windows", host) or (not host and system in ("win32", "cygwin", "msys")):
        raise BuildError("Windows: CPython is built there with project files of its own, which know nothing of the frame core. "
                         "Build in the Windows Subsystem for Linux")
    said = " ".join(variables.get(name, "") for name in ("CC", "CFLAGS", "CFLAGS_NODIST"))
    if NARROW.match(host) or re.search(r"(^|\s)-m(32|x32)\b", said) or (not host and pointer != 8):
        raise BuildError("32-bit: the frame core has the layout of frames and reference counts of 64-bit machines alone. " + WITHOUT)
    if host and processor_of(host) != processor_of(platform.machine()) and not variables.get("CC"):
        raise BuildError(f"--host={host} is another machine: name the C compiler for it, CC='clang --target={host}' or CC={host}-gcc, and "
                         "--with-build-python=, a python3.13 of this machine")
