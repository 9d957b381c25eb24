#!/usr/bin/env python3
"""What a debugger costs: pdb and ferrule_debugger, on stock CPython and on Ferrule.

    python3 benchmarks/debuggers.py --stock build/stock-release/python --python build/release/python
    python3 benchmarks/debuggers.py --stock ... --python ... --instructions

Three questions: what a breakpoint costs that is not in the way, what one costs whose condition is
false each time, and how long it takes to set and to clear one while 50,000 code objects are alive.
With --debugpy, the directory that debugpy is installed in, it is measured in the first two as well. Times
are CPU times of fresh processes that take turns, and ratios are taken
turn by turn. Instructions are counted by valgrind, start-up taken off.
"""

import os
import sys

HITS = 100_000
CODE_OBJECTS = 50_000
ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
PACKAGE = os.path.join(ROOT, "clients", "debugger", "src")


# --- In the interpreter that is measured. ---------------------------------------------------------


def never():
    return 1  # a breakpoint is set here that is never reached


def add_up(count):
    total = 0
    for number in range(count):
        total += number  # a breakpoint with a condition
    return total


def line_of(comment):
    with open(__file__, encoding="utf-8") as file:
        return next(
            number for number, line in enumerate(file, 1) if line.rstrip().endswith("# " + comment)
        )


def debugger_of(kind, first):
    """A Pdb that calls `first` at its first stop and continues at each. None: no debugger."""
    if kind == "none":
        return None
    if kind == "ferrule_debugger":
        sys.path.insert(0, PACKAGE)
        from ferrule_debugger import Pdb
    else:
        from pdb import Pdb

    class Measured(Pdb):
        def user_line(self, frame):
            if self.todo is not None:
                todo, self.todo = self.todo, None
                todo(self)
            if self.go_on is None:
                self.set_continue()
            else:
                self.go_on(frame)

        def user_return(self, frame, value):
            self.set_continue()

    Measured.go_on = None
    Measured.todo = staticmethod(first)
    return Measured(nosigint=True, readrc=False)


def run_with(kind, first, function, *arguments):
    debugger = debugger_of(kind, first)
    if debugger is None:
        return function(*arguments)
    return debugger.runcall(function, *arguments)


def elsewhere(debugger):
    debugger.set_break(__file__, line_of("a breakpoint is set here that is never reached"))


def recursion(kind, count):
    import workloads

    workloads.recursion(20)
    run_with(kind, elsewhere, workloads.recursion, int(count))


async def awaited(n):
    return n if n < 2 else await awaited(n - 1) + await awaited(n - 2)


def end_of(coroutine):
    try:
        coroutine.send(None)
    except StopIteration as end:
        return end.value


def coroutines(kind, count):
    end_of(awaited(10))
    run_with(kind, elsewhere, lambda: [end_of(awaited(10)) for _ in range(int(count))])


def fibonacci(n):
    if n < 2:
        return n
    first = fibonacci(n - 1)  # a command over recursion
    return first + fibonacci(n - 2)


def loop(count):
    total = 0
    for number in range(count):
        total += number
        total ^= 1  # a command out of a loop
    return total


# What is run on by a command: function, line, arguments for few and many.
STEPPED = {
    "loop": (loop, "a command out of a loop", 20_000, 220_000),
    "recursion": (fibonacci, "a command over recursion", 15, 20),
    "each line": (loop, "a command out of a loop", 100, 1_100),
}


def add_log(debugger, line):
    import bdb

    debugger.set_break(__file__, line)
    debugger.set_log(bdb.Breakpoint.bpbynumber[-1], '"{total}"')


# What is set before `continue`. pdb has the first two.
OF_CONTINUE = {
    "continue": lambda debugger, line: None,
    "false condition": lambda debugger, line: debugger.set_break(__file__, line, cond="total < 0"),
    "log": add_log,
    "catch": lambda debugger, line: debugger.set_catch("raised"),
}


