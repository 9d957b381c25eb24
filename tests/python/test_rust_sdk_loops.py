"""Loops that a hook in safe Rust watches."""


from loops_support import jumps
from rust_sdk_support import HookTestCase, load
from support import needs_framecore

rust_hook = cases = None


def setUpModule():
    global rust_hook, cases
    rust_hook, cases = load()


def total(n):
    s = 0
    for i in range(n):
        s += i
    return s


def with_a_cell(n, cell=0):
    for _ in range(n):
        cell += 1
    return (lambda: cell)()


@needs_framecore
class Loops(HookTestCase):
    def run_with(self, kind, function=total, n=100, turns=10):
        loops = cases.loops(kind)
        self.assertEqual(loops.watch(function.__code__, turns), 1)
        try:
            return function(n), loops.calls()
        finally:
            loops.unwatch(function.__code__)

    def test_it_continues(self):
        self.assertEqual(self.run_with("continue"), (4950, 10))
        self.assertEqual(self.run_with("never again"), (4950, 1))
        self.assertEqual(self.run_with("skip the rest"), (45, 1))

    def test_what_it_sees(self):
        (code, function, jump, head, depth, values), calls = self.run_with("what it sees")
        self.assertEqual((code, function, {jump: head}, depth, values, calls),
                         (total.__code__, total, jumps(total.__code__), 1, [100, 45, 9], 1))

    def test_a_variable_that_is_set(self):
        def last(n):
            s = 0
            for _ in range(n):
                s = s
            return s
        self.assertEqual(self.run_with("set", last), ("set", 10))
        with self.assertRaisesRegex(TypeError, "a cell"):
            self.run_with("set", with_a_cell)
        with self.assertRaisesRegex(IndexError, "no local variable"):
            self.run_with("set elsewhere")

    def test_errors(self):
        try:
            self.run_with("anything")
        except ValueError as error:
            where = error.__traceback__.tb_next.tb_next
        self.assertEqual((where.tb_frame.f_code, where.tb_lineno), (total.__code__, total.__code__.co_firstlineno + 2))
        with self.assertRaisesRegex(KeyError, "unwound"):
            self.run_with("unwind")
        with self.assertRaisesRegex(RuntimeError, "frame hook \"loops\" panicked: in a loop"):
            self.run_with("panic")

    def test_what_is_refused(self):
        loops = cases.loops("continue")
        with self.assertRaisesRegex(ValueError, "1 to 65,535"):
            loops.watch(total.__code__, 0)
        loops.watch(total.__code__, 1)
        with self.assertRaisesRegex(RuntimeError, "another frame hook"):
            cases.loops("continue").watch(total.__code__, 1)
        del loops
        self.assertEqual(self.run_with("continue"), (4950, 10))
