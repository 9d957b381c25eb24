"""Loops over containers, and over what enumerate, zip and reversed make of them: entered, left, and continued by the interpreter."""

import copy
import signal
import sys
import threading

import jit_support
from jit_support import Case, define, run_alone

setUpModule = jit_support.load


class IteratorCase(Case):
    def same(self, source, argument_lists, **values):
        """A function does with each list of arguments what it does interpreted, also to the arguments; how often it was left."""
        left = 0
        for arguments in argument_lists:
            plain, made = (define(source, **values).f for _ in range(2))
            wanted, first, found = (copy.deepcopy(arguments) for _ in range(3))
            expected = jit_support.what_happens(plain, wanted)
            self.jit.compile_at_next_call(made)
            jit_support.what_happens(made, first)
            entered = self.jit.stats(made).get("entered", 0)
            self.assertEqual(jit_support.what_happens(made, found), expected, (source, arguments))
            self.assertEqual(repr(found), repr(wanted), (source, arguments))
            stats = self.jit.stats(made)
            self.assertGreater(stats.get("entered", 0), entered, self.jit.explain(made))
            left += stats["left"]
        return left


class Loops(IteratorCase):
    NUMBERS = ([1, 2, 3], [], [0.5, -0.0, 2.5], [True, False], b"abc", bytearray(b"abc"), [10**9, -10**18, 5])
    ODD = ([1, 2.5, 3], [1, 2**70, 3], ["text"], [1, None], [1, "text"])

    def check_loop(self, head, value, among):
        source = f"def f(a):\n    total = 0\n    for {head}:\n        total = total * 2 + {value}\n    return total\n"
        return self.same(source, [(content,) for content in among])

    def test_items(self):
        self.check_loop("x in a", "x", self.NUMBERS)
        self.assertGreater(self.check_loop("x in a", "x", self.ODD), 4)

    def test_enumerate(self):
        for first in ("", ", 1", ", -2**63", ", 2**63 - 2", ", True"):
            self.check_loop(f"i, x in enumerate(a{first})", "x - i", self.NUMBERS + self.ODD)
        self.same("def f(a):\n    for pair in enumerate(a):\n        pass\n    return pair\n", [([1, 2],), ([],)])

    def test_zip(self):
        self.check_loop("x, y in zip(a, a)", "x - y * 3", self.NUMBERS + self.ODD)
        self.check_loop("x, i in zip(a, range(2))", "x - i", self.NUMBERS + self.ODD)
        self.check_loop("i, x, y in zip(range(9, 0, -4), a, a)", "x - i * y", self.NUMBERS + self.ODD)
        self.check_loop("i, (x, y) in enumerate(zip(a, a))", "x - i * y", self.NUMBERS)
        self.check_loop("(x,) in zip(a)", "x", self.NUMBERS)

    def test_reversed(self):
        lists = [content for content in self.NUMBERS + self.ODD if isinstance(content, list)]
        self.check_loop("x in reversed(a)", "x", lists)
        self.check_loop("i, x in enumerate(reversed(a))", "x - i", lists)

    def test_reversed_ranges(self):
        source = "def f(a, b, c):\n    total = 0\n    for x in reversed(range(a, b, c)):\n        total = total * 3 + x\n    return total\n"
        self.same(source, [(0, 10, 1), (0, 10, 3), (10, 0, 1), (5, 0, 2), (-2**63, 2**63 - 1, 2**62), (0, 5, 0)])
        self.same(source.replace("c))", "-3))"), [(10, 0, 1), (11, 0, 1), (0, 10, 1), (2**63 - 1, 2**63 - 20, 0)])

    def test_what_is_no_iterable(self):
        for head in ("x in a", "x, y in zip(a, b)", "i, x in enumerate(a)", "x in reversed(a)"):
            source = f"def f(a, b):\n    t = 0\n    for {head}:\n        t += 1\n    return t\n"
            plain, made = (define(source).f for _ in range(2))
            for arguments in ((5, 6), (None, [1]), (1.5, [])):
                self.jit.compile_at_next_call(made)
                self.assertEqual(jit_support.what_happens(made, arguments), jit_support.what_happens(plain, arguments))

    def test_exceptions_in_the_body(self):
        for head in ("i, x in enumerate(a)", "i, x in zip(range(9), a)", "i, (x, y) in enumerate(zip(a, a), 1)"):
            source = f"""
                def f(a):
                    found = 0
                    for {head}:
                        try:
                            found += (100 //
                                      (x - 2))
                        except ZeroDivisionError:
                            found += 1000
                        found += 12 // (i - 3)
                    return found
            """
            self.assertGreater(self.same(source, [([5, 3, 1],), ([5, 2, 1],), ([5, 2, 1, 4],), ([7, 7, 7, 7, 7, 7],)]), 0)

    def test_break_and_else(self):
        source = """
            def f(a, n):
                for x in a:
                    if x == n:
                        break
                else:
                    x = -1
                for y in a:
                    for z in a:
                        if z > y:
                            x += z
                            break
                return x
        """
        self.same(source, [([1, 2, 3], 2), ([1, 2, 3], 4), ([], 1), (b"abc", 98), ([3, 2.5, 1], 1)])

    def test_variables_are_deleted(self):
        source = "def f(a):\n    t = 0\n    for x in a:\n        t += x\n        del x\n    return t, x\n"
        self.same(source, [([1, 2],), ([0.5],)])
        self.same("def f(a):\n    n = 0\n    for x in a:\n        n += len(x)\n        del x, a\n    return n\n", [([[1], [2, 3]],), ([[1]],)])

    def test_an_iterator_that_is_kept_is_the_interpreters(self):
        for making in ("enumerate(a)", "zip(a, a)", "reversed(a)", "iter(a)"):
            source = f"""
                def f(a):
                    i = {making}
                    found = 0
                    for x in i:
                        found += 1
                        break
                    for x in i:
                        found += 10
                    return found
            """
            plain, made = (define(source).f for _ in range(2))
            self.jit.compile_at_next_call(made)
            for _ in range(3):
                self.assertEqual(made([1, 2, 3]), plain([1, 2, 3]))


