#!/usr/bin/env python3
"""Runs the project's tests, and CPython's own.

    python3 tests/run.py --python build/ferrule/python --stock build/stock/python
    python3 tests/run.py --python build/ferrule/python --groups python,c
    python3 tests/run.py --python build/ferrule/python --suite --stock-command 'make stock'

Each step keeps its output in build/logs/test-<step>.log. The last line is `N passed, N failed, N skipped`; the exit
code is 0 only when something was run and nothing failed.
"""

import json
import os
import re
import signal
import sys
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))

# --- Under the interpreter that is tested: run unittest and write down what came of each test. -----------------

PASSED, SKIPPED, FAILED = range(3)
# What is measured is run as files: their tests import them as they import each other.
BESIDE = {"benchmarks": (os.path.join(ROOT, "benchmarks"),)}


class RecordingResult(unittest.TextTestResult):
    """Keeps one outcome for each test, whatever its subtests say: the worst."""

    def __init__(self, *arguments, **options):
        super().__init__(*arguments, **options)
        self.outcomes = {}

    def record(self, test, outcome):
        # A subtest counts for the test that it is a part of.
        name = getattr(test, "test_case", test).id()
        self.outcomes[name] = max(outcome, self.outcomes.get(name, PASSED))

    def addSuccess(self, test):
        super().addSuccess(test)
        self.record(test, PASSED)

    def addError(self, test, error):
        super().addError(test, error)
        self.record(test, FAILED)

    def addFailure(self, test, error):
        super().addFailure(test, error)
        self.record(test, FAILED)

    def addSubTest(self, test, subtest, error):
        super().addSubTest(test, subtest, error)
        self.record(test, PASSED if error is None else FAILED)

    def addSkip(self, test, reason):
        super().addSkip(test, reason)
        self.record(test, SKIPPED)

    def addExpectedFailure(self, test, error):
        super().addExpectedFailure(test, error)
        self.record(test, PASSED)

    def addUnexpectedSuccess(self, test):
        super().addUnexpectedSuccess(test)
        self.record(test, FAILED)


# A test that is skipped for a reason that begins so is about the other interpreter. It is not collected: a skip in the totals is a check that
# could not be made.
ABOUT_ANOTHER = ("only on Ferrule", "only on stock")


def about_this(suite):
    """The tests of the suite, and of suites within it, without those about the other interpreter."""
    for test in suite:
        if isinstance(test, unittest.TestSuite):
            yield from about_this(test)
            continue
        # unittest keeps the reason on the class or on the method.
        places = type(test), getattr(test, test._testMethodName, None)
        if not any(getattr(place, "__unittest_skip_why__", "").startswith(ABOUT_ANOTHER) for place in places):
            yield test


def unittest_child(report, directory, names):
    # A background job has these ignored, and what the tests start would inherit that.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
    # This is the one place that says where tests import from: what is beside them, and packages of the root.
    sys.path[:1] = [directory, *BESIDE.get(os.path.basename(directory), ()), ROOT]
    loader = unittest.TestLoader()
    if names:
        suite = loader.loadTestsFromNames(names)
    else:
        suite = loader.discover(directory, top_level_dir=directory)
    suite = unittest.TestSuite(about_this(suite))
    # The log ends with the slowest tests, where unittest has the times.
    slowest = {"durations": 15} if sys.version_info >= (3, 12) else {}
    result = unittest.TextTestRunner(verbosity=2, resultclass=RecordingResult, **slowest).run(suite)
    with open(report, "w", encoding="utf-8") as file:
        json.dump(result.outcomes, file)
    return 0


if __name__ == "__main__":
    if sys.argv[1:2] == ["--unittest"]:
        sys.exit(unittest_child(sys.argv[2], sys.argv[3], sys.argv[4:]))
    # Run as a file, it has its own directory there.
    sys.path[0] = ROOT


# --- The runner. ------------------------------------------------------------------------------------------------

import argparse
import shlex
import shutil
import subprocess
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor

from tests.steps import LOGS, Counts, Step, say
from tools.progress import clock, heed_interrupts

PYTHON_TESTS = os.path.join(ROOT, "tests", "python")
JIT_TESTS = os.path.join(ROOT, "tests", "jit")

