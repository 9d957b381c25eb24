"""What the benchmarks share: turns, pairs of runs, counted instructions, progress, tables, arguments.

For the process that measures; what runs in the measured interpreters imports none of this.
"""

import argparse
import contextlib
import importlib.util
import json
import os
import re
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import NamedTuple

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))

Pythons = Mapping[str, str]                 # {name: path}
Results = dict[str, dict[str, list[float]]]  # {benchmark: {name: [ns, one for each turn]}}

ITERATIONS = 300        # of a call benchmark, per timing: a few ms
ROUNDS = 10             # timings in one process, the best is kept
CALLGRIND_ITERATIONS = 40
# No site, no user site. Not -I or -E: these would ignore PYTHONHASHSEED, and another hash seed is another number of
# instructions. Not -P: the script's directory is where workloads.py is.
QUIET = ("-S", "-s")
COUNT_DIGITS = 6        # a count on the command line has one width, whatever it is


# --- Running. ------------------------------------------------------------------------------------------------------

class ChildFailed(SystemExit):
    """A command that ended with an error; ends the program unless the caller continues without its result."""


ENVIRONMENT = {"PATH": "/usr/bin:/bin", "PYTHONHASHSEED": "0", "LC_ALL": "C.UTF-8"}


def run(command: Sequence[str | Path], directory: str | None = None, timeout: float | None = None, **environment: str) -> subprocess.CompletedProcess[str]:
    """Runs a command in a small and fixed environment, so that nothing differs between two of them but what is run."""
    try:
        done = subprocess.run(command, cwd=directory, env={**ENVIRONMENT, **environment}, capture_output=True, text=True,
                              stdin=subprocess.DEVNULL, timeout=timeout)
    except subprocess.TimeoutExpired:
        raise took_too_long(command, timeout) from None
    if done.returncode:
        raise failed(command, done.returncode, done.stderr)
    return done


def took_too_long(command: Sequence[str | Path], timeout: float | None) -> ChildFailed:
    return ChildFailed(f"this took more than {timeout} s: {' '.join(map(str, command))}")


def failed(command: Sequence[str | Path], code: int, said: str) -> ChildFailed:
    return ChildFailed(f"this failed with exit code {code}: {' '.join(map(str, command))}\n{said[-2000:]}")


class Times(NamedTuple):
    """Of one process, from its start to its end: s on the wall, and s of CPU time with what it started and waited for.

    The names are those of a sample's clock.
    """
    wall: float
    cpu: float


def time_process(command: Sequence[str], directory: str | None = None, timeout: float | None = None, **environment: str) -> Times:
    """Runs a command as `run` does, and measures it."""
    with tempfile.TemporaryFile() as said:
        started = time.perf_counter()
        process = subprocess.Popen(command, cwd=directory, env={**ENVIRONMENT, **environment}, stdin=subprocess.DEVNULL,
                                   stdout=subprocess.DEVNULL, stderr=said)
        # Waited for by hand, as only that returns what this very process used: others may be under way.
        alarm = threading.Timer(timeout or threading.TIMEOUT_MAX, os.kill, (process.pid, signal.SIGKILL))
        alarm.start()
        try:
            _, status, usage = os.wait4(process.pid, 0)
            took = time.perf_counter() - started
            process.returncode = os.waitstatus_to_exitcode(status)
        except BaseException:
            process.kill()
            process.wait()
            raise
        finally:
            alarm.cancel()
        if process.returncode == -signal.SIGKILL and timeout and took >= timeout:
            raise took_too_long(command, timeout)
        if process.returncode:
            said.seek(0)
            raise failed(command, process.returncode, said.read().decode(errors="replace"))
    return Times(took, usage.ru_utime + usage.ru_stime)


def pin_to_one_core() -> bool:
    """Keep this process and its children on one core where the system can do so; True if it did."""
    try:
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    except (AttributeError, OSError):
        return False
    return True


def order_of_turn(names: Iterable[str], turn: int) -> list[str]:
    """The order in which a turn measures: none is always the first, or always after the same one."""
    names = list(names)
    shift = turn // 2 % len(names)
    order = names[shift:] + names[:shift]
    return order[::-1] if turn % 2 else order


def parse_times(output: str) -> dict[str, float]:
    """{name: ns} of a child that prints a name and its ns on each line."""
    return {name: float(ns) for name, ns in (line.rsplit(None, 1) for line in output.splitlines())}


def measure_in_turns(names: Collection[str], turns: int, measure: Callable[[str], Mapping[str, float]]) -> Results:
    """{benchmark: {name: [ns, one for each turn]}}. `measure` takes a name and returns {benchmark: ns} of one fresh
    process, or of several."""
    results: Results = {}
    progress = Progress(turns * len(names))
    for turn in range(turns):
        for name in order_of_turn(names, turn):
            for benchmark, ns in measure(name).items():
                results.setdefault(benchmark, {which: [] for which in names})[name].append(ns)
            progress.step(f"turn {turn + 1}, {name}")
    progress.end()
    return results


