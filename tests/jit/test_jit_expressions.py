"""Generator expressions that are the argument of a builtin, and the variables that they share with the function around them."""

import copy
import gc
import signal
import sys

import jit_support
from jit_support import define, run_alone
from surroundings import alarms
from test_jit_tuples import TupleCase

NAN = float("nan")

setUpModule = jit_support.load


class Values(TupleCase):
    CONTENTS = ([1, 2, 3], [0.5, 0.1, 0.1], [], [0], [1, 2.5], [2.5, 1, 2], [2**62, 2**62, 1], [True, False, True], [NAN, 1.0, -0.0], [1e308, 1e308],
                [1e16, 1.0, -1e16],
                [float("inf"), 1.0], [-0.0], [1, None], [1, "a"], [0.1] * 10 + [2**53 + 1], (1, 2, 3), (0.5, 2.5), [True, 2, 0.5], [2**70, 1])

    def test_of_items(self):
        for name in ("sum", "any", "all", "min", "max"):
            for item in ("x", "x * 2", "x > 1", "x / 2 - 1", "-x"):
                source = f"def f(a, n):\n    for i in range(n):\n        x = {name}({item} for x in a)\n    return x, n\n"
                for first in ([1, 2, 3], [0.5, 2.5, 1e16, 1.0, -1e16]):
                    self.alike(source, (first, 2), [(content, 2) for content in self.CONTENTS])

    def test_conditions_and_loops_in_loops(self):
        for text in ("x for x in a if x > 1", "x for x in a if x > 1 if x < 9", "x * y for x in a for y in a",
                     "x + y for x in a if x for y in range(3) if y != x",
                     "x for y in [a, a] for x in y", "i * x for i, x in enumerate(a)", "x - y for x, y in zip(a, reversed(a))",
                     "x for x in a[1:] + a",
                     "2 if x and 1 < x <= 3 or not x else 5 for x in a", "x in (1, 2) for x in a", "max(x, x * 2) for x in a", "p[0] - p[1] for p in zip(a, a)",
                     "1 for x in a"):
            for name in ("sum", "any", "max"):
                source = f"def f(a):\n    s = {name}({text})\n    return s, a\n"
                for first in ([1, 2, 3, 2], [0.5, 2.5]):
                    self.same(source, [(first,)])
                    self.alike(source, (first,), [(content,) for content in self.CONTENTS if isinstance(content, list)])

    def test_ranges(self):
        source = "def f(n, k):\n    return all(n % d for d in range(2, n)), sum(d * k for d in range(n, 0, -2)), min(d ^ k for d in range(n))\n"
        self.same(source, [(97, 3), (91, 5), (1, 1), (0, 1), (20, 2**61), (2, True)])

    def test_rows(self):
        source = "def f(rows):\n    t = sum(x for row in rows for x in row)\n" \
                 "    return t, max(len(row) for row in rows), any(row for row in rows), all(row for row in rows)\n"
        self.alike(source, ([[1, 2], [3]],), [([[1, 2], [], [5]],), ([[]],), ([],), ([[1.5], [2]],), ([[1], [None]],), ([[1], 5],), ([(1, 2)],)])
        self.same("def f(a, b):\n    return sum(x * y for x, y in zip(a, b)), sum(p * q for p, q in [(1, 2), (a[0], b[0])])\n",
                  [([1, 2], [3, 4]), ([2**40], [2**40]), ([5, 2**62], [7, 2])])

    def test_callees(self):
        source = """
            def weight(x, k):
                if x == k:
                    return 1 // (x - k)
                return x * 2
            def f(a, k):
                try:
                    return sum(weight(x, k) for x in a)
                except ZeroDivisionError:
                    return k
            def g(a, k):
                return max(
                    weight(x, k) +
                    weight(x + 1, k)
                    for x in a)
        """
        for name in ("f", "g"):
            plain, made = (getattr(define(source), name) for _ in range(2))
            self.compiled(made, [1, 2, 3], 9)
            for arguments in (([1, 2, 3], 9), ([1, 2, 3], 2), ([1, 2, 3], 4), ([], 1), ([2**62], 1), ([1.5, 2], 2), ([1, None], 3)):
                self.assertEqual(jit_support.what_happens(made, arguments), jit_support.what_happens(plain, arguments), arguments)

    def test_results_of_several_types(self):
        source = "def f(a, k):\n    s = sum(x if x < k else x / 2 for x in a)\n    t = max(x for x in a if x != k)\n    return s + t, s, t\n"
        self.same(source, [([1, 2, 3], 9), ([1, 2, 3], 2), ([1, 2, 3], 0), ([5], 5)])

    def test_one_that_was_never_computed(self):
        made = define("def f(a, n):\n    t = 0\n    for i in range(n):\n        t += i\n    return t if n else sum(x for x in a)\n").f
        self.compiled(made, [1], 5)
        entered = self.jit.stats(made)["entered"]
        self.assertEqual((made([1, 2], 5), made([1, 2], 0)), (10, 3))
        self.assertEqual(self.jit.stats(made)["entered"], entered + 2)
        self.assertEqual((made([1, 2], 0), made([1, 2], 0), made([], 5)), (3, 3, 10))
        self.assertEqual((self.jit.stats(made)["entered"], self.jit.stats(made)["left"]), (entered + 5, 0))
        left = sum(times for _, times in self.jit.stats(made)["places"])
        self.assertEqual(left, 0)

    def test_what_is_not_compiled_in_one_is_left(self):
        source = """
            def f(a, n):
                t = 0
                for i in range(n):
                    t += i
                    if i == 7:
                        t += sum(a.get(x, 1) for x in (1, 2))
                        t += sum(x.real for x in [t])
                    if i == 9:
                        t += len(list(x for x in range(3))) + sum((x for x in range(4)), 5)
                return t
        """
        plain, made = (define(source).f for _ in range(2))
        for _ in range(3):
            self.assertEqual(made({1: 5}, 30_000), plain({1: 5}, 30_000))
        self.assertGreater(self.jit.stats(made)["entered"], 0, self.jit.explain(made))

    def test_a_builtin_that_is_redefined(self):
        made = define("def f(a):\n    return sum(x for x in a), max(x for x in a)\n")
        self.compiled(made.f, [1, 2])
        made.globals["sum"] = list
        self.assertEqual(made.f([1, 2]), ([1, 2], 2))
        made.globals["sum"] = lambda items: next(iter(items))
        self.assertEqual(made.f([1, 2]), (1, 2))


