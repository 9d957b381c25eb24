#!/usr/bin/env python3
"""Runs CPython's own tests with a frame hook in every process, and compares with what is expected to differ.

    python3 -m tests.hooked.run --python build/ferrule/python --stock build/stock/python --hook copy
    python3 -m tests.hooked.run --python build/ferrule/python --stock build/stock/python --hook pass test_frame test_gc

`copy` has an equal copy of each code object run in its place, `pass` is called for every frame and changes nothing.
`observe` looks for frames first, from C and with Python's tools (suiteobserver.py), and then does as `copy`.
`watch` and `watch-python` watch every frame with its yields and resumptions, in C and in Python, and end the process where
an event is wrong (suitehooks.c, suitewatcher.py).
A sitecustomize module on PYTHONPATH installs the hook; so the workers of the test runner have it, and what they start,
but for processes that ignore the environment (-I, -E, -S).

Test methods that fail are run again on stock, with the same environment and no hook, and again with the hook, alone.
What fails only with the hook, and both times, must be in expected.toml, with the reason; and what is there must
fail. Without names of test files the whole suite is run.
"""

import argparse
import os
import re
import sys
import tomllib

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))

from tests import run as runner
from tests.c import build_extensions
from tools.progress import heed_interrupts  # in tools, where `run` looks too

EXPECTED = os.path.join(HERE, "expected.toml")
# For each hook the names under which expected.toml has what differs.
HOOKS = {"copy": ("copy",), "observe": ("copy", "observe"), "pass": ("pass",),
         "watch": ("pass", "watch"), "watch-python": ("pass", "watch", "watch-python")}
# Seconds for one test file where a call takes several times as long. regrtest gives the tests' own limits a share of it.
PATIENCE = {"watch-python": 4 * runner.TEST_TIMEOUT}

# unittest's headline for a method, a subtest of it, a doctest or a fixture of a class.
HEADLINE = re.compile(r"(?:FAIL|ERROR|UNEXPECTED SUCCESS): (\S+) \(((?:test|ctypes|__main__)[\w.]*)\)")


class Methods:
    """What one run of regrtest says: {test file: methods that failed}, and the files that had a result."""

    def __init__(self, name, python, environment, arguments):
        patience = PATIENCE.get(environment["FERRULE_SUITE_HOOK"], runner.TEST_TIMEOUT)
        # -W: print which failed. Of two limits the last one counts.
        arguments = ["-W", "--timeout", str(patience), *arguments]
        self.regrtest = runner.Regrtest(name, python, arguments, environment).run()
        self.files = set(self.regrtest.outcomes)
        by_file = {file: set() for file in self.regrtest.failed}
        for line in self.regrtest.step.lines:
            method = method_in(line)
            file = method and file_of(method, by_file)
            if file:
                by_file[file].add(method)
        # A file that crashed, hung or could not be imported: its methods are not known.
        self.failed = {file: methods or {file} for file, methods in by_file.items()}


def method_in(line):
    """The full name of the test method in a headline of unittest; None for other lines."""
    found = HEADLINE.match(line)
    if not found:
        return None
    method, place = found.groups()
    return place if place.endswith("." + method) else f"{place}.{method}"


def read_expected(hook):
    """{method: why}."""
    with open(EXPECTED, "rb") as file:
        table = tomllib.load(file)
    return {method: entry["why"] for does in HOOKS[hook]
            for entries in table.get(does, {}).values() for entry in entries for method in entry["methods"]}


def file_of(method, files):
    """The one of these test files that has the method; None: none of them."""
    return next((file for file in files if method.startswith((f"test.{file}.", file + "."))), None)


def compare(expected, files, failed):
    """(methods that fail and should not, [(method, file)] that should and do not)."""
    surprising = sorted(method for methods in failed.values() for method in methods if method not in expected)
    failing = {method for methods in failed.values() for method in methods}
    mended = sorted((method, file) for method in expected
                    if method not in failing and (file := file_of(method, files)) is not None)
    return surprising, mended


