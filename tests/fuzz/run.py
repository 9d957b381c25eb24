#!/usr/bin/env python3
"""Mutated source, on stock and on Ferrule side by side: what comes of each of its tests has to be the same.

    python3 -m tests.fuzz.run --python build/ferrule/python --stock build/stock/python --minutes 10
    python3 -m tests.fuzz.run --python ... --stock ... --seed 4711 --count 1      one of them again

Each seed chooses what is mutated, a test module of CPython's, a module of the standard library or, with --programs, one of a program from
PyPI (subjects.py); its mutations, a recursion limit, how often the collector runs, and who looks on: a trace, profile or
monitoring function, another evaluator, a thread that walks the frames, or a trace function that switches greenlets; on Ferrule also a
frame hook that passes, reads, copies, watches, switches greenlets, changes which hooks there are, or has hooks, blocks and callbacks end
elsewhere than they began, in other threads and greenlets; or one of the clients, the profiler or the debugger. A crash on
Ferrule that stock has not is a finding, and so is a test that ends in another way. What stock does not do the same way twice, or
where the collector runs at other times, is not compared. Findings are kept in build/fuzz, each with its source. The last line is the counts.
"""

import argparse
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from tests.fuzz import processor
from tests.fuzz.subjects import FROM_PYPI, LIBRARY, Subject, install
from tests.fuzz.worker import CLIENTS, chances, look

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
# Test modules that need nothing but the interpreter, and no other file of the test package.
MODULES = (
    "augassign", "baseexception", "binop", "bisect", "bool", "class", "compare", "contains", "contextlib", "copy", "dataclasses",
    "decorators", "defaultdict", "deque", "dictviews", "dynamic", "dynamicclassattribute", "enumerate", "exception_group",
    "exception_variations", "except_star", "extcall", "finalization", "fractions", "functools", "genericalias", "generator_stop",
    "generators", "genexps", "global", "graphlib", "hash", "heapq", "int", "isinstance", "iter", "iterlen", "itertools", "keyword",
    "keywordonlyarg", "lambda", "list", "listcomps", "math_property", "named_expressions", "nonlocal", "opcodes", "operator",
    "ordered_dict", "patma", "positional_only_arg", "pow", "property", "pprint", "raise", "range", "reprlib", "richcmp", "scope",
    "set", "setcomps", "shlex", "slice", "sort", "statistics", "string", "structseq", "super", "textwrap", "traceback", "tuple",
    "type_cache", "type_params", "typechecks", "unary", "unpack", "unpack_ex", "userdict", "userlist", "with", "yield_from",
    "coroutines", "asyncgen", "context", "contextlib_async", "frame", "sys_setprofile", "sys_settrace", "monitoring", "call", "code",
    "descr", "dict", "weakref", "zip", "types", "inspect", "bdb", "pickle", "json", "re", "gc", "funcattrs", "exceptions",
)
HOOKS = ("none", "none", "pass", "read", "copy", "watch", "watch", "change", "change", "switch", "switch",
         "elsewhere", "elsewhere", "elsewhere", "profiler", "profiler", "debugger", "debugger")
# What tests look for that a client changes, as its page says: the profiler keeps code alive, and the debugger is one of bdb's, is a
# tool of sys.monitoring's, and makes objects that the collector counts.
NOT_BESIDE = {"profiler": {"test_code"}, "debugger": {"test_bdb", "test_gc", "test_monitoring"}}
SECONDS = 45
# So many more objects before the collector runs.
COLLECTOR = (13, 29, 53, 101, 199, 401)


def hook_of(seed: int) -> str:
    return chances("hook", seed).choice(HOOKS)


@dataclass(frozen=True)
class Outcome:
    """What came of a run: the tests' outcomes, or how the process has died."""

    died: str = ""
    output: str = ""

    @property
    def crashed(self) -> bool:
        return self.died.startswith("signal")


@dataclass(frozen=True)
class Mutant:
    """A changed source, and what runs on it."""

    path: Path
    seed: int
    hook: str
    # None: the source is of tests.
    subject: Subject | None
    # Where modules are looked for besides.
    paths: tuple[Path, ...] = ()


