"""tools/build.py: which command configures a build, and make's arguments."""

import os
import subprocess
import sys
import tempfile
import unittest
import unittest.mock
from pathlib import Path

from building import Case
from tools import build, configuring, errors, making, places, progress, toolchain, variants

PROFILES = Path(__file__).resolve().parents[2] / "packaging" / "profile"
# programs.py with one short program in place of its own.
ONE_PROGRAM = """
import sys
sys.path.insert(0, sys.argv.pop(1))
import programs
programs.PROGRAMS = {lambda: print("program", flush=True): 1}
sys.exit(programs.main())
"""
# Tests have another in its place.
REAL_FIND_COMPILER = toolchain.find_compiler


class Command(Case):
    def test_the_users_flags_go_to_configure_with_the_tools_chosen(self):
        self.configure("--with-pydebug", "--with-suffix=a b")
        called = self.called()
        self.assertEqual(called[:2], ["--with-pydebug", "--with-suffix=a b"])
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
            self.configured(variant)
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

    def test_options_of_the_code_generator_reach_compiler_and_linker(self):
        clang = toolchain.Compiler(("CC=/llvm/clang",), True, "clang", ("-a=1",))
        self.compiler = clang
        for variant in ("ferrule", "release"):
            self.configured(variant)
        for variant in ("ferrule", "release"):
            self.assertEqual(self.words_of("CFLAGS_NODIST", self.called(variant)), ["-mllvm", "-a=1"])
        self.assertEqual(self.words_of("LDFLAGS_NODIST", self.called("ferrule")), [])
        self.assertIn("-Wl,-mllvm,-a=1", self.words_of("LDFLAGS_NODIST", self.called("release")))

    def test_code_is_aligned_in_both_builds_that_are_measured_and_in_no_other(self):
        for variant, wanted in (("release", True), ("stock-release", True), ("ferrule", False), ("pgo", False)):
            self.configured(variant)
            linking = self.words_of("LDFLAGS_NODIST", self.called(variant))
            for option in variants.ALIGNED:
                self.assertEqual(f"-Wl,-mllvm,{option}" in linking, wanted, (variant, option))

    def test_with_a_profile_the_optimizer_gets_options_for_size(self):
        self.compiler = toolchain.Compiler(("CC=/llvm/clang",), True, "clang", ("-a=1",), ("-g=2",), ("-h=3",))
        for variant, compiled, linked in (
                ("pgo", ["-mllvm", "-a=1", "-mllvm", "-g=2", "-mllvm", "-h=3", "-fno-pie"], ["-Wl,-mllvm,-a=1", "-Wl,-mllvm,-g=2"]),
                ("ferrule", ["-mllvm", "-a=1"], [])):
            self.configured(variant)
            self.assertEqual(self.words_of("CFLAGS_NODIST", self.called(variant)), compiled)
            self.assertEqual([word for word in self.words_of("LDFLAGS_NODIST", self.called(variant)) if "mllvm" in word], linked)
        self.assertEqual((toolchain.clang(18).guided, toolchain.clang(18).guided_compiler), ((), ()))

    def test_llvm_19_keeps_a_jump_for_each_instruction(self):
        self.assertIn("-tail-dup-pred-size=5000", toolchain.clang(19).codegen)
        for major in (18, 20, 22):
            self.assertEqual(toolchain.clang(major).codegen, ())

    def test_the_pgo_builds_stay_where_they_are_linked_unless_they_are_shared(self):
        self.configured("pgo")
        self.assertEqual(self.words_of("CFLAGS_NODIST", self.called("pgo")), ["-fno-pie"])
        self.assertIn("-no-pie", self.words_of("LDFLAGS_NODIST", self.called("pgo")))
        self.configure("--enable-optimizations", "--enable-shared")
        self.assertEqual([word for word in self.called() if "-pie" in word], [])

    def test_the_build_does_not_know_where_the_clone_is(self):
        self.configured("ferrule")
        command = configuring.read_stamp(self.root / "build" / "ferrule" / "ferrule-configure.json")
        self.assertEqual(command[0], os.path.relpath(self.root / self.facts["source"] / "configure", self.root / "build" / "ferrule"))
        self.assertTrue(command[0].startswith("../"))

    def test_flags_for_the_best_build_give_the_one_that_make_pgo_gives(self):
        for flags in (("--enable-optimizations", "--with-lto"), ("--with-lto=yes", "--enable-optimizations"),
                      ("--enable-optimizations", "--with-lto=full")):
            self.configure(*flags)
            self.configured("pgo")
            mine, best = (sorted(word.replace(f"build/{variant}/", "") for word in self.called(variant))
                          for variant in ("ferrule", "pgo"))
            self.assertEqual(mine, best, flags)
            local = [(self.root / "build" / variant / "Modules/Setup.local").read_text() for variant in ("ferrule", "pgo")]
            self.assertEqual(local[0], local[1])
            self.assertEqual(making.profile_settings(places.BUILD / "ferrule", self.root),
                             making.profile_settings(places.BUILD / "pgo", self.root))
            self.assertNotEqual(making.profile_settings(places.BUILD / "pgo", self.root), [])

    def test_a_kind_of_lto_that_is_named_is_taken(self):
        self.configure("--enable-optimizations", "--with-lto=thin")
        self.assertIn("--with-lto=thin", self.called())
        self.assertNotIn("--with-lto=full", self.called())
        self.configure("--with-lto")
        self.assertIn("--with-lto", self.called())

    def test_the_pgo_builds_contain_the_modules_that_need_no_library(self):
        for variant in ("pgo", "release"):
            self.configured(variant)
        local = self.root / "build" / "pgo" / "Modules" / "Setup.local"
        self.assertEqual(local.read_text().splitlines(), ["*static*", "array arraymodule.c", "_json _json.c -DX"])
        self.assertFalse((self.root / "build" / "release" / "Modules" / "Setup.local").exists())

    def test_the_profile_comes_from_all_tests_unless_the_user_names_others(self):
        for variant in ("pgo", "release"):
            self.configured(variant)
        self.assertIn("--pgo-extended", self.words_of("PROFILE_TASK", self.called("pgo")))
        self.assertEqual(self.words_of("PROFILE_TASK", self.called("release")), [])
        self.environment(PROFILE_TASK="-m test.regrtest test_re")
        self.configured("pgo")
        self.assertEqual(self.words_of("PROFILE_TASK", self.called("pgo")), ["-m", "test.regrtest", "test_re"])

    def test_a_failed_test_does_not_end_the_training_and_a_crash_does(self):
        shell = configuring.training(self.facts, "pgo").replace("$$", "$")
        for status, expected in ((0, 0), (2, 0), (1, 1), (139, 1)):
            run = subprocess.run(["sh", "-c", f"python() {{ return {status}; }}; python {shell}"])
            self.assertEqual(run.returncode, expected, status)

    def test_the_programs_of_the_training_run_before_the_tests_and_end_as_these_do(self):
        programs, *tests = configuring.training({"series": "debian"}, "pgo").split()
        self.assertEqual((places.BUILD / "pgo" / programs).resolve(), places.ROOT.resolve() / "packaging" / "profile" / "programs.py")
        self.assertEqual(tests[:2], ["-m", "test"])
        for status in (0, 2):
            run = subprocess.run([sys.executable, "-c", ONE_PROGRAM, PROFILES, "-c", f"print('tests'); raise SystemExit({status})"],
                                 capture_output=True, text=True)
            self.assertEqual((run.returncode, run.stdout, run.stderr), (status, "program\ntests\n", ""))

    def test_debians_series_has_debians_modules_built_in_and_sees_to_failed_tests_itself(self):
        self.facts = {**self.facts, "series": "debian"}
        with (self.root / self.facts["source"] / "configure").open("a") as configure:
            configure.write("echo 'zlib zlibmodule.c -lz' >>Modules/Setup.stdlib\n")
        self.configured("pgo")
        self.assertIn("zlib zlibmodule.c -lz", (self.root / "build/pgo/Modules/Setup.local").read_text())
        self.assertNotIn("||", self.words_of("PROFILE_TASK", self.called("pgo")))

    def test_a_profile_that_was_made_before_takes_the_place_of_the_training(self):
        profile = self.root / "llvm-22.profdata"
        profile.write_bytes(b"one")
        tree = Path(os.path.relpath(places.ROOT / self.facts["source"], places.BUILD / "ferrule"))
        self.configure("--enable-optimizations", "PROFILE_USE=" + str(profile))
        with unittest.mock.patch.object(progress, "run", return_value=0) as run:
            self.quietly(build.make, "ferrule", [])
        self.assertEqual(run.call_args.args[0][-2:], ["build_all", f"CFLAGS_NODIST=-fprofile-use={profile} "
                                                           f"-mllvm -static-func-strip-dirname-prefix={len(tree.parts)}"])
        self.assertEqual(self.made_with("ferrule")[-1], "python")
        self.assertNotIn("build_all", self.made_with("pgo"))
        # Another one in its place makes other objects.
        (self.root / "build/ferrule/object.o").touch()
        self.configured("ferrule")
        self.assertTrue((self.root / "build/ferrule/object.o").exists())
        profile.write_bytes(b"two")
        self.configured("ferrule")
        self.assertFalse((self.root / "build/ferrule/object.o").exists())

    def test_a_profile_that_cannot_be_used_is_refused(self):
        profile = self.root / "llvm-22.profdata"
        with self.assertRaisesRegex(errors.BuildError, "there is no such file; without it the profile is made"):
            self.configure("--enable-optimizations", f"PROFILE_USE={profile}")
        profile.touch()
        with self.assertRaisesRegex(errors.BuildError, "is for a build with --enable-optimizations"):
            self.configure(f"PROFILE_USE={profile}")
        with self.assertRaisesRegex(errors.BuildError, "is a profile of LLVM, and the compiler is gcc"):
            self.configure("--enable-optimizations", f"PROFILE_USE={profile}", "CC=gcc")

    def test_a_directory_for_what_is_ferrules_own_is_on_the_path(self):
        self.configure("FERRULE_PATH=/usr/lib/own")
        self.assertIn("PYTHONPATH=/usr/lib/own", self.made_with("ferrule"))
        self.assertEqual([word for word in self.made_with("release") if word.startswith("PYTHONPATH=")], [])

    def test_a_profile_that_is_of_no_use_does_not_stop_a_pgo_build(self):
        for variant, wanted in (("pgo", 1), ("release", 0)):
            mergers = [word for word in self.made_with(variant) if word.startswith("LLVM_PROF_MERGER=")]
            self.assertEqual(mergers, ['LLVM_PROF_MERGER= /llvm/llvm-profdata merge -failure-mode=all -output="all"'
                                       ' "$(shell pwd)"/*.raw && rm -f $(abs_builddir)/*.profclangr'] * wanted)

    def test_llvm_counts_for_the_profile_and_each_binary_has_a_file(self):
        words = self.made_with("pgo")
        self.assertTrue([word for word in words if word.startswith("PGO_PROF_GEN_FLAG=-fprofile-generate -mllvm -static-func")])
        file, = [word for word in words if word.startswith("LLVM_PROF_FILE=")]
        self.assertIn("%p", file)
        self.assertIn("%m", file)
        self.assertEqual([word for word in self.made_with("release") if "PROF" in word], [])

    def test_the_compiler_gets_the_profile_that_is_merged(self):
        words = [word for word in self.made_with("pgo") if word.startswith("PGO_PROF_USE_FLAG=")]
        makefile = self.root / "build" / "pgo" / "Makefile"
        makefile.write_text("abs_builddir=/b\nall:\n\t@echo $(PGO_PROF_USE_FLAG)\n")
        run = subprocess.run(["make", "-s", "-f", makefile, *words], capture_output=True, text=True, check=True)
        self.assertEqual(run.stdout.split()[0], "-fprofile-use=/b/code.profclangd")

    def test_only_what_helps_to_build_and_to_test_is_linked_without_optimization(self):
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
            "Programs/_freeze_module: clang -Xlinker --lto-O0", "Programs/_testembed: clang -Xlinker --lto-O0"])

    def test_a_profile_of_gcc_is_left_to_cpythons_makefile(self):
        with (self.root / self.facts["source"] / "configure").open("a") as configure:
            configure.write("echo all: >Makefile; echo 'LLVM_PROF_MERGER=true' >>Makefile\n")
        self.assertEqual(self.made_with("pgo")[-1], "python")
        self.assertEqual([word for word in self.made_with("pgo") if "PROF" in word or "LINKCC" in word], [])

    def test_the_users_own_flags_stay_as_they_are(self):
        self.configure("--enable-optimizations", "CFLAGS_NODIST=-fPIE", "LDFLAGS_NODIST=-pie")
        self.assertEqual(self.words_of("CFLAGS_NODIST", self.called()), ["-fPIE"])
        self.assertEqual(self.words_of("LDFLAGS_NODIST", self.called()), ["-pie"])

    def test_a_sysroot_is_for_the_compiler_and_no_variable_of_configures(self):
        self.configure("SYSROOT=old")
        self.assertEqual(self.sysroot, str(Path("old").absolute()))
        self.assertFalse([word for word in self.called() if word.startswith("SYSROOT=")])
        self.assertIn(f"CC=/usr/lib/llvm-22/bin/clang --sysroot={self.sysroot}", toolchain.clang(22, self.sysroot).arguments)

    def test_a_sysroot_with_a_compiler_that_was_named_is_refused(self):
        with self.assertRaisesRegex(errors.BuildError, "--sysroot=/old"):
            REAL_FIND_COMPILER(22, "cc", "/old")

    def test_the_users_flags_for_the_interpreter_go_before_those_that_lto_needs(self):
        self.compiler = toolchain.Compiler(("CC=/llvm/clang",), True, "clang", ("-a=1",))
        self.configure("--with-lto", "CFLAGS_NODIST=-O2 -g", "LDFLAGS_NODIST=-Wl,-z,now")
        self.assertEqual(self.words_of("CFLAGS_NODIST", self.called()), ["-O2", "-g", "-mllvm", "-a=1"])
        self.assertEqual(self.words_of("LDFLAGS_NODIST", self.called())[:2], ["-Wl,-z,now", "-fuse-ld=lld"])
        self.assertTrue([word for word in self.made_with("ferrule") if word.startswith("LDFLAGS_NODIST=-Wl,-z,now -fuse-ld=lld")])

    def test_compiler_and_linker_agree_where_the_user_names_the_flags_of_one(self):
        for flag in ("CFLAGS_NODIST=-O2", "LDFLAGS_NODIST=-Wl,-z,now", "CFLAGS=-fPIE", "LDFLAGS=-pie"):
            self.configure("--enable-optimizations", flag)
            given = [word for word in self.called() if "pie" in word and word != flag]
            self.assertEqual(given, [], flag)

    def test_every_link_of_a_pgo_build_stays_where_it_is_without_lld_too(self):
        self.compiler = toolchain.Compiler(("CC=gcc",), False, "gcc")
        self.assertIn("LDFLAGS_NODIST=-no-pie", self.made_with("pgo"))

    def test_every_link_of_an_lto_build_uses_lld(self):
        for variant, wanted in (("release", 1), ("ferrule", 0)):
            words = self.made_with(variant)
            self.assertEqual(sum(word.startswith("LDFLAGS_NODIST=-fuse-ld=lld") for word in words), wanted, variant)

    def test_the_variants_that_are_measured_take_none_of_the_users_flags(self):
        self.configure("--with-pydebug", "--prefix", "/opt/x", "CFLAGS=-O0", "LDFLAGS_NODIST=-Wl,-s", "CC=tcc")
        for variant, facts in variants.VARIANTS.items():
            self.configured(variant)
            called = self.called(variant)
            self.assertEqual([word for word in ("CFLAGS=-O0", "LDFLAGS_NODIST=-Wl,-s") if word in called],
                             [] if facts.measured else ["CFLAGS=-O0", "LDFLAGS_NODIST=-Wl,-s"], variant)
            if facts.measured:
                self.assertNotIn("--with-pydebug", called, variant)
            # Where it goes, and what compiles it, is one choice for all.
            self.assertIn("--prefix=/opt/x", called, variant)
            self.assertIn("CC=tcc", called, variant)
        measured = {name for name, facts in variants.VARIANTS.items() if facts.measured}
        pairs = {f"{stock}{name}" for stock in ("", "stock-") for name in ("release", "pgo", "free-threaded")}
        self.assertEqual(measured, pairs | {"release-untuned", "stock-tuned"})

    def test_a_shared_library_is_found_beside_the_program_and_where_both_are_installed(self):
        with (self.root / self.facts["source"] / "configure").open("a") as configure:
            configure.write("printf '%s\\n' 'BINDIR=/o/bin' 'LIBDIR=/o/lib/arch' 'LINKFORSHARED=\t-Xlinker -export-dynamic' "
                            ">>Makefile\n")
        self.configure("--enable-shared")
        linking, = [word for word in self.made_with("ferrule") if word.startswith("LINKFORSHARED=")]
        makefile = self.root / "links"
        makefile.write_text("all:\n\t@$(MAKE) -s -f links each\neach:\n\t@printf '%s ' $(LINKFORSHARED)\n")
        run = subprocess.run(["make", "-s", "-f", makefile, linking], cwd=self.root, capture_output=True, text=True, check=True)
        self.assertEqual(run.stdout.split(), ["-Xlinker", "-export-dynamic", "-Wl,-rpath,$ORIGIN:$ORIGIN/../lib/arch"])
        for flags in (["--enable-shared", "LDFLAGS=-Wl,-rpath,/o/lib"], ["--enable-shared", "--disable-shared"], []):
            self.configure(*flags)
            self.assertEqual([word for word in self.made_with("ferrule") if "ORIGIN" in word], [], flags)


