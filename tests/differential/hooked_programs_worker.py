"""Runs random programs while a frame hook is installed. Under the interpreter that is tested.

    python hooked_programs_worker.py BATCH RESULTS SECONDS MODE [--site DIR] [--extension FILE] [--leaks EVERY]

BATCH and RESULTS are as for programs_worker.py, which defines most of what programs find. MODE is one of MODES; on
stock it is "none". Every so many programs, one is repeated, and memory that each repetition takes is complained about.

A hook leaves no mark on a trace, so those that look for frames drop what they took before they return.
"""

import argparse
import array
import gc
import importlib.machinery
import importlib.util
import inspect
import linecache
import logging
import os
import signal
import sys
import threading
import traceback
import types
import warnings

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)

import programs_worker as worker
from programs_worker import MOST_EVENTS, PROGRAM, Boom, attempt, chain, emit, locals_of, look, own_frame

try:
    import _testcapi
except ImportError:
    _testcapi = None

HELPERS = frozenset((__file__, worker.__file__))
SETTLED_REPEATS, REPEATS = 2, 6     # of a program, before memory is measured and while it is
MOST_MEASUREMENTS = 5       # before growth counts as one without an end
STARVED_REPEATS = 12
MOST_NAMES = 12

# Hooks in Python need some of it: no program is to meet it.
worker.RECURSION_LIMIT = 4000
# Frames are looked at, not files.
linecache.checkcache = linecache.lazycache = lambda *_: None
inspect.getsourcefile = lambda frame: frame.f_code.co_filename


# --- What programs find besides. --------------------------------------------------------------------------------

def names_of(steps):
    """What the tools say of frames, as one line: lines of the program alone, since the helpers' are none of it."""
    found = []
    for step in list(steps)[:MOST_NAMES]:
        if isinstance(step[0], types.FrameType):
            frame, line = step[0], step[1] if len(step) == 2 else step.lineno
            filename, name = frame.f_code.co_filename, frame.f_code.co_name
        else:
            filename, line, name = step.filename, step.lineno, getattr(step, "name", None) or step.function
        found.append(f"{name}:{line}" if filename == PROGRAM else name)
    return " < ".join(found)


def formatted(lines):
    return [line.strip() for text in lines for line in text.splitlines() if PROGRAM in line]


def captured(error):
    return names_of(traceback.TracebackException.from_exception(error).stack)


def state_of(thing):
    if isinstance(thing, types.GeneratorType):
        return inspect.getgeneratorstate(thing), sorted(inspect.getgeneratorlocals(thing))
    if isinstance(thing, types.CoroutineType):
        return inspect.getcoroutinestate(thing), sorted(inspect.getcoroutinelocals(thing))
    return thing


class Told(logging.Handler):
    """Writes down which frame logging has found."""

    def emit(self, record):
        line = record.lineno if record.pathname == PROGRAM else "elsewhere"
        emit("logged", record.levelname, record.getMessage(), record.funcName, line,
             formatted([record.stack_info or ""]), record.exc_info and record.exc_info[1])


LOGGER = logging.Logger("program", logging.DEBUG)
LOGGER.addHandler(Told())


class Turns:
    """Threads of which one runs at a time: the others wait for their locks."""

    def __init__(self, count):
        self.locks = [threading.Lock() for _ in range(count)]
        for lock in self.locks:
            lock.acquire()
        self.waiting = []       # who has not ended, in order
        self.begun = {}         # number -> thread

    def body(self, number, function, argument):
        self.locks[number].acquire()
        ident = threading.get_ident()
        self.begun[number] = ident
        turns[ident] = self, number
        attempt("in turns", function, argument)
        del turns[ident], self.begun[number]
        self.waiting.remove(number)
        if self.waiting:
            self.locks[self.waiting[0]].release()

    def hand_over(self, number):
        self.waiting.remove(number)
        self.waiting.append(number)
        if self.waiting[0] != number:
            self.locks[self.waiting[0]].release()
            self.locks[number].acquire()


turns = {}      # thread -> its Turns, and its number


def interleave(*calls):
    """Run functions in threads that hand over where a program says so: turn()."""
    together = Turns(len(calls))
    threads = [threading.Thread(target=together.body, args=(number, *call)) for number, call in enumerate(calls)]
    together.waiting += range(len(calls))
    for thread in threads:
        thread.start()
    together.locks[0].release()
    for thread in threads:
        thread.join()


