"""Running a program under a profile, and writing what was found however it ends."""

import atexit
import importlib.util
import io
import os
import signal
import sys
import threading
import types

from ._formats import write
from ._profile import OWN, Profile, available
from ._timeline import write_timeline


class Writer:
    """Writes the result once for each process: at its end, at os._exit() or at SIGTERM."""

    def __init__(self, profile, options):
        self.profile = profile
        self.options = options
        self.process = self.first = os.getpid()
        self.written = False
        self.stopping = threading.Event()

    def install(self):
        atexit.register(self.finish)
        leave = os._exit

        def _exit(status):
            self.finish()
            leave(status)

        os._exit = _exit
        os.register_at_fork(after_in_child=self.forked)
        in_main = threading.current_thread() is threading.main_thread()
        if in_main and signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
            signal.signal(signal.SIGTERM, self.terminated)
        self.save_now_and_then()

    def save_now_and_then(self):
        if self.options.save_every:
            threading.Thread(target=self.save, name="ferrule_profiler", daemon=True).start()

    def save(self):
        while not self.stopping.wait(self.options.save_every):
            self.write(self.profile.result)

    def forked(self):
        self.process = os.getpid()
        self.written = not self.options.subprocesses
        self.stopping = threading.Event()
        if not self.written:
            self.save_now_and_then()

    def terminated(self, number, frame):
        self.finish()
        signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)

    def name(self, path):
        """Children write beside the first process: name.PID.end."""
        if self.process == self.first and not self.options.child:
            return path
        directory, name = os.path.split(path)
        stem, dot, end = name.partition(".")
        return os.path.join(directory, f"{stem}.{self.process}{dot}{end}")

    def finish(self):
        if self.written or self.process != os.getpid():
            return
        self.written = True
        self.stopping.set()
        self.profile.stop()
        result = self.profile.result
        self.write(result)
        options = self.options
        child = self.process != self.first or options.child
        if not options.quiet and not child:
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
            print(f"ferrule_profiler: {error}", file=sys.stderr)


def profile_of(options):
    return Profile(count=options.count, sample=options.sample, builtins=options.builtins,
                   trace=options.trace_events if options.trace else 0)


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
        sys.path[0] = os.getcwd()
    else:
        try:
            with io.open_code(name) as file:
                code = compile(file.read(), name, "exec", dont_inherit=True)
        except OSError as error:
            raise SystemExit(f"ferrule_profiler: {error}") from None
        module.__file__ = name
        sys.path[0] = os.path.dirname(os.path.realpath(name))
    sys.argv[:] = [module.__file__, *arguments]
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
    module.__builtins__ = __builtins__
    sys.modules["__main__"] = module
    if options.subprocesses:
        from ._subprocesses import prepare
        prepare(options)
    profile = profile_of(options)
    Writer(profile, options).install()
    profile.start()
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
