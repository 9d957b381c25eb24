//! The only gateway to CPython's internals.
//!
//! `raw` is what bindgen makes of the internal headers with the flags of the
//! build at hand (`build.rs-wrapper` drives it), so every layout is the one
//! that the C side of this very binary was compiled with. Nothing outside this
//! module names `raw`; what the crate uses is re-exported here by name.
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
    _PyInterpreterFrame, _PyObject_VirtualAlloc, _PyObject_VirtualFree, _PyStackChunk,
    _PyThreadStateImpl, PyObject, PyThreadState,
};

#[cfg(not(test))]
pub use raw::{
    _Py_NoneStruct, PyBool_FromLong, PyDict_New, PyDict_SetItemString, PyList_Append, PyList_New,
    PyLong_FromSize_t, PyMethodDef, PyModuleDef, PyModuleDef_Init, PyModuleDef_Slot,
    PyThreadState_Get, PyUnicode_FromString, Py_DecRef, Py_IncRef, Py_mod_gil,
    Py_mod_multiple_interpreters, METH_NOARGS,
};

#[cfg(all(ferrule_checks, not(test)))]
pub use raw::_Py_FatalErrorFunc;

#[cfg(all(not(test), ferrule_free_threaded))]
pub use raw::_PyGC_BITS_DEFERRED;
#[cfg(all(not(test), not(ferrule_free_threaded), not(ferrule_counts_in_c)))]
pub use raw::_Py_Dealloc;

/// The version of the CPython headers, such as `3.13.5`.
#[cfg(not(test))]
pub const CPYTHON_VERSION: &core::ffi::CStr = raw::PY_VERSION;
