"""PyUnstable_InterpreterFrame_GetLocal() and ...GetLocals(): variables of a frame by index, for evaluators and hooks."""

import sys
import types
import unittest

import support

if not support.ON_STOCK:
    from continuing_support import continuing, nothing


def plain(a, b=2, *more, c, **others):
    d = 5
    return continuing.get_locals()


def unset(a):
    if not a:
        b = 1
    result = continuing.get_locals()
    del a
    return result, continuing.get_locals(), b if not result else None


def with_cells(a, b):
    c = a + 1
    function = lambda: (a, c)
    late = lambda: never
    if not function:
        never = 1
    return continuing.get_locals()


def outside(x):
    def inside(y):
        z = x
        return continuing.get_locals()
    return inside


def comprehends(rows):
    return [continuing.get_locals() for row in rows]


def by_name(code, values):
    return dict(zip(continuing.get_names(code), values, strict=True))


@support.needs_framecore
class RunningFrames(unittest.TestCase):
    def test_all_kinds_of_parameters(self):
        self.assertEqual(plain(1, 2, 3, c=4, e=5), (1, 2, 4, (3,), {"e": 5}, 5))

    def test_unbound_variables(self):
        first, second, _ = unset(7)
        self.assertEqual(by_name(unset.__code__, first), {"a": 7, "b": nothing, "result": nothing})
        self.assertEqual(by_name(unset.__code__, second), {"a": nothing, "b": nothing, "result": first})

    def test_cells_are_looked_through(self):
        got = by_name(with_cells.__code__, with_cells(1, 2))
        self.assertEqual((got["a"], got["b"], got["c"], got["never"]), (1, 2, 2, nothing))

    def test_free_variables(self):
        inside = outside(3)
        self.assertEqual(by_name(inside.__code__, inside(4)), {"y": 4, "z": 3, "x": 3})
        inside.__closure__[0].cell_contents = 9
        self.assertEqual(by_name(inside.__code__, inside(4))["x"], 9)
        del inside.__closure__[0].cell_contents
        with self.assertRaises(NameError):
            inside(4)

    def test_a_cell_that_is_a_value(self):
        cell = types.CellType(1)

        def keeps(a, b):
            return continuing.get_locals(), lambda: b
        (a, b), _ = keeps(cell, cell)
        self.assertIs(a, cell)
        self.assertIs(b, cell)

    def test_variables_of_a_comprehension(self):
        rows = [1, 2]
        for row, got in zip(rows, comprehends(rows), strict=True):
            self.assertEqual(by_name(comprehends.__code__, got), {"rows": rows, "row": row})

        class Body:
            got = [continuing.get_locals() for row in (1, 2)]
        # There they are hidden.
        self.assertEqual([set(got) for got in Body.got], [{nothing}, {nothing}])

    def test_generators_and_class_bodies(self):
        def numbers(n):
            yield continuing.get_locals()
            yield (lambda: n), continuing.get_locals()
        generator = numbers(3)
        self.assertEqual(next(generator), (3,))
        self.assertEqual(next(generator)[1], (3,))

        def classes(x):
            class Body:
                y = x
                got = continuing.get_locals()
            return Body
        self.assertIn(8, classes(8).got)

    def test_by_index(self):
        def indexed(a, b):
            return [continuing.get_local(0, i) for i in range(2)], continuing.get_local(1, 0)
        self.assertEqual(indexed(1, 2), ([1, 2], self))
        for index in (-1, 2, 3, sys.maxsize, -sys.maxsize - 1):
            with self.subTest(index), self.assertRaisesRegex(IndexError, "no variable with this index"):
                (lambda a: continuing.get_local(0, index))(1)

    def test_no_room(self):
        with self.assertRaises(SystemError):
            continuing.get_locals_nowhere()

    def test_references(self):
        class Value:
            pass
        value = Value()
        before = sys.getrefcount(value)
        for _ in range(100):
            plain(value, c=value)
            outside(value)(value)
            with_cells(1, value)
        self.assertEqual(sys.getrefcount(value), before)


@support.needs_framecore
class FramesThatBegin(unittest.TestCase):
    """For an evaluator of PEP 523 nothing has run; for a hook the prologue has."""

    def check(self, function, arguments, expected):
        for how in (continuing.see_by_evaluator, continuing.see_by_hook):
            with self.subTest(how.__name__):
                got = how(lambda: function(*arguments))
                # The first frame is that of the lambda.
                self.assertEqual(by_name(function.__code__, got[1]), expected)

    def test_arguments(self):
        self.check(plain_with_default, (1,), {"a": 1, "b": 2, "d": nothing})

    def test_arguments_with_cells(self):
        self.check(captured, (1, 2), {"a": 1, "b": 2, "function": nothing, "c": nothing})

    def test_a_cell_as_an_argument_that_gets_a_cell(self):
        cell = types.CellType(5)
        self.check(captured, (cell, cell), {"a": cell, "b": cell, "function": nothing, "c": nothing})

    def test_free_variables_from_the_closure(self):
        self.check(nested(7), (1,), {"y": 1, "z": nothing, "x": 7})

    def test_a_free_variable_without_a_value(self):
        function = nested(7)
        del function.__closure__[0].cell_contents
        got = continuing.see_by_hook(lambda: attempt(function, 1))
        self.assertEqual(by_name(function.__code__, got[2]), {"y": 1, "z": nothing, "x": nothing})

    def test_generators(self):
        self.check(numbers, (4,), {"n": 4, "keep": nothing})


def attempt(function, *arguments):
    try:
        return function(*arguments)
    except NameError:
        return None


def plain_with_default(a, b=2):
    d = a
    return d


def captured(a, b):
    c = b
    function = lambda: (a, c)
    return function


def nested(x):
    def inside(y):
        z = x
        return z
    return inside


def numbers(n):
    keep = lambda: n
    yield keep
