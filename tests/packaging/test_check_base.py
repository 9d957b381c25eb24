"""cpython/check_base.py: what is newer than the base, on made-up archives."""

import contextlib
import io

from cpython import check_base
from fetching import REVISION, Case


class CheckBase(Case):
    def setUp(self):
        super().setUp()
        text = self.config.read_text()
        self.config.write_text(text.replace(f"{self.server.url}/Python-3.13.15", f"{self.server.url}/ftp/3.13.15/Python-3.13.15"))

    def check(self):
        """(exit code, what was said)"""
        said = io.StringIO()
        with contextlib.redirect_stdout(said), contextlib.redirect_stderr(io.StringIO()):
            code = check_base.main(["--config", str(self.config)], {"FERRULE_CACHE": str(self.cache)})
        return code, said.getvalue()

    def lists(self, *versions):
        self.server.files[""] = "".join(f'<a href="{version}/">{version}/</a>\n' for version in versions).encode()

    def offers(self, revision):
        with (self.apt / "versions").open("a") as file:
            file.write(f"\nPackage: python3.13\nVersion: {revision}\n")

    def test_nothing_is_newer(self):
        self.with_apt()
        self.works(CPYTHON_VERSION="3.13.5")
        self.lists("3.12.99", "3.13.9", "3.13.15", "3.14.2")
        code, said = self.check()
        self.assertEqual(code, 0, said)
        self.assertIn(f"the cache has {REVISION}", said)
        self.assertTrue(said.endswith("nothing newer was seen\n"), said)

    def test_a_newer_revision_and_a_newer_release_are_reported_with_what_to_do(self):
        self.with_apt()
        self.works(CPYTHON_VERSION="3.13.5")
        self.offers("3.13.5-2+deb13u10")
        self.lists("3.13.9", "3.13.16")
        code, said = self.check()
        self.assertEqual(code, 1, said)
        self.assertIn("Debian has 3.13.5-2+deb13u10: python3 -m cpython.fetch --refresh", said)
        self.assertIn("CPython 3.13.16 is out: pin it in cpython/upstream.toml", said)

    def test_the_reported_command_builds_the_newer_revision(self):
        self.with_apt()
        self.works(CPYTHON_VERSION="3.13.5")
        newer = "3.13.5-2+deb13u10"
        self.offers(newer)
        self.fixes({"CVE-2.patch": "--- a/b.c\n+++ b/b.c\n@@ -1,2 +1,3 @@\n line 1\n+fix three\n line 2\n"}, newer)
        self.assertEqual(self.works("--refresh", CPYTHON_VERSION="3.13.5")["debian_revision"], newer)
        self.assertIn("fix three", (self.tree() / "b.c").read_text())
        self.lists("3.13.15")
        self.assertEqual(self.check()[0], 0)

    def test_one_unreachable_server_does_not_hinder_the_other(self):
        self.lists("3.13.16")
        code, said = self.check()
        self.assertEqual(code, 1, said)
        self.assertIn("Debian could not be reached: ", said)

    def test_no_server_can_be_reached(self):
        code, said = self.check()
        self.assertEqual(code, 3, said)
        self.assertIn("python.org could not be reached: ", said)
        self.lists("2.7.18")
        self.assertEqual(self.check()[0], 3)
