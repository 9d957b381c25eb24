"""The hook with which CPython's suite is run that looks for frames (tests/hooked): programs must not notice it."""

import os
import subprocess
import sys
import sysconfig
import textwrap
import unittest

import support

HOOKED = os.path.join(support.ROOT, "tests", "hooked")


def run(hook, program):
    """What the program prints while that hook is installed."""
    extension = os.path.join(support.extension_directory(), "suitehooks" + sysconfig.get_config_var("EXT_SUFFIX"))
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)], text=True, stdout=subprocess.PIPE, check=True,
        env={**os.environ, "PYTHONPATH": HOOKED, "FERRULE_SUITE_HOOK": hook, "FERRULE_SUITE_EXTENSION": extension})
    return done.stdout


@support.needs_framecore
class ObservingHook(unittest.TestCase):
    def assertSameOutput(self, program):
        expected = run("copy", program)
        self.assertNotEqual(expected, "")
        self.assertEqual(run("observe", program), expected)

    def test_it_looks_while_a_frame_is_offered(self):
        program = """
            import sys
            events = set()
            sys.addaudithook(lambda event, arguments: events.add(event))
            for _ in range(64):
                exec("def called(): pass\\ncalled()")
            print(events >= {"sys._getframe", "sys._getframemodulename", "sys._current_frames"})
            """
        self.assertEqual(run("observe", program), "True\n")
        self.assertEqual(run("copy", program), "False\n")

    def test_its_modules_are_nobody_elses(self):
        self.assertSameOutput("import sys; print(sorted(sys.modules), sys.modules['os'].path.__name__)")

    def test_trace_functions_do_not_see_it(self):
        self.assertSameOutput("""
            import sys
            def trace(frame, event, argument):
                print(frame.f_code.co_name, event)
                return trace
            def called(n):
                return n and called(n - 1)
            sys.settrace(trace)
            called(40)
            sys.settrace(None)
            """)

    def test_its_warnings_meet_no_filter(self):
        self.assertSameOutput("""
            import warnings
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                for _ in range(64):
                    exec("def called(): pass\\ncalled()")
                warnings.warn("the program's own")
            print([str(warning.message) for warning in caught], "__warningregistry__" in globals())
            """)

    def test_a_frame_that_it_keeps_is_dropped_at_the_next_call(self):
        program = """
            import weakref
            class Thing: pass
            def _callTestMethod(method): return method()
            def later(): pass
            def method():
                thing = Thing()
                later()
                return weakref.ref(thing)
            seen = _callTestMethod(method)
            print(seen() is None)
            later()
            print(seen() is None)
            """
        self.assertEqual(run("observe", program), "False\nTrue\n")
        self.assertEqual(run("copy", program), "True\nTrue\n")

    def test_what_signal_handlers_raise_meanwhile_goes_on_to_the_program(self):
        program = """
            import signal, sys
            class Rung(Exception): pass
            def ring(*arguments): raise Rung
            signal.signal(signal.SIGUSR1, ring)
            sys.addaudithook(lambda event, arguments: event == "sys._getframe" and signal.raise_signal(signal.SIGUSR1))
            heard = False
            for _ in range(64):
                try:
                    exec("def called(): pass\\ncalled()")
                except Rung:
                    heard = True
            print(heard)
            """
        self.assertEqual(run("observe", program), "True\n")
        self.assertEqual(run("copy", program), "False\n")


if __name__ == "__main__":
    unittest.main()
