"""The debugger whose breakpoints are in force, and the code that they touch."""

import contextlib
import os
import sys
import threading

from . import catching
from .breakpoints import places_in, real_path
from .events import INSTRUCTIONS, Events
from .finding import code_of_functions, finder
from .index import CodeIndex, lines_of


HOOK_LOST = "The program has removed the debugger's frame hook. It was added again."
EVENTS_LOST = "The program has taken the debugger's events of sys.monitoring. They were set again."
TOOL_LOST = "The program has taken the debugger's tool id, and none is free: no breakpoint stops."


def leave_loop():
    """Have this thread's event loop, if one runs, report no task that ends by a SystemExit: it is handed on."""
    asyncio = sys.modules.get("asyncio")
    try:
        loop = asyncio.get_running_loop()
        theirs = loop.get_exception_handler()
    except (AttributeError, RuntimeError):      # no loop runs
        return

    def report(loop, context):
        if isinstance(context.get("exception"), SystemExit):
            return
        if theirs is not None:
            theirs(loop, context)
        else:
            loop.default_exception_handler(context)

    loop.set_exception_handler(report)


def _is_alive(identifier):
    """Whether there is a thread of this number.

    sys._current_frames() has other interpreters' too, and threading.enumerate() takes a lock, which an event may be within.
    """
    return identifier in threading._active


