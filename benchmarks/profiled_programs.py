#!/usr/bin/env python3
"""What the profiler costs programs of pyperformance: their CPU time with a profile over their time without.

    build/bench-env/bin/python benchmarks/profiled_programs.py --python build/release/python

Both are taken in turns in one process, so that a busy machine meets both alike. `make bench-quick` makes the environment that
this runs in. The programs are those of pyperformance that need nothing else, with --all every one.
"""

import json
import os
import statistics
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))

from pyperformance_once import NotHere, run_script

# mode: (options of the profile, the most that the median may be)
MODES = {"exact": ({}, 1.12), "count": ({"count": True}, 1.04), "sample": ({"sample": True}, 1.04)}
SHORTEST = 0.1      # s of one measurement
RATIOS = "ratios: "   # before a child's results


# --- In the interpreter that is measured. ---------------------------------------------------------------------------------

def seconds(work, loops):
    from time import process_time
    begun = process_time()
    for _ in range(loops):
        work()
    return process_time() - begun


def ratios(work, turns):
    import ferrule_profiler
    loops = max(1, round(SHORTEST / max(min(seconds(work, 1) for _ in range(3)), 1e-6)))
    found = {mode: [] for mode in MODES}
    for _ in range(turns):
        for mode, (options, _) in MODES.items():
            plain = seconds(work, loops)
            with ferrule_profiler.profile(**options):
                profiled = seconds(work, loops)
            found[mode].append(profiled / plain)
    return {mode: statistics.median(each) for mode, each in found.items()}


def child(turns, script, *arguments):
    said, sys.stdout = sys.stdout, sys.stderr

    def handle(name, work):
        print(RATIOS + json.dumps({name: ratios(work, int(turns))}), file=said, flush=True)
    try:
        run_script(script, arguments, handle)
    except NotHere:
        pass


if __name__ == "__main__" and sys.argv[1:2] == ["--child"]:
    child(*sys.argv[2:])
    sys.exit(0)


# --- The parent. ------------------------------------------------------------------------------------------------------------

import argparse
import subprocess
import tempfile

from measuring import build_clients, print_table
from suite import environment, pyperformance_tasks

SECONDS = 900


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--python", required=True)
    parser.add_argument("--turns", type=int, default=7)
    parser.add_argument("--all", action="store_true", help="every program")
    parser.add_argument("--check", action="store_true", help="fail when a median is above its aim")
    options = parser.parse_args()
    python = os.path.abspath(options.python)
    inside, _ = environment.ensure_measured(os.path.basename(os.path.dirname(python)), python)
    measured = {}
    with tempfile.TemporaryDirectory() as directory:
        packages = build_clients(python, os.path.join(directory, "packages"))
        for name, benchmark in pyperformance_tasks.scripts(not options.all).items():
            command = [inside, os.path.abspath(__file__), "--child", str(options.turns), benchmark.runscript,
                       *map(str, benchmark.extra_opts or ())]
            try:
                done = subprocess.run(command, capture_output=True, text=True, cwd=directory, timeout=SECONDS, env={
                    "PATH": "/usr/bin:/bin", "HOME": directory, "PYTHONPATH": packages, "PYTHONHASHSEED": "1"})
            except subprocess.TimeoutExpired:
                print(f"{name}: takes longer than {SECONDS} s", file=sys.stderr)
                continue
            # A program may start others, which print what they like.
            for line in done.stdout.splitlines():
                if line.startswith(RATIOS):
                    measured |= json.loads(line.removeprefix(RATIOS))
            print(f"{name}: {done.stdout.strip() or done.stderr.strip()[-200:]}", file=sys.stderr, flush=True)
    medians = {mode: statistics.median(found[mode] for found in measured.values()) for mode in MODES}
    print(f"CPU time with a profile over that without, medians of {options.turns} turns\n")
    print_table(("", *MODES), [(name, *(f"{found[mode]:.2f}" for mode in MODES)) for name, found in sorted(measured.items())])
    print_table(("", *MODES), [("median", *(f"{medians[mode]:.3f}" for mode in MODES)),
                               ("aim", *(str(limit) for _, limit in MODES.values()))])
    above = [mode for mode, (_, limit) in MODES.items() if medians[mode] > limit]
    return 1 if options.check and above else 0


if __name__ == "__main__":
    sys.exit(main())
