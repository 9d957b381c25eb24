"""The release build's machine code: the linker has inlined Rust into C.

Run by tests/run.py with FERRULE_PYTHON naming the release build.
"""

import os
import re
import subprocess
import unittest

FERRULE = os.environ["FERRULE_PYTHON"]
DATA_STACK = ("_PyThreadState_HasStackSpace", "_PyThreadState_PushFrame", "_PyThreadState_PopFrame",
              "_PyRust_PushFrameUnchecked")


def disassemble(function):
    """The calls that a function makes, each as the name of what it calls."""
    result = subprocess.run(["objdump", "-d", "--no-show-raw-insn", f"--disassemble={function}", FERRULE],
                            capture_output=True, text=True, check=True)
    return [line for line in result.stdout.splitlines() if re.match(r"\s+[0-9a-f]+:", line)]


def callees(instructions):
    found = (re.search(r"\b(?:call|jmp)\s+[0-9a-f]+ <([^>+]+)>", line) for line in instructions)
    return {match[1] for match in found if match}


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
        code = "import _framecore; print(_framecore.info()['cross_lto'])"
        result = subprocess.run([FERRULE, "-c", code], capture_output=True, text=True, check=True)
        self.assertEqual(result.stdout.strip(), "True")


if __name__ == "__main__":
    unittest.main()
