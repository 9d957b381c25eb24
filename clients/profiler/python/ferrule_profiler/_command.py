"""Running a program under a profile, and writing what was found however it ends."""

import atexit
import builtins
import enum
import functools
import os
import pkgutil
import runpy
import sys
import types
# Those of the module signal are functions in Python: the profile would have them.
from _signal import (
    NSIG,
    SIG_DFL,
    SIGHUP,
    SIGINT,
    SIGTERM,
    SIGXCPU,
    default_int_handler,
    getsignal,
    raise_signal,
)
from _signal import signal as set_signal
from _thread import RLock, _get_main_thread_ident, get_ident
# The program may put other functions in their places.
from builtins import print
from importlib.machinery import BuiltinImporter, SourceFileLoader
from importlib.util import MAGIC_NUMBER
from os import X_OK, access, getpid
from sys import getrecursionlimit, setrecursionlimit

from . import _library
from ._core import (
    end_by_signal,
    run_file,
    run_function,
    signals_after_fork,
    to_the_end,
    unwatch_signals,
    watch_signals,
)
from ._export import is_plain, maker, write_file
from ._profile import Profile, ProfilerError, available
from ._subprocesses import inherited, prepare
from ._table import table
from ._text import visible
from ._ticker import Ticker
from ._timeline import lost, timeline

# What else ends a program, and returns where it fails. The others of their kind call these.
REPLACES = ("execv", "execve")
# What other processes end a program with, and it has handlers for where it wants to live on.
ENDING = (SIGHUP, SIGTERM, SIGXCPU)
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


class Deferred:
    """A block of the main thread in which signals do not call handlers in Python: they might raise.

    What has come is delivered after the block. A second interrupt is the user's will: it raises
    KeyboardInterrupt where stop_here() has been called.
    """

    def __init__(self):
        self.handlers, self.came = {}, []
        self.given_up = self.may_raise = False

    def __enter__(self):
        if get_ident() == _get_main_thread_ident():
            self.handlers = {number: handler for number in range(1, NSIG)
                             if callable(handler := getsignal(number))}
            for number in self.handlers:
                set_signal(number, self.defer)
        return self

    def defer(self, number, frame):
        if number == SIGINT:
            if number not in self.came:
                say_at_once("ferrule_profiler: the files are being written;"
                            " another Ctrl-C gives them up")
            else:
                self.given_up = True
        self.came.append(number)
        if self.given_up and self.may_raise:
            self.may_raise = False
            raise KeyboardInterrupt

    def stop_here(self):
        self.may_raise = True
        if self.given_up:
            raise KeyboardInterrupt

    def __exit__(self, *exception):
        for number, handler in self.handlers.items():
            set_signal(number, handler)

    def deliver(self):
        for number in dict.fromkeys(self.came):
            if self.handlers[number] is default_int_handler:
                end_by_signal(number)
            raise_signal(number)


