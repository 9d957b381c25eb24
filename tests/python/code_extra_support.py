"""What the tests of values on code objects share.

Where Ferrule does better than stock CPython, a test says what each of them does: `mended` picks. So
the fault of stock is asserted too.
"""

import contextlib
import unittest

from support import FREE_THREADED, ON_STOCK, in_a_child, use_extensions

use_extensions()
import codeextra

STOCKS_INDICES = 254
# Values of tests. They differ, so that one that is taken for another is noticed.
FIRST, SECOND, THIRD = 0x1111, 0x2222, 0x3333

# A test whose code objects have to die: 3.13 without the GIL keeps them for ever, once it has had a second thread.
alone = in_a_child if FREE_THREADED else lambda test: test


def mended(*, stock, ferrule):
    return stock if ON_STOCK else ferrule


def new_code():
    """A code object that nothing else refers to, with no value yet."""
    return compile("1", "<code extra>", "eval").replace(co_name="fresh")


class CodeExtraTestCase(unittest.TestCase):
    def setUp(self):
        codeextra.freed()
        self.addCleanup(codeextra.freed)
        self.addCleanup(codeextra.set_hook, None)

    def request(self, kind="log"):
        """An index that no other test uses. It is released at the end of the test."""
        index = codeextra.request(kind)
        if not ON_STOCK:
            self.addCleanup(self.release_if_there, index)
        return index

    @staticmethod
    def release_if_there(index):
        with contextlib.suppress(ValueError):
            codeextra.release(index)

    def freed_values(self):
        return [value for value, _ in codeextra.freed()]


IN_INTERPRETERS = """if True:
    import sys
    import _interpreters
    import codeextra

    def run(interpreter, source):
        first = "import sys; sys.path[:] = %r\\nimport codeextra\\n" % sys.path
        error = _interpreters.exec(interpreter, first + source)
        assert error is None, error.errdisplay if error else None

    main = _interpreters.get_main()[0]
"""
KINDS = ("isolated", "legacy")
