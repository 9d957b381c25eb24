"""The header of frame hooks says what Rust defines, and every standard of C and C++ takes it.

It is written by hand. ferrule_core.h, which is generated from Rust, declares the same functions, so a compiler that
sees both refuses those whose types differ.
"""

import os
import re
import shlex
import subprocess
import sysconfig
import tempfile
import unittest

from support import ROOT, needs_framecore

PUBLIC = os.path.join(ROOT, "overlay", "Include", "cpython", "framehook.h")
GENERATED = os.path.join(ROOT, "rust-core", "include", "ferrule_core.h")
PYTHON_INCLUDES = sorted({sysconfig.get_path("include"), sysconfig.get_path("platinclude")})
STRICT = ("-Wall", "-Wextra", "-Werror")
NO_LIMIT = "-ferror-limit=0"    # clang stops after twenty errors; gcc neither does, nor knows the flag



def own_compiler():
    """What this interpreter is compiled with. sysconfig names a compiler that any machine has."""
    try:
        with open(sysconfig.get_makefile_filename(), encoding="utf-8") as makefile:
            return re.search(r"^CC=\s*(.*)$", makefile.read(), re.MULTILINE)[1]
    except FileNotFoundError:
        return None


# The one that extensions are compiled with here, and the interpreter's own.
COMPILERS = {" ".join(command): command for command in map(shlex.split, filter(None, (
    os.environ.get("CC") or "cc", own_compiler())))}.values()

BOTH = """
#include <Python.h>
#include <cpython/framehook.h>
/* In Rust a verdict is an int: an enumeration must not hold any other number there. C passes them alike. */
#if defined(__GNUC__) && !defined(__clang__) && __GNUC__ >= 13
#  pragma GCC diagnostic ignored "-Wenum-int-mismatch"
#endif
#include <ferrule_core.h>
"""

CONSTANT = re.compile(r"\b(?:PyUnstable|_PyRust)_(FRAMEHOOK_\w+)( = | )-?\d+")
# In the public header: the result, the name, the parameters.
DECLARATION = re.compile(r"PyAPI_FUNC\(([^)]*)\)\s+(\w+)\(([^;]*)\);")


def read(path):
    """A header without its comments."""
    with open(path, encoding="utf-8") as file:
        return re.sub(r"/\*.*?\*/", "", file.read(), flags=re.DOTALL)


def functions(header):
    """The names of what a header declares as functions, of those that are about frame hooks."""
    return set(re.findall(r"\b(PyUnstable_\w*(?:FrameHook|HookFrame)\w*)\((?!\*)", header))


def constants(header):
    return {found[1] for found in CONSTANT.finditer(header)}


def compiled(compiler, source, *flags, language="c"):
    """What the compiler complains of, and whether it refuses."""
    done = subprocess.run([*compiler, "-x", language, "-fsyntax-only", *flags, "-"], input=source,
                          capture_output=True, text=True, env={**os.environ, "LC_ALL": "C"})
    return done.stderr, done.returncode != 0