class Variables(TupleCase):
    def test_shared(self):
        source = """
            def f(a, k, m):
                t = 0
                for i in range(3):
                    t += sum(x * k + i for x in a)
                    k = k + m
                return t, sum(x - k for x in a), any(x == m for x in a), k
        """
        self.same(source, [([1, 2], 3, 1), ([0.5], 1, 2), ([], 1, 1), ([1], 2**62, 2**62), ([1, 2], 0.5, 1)])
        self.alike(source, ([1, 2], 3, 1), [([1], None, 1), ([7], 0, 0), ([1.5], 1, None)])

    def test_of_comprehensions(self):
        for text in ("[sum(x * i for x in a) for i in range(n)]", "[i for i in range(n) if any(i == x for x in a)]", "[max(x - k for x in a) for k in a]",
                     "[[sum(x + i for x in r) for r in [a, a[1:]]] for i in range(2)]", "[sum(x * i - j for x in a) for i in range(n) for j in a if j]",
                     "[10 // (x - n) + sum(y - x for y in a) for x in a]"):
            source = f"def f(a, n):\n    i = n\n    b = {text}\n    return b, i, n\n"
            self.same(source, [([1, 2, 3], 4)])
            self.alike(source, ([1, 2, 3], 4), [([1, 2, 3], n) for n in (0, 1, 2, 3, 5)] + [([], 3), ([0.5, 1], 2), ([2**62, 5], 7), ([1, None], 2)])
            self.alike(source.replace("    i = n\n", "").replace(", i,", ","), ([1, 2], 3), [([1, 2], 2), ([2**62], 3), ([5], 5)])
            self.alike(source.replace("    i = n\n", "    i = n\n    t = all(i != x for x in a)\n"), ([1, 2], 3), [([1, 2], 2), ([2**62], 3), ([5], 5)])

    def test_in_closures(self):
        source = """
            def make(n):
                def entry(i, j):
                    return 1.0 / ((i + j) * (i + j + 1) // 2 + i + 1)
                def times(vector):
                    return [sum(entry(i, j) * vector[j] for j in range(n)) for i in range(n)]
                return times
            f = make(5)
        """
        self.same(source, [([1.0] * 5,), ([1] * 5,), ([0.5, 1.5, -1.0, 2.0, 1e300],), ([1.0] * 4,)])

    def test_unbound(self):
        source = "def f(a, n):\n    if n:\n        k = n\n    return sum(x * k for x in a)\n"
        self.alike(source, ([1, 2], 3), [([1, 2], 0), ([], 0), ([1], 2)])

    def test_containers(self):
        source = """
            def f(a, n):
                rows = [a, [n, n]]
                total = sum(rows[i][0] for i in range(2))
                rows = [n]
                rows.append(total)
                return sum(rows[i] * n for i in range(len(rows))), rows, any(x in rows for x in a)
        """
        self.same(source, [([1, 2], 3), ([0.5], 2), ([2**62], 2), ([1], 1.5)])

    def test_what_frames_show(self):
        source = """
            def f(a, k):
                n = 1
                for i in range(3):
                    n += sum(x * k + n for x in a)
                return 10 // (k - 3) + n
        """
        self.same(source, [([1, 2], 3), ([1, 2], 4), ([2**62], 3)])

    def test_cells_are_cells_when_it_is_left(self):
        source = """
            def f(a, k, n):
                t = 0
                for i in range(n):
                    t += sum(x * k for x in a)
                    if t > 1000:
                        h = lambda: (k, t)
                        k = 5
                        return h()
                return t
            def g(a, k, n):
                t = sum(x * k for x in a)
                b = 10**12 * t * t * t
                k += 1
                return sum(x * k for x in a), b
        """
        plain, made = (define(source) for _ in range(2))
        for _ in range(3):
            for name in ("f", "g"):
                for arguments in (([1, 2], 3, 5), ([1, 2], 3, 5000), ([100], 1000, 20)):
                    self.assertEqual(getattr(made, name)(*arguments), getattr(plain, name)(*arguments))
                self.jit.compile_at_next_call(getattr(made, name))
        self.assertGreater(self.jit.stats(made.g)["left"], 0)

    def test_of_enclosing_functions(self):
        source = """
            def make(k):
                def f(a, m):
                    return sum(x * k - m for x in a), max(k - x for x in a)
                return f
            f = make(3)
            def change(k):
                make.k = k
        """
        self.same(source, [([1, 2], 3), ([0.5], 1), ([1], 2**62)])

    def test_running_loops(self):
        found = run_alone("""
            def f(a, n, k):
                t = 0
                for i in range(n):
                    t += sum(x * k + i for x in a) + any(x == t for x in a)
                    k ^= 1
                return t, k
            NUMBERS = [3, 4, 5]
            total = 0
            for i in range(5000):
                total += max(x - i for x in NUMBERS)
            print(f([1, 2, 3], 5000, 2), f([1, 2, 3], 5000, 2), total)
            print(ferrule_jit.stats(f)["entered"] > 0)
        """)
        t, k = 0, 2
        for i in range(5000):
            t += 6 * k + 3 * i + (t in (1, 2, 3))
            k ^= 1
        self.assertEqual(found.splitlines(), [f"({t}, {k}) ({t}, {k}) {sum(5 - i for i in range(5000))}", "True"])


