"""cpython/fetch.py: the tree that is made of a release, the patches and the overlay."""

import errno
import io
import json
import os
import shutil
import tarfile
from pathlib import Path
from unittest import mock

from cpython import fetch
from cpython.upstream import cases, tree
from fetching import OLD, SOURCE, Case, patch_text


class Tree(Case):
    def setUp(self):
        super().setUp()
        self.serve()

    def test_changed_patches_make_the_tree_anew_without_the_network(self):
        self.series(one=patch_text("a.c", 3, "first"), two=patch_text("b.c", 3, "kept"))
        before = self.works()
        times = {n: (self.tree() / n).stat().st_mtime_ns for n in ("a.c", "b.c", "README")}
        self.series(one=patch_text("a.c", 3, "second"), two=patch_text("b.c", 3, "kept"))
        after = self.works()
        self.assertIn("second", (self.tree() / "a.c").read_text())
        self.assertNotIn("first", (self.tree() / "a.c").read_text())
        self.assertNotEqual(before["patches_sha256"], after["patches_sha256"])
        self.assertEqual(len(self.server.asked), 1)
        now = {n: (self.tree() / n).stat().st_mtime_ns for n in times}
        self.assertGreater(now["a.c"], times["a.c"])
        self.assertEqual((now["b.c"], now["README"]), (times["b.c"], times["README"]))
        self.assertEqual(now["README"], OLD * 10**9)

    def test_a_file_no_longer_patched_is_newer_too(self):
        self.series(one=patch_text("a.c", 3, "first"))
        self.works()
        patched = (self.tree() / "a.c").stat().st_mtime_ns
        self.series()
        self.works()
        self.assertEqual((self.tree() / "a.c").read_text(), SOURCE)
        self.assertGreaterEqual((self.tree() / "a.c").stat().st_mtime_ns, patched)

    def test_a_patch_that_fails_leaves_the_good_tree(self):
        self.works()
        good = self.tree()
        self.series(bad=patch_text("a.c", 3, "x").replace(" line 4", " LINE 4"))
        self.assertEqual(self.run_it(), 1)
        self.assertIn("bad.patch does not apply: a.c: Hunk #1 FAILED", self.err)
        self.assertEqual((good / "a.c").read_text(), SOURCE)
        failed = self.dest / "3.13.15-python.org.failed"
        self.assertTrue((failed / "Python-3.13.15" / fetch.patches.FAILED_MARK).exists())
        self.series()
        self.works()
        self.assertIn("up to date", self.out)

    def test_missing_series_is_an_error_and_is_not_made(self):
        (self.patches / "series").unlink()
        self.assertEqual(self.run_it(), 1)
        self.assertIn("series is missing", self.err)
        self.assertFalse((self.patches / "series").exists())

    def test_interrupted_unpack_recovers(self):
        with mock.patch.object(tree, "unpack", side_effect=KeyboardInterrupt):
            self.assertEqual(self.run_it(), 130)
        self.assertFalse((self.dest / "current.json").exists())
        self.assert_no_litter()
        self.works()

    def test_what_a_killed_run_left_is_removed(self):
        for place in (self.dest, self.cache):
            (place / ".tmp-killed" / "half").mkdir(parents=True)
        self.works()
        self.assert_no_litter()

    def test_a_tree_that_was_being_swapped_is_made_again(self):
        self.works()
        shutil.rmtree(self.dest / "3.13.15-python.org")
        self.works()
        self.assertTrue((self.tree() / "a.c").exists())

    def test_a_half_written_stamp_counts_as_none(self):
        self.works()
        (self.dest / "3.13.15-python.org" / "stamp.json").write_text('{"version": ')
        self.works()
        self.assertNotIn("up to date", self.out)

    def test_full_disk_while_unpacking(self):
        full = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "a.c")
        with mock.patch.object(tarfile.TarFile, "extract", side_effect=full):
            self.assertEqual(self.run_it(), 1)
        self.assertIn("no space left", self.err)
        self.assert_no_litter()
        self.works()

    def test_full_disk_while_downloading(self):
        class Full(io.BytesIO):
            def write(self, _):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

        real = Path.open

        def opener(path, mode="r", *more, **named):
            return Full() if mode == "wb" else real(path, mode, *more, **named)

        with mock.patch.object(fetch.Path, "open", opener):
            self.assertEqual(self.run_it(), 1)
        self.assertIn("no space left", self.err)
        self.assert_no_litter()
        self.works()

    def test_unwritable_cache_says_what_to_set(self):
        denied = PermissionError(errno.EACCES, "Permission denied", str(self.cache))
        with mock.patch.object(fetch.Path, "mkdir", side_effect=denied):
            self.assertEqual(self.run_it(), 1)
        self.assertIn("FERRULE_CACHE=", self.err)

    def test_paths_that_lead_out_are_refused(self):
        self.serve_release({"../../evil": "x"})
        self.assertEqual(self.run_it(), 1)
        self.assertIn("unexpected path", self.err)
        self.assertEqual(list(self.base.rglob("evil")), [])

    def test_configure_is_made_again_and_is_newer(self):
        self.serve_release({"configure.ac": SOURCE, "aclocal.m4": "", "configure": "old\n", "a.c": SOURCE})
        (self.bin / "autoconf").write_text("#!/bin/sh\ncat configure.ac >configure\n"
                                           "echo ran >>\"$FAKE_APT-runs\"\n")
        (self.bin / "autoconf").chmod(0o755)
        self.series(one=patch_text("configure.ac", 3, "new"))
        self.works()
        made, source = self.tree() / "configure", self.tree() / "configure.ac"
        self.assertIn("new", made.read_text())
        self.assertGreater(made.stat().st_mtime_ns, source.stat().st_mtime_ns)
        before = made.stat().st_mtime_ns
        self.series(one=patch_text("configure.ac", 3, "new"), two=patch_text("a.c", 3, "x"))
        self.works()
        made = self.tree() / "configure"
        self.assertEqual(made.stat().st_mtime_ns, before)
        self.assertIn("new", made.read_text())
        self.assertEqual(Path(f"{self.apt}-runs").read_text(), "ran\n")

    def test_autoconf_missing(self):
        self.serve_release({"configure.ac": SOURCE, "configure": "old"})
        self.series(one=patch_text("configure.ac", 3, "new"))
        self.assertEqual(self.run_it(), 1)
        self.assertIn("make deps", self.err)

    def serve_generators(self, generator_source):
        """A release with instruction definitions, and these generators; each output says 'shipped'."""
        files = dict.fromkeys(("a.c", cases.BYTECODES, cases.OPTIMIZER_BYTECODES), SOURCE)
        for generator, output, _ in cases.GENERATED_CASES:
            files |= {f"Tools/cases_generator/{generator}": generator_source, output: "shipped\n"}
        self.serve_release(files)

    def generated(self):
        return {output: (self.tree() / output).read_text() for _, output, _ in cases.GENERATED_CASES}

    GENERATOR = ("import sys\n_, option, output, *inputs = sys.argv\nassert option == '-o'\n"
                 "text = ''.join(open(name).read() for name in inputs)\n"
                 "new = '#ifdef Py_RUST_CORE\\nnew\\n#endif\\n' if 'new' in text else ''\n"
                 "open(output, 'w').write('shipped\\n' + new)\n")

    def test_cases_are_generated_from_patched_definitions(self):
        self.serve_generators(self.GENERATOR)
        self.series(one=patch_text(cases.BYTECODES, 3, "new"))
        self.works()
        self.assertEqual(set(self.generated().values()), {"shipped\n#ifdef Py_RUST_CORE\nnew\n#endif\n"})
        stamp = json.loads((self.tree().parent / "stamp.json").read_text())
        self.assertLessEqual(set(self.generated()), set(stamp["written"]))
        self.assertEqual(list(self.tree().rglob("__pycache__")), [])

    def test_what_the_generators_leave_as_it_was_keeps_its_time(self):
        self.serve_generators(self.GENERATOR)
        self.series(one=patch_text(cases.OPTIMIZER_BYTECODES, 3, "other"))
        self.works()
        self.assertEqual(set(self.generated().values()), {"shipped\n"})
        stamp = json.loads((self.tree().parent / "stamp.json").read_text())
        self.assertEqual(stamp["written"], [cases.OPTIMIZER_BYTECODES])

    def test_what_is_generated_must_be_upstreams_without_the_core(self):
        self.serve_generators(self.GENERATOR.replace("#ifdef Py_RUST_CORE", "#ifdef NDEBUG"))
        self.series(one=patch_text(cases.BYTECODES, 3, "new"))
        self.assertEqual(self.run_it(), 1)
        self.assertIn("Include/opcode_ids.h, generated anew, is not upstream's", self.err)
        self.assert_no_litter()

    def test_generators_are_left_alone_without_need(self):
        self.serve_generators("raise SystemExit('not to be run')\n")
        self.series(one=patch_text("a.c", 3, "new"))
        self.works()
        self.assertEqual(set(self.generated().values()), {"shipped\n"})

    def test_a_generator_that_fails_stops_the_run(self):
        self.serve_generators("raise SystemExit('line 3 is no instruction')\n")
        self.series(one=patch_text(cases.BYTECODES, 3, "new"))
        self.assertEqual(self.run_it(), 1)
        self.assertIn("line 3 is no instruction", self.err)
        self.assert_no_litter()


