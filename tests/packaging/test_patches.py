"""tools/patches.py: exact application, and the rule that patches only insert what is guarded."""

import contextlib
import io
import os
import tempfile
import unittest
import unittest.mock
from pathlib import Path

from tools import patches

ROOT = Path(__file__).resolve().parents[2]

ORIGINAL = "".join(f"line {n}\n" for n in range(1, 21))


def insertion(file="a.c", text="new", before=9, context=None, added=1):
    """A patch that adds lines, guarded in C, after line `before` of a file like ORIGINAL."""
    above = context or [f"line {n}" for n in range(before - 2, before + 1)]
    below = [f"line {n}" for n in range(before + 1, before + 4)]
    new = [f"+{text} {n}" for n in range(added)]
    if file.endswith((".c", ".h")):
        new = ["+#ifdef Py_RUST_CORE", *new, "+#endif"]
    body = [" " + c for c in above] + new + [" " + c for c in below]
    return (f"--- a/{file}\n+++ b/{file}\n@@ -{before - 2},6 +{before - 2},{6 + len(new)} @@\n"
            + "\n".join(body) + "\n")


def patch(*hunks, file="a.c"):
    """A patch of one file; each hunk is lines, context with a blank in front, as in a patch."""
    text = f"--- a/{file}\n+++ b/{file}\n"
    for hunk in hunks:
        lines = hunk.strip("\n").split("\n")
        old = sum(line[:1] != "+" for line in lines)
        text += f"@@ -1,{old} +1,{len(lines)} @@\n" + hunk.strip("\n") + "\n"
    return text


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

    def only(self, name, content):
        """A series of one patch."""
        self.put(name, content)
        self.series(name)

    def apply(self, version="3.13.5"):
        return patches.apply_series(self.tree, self.dir, version)

    def command(self, *argv):
        """Run the command line; return (exit code, output, error output)."""
        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            code = patches.main([*argv, "--patches", str(self.dir)])
        return code, out.getvalue(), err.getvalue()

    def refused(self, *reasons):
        code, _, err = self.command("stat")
        self.assertEqual(code, 1)
        for reason in reasons:
            self.assertIn(reason, err)

    def assert_no_litter(self):
        litter = [p for p in self.tree.rglob("*") if p.suffix in (".orig", ".rej")]
        self.assertEqual(litter, [])


class Apply(Case):
    def test_in_order(self):
        self.put("0001-a.patch", insertion(text="first"))
        second = ("--- a/a.c\n+++ b/a.c\n@@ -9,6 +9,7 @@\n line 9\n #ifdef Py_RUST_CORE\n first 0\n"
                  "+second 0\n #endif\n line 10\n line 11\n")
        self.put("0002-b.patch", second)
        self.series("# comment", "", "0001-a.patch -p1", "0002-b.patch")
        self.assertEqual(self.apply(), ["a.c"])
        self.assertIn("line 9\n#ifdef Py_RUST_CORE\nfirst 0\nsecond 0\n#endif\nline 10\n",
                      (self.tree / "a.c").read_text())
        self.assert_no_litter()

    def test_offset_is_fine_and_leaves_no_orig(self):
        (self.tree / "a.c").write_text("extra\n" * 5 + ORIGINAL)
        self.only("0001-a.patch", insertion())
        self.apply()
        self.assertIn("line 9\n#ifdef Py_RUST_CORE\nnew 0\n", (self.tree / "a.c").read_text())
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
        self.only("0001-fuzzy.patch", insertion(context=["LINE 7", "line 8", "line 9"]))
        with self.assertRaises(patches.PatchError):
            self.apply()
        self.put("0001-fuzzy.patch", insertion())
        with self.assertRaisesRegex(patches.PatchError, "half patched"):
            self.apply()

    def test_missing_file_is_named(self):
        self.only("0001-gone.patch", insertion(file="gone.c"))
        with self.assertRaisesRegex(patches.PatchError, "0001-gone.patch"):
            self.apply()

    def test_twice_does_nothing_other_patches_are_refused(self):
        self.only("0001-a.patch", insertion())
        self.apply()
        once = (self.tree / "a.c").read_text()
        self.assertEqual(self.apply(), [])
        self.assertEqual((self.tree / "a.c").read_text(), once)
        self.put("0001-a.patch", insertion(text="other"))
        with self.assertRaisesRegex(patches.PatchError, "other patches"):
            self.apply()

    def test_new_file(self):
        self.only("0001-n.patch", "--- /dev/null\n+++ b/sub/n.txt\n@@ -0,0 +1,2 @@\n+one\n+two\n")
        self.assertEqual(self.apply(), ["sub/n.txt"])
        self.assertEqual((self.tree / "sub" / "n.txt").read_text(), "one\ntwo\n")

    def test_missing_patch_program(self):
        self.only("0001-a.patch", insertion())
        with unittest.mock.patch.dict(os.environ, {"PATH": str(self.base)}):
            with self.assertRaisesRegex(patches.PatchError, "make deps"):
                self.apply()

    def test_command(self):
        self.only("0001-a.patch", insertion())
        argv = ("apply", "--source", str(self.tree), "--version", "3.13.5")
        self.assertEqual(self.command(*argv)[0], 0)
        self.assertIn("nothing to do", self.command(*argv)[1])