def turn(looks):
    """Let another thread run, if there is one; before that, look at where the others are."""
    together, number = turns.get(threading.get_ident(), (None, None))
    if together is None:
        return
    if looks:
        frames = sys._current_frames()
        emit("others", [chain(frames[ident]) for other, ident in sorted(together.begun.items()) if other != number])
        frames = None
    together.hand_over(number)


def send_signal(action):
    """A signal whose handler looks at frames. Other threads would not be interrupted where they are."""
    if threading.current_thread() is threading.main_thread():
        global signal_action
        signal_action = action
        signal.raise_signal(signal.SIGUSR1)


def handle_signal(number, frame):
    frame = worker.below(frame)     # of who sent it
    if frame is None:
        return
    emit("signal", chain(frame))
    if own_frame(frame):
        SIGNAL_ACTIONS[signal_action](frame)


def write_from_handler(frame):
    frame.f_locals["v2"] = "written by a handler"
    emit("signal.write", locals_of(frame))


def raise_from_handler(frame):
    raise Boom("from a handler")


def call_from_handler(frame):
    emit("signal.call", sorted([3, 1, 2], key=lambda n: (chain(sys._getframe(1)), -n)[1]))


def keep_from_handler(frame):
    worker.current.namespace["KEPT"].append(frame)


def trace_from_handler(frame):
    frame.f_trace = worker.make_tracer("signalled")


def change_hooks_from_handler(frame):
    worker.current.around.change_hooks(0)


SIGNAL_ACTIONS = {
    "stack": lambda frame: emit("signal.stack", names_of(traceback.extract_stack(frame))),
    "locals": lambda frame: emit("signal.locals", locals_of(frame)),
    "write": write_from_handler,
    "raise": raise_from_handler,
    "call": call_from_handler,
    "keep": keep_from_handler,
    "look": lambda frame: look(frame),
    "trace": trace_from_handler,
    "hooks": change_hooks_from_handler,
    "collect": lambda frame: gc.collect(),
}


def line_for(frame, target):
    code = frame.f_code
    if target == "first":
        line = code.co_firstlineno
    elif target == "here":
        line = frame.f_lineno
    elif isinstance(target, int):
        line = frame.f_lineno + target
    else:
        lines = sorted({line for _, _, line in code.co_lines() if line})
        line = lines[target[1] % len(lines)]
    if line == code.co_firstlineno and code.co_flags & worker.GENERATOR_FLAGS:
        raise ValueError("not back to where a generator is made: CPython 3.13 crashes")
    return line


def make_jumper(event, countdown, targets):
    """A trace function that jumps, once for each target, after so many events of the kind."""
    left, countdown, targets = MOST_EVENTS, countdown, list(targets)
    opcodes, event = event == "opcode", "line" if event == "opcode" else event

    def tracer(frame, happened, argument):
        nonlocal left, countdown
        if not own_frame(frame) or left <= 0:
            return None
        if happened == "opcode":
            return tracer
        left -= 1
        frame.f_trace_opcodes = opcodes
        emit("jump." + happened, frame.f_code.co_name, frame.f_lineno)
        # From where a generator yields, CPython 3.13 lets it jump and does not empty its stack, which then overflows.
        yields = happened == "return" and frame.f_code.co_flags & worker.GENERATOR_FLAGS
        if happened == event and targets and frame.f_code.co_name != "<module>" and not yields:
            countdown -= 1
            if countdown < 0:
                try:
                    frame.f_lineno = line_for(frame, targets.pop(0))
                    emit("jumped", frame.f_lineno, frame.f_lasti)
                except ValueError as error:
                    emit("no jump", error)
        return tracer

    return tracer


def with_other_code(function, how):
    """The same function, as a new one."""
    code = function.__code__
    code = code.replace(**({}, {"co_name": "another"}, {"co_qualname": "other.name"},
                           {"co_consts": (*code.co_consts, "unused")})[how])
    made = types.FunctionType(code, function.__globals__, "made", function.__defaults__, function.__closure__)
    made.__kwdefaults__ = function.__kwdefaults__
    return made


def switch_out(value):
    """Hand a value to the greenlet that has started this one, and get one back."""
    parent = greenlet.getcurrent().parent
    return "no parent" if parent is None else parent.switch(value)


