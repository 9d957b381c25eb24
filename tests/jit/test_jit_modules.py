"""Loops whose variables are globals, or in cells: of modules, and of functions that are not compiled as a whole."""

import gc
import sys
import textwrap
import threading
import types
import weakref

import jit_support
from jit_support import Case, define, run_alone, what_happens
from surroundings import alarms

setUpModule = jit_support.load


COLLATZ = """
    best = where = 0
    for start in range(1, 4000):
        number, length = start, 1
        while number > 1:
            if number & 1:
                number = number * 3 + 1
            else:
                number >>= 1
            length += 1
        if length > best:
            best, where = length, start
"""


class ModuleCase(Case):
    def executed(self, source, **values):
        """The code of a module and its globals after it was executed, or the exception, as without the compiler."""
        code = compile(textwrap.dedent(source), "<module>", "exec")
        outcomes = []
        for on in (False, True):
            (self.jit.enable if on else self.jit.disable)()
            # Code objects of their own: the first one is never compiled.
            own = code if on else compile(textwrap.dedent(source), "<module>", "exec")
            space = {"__name__": "module", **values}
            happened = what_happens(exec, (own, space))
            shown = [(name, repr(value)) for name, value in space.items() if name[:2] != "__" and not callable(value)]
            outcomes.append((happened, shown, space))
        # A list of values is in the order of the keys.
        self.assertEqual(outcomes[1][:2], outcomes[0][:2])
        return code, outcomes[1][2]

    def entered(self, code):
        return self.jit.stats(code).get("entered", 0)


