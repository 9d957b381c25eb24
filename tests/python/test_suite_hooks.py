"""The hooks with which CPython's suite is run that look for frames or watch them (tests/hooked): no program notices."""

import os
import subprocess
import sys
import sysconfig
import textwrap
import unittest

import support

HOOKED = os.path.join(support.ROOT, "tests", "hooked")


def process(hook, program):
    """The program's process, which has ended, with that hook installed."""
    extension = os.path.join(support.extension_directory(), "suitehooks" + sysconfig.get_config_var("EXT_SUFFIX"))
    return subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)], text=True, capture_output=True,
        env={**os.environ, "PYTHONPATH": HOOKED, "FERRULE_SUITE_HOOK": hook, "FERRULE_SUITE_EXTENSION": extension})


def run(hook, program):
    """What the program prints while that hook is installed."""
    done = process(hook, program)
    if done.returncode:
        raise AssertionError(f"exit code {done.returncode}\n{done.stderr}")
    return done.stdout


@support.needs_framecore
class ObservingHook(unittest.TestCase):
    def assertSameOutput(self, program):
        expected = run("copy", program)
        self.assertNotEqual(expected, "")
        self.assertEqual(run("observe", program), expected)

    def test_it_looks_during_a_dispatch(self):
        program = """
            import sys
            events = set()
            sys.addaudithook(lambda event, arguments: events.add(event))
            for _ in range(64):
                exec("def called(): pass\\ncalled()")
            print(events >= {"sys._getframe", "sys._getframemodulename", "sys._current_frames"})
            """
        self.assertEqual(run("observe", program), "True\n")
        self.assertEqual(run("copy", program), "False\n")

    def test_its_modules_are_its_own(self):
        self.assertSameOutput("import sys; print(sorted(sys.modules), sys.modules['os'].path.__name__)")

    def test_trace_functions_do_not_see_it(self):
        self.assertSameOutput("""
            import sys
            def trace(frame, event, argument):
                print(frame.f_code.co_name, event)
                return trace
            def called(n):
                return n and called(n - 1)
            sys.settrace(trace)
            called(40)
            sys.settrace(None)
            """)

    def test_its_warnings_meet_no_filter(self):
        self.assertSameOutput("""
            import warnings
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                for _ in range(64):
                    exec("def called(): pass\\ncalled()")
                warnings.warn("the program's own")
            print([str(warning.message) for warning in caught], "__warningregistry__" in globals())
            """)

    def test_a_frame_that_it_keeps_is_dropped_at_the_next_call(self):
        program = """
            import weakref
            class Thing: pass
            def _callTestMethod(method): return method()
            def later(): pass
            def method():
                thing = Thing()
                later()
                return weakref.ref(thing)
            seen = _callTestMethod(method)
            print(seen() is None)
            later()
            print(seen() is None)
            """
        self.assertEqual(run("observe", program), "False\nTrue\n")
        self.assertEqual(run("copy", program), "True\nTrue\n")

    def test_what_signal_handlers_raise_meanwhile_reaches_the_program(self):
        program = """
            import signal, sys
            class Rung(Exception): pass
            def ring(*arguments): raise Rung
            signal.signal(signal.SIGUSR1, ring)
            sys.addaudithook(lambda event, arguments: event == "sys._getframe" and signal.raise_signal(signal.SIGUSR1))
            heard = False
            for _ in range(64):
                try:
                    exec("def called(): pass\\ncalled()")
                except Rung:
                    heard = True
            print(heard)
            """
        self.assertEqual(run("observe", program), "True\n")
        self.assertEqual(run("copy", program), "False\n")


# What a program begins with that uses the extension, and the hook in Python, by itself.
LOAD = """
import os, _imp
from importlib.machinery import ModuleSpec
suitehooks = _imp.create_dynamic(ModuleSpec("suitehooks", None, origin=os.environ["FERRULE_SUITE_EXTENSION"]))
_imp.exec_dynamic(suitehooks)
def called(): pass
def other(): pass
"""
WATCHER = LOAD + """
from collections import namedtuple
import suitewatcher
suitewatcher.watch(suitehooks)
Event = namedtuple("Event", "kind value code data")
word = suitehooks.FrameData(called.__code__)
word.begin()
"""

# Frames that end in every way, and the kinds of events that come of them.
ALL_WAYS = """
    import asyncio, os, sys, threading
    def generator():
        yield 1
        return 2
    def delegates():
        return (yield from generator())
    def fails():
        raise ValueError
    def deep(n):
        return n and deep(n - 1)
    def without_end():
        return without_end()
    async def asynchronous():
        yield 1
        await asyncio.sleep(0)
        yield 2
    async def main():
        async for _ in asynchronous():
            pass
        async for _ in asynchronous():
            break
    class Drops:
        def __del__(self):
            deep(3)
    for _ in range(40):
        list(delegates()), deep(20)
        closed, never_begun, dropped, thrown = delegates(), generator(), delegates(), delegates()
        for each in closed, dropped, thrown:
            next(each)
        closed.close()
        del dropped, never_begun
        for each, error in (thrown, KeyError), (generator(), KeyError):
            try:
                each.throw(error)
            except KeyError:
                pass
        try:
            fails()
        except ValueError:
            pass
        Drops()
    try:
        without_end()
    except RecursionError:
        pass
    asyncio.run(main())
    thread = threading.Thread(target=lambda: list(delegates()))
    thread.start()
    thread.join()
    left = delegates()
    next(left)
"""


