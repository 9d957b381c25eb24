"""Signals that end a program: the result is written, whatever the program does, and what is lost is named."""

import os
import signal
import subprocess
import sys

from profiler_support import OUT, ProfilerTestCase, load, read_stats

FIB = "def fib(n): return n if n < 2 else fib(n - 1) + fib(n - 2)\nfib(5)\n"
# While the first file is written, this function is called once.
MEANWHILE = FIB + """
import signal
import ferrule_profiler._command as command
write = command.write_file
def slowly(*args):
    command.write_file = write
    meanwhile()
    write(*args)
command.write_file = slowly
"""
LONG = """
import hashlib
print("READY", flush=True)
hashlib.pbkdf2_hmac("sha256", b"x", b"y", 100_000_000)
print("survived", flush=True)
"""

setUpModule = load


class WhileItWrites(ProfilerTestCase):
    def check(self, source, status, message=""):
        done, stats = self.profile_program(MEANWHILE + source, status=status)
        self.assertEqual(stats["fib"][:2], (1, 15))
        self.assertIn(message, done.stderr)
        return done

    def test_an_interrupt(self):
        self.check("def meanwhile(): signal.raise_signal(signal.SIGINT)", -signal.SIGINT, "another Ctrl-C")

    def test_an_interrupt_after_one_that_has_ended_the_program(self):
        done = self.check("def meanwhile(): signal.raise_signal(signal.SIGINT)\n"
                          "signal.raise_signal(signal.SIGINT)", -signal.SIGINT, "another Ctrl-C")
        self.assertEqual(done.stderr.count("KeyboardInterrupt"), 1)

    def test_two_interrupts_give_it_up_and_the_files_are_named(self):
        directory = self.directory()
        script, first, second = (os.path.join(directory, name) for name in ("program.py", "a.prof", "b.txt"))
        with open(script, "w") as file:
            file.write(MEANWHILE + "def meanwhile():\n    for _ in range(2): signal.raise_signal(signal.SIGINT)\n")
        done = self.run_python("-m", "ferrule_profiler", "-o", first, "-o", second, script, status=-signal.SIGINT)
        for path in (first, second):
            self.assertIn(f"ferrule_profiler: {path} is not written: interrupted\n", done.stderr)
        self.assertEqual(os.listdir(directory), ["program.py"])

    def test_a_handler_that_raises(self):
        done = self.check("""
def late(*args):
    print("handled", flush=True)
    raise TimeoutError
signal.signal(signal.SIGALRM, late)
def meanwhile(): signal.raise_signal(signal.SIGALRM)
""", 0)
        self.assertEqual(done.stdout, "handled\n" * done.stdout.count("handled"))
        self.assertIn("handled", done.stdout)

    def test_interrupts_without_end(self):
        """Also before the profiler can do anything about them."""
        directory = self.directory()
        for seed in range(6):
            done = subprocess.run([sys.executable, "-c", f"""
import os, signal, subprocess, sys, time
child = subprocess.Popen([sys.executable, "-m", "ferrule_profiler", "--quiet", "-o", "found.prof", "program.py"], stdout=subprocess.PIPE)
child.stdout.readline()
child.send_signal(signal.SIGINT)
time.sleep(0.004 * {seed})
child.send_signal(signal.SIGINT)
sys.exit(child.wait() != -signal.SIGINT)
"""], cwd=directory_with(directory, "program.py", FIB + "import time\nprint(1, flush=True)\ntime.sleep(60)\n"),
                capture_output=True, text=True, timeout=60, env={**os.environ, "PYTHONPATH": OUT})
            found = os.path.join(directory, "found.prof")
            self.assertEqual((done.returncode, os.path.exists(found)), (0, True), done.stderr)
            self.assertEqual(read_stats(found)["fib"][:2], (1, 15))
            os.unlink(found)


def directory_with(directory, name, text):
    with open(os.path.join(directory, name), "w") as file:
        file.write(text)
    return directory


