"""Breakpoints: where they stop, how often, and what becomes of them."""

import bdb
import gc
import sys
import threading
import unittest

from debugger_support import DebuggerCase, Scripted, at, code_dies, local_events, pdb_session, run_python, session

TEXT = """
    def add(a, b):              # def add
        total = a + b           # sum
        return total            # result

    def loop(n):
        for i in range(n):      # for
            add(i, i)           # body
        return n                # end

    def other():
        return 5                # other
"""


class Breakpoints(DebuggerCase):
    TEXT = TEXT

    def test_stops_each_time(self):
        done = self.debug(self.source, self.names["loop"], at("sum"), "continue", arguments=(3,))
        self.assertEqual(done.stops, [("line", "for")] + [("line", "sum")] * 3)
        self.assertEqual(done.value, 3)

    def test_stops_in_each_round_of_a_hot_loop(self):
        done = self.debug(self.source, self.names["loop"], at("body", cond="i < 0"),
                          arguments=(1000,))
        self.assertEqual(bdb.Breakpoint.bpbynumber[1].hits, 1000)
        self.assertEqual(done.value, 1000)

    def test_touches_only_the_code_that_contains_it(self):
        events = {}

        def look(debugger, frame):
            for name in ("add", "loop", "other"):
                events[name] = local_events(self.names[name].__code__)
            events["trace"] = sys.gettrace()

        self.debug(self.source, self.names["loop"], at("sum"), "continue", look, arguments=(2,))
        self.assertTrue(events["add"])
        self.assertEqual((events["loop"], events["other"], events["trace"]), (0, 0, None))

    def test_condition(self):
        done = self.debug(
            self.source, self.names["loop"], at("result", cond="total == 4"), arguments=(10,)
        )
        self.assertEqual(done.stops, [("line", "for"), ("line", "result")])
        self.assertEqual(bdb.Breakpoint.bpbynumber[1].hits, 10)

    def test_condition_that_fails_stops(self):
        done = self.debug(
            self.source, self.names["loop"], at("sum", cond="nonsense"), arguments=(2,)
        )
        self.assertEqual(done.stops[1:], [("line", "sum")] * 2)

    def test_condition_that_fails_says_so(self):
        said = pdb_session(
            lambda: self.names["loop"](1),
            f"tbreak {self.source.path}:{self.source.line('sum')}, a.nonsense",
            "continue",
            "break",
            "continue",
        )
        self.assertIn("*** The condition of breakpoint 1 has raised AttributeError: 'int' object has no attribute 'nonsense'\n", said)
        self.assertIn("1   breakpoint   del  yes", said)        # it is not deleted

    def test_condition_is_changed(self):
        def change(debugger, frame):
            bdb.Breakpoint.bpbynumber[1].cond = "a == 3"

        done = self.debug(
            self.source,
            self.names["loop"],
            at("sum", cond="a == 1"),
            "continue",
            change,
            arguments=(6,),
        )
        self.assertEqual(len(done.stops), 3)

    def test_ignore(self):
        def ignore(debugger, frame):
            debugger.set("sum").ignore = 3

        done = self.debug(self.source, self.names["loop"], ignore, arguments=(5,))
        self.assertEqual(done.stops[1:], [("line", "sum")] * 2)

    def test_temporary(self):
        done = self.debug(
            self.source, self.names["loop"], at("sum", temporary=True), arguments=(5,)
        )
        self.assertEqual(done.stops[1:], [("line", "sum")])
        self.assertEqual(bdb.Breakpoint.bplist, {})

    def test_disabled_and_enabled(self):
        def disable(debugger, frame):
            debugger.set("sum").disable()
            debugger.set("result", cond="a == 1", temporary=True)

        def enable(debugger, frame):
            bdb.Breakpoint.bpbynumber[1].enable()

        done = self.debug(
            self.source, self.names["loop"], disable, "continue", enable, arguments=(4,)
        )
        self.assertEqual(done.stops[1:], [("line", "result")] + [("line", "sum")] * 2)

    def test_two_on_one_line(self):
        def two(debugger, frame):
            debugger.set("sum", cond="a == 1")
            debugger.set("sum", cond="a == 3")

        done = self.debug(self.source, self.names["loop"], two, arguments=(5,))
        self.assertEqual(len(done.stops), 3)
        self.assertEqual([point.hits for point in bdb.Breakpoint.bpbynumber[1:]], [5, 4])

    def test_of_a_function_at_its_def(self):
        def by_name(debugger, frame):
            debugger.set("def add", funcname="add")

        done = self.debug(self.source, self.names["loop"], by_name, arguments=(2,))
        self.assertEqual(done.stops[1:], [("line", "sum")] * 2)

    def test_cleared_while_it_is_hit(self):
        def clear(debugger, frame):
            self.assertIsNone(debugger.clear_break(self.source.path, self.source.line("sum")))
            self.assertEqual(local_events(frame.f_code), 0)

        def keep(debugger, frame):
            debugger.set("end")

        done = self.debug(
            self.source, self.names["loop"], at("sum"), "continue", keep, clear, arguments=(5,)
        )
        self.assertEqual(done.stops[1:], [("line", "sum"), ("line", "end")])

    def test_all_cleared_leaves_nothing(self):
        code = self.names["add"].__code__

        def clear(debugger, frame):
            debugger.clear_all_breaks()
            self.assertEqual(local_events(code), 0)

        done = self.debug(
            self.source, self.names["loop"], at("sum"), "continue", clear, arguments=(5,)
        )
        self.assertEqual(len(done.stops), 2)

    def test_deleted_behind_its_back(self):
        def delete(debugger, frame):
            bdb.Breakpoint.bpbynumber[1].deleteMe()

        done = self.debug(
            self.source, self.names["loop"], at("sum"), "continue", delete, arguments=(3,)
        )
        self.assertEqual(len(done.stops), 2)

    def test_another_line_of_code_that_has_one(self):
        def second(debugger, frame):
            debugger.set("result")

        done = self.debug(
            self.source,
            self.names["loop"],
            at("sum"),
            "continue",
            "continue",
            second,
            arguments=(3,),
        )
        self.assertEqual(
            [name for _, name in done.stops], ["for", "sum", "sum", "result", "sum", "result"]
        )

    def test_kept_for_the_next_run(self):
        debugger = Scripted(self.source, at("sum"))
        debugger.runcall(self.names["loop"], 1)
        debugger.runcall(self.names["loop"], 1)
        self.assertEqual([name for _, name in debugger.stops], ["for", "sum", "for", "sum"])

    def test_loop_on_one_line(self):
        program = self.program("""
            def count(n):
                for i in range(n): n += i   # all
                return n
        """)
        done = self.debug(
            program, program.load()["count"], at("all", cond="i == 2"), arguments=(4,)
        )
        self.assertEqual(done.stops, [("line", "all")] * 2)

    def test_function_on_one_line(self):
        program = self.program("""
            def short(n): return n + 1      # short

            def call():
                short(1)                    # first
                return short(2)
        """)
        names = program.load()
        names["short"](0)
        done = self.debug(program, names["call"], at("short"), "continue", "next", "continue")
        self.assertEqual(
            done.stops,
            [("line", "first"), ("line", "short"), ("return", "short"), ("line", "short")],
        )

    def test_recursion(self):
        program = self.program("""
            def down(n):
                if n == 0:
                    return 0            # bottom
                return 1 + down(n - 1)  # deeper
        """)
        done = self.debug(
            program, program.load()["down"], at("bottom"), "continue", arguments=(500,)
        )
        self.assertEqual((done.stops[1:], done.value), ([("line", "bottom")], 500))


