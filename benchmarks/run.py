#!/usr/bin/env python3
"""Everything that is measured, in one run: pyperf's JSON for each interpreter and one HTML page.

    python3 benchmarks/run.py --base stock=build/stock-release/python --python ferrule=build/release/python
    python3 benchmarks/run.py --base ... --python ... --quick
    python3 benchmarks/run.py --base ... --python ... --only scimark_lu --minutes 5
    python3 benchmarks/run.py --resume                  # continues the last run
    python3 benchmarks/run.py --page DIRECTORY          # makes its page anew
    python3 benchmarks/run.py --publish DIRECTORY       # its plots and figures go into docs/

Rounds go over all benchmarks again and again until the time is used up; in each, the interpreters run every benchmark at the
same time on one core, or take turns. docs/benchmarks.md says how to read the results.
"""

import sys

if __name__ == "__main__":
    # In the environment that the project makes: pyperf, scipy and matplotlib are there.
    from suite.environment import enter_harness
    enter_harness()

import argparse
import contextlib
import datetime
import json
import os
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import layouts
import measuring
from measuring import ROOT, ChildFailed, Progress, Pythons, named_python, order_of_turn, program
from suite import environment, machine, page, publish, pyperformance_tasks, tasks
from suite.results import FACTS, Journal, Results, write_suites
from workloads import BENCHMARKS as CALLS

Facts = dict[str, Any]      # of a run, as its file has them
RUNS = Path(ROOT, "build", "bench")
LATEST = RUNS / "latest"
MINUTES, QUICK_MINUTES = 34, 4.5        # an hour with the builds, and five minutes without
MOST_ROUNDS = 30
QUICK_COUNTS = ("recursion", "methods", "generators", "properties")
FREE_THREADED = {"stock": "build/stock-free-threaded/python", "ferrule": "build/free-threaded/python"}
NEWS_SECONDS = 30       # between two lines about progress, where there is no terminal


class Run:
    """One run: its directory, its journal, and its time."""

    def __init__(self, directory: Path, facts: Facts) -> None:
        self.directory = directory
        self.facts = facts
        self.journal = Journal(directory)
        self.broken = set(self.journal.failures())
        self.budget = facts["minutes"] * 60
        self.before = self.journal.seconds
        self.started = time.monotonic()
        self.progress = Progress(self.budget)
        self.news = self.started
        self.durations: dict[str, list[float]] = {}     # {task: [s]}: the same task over all links

    @property
    def used(self) -> float:
        return self.before + time.monotonic() - self.started

    @property
    def left(self) -> float:
        return self.budget - self.used

    def report(self, what: str) -> None:
        part = min(self.used / self.budget, 1)
        self.progress.show(part, max(self.left, 0), what)
        now = time.monotonic()
        if not self.progress.active and now - self.news > NEWS_SECONDS:
            self.news = now
            print(f"{100 * part:3.0f} %  about {measuring.as_time_left(max(self.left, 0))} left  {what}",
                  flush=True)

    def record(self, task: str, python: str, round: int, measure: Callable[[], Any]) -> Any:
        """Measure, and write down what came of it; None where it failed."""
        return self.note(task, python, round, *attempt(measure))

    def note(self, task: str, python: str, round: int, outcome: dict[str, Any], date: str, seconds: float) -> Any:
        """Write down what came of an attempt; None where it failed."""
        if "failed" in outcome:
            self.broken.add(task)
        self.journal.add(task=task, python=python, round=round, date=date, seconds=seconds, **outcome)
        return outcome.get("samples")

    def measure(self, task: tasks.Task, round: int) -> bool:
        """One task under each of its interpreters; False where there is no time for it."""
        if task.name in self.broken:
            return True
        durations = self.durations.setdefault(task.name, [task.seconds])
        if sum(durations) / len(durations) * len(task.pythons) > self.left:
            return False
        order = order_of_turn(task.pythons, round)
        missing = [python for python in order if not self.journal.has(task.name, python, round)]
        before = len(self.journal.entries)
        with contextlib.nullcontext() if task.pinned else on_all_cores():
            if task.together and missing == order:
                self.measure_together(task, order, round)
            else:
                self.measure_in_turns(task, missing, round)
        durations += [entry["seconds"] for entry in self.journal.entries[before:]]
        return True

    def measure_in_turns(self, task: tasks.Task, pythons: Iterable[str], round: int) -> None:
        for python in pythons:
            if task.name not in self.broken:
                self.report(f"round {round + 1}  {task.name}  {python}")
                self.record(task.name, python, round, lambda: task.measure(python, round))

    def measure_together(self, task: tasks.Task, pythons: Collection[str], round: int) -> None:
        """All at the same time on the one core that this process has."""
        self.report(f"round {round + 1}  {task.name}")
        attempts = tasks.at_once([partial(attempt, partial(task.measure, python, round)) for python in pythons])
        for python, (outcome, date, seconds) in zip(pythons, attempts):
            # Their times overlap: each is noted with its part, as the time of a run is the sum.
            self.note(task.name, python, round, outcome, date, round_seconds(seconds / len(pythons)))

    def write(self) -> dict[str, Path]:
        """pyperf's JSON and the facts, as far as the run has come."""
        self.facts["failures"] = {name: text for name, text in self.journal.failures().items()}
        self.facts["seconds"] = round_seconds(self.used)
        write_facts(self.directory, self.facts)
        return write_suites(self.directory, self.journal.entries, self.facts["metadata"])


