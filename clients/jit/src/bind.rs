//! Which argument, or which default, each parameter of a call gets.

use crate::lower::MOST_ARGUMENTS;
use crate::python::{CodeObject, PyDict_GetItemWithError};
use pyo3::ffi::{self, PyFunctionObject, PyObject};
use smallvec::SmallVec;

/// Where a parameter's value comes from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Origin {
    /// The argument of this index; keywords are counted behind the positional ones.
    Argument(usize),
    /// The item of this index of `__defaults__`.
    Default(usize),
    /// The item of `__kwdefaults__` with this name, which the code object keeps.
    KeywordDefault(*mut PyObject),
}

/// The origins of all parameters; `None`: the call raises, or a keyword is not the very str that the code has.
///
/// # Safety
/// The thread is attached; `code` is a code object that is alive, and so are the keywords.
pub unsafe fn bind(
    code: *mut PyObject,
    positional: usize,
    keywords: &[*mut PyObject],
    defaults: usize,
) -> Option<SmallVec<[Origin; MOST_ARGUMENTS]>> {
    // SAFETY: a code object, whose fields never change; *layouts*. Parameters are its first variables.
    let (before_keywords, takes, parameters) = unsafe {
        let code = &*code.cast::<CodeObject>();
        let takes = usize::try_from(code.argument_count).ok()?;
        let all = takes + usize::try_from(code.keyword_only).ok()?;
        let name = |index: usize| ffi::PyTuple_GET_ITEM(code.locals_plus_names, index as isize);
        let parameters: SmallVec<[*mut PyObject; MOST_ARGUMENTS]> = (0..all).map(name).collect();
        (usize::try_from(code.positional_only).ok()?, takes, parameters)
    };
    if positional > takes {
        return None;
    }
    let mut origins: SmallVec<[Option<Origin>; MOST_ARGUMENTS]> =
        (0..parameters.len()).map(|i| (i < positional).then_some(Origin::Argument(i))).collect();
    for (index, keyword) in keywords.iter().enumerate() {
        let place = parameters.iter().skip(before_keywords).position(|name| name == keyword)?;
        let origin = origins.get_mut(before_keywords + place)?;
        if origin.replace(Origin::Argument(positional + index)).is_some() {
            return None;
        }
    }
    let default =
        |(index, name): (usize, &*mut PyObject)| match (index + defaults).checked_sub(takes) {
            _ if index >= takes => Some(Origin::KeywordDefault(*name)),
            place => place.map(Origin::Default),
        };
    let complete = |(origin, parameter): (Option<Origin>, _)| origin.or_else(|| default(parameter));
    origins.into_iter().zip(parameters.iter().enumerate()).map(complete).collect()
}

/// How many defaults there are for positional parameters.
///
/// # Safety
/// A function, and the thread is attached.
pub unsafe fn default_count(function: *mut PyObject) -> usize {
    // SAFETY: by contract; the field is NULL or a tuple.
    unsafe {
        let defaults = (*function.cast::<PyFunctionObject>()).func_defaults;
        if defaults.is_null() {
            0
        } else {
            ffi::PyTuple_GET_SIZE(defaults) as usize
        }
    }
}

/// A function's default, borrowed; NULL: there is none.
///
/// # Safety
/// As for `default_count`; the origin was found with the function's own count.
pub unsafe fn default_of(function: *mut PyObject, origin: Origin) -> *mut PyObject {
    // SAFETY: by contract; a tuple with so many items, a dict or NULL.
    unsafe {
        let function = function.cast::<PyFunctionObject>();
        match origin {
            Origin::Argument(_) => std::ptr::null_mut(),
            Origin::Default(index) => {
                ffi::PyTuple_GET_ITEM((*function).func_defaults, index as isize)
            }
            Origin::KeywordDefault(_) if (*function).func_kwdefaults.is_null() => {
                std::ptr::null_mut()
            }
            Origin::KeywordDefault(name) => {
                let found = PyDict_GetItemWithError((*function).func_kwdefaults, name);
                if found.is_null() {
                    ffi::PyErr_Clear();
                }
                found
            }
        }
    }
}

/// The values of all parameters of a call from outside, stored into `values`; how many there are. `None`: it is not compiled code's.
///
/// # Safety
/// As for a vectorcall of a function with this code.
pub unsafe fn gather(
    function: *mut PyObject,
    code: *mut PyObject,
    arguments: *const *mut PyObject,
    positional: usize,
    names: *mut PyObject,
    values: &mut [*mut PyObject; MOST_ARGUMENTS],
) -> Option<usize> {
    let keywords: SmallVec<[*mut PyObject; MOST_ARGUMENTS]> = if names.is_null() {
        SmallVec::new()
    } else {
        // SAFETY: a tuple of str, which the caller keeps.
        unsafe {
            (0..ffi::PyTuple_GET_SIZE(names)).map(|i| ffi::PyTuple_GET_ITEM(names, i)).collect()
        }
    };
    // SAFETY: by contract.
    let origins = unsafe { bind(code, positional, &keywords, default_count(function)) }?;
    if origins.len() > values.len() {
        return None;
    }
    for (value, origin) in values.iter_mut().zip(&origins) {
        // SAFETY: as many arguments as names are behind the positional ones; the defaults are the function's.
        *value = unsafe {
            match origin {
                Origin::Argument(index) => *arguments.add(*index),
                origin => default_of(function, *origin),
            }
        };
        if value.is_null() {
            return None;
        }
    }
    Some(origins.len())
}
