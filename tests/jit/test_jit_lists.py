"""Lists and bytearrays that are made in compiled code, and methods that change lists."""

import gc
import sys

import jit_support
from jit_support import define, run_alone
from surroundings import alarms
from test_jit_iterators import IteratorCase

setUpModule = jit_support.load


class Steady(IteratorCase):
    """Loops in loops read lists, of which sizes, items and variables change meanwhile, or do not."""

    def nested(self, inner="pass", outer="pass", header=""):
        source = f"""
            {header}
            def f(a, b, n):
                total = 0
                for i in range(n):
                    {outer}
                    for k in range(6):
                        total += a[k % len(a)] * 2 - b[k % len(b)]
                        {inner}
                        a[0] = total % 1000 + a[-1] + b[-1]
                return total, a, b
        """
        shared = [5, 6, 7]
        cases = [([1, 2, 3], [4, 5], 9), (shared, shared, 9), ([1.5, 2.0], [0.5], 5), ([1], [2], 0), ([1, 2], [], 3), ([1, None], [2], 3)]
        # A function that never ran is not called.
        self.same(source, cases[:3] if header else cases)

    def test_steady(self):
        self.nested()
        self.nested("b[k % 2] = a[k % 2]", "a[1], b[0] = b[0], a[1]")

    def test_sizes_change(self):
        for change in ("a.append(k)", "b.append(k)", "a.insert(0, i)", "if len(a) > 1: a.pop()", "if len(b) > 1: b.pop(0)", "a += [i]", "a.extend(b[:2])",
                       "b[1:] = [3, 4, 5]", "if len(a) > 1: del a[0]", "a.reverse()", "a[:] = b[:]"):
            with self.subTest(change):
                change = f"if len(a) < 50: {change}" if change[0] != "i" else change
                self.nested(inner=change)
                self.nested(outer=change.replace("k)", "i)"))

    def test_variables_change(self):
        for change in ("a = b", "a, b = b, a", "a = a + [1]", "b = [i] * (i + 1)", "b = a[:]"):
            with self.subTest(change):
                change = f"if len(a) < 40: {change}"
                self.nested(inner=change)
                self.nested(outer=change)

    def test_a_function_changes_lists(self):
        for body in ("a.append(x)", "a[1:] = [x] * 40", "if len(a) > 1: a.pop()", "b = a\n                b += [x, x]"):
            with self.subTest(body):
                header = f"def grow(a, x):\n                {body}\n                return x\n"
                self.nested(inner="if len(a) < 90: grow(a, k)", header=header)
                self.nested(outer="grow(b, 3)", header=header)

    def test_rows_are_replaced(self):
        source = """
            def f(a, n):
                total = 0
                for i in range(n):
                    row = a[0]
                    for k in range(3):
                        total += row[k % len(row)] + a[k % len(a)][0]
                        a[k % len(a)] = a[-1]
                        row.append(total % 10)
                    a[i % len(a)] = [total, i]
                    if i == 5:
                        a[0] = a[-1] = row
                return total, a
        """
        self.same(source, [([[1], [2, 3], [4]], 9), ([[1.5]], 3), ([], 1)])
        self.same("def f(a, n):\n    for i in range(n):\n        a[i % len(a)] = a\n        if len(a[0]) > 2: a[1] = 5\n    return len(a)\n", [([[1], [2]], 5)])