def attempt(measure: Callable[[], Any], what: str = "samples") -> tuple[dict[str, Any], str, float]:
    """({what: what came of it} or {"failed": what was said}, when it began, how many seconds it took)"""
    date = datetime.datetime.now().isoformat(timespec="seconds")
    started = time.monotonic()
    try:
        outcome = {what: measure()}
    except (ChildFailed, ValueError, RuntimeError) as failure:
        outcome = {"failed": str(failure)[-1500:]}
    return outcome, date, round_seconds(time.monotonic() - started)


def round_seconds(seconds: float) -> float:
    return round(seconds, 3)


@contextlib.contextmanager
def on_all_cores() -> Iterator[None]:
    """Not pinned, for as long as the context lasts: for what has threads of its own."""
    pinned = os.sched_getaffinity(0)
    os.sched_setaffinity(0, range(os.cpu_count() or 1))
    try:
        yield
    finally:
        os.sched_setaffinity(0, pinned)


def write_facts(directory: Path, facts: Facts) -> None:
    unfinished = directory / (FACTS + ".unfinished")
    unfinished.write_text(json.dumps(facts, indent=1) + "\n", encoding="utf-8")
    unfinished.replace(directory / FACTS)


def build_extensions(pythons: Pythons, facts: Facts) -> dict[str, str]:
    """{name: directory}, without the interpreters that they cannot be built for."""
    found: dict[str, str] = {}
    for name, path in pythons.items():
        try:
            found[name] = measuring.build_extensions({name: path}, "suite")[name]
        except RuntimeError as failure:
            facts["remarks"].append(f"{name}: no C extensions, so no hooks, evaluators and values on code objects"
                                    f" ({str(failure).splitlines()[0]})")
    return found


def make_environments(pythons: Pythons, facts: Facts) -> dict[str, str]:
    """{name: python of its environment} for pyperformance, or nothing."""
    found: dict[str, str] = {}
    try:
        for name, path in pythons.items():
            found[name], missing = environment.ensure_measured(name, path)
            if missing:
                facts["remarks"].append(f"{name}: could not be installed: {', '.join(missing)}")
            environment.enable_compiler(found[name], facts["jit"].get(name))
    except environment.EnvironmentFailed as failure:
        facts["remarks"].append(f"no pyperformance: {str(failure).splitlines()[0]}")
        return {}
    return found


