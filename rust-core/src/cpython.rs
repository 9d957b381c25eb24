//! The only gateway to CPython's internals.
//!
//! `raw` is what bindgen makes of the internal headers with the flags of the
//! build at hand (`build.rs-wrapper` drives it), so every layout is the one
//! that the C side of this very binary was compiled with. Nothing outside this
//! module names `raw`; what the crate uses is re-exported here by name. The crate's
//! own structs, which lie in CPython's, are bytes here: `in_cpython` knows their fields.
//!
//! Everything behind these pointers belongs to CPython. A `PyThreadState` is
//! touched by its own thread only, or by the one thread that tears it down.

#[allow(
    dead_code,
    missing_docs,
    non_camel_case_types,
    non_snake_case,
    non_upper_case_globals,
    unsafe_op_in_unsafe_fn,
    unknown_lints, // of an older compiler
    unnecessary_transmutes,
    improper_ctypes,
    clippy::all,
    clippy::undocumented_unsafe_blocks,
    clippy::missing_safety_doc
)]
mod raw {
    include!(env!("FERRULE_BINDINGS_RS"));
}

pub use raw::{
    _PyEval_EvalFrameDefault, _PyEval_EvaluatorChanged, _PyEval_StartTheWorld,
    _PyEval_StopTheWorld, _PyFrame_New_NoTrack, _PyInterpreterFrame, _PyObject_VirtualAlloc,
    _PyObject_VirtualFree, _PyRust_CodeExtraState, _PyRust_DataStackState, _PyRust_EvalGate,
    _PyRust_FrameHookState, _PyRust_FrameHookThread, _PyStackChunk, _PyThreadStateImpl,
    _Py_CODEUNIT, PyBytesObject, PyCellObject, PyCell_Type, PyCodeObject, PyCode_Addr2Line,
    PyCode_Type, PyErr_Clear, PyErr_GetRaisedException, PyErr_SetRaisedException, PyFrameObject,
    PyFunctionObject, PyInterpreterState, PyMem_Free, PyMem_Malloc, PyMem_RawCalloc, PyMem_RawFree,
    PyMutex_Lock, PyMutex_Unlock, PyObject, PyObject_GC_Track, PyThreadState, PyTypeObject,
    CO_FAST_CELL, CO_FAST_FREE, CO_FAST_HIDDEN,
};

/// Whether loops may be compiled to traces of tier 2.
pub const HAS_TIER2: bool = cfg!(ferrule_tier2);

/// Frees a block of `PyMem_Malloc` of that many bytes when no thread reads it any
/// more: at once where there is a GIL.
///
/// # Safety
/// No pointer leads to the block any more, no other code frees it, and the calling
/// thread is attached.
pub unsafe fn free_delayed(block: *mut core::ffi::c_void, bytes: usize) {
    // From 3.13.6 on, CPython wants to know how much memory waits to be freed.
    #[cfg(ferrule_delayed_frees_have_sizes)]
    // SAFETY: the caller is attached, and alone owns the block, to which nothing leads any more.
    unsafe {
        raw::_PyMem_FreeDelayed(block, bytes);
    }
    #[cfg(not(ferrule_delayed_frees_have_sizes))]
    // SAFETY: the caller is attached, and alone owns the block, to which nothing leads any more.
    unsafe {
        let _ = bytes;
        raw::_PyMem_FreeDelayed(block);
    }
}

/// The owner of a frame that lies on a thread's data stack.
pub const FRAME_OWNED_BY_THREAD: core::ffi::c_char = raw::_frameowner_FRAME_OWNED_BY_THREAD as _;
/// The owner of a frame that lies in a generator.
pub const FRAME_OWNED_BY_GENERATOR: core::ffi::c_char =
    raw::_frameowner_FRAME_OWNED_BY_GENERATOR as _;
/// The owner of a frame that lies in a frame object.
pub const FRAME_OWNED_BY_FRAME_OBJECT: core::ffi::c_char =
    raw::_frameowner_FRAME_OWNED_BY_FRAME_OBJECT as _;
/// The owner of a frame without code, which lies on the C stack.
pub const FRAME_OWNED_BY_CSTACK: core::ffi::c_char = raw::_frameowner_FRAME_OWNED_BY_CSTACK as _;

