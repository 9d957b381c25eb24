"""Frame hooks, promises 12, 16 and 18, where each test needs a whole process for itself."""

import os
import sysconfig

from support import ProgramTestCase, needs_hooks, use_extensions

use_extensions()
import framehooks


@needs_hooks
class Interpreters(ProgramTestCase):
    """Each test runs a program in a fresh process."""

    # 12. Per interpreter; released before the interpreter's last garbage collection.

    RELEASED = """
import gc, sys, _framecore

class Watched:
    def __init__(self, name):
        self.name = name
    def __call__(self, view):
        pass
    def __del__(self):
        # Everything still works: this is not yet the end.
        print("released", self.name, len([x for x in range(3)]), flush=True)

sys.path.append(sys.argv[1])
import framehooks
hook = Watched("Python")
hook.cycle = hook
_framecore.add_frame_hook(hook)
del hook
framehooks.add_extended(Watched("C"), "watched")
print("end of the program")
"""

    def test_12_released_at_the_end(self):
        out = self.assert_program_succeeds(self.RELEASED, os.path.dirname(framehooks.__file__))
        lines = out.splitlines()
        self.assertEqual(lines[0], "end of the program")
        self.assertEqual(sorted(lines[1:]), ["released C 3", "released Python 3"])

    SUBINTERPRETERS = """
import sys, framehook, _interpreters
seen = []
framehook.add(lambda view: seen.append(view.code.co_name))

other = _interpreters.create()
def run(source):
    problem = _interpreters.exec(other, source)
    assert problem is None, problem

run('''if True:
    import framehook
    assert framehook.hooks() == []
    def target():
        return 1
    assert target() == 1
    own = []
    framehook.add(lambda view: own.append(view.code.co_name))
    target()
    assert own[-1] == "target", own
    class Released:
        def __call__(self, view):
            pass
        def __del__(self):
            print("released in the other", flush=True)
    framehook.add(Released())
    assert len(framehook.hooks()) == 2
''')
assert "target" not in seen, seen
assert len(framehook.hooks()) == 1
def mine():
    pass
del seen[:]
mine()
assert seen == ["mine"], seen
_interpreters.destroy(other)
print("destroyed", flush=True)
mine()
assert seen[-1] == "mine"
"""

    def test_12_per_interpreter(self):
        out = self.assert_program_succeeds(self.SUBINTERPRETERS)
        self.assertEqual(out.splitlines(), ["released in the other", "destroyed"])

    # 16. Without C recursion: far deeper than the C stack would allow.

    DEEP = """
import sys, _framecore
sys.path.append(sys.argv[1])
import framehooks
sys.setrecursionlimit(110_000)

def down(n):
    return down(n - 1) + 1 if n else 0

copy = down.__code__.replace(co_stacksize=down.__code__.co_stacksize + 3)
assert down(100_000) == 100_000
entries = 0

def count(view):
    global entries
    entries += view.code is down.__code__

def replace(view):
    return copy if view.code is down.__code__ else None

for hook in (count, replace):
    _framecore.add_frame_hook(hook)
    assert down(100_000) == 100_000
    _framecore.remove_frame_hook(hook)
    print(hook.__name__, entries)
for add, what in ((framehooks.add_native, "pass"),
                  (framehooks.add_replacer, {down.__code__: copy})):
    handle = add(what)
    assert down(100_000) == 100_000
    framehooks.remove(handle)
    print("C")
"""

    def test_16_recursion_of_100_000(self):
        out = self.assert_program_succeeds(self.DEEP, os.path.dirname(framehooks.__file__))
        self.assertEqual(out.splitlines(), ["count 100001", "replace 100001", "C", "C"])

    # 18. The perf trampoline.

    TRAMPOLINE = """
import sys, _framecore
def target():
    return "original"
namespace = {}
exec("def target(): return 'replaced'", namespace)
new = namespace["target"].__code__
old = target.__code__
_framecore.add_frame_hook(lambda view: new if view.code is old else None)
sys.activate_stack_trampoline("perf")
results = {target() for _ in range(300)} | set(map(lambda x: target(), range(300)))
assert sys.is_stack_trampoline_active()
sys.deactivate_stack_trampoline()
results |= {target() for _ in range(300)}
print(sorted(results))
"""

    def test_18_the_perf_trampoline_keeps_working(self):
        if not sysconfig.get_config_var("PY_HAVE_PERF_TRAMPOLINE"):
            self.skipTest("no perf trampoline on this platform")
        self.assertEqual(self.assert_program_succeeds(self.TRAMPOLINE).strip(), "['replaced']")
