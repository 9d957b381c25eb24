#!/usr/bin/env python3
"""Configure, build and install the interpreters of this project.

  build.py configure [FLAG...]        choose release, flags and compiler for all variants; configure ferrule
  build.py make VARIANT [ARGUMENT...] get, patch, configure and build one variant
  build.py install VARIANT            install what was built; altinstall leaves python3 and the like alone
  build.py fetch                      get and patch CPython's source
  build.py show                       what is chosen, and what is built
  build.py clean                      remove what was built of all variants, and the logs
  build.py distclean                  remove all of build/
"""

import argparse
import json
import os
import re
import subprocess
import sys

from tools import choices, clients, installing, locking, making, places, progress, showing, target
from tools.choices import Choices
from tools.configuring import configure, flags_of, without_rust
from tools.errors import BuildError, explain
from tools.variants import VARIANTS

# What configure answers without doing anything.
QUESTION = re.compile(r"--?(h|he|hel|help|help=.*|vers|versi|versio|version|V)$")
DEFAULTS = "--defaults"


def fetch_source(chosen: Choices) -> dict:
    """The patched source's facts; gets and patches it where that is needed."""
    release = {name: chosen.variables.get(name, "") for name in choices.RELEASE_VARIABLES}
    command = [sys.executable, "-m", "cpython.fetch", "--dest", str(places.BUILD / "src")]
    if subprocess.run(command, cwd=places.ROOT, env={**os.environ, **release}).returncode != 0:
        raise BuildError("no CPython source, see above")
    return json.loads(places.source_facts().read_text())


def check_target(variant: str, chosen: Choices) -> None:
    flags = flags_of(variant, chosen)
    if not without_rust(flags):
        target.check(flags, chosen.variables_for(variant))


def choose(flags: list[str]) -> None:
    """Record the choice once CPython's configure has accepted it."""
    questions = [flag for flag in flags if QUESTION.match(flag)]
    if DEFAULTS in flags and flags != [DEFAULTS]:
        raise BuildError(f"{DEFAULTS} goes back to no flags and no variables; it takes none beside it")
    chosen = Choices() if flags == [DEFAULTS] else choices.of(flags, os.environ)
    if questions:
        answer(questions, choices.read() or chosen)
        return
    check_target("ferrule", chosen)
    facts = fetch_source(chosen)
    configure("ferrule", chosen, facts)
    choices.write(chosen)
    print("Configured. Now run `make`.")


def answer(questions: list[str], chosen: Choices) -> None:
    facts = fetch_source(chosen)
    if any(question.startswith(("-h", "--h")) for question in questions):
        print(f"Ferrule takes CPython's own flags, the two of the Rust frame core among them,\n"
              f"and {DEFAULTS}: no flags and no variables, whatever the environment has.\n", flush=True)
    done = subprocess.run([places.ROOT / facts["source"] / "configure", *questions], cwd=places.BUILD)
    raise SystemExit(done.returncode)


def make(variant: str, arguments: list[str]) -> None:
    chosen = choices.for_make(os.environ)
    check_target(variant, chosen)
    facts = fetch_source(chosen)
    configure(variant, chosen, facts)
    # The first make of a clone makes the choice that holds from then on.
    choices.write(chosen)
    making.make(variant, arguments, chosen, facts)
    if not arguments and clients.belong_to(variant):
        clients.build_beside(variant)


def clean() -> None:
    for variant in VARIANTS:
        making.remove(places.BUILD / variant)
        making.remove(places.BUILD / f".{variant}.before")
    making.remove(places.logs())


def distclean() -> None:
    for path in list(places.BUILD.iterdir()):
        if path.is_dir() and not path.is_symlink():
            making.remove(path)
        else:
            path.unlink(missing_ok=True)
    # A build directory on another disk is a link here.
    (places.BUILD.unlink if places.BUILD.is_symlink() else places.BUILD.rmdir)()


def parse(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("clean")
    commands.add_parser("distclean")
    commands.add_parser("fetch")
    commands.add_parser("show")
    for name in ("install", "altinstall"):
        commands.add_parser(name).add_argument("variant")
    maker = commands.add_parser("make")
    maker.add_argument("variant")
    maker.add_argument("arguments", nargs="*", help="make's targets and variables")
    options = parser.parse_args(arguments)
    if getattr(options, "variant", "ferrule") not in VARIANTS:
        raise BuildError(f"there is no variant {options.variant!r}; there are {', '.join(VARIANTS)}")
    return options


def run(arguments: list[str]) -> None:
    # configure's flags are CPython's, --help among them: argparse keeps off.
    options = None if arguments[:1] == ["configure"] else parse(arguments)
    if options and options.command == "show":
        showing.show()
        return
    places.check()
    installs = options is not None and options.command in ("install", "altinstall")
    if not installs:
        places.check_writable(places.BUILD)
        places.BUILD.mkdir(exist_ok=True)
    with locking.alone():
        if options is None:
            choose(arguments[1:])
        elif installs:
            installing.install(options.variant, options.command, os.environ)
        elif options.command == "clean":
            clean()
        elif options.command == "distclean":
            distclean()
        elif options.command == "fetch":
            fetch_source(choices.for_make(os.environ))
        else:
            progress.heed_interrupts()
            make(options.variant, options.arguments)


if __name__ == "__main__":
    try:
        run(sys.argv[1:])
    except BuildError as error:
        sys.exit(f"ferrule: {error}")
    except OSError as error:
        sys.exit(f"ferrule: {explain(error)}")
    except KeyboardInterrupt:
        sys.exit("ferrule: interrupted; run the same command again to continue")