class Made(Case):
    RECORD = ("build_time_vars = {\n"
              " 'AR': '/usr/lib/llvm-22/bin/llvm-ar',\n 'CC': '/usr/lib/llvm-22/bin/clang',\n"
              " 'CONFIG_ARGS': \"'CC=/usr/lib/llvm-22/bin/clang' '--prefix=/usr'\",\n"
              " 'CXX': '/usr/lib/llvm-22/bin/clang++',\n 'LDSHARED': '/usr/lib/llvm-22/bin/clang -shared'}\n")

    def record_of(self, variant):
        self.configured(variant)
        record = places.BUILD / variant / "build" / "lib.linux-3.13" / "_sysconfigdata__linux_x.py"
        record.parent.mkdir(parents=True)
        record.write_text(self.RECORD)
        with unittest.mock.patch.object(progress, "run", return_value=0):
            self.quietly(build.make, variant, [])
        return eval(record.read_text().partition("=")[2])

    def test_extensions_are_compiled_with_tools_that_any_machine_has(self):
        self.assertEqual(self.record_of("stock"), {
            "AR": "ar", "CC": "cc", "CXX": "c++", "LDSHARED": "cc -shared",
            "CONFIG_ARGS": "'CC=/usr/lib/llvm-22/bin/clang' '--prefix=/usr'"})

    def test_a_compiler_that_the_user_named_stays_named(self):
        self.configure("CC=/usr/lib/llvm-22/bin/clang")
        self.assertEqual(self.record_of("stock")["CC"], "/usr/lib/llvm-22/bin/clang")

    def test_a_build_that_fails_is_not_finished(self):
        self.record_of("stock")
        self.assertTrue(making.finished("stock").exists())
        (places.logs()).mkdir(exist_ok=True)
        (places.logs() / "stock-make.log").write_text("ld: undefined reference to `x'\nmake[1]: *** [Makefile:1: all] Error 1\n")
        with unittest.mock.patch.object(progress, "run", return_value=2), \
                self.assertRaisesRegex(errors.BuildError, "building stock failed: ld: undefined reference to `x'"):
            self.quietly(build.make, "stock", [])
        self.assertFalse(making.finished("stock").exists())


