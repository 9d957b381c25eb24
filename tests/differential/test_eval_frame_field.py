"""interp->eval_frame, which outside readers know by its offset: NULL without an evaluator, on stock and here."""

import os
import subprocess
import tempfile
import unittest

from test_abi import FERRULE, ROOT, STOCK, compile_c
from tests.c.build_extensions import build

FIELD = """
#include "Python.h"
#include "pycore_interp.h"
void *eval_frame(void) { return (void *)PyInterpreterState_Get()->eval_frame; }
void *default_evaluator(void) { return (void *)_PyEval_EvalFrameDefault; }
"""

PROGRAM = """
import ctypes, sys
sys.path.insert(0, sys.argv[2])
import evaluators
library = ctypes.PyDLL(sys.argv[1])
library.eval_frame.restype = library.default_evaluator.restype = ctypes.c_void_p

def field():
    value = library.eval_frame()
    assert value != library.default_evaluator()
    return value

facts = [field() is None]
evaluators.set("pass")
set_alone = field()
facts.append(set_alone is not None)
evaluators.set("count")
facts.append(field() not in (None, set_alone))
evaluators.set("default")
facts.append(field() is None)
sys.activate_stack_trampoline("perf")
trampoline = field()
facts.append(trampoline is not None)
if sys.argv[3] == "ferrule":
    # Both: what the field names runs first, and that is the trampoline.
    evaluators.set("pass")
    facts.append(field() == trampoline)
    sys.deactivate_stack_trampoline()
    facts.append(field() == set_alone)
    evaluators.set("null")
else:
    sys.deactivate_stack_trampoline()
facts.append(field() is None)
print(*facts)
import os
os.unlink(f"/tmp/perf-{os.getpid()}.map")
"""


class EvalFrameField(unittest.TestCase):
    def facts(self, python, kind):
        extensions = build(str(python), str(ROOT / "build" / "test-extensions" / f"differential-{kind}"))
        with tempfile.TemporaryDirectory() as directory:
            library = os.path.join(directory, "field.so")
            result = compile_c(python, FIELD, "-fno-lto", "-fPIC", "-shared", "-fvisibility=default", "-o", library)
            self.assertEqual(result.returncode, 0, result.stderr)
            done = subprocess.run([python, "-c", PROGRAM, library, extensions, kind], capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout.split()

    def test_on_stock(self):
        self.assertEqual(self.facts(STOCK, "stock"), ["True"] * 6)

    def test_on_ferrule(self):
        self.assertEqual(self.facts(FERRULE, "ferrule"), ["True"] * 8)
