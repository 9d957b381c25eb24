"""tools/build.py: which command configures a build, and when it is run again.

CPython's configure is a script that notes how it was called; no compiler runs.
"""

import contextlib
import importlib
import io
import json
import os
import subprocess
import sys
import tempfile
import unittest
import unittest.mock
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))
build = importlib.import_module("build")
toolchain = importlib.import_module("toolchain")

CLANG = toolchain.Compiler(("CC=/llvm/clang", "AR=/llvm/llvm-ar"), True, "clang")

CONFIGURE = """#!/bin/sh
for word in "$@"; do printf '%s\\n' "$word"; done >>called
echo "checking for cross-language LTO... maybe"
[ ! -e fail ] && echo all: >Makefile
echo 'LLVM_PROF_MERGER= /llvm/llvm-profdata merge -output="all" "$(shell pwd)"/*.raw' >>Makefile
mkdir -p Modules
printf '%s\\n' '*shared*' 'array arraymodule.c' '#math mathmodule.c' '_ssl _ssl.c' '_json _json.c -DX' >Modules/Setup.stdlib
"""


class Case(unittest.TestCase):
    def setUp(self):
        temp = tempfile.TemporaryDirectory()
        self.addCleanup(temp.cleanup)
        self.root = Path(temp.name)
        source = self.root / "build" / "src" / "tree"
        source.mkdir(parents=True)
        (source / "configure").write_text(CONFIGURE)
        (source / "configure").chmod(0o755)
        self.facts = {"source": "build/src/tree", "debian_revision": "1-2", "patches_sha256": "a"}
        for target, name, value in (
            (build, "ROOT", self.root),
            (build, "BUILD", self.root / "build"),
            (build, "LOGS", self.root / "build" / "logs"),
            (build, "USER_FLAGS", self.root / "build" / "configure.flags"),
            (build, "fetch_source", lambda: self.facts),
            (toolchain, "find_rust", lambda: toolchain.Rust((1, 95), 22)),
            (toolchain, "find_compiler", lambda llvm: CLANG),
        ):
            patch = unittest.mock.patch.object(target, name, value)
            patch.start()
            self.addCleanup(patch.stop)
        self.environment()

    def environment(self, **variables):
        """From here on the environment is this."""
        patch = unittest.mock.patch.dict(os.environ, {"PATH": os.environ["PATH"], **variables}, clear=True)
        patch.start()
        self.addCleanup(patch.stop)

    def configure(self, *flags):
        with contextlib.redirect_stdout(io.StringIO()):
            return self.quietly(build.choose_flags, list(flags))

    def quietly(self, function, *arguments):
        said = io.StringIO()
        with contextlib.redirect_stderr(said):
            function(*arguments)
        return said.getvalue()

    def called(self, variant="ferrule"):
        return (self.root / "build" / variant / "called").read_text().splitlines()


