"""Random programs: with the compiler as without it, and as on stock."""

import json
import os
import re
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import fuzz
import fuzz_many
import jit_support
import surroundings

FUZZ = fuzz.__file__
STOCK = os.environ.get("STOCK_PYTHON")

setUpModule = jit_support.load


class Programs(unittest.TestCase):
    def run_fuzz(self, *options):
        command = [sys.executable, FUZZ, "--packages", jit_support.packages(), *options]
        done = subprocess.run(command, capture_output=True, text=True, cwd=jit_support.HERE)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertNotIn("panicked at", done.stderr)
        found = re.match(r"(\d+) programs, (\d+) calls, (\d+) programs compiled \(\d+ %\), (\d+) entries, (\d+) exits, 0 differences", done.stdout)
        return [int(number) for number in found.groups()]

    def test_whole_functions(self):
        stock = ["--stock", STOCK] if STOCK else []
        programs, _, compiled, entries, exits = self.run_fuzz("--count", "250", "--seed", "5000", *stock)
        self.assertEqual(programs, 250)
        self.assertGreater(compiled, 250 * 7 // 10)
        self.assertGreater(entries, 1000)
        self.assertGreater(exits, 300)

    def test_loops_that_run(self):
        _, _, compiled, entries, _ = self.run_fuzz("--count", "250", "--seed", "7000", "--loops")
        self.assertGreater(compiled, 250 // 2)
        self.assertGreater(entries, 300)

    def test_many_with_all_surroundings(self):
        each = len(fuzz.KINDS) * len(surroundings.SURROUNDINGS)
        with tempfile.TemporaryDirectory() as directory:
            totals = Path(directory, "totals.json")
            command = [sys.executable, fuzz_many.__file__, "--python", sys.executable, "--packages", jit_support.packages(), "--each", str(each),
                       "--totals", str(totals), "--seed", "9000", "--count"]
            for count in (each, 2 * each):
                done = subprocess.run([*command, str(count)], capture_output=True, text=True)
                self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
            found = json.loads(totals.read_text())
        self.assertEqual((found["next"], found["processes"], found["failed"]), (9000 + 2 * each, 2, []))
        self.assertEqual(found["totals"]["around"], dict.fromkeys(surroundings.SURROUNDINGS, 2 * len(fuzz.KINDS)))
        self.assertGreater(found["totals"]["entered"], 100)

    def test_a_crash_is_counted(self):
        with tempfile.TemporaryDirectory() as directory:
            totals = Path(directory, "totals.json")
            done = subprocess.run([sys.executable, fuzz_many.__file__, "--python", "/bin/false", "--packages", directory, "--count", "3",
                                   "--totals", str(totals)], capture_output=True, text=True)
            found = json.loads(totals.read_text())
        self.assertEqual((done.returncode, found["totals"], len(found["failed"])), (1, {"lost": 3}, 1))

    def test_tools_observe_programs(self):
        for name in ("tracer", "profiler", "monitoring", "hook"):
            _, counts = surroundings.SURROUNDINGS[name](fuzz.Program(1), lambda main: None)
            self.assertTrue(any(key.startswith("main:") and times >= fuzz.CALLS for key, times in counts.items()), (name, counts))

    def test_an_operand_that_a_shift_gives_back(self):
        program = fuzz.Program(1)
        program.text = "x >> 0"
        self.assertTrue(fuzz.is_same(program, "int 5000 13 []", "int 5000 13 [1]"))
        self.assertTrue(fuzz.is_same(program, "int -5000 []", "int -5000 [0]"))
        self.assertTrue(fuzz.is_same(program, "int 5000 13 [] ['[int 1 1]'] []", "int 5000 13 [0, 1] ['[int 1 1]'] []"))
        for was, wanted in (("int 5000 13 [1]", "int 5000 13 []"), ("int 5000 13 []", "int 5001 13 [1]"), ("int 5000 13 [1]", "int 5000 13 [0]"),
                            ("float 0.5 []", "float 0.5 [0]"), ("list [] []", "list [] [0]")):
            self.assertFalse(fuzz.is_same(program, was, wanted), (was, wanted))
        program.text = "x"
        self.assertFalse(fuzz.is_same(program, "int 5000 13 []", "int 5000 13 [1]"))

    def test_a_difference_is_found(self):
        program = fuzz.Program(1)
        first = program.run(lambda main: None)
        self.assertEqual(json.loads(json.dumps(first)), first)
        program.text, program.code = "", compile("def main(a, b, c): return a, b", "<other>", "exec")
        self.assertNotEqual(program.run(lambda main: None), first)
