"""Methods of lists that are kept in variables: the results are CPython's."""

import sys
import weakref

import jit_support
from jit_support import define, run_alone
from test_jit_iterators import IteratorCase

setUpModule = jit_support.load


class Kept(IteratorCase):
    def test_a_method_that_is_kept(self):
        source = "def f(a):\n    g = a.append\n    for i in range(3):\n        g(i)\n    return a, a[-1]\n"
        self.assertEqual(self.same(source, [([1],)]), 0)
        self.same(source, [([],), ([0.5],)])
        self.same("""
            def f(a, b, n):
                add, take, put = a.append, b.pop, a.insert
                for i in range(n):
                    add(i)
                    put(i % 3, take(0))
                    a, b = b, a
                    b.extend(a[:2])
                    if i == 3:
                        add = a.extend
                        add([1, 2])
                        add = b.append
                return a, b, a is b
        """, [([1, 2], [3, 4, 5, 6], n) for n in range(9)][::3] + [([1], [], 1), ([1, 2, 3, None], [0.5, 2, "x"], 3)])

    def test_what_a_kept_method_is(self):
        source = """
            def f(a, n):
                g, h = a.append, a.append
                pair, rows, t = (g, n), [g], 0
                for i in range(n):
                    t += (g is h) + (pair[0] is g) + (rows[0] is g) + 1
                    if g is None: t += 100
                if n > 4: g(1)
                rows[0] = h
                return t, pair, rows, [h, (h, g)]
        """
        self.same(source, [([1], 3), ([], 0), ([1], 5)])
        content = [1]
        g, h = self.compiled(define("def f(a):\n    return a.append, a.pop\n").f, content)(content)
        self.assertEqual((g, h), (content.append, content.pop))
        self.same("def f(a, n):\n    g = a.pop\n    a = 5\n    for i in range(n):\n        a += g()\n    return a, g\n", [([1, 2, 3], 2), ([1, 2], 4)])
        self.same("def f(a):\n    g = a.pop\n    g((g := 0) or 0)\n    return g\n", [([1, 2, 3],), ([],)])
        self.same("def f(a):\n    g = [*a, 4].pop\n    return g(), g(0), g\n", [([1, 2, 3],), ([],)])
        self.same("def f(a, n):\n    g = a.copy\n    return sum(x * len(g()) for x in a[n:]), any(g for x in a)\n", [([1, 2, 3], 1)])
        self.same("def f(a):\n    g = a.append\n    g(a)\n    g(g)\n    h = a.pop()\n    a.pop()\n    return len(a), h\n", [([1],), ([],)])

    def test_methods_as_arguments(self):
        source = """
            def use(g, x):
                g(x)
                return x + 1

            def f(g, h, n):
                t = 0
                for i in range(n):
                    t += use(g, i)
                    if i & 1: h(0)
                return t
        """
        made, plain = define(source), define(source)
        first = [1, 2, 3]
        self.compiled(made.f, first.append, first.pop, 3)

        class Longer(list):
            pass

        class Own(list):
            def append(self, item):
                super().append(item)
                super().append(item)

        for make in (list, Longer, Own, bytearray, lambda items: {*items}):
            for name in ("append", "insert", "pop", "reverse", "remove", "add", "copy"):
                outcomes = []
                for f in (made.f, plain.f):
                    container, other = make([1, 2, 3]), [4, 5, 6]
                    method = getattr(container, name, None)
                    outcomes.append((jit_support.what_happens(f, (method, other.pop, 5)), list(container), other))
                    outcomes[-1] += jit_support.what_happens(f, (other.append, method, 3)), list(container), other
                self.assertEqual(outcomes[0], outcomes[1], (make, name))

    def test_a_method_in_a_cell(self):
        source = """
            def make():
                rows, other = [1], [2]
                add = rows.append
                def f(n):
                    for i in range(n):
                        add(i)
                    return rows, other
                def change(which):
                    nonlocal add
                    add = [rows.append, other.append, other.pop, print, len, None][which]
                return f, change
        """
        plain, made = (define(source).make() for _ in range(2))
        self.compiled(made[0], 3)
        plain[0](3), plain[0](3)
        for which in (0, 1, 0, 2, 4, 5, 1):
            plain[1](which), made[1](which)
            self.assertEqual(jit_support.what_happens(made[0], (2,)), jit_support.what_happens(plain[0], (2,)), which)

    def test_methods_in_a_module(self):
        program = """
            rows = [0] * 3
            add, take = rows.append, rows.pop
            for i in range(5000):
                add(i)
                take(0)
            print(rows)
        """
        self.assertEqual(run_alone(program).strip(), "[4997, 4998, 4999]")

    def test_weak_references_to_a_method(self):
        made = define("""
            def f(a, n, watch):
                for i in range(n):
                    g = a.append
                    if i == n - 2: watch(g)
                    g(i)
                return a
        """).f
        for _ in range(3):
            seen, alive = [], []

            def watch(method):
                seen.append(len(method.__self__))
                alive.append(weakref.ref(method, lambda _: seen.append("gone")))
            self.jit.compile_at_next_call(made)
            self.assertEqual(made([], 3000, watch), list(range(3000)))
            self.assertEqual(seen, [2998, "gone"])

    def test_a_kept_method_releases_its_list(self):
        source = """
            def f(n):
                for i in range(n):
                    g = [i].append
                    g(i)
                    h = [g]
                    g = h
                return 10 // (n - 3)
        """
        self.releases_memory(define(source).f)
        content = [1, 2]
        made = self.compiled(define("def f(a, n):\n    g = a.pop\n    a.append(n)\n    return g(0), 10 // n\n").f, content, 1)
        before = sys.getrefcount(content)
        for n in (1, 0, 5, 0, None):
            jit_support.what_happens(made, (content, n))
        self.assertEqual(sys.getrefcount(content), before)

    def test_what_is_not_compiled(self):
        self.assertEqual(self.kept("def f(a):\n    a.sort()\n    a.clear()\n    return a\n"), [])

    def kept(self, source):
        made = define(source).f
        self.jit.compile_at_next_call(made)
        made([1])
        return made([1])
