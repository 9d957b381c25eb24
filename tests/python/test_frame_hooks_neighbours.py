"""Frame hooks beside what else looks at frames: loggers, tracers, debuggers, samplers, functions of C.

While a frame is offered nobody can see it, whatever comes of the hook's answer; and it is offered once. Each thing is
tried with several kinds of functions and of hooks, and in the surroundings of hook_variants.py.
"""

import _thread
import contextlib
import gc
import inspect
import logging
import re
import sys
import tempfile
import threading
import traceback
import types
import unittest
import warnings
import weakref

from hook_variants import (ALL, BODY_LINE, EVERYWHERE, FACES, FUNCTIONS, HERE, KINDS, TWO, Kind, Plainly,
                           VariantTestCase, extension, finish, in_a_child, installed)
from support import PythonFace, code_of, framecore, needs_hooks, recursion_limit

FREE_THREADED = not getattr(sys, "_is_gil_enabled", lambda: True)()
MANY = " = ".join(f"v{i}" for i in range(40)) + " = None"


def calls_offered(function, *arguments):
    """The caller of what is offered: whoever looks must find it."""
    return function(*arguments)


# The files and modules by which some ways of looking tell frames.
NAMES = {"<offered>": "offered", "offered_module": "offered", __file__: "calls_offered", __name__: "calls_offered"}


def names_back(frame):
    names = []
    while frame is not None:
        names.append(frame.f_code.co_name)
        frame = frame.f_back
    return names


def until_none(function):
    """What it says of 0, 1, 2 and so on, until it says None."""
    found = []
    while (one := function(len(found))) is not None:
        found.append(one)
    return found


