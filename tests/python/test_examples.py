"""The programs in examples/ work, on stock too where they use nothing but what CPython documents."""

import os
import sysconfig

from support import ON_STOCK, ROOT, ProgramTestCase, needs_hooks

FREE_THREADED = bool(sysconfig.get_config_var("Py_GIL_DISABLED"))
RUN = "import runpy, sys; sys.argv = [sys.argv[1]]; runpy.run_path(sys.argv[0], run_name='__main__')"


class HotFunctions(ProgramTestCase):
    def test_hot_functions_get_their_faster_code(self):
        printed = self.assert_program_succeeds(RUN, os.path.join(ROOT, "examples", "hot_functions.py"))
        first, triangle, area, cold, init, last = printed.splitlines()
        self.assertIn("300 calls", first)
        self.assertEqual(triangle, "  triangle: 100 executions of its own code, runs its faster code now")
        self.assertEqual(area, "  area: 100 executions of its own code, runs its faster code now")
        self.assertEqual(cold, "  cold: 1 executions of its own code, runs its own code now")
        self.assertEqual(last, "  2 functions swapped, results right")
        if not ON_STOCK or FREE_THREADED:
            self.assertEqual(init, "  Circle.__init__: 300 executions")
        else:
            # Stock loses sight of __init__ once the call of the class is specialized.
            seen = int(init.split()[1])
            self.assertLess(seen, 300)
            self.assertGreater(seen, 0)


@needs_hooks
class HookTools(ProgramTestCase):
    """The tools that docs/frame-hooks.md begins with; that quotes them, with all that they print."""

    def lines(self, name):
        return self.assert_program_succeeds(RUN, os.path.join(ROOT, "examples", "hooks", name)).splitlines()

    def test_each_has_a_test(self):
        for name in os.listdir(os.path.join(ROOT, "examples", "hooks")):
            if name.endswith(".py"):
                self.assertTrue(hasattr(self, f"test_{name.removesuffix('.py')}"), name)

    def test_call_tracer(self):
        """A `self` without attributes, and the depth beside a suspended generator."""
        printed = self.lines("call_tracer.py")
        self.assertIn("    Point.__init__(<Point>, 1)", printed)
        self.assertEqual(printed[-3:], ["  numbers yielded Point(1)", "  numbers dropped", "main returned None"])

    def test_call_counter(self):
        """Ten threads lose no call, and what runs where the hook is disabled is not counted."""
        printed = [line.strip() for line in self.lines("call_counter.py")]
        self.assertEqual(printed, ["10 work, called by run", "30 shout, called by work", "10 words, called by work"])

    def test_slow_calls(self):
        """One that is slow, and one that blocks; neither one that waits nor one for which it is disabled."""
        slow = [line.partition(" is slow, called by ") for line in self.lines("slow_calls.py")]
        self.assertEqual([call for call, _, _ in slow], ["load(seconds=0.3)", "blocks(seconds=0.4)"])
        self.assertRegex(slow[0][2], r"^<module>, line \d+$")
        self.assertRegex(slow[1][2], r"^serve, line \d+$")

    def test_hot_swap(self):
        refused, *printed = self.lines("hot_swap.py")
        self.assertRegex(refused, "^<lambda> is refused: .*parameters")
        # The tracer was installed first, and sees the new code.
        self.assertEqual(printed, ["new_price runs"] * 2 + ["30 400", "old old new new", "20"])

    def test_task_times(self):
        printed = dict(line.split(": ") for line in self.lines("task_times.py"))
        self.assertEqual(printed, {
            "main": "0.3 s in 2 steps, returned", "forever": "0.0 s in 2 steps, raised",
            "busy": "0.3 s in 2 steps, returned",
            # Without the GIL, the thread that made a generator frees it.
            "countdown": f"0.0 s in 1 steps, dropped in {'MainThread' if FREE_THREADED else 'worker'}"})

    def test_fake_calls(self):
        """Answered in one thread alone; a hook after it is called for what was not answered, and for the outermost calls."""
        self.assertEqual(self.lines("fake_calls.py"), [
            "the page at /a", "a fake of /a", "another thread: connect", "MainThread: test", "a fake of /a"])
