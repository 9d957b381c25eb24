//! What compiled code calls on lists and tuples as a whole.
//!
//! *No foreign code*: items are compared or added by CPython's builtins if all of them are numbers, None, str or bytes. Where something
//! raises, nothing has changed, the exception is cleared, and the interpreter does the same once more.

use crate::lists::{cleared, succeeded, within, Item, FLOAT, INT};
use crate::objects::{are_plain, is_simple, items_of};
use crate::python::{int_value, type_of};
use pyo3::ffi::{self, PyObject};

/// A bool, beside the tags of `lists::Item`.
pub const BOOL: i64 = 3;
/// Answers of `contains`.
const NO: u64 = 0;
const YES: u64 = 1;
const LEAVE: u64 = 2;

/// A number that an item is compared with.
#[derive(Clone, Copy)]
enum Wanted {
    Int(i64),
    Float(f64),
    None,
}

/// The item at an index.
///
/// # Safety
/// An exact list or tuple that has so many items.
unsafe fn item(sequence: *mut PyObject, index: isize) -> *mut PyObject {
    // SAFETY: by contract.
    unsafe {
        if ffi::PyList_CheckExact(sequence) != 0 {
            ffi::PyList_GET_ITEM(sequence, index)
        } else {
            ffi::PyTuple_GET_ITEM(sequence, index)
        }
    }
}

/// How many items there are.
///
/// # Safety
/// An exact list or tuple.
unsafe fn size(sequence: *mut PyObject) -> isize {
    // SAFETY: by contract: both have their size in one place.
    unsafe { ffi::Py_SIZE(sequence) }
}

/// A new tuple of `count` items; NULL: leave.
///
/// # Safety
/// Attached; so many items, whose objects are alive.
pub unsafe extern "C" fn make_tuple(items: *const Item, count: i64) -> *mut PyObject {
    // SAFETY: by contract; a new tuple has room for the items.
    let tuple = unsafe { cleared(ffi::PyTuple_New(count as ffi::Py_ssize_t)) };
    for index in (0..count as isize).take_while(|_| !tuple.is_null()) {
        // SAFETY: as above; the tuple owns the items that it has when it is freed.
        unsafe {
            let object = cleared((*items.offset(index)).object());
            if object.is_null() {
                ffi::Py_DECREF(tuple);
                return object;
            }
            ffi::PyTuple_SET_ITEM(tuple, index, object);
        }
    }
    tuple
}

/// `tuple[start:stop]`, of which negative ones count from the end; NULL: leave.
///
/// # Safety
/// Attached, and an exact tuple.
pub unsafe extern "C" fn slice_tuple(tuple: *mut PyObject, start: i64, stop: i64) -> *mut PyObject {
    // SAFETY: by contract.
    unsafe {
        let (start, stop) = within(size(tuple), start, stop);
        cleared(ffi::PyTuple_GetSlice(tuple, start, stop))
    }
}

/// `list[start:stop:step]`; the bits of `without` say which of the first two are None; NULL: leave.
///
/// # Safety
/// Attached, and an exact list.
pub unsafe extern "C" fn slice_with_step(
    list: *mut PyObject,
    start: i64,
    stop: i64,
    step: i64,
    without: i64,
) -> *mut PyObject {
    // SAFETY: by contract.
    let indices = unsafe { indices(list, start, stop, step, without) };
    let Some((start, turns)) = indices else { return std::ptr::null_mut() };
    // SAFETY: attached.
    let made = unsafe { cleared(ffi::PyList_New(turns)) };
    for turn in (0..turns).take_while(|_| !made.is_null()) {
        // SAFETY: an index within the list, and a place of the new one.
        unsafe {
            let item = ffi::PyList_GET_ITEM(list, start + turn * step as isize);
            ffi::PyList_SET_ITEM(made, turn, ffi::Py_NewRef(item));
        }
    }
    made
}

/// The first index of a slice as above, and how many there are; `None`: ValueError.
///
/// # Safety
/// Attached, and an exact list.
unsafe fn indices(
    list: *mut PyObject,
    start: i64,
    stop: i64,
    step: i64,
    without: i64,
) -> Option<(isize, isize)> {
    // SAFETY: by contract.
    let count = unsafe { size(list) } as i64;
    let (first, behind) = if step < 0 { (count - 1, -1) } else { (0, count) };
    let place = |index: i64| {
        let index = if index < 0 { index + count } else { index };
        index.clamp(first.min(behind), first.max(behind))
    };
    let start = if without & 1 != 0 { first } else { place(start) };
    let stop = if without & 2 != 0 { behind } else { place(stop) };
    let distance = if step < 0 { start - stop } else { stop - start };
    if step == 0 {
        return None;
    }
    let turns = (distance.max(0) as u64).div_ceil(step.unsigned_abs());
    Some((start as isize, turns as isize))
}