class FirstTurns(IteratorCase):
    """Loops that only read items: what the first turn has loaded and checked serves for the others, while nothing changes it."""

    ROWS = ([], [[]], [[1]], [[1, 2]], [[1, 2], [3, 4]], [[1, 2, 3], [4, 5, 6], [7, 8, 9]], [[1.5, 2.5], [-0.0, 4.0]], [[1, 2.5], [3.5, 4]],
            [[1, 2], [3]], [[1, 2], [3, 2**70]], [[1, 2], None], [[1, 2], (3, 4)], [(1, 2), (3, 4)], [b"ab", b"cd"], [bytearray(b"ab"), [1, 2]])

    def nested(self, body, before="pass", after="pass"):
        source = f"""
            def f(a, n):
                total = 0
                for i in range(n):
                    {before}
                    for j in range(n):
                        for k in range(n):
                            {body}
                    {after}
                return total, i, j, k
        """
        self.same(source, [(rows, n) for rows in self.ROWS for n in {1, 2, 3, len(rows)}])

    def test_rows(self):
        for body in ("total += a[i][k] * a[k][j]", "total += a[i][k - 2] - a[-1][k]", "total = total * 3 + a[0][k]", "total += a[k][0]",
                     "total += a[i][j]", "if k > 1: total += a[i][k]", "if a[i][k] > 2: total += a[i][k - 1]"):
            with self.subTest(body):
                self.nested(body)

    def test_ways_out(self):
        for body in ("if a[i][k] == 3: break", "if a[i][k] == 1: continue\n                            total += a[j][k]",
                     "if a[i][k] == 4: return total", "total += a[i][k] if k != 1 else a[k][i]", "total += a[i][k]\n                            i = k"):
            with self.subTest(body):
                self.nested(body)

    def test_lists_change_between_loops(self):
        for change in ("a.append([i, i])", "a[0] = [i, i + 1, i + 2]", "a.reverse()", "a.insert(0, a[-1])", "a = a[::-1]", "a[i] = a[0]",
                       "a += [[7.5, 8.5]]", "if len(a) > 2: a.pop(0)", "a = [[j, i, 3] for j in range(4)]"):
            with self.subTest(change):
                self.nested("total += a[0][k] + a[i][j]", before=change)
                self.nested("total += a[0][k] + a[i][j]", after=change)

    def test_lists_change_in_the_loop(self):
        # None of these is a call or stores an item.
        source = """
            def f(a, n):
                total = 0
                for i in range(n):
                    for k in range(n):
                        total += a[0] * 3 + a[k] - a[-1]
                        if k & 1: {change}
                return total, a
        """
        for change in ("a += [k]", "a = a + [i]", "a = [a[-1]] * 9", "a, b = [k] * 6, a", "a = a[1:] + a", "a = a[::-1]"):
            with self.subTest(change):
                self.same(source.format(change=change), [([1, 2, 3, 4], 4), ([1, 2], 2), ([1, 2], 5), ([1.5, 2.5, 3.5, 4.5], 4), ([], 2)])

    def test_other_loops(self):
        for loop in ("while x < len(a):\n        total += a[x][0] + a[0][x]\n        x += 1", "for row in a:\n        total += row[0] + a[0][1]",
                     "for x, row in enumerate(a):\n        total += row[x] * a[x][0]", "while True:\n        total += a[x][0]\n        x += 1",
                     "for x in range(9):\n        total += a[x & 1][x & 1]\n    else:\n        total *= 2",
                     "for x in range(3):\n        for y in range(2):\n            total += a[y][x & 1]\n"
                     "        for y in range(2):\n            total -= a[1][y]",
                     ):
            with self.subTest(loop):
                self.same(f"def f(a):\n    total = x = 0\n    {loop}\n    return total, x\n", [(rows,) for rows in self.ROWS])

    def test_a_handler_and_a_thread_change_what_is_read(self):
        """The loop ends as soon as it reads that."""
        for change in ("a[0][0] = 1", "a[0] = [1]", "a[:] = [[1]]", "a.insert(0, [1])", "a.clear()", "a[0].clear()"):
            for way in ("handler", "thread"):
                with self.subTest(change, way=way):
                    self.assertEqual(run_alone(f"""
                        import signal, threading, time
                        def f(a, turns):
                            total = x = 0
                            while not a[0][x] and turns:
                                turns -= 1
                                total += a[0][0]
                            return turns
                        def change(*_):
                            {change}
                        a = [[0]]
                        ferrule_jit.compile_at_next_call(f)
                        f(a, 5)
                        if {way!r} == "handler":
                            signal.signal(signal.SIGALRM, change)
                            signal.setitimer(signal.ITIMER_REAL, 0.01)
                        else:
                            threading.Timer(0.01, change).start()
                        try:
                            print(f(a, 2_000_000_000) > 0)
                        except IndexError:
                            print(True)
                        print(ferrule_jit.stats(f)["entered"] > 0)
                    """).split(), ["True", "True"])


