"""Runs a command: for its output, or with a log of it."""

import subprocess
from pathlib import Path
from typing import Any

from tools import progress
from tools.errors import BuildError, cause


def logged(command: list[str], failure: str, *, label: str, log: Path, **options: Any) -> None:
    """Runs a long command with its output in `log`. BuildError, which begins with `failure`, if it fails."""
    if progress.run(command, label=label, log=log, **options) != 0:
        raise BuildError(f"{failure}: {cause(log.read_text(errors='replace'))}\n  the whole log is {log}")


def said(command: list[str]) -> str:
    try:
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout
    except FileNotFoundError:
        raise BuildError(f"{command[0]} is not on PATH: run `make deps`") from None
    except subprocess.CalledProcessError as error:
        raise BuildError(f"{command[0]} does not run: {cause(error.stderr) or f'exit status {error.returncode}'}") from None
