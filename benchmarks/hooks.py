#!/usr/bin/env python3
"""What frame hooks cost: calls on Ferrule with and without hooks, against stock CPython without anything.

    python3 benchmarks/hooks.py --stock build/stock-release/python --python build/release/python
    python3 benchmarks/hooks.py --stock ... --python ... --instructions

The yardstick is what tools use elsewhere: an evaluator of PEP 523 that only passes frames on, on stock. Every
number is a ratio against stock without one. Times come from fresh processes, one for each setup, that take turns.
Instructions are counted by valgrind in the steady state: a run with few iterations is taken off.
"""

import sys

DISABLE: object = None      # add_python() has it
BENCHMARKS = ("recursion", "methods", "properties", "generators", "inits", "empties")


# --- In the interpreter that is measured. --------------------------------------------------------------------------

def settle(view: object) -> object:
    return DISABLE


def add_native(kind: str, count: int = 1) -> None:
    import framehooks
    for _ in range(count):
        framehooks.add_native(kind)


def add_exchange(count: int = 1) -> None:
    """Hooks that have a copy of a function's code run in its place; all but the first come after others that pass."""
    import framehooks

    import workloads
    for _ in range(count - 1):
        framehooks.add_native("pass")
    point = workloads.Point
    framehooks.add_replacer({code: code.replace() for code in (
        workloads.fib.__code__, point.add.__code__, vars(point)["total"].fget.__code__, workloads.count_to.__code__,
        point.__init__.__code__, workloads.empty.__code__)})


def add_python() -> None:
    global DISABLE
    import framehook
    DISABLE = framehook.DISABLE
    framehook.add(settle)


def use_evaluator() -> None:
    import framehooks
    framehooks.set_evaluator("pass")


def add_watcher(kind: str) -> None:
    import watchhooks
    watchhooks.add(kind)


def answer_empty() -> None:
    """None is the value of each call of the empty function; other functions are settled."""
    import watchhooks

    import workloads
    watchhooks.add_result(workloads.empty.__code__)


def use_monitoring() -> None:
    """A counting tool for the beginnings and ends of the calls that are measured, and of no others."""
    import watchhooks

    import workloads
    monitoring, events = sys.monitoring, sys.monitoring.events
    monitoring.use_tool_id(monitoring.PROFILER_ID, "counts")
    for event in (events.PY_START, events.PY_RETURN, events.PY_UNWIND):
        monitoring.register_callback(monitoring.PROFILER_ID, event, watchhooks.note)
    # An exception that leaves a frame is a global event only.
    monitoring.set_events(monitoring.PROFILER_ID, events.PY_UNWIND)
    point = workloads.Point
    for function in (workloads.fib, point.add, vars(point)["total"].fget, workloads.count_to, point.__init__, workloads.empty):
        monitoring.set_local_events(monitoring.PROFILER_ID, function.__code__, events.PY_START | events.PY_RETURN)


def do_nothing() -> None:
    pass


# setup: (where it runs, what prepares it, the most that the geometric mean of its ratios may be)
SETUPS = {
    "stock": ("stock", do_nothing, None),
    "PEP 523": ("stock", use_evaluator, None),
    "monitoring": ("stock", use_monitoring, None),
    "no hooks": ("python", do_nothing, 1.01),
    "1 settled": ("python", lambda: add_native("disable"), 1.05),
    "8 settled": ("python", lambda: add_native("disable", 8), 1.08),
    "Python settled": ("python", add_python, 1.05),
    "C passes": ("python", lambda: add_native("pass"), 1.35),
    "C told of the end": ("python", lambda: add_watcher("watch"), 1.5),
    "C with a clock": ("python", lambda: add_watcher("clock"), None),
    "C answers for empty": ("python", answer_empty, None),
    "8 C pass": ("python", lambda: add_native("pass", 8), None),
    "C replaces": ("python", add_exchange, None),
    "8th replaces": ("python", lambda: add_exchange(8), None),
}
BASE = "stock"


def child(kind: str, setup: str, extensions: str, *arguments: str) -> None:
    import workloads
    sys.path.append(extensions)
    workloads.run_setup({name: getattr(workloads, name) for name in BENCHMARKS}, SETUPS[setup][1], kind, *arguments)


if __name__ == "__main__" and sys.argv[1:2] == ["--child"]:
    child(*sys.argv[2:])
    sys.exit(0)


# --- The parent. ---------------------------------------------------------------------------------------------------

