//! An extension module with frame hooks, in safe Rust alone.
//!
//! `count_calls()` counts how often each code object starts, `replace(old, new)` lets every call of
//! one function run another one's code, and `time_calls(function)` measures how long the calls of a
//! function take. Each returns an object, and its hook is installed as long as that object lives.
#![forbid(unsafe_code)]

use framehook::{Answer, Builder, Event, EventKind, Frame, FrameHook, Installed};
use pyo3::prelude::*;
use pyo3::types::{PyCode, PyFunction};
use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A code object's address: its identity, as long as there is a reference to it.
fn identity(code: &Bound<'_, PyCode>) -> usize {
    code.as_ptr() as usize
}

/// The code of a function, or a code object itself.
fn code_of<'py>(function: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyCode>> {
    match function.cast::<PyFunction>() {
        Ok(function) => Ok(function.getattr("__code__")?.cast_into()?),
        Err(_) => Ok(function.cast::<PyCode>()?.clone()),
    }
}

/// Counts the starts of each code object. Keeps the code objects that it has counted: the address
/// of one that has died may be another's soon.
#[derive(Default)]
struct Counter {
    counts: Mutex<HashMap<usize, (Py<PyCode>, u64)>>,
}

impl FrameHook for Counter {
    type Data = ();

    fn on_entry<'py>(&self, frame: &Frame<'py>) -> PyResult<Answer<'py>> {
        let code = frame.code()?;
        let key = identity(&code);
        // Nothing here calls into Python while the lock is held: a reference that is not
        // needed goes, but never the last one.
        let mut counts = lock(&self.counts);
        counts.entry(key).or_insert_with(|| (code.unbind(), 0)).1 += 1;
        Ok(Answer::pass())
    }
}

/// Runs one code object in place of another.
struct Replacement {
    old: Py<PyCode>,
    new: Py<PyCode>,
}

impl FrameHook for Replacement {
    type Data = ();

    fn on_entry<'py>(&self, frame: &Frame<'py>) -> PyResult<Answer<'py>> {
        if !frame.code()?.is(&self.old) {
            // All other code runs at full speed from its second call on.
            return Ok(Answer::disable());
        }
        Ok(Answer::replace(self.new.bind(frame.py()).clone()))
    }
}

/// Adds up how long the calls of one function take, and how many of them raise.
struct Timer {
    code: Py<PyCode>,
    times: Mutex<(Duration, u64)>,
}

impl FrameHook for Timer {
    type Data = Instant;

    fn on_entry<'py>(&self, frame: &Frame<'py>) -> PyResult<Answer<'py, Instant>> {
        if !frame.code()?.is(&self.code) {
            return Ok(Answer::disable());
        }
        Ok(Answer::pass().watch(Instant::now()))
    }

    fn on_event(&self, event: &Event<'_, '_, Instant>) -> PyResult<()> {
        let mut times = lock(&self.times);
        times.0 += event.data().elapsed();
        times.1 += u64::from(matches!(event.kind(), EventKind::Raised(_)));
        Ok(())
    }
}

/// Frame hooks, written in Rust.
#[pymodule]
mod rust_hook {
    use super::*;

    /// Counts the starts of code objects as long as it lives.
    #[pyclass(frozen)]
    struct CallCounter(Installed<Counter>);

    #[pymethods]
    impl CallCounter {
        /// How often the function, or code object, has started.
        #[pyo3(signature = (function, /))]
        fn calls(&self, function: &Bound<'_, PyAny>) -> PyResult<u64> {
            let key = identity(&code_of(function)?);
            Ok(lock(&self.0.hook().counts).get(&key).map_or(0, |(_, count)| *count))
        }
    }

    /// Replaces code as long as it lives.
    #[pyclass(frozen)]
    struct CodeReplacement {
        _installed: Installed<Replacement>,
    }

    /// Measures calls as long as it lives.
    #[pyclass(frozen)]
    struct CallTimer(Installed<Timer>);

    #[pymethods]
    impl CallTimer {
        /// The seconds that the calls have taken, and how many of them have raised.
        fn seconds(&self) -> (f64, u64) {
            let (time, raised) = *lock(&self.0.hook().times);
            (time.as_secs_f64(), raised)
        }
    }

    /// The version of frame hooks that this interpreter has; 0: none.
    #[pyfunction]
    fn version() -> u32 {
        framehook::version()
    }

    /// Count the starts of every code object, while the result lives.
    #[pyfunction]
    fn count_calls(py: Python<'_>) -> PyResult<CallCounter> {
        Ok(CallCounter(Builder::new("call counter").install(py, Counter::default())?))
    }

    /// Calls of old run new's code, while the result lives.
    #[pyfunction]
    #[pyo3(signature = (old, new, /))]
    fn replace(old: &Bound<'_, PyAny>, new: &Bound<'_, PyAny>) -> PyResult<CodeReplacement> {
        let hook = Replacement { old: code_of(old)?.unbind(), new: code_of(new)?.unbind() };
        let installed = Builder::new("replacement").install(old.py(), hook)?;
        Ok(CodeReplacement { _installed: installed })
    }

    /// Measure the calls of a function, while the result lives.
    #[pyfunction]
    #[pyo3(signature = (function, /))]
    fn time_calls(function: &Bound<'_, PyAny>) -> PyResult<CallTimer> {
        let hook = Timer { code: code_of(function)?.unbind(), times: Mutex::default() };
        Ok(CallTimer(Builder::new("timer").install(function.py(), hook)?))
    }
}
