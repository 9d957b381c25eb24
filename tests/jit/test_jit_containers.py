"""Items of lists, bytes and bytearrays: read, stored, shared, and released when the interpreter would."""

import gc
import sys
import weakref

import jit_support
from jit_support import Case, define

setUpModule = jit_support.load


class Items(Case):
    def changed(self, source, argument_lists):
        """As `check`, for functions that change their arguments: what these are afterwards is compared too.

        A number that was read from a container is a new object.
        """
        for arguments in argument_lists:
            plain, made = (define(source).f for _ in range(2))
            wanted, first, found = (eval(repr(arguments)) for _ in range(3))
            expected = jit_support.what_happens(plain, wanted)
            self.jit.compile_at_next_call(made)
            jit_support.what_happens(made, first)
            entered = self.jit.stats(made)["entered"]
            happened = jit_support.what_happens(made, found)
            raised = any(isinstance(place, tuple) for place in expected[1])
            self.assertEqual(happened if raised else happened[0], expected if raised else expected[0], arguments)
            self.assertEqual(repr(found), repr(wanted))
            self.assertGreater(self.jit.stats(made)["entered"], entered, self.jit.explain(made))

    def test_indices(self):
        for content in ([1, 2, 3], [0.5, -0.0, 2.5], [True, False, True], b"abc", bytearray(b"abc"), [10**9, -10**18, 5]):
            self.changed("def f(a, i):\n    return a[i]\n", [(content, i) for i in (0, 2, -1, -3, 3, -4, True, 2**62, -2**63)])
            self.changed("def f(a, i):\n    return len(a) + i\n", [(content, 1)])
        self.changed("def f(a, i):\n    return a[i]\n", [([], 0), (b"", 0), ([1], 1.0), ([1], None), ([[1], [2.5]], 1)])

    def test_stores(self):
        source = "def f(a, i, x):\n    a[i] = x\n    return a[0]\n"
        values = (1, 1000, -10**12, 2.5, True, None, 300, -1, 255)
        for content in ([1, 2], [0.5, 1.5], [None, 1], bytearray(b"ab"), b"ab", []):
            self.changed(source, [(content, i, x) for i in (0, -1, 2, -3) for x in values])

    def test_items_of_several_types(self):
        source = "def f(a):\n    total = 0\n    for i in range(len(a)):\n        total += a[i]\n        a[i] = total\n    return total\n"
        self.changed(source, [([1, 2, 3],), ([1, 2.5, 3],), ([0.5, 1, True],), ([1, 2**70, 3],), ([1, None],), ([1, "text"],)])

    def test_items_change_places(self):
        source = """
            def f(a):
                for i in range(len(a)):
                    a[i], a[-1 - i] = a[-1 - i], a[i]
                    a[0] += i
                return len(a)
        """
        self.changed(source, [([1, 2, 3],), ([10**6, 5, 7 * 10**12],), ([0.5, 0.25],), ([],), (bytearray(b"abc"),)])

    def test_lists_of_lists(self):
        source = """
            def f(a, n):
                for i in range(n):
                    row = a[i]
                    for k in range(len(row)):
                        a[i][k] = row[k] * 2 + a[k][i]
                return row, row is a[n - 1]
        """.replace(", row is a[n - 1]", "")
        self.changed(source, [([[1, 2], [3, 4]], 2), ([[0.5, 1.5], [2.5, 3.5]], 2), ([[1, 2], [3]], 2), ([[1], 5], 2)])

    def test_rows_of_lists_change_places(self):
        source = """
            def f(a, b):
                for i in range(len(a)):
                    a[i], b[i] = b[i], a[i]
                return a, b
        """
        self.changed(source, [([[1, 2], [3]], [[4], [5]]), ([[1, 2], [3]], [0.5, 1.5]), ([[0.5]], [[1, 2]])])

    def test_a_float_that_somebody_else_has_stays(self):
        made = define("def f(a, x):\n    for i in range(len(a)):\n        a[i] = a[i] * x\n    return a\n").f
        shared = 1.25 * len(sys.argv)
        content = [shared, 2.5 * len(sys.argv)]
        self.compiled(made, content, 1.0)
        kept = content[0]
        was = float(repr(kept))
        made(content, 3.0)
        made(content, 3.0)
        self.assertEqual(kept, was)
        self.assertEqual(content[0], was * 9)

    def test_a_list_that_runs_in_a_loop(self):
        source = """
            def f(limit):
                composite = bytearray(limit)
                found = 0
                for number in range(2, limit):
                    if not composite[number]:
                        found += 1
                        for multiple in range(number * number, limit, number):
                            composite[multiple] = 1
                return found
        """
        made = define(source).f
        self.assertEqual(made(20_000), 2262)
        self.assertTrue(self.jit.stats(made)["loops"], self.jit.explain(made))

    def test_lists_are_passed_on_and_returned(self):
        source = """
            def inner(row, i):
                row[0] += i
                return row
            def f(a, n):
                total = 0
                for i in range(n):
                    b = inner(a[i], i)
                    total += b[0]
                    if b:
                        total += 1
                return total
        """
        self.changed(source, [([[1], [2], [3]], 3), ([[0.5], [1.5]], 2), ([[1], [2**63 - 1]], 2), ([[1], []], 2), ([[1]], 2)])


