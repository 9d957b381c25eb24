"""The indices under which extensions attach values to code objects, up to their release."""

import contextlib
import gc
import os
import sys
import sysconfig
import unittest

from code_extra_support import FIRST, SECOND, STOCKS_INDICES, THIRD, CodeExtraTestCase, mended, new_code
from support import ON_STOCK, ProgramTestCase, about_stock, needs_framecore, use_extensions

use_extensions()
import codeextra

MOST_INDICES = 1 << 20


class FirstRelease(ProgramTestCase):
    """Readers take another path once any index was released, so this has a process of its own."""

    def test_what_is_found_is_the_same_before_the_first_release_and_after_it(self):
        self.assert_program_succeeds("""if True:
            import codeextra
            import random
            choose = random.Random(1)
            indices = [codeextra.request() for _ in range(70)]
            # Some tables have room and some have none, and some indices belong to the same place.
            values = {}
            for count in (0, 1, 1, 1, 2, 3, 5, 8, 13, 30, 70) * 10:
                code = compile("1", "x", "eval").replace(co_name=f"f{len(values)}")
                values[code] = {index: choose.randrange(1, 1 << 40)
                                for index in choose.sample(indices, count)}
                for index, value in values[code].items():
                    codeextra.set(code, index, value)

            def check(gone=()):
                for code, expected in values.items():
                    for index in indices:
                        try:
                            found = codeextra.get(code, index)
                        except ValueError:
                            found = "released"
                        wanted = "released" if index in gone else expected.get(index)
                        assert found == wanted, (index, found, wanted)
                for wrong in (None, 1, print, "x"):
                    try:
                        codeextra.get(wrong, indices[0])
                    except SystemError as error:
                        assert "bad argument" in str(error), error
                    else:
                        raise AssertionError(wrong)

            check()
            if codeextra.has_release():
                gone = set()
                for index in (indices[0], indices[40]):
                    codeextra.release(index)
                    gone.add(index)
                    check(gone)
            """)


class Exhaustion(ProgramTestCase):
    """These take every index, so each has a process of its own."""

    def test_stock_has_254_indices_and_says_nothing_ferrule_has_a_million_and_says_so(self):
        output = self.assert_program_succeeds("""if True:
            import codeextra
            indices = codeextra.request_many(2_000_000)
            try:
                codeextra.request()
            except BaseException as error:
                print(len(indices), len(set(indices)), type(error).__name__, error, sep="|")
            """)
        count, different, kind, message = output.strip().split("|")
        self.assertEqual(count, different)
        self.assertEqual(int(count), mended(stock=STOCKS_INDICES, ferrule=MOST_INDICES))
        self.assertEqual(kind, mended(stock="AssertionError", ferrule="RuntimeError"))
        self.assertIn(
            mended(stock="-1 without an exception",
                   ferrule=f"{MOST_INDICES} of at most {MOST_INDICES}"), message)

    def test_a_value_under_a_high_index_does_not_pay_for_the_lower_ones(self):
        output = self.assert_program_succeeds("""if True:
            import codeextra
            def cost(index):
                code = compile("1", "x", "eval")
                before = code.__sizeof__()
                codeextra.set(code, index, 5)
                assert codeextra.get(code, index) == 5
                return code.__sizeof__() - before
            first = codeextra.request()
            low = cost(first)
            last = codeextra.request_many(70_000)[-1]
            print(low, cost(last))
            """)
        low, high = map(int, output.split())
        if ON_STOCK:
            self.assertEqual(high - low, 8 * (STOCKS_INDICES - 1))
        else:
            self.assertEqual(low, high)
            self.assertLess(high, 100)

    @needs_framecore
    def test_the_free_function_of_every_one_of_many_indices_is_called(self):
        self.assert_program_succeeds("""if True:
            import codeextra
            import gc
            indices = codeextra.request_many(70_000)
            code = compile("1", "x", "eval")
            for index in indices:
                codeextra.set(code, index, index + 1)
            for index in indices:
                assert codeextra.get(code, index) == index + 1
            for index in indices[:10]:
                codeextra.release(index)
            freed = [value for value, _ in codeextra.freed()]
            assert freed == [index + 1 for index in indices[:10]]
            del code
            gc.collect()    # on the free-threaded build nothing else frees the code object
            freed = {value for value, _ in codeextra.freed()}
            assert freed == {index + 1 for index in indices[10:]}, len(freed)
            """)