def run(python: str, mutant: Mutant, hook: str, collector: int = 0) -> Outcome:
    with tempfile.TemporaryDirectory() as directory:
        environment = {"PATH": os.environ["PATH"], "HOME": directory, "TMPDIR": directory, "PYTHONHASHSEED": "0",
                       "PYTHONDONTWRITEBYTECODE": "1", "PYTHONFAULTHANDLER": "1", "PURE_PYTHON": "1", "FUZZ_COLLECTOR": str(collector),
                       "PYTHONPATH": os.pathsep.join(map(str, mutant.paths))}
        words = (mutant.subject.module, *mutant.subject.tests) if mutant.subject else ()
        process = subprocess.Popen([python, HERE / "worker.py", mutant.path, str(mutant.seed), hook, *words], cwd=directory, env=environment, text=True,
                                   errors="replace", stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                   start_new_session=True)
        try:
            out, errors = process.communicate(timeout=SECONDS)
        except subprocess.TimeoutExpired:
            out = errors = ""
        finally:
            # What a test has started goes with it.
            try:
                os.killpg(process.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
            process.communicate()
            # What the evaluator has written there.
            Path(f"/tmp/perf-{process.pid}.map").unlink(missing_ok=True)
    status = process.returncode
    if status in (-signal.SIGKILL, -signal.SIGXCPU, -signal.SIGALRM, -signal.SIGTERM, -signal.SIGINT):
        # A mutated test may have sent it, or it has taken too long.
        return Outcome("stopped")
    if status < 0:
        return Outcome(f"signal {signal.Signals(-status).name}", errors[-3000:])
    lines = out.rstrip().splitlines()
    if status != 0 or not lines or not lines[-1].startswith("["):
        return Outcome(f"exit status {status}")
    return Outcome("", lines[-1])


def difference(ours: Outcome, theirs: Outcome) -> str:
    """The first test that has ended in another way."""
    if ours.died or theirs.died:
        return f"{ours.died or 'to its end'}; stock: {theirs.died or 'to its end'}\n{ours.output}"
    mine, other = json.loads(ours.output), json.loads(theirs.output)
    for here, there in zip(mine[2], other[2]):
        if here != there:
            return f"{here}\nstock: {there}"
    return f"{mine[:2]}, {len(mine[2])} tests\nstock: {other[:2]}, {len(other[2])} tests"


def tests_of(outcome: Outcome) -> list[list[str]]:
    """Each test, how it has ended, and what was said of it."""
    return json.loads(outcome.output)[2]


def is_comparable(outcome: Outcome, hook: str) -> bool:
    """Where the memory ends is not the same. A test may look for the very code that a copy replaces."""
    return not outcome.died and hook != "copy" and "MemoryError" not in outcome.output


def of_hooks(hook: str, *outcomes: Outcome) -> set[str]:
    """Tests that see that there is a hook: those of recursion, since a hook in Python needs some of the stack, and those that disassemble
    code that a hook is called for."""
    if hook == "none":
        return set()
    return {test for outcome in outcomes for test, _, said in tests_of(outcome) if re.search("(?i:recursi)|RESUME_CHECK", test + said)}


def without(outcome: Outcome, tests: set[str]) -> Outcome:
    if outcome.died or not tests:
        return outcome
    how, what, tests_run = json.loads(outcome.output)
    return Outcome("", json.dumps([how, what, [test for test in tests_run if test[0] not in tests]]))


class Fuzzer:
    def __init__(self, options: argparse.Namespace):
        self.options = options
        self.tests = Path(subprocess.run([options.stock, "-c", "import test; print(test.__path__[0])"], capture_output=True, text=True,
                                         check=True).stdout.strip())
        self.kept = ROOT / "build" / "fuzz"
        self.kept.mkdir(parents=True, exist_ok=True)
        # The tools that `make` has built beside it. One that is installed has them in its library.
        self.paths = (Path(options.python).parent / "clients", *([options.programs] if options.programs else []))
        self.from_pypi = tuple(filter(self.source_of, FROM_PYPI))
        self.has_clients = self.imports(options.python, *CLIENTS.values())
        self.has_greenlet = self.imports(options.python, "greenlet") and self.imports(options.stock, "greenlet")

    def imports(self, python: str, *modules: str) -> bool:
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, self.paths))}
        return subprocess.run([python, "-c", "import " + ", ".join(modules)], capture_output=True, env=environment).returncode == 0

    def can_run(self, how: str, hook: str) -> bool:
        """Whether there is what they need."""
        return (self.has_clients or hook not in CLIENTS) and (self.has_greenlet or (how != "greenlets" and hook != "switch"))

    def chosen(self, seed: int) -> tuple[Path | None, Subject | None]:
        """The source that a seed changes, and the module that it is, if it is not of tests."""
        random_ = chances("source", seed)
        if random_.random() < 0.5:
            name = random_.choice(MODULES)
            places = (self.tests / f"test_{name}.py", self.tests / f"test_{name}" / f"test_{name}.py")
            return next((path for path in places if path.exists()), None), None
        subject = random_.choice(self.from_pypi if self.from_pypi and random_.random() < 0.5 else LIBRARY)
        return self.source_of(subject), subject

    def source_of(self, subject: Subject) -> Path | None:
        place = subject.module.replace(".", "/")
        for top in (self.tests.parent, self.options.programs):
            for path in (top / f"{place}.py", top / place / "__init__.py") if top else ():
                if path.exists():
                    return path
        return None

    def mutant(self, seed: int) -> Mutant | None:
        path, subject = self.chosen(seed)
        hook = hook_of(seed)
        if path is None or not self.can_run(look(seed), hook) or path.stem in NOT_BESIDE.get(hook, ()):
            return None
        # By an interpreter that knows the syntax.
        made = subprocess.run([self.options.stock, HERE / "mutations.py", path, str(seed)], capture_output=True,
                              encoding="utf-8", errors="surrogatepass")
        if made.returncode != 0:
            return None
        running = self.kept / f"running-{seed}.py"
        running.write_text(made.stdout, encoding="utf-8", errors="surrogatepass")
        return Mutant(running, seed, hook, subject, self.paths)

    def one(self, seed: int) -> tuple[str, str]:
        """(what came of a seed, the finding where it is one)"""
        mutant = self.mutant(seed)
        if mutant is None:
            return "nothing to run", ""
        try:
            verdict, finding = self.compare(mutant)
            if finding:
                name = mutant.subject.module if mutant.subject else self.chosen(seed)[0].stem
                kept = self.kept / f"finding-{seed}-{name}.py"
                mutant.path.rename(kept)
                finding = f"seed {seed}, {name}, hook {mutant.hook}: {kept}\n{finding}"
                kept.with_suffix(".txt").write_text(finding + "\n")
            return verdict, finding
        finally:
            mutant.path.unlink(missing_ok=True)

    def compare(self, mutant: Mutant) -> tuple[str, str]:
        hook = mutant.hook
        ours = run(self.options.python, mutant, hook)
        if ours.died == "stopped":
            return "stopped", ""
        theirs = run(self.options.stock, mutant, "none")
        if ours == theirs:
            # A signal that both die of is stock's, or what a test has sent to itself.
            return ("did not run" if ours.died else "same"), ""
        left_out = set()
        if not ours.crashed:
            if not (is_comparable(ours, hook) and is_comparable(theirs, hook)):
                return "not comparable", ""
            left_out = of_hooks(hook, ours, theirs)
            ours, theirs = without(ours, left_out), without(theirs, left_out)
            if ours == theirs:
                return ("same" if tests_of(ours) else "not comparable"), ""

        def again(python: str, hook: str, plus: int = 0) -> Outcome:
            return without(run(python, mutant, hook, plus), left_out)

        # Stock may be of two minds about it, or crash too.
        for _ in range(3):
            other = again(self.options.stock, "none")
            if other != theirs or (ours.crashed and other.crashed):
                return "stock differs from itself" if not other.crashed else "stock crashes too", ""
            if again(self.options.python, hook) != ours and not ours.crashed:
                return "not the same twice", ""
        # A hook in Python makes objects, so the collector runs at other times. A test may observe when that was.
        if hook != "none" and not ours.died and not theirs.died:
            for plus in COLLECTOR:
                if again(self.options.stock, "none", plus) != theirs or again(self.options.python, hook, plus) == theirs:
                    return "differs by the collector's times", ""
        return "crash" if ours.crashed else "difference", difference(ours, theirs)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--python", required=True, help="the Ferrule to test")
    parser.add_argument("--stock", required=True, help="a stock CPython of the same tree")
    parser.add_argument("--minutes", type=float, default=10, help="how long (default %(default)s)")
    parser.add_argument("--count", type=int, help="so many seeds instead")
    parser.add_argument("--seed", type=int, default=int(time.time()), help="the first (default: the time)")
    parser.add_argument("--programs", type=Path, metavar="DIR", help="programs from PyPI too, which are installed there")
    parser.add_argument("--jobs", type=int, default=2)
    options = parser.parse_args()
    options.python, options.stock = str(Path(options.python).absolute()), str(Path(options.stock).absolute())
    if options.programs:
        options.programs = options.programs.absolute()
        install(options.programs)
    fuzzer, seen, findings = Fuzzer(options), Counter(), 0
    end = time.monotonic() + 60 * options.minutes
    seeds = iter(range(options.seed, options.seed + (options.count or 10**9)))
    print(f"from seed {options.seed}", flush=True)

    def work() -> None:
        nonlocal findings
        for seed in seeds:
            verdict, finding = fuzzer.one(seed)
            seen[verdict] += 1
            if finding:
                findings += 1
                print(finding, flush=True)
            if not options.count and time.monotonic() > end:
                return

    with ThreadPoolExecutor(options.jobs) as pool:
        for worker in [pool.submit(work) for _ in range(options.jobs)]:
            worker.result()
    print(", ".join(f"{what}: {count}" for what, count in seen.most_common()), flush=True)
    print(f"{processor.minutes():.1f} minutes of a processor", flush=True)
    print(f"{seen['same']} passed, {findings} failed, {seen.total() - seen['same'] - findings} skipped")
    return 1 if findings or not seen["same"] else 0


if __name__ == "__main__":
    sys.exit(main())
