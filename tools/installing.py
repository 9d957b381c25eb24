"""Install what was built, and do nothing else: no compiler, no Rust, no network, and nothing made anew."""

import os
import re
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path

from tools import choices, clients, making, places, progress
from tools.configuring import is_as_chosen
from tools.environment import for_children, on_command_line
from tools.errors import BuildError, cause

# CPython's targets depend on these. They are there, so make takes them as they are, however old.
BUILT = ("all", "scripts", "check-clean-src", "Makefile", "python", "python.exe", "pybuilddir.txt")
# CPython's names of directories: an install to others than the configured ones would leave the old ones in scripts,
# in the .pc files, in sysconfig and in the interpreter.
CONFIGURED = ("prefix", "exec_prefix")
# What CPython's Makefile reads when it installs, and that changes nothing of what was built.
PASSED_ON = ("ENSUREPIP", "INSTALL")
# A shell takes a path apart at these, and CPython's Makefile hands paths to one without quotes.
ODD = re.compile(r"[^\w./+,@~%:=-]")


def install(variant: str, target: str, environment: Mapping[str, str]) -> None:
    """`make install` or `make altinstall` of one variant."""
    how = "make" if variant == "ferrule" else f"make {variant}"
    if not making.finished(variant).exists():
        raise BuildError(f"{variant} is not built, or was not built to its end: run `{how}` first")
    if making.finished(variant).read_text() != making.source_stamp(variant):
        raise BuildError(f"the source has changed since build/{variant} was built, and the library is taken from there: run "
                         f"`{how}` first")
    if not is_as_chosen(variant, choices.read()):
        raise BuildError(f"build/{variant} is of other choices than those that hold now (`make show`): run `{how}` first")
    check_prefix(variant, environment)
    given = on_command_line(environment)
    check_places(given, environment)
    directory = places.BUILD / variant
    words = [f"{name}={environment[name]}" for name in PASSED_ON if name in given]
    staged = staging(environment["DESTDIR"]) if environment.get("DESTDIR") else ""
    if staged:
        words.append(f"DESTDIR={staged}")
    if clients.belong_to(variant):
        # First: CPython's Makefile compiles all that is in its library.
        clients.install_beside(variant, Path(f"{staged}{library(directory)}"))
    command = ["make", *(word for name in BUILT for word in ("-o", name)), target, *without_bytecode(directory), *words]
    # Who may only read the clone keeps no log in it; and root's would be in the owner's way.
    with tempfile.TemporaryDirectory(prefix="ferrule-") as temporary:
        log = Path(temporary) / f"{variant}-{target}.log"
        children = {**for_children(environment), "PYTHONDONTWRITEBYTECODE": "1"}
        children.pop("DESTDIR", None)
        # CPython's Makefile gives each file its mode, but bytecode and pip come as the umask has it: with root's 077 no other user
        # else could use them.
        status = progress.run(command, label=f"{target} {variant}", log=log, cwd=directory, env=children, close_fds=False,
                              umask=0o022)
        kept = keep(log)
        if status != 0:
            why = cause(log.read_text(errors="replace"))
            raise BuildError(f"installing {variant} failed: {why}\n  the whole log is {kept or elsewhere(log)}")
    where = making.facts_of(variant).get("prefix", "")
    progress.say(f"installed build/{variant} to {environment.get('DESTDIR', '')}{where}")


def library(directory: Path) -> str:
    """Where the library goes, as CPython's Makefile has it."""
    question = "where: ; @echo $(LIBDEST)"
    found = subprocess.run(["make", "-s", "-f", "Makefile", "--eval", question, "where"], cwd=directory, text=True,
                           env={"PATH": os.environ["PATH"]}, capture_output=True)
    if found.returncode != 0 or not found.stdout.strip():
        raise BuildError(f"the Makefile of {directory} does not say where the library goes: {cause(found.stderr)}")
    return found.stdout.strip()


def without_bytecode(directory: Path) -> list[str]:
    """Have CPython's Makefile run the interpreter so that it leaves nothing in the source tree, where it would be root's.

    What is installed is compiled all the same. The variable of the environment does for the rest: with -E it is not read.
    """
    runner = re.search(r"^PYTHON_FOR_BUILD=[ \t]*(.+)$", (directory / "Makefile").read_text(), re.M)
    return [f"PYTHON_FOR_BUILD={runner[1]} -B"] if runner else []


def check_prefix(variant: str, environment: Mapping[str, str]) -> None:
    configured = making.facts_of(variant)
    for name in CONFIGURED:
        wanted = environment.get(name)
        has = configured.get(name, "").replace("${prefix}", configured.get("prefix", ""))
        if wanted and os.path.normpath(wanted) != os.path.normpath(has):
            raise BuildError(
                f"{name}={wanted}: build/{variant} is configured for {has}, and its scripts, .pc files and sysconfig say so.\n"
                f"  to install there: ./configure --{name.replace('_', '-')}={wanted} ..., make, and make install\n"
                f"  to stage it:      make install DESTDIR=directory")


def check_places(given: list[str], environment: Mapping[str, str]) -> None:
    """Other directories of configure are chosen with it, too; left out in silence they would be those of the build."""
    for name in given:
        flag = f"--{name.lower().replace('_', '-')}"
        if name not in CONFIGURED and re.fullmatch(choices.PLACES, flag):
            raise BuildError(f"{name}={environment.get(name, '')}: where each kind of file goes is chosen before the build: "
                             f"./configure {flag}={environment.get(name, '')} ..., make, and make install")


def staging(named: str) -> Path:
    directory = Path(named).absolute()
    odd = ODD.search(str(directory))
    if odd:
        raise BuildError(f"DESTDIR has {odd[0]!r} in it, which CPython's Makefile cannot take: {directory}\n"
                         f"  name another directory, and move what is installed there")
    return directory


def keep(log: Path) -> Path | None:
    """The log among the others, as a file of who owns the clone; None where this user cannot write there."""
    place = places.logs() / log.name
    try:
        place.parent.mkdir(exist_ok=True)
        place.write_bytes(log.read_bytes())
        if os.geteuid() == 0:
            owner = places.BUILD.stat()
            for path in (place.parent, place):
                os.chown(path, owner.st_uid, owner.st_gid)
        return place
    except OSError:
        return None


def elsewhere(log: Path) -> Path:
    handle, name = tempfile.mkstemp(prefix="ferrule-", suffix=f"-{log.name}")
    os.close(handle)
    Path(name).write_bytes(log.read_bytes())
    return Path(name)