class Changed(IteratorCase):
    """Lists that change while there is a loop over them, by compiled code, by the interpreter, or by others."""

    def test_items_change(self):
        for head, item in (("x in a", "x"), ("i, x in enumerate(a)", "x"), ("x, y in zip(a, b)", "x + y"), ("x in reversed(a)", "x")):
            source = f"""
                def f(a, b):
                    t = 0
                    for {head}:
                        t = t * 2 + {item}
                        b[-1] = t % 5
                        a[0] = x + 1
                    return t
            """
            shared = [1, 2, 3]
            self.same(source, [([1, 2, 3], [4, 5, 6]), (shared, shared), ([0.5, 1.5], [1]), ([1, 2], [2.5, 1])])

    def test_rows_are_replaced(self):
        source = """
            def f(a):
                t = 0
                for row in a:
                    a[-1] = row
                    for x in row:
                        t = t * 3 + x
                        row[-1] = 7
                return t
        """
        self.same(source, [([[1, 2], [3, 4], [5]],), ([[1.5], [2]],), ([[1], [], [2]],), ([[1], 5],)])

    def test_the_interpreter_changes_the_list(self):
        # What is not compiled is where an exception is about to be raised, or behind an exit.
        source = """
            def f(a, n):
                seen = []
                for HEAD:
                    try:
                        t = 10 // (x - n)
                    except ZeroDivisionError:
                        CHANGE
                    t += x
                return t
        """.replace("                seen = []\n", "")
        changes = ("a.clear()", "a.append(7)", "del a[0]", "a.insert(0, 9) if len(a) < 12 else a.clear()", "a[:] = [3] * 9",
                   "del a[2:]; a.extend([1, 5, 6, 8, 9])")
        for head in ("x in a", "i, x in enumerate(a)", "x, y in zip(a, a)", "x in reversed(a)"):
            for change in changes:
                text = source.replace("HEAD", head).replace("CHANGE", change)
                self.same(text, [([1, 2, 3, 4, 5], n) for n in (1, 3, 5, 9)])

    def test_a_handler_empties_the_list(self):
        source = """
            def f(a, n):
                t = 0
                while n:
                    n -= 1
                    for x in a:
                        t += x
                return t
        """
        made = define(source).f
        self.compiled(made, [1, 2, 3], 5)
        content = [1] * 1000
        before = signal.signal(signal.SIGALRM, lambda number, frame: content.clear())
        try:
            signal.setitimer(signal.ITIMER_REAL, 0.01)
            found = made(content, 3_000_000)
        finally:
            signal.signal(signal.SIGALRM, before)
        self.assertEqual(content, [])
        self.assertGreater(found, 0)
        self.assertLess(found, 3_000_000_000)

    def test_another_thread_empties_the_list(self):
        source = """
            def f(a, n):
                t = 0
                for _ in range(n):
                    for i, x in enumerate(a):
                        t += x
                    if not a:
                        break
                return t
        """
        made = define(source).f
        self.compiled(made, [1, 2, 3], 5)
        content, interval = [1] * 1000, sys.getswitchinterval()
        sys.setswitchinterval(0.001)
        thread = threading.Thread(target=content.clear)
        try:
            thread.start()
            made(content, 3_000_000)
        finally:
            sys.setswitchinterval(interval)
            thread.join()
        self.assertEqual(content, [])