def starve(endless, offset, *functions):
    """Run functions while allocations fail. Where they fail is chance, so nothing from here on is told."""
    worker.current.quiet = True
    # What fails in a callback of theirs fails the call that would end this.
    worker.monitor_off()
    sys.settrace(None)
    sys.setprofile(None)
    if not hasattr(_testcapi, "set_nomemory") or hasattr(sys, "getobjects"):
        return
    for number in range(STARVED_REPEATS):
        for function in functions:
            start = (offset + number * 13) % 130
            stop = 0 if endless else start + (1, 2, 5, 40)[number % 4]
            try:
                worker.current.around.starve_one(function, start, stop, number)
            except Exception:
                # CPython makes a SystemError of some failures, late.
                end_starving()


def run_starved(function, start, stop):
    fail = _testcapi.set_nomemory
    try:
        fail(start, stop)
        function(1)
    except Exception:
        pass
    finally:
        end_starving()


def end_starving():
    # The call that ends it may need memory, too.
    while True:
        try:
            _testcapi.remove_mem_hooks()
            return
        except MemoryError:
            pass


# --- What hooks do. ---------------------------------------------------------------------------------------------

def answer_nothing(view):
    return framehook.SETTLED if view.code.co_filename in HELPERS else None


def settle_all(view):
    return framehook.SETTLED


def read_everything(view):
    if view.code.co_filename in HELPERS:
        return framehook.SETTLED
    view.function, view.globals, view.builtins, view.argument_names, view.arguments()
    return None


def make_copier(look=None):
    # One copy for each code object. With more of them, calls would be specialized later than on stock, and arguments
    # die later where a call is not specialized.
    copies = {}         # id(code) -> code, its copy

    def copy(view):
        code = view.code
        # A copy that replace() makes does not know which locals of a class body are those of a comprehension.
        if code.co_filename in HELPERS or code.co_varnames and not code.co_flags & inspect.CO_OPTIMIZED:
            return framehook.SETTLED
        if look is not None:
            look()
        known = copies.get(id(code))
        if known is None:
            known = copies[id(code)] = code, code.replace()
        return known[1]

    return copy


class Found(Exception):
    """warnings.warn() has walked to the frame of its stack level."""


class Unseen(Warning):
    """Has no text: so warn() fails once it has found the frame, and before a filter is asked or anything shown."""

    def __str__(self):
        raise Found


UNSEEN = Unseen()
LAST = 1 << 30      # a stack level below all frames: warn() leaves its registry with that frame's globals
OBSERVER = logging.Logger("observer")
OBSERVER.addHandler(logging.NullHandler())


def take_frames():
    frame, depth = sys._getframe(2), 0
    while frame is not None and depth < 6:
        frame.f_lineno, frame.f_lasti, frame.f_trace, frame.f_code
        if frame.f_code.co_filename == PROGRAM:
            dict(frame.f_locals)
        frame, depth = worker.below(frame), depth + 1


def log():
    OBSERVER.warning("a call", stacklevel=3)


def log_stack():
    OBSERVER.warning("a call", stacklevel=3, stack_info=True)


def warn():
    try:
        warnings.warn(UNSEEN, stacklevel=LAST)
    except Found:
        pass


def walk_stack():
    for frame, line in traceback.walk_stack(None):
        pass


def extract_stack():
    traceback.extract_stack(limit=8)


def stack():
    inspect.stack(0)


def threads():
    sys._current_frames()


def raise_and_catch():
    try:
        raise Found
    except Found as error:
        traceback.extract_tb(error.__traceback__)


# By what they cost.
CHEAP = take_frames, log, warn, walk_stack, threads
TOOLS = (*CHEAP, extract_stack, *CHEAP, raise_and_catch, *CHEAP, log_stack, *CHEAP, stack)


