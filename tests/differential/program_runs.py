"""Runs random programs in several ways, compares their traces, and makes smaller what differs.

What the programs are, and what the ways to run them are, is a `Programs`: see programs.py and hooked_programs.py. One
way is the reference: a stock CPython. Many programs share a process; one that crashes, hangs or leaves another trace
is run again alone, with more time, and then made smaller.
"""

import argparse
import ast
import concurrent.futures
import contextlib
import difflib
import io
import json
import os
import shlex
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))

BATCH = 100             # programs in one process
SECONDS = 20            # for one program in a batch: most take a few milliseconds
PATIENCE = 120          # more seconds for a whole batch: the process begins and ends
SECONDS_ALONE = 60      # before a program counts as hanging
REFERENCE_RUNS = 12     # before a crash of ours counts as ours alone
SHRINK_RUNS = 150
SHRINK_SECONDS = 60
DIFFERENCE_LINES = 40


@dataclass(frozen=True)
class Way:
    """One way to run programs: by which interpreter, and the worker's arguments."""

    name: str
    python: str
    arguments: tuple = ()   # of the worker
    options: tuple = ()     # of the command line, for this way alone


@dataclass(frozen=True)
class Programs:
    """What is run, and in which ways. Other processes get it, so its functions have names."""

    script: str             # the command line that runs them
    worker: str
    generate: Callable      # seed -> source, Counter of constructs
    reference: Way | None   # None: nothing is compared, but nothing may crash
    ways: tuple
    options: tuple = ()     # of the command line, for all ways
    seconds: float = SECONDS
    batch: int = BATCH
    incomparable: str = ""  # what is in a trace that may differ; a crash is a failure there too


# A frame that CPython itself leaks, as one whose frame object has an extra local that refers to its generator, is never left.
IMPLIED = {"more blocks each time": {"the data of a watch is left"}}


@dataclass(frozen=True)
class Outcome:
    """What one interpreter made of one program."""

    end: str                # "to its end", the exception that ended it, or how the process died
    trace: tuple
    died: bool = False
    complaints: tuple = ()  # of the worker, beside the trace: "grows", for one
    details: tuple = ()     # of the complaints: not compared

    def same(self, other):
        """Whether this is what the reference has made of it, which may have complaints besides."""
        allowed = set(other.complaints).union(*(IMPLIED.get(complaint, ()) for complaint in other.complaints))
        return (self.end, self.trace) == (other.end, other.trace) and set(self.complaints) <= allowed


def fails(ours, theirs):
    """Whether an outcome is a failure; `theirs` is the reference's, or None."""
    return ours.died or bool(ours.complaints) if theirs is None else not ours.same(theirs)


def environment():
    # Nothing that differs from run to run, and nothing of the user's.
    kept = {name: os.environ[name] for name in ("ASAN_OPTIONS", "LSAN_OPTIONS", "PYTHONMALLOC") if name in os.environ}
    return {"PATH": os.environ.get("PATH", ""), "PYTHONHASHSEED": "0", "PYTHONDONTWRITEBYTECODE": "1",
            "LC_ALL": "C.UTF-8", **kept}


def how_it_died(process, stderr):
    if process.returncode < 0:
        return f"killed by {signal.Signals(-process.returncode).name}"
    if "Timeout (" in stderr:
        return "hung"
    return f"exit code {process.returncode}"


def run_until(command, seconds):
    """Run a command, which is killed where it takes too long: after its last program no watchdog of its own is left."""
    with subprocess.Popen(command, env=environment(), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                          text=True, errors="replace") as process:
        try:
            said = process.communicate(timeout=seconds)[1]
        except subprocess.TimeoutExpired:
            process.kill()
            said = process.communicate()[1]
    return subprocess.CompletedProcess(command, process.returncode, stderr=said)


def run_programs(worker, way, sources, seconds):
    """Run (seed, source) pairs, in one process where they let it live; yields (seed, outcome)."""
    left = list(sources)
    while left:
        with tempfile.TemporaryDirectory(prefix="programs-") as directory:
            batch, results = os.path.join(directory, "batch"), os.path.join(directory, "results")
            with open(batch, "w", encoding="utf-8") as file:
                json.dump(left, file)
            process = run_until([way.python, "-s", "-P", "-X", "faulthandler", worker, batch, results, str(seconds), *way.arguments],
                                PATIENCE + seconds * len(left))
            started = None
            try:
                with open(results, encoding="utf-8") as file:
                    for line in file:
                        entry = json.loads(line)
                        if "start" in entry:
                            started = entry["start"]
                        else:
                            started = None
                            yield entry["seed"], Outcome(entry["end"], tuple(entry["trace"]),
                                                         complaints=tuple(entry.get("complaints", ())),
                                                         details=tuple(entry.get("details", ())))
                            left.pop(0)
            except FileNotFoundError:
                raise RuntimeError(f"{way.python} does not run {worker}:\n{process.stderr}") from None
            if started is not None:
                end = how_it_died(process, process.stderr)
                yield started, Outcome(end, tuple(process.stderr.splitlines()), died=True)
                left.pop(0)
            elif left or process.returncode:
                raise RuntimeError(f"{way.name}: {way.python} ended after a batch with exit code "
                                   f"{process.returncode}:\n{process.stderr}")


