"""Statements and expressions that are several instructions: all of them compiled, and as interpreted."""

import jit_support
from jit_support import Case

setUpModule = jit_support.load


class Statements(Case):
    def test_try_that_raises_nothing_and_try_that_does(self):
        self.check("""
            def f(a, b):
                total = 0
                for i in range(5):
                    try:
                        total += a // (b - i)
                    except (ZeroDivisionError, TypeError) as error:
                        total -= len(str(error))
                    else:
                        total += 100
                    finally:
                        total += 1
                return total
        """, "f", [(50, 9), (50, 2), (50.5, 3), (-7, 0), (50, 2.0)])

    def test_nested_try(self):
        self.check("""
            def f(a, b):
                found = 0
                while found < 3:
                    found += 1
                    try:
                        try:
                            a = a * 2 // (b - found)
                        except ValueError:
                            return -1
                    except ZeroDivisionError:
                        if a > 1000: raise
                        continue
                    if a > 500: break
                return a, found
        """, "f", [(4, 9), (4, 2), (600, 1), (2000, 1), (4, 3)])

    def test_assert(self):
        self.check("""
            def f(a, b):
                for i in range(4):
                    assert a > i, f"{a} at {i}"
                    assert b != i
                return a
        """, "f", [(9, 9), (2, 9), (9, 3), (0.5, 8)])

    def test_chained_comparisons(self):
        self.check("""
            def f(a, b):
                count = 0
                for i in range(-3, 6):
                    if a <= i < b: count += 1
                    if a < i <= b != 3 < 10: count += 10
                    count += 100 * (a == i == b)
                return count, not a < b < 4
        """, "f", [(0, 4), (0, 3), (2, 2), (-1.5, 3.0), (5, 0)])

    def test_conditional_expressions(self):
        self.check("""
            def f(a, b):
                x = 0
                for i in range(4):
                    x += (a if i & 1 else b) if a > i or b else -1
                    x = x and x + 1 or 7
                return x if x > b else (b if b else None)
        """, "f", [(1, 2), (-5, 0), (0, 0), (2.5, 1.5), (100, -100)])

    def test_else_of_loops(self):
        self.check("""
            def f(a, b):
                found = 0
                while a > 0:
                    a -= 1
                    if a == b: break
                else:
                    found += 1
                for i in range(b):
                    if i * i == 9: break
                else:
                    found += 10
                return found, a
        """, "f", [(5, 2), (5, 9), (0, 4), (3, 3)])

    def test_assignment_expressions(self):
        self.check("""
            def f(a, b):
                total = 0
                while (rest := a % b) != 0:
                    a, b = b, rest
                    total += (last := rest * 2)
                if (m := total) > 3: total += m
                return a, b, total
        """, "f", [(12, 18), (17, 5), (8, 4), (7, 0), (7.5, 2.0)])

    def test_augmented_assignments(self):
        operators = ["+", "-", "*", "//", "%", "**", "&", "|", "^", "<<", ">>"]
        lines = "\n".join(f"    x {operator}= b" for operator in operators)
        source = f"def f(a, b):\n    x = a\n    for i in range(2): x += i\n{lines}\n    return x\n"
        self.check(source, "f", [(5, 3), (100, 2), (-9, 4), (0, 1), (3, 0)])
        self.check(source.replace(lines, lines[:lines.index("    x &")]), "f", [(1.5, 2.0), (2.5, -1.0), (1, 0.5)])

    def test_deletions(self):
        self.check("""
            def f(a, b):
                for i in range(3):
                    x = a + i
                    if x == b: del x
                    y = x * 2
                return y
        """, "f", [(1, 9), (1, 2), (0.5, 2.5)])
