"""where without the frames of libraries, and display locals."""

import unittest

from debugger_support import LOOP, TypedCase

TEXT = f"""
import asyncio
{LOOP}
async def main():
    long = "x" * 1000
    return f(3)
print(asyncio.run(main()))
x = 1                               # module
"""


class Looks(TypedCase):
    def setUp(self):
        super().setUp()
        self.source = self.program(TEXT)

    def test_where(self):
        for command in ("w", "where", "bt"):
            with self.subTest(command):
                said = self.typed("b {body}", "c", command, "p '--'", command + " all", "q")
                folded, _, whole = said.partition("'--'")
                self.assertRegex(folded, r"<module>\(\)\n-> print\(.*\)\n  \[\d frames of asyncio\]\n  \S+main\(\)\n-> return f\(3\)\n> \S+f\(\)\n-> total")
                self.assertIn("run_until_complete()", whole)
                self.assertNotIn("frames of", whole)
                self.assertEqual(whole.count("main()\n"), 1)

    def test_where_in_a_library(self):
        said = self.typed("b asyncio/events.py:89", "c", "w", "u", "w", "cl 1", "c", "q")
        self.assertRegex(said, r"> \S+events\.py\(\d+\)_run\(\)\n-> ")
        self.assertRegex(said, r"> \S+base_events\.py\(\d+\)_run_once\(\)\n-> .*\n  \S+events\.py")

    def test_wrong_arguments(self):
        self.assertIn("*** Invalid argument: x", self.typed("w x", "q"))

    def test_locals(self):
        said = self.typed("b {body}", "c", "display locals", "c", "u", "undisplay locals", "c", "cl 1", "display locals", "b {module}", "c", "q")
        self.assertEqual(said.count("  total = 0\n  i = 0\n"), 1)
        self.assertEqual(said.count("  n = 3\n  total = 0\n  i = 1\n"), 1)
        self.assertEqual(said.count("  n = 3\n  total = 1\n  i = 2\n"), 1)      # requested again there
        self.assertRegex(said, r"-> x = 1 +# module\n\(Pdb\) ")     # of a module, its variables: no functions and modules

    def test_locals_are_cut(self):
        said = self.typed("display locals", "b f", "c", "u", "display locals", "q")
        self.assertRegex(said, r"  long = 'x{196}\.\.\.\n")

    def test_a_variable_of_that_name(self):
        said = self.typed("!locals = 17", "display locals", "n", "undisplay locals", "undisplay locals", "q")
        self.assertIn("display locals: 17", said)
        self.assertNotIn("  x = 1", said)

    def test_help(self):
        said = self.typed("help w", "help display", "help undisplay", "q")
        self.assertIn("w(here) [all]", said)
        self.assertIn("display locals", said)


if __name__ == "__main__":
    unittest.main()