class Causes(unittest.TestCase):
    def test_the_first_line_that_says_why_is_the_cause(self):
        command = "clang -c -DNDEBUG -g -O3 -Wall -Werror=implicit-function-declaration -o Python/x.o Python/x.c"
        for said, why in (
            ([command, "Python/x.c:3:1: error: unknown type name 'y'", command, "1 error generated."], "error: unknown type name"),
            ([command, "ferrule: cargo is not on PATH: run `make deps`", command], "cargo is not on PATH"),
            (["error[E0425]: cannot find value", "error: could not compile"], "E0425"),
            (["error[E0308]: mismatched types", "  --> core/lib.rs:9:5", "   |"], "core/lib.rs:9:5: error[E0308]: mismatched"),
            (["configure: error: no acceptable C compiler found in $PATH"], "no acceptable C compiler"),
            ([command, "/bin/sh: 1: llvm-ar: not found"], "llvm-ar: not found"),
            (["ld.lld: error: undefined symbol: z", "make: *** [a] Error 1", "error: of another target"], "undefined symbol: z"),
            (["make: *** No rule to make target 'x.c', needed by 'x.o'.  Stop."], "No rule to make target"),
            (["building the build driver (bindgen, cbindgen): a minute, once", command,
              "error: failed to get `memoffset`", "Caused by:", "  download failed", "Caused by:", "  no route to host"],
             "error: failed to get `memoffset`: no route to host"),
            (["the only line"], "the only line"),
        ):
            self.assertIn(why, errors.cause("\n".join([*said, "make[1]: *** [Makefile:9: x] Error 1"])), said)

    def test_what_a_test_printed_long_before_is_no_cause(self):
        self.assertEqual(errors.cause("ValueError: of a test\n" + "compiling\n" * 300 + "Killed\nmake: *** [x] Error 9"), "Killed")
        self.assertEqual(errors.cause(""), "")


class Tools(unittest.TestCase):
    """Those of this machine."""

    def setUp(self):
        self.place = Path(self.enterContext(tempfile.TemporaryDirectory()))

    def test_the_compiler_and_the_linker_here_know_their_options(self):
        compiler = toolchain.find_compiler(None)
        if not (compiler.guided and compiler.has_lld):
            self.skipTest(f"{compiler.description} gets no arguments")
        program = next(word[3:] for word in compiler.arguments if word.startswith("CC="))
        source = self.place / "one.c"
        source.write_text("int main(void) { return 0; }\n")
        words = [word for option in (*compiler.codegen, *compiler.guided, *compiler.guided_compiler) for word in ("-mllvm", option)]
        linking = [f"-Wl,-mllvm,{option}" for option in (*compiler.codegen, *compiler.guided)]
        for command in (["-c", *words, source, "-o", self.place / "one.o"],
                        # CPython's Makefile says it all twice.
                        ["-fuse-ld=lld", *linking, *linking, self.place / "one.o", "-o", self.place / "one"]):
            run = subprocess.run([program, "-O2", "-flto=full", *command], capture_output=True, text=True)
            self.assertEqual((run.returncode, run.stderr), (0, ""))
