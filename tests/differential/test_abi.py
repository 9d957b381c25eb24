"""What binary extensions and outside tools see: the same as in stock CPython.

Run by tests/run.py with FERRULE_PYTHON and STOCK_PYTHON naming the two builds.
"""

import json
import os
import re
import subprocess
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FERRULE = Path(os.environ["FERRULE_PYTHON"]).resolve()
STOCK = Path(os.environ["STOCK_PYTHON"]).resolve()
HEADER = ROOT / "rust-core" / "include" / "ferrule_core.h"

# The structures that extensions, debuggers and profilers read.
STRUCTURES = {
    "PyThreadState": "prev next interp eval_breaker current_frame exc_info dict thread_id native_thread_id"
    " context id datastack_chunk datastack_top datastack_limit exc_state threading_local_sentinel",
    "_PyThreadStateImpl": "base asyncio_running_loop qsbr mem_free_queue",
    "PyInterpreterState": "ceval threads runtime gc imports sysdict builtins eval_frame co_extra_user_count"
    " co_extra_freefuncs types dtoa static_objects _initial_thread",
    "PyCodeObject": "co_consts co_flags co_framesize co_nlocalsplus co_filename co_qualname co_linetable"
    " _co_firsttraceable co_extra co_code_adaptive",
    "_PyInterpreterFrame": "f_executable previous f_funcobj f_globals f_builtins f_locals frame_obj instr_ptr"
    " stacktop return_offset owner localsplus",
    "_PyStackChunk": "previous size top data",
    "PyGenObject": "gi_weakreflist gi_name gi_exc_state gi_frame_state gi_iframe",
    "struct _frame": "f_back f_frame f_trace f_lineno f_extra_locals f_locals_cache _f_frame_data",
    "_PyRuntimeState": "debug_offsets _finalizing interpreters main_thread xi allocators autoTSSkey _main_interpreter",
}

# Additions to the C API, which CPython's own headers declare where Py_FERRULE is defined.
FRAME_HOOKS = ROOT / "overlay" / "Include" / "cpython" / "framehook.h"
PUBLIC = {"PyUnstable_Eval_ReleaseCodeExtraIndex"} | set(
    re.findall(r"\b(PyUnstable_\w+)\(", FRAME_HOOKS.read_text()))

# These end with a thread state, at whose end is Ferrule's own state.
GROWN = ("_PyThreadStateImpl", "PyInterpreterState", "_PyRuntimeState")


def output(*command, **options):
    result = subprocess.run([str(word) for word in command], capture_output=True, text=True, **options)
    if result.returncode:
        raise AssertionError(f"{command[0]} failed:\n{result.stdout}{result.stderr}")
    return result.stdout


def facts(python, *names):
    code = f"import sysconfig, json; print(json.dumps([sysconfig.get_config_var(n) for n in {names!r}]))"
    return json.loads(output(python, "-c", code))


def linked(python):
    """The file that the interpreter is in: the program, or the library that all of it is in."""
    is_shared, library = facts(python, "Py_ENABLE_SHARED", "INSTSONAME")
    return python.parent / library if is_shared else python


def symbols(file, *options):
    return {line.split()[-1].partition("@")[0] for line in output("nm", *options, file).splitlines()}


def exported(python):
    """The dynamic symbols that the interpreter defines."""
    return symbols(linked(python), "-D", "--defined-only")


def smelly(python):
    """The symbols without Python's prefixes that `make smelly` finds in a build."""
    done = subprocess.run(["make", "smelly"], cwd=python.parent, capture_output=True, text=True)
    found = set(re.findall(r"^Smelly symbol: (\S+)", done.stdout, re.MULTILINE))
    if (done.returncode != 0) != bool(found):
        raise AssertionError(f"make smelly failed:\n{done.stdout}{done.stderr}")
    return found


def header_functions():
    return set(re.findall(r"\b(_Py\w+)\(", HEADER.read_text()))


def made_with(python, variable):
    """The words of a variable of the Makefile that made the interpreter."""
    return output("make", "-s", "-f", "Makefile", "-f", "-", "print", cwd=python.parent,
                  input=f"print:\n\t@echo $({variable})\n").split()


def core_flags(python):
    """The flags that the build gave to the interpreter's own C files."""
    return made_with(python, "PY_CORE_CFLAGS")


def compile_c(python, source, *extra):
    """Compiles C text with the build's own compiler and flags; returns the finished process."""
    command = [*made_with(python, "CC"), *core_flags(python), "-Wno-everything", *extra, "-x", "c", "-"]
    return subprocess.run(command, input=source, capture_output=True, text=True, cwd=python.parent)


# The interpreter of a profile-guided build is made to lie at one address, by flags for the linker too.
AS_A_PROGRAM = ("-fno-lto", "-fPIE")

OFFSETS = """
#include "Python.h"
#include "pycore_code.h"
#include "pycore_frame.h"
#include "pycore_interp.h"
#include "pycore_runtime.h"
#include "pycore_tstate.h"
#include <stdio.h>
int main(void) {
%s
    return 0;
}
"""


