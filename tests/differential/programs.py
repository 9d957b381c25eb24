#!/usr/bin/env python3
"""Random programs that must leave the same trace on stock CPython and on Ferrule.

    python3 tests/differential/programs.py --python build/ferrule/python --stock build/stock/python --count 20000
    python3 tests/differential/programs.py --seed 123 --count 1         one program again, as a failure tells
    python3 tests/differential/programs.py --seed 123 --count 1 --show  its source and both traces
    python3 tests/differential/programs.py --count 500 --stats          what the programs do, and how they end

Program number N is what seed N gives; `--seed S --count C` runs S to S + C - 1. Many programs share a process; one
that crashes, hangs or leaves another trace is run again alone, with more time, and then made smaller.
The exit code is 0 when all traces were the same, 1 when not, 2 when the interpreters cannot be run.
"""

import argparse
import ast
import concurrent.futures
import difflib
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field

import programs_generator

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
WORKER = os.path.join(HERE, "programs_worker.py")

BATCH = 100             # programs in one process
SECONDS = 20            # for one program in a batch: most take a few milliseconds
SECONDS_ALONE = 60     # before a program counts as hanging
SHRINK_RUNS = 150
SHRINK_SECONDS = 60
DIFFERENCE_LINES = 40


@dataclass(frozen=True)
class Outcome:
    """What one interpreter made of one program."""

    end: str            # "to its end", the exception that ended it, or how the process died
    trace: tuple
    died: bool = False

    def same(self, other):
        return (self.end, self.trace) == (other.end, other.trace)


def environment():
    # Nothing that differs from run to run, and nothing of the user's.
    return {"PATH": os.environ.get("PATH", ""), "PYTHONHASHSEED": "0", "PYTHONDONTWRITEBYTECODE": "1",
            "LC_ALL": "C.UTF-8"}


def how_it_died(process, stderr):
    if process.returncode < 0:
        return f"killed by {signal.Signals(-process.returncode).name}"
    if "Timeout (" in stderr:
        return "hung"
    return f"exit code {process.returncode}"


def run_programs(python, programs, seconds):
    """Run (seed, source) pairs, in one process where they let it live; yields (seed, outcome)."""
    left = list(programs)
    while left:
        with tempfile.TemporaryDirectory(prefix="programs-") as directory:
            batch, results = os.path.join(directory, "batch"), os.path.join(directory, "results")
            with open(batch, "w", encoding="utf-8") as file:
                json.dump(left, file)
            process = subprocess.run([python, "-I", "-X", "faulthandler", WORKER, batch, results, str(seconds)],
                                     env=environment(), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                     stderr=subprocess.PIPE, text=True, errors="replace")
            started = None
            try:
                with open(results, encoding="utf-8") as file:
                    for line in file:
                        entry = json.loads(line)
                        if "start" in entry:
                            started = entry["start"]
                        else:
                            started = None
                            yield entry["seed"], Outcome(entry["end"], tuple(entry["trace"]))
                            left.pop(0)
            except FileNotFoundError:
                raise RuntimeError(f"{python} does not run {WORKER}:\n{process.stderr}") from None
            if started is not None:
                end = how_it_died(process, process.stderr)
                yield started, Outcome(end, tuple(process.stderr.splitlines()), died=True)
                left.pop(0)
            elif left or process.returncode:
                raise RuntimeError(f"{python} ended after a batch with exit code {process.returncode}:\n"
                                   f"{process.stderr}")


def run_alone(python, source):
    ((_, outcome),) = run_programs(python, [(0, source)], SECONDS_ALONE)
    return outcome


@dataclass
class Failure:
    seed: int
    source: str
    ours: Outcome
    theirs: Outcome
    alone: bool         # it fails in a process of its own, too
    batch: tuple = ()   # the seeds of the batch that it failed in


@dataclass
class Summary:
    programs: int = 0
    ends: Counter = field(default_factory=Counter)
    constructs: Counter = field(default_factory=Counter)
    programs_with: Counter = field(default_factory=Counter)
    tags: Counter = field(default_factory=Counter)
    lines: int = 0
    stock_died: list = field(default_factory=list)
    failures: list = field(default_factory=list)

    def add(self, other):
        for name, value in vars(other).items():
            if isinstance(value, Counter):
                getattr(self, name).update(value)
            else:
                setattr(self, name, getattr(self, name) + value)


