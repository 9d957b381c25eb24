"""The debugger with prompt: pdb.Pdb on ferrule_debugger.Bdb."""

import pdb
import sys
import threading
import weakref

from .base import Bdb
from .session import session

# The thread whose prompt was the last one, and those that have one. Debuggers share the terminal.
_last_thread = weakref.ref(threading.main_thread())
_prompting = []


def _raise_in(thread):
    """Raise KeyboardInterrupt in another thread. False: that cannot be done."""
    try:
        from ctypes import c_ulong, py_object, pythonapi
    except ImportError:
        return False
    raise_in = pythonapi.PyThreadState_SetAsyncExc
    return raise_in(c_ulong(thread.ident), py_object(KeyboardInterrupt)) == 1


class Pdb(pdb.Pdb, Bdb):
    """pdb.Pdb without its price."""

    arguments = None    # of the program, where the command line had some
    _in_command = False
    _given_up = ""      # what was typed before Ctrl-C, and is still in readline's buffer

    def _run(self, target):
        if Pdb.arguments is not None:
            sys.argv[1:], Pdb.arguments = Pdb.arguments, None
        super()._run(target)

    def interaction(self, frame, tb_or_exc):
        global _last_thread
        thread = threading.current_thread()
        if _last_thread() is not thread:
            self.message(f"[{thread.name}]")
        _last_thread = weakref.ref(thread)
        session.mend()
        while session.losses:
            self.message(f"*** {session.losses.pop()}")
        super().interaction(frame, tb_or_exc)

    def _cmdloop(self):
        prompt = threading.current_thread(), self
        _prompting.append(prompt)
        try:
            super()._cmdloop()
        finally:
            _prompting.remove(prompt)

    def condition_raised(self, point, problem):
        self.note(f"The condition of breakpoint {point.number} has raised {problem}")

    def note(self, text):
        """Say what pdb does not say: on standard error where pdb's output is on standard output."""
        self.stdout.flush()
        print("***", text, file=sys.stderr if self.stdout is sys.stdout else self.stdout)

    def sigint_handler(self, signum, frame):
        if _prompting and _prompting[-1][0] is not threading.current_thread():
            # The main thread runs this, and another one has the prompt: Ctrl-C is for that one.
            thread, debugger = _prompting[-1]
            debugger._interrupt(thread)
            return
        super().sigint_handler(signum, frame)

    def _interrupt(self, thread):
        if self._in_command and _raise_in(thread):
            return
        if self.use_rawinput and "readline" in sys.modules:
            self._given_up = sys.modules["readline"].get_line_buffer()
        self.message(f"\n--KeyboardInterrupt--\n{self.prompt}", end="")
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
        """run [args...]

        Restart the debugged python program. If a string is supplied
        it is split with "shlex", and the result is used as the new
        sys.argv.  History, breakpoints, actions and debugger options
        are preserved.  "restart" is an alias for "run".
        """
        try:
            super().do_run(arg)
        except pdb.Restart:
            self.set_quit()     # no breakpoint stops while the program is left
            raise

    do_restart = do_run

    def do_debug(self, arg):
        """debug code

        Enter a recursive debugger that steps through the code
        argument (which is an arbitrary expression or statement to be
        executed in the current environment).
        """
        theirs, pdb.Pdb = pdb.Pdb, type(self)       # it is made by that name
        try:
            return super().do_debug(arg)
        finally:
            pdb.Pdb = theirs

    complete_debug = pdb.Pdb.complete_debug


def set_trace(*, header=None):
    """Stop in the calling function and give a prompt; what breakpoint() calls."""
    debugger = Pdb()
    if header is not None:
        debugger.message(header)
    debugger.set_trace(sys._getframe().f_back)
