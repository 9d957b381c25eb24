"""The header of frame hooks by itself: every standard of C and C++ accepts it, and an extension that comes with a copy of it
loads on every CPython.

cbindgen makes it from Rust, so it declares what the core defines.
"""

import itertools
import os
import re
import shlex
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import unittest

from support import ROOT, STOCK_PYTHON, needs_framecore, needs_stock, run_program

HEADER = os.path.join(ROOT, "overlay", "Include", "cpython", "framehook.h")
OPTIONAL = "-DFRAMEHOOK_OPTIONAL"


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


def functions():
    """The names of the functions that the header declares."""
    with open(HEADER, encoding="utf-8") as file:
        return sorted(set(re.findall(r"\bPyUnstable_\w+(?=\()", re.sub(r"/\*.*?\*/", "", file.read(), flags=re.DOTALL))))


class EveryStandard(unittest.TestCase):
    """With Python.h as a system header: only what is in ours is checked."""

    INCLUDES = (*(f"-isystem{path}" for path in sorted({sysconfig.get_path("include"), sysconfig.get_path("platinclude")})),
                f"-I{os.path.dirname(os.path.dirname(HEADER))}")

    def compiled(self, compiler, source, *flags):
        """What the compiler writes, and whether it fails."""
        done = subprocess.run([*compiler, "-fsyntax-only", "-Wall", "-Wextra", "-Wpedantic", "-Werror", *self.INCLUDES, *flags, "-"],
                              input=source, capture_output=True, text=True, env={**os.environ, "LC_ALL": "C"})
        return done.stderr, done.returncode != 0

    def check(self, language, standards, compilers):
        source = "#include <Python.h>\n#include <cpython/framehook.h>\nint hooks(void) { return FrameHook_Available(); }\n"
        for compiler, standard, flags in itertools.product(compilers, standards, ((), (OPTIONAL,))):
            with self.subTest(compiler=compiler, standard=standard, flags=flags):
                self.assertEqual(self.compiled(compiler, source.replace("int ", "int hooks(void);\nint ", 1), "-x", language,
                                               f"-std={standard}", *flags), ("", False))

    def test_c_from_c99_on_accepts_the_header(self):
        self.check("c", ("c99", "c11", "c17"), COMPILERS)

    def test_cplusplus_from_cplusplus11_on_accepts_the_header(self):
        # gcc alone is there without g++ on some machines.
        able = [compiler for compiler in COMPILERS if not self.compiled(compiler, "", "-x", "c++")[1]]
        self.assertTrue(able, "no compiler here knows C++")
        self.check("c++", ("c++11", "c++14", "c++17", "c++20"), able)

    def test_it_is_not_for_the_limited_api_and_not_before_python_h(self):
        for compiler in COMPILERS:
            for source, message in (("#define Py_LIMITED_API 0x030d0000\n#include <Python.h>\n", "do not define Py_LIMITED_API"),
                                    ("", "include Python.h before")):
                said, failed = self.compiled(compiler, source + "#include <cpython/framehook.h>\n", "-x", "c")
                self.assertTrue(failed)
                self.assertIn(message, said)


EXTENSION = """
#include <Python.h>
#include "framehook.h"

static const struct {
    const char *name;
    void (*function)(void);
} functions[] = {
%s
};

static PyObject *
available(PyObject *module, PyObject *ignored)
{
    (void)module, (void)ignored;
    return PyLong_FromLong(FrameHook_Available());
}

/* The names of the functions that the interpreter has. */
static PyObject *
found(PyObject *module, PyObject *ignored)
{
    (void)module, (void)ignored;
    PyObject *names = PyList_New(0);
    for (size_t i = 0; names != NULL && i < Py_ARRAY_LENGTH(functions); i++) {
        PyObject *name = functions[i].function == NULL ? NULL : PyUnicode_FromString(functions[i].name);
        if (name != NULL && PyList_Append(names, name) < 0) {
            Py_CLEAR(names);
        }
        Py_XDECREF(name);
    }
    return names;
}

static PyMethodDef methods[] = {
    {"available", available, METH_NOARGS, NULL}, {"found", found, METH_NOARGS, NULL}, {NULL, NULL, 0, NULL},
};

static struct PyModuleDef definition = {PyModuleDef_HEAD_INIT, .m_name = "withcopy", .m_methods = methods};

PyMODINIT_FUNC
PyInit_withcopy(void)
{
    return PyModuleDef_Init(&definition);
}
"""
INCLUDES = "import sysconfig; print(sysconfig.get_path('include'), sysconfig.get_path('platinclude'), sep='\\n')"


class WithACopy(unittest.TestCase):
    """An extension that has nothing of Ferrule but a copy of the header."""

    def outcome(self, python, *flags):
        """What the extension prints in that interpreter: FrameHook_Available(), and the functions that are there."""
        with tempfile.TemporaryDirectory() as directory:
            shutil.copy(HEADER, directory)
            source = os.path.join(directory, "withcopy.c")
            with open(source, "w", encoding="utf-8") as file:
                file.write(EXTENSION % "\n".join(f'    {{"{name}", (void (*)(void)){name}}},' for name in functions()))
            includes = run_program(INCLUDES, python=python).stdout.splitlines()
            done = subprocess.run([*next(iter(COMPILERS)), "-std=c11", "-fPIC", "-shared", "-Wall", "-Wextra", "-Werror", *flags,
                                   *(f"-I{path}" for path in includes), source, "-o", os.path.join(directory, "withcopy.so")],
                                  capture_output=True, text=True)
            self.assertEqual((done.stderr, done.returncode), ("", 0))
            done = run_program("import sys\nsys.path.append(sys.argv[1])\nimport withcopy\n"
                               "print(withcopy.available(), *withcopy.found())", directory, python=python)
            return done.stdout.split() or done.stderr

    @needs_framecore
    def test_it_finds_every_function_where_there_are_frame_hooks(self):
        for flags in (), (OPTIONAL,):
            with self.subTest(flags=flags):
                self.assertEqual(self.outcome(sys.executable, *flags), ["1", *functions()])

    @needs_stock
    def test_it_loads_on_a_stock_cpython_if_frame_hooks_are_optional(self):
        self.assertEqual(self.outcome(STOCK_PYTHON, OPTIONAL), ["0"])
        self.assertRegex(self.outcome(STOCK_PYTHON), "ImportError: .*undefined symbol: PyUnstable_")