class Made(IteratorCase):
    def test_written_out(self):
        self.same("def f(x, y):\n    return [], [x], [x, y, x], [1, 2, 3], [0.5, -1.5, 2.5], [None, True, x], ['a', x]\n",
                  [(1, 2), (1.5, 1000), (None, True), (2**62, -0.0)])
        self.same("def f(x):\n    a = [x, x]\n    a[0] = 5\n    return a, [a, a], [[x], [[x]]]\n", [(10**9,), (2.5,)])

    def test_repeated(self):
        source = "def f(x, n):\n    a = [x] * n\n    b = n * [x, 0]\n    return a, b, len(a) + len(b)\n"
        self.same(source, [(x, n) for x in (0, 1.5, None) for n in (3, 1, 0, -1, -2**63, True)])
        source = "def f(n, m):\n    a = [[0] * n for _ in range(m)]\n    for i in range(n):\n        a[i % m][i] += i\n    return a, a[0] * 2\n"
        self.same(source, [(4, 2), (1, 1), (0, 3), (3, 0)])

    def test_sizes_that_no_memory_has(self):
        for expression in ("[0] * n", "n * [0, 1]", "list(range(n))", "bytearray(n)", "[1.5] * n"):
            source = f"def f(n):\n    x = 3\n    return len(\n        {expression}) + x\n"
            self.same(source, [(n,) for n in (5, 2**62, 2**63 - 1, -1, -2**63, 2**59)])

    def test_comprehensions(self):
        for expression in ("x * 2 for x in a", "x for x in a if x", "[x, y] for x in a for y in a", "i + x for i, x in enumerate(a)",
                           "[x * y for y in a] for x in a", "[0] * 2 for x in a", "x for x in [y for y in a]", "x / 2 for x in reversed(a)"):
            source = f"def f(a, x):\n    b = [{expression}]\n    return b, len(b), x\n"
            self.same(source, [([1, 2, 0], 7), ([], 7), ([0.5, 0.0], None), ([1, 2**62], 3), ([1, 2.5], 1), ([1, None], 1)])

    def test_an_exception_in_a_comprehension(self):
        source = """
            def f(a, n):
                x = n
                try:
                    b = [10 // (x - n)
                         for x in a]
                except ZeroDivisionError:
                    b = [x]
                c = [[100 // (y - x) for y in a] for x in a[:1]]
                return b, c, x
        """
        self.same(source, [([1, 2], 3), ([1, 2, 3], 2), ([5, 4, 3], 3), ([], 1), ([2, 3, 2], 3)])

    def test_a_variable_of_a_comprehension_is_unbound_outside(self):
        self.same("def f(a):\n    b = [x for x in a]\n    return b, x\n    x = 1\n", [([1, 2],), ([],)])

    def test_slices(self):
        ends = (None, 0, 1, 2, -1, -2, 5, -5, 2**63 - 1, -2**63, True)
        for content in ([1, 2, 3], [0.5], []):
            self.same("def f(a, i, k):\n    return a[i:k], a[i:], a[:k], a[:]\n", [(content, i, k) for i in ends for k in ends])
        self.same("def f(a, i):\n    return a[i:]\n", [([1, 2], 1.5)])

    def test_sums(self):
        self.same("def f(a, b):\n    c = a + b\n    c[0] = c[-1]\n    a += b\n    b += b\n    return a, b, c, a + [1]\n",
                  [([1], [2, 3]), ([], [1]), ([0.5], [1]), ([1, 2.5], [None])])
        shared = [1, 2]
        self.same("def f(a, b):\n    a += b\n    return b, len(a)\n", [(shared, shared)])

    def test_list_of(self):
        self.same("def f(a, n):\n    return list(a), list(), list(range(n)), list(range(n, 0, -2)), list(range(0, n, 3))\n",
                  [([1, 2], 5), ([], 0), ([[1]], -3), ([0.5], 2)])

    def test_bytearrays(self):
        source = "def f(n, x):\n    a = bytearray(n)\n    for i in range(n):\n        a[i] = x\n        x += 7\n    return a, len(a)\n"
        self.same(source, [(5, 1), (0, 1), (3, 250), (-1, 1)])

    def test_what_is_read_is_what_was_put_in(self):
        source = """
            def f(n, x):
                a = []
                b = [0] * n
                for i in range(n):
                    a.append(i)
                    b[i] = x * i
                t = 0
                for i in range(n):
                    t = t * 2 + a[i] + b[i]
                a.append(x)
                for y in a:
                    t += y
                return t, a, b
        """
        self.same(source, [(5, 2), (5, 0.5), (0, 1), (9, 2**61), (1, True)])


