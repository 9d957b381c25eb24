"""Values that extensions attach to code objects: how they are set, found and freed."""

import gc
import sys

from code_extra_support import FIRST, SECOND, THIRD, CodeExtraTestCase, alone, mended, new_code
from support import FREE_THREADED, ON_STOCK, _testcapi, in_threads, needs_failing_allocations, use_extensions

use_extensions()
import codeextra


class Documented(CodeExtraTestCase):
    """Where stock does what its documentation says, Ferrule does the same."""

    def test_an_index_is_not_negative_and_no_index_is_handed_out_twice(self):
        indices = [self.request() for _ in range(20)]
        self.assertGreaterEqual(min(indices), 0)
        self.assertEqual(len(set(indices)), 20)

    def test_a_value_that_was_never_set_is_null_and_no_error(self):
        code, index = new_code(), self.request()
        self.assertIsNone(codeextra.get(code, index))
        codeextra.set(code, index, FIRST)
        self.assertIsNone(codeextra.get(code, self.request()))
        self.assertIsNone(codeextra.get(new_code(), index))

    def test_an_index_that_was_never_handed_out_has_no_value(self):
        code, index = new_code(), self.request()
        for made_up in (-1, -2, index + 1, index + 200, sys.maxsize):
            self.assertIsNone(codeextra.get(code, made_up))
        codeextra.set(code, index, FIRST)
        for made_up in (-1, -2, index + 1, index + 200, sys.maxsize):
            self.assertIsNone(codeextra.get(code, made_up))

    def test_a_value_is_found_under_its_index_and_code_object_only(self):
        codes, indices = [new_code() for _ in range(5)], [self.request() for _ in range(9)]
        for i, code in enumerate(codes):
            for j, index in enumerate(indices):
                codeextra.set(code, index, 1 + 100 * i + j)
        for i, code in enumerate(codes):
            for j, index in enumerate(indices):
                self.assertEqual(codeextra.get(code, index), 1 + 100 * i + j)

    def test_a_replaced_value_is_freed_once(self):
        code, index = new_code(), self.request()
        codeextra.set(code, index, FIRST)
        codeextra.set(code, index, SECOND)
        self.assertEqual(self.freed_values(), [FIRST])
        codeextra.set(code, index, None)
        self.assertEqual(self.freed_values(), [SECOND])
        self.assertIsNone(codeextra.get(code, index))
        codeextra.set(code, index, THIRD)
        self.assertEqual(self.freed_values(), [])

    @alone
    def test_values_are_freed_when_the_code_object_dies(self):
        code, indices = new_code(), [self.request() for _ in range(3)]
        for index, value in zip(indices, (FIRST, SECOND, THIRD)):
            codeextra.set(code, index, value)
        del code
        gc.collect()
        self.assertEqual(sorted(value for value in self.freed_values() if value),
                         [FIRST, SECOND, THIRD])

    def test_without_a_free_function_nothing_is_called(self):
        code, index = new_code(), self.request("none")
        codeextra.set(code, index, FIRST)
        codeextra.set(code, index, SECOND)
        del code
        gc.collect()
        self.assertEqual([value for value in self.freed_values() if value], [])

    def test_what_is_no_code_object_is_refused(self):
        index = self.request()
        for thing in (None, 1, "text", new_code):
            with self.assertRaisesRegex(SystemError, "bad argument to internal function"):
                codeextra.get(thing, index)
            with self.assertRaisesRegex(SystemError, "bad argument to internal function"):
                codeextra.set(thing, index, FIRST)

    def test_a_value_under_an_index_that_was_never_handed_out_is_refused(self):
        code, index = new_code(), self.request()
        for made_up in (-1, index + 1, index + 1000, sys.maxsize):
            with self.assertRaisesRegex(SystemError, "bad argument to internal function"):
                codeextra.set(code, made_up, FIRST)
        self.assertIsNone(codeextra.get(code, index))

    def test_the_size_of_a_code_object_counts_its_values(self):
        code, index = new_code(), self.request()
        without = code.__sizeof__()
        codeextra.set(code, index, FIRST)
        self.assertGreaterEqual(code.__sizeof__(), without + 16)

    def test_the_old_names_do_the_same(self):
        self.assertEqual(codeextra.old_names(new_code()), 4242)

    def test_an_exception_that_is_set_stays_set(self):
        code, index = new_code(), self.request()
        codeextra.set(code, index, FIRST)
        self.assertTrue(codeextra.set_with_pending(code, index, SECOND))
        self.assertEqual(codeextra.get(code, index), SECOND)

    def test_a_free_function_may_drop_the_last_reference_to_the_code_object(self):
        code, index = new_code(), self.request()
        codeextra.set(code, index, FIRST)
        holder = [code]
        del code
        # The value that was stored meanwhile is freed too, when the code object dies.
        codeextra.set_hook(lambda value: holder.clear() if value == FIRST else None)
        codeextra.remember(holder[0])
        codeextra.set_remembered(index, SECOND)
        self.assertEqual(self.freed_values()[0], FIRST)
        self.assertEqual(holder, [])