def load_test_module(*path: str) -> ModuleType:
    """A module of the tests, which the benchmarks use too."""
    spec = importlib.util.spec_from_file_location(os.path.splitext(path[-1])[0], os.path.join(ROOT, "tests", *path))
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def build_clients(python: str, out: str) -> str:
    """Build the clients for an interpreter, as packages in a directory; the directory."""
    subprocess.run([sys.executable, "-m", "tools.clients", "--python", os.path.abspath(python), "--packages",
                    os.path.abspath(out)], cwd=ROOT, check=True)
    return out


def build_extensions(pythons: Pythons, place: str = "benchmark") -> dict[str, str]:
    """{which: the directory of the tests' C extensions, built for that interpreter}."""
    builder = load_test_module("c", "build_extensions.py")
    # Names of one length: where a path is longer, more is copied.
    width = max(map(len, pythons))
    return {which: builder.build(path, os.path.join(ROOT, "build", "test-extensions",
                                                    f"{place}-{which.rjust(width, '_')}"))
            for which, path in pythons.items()}


# --- Ratios. -------------------------------------------------------------------------------------------------------

class Ratio(NamedTuple):
    """The median of the ratios of pairs, and the middle half of them."""
    median: float
    low: float
    high: float


def ratio_of_pairs(mine: Iterable[float], base: Iterable[float]) -> Ratio:
    """Pair by pair: what was measured in the same turn is divided."""
    ratios = sorted(a / b for a, b in zip(mine, base, strict=True))
    return Ratio(statistics.median(ratios), ratios[len(ratios) // 4], ratios[3 * len(ratios) // 4])


# --- Instructions. -------------------------------------------------------------------------------------------------

class Instructions(NamedTuple):
    """Instructions of one run: all, and those in the interpreter's own file.

    The C library picks its string functions by the CPU; the interpreter's own code is the same on every machine.
    """
    all: int
    own: int

    def __sub__(self, other: "Instructions") -> "Instructions":
        return Instructions(self.all - other.all, self.own - other.own)


def require_callgrind() -> None:
    for tool in ("valgrind", "strip"):
        if not shutil.which(tool):
            raise SystemExit(f"counting instructions needs {tool}")


@contextlib.contextmanager
def stripped_copies(pythons: Pythons) -> Iterator[dict[str, str]]:
    """{name: path of a copy without debug information}, for as long as the context lasts.

    Valgrind cannot read the debug information of every compiler. The copies lie beside the originals, as a build tree's
    python finds its library that way, and have names of their own, so that two runs in one tree do not meet.
    """
    copies: dict[str, str] = {}
    try:
        for name, python in pythons.items():
            # The name has one length, whatever the process id is: it is a part of argv.
            copies[name] = os.path.join(os.path.dirname(python), f"python.{os.getpid():010}")
            shutil.copy2(python, copies[name])
            run(["strip", "--strip-debug", copies[name]])
        yield copies
    finally:
        for copy in copies.values():
            with contextlib.suppress(FileNotFoundError):
                os.unlink(copy)


def own_instructions(profile: Iterable[str], path: str) -> int:
    """Sum of what a callgrind profile says was executed in the code of the file `path`, without what that code called."""
    total = 0
    numbers: dict[str, str] = {}            # names are given once, by a number: `ob=(3) /usr/lib/...`, later `ob=(3)`
    inside = of_callee = False
    for line in profile:
        if line.startswith(("ob=", "cob=")):
            kind, _, rest = line.strip().partition("=")
            number, _, name = rest.partition(" ")
            if name:
                numbers[number] = name
            if kind == "ob":
                inside = numbers[number] == path
        elif line.startswith("calls="):
            of_callee = True    # the next line is the callee's cost
        elif line[:1] in "0123456789+-*":
            if inside and not of_callee:
                total += int(line.split()[1])
            of_callee = False
    return total


def count_instructions(python: str, *arguments: object) -> Instructions:
    """Instructions of one run of `python` under valgrind."""
    with tempfile.NamedTemporaryFile("r", prefix="callgrind-") as profile:
        # From its own directory and by a short name: argv is then the same for every interpreter.
        done = run(["valgrind", "--tool=callgrind", f"--callgrind-out-file={profile.name}",
                    "./" + os.path.basename(python), *map(str, arguments)], os.path.dirname(python))
        found = re.search(r"Collected\s*:\s*(\d+)", done.stderr)
        if not found:
            raise SystemExit(f"valgrind printed no count:\n{done.stderr[-2000:]}")
        return Instructions(int(found[1]), own_instructions(profile, os.path.realpath(python)))


def count_work(python: str, few: int, many: int, arguments: Callable[[str], Sequence[object]],
               step: Callable[[], None] = lambda: None) -> Instructions:
    """Instructions of the iterations from `few` to `many`: what start-up takes is in both runs.

    `arguments` makes the child's arguments from a number of iterations.
    """
    counts = []
    # The first start compiles the modules it imports: not in one of two runs that are compared.
    run([python, *map(str, arguments("1".zfill(COUNT_DIGITS)))])
    for iterations in (few, many):
        counts.append(count_instructions(python, *arguments(str(iterations).zfill(COUNT_DIGITS))))
        step()
    if counts[1].all <= counts[0].all:
        raise SystemExit(f"{python}: {counts[1].all:,} instructions for {many} iterations, {counts[0].all:,} for {few}:"
                         f" {' '.join(map(str, arguments('N')))}")
    return counts[1] - counts[0]


def count_each(names: Iterable[str], setups: Mapping[str, str], pythons: Pythons, few: int, many: int,
               arguments: Callable[[str, str, str], Sequence[str]]) -> dict[str, dict[str, Instructions]]:
    """{benchmark: {setup: Instructions}} for the work alone. `setups` says which of `pythons` each runs on; `arguments` makes
    the child's arguments of a setup, a benchmark and a number of iterations."""
    results: dict[str, dict[str, Instructions]] = {name: {} for name in names}
    progress = Progress(len(results) * len(setups) * 2)
    with stripped_copies(pythons) as copies:
        for setup, which in setups.items():
            for name, counts in results.items():
                counts[setup] = count_work(copies[which], few, many, lambda count: (*QUIET, *arguments(setup, name, count)),
                                           lambda: progress.step(f"{setup}, {name}"))
    progress.end()
    return results


# --- What a person sees. -------------------------------------------------------------------------------------------

def as_time_left(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 120 else f"{seconds / 60:.0f} min"


class Progress:
    """A bar with the time left, on a terminal only."""

    BAR = 24

    def __init__(self, total: float, active: bool | None = None) -> None:
        self.total = total
        self.done = 0.0
        self.started = time.monotonic()
        self.active = sys.stderr.isatty() if active is None else active

    def step(self, what: str, amount: float = 1) -> None:
        self.done += amount
        passed = time.monotonic() - self.started
        self.show(self.done / self.total, passed / self.done * (self.total - self.done), what)

    def show(self, part: float, left: float, what: str) -> None:
        if self.active:
            full = round(self.BAR * min(part, 1))
            bar = "#" * full + "." * (self.BAR - full)
            width = shutil.get_terminal_size().columns - 1
            sys.stderr.write("\r\x1b[K" + f"[{bar}] {100 * part:3.0f} %  about {as_time_left(left)} left  {what}"[:width])
            sys.stderr.flush()

    def end(self) -> None:
        if self.active:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()


def print_table(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Rows of texts under their headings: the first column to the left, the others to the right."""
    widths = [max(map(len, column)) for column in zip(headings, *rows)]
    for row in (headings, *rows):
        print("  ".join(text.rjust(width) if place else text.ljust(width)
                        for place, (text, width) in enumerate(zip(row, widths))).rstrip())


def write_json(path: str, **content: object) -> None:
    with open(path, "w", encoding="utf-8") as file:
        json.dump(content, file, indent=1)
        file.write("\n")


# --- Arguments. ----------------------------------------------------------------------------------------------------

def program(path: str) -> str:
    path = os.path.abspath(path)
    if not os.access(path, os.X_OK) or os.path.isdir(path):
        raise argparse.ArgumentTypeError(f"no such program: {path}")
    return path


def named_python(text: str) -> tuple[str, str]:
    name, separator, path = text.partition("=")
    if not separator:
        name, path = os.path.basename(text), text
    return name, program(path)


def argument_parser(description: str, turns: int) -> argparse.ArgumentParser:
    """With what every comparison of two interpreters takes. To be parsed with `parse`."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--stock", type=program, required=True, help="the interpreter to compare with (stock)")
    parser.add_argument("--python", type=program, required=True, help="the interpreter to measure")
    parser.add_argument("--instructions", action="store_true", help="count instructions with valgrind")
    parser.add_argument("--turns", type=int, default=turns,
                        help="processes for each (default %(default)s; for times)")
    parser.add_argument("--quick", action="store_true", help="three turns: a first look")
    parser.add_argument("--json", metavar="FILE", help="write all numbers to FILE")
    return parser


def parse(parser: argparse.ArgumentParser) -> argparse.Namespace:
    arguments = parser.parse_args()
    if arguments.quick:
        arguments.turns = 3
    if arguments.turns < 1:
        parser.error("at least one turn")
    if arguments.instructions:
        require_callgrind()
    return arguments
