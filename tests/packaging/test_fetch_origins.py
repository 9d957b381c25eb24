"""cpython/fetch.py: every origin of a release but Debian's archive, and every way to fail."""

import fcntl
import os
import shutil
import subprocess
import sys
import tarfile
import unittest
from pathlib import Path

from cpython.upstream import cache, choosing
from cpython.upstream import files as upstream_files
from cpython.upstream.pins import Pins as UpstreamPins
from fetching import OLD, REVISION, ROOT, SOURCE, Case, digest, patch_text, tarball


class PythonOrg(Case):
    def test_fetches_unpacks_and_says_what(self):
        self.serve()
        current = self.works()
        self.assertEqual(
            {k: current[k] for k in ("version", "origin", "debian_revision", "fixes",
                                     "tarball_sha256")},
            {"version": "3.13.15", "origin": "python.org", "debian_revision": None,
             "fixes": [], "tarball_sha256": digest(self.data["3.13.15"])})
        self.assertEqual((self.tree() / "sub" / "c.h").read_text(), SOURCE)
        self.assertEqual((self.tree() / "a.c").stat().st_mtime, OLD)
        self.assertIn("CPython 3.13.15", self.out)
        self.assert_no_litter()

    def test_again_does_nothing_even_without_cache_and_network(self):
        self.serve()
        self.works()
        inode = self.tree().stat().st_ino
        shutil.rmtree(self.cache)
        self.server.files.clear()
        self.works()
        self.assertEqual(self.tree().stat().st_ino, inode)
        self.assertEqual(len(self.server.asked), 1)
        self.assertEqual(self.out.count("\n"), 1)
        self.assertIn("up to date", self.out)

    def test_cache_serves_another_clone(self):
        self.serve()
        self.works()
        self.server.files.clear()
        self.dest = self.base / "other"
        self.works()
        self.assertEqual(len(self.server.asked), 1)

    def test_wrong_file_is_an_error_and_is_not_kept(self):
        self.serve(data=b"something else")
        self.assertEqual(self.run_it(), 1)
        self.assertIn(f"expected {digest(self.data['3.13.15'])}", self.err)
        self.assertIn(f"found    {digest(b'something else')}", self.err)
        self.assertFalse((self.dest / "current.json").exists())
        self.serve()
        self.works()

    def test_interrupted_download_then_recovers(self):
        self.serve()
        self.server.cut = 100
        self.assertEqual(self.run_it(), 3)
        self.assertIn("interrupted after 100 of", self.err)
        self.assert_no_litter()
        self.server.cut = None
        self.works()

    def test_damaged_cache_is_got_again(self):
        name = self.serve()
        self.works()
        shutil.rmtree(self.dest)
        (self.cache / name).write_bytes(self.data["3.13.15"][:50])
        self.works()
        self.assertIn("damaged", self.err)
        self.assertEqual(len(self.server.asked), 2)

    def test_vulnerable_release_only_with_a_warning(self):
        self.serve("3.13.5")
        current = self.works(CPYTHON_VERSION="3.13.5")
        self.assertEqual((current["origin"], current["fixes"]), ("python.org", []))
        self.assertIn("known vulnerabilities", self.err)
        self.works("--version", "3.13.5")
        self.assertIn("known vulnerabilities", self.err)

    def test_unknown_version(self):
        self.assertEqual(self.run_it(CPYTHON_VERSION="3.12.0"), 1)
        self.assertIn("3.13.15, 3.13.5", self.err)


class NoNetwork(Case):
    def test_names_the_file_and_its_hash(self):
        self.assertEqual(self.run_it(), 3)
        for part in ("Python-3.13.15.tar.xz", digest(self.data["3.13.15"]),
                     "CPYTHON_TARBALL=", "404", "apt-config is not on this machine"):
            self.assertIn(part, self.err)

    def test_names_the_requested_version(self):
        self.assertEqual(self.run_it(CPYTHON_VERSION="3.13.5"), 3)
        self.assertIn(digest(self.data["3.13.5"]), self.err)
        self.assertNotIn("3.13.15", self.err)

    def test_file_put_into_the_cache_by_hand(self):
        self.cache.mkdir()
        (self.cache / "Python-3.13.15.tar.xz").write_bytes(self.data["3.13.15"])
        self.assertEqual(self.works()["version"], "3.13.15")


