"""Items of lists that compiled code stores: in the object that is there, or in its place."""

import copy
import math
import re
import signal
import sys
import threading

import jit_support
import surroundings
from jit_support import define
from test_jit_iterators import IteratorCase

EDGES = (-2**63, -2**30 - 1, -2**30, -2**30 + 1, -257, -6, -5, -4, -1, 0, 1, 255, 256, 257, 258, 2**30 - 1, 2**30, 2**30 + 1, 2**60, 2**63 - 1)

setUpModule = jit_support.load


class Stores(IteratorCase):
    STORE = """
        def f(a, values):
            for i in range(len(values)):
                a[i % len(a)] = values[i] + 0
            return a
    """

    def store(self):
        return self.compiled(define(self.STORE).f, [1000], [1, 2])

    def test_each_edge_over_each_edge(self):
        for old in EDGES:
            new = min(-old, 2**63 - 1)
            self.same(self.STORE, [([old + 0 for _ in EDGES], EDGES), ([old], [new, old]), ([1.5], [old])])
        self.same(self.STORE, [([old], list(EDGES)) for old in (None, True, 2.5, "text", 2**70)])

    def test_floats_bools_none_and_containers(self):
        source = """
            def f(a, x):
                for i in range(len(a)):
                    a[i] = {value}
                return a
        """
        for value in ("x > i", "None", "x * 0.5", "[x]", "(x, i)", "a[-1]", "x", "7", "1000", "2.5", "min(x, 600)", "max(a[i], x)"):
            for a in ([1, 300, 2**40], [0.5, 1.5], [True, None], [[1], [2]], [(1, 2), (3, 4)], ["text", b"bytes"]):
                with self.subTest(value=value, a=a):
                    self.both(source.format(value=value), a)

    def both(self, source, a):
        expected, found = list(a), list(a)
        plain, made = (define(source).f for _ in range(2))
        wanted = jit_support.what_happens(plain, (expected, 900))
        self.compiled_or_not(made, list(a))
        self.assertEqual(jit_support.what_happens(made, (found, 900)), wanted)
        self.assertEqual(repr(found), repr(expected))

    def compiled_or_not(self, function, a):
        for _ in range(2):
            jit_support.what_happens(function, (a, 900))
            self.jit.compile_at_next_call(function)

    def test_who_has_an_item_keeps_it(self):
        """An object that anything else refers to never changes."""
        store = self.store()
        for old in (257, 1000, 2**30 - 1, 1.5):
            items = [old + type(old)(i) for i in range(6)]
            expected = list(map(repr, items))
            shared = items[:]
            first, table, members, frozen = items[0], {items[1]: 1}, {items[2]}, (items[3],)
            kept = iter([items[4]])

            def closure(last=items[5]):
                return last
            store(items, [5000, 6000, 7000, 8000, 9000, 10_000])
            self.assertEqual(items, [5000, 6000, 7000, 8000, 9000, 10_000])
            self.assertEqual(list(map(repr, shared)), expected)
            found = [first, *table, *members, *frozen, *kept, closure()]
            self.assertEqual(list(map(repr, found)), expected)
            # Now they are the list's own.
            store(items, [1000] * 6)
            self.assertEqual(items, [1000] * 6)

    def test_two_places_for_one_object(self):
        store = self.store()
        a = [int("1000")] * 4
        self.assertEqual(store(a, [2000]), [2000, 1000, 1000, 1000])
        self.assertEqual(store(a, [2000, 3000, 4000]), [2000, 3000, 4000, 1000])
        self.assertEqual(store(a, [2001, 3001, 4001, 5001, 6001]), [6001, 3001, 4001, 5001])

    def test_what_was_read_does_not_change(self):
        source = """
            def f(a, n):
                kept, b = a[0], [0, 0]
                for i in range(n):
                    x, y = a[0], a[1]
                    a[0] = i * 3 + 1000
                    b[0] = x
                    a[1], b[1] = x, y
                    kept = kept + x - a[0]
                return kept, a, b, x, y
        """
        self.same(source, [([1000, 2000], 1), ([1000, 2000], 9), ([1, 2], 300), ([0.5, 1.5], 9), ([2**31, 2**29], 9)])

    def test_small_ints_stay_the_only_ones(self):
        store = self.store()
        for value in (-5, -1, 0, 1, 7, 255, 256):
            for old in (1000, 3, 2**40, -9):
                a = [old + 0]
                counts = sys.getrefcount(value)
                store(a, [value])
                self.assertIs(a[0], int(str(value)))
                self.assertEqual(sys.getrefcount(value), counts)

    def test_constants_do_not_change(self):
        source = """
            def f(n):
                a = [1000, 2000, 3000]
                for i in range(n):
                    a[i % 3] = a[i % 3] + i + 1000
                return a, 1000, 2000, 3000
        """
        self.same(source, [(1,), (2,), (9,), (1,)])

    def test_no_references_are_lost(self):
        store = self.store()
        a = [1000, 5, 70_000, -3, 2**40]
        values = [value for value in EDGES if value > -2**62] * 20

        def rounds(count):
            for _ in range(count):
                store(a, values)
            return sys.getallocatedblocks()
        rounds(5)
        before = rounds(5)
        self.assertLess(rounds(50) - before, 20)

    def test_constants_are_stored_in_place(self):
        """Where the old item has other owners no function is called, and the item is the constant itself."""
        for value, other in (("2.5", 7.5), ("1000", 2000), ("-0.0", 0.5), ("7", 8)):
            made = define(f"def f(a):\n    for i in range(len(a)):\n        a[i] = {value}\n").f
            self.compiled(made, [other] * 9)
            shared, single = [other] * 9, [type(other)(i + 3000) for i in range(9)]
            expected = f"[{', '.join([value] * 9)}]"
            counts = sys.getrefcount(other)
            for a in (shared, single, [None] * 9, ["text"] * 9, [[1] for _ in range(9)]):
                made(a)
                self.assertTrue(all(item is a[0] for item in a))
                self.assertEqual(repr(a), expected)
            self.assertLessEqual(sys.getrefcount(other), counts)
            self.assertEqual(jit_support.calls_of_each_turn(self.jit.dump(made)), [])
            # What is replaced has a destructor, which runs once each.
            gone = []
            items = [Loud(gone, i) for i in range(9)]
            made(items)
            self.assertEqual((gone, repr(items)), (list(range(9)), expected))

    def test_quotients_that_several_stores_use(self):
        """They are computed once, and the ways out of the stores behind them have them."""
        source = """
            def f(a, b, c, n):
                pull = 0.0
                for i in range(n):
                    pull = c[i % len(c)] / a[i % len(a)]
                    root = math.sqrt(pull * pull)
                    a[i % len(a)] -= pull * 0.5
                    b[i % len(b)] += pull * root
                    c[i % len(c)] += root
                return pull, root, a, b, c
        """
        inf, nan = float("inf"), float("nan")
        numbers = [[1.5, 2.5, 3.5], [0.5, -0.0, 7.0], [inf, 1.0, -inf], [nan, 2.0], [1e308, -1e308, 1e-320], [1, 2.5], [2.5, None], [2.5, "text"], []]
        cases = [(copy.copy(a), copy.copy(b), [3.0, 0.1], n) for a in numbers for b in numbers for n in (1, 7)]
        self.same(source, cases, math=math)
        # The same object in two lists, and one list twice.
        made, plain = (define(source, math=math).f for _ in range(2))
        self.compiled(made, [1.5], [2.5], [3.5], 3)
        found = []
        for function in (plain, made):
            shared = [1.25, 2.25, 4.25]
            other = shared[:]
            found.append(repr([function(shared, other, [2.0], 3), shared, other, function(shared, shared, shared, 9)]))
        self.assertEqual(*found)
        machine = self.jit.dump(made).partition("\n}\n")[2]
        divisions, roots = (re.findall(rf"\bv?({names})\b", machine) for names in ("divsd|fdiv", "sqrtsd|fsqrt"))
        self.assertEqual(len(divisions), len(roots))


