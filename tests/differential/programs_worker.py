"""Runs random programs and writes down everything observable about them. Under the interpreter that is tested.

    python programs_worker.py BATCH RESULTS SECONDS

BATCH is a JSON list of [seed, source]. RESULTS gets one JSON line before each program, {"start": seed}, and one after
it, {"seed": ..., "end": ..., "trace": [...]}: so what a crash leaves behind names the program. A program that takes
longer than SECONDS ends the process.

What programs find in their globals is defined here. None of it prints an address, a time, or the order of a
set of addresses: the same program has the same trace in every process of the same CPython. Without the GIL the collector goes
by address, and objects may end later or be kept by others: there the lines of a trace are sorted, and it has nothing of destructors
and collections.
"""

import _functools
import faulthandler
import gc
import inspect
import json
import linecache
import os
import re
import resource
import sys
import sysconfig
import threading
import traceback
import types
import warnings
import weakref

PROGRAM = "<program>"
ADDRESS = re.compile(r"0x[0-9a-fA-F]+")
MOST_LINES = 3000           # of one trace; what comes after is counted
MOST_EVENTS = 150           # of one tracer
MOST_CALLS = 400            # of the functions of one program
RECURSION_LIMIT = 1000
TOOL = 4                    # of sys.monitoring
FREE_THREADED = bool(sysconfig.get_config_var("Py_GIL_DISABLED"))
MEMORY_BYTES = 4 << 30      # of address space: a program that runs wild must not take the machine with it


class OutOfFuel(Exception):
    """The program has called its functions often enough."""


class Boom(Exception):
    """What programs raise."""


class Trace:
    def __init__(self, around=None):
        self.around = around
        self.lines = []
        self.dropped = 0
        self.calls = 0
        self.quiet = False


current = Trace()


def show(value, depth=2):
    """Like repr, without addresses, and without running code of the program."""
    kind = type(value)
    if value is None or kind in (bool, int, str, float, bytes):
        text = repr(value)
        return text if len(text) < 90 else text[:80] + f"...{len(text)}"
    if kind in (tuple, list):
        if depth <= 0:
            return f"{kind.__name__}[{len(value)}]"
        inside = ", ".join([show(item, depth - 1) for item in value[:6]])
        return f"{kind.__name__}[{len(value)}: {inside}]"
    if kind is dict:
        if depth <= 0:
            return f"dict[{len(value)}]"
        inside = ", ".join([f"{show(key, 0)}: {show(item, depth - 1)}" for key, item in list(value.items())[:8]])
        return f"dict[{len(value)}: {inside}]"
    if isinstance(value, Probe):
        return f"{kind.__name__}({value.name})"
    if kind is types.FrameType:
        return f"frame({value.f_code.co_name}:{value.f_lineno})"
    if isinstance(value, BaseException):
        return f"{kind.__name__}{ADDRESS.sub('0x', str(value.args))}"
    if kind in (types.FunctionType, types.GeneratorType, types.CoroutineType, types.AsyncGeneratorType):
        return f"{kind.__name__} {value.__qualname__}"
    if kind is types.CodeType:
        return f"code {value.co_qualname}"
    if isinstance(value, type):
        return f"class {value.__qualname__}"
    return f"a {kind.__name__}"


def emit(tag, *values):
    if current.quiet:
        return
    if len(current.lines) < MOST_LINES:
        current.lines.append(" ".join([tag, *[show(value) for value in values]]))
    else:
        current.dropped += 1


def fuel():
    """Bounds what a program does; the first statement of most of its functions."""
    current.calls += 1
    if current.calls > MOST_CALLS:
        raise OutOfFuel()


def attempt(tag, function, *arguments):
    """What a call gave or raised, as one line."""
    try:
        result = function(*arguments)
    except Exception as error:
        emit(tag, "raised", error)
        return None
    emit(tag, result)
    return result


class Probe:
    """An object whose end is seen, and which may do something about it."""

    def __init__(self, name, action=None):
        self.name = name
        self.action = action

    def __repr__(self):
        return f"Probe({self.name})"

    def __del__(self):
        emit("del", self.name)
        if self.action is not None:
            FINALIZER_ACTIONS[self.action](self, sys._getframe(1))


def own_frame(frame):
    """Whether the frame belongs to the program."""
    return frame is not None and frame.f_code.co_filename == PROGRAM


def finalizer_looks_back(probe, frame):
    emit("del.back", chain(frame))


def finalizer_reads_locals(probe, frame):
    if own_frame(frame):
        emit("del.locals", locals_of(frame))


def finalizer_keeps_frame(probe, frame):
    current.namespace["KEPT"].append(frame)


