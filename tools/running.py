"""Runs a command and returns its output."""

import subprocess

from tools.errors import BuildError, cause


def said(command: list[str]) -> str:
    try:
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout
    except FileNotFoundError:
        raise BuildError(f"{command[0]} is not on PATH: run `make deps`") from None
    except subprocess.CalledProcessError as error:
        raise BuildError(f"{command[0]} does not run: {cause(error.stderr) or f'exit status {error.returncode}'}") from None