class Overlay(Case):
    def setUp(self):
        super().setUp()
        self.serve()

    def time_of(self, name):
        return (self.tree() / name).stat().st_mtime_ns

    def test_files_are_added_as_they_are(self):
        self.add("new.h", "one\n")
        self.add("sub/deep/er/new.py", "two\n")
        self.add("sub/__pycache__/new.pyc", "made by an import of the module here\n")
        self.works()
        self.assertEqual((self.tree() / "new.h").read_text(), "one\n")
        self.assertEqual((self.tree() / "sub" / "deep" / "er" / "new.py").read_text(), "two\n")
        self.assertFalse((self.tree() / "sub" / "__pycache__").exists())
        self.works()
        self.assertIn("up to date", self.out)

    def test_a_file_that_is_there_is_not_replaced(self):
        for name in ("a.c", "sub", "README/new.py"):
            with self.subTest(name):
                shutil.rmtree(self.overlay)
                self.add(name, "ours\n")
                self.assertEqual(self.run_it(), 1)
                self.assertIn(f"{self.overlay / name} cannot be added: CPython has a "
                              f"{name.split('/')[0]} of its own", self.err)
                self.assertFalse((self.dest / "current.json").exists())
                self.assert_no_litter()

    def test_a_file_that_a_patch_makes_is_not_replaced(self):
        self.series(one="--- /dev/null\n+++ b/made.h\n@@ -0,0 +1 @@\n+\n")
        self.add("made.h", "ours\n")
        self.assertEqual(self.run_it(), 1)
        self.assertIn("CPython has a made.h of its own", self.err)

    def test_a_refused_overlay_leaves_the_good_tree(self):
        self.add("new.h", "one\n")
        self.works()
        good = self.tree()
        self.add("a.c", "ours\n")
        self.assertEqual(self.run_it(), 1)
        self.assertEqual((good / "a.c").read_text(), SOURCE)
        self.assertEqual((good / "new.h").read_text(), "one\n")
        (self.overlay / "a.c").unlink()
        self.works()
        self.assertIn("up to date", self.out)

    def test_only_what_changed_is_newer(self):
        self.series(one=patch_text("a.c", 3, "patched"))
        self.add("changes.h", "one\n")
        self.add("stays.h", "one\n")
        self.works()
        names = ("changes.h", "stays.h", "a.c", "b.c")
        before = {name: self.time_of(name) for name in names}
        self.add("changes.h", "two\n")
        os.utime(self.overlay / "stays.h")
        self.works()
        self.assertNotIn("up to date", self.out)
        self.assertEqual(len(self.server.asked), 1)
        self.assertEqual((self.tree() / "changes.h").read_text(), "two\n")
        self.assertGreater(self.time_of("changes.h"), before["changes.h"])
        self.assertEqual({name: self.time_of(name) for name in names[1:]},
                         {name: before[name] for name in names[1:]})

    def test_a_file_renamed_or_taken_away(self):
        self.add("new.h", "one\n")
        self.works()
        (self.overlay / "new.h").rename(self.overlay / "other.h")
        self.works()
        self.assertFalse((self.tree() / "new.h").exists())
        self.assertEqual((self.tree() / "other.h").read_text(), "one\n")
        (self.overlay / "other.h").unlink()
        self.works()
        self.assertFalse((self.tree() / "other.h").exists())

    def test_a_missing_overlay_is_an_error(self):
        self.overlay.rmdir()
        self.assertEqual(self.run_it(), 1)
        self.assertIn("overlay is missing", self.err)
