//! The operators that a class may have methods for.

use crate::opcode::Special;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString};
use std::ffi::{c_int, CStr};

/// A method for an operator, that of the other operand, and what the operator is called in errors.
type Row = (&'static str, &'static str, &'static CStr);

/// By the number of the operator in BINARY_OP.
const BINARY: [Row; 13] = [
    ("__add__", "__radd__", c"+"),
    ("__and__", "__rand__", c"&"),
    ("__floordiv__", "__rfloordiv__", c"//"),
    ("__lshift__", "__rlshift__", c"<<"),
    ("__matmul__", "__rmatmul__", c"@"),
    ("__mul__", "__rmul__", c"*"),
    ("__mod__", "__rmod__", c"%"),
    ("__or__", "__ror__", c"|"),
    ("__pow__", "__rpow__", c"**"),
    ("__rshift__", "__rrshift__", c">>"),
    ("__sub__", "__rsub__", c"-"),
    ("__truediv__", "__rtruediv__", c"/"),
    ("__xor__", "__rxor__", c"^"),
];
/// By the number of the operator in `opcode.cmp_op`.
const COMPARISONS: [Row; 6] = [
    ("__lt__", "__gt__", c"<"),
    ("__le__", "__ge__", c"<="),
    ("__eq__", "__eq__", c"=="),
    ("__ne__", "__ne__", c"!="),
    ("__gt__", "__lt__", c">"),
    ("__ge__", "__le__", c">="),
];

/// By the number of the operator: the comparison of the other operand with this one.
const SWAPPED: [c_int; 6] =
    [ffi::Py_GT, ffi::Py_GE, ffi::Py_EQ, ffi::Py_NE, ffi::Py_LT, ffi::Py_LE];

/// The name of an instruction's method, and that of the other operand's, which is called if the first one returns NotImplemented.
pub fn methods(special: Special) -> Option<(&'static str, Option<&'static str>)> {
    let (own, other, _) = match special {
        Special::GetItem => return Some(("__getitem__", None)),
        Special::SetItem => return Some(("__setitem__", None)),
        Special::Negative => return Some(("__neg__", None)),
        Special::Binary { operator, .. } => BINARY.get(operator as usize)?,
        Special::Reflected { operator, .. } => {
            return Some((BINARY.get(operator as usize)?.1, None));
        }
        Special::Comparison(operator) => COMPARISONS.get(operator as usize)?,
    };
    Some((own, Some(other)))
}

/// A name as an object. There may be no memory for it.
pub fn name<'py>(py: Python<'py>, text: &str) -> PyResult<Bound<'py, PyString>> {
    // SAFETY: attached, and that many bytes of UTF-8; a new reference, or NULL with an exception.
    unsafe {
        let name = ffi::PyUnicode_FromStringAndSize(text.as_ptr().cast(), text.len() as isize);
        Ok(Bound::from_owned_ptr_or_err(py, name)?.cast_into_unchecked())
    }
}

/// The result of the comparison that an object's class has for it.
fn compared<'py>(
    operator: c_int,
    object: &Bound<'py, PyAny>,
    with: &Bound<'py, PyAny>,
) -> PyResult<Option<Bound<'py, PyAny>>> {
    // SAFETY: attached, and objects that are alive; a comparison returns a new reference, or NULL with an exception.
    unsafe {
        let Some(compare) = (*object.get_type_ptr()).tp_richcompare else { return Ok(None) };
        let result = compare(object.as_ptr(), with.as_ptr(), operator);
        Bound::from_owned_ptr_or_err(object.py(), result).map(Some)
    }
}

/// The result of the method that the right operand's class has, whatever kind of object that is now.
fn reflected<'py>(
    special: Special,
    left: &Bound<'py, PyAny>,
    right: &Bound<'py, PyAny>,
) -> PyResult<Option<Bound<'py, PyAny>>> {
    let py = left.py();
    let Some((_, Some(text))) = methods(special) else { return Ok(None) };
    let name = name(py, text)?;
    let class = right.get_type();
    let mut found = None;
    for base in class.mro() {
        // SAFETY: attached, and a class of the order, whose dict is a new reference, or NULL with an exception.
        let dict = unsafe {
            let dict = ffi::PyType_GetDict(base.as_ptr().cast());
            Bound::from_owned_ptr_or_err(py, dict)?.cast_into::<PyDict>()?
        };
        found = dict.get_item(&name)?;
        if found.is_some() {
            break;
        }
    }
    let Some(found) = found else { return Ok(None) };
    // SAFETY: attached, and objects that are alive; a descriptor returns a new reference, or NULL with an exception.
    let method = unsafe {
        match (*found.get_type_ptr()).tp_descr_get {
            Some(get) => {
                let bound = get(found.as_ptr(), right.as_ptr(), class.as_ptr());
                Bound::from_owned_ptr_or_err(py, bound)?
            }
            None => found,
        }
    };
    method.call1((left,)).map(Some)
}

/// What the interpreter does when the method of an operand has returned NotImplemented: it calls that of the other operand, and compares
/// identities or raises TypeError.
pub fn without_method<'py>(
    special: Special,
    own: &Bound<'py, PyAny>,
    other: &Bound<'py, PyAny>,
) -> PyResult<Bound<'py, PyAny>> {
    let py = own.py();
    let is_comparison = matches!(special, Special::Comparison(_));
    let result = match special {
        Special::Comparison(operator) => compared(SWAPPED[operator as usize % 6], other, own)?,
        Special::Binary { takes_part: true, .. } if !own.get_type().is(other.get_type()) => {
            reflected(special, own, other)?
        }
        _ => None,
    };
    if let Some(result) = result.filter(|result| !result.is(py.NotImplemented())) {
        return Ok(result);
    }
    let (operator, in_place, [left, right]) = match special {
        Special::Comparison(operator @ (2 | 3)) => {
            let result = own.is(other) == (operator == 2);
            return Ok(result.into_pyobject(py)?.to_owned().into_any());
        }
        Special::Comparison(operator) => (operator, false, [own, other]),
        Special::Binary { operator, in_place, .. } => (operator, in_place, [own, other]),
        Special::Reflected { operator, in_place } => (operator, in_place, [other, own]),
        _ => return Ok(py.NotImplemented().into_bound(py)),
    };
    let rows = if is_comparison { &COMPARISONS[..] } else { &BINARY[..] };
    let symbol = rows.get(operator as usize).map_or(c"", |row| row.2).as_ptr();
    let equals = if in_place { c"=" } else { c"" }.as_ptr();
    // SAFETY: attached; the names are those of types, which the operands keep.
    unsafe {
        let [left, right] = [left, right].map(|it| (*ffi::Py_TYPE(it.as_ptr())).tp_name);
        if is_comparison {
            let text = c"'%s' not supported between instances of '%.100s' and '%.100s'".as_ptr();
            ffi::PyErr_Format(ffi::PyExc_TypeError, text, symbol, left, right);
        } else {
            let text = c"unsupported operand type(s) for %s%s: '%.100s' and '%.100s'".as_ptr();
            ffi::PyErr_Format(ffi::PyExc_TypeError, text, symbol, equals, left, right);
        }
    }
    Err(PyErr::fetch(py))
}
