"""Profiles of threads, greenlets and forks."""

import os
import subprocess
import sys
import sysconfig
import threading
import unittest
import zipfile

from profiler_support import ProfilerTestCase, load, times_from_a_timer

setUpModule = load


def fib(n):
    return n if n < 2 else fib(n - 1) + fib(n - 2)


def in_threads(number, target, *args):
    threads = [threading.Thread(target=target, args=args, name=f"worker {n}")
               for n in range(number)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


class Threads(ProfilerTestCase):
    def test_calls_of_all_threads_are_counted_to_the_last(self):
        def work():
            for _ in range(20):
                fib(10)
                list(numbers(10))

        def numbers(n):
            for i in range(n):
                yield fib(i % 3)

        with self.profiler.profile() as profile:
            in_threads(4, work)
            work()
        result = profile.result
        self.assertEqual(result.find("work")[0].calls, 5)
        self.assertEqual(result.find("numbers")[0].calls, 100)
        self.assertEqual(result.find("numbers")[0].runs, 1100)
        each = 20 * (177 + sum((1, 1, 3)[i % 3] for i in range(10)))
        self.assertEqual(result.find("fib")[0].calls, 5 * each)
        names = {thread.name for thread in result.threads}
        self.assertLessEqual({"MainThread", *(f"worker {n}" for n in range(4))}, names)

    def test_started_while_other_threads_run(self):
        may_continue, running = threading.Event(), threading.Semaphore(0)

        def work():
            running.release()
            while not may_continue.is_set():
                fib(3)

        threads = [threading.Thread(target=work) for _ in range(3)]
        self.addCleanup(lambda: [thread.join() for thread in threads])
        self.addCleanup(may_continue.set)
        for thread in threads:
            thread.start()
            running.acquire()
        for _ in range(20):
            with self.profiler.profile() as profile:
                fib(12)
            result = profile.result
            self.assertEqual(result.find("work"), [])
            fib_, = result.find("fib")
            self.assertGreaterEqual(fib_.calls, 465)
            self.assertLessEqual(fib_.own, fib_.total + 1e-6)

    def test_many_threads_that_end(self):
        with self.profiler.profile() as profile:
            for _ in range(50):
                in_threads(4, fib, 5)
        result = profile.result
        self.assertEqual(result.find("fib")[0].calls, 200 * 15)
        self.assertEqual(result.find("fib")[0].recursive, 200 * 14)
        self.assertLess(len(result.threads), 150)
        runs = sum(runs for thread in result.threads for path, runs, _ in thread.paths
                   if result.functions[path[-1]].name == "fib")
        self.assertEqual(runs, 200 * 15)

    def test_exit_in_a_thread(self):
        def leave():
            fib(5)
            sys.exit(3)

        with self.profiler.profile() as profile:
            in_threads(2, leave)
        leave_, = profile.result.find("leave")
        self.assertEqual((leave_.calls, leave_.raised), (2, 2))

    def test_the_gil_stays_off(self):
        if not sysconfig.get_config_var("Py_GIL_DISABLED"):
            self.skipTest("no free-threaded build")
        self.assertEqual(os.environ.get("PYTHON_GIL") == "1", sys._is_gil_enabled())

    def test_trace_functions_see_nothing_of_it(self):
        seen = set()

        def trace(frame, event, arg):
            seen.add(frame.f_code.co_name)

        def work():
            fib(2)

        thread = threading.Thread(target=work)
        with self.profiler.profile() as profile:
            threading.settrace(trace)
            try:
                thread.start()
                thread.join()
            finally:
                threading.settrace(None)
        self.assertEqual(profile.result.find("work")[0].calls, 1)
        self.assertLessEqual({"work", "fib"}, seen)
        self.assertEqual(seen & {"enumerate", "name", "current_thread", "get_name"}, set())

    def test_one_profile_at_a_time(self):
        with self.profiler.profile():
            with self.assertRaisesRegex(RuntimeError, "being made already"):
                self.profiler.start()
            self.assertRaises(RuntimeError, in_this_thread, self.profiler.start)
        with self.assertRaisesRegex(RuntimeError, "no profile is being made"):
            self.profiler.stop()
        with self.profiler.profile() as profile:
            fib(3)
        with self.assertRaisesRegex(RuntimeError, "started once"):
            profile.start()
        with self.profiler.profile() as again:
            fib(4)
        self.assertEqual([p.result.find("fib")[0].calls for p in (profile, again)], [5, 9])


def in_this_thread(function):
    errors = []

    def run():
        try:
            function()
        except RuntimeError as error:
            errors.append(error)

    in_threads(1, run)
    raise errors[0]


class Forks(ProfilerTestCase):
    def test_a_child_counts_from_the_fork_on(self):
        source = """
import os, sys, ferrule_profiler
def fib(n): return n if n < 2 else fib(n - 1) + fib(n - 2)
def forks():
    fib(10)
    if child := os.fork():
        os.waitpid(child, 0)
        fib(5)
    else:
        fib(3)
profile = ferrule_profiler.start()
parent = os.getpid()
forks()
profile.stop()
result = profile.result
fib_, forks_ = result.find("fib")[0], result.find("forks")[0]
print(os.getpid() == parent, fib_.calls, forks_.calls, fib_.own <= forks_.total, flush=True)
os._exit(0)
"""
        lines = self.run_python("-c", source).stdout.splitlines()
        self.assertEqual(sorted(lines), ["False 5 0 True", "True 192 1 True"])


def has_greenlet():
    return not subprocess.run([sys.executable, "-c", "import greenlet"],
                              capture_output=True).returncode


class Subinterpreters(ProfilerTestCase):
    """Calls in them are not counted, and what a program uses of the package does nothing there."""

    SOURCE = """
import ferrule_profiler
def leaf(n): return n
def outer(n):
    with ferrule_profiler.label("there"):
        return [leaf(n) for n in range(n)]
outer(20)
assert list(ferrule_profiler.web.wsgi(lambda environ, start: [b"done"])({}, None)) == [b"done"]
assert "does not support loading in subinterpreters" in ferrule_profiler.available(), ferrule_profiler.available()
for refused in (ferrule_profiler.start, ferrule_profiler.profile, lambda: ferrule_profiler.profiled(leaf)):
    try:
        refused()
    except ferrule_profiler.ProfilerError:
        pass
    else:
        raise AssertionError(refused)
"""

    @unittest.skipIf(sysconfig.get_config_var("Py_GIL_DISABLED"), "CPython 3.13 without the GIL hangs where a second subinterpreter makes classes")
    def test_a_profile_does_not_see_them(self):
        import _interpreters
        source = f"import sys; sys.path[:] = {sys.path!r}\n{self.SOURCE}"

        def leaf(n):
            return n
        kinds = [{}, {"count": True}, {"cpu": True, "lines": ["leaf"]}, {"trace": 1000, "arguments": True}, {"builtins": True}]
        for options in kinds + [{"sample": True}] * times_from_a_timer():
            interpreter = _interpreters.create()
            with self.subTest(options), self.profiler.profile(**options) as profile, self.profiler.label("here"):
                leaf(1)
                errors = [_interpreters.run_string(interpreter, source)]
                thread = threading.Thread(target=lambda: errors.append(_interpreters.run_string(interpreter, source)))
                thread.start()
                thread.join()
                leaf(2)
            _interpreters.destroy(interpreter)
            self.assertEqual(errors, [None, None])
            counts = {function.name: function.calls for function in profile.result.functions.values()}
            self.assertEqual((counts["leaf"], counts["here"]), (2, 1))
            self.assertEqual(counts.keys() & {"outer", "there"}, set())
            for lines in profile.result.lines.values():
                self.assertEqual([line.runs for line in lines.values()], [0, 2])


class Greenlets(ProfilerTestCase):
    SOURCE = """
import sys, ferrule_profiler
LATE = {late}
if not LATE:
    import greenlet
def fib(n): return n if n < 2 else fib(n - 1) + fib(n - 2)
def ping(n):
    for _ in range(n):
        fib(5)
        other.switch()
def pong():
    while True:
        fib(4)
        hub.switch()
def nested():
    greenlet.greenlet(fib).switch(6)
def run():
    global hub, other
    hub, other = greenlet.getcurrent(), greenlet.greenlet(pong)
    ping(50)
    nested()
    left = greenlet.greenlet(ping)
    del left, other
with ferrule_profiler.profile() as profile:
    import greenlet
    assert greenlet.gettrace()
    run()
assert not greenlet.gettrace()
assert not any("Greenlets" in repr(finder) for finder in sys.meta_path)
result = profile.result
print(*(result.find(name)[0].calls for name in ("fib", "ping", "pong", "nested", "run")))
for function in result.functions.values():
    assert function.own <= function.total + 1e-6, function
    assert function.total <= result.seconds + 1e-6, function
print(result.find("run")[0].total <= result.seconds)
"""

    def test_stopped_in_another_thread(self):
        if not has_greenlet():
            self.skipTest("greenlet is not installed here")
        done = self.run_python("-c", """
import ferrule_profiler, greenlet, threading
ferrule_profiler.start()
thread = threading.Thread(target=ferrule_profiler.stop)
thread.start()
thread.join()
greenlet.greenlet(int).switch()
print(greenlet.gettrace())
""")
        self.assertEqual(done.stdout, "None\n")

    def test_switches_do_not_mix_up_calls(self):
        if not has_greenlet():
            self.skipTest("greenlet is not installed here")
        for late in (False, True):
            with self.subTest(late=late):
                done = self.run_python("-c", self.SOURCE.format(late=late))
                self.assertEqual(done.stdout.split(),
                                 [str(50 * 15 + 50 * 9 + 25), "1", "1", "1", "1", "True"])

    def test_imported_in_another_thread(self):
        if not has_greenlet():
            self.skipTest("greenlet is not installed here")
        done = self.run_python("-c", """
import ferrule_profiler, sys, threading
finders = list(sys.meta_path)
with ferrule_profiler.profile() as profile:
    def use():
        import greenlet
        print(greenlet.greenlet(int).switch(), greenlet.gettrace())
    thread = threading.Thread(target=use)
    thread.start()
    thread.join()
print(sys.meta_path == finders, profile.result.find("use")[0].calls)
""")
        self.assertEqual(done.stdout, "0 None\nTrue 1\n")

    def test_other_modules_named_greenlet(self):
        directory = self.directory()
        os.mkdir(os.path.join(directory, "greenlet"))       # a namespace, where nothing else is found
        with zipfile.ZipFile(os.path.join(directory, "greenlet.zip"), "w") as file:
            file.writestr("greenlet.py", "x = 1")
            file.writestr("other.py", "settrace = gettrace = None")
        for place in (directory, os.path.join(directory, "greenlet.zip")):
            done = self.run_python("-c", """
import ferrule_profiler, sys
sys.path.insert(0, sys.argv[1])
finders = list(sys.meta_path)
with ferrule_profiler.profile():
    import greenlet
    if sys.argv[1].endswith(".zip"):
        import other
        assert "exec_module" not in vars(greenlet.__loader__)
assert sys.meta_path == finders
print("imported")
""", place)
            self.assertEqual(done.stdout, "imported\n")

    def test_greenlet_that_cannot_be_imported(self):
        done = self.run_python("-c", """
import ferrule_profiler, sys
sys.path.insert(0, sys.argv[1])
for text in (None, "raise ImportError('broken')", "x = 1"):
    if text is not None:
        with open(sys.argv[1] + "/greenlet.py", "w") as file:
            file.write(text)
    sys.path_importer_cache.clear()
    finders = list(sys.meta_path)
    with ferrule_profiler.profile():
        try:
            import greenlet
            print("imported")
        except ImportError as error:
            print(error)
    assert sys.meta_path == finders
    sys.modules.pop("greenlet", None)
    sys.path_importer_cache.clear()
""", self.directory())
        self.assertEqual(done.stdout.split("\n")[1:], ["broken", "imported", ""])
