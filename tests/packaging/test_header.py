"""cpython/framehook.h where it cannot serve: it says so, and nothing else."""

import shutil
import subprocess
import unittest
from pathlib import Path

HEADER = Path(__file__).resolve().parents[2] / "overlay" / "Include" / "cpython" / "framehook.h"
COMPILER = next(filter(None, map(shutil.which, ("cc", "gcc", "clang"))), "cc")


def errors(*macros):
    run = subprocess.run([COMPILER, "-fsyntax-only", "-x", "c", *(f"-D{macro}" for macro in macros), "-"], text=True,
                         input=f'#include "{HEADER}"\n', capture_output=True)
    return [line.partition("error: ")[2] for line in run.stderr.splitlines() if "error: " in line]


class Header(unittest.TestCase):
    def test_without_python_h_there_is_one_error_that_says_what_is_missing(self):
        said = errors()
        self.assertEqual(len(said), 1, said)
        self.assertIn("include Python.h before", said[0])

    def test_under_the_limited_api_there_is_one_error_that_says_why(self):
        said = errors("Py_PYTHON_H", "Py_LIMITED_API=0x030d0000")
        self.assertEqual(len(said), 1, said)
        self.assertIn("not in the limited API", said[0])
