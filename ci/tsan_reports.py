#!/usr/bin/env python3
"""Sort out what ThreadSanitizer has reported: CPython's own races, which lists name, and all the rest.

    ci/tsan_reports.py --known LIST --known LIST REPORT...

ThreadSanitizer can leave out reports by itself, but it takes a name for any function that contains it, and looks at
either of the two accesses: where a function of Rust meets one of the list, it would say nothing. Here both must be
C. Prints what is left, short. Exit code: 1 if anything is.
"""

import argparse
import collections
import re
import sys
from collections.abc import Iterator
from pathlib import Path

ACCESS = re.compile(r"  (?:Previous )?(?:atomic )?(?:read|write) of size", re.IGNORECASE)
FRAME = re.compile(r"    #\d+ (?P<function>.+) (?P<file>\S+)$")        # as ci/tsan-hooks wants them written
SHOWN_FRAMES = 4
Stack = list[tuple[str, str]]


def stacks_of(report: str) -> Iterator[Stack]:
    """The two accesses of a report, each as a list of (function, file), innermost first."""
    for paragraph in report.split("\n\n"):
        lines = paragraph.splitlines()
        start = next((number for number, line in enumerate(lines) if ACCESS.match(line)), None)
        if start is not None:
            found = map(FRAME.match, lines[start + 1:])
            yield [(frame["function"], frame["file"]) for frame in found if frame]


def place_of(stack: Stack) -> tuple[str, str]:
    """Where an access is: not in the C library nor in Rust's, but in the function that uses them."""
    return next(((function, file) for function, file in stack if file != "<null>" and not file.startswith("/rustc/")),
                ("?", "?"))


def is_known(report: str, known: set[str]) -> bool:
    places = [place_of(stack) for stack in stacks_of(report)]
    return (report.startswith("data race") and len(places) == 2
            and all(file != "?" and "rust-core/" not in file for _, file in places)
            and any(function in known for function, _ in places))


def shortened(report: str) -> str:
    """A report without addresses and numbers of threads, so that equal ones are equal."""
    lines = [re.sub(r" \(.*", "", report.splitlines()[0])]
    for stack in stacks_of(report):
        lines.append("  one access")
        for function, file in stack[:SHOWN_FRAMES]:
            lines.append(f"    {function}  {re.sub('^/rustc/[0-9a-f]+/', '', file)}")
    return "\n".join(lines)


def main() -> bool:
    parser = argparse.ArgumentParser(description="Print what ThreadSanitizer reported and CPython is not known for.")
    parser.add_argument("--known", type=Path, action="append", default=[], help="a list of suppressions for races")
    parser.add_argument("reports", type=Path, nargs="*", metavar="REPORT", help="a log of ThreadSanitizer's")
    options = parser.parse_args()
    known = {line.partition(":")[2] for file in options.known for line in file.read_text().splitlines()
             if line.startswith("race")}
    reports = [report for file in options.reports
               for report in file.read_text(errors="replace").split("WARNING: ThreadSanitizer: ")[1:]]
    others = [report for report in reports if not is_known(report, known)]
    for text, count in collections.Counter(map(shortened, others)).most_common():
        print(f"{count} times: {text}")
    print(f"{len(reports)} reports, {len(others)} of them not of races that CPython is known for")
    return bool(others)


if __name__ == "__main__":
    sys.exit(main())
