"""Tuples as arguments, items, globals and results, and what is done with lists and tuples as a whole: `in`, slices, builtins."""

import collections
import copy
import random
import sys

import jit_support
from jit_support import define, run_alone
from surroundings import alarms
from test_jit_iterators import IteratorCase

NAN = float("nan")


class Grade(int):
    """Is equal to all ints."""

    def __eq__(self, other):
        return True

    __hash__ = int.__hash__

setUpModule = jit_support.load


class TupleCase(IteratorCase):
    def alike(self, source, first, argument_lists):
        """Code that is compiled for the first arguments does with the others what the interpreter does."""
        self.same(source, [first])
        plain, made = (define(source).f for _ in range(2))
        self.compiled(made, *copy.deepcopy(first))
        for arguments in argument_lists:
            outcomes = []
            for function in (plain, made):
                own = copy.deepcopy(arguments)
                outcomes.append((jit_support.what_happens(function, own)[0], repr(own)))
            self.assertEqual(outcomes[1], outcomes[0], (source, arguments))


class Read(TupleCase):
    PAIRS = ((1, 2), (1.5, 2.5), (1, 2.5), (True, 3), (2**62, -1), (2**70, 1), (None, 1), (1,), (), (1, 2, 3), ([1], 2), ("a", 1), (NAN, -0.0))

    def test_unpacked(self):
        source = "def f(t):\n    s = 0\n    for i in range(5):\n        a, b = t\n        s += i\n    return a, b, s\n"
        for first in ((1, 2), (0.5, 1.5), (1, 2.5), (None, True)):
            self.alike(source, (first,), [(pair,) for pair in self.PAIRS])
        source = "def f(t, n):\n    a, b, c = t\n    return (a + b) * n - c\n"
        self.same(source, [((1, 2, 3), 4), ((1, 0.5, 3), 4), ((2**62, 2**62, 1), 2), ((1.0, 2.0, 3.0), True), ((1, 2), 1), ((1, 2, 3, 4), 1)])

    def test_items(self):
        for index in ("0", "1", "-1", "-2", "2", "-3", "True"):
            for first in ((1, 2, 3), (1, 2, 2.5)):
                self.alike(f"def f(t):\n    x = t[{index}]\n    return x\n", (first,), [(pair,) for pair in self.PAIRS])
        source = "def f(t, n):\n    s = 0\n    for i in range(n):\n        s = s * 3 + t[i - 2]\n    return s\n"
        for first in ((1, 2, 3), (0.5, 1.5)):
            self.alike(source, (first, 3), [(t, n) for t in ((1, 2, 3), (0.5, 1.5, 2.5, 3.5), (1,) * 20, (1, 2, 3.5), (True, False)) for n in (1, 3, 9)])
        self.same("def f(t):\n    t[0] = 1\n", [((1, 2),)])
        self.same("def f(t):\n    return t[1.5]\n", [((1, 2),)])
        self.same("def f(t, a):\n    a[0], a[1] = t\n    x, y = a\n    return x - y, (1, 2, 3)[x & 1]\n",
                  [((1, 2), [0, 0]), ((1, 2), [0]), ((1, 2), [0, 0, 0])])

    def test_loops(self):
        source = "def f(t):\n    s = 0\n    for x in t:\n        s = s * 2 + x\n    for i, x in enumerate(t):\n        s += i * x\n    return s, len(t)\n"
        contents = ((1, 2, 3), (0.5, 1.5), (1,), (True, True), tuple(range(100)), (1, 2.5), (1, 2**70), (1, None), (2, *range(9), 1.5))
        for first in contents[:3]:
            self.alike(source, (first,), [(t,) for t in contents])
        source = "def f(t):\n    s = 0\n    for x in reversed(t):\n        s = s * 2 + x\n    for x, y in zip(t, (1, 2)):\n        s += x * y\n    return s\n"
        for first in contents[:3]:
            self.alike(source, (first,), [(t,) for t in contents])
        self.same("def f(n):\n    s = 0\n    for x in (1, 2, 5):\n        s += x * n\n    for x, y in ((1, 2), (3, 4)):\n        s -= x * y\n    return s\n",
                  [(3,), (2**62,), (0.5,)])
        self.same("def f(x, y):\n    s = 0\n    for z in (x, y, x):\n        s = s * 3 + z\n    return s\n", [(1, 2), (0.5, 1.5), (2**62, 1)])

    def test_in_lists(self):
        source = """
            def f(points, d):
                total = 0
                for x, y in points:
                    total += x * y
                for i, (x, y) in enumerate(points):
                    points[i] = x + d, y - d
                for p in points:
                    total = total * 2 + p[0] - p[1]
                return total, points[0]
        """
        contents = ([(1, 2), (3, 4)], [(1.5, 2.5)] * 3, [(1, 2.5), (3, 4.5)], [(1, 2), (1, 2, 3)], [(1, 2), [3, 4]], [], [(1, 2)] * 3)
        for d in (1, 0.5, 2**62):
            for first in contents[:3]:
                self.alike(source, (first, d), [(points, d) for points in contents])

    def test_nested(self):
        source = "def f(t):\n    (a, b), c = t\n    for (x, y), z in [t, t]:\n        a += x * z\n        b -= y\n    return a, b, c, t[0][1]\n"
        self.alike(source, (((1, 2), 3),), [(((1, 2.5), 3),), (((0.5, 1.5), 2.5),), (([1, 2], 3),), ((1, 2),), (((1, 2, 3), 4),), (((2**62, 2), 9),)])

    def test_that_change_type(self):
        source = "def f(t, n):\n    for i in range(n):\n        a, b = t\n        t = b, a + i\n    return t\n"
        self.same(source, [((1, 2), 5), ((1.5, 2), 4), ((2**62, 2**62), 7), ((True, 0), 3), ((1, 2, 3), 2)])
        self.same("def f(t, n):\n    for i in range(n):\n        if i % 3 == 1:\n            t = (1, i)\n        elif i % 5 == 3:\n            t = (i, 0.5)\n"
                  "    return t\n", [((1, 2), n) for n in (1, 2, 4, 5)])

    def test_globals(self):
        source = """
            MOVES = ((0, 1), (1, 0), (0, -1), (-1, 0))
            PRIMES = 2, 3, 5, 7
            def f(x, y):
                s = 0
                for dx, dy in MOVES:
                    s = s * 5 + (x + dx) * (y + dy)
                for p in PRIMES:
                    s -= p
                return s + PRIMES[x & 3], len(MOVES)
        """
        self.same(source, [(1, 2), (5, 0.5), (2**62, 9)])
        made = define(source)
        self.compiled(made.f, 1, 2)
        made.globals["PRIMES"] = 11, 12, 13, 14
        plain = define(source.replace("2, 3, 5, 7", "11, 12, 13, 14"))
        self.assertEqual(made.f(1, 2), plain.f(1, 2))

    def test_loops_in_which_tuples_grow_are_left_alone(self):
        for value in ("(deep,)", "(deep, deep)", "[deep]", "([deep], 1)", "[(deep, i)]"):
            source = f"def f(n):\n    deep = ()\n    for i in range(n):\n        deep = {value}\n    return i\n"
            made = define(source).f
            self.jit.compile_at_next_call(made)
            self.assertEqual([made(20), made(2000), made(20)], [19, 1999, 19])

    def test_a_deep_global_is_left_alone(self):
        deep = ()
        for _ in range(100_000):
            deep = (deep,)
        made = define("def f(n):\n    for i in range(n):\n        x = len(T)\n    return x\n", T=deep).f
        self.jit.compile_at_next_call(made)
        self.assertEqual(made(5), 1)
        while deep:
            (deep,) = deep

    def test_subclasses_are_the_interpreters(self):
        point = collections.namedtuple("Point", "x y")
        source = "def f(t):\n    s = 0\n    for i in range(3):\n        a, b = t\n        s += a * b + t[0]\n    for x in t:\n        s += x\n    return s\n"
        plain, made = (define(source).f for _ in range(2))
        self.compiled(made, (1, 2))
        for t in (point(3, 4), (3, 4), point(0.5, 1)):
            self.assertEqual(made(t), plain(t))
        self.alike("def f(t):\n    s = 0\n    for x in t:\n        s += x\n    return s\n", ((1, 2),), [((1, Grade(2)),), ((Grade(1), 2),)])

    def test_running_loops(self):
        program = """
            POINTS = [(i, i / 2) for i in range(5000)]
            def f(t, u):
                s = 0
                for x in t:
                    for y in reversed(u):
                        s += x * y
                return s
            total = 0.0
            for x, y in POINTS:
                total += x * y
            for x in reversed(tuple(range(5000))):
                total = total / 2 + x
            print(total, f(tuple(range(3000)), (1, 2, 3)))
            for function in (f,):
                print(ferrule_jit.stats(function)["entered"] > 0)
        """
        found = run_alone(program)
        total = 0.0
        for i in range(5000):
            total += i * (i / 2)
        for i in reversed(range(5000)):
            total = total / 2 + i
        self.assertEqual(found.split(), [repr(total), str(sum(range(3000)) * 6), "True"])