class DebiansPackaging(Case):
    """A release and Debian's packaging of it, given as files or unpacked, as a source package has them."""

    def setUp(self):
        super().setUp()
        self.changelog = f"python3.13 ({REVISION}) trixie-security; urgency=medium\n"
        self.files = {"debian/patches/series": "#off.diff\nCVE-1.patch\n\nother.patch # why\n",
                      "debian/patches/CVE-1.patch": patch_text("a.c", 3, "fix one"),
                      "debian/patches/other.patch": patch_text("a.c", 9, "debian's own")}

    def given(self, unpacked=True):
        files = {**self.files, "debian/changelog": self.changelog}
        source, packaging = self.base / "given.tar.xz", self.base / "debian.tar.xz"
        source.write_bytes(self.data["3.13.5"])
        packaging.write_bytes(tarball(files))
        if unpacked:
            for path in (source, packaging):
                with tarfile.open(path) as tar:
                    tar.extractall(self.base / "unpacked", filter="data")
            source, packaging = self.base / "unpacked" / "Python-3.13.5", self.base / "unpacked" / "debian"
            self.write_config()
            self.config.write_text(self.config.read_text().replace(
                f'sha256 = "{digest(self.data["3.13.5"])}"\n',
                f'sha256 = "{digest(self.data["3.13.5"])}"\ntree_sha256 = "{upstream_files.digest(source)}"\n'))
        return {"CPYTHON_TARBALL": str(source), "CPYTHON_DEBIAN": str(packaging)}

    def test_its_fixes_are_applied_or_all_of_its_series(self):
        for unpacked in (False, True):
            given = self.given(unpacked)
            current = self.works(**given)
            self.assertEqual((current["debian_revision"], current["fixes"], current["series"]),
                             (REVISION, ["CVE-1.patch"], "fixes"))
            self.assertNotIn("vulnerabilities", self.err)
            current = self.works(**given, CPYTHON_SERIES="debian")
            self.assertEqual((current["fixes"], current["series"]), (["CVE-1.patch", "other.patch"], "debian"))
            self.assertIn("debian's own", (self.tree() / "a.c").read_text())
            self.works(**given, CPYTHON_SERIES="debian")
            self.assertIn("up to date", self.out)
            self.files["debian/patches/CVE-1.patch"] = patch_text("a.c", 3, "a newer one")
            self.works(**self.given(unpacked), CPYTHON_SERIES="debian")
            self.assertIn("a newer one", (self.tree() / "a.c").read_text())

    def test_the_whole_series_of_debians_archive(self):
        self.with_apt()
        current = self.works(CPYTHON_VERSION="3.13.5", CPYTHON_SERIES="debian")
        self.assertEqual(current["fixes"], ["CVE-1.patch", "other.patch", "crash.patch"])
        self.assertEqual(self.works(CPYTHON_VERSION="3.13.5")["fixes"], ["CVE-1.patch", "crash.patch"])

    def test_a_directory_that_is_not_what_was_unpacked_is_refused(self):
        given = self.given()
        for change in (lambda tree: (tree / "a.c").write_text("other"), lambda tree: (tree / "sub" / "c.h").unlink(),
                       lambda tree: (tree / "new").write_text("")):
            changed = self.base / "changed"
            shutil.rmtree(changed, ignore_errors=True)
            shutil.copytree(given["CPYTHON_TARBALL"], changed)
            change(changed)
            self.assertEqual(self.run_it(CPYTHON_TARBALL=str(changed)), 1)
            self.assertIn(f"expected {upstream_files.digest(Path(given['CPYTHON_TARBALL']))}", self.err)
            self.assertIn("not what was unpacked", self.err)

    def test_the_packaging_of_another_release_or_none_is_refused(self):
        self.changelog = "python3.13 (3.13.9-1) unstable; urgency=low\n"
        self.assertEqual(self.run_it(**self.given()), 1)
        self.assertIn("begins with 'python3.13 (3.13.9-1) unstable; urgency=low'", self.err)
        given = self.given(unpacked=False)
        for path in (self.base / "none", given["CPYTHON_TARBALL"]):
            self.assertEqual(self.run_it(**{**given, "CPYTHON_DEBIAN": str(path)}), 1)
            self.assertIn("is not Debian's packaging of python3.13", self.err)

    def test_what_makes_no_sense_says_so(self):
        self.assertEqual(self.run_it(CPYTHON_DEBIAN="/x"), 1)
        self.assertIn("CPYTHON_DEBIAN= goes with CPYTHON_TARBALL=", self.err)
        self.assertEqual(self.run_it(CPYTHON_SERIES="all"), 1)
        self.assertIn("CPYTHON_SERIES is 'all'; it is one of fixes, debian", self.err)