# The longest first, so that they end at about the same time.
DEFAULT_GROUPS = ("debugger", "clients", "python", "greenlet", "rust", "c", "differential", "jit", "packaging", "benchmarks", "cpython")
# Each of these has the machine for itself: it starts processes of its own beside each other, or counts what a machine does.
ALONE = ("cpython", "release", "leaks")
# Of tests/python, these need the extensions of tests/c to break or bypass the interpreter.
C_MODULES = (
    "test_arena_faults", "test_code_extra_indices", "test_code_extra_interpreters",
    "test_code_extra_perf_trampoline", "test_code_extra_values", "test_code_extra_without_memory",
    "test_evaluators_answers", "test_evaluators_frames", "test_evaluators_programs", "test_evaluators_setting",
    "test_foreign_chunks", "test_initialized_again", "test_without_memory_at_edges", "test_without_memory_flat",
)
# What is run over and over to find leaks.
LEAK_MODULES = (
    "test_hook_promises_order", "test_hook_promises_replacement", "test_hook_promises_dispatch",
    "test_hook_promises_cost", "test_hook_promises_coexistence", "test_hook_promises_interpreters",
    "test_frame_hooks_c", "test_frame_hooks_calls", "test_frame_hooks_finalization",
    "test_frame_hooks_python", "test_frame_hooks_threads", "test_frame_hooks_tracing",
    "test_framehook", "test_hook_model", "test_hook_watching",
    "test_hook_watching_generators", "test_hook_watching_changes", "test_hook_watching_tools",
    "test_hook_watching_failures", "test_hook_watching_jumps",
    "test_hook_watching_processes", "test_hook_scopes_and_results", "test_hook_data",
    "test_frame_hooks_blocks_elsewhere", "test_hook_pending_calls", "test_hooks_of_c",
)

TEST_TIMEOUT = 900          # for one test file of CPython
# On 2026-11-24 it was 0.921. Register allocation in the eval loop moves it by up to two per cent with any change around a
# push, in either direction; a change that takes the whole margin is to be done in another way.
RELEASE_MAX_INSTRUCTIONS = 1.0

# CPython's own tests of what a frame takes part in: calls, generators, tracing, threads, the end of an interpreter.
CPYTHON_TESTS = """
test__interpreters test_asyncgen test_asyncio test_atexit test_bdb test_builtin test_call test_capi.test_mem
test_capi.test_misc test_class test_code test_collections test_compile test_concurrent_futures test_context
test_contextlib test_coroutines test_dataclasses test_decorators test_descr test_dis test_dynamic test_embed
test_enum test_except_star test_exception_group test_exception_variations test_exceptions test_extcall
test_faulthandler test_finalization test_fork1 test_frame test_funcattrs test_functools test_gc
test_generator_stop test_generators test_genexps test_grammar test_inspect test_interpreters test_keywordonlyarg
test_listcomps test_monitoring test_opcache test_ordered_dict test_patma test_pdb test_peepholer
test_perf_profiler test_positional_only_arg test_property test_raise test_scope test_signal test_super
test_syntax test_sys test_sys_setprofile test_sys_settrace test_thread test_threading test_threading_local
test_threadsignals test_trace test_traceback test_tracemalloc test_types test_typing test_unittest
test_unpack_ex test_weakref test_with test_yield_from
""".split()


def run_unittest(name, python, directory, names=(), environment=None):
    """Run unittest under `python`; a run that does not live to write its report is one failure more."""
    handle, report = tempfile.mkstemp(suffix=".json")
    os.close(handle)
    os.unlink(report)
    step = Step(name, [python, os.path.abspath(__file__), "--unittest", report, directory, *names],
                environment={"PYTHONFAULTHANDLER": "1", "PYTHONUNBUFFERED": "1", **(environment or {})})
    step.run()
    details = []
    try:
        with open(report, encoding="utf-8") as file:
            outcomes = json.load(file)
        os.unlink(report)
        counts = Counts(*(list(outcomes.values()).count(kind) for kind in (PASSED, FAILED, SKIPPED)))
        details += [f"failed: {test}" for test, outcome in outcomes.items() if outcome == FAILED]
        if not outcomes:
            counts.failed, details = 1, ["no test was found"]
        elif step.exit_code:
            # All tests were over by then: a crash at the end of the interpreter.
            counts.failed += 1
            details.append(f"exit code {step.exit_code} after the last test")
    except FileNotFoundError:
        counts = Counts(failed=1)
        details.append(f"the run did not get to its end: exit code {step.exit_code}")
    return step.report(counts, details)


