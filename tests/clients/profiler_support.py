"""Builds the profiler for the interpreter that runs the tests, and runs programs under it."""

import os
import shutil
import subprocess
import sys
import tempfile
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
# What was built already, for the tests that run on another interpreter than the one that it was built for.
BUILT = os.environ.get("FERRULE_TESTS_PROFILER")
OUT = BUILT or os.path.join(ROOT, "build", "test-extensions", f"profiler-{os.getpid()}")
PROGRAMS = os.path.join(HERE, "profiler_programs.py")
STOCK = os.environ.get("STOCK_PYTHON")


def times_from_a_timer():
    """Whether there can be any: without the GIL no thread can look at what others run."""
    return getattr(sys, "_is_gil_enabled", lambda: True)()


def build(python, out, profile="dev"):
    """Build the clients for an interpreter, as packages in a directory; the directory."""
    done = subprocess.run(
        [sys.executable, "-m", "tools.clients", "--python", os.path.abspath(python), "--packages", os.path.abspath(out),
         "--profile", profile], capture_output=True, text=True, cwd=ROOT)
    if done.returncode:
        raise RuntimeError(f"the clients do not build:\n{done.stderr}")
    return out


def load():
    """Build and import the profiler, for a module of tests: its setUpModule() calls this."""
    if not BUILT:
        if shutil.which("cargo") is None:
            raise unittest.SkipTest("cargo is not on PATH")
        if not os.path.exists(OUT):
            build(sys.executable, OUT)
        unittest.addModuleCleanup(shutil.rmtree, OUT, ignore_errors=True)
    unittest.addModuleCleanup(sys.path.remove, OUT)
    unittest.addModuleCleanup(forget)
    sys.path.insert(0, OUT)
    import ferrule_profiler
    return ferrule_profiler


def forget():
    for name in [name for name in sys.modules if name.split(".")[0] == "ferrule_profiler"]:
        del sys.modules[name]


class ProfilerTestCase(unittest.TestCase):
    """Skips where no profile can be made."""

    def setUp(self):
        import ferrule_profiler
        missing = ferrule_profiler.available()
        if missing:
            self.skipTest(missing)
        self.profiler = ferrule_profiler

    def directory(self):
        made = tempfile.TemporaryDirectory()
        self.addCleanup(made.cleanup)
        return made.name

    def run_python(self, *arguments, status=0, python=sys.executable, **environment):
        """Run a process that can import the profiler; its output."""
        done = subprocess.run(
            [python, *arguments], capture_output=True, text=True, timeout=300,
            env={**os.environ, "PYTHONPATH": OUT, "PYTHONFAULTHANDLER": "1", **environment})
        self.assertEqual(done.returncode, status, done.stderr)
        return done

    def profile_program(self, source, *options, status=0, arguments=(), directory=None):
        """Run a program's text under the command; (output, stats as pstats has them)."""
        directory = directory or self.directory()
        script = os.path.join(directory, "program.py")
        with open(script, "w", encoding="utf-8") as file:
            file.write(source)
        found = os.path.join(directory, "found.prof")
        done = self.run_python("-m", "ferrule_profiler", "--quiet", "-o", found, *options, script,
                               *arguments, status=status)
        return done, read_stats(found)


def read_stats(path):
    """{name: (primitive calls, calls, own, total)} of a pstats file's functions."""
    import pstats
    stats = pstats.Stats(path).stats
    return {name: row[:4] for (file, line, name), row in stats.items()}
