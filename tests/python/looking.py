"""Ways in which Python code finds frames, and calls for which a frame hook is called.

Each way in WAYS is a function without arguments. It returns a context manager, which is entered
before the call. That gives a function, which the hook calls. It returns the names of the functions
whose frames it finds.
"""

import _thread
import contextlib
import gc
import inspect
import logging
import re
import sys
import threading
import traceback
import types
import warnings

from hook_variants import finish
from support import code_of

MANY = " = ".join(f"v{i}" for i in range(40)) + " = None"


def called():
    return "called"


def calls_dispatched(function, *arguments):
    """Calls the function that is offered. Who looks for frames must find this one."""
    return function(*arguments)


# Some ways of looking distinguish frames by their files or modules. This has the functions of these.
NAMES = {"<offered>": "offered", "offered_module": "offered",
         __file__: "calls_dispatched", __name__: "calls_dispatched"}
CALLERS_FILE = __file__


def names_back(frame):
    names = []
    while frame is not None:
        names.append(frame.f_code.co_name)
        frame = frame.f_back
    return names


def until_none(function):
    """What the function returns for 0, 1, 2 and so on, up to the first None."""
    found = []
    while (one := function(len(found))) is not None:
        found.append(one)
    return found


# --- Ways of looking. -----------------------------------------------------------------------------

def simple(look):
    """A way that needs no preparation."""
    return lambda: contextlib.nullcontext(look)


def by_getframe():
    names = []
    with contextlib.suppress(ValueError):
        while True:
            names.append(sys._getframe(len(names)).f_code.co_name)
    return names


def by_traceback():
    try:
        raise KeyError
    except KeyError as error:
        return names_back(error.__traceback__.tb_frame)


def by_generator():
    return next(names_back(frame) for frame in [sys._getframe()])


def by_module_name():
    return [NAMES.get(name, name) for name in until_none(sys._getframemodulename)]


def frames_of_the_collector():
    return [thing for thing in gc.get_objects() if type(thing) is types.FrameType]


@contextlib.contextmanager
def by_collector():
    # Without the GIL CPython 3.13 makes code and its constants immortal. So frames of earlier calls
    # may live for ever.
    earlier = frames_of_the_collector()
    ids = set(map(id, earlier))

    def look():
        found = [frame for frame in frames_of_the_collector() if id(frame) not in ids]
        return [frame.f_code.co_name for frame in found] + names_back(sys._getframe())

    yield look


class Records(logging.Handler):
    def __init__(self):
        super().__init__()
        self.records = []

    def emit(self, record):
        self.records.append(record)


@contextlib.contextmanager
def by_logging():
    logger = logging.Logger("a logger of a test")
    records = Records()
    logger.addHandler(records)

    def look():
        for level in range(1, 9):
            logger.warning("a message", stacklevel=level, stack_info=True)
        text = "\n".join(record.stack_info for record in records.records)
        names = [record.funcName for record in records.records]
        return names + re.findall(r", in (\S+)$", text, re.MULTILINE)

    yield look


@contextlib.contextmanager
def by_warnings():
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")

        def look():
            for level in range(1, 9):
                warnings.warn("a message", stacklevel=level)
            return [NAMES.get(warning.filename, warning.filename) for warning in caught]

        yield look


def in_another_thread(ask):
    """What another thread finds out about this one, which waits meanwhile.

    It must run no Python function. Without the GIL CPython crashes when a thread walks frames that
    another thread is leaving.
    """
    here, answers = threading.get_ident(), []
    _thread.start_joinable_thread(lambda: answers.append(ask(here))).join()
    return answers[0]


def by_current_frames():
    return (names_back(sys._current_frames()[threading.get_ident()])
            + in_another_thread(lambda ident: names_back(sys._current_frames()[ident])))


def by_current_exceptions():
    try:
        raise KeyError
    except KeyError:
        error = in_another_thread(lambda ident: sys._current_exceptions()[ident])
        return names_back(error.__traceback__.tb_frame)


@contextlib.contextmanager
def by_tracer(install=sys.settrace):
    names = []

    def tracer(frame, event, argument):
        if "look" in (found := names_back(frame)):
            names.extend(found)
        return tracer

    def look():
        len(names)      # a call of a C function is an event for profilers
        return names

    install(tracer)
    try:
        yield look
    finally:
        install(None)


@contextlib.contextmanager
def by_monitoring():
    monitoring, tool, names = sys.monitoring, 4, []

    def called(*event):
        if "look" in (found := names_back(sys._getframe(1))):
            names.extend(found)

    def look():
        len(names)
        return names

    monitoring.use_tool_id(tool, "looks around")
    monitoring.register_callback(tool, monitoring.events.CALL, called)
    monitoring.set_events(tool, monitoring.events.CALL)
    try:
        yield look
    finally:
        monitoring.set_events(tool, 0)
        monitoring.register_callback(tool, monitoring.events.CALL, None)
        monitoring.free_tool_id(tool)


@contextlib.contextmanager
def by_tracemalloc():
    import tracemalloc  # cannot be imported in every interpreter
    tracemalloc.start(20)
    try:
        yield lambda: [NAMES.get(frame.filename, frame.filename) for frame in
                       tracemalloc.get_object_traceback(object())]
    finally:
        tracemalloc.stop()


WAYS = {
    "sys._getframe at each depth": simple(by_getframe),
    "f_back": simple(lambda: names_back(sys._getframe())),
    "f_back of a generator": simple(by_generator),
    "f_back of a traceback": simple(by_traceback),
    "sys._getframemodulename": simple(by_module_name),
    "inspect.currentframe": simple(lambda: names_back(inspect.currentframe())),
    "inspect.stack": simple(lambda: [info.function for info in inspect.stack(0)]),
    "traceback.extract_stack": simple(lambda: [entry.name for entry in traceback.extract_stack()]),
    "the collector": by_collector,
    "logging": by_logging,
    "warnings": by_warnings,
    "sys._current_frames": simple(by_current_frames),
    "sys._current_exceptions": simple(by_current_exceptions),
    "sys.settrace": by_tracer,
    "sys.setprofile": lambda: by_tracer(sys.setprofile),
    "sys.monitoring": by_monitoring,
    "tracemalloc": by_tracemalloc,
}


# --- Calls. ---------------------------------------------------------------------------------------

ANSWERS = ("None", "disabled_code", "other code", "an exception")


class Refused(Exception):
    pass


class Call:
    """A function, a hook that gives one answer about it, and how often the hook was called."""

    def __init__(self, api, kind, answer, act=lambda view: None):
        self.api, self.answer, self.act = api, answer, act
        self.offered = kind.make("{give} ['original', a]")
        self.stand_in = code_of(kind.make(f"{MANY}\n{{give}} ['replaced', a]", name="stand_in"))
        self.entries = 0

    def hook(self, view):
        if view.code is not self.offered.__code__:
            return None
        self.entries += 1
        self.act(view)
        if self.answer == "an exception":
            raise Refused
        return {"other code": self.stand_in, "disabled_code": self.api.DISABLE}.get(self.answer)

    def run(self, argument=None):
        try:
            return finish(calls_dispatched(self.offered, argument))
        except Refused:
            return Refused

    def expected(self, argument=None):
        results = {"other code": ["replaced", argument], "an exception": Refused}
        return results.get(self.answer, ["original", argument])
