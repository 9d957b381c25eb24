"""Many random programs, in processes of so many each: prints totals, and keeps the output of each process that failed.

    python3 tests/jit/fuzz_many.py --python build/ferrule/python --packages DIRECTORY --stock build/stock/python --count 200000

Whole functions are compiled in every other process, running loops in the rest. It can be stopped at any time: --totals FILE has
what was run so far, and running it again continues behind that.
"""

import argparse
import json
import subprocess
import sys
import time
from pathlib import Path

FUZZ = Path(__file__).with_name("fuzz.py")
# Seconds for one process, after which it hangs.
PATIENCE = 1800


def added(totals, more):
    """The sums of what is counted, by name."""
    for name, value in more.items():
        if isinstance(value, dict):
            totals[name] = added(totals.get(name, {}), value)
        else:
            totals[name] = totals.get(name, 0) + value
    return totals


def run(options, seed, count, loops):
    """The totals of one process, or None, and what it printed."""
    command = [options.python, "-X", "faulthandler", str(FUZZ), "--packages", options.packages, "--seed", str(seed), "--count", str(count),
               "--around", "--json"]
    command += ["--stock", options.stock] if options.stock and not loops else []
    command += ["--loops"] if loops else []
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE)
    except subprocess.TimeoutExpired as expired:
        return None, f"seeds from {seed}: {expired}"
    try:
        totals = json.loads(done.stdout)
    except ValueError:
        totals = None
    # After a panic of the compiler the function is interpreted, and its results are right.
    good = done.returncode == 0 and "panicked at" not in done.stderr
    return totals, "" if good else f"{' '.join(command)}\nexit code {done.returncode}\n{done.stdout}\n{done.stderr}"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--python", required=True)
    parser.add_argument("--packages", required=True, help="where ferrule_jit is")
    parser.add_argument("--stock", help="an interpreter to compare with")
    parser.add_argument("--count", type=int, default=200_000)
    parser.add_argument("--seed", type=int, default=100_000, help="the first")
    parser.add_argument("--each", type=int, default=567, help="programs of one process")
    parser.add_argument("--totals", type=Path, default=Path("fuzz-totals.json"))
    options = parser.parse_args()
    state = json.loads(options.totals.read_text()) if options.totals.exists() else {"next": options.seed, "processes": 0, "totals": {}, "failed": []}
    while state["next"] < options.seed + options.count:
        seed, began = state["next"], time.monotonic()
        count = min(options.each, options.seed + options.count - seed)
        totals, failed = run(options, seed, count, state["processes"] % 2 == 1)
        state["next"], state["processes"] = seed + count, state["processes"] + 1
        added(state["totals"], totals or {"lost": count})
        if failed:
            state["failed"].append(failed)
            print(failed, flush=True)
        options.totals.write_text(json.dumps(state, indent=1))
        brief = {name: value for name, value in state["totals"].items() if not isinstance(value, dict)}
        brief["compiled, %"] = round(100 * brief.get("compiled", 0) / max(brief.get("programs", 0), 1), 1)
        print(f"{time.monotonic() - began:.0f} s, seeds below {state['next']}: {brief}", flush=True)
    print(json.dumps(state["totals"], indent=1))
    sys.exit(bool(state["failed"]))


if __name__ == "__main__":
    main()
