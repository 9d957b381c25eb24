"""Runs one module of torch's own tests in this process, and appends what became of each test to a file.

    python run_torch_tests.py way directory module outcomes.jsonl [test...]

`directory` has the package `dynamo`, torch's test/dynamo. Tests that the file names already are not run again: where one ended the process, the next
process continues behind it.
"""

import faulthandler
import importlib
import json
import os
import re
import sys
import unittest

# Seconds after which a test ends the process.
LIMIT = 300
# What differs from process to process in the message of an error.
ADDRESS = re.compile(r"0x[0-9a-f]+|\b\d{9,}\b|/tmp/\S+")


class Outcomes(unittest.TestResult):
    """Writes a line when a test starts, and one with its outcome when it ends."""

    def __init__(self, file):
        super().__init__()
        self.file, self.outcome = file, None

    def write(self, **line):
        print(json.dumps(line), file=self.file, flush=True)

    def startTest(self, test):
        super().startTest(test)
        self.outcome = "passed"
        self.write(started=test.id())
        faulthandler.dump_traceback_later(LIMIT, exit=True)

    def stopTest(self, test):
        super().stopTest(test)
        faulthandler.cancel_dump_traceback_later()
        self.write(test=test.id(), outcome=self.outcome)
        self.outcome = None

    def note(self, test, outcome):
        if self.outcome is None:
            # A fixture of a class or of the module.
            self.write(test=test.id(), outcome=outcome)
        else:
            self.outcome = outcome

    def failed(self, test, error):
        text = ADDRESS.sub("ADDRESS", str(error[1])).strip()
        print(f"{test.id()}: {error[0].__name__}: {text}", flush=True)
        self.note(test, f"{error[0].__name__}: {text.partition(chr(10))[0][:200]}")

    addError = addFailure = failed

    def addSubTest(self, test, subtest, error):
        if error is not None:
            self.failed(test, error)

    def addSkip(self, test, reason):
        self.note(test, "skipped")

    def addExpectedFailure(self, test, error):
        self.note(test, "expected failure")

    def addUnexpectedSuccess(self, test):
        self.note(test, "unexpected success")


class Gone:
    """What stands for a name that this torch has no more and that tests of another version import: false, and as a decorator without effect."""

    def __bool__(self):
        return False

    def __call__(self, *arguments, **keywords):
        return arguments[0] if arguments and callable(arguments[0]) else self


def imported(name):
    """A module of the tests."""
    while True:
        try:
            return importlib.import_module(f"dynamo.{name}")
        except ImportError as error:
            if error.name_from is None or not error.name.startswith("torch") or hasattr(sys.modules[error.name], error.name_from):
                raise
            setattr(sys.modules[error.name], error.name_from, Gone())


def tests_of(suite):
    """The tests of a suite, in order."""
    for test in suite:
        if isinstance(test, unittest.TestSuite):
            yield from tests_of(test)
        else:
            yield test


def main():
    way, directory, name, out, *chosen = sys.argv[1:]
    import ferrule_dynamo

    # Which installs the hook if the environment says so, in processes that a test starts too.
    importlib.import_module("torch._dynamo")
    if ferrule_dynamo.installed() != (way == "hooks"):
        sys.exit(f"the hook is {'not ' * (way == 'hooks')}installed")
    sys.path.insert(0, directory)
    sys.argv[1:] = []
    os.chdir(directory)
    with open(out, "a+") as file:
        file.seek(0)
        begun = {line["started"] for line in map(json.loads, file) if "started" in line}
        outcomes = Outcomes(file)
        try:
            module = imported(name)
        except Exception as error:
            outcomes.write(test=name, outcome=f"not imported: {type(error).__name__}: {error}".partition("\n")[0])
        else:
            tests = tests_of(unittest.defaultTestLoader.loadTestsFromModule(module))
            unittest.TestSuite(test for test in tests if test.id() not in begun and (not chosen or test.id() in chosen)).run(outcomes)
        # Not another way than it began.
        outcomes.write(end=ferrule_dynamo.installed() == (way == "hooks"))


if __name__ == "__main__":
    main()
