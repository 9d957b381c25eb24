//! The part of the profiler that runs at each call.
//!
//! `Profile` is a profile that is being made. What it has found comes as lists of numbers; the
//! package in Python writes the reports.

mod attached;
mod clock;
mod codes;
mod exact;
mod graph;
mod result;
mod session;

use pyo3::prelude::*;

/// The profiler's machinery, written in Rust.
#[pymodule]
mod _core {
    use super::*;
    use crate::exact::{Exact, HERE};
    use crate::graph::Graph;
    use crate::session::{lock, Session};
    use framehook::{Builder, Installed};
    use pyo3::exceptions::PyRuntimeError;
    use pyo3::types::{PyDict, PyList};
    use std::sync::{Arc, Mutex};

    /// A profile with exact times.
    #[pyclass(frozen)]
    struct ExactProfile {
        session: Arc<Session<Graph>>,
        installed: Mutex<Option<Installed<Exact>>>,
        ended: Mutex<Option<u64>>,
    }

    #[pymethods]
    impl ExactProfile {
        /// Functions of files that begin with `ignored` are not profiled.
        #[new]
        #[pyo3(signature = (ignored=None))]
        fn new(ignored: Option<String>) -> Self {
            let session = Arc::new(Session::new(ignored));
            Self { session, installed: Mutex::default(), ended: Mutex::default() }
        }

        /// Begins. RuntimeError: it has begun, or this interpreter has no frame hooks.
        fn start(&self, py: Python<'_>) -> PyResult<()> {
            if lock(&self.installed).is_some() || lock(&self.ended).is_some() {
                return Err(PyRuntimeError::new_err("a profile is started once"));
            }
            self.session.register(py, &HERE, None);
            let hook = Exact(self.session.clone());
            let installed = Builder::new("ferrule_profiler").hidden().install(py, hook)?;
            *lock(&self.installed) = Some(installed);
            Ok(())
        }

        /// Ends. What is still under way counts until now.
        fn stop(&self, py: Python<'_>) -> PyResult<()> {
            let Some(installed) = lock(&self.installed).take() else { return Ok(()) };
            let now = self.session.clock.now();
            lock(&self.ended).get_or_insert(now);
            let removed = installed.remove(py);
            // Somebody else may have removed every hook.
            drop(removed);
            Ok(())
        }

        /// What was found until now, or until the end.
        fn result<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
            let session = &*self.session;
            let now = lock(&self.ended).unwrap_or_else(|| session.clock.now());
            let rate = session.clock.nanoseconds_per_tick();
            let slots = lock(&session.threads).clone();
            let threads = PyList::empty(py);
            for slot in slots {
                let Some(graph) = slot.tally.with(py, |graph| graph.ended(now)) else { continue };
                let thread = result::thread(py, &graph, rate)?;
                thread.set_item("ident", slot.ident)?;
                thread.set_item("name", &*lock(&slot.name))?;
                threads.append(thread)?;
            }
            let found = PyDict::new(py);
            found.set_item("codes", result::functions(py, &lock(&session.codes))?)?;
            found.set_item("threads", threads)?;
            found.set_item("clock", session.clock.name())?;
            Ok(found)
        }

        /// In the child of a fork: forgets what the parent has counted.
        fn after_fork(&self, py: Python<'_>) {
            let session = &*self.session;
            session.forget_others(&HERE);
            session.with(py, &HERE, |graph| graph.restart(session.clock.now()));
        }

        /// One greenlet of this thread stops and another one goes on.
        fn switch(&self, py: Python<'_>, from: usize, to: usize) {
            let session = &*self.session;
            session.with(py, &HERE, |graph| graph.switch(from, to, session.clock.now()));
        }
    }

    impl Drop for ExactProfile {
        fn drop(&mut self) {
            // Let go where no lock is held.
            let kept = lock(&self.session.codes).take_kept();
            drop(kept);
        }
    }

    /// The edition of frame hooks that this interpreter has; 0: none.
    #[pyfunction]
    fn version() -> u32 {
        framehook::version()
    }
}
