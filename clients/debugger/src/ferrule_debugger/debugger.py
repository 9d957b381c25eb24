"""The debugger with prompt: pdb.Pdb on ferrule_debugger.Bdb."""

import atexit
import bdb
import codeop
import functools
import linecache
import os
import pdb
import re
import signal
import sys
import threading
import time
import weakref

from . import awaiting, catching, colours, places
from .base import Bdb, Quit
from .breakpoints import real_path
from .looking import Looking
from .others import OthersAtPrompt
from .session import session
from .turns import mine, terminal

# The thread whose prompt was the last one, and those that have one. Debuggers share the terminal.
_last_thread = weakref.ref(threading.main_thread())
_prompting = []
_prompts = 0        # how many there were


def _raise_in(thread):
    """Raise KeyboardInterrupt in another thread. False: that cannot be done."""
    try:
        from ctypes import c_ulong, py_object, pythonapi
    except ImportError:
        return False
    raise_in = pythonapi.PyThreadState_SetAsyncExc
    return raise_in(c_ulong(thread.ident), py_object(KeyboardInterrupt)) == 1


def _typed_so_far():
    """What is in the buffer of readline, which another thread's input() keeps after Ctrl-C."""
    readline = sys.modules.get("readline")
    return readline.get_line_buffer() if readline else ""


def forget_last_thread():
    """Another process has the prompt: the next one names its thread."""
    global _last_thread
    _last_thread = weakref.ref(object)


class Restart(SystemExit, pdb.Restart):
    """What `run` raises: a task hands a SystemExit on."""


