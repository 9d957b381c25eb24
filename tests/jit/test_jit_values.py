"""Numbers at their edges: what compiled code computes is what the interpreter computes, or the interpreter computes it."""

import itertools

import jit_support
from generator import FLOATS, INTS
from jit_support import Case

setUpModule = jit_support.load


EDGES = [0, 1, -1, 2, -3, 7, -8, 63, 64, 256, 257, 2**31, 2**53, 2**53 + 1, -2**53 - 1, 2**62, 2**63 - 1, -2**63, 2**63, -2**64]
SOME_FLOATS = [0.0, -0.0, 1.0, -1.5, 2.0**53, 2.0**63, -2.0**63, 1e308, 5e-324, float("inf"), float("-inf"), float("nan")]


class Values(Case):
    def pairs(self, operators, values, others):
        left = 0
        for operator in operators:
            source = f"def f(a, b):\n    return a {operator} b\n"
            left += self.check(source, "f", [(a, b) for a in values for b in others], identity=False)
        return left

    def test_ints(self):
        left = self.pairs(["+", "-", "*"], EDGES, EDGES)
        self.assertGreater(left, 0)  # some overflow
        self.pairs(["//", "%", "/", "&", "|", "^"], EDGES, EDGES)

    def test_shifts(self):
        self.pairs(["<<", ">>"], EDGES, [0, 1, 2, 31, 62, 63, 64, 65, -1])

    def test_powers(self):
        self.pairs(["**"], [0, 1, -1, 2, -2, 3, 10, 2**31, 2**32, -2**63, 2**63], [0, 1, 2, 3, 62, 63, 64, -1])
        self.pairs(["**"], SOME_FLOATS, [0, 1, 2, 3, -1, 0.5, 2.0, -1.5, 1e300, float("nan")])
        self.check("def f(a): return a ** 2", "f", [(n,) for n in [*EDGES, *SOME_FLOATS]])

    def test_floats(self):
        self.pairs(["+", "-", "*", "/", "//", "%"], SOME_FLOATS, SOME_FLOATS)

    def test_ints_with_floats(self):
        for operator in ("+", "/", "//", "%", "<", "==", ">="):
            self.pairs([operator], EDGES, [0.0, -0.0, 0.5, 2.0**53, 2.0**53 + 2, 2.0**63, float("nan"), float("inf")])
            self.pairs([operator], [0.5, -0.0, 2.0**53, -2.0**63, float("nan")], EDGES)

    def test_comparisons(self):
        self.pairs(["<", "<=", "==", "!=", ">", ">="], EDGES, EDGES)
        self.pairs(["<", "<=", "==", "!=", ">", ">="], SOME_FLOATS, SOME_FLOATS)

    def test_bools_are_ints_that_stay_bools(self):
        values = [True, False, 1, 0, 2, -1, 1.0]
        self.pairs(["+", "-", "*", "&", "|", "^", "<<", "<", "=="], values, values)
        self.check("def f(a): return -a, +a, not a", "f", [(v,) for v in values])

    def test_divisors_that_are_known(self):
        for divisor in (1, 2, 8, -1, -2, 3, -7, 10, 2**40, 0):
            self.check(f"def f(a):\n    return a // {divisor}, a % {divisor}\n", "f", [(n,) for n in EDGES])

    def test_one_operand(self):
        for source in ("-a", "+a", "not a", "abs(a)", "int(a)", "float(a)", "bool(a)", "~a"):
            self.check(f"def f(a):\n    return {source}\n", "f", [(n,) for n in [*INTS, *FLOATS, True, False] if not (
                source == "~a" and isinstance(n, bool))])

    def test_functions_of_math(self):
        for name in ("sqrt", "fabs", "floor", "ceil", "sin", "cos", "tan", "exp", "asin", "acos", "atan", "sinh", "cosh", "tanh"):
            self.check(f"import math\ndef f(a):\n    return math.{name}(a)\n", "f", [(n,) for n in [*FLOATS, 0, -1, 2, 2**62, True, 710.0]])

    def test_min_and_max_keep_the_first_of_equals(self):
        for name in ("min", "max"):
            source = f"def f(a, b):\n    return {name}(a, b)\n"
            self.check(source, "f", list(itertools.product([0, 1000, -1000, 2**62], repeat=2)))
            self.check(source, "f", list(itertools.product([0.0, -0.0, 1.5, float("nan"), float("inf")], repeat=2)))

    def test_ranges(self):
        source = "def f(a, b, c):\n    total = last = 0\n    for last in range(a, b, c):\n        total = total * 31 + last\n    return total, last\n"
        values = [-7, -1, 0, 1, 5]
        self.check(source, "f", [(a, b, c) for a in values for b in values for c in (1, 2, 3, -1, -2, 0)])
        ends = [(2**63 - 3, 2**63 - 1, 1), (2**63 - 3, 2**63 - 1, 5), (-2**63, -2**63 + 2, 1), (-2**63, 2**63 - 1, 2**62),
                (2**63 - 1, -2**63, -2**62), (0, 2**63, 2**62)]
        self.check(source, "f", ends)
        down = "def f(a, b):\n    total = 0\n    for i in range(a, b, -2):\n        total = total * 31 + i\n    return total\n"
        self.check(down, "f", [(a, b) for a in values for b in values] + [(2**63 - 1, 2**63 - 6), (-2**63 + 3, -2**63)])

    def test_the_iterator_is_rebuilt_in_the_middle(self):
        source = """
            def f(n, at):
                total = 0
                for i in range(0, n, 3):
                    for j in range(10, 0, -2):
                        total += i * j
                        if i == at:
                            total += 2**62
                            total += 2**62
                return total, i, j
        """
        self.assertGreater(self.check(source, "f", [(n, at) for n in (1, 10, 20) for at in (0, 6, 9, 18)]), 0)

    def test_identity(self):
        big, real = 10**9, 1.25
        source = """
            def same(x): return x
            def moved(x, y):
                x, y = y, x
                return x
            def looped(x):
                for i in range(3):
                    y = x
                return y
            def maybe(x):
                if x > 5:
                    x = x + 1
                return x
            def through(x): return same(x)
            def constant(x): return 123456789
            def constant_float(x): return 1.25
        """
        for name in ("same", "looped", "maybe", "through"):
            self.check(source, name, [(big,), (real,), (1,), (-10**15,), (2.5,)])
        self.check(source, "moved", [(big, real), (real, big)])
        for name in ("constant", "constant_float"):
            made = self.compiled(getattr(jit_support.define(source), name), 1)
            self.assertIs(made(1), made(1))

    def test_two_variables_are_one_object_after_an_exit(self):
        source = """
            def f(a, b):
                x = y = a * 1.5
                return 1 // b
        """
        made = self.compiled(jit_support.define(source).f, 2.0, 1)
        try:
            made(2.0, 0)
        except ZeroDivisionError as error:
            found = error.__traceback__.tb_next.tb_frame.f_locals
            self.assertIs(found["x"], found["y"])
        else:
            self.fail("nothing was raised")

    def test_types_that_change_within_a_loop(self):
        source = """
            def f(n, step):
                total = 0
                for i in range(n):
                    total += step
                    if i == 3:
                        step = step * 0.5
                return total
        """
        self.check(source, "f", [(n, step) for n in (0, 1, 5, 9) for step in (1, 2.5, True, 2**61)])