class ApplyGuarded(Case):
    """What comes out of a series is upstream's where there is no Rust core."""

    def refuses(self, content, original=ORIGINAL, file="a.c"):
        (self.tree / file).write_text(original)
        self.only("0001-a.patch", content)
        with self.assertRaisesRegex(patches.PatchError, f"{file}, patched, is not upstream's"):
            self.apply()
        self.assertIn(file, (self.tree / patches.FAILED_MARK).read_text())

    def test_what_would_change_stock_is_refused(self):
        for name, content, *options in (
                ("an unguarded line", patch(" line 1\n+new\n line 2")),
                ("an unguarded line of a template", patch(" line 1\n+new\n line 2", file="b.c.in"), ORIGINAL, "b.c.in"),
                ("an unguarded new file", "--- /dev/null\n+++ b/n.h\n@@ -0,0 +1 @@\n+one\n", "", "n.h"),
                ("a guard that upstream's endif closes", patch(" #if X\n+#ifdef Py_RUST_CORE\n line 2\n #endif\n+new\n+#endif\n line 3"),
                 "#if X\nline 2\n#endif\nline 3\n"),
                ("upstream's line in the core's part", patch(" line 1\n+#ifdef Py_RUST_CORE\n line 2\n+#endif\n line 3")),
                ("a guard within a macro", patch(" #define A \\\n+#ifdef Py_RUST_CORE\n+new\n+#endif\n line 2"), "#define A \\\nline 2\n"),
                ("a blank line that ends a macro", patch(" #define A \\\n+\n line 2"), "#define A \\\nline 2\n"),
                ("an elif of a guard", patch(" line 1\n+#ifdef Py_RUST_CORE\n line 2\n+#elif X\n line 3\n+#endif\n line 4")),
                ("an elif of stock's part", patch(" line 1\n+#ifndef Py_RUST_CORE\n line 2\n+#elif X\n line 3\n+#endif\n line 4")),
                ("upstream's line under a further condition",
                 patch(" line 1\n+#if !defined(Py_RUST_CORE) && X\n line 2\n+#endif\n line 3"))):
            with self.subTest(name):
                self.refuses(content, *options)
                (self.tree / patches.FAILED_MARK).unlink()

    def test_guarded_lines_among_upstreams_conditions_are_fine(self):
        (self.tree / "a.c").write_text("#if X\nline 2\n#else\nline 4\n#endif\n")
        self.put("0001-a.patch", patch(
            "+#ifndef Py_RUST_CORE\n #if X\n line 2\n #else\n+\n+#if defined(Py_RUST_CORE) && Y\n+#ifdef Z\n"
            "+new\n+#endif\n+#endif\n line 4\n #endif\n+#else\n+new\n+#endif\n"))
        self.series("0001-a.patch")
        self.apply()


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
        for words in ("-p0", "-p1 -p1", "3.13.6", "=3.13.6", "<=3.13.6", ">3.13.6", ">=", ">= 3.13.6", "<3.13.x"):
            with self.subTest(words):
                self.series(f"0001-a.patch {words}")
                with self.assertRaisesRegex(patches.PatchError, "series:1: only a patch name and releases"):
                    self.apply()

    def test_a_patch_is_taken_for_its_releases_only(self):
        self.put("0001-a.patch", insertion(text="old"))
        self.put("0001-b.patch", insertion(text="new"))
        self.put("0001-c.patch", insertion(text="newest"))
        self.put("0002-a.patch", insertion(text="all"))
        self.series("0001-a.patch <3.13.6", "0001-b.patch -p1 >=3.13.6 <3.13.15", "0001-c.patch  >=3.13.15  # no end",
                    "0002-a.patch")
        for version, letter in {"3.13.0": "a", "3.13.5": "a", "3.13.6": "b", "3.13.14": "b", "3.13.15": "c", "3.13.16": "c",
                                "3.13.100": "c", "3.13.6rc1": "b"}.items():
            with self.subTest(version):
                self.assertEqual([path.name for path in patches.selected(self.dir, version)],
                                 [f"0001-{letter}.patch", "0002-a.patch"])

    def test_what_is_for_another_release_is_not_applied(self):
        self.put("0001-a.patch", insertion(text="old"))
        self.put("0001-b.patch", insertion(text="new"))
        self.series("0001-a.patch <3.13.6", "0001-b.patch >=3.13.6")
        self.apply("3.13.15")
        self.assertIn("new 0", (self.tree / "a.c").read_text())
        self.assertNotIn("old 0", (self.tree / "a.c").read_text())

    def test_digest_follows_what_would_be_applied(self):
        self.put("0001-a.patch", insertion(text="old"))
        self.put("0001-b.patch", insertion(text="new"))
        self.series("0001-a.patch <3.13.6", "0001-b.patch >=3.13.6")
        five, fifteen = (patches.digest(self.dir, v) for v in ("3.13.5", "3.13.15"))
        self.put("0001-b.patch", insertion(text="changed"))
        self.assertEqual(patches.digest(self.dir, "3.13.5"), five)
        self.assertNotEqual(patches.digest(self.dir, "3.13.15"), fifteen)

    def test_digest_of_what_is_compiled_passes_by_files_of_python(self):
        self.put("0001-a.patch", insertion("a.c"))
        self.put("0002-b.patch", insertion("b.py"))
        self.put("0003-c.patch", insertion("c.py") + insertion("c.h"))
        self.series("0001-a.patch", "0002-b.patch", "0003-c.patch")
        whole, compiled = (patches.digest(self.dir, "3.13.5", compiled=compiled) for compiled in (False, True))
        self.put("0002-b.patch", insertion("b.py", text="changed"))
        self.assertNotEqual(patches.digest(self.dir, "3.13.5"), whole)
        self.assertEqual(patches.digest(self.dir, "3.13.5", compiled=True), compiled)
        self.put("0003-c.patch", insertion("c.py") + insertion("c.h", text="changed"))
        self.assertNotEqual(patches.digest(self.dir, "3.13.5", compiled=True), compiled)


