"""Range analysis: checks that cannot fail are gone, and the others are not, at the ends of all intervals."""

import copy
import itertools

import jit_support
from jit_support import Case, define

setUpModule = jit_support.load


LEAST, MOST = -2**63, 2**63 - 1
INTERVALS = [(0, 1), (-1, 1), (-8, 7), (1, 255), (0, 2**32 - 1), (1, 2**31), (-2**62, 2**62), (2, 2**62), (LEAST, -1), (LEAST, LEAST + 1),
             (MOST - 1, MOST), (LEAST, MOST)]
OPERATIONS = ["a + b", "a - b", "a * b", "a // b", "a % b", "a & b", "a | b", "a ^ b", "a << b if b < 66 else b", "a >> b", "min(a, b)", "max(a, b)",
              "a < b", "a == b", "abs(a) - b", "-a + b", "~a", "a / b"]


def inside(low, high):
    """The ends of an interval, and numbers near them and near 0."""
    near = [low, low + 1, low + 2, high - 2, high - 1, high, -2, -1, 0, 1, 2, 3, 5, 62, 63, 64, 2**31, 2**32, 2**53]
    return sorted({number for number in near if low <= number <= high})


def outcome(function, *arguments):
    try:
        result = function(*copy.deepcopy(arguments))
    except Exception as error:
        return repr(error)
    return type(result), repr(result)