def group_rust(options):
    cargo = shutil.which("cargo")
    if cargo is None:
        say("FAIL  rust: cargo is not on PATH")
        return Counts(failed=1)
    total = Counts()
    for crate in ("rust-core", "rust-core/framehook-sdk", "build.rs-wrapper"):
        command = [cargo, "test", "--locked", "--manifest-path", os.path.join(crate, "Cargo.toml"),
                   "--target-dir", os.path.join(ROOT, "build", "cargo")]
        environment = {}
        if crate.endswith("framehook-sdk"):
            # PyO3 queries an interpreter of 3.13, and links nothing to it. What must not compile would not link
            # either, so the codes of its errors are compared, which takes a compiler with unstable flags.
            environment = {"PYO3_PYTHON": os.path.abspath(options.python), "PYO3_BUILD_EXTENSION_MODULE": "1",
                           "RUSTC_BOOTSTRAP": "1"}
        step = Step(f"rust-{os.path.basename(crate)}", command, environment=environment).run()
        counts, finished = Counts(), 0
        for line in step.lines:
            found = re.match(r"test result: \w+\. (\d+) passed; (\d+) failed; (\d+) ignored", line)
            if found:
                finished += 1
                counts += Counts(*map(int, found.groups()))
        details = [line.strip() for line in step.lines if re.match(r"test .* \.\.\. FAILED", line)]
        if step.exit_code and not counts.failed:
            counts.failed = 1
            details.append(f"cargo ended with exit code {step.exit_code}")
        elif not finished:
            counts.failed = 1
            details.append("no test was run")
        total += step.report(counts, details)
    return total


def group_packaging(options):
    return run_unittest("packaging", sys.executable, os.path.join(ROOT, "tests", "packaging"))


def stock_environment(options):
    return {"STOCK_PYTHON": options.stock} if options.stock else {"STOCK_PYTHON": ""}


def python_modules(directory=PYTHON_TESTS):
    return sorted(name[:-3] for name in os.listdir(directory) if re.fullmatch(r"test_\w+\.py", name))


def group_c(options):
    return run_unittest("c", options.python, PYTHON_TESTS, C_MODULES, stock_environment(options))


def group_python(options):
    first, step = options.part
    names = [name for name in python_modules() if name not in C_MODULES][first - 1::step]
    return run_unittest("python", options.python, PYTHON_TESTS, names, stock_environment(options))


def group_differential(options):
    """The Python tests on stock: what they say of CPython must be true of CPython. And tests/differential."""
    if not options.stock:
        say("skip  differential: no stock build (--stock PATH)")
        return Counts(skipped=1)
    total = run_unittest("differential-stock", options.stock, PYTHON_TESTS, python_modules(),
                         {"FERRULE_TESTS_ON_STOCK": "1", "STOCK_PYTHON": ""})
    own = os.path.join(ROOT, "tests", "differential")
    if os.path.isdir(own):
        total += run_unittest("differential", sys.executable, own, environment={
            **stock_environment(options), "FERRULE_PYTHON": options.python})
    return total


making_environments = threading.Lock()


def run_with_browser(name, *directory, environment=None):
    """Tests that look at a page in a browser, in the benchmarks' environment, which has what drives one."""
    from benchmarks.suite import environment as environments
    try:
        with making_environments:
            environments.ensure_browser_tools()
    except environments.EnvironmentFailed as failure:
        # Without the package index a developer can do all the rest; CI must have it.
        if os.environ.get("CI"):
            say(f"FAIL  {name}: {failure}")
            return Counts(failed=1)
        say(f"skip  {name}: {str(failure).splitlines()[0]}")
        return Counts(skipped=1)
    return run_unittest(name, os.path.join(environments.HARNESS, "bin", "python"), os.path.join(ROOT, "tests", *directory),
                        environment=environment)


def group_benchmarks(options):
    """The benchmarks' own logic, and their page in a browser; no time."""
    return run_with_browser("benchmarks", "benchmarks")


