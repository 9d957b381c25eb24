#!/usr/bin/env python3
"""Run real programs' own tests, unmodified, on stock CPython and on Ferrule, and compare them test by test.

    ci/real-programs --list            the programs, and which part of their tests is run
    ci/real-programs NAME... | all     these; ten minutes a side at most
    ci/real-programs --publish NAME    and write the rows to docs/real-programs.md

A third run has a frame hook in every process of Ferrule's, which is called for every function and passes. A test that
comes out worse there than on stock is repeated, twice on each side: what does not repeat is flaky, and no failure here. A program has passed when no
test is worse. Logs, wheels and environments are kept below build/real-programs. The last line is the counts, of programs.

Pins are in tests/real: programs.toml, and constraints.txt for what they need; --pins writes that anew, from what is installed.
"""

import argparse
import contextlib
import datetime
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tomllib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ci.table import put_rows
from tests.c import build_extensions
from tests.real import environments, outcomes
from tests.real.environments import PLACE, Missing
from tests.real.outcomes import FAILED, Outcome

ROOT = Path(__file__).resolve().parent.parent

PAGE = ROOT / "docs" / "real-programs.md"
PROGRAMS = ROOT / "tests" / "real" / "programs.toml"
HEAD = """# Real programs

Each row is written by `ci/real-programs --publish NAME`: a program's own tests, unmodified, on a stock CPython and on Ferrule of the same tree, with the
same wheels; and on Ferrule with a frame hook that is called for every function and passes. Numbers are tests: passed, failed, skipped. A
test that is worse on Ferrule is repeated, twice on each side, before it counts. What fails on stock too is no difference.

| program | version | its tests | stock | Ferrule | with a hook | differs from stock | commit | when |
|---|---|---|---|---|---|---|---|---|
"""
# The ways in which tests are run, and their names in logs.
WAYS = ("stock", "ferrule", "hooked")
# A run that took longer than this is not repeated as a whole, where the runner can repeat single tests.
SECONDS_REPEATED = 60


@dataclass(frozen=True)
class Program:
    """An entry of programs.toml."""
    name: str
    # What is tested, with its version; and what its tests need.
    package: str
    # In words: which tests are run.
    part: str
    # How results are read: "pytest" writes JUnit XML, and so may others ("junit"); else see outcomes.READERS.
    runner: str
    # What runs the tests; for pytest, its arguments. {python}, {bin}, {xml}, {work} and {live} are replaced by paths.
    command: tuple[str, ...]
    also: tuple[str, ...] = ()
    # Whether the tests are in the source archive, which is unpacked where they run; and what of it has to go first.
    source: bool = False
    remove: tuple[str, ...] = ()
    environment: dict[str, str] = field(default_factory=dict)
    # Debian's packages, and services of environments.SERVICES.
    debian: tuple[str, ...] = ()
    services: tuple[str, ...] = ()
    minutes: int = 10

    @property
    def version(self) -> str:
        return self.package.partition("==")[2]


def programs() -> dict[str, Program]:
    with PROGRAMS.open("rb") as file:
        groups, entries = (table := tomllib.load(file)).pop("groups"), table
    found = {}
    for name, entry in entries.items():
        also = [one for word in entry.pop("also", []) for one in groups.get(word, [word])]
        unpinned = [one for one in [entry["package"], *also] if "==" not in one]
        if unpinned:
            sys.exit(f"real-programs: {PROGRAMS.name} does not pin {', '.join(unpinned)}")
        options: dict[str, Any] = {key: tuple(value) if isinstance(value, list) else value for key, value in entry.items()}
        found[name] = Program(name=name, also=tuple(also), **options)
    return found


