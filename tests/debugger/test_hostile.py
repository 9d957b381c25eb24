"""Programs that take from the debugger what it needs: it never raises into them, and keeps working."""

import sys
import unittest

from debugger_support import DebuggerCase, LikePdbCase, Scripted, at, local_events, needs_hooks, pdb_session, session

TEXT = """
    def early(n):
        return n            # early

    def later(n):
        return n            # later

    def both():
        x = early(1)        # both first
        return x + later(1)
"""
monitoring = sys.monitoring


def free(tools=range(6)):
    """Free the debugger's tool id; which one it was."""
    for tool in tools:
        if monitoring.get_tool(tool) == "ferrule_debugger":
            monitoring.free_tool_id(tool)
            return tool
    return None


class Monitoring(DebuggerCase):
    TEXT = TEXT

    def run_after(self, hostile, *actions):
        """Call two functions, the second after something hostile: the debugger."""
        def program():
            self.names["early"](0)
            hostile()
            return self.names["both"]()

        done = self.debug(self.source, program, at("early"), at("later"), *actions)
        self.assertEqual(done.value, 2)
        return done

    def test_tool_id_is_freed(self):
        done = self.run_after(free)
        self.assertEqual(done.stops[1:], [("line", "early"), ("line", "early"), ("line", "later")])

    def test_tool_id_is_freed_and_used_by_another(self):
        lines, taken = [], []

        def line(code, number):
            lines.append(self.source.name_of(number))
            return monitoring.DISABLE

        def hostile():
            tool = free()
            monitoring.use_tool_id(tool, "other")
            taken.append(tool)
            monitoring.register_callback(tool, monitoring.events.LINE, line)
            monitoring.set_local_events(
                tool, self.names["both"].__code__, monitoring.events.LINE)

        self.names["later"](0)      # it was found, and its breakpoint is set again
        try:
            done = self.run_after(hostile)
        finally:
            for tool in taken:
                monitoring.set_local_events(tool, self.names["both"].__code__, 0)
                monitoring.register_callback(tool, monitoring.events.LINE, None)
                monitoring.free_tool_id(tool)
        self.assertEqual(done.stops[-1], ("line", "later"))
        self.assertEqual(done.stops.count(("line", "later")), 1)
        self.assertIn("both first", lines)

    def test_tool_id_is_freed_and_none_is_left(self):
        taken = []

        def hostile():
            free()
            for tool in range(6):
                if monitoring.get_tool(tool) is None:
                    monitoring.use_tool_id(tool, "other")
                    taken.append(tool)

        try:
            self.run_after(hostile)
        finally:
            for tool in taken:
                monitoring.free_tool_id(tool)

    def test_tool_id_is_freed_during_next(self):
        for action in ("next", "return", "step"):
            with self.subTest(action):
                done = self.debug(
                    self.source,
                    self.names["both"],
                    lambda debugger, frame: free() and None,
                    action,
                    *["next"] * 6,
                )
                self.assertEqual(done.value, 2)
                self.assertGreater(len(done.stops), 1)

    def test_events_are_taken_and_set_again_at_the_next_stop(self):
        def hostile():
            monitoring.set_local_events(session.events.tool, self.names["later"].__code__, 0)
            monitoring.set_events(session.events.tool, 0)

        def program():
            self.names["later"](0)
            self.names["early"](0)
            hostile()
            self.names["early"](0)      # it stops here
            self.names["later"](0)

        done = self.debug(self.source, program, at("early"), at("later"))
        self.assertEqual([name for _, name in done.stops[1:]], ["later", "early", "early", "later"])

    def test_it_is_reported(self):
        line = free.__code__.co_firstlineno

        def program():
            free()
            return 1

        out = pdb_session(program, "next", "next", f"break {line}", "continue")
        self.assertIn("The program has taken the debugger's events of sys.monitoring.", out)
        self.assertEqual(out.count("The program has"), 1)


@needs_hooks
class Hooks(DebuggerCase):
    def test_hooks_are_cleared_and_added_again_at_the_next_stop(self):
        import framehook

        source, other = self.program(TEXT), self.program(TEXT)
        names, others = source.load(), other.load()

        def program():
            framehook.clear()
            names["early"](1)
            return others["later"](2)

        class Both(Scripted):
            def user_line(self, frame):
                files.append((frame.f_code.co_filename, frame.f_code.co_name))
                super().user_line(frame)

        files = []
        debugger = Both(source, at("early"),
                        lambda debugger, frame: debugger.set_break(other.path, other.line("later")))
        names["early"](1)

        def outer():
            names["early"](0)
            return program()

        self.assertEqual(debugger.runcall(outer), 2)
        self.assertEqual(files[1:], [
            (source.path, "early"), (source.path, "early"), (other.path, "later")])

    def test_it_is_reported(self):
        import framehook

        def program():
            framehook.clear()
            return 1

        out = pdb_session(program, "next", "next", "continue")
        self.assertIn("The program has removed the debugger's frame hook.", out)

    def test_code_within_code_needs_no_hook(self):
        import framehook

        source = self.program("""
            def outer(clear):
                clear()
                def inner():
                    return 1        # inner
                return inner()
        """)
        done = self.debug(source, source.load()["outer"], at("inner"), arguments=(framehook.clear,))
        self.assertEqual(done.stops[1:], [("line", "inner")])


@needs_hooks
class VisibleHooks(LikePdbCase):
    TEXT = """
        import framehook
        def helper():
            return 2            # helper
        def hook(view):
            a = 1               # hook first
            b = helper()        # hook second
        class Hooking:
            def on_entry(self, view):
                c = 3           # method
        def f():
            return 1
        def run():
            f()                 # run
            method = Hooking().on_entry
            with framehook.hook(method):
                pass
            handle = framehook.add(hook, visible=True)
            f()
            framehook.remove(handle)
            handle = framehook.add(method, visible=True)
            f()                 # last call
            framehook.remove(handle)
        run()
    """

    def test_breakpoints(self):
        program = self.program(self.TEXT)
        first, helper, method, last = (
            program.line(name) for name in ("hook first", "helper", "method", "last call"))
        self.assert_sessions_like_pdb(program, (
            f"b {first};c;c;c",
            f"b {first};c;n;n;c",
            f"b {helper};c;c;c",
            f"b {method};c;p c;n;p c;c",
            f"b {last};c;b {method};c;p view.code.co_name;c",
        ))

    def test_a_hook_whose_module_is_not_there_any_more(self):
        import framehook

        source = self.program("""
            def hook(view):
                a = 1           # hook first
        """)
        hook = source.load()["hook"]

        def program():
            handle = framehook.add(hook, visible=True)
            line = 1            # a stop
            (lambda: line)()
            framehook.remove(handle)

        line = program.__code__.co_firstlineno + 2
        done = self.debug(
            source,
            program,
            lambda debugger, frame: debugger.set_break(__file__, line),
            "continue",
            at("hook first", temporary=True),
        )
        self.assertEqual(done.stops[2:], [("line", "hook first")])


class CodeWithinCode(DebuggerCase):
    def test_only_what_has_a_breakpoint_is_touched(self):
        source = self.program("""
            def outer():
                def one():
                    return 1        # one
                def two():
                    return 2        # two
                return one, two     # last
        """)
        touched = []

        def look(debugger, frame):
            touched.extend(bool(local_events(frame.f_locals[name].__code__))
                           for name in ("one", "two"))

        self.debug(source, source.load()["outer"], at("one"), at("last"), "continue", look)
        self.assertEqual(touched, [True, False])


if __name__ == "__main__":
    unittest.main()
