"""The module framehook: blocks that are placed among other hooks, and what is said twice in an answer."""

import gc
import threading
import weakref

from support import HookTestCase, framehook, in_new_thread, needs_hooks
from test_framehook import passing


@needs_hooks
class PlacedBlocks(HookTestCase):
    """A block takes what add() takes."""

    def order(self):
        return [info.name for info in framehook.hooks()]

    def test_first_before_and_after(self):
        a = passing("a")
        b = passing("b")
        hook = passing("hook")

        framehook.add(a)
        handle = framehook.add(b)
        block_of_b = framehook.hook(b)
        for options, expected in (
                ({}, ["a", "b", "hook"]), ({"first": True}, ["hook", "a", "b"]), ({"before": b}, ["a", "hook", "b"]),
                ({"after": a}, ["a", "hook", "b"]), ({"before": handle}, ["a", "hook", "b"]), ({"after": block_of_b}, ["a", "b", "hook"]),
                ({"first": False, "before": None, "after": None}, ["a", "b", "hook"])):
            with self.subTest(list(options)):
                block = framehook.hook(hook, **options)
                for _ in range(3):
                    with block:
                        self.assertEqual(self.order(), expected)
                        with block:
                            self.assertEqual(self.order(), expected)
                    self.assertEqual(self.order(), ["a", "b"])

                @framehook.hook(hook, **options)
                def decorated():
                    return self.order()

                self.assertEqual((decorated(), decorated(), self.order()), (expected, expected, ["a", "b"]))

    def test_a_passing_hook_with_a_name_is_placed(self):
        other = passing("other")
        hook = passing("hook")

        framehook.add(other)
        with framehook.hook(hook, "a name", first=True):
            self.assertEqual(self.order(), ["a name", "other"])
        with framehook.hook(hook, name="a name", before=other):
            self.assertEqual(self.order(), ["a name", "other"])
        # Only names may be given by their place.
        self.assertRaises(TypeError, framehook.hook, hook, "a name", True)

    def test_what_cannot_be_placed_is_not_installed(self):
        other = passing("other")
        hook = passing("hook")

        for options in {"before": other}, {"after": 12345}, {"before": 12345}, {"after": other}:
            with self.subTest(options):
                with self.assertRaises(ValueError):
                    with framehook.hook(hook, **options):
                        self.fail("it began")
                self.assertEqual(self.order(), [])
        framehook.add(other)
        for options in {"first": True, "before": other}, {"before": other, "after": other}, {"first": True, "after": other}:
            with self.subTest(options), self.assertRaises(TypeError):
                with framehook.hook(hook, **options):
                    self.fail("it began")
            self.assertEqual(self.order(), ["other"])
        # And the next time, where it can be.
        block = framehook.hook(hook, before=other)
        framehook.remove(other)
        self.assertRaises(ValueError, block.__enter__)
        framehook.add(other)
        with block:
            self.assertEqual(self.order(), ["hook", "other"])

    def test_for_one_thread(self):
        def hook(view):
            if view.code is target.__code__:
                entries.append(threading.get_ident())

        def target():
            pass

        entries = []
        with framehook.hook(hook, this_thread=True):
            target()
            in_new_thread(target)
        target()
        self.assertEqual(entries, [threading.get_ident()])

    def test_add_takes_a_block_and_its_name(self):
        hook = passing("hook")
        other = passing("other")

        framehook.add(other)
        block = framehook.hook(hook, "a name")
        framehook.add(block, first=True)
        self.assertEqual(self.order(), ["a name", "other"])
        framehook.remove(block)
        self.assertEqual(self.order(), ["other"])

    def test_subclasses_and_blocks_made_without_arguments_of_their_own(self):
        class Tool(framehook.hook):
            def __init__(self):
                super().__init__(self.look, "tool", first=True)

            def look(self, view):
                pass

        other = passing("other")

        framehook.add(other)
        with Tool() as tool:
            self.assertEqual(self.order(), ["tool", "other"])
            self.assertEqual(tool.info.name, "tool")
        self.assertEqual(self.order(), ["other"])


@needs_hooks
class TwiceInOneAnswer(HookTestCase):
    def outcome(self, *says, ending=lambda view: None):
        def target():
            return "ran"

        def hook(view):
            if view.code is not target.__code__:
                return framehook.DISABLE
            for say in says:
                say(view)
            return ending(view)

        with framehook.hook(hook):
            try:
                return target()
            except RuntimeError as error:
                return "error", str(error)

    def test_a_result_is_said_once(self):
        found = self.outcome(lambda view: view.result(1), lambda view: view.result(2))
        self.assertEqual(found[0], "error")
        self.assertIn("result", found[1])
        self.assertEqual(self.outcome(lambda view: view.result(1)), 1)
        for value in None, [], framehook:
            self.assertEqual(self.outcome(lambda view: view.result(value), lambda view: view.result(value))[0], "error")

    def test_a_scope_is_given_once(self):
        scopes = (lambda view: view.exclude_callees(), lambda view: view.only_callees(), lambda view: view.only_callees(everywhere=True))
        for first in scopes:
            for second in scopes:
                found = self.outcome(first, second)
                self.assertEqual(found[0], "error")
                self.assertRegex(found[1], "callees")
            self.assertEqual(self.outcome(first), "ran")
            # A watch and a result go with it.
            self.assertEqual(self.outcome(first, lambda view: view.watch(lambda event: None), lambda view: view.result(3)), 3)

    def test_a_hook_that_catches_it_has_said_the_first(self):
        def again(view):
            try:
                view.result("second")
            except RuntimeError:
                pass

        self.assertEqual(self.outcome(lambda view: view.result("first"), again), "first")

    def test_what_was_said_goes_when_the_call_fails(self):
        class Value:
            pass

        def say(view):
            value = Value()
            alive.append(weakref.ref(value))
            view.result(value)

        alive = []
        self.assertEqual(self.outcome(say, say)[0], "error")
        gc.collect()
        self.assertEqual([reference() for reference in alive], [None, None])
