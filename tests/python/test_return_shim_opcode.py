"""The opcode of return shims: no instruction of CPython's has its number, and code that has it behaves as on stock."""

import opcode
import re
import unittest
from pathlib import Path

from support import ON_STOCK, ROOT, needs_hooks, run_program

if not ON_STOCK:
    import framehook

HEADER = Path(ROOT) / "rust-core" / "include" / "ferrule_core.h"
GDB = Path(ROOT) / "patches" / "3.13" / "0012-debugger.patch"
RETURN_TO_SHIM = int(re.search(r"^#define _PyRust_RETURN_TO_SHIM (\d+)$", HEADER.read_text(), re.M)[1])


def beginning_with(number):
    """A function whose first instruction has that opcode, after its prologue."""
    def function():
        return 1
    at = function.__code__._co_code_adaptive.index(opcode.opmap["RESUME"]) + 2
    code = function.__code__.co_code
    function.__code__ = function.__code__.replace(co_code=code[:at] + bytes([number, 0]) + code[at:])
    return function


class ReturnShimOpcode(unittest.TestCase):
    def test_no_other_opcode_has_its_number(self):
        taken = {**opcode.opmap, **getattr(opcode, "_specialized_opmap", {})}
        self.assertNotIn(RETURN_TO_SHIM, taken.values())
        self.assertEqual(opcode.opname[RETURN_TO_SHIM], f"<{RETURN_TO_SHIM}>")

    def test_gdb_knows_it(self):
        self.assertIn(f"\n+RETURN_TO_SHIM = {RETURN_TO_SHIM}\n", GDB.read_text())

    def test_code_that_has_it_fails(self):
        with self.assertRaisesRegex(SystemError, f"unknown opcode {RETURN_TO_SHIM}"):
            beginning_with(RETURN_TO_SHIM)()

    @needs_hooks
    def test_code_that_has_it_fails_while_it_is_watched(self):
        function, events = beginning_with(RETURN_TO_SHIM), []

        def entry(view):
            view.watch(events.append)

        with framehook.hook(entry), self.assertRaisesRegex(SystemError, f"unknown opcode {RETURN_TO_SHIM}"):
            function()
        self.assertEqual([(event.kind, type(event.value)) for event in events if event.code is function.__code__],
                         [("raised", SystemError)])

    def test_code_with_the_reserved_opcode_ends_the_process(self):
        done = run_program("import test_return_shim_opcode as t; t.beginning_with(t.opcode.opmap['RESERVED'])()")
        self.assertIn("Executing RESERVED instruction", done.stderr)
        self.assertLess(done.returncode, 0)