class AtThePrompt(DebuggerCase):
    TEXT = TEXT

    def stops_in(self, said):
        return said.count("(%d)add()" % self.source.line("sum"))

    def test_commands(self):
        said = pdb_session(
            lambda: self.names["loop"](3),
            f"break {self.source.path}:{self.source.line('sum')}",
            "commands",
            "silent",
            "p ('a is', a)",
            "continue",
            "end",
            "continue",
        )
        for n in range(3):
            self.assertIn(f"('a is', {n})", said)
        self.assertEqual(self.stops_in(said), 0)

    def test_tbreak_condition_ignore(self):
        place = f"{self.source.path}:{self.source.line('sum')}"
        said = pdb_session(
            lambda: self.names["loop"](9),
            f"tbreak {place}",
            "continue",
            f"break {place}, a > 5",
            "ignore 2 1",
            "continue",
            "p a",
            "clear 2",
            "continue",
        )
        self.assertIn("Will ignore next 1 crossing of breakpoint 2", said)
        self.assertIn("(Pdb) 7\n", said)
        self.assertEqual(self.stops_in(said), 2)

    def test_by_function(self):
        loop, add = self.names["loop"], self.names["add"]

        def program():
            function = add
            loop(2)
            return function

        said = pdb_session(program, "next", "break function", "continue", "next", "continue")
        self.assertEqual(self.stops_in(said), 2)
        self.assertIn("(%d)add()" % self.source.line("result"), said)

    def test_debug_command(self):
        add = self.names["add"]

        def program():
            function = add
            return function

        said = pdb_session(
            program,
            "next",
            f"break {self.source.path}:{self.source.line('sum')}",
            "debug function(1, 2)",
            "continue",
            "p a + b",
            "continue",
            "p 'back'",
            "continue",
        )
        self.assertEqual(self.stops_in(said), 1)
        self.assertIn("((Pdb)) 3\n", said)
        self.assertIn("'back'", said)

    def test_jump(self):
        got = []

        def program():
            got.append(1)
            got.append(2)
            got.append(3)

        line = program.__code__.co_firstlineno
        said = pdb_session(
            program, f"break {__file__}:{line + 2}", "continue", f"jump {line + 3}", "continue"
        )
        self.assertEqual(got, [1, 3], said)


