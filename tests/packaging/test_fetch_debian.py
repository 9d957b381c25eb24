"""cpython/fetch.py: Debian's archive, by way of apt."""

import os
import shutil
import unittest

from cpython.upstream import debian
from fetching import REVISION, Case, digest, patch_text


class Debian(Case):
    def setUp(self):
        super().setUp()
        self.with_apt()

    def test_fixes_are_applied_in_order_before_the_patches(self):
        self.series(own=patch_text("sub/c.h", 5, "own"))
        current = self.works()
        self.assertEqual((current["origin"], current["debian_revision"]), ("debian", REVISION))
        self.assertEqual(current["fixes"], ["CVE-1.patch", "crash.patch"])
        self.assertIn("fix one", (self.tree() / "a.c").read_text())
        self.assertNotIn("not wanted", (self.tree() / "a.c").read_text())
        self.assertIn("fix two", (self.tree() / "b.c").read_text())
        self.assertIn("own", (self.tree() / "sub" / "c.h").read_text())
        self.assertNotIn("WARNING", self.err)
        self.assert_no_litter()

    def test_apt_is_private_but_keeps_the_machines_mirror_and_proxy(self):
        self.works()
        config = (self.apt / "config").read_text()
        self.assertIn("URIs: http://mirror.example/debian\nSuites: trixie\n", config)
        self.assertIn("Signed-By: /k.gpg", config)
        self.assertIn("URIs: http://safe.example/debian-security\nSuites: trixie-security\n", config)
        self.assertIn('Acquire::http::Proxy "http://proxy:1/";', config)
        self.assertIn('Dir::Etc::parts "/dev/null";', config)
        self.assertIn(f'Dir::State::lists "{self.cache}/', config)
        self.assertNotIn("Post-Invoke", config)
        self.assertNotIn("old.example", config)

    def test_python_org_comes_first(self):
        self.serve()
        self.assertEqual(self.works()["version"], "3.13.15")
        self.assertEqual(self.apt_log(), [])

    def test_the_release_itself_comes_from_debian_first(self):
        self.serve("3.13.5")
        self.assertEqual(self.works(CPYTHON_VERSION="3.13.5")["origin"], "debian")

    def test_stays_with_its_choice_whatever_was_cached_since(self):
        self.works()
        self.serve()
        self.works(CPYTHON_VERSION="3.13.15")
        (self.patches / "series").write_text("# changed\n")
        self.series(own=patch_text("a.c", 6, "own"))
        self.assertEqual(self.works()["version"], "3.13.5")

    def test_the_cache_does_not_choose_the_release(self):
        self.works(CPYTHON_VERSION="3.13.5")
        self.serve()
        self.dest = self.base / "other"
        self.assertEqual(self.works()["version"], "3.13.15")
        self.dest = self.base / "third"
        self.assertEqual(self.works()["version"], "3.13.15")

    @unittest.skipIf(os.geteuid(), "only root can become another user")
    def test_a_cache_that_cannot_be_written_is_read(self):
        self.works(CPYTHON_VERSION="3.13.5")
        self.base.chmod(0o755)
        self.dest = self.base / "other"
        self.dest.mkdir()
        os.chown(self.dest, 65534, 65534)
        (self.cache / ".lock").unlink()
        os.seteuid(65534)
        self.addCleanup(os.seteuid, 0)
        self.assertEqual(self.works(CPYTHON_VERSION="3.13.5")["debian_revision"], REVISION)
        self.assertFalse((self.cache / ".lock").exists())

    def test_cache_needs_no_apt(self):
        self.works()
        shutil.rmtree(self.dest)
        (self.apt / "log").unlink()
        self.assertEqual(self.works()["debian_revision"], REVISION)
        self.assertEqual(self.apt_log(), [])

    def test_damaged_fixes_in_the_cache_are_got_again(self):
        self.works()
        shutil.rmtree(self.dest)
        damaged = self.cache / f"python3.13_{REVISION}.debian.tar.xz"
        damaged.write_bytes(damaged.read_bytes()[:40])
        self.works()
        self.assertIn("got again", self.err)
        self.assertIn("fix one", (self.tree() / "a.c").read_text())

    def test_damaged_description_in_the_cache_is_got_again(self):
        self.works()
        shutil.rmtree(self.dest)
        (self.cache / f"python3.13_{REVISION}.dsc").write_text("")
        self.works()
        self.assertIn("is damaged", self.err)

    def test_fixes_that_are_not_those_of_the_description(self):
        (self.apt / "pool" / f"python3.13_{REVISION}.debian.tar.xz").write_bytes(b"evil")
        self.assertEqual(self.run_it(), 1)
        self.assertIn(f"found    {digest(b'evil')}", self.err)
        self.assertEqual(list(self.cache.glob("debian-*.json")), [])

    def test_other_tarball(self):
        (self.apt / "pool" / "python3.13_3.13.5.orig.tar.xz").write_bytes(b"evil")
        self.assertEqual(self.run_it(), 1)
        self.assertIn(f"expected {digest(self.data['3.13.5'])}", self.err)

    def test_refresh_brings_newer_fixes(self):
        self.works()
        newer = "3.13.5-2+deb13u6"
        self.fixes({"CVE-2.patch": patch_text("a.c", 3, "newer")}, newer)
        (self.apt / "versions").write_text(f"Version: {newer}\n")
        self.assertEqual(self.works()["debian_revision"], REVISION)
        current = self.works("--refresh")
        self.assertEqual(current["debian_revision"], newer)
        self.assertNotIn("fix one", (self.tree() / "a.c").read_text())

    def test_refresh_without_network_keeps_what_is_there(self):
        self.works()
        (self.apt / "down").touch()
        self.assertEqual(self.works("--refresh")["debian_revision"], REVISION)
        self.assertIn("going on with what is in the cache", self.err)

    def test_without_the_security_suite_there_is_a_warning(self):
        (self.apt / "no-security").touch()
        self.works()
        self.assertIn("newest fixes may be missing", self.err)

    def test_mirror_has_moved_on(self):
        (self.apt / "versions").write_text("Version: 3.14.0-1\n")
        self.assertEqual(self.run_it(), 3)
        self.assertIn("the mirror has 3.14.0-1, not 3.13.5", self.err)

    def test_mirror_is_down(self):
        (self.apt / "down").touch()
        self.assertEqual(self.run_it(), 3)
        self.assertIn("Temporary failure resolving", self.err)
        self.assertIn("CPYTHON_TARBALL=", self.err)

    def test_no_fix_matches(self):
        self.fixes({"other.patch": patch_text("a.c", 9, "not wanted")})
        self.assertEqual(self.run_it(), 1)
        self.assertIn("none of the fixes", self.err)


