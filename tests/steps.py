"""One command of the tests' runner: its log, signs of life while it runs, and what is said of it."""

import os
import queue
import re
import shlex
import shutil
import subprocess
import sys
import threading
import time

from tools.progress import clock

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
LOGS = os.path.join(ROOT, "build", "logs")

PROGRESS_SECONDS = 20       # between two lines about a long step, where there is no terminal
SILENCE_SECONDS = 1800      # a step that prints nothing for so long hangs
TAIL_LINES = 40             # of the log, printed when a step fails


class Counts:
    def __init__(self, passed=0, failed=0, skipped=0):
        self.passed, self.failed, self.skipped = passed, failed, skipped

    def __add__(self, other):
        return Counts(self.passed + other.passed, self.failed + other.failed, self.skipped + other.skipped)

    def __str__(self):
        return f"{self.passed} passed, {self.failed} failed, {self.skipped} skipped"

    @classmethod
    def of_summary(cls, output, exit_code):
        """What a program of tests has printed last: `N passed, N failed, N skipped`. One that ended otherwise, or with an error, has failed."""
        *_, found = [None, *re.finditer(r"^(\d+) passed, (\d+) failed, (\d+) skipped$", output, re.MULTILINE)]
        counts = cls(*map(int, found.groups())) if found else cls(failed=1)
        counts.failed = counts.failed or int(exit_code != 0)
        return counts

    @classmethod
    def of_unittest(cls, output, exit_code):
        """What a run of unittest has printed. One that crashed has failed, also after its last test."""
        # The last one: a test may print what another unittest says.
        *_, ran = [None, *re.finditer(r"^Ran (\d+) tests? in ", output, re.MULTILINE)]
        if not ran:
            return cls(failed=1)
        # What was expected to fail has passed.
        numbers = re.findall(r"(?<!expected )\b(failures|errors|skipped|unexpected successes)=(\d+)", output[ran.end():])
        numbers = {kind: int(number) for kind, number in numbers}
        skipped = numbers.pop("skipped", 0)
        wrong = sum(numbers.values())
        failed = wrong or int(exit_code != 0)
        return cls(max(0, int(ran[1]) - wrong - skipped), failed, skipped)


# Steps run beside each other: what one says of itself stays together.
screen = threading.RLock()
# The name of each step that runs now, and what is shown of it on a terminal.
running = {}


def say(text):
    with screen:
        clear_status()
        print(text, flush=True)


def clear_status():
    if sys.stdout.isatty():
        sys.stdout.write("\r\x1b[K")


def show_status(name, text):
    """What is shown of a step that runs: all of them share one line of a terminal. With '' it has ended."""
    with screen:
        if text:
            running[name] = text
        else:
            running.pop(name, None)
        clear_status()
        width = shutil.get_terminal_size().columns // max(len(running), 1) - 2
        sys.stdout.write("".join(f"  {text[:width - 2]:{width - 2}}" for text in running.values()).rstrip())
        sys.stdout.flush()


class Step:
    """One command with a log of its own, and signs of life while it runs."""

    def __init__(self, name, command, directory=ROOT, environment=None, interesting=None):
        self.name = name
        self.command = command
        self.directory = directory
        self.environment = {**os.environ, **(environment or {})}
        # A function from a line of output to what to say about progress, or None.
        self.interesting = interesting or (lambda line: line.strip()[:90] or None)
        self.log = os.path.join(LOGS, f"test-{name}.log")
        self.exit_code = None
        self.lines = []

    def run(self):
        os.makedirs(LOGS, exist_ok=True)
        started = time.monotonic()
        terminal = sys.stdout.isatty()
        with open(self.log, "w", encoding="utf-8") as log:
            log.write(f"$ {shlex.join(self.command)}\n")
            try:
                process = subprocess.Popen(self.command, cwd=self.directory, env=self.environment,
                                           stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                           stderr=subprocess.STDOUT, text=True, errors="replace")
            except OSError as error:
                self.lines = [f"cannot be started: {error}\n"]
                log.writelines(self.lines)
                self.exit_code = 127
                return self
            arriving = queue.Queue()
            threading.Thread(target=self.read, args=(process.stdout, arriving), daemon=True).start()
            latest, reported, heard = "", started, started
            while True:
                try:
                    line = arriving.get(timeout=1)
                except queue.Empty:
                    line = ""
                if line is None:
                    break
                now = time.monotonic()
                if line:
                    heard = now
                    self.lines.append(line)
                    log.write(line)
                    log.flush()
                    latest = self.interesting(line) or latest
                elif now - heard > SILENCE_SECONDS:
                    process.kill()
                    self.lines.append(f"killed after {SILENCE_SECONDS} s without output\n")
                    log.write(self.lines[-1])
                if terminal and now - reported >= 0.2:
                    reported = now
                    show_status(self.name, f"{self.name}  {clock(now - started)}  {latest}")
                elif not terminal and now - reported >= PROGRESS_SECONDS:
                    reported = now
                    say(f"  {self.name}  {clock(now - started)}  {latest}")
            self.exit_code = process.wait()
        if terminal:
            show_status(self.name, "")
        self.seconds = time.monotonic() - started
        return self

    @staticmethod
    def read(stream, arriving):
        for line in stream:
            arriving.put(line)
        arriving.put(None)

    @property
    def output(self):
        return "".join(self.lines)

    def report(self, counts, details=()):
        """One line about the step, and the end of its log when something failed."""
        took = clock(getattr(self, "seconds", 0))
        with screen:
            say(f"{'FAIL' if counts.failed else 'ok  '}  {self.name}: {counts} ({took})")
            for detail in details:
                say(f"      {detail}")
            if counts.failed:
                say(f"      the end of {os.path.relpath(self.log, ROOT)}:")
                for line in self.lines[-TAIL_LINES:]:
                    say("      | " + line.rstrip())
        return counts