def group_release(options):
    """What holds for the release builds alone: the shape of the code and its instructions; no time."""
    total = Counts()
    own = os.path.join(ROOT, "tests", "release")
    if os.path.isdir(own):
        total += run_unittest("release", sys.executable, own, environment={
            **stock_environment(options), "FERRULE_PYTHON": options.python})
    if not options.stock:
        say("skip  release-instructions: no stock build (--stock PATH)")
        return total + Counts(skipped=1)
    step = Step("release-instructions", [sys.executable, os.path.join(ROOT, "benchmarks", "calls.py"),
                                         "--base", options.stock, "--python", options.python,
                                         "--max-ratio", str(RELEASE_MAX_INSTRUCTIONS), "--committed"]).run()
    if step.exit_code:
        counts = Counts(failed=1)
    elif "\nnot compared with the committed figures" in step.output:
        counts = Counts(passed=1, skipped=1)
    else:
        counts = Counts(passed=2)
    total += step.report(counts)
    for line in step.lines:
        say("      " + line.rstrip())
    return total


def run_program(name, module, python):
    """A program of tests whose last line is `N passed, N failed, N skipped`."""
    step = Step(name, [sys.executable, "-m", module, "--python", python]).run()
    counts = Counts.of_summary(step.output, step.exit_code)
    # What its parts print of a test that failed may be far above the end of the log.
    return step.report(counts, [line.strip() for line in step.lines if re.match(r"(FAIL|ERROR): ", line)])


def group_greenlet(options):
    return run_program("greenlet", "tests.greenlet.run", options.python)


def with_tools(name, python):
    """An environment of the interpreter that has debugpy, and what builds on pdb. Where it cannot be made: the interpreter, and what that counts."""
    from benchmarks.suite import environment as environments
    try:
        return environments.ensure(os.path.join(ROOT, "build", f"{name}-env"), os.path.abspath(python),
                                   os.path.join(ROOT, "tests", "debugger", "requirements.txt"))[0], Counts()
    except environments.EnvironmentFailed as failure:
        say(f"{'FAIL' if os.environ.get('CI') else 'skip'}  {name}: tests with other tools: {str(failure).splitlines()[0]}")
        # Elsewhere the tests that need it count themselves.
        return python, Counts(failed=1 if os.environ.get("CI") else 0)


def group_debugger(options):
    """The debugger's tests, and CPython's of pdb and bdb with the debugger in their place; on stock too."""
    total = Counts()
    for name, python in (("debugger", options.python), ("debugger-stock", options.stock)):
        if python:
            inside, counts = with_tools(name, python)
            total += counts + run_unittest(name, inside, os.path.join(ROOT, "tests", "debugger"))
            total += run_program(f"{name}-cpython", "tests.debugger.run_cpython", python)
    return total


def run_with_pytest(name, python):
    """The profiler's plugin, in the environment of the debugger's tests, which has pytest."""
    inside, counts = with_tools("debugger", python)
    return counts + run_unittest(name, inside, os.path.join(ROOT, "tests", "pytest_plugin"), environment={"FERRULE_PYTHON": os.path.abspath(python)})


def group_clients(options):
    """The clients of frame hooks, built for the interpreter, the profiler's page in a browser, and its plugin under pytest."""
    return (run_unittest("clients", options.python, os.path.join(ROOT, "tests", "clients"),
                         environment=stock_environment(options))
            + run_with_browser("clients-browser", "browser", environment={"FERRULE_PYTHON": os.path.abspath(options.python)})
            + run_with_pytest("clients-pytest", options.python))


def group_jit(options):
    """The compiler: its tests, and random programs with it and without, beside stock."""
    return run_unittest("jit", options.python, JIT_TESTS, environment=stock_environment(options))


# --- CPython's own tests. ---------------------------------------------------------------------------------------

RESULT_LINE = re.compile(r"\[\s*\d+/\d+(?:/\d+)?\] (test[_.]\S+) (.+)")


def outcome_of(words):
    """What a line of regrtest says about a test file."""
    if words.startswith(("passed", "run no tests")) or "env changed" in words:
        return PASSED
    if words.startswith("skipped"):
        return SKIPPED
    return FAILED