class ChangedMeanwhile(IteratorCase):
    """What a loop appends to and stores into is changed by other code between two of its turns."""

    SOURCE = """
        def f(a, x, n, start):
            t = 0
            for i in range(n):
                a.append(i & 63)
                a.append(x)
                t += len(a)
                a[i % len(a)] = i - 3
                a[-2] = 2.5
                if i % 40 == 37:
                    t += start(a, i)
            return t, a
    """
    CHANGES = (
        "a.clear()", "del a[3:]", "a[:] = [1.5, 2, None]", "a.extend(range(500))", "a.reverse()", "a.sort(key=repr)", "a.append(a)",
        "a.insert(0, [1])", "a[:] = [shared] * 9", "a.sort(key=lambda item: a.append(1) or 0)", "a.__init__()", "1 / (i - 77)")
    ITEMS = (5, 1000, 2.5, None, [1], (1, "text"))

    def changed(self, start):
        """The loop calls `start(change, a, i)`."""
        for change in self.CHANGES:
            changes = define(f"shared = 10**9\ndef change(a, i):\n    {change}\n    return len(a)\n")

            def other(a, i, change=changes.change):
                return start(change, a, i)
            plain, made = (define(self.SOURCE).f for _ in range(2))
            for item in self.ITEMS:
                expected, found = [], []
                for function, outcomes in ((plain, expected), (made, found)):
                    self.jit.disable()
                    if function is made:
                        self.jit.enable(turns=10)
                    a = [1, 2, 3]
                    outcomes.append(jit_support.what_happens(function, (a, item, 200, other)))
                    outcomes.append((jit_support.shown(a), [one is item for one in a]))
                self.assertEqual(found, expected, (change, item))
            self.assertGreater(self.jit.stats(made)["entered"], 1, self.jit.explain(made))

    def test_by_a_callee(self):
        self.changed(lambda change, a, i: change(a, i))

    def test_by_a_thread(self):
        def start(change, a, i):
            thread = threading.Thread(target=lambda: jit_support.what_happens(change, (a, i)))
            thread.start()
            thread.join()
            return len(a)
        self.changed(start)

    def test_by_a_signal_handler(self):
        before = signal.getsignal(signal.SIGUSR1)
        self.addCleanup(signal.signal, signal.SIGUSR1, before)

        def start(change, a, i):
            signal.signal(signal.SIGUSR1, lambda number, frame: change(a, i))
            signal.raise_signal(signal.SIGUSR1)
            return len(a)
        self.changed(start)

    def test_by_a_tracer(self):
        before = sys.gettrace()
        self.addCleanup(sys.settrace, before)

        def start(change, a, i):
            def trace(frame, event, argument):
                if event == "line" and frame.f_lineno == 8:
                    sys.settrace(before)
                    frame.f_trace = None
                    jit_support.what_happens(change, (a, i))
                return trace
            sys.settrace(trace)
            sys._getframe(2).f_trace = trace
            return len(a)
        self.changed(start)

    def test_by_a_destructor(self):
        def start(change, a, i):
            class Last:
                def __del__(self):
                    jit_support.what_happens(change, (a, i))
            a[(i + 1) % len(a)] = Last()
            a.append(Last())
            return len(a)
        self.changed(start)

    def test_at_any_turn(self):
        """What each thread and each handler appended is there once.

        A handler is itself interrupted by others: where it appends is not where it began.
        """
        source = """
            def f(a, x, n):
                for i in range(n):
                    a.append(i & 127)
                    a.append(x)
                    a[0] = i
                return n
        """
        made = define(source).f
        a, marks = [0], []
        self.jit.enable(turns=10)
        interval = sys.getswitchinterval()
        self.addCleanup(sys.setswitchinterval, interval)
        sys.setswitchinterval(1e-5)
        owners = [[number] for number in range(4)]
        threads = [threading.Thread(target=made, args=(a, owner, 5000)) for owner in owners]

        def handler(number, frame):
            mark = object()
            marks.append(mark)
            a.append(mark)
        with surroundings.alarms(handler):
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        self.assertEqual(a[0], 4999)
        self.assertEqual(len(a), 1 + 4 * 10_000 + len(marks))
        self.assertEqual([sum(item is owner for item in a) for owner in owners], [5000] * 4)
        self.assertEqual([sum(type(item) is int and item == n for item in a[1:]) for n in (0, 1, 127)], [160, 160, 156])
        self.assertEqual({id(item) for item in a if type(item) is object}, {id(mark) for mark in marks})
        self.assertGreater(self.jit.stats(made)["entered"], 3)


class Loud:
    def __init__(self, gone, number):
        self.gone, self.number = gone, number

    def __del__(self):
        self.gone.append(self.number)