def failures_of_the_hook(options, environment, first):
    """{file: methods} that fail with the hook twice, and not on stock."""
    result, notes = {}, []
    stock_environment = {**environment, "FERRULE_SUITE_HOOK": ""}
    expected = read_expected(options.hook)
    for number, (file, methods) in enumerate(sorted(first.failed.items()), 1):
        safe = runner.file_safe(file)
        runner.say(f"  {file}: {len(methods)} failed ({number} of {len(first.failed)} files)")
        # What is expected to fail needs no second look: that it does is what was to be seen.
        unknown = {method for method in methods if method not in expected}
        if unknown:
            on_stock = Methods(f"hooked-stock-{safe}", options.stock, stock_environment, ["-j1", file])
            both = unknown & on_stock.failed.get(file, set())
            if on_stock.failed.get(file) == {file} and file not in methods:
                both = unknown      # the whole file fails there
            notes += [f"{method}: fails on stock too" for method in sorted(both)]
            unknown -= both
        if unknown:
            again = Methods(f"hooked-{options.hook}-again-{safe}", options.python, environment, ["-j1", file])
            twice = set(unknown) if again.failed.get(file) == {file} else unknown & again.failed.get(file, set())
            notes += [f"{method}: flaky, passes alone" for method in sorted(unknown - twice)]
            unknown = twice
        result[file] = unknown | {method for method in methods if method in expected}
    return result, notes


def run_suite(options):
    """The counts of one run, of test files."""
    extensions = os.path.join(ROOT, "build", "test-extensions", "hooked")
    build_extensions.build(options.python, extensions)
    suffix = build_extensions.facts_of(options.python)["suffix"]
    environment = {"PYTHONPATH": HERE, "FERRULE_SUITE_HOOK": options.hook,
                   "FERRULE_SUITE_EXTENSION": os.path.join(extensions, "suitehooks" + suffix)}
    first = Methods(f"hooked-{options.hook}", options.python, environment, [f"-j{options.jobs}", *options.tests])
    failed, notes = failures_of_the_hook(options, environment, first)
    expected = read_expected(options.hook)
    surprising, mended = compare(expected, first.files, failed)
    as_expected = [method for methods in failed.values() for method in methods if method in expected]
    counts = first.regrtest.counts()
    # A file counts as failed if something is there that is not expected.
    bad = {file for file, methods in failed.items() if set(methods) & set(surprising)} | {file for _, file in mended}
    counts.passed = sum(outcome == runner.PASSED for outcome in first.regrtest.outcomes.values())
    counts.passed += len(set(first.regrtest.failed) - bad) - len(bad - set(first.regrtest.failed))
    counts.failed = len(bad)
    details = notes + [f"{len(as_expected)} differences, as expected (tests/hooked/expected.toml)"]
    details += [f"FAILS with the hook, and is not expected to: {method}" for method in surprising]
    details += [f"PASSES, and is expected to fail: {method}" for method, _ in mended]
    if not first.regrtest.finished:
        counts.failed += 1
        details.append(f"the run did not get to its end: exit code {first.regrtest.step.exit_code}")
    return first.regrtest.step.report(counts, details)


def main():
    parser = argparse.ArgumentParser(description="Runs CPython's own tests with a frame hook in every process.")
    parser.add_argument("--python", type=runner.existing_program, required=True, help="the Ferrule to test")
    parser.add_argument("--stock", type=runner.existing_program, required=True, help="a stock build of the same tree")
    parser.add_argument("--hook", choices=HOOKS, action="append", dest="hooks", help="may be given again",
                        required=True)
    parser.add_argument("--jobs", type=int, default=2, help="processes (default %(default)s)")
    parser.add_argument("--frames", action="store_true", help="the tests of what a frame takes part in alone")
    parser.add_argument("tests", nargs="*", help="test files (default: all)")
    options = parser.parse_args()
    if options.frames:
        options.tests += runner.CPYTHON_TESTS
    heed_interrupts()
    total = runner.Counts()
    for options.hook in options.hooks:
        total += run_suite(options)
    runner.say(str(total))
    return 0 if total.passed and not total.failed else 1


if __name__ == "__main__":
    sys.exit(main())