@needs_framecore
class Release(CodeExtraTestCase):
    """PyUnstable_Eval_ReleaseCodeExtraIndex, which stock does not have."""

    def test_every_value_is_freed_once_and_gone(self):
        index, other = self.request(), self.request()
        codes = [new_code() for _ in range(50)]
        for number, code in enumerate(codes):
            codeextra.set(code, other, 1000 + number)
            if number % 3:
                codeextra.set(code, index, 1 + number)
        codeextra.release(index)
        self.assertEqual(sorted(self.freed_values()), [1 + n for n in range(50) if n % 3])
        self.assertEqual([codeextra.get(code, other) for code in codes],
                         [1000 + n for n in range(50)])
        del code, codes
        gc.collect()
        self.assertEqual(sorted(self.freed_values()), [1000 + n for n in range(50)])

    def test_a_released_index_is_an_error_everywhere(self):
        index = self.request()
        with_value, without = new_code(), new_code()
        codeextra.set(with_value, index, FIRST)
        codeextra.release(index)
        for code in (with_value, without):
            with self.assertRaisesRegex(ValueError, f"index {index} was released"):
                codeextra.get(code, index)
            with self.assertRaisesRegex(ValueError, f"index {index} was released"):
                codeextra.set(code, index, SECOND)
        with self.assertRaisesRegex(ValueError, f"index {index} was released"):
            codeextra.release(index)
        self.assertEqual(self.freed_values(), [FIRST])

    def test_an_index_that_is_handed_out_again_has_another_number_and_none_of_the_old_values(self):
        code, stale = new_code(), self.request()
        codeextra.set(code, stale, FIRST)
        for _ in range(200):
            codeextra.release(stale)
            index = self.request()
            self.assertNotEqual(index, stale)
            self.assertIsNone(codeextra.get(code, index))
            codeextra.set(code, index, SECOND)
            with self.assertRaises(ValueError):
                codeextra.get(code, stale)
            self.assertEqual(codeextra.get(code, index), SECOND)
            stale = index

    def test_releasing_and_requesting_does_not_use_places_up(self):
        code = new_code()
        index = self.request()
        codeextra.set(code, index, FIRST)
        size = code.__sizeof__()
        for _ in range(5_000):
            codeextra.release(index)
            index = codeextra.request()
            codeextra.set(code, index, FIRST)
        self.assertEqual(code.__sizeof__(), size)
        self.release_if_there(index)

    def test_an_index_that_was_never_handed_out_cannot_be_released(self):
        index = self.request()
        for made_up in (-1, index + 1_000_000, sys.maxsize):
            with self.assertRaisesRegex(SystemError,
                                        f"did not hand out code extra index {made_up} "):
                codeextra.release(made_up)

    def test_a_free_function_may_release_and_set_and_get(self):
        code, other_code = new_code(), new_code()
        index, other = self.request(), self.request()
        for each in (code, other_code):
            codeextra.set(each, index, FIRST)
            codeextra.set(each, other, SECOND)
        errors = []

        def again(value):
            if value != FIRST:
                return
            for call in (lambda: codeextra.get(code, index),
                         lambda: codeextra.get(other_code, index),
                         lambda: codeextra.set(code, index, THIRD),
                         lambda: codeextra.release(index)):
                with self.assertRaises(ValueError) as caught:
                    call()
                errors.append(str(caught.exception))
            with contextlib.suppress(ValueError):
                codeextra.release(other)

        codeextra.set_hook(again)
        codeextra.release(index)
        codeextra.set_hook(None)
        self.assertEqual(len(errors), 8)
        self.assertEqual(sorted(self.freed_values()), [FIRST, FIRST, SECOND, SECOND])
        self.assertFalse(codeextra.has_table(code))

    def test_a_free_function_may_drop_the_code_objects_that_are_still_to_be_looked_at(self):
        index, other = self.request(), self.request()
        codes = [new_code() for _ in range(30)]
        for number, code in enumerate(codes):
            codeextra.set(code, index, 1 + number)
            codeextra.set(code, other, 1000 + number)
        del code
        codeextra.set_hook(lambda value: codes.clear())
        codeextra.release(index)
        codeextra.set_hook(None)
        gc.collect()
        self.assertEqual(sorted(self.freed_values()),
                         [1 + n for n in range(30)] + [1000 + n for n in range(30)])

    def test_an_index_without_a_free_function_is_released_too(self):
        code, index = new_code(), self.request("none")
        codeextra.set(code, index, FIRST)
        codeextra.release(index)
        self.assertFalse(codeextra.has_table(code))
        self.assertEqual(self.freed_values(), [])

    def test_extensions_see_the_declaration(self):
        self.assertTrue(codeextra.has_release())
        header = os.path.join(sysconfig.get_path("platinclude"), "pyconfig.h")
        if not os.path.exists(header):
            header = sysconfig.get_config_h_filename()
        with open(header, encoding="utf-8") as file:
            self.assertIn("#define Py_FERRULE 1", file.read())


class StockStaysStock(unittest.TestCase):
    @about_stock
    def test_stock_has_no_release(self):
        self.assertFalse(codeextra.has_release())
        with self.assertRaises(NotImplementedError):
            codeextra.release(0)
