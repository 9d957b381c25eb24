"""The command line: what it runs, how it ends, what it leaves."""

import glob
import json
import os
import pstats
import signal
import subprocess
import sys

from profiler_support import OUT, ProfilerTestCase, load, read_stats, times_from_a_timer

FIB = "def fib(n): return n if n < 2 else fib(n - 1) + fib(n - 2)\n"

setUpModule = load


class Command(ProfilerTestCase):
    def test_a_script_runs_as_it_would_alone(self):
        source = FIB + """
import sys, os
print(__name__, sys.argv[1:], os.path.basename(sys.argv[0]), os.path.basename(__file__))
print(sys.modules["__main__"].fib is fib, sys.path[0] == os.path.dirname(os.path.abspath(__file__)))
fib(5)
"""
        done, stats = self.profile_program(source, arguments=["-o", "x"])
        self.assertEqual(done.stdout.splitlines(),
                         ["__main__ ['-o', 'x'] program.py program.py", "True True"])
        self.assertEqual(stats["fib"][:2], (1, 15))

    def test_a_module_runs_as_it_would_alone(self):
        directory = self.directory()
        package = os.path.join(directory, "package")
        os.mkdir(package)
        for name, text in (("__init__", ""), ("helper", FIB), ("__main__", """
from .helper import fib
import sys
fib(5)
print(__name__, __package__, __spec__.name, sys.argv[1:])
""")):
            with open(os.path.join(package, name + ".py"), "w") as file:
                file.write(text)
        found = os.path.join(directory, "found.prof")
        done = self.run_python("-m", "ferrule_profiler", "--quiet", "-o", found, "-m", "package",
                               "a", "-b", PYTHONPATH=os.pathsep.join((OUT, directory)))
        self.assertEqual(done.stdout, "__main__ package package.__main__ ['a', '-b']\n")
        self.assertEqual(read_stats(found)["fib"][:2], (1, 15))

    def test_the_table_goes_to_the_terminal(self):
        directory = self.directory()
        script = os.path.join(directory, "program.py")
        with open(script, "w") as file:
            file.write(FIB + "fib(5)\nprint('said')\n")
        done = self.run_python("-m", "ferrule_profiler", "--sort", "calls", script)
        self.assertEqual(done.stdout, "said\n")
        self.assertRegex(done.stderr, r"calls of \d functions in 1 thread, ")
        self.assertRegex(done.stderr, r"\n +15 +[\d.]+ .s .*  fib  .*program.py:1\n")
        done = self.run_python("-m", "ferrule_profiler", "--count", script)
        self.assertRegex(done.stderr, r"\n +15  fib  .*program.py:1\n")

    def test_its_name_is_what_it_would_be_alone(self):
        directory = self.directory()
        with open(os.path.join(directory, "program.py"), "w") as file:
            file.write(FIB + "import os, sys\nfib(5)\nprint(__file__, sys.argv[0])\n"
                       "__builtins__.added = 1\nprint(added)\n"
                       "print(sys.path[0])\nos.chdir('/')\n")
        for options in ([], ["-P"]):
            alone, beside = (
                subprocess.run([sys.executable, *options, *command, "program.py"],
                               capture_output=True, text=True, cwd=directory, check=True,
                               env={**os.environ, "PYTHONPATH": OUT}).stdout
                for command in ([], ["-m", "ferrule_profiler", "--quiet", "-o", "found.html"]))
            self.assertEqual(beside, alone)
        # The page has the source, though the program has gone elsewhere.
        with open(os.path.join(directory, "found.html")) as file:
            self.assertIn('"def fib(n): return', file.read())

    def test_wrong_usage(self):
        for arguments in ([], ["-m"], ["--format", "html", "x.py"], ["--format", "x", "x.py"],
                          ["--trace-events", "-1", "x.py"], ["--save-every", "0", "x.py"],
                          ["--trace-seconds", "nan", "x.py"], ["--limit", "-1", "x.py"],
                          ["--trace-arguments", "x.py"], ["--trace-events", "5", "x.py"], ["--trace-seconds", "5", "x.py"],
                          ["--trace", "t.json", "--trace-events", "0", "x.py"]):
            done = self.run_python("-m", "ferrule_profiler", *arguments, status=2)
            self.assertIn("usage:", done.stderr)

    def test_what_would_be_lost_at_the_end_is_refused_at_the_beginning(self):
        directory = self.directory()
        script, kept, read_only = (os.path.join(directory, name) for name in ("program.py", "kept.prof", "read_only"))
        for path, text in ((script, "print('ran')"), (kept, "")):
            with open(path, "w") as file:
                file.write(text)
        os.mkdir(read_only, 0o555)
        other = os.path.join(directory, "other.prof")
        os.symlink(kept, other)
        refused = [(["-o", ""], "-o: name a file"), (["--trace", ""], "--trace: name a file"),
                   (["-o", directory], "is a directory: name a file in it"), (["-o", directory + "/"], "is a directory"),
                   (["-o", f"{directory}/no/x.prof"], f"there is no directory {directory}/no: make it first"),
                   (["--trace", f"{directory}/no/x.json"], f"--trace: there is no directory {directory}/no"),
                   (["-o", f"{script}/x.prof"], f"there is no directory {script}"),
                   (["--quiet"], "add -o FILE or --trace FILE"),
                   (["-o", kept, "--trace", kept], "is named twice"), (["-o", kept, "-o", other], "is named twice")]
        if os.geteuid():
            refused.append((["-o", f"{read_only}/x.prof"], "may not be written: name another file"))
        for options, why in refused:
            with self.subTest(options):
                done = self.run_python("-m", "ferrule_profiler", *options, script, status=2)
                self.assertIn(f"ferrule_profiler: error: {options[-2:][0]}", done.stderr)
                self.assertIn(why, done.stderr)
                self.assertEqual(done.stdout, "")
        for options in (["-o", "-", "-o", "-"], ["-o", "/dev/null", "--trace", "/dev/null"]):
            self.assertTrue(self.run_python("-m", "ferrule_profiler", "--quiet", *options, "--format", "table", script).stdout.startswith("ran\n"))

    def test_a_timeline_on_standard_output(self):
        directory = self.directory()
        script = os.path.join(directory, "program.py")
        with open(script, "w") as file:
            file.write(f"import os\nos.chdir({directory!r})\n{FIB}fib(3)")
        done = self.run_python("-m", "ferrule_profiler", "--quiet", "--trace", "-", script)
        self.assertEqual(sum(event["name"] == "fib" for event in json.loads(done.stdout)["traceEvents"]), 5)
        self.assertEqual(os.listdir(directory), ["program.py"])
        done = self.run_python("-m", "ferrule_profiler", "--subprocesses", "--trace", "-", script, status=2)
        self.assertIn("--subprocesses needs names of files", done.stderr)

    def test_a_file_that_cannot_be_written_any_more(self):
        directory = self.directory()
        gone = os.path.join(directory, "gone")
        os.mkdir(gone)
        done, stats = self.profile_program(f"import os\nos.rmdir({gone!r})", "-o", os.path.join(gone, "x.html"))
        self.assertIn(f"ferrule_profiler: {gone}/x.html is not written: FileNotFoundError", done.stderr)
        self.assertIn("<module>", stats)