class Session(DebuggerCase):
    def test_without_a_free_tool_id(self):
        monitoring = sys.monitoring
        taken = [tool for tool in range(6) if monitoring.get_tool(tool) is None]
        for tool in taken:
            monitoring.use_tool_id(tool, "another tool")
        try:
            program = self.program(TEXT)
            done = self.debug(
                program,
                program.load()["loop"],
                at("sum"),
                "continue",
                "next",
                "return",
                "continue",
                arguments=(2,),
            )
        finally:
            for tool in taken:
                monitoring.free_tool_id(tool)
        self.assertEqual(
            [name for _, name in done.stops], ["for", "sum", "result", "result", "sum"]
        )

    def test_set_trace_without_a_free_tool_id_stops_at_its_own_line(self):
        program = self.program("""
            import sys, ferrule_debugger
            for tool in range(6):
                sys.monitoring.use_tool_id(tool, "another tool")
            def function():
                ferrule_debugger.set_trace()    # here
                return 1                        # next
            function()
        """)
        said = run_python([program.path], "n\nc\n")
        self.assertEqual([line for line in said.splitlines() if "> " in line and "->" not in line],
                         [f"> {program.path}({program.line('here')})function()", f"(Pdb) > {program.path}({program.line('next')})function()"])

    @code_dies
    def test_index_forgets_dead_code(self):
        namespace = {}

        def pass_by(times):
            for _ in range(times):
                exec("def passing(): return 1\npassing()", namespace)
                del namespace["passing"]
            gc.collect()
            return len(session._index)

        def program():
            return pass_by(1), pass_by(50)

        few, many = self.debug(self.program("x = 1    # x"), program).value
        self.assertEqual(few, many)
        self.assertEqual(len(session._index), 0)

    @code_dies
    def test_index_forgets_names_of_files(self):
        def pass_by(times):
            for number in range(times):
                exec(compile("def passing(): return 1\npassing()", f"<made {number}>", "exec"), {})
            gc.collect()
            return any(session._index.has(f"<made {number}>") for number in range(times)), sum(
                file.startswith("<made") for file in [*session._index._files, *(file for file, _ in session._index._buckets)])

        self.assertEqual(self.debug(self.program("x = 1    # x"), lambda: pass_by(50)).value, (False, 0))

    @code_dies
    def test_index_keeps_what_is_added_while_it_forgets(self):
        kept, stop = [], threading.Event()

        def forget():
            while not stop.is_set():
                exec(compile("def passing(): return 1\npassing()", "<made>", "exec"), {})

        def program():
            threads = [threading.Thread(target=forget) for _ in range(2)]
            for thread in threads:
                thread.start()
            for _ in range(300):
                names = {}
                exec(compile("def kept(): return 1\nkept()", "<made>", "exec"), names)
                kept.append(names["kept"])
                if len(kept) > 3:
                    kept.pop(0)
                missing.extend(one for one in kept if one.__code__ not in session._index.at("<made>", 1))
            stop.set()
            for thread in threads:
                thread.join()

        missing, interval = [], sys.getswitchinterval()
        sys.setswitchinterval(1e-6)
        self.addCleanup(sys.setswitchinterval, interval)
        self.debug(self.program("x = 1    # x"), program)
        self.assertEqual(missing, [])

    @code_dies
    def test_a_program_that_profiles_does_not_see_code_forgotten(self):
        packages = []

        def program():
            sys.setprofile(lambda frame, event, argument: packages.append(frame.f_globals.get("__package__")))
            for _ in range(3):
                exec("def passing(): return 1\npassing()", {})
            gc.collect()
            sys.setprofile(None)

        self.debug(self.program("x = 1    # x"), program)
        self.assertGreater(len(packages), 6)
        self.assertNotIn("ferrule_debugger", packages)


if __name__ == "__main__":
    unittest.main()