class SourceRelease(Case):
    def test_the_files_that_came_with_it_are_the_cache(self):
        self.assertEqual(cache.default_cache({"XDG_CACHE_HOME": "/c"}, self.base), Path("/c/ferrule"))
        (self.base / "sources").mkdir()
        self.assertEqual(cache.default_cache({"XDG_CACHE_HOME": "/c"}, self.base), self.base / "sources")
        self.assertEqual(cache.default_cache({"FERRULE_CACHE": "/given"}, self.base), Path("/given"))


class UserTarball(Case):
    def given(self, data):
        path = self.base / "whatever.tar.xz"
        path.write_bytes(data)
        return str(path)

    def test_is_recognised_by_its_hash(self):
        current = self.works(CPYTHON_TARBALL=self.given(self.data["3.13.15"]))
        self.assertEqual((current["version"], current["origin"]), ("3.13.15", "user"))
        self.assertNotIn("vulnerabilities", self.err)
        self.works(CPYTHON_TARBALL=self.given(self.data["3.13.15"]))
        self.assertIn("up to date", self.out)

    def test_vulnerable_one_warns(self):
        self.works(CPYTHON_TARBALL=self.given(self.data["3.13.5"]))
        self.assertIn("known vulnerabilities", self.err)

    def test_truncated_or_other_file(self):
        cut = self.data["3.13.5"][:-10]
        self.assertEqual(self.run_it(CPYTHON_TARBALL=self.given(cut)), 1)
        for part in (digest(self.data["3.13.5"]), digest(self.data["3.13.15"]), digest(cut)):
            self.assertIn(part, self.err)

    def test_not_the_requested_version(self):
        given = self.given(self.data["3.13.5"])
        self.assertEqual(self.run_it(CPYTHON_TARBALL=given, CPYTHON_VERSION="3.13.15"), 1)
        self.assertIn(f"expected {digest(self.data['3.13.15'])}", self.err)

    def test_the_tree_outlives_the_file(self):
        given = self.given(self.data["3.13.15"])
        self.works(CPYTHON_TARBALL=given)
        Path(given).unlink()
        self.works(CPYTHON_TARBALL=given)
        self.assertIn("up to date", self.out)
        self.series(own=patch_text("a.c", 6, "own"))
        self.assertEqual(self.run_it(CPYTHON_TARBALL=given), 1)

    def test_missing_file(self):
        self.assertEqual(self.run_it(CPYTHON_TARBALL=str(self.base / "none")), 1)
        self.assertIn("No such file", self.err)


class TwoRuns(Case):
    def start(self):
        return subprocess.Popen(
            [sys.executable, "-m", "cpython.fetch", "--dest", str(self.dest), "--config",
             str(self.config), "--patches", str(self.patches), "--overlay", str(self.overlay)],
            text=True, cwd=ROOT,
            env={**os.environ, "FERRULE_CACHE": str(self.cache)},
            stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    def test_the_second_waits_and_finds_all_done(self):
        self.serve()
        self.dest.mkdir()
        with (self.dest / ".lock").open("w") as held:
            fcntl.flock(held, fcntl.LOCK_EX)
            runs = [self.start(), self.start()]
            for run in runs:
                self.assertIn("waiting", run.stderr.readline())
        said = [run.communicate(timeout=60)[0] for run in runs]
        self.assertEqual([run.returncode for run in runs], [0, 0])
        self.assertEqual(sum("up to date" in text for text in said), 1)
        self.assertEqual(len(self.server.asked), 1)
        self.assert_no_litter()


class Pins(unittest.TestCase):
    def test_the_committed_pins_hold_together(self):
        pins = UpstreamPins(ROOT / "cpython" / "upstream.toml")
        for version, release in pins.releases.items():
            self.assertRegex(release["sha256"], "^[0-9a-f]{64}$")
            self.assertTrue(release["url"].endswith(f"/{version}/{release['file']}"))
            self.assertTrue(set(release["origins"]) <= set(choosing.ORIGINS))
        # What is built and tested with every change.
        self.assertEqual(pins.default[0], ("3.13.5", "debian"))
        for version, origin in pins.default:
            # A release with known holes has to be requested.
            self.assertTrue(origin == "debian" or not pins.releases[version]["debian_fixes"])
