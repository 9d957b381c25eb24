"""Builds the profiler for the interpreter that runs the tests, and runs programs under it."""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
CLIENT = os.path.join(ROOT, "clients", "profiler")
OUT = os.path.join(ROOT, "build", "test-extensions", f"profiler-{os.getpid()}")
PROGRAMS = os.path.join(HERE, "profiler_programs.py")
STOCK = os.environ.get("STOCK_PYTHON")

# Those of a make that runs the tests mean something else to cargo.
NOT_FOR_CARGO = ("PYO3_PYTHON", "MAKEFLAGS", "MFLAGS", "MAKELEVEL", "CFLAGS", "LDFLAGS")


def build(python, out, profile="dev"):
    """Build the extension for an interpreter and put the package together; the directory."""
    environment = {name: value for name, value in os.environ.items() if name not in NOT_FOR_CARGO}
    command = ["cargo", "build", "--locked", "--quiet", "--message-format=json", "--package",
               "ferrule_profiler", "--profile", profile,
               "--manifest-path", os.path.join(ROOT, "Cargo.toml"),
               "--target-dir", os.path.join(ROOT, "build", "cargo")]
    done = subprocess.run(command, capture_output=True, text=True,
                          env={**environment, "PYO3_PYTHON": python})
    if done.returncode:
        raise RuntimeError(f"the profiler does not build:\n{done.stderr}")
    package = os.path.join(out, "ferrule_profiler")
    shutil.copytree(os.path.join(CLIENT, "python", "ferrule_profiler"), package,
                    dirs_exist_ok=True, ignore=shutil.ignore_patterns("__pycache__"))
    for line in done.stdout.splitlines():
        message = json.loads(line)
        if (message["reason"] == "compiler-artifact"
                and message["target"]["name"] == "ferrule_profiler"
                and "cdylib" in message["target"]["kind"]):
            library, = [name for name in message["filenames"] if name.endswith(".so")]
            shutil.copy(library, os.path.join(package, "_core.so"))
    return out


def load():
    """Build and import the profiler, for a module of tests: its setUpModule() calls this."""
    if shutil.which("cargo") is None:
        raise unittest.SkipTest("cargo is not on PATH")
    if not os.path.exists(os.path.join(OUT, "ferrule_profiler", "_core.so")):
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
    """Skips where there are no frame hooks."""

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
