"""What `make run` shows."""

import os

from profiler_support import OUT, ROOT, ProfilerTestCase, load

setUpModule = load


class Tour(ProfilerTestCase):
    def test_it_shows_the_profiler_and_the_debugger(self):
        done = self.run_python("-c", "import sys, tour; tour.show_clients(sys.argv[1])", OUT,
                               PYTHONPATH=os.path.join(ROOT, "examples"))
        self.assertRegex(done.stdout, r"\n106,000 .* letters  .*anagrams.py:")
        self.assertIn("\n['listen', 'silent', 'enlist', 'inlets']\n", done.stdout)

    def test_it_shows_what_a_call_costs_at_each_depth(self):
        done = self.run_python("-c", "import tour; tour.PICTURE_SWEEPS = 1; tour.show_costs(None)",
                               PYTHONPATH=os.path.join(ROOT, "examples"))
        self.assertRegex(done.stdout, r"\nFerrule: median .*, worst .* at depth [0-9,]+: [0-9.]+ times the median\n")
