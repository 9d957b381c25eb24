"""For scripts of CI that make several checks: what each one was, its outcome, and the counts over all at the end."""

import os
import subprocess
from pathlib import Path

from tests.steps import Counts
from tools.places import ROOT

counts = Counts()


def execute(*words: str | Path, cwd: Path = ROOT, **environment: str) -> subprocess.CompletedProcess[str]:
    """A command and what it has printed, both shown. `environment` is added to the process's own."""
    print("$", *words, flush=True)
    done = subprocess.run(list(map(str, words)), cwd=cwd, env={**os.environ, **environment}, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    print(done.stdout, flush=True)
    return done


def run(*words: str | Path, cwd: Path = ROOT, **environment: str) -> bool:
    """Executes a command; whether it succeeded."""
    return execute(*words, cwd=cwd, **environment).returncode == 0


def check(good: bool, what: str) -> bool:
    counts.passed += good
    counts.failed += not good
    print(f"{'ok' if good else 'FAILED'}: {what}", flush=True)
    return good


def total() -> int:
    """Prints the counts. Returns the exit status."""
    print(counts)
    return 1 if counts.failed or not counts.passed else 0
