"""Whether anybody observes calls of a code object: never missed, whatever observes it and in whatever order it comes and goes."""

import contextlib
import itertools
import os
import random
import re
import shutil
import subprocess
import sys
import threading
import unittest

from support import FREE_THREADED, extension_directory, needs_hooks, use_extensions

use_extensions()
try:
    import compilers
    import evaluators
    import framehook
except ImportError:     # stock CPython
    framehook = None

EVENTS = sys.monitoring.events
LOCAL = ("PY_START", "PY_RETURN", "LINE", "INSTRUCTION", "JUMP", "BRANCH", "CALL", "STOP_ITERATION")
GLOBAL = (*LOCAL, "RAISE", "EXCEPTION_HANDLED", "PY_UNWIND", "PY_THROW", "RERAISE")
# Nothing is thrown into it, and a `for` loop over a generator reports its end where it is specialized.
UNSEEN = {"all PY_THROW", *(("all STOP_ITERATION", "own STOP_ITERATION") if FREE_THREADED else ())}
TOOL, LOCAL_TOOL = 3, 4


def seen(leaves=False):
    """What all observers below have something to see of."""
    for _ in (x for x in (1,)):
        try:
            raise KeyError
        except KeyError:
            pass
        len(())
    if leaves:
        try:
            raise LookupError
        finally:
            len(())
    return leaves


def run():
    seen()
    with contextlib.suppress(LookupError):
        seen(True)


class Observers:
    """Ways to observe calls of `seen`. Each counts what it sees of it, and nothing of anything else."""

    def __init__(self):
        self.count = 0
        self.on = {}
        for tool in (TOOL, LOCAL_TOOL):
            sys.monitoring.use_tool_id(tool, f"observer {tool}")
            for name in GLOBAL:
                sys.monitoring.register_callback(tool, getattr(EVENTS, name), self.on_event)
        self.ways = {
            "trace": (lambda: sys.settrace(self.tracer), lambda: sys.settrace(None)),
            "profile": (lambda: sys.setprofile(self.profiler), lambda: sys.setprofile(None)),
            "hook": (lambda: framehook.add(self.hook, name="observer"), lambda: framehook.remove(self.hook)),
            "hook of this thread": (lambda: framehook.add(self.own_hook, this_thread=True), lambda: framehook.remove(self.own_hook)),
            "evaluator": (self.set_evaluator, lambda: evaluators.set("default")),
            **{f"all {name}": self.monitor(name, lambda events: sys.monitoring.set_events(TOOL, events)) for name in GLOBAL},
            **{f"own {name}": self.monitor(name, lambda events: sys.monitoring.set_local_events(LOCAL_TOOL, seen.__code__, events))
               for name in LOCAL},
        }

    def monitor(self, name, set_events):
        return (lambda: set_events(getattr(EVENTS, name)), lambda: set_events(0))

    def set_evaluator(self):
        evaluators.take_count()
        evaluators.set("count")

    def on_event(self, code, *rest):
        self.count += code is seen.__code__

    def tracer(self, frame, event, arg):
        self.count += frame.f_code is seen.__code__
        return self.tracer

    def profiler(self, frame, event, arg):
        self.count += frame.f_code is seen.__code__

    def hook(self, view):
        self.count += view.code is seen.__code__

    def own_hook(self, view):
        self.count += view.code is seen.__code__

    def switch(self, name):
        on = self.on[name] = not self.on.get(name)
        self.ways[name][not on]()

    def call(self):
        """Has the interpreter call it; whether anybody has seen that."""
        before = self.count
        evaluators.take_count()
        run()
        return self.count != before or evaluators.take_count() != 0

    def close(self):
        for name, on in self.on.items():
            if on:
                self.switch(name)
        for tool in (TOOL, LOCAL_TOOL):
            for name in GLOBAL:
                sys.monitoring.register_callback(tool, getattr(EVENTS, name), None)
            sys.monitoring.free_tool_id(tool)