class Ending(ProfilerTestCase):
    def start(self, source, *options, before=()):
        directory = directory_with(self.directory(), "program.py", source)
        self.found = os.path.join(directory, "found.prof")
        child = subprocess.Popen(
            [*before, sys.executable, "-m", "ferrule_profiler", *options, "-o", self.found, os.path.join(directory, "program.py")],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env={**os.environ, "PYTHONPATH": OUT})
        self.addCleanup(child.stdout.close)
        self.addCleanup(child.stderr.close)
        self.addCleanup(child.wait)
        self.addCleanup(child.kill)
        self.assertEqual(child.stdout.readline(), "READY\n")
        return child

    def test_each_signal(self):
        for number in (signal.SIGHUP, signal.SIGTERM, signal.SIGXCPU):
            _, stats = self.profile_program(FIB + f"import signal\nsignal.raise_signal({number})", status=-number)
            self.assertEqual(stats["fib"][:2], (1, 15))

    def test_in_a_long_call_of_c(self):
        for number in (signal.SIGHUP, signal.SIGTERM):
            for options in (["--quiet"], [], ["--count"]):
                child = self.start(FIB + LONG, *options)
                child.send_signal(number)
                out, err = child.communicate(timeout=30)
                self.assertEqual((child.returncode, out), (-number, ""))
                self.assertEqual(read_stats(self.found)["fib"][1], 15)
                if "--quiet" not in options:
                    self.assertIn("functions in 1 thread, ", err)
                self.assertEqual("is written" in err, "--quiet" not in options, err)

    def test_in_a_long_call_of_c_in_a_forked_child(self):
        """It dies as it would alone; with --subprocesses it writes its file first."""
        source = f"""
import os, signal, sys, time
child = os.fork()
if child == 0:
    exec({FIB + LONG!r})
time.sleep(0.2)
os.kill(child, signal.SIGTERM)
sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) + signal.SIGTERM)
"""
        for options in ([], ["--subprocesses"]):
            directory = self.directory()
            done, _ = self.profile_program(source, *options, directory=directory)
            self.assertEqual(done.stdout, "READY\n")
            self.assertEqual(len([name for name in os.listdir(directory) if name.endswith(".prof")]), 1 + len(options))

    def test_one_that_is_ignored(self):
        child = self.start("print('READY', flush=True)\nprint(input())\n", before=["sh", "-c", 'trap "" HUP; exec "$@"', "sh"])
        child.send_signal(signal.SIGHUP)
        child.terminate()
        child.communicate(timeout=30)
        self.assertEqual(child.returncode, -signal.SIGTERM)

    def test_a_handler_of_the_program(self):
        done, stats = self.profile_program(FIB + """
import os, signal
def handler(number, frame): print("handled", flush=True)
print(signal.signal(signal.SIGTERM, handler) is not None)
signal.raise_signal(signal.SIGTERM)
signal.signal(signal.SIGTERM, signal.SIG_DFL)
signal.signal(signal.SIGTERM, handler)
os.kill(os.getpid(), signal.SIGTERM)
""")
        self.assertEqual(done.stdout, "True\nhandled\nhandled\n")

    def test_a_handler_of_the_program_after_a_fork(self):
        done, stats = self.profile_program(FIB + """
import os, signal, time
def handler(number, frame): print("handled", flush=True)
signal.signal(signal.SIGTERM, handler)
if (child := os.fork()) == 0:
    os._exit(0)
os.waitpid(child, 0)
os.kill(os.getpid(), signal.SIGTERM)
time.sleep(0.2)
fib(5)
""")
        self.assertEqual((done.stdout, stats["fib"][1]), ("handled\n", 30))

    def test_forks_in_several_threads(self):
        done, stats = self.profile_program(FIB + """
import os, threading
def fork():
    for _ in range(20):
        if (child := os.fork()) == 0:
            os._exit(0)
        os.waitpid(child, 0)
threads = [threading.Thread(target=fork) for _ in range(4)]
for thread in threads: thread.start()
for thread in threads: thread.join()
with open("/proc/self/status") as file:
    print([line.split()[1] for line in file if line.startswith("Threads:")])
""")
        self.assertEqual((done.stdout, stats["fork"][:2]), ("['2']\n", (4, 4)))

    def test_saved_and_restored(self):
        """As servers do that shut down in order, and send themselves the signal again."""
        _, stats = self.profile_program(FIB + """
import signal
before = signal.signal(signal.SIGTERM, lambda *args: None)
signal.raise_signal(signal.SIGTERM)
signal.signal(signal.SIGTERM, before)
signal.raise_signal(signal.SIGTERM)
""", status=-signal.SIGTERM)
        self.assertEqual(stats["fib"][:2], (1, 15))

    def test_forks_are_not_warned_of_a_thread(self):
        done, _ = self.profile_program("""
import os, warnings
warnings.simplefilter("error")
for fork in (os.fork, lambda: os.forkpty()[0]):
    if (child := fork()) == 0:
        os._exit(7)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
""")
        self.assertEqual((done.stdout, done.stderr), ("7\n7\n", ""))

    def test_signals_go_to_the_threads_that_they_would_go_to(self):
        done, _ = self.profile_program("""
import signal, threading
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM, signal.SIGUSR1])
import os
os.kill(os.getpid(), signal.SIGUSR1)
print(signal.sigwait([signal.SIGUSR1]) == signal.SIGUSR1, len(threading.enumerate()))
""")
        self.assertEqual(done.stdout, "True 1\n")