class AptSources(unittest.TestCase):
    def test_deb822(self):
        text = ("Types: deb\nURIs: http://a/debian http://b/debian\n# comment\n"
                "Suites: bookworm bookworm-updates\nComponents: main contrib\n"
                "Signed-By:\n -----BEGIN PGP-----\n .\n abc\n\n"
                "Types: deb\nEnabled: no\nURIs: http://c/\nSuites: x\nComponents: main\n")
        entries = list(debian.deb822_entries(text))
        self.assertEqual([(e[0], e[1]) for e in entries],
                         [("http://a/debian", "bookworm"), ("http://a/debian", "bookworm-updates"),
                          ("http://b/debian", "bookworm"), ("http://b/debian", "bookworm-updates")])
        self.assertEqual(entries[0][3], "-----BEGIN PGP-----\n .\n abc")
        self.assertIn("Signed-By:\n -----BEGIN PGP-----\n .\n abc\n",
                      debian.stanza("u", "s", entries[0][3]))

    def test_one_line(self):
        text = ("deb cdrom:[x]/ bookworm main\n#deb http://no/ x main\n"
                "deb [ trusted=yes signed-by=/k ] http://a/debian trixie main contrib # why\n")
        self.assertIn(("http://a/debian", "trixie", ["main", "contrib"], "/k"),
                      list(debian.one_line_entries(text)))
        self.assertNotIn("http://no/", str(list(debian.one_line_entries(text))))
