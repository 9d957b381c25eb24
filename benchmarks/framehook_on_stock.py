#!/usr/bin/env python3
"""A hook in Python on stock CPython, by the distribution framehook over sys.monitoring, beside the same one on Ferrule.

    python3 benchmarks/framehook_on_stock.py --base build/stock-release/python --python build/release/python

What a call takes without a hook, and what a hook adds to it, in instructions, which valgrind counts.
"""

import os
import sys

CALLS = {"recursion": 465, "methods": 200, "generators": 1}     # in one iteration
HEADS = {"generators": "a generator of 200 values"}


# --- In the interpreter that is measured. --------------------------------------------------------

def passes(view):
    pass


def note(event):
    pass


def watches(view):
    view.watch(note)


def watches_all(view):
    view.watch(note, yields=True, resumes=True)


HOOKS = {
    "without a hook": None,
    "`DISABLE`": lambda view: DISABLE,
    "returns `None`": passes,
    "has the exit delivered": watches,
    "and each yield and resumption": watches_all,
}


def child(hook, name, count):
    global DISABLE
    import workloads
    # Behind the standard library, as what is installed is.
    sys.path.append(os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "clients", "framehook", "src"))
    if "_framecore" not in sys.builtin_module_names:
        sys.path.insert(0, sys.path.pop())      # a stock build of this tree has Ferrule's library
    import framehook
    DISABLE = framehook.DISABLE
    workloads.run_setup(workloads.BENCHMARKS, lambda: HOOKS[hook] and framehook.add(HOOKS[hook]), "instructions", name, count)


if __name__ == "__main__" and sys.argv[1:2] == ["--child"]:
    child(*sys.argv[2:])
    sys.exit(0)


# --- The parent. ---------------------------------------------------------------------------------

import counting


def main():
    arguments = counting.argument_parser("A hook in Python on stock CPython and on Ferrule.", CALLS).parse_args()
    counting.print_beside_stock("a hook in Python", arguments, HOOKS, CALLS, HEADS, os.path.abspath(__file__))


if __name__ == "__main__":
    main()
