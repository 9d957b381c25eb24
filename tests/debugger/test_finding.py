"""Code is found wherever it comes from: running, suspended, disabled, replaced, not yet there."""

import gc
import importlib
import os
import sys
import unittest

from debugger_support import DebuggerCase, Scripted, at, code_dies, has_hooks, needs_hooks, session

TEXT = """
    def early(n):
        m = n + 1           # early
        return m            # early last

    def running(inside):
        inside()            # inside
        last = 1            # after
        return last

    def numbers():
        yield 1             # one
        yield 2             # two

    def replaced():
        return "old"        # replaced
"""


class Found(DebuggerCase):
    TEXT = TEXT

    def test_code_that_ran_before(self):
        early = self.names["early"]
        early(1)

        def program():
            early(2)  # the hook is disabled for it from here on
            return stop_now() + early(3)

        def stop_now():
            return 0

        stop_now_line = stop_now.__code__.co_firstlineno + 1
        debugger = Scripted(
            self.source,
            lambda debugger, frame: debugger.set_break(__file__, stop_now_line),
            "continue",
            at("early"),
        )
        self.assertEqual(debugger.runcall(program), 4)
        self.assertEqual(debugger.stops[2:], [("line", "early")])

    def test_function_that_is_running(self):
        running = self.names["running"]

        def inside():
            return 1

        def program():
            running(inside)

        line = inside.__code__.co_firstlineno + 1
        done = self.debug(
            self.source,
            program,
            lambda debugger, frame: debugger.set_break(__file__, line),
            "continue",
            at("after"),
        )
        self.assertEqual(done.stops[2:], [("line", "after")])

    def test_function_that_runs_when_the_debugger_comes(self):
        debugger = Scripted(self.source, at("after"))
        self.names["running"](debugger.set_trace)
        self.assertEqual(debugger.stops[-1], ("line", "after"))
        debugger.set_quit()

    def test_generator_that_waits_when_the_debugger_comes(self):
        generator = self.names["numbers"]()
        next(generator)
        done = self.debug(self.source, lambda: list(generator), at("two"))
        self.assertEqual(done.stops[1:], [("line", "two")])

    def test_code_replace(self):
        replaced = self.names["replaced"]

        def program():
            replaced.__code__ = replaced.__code__.replace(
                co_consts=tuple(
                    "new" if constant == "old" else constant
                    for constant in replaced.__code__.co_consts
                )
            )
            return replaced()

        done = self.debug(self.source, program, at("replaced"))
        self.assertEqual((done.stops[1:], done.value), ([("line", "replaced")], "new"))

    def test_each_of_many_copies(self):
        copies = [
            type(self.names["replaced"])(self.names["replaced"].__code__.replace(), {})
            for _ in range(5)
        ]
        done = self.debug(self.source, lambda: [copy() for copy in copies], at("replaced"))
        self.assertEqual(done.stops[1:], [("line", "replaced")] * 5)

    def test_exec_again_and_again(self):
        def program():
            for _ in range(3):
                self.source.load()["early"](1)

        done = self.debug(self.source, program, at("early"))
        self.assertEqual(done.stops[1:], [("line", "early")] * 3)

    def test_class_body_lambda_comprehension(self):
        program = self.program("""
            def build():
                class Built:
                    value = [n for n in range(2)]   # body
                key = lambda x: x                   # lambda
                return Built.value, key(3)          # last
        """)
        done = self.debug(program, program.load()["build"], at("body"), at("lambda"))
        self.assertEqual([name for _, name in done.stops[1:]], [*["body"] * 3, *["lambda"] * 2])

    def test_file_not_yet_imported(self):
        directory = os.path.dirname(self.source.path)
        with open(os.path.join(directory, "imported_later.py"), "w", encoding="utf-8") as file:
            file.write("first = 1\n\ndef function():\n    return first\n")
        sys.path.insert(0, directory)
        self.addCleanup(sys.path.remove, directory)
        self.addCleanup(sys.modules.pop, "imported_later", None)
        later = os.path.join(directory, "imported_later.py")

        def program():
            return importlib.import_module("imported_later").function()

        def set_both(debugger, frame):
            self.assertIsNone(debugger.set_break(later, 1))
            self.assertIsNone(debugger.set_break(later, 4))

        lines = []

        class Lines(Scripted):
            def user_line(self, frame):
                lines.append((os.path.basename(frame.f_code.co_filename), frame.f_lineno))
                super().user_line(frame)

        self.assertEqual(Lines(self.source, set_both).runcall(program), 1)
        self.assertEqual(lines[1:], [("imported_later.py", 1), ("imported_later.py", 4)])

    def test_code_that_the_debugger_ran_first(self):
        early = self.names["early"]

        def evaluate(debugger, frame):
            early(1)  # not offered to anyone: it runs inside an event

        done = self.debug(self.source, lambda: early(2), evaluate, at("early"))
        self.assertEqual(done.stops[1:], [("line", "early")])

    @code_dies
    def test_nothing_is_kept_alive(self):
        import weakref

        code = self.names["early"].__code__
        gone = weakref.ref(code)
        self.debug(self.source, self.names["early"], at("early last"), arguments=(1,))
        del code
        self.names.clear()
        gc.collect()
        self.assertIsNone(gone())


