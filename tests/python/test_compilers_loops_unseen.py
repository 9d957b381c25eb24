"""Loops that a hook watches: what reads instructions, and what traces and monitors, sees nothing of it."""

import dis
import marshal
import sys
import unittest

from loops_support import compilers, jumps, nested, total, watched
from support import needs_hooks


@needs_hooks
class Unseen(unittest.TestCase):
    """Whatever reads instructions sees the original ones."""

    def facts(self, code):
        other = marshal.loads(marshal.dumps(code))
        adaptive = [(i.offset, i.opname, i.oparg) for i in dis.get_instructions(code, adaptive=True)]
        jump = min(jumps(code))
        return (code.co_code, code._co_code_adaptive[2 * jump:2 * jump + 4], adaptive, hash(code), code == other, other == code,
                code.replace() == code, code.replace().co_code)

    def test_readers_of_instructions(self):
        for _ in range(1_000):
            nested(2)
        before = self.facts(nested.__code__)
        with watched(None, nested):
            self.assertIn(234, compilers.instructions(nested.__code__)[::2])
            self.assertEqual(self.facts(nested.__code__), before)
            nested(30)
            self.assertEqual(self.facts(nested.__code__), before)
        self.assertEqual(self.facts(nested.__code__), before)

    def events(self, function, names, local):
        """What a tool gets of a call."""
        events, found = sys.monitoring.events, []
        sys.monitoring.use_tool_id(3, "loops")
        try:
            wanted = 0
            for name in names:
                wanted |= getattr(events, name)
                sys.monitoring.register_callback(3, getattr(events, name), lambda code, *rest, name=name: code is function.__code__ and
                                                 found.append((name, *map(repr, rest))))
            if local:
                sys.monitoring.set_local_events(3, function.__code__, wanted)
            else:
                sys.monitoring.set_events(3, wanted)
            function(25)
            return found
        finally:
            sys.monitoring.set_events(3, 0)
            sys.monitoring.set_local_events(3, function.__code__, 0)
            for name in names:
                sys.monitoring.register_callback(3, getattr(events, name), None)
            sys.monitoring.free_tool_id(3)

    def test_monitoring(self):
        for names in (["JUMP"], ["LINE"], ["INSTRUCTION"], ["BRANCH"], ["PY_RETURN"], ["JUMP", "LINE", "INSTRUCTION"], ["RAISE"]):
            for local in (False, True) if names != ["RAISE"] else (False,):
                with self.subTest(names, local=local):
                    expected = self.events(nested, names, local)
                    before = compilers.looped()
                    with watched(None, nested):
                        self.assertEqual(self.events(nested, names, local), expected)
                        self.assertEqual(compilers.looped(), before)
                        nested(30)
                        self.assertEqual(compilers.looped() - before, 90)

    def test_tracing(self):
        def trace(function):
            found = []

            def tracer(frame, event, arg):
                if frame.f_code is function.__code__:
                    found.append((event, frame.f_lineno))
                return tracer
            sys.settrace(tracer)
            try:
                function(12)
            finally:
                sys.settrace(None)
            return found
        expected = trace(nested)
        before = compilers.looped()
        with watched(None, nested, turns=1):
            self.assertEqual(trace(nested), expected)
            self.assertEqual(compilers.looped(), before)
            nested(3)
            self.assertEqual(compilers.looped() - before, 3 + 3 * 2)

    def test_a_tracer_that_comes_while_a_callback_runs(self):
        found = []

        def tracer(frame, event, arg):
            if frame.f_code is total.__code__:
                found.append(event)
            return tracer

        def callback(hot):
            sys.settrace(tracer)
            sys._getframe(1).f_trace = tracer
        try:
            with watched(callback, total):
                self.assertEqual(total(30), 435)
        finally:
            sys.settrace(None)
        self.assertEqual(found[-1], "return")
        self.assertEqual(found.count("line"), 20 * 2 + 2)
