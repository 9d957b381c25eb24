"""Items of arrays and memoryviews: each format, at its limits; views of other objects; arrays that are resized between calls."""

import array
import ctypes
import mmap
import struct

import jit_support
from jit_support import define
from test_jit_iterators import IteratorCase

FORMATS = "bBhHiIlLqQfd"
EDGES = [0, 1, -1, 127, 128, -128, -129, 255, 256, 2**15 - 1, 2**15, -2**15, -2**15 - 1, 2**16 - 1, 2**16, 2**31 - 1, 2**31, -2**31,
         -2**31 - 1, 2**32 - 1, 2**32, 2**53 + 1, 2**63 - 1, -2**63, True, False, 0.5, -0.0, 1e300, 16777217.0, float("inf"), None]

setUpModule = jit_support.load


def fitting(code):
    if code in "fd":
        return [0.5, -1.5, 3.0]
    return [1, 2, 3] if code.isupper() else [1, -2, 3]


class Arrays(IteratorCase):
    def test_each_format(self):
        source = """
            def f(a, x, i):
                t = a[0] + a[-1] + len(a)
                if a:
                    a[i] = x
                a[0] = a[i]
                return t, a[i]
        """
        for code in FORMATS:
            for ty in (int, float, bool, type(None)):
                plain, made = (define(source).f for _ in range(2))
                same = [x for x in EDGES if type(x) is ty]
                for turn, x in enumerate(same):
                    wanted, found = (array.array(code, fitting(code)) for _ in range(2))
                    if turn < 2:
                        self.jit.compile_at_next_call(made)
                        jit_support.what_happens(made, (array.array(code, fitting(code)), x, 1))
                    expected = jit_support.what_happens(plain, (wanted, x, 1))
                    self.assertEqual(jit_support.what_happens(made, (found, x, 1)), expected, (code, x))
                    self.assertEqual(repr(found), repr(wanted))
                self.assertGreater(self.jit.stats(made).get("entered", 0), 0, (code, ty))

    def test_the_limits_of_each_format(self):
        for code in FORMATS[:-2]:
            bits = 8 * array.array(code).itemsize
            least, most = (0, 2**bits - 1) if code.isupper() else (-2**(bits - 1), 2**(bits - 1) - 1)
            source = "def f(a):\n    t = 0\n    for i in range(len(a)):\n        t = t ^ a[i]\n    return t\n"
            self.same(source, [(array.array(code, [least, most, 1, least]),), (array.array(code),)])

    def test_indices(self):
        for index in (0, 2, -3, 3, -4, 2**62, -2**63, True):
            self.same("def f(a, i):\n    a[i] = 5\n    return a[i] - a[-1]\n", [(array.array(code, fitting(code)), index) for code in "bId"])
        self.same("def f(a, i):\n    return a[i]\n", [(array.array("i"), 0), (array.array("i", [1]), 1.5), (array.array("i", [1]), None)])

    def test_indices_that_are_shifted(self):
        for index in ("i << 8", "i << 16", "i * 256", "i * 65536", "(i << 8) + 1", "i << 3"):
            source = f"""
                def f(a):
                    t = 0
                    for i in range(3):
                        t = t * 10 + a[{index}]
                        a[{index}] = i + 5
                    return t
            """
            filled = bytearray(k % 9 for k in range((3 << 16) + 1))
            for container in (filled, *(array.array(code, list(filled)) for code in FORMATS)):
                plain, made = (define(source).f for _ in range(2))
                wanted, found = container[:], container[:]
                expected = plain(wanted)
                self.compiled(made, container[:])
                self.assertEqual(made(found), expected, (index, type(container)))
                self.assertTrue(found == wanted, (index, type(container)))

    def test_it_is_resized_between_calls(self):
        made = define("def f(a, n):\n    t = 0\n    for i in range(n):\n        t += a[i]\n        a[i] = i\n    return t\n").f
        content = array.array("q", range(10))
        self.compiled(made, content, 5)
        for size in (10, 1000, 50_000, 3, 0):
            content[:] = array.array("q", range(size))
            self.assertEqual(made(content, size), sum(range(size)))
            content.append(1)
            self.assertRaises(IndexError, made, content, size + 2)
            content.extend(range(3))

    def test_a_handler_of_an_exception_resizes_it(self):
        source = """
            def f(a, n):
                t = 0
                for i in range(n):
                    try:
                        t += 10 // (a[i] - 3)
                    except ZeroDivisionError:
                        a.extend([4, 5, 6] * 1000)
                        a.pop(0)
                return t, len(a)
        """
        self.same(source, [(array.array("i", [1, 2, 3, 4, 5]), 50), (array.array("d", [1.0, 3.0]), 100)])

    def test_they_are_passed_on(self):
        source = """
            def inner(a, i):
                a[i] += 1
                return a[i] * 2
            def f(a, b):
                t = 0
                for i in range(len(a)):
                    t += inner(a, i) + inner(b, i)
                c = [a, b]
                return t, c
        """
        self.same(source, [(array.array("i", [1, 2]), array.array("i", [3, 4])), (array.array("d", [1, 2]), array.array("b", [127, 127]))])

    def test_in_a_running_loop(self):
        source = """
            def f(a, n):
                t = 0
                for i in range(n):
                    a[i % 100] = t & 1023
                    t += a[(i * 7) % 100] + i
                return t
        """
        plain, made = (define(source).f for _ in range(2))
        self.assertEqual(made(array.array("i", bytes(400)), 5000), plain(array.array("i", bytes(400)), 5000))
        self.assertTrue(self.jit.stats(made)["loops"], self.jit.explain(made))

    def test_what_is_not_compiled(self):
        for head, value in (("x in a", "x"), ("i, x in enumerate(a)", "x")):
            source = f"def f(a):\n    t = 0\n    for {head}:\n        t += {value}\n    return t\n"
            plain, made = (define(source).f for _ in range(2))
            self.jit.compile_at_next_call(made)
            self.assertEqual(made(array.array("i", [1, 2])), plain(array.array("i", [1, 2])))
        made = define("def f(a):\n    return a[0]\n").f
        self.jit.compile_at_next_call(made)
        self.assertEqual(made(array.array("w", "xy")), "x")

        class Mine(array.array):
            def __getitem__(self, index):
                return 7
        self.compiled(made, array.array("i", [1]))
        self.assertEqual(made(Mine("i", [1])), 7)