def stepped(kind, command, what, count):
    """Stop once in a function, and give a command until the function returns."""
    function, comment = STEPPED[what][:2]

    def go(debugger):
        debugger.set_break(__file__, line_of(comment), temporary=True)
        debugger.todo = on

    def on(debugger):
        if command in OF_CONTINUE:
            OF_CONTINUE[command](debugger, line_of(comment))
        else:
            command_of = getattr(debugger, "set_" + command)
            debugger.go_on = (lambda frame: command_of()) if command == "step" else command_of

    run_with(kind, go, function, int(count))


def timed_recursion(kind):
    from time import process_time_ns

    import workloads

    def measure():
        best = None
        for _ in range(5):
            begin = process_time_ns()
            workloads.recursion(20)
            took = process_time_ns() - begin
            best = took if best is None or took < best else best
        print("recursion", best)

    workloads.recursion(20)
    run_with(kind, elsewhere, measure)


def timed_condition(kind):
    import bdb
    from time import process_time_ns

    def conditional(debugger):
        debugger.set_break(__file__, line_of("a breakpoint with a condition"), cond="total < 0")

    def measure():
        begin = process_time_ns()
        add_up(HITS)
        print("condition", process_time_ns() - begin)

    run_with(kind, conditional, measure)
    assert kind == "none" or bdb.Breakpoint.bpbynumber[1].hits == HITS


