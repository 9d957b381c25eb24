//! Compiled code, and the guards under which it may run.

use crate::call::call;
use pyo3::exceptions::PyException;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyCode, PyDict};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// What of an entry may change.
struct Live {
    guard_manager: Py<PyAny>,
    code: Py<PyAny>,
    backend: Py<PyAny>,
    /// `check` of the root of the guards. `None`: the entry is invalid.
    check: Option<Py<PyAny>>,
    /// The same of the guards that distinguish the entries of a code object, if torch has made them.
    check_differences: Option<Py<PyAny>>,
}

/// Compiled code of a code object, with its guards.
///
/// The lock is held for moments in which no Python code runs.
#[pyclass(frozen, module = "torch._C._dynamo.eval_frame", name = "_CacheEntry")]
pub struct CacheEntry {
    live: Mutex<Live>,
    compile_id: Py<PyAny>,
    trace_annotation: Py<PyAny>,
    isolate_recompiles_id: i64,
}

fn check_of(manager: &Bound<'_, PyAny>, root: &str) -> PyResult<Option<Py<PyAny>>> {
    let root = manager.getattr(root)?;
    if root.is_none() {
        return Ok(None);
    }
    Ok(Some(root.getattr("check")?.unbind()))
}

impl CacheEntry {
    /// Of torch's `GuardedCode`.
    pub fn of(guarded: &Bound<'_, PyAny>, backend: Py<PyAny>, region: i64) -> PyResult<Self> {
        let manager = guarded.getattr("guard_manager")?;
        let live = Live {
            code: guarded.getattr("code")?.cast_into::<PyCode>()?.into_any().unbind(),
            check: check_of(&manager, "root")?,
            check_differences: check_of(&manager, "diff_guard_root")?,
            guard_manager: manager.unbind(),
            backend,
        };
        Ok(Self {
            live: Mutex::new(live),
            compile_id: guarded.getattr("compile_id")?.unbind(),
            trace_annotation: guarded.getattr("trace_annotation")?.unbind(),
            isolate_recompiles_id: region,
        })
    }

    fn live(&self) -> MutexGuard<'_, Live> {
        self.live.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Its region.
    pub fn region(&self) -> i64 {
        self.isolate_recompiles_id
    }

    /// What it is called in a profile.
    pub fn annotation(&self, py: Python<'_>) -> Py<PyAny> {
        self.trace_annotation.clone_ref(py)
    }

    /// Whether it was made by this backend. One that cannot be compared is another one; an interrupt is an error.
    pub fn is_by(&self, backend: &Bound<'_, PyAny>) -> PyResult<bool> {
        let own = {
            let live = self.live();
            if live.backend.is(backend) {
                return Ok(true);
            }
            live.backend.bind(backend.py()).clone()
        };
        match own.eq(backend) {
            Err(error) if error.is_instance_of::<PyException>(backend.py()) => Ok(false),
            result => result,
        }
    }

    /// Whether the guards hold for these locals.
    pub fn holds(&self, locals: &Bound<'_, PyDict>, differences_alone: bool) -> PyResult<bool> {
        let py = locals.py();
        let check = {
            let live = self.live();
            let check = if differences_alone { &live.check_differences } else { &live.check };
            check.as_ref().map(|check| check.bind(py).clone())
        };
        match check {
            Some(check) => Ok(call(&check, [locals])?.is(&*PyBool::new(py, true))),
            // Without guards there is nothing that could distinguish it from others.
            None => Ok(differences_alone && self.has_no_guards(py)?),
        }
    }

    fn has_no_guards(&self, py: Python<'_>) -> PyResult<bool> {
        let manager = {
            let live = self.live();
            if live.check.is_none() {
                return Ok(false);
            }
            live.guard_manager.bind(py).clone()
        };
        let root = manager.getattr("root")?;
        for kind in ["get_leaf_guards", "get_accessors", "get_epilogue_lambda_guards"] {
            if root.call_method0(kind)?.len()? != 0 {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// What may run. `None`: the entry has become invalid.
    pub fn code_now<'py>(&self, py: Python<'py>) -> Option<Bound<'py, PyCode>> {
        let code = self.live().code.bind(py).clone();
        code.cast_into().ok()
    }

    /// The entry does not hold any more. `deleted` is torch's stand-in for its guards.
    pub fn invalidate(&self, py: Python<'_>, deleted: Py<PyAny>) -> PyResult<()> {
        self.forget(py)?;
        let before = {
            let mut live = self.live();
            live.check = None;
            live.check_differences = None;
            (
                std::mem::replace(&mut live.code, py.None()),
                std::mem::replace(&mut live.backend, py.None()),
                std::mem::replace(&mut live.guard_manager, deleted),
            )
        };
        drop(before);
        Ok(())
    }

    /// The guards do not know of the entry any more.
    pub fn forget(&self, py: Python<'_>) -> PyResult<()> {
        let manager = self.live().guard_manager.clone_ref(py);
        let manager = manager.bind(py);
        manager.setattr("cache_entry", py.None())?;
        manager.setattr("extra_state", py.None())
    }
}

#[pymethods]
impl CacheEntry {
    #[getter]
    fn guard_manager(&self, py: Python<'_>) -> Py<PyAny> {
        self.live().guard_manager.clone_ref(py)
    }

    #[getter]
    fn code(&self, py: Python<'_>) -> Py<PyAny> {
        self.live().code.clone_ref(py)
    }

    #[getter]
    fn backend(&self, py: Python<'_>) -> Py<PyAny> {
        self.live().backend.clone_ref(py)
    }

    #[getter]
    fn compile_id(&self, py: Python<'_>) -> Py<PyAny> {
        self.compile_id.clone_ref(py)
    }

    #[getter]
    fn trace_annotation(&self, py: Python<'_>) -> Py<PyAny> {
        self.annotation(py)
    }

    #[getter]
    fn isolate_recompiles_id(&self) -> i64 {
        self.isolate_recompiles_id
    }

    /// torch has made other guards that distinguish the entries.
    fn update_diff_guard_root_manager(&self, py: Python<'_>) -> PyResult<()> {
        let manager = self.live().guard_manager.clone_ref(py);
        let check = check_of(manager.bind(py), "diff_guard_root")?;
        let before = std::mem::replace(&mut self.live().check_differences, check);
        drop(before);
        Ok(())
    }
}

/// Code that was compiled in another process, with its guards.
#[pyclass(frozen, module = "torch._C._dynamo.eval_frame", name = "_PrecompileEntry")]
pub struct PrecompileEntry {
    #[pyo3(get)]
    guard_manager: Py<PyAny>,
    code: Py<PyCode>,
    check: Option<Py<PyAny>>,
}

impl PrecompileEntry {
    pub fn new(manager: &Bound<'_, PyAny>, code: Bound<'_, PyCode>) -> PyResult<Self> {
        Ok(Self {
            guard_manager: manager.clone().unbind(),
            code: code.unbind(),
            check: check_of(manager, "root")?,
        })
    }

    /// Its guards, and its code.
    pub fn parts<'py>(&self, py: Python<'py>) -> (Bound<'py, PyAny>, Bound<'py, PyCode>) {
        (self.guard_manager.bind(py).clone(), self.code.bind(py).clone())
    }

    /// Its code, if the guards hold.
    pub fn found<'py>(&self, locals: &Bound<'py, PyDict>) -> PyResult<Option<Bound<'py, PyCode>>> {
        let py = locals.py();
        let Some(check) = &self.check else { return Ok(None) };
        let holds = call(check.bind(py), [locals])?.is_truthy()?;
        Ok(holds.then(|| self.code.bind(py).clone()))
    }
}