def make_links(stack: contextlib.ExitStack, pythons: Pythons, facts: Facts) -> list[Pythons]:
    """[{name: path}]: the interpreters as they are, then further links of them. Where the linker puts the eval loop moves
    single benchmarks by several per cent, so each round measures another link; the further ones are gone when `stack`
    is closed.
    """
    if facts["layouts"] > 1:
        try:
            return [pythons, *stack.enter_context(layouts.linked(pythons, facts["layouts"] - 1))]
        except SystemExit as failure:
            facts["layouts"] = 1
            facts["remarks"].append(f"one link of each build: no other could be made ({str(failure).splitlines()[0]})")
    return [pythons]


def count_instructions(run: Run, pythons: Pythons, names: Sequence[str]) -> None:
    """Once, not in rounds: instructions repeat."""
    wanted = [(name, python) for name in names for python in pythons
              if not run.journal.has(f"instructions {name}", python, 0)]
    if not wanted:
        return
    with measuring.stripped_copies(pythons) as copies:
        for copy in copies.values():    # the first start of a fresh build compiles the modules it imports
            measuring.run([copy, *measuring.QUIET, tasks.calls.SCRIPT, "--child", names[0], "0"])
        for name, python in wanted:
            run.report(f"instructions of {name}, {python}")
            run.record(f"instructions {name}", python, 0, lambda: [tasks.count_calls(copies[python], name)])


def find_calibration(run: Run, environments: Pythons, base: str, benchmark: Any) -> list[dict[str, Any]] | None:
    """How many loops a script of pyperformance gets, from the journal or measured now; None where it does not run."""
    key = f"calibration {benchmark.name}"
    for entry in run.journal.entries:
        if entry["task"] == key:
            return entry.get("calibration")
    run.report(f"calibrating {benchmark.name}")
    outcome, date, seconds = attempt(lambda: pyperformance_tasks.calibrate(environments, base, benchmark),
                                     "calibration")
    run.journal.add(task=key, python=base, date=date, seconds=seconds, **outcome)
    return outcome.get("calibration")


def go(run: Run) -> None:
    """Measure until the time is used up."""
    facts = run.facts
    pythons, base, quick = facts["pythons"], facts["base"], facts["quick"]
    facts["remarks"] = []
    extensions = build_extensions({**pythons, **facts["free_threaded"]}, facts)
    environments = make_environments(pythons, facts) if facts["pyperformance"] else {}
    with contextlib.ExitStack() as stack:
        links = make_links(stack, pythons, facts)
        run.started = time.monotonic()      # what is made only once is not measuring time
        measure_rounds(run, links, extensions, environments)
    for name, path in pythons.items():
        if machine.fingerprint(path) != facts["files"][name]:
            facts["remarks"].append(f"{name}: {path} was built anew while it was measured: the figures are of two builds")
    run.progress.end()


def measure_rounds(run: Run, links: list[Pythons], extensions: Pythons, environments: Pythons) -> None:
    """Each round over all benchmarks with the next of the links."""
    facts = run.facts
    pythons, base, quick = facts["pythons"], facts["base"], facts["quick"]
    facts["pinned"] = measuring.pin_to_one_core()
    if facts["together"] and not facts["pinned"]:
        facts["together"] = False
        facts["remarks"].append("interpreters in turns: this system does not keep processes on one core")
    sizes = tasks.QUICK if quick else tasks.FULL
    todo = [tasks.make_tasks(link, base, extensions, sizes, facts["together"])
            + tasks.make_scaling_tasks(facts["free_threaded"], extensions) for link in links]
    if not facts["free_threaded"]:
        facts["remarks"].append("scaling with threads is for free-threaded builds, and there was none"
                                " (--free-threaded NAME=PATH)")
    run.write()
    if facts["instructions"]:
        count_instructions(run, pythons, QUICK_COUNTS if quick else tuple(CALLS))
    if environments:
        inside = [{name: environment.link_in(python, link[name]) for name, python in environments.items()}
                  for link in links]
        for benchmark in scripts_of(facts["only"], pyperformance_tasks.scripts(quick)):
            if facts["only"] and pyperformance_tasks.GROUP not in facts["only"] and not unknown(facts["only"], todo[0]):
                break
            calibration = find_calibration(run, environments, base, benchmark)
            for linked, own in zip(inside, todo):
                own += pyperformance_tasks.make_tasks(linked, benchmark, calibration or (), facts["together"])
    if facts["only"]:
        todo = [choose(own, facts["only"]) for own in todo]
    for number in range(MOST_ROUNDS):
        # All of them: what does not fit any more is left out, and something shorter may still fit.
        if not any([run.measure(task, number) for task in todo[number % len(todo)]]):
            break
        run.write()