import os
import statistics
import time

import measuring

DEFAULT_TURNS = 15
Ratios = dict[str, dict[str, measuring.Ratio]]     # {benchmark: {setup: ratio}}
FEW_ITERATIONS, MANY_ITERATIONS = 20, 60


def command(kind: str, setup: str, extensions: str, *arguments: object) -> list[str]:
    """What comes behind the interpreter and its options; `extensions` is the directory of its C extensions."""
    return [os.path.abspath(__file__), "--child", kind, setup, extensions, *map(str, arguments)]


def measure_times(pythons: measuring.Pythons, extensions: measuring.Pythons, turns: int) -> measuring.Results:
    """{benchmark: {setup: [ns, one for each turn]}}."""
    return measuring.measure_in_turns(SETUPS, turns, lambda setup: measuring.parse_times(
        measuring.run([pythons[SETUPS[setup][0]], *measuring.QUIET,
             *command("times", setup, extensions[SETUPS[setup][0]], measuring.ITERATIONS, measuring.ROUNDS)]).stdout))


def time_ratios(results: measuring.Results) -> Ratios:
    return {name: {setup: measuring.ratio_of_pairs(times[setup], times[BASE]) for setup in SETUPS}
            for name, times in results.items()}


def measure_instructions(pythons: measuring.Pythons, extensions: measuring.Pythons) -> dict[str, dict[str, int]]:
    """{benchmark: {setup: instructions of the iterations in between}}."""
    counts = measuring.count_each(BENCHMARKS, {setup: which for setup, (which, *_) in SETUPS.items()}, pythons, FEW_ITERATIONS, MANY_ITERATIONS,
                        lambda setup, name, count: command("instructions", setup, extensions[SETUPS[setup][0]], name, count))
    return {name: {setup: counted.all for setup, counted in row.items()} for name, row in counts.items()}


def instruction_ratios(results: dict[str, dict[str, int]]) -> Ratios:
    return {name: {setup: measuring.Ratio(*(counts[setup] / counts[BASE],) * 3) for setup in SETUPS}
            for name, counts in results.items()}


def report(rows: Ratios, digits: int) -> dict[str, float]:
    """Print the table; return {setup: geometric mean}."""
    columns = [setup for setup in SETUPS if setup != BASE]
    means = {setup: statistics.geometric_mean(row[setup].median for row in rows.values()) for setup in columns}
    measuring.print_table(("", *columns),
                [*((name, *(f"{row[setup].median:.{digits}f}" for setup in columns)) for name, row in rows.items()),
                 ("mean", *(f"{means[setup]:.{digits}f}" for setup in columns)),
                 ("aim", *(str(SETUPS[setup][2] or "") for setup in columns))])
    spread = max((ratio.high - ratio.low) / ratio.median for row in rows.values() for ratio in row.values())
    if spread:
        print(f"\nNoise: the middle half of a ratio's values is up to {100 * spread:.1f} % wide.")
    return means


def main() -> int:
    parser = measuring.argument_parser("What frame hooks cost, as ratios against stock CPython.", DEFAULT_TURNS, base="--stock")
    parser.add_argument("--check", action="store_true", help="fail when a mean is above its aim")
    arguments = measuring.parse(parser)
    pythons = {"stock": arguments.stock, "python": arguments.python}
    extensions = measuring.build_extensions(pythons)
    started = time.monotonic()
    if arguments.instructions:
        counts = measure_instructions(pythons, extensions)
        print(f"Instructions of {MANY_ITERATIONS - FEW_ITERATIONS} iterations, as a ratio against stock\n")
        rows = instruction_ratios(counts)
        means = report(rows, 4)
    else:
        measuring.pin_to_one_core()
        results = measure_times(pythons, extensions, arguments.turns)
        print(f"Time, as a ratio against stock: medians of {arguments.turns} turns\n")
        rows = time_ratios(results)
        means = report(rows, 3)
    print(f"({time.monotonic() - started:.0f} s)")
    if arguments.json:
        measuring.write_json(arguments.json, kind="instructions" if arguments.instructions else "time", pythons=pythons,
                   means=means, ratios=rows, measured=counts if arguments.instructions else results)
    above = [f"{setup}: {means[setup]:.3f} is above {limit}" for setup, (_, _, limit) in SETUPS.items()
             if limit and means[setup] > limit]
    if arguments.check and above:
        print("\n".join(above))
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