class Regrtest:
    """One run of `python -m test`; with -jN, even for one file: only then each result has a line of its own."""

    def __init__(self, name, python, arguments, environment=None):
        self.step = Step(name, [python, "-m", "test", "--timeout", str(TEST_TIMEOUT), *arguments],
                         environment={"PYTHONUNBUFFERED": "1", **(environment or {})}, interesting=self.progress)
        self.outcomes = {}
        self.reasons = {}

    @staticmethod
    def progress(line):
        found = re.search(r"\[\s*\d+/\d+.*", line)
        return found.group() if found else None

    def run(self):
        self.step.run()
        for line in self.step.lines:
            found = RESULT_LINE.search(line)
            if not found:
                continue
            name, words = found.groups()
            outcome = outcome_of(words)
            self.outcomes[name] = max(outcome, self.outcomes.get(name, PASSED))
            if outcome != PASSED:
                self.reasons[name] = words
        for name in self.listed_as_failed():
            self.outcomes[name] = FAILED
            self.reasons.setdefault(name, "failed")
        return self

    def listed_as_failed(self):
        """The names under "N tests failed:" in the summary, whose words regrtest wraps over indented lines."""
        inside = False
        for line in self.step.lines:
            if re.match(r"\d+ tests? failed:$", line.rstrip()):
                inside = True
            elif inside and line.startswith("    "):
                yield from line.split()
            else:
                inside = False

    @property
    def failed(self):
        return sorted(name for name, outcome in self.outcomes.items() if outcome == FAILED)

    @property
    def finished(self):
        return "Total test files:" in self.step.output

    def counts(self):
        values = list(self.outcomes.values())
        return Counts(*(values.count(kind) for kind in (PASSED, FAILED, SKIPPED)))


def file_safe(name):
    return re.sub(r"[^\w.-]", "_", name)


def find_stock(options):
    """The stock build, built now if there is a command for it; None if there is none."""
    candidate = options.stock or os.path.join(ROOT, "build", "stock", "python")
    if os.access(candidate, os.X_OK):
        return candidate
    if not options.stock_command:
        return None
    say(f"building stock to compare with: {options.stock_command}")
    step = Step("build-stock", shlex.split(options.stock_command)).run()
    if step.exit_code or not os.access(candidate, os.X_OK):
        step.report(Counts(failed=1), ["the stock build failed"])
        return None
    return candidate


def judge_failures(options, failed):
    """Which failures are Ferrule's: those of files that pass on stock, and fail again on Ferrule alone.

    Returns {name: (PASSED, SKIPPED or FAILED, why)}."""
    judged = {}
    stock = find_stock(options) if failed else None
    for number, name in enumerate(failed, 1):
        if stock is None:
            judged[name] = (FAILED, "failed, and there is no stock build to compare with")
            continue
        say(f"  {name} failed ({number} of {len(failed)}): again on stock")
        on_stock = Regrtest(f"stock-{file_safe(name)}", stock, ["-j1", name]).run()
        if name not in on_stock.outcomes:
            judged[name] = (FAILED, "failed, and the run on stock gave no result")
            continue
        if on_stock.outcomes[name] == FAILED:
            judged[name] = (SKIPPED, f"fails on stock too: {on_stock.reasons[name]}")
            continue
        say(f"  {name} passes on stock: again on Ferrule, alone")
        again = Regrtest(f"again-{file_safe(name)}", options.python, ["-j1", name]).run()
        if again.outcomes.get(name) == PASSED:
            judged[name] = (PASSED, "flaky: failed beside other tests, passes alone, passes on stock")
        else:
            judged[name] = (FAILED, f"passes on stock, fails on Ferrule twice: {again.reasons.get(name, 'no result')}")
    return judged


def run_cpython(options, name, tests):
    run = Regrtest(name, options.python, [f"-j{options.jobs}", *tests]).run()
    counts = run.counts()
    details = []
    for test, (outcome, why) in judge_failures(options, run.failed).items():
        details.append(f"{test}: {why}")
        if outcome != FAILED:
            counts.failed -= 1
            if outcome == PASSED:
                counts.passed += 1
            else:
                counts.skipped += 1
    if not run.finished:
        counts.failed += 1
        details.append(f"the run did not get to its end: exit code {run.step.exit_code}")
    return run.step.report(counts, details)