class Stat(Case):
    def test_counts_c_and_other_files_apart(self):
        self.only("0001-a.patch", insertion(added=3) + insertion("Makefile.pre.in", added=2))
        code, out, err = self.command("stat")
        self.assertEqual((code, err), (0, ""))
        self.assertIn("5 C  0001-a.patch, 2 in Makefile.pre.in", out)
        self.assertIn(f"5 C  in all, of {patches.BUDGET} allowed", out)

    def test_deletion_is_refused_with_its_line(self):
        self.only("0001-d.patch", DELETION)
        self.refused("0001-d.patch:5: deletes or rewrites a line of a.c: line 5")

    def test_deleted_line_that_looks_like_a_header(self):
        self.only("0001-d.patch", "--- a/a.c\n+++ b/a.c\n@@ -1,2 +1,1 @@\n--- b\n line\n")
        self.refused("0001-d.patch:4: deletes")

    def test_deletion_in_a_patch_for_some_releases_is_refused(self):
        self.put("0001-a.patch", insertion())
        self.put("0001-b.patch", DELETION)
        self.series("0001-a.patch <3.13.6", "0001-b.patch >=3.13.6")
        self.refused("0001-b.patch:5")

    def test_a_hunk_without_context_is_refused_but_of_a_new_file(self):
        self.only("0001-d.patch", "--- a/a.txt\n+++ b/a.txt\n@@ -7,0 +8,1 @@ where\n+new\n")
        self.refused("0001-d.patch:3: a hunk without context")
        self.only("0001-d.patch", "--- /dev/null\n+++ b/new.txt\n@@ -0,0 +1,1 @@\n+new\n")
        self.assertEqual(self.command("stat")[0], 0)

    def test_renames_and_removed_files_are_refused(self):
        self.put("0001-r.patch", "rename from a.c\nrename to b.c\n")
        self.put("0002-r.patch", "--- a/a.c\n+++ /dev/null\n@@ -1,1 +0,0 @@\n-x\n")
        self.series("0001-r.patch", "0002-r.patch")
        self.refused("0001-r.patch:1: not an insertion", "0002-r.patch:2: not an insertion")

    def test_budget_over_all_patches(self):
        left = patches.BUDGET - 400
        self.put("0001-a.patch", insertion(added=398))
        self.put("0002-b.patch", insertion("b.h", added=left - 2))
        self.series("0001-a.patch", "0002-b.patch")
        self.assertEqual(self.command("stat")[0], 0)
        self.put("0002-b.patch", insertion("b.h", added=left - 1))
        self.refused(f"1 over the budget of {patches.BUDGET}")

    def test_the_budget_holds_for_each_release(self):
        self.put("0001-a.patch", insertion(added=98))
        self.put("0002-a.patch", insertion(added=198))
        self.put("0002-b.patch", insertion(added=patches.BUDGET - 101))
        self.series("0001-a.patch", "0002-a.patch <3.13.6", "0002-b.patch >=3.13.6 <3.13.15")
        code, out, err = self.command("stat")
        self.assertEqual(code, 1)
        self.assertIn(f"300 C  in all before 3.13.6, of {patches.BUDGET}", out)
        self.assertIn(f"{patches.BUDGET + 1} added lines of C from 3.13.6 on, 1 over", err)
        self.assertIn("100 C  in all from 3.13.15 on", out)

    def test_a_patch_outside_the_series_is_named(self):
        self.put("0001-a.patch", insertion())
        self.put("0002-forgotten.patch", insertion())
        self.series("0001-a.patch")
        self.refused("0002-forgotten.patch: not in the series")

    def complaints(self, content):
        self.only("0001-a.patch", content)
        code, _, err = self.command("stat")
        self.assertEqual(code, 1 if err else 0)
        return err.replace(f"error: {self.dir}/0001-a.patch:", "")

    def test_guarded_lines_are_fine(self):
        for name, hunks in {
                "core": [" a\n+#ifdef Py_RUST_CORE\n+new\n+#endif\n b"],
                "public": [" a\n+#ifdef Py_FERRULE  // and only there\n+new\n+#endif\n b"],
                "stock": [" a\n+#ifndef Py_RUST_CORE\n b\n+#endif\n c"],
                "both": [" a\n+#ifdef Py_RUST_CORE\n+new\n+#else\n b\n+#endif\n c"],
                "stock first": [" a\n+#ifndef Py_RUST_CORE\n b\n+#else\n+new\n+#endif\n c"],
                "core and more": [" a\n+  #  if defined(Py_RUST_CORE) && defined(X)\n+new\n+#else\n b\n+#endif\n"],
                "stock or more": [" a\n+#if !defined Py_RUST_CORE || X\n b\n+#else\n+new\n+#endif\n c"],
                "conditions within": [" a\n+#ifdef Py_RUST_CORE\n+#if X\n+new\n+#elif Y\n+new\n+#else\n+new\n"
                                      "+#endif\n+#endif\n b"],
                "upstream's conditions": [" #if X\n+#ifdef Py_RUST_CORE\n+new\n+#else\n #if Y\n a\n #endif\n"
                                          "+#endif\n #else\n+#ifdef Py_RUST_CORE\n+new\n+#endif\n #endif\n b"],
                "another patch's guard": [" #ifdef Py_RUST_CORE\n first\n+new\n #endif\n a"],
                "two hunks": [" a\n+#ifndef Py_RUST_CORE\n b", " c\n #endif\n+#else\n+new\n+#endif\n d"],
                "blank lines": [" a\n+#ifdef Py_RUST_CORE\n+new\n+#endif\n+\n b"]}.items():
            with self.subTest(name):
                self.assertEqual(self.complaints(patch(*hunks)), "")

    def written(self, *lines):
        """What is said of added lines of C, guarded."""
        return self.complaints(patch(" a\n+#ifdef Py_RUST_CORE\n" + "".join(f"+{line}\n" for line in lines) + "+#endif\n b"))

    def test_c_as_pep_7_wants_it_is_fine(self):
        for lines in (["x" * 79], ["if (a) {", "    b;", "}", "else if (c(d)) {", "    e;", "}", "else {", "}"],
                      ["for (;;) {", "}"], ["#define A(B) \\", "    do { \\", "        B; \\", "    } while (0)"],
                      ["if (a", "    && b)", "{", "}"], ["// if (a) b;"], ["/* while (a)", "   do b; */"],
                      ['x = "if (a) b;";'], ["#if defined(A) && B", "#endif"], ["#define IF_A if (a) { \\", "    b; }"],
                      ["switch (a) {", "}"], ["elsewhere(a);"], ["else if (a", "         && b"]):
            with self.subTest(lines):
                self.assertEqual(self.written(*lines), "")

    def test_long_lines_and_tabs_are_refused(self):
        self.assertEqual(self.written("ok", "x" * 80), "7: a.c: 80 columns, 1 too many\n")
        self.assertEqual(self.written("\ta"), "6: a.c: has a tab\n")

    def test_a_branch_without_braces_is_refused(self):
        for lines, line in {("if (a) b;",): "6: a.c: `if`", ("ok;", "if (a(b, c)", "    && d)", "    e;"): "7: a.c: `if`",
                            ("for (;;)", "    a;"): "6: a.c: `for`", ("while (a);",): "6: a.c: `while`",
                            ("if (a) {", "}", "else b;"): "8: a.c: `else`", ("#define A if (a) b",): "6: a.c: `if`",
                            ("#define A \\", "    if (a) \\", "        b"): "7: a.c: `if`", ("do a; ", "while (b);"): "6: a.c: `do`",
                            ("if (a) // {", "    b;"): "6: a.c: `if`"}.items():
            with self.subTest(lines):
                self.assertIn(f"{line} without braces\n", self.written(*lines))

    def test_what_is_no_c_needs_no_guard(self):
        self.assertEqual(self.complaints(patch(" a\n+new\n b", file="configure.ac")), "")

    def test_each_line_that_is_not_guarded_is_named(self):
        cases = {f"in {file}": (patch(" a\n+new();\n b", file=file), f"5: {file}: compiled where there is no Rust core: new();")
                 for file in ("a.c", "Include/a.h", "a.c.in")}
        cases |= {f"under {condition}": (patch(f" a\n+#{condition}\n+new\n+#endif\n b"), "6: a.c: compiled")
                  for condition in ("if X", "ifdef X", "ifndef X", "if defined(Py_RUST_CORE) || X", "if 1 || Py_RUST_CORE",
                                    "if defined(Py_RUST_CORE) && X || Y", "if defined(Py_RUST_CORE) && X \\")}
        cases |= {f"under {condition}": (patch(f" a\n+#{condition}\n b\n+#endif\n c"), "5: a.c: compiled")
                  for condition in ("if !defined(Py_RUST_CORE) && X", "if X || !defined(Py_RUST_CORE)",
                                    "if !defined(Py_RUST_CORE) || X ? Y : Z", "if !defined(Py_RUST_CORE) || X \\")}
        cases |= {f"a guard with an {word}": (patch(f" a\n+#ifdef Py_RUST_CORE\n+new\n+#{word} X\n b\n+#endif\n c"),
                                             "7: a.c: a guard has no #elif") for word in ("elif", "elifdef", "elifndef")}
        cases |= {
            "after its guard": (patch(" a\n+#ifdef Py_RUST_CORE\n+new\n+#endif\n+new\n b"), "8: a.c: compiled"),
            "in the stock part": (patch(" a\n+#ifdef Py_RUST_CORE\n+new\n+#else\n+new\n b\n+#endif\n c"), "8: a.c: compiled"),
            "in a stock part alone": (patch(" a\n+#ifndef Py_RUST_CORE\n+new\n b\n+#endif\n c"), "6: a.c: compiled"),
            "in a guard that nothing closes": (patch(" a\n+#ifdef Py_RUST_CORE\n+new\n b"), "5: a.c: is never closed"),
            "in a guard that another file closes": (
                patch(" a\n+#ifdef Py_RUST_CORE\n+new\n b") + patch(" a\n+#endif\n b", file="b.c"),
                "5: a.c: is never closed", "12: b.c: #endif belongs to no #if of this patch"),
            "in a guard across upstream's endif": (patch(" #if X\n a\n+#ifdef Py_RUST_CORE\n #endif\n+new\n+#endif\n b"),
                                                   "6: a.c: is open where upstream has an #endif"),
            "in an else of upstream's condition": (patch(" #if X\n a\n+#else\n+new\n #endif\n b"),
                                                   "6: a.c: #else belongs to no #if of this patch"),
            "in a guard within a macro": (patch(" #define A \\\n+#ifdef Py_RUST_CORE\n+new\n+#endif\n a"), "5: a.c: compiled"),
            "a blank one within a macro": (patch(" #define A \\\n+\n a"), "5: a.c: compiled"),
            "in a guard of another hunk": (patch(" #ifdef Py_RUST_CORE\n+new\n first", " second\n+new\n third"), "9: a.c: compiled"),
        }
        for name, (content, *reasons) in cases.items():
            with self.subTest(name):
                said = self.complaints(content)
                for reason in reasons:
                    self.assertIn(reason, said)

    def test_each_of_several_is_named(self):
        self.assertEqual([line.split(":")[0] for line in self.complaints(
            patch(" a\n+one\n+\n+two\n b", " c\n+three\n d")).splitlines()], ["5", "7", "11"])
        # And nothing else is.
        self.assertEqual(self.complaints(patch(" a\n+#ifdef Py_RUST_CORE\n+new\n b")), "5: a.c: is never closed\n")
        self.assertEqual(self.complaints(patch(" a\n+new();\n b")), "5: a.c: compiled where there is no Rust core: new();\n")

    def test_the_projects_own_patches_pass(self):
        out = []
        for directory in patches.all_series():
            self.assertEqual(patches.stat(directory, patches.BUDGET, out.append), [])
        self.assertIn("added lines", out[0])

    def test_cut_short(self):
        self.only("0001-a.patch", "".join(insertion().splitlines(True)[:-2]))
        self.assertIn("cut short", self.command("stat")[2])