@needs_hooks
class NeverMissed(unittest.TestCase):
    def setUp(self):
        self.observers = Observers()
        self.addCleanup(self.observers.close)
        self.word = compilers.observers(seen.__code__)
        run()

    def see_no_observer(self):
        """Without observers: after a call by the interpreter the word says so."""
        run()
        self.assertFalse(compilers.is_observed(seen.__code__))
        self.assertFalse(compilers.may_be_observed(self.word))

    def check(self, *on):
        """Before the call and after it: who sees a call is announced."""
        for _ in range(2):
            announced = compilers.may_be_observed(self.word)
            observed = compilers.is_observed(seen.__code__)
            if self.observers.call():
                self.assertTrue(announced, on)
                self.assertTrue(observed, on)

    def test_each_alone(self):
        for name in self.observers.ways:
            with self.subTest(name):
                self.see_no_observer()
                self.observers.switch(name)
                try:
                    announced = compilers.may_be_observed(self.word)
                    self.assertTrue(self.observers.call() or name in UNSEEN, "the test's own observer sees nothing")
                    self.assertTrue(announced)
                    self.check(name)
                finally:
                    self.observers.switch(name)
                self.see_no_observer()

    def test_each_pair_in_both_orders(self):
        for pair in itertools.permutations(self.observers.ways, 2):
            self.see_no_observer()
            for name in (*pair, *pair):
                self.observers.switch(name)
                self.check(pair, name)

    def test_all_combinations_of_kinds(self):
        kinds = "trace", "profile", "hook", "hook of this thread", "evaluator", "all LINE", "all RAISE", "own JUMP", "own PY_RETURN"
        for chosen in itertools.product((False, True), repeat=len(kinds)):
            names = [name for name, on in zip(kinds, chosen, strict=True) if on]
            self.see_no_observer()
            for name in names:
                self.observers.switch(name)
            self.check(names)
            for name in reversed(names):
                self.observers.switch(name)
        self.see_no_observer()

    def test_at_random(self):
        generator = random.Random(52)
        names = list(self.observers.ways)
        for step in range(3_000):
            name = generator.choice(names)
            self.observers.switch(name)
            if generator.random() < 0.5:
                compilers.is_observed(seen.__code__)
            self.check(step, self.observers.on)
            if generator.random() < 0.2:
                for name, on in self.observers.on.items():
                    if on:
                        self.observers.switch(name)
                self.see_no_observer()

    def test_a_hook_that_is_disabled_for_the_code_and_enabled_again(self):
        self.see_no_observer()
        self.observers.switch("hook")
        self.check("added")
        framehook.disable_for_code(self.observers.hook, seen)
        run()
        self.assertFalse(compilers.is_observed(seen.__code__))
        self.assertFalse(compilers.may_be_observed(self.word))
        framehook.enable_for_code(self.observers.hook, seen)
        announced = compilers.may_be_observed(self.word)
        self.assertTrue(self.observers.call())
        self.assertTrue(announced)
        with framehook.disabled_for_code(self.observers.hook, seen):
            run()
            self.assertFalse(compilers.is_observed(seen.__code__))
            self.assertFalse(compilers.may_be_observed(self.word))
        self.assertTrue(compilers.may_be_observed(self.word))
        for off, on in ((framehook.disable, framehook.enable), (framehook.disable_in_thread, framehook.enable_in_thread)):
            off(self.observers.hook)
            run()
            self.assertFalse(compilers.is_observed(seen.__code__))
            on(self.observers.hook)
            announced = compilers.may_be_observed(self.word)
            self.assertTrue(self.observers.call())
            self.assertTrue(announced)

    def test_a_hook_of_another_thread(self):
        self.see_no_observer()
        begins, ends = threading.Event(), threading.Event()

        def other():
            framehook.add(self.observers.own_hook, this_thread=True)
            begins.set()
            ends.wait()
            framehook.remove(self.observers.own_hook)
        thread = threading.Thread(target=other)
        thread.start()
        begins.wait()
        run()
        # The word is for all threads, the question for this one.
        self.assertTrue(compilers.may_be_observed(self.word))
        self.assertFalse(compilers.is_observed(seen.__code__))
        ends.set()
        thread.join()
        self.see_no_observer()

    def test_pending_work(self):
        self.see_no_observer()
        self.assertEqual(compilers.may_be_observed_while_pending(self.word), (False, True))
        self.see_no_observer()

    def calls_of(self, hook):
        """How often the hook was called. A first call of this method is one of that."""
        return next(info.calls for info in framehook.hooks() if info.id == hook)

    def test_the_hook_that_watches_code_without_loops_is_called_when_an_observer_has_come_or_gone(self):
        def plain():
            return 1
        hook = compilers.add_hook(None)
        self.addCleanup(compilers.remove, hook)
        self.assertEqual(compilers.watch_loops(hook, plain.__code__, 65_535), 0)
        # This one has a loop, which is counted anew instead.
        self.assertEqual(compilers.watch_loops(hook, seen.__code__, 65_535), 1)
        again = 0 if FREE_THREADED else 1

        def calls():
            for _ in range(2):
                plain()
                run()
            return self.calls_of(hook)

        def change(name, switch):
            for _ in range(2):      # the observer's own code is new to the hook
                switch()
                calls()
            before = calls()
            self.assertEqual(calls(), before, name)
            switch()
            calls()
            on = calls()
            self.assertEqual(calls(), on, name)
            switch()
            self.assertEqual(calls(), on + again, name)
            self.assertGreaterEqual(on, before + again, name)

        local = itertools.cycle((EVENTS.PY_RETURN, 0))
        change("local events", lambda: sys.monitoring.set_local_events(LOCAL_TOOL, plain.__code__, next(local)))
        for name in self.observers.ways:
            if not name.startswith("own "):
                change(name, lambda: self.observers.switch(name))
        installed = framehook.add(self.observers.hook, name="observer")
        self.addCleanup(framehook.remove, installed)
        switches = itertools.cycle((framehook.disable, framehook.enable))
        change("switch", lambda: next(switches)(installed))

    def test_other_code_has_its_own_word(self):
        def other():
            pass
        self.assertNotEqual(compilers.observers(other.__code__), self.word)
        self.assertEqual(compilers.observers(seen.__code__), self.word)
        other()
        self.see_no_observer()
        sys.monitoring.set_local_events(LOCAL_TOOL, other.__code__, EVENTS.PY_START)
        self.addCleanup(sys.monitoring.set_local_events, LOCAL_TOOL, other.__code__, 0)
        self.assertTrue(compilers.is_observed(other.__code__))
        self.see_no_observer()

    def test_it_takes_a_code_object(self):
        for ask in (compilers.observers, compilers.is_observed):
            with self.assertRaisesRegex(TypeError, "^a code object is expected$"):
                ask(seen)


@needs_hooks
@unittest.skipUnless(os.uname().machine == "x86_64" and shutil.which("objdump"), "needs objdump, and x86-64's instructions")
class Cost(unittest.TestCase):
    def test_two_loads(self):
        [library] = [os.path.join(extension_directory(), name) for name in os.listdir(extension_directory())
                     if re.fullmatch(r"compilers\.[^.]*\.so", name)]
        listing = subprocess.run(["objdump", "-d", "--no-show-raw-insn", "--disassemble=compilers_may_be_observed", library],
                                 capture_output=True, text=True, check=True).stdout
        instructions = re.findall(r"^ *[0-9a-f]+:\s+(.*)$", listing, re.MULTILINE)
        self.assertTrue(any("ret" in line for line in instructions), listing)
        loads = [line for line in instructions if "(%r" in line and not line.startswith(("lea", "nop", "cs nop", "data16"))]
        self.assertEqual(len(loads), 2, listing)
        self.assertFalse([line for line in instructions if line.startswith("call")], listing)