class Methods(IteratorCase):
    def test_append(self):
        source = "def f(a, x, n):\n    for i in range(n):\n        a.append(x)\n        a.append(i)\n    return a[-1], len(a)\n"
        self.same(source, [([], 1, 3), ([1], 0.5, 20), ([1], None, 2), ([[1]], 10**12, 3), ([1], [2], 2)])

    def test_append_with_room_and_without(self):
        """What exists is put into a list that has room without a call; ints are looked up among those that exist once."""
        edges = (-2**63, -1000, -6, -5, -1, 0, 1, 255, 256, 257, 2**30, 2**62)
        source = "def f(a, n, x, y):\n    for i in range(n):\n        a.append(i + x)\n        a.append(y)\n    return len(a)\n"
        for first in edges:
            self.same(source, [([], n, first, y) for n in (1, 40) for y in (None, True, 2.5, 1000, [1], (1, 2), b"x")])
            self.same(f"def f(n):\n    return [i + {first} for i in range(n)]\n", [(n,) for n in (1, 9, 600)])
        for value in ("3", "1000", "2.5", "None", "True", "[1]", "(i, 2)", "(1, 2)"):
            self.same(f"def f(a, n):\n    for i in range(n):\n        a.append({value})\n    return len(a)\n", [([1], 0), ([1], 70), ([], 9)])

    def test_append_calls_nothing_where_there_is_room(self):
        for value in ("i", "True", "None", "2.5", "a"):
            made = define(f"def f(a, n):\n    for i in range(n):\n        a.append({value})\n    return n\n").f
            self.compiled(made, [1], 5)
            self.assertEqual(jit_support.calls_of_each_turn(self.jit.dump(made)), [], value)

    def test_what_is_appended_keeps_its_identity_and_references(self):
        made = define("def f(a, x, n):\n    for i in range(n):\n        a.append(x)\n        a.append(i)\n        a.append(12.5)\n    return a\n").f
        for x in ([1], (1, 2), b"bytes", 10**6, 0.25, None):
            self.compiled(made, [], x, 50)
            before = sys.getrefcount(x)
            a = made([], x, 200)
            self.assertTrue(all(item is x for item in a[::3]))
            self.assertTrue(all(item is int(str(i)) for i, item in enumerate(a[1::3]) if i < 257))
            self.assertTrue(all(item is a[2] for item in a[2::3]))
            self.assertIn(sys.getrefcount(x) - before, (0, 200))  # 0: an immortal object
            del a
            self.assertEqual(sys.getrefcount(x), before)

    def test_appending_while_it_is_sorted(self):
        """A list has no items and no room then."""
        made = define("def f(a, x):\n    a.append(x)\n    return x\n").f
        a = [3, 1, 2]
        self.compiled(made, [1], 5)
        entered = self.jit.stats(made)["entered"]
        with self.assertRaisesRegex(ValueError, "modified during sort"):
            a.sort(key=lambda x: made(a, x))
        self.assertGreater(self.jit.stats(made)["entered"], entered)
        self.assertEqual(a, [1, 2, 3])

    def test_appending_to_what_is_read(self):
        source = """
            def f(a, n):
                t = 0
                for i in range(n):
                    t += a[i] + a[-1] + len(a)
                    a.append(i & 7)
                    t += a[-1] * a[len(a) - 1]
                    if t > 300:
                        a.append(t)
                        t -= a[-1]
                return t, a
        """
        self.same(source, [([1], 90), ([1, 2, 3], 5), ([300] * 4, 40), ([0.5], 9), ([True], 9), ([], 1)])

    def test_appending_to_itself(self):
        self.same("def f(a):\n    a.append(a)\n    b = [a]\n    b.append(b)\n    return len(a)\n", [([1],), ([],)])

    def test_while_it_is_looped_over(self):
        source = """
            def f(a, n):
                t = 0
                for x in a:
                    t = t * 2 + x
                    if len(a) < n:
                        a.append(x + 1)
                    elif len(a) > n:
                        a.pop()
                        a.pop()
                for i, x in enumerate(a):
                    a.insert(0, i) if len(a) < n + 4 else a.pop(0)
                for x in reversed(a):
                    a.pop()
                    t += x
                return t, a
        """
        self.same(source, [([1], 5), ([], 3), ([1, 2, 3, 4, 5, 6, 7, 8], 3), ([0.5], 9), ([1, 2, 3], 3), ([1, 2**62], 9)])

    def test_a_list_that_shrinks_and_is_left_keeps_its_place(self):
        source = """
            def f(a, n):
                seen = 0
                for x in a:
                    seen = seen * 3 + x
                    if x == n:
                        a.pop()
                        a.pop()
                        a.pop()
                        seen = (seen + 4) * 2**62
                        for _ in range(5):
                            a.append(7)
                return seen
        """
        self.same(source, [([1, 2, 3, 4, 5], n) for n in range(7)])
        for head in ("i, x in enumerate(a)", "x, i in zip(a, range(99))"):
            self.same(source.replace("x in a", head), [([1, 2, 3, 4, 5], n) for n in range(7)])

    def test_pop(self):
        for content in ([1, 2, 3], [0.5, 1.5], [True, None], [[1], [2, 3]], [], [1, 2**70], ["a", 1], [b"a"]):
            for index in ("", "0", "-1", "1", "-2", "i", "9"):
                self.same(f"def f(a, i):\n    x = a.pop({index})\n    return x, a\n", [(content, 1), (content, -1)])
        self.same("def f(a, n):\n    t = 0\n    while a:\n        t += a.pop()\n        if t == n: a.append(5)\n    return t\n",
                  [([1, 2, 3] * 50, 3), ([0.5] * 9, 1.5)])

    def test_the_others(self):
        source = "def f(a, i, x):\n    a.insert(i, x)\n    b = a.copy()\n    a.extend(b)\n    a.reverse()\n    b.extend([x, x])\n    return a, b\n"
        self.same(source, [([1, 2, 3], i, x) for i in (0, 1, -1, 9, -9) for x in (5, 1.5, None)])
        self.same("def f(a):\n    a.extend(a)\n    return a.append(1), a\n", [([1, 2],), ([],)])

    def test_rows(self):
        source = """
            def f(n):
                rows = []
                for i in range(n):
                    row = []
                    for k in range(i):
                        row.append(i * k)
                    rows.append(row)
                total = 0
                for row in rows:
                    for x in row:
                        total += x
                last = rows.pop()
                last.append(total)
                rows[0] = last
                return rows, last, total
        """
        self.same(source, [(5,), (1,), (0,), (20,)])

    def test_a_subclass_is_the_interpreters(self):
        class Longer(list):
            def append(self, item):
                super().append(item)
                super().append(item)

            def __iter__(self):
                return iter([7])
        source = "def f(a):\n    t = 0\n    a.append(1)\n    for x in a:\n        t += x\n    return t\n"
        plain, made = (define(source).f for _ in range(2))
        self.compiled(made, [1, 2])
        for content in (Longer([1, 2]), [1, 2]):
            self.assertEqual(made(type(content)(content)), plain(type(content)(content)))

    def test_levenshtein(self):
        source = """
            def f(first, second):
                above = list(range(len(second) + 1))
                for i, x in enumerate(first):
                    row = [i + 1]
                    for j, y in enumerate(second):
                        row.append(min(above[j] + (x != y), above[j + 1] + 1, row[j] + 1))
                    above = row
                return above[-1]
        """
        left = self.same(source, [(b"kitten", b"sitting"), (b"", b"abc"), (b"abc", b""), (bytearray(b"saturday"), b"sunday")])
        self.assertEqual(left, 0)