class Views(IteratorCase):
    SOURCE = "def f(a, x):\n    t = a[0] + a[-1] * 2 + len(a)\n    a[1] = x\n    return t, a[1], a[2]\n"

    def outcomes(self, source, make, *arguments):
        plain, made = (define(source).f for _ in range(2))
        wanted = jit_support.what_happens(plain, (make(), *arguments))
        self.jit.compile_at_next_call(made)
        jit_support.what_happens(made, (make(), *arguments))
        found = jit_support.what_happens(made, (make(), *arguments))
        # A view's text is its address.
        self.assertEqual(found[0], wanted[0])
        return self.jit.stats(made).get("entered", 0)

    def test_each_format(self):
        for code in FORMATS:
            for x in (1, -1, 200, 2**40, 0.1):
                entered = self.outcomes(self.SOURCE, lambda code=code: memoryview(array.array(code, fitting(code))), x)
                self.assertGreater(entered, 0, (code, x))

    def test_of_other_objects(self):
        for make in (lambda: memoryview(bytearray(b"abcdefgh")), lambda: memoryview(bytearray(24)).cast("d"),
                     lambda: memoryview(bytearray(17))[1:].cast("i"), lambda: memoryview(mmap.mmap(-1, 64)),
                     lambda: memoryview((ctypes.c_ubyte * 5)(1, 2, 3))[:4].cast("B"), lambda: memoryview(bytearray(9))[3:7]):
            self.assertGreater(self.outcomes(self.SOURCE, make, 7), 0)

    def test_what_cannot_be_stored_to(self):
        self.assertGreater(self.outcomes(self.SOURCE, lambda: memoryview(b"abc"), 7), 0)
        self.assertGreater(self.outcomes(self.SOURCE, lambda: memoryview(bytearray(b"abc")).toreadonly(), 7), 0)

    def test_other_shapes(self):
        for make in (lambda: memoryview(bytearray(8))[::2], lambda: memoryview(bytearray(8))[::-1],
                     lambda: memoryview(bytearray(8)).cast("B", (2, 4)), lambda: memoryview(bytearray(8)).cast("c"),
                     lambda: memoryview(bytearray(8)).cast("?"), lambda: memoryview(bytearray(8)).cast("P"),
                     lambda: memoryview(bytearray(struct.calcsize("n") * 3)).cast("n"), lambda: memoryview(b"")):
            self.outcomes(self.SOURCE, make, 1)
            self.outcomes("def f(a):\n    return len(a), bool(a), a[0]\n", make)

    def test_a_released_view(self):
        made = define("def f(a):\n    t = 0\n    for i in range(3):\n        t += a[i]\n    return t + len(a)\n").f
        view = memoryview(array.array("i", [1, 2, 3]))
        self.compiled(made, view)
        view.release()
        self.assertRaisesRegex(ValueError, "released", made, view)
        self.assertRaisesRegex(ValueError, "released", define("def f(a):\n    return len(a)\n").f, view)

    def test_nothing_is_kept(self):
        made = define("def f(a, b):\n    t = 0\n    for i in range(len(a)):\n        t += a[i] + b[i]\n    return t // (t - 12)\n").f
        content = array.array("i", [1, 2, 3])
        view = memoryview(content)
        for _ in range(3):
            self.jit.compile_at_next_call(made)
            self.assertRaises(ZeroDivisionError, made, view, content)
        self.assertGreater(self.jit.stats(made)["entered"], 0)
        self.assertRaises(BufferError, content.append, 1)
        view.release()
        content.append(1)

    def test_two_views_of_one_object(self):
        source = """
            def f(a, b, c):
                t = 0
                for i in range(len(c)):
                    a[0] = i + 1
                    b[1] = 2
                    c[i] = a[0] & 255
                    t = t * 3 + b[0] + c[0]
                return t
        """
        plain, made = (define(source).f for _ in range(2))

        def arguments():
            content = bytearray(8)
            return memoryview(content).cast("I"), memoryview(content).cast("h"), content
        self.compiled(made, *arguments())
        self.assertEqual(made(*arguments()), plain(*arguments()))
