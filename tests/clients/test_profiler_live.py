"""--live: what a process does now, in a terminal."""

import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import termios
import time
import types
from unicodedata import normalize

from profiler_support import OUT, ProfilerTestCase, load, times_from_a_timer
from tests.remote_debugging import needs_remote

ENTER, LEAVE = "\x1b[?1049h\x1b[?25l", "\x1b[?25h\x1b[?1049l"
HOME = "\x1b[H"

setUpModule = load


def work(n):
    return n


class View(ProfilerTestCase):
    """What is written for a result."""

    def live(self, columns=200, lines=50, sort="own", limit=40):
        from ferrule_profiler._live import Live
        self.outside, self.terminal = pty.openpty()
        self.addCleanup(os.close, self.outside)
        self.addCleanup(os.close, self.terminal)
        fcntl.ioctl(self.terminal, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))
        return Live(types.SimpleNamespace(sort=sort, limit=limit), self.terminal)

    def written(self):
        text = b""
        while select.select([self.outside], [], [], 0.2)[0]:
            text += os.read(self.outside, 1 << 16)
        return text.decode().replace("\r\n", "\n")

    def names(self, screen):
        return re.findall(r"  (\S+)  \S+\.py:\d+", screen)

    def test_it_shows_what_is_new(self):
        live = self.live(sort="calls")
        with live, self.profiler.profile() as profile:
            work(1)
            live.show(profile.result)
            for _ in range(5):
                view_only(1)
            live.show(profile.result)
        first, second = self.written().split(HOME)[1:]
        self.assertIn("work", self.names(first))
        self.assertNotIn("view_only", self.names(first))
        self.assertEqual(self.names(second)[0], "view_only")
        self.assertNotIn("work", self.names(second))

    def test_the_terminal_is_given_back(self):
        live = self.live()
        with self.assertRaises(KeyError), live:
            with self.profiler.profile() as profile:
                work(1)
            live.show(profile.result)
            live.show(profile.result)
            raise KeyError
        text = self.written()
        self.assertEqual((text.count(ENTER), text.count(LEAVE)), (1, 1))
        self.assertTrue(text.startswith(ENTER) and text.endswith(LEAVE))
        with self.live():
            pass
        self.assertEqual(self.written(), "")        # nothing was shown

    def test_it_fits(self):
        module = {}
        names = ["wide_" + "\u6f22" * 60, "narrow_" + "e\u0301" * 60, *(f"f{n}" for n in range(100))]
        exec("".join(f"def {name}(): return sum(range(1000))\n" for name in names), module)
        with self.profiler.profile() as profile:
            for name in names:
                module[normalize("NFKC", name)]()
        for columns, lines in ((40, 10), (100, 30), (1, 2), (0, 0)):
            live = self.live(columns, lines)
            with live:
                live.show(profile.result)
            shown = self.written().removeprefix(ENTER + HOME).partition("\x1b[J")[0]
            rows = shown.split("\x1b[K\n")
            self.assertLessEqual(len(rows), lines or 24)
            for row in rows:
                wide = len(re.findall("\u6f22", row))
                self.assertLessEqual(len(row) + wide - row.count("\u0301"), columns or 80)

    def test_control_characters(self):
        code = compile("def f(): pass\nf()", "a\x1b[31m\n.py", "exec")
        live = self.live()
        with live:
            with self.profiler.profile() as profile:
                profile.program = ["\x1b]0;x\x07", "\n"]
                exec(code, {})
            live.show(profile.result)
        text = self.written()
        self.assertIn("a\\x1b[31m\\n.py", text)
        self.assertNotIn("\x1b[31m", text)
        self.assertNotIn("\x1b]", text)

    def test_orders_counts_and_limits(self):
        for sort in ("own", "total", "calls", "name"):
            for options in ({}, {"count": True}):
                live = self.live(sort=sort, limit=1)
                with live, self.profiler.profile(**options) as profile:
                    work(1), view_only(1), work(1)
                    live.show(profile.result)
                names = self.names(self.written())
                self.assertEqual(len(names), 1)

    def test_a_terminal_that_is_gone(self):
        live = self.live()
        with open(os.devnull) as file, live, self.profiler.profile() as profile:
            work(1)
            os.dup2(file.fileno(), self.terminal)       # it cannot be written
            live.show(profile.result)
        self.assertTrue(live.gone)


def view_only(n):
    return n


