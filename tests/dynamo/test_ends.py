"""How a process ends in which functions were compiled."""

import subprocess
import sys
import unittest

from support import COMPILES, INSTALL, environment

SCRIPT = INSTALL["hooks"] + COMPILES + """
def f(x):
    torch._dynamo.graph_break()
    return x + 1
f = compiled(f)
f(x)
"""


class Ends(unittest.TestCase):
    def check(self, ending, code=0, said=""):
        done = subprocess.run([sys.executable, "-c", SCRIPT + ending], env=environment(), text=True,
                              check=False, capture_output=True)
        self.assertEqual(done.returncode, code, done.stderr[-3000:])
        for wrong in ("panicked", "Fatal", "Exception ignored"):
            self.assertNotIn(wrong, done.stderr)
        self.assertIn(said, done.stderr)

    def test_at_the_end_of_the_program(self):
        self.check("")

    def test_with_an_error_that_holds_frames(self):
        self.check("raise SystemError('the end')", 1, "the end")

    def test_with_sys_exit_in_a_compiled_region(self):
        self.check("""
@torch._dynamo.decorators.skip
def leave():
    raise SystemExit(3)

def g(x):
    torch._dynamo.graph_break()
    leave()
    return x
compiled(g)(x)
""", 3)

    def test_in_a_cycle_that_is_found_last(self):
        self.check("""
import builtins, gc
gc.disable()
names = {}
exec("def h(x): return x + 1", names)
names["self"] = names
compiled(names["h"])(x)
builtins.kept = [names]
builtins.kept.append(builtins.kept)
""")

    def test_while_another_thread_compiles(self):
        self.check("""
def work():
    while True:
        torch._dynamo.reset()
        f(x)
threading.Thread(target=work, daemon=True).start()
import time
time.sleep(0.5)
""")

    def test_within_a_region(self):
        self.check("torch._C._dynamo.eval_frame.set_eval_frame(False)")