class Owned(IteratorCase):
    def test_references_are_balanced(self):
        source = """
            def f(a, n):
                b = [a, a]
                b.append(a)
                c = [[a] for _ in range(n)]
                d = b + c[0] + b[1:]
                e = d.pop()
                e = d.pop(0)
                d.extend(b)
                b += c
                d = [x for x in b]
                for x in d:
                    e = x
                return 10 // (n - 3)
        """
        made = define(source).f
        self.compiled(made, [1], 2)
        content = [1, 2]
        before = sys.getrefcount(content)
        for n in (1, 2, 3, 0, 4, 300):
            jit_support.what_happens(made, (content, n))
        gc.collect()
        self.assertEqual(sys.getrefcount(content), before)

    def test_memory_is_released(self):
        self.releases_memory(define("""
            def f(n):
                t = 0
                for i in range(n):
                    row = [i] * 100
                    row.append(i)
                    t += row.pop() + row[5:][0]
                return t
        """).f)

    def test_a_destructor_runs_when_a_made_list_is_replaced(self):
        found = run_alone("""
            class Loud:
                def __del__(self):
                    print("gone")
            def f(a, n):
                row = a.pop()
                for i in range(n):
                    row = [i]
                print("behind")
                return row
            def call(n):
                return f([[1], [Loud()]], n)
            ferrule_jit.compile_at_next_call(f)
            f([[1]], 2)
            print(call(3))
        """)
        self.assertEqual(found.split(), ["behind", "gone", "behind", "[2]"])

    def test_a_destructor_of_what_is_in_a_list_twice(self):
        found = run_alone("""
            import sys
            class Loud:
                def __del__(self):
                    print("gone", sys._getframe(1).f_code.co_name)
            def f(rows, n):
                rows.append([1])
                row = rows.pop(0)
                row = [2]
                return n
            ferrule_jit.compile_at_next_call(f)
            f([[1]], 1)
            loud = Loud()
            twice, nested, kept = [[loud, loud]], [[loud, [loud, [loud]]]], [[loud, loud]]
            f(kept, 1)
            del loud
            f(nested, 1)
            f(twice, 1)
        """)
        self.assertEqual(found, "gone f\n")

    def test_the_collector_runs_in_a_loop(self):
        source = """
            def f(n):
                keep = []
                for i in range(n):
                    row = [i]
                    row.append(keep)
                    keep = [row]
                    if i % 5000 == 0:
                        keep = []
                return len(keep)
        """
        made, plain = define(source).f, define(source).f
        self.compiled(made, 5)
        before = gc.get_stats()[0]["collections"]
        self.assertEqual(made(100_000), plain(100_000))
        self.assertGreater(gc.get_stats()[0]["collections"], before)

    def test_a_handler_changes_a_list_that_grows(self):
        source = "def f(a, n):\n    for i in range(n):\n        a.append(i)\n        if len(a) > 1000:\n            a.pop()\n    return len(a)\n"
        made = define(source).f
        self.compiled(made, [1], 5)
        content, cleared = [], []

        def clear(number, frame):
            cleared.append(len(content))
            content.clear()
        with alarms(clear, 0.001):
            self.assertLessEqual(made(content, 2_000_000), 1000)
        self.assertTrue(cleared)
        self.assertLessEqual(len(content), 1000)

    def test_without_memory(self):
        # The limit is that of the process.
        program = """
            import resource
            def f(n):
                a = []
                try:
                    for i in range(n):
                        a.append([0] * 100_000)
                except MemoryError:
                    return len(a)
            ferrule_jit.compile_at_next_call(f)
            f(2)
            resource.setrlimit(resource.RLIMIT_AS, (1 << 30, 1 << 30))
            if resource.getrlimit(resource.RLIMIT_AS) != (1 << 30, 1 << 30):
                print("none")
            else:
                found = f(100_000)
                print(100 < found < 10_000)
        """
        found = run_alone(program).strip()
        if found == "none":
            self.skipTest("an emulator takes no limit of memory")
        self.assertEqual(found, "True")