class Made(TupleCase):
    def test_results(self):
        for result in ("x, y", "y, (x, x)", "(x, (y, (x, 1))), (y,)", "(x, None, True)", "((x, 1.5), [x, (x, y)])", "(1, 2)", "()"):
            self.same(f"def f(x, y):\n    if y == 7:\n        return 1 // (x - x)\n    return {result}\n",
                      [(1, 2), (0.5, 10**12), (1, 7), (True, -0.0), (2**62, 0)])

    def test_results_of_callees(self):
        source = """
            def step(x, y):
                return x + y, x - y
            def both(t):
                a, b = t
                return b, a, (a, b)
            def f(x, y, n):
                for i in range(n):
                    x, y = step(x, y)
                    p, q, r = both((x, y))
                return x, y, p, q, r
        """
        self.assertEqual(self.same(source, [(1, 2, 5), (0.5, 1, 3)]), 0)
        self.alike(source, (1, 2, 3), [(2**61, 2**61, 6), (1, 2, 0), (True, 1, 2), (0.5, 2**62, 4)])

    def test_in_lists(self):
        source = """
            def f(n, x):
                a = [(x, 0)]
                for i in range(n):
                    a.append((x, i))
                    a.insert(0, (x, (i, i)))
                b = [(i, p) for i, p in enumerate(a)]
                c = [(i, i * x) for i in range(n)]
                c += [(1, 2)]
                c[0] = (x, x)
                c[-1] = x, c[0]
                return a, b, c, len(b)
        """
        self.same(source, [(n, x) for n in (1, 3, 0) for x in (1, 0.5, None, 2**62)])

    def test_joined(self):
        source = "def f(t, n):\n    u = ()\n    for i in range(n):\n        u = u + (1, 2)\n        t += t[1:]\n    return t, u, t[-2:], list(t), tuple(t)\n"
        self.same(source, [((1, 2), 3), ((0.5, 1.5), 2), ((1,), 2), ((1, 2), 0)])
        self.same("def f(a, t):\n    a += t\n    a.extend(t)\n    return a, tuple(a), list((1, 2)), t is tuple(t)\n", [([1], (2, 3)), ([], ()), ([0.5], (1,))])

    def test_stores_beyond_the_end(self):
        source = "def f(a, n):\n    for i in range(n):\n        a[i] = (i, (i, n))\n    return a\n"
        self.same(source, [([1, 2, 3], 3), ([1, 2, 3], 5), ([], 1), ([(1, 2)] * 4, 4)])


