"""What a Ferrule build says about itself."""

import platform
import re
import subprocess
import sys
import sysconfig
import unittest

from support import STOCK_PYTHON, ProgramTestCase, framecore, needs_framecore, needs_stock, run_program


@needs_framecore
class FramecoreInfo(unittest.TestCase):
    def setUp(self):
        self.info = framecore.info()

    def test_info_has_exactly_the_documented_keys(self):
        self.assertEqual(set(self.info), {"version", "cpython", "debian_revision", "rust", "rustc", "llvm",
                                          "cross_lto", "debug_assertions"})

    def test_versions_are_strings_of_numbers_with_dots(self):
        for key in ("version", "cpython", "rustc", "llvm"):
            with self.subTest(key):
                self.assertRegex(self.info[key], r"^\d+\.\d+")

    def test_the_cpython_version_is_the_one_of_sys_version_info(self):
        self.assertEqual(self.info["cpython"], "%d.%d.%d" % sys.version_info[:3])

    def test_the_debian_revision_is_absent_or_one_of_this_version(self):
        revision = self.info["debian_revision"]
        if revision is not None:
            self.assertTrue(revision.startswith(self.info["cpython"] + "-"), revision)

    def test_the_rust_parts_are_named(self):
        self.assertEqual(self.info["rust"],
                         ["data_stack", "stack_refs", "code_extra", "frame", "frame_lifecycle", "eval_frame", "frame_hooks"])
        self.assertEqual(len(set(self.info["rust"])), len(self.info["rust"]))

    def test_switches_are_booleans(self):
        self.assertIs(type(self.info["cross_lto"]), bool)
        self.assertIs(type(self.info["debug_assertions"]), bool)

    def test_each_call_gives_a_fresh_dict(self):
        self.info.clear()
        self.assertTrue(framecore.info())
        framecore.info()["rust"].clear()
        self.assertTrue(framecore.info()["rust"])

    def test_framecore_is_built_in(self):
        self.assertIn("_framecore", sys.builtin_module_names)
        self.assertEqual(framecore.__spec__.origin, "built-in")

    def test_functions_refuse_arguments(self):
        for function in (framecore.info, framecore.datastack_stats):
            with self.subTest(function.__name__), self.assertRaises(TypeError):
                function(1)


@needs_framecore
class SysVersion(unittest.TestCase):
    def test_sys_version_names_ferrule_and_its_version(self):
        self.assertIn("Ferrule", sys.version)
        self.assertIn(framecore.info()["version"], sys.version)

    def test_sys_version_names_the_debian_revision_whose_fixes_are_in(self):
        revision = framecore.info()["debian_revision"]
        if revision is None:
            self.assertNotIn("Debian", sys.version.partition("[")[0])
        else:
            self.assertIn(f" with Debian {revision}, ", sys.version)
            self.assertIn(revision, platform.python_build()[0])

    def test_sys_version_has_the_whole_time_of_the_build(self):
        self.assertRegex(sys.version, r", \w{3} [ \d]\d \d{4}, \d\d:\d\d:\d\d\) \[")

    def test_help_names_the_manual_page(self):
        self.assertIn("man ferrule", subprocess.run([sys.executable, "--help"], capture_output=True, text=True).stdout)

    def test_platform_still_parses_sys_version(self):
        self.assertEqual(platform.python_version(), framecore.info()["cpython"])
        self.assertEqual(platform.python_implementation(), "CPython")
        self.assertRegex(platform.python_compiler(), r"(?i)gcc|clang")
        number, date = platform.python_build()
        self.assertTrue(number)
        self.assertRegex(date, r"\d{4}")

    def test_sys_version_begins_like_that_of_any_cpython(self):
        self.assertTrue(re.match(r"\d+\.\d+\.\d+\+? (experimental free-threading build )?\(", sys.version), sys.version)

    def test_cache_tag_and_implementation_are_those_of_cpython(self):
        self.assertEqual(sys.implementation.name, "cpython")
        self.assertEqual(sys.implementation.cache_tag, "cpython-%d%d" % sys.version_info[:2])


@needs_framecore
class Sysconfig(unittest.TestCase):
    def test_sysconfig_says_that_the_core_is_rust(self):
        self.assertTrue(sysconfig.get_config_var("RUST_CORE"))

    def test_sysconfig_and_framecore_agree_on_the_version(self):
        self.assertEqual(str(sysconfig.get_config_var("FERRULE_VERSION")), framecore.info()["version"])


@needs_framecore
@unittest.skipUnless(sysconfig.is_python_build(), "an installed interpreter is not made again")
class MadeAgain(unittest.TestCase):
    def test_c_is_compiled_again_where_a_header_of_the_core_has_changed(self):
        # Its structures lie within C's: objects of both layouts in one interpreter would read each other's memory.
        build, ferrule = (sysconfig.get_config_var(name) for name in ("abs_builddir", "FERRULE_DIR"))
        changed = f"{ferrule}/rust-core/include/ferrule_core.h"
        done = subprocess.run(["make", "-C", build, "-n", "-o", "Makefile", "-W", changed, "Python/pystate.o"], stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        self.assertEqual(done.returncode, 0, done.stdout)
        self.assertIn("/Python/pystate.c", done.stdout)


class AgainstStock(ProgramTestCase):
    @needs_framecore
    @needs_stock
    def test_tags_that_wheels_and_extensions_go_by_equal_those_of_stock(self):
        source = """
import sys, sysconfig
for name in ("SOABI", "EXT_SUFFIX", "Py_GIL_DISABLED", "Py_DEBUG", "SIZEOF_VOID_P"):
    print(name, sysconfig.get_config_var(name))
print(sys.implementation.cache_tag, sys.hexversion, sys.abiflags, sys.api_version, sysconfig.get_platform())
"""
        stock = run_program(source, python=STOCK_PYTHON)
        self.assertEqual(stock.returncode, 0, stock.stderr)
        flags = run_program("import sys; print(sys.abiflags)", python=STOCK_PYTHON).stdout.strip()
        if flags != sys.abiflags:
            self.skipTest(f"stock was built with other flags: {flags!r}, not {sys.abiflags!r}")
        self.assertEqual(self.assert_program_succeeds(source), stock.stdout)

    @needs_framecore
    @needs_stock
    def test_stock_has_no_framecore(self):
        done = run_program("import _framecore", python=STOCK_PYTHON)
        self.assertEqual(done.returncode, 1)
        self.assertIn("ModuleNotFoundError", done.stderr)
