//! A hook that is called at hot loops, and does there what its kind says.

use framehook::{Answer, Builder, Frame, FrameHook, HotLoop, Installed, LoopAnswer};
use pyo3::exceptions::{PyKeyError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyCode;
use std::sync::atomic::{AtomicU64, Ordering};

pub struct LoopCase {
    kind: String,
    calls: AtomicU64,
}

impl FrameHook for LoopCase {
    type Data = ();

    fn on_entry<'py>(&self, _: &Frame<'py>) -> PyResult<Answer<'py>> {
        Ok(Answer::disable())
    }

    fn on_loop<'py>(&self, hot: &mut HotLoop<'_, 'py>) -> PyResult<LoopAnswer<'py>> {
        let py = hot.py();
        self.calls.fetch_add(1, Ordering::Relaxed);
        match self.kind.as_str() {
            "continue" => Ok(LoopAnswer::Continue),
            "never again" => {
                hot.set_turns(0);
                Ok(LoopAnswer::Continue)
            }
            "skip the rest" => {
                if let Some(iterator) = hot.stack(0) {
                    iterator.call_method1("__setstate__", (1_000_000,))?;
                }
                Ok(LoopAnswer::Continue)
            }
            "set" => {
                hot.set_local(1, "set".into_pyobject(py)?.into_any())?;
                Ok(LoopAnswer::Continue)
            }
            "set elsewhere" => {
                hot.set_local(1_000, py.None().into_bound(py))?;
                Ok(LoopAnswer::Continue)
            }
            "what it sees" => {
                let locals = (0..).map_while(|index| hot.local(index).ok());
                let locals: Vec<_> = locals.collect();
                let (code, function) = (hot.code(), hot.function());
                let seen = (code, function, hot.jump(), hot.head(), hot.stack_depth(), locals);
                Ok(LoopAnswer::Result(seen.into_pyobject(py)?.into_any()))
            }
            "unwind" => Ok(LoopAnswer::Unwind(PyKeyError::new_err("unwound"))),
            "panic" => panic!("in a loop"),
            kind => Err(PyValueError::new_err(kind.to_owned())),
        }
    }
}

/// Watches loops as long as it lives.
#[pyclass(frozen)]
pub struct Loops(Installed<LoopCase>);

#[pymethods]
impl Loops {
    /// How often the hook was called.
    fn calls(&self) -> u64 {
        self.0.hook().calls.load(Ordering::Relaxed)
    }

    /// Watches the loops of code, and returns how many there are.
    fn watch(&self, code: &Bound<'_, PyCode>, turns: u16) -> PyResult<usize> {
        self.0.watch_loops(code, turns)
    }

    fn unwatch(&self, code: &Bound<'_, PyCode>) -> PyResult<()> {
        self.0.unwatch_loops(code)
    }
}

/// Installs a hook for loops.
#[pyfunction]
pub fn loops(py: Python<'_>, kind: String) -> PyResult<Loops> {
    let case = LoopCase { kind, calls: AtomicU64::new(0) };
    Ok(Loops(Builder::new("loops").install(py, case)?))
}