# --- Ways of looking. ----------------------------------------------------------------------------------------------
# Each is a context manager, entered before the call. It gives a function, which the hook calls: it returns the names
# of the functions whose frames there are.

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
    # Frames of earlier calls may be there for ever: without the GIL CPython 3.13 makes code immortal, and what it holds.
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
        return [record.funcName for record in records.records] + re.findall(r", in (\S+)$", text, re.MULTILINE)

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
    """What another thread finds out about this one, which runs no Python function meanwhile.

    Without the GIL CPython itself crashes where a thread walks frames that another one is leaving.
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
        len(names)      # an event for profilers
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
    import tracemalloc      # not every interpreter can
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
ANSWERS = ("None", "settled", "other code", "an exception")


class Refused(Exception):
    pass


class Call:
    """A call of a function that is offered: what it returned, and how often the hook was asked."""

    def __init__(self, face, kind, answer, act=lambda view: None):
        self.face, self.answer, self.act = face, answer, act
        self.offered = kind.make("{give} ['original', a]")
        self.stand_in = code_of(kind.make(f"{MANY}\n{{give}} ['replaced', a]", name="stand_in"))
        self.asked = 0

    def hook(self, view):
        if view.code is not self.offered.__code__:
            return None
        self.asked += 1
        self.act(view)
        if self.answer == "an exception":
            raise Refused
        return {"other code": self.stand_in, "settled": self.face.SETTLED}.get(self.answer)

    def run(self, argument=None):
        try:
            return finish(calls_offered(self.offered, argument))
        except Refused:
            return Refused

    def expected(self, argument=None):
        return {"other code": ["replaced", argument], "an exception": Refused}.get(self.answer, ["original", argument])


@needs_hooks
class Looking(VariantTestCase):
    def look(self, face, kind, way, answer):
        seen = []
        call = Call(face, kind, answer, lambda view: seen.extend(look()))
        with WAYS[way]() as look, installed(face, call.hook):
            result = call.run()
        self.assertEqual((result, call.asked), (call.expected(), 1))
        self.assertIn("calls_offered", seen)
        self.assertNotIn("offered", seen)

    def test_no_way_of_looking_finds_a_frame_that_is_offered(self):
        for way in WAYS:
            for answer in ANSWERS:
                self.in_every_variant(self.look, way, answer, kinds=TWO, surroundings=HERE)

    def test_each_kind_of_function_is_hidden_while_it_is_offered(self):
        self.in_every_variant(self.look, "sys._getframe at each depth", "other code")
        self.in_every_variant(self.look, "f_back", "None")

    def test_each_way_of_looking_finds_a_frame_that_runs(self):
        for way, prepare in WAYS.items():
            with self.subTest(way), prepare() as look:
                def offered():
                    return look()
                offered = types.FunctionType(
                    offered.__code__.replace(co_filename="<offered>"), {"__name__": "offered_module"},
                    closure=offered.__closure__)
                seen = calls_offered(offered)
                self.assertIn("calls_offered", seen)
                self.assertIn("offered", seen)

    def caller_is_next(self, face, kind):
        """The frame behind the hook's own is the caller's, at each level that tools count."""
        logger, records = logging.Logger("a logger of a test"), Records()
        logger.addHandler(records)
        seen = []

        def look(view):
            seen.append(sys._getframe(2).f_code.co_name)
            seen.append(sys._getframe(1).f_back.f_code.co_name)
            seen.append(inspect.currentframe().f_back.f_back.f_code.co_name)
            seen.append(sys._getframemodulename(2))
            logger.warning("a message", stacklevel=3)
            seen.append(records.records[0].funcName)

        call = Call(face, kind, "other code", look)
        with installed(face, call.hook):
            call.run()
        self.assertEqual(seen, ["calls_offered"] * 3 + [calls_offered.__module__, "calls_offered"])

    def test_the_frame_behind_the_hook_is_the_callers(self):
        self.in_every_variant(self.caller_is_next)

    def kept_frames(self, face, kind, answer):
        """What a hook has kept of the frames around it is whole when all these calls are over."""
        kept = []

        def keep(view):
            for depth in range(6):
                frame = sys._getframe(depth)
                kept.append((frame, frame.f_code, frame.f_back, set(frame.f_locals)))

        def deeper(n):
            return deeper(n - 1) if n else call.run(n)

        def overwrite(n):
            return n and overwrite(n - 1)

        call = Call(face, kind, answer, keep)
        with installed(face, call.hook):
            self.assertEqual(deeper(20), call.expected(0))
        overwrite(60)
        self.assertEqual(len(kept), 6)
        for frame, code, back, locals_ in kept:
            self.assertIs(frame.f_code, code)
            self.assertIs(frame.f_back, back)
            self.assertLessEqual(locals_, set(frame.f_locals))
            self.assertNotIn(code.co_name, ("offered", "stand_in"))
            self.assertGreaterEqual(frame.f_lineno, code.co_firstlineno)

    @in_a_child
    def test_frames_that_a_hook_keeps_stay_whole_when_the_call_is_replaced(self):
        self.in_every_variant(self.kept_frames, "other code")
        # What the collector finds is whole, too.
        gc.collect()

    @in_a_child
    def test_frames_that_a_hook_keeps_stay_whole_when_the_call_goes_on_or_fails(self):
        for answer in ("None", "an exception"):
            self.in_every_variant(self.kept_frames, answer, kinds=TWO)

    def leaks(self, face, kind, way, answer):
        calls, warm = 300, 30
        with WAYS[way]() as look:
            call = Call(face, kind, answer, lambda view: look())
            with installed(face, call.hook):
                counted = [call.offered, call.offered.__code__, call.stand_in, calls_offered.__code__]
                for _ in range(warm):
                    call.run(counted)
                gc.collect()
                before = [sys.getallocatedblocks(), *map(sys.getrefcount, counted)]
                for _ in range(calls):
                    call.run(counted)
                gc.collect()
                grown = [now - then for then, now in zip(before, [sys.getallocatedblocks(),
                                                                  *map(sys.getrefcount, counted)])]
        self.assertEqual(grown[1:], [0] * len(counted))
        if not FREE_THREADED:       # 3.13t has no allocator that counts blocks
            self.assertLess(grown[0], calls // 4)

    # These keep what they saw, or measure memory themselves; the collector is slow, and leaves nothing.
    KEEPING = ("logging", "warnings", "sys.settrace", "sys.setprofile", "sys.monitoring", "tracemalloc",
               "the collector", "inspect.stack", "traceback.extract_stack")

    def test_looking_leaks_nothing_whatever_the_answer(self):
        for way in WAYS.keys() - set(self.KEEPING):
            for answer in ANSWERS:
                self.in_every_variant(self.leaks, way, answer, kinds=TWO, faces=("Python",), surroundings=HERE)

    def logs_and_warns(self, face, kind):
        """The same for what programs do in a hook: they log with a stack, and they warn."""
        logger = logging.Logger("a logger of a test")
        logger.addHandler(logging.NullHandler())

        def look(view):
            logger.warning("a message", stacklevel=2, stack_info=True)
            warnings.warn("a message", stacklevel=3)
            inspect.stack(0)
            traceback.extract_stack()

        call = Call(face, kind, "other code", look)
        with warnings.catch_warnings(), installed(face, call.hook):
            warnings.simplefilter("ignore")
            for _ in range(20):
                call.run()
            gc.collect()
            before = sys.getallocatedblocks(), sys.getrefcount(call.offered.__code__)
            for _ in range(200):
                call.run()
            gc.collect()
            after = sys.getallocatedblocks(), sys.getrefcount(call.offered.__code__)
        self.assertEqual(after[1], before[1])
        if not FREE_THREADED:
            self.assertLess(after[0] - before[0], 50)

    def test_a_hook_that_logs_and_warns_leaks_nothing(self):
        self.in_every_variant(self.logs_and_warns, kinds=TWO, surroundings=HERE)

    def dumps(self, face, kind, answer):
        import faulthandler     # not every interpreter can

        def dump(view):
            faulthandler.dump_traceback(file)

        call = Call(face, kind, answer, dump)
        with tempfile.TemporaryFile("w+") as file:
            with installed(face, call.hook):
                self.assertEqual(call.run(), call.expected())
            file.seek(0)
            self.assertIn("in calls_offered", file.read())

    @in_a_child
    def test_faulthandler_gets_past_a_frame_that_is_offered(self):
        for answer in ANSWERS:
            self.in_every_variant(self.dumps, answer, surroundings=HERE)

    def samples(self, face, kind):
        """Another thread takes all frames, whenever the hook waits for it and whenever else it gets to."""
        turn, answered, ends = threading.Semaphore(0), threading.Semaphore(0), threading.Event()
        call = Call(face, kind, "other code", lambda view: (turn.release(), answered.acquire(timeout=60)))
        here, found, kept, calls = threading.get_ident(), set(), [], 50

        def sample():
            while not ends.is_set():
                waits = turn.acquire(timeout=0.0002)
                frame = sys._current_frames()[here]
                kept[:] = kept[-50:] + [frame]
                found.update(names_back(frame))
                if waits:
                    answered.release()

        thread = threading.Thread(target=sample)
        thread.start()
        try:
            with installed(face, call.hook):
                for _ in range(calls):
                    self.assertEqual(call.run(), call.expected())
        finally:
            ends.set()
            thread.join()
        self.assertEqual(call.asked, calls)
        self.assertIn("calls_offered", found)
        self.assertNotIn("offered", found)
        for frame in kept:
            # Where a frame is not whole, this crashes.
            dict(frame.f_locals)
            self.assertIn(frame.f_code.co_name, found)

    @in_a_child
    def test_a_sampling_thread_never_finds_a_frame_that_was_replaced(self):
        self.in_every_variant(self.samples, kinds=TWO, surroundings=HERE)

    def runs_as_ever(self, face, kind):
        """Once it runs, the frame is seen where it belongs, and has one object."""
        frames = []

        def note():
            frames.append(sys._getframe(1))
            return names_back(sys._getframe(1))

        call = Call(face, kind, "None", lambda view: sys._getframe(1).f_back)
        call.offered = kind.make("names = note()\n{give} names, note()", note=note)
        with installed(face, call.hook):
            first, second = call.run()
        self.assertEqual((call.asked, first[0], first), (1, "offered", second))
        self.assertIs(frames[0], frames[1])
        self.assertEqual(frames[0].f_locals["a"], None)

    def test_a_frame_is_seen_from_its_first_instruction_on(self):
        self.in_every_variant(self.runs_as_ever)


@needs_hooks
class LookingInC(VariantTestCase):
    def look(self, face, kind, answer):
        call = Call(face, kind, answer)
        found = []
        stand_in = call.stand_in if answer == "other code" else None
        handle = extension("neighbourhooks").add_looker(call.offered.__code__, stand_in, found)
        try:
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                result = call.run("argument")
        finally:
            face.remove(handle)
        self.assertEqual(result, call.expected("argument"))
        current, same, back, globals_, locals_ = found
        self.assertIs(current.f_code, calls_offered.__code__)
        self.assertIs(same, current)
        self.assertIs(back, current.f_back)
        self.assertIs(globals_, calls_offered.__globals__)
        self.assertEqual(locals_, {"function": call.offered, "arguments": ("argument",)})
        self.assertEqual([warning.filename for warning in caught], [__file__])
        # The frame object of the caller is in order after all this.
        self.assertIs(current.f_locals["function"], call.offered)

    @in_a_child
    def test_functions_of_c_find_the_caller_while_a_frame_is_offered(self):
        for answer in ("None", "other code"):
            self.in_every_variant(self.look, answer, faces=("C",))
            self.in_every_variant(self.look, answer, faces=("Python",), surroundings=EVERYWHERE[-1:])


# --- A debugger's jump. --------------------------------------------------------------------------------------------

class Jump:
    """A tracer that jumps from a line of a function to its def line, as often as it is told; and what it saw.

    Functions only: CPython itself crashes where a generator jumps to its def line.
    """

    def __init__(self, code, line, times=1, act=lambda frame: None):
        self.code, self.line, self.left, self.act = code, line + BODY_LINE, times, act
        self.events, self.frame = [], None

    def trace(self, frame, event, argument):
        if frame.f_code is not self.code:
            return None
        line = frame.f_lineno - self.code.co_firstlineno
        self.events.append((event, line))
        if event == "line" and line == self.line and self.left:
            self.left -= 1
            self.frame = frame
            self.act(frame)
            frame.f_lineno = self.code.co_firstlineno
        return self.trace

    def run(self, function, *arguments):
        with warnings.catch_warnings():
            # "assigning None to 1 unbound local"
            warnings.simplefilter("ignore", RuntimeWarning)
            sys.settrace(self.trace)
            try:
                return function(*arguments)
            except UnboundLocalError as error:
                return repr(error)      # of an argument that was deleted before the jump
            finally:
                sys.settrace(None)
                if self.frame is not None:
                    # Else there is a cycle, and the frame lives until it is collected.
                    self.frame.f_trace = None


class Counted:
    alive = 0

    def __init__(self):
        Counted.alive += 1

    def __del__(self):
        Counted.alive -= 1


def called():
    return "called"


@needs_hooks
class Jumping(VariantTestCase):
    JUMPS = 3

    def jump(self, face, kind, body, line, answer):
        """With a hook that answers badly from the second time on, all is as it is without one."""
        log = []
        names = {"log": log, "Counted": Counted, "called": called}
        function = kind.make(body, **names)
        stand_in = code_of(kind.make(f"{MANY}\n{{give}} 'replaced', a", name="stand_in", **names))
        asked = []

        def hook(view):
            if view.code is not function.__code__:
                return None
            asked.append(view.argument(0))
            if len(asked) == 1:
                return None
            if answer == "read":
                view.arguments()
                return None
            if answer == "an exception":
                raise Refused
            return stand_in

        def run():
            del log[:]
            jump = Jump(function.__code__, line, self.JUMPS)
            result = jump.run(function, "argument")
            self.assertLess(jump.left, self.JUMPS)
            seen = (result, jump.left), jump.events, log[:], {name: str(value) for name, value in jump.frame.f_locals.items()}
            return jump.frame, seen

        Counted.alive = 0
        expected = run()[1]
        gc.collect()        # frames and tracers may form circles
        self.assertEqual(Counted.alive, 0)
        with installed(face, hook):
            frame, seen = run()
        self.assertEqual(asked, ["argument"])
        self.assertEqual(seen[:3], expected[:3])
        self.assertEqual(seen[3].keys(), expected[3].keys())
        self.assertIs(frame.f_code, function.__code__)
        del frame
        gc.collect()
        self.assertEqual(Counted.alive, 0)

    def jump_in_every_variant(self, body, line):
        for answer in ("other code", "an exception", "read"):
            self.in_every_variant(self.jump, body, line, answer, kinds=FUNCTIONS)

    @in_a_child
    def test_a_jump_to_the_def_line_does_not_offer_the_frame_again(self):
        self.jump_in_every_variant("x = ['kept']\ny = 2\n{give} a, x", 1)

    @in_a_child
    def test_a_frame_that_has_made_calls_is_not_offered_again_after_a_jump(self):
        self.jump_in_every_variant("x = called()\ny = called()\n{give} a, x, called()", 1)

    @in_a_child
    def test_locals_die_when_they_would_after_a_jump_to_the_def_line(self):
        self.jump_in_every_variant("x = Counted()\ny = Counted()\nz = 2\n{give} a, x is y", 2)

    @in_a_child
    def test_a_finally_block_runs_after_a_jump_to_the_def_line(self):
        self.jump_in_every_variant("try:\n    log.append('try')\nfinally:\n    log.append('finally')\n"
                                   "{give} a", 3)

    @in_a_child
    def test_an_argument_that_was_deleted_is_not_read_after_a_jump_to_the_def_line(self):
        # CPython sets it to None, but for one in a cell.
        self.jump_in_every_variant("log.append(a)\nif not log[1:]:\n    del a\nx = 2\n{give} x", 3)

    def jump_in_a_stand_in(self, face, kind):
        function = kind.make("{give} 'original', a")
        stand_in = code_of(kind.make("x = 1\ny = 2\n{give} 'replaced', a, x", name="stand_in"))
        asked = []

        def hook(view):
            for code in (function.__code__, stand_in):
                if view.code is code:
                    asked.append(code.co_name)
                    return stand_in if code is function.__code__ else function.__code__

        jump = Jump(stand_in, 1, self.JUMPS)
        with installed(face, hook):
            self.assertEqual(jump.run(function, "argument"), ("replaced", "argument", 1))
        self.assertEqual((asked, jump.left), (["offered"], 0))

    @in_a_child
    def test_a_jump_in_a_replacement_does_not_offer_it(self):
        self.in_every_variant(self.jump_in_a_stand_in, kinds=FUNCTIONS)

    def jump_before_the_hook_came(self, face, kind):
        function = kind.make("x = 1\ny = 2\n{give} a, x")
        stand_in = code_of(kind.make("{give} 'replaced', a", name="stand_in"))
        asked, handles = [], []

        def hook(view):
            if view.code is function.__code__:
                asked.append(1)
                return stand_in

        jump = Jump(function.__code__, 1, act=lambda frame: handles.append(face.add(hook)))
        try:
            self.assertEqual(jump.run(function, "argument"), ("argument", 1))
        finally:
            face.remove(*handles)
        self.assertEqual((asked, jump.left), ([], 0))

    @in_a_child
    def test_a_frame_that_began_before_the_hook_came_is_not_offered_by_a_jump(self):
        self.in_every_variant(self.jump_before_the_hook_came, kinds=FUNCTIONS)


# --- Views. --------------------------------------------------------------------------------------------------------

USES = {
    "code": lambda view: view.code,
    "function": lambda view: view.function,
    "globals": lambda view: view.globals,
    "builtins": lambda view: view.builtins,
    "argument_names": lambda view: view.argument_names,
    "arguments": lambda view: view.arguments(),
    "argument by index": lambda view: view.argument(0),
    "argument by name": lambda view: view.argument("a"),
}


class Index:
    """An index that does something when it is asked for its number."""

    def __init__(self, act):
        self.act = act

    def __index__(self):
        self.act()
        return 0


@needs_hooks
class Views(VariantTestCase):
    def asks(self, kind, act):
        """Call a function; what act(view) returned in the hook."""
        answers = []
        call = Call(PythonFace(), kind, "None", lambda view: answers.append(act(view)))
        with installed(call.face, call.hook):
            self.assertEqual(call.run("secret"), ["original", "secret"])
        return answers[0]

    def outlived_in_another_thread(self, face, kind):
        converting, goes_on, outcomes = threading.Event(), threading.Event(), []

        def wait():
            converting.set()
            goes_on.wait(60)

        def read(view):
            try:
                outcomes.append(view.argument(Index(wait)))
            except RuntimeError:
                outcomes.append(RuntimeError)

        def start(view):
            thread = threading.Thread(target=read, args=(view,))
            thread.start()
            converting.wait(60)
            return thread

        def another_frame(secret):
            goes_on.set()
            thread.join()

        thread = self.asks(kind, start)
        another_frame("of another frame")
        self.assertEqual(outcomes, [RuntimeError])

    def test_a_view_that_expires_while_a_key_is_converted_is_not_read(self):
        self.in_every_variant(self.outlived_in_another_thread, faces=("Python",))

    def used_in_another_thread(self, face, kind):
        def use(view):
            def in_thread(ident):
                found = {}
                for name, use in USES.items():
                    try:
                        found[name] = use(view)
                    except RuntimeError:
                        pass
                return found
            # The thread that was given it reads it before and after.
            return view.argument(0), in_another_thread(in_thread), view.argument(0)

        self.assertEqual(self.asks(kind, use), ("secret", {}, "secret"))

    def test_a_view_serves_only_the_thread_that_was_given_it(self):
        self.in_every_variant(self.used_in_another_thread, faces=("Python",))

    def converted_while_valid(self, face, kind):
        ran = []
        self.assertEqual(self.asks(kind, lambda view: view.argument(Index(lambda: ran.append(called())))), "secret")
        self.assertEqual(ran, ["called"])

    def test_a_key_may_run_python_while_the_view_is_valid(self):
        self.in_every_variant(self.converted_while_valid, faces=("Python",))

    def hook_removed_by_a_key(self, face, kind):
        answers = []

        def hook(view):
            if view.code is offered.__code__:
                answers.append((view.argument(Index(framecore.clear_frame_hooks)), view.argument("a"), view.code))

        offered = kind.make("{give} a")
        face.add(hook)
        self.assertEqual(finish(offered("secret")), "secret")
        self.assertEqual(answers, [("secret", "secret", offered.__code__)])

    def test_a_view_is_valid_until_its_hook_returns_though_the_hook_was_removed(self):
        self.in_every_variant(self.hook_removed_by_a_key, faces=("Python",))

    def test_a_key_that_fails_is_no_reading(self):
        def fail():
            raise Refused

        def read(view):
            with self.assertRaises(Refused):
                view.argument(Index(fail))
            return view.argument(0)

        self.assertEqual(self.asks(KINDS["function, plain"], read), "secret")


# --- Arguments that are not where they were. -----------------------------------------------------------------------

class Secret:
    pass


def empty_cells(secret):
    """Empty each cell with this in it; how many there were."""
    cells = [thing for thing in gc.get_referrers(secret) if type(thing) is types.CellType]
    for cell in cells:
        del cell.cell_contents
    return len(cells)


WITH_CELLS = tuple(name for name in ALL if KINDS[name].has_cell)


@needs_hooks
class EmptiedCells(VariantTestCase):
    def setUp(self):
        super().setUp()
        # So that the collector looks at few objects.
        gc.freeze()
        self.addCleanup(gc.unfreeze)

    def empty_and(self, face, kind, act, answer=None):
        """Call a function whose argument a hook takes out of its cell; (cells, what act returned, the result)."""
        secrets = [Secret()]
        reference = weakref.ref(secrets[0])
        offered = kind.make("{give} [a, b]", parameters="a, b")
        stand_in = code_of(kind.make("{give} ['replaced', a, b]", name="stand_in", parameters="a, b"))
        other = Secret()
        count = sys.getrefcount(other)
        found = []

        def hook(view):
            if view.code is offered.__code__:
                found.append(empty_cells(secrets[0]))
                found.append(act(view))
                return stand_in if answer else None

        with installed(face, hook):
            try:
                # No reference of the caller's keeps the argument alive.
                result = finish(offered(secrets[0], other))
            except NameError as error:
                result = type(error)
        if result is UnboundLocalError:
            del secrets[:]
            self.assertIsNone(reference())
            if found[1] is None:
                self.assertEqual(sys.getrefcount(other), count)
        return *found, result

    def read(self, face, kind):
        def act(view):
            outcomes = []
            for key in (0, "a", 1):
                try:
                    outcomes.append(view.argument(key))
                except UnboundLocalError:
                    outcomes.append(UnboundLocalError)
            return outcomes

        cells, outcomes, result = self.empty_and(face, kind, act)
        if cells:
            self.assertEqual(outcomes[:2], [UnboundLocalError] * 2)
            self.assertIs(result, UnboundLocalError)
        else:
            self.assertEqual(list(map(type, outcomes[:2])), [Secret] * 2)
        self.assertIsInstance(outcomes[2], Secret)
        return cells

    def test_reading_an_argument_whose_cell_is_empty_raises_unbound_local_error(self):
        self.in_every_variant(self.read, kinds=WITH_CELLS)

    def test_there_is_a_cell_to_empty_while_a_frame_is_offered(self):
        for kind in WITH_CELLS:
            with self.subTest(kind):
                self.assertEqual(self.read(PythonFace(), KINDS[kind]), 1)

    def read_all(self, face, kind):
        cells, arguments, _ = self.empty_and(face, kind, lambda view: (view.argument_names, view.arguments()))
        self.assertEqual(arguments[0], ("a", "b"))
        self.assertEqual(list(arguments[1]), ["b"] if cells else ["a", "b"])

    def test_arguments_leaves_out_one_whose_cell_is_empty(self):
        self.in_every_variant(self.read_all, kinds=WITH_CELLS, faces=("Python",))

    def replace(self, face, kind):
        cells, _, result = self.empty_and(face, kind, lambda view: None, "replace")
        if cells:
            self.assertIs(result, UnboundLocalError)
        else:
            self.assertEqual(result[0], "replaced")

    @in_a_child
    def test_replacing_where_an_arguments_cell_is_empty_raises_unbound_local_error(self):
        self.in_every_variant(self.replace, kinds=WITH_CELLS)


def changed(function, **changes):
    function.__code__ = function.__code__.replace(**changes)
    return function


@needs_hooks
class OddParameters(VariantTestCase):
    """Code that code.replace() makes and no compiler."""

    def two_of_one_name(self, face, kind, odd):
        offered = kind.make("{give} a", parameters="a, b")
        stand_in = kind.make("{give} b", name="stand_in", parameters="a, b")
        changed(offered if odd == "original" else stand_in,
                co_varnames=("a", "a", *offered.__code__.co_varnames[2:]))
        arguments = Secret(), Secret()
        expected = finish(offered(*arguments))
        before = list(map(sys.getrefcount, arguments))
        with installed(face, self.replacer((offered, stand_in))):
            for _ in range(20):
                with self.assertRaises(framecore.IncompatibleCodeError):
                    offered(*arguments)
        self.assertEqual(list(map(sys.getrefcount, arguments)), before)
        self.assertIs(finish(offered(*arguments)), expected)

    NO_CELL = tuple(name for name in ALL if not KINDS[name].has_cell)

    @in_a_child
    def test_two_parameters_of_one_name_cannot_be_mapped(self):
        for odd in ("original", "replacement"):
            self.in_every_variant(self.two_of_one_name, odd, kinds=self.NO_CELL)

    def cell_that_is_not_made(self, face, kind, odd, what):
        """A parameter in co_cellvars without MAKE_CELL, of the original or of the replacement: it is no cell."""
        offered, stand_in = kind.make("{give} a"), kind.make("{give} ['replaced', a]", name="stand_in")
        changed(offered if odd == "original" else stand_in, co_cellvars=("a",))
        if odd == "replacement":
            # What stock makes of it.
            self.assertEqual(finish(stand_in("argument")), ["replaced", "argument"])
        expected = finish(offered("argument")) if what == "read" else ["replaced", "argument"]
        read = []

        def hook(view):
            if view.code is offered.__code__:
                read.append((view.argument_names, view.argument(0), view.argument("a"), view.arguments()))
                return stand_in.__code__ if what == "replace" else None

        argument = Secret()
        count = sys.getrefcount(argument)
        with installed(face, hook):
            self.assertEqual(finish(offered("argument")), expected)
            finish(offered(argument))
        self.assertEqual(read[0], (("a",), "argument", "argument", {"a": "argument"}))
        del read[:]
        self.assertEqual(sys.getrefcount(argument), count)

    @in_a_child
    def test_a_parameter_that_is_a_cell_by_name_only_is_read_like_any_other(self):
        self.in_every_variant(self.cell_that_is_not_made, "original", "read", kinds=self.NO_CELL)

    @in_a_child
    def test_a_parameter_that_is_a_cell_by_name_only_is_handed_over_like_any_other(self):
        for odd in ("original", "replacement"):
            self.in_every_variant(self.cell_that_is_not_made, odd, "replace", kinds=self.NO_CELL)


# --- A hook that changes the function. -----------------------------------------------------------------------------

@needs_hooks
class ChangedFunctions(VariantTestCase):
    """A hook assigns function.__code__: the next call has other code, and this one goes on with its own."""

    def assign(self, face, kind, other_style, replaces):
        offered = kind.make("{give} ['original', a]")
        code = offered.__code__
        other = Kind(other_style, kind.layout).make("{give} ['other', a]", name="other").__code__
        stand_in = code_of(kind.make("{give} ['replaced', a]", name="stand_in"))

        def hook(view):
            if view.code is code:
                view.function.__code__ = other
                return stand_in if replaces else None

        made = offered(0)
        expected_type = type(made)
        finish(made)
        with warnings.catch_warnings():
            # Of assigning code of another kind.
            warnings.simplefilter("ignore", DeprecationWarning)
            with installed(face, hook):
                made = offered(1)
            self.assertIs(type(made), expected_type)
            self.assertIs(offered.__code__, other)
            if kind.style != "function":
                self.assertEqual((made.__name__, made.__qualname__), (offered.__name__, offered.__qualname__))
            self.assertEqual(finish(made), ["replaced" if replaces else "original", 1])
            self.assertEqual(finish(offered(2)), ["other", 2])

    def test_the_call_goes_on_with_the_code_of_its_frame_as_its_own_kind(self):
        for other in ("function", "generator", "coroutine", "asynchronous generator"):
            self.in_every_variant(self.assign, other, False, kinds=tuple(KINDS))

    def test_a_replacement_is_of_the_kind_of_the_code_that_was_called(self):
        for other in ("function", "generator", "coroutine", "asynchronous generator"):
            self.in_every_variant(self.assign, other, True, kinds=tuple(KINDS))


# --- Others who change what a round has found. ---------------------------------------------------------------------

@needs_hooks
class Rounds(VariantTestCase):
    def added_by_a_destructor(self, face, kind, answer):
        offered, other = kind.make("{give} a"), kind.make("{give} a", name="other")
        codes = {"offered": offered.__code__, "other": other.__code__}
        asked, handles = [], []

        def second(view):
            asked.extend(name for name, code in codes.items() if view.code is code)

        class First:
            def __call__(self, view):
                if view.code is offered.__code__:
                    face.remove(handles.pop())
                    return face.SETTLED if answer == "settled" else None

            def __del__(self):
                handles.append(face.add(second))

        for _ in range(4):
            finish(offered(1)), finish(other(1))
        handles.append(face.add(First()))
        finish(other(1))
        finish(offered(1))      # the first one leaves
        self.assertEqual(asked, [])
        for _ in range(3):
            finish(offered(1))
        finish(other(1))
        face.remove(handles.pop())
        self.assertEqual(asked, ["offered"] * 3 + ["other"])

    def test_a_hook_that_is_added_by_the_destructor_of_one_that_leaves_is_asked(self):
        # A simple hook's callable does not die with it.
        for answer in ("settled", "None"):
            self.in_every_variant(self.added_by_a_destructor, answer, faces=("Python", "C"))

    def evaluator_taken_away(self, face, kind, how):
        evaluators = extension("evaluators")
        seen = kind.make("{give} a", name="seen")

        def take_away():
            evaluators.set("null" if how != "another" else "pass")

        def hook(view):
            if view.code is seen.__code__:
                if how == "in another thread":
                    in_another_thread(lambda ident: take_away())
                else:
                    take_away()

        for call in (lambda: seen(1), lambda: next(map(seen, [1]))):
            for _ in range(20):
                finish(call())
            evaluators.take_count()
            evaluators.set("count")
            try:
                with installed(face, hook):
                    self.assertEqual(finish(call()), 1)
            finally:
                evaluators.set("null")
            self.assertEqual(evaluators.take_count(), 0)

    def test_an_evaluator_that_a_hook_takes_away_is_not_called_any_more(self):
        surroundings = tuple(around for around in EVERYWHERE if around.__name__ != "BesideAnEvaluator")
        for how in ("here", "in another thread", "another"):
            self.in_every_variant(self.evaluator_taken_away, how, surroundings=surroundings)


if __name__ == "__main__":
    unittest.main()