def timed_setting(kind):
    """The median of setting a breakpoint, and of clearing one, each in another function."""
    import linecache
    import statistics
    import tempfile
    from time import process_time_ns

    text = "".join(f"def f{n}(a):\n    b = a\n    return b\n" for n in range(CODE_OBJECTS))
    with tempfile.NamedTemporaryFile("w", suffix=".py") as file:
        file.write(text)
        file.flush()
        linecache.getlines(file.name)
        namespace = {}
        exec(compile(text, file.name, "exec"), namespace)
        took = {"set": [], "clear": []}

        def measure(debugger):
            for n in range(0, CODE_OBJECTS, CODE_OBJECTS // 200):
                begin = process_time_ns()
                debugger.set_break(file.name, 3 * n + 2)
                took["set"].append(process_time_ns() - begin)
                begin = process_time_ns()
                debugger.clear_break(file.name, 3 * n + 2)
                took["clear"].append(process_time_ns() - begin)

        def begin(debugger):
            debugger.set_break(__file__, line_of("where all have run"))
            debugger.todo = measure

        def program():
            for n in range(CODE_OBJECTS):
                namespace[f"f{n}"](n)
            return 1  # where all have run

        run_with(kind, begin, program)
        for name, times in took.items():
            print(name, statistics.median(times))
            print("slowest " + name, max(times))


if __name__ == "__main__" and sys.argv[1:2] == ["--child"]:
    globals()[sys.argv[2]](*sys.argv[3:])
    sys.exit(0)


# --- The parent. ----------------------------------------------------------------------------------

import socket
import statistics
import subprocess

import measuring

DEFAULT_TURNS = 9
FEW, MANY = 20, 60
MAX_INSTRUCTIONS = {"recursion": 1.005, "coroutines": 1.04}  # with a breakpoint elsewhere, over none
AIMS = {"loop": 1.05, "recursion": 1.2}  # while a command runs on, over no debugger
COMMANDS = [(what, command) for what, commands in (
    ("loop", ("continue", "catch", "return", "until")),
    ("recursion", ("continue", "return", "until", "next")),
    ("each line", ("next", "step", "false condition", "log")),
) for command in commands]
MAX_CONDITION = 0.1  # of stock's pdb
MAX_SETTING = 1_000_000  # ns

# name: (which interpreter, which debugger)
SETUPS = {
    "stock": ("stock", "none"),
    "stock, pdb": ("stock", "pdb"),
    "stock, ferrule_debugger": ("stock", "ferrule_debugger"),
    "Ferrule": ("python", "none"),
    "Ferrule, pdb": ("python", "pdb"),
    "Ferrule, ferrule_debugger": ("python", "ferrule_debugger"),
}
WITH_DEBUGPY = {"stock, debugpy": ("stock", "debugpy"), "Ferrule, debugpy": ("python", "debugpy")}
DEBUGPY_BREAKPOINTS = {
    "timed_recursion": ("a breakpoint is set here that is never reached", {}),
    "timed_condition": ("a breakpoint with a condition", {"condition": "total < 0"}),
}
MEASURED = ("recursion", "condition")
# What is measured of setting: what of pdb's it is compared with. The slowest of the many is compared
# with what pdb usually takes.
SETTING = {"set": "set", "clear": "clear", "slowest set": "set"}
PLAIN = {"stock": "stock", "python": "Ferrule"}
OURS = "Ferrule, ferrule_debugger"
WITH_DEBUGGER = (OURS, "stock, ferrule_debugger", "stock, pdb")


def child(what, kind, *arguments):
    return [os.path.abspath(__file__), "--child", what, kind, *arguments]


def output_under_debugpy(python, directory, what):
    """What a child prints whose breakpoint debugpy has set, on a client's request."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    comment, condition = DEBUGPY_BREAKPOINTS[what]
    process = subprocess.Popen(
        [python, "-s", "-Xfrozen_modules=off", "-m", "debugpy", "--listen", f"127.0.0.1:{port}"]
        + ["--wait-for-client", *child(what, "none")],
        env={**measuring.ENVIRONMENT, "PYTHONPATH": directory},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        text=True,
    )
    client = measuring.load_test_module("debugger", "dap_client.py").Client(port)
    client.begin("attach", os.path.abspath(__file__), [{"line": line_of(comment), **condition}], justMyCode=False)
    client.event("terminated")
    client.ask("disconnect")
    client.close()
    output = process.communicate()[0]
    return "".join(line for line in output.splitlines(True) if line.split()[0] in MEASURED)


def measure(pythons, what, setups, turns, debugpy):
    """{what was measured: {setup: [ns, one for each turn]}}."""

    def one(setup):
        which, kind = SETUPS[setup]
        if kind == "debugpy":
            return measuring.parse_times(output_under_debugpy(pythons[which], debugpy, what))
        return measuring.parse_times(measuring.run([pythons[which], *measuring.QUIET, *child(what, kind)]).stdout)

    return measuring.measure_in_turns(setups, turns, one)


def time_all(pythons, turns, debugpy):
    if debugpy:
        SETUPS.update(WITH_DEBUGPY)
    results = measure(pythons, "timed_recursion", SETUPS, turns, debugpy)
    results |= measure(pythons, "timed_condition", SETUPS, turns, debugpy)
    results |= measure(
        pythons,
        "timed_setting",
        [setup for setup in SETUPS if SETUPS[setup][1] in ("pdb", "ferrule_debugger")],
        max(3, turns // 3),
        debugpy,
    )
    rows, ratios = [], {}
    for setup, (python, _) in SETUPS.items():
        elsewhere = measuring.ratio_of_pairs(results["recursion"][setup], results["recursion"][PLAIN[python]])
        condition = measuring.ratio_of_pairs(results["condition"][setup], results["condition"]["stock, pdb"])
        ratios[setup] = {"elsewhere": elsewhere.median, "condition": condition.median}
        for name, of_pdb in SETTING.items():
            if setup in results[name]:
                pdbs = results[of_pdb]["stock, pdb"]
                ratios[setup][name] = measuring.ratio_of_pairs(results[name][setup], pdbs).median
        setting = [
            f"{ratios[setup][name]:.2f}" if name in ratios[setup] else "" for name in SETTING
        ]
        rows.append(
            (
                setup,
                f"{elsewhere.median:.3f}",
                f"{elsewhere.low:.3f} to {elsewhere.high:.3f}",
                f"{condition.median:.3f}",
                *setting,
            )
        )
    print("elsewhere: over the same interpreter alone; all others: over pdb on stock")
    measuring.print_table(
        ("", "elsewhere", "middle half", "condition", *SETTING),
        rows,
    )
    failures = []
    if ratios[OURS]["condition"] > MAX_CONDITION:
        failures.append(f"a false condition takes {ratios[OURS]['condition']:.3f} of pdb's time")
    for name in ("set", "clear"):
        if statistics.median(results[name][OURS]) > MAX_SETTING:
            failures.append(f"to {name} a breakpoint takes more than a millisecond")
    return {"ratios": ratios, "measured": results}, failures


def count_command(copies, what, command):
    """{setup: instructions while a command runs a function on}: over those without a debugger; "each line": of a turn of the loop."""
    few, many = STEPPED[what][2:]

    def count(setup):
        python, kind = SETUPS[setup]
        return measuring.count_work(
            copies[python], few, many, lambda count: [*measuring.QUIET, *child("stepped", kind, command, what, count)]
        ).all

    setups = [setup for setup in WITH_DEBUGGER if command not in ("log", "catch") or SETUPS[setup][1] != "pdb"]
    if what == "each line":
        return {setup: round(count(setup) / (many - few)) for setup in setups}
    plain = {setup: count(setup) for setup in PLAIN.values()}
    return {setup: count(setup) / plain[PLAIN[SETUPS[setup][0]]] for setup in setups}


def count_all(pythons):
    counts = {}
    with measuring.stripped_copies(pythons) as copies:
        for what in MAX_INSTRUCTIONS:
            for setup in ("Ferrule", OURS, "stock", "stock, ferrule_debugger", "stock, pdb"):
                python, kind = SETUPS[setup]
                counts[what, setup] = measuring.count_work(
                    copies[python],
                    FEW,
                    MANY,
                    lambda count, kind=kind, what=what: [*measuring.QUIET, *child(what, kind, count)],
                ).all
        commands = {
            (what, command): count_command(copies, what, command)
            for what, command in COMMANDS
        }
    measuring.print_table(
        ("instructions of a command", *WITH_DEBUGGER),
        [(f"{command}, {what}", *("" if setup not in found else f"{found[setup]:.3f}" if what in AIMS else f"{found[setup]:,}"
                                  for setup in WITH_DEBUGGER))
         for (what, command), found in commands.items()],
    )
    ratios = {what: {} for what in MAX_INSTRUCTIONS}
    for (what, setup), count in counts.items():
        ratios[what][setup] = count / counts[what, PLAIN[SETUPS[setup][0]]]
    measuring.print_table(
        ("instructions, a breakpoint elsewhere", "", "counted", "of none"),
        [(what, setup, f"{count:,}", f"{ratios[what][setup]:.4f}") for (what, setup), count in counts.items()],
    )
    failures = [f"a breakpoint elsewhere, {what}: {ratios[what][OURS]:.4f} of the instructions"
                for what, aim in MAX_INSTRUCTIONS.items() if ratios[what][OURS] > aim]
    for (what, command), found in commands.items():
        if what in AIMS and found[OURS] > AIMS[what]:
            failures.append(f"{command}, {what}: {found[OURS]:.3f} of the instructions")
    ratios["commands"] = {f"{command}, {what}": found for (what, command), found in commands.items()}
    return {"ratios": ratios, "measured": {f"{what}, {setup}": count for (what, setup), count in counts.items()}}, failures


def main():
    parser = measuring.argument_parser("What debuggers cost.", DEFAULT_TURNS)
    parser.add_argument("--check", action="store_true", help="fail where an aim is missed")
    parser.add_argument("--debugpy", metavar="DIRECTORY", help="where debugpy is installed")
    arguments = measuring.parse(parser)
    pythons = {"stock": arguments.stock, "python": arguments.python}
    if arguments.instructions:
        found, failures = count_all(pythons)
    else:
        measuring.pin_to_one_core()
        found, failures = time_all(pythons, arguments.turns, arguments.debugpy)
    print(*(f"above the aim: {failure}" for failure in failures), sep="\n")
    if arguments.json:
        measuring.write_json(
            arguments.json, kind="instructions" if arguments.instructions else "time", **found
        )
    return 1 if failures and arguments.check else 0


if __name__ == "__main__":
    sys.exit(main())