class Pdb(Looking, OthersAtPrompt, pdb.Pdb, Bdb):
    """pdb.Pdb without its price."""

    arguments = None    # of the program, where the command line had some
    kept = None         # keeping.Kept: the breakpoints of the session before
    running = None      # the debugger of `python -m ferrule_debugger`
    _in_command = False
    _plain_prompt = "(Pdb) "
    _is_coloured = False
    _reads = False      # by input(), not in the way of a subclass
    _paint = None       # the function for the next messages
    _given_up = ""      # what was typed before Ctrl-C, and is still in readline's buffer

    def _run(self, target):
        if Pdb.arguments is not None:
            sys.argv[1:], Pdb.arguments = Pdb.arguments, None
            Pdb.running = self
            if Pdb.kept is not None:
                Pdb.kept.load(self)
        super()._run(target)

    def interaction(self, frame, tb_or_exc):
        with mine(), terminal.used():
            self._interact(frame, tb_or_exc)

    def _interact(self, frame, tb_or_exc):
        global _last_thread, _prompts
        _prompts += 1
        thread = threading.current_thread()
        if _last_thread() is not thread:
            self.message(f"[{thread.name}]")
        _last_thread = weakref.ref(thread)
        self._is_coloured = self.wants_colours()
        session.hold_others()
        session.mend()
        while session.losses:
            self.error(session.losses.pop())
        super().interaction(frame, tb_or_exc)

    def _cmdloop(self):
        prompt = threading.current_thread(), self
        _prompting.append(prompt)
        try:
            super()._cmdloop()
        finally:
            _prompting.remove(prompt)
            self._is_coloured = False

    def _getval(self, arg):
        with session.evaluating(self):
            return super()._getval(arg)

    def _getval_except(self, arg, frame=None):
        with session.evaluating(self):
            return super()._getval_except(arg, frame)

    def _exec_in_closure(self, source, globals, locals):
        with session.evaluating(self):
            if not super()._exec_in_closure(source, globals, locals):
                exec(codeop.compile_command(source + "\n", "<stdin>", "single"), globals, locals)
        return True

    def condition_raised(self, point, problem):
        kind = "catch" if isinstance(point, catching.Catch) else "breakpoint"
        self.note(f"The condition of {kind} {point.number} has raised {problem}")

    def note(self, text):
        """Say what pdb does not say: on standard error where pdb's output is on standard output."""
        self.stdout.flush()
        print("***", text, file=sys.stderr if self.stdout is sys.stdout else self.stdout)

    # --- Colours. -------------------------------------------------------------------------------

    def wants_colours(self):
        """Whether the output has colours: not where a program or tool has passed a file for it."""
        return bool(self.use_rawinput) and colours.are_wanted(self.stdout)

    @property
    def prompt(self):
        if self._is_coloured and self._reads and self.use_rawinput and not self._in_command:
            return colours.prompt(self._plain_prompt)
        return self._plain_prompt

    @prompt.setter
    def prompt(self, prompt):
        self._plain_prompt = prompt

    def cmdloop(self, intro=None):
        outer, self._reads = self._reads, True
        try:
            super().cmdloop(intro)
        finally:
            self._reads = outer

    def message(self, msg, end="\n"):
        super().message(self._paint(msg) if self._paint else msg, end)

    def error(self, msg):
        print(colours.error("***") if self._is_coloured else "***", msg, file=self.stdout)

    def _painted(self, paint, method, *arguments):
        self._paint = paint if self._is_coloured else None
        try:
            method(*arguments)
        finally:
            self._paint = None

    def print_stack_entry(self, frame_lineno, prompt_prefix=pdb.line_prefix):
        self._painted(colours.place, super().print_stack_entry, frame_lineno, prompt_prefix)

    def _print_lines(self, *arguments, **options):
        self._painted(colours.listed, functools.partial(super()._print_lines, **options), *arguments)

    # --- await. ---------------------------------------------------------------------------------

    def set_trace_async(self, frame=None):
        """set_trace() for coroutines: `await` works at the prompt. The result has to be awaited."""
        return awaiting.Directly(self._stop_with_await(frame or sys._getframe().f_back))

    async def _stop_with_await(self, frame):
        here = self._here
        while True:
            here.can_await = True
            try:
                awaiting.stop(self, frame)
            finally:
                here.can_await = here.is_shown = False
            awaited, here.awaits = here.awaits, None
            if awaited is None:
                return
            prompts = _prompts
            try:
                value = await awaited.coroutine
                if value is not None:
                    self.message(repr(value))
            except BaseException as error:
                if not awaiting.is_of_prompt(error):
                    raise
                self._error_exc()
            here.is_shown = awaited.in_frame and prompts == _prompts

    def _pdbcmd_print_frame_status(self, arg):
        if self._here.is_shown:
            self._show_display()
        else:
            super()._pdbcmd_print_frame_status(arg)

    def default(self, line):
        code = awaiting.compiled(line.removeprefix("!").strip())
        if code is None:
            return super().default(line)
        if not self._here.can_await:
            self.error(awaiting.NOT_HERE)
            return None
        self._here.awaits = awaiting.Awaited(code, self.curframe, self.curframe_locals, self.curindex == len(self.stack) - 1)
        return pdb.Pdb.do_continue(self, "")

    # --- Exceptions. ----------------------------------------------------------------------------

    def do_catch(self, arg):
        """catch [(raised | uncaught) [type] [, condition]]

        Stop where an exception of this type, or of a subclass, is raised in the program's code, or
        where it is about to leave the program or a thread; without a type, any exception. The
        latter is post mortem: the commands look at the frames that it has left, and run the program
        on to its end. In the condition, `_exception` is the exception.

        StopIteration, StopAsyncIteration, GeneratorExit and SystemExit stop only if they, or a
        subclass, are the type; an uncaught StopIteration always does. What the standard library
        raises stops in the code that has called it, if it gets there.

        Without argument, list all catches. They are numbered with the breakpoints: `clear`,
        `disable`, `enable`, `ignore`, `condition` and `commands` work for them.
        """
        if not arg:
            if points := catching.catches():
                self.message("Num Type         Disp Enb   Where")
            for point in points:
                self.message(point.bpformat())
            return
        head, comma, condition = (part.strip() for part in arg.partition(","))
        way, _, name = (part.strip() for part in head.partition(" "))
        if way not in catching.WAYS or (comma and not condition):
            self._print_invalid_arg(arg)
            return
        # What `$_exception` was replaced by.
        condition = condition.replace('__pdb_convenience_variables["_exception"]', "_exception")
        if condition and (problem := self._compile_error_message(condition)):
            self.error(f"Invalid condition {condition}: {problem}")
            return
        pending = False
        if name:
            if not all(part.isidentifier() for part in name.split(".")):
                self.error(f"{name} is not a name")
                return
            try:
                found = places.attribute(name, self.curframe.f_globals, self.curframe_locals)
            except Exception:
                pending = True
            else:
                if not (isinstance(found, type) and issubclass(found, BaseException)):
                    self.error(f"{name} is not a class of exceptions")
                    return
                name = f"{found.__module__}.{found.__qualname__}"
        point = self.set_catch(way, name or None, condition or None, pending)
        self.message(f"Catch {point.number}: {point.what}")
        if self.enterframe is not None and session.events.tool is None:
            self.note("No tool id of sys.monitoring is free: catches do not stop.")
        if pending:
            self.note(f"Catch {point.number} is pending: there is no {name} yet.")

    def complete_catch(self, text, line, begidx, endidx):
        if len(line[:begidx].split()) == 1:
            return [way for way in catching.WAYS if way.startswith(text)]
        return self._complete_expression(text, line, begidx, endidx)

    def setup(self, f, tb):
        super().setup(f, tb)
        if f is not None and tb is not None:
            # The frame that has stopped, also where a callee has raised the exception. In other threads bdb takes that one.
            self.curindex = next(place for place, (frame, _) in enumerate(self.stack) if frame is f)
            self.curframe, self.curframe_locals = f, f.f_locals

    def user_raised(self, frame, exc_info):
        if not self._wait_for_mainpyfile and self.bp_commands(frame):
            self.user_exception(frame, exc_info)

    def user_uncaught(self, frame, exc_info):
        if not self._wait_for_mainpyfile and self.bp_commands(self._here.catch[0]):
            self.message(f"Uncaught: {self._format_exc(exc_info[1])}")
            # Post mortem. A `raise` in a handler adds no traceback where the program has taken it away.
            self.interaction(*(frame, None) if exc_info[2] is None else (None, exc_info[1]))

    def looks_at_uncaught(self, exception):
        # pdb's main() does.
        return bool(self.mainpyfile) and self._runs_in == threading.get_ident() and not isinstance(exception, SystemExit)

    # --- The end of the program. ----------------------------------------------------------------

    def do_quit(self, arg):
        self._quit_program()
        return super().do_quit(arg)

    do_quit.__doc__ = pdb.Pdb.do_quit.__doc__
    do_q = do_exit = do_quit

    def do_EOF(self, arg):
        self._quit_program()
        return super().do_EOF(arg)

    do_EOF.__doc__ = pdb.Pdb.do_EOF.__doc__

    def _quit_program(self):
        self._user_requested_quit = True        # before the thread that runs the program looks at it
        self._end_program(Quit(1))

    def _end_program(self, exception):
        """Raise an exception in the thread that runs the program, if that is another one. False: it is not."""
        main, here = threading.main_thread().ident, threading.get_ident()
        runner = self._runs_in or main
        if runner == here:
            return False
        exceptions = {runner: exception}
        if self.mainpyfile or self._runs_in is None:
            for thread in list(threading._active.values()):     # enumerate() takes a lock: the prompt may be within it
                if thread.ident not in (here, runner):
                    exceptions[thread.ident] = SystemExit(1)
        with session.lock:
            session.raise_in(exceptions)
            handler = signal.getsignal(signal.SIGINT)
            if runner == main and callable(handler):
                # It may wait for something.
                session.wakes = isinstance(getattr(handler, "__self__", None), Pdb)
                if hasattr(signal, "pthread_kill"):
                    signal.pthread_kill(main, signal.SIGINT)
                else:
                    signal.raise_signal(signal.SIGINT)
        return True

    def sigint_handler(self, signum, frame):
        woken, session.wakes = session.wakes, False
        session.raise_here()
        if woken:
            return      # it has raised the exception at a line, before the signal was handled
        session.release()
        if self.interrupt_child():
            return
        if _prompting and _prompting[-1][0] is not threading.current_thread():
            # The main thread runs this, and another one has the prompt: Ctrl-C is for that one.
            thread, debugger = _prompting[-1]
            debugger._interrupt(thread)
            return
        awaiting.wake_loop()
        super().sigint_handler(signum, frame)

    def interrupt_child(self):
        """Begin the prompt of a child process again, at Ctrl-C. False: none has the prompt."""
        if session.prompting_child is None:
            return False
        session.given_up = _typed_so_far()
        self._prompt_again()
        return True

    def _interrupt(self, thread):
        if self._in_command and _raise_in(thread):
            return
        if self.use_rawinput:
            self._given_up = _typed_so_far()
        self._prompt_again()

    def _prompt_again(self):
        self.message(f"\n--KeyboardInterrupt--\n{self._plain_prompt}", end="")
        self.stdout.flush()

    def precmd(self, line):
        given_up, self._given_up = self._given_up, ""
        return super().precmd(line.removeprefix(given_up))

    def onecmd(self, line):
        outer, self._in_command = self._in_command, True
        try:
            return super().onecmd(line)
        finally:
            self._in_command = outer

    def do_run(self, arg):
        try:
            super().do_run(arg)
        except pdb.Restart:
            elsewhere = self._runs_in is not None and self._end_program(Restart())
            self.set_quit()     # no breakpoint stops while the program is left
            if not elsewhere:
                raise Restart from None
            return 1

    do_run.__doc__ = pdb.Pdb.do_run.__doc__
    do_restart = do_run

    def do_debug(self, arg):
        theirs, pdb.Pdb = pdb.Pdb, type(self)       # it is made by that name
        try:
            with session.evaluating(self):
                return super().do_debug(arg)
        finally:
            pdb.Pdb = theirs

    do_debug.__doc__ = pdb.Pdb.do_debug.__doc__

    # --- Where breakpoints go. ------------------------------------------------------------------

    def do_break(self, arg, temporary=0):
        next_number = bdb.Breakpoint.next
        if not self._break_in_function(arg, temporary):
            super().do_break(arg, temporary)
        if bdb.Breakpoint.next != next_number:
            point = bdb.Breakpoint.bpbynumber[-1]
            if session.owner is self and not self._is_loaded(point.file):
                self.note(f"Breakpoint {point.number} is pending: no code of its file has run yet.")

    do_break.__doc__ = pdb.Pdb.do_break.__doc__
    do_b = do_break

    def _break_in_function(self, arg, temporary):
        """Set a breakpoint in a function, also behind wrappers. False: it is not the name of one."""
        name, _, condition = (part.strip() for part in arg.partition(","))
        if not name or name.isdigit() or ":" in name or self._compile_error_message(condition or "True"):
            return False
        try:
            value = places.attribute(name, self.curframe.f_globals, self.curframe_locals)
            function = places.function_behind(value)
        except Exception:
            return False
        if function is None:
            return False
        code = function.__code__
        file = self.canonic(code.co_filename)
        if not os.path.exists(file):
            linecache.lazycache(file, function.__globals__)
        line = self.checkline(file, pdb.find_first_executable_line(code))
        if line:
            problem = self.set_break(file, line, temporary, condition or None, code.co_name)
            if problem:
                self.error(problem)
            else:
                point = bdb.Breakpoint.bpbynumber[-1]
                self.message(f"Breakpoint {point.number} at {point.file}:{point.line}")
        return True

    def do_log(self, arg):
        """log ([filename:]lineno | function) [, condition] "text {expression}"

        Print a text, an f-string, each time the place is reached: a breakpoint that does
        not stop. It is listed, disabled, ignored and cleared as a breakpoint is.
        """
        parts = re.fullmatch(r"""(.+?)\s*("[^"]*"|'[^']*')""", arg.strip())
        if parts is None:
            self._print_invalid_arg(arg)
            return
        place, text = parts.groups()
        try:
            compile("f" + text, "<log>", "eval")
        except SyntaxError as error:
            self.error(f"Invalid text {text}: {error.msg}")
            return
        next_number = bdb.Breakpoint.next
        self.do_break(place)
        if bdb.Breakpoint.next == next_number:
            return
        point = bdb.Breakpoint.bpbynumber[-1]
        self.set_log(point, text)

    complete_log = pdb.Pdb.complete_break

    def set_log(self, point, text):
        """Have a breakpoint print a text, an f-string in quotes, where it would stop."""
        code = compile("f" + text, "<log>", "eval")
        listed = point.bpformat

        def log(frame):
            try:
                said = eval(code, frame.f_globals, frame.f_locals)
            except Exception as error:
                said = f"*** The log of breakpoint {point.number} has raised {self._format_exc(error)}"
            self.message(said)

        point.log, point.log_text = log, text
        point.bpformat = lambda: f"{listed()}\n\tlog {text}"

    def _is_loaded(self, file):
        return session.knows(file) or any(
            isinstance(name, str) and real_path(self.canonic(name)) == real_path(file)
            for name in [getattr(module, "__file__", None) for module in list(sys.modules.values())])

    def checkline(self, filename, lineno):
        """The line where a breakpoint at this one stops: the next one with code. 0: there is none."""
        file = self.canonic(filename)
        places.learn_source(file, self.canonic)
        if session.has_line(file, lineno):
            return lineno
        line = super().checkline(filename, lineno)
        lines = places.lines_with_code(file) if line else None
        if lines is None or line in lines:
            return line
        after = min((each for each in lines if each > line), default=0)
        if after:
            self.note(f"Line {line} has no code: the breakpoint is at line {after}.")
        else:
            self.error(f"There is no code at line {line} or after it")
        return after

    def lookupmodule(self, filename):
        """The file of a name: on sys.path, of a module, in the directory, or of code that has run."""
        if (file := super().lookupmodule(filename)) is not None:
            return file
        file = self.canonic(filename)
        if os.path.isfile(file) or (session.look_for(file) if filename[:1] == "<" else session.knows(file)):
            return file
        return places.file_of_module(filename.removesuffix(".py").replace("/", "."), self.canonic)


_at_end = []


def at_end(function, *arguments):
    """Call a function at the end of this process, also where threads wait for ever. It is not called in forked children."""
    pid = os.getpid()

    def call():
        if os.getpid() == pid:
            function(*arguments)

    _at_end.append(call)
    atexit.register(call)


def end_soon():
    """End the process soon, also if threads that the program has left wait for ever. It was quit."""
    threading.Thread(target=_end_process, daemon=True).start()


def _end_process():
    time.sleep(1)
    if any(not thread.daemon and thread is not threading.main_thread() for thread in threading.enumerate()):
        for call in _at_end:
            call()
        for file in (sys.stdout, sys.stderr):
            file.flush()
        os._exit(0)


def set_trace(*, header=None):
    """Stop in the calling function and give a prompt; what breakpoint() calls."""
    _with_header(header).set_trace(sys._getframe().f_back)


def set_trace_async(*, header=None):
    """set_trace() for coroutines: `await` works at the prompt. The result has to be awaited."""
    return _with_header(header).set_trace_async(sys._getframe().f_back)


def _with_header(header):
    debugger = Pdb()
    if header is not None:
        debugger.message(header)
    return debugger
