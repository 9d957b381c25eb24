#!/usr/bin/env python3
"""Configure and build the interpreters of this project.

  build.py configure [FLAG...]   choose flags for all variants, configure ferrule
  build.py make VARIANT [TARGET...]   get, patch, configure and build one variant
  build.py clean                      remove what was built of all variants, and the logs

Variants (each in build/VARIANT):
  ferrule        the Rust frame core, no LTO
  stock          the same tree and flags, --without-rust-core
  release        the Rust frame core, ThinLTO across C and Rust
  stock-release  the same tree and flags, --without-rust-core
  pgo            as a distribution builds it: profile-guided, LTO across C and Rust
  stock-pgo      the same tree and flags, --without-rust-core
  debug          the Rust frame core and CPython's own checks, --with-pydebug
  trace-refs     the same, and a list of all objects, --with-trace-refs
  free-threaded  the Rust frame core without the GIL, --disable-gil
  stock-free-threaded  the same tree and flags, --without-rust-core
  asan           C under AddressSanitizer; Rust too with RUSTC_BOOTSTRAP=1, as ci/asan-hooks does it
  tsan           free-threaded, C under ThreadSanitizer; Rust as above, for ci/tsan-hooks
"""

import argparse
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import progress
import toolchain

ROOT = Path(__file__).resolve().parent.parent
BUILD = ROOT / "build"
LOGS = BUILD / "logs"
USER_FLAGS = BUILD / "configure.flags"
SOURCE_FACTS = BUILD / "src" / "current.json"
STOCK = "--without-rust-core"
VARIANTS = {
    "ferrule": [],
    "stock": [STOCK],
    "release": ["--with-lto=thin", "--with-cross-lto=yes"],
    "stock-release": [STOCK, "--with-lto=thin"],
    "pgo": ["--enable-optimizations", "--with-lto=full"],
    "stock-pgo": [STOCK, "--enable-optimizations", "--with-lto=full"],
    "debug": ["--with-pydebug"],
    "trace-refs": ["--with-pydebug", "--with-trace-refs"],
    "free-threaded": ["--disable-gil"],
    "stock-free-threaded": [STOCK, "--disable-gil"],
    "asan": ["--with-address-sanitizer"],
    "tsan": ["--disable-gil", "--with-thread-sanitizer"],
}
PROFILE_GUIDED = ("pgo", "stock-pgo")
# In the builds that are measured against each other each function begins a cache line, so that one that is the same in both
# lies in its lines in the same way: at the linker's own places a garbage collection took from 0.94 to 1.14 of the other
# build's time, with the very same instructions. And loops begin half a line: the six instructions that clear a
# frame's locals took 1.5 times as long where they reached into the next line. The linker is told, as it makes the machine
# code of C and of Rust: an option for the C compiler alone left Rust's functions where they fell.
MEASURED = ("release", "stock-release")
ALIGNED = ("-align-all-functions=6", "-align-loops=32")
# Part of the profile-guided interpreters instead of files to import, as Debian has it. They need no library, so that
# libpython.a needs none for them either. Not those of HACL*, whose names would be in everybody's way in libpython.a:
# hashlib takes OpenSSL's.
BUILT_IN = frozenset((
    "array", "cmath", "fcntl", "grp", "math", "select", "syslog", "unicodedata", "_bisect", "_csv", "_datetime",
    "_elementtree", "_heapq", "_json", "_opcode", "_pickle", "_posixsubprocess", "_random", "_socket", "_statistics",
    "_struct",
))
# The profile comes from nearly all of CPython's tests, as Debian's does, instead of the 43 files that `--pgo` picks.
# Left out: tests of what is around the interpreter, tests that fail with other libraries or take long.
TRAINING_WITHOUT = (
    "test_asyncio", "test_c_locale_coercion", "test_cext", "test_cmd_line_script", "test_concurrent_futures",
    "test_cppext", "test_ctypes", "test_dbm_dumb", "test_dbm_ndbm", "test_embed", "test_ensurepip",
    "test_external_inspection", "test_faulthandler", "test_ftplib", "test_gdb", "test_httplib", "test_idle", "test_imaplib",
    "test_ioctl", "test_multiprocessing_fork", "test_multiprocessing_forkserver", "test_multiprocessing_spawn",
    "test_peg_generator", "test_perf_profiler", "test_poplib", "test_pydoc", "test_pyrepl", "test_regrtest", "test_repl",
    "test_signal", "test_socket", "test_socketserver", "test_ssl", "test_subprocess", "test_thread", "test_threadsignals",
    "test_threading", "test_threading_local", "test_tools", "test_venv", "test_zipimport_support",
)
# A test that fails (2) does not stop the build: what it ran is in the profile all the same.
TRAINING = f"-m test --pgo-extended -j0 -unone,decimal --timeout=1200 -x {' '.join(TRAINING_WITHOUT)} || test $$? -eq 2"
# What configure takes from the environment as well as from its command line.
CONFIGURE_VARIABLES = (
    "CC", "CXX", "CPP", "AR", "RANLIB", "LLVM_AR", "LLVM_PROFDATA", "PROFILE_TASK", "MACHDEP",
    "CPPFLAGS", "CFLAGS", "CFLAGS_NODIST", "LDFLAGS", "LDFLAGS_NODIST", "LIBS",
    "PKG_CONFIG", "PKG_CONFIG_PATH", "PKG_CONFIG_LIBDIR",
)


