"""`ci/matrix`: two runs of one build do not work in one place."""

import fcntl
import subprocess
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


class OneRun(unittest.TestCase):
    def test_a_second_run_of_a_build_is_refused(self):
        lock = ROOT / "build" / "matrix" / "default.lock"
        lock.parent.mkdir(parents=True, exist_ok=True)
        with lock.open("w") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                pass        # a run is under way: as good
            done = subprocess.run([ROOT / "ci" / "matrix", "default"], capture_output=True, text=True, timeout=60)
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertIn("FAILED: another run of this build is under way", done.stdout)
        self.assertTrue(done.stdout.endswith("0 passed, 1 failed, 0 skipped\n"), done.stdout)
