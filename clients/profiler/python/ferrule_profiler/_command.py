"""Running a program under a profile, and writing what was found however it ends."""

import atexit
import builtins
import enum
import functools
import os
import pkgutil
import runpy
import signal
import sys
import types
from _thread import RLock, _get_main_thread_ident, get_ident
# The program may put other functions in their places.
from builtins import print
from importlib.machinery import BuiltinImporter, SourceFileLoader
from importlib.util import MAGIC_NUMBER
from os import X_OK, access, getpid, kill
from signal import SIG_DFL, getsignal
from signal import signal as set_signal
from sys import getrecursionlimit, setrecursionlimit

from . import _library
from ._core import run_file, run_function
from ._export import maker, write_file
from ._profile import Profile, ProfilerError, available
from ._subprocesses import inherited, prepare
from ._table import table
from ._ticker import Ticker
from ._timeline import timeline

# What else ends a program, and returns where it fails. The others of their kind call these.
REPLACES = ("execv", "execve")
# How many calls deep writing may be, however little the program has left itself.
DEPTH = 1000
MOST_DEPTH = 2 ** 31 - 1


def allow_depth():
    """Make room on the stack; the limit before."""
    limit = getrecursionlimit()
    setrecursionlimit(min(limit + DEPTH, MOST_DEPTH))
    return limit


class State(enum.Enum):
    RUNNING, FINISHING, FINISHED = range(3)


class Writer:
    """Writes the result once for each process: at its end, at os._exit() or at SIGTERM."""

    def __init__(self, profile, options):
        self.profile = profile
        self.options = options
        self.process = self.first = getpid()
        # What is written where, and how it is made.
        self.outputs = [(path, maker(path, options.format)) for path in options.output]
        if options.trace:
            self.outputs.insert(0, (options.trace, functools.partial(
                timeline, seconds=options.trace_seconds)))
        self.reported = set()       # what could not be written, and why
        self.state = State.RUNNING
        self.saver = options.save_every and Ticker(options.save_every, self.save,
                                                   profile.leave_out_this_thread)
        # Another thread that ends the process waits for it.
        self.writing = RLock()
        self.signal = None      # one that has come meanwhile

    def start(self):
        """Start the profile, and see to it that it is written."""
        atexit.register(self.finish)
        os._exit = self.before(os._exit, lambda status: self.finish())
        for name in REPLACES:
            setattr(os, name, self.before(getattr(os, name), self.about_to_be_replaced))
        os.register_at_fork(after_in_child=self.forked)
        in_main = get_ident() == _get_main_thread_ident()
        if in_main and getsignal(signal.SIGTERM) is SIG_DFL:
            set_signal(signal.SIGTERM, self.terminated)
        try:
            self.profile.start()
            if self.saver:
                self.saver.start()
        except BaseException:
            self.state = State.FINISHED
            raise

    @staticmethod
    def before(leave, write):
        @functools.wraps(leave)
        def leaving(*arguments):
            limit = allow_depth()
            write(*arguments)
            try:
                return leave(*arguments)
            finally:
                setrecursionlimit(limit)
        return leaving

    def about_to_be_replaced(self, program, *rest):
        # Many places may be tried that have no such program.
        if isinstance(program, int) or access(program, X_OK):
            self.report()

    def save(self):
        if self.writing.acquire(blocking=False):
            try:
                if self.state is State.RUNNING:
                    self.write(self.profile.result)
            finally:
                self.writing.release()

    def forked(self):
        self.process = getpid()
        self.writing = RLock()
        if not self.options.subprocesses:
            self.state = State.FINISHED
        elif self.saver:
            self.saver.after_fork()

    def terminated(self, number, frame):
        allow_depth()
        if self.signal is None:
            self.signal = number
            self.finish()

    def end_by_signal(self):
        set_signal(self.signal, SIG_DFL)
        kill(getpid(), self.signal)

    def name(self, path):
        """Children write beside the first process: name.PID.end."""
        if self.process == self.first and not self.options.child:
            return path
        directory, slash, name = path.rpartition("/")
        stem, dot, end = name.partition(".")
        return f"{directory}{slash}{stem}.{self.process}{dot}{end}"

    def finish(self):
        """End the profile, and write it unless it was written. The process ends."""
        allow_depth()
        with self.writing:
            if self.state is State.RUNNING:
                self.state = State.FINISHING
                self.profile.stop()
                if self.saver:
                    self.saver.stop()
                self.report()
                self.state = State.FINISHED
        # A signal that comes while this thread writes is heeded when all is written.
        if self.signal is not None and self.state is State.FINISHED:
            self.end_by_signal()

    def report(self):
        """Write the files and the table."""
        if self.process != getpid() or self.state is State.FINISHED:
            return
        result = self.profile.result
        self.write(result)
        options = self.options
        if not (options.quiet or options.child or self.process != self.first):
            say(table(result, sort=options.sort, limit=options.limit))

    def write(self, result):
        for path, make in self.outputs:
            try:
                write_file(self.name(path), make(result))
            except Exception as error:      # whatever the program has made of the library
                text = f"{path} is not written: {type(error).__name__}: {error}"
                if text not in self.reported:
                    self.reported.add(text)
                    say(f"ferrule_profiler: {text}")


