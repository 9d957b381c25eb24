"""perf and debuggers name compiled code."""

import shutil
import subprocess
import sys
import unittest

import jit_support
from jit_support import run_alone

setUpModule = jit_support.load


PROGRAM = """
    import os
    ferrule_jit.enable(perf_map=True, turns=20)
    def count(n):
        total = 0
        for i in range(n): total += i
        return total
    count(500); ferrule_jit.compile_at_next_call(count); count(5)
    def named():
        path = f"/tmp/perf-{os.getpid()}.map"
        with open(path) as file:
            entries = [line.split(" ", 2) for line in file]
        os.unlink(path)
        return sorted((name.strip(), size == format(of_size, "x")) for _, size, name in entries if "jit::" in name
                      for of_size in [sizes["loop in line" in name]])
    stats = ferrule_jit.stats(count)
    sizes = {False: stats["versions"][0][2], True: stats["loops"][0][2]}
"""


class Perf(unittest.TestCase):
    EXPECTED = "[('jit::count loop in line 7:<string>', True), ('jit::count:<string>', True)]"

    def test_the_map(self):
        self.assertEqual(run_alone(PROGRAM + "    print(named())\n"), self.EXPECTED + "\n")

    def test_the_map_of_a_fork(self):
        output = run_alone(PROGRAM + """
    child = os.fork()
    if child == 0:
        print(named(), flush=True)
        os._exit(0)
    os.waitpid(child, 0)
    print(named())
""")
        self.assertEqual(output, (self.EXPECTED + "\n") * 2)

    def test_there_is_none_unless_it_is_asked_for(self):
        output = run_alone("""
            import os
            def count(n):
                for i in range(n): pass
            count(5000)
            print(bool(ferrule_jit.stats(count)["loops"]), os.path.exists(f"/tmp/perf-{os.getpid()}.map"))
        """)
        self.assertEqual(output, "True False\n")

    def test_the_environment(self):
        program = "import os, ferrule_jit; ferrule_jit.enable(); f = eval('lambda n: [i for i in range(n)]')\n" \
                  "def count(n):\n    for i in range(n): pass\ncount(5000)\nos.unlink(f'/tmp/perf-{os.getpid()}.map')"
        subprocess.run([sys.executable, "-c", program], check=True,
                       env={"PYTHONPATH": jit_support.packages(), "FERRULE_JIT_PERF_MAP": "1"})


@unittest.skipUnless(shutil.which("gdb"), "gdb is not there")
class Debugger(unittest.TestCase):
    def debug(self, program, *commands):
        header = f"import sys; sys.path.insert(0, {jit_support.packages()!r}); import ferrule_jit, gc, signal\n"
        command = ["gdb", "-batch", "-nx", "-ex", "handle SIGVTALRM stop nopass", "-ex", "run"]
        for text in commands:
            command += ["-ex", text]
        return subprocess.run([*command, "--args", sys.executable, "-c", header + program], capture_output=True, text=True).stdout

    def test_a_backtrace_names_compiled_code(self):
        output = self.debug("""
ferrule_jit.enable(gdb=True, turns=5)
def endless(n):
    while n > 0:
        n += 1 if n < 5 else -1
# Counts what this process computes: when it is over, the loop runs, however loaded the machine is.
signal.setitimer(signal.ITIMER_VIRTUAL, 0.3)
endless(5)
""", "backtrace", "kill")
        self.assertRegex(output, r"#0 .* in jit::endless loop in line \d+:<string>", output)
        # And it is unwound to the end.
        self.assertRegex(output, r"#\d+ .* __libc_start")

    def test_code_that_goes_away_has_no_name(self):
        output = self.debug("""
ferrule_jit.enable(gdb=True, turns=5)
def made():
    space = {}
    exec("def inner(n):\\n    for i in range(n): pass\\ninner(50)", space)
    return ferrule_jit.stats(space["inner"])["loops"]
assert all(made() for _ in range(5))
gc.collect()
def kept(n):
    for i in range(n): pass
kept(50)
signal.raise_signal(signal.SIGVTALRM)
""", "maintenance info jit", "info functions jit::", "kill")
        self.assertIn("jit::kept", output)
        self.assertNotIn("jit::inner", output)