class Writer:
    """Writes the result once for each process: at its end, at os._exit() or at SIGTERM."""

    def __init__(self, profile, options):
        self.profile = profile
        self.options = options
        self.process = self.first = getpid()
        self.only, self.hide = options.only, options.hide
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
        self.signals = []       # those that end the process
        self.say = say
        self.deferred = Deferred()      # of the block in which files are written

    def start(self):
        """Start the profile, and see to it that it is written."""
        atexit.register(functools.partial(to_the_end, self.finish))
        os._exit = self.before(os._exit, lambda status: self.finish())
        for name in REPLACES:
            setattr(os, name, self.before(getattr(os, name), self.about_to_be_replaced))
        for name in ("fork", "forkpty"):
            setattr(os, name, self.forking(getattr(os, name)))
        os.register_at_fork(after_in_child=self.forked)
        if get_ident() == _get_main_thread_ident():
            self.signals = [number for number in ENDING if getsignal(number) == SIG_DFL]
            for number in self.signals:
                set_signal(number, self.terminated)
        try:
            self.profile.start()
            if self.saver:
                self.saver.start()
            self.watch()
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

    def forking(self, fork):
        """os.fork() warns of threads: the one that watches signals is not there meanwhile."""
        @functools.wraps(fork)
        def forking():
            unwatch_signals()
            try:
                return fork()
            finally:
                self.watch()
        return forking

    def watch(self):
        # Others are the program's by now.
        signals = [number for number in self.signals if getsignal(number) == self.terminated]
        if signals and self.state is State.RUNNING:
            try:
                watch_signals(signals, self.signalled, self.profile.leave_out_this_thread)
            except RuntimeError:
                pass        # there can be no thread: a signal waits for the main one, as in Python

    def signalled(self, number):
        """A signal has come, and the main thread may be in C. In a thread that watches for it."""
        if getsignal(number) == self.terminated:
            self.say = say_at_once
            self.terminated(number, None)

    def about_to_be_replaced(self, program, *rest):
        # Many places may be tried that have no such program.
        if isinstance(program, int) or access(program, X_OK):
            self.report()

    def save(self):
        if self.writing.acquire(blocking=False):
            try:
                if self.state is State.RUNNING:
                    self.write(self.result(), [output for output in self.outputs
                                                     if is_plain(output[0])])
            finally:
                self.writing.release()

    def forked(self):
        self.process = getpid()
        signals_after_fork()
        self.writing = RLock()
        if not self.options.subprocesses:
            self.state = State.FINISHED
            for number in self.signals:
                if getsignal(number) == self.terminated:
                    set_signal(number, SIG_DFL)
        elif self.saver:
            self.saver.after_fork()

    def terminated(self, number, frame):
        allow_depth()
        if self.signal is None:
            self.signal = number
        self.finish()

    def name(self, path):
        """Children write beside the first process: name.PID.end."""
        if self.process == self.first and not self.options.child:
            return path
        directory, slash, name = path.rpartition("/")
        stem, dot, end = name.partition(".")
        return f"{directory}{slash}{stem}.{self.process}{dot}{end}"

    def finish(self):
        """End the profile, and write it unless it was written. The process ends."""
        self.deferred = deferred = Deferred()
        with deferred:
            allow_depth()
            with self.writing:
                if self.state is State.RUNNING:
                    self.state = State.FINISHING
                    try:
                        self.profile.stop()
                        if self.saver:
                            self.saver.stop()
                        unwatch_signals()
                        self.report()
                    finally:
                        self.state = State.FINISHED
        # A signal that comes while this thread writes is heeded when all is written.
        if self.state is State.FINISHED:
            if self.signal is not None:
                end_by_signal(self.signal)
            deferred.deliver()

    def report(self):
        """Write the files and the table."""
        if self.process != getpid() or self.state is State.FINISHED:
            return
        result = self.result()
        options = self.options
        alone = options.child or self.process != self.first
        written = self.write(result, self.outputs)
        if not (options.quiet or alone):
            for path in written:
                self.say(f"ferrule_profiler: {visible(path)} is written")
            for line in lost(result) if options.trace else ():
                self.say(f"ferrule_profiler: {line}")
            if len(written) == len(self.outputs) or not self.deferred.given_up:
                self.say(table(result, sort=options.sort, limit=options.limit))

    def result(self):
        """What was found until now, as it is to be shown."""
        result = self.profile.result
        return result.grouped(self.only, self.hide) if self.only or self.hide else result

    def write(self, result, outputs):
        """Write these; the names of those that are written."""
        written = []
        for place, (path, make) in enumerate(outputs):
            name = self.name(path)
            try:
                self.deferred.stop_here()
                write_file(name, make(result))
                self.deferred.may_raise = False
                written.append(name)
            except Exception as error:      # whatever the program has made of the library
                self.deferred.may_raise = False
                self.not_written(name, f"{type(error).__name__}: {error}")
            except KeyboardInterrupt:
                self.deferred.may_raise = False
                for path, _ in outputs[place:]:
                    self.not_written(self.name(path), "interrupted")
                break
        return written

    def not_written(self, path, why):
        text = visible(f"{path} is not written: {why}")
        if text not in self.reported:
            self.reported.add(text)
            self.say(f"ferrule_profiler: {text}")


def say_at_once(text):
    """Print it, whatever locks the main thread holds."""
    os.write(2, f"{text}\n".encode("utf-8", "backslashreplace"))


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


def what_of(options):
    """The options of a profile."""
    return {"count": options.count, "sample": options.sample, "builtins": options.builtins,
            "trace": options.trace_events if options.trace else 0,
            "arguments": options.trace_arguments, "lines": options.lines, "lines_of": options.lines_of,
            "cpu": options.cpu}


def profile_of(options):
    return Profile(**what_of(options))


def writer_of_child():
    """What is to be started in a process of a profiled program. None: it cannot be profiled here."""
    if available():
        return None
    options = inherited()
    profile = profile_of(options)
    profile.program = sys.orig_argv[1:]     # sys.argv is not there yet
    return Writer(profile, options)


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
    options.output = [path if path == "-" else os.path.abspath(path) for path in options.output]
    options.trace = options.trace and (options.trace if options.trace == "-" else os.path.abspath(options.trace))
    name, *arguments = options.program
    with _library.private(_library.IS_LOOKED_FOR):
        writer = Writer(profile_of(options), options)
    writer.profile.program = [*(["-m"] if as_module else []), name, *arguments]
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
