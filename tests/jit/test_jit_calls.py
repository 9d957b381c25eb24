"""Calls between compiled functions, and from outside: keywords, defaults, keyword-only parameters; functions that call each other."""

import gc
import sys
import weakref

import jit_support
from jit_support import Case, define, what_happens

setUpModule = jit_support.load


CALLS = """
    def scaled(a, b=3, *, c=10, d):
        return a * b + c - d
    def f(n):
        total = 0
        for i in range(n):
            total += scaled(i, d=2) + scaled(b=i, a=2, d=i, c=1) + scaled(i, 7, d=5)
        return total
"""


class Defaults(Case):
    def made(self, source=CALLS, *arguments):
        space = define(source)
        self.compiled(space.f, *arguments or (10,))
        return space

    def entered(self, function):
        return self.jit.stats(function)["entered"]

    def check_changes(self, change):
        """A function gives what it gives without the compiler, before and after a change of its callee."""
        plain, made = define(CALLS), self.made()
        self.assertEqual(made.f(10), plain.f(10))
        before = self.entered(made.f)
        for space in (plain, made):
            change(space.scaled)
        for _ in range(2):
            outcomes = [what_happens(space.f, (10,)) for space in (plain, made)]
            self.assertEqual(outcomes[0], outcomes[1])
        return self.entered(made.f) - before

    def test_calls_are_compiled(self):
        self.check(CALLS, "f", [(1,), (10,)])
        space = self.made()
        entered = self.entered(space.f)
        space.f(10)
        self.assertEqual((self.entered(space.f), self.jit.stats(space.f)["left"]), (entered + 1, 0))

    def test_defaults_are_assigned(self):
        self.assertGreater(self.check_changes(lambda scaled: setattr(scaled, "__defaults__", (5,))), 0)
        self.assertGreater(self.check_changes(lambda scaled: setattr(scaled, "__defaults__", (1, 5))), 0)
        self.check_changes(lambda scaled: setattr(scaled, "__defaults__", (0.5,)))
        self.check_changes(lambda scaled: setattr(scaled, "__defaults__", ("text",)))
        self.check_changes(lambda scaled: setattr(scaled, "__defaults__", ([],)))

    def test_defaults_are_removed(self):
        self.check_changes(lambda scaled: setattr(scaled, "__defaults__", None))
        self.check_changes(lambda scaled: setattr(scaled, "__kwdefaults__", None))

    def test_keyword_defaults_are_changed_in_place(self):
        self.assertGreater(self.check_changes(lambda scaled: scaled.__kwdefaults__.update(c=100)), 0)
        self.check_changes(lambda scaled: scaled.__kwdefaults__.clear())
        self.check_changes(lambda scaled: setattr(scaled, "__kwdefaults__", {"c": 2**70, "d": 1}))

    def test_an_equal_default_is_another_object(self):
        space = self.made("def g(x=1.5): return x\ndef f(n):\n    for i in range(n): y = g()\n    return y\n")
        for value in (float("2.5"), float("2.5")):
            space.g.__defaults__ = (value,)
            self.assertIs(space.f(3), value)

    def test_a_callee_changes_its_defaults(self):
        source = """
            def g(n, step=1):
                if n == 7 and step == 1: g.__defaults__ = (1000,)
                return n + step
            def f(n):
                total = 0
                for i in range(n): total += g(i)
                return total
        """
        self.assertEqual(define(source).f(20), sum(range(20)) + 8 + 12 * 1000)
        space = define(source)
        self.jit.compile_at_next_call(space.f)
        self.assertEqual(space.f(20), sum(range(20)) + 8 + 12 * 1000)

    def test_recursion_with_a_default(self):
        self.check("def f(n, total=0, *, step=1):\n    if n <= 0: return total\n    return f(n - 1, step=step + 1, total=total + step)\n",
                   "f", [(5, 0)])
        space = self.made("def f(n, total=0):\n    if n <= 0: return total\n    return f(n - 1) + 1\n")
        self.assertEqual(space.f(10), 10)
        space.f.__defaults__ = (5,)
        self.assertEqual(space.f(10), 15)

    def test_a_sum_that_starts_with_an_int(self):
        source = """
            def part(pair):
                k, items = pair
                total = 0
                for x in items:
                    total += x * k
                return total

            def f(a, n):
                t = 0
                for k in range(n):
                    t += part((k, a))
                return t, [part((k, a)) for k in range(3)]
        """
        made = self.running(source, [0.5] * 300, 9)
        made = define(source)
        cases = [([0.5, 1.5], 4), ([], 3), ([1, 2], 4), ([0.5, 2], 3), ([1, 0.5], 2), ([0.5], 0), ([True, 0.5], 2), ([2**62, 2**62], 3)]
        for content, n in [*cases, *cases]:
            plain = define(source).f
            self.jit.compile_at_next_call(made.f)
            self.assertEqual(jit_support.what_happens(made.f, (content, n)), jit_support.what_happens(plain, (content, n)), (content, n))
        made = define(source)
        self.compiled(made.f, [0.5] * 3, 3)
        self.assertIn("-> float", self.jit.explain(made.part))
        before = self.jit.stats(made.f)["left"]
        made.f([0.5] * 3, 9)
        self.assertEqual(self.jit.stats(made.f)["left"], before)

    def test_a_recursion_returns_ints_and_floats(self):
        for source in ("def f(n, x):\n    if n < 2: return {}\n    return f(n - 1, x) * 2 + f(n - 2, x)\n",
                       "def f(n, x):\n    if n & 1: return f(n - 1, x)\n    if n < 2: return {}\n    return f(n - 2, x) / 2\n",
                       "def f(n, x):\n    if n > 9: return 1\n    if n < 2: return {}\n    return f(n - 1, x)\n"):
            for value in ("0.5", "x", "1 if x else 0.5", "None if x > 5 else 1.5"):
                self.check(source.format(value), "f", [(n, x) for n in (1, 8, 11) for x in (0, 7)])

    def test_containers_in_tuples_are_of_one_type(self):
        source = "def f(pair):\n    k, items = pair\n    t = 0\n    for x in items:\n        t = t + x * k\n    return t\n"
        made = define(source).f
        self.compiled(made, (1, [1, 2]))
        self.compiled(made, (1, [0.5, 2.5]))
        before = self.jit.stats(made)
        for _ in range(20):
            self.assertEqual((made((2, [3, 4])), made((2, [0.5, 1.5])), made((2, []))), (14, 4.0, 0))
        after = self.jit.stats(made)
        self.assertEqual(after["left"], before["left"])
        self.assertGreater(after["entered"], before["entered"] + 38)

    def test_wrong_arguments(self):
        for call in ("g(1)", "g(1, 2, 3, 4)", "g(1, 2, a=1)", "g(1, 2, z=1)", "g(1, b=2, c=3, d=4)", "g(a=1)", "g(*(1, 2), c=3)", "g(**{'a': 1})"):
            source = f"def g(a, b, *, c=3): return a + b + c\ndef f(n):\n    for i in range(n): {call}\n    return n\n"
            plain, space = define(source), define(source)
            self.jit.compile_at_next_call(space.f)
            for n in (0, 3, 3):
                self.assertEqual(what_happens(space.f, (n,)), what_happens(plain.f, (n,)), call)

    def test_what_is_called_with_a_default_is_left(self):
        self.check("""
            def g(a, b=0):
                c = a + 1
                return c // b
            def f(n, d):
                total = 0
                for i in range(n): total += g(a=i + d, b=3 - i) + g(5, b=1)
                return total + g(n, d)
        """, "f", [(2, 1), (6, 1), (2, 0), (2, 2**63 - 1)])

    def test_from_outside(self):
        space = define("def f(n, step=2, *, start=0, scale):\n    for i in range(n): start += step * scale\n    return start\n")
        calls = [((3,), {"scale": 1}), ((), {"scale": 2, "n": 4}), ((3, 1), {"start": 5, "scale": 0}), ((1,), {"step": 9, "scale": 3})]
        expected = [space.f(*positional, **keywords) for positional, keywords in calls]
        self.jit.compile_at_next_call(space.f)
        self.assertEqual([space.f(*positional, **keywords) for positional, keywords in calls], expected)
        self.assertGreaterEqual(self.entered(space.f), len(calls))
        # Keywords that are equal, but other objects than the names of the code.
        self.assertEqual(space.f(**{"".join(["n", ""]): 3, "".join(["sca", "le"]): 1}), 6)
        for positional, keywords in [((3,), {}), ((), {"scale": 1}), ((1, 2, 3), {"scale": 1}), ((1,), {"n": 1, "scale": 1}),
                                     ((1,), {"scale": 1, "other": 2})]:
            self.assertRaises(TypeError, space.f, *positional, **keywords)
        space.f.__kwdefaults__ = {"start": 100, "scale": 1}
        space.f.__defaults__ = (1,)
        self.assertEqual(space.f(3), 103)

    def test_positional_only_parameters(self):
        space = define("def f(n, /, m=1, *, n_=2):\n    for i in range(n): m += n_\n    return m\n")
        self.compiled(space.f, 3)
        self.assertEqual((space.f(3), space.f(3, m=2), space.f(3, n_=0)), (7, 8, 1))
        self.assertRaises(TypeError, lambda: space.f(n=3))

    def test_a_method_with_defaults(self):
        space = define("""
            class Sums:
                def of(self, n, step=1, *, more=0):
                    total = 0
                    for i in range(n): total += step + more
                    return total
        """)
        sums = space.Sums()
        self.assertEqual((sums.of(3), sums.of(3, more=2), sums.of(n=4)), (3, 9, 4))
        self.jit.compile_at_next_call(space.Sums.of)
        self.assertEqual((sums.of(3), sums.of(3, more=2), sums.of(n=4)), (3, 9, 4))
        self.assertEqual(self.entered(space.Sums.of), 3)

    def test_defaults_are_not_kept_alive_by_code_that_goes_away(self):
        space = self.made()
        weak = weakref.ref(space.scaled)
        del space
        gc.collect()
        self.assertIsNone(weak())