def run_alone(programs, way, source):
    """The outcome of one program in a process of its own; None where there is no such way."""
    if way is None:
        return None
    ((_, outcome),) = run_programs(programs.worker, way, [(0, source)], max(SECONDS_ALONE, programs.seconds))
    return outcome


@dataclass
class Failure:
    seed: int
    source: str
    way: Way
    ours: Outcome
    theirs: Outcome | None
    alone: bool         # it fails in a process of its own, too
    batch: tuple = ()   # the seeds of the batch that it failed in


@dataclass
class Summary:
    programs: int = 0
    runs: int = 0
    ends: Counter = field(default_factory=Counter)
    constructs: Counter = field(default_factory=Counter)
    programs_with: Counter = field(default_factory=Counter)
    tags: Counter = field(default_factory=Counter)
    lines: int = 0
    set_aside: int = 0      # runs that differ, and that say nothing
    stock_died: list = field(default_factory=list)
    failures: list = field(default_factory=list)

    def add(self, other):
        for name, value in vars(other).items():
            if isinstance(value, Counter):
                getattr(self, name).update(value)
            else:
                setattr(self, name, getattr(self, name) + value)


def judge(programs, way, sources, seed, ours, theirs):
    """A Failure, None, "stock": the reference itself does not survive the program; or "set aside": it may differ."""
    if not fails(ours, theirs):
        return None
    source = sources[seed]
    mine = run_alone(programs, way, source)
    reference = run_alone(programs, programs.reference, source)
    if reference is not None and (reference.died or (theirs.died and theirs.end != "hung")
                                  or (ours.died or mine.died) and reference_dies(programs, sources, seed)):
        # There is nothing to compare with.
        return "stock"
    if fails(mine, reference):
        failure = Failure(seed, source, way, mine, reference, True)
    elif "hung" in (ours.end, theirs and theirs.end):
        # It wanted more time. Any other difference is about what ran before.
        return None
    elif theirs and replace(ours, complaints=tuple(set(ours.complaints).difference(*IMPLIED.values()))).same(theirs):
        # Only alone is memory measured, so only alone is it known what CPython leaks.
        return None
    else:
        failure = Failure(seed, source, way, ours, theirs, False, tuple(sources))
    only_differs = not failure.ours.died and not failure.ours.complaints
    return "set aside" if only_differs and is_incomparable(programs, failure.theirs) else failure


def is_incomparable(programs, outcome):
    return bool(programs.incomparable and outcome and any(programs.incomparable in line for line in outcome.trace))


