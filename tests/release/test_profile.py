"""A profile-guided build: clang's counts are whole, and the code was compiled with them.

Run by tests/run.py with FERRULE_PYTHON naming the build; skipped for one without a profile.
"""

import os
import re
import subprocess
import unittest
from pathlib import Path

FERRULE = os.environ["FERRULE_PYTHON"]
BUILD = Path(FERRULE).resolve().parent
PROFILE = BUILD / "code.profclangd"
EVAL_LOOP = "_PyEval_EvalFrameDefault"


def output(*command):
    return subprocess.run([str(word) for word in command], capture_output=True, text=True, check=True).stdout


def llvm_tool(name):
    """The one beside the compiler that made the build."""
    compiler, = re.findall(r"(?m)^CC=\s*(\S+)", (BUILD / "Makefile").read_text())
    return Path(compiler).resolve().parent / name


def disassemble(name):
    """An object of the build as LLVM's text."""
    path = BUILD / name
    if path.read_bytes()[:4] != b"BC\xc0\xde":
        raise unittest.SkipTest(f"{name} is machine code: a build without LTO")
    return output(llvm_tool("llvm-dis"), "-o", "-", path)


@unittest.skipUnless(PROFILE.exists(), f"no {PROFILE.name} beside the interpreter: not a profile-guided build of clang")
class Profile(unittest.TestCase):
    def show(self, *options):
        return output(llvm_tool("llvm-profdata"), "show", *options, PROFILE)

    def test_only_the_front_end_counted(self):
        # IR counters, were there any, would have had all of C's discarded.
        self.assertRegex(self.show(), r"(?m)^Instrumentation level: Front-end\s*$")

    def test_the_eval_loop_was_counted_and_no_function_of_rust(self):
        counted = self.show("--all-functions")
        entry = re.search(rf"(?m)^  {EVAL_LOOP}:\n(?:    .*\n)*?    Function count: (\d+)", counted)
        self.assertIsNotNone(entry)
        self.assertGreater(int(entry[1]), 1000)
        names = re.findall(r"(?m)^  (\S.*):$", counted)
        self.assertGreater(len(names), 1000)
        self.assertEqual([name for name in names if "ferrule" in name or "_PyThreadState_PushFrame" in name], [])

    def test_the_eval_loop_was_compiled_with_its_count(self):
        entry = re.search(r"Function count: (\d+)", self.show(f"--function={EVAL_LOOP}"))
        code = disassemble("Python/ceval.o")
        number = re.search(rf"(?m)^define .*@{EVAL_LOOP}\(.*!prof !(\d+)", code)
        self.assertIsNotNone(number, "no profile was used for it")
        self.assertRegex(code, rf'(?m)^!{number[1]} = !{{!"function_entry_count", i64 {entry[1]}}}')

    def test_the_rust_object_stayed_without_counters(self):
        code = disassemble("Python/rust_core.o")
        self.assertIn("@_PyThreadState_PushFrame", code)
        self.assertNotIn("__profc_", code)
        self.assertNotIn("__llvm_prf", code)
