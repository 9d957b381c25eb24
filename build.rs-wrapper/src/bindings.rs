//! bindgen on CPython's internal headers.

use crate::{flags, write_if_changed, Outcome};
use std::path::Path;

/// Types that Rust takes as they are.
const TYPES: [&str; 6] = [
    "_PyThreadStateImpl",
    "_PyStackChunk",
    "_PyInterpreterFrame",
    "PyModuleDef",
    "PyModuleDef_Slot",
    "PyMethodDef",
];

/// Large structs that only lie in between: their size counts, not their fields.
const OPAQUE: [&str; 4] =
    ["_gc_thread_state", "_mimalloc_thread_state", "_Py_object_freelists", "_brc_thread_state"];

const FUNCTIONS: [&str; 15] = [
    "_PyObject_VirtualAlloc",
    "_PyObject_VirtualFree",
    "PyBool_FromLong",
    "PyDict_New",
    "PyDict_SetItemString",
    "PyList_Append",
    "PyList_New",
    "PyLong_FromSize_t",
    "PyModuleDef_Init",
    "PyThreadState_Get",
    "PyUnicode_FromString",
    "Py_DecRef",
    "Py_IncRef",
    "_Py_Dealloc",
    "_Py_FatalErrorFunc",
];

const VARIABLES: [&str; 7] = [
    "_Py_NoneStruct",
    "Py_mod_gil",
    "Py_mod_multiple_interpreters",
    "METH_NOARGS",
    "PY_VERSION",
    "_PyGC_BITS_DEFERRED",
    // What rust-core/build.rs makes cfgs of.
    "ferrule_.*",
];

const HEADERS: &str = "\
#include \"Python.h\"
#include \"pycore_interp.h\"
#include \"pycore_frame.h\"
#include \"pycore_tstate.h\"
#include \"pycore_obmalloc.h\"
#include \"pycore_gc.h\"
#ifdef Py_GIL_DISABLED
static const int ferrule_free_threaded = 1;
#endif
#if defined(Py_REF_DEBUG) || defined(Py_STATS)
static const int ferrule_counts_in_c = 1;
#endif
#if PY_VERSION_HEX >= 0x030e0000
static const int ferrule_py314 = 1;
#endif
";

/// Writes bindings for the headers that `cflags` lead to.
pub fn write(output: &Path, cflags: &[String]) -> Outcome<()> {
    let mut builder = bindgen::Builder::default()
        .header_contents("ferrule-bindings.h", HEADERS)
        .clang_args(flags::for_bindgen(cflags))
        .use_core()
        .generate_cstr(true)
        .derive_default(false)
        .derive_debug(false)
        .layout_tests(true)
        .merge_extern_blocks(true)
        .formatter(bindgen::Formatter::None)
        // The crate's own struct, which the header exports to C.
        .blocklist_type("_PyRust_DataStackState")
        .raw_line("use crate::data_stack::DataStackState as _PyRust_DataStackState;");
    for name in TYPES {
        builder = builder.allowlist_type(name);
    }
    for name in OPAQUE {
        builder = builder.opaque_type(name);
    }
    for name in FUNCTIONS {
        builder = builder.allowlist_function(name);
    }
    for name in VARIABLES {
        builder = builder.allowlist_var(name);
    }
    let bindings =
        builder.generate().map_err(|e| format!("bindgen cannot read CPython's headers: {e}"))?;
    write_if_changed(output, &bindings.to_string())
}
