"""tools/build.py: what a build takes from the environment, and when it is made again."""

import contextlib
import importlib
import io
import json
import subprocess
import unittest
import unittest.mock
from pathlib import Path

from building import CONFIGURE, Case
from tools import build, choices, configuring, environment, errors, places, showing


class Environment(Case):
    def test_variables_given_to_configure_hold_for_the_makes_after_it(self):
        self.environment(CC="gcc", CFLAGS="-g1 -O1")
        self.configure("--with-lto")
        self.environment()
        said = self.configured("ferrule")
        self.assertEqual(said, "")
        self.assertEqual(self.called().count("CC=gcc"), 1)
        self.assertIn("CFLAGS=-g1 -O1", self.called())
        self.assertNotIn("CC=/llvm/clang", self.called())

    def test_a_flag_wins_over_the_environment(self):
        self.environment(CC="gcc")
        self.configure("CC=tcc")
        self.assertIn("CC=tcc", self.called())
        self.assertNotIn("CC=gcc", self.called())

    def test_the_first_make_of_a_clone_records_what_it_was_given(self):
        self.environment(CC="gcc", CFLAGS="-g1")
        self.made_with("stock")
        self.environment()
        self.made_with("ferrule")
        for variant in ("stock", "ferrule"):
            self.assertIn("CC=gcc", self.called(variant))
            self.assertIn("CFLAGS=-g1", self.called(variant))

    def test_another_compiler_or_release_for_one_make_is_refused_and_changes_nothing(self):
        self.made_with("stock")
        before = self.called("stock")
        for name, value in (("CC", "gcc"), ("CFLAGS", "-O1"), ("CPYTHON_VERSION", "3.13.15"), ("CPYTHON_TARBALL", "/t.tar.xz"),
                            ("PROFILE_TASK", "-m test")):
            with self.subTest(name):
                self.environment(**{name: value})
                with self.assertRaisesRegex(errors.BuildError, f"{name} is '{value}' for this make, and is not set"):
                    self.made_with("stock")
        self.environment()
        self.made_with("stock")
        self.assertEqual(self.called("stock"), before)

    def test_what_is_chosen_holds_where_the_environment_says_the_same(self):
        self.environment(CC="gcc", CFLAGS="-O1", CPYTHON_VERSION="3.13.15")
        self.configure()
        before = self.called()
        self.assertIn("CC=gcc", self.made_with("ferrule") and self.called())
        self.assertEqual(self.called(), before)

    def test_the_release_is_a_choice_like_any_other(self):
        self.environment(CPYTHON_TARBALL="3.13.15.tar.xz")
        self.configure("--prefix=/usr", "CPYTHON_VERSION=3.13.15")
        self.environment()
        self.made_with("stock")
        for chosen in self.fetched:
            self.assertEqual(chosen.variables, {"CPYTHON_TARBALL": str(Path.cwd() / "3.13.15.tar.xz"),
                                                "CPYTHON_VERSION": "3.13.15"})
        self.assertEqual([word for word in self.called("stock") if "CPYTHON" in word], [])

    def test_fetching_gets_the_release_that_was_chosen_whatever_the_environment_has(self):
        self.environment(CPYTHON_VERSION="3.13.15")
        chosen = choices.Choices([], {"CPYTHON_TARBALL": "/a.tar.xz"})
        (self.root / "build" / "src" / "current.json").write_text("{}")
        unittest.mock.patch.stopall()
        with unittest.mock.patch.object(places, "BUILD", self.root / "build"), \
                unittest.mock.patch.object(subprocess, "run", return_value=unittest.mock.Mock(returncode=0)) as run:
            importlib.reload(build).fetch_source(chosen)
        self.assertEqual(run.call_args.kwargs["env"]["CPYTHON_TARBALL"], "/a.tar.xz")
        self.assertFalse(run.call_args.kwargs["env"]["CPYTHON_VERSION"])

    def test_an_empty_variable_says_that_there_is_none(self):
        self.environment(CC="gcc", CFLAGS="-O1", CPYTHON_TARBALL="/t.tar.xz", LDFLAGS=" ")
        self.configure("CC=", "CFLAGS=", "CPYTHON_TARBALL=")
        self.assertEqual(choices.read().variables, {})
        self.assertIn("CC=/llvm/clang", self.called())
        self.environment(CC=" ", CPYTHON_VERSION="")
        self.assertEqual(self.configured("ferrule"), "")

    def test_what_must_be_passed_to_every_command_is_refused_by_configure(self):
        for word, shown in (("FERRULE_CACHE=/c", "`FERRULE_CACHE=/c make`"), ("V=1", "`V=1 make`"),
                            ("PYTHON3=p", "`PYTHON3=p make`"), ("DESTDIR=/d", "`make install DESTDIR=/d`"),
                            ("VARIANT=pgo", "`make install VARIANT=pgo`")):
            with self.assertRaisesRegex(errors.BuildError, f"^{word.partition('=')[0]}= .*{shown}"):
                self.configure(word)
        self.assertIsNone(choices.read())

    def test_a_place_with_a_blank_is_refused_before_the_work_begins(self):
        for flags in (["--prefix=/a b"], ["--prefix", "/a b"], ["--exec-prefix=/a'b"], ["--mandir=/a\tb"]):
            with self.assertRaisesRegex(errors.BuildError, "cannot install to: /a"):
                self.configure(*flags)
        self.assertEqual(self.fetched, [])
        self.configure("--mandir=${prefix}/share/man", "--with-suffix=a b")

    def test_a_damaged_record_is_reported_in_a_line(self):
        for text in ("", "{", "[]", "{}x", '{"flags": 3, "variables": {}}', '{"flags": [], "variables": []}'):
            choices.record().write_text(text)
            with self.assertRaisesRegex(errors.BuildError, "choices.json is damaged: run ./configure with the flags"):
                self.configured("ferrule")

    def test_there_is_a_way_back_to_the_defaults(self):
        self.environment(CC="gcc")
        self.configure("--with-pydebug")
        self.configure("--defaults")
        self.assertEqual([word for word in self.called() if "gcc" in word or "pydebug" in word], [])
        self.environment()
        self.assertEqual(self.configured("ferrule"), "")
        with self.assertRaisesRegex(errors.BuildError, "takes none beside it"):
            self.configure("--defaults", "--with-pydebug")

    def test_programs_that_are_started_inherit_none_of_the_choices(self):
        given = {"CFLAGS": "-O0", "CC": "gcc", "CPYTHON_VERSION": "3", "MAKEFLAGS": "k -j4 -- CFLAGS=-O0 prefix=/x", "HOME": "/h"}
        self.assertEqual(environment.for_children(given), {"MAKEFLAGS": "k -j4", "HOME": "/h"})
        self.assertEqual(environment.for_children({"MAKEFLAGS": "-- CFLAGS=-O0"}), {})

    def test_only_makes_own_flags_say_that_there_is_a_job_server(self):
        for flags in (" -j4 --jobserver-auth=3,4", "k -j --jobserver-auth=fifo:/x", "-j2 -- prefix=/x"):
            self.assertEqual(environment.jobs({"MAKEFLAGS": flags}), [], flags)
        for flags in ("", "k", " -- prefix=/x-j/y", "--no-print-directory -- a=-j2 prefix=/-j"):
            self.assertEqual(len(environment.jobs({"MAKEFLAGS": flags})), 1, flags)

    def test_show_says_what_is_chosen_and_what_is_built(self):
        self.environment(CC="gcc", CPYTHON_VERSION="3.13.15")
        self.configure("--with-pydebug", "--prefix=/opt/x")
        with (self.root / "build" / "ferrule" / "Makefile").open("a") as makefile:
            makefile.write("RUST_CORE=\t1\nRUST_CORE_CROSS_LTO=\t0\nprefix=\t/opt/x\nCC=\tgcc\n")
        said = io.StringIO()
        with contextlib.redirect_stdout(said):
            showing.show()
        for part in ("CPYTHON_VERSION=3.13.15", "--with-pydebug", "CC=gcc", "cross-language LTO: no", "to /opt/x", "begun"):
            self.assertIn(part, said.getvalue())


