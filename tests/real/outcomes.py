"""What came of one run of a program's tests, read from what its runner left: JUnit XML, or what it printed."""

import re
import xml.etree.ElementTree as ElementTree
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

PASSED, FAILED, SKIPPED = "passed", "failed", "skipped"
# Of two results of one name (a test's setup and its call) the worse one counts.
WORSE = {SKIPPED: 0, PASSED: 1, FAILED: 2}
ADDRESS = re.compile(r"0x[0-9a-fA-F]{6,}")


@dataclass
class Outcome:
    """`results` has a test's name; runners that print text name only what failed, and count the rest."""
    results: dict[str, str] = field(default_factory=dict)
    unnamed: Counter = field(default_factory=Counter)

    def add(self, name: str, result: str) -> None:
        name = ADDRESS.sub("0x...", name)
        if name not in self.results or WORSE[result] > WORSE[self.results[name]]:
            self.results[name] = result

    def having(self, result: str) -> set[str]:
        return {name for name, found in self.results.items() if found == result}

    def count(self, result: str) -> int:
        return len(self.having(result)) + self.unnamed[result]

    @property
    def total(self) -> int:
        return len(self.results) + self.unnamed.total()

    def __str__(self) -> str:
        return ", ".join(f"{self.count(result)} {result}" for result in (PASSED, FAILED, SKIPPED))


def junit(directory: Path, output: str) -> Outcome:
    """All XML files that the runner has left. pytest and Cython write them."""
    outcome = Outcome()
    for path in sorted(directory.rglob("*.xml")):
        for case in ElementTree.parse(path).iter("testcase"):
            kinds = {child.tag for child in case}
            result = FAILED if kinds & {"failure", "error"} else SKIPPED if "skipped" in kinds else PASSED
            outcome.add(f"{case.get('classname')}::{case.get('name')}", result)
    return outcome


HEADLINE = re.compile(r"^(?:FAIL|ERROR|UNEXPECTED SUCCESS): (.+)$", re.M)
RAN = re.compile(r"^Ran (\d+) tests? in ", re.M)
NUMBERS = re.compile(r"(?<!expected )\b(failures|errors|skipped|unexpected successes)=(\d+)")


def unittest(directory: Path, output: str) -> Outcome:
    """What unittest prints: headlines of what failed, and counts."""
    outcome = Outcome()
    for headline in HEADLINE.findall(output):
        outcome.add(headline.strip(), FAILED)
    for ran in RAN.finditer(output):
        numbers = Counter()
        # The line after "Ran": OK or FAILED, followed by numbers.
        status = re.compile(r"^(?:OK|FAILED)\b.*$", re.M).search(output, ran.end())
        for kind, number in NUMBERS.findall(status[0] if status else ""):
            numbers[SKIPPED if kind == "skipped" else FAILED] += int(number)
        outcome.unnamed[SKIPPED] += numbers[SKIPPED]
        outcome.unnamed[PASSED] += max(0, int(ran[1]) - numbers.total())
    return outcome


COLOUR = re.compile(r"\x1b\[[\d;]*m")
GEVENT_TOTAL = re.compile(r"^Ran (\d+) tests *(?:\((.*)\))? in \d+ files", re.M)
GEVENT_FAILED = re.compile(r"^! \S+ .*$", re.M)


def gevent(directory: Path, output: str) -> Outcome:
    """gevent's own runner: several processes, of which it shows what those print that failed, and the counts of all."""
    outcome, output = Outcome(), COLOUR.sub("", output)
    for headline in re.findall(HEADLINE.pattern.replace("^", r"^\s*", 1), output, re.M):
        outcome.add(headline.strip(), FAILED)
    for process in GEVENT_FAILED.findall(output):
        # One that crashes has no headline. A file that was run as a program calls itself __main__.
        modules = re.findall(r"gevent\.tests\.\w+", process)
        if not any(module in name for module in (*modules, "__main__") for name in outcome.results):
            outcome.add(" ".join(modules) or process, FAILED)
    if total := GEVENT_TOTAL.search(output):
        skipped = sum(int(number) for kind, number in NUMBERS.findall(total[2] or "") if kind == "skipped")
        outcome.unnamed[SKIPPED] += skipped
        outcome.unnamed[PASSED] += max(0, int(total[1]) - skipped - outcome.count(FAILED))
    return outcome


LINE = re.compile(r"^(ok|FAILED|skipped) +(.+?)(?:: .*)?$", re.M)


def lines(directory: Path, output: str) -> Outcome:
    """Programs of ours, below live/: a line for each thing that was looked at."""
    outcome = Outcome()
    for word, name in LINE.findall(output):
        outcome.add(name, {"ok": PASSED, "FAILED": FAILED, "skipped": SKIPPED}[word])
    return outcome


READERS = {function.__name__: function for function in (junit, unittest, gevent, lines)}


def read(runner: str, directory: Path, output: str, status: int | None) -> Outcome:
    """With what the exit status says on top: a run that crashed, was ended, or ran nothing has failed as a whole."""
    outcome = READERS[runner](directory, output)
    if status is None:
        outcome.add("the run: ended by the time limit", FAILED)
    elif status < 0 or status > 128:
        outcome.add(f"the run: ended by signal {-status if status < 0 else status - 128}", FAILED)
    elif status != 0 and not outcome.count(FAILED):
        outcome.add(f"the run: exit status {status}", FAILED)
    elif not outcome.count(PASSED):
        outcome.add("the run: no test passed", FAILED)
    return outcome


def difference(stock: Outcome, other: Outcome) -> set[str]:
    """Tests that fail on the other and not on stock, are left out there alone, or are not there at all."""
    worse = other.having(FAILED) - stock.having(FAILED)
    worse |= {name for name in other.having(SKIPPED) if stock.results.get(name) == PASSED}
    if other.total != stock.total:
        missing = stock.results.keys() - other.results.keys() if not stock.unnamed else set()
        worse |= missing or {f"the run: {other.total} tests, {stock.total} on stock"}
    return worse
