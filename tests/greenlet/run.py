#!/usr/bin/env python3
"""greenlet on Ferrule: its own tests, many deep stacks that give their memory back, and hooks that switch greenlets.

    python3 -m tests.greenlet.run --python build/ferrule/python

greenlet switches data stacks by exchanging fields of the thread state, and frees those of dead greenlets by itself:
nothing outside of CPython depends more on how the data stack looks. Its source comes from the package index, once;
it is kept in the download cache (FERRULE_CACHE, or ferrule in the user's cache directory).
"""

import argparse
import glob
import os
import re
import shutil
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))

from tests.c import build_extensions
from tests.steps import Counts

GREENLET = "3.5.6"
NEEDED_BY_ITS_TESTS = ("psutil", "objgraph")
OWN_TESTS = 172     # how many tests this version has on stock CPython
# What unittest finds, and the environment it runs in beside ours.
ALL = (("test*.py", {}),)
# Builds with --with-trace-refs have greenlet count all objects before and after each test. That some strings are left when a child process has
# run fails a few of the tests at the interpreter's end, of stock's too: others each time. What they are about is in the child.
WITH_ALL_OBJECTS_COUNTED = (("test_[!i]*.py", {}), ("test_interpreter_shutdown.py", {"GREENLET_SKIP_LEAKCHECKS": "1"}))
# Some of its tests compare the memory of the process as the system counts it, or give a thread a millisecond to end: what
# else the machine does may fail them. So a failure counts if it comes again. CPython's tests are judged so, too (../run.py).
TIMES_ALONE = 10
PROGRAMS = ("continued_frames.py", "deep_stacks.py", "parked_hooks.py", "parked_loops.py", "unhooked_calls.py", "waiting_callbacks.py", "waiting_at_the_end.py",
            "watched_context.py", "watched_frames.py")


def cache_directory():
    chosen = os.environ.get("FERRULE_CACHE")
    if not chosen:
        user = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
        chosen = os.path.join(user, "ferrule")
    return os.path.join(chosen, "greenlet")


def run(command, **options):
    """Run and print what came out of it; the output."""
    print("$", " ".join(command), flush=True)
    done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          errors="replace", **options)
    print(done.stdout, flush=True)
    return done


def source_archive(python):
    """The path of greenlet's sdist, downloaded if the cache has none; None if it cannot be had."""
    cache = cache_directory()
    os.makedirs(cache, exist_ok=True)
    pattern = os.path.join(cache, f"greenlet-{GREENLET}.tar.gz")
    if not glob.glob(pattern):
        run([python, "-m", "pip", "download", "--no-deps", "--no-binary", ":all:", "--disable-pip-version-check",
             "--dest", cache, f"greenlet=={GREENLET}"])
    return pattern if glob.glob(pattern) else None


def make_environment(python, directory):
    """A virtual environment of the interpreter; its python."""
    # A build tree has no pip of its own, but ensurepip.
    done = run([python, "-m", "venv", directory])
    if done.returncode:
        raise SystemExit("no virtual environment can be made")
    return os.path.join(directory, "bin", "python")


def build_environment(python):
    """An environment in which the interpreter's own compiler and linker are found; else the system's compiler."""
    asked = "import sysconfig; print(*map(sysconfig.get_config_var, ('AR', 'CC', 'CXX')), sep='\\n')"
    archiver, *compilers = subprocess.run([python, "-c", asked], capture_output=True, text=True,
                                          check=True).stdout.splitlines()
    # A toolchain outside of PATH has its archiver's full path recorded: the rest of it is beside that.
    path = os.pathsep.join(filter(None, (os.path.dirname(archiver), os.environ.get("PATH"))))
    environment = {**os.environ, "PATH": path}
    for variable, compiler, fallback in zip(("CC", "CXX"), compilers, ("cc", "c++")):
        if not shutil.which(compiler.split()[0], path=path):
            environment.setdefault(variable, fallback)
    return environment


def outcome(done, what):
    """What a run of unittest says."""
    counts = Counts.of_unittest(done.stdout, done.returncode)
    if done.returncode:
        print(f"{what} ended with exit code", done.returncode)
    return counts


def leave_out_what_crashes(python):
    """Takes away, on a debug build, the tests that end stock's too, in an assertion of CPython's. Returns how many they are."""
    script = """
import os, sys, unittest
if hasattr(sys, "gettotalrefcount"):
    import greenlet.tests.test_greenlet_trash as module
    print(unittest.defaultTestLoader.loadTestsFromModule(module).countTestCases())
    os.remove(module.__file__)
"""
    done = subprocess.run([python, "-c", script], capture_output=True, text=True, check=True)
    if done.stdout:
        print("left out on a debug build: greenlet.tests.test_greenlet_trash", flush=True)
    return int(done.stdout or 0)


