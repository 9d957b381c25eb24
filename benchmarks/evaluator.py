#!/usr/bin/env python3
"""What a PEP 523 evaluator costs that does nothing: stock and Ferrule, with and without its permission to specialize.

    python3 benchmarks/evaluator.py --base build/stock-release/python --python build/release/python

The benchmarks are those of calls.py. Each runs plainly, under an evaluator that passes every frame on to the eval loop, and under one that
allows specialization (Ferrule only). Instructions are counted as there; `run.py --only calls` measures time.
"""

import sys

from workloads import BENCHMARKS, print_times


def use_mode(mode: str, extensions: str) -> None:
    if mode == "plain":
        return
    sys.path.insert(0, extensions)
    import evaluators
    evaluators.set("pass")
    if mode == "allowing":
        evaluators.allow_specialization(True)


if __name__ == "__main__" and sys.argv[1:2] == ["--child"]:
    _, _, kind, mode, extensions, *rest = sys.argv
    use_mode(mode, extensions)
    if kind == "times":
        print_times(int(rest[0]), int(rest[1]))
    else:
        BENCHMARKS[rest[0]](int(rest[1]))
    sys.exit(0)


import os

import counting
import measuring

SCRIPT = os.path.abspath(__file__)
# column: (interpreter, mode, the column it is compared with)
COLUMNS: dict[str, tuple[str, str, str | None]] = {
    "stock": ("base", "plain", None),
    "stock, evaluator": ("base", "evaluator", "stock"),
    "plain": ("python", "plain", "stock"),
    "evaluator": ("python", "evaluator", "plain"),
    "allowing": ("python", "allowing", "plain"),
}


def main() -> int:
    arguments = counting.argument_parser("The cost of a PEP 523 evaluator, as ratios.", BENCHMARKS).parse_args()
    extensions = measuring.build_extensions({"base": arguments.base, "python": arguments.python})
    counting.compare(arguments, BENCHMARKS, {column: (which, against) for column, (which, _, against) in COLUMNS.items()}, 0,
                     measuring.CALLGRIND_ITERATIONS, lambda column, name, count: (
                         SCRIPT, "--child", "count", COLUMNS[column][1], extensions[COLUMNS[column][0]], name, count))
    return 0


if __name__ == "__main__":
    sys.exit(main())