class Left(TupleCase):
    def test_references_are_balanced(self):
        source = """
            def f(rows, n):
                k = n
                t = sum(x // (n - 3) * k for row in rows for x in row)
                t += any(row == n for row in range(3)) + max(len(row) for row in [*rows[:1], *rows])
                return t, all(x for row in rows[1:] for x in [*row] if x)
            def g(rows, n):
                k = n
                t = sum(x // (n - 3) * k for row in rows for x in row)
                return t, any(x == n for row in rows[0:] for x in row), sum(x for p in [(rows, n), (rows, t)] for x in p[0][0])
        """
        made = define(source).g
        self.compiled(made, [[1], [2]], 5)
        row = [1, 2, 2**62]
        rows = [row, row, [7]]
        before = sys.getrefcount(row), sys.getrefcount(rows)
        for n in (3, 5, 7, 2, 3, 10**9, 1) * 20:
            jit_support.what_happens(made, (rows, n))
        gc.collect()
        self.assertEqual((sys.getrefcount(row), sys.getrefcount(rows)), before)

    def test_memory_is_released(self):
        source = "def f(n):\n    t = 0\n    for i in range(n):\n        t += sum(x for p in [[i, 1], [t & 7]] for x in p)\n    return t\n"
        self.releases_memory(define(source).f)

    def test_signals(self):
        source = "def f(n, k):\n    s = sum(i & k for i in range(n))\n    return s, k\n"
        made, plain = define(source).f, define(source).f
        self.compiled(made, 5, 3)
        names = set()

        def look(number, frame):
            names.add(frame.f_code.co_name)
            frame.f_locals.copy()
        with alarms(look, 0.0005):
            for _ in range(5):
                self.assertEqual(made(300_000, 7), plain(300_000, 7))
        self.assertIn("<genexpr>", names)

    def test_an_exception_of_a_handler(self):
        source = "def f(n, k):\n    while True:\n        s = sum(i & k for i in range(n))\n"
        made = define(source).f
        self.jit.compile_at_next_call(made)

        def stop(number, frame):
            raise KeyboardInterrupt
        before = signal.signal(signal.SIGALRM, stop)
        try:
            for _ in range(3):
                signal.setitimer(signal.ITIMER_REAL, 0.02)
                try:
                    made(1000, 3)
                except KeyboardInterrupt as interrupt:
                    self.assertEqual(interrupt.__traceback__.tb_next.tb_frame.f_code.co_name, "f")
        finally:
            signal.signal(signal.SIGALRM, before)

    def test_recursion(self):
        source = "def f(n, k):\n    return 1 + sum(f(m, k) for m in range(n)) if n else k\n"
        self.same(source, [(5, 1), (3, 0.5), (0, 2), (4, 2**61)])
        source = "def f(n, k):\n    return k + max(f(m, k) for m in range(n - 1, n)) if n else k\n"
        plain, made = (define(source).f for _ in range(2))
        self.compiled(made, 5, 1)
        self.assertEqual(made(40, 1), plain(40, 1))
        self.assertRaises(RecursionError, made, 100_000, 1)
        limit = sys.getrecursionlimit()
        sys.setrecursionlimit(300)
        try:
            outcomes = [[jit_support.what_happens(function, (n, 1))[0] for n in range(80, 160)] for function in (plain, made)]
        finally:
            sys.setrecursionlimit(limit)
        self.assertEqual(outcomes[1], outcomes[0])
        self.assertIn("RecursionError: maximum recursion depth exceeded", outcomes[1])

    def test_recursion_that_stores_something(self):
        # What is left in an expression is computed once more, and would store it once more.
        items = """
            calls = []
            def f(n):
                calls.append(1)
                return g(n, calls)
            def g(n, out):
                out.append(1)
                if n[0] == 0: return 2**62 if len(out) % 3 else 5
                n[0] -= 1
                r = sum(CALLEE(n, out) for j in range(n[0] + 2)) % 1000003
                n[0] += 1
                return r
            def other(n, out): return g(n, out)
            def count(): return len(calls)
        """
        cells = """
            def make():
                calls = 0
                def f(n):
                    nonlocal calls
                    calls += 1
                    return 2**62 // (calls % 5 + 1) if n[0] == 0 else sum(f([n[0] - 1]) for j in range(n[0] + 1)) % 1000003
                def count(): return calls
                return f, count
            f, count = make()
            g = f
        """
        for source in items.replace("CALLEE", "g"), items.replace("CALLEE", "other"), cells:
            plain, made = define(source), define(source)
            for turn in range(30):
                if turn == 10:
                    self.jit.compile_at_next_call(made.g)
                n = [turn % 5]
                self.assertEqual((made.f([*n]), made.count()), (plain.f(n), plain.count()))

    def test_functions_that_call_each_other(self):
        made = define("""
            def f(n): return 1 + sum(other(k) for k in range(n)) if n else 1
            def other(n): return f(n)
        """)
        self.compiled(made.f, 6)
        self.assertEqual(made.f(9), 2**9)