class Modules(ModuleCase):
    def test_a_script(self):
        code, space = self.executed(COLLATZ)
        self.assertEqual((space["best"], space["where"]), (238, 3711))
        self.assertGreater(self.entered(code), 0, self.jit.explain(code))
        self.assertIn("compiled from the loop in line", self.jit.explain(code))

    def test_calls_containers_and_floats(self):
        code, space = self.executed("""
            import math
            def square(x): return x * x
            limit = 5000
            flags = bytearray(limit)
            rows = [[1.5, 2.5], [3.5, 4.5]]
            total, roots, count = 0, 0.0, 0
            for number in range(2, limit):
                if not flags[number]:
                    count += 1
                    for multiple in range(number * number, limit, number): flags[multiple] = 1
                total += square(number) % 7
                roots += math.sqrt(number) * rows[number & 1][1]
                if number % 1999 == 0: rows.append([number * 0.5, 0.5])
        """)
        self.assertEqual(space["count"], 669)
        self.assertGreater(self.entered(code), 0, self.jit.explain(code))

    def test_an_exception_finds_the_globals(self):
        code, space = self.executed("total = 0\nfor i in range(5000):\n    total += 100 // (3000 - i)\n    j = i\n")
        self.assertEqual((space["i"], space["j"]), (3000, 2999))
        self.assertGreater(self.entered(code), 0)

    def test_a_result_that_is_larger_than_a_word(self):
        code, space = self.executed("x = 1\nfor i in range(3000):\n    x = x * 3 + i if i > 2900 else i\n")
        self.assertGreater(space["x"], 2**64)
        self.assertGreater(self.entered(code), 0)

    def test_types_change(self):
        code, _ = self.executed("x = 0\nfor i in range(6000):\n    x = x + 0.5 if i > 2000 else x + 1\n    if i == 4000: x = None\n"
                                "    if x is None: x = True\n")
        self.assertGreater(self.entered(code), 0)

    def test_a_global_is_deleted(self):
        code, _ = self.executed("x = 0\nfor i in range(5000):\n    x += 1\n    if i == 3000:\n        del x\n        x = 5\n")
        self.assertGreater(self.entered(code), 0)
        self.executed("x = y = 0\nfor i in range(5000):\n    if i == 3000: del x\n    y += x\n")
        self.executed("x = 1\nfor i in range(5000):\n    if i == 3000: del abs\n    x += 1\n")

    def test_new_names_keep_their_order(self):
        _, space = self.executed("x = 0\nfor i in range(5000):\n    x += i\n    if i > 4000: late = i\n    if i > 3000: soon = i\n    if i > 4500: del soon\n"
                                 "    soon = 1\n")
        self.assertEqual([name for name in space if name in ("late", "soon")], ["late", "soon"])

    def test_a_builtin_is_shadowed(self):
        code, space = self.executed("x = 0\nfor i in range(-2500, 2500):\n    x += abs(i)\n    if i == 0: abs = round\n    if i == 900: del abs\n")
        self.executed("x = 0\nfor i in range(-2500, 2500):\n    x += abs(i)\n    if i == 0: abs = lambda n: 1\n")
        self.executed("def size(n): return abs(n)\nx = 0\nabs = abs\nfor i in range(-2500, 2500):\n    x += size(i)\n    if i == 0: abs = int\n")
        self.executed("import builtins\nx = 0\ntry:\n    for i in range(-2500, 2500):\n        x += abs(i)\n"
                      "        if i == 0:\n            was, builtins.abs = abs, int\n"
                      "finally:\n    builtins.abs = was\n")

    def test_a_callee_uses_what_is_assigned(self):
        for body in ("return x + n", "global x\n    x += n\n    return x", "return n + later(n)"):
            self.executed(f"""
def later(n): return x
def f(n):
    {body}
x = total = 0
for i in range(4000):
    x = i % 7
    total += f(i)
""")

    def test_an_attribute_of_the_module_itself(self):
        name = "module_of_this_test"
        module = types.ModuleType(name)
        self.addCleanup(sys.modules.pop, name)
        sys.modules[name] = module
        code = compile(f"import {name} as me\nx = total = 0\nfor i in range(5000):\n    x = i\n    total += me.x\n", "<module>", "exec")
        exec(code, module.__dict__)
        self.assertEqual(module.total, sum(range(5000)))

    def test_functions_see_what_was_stored(self):
        code, space = self.executed("""
            def twice():
                t = 0
                for i in range(2): t += x
                return t
            x, seen = 0, []
            for i in range(6000):
                x += 1
                if i % 1500 == 0: seen.append(twice())
            last = twice()
        """)
        self.assertEqual(space["seen"], [2, 3002, 6002, 9002])
        self.assertGreater(self.entered(code), 1, self.jit.explain(code))

    def test_other_locals_than_globals(self):
        code = compile("x = 0\nfor i in range(5000): x += 1\n", "<module>", "exec")
        for _ in range(2):
            inner, outer = {}, {"x": 7}
            exec(code, outer, inner)
            self.assertEqual((outer["x"], inner["x"], inner["i"]), (7, 5000, 4999))
        class Doubled(dict):
            def __setitem__(self, name, value):
                super().__setitem__(name, value * 2)
        doubled = Doubled(a=1)
        exec("for i in range(3000): a = i", {}, doubled)
        self.assertEqual((doubled["i"], doubled["a"]), (2 * 2999, 4 * 2999))
        self.assertEqual(self.entered(code), 0)

    def test_the_body_of_a_class(self):
        space = define("""
            x = 100
            class Table:
                x = 0
                for i in range(3000): x += i
                squares = [n * n for n in range(5)]
        """)
        self.assertEqual((space.Table.x, space.x, space.Table.i), (sum(range(3000)), 100, 2999))

    def test_globals_that_are_watched(self):
        import _testcapi
        watcher = _testcapi.add_dict_watcher(0)
        self.addCleanup(_testcapi.clear_dict_watcher, watcher)
        space = {"x": 0}
        _testcapi.watch_dict(watcher, space)
        code = compile("for i in range(3000): x += 1", "<module>", "exec")
        exec(code, space)
        self.assertEqual(len([event for event in _testcapi.get_dict_watcher_events() if event.startswith("mod:x:")]), 3000)
        self.assertEqual(self.entered(code), 0)

    def test_keys_that_are_no_str(self):
        class Name(str):
            compared = 0
            __hash__ = str.__hash__
            def __eq__(self, other):
                Name.compared += 1
                return str.__eq__(self, other)
        counts = []
        for on in (False, True):
            (self.jit.enable if on else self.jit.disable)()
            space, Name.compared = {Name("x"): 0}, 0
            exec(compile("for i in range(3000): x += 1", "<module>", "exec"), space)
            counts.append(Name.compared)
            self.assertEqual(space["x"], 3000)
        self.assertEqual(counts[0], counts[1])

    def test_other_builtins(self):
        code = compile("x = 0\nfor i in range(-1500, 1500): x += abs(i)\n", "<module>", "exec")
        space = {}
        exec(code, space)
        self.assertEqual(space["x"], 2250000)
        own = {"__builtins__": {"range": range, "abs": lambda n: 1}}
        exec(code, own)
        self.assertEqual(own["x"], 3000)
        space["__builtins__"] = own["__builtins__"]
        exec(code, space)
        self.assertEqual(space["x"], 3000)

    def test_signal_handlers_see_the_globals(self):
        seen = []
        space = {"x": 0, "done": False, "k": 0}
        def handler(number, frame):
            if frame.f_code is not code:
                return
            seen.append((frame.f_globals["x"], frame.f_globals["k"]))
            frame.f_globals["done"] = len(seen) > 2
        code = compile("while not done:\n    x += 1\n    k = x & 1\n", "<module>", "exec")
        with alarms(handler, 0.05):
            exec(code, space)
        # Between two statements `k` is that of the turn before.
        self.assertTrue(all(k in (x & 1, (x - 1) & 1) for x, k in seen), seen)
        self.assertEqual(sorted(seen), seen)
        self.assertGreater(seen[1][0], seen[0][0] + 1000)
        self.assertGreater(self.entered(code), 2)

    def test_other_threads_see_the_globals(self):
        space = {"x": 0, "stop": 0}
        code = compile("while not stop:\n    x += 1\n    y = x * 2\n", "<module>", "exec")
        thread = threading.Thread(target=exec, args=(code, space))
        thread.start()
        seen = []
        while len(seen) < 20:
            if space["x"] not in seen[-1:]:
                seen.append(space["x"])
        space["x"] = -5
        space["stop"] = 1
        thread.join()
        self.assertEqual(sorted(seen), seen)
        self.assertLess(space["x"], max(seen))
        self.assertGreater(self.entered(code), 1)

    def test_another_thread_deletes_a_global(self):
        space = {"x": 0}
        code = compile("while True:\n    x += 1\n", "<module>", "exec")
        failed = []
        def work():
            try:
                exec(code, space)
            except NameError as error:
                failed.append(str(error))
        thread = threading.Thread(target=work)
        thread.start()
        while space["x"] < 100_000:
            pass
        del space["x"]
        thread.join()
        self.assertEqual((failed, "x" in space), (["name 'x' is not defined"], False))
        self.assertGreater(self.entered(code), 0)

    def test_another_thread_replaces_a_callee(self):
        space = define("""
            def step(n): return n + 1
            def run():
                global x
                while x >= 0: x = step(x)
                return x
            x = 0
        """)
        results = []
        thread = threading.Thread(target=lambda: results.append(space.run()))
        thread.start()
        while space.globals["x"] < 100_000:
            pass
        space.step.__code__ = (lambda n: -n).__code__
        thread.join()
        self.assertLess(results[0], -99_999)
        self.assertEqual(results[0], space.globals["x"])
        self.assertGreater(self.entered(space.run), 0)

    def test_monitoring_that_comes(self):
        tools, seen = sys.monitoring, []
        code = compile("while not stop:\n    x += 1\n    y = x * 2\n", "<module>", "exec")
        def on_line(executed, line):
            seen.append((line, space["x"]))
            if len(seen) > 40:
                space["stop"] = 1
        def handler(number, frame):
            if frame.f_code is code and space["x"] > 10_000 and not seen:
                tools.set_local_events(4, code, tools.events.LINE)
        tools.use_tool_id(4, "test")
        self.addCleanup(tools.free_tool_id, 4)
        tools.register_callback(4, tools.events.LINE, on_line)
        self.addCleanup(tools.set_local_events, 4, code, 0)
        space = {"x": 0, "stop": 0}
        with alarms(handler, 0.05):
            exec(code, space)
        self.assertEqual({line for line, _ in seen}, {1, 2, 3})
        self.assertEqual([x for _, x in seen], sorted(x for _, x in seen))

    def test_a_tracer_that_comes(self):
        lines = set()
        def trace(frame, event, argument):
            if event == "line":
                lines.add((frame.f_lineno, frame.f_globals["x"]))
                if len(lines) > 40:
                    frame.f_globals["stop"] = 1
            return trace

        def handler(number, frame):
            if frame.f_code is code and frame.f_globals["x"] > 10_000:
                frame.f_trace = trace
                sys.settrace(trace)
        space = {"x": 0, "stop": 0}
        code = compile("while not stop:\n    x += 1\n    y = x * 2\n", "<module>", "exec")
        with alarms(handler, 0.05):
            try:
                exec(code, space)
            finally:
                sys.settrace(None)
        self.assertEqual(len({line for line, _ in lines}), 3)
        self.assertGreater(min(x for _, x in lines), 1000)

    def test_an_endless_script_is_interrupted(self):
        run_alone("""
            import signal
            signal.setitimer(signal.ITIMER_REAL, 0.2)
            def handler(*_): raise KeyboardInterrupt
            signal.signal(signal.SIGALRM, handler)
            n = 0
            try:
                while True: n += 1
            except KeyboardInterrupt:
                print(n > 10000)
        """)

    def test_code_of_a_module_goes_away(self):
        code, space = self.executed(COLLATZ)
        self.assertGreater(self.entered(code), 0)
        weak = weakref.ref(code)
        del code, space
        gc.collect()
        self.assertIsNone(weak())

    def test_the_collector_runs_meanwhile(self):
        code, _ = self.executed("import gc\nx = 0\nfor i in range(6000):\n    x += i\n    if i % 1000 == 999: k = gc.collect() and 0\n")
        self.assertGreater(self.entered(code), 0)