class Session:
    """What the debuggers of an interpreter share.

    The last one that has begun is in force. When one that runs a statement ends, those before it are
    in force again. One that was called by the program
    takes the place of another such one.
    """

    def __init__(self):
        self.events = Events()
        self._index = CodeIndex()
        self._finder = None
        self._owners = []       # (debugger, whether it runs a statement)
        self.lock = threading.RLock()
        self.owner = None       # the debugger in force
        self.callbacks = {}     # event -> function
        self.at_start = None    # what a frame hook calls
        # What threads do at the next line that they run, by their ids.
        self.raising = {}       # the exception that one is to be left by
        self.wakes = False      # whether SIGINT was sent to the main thread, for it to raise an exception
        self.stopping = {}      # what stops one: arguments of Bdb.stop_in_thread(), after the debugger
        self.holds = False      # whether threads wait while one has a prompt, or steps
        self.holder = None      # the one that they wait for
        self.prompting_child = None     # the number of the process that has the prompt, if a child has it
        self.given_up = ""      # what was typed there before Ctrl-C
        self.evaluating = contextlib.nullcontext    # a context manager of a debugger: for what is typed at its prompt
        self.losses = set()     # what the program has taken, and was not reported yet

    def has(self, debugger):
        return any(one is debugger for one, _ in self._owners)

    def enter(self, debugger, runs):
        """Put a debugger in force. False: it cannot be, since all tool ids are in use."""
        with self.lock:
            if self.events.tool is None and not self.events.start():
                return False
            owners = [one for one in self._owners if one[0] is not debugger or one[1]]
            if owners and not runs and not owners[-1][1]:
                owners.pop()
            if runs or not owners or owners[-1][0] is not debugger:
                owners.append((debugger, runs))
            self._owners = owners
            self._in_force()
            return True

    def leave(self, debugger, runs):
        """Take a debugger out of force, and those that began after it."""
        with self.lock:
            if (debugger, runs) not in self._owners:
                return self.end_if_idle()
            place = len(self._owners) - 1 - self._owners[::-1].index((debugger, runs))
            self._owners = self._owners[:place]
            self._in_force()

    def leave_all(self):
        """Take all debuggers out of force."""
        with self.lock:
            self._owners = []
            self._in_force()

    def end_if_idle(self):
        """Keep nothing where no debugger is in force and none steps."""
        with self.lock:
            if self._owners or self.events.watches:
                return
            if any(map(_is_alive, self.raising | self.stopping)):
                return
            self._interrupt_none()
            if self._finder is not None:
                self._finder.stop()
                self._finder = None
            self.events.stop()
            self._index.clear()
            self.losses.clear()

    def raise_in(self, exceptions):
        """Raise exceptions in other threads, {id of a thread: exception}, at the next line that each runs."""
        with self.lock:
            self.raising.update(exceptions)
            self.holder = None
            self._interrupt()

    def raise_here(self):
        """Raise what is to be raised in this thread."""
        exception = self.raising.pop(threading.get_ident(), None)
        if exception is not None:
            # Its sender has the lock until SIGINT is sent, so the handler finds `wakes`, and nothing left to raise.
            with self.lock:
                self._interrupt()
                self.end_if_idle()
            leave_loop()
            raise exception

    def at_next_instruction(self, code):
        """Report the next instruction of a code object, also if no debugger is in force any more. False: no tool id is free."""
        with self.lock:
            if self.events.tool is None:
                if not self.events.start():
                    return False
                self.events.call(self.callbacks)
            self.events.watch(code, INSTRUCTIONS)
            return True

    def stop_in(self, thread, debugger, command, frame, line):
        """Have a debugger stop another thread, or start a command for one of its frames there. False: it cannot."""
        with self.lock:
            if self.events.tool is None or not _is_alive(thread):
                return False
            self.stopping[thread] = debugger, command, frame, line
            if self.holder is not None:
                self.holder = thread
            self._interrupt()
            return True

    def stop_here(self, frame):
        """Stop this thread if it is to be stopped."""
        stop = self.stopping.pop(threading.get_ident(), None)
        if stop is not None:
            debugger, *how = stop
            debugger.stop_in_thread(frame, *how)
            with self.lock:
                self._interrupt()

    def hold(self, on=True):
        """Have the other threads wait for this one, as far as it has a prompt or steps; or no longer."""
        with self.lock:
            self.holds = on
            self.hold_others() if on else self.release()

    def hold_others(self):
        """Others wait for this thread, if they are to."""
        if self.holds:
            with self.lock:
                self.holder = threading.get_ident()
                self._interrupt()

    def release(self):
        """No thread waits for another one."""
        if self.holder is not None:
            with self.lock:
                self.holder = None
                self._interrupt()

    def is_held(self):
        """Whether this thread is to wait for another one."""
        holder = self.holder
        if holder in (None, threading.get_ident()):
            return False
        if _is_alive(holder):
            return True
        self.release()      # it has ended
        return False

    def _interrupt(self):
        self.events.interrupt(bool(self.raising or self.stopping or self.holder is not None))

    def _interrupt_none(self):
        self.raising.clear()
        self.stopping.clear()
        self.holder = None

    def _in_force(self):
        owner = self.owner = self._owners[-1][0] if self._owners else None
        if owner is None:
            self.events.catch(0)
            for entry in list(self.events.entries.values()):
                if (code := entry.reference()) is not None:
                    self.events.set_lines(code, {})
            self.end_if_idle()
            return
        self.events.call(self.callbacks)
        if self._finder is None:
            self._find()
        self.breaks_changed(owner)

    def _find(self):
        for entry in list(self.events.entries.values()):
            if (code := entry.reference()) is not None:
                entry.disabled(code)
        self._finder = finder(self.found, self.at_start, self.events)

    def at_next_start(self, code):
        """Have `at_start` called when this code object starts next, where there are frame hooks."""
        finder, entry = self._finder, self.events.entries.get(id(code))
        if finder is not None and entry is not None and entry.needs_hook:
            entry.needs_hook = False
            finder.at_next_start(code)

    def knows(self, file):
        """Whether code of a file has run."""
        return self._index.has(real_path(file))

    def look_for(self, file):
        """Whether there are functions of a file, also such as have not run."""
        if self.owner is not None:
            for code in code_of_functions():
                if code.co_filename == file:
                    self.found(code)
        return self.knows(file)

    def has_line(self, file, line):
        """Whether code has run that has this line."""
        return any(line in lines_of(code) for code in self._index.at(real_path(file), line))

    def found(self, code):
        """A code object is about to run for the first time, or runs."""
        owner = self.owner
        if owner is not None:
            self._index.add(code, real_path(owner.canonic(code.co_filename)))
            file = owner.file_of(code.co_filename)
            self._touch(owner, code, file)
            if file in owner.breaks:
                self._find_inner(file)

    def _find_inner(self, file):
        """Find the code within the code of a file that has breakpoints.

        No event reports frames that a frame hook starts, but a hook may be visible to debuggers.
        """
        for code in self._index.take_inner(real_path(file)):
            self.found(code)

    def break_changed(self, debugger, file, line):
        """The breakpoints at a line are others now."""
        if debugger is self.owner:
            self._catch()
            self._see_all()
            self._find_inner(file)
            for code in self._index.at(real_path(file), line):
                self._touch(debugger, code, file)

    def breaks_changed(self, debugger):
        """All breakpoints may be others now."""
        if debugger is not self.owner:
            return
        self._catch()
        for entry in list(self.events.entries.values()):
            if entry.lines and (code := entry.reference()) is not None:
                self._touch(debugger, code, debugger.file_of(code.co_filename))
        for file, lines in list(debugger.breaks.items()):
            for line in list(lines):
                self.break_changed(debugger, file, line)

    def _catch(self):
        with self.lock:
            self.events.catch(catching.events())

    def _see_all(self):
        """Have the finder see all code that runs from here on. False: it was taken out."""
        with self.lock:
            in_place = self._finder.in_place()
            if not in_place:
                self._finder.stop()
                self._find()
            return in_place is not None

    def in_place(self):
        """Whether the program has taken nothing from the debugger, as far as a command needs it that continues as the last one did."""
        return self.events.in_place() and (self.owner is None or self._finder.is_called())

    def mend(self):
        """Take again what the program has taken from the debugger: `losses` records it."""
        with self.lock:
            if self.owner is not None and not self._see_all():
                self.losses.add(HOOK_LOST)
            if self.events.mend():
                self.losses.add(EVENTS_LOST if self.events.tool is not None else TOOL_LOST)

    def _touch(self, owner, code, file):
        if file in owner.breaks or id(code) in self.events.entries:
            # Or another thread that has seen fewer breakpoints may come later.
            with self.lock:
                places = places_in(code, file, owner.breaks.get(file))
                self.events.set_lines(code, places)

    def renew_locks(self):
        """In a child process: the threads that may have held them are not there."""
        self.lock = threading.RLock()
        self._interrupt_none()
        self.events.renew_lock()
        self._interrupt()
        self._index.renew_lock()


session = Session()
os.register_at_fork(after_in_child=session.renew_locks)