def say(text):
    """Print it after what the program has printed, where that can be done."""
    try:
        if sys.stdout is not None:
            sys.stdout.flush()
    except Exception:
        pass
    for name in ("stderr", "__stderr__"):
        try:
            file = getattr(sys, name, None)
            if file is not None:
                print(text, file=file)
            return
        except Exception:
            pass        # the program's own, or closed


def profile_of(options):
    return Profile(count=options.count, sample=options.sample, builtins=options.builtins,
                   trace=options.trace_events if options.trace else 0,
                   arguments=options.trace_arguments)


def writer_of_child():
    """What is to be started in a process of a profiled program. None: it cannot be profiled here."""
    if available():
        return None
    options = inherited()
    return Writer(profile_of(options), options)


def absolute(path):
    """As Python makes the name of its program absolute."""
    if path.startswith("/"):
        return path
    try:
        return f"{os.getcwd()}/{path}"
    except OSError:
        return path


def new_main():
    """The module __main__, as a program finds it."""
    module = types.ModuleType("__main__")
    module.__loader__ = BuiltinImporter
    module.__annotations__ = {}
    module.__builtins__ = builtins
    return module


def is_source(file, path):
    """Whether Python reads a program from there: it is neither compiled nor a terminal."""
    try:
        begins = os.pread(file, 2, 0)
    except OSError:
        begins = b""        # of a pipe nothing is read twice
    return not (path.endswith(".pyc") or begins == MAGIC_NUMBER[:2] or os.isatty(file))


def run_script(file, path, source):
    """Run an open file as Python does; the status."""
    return int(not run_file(file, path, source))


def run_module(name, has_name=True):
    """Run a module as Python does, or what is first on the path; the status."""
    error = run_function(runpy._run_module_as_main, name, has_name)
    if type(error) is KeyboardInterrupt:
        # It was shown. Python ends by the signal where it gets the exception.
        sys.excepthook = functools.partial(leave_unshown, sys.excepthook)
        raise error
    return int(error is not None)


def leave_unshown(before, *exception):
    sys.excepthook = before


def prepared(name, as_module):
    """What runs the program. sys.path is as it has it. OSError: there is no such file."""
    if as_module:
        return functools.partial(run_module, name)
    path = absolute(name)
    directory = [] if sys.flags.safe_path else sys.path[:1]
    others = sys.path[len(directory):]
    if pkgutil.get_importer(path) is not None:      # a directory, or an archive
        sys.path[:] = [path, *others]
        return functools.partial(run_module, "__main__", False)
    file = os.open(path, os.O_RDONLY)
    if directory:
        sys.path[0] = os.path.dirname(os.path.realpath(name))
    _library.hide_runpy()
    source = is_source(file, path)
    if source:
        main = sys.modules["__main__"]
        main.__file__, main.__cached__ = path, None
        main.__loader__ = SourceFileLoader("__main__", path)
    return functools.partial(run_script, file, os.fsencode(path), source)


def run(options, as_module=False):
    missing = available()
    if missing:
        say(f"ferrule_profiler: {missing}")
        return 1
    options.child = False
    options.output = [os.path.abspath(path) for path in options.output]
    options.trace = options.trace and os.path.abspath(options.trace)
    name, *arguments = options.program
    with _library.private(_library.IS_LOOKED_FOR):
        writer = Writer(profile_of(options), options)
    _library.hide()
    sys.modules["__main__"] = new_main()
    try:
        start = prepared(name, as_module)
    except OSError as error:
        say(f"{sys.orig_argv[0]}: can't open file {absolute(name)!r}: [Errno {error.errno}] "
            f"{error.strerror}")
        return 2
    if options.subprocesses:
        prepare(options)
    sys.argv[:] = ["-m" if as_module else name, *arguments]
    try:
        writer.start()
    except ProfilerError as error:
        say(f"ferrule_profiler: {error}")
        return 1
    return start()