@needs_framecore
class OneInterface(unittest.TestCase):
    def setUp(self):
        self.public, self.generated = read(PUBLIC), read(GENERATED)
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.directory = temporary.name

    def compare(self, compiler, public):
        """Have the compiler compare the generated header with this text of the public one."""
        os.makedirs(os.path.join(self.directory, "cpython"), exist_ok=True)
        with open(os.path.join(self.directory, "cpython", "framehook.h"), "w", encoding="utf-8") as file:
            file.write(public)
        source = BOTH + "".join(f'_Static_assert((int)PyUnstable_{name} == _PyRust_{name}, "{name} differs");\n'
                                for name in sorted(constants(self.public)))
        includes = (self.directory, os.path.dirname(GENERATED), *PYTHON_INCLUDES)
        flags = ["-std=c11", *STRICT, *(f"-I{path}" for path in includes)]
        if not compiled(compiler, "", NO_LIMIT)[1]:
            flags.append(NO_LIMIT)
        return compiled(compiler, source, *flags)

    def assert_refused(self, changed, complaints):
        """Each compiler refuses the changed header, and has all of these complaints."""
        self.assertTrue(complaints)
        for compiler in COMPILERS:
            said, refused = self.compare(compiler, changed)
            self.assertTrue(refused)
            missing = [complaint for complaint in complaints if not re.search(complaint, said)]
            self.assertEqual(missing, [], f"{compiler} says:\n{said}")

    def test_both_headers_declare_the_same_functions(self):
        self.assertEqual(functions(self.public), functions(self.generated))
        self.assertEqual(functions(self.public), {found[2] for found in DECLARATION.finditer(self.public)})

    def test_both_headers_define_the_same_constants(self):
        self.assertEqual(constants(self.public), constants(self.generated))
        self.assertEqual(constants(self.public), set(re.findall(r"\bPyUnstable_(FRAMEHOOK_\w+)", self.public)))

    def test_a_compiler_finds_their_types_and_values_equal(self):
        for compiler in COMPILERS:
            self.assertEqual(self.compare(compiler, self.public), ("", False))

    def test_a_compiler_refuses_another_result_of_any_function(self):
        self.assert_refused(DECLARATION.sub(r"PyAPI_FUNC(double) \2(\3);", self.public),
                            [conflict(name) for name in functions(self.public)])

    def test_a_compiler_refuses_a_further_parameter_of_any_function(self):
        self.assert_refused(DECLARATION.sub(r"PyAPI_FUNC(\1) \2(\3, int further);", self.public),
                            [conflict(name) for name in functions(self.public)])

    def test_a_compiler_refuses_another_type_of_any_parameter(self):
        most = max(found[3].count(",") for found in DECLARATION.finditer(self.public)) + 1
        for position in range(most):
            changed = []

            def with_another_type(found):
                parameters = found[3].split(",")
                if len(parameters) <= position:
                    return found[0]
                parameters[position] = "double replaced"
                changed.append(conflict(found[2]))
                return f"PyAPI_FUNC({found[1]}) {found[2]}({','.join(parameters)});"

            with self.subTest(position=position):
                self.assert_refused(DECLARATION.sub(with_another_type, self.public), changed)

    def test_a_compiler_refuses_another_type_of_hook_or_handle(self):
        for before, after, function in (
                ("PyCodeObject *(*_PyFrameHookFunction)(", "PyObject *(*_PyFrameHookFunction)(", "AddFrameHook"),
                ("(*_PyFrameHookFunction)(", "(*_PyFrameHookFunction)(void *, ", "RemoveFrameHook"),
                ("void *user_data, PyCodeObject **", "PyObject *user_data, PyCodeObject **", "AddFrameHookEx"),
                ("typedef long long PyUnstable_FrameHookId", "typedef long PyUnstable_FrameHookId", "EnableFrameHook")):
            with self.subTest(after):
                self.assertEqual(self.public.count(before), 1)
                self.assert_refused(self.public.replace(before, after), [conflict("PyUnstable_" + function)])

    def test_a_compiler_refuses_another_value_of_any_constant(self):
        self.assert_refused(CONSTANT.sub(r"PyUnstable_\1\g<2>77", self.public),
                            [f"{name} differs" for name in constants(self.public)])


def conflict(function):
    return rf"conflicting types for \W{function}\W"


@needs_framecore
class EveryStandard(unittest.TestCase):
    """With Python.h as a system header: only what is in ours is looked at."""

    SOURCE = "#include <Python.h>\n#include <cpython/framehook.h>\n"

    def flags(self, standard):
        return (f"-std={standard}", *STRICT, "-Wpedantic", *(f"-isystem{path}" for path in PYTHON_INCLUDES),
                f"-I{os.path.dirname(os.path.dirname(PUBLIC))}")

    def test_c_from_c99_on_takes_the_header(self):
        for compiler in COMPILERS:
            for standard in ("c99", "c11", "c17"):
                with self.subTest(compiler=compiler, standard=standard):
                    self.assertEqual(compiled(compiler, self.SOURCE, *self.flags(standard)), ("", False))

    def test_cplusplus_from_cplusplus11_on_takes_the_header(self):
        # gcc alone is there without g++ on some machines.
        able = [compiler for compiler in COMPILERS if not compiled(compiler, "", language="c++")[1]]
        self.assertTrue(able, "no compiler here knows C++")
        for compiler in able:
            for standard in ("c++11", "c++14", "c++17", "c++20"):
                with self.subTest(compiler=compiler, standard=standard):
                    self.assertEqual(compiled(compiler, self.SOURCE, *self.flags(standard), language="c++"),
                                     ("", False))


if __name__ == "__main__":
    unittest.main()