class Globals(ModuleCase):
    """Functions that assign globals, or use containers that are globals."""

    def test_a_function_assigns_a_global(self):
        code, space = self.executed("""
            total, count = 0, 0
            def f(n):
                global total
                for i in range(n):
                    total += i % 7
                    if total == 3000: return "early"
                return total
            results = [f(5000), total, f(5000), f(0), total]
        """)
        self.assertGreater(self.entered(space["f"]), 1, self.jit.explain(space["f"]))

    def test_a_table(self):
        _, space = self.executed("""
            table = [3, 1, 4, 1, 5]
            def f(n):
                total = 0
                for i in range(n):
                    total += table[i % 5]
                    table[i % 5] += i & 1
                return total
            results = [f(5000), f(5000)]
            table = [0.5] * 5
            results += [f(5000), f(5000), table]
        """)
        self.assertGreater(self.entered(space["f"]), 1, self.jit.explain(space["f"]))

    def test_an_array(self):
        _, space = self.executed("""
            import array
            table = array.array("d", [0.5, 1.5, 2.5])
            total = 0.0
            for i in range(6000):
                total += table[i % 3]
                table[i % 3] = total / (i + 1)
        """)
        code, _ = self.executed("t = 0\nfor i in range(5000): t += table[i & 1]\n", table=space["table"])
        self.assertGreater(self.entered(code), 0, self.jit.explain(code))

    def test_an_exception_is_handled_in_the_loop(self):
        _, space = self.executed("""
            failed = last = 0
            def f(n):
                global failed, last
                for i in range(n):
                    try:
                        last = 100 // (i % 1000 - 999)
                    except ZeroDivisionError:
                        failed += 1
            f(6000)
        """)
        self.assertEqual(space["failed"], 6)
        self.assertGreater(self.entered(space["f"]), 0)


