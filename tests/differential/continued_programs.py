#!/usr/bin/env python3
"""Random programs whose frames are taken away at their instructions, and continue from records of them: they leave the trace of stock.

    python3 -m tests.differential.continued_programs --count 5000
    python3 -m tests.differential.continued_programs --modes each --seed 123 --count 1         one program again
    python3 -m tests.differential.continued_programs --modes each --seed 123 --count 1 --show  and its traces

The programs are those of programs.py. Each is run on stock, and on Ferrule in one mode:

    each        it is stopped at each instruction, or at one of a few; the frames of its calls continue as one chain
    hooked      the same, with a frame hook that passes each frame; compared with Ferrule, where nothing stops it
    throw       at some instructions, frames continue with an exception. On stock that is raised by a monitoring function

The exit code is 0 when all traces were the same, 1 when not, 2 when the interpreters cannot be run.
"""

import os
import sys

from tests.c import build_extensions
from tests.differential import program_runs, programs_generator
from tests.differential.program_runs import HERE, ROOT, Way

WORKER = os.path.join(HERE, "continued_programs_worker.py")
# What the reference does in a mode.
MODES = {"each": "seen", "hooked": "seen-hooked", "throw": "raise"}
# A hook in Python needs some of the stack, so what happens at its end happens elsewhere. Stock has no hooks.
BY_ITSELF = {"hooked"}
EXTENSIONS = os.path.join(ROOT, "build", "test-extensions", "continued-programs")


def extension_for(python, name):
    """The file of the extension, built if need be."""
    directory = build_extensions.build(python, os.path.join(EXTENSIONS, name))
    return os.path.join(directory, "continuing" + build_extensions.facts_of(python)["suffix"])


def programs_for(ferrule, stock, mode):
    """The Programs, in one mode."""
    options = ("--python", ferrule, "--stock", stock, "--modes", mode)

    def way(name, python, how):
        return Way(name, python, (how, "--extension", extension_for(python, name)))

    reference = way("unstopped", ferrule, MODES[mode]) if mode in BY_ITSELF else way("stock", stock, MODES[mode])
    return program_runs.Programs(
        os.path.abspath(__file__), WORKER, programs_generator.program, reference,
        (way("ferrule", ferrule, mode),), options)


def main():
    parser = program_runs.argument_parser(__doc__)
    parser.add_argument("--modes", nargs="+", choices=MODES, default=list(MODES), metavar="MODE",
                        help="of each, hooked, throw (default: all)")
    options = parser.parse_args()
    try:
        programs = [programs_for(options.python, options.stock, mode) for mode in options.modes]
    except (OSError, RuntimeError) as error:
        print(error, file=sys.stderr)
        return 2
    return max(program_runs.run_command(options, each) for each in programs)


if __name__ == "__main__":
    sys.exit(main())
