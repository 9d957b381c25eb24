//! C functions, as `sys.monitoring` reports them.

use crate::codes::{text, Identity, Kind, Known, Text};
use crate::exact::HERE;
use crate::graph::Graph;
use crate::session::{lock, Session};
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyModule, PyType};

/// By what a C function is known: the address of its definition, or of the method descriptor, which
/// lives as long as its type. `None`: it is no C function.
fn key_of(callable: &Bound<'_, PyAny>) -> Option<usize> {
    let object = callable.as_ptr();
    // SAFETY: the reference is good as long as `callable`. What passes the check is a
    // PyCFunctionObject, whose definition never changes.
    unsafe {
        if ffi::PyCFunction_Check(object) != 0 {
            return Some((*object.cast::<ffi::PyCFunctionObject>()).m_ml as usize);
        }
        (ffi::Py_TYPE(object) == &raw mut ffi::PyMethodDescr_Type).then_some(object as usize)
    }
}

/// What pstats and its readers call a C function.
fn name_of(callable: &Bound<'_, PyAny>) -> PyResult<String> {
    let name = callable.getattr("__name__")?.extract::<String>()?;
    let Ok(owner) = callable.getattr("__self__") else { return Ok(callable.repr()?.to_string()) };
    if !owner.is_none() && owner.cast::<PyModule>().is_err() {
        if let Ok(method) = owner.get_type().getattr(&*name) {
            return Ok(method.repr()?.to_string());
        }
    }
    match callable.getattr("__module__").and_then(|module| module.extract::<String>()) {
        Ok(module) => Ok(format!("<built-in method {module}.{name}>")),
        Err(_) => Ok(format!("<built-in method {name}>")),
    }
}

fn know(session: &Session<Graph>, key: usize, callable: &Bound<'_, PyAny>) -> Known {
    if let Some(known) = lock(&session.codes).at(key) {
        return known;
    }
    let name = name_of(callable).unwrap_or_else(|_| "<built-in method>".to_owned());
    let name = Text::from(&*name);
    let (file, qualified) = ("~".into(), name.clone());
    let identity = Identity { file, line: 0, qualified, name, kind: "builtin" };
    lock(&session.codes).add(key, owner_of(callable).unbind(), identity)
}

/// What keeps the definition of a C function: not an object of the program whose method it is, which
/// would live longer than without a profile.
fn owner_of<'py>(callable: &Bound<'py, PyAny>) -> Bound<'py, PyAny> {
    match callable.getattr("__self__") {
        Ok(owner) if !is_shared(&owner) => owner.get_type().into_any(),
        _ => callable.clone(),
    }
}

/// Whether a function of this object may be kept: there are few such objects, or, as with capsules,
/// they are the function's own.
fn is_shared(owner: &Bound<'_, PyAny>) -> bool {
    owner.is_none()
        || owner.cast::<PyModule>().is_ok()
        || owner.cast::<PyType>().is_ok()
        || owner.cast::<PyCapsule>().is_ok()
}

/// A call begins, in this code.
pub fn called(session: &Session<Graph>, code: &Bound<'_, PyAny>, callable: &Bound<'_, PyAny>) {
    let Some(key) = key_of(callable) else { return };
    let py = callable.py();
    let known = session.with(py, &HERE, |graph| {
        let link = graph.find(key)?;
        graph.enter_builtin(link, session.clock.now());
        Some(())
    });
    if known.flatten().is_some() {
        return;
    }
    // Its own functions are on no path, so what they call is always new here.
    if lock(&session.codes).is_own(&text(code, "co_filename")) {
        return;
    }
    session.register(py, &HERE, None);
    let known = know(session, key, callable);
    session.with(py, &HERE, |graph| {
        let link = graph.link(known.key, known.number, Kind::Whole);
        graph.enter_builtin(link, session.clock.now());
    });
}

/// A C function has ended.
pub fn left(session: &Session<Graph>, callable: &Bound<'_, PyAny>, raised: bool) {
    let Some(key) = key_of(callable) else { return };
    let now = session.clock.now();
    let number = know(session, key, callable).number;
    session.with(callable.py(), &HERE, |graph| graph.leave_builtin(number, now, raised));
}
