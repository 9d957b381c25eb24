//! What the crate uses of CPython's public headers that PyO3 does not declare.
//!
//! *Layouts*: the structs are the beginnings of those of `Include/cpython` of 3.13, in a build with a GIL and without
//! `Py_TRACE_REFS`; `ferrule_jit` refuses other interpreters before any of them is read.

use pyo3::ffi::{self, PyFunctionObject, PyObject, PyTypeObject, Py_ssize_t};
use std::ffi::{c_int, c_void};
use std::hash::Hasher;

/// `PyThreadState`.
#[repr(C)]
pub struct ThreadState {
    links: [*mut c_void; 3],
    /// Flags in the lowest byte, above them the version of tools.
    pub eval_breaker: usize,
    status: u32,
    whence: c_int,
    state: c_int,
    pub py_recursion_remaining: c_int,
    py_recursion_limit: c_int,
    pub c_recursion_remaining: c_int,
}

/// The flags of `eval_breaker`.
pub const PENDING: usize = 0xff;
/// Where compiled code finds the flags.
pub const EVAL_BREAKER: i64 = std::mem::offset_of!(ThreadState, eval_breaker) as i64;

/// `PyCodeObject`.
#[repr(C)]
pub struct CodeObject {
    head: PyObject,
    pub size: Py_ssize_t,
    pub consts: *mut PyObject,
    pub names: *mut PyObject,
    exception_table: *mut PyObject,
    pub flags: c_int,
    pub argument_count: c_int,
    pub positional_only: c_int,
    pub keyword_only: c_int,
    stack_size: c_int,
    first_line: c_int,
    pub locals_plus: c_int,
    frame_size: c_int,
    pub locals: c_int,
    pub cells: c_int,
    pub free: c_int,
    version: u32,
    pub locals_plus_names: *mut PyObject,
    locals_plus_kinds: *mut PyObject,
    pub file_name: *mut PyObject,
    others: [*mut c_void; 6],
    /// The version bits of `eval_breaker` when its instructions were brought up to date last, at its last call but for later changes.
    pub instrumented_for: usize,
    monitoring: *mut c_void,
    first_traceable: c_int,
    extra: *mut c_void,
    pub instructions: [[u8; 2]; 1],
}

/// `PyDictObject`.
#[repr(C)]
pub struct DictObject {
    head: PyObject,
    used: Py_ssize_t,
    /// Another one after each change.
    pub version: u64,
}

/// Where compiled code finds fields of objects: of each, of those with a size, and of single types.
pub const REFERENCES: i32 = 0;
pub const TYPE: i32 = std::mem::offset_of!(PyObject, ob_type) as i32;
pub const SIZE: i32 = std::mem::offset_of!(ffi::PyVarObject, ob_size) as i32;
pub const ITEMS: i32 = std::mem::offset_of!(ffi::PyListObject, ob_item) as i32;
pub const ALLOCATED: i32 = std::mem::offset_of!(ffi::PyListObject, allocated) as i32;
pub const FLOAT_VALUE: i32 = std::mem::offset_of!(ffi::PyFloatObject, ob_fval) as i32;
pub const LONG_TAG: i32 = std::mem::offset_of!(LongObject, tag) as i32;
pub const LONG_SIZE: i64 = std::mem::size_of::<LongObject>() as i64;
/// The bits of a digit.
pub const LONG_SHIFT: u32 = 30;
pub const LONG_DIGIT: i32 = std::mem::offset_of!(LongObject, digit) as i32;
pub const BYTES: i32 = std::mem::offset_of!(BytesObject, bytes) as i32;
pub const CODE: i32 = std::mem::offset_of!(PyFunctionObject, func_code) as i32;
pub const GLOBALS: i32 = std::mem::offset_of!(PyFunctionObject, func_globals) as i32;
pub const BUILTINS: i32 = std::mem::offset_of!(PyFunctionObject, func_builtins) as i32;
pub const CLOSURE: i32 = std::mem::offset_of!(PyFunctionObject, func_closure) as i32;
pub const ITEMS_OF_TUPLE: i32 = std::mem::offset_of!(ffi::PyTupleObject, ob_item) as i32;
pub const CONTENT: i32 = std::mem::offset_of!(CellObject, content) as i32;
pub const BYTES_OF_ARRAY: i32 = std::mem::offset_of!(ByteArrayObject, start) as i32;