class Command(Case):
    def test_the_users_flags_go_to_configure_with_the_tools_chosen(self):
        self.configure("--with-pydebug", "--prefix=/a b")
        called = self.called()
        self.assertEqual(called[:2], ["--with-pydebug", "--prefix=/a b"])
        self.assertIn("CC=/llvm/clang", called)
        self.assertIn(f"FERRULE_DIR={self.root}", called)
        self.assertIn("FERRULE_DEBIAN_REVISION=1-2", called)

    def test_lld_links_an_lto_build_made_with_the_chosen_clang(self):
        self.configure("--with-lto")
        self.assertTrue([word for word in self.called() if word.startswith("LDFLAGS_NODIST=-fuse-ld=lld")])

    def test_a_compiler_that_the_user_names_gets_nothing_of_clangs(self):
        self.configure("--with-lto", "CC=gcc")
        called = self.called()
        self.assertIn("CC=gcc", called)
        self.assertEqual([word for word in called if "llvm" in word or "lld" in word], [])

    def test_lto_that_is_switched_off_needs_no_lld(self):
        for flag in ("--with-lto=no", "--without-lto"):
            self.configure(flag)
            self.assertEqual([word for word in self.called() if "lld" in word], [], flag)

    def test_the_pgo_builds_differ_in_the_rust_core_alone(self):
        for variant in ("pgo", "stock-pgo"):
            self.quietly(build.configure, variant, self.facts)
        rust, stock = set(self.called("pgo")), set(self.called("stock-pgo"))
        self.assertIn("--enable-optimizations", rust & stock)
        self.assertIn("--with-lto=full", rust & stock)
        ours = {f"FERRULE_DIR={self.root}", "FERRULE_DEBIAN_REVISION=1-2"}
        self.assertEqual({word for word in rust - stock if not word.startswith("LDFLAGS_NODIST=")}, ours)
        self.assertEqual({word for word in stock - rust if not word.startswith("LDFLAGS_NODIST=")},
                         {"--without-rust-core"})

    def words_of(self, variable, called):
        found = [word for word in called if word.startswith(f"{variable}=")]
        self.assertLessEqual(len(found), 1)
        return found[0].partition("=")[2].split() if found else []

    def test_what_the_code_generator_is_told_reaches_compiler_and_linker(self):
        clang = toolchain.Compiler(("CC=/llvm/clang",), True, "clang", ("-a=1",))
        with unittest.mock.patch.object(toolchain, "find_compiler", lambda llvm: clang):
            for variant in ("ferrule", "release"):
                self.quietly(build.configure, variant, self.facts)
        for variant in ("ferrule", "release"):
            self.assertEqual(self.words_of("CFLAGS_NODIST", self.called(variant)), ["-mllvm", "-a=1"])
        self.assertEqual(self.words_of("LDFLAGS_NODIST", self.called("ferrule")), [])
        self.assertIn("-Wl,-mllvm,-a=1", self.words_of("LDFLAGS_NODIST", self.called("release")))

    def test_code_is_aligned_in_both_builds_that_are_measured_and_in_no_other(self):
        for variant, wanted in (("release", True), ("stock-release", True), ("ferrule", False), ("pgo", False)):
            self.quietly(build.configure, variant, self.facts)
            linking = self.words_of("LDFLAGS_NODIST", self.called(variant))
            for option in build.ALIGNED:
                self.assertEqual(f"-Wl,-mllvm,{option}" in linking, wanted, (variant, option))

    def test_llvm_19_is_told_to_keep_a_jump_for_each_instruction(self):
        self.assertIn("-tail-dup-pred-size=5000", toolchain.clang(19).codegen)
        for major in (18, 20, 22):
            self.assertEqual(toolchain.clang(major).codegen, ())

    def test_the_pgo_builds_stay_where_they_are_linked_unless_they_are_shared(self):
        self.quietly(build.configure, "pgo", self.facts)
        self.assertEqual(self.words_of("CFLAGS_NODIST", self.called("pgo")), ["-fno-pie"])
        self.assertIn("-no-pie", self.words_of("LDFLAGS_NODIST", self.called("pgo")))
        self.configure("--enable-shared")
        self.quietly(build.configure, "pgo", self.facts)
        words = self.called("pgo")
        self.assertEqual([word for word in words if "-pie" in word], [])

    def test_the_pgo_builds_contain_the_modules_that_need_no_library(self):
        for variant in ("pgo", "release"):
            self.quietly(build.configure, variant, self.facts)
        local = self.root / "build" / "pgo" / "Modules" / "Setup.local"
        self.assertEqual(local.read_text().splitlines(), ["*static*", "array arraymodule.c", "_json _json.c -DX"])
        self.assertFalse((self.root / "build" / "release" / "Modules" / "Setup.local").exists())

    def test_the_profile_comes_from_all_tests_unless_the_user_names_others(self):
        for variant in ("pgo", "release"):
            self.quietly(build.configure, variant, self.facts)
        self.assertIn("--pgo-extended", self.words_of("PROFILE_TASK", self.called("pgo")))
        self.assertEqual(self.words_of("PROFILE_TASK", self.called("release")), [])
        self.environment(PROFILE_TASK="-m test.regrtest test_re")
        self.quietly(build.configure, "pgo", self.facts)
        self.assertEqual(self.words_of("PROFILE_TASK", self.called("pgo")), ["-m", "test.regrtest", "test_re"])

    def test_a_failed_test_does_not_end_the_training_and_a_crash_does(self):
        shell = build.TRAINING.replace("$$", "$")
        for status, expected in ((0, 0), (2, 0), (1, 1), (139, 1)):
            run = subprocess.run(["sh", "-c", f"python() {{ return {status}; }}; python {shell}"])
            self.assertEqual(run.returncode, expected, status)

    def made_with(self, variant):
        """The words after `make` when this variant is built."""
        self.quietly(build.configure, variant, self.facts)
        with unittest.mock.patch.object(build.progress, "run", return_value=0) as run:
            build.make(variant, ["python"])
        return run.call_args.args[0][1:]

    def test_a_profile_that_is_of_no_use_does_not_stop_a_pgo_build(self):
        for variant, wanted in (("pgo", 1), ("release", 0)):
            mergers = [word for word in self.made_with(variant) if word.startswith("LLVM_PROF_MERGER=")]
            self.assertEqual(mergers, ['LLVM_PROF_MERGER= /llvm/llvm-profdata merge -failure-mode=all -output="all"'
                                       ' "$(shell pwd)"/*.raw && rm -f $(abs_builddir)/*.profclangr'] * wanted)

    def test_llvm_counts_for_the_profile_and_each_binary_has_a_file(self):
        words = self.made_with("pgo")
        self.assertIn("PGO_PROF_GEN_FLAG=-fprofile-generate", words)
        file, = [word for word in words if word.startswith("LLVM_PROF_FILE=")]
        self.assertIn("%p", file)
        self.assertIn("%m", file)
        self.assertEqual([word for word in self.made_with("release") if "PROF" in word], [])

    def test_the_compiler_gets_the_profile_that_is_merged(self):
        words = [word for word in self.made_with("pgo") if word.startswith("PGO_PROF_USE_FLAG=")]
        makefile = self.root / "build" / "pgo" / "Makefile"
        makefile.write_text("abs_builddir=/b\nall:\n\t@echo $(PGO_PROF_USE_FLAG)\n")
        run = subprocess.run(["make", "-s", "-f", makefile, *words], capture_output=True, text=True, check=True)
        self.assertEqual(run.stdout, "-fprofile-use=/b/code.profclangd\n")

    def test_only_what_freezes_modules_is_linked_without_optimization(self):
        with (self.root / self.facts["source"] / "configure").open("a") as configure:
            configure.write("echo 'CONFIGURE_LDFLAGS_NODIST=-fuse-ld=lld' >>Makefile\n")
        linker, = [word for word in self.made_with("pgo") if word.startswith("LINKCC=")]
        programs = ("python", "_bootstrap_python", "Programs/_freeze_module", "Programs/_testembed")
        makefile = self.root / "links"
        # As CPython does it: what links is a make of its own, under the one that was called.
        makefile.write_text("CC=clang\nall:\n\t@$(MAKE) -s -f links each\n"
                            f"each: {' '.join(programs)}\n{' '.join(programs)}:\n\t@echo $@: $(LINKCC)\n")
        run = subprocess.run(["make", "-s", "-f", makefile, linker], cwd=self.root, capture_output=True, text=True, check=True)
        self.assertEqual(run.stdout.splitlines(), [
            "python: clang", "_bootstrap_python: clang -Xlinker --lto-O0",
            "Programs/_freeze_module: clang -Xlinker --lto-O0", "Programs/_testembed: clang"])

    def test_a_profile_of_gcc_is_left_to_cpythons_makefile(self):
        with (self.root / self.facts["source"] / "configure").open("a") as configure:
            configure.write("echo all: >Makefile; echo 'LLVM_PROF_MERGER=true' >>Makefile\n")
        self.assertEqual(self.made_with("pgo")[-1], "python")
        self.assertEqual([word for word in self.made_with("pgo") if "PROF" in word or "LINKCC" in word], [])

    def test_the_users_own_flags_stay_as_they_are(self):
        self.configure("CFLAGS_NODIST=-fPIE", "LDFLAGS_NODIST=-pie")
        self.quietly(build.configure, "pgo", self.facts)
        self.assertEqual(self.words_of("CFLAGS_NODIST", self.called("pgo")), ["-fPIE"])
        self.assertEqual(self.words_of("LDFLAGS_NODIST", self.called("pgo")), ["-pie"])

    def test_compiler_and_linker_agree_where_the_user_names_the_flags_of_one(self):
        for flag in ("CFLAGS_NODIST=-O2", "LDFLAGS_NODIST=-Wl,-z,now"):
            self.configure(flag)
            self.quietly(build.configure, "pgo", self.facts)
            self.assertEqual([word for word in self.called("pgo") if "-pie" in word], [], flag)

    def test_every_link_of_a_pgo_build_stays_where_it_is_without_lld_too(self):
        gcc = toolchain.Compiler(("CC=gcc",), False, "gcc")
        with unittest.mock.patch.object(toolchain, "find_compiler", lambda llvm: gcc):
            self.quietly(build.configure, "pgo", self.facts)
            with unittest.mock.patch.object(build.progress, "run", return_value=0) as run:
                build.make("pgo", ["python"])
        self.assertIn("LDFLAGS_NODIST=-no-pie", run.call_args.args[0])

    def test_every_link_of_an_lto_build_uses_lld(self):
        for variant, wanted in (("release", 1), ("ferrule", 0)):
            self.quietly(build.configure, variant, self.facts)
            with unittest.mock.patch.object(build.progress, "run", return_value=0) as run:
                build.make(variant, ["python"])
            command = run.call_args.args[0]
            self.assertEqual(command[0], "make")
            self.assertEqual(sum(word.startswith("LDFLAGS_NODIST=-fuse-ld=lld") for word in command), wanted, variant)