/// `list[start:stop] = other[first:last:step]`; 0: leave. What is replaced by itself in reverse is put there without another list.
///
/// # Safety
/// Attached, and exact lists.
pub unsafe extern "C" fn store_slice_with_step(
    list: *mut PyObject,
    start: i64,
    stop: i64,
    other: *mut PyObject,
    first: i64,
    last: i64,
    step: i64,
    without: i64,
) -> u64 {
    // SAFETY: by contract.
    let (from, to) = unsafe { within(size(list), start, stop) };
    // SAFETY: by contract.
    let indices = unsafe { indices(other, first, last, step, without) };
    if list == other && step == -1 && to > from && indices == Some((to - 1, to - from)) {
        // SAFETY: by contract: so many items of the list, which keeps all of them.
        unsafe {
            let items = (*list.cast::<ffi::PyListObject>()).ob_item.offset(from);
            std::slice::from_raw_parts_mut(items, (to - from) as usize).reverse();
        }
        return 1;
    }
    // SAFETY: by contract. All items of what is made are those of another list too when it is freed.
    unsafe {
        let made = slice_with_step(other, first, last, step, without);
        let done = if made.is_null() { 0 } else { store_slice(list, start, stop, made) };
        ffi::Py_XDECREF(made);
        done
    }
}

/// `tuple(sequence)`; NULL: leave.
///
/// # Safety
/// Attached, and an exact list or tuple.
pub unsafe extern "C" fn tuple_of(sequence: *mut PyObject) -> *mut PyObject {
    // SAFETY: by contract.
    unsafe { cleared(ffi::PySequence_Tuple(sequence)) }
}

/// `list(sequence)`; NULL: leave.
///
/// # Safety
/// Attached, and an exact list or tuple.
pub unsafe extern "C" fn list_of(sequence: *mut PyObject) -> *mut PyObject {
    // SAFETY: by contract.
    unsafe { cleared(ffi::PySequence_List(sequence)) }
}

/// `list[start:stop] = other`, or `del list[start:stop]` if that is NULL; 0: leave.
///
/// # Safety
/// Attached; an exact list, and an exact list or tuple.
pub unsafe extern "C" fn store_slice(
    list: *mut PyObject,
    start: i64,
    stop: i64,
    other: *mut PyObject,
) -> u64 {
    // SAFETY: by contract.
    let (start, stop) = unsafe { within(size(list), start, stop) };
    // SAFETY: by contract. Nothing changes the list meanwhile, and what is replaced is freed without code of the program.
    unsafe {
        let old = &items_of(list).unwrap_or(&[])[start as usize..stop as usize];
        u64::from(are_plain(old) && succeeded(ffi::PyList_SetSlice(list, start, stop, other)) != 0)
    }
}

/// `del list[index]` of an index within the list; 0: leave.
///
/// # Safety
/// Attached, and an exact list that has the item.
pub unsafe extern "C" fn delete(list: *mut PyObject, index: i64) -> u64 {
    // SAFETY: by contract. The last item has no end that is counted from the end.
    unsafe { store_slice(list, index, index.saturating_add(1), std::ptr::null_mut()) }
}

/// `wanted in sequence`; an item that neither is a number, None nor a str is compared by the interpreter.
///
/// # Safety
/// Attached; an exact list or tuple, and a number or None.
pub unsafe extern "C" fn contains(sequence: *mut PyObject, wanted: *const Item) -> u64 {
    // SAFETY: by contract; True and None are immortal.
    let ((tag, bits, object), truth, none) =
        unsafe { ((*wanted).parts(), ffi::Py_True(), ffi::Py_None()) };
    let wanted = match tag {
        INT => Wanted::Int(bits as i64),
        FLOAT => Wanted::Float(f64::from_bits(bits)),
        _ if object == none => Wanted::None,
        _ => Wanted::Int(i64::from(object == truth)),
    };
    // SAFETY: by contract. Nothing changes the sequence meanwhile.
    let equal = |index| unsafe { is_equal(wanted, item(sequence, index)) };
    // SAFETY: by contract.
    let count = unsafe { size(sequence) };
    (0..count).map(equal).find(|answer| *answer != NO).unwrap_or(NO)
}

