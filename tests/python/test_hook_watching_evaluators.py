"""Frames that hooks watch while an evaluator is set: a frame that it is given lies directly above a return shim, and it gives back what it likes."""

import sys
import types
import unittest

from support import FREE_THREADED, framehook, needs_hooks, use_extensions

use_extensions()
import evaluators


def given_up(self):
    """A destructor that makes a generator."""
    yield 1


def stand_in(self):
    return 1


class Dies:
    def __del__(self):
        pass


class DiesWithAGenerator:
    __del__ = given_up


def other():
    yield 10
    yield 11


class UnderEvaluators(unittest.TestCase):
    """No hook and no evaluator is left; what hooks see is in two lists."""

    def setUp(self):
        self.entries, self.delivered = [], []
        self.addCleanup(framehook.clear)
        self.addCleanup(evaluators.set, "default")


@needs_hooks
class Destructors(UnderEvaluators):
    """A frame that returns is gone before its value reaches the return shim, which is the thread's current frame: destructors run there."""

    def watch(self, function, replacements=None):
        def hook(view):
            if view.code is function.__code__:
                view.watch(lambda event: self.delivered.append((event.kind, event.code.co_name, event.value)), None, yields=True, resumes=True)
            elif replacements:
                return replacements.get(view.code)

        framehook.add(hook)

    def test_the_value_is_not_taken_for_the_generator_of_a_destructor(self):
        for value in 5, b"\xf1" * 400, None, [1]:
            def function():
                dies = DiesWithAGenerator()
                evaluators.set("pass")
                return value

            with self.subTest(type(value).__name__):
                self.watch(function)
                self.assertIs(function(), value)
                self.assertEqual(self.delivered.pop(), ("returned", "function", value))
                evaluators.set("default")
                framehook.clear()

    def test_another_generator_that_is_returned_is_not_watched(self):
        it = other()

        def function():
            dies = DiesWithAGenerator()
            evaluators.set("pass")
            return it

        self.watch(function)
        self.assertIs(function(), it)
        self.assertEqual(list(it), [10, 11])
        self.assertEqual(self.delivered, [("returned", "function", it)])

    def test_a_watched_generator_ends_whatever_its_locals_do(self):
        for raises in False, True:
            def function():
                dies = DiesWithAGenerator()
                yield 1
                if raises:
                    raise KeyError

            evaluators.set("pass")
            with self.subTest(raises=raises):
                self.watch(function)
                it = function()
                self.assertEqual(next(it), 1)
                with self.assertRaises(KeyError if raises else StopIteration):
                    next(it)
                self.assertEqual([kind for kind, name, value in self.delivered if name == "function"],
                                 ["resumed", "yielded", "resumed", "raised" if raises else "returned"])
                self.assertEqual(len(self.delivered), 4)
                self.delivered.clear()
                framehook.clear()

    def test_a_destructor_that_is_replaced_changes_no_code_but_its_own(self):
        def function():
            dies = Dies()
            yield 7

        evaluators.set("pass")
        self.watch(function, {Dies.__del__.__code__: stand_in.__code__})
        self.assertEqual(list(function()), [7])
        self.assertEqual([(kind, name) for kind, name, value in self.delivered],
                         [(kind, "function") for kind in ("resumed", "yielded", "resumed", "returned")])

    @unittest.skipIf(FREE_THREADED or not hasattr(sys, "activate_stack_trampoline"), "needs the perf trampoline")
    def test_the_same_under_the_perf_trampoline(self):
        def function():
            dies = DiesWithAGenerator()
            try:
                sys.activate_stack_trampoline("perf")
            except ValueError:
                pass            # not on this platform
            return 5

        self.addCleanup(sys.deactivate_stack_trampoline)
        self.watch(function)
        self.assertEqual(function(), 5)
        self.assertEqual(self.delivered, [("returned", "function", 5)])


@needs_hooks
class Answers(UnderEvaluators):
    def test_what_an_evaluator_gives_in_place_of_a_generator_is_what_the_call_returns(self):
        def seen():
            yield 1

        async def coroutine():
            pass

        async def asynchronous():
            yield 1

        def hook(view):
            if view.code.co_name == "seen":
                view.watch(lambda event: self.delivered.append((event.kind, event.value)))

        for function in seen, coroutine, asynchronous:
            function = types.FunctionType(function.__code__.replace(co_name="seen"), {})
            with self.subTest(function.__code__.co_flags):
                evaluators.set("answer")
                with framehook.hook(hook):
                    self.assertEqual(function(), 42)
                self.assertEqual(self.delivered.pop(), ("returned", 42))


def f(a=None, first=(), **keywords):
    if first:
        first.pop()
        dies = DiesByIt()


class DiesByIt:
    """Its destructor is the function of the unhooked call."""


@needs_hooks
class Unhooked(UnderEvaluators):
    """The unhooked call is found by its function: so others of the same function must not be taken for it."""

    def test_what_a_callback_starts_while_the_arguments_are_bound_is_another(self):
        class Key(str):
            __hash__ = str.__hash__

            def __eq__(self, other):
                return str.__eq__(self, other)

        for callback, expected in (f, ["__eq__"]), (framehook.reentrant(f), ["__eq__", "f"]):
            def hook(view):
                self.entries.append(view.code.co_name)
                if view.code is Key.__eq__.__code__:
                    view.watch(callback)

            for evaluator in "default", "pass":
                with self.subTest(expected=expected, evaluator=evaluator):
                    evaluators.set(evaluator)
                    with framehook.hook(hook):
                        framehook.unhooked(f)(**{Key("a"): 1})
                    evaluators.set("default")
                    self.assertEqual(self.entries, expected)
                self.entries.clear()

    def test_a_destructor_that_starts_as_the_arguments_are_bound_is_another(self):
        class Key(str):
            __hash__ = str.__hash__

            def __eq__(self, other):
                dies = DiesByIt()
                return str.__eq__(self, other)

        def hook(view):
            self.entries.append(view.code.co_name)
            if view.code is Key.__eq__.__code__:
                view.watch(id)

        DiesByIt.__del__ = f
        self.addCleanup(delattr, DiesByIt, "__del__")
        with framehook.hook(hook):
            framehook.unhooked(f)(**{Key("a"): 1})
        self.assertEqual(self.entries, ["__eq__", "f"])

    def test_a_call_that_a_hook_or_a_callback_unhooks_is_unhooked_once(self):
        def work():
            pass

        def calls(_):
            framehook.unhooked(f)(first=[1])

        DiesByIt.__del__ = framehook.reentrant(f)
        self.addCleanup(delattr, DiesByIt, "__del__")
        for name in "hook", "callback":
            for evaluator in "default", "pass":
                def hook(view):
                    self.entries.append(view.code.co_name)
                    if view.code is work.__code__:
                        if name == "hook":
                            calls(view)
                        else:
                            view.watch(calls)

                with self.subTest(name, evaluator=evaluator):
                    evaluators.set(evaluator)
                    with framehook.hook(hook):
                        work()
                    evaluators.set("default")
                    self.assertEqual(self.entries, ["work", "f"])
                self.entries.clear()
