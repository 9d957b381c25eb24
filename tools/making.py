"""Build a configured interpreter with CPython's own Makefile."""

import os
import re
import shutil
import subprocess
from pathlib import Path

from tools import places, progress
from tools.choices import Choices
from tools.configuring import configure_command, flags_of, is_shared, read_stamp, seen_from
from tools.environment import for_children, jobs
from tools.errors import BuildError, cause

# dtrace compiles a file of its own, with -g and CFLAGS alone. It would say where it was compiled, and so would the build id.
DTRACE = 'DTRACE=env CFLAGS="$(CFLAGS) -g0" dtrace'
# What an extension is compiled with where the interpreter is used: not the build's own clang, which need not be there.
PLAIN_TOOLS = {"clang": "cc", "clang++": "c++", "llvm-ar": "ar", "llvm-ranlib": "ranlib"}


def finished(variant: str) -> Path:
    """A file that is there while a build is complete, and says of which source."""
    return places.BUILD / variant / "ferrule-built"


def source_stamp(variant: str) -> str:
    """What the source tree of a variant is made of, as cpython/fetch.py notes it beside the tree."""
    command = read_stamp(places.BUILD / variant / "ferrule-configure.json")
    stamp = (places.BUILD / variant / command[0]).parent.parent / "stamp.json" if command else None
    return stamp.read_text() if stamp and stamp.exists() else ""


def make(variant: str, arguments: list[str], chosen: Choices, facts: dict) -> None:
    directory = places.BUILD / variant
    label = f"make {variant}" + "".join(f" {argument}" for argument in arguments)
    suffix = "".join(f"-{word}" for word in arguments if "=" not in word)
    log = places.logs() / f"{variant}-make{suffix}.log"
    # CPython links _bootstrap_python without what configure knows of the linker;
    # on make's command line it reaches that link too, and lld's cache serves it.
    linker = [word for word in configure_command(variant, chosen, facts)
              if word.startswith("LDFLAGS_NODIST=") and re.search(r"-fuse-ld=lld|-no-pie", word)]
    variables = chosen.variables_for(variant)
    tree = seen_from(directory, places.ROOT / facts["source"])
    command = ["make", *jobs(), DTRACE, *linker, *profile_settings(directory, tree), *library_beside(variant, chosen),
               *path_of_ours(variables), *(arguments or with_profile(variables, tree))]
    if not arguments:
        finished(variant).unlink(missing_ok=True)
    # close_fds: the job server of an outer make is two open descriptors.
    if progress.run(command, label=label, log=log, cwd=directory, env=for_children(), close_fds=False) != 0:
        raise BuildError(f"building {variant} failed: {cause(log.read_text(errors='replace'))}\n"
                         f"  the whole log is {log}; `make V=1` shows the commands as they run")
    if "CC" not in chosen.variables_for(variant):
        name_plain_tools(directory)
    if not arguments:
        finished(variant).write_text(source_stamp(variant))


def profile_settings(directory: Path, tree: Path) -> list[str]:
    """make's arguments for the profile of clang's build; gcc's takes none of it.

    LLVM's optimizer counts instead of clang's front end, so that the targets of indirect calls are counted too. Each
    process writes one file for each of its binaries (`%m`): with one for all, the last to end is all that is kept.
    Profiles that are of no use, those of processes that a test killed, do not stop the build; two gigabytes of them are
    removed once they are merged. What only freezes modules need not be fast: linked without optimization it takes one
    minute instead of four.
    """
    if "--enable-optimizations" not in (read_stamp(directory / "ferrule-configure.json") or []):
        return []
    makefile = (directory / "Makefile").read_text()
    merger = re.search(r"^(LLVM_PROF_MERGER=.*llvm-profdata merge )(.*)$", makefile, re.M)
    if merger is None:
        return []
    helpers = "$(filter _bootstrap_python Programs/_freeze_module Programs/_testembed,$@)"
    unoptimized = [f"LINKCC=$(PURIFY) $(CC) $(if {helpers},-Xlinker --lto-O0)"] if "-fuse-ld=lld" in makefile else []
    return [
        f"{merger[1]}-failure-mode=all {merger[2]} && rm -f $(abs_builddir)/*.profclangr",
        f"PGO_PROF_GEN_FLAG=-fprofile-generate {names_without(tree)}",
        f"PGO_PROF_USE_FLAG=-fprofile-use=$(abs_builddir)/code.profclangd {names_without(tree)}",
        "LLVM_PROF_FILE=LLVM_PROFILE_FILE=$(abs_builddir)/code-%p-%m.profclangr",
        *unoptimized,
    ]