def judge_alone(python, done, counts, **options):
    """What failed is run again, alone: each that then passes every time has passed. Its failure stays in the log."""
    failed = re.findall(r"^(?:FAIL|ERROR): \w+ \(([\w.]+)\)", done.stdout, re.MULTILINE)
    if len(failed) != counts.failed:
        return      # not tests alone: an import, say
    for name in failed:
        times = next((number for number in range(TIMES_ALONE)
                      if run([python, "-m", "unittest", "-q", name], **options).returncode), TIMES_ALONE)
        print(f"{name} failed, and then passed {times} times of {TIMES_ALONE}, alone")
        if times == TIMES_ALONE:
            counts.failed -= 1
            counts.passed += 1


def run_own_tests(python, directory, parts):
    """greenlet's own tests."""
    left_out = leave_out_what_crashes(python)
    counts = Counts()
    for pattern, more in parts:
        options = {"cwd": directory, "env": {**os.environ, **more}}
        done = run([python, "-m", "unittest", "discover", "-q", "-p", pattern, "greenlet.tests"], **options)
        found = outcome(done, "greenlet's tests")
        judge_alone(python, done, found, **options)
        counts += found
    total = counts.passed + counts.failed + counts.skipped
    if counts.passed and total != OWN_TESTS - left_out:
        print(f"{total} of greenlet's tests were run, {OWN_TESTS - left_out} are expected")
        counts.failed += 1
    return counts + Counts(skipped=left_out)


def run_programs(python, build_python):
    """Programs of our own. Each prints a line that begins with "ok" for what it has shown."""
    extensions = build_extensions.build(
        build_python, os.path.join(ROOT, "build", "test-extensions", "greenlet-" + os.path.basename(
            os.path.dirname(build_python))))
    counts = Counts()
    for program in PROGRAMS:
        done = run([python, os.path.join(HERE, program)],
                   env={**os.environ, "PYTHONPATH": extensions, "PYTHONFAULTHANDLER": "1"})
        shown = len(re.findall(r"^ok ", done.stdout, re.MULTILINE))
        counts.passed += shown
        if done.returncode or not shown:
            print(f"{program} ended with exit code", done.returncode)
            counts.failed += 1
    return counts


def run_clients(python):
    """The tests of clients that need greenlet."""
    counts = Counts()
    for directory, tests in (("clients", "test_profiler_threads.Greenlets"), ("jit", "test_jit_exits.Greenlets")):
        done = run([python, "-m", "unittest", "-v", tests], cwd=os.path.join(ROOT, "tests", directory))
        counts += outcome(done, tests)
    return counts


def main():
    parser = argparse.ArgumentParser(description="greenlet's tests, deep stacks and parked hooks, on one interpreter.")
    parser.add_argument("--python", required=True, help="the interpreter, from a build tree or installed")
    arguments = parser.parse_args()
    build_python = os.path.abspath(arguments.python)

    # Not below the clone: the tests of greenlet must find the installed greenlet only.
    work = tempfile.mkdtemp(prefix="ferrule-greenlet-")
    try:
        facts = build_extensions.facts_of(build_python)
        if facts["free_threaded"]:
            print("greenlet has no version for CPython 3.13 without the GIL")
            print(Counts(skipped=1))
            return 0
        python = make_environment(build_python, os.path.join(work, "venv"))
        archive = source_archive(python)
        if archive is None:
            print(f"greenlet {GREENLET} cannot be downloaded; put greenlet-{GREENLET}.tar.gz into {cache_directory()}")
            print(Counts(skipped=1))
            return 0
        if run([python, "-m", "pip", "install", "--disable-pip-version-check", "--no-deps", archive],
               env=build_environment(python)).returncode:
            print("greenlet does not build")
            print(Counts(failed=1))
            return 1
        if run([python, "-m", "pip", "install", "--disable-pip-version-check", *NEEDED_BY_ITS_TESTS]).returncode:
            print("what greenlet's tests need cannot be installed")
            print(Counts(failed=1))
            return 1
        parts = WITH_ALL_OBJECTS_COUNTED if facts["trace_refs"] else ALL
        results = [run_own_tests(python, work, parts), run_programs(python, build_python), run_clients(python)]
    finally:
        shutil.rmtree(work, ignore_errors=True)
    counts = sum(results, Counts())
    print(counts)
    return 1 if counts.failed else 0


if __name__ == "__main__":
    sys.exit(main())
