"""The programs in examples/ work, on stock too where they use nothing but what CPython documents."""

import os
import sysconfig
import unittest

from support import ON_STOCK, ROOT, ProgramTestCase

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


if __name__ == "__main__":
    unittest.main()
