"""Other threads and tasks at the prompt: they are listed, looked at, stepped in, and wait or run meanwhile."""

import pdb
import sys
import threading
import time
import weakref

from .catching import is_others, is_own
from .finding import is_only_interpreter
from .session import session
from .turns import WITHOUT_GIL


class _Numbers:
    """Numbers of objects, which need not be hashable. They stay while the objects live."""

    def __init__(self):
        self._known = {}        # id -> (weak reference, number)
        self._last = 0

    def of(self, one):
        reference, number = self._known.get(id(one), (None, 0))
        if reference is None or reference() is not one:
            self._known = {key: known for key, known in self._known.items() if known[0]() is not None}
            self._last = number = self._last + 1
            self._known[id(one)] = weakref.ref(one), number
        return number


_threads, _tasks = _Numbers(), _Numbers()


def current_task():
    """The task that runs in this thread, or None."""
    asyncio = sys.modules.get("asyncio")
    try:
        return asyncio and asyncio.current_task()
    except (AttributeError, RuntimeError):      # no loop runs
        return None


def _all_tasks():
    asyncio = sys.modules.get("asyncio")
    try:
        tasks = asyncio.all_tasks() if asyncio else ()
        return sorted(sorted(tasks, key=lambda task: task.get_name()), key=_tasks.of)
    except (AttributeError, RuntimeError):
        return []


def _all_threads():
    # Not by enumerate(), which takes a lock: the prompt may be within it.
    return sorted(list(threading._active.values()), key=lambda thread: thread is not threading.main_thread())


def _stack_of_thread(thread):
    """The stack of another thread as pdb has it, without the debugger's frames in which it may wait."""
    frame, stack = sys._current_frames().get(thread.ident) if is_only_interpreter() else None, []
    while frame is not None and is_own(frame):
        frame = frame.f_back
    while frame is not None:
        stack.append((frame, frame.f_lineno))
        # The frames of a thread that runs meanwhile cannot be followed without the GIL.
        frame = None if WITHOUT_GIL and session.holder is None else frame.f_back
    return stack[::-1]


def _stack_of_task(task):
    """The frames that a task is suspended in."""
    stack, awaited = [], task.get_coro()
    while awaited is not None:
        kind = next((kind for kind in ("cr", "gi", "ag") if hasattr(awaited, f"{kind}_frame")), None)
        frame = kind and getattr(awaited, f"{kind}_frame")
        if frame is None:
            break
        stack.append((frame, frame.f_lineno))
        awaited = getattr(awaited, "gi_yieldfrom" if kind == "gi" else f"{kind}_await")
    return stack


def _innermost(stack):
    """The index of the innermost frame that is the program's, or else of the last one."""
    return next((index for index in reversed(range(len(stack))) if not is_others(stack[index][0].f_code)), len(stack) - 1)


def _place(stack):
    if not stack:
        return "nowhere"
    frame, line = stack[_innermost(stack)]
    return f"{frame.f_code.co_filename}({line}){frame.f_code.co_name}()"


def _find(argument, ones, numbers, name_of):
    """The one that has this number, or this name."""
    for one in ones:
        if argument == str(numbers.of(one)):
            return one
    return next((one for one in ones if argument == name_of(one)), None)


