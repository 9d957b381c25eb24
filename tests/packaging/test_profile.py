"""tools/profile.py: the profile of the packages is of this release's patches, or is refused."""

import lzma
import os
import tempfile
import unittest
import unittest.mock
from pathlib import Path

from tools import profile


class Case(unittest.TestCase):
    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.base = Path(temporary.name)
        self.kept = self.base / "kept"
        self.kept.mkdir()
        patched = unittest.mock.patch.object(profile, "PROFILES", self.kept)
        patched.start()
        self.addCleanup(patched.stop)

    def compiler(self, version):
        clang = self.base / "clang"
        clang.write_text(f"#!/bin/sh\necho '{version}'\n")
        clang.chmod(0o755)
        (self.base / "Makefile").write_text(f"CC=\t\t{clang} -pthread\n")


class Keeping(Case):
    def test_it_is_kept_under_its_compilers_version(self):
        self.compiler("Debian clang version 22.1.8 (1)")
        with self.assertRaisesRegex(profile.BuildError, "has no profile"):
            profile.keep(self.base, profile.BINARY, profile.BINARY.patches(profile.ROOT))
        (self.base / "code.profclangd").write_bytes(b"counts")
        profile.keep(self.base, profile.BINARY, profile.BINARY.patches(profile.ROOT))
        self.assertEqual(lzma.decompress((self.kept / "3.13.15-llvm-22.profdata.xz").read_bytes()), b"counts")
        self.assertEqual(profile.stale(), [])

    def test_another_compilers_is_not(self):
        self.compiler("gcc 12")
        (self.base / "code.profclangd").write_bytes(b"counts")
        with self.assertRaisesRegex(profile.BuildError, "was not made by clang"):
            profile.keep(self.base, profile.BINARY, "1")
        self.assertEqual(list(self.kept.iterdir()), [])

    def test_a_source_release_makes_none(self):
        with unittest.mock.patch.object(profile, "ROOT", self.base):
            with self.assertRaisesRegex(profile.BuildError, "a source release comes with its profile"):
                profile.main([])


class Stale(Case):
    def setUp(self):
        super().setUp()
        (self.kept / "3.13.15-llvm-22.profdata.xz").write_bytes(b"")
        (self.kept / "3.13.15-llvm-22.patches").write_text("of before\n")

    def test_it_is_refused_and_the_error_says_what_to_do(self):
        with unittest.mock.patch.dict(os.environ):
            os.environ.pop(profile.VARIABLE, None)
            with self.assertRaisesRegex(profile.BuildError, r"3.13.15-llvm-22.profdata.xz was made of other patches[^\0]*`make profile`[^\0]*PROFILE=stale"):
                profile.refuse_stale(profile.BINARY)
        with self.assertRaisesRegex(profile.BuildError, "`make profile`"):
            profile.main(["--check"])

    def test_it_is_taken_where_that_is_allowed(self):
        with unittest.mock.patch.dict(os.environ, {profile.VARIABLE: profile.ALLOWED}), unittest.mock.patch.object(profile, "say") as said:
            profile.refuse_stale(profile.BINARY)
        self.assertIn("warning: 3.13.15-llvm-22.profdata.xz", said.call_args.args[0])

    def test_that_of_another_base_is_no_matter(self):
        profile.refuse_stale(profile.PACKAGES)

    def test_another_value_allows_nothing(self):
        with unittest.mock.patch.dict(os.environ, {profile.VARIABLE: "yes"}), self.assertRaises(profile.BuildError):
            profile.refuse_stale(profile.BINARY)

    def test_one_without_a_record_of_its_patches_is_stale(self):
        (self.kept / "3.13.15-llvm-22.patches").unlink()
        self.assertEqual(profile.stale(), ["3.13.15-llvm-22.profdata.xz"])

    def test_each_base_has_patches_of_its_own(self):
        self.assertNotEqual(profile.PACKAGES.patches(profile.ROOT), profile.BINARY.patches(profile.ROOT))
        (self.kept / "3.13.15-llvm-22.patches").write_text(profile.PACKAGES.patches(profile.ROOT) + "\n")
        self.assertEqual(profile.stale(), ["3.13.15-llvm-22.profdata.xz"])

    def test_the_source_that_is_named_is_the_binarys(self):
        with unittest.mock.patch.dict(os.environ, {"CPYTHON_TARBALL": "/x.tar.xz", "CFLAGS": "-O0"}):
            self.assertEqual(profile.environment(profile.BINARY).get("CPYTHON_TARBALL"), "/x.tar.xz")
            self.assertFalse({"CPYTHON_TARBALL", "CFLAGS"} & set(profile.environment(profile.PACKAGES)))

    def test_one_of_these_patches_is_not(self):
        (self.kept / "3.13.15-llvm-22.patches").write_text(profile.BINARY.patches(profile.ROOT) + "\n")
        self.assertEqual(profile.stale(), [])
        profile.refuse_stale(profile.BINARY)
        profile.main(["--check"])
