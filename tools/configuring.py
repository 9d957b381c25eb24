"""The command that configures a build, and when it is run again."""

import hashlib
import json
import os
import re
import shutil
from pathlib import Path

from tools import places, progress, toolchain
from tools.choices import RELEASE_VARIABLES, SYSROOT, Choices
from tools.environment import for_children
from tools.errors import BuildError, cause
from tools.variants import ALIGNED, BUILT_IN, DEBIAN_BUILT_IN, STOCK, TRAINING, TRAINING_MAY_FAIL, VARIANTS


def without_rust(flags: list[str]) -> bool:
    words = [flag for flag in flags if re.match(r"--with(out)?-rust-core(=|$)", flag)]
    return bool(words) and words[-1] in (STOCK, "--with-rust-core=no")


def is_shared(flags: list[str]) -> bool:
    words = [flag for flag in flags if re.match(r"--(en|dis)able-shared(=|$)", flag)]
    return bool(words) and words[-1] in ("--enable-shared", "--enable-shared=yes")


def profile_guided(flags: list[str]) -> bool:
    words = [flag for flag in flags if re.match(r"--(en|dis)able-optimizations(=|$)", flag)]
    return bool(words) and words[-1] in ("--enable-optimizations", "--enable-optimizations=yes")


def wants_lto(flags: list[str]) -> bool:
    lto = [flag for flag in flags if flag.startswith("--with-lto")]
    return bool(lto) and lto[-1] != "--with-lto=no" and "--without-lto" not in flags


def completed(flags: list[str]) -> list[str]:
    """With a profile, LTO means the one that is linked in one piece, unless another kind is named.

    With the counts of indirect calls ThinLTO takes nearly every hot function into nearly every module.
    """
    if not profile_guided(flags):
        return flags
    return ["--with-lto=full" if flag in ("--with-lto", "--with-lto=yes") else flag for flag in flags]


def built_in(facts: dict) -> frozenset[str]:
    """The modules that are part of a profile-guided interpreter."""
    return BUILT_IN | DEBIAN_BUILT_IN if facts.get("series") == "debian" else BUILT_IN


def training(facts: dict, variant: str) -> str:
    """What a profile is made of: arguments of the interpreter, in its build directory. Debian's series continues after a test that failed, and
    reports nothing here; it takes no commands of the shell."""
    programs = seen_from(places.BUILD / variant, places.ROOT / "packaging" / "profile" / "programs.py")
    tests = TRAINING if facts.get("series") == "debian" else TRAINING + TRAINING_MAY_FAIL
    return f"{programs} {tests}"


def check_profile(flags: list[str], compiler: toolchain.Compiler, variables: dict[str, str]) -> None:
    """A profile that was made before (PROFILE_USE=) is LLVM's, for a build that is guided by one."""
    profile = variables.get("PROFILE_USE")
    if profile is None:
        return
    if not profile_guided(flags):
        raise BuildError(f"PROFILE_USE={profile} is for a build with --enable-optimizations")
    if not compiler.is_clang:
        raise BuildError(f"PROFILE_USE={profile} is a profile of LLVM, and the compiler is {compiler.description}")
    if not Path(profile).is_file():
        raise BuildError(f"PROFILE_USE={profile}: there is no such file; without it the profile is made in the build, in an hour")


def flags_of(variant: str, chosen: Choices) -> list[str]:
    return completed([*chosen.flags_for(variant), *VARIANTS[variant].flags])


def configure_command(variant: str, chosen: Choices, facts: dict) -> list[str]:
    flags = flags_of(variant, chosen)
    variables = chosen.variables_for(variant)
    sysroot = variables.pop(SYSROOT, None)
    # The same compiler for stock, as long as there is a Rust to go by.
    rust = toolchain.find_rust(required=not without_rust(flags))
    compiler = toolchain.find_compiler(rust.llvm if rust else None, variables.get("CC"), sysroot)
    check_profile(flags, compiler, variables)
    tools = [] if "CC" in variables else [
        argument for argument in compiler.arguments if argument.partition("=")[0] not in variables
    ]
    guided, guided_compiler = (compiler.guided, compiler.guided_compiler) if profile_guided(flags) else ((), ())
    compiling = [word for option in (*compiler.codegen, *guided, *guided_compiler) for word in ("-mllvm", option)]
    linking = []
    if wants_lto(flags) and compiler.has_lld:
        # The interpreter is linked three times, and again after each change:
        # lld keeps what ThinLTO made of the modules that stayed the same.
        generating = [*compiler.codegen, *guided, *(ALIGNED if VARIANTS[variant].aligned else ())]
        linking = ["-fuse-ld=lld", f"-Wl,--thinlto-cache-dir={places.BUILD / variant / 'thinlto-cache'}",
                   *(f"-Wl,-mllvm,{option}" for option in generating)]
    # Compiler and linker have to agree, so where the user has a say in one of them, neither gets options.
    said = any(re.search(r"-(f|no-|static-)?pie\b", variables.get(name, ""), re.I) for name in ("CFLAGS", "LDFLAGS"))
    foreign = is_shared(flags) or said or {"CFLAGS_NODIST", "LDFLAGS_NODIST"} & set(variables)
    if profile_guided(flags) and not foreign:
        # As Debian's interpreter stays where it is linked for: addresses are then parts of instructions.
        compiling.append("-fno-pie")
        linking.append("-no-pie")
    for variable, words in (("CFLAGS_NODIST", compiling), ("LDFLAGS_NODIST", linking)):
        if tools and words:
            variables[variable] = " ".join([*variables.get(variable, "").split(), *words])
    if profile_guided(flags) and "PROFILE_TASK" not in variables:
        tools.append(f"PROFILE_TASK={training(facts, variant)}")
    command = [str(seen_from(places.BUILD / variant, places.ROOT / facts["source"]) / "configure"), *flags,
               *(f"{name}={value}" for name, value in variables.items()), *tools]
    if not without_rust(flags):
        command.append(f"FERRULE_DIR={places.ROOT}")
        command.append(f"FERRULE_DEBIAN_REVISION={facts.get('debian_revision') or ''}")
    return command


