"""tools/patches.py: exact application, and the rule that patches only insert."""

import contextlib
import importlib.util
import io
import os
import tempfile
import unittest
import unittest.mock
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SPEC = importlib.util.spec_from_file_location("patches", ROOT / "tools" / "patches.py")
patches = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(patches)

ORIGINAL = "".join(f"line {n}\n" for n in range(1, 21))


def insertion(file="a.c", text="new", before=9, context=None, added=1):
    """A patch that adds lines after line `before` of a file like ORIGINAL."""
    above = context or [f"line {n}" for n in range(before - 2, before + 1)]
    below = [f"line {n}" for n in range(before + 1, before + 4)]
    body = [" " + c for c in above] + [f"+{text} {n}" for n in range(added)]
    body += [" " + c for c in below]
    return (f"--- a/{file}\n+++ b/{file}\n@@ -{before - 2},6 +{before - 2},{6 + added} @@\n"
            + "\n".join(body) + "\n")


DELETION = ("--- a/a.c\n+++ b/a.c\n@@ -4,3 +4,2 @@\n line 4\n-line 5\n line 6\n")


class Case(unittest.TestCase):
    def setUp(self):
        self.temp = tempfile.TemporaryDirectory()
        self.addCleanup(self.temp.cleanup)
        self.base = Path(self.temp.name)
        self.tree = self.base / "tree"
        self.dir = self.base / "patches"
        self.tree.mkdir()
        self.dir.mkdir()
        (self.tree / "a.c").write_text(ORIGINAL)
        (self.tree / "configure.ac").write_text(ORIGINAL)

    def put(self, name, content):
        (self.dir / name).write_text(content)

    def series(self, *names):
        self.put("series", "".join(f"{name}\n" for name in names))

    def apply(self, version="3.13.5"):
        return patches.apply_series(self.tree, self.dir, version)

    def command(self, *argv):
        """Run the command line; return (exit code, output, error output)."""
        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            code = patches.main([*argv, "--patches", str(self.dir)])
        return code, out.getvalue(), err.getvalue()

    def assert_no_litter(self):
        litter = [p for p in self.tree.rglob("*") if p.suffix in (".orig", ".rej")]
        self.assertEqual(litter, [])