class Environment(Case):
    def test_variables_given_to_configure_hold_for_the_makes_after_it(self):
        self.environment(CC="gcc", CFLAGS="-g1 -O1")
        self.configure("--with-lto")
        self.environment()
        said = self.quietly(build.configure, "ferrule", self.facts)
        self.assertEqual(said, "")
        self.assertEqual(self.called().count("CC=gcc"), 1)
        self.assertIn("CFLAGS=-g1 -O1", self.called())
        self.assertNotIn("CC=/llvm/clang", self.called())

    def test_a_flag_wins_over_the_environment(self):
        self.environment(CC="gcc")
        self.configure("CC=tcc")
        self.assertIn("CC=tcc", self.called())
        self.assertNotIn("CC=gcc", self.called())

    def test_another_compiler_for_make_configures_anew(self):
        self.quietly(build.configure, "stock", self.facts)
        self.environment(CC="gcc")
        said = self.quietly(build.configure, "stock", self.facts)
        self.assertIn("made anew", said)
        self.assertIn("CC=gcc", self.called("stock"))


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
            self.quietly(build.configure, variant, self.facts)
        self.facts["patches_sha256"] = "b"
        self.assertEqual(self.quietly(build.configure, "release", self.facts), "")
        self.assertIn("made anew", self.quietly(build.configure, "pgo", self.facts))

    def test_other_modules_to_build_in_make_a_pgo_build_anew(self):
        for variant in ("release", "pgo"):
            self.quietly(build.configure, variant, self.facts)
        with unittest.mock.patch.object(build, "BUILT_IN", {"array"}):
            self.assertEqual(self.quietly(build.configure, "release", self.facts), "")
            self.assertIn("made anew", self.quietly(build.configure, "pgo", self.facts))

    def test_a_configure_that_failed_is_run_again_from_the_start(self):
        directory = self.root / "build" / "ferrule"
        self.configure()
        with unittest.mock.patch.object(build.progress, "run", lambda *_, **__: 1):
            with self.assertRaisesRegex(build.BuildError, "configuring ferrule failed"):
                self.configure("--disable-gil")
        self.assertFalse((directory / "ferrule-configure.json").exists())
        self.configure("--disable-gil")
        self.assertIn("--disable-gil", self.called())

    def test_a_cut_short_stamp_counts_as_none(self):
        self.configure()
        stamp = self.root / "build" / "ferrule" / "ferrule-configure.json"
        stamp.write_text(stamp.read_text()[:10])
        self.configure()
        self.assertIn(f"FERRULE_DIR={self.root}", json.loads(stamp.read_text()))

    def test_cleaning_removes_the_builds_and_keeps_source_and_flags(self):
        self.configure("--with-pydebug")
        self.quietly(build.configure, "stock-release", self.facts)
        build.clean()
        self.assertEqual({path.name for path in (self.root / "build").iterdir()}, {"src", "configure.flags"})
        build.clean()


if __name__ == "__main__":
    unittest.main()