class Member(TupleCase):
    WANTED = (0, 1, 2, -1, True, False, None, 0.0, 1.0, 2.5, -0.0, NAN, float("inf"), 2**53 + 1, 2.0**53, 2**63 - 1, 2.0**63)

    def test_constants(self):
        for members in ("(1, 2, 3)", "{1, 2, 3}", "(1, 2.5, None, 'a')", "{None, True, 2.5}", "()", "(9007199254740992, 2.0**63)", "(2**70, 1)", "('a', 'b')"):
            self.same(f"def f(x, n):\n    s = 0\n    for i in range(n):\n        s += (x in {members}) + 2 * (x not in {members})\n    return s\n",
                      [(x, 2) for x in self.WANTED])

    def test_made_here(self):
        self.same("def f(x, y, z):\n    return x in (y, z), x not in [y, z], x in (x, 1), y in [y]\n",
                  [(x, y, z) for x in self.WANTED for y, z in ((1, 2), (0.5, 1), (NAN, 2.5), (None, True), (2**53 + 1, 2.0**53))])

    def test_containers(self):
        contents = ([1, 2, 3], (1, 2.5, None), [0.5, NAN], [], [2**70, 1], ["a", 1], [b"a", 1], [[1], 1], (2**63 - 1,), [True, 2.0**53], [Grade(1), 1])
        source = "def f(x, a):\n    n = 0\n    for i in range(3):\n        if x in a:\n            n += 1\n    return n, x not in a\n"
        for content in contents:
            self.same(source, [(x, content) for x in self.WANTED])

    def test_the_same_nan(self):
        source = "def f(x, a):\n    return x in a, x not in (x, 1.0), x in [x]\n"
        plain, made = (define(source).f for _ in range(2))
        self.compiled(made, 1.0, [2.0])
        for x, a in ((NAN, [NAN]), (NAN, [float("nan")]), (float("nan"), [])):
            self.assertEqual(made(x, a), plain(x, a))

    def test_ranges(self):
        source = "def f(x, a, b, c):\n    return x in range(a, b, c), x not in range(b), x in range(a, b)\n"
        self.same(source, [(x, a, b, c) for x in (0, 3, 7, -1, 2**63 - 1, -2**63, True) for a, b, c in
                           ((0, 10, 3), (10, 0, -3), (-2**63, 2**63 - 1, 7), (5, 5, 1), (1, 9, 0), (2**63 - 1, -2**63, -1))])


