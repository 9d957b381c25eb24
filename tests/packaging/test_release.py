"""tools/release.py: a release is the same wherever it is made, and says whose each part is."""

import contextlib
import email.utils
import io
import json
import lzma
import os
import re
import shutil
import subprocess
import tarfile
import tempfile
import unittest
import unittest.mock
from pathlib import Path

from tools import crate, profile, release

ROOT = Path(__file__).resolve().parents[2]
DEBIAN = ROOT / "packaging" / "debian"


class Case(unittest.TestCase):
    def setUp(self):
        self.base = Path(self.enterContext(tempfile.TemporaryDirectory()))
        self.enterContext(unittest.mock.patch.dict(os.environ, {"SOURCE_DATE_EPOCH": "1700000000"}))

    def crate(self, name, license_="MIT", **files):
        place = self.base / "tree" / "vendor" / name
        (place / "src").mkdir(parents=True)
        (place / "Cargo.toml").write_text(f'[package]\nname = "{name.rpartition("-")[0]}"\nversion = "1.0.0"\n'
                                          f'authors = ["A B <a@b.org>"]\n' + (f'license = "{license_}"\n' if license_ else ""))
        (place / "src" / "lib.rs").write_text("pub fn f() {}\n")
        for file, text in files.items():
            (place / file.replace("_", "-")).write_text(text)
        (place / ".cargo-checksum.json").write_text(json.dumps({"package": "1234", "files": {"src/lib.rs": "5678"}}))
        return place


class Tarballs(Case):
    def test_one_is_the_same_for_any_user_place_and_time(self):
        made = []
        for place, mode, when in (("one", 0o640, 1), ("two", 0o666, 2_000_000_000)):
            top = self.base / place / "top-1"
            (top / "sub").mkdir(parents=True)
            for name in ("b", "a", "sub/c") if place == "one" else ("sub/c", "a", "b"):
                (top / name).write_text(name)
                (top / name).chmod(mode)
                os.utime(top / name, (when, when))
            (top / "b").chmod(mode | 0o100)
            (top / "link").symlink_to("a")
            made.append(release.pack(top, self.base / f"{place}.tar.xz").read_bytes())
        self.assertEqual(made[0], made[1])
        with tarfile.open(self.base / "one.tar.xz") as tar:
            self.assertEqual([(member.name, member.mode) for member in tar if member.isfile()],
                             [("top-1/a", 0o644), ("top-1/b", 0o755), ("top-1/sub/c", 0o644)])
            self.assertEqual({(member.uid, member.uname, member.mtime) for member in tar}, {(0, "root", 1700000000)})
        self.assertEqual(list(self.base.glob("*.tmp")), [])


