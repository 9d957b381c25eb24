"""Frame hooks: calls that a hook makes as though it did not run."""

import ctypes
import gc
import sys
import unittest

from support import framehook, in_new_thread, needs_hooks


def target():
    return "target"


def helper(n=1, *, more=0):
    return leaf() + n + more


def leaf():
    return 1


def names_of(program, work, *, where=("target",)):
    """The names of this file's functions for which a hook is called, which does `work` when called
    about one of `where`."""
    names = []

    def hook(view):
        if view.code.co_filename == __file__:
            name = view.code.co_name
            names.append(name)
            if name in where:
                work(view)

    with framehook.hook(hook):
        program()
    return [name for name in names if name in ("target", "helper", "leaf", "numbers")]


@needs_hooks
class Reentrant(unittest.TestCase):
    def test_frames_are_dispatched_that_else_are_not(self):
        self.assertEqual(names_of(target, lambda view: helper()), ["target"])
        self.assertEqual(names_of(target, lambda view: framehook.reentrant(helper)()),
                         ["target", "helper", "leaf"])

    def test_only_those_of_the_call(self):
        def work(view):
            helper()
            framehook.reentrant(leaf)()
            helper()

        self.assertEqual(names_of(target, work), ["target", "leaf"])

    def test_arguments_values_and_errors(self):
        results = []

        def work(view):
            results.append(framehook.reentrant(helper)(2, more=3))
            try:
                framehook.reentrant(helper)(wrong=1)
            except TypeError:
                results.append("TypeError")
            results.append(framehook.reentrant(len)([1, 2]))

        self.assertEqual(names_of(target, work), ["target", "helper", "leaf"])
        self.assertEqual(results, [6, "TypeError", 2])
        self.assertRaises(TypeError, framehook.reentrant, 3)

    def test_after_an_error_the_hook_runs_again(self):
        def fails():
            raise ValueError

        def work(view):
            try:
                framehook.reentrant(fails)()
            except ValueError:
                helper()

        self.assertEqual(names_of(target, work), ["target"])

    def test_elsewhere_it_is_a_call(self):
        self.assertEqual(framehook.reentrant(helper)(2), 3)
        self.assertEqual(names_of(lambda: framehook.reentrant(helper)(), lambda view: None),
                         ["helper", "leaf"])

    def test_a_hook_within_a_hook(self):
        """The hook is called during a re-entrant call of its own, and makes another."""
        depths = []

        def work(view):
            depths.append(len(depths))
            if len(depths) < 4:
                framehook.reentrant(target)()
                leaf()                      # not offered: the hook runs

        self.assertEqual(names_of(target, work), ["target"] * 4)
        self.assertEqual(depths, [0, 1, 2, 3])

    def test_the_view_cannot_be_read_meanwhile_and_can_afterwards(self):
        seen = []

        def work(view):
            def read():
                try:
                    return view.code.co_name
                except RuntimeError:
                    return "unreadable"
            seen.append(framehook.reentrant(read)())
            seen.append(view.code.co_name)

        names_of(target, work)
        self.assertEqual(seen, ["unreadable", "target"])

    def test_the_frame_is_not_seen(self):
        seen = []

        def look():
            frame = sys._getframe()
            while frame:
                seen.append(frame.f_code.co_name)
                frame = frame.f_back
            gc.collect()

        names_of(target, lambda view: framehook.reentrant(look)())
        self.assertIn("work" if "work" in seen else "look", seen)
        self.assertNotIn("target", seen)

    def test_the_answer_counts_as_ever(self):
        def other():
            return "other"

        def hook(view):
            if view.code is not target.__code__:
                return None
            framehook.reentrant(helper)()
            gc.collect()
            return other.__code__

        with framehook.hook(hook):
            self.assertEqual(target(), "other")
        self.assertEqual(target(), "target")

    def test_another_hook_is_called_too(self):
        entries = []

        def second(view):
            entries.append(view.code.co_name)

        def first(view):
            if view.code is target.__code__:
                framehook.reentrant(helper)()

        with framehook.hook(first), framehook.hook(second):
            entries.clear()
            target()
        self.assertEqual([name for name in entries if name in ("helper", "leaf", "target")],
                         ["helper", "leaf", "target"])

    def test_within_a_callback(self):
        names = []

        def on_event(event):
            framehook.reentrant(helper)()
            leaf()

        def hook(view):
            names.append(view.code.co_name)
            if view.code is target.__code__:
                view.watch(on_event)

        with framehook.hook(hook):
            target()
        self.assertEqual([name for name in names if name in ("helper", "leaf", "target")],
                         ["target", "helper", "leaf"])

    def test_a_generator_that_a_reentrant_call_resumes(self):
        def numbers():
            yield leaf()
            yield leaf()

        waiting = numbers()
        next(waiting)
        self.assertEqual(names_of(target, lambda view: framehook.reentrant(next)(waiting)), ["target", "leaf"])
        self.assertEqual(names_of(target, lambda view: list(framehook.reentrant(numbers)())),
                         ["target", "numbers"])

    def test_hooks_that_change_meanwhile(self):
        def hook(view):
            if view.code is target.__code__:
                framehook.reentrant(change)()

        def change():
            framehook.remove(handle)
            return target()

        handle = framehook.add(hook)
        self.assertEqual(target(), "target")
        self.assertEqual(framehook.hooks(), [])

    def test_in_another_thread_it_is_a_call(self):
        def work(view):
            in_new_thread(framehook.reentrant(helper))

        self.assertEqual(names_of(target, work), ["target", "helper", "leaf"])

    def test_the_function_of_c(self):
        call = ctypes.pythonapi.PyUnstable_FrameHook_CallReentrant
        call.restype = ctypes.py_object
        call.argtypes = [ctypes.py_object, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_void_p]
        values = []

        def work(view):
            arguments = (ctypes.py_object * 2)(5, 7)
            # One of them is positional, and the other one has a name.
            names = ("more",)
            values.append(call(helper, arguments, 1, id(names)))
            self.assertRaises(TypeError, call, leaf, arguments, 2, None)

        self.assertEqual(names_of(target, work), ["target", "helper", "leaf"])
        self.assertEqual(values, [13])

    def test_tracing_sees_what_a_visible_hook_runs(self):
        traced = []

        def tracer(frame, event, argument):
            traced.append(frame.f_code.co_name)

        def hook(view):
            if view.code is target.__code__:
                framehook.reentrant(helper)()

        for visible in (False, True):
            handle = framehook.add(hook, visible=visible)
            traced.clear()
            sys.settrace(tracer)
            try:
                target()
            finally:
                sys.settrace(None)
                framehook.remove(handle)
            self.assertEqual("helper" in traced, visible)
            self.assertIn("target", traced)


def call_again(levels):
    """Calls itself through C until no level is left; counts them in a list."""
    levels[0] += 1
    next(map(call_again, [levels]))


@needs_hooks
class CRecursion(unittest.TestCase):
    """A hook may have what it calls go deeper through C."""

    def test_so_many_levels_are_left(self):
        limit = ctypes.pythonapi.PyUnstable_FrameHook_SetCRecursionRemaining
        levels = sys.getrecursionlimit()
        sys.setrecursionlimit(100_000)
        self.addCleanup(sys.setrecursionlimit, levels)
        reached = []

        def hook(view):
            if view.code is target.__code__:
                for remaining in (500, 1_500):
                    count = [0]
                    before = limit(remaining)
                    try:
                        self.assertRaises(RecursionError, call_again, count)
                    finally:
                        inner = limit(before)
                    reached.append((before, inner, count[0]))

        with framehook.hook(hook):
            target()
        (before, first, low), (same, second, high) = reached
        self.assertEqual((same, first, second), (before, 500, 1_500))
        # A level of the recursion takes the same of the limit each time.
        self.assertAlmostEqual(high / low, 3, delta=0.1)
