# needs: python3-numpy python3-pytest python3-hypothesis
# seconds: 3600
"""NumPy's own tests, the fast ones without those of its Fortran compiler: how many pass, and which do not."""

import os
import sys

import numpy
import pytest


class Outcomes:
    def __init__(self):
        self.counts = {}
        self.failed = []

    def pytest_runtest_logreport(self, report):
        if report.when == "call" or report.outcome != "passed":
            self.counts[report.outcome] = self.counts.get(report.outcome, 0) + 1
            if report.failed:
                self.failed.append(report.nodeid)

    def pytest_collectreport(self, report):
        if report.failed:
            self.failed.append(report.nodeid)


def main():
    outcomes = Outcomes()
    stdout = os.dup(1)
    # pytest prints times, which differ.
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    pytest.main(["-q", "-p", "no:cacheprovider", "-m", "not slow", "--ignore-glob=*/f2py/*", "-W", "ignore", "--rootdir=/tmp",
                 "--pyargs", "numpy"], plugins=[outcomes])
    sys.stdout.flush()
    os.dup2(stdout, 1)
    print(numpy.__version__, sorted(outcomes.counts.items()))
    print("failed:", *sorted(outcomes.failed), sep="\n")
    return 0 if sum(outcomes.counts.values()) > 10_000 else 1


if __name__ == "__main__":
    sys.exit(main())
