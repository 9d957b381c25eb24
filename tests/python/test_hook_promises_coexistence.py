"""Frame hooks, promises 18 and 19: evaluators keep working, and hooks read arguments."""

import sys
import unittest

from hook_promises import MANY, positions
from support import FREE_THREADED, WARM, CApi, HookTestCase, PythonApi, Thing, code_named, needs_hooks, use_extensions

use_extensions()
import framehooks


class CoexistencePoints:
    """Promises 18 and 19."""

    # 18. A PEP 523 evaluator and the perf trampoline keep working, after the hooks.

    def test_18_an_evaluator_gets_the_frame_after_the_hooks(self):
        def target(a):
            return "original", a

        def generator():
            yield "original"

        new = code_named("replaced", "def replaced(a): return 'replaced', a")
        new_generator = code_named("replaced_generator",
                                   "def replaced_generator(): yield 'replaced'")
        names = []
        hook = self.replacer((target, new), (generator, new_generator))
        handle = self.add(hook)
        framehooks.evaluations(names)
        framehooks.set_evaluator("count")
        try:
            for _ in range(WARM):
                del names[:]
                results = target(1), list(generator()), list(map(target, [2]))
        finally:
            framehooks.set_evaluator(None)
            framehooks.evaluations(None)
        self.assertEqual(results, (("replaced", 1), ["replaced"], [("replaced", 2)]))
        self.assertEqual(names.count("replaced"), 2)
        self.assertIn("replaced_generator", names)
        self.assertNotIn(target.__qualname__, names)
        self.assertNotIn(generator.__qualname__, names)
        self.assertGreaterEqual(self.info(handle)["replacements"], 3 * WARM)

    def test_18_a_hook_that_fails_before_an_evaluator(self):
        def target():
            self.fail("it ran")

        def fail(view):
            if view.code is target.__code__:
                raise KeyError("refused")

        names = []
        self.add(fail)
        framehooks.evaluations(names)
        framehooks.set_evaluator("count")
        try:
            for _ in range(WARM):
                try:
                    target()
                except KeyError as error:
                    caught = positions(error)
        finally:
            framehooks.set_evaluator(None)
            framehooks.evaluations(None)
        self.assertEqual([name for name, _, _ in caught][0], sys._getframe().f_code.co_name)
        self.assertNotIn(target.__qualname__, names)

    def test_18_a_hook_disabled_for_code_beside_an_evaluator(self):
        def target():
            pass

        hook = self.recorder(target, answer=self.DISABLE)
        self.add(hook)
        names = []
        framehooks.evaluations(names)
        framehooks.set_evaluator("count")
        try:
            for _ in range(WARM):
                target()
        finally:
            framehooks.set_evaluator(None)
            framehooks.evaluations(None)
        self.assertEqual(hook.seen, ["target"])
        self.assertEqual(names.count(target.__qualname__), WARM)

    # 19. A hook can read arguments without making a frame object or changing the frame.

    def test_19_reading(self):
        def target(a, /, b, *rest, k, **others):
            unset = 1
            cell = lambda: (a, unset)
            return a, b, rest, k, others, cell

        def closure():
            return outer
        outer = 1
        read = []

        def hook(view):
            if view.code is target.__code__:
                read.append({
                    "function": view.function, "globals": view.globals, "builtins": view.builtins,
                    "names": view.argument_names, "arguments": view.arguments(),
                    "by index": [view.argument(i) for i in range(5)],
                    "by name": [view.argument(name) for name in ("a", "b", "k", "rest", "others")],
                })
            elif view.code is closure.__code__:
                read.append((view.argument_names, view.arguments()))

        self.add(hook)
        thing = Thing()
        result = target(thing, 2, 3, 4, k=5, z=6)
        self.assertEqual(result[:5], (thing, 2, (3, 4), 5, {"z": 6}))
        facts = read.pop()
        self.assertIs(facts["function"], target)
        self.assertIs(facts["globals"], globals())
        self.assertIs(facts["builtins"], target.__builtins__)
        # As in co_varnames: positional ones, keyword-only ones, *args, **kwargs.
        self.assertEqual(facts["names"], ("a", "b", "k", "rest", "others"))
        expected = [thing, 2, 5, (3, 4), {"z": 6}]
        self.assertEqual(facts["by index"], expected)
        self.assertEqual(facts["by name"], expected)
        self.assertEqual(list(facts["arguments"].items()), list(zip(facts["names"], expected)))
        closure()
        self.assertEqual(read, [((), {})])

    def test_19_reading_what_is_not_there(self):
        def target(a, *, b):
            c = 1
            return c

        absent = (2, 100, -1, -2, -100, sys.maxsize, "c", "x", "", "\ud800")
        errors = []

        def hook(view):
            if view.code is target.__code__:
                for which in absent:
                    try:
                        errors.append((which, view.argument(which)))
                    except (IndexError, KeyError) as error:
                        errors.append((which, type(error)))

        self.add(hook)
        target(1, b=2)
        self.assertEqual(errors, [(which, IndexError if isinstance(which, int) else KeyError)
                                  for which in absent])

    def test_19_reading_after_a_hook_has_replaced(self):
        def target(a, b):
            return a, b

        new = code_named("target", f"def target(b, a):\n {MANY} = 1\n return (lambda: (a, b))()")
        read = []

        def hook(view):
            if view.code is new:
                read.append(
                    (view.function, view.argument_names, view.arguments(), view.argument("a")))

        self.add(self.replacer((target, new)))
        self.add(hook)
        self.assertEqual(target(1, 2), (1, 2))
        self.assertEqual(read, [(target, ("b", "a"), {"b": 2, "a": 1}, 1)])

    def test_19_reading_parameters_in_cells(self):
        def target(a, *b, c, **d):
            return (lambda: (a, b, c, d))()

        read = []
        self.add(lambda view: read.append(view.arguments())
                 if view.code is target.__code__ else None)
        for _ in range(WARM):
            self.assertEqual(target(1, 2, c=3, e=4), (1, (2,), 3, {"e": 4}))
        self.assertEqual(read, [{"a": 1, "c": 3, "b": (2,), "d": {"e": 4}}] * WARM)

    @unittest.skipIf(FREE_THREADED, "3.13t has no object allocator whose blocks could be counted")
    def test_19_no_frame_object_is_made(self):
        def target(a, b):
            return a, b

        allocated = sys.getallocatedblocks
        grown = []

        def hook(view):
            if view.code is target.__code__:
                # The numbers are blocks themselves. Each difference has as many of them.
                first = allocated()
                second = allocated()
                view.argument(0)
                view.argument("b")
                view.code
                view.function
                third = allocated()
                grown.append((second - first, third - second))

        self.add(hook)
        for _ in range(WARM):
            target("x", "y")
        plain, reading = zip(*grown[-20:])
        self.assertEqual(max(reading), max(plain))

    def test_19_reading_does_not_change_the_frame(self):
        def target(a, *rest, **others):
            return sys.getrefcount(a), sys.getrefcount(rest), sys.getrefcount(others)

        def read(view):
            if view.code is target.__code__:
                view.arguments()
                view.argument(0), view.argument("rest"), view.function, view.globals, view.builtins

        expected = target(Thing(), 1, b=2)
        self.add(read)
        for _ in range(WARM):
            self.assertEqual(target(Thing(), 1, b=2), expected)


@needs_hooks
class PythonCoexistence(PythonApi, CoexistencePoints, HookTestCase):
    pass


@needs_hooks
class CCoexistence(CApi, CoexistencePoints, HookTestCase):
    pass
