//! Iterators as objects: made where compiled code is left, and read where it is entered in a running loop.
//!
//! An iterator's state is reached through its own `__reduce__` and `__setstate__`. Nothing here runs code of the program.

use crate::containers;
use crate::kind::Kind;
use crate::objects;
use crate::parts;
use crate::python::{PyLong_FromNativeBytes, NATIVE_ENDIAN};
use pyo3::ffi::{self, PyObject, PyTypeObject};
use pyo3::prelude::*;
use pyo3::types::{PyRange, PyTuple};
use std::ffi::{c_int, c_void};

/// `range(start, stop, step)`.
///
/// # Safety
/// The thread is attached.
pub unsafe fn range(start: i64, stop: i128, step: i64) -> *mut PyObject {
    let mut arguments = [std::ptr::null_mut(); 3];
    for (argument, number) in arguments.iter_mut().zip([start.into(), stop, step.into()]) {
        let number: i128 = number;
        let bytes = std::ptr::from_ref(&number).cast();
        // SAFETY: attached; so many bytes, in the order of the machine.
        *argument = unsafe { PyLong_FromNativeBytes(bytes, size_of::<i128>(), NATIVE_ENDIAN) };
    }
    let complete = arguments.iter().all(|argument| !argument.is_null());
    let mut made = std::ptr::null_mut();
    if complete {
        let callable = std::ptr::addr_of_mut!(ffi::PyRange_Type).cast();
        // SAFETY: attached; a type is called with objects.
        made = unsafe {
            ffi::PyObject_Vectorcall(callable, arguments.as_ptr(), 3, std::ptr::null_mut())
        };
    }
    for argument in arguments {
        // SAFETY: made above, or NULL.
        unsafe { ffi::Py_XDECREF(argument) };
    }
    made
}

/// The iterator of a range that has `left` values to give.
///
/// # Safety
/// The thread is attached.
pub unsafe fn of_range(next: i64, left: i64, step: i64, descending: bool) -> *mut PyObject {
    let stop = if left == 0 {
        next.into()
    } else {
        // Behind the last value, which may be the last one that fits into a word.
        let last = next.wrapping_add((left - 1).wrapping_mul(step));
        i128::from(last) + if descending { -1 } else { 1 }
    };
    // SAFETY: attached.
    let range = unsafe { range(next, stop, step) };
    if range.is_null() {
        return range;
    }
    // SAFETY: a range, made above.
    unsafe {
        let iterator = ffi::PyObject_GetIter(range);
        ffi::Py_DECREF(range);
        iterator
    }
}

/// The iterator over a container whose next item is that at `index`, from the end if `backwards`.
///
/// # Safety
/// The thread is attached, and the container is alive.
pub unsafe fn of_container(object: *mut PyObject, index: i64, backwards: bool) -> *mut PyObject {
    // SAFETY: attached, and an exact container, whose iterators are made without code of the program.
    let made = unsafe {
        if backwards {
            call(std::ptr::addr_of_mut!(ffi::PyReversed_Type), &[object])
        } else {
            ffi::PyObject_GetIter(object)
        }
    };
    if made.is_null() {
        return made;
    }
    // SAFETY: attached.
    let names = parts::names(unsafe { Python::assume_attached() });
    // SAFETY: attached; `made` is an iterator with this method, which reads the container's size and runs no other code. The size is
    // what it was before anything else can read it: the GIL is kept, and signal handlers in C read no containers.
    let done = unsafe {
        let number = ffi::PyLong_FromLongLong(index);
        let size = std::ptr::addr_of_mut!((*object.cast::<ffi::PyVarObject>()).ob_size);
        let was = *size;
        // The method reduces an index beyond the size. That of an iterator is beyond it if the list has shrunk, and it may grow again.
        let least = if backwards { index + 1 } else { index };
        if !number.is_null() && least as ffi::Py_ssize_t > was {
            *size = least as ffi::Py_ssize_t;
        }
        let arguments = [made, number];
        let method = names.set_state.as_ptr();
        let done = if number.is_null() {
            number
        } else {
            ffi::PyObject_VectorcallMethod(method, arguments.as_ptr(), 2, std::ptr::null_mut())
        };
        if *size != was {
            *size = was;
        }
        ffi::Py_XDECREF(number);
        done
    };
    if done.is_null() {
        // SAFETY: made above.
        unsafe { ffi::Py_DECREF(made) };
        return done;
    }
    // SAFETY: a new reference.
    unsafe { ffi::Py_DECREF(done) };
    made
}