def reference_dies(programs, sources, seed):
    """Whether the reference crashes over this program, at times, or over what ran before it in the batch.

    Memory that CPython itself has damaged is not met in each run, nor in the same place.
    """
    before = list(sources.items())[:list(sources).index(seed) + 1]
    for _ in range(REFERENCE_RUNS):
        if run_alone(programs, programs.reference, sources[seed]).died:
            return True
    return any(outcome.died for _ in range(REFERENCE_RUNS // 3)
               for _, outcome in run_programs(programs.worker, programs.reference, before, programs.seconds))


def run_batch(programs, seeds):
    summary = Summary()
    sources = {}
    for seed in seeds:
        sources[seed], used = programs.generate(seed)
        summary.constructs.update(used)
        summary.programs_with.update(used.keys())
    first = programs.reference or programs.ways[0]
    outcomes = {way: dict(run_programs(programs.worker, way, sources.items(), programs.seconds))
                for way in dict.fromkeys((first, *programs.ways))}
    for seed in sources:
        shown = outcomes[first][seed]
        summary.programs += 1
        summary.ends[shown.end] += 1
        summary.lines += len(shown.trace)
        summary.tags.update(line.split(" ", 1)[0] for line in shown.trace
                            if not shown.died and not line.startswith("|"))
        for way in programs.ways:
            summary.runs += 1
            verdict = judge(programs, way, sources, seed, outcomes[way][seed], shown if programs.reference else None)
            if verdict == "stock":
                summary.stock_died.append(seed)
                break
            # What runs in the same process as a program that damages memory on stock too says nothing.
            if verdict == "set aside" or verdict and not verdict.alone and summary.stock_died:
                summary.set_aside += 1
            elif verdict:
                summary.failures.append(verdict)
    return summary


def run_all(programs, seeds, jobs, progress=None):
    """Run the programs of `seeds` in all ways; returns a Summary."""
    # Each process gets some, also where there are few.
    size = max(1, min(programs.batch, -(-len(seeds) // jobs)))
    batches = [seeds[i:i + size] for i in range(0, len(seeds), size)]
    total = Summary()
    # Processes, not threads: making the programs takes this side's time.
    with concurrent.futures.ProcessPoolExecutor(max_workers=jobs) as pool:
        futures = [pool.submit(run_batch, programs, batch) for batch in batches]
        try:
            for future in concurrent.futures.as_completed(futures):
                total.add(future.result())
                if progress:
                    progress(total)
        finally:
            # After an error, nothing of the rest.
            pool.shutdown(cancel_futures=True)
    total.failures.sort(key=lambda failure: failure.seed)
    return total


# --- Smaller programs that still fail. --------------------------------------------------------------------------


def smaller_trees(tree):
    """Every tree with one statement, or half of a block, taken out."""
    blocks = []
    for node in ast.walk(tree):
        for name in ("body", "orelse", "finalbody", "handlers", "cases"):
            statements = getattr(node, name, None)
            if isinstance(statements, list) and statements:
                blocks.append((node, name, statements))
    blocks.sort(key=lambda block: -sum(1 for statement in block[2] for _ in ast.walk(statement)))
    for node, name, statements in blocks:
        size = len(statements)
        while size:
            for start in range(0, len(statements), size):
                kept = statements[:start] + statements[start + size:]
                if not kept and name == "body" and not isinstance(node, ast.Module):
                    kept = [ast.copy_location(ast.Pass(), statements[0])]
                    if isinstance(statements[0], ast.Pass):
                        continue
                setattr(node, name, kept)
                yield
                setattr(node, name, statements)
            size //= 2


def shrink(source, still_fails):
    """A smaller program for which `still_fails` holds; the source itself where Python here cannot parse it."""
    runs, deadline = 0, time.monotonic() + SHRINK_SECONDS
    progressed = True
    while progressed:
        progressed = False
        try:
            tree = ast.parse(source)
        except SyntaxError:
            return source
        for _ in smaller_trees(tree):
            if runs >= SHRINK_RUNS or time.monotonic() > deadline:
                return source
            try:
                candidate = ast.unparse(tree) + "\n"
                compile(candidate, "candidate", "exec")
            except (SyntaxError, ValueError, IndexError):
                continue
            if len(candidate) >= len(source):
                continue
            runs += 1
            if still_fails(candidate):
                source, progressed = candidate, True
                break
    return source


def fails_alone(programs, way):
    def still_fails(source):
        theirs = run_alone(programs, programs.reference, source)
        return not (theirs and theirs.died) and fails(run_alone(programs, way, source), theirs)
    return still_fails


# --- Reports. ---------------------------------------------------------------------------------------------------


def as_lines(outcome):
    return [*outcome.trace, outcome.end, *outcome.complaints]


def difference(failure):
    """How the two traces differ, in a few lines; without a reference, how ours ends."""
    if failure.theirs is None:
        lines = as_lines(failure.ours)
        # The output of a crash begins with its cause.
        return (lines[:DIFFERENCE_LINES] if failure.ours.died else lines[-5:]) + list(failure.ours.details)
    lines = list(difflib.unified_diff(as_lines(failure.theirs), as_lines(failure.ours), "stock", failure.way.name, n=2,
                                      lineterm=""))
    return (lines[:DIFFERENCE_LINES] + (["..."] if len(lines) > DIFFERENCE_LINES else [])
            + [f"# {line}" for line in failure.ours.details])


def command(programs, failure):
    first, count = (failure.seed, 1) if failure.alone else (failure.batch[0], len(failure.batch))
    return shlex.join(["python3", os.path.relpath(programs.script, os.getcwd()), *programs.options,
                       *failure.way.options, "--seed", str(first), "--count", str(count)])


def report(programs, failure, keep=None, small=True):
    theirs = f"stock {failure.theirs.end}, " if failure.theirs else ""
    print(f"\nprogram {failure.seed} fails: {theirs}{failure.way.name} {failure.ours.end}"
          + "".join(f", {complaint}" for complaint in failure.ours.complaints)
          + ("" if failure.alone else "; only after the programs before it in one process"))
    print("again: " + command(programs, failure))
    print("\n".join("    " + line for line in difference(failure)))
    name = failure.way.name.replace(" ", "-")
    texts = {"py": failure.source, f"{name}.txt": "\n".join([*as_lines(failure.ours), ""])}
    if failure.theirs:
        texts["stock.txt"] = "\n".join([*as_lines(failure.theirs), ""])
    if failure.alone and small:
        texts["small.py"] = shrink(failure.source, fails_alone(programs, failure.way))
        print(f"the program, made smaller ({len(texts['small.py'].splitlines())} lines):")
        print("\n".join("    " + line for line in texts["small.py"].splitlines()))
    if keep:
        os.makedirs(keep, exist_ok=True)
        for suffix, text in texts.items():
            with open(os.path.join(keep, f"program-{failure.seed}.{suffix}"), "w", encoding="utf-8") as file:
                file.write(text)
    sys.stdout.flush()


def run_for(case, programs, seeds):
    """Run these programs for a test: none fails. The summary."""
    summary = run_all(programs, seeds, os.cpu_count() or 1)
    text = io.StringIO()
    with contextlib.redirect_stdout(text):
        for failure in summary.failures[:2]:
            report(programs, failure)
    case.assertEqual(len(summary.failures), 0, text.getvalue())
    case.assertEqual(summary.programs, len(seeds))
    return summary


def print_stats(summary):
    print(f"{summary.programs} programs, {summary.lines} lines of traces\nhow they ended:")
    for end, count in summary.ends.most_common():
        print(f"  {count:7}  {100 * count / summary.programs:5.1f} %  {end}")
    print("constructs: occurrences in the sources, programs that have one")
    for name, count in sorted(summary.constructs.items()):
        print(f"  {count:7}  {summary.programs_with[name]:7}  {name}")
    print("events in the traces:")
    for tag, count in sorted(summary.tags.items()):
        print(f"  {count:7}  {tag}")


# --- The command line. ------------------------------------------------------------------------------------------


def argument_parser(description):
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--python", default=os.path.join(ROOT, "build", "ferrule", "python"), help="Ferrule")
    parser.add_argument("--stock", default=os.path.join(ROOT, "build", "stock", "python"), help="stock, of the same tree")
    parser.add_argument("--seed", type=int, default=0, help="the first program's number (default 0)")
    parser.add_argument("--count", type=int, default=500, help="how many programs (default 500)")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--keep", metavar="DIR", help="write failing programs and their traces there")
    parser.add_argument("--most", type=int, default=5, help="failures to print (default 5); the rest are counted")
    parser.add_argument("--no-shrink", action="store_true", help="do not make failing programs smaller")
    parser.add_argument("--show", action="store_true", help="print sources and traces; for one program or a few")
    parser.add_argument("--stats", action="store_true", help="print what the programs do and how they end")
    return parser


def show(programs, seeds):
    for seed in seeds:
        source, _ = programs.generate(seed)
        print(f"# program {seed}\n{source}")
        for way in filter(None, (programs.reference, *programs.ways)):
            outcome = run_alone(programs, way, source)
            print("\n".join([f"# {way.name}: {outcome.end}", *outcome.trace, *outcome.complaints, *outcome.details]))


def run_command(options, programs):
    """Do what the command line says; the exit code."""
    seeds = list(range(options.seed, options.seed + options.count))
    if options.show:
        show(programs, seeds)
        return 0
    started = reported = time.monotonic()

    def progress(total):
        nonlocal reported
        if time.monotonic() - reported > 10:
            reported = time.monotonic()
            print(f"  {total.programs} programs, {len(total.failures)} fail"
                  f"{' ' + str([f.seed for f in total.failures[:5]]) if total.failures else ''}, "
                  f"{reported - started:.0f} s", flush=True)

    try:
        summary = run_all(programs, seeds, options.jobs, progress)
    except (OSError, RuntimeError) as error:
        print(error, file=sys.stderr)
        return 2
    for failure in summary.failures[:options.most]:
        report(programs, failure, options.keep, not options.no_shrink)
    if options.stats:
        print_stats(summary)
    if len(programs.ways) > 1:
        by_way = Counter(failure.way.name for failure in summary.failures)
        print("failures by way: " + ", ".join(f"{way.name} {by_way[way.name]}" for way in programs.ways))
    whole = summary.ends["to its end"]
    print(f"{summary.programs} programs, {len(summary.failures)} of {summary.runs} runs fail, {whole} ran to their end, "
          f"{len(summary.stock_died)} crash stock itself {sorted(summary.stock_died)[:10] or ''}, "
          f"{summary.set_aside} differences set aside ({time.monotonic() - started:.0f} s)")
    return 1 if summary.failures else 0
