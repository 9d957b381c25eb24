"""C functions and samples."""

import gc
import json
import os
import sys
import threading
import unittest

import profiler_programs
from profiler_support import PROGRAMS, ProfilerTestCase, load, times_from_a_timer

setUpModule = load


class Builtins(ProfilerTestCase):
    maxDiff = None

    def counted(self, name, profiler):
        return json.loads(self.run_python(PROGRAMS, name, profiler, "builtins").stdout)

    def test_counts_are_those_of_cprofile(self):
        for program in profiler_programs.PROGRAMS:
            if program is profiler_programs.asyncio_tasks:
                continue        # it waits for as long as the machine takes
            with self.subTest(program.__name__):
                self.assertEqual(self.counted(program.__name__, "ferrule"),
                                 self.counted(program.__name__, "cProfile"))

    def test_an_exception_of_a_c_function(self):
        with self.profiler.profile(builtins=True) as profile:
            with self.assertRaises(ValueError):
                [].index(1)
        index, = profile.result.find("<method 'index' of 'list' objects>")
        self.assertEqual((index.kind, index.calls, index.raised), ("builtin", 1, 1))

    def test_another_tool_is_named(self):
        monitoring = sys.monitoring
        monitoring.use_tool_id(monitoring.PROFILER_ID, "another tool")
        self.addCleanup(monitoring.free_tool_id, monitoring.PROFILER_ID)
        with self.assertRaisesRegex(RuntimeError, "another profiler, another tool"):
            self.profiler.start(builtins=True)
        with self.profiler.profile():
            pass

    def test_objects_live_as_long_as_alone(self):
        died = []

        class Dies(list):
            def __del__(self):
                died.append(1)

        def use():
            append = Dies().append
            append(1)

        with self.profiler.profile(builtins=True) as profile:
            use()
            use()
            gc.collect()
            self.assertEqual(len(died), 2)
        self.assertTrue(profile.result.find("<method 'append' of 'list' objects>"))

    def test_what_the_profiler_calls_is_not_in_it(self):
        with self.profiler.profile(builtins=True) as profile:
            abs(1)
        self.assertEqual([f.name for f in profile.result.functions.values()],
                         ["<built-in method builtins.abs>"])

    def test_nothing_is_left_of_it(self):
        with self.profiler.profile(builtins=True):
            len("")
        self.assertIsNone(sys.monitoring.get_tool(sys.monitoring.PROFILER_ID))


@unittest.skipIf(times_from_a_timer(), "there are times from a timer")
class NoSamples(ProfilerTestCase):
    def test_it_is_said(self):
        with self.assertRaisesRegex(self.profiler.ProfilerError, "times from a timer need the GIL"):
            self.profiler.start(sample=True)
        with self.profiler.profile(count=True) as profile:
            profiler_programs.recursion()
        self.assertEqual(profile.result.find("fib")[0].calls, 1219)