/// Whether an item is equal, or the very same.
///
/// # Safety
/// Attached, and an object that is alive.
unsafe fn is_equal(wanted: Wanted, item: *mut PyObject) -> u64 {
    // SAFETY: by contract; these objects are immortal.
    let (ty, no, yes, none) =
        unsafe { (type_of(item), ffi::Py_False(), ffi::Py_True(), ffi::Py_None()) };
    let int = if ty == std::ptr::addr_of_mut!(ffi::PyLong_Type) {
        // SAFETY: an exact int.
        let value = unsafe { int_value(item) };
        match (value, wanted) {
            (None, Wanted::Float(_)) => return LEAVE, // a large one
            (None, _) => return NO,
            (value, _) => value,
        }
    } else {
        (item == no || item == yes).then_some(i64::from(item == yes))
    };
    let equal = match (int, wanted) {
        (_, Wanted::None) if item == none => true,
        (Some(_), Wanted::None) => false,
        (Some(int), Wanted::Int(wanted)) => int == wanted,
        (Some(int), Wanted::Float(wanted)) => equals(int, wanted),
        (None, wanted) if ty == std::ptr::addr_of_mut!(ffi::PyFloat_Type) => {
            // SAFETY: an exact float.
            let number = unsafe { ffi::PyFloat_AS_DOUBLE(item) };
            match wanted {
                Wanted::Int(wanted) => equals(wanted, number),
                // The same object is found.
                Wanted::Float(wanted) if wanted.is_nan() && number.is_nan() => return LEAVE,
                Wanted::Float(wanted) => wanted == number,
                Wanted::None => false,
            }
        }
        _ if item == none || ty == std::ptr::addr_of_mut!(ffi::PyUnicode_Type) => false,
        _ => return LEAVE,
    };
    if equal {
        YES
    } else {
        NO
    }
}

/// Whether an int and a float are the same number.
fn equals(int: i64, float: f64) -> bool {
    float.floor() == float && float.abs() < 1e19 && float as i128 == i128::from(int)
}

/// `wanted in range(start, stop, step)`; the step is not 0.
pub extern "C" fn range_contains(start: i64, stop: i64, step: i64, wanted: i64) -> u64 {
    let within =
        if step > 0 { start <= wanted && wanted < stop } else { stop < wanted && wanted <= start };
    let distance = i128::from(wanted) - i128::from(start);
    u64::from(within && distance % i128::from(step) == 0)
}

/// The result of a builtin that is called with a sequence, a new reference; NULL: leave.
///
/// # Safety
/// Attached; `sum`, `min`, `max`, `any`, `all` or `sorted`, and an exact list or tuple.
pub unsafe extern "C" fn call(callable: *mut PyObject, sequence: *mut PyObject) -> *mut PyObject {
    // SAFETY: by contract. Nothing changes the sequence meanwhile.
    let plain = |index| unsafe { is_simple(item(sequence, index)) };
    // SAFETY: by contract.
    if !(0..unsafe { size(sequence) }).all(plain) {
        return std::ptr::null_mut();
    }
    // SAFETY: by contract; of such items it runs no code of the program.
    unsafe { cleared(ffi::PyObject_CallOneArg(callable, sequence)) }
}

/// The same where the result is a number of the type that the tag says; 0: leave.
///
/// # Safety
/// As for `call`, and `result` can be written.
pub unsafe extern "C" fn call_for_number(
    callable: *mut PyObject,
    sequence: *mut PyObject,
    tag: i64,
    result: *mut u64,
) -> u64 {
    // SAFETY: by contract.
    let object = unsafe { call(callable, sequence) };
    if object.is_null() {
        return 0;
    }
    // SAFETY: an object, of the type that is compared first; True is immortal.
    let value = unsafe {
        match tag {
            INT if ffi::PyLong_CheckExact(object) != 0 => int_value(object).map(|int| int as u64),
            FLOAT if ffi::PyFloat_CheckExact(object) != 0 => {
                Some(ffi::PyFloat_AS_DOUBLE(object).to_bits())
            }
            BOOL if ffi::PyBool_Check(object) != 0 => Some((object == ffi::Py_True()).into()),
            _ => None,
        }
    };
    // SAFETY: a number, whose reference is this function's own; compiled code passes the address of a stack slot of its own.
    unsafe {
        ffi::Py_DECREF(object);
        *result = value.unwrap_or(0);
    }
    value.is_some().into()
}
