"""A bdb.Bdb that touches only the code objects and frames that it has to."""

import bdb
import inspect
import linecache
import opcode
import operator
import os
import sys
import threading

from . import breakpoints, catching, turns
from .at_events import thread
from .catching import RUNNERS, is_own
from .events import ALL_LINES, CATCH_RAISED, INSTRUCTIONS, NO_LINES
from .others import current_task
from .per_thread import RUNNING, STEPPING, WATCHING, MadeOnce, OfThreads, Watched, of_thread
from .session import leave_loop, session


_entries = session.events.entries
# f_trace_lines and f_trace_opcodes of a frame that the program does not trace.
_USUAL = True, False


# A frame may call its own code many times. From then on it is watched without a pause.
_MOST_PAUSES = 100
_GENERATORS = bdb.GENERATOR_AND_COROUTINE_FLAGS
_RETURNS = {opcode.opmap[name] for name in ("RETURN_VALUE", "RETURN_CONST")}
# What resumes a generator, and gets an event at its end.
_RESUMES = {opcode.opmap[name] for name in ("FOR_ITER", "SEND")}


# A program that makes names of files has more.
_MOST_NAMES = 10_000
try:
    _started_in = os.getcwd()
except OSError:
    _started_in = ""


def _opcode_at(frame):
    """The opcode of the instruction that a frame executes. None: it has not started."""
    place = frame.f_lasti
    return frame.f_code.co_code[place] if place >= 0 else None


def _ends_unseen(frame, command_is_return):
    """Whether the frame that has resumed a generator may get no event when that returns."""
    kind, resumer = frame.f_code.co_flags & _GENERATORS, frame.f_back
    if not kind or (kind == inspect.CO_GENERATOR and command_is_return):
        return False        # as in pdb: it may well be a call of next()
    return kind == inspect.CO_ASYNC_GENERATOR or resumer is None or _opcode_at(resumer) not in _RESUMES


class Quit(SystemExit, bdb.BdbQuit):
    """What `quit` raises: tasks, callbacks and threads hand a SystemExit on, and end without a report."""


