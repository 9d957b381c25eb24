"""A frame, and what its variables hold, lives as long as it does under pdb."""

import gc
import sys
import unittest

from debugger_support import DebuggerCase, LikePdbCase, at, run_python

# pdb puts an exception into a frame that its traceback leads to: when such a cycle is collected is
# chance.
TEXT = """
__import__("gc").disable()
class A:
    def __init__(self, name):
        self.name = name
    def __del__(self, too_late=__import__("sys").is_finalizing):
        too_late() or print("died", self.name)
        x = 1
def inner(n):
    a = A(n)
    if n:
        inner(n - 1)
    return n                # inner last
def fails():
    a = A("fails")
    raise KeyError(1)       # raises
def numbers():
    a = A("numbers")
    yield 1                 # yield 1
    yield 2                 # yield 2
def f():
    a = A("f")              # f first
    inner(1)                # calls inner
    return 1                # f last
def g():
    try:
        fails()             # calls fails
    except KeyError:
        b = A("caught")
    total = 0
    for n in numbers():     # for
        total += n          # add
    first = next(numbers()) # dropped
    return total            # g last
f()
print("after f")
g()
print("end")
"""

# What is typed; {name} is the number of a line. None ends in a destructor: where pdb quits there, it
# keeps the frames that it has quit.
SESSIONS = """
b {f last};c;s;s;s;s;s;s
b {f last};c;n;n;n;n
b {f last};c;r;n;n;n;n
b {f last};c;r;r;n;n
b {f last};c;s;c
b {calls inner};c;s;s;n;n;n;n;n;n;n;n;n;n;n;n
b {inner last};c;r;r;s;s;s;s
b {inner last};c;unt;unt;unt;unt;s;s
b {inner last};b {f first};c;s;c;s;c;s;s;s;s
b {raises};c;s;s;s;s;s;s;s;s;s;s
b {raises};c;n;n;n;n;n;n;n;n
b {raises};c;r;n;n;n;n
b {yield 1};c;s;s;n;n;n;n;n;n;n;n
b {g last};b {yield 1};c;c;s;n;c;s;s
b {calls fails};c;n;n;n;n;n;n;n;n;n;n;n;n
b {calls inner};c;u;n;n;n
b {inner last};c;u;u;n;n;n
b 7;c;r;c;s;s;c;n;n
b 7;b {f last};c;s;s;s;s;n;n;r;c;c
tbreak {f last};c;jump {calls inner};s;s;s;s;s;r;r;r;s;s;s
""".strip().splitlines()


class Sessions(LikePdbCase):
    def test_what_dies_when(self):
        program = self.program(TEXT)
        places = {name: program.line(name) for name in (
            "inner last", "raises", "yield 1", "yield 2", "f first", "calls inner", "f last",
            "calls fails", "g last")}
        for session in SESSIONS:
            typed = session.format_map(places).replace(";", "\n") + "\ncl 1\ncl 2\nc\nq\n"
            with self.subTest(session):
                self.assertIn("died", self.assert_like_pdb(program.path, typed))

    def test_under_breakpoint(self):
        # pdb keeps the frames that were running when it was called.
        program = self.program(TEXT.replace('a = A("f")', 'a = A("f"); breakpoint()'))
        typed = f"b {program.line('g last')}\nc\ns\ns\nc\nq\n"
        said = run_python([program.path], typed, PYTHONBREAKPOINT="ferrule_debugger.set_trace")
        self.assertIn("died f\nafter f\n", said)
        self.assertIn("died caught\nend\n", said)


class Held:
    """What says when it is given up."""

    def __init__(self, gone):
        self.gone = gone

    def __del__(self):
        self.gone.append(True)


class WithoutAPrompt(DebuggerCase):
    def setUp(self):
        super().setUp()
        self.source = self.program("""
            def work(held):
                x = 1               # first
                return x            # work last

            def run():
                work(Held(gone))    # call
                after = len(gone)   # after
                return after

            def numbers():
                yield 1             # yield

            def consume():
                generator = numbers()
                resume(generator, Held(gone))
                after = len(gone)
                return after

            def resume(generator, held):
                return next(generator)
        """)
        self.gone = []
        self.names = self.source.load(gone=self.gone, Held=Held)

    def test_a_step_without_a_breakpoint_at_its_line_and_then_on(self):
        # The line where it continues was reached before, and has no breakpoint.
        self.names["work"](None)
        done = self.debug(
            self.source, self.names["run"], at("first"), "continue", "step", "continue", "continue"
        )
        self.assertEqual(done.value, 1)
        self.gone.clear()

        def program():
            self.names["run"]()
            self.gone.clear()
            return self.names["run"]()

        done = self.debug(
            self.source, program, at("first"), "continue", "step", "continue", "step", "continue"
        )
        self.assertEqual([name for _, name in done.stops[1:]],
                         ["first", "work last", "first", "work last"])
        self.assertEqual(done.value, 1)

    def test_who_has_resumed_a_generator(self):
        done = self.debug(
            self.source, self.names["consume"], at("yield"), "continue", "step", "return"
        )
        self.assertEqual(done.stops[1:], [("line", "yield"), ("return", "yield")])
        self.assertEqual(done.value, 1)

    def test_a_frame_that_the_program_traces(self):
        def tracer(frame, event, argument):
            if frame.f_code is self.names["work"].__code__:
                frame.f_trace_lines = event != "line"
                return tracer
            return None

        def program():
            sys.settrace(tracer)
            try:
                return self.names["run"]()
            finally:
                sys.settrace(None)

        done = self.debug(
            self.source, program, at("work last"), "continue", "step", "step", "step"
        )
        self.assertEqual(done.value, 1)

    def test_in_a_thread(self):
        import threading

        values = []

        def program():
            thread = threading.Thread(target=lambda: values.append(self.names["run"]()))
            thread.start()
            thread.join()

        self.debug(self.source, program, at("work last"), "continue", "step", "step", "step")
        gc.collect()
        self.assertEqual(values, [1])


if __name__ == "__main__":
    unittest.main()