def finalizer_clears_frame(probe, frame):
    kept = current.namespace["KEPT"]
    if kept:
        attempt("del.clear", kept[-1].clear)


def finalizer_collects(probe, frame):
    current.around.report_collected("del.collect", gc.collect())


def finalizer_resurrects(probe, frame):
    probe.action = None
    current.namespace["SAVED"].append(probe)


def finalizer_raises(probe, frame):
    raise Boom(probe.name)


def finalizer_writes_locals(probe, frame):
    if own_frame(frame):
        frame.f_locals["v0"] = f"written by {probe.name}"
        emit("del.write", locals_of(frame))


def inner(name):
    try:
        yield name
    finally:
        emit("del.generator", chain(sys._getframe()))


def finalizer_runs_a_generator(probe, frame):
    # Makes no function: CPython 3.13 gives up its code twice where there is no memory.
    next(inner(probe.name))


FINALIZER_ACTIONS = {
    "back": finalizer_looks_back,
    "locals": finalizer_reads_locals,
    "keep": finalizer_keeps_frame,
    "clear": finalizer_clears_frame,
    "collect": finalizer_collects,
    "resurrect": finalizer_resurrects,
    "raise": finalizer_raises,
    "write": finalizer_writes_locals,
    "generator": finalizer_runs_a_generator,
}


GENERATOR_FLAGS = inspect.CO_GENERATOR | inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR
GENERATOR_TYPES = (types.GeneratorType, types.CoroutineType, types.AsyncGeneratorType)


def readable(frame):
    """Whether the locals of this frame may be read without harm.

    CPython 3.13 itself may crash over the locals of a frame that outlives its generator (gh-125723), so what it does
    there is no measure.
    """
    if not frame.f_code.co_flags & GENERATOR_FLAGS:
        return True
    running = sys._getframe()
    while running is not None:
        if running is frame:
            return True
        running = below(running)
    # No generator expression: this runs without memory too, and then CPython 3.13 gives up its code twice.
    for owner in gc.get_referrers(frame):
        if type(owner) in GENERATOR_TYPES:
            return True
    return False


def kept(index, otherwise):
    """A frame that was kept, or `otherwise`."""
    frames = [item for item in current.namespace["KEPT"] if isinstance(item, types.FrameType) and readable(item)]
    return frames[index] if frames else otherwise


def below(frame):
    """The frame that has called this one.

    Where there is no memory for its object, CPython 3.13 says None and leaves an exception behind, which fails
    whatever C function runs next. So it is not looked at there.
    """
    return None if current.quiet else frame.f_back


def chain(frame):
    """The frames from this one down to where the program began."""
    found = []
    # By its name: a hook may have had a copy of its code run.
    while frame is not None and frame.f_code.co_qualname != run_one.__qualname__ and len(found) < 12:
        if own_frame(frame):
            found.append(f"{frame.f_code.co_name}:{frame.f_lineno}@{frame.f_lasti}")
        else:
            found.append(frame.f_code.co_name)
        frame = below(frame)
    return " < ".join(found)


def locals_of(frame):
    """The locals by name; of the program's own level, how many."""
    if not readable(frame):
        return "of a dead generator"
    proxy = frame.f_locals
    if frame.f_code.co_name == "<module>":
        return f"module {len(proxy)}"
    return [f"{name}={show(value, 1)}" for name, value in proxy.items()]


def look(frame):
    """Everything that a frame object shows."""
    if not isinstance(frame, types.FrameType):
        emit("look", frame)
        return
    emit("look", frame.f_code.co_qualname, frame.f_lineno, frame.f_lasti, own_frame(below(frame)) and below(frame),
         frame.f_trace is None, frame.f_trace_lines, frame.f_trace_opcodes)
    if own_frame(frame) and readable(frame):
        emit("look.locals", locals_of(frame))
        if frame.f_code.co_name != "<module>":
            emit("look.referents", sorted(type(item).__name__ for item in gc.get_referents(frame)))
            emit("look.size", sys.getsizeof(frame), gc.is_tracked(frame), sys.getrefcount(frame))


def look_error(error, text=False):
    """An exception, its traceback's frames, and what it came from."""
    for _ in range(4):
        if error is None:
            return
        steps = []
        step = error.__traceback__
        while step is not None and len(steps) < 12:
            if own_frame(step.tb_frame):
                steps.append(f"{step.tb_frame.f_code.co_name}:{step.tb_lineno}@{step.tb_lasti}"
                             f"/{step.tb_frame.f_lineno}")
            else:
                steps.append(step.tb_frame.f_code.co_name)
            step = step.tb_next
        emit("error", error, " > ".join(steps), len(getattr(error, "__notes__", ())))
        if isinstance(error, BaseExceptionGroup):
            emit("error.group", error.exceptions)
        error = error.__cause__ or error.__context__