#[cfg_attr(any(test, fuzzing), allow(unused_imports))]
// what only the Python API of the crate uses
pub use raw::{
    _PyErr_ChainStackItem, _PyErr_FormatFromCause, _PyErr_StackItem, _PyEval_FrameClearAndPop,
    _PyRust_DespecializeAllCode, _PySendCache, _Py_Instrument, _Py_NoneStruct,
    _Py_call_instrumentation_arg, PyAsyncGen_Type, PyBool_FromLong, PyBool_Type, PyCFunctionObject,
    PyCFunction_Type, PyCallable_Check, PyCell_Get, PyCoro_Type, PyDict_New, PyDict_SetItem,
    PyDict_SetItemString, PyErr_ExceptionMatches, PyErr_Format, PyErr_FormatUnraisable,
    PyErr_NewExceptionWithDoc, PyErr_NoMemory, PyErr_Occurred, PyErr_SetObject, PyErr_SetString,
    PyExc_IndexError, PyExc_KeyError, PyExc_RuntimeError, PyExc_StopAsyncIteration,
    PyExc_StopIteration, PyExc_SystemError, PyExc_TypeError, PyExc_UnboundLocalError,
    PyExc_ValueError, PyException_GetContext, PyFunction_Type, PyGen_Type, PyGetSetDef,
    PyIndex_Check, PyInterpreterState_ThreadHead, PyList_Append, PyList_AsTuple, PyList_New,
    PyLong_AsLongLong, PyLong_FromLongLong, PyLong_FromSize_t, PyMem_RawMalloc, PyMethodDef,
    PyMethodObject, PyMethod_Type, PyModuleDef, PyModuleDef_Init, PyModuleDef_Slot,
    PyModule_AddObjectRef, PyNumber_AsSsize_t, PyObject_CallOneArg, PyObject_Free,
    PyObject_GC_UnTrack, PyObject_GetAttr, PyObject_GetOptionalAttr, PyObject_IsTrue,
    PyObject_Repr, PyObject_SetAttr, PyObject_Vectorcall, PyStructSequence_Desc,
    PyStructSequence_Field, PyStructSequence_New, PyStructSequence_NewType,
    PyStructSequence_SetItem, PySys_Audit, PyThreadState_Get, PyThreadState_Next,
    PyTime_PerfCounterRaw, PyTuple_GetItem, PyTuple_Pack, PyTuple_Size, PyTuple_Type,
    PyType_FromSpec, PyType_GenericAlloc, PyType_IsSubtype, PyType_Slot, PyType_Spec,
    PyUnicode_AsUTF8AndSize, PyUnicode_Compare, PyUnicode_CompareWithASCIIString,
    PyUnicode_FromString, PyUnicode_InternFromString, PyUnicode_Type, Py_DecRef, Py_IncRef,
    Py_TRASHCAN_HEADROOM, Py_mod_exec, Py_mod_gil, Py_mod_multiple_interpreters, Py_ssize_t,
    Py_tp_dealloc, Py_tp_doc, Py_tp_getset, Py_tp_methods, Py_tp_new, Py_tp_repr, Py_tp_traverse,
    _PY_ASYNC_EXCEPTION_BIT, _PY_CALLS_TO_DO_BIT, _PY_EVAL_EVENTS_BITS, _PY_SIGNALS_PENDING_BIT,
    CO_ASYNC_GENERATOR, CO_COROUTINE, CO_GENERATOR, CO_ITERABLE_COROUTINE, CO_NEWLOCALS,
    CO_NO_MONITORING_EVENTS, CO_OPTIMIZED, CO_VARARGS, CO_VARKEYWORDS, EXTENDED_ARG,
    INTERPRETER_EXIT, MAKE_CELL, METH_FASTCALL, METH_KEYWORDS, METH_NOARGS, METH_O,
    PY_MONITORING_EVENT_PY_THROW, RESUME, RESUME_CHECK, RETURN_GENERATOR,
};

#[cfg(not(any(test, fuzzing)))]
pub use raw::{
    _PyFunction_Vectorcall, _PyInstruction_GetLength, _PyType_NewManagedObject, PyBytes_AsString,
    PyBytes_FromStringAndSize, PyHeapTypeObject, PyTraceBack_Here, Py_TPFLAGS_BASE_EXC_SUBCLASS,
    JUMP_BACKWARD,
};
#[cfg(not(any(test, fuzzing)))] // what runs scripts of other processes
pub use raw::{
    PyBytes_AsStringAndSize, PyDict_GetItemString, PyEval_EvalCode, PyFile_OpenCodeObject,
    PyImport_AddModuleRef, PyImport_ImportModule, PyModule_AddFunctions, PyObject_CallMethod,
    PyObject_GetAttrString, PySys_GetObject, PyUnicode_DecodeFSDefault, Py_CompileStringExFlags,
    Py_file_input, _PY_EVAL_EXPLICIT_MERGE_BIT, _PY_EVAL_PLEASE_STOP_BIT, PY_VERSION_HEX,
};

#[cfg(all(ferrule_checks, not(any(test, fuzzing))))]
pub use raw::_Py_FatalErrorFunc;
pub use raw::PyGenObject;
#[cfg(not(any(test, fuzzing)))] // what continues frames
pub use raw::{
    _PyErr_ChainExceptions1, _PyOpcode_Caches, _Py_GetBaseOpcode, PyExc_RecursionError,
    BINARY_SUBSCR, CALL, CALL_FUNCTION_EX, CALL_KW, LOAD_ATTR,
};
/// The state of a generator that has not begun.
pub const FRAME_CREATED: i8 = raw::_framestate_FRAME_CREATED as i8;
/// The state of a generator that runs.
pub const FRAME_EXECUTING: i8 = raw::_framestate_FRAME_EXECUTING as i8;
/// The state of a generator whose frame is over.
pub const FRAME_CLEARED: i8 = raw::_framestate_FRAME_CLEARED as i8;

#[cfg(all(not(any(test, fuzzing)), ferrule_free_threaded))]
pub use raw::{_PyGC_BITS_DEFERRED, _PyGC_BITS_TRACKED, _Py_REF_SHARED_SHIFT};
#[cfg(all(not(any(test, fuzzing)), not(ferrule_free_threaded)))]
pub use raw::{_Py_Dealloc, PyGC_Head};
#[cfg(any(test, fuzzing))]
pub use raw::{destructor, PyObject_GC_IsTracked};

/// The version of the CPython headers, such as `3.13.5`.
#[cfg(not(any(test, fuzzing)))]
pub const CPYTHON_VERSION: &core::ffi::CStr = raw::PY_VERSION;