def names_without(tree: Path) -> str:
    """In a profile a static function has its file's path before its name: without the tree's, it serves in any directory."""
    return f"-mllvm -static-func-strip-dirname-prefix={len(tree.parts)}"


def with_profile(variables: dict[str, str], tree: Path) -> list[str]:
    """What builds all with a profile that was made before: the second half of CPython's target for such builds."""
    profile = variables.get("PROFILE_USE")
    return ["build_all", f"CFLAGS_NODIST=-fprofile-use={profile} {names_without(tree)}"] if profile else []


def path_of_ours(variables: dict[str, str]) -> list[str]:
    """An entry of sys.path before the library, by the macro that CPython has for it."""
    return [f"PYTHONPATH={variables['FERRULE_PATH']}"] if "FERRULE_PATH" in variables else []


def library_beside(variant: str, chosen: Choices) -> list[str]:
    """Where a program with a shared libpython looks for it: beside itself, and where the two are installed.

    On make's command line, it reaches the programs alone: no extension module, and nothing that sysconfig records.
    """
    flags, variables = flags_of(variant, chosen), chosen.variables_for(variant)
    named = any("rpath" in variables.get(name, "") for name in ("LDFLAGS", "LDFLAGS_NODIST"))
    if not is_shared(flags) or named:
        return []
    makefile = places.BUILD / variant / "Makefile"
    linking = re.search(r"^LINKFORSHARED=[ \t]*(.*)$", makefile.read_text(), re.M)
    question = "where: ; @realpath -ms --relative-to=$(BINDIR) $(LIBDIR)"
    ask = subprocess.run(["make", "-s", "-f", makefile, "--eval", question, "where"], cwd=makefile.parent,
                         env={"PATH": os.environ["PATH"]}, capture_output=True, text=True)
    beside = [r"\$$ORIGIN", *([rf"\$$ORIGIN/{ask.stdout.strip()}"] if ask.returncode == 0 else [])]
    return [f"LINKFORSHARED={linking[1] if linking else ''} -Wl,-rpath,{':'.join(beside)}"]


def name_plain_tools(directory: Path) -> None:
    """Have sysconfig name the compiler and the archiver as any machine has them."""
    for file in directory.glob("build/lib.*/_sysconfigdata_*.py"):
        text = file.read_text()
        plain = re.sub(r"(?<=[' ])/usr/lib/llvm-\d+/bin/({})(?=[' ])".format("|".join(map(re.escape, PLAIN_TOOLS))),
                       lambda tool: PLAIN_TOOLS[tool[1]], text)
        if plain != text:
            file.write_text(plain)


def facts_of(variant: str) -> dict[str, str]:
    """What CPython's Makefile of this variant says of itself; nothing where it is not configured."""
    try:
        text = (places.BUILD / variant / "Makefile").read_text()
    except FileNotFoundError:
        return {}
    return dict(re.findall(r"^(prefix|exec_prefix|RUST_CORE|RUST_CORE_CROSS_LTO|CC|BUILD_GNU_TYPE|HOST_GNU_TYPE)=[ \t]*(.*?)[ \t]*$", text, re.M))


def remove(directory: Path) -> None:
    if directory.exists():
        shutil.rmtree(directory)