PROGRAM = """import signal, sys, time
def work(n):
    return sum(range(n))
print(flush=True)
end = time.monotonic() + 120
while time.monotonic() < end:
    work(1000)
    time.sleep(0.001)
"""


@needs_remote
class Attached(ProfilerTestCase):
    def setUp(self):
        super().setUp()
        self.made = self.directory()
        script = os.path.join(self.made, "program.py")
        with open(script, "w") as file:
            file.write(PROGRAM)
        self.process = self.enterContext(subprocess.Popen([sys.executable, script], stdout=subprocess.PIPE))
        self.addCleanup(self.process.kill)
        self.process.stdout.readline()

    def start(self, *options):
        self.outside, terminal = pty.openpty()
        fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 120, 0, 0))
        self.profiler = self.enterContext(subprocess.Popen(
            [sys.executable, "-m", "ferrule_profiler", "--live", "--pid", str(self.process.pid), *options], stdout=terminal, stderr=terminal,
            cwd=self.made, env={**os.environ, "PYTHONPATH": OUT}, start_new_session=True))
        self.addCleanup(self.profiler.kill)
        os.close(terminal)
        self.text = ""

    def read(self, until=None, screens=0):
        """Read until a text, or so many screens, have come; or to the end."""
        end = time.monotonic() + 60
        while time.monotonic() < end:
            if until is not None and until in self.text or 0 < screens <= self.text.count(HOME):
                return
            if not select.select([self.outside], [], [], 1)[0]:
                continue
            try:
                data = os.read(self.outside, 1 << 16)
            except OSError:
                data = b""
            if not data:
                os.close(self.outside)
                return
            self.text += data.decode("utf-8", "replace")
        self.fail(f"nothing more comes:\n{self.text}")

    def end(self, status=0):
        self.read()
        self.assertEqual(self.profiler.wait(60), status, self.text)
        self.assertEqual((self.text.count(ENTER), self.text.count(LEAVE)), (1, 1), self.text)
        return self.text.partition(LEAVE)[2]

    def test_it_is_refreshed_until_ctrl_c(self):
        self.start("-o", "found.prof", "--save-every", "0.5")
        self.read(screens=3)
        self.assertIn("found.prof", os.listdir(self.made))
        self.profiler.send_signal(signal.SIGINT)
        after = self.end()
        self.assertRegex(after, r"(?m)^ *[\d,]+ .* work  \S+program\.py:2")
        self.assertRegex(self.text.split(HOME)[2], r"CPU \d+ %, 1 thread, ")
        self.assertRegex(self.text.split(HOME)[2], r" own of all  total of all  function\x1b\[K\r\n(.*\n)* +\d+\.\d +\d+ .*  work  ")
        self.assertIsNone(self.process.poll())

    def test_counts_and_samples(self):
        for option in ("--count", *(["--sample"] if times_from_a_timer() else [])):
            self.start(option, "--quiet", "--seconds", "2.5")
            self.read(screens=1)
            self.assertEqual(self.end(), "")
            self.assertIn("work  ", self.text)

    def test_a_process_that_ends(self):
        self.start()
        self.read(screens=1)
        self.process.kill()
        self.assertIn("has ended without sending what was found", self.end(1))

    def test_it_is_terminated(self):
        self.start()
        self.read(screens=1)
        self.profiler.send_signal(signal.SIGTERM)
        self.assertIn("program.py:2", self.end(-signal.SIGTERM))

    def test_a_process_that_does_not_answer(self):
        self.start()
        self.read(screens=1)
        self.process.send_signal(signal.SIGSTOP)
        self.read(until="does not answer")
        for _ in range(2):
            self.profiler.send_signal(signal.SIGINT)
            time.sleep(0.2)
        self.assertIn("is given up", self.end(1))

    def test_the_terminal_is_closed(self):
        self.start("--quiet", "-o", "found.prof")
        self.read(screens=1)
        os.close(self.outside)
        self.assertEqual(self.profiler.wait(60), 0)
        self.assertIn("found.prof", os.listdir(self.made))
        self.assertIsNone(self.process.poll())


class Options(ProfilerTestCase):
    def test_what_makes_no_sense(self):
        for options, error in ((("--live", "x.py"), "--live needs --pid"), (("--live", "--pid", "1"), "--live needs a terminal")):
            self.assertIn(error, self.run_python("-m", "ferrule_profiler", *options, status=2).stderr)