def scripts_of(names: Collection[str], scripts: Mapping[str, Any]) -> list[Any]:
    """Those that are likely to have benchmarks of these names first: a script calls each of several by its own and more."""
    return [benchmark for _, benchmark in sorted(scripts.items(), key=lambda script: not any(
        name.rpartition("/")[2].startswith(script[0]) for name in names))]


def names_of(task: tasks.Task) -> set[str]:
    """What a task may be called: with the group before the slash, without, and by the group alone if it is in one."""
    group, _, name = task.name.rpartition("/")
    return {task.name, name, group or name}


def unknown(names: Iterable[str], everything: Iterable[tasks.Task]) -> set[str]:
    """Those that no task has."""
    return set(names).difference(*map(names_of, everything))


def choose(everything: list[tasks.Task], names: Collection[str]) -> list[tasks.Task]:
    """The tasks of these names; a name of no task ends the run."""
    if wrong := unknown(names, everything):
        raise SystemExit(f"no benchmark is called {', '.join(sorted(wrong))}; there are:\n"
                         + "\n".join(f"  {task.name}" for task in everything))
    return [task for task in everything if not names_of(task).isdisjoint(names)]


def named_directory(text: str) -> tuple[str, str]:
    name, separator, path = text.partition("=")
    if not separator or not os.path.isdir(path):
        raise argparse.ArgumentTypeError(f"{text}: NAME=DIRECTORY is expected, of a directory that is there")
    return name, os.path.abspath(path)


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Everything that is measured, in one run.")
    parser.add_argument("--base", metavar="NAME=PATH", type=named_python, help="the interpreter to compare with")
    parser.add_argument("--python", metavar="NAME=PATH", type=named_python, action="append", default=[],
                        help="an interpreter to measure; may be given more than once")
    parser.add_argument("--free-threaded", metavar="NAME=PATH", type=named_python, action="append", default=[],
                        help="a build without the GIL, for scaling with threads (default: those in build/)")
    parser.add_argument("--quick", action="store_true", help="five minutes instead of an hour, and fewer benchmarks")
    parser.add_argument("--layouts", metavar="N", type=int, default=1,
                        help="measure N links of each build in turn, with the functions in another order in each but the"
                             " first; for builds of this tree, with lld (default: 1, the builds as they are)")
    parser.add_argument("--only", metavar="NAME", action="append", default=[],
                        help="measure this benchmark alone, as pyperformance or the page's group calls it, or a group; may be"
                             " given more than once; no instructions")
    parser.add_argument("--jit", metavar="NAME=PACKAGES", type=named_directory, action="append", default=[],
                        help="pyperformance under the interpreter of this name runs with ferrule_jit, which is in this directory")
    parser.add_argument("--in-turns", dest="together", action="store_false",
                        help="one process after the other, and the time on the wall; the default is what is compared at"
                             " the same time on one core, each in its CPU time")
    parser.add_argument("--minutes", type=float, help="how long to measure; with --resume in all")
    parser.add_argument("--no-pyperformance", dest="pyperformance", action="store_false")
    parser.add_argument("--no-instructions", dest="instructions", action="store_false")
    parser.add_argument("--command", help="what the user typed, for the page")
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--resume", metavar="DIRECTORY", nargs="?", type=Path, const=LATEST,
                      help="continue a run that was interrupted (default: the last one)")
    what.add_argument("--page", metavar="DIRECTORY", nargs="?", type=Path, const=LATEST, help="make a run's page anew")
    what.add_argument("--publish", metavar="DIRECTORY", nargs="?", type=Path, const=LATEST,
                      help="copy a run's plots to docs/benchmarks/ and its figures to docs/benchmarks.md")
    arguments = parser.parse_args()
    if not (arguments.resume or arguments.page or arguments.publish) and not (arguments.base and arguments.python):
        parser.error("--base and --python are needed")
    if arguments.layouts < 1:
        parser.error("--layouts takes a number above 0")
    names = [name for name, _ in [*arguments.python, arguments.base or ("", "")]]
    if strangers := dict(arguments.jit).keys() - set(names):
        parser.error(f"--jit: no interpreter is called {', '.join(strangers)}")
    if len(set(names)) != len(names):
        parser.error("two interpreters have the same name")
    return arguments


