"""Builtin functions and those of math, at the edges of numbers."""

import itertools

import jit_support
from generator import FLOATS, INTS
from jit_support import Case

setUpModule = jit_support.load


EDGES = [0, 1, -1, 2, -3, 7, -8, 64, 257, 2**31, 2**53 + 1, 2**62, 2**63 - 1, -2**63, 2**63]
SMALL = [0, 1, -1, 2, 5, -7, 20, 21, 34, 66, 70]
SOME_FLOATS = [0.0, -0.0, 1.0, -1.5, 2.5, 3.5, 0.5, 2.0**63, 1e308, 5e-324, float("inf"), float("-inf"), float("nan")]
MIXED = [0, 1000, -1000, 2**53 + 1, True, False, 0.0, -0.0, 1000.0, float("nan"), float("inf")]


class Builtins(Case):
    def pairs(self, call, values, others):
        source = f"import math\ndef f(a, b):\n    return {call}(a, b)\n"
        self.check(source, "f", list(itertools.product(values, others)), identity=False)

    def test_functions_of_math_of_one_argument(self):
        for name in ("exp2", "expm1", "log", "log2", "log10", "log1p", "cbrt", "asinh", "acosh", "atanh", "degrees", "radians", "trunc",
                     "isnan", "isinf", "isfinite"):
            values = [(n,) for n in [*FLOATS, 0, -1, 2, 2**62, True, 710.0]]
            self.check(f"import math\ndef f(a):\n    return math.{name}(a)\n", "f", values)

    def test_functions_of_math_of_two_arguments(self):
        for name in ("atan2", "fmod", "pow", "copysign", "log"):
            self.pairs(f"math.{name}", [*SOME_FLOATS, 3, -2, True], [*SOME_FLOATS, 2, 0])

    def test_functions_of_math_of_ints(self):
        for name in ("gcd", "lcm"):
            self.pairs(f"math.{name}", EDGES, [*EDGES, True])
        self.pairs("math.comb", SMALL, SMALL)
        for name in ("isqrt", "factorial"):
            values = [(n,) for n in (INTS if name == "isqrt" else SMALL)]
            self.check(f"import math\ndef f(a):\n    return math.{name}(a)\n", "f", values)

    def test_divmod(self):
        self.pairs("divmod", EDGES, [*EDGES, True])
        self.pairs("divmod", SOME_FLOATS, [*SOME_FLOATS, 2, 0])
        self.check("def f(a, b):\n    x, y = divmod(a, b)\n    return x * 7 + y\n", "f", list(itertools.product(SMALL, SMALL)))

    def test_pow(self):
        self.pairs("pow", [0, 1, -1, 2, -3, 2**31], [0, 1, 2, 63, -1])
        self.pairs("pow", SOME_FLOATS, [0.5, 2.0, -1.5, 2, float("nan")])
        source = "def f(a, b, c):\n    return pow(a, b, c)\n"
        self.check(source, "f", list(itertools.product([0, 3, -7, 2**63 - 1, -2**63], [0, 1, 5, 2**62, -1], [1, -1, 7, -10, 0, 2**62 + 1, -2**63])))

    def test_round(self):
        self.check("def f(a):\n    return round(a)\n", "f", [(n,) for n in [*FLOATS, *SOME_FLOATS, *EDGES, True, False]])

    def test_sum_of_a_range(self):
        values = [-7, 0, 1, 5, 1000]
        self.check("def f(a, b, c):\n    return sum(range(a, b, c))\n", "f", list(itertools.product(values, values, (1, 3, -1, -2, 0))))
        self.check("def f(a):\n    return sum(range(2**62, 2**62 + a))\n", "f", [(0,), (1,), (2,), (3,)])
        self.check("def f(a, b):\n    return sum((a, b, 5))\n", "f", list(itertools.product([*EDGES, True], EDGES)))

    def test_min_and_max_of_several_arguments_and_types(self):
        for name in ("min", "max"):
            self.pairs(name, MIXED, MIXED)
            source = f"def f(a, b, c):\n    return {name}(a, b, c)\n"
            self.check(source, "f", list(itertools.product([0, 1000, -2**62], repeat=3)))
            self.check(source, "f", list(itertools.product([0.0, -0.0, float("nan")], repeat=3)))

    def test_types_without_an_argument(self):
        self.check("def f(a):\n    return int() + a, float() + a, bool() or a, -float()\n", "f", [(3,), (2**63 - 1,)])