def configure(variant: str, chosen: Choices, facts: dict) -> None:
    """Runs CPython's configure unless it has run with the very same command.

    With another command nothing that was built before is kept: make does not
    know that objects came from other flags, or a profile from other source.
    But it is kept until configure has accepted the new one.
    """
    directory, before = places.BUILD / variant, places.BUILD / f".{variant}.before"
    command = configure_command(variant, chosen, facts)
    guided = profile_guided(flags_of(variant, chosen))
    made_of = [*command, facts["patches_sha256"], *sorted(built_in(facts)), profile_digest(variant, chosen)] if guided else command
    stamp = directory / "ferrule-configure.json"
    places.check_writable(directory)
    take_back(directory, before)
    if read_stamp(stamp) == made_of and (directory / "Makefile").exists():
        note_chosen(variant, chosen)
        return
    if directory.exists():
        if stamp.exists():
            progress.say(f"other flags, tools or source than before: build/{variant} is made anew, once configure takes them")
        directory.rename(before)
    directory.mkdir(parents=True)
    try:
        run_configure(variant, command, directory)
        if guided:
            build_in(directory, built_in(facts))
        note_chosen(variant, chosen)
        stamp.write_text(json.dumps(made_of))
    finally:
        take_back(directory, before)


def chosen_for(variant: str, chosen: Choices) -> dict:
    release = {name: value for name, value in chosen.variables.items() if name in RELEASE_VARIABLES}
    return {"flags": flags_of(variant, chosen), "variables": chosen.variables_for(variant), "release": release}


def note_chosen(variant: str, chosen: Choices) -> None:
    """What of the choices is in this build: a user who installs it may have no Rust, and so no command to compare."""
    (places.BUILD / variant / "ferrule-chosen.json").write_text(json.dumps(chosen_for(variant, chosen)))


def is_as_chosen(variant: str, chosen: Choices | None) -> bool:
    noted = read_stamp(places.BUILD / variant / "ferrule-chosen.json")
    return chosen is None or noted is None or noted == chosen_for(variant, chosen)


def run_configure(variant: str, command: list[str], directory: Path) -> None:
    log = places.logs() / f"{variant}-configure.log"
    status = progress.run(command, label=f"configure {variant}", log=log, cwd=directory, env=for_children())
    said = log.read_text(errors="replace")
    for line in said.splitlines():
        if re.search(r"rust|cross-language|^configure: WARNING: ", line, re.I):
            progress.say(f"  {line.strip()}")
    if status != 0 or not (directory / "Makefile").exists():
        why = cause(said) if status else "it made no Makefile"
        raise BuildError(f"configuring {variant} failed: {why}\n  nothing was changed; the whole log is {log}")


def seen_from(directory: Path, path: Path) -> Path:
    """A path as CPython's Makefile has it: relative, so that what is built does not say where the clone was.

    `..` of a link leads to where the link leads.
    """
    return Path(os.path.relpath(path.resolve(), directory.resolve()))


def take_back(directory: Path, before: Path) -> None:
    """Leave one build: the new one where its configure came to its end, else the one before."""
    if not (directory / "ferrule-configure.json").exists():
        shutil.rmtree(directory, ignore_errors=True)
        if before.exists():
            before.rename(directory)
    elif before.exists():
        shutil.rmtree(before)


def profile_digest(variant: str, chosen: Choices) -> str:
    profile = chosen.variables_for(variant).get("PROFILE_USE")
    return hashlib.sha256(Path(profile).read_bytes()).hexdigest() if profile else ""


def build_in(directory: Path, names: frozenset[str]) -> None:
    """Make modules part of the interpreter, each with the sources that configure found for it."""
    modules = (directory / "Modules" / "Setup.stdlib").read_text().splitlines()
    lines = [line for line in modules if line.partition(" ")[0] in names]
    # Newer than CPython's Makefile, which make therefore makes anew from it.
    (directory / "Modules" / "Setup.local").write_text("\n".join(["*static*", *lines]) + "\n")


def read_stamp(stamp: Path) -> list[str] | None:
    try:
        return json.loads(stamp.read_text())
    except (FileNotFoundError, ValueError):
        return None
