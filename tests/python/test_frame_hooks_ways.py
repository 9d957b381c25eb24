"""Frame hooks and what gets in their way: locks, signals, forks, other interpreters, lack of memory; and what a tool
may rely on when it adds, switches and removes them beside other tools."""

import contextlib
import copy
import faulthandler
import functools
import os
import pickle
import signal
import sys
import threading
import unittest
import warnings

from hook_variants import extension, in_a_child
from support import (HookTestCase, ON_STOCK, ProgramTestCase, code_named, framecore, in_new_thread,
                     needs_failing_allocations, needs_hooks, use_extensions)
from test_frame_hooks_hardship import attempt

use_extensions()
import codeextra
import framehooks
import neighbourhooks

if not ON_STOCK:
    import framehook

FORKS = int(os.environ.get("FERRULE_HOOK_FORKS", "300"))
HANG_SECONDS = 200      # a guard: what hangs is ended, and what does not is never near it


def new_function(name="target", body="return a", parameters="a=None"):
    """A function with code that no hook has been asked about yet."""
    namespace = {}
    exec(f"def {name}({parameters}):\n {body}", namespace)
    return namespace[name]


def counter(function, answer=None):
    """A hook that counts in `asked` how often it was asked about the function."""
    code = function.__code__

    def hook(view):
        if view.code is code:
            hook.asked += 1
            return answer
        return None

    hook.asked = 0
    return hook


# --- Switches. -----------------------------------------------------------------------------------------------------

BLOCKS = {
    "disabled": lambda hook, function: framehook.disabled(hook),
    "disabled_in_thread": lambda hook, function: framehook.disabled_in_thread(hook),
    "disabled_for_code": lambda hook, function: framehook.disabled_for_code(hook, function),
}
SWITCHES = {
    # off, on
    "everywhere": (lambda hook, function: framehook.disable(hook), lambda hook, function: framehook.enable(hook)),
    "in this thread": (lambda hook, function: framehook.disable_in_thread(hook),
                       lambda hook, function: framehook.enable_in_thread(hook)),
    "for this code": (lambda hook, function: framehook.disable_for_code(hook, function),
                      lambda hook, function: framehook.enable_for_code(hook, function)),
}


@needs_hooks
class Blocks(HookTestCase):
    """The blocks in which a hook is not asked."""

    def setUp(self):
        super().setUp()
        self.function = new_function()
        self.callable = counter(self.function)
        self.hook = self.enterContext(framehook.hook(self.callable))

    def times(self):
        """How often the hook is asked about two calls."""
        before = self.callable.asked
        self.function()
        self.function()
        return self.callable.asked - before

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

    def test_what_the_hook_has_settled_stays_settled_after_a_block(self):
        function = new_function()
        callable = counter(function, framehook.SETTLED)
        with framehook.hook(callable) as hook:
            function()
            for open_block in BLOCKS.values():
                with open_block(hook, function):
                    function()
                function()
        self.assertEqual(callable.asked, 1)

    def test_blocks_about_different_code_objects_overlap(self):
        other = new_function()
        about_other = counter(other)
        with framehook.hook(lambda view: (self.callable(view), about_other(view))[0]) as hook, framehook.disabled(self.hook):
            with framehook.disabled_for_code(hook, self.function):
                with framehook.disabled_for_code(hook, other, self.function):
                    self.function(), other()
                self.function(), other()
                self.assertEqual((self.callable.asked, about_other.asked), (0, 1))
            self.function(), other()
            self.assertEqual((self.callable.asked, about_other.asked), (1, 2))

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
                self.assertEqual((callable.asked, later.asked), (0, 2))
                framehook.remove(later)

    @needs_failing_allocations
    def test_a_block_for_which_there_is_no_memory_changes_nothing(self):
        failures = 0
        for number in range(1, 40):
            functions = [new_function() for _ in range(3)]
            hooks = [counter(function) for function in functions]

            # No lists: without the GIL, CPython 3.13 frees what a list never had where there is no memory for its items.
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
            self.assertEqual([hook.asked for hook in hooks], [1, 1, 1], number)
        self.assertGreater(failures, 0)


