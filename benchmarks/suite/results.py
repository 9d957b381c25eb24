"""What was measured: a journal that is written as results come, and pyperf's own JSON made from it.

The journal has one JSON document a line. Each line is on the disk before the next process starts, so an interrupted run
loses the process that was running and nothing else.
"""

import json
import os
import statistics
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyperf

JOURNAL = "journal.jsonl"
FACTS = "run.json"
Sample = dict[str, Any]     # as `sample` makes it


class Journal:
    """Appends to a run's directory, and knows what is there."""

    def __init__(self, directory: str | Path) -> None:
        self.path = Path(directory) / JOURNAL
        self.entries: list[dict[str, Any]] = []
        if self.path.exists():
            text = self.path.read_bytes()
            whole = text[:text.rfind(b"\n") + 1]    # the last line may have been cut off
            self.entries = [json.loads(line) for line in whole.splitlines()]
            if len(whole) != len(text):
                os.truncate(self.path, len(whole))
        self.done = set(map(self.key, self.entries))
        self.file = open(self.path, "a", encoding="utf-8")

    @staticmethod
    def key(entry: Mapping[str, Any]) -> tuple[str, str | None, int | None]:
        return entry["task"], entry.get("python"), entry.get("round")

    def add(self, **entry: Any) -> None:
        self.entries.append(entry)
        self.done.add(self.key(entry))
        self.file.write(json.dumps(entry) + "\n")
        self.file.flush()
        os.fsync(self.file.fileno())

    def close(self) -> None:
        self.file.close()

    @property
    def seconds(self) -> float:
        """What the measuring took so far, in all its parts."""
        return sum(entry["seconds"] for entry in self.entries)

    def has(self, task: str, python: str, round: int) -> bool:
        return (task, python, round) in self.done

    def failures(self) -> dict[str, str]:
        """{task: what it said} of what failed under some interpreter."""
        return {entry["task"]: f"{entry['python']}: {entry['failed']}"
                for entry in self.entries if "failed" in entry}


def sample(name: str, values: Iterable[float], unit: str = "second", loops: int = 1, warmups: Iterable[Any] = (), **metadata: Any) -> Sample:
    """What one process says about one benchmark, as the journal has it. Values are for one loop."""
    return {"name": name, "values": list(values), "unit": unit, "loops": loops, "warmups": list(warmups), **metadata}


def as_run(found: Sample, entry: Mapping[str, Any], common: Mapping[str, Any]) -> pyperf.Run:
    known = {"name", "values", "unit", "loops", "warmups"}
    metadata = {**common, "name": found["name"], "unit": found["unit"], "loops": found["loops"], "date": entry["date"],
                "round": entry["round"], **{key: value for key, value in found.items() if key not in known}}
    return pyperf.Run(found["values"], warmups=[tuple(pair) for pair in found["warmups"]] or None, metadata=metadata,
                      collect_metadata=False)


def write_suites(directory: str | Path, entries: Iterable[Mapping[str, Any]], metadata: Mapping[str, Mapping[str, Any]]) -> dict[str, Path]:
    """One file in pyperf's format for each interpreter: {name: its path}. `metadata` has what holds for all its runs."""
    runs: dict[str, dict[str, list[pyperf.Run]]] = {python: {} for python in metadata}
    for entry in entries:
        for found in entry.get("samples", ()):
            runs[entry["python"]].setdefault(found["name"], []).append(as_run(found, entry, metadata[entry["python"]]))
    paths = {}
    for python, benchmarks in runs.items():
        if benchmarks:
            suite = pyperf.BenchmarkSuite([pyperf.Benchmark(found) for found in benchmarks.values()])
            paths[python] = Path(directory) / f"{python}.json"
            unfinished = paths[python].with_suffix(".unfinished")
            suite.dump(str(unfinished), replace=True)
            unfinished.replace(paths[python])
    return paths


class Results:
    """A run, read from its files: pyperf's JSON of each interpreter, and the facts of the run."""

    def __init__(self, directory: str | Path) -> None:
        self.directory = Path(directory)
        self.facts = json.loads((self.directory / FACTS).read_text(encoding="utf-8"))
        self.suites: dict[str, dict[str, pyperf.Benchmark]] = {}
        for python in {**self.facts["pythons"], **self.facts["free_threaded"]}:
            path = self.directory / f"{python}.json"
            if path.exists():
                suite = pyperf.BenchmarkSuite.load(str(path))
                self.suites[python] = {benchmark.get_name(): benchmark for benchmark in suite}

    def names(self, python: str, prefix: str = "") -> list[str]:
        return [name for name in self.suites.get(python, ()) if name.startswith(prefix)]

    def unit(self, python: str, name: str) -> str:
        return self.suites[python][name].get_unit()

    def processes(self, python: str, name: str) -> Sequence[pyperf.Run]:
        """pyperf's run of each process; empty where there is no such benchmark."""
        benchmark = self.suites.get(python, {}).get(name)
        return benchmark.get_runs() if benchmark is not None else ()

    def runs(self, python: str, name: str) -> dict[int, Sequence[float]]:
        """{round: values of its process}"""
        return {run.get_metadata()["round"]: run.values for run in self.processes(python, name)}

    def figures(self, python: str, name: str) -> dict[int, float]:
        """{round: the figure of its process}"""
        return {run.get_metadata()["round"]: figure(run) for run in self.processes(python, name)}


def figure(run: pyperf.Run) -> float:
    """The fastest or smallest value of a process, as what else runs only adds time. Of one that was measured together with
    the others, the mean: what else ran met all of them, and each value of one lies beside the same value of the others.
    """
    return statistics.fmean(run.values) if run.get_metadata().get("clock") == "cpu" else min(run.values)