class Apply(Case):
    def test_in_order(self):
        self.put("0001-a.patch", insertion(text="first"))
        second = ("--- a/a.c\n+++ b/a.c\n@@ -9,4 +9,5 @@\n line 9\n first 0\n"
                  "+second 0\n line 10\n line 11\n")
        self.put("0002-b.patch", second)
        self.series("# comment", "", "0001-a.patch -p1", "0002-b.patch")
        self.assertEqual(self.apply(), ["a.c"])
        self.assertIn("line 9\nfirst 0\nsecond 0\nline 10\n",
                      (self.tree / "a.c").read_text())
        self.assert_no_litter()

    def test_offset_is_fine_and_leaves_no_orig(self):
        (self.tree / "a.c").write_text("extra\n" * 5 + ORIGINAL)
        self.put("0001-a.patch", insertion())
        self.series("0001-a.patch")
        self.apply()
        self.assertIn("line 9\nnew 0\n", (self.tree / "a.c").read_text())
        self.assert_no_litter()

    def test_fuzz_is_refused_and_named(self):
        self.put("0001-ok.patch", insertion(text="ok", before=15))
        self.put("0002-fuzzy.patch", insertion(context=["LINE 7", "line 8", "line 9"]))
        self.series("0001-ok.patch", "0002-fuzzy.patch")
        with self.assertRaises(patches.PatchError) as caught:
            self.apply()
        message = str(caught.exception)
        self.assertIn("0002-fuzzy.patch", message)
        self.assertIn("a.c: Hunk #1 FAILED", message)
        self.assert_no_litter()
        self.assertIn("0002-fuzzy.patch", (self.tree / patches.FAILED_MARK).read_text())

    def test_failed_tree_is_refused_until_unpacked_anew(self):
        self.put("0001-fuzzy.patch", insertion(context=["LINE 7", "line 8", "line 9"]))
        self.series("0001-fuzzy.patch")
        with self.assertRaises(patches.PatchError):
            self.apply()
        self.put("0001-fuzzy.patch", insertion())
        with self.assertRaisesRegex(patches.PatchError, "half patched"):
            self.apply()

    def test_missing_file_is_named(self):
        self.put("0001-gone.patch", insertion(file="gone.c"))
        self.series("0001-gone.patch")
        with self.assertRaisesRegex(patches.PatchError, "0001-gone.patch"):
            self.apply()

    def test_twice_does_nothing_other_patches_are_refused(self):
        self.put("0001-a.patch", insertion())
        self.series("0001-a.patch")
        self.apply()
        once = (self.tree / "a.c").read_text()
        self.assertEqual(self.apply(), [])
        self.assertEqual((self.tree / "a.c").read_text(), once)
        self.put("0001-a.patch", insertion(text="other"))
        with self.assertRaisesRegex(patches.PatchError, "other patches"):
            self.apply()

    def test_new_file(self):
        self.put("0001-n.patch", "--- /dev/null\n+++ b/sub/n.h\n@@ -0,0 +1,2 @@\n+one\n+two\n")
        self.series("0001-n.patch")
        self.assertEqual(self.apply(), ["sub/n.h"])
        self.assertEqual((self.tree / "sub" / "n.h").read_text(), "one\ntwo\n")

    def test_missing_patch_program(self):
        self.put("0001-a.patch", insertion())
        self.series("0001-a.patch")
        with unittest.mock.patch.dict(os.environ, {"PATH": str(self.base)}):
            with self.assertRaisesRegex(patches.PatchError, "make deps"):
                self.apply()

    def test_command(self):
        self.put("0001-a.patch", insertion())
        self.series("0001-a.patch")
        argv = ("apply", "--source", str(self.tree), "--version", "3.13.5")
        self.assertEqual(self.command(*argv)[0], 0)
        self.assertIn("nothing to do", self.command(*argv)[1])


class Series(Case):
    def test_missing_series_is_an_error(self):
        with self.assertRaisesRegex(patches.PatchError, "series is missing"):
            self.apply()
        self.assertEqual(list(self.dir.iterdir()), [])

    def test_empty_series_is_fine(self):
        self.series()
        self.assertEqual(self.apply(), [])

    def test_named_patch_missing(self):
        self.series("0001-a.patch")
        with self.assertRaisesRegex(patches.PatchError, "0001-a.patch does not exist"):
            self.apply()

    def test_listed_twice(self):
        self.put("0001-a.patch", insertion())
        self.series("0001-a.patch", "0001-a.patch")
        with self.assertRaisesRegex(patches.PatchError, "twice"):
            self.apply()

    def test_other_options_are_refused(self):
        self.put("0001-a.patch", insertion())
        self.series("0001-a.patch -p0")
        with self.assertRaisesRegex(patches.PatchError, "series:1"):
            self.apply()

    def test_variant_is_taken_for_its_version_only(self):
        self.put("0001-a.patch", insertion(text="base"))
        self.put("0001-a@3.13.15.patch", insertion(text="variant"))
        self.series("0001-a.patch")
        other = self.base / "other"
        other.mkdir()
        (other / "a.c").write_text(ORIGINAL)
        self.apply("3.13.5")
        patches.apply_series(other, self.dir, "3.13.15")
        self.assertIn("base 0", (self.tree / "a.c").read_text())
        self.assertIn("variant 0", (other / "a.c").read_text())
        self.assertNotIn("base 0", (other / "a.c").read_text())

    def test_digest_follows_what_would_be_applied(self):
        self.put("0001-a.patch", insertion(text="base"))
        self.put("0001-a@3.13.15.patch", insertion(text="variant"))
        self.series("0001-a.patch")
        five, fifteen = (patches.digest(self.dir, v) for v in ("3.13.5", "3.13.15"))
        self.put("0001-a@3.13.15.patch", insertion(text="changed"))
        self.assertEqual(patches.digest(self.dir, "3.13.5"), five)
        self.assertNotEqual(patches.digest(self.dir, "3.13.15"), fifteen)


