#!/usr/bin/env python3
"""Random programs that must leave the same trace on stock CPython and on Ferrule.

    python3 -m tests.differential.programs --python build/ferrule/python --stock build/stock/python --count 20000
    python3 -m tests.differential.programs --seed 123 --count 1         one program again, as in the report of a failure
    python3 -m tests.differential.programs --seed 123 --count 1 --show  its source and both traces
    python3 -m tests.differential.programs --count 500 --stats          what the programs do, and how they end

Program number N is what seed N gives; `--seed S --count C` runs S to S + C - 1. Many programs share a process; one
that crashes, hangs or leaves another trace is run again alone, with more time, and then made smaller.
The exit code is 0 when all traces were the same, 1 when not, 2 when the interpreters cannot be run.
"""

import os
import sys

from tests.differential import program_runs, programs_generator

WORKER = os.path.join(program_runs.HERE, "programs_worker.py")


def generate(seed):
    return programs_generator.program(seed)


def programs_for(ferrule, stock):
    """The Programs, on these interpreters."""
    return program_runs.Programs(
        os.path.abspath(__file__), WORKER, generate, program_runs.Way("stock", stock),
        (program_runs.Way("ferrule", ferrule),), ("--python", ferrule, "--stock", stock))


def main():
    options = program_runs.argument_parser(__doc__).parse_args()
    return program_runs.run_command(options, programs_for(options.python, options.stock))


if __name__ == "__main__":
    sys.exit(main())