class Bdb(bdb.Bdb):
    """bdb.Bdb without its price.

    A breakpoint is a LINE event of the code objects that contain it. `next`, `until` and `return`
    watch events of one or two frames. Only `step` traces, with sys.settrace() in its thread.
    """

    _of_threads = MadeOnce(OfThreads)
    _here = property(operator.attrgetter("_of_threads.here"))
    _runs_in = None     # the thread that runs a statement
    stopframe = of_thread("stopframe")
    returnframe = of_thread("returnframe")
    stoplineno = of_thread("stoplineno")
    botframe = of_thread("botframe")
    enterframe = of_thread("enterframe")
    frame_returning = of_thread("frame_returning")
    trace_opcodes = of_thread("trace_opcodes")
    frame_trace_lines_opcodes = of_thread("frame_trace_lines_opcodes")

    # --- Begin and end. -------------------------------------------------------------------------

    def run(self, cmd, globals=None, locals=None):
        with _Running(self):
            super().run(cmd, globals, locals)

    def runeval(self, expr, globals=None, locals=None):
        with _Running(self):
            return super().runeval(expr, globals, locals)

    def runcall(self, func, /, *args, **kwds):
        with _Running(self):
            return super().runcall(func, *args, **kwds)

    def set_trace(self, frame=None):
        if frame is None:
            frame = sys._getframe().f_back
        while is_own(frame) and frame.f_back is not None:
            frame = frame.f_back        # a signal has come while the debugger was at work
        self.stop_at_instruction(Watched(frame, INSTRUCTIONS))

    def stop_at_instruction(self, watched):
        """Stop at the next instruction of a frame."""
        self._begin(watched.shown, lambda: self._continue(WATCHING, [watched]))

    def stop_in_thread(self, frame, command, stop_in, line):
        """Start `command` (next, step, until, return), typed at another thread's prompt, for a frame of this thread, which is in `frame`."""
        caller = frame
        while caller not in (None, stop_in):
            caller = caller.f_back
        arrived = frame is stop_in and (command == "next" or (command == "until" and frame.f_lineno >= line))
        if caller is None or command == "step" or arrived:
            self.set_trace(frame)       # also where the other frame has ended
        elif command == "until":
            self._begin(frame, lambda: self.set_until(stop_in, line))
        else:
            self._begin(frame, lambda: getattr(self, f"set_{command}")(stop_in))

    def _begin(self, frame, go):
        """Begin in a thread that is in `frame`, as one that continues by the command `go`."""
        outer = self.enterframe
        with session.lock:      # or another thread may end the session before there is a watch
            has_tool = session.enter(self, False)
            self.reset()
            self.botframe = frame
            while self.botframe.f_back is not None:
                self.botframe = self.botframe.f_back
            self.enterframe = frame
            try:
                if has_tool:
                    go()
                else:
                    self.set_stepinstr()
            finally:
                self.enterframe = outer

    def set_continue(self):
        if session.events.tool is None or self.enterframe is None:
            super().set_continue()
        else:       # bdb would end the program's own tracing
            self._set_stopinfo(self.botframe, None, -1)
        self._continue_in_another_task()
        if session.holder == threading.get_ident():
            session.release()
        if not self.breaks:
            session.leave(self, False)

    def set_quit(self):
        super().set_quit()
        self._end_step()
        session.leave(self, False)

    # --- How to continue. -------------------------------------------------------------------------

    def _set_stopinfo(self, stopframe, returnframe, stoplineno=0, opcode=False):
        here = self._here
        if (here.in_place and stopframe is here.stopframe is not None and returnframe is here.returnframe and stoplineno == here.stoplineno
                and not opcode and here.frame_returning is None and here.enterframe is not None and not here.interrupted
                and here.task is current_task() and ((tracer := sys.gettrace()) is None or not self._is_mine(tracer)) and session.in_place()):
            # The same command in the same frame, as `next` at each line: its watches and events are in place.
            self.quitting = False
            thread.stepper = self
            return
        with session.lock:      # or another thread may end the session before there is a watch
            self._set_stop(stopframe, returnframe, stoplineno, opcode)

    def _set_stop(self, stopframe, returnframe, stoplineno, opcode):
        if not session.in_place():
            session.mend()
        here, task = self._here, current_task()
        here.in_place = False
        if here.mode is WATCHING and here.task not in (None, task) and here.watched:
            here.interrupted.append((here.task, self.stopframe, self.returnframe, self.stoplineno))
        here.interrupted = [one for one in here.interrupted if one[0] is not task]
        super()._set_stopinfo(stopframe, returnframe, stoplineno, opcode)
        if session.events.tool is None or (stopframe is None and stoplineno != -1):
            mode = STEPPING     # without a tool, as bdb does it
        elif stoplineno == -1 and stopframe in (None, self.botframe):
            mode = RUNNING
        else:
            mode = WATCHING
        here.task = task if mode is WATCHING else None
        if self.enterframe is None:
            here.mode = mode        # whether the caller begins to trace
        else:
            self._continue(mode, self._frames_to_watch() if mode is WATCHING else [])
            here.in_place = mode is WATCHING and not opcode and here.frame_returning is None

    def _continue(self, mode, watched):
        here = self._here
        here.mode = mode
        here.pauses = 0
        if mode is not RUNNING:
            thread.stepper = self
        if mode is STEPPING:
            self._trace(self.enterframe)
        else:
            self._trace_no_more()
        self._watch(watched)

    def _continue_in_another_task(self):
        """Continue the last next, until or return that a stop in another task has interrupted."""
        here = self._here
        while here.interrupted:
            task, *stop = here.interrupted.pop()
            if not task.done():
                with session.lock:
                    self._set_stop(*stop, False)
                here.task = task
                return

    def _end_step(self):
        here = self._here
        here.mode, here.task = RUNNING, None
        here.interrupted.clear()
        if session.holder == threading.get_ident():
            session.release()
        self._trace_no_more()
        self._watch([])

    def _frames_to_watch(self):
        here, stop, until_end = self._here, self.stopframe, self.returnframe
        here.ended = stop is self.frame_returning and _opcode_at(stop) in _RETURNS
        watched = []
        if until_end not in (None, stop, self.frame_returning):
            _add(watched, until_end, NO_LINES)
            if stop is until_end.f_back:
                return watched      # it cannot run before that
        _add(watched, stop, NO_LINES if self.stoplineno == -1 else self.stoplineno)
        if stop is self.frame_returning:
            _add_resumer(watched, stop)
        return watched

    def _watch(self, watched):
        here = self._here
        before, here.watched, here.in_place = here.watched, watched, False
        for one in watched:
            code = one.frame.f_code
            session.events.watch(code, one.first)
            session.at_next_start(code)
        for one in before:
            session.events.unwatch(one.frame.f_code, one.first, one.paused)
        if before and not watched:
            session.end_if_idle()

    def at_start(self, view):
        """Code that is watched starts in another frame. True: this should be called again.

        If a frame that is watched has called it, that is not watched until the other one has ended.
        """
        here = self._here
        if here.mode is not WATCHING:
            return True
        code = view.code
        of_code = [one for one in here.watched if one.frame.f_code is code and one.first != INSTRUCTIONS]
        if not of_code or code.co_flags & _GENERATORS:
            return True
        if here.pauses >= _MOST_PAUSES or any(one.paused for one in of_code):
            return False
        callers = {one.frame for one in of_code}
        caller = sys._getframe(1)
        while caller is not None and callers:
            callers.discard(caller)
            caller = caller.f_back
        if callers:
            return True         # it runs in another greenlet
        view.watch(self._at_end_of_pause, here.watched)
        here.pauses += 1
        here.in_place = False
        for one in of_code:
            one.paused = session.events.pause(code, one.first)
        return False

    def _at_end_of_pause(self, event):
        if self._here.watched is event.data:
            for one in event.data:
                if one.paused and one.frame.f_code is event.code:
                    one.paused = False
                    session.events.resume(event.code, one.first)
                    session.at_next_start(event.code)

    # --- Tracing, for `step`. -------------------------------------------------------------------

    def _is_mine(self, tracer):
        return getattr(tracer, "__self__", None) is self

    def _remember_tracer(self):
        tracer = sys.gettrace()
        if not _is_a_debuggers(tracer):
            self._here.tracer = tracer

    def _remember_local_tracer(self, frame):
        if not _is_a_debuggers(frame.f_trace):
            self._here.local_tracers[frame] = frame.f_trace

    def _trace(self, frame):
        """Trace this thread, and this frame of those that it is in."""
        if not self._is_mine(sys.gettrace()):
            self._remember_tracer()
            sys.settrace(self.trace_dispatch)
        self._remember_local_tracer(frame)
        theirs = frame.f_trace_lines, frame.f_trace_opcodes and not self.trace_opcodes
        if theirs != _USUAL:
            self.frame_trace_lines_opcodes.setdefault(frame, theirs)
        frame.f_trace = self.trace_dispatch
        frame.f_trace_lines = True

    def _trace_no_more(self):
        here = self._here
        if self._is_mine(sys.gettrace()) or here.tracer is not None:
            sys.settrace(here.tracer)
            here.tracer = None
        elif not self.frame_trace_lines_opcodes:
            return
        frame = self.enterframe
        while frame is not None:
            if self._is_mine(frame.f_trace):
                frame.f_trace = here.local_tracers.get(frame)
            frame = frame.f_back
        here.local_tracers.clear()
        for frame, (lines, opcodes) in self.frame_trace_lines_opcodes.items():
            frame.f_trace_lines, frame.f_trace_opcodes = lines, opcodes
        self.frame_trace_lines_opcodes = {}

    def _set_caller_tracefunc(self, current_frame):
        # bdb leaves a caller alone that the program traces. The lowest frame is the debugger's own
        # unless there is none below it.
        caller = current_frame.f_back
        if self._here.mode is STEPPING and caller is not None and not is_own(caller) and (
                caller is not self.botframe or caller.f_back is None) and not self._is_mine(caller.f_trace):
            self._trace(caller)

    def _is_traced(self, frame):
        return self._is_mine(frame.f_trace) and self._is_mine(sys.gettrace())

    def set_enterframe(self, frame):
        here = self._here
        here.enterframe = frame
        return here

    def trace_dispatch(self, frame, event, arg):
        here = self._here
        outer, line = here.enterframe, frame.f_lineno
        entry = _entries.get(id(frame.f_code)) if event == "line" and here.mode is STEPPING else None
        with turns.mine():
            session.raise_here()
            try:
                tracer = super().trace_dispatch(frame, event, arg)
            except BaseException as error:
                self._end_step()        # as CPython does for a trace function
                if isinstance(error, SystemExit | bdb.BdbQuit):
                    leave_loop()
                if type(error) is bdb.BdbQuit:
                    runs_here = (self._runs_in or threading.main_thread().ident) == threading.get_ident()
                    raise (Quit if runs_here else SystemExit)(1) from None
                raise
            finally:
                here.enterframe = outer
        if event == "return" and not frame.f_code.co_flags & _GENERATORS:
            self._has_ended(frame)
        if entry is not None and here.mode is not STEPPING:
            # The LINE event of this line follows this one, also where a jump has left the line. If it
            # is disabled, the next one in this thread is of another line or
            # instruction. Where the event would find nothing anyway, no frame is held for it.
            if line in entry.lines or here.watches(frame):
                here.passed = frame, line, frame.f_lasti
        return tracer if here.mode is STEPPING else None

    def _has_ended(self, frame):
        """Let go of a frame: what its variables hold has to die as it does without a debugger."""
        here = self._here
        here.local_tracers.pop(frame, None)
        self.frame_trace_lines_opcodes.pop(frame, None)
        if here.passed is not None and here.passed[0] is frame:
            here.passed = None

    def dispatch_call(self, frame, arg):
        if is_own(frame):
            return None
        return super().dispatch_call(frame, arg)

    def dispatch_return(self, frame, arg):
        # A step out of a frame that does not count ends in its caller all the same.
        self._set_caller_tracefunc(frame)
        return super().dispatch_return(frame, arg)

    def stop_here(self, frame):
        here = self._here
        if here.mode is RUNNING or (here.found is not None and here.found[0] is frame):
            return False
        if frame is here.stopframe and not self.skip:
            return here.stoplineno != -1 and frame.f_lineno >= here.stoplineno      # bdb's, with fewer lookups
        return super().stop_here(frame)

    # --- Events of code that is watched, or has a breakpoint. -----------------------------------

    def at_step(self, frame, line):
        """A line, in a thread where this debugger steps. True: it needs no other look."""
        here = self._here
        passed, here.passed = here.passed, None
        if here.mode is RUNNING:
            thread.stepper = None
        if passed is not None and passed == (frame, line, frame.f_lasti):
            return True
        if here.mode is STEPPING:
            return self._is_traced(frame)
        if (watched := here.watches(frame)) and line >= watched.first:
            if here.ended:
                self._stop_if_ended()
            self.trace_dispatch(frame, "line", None)
            return True
        return False

    def at_instruction(self, frame):
        watched = self.watches(frame)
        if watched.first == INSTRUCTIONS and watched.shown.f_lineno is not None:
            self.trace_dispatch(watched.shown, "opcode", None)

    def at_exception(self, frame, exception):
        """An exception in a frame that is watched."""
        # That of a generator's end is shown as such.
        if not isinstance(exception, (StopIteration, GeneratorExit)):
            self._stop_if_ended()
        about = type(exception), exception, exception.__traceback__
        self.trace_dispatch(frame, "exception", about)

    def watches(self, frame):
        """The Watched of a frame, or None."""
        return self._here.watches(frame)

    def at_end(self, frame, value, returned):
        """A frame that is watched ends.

        The end of a generator or coroutine is an exception in the frame that has resumed it, and
        stops there. It stops here if there is no such exception: C has resumed it, as a task does.
        """
        self._stop_if_ended()
        if returned and frame is self.stopframe and _ends_unseen(frame, self.stoplineno == -1):
            self.stopframe, self.stoplineno = None, 0
        self.trace_dispatch(frame, "return", value)
        if self.watches(frame):
            here, watched = self._here, [one for one in self._here.watched if one.frame is not frame]
            if frame is self.returnframe and self.stopframe not in (None, frame):
                _add(watched, self.stopframe, self.stoplineno)
            elif frame is self.stopframe:
                here.ended = True
                _add_resumer(watched, frame)
            self._watch(watched)
        self._has_ended(frame)

    def _stop_if_ended(self):
        """Stop at this event if there is no frame any more to stop in."""
        here = self._here
        if here.ended:
            here.ended = False
            self.stopframe, self.stoplineno = None, 0

    def stop_at(self, frame, point, problem):
        """A breakpoint stops a frame."""
        here = self._here
        here.found = frame, point, problem
        try:
            self.trace_dispatch(frame, "line", None)
        finally:
            here.found = None

    # --- Exceptions. ----------------------------------------------------------------------------

    def dispatch_exception(self, frame, arg):
        here = self._here
        if here.catch is None:
            if session.events.catching & CATCH_RAISED and self.stop_here(frame):
                here.shown = id(arg[1]), id(arg[2])
            return super().dispatch_exception(frame, arg)
        _, point, problem = here.catch
        self.currentbp = point.number
        if problem is not None:
            self.condition_raised(point, problem)
        if point.way == "raised":
            self.user_raised(frame, arg)
        else:
            self.user_uncaught(frame, arg)
            if not self.quitting and here.mode is not RUNNING:
                self.set_continue()     # the frames that a step could stop in have ended
        if self.quitting:
            raise bdb.BdbQuit
        return self.trace_dispatch

    def user_raised(self, frame, exc_info):
        """A catch stops at an exception that is raised in this frame."""
        self.user_exception(frame, exc_info)

    def user_uncaught(self, frame, exc_info):
        """A catch stops at an exception that this frame, the program's or a thread's first one, is left by."""
        self.user_exception(frame, exc_info)

    def at_raised(self, frame, exception, missed):
        """An exception in a frame, `missed` in its callee. False: the stack has no room to stop here."""
        here = self._here
        shown, here.shown = here.shown, None
        points = catching.wanted("raised", exception)
        if not points or shown == (id(exception), id(catching.traceback_of(exception))):
            return True
        if self._is_passed(frame) or not (missed or catching.is_new(frame, exception, self._is_passed)):
            return not missed
        if not catching.is_programs(frame):
            return True
        if not catching.has_room():
            return False
        self._stop_for(points, frame, frame, exception)
        return True

    def at_uncaught(self, frame, exception):
        """A frame is left by an exception."""
        if not catching.is_outermost(frame) or self.looks_at_uncaught(exception):
            return
        points = catching.wanted("uncaught", exception)
        if points:
            entry = catching.traceback_of(exception)
            while entry is not None and entry.tb_next is not None:
                entry = entry.tb_next
            self._stop_for(points, frame, frame if entry is None else entry.tb_frame, exception)

    def looks_at_uncaught(self, exception):
        """Whether post mortem follows in any case."""
        return False

    def _is_passed(self, frame):
        """Whether an exception that is raised in a frame stops in its caller."""
        return catching.is_library(frame.f_code) or is_own(frame) or bool(
            self.skip and self.is_skipped_module(frame.f_globals.get("__name__")))

    def _stop_for(self, points, frame, raising, exception):
        stop = catching.effective(points, raising, exception)
        if stop is None:
            return
        here = self._here
        here.catch = raising, *stop
        try:
            self.trace_dispatch(frame, "exception", (type(exception), exception, catching.traceback_of(exception)))
        finally:
            here.catch = None

    def set_catch(self, way, name=None, condition=None, pending=False):
        """Stop where exceptions are raised, or leave the program uncaught: `way` names it. The breakpoint.

        `name` is that of their class, with its module; without one, all stop.
        """
        point = catching.Catch(way, name, condition, pending)
        self._add_to_breaks(point.file, point.line)
        self._break_was_set(point.file, point.line)
        return point

    # --- Breakpoints. ---------------------------------------------------------------------------

    def break_here(self, frame):
        found, self._here.found = self._here.found, None
        if found is not None and found[0] is frame:
            _, point, problem = found
            if bdb.Breakpoint.bpbynumber[point.number] is not point:
                return False        # cleared in another thread meanwhile
        else:
            owner, line = session.owner or self, frame.f_lineno
            file = owner.file_of(frame.f_code.co_filename)
            place = breakpoints.places_in(frame.f_code, file, owner.breaks.get(file)).get(line)
            stop = place and breakpoints.effective(place, frame, line)
            if not stop:
                return False
            point, problem = stop
        self.currentbp = point.number
        if problem is not None:
            self.condition_raised(point, problem)
        elif point.temporary:
            self.do_clear(str(point.number))
        return True

    def condition_raised(self, point, problem):
        """A breakpoint stops because its condition has raised an exception, as a str."""

    def break_anywhere(self, frame):
        """No frame has to be traced because there are breakpoints in its file."""
        return session.events.tool is None and super().break_anywhere(frame)

    def canonic(self, filename):
        """As bdb has it; a relative name is also one from before the program has changed the directory."""
        if len(self.fncache) >= _MOST_NAMES:
            self.fncache.clear()
        try:
            if filename not in self.fncache and not os.path.isabs(filename) and not os.path.exists(filename):
                since_start = os.path.join(_started_in, filename)
                if os.path.exists(since_start):
                    self.fncache[filename] = os.path.normcase(os.path.abspath(since_start))
            return super().canonic(filename)
        except (OSError, ValueError):       # the directory was removed, or it is no name of a file
            return filename

    def file_of(self, filename):
        """The name by which a file has breakpoints, which may be another one by symbolic links."""
        file = self.canonic(filename)
        if file in self.breaks:
            return file
        path = breakpoints.real_path(file)
        return next((other for other in list(self.breaks) if breakpoints.real_path(other) == path), file)

    def get_break(self, filename, lineno):
        return super().get_break(self.file_of(filename), lineno)

    def get_breaks(self, filename, lineno):
        return super().get_breaks(self.file_of(filename), lineno)

    def get_file_breaks(self, filename):
        return super().get_file_breaks(self.file_of(filename))

    def clear_break(self, filename, lineno):
        return super().clear_break(self.file_of(filename), lineno)

    def set_break(self, filename, lineno, temporary=False, cond=None, funcname=None):
        file = self.file_of(filename)
        if session.has_line(file, lineno) and not linecache.getline(file, lineno):
            # Generated code, whose source is not known.
            self._add_to_breaks(file, lineno)
            bdb.Breakpoint(file, lineno, temporary, cond, funcname)
            problem = None
        else:
            problem = super().set_break(file, lineno, temporary, cond, funcname)
        if problem is None:
            self._break_was_set(file, lineno)
        return problem

    def _break_was_set(self, file, line):
        if self.enterframe is not None and not session.has(self):
            # One that another has replaced, and that is being used again.
            self._load_breaks()
            session.enter(self, False)
        session.break_changed(self, file, line)

    def _prune_breaks(self, filename, lineno):
        super()._prune_breaks(filename, lineno)
        session.break_changed(self, filename, lineno)

    def clear_all_file_breaks(self, filename):
        problem = super().clear_all_file_breaks(self.file_of(filename))
        session.breaks_changed(self)
        return problem

    def clear_all_breaks(self):
        problem = super().clear_all_breaks()
        session.breaks_changed(self)
        return problem


def _is_a_debuggers(tracer):
    return tracer is None or isinstance(getattr(tracer, "__self__", None), Bdb)


def _add(watched, frame, first):
    if frame is not None and frame.f_code not in RUNNERS:
        watched.append(Watched(frame, first))


def _add_resumer(watched, frame):
    if not is_own(frame.f_back):
        _add(watched, frame.f_back, ALL_LINES)


class _Running:
    """While a debugger runs a statement."""

    def __init__(self, debugger):
        self._debugger = debugger

    def __enter__(self):
        debugger = self._debugger
        self._tracer = sys.gettrace()
        session.enter(debugger, True)
        self._stepper, thread.stepper = thread.stepper, debugger
        self._outer, debugger._runs_in = debugger._runs_in, threading.get_ident()
        debugger._remember_tracer()

    def __exit__(self, *exception):
        debugger = self._debugger
        debugger._end_step()
        thread.stepper = self._stepper
        debugger._runs_in = self._outer
        sys.settrace(self._tracer)
        session.leave(debugger, True)
