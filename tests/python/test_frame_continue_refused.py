"""Frames that cannot continue: what is refused, without memory too, and that nothing is leaked where nothing runs."""

import dis
import gc
import sys
import types
import unittest
import weakref

import support

if not support.ON_STOCK:
    import _testcapi

    from continuing_support import after, continued, continuing, index_of, nothing, record


class Value:
    """Its end can be observed."""


def take(a, b):
    c = (a, b)      # no list: without the GIL CPython frees the items of the list before, if one cannot be allocated
    return len(c)


def outer(a, b):
    return take(a, b) + 1


def numbers(a):
    yield a


async def waits(a):
    return a


async def gives(a):
    yield a


@types.coroutine
def old(a):
    return (yield a)


@support.needs_framecore
class Refusals(unittest.TestCase):
    def check(self, error, text, make, **how):
        """Refused, and all references are given up. `make` gets values for the slots."""
        values = [Value() for _ in range(4)]
        ends = [weakref.ref(value) for value in values]
        records = make(*values)
        for name in how:
            how[name] = values[3] if how[name] is None else how[name]
        before = continuing.recursion_remaining()
        with self.assertRaisesRegex(error, text) as caught:
            continuing.continue_frames(records, *[how.get(name, nothing) for name in ("value", "exception")])
        self.assertEqual(continuing.recursion_remaining(), before)
        if "exception" in how:
            self.assertIs(caught.exception.__context__, how["exception"])
        del records, values, caught
        how.clear()
        gc.collect()
        self.assertEqual([end() for end in ends], [None] * 4)

    def both(self, error, text, make):
        self.check(error, text, make)
        self.check(error, text, make, exception=KeyError("first"))

    def test_no_frame(self):
        self.both(ValueError, "no frame to continue", lambda *values: [])

    def test_no_function(self):
        for what in (len, Value, None, 3, take.__code__):
            self.both(TypeError, "continues with a Python function", lambda a, *_: [(what, None, None, 0, (), ())])

    def test_no_code(self):
        self.both(TypeError, "with a code object, or with NULL", lambda a, *_: [(take, 3, None, 0, (), ())])

    def test_code_with_more_free_variables_than_the_function_has_cells(self):
        def makes(a, b):
            def inside():
                return a, b
            return inside, lambda: a
        inside, less = makes(1, 2)
        for function in (take, less):
            self.both(ValueError, "a cell for each free variable",
                      lambda a, b, *_: [(function, inside.__code__, None, 0, (nothing, nothing), ())])
        self.assertEqual(continued((inside, less.__code__, None, 0, (nothing,), ())), 1)
        self.assertEqual(continued((inside, take.__code__, None, 0, (3, 4, nothing), ())), 2)

    def test_what_suspends(self):
        for function in (numbers, waits, gives, old):
            with self.subTest(function.__name__):
                self.both(ValueError, "generator or coroutine", lambda a, *_: [record(function, 0, a=a)])
                self.both(ValueError, "generator or coroutine",
                          lambda a, b, *_: [record(outer, index_of(outer, "CALL"), a=a, b=b), record(function, 0, a=a)])
        self.both(ValueError, "generator or coroutine", lambda a, *_: [record(take, 0, code=numbers.__code__)[:4] + ((a,), ())])

    def test_instructions_that_are_not_there(self):
        size = len(take.__code__.co_code) // 2
        for instruction in (-1, size, size + 1, 2**31 - 1, -2**31):
            with self.subTest(instruction):
                self.both(ValueError, "at an instruction of its code", lambda a, b, *_: [record(take, instruction, a=a, b=b)])

    def test_too_much_on_the_stack(self):
        size = take.__code__.co_stacksize
        self.both(ValueError, "more on its stack", lambda a, b, *_: [record(take, 0, [a] * (size + 1), a=a, b=b)])
        self.check(ValueError, "more on its stack", lambda a, b, *_: [record(take, 0, [a] * size, a=a, b=b)], value=None)
        self.both(ValueError, "more on its stack", lambda a, b, *_: [
            record(outer, index_of(outer, "CALL"), [a] * outer.__code__.co_stacksize), record(take, 0, a=a, b=b)])

    def test_locals(self):
        self.both(ValueError, "a mapping of locals", lambda a, b, *_: [record(take, 0, locals={}, a=a, b=b)])
        body = types.FunctionType(compile("a = 1", "body", "exec"), {})
        self.both(ValueError, "a mapping of locals", lambda *values: [record(body, 0)])

    def test_frames_that_wait_for_nothing(self):
        self.both(ValueError, "no frame waits", lambda a, b, *_: [record(outer, 0, a=a, b=b), record(take, 0, a=a, b=b)])

    def test_references_are_consumed_where_frames_run(self):
        for how in ("result", "error", "thrown"):
            values = [Value() for _ in range(3)]
            ends = [weakref.ref(value) for value in values]
            a, b, c = values
            chain = [record(outer, index_of(outer, "CALL"), a=a, b=b), record(take, after(take, "RESUME"), a=a, b=b, c=c)]
            if how == "result":
                self.assertEqual(continued(*chain), 3)
            else:
                if how == "error":
                    chain[-1] = record(take, after(take, "STORE_FAST"), a=a, b=b, c=5)
                with self.assertRaises((KeyError, TypeError)):
                    continued(*chain, exception=KeyError(1) if how == "thrown" else nothing)
            del a, b, c, values, chain
            gc.collect()
            self.assertEqual([end() for end in ends], [None] * 3, how)


def of_size(count):
    """Code of a function of one parameter with so many variables besides."""
    namespace = {}
    exec(f"def function(x):\n {' = '.join(f'v{i}' for i in range(count))} = 1\n return x\n" if count else "def function(x): return x\n", namespace)
    return namespace["function"].__code__