@unittest.skipUnless(times_from_a_timer(), "there are no times from a timer")
class Samples(ProfilerTestCase):
    def test_counts_are_exact_and_times_go_to_who_runs(self):
        waiting = threading.Event()

        def busy():
            # Until a thread has looked.
            while not any("busy" in str(path) for path in seen()):
                profiler_programs.recursion()

        def seen():
            names = profile._sampler.kept
            return [[code.co_name for code in list(names.values())]]

        def sleeper():
            waiting.wait()

        thread = threading.Thread(target=sleeper)
        with self.profiler.profile(sample=0.001) as profile:
            thread.start()
            busy()
            profiler_programs.recursion()
            waiting.set()
            thread.join()
        result = profile.result
        fib, = result.find("fib")
        self.assertEqual(fib.calls % 1219, 0)
        self.assertGreaterEqual(fib.calls, 1219)
        self.assertGreater(result.find("busy")[0].total, 0)
        self.assertEqual(result.find("sleeper")[0].calls, 1)
        for function in result.functions.values():
            self.assertLessEqual(function.own, function.total)

    def test_threads_of_other_interpreters_are_left_alone(self):
        try:
            import _interpreters
        except ImportError:
            self.skipTest("no subinterpreters here")
        other = _interpreters.create()
        self.addCleanup(_interpreters.destroy, other)

        reading, writing = os.pipe()
        self.addCleanup(os.close, reading)
        os.set_blocking(reading, False)

        def elsewhere():
            _interpreters.exec(other, f"""
import os
def inside(): pass
while True:
    for _ in range(1000): inside()
    try:
        os.read({reading}, 1)
        break
    except BlockingIOError:
        pass
""")

        def busy():
            # It has a GIL of its own: until one of the looks, which need this one, has seen both threads.
            try:
                while {"busy", "elsewhere"} - {code.co_name for code in list(profile._sampler.kept.values())}:
                    profiler_programs.recursion()
            finally:
                os.close(writing)
                thread.join()

        thread = threading.Thread(target=elsewhere)
        with self.profiler.profile(sample=0.0005) as profile:
            thread.start()
            busy()
        self.assertEqual(profile.result.find("inside"), [])
        self.assertGreater(profile.result.find("busy")[0].total, 0)
        self.assertGreater(profile.result.find("elsewhere")[0].own, 0)

    def test_interpreters_come_and_go(self):
        self.profile_program("""
import threading
try:
    import _interpreters
except ImportError:
    raise SystemExit
def use():
    for _ in range(5):
        other = _interpreters.create()
        _interpreters.exec(other, "def f(n): return n and f(n - 1)\\nfor _ in range(500): f(50)")
        _interpreters.destroy(other)
threads = [threading.Thread(target=use) for _ in range(2)]
for thread in threads:
    thread.start()
use()
for thread in threads:
    thread.join()
""", "--sample")

    def test_audit_hooks_see_nothing_of_it(self):
        done, _ = self.profile_program("""
import sys, time
seen = set()
sys.addaudithook(lambda event, args: seen.add(event))
time.sleep(0.1)
print("sys._current_frames" in seen)
""", "--sample")
        self.assertEqual(done.stdout, "False\n")

    def test_threads_that_call_nothing(self):
        """They are there with their times, and the profiler's own threads are not, whatever they call."""
        done = self.run_python("-c", """
import sys, threading, time
import ferrule_profiler
from ferrule_profiler import _ticker

def endless():
    n = 0
    while not ended:
        n += 1

def own():
    asked.append(sorted(range(3), key=lambda n: n))
    time.sleep(0.001)

ended, asked, profile = False, [], ferrule_profiler.Profile(sample=0.001)
thread = threading.Thread(target=endless, name="of no calls")
thread.start()
with profile:
    ticker = _ticker.Ticker(0.001, own, profile.leave_out_this_thread)
    ticker.start()
    while "endless" not in {code.co_name for code in list(profile._sampler.kept.values())} or len(asked) < 50:
        time.sleep(0.001)
    ticker.stop()
ended = True
found = profile.result
print(sorted(thread.name for thread in found.threads), found.find("endless")[0].own > 0, found.find("endless")[0].calls)
print(all(thread.cpu <= thread.seconds for thread in found.threads if thread.name == "of no calls"))
""")
        self.assertEqual(done.stdout.splitlines(), ["['MainThread', 'of no calls'] True 0", "True"])

    def test_no_thread_can_be_started(self):
        import ferrule_profiler._ticker as ticker

        def refuse(*args):
            raise RuntimeError("can't start new thread")

        start, ticker.start_new_thread = ticker.start_new_thread, refuse
        try:
            with self.assertRaisesRegex(RuntimeError, "can't start"):
                self.profiler.start(sample=True)
        finally:
            ticker.start_new_thread = start
        with self.profiler.profile(sample=True) as profile:
            profiler_programs.recursion()
        self.assertEqual(profile.result.find("fib")[0].calls, 1219)

    def test_what_does_not_go_together(self):
        for options in ({"trace": -1}, {"sample": -0.1}, {"arguments": True}):
            with self.assertRaises(ValueError):
                self.profiler.Profile(**options)
        for options in ({"builtins": True}, {"trace": 10}):
            for mode in ("count", "sample"):
                with self.assertRaises(ValueError):
                    self.profiler.Profile(**{mode: True}, **options)
