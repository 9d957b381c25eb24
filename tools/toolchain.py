"""Which C compiler builds CPython here, and with which flags.

Cross-language LTO needs clang and lld whose LLVM is at least rustc's, so that
is what is looked for first; gcc is the fallback and works without it.
Everything is given to CPython's configure as full paths: it would otherwise
pair clang with an older llvm-ar or a foreign llvm-profdata.
"""

import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from tools.errors import BuildError

OLDEST_RUST = (1, 85)


class ToolchainError(BuildError):
    """A message that says what is missing and what to do about it."""


@dataclass(frozen=True)
class Rust:
    version: tuple[int, int]
    llvm: int


@dataclass(frozen=True)
class Compiler:
    """Arguments for CPython's configure, and what they mean."""

    arguments: tuple[str, ...]
    has_lld: bool
    description: str
    # For LLVM's code generator, which runs when an LTO build is linked.
    codegen: tuple[str, ...] = ()
    # For LLVM's optimizer where it has a profile.
    guided: tuple[str, ...] = ()
    # The same, of what the linker does not know.
    guided_compiler: tuple[str, ...] = ()

    @property
    def is_clang(self) -> bool:
        return "clang" in self.description


def find_rust(required: bool = True) -> Rust | None:
    """rustc's versions; None where it is missing and not required."""
    try:
        text = subprocess.run(["rustc", "-vV"], capture_output=True, text=True, check=True).stdout
        if required:
            subprocess.run(["cargo", "-V"], capture_output=True, check=True)
    except (OSError, subprocess.CalledProcessError) as error:
        if not required:
            return None
        command = error.cmd[0] if isinstance(error, subprocess.CalledProcessError) else error.filename
        raise ToolchainError(f"{command} is not on PATH or does not run: `make deps` installs it") from None
    version = re.search(r"^release: (\d+)\.(\d+)", text, re.M)
    llvm = re.search(r"^LLVM version: (\d+)", text, re.M)
    if version is None or llvm is None:
        if not required:
            return None
        raise ToolchainError(f"cannot read the versions in `rustc -vV`:\n{text}")
    found = Rust((int(version[1]), int(version[2])), int(llvm[1]))
    if required and found.version < OLDEST_RUST:
        raise ToolchainError(
            "rustc {}.{} is too old: {}.{} or newer is needed, and `make deps` says how to get it".format(*found.version, *OLDEST_RUST)
        )
    return found


def installed_llvms() -> list[int]:
    """LLVM majors with a clang of their own under /usr/lib, newest first."""
    homes = Path("/usr/lib").glob("llvm-*/bin/clang")
    majors = (re.fullmatch(r"llvm-(\d+)", home.parent.parent.name) for home in homes)
    return sorted((int(major[1]) for major in majors if major), reverse=True)


def find_compiler(rust_llvm: int | None, named: str | None = None, sysroot: str | None = None) -> Compiler:
    """The compiler that the user named, else clang beside rustc's LLVM, else gcc.

    `rust_llvm` is None where no Rust is wanted; the choice is then the same as
    long as the same compilers are there.
    """
    if named:
        if sysroot:
            raise ToolchainError(f"SYSROOT={sysroot} is for the compiler that is found: with CC= it is among that one's words, --sysroot={sysroot}")
        if shutil.which(named.split()[0]) is None:
            raise ToolchainError(f"the C compiler {named!r} (CC=) is not there")
        return Compiler((), False, f"{named} (CC=)")
    majors = installed_llvms()
    fitting = [major for major in majors if rust_llvm is None or major >= rust_llvm]
    # The oldest that fits is nearest to rustc's own LLVM.
    if fitting:
        return clang(fitting[-1] if rust_llvm is not None else fitting[0], sysroot)
    if majors:
        return clang(majors[0], sysroot)
    if sysroot:
        raise ToolchainError(f"SYSROOT={sysroot} needs clang: run `make deps`")
    if shutil.which("gcc"):
        return Compiler(("CC=gcc",), False, "gcc (calls into Rust stay calls)")
    raise ToolchainError("no clang and no gcc found: run `make deps`, or name a compiler with CC=")


def clang(major: int, sysroot: str | None = None) -> Compiler:
    home = Path(f"/usr/lib/llvm-{major}/bin")
    there = f" --sysroot={sysroot}" if sysroot else ""
    arguments = [f"CC={home}/clang{there}", f"CXX={home}/clang++{there}"]
    for variable, tool in (
        ("AR", "llvm-ar"),
        ("RANLIB", "llvm-ranlib"),
        ("LLVM_AR", "llvm-ar"),
        ("LLVM_PROFDATA", "llvm-profdata"),
    ):
        if (home / tool).exists():
            arguments.append(f"{variable}={home}/{tool}")
    codegen: tuple[str, ...] = ()
    if major == 19:
        # On its own it gives the eval loop one jump for all instructions, which the
        # branch predictor cannot distinguish (llvm/llvm-project#106846). 18 and 20 do not.
        codegen = ("-tail-dup-pred-size=5000",)
    # LLVM by itself takes all for hot that the counts of 99 % of the time came from, inlines there without much restraint, and makes
    # small only what training never ran: an interpreter a third larger, and no faster. So what is hot ends at 95 %, and what training
    # ran least, the last tenth of a per cent, is made small too. -pgo-cold-func-opt is in LLVM since 19.
    guided: tuple[str, ...] = ()
    guided_compiler: tuple[str, ...] = ()
    if major >= 19:
        guided = ("-profile-summary-cutoff-hot=950000", "-profile-summary-cutoff-cold=999000")
        guided_compiler = ("-pgo-cold-func-opt=optsize",)
    return Compiler(tuple(arguments), (home / "ld.lld").exists(), f"clang-{major}", codegen, guided, guided_compiler)