@needs_hooks
class BesideOtherHooks(DebuggerCase):
    TEXT = TEXT

    def replacing(self, code):
        import framehook

        copy = code.replace(
            co_consts=tuple(
                "copy" if constant == "old" else constant for constant in code.co_consts
            )
        )

        def replace(view):
            return copy if view.code is code else framehook.DISABLE

        return framehook.hook(replace)

    def test_a_hook_that_replaces_before(self):
        with self.replacing(self.names["replaced"].__code__):
            done = self.debug(self.source, lambda: self.names["replaced"](), at("replaced"))
        self.assertEqual((done.stops[1:], done.value), ([("line", "replaced")], "copy"))

    def test_a_hook_that_is_added_later_and_a_breakpoint_after_it(self):
        def program():
            with self.replacing(self.names["replaced"].__code__):
                line = 1  # a stop
                return self.names["replaced"]() + str(line)

        line = program.__code__.co_firstlineno + 2
        done = self.debug(
            self.source,
            program,
            lambda debugger, frame: debugger.set_break(__file__, line),
            "continue",
            at("replaced"),
        )
        self.assertEqual((done.stops[2:], done.value), ([("line", "replaced")], "copy1"))

    def test_all_hooks_are_cleared(self):
        import framehook

        def program():
            framehook.clear()
            return 1

        done = self.debug(self.source, program, at("early"))
        self.assertEqual(done.value, 1)

    def test_as_many_hooks_as_there_may_be(self):
        import framehook

        handles = [framehook.add(lambda view: framehook.DISABLE) for _ in range(32)]
        try:
            done = self.debug(self.source, lambda: self.names["early"](1), at("early"))
        finally:
            for handle in handles:
                framehook.remove(handle)
        self.assertEqual(done.stops[1:], [("line", "early")])

    def test_called_once_for_each_code_object(self):
        import framehook

        calls = []

        def program():
            for _ in range(200):
                self.names["early"](1)
            calls.append(
                next(info.calls for info in framehook.hooks() if info.name == "ferrule_debugger")
            )
            for _ in range(200):
                self.names["early"](1)
            calls.append(
                next(info.calls for info in framehook.hooks() if info.name == "ferrule_debugger")
            )

        self.debug(self.source, program, at("early", cond="False"))
        # hooks() itself makes a few code objects known.
        self.assertLess(calls[1] - calls[0], 50)


class Means(DebuggerCase):
    def test_what_finds_code(self):
        finder = []
        self.debug(
            self.program("x = 1  # x"),
            lambda: finder.append(type(session._finder).__name__),
            at("x"),
        )
        self.assertEqual(finder, ["HookFinder" if has_hooks else "EventFinder"])


if __name__ == "__main__":
    unittest.main()
