#!/usr/bin/env python3
"""Call microbenchmarks: the instructions of one interpreter over those of another.

    python3 benchmarks/calls.py --base build/stock-release/python --python build/release/python

They are counted on copies without debug information, less those of a run with no iterations, so that only the work itself is compared.
`run.py --only calls` measures time.
"""

import sys

from workloads import BENCHMARKS, print_times

if __name__ == "__main__" and sys.argv[1:2] == ["--child"]:
    if sys.argv[2] == "times":
        print_times(int(sys.argv[3]), int(sys.argv[4]))
    else:
        import gc
        gc.disable()    # a collection that falls into one of two runs would look like a difference
        BENCHMARKS[sys.argv[2]](int(sys.argv[3]))
    sys.exit(0)


import os

import committed
import counting
import measuring

SCRIPT = os.path.abspath(__file__)


def main() -> int:
    parser = counting.argument_parser("Call microbenchmarks, as ratios against a base.", BENCHMARKS)
    parser.add_argument("--max-ratio", type=float, metavar="X",
                        help="fail when the geometric mean of the ratios is above X")
    parser.add_argument("--committed", metavar="FILE", nargs="?", const=committed.FILE,
                        help="fail when a count is more than 1 %% above its figure in FILE")
    parser.add_argument("--update", metavar="FILE", nargs="?", const=committed.FILE, help="write the counts to FILE")
    arguments = parser.parse_args()
    counts, means = counting.compare(arguments, BENCHMARKS, {"base": ("base", None), "python": ("python", "base")}, 0,
                                     measuring.CALLGRIND_ITERATIONS, lambda setup, name, count: (SCRIPT, "--child", name, count))
    fine = True
    if arguments.max_ratio is not None and means["python"] > arguments.max_ratio:
        print(f"above the limit of {arguments.max_ratio}")
        fine = False
    if arguments.update:
        committed.write(arguments.update, counts, committed.facts_of(arguments.python))
        print(f"written to {os.path.relpath(arguments.update)}")
    if arguments.committed:
        lines, within = committed.check(arguments.committed, counts, committed.facts_of(arguments.python))
        print("\n".join(lines))
        fine = fine and within
    return 0 if fine else 1


if __name__ == "__main__":
    sys.exit(main())