/// `enumerate(iterator, number)`; takes over the reference to the iterator, which may be NULL.
///
/// # Safety
/// The thread is attached.
pub unsafe fn enumerate(iterator: *mut PyObject, number: i64) -> *mut PyObject {
    if iterator.is_null() {
        return iterator;
    }
    // SAFETY: attached; references that this function owns.
    unsafe {
        let number = ffi::PyLong_FromLongLong(number);
        let made = if number.is_null() {
            number
        } else {
            call(std::ptr::addr_of_mut!(ffi::PyEnum_Type), &[iterator, number])
        };
        ffi::Py_XDECREF(number);
        ffi::Py_DECREF(iterator);
        made
    }
}

/// `zip(*iterators)`; takes over the reference to the tuple, which may be NULL.
///
/// # Safety
/// The thread is attached.
pub unsafe fn zip(iterators: *mut PyObject) -> *mut PyObject {
    if iterators.is_null() {
        return iterators;
    }
    // SAFETY: attached; the call of a type with a tuple that this function owns.
    unsafe {
        let ty = std::ptr::addr_of_mut!(ffi::PyZip_Type).cast();
        let made = ffi::PyObject_CallObject(ty, iterators);
        ffi::Py_DECREF(iterators);
        made
    }
}

/// # Safety
/// The thread is attached; a type, and objects that are alive.
unsafe fn call(ty: *mut PyTypeObject, arguments: &[*mut PyObject]) -> *mut PyObject {
    // SAFETY: by contract.
    unsafe {
        ffi::PyObject_Vectorcall(
            ty.cast(),
            arguments.as_ptr(),
            arguments.len(),
            std::ptr::null_mut(),
        )
    }
}

/// The type whose calls make iterators, if it is one that is compiled.
pub fn name_of_type(address: usize) -> Option<&'static str> {
    let types = [
        (std::ptr::addr_of_mut!(ffi::PyEnum_Type), "enumerate"),
        (std::ptr::addr_of_mut!(ffi::PyZip_Type), "zip"),
        (std::ptr::addr_of_mut!(ffi::PyReversed_Type), "reversed"),
    ];
    types.iter().find(|(ty, _)| *ty as usize == address).map(|(_, name)| *name)
}

/// The state of an iterator of which the caller's is the only reference beside `object`: its kind, and its words behind the others.
/// `None`: it is none of those that are compiled, or has an owner besides.
pub fn state(object: &Bound<'_, PyAny>, words: &mut Vec<u64>) -> PyResult<Option<Kind>> {
    if object.get_refcnt() != 2 {
        return Ok(None);
    }
    let ty = object.get_type_ptr();
    if ty == std::ptr::addr_of_mut!(ffi::PyRangeIter_Type) {
        return range_state(object, words).map(Some);
    }
    let backwards = ty == std::ptr::addr_of_mut!(ffi::PyListRevIter_Type)
        || ty == std::ptr::addr_of_mut!(ffi::PyReversed_Type);
    if backwards || is_of_container(ty) {
        return container_state(object, backwards, words);
    }
    let names = parts::names(object.py());
    if ty == std::ptr::addr_of_mut!(ffi::PyEnum_Type) && is_quiet(object) {
        let reduced = object.call_method0(&names.reduce)?.get_item(1)?;
        let (iterator, number) = (reduced.get_item(0)?, reduced.get_item(1)?);
        drop(reduced);
        let Ok(number) = number.extract::<i64>() else { return Ok(None) };
        words.push(number as u64);
        let iterator = state(&iterator, words)?;
        return Ok(iterator.map(|iterator| Kind::Enumerate(Box::new(iterator))));
    }
    if ty == std::ptr::addr_of_mut!(ffi::PyZip_Type) && is_quiet(object) {
        let reduced = object.call_method0(&names.reduce)?;
        // A third item says that it is strict.
        if reduced.len()? != 2 {
            return Ok(None);
        }
        let iterators = reduced.get_item(1)?.cast_into::<PyTuple>()?;
        drop(reduced);
        let mut kinds = Vec::new();
        for iterator in iterators.iter() {
            let Some(kind) = state(&iterator, words)? else { return Ok(None) };
            kinds.push(kind);
        }
        let alone = iterators.get_refcnt() == 2 && !kinds.is_empty();
        return Ok(alone.then_some(Kind::Zip(kinds)));
    }
    Ok(None)
}

