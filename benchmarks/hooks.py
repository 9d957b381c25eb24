#!/usr/bin/env python3
"""What frame hooks cost: calls on Ferrule with and without hooks, against stock CPython without anything.

    python3 benchmarks/hooks.py --base build/stock-release/python --python build/release/python

The yardstick is what tools use elsewhere: an evaluator of PEP 523 that only passes frames on, on stock. Instructions are counted in the
steady state: a run with few iterations is taken off. `run.py --only hooks` measures time.
"""

import sys

DISABLE: object = None      # add_python() has it
BENCHMARKS = ("recursion", "methods", "properties", "generators", "inits", "empties")


# --- In the interpreter that is measured. --------------------------------------------------------------------------

def disable(view: object) -> object:
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
    framehook.add(disable)


def add_in_another_thread() -> None:
    """A passing hook of a thread that does nothing, until the process ends."""
    import threading

    import framehook
    added = threading.Event()

    def wait() -> None:
        framehook.add(lambda view: None, this_thread=True)
        added.set()
        threading.Event().wait()

    threading.Thread(target=wait, daemon=True).start()
    added.wait()


def use_evaluator() -> None:
    import framehooks
    framehooks.set_evaluator("pass")


def add_watcher(kind: str) -> None:
    import watchhooks
    watchhooks.add(kind)


def answer_empty() -> None:
    """None is the value of each call of the empty function; the hook is disabled for other functions."""
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
    "stock": ("base", do_nothing, None),
    "PEP 523": ("base", use_evaluator, None),
    "monitoring": ("base", use_monitoring, None),
    "no hooks": ("python", do_nothing, 1.01),
    "1 disabled": ("python", lambda: add_native("disable"), 1.05),
    "8 disabled": ("python", lambda: add_native("disable", 8), 1.08),
    "Python disabled": ("python", add_python, 1.05),
    "another thread's": ("python", add_in_another_thread, None),
    "C passes": ("python", lambda: add_native("pass"), 1.35),
    "C watches": ("python", lambda: add_watcher("watch"), 1.5),
    "C with a clock": ("python", lambda: add_watcher("clock"), None),
    "C answers for empty": ("python", answer_empty, None),
    "8 C pass": ("python", lambda: add_native("pass", 8), None),
    "C replaces": ("python", add_exchange, None),
    "8th replaces": ("python", lambda: add_exchange(8), None),
}
BASE = "stock"
# The most that the geometric mean of a setup may be of the one of another.
OF_ANOTHER = {("another thread's", "no hooks"): 1.02}


def child(kind: str, setup: str, extensions: str, *arguments: str) -> None:
    import workloads
    sys.path.append(extensions)
    workloads.run_setup({name: getattr(workloads, name) for name in BENCHMARKS}, SETUPS[setup][1], kind, *arguments)


if __name__ == "__main__" and sys.argv[1:2] == ["--child"]:
    child(*sys.argv[2:])
    sys.exit(0)


# --- The parent. ---------------------------------------------------------------------------------------------------

import os

import counting
import measuring

FEW_ITERATIONS, MANY_ITERATIONS = 20, 60


def command(kind: str, setup: str, extensions: str, *arguments: object) -> list[str]:
    """The arguments after the interpreter and its options; `extensions` is the directory of its C extensions."""
    return [os.path.abspath(__file__), "--child", kind, setup, extensions, *map(str, arguments)]


def main() -> int:
    parser = counting.argument_parser("What frame hooks cost, as ratios against stock CPython.", BENCHMARKS)
    parser.add_argument("--check", action="store_true", help="fail when a mean is above its aim")
    arguments = parser.parse_args()
    extensions = measuring.build_extensions({"base": arguments.base, "python": arguments.python})
    aims = {setup: most for setup, (_, _, most) in SETUPS.items() if most}
    _, means = counting.compare(
        arguments, BENCHMARKS, {setup: (which, None if setup == BASE else BASE) for setup, (which, *_) in SETUPS.items()}, FEW_ITERATIONS,
        MANY_ITERATIONS, lambda setup, name, count: command("instructions", setup, extensions[SETUPS[setup][0]], name, count), aims)
    above = [f"{setup}: {means[setup]:.3f} is above {most}" for setup, most in aims.items() if means[setup] > most]
    above += [f"{setup}: {means[setup] / means[other]:.3f} of {other} is above {most}" for (setup, other), most in OF_ANOTHER.items()
              if means[setup] > most * means[other]]
    if arguments.check and above:
        print("\n".join(above))
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