class OthersAtPrompt:
    """The commands of Pdb that are about threads and tasks."""

    _own_stack = None       # (stack, index) of this thread, while another thread or a task is selected
    _selected = None        # that thread or task

    def forget(self):
        if self._own_stack is not None:
            stack, index = self._own_stack
            self._forget_variables(stack[index][0])
        self._own_stack = self._selected = None
        super().forget()

    @staticmethod
    def _forget_variables(frame):
        """What forget() does for the frame that is selected: pdb's variables hold a frame."""
        frame.f_globals.pop("__pdb_convenience_variables", None)

    def _stack_here(self):
        return self.stack if self._own_stack is None else self._own_stack[0]

    def _select(self, one, stack):
        """Have the commands look at this stack; one is None: at this thread's own."""
        if one is None:
            if self._own_stack is None:
                self.print_stack_entry(self.stack[self.curindex])
                return
            (self.stack, index), self._own_stack = self._own_stack, None
        else:
            if not stack:
                self.error("No Python code runs there")
                return
            if self._own_stack is None:
                self._own_stack = self.stack, self.curindex
            self.stack, index = stack, _innermost(stack)
        if self._selected is not None:
            self._forget_variables(self.curframe)
        self._selected = one
        self._select_frame(index)

    def do_threads(self, arg):
        """threads [wait | go]

        List the threads, with their numbers, and where each is.

        After `threads wait`, the other threads wait while one has a prompt, and while next, step,
        until or return runs in it; `continue` lets all run. `threads go` ends that.
        """
        if arg in ("wait", "go"):
            session.hold(arg == "wait")
            return
        if arg:
            self._print_invalid_arg(arg)
            return
        for thread in _all_threads():
            here = thread is threading.current_thread()
            stack = self._stack_here() if here else _stack_of_thread(thread)
            self.message(f"{'>' if here else ' '} {_threads.of(thread)} {thread.name}{' (daemon)' if thread.daemon else ''}: {_place(stack)}")

    def do_thread(self, arg):
        """thread [number | name]

        Look at another thread: w, u, d, p, a, l and others are about its frames. next, step, until
        and return let this one run, and stop that one. Without argument, back to this thread.
        """
        thread = _find(arg, _all_threads(), _threads, lambda thread: thread.name) if arg else threading.current_thread()
        if thread is None:
            self.error(f"There is no thread {arg}")
        elif thread is threading.current_thread():
            self._select(None, None)
        else:
            self._select(thread, _stack_of_thread(thread))

    def do_tasks(self, arg):
        """tasks

        List the asyncio tasks of the loop that runs in this thread, with their numbers, and where each is.
        """
        if arg:
            self._print_invalid_arg(arg)
            return
        tasks, current = _all_tasks(), current_task()
        if not tasks:
            self.error("No loop of asyncio runs in this thread")
        for task in tasks:
            stack = self._stack_here() if task is current else _stack_of_task(task)
            self.message(f"{'>' if task is current else ' '} {_tasks.of(task)} {task.get_name()}: {_place(stack)}")

    def do_task(self, arg):
        """task [number | name]

        Look at another asyncio task of this thread: w, u, d, p, a, l and others are about its frames.
        next, step, until and return run the program until that task stops. Without argument, back to
        where the thread is.
        """
        if not arg:
            self._select(None, None)
            return
        task = _find(arg, _all_tasks(), _tasks, lambda task: task.get_name())
        if task is None:
            self.error(f"There is no task {arg}")
        elif task is current_task():
            self._select(None, None)
        else:
            self._select(task, _stack_of_task(task))

    # --- Commands that run the program. ---------------------------------------------------------

    def _run_selected(self, command, here, arg):
        """Run a command in the thread that is selected; `here` is what it does in this one."""
        thread = self._selected
        if not isinstance(thread, threading.Thread):
            return here(arg)
        if arg and not (command == "until" and arg.isdigit()):
            self._print_invalid_arg(arg)
            return None
        line = int(arg) if arg else self.stack[self.curindex][1] + 1        # the one that was shown: it runs meanwhile
        if not session.stop_in(thread.ident, self, command, self.curframe, line):
            self.error(f"{thread.name} has ended, or no tool id of sys.monitoring is free")
            return None
        return self.do_continue("")

    def do_next(self, arg):
        return self._run_selected("next", super().do_next, arg)

    def do_step(self, arg):
        # A task that is suspended continues in the frame that is shown.
        here = super().do_step if self._selected is None else super().do_next
        return self._run_selected("step", here, arg)

    def do_until(self, arg):
        return self._run_selected("until", super().do_until, arg)

    def do_return(self, arg):
        return self._run_selected("return", super().do_return, arg)

    def do_jump(self, arg):
        if self._selected is None:
            super().do_jump(arg)
        else:
            self.error("Only the frame in which this thread has stopped can jump")

    for _command in (do_next, do_step, do_until, do_return, do_jump):
        _command.__doc__ = getattr(pdb.Pdb, _command.__name__).__doc__
    del _command
    do_n, do_s, do_unt, do_r, do_j = do_next, do_step, do_until, do_return, do_jump


def wait_while_held():
    """Wait while another thread has a prompt, or steps, and the others are to wait for it."""
    while session.is_held():
        time.sleep(0.02)
