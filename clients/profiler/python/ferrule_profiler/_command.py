"""Running a program under a profile, and writing what was found however it ends."""

import atexit
import builtins
import enum
import functools
import importlib.util
import io
import os
import signal
import sys
import threading
import types

from ._formats import write
from ._profile import OWN, Profile, available
from ._ticker import Ticker
from ._timeline import write_timeline

# What else ends a program, and goes on where it fails. The others of their kind call these.
REPLACES = ("execv", "execve")


class State(enum.Enum):
    RUNNING, FINISHING, FINISHED = range(3)


class Writer:
    """Writes the result once for each process: at its end, at os._exit() or at SIGTERM."""

    def __init__(self, profile, options):
        self.profile = profile
        self.options = options
        self.process = self.first = os.getpid()
        self.state = State.RUNNING
        self.saver = options.save_every and Ticker(options.save_every, self.save,
                                                   profile.leave_out_this_thread)
        # Whoever else ends the process waits for it.
        self.writing = threading.RLock()
        self.signal = None      # one that has come meanwhile

    def start(self):
        """Start the profile, and see to it that it is written."""
        atexit.register(self.finish)
        os._exit = self.before(os._exit, lambda status: self.finish())
        for name in REPLACES:
            setattr(os, name, self.before(getattr(os, name), self.about_to_be_replaced))
        os.register_at_fork(after_in_child=self.forked)
        in_main = threading.current_thread() is threading.main_thread()
        if in_main and signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
            signal.signal(signal.SIGTERM, self.terminated)
        self.profile.start()
        if self.saver:
            self.saver.start()

    @staticmethod
    def before(leave, write):
        @functools.wraps(leave)
        def leaving(*arguments):
            write(*arguments)
            return leave(*arguments)
        return leaving

    def about_to_be_replaced(self, program, *rest):
        # Many places may be tried that have no such program.
        if isinstance(program, int) or os.access(program, os.X_OK):
            self.tell()

    def save(self):
        if self.writing.acquire(blocking=False):
            try:
                if self.state is State.RUNNING:
                    self.write(self.profile.result)
            finally:
                self.writing.release()

    def forked(self):
        self.process = os.getpid()
        self.writing = threading.RLock()
        if not self.options.subprocesses:
            self.state = State.FINISHED
        elif self.saver:
            self.saver.after_fork()

    def terminated(self, number, frame):
        if self.signal is None:
            self.signal = number
            self.finish()

    def end_by_signal(self):
        signal.signal(self.signal, signal.SIG_DFL)
        os.kill(os.getpid(), self.signal)

    def name(self, path):
        """Children write beside the first process: name.PID.end."""
        if self.process == self.first and not self.options.child:
            return path
        directory, name = os.path.split(path)
        stem, dot, end = name.partition(".")
        return os.path.join(directory, f"{stem}.{self.process}{dot}{end}")

    def finish(self):
        """End the profile, and write it if nobody has."""
        with self.writing:
            if self.state is State.RUNNING:
                self.state = State.FINISHING
                self.profile.stop()
                if self.saver:
                    self.saver.stop()
                self.tell()
                self.state = State.FINISHED
        # A signal that comes while this thread writes is heeded when all is written.
        if self.signal is not None and self.state is State.FINISHED:
            self.end_by_signal()

    def tell(self):
        """Write the files and the table."""
        if self.process != os.getpid() or self.state is State.FINISHED:
            return
        result = self.profile.result
        self.write(result)
        options = self.options
        child = self.process != self.first or options.child
        if options.quiet or child or sys.stderr is None:
            return
        if sys.stdout is not None:
            sys.stdout.flush()
        result.print_table(sys.stderr, sort=options.sort, limit=options.limit)

    def write(self, result):
        options = self.options
        try:
            if options.trace:
                write_timeline(result, self.name(options.trace), options.trace_seconds)
            for path in options.output:
                write(result, self.name(path), options.format)
        except OSError as error:
            if sys.stderr is not None:
                print(f"ferrule_profiler: {error}", file=sys.stderr)


def profile_of(options):
    return Profile(count=options.count, sample=options.sample, builtins=options.builtins,
                   trace=options.trace_events if options.trace else 0,
                   arguments=options.trace_arguments)


def load(options, as_module):
    """The code of the program, and its module."""
    name, *arguments = options.program
    module = types.ModuleType("__main__")
    if as_module:
        spec = importlib.util.find_spec(name)
        if spec is not None and spec.submodule_search_locations is not None:
            spec = importlib.util.find_spec(name + ".__main__")
        if spec is None or spec.loader is None:
            raise SystemExit(f"ferrule_profiler: no module named {name}, or it cannot be run")
        code = spec.loader.get_code(spec.name)
        module.__file__, module.__spec__ = spec.origin, spec
        module.__package__ = spec.parent
        first, name = os.getcwd(), spec.origin
    else:
        try:
            with io.open_code(name) as file:
                code = compile(file.read(), os.path.abspath(name), "exec", dont_inherit=True)
        except OSError as error:
            raise SystemExit(f"ferrule_profiler: {error}") from None
        module.__file__ = os.path.abspath(name)
        first = os.path.dirname(os.path.realpath(name))
    if not sys.flags.safe_path:
        sys.path[0] = first
    sys.argv[:] = [name, *arguments]
    return code, module


def run(options, as_module=False):
    missing = available()
    if missing:
        print(f"ferrule_profiler: {missing}", file=sys.stderr)
        return 1
    options.child = False
    options.output = [os.path.abspath(path) for path in options.output]
    options.trace = options.trace and os.path.abspath(options.trace)
    code, module = load(options, as_module)
    module.__builtins__ = builtins      # the module itself, as a program has it
    sys.modules["__main__"] = module
    if options.subprocesses:
        from ._subprocesses import prepare
        prepare(options)
    Writer(profile_of(options), options).start()
    sys.excepthook = show
    exec(code, module.__dict__)
    return 0


def show(kind, error, traceback):
    """Print an exception whose traceback begins with the program's own frames."""
    shown, inside = traceback, False
    while shown is not None:
        own = shown.tb_frame.f_code.co_filename.startswith(OWN)
        if inside and not own:
            break
        inside = inside or own
        shown = shown.tb_next
    sys.__excepthook__(kind, error.with_traceback(shown or traceback), shown or traceback)