class Running(IteratorCase):
    """Loops that are entered while they run, with iterators of the interpreter's."""

    HEADS = ("x in a", "i, x in enumerate(a, 3)", "x, y in zip(a, a)", "x in reversed(a)", "i, (x, y) in enumerate(zip(a, range(10**6)))",
             "x in reversed(range(len(a)))")

    def test_each_kind(self):
        for head in self.HEADS:
            for content in ([n % 7 for n in range(3000)], [n / 2 for n in range(3000)], bytearray(range(200)) * 15):
                if "reversed(a)" in head and not isinstance(content, list):
                    continue
                source = f"def f(a):\n    t = 0\n    for {head}:\n        t += x\n    return t, x\n"
                plain, made = (define(source).f for _ in range(2))
                self.assertEqual(made(content), plain(content))
                self.assertTrue(self.jit.stats(made)["loops"], (head, self.jit.explain(made)))
                self.assertGreater(self.jit.stats(made)["entered"], 0)

    def test_they_are_left_in_the_middle(self):
        for head in self.HEADS[:4]:
            source = f"def f(a):\n    t = 0\n    for {head}:\n        t += 1 // x\n    return t\n"
            plain, made = (define(source).f for _ in range(2))
            content = [1] * 4500
            content[2250] = 0
            self.assertEqual(jit_support.what_happens(made, (content,)), jit_support.what_happens(plain, (content,)))
            self.assertGreater(self.jit.stats(made)["left"], 0)

    def test_a_list_that_has_shrunk_grows_again(self):
        source = """
            def f(a):
                t = 0
                for x in a:
                    t += x
                    if t == 2000:
                        del a[5:]
                        t += 10 ** 9
                        a += [3] * 4000
                return t
        """
        plain, made = (define(source).f for _ in range(2))
        self.assertEqual(made([1] * 4000), plain([1] * 4000))

    def test_a_kept_iterator_goes_on(self):
        source = """
            def f(i):
                t = 0
                for x in i:
                    t += x
                    if t > 3000:
                        break
                return t
        """
        made, iterator = define(source).f, iter([1] * 5000)
        self.assertEqual(made(iterator), 3001)
        self.assertEqual(sum(iterator), 1999)

    def test_references_are_balanced(self):
        for head in self.HEADS[:5]:
            source = f"def f(a, n):\n    t = 0\n    for {head}:\n        t += n // x\n    return t\n"
            made = define(source).f
            content = [3] * 5000
            before = sys.getrefcount(content)
            made(content, 4)
            content[4000] = 0
            for n in (1, 2):
                self.assertRaises(ZeroDivisionError, made, content, n)
            self.assertEqual(sys.getrefcount(content), before, head)
            self.assertGreater(self.jit.stats(made)["entered"], 0)

    def test_a_tracer_comes(self):
        source = """
            def f(a, start):
                t = 0
                for i, x in enumerate(a):
                    t += x
                    if i == 3000:
                        start()
                return t
        """
        lines = []

        def trace(frame, event, argument):
            lines.append(frame.f_lineno)
            return trace

        def start():
            sys.settrace(trace)
            sys._getframe(1).f_trace = trace
        for _ in range(2):
            made = define(source).f
            lines.clear()
            try:
                self.assertEqual(made([1] * 3010, start), 3010)
            finally:
                sys.settrace(None)
            self.assertGreater(len(lines), 20)

    def test_the_last_reference_to_the_list(self):
        # The iterator has it: the list goes when the loop ends.
        found = run_alone("""
            class Loud:
                def __del__(self):
                    print("gone")
            def f(a, n):
                t = 0
                for row in a:
                    t += len(row)
                    a = None
                row = None
                print("behind")
                return t
            def call(n):
                return f([[1]] * n + [[Loud()]], n)
            print(call(3000))
        """)
        self.assertEqual(found.split(), ["gone", "behind", "3001"])
