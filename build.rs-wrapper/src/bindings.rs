//! bindgen on CPython's internal headers.

use crate::common::{write_if_changed, Outcome};
use crate::{flags, libclang};
use std::path::Path;

/// Types that Rust takes as they are.
const TYPES: &[&str] = &[
    "PyMutex",
    "PyGetSetDef",
    "PyType_Spec",
    "_Py_CODEUNIT",
    "_frameowner",
    "_framestate",
    "PyBytesObject",
    "PyCFunctionObject",
    "PyMethodObject",
    "PyCellObject",
    "PyFrameObject",
    "PyGC_Head",
    "PyGenObject",
    "_PySendCache",
    "_PyThreadStateImpl",
    "PyCodeObject",
    "PyFunctionObject",
    "PyHeapTypeObject",
    "_PyStackChunk",
    "_PyInterpreterFrame",
    "PyInterpreterState",
    "PyModuleDef",
    "PyModuleDef_Slot",
    "PyMethodDef",
];

/// Structs that only lie in between: their size counts, not their fields. Where Debian's series is
/// applied two of them hold a `PyGC_Head` at an address that is a multiple of four only, which Rust
/// cannot say of a type.
const OPAQUE: &[&str] = &[
    "_gc_runtime_state",
    "_gc_thread_state",
    "_mimalloc_thread_state",
    "_Py_interp_static_objects.*",
    "_Py_object_freelists",
    "_brc_thread_state",
];

/// Structs of the frame core's own header, which C has put into its own. They become bytes, and
/// `in_cpython` of the crate gives them their fields. So the bindings need nothing of the crate.
const OURS: &[&str] = &[
    "_PyRust_DataStackState",
    "_PyRust_CodeExtraState",
    "_PyRust_EvalGate",
    "_PyRust_FrameHook(State|Thread)",
];

const FUNCTIONS: &[&str] = &[
    "PyBool_FromLong",
    "Py_CompileStringExFlags",
    "PyUnicode_DecodeFSDefault",
    "PyObject_GetAttrString",
    "PyObject_CallMethod",
    "PyBytes_AsStringAndSize",
    "PyImport_AddModuleRef",
    "PyImport_ImportModule",
    "PyFile_OpenCodeObject",
    "PyEval_EvalCode",
    "PyBytes_AsString",
    "PyBytes_FromStringAndSize",
    "PyCallable_Check",
    "PyCell_Get",
    "PyCode_Addr2Line",
    "PyDict_New",
    "PyDict_SetItem",
    "PyDict_SetItemString",
    "PyErr_Clear",
    "PyErr_ExceptionMatches",
    "PyErr_Format",
    "PyErr_FormatUnraisable",
    "PyErr_GetRaisedException",
    "PyErr_NewExceptionWithDoc",
    "PyErr_NoMemory",
    "PyErr_Occurred",
    "PyErr_SetObject",
    "PyErr_SetRaisedException",
    "PyErr_SetString",
    "PyException_GetContext",
    "PyIndex_Check",
    "PyInterpreterState_ThreadHead",
    "PyList_Append",
    "PyList_AsTuple",
    "PyList_New",
    "PyLong_AsLongLong",
    "PyLong_FromLongLong",
    "PyLong_FromSize_t",
    "PyMem_Free",
    "PyMem_Malloc",
    "PyMem_RawCalloc",
    "PyMem_RawFree",
    "PyMem_RawMalloc",
    "PyModuleDef_Init",
    "PyModule_AddFunctions",
    "PyModule_AddObjectRef",
    "PyMutex_Lock",
    "PyMutex_Unlock",
    "PyNumber_AsSsize_t",
    "PyObject_CallOneArg",
    "PyObject_Free",
    "PyObject_GC_(Del|IsTracked|UnTrack)",
    "PyObject_GC_Track",
    "PyObject_GetAttr",
    "PyObject_GetOptionalAttr",
    "PyObject_IsTrue",
    "PyObject_Repr",
    "PyObject_SetAttr",
    "PyObject_Vectorcall",
    "PyStructSequence_(New|NewType|SetItem)",
    "PySys_Audit",
    "PySys_GetObject",
    "PyDict_GetItemString",
    "PyThreadState_Get",
    "PyThreadState_Next",
    "PyTime_PerfCounterRaw",
    "PyTraceBack_Here",
    "PyTuple_GetItem",
    "PyTuple_Pack",
    "PyTuple_Size",
    "PyType_FromSpec",
    "PyType_GenericAlloc",
    "PyType_IsSubtype",
    "PyUnicode_AsUTF8AndSize",
    "PyUnicode_Compare",
    "PyUnicode_CompareWithASCIIString",
    "PyUnicode_FromString",
    "PyUnicode_InternFromString",
    "Py_DecRef",
    "Py_IncRef",
    "_PyErr_ChainExceptions1",
    "_PyErr_ChainStackItem",
    "_PyErr_FormatFromCause",
    "_PyEval_EvalFrameDefault",
    "_PyEval_EvaluatorChanged",
    "_PyEval_FrameClearAndPop",
    "_PyEval_StartTheWorld",
    "_PyEval_StopTheWorld",
    "_PyFrame_New_NoTrack",
    "_PyFunction_Vectorcall",
    "_PyInstruction_GetLength",
    "_PyMem_FreeDelayed",
    "_PyObject_VirtualAlloc",
    "_PyObject_VirtualFree",
    "_PyRust_DespecializeAllCode",
    "_PyType_NewManagedObject",
    "_Py_Dealloc",
    "_Py_FatalErrorFunc",
    "_Py_GetBaseOpcode",
    "_Py_Instrument",
    "_Py_call_instrumentation_arg",
];