class Bounds(Case):
    def same(self, source, argument_lists):
        """Each call of `f` does what it does interpreted, and compiled code is entered, unless all of them raise."""
        plain, made = define(source).f, define(source).f
        fitting = [arguments for arguments in argument_lists if type(outcome(plain, *arguments)) is tuple]
        if not fitting:
            return
        self.compiled(made, *fitting[0])
        for arguments in argument_lists:
            wanted = outcome(plain, *arguments)
            self.assertEqual(outcome(made, *arguments), wanted, (source, arguments))
        self.assertGreater(self.jit.stats(made)["entered"], 0, source)

    def code(self, source, *arguments):
        """Cranelift's IR of `f`, and its machine code."""
        made = define(source).f
        self.compiled(made, *arguments)
        ir, _, machine = self.jit.dump(made).partition("\n}\n")
        return ir, machine

    def test_operators_on_bounded_operands(self):
        for (low, high), (least, most) in itertools.product(INTERVALS, INTERVALS):
            cases = "".join(f"        if which == {index}:\n            return {operation}\n" for index, operation in enumerate(OPERATIONS))
            source = f"def f(a, b, which):\n    if {low} <= a <= {high} and b >= {least} and not b > {most}:\n{cases}    return None\n"
            pairs = list(itertools.product(inside(low, high), inside(least, most)))[::5]
            outer = [(a, b) for a in (low - 1, high + 1) for b in (least - 1, most + 1) if LEAST <= a <= MOST and LEAST <= b <= MOST]
            self.same(source, [(*pair, which) for pair in [*pairs, *outer] for which in range(len(OPERATIONS))])

    def test_results_that_are_used_again(self):
        for operation in ("a % 7", "a % -7", "a // 10", "a & 255", "a >> 60", "(a & 15) * (b & 15) - 100", "min(max(a, -5), 5)", "abs(a % 100)", "a % 8 - 4",
                          "(a % 1000) // 3", "a // 2**32", "(a & 3) << 2", "(a % 3) ** 2", "-(a % 5)", "~(a & 7)", "len(xs) - (a & 1)"):
            for use in ("x * x + b", "x + 2**62", "x << 61", "x - 2**62 - 2**62", "1 << x % 70", "xs[x]", "b // x", "b % x", "x / 3", "x * 2**58"):
                source = f"def f(a, b, xs):\n    x = {operation}\n    return {use}\n"
                numbers = [0, 1, -1, 2, 7, -7, 10, -10, 99, 255, -256, 2**31, 2**32 + 5, -2**32 - 5, 2**61, -2**62, LEAST, LEAST + 1, MOST, MOST - 1]
                self.same(source, [(a, b, [1, 2, 3, 4]) for a in numbers for b in (3, -1, MOST, LEAST)])

    def test_remainders_and_quotients_by_constants(self):
        ends = [0, 1, 2, 3, 2**31 - 1, 2**31, 2**32 - 1, 2**32, 2**32 + 1, MOST, MOST - 1]
        for divisor in (3, 5, 7, 10, 641, 1000, 2**16 + 1, 2**31 - 1, 2**31 + 1, 2**32 - 1, 2**32 - 5, 2**32 + 1, 6700417, -3, -10):
            multiples = [k * divisor + d for k in (1, 2, 99, (2**32 - 1) // abs(divisor)) for d in (-1, 0, 1)]
            numbers = [sign * n for n in [*ends, *multiples] for sign in (1, -1) if LEAST <= sign * n <= MOST]
            self.same(f"def f(a):\n    return a // {divisor}, a % {divisor}\n", [(n,) for n in [*numbers, LEAST]])
            self.same(f"def f(a):\n    return divmod(a & 0xffffffff, {divisor})\n", [(n,) for n in numbers])

    def test_loops(self):
        heads = ["while n < {0}", "while n > {0}", "while n != {1}", "while s < 1000", "for n in range({0}, {1})", "for n in range({0}, {1}, -1)",
                 "for n in range({0}, {1}, 3)", "for n in reversed(range({0}, {1}))"]
        bodies = ["n += {1}; s = s * 3 + n & 0xffff", "n -= {1}; s ^= n", "s += n * n", "s -= n << 1", "n = n * {1} + 1",
                  "s += 1 + (n & 1); n = n * {1} + {0} & 0xffffffff"]
        numbers = [(0, 1), (40, 7), (-40, 40), (2**31, 2**31 + 40), (2**62, 2**61 + 1), (MOST - 5, MOST), (MOST, MOST - 5), (LEAST, LEAST + 5),
                   (LEAST + 5, LEAST), (3037000490, 3037000505), (MOST - 1, 2)]
        for head, body, (p, q) in itertools.product(heads, bodies, numbers):
            text = f"{head}: turns += 1; {body}".format(p, q)
            source = f"def f(n, s):\n    turns = 0\n    {text}\n        if turns > 50:\n            break\n    return n, s, turns\n"
            source = source.replace(": turns", ":\n        turns").replace("; ", "\n        ")
            self.same(source, [(0, 0), (p, 1), (1, MOST), (-1, LEAST), (q, q)])

    def test_ranges_with_ends_at_the_limits(self):
        source = "def f(a, b, c):\n    s = last = turns = 0\n    for last in range(a, b, c):\n        turns += 1\n        s = s ^ last * 2 + 1\n" \
                 "        if turns > 20:\n            break\n    return s, last, turns\n"
        steps = [1, 2, 2**62, MOST]
        ends = [0, 5, -5, MOST, MOST - 3, LEAST, LEAST + 3, 2**62]
        self.same(source, [(a, b, c) for a in ends for b in ends for c in steps])
        for step in (1, 2, 2**62, MOST, -1, -2, -2**62, LEAST):
            self.same(source.replace("b, c)", f"b, {step})", 2).replace(f"f(a, b, {step})", "f(a, b)"), [(a, b) for a in ends for b in ends])

    def test_loops_that_are_left_and_entered_again(self):
        source = "def f(a, b):\n    s = turns = 0\n    for i in range(a, b):\n        turns += 1\n        if turns == 5:\n            s = s + 2**63 - 2**63\n" \
                 "        if turns > 9:\n            break\n        s ^= i\n    return s, turns, i\n"
        ends = [0, 7, -5, MOST, MOST - 12, LEAST, LEAST + 12]
        self.jit.enable(turns=2)
        self.addCleanup(self.jit.enable)
        for a, b in itertools.product(ends, ends):
            plain, made = define(source).f, define(source).f
            self.jit.disable()
            wanted = outcome(plain, a, b)
            self.jit.enable(turns=2)
            for _ in range(3):
                self.assertEqual(outcome(made, a, b), wanted, (a, b))

    def test_indices(self):
        for index in ("i", "i - 1", "i + 1", "-i", "~i", "i % 4", "i & 3", "i - 4", "i // 2", "-1 - i", "len(xs) - 1 - i", "i * i"):
            source = f"def f(xs, n):\n    s = 0\n    for i in range(n):\n        s = s * 10 + xs[{index}]\n    return s\n"
            store = f"def f(xs, n):\n    for i in range(n):\n        xs[{index}] = i\n    return xs\n"
            for make in (lambda size: list(range(size)), lambda size: bytearray(range(size))):
                for text in (source, store):
                    plain, made = define(text).f, self.compiled(define(text).f, make(9), 2)
                    for size, turns in itertools.product(range(7), range(8)):
                        self.assertEqual(outcome(made, make(size), turns), outcome(plain, make(size), turns), (text, size, turns))

    def test_a_list_that_shrinks_in_a_loop(self):
        self.same("def f(xs):\n    s = 0\n    for i in range(len(xs)):\n        s += xs[i]\n        if i % 2:\n            xs.pop()\n    return s\n",
                  [([1],), ([1, 2, 3],), ([1] * 10,), ([],)])

    def test_negative_zero(self):
        zeros = [0.0, -0.0, 1.0, -1.0]
        self.same("def f(x):\n    if 0.0 <= x <= 0.0:\n        return x, -x, x * -1.0, x + 0.0, abs(x)\n    return None\n", [(x,) for x in zeros])
        self.same("def f(x, n):\n    for i in range(n):\n        x = x * (i - 1)\n    return x\n", [(x, n) for x in zeros for n in range(4)])

    def test_branches_that_are_never_taken(self):
        self.same("def f(a):\n    if a > 5:\n        if a < 3:\n            return a // 0\n        return a\n"
                  "    if a == 5 and a != 5:\n        a = None + 1\n    return -a\n",
                  [(n,) for n in (LEAST + 1, 2, 3, 4, 5, 6, MOST, LEAST)])
        self.same("def f(n):\n    while n & 1 > 1:\n        n += 1\n"
                  "    for i in range(5, 2):\n        n = n // 0\n    return n\n", [(n,) for n in (0, 1, MOST, LEAST)])

    def test_calls_with_and_without_objects(self):
        source = "def keep(a, b, c):\n    if c == 0:\n        return a if b > 2 else b\n    return keep(a, b + 1, c - 1)\n\ndef f(a, b, c):\n" \
                 "    same = keep(a, b, c)\n    return same\n"
        made = define(source)
        self.compiled(made.f, 10**6, 1, 3)
        thing = 10**6 + 1
        self.assertIs(made.f(thing, 7, 0), thing)
        self.assertIs(made.f(thing, 1, 5), thing)
        self.assertEqual(made.f(thing, -9, 5), -4)
        self.assertIs(made.keep(thing, 5, 2), thing)
        self.same(source, [(a, b, c) for a in (thing, MOST, LEAST) for b in (0, 2, 3, MOST - 1, MOST) for c in (0, 1, 4)])

    def test_checks_that_are_gone(self):
        source = "def f(n):\n    s = i = 0\n    while i < 1000:\n        s = s + i * i + (n & 7) & 0xffff\n        i += 1\n    return s\n"
        self.assertNotIn("_overflow", self.code(source, 5)[0])
        self.assertIn("smul_overflow", self.code(source.replace("i * i", "i * n"), 5)[0])
        counted = source.replace("        i += 1\n", "").replace("while i < 1000:", "for i in range(1000):")
        self.assertNotIn("_overflow", self.code(counted, 5)[0])
        modular = "def f(n):\n    x = 42\n    while n:\n        n >>= 1\n        x = (x * 1664525 + 1013904223) % 4294967296\n    return x\n"
        self.assertNotIn("_overflow", self.code(modular, 5)[0])
        self.assertNotRegex(self.code("def f(n):\n    return 1 << (n & 31)\n", 5)[1], r"\b(call|blr)\b")  # there is no exit

    def test_divisions_without_signs(self):
        division = "def f(n):\n    return (n & 0xffff) {0} ((n & 7) + 1)\n"
        for operator in ("//", "%"):
            machine = self.code(division.format(operator), 5)[1]
            self.assertRegex(machine, r"\b(div|udiv)")
            self.assertNotRegex(machine, r"\b(idiv|sdiv|\w*srem)")
            self.assertRegex(self.code(division.format(operator).replace("& 0xffff", "+ 1"), 5)[1], r"\b(idiv|sdiv|\w*srem)")

    def test_the_index_of_a_range_is_not_negative(self):
        source = "def f(xs):\n    s = 0\n    for i in range(len(xs)):\n        s ^= xs[i]\n    return s\n"
        self.assertNotIn("sshr", self.code(source, b"abc")[0])
        self.assertNotIn("sshr", self.code(source.replace("xs[i]", "xs[i - 1]"), b"abc")[0])  # its first turn is code of its own
        self.assertIn("sshr", self.code(source.replace("xs[i]", "xs[i - 2]"), b"abc")[0])


class RunningLoops(Case):
    """A loop that is entered while it runs is compiled for which of its ints are not negative then."""

    SOURCE = """
        def f(a, i, rows):
            f"{i}"  # not compiled, so each call enters the loop
            total = 0
            for row in range(rows):
                for x in range(8):
                    total = total * 3 % 1000 + a[i] - a[x]
                i += 1
            return total, i, row, x
    """

    def both(self, calls, source=SOURCE):
        self.addCleanup(self.jit.enable)
        plain, made = (define(source).f for _ in range(2))
        for arguments in calls:
            self.jit.disable()
            expected = jit_support.what_happens(plain, copy.deepcopy(arguments))
            self.jit.enable(turns=20)
            self.assertEqual(jit_support.what_happens(made, copy.deepcopy(arguments)), expected, arguments)
        return made

    def ir(self, made):
        return self.jit.dump(made).partition("\n}\n")[0]

    def test_an_index_is_not_looked_at_for_its_sign(self):
        made = self.both([(list(range(100)), 0, 60)])
        self.assertEqual(len(self.jit.stats(made)["loops"]), 1)
        self.assertNotIn("sshr", self.ir(made))

    def test_an_index_that_is_negative_later(self):
        a = list(range(100))
        for first in (-100, -1, -50):
            made = self.both([(a, 0, 60), (a, first, 60), (a, 0, 60), (a, first, 30), (a, 3, 20), (a, -7, 40), (a, 41, 60), (a, -101, 60)])
            # It was compiled once more, for both.
            self.assertEqual(len(self.jit.stats(made)["loops"]), 1)
            self.assertIn("sshr", self.ir(made))
            self.assertFalse(self.jit.stats(made)["given_back"])

    def test_an_index_that_is_negative_at_first(self):
        a = list(range(100))
        made = self.both([(a, -100, 60), (a, 0, 60), (a, -1, 60), (a, 90, 60)])
        self.assertEqual(len(self.jit.stats(made)["loops"]), 1)

    def test_an_index_that_becomes_negative_in_the_loop(self):
        source = self.SOURCE.replace("i += 1", "i -= 1")
        self.both([(list(range(100)), 20, 100), (list(range(100)), 50, 151)], source)

    def test_an_int_that_becomes_too_large(self):
        source = self.SOURCE.replace("total = total * 3 % 1000 + a[i] - a[x]", "total += i").replace("i += 1", "i += 2**60")
        self.both([([], 0, 9), ([], 2**62, 9), ([], -2**63, 30), ([], 2**63 - 1, 9)], source)

    def test_the_next_value_of_a_range(self):
        source = """
            def f(a, low, high, step):
                f"{low}"
                total = 0
                for i in range(low, high, step):
                    total += a[i] * 2 - i
                return total, i
        """
        a = list(range(1000))
        calls = [(a, 0, 900, 3), (a, -900, 900, 3), (a, 900, -900, -3), (a, 900, 0, -2), (a, -1, -900, -1), (a, 500, 1000, 1), (a, 500, 1001, 1)]
        self.both(calls, source)
        self.both(calls[::-1], source)
        for first in calls:
            self.both([first, *calls], source)
        made = self.both(calls[:1], source)
        self.assertNotIn("sshr", self.ir(made))

    def test_a_list_that_shrinks_between_entries(self):
        source = """
            def f(a, n):
                total = 0
                while n:
                    f"{n}"
                    for i in range(30):
                        total += a[i]
                    a.pop()
                    n -= 1
                return total
        """
        self.both([(list(range(200)), 100)], source)
        self.both([(list(range(60)), 100)], source)