# --- Locks. --------------------------------------------------------------------------------------------------------

class NamedInPython(object if ON_STOCK else framehook.hook):
    """A block that runs Python code while it is entered."""

    @property
    def name(self):
        return "a name"

    @name.setter
    def name(self, name):
        pass


class AtEachInstruction:
    """Does something before instruction `number` of those that enter and leave a block, the tenth or whichever."""

    def __init__(self, number, action):
        self.left, self.action = number, action

    def trace(self, frame, event, argument):
        if frame.f_code not in self.codes and frame.f_code.co_filename != framehook.__file__:
            return None
        frame.f_trace_opcodes = True
        if event == "opcode":
            self.left -= 1
            if self.left == 0:
                self.action()
        return self.trace

    def run(self, operation):
        """Whether there were so many instructions."""
        self.codes = (operation.__code__, NamedInPython.name.fget.__code__)
        sys.settrace(self.trace)
        try:
            operation()
        finally:
            sys.settrace(None)
        return self.left <= 0


def at_each_instruction(operation, action, check):
    """Do the operation over and over, with the action before another instruction each time; how often."""
    number = 1
    while AtEachInstruction(number, action).run(operation):
        check(number)
        number += 1
    return number - 1


@needs_hooks
class Locks(HookTestCase):
    """No lock is held while Python code runs."""

    def setUp(self):
        super().setUp()
        if os.environ.get("FERRULE_TEST_IN_A_CHILD"):
            faulthandler.dump_traceback_later(HANG_SECONDS, exit=True)
            self.addCleanup(faulthandler.cancel_dump_traceback_later)

    def blocks_in_a_block(self, run_inner):
        """A block is entered and left; at each instruction of that another one is."""
        target = new_function()
        callable = counter(target)
        hook = NamedInPython(callable)
        inside = []

        def inner():
            with hook:
                target()
                inside.append(callable.asked)

        def operation():
            with hook:
                target()

        def check(number):
            self.assertEqual((callable.asked, inside), (2, inside[:1]), number)
            self.assertEqual(framecore.frame_hooks(), [], number)
            callable.asked = 0
            inside.clear()

        self.assertGreater(at_each_instruction(operation, lambda: run_inner(inner), check), 10)

    @in_a_child
    def test_a_block_may_be_entered_wherever_another_one_is_being_entered(self):
        # What a signal handler does. The tracer is not traced, and its calls are offered to no hook.
        hook = NamedInPython(lambda view: None)

        def operation():
            with hook:
                pass

        def check(number):
            self.assertEqual(framecore.frame_hooks(), [], number)

        self.assertGreater(at_each_instruction(operation, operation, check), 10)

    @in_a_child
    def test_another_thread_may_enter_a_block_wherever_one_is_being_entered(self):
        self.blocks_in_a_block(in_new_thread)

    @in_a_child
    def test_a_signal_handler_may_enter_the_block_that_it_interrupts(self):
        hook = framehook.hook(lambda view: framehook.SETTLED)
        handled = 0

        def handle(*arguments):
            nonlocal handled
            with hook:
                handled += 1

        signal.signal(signal.SIGALRM, handle)
        signal.setitimer(signal.ITIMER_REAL, 0.0005, 0.0005)
        while handled < 500:
            with hook:
                pass
        signal.setitimer(signal.ITIMER_REAL, 0)
        self.assertEqual(framecore.frame_hooks(), [])

    def test_hooks_may_be_cleared_wherever_a_block_is_being_entered_or_left(self):
        hook = NamedInPython(lambda view: None)

        def operation():
            with hook:
                pass

        def check(number):
            self.assertEqual(framecore.frame_hooks(), [], number)

        self.assertGreater(at_each_instruction(operation, framehook.clear, check), 10)

    def test_hooks_may_be_cleared_wherever_one_is_being_added(self):
        def check(number):
            framehook.clear()

        callable = lambda view: None
        self.assertGreater(at_each_instruction(lambda: framehook.add(callable), framehook.clear, check), 3)

    def test_blocks_beside_another_threads_clear(self):
        ends, problems = threading.Event(), []
        interval = sys.getswitchinterval()
        self.addCleanup(sys.setswitchinterval, interval)
        sys.setswitchinterval(1e-5)

        def enter_and_leave():
            hook = framehook.hook(lambda view: None)
            try:
                for _ in range(3_000):
                    with hook:
                        pass
            except BaseException as error:
                problems.append(error)

        def clear():
            while not ends.is_set():
                framehook.clear()

        workers = [threading.Thread(target=enter_and_leave) for _ in range(2)]
        clearer = threading.Thread(target=clear)
        for thread in (clearer, *workers):
            thread.start()
        for thread in workers:
            thread.join()
        ends.set()
        clearer.join()
        self.assertEqual(problems, [])
        framehook.clear()

    def forks(self, which, count):
        """A child can settle, set and add, whatever the threads of its parent were doing: its exit statuses."""
        function = new_function()
        codes = [new_function().__code__ for _ in range(50)]
        handle = framehook.add(lambda view: None)
        index = codeextra.request("none")
        ends = threading.Event()

        def settle():
            while not ends.is_set():
                for code in codes:
                    framehook.disable_for_code(handle, code)

        def set_values():
            while not ends.is_set():
                for code in codes:
                    codeextra.set(code, index, 1)
                    codeextra.set(code, index, None)

        def add():
            while not ends.is_set():
                framehook.remove(framehook.add(lambda view: None))

        def in_the_child():
            signal.signal(signal.SIGALRM, signal.SIG_DFL)
            signal.alarm(HANG_SECONDS // 4)
            framehook.disable_for_code(handle, codes[0])
            codeextra.set(codes[1], index, 1)
            callable = counter(function)
            with framehook.hook(callable):
                function()
            return 0 if callable.asked == 1 else 2

        workers = {"settle": settle, "set": set_values, "add": add}
        threads = [threading.Thread(target=workers[name]) for name in which for _ in range(2)]
        statuses = set()
        for thread in threads:
            thread.start()
        try:
            for _ in range(count):
                pid = os.fork()
                if not pid:
                    os._exit(in_the_child())
                statuses.add(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
                if statuses != {0}:
                    break
        finally:
            ends.set()
            for thread in threads:
                thread.join()
        codeextra.release(index)
        framehook.remove(handle)
        return statuses

    @unittest.skipUnless(hasattr(os, "fork"), "no fork")
    @in_a_child
    def test_a_forked_child_finds_no_lock_that_another_thread_held(self):
        # In a child that hangs the alarm goes off: -14.
        faulthandler.cancel_dump_traceback_later()
        kinds = (("settle",), ("set",), ("settle", "set", "add"))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)     # of forks beside threads
            for which in kinds:
                with self.subTest(which):
                    self.assertEqual(self.forks(which, FORKS // len(kinds)), {0})


# --- Lack of memory. -----------------------------------------------------------------------------------------------

@needs_hooks
@needs_failing_allocations
class WithoutMemory(HookTestCase):
    ALLOCATIONS = 400

    def each(self, operation, check):
        """Let each allocation of the operation fail, one at a time: both things happen."""
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
            # No function is made: CPython 3.13 loses a reference to the code where it cannot be.
            function.__code__: code_named("target", "def target(a, *b, **k):\n if a is None:\n  lambda: (a, b)\n"
                                                    " return 'replaced', a, b, k"),
            # And no list: without the GIL CPython 3.13 frees twice what a list does not get.
            generator.__code__: code_named("target", "def target(a):\n c = (a,) * 3\n yield 'replaced', a"),
        }
        settle = lambda view: framehook.SETTLED

        def replace(view):
            for code, replacement in replacements.items():
                if view.code is code:
                    view.arguments(), view.argument_names
                    return replacement

        def operation():
            with framehook.hook(replace):
                with framehook.hook(settle):
                    results = function(1, 2, k=3), next(generator(4))
                framehook.hooks()
            self.assertEqual(results, (("replaced", 1, (2,), {"k": 3}), ("replaced", 4)))

        self.each(operation, self.check_nothing_is_left)
        operation()

    @in_a_child
    def test_no_hook_is_left_by_an_add_that_runs_out_of_memory(self):
        callable = lambda view: None
        added = []

        def operation():
            added.append(framehook.add(callable))

        def check(number):
            if added:
                framehook.remove(added.pop())
            self.check_nothing_is_left(number)

        added_room = [None] * 10        # so that the list itself never grows while memory is short
        added.extend(added_room)
        added.clear()
        self.each(operation, check)

    @in_a_child
    def test_no_hook_is_left_by_a_removal_that_runs_out_of_memory(self):
        callable = lambda view: None
        # Called directly: a hook that is asked needs memory itself.
        ways = {
            "handle": lambda handle: functools.partial(framehook.remove, handle),
            "callable": lambda handle: functools.partial(framehook.remove, callable),
            "clear": lambda handle: framehook.clear,
        }
        for name, prepare in ways.items():
            for number in range(1, 60):
                with self.subTest(name, number=number):
                    attempt(number, prepare(framehook.add(callable)))
                    self.check_nothing_is_left(number)

    @in_a_child
    def test_a_call_that_is_settled_without_memory_to_note_it_runs(self):
        handle = framehooks.add_native("settle")
        try:
            for number in range(1, 20):
                function = new_function(body="return 5", parameters="")
                self.assertEqual((number, attempt(number, function)), (number, 5))
                self.assertEqual(function(), 5)
        finally:
            framehooks.remove(handle)


# --- Code of another interpreter. ----------------------------------------------------------------------------------

@needs_hooks
class ForeignCode(HookTestCase):
    SOURCE = "def inner():\n return [5]\nx = inner()\n"

    def settle_here(self, code):
        """Run it with three hooks that settle; how often they were asked about it."""
        asked = []

        def settle(mark):
            def hook(view):
                if view.code is code:
                    asked.append(mark)
                return framehook.SETTLED
            return hook

        with contextlib.ExitStack() as stack:
            for mark in range(3):
                stack.enter_context(framehook.hook(settle(mark)))
            exec(code)
            exec(code)
        return asked

    def test_code_that_another_interpreter_owns_runs_and_its_settling_is_not_remembered(self):
        code = compile(self.SOURCE, "<shared>", "exec")
        self.assertEqual(self.settle_here(code), [0, 1, 2])
        self.assertEqual(neighbourhooks.run_elsewhere(code, 3), 3)
        self.assertEqual(self.settle_here(code), [0, 1, 2])

    def test_code_that_was_settled_elsewhere_first_is_asked_about_here(self):
        code = compile(self.SOURCE, "<shared>", "exec")
        self.assertEqual(neighbourhooks.run_elsewhere(code, 3), 1)
        self.assertEqual(self.settle_here(code), [0, 1, 2])
        self.assertEqual(self.settle_here(code), [0, 1, 2])


# --- The end of a hook. --------------------------------------------------------------------------------------------

@contextlib.contextmanager
def unraisable():
    """The types of exceptions that come to sys.unraisablehook."""
    types = []
    before = sys.unraisablehook
    sys.unraisablehook = lambda arguments: types.append(arguments.exc_type)
    try:
        yield types
    finally:
        sys.unraisablehook = before


@needs_hooks
class UserData(HookTestCase):
    """What frees a hook's user data runs with no exception set, and leaves none behind."""

    def leaving(self, fails, at_end):
        """A function whose hook goes away when it is asked about it, and fails then or not."""
        function = new_function(body="return 'ran'")
        neighbourhooks.take_pending_at_free()
        return function, neighbourhooks.add_leaving(function.__code__, fails, at_end)

    def fail(self):
        raise KeyError("left behind")

    def test_the_hooks_own_exception_survives_the_end_of_its_data(self):
        ends = []
        function, _ = self.leaving(True, lambda: ends.append([x for x in range(3)]))
        with self.assertRaisesRegex(ValueError, "the hook's own error"):
            function()
        self.assertEqual((ends, neighbourhooks.take_pending_at_free()), ([[0, 1, 2]], 0))
        self.assertEqual(function(), "ran")

    def test_what_the_end_of_the_data_leaves_behind_is_reported(self):
        function, _ = self.leaving(False, self.fail)
        with unraisable() as reported:
            self.assertEqual(function(), "ran")
        self.assertEqual(reported, [KeyError])

    def test_both_exceptions_go_where_they_belong(self):
        function, _ = self.leaving(True, self.fail)
        with unraisable() as reported:
            with self.assertRaisesRegex(ValueError, "the hook's own error"):
                function()
        self.assertEqual((reported, neighbourhooks.take_pending_at_free()), ([KeyError], 0))

    def test_removing_succeeds_whatever_the_end_of_the_data_leaves_behind(self):
        for remove in (framehook.remove, framehooks.remove, lambda handle: framehook.clear(),
                       lambda handle: framehooks.clear()):
            _, handle = self.leaving(False, self.fail)
            with unraisable() as reported:
                remove(handle)
            self.assertEqual((reported, framecore.frame_hooks()), ([KeyError], []))


@needs_hooks
class Ends(ProgramTestCase):
    def test_what_the_data_leaves_behind_at_the_end_of_the_interpreter_is_reported(self):
        self.assertEqual(self.assert_program_succeeds("""if True:
            import sys, neighbourhooks
            sys.unraisablehook = lambda arguments, print=print: print(arguments.exc_type.__name__, flush=True)
            def fail():
                raise KeyError
            neighbourhooks.add_leaving(fail.__code__, False, fail)
            """), "KeyError\n")

    def test_a_daemon_thread_that_wants_to_run_on_at_the_end_hangs_and_is_not_unwound(self):
        self.assertEqual(self.assert_program_succeeds("""if True:
            import builtins, os, select, threading, neighbourhooks
            goes_on, unwound = os.pipe(), os.pipe()
            waits = threading.Event()
            def wait():
                waits.set()
                os.read(goes_on[0], 1)
            threading.Thread(target=lambda: neighbourhooks.call_below(wait, unwound[1]), daemon=True).start()
            waits.wait()
            class Late:
                def __del__(self, write=os.write, select=select.select, go=goes_on[1], unwound=unwound[0]):
                    write(go, b"!")
                    write(1, b"unwound" if select([unwound], [], [], 2)[0] else b"hangs")
            builtins.late = Late()
            """), "hangs")


# --- Many changes. -------------------------------------------------------------------------------------------------

CHANGES = 2 ** 24 + 1_000       # what numbers a change has 24 bits


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
        self.assertEqual(callable.asked, 1)
        settled = counter(function, framehook.SETTLED)
        with framehook.hook(settled):
            function(), function()
        self.assertEqual(settled.asked, 1)

        events = []
        sys.settrace(lambda frame, event, argument: events.append(frame.f_code.co_name))
        function()
        sys.settrace(None)
        self.assertEqual(events, ["target"])

        monitoring, started = sys.monitoring, []
        monitoring.use_tool_id(4, "many changes")
        monitoring.register_callback(4, monitoring.events.PY_START, lambda code, offset: started.append(code.co_name))
        monitoring.set_events(4, monitoring.events.PY_START)
        function()
        monitoring.set_events(4, 0)
        self.assertEqual(started, ["target"])


# --- What may be added and removed. --------------------------------------------------------------------------------

class Tool:
    """Its method is another object each time that it is asked for."""

    def __init__(self, code=None):
        self.code, self.asked = code, 0

    def hook(self, view):
        self.asked += view.code is self.code

    def __eq__(self, other):
        return True

    __hash__ = None


@needs_hooks
class Adding(HookTestCase):
    NAMES = ("a\0b", "\0", "\udcff", "a\ud800")

    def test_a_name_with_a_nul_or_a_surrogate_is_refused(self):
        callable = lambda view: None
        ways = {
            "_framecore": lambda name: framecore.add_frame_hook(callable, name),
            "framehook": lambda name: framehook.add(callable, name),
            "a block": lambda name: framehook.hook(callable, name).__enter__(),
        }
        for way, add in ways.items():
            for name in self.NAMES:
                with self.subTest(way, name=name):
                    with self.assertRaises(ValueError):
                        add(name)
                    self.assertEqual(framecore.frame_hooks(), [])

    def test_a_name_of_c_that_is_not_utf_8_is_refused(self):
        for name in (b"bad\xff\xfename", b"\x80", b"cut \xe2\x82"):
            with self.subTest(name):
                with self.assertRaises(ValueError):
                    neighbourhooks.add_named(name)
                self.assertEqual(framecore.frame_hooks(), [])
        handle = neighbourhooks.add_named("\N{EURO SIGN}".encode())
        self.assertEqual(self.info(handle)["name"], "\N{EURO SIGN}")
        neighbourhooks.add_named(b"")
        function = new_function()
        callable = counter(function)
        with framehook.hook(callable):
            function()
        function()
        self.assertEqual(callable.asked, 1)

    @in_a_child
    def test_null_is_refused_as_a_hook(self):
        for add in (neighbourhooks.add_null, neighbourhooks.add_null_extended):
            with self.assertRaises(ValueError):
                add()
            self.assertEqual(framecore.frame_hooks(), [])

    @in_a_child
    def test_true_is_no_handle(self):
        # In a process of its own, where this hook's handle is 1.
        handle = framehook.add(lambda view: None)
        self.assertEqual(handle, True)
        for remove in (framecore.remove_frame_hook, framehook.remove, sys.remove_frame_hook):
            for wrong in (True, False):
                with self.assertRaises(ValueError):
                    remove(wrong)
        for switch in (framehook.disable, framehook.disable_in_thread,
                       lambda hook: framehook.disable_for_code(hook, self.setUp)):
            with self.assertRaises((TypeError, ValueError)):
                switch(True)
        self.assertEqual([(info["id"], info["enabled"]) for info in framecore.frame_hooks()], [(handle, True)])

    def test_a_bound_method_is_found_again(self):
        function = new_function()
        tool, other = Tool(function.__code__), Tool()
        self.assertIsNot(tool.hook, tool.hook)
        for add, remove in ((framehook.add, framehook.remove), (sys.add_frame_hook, sys.remove_frame_hook)):
            add(tool.hook)
            function()
            self.assertEqual(tool.asked, 1)
            # Equal, but another object's.
            with self.assertRaises(ValueError):
                remove(other.hook)
            framehook.disable(tool.hook)
            function()
            framehook.enable(tool.hook)
            remove(tool.hook)
            self.assertEqual((tool.asked, framecore.frame_hooks()), (1, []))
            tool.asked = 0

    def test_copies_of_settled_are_settled_itself(self):
        settled = framehook.SETTLED
        copies = [copy.copy(settled), copy.deepcopy(settled), copy.deepcopy([settled])[0]]
        copies += [pickle.loads(pickle.dumps(settled, protocol)) for protocol in range(pickle.HIGHEST_PROTOCOL + 1)]
        for one in copies:
            self.assertIs(one, settled)
        function = new_function()
        callable = counter(function, copies[-1])
        with framehook.hook(callable):
            function(), function()
        self.assertEqual(callable.asked, 1)

    def test_a_wrong_answer_is_told_with_the_name_of_the_hook(self):
        def a_telling_name(view):
            return answer if view.code is function.__code__ else None

        function = new_function()
        for answer in (0, True, "code", function, object()):
            for name in ("the name of a tool", None):
                with self.subTest(answer=answer, name=name), framehook.hook(a_telling_name, name):
                    with self.assertRaisesRegex(TypeError, name or "a_telling_name") as caught:
                        function()
                    self.assertIn(type(answer).__name__, str(caught.exception))


if __name__ == "__main__":
    unittest.main()
