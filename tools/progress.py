"""Run a long command: its output goes to a log, a sign of life to the screen; with V=1 all of it."""

import os
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

SECONDS_BETWEEN_LINES = 30


def run(command: list[str], *, label: str, log: Path, **options: Any) -> int:
    """Runs `command` and returns its exit status.

    On a terminal one line is rewritten; elsewhere a line appears every half
    minute, so that a log of logs stays short.
    """
    log.parent.mkdir(parents=True, exist_ok=True)
    started = time.monotonic()
    on_terminal = sys.stderr.isatty()
    verbose = os.environ.get("V", "0") not in ("", "0")
    say(f"{label} ... (log: {log})")
    if verbose:
        say(shlex.join(map(str, command)))
    count = 0
    last_shown = started
    with log.open("wb") as out, subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, **options
    ) as process:
        for line in process.stdout or ():
            out.write(line)
            out.flush()
            count += 1
            now = time.monotonic()
            if verbose:
                say(line.decode(errors="replace").rstrip("\n"))
            elif now - last_shown >= (0.2 if on_terminal else SECONDS_BETWEEN_LINES):
                last_shown = now
                show(f"  {label}: {clock(now - started)}, {count} lines", on_terminal)
    status = process.returncode
    took = clock(time.monotonic() - started)
    if on_terminal:
        sys.stderr.write("\r\033[K")
    say(f"{label}: done in {took}" if status == 0 else f"{label}: FAILED after {took}")
    return status


def heed_interrupts() -> None:
    """As in the foreground: CPython's tests inherit it."""
    if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
        # A shell starts what runs in the background like this, and children inherit it: tests of CPython that
        # interrupt themselves would fail, or wait for ever. The profile of a pgo build is made of such tests.
        signal.signal(signal.SIGINT, signal.default_int_handler)


def clock(seconds: float) -> str:
    return f"{int(seconds) // 60}:{int(seconds) % 60:02d}"


def show(text: str, on_terminal: bool) -> None:
    if on_terminal:
        sys.stderr.write(f"\r\033[K{text}")
        sys.stderr.flush()
    else:
        say(text)


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
