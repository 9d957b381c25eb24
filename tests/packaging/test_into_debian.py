"""tools/into_debian.py: Ferrule's series in Debian's own source package of python3.13."""

import json
import subprocess
import tarfile
import tempfile
import unittest
import unittest.mock
from pathlib import Path

from tools import into_debian

RULES = "common_configure_args = \\\n\t--prefix=/usr \\\n\n# FIXME, only temporaray\n#more\n"
CONTROL = "Source: python3.13\nBuild-Depends: debhelper (>= 11),\n  quilt, autoconf,\n  lsb-release\n"


class IntoDebian(unittest.TestCase):
    def setUp(self):
        self.base = Path(self.enterContext(tempfile.TemporaryDirectory()))
        self.tree = self.base / "python3.13-3.13.5"
        debian = self.tree / "debian"
        (debian / "patches").mkdir(parents=True)
        (debian / "patches" / "series").write_text("one.diff\n")
        (debian / "rules").write_text(RULES)
        (debian / "control").write_text(CONTROL)
        (debian / "control.in").write_text(CONTROL)
        (debian / "changelog").write_text("python3.13 (3.13.5-2+deb13u5) trixie-security; urgency=high\n\n  * X.\n\n -- A <a@b.org>  date\n")
        project = self.base / "ferrule-0.9.0"
        (project / "patches" / "3.13").mkdir(parents=True)
        for name in ("0001-a.patch", "0002-b.patch", "0002-b@3.13.15.patch"):
            (project / "patches" / "3.13" / name).write_text(f"{name}\n\n--- a/{name}.txt\n+++ b/{name}.txt\n@@ -1 +1,2 @@\n old\n+new\n")
            (self.tree / f"{name}.txt").write_text("old\n")
        (project / "patches" / "3.13" / "series").write_text("0001-a.patch\n0002-b.patch\n")
        (project / "overlay" / "Lib").mkdir(parents=True)
        (project / "overlay" / "Lib" / "added.py").write_text("a = 1\nb = 2\n")
        (project / "release.json").write_text(json.dumps({"epoch": 1700000000}))
        self.release = self.base / "ferrule-0.9.0.tar.xz"
        with tarfile.open(self.release, "w:xz") as tar:
            tar.add(project, project.name)

    def test_the_series_comes_after_debians_and_the_core_is_a_component(self):
        into_debian.main(self.release, self.tree)
        debian = self.tree / "debian"
        self.assertEqual((debian / "patches" / "series").read_text().split(),
                         ["one.diff", "ferrule/0001-a.patch", "ferrule/0002-b.patch", "ferrule/overlay.patch"])
        self.assertTrue((debian / "patches" / "ferrule" / "0002-b.patch").read_text().startswith("0002-b.patch\n"))
        self.assertEqual((self.tree / "0001-a.patch.txt").read_text(), "old\n")
        self.assertTrue((self.base / "python3.13_3.13.5.orig-ferrule.tar.xz").exists())
        self.assertTrue((self.tree / "ferrule" / "overlay" / "Lib" / "added.py").exists())
        self.assertIn("FERRULE_DIR=$(CURDIR)/ferrule", (debian / "rules").read_text().partition("# FIXME")[0])
        for name in ("control", "control.in"):
            self.assertIn("  cargo (>= 1.85),\n  rustc (>= 1.85),\n  libclang-dev,\n  quilt, autoconf,\n", (debian / name).read_text())
        changelog = (debian / "changelog").read_text()
        self.assertTrue(changelog.startswith("python3.13 (3.13.5-2+deb13u5+ferrule0.9.0) trixie-security; urgency=medium\n"))
        self.assertIn("Tue, 14 Nov 2023 22:13:20 -0000", changelog)
        self.assertIn("\npython3.13 (3.13.5-2+deb13u5) ", changelog)

    def test_the_added_files_are_a_patch_that_applies(self):
        into_debian.main(self.release, self.tree)
        applied = subprocess.run(["patch", "-p1", "-F0", "--batch", "-i", self.tree / "debian/patches/ferrule/overlay.patch"],
                                 cwd=self.tree, capture_output=True, text=True)
        self.assertEqual(applied.returncode, 0, applied.stdout)
        self.assertEqual((self.tree / "Lib" / "added.py").read_text(), "a = 1\nb = 2\n")

    def test_what_is_generated_from_a_patched_file_is_a_patch_too(self):
        """`make` does not run CPython's generators: without that patch the interpreter is stock's."""
        (self.tree / "Python").mkdir()
        (self.tree / "Python" / "generated.h").write_text("before\n")

        def regenerated(tree, written):
            self.assertIn("0001-a.patch.txt", written)
            self.assertEqual((tree / "0001-a.patch.txt").read_text(), "old\nnew\n")
            self.assertFalse((tree / "debian").exists())
            (tree / "Python" / "generated.h").write_text("after\n")
            return ["Python/generated.h"]

        with unittest.mock.patch.object(into_debian, "regenerate_cases", regenerated):
            into_debian.main(self.release, self.tree)
        self.assertEqual((self.tree / "Python" / "generated.h").read_text(), "before\n")
        names = (self.tree / "debian" / "patches" / "series").read_text().split()
        self.assertEqual(names[-2:], ["ferrule/generated.patch", "ferrule/overlay.patch"])
        self.assertIn("\n-before\n+after\n", (self.tree / "debian" / "patches" / "ferrule" / "generated.patch").read_text())

    def refused(self, message):
        with self.assertRaisesRegex(into_debian.BuildError, message):
            into_debian.main(self.release, self.tree)

    def test_twice_is_refused(self):
        into_debian.main(self.release, self.tree)
        self.refused("has ferrule already: unpack the source package anew")

    def test_another_package_is_refused(self):
        (self.tree / "debian" / "changelog").write_text("python3.14 (3.14.0-1) sid; urgency=low\n")
        self.refused("is not that of python3.13")

    def test_rules_that_look_otherwise_are_refused_by_name(self):
        (self.tree / "debian" / "rules").write_text("nothing\n")
        self.refused(r"debian/rules has 0 lines that start with")
        self.assertFalse((self.tree / "ferrule").exists())

    def test_what_is_refused_leaves_the_tree_as_it_was(self):
        for spoil in (lambda: (self.tree / "debian" / "control.in").unlink(), lambda: self.release.write_bytes(b"no tarball")):
            with self.subTest():
                spoil()
                before = {path: path.read_bytes() for path in self.base.rglob("*") if path.is_file()}
                with self.assertRaises((into_debian.BuildError, OSError)):
                    into_debian.main(self.release, self.tree)
                self.assertEqual({path: path.read_bytes() for path in self.base.rglob("*") if path.is_file()}, before)
                self.assertFalse((self.tree / "ferrule").exists())
                (self.tree / "debian" / "control.in").write_text(CONTROL)

    def test_a_clean_takes_away_what_the_build_wrote(self):
        into_debian.main(self.release, self.tree)
        (self.tree / "ferrule" / ".cargo").mkdir()
        for name in ("config.toml", ".package-cache", ".global-cache"):
            (self.tree / "ferrule" / ".cargo" / name).write_text("")
        (self.tree / "ferrule" / "build" / "cargo").mkdir(parents=True)
        subprocess.run(["make", "-s", "-f", "debian/rules", "clean"], cwd=self.tree, check=True)
        self.assertEqual([path.name for path in (self.tree / "ferrule" / ".cargo").iterdir()], ["config.toml"])
        self.assertFalse((self.tree / "ferrule" / "build").exists())

    def test_another_tarball_is_refused(self):
        self.release = self.release.rename(self.base / "other-1.tar.xz")
        self.refused("is not a source release of Ferrule")
        self.assertFalse((self.tree / "ferrule").exists())