EVEN = """
    def is_even(n):
        if n == 0: return True
        return is_odd(n - 1)
    def is_odd(n):
        if n == 0: return False
        return is_even(n - 1)
"""


def other_constant(code):
    return code.replace(co_consts=tuple("replaced" if constant is False else constant for constant in code.co_consts))


class Circles(Case):
    """Functions that call each other."""

    def test_two_functions(self):
        self.check(EVEN, "is_even", [(1,), (2,), (99,)])
        self.check("""
            def female(n): return 1 if n == 0 else n - male(female(n - 1))
            def male(n): return 0 if n == 0 else n - female(male(n - 1))
        """, "female", [(1,), (2,), (20,)])
        self.check("""
            def ackermann(m, n):
                if m == 0: return n + 1
                return other(m - 1, 1) if n == 0 else other(m - 1, other(m, n - 1))
            def other(m, n):
                if m == 0: return n + 1
                return ackermann(m - 1, 1) if n == 0 else ackermann(m - 1, ackermann(m, n - 1))
        """, "ackermann", [(2, 5), (1, 9), (2, 30)])

    def test_they_are_compiled_after_some_calls(self):
        space = define(EVEN)
        for n in range(100):
            self.assertIs(space.is_even(n), n % 2 == 0)
        self.assertGreater(self.jit.stats(space.is_even)["entered"], 10, self.jit.explain(space.is_even))

    def test_three_functions_of_several_types(self):
        source = """
            def f(n, x): return x if n <= 0 else g(n - 1, x) + 0.5
            def g(n, x): return n if n <= 0 else h(n - 1, x) * 2
            def h(n, x): return f(n - 1, x) if n > 0 else None
        """
        self.check(source, "f", [(4, 1), (3, 1.5), (9, 2), (7, 2), (0, 1.0)][:3])
        plain, made = define(source), define(source)
        for n in range(12):
            self.jit.compile_at_next_call(made.f)
            for x in (1, 2.5, 2**62):
                self.assertEqual(what_happens(made.f, (n, x)), what_happens(plain.f, (n, x)))

    def test_an_exception_in_the_depth(self):
        self.check("""
            def f(n, d):
                before = n * 2
                return g(n - 1, d) + before // (n + d)
            def g(n, d):
                if n < -2: return 5
                return f(n - 1,
                         d) - n
        """, "f", [(6, 100), (6, -4), (6, 2), (6, 2**63 - 8)])

    def test_one_of_them_is_replaced(self):
        for change in (lambda space: space.globals.update(is_odd=lambda n: "replaced"),
                       lambda space: setattr(space.is_odd, "__code__", (lambda n: "replaced").__code__),
                       lambda space: setattr(space.is_odd, "__code__", space.is_odd.__code__.replace(co_name="other")),
                       lambda space: setattr(space.is_odd, "__code__", other_constant(space.is_odd.__code__)),
                       lambda space: space.globals.update(is_odd=None),
                       lambda space: space.globals.pop("is_odd")):
            plain, made = define(EVEN), define(EVEN)
            self.compiled(made.is_even, 10)
            for space in (plain, made):
                change(space)
            for n in (0, 1, 2, 11):
                self.assertEqual(what_happens(made.is_even, (n,)), what_happens(plain.is_even, (n,)), n)

    def test_one_replaces_the_other_meanwhile(self):
        source = """
            def f(n):
                if n == 5: change()
                return 0 if n <= 0 else g(n - 1) + 1
            def g(n):
                return 0 if n <= 0 else f(n - 1) + 1
            def change():
                g.__code__ = (lambda n: f(n - 1) + 1000 if n > 0 else 0).__code__
        """
        plain, made = define(source), define(source)
        self.jit.compile_at_next_call(made.f)
        for n in (3, 4, 9, 9, 3):
            self.assertEqual(made.f(n), plain.f(n))

    def test_the_recursion_limit(self):
        plain, made = define(EVEN), define(EVEN)
        self.compiled(made.is_even, 10)
        def deepest(function):
            low, high = 1, 3 * sys.getrecursionlimit()
            while high - low > 1:
                middle = (low + high) // 2
                try:
                    function(middle)
                    low = middle
                except RecursionError:
                    high = middle
            return low
        self.assertEqual(deepest(made.is_even), deepest(plain.is_even))
        self.assertIs(made.is_even(20), True)

    def test_a_tool_that_comes_gets_the_calls(self):
        space = define(EVEN)
        self.compiled(space.is_even, 10)
        seen = []
        sys.setprofile(lambda frame, event, argument: seen.append(frame.f_code.co_name) if event == "call" else None)
        try:
            space.is_even(5)
        finally:
            sys.setprofile(None)
        self.assertEqual(seen, ["is_even", "is_odd"] * 3)

    def test_all_of_them_go_away(self):
        space = define(EVEN)
        for function in (space.is_even, space.is_odd):
            self.compiled(function, 10)
        codes = [weakref.ref(function.__code__) for function in (space.is_even, space.is_odd)]
        mapped = self.jit.stats()
        del space, function
        gc.collect()
        self.assertEqual([code() for code in codes], [None, None])
        self.assertNotEqual(self.jit.stats(), mapped)
