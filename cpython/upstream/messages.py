"""Messages to the user: notes, a line of progress, and what stops the run."""

import sys
import time


class FetchError(Exception):
    """What stops the run; the text says what to do."""

    code = 1


class Unreachable(FetchError):
    """An origin has nothing for us; the next one is tried."""

    code = 3


def note(text):
    print(text, file=sys.stderr, flush=True)


class Progress:
    """A line that counts up, on a terminal."""

    def __init__(self, label):
        self.label = label
        self.shown = sys.stderr.isatty()
        self.last = 0.0

    def __call__(self, done, total):
        now = time.monotonic()
        if self.shown and now - self.last > 0.1:
            self.last = now
            part = f"{100 * done // total:3}%" if total else str(done)
            print(f"\r{self.label} {part}\x1b[K", end="", file=sys.stderr, flush=True)

    def end(self):
        if self.shown and self.last:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)