class Cells(Case):
    def check(self, source, *arguments):
        made = self.running(source, *arguments).f
        self.assertGreater(self.jit.stats(made).get("entered", 0), 0, self.jit.explain(made))

    def test_a_nested_function_reads(self):
        self.check("""
            def f(n):
                total, seen = 0, []
                def show(): return total
                for i in range(n):
                    total += i & 3
                    if i % 1000 == 0: seen.append(show())
                return total, seen, show()
        """, 6000)

    def test_a_nested_function_writes(self):
        self.check("""
            def f(n):
                total = 0
                def change(value):
                    nonlocal total
                    total = value
                for i in range(n):
                    total += i & 3
                    if i == 2000: change(0.5)
                    if i == 3000: change("text")
                    if i == 3000: change(10)
                return total
        """, 6000)

    def test_a_nested_function_empties_a_cell(self):
        self.check("""
            def f(n):
                x = total = 0
                def drop():
                    nonlocal x
                    del x
                try:
                    for i in range(n):
                        total += x
                        x = i
                        if i == 2000: drop()
                except UnboundLocalError as error:
                    return total, i, str(error)
        """, 3000)

    def test_free_variables(self):
        source = """
            def outer(scale, table):
                def f(n):
                    nonlocal scale
                    total = 0
                    for i in range(n):
                        total += i * scale + table[i & 1]
                        if i % 1000 == 0: scale += 1
                    return total, scale
                return f
            def f(n):
                one, other = outer(2, [1, 2]), outer(0.5, [0.25, 1.0])
                return one(n), other(n), one(n)
        """
        made = self.running(source, 5000).f
        inner = next(c for c in made.__globals__["outer"].__code__.co_consts if isinstance(c, types.CodeType))
        self.assertGreater(self.jit.stats(inner)["entered"], 1, self.jit.explain(inner))

    def test_one_cell_of_two_variables(self):
        space = define("""
            def outer():
                a = b = 0
                def f(n):
                    nonlocal a, b
                    for i in range(n):
                        a += 1
                        b += 1
                    return a, b
                return f
        """)
        cell = types.CellType(0)
        made = types.FunctionType(space.outer().__code__, space.globals, closure=(cell, cell))
        self.assertEqual(made(3000), (6000, 6000))
        self.assertEqual(cell.cell_contents, 6000)

    def test_a_thread_changes_a_cell(self):
        space = define("""
            def f(start):
                stop, x = 0, 0
                def end():
                    nonlocal stop
                    stop = 1
                def seen(): return x
                start(end, seen)
                while not stop: x += 1
                return x
        """)
        values = []
        def start(end, seen):
            def work():
                while len(values) < 10:
                    if (value := seen()) not in values[-1:]:
                        values.append(value)
                end()
            threading.Thread(target=work).start()
        self.assertGreaterEqual(space.f(start), values[-1])
        self.assertEqual(sorted(values), values)
        self.assertGreater(self.jit.stats(space.f)["entered"], 0)

    def test_an_exception_finds_the_cells(self):
        self.check("""
            def f(n):
                x = y = 0
                def show(): return x, y
                try:
                    for i in range(n):
                        x += 1
                        y = 100 // (3000 - i)
                except ZeroDivisionError:
                    return show()
        """, 5000)