class Slices(TupleCase):
    ENDS = (None, 0, 1, 2, -1, -2, 9, -9, 2**63 - 1, -2**63, True)

    def test_with_a_step(self):
        steps = (None, 1, 2, -1, -2, 3, -7, 0, True, 2**63 - 1, -2**63)
        source = "def f(a, i, k, s):\n    return a[i:k:s], a[::s], a[i::s], a[:k:s], len(a[::-1])\n"
        self.same(source, [(content, i, k, s) for content in ([1, 2, 3, 4], [0.5], []) for i in self.ENDS for k in self.ENDS[::2] for s in steps])
        self.same("def f(a, n):\n    t = 0\n    for x in a[::-1]:\n        t = t * 2 + x\n"
                  "    return t, sum(x * n for x in a[n::2]), [b[::-1] for b in [a, a[1:]]]\n",
                  [([1, 2, 3], 1), ([], 0), ([0.5, 1.5], 1), ([2**62, 1], -1)])
        source = "def f(a, s):\n    b = a[::s]\n    b[0] = 9\n    return a, b\n"
        for s in (1.5, "x", 2**70):
            plain, made = (define(source).f for _ in range(2))
            self.compiled(made, [1, 2], 1)
            self.assertEqual(jit_support.what_happens(made, ([1, 2], s)), jit_support.what_happens(plain, ([1, 2], s)))

    def stored(self, text, steps, turns=200):
        """A slice with a step is stored: does what is interpreted for random lists and bounds, and compiled code is not left."""
        rng = random.Random(text)
        plain, made = (define(f"def f(a, b, i, k, j, m, s):\n    {text}\n    return a, b\n").f for _ in range(2))
        self.compiled(made, [1, 2, 3], [4, 5], 0, 1, 1, 0, 1)
        for _ in range(turns):
            one, other = ([1, *(rng.choice([1, 2, 0.5, "x", (1,)]) for _ in range(6))][:rng.randrange(7)] for _ in range(2))
            other = one if rng.random() < 0.5 else other
            arguments = one, other, *(rng.choice([0, 1, 2, 3, -1, -2, 9, -9, 2**62, -2**62]) for _ in range(4)), rng.choice(steps)
            wanted, found = copy.deepcopy(arguments), copy.deepcopy(arguments)
            self.assertEqual(jit_support.what_happens(made, found), jit_support.what_happens(plain, wanted), (text, arguments))
            self.assertEqual(found, wanted, (text, arguments))
        self.assertEqual(self.jit.stats(made)["entered"], turns + 1)
        return self.jit.stats(made)["left"]

    def test_stored_with_a_step(self):
        for text in ("a[i:k] = b[j:m:s]", "a[:k] = b[j::s]", "a[i:] = b[:m:s]", "a[:] = b[::s]", "a[i:k + 1] = a[k:m:s]", "b[:k + 1], x = a[::s], 1"):
            self.assertEqual(self.stored(text, [1, 2, -1, -2, -3, 2**62, -2**62]), 0, text)
        for text in ("a[:k + 1] = a[k::-1]", "a[i:k + 1] = a[k:i - 1:-1]", "a[i:] = a[:i - 1:-1]", "a[:] = a[::-1]", "b[:k] = a[k - 1::-1]"):
            self.assertEqual(self.stored(text, [0]), 0, text)
        self.assertGreater(self.stored("a[i:k] = b[j:m:s]", [0], turns=2), 0)

    def test_stored_with_a_step_raises(self):
        source = """
            def f(a, b, k, s, c):
                if c:
                    n = k
                a[b[0] - b[0]:
                  n + 1] = [*b, 5]
                a[
                    :n + 1] = b[
                        k::s]
                return a, b
        """
        cases = [([1, 2, 3], [4, 5, 6], 1, s, 1) for s in (1, -1, 0, 2**70, 1.5, None, "x")]
        cases += [([1, 2], [3], 2**63 - 1, 1, 1), ([1, 2], [3], 1, 1, 0), ([1, 2], (3, 4), 1, 1, 1), ((1, 2), [3, 4], 1, 1, 1)]
        for arguments in cases:
            plain, made = (define(source).f for _ in range(2))
            self.compiled(made, [1, 2, 3], [4, 5, 6], 1, 1, 1)
            wanted, found, again = (copy.deepcopy(arguments) for _ in range(3))
            expected = jit_support.what_happens(plain, wanted)
            self.assertEqual((jit_support.what_happens(made, found), found), (expected, wanted))
            self.jit.compile_at_next_call(made)
            self.assertEqual((jit_support.what_happens(made, again), again), (expected, wanted))
        source = "def f(a, b, k):\n    t = len(b)\n    for i in range(3):\n        a[:n if i else 2] = b[k::-1]\n        n = t\n    return a\n"
        self.same(source, [([1, 2, 3], [4, 5, 6], 1), ([1, 2, 3], [], 1)])
        source = "def f(a, b, k):\n    t = 0\n    for x in a:\n        t += x\n    b[:n] = b[k::-1]\n    n = 1\n    return a\n"
        self.same(source, [([1, 2, 3], [4, 5, 6], 1)])

    def test_stored_with_a_step_keeps_references(self):
        made = define("""
            def f(a, b, n):
                for i in range(n):
                    a[:2] = b[::-1]
                    b[i % 3:] = b[:i % 3:-1]
                    b[:3] = b[2::-1]
                    (a, b)[0][1:1 + i % 2] = b[1::-1]
                    if len(a) > 9: del a[9]
                    a, b = b[:], a[:9]
                return 10 // (n - 4)
        """).f
        items, other = [object() for _ in range(6)], [[1], [2]]
        self.compiled(made, items[:], other[:], 2)
        before = [sys.getrefcount(item) for item in items + other]
        for n in (1, 2, 3, 4, 5, 300):
            jit_support.what_happens(made, (items[:], other[:], n))
            jit_support.what_happens(made, (other[:], other[:], n))
        self.assertEqual([sys.getrefcount(item) for item in items + other], before)

    def test_what_is_not_compiled(self):
        source = "def f(a, n):\n    t = 0\n    for i in range(n):\n        t += i\n    a[::2] = [7, 8]\n" \
                 "    del a[::-2]\n    s = slice(1, 2, 3)\n    return a, t, s, a[s]\n"
        plain, made = (define(source).f for _ in range(2))
        for _ in range(2):
            self.assertEqual(jit_support.what_happens(made, ([1, 2, 3], 5000)), jit_support.what_happens(plain, ([1, 2, 3], 5000)))
        self.assertGreater(self.jit.stats(made)["entered"], 0)

    def test_stored(self):
        for other in ("[7, 8]", "[]", "a", "(7, 8, 9)", "b"):
            source = f"def f(a, b, i, k):\n    a[i:k] = {other}\n    return len(a)\n"
            self.same(source, [(content, [0.5], i, k) for content in ([1, 2, 3], [], [[1], [2]]) for i in self.ENDS[:9] for k in self.ENDS])
        source = "def f(a, b, i, k):\n    a[i:] = b\n    a[:k] = b\n    a[:] = a[1:]\n"
        self.same(source, [([1, 2, 3], [5], i, k) for i in self.ENDS for k in self.ENDS])

    def test_what_cannot_be_stored(self):
        for value in (5, None, 1.5, "ab", b"ab", range(2)):
            source = "def f(a, b, n):\n    for i in range(n):\n        a[i] = i\n    a[1:2] = b\n    return a\n"
            plain, made = (define(source).f for _ in range(2))
            self.jit.compile_at_next_call(made)
            for _ in range(2):
                self.assertEqual(jit_support.what_happens(made, ([0] * 5, value, 3)), jit_support.what_happens(plain, ([0] * 5, value, 3)))
        self.same("def f(a, b, i):\n    a[i:] = b\n", [([1], [2], 1.5)])

    def test_while_it_is_looped_over(self):
        source = """
            def f(a, n):
                seen = 0
                for x in a:
                    seen = seen * 3 + x
                    if x == n:
                        a[0:2] = []
                    elif len(a) < 9:
                        a[1:1] = [x + 1, n]
                return seen, a
        """
        self.same(source, [([1, 2, 3, 4, 5], n) for n in range(7)])

    def test_deleted(self):
        source = "def f(a, i):\n    for x in a:\n        del a[i]\n    return len(a)\n"
        self.same(source, [(content, i) for content in ([1, 2, 3], [0.5], [[1], [2]], []) for i in (0, 1, -1, 5, True)])
        self.same("def f(a, i):\n    del a[i]\n", [([1], 1.5)])

    def test_of_rows_that_are_in_use(self):
        source = "def f(a):\n    for row in a:\n        a[0:1] = [[9]]\n        x = a[0]\n        a[:] = []\n    return row, x\n"
        self.same(source, [([[1], [2]],), ([[1]],)])

    def test_destructors_run_in_the_interpreter(self):
        found = run_alone("""
            import sys
            class Loud:
                def __del__(self):
                    print("gone", sys._getframe(1).f_code.co_name, sys._getframe(1).f_lineno - START)
            def f(a, rows, n):
                for i in range(n):
                    a[i] = 1
                a[1:3] = [5]
                del a[0]
                rows.append([1])
                row = rows.pop(0)
                row = [2]
                return a
            START = f.__code__.co_firstlineno
            def call(a, rows):
                f(a, rows, 1)
            ferrule_jit.compile_at_next_call(f)
            f([1, 2, 3], [[1]], 1)
            call([0, Loud(), Loud(), 1], [[1]])
            loud = Loud()
            both = [0, loud, loud, 1]
            rows = [[loud, loud]]
            del loud
            f(both, [[1]], 1)
            f([1, 2, 3, 4], [[1]], 1)
            both = None
            f([1, 2, 3, 4], rows, 1)
            print(ferrule_jit.stats(f)["entered"])
        """)
        self.assertEqual(found.split("\n")[:4], ["gone f 3", "gone f 3", "gone f 7", "4"])