class Observed(TupleCase):
    SOURCE = "def f(a, k):\n    t = 0\n    for i in range(5):\n        t += sum(x * k for x in a)\n    return t\n"

    def lines(self, made, start, stop):
        """What a tool sees of calls that begin before, and after, it is there."""
        made([1, 2], 3)
        start()
        try:
            return made([1, 2], 3)
        finally:
            stop()

    def test_tracers(self):
        made, plain = define(self.SOURCE).f, define(self.SOURCE).f
        self.compiled(made, [1, 2], 3)
        found = []
        for function in (plain, made):
            events = []

            def trace(frame, event, argument, events=events):
                events.append((frame.f_code.co_name, event, frame.f_lineno))
                return trace
            self.lines(function, lambda: sys.settrace(trace), lambda: sys.settrace(None))
            found.append([event for event in events if event[0] in ("f", "<genexpr>")])
        self.assertEqual(found[0], found[1])
        self.assertIn("<genexpr>", {name for name, _, _ in found[1]})

    def test_local_events_of_the_generator_alone(self):
        made = define(self.SOURCE).f
        self.compiled(made, [1, 2], 3)
        inner = next(constant for constant in made.__code__.co_consts if hasattr(constant, "co_code"))
        tools, tool, seen = sys.monitoring, 4, []
        tools.use_tool_id(tool, "test")
        try:
            tools.register_callback(tool, tools.events.PY_YIELD, lambda code, offset, value: seen.append(value))
            entered = self.jit.stats(made)["entered"]
            tools.set_local_events(tool, inner, tools.events.PY_YIELD)
            self.assertEqual(made([1, 2], 3), 45)
            self.assertEqual(seen, [3, 6] * 5)
            self.assertEqual(self.jit.stats(made)["entered"], entered)
            tools.set_local_events(tool, inner, 0)
            self.assertEqual(made([1, 2], 3), 45)
            self.assertGreater(self.jit.stats(made)["entered"], entered)
        finally:
            tools.free_tool_id(tool)

    def test_hooks(self):
        import framehook
        made = define(self.SOURCE).f
        self.compiled(made, [1, 2], 3)
        seen = []
        hook = framehook.add(lambda view: seen.append(view.code.co_name))
        try:
            self.assertEqual(made([1, 2], 3), 45)
        finally:
            framehook.remove(hook)
        plain, own = define(self.SOURCE).f, []
        hook = framehook.add(lambda view: own.append(view.code.co_name))
        try:
            plain([1, 2], 3)
        finally:
            framehook.remove(hook)
        wanted = [name for name in own if name in ("f", "<genexpr>")]
        self.assertEqual([name for name in seen if name in ("f", "<genexpr>")], wanted)

    def test_code_that_is_gone(self):
        made = define(self.SOURCE).f
        self.compiled(made, [1, 2], 3)
        other = define(self.SOURCE.replace("x * k", "x - k")).f
        made.__code__ = other.__code__
        self.assertEqual(made([1, 2], 3), other([1, 2], 3))
        self.assertEqual(copy.copy(made)([1, 2], 3), -15)