SMALL, BIG = of_size(0), of_size(5_000)


class Changes:
    """Gives a function other code when nothing refers to this any more."""

    def __init__(self, function):
        self.function = function

    def __del__(self):
        self.function.__code__ = BIG


@support.needs_framecore
class OtherCodeMeanwhile(unittest.TestCase):
    """A destructor gives a function other code, with more variables than its record has."""

    def setUp(self):
        def function(x): return x
        self.function = function
        function.__code__ = SMALL
        self.begins = next(it.offset // 2 for it in dis.get_instructions(SMALL) if it.opname == "LOAD_FAST")

    def record(self, instruction, value=1):
        return (self.function, None, None, instruction, (value,), ())

    @support.in_a_child
    def test_of_a_value_whose_place_an_exception_takes(self):
        try:
            continuing.give_frames([self.record(self.begins)], [Changes(self.function)], KeyError(1))
        except KeyError as error:
            ran = error.__traceback__.tb_next.tb_frame.f_code
        self.assertEqual((ran, self.function.__code__), (SMALL, BIG))

    @support.in_a_child
    def test_of_a_value_where_there_are_too_many_frames(self):
        def calls(x): return self.function(x)
        at = index_of(calls, "CALL")
        chain = [(calls, None, None, at, (1, types.CellType(self)), ()) for _ in range(continuing.recursion_remaining()[0])]
        with self.assertRaises(RecursionError):
            continuing.give_frames([*chain, self.record(self.begins)], [Changes(self.function)])

    @support.in_a_child
    def test_of_a_slot_where_a_record_is_refused(self):
        for others in (0, 1, 50):
            with self.subTest(others):
                self.function.__code__ = SMALL
                value = Value()
                end = weakref.ref(value)
                chain = [(take, None, None, 0, (Changes(self.function), value, nothing), ()), *[self.record(0, value) for _ in range(1 + others)]]
                del value
                with self.assertRaisesRegex(ValueError, "no frame waits"):
                    continuing.give_frames(chain)
                self.assertIs(self.function.__code__, BIG)
                self.assertIsNone(end())


@support.needs_framecore
@support.needs_failing_allocations
class WithoutMemory(unittest.TestCase):
    def outcomes(self, make, exception=None):
        """What comes of it where the first, second, ... allocation fails."""
        outcomes = []
        for number in range(1, 200):
            values = [Value() for _ in range(2)]
            ends = [weakref.ref(value) for value in values]
            chain = make(*values)
            args = [chain, nothing, nothing if exception is None else exception(1)]
            before = continuing.recursion_remaining()
            _testcapi.set_nomemory(number, number + 1)
            try:
                outcome = continuing.continue_frames(*args)
            except (MemoryError, KeyError) as error:
                outcome = type(error)
            finally:
                _testcapi.remove_mem_hooks()
            self.assertEqual(continuing.recursion_remaining(), before)
            del values, chain, args
            gc.collect()
            self.assertEqual([end() for end in ends], [None, None], number)
            outcomes.append(outcome)
            if outcome is not MemoryError and len(outcomes) > 30:
                break
        return outcomes

    def chain(self, length):
        at, begins = index_of(outer, "CALL"), after(take, "RESUME")
        return lambda a, b: [*[record(outer, at, a=a, b=b) for _ in range(length)], record(take, begins, a=a, b=b)]

    def test_each_allocation(self):
        for length in (1, 3, 20):
            outcomes = self.outcomes(self.chain(length))
            self.assertEqual(outcomes[-1], 2 + length)
            self.assertIn(MemoryError, outcomes)
            outcomes = self.outcomes(self.chain(length), KeyError)
            self.assertIn(KeyError, outcomes)

    def test_chains_across_chunks(self):
        limit = sys.getrecursionlimit()
        sys.setrecursionlimit(10_000)
        try:
            for length in (100, 1000, 3000):
                make = self.chain(length)
                a, b = Value(), Value()
                self.assertEqual(continued(*make(a, b)), 2 + length)
                held = support.framecore.datastack_stats()["bytes_held"]
                self.assertEqual(continued(*make(a, b)), 2 + length)
                self.assertEqual(support.framecore.datastack_stats()["bytes_held"], held)
        finally:
            sys.setrecursionlimit(limit)


@support.needs_framecore
class WithoutChunks(support.ProgramTestCase):
    def test_no_chunk_for_the_frames(self):
        self.assert_program_succeeds("import test_frame_continue_refused as t; t.without_chunks()")


def without_chunks():
    """Chains of many lengths, and the first, second, ... chunk of the data stack is not to be had."""
    import arenafault
    import foreignchunk
    arenafault.install()
    sys.setrecursionlimit(10_000)
    at, begins = index_of(outer, "CALL"), after(take, "RESUME")
    refused = 0
    for length in (500, 2000, 5000):
        for number in (1, 2, 3, 4):
            value = Value()
            end = weakref.ref(value)
            chain = [*[record(outer, at, a=value, b=1) for _ in range(length)], record(take, begins, a=value, b=1)]
            gc.collect()        # frees the chunks that the thread keeps
            before = foreignchunk.chunks(), continuing.recursion_remaining()
            arenafault.fail_at(number, count=2**30, smallest=8192)
            try:
                result = continuing.continue_frames(chain)
            except MemoryError:
                refused += 1
            else:
                assert result == length + 2, result
            finally:
                arenafault.fail_at(0)
            assert (foreignchunk.chunks(), continuing.recursion_remaining()) == before, (length, number)
            del value, chain
            assert end() is None, (length, number)
    assert refused >= 3, refused