class Builtins(TupleCase):
    def test_of_one_container(self):
        contents = ([1, 2, 3], (3, 1, 2), [0.5, 0.1, 0.1, 1e16, -1e16], [1, 2.5], [], (), [2**62] * 3, [True, False], [None, 1], [1, "a"], [NAN, 1.0], [0, 0],
                    [2**70], [Grade(3), 1], (1, Grade(3)))
        for name in ("sum", "min", "max", "any", "all", "sorted", "list", "tuple"):
            source = f"def f(a, n):\n    for i in range(n):\n        x = {name}(a)\n    return x, i\n"
            for content in contents:
                plain, made = (define(source).f for _ in range(2))
                self.jit.compile_at_next_call(made)
                for arguments in ((content, 1), (content, 0), (content, 3), (content, 2)):
                    self.assertEqual(jit_support.what_happens(made, arguments)[0], jit_support.what_happens(plain, arguments)[0], (name, content))
            self.same(source, [((1, 2, 3), 2), ([1.5, 0.5], 3)])

    def test_names_that_are_redefined(self):
        source = "def f(a, n):\n    s = 0\n    for i in range(n):\n        s += sum(a) + max(a)\n    return s\n"
        made = define(source)
        self.compiled(made.f, [1, 2], 3)
        made.globals["sum"] = lambda a: 1000
        self.assertEqual(made.f([1, 2], 2), 2004)


