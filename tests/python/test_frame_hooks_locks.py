"""No lock of frame hooks is held while Python code runs, in a forked child, or where the program ends."""

import faulthandler
import os
import signal
import sys
import threading
import unittest
import warnings

from support import (
    IN_A_CHILD,
    ON_STOCK,
    HookTestCase,
    counter,
    framecore,
    framehook,
    in_a_child,
    in_new_thread,
    needs_hooks,
    new_function,
    run_program,
    use_extensions,
)

use_extensions()
import codeextra

FORKS = int(os.environ.get("FERRULE_HOOK_FORKS", "300"))
HANG_SECONDS = 200      # after which a test that hangs is ended; others take much less


# The program is over while four threads do one thing, each as often as it can.
DAEMONS = """
import itertools, sys, threading, time
import codeextra, framehook
from support import new_function

codes = tuple(new_function().__code__ for _ in range(20))
handle, index = framehook.add(lambda view: None), codeextra.request("none")
begun = threading.Barrier(5)

def waits():
    yield

def look(view):
    if view.code is waits.__code__:
        view.watch(lambda event: None)

def disable_code(code):
    framehook.disable_for_code(handle, code)

def set(code):
    codeextra.set(code, index, 1)
    codeextra.set(code, index, None)

def add(code):
    framehook.remove(framehook.add(lambda view: None))

def switch(code):
    with framehook.disabled_for_code(handle, code):
        pass

def watch(code):
    next(waits())

def over_and_over(work):
    begun.wait()
    for code in itertools.cycle(codes):
        work(code)

if sys.argv[1] == "watch":
    framehook.add(look)
for _ in range(4):
    threading.Thread(target=over_and_over, args=(globals()[sys.argv[1]],), daemon=True).start()
begun.wait()
time.sleep(0.1)
"""
ENDS = 2


class NamedInPython(object if ON_STOCK else framehook.hook):
    """A block that runs Python code while it is entered."""

    @property
    def name(self):
        return "a name"

    @name.setter
    def name(self, name):
        pass


class AtEachInstruction:
    """Does something before instruction `number` of those that enter and leave a block."""

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
        """Do the operation, and return whether it had so many instructions."""
        self.codes = (operation.__code__, NamedInPython.name.fget.__code__)
        sys.settrace(self.trace)
        try:
            operation()
        finally:
            sys.settrace(None)
        return self.left <= 0


def at_each_instruction(operation, action, check):
    """Do the operation once for each of its instructions, with the action before that one.

    Returns the number of instructions.
    """
    number = 1
    while AtEachInstruction(number, action).run(operation):
        check(number)
        number += 1
    return number - 1


@needs_hooks
class Locks(HookTestCase):
    def setUp(self):
        super().setUp()
        if os.environ.get(IN_A_CHILD):
            faulthandler.dump_traceback_later(HANG_SECONDS, exit=True)
            self.addCleanup(faulthandler.cancel_dump_traceback_later)

    def blocks_in_a_block(self, run_inner):
        """Enter and leave a block within another one, before each instruction of that."""
        target = new_function()
        callable = counter(target)
        hook = NamedInPython(callable)
        inside = []

        def inner():
            with hook:
                target()
                inside.append(callable.entries)

        def operation():
            with hook:
                target()

        def check(number):
            self.assertEqual((callable.entries, inside), (2, inside[:1]), number)
            self.assertEqual(framecore.frame_hooks(), [], number)
            callable.entries = 0
            inside.clear()

        self.assertGreater(at_each_instruction(operation, lambda: run_inner(inner), check), 10)

    def interrupt_a_block_at_each_instruction(self, interrupt):
        """Calls `interrupt` with the block, while that is entered and left. No hook is left afterwards."""
        hook = NamedInPython(lambda view: None)

        def block():
            with hook:
                pass

        def check(number):
            self.assertEqual(framecore.frame_hooks(), [], number)

        self.assertGreater(at_each_instruction(block, lambda: interrupt(block), check), 10)

    @in_a_child
    def test_a_block_may_be_entered_wherever_another_one_is_being_entered(self):
        # The tracer acts as a signal handler. Its calls are neither traced nor dispatched to hooks.
        self.interrupt_a_block_at_each_instruction(lambda block: block())

    @in_a_child
    def test_another_thread_may_enter_a_block_wherever_one_is_being_entered(self):
        self.blocks_in_a_block(in_new_thread)

    @in_a_child
    def test_a_signal_handler_may_enter_the_block_that_it_interrupts(self):
        hook = framehook.hook(lambda view: framehook.DISABLE)
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
        self.interrupt_a_block_at_each_instruction(lambda block: framehook.clear())

    def test_hooks_may_be_cleared_wherever_one_is_being_added(self):
        def check(number):
            framehook.clear()

        callable = lambda view: None
        count = at_each_instruction(lambda: framehook.add(callable), framehook.clear, check)
        self.assertGreater(count, 3)

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
        """Fork while other threads do these things, and return the exit statuses of the children.

        A child must be able to disable hooks for code, to set values on code, and to add hooks. It reads no variable and no list that the
        other threads read: without the GIL each closure's cell has a lock, which CPython hands to a thread that waits for it, and
        a child copies it as that thread's for ever, on stock too.
        """
        function = new_function()
        codes = tuple(new_function().__code__ for _ in range(50))
        handle = framehook.add(lambda view: None)
        index = codeextra.request("none")
        ends = threading.Event()

        def disable_code(ends, codes, handle, index):
            while not ends.is_set():
                for code in codes:
                    framehook.disable_for_code(handle, code)

        def set_values(ends, codes, handle, index):
            while not ends.is_set():
                for code in codes:
                    codeextra.set(code, index, 1)
                    codeextra.set(code, index, None)

        def add(ends, codes, handle, index):
            while not ends.is_set():
                framehook.remove(framehook.add(lambda view: None))

        def in_the_child(codes, handle, index):
            signal.signal(signal.SIGALRM, signal.SIG_DFL)
            signal.alarm(HANG_SECONDS // 4)
            framehook.disable_for_code(handle, codes[0])
            codeextra.set(codes[1], index, 1)
            callable = counter(function)
            with framehook.hook(callable):
                function()
            return 0 if callable.entries == 1 else 2

        workers = {"disable_code": disable_code, "set": set_values, "add": add}
        threads = [threading.Thread(target=workers[name], args=(ends, codes, handle, index)) for name in which for _ in range(2)]
        statuses = set()
        for thread in threads:
            thread.start()
        try:
            for _ in range(count):
                pid = os.fork()
                if not pid:
                    os._exit(in_the_child(codes, handle, index))
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
        # A child that hangs is ended by its alarm, and its status is -14.
        faulthandler.cancel_dump_traceback_later()
        kinds = (("disable_code",), ("set",), ("disable_code", "set", "add"))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)     # of forks beside threads
            for which in kinds:
                with self.subTest(which):
                    self.assertEqual(self.forks(which, FORKS // len(kinds)), {0})

    def test_daemon_threads_that_change_hooks_let_the_program_end(self):
        for which in ("disable_code", "set", "add", "switch", "watch"):
            for time in range(ENDS):
                with self.subTest(which, time=time):
                    done = run_program(DAEMONS, which)
                    self.assertEqual((done.returncode, done.stderr), (0, ""))