class Crates(Case):
    def copyright(self):
        (self.base / "tree" / "cpython-source").mkdir(parents=True)
        (self.base / "tree" / "cpython-source" / "LICENSE").write_text("Python's\n")
        return release.copyright_file(DEBIAN / "copyright", self.base / "tree")

    def test_one_for_another_platform_is_empty_and_cargo_can_check_it(self):
        place = self.crate("windows-1", LICENSE_MIT="text")
        (place / "libs.a").write_bytes(b"binary")
        release.empty(place)
        self.assertEqual((place / "src" / "lib.rs").read_text(), "")
        self.assertFalse((place / "libs.a").exists())
        self.assertTrue((place / "LICENSE-MIT").exists())
        noted = json.loads((place / ".cargo-checksum.json").read_text())
        self.assertEqual((noted["package"], sorted(noted["files"])), ("1234", ["Cargo.toml", "LICENSE-MIT", "src/lib.rs"]))
        self.assertEqual(noted["files"]["Cargo.toml"], release.sha256(place / "Cargo.toml"))

    def test_backups_and_what_was_compiled_are_not_needed(self):
        place = self.crate("one-1", Cargo_toml_orig="as written", tests_dll="compiled")
        (place / "Cargo-toml-orig").rename(place / "Cargo.toml.orig")
        (place / "tests-dll").rename(place / "tests.dll")
        (place / ".cargo-checksum.json").write_text(json.dumps(
            {"package": "1234", "files": {"src/lib.rs": "5678", "Cargo.toml.orig": "9", "tests.dll": "8"}}))
        release.without_unwanted(place)
        self.assertEqual(sorted(path.name for path in place.iterdir()), [".cargo-checksum.json", "Cargo.toml", "src"])
        self.assertEqual(json.loads((place / ".cargo-checksum.json").read_text()), {"package": "1234", "files": {"src/lib.rs": "5678"}})

    def test_what_is_left_out_of_a_crate_is_not_checked(self):
        place = self.crate("pyo3-1")
        (place / "emscripten").mkdir()
        (place / "emscripten" / "env.sh").write_text("")
        (place / ".cargo-checksum.json").write_text(json.dumps(
            {"package": "1234", "files": {"emscripten/env.sh": "9", "emscripten.rs": "8", "src/lib.rs": "5678"}}))
        crate.leave_out(place, "emscripten")
        self.assertFalse((place / "emscripten").exists())
        self.assertEqual(json.loads((place / ".cargo-checksum.json").read_text()),
                         {"package": "1234", "files": {"emscripten.rs": "8", "src/lib.rs": "5678"}})

    def test_licenses_are_named_as_debian_names_them(self):
        for spdx, expected in (("MIT/Apache-2.0", "Expat or Apache-2.0"), ("(MIT OR Apache-2.0) AND Unicode-3.0",
                                                                      "Expat or Apache-2.0, and Unicode-3.0"),
                           ("Apache-2.0 WITH LLVM-exception OR MIT", "Apache-2.0-with-LLVM-exception or Expat"),
                           ("BSD-3-Clause", "BSD-3-Clause")):
            self.assertEqual(release.debian_license(spdx.replace("/", " OR ")), expected)

    def test_the_license_of_each_crate_that_is_released_is_known(self):
        if shutil.which("cargo") is None:
            self.skipTest("cargo is not on PATH")
        asked = subprocess.run(["cargo", "metadata", "--locked", "--offline", "--format-version", "1", "--filter-platform",
                                release.PLATFORMS[0]], cwd=release.ROOT, capture_output=True, text=True)
        if asked.returncode:
            self.skipTest(f"the crates are not here: {asked.stderr.splitlines()[-1]}")
        crates = json.loads(asked.stdout)["packages"]
        self.assertLessEqual({"inferno", "pyo3", "bindgen"}, {each["name"] for each in crates})
        for each in crates:
            named = release.debian_license(each["license"].replace("/", " OR "))
            for license_ in set(named.replace(",", "").split()) - {"or", "and"}:
                self.assertIn(license_, release.LICENSE_TEXTS, each["name"])

    def test_each_crate_has_a_paragraph_and_each_license_its_text(self):
        self.crate("libc-1", "MIT OR Apache-2.0", LICENSE_MIT="Permission\n\nis granted")
        made = self.copyright()
        self.assertIn("Files: vendor/libc-1/*\nCopyright: A B\nLicense: Expat or Apache-2.0\n", made)
        self.assertIn("License: Expat\n Permission\n .\n is granted\n", made)
        self.assertIn("License: PSF-2.0\n Python's\n", made)
        self.assertEqual(len(re.findall(r"^License: Apache-2.0$", made, re.M)), 1)

    def test_the_holders_of_a_crate_are_read_from_the_files_of_its_license(self):
        self.crate("libc-1", LICENSE_MIT="Copyright (c) 2015-2020 Carl Dean.\nCopyright © Ada Boole\nCopyright 2021 Eva Frey\n",
                   LICENSE_APACHE="  copyright license to reproduce\n  Copyright [yyyy] [name of copyright owner]\nCopyright (c) 2016\n")
        made = self.copyright()
        self.assertIn("Files: vendor/libc-1/*\nCopyright: 2015-2020 Carl Dean\n Ada Boole\n 2021 Eva Frey\n A B\nLicense: Expat\n", made)

    def test_a_file_under_another_license_has_a_paragraph_of_its_own(self):
        self.crate("libc-1", "MIT", LICENSE_MIT="Permission\n")
        place = self.crate("minimal-lexical-1", "MIT", LICENSE="Notice\nCopyright (c) 2009 The Go Authors. All rights reserved.\n\n"
                                                               "Redistribution and use\n")
        (place / "LICENSE").rename(place / "LICENSE.md")
        (place / "src" / "bellerophon.rs").write_text("")
        made = self.copyright()
        self.assertIn("Files: vendor/minimal-lexical-1/*\nCopyright: A B\nLicense: Expat\n\n"
                      "Files: vendor/minimal-lexical-1/src/bellerophon.rs\nCopyright: 2009 The Go Authors. All rights reserved\n"
                      "License: BSD-3-Clause-Go\n", made)
        self.assertIn("License: BSD-3-Clause-Go\n Redistribution and use\n", made)

    def test_a_license_that_is_not_known_stops_the_release(self):
        self.crate("new-1", "Beerware")
        with self.assertRaisesRegex(release.BuildError, "the license Beerware of new-1 is not among those"):
            release.copyright_file(DEBIAN / "copyright", self.base / "tree")

    def test_a_crate_without_a_license_stops_the_release(self):
        self.crate("new-1", None)
        with self.assertRaisesRegex(release.BuildError, "new-1 does not name its license"):
            release.copyright_file(DEBIAN / "copyright", self.base / "tree")