class Mended(CodeExtraTestCase):
    """Where stock differs from its documentation, or has none, Ferrule does better."""

    def test_the_new_value_is_stored_before_the_old_one_is_freed(self):
        code, index = new_code(), self.request()
        codeextra.set(code, index, FIRST)
        seen = []
        codeextra.set_hook(lambda value: seen.append((value, codeextra.get(code, index))))
        codeextra.set(code, index, SECOND)
        codeextra.set_hook(None)
        # Stock still has the value that is being freed.
        self.assertEqual(seen, [(FIRST, mended(stock=FIRST, ferrule=SECOND))])

    def test_a_free_function_may_set_another_value_under_the_same_index(self):
        code, index = new_code(), self.request()
        codeextra.set(code, index, FIRST)

        def once(value):
            codeextra.set_hook(None)
            codeextra.set(code, index, THIRD)

        codeextra.set_hook(once)
        codeextra.set(code, index, SECOND)
        # Stock frees the old value twice, and does not keep the value that was stored last.
        self.assertEqual(self.freed_values(), mended(stock=[FIRST, FIRST], ferrule=[FIRST, SECOND]))
        self.assertEqual(codeextra.get(code, index), mended(stock=SECOND, ferrule=THIRD))

    @alone
    def test_a_free_function_never_sees_null(self):
        code = new_code()
        first, second = self.request(), self.request()
        codeextra.set(code, second, FIRST)
        codeextra.set(code, second, None)
        self.assertEqual(self.freed_values(), [FIRST])
        codeextra.set(code, first, SECOND)
        del code
        gc.collect()
        freed = self.freed_values()
        self.assertIn(SECOND, freed)
        self.assertEqual(None in freed, mended(stock=True, ferrule=False))

    @alone
    def test_a_free_function_may_use_the_code_object_that_dies(self):
        code = new_code()
        first, second = self.request(), self.request()
        codeextra.set(code, first, FIRST)
        codeextra.set(code, second, SECOND)
        codeextra.remember(code)
        seen = []

        def look(value):
            if value and not seen:  # stock frees NULL too
                freed, other = (first, second) if value == FIRST else (second, first)
                seen.append(codeextra.get_remembered(freed))
                seen.append(codeextra.get_remembered(other))
                codeextra.set_remembered(freed, THIRD)

        codeextra.set_hook(look)
        del code
        gc.collect()
        codeextra.set_hook(None)
        # Stock still has the value that is being freed, frees it twice, and loses the new one.
        freed = [value for value in self.freed_values() if value]
        at_first, then = freed[0], FIRST + SECOND - freed[0]
        self.assertEqual(seen, [mended(stock=at_first, ferrule=None), then])
        self.assertEqual(sorted(freed),
                         sorted([at_first, then,
                                 mended(stock=at_first, ferrule=THIRD)]))

    def test_an_exception_from_a_free_function_is_reported_and_goes_no_further(self):
        code, index = new_code(), self.request("raise")
        codeextra.set(code, index, FIRST)
        reported = []
        previous, sys.unraisablehook = sys.unraisablehook, reported.append
        try:
            if ON_STOCK:
                with self.assertRaises(KeyError):
                    codeextra.set(code, index, SECOND)
                with self.assertRaises(KeyError):
                    codeextra.set(code, index, None)
            else:
                codeextra.set(code, index, SECOND)
                self.assertEqual([type(report.exc_value) for report in reported], [KeyError])
                self.assertIn(str(index), reported[0].err_msg)
                del code
                gc.collect()
                self.assertEqual(len(reported), 2)
        finally:
            sys.unraisablehook = previous

    def test_a_code_object_whose_values_are_gone_is_as_one_that_never_had_any(self):
        code, index = new_code(), self.request()
        self.assertFalse(codeextra.has_table(code))
        size = code.__sizeof__()
        codeextra.set(code, index, None)
        codeextra.set(code, index, FIRST)
        codeextra.set(code, index, None)
        self.assertEqual(codeextra.has_table(code), mended(stock=True, ferrule=False))
        self.assertEqual(code.__sizeof__() > size, mended(stock=True, ferrule=False))

    @needs_failing_allocations
    def test_without_memory_there_is_an_exception_and_nothing_is_lost(self):
        code, first = new_code(), self.request()
        codeextra.set(code, first, FIRST)
        others = [self.request() for _ in range(2)]
        if ON_STOCK:
            code = new_code()
        set_value, fail, succeed = codeextra.set, _testcapi.set_nomemory, _testcapi.remove_mem_hooks
        # Another value needs memory: on Ferrule the table is full, on stock there is none.
        arguments = (code, others[1], SECOND)
        error = None
        fail(0)
        try:
            set_value(*arguments)
        except BaseException as caught:
            error = caught
        finally:
            succeed()
        if ON_STOCK:
            # There may be no memory for the report either.
            self.assertIsInstance(error, (AssertionError, MemoryError, SystemError))
            return
        self.assertIsInstance(error, MemoryError)
        self.assertEqual(codeextra.get(code, first), FIRST)
        self.assertIsNone(codeextra.get(code, others[1]))
        codeextra.set(*arguments)
        self.assertEqual(codeextra.get(code, others[1]), SECOND)
        release = codeextra.release
        error = None
        fail(0)
        try:
            release(first)
        except BaseException as caught:
            error = caught
        finally:
            succeed()
        self.assertIsInstance(error, MemoryError)
        self.assertEqual(codeextra.get(code, first), FIRST)
        codeextra.release(first)
        self.assertEqual(self.freed_values(), [FIRST])


class Threads(CodeExtraTestCase):
    def test_threads_set_and_get_on_one_code_object(self):
        code, indices = new_code(), [self.request() for _ in range(3)]
        failures = []

        def work(number):
            try:
                for turn in range(50):
                    for index in indices:
                        codeextra.set_loop(code, index, 200)
                        codeextra.get_loop(code, index, 200)
                    if not ON_STOCK:
                        own = codeextra.request("none")
                        codeextra.set(code, own, 1 + turn)
                        if codeextra.get(code, own) != 1 + turn:
                            failures.append((number, turn))
                        codeextra.release(own)
            except BaseException as error:
                failures.append(error)

        if ON_STOCK and FREE_THREADED:
            self.skipTest("stock has no lock there")
        in_threads(work, range(3))
        self.assertEqual(failures, [])
        freed = self.freed_values()
        # Every value is freed but the last one under each index.
        self.assertEqual(len(freed), 3 * 3 * 50 * 200 - 3)
        self.assertEqual([codeextra.get(code, index) for index in indices], [200] * 3)