def make_looker():
    """A function that uses one tool after another."""
    turn = 0

    def look():
        nonlocal turn
        turn += 1
        # Some of these make functions, which CPython 3.13 cannot do where there is no memory.
        if turn % 6 == 0 and not worker.current.quiet:
            TOOLS[turn // 6 % len(TOOLS)]()
        else:
            take_frames()

    return look


def make_observer():
    look = make_looker()

    def observe(view):
        if view.code.co_filename in HELPERS:
            return framehook.SETTLED
        look()
        return None

    return observe


# --- Modes. -----------------------------------------------------------------------------------------------------

class Plain(worker.Surroundings):
    """No hook."""

    def __init__(self, options):
        self.options = options
        self.complaints = []
        self.details = []

    def names(self):
        return {
            "LOGGER": LOGGER, "inspect": inspect, "warnings": warnings, "threading": threading, "names_of": names_of,
            "formatted": formatted, "captured": captured, "state_of": state_of, "interleave": interleave, "turn": turn,
            "send_signal": send_signal, "make_jumper": make_jumper, "with_other_code": with_other_code,
            "own_frame": own_frame, "starve": starve, "change_hooks": self.change_hooks,
            **({"greenlet": greenlet.greenlet, "switch_out": switch_out} if greenlet else {}),
        }

    # Events of opcodes belong to a code object: that they were wanted for the original is not known of a copy.
    tells_opcodes = False

    def tell_collected(self, tag, count):
        """A hook has objects of its own."""

    def is_told(self, event, code, arguments):
        # Whether the line of the `def` has an event depends on how its first instruction is specialized. Code that a
        # hook wants to be asked about stays as it is.
        return event != "LINE" or arguments[0] != code.co_firstlineno

    def change_hooks(self, how):
        pass

    def starve_one(self, function, start, stop, number):
        run_starved(function, start, stop)

    def complain(self, complaint, detail=""):
        if complaint not in self.complaints:
            self.complaints.append(complaint)
            self.details.append(f"{complaint}: {detail}")

    def result(self, seed, source):
        # Without memory CPython itself loses some.
        if self.options.leaks and seed % self.options.leaks == 0 and "starve(" not in source:
            self.look_for_leaks(source)
        told = {"complaints": self.complaints, "details": self.details}
        self.complaints, self.details = [], []
        return told

    def look_for_leaks(self, source):
        for _ in range(SETTLED_REPEATS):
            worker.run_one(source, self)
        for _ in range(MOST_MEASUREMENTS):
            growths = self.growths(source)
            growing = [name for name, numbers in growths.items() if min(numbers) > 0]
            if not growing:
                return
        for name in growing:
            self.complain(f"more {name} each time", f"by {growths[name]}")

    def growths(self, source):
        """By how much each number grows from run to run."""
        # What writes them down takes no memory.
        blocks, references = (array.array("q", [0]) * (REPEATS + 1) for _ in range(2))
        for i in range(REPEATS + 1):
            worker.run_one(source, self)
            gc.collect()
            blocks[i] = sys.getallocatedblocks()
            references[i] = getattr(sys, "gettotalrefcount", int)()
        return {name: [after - before for before, after in zip(numbers, numbers[1:])]
                for name, numbers in (("blocks", blocks), ("references", references))}


class Hooked(Plain):
    """A hook in Python, made anew for each program."""

    can_be_added_again = True

    def __init__(self, options, make_hook):
        super().__init__(options)
        self.make_hook = make_hook

    def add(self):
        self.handle = framehook.add(self.hook)

    def begin(self):
        self.hook = self.make_hook()
        self.extra = make_copier()
        self.add()

    def __enter__(self):
        self.before = {info.handle for info in framehook.hooks()}
        self.begin()

    def __exit__(self, *exception):
        info = self.info(self.handle)
        if info is None:
            self.complain("the hook is gone")
        elif not info.calls and not self.changed:
            self.complain("the hook was not asked")
        self.end()
        left = [info for info in framehook.hooks() if info.handle not in self.before]
        if left:
            self.complain("a hook is left", left)
            for info in left:
                framehook.remove(info.handle)

    changed = False

    def end(self):
        for hook in (self.handle, self.extra):
            if self.info(hook) is not None:
                framehook.remove(hook)
        self.hook = self.extra = None

    def info(self, hook):
        return next((info for info in framehook.hooks() if hook in (info.handle, info.hook)), None)

    def change_hooks(self, how):
        """Change the hooks while the program runs; afterwards its own is asked as before."""
        self.changed = True
        handle = self.handle
        if how == 0 and self.can_be_added_again:
            framehook.remove(handle)
            self.add()
        elif how == 1:
            framehook.disable(handle)
            worker.fuel.__name__
            framehook.enable(handle)
        elif how == 2:
            if self.info(self.extra) is None:
                framehook.add(self.extra, "another")
            else:
                framehook.remove(self.extra)
        elif how == 3:
            with framehook.disabled(handle):
                chain(sys._getframe(1))
        elif how == 4:
            framehook.disable_in_thread(handle)
            chain(sys._getframe(1))
            framehook.enable_in_thread(handle)
        elif how == 5:
            with framehook.hook(settle_all, "settles"):
                chain(sys._getframe(1))
        elif how == 6:
            with framehook.hook(read_everything):
                sorted([2, 1], key=str)
        elif how == 7:
            with framehook.disabled_in_thread(handle):
                chain(sys._getframe(1))
        elif how == 8:
            code = sys._getframe(1).f_code
            framehook.disable_for_code(handle, code)
            framehook.enable_for_code(handle, code)
        elif how == 9:
            with framehook.disabled_for_code(handle, sys._getframe(1).f_code):
                chain(sys._getframe(1))

    def starve_one(self, function, start, stop, number):
        before = [info.handle for info in framehook.hooks()]
        if number % 3 == 0:
            function = in_a_block(function)
        try:
            run_starved(function, start, stop)
        except Exception:
            end_starving()
        after = [info.handle for info in framehook.hooks()]
        if before != after:
            self.complain("other hooks after an end of memory", f"{start, stop}: {before}, {after}")
            for handle in set(after) - set(before):
                framehook.remove(handle)


def in_a_block(function):
    hook = framehook.hook(read_everything)

    def inside(argument):
        with hook:
            function(argument)

    return inside


class Native(Hooked):
    """A hook in C that passes, added for each program."""

    def __init__(self, options, kind):
        super().__init__(options, None)
        self.kind = kind
        self.extension = load_extension(options.extension)

    def begin(self):
        self.hook = None
        self.extra = make_copier()
        self.add()

    def add(self):
        self.handle = self.extension.add(self.kind)


class NativeForGood(Native):
    """A hook in C that takes one of the few slots of code objects, so that it is added once."""

    can_be_added_again = False

    def __init__(self, options, kind, *more):
        super().__init__(options, kind)
        self.for_good = self.extension.add(kind, *more)

    def add(self):
        self.handle = self.for_good

    def end(self):
        if self.info(self.extra) is not None:
            framehook.remove(self.extra)
        self.extra = None


def load_extension(path):
    loader = importlib.machinery.ExtensionFileLoader("suitehooks", path)
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("suitehooks", loader))
    loader.exec_module(module)
    return module