class Again(Case):
    def test_the_same_flags_do_nothing(self):
        self.configure("--with-pydebug")
        before = self.called()
        self.assertEqual(self.configure("--with-pydebug"), "")
        self.assertEqual(self.called(), before)

    def test_other_flags_leave_nothing_of_the_build_before(self):
        self.configure("--with-pydebug")
        stale = self.root / "build" / "ferrule" / "stale.o"
        stale.touch()
        self.assertIn("made anew", self.configure("--disable-gil"))
        self.assertFalse(stale.exists())
        self.assertNotIn("--with-pydebug", self.called())

    def test_a_profile_does_not_outlive_its_source(self):
        for variant in ("release", "pgo"):
            self.configured(variant)
        self.facts["patches_sha256"] = "b"
        self.assertEqual(self.configured("release"), "")
        self.assertIn("made anew", self.configured("pgo"))

    def test_other_modules_to_build_in_make_a_pgo_build_anew(self):
        for variant in ("release", "pgo"):
            self.configured(variant)
        with unittest.mock.patch.object(configuring, "BUILT_IN", {"array"}):
            self.assertEqual(self.configured("release"), "")
            self.assertIn("made anew", self.configured("pgo"))

    def test_flags_that_configure_refuses_leave_the_build_and_the_choice_before(self):
        self.configure("--with-pydebug")
        directory = self.root / "build" / "ferrule"
        (directory / "python").touch()
        source = self.root / self.facts["source"] / "configure"
        source.write_text("#!/bin/sh\necho 'configure: error: expected an absolute directory name for --prefix: inst'\nexit 1\n")
        for flags in (["--prefix=inst"], ["--no-create"]):
            with self.assertRaisesRegex(errors.BuildError, "configuring ferrule failed: configure: error: expected an absolute"):
                self.configure(*flags)
        self.assertTrue((directory / "python").exists())
        self.assertEqual(choices.read().flags, ["--with-pydebug"])
        self.assertEqual(self.configured("ferrule"), "")

    def test_a_configure_that_makes_no_makefile_has_failed(self):
        (self.root / self.facts["source"] / "configure").write_text("#!/bin/sh\n")
        with self.assertRaisesRegex(errors.BuildError, "no Makefile"):
            self.configure("--no-create")
        self.assertFalse((self.root / "build" / "ferrule").exists())

    def test_questions_are_answered_and_change_nothing(self):
        self.configure("--with-pydebug")
        before = self.called()
        for question in ("--version", "-V", "--help", "-h", "--help=recursive", "--help=short", "--vers"):
            with self.subTest(question), self.assertRaises(SystemExit) as exit, \
                    unittest.mock.patch.object(subprocess, "run", return_value=unittest.mock.Mock(returncode=0)) as run:
                self.configure(question)
            self.assertEqual(run.call_args.args[0][1:], [question])
            self.assertEqual(exit.exception.code, 0)
        self.assertEqual(choices.read().flags, ["--with-pydebug"])
        self.assertEqual(self.called(), before)

    def test_a_configure_that_was_killed_gives_the_build_before_back(self):
        self.configure("--with-pydebug")
        directory = self.root / "build" / "ferrule"
        (directory / "python").touch()
        directory.rename(directory.with_name(".ferrule.before"))
        directory.mkdir()
        self.assertEqual(self.configured("ferrule"), "")
        self.assertTrue((directory / "python").exists())
        self.assertFalse(directory.with_name(".ferrule.before").exists())

    def test_configures_own_warnings_are_shown(self):
        source = self.root / self.facts["source"] / "configure"
        source.write_text(CONFIGURE + "echo 'configure: WARNING: unrecognized options: --enable-nonsense' >&2\n")
        self.assertIn("WARNING: unrecognized options: --enable-nonsense", self.configure("--enable-nonsense"))

    def test_a_cut_short_stamp_counts_as_none(self):
        self.configure()
        stamp = self.root / "build" / "ferrule" / "ferrule-configure.json"
        stamp.write_text(stamp.read_text()[:10])
        self.configure()
        self.assertIn(f"FERRULE_DIR={self.root}", json.loads(stamp.read_text()))

    def test_cleaning_removes_the_builds_and_keeps_source_and_flags(self):
        self.configure("--with-pydebug")
        self.configured("stock-release")
        build.clean()
        self.assertEqual({path.name for path in (self.root / "build").iterdir()}, {"src", "choices.json"})
        build.clean()