def error_text(error):
    text = "".join(traceback.format_exception(error, limit=-12))
    worker = re.escape(__file__)
    text = re.sub(rf'File "{worker}", line \d+', 'File "worker"', text)
    emit("error.text", len(text))
    for line in ADDRESS.sub("0x", text).splitlines()[:60]:
        emit("|" + line)


def make_tracer(name, opcodes=False, lines=True, jump=None, returns_none=()):
    """A trace function; `jump` is (line, by how much), done once."""
    left = [MOST_EVENTS]
    jumps = [jump]

    def tracer(frame, event, argument):
        if not own_frame(frame):
            return None
        if event == "opcode" and not current.around.tells_opcodes:
            return tracer
        if left[0] <= 0:
            return None
        left[0] -= 1
        frame.f_trace_opcodes = opcodes
        frame.f_trace_lines = lines
        emit("trace." + event, name, frame.f_code.co_name, frame.f_lineno, frame.f_lasti,
             argument[0] if event == "exception" else argument)
        if event in returns_none:
            emit("trace.locals", locals_of(frame))
        if event == "line" and jumps[0] is not None and frame.f_code.co_name != "<module>":
            countdown, distance = jumps[0]
            jumps[0] = (countdown - 1, distance)
            if countdown <= 0:
                jumps[0] = None
                try:
                    frame.f_lineno += distance
                    emit("trace.jumped", frame.f_lineno)
                except ValueError as error:
                    emit("trace.no_jump", error)
        return tracer

    return tracer


def make_profiler(name):
    left = [MOST_EVENTS]

    def profiler(frame, event, argument):
        if own_frame(frame) and left[0] > 0:
            left[0] -= 1
            called = getattr(argument, "__name__", None) if event.startswith("c_") else argument
            emit("profile." + event, name, frame.f_code.co_name, frame.f_lineno, called)

    return profiler


def monitor(names):
    """Switch sys.monitoring on for these events, all code."""
    if sys.monitoring.get_tool(TOOL) is None:
        sys.monitoring.use_tool_id(TOOL, "programs")
    left = [MOST_EVENTS]
    events = sys.monitoring.events
    mask = 0
    for name in names:
        event = getattr(events, name)
        mask |= event

        def callback(code, *arguments, name=name):
            if code.co_filename == PROGRAM and left[0] > 0 and current.around.is_reported(name, code, arguments):
                left[0] -= 1
                emit("monitor." + name, code.co_name, arguments)

        sys.monitoring.register_callback(TOOL, event, callback)
    sys.monitoring.set_events(TOOL, mask)


def monitor_off():
    if sys.monitoring.get_tool(TOOL) is not None:
        sys.monitoring.set_events(TOOL, 0)
        sys.monitoring.free_tool_id(TOOL)


class Suspend:
    """`await Suspend(x)` hands x out and gives back what is sent."""

    def __init__(self, value):
        self.value = value

    def __await__(self):
        got = yield self.value
        return got


def drive(awaitable, plan):
    """Step a coroutine, or anything like one, by a plan of ("send", value), ("throw", error) and ("close",)."""
    for verb, *arguments in plan:
        method = getattr(awaitable, verb)
        try:
            emit("drive." + verb, method(*arguments))
        except StopIteration as error:
            emit("drive.returned", error.value)
            return error.value
        except (StopAsyncIteration, GeneratorExit, Exception) as error:
            emit("drive.raised", error)
            look_error(error)
            return None
    return None


def in_thread(function, *arguments):
    """Call in a thread of its own, and wait for it."""
    outcome = []

    def body():
        try:
            outcome.append(("returned", function(*arguments)))
        except Exception as error:
            outcome.append(("raised", error))

    thread = threading.Thread(target=body)
    thread.start()
    thread.join()
    emit("thread", *outcome[0])
    if outcome[0][0] == "raised":
        look_error(outcome[0][1])


class Manager:
    """A context manager that looks around, and may swallow."""

    def __init__(self, name, swallow=False, fail=False):
        self.name, self.swallow, self.fail = name, swallow, fail

    def __enter__(self):
        emit("enter", self.name, chain(sys._getframe(1)))
        return self

    def __exit__(self, kind, error, step):
        emit("exit", self.name, error)
        if self.fail:
            raise Boom(self.name)
        return self.swallow

    async def __aenter__(self):
        emit("aenter", self.name, await Suspend("aenter"))
        return self

    async def __aexit__(self, kind, error, step):
        emit("aexit", self.name, error, chain(sys._getframe()))
        await Suspend("aexit")
        return self.swallow


