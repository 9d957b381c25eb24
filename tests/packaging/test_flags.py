"""configure's two flags of the Rust frame core: the part of the patched configure.ac that reads them, by itself."""

import re
import shutil
import subprocess
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PATCH = ROOT / "patches" / "3.13" / "0001-build.patch"


class Flags(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        temp = tempfile.TemporaryDirectory()
        cls.addClassCleanup(temp.cleanup)
        cls.directory = Path(temp.name)
        hunk = PATCH.read_text().partition("+++ b/configure.ac\n")[2].partition("\n--- a/")[0]
        added = "".join(f"{line[1:]}\n" for line in hunk.splitlines() if line.startswith("+"))
        assert re.search(r"^AC_SUBST\(\[FERRULE_VERSION\]\)$", added, re.M), "the patch has no such part"
        (cls.directory / "configure.ac").write_text(f"AC_INIT([flags], [1])\n{added}\nAC_MSG_NOTICE([JIT: $REGEN_JIT_COMMAND])\nAC_OUTPUT\n")
        subprocess.run(["autoconf"], cwd=cls.directory, check=True)
        (cls.directory / "rust-core").mkdir()
        shutil.copy(ROOT / "rust-core" / "Cargo.toml", cls.directory / "rust-core")

    def configure(self, *flags):
        run = subprocess.run(["./configure", f"FERRULE_DIR={self.directory}", *flags], cwd=self.directory, text=True,
                             stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        return run.returncode, run.stdout

    def test_a_value_that_means_nothing_is_refused_with_those_that_do(self):
        for flag, wanted in (("--with-cross-lto=perhaps", "--with-cross-lto is auto, yes or no, not 'perhaps'"),
                             ("--with-rust-core=maybe", "--with-rust-core is yes or no, not 'maybe'")):
            status, said = self.configure(flag)
            self.assertNotEqual(status, 0)
            self.assertIn(wanted, said)

    def test_the_values_that_mean_something_are_taken(self):
        for flags in ([], ["--with-cross-lto=auto"], ["--with-cross-lto=no"], ["--without-rust-core"], ["--with-rust-core"]):
            status, said = self.configure(*flags)
            self.assertEqual(status, 0, said)

    def test_the_jit_compiles_its_instructions_with_the_core_alone(self):
        """It knows its own flags, and without these its instructions would be those of stock."""
        for flag, passed in (("--with-rust-core", f"FERRULE_JIT_CFLAGS='-DPy_RUST_CORE -I{self.directory}/rust-core/include' build.py"),
                             ("--without-rust-core", "build.py")):
            status, said = self.configure(flag, "REGEN_JIT_COMMAND=build.py")
            self.assertEqual((status, said.splitlines().count(f"configure: JIT: {passed}")), (0, 1), said)
        self.assertNotIn("FERRULE_JIT_CFLAGS", self.configure("--with-rust-core")[1])

    def test_inlining_that_is_wanted_and_not_possible_is_an_error(self):
        status, said = self.configure("--with-cross-lto")
        self.assertNotEqual(status, 0)
        self.assertIn("--with-cross-lto=yes is not possible: the build is made without --with-lto", said)
