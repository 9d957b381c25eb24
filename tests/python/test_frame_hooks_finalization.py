"""Frame hooks that are still installed when an interpreter ends."""

import subprocess
import sys

from support import ProgramTestCase, needs_hooks


@needs_hooks
class Finalization(ProgramTestCase):
    def test_hooks_that_pass_copy_or_disable(self):
        program = """
import atexit, sys, _framecore
class Last:
    def __del__(self):
        print("destructor", flush=True)
def at_exit():
    print("atexit", flush=True)
    return sum(x for x in range(3))
atexit.register(at_exit)
copies = {}
def copy(view):
    code = view.code
    if id(code) not in copies:
        copies[id(code)] = code, code.replace()
    return copies[id(code)][1]
hooks = {"pass": lambda view: None, "copy": copy, "disable_code": lambda view: _framecore.DISABLE}
for name in sys.argv[1:]:
    _framecore.add_frame_hook(hooks[name])
one, two = Last(), Last()
"""
        for hooks in (["pass"], ["copy"], ["disable_code"], ["disable_code", "copy", "pass"]):
            with self.subTest(hooks):
                out = self.assert_program_succeeds(program, *hooks)
                self.assertEqual(out.split(), ["atexit", "destructor", "destructor"])

    def test_a_hook_that_fails_everything(self):
        program = """
import _framecore
def fail(view):
    raise KeyError("refused")
_framecore.add_frame_hook(fail)
"""
        done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True,
                              timeout=120)
        # Python functions that run at the end fail with an exception, and nothing crashes.
        self.assertGreaterEqual(done.returncode, 0, done.stderr)
        self.assertNotIn("Fatal", done.stderr)

    def test_threads_that_still_run(self):
        program = """
import threading, time, _framecore
def leaf(x): return x
def spin():
    while True:
        leaf(1)
copy = leaf.__code__.replace()
_framecore.add_frame_hook(lambda view: copy if view.code is leaf.__code__ else None)
for _ in range(3):
    threading.Thread(target=spin, daemon=True).start()
time.sleep(0.2)
print("end")
"""
        for _ in range(3):
            self.assertEqual(self.assert_program_succeeds(program), "end\n")

    def test_a_subinterpreter_that_is_never_destroyed(self):
        program = """
import _interpreters, _framecore
other = _interpreters.create()
problem = _interpreters.exec(
    other, "import _framecore; _framecore.add_frame_hook(lambda view: None)")
assert problem is None, problem
_framecore.add_frame_hook(lambda view: None)
print("end")
"""
        self.assertEqual(self.assert_program_succeeds(program), "end\n")

    def test_initializing_again(self):
        # A process begins without hooks, and may end with one.
        program = ("import _framecore; assert _framecore.frame_hooks() == []; "
                   "_framecore.add_frame_hook(print)")
        done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True,
                              timeout=120)
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_exceptions_that_end_a_program(self):
        program = """
import sys, _framecore
def target(): pass
def hook(view):
    if view.code is target.__code__:
        sys.exit(7)
_framecore.add_frame_hook(hook)
target()
"""
        done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True,
                              timeout=120)
        self.assertEqual((done.returncode, done.stderr), (7, ""))
