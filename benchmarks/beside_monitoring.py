#!/usr/bin/env python3
"""Frame hooks beside sys.monitoring: what the same tool costs with each, and what it sees.

    make bench-monitoring
    python3 benchmarks/beside_monitoring.py --stock STOCK --python PYTHON --instructions

The tools are in C, and are called through vectorcall. Monitoring has local PY_START and PY_RETURN
for the functions that are called, and PY_UNWIND, which is a global event only; it runs on stock.
Each setup runs in processes of its own, which take turns. A cost is what a call takes with the tool
less what it takes without: in ns, or in instructions, which valgrind counts.
"""

import sys

# benchmark: calls in one iteration of it
CALLS = {"recursion": 465, "methods": 200, "properties": 200, "inits": 100, "generators": 1}
HEADS = {"inits": "`__init__`", "generators": "a generator of 200 values"}


# --- In the interpreter that is measured. --------------------------------------------------------

def functions():
    import workloads
    point = workloads.Point
    return workloads.fib, point.add, point.total.fget, point.__init__, workloads.count_to


def do_nothing():
    pass


def monitor(start, end, codes=None, everywhere=False):
    """Registers these callbacks for the beginnings and ends of the functions, or of all frames."""
    monitoring, events = sys.monitoring, sys.monitoring.events
    tool = monitoring.PROFILER_ID
    monitoring.use_tool_id(tool, "benchmark")
    monitoring.register_callback(tool, events.PY_START, start)
    if end is not None:
        monitoring.register_callback(tool, events.PY_RETURN, end)
        monitoring.register_callback(tool, events.PY_UNWIND, end)
    local = events.PY_START | (events.PY_RETURN if end is not None else 0)
    unwind = events.PY_UNWIND if end is not None else 0
    monitoring.set_events(tool, local | unwind if everywhere else unwind)
    if not everywhere:
        for code in codes or [function.__code__ for function in functions()]:
            monitoring.set_local_events(tool, code, local)


def count_with_monitoring(everywhere=False):
    import watchhooks
    monitor(watchhooks.note, watchhooks.note, everywhere=everywhere)


def time_with_monitoring():
    import watchhooks
    monitor(watchhooks.note_start, watchhooks.note_end)


def add_swaps():
    """Another code object for each function, an equal one; all of them."""
    import watchhooks
    codes = []
    for function in functions():
        code, other = function.__code__, function.__code__.replace()
        watchhooks.add_swap(function, code, other)
        codes += [code, other]
    return codes


def swap_with_monitoring():
    """Each call gives its function the other one of its two code objects."""
    import watchhooks
    monitor(watchhooks.note_and_swap, None, add_swaps())


def watch(kind):
    import watchhooks
    watchhooks.add(kind)


def replace_with_hook():
    add_swaps()
    watch("exchange")


# setup: (where it runs, what prepares it)
SETUPS = {
    "nothing": ("stock", do_nothing),
    "monitoring counts": ("stock", count_with_monitoring),
    "monitoring counts, all code": ("stock", lambda: count_with_monitoring(everywhere=True)),
    "monitoring, a clock at both ends": ("stock", time_with_monitoring),
    "monitoring swaps code for the next call": ("stock", swap_with_monitoring),
    "no hook": ("python", do_nothing),
    "a hook counts": ("python", lambda: watch("watch")),
    "a hook, a clock at both ends": ("python", lambda: watch("clock")),
    "a hook has other code run": ("python", replace_with_hook),
}
BASES = {"stock": "nothing", "python": "no hook"}


def child(kind, setup, extensions, *arguments):
    import workloads
    sys.path.append(extensions)
    workloads.run_setup({name: workloads.BENCHMARKS[name] for name in CALLS}, SETUPS[setup][1], kind, *arguments)
    if kind == "times" and setup in BASES.values():
        import watchhooks
        print("clock", workloads.best_time(watchhooks.read_clock, 100_000, 10) / 100_000)


