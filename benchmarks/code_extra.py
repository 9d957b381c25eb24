#!/usr/bin/env python3
"""PyUnstable_Code_GetExtra: the instructions of one interpreter over those of another.

    python3 benchmarks/code_extra.py --base build/stock-release/python --python build/release/python

The calls come from a loop in C, in the tests' extension `codeextra`, which is built for each interpreter. Instructions are less those of a run
without calls. `run.py --only "code extra"` measures time, and `--only scaling` two threads against one on builds without the GIL.
"""

import sys

# What is looked up, by name: how many indices have a value, the first ones, which index is read, and
# whether an index was released before, on an interpreter that can.
CASES = {
    "only value": (1, 0, False),
    "first of four": (4, 0, False),
    "last of four": (4, 3, False),
    "last of sixty": (60, 59, False),
    "no value": (0, 0, False),
    "not this one": (1, 1, False),
    "only value, after a release": (1, 0, True),
    "no value, after a release": (0, 0, True),
}


def prepare(directory, case):
    """A code object with the values of a case, and the index to look up."""
    sys.path.insert(0, directory)
    import codeextra
    code = compile("1", "<benchmark>", "eval")
    count, wanted, after_release = CASES[case]
    if after_release and codeextra.has_release():
        codeextra.release(codeextra.request("none"))
    indices = [codeextra.request("none") for _ in range(max(count, wanted + 1))]
    for number, index in enumerate(indices[:count]):
        codeextra.set(code, index, 1000 + number)
    return codeextra.get_loop, code, indices[wanted]


def child_times(directory, case, calls, rounds):
    """Print the best ns per call."""
    from workloads import best_time
    loop, code, index = prepare(directory, case)
    print(best_time(lambda calls: loop(code, index, calls), calls, rounds) / calls)


if __name__ == "__main__" and sys.argv[1:2] == ["--child"]:
    kind, extensions, case, *rest = sys.argv[2:]
    if kind == "times":
        child_times(extensions, case, *map(int, rest))
    else:
        get_loop, a_code, an_index = prepare(extensions, case)
        get_loop(a_code, an_index, int(rest[0]))
    sys.exit(0)


import os

import counting
import measuring

SCRIPT = os.path.abspath(__file__)
CALLGRIND_CALLS = 100_000


def main() -> int:
    arguments = counting.argument_parser("GetExtra, as ratios against a base.", CASES).parse_args()
    extensions = measuring.build_extensions({"base": arguments.base, "python": arguments.python})
    counting.compare(arguments, CASES, {"base": ("base", None), "python": ("python", "base")}, 0, CALLGRIND_CALLS,
                     lambda which, case, calls: (SCRIPT, "--child", "calls", extensions[which], case, calls))
    return 0


if __name__ == "__main__":
    sys.exit(main())
