"""What the proofs break on purpose is in today's code: each text of `mutations.py` occurs there once."""

import unittest
from pathlib import Path

from tests.proofs.mutations import BATCHES, break_all

SOURCES = Path(__file__).resolve().parents[2] / "rust-core" / "src"


def read(file):
    return (SOURCES / file).read_text()


class BrokenCopies(unittest.TestCase):
    def test_each_text_occurs_in_the_code_once(self):
        self.assertGreater(len(BATCHES), 10)
        self.assertEqual([fault for batch in BATCHES for fault in break_all(batch, read)[1]], [])

    def test_a_text_that_is_missing_or_occurs_there_twice_is_found(self):
        for text in ("c", "a"):
            _, faults = break_all([("file", text, "d", [])], lambda file: "a a b")
            self.assertEqual(len(faults), 1, text)

    def test_changes_of_a_file_are_made_one_after_the_other(self):
        texts, faults = break_all([("file", "a", "b c", []), ("file", "b c", "d", [])], lambda file: "a")
        self.assertEqual((texts, faults), ({"file": "d"}, []))