class Kept(TupleCase):
    def test_references_are_balanced(self):
        source = """
            def f(t, a, n):
                u = (t, a)
                b = [(t, 1), (a, 2)]
                b.append((t, (a, n)))
                for p, q in b:
                    x = p
                c, d = u
                b[0] = (d, n)
                b[1:] = [(a, 1)]
                a[0:1] = (1, n)
                e = t[0:1] + t
                del b[0]
                if n in t:
                    return e, (t, a)
                return 10 // (n - 3)
        """
        made = define(source).f
        self.compiled(made, (1, 2), [1], 2)
        t, a = tuple(range(1, 5)), [1, 2]
        before = sys.getrefcount(t), sys.getrefcount(a)
        for n in (1, 2, 3, 0, 4, 300) * 9:
            jit_support.what_happens(made, (t, a, n))
        self.assertEqual((sys.getrefcount(t), sys.getrefcount(a)), before)

    def test_memory_is_released(self):
        self.releases_memory(define("""
            def g(x, y):
                return y, (x, y)
            def f(n):
                s = 0
                for i in range(n):
                    a, (b, c) = g(i, s)
                    row = [(i, s), (b, (c, i))]
                    s = sum((row[0][0], len(row[1:]))) if i < 0 else row[-1][0]
                return s
        """).f)

    def test_a_handler_sees_tuples(self):
        source = "def f(t, n):\n    s = 0\n    for i in range(n):\n        for x in t:\n            p = (x, i)\n            s += p[0]\n    return s, p\n"
        made = define(source).f
        self.compiled(made, (1, 2), 5)
        seen = []

        def look(number, frame):
            if frame.f_code is made.__code__:
                local = frame.f_locals
                seen.append((local["t"], local.get("p", (1, 0))[0] in local["t"]))
        with alarms(look, 0.001):
            self.assertEqual(made((1, 2, 3), 1_000_000), (6_000_000, (3, 999_999)))
        self.assertTrue(seen)
        self.assertEqual(set(seen), {((1, 2, 3), True)})
