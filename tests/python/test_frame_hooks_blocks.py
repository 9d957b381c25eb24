"""Blocks of `with` in which a frame hook is not called."""

import contextlib
import threading

from support import HookTestCase, attempt, counter, framehook, in_new_thread, needs_failing_allocations, needs_hooks, new_function

BLOCKS = {
    "disabled": lambda hook, function: framehook.disabled(hook),
    "disabled_in_thread": lambda hook, function: framehook.disabled_in_thread(hook),
    "disabled_for_code": lambda hook, function: framehook.disabled_for_code(hook, function),
}
SWITCHES = {
    # How a hook is switched off, and how it is switched on again.
    "everywhere": (lambda hook, function: framehook.disable(hook),
                   lambda hook, function: framehook.enable(hook)),
    "in this thread": (lambda hook, function: framehook.disable_in_thread(hook),
                       lambda hook, function: framehook.enable_in_thread(hook)),
    "for this code": (lambda hook, function: framehook.disable_for_code(hook, function),
                      lambda hook, function: framehook.enable_for_code(hook, function)),
}


@needs_hooks
class Blocks(HookTestCase):
    def setUp(self):
        super().setUp()
        self.function = new_function()
        self.callable = counter(self.function)
        self.hook = self.enterContext(framehook.hook(self.callable))

    def times(self):
        """How often the hook is called for two calls."""
        before = self.callable.entries
        self.function()
        self.function()
        return self.callable.entries - before

    def test_an_inner_block_does_not_switch_on_for_the_outer(self):
        for outer, open_outer in BLOCKS.items():
            for inner, open_inner in BLOCKS.items():
                with self.subTest(outer, inner=inner):
                    with open_outer(self.hook, self.function):
                        self.assertEqual(self.times(), 0)
                        with open_inner(self.hook, self.function):
                            self.assertEqual(self.times(), 0)
                        self.assertEqual(self.times(), 0)
                        with contextlib.suppress(KeyError), open_inner(self.hook, self.function):
                            raise KeyError
                        self.assertEqual(self.times(), 0)
                    self.assertEqual(self.times(), 2)

    def test_after_a_block_a_hook_is_switched_as_it_was_before(self):
        for block, open_block in BLOCKS.items():
            for name, (off, on) in SWITCHES.items():
                with self.subTest(block, off=name):
                    off(self.hook, self.function)
                    with open_block(self.hook, self.function), open_block(self.hook, self.function):
                        self.assertEqual(self.times(), 0)
                    self.assertEqual(self.times(), 0)
                    on(self.hook, self.function)
                    self.assertEqual(self.times(), 2)

    def test_code_disabled_by_the_hook_stays_disabled_after_a_block(self):
        function = new_function()
        callable = counter(function, framehook.DISABLE)
        with framehook.hook(callable) as hook:
            function()
            for open_block in BLOCKS.values():
                with open_block(hook, function):
                    function()
                function()
        self.assertEqual(callable.entries, 1)

    def test_blocks_about_different_code_objects_overlap(self):
        other = new_function()
        about_other = counter(other)
        both = lambda view: (self.callable(view), about_other(view))[0]
        with framehook.hook(both) as hook, framehook.disabled(self.hook):
            with framehook.disabled_for_code(hook, self.function):
                with framehook.disabled_for_code(hook, other, self.function):
                    self.function(), other()
                self.function(), other()
                self.assertEqual((self.callable.entries, about_other.entries), (0, 1))
            self.function(), other()
            self.assertEqual((self.callable.entries, about_other.entries), (1, 2))

    def test_blocks_of_two_threads_overlap(self):
        for name in ("disabled", "disabled_for_code"):
            for first_to_leave in ("the other", "this"):
                with self.subTest(name, first_to_leave=first_to_leave):
                    entered, leaves = threading.Event(), threading.Event()

                    def hold():
                        with BLOCKS[name](self.hook, self.function):
                            entered.set()
                            leaves.wait(60)

                    thread = threading.Thread(target=hold)
                    thread.start()
                    entered.wait(60)
                    with BLOCKS[name](self.hook, self.function):
                        self.assertEqual(self.times(), 0)
                        if first_to_leave == "the other":
                            leaves.set()
                            thread.join()
                            self.assertEqual(self.times(), 0)
                    if first_to_leave == "this":
                        self.assertEqual(self.times(), 0)
                        leaves.set()
                        thread.join()
                    self.assertEqual(self.times(), 2)

    def test_a_block_for_one_thread_is_of_that_thread_alone(self):
        with framehook.disabled_in_thread(self.hook):
            self.assertEqual((self.times(), in_new_thread(self.times)), (0, 2))

            def in_a_block():
                with framehook.disabled_in_thread(self.hook):
                    return self.times()

            self.assertEqual(in_new_thread(in_a_block), 0)
            self.assertEqual((self.times(), in_new_thread(self.times)), (0, 2))
        self.assertEqual(self.times(), 2)

    def test_a_block_that_cannot_begin_changes_nothing(self):
        for wrong in (42, "code", None, len):
            with self.assertRaises(TypeError):
                with framehook.disabled_for_code(self.hook, self.function, wrong):
                    self.fail("it began")
            self.assertEqual(self.times(), 2)

    def test_a_block_whose_hook_goes_leaves_those_that_come_alone(self):
        for name, open_block in BLOCKS.items():
            with self.subTest(name):
                callable = counter(self.function)
                handle = framehook.add(callable)
                later = counter(self.function)
                with open_block(handle, self.function):
                    framehook.remove(handle)
                    framehook.add(later)
                    self.function()
                self.function()
                self.assertEqual((callable.entries, later.entries), (0, 2))
                framehook.remove(later)

    @needs_failing_allocations
    def test_a_block_for_which_there_is_no_memory_changes_nothing(self):
        failures = 0
        for number in range(1, 40):
            functions = [new_function() for _ in range(3)]
            hooks = [counter(function) for function in functions]

            # No lists are made here. Without the GIL, when there is no memory for a list's items,
            # CPython 3.13 frees memory that the list never had.
            def callable(view):
                for hook in hooks:
                    hook(view)

            def block():
                with framehook.disabled_for_code(hook, functions[0], functions[1], functions[2]):
                    pass

            with framehook.hook(callable) as hook:
                failures += attempt(number, block) is MemoryError
                for function in functions:
                    function()
            self.assertEqual([hook.entries for hook in hooks], [1, 1, 1], number)
        self.assertGreater(failures, 0)
