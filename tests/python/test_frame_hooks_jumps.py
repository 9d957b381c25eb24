"""A debugger that jumps to the first line of a function does not have its frame offered again."""

import gc
import sys
import warnings

from hook_variants import BODY_LINE, FUNCTIONS, VariantTestCase, installed, varied
from looking import MANY, Refused, called
from support import code_of, in_a_child, needs_hooks


class Jump:
    """A tracer that jumps from one line of a function to its def line, a number of times.

    It writes down the events. It is for functions only: CPython crashes when a generator jumps to
    its def line.
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
            # The warning is "assigning None to 1 unbound local".
            warnings.simplefilter("ignore", RuntimeWarning)
            sys.settrace(self.trace)
            try:
                return function(*arguments)
            except UnboundLocalError as error:
                return repr(error)      # of an argument that was deleted before the jump
            finally:
                sys.settrace(None)
                if self.frame is not None:
                    # The tracer and its frame refer to each other.
                    self.frame.f_trace = None


class Counted:
    alive = 0

    def __init__(self):
        Counted.alive += 1

    def __del__(self):
        Counted.alive -= 1


@needs_hooks
class Jumping(VariantTestCase):
    JUMPS = 3

    def jump(self, api, kind, body, line, answer):
        """If the hook were called again, its answer would change what the call does."""
        log = []
        names = {"log": log, "Counted": Counted, "called": called}
        function = kind.make(body, **names)
        stand_in = code_of(kind.make(f"{MANY}\n{{give}} 'replaced', a", name="stand_in", **names))
        entries = []

        def hook(view):
            if view.code is not function.__code__:
                return None
            entries.append(view.argument(0))
            if len(entries) == 1:
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
            locals_ = {name: str(value) for name, value in jump.frame.f_locals.items()}
            return jump.frame, ((result, jump.left), jump.events, log[:], locals_)

        Counted.alive = 0
        expected = run()[1]
        gc.collect()        # frames and tracers may form circles
        self.assertEqual(Counted.alive, 0)
        with installed(api, hook):
            frame, seen = run()
        self.assertEqual(entries, ["argument"])
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
    def test_a_frame_that_has_made_calls_is_not_dispatched_again_after_a_jump(self):
        self.jump_in_every_variant("x = called()\ny = called()\n{give} a, x, called()", 1)

    @in_a_child
    def test_locals_die_when_they_would_after_a_jump_to_the_def_line(self):
        self.jump_in_every_variant("x = Counted()\ny = Counted()\nz = 2\n{give} a, x is y", 2)

    @in_a_child
    def test_a_finally_block_runs_after_a_jump_to_the_def_line(self):
        self.jump_in_every_variant("try:\n    log.append('try')\n"
                                   "finally:\n    log.append('finally')\n{give} a", 3)

    @in_a_child
    def test_an_argument_that_was_deleted_is_not_read_after_a_jump_to_the_def_line(self):
        # CPython sets it to None, unless it is in a cell.
        self.jump_in_every_variant("log.append(a)\nif not log[1:]:\n    del a\nx = 2\n{give} x", 3)

    @in_a_child
    @varied(kinds=FUNCTIONS)
    def test_a_jump_in_a_replacement_does_not_offer_it(self, api, kind):
        function = kind.make("{give} 'original', a")
        stand_in = code_of(kind.make("x = 1\ny = 2\n{give} 'replaced', a, x", name="stand_in"))
        entries = []

        def hook(view):
            for code in (function.__code__, stand_in):
                if view.code is code:
                    entries.append(code.co_name)
                    return stand_in if code is function.__code__ else function.__code__

        jump = Jump(stand_in, 1, self.JUMPS)
        with installed(api, hook):
            self.assertEqual(jump.run(function, "argument"), ("replaced", "argument", 1))
        self.assertEqual((entries, jump.left), (["offered"], 0))

    @in_a_child
    @varied(kinds=FUNCTIONS)
    def test_a_frame_that_began_before_the_hook_was_added_is_not_dispatched_by_a_jump(self, api, kind):
        function = kind.make("x = 1\ny = 2\n{give} a, x")
        stand_in = code_of(kind.make("{give} 'replaced', a", name="stand_in"))
        entries, handles = [], []

        def hook(view):
            if view.code is function.__code__:
                entries.append(1)
                return stand_in

        jump = Jump(function.__code__, 1, act=lambda frame: handles.append(api.add(hook)))
        try:
            self.assertEqual(jump.run(function, "argument"), ("argument", 1))
        finally:
            api.remove(*handles)
        self.assertEqual((entries, jump.left), ([], 0))