fn is_of_container(ty: *mut PyTypeObject) -> bool {
    let types = [
        std::ptr::addr_of_mut!(ffi::PyListIter_Type),
        std::ptr::addr_of_mut!(ffi::PyTupleIter_Type),
        std::ptr::addr_of_mut!(ffi::PyBytesIter_Type),
        std::ptr::addr_of_mut!(ffi::PyByteArrayIter_Type),
    ];
    types.contains(&ty)
}

fn range_state(object: &Bound<'_, PyAny>, words: &mut Vec<u64>) -> PyResult<Kind> {
    let names = parts::names(object.py());
    let reduced = object.call_method0(&names.reduce)?;
    let rest = reduced.get_item(1)?.get_item(0)?.cast_into::<PyRange>()?;
    let (start, step): (i64, i64) =
        (rest.getattr(&names.start)?.extract()?, rest.getattr(&names.step)?.extract()?);
    let left: u64 = object.call_method0(&names.length_hint)?.extract()?;
    if step == 1 {
        words.extend([start as u64, (start as u64).wrapping_add(left)]);
        return Ok(Kind::Counter);
    }
    words.extend([start as u64, left, step as u64]);
    Ok(Kind::RangeIterator { descending: step < 0 })
}

fn container_state(
    object: &Bound<'_, PyAny>,
    backwards: bool,
    words: &mut Vec<u64>,
) -> PyResult<Option<Kind>> {
    let reduced = object.call_method0(&parts::names(object.py()).reduce)?;
    // One that is exhausted has no index.
    if reduced.len()? != 3 {
        return Ok(None);
    }
    let container = reduced.get_item(1)?.get_item(0)?;
    let index: i64 = reduced.get_item(2)?.extract()?;
    let Some(of) = containers::kind_of(&container) else { return Ok(None) };
    words.extend([container.as_ptr() as u64, index as u64]);
    Ok(Some(Kind::Iterator { of: Box::new(of), backwards }))
}

/// Whether no code of the program runs when an `enumerate` or a `zip` is freed whose iterators' containers have other owners: it keeps
/// the tuple of its last turn.
fn is_quiet(object: &Bound<'_, PyAny>) -> bool {
    /// # Safety
    /// As for every visitor: an object that is alive. The argument is a bool of the caller.
    unsafe extern "C" fn visit(referent: *mut PyObject, quiet: *mut c_void) -> c_int {
        // SAFETY: by contract.
        unsafe {
            if ffi::PyTuple_CheckExact(referent) != 0 && !is_releasable(referent, 3) {
                *quiet.cast::<bool>() = false;
            }
        }
        0
    }
    let mut quiet = true;
    // SAFETY: attached, as the binding says; both types have the function, which calls `visit` with objects that are alive.
    unsafe {
        if let Some(traverse) = (*ffi::Py_TYPE(object.as_ptr())).tp_traverse {
            traverse(object.as_ptr(), visit, std::ptr::from_mut(&mut quiet).cast());
        }
    }
    quiet
}

/// Whether an object that an `enumerate` or a `zip` keeps, or an item of a tuple that it keeps, is freed without code of the program.
///
/// # Safety
/// The thread is attached, and the object is alive.
unsafe fn is_releasable(object: *mut PyObject, depth: u32) -> bool {
    // SAFETY: by contract; an exact tuple, whose items do not change.
    unsafe {
        if depth > 0 && ffi::PyTuple_CheckExact(object) != 0 {
            let size = ffi::PyTuple_GET_SIZE(object);
            return (0..size)
                .all(|index| is_releasable(ffi::PyTuple_GET_ITEM(object, index), depth - 1));
        }
        let ty = ffi::Py_TYPE(object);
        is_of_container(ty)
            || ty == std::ptr::addr_of_mut!(ffi::PyListRevIter_Type)
            || ty == std::ptr::addr_of_mut!(ffi::PyRangeIter_Type)
            || objects::is_plain(object) != 0
    }
}
