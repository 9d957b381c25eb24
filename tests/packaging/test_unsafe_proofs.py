"""The check of SAFETY comments and unsafe blocks that `make lint` runs finds what it must find, and nothing else."""

import unittest
from pathlib import Path

from tests.proofs import comments

ROOT = Path(__file__).resolve().parents[2]
BAD_COMMENTS = (
    "the caller's contract.", "The caller's contract!", "by contract.", "as above.", "as there", "the same contract.",
    "alive by contract.", "as above, by contract.", "",
)
GOOD_COMMENTS = (
    "the caller passes a live frame.", "*own stack*.", "as in `settings`.", "live by the type's invariant.",
    "the caller's contract says that `frame` is the current one.",
)


def block(comment, lines=1):
    return f"fn f() {{\n    // SAFETY: {comment}\n    unsafe {{\n" + "        g();\n" * lines + "    }\n}\n"


class UnsafeProofs(unittest.TestCase):
    def test_a_comment_that_says_nothing_is_found(self):
        for comment in BAD_COMMENTS:
            with self.subTest(comment):
                self.assertEqual([line for line, _ in comments.faults(block(comment))], [2])

    def test_a_comment_that_says_something_passes(self):
        for comment in GOOD_COMMENTS:
            with self.subTest(comment):
                self.assertEqual(comments.faults(block(comment)), [])

    def test_a_comment_is_read_to_its_end(self):
        self.assertEqual(comments.faults(block("the caller's contract. The lock\n    // is held by this thread")), [])
        self.assertEqual(len(comments.faults(block("the caller's\n    // contract."))), 1)

    def test_a_long_block_is_found(self):
        self.assertEqual(comments.faults(block("the lock is held.", 8)), [])
        self.assertEqual([line for line, _ in comments.faults(block("the lock is held.", 9))], [3])

    def test_braces_in_text_do_not_count(self):
        for text in ('"}"', "'}'", 'r#"}"#', "// }", '"\\"}"'):
            source = block("the lock is held.", 9).replace("g();", f"g({text});\n".replace("// }", "0); // }"), 1)
            with self.subTest(text):
                self.assertEqual(len(comments.faults(source)), 1)

    def test_the_sources_pass(self):
        files = list(comments.sources())
        self.assertGreater(len(files), 50)
        found = [f"{path}:{line}: {wrong}" for path in files for line, wrong in comments.faults(path.read_text())]
        self.assertEqual(found, [])