class Pyenv(Case):
    def sourced(self, beside, named=None, **environment):
        """What python-build would install by the definition, or why it is not."""
        top = f"ferrule-{release.version()}"
        place = self.base / "with blanks"
        place.mkdir(exist_ok=True)
        tree = self.base / top
        (tree / "packaging").mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / "packaging" / "pyenv.in", tree / "packaging")
        (place / top).write_text(release.pyenv_definition(tree, "12ab"))
        tarball = place / f"{top}.tar.xz"
        tarball.write_text("") if beside else tarball.unlink(missing_ok=True)
        script = ('install_package() { printf "%s\\n" "$@" "cache=$PYTHON_BUILD_CACHE_PATH" "options=${FERRULE_CONFIGURE_OPTS_ARRAY[*]}"; }\n'
                  'DEFINITION_PATH=$1; PYTHON_CONFIGURE_OPTS_ARRAY=(--enable-shared); . "$1"')
        done = subprocess.run(["bash", "-ec", script, "python-build", named or place / top], capture_output=True, text=True, cwd=place,
                              env={"PATH": os.environ["PATH"], **environment})
        return done.returncode, done.stdout.splitlines(), done.stderr, place

    def test_the_tarball_beside_it_is_installed(self):
        status, said, _, place = self.sourced(True)
        name = f"ferrule-{release.version()}"
        self.assertEqual((status, said), (0, [name, f"file://{place}/{name}.tar.xz#12ab", "standard", "verify_py313", f"cache={place}",
                                              "options=--with-lto --enable-shared"]))

    def test_it_may_be_named_from_its_own_directory(self):
        self.assertEqual(self.sourced(True, named=f"ferrule-{release.version()}")[:2], self.sourced(True)[:2])

    def test_or_one_from_elsewhere(self):
        status, said, _, _ = self.sourced(False, FERRULE_URL="https://example.org/f.tar.xz")
        self.assertEqual((status, said[1], said[4]), (0, "https://example.org/f.tar.xz#12ab", "cache="))

    def test_without_either_it_says_what_to_do(self):
        status, said, error, _ = self.sourced(False)
        self.assertEqual((status, said), (1, []))
        self.assertIn("beside", error)
        self.assertIn("FERRULE_URL=", error)


class Debian(unittest.TestCase):
    def test_the_changelog_has_the_projects_version(self):
        first = (DEBIAN / "changelog").read_text().splitlines()[0]
        self.assertRegex(first, rf"^ferrule \({re.escape(release.version())}-\d+\) ")

    def test_the_compilers_of_rules_and_control_are_one_and_it_has_a_profile(self):
        major = re.search(r"^LLVM = (\d+)$", (DEBIAN / "rules").read_text(), re.M)[1]
        self.assertIn(f" packaging/profile/{profile.PACKAGES.version}-llvm-$(LLVM).profdata.xz ", (DEBIAN / "rules").read_text())
        control = (DEBIAN / "control").read_text()
        for package in (f"clang-{major}", f"lld-{major}", f"llvm-{major}", f"libclang-{major}-dev"):
            self.assertIn(f" {package},", control)
        kept = profile.PACKAGES.profile(major)
        # The magic of LLVM's indexed profiles.
        self.assertEqual(lzma.open(kept).read(8), b"\xfflprofi\x81")

    def test_the_revision_for_an_older_debian_is_lower_and_signed(self):
        with tempfile.TemporaryDirectory() as temporary:
            changelog = Path(temporary) / "changelog"
            shutil.copy(DEBIAN / "changelog", changelog)
            before = changelog.read_text()
            release.backport(changelog, 12)
            entries = re.findall(r"^ferrule \((\S+)\) trixie; urgency=medium\n\n  \* [^\0]+?\n\n -- .* <.*>  .*\n", changelog.read_text(), re.M)
            newest = re.match(r"ferrule \((\S+)\)", before)[1]
            self.assertEqual(entries[:2], [f"{newest}~deb12u1", newest])
            self.assertTrue(changelog.read_text().endswith(before))
            later, earlier = (email.utils.parsedate_to_datetime(when)
                              for when in re.findall(r"^ -- .*>  (.*)$", changelog.read_text(), re.M)[:2])
            self.assertGreater(later, earlier)

    def test_options_that_another_command_has_are_refused(self):
        for words in (["deb", "--key", "x"], ["dist", "--install"], ["deb", "--release", "12"]):
            with self.assertRaises(SystemExit), contextlib.redirect_stderr(io.StringIO()) as said:
                release.main(words)
            self.assertIn(" is for ", said.getvalue())