class BuildError(Exception):
    """A message for the user; the details are in a log."""


def fetch_source() -> dict:
    """The patched source's facts; gets and patches it where that is needed."""
    command = [sys.executable, ROOT / "cpython" / "fetch.py", "--dest", BUILD / "src"]
    if subprocess.run(command).returncode != 0:
        raise BuildError("no CPython source, see above")
    return json.loads(SOURCE_FACTS.read_text())


def user_flags() -> list[str]:
    return shlex.split(USER_FLAGS.read_text()) if USER_FLAGS.exists() else []


def variables_in(flags: list[str]) -> set[str]:
    return {flag.partition("=")[0] for flag in flags if re.match(r"[A-Z_]+=", flag)}


def with_environment(flags: list[str]) -> list[str]:
    """The flags and what the environment adds to them, said aloud.

    A `CC=gcc ./configure` holds for the makes after it, whose environment is
    another one, and a build is known by all that went into it.
    """
    named = variables_in(flags)
    return flags + [
        f"{name}={os.environ[name]}"
        for name in CONFIGURE_VARIABLES
        if os.environ.get(name) and name not in named
    ]


def wants_lto(flags: list[str]) -> bool:
    lto = [flag for flag in flags if flag.startswith("--with-lto")]
    return bool(lto) and lto[-1] != "--with-lto=no" and "--without-lto" not in flags


def configure_command(variant: str, facts: dict) -> list[str]:
    flags = with_environment([*user_flags(), *VARIANTS[variant]])
    rust = toolchain.find_rust()
    compiler = toolchain.find_compiler(rust.llvm)
    named = variables_in(flags)
    chosen = [] if "CC" in named else [
        argument for argument in compiler.arguments if argument.partition("=")[0] not in named
    ]
    compiling = [word for option in compiler.codegen for word in ("-mllvm", option)]
    linking = []
    if wants_lto(flags) and compiler.has_lld:
        # The interpreter is linked three times, and again after each change:
        # lld keeps what ThinLTO made of the modules that stayed the same.
        generating = [*compiler.codegen, *(ALIGNED if variant in MEASURED else ())]
        linking = ["-fuse-ld=lld", f"-Wl,--thinlto-cache-dir={BUILD / variant / 'thinlto-cache'}",
                   *(f"-Wl,-mllvm,{option}" for option in generating)]
    # Compiler and linker have to agree, so where the user has a say in one of them, neither is told.
    foreign = {"--enable-shared", "--enable-shared=yes"} & set(flags) or {"CFLAGS_NODIST", "LDFLAGS_NODIST"} & named
    if variant in PROFILE_GUIDED and not foreign:
        # As Debian's interpreter stays where it is linked for: addresses are then parts of instructions.
        compiling.append("-fno-pie")
        linking.append("-no-pie")
    for variable, words in (("CFLAGS_NODIST", compiling), ("LDFLAGS_NODIST", linking)):
        if chosen and words and variable not in named:
            chosen.append(f"{variable}={' '.join(words)}")
    if variant in PROFILE_GUIDED and "PROFILE_TASK" not in named:
        chosen.append(f"PROFILE_TASK={TRAINING}")
    source = ROOT / facts["source"]
    command = [str(source / "configure"), *flags, *chosen]
    if STOCK not in flags:
        command.append(f"FERRULE_DIR={ROOT}")
        command.append(f"FERRULE_DEBIAN_REVISION={facts.get('debian_revision') or ''}")
    return command


def configure(variant: str, facts: dict) -> None:
    """Runs CPython's configure unless it has run with the very same command.

    With another command nothing that was built before is kept: make does not
    know that objects came from other flags, or a profile from other source.
    """
    directory = BUILD / variant
    command = configure_command(variant, facts)
    made_of = [*command, facts["patches_sha256"]] if "--enable-optimizations" in command else command
    if variant in PROFILE_GUIDED:
        made_of = [*made_of, *sorted(BUILT_IN)]
    stamp = directory / "ferrule-configure.json"
    if stamp.exists() and read_stamp(stamp) == made_of:
        if (directory / "Makefile").exists():
            return
    elif directory.exists():
        if stamp.exists():
            progress.say(f"other flags, tools or source than before: build/{variant} is made anew")
        shutil.rmtree(directory)
    directory.mkdir(parents=True, exist_ok=True)
    stamp.unlink(missing_ok=True)
    log = LOGS / f"{variant}-configure.log"
    if progress.run(command, label=f"configure {variant}", log=log, cwd=directory) != 0:
        raise BuildError(f"configuring {variant} failed; the whole log is {log}")
    for line in log.read_text(errors="replace").splitlines():
        if re.search("rust|cross-language", line, re.I):
            progress.say(f"  {line.strip()}")
    if variant in PROFILE_GUIDED:
        build_in(directory)
    stamp.write_text(json.dumps(made_of))


