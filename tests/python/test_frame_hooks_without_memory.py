"""The module framehook where memory runs out: hooks are added, called and removed.

test_frame_hooks_hardship.py has the same for _framecore and for C.
"""

import functools

from hook_variants import in_a_child
from support import HookTestCase, attempt, code_named, framecore, framehook, needs_failing_allocations, needs_hooks, new_function, use_extensions

use_extensions()
import framehooks


@needs_hooks
@needs_failing_allocations
class WithoutMemory(HookTestCase):
    ALLOCATIONS = 400

    def each(self, operation, check):
        """Let each allocation of the operation fail, one at a time, and check what is left."""
        failures = 0
        for number in range(1, self.ALLOCATIONS):
            failures += attempt(number, operation) is MemoryError
            check(number)
        self.assertGreater(failures, 0)
        self.assertLess(failures, self.ALLOCATIONS - 1)

    def check_nothing_is_left(self, number):
        left = [info["name"] for info in framecore.frame_hooks()]
        framecore.clear_frame_hooks()
        self.assertEqual(left, [], number)

    @in_a_child
    def test_no_hook_is_left_by_a_block_that_runs_out_of_memory(self):
        function = new_function(body="return 'original', a, b, k", parameters="a, *b, **k")
        generator = new_function(body="yield 'original', a")
        replacements = {
            # No function is made. When it cannot make one, CPython 3.13 loses a reference to the
            # code.
            function.__code__: code_named(
                "target", "def target(a, *b, **k):\n if a is None:\n  lambda: (a, b)\n"
                          " return 'replaced', a, b, k"),
            # And no list. Without the GIL CPython 3.13 frees memory that the list never had.
            generator.__code__: code_named("target",
                                           "def target(a):\n c = (a,) * 3\n yield 'replaced', a"),
        }
        disable_code = lambda view: framehook.DISABLE

        def replace(view):
            for code, replacement in replacements.items():
                if view.code is code:
                    view.arguments(), view.argument_names
                    return replacement

        def operation():
            with framehook.hook(replace):
                with framehook.hook(disable_code):
                    results = function(1, 2, k=3), next(generator(4))
                framehook.hooks()
            self.assertEqual(results, (("replaced", 1, (2,), {"k": 3}), ("replaced", 4)))

        self.each(operation, self.check_nothing_is_left)
        operation()

    @in_a_child
    def test_no_hook_is_left_by_an_add_that_runs_out_of_memory(self):
        callable = lambda view: None
        added = [None]      # to assign an item needs no memory

        def operation():
            added[0] = framehook.add(callable)

        def check(number):
            if added[0] is not None:
                framehook.remove(added[0])
                added[0] = None
            self.check_nothing_is_left(number)

        self.each(operation, check)

    @in_a_child
    def test_no_hook_is_left_by_a_removal_that_runs_out_of_memory(self):
        callable = lambda view: None
        # No Python function calls these: the hook would be called for it, and that needs memory.
        ways = {
            "handle": lambda handle: functools.partial(framehook.remove, handle),
            "callable": lambda handle: functools.partial(framehook.remove, callable),
            "clear": lambda handle: framehook.clear,
        }
        for name, prepare in ways.items():
            # CPython needs memory to instrument the code of these functions, once.
            prepare(framehook.add(callable))()
            for number in range(1, 60):
                with self.subTest(name, number=number):
                    attempt(number, prepare(framehook.add(callable)))
                    self.check_nothing_is_left(number)

    @in_a_child
    def test_a_call_that_is_disabled_without_memory_to_note_it_runs(self):
        handle = framehooks.add_native("disable")
        try:
            for number in range(1, 20):
                function = new_function(body="return 5", parameters="")
                with framehook.disabled(handle), framehook.hook(lambda view: None):
                    # CPython needs memory to instrument code, once.
                    function()
                self.assertEqual((number, attempt(number, function)), (number, 5))
                self.assertEqual(function(), 5)
        finally:
            framehooks.remove(handle)

    @in_a_child
    def test_watches_scopes_and_results_are_whole_or_not_there(self):
        def generator(a):
            yield a
            yield a

        def function(a):
            return a

        delivered, answers = [], (object(), object())

        def on_event(event):
            delivered.append(event.kind)

        def hook(view):
            if view.code is generator.__code__:
                view.watch(on_event, None, yields=True, resumes=True)
                view.exclude_callees()
            elif view.code is function.__code__:
                view.watch(on_event)
                view.only_callees()
                return view.result(answers[1])
            else:
                return framehook.DISABLE

        def operation():
            with framehook.hook(hook):
                try:
                    return list(generator(answers[0])), function(answers[0])
                finally:
                    delivered.clear()

        # No function is made in the operation, as above.
        self.assertEqual(operation(), ([answers[0]] * 2, answers[1]))
        self.each(operation, self.check_nothing_is_left)
        with framehook.hook(hook):
            self.assertEqual((list(generator(1)), function(2)), ([1, 1], answers[1]))
        self.assertEqual(delivered, ["resumed", "yielded", "resumed", "yielded", "resumed", "returned", "returned"])