def native_observer(options):
    """What looks for frames from C and from Python where CPython's own suite is run."""
    directory = os.path.join(os.path.dirname(HERE), "hooked")
    sys.path.insert(0, directory)
    spec = importlib.util.spec_from_file_location("hooked_sitecustomize", os.path.join(directory, "sitecustomize.py"))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.private_observer(load_extension(options.extension).alone)


MODES = {
    "none": Plain,
    "native": lambda options: Native(options, "pass"),
    "pass": lambda options: Hooked(options, lambda: answer_nothing),
    "settle": lambda options: Hooked(options, lambda: lambda view: settle_all(view)),
    "read": lambda options: Hooked(options, lambda: lambda view: read_everything(view)),
    "copy": lambda options: Hooked(options, make_copier),
    "observe": lambda options: Hooked(options, make_observer),
    "observe-copy": lambda options: Hooked(options, lambda: make_copier(make_looker())),
    "native-copy": lambda options: NativeForGood(options, "copy"),
    "native-observe": lambda options: NativeForGood(options, "observe", native_observer(options)),
}


def main():
    global framehook, greenlet
    parser = argparse.ArgumentParser()
    parser.add_argument("batch")
    parser.add_argument("results")
    parser.add_argument("seconds", type=float)
    parser.add_argument("mode", choices=MODES)
    parser.add_argument("--site")
    parser.add_argument("--extension")
    parser.add_argument("--leaks", type=int, default=0)
    options = parser.parse_args()
    greenlet = None
    if options.site:
        sys.path.append(options.site)
        import greenlet
    if options.mode != "none":
        import framehook
    signal.signal(signal.SIGUSR1, handle_signal)
    around = MODES[options.mode](options)
    worker.prepare()
    worker.run_batch(options.batch, options.results, options.seconds, around)


if __name__ == "__main__":
    main()