if __name__ == "__main__" and sys.argv[1:2] == ["--child"]:
    child(*sys.argv[2:])
    sys.exit(0)


# --- The parent. ---------------------------------------------------------------------------------

import os
import statistics

import measuring

DEFAULT_TURNS = 15
FEW_ITERATIONS, MANY_ITERATIONS = 20, 60
SEEN = os.path.join(os.path.dirname(os.path.abspath(__file__)), "seen.py")


def command(kind, setup, extensions, *arguments):
    return [os.path.abspath(__file__), "--child", kind, setup, extensions, *map(str, arguments)]


def measure_times(pythons, extensions, turns):
    """{benchmark: {setup: [ns of an iteration, one for each turn]}}; "clock" is one of them."""
    def measure(setup):
        which = SETUPS[setup][0]
        arguments = command("times", setup, extensions[which], measuring.ITERATIONS, measuring.ROUNDS)
        return measuring.parse_times(measuring.run([pythons[which], *measuring.QUIET, *arguments]).stdout)
    return measuring.measure_in_turns(SETUPS, turns, measure)


def measure_instructions(pythons, extensions):
    """{benchmark: {setup: [instructions of an iteration]}}."""
    counts = measuring.count_each(CALLS, {setup: which for setup, (which, _) in SETUPS.items()}, pythons, FEW_ITERATIONS, MANY_ITERATIONS,
                        lambda setup, name, count: command("instructions", setup, extensions[SETUPS[setup][0]], name, count))
    iterations = MANY_ITERATIONS - FEW_ITERATIONS
    return {name: {setup: [counted.all / iterations] for setup, counted in row.items()} for name, row in counts.items()}


def costs(results):
    """{setup: {benchmark: what the tool adds to a call, or what a call takes without one}}.

    The median of the turns.
    """
    found = {}
    for setup, (which, _) in SETUPS.items():
        found[setup] = {}
        for name, calls in CALLS.items():
            mine, without = results[name][setup], results[name][BASES[which]]
            if setup == BASES[which]:
                without = [0] * len(mine)
            found[setup][name] = statistics.median(
                (a - b) / calls for a, b in zip(mine, without, strict=True))
    return found


def cost_table(found, digits):
    """The lines of a table in Markdown."""
    heads = [HEADS.get(name, name) for name in CALLS]
    lines = [f"| | {' | '.join(heads)} |", "|---" * (len(heads) + 1) + "|"]
    for setup, row in found.items():
        sign = "" if setup in BASES.values() else "+"
        cells = [f"{row[name]:{sign},.{digits}f}" for name in CALLS]
        lines.append(f"| {setup} | {' | '.join(cells)} |")
    return lines


def main():
    parser = measuring.argument_parser("Frame hooks beside sys.monitoring.", DEFAULT_TURNS)
    arguments = measuring.parse(parser)
    pythons = {"stock": arguments.stock, "python": arguments.python}
    extensions = measuring.build_extensions(pythons)
    if arguments.instructions:
        results = measure_instructions(pythons, extensions)
        print("Instructions of a call, without a tool and then what is added to that\n")
    else:
        measuring.pin_to_one_core()
        results = measure_times(pythons, extensions, arguments.turns)
        print("Nanoseconds of a call, without a tool and then what is added to that: medians of "
              f"{arguments.turns} turns\n")
    clock = results.pop("clock", None)
    found = costs(results)
    print("\n".join(cost_table(found, 0 if arguments.instructions else 1)))
    if clock:
        print("\nTwo readings of the clock by themselves:",
              ", ".join(f"{statistics.median(clock[base]):.1f} ns ({base})"
                        for base in BASES.values()))
    print("\nWhat is seen\n")
    print(measuring.run([arguments.python, "-s", SEEN]).stdout, end="")
    if arguments.json:
        measuring.write_json(arguments.json, kind="instructions" if arguments.instructions else "time",
                   pythons=pythons, costs=found, measured=results)
    return 0


if __name__ == "__main__":
    sys.exit(main())
