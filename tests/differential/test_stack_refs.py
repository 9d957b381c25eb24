"""The helpers of stack references in Rust do to reference counts what CPython's own inlines do.

tests/c/stackrefs.c is compiled twice for the same interpreter: against the frame core, and against the inlines that the
guard in pycore_stackref.h leaves out.
"""

import json
import os
import re
import subprocess
import tempfile
import unittest

import test_abi
from test_abi import FERRULE, ROOT

SOURCE = ROOT / "tests" / "c" / "stackrefs.c"
MODULES = {"stackrefs_rust": [], "stackrefs_original": ["-UPy_RUST_CORE"]}

PROGRAM = """
import gc, json, sys, weakref
import stackrefs_rust, stackrefs_original

class Named:
    pass

def function():
    pass

VALUES = {
    "NULL": (),
    "None": (None,), "a small int": (7,), "True": (True,), "the empty tuple": ((),), "a type of CPython's": (dict,),
    "an interned string": (sys.intern("name of something"),),
    "a function": (function,), "a module": (sys,), "a class": (Named,), "code": (function.__code__,),
    "a float": (float("1.5"),), "a list": ([],), "a large int": (10 ** 30,), "an instance": (Named(),),
    "a generator": ((i for i in ()),),
}
MODULES = (stackrefs_rust, stackrefs_original)

def ends(module):
    "How often the destructor ran for each way to close the last reference."
    counts = []
    for how in range(5):
        ended = []
        class Ends:
            def __del__(self):
                ended.append(how)
        module.close_last(Ends, how)
        counts.append(ended)
    return counts

def total(module):
    "References left over in all, where the build counts them."
    if not hasattr(sys, "gettotalrefcount"):
        return True
    value = [7, "text"]
    for _ in range(3):
        module.exercise(value)
    before = sys.gettotalrefcount()
    for _ in range(50):
        module.exercise(value)
    return abs(sys.gettotalrefcount() - before) < 25

print(json.dumps({
    "seen": [{name: module.exercise(*value) for name, value in VALUES.items()} for module in MODULES],
    "facts": [module.facts() for module in MODULES],
    "ends": [ends(module) for module in MODULES],
    "total": [total(module) for module in MODULES],
}))
"""


class StackRefs(unittest.TestCase):
    maxDiff = None

    @classmethod
    def setUpClass(cls):
        with tempfile.TemporaryDirectory() as directory:
            suffix, = test_abi.facts(FERRULE, "EXT_SUFFIX")
            for name, flags in MODULES.items():
                # With the interpreter's own flags and no warning: the names must fit CPython's code.
                command = [*test_abi.made_with(FERRULE, "CC"), *test_abi.core_flags(FERRULE), "-fno-lto", "-Werror", *flags, "-fPIC",
                           "-shared", str(SOURCE), "-o", os.path.join(directory, name + suffix)]
                done = subprocess.run(command, capture_output=True, text=True, cwd=FERRULE.parent)
                if done.returncode:
                    raise AssertionError(f"{name} does not compile:\n{done.stderr}")
            done = subprocess.run([str(FERRULE), "-c", PROGRAM], capture_output=True, text=True,
                                  env={**os.environ, "PYTHONPATH": directory, "PYTHONFAULTHANDLER": "1"})
        if done.returncode:
            raise AssertionError(f"exit code {done.returncode}:\n{done.stderr}")
        cls.result = json.loads(done.stdout)

    def test_the_two_modules_are_the_two_implementations(self):
        (rust, *ours), (original, *theirs) = self.result["facts"]
        self.assertEqual((rust, original), (1, 0))
        self.assertEqual(ours, theirs)

    def test_counts_and_tags_are_those_of_the_inlines_for_every_kind_of_object(self):
        rust, original = self.result["seen"]
        self.assertEqual(rust, original)

    def test_every_kind_of_object_was_seen(self):
        free_threaded = self.result["facts"][0][1]
        new = {name: [row for row in rows if row[0] == "XNewRefDeferred"][0][1:]
               for name, rows in self.result["seen"][0].items()}
        self.assertEqual(new["NULL"], [0, 0])
        self.assertEqual(new["None"], [0, 0], "immortal: nothing is counted")
        self.assertEqual(new["a list"], [1, 0], "ordinary: counted")
        self.assertEqual(new["a function"], [0, 1] if free_threaded else [1, 0], "deferred: tagged")

    def test_every_helper_was_called(self):
        header = (ROOT / "rust-core" / "include" / "ferrule_stackref.h").read_text()
        names = set(re.findall(r"#define (?:PyStackRef|_Py)_(\w+)\(", header))
        called = {row[0] for rows in self.result["seen"][0].values() for row in rows}
        self.assertGreater(len(names), 20)
        self.assertEqual(names - called, set())

    def test_closing_the_last_reference_runs_the_destructor_once(self):
        for which in self.result["ends"]:
            self.assertEqual(which, [[0], [1], [2], [3], [4]])

    def test_the_total_of_references_stays(self):
        self.assertNotIn(False, self.result["total"])
