"""build.rs-wrapper/probe-cross-lto: it says yes only where Rust was inlined into C."""

import subprocess
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PROBE = ROOT / "build.rs-wrapper" / "probe-cross-lto"


def rust_llvm():
    try:
        text = subprocess.run(["rustc", "-vV"], capture_output=True, text=True, check=True).stdout
    except (OSError, subprocess.CalledProcessError):
        return None
    return next((int(line.split()[2].split(".")[0]) for line in text.splitlines()
                 if line.startswith("LLVM version:")), None)


def probe(compiler, cflags, ldflags):
    """The reason against inlining across languages; empty where it works."""
    result = subprocess.run([PROBE, str(compiler), cflags, ldflags], capture_output=True, text=True, check=True)
    return result.stdout.strip()


class Versions(unittest.TestCase):
    """The answers that need no linker: the compilers are scripts that print a version."""

    def setUp(self):
        if rust_llvm() is None:
            self.skipTest("no rustc here")
        self.compiler = Path(self.enterContext(tempfile.TemporaryDirectory())) / "cc"

    def says(self, version, lld=""):
        self.compiler.write_text(
            f'#!/bin/sh\ncase "$*" in *-Wl,--version*) echo "{lld}" ;; --version) echo "{version}" ;; esac\n')
        self.compiler.chmod(0o755)

    def test_gcc_is_named_as_the_reason(self):
        self.says("gcc (Debian 12.2.0-14) 12.2.0")
        self.assertIn("is not clang", probe(self.compiler, "-O3 -flto", "-flto"))

    def test_an_older_clang_is_reported_with_both_versions(self):
        self.says("Debian clang version 14.0.6")
        said = probe(self.compiler, "-O3 -flto=thin", "-flto=thin -fuse-ld=lld")
        self.assertIn("clang's LLVM 14", said)
        self.assertIn(f"rustc's LLVM {rust_llvm()}", said)

    def test_another_linker_than_lld(self):
        self.says("clang version 99.1.0")
        self.assertIn("-fuse-ld=lld", probe(self.compiler, "-O3 -flto=thin", "-flto=thin"))

    def test_lld_that_is_not_installed(self):
        self.says("clang version 99.1.0")
        self.assertIn("install lld-99", probe(self.compiler, "-O3 -flto=thin", "-flto=thin -fuse-ld=lld"))

    def test_an_older_lld(self):
        self.says("clang version 99.1.0", lld="Debian LLD 14.0.6 (compatible with GNU linkers)")
        self.assertIn("lld's LLVM 14", probe(self.compiler, "-O3 -flto=thin", "-flto=thin -fuse-ld=lld"))


class Linking(unittest.TestCase):
    """With the real compiler: what matters is what the linker did."""

    def setUp(self):
        home = Path(f"/usr/lib/llvm-{rust_llvm()}/bin")
        self.clang = home / "clang"
        if not (self.clang.exists() and (home / "ld.lld").exists()):
            self.skipTest("no clang and lld of rustc's LLVM here")

    def test_thin_and_full_lto_inline(self):
        for lto in ("-flto=thin", "-flto=full", "-flto"):
            with self.subTest(lto):
                self.assertEqual(probe(self.clang, f"-O3 {lto}", f"{lto} -fuse-ld=lld"), "")

    def test_the_phases_of_a_profile_guided_build_inline(self):
        self.assertEqual(probe(self.clang, "-O3 -flto=thin -fprofile-instr-generate",
                               "-flto=thin -fuse-ld=lld -fprofile-instr-generate"), "")

    def test_flags_that_keep_the_languages_apart_are_noticed(self):
        # At -O3 the toy's call is a jump, at -O0 a call.
        for flags in ("-O3 -mno-sse2", "-O0"):
            with self.subTest(flags):
                self.assertIn("not inlined", probe(self.clang, f"{flags} -flto=thin", "-flto=thin -fuse-ld=lld"))

    def test_flags_without_lto(self):
        self.assertIn("no -flto", probe(self.clang, "-O3", "-fuse-ld=lld"))

    def test_a_link_that_fails_is_the_reason(self):
        said = probe(self.clang, "-O3 -flto=thin", "-flto=thin -fuse-ld=lld -lferrule-no-such-library")
        self.assertIn("linking a toy", said)
