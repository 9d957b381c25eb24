"""Instructions that turn out not to be compiled once a part of their code is there."""

import gc
import sys
import textwrap

import jit_support
from jit_support import Case, define

setUpModule = jit_support.load


class Unfinished(Case):
    # A path that not each turn takes, one that is reached by None alone, one that raises.
    AROUND = {
        "part": """
            def f(p, values, n):
                total = 0
                for i in range(n):
                    total += 1
                    if i % 640 == 0:
                        {0}
                return total
        """,
        "none": """
            def f(p, values, n):
                total, both = 0, [p, P(1)]
                p.y = None
                for i in range(n):
                    y = both[i % 640 != 0].y
                    if y is None:
                        {0}
                    else:
                        total += y
                return total
        """,
        "raise": """
            def g(p, values, n):
                total = 0
                for i in range(100):
                    total += i
                    if i == n: raise ValueError({0})
                return total
            def f(p, values, n):
                failed = 0
                for i in range(n // 64):
                    try:
                        g(p, values, i if i % 8 == 0 else -1)
                    except ValueError as error:
                        failed += 1
                return failed
        """}
    CLASS = """
        class P:
            def __init__(self, y):
                self.y = y
                self.x = self.stored = 0
            def __setitem__(self, i, value):
                self.stored += 1
                return self
            def made(self, i):
                self.stored += 1
                return range(i)
            def itself(self):
                return self
    """

    def both(self, around, statement, n=64_000):
        """How often P's methods stored something, and what is left of the objects; the same with the compiler."""
        found = []
        for on in (False, True):
            (self.jit.enable if on else self.jit.disable)()
            source = textwrap.dedent(self.CLASS) + textwrap.dedent(self.AROUND[around].format(statement))
            made = define(source)
            p, values = made.P(1), [1, 2, 3]
            results = [made.f(p, values, n) for _ in range(3)]
            gc.collect()
            blocks = sys.getallocatedblocks()
            results.append(made.f(p, values, n))
            gc.collect()
            left = sys.getallocatedblocks() - blocks
            found.append((results, p.stored, sys.getrefcount(p), sys.getrefcount(values)))
        self.assertEqual(found[1], found[0], statement)
        self.assertLess(left, 50, statement)
        return made

    def test_a_call_is_made_once(self):
        for around in ("part", "none"):
            for statement in ("p[i] = i", "p[i] = p.itself()", "p[i] = range(i)", "x = [(i + 1000, 2), p.made(i)]"):
                with self.subTest(around=around, statement=statement):
                    made = self.both(around, statement)
                    self.assertGreater(self.jit.stats(made.f)["entered"], 0, self.jit.explain(made.f))

    def test_nothing_that_was_made_is_left(self):
        for statement in ("x = [(i + 1000, i), range(i)]", "x = [(i + 1000, (i, 2)), (i + 1000, i), (i, range(i))]",
                          "x = sum(len([(value + 1000, 2), range(value)]) for value in values)", "x = max((value, 2) for value in values)"):
            for around in ("part", "none"):
                with self.subTest(around=around, statement=statement):
                    self.both(around, statement)
        self.both("raise", "[(i + 1000, total), range(i)]")

    def test_blocks_that_were_begun_have_an_end(self):
        for around in ("part", "none"):
            for statement in ("p.x = range(i)", "p.x = (i, range(i))", "p.x, p.stored = (i + 1000, i), range(3)"):
                with self.subTest(around=around, statement=statement):
                    source = textwrap.dedent(self.CLASS) + textwrap.dedent(self.AROUND[around].format(statement))
                    made = define(source)
                    made.f(made.P(1), [1], 6400)
                    self.assertTrue(self.jit.stats(made.f).get("loops"), self.jit.explain(made.f))