class Endings(ProfilerTestCase):
    """However a program ends, what it has done is written."""

    def check(self, end, status, message=""):
        done, stats = self.profile_program(
            FIB + "import os, signal, sys, threading, atexit\nfib(5)\n" + end, status=status)
        self.assertEqual(stats["fib"][:2], (1, 15))
        self.assertIn(message, done.stderr)
        return done, stats

    def test_exit(self):
        self.check("sys.exit(3)", 3)
        self.check("raise SystemExit('why')", 1, "why")
        self.check("os._exit(4)", 4)

    def test_an_exception_with_the_programs_traceback_alone(self):
        done, _ = self.check("import json; json.loads('x')", 1, "JSONDecodeError")
        self.assertNotIn("_command.py", done.stderr)
        self.assertNotIn("runpy", done.stderr)
        self.assertIn("program.py", done.stderr)

    def test_interrupted(self):
        done, _ = self.check("signal.raise_signal(signal.SIGINT)", -signal.SIGINT,
                             "KeyboardInterrupt")
        self.assertNotIn("_command.py", done.stderr)

    def test_terminated(self):
        self.check("signal.raise_signal(signal.SIGTERM)", -signal.SIGTERM)

    def test_killed(self):
        directory = self.directory()
        found = os.path.join(directory, "found.prof")
        _, stats = self.profile_program(FIB + f"""
import os, signal, time
fib(5)
while not os.path.exists({found!r}):
    time.sleep(0.01)
os.kill(os.getpid(), signal.SIGKILL)
""", "--save-every", "0.05", status=-signal.SIGKILL, directory=directory)
        self.assertEqual(stats["fib"][:2], (1, 15))

    def test_exit_in_a_thread_and_threads_that_outlive_the_program(self):
        _, stats = self.check("""
import time
def later():
    time.sleep(0.05)
    sys.exit(5)
threading.Thread(target=later).start()
""", 0)
        self.assertEqual(stats["later"][:2], (1, 1))

    def test_replaced_by_another_program(self):
        # Along the path there are places that have no such program.
        done, _ = self.check("""
os.environ["PATH"] = "/nowhere:" + os.path.dirname(sys.executable)
try:
    os.execv("/nowhere/python", ["python"])
except OSError:
    pass
os.execvp(os.path.basename(sys.executable), ["python", "-c", "print('the other')"])
""", 0)
        self.assertEqual(done.stdout, "the other\n")

    def test_ended_by_many_threads_at_once(self):
        for _ in range(3):
            self.check("""
import time
def leave():
    os._exit(3)
for _ in range(8):
    threading.Thread(target=leave).start()
time.sleep(60)
""", 3)

    def test_terminated_while_it_writes(self):
        """The signal is heeded when all is written."""
        self.check("""
import ferrule_profiler._command as command
write = command.write_file
def slowly(*args):
    signal.raise_signal(signal.SIGTERM)
    write(*args)
command.write_file = slowly
""", -signal.SIGTERM)

    def test_terminated_child_without_a_profile(self):
        self.check("""
if (child := os.fork()) == 0:
    signal.raise_signal(signal.SIGTERM)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGTERM
""", 0)

    def test_at_the_end_of_the_stack(self):
        for end, status in (("os._exit(5)", 5),
                            ("signal.raise_signal(signal.SIGTERM)", -signal.SIGTERM)):
            self.check(f"""
def deep():
    try:
        deep()
    except RecursionError:
        {end}
deep()
""", status)

    def test_without_a_standard_error(self):
        self.check("sys.stderr = None", 0)

    def test_exit_functions_are_profiled(self):
        _, stats = self.check("def last(): pass\natexit.register(last)\n", 0)
        self.assertEqual(stats["last"][:2], (1, 1))


