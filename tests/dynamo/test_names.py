"""The extension uses nothing of CPython that is private."""

import os
import subprocess
import unittest

import ferrule_dynamo._core

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


class Names(unittest.TestCase):
    def test_no_private_function_or_object_is_imported(self):
        symbols = subprocess.run(["nm", "-D", "--undefined-only", ferrule_dynamo._core.__file__],
                                 check=True, text=True, capture_output=True).stdout
        names = {line.split()[-1].partition("@")[0] for line in symbols.splitlines()}
        self.assertIn("PyUnstable_Code_GetExtra", names)
        private = {name for name in names if name.startswith("_Py")}
        # Objects behind documented macros: Py_None, Py_True, Py_False and their kin; and Py_DECREF.
        documented = {"_Py_NoneStruct", "_Py_TrueStruct", "_Py_FalseStruct", "_Py_EllipsisObject",
                      "_Py_NotImplementedStruct", "_Py_Dealloc"}
        self.assertEqual(private - documented, set())

    def test_no_private_header_is_included(self):
        for directory, _, files in os.walk(os.path.join(ROOT, "clients", "dynamo")):
            for name in files:
                if name.endswith((".rs", ".py", ".toml")):
                    with open(os.path.join(directory, name)) as file:
                        text = file.read()
                    for word in ("Py_BUILD_CORE", "pycore_", "_PyInterpreterState", "_PyEval"):
                        self.assertNotIn(word, text, name)
