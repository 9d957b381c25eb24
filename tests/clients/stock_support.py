"""Runs tests of Ferrule under a stock CPython, where some have another outcome, each of which is listed."""

import json
import os
import subprocess
import tempfile
import tomllib

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
STOCK = os.environ.get("STOCK_PYTHON")
PASSED, _, FAILED = range(3)    # tests/run.py


def check_listing(case, listing, directory, modules, **variables):
    """These modules of tests pass on stock, but for the tests of the listing, which fail."""
    with open(os.path.join(HERE, listing), "rb") as file:
        listed = {test for difference in tomllib.load(file).values() for test in difference["tests"]}
    with tempfile.TemporaryDirectory() as made:
        report = os.path.join(made, "outcomes.json")
        done = subprocess.run([STOCK, os.path.join(ROOT, "tests", "run.py"), "--unittest", report, directory, *modules],
                              capture_output=True, text=True, timeout=300, cwd=ROOT,
                              env={**os.environ, "FERRULE_TESTS_ON_STOCK": "", "STOCK_PYTHON": "", **variables})
        case.assertTrue(os.path.exists(report), f"exit code {done.returncode}\n{done.stderr[-4000:]}")
        with open(report, encoding="utf-8") as file:
            outcomes = json.load(file)
    failed = {test for test, outcome in outcomes.items() if outcome == FAILED}
    passed = {test for test, outcome in outcomes.items() if outcome == PASSED}
    case.assertEqual(failed - listed, set(), f"these fail, and are not in {listing}\n{done.stderr[-12_000:]}")
    case.assertEqual(listed - failed, set(), f"these are in {listing}, and pass, or are there no more")
    case.assertGreater(len(passed), 2 * len(listed))
