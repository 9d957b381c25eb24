"""What programs that are run with frame hooks find, besides what programs_worker.py defines.

These are names for what tools say of frames, threads that take turns, signals, jumps, and times
without memory. The worker puts them into the globals of each program.
"""

import gc
import inspect
import linecache
import logging
import signal
import sys
import threading
import traceback
import types

import programs_worker as worker
from programs_worker import MOST_EVENTS, PROGRAM, Boom, attempt, chain, emit, locals_of, look, own_frame

try:
    import _testcapi
except ImportError:
    _testcapi = None

greenlet = None         # the worker imports it where it is installed

STARVED_REPEATS = 12
MOST_NAMES = 12

# No tool is to look for source files.
linecache.checkcache = linecache.lazycache = lambda *_: None
inspect.getsourcefile = lambda frame: frame.f_code.co_filename


def names_of(steps):
    """What the tools say of frames, as one line. Frames of helpers have no line number."""
    found = []
    for step in list(steps)[:MOST_NAMES]:
        if isinstance(step[0], types.FrameType):
            frame, line = step[0], step[1] if len(step) == 2 else step.lineno
            filename, name = frame.f_code.co_filename, frame.f_code.co_name
        else:
            filename, line = step.filename, step.lineno
            name = getattr(step, "name", None) or step.function
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


def referents_of(thing):
    """What it refers to but for what watches of it may refer to: their callbacks, data and code."""
    return [found for found in gc.get_referents(thing)
            if isinstance(found, (int, str, tuple, dict, list, set, type(None), worker.Probe))]


class Records(logging.Handler):
    """Writes down which frame logging has found."""

    def emit(self, record):
        line = record.lineno if record.pathname == PROGRAM else "elsewhere"
        emit("logged", record.levelname, record.getMessage(), record.funcName, line,
             formatted([record.stack_info or ""]), record.exc_info and record.exc_info[1])


LOGGER = logging.Logger("program", logging.DEBUG)
LOGGER.addHandler(Records())


class Turns:
    """Threads that take turns: one runs, and the others wait for their locks."""

    def __init__(self, count):
        self.locks = [threading.Lock() for _ in range(count)]
        for lock in self.locks:
            lock.acquire()
        self.waiting = []       # the threads that have not ended, in the order of their turns
        self.begun = {}         # number -> thread

    def body(self, number, function, argument):
        self.locks[number].acquire()
        ident = threading.get_ident()
        self.begun[number] = ident
        turns[ident] = self, number
        worker.current.around.thread_begins()
        attempt("in turns", function, argument)
        worker.current.around.thread_ends()
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
    threads = [threading.Thread(target=together.body, args=(number, *call))
               for number, call in enumerate(calls)]
    together.waiting += range(len(calls))
    for thread in threads:
        thread.start()
    together.locks[0].release()
    for thread in threads:
        thread.join()
    worker.current.around.threads_are_gone()


def turn(looks):
    """Let another thread run, if there is one. Before that, look at the frames of the others."""
    together, number = turns.get(threading.get_ident(), (None, None))
    if together is None:
        return
    if looks:
        frames = sys._current_frames()
        emit("others", [chain(frames[ident]) for other, ident in sorted(together.begun.items())
                        if other != number])
        frames = None
    together.hand_over(number)


def in_thread(function, *arguments):
    """As programs_worker.py has it; what is around the program learns of the thread."""
    worker.in_thread(in_a_thread, function, *arguments)
    worker.current.around.threads_are_gone()


def in_a_thread(function, *arguments):
    around = worker.current.around
    around.thread_begins()
    try:
        return function(*arguments)
    finally:
        around.thread_ends()


def step(number):
    """Resume one of the generators that all functions and threads share."""
    generators = worker.current.namespace["GENERATORS"]
    if generators:
        thing = generators[number % len(generators)]
        if isinstance(thing, (types.GeneratorType, types.CoroutineType)):
            attempt("step", thing.send, None)


def send_signal(action):
    """Raise a signal whose handler looks at frames. Handlers run in the main thread alone."""
    if threading.current_thread() is threading.main_thread():
        global signal_action
        signal_action = action
        signal.raise_signal(signal.SIGUSR1)


def handle_signal(number, frame):
    frame = worker.below(frame)     # the frame that has called send_signal()
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
    # A jump back to where this is called would make the next one, without an end.
    worker.fuel()
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
        # CPython 3.13 lets a generator jump from where it yields, but does not empty its stack,
        # which then overflows.
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
    made = types.FunctionType(code, function.__globals__, "made", function.__defaults__,
                              function.__closure__)
    made.__kwdefaults__ = function.__kwdefaults__
    return made


def switch_out(value):
    """Hand a value to the greenlet that has started this one, and get one back."""
    parent = greenlet.getcurrent().parent
    return "no parent" if parent is None else parent.switch(value)


def starve(endless, offset, *functions):
    """Run functions while allocations fail. Where they fail is chance, so the trace ends here."""
    worker.current.quiet = True
    # An exception of a callback would fail the call that ends the lack of memory.
    worker.monitor_off()
    sys.settrace(None)
    sys.setprofile(None)
    # Without the GIL, CPython 3.13 frees the array of an earlier list where it cannot make one for a new list.
    if not hasattr(_testcapi, "set_nomemory") or hasattr(sys, "getobjects") or worker.FREE_THREADED:
        return
    # Without memory a hook in Python may fail, also one that is called for what ends this.
    worker.current.around.come_to_rest()
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
    # The call that ends the lack of memory may need memory itself.
    while True:
        try:
            _testcapi.remove_mem_hooks()
            return
        except MemoryError:
            pass