class Trial:
    """One program on all sides."""

    def __init__(self, program: Program, interpreters: dict[str, Path]):
        self.program, self.interpreters = program, interpreters
        self.place = PLACE / program.name

    def prepare(self) -> None:
        program = self.program
        missing = [name for name in program.debian if subprocess.run(["dpkg-query", "-W", name], capture_output=True).returncode]
        if missing:
            raise Missing(f"Debian's {', '.join(missing)} is not installed")
        self.place.mkdir(parents=True, exist_ok=True)
        stock = self.interpreters["stock"]
        found = environments.wheels(program.name, [program.package, *program.also], stock)
        self.pythons = {side: environments.environment(program.name, side, interpreter, found) for side, interpreter in self.interpreters.items()}
        self.pythons["hooked"] = self.pythons["ferrule"]
        self.archive = environments.source(program.package, stock) if program.source else None
        extensions = build_extensions.build(str(self.interpreters["ferrule"]), str(PLACE / "hook"))
        suffix = build_extensions.facts_of(str(self.interpreters["ferrule"]))["suffix"]
        self.hook = {"FERRULE_SUITE_HOOK": "pass", "FERRULE_SUITE_EXTENSION": f"{extensions}/suitehooks{suffix}"}
        self.expect_sides()

    def expect_sides(self) -> None:
        """Each way is what it is said to be: else equal results would mean nothing."""
        program = "import sys; print('Ferrule' in sys.version, [h.name for h in __import__('framehook').hooks()] if 'Ferrule' in sys.version else [])"
        for way, wanted in zip(WAYS, ("False []", "True []", "True ['pass']")):
            said = subprocess.run([self.pythons[way], "-W", "always", "-X", "tracemalloc", "-c", program],
                                  env=self.variables(way), capture_output=True, text=True)
            if (said.stdout.strip(), said.stderr) != (wanted, ""):
                raise Missing(f"{way}: {said.stdout.strip()} {said.stderr.strip()[-300:]}")

    def variables(self, way: str) -> dict[str, str]:
        inside = self.pythons[way].parent
        return environments.clean(PATH=f"{inside}:{os.environ['PATH']}", VIRTUAL_ENV=str(inside.parent), **(self.hook if way == "hooked" else {}),
                                  **self.program.environment)

    def run(self, way: str, label: str, only: dict | None = None) -> Outcome:
        """One run of the tests; of those in `only` alone, in the form in which pytest keeps what has failed."""
        program = self.program
        work, left = self.place / f"work-{way}", self.place / f"results-{way}"
        for directory in (work, left):
            shutil.rmtree(directory, ignore_errors=True)
        if self.archive:
            environments.unpack(self.archive, work, list(program.remove))
        else:
            work.mkdir()
        left.mkdir()
        if only is not None:
            self.remembered(way).parent.mkdir(parents=True)
            self.remembered(way).write_text(json.dumps(only))
        words = list(program.command)
        if program.runner == "pytest":
            words = ["{python}", "{bin}/pytest", "--junit-xml={xml}/junit.xml", "-o", "junit_family=xunit1", "-o", "cache_dir={xml}/cache", "-q",
                     *(["--last-failed", "--last-failed-no-failures=none"] if only is not None else []), *words]
        names = {"python": self.pythons[way], "bin": self.pythons[way].parent, "xml": left, "work": work, "live": ROOT / "tests" / "real" / "live"}
        words = [re.sub(r"\{(\w+)\}", lambda found: str(names[found[1]]), word) for word in words]
        log = self.place / f"{label}.log"
        with contextlib.ExitStack() as services, log.open("w") as file:
            variables = self.variables(way)
            for service in program.services:
                variables.update(services.enter_context(environments.SERVICES[service]()))
            file.write(f"$ {' '.join(words)}\n")
            file.flush()
            started = datetime.datetime.now()
            status = bounded(words, program.minutes * 60, cwd=work, env=variables, stdin=subprocess.DEVNULL, stdout=file, stderr=subprocess.STDOUT)
        outcome = outcomes.read("junit" if program.runner == "pytest" else program.runner, left, log.read_text(errors="replace"), status)
        self.seconds = (datetime.datetime.now() - started).total_seconds()
        print(f"  {label}: {outcome} in {self.seconds:.0f} s   (log: {log.relative_to(ROOT)})", flush=True)
        return outcome

    def remembered(self, way: str) -> Path:
        """Where pytest keeps the names of tests that have failed."""
        return self.place / f"results-{way}" / "cache" / "v" / "cache" / "lastfailed"

    def repeated(self, way: str, stock: Outcome, worse: set[str]) -> set[str]:
        """What of `worse` is so each time, in two more runs of both sides."""
        only = None
        # Without the whole there is no order of tests; so the whole, where that is soon done.
        if self.seconds > SECONDS_REPEATED and self.program.runner == "pytest" and not any(name.startswith("the run: ") for name in worse):
            with contextlib.suppress(FileNotFoundError):
                only = json.loads(self.remembered(way).read_text())
        for turn in (1, 2):
            if worse:
                again = {side: self.run(side, f"{side}-again-{turn}", only) for side in ("stock", way)}
                if only is None:
                    worse = worse & outcomes.difference(again["stock"], again[way])
                else:
                    worse = {name for name in worse if again[way].results.get(name) == FAILED and again["stock"].results.get(name) != FAILED}
        return worse

    def compare(self) -> tuple[dict[str, Outcome], dict[str, set[str]], set[str]]:
        """The outcome of each way, what is worse than on stock, and what seemed so once."""
        found, worse, flaky = {"stock": self.run("stock", "stock")}, {}, set()
        if ended := [name for name in found["stock"].having(FAILED) if name.startswith("the run: ")]:
            raise Missing(f"on stock, {ended[0].removeprefix('the run: ')}")
        for way in WAYS[1:]:
            found[way] = self.run(way, way)
            once = outcomes.difference(found["stock"], found[way])
            worse[way] = self.repeated(way, found["stock"], once) if once else set()
            flaky |= once - worse[way]
        return found, worse, flaky


def heed_signals() -> None:
    """As in the foreground: a shell, or nohup, has what it starts in the background ignore these, and tests send them."""
    for number in (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT):
        signal.signal(number, signal.SIG_DFL)


