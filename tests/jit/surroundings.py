"""What runs around generated programs: tools, signals, threads, failing allocations.

Each surrounding runs a program and returns its outcomes, and what a tool observed of it: both are the same with the compiler
and without it.
"""

import contextlib
import copy
import signal
import sys
import threading

NAME = "<program"
# In programs whose calls make functions.
MAKES_FUNCTIONS = ("def show", "BODY = ", " for g in ")


class Observed:
    """Counts what a tool reports about generated code."""

    def __init__(self):
        self.counts = {}

    def add(self, code, event, line=0):
        if code.co_filename.startswith(NAME):
            key = f"{code.co_name}:{event}:{line}"
            self.counts[key] = self.counts.get(key, 0) + 1


@contextlib.contextmanager
def tracer(observed):
    def trace(frame, event, argument):
        observed.add(frame.f_code, event, frame.f_lineno)
        return trace
    before = sys.gettrace()
    sys.settrace(trace)
    try:
        yield
    finally:
        sys.settrace(before)


@contextlib.contextmanager
def profiler(observed):
    before = sys.getprofile()
    # Not those of builtins: which of them are called is the compiler's business.
    sys.setprofile(lambda frame, event, argument: None if event.startswith("c_") else observed.add(frame.f_code, event))
    try:
        yield
    finally:
        sys.setprofile(before)


@contextlib.contextmanager
def monitoring(observed):
    tools, tool = sys.monitoring, 4
    tools.use_tool_id(tool, "fuzz")
    tools.register_callback(tool, tools.events.LINE, lambda code, line: observed.add(code, "line", line))
    tools.register_callback(tool, tools.events.PY_START, lambda code, offset: observed.add(code, "start", offset))
    tools.set_events(tool, tools.events.LINE | tools.events.PY_START)
    try:
        yield
    finally:
        tools.set_events(tool, 0)
        tools.free_tool_id(tool)


@contextlib.contextmanager
def hook(observed):
    import framehook
    # A tool that was removed a moment ago is still in use until its last frame returns.
    installed = framehook.add(lambda view: observed.add(view.code, "call"))
    try:
        yield
    finally:
        framehook.remove(installed)


@contextlib.contextmanager
def alarms(handler, seconds=0.0003):
    before = signal.signal(signal.SIGALRM, handler)
    signal.setitimer(signal.ITIMER_REAL, seconds, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def look(number, frame):
    """A signal handler that reads all variables of all frames."""
    while frame is not None:
        if frame.f_code.co_filename.startswith(NAME):
            dict(frame.f_locals)
        frame = frame.f_back


class Switch:
    """A signal handler that starts and stops a tracer."""

    def __init__(self):
        self.on = False

    def __call__(self, number, frame):
        self.on = not self.on
        sys.settrace(self.trace if self.on else None)

    def trace(self, frame, event, argument):
        return self.trace


def run_alone(program, before):
    return program.run(before), {}


def run_under(tool):
    def run(program, before):
        observed = Observed()
        with tool(observed):
            outcomes = program.run(before)
        return outcomes, observed.counts
    return run


def run_signals(program, before):
    with alarms(look):
        return program.run(before), {}


def run_switched(program, before):
    switch = Switch()
    try:
        with alarms(switch):
            return program.run(before), {}
    finally:
        sys.settrace(None)


def run_threads(program, before):
    """In three threads that take turns as often as they can: the first one's outcomes, and where another one's differ."""
    interval = sys.getswitchinterval()
    results = [None] * 3

    def work(index):
        results[index] = program.run(before)
    sys.setswitchinterval(1e-6)
    try:
        threads = [threading.Thread(target=work, args=(index,)) for index in range(len(results))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(interval)
    def differ(result):
        return any(a != b and not lacks_memory(a, b) for a, b in zip(result, results[0]))
    return results[0], {"threads that differ": sum(map(differ, results))}


def lacks_memory(*outcomes):
    """Whether one of them ended because other threads had the memory, which all together have less of than they try to take."""
    return any(outcome.startswith("MemoryError:") for outcome in outcomes)


def run_without_memory(program, before):
    """Each call once more for each of some allocations that fail: it raises MemoryError, or does what it always does."""
    import _testcapi
    # In as many frames as `run` takes: the recursion limit is met by the same call.
    outcomes, functions = (lambda: program.outcomes(before))()
    main, wrong = functions["main"], 0
    if "~" in program.text:
        # Of a bool it warns, and do_warn() of 3.13 releases NULL where memory fails.
        return outcomes, {}
    if any(text in program.text for text in MAKES_FUNCTIONS):
        # MAKE_FUNCTION of 3.13 is a segmentation fault where memory fails, on stock too.
        return outcomes, {}
    for arguments, expected in zip(program.calls, outcomes):
        for first in (1, 2, 3, 5, 8, 13):
            # Lists are changed.
            own, result, failed = copy.deepcopy(arguments), None, None
            _testcapi.set_nomemory(first, first + 2)
            try:
                result = main(*own)
            except Exception as error:
                failed = error
            finally:
                _testcapi.remove_mem_hooks()
            # Cleared first: it refers to this frame. Another exception that a `finally` raises has the MemoryError as its context.
            text = program.text_of(result, own) if failed is None else f"{type(failed).__name__}:"
            while failed is not None:
                text = "MemoryError:" if isinstance(failed, MemoryError) else text
                failed = failed.__context__
            wrong += not (text == "MemoryError:" or expected.startswith(text))
    return outcomes, {"wrong without memory": wrong}


SURROUNDINGS = {
    "nothing": run_alone, "tracer": run_under(tracer), "profiler": run_under(profiler), "monitoring": run_under(monitoring),
    "hook": run_under(hook), "signals": run_signals, "tracer on and off": run_switched, "threads": run_threads,
    "failing allocations": run_without_memory,
}