const VARIABLES: &[&str] = &[
    "_Py_NoneStruct",
    "PyCell_Type",
    "PyCode_Type",
    "PyTuple_Type",
    "PyUnicode_Type",
    "Py(AsyncGen|Bool|CFunction|Coro|Function|Gen|Method)_Type",
    "BINARY_SUBSCR",
    "CALL(_FUNCTION_EX|_KW)?",
    "EXTENDED_ARG",
    "INTERPRETER_EXIT",
    "JUMP_BACKWARD",
    "LOAD_ATTR",
    "MAKE_CELL",
    "RESUME(_CHECK)?",
    "RETURN_GENERATOR",
    "PyExc_(Index|Key|Recursion|Runtime|System|Type|UnboundLocal|Value)Error",
    "PyExc_Stop(Async)?Iteration",
    "Py_mod_(exec|gil|multiple_interpreters)",
    "Py_tp_(dealloc|doc|getset|methods|new|repr|traverse)",
    "METH_(FASTCALL|KEYWORDS|NOARGS|O)",
    "CO_(GENERATOR|COROUTINE|ASYNC_GENERATOR|ITERABLE_COROUTINE)",
    "CO_NO_MONITORING_EVENTS",
    "PY_MONITORING_EVENT_PY_THROW",
    "CO_(OPTIMIZED|NEWLOCALS|VARARGS|VARKEYWORDS|FAST_(CELL|FREE|HIDDEN))",
    "PY_VERSION",
    "Py_TPFLAGS_BASE_EXC_SUBCLASS",
    "Py_TRASHCAN_HEADROOM",
    "_PyOpcode_Caches",
    "_PyGC_BITS_(DEFERRED|TRACKED)",
    "_PY_EVAL_EVENTS_BITS",
    "_PY_(ASYNC_EXCEPTION|CALLS_TO_DO|EVAL_EXPLICIT_MERGE|EVAL_PLEASE_STOP|SIGNALS_PENDING)_BIT",
    "Py_file_input",
    "PY_VERSION_HEX",
    "_Py_REF_SHARED_SHIFT",
    // What rust-core/build.rs makes cfgs of.
    "ferrule_.*",
];

const HEADERS: &str = "\
#include \"Python.h\"
#include \"pycore_interp.h\"
#include \"pycore_ceval.h\"
#include \"pycore_frame.h\"
#include \"pycore_tstate.h\"
#include \"pycore_obmalloc.h\"
#include \"pycore_pymem.h\"
#include \"pycore_pyerrors.h\"
#include \"pycore_instruments.h\"
#include \"pycore_code.h\"
#include \"pycore_pystate.h\"
#include \"pycore_gc.h\"
#include \"pycore_function.h\"
#include \"pycore_object.h\"
#include \"opcode_ids.h\"
#include \"pycore_opcode_metadata.h\"
#ifdef Py_GIL_DISABLED
static const int ferrule_free_threaded = 1;
#endif
#if defined(Py_REF_DEBUG) || defined(Py_STATS)
static const int ferrule_counts_in_c = 1;
#endif
#if PY_VERSION_HEX >= 0x030d0600
static const int ferrule_delayed_frees_have_sizes = 1;
#endif
#ifdef _Py_TIER2
static const int ferrule_tier2 = 1;
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
        .detect_include_paths(libclang::choose_clang())
        .use_core()
        .generate_cstr(true)
        .derive_default(false)
        .derive_debug(false)
        .layout_tests(true)
        .merge_extern_blocks(true)
        .formatter(bindgen::Formatter::None);
    for name in TYPES {
        builder = builder.allowlist_type(name);
    }
    for name in OURS {
        builder = builder.allowlist_type(name).opaque_type(name);
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
