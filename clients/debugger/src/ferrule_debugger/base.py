"""A bdb.Bdb that touches only the code objects and frames that it has to."""

import bdb
import sys

from . import breakpoints, turns
from .at_events import thread
from .per_thread import RUNNING, STEPPING, WATCHING, Here, MadeOnce, OfThread
from .session import session


_entries = session.events.entries
# f_trace_lines and f_trace_opcodes of a frame that the program does not trace.
_USUAL = True, False


def _trace_nothing(frame, event, arg):
    return None


# Frames of these are the debugger's own.
_RUNNERS = {function.__code__ for function in (bdb.Bdb.run, bdb.Bdb.runeval, bdb.Bdb.runcall)}


class Bdb(bdb.Bdb):
    """bdb.Bdb without its price.

    A breakpoint is a LINE event of the code objects that contain it. `next`, `until` and `return`
    watch events of one or two frames. Only `step` traces, with sys.settrace() in its thread.
    """

    _here = MadeOnce(Here)
    stopframe = OfThread()
    returnframe = OfThread()
    stoplineno = OfThread()
    botframe = OfThread()
    enterframe = OfThread()
    frame_returning = OfThread()
    trace_opcodes = OfThread()
    frame_trace_lines_opcodes = OfThread()

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
        session.enter(self, False)
        here = self._here
        self._remember_tracer()
        above = frame
        while above is not None:
            self._remember_local_tracer(above)
            above = above.f_back
        here.starting = True
        thread.stepper = self
        # CPython forgets that a frame's instructions are traced when a second tool gets events of
        # its code later on: so let there be the second one before.
        sys.settrace(_trace_nothing)
        super().set_trace(frame)
        here.starting = False
        # Frames should not live longer because they were looked at.
        self.frame_trace_lines_opcodes = {
            frame: kept for frame, kept in self.frame_trace_lines_opcodes.items() if kept != _USUAL
        }

    def set_continue(self):
        super().set_continue()
        if not self.breaks:
            session.leave(self, False)

    def set_quit(self):
        super().set_quit()
        self._end_step()
        session.leave(self, False)

    # --- How to continue. -------------------------------------------------------------------------

    def _set_stopinfo(self, stopframe, returnframe, stoplineno=0, opcode=False):
        session.mend()
        super()._set_stopinfo(stopframe, returnframe, stoplineno, opcode)
        if session.events.tool is None or (stopframe is None and stoplineno != -1):
            mode = STEPPING     # without a tool, as bdb does it
        elif stoplineno == -1 and stopframe in (None, self.botframe):
            mode = RUNNING
        else:
            mode = WATCHING
        here = self._here
        if self.enterframe is None or here.starting:
            here.mode = mode        # whether the caller begins to trace
        else:
            self._continue(mode)

    def _continue(self, mode):
        here = self._here
        here.mode = mode
        if mode is not RUNNING:
            thread.stepper = self
        if mode is STEPPING:
            self._trace(self.enterframe)
        else:
            self._trace_no_more()
        watched = []
        if mode is WATCHING:
            for frame in (self.stopframe, self.returnframe):
                if frame is not None and frame.f_code not in _RUNNERS:
                    watched.append(frame)
            if self.stopframe is self.frame_returning:
                self._watch_who_resumed(self.stopframe, watched)
        self._watch(watched)

    def _end_step(self):
        self._here.mode = RUNNING
        self._trace_no_more()
        self._watch([])

    def _watch(self, frames):
        before, self._here.watched = self._here.watched, frames
        for frame in frames:
            session.events.watch(frame.f_code)
        for frame in before:
            session.events.unwatch(frame.f_code)
        if before and not frames:
            session.end_if_idle()

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
        if self._here.mode is STEPPING and not _is_own(current_frame.f_back):
            super()._set_caller_tracefunc(current_frame)

    def _is_traced(self, frame):
        return self._is_mine(frame.f_trace) and self._is_mine(sys.gettrace())

    def trace_dispatch(self, frame, event, arg):
        outer = self.enterframe
        with turns.mine():
            try:
                tracer = super().trace_dispatch(frame, event, arg)
            finally:
                self.enterframe = outer
        if event == "return" and not frame.f_code.co_flags & bdb.GENERATOR_AND_COROUTINE_FLAGS:
            self._has_ended(frame)
        return tracer if self._here.mode is STEPPING else None

    def _has_ended(self, frame):
        """Let go of a frame: what its variables hold has to die as it does without a debugger."""
        here = self._here
        here.local_tracers.pop(frame, None)
        self.frame_trace_lines_opcodes.pop(frame, None)
        if here.passed is not None and here.passed[0] is frame:
            here.passed = None

    def dispatch_call(self, frame, arg):
        if _is_own(frame):
            return None
        return super().dispatch_call(frame, arg)

    def dispatch_line(self, frame):
        here, line = self._here, frame.f_lineno
        entry = _entries.get(id(frame.f_code)) if here.mode is STEPPING else None
        tracer = super().dispatch_line(frame)
        if entry is not None and here.mode is not STEPPING:
            # The LINE event of this line comes right after this one, also where a jump has left the
            # line. If it is disabled, the next one that comes in this thread is of another line or
            # instruction. Where the event would find nothing anyway, no frame is held for it.
            if line in entry.lines or frame in here.watched:
                here.passed = frame, line, frame.f_lasti
        return tracer

    def dispatch_return(self, frame, arg):
        # A step out of a frame that does not count ends in its caller all the same.
        self._set_caller_tracefunc(frame)
        return super().dispatch_return(frame, arg)

    def stop_here(self, frame):
        here = self._here
        if here.mode is RUNNING or (here.found is not None and here.found[0] is frame):
            return False
        return super().stop_here(frame)

    # --- Events of code that is watched, or has a breakpoint. -----------------------------------

    def at_step(self, frame, line):
        """A line, in a thread where this debugger steps. True: it needs no other look."""
        here = self._here
        passed, here.passed = here.passed, None
        if here.mode is RUNNING:
            thread.stepper = None
        if passed == (frame, line, frame.f_lasti):
            return True
        if here.mode is STEPPING:
            return self._is_traced(frame)
        if self.watches(frame):
            self.trace_dispatch(frame, "line", None)
            return True
        return False

    def watches(self, frame):
        here = self._here
        return here.mode is WATCHING and frame in here.watched

    def after_end(self, frame, returned):
        """A frame that is watched has ended.

        A generator's end is an exception in the frame that resumed it: it stops there.
        """
        if self.watches(frame):
            watched = [one for one in self._here.watched if one is not frame]
            if returned and frame is self.stopframe:
                self._watch_who_resumed(frame, watched)
            self._watch(watched)
        self._has_ended(frame)

    @staticmethod
    def _watch_who_resumed(frame, watched):
        if frame is not None and frame.f_back is not None and (
                frame.f_code.co_flags & bdb.GENERATOR_AND_COROUTINE_FLAGS):
            watched.append(frame.f_back)

    def stop_at(self, frame, point, deletable):
        """A breakpoint stops a frame."""
        here = self._here
        here.found = frame, point, deletable
        try:
            self.trace_dispatch(frame, "line", None)
        finally:
            here.found = None

    # --- Breakpoints. ---------------------------------------------------------------------------

    def break_here(self, frame):
        found, self._here.found = self._here.found, None
        if found is not None and found[0] is frame:
            _, point, deletable = found
            if bdb.Breakpoint.bpbynumber[point.number] is not point:
                return False        # cleared in another thread meanwhile
        else:
            file, line = self.canonic(frame.f_code.co_filename), frame.f_lineno
            breaks = (session.owner or self).breaks
            place = breakpoints.places_in(frame.f_code, file, breaks.get(file)).get(line)
            stop = place and breakpoints.effective(place, frame, line)
            if not stop:
                return False
            point, deletable = stop
        self.currentbp = point.number
        if deletable and point.temporary:
            self.do_clear(str(point.number))
        return True

    def break_anywhere(self, frame):
        """No frame has to be traced because there are breakpoints in its file."""
        return session.events.tool is None and super().break_anywhere(frame)

    def set_break(self, filename, lineno, temporary=False, cond=None, funcname=None):
        problem = super().set_break(filename, lineno, temporary, cond, funcname)
        if problem is None:
            if self.enterframe is not None and not session.has(self):
                # One that another has replaced, and that is being used again.
                self._load_breaks()
                session.enter(self, False)
            session.break_changed(self, self.canonic(filename), lineno)
        return problem

    def _prune_breaks(self, filename, lineno):
        super()._prune_breaks(filename, lineno)
        session.break_changed(self, filename, lineno)

    def clear_all_file_breaks(self, filename):
        problem = super().clear_all_file_breaks(filename)
        session.breaks_changed(self)
        return problem

    def clear_all_breaks(self):
        problem = super().clear_all_breaks()
        session.breaks_changed(self)
        return problem


def _is_a_debuggers(tracer):
    return tracer is None or isinstance(getattr(tracer, "__self__", None), Bdb)


def _is_own(frame):
    """Whether a frame is the debugger's own.

    The program's thread runs such frames where a code object dies, and in a child after a fork.
    """
    return frame is not None and frame.f_globals.get("__package__") == __package__


class _Running:
    """While a debugger runs a statement."""

    def __init__(self, debugger):
        self._debugger = debugger

    def __enter__(self):
        debugger = self._debugger
        tracer = sys.gettrace()
        self._tracer = None if _is_a_debuggers(tracer) else tracer
        session.enter(debugger, True)
        self._stepper, thread.stepper = thread.stepper, debugger
        debugger._remember_tracer()

    def __exit__(self, *exception):
        debugger = self._debugger
        debugger._end_step()
        thread.stepper = self._stepper
        if self._tracer is not None:
            sys.settrace(self._tracer)
        session.leave(debugger, True)
