#!/usr/bin/env python3
"""Counts of pyperformance's programs: the profiler's are cProfile's, to the last call.

    ci/profiler-truth                                   # all of them; ci/profiler-truth chaos go: these

Each program runs three times, in a process of its own: twice under cProfile, once under the profiler. One whose counts differ
from one time to the next under cProfile is not deterministic, and is left out; so is one that calls in several threads, of
which cProfile sees one.
"""

import argparse
import json
import os
import sys

import pyperformance_once
from pyperformance_once import NotHere

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
# What else differs, with the reason.
LEFT_OUT = {"coverage": "it looks at the stack and at all modules that are loaded, a profiler's too"}


# --- In the interpreter that is tested. ---------------------------------------------------------------------------------

def count_cprofile(work):
    """Of each code object by itself: its file of statistics keeps one of several that have one label."""
    import cProfile
    profile = cProfile.Profile(builtins=False)
    profile.runcall(work)
    counts = {}
    for entry in profile.getstats():
        if not isinstance(entry.code, str):
            add(counts, entry.code.co_filename, entry.code.co_firstlineno, entry.code.co_name, entry.callcount,
                entry.reccallcount)
    return counts


def count_ferrule(work):
    import ferrule_profiler
    with ferrule_profiler.profile() as profile:
        work()
    threads = [thread.name for thread in profile.result.threads if thread.paths]
    if len(threads) > 1:
        raise NotHere(f"calls in {len(threads)} threads")
    counts = {}
    for function in profile.result.functions.values():
        if function.runs:
            add(counts, function.file, function.line, function.name, function.runs, function.recursive)
    return counts


def add(counts, file, line, name, calls, recursive):
    # What the profilers and the runner call themselves is not the program's.
    if file in (__file__, pyperformance_once.__file__) or "asyncio/runners" in file:
        return
    key = f"{name} {file}:{line}"
    if key in counts:
        # The profiler takes them for one function; what is recursive in that, cProfile cannot say.
        counts[key] = [counts[key][0] + calls, None]
    else:
        counts[key] = [calls, recursive]


def child(profiler, script, *arguments):
    """Each benchmark runs twice, and is counted the second time, when nothing is done for the first time."""
    import gc
    count = {"cProfile": count_cprofile, "ferrule": count_ferrule}[profiler]
    found = {}
    said, sys.stdout = sys.stdout, sys.stderr

    def handle(name, work):
        work()
        gc.collect()
        gc.disable()        # what it would call depends on who has allocated how much
        found.update({f"{name}: {key}": counted for key, counted in count(work).items()})
        gc.enable()

    try:
        pyperformance_once.run_script(script, arguments, handle)
        print(json.dumps({"counts": found}), file=said)
    except NotHere as reason:
        print(json.dumps({"reason": str(reason)}), file=said)


if __name__ == "__main__" and sys.argv[1:2] == ["--child"]:
    child(*sys.argv[2:])
    sys.exit(0)


# --- The parent, in the harness's environment, which has pyperformance. -------------------------------------------------

import subprocess
import tempfile

SECONDS = 600


def run(python, packages, profiler, benchmark):
    """What one process has counted, or why it has not."""
    with tempfile.TemporaryDirectory() as directory:
        command = [python, os.path.abspath(__file__), "--child", profiler, benchmark.runscript,
                   *map(str, benchmark.extra_opts or ())]
        try:
            done = subprocess.run(command, capture_output=True, text=True, cwd=directory, timeout=SECONDS, env={
                "PATH": os.path.dirname(python) + ":/usr/bin:/bin", "HOME": directory, "PYTHONPATH": packages,
                "PYTHONHASHSEED": "1", "PYTHONDONTWRITEBYTECODE": "1"})
        except subprocess.TimeoutExpired:
            return {"reason": f"takes longer than {SECONDS} s"}
    if done.returncode:
        return {"reason": f"it does not run: {(done.stderr.strip().splitlines() or ['?'])[-1][:100]}"}
    return json.loads(done.stdout.splitlines()[-1])


def agree(theirs, ours):
    """Whether [calls, recursive ones] are the same; what is not known on one side is not compared."""
    if theirs is None or ours is None:
        return False
    return theirs[0] == ours[0] and (theirs[1] == ours[1] or None in (theirs[1], ours[1]))


def compare(python, packages, benchmark):
    """("same", calls), ("left out", why), or ("different", lines)."""
    if benchmark.name in LEFT_OUT:
        return "left out", LEFT_OUT[benchmark.name]
    once = run(python, packages, "cProfile", benchmark)
    if "counts" not in once:
        return "left out", once["reason"]
    again = run(python, packages, "cProfile", benchmark)
    if again != once:
        return "left out", "it is another one each time"
    ours = run(python, packages, "ferrule", benchmark)
    if "counts" not in ours:
        return ("different" if "does not run" in ours["reason"] else "left out"), ours["reason"]
    names = sorted(name for name in {*once["counts"], *ours["counts"]}
                   if not agree(once["counts"].get(name), ours["counts"].get(name)))
    if not names:
        return "same", sum(calls for calls, _ in once["counts"].values())
    # How often an event loop goes round depends on time, and may be the same twice by chance.
    for profiler, before in (("ferrule", ours), ("cProfile", once)) * 2:
        if run(python, packages, profiler, benchmark) != before:
            return "left out", "it is another one each time"
    return "different", "\n".join(f"    {name}: cProfile {once['counts'].get(name)}, ours {ours['counts'].get(name)}"
                                  for name in names[:10])


def main():
    from measuring import build_clients
    from suite import environment, pyperformance_tasks
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--python", default=os.path.join(ROOT, "build", "ferrule", "python"))
    parser.add_argument("programs", nargs="*")
    options = parser.parse_args()
    inside, missing = environment.ensure_measured("ferrule", os.path.abspath(options.python))
    if missing:
        print(f"not to be installed here: {', '.join(missing)}", flush=True)
    results = {"same": 0, "different": 0, "left out": 0}
    with tempfile.TemporaryDirectory() as directory:
        packages = build_clients(os.path.abspath(options.python), directory)
        for name, benchmark in pyperformance_tasks.scripts(False).items():
            if options.programs and name not in options.programs:
                continue
            what, more = compare(inside, packages, benchmark)
            results[what] += 1
            result = f"{more:,} calls" if what == "same" else more if what == "left out" else f"\n{more}"
            print(f"{name:36}{what:10} {result}", flush=True)
    print(f"{results['same']} passed, {results['different']} failed, {results['left out']} skipped")
    return 1 if results["different"] or not results["same"] else 0


if __name__ == "__main__":
    sys.exit(main())
