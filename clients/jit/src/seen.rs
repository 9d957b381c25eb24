//! What is known of a function, for `explain` and `stats`.

use crate::code;
use crate::parts;
use crate::record;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyFunction};

/// As a dict that the package in Python makes text of.
pub fn facts<'py>(function: &Bound<'py, PyFunction>) -> PyResult<Bound<'py, PyDict>> {
    let py = function.py();
    let facts = PyDict::new(py);
    let code = parts::code_of(function);
    if let Err(why) = code::shape(&code) {
        facts.set_item("refused", why)?;
        return Ok(facts);
    }
    // SAFETY: attached; the code object is alive while its record is read.
    let Some(record) = (unsafe { record::find(code.as_ptr()) }) else {
        return Ok(facts);
    };
    facts.set_item("refused", record.refused.borrow().clone())?;
    facts.set_item("calls", record.calls.get())?;
    facts.set_item("entered", record.entered.get())?;
    facts.set_item("left", record.left.get())?;
    facts.set_item("polled", record.polled.get())?;
    facts.set_item("missed", record.missed.get())?;
    facts.set_item("changed", record.changed.get())?;
    let places: Vec<(u32, u64)> =
        record.places.borrow().iter().map(|(unit, n)| (*unit, *n)).collect();
    facts.set_item("places", places)?;
    let describe = |compiled: &std::rc::Rc<crate::compiled::Compiled>| {
        let parameters: Vec<String> =
            compiled.parameters.iter().map(crate::kind::Kind::describe).collect();
        let returns = compiled.returns.as_ref().map(crate::kind::Kind::describe);
        (parameters, returns, compiled.size, compiled.blocks, compiled.microseconds)
    };
    let start = |compiled: &std::rc::Rc<crate::compiled::Compiled>| {
        (compiled.start, compiled.size, compiled.microseconds)
    };
    let loops: Vec<_> = record.loops.borrow().iter().map(start).collect();
    facts.set_item("loops", loops)?;
    let versions: Vec<_> = record.compiled.borrow().iter().map(describe).collect();
    facts.set_item("versions", versions)?;
    Ok(facts)
}