/// `PyCellObject`.
#[repr(C)]
pub struct CellObject {
    head: PyObject,
    pub content: *mut PyObject,
}

/// `PyBytesObject`.
#[repr(C)]
struct BytesObject {
    head: ffi::PyVarObject,
    hash: isize,
    bytes: [u8; 1],
}

/// `PyByteArrayObject`.
#[repr(C)]
struct ByteArrayObject {
    head: ffi::PyVarObject,
    allocated: Py_ssize_t,
    memory: *mut u8,
    start: *mut u8,
    exports: Py_ssize_t,
}

/// `struct _longobject`.
#[repr(C)]
struct LongObject {
    head: PyObject,
    tag: usize,
    digit: u32,
}

/// `Py_ASNATIVEBYTES_NATIVE_ENDIAN`.
pub const NATIVE_ENDIAN: c_int = 3;

type Vectorcall = unsafe extern "C" fn(
    *mut PyObject,
    *const *mut PyObject,
    usize,
    *mut PyObject,
) -> *mut PyObject;

extern "C" {
    pub fn PyCode_Addr2Line(code: *mut PyObject, offset: c_int) -> c_int;
    pub fn PyCode_GetCode(code: *mut PyObject) -> *mut PyObject;
    pub fn PyFunction_SetVectorcall(function: *mut PyFunctionObject, vectorcall: Vectorcall);
    pub fn PyUnstable_Eval_RequestCodeExtraIndex(
        free: unsafe extern "C" fn(*mut c_void),
    ) -> Py_ssize_t;
    pub fn PyUnstable_Code_GetExtra(
        code: *mut PyObject,
        index: Py_ssize_t,
        extra: *mut *mut c_void,
    ) -> c_int;
    pub fn PyUnstable_Code_SetExtra(
        code: *mut PyObject,
        index: Py_ssize_t,
        extra: *mut c_void,
    ) -> c_int;
    pub fn PyLong_FromNativeBytes(
        bytes: *const c_void,
        count: usize,
        flags: c_int,
    ) -> *mut PyObject;
    pub fn PyLong_AsLongLongAndOverflow(object: *mut PyObject, overflow: *mut c_int) -> i64;
    pub static mut PyCell_Type: PyTypeObject;
    pub fn PyCell_New(content: *mut PyObject) -> *mut PyObject;
    pub fn PyCell_Get(cell: *mut PyObject) -> *mut PyObject;
    pub fn PyCell_Set(cell: *mut PyObject, value: *mut PyObject) -> c_int;
    pub fn PyUnstable_Type_AssignVersionTag(class: *mut PyTypeObject) -> c_int;
    pub fn PyEval_GetFrameLocals() -> *mut PyObject;
    pub fn PyDict_GetItemWithError(dict: *mut PyObject, key: *mut PyObject) -> *mut PyObject;
}

/// A hash of addresses, of which many are looked up.
#[derive(Default)]
pub struct OfAddress(u64);

impl Hasher for OfAddress {
    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.write_usize((*byte).into()));
    }

    fn write_usize(&mut self, address: usize) {
        self.0 = (self.0 ^ address as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(32);
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

/// The type of an object.
///
/// # Safety
/// It is an object, and the thread is attached.
#[inline]
pub unsafe fn type_of(object: *mut PyObject) -> *mut PyTypeObject {
    // SAFETY: by contract. An object's type is set before others know the object.
    unsafe { pyo3::ffi::Py_TYPE(object) }
}

/// The value of an exact int, if it fits.
///
/// # Safety
/// It is an exact int, and the thread is attached.
#[inline]
pub unsafe fn int_value(object: *mut PyObject) -> Option<i64> {
    // SAFETY: by contract, and by *layouts*. An int never changes.
    let (tag, digit) =
        unsafe { ((*object.cast::<LongObject>()).tag, (*object.cast::<LongObject>()).digit) };
    // One digit at most: the sign is 1 less the lowest two bits, and the digits are counted above three bits.
    if tag < 16 {
        return Some((1 - (tag & 3) as i64) * i64::from(digit));
    }
    let mut overflow = 0;
    // SAFETY: by contract; of an int it runs no other code and raises nothing.
    let value = unsafe { PyLong_AsLongLongAndOverflow(object, &mut overflow) };
    (overflow == 0).then_some(value)
}
