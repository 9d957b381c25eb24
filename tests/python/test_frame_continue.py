"""PyUnstable_Frame_Continue(): frames that were left elsewhere continue in the interpreter."""

import dis
import functools
import os
import re
import sys
import traceback
import types
import unittest

import support

if not support.ON_STOCK:
    from continuing_support import after, continued, continuing, index_of, record


def sums(n, d):
    total = 0
    for i in range(n):
        try:
            total += 100 // (d - i)
        except ZeroDivisionError:
            total += 1_000_000
    return total // (d - 7)


def add_one(x):
    return x + 1


def outer(x):
    y = add_one(x) * 2
    return y - 1


def by_keyword(x):
    return -add_one(x=x)


def by_star(x):
    return [add_one(*(x,))]


class Things:
    def __getitem__(self, key):
        return (key, "item")

    @property
    def size(self):
        return 17


def by_subscript(things):
    return things["a"], 1


def by_attribute(things):
    return things.size + 1


def closure_of(value):
    def inner(other):
        kept = other

        def innermost():
            return (value, kept)
        return innermost()
    return inner


def guarded(log, x):
    try:
        log.append("in")
        return add_one(x)
    except ValueError as error:
        return ("caught", error.args)
    finally:
        log.append("out")


def lines_apart(x):
    a = (
        x +
        missing_name +
        1)
    return a


def ranks(n):
    return 1 + ranks(n - 1) if n else 0


def raised_by(kind, function, *arguments, **keywords):
    """The exception that a call raises, and the steps of its traceback that are not of this file's support."""
    try:
        function(*arguments, **keywords)
    except kind as error:
        steps, step = [], error.__traceback__
        while step is not None:
            if step.tb_frame.f_code not in (continued.__code__, raised_by.__code__):
                steps.append(step)
            step = step.tb_next
        return error, steps
    raise AssertionError(f"no {kind.__name__}")