def run_batch(ferrule, stock, seeds):
    summary = Summary()
    programs = []
    for seed in seeds:
        source, used = programs_generator.program(seed)
        programs.append((seed, source))
        summary.constructs.update(used)
        summary.programs_with.update(used.keys())
    sources = dict(programs)
    ours, theirs = (dict(run_programs(python, programs, SECONDS)) for python in (ferrule, stock))
    for seed in seeds:
        summary.programs += 1
        summary.ends[theirs[seed].end] += 1
        summary.lines += len(theirs[seed].trace)
        summary.tags.update(line.split(" ", 1)[0] for line in theirs[seed].trace
                            if not theirs[seed].died and not line.startswith("|"))
        if ours[seed].same(theirs[seed]):
            continue
        mine, reference = (run_alone(python, sources[seed]) for python in (ferrule, stock))
        if reference.died or (theirs[seed].died and theirs[seed].end != "hung"):
            # Stock itself crashes over it: there is nothing to compare with.
            summary.stock_died.append(seed)
        elif not mine.same(reference):
            summary.failures.append(Failure(seed, sources[seed], mine, reference, True))
        elif "hung" not in (ours[seed].end, theirs[seed].end):
            # What hung in the batch and not alone wanted more time; anything else is about what ran before.
            summary.failures.append(Failure(seed, sources[seed], ours[seed], theirs[seed], False, tuple(seeds)))
    return summary


def run_all(ferrule, stock, seeds, jobs, progress=None):
    """Run the programs of `seeds` on both interpreters; returns a Summary."""
    batches = [seeds[i:i + BATCH] for i in range(0, len(seeds), BATCH)]
    total = Summary()
    # Processes, not threads: making the programs takes this side's time.
    with concurrent.futures.ProcessPoolExecutor(max_workers=jobs) as pool:
        futures = [pool.submit(run_batch, ferrule, stock, batch) for batch in batches]
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


def fails_alone(ferrule, stock):
    def still_fails(source):
        ours, theirs = run_alone(ferrule, source), run_alone(stock, source)
        return not (theirs.died or ours.same(theirs))
    return still_fails


# --- Reports. ---------------------------------------------------------------------------------------------------


def difference(failure):
    """How the two traces differ, in a few lines."""
    lines = difflib.unified_diff([*failure.theirs.trace, failure.theirs.end], [*failure.ours.trace, failure.ours.end],
                                 "stock", "ferrule", n=2, lineterm="")
    lines = list(lines)
    return lines[:DIFFERENCE_LINES] + (["..."] if len(lines) > DIFFERENCE_LINES else [])


def command(failure, ferrule, stock):
    first, count = (failure.seed, 1) if failure.alone else (failure.batch[0], len(failure.batch))
    return (f"python3 {os.path.relpath(__file__, os.getcwd())} --python {ferrule} --stock {stock} "
            f"--seed {first} --count {count}")


def report(failure, ferrule, stock, keep=None, small=True):
    print(f"\nprogram {failure.seed} differs: stock {failure.theirs.end}, ferrule {failure.ours.end}"
          + ("" if failure.alone else "; only after the programs before it in one process"))
    print("again: " + command(failure, ferrule, stock))
    print("\n".join("    " + line for line in difference(failure)))
    texts = {"py": failure.source, "stock.txt": "\n".join([*failure.theirs.trace, failure.theirs.end, ""]),
             "ferrule.txt": "\n".join([*failure.ours.trace, failure.ours.end, ""])}
    if failure.alone and small:
        texts["small.py"] = shrink(failure.source, fails_alone(ferrule, stock))
        print(f"the program, made smaller ({len(texts['small.py'].splitlines())} lines):")
        print("\n".join("    " + line for line in texts["small.py"].splitlines()))
    if keep:
        os.makedirs(keep, exist_ok=True)
        for suffix, text in texts.items():
            with open(os.path.join(keep, f"program-{failure.seed}.{suffix}"), "w", encoding="utf-8") as file:
                file.write(text)
    sys.stdout.flush()


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


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
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
    options = parser.parse_args()
    if options.show:
        for seed in range(options.seed, options.seed + options.count):
            source, _ = programs_generator.program(seed)
            print(f"# program {seed}\n{source}")
            for name, python in (("stock", options.stock), ("ferrule", options.python)):
                outcome = run_alone(python, source)
                print(f"# {name}: {outcome.end}\n" + "\n".join(outcome.trace))
        return 0
    started = told = time.monotonic()

    def progress(total):
        nonlocal told
        if time.monotonic() - told > 10:
            told = time.monotonic()
            print(f"  {total.programs} programs, {len(total.failures)} differ"
                  f"{' ' + str([f.seed for f in total.failures[:5]]) if total.failures else ''}, "
                  f"{told - started:.0f} s", flush=True)

    seeds = list(range(options.seed, options.seed + options.count))
    try:
        summary = run_all(options.python, options.stock, seeds, options.jobs, progress)
    except (OSError, RuntimeError) as error:
        print(error, file=sys.stderr)
        return 2
    for failure in summary.failures[:options.most]:
        report(failure, options.python, options.stock, options.keep, not options.no_shrink)
    if options.stats:
        print_stats(summary)
    whole = summary.ends["to its end"]
    print(f"{summary.programs} programs, {len(summary.failures)} differ, {whole} ran to their end, "
          f"{len(summary.stock_died)} crash stock itself {sorted(summary.stock_died)[:10] or ''} "
          f"({time.monotonic() - started:.0f} s)")
    return 1 if summary.failures else 0


if __name__ == "__main__":
    sys.exit(main())