class Hot(TupleCase):
    """Turns of an expression count for the loops and functions around it."""

    PRIME = "def f(n):\n    return n > 1 and all(n % d for d in range(2, n))\n"

    def test_a_function_without_a_loop_of_its_own(self):
        f = define(self.PRIME).f
        found = [n for n in range(400) if f(n)]
        self.assertTrue(self.jit.stats(f).get("versions"), self.jit.explain(f))
        self.assertEqual(found, [n for n in range(2, 400) if all(n % d for d in range(2, n))])

    def test_few_turns_are_not_worth_it(self):
        f = define(self.PRIME).f
        for _ in range(3000):
            f(4)
        self.assertFalse(self.jit.stats(f).get("versions"), self.jit.explain(f))
        # The hook has given up.
        for n in range(500):
            f(n)
        self.assertFalse(self.jit.stats(f).get("versions"), self.jit.explain(f))

    def test_a_loop_of_few_turns_that_are_long(self):
        source = """
            def f(n):
                total = 0
                for i in range(n):
                    total += sum(i * j for j in range(50))
                return total
        """
        f = define(source).f
        self.assertEqual(f(200), sum(i * j for i in range(200) for j in range(50)))
        self.assertTrue(self.jit.stats(f).get("loops"), self.jit.explain(f))
        # Short ones are entered when they always were.
        short = define(source.replace("50", "2")).f
        short(200)
        self.assertFalse(self.jit.stats(short).get("loops"), self.jit.explain(short))
        short(2000)
        self.assertTrue(self.jit.stats(short).get("loops"), self.jit.explain(short))

    def test_a_function_that_calls_itself(self):
        f = define("def f(n):\n    return 1 + max(f(k) for k in range(n)) if n else 0\n").f
        self.assertEqual(f(11), 11)
        # As other functions that call themselves, after few calls: it is compiled, or known why it is not.
        self.assertTrue(self.jit.stats(f).get("versions") or self.jit.stats(f).get("refused"), self.jit.explain(f))

    def test_turns_of_a_function_within_do_not_count(self):
        source = """
            def f(n, m):
                def inner(k):
                    t = 0
                    for i in range(k):
                        t += any(q for q in range(1))
                    return t
                total = inner(m)
                for i in range(n):
                    total += sum(k for k in range(2))
                return total
        """
        for m in (40, 1500):
            f = define(source).f
            f(100, m)
            self.assertFalse(self.jit.stats(f).get("loops"), self.jit.explain(f))
            f(2000, 0)
            self.assertTrue(self.jit.stats(f).get("loops"), self.jit.explain(f))
