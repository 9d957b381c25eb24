"""The release build's machine code: the linker has inlined Rust into C.

Run by tests/run.py with FERRULE_PYTHON naming the release build.
"""

import os
import re
import subprocess
import unittest

FERRULE = os.environ["FERRULE_PYTHON"]
DATA_STACK = ("_PyThreadState_HasStackSpace", "_PyThreadState_PushFrame", "_PyThreadState_PopFrame",
              "_PyRust_PushFrameUnchecked", "_PyRust_BeginCall", "_PyRust_EndCall")


def disassemble(function):
    """The calls that a function makes, each as the name of what it calls."""
    result = subprocess.run(["objdump", "-d", "--no-show-raw-insn", f"--disassemble={function}", FERRULE],
                            capture_output=True, text=True, check=True)
    return [line for line in result.stdout.splitlines() if re.match(r"\s+[0-9a-f]+:", line)]


def callees(instructions):
    found = (re.search(r"\b(?:call|jmp)\s+[0-9a-f]+ <([^>+]+)>", line) for line in instructions)
    return {match[1] for match in found if match}


def run_python(code):
    return subprocess.run([FERRULE, "-c", code], capture_output=True, text=True, check=True).stdout.strip()


def addresses():
    """{name: address} of the functions."""
    listed = subprocess.run(["nm", FERRULE], capture_output=True, text=True, check=True).stdout
    return {name: int(address, 16) for address, name in re.findall(r"^([0-9a-f]+) [Tt] (\S+)$", listed, re.M)}


class EvalLoop(unittest.TestCase):
    def test_it_makes_no_call_to_push_pop_and_has_space(self):
        # The functions that the eval loop runs through on a call and a return.
        for function in ("_PyEval_EvalFrameDefault", "_PyEvalFramePushAndInit", "_PyEval_FrameClearAndPop"):
            instructions = disassemble(function)
            self.assertGreater(len(instructions), 20, f"{function} is not in {FERRULE}")
            self.assertEqual(callees(instructions) & set(DATA_STACK), set(), function)

    def test_it_still_leads_to_the_rust_functions_behind_the_rare_paths(self):
        # Else the test above would pass on a build without the data stack.
        reached = callees(disassemble("_PyEvalFramePushAndInit")) | callees(disassemble("_PyEval_FrameClearAndPop"))
        self.assertTrue(any("push_slow" in name for name in reached), reached)
        self.assertTrue(any("leave_chunk" in name for name in reached), reached)

    def test_the_instructions_have_each_its_jump_to_the_next(self):
        # One for all, as LLVM 19 would make it, is one place for the branch predictor.
        jumps = [line for line in disassemble("_PyEval_EvalFrameDefault") if re.search(r"\bjmp\s+\*", line)]
        self.assertGreater(len(jumps), 150)

    def test_the_build_says_that_it_was_made_with_cross_language_lto(self):
        self.assertEqual(run_python("import _framecore; print(_framecore.info()['cross_lto'])"), "True")


class Alignment(unittest.TestCase):
    def test_functions_of_c_and_of_rust_begin_a_cache_line(self):
        # Stock's do, and what is compared with it should differ in its code, not in where that lies.
        if "-align-all-functions=6" not in run_python("import sysconfig; print(sysconfig.get_config_var('CONFIG_ARGS'))"):
            self.skipTest("the linker had no such option: neither `make release` nor `make stock-release`")
        functions = addresses()
        rust = {name for name in functions if "ferrule_core" in name} | {"PyUnstable_Code_GetExtra"}
        self.assertGreater(len(rust), 20)
        for name in {*rust, "_PyEval_EvalFrameDefault", "PyObject_GetAttr"}:
            self.assertEqual(functions[name] % 64, 0, name)