def free_threaded_builds(named: Sequence[tuple[str, str]]) -> dict[str, str]:
    if named:
        return dict(named)
    return {name: os.path.join(ROOT, path) for name, path in FREE_THREADED.items()
            if os.access(os.path.join(ROOT, path), os.X_OK)}


def start(arguments: argparse.Namespace) -> Run:
    """A new run's directory and facts."""
    pythons = dict([arguments.base, *arguments.python])
    free_threaded = free_threaded_builds(arguments.free_threaded)
    if pythons.keys() & free_threaded.keys():   # each has a file of its own
        free_threaded = {f"{name}-free-threaded": path for name, path in free_threaded.items()}
    everyone = {**pythons, **free_threaded}
    now = datetime.datetime.now()
    directory = RUNS / now.strftime("%Y%m%d-%H%M%S")
    directory.mkdir(parents=True)
    LATEST.unlink(missing_ok=True)
    LATEST.symlink_to(directory.name)
    facts = {
        "date": now.isoformat(timespec="seconds"),
        "command": arguments.command or " ".join(["python3", *sys.argv]),
        "pythons": pythons, "base": arguments.base[0], "quick": arguments.quick,
        "minutes": arguments.minutes or (QUICK_MINUTES if arguments.quick else MINUTES),
        "pyperformance": arguments.pyperformance,
        "instructions": arguments.instructions and not arguments.only,
        "layouts": arguments.layouts, "only": arguments.only, "together": arguments.together,
        "jit": dict(arguments.jit),
        "free_threaded": free_threaded,
        "files": {name: machine.fingerprint(path) for name, path in pythons.items()},
        "machine": machine.describe(),
        "builds": {name: machine.describe_python(path) for name, path in everyone.items()},
        "remarks": [],
    }
    facts["metadata"] = {name: machine.pyperf_metadata(facts, name) for name in everyone}
    write_facts(directory, facts)
    return Run(directory, facts)


def resume(directory: Path, minutes: float | None = None) -> Run:
    facts = json.loads((directory / FACTS).read_text(encoding="utf-8"))
    facts["minutes"] = minutes or facts["minutes"]
    for name, path in facts["pythons"].items():
        if machine.fingerprint(program(path)) != facts["files"][name]:
            raise SystemExit(f"{path} is another file than when the run began: start a new one")
    return Run(directory.resolve(), facts)


def main() -> int:
    arguments = parse_arguments()
    if arguments.page or arguments.publish:
        directory = arguments.page or arguments.publish
        print(page.write(Results(directory)))
        if arguments.publish:
            print("\n".join(map(str, publish.publish(Results(directory)))))
        return 0
    run = resume(arguments.resume, arguments.minutes) if arguments.resume else start(arguments)
    print(f"measuring for about {run.facts['minutes']:.0f} minutes into {os.path.relpath(run.directory)}; if it is"
          " interrupted, --resume continues it", flush=True)
    try:
        go(run)
    except KeyboardInterrupt:
        run.progress.end()
        print("interrupted: --resume continues it")
        return 130
    finally:
        paths = run.write()
        run.journal.close()
    for path in paths.values():
        print(os.path.relpath(path))
    results = Results(run.directory)
    written = page.write(results)
    print(page.summary(results))
    print(os.path.relpath(written))
    return 0


if __name__ == "__main__":
    sys.exit(main())