class Subprocesses(ProfilerTestCase):
    SOURCE = FIB + """
import os, subprocess, sys
if len(sys.argv) > 1:
    fib(4)
    sys.exit()
fib(5)
subprocess.run([sys.executable, __file__, "child"], check=True)
if (child := os.fork()) == 0:
    fib(3)
    os._exit(0)
os.waitpid(child, 0)
"""

    def test_each_writes_a_file_of_its_own(self):
        directory = self.directory()
        _, stats = self.profile_program(self.SOURCE, "--subprocesses", directory=directory)
        self.assertEqual(stats["fib"][1], 15)
        found = [read_stats(path) for path in glob.glob(os.path.join(directory, "found.*.prof"))]
        self.assertEqual(sorted(stats["fib"][1] for stats in found), [5, 9])

    def test_without_the_option_they_write_nothing(self):
        directory = self.directory()
        self.profile_program(self.SOURCE, directory=directory)
        self.assertEqual(glob.glob(os.path.join(directory, "found.*.prof")), [])


class Unnoticed(ProfilerTestCase):
    """What the profiler does itself is in no profile, and the program does not see it."""

    def test_nothing_of_it(self):
        for end in ("pass", "import os; os._exit(0)"):
            for option in ([], ["--count"], ["--save-every", "9"]):
                _, stats = self.profile_program(end, *option)
                self.assertEqual(set(stats), {"<module>"})

    def test_its_threads_are_not_counted(self):
        directory = self.directory()
        script, saved = (os.path.join(directory, name) for name in ("program.py", "found.prof"))
        with open(script, "w") as file:
            file.write(f"import os\nwhile not os.path.exists({saved!r}): pass\n")
        done = self.run_python("-m", "ferrule_profiler", "-o", saved, "--save-every", "0.01", script)
        self.assertIn("functions in 1 thread, ", done.stderr)

    def test_its_threads(self):
        for options in ([], ["--sample"]) if times_from_a_timer() else ([],):
            options = [*options, "--save-every", "0.01"]
            directory = self.directory()
            done, stats = self.profile_program("""
import threading, time
def wait(): time.sleep(0.3)
wait()
print(len(threading.enumerate()))
""", "-o", os.path.join(self.directory(), "x.html"), *options, directory=directory)
            self.assertEqual(done.stdout, "1\n")
            self.assertLessEqual({"<module>", "wait", "enumerate"}, set(stats))
            places = pstats.Stats(os.path.join(directory, "found.prof")).stats
            self.assertEqual([file for file, _, _ in places if file.startswith(OUT)], [])

    def test_other_startup_modules(self):
        """A Python that is started finds the sitecustomize that it would find alone, or none."""
        child = ("import os, sys; print('sitecustomize' in sys.modules, sys.modules.get('found'), "
                 "os.environ['PYTHONPATH'].split(os.pathsep)[1:])")
        source = f"""
import subprocess, sys
subprocess.run([sys.executable, "-c", {child!r}], check=True)
"""
        for text in (None, "import sys\nsys.modules['found'] = 1\n"):
            directory = self.directory()
            if text is not None:
                with open(os.path.join(directory, "sitecustomize.py"), "w") as file:
                    file.write(text)
            script = os.path.join(directory, "program.py")
            with open(script, "w") as file:
                file.write(source)
            done = self.run_python("-m", "ferrule_profiler", "--quiet", "-o", os.path.join(directory, "x.prof"), "--subprocesses", script,
                                   PYTHONPATH=os.pathsep.join((OUT, directory)))
            # No library of this Python is put before that of another one.
            self.assertEqual((done.stdout, done.stderr),
                             (f"True {None if text is None else 1} {[OUT, directory]}\n", ""))