class LoggingDict(dict):
    """A namespace that records which function stores into it."""

    def __setitem__(self, key, value):
        emit("namespace", key, value)
        super().__setitem__(key, value)

    def __missing__(self, key):
        if key.startswith("miss"):
            return f"missed {key}"
        raise KeyError(key)


def unraisable(report):
    emit("unraisable", report.exc_value, ADDRESS.sub("0x", str(report.err_msg)))


def warned(message, category, filename, lineno, file=None, line=None):
    emit("warning", category, ADDRESS.sub("0x", str(message)), lineno if filename == PROGRAM else "elsewhere")


def globals_for_a_program(source):
    return {
        "__name__": "program", "__builtins__": __builtins__,
        "KEPT": [], "ERRORS": [], "GENERATORS": [], "SAVED": [],
        "emit": emit, "fuel": fuel, "attempt": attempt, "show": show, "Probe": Probe, "Boom": Boom,
        "chain": chain, "locals_of": locals_of, "look": look, "kept": kept, "look_error": look_error, "error_text": error_text,
        "make_tracer": make_tracer, "make_profiler": make_profiler, "monitor": monitor, "monitor_off": monitor_off,
        "Suspend": Suspend, "drive": drive, "in_thread": in_thread, "Manager": Manager, "LoggingDict": LoggingDict,
        "sys": sys, "gc": gc, "weakref": weakref, "traceback": traceback,
        "reduce": _functools.reduce, "partial": _functools.partial,
    }


def forget(namespace):
    """End what the program left, in a fixed order."""
    for name in ("KEPT", "ERRORS", "GENERATORS", "SAVED"):
        held = namespace[name]
        while held:
            held.pop()
    for name in list(namespace):
        if not name.startswith("__"):
            namespace[name] = None


class Surroundings:
    """What is around each program: what it finds, what is installed meanwhile, and what is reported at its end."""

    tells_opcodes = True        # events of tracers

    def names(self):
        """What the program finds besides."""
        return {}

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        pass

    def executor(self, code):
        """What runs the program, called with its code and a namespace."""
        return exec

    def report_collected(self, tag, count):
        emit(tag, count)

    def report_the_end(self):
        for _ in range(3):
            self.report_collected("collected", gc.collect())

    def is_reported(self, event, code, arguments):
        """Whether an event of sys.monitoring goes to the trace."""
        return True

    def result(self, seed, source):
        """What is written beside the trace."""
        return {}


def run_one(source, surroundings):
    """Run one program; how it ended. Its trace is `current`."""
    global current
    gc.collect()
    current = Trace(surroundings)
    linecache.cache[PROGRAM] = (len(source), None, source.splitlines(True), PROGRAM)
    namespace = current.namespace = {**globals_for_a_program(source), **surroundings.names()}
    end = "to its end"
    with surroundings:
        try:
            code = compile(source, PROGRAM, "exec", dont_inherit=True)
            surroundings.executor(code)(code, namespace)
        except BaseException as error:
            end = type(error).__name__
            look_error(error)
            error_text(error)
            error.__traceback__ = None
        sys.settrace(None)
        sys.setprofile(None)
        monitor_off()
        sys.setrecursionlimit(RECURSION_LIMIT)
        sys.set_asyncgen_hooks(None, None)
        gc.set_threshold(0)
        forget(namespace)
        namespace.clear()
        surroundings.report_the_end()
    emit("end", end, current.calls, current.dropped)
    return end


def prepare():
    if "ASAN_OPTIONS" not in os.environ:        # AddressSanitizer takes address space without end
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    gc.collect()
    gc.freeze()
    gc.set_threshold(0)
    sys.setrecursionlimit(RECURSION_LIMIT)
    sys.unraisablehook = unraisable
    warnings.simplefilter("always")
    warnings.showwarning = warned


def run_batch(batch, results, seconds, surroundings):
    with open(batch, encoding="utf-8") as file:
        programs = json.load(file)
    with open(results, "w", encoding="utf-8") as file:
        for seed, source in programs:
            faulthandler.dump_traceback_later(seconds, exit=True)
            file.write(json.dumps({"start": seed}) + "\n")
            file.flush()
            end = run_one(source, surroundings)
            lines = current.lines
            if FREE_THREADED:
                lines = sorted(line for line in lines if not line.startswith(("del", "collected")))
            file.write(json.dumps({"seed": seed, "end": end, "trace": lines,
                                   **surroundings.result(seed, source)}) + "\n")
            file.flush()
        faulthandler.cancel_dump_traceback_later()


def main():
    batch, results, seconds = sys.argv[1:]
    prepare()
    run_batch(batch, results, float(seconds), Surroundings())


if __name__ == "__main__":
    main()