def bounded(words: list[str], seconds: int, **options: Any) -> int | None:
    """The exit status; None where the time was up. What it has started ends with it."""
    with subprocess.Popen(words, start_new_session=True, preexec_fn=heed_signals, **options) as process:
        try:
            return process.wait(seconds)
        except subprocess.TimeoutExpired:
            return None
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)


def cell(outcome: Outcome) -> str:
    return ", ".join(str(outcome.count(result)) for result in (outcomes.PASSED, FAILED, outcomes.SKIPPED))


def judge(worse: dict[str, set[str]], flaky: set[str]) -> tuple[bool, str]:
    """Whether it has passed, and what is said of differences."""
    parts = [f"**{way}**: {', '.join(f'`{name}`' for name in sorted(names)[:5])}{f' and {len(names) - 5} more' if len(names) > 5 else ''}"
             for way, names in (("on Ferrule", worse["ferrule"]), ("with the hook", worse["hooked"] - worse["ferrule"])) if names]
    if flaky:
        parts.append(f"{len(flaky)} flaky")
    return not any(worse.values()), "; ".join(parts) or "nothing"


def commit_of(interpreter: Path) -> str:
    said = subprocess.run(["git", "rev-parse", "--short", "HEAD"], cwd=interpreter.parent, capture_output=True, text=True)
    return said.stdout.strip() or "?"


def plain(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name.partition("==")[0].partition("[")[0]).lower()


def write_pins(known: dict[str, Program]) -> None:
    """The versions of what programs need and do not name, as they are in the wheels that are there."""
    versions: dict[str, set[str]] = {}
    needed: set[str] = set()
    for program in known.values():
        named = {plain(one) for one in (program.package, *program.also)}
        found = [path.name.split("-")[:2] for path in (PLACE / program.name / "wheels").glob("*.whl")]
        if not found:
            sys.exit(f"real-programs: there are no wheels of {program.name} yet: run it first")
        for name, version in found:
            versions.setdefault(plain(name), set()).add(version)
            if plain(name) not in named:
                needed.add(plain(name))
    for name in sorted(needed):
        if len(versions[name]) > 1:
            sys.exit(f"real-programs: {name} is there as {' and as '.join(sorted(versions[name]))}")
    environments.CONSTRAINTS.write_text("# Written by ci/real-programs --pins.\n" + "".join(f"{name}=={versions[name].pop()}\n" for name in sorted(needed)))


def main() -> int:
    known = programs()
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"one of {', '.join(known)}; or all")
    parser.add_argument("--list", action="store_true", help="say which programs there are")
    parser.add_argument("--publish", action="store_true", help=f"write {PAGE.relative_to(ROOT)}")
    parser.add_argument("--pins", action="store_true", help=f"write {environments.CONSTRAINTS.relative_to(ROOT)}")
    parser.add_argument("--python", type=Path, default=ROOT / "build/release/python", help="Ferrule (default: build/release/python)")
    parser.add_argument("--stock", type=Path, default=ROOT / "build/stock-release/python", help="stock CPython (default: build/stock-release/python)")
    options = parser.parse_args()
    if options.list:
        for program in known.values():
            print(f"{program.name:16} {program.version:10} {program.part}")
        return 0
    if options.pins:
        write_pins(known)
        return 0
    names = list(known) if options.names == ["all"] else options.names
    if not names or (unknown := [name for name in names if name not in known]):
        parser.error("name a program, or all; --list says which there are" if not names else f"there is no program {', '.join(unknown)}")
    interpreters = {"stock": options.stock.absolute(), "ferrule": options.python.absolute()}
    for path in interpreters.values():
        if not path.exists():
            parser.error(f"there is no {path}: `make release stock-release` makes it")
    total = {True: 0, False: 0, None: 0}
    for name in names:
        program = known[name]
        print(f"=== {name} {program.version}: {program.part}", flush=True)
        trial = Trial(program, interpreters)
        try:
            trial.prepare()
            found, worse, flaky = trial.compare()
        except Missing as reason:
            total[None] += 1
            print(f"  skipped: {reason}", flush=True)
            continue
        passed, verdict = judge(worse, flaky)
        total[passed] += 1
        print(f"  {'ok' if passed else 'FAILED'}; differs from stock: {verdict}", flush=True)
        for seemed in sorted(flaky):
            print(f"  flaky: {seemed}", flush=True)
        if options.publish:
            row = [name, program.version, program.part, *(cell(found[way]) for way in WAYS), verdict, commit_of(interpreters["ferrule"]), datetime.date.today()]
            put_rows(PAGE, HEAD, {name: f"| {' | '.join(map(str, row))} |"}, list(known))
    print(f"{total[True]} passed, {total[False]} failed, {total[None]} skipped")
    return 1 if total[False] or not total[True] else 0


if __name__ == "__main__":
    sys.exit(main())