class Parts(ModuleCase):
    """Loops of functions of which other parts are not compiled."""

    def test_what_is_around_a_loop(self):
        source = """
            def f(n, *words, **options):
                text = "".join(str(word) for word in words)
                total = 0
                for i in range(n):
                    total += i % 11
                    if i % 2000 == 0: text += f"{i} "
                with memoryview(b"abc") as view:
                    for i in range(n): total += i & 1
                return text, total, list(view) if False else None, options
        """
        plain, made = define(source), define(source)
        self.jit.disable()
        expected = plain.f(5000, "a", 1, key=2)
        self.jit.enable()
        self.assertEqual(made.f(5000, "a", 1, key=2), expected)
        self.assertEqual(len({loop[0] for loop in self.jit.stats(made.f)["loops"]}), 2, self.jit.explain(made.f))
        self.assertIn("compiled in part", self.jit.explain(made.f))

    def test_loops_that_end_soon_are_given_up(self):
        space = define("""
            def f(n):
                total, names = 0, {}
                for i in range(n):
                    names[i & 3] = total
                    for k in range(10): total += k
                return total
        """)
        self.assertEqual(space.f(200_000), 45 * 200_000)
        self.assertLess(self.jit.stats(space.f)["entered"], 200)

    def test_generators_are_left_alone(self):
        space = define("def f(n):\n    total = 0\n    for i in range(n): total += i\n    yield total\n")
        self.assertEqual(list(space.f(5000)), [sum(range(5000))])
        self.assertEqual(self.jit.stats(space.f).get("entered", 0), 0)
