"""What each of the programs here does: start a process with a known stack, have a tool look, and say whether its report is right.

A line begins with "ok", "FAILED" or "skipped".
"""

import contextlib
import functools
import re
import shutil
import subprocess
import sys
from pathlib import Path

from target import DEPTH

HERE = Path(__file__).resolve().parent
TARGET = HERE / "target.py"
FERRULE = "Ferrule" in sys.version


def marked_lines(program):
    """The number of each line of a program that ends with a comment "at NAME", by its name."""
    lines = enumerate(program.read_text().splitlines(), 1)
    return {match[1]: number for number, line in lines if (match := re.search(r"# at (\w+)$", line))}


LINES = marked_lines(TARGET)
BEGINNING = TARGET.read_text().splitlines().index("def middle():") + 1
PLAIN = ["outer", "middle", "inner"]
# What each scenario of target.py has on its stack; what runs below main() is not looked at.
STACKS = {
    "plain": PLAIN,
    "deep": [*["recurse"] * (DEPTH + 1), "inner"],
    "generator": ["consume", "generator", "inner"],
    "coroutine": ["awaiting", "coroutine", "inner"],
    "thread": PLAIN,
    "hooked": PLAIN,
    "hooked deep": [*["recurse"] * (DEPTH + 1), "inner"],
    "hooked generator": ["consume", "generator", "inner"],
    "watched": PLAIN,
    "watched coroutine": ["awaiting", "coroutine", "inner"],
    "replaced": ["outer", "stand_in", "inner"],
    # Where a hook looks at a frame, that frame has begun.
    "in a hook": ["outer", "middle", "slow_hook", "inner"],
}
NEEDS_HOOKS = ("hooked", "watched", "replaced", "in a hook")


class Wrong(Exception):
    """What a tool reported wrongly."""


def expect(condition, text):
    if not condition:
        raise Wrong(text)


@contextlib.contextmanager
def running(*words):
    """A Python program that has said "ready", and that must still run at the block's end."""
    with subprocess.Popen([sys.executable, *words], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True) as started:
        try:
            expect(started.stdout.readline() == "ready\n", "the process did not get there")
            yield started
            expect(started.poll() is None, f"the process has ended: {started.poll()}")
        finally:
            started.kill()


@contextlib.contextmanager
def process(scenario):
    """The number of a process that is where its scenario says."""
    with running(TARGET, scenario) as started:
        yield started.pid


def said(*words, seconds=120):
    """What a command prints; it has to succeed."""
    try:
        done = subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=seconds)
    except subprocess.TimeoutExpired:
        raise Wrong(f"{words[0]} took more than {seconds} s") from None
    expect(done.returncode == 0, f"{words[0]}: exit status {done.returncode}: {done.stderr.strip()[-400:]!r}")
    return done.stdout


def line_of(function, index, stack):
    """The line at which a frame of that stack is."""
    return LINES["bottom" if function == "recurse" and stack[index + 1 : index + 2] == ["inner"] else function]


def expect_stack(frames, scenario):
    """`frames` are (function, line) from the oldest on; what is there besides is older than the scenario's, or the library's."""
    wanted = STACKS[scenario]
    lines = [(name, line_of(name, index, wanted)) for index, name in enumerate(wanted)]
    found = [(name, line) for name, line in frames if name in {*wanted, "middle", "stand_in"}]
    if scenario == "in a hook" and len(found) > 1 and found[1] in (("middle", BEGINNING), ("middle", 0)):
        # It has run no instruction yet: tools show its first line, or none.
        found[1] = ("middle", LINES["middle"])
    expect(found == lines, f"{found[-8:]} ({len(found)} frames) is not {lines[-8:]} ({len(lines)})")


@functools.cache
def gdb_calls():
    """Whether gdb can call a function in a process here. On some processors old versions cannot write registers."""
    with contextlib.suppress(Wrong), process("plain") as pid:
        done = subprocess.run(["gdb", "--batch", "--nx", "-ex", "print (int)getpid()", "--pid", str(pid)], capture_output=True, text=True)
        return f"= {pid}" in done.stdout
    return False  # it did not live through it


def check_with_gdb(name, *words, **options):
    """For tools that have gdb call a function of the process's."""
    if shutil.which("gdb") is None or not gdb_calls():
        print(f"skipped {name}: gdb {'is not there' if shutil.which('gdb') is None else 'cannot call a function here'}", flush=True)
    else:
        check(name, *words, **options)


def check(name, function, *arguments, needs_hooks=False):
    """Says what came of one thing to look at; whether all is well."""
    if needs_hooks and not FERRULE:
        print(f"skipped {name}: stock has no hooks", flush=True)
        return
    try:
        function(*arguments)
    except Wrong as wrong:
        print(f"FAILED {name}: {wrong}", flush=True)
    else:
        print(f"ok {name}", flush=True)


def each_stack(look, kinds=("",)):
    """Calls `look` with the scenario, the process and the kind of looking, for each of them."""
    for kind in kinds:
        for scenario in STACKS:

            def one(scenario=scenario, kind=kind):
                with process(scenario) as pid:
                    look(scenario, pid, kind)

            check(f"{scenario}{' ' if kind else ''}{kind}", one, needs_hooks=scenario.startswith(NEEDS_HOOKS))