class Loud:
    def __init__(self, dropped):
        self.dropped = dropped

    def __del__(self):
        self.dropped.append(1)


class References(Case):
    def test_a_destructor_runs_when_an_item_is_replaced(self):
        source = """
            def f(a, log, n):
                for i in range(n):
                    a[i] = i
                    log[i] = len(log)
                return n
        """
        made = define(source).f
        self.compiled(made, [5, 6, 7], [5, 6, 7], 3)
        dropped = []

        class Clears:
            def __del__(self):
                dropped.append(list(content))
        content = [1, Clears(), 3]
        made(content, [0, 0, 0], 3)
        self.assertEqual(dropped, [[0, 1, 3]])

    def test_a_destructor_runs_when_a_variable_is_replaced(self):
        source = """
            def f(a, b, log):
                row = a[0]
                a[0] = b
                log[0] = 1
                row = b
                log[0] = 2
                return row
        """
        made = define(source).f
        self.compiled(made, [[1]], [2], [0])
        log = [0]

        class Looks:
            def __del__(self):
                log.append(log[0])
        made([[Looks()]], [2], log)
        self.assertEqual(log, [2, 1])

    def test_references_are_balanced(self):
        source = """
            def f(a, b, n):
                q = a
                for i in range(n):
                    row = a[i]
                    q, row = row, q
                    q[0] = b[0]
                return q
        """
        made = define(source).f
        self.compiled(made, [[1], [2]], [7], 2)
        rows, other = [[1], [2.5], [3], ["text"]], [2.5]
        values = [rows, other, *rows, *(row[0] for row in rows)]
        before = [sys.getrefcount(value) for value in values[:6]]
        for n in (1, 2, 3, 4, 5):
            try:
                made(rows, other, n)
            except IndexError:
                pass
        self.assertEqual([sys.getrefcount(value) for value in values[:6]], before)

    def test_an_item_that_is_replaced_is_still_on_the_stack(self):
        made = define("def f(a, b):\n    for i in range(len(a)): a[i], b[i] = b[i], a[i]\n    return a, b\n").f
        self.compiled(made, [[1], [2]], [[3], [4]])
        entered = self.jit.stats(made)["entered"]
        # The lists alone have the rows.
        a, b = made([[number] for number in range(20)], [[-number] for number in range(20)])
        self.assertEqual(self.jit.stats(made)["entered"], entered + 1)
        fresh = [[] for _ in range(200)]
        self.assertEqual((a, b), ([[-number] for number in range(20)], [[number] for number in range(20)]))
        self.assertFalse(any(row is other for row in a + b for other in fresh))

    def test_a_list_below_two_edges(self):
        # The list is on the stack where min() continues with one type or the other.
        made = define("def f(a, x, y):\n    a[0][0] = a[int(max(x, y))][0]\n    return a[min(x, y)][0] + a[int(max(x, y))][0]\n").f
        self.compiled(made, [[1], [2], [3]], 1, 2.5)
        rows = [[1], [2], [3]]
        before = [sys.getrefcount(value) for value in (rows, *rows)]
        for x, y, result in ((1, 2.5, 5), (0, 1.5, 4), (2, 2.5, 6)) * 10:
            self.assertEqual(made(rows, x, y), result)
        self.assertRaises(TypeError, made, rows, 2, 0.5)
        self.assertEqual([sys.getrefcount(value) for value in (rows, *rows)], before)
        self.assertGreater(self.jit.stats(made)["entered"], 20)

    def test_a_list_goes_away(self):
        made = define("def f(a):\n    b = a[0]\n    for i in range(3): a[1] = i\n    return b[0]\n").f
        self.compiled(made, [[1], 2])

        class Item:
            pass
        item = Item()
        gone = weakref.ref(item)
        self.assertIs(made([[item], 2]), item)
        del item
        gc.collect()
        self.assertIsNone(gone())