@support.needs_framecore
class OneFrame(unittest.TestCase):
    def test_in_a_loop(self):
        iterator = iter(range(10))
        for _ in range(4):
            next(iterator)
        total = sum(100 // (5 - i) for i in range(4))
        self.assertEqual(continued(record(sums, index_of(sums, "FOR_ITER"), [iterator], n=10, d=5, total=total, i=3)), sums(10, 5))

    def test_within_an_expression(self):
        self.assertEqual(continued(record(sums, index_of(sums, "BINARY_OP", -1, "-"), [5, 9, 7], n=10, d=9, total=5)), 5 // (9 - 7))
        self.assertEqual(continued(record(sums, index_of(sums, "BINARY_OP", -1, "//"), [5, 2], n=10, d=9, total=5)), 5 // 2)

    def test_at_each_instruction_without_a_stack_of_straight_code(self):
        at = index_of(outer, "STORE_FAST")
        self.assertEqual(continued(record(outer, at, [8])), 7)
        self.assertEqual(continued(record(outer, after(outer, "STORE_FAST"), y=8)), 7)

    def test_from_the_very_beginning(self):
        self.assertEqual(continued(record(add_one, 0, x=4)), 5)
        self.assertEqual(continued(record(closure_of(1), 0, other=2)), (1, 2))

    def test_the_example_of_the_documentation(self):
        with open(os.path.join(support.ROOT, "docs", "compilers.md"), encoding="utf-8") as file:
            text = file.read()
        namespace = {}
        exec(next(it for it in re.findall(r"```python\n(.*?)```", text, re.DOTALL) if "def squares" in it), namespace)
        squares = namespace["squares"]
        at = int(re.search(r"\.instruction = (\d+), \.stack_depth = 3", text)[1])
        self.assertEqual(at, index_of(squares, "BINARY_OP", 0, "+="))
        iterator = iter(range(2**31, 2**31 + 3))
        i = next(iterator)
        got = continued(record(squares, at, [iterator, 2**63, i * i], n=9, total=2**63, i=i))
        self.assertEqual(got, 2**63 + sum(it * it for it in range(2**31, 2**31 + 3)))

    def test_a_value_is_pushed(self):
        self.assertEqual(continued(record(outer, after(outer, "CALL"), x=3), value=50), 99)

    def test_an_unbound_variable(self):
        def perhaps(x):
            if x:
                y = 1
            return y
        with self.assertRaisesRegex(UnboundLocalError, "'y'"):
            continued(record(perhaps, index_of(perhaps, "LOAD_FAST_CHECK"), x=3))

    def test_an_exception_where_a_guarded_part_begins(self):
        begins = min(entry.start for entry in dis._parse_exception_table(guarded.__code__)) // 2
        log = ["in"]
        got = continued(record(guarded, begins, log=log, x=1), exception=ValueError("here"))
        self.assertEqual((got, log), (("caught", ("here",)), ["in", "out"]))
        self.assertIsNone(sys.exception())
        log = []
        raised_by(ValueError, continued, record(guarded, begins - 1, log=log, x=1), exception=ValueError("here"))
        self.assertEqual(log, [])

    def test_an_exception_takes_the_place_of_a_value(self):
        with self.assertRaises(KeyError):
            continued(record(outer, after(outer, "CALL"), x=3), value=50, exception=KeyError(1))

    def test_lines_and_columns_of_an_exception(self):
        def positions(steps):
            it = traceback.extract_tb(steps[-1])[0]
            return steps[-1].tb_frame.f_code, steps[-1].tb_lasti, it.lineno, it.end_lineno, it.colno, it.end_colno
        expected = positions(raised_by(NameError, lines_apart, 1)[1])
        for how in ({}, {"exception": NameError("x")}):
            at = record(lines_apart, index_of(lines_apart, "LOAD_GLOBAL"), [1], x=1)
            _, steps = raised_by(NameError, continued, at, **how)
            self.assertEqual((len(steps), positions(steps)), (1, expected))

    def test_a_raised_exception_has_the_very_instruction(self):
        for it in (it for it in dis.get_instructions(outer) if it.opname != "RESUME"):
            _, steps = raised_by(KeyError, continued, record(outer, it.offset // 2, x=1), exception=KeyError(it.offset))
            self.assertEqual((steps[-1].tb_lasti, steps[-1].tb_lineno), (it.offset, it.positions.lineno))

    def test_the_frame_is_seen_as_any_other(self):
        def look(a):
            b = a
            frame = sys._getframe()
            return frame.f_code, frame.f_lineno, frame.f_locals["b"], frame.f_back.f_code, frame.f_globals is globals()
        got = continued(record(look, after(look, "STORE_FAST"), a=1, b=2))
        self.assertEqual(got, (look.__code__, look.__code__.co_firstlineno + 3, 2, continued.__code__, True))

    def test_cells_and_free_variables(self):
        inner = closure_of("outside")
        kept, value = types.CellType("inside"), inner.__closure__[0]
        at = after(inner, "STORE_DEREF")
        self.assertEqual(continued(record(inner, at, other=None, kept=kept, value=value)), ("outside", "inside"))
        self.assertEqual(continued(record(inner, at, other=None, kept=kept, value=types.CellType(3))), (3, "inside"))
        with self.assertRaisesRegex(NameError, "kept"):
            continued(record(inner, at, other=None, kept=types.CellType(), value=value))

    def test_other_code(self):
        code = compile("def add_one(x): return x + 100", "other", "exec").co_consts[0]
        self.assertEqual(continued(record(add_one, 0, code=code, x=1)), 101)

    def test_the_body_of_a_module(self):
        code = compile("a = 1\nb = a + c\n", "module", "exec")
        function = types.FunctionType(code, {"c": 5})
        namespace = {"a": 10}
        self.assertIsNone(continued(record(function, after(function, "STORE_NAME"), locals=namespace)))
        self.assertEqual(namespace, {"a": 10, "b": 15})

    def test_variables_of_a_comprehension(self):
        def comprehend(rows):
            x = "mine"
            return [x + 1 for x in rows], x
        iterator = iter([5, 6])
        got = continued(record(comprehend, index_of(comprehend, "FOR_ITER"), ["mine", [3], iterator], rows=None, x=2))
        self.assertEqual(got, ([3, 6, 7], "mine"))

    def test_what_is_being_handled_stays(self):
        def handles(x):
            try:
                raise KeyError("first")
            except KeyError:
                return sys.exception(), add_one(x)
        at = index_of(handles, "LOAD_GLOBAL", -2)
        first = ValueError("outside")
        try:
            raise first
        except ValueError:
            # What PUSH_EXC_INFO has saved, and nothing is popped that was not pushed.
            got = continued(record(handles, at, [None], x=2))
        self.assertEqual(got, (first, 3))


@support.needs_framecore
class Chains(unittest.TestCase):
    def check(self, caller, opname, callee, expected, caller_values, callee_values, number=0):
        chain = [record(caller, index_of(caller, opname, number), **caller_values), record(callee, 0, **callee_values)]
        self.assertEqual(continued(*chain), expected)
        _, steps = raised_by(KeyError, continued, *chain, exception=KeyError("thrown"))
        self.assertEqual([it.tb_frame.f_code for it in steps], [caller.__code__, callee.__code__])
        self.assertEqual(steps[0].tb_lasti, 2 * index_of(caller, opname, number))

    def test_each_instruction_that_calls(self):
        things = Things()
        self.check(outer, "CALL", add_one, outer(3), {"x": 3}, {"x": 3})
        self.check(by_keyword, "CALL_KW", add_one, by_keyword(3), {"x": 3}, {"x": 3})
        self.check(by_star, "CALL_FUNCTION_EX", add_one, by_star(3), {"x": 3}, {"x": 3})
        self.check(by_subscript, "BINARY_SUBSCR", Things.__getitem__, by_subscript(things), {"things": things},
                   {"self": things, "key": "a"})
        self.check(by_attribute, "LOAD_ATTR", Things.size.fget, by_attribute(things), {"things": things}, {"self": things})

    def test_the_same_with_specialized_instructions(self):
        things = Things()
        for _ in range(100):
            outer(1), by_keyword(1), by_star(1), by_subscript(things), by_attribute(things)
        self.test_each_instruction_that_calls()

    def test_other_instructions_wait_for_nothing(self):
        fit = {"CALL", "CALL_KW", "CALL_FUNCTION_EX", "BINARY_SUBSCR"}
        for it in dis.get_instructions(sums.__code__):
            if it.opname in fit or it.opname == "EXTENDED_ARG":
                continue
            with self.subTest(it.opname), self.assertRaisesRegex(ValueError, "no frame waits at this instruction"):
                continued(record(sums, it.offset // 2, n=1, d=1), record(add_one, 0, x=1))
        for caller in (lambda x: x.method(), lambda x: x + x, lambda x: [i for i in x]):
            for it in dis.get_instructions(caller.__code__):
                if it.opname in ("LOAD_ATTR", "BINARY_OP", "FOR_ITER"):
                    with self.subTest(it.opname), self.assertRaisesRegex(ValueError, "no frame waits"):
                        continued(record(caller, it.offset // 2, x=1), record(add_one, 0, x=1))

    def test_exceptions_pass_from_frame_to_frame(self):
        log = ["in"]
        chain = [record(guarded, index_of(guarded, "CALL", 1), log=log, x=None),
                 record(outer, index_of(outer, "CALL"), x=None), record(add_one, index_of(add_one, "LOAD_FAST"), x=1)]
        self.assertEqual(continued(*chain, exception=ValueError("deep")), ("caught", ("deep",)))
        self.assertEqual(log, ["in", "out"])

    def test_callers_and_tracebacks(self):
        def look(x):
            frame = sys._getframe()
            return [frame, frame.f_back, frame.f_back.f_back, frame.f_back.f_lineno]

        def calls(x):
            return (
                look(x))
        got = continued(record(calls, index_of(calls, "CALL"), x=1), record(look, after(look, "RESUME"), x=2))
        self.assertEqual([it.f_code for it in got[:3]], [look.__code__, calls.__code__, continued.__code__])
        self.assertEqual(got[3], calls.__code__.co_firstlineno + 2)
        chain = [record(outer, index_of(outer, "CALL"), x=1), record(sums, index_of(sums, "BINARY_OP", -1, "//"), [1, 0], n=1, d=7, total=1)]
        error, _ = raised_by(ZeroDivisionError, continued, *chain)
        steps = traceback.extract_tb(error.__traceback__)
        self.assertEqual([(it.name, it.line) for it in steps[-2:]],
                         [("outer", "y = add_one(x) * 2"), ("sums", "return total // (d - 7)")])

    def test_a_hundred_thousand_frames(self):
        length = 100_000
        before = continuing.recursion_remaining()
        limit = sys.getrecursionlimit()
        at = index_of(ranks, "CALL")
        chain = [record(ranks, at, [1], n=i) for i in range(length - 1)]
        chain.append(record(ranks, after(ranks, "RESUME"), n=0))
        sys.setrecursionlimit(length + 1000)
        try:
            self.assertEqual(continued(*chain), length - 1)
            error, steps = raised_by(KeyError, continued, *chain, exception=KeyError(1))
            self.assertEqual(len(steps), length)
            del error, steps
        finally:
            sys.setrecursionlimit(limit)
        self.assertEqual(continuing.recursion_remaining(), before)

    def test_more_frames_than_the_limit_allows(self):
        before = continuing.recursion_remaining()
        log = []

        def catches(n):
            try:
                return catches(n)
            finally:
                log.append(n)
        length = before[0] + 300
        at = index_of(catches, "CALL")
        cell = catches.__closure__
        names = dict(zip(catches.__code__.co_freevars, cell, strict=True))
        chain = [record(catches, at, n=i, **names) for i in range(length)]
        with self.assertRaises(RecursionError):
            continued(*chain)
        self.assertEqual(log, list(range(length))[::-1])
        self.assertEqual(continuing.recursion_remaining(), before)
        self.assertEqual(continued(record(add_one, 0, x=1)), 2)

    def test_the_c_stack_is_at_its_end(self):
        def fits(callable, remaining):
            before = continuing.recursion_remaining()
            try:
                return continuing.at_c_depth(remaining, callable) is not None
            except RecursionError:
                return False
            finally:
                self.assertEqual(continuing.recursion_remaining(), before)
        partial = functools.partial(continuing.continue_frames, [record(add_one, 0, x=1)])
        got = [fits(partial, remaining) for remaining in range(-2, 9)]
        self.assertEqual(got, sorted(got))
        self.assertEqual((got[0], got[-1]), (False, True))
