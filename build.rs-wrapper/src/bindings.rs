//! bindgen on CPython's internal headers.

use crate::{flags, write_if_changed, Outcome};
use std::path::Path;

/// Types that Rust takes as they are.
const TYPES: [&str; 7] = [
    "_PyThreadStateImpl",
    "_PyStackChunk",
    "_PyInterpreterFrame",
    "PyInterpreterState",
    "PyModuleDef",
    "PyModuleDef_Slot",
    "PyMethodDef",
];

/// Large structs that only lie in between: their size counts, not their fields.
const OPAQUE: [&str; 4] =
    ["_gc_thread_state", "_mimalloc_thread_state", "_Py_object_freelists", "_brc_thread_state"];

const FUNCTIONS: [&str; 18] = [
    "_PyEval_EvalFrameDefault",
    "_PyEval_EvaluatorChanged",
    "_PyEval_StartTheWorld",
    "_PyEval_StopTheWorld",
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
    "_Py_FatalErrorFunc",
];

const VARIABLES: [&str; 5] =
    ["_Py_NoneStruct", "Py_mod_gil", "Py_mod_multiple_interpreters", "METH_NOARGS", "PY_VERSION"];

const HEADERS: &str = "\
#include \"Python.h\"
#include \"pycore_interp.h\"
#include \"pycore_ceval.h\"
#include \"pycore_pystate.h\"
#include \"pycore_frame.h\"
#include \"pycore_tstate.h\"
#include \"pycore_obmalloc.h\"
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
        // The crate's own structs, which the header exports to C.
        .blocklist_type("_PyRust_DataStackState")
        .raw_line("use crate::data_stack::DataStackState as _PyRust_DataStackState;")
        .blocklist_type("_PyRust_EvalGate")
        .raw_line("use crate::eval_frame::EvalGate as _PyRust_EvalGate;");
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
