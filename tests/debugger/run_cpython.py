#!/usr/bin/env python3
"""CPython's test_pdb and test_bdb, with the debugger in the place of pdb and bdb.

    python3 -m tests.debugger.run_cpython --python build/ferrule/python

Nothing is copied: the tests run where CPython has them, and a sitecustomize module puts the
debugger's classes into `pdb` and `bdb` in every process that they start. What need not pass is in
expected.toml, each with a reason; a test that is listed there and passes is a failure too. The last
line is `N passed, N failed, N skipped`.
"""

import argparse
import os
import re
import subprocess
import sys
import tomllib

from tests.steps import Counts

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
PACKAGE = os.path.join(ROOT, "clients", "debugger", "src")
TESTS = ("test.test_bdb", "test.test_pdb")
# Fewer would mean that they were not found.
AT_LEAST = {"test.test_bdb": 36, "test.test_pdb": 119}
SECONDS = 1200

IN_PLACE = """
import bdb, pdb, ferrule_debugger
assert pdb.Pdb is ferrule_debugger.Pdb and bdb.Bdb is ferrule_debugger.Bdb
assert pdb.Pdb.__mro__.index(bdb.Bdb) > 0
"""


def environment():
    inherited = {name: value for name, value in os.environ.items() if name != "PYTHONBREAKPOINT"}
    return {
        **inherited,
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTHONPATH": os.pathsep.join([PACKAGE, os.path.join(HERE, "resolve")]),
    }


def run(python, *arguments):
    return subprocess.run(
        [python, *arguments],
        env=environment(),
        text=True,
        errors="replace",
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        timeout=SECONDS,
    )


def problems_of(output):
    """The names of the tests that failed, as unittest lists them."""
    return sorted(set(re.findall(r"^(?:FAIL|ERROR): (\S+ \(\S+\))", output, re.MULTILINE)))


def judge(name, output, expected):
    """The counts of one test file, and what to say."""
    said = []
    found = re.search(r"^Ran (\d+) tests? in", output, re.MULTILINE)
    ran = int(found.group(1)) if found else 0
    skipped = int((re.search(r"skipped=(\d+)", output) or [0, 0])[1])
    problems = problems_of(output)
    wrong = [problem for problem in problems if problem not in expected]
    said += [f"FAIL {problem}" for problem in wrong]
    stale = [listed for listed in expected if listed not in problems]
    said += [f"FAIL {listed} is listed in expected.toml, and passes" for listed in stale]
    said += [
        f"expected {problem}: {expected[problem]}" for problem in problems if problem in expected
    ]
    failed = len(wrong) + len(stale)
    if ran < AT_LEAST[name]:
        said.append(f"FAIL {name}: {ran} tests were run, {AT_LEAST[name]} or more were expected")
        failed += 1
    return Counts(ran - skipped - len(problems), failed, skipped + len(problems) - len(wrong)), said


def main():
    parser = argparse.ArgumentParser(description="CPython's test_pdb and test_bdb on the debugger.")
    parser.add_argument("--python", required=True, type=os.path.abspath)
    options = parser.parse_args()
    with open(os.path.join(HERE, "expected.toml"), "rb") as file:
        expected = tomllib.load(file)
    checked = run(options.python, "-c", IN_PLACE)
    if checked.returncode:
        print(checked.stdout)
        print("the debugger is not in the place of pdb\n0 passed, 1 failed, 0 skipped")
        return 1
    total = Counts()
    for name in TESTS:
        done = run(options.python, "-m", "unittest", "-v", name)
        counts, said = judge(name, done.stdout, expected.get(name, {}))
        total += counts
        if counts.failed:
            print(done.stdout)
        print(name, *said, sep="\n  ")
    print(total)
    return 1 if total.failed else 0


if __name__ == "__main__":
    sys.exit(main())
