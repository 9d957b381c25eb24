"""Values on code objects where each allocation fails once: requests, tables that are made and grow, releases."""

import gc

from code_extra_support import CodeExtraTestCase, alone, new_code
from support import attempt, needs_failing_allocations, needs_framecore, use_extensions

use_extensions()
import codeextra

INDICES = 70            # of one code object: its table grows seven times
FAILURES = range(0, 5)  # which allocation of an operation fails


@needs_framecore
@needs_failing_allocations
class WithoutMemory(CodeExtraTestCase):
    def check(self, code, values, number):
        self.assertEqual({index: codeextra.get(code, index) for index in values}, values, number)

    @alone
    def test_a_request_that_fails_takes_nothing_away(self):
        code, values, failed = new_code(), {}, 0
        for count in range(INDICES):
            for number in FAILURES:
                index = attempt(number, codeextra.request)
                if index is MemoryError:
                    failed += 1
                else:
                    self.addCleanup(self.release_if_there, index)
                    self.assertNotIn(index, values)
                    codeextra.set(code, index, count * 10 + number + 1)
                    values[index] = count * 10 + number + 1
            self.check(code, values, count)
        self.assertGreater(failed, 0)
        del code
        gc.collect()        # Without the GIL it is this that frees code.
        self.assertEqual(sorted(self.freed_values()), sorted(values.values()))

    @alone
    def test_a_table_that_cannot_be_made_or_grow_keeps_what_it_has(self):
        failed = 0
        for number in FAILURES:
            code, values = new_code(), {}
            set_value = codeextra.set
            indices = [self.request() for _ in range(INDICES)]
            for count, index in enumerate(indices):
                arguments = code, index, count + 1
                outcome = attempt(number, lambda: set_value(*arguments))
                if outcome is MemoryError:
                    failed += 1
                    self.assertIsNone(codeextra.get(code, index))
                    self.check(code, values, number)
                    set_value(*arguments)
                values[index] = count + 1
                # Another value in its place needs no memory.
                self.assertIsNone(attempt(0, lambda: set_value(*arguments)) and None)
            self.check(code, values, number)
            codeextra.freed()
            del code, arguments
            gc.collect()
            self.assertEqual(sorted(self.freed_values()), sorted(values.values()), number)
            for index in indices:
                codeextra.release(index)
        self.assertGreater(failed, 5)

    def test_a_release_that_fails_releases_nothing(self):
        codes, failed = [new_code() for _ in range(20)], 0
        release = codeextra.release
        for number in FAILURES:
            index = self.request()
            for code in codes:
                codeextra.set(code, index, 7)
            codeextra.freed()
            outcome = attempt(number, lambda: release(index))
            if outcome is MemoryError:
                failed += 1
                if values := self.freed_values():
                    self.fail(f"a release that failed freed {values}")
                self.assertEqual({codeextra.get(code, index) for code in codes}, {7})
                release(index)
            self.assertEqual(self.freed_values(), [7] * len(codes), number)
            self.assertRaises(ValueError, release, index)
        self.assertGreater(failed, 0)