def build_in(directory: Path) -> None:
    """Make modules part of the interpreter, each with the sources that configure found for it."""
    modules = (directory / "Modules" / "Setup.stdlib").read_text().splitlines()
    lines = [line for line in modules if line.partition(" ")[0] in BUILT_IN]
    # Newer than CPython's Makefile, which make therefore makes anew from it.
    (directory / "Modules" / "Setup.local").write_text("\n".join(["*static*", *lines]) + "\n")


def read_stamp(stamp: Path) -> list[str] | None:
    try:
        return json.loads(stamp.read_text())
    except ValueError:
        return None


def jobs() -> list[str]:
    """`-j` for a make that is not under another make's job server."""
    if "-j" in os.environ.get("MAKEFLAGS", ""):
        return []
    return [f"-j{os.cpu_count() or 1}"]


def make(variant: str, arguments: list[str]) -> None:
    facts = fetch_source()
    configure(variant, facts)
    label = f"make {variant}" + "".join(f" {argument}" for argument in arguments)
    suffix = "".join(f"-{word}" for word in arguments if "=" not in word)
    log = LOGS / f"{variant}-make{suffix}.log"
    # CPython links _bootstrap_python without what configure knows of the linker;
    # on make's command line it reaches that link too, and lld's cache serves it.
    linker = [word for word in configure_command(variant, facts)
              if word.startswith(("LDFLAGS_NODIST=-fuse-ld=lld", "LDFLAGS_NODIST=-no-pie"))]
    command = ["make", *jobs(), *linker, *profile_settings(variant), *arguments]
    # close_fds: the job server of an outer make is two open descriptors.
    if progress.run(command, label=label, log=log, cwd=BUILD / variant, close_fds=False) != 0:
        raise BuildError(f"building {variant} failed; the whole log is {log}")


def profile_settings(variant: str) -> list[str]:
    """What make is told about the profile of clang's build; gcc's takes none of it.

    LLVM's optimizer counts instead of clang's front end, so that the targets of indirect calls are counted too. Each
    process writes one file for each of its binaries (`%m`): with one for all, the last to end is all that is kept.
    Profiles that are of no use, those of processes that a test killed, do not stop the build; two gigabytes of them are
    removed once they are merged. What only freezes modules need not be fast: linked without optimization it takes one
    minute instead of four.
    """
    if variant not in PROFILE_GUIDED:
        return []
    makefile = (BUILD / variant / "Makefile").read_text()
    merger = re.search(r"^(LLVM_PROF_MERGER=.*llvm-profdata merge )(.*)$", makefile, re.M)
    if merger is None:
        return []
    freezers = "$(filter _bootstrap_python Programs/_freeze_module,$@)"
    unoptimized = [f"LINKCC=$(PURIFY) $(CC) $(if {freezers},-Xlinker --lto-O0)"] if "-fuse-ld=lld" in makefile else []
    return [
        f"{merger[1]}-failure-mode=all {merger[2]} && rm -f $(abs_builddir)/*.profclangr",
        "PGO_PROF_GEN_FLAG=-fprofile-generate",
        "PGO_PROF_USE_FLAG=-fprofile-use=$(abs_builddir)/code.profclangd",
        "LLVM_PROF_FILE=LLVM_PROFILE_FILE=$(abs_builddir)/code-%p-%m.profclangr",
        *unoptimized,
    ]


def choose_flags(flags: list[str]) -> None:
    BUILD.mkdir(exist_ok=True)
    facts = fetch_source()
    if {"--help", "-h", "--help=short"} & set(flags):
        print("Ferrule takes CPython's own flags, the two of the Rust frame core among them.\n")
        raise SystemExit(subprocess.run([ROOT / facts["source"] / "configure", *flags]).returncode)
    USER_FLAGS.write_text(shlex.join(with_environment(flags)) + "\n")
    configure("ferrule", facts)
    print("Configured. Now run `make`.")


def clean() -> None:
    for directory in (*(BUILD / variant for variant in VARIANTS), LOGS):
        if directory.exists():
            shutil.rmtree(directory)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("configure", add_help=False)
    commands.add_parser("clean")
    maker = commands.add_parser("make")
    maker.add_argument("variant", choices=VARIANTS)
    maker.add_argument("arguments", nargs="*", help="make's targets and variables")
    # configure's flags are CPython's, --help among them: argparse keeps off.
    if sys.argv[1:2] == ["configure"]:
        choose_flags(sys.argv[2:])
        return
    options = parser.parse_args()
    if options.command == "clean":
        clean()
        return
    progress.heed_interrupts()
    make(options.variant, options.arguments)


if __name__ == "__main__":
    try:
        main()
    except (BuildError, toolchain.ToolchainError) as error:
        sys.exit(f"ferrule: {error}")
    except KeyboardInterrupt:
        sys.exit("ferrule: interrupted; run the same command again to go on")
