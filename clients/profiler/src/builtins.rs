//! C functions, as `sys.monitoring` tells of them.

use crate::codes::{Identity, Known};
use crate::exact::HERE;
use crate::graph::Graph;
use crate::session::{lock, Session};
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::PyModule;

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
    let identity =
        Identity { file: "~".to_owned(), line: 0, qualified: name.clone(), name, kind: "builtin" };
    let object = callable.clone().unbind();
    lock(&session.codes).add(key, object, identity)
}

/// A call begins.
pub fn called(session: &Session<Graph>, callable: &Bound<'_, PyAny>) {
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
    session.register(py, &HERE, None);
    let known = know(session, key, callable);
    session.with(py, &HERE, |graph| {
        let link = graph.link(known.key, known.number, false);
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