def group_cpython(options):
    return run_cpython(options, "cpython", CPYTHON_TESTS)


def group_leaks(options):
    """regrtest's hunt for leaks, on a debug build: references, memory blocks and descriptors must not grow."""
    asked = subprocess.run([options.python, "-c", "import sys; print(hasattr(sys, 'gettotalrefcount'))"],
                           capture_output=True, text=True)
    if asked.stdout.strip() != "True":
        say("skip  leaks: not a debug build (make debug)")
        return Counts(skipped=1)
    # One warm-up more than usual: what hooks remember about code objects grows until all code was called.
    run = Regrtest("leaks", options.python, ["-j1", "-R", "4:3", "--testdir", PYTHON_TESTS, *LEAK_MODULES]).run()
    counts = run.counts()
    details = [f"{name}: {run.reasons[name]}" for name in run.failed]
    if not run.finished:
        counts.failed += 1
        details.append(f"the run did not get to its end: exit code {run.step.exit_code}")
    return run.step.report(counts, details)


GROUPS = {name[len("group_"):]: function for name, function in list(globals().items()) if name.startswith("group_")}


def run_groups(options):
    """The counts of all groups: some beside each other, the others afterwards, one by one."""
    beside = [GROUPS[name] for name in options.groups if name not in ALONE]
    with ThreadPoolExecutor(options.at_once) as pool:
        total = sum(pool.map(lambda group: group(options), beside), Counts())
    for name in options.groups:
        if name in ALONE:
            total += GROUPS[name](options)
    return total


def existing_program(path):
    path = os.path.abspath(path)
    if os.path.isdir(path) or not os.access(path, os.X_OK):
        raise argparse.ArgumentTypeError(f"no such program: {path}")
    return path


def positive(text):
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError("at least 1")
    return number


def parse_arguments():
    parser = argparse.ArgumentParser(description="Runs the project's tests, and CPython's own.")
    parser.add_argument("--python", type=existing_program, required=True, help="the Ferrule to test")
    parser.add_argument("--stock", metavar="PATH", type=os.path.abspath,
                        help="a stock build of the same tree, to compare with")
    parser.add_argument("--stock-command", metavar="COMMAND",
                        help="how to build the stock one, when it is needed and not there (build/stock/python)")
    parser.add_argument("--groups", default=",".join(DEFAULT_GROUPS),
                        help=f"some of {', '.join(GROUPS)} (default %(default)s)")
    parser.add_argument("--part", nargs=2, type=positive, default=(1, 1), metavar=("K", "N"),
                        help="of the modules of the group python each Nth one, from the Kth on (default: all)")
    parser.add_argument("--suite", nargs="?", const="whole", choices=("whole", "rest"),
                        help="CPython's test suite instead, whole or without the files of the group cpython")
    parser.add_argument("--jobs", type=positive, default=1 + (os.cpu_count() or 1), help="processes for CPython's tests (default %(default)s)")
    # Tests wait for processes and for time, too: one more than there are processors keeps these busy.
    parser.add_argument("--at-once", type=positive, default=min(3, 1 + (os.cpu_count() or 1)), metavar="N",
                        help="groups of the project's own tests beside each other (default %(default)s)")
    options = parser.parse_args()
    options.groups = [name for name in options.groups.split(",") if name]
    unknown = [name for name in options.groups if name not in GROUPS]
    if unknown or not options.groups:
        parser.error(f"--groups takes some of {', '.join(GROUPS)}")
    if options.stock and not os.access(options.stock, os.X_OK):
        if not (options.suite or options.stock_command):
            parser.error(f"--stock {options.stock}: no such program")
        if not options.suite:
            options.stock = find_stock(options)
    return options


def main():
    options = parse_arguments()
    heed_interrupts()
    started = time.monotonic()
    if options.suite:
        total = run_cpython(options, "cpython-suite", ["-x", *CPYTHON_TESTS] if options.suite == "rest" else [])
    else:
        total = run_groups(options)
    say(f"({clock(time.monotonic() - started)}; logs are in {os.path.relpath(LOGS)})")
    say(str(total))
    return 0 if total.passed and not total.failed else 1


if __name__ == "__main__":
    sys.exit(main())
