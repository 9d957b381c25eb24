"""python -m ferrule_debugger [-h] [-c command] [--keep] [--children] (-m module | -p pid | script.py) [arguments]"""

import argparse
import itertools
import os
import pdb
import sys

from . import Pdb, attach, children, install, keeping, missing
from .debugger import end_soon

DESCRIPTION = """\
Debug a Python program: pdb, with all of its commands, without its price.

Commands are read from .pdbrc in the home directory and in the current directory,
then from -c. "-c continue" runs the program until an exception or the end,
"-c 'until 30'" up to line 30."""


def _parser():
    parser = argparse.ArgumentParser(
        prog="python -m ferrule_debugger", description=DESCRIPTION, allow_abbrev=False,
        usage="%(prog)s [-h] [-c command] [--keep] [--children] (-m module | -p pid | script.py) [arguments]",
        formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-c", "--command", action="append", metavar="command", help="a command of the debugger")
    parser.add_argument("-m", dest="module", metavar="module", help="debug a module, as python -m runs it")
    parser.add_argument("-p", "--pid", type=int, metavar="pid", help="debug a process that runs, which continues after quit")
    parser.add_argument("--keep", action="store_true", help="set the breakpoints of the last session, and keep those of this one")
    parser.add_argument("--children", action="store_true", help="stop at breakpoints in the Pythons that the program starts, too")
    parser.add_argument("script", nargs=argparse.REMAINDER, help=argparse.SUPPRESS)
    return parser


def _own(arguments):
    """The arguments without those of the program."""
    own, rest = [], iter(arguments)
    for argument in rest:
        own.append(argument)
        if argument in ("-c", "--command", "-m", "-p", "--pid"):
            own.extend(itertools.islice(rest, 1))
        if argument == "-m" or not argument.startswith("-"):
            break
    return own


def main():
    parser = _parser()
    if len(sys.argv) == 1:
        parser.print_help()
        sys.exit(2)
    own = _own(sys.argv[1:])
    options = parser.parse_args(own)
    if options.pid is not None:
        if options.module or options.script or options.keep or options.children:
            parser.error("-p goes with -c alone: the process runs already")
        if not hasattr(sys, "remote_exec"):
            parser.error("-p needs sys.remote_exec(), which Ferrule has")
        sys.exit(attach.main(options.pid, options.command or ()))
    if not (options.module or options.script):
        parser.error("no module or script to run")
    install()
    if (lacking := missing()) is not None:
        print(f"{lacking} Code is found by events of sys.monitoring instead.", file=sys.stderr)
    # pdb would take options from the arguments of the program.
    Pdb.arguments, sys.argv[1:] = sys.argv[1 + len(own):], [each for each in own if each not in ("--keep", "--children")]
    keeping.keep_history()
    if options.children:
        try:
            children.follow()
        except OSError as error:
            parser.error(f"--children: {error}")
    if options.keep:
        Pdb.kept = keeping.Kept(options.module or os.path.realpath(options.script[0]))
    # The program has the globals of this module from here on.
    debugger, end, run = Pdb, end_soon, pdb.main
    try:
        run()
    finally:
        if debugger.kept is not None and debugger.running is not None:
            debugger.kept.save(debugger.running)
    end()


if __name__ == "__main__":
    main()
