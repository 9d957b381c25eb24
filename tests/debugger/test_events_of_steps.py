"""What next, until and return cost: how many events reach the debugger."""

import sys
import unittest
from unittest import mock

from debugger_support import DebuggerCase, Scripted, at, needs_hooks
from ferrule_debugger import at_events

TEXT = """
    def loop(n):
        total = 0
        for i in range(n):
            total += i              # body
            total ^= 1
        return total                # loop last

    def tree(n):
        if n < 2:                   # tree first
            return n
        return tree(n - 1) + tree(n - 2)    # deeper

    def walk(n):
        if not n:
            return 1
        found = sum(map(walk, [n - 1] * 3))     # three
        return found                # walk last

    def falls(n):
        if not n:
            raise ValueError(n)
        try:
            falls(n - 1)            # falls
        except ValueError:
            done = n                # fallen
            raise

    def many(n, called=True):
        if called:
            for i in range(n): many(n, False)    # all
            return n                # many last
        return 0
"""


@unittest.skipUnless(getattr(sys, "_is_gil_enabled", lambda: True)(), "without the GIL no line is disabled")
class Events(DebuggerCase):
    TEXT = TEXT

    def count(self, name, argument, *actions):
        """Stops after the first, and how many events the debugger has looked at for the last command."""
        counted, count = [0], at_events._getframe

        def counting(depth):
            counted[0] += 1
            return count(depth + 1)

        def begin(debugger, frame):
            counted[0] = 0

        at_events._getframe = counting
        try:
            debugger = Scripted(self.source, *actions[:-1], begin, actions[-1],
                                lambda debugger, frame: counts.append(counted[0]))
            counts = []
            try:
                debugger.runcall(self.names[name], argument)
            except ValueError:
                pass
        finally:
            at_events._getframe = count
        return debugger.stops[1:], counts[0]

    def test_return_out_of_a_loop(self):
        stops, events = self.count("loop", 5000, at("body", temporary=True), "continue", "return")
        self.assertEqual(stops, [("line", "body"), ("return", "loop last")])
        self.assertLess(events, 5)

    def test_until_out_of_a_loop(self):
        stops, events = self.count("loop", 5000, at("body", temporary=True), "continue", "until", "until")
        self.assertEqual(stops[-1], ("line", "loop last"))
        self.assertLess(events, 20)

    def test_until_keeps_breakpoints_before_its_line(self):
        condition = {"cond": "i == 7"}
        stops, events = self.count("loop", 5000, at("body", temporary=True), "continue",
                                   at("body", **condition), lambda debugger, frame: debugger.set_until(
                                       frame, self.source.line("loop last")) or "unused", "continue")
        self.assertEqual(stops[-1], ("line", "body"))

    @needs_hooks
    def test_a_command_sets_only_what_changes(self):
        import framehook

        calls, found = [], []

        def counted(place, name):
            function = getattr(place, name)
            return mock.patch.object(place, name, lambda *arguments: (calls.append(name), function(*arguments))[1])

        with (counted(sys.monitoring, "set_local_events"), counted(sys.monitoring, "set_events"), counted(framehook, "enable_for_code"),
              counted(framehook, "hooks")):
            for command, count, last in (("next", 6, "body"), ("until", 2, "loop last")):
                debugger = Scripted(self.source, at("body", temporary=True), "continue", command, lambda debugger, frame: calls.clear(),
                                    *[command] * (count - 1), lambda debugger, frame: found.append(list(calls)))
                debugger.runcall(self.names["loop"], 9)
                self.assertEqual(debugger.stops[-1], ("line", last))
        self.assertEqual(found, [[], []])

    @needs_hooks
    def test_over_a_recursion(self):
        for command, last in (("next", ("return", "deeper")), ("until", ("return", "deeper")),
                              ("return", ("return", "deeper"))):
            with self.subTest(command):
                stops, events = self.count("tree", 14, at("deeper", temporary=True), "continue", command)
                self.assertEqual(stops, [("line", "deeper"), last])
                self.assertLess(events, 20)

    @needs_hooks
    def test_over_several_recursions_in_one_line(self):
        stops, events = self.count("walk", 6, at("three", temporary=True), "continue", "next")
        self.assertEqual(stops, [("line", "three"), ("line", "walk last")])
        self.assertLess(events, 30)

    @needs_hooks
    def test_over_a_recursion_that_ends_by_an_exception(self):
        stops, events = self.count("falls", 200, at("falls", temporary=True), "continue", "next")
        self.assertEqual(stops, [("line", "falls"), ("exception", "falls")])

    def test_over_more_recursions_than_there_are_pauses(self):
        stops, events = self.count("many", 1000, at("all", temporary=True), "continue", "until")
        self.assertEqual(stops[-1], ("line", "many last"))

    @needs_hooks
    def test_a_breakpoint_in_the_recursion_stops(self):
        stops, _ = self.count("tree", 6, at("deeper", temporary=True), "continue",
                              at("tree first", cond="n == 1"), "next", "return")
        self.assertEqual(stops[1], ("line", "tree first"))
        self.assertEqual(stops[2][0], "return")


if __name__ == "__main__":
    unittest.main()