class Stat(Case):
    def test_counts_c_and_other_files_apart(self):
        self.put("0001-a.patch", insertion(added=3) + insertion("Makefile.pre.in", added=2))
        self.series("0001-a.patch")
        code, out, err = self.command("stat")
        self.assertEqual((code, err), (0, ""))
        self.assertIn("3 C  0001-a.patch, 2 in Makefile.pre.in", out)
        self.assertIn("3 C  in all, of 500 allowed", out)

    def test_deletion_is_refused_with_its_line(self):
        self.put("0001-d.patch", DELETION)
        self.series("0001-d.patch")
        code, _, err = self.command("stat")
        self.assertEqual(code, 1)
        self.assertIn("0001-d.patch:5: deletes or rewrites a line of a.c: line 5", err)

    def test_deleted_line_that_looks_like_a_header(self):
        self.put("0001-d.patch", "--- a/a.c\n+++ b/a.c\n@@ -1,2 +1,1 @@\n--- b\n line\n")
        self.series("0001-d.patch")
        code, _, err = self.command("stat")
        self.assertEqual(code, 1)
        self.assertIn("0001-d.patch:4: deletes", err)

    def test_deletion_in_a_variant_is_refused(self):
        self.put("0001-a.patch", insertion())
        self.put("0001-a@3.13.15.patch", DELETION)
        self.series("0001-a.patch")
        code, _, err = self.command("stat")
        self.assertEqual(code, 1)
        self.assertIn("0001-a@3.13.15.patch:5", err)

    def test_renames_and_removed_files_are_refused(self):
        self.put("0001-r.patch", "rename from a.c\nrename to b.c\n")
        self.put("0002-r.patch", "--- a/a.c\n+++ /dev/null\n@@ -1,1 +0,0 @@\n-x\n")
        self.series("0001-r.patch", "0002-r.patch")
        code, _, err = self.command("stat")
        self.assertEqual(code, 1)
        self.assertIn("0001-r.patch:1: not an insertion", err)
        self.assertIn("0002-r.patch:2: not an insertion", err)

    def test_budget_over_all_patches(self):
        self.put("0001-a.patch", insertion(added=300))
        self.put("0002-b.patch", insertion("b.h", added=200))
        self.series("0001-a.patch", "0002-b.patch")
        self.assertEqual(self.command("stat")[0], 0)
        self.put("0002-b.patch", insertion("b.h", added=201))
        code, _, err = self.command("stat")
        self.assertEqual(code, 1)
        self.assertIn("1 over the budget of 500", err)

    def test_a_variant_replaces_its_base_in_the_budget(self):
        self.put("0001-a.patch", insertion(added=300))
        self.put("0001-a@3.13.15.patch", insertion(added=501))
        self.series("0001-a.patch")
        code, out, err = self.command("stat")
        self.assertEqual(code, 1)
        self.assertIn("300 C  in all, of 500", out)
        self.assertIn("501 added lines of C for 3.13.15", err)

    def test_a_patch_outside_the_series_is_named(self):
        self.put("0001-a.patch", insertion())
        self.put("0002-forgotten.patch", insertion())
        self.put("0003-gone@3.13.15.patch", insertion())
        self.series("0001-a.patch")
        code, _, err = self.command("stat")
        self.assertEqual(code, 1)
        self.assertIn("0002-forgotten.patch: not in the series", err)
        self.assertIn("0003-gone@3.13.15.patch: not in the series", err)

    def test_cut_short(self):
        self.put("0001-a.patch", "".join(insertion().splitlines(True)[:-2]))
        self.series("0001-a.patch")
        self.assertIn("cut short", self.command("stat")[2])


if __name__ == "__main__":
    unittest.main()
