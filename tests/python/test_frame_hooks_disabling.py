"""What is remembered of code for which hooks are disabled, in odd cases.

The code may belong to another interpreter, and there may have been more changes of hooks than a
version number can distinguish.
"""

import contextlib
import gc
import sys

from hook_variants import in_a_child
from support import HookTestCase, counter, framehook, needs_hooks, new_function, use_extensions

use_extensions()
import neighbourhooks


@needs_hooks
class ForeignCode(HookTestCase):
    SOURCE = "def inner():\n return [5]\nx = inner()\n"

    def shared_code(self):
        code = compile(self.SOURCE, "<shared>", "exec")
        # Without the GIL, a collection in the other interpreter would leave a mark on this interpreter's objects.
        gc.freeze()
        return code

    def entries_of_three(self, code):
        """Run the code with three hooks that return Disable for it, and return which were called."""
        entries = []

        def disable_code(mark):
            def hook(view):
                if view.code is code:
                    entries.append(mark)
                return framehook.DISABLE
            return hook

        with contextlib.ExitStack() as stack:
            for mark in range(3):
                stack.enter_context(framehook.hook(disable_code(mark)))
            exec(code)
            exec(code)
        return entries

    def test_code_that_another_interpreter_owns_runs_and_its_settling_is_not_remembered(self):
        code = self.shared_code()
        self.assertEqual(self.entries_of_three(code), [0, 1, 2])
        self.assertEqual(neighbourhooks.run_elsewhere(code, 3), 3)
        self.assertEqual(self.entries_of_three(code), [0, 1, 2])

    def test_the_hook_is_called_here_for_code_that_was_first_disabled_elsewhere(self):
        code = self.shared_code()
        self.assertEqual(neighbourhooks.run_elsewhere(code, 3), 1)
        self.assertEqual(self.entries_of_three(code), [0, 1, 2])
        self.assertEqual(self.entries_of_three(code), [0, 1, 2])


@needs_hooks
class SpecializedGenerators(HookTestCase):
    """The start of a generator whose RESUME is specialized is not dispatched, so whatever has it dispatched again de-specializes it."""

    def setUp(self):
        def generator():
            yield 1

        async def coroutine():
            return 1

        async def both():
            yield await coroutine()
        self.functions = generator, coroutine, both
        self.seen = []

    def hook(self, view):
        if view.code in [function.__code__ for function in self.functions]:
            self.seen.append(view.code.co_name)
            return None
        return framehook.DISABLE

    def disabling(self, view):
        return framehook.DISABLE

    def run_all(self):
        """What the hook sees, once nothing is new to it."""
        for _ in range(2):
            self.seen.clear()
            self.assertEqual([*self.functions[0]()], [1])
            for step in (self.functions[1](), self.functions[2]().__anext__()):
                with self.assertRaises(StopIteration):
                    step.send(None)
        return self.seen

    def test_hooks_that_come_back(self):
        names = ["generator", "coroutine", "both", "coroutine"]
        with framehook.hook(self.disabling):
            self.assertEqual(self.run_all(), [])
            hook = framehook.add(self.hook)
            self.assertEqual(self.run_all(), names)
            for function in self.functions:
                framehook.disable_for_code(hook, function)
            self.assertEqual(self.run_all(), [])
            for function in self.functions:
                framehook.enable_for_code(hook, function)
            self.assertEqual(self.run_all(), names)
            for off, on in ((framehook.disable, framehook.enable), (framehook.disable_in_thread, framehook.enable_in_thread)):
                off(hook)
                self.assertEqual(self.run_all(), [])
                on(hook)
                self.assertEqual(self.run_all(), names)
            for blocks in (framehook.disabled, framehook.disabled_in_thread):
                with blocks(hook):
                    self.assertEqual(self.run_all(), [])
                self.assertEqual(self.run_all(), names)
            with framehook.disabled_for_code(hook, self.functions[1]):
                self.assertEqual(self.run_all(), ["generator", "both"])
            self.assertEqual(self.run_all(), names)
            framehook.remove(hook)
            self.assertEqual(self.run_all(), [])
        self.assertEqual(self.run_all(), [])
        hook = framehook.add(self.hook, this_thread=True)
        self.assertEqual(self.run_all(), names)
        framehook.remove(hook)

    def test_tools_and_hooks(self):
        names = ["generator", "coroutine", "both", "coroutine"]
        with framehook.hook(self.disabling):
            self.run_all()
            sys.setprofile(lambda *rest: None)
            self.addCleanup(sys.setprofile, None)
            self.assertEqual(self.run_all(), [])
            with framehook.hook(self.hook):
                self.assertEqual(self.run_all(), names)
                sys.setprofile(None)
                self.assertEqual(self.run_all(), names)
            self.assertEqual(self.run_all(), [])
            with framehook.hook(self.hook):
                self.assertEqual(self.run_all(), names)

    def test_an_unhooked_call_that_no_hook_sees(self):
        """It is over for a call of the same function that its frame causes, also where the hook is enabled again within it."""
        seen = []

        class Ends:
            def __del__(self):
                f(None)

        def f(hook):
            if hook is None:
                seen.append("destructor")
                return
            framehook.enable_for_code(hook, f)
            Ends()

        def note(view):
            if view.code is f.__code__:
                seen.append("hook")
        with framehook.hook(note) as hook:
            for traced in (False, True):
                for _ in range(2):
                    f(None)
                    framehook.disable_for_code(hook, f)
                    for _ in range(2):
                        f(None)
                    if traced:
                        sys.setprofile(lambda *rest: None)
                        self.addCleanup(sys.setprofile, None)
                    seen.clear()
                    framehook.unhooked(f)(hook)
                    sys.setprofile(None)
                    if traced:
                        self.assertEqual(seen, ["hook", "destructor"])


CHANGES = 2 ** 24 + 1_000       # more than CPython has numbers for versions: these have 24 bits


@needs_hooks
class ManyChanges(HookTestCase):
    @in_a_child
    def test_hooks_tracing_and_monitoring_work_after_more_changes_than_there_are_versions(self):
        self.assertEqual(neighbourhooks.churn(CHANGES), CHANGES)
        function = new_function()
        for _ in range(300):
            function()
        callable = counter(function)
        with framehook.hook(callable):
            function()
        self.assertEqual(callable.entries, 1)
        disabled_code = counter(function, framehook.DISABLE)
        with framehook.hook(disabled_code):
            function(), function()
        self.assertEqual(disabled_code.entries, 1)

        events = []
        sys.settrace(lambda frame, event, argument: events.append(frame.f_code.co_name))
        function()
        sys.settrace(None)
        self.assertEqual(events, ["target"])

        monitoring, started = sys.monitoring, []
        monitoring.use_tool_id(4, "many changes")
        monitoring.register_callback(4, monitoring.events.PY_START,
                                     lambda code, offset: started.append(code.co_name))
        monitoring.set_events(4, monitoring.events.PY_START)
        function()
        monitoring.set_events(4, 0)
        self.assertEqual(started, ["target"])