@support.needs_framecore
class WatchingHooks(unittest.TestCase):
    HOOKS = "watch", "watch-python"

    def assertSameOutput(self, program):
        expected = run("", program)
        self.assertNotEqual(expected, "")
        for hook in self.HOOKS:
            with self.subTest(hook):
                self.assertEqual(run(hook, program), expected)

    def assertFatal(self, program, message):
        done = process("", program)
        self.assertNotEqual(done.returncode, 0)
        self.assertRegex(done.stderr, f"Fatal Python error: suitehooks: .*{message}")

    def test_every_frame_is_watched(self):
        for hook in self.HOOKS:
            with self.subTest(hook):
                self.assertEqual(run(hook, """
                    import framehook
                    def calls():
                        return framehook.hooks()[0].calls
                    def called():
                        pass
                    before = calls()
                    for _ in range(1_000):
                        called()
                    print(calls() - before - 1, framehook.hooks()[0].errors)
                    """), "1000 0\n")

    def test_all_ways_to_end_are_right(self):
        self.assertSameOutput(ALL_WAYS + "    print('done')")

    def test_its_modules_are_its_own(self):
        self.assertSameOutput("import sys; print(sorted(sys.modules), sys.path[2:])")

    def test_trace_functions_do_not_see_it(self):
        for setter in ("sys.settrace", "sys.setprofile"):
            self.assertSameOutput(f"""
                import sys
                def trace(frame, event, argument):
                    print(frame.f_code.co_name, event)
                    return trace
                def generator():
                    yield 1
                def called(n):
                    return n and called(n - 1)
                {setter}(trace)
                called(40), list(generator())
                {setter}(None)
                """)

    def test_patched_builtins_do_not_reach_it(self):
        self.assertSameOutput("""
            import builtins
            def fails():
                raise KeyError
            saved = builtins.isinstance
            builtins.isinstance = lambda *arguments: 1 / 0
            try:
                fails()
            except KeyError:
                print("KeyError")
            builtins.isinstance = saved
            """)

    def test_collections_come_when_they_would(self):
        self.assertSameOutput("""
            import gc
            gc.collect()
            def called():
                return 1
            before = gc.get_count()[0]
            for _ in range(500):
                called()
            print(gc.get_count()[0] - before < 10)
            """)

    def test_forked_children(self):
        self.assertSameOutput(ALL_WAYS + """
    import time, warnings
    warnings.simplefilter("ignore")
    waiting = threading.Event()
    def waits():
        yield waiting.wait()
    others = [threading.Thread(target=list, args=(waits(),)) for _ in range(3)]
    for other in others:
        other.start()
    child = os.fork()
    if not child:
        deep(20), list(delegates())
        sys.exit(3)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
    waiting.set()
    for other in others:
        other.join()
""")

    def test_subinterpreters(self):
        for kind in ("legacy", "isolated"):
            self.assertSameOutput(f"""
    import _interpreters
    program = {textwrap.dedent(ALL_WAYS)!r}
    for _ in range(3):
        inside = _interpreters.create({kind!r})
        print(_interpreters.exec(inside, program))
        _interpreters.destroy(inside)
""")

    def test_daemon_threads_at_the_end(self):
        self.assertSameOutput(ALL_WAYS + """
    def sleeps():
        yield threading.Event().wait()
    for _ in range(3):
        threading.Thread(target=list, args=(sleeps(),), daemon=True).start()
    print("end")
""")

    def test_what_signal_handlers_raise_within_it_is_excused(self):
        self.assertSameOutput("""
            import signal, threading
            class Rung(Exception): pass
            def ring(*arguments): raise Rung
            signal.signal(signal.SIGALRM, ring)
            def generator():
                for n in range(30):
                    yield n
            count = 0
            while count < 200:
                try:
                    signal.setitimer(signal.ITIMER_REAL, 0.0005)
                    while True:
                        list(generator())
                except Rung:
                    count += 1
            print(count)
            """)

    def test_each_check_of_the_hook_in_c_ends_the_process(self):
        for what, message in {
            "unknown kind": "unknown kind 5", "no value": "value", "no exception": "value",
            "a value of a drop": "value",
            "order": "of kind 2 of called, which is plain", "other code": "not the frame's code",
            "end twice": "which is over", "other thread": "in thread", "dropped in its thread": "in thread",
            "other interpreter": "another interpreter", "exception": "an exception is set",
            "during a callback": "another is in progress", "after the user data": "user data is freed",
            "user data twice": "user data is freed twice", "freed early": "freed while its frame is plain",
            "freed twice": "data is freed: data .* is freed", "after the data": "an event: data .* is freed",
            "freed during a callback": "freed during a callback",
            "visited while it runs": "visited while its frame is plain", "left": "data of 1 frames is not freed at the end",
        }.items():
            with self.subTest(what):
                self.assertFatal(f"{LOAD}suitehooks.misuse({what!r}, called.__code__)", message)

    def test_each_check_of_the_hook_in_python_ends_the_process(self):
        for events, message in {
            "('yielded', 1, called.__code__, word)": "'yielded' of called in state 2: impossible",
            "('resumed', None, called.__code__, word)": "impossible",
            "('odd', 1, called.__code__, word)": "impossible",
            "('returned', 1, called.__code__, word), ('returned', 1, called.__code__, word)": "in state 6: impossible",
            "('raised', 1, called.__code__, word)": "no exception",
            "('dropped', 1, called.__code__, word)": "has a value",
            "('returned', 1, other.__code__, word)": "not the frame's code",
        }.items():
            with self.subTest(events):
                self.assertFatal(f"{WATCHER}for event in [{events}]: suitewatcher.check_event(Event(*event))", message)
        self.assertFatal(f"{WATCHER}del word", "freed while its frame is plain")
