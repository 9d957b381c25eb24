//! What is known of code, for reports.

use crate::code;
use crate::compile::listing;
use crate::compiled::Compiled;
use crate::kind::Kind;
use crate::parts;
use crate::record;
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use pyo3::types::{PyCode, PyDict, PyFunction};
use std::collections::HashMap;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

/// Whether code objects that the hook sees are kept.
static COLLECTING: AtomicBool = AtomicBool::new(false);
/// By address.
static COLLECTED: Mutex<Option<HashMap<usize, Py<PyCode>>>> = Mutex::new(None);

/// Keeps code objects from now on.
pub fn start_collecting() {
    COLLECTING.store(true, Ordering::Relaxed);
}

/// Keeps a code object, if that is wanted.
pub fn collect(code: &Bound<'_, PyCode>) {
    if COLLECTING.load(Ordering::Relaxed) {
        let mut collected = COLLECTED.lock().unwrap_or_else(PoisonError::into_inner);
        let collected = collected.get_or_insert_default();
        collected.entry(code.as_ptr() as usize).or_insert_with(|| code.clone().unbind());
    }
}

/// What was kept.
pub fn collected(py: Python<'_>) -> Vec<Py<PyCode>> {
    let collected = COLLECTED.lock().unwrap_or_else(PoisonError::into_inner);
    collected.iter().flatten().map(|(_, code)| code.clone_ref(py)).collect()
}

fn described(kinds: &[Kind]) -> Vec<String> {
    kinds.iter().map(Kind::describe).collect()
}

/// As a dict that the package in Python makes text of.
pub fn facts<'py>(code: &Bound<'py, PyCode>) -> PyResult<Bound<'py, PyDict>> {
    let facts = PyDict::new(code.py());
    // SAFETY: attached; the code object is alive while its record is read.
    let Some(record) = (unsafe { record::find(code.as_ptr()) }) else {
        let decoded = code::decode(code)?;
        if let Some((unit, why)) =
            code::refusal(code, &decoded).filter(|_| !code::has_loop(code, &decoded))
        {
            facts.set_item("refused", why)?;
            facts.set_item("refused_at", unit)?;
        }
        return Ok(facts);
    };
    facts.set_item("refused", record.refused.borrow().clone())?;
    facts.set_item("refused_at", record.refused_at.get())?;
    facts.set_item("given_back", record.given_back.get())?;
    facts.set_item("rests", record.rests.get())?;
    facts.set_item("calls", record.calls.get())?;
    facts.set_item("entered", record.entered.get())?;
    facts.set_item("left", record.left.get())?;
    facts.set_item("polled", record.polled.get())?;
    facts.set_item("missed", record.missed.get())?;
    facts.set_item("changed", record.changed.get())?;
    facts.set_item("spent", record.spent.get())?;
    let places: Vec<(u32, u64)> =
        record.places.borrow().iter().map(|(unit, n)| (*unit, *n)).collect();
    facts.set_item("places", places)?;
    let describe = |compiled: &Rc<Compiled>| {
        let returns = compiled.returns.as_ref().map(Kind::describe);
        let Compiled { size, blocks, microseconds, .. } = **compiled;
        let entered = compiled.entered.get();
        (described(&compiled.parameters), returns, size, blocks, microseconds, entered)
    };
    let start = |compiled: &Rc<Compiled>| {
        let Compiled { start, size, microseconds, .. } = **compiled;
        let region = compiled.outer.as_ref().and_then(|outer| outer.region);
        let region = region.map(|region| (region.start, region.end));
        let entered = compiled.entered.get();
        (start, described(&compiled.parameters), size, microseconds, entered, region)
    };
    let loops: Vec<_> = record.loops.borrow().iter().map(start).collect();
    facts.set_item("loops", loops)?;
    let versions: Vec<_> = record.compiled.borrow().iter().map(describe).collect();
    facts.set_item("versions", versions)?;
    Ok(facts)
}

/// The IR and the machine code of all that a function was compiled to, compiled once more for it.
pub fn dump(function: &Bound<'_, PyFunction>) -> PyResult<Vec<String>> {
    let code = parts::code_of(function);
    // SAFETY: attached; the code object is alive while its record is read.
    let Some(record) = (unsafe { record::find(code.as_ptr()) }) else { return Ok(Vec::new()) };
    let mut all: Vec<Rc<Compiled>> = record.compiled.borrow().clone();
    all.extend(record.loops.borrow().iter().cloned());
    let list =
        |compiled: &Rc<Compiled>| listing(function, compiled).map_err(PyRuntimeError::new_err);
    all.iter().map(list).collect()
}