def offsets(python):
    lines = []
    for structure, fields in STRUCTURES.items():
        lines += [f'printf("{structure}.{field} %zu\\n", offsetof({structure}, {field}));' for field in fields.split()]
        if structure not in GROWN:
            lines.append(f'printf("sizeof {structure} %zu\\n", sizeof({structure}));')
    with tempfile.TemporaryDirectory() as directory:
        program = os.path.join(directory, "offsets")
        result = compile_c(python, OFFSETS % "\n".join(lines), *AS_A_PROGRAM, "-o", program)
        if result.returncode:
            raise AssertionError(result.stderr)
        return dict(line.rsplit(" ", 1) for line in output(program).splitlines())


class ExportedSymbols(unittest.TestCase):
    def test_every_symbol_that_stock_exports_is_there(self):
        stock = exported(STOCK)
        self.assertIn("Py_Initialize", stock)
        self.assertEqual(stock - exported(FERRULE), set())

    def test_what_is_added_is_the_committed_header_and_the_module(self):
        added = exported(FERRULE) - exported(STOCK)
        self.assertLessEqual(added, header_functions() | {"PyInit__framecore"} | PUBLIC)
        self.assertLessEqual(PUBLIC, added)
        self.assertIn("_PyRust_PushFrameUnchecked", added)

    def test_make_smelly_finds_what_it_finds_on_stock(self):
        # Of an archive of LLVM's bitcode it names local symbols too.
        if found := smelly(FERRULE):
            self.assertEqual(found, smelly(STOCK))


class Layout(unittest.TestCase):
    maxDiff = None

    def test_offsets_and_sizes_equal_those_of_stock(self):
        self.assertEqual(offsets(FERRULE), offsets(STOCK))

    def test_debug_offsets_equal_those_of_stock(self):
        # What out-of-process profilers read at the start of _PyRuntime.
        ours, theirs = (self.debug_offsets(python) for python in (FERRULE, STOCK))
        self.assertGreater(len(theirs), 50)
        self.assertEqual(ours, theirs)

    def debug_offsets(self, python):
        """The table's words; the sizes of the two structures that grew are named instead."""
        grown = ("PyInterpreterState", "_PyRuntimeState")
        sizes = "".join(f'printf("%zu\\n", sizeof({name}));' for name in ("_Py_DebugOffsets", *grown))
        with tempfile.TemporaryDirectory() as directory:
            program = os.path.join(directory, "sizes")
            result = compile_c(python, OFFSETS % sizes, *AS_A_PROGRAM, "-o", program)
            self.assertEqual(result.returncode, 0, result.stderr)
            table, *others = map(int, output(program).split())
        names = dict(zip(others, grown))
        code = ("import ctypes; table = (ctypes.c_uint64 * %d).in_dll(ctypes.pythonapi, '_PyRuntime'); "
                "print(*table)" % (table // 8))
        return [names.get(word, word) for word in map(int, output(python, "-c", code).split())]

    def test_a_wrong_layout_stops_the_c_compiler(self):
        headers = ("Python.h", "pycore_frame.h", "pycore_interp.h", "pycore_tstate.h", "ferrule_layout.h")
        source = "".join(f'#include "{name}"\n' for name in headers)
        right = compile_c(FERRULE, source, "-fsyntax-only")
        self.assertEqual(right.returncode, 0, right.stderr)
        wrong = compile_c(FERRULE, source, "-fsyntax-only", "-DFERRULE_WRONG_LAYOUT")
        self.assertNotEqual(wrong.returncode, 0)
        self.assertIn("PyThreadState.datastack_chunk is not where", wrong.stderr)

    def test_a_wrong_layout_stops_rustc(self):
        with tempfile.TemporaryDirectory() as directory:
            result = subprocess.run(
                [ROOT / "build.rs-wrapper" / "run", "object", "--output", f"{directory}/core.o", "--work-dir", directory,
                 "--cfg", "ferrule_wrong_layout", "--", *core_flags(FERRULE)],
                capture_output=True, text=True, cwd=FERRULE.parent)
        self.assertNotEqual(result.returncode, 0)
        self.assertIn("const_assert_eq!(offset_of!(PyThreadState, datastack_chunk)", result.stderr)


class RustObject(unittest.TestCase):
    def test_the_committed_header_is_what_cbindgen_writes(self):
        output(ROOT / "build.rs-wrapper" / "run", "header", "--check")

    def test_the_object_has_no_path_to_a_panic(self):
        rust_core = FERRULE.parent / "Python" / "rust_core.o"
        strange = {name for name in symbols(rust_core, "-u") if not re.match(r"_?Py", name)}
        # LLVM may turn a loop into one of the first three; the length of a C string is for C to measure.
        allowed = {"memcpy", "memmove", "memset", "strlen"}
        if rust_core.read_bytes().startswith(b"BC"):
            # LLVM's bitcode: functions name what would unwind them, until the link finds that they never are.
            allowed.add("rust_eh_personality")
            names = symbols(linked(FERRULE))
            self.assertIn("_PyRust_PushFrameUnchecked", names)
            self.assertEqual({name for name in names if re.search("rust_eh_personality|rust_begin_unwind|panicking", name)}, set())
        self.assertLessEqual(strange, allowed)

    def test_sysconfig_identifies_the_build(self):
        self.assertEqual(facts(FERRULE, "RUST_CORE"), [1])
        self.assertEqual(facts(STOCK, "RUST_CORE"), [0])
