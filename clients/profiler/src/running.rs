//! A profile's life, whatever it counts.

use crate::codes::Named;
use crate::monitoring::{self, Tool};
use crate::place::Place;
use crate::result;
use crate::session::{lock, Session, Tally, NAME};
use framehook::raw::Api;
use framehook::{Builder, FrameHook};
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};
use std::any::Any;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};

/// What reports calls to a profile.
enum Source {
    /// The id of a frame hook, and what removes it when it is dropped.
    Hook(i64, Box<dyn Any + Send + Sync>),
    Tool(Tool),
}

/// A profile that is started once and stopped once.
pub struct Running<T: Tally> {
    pub session: Arc<Session<T>>,
    pub place: &'static Place<T>,
    installed: Mutex<Option<Source>>,
    ended: Mutex<Option<u64>>,
}

impl<T: Tally> Running<T> {
    /// Functions of files that begin with `ignored` are the profiler's own.
    /// Each thread keeps `room` events. `with_cpu`: functions have CPU time too. The lines of `lined` have times.
    pub fn new(
        ignored: Option<String>,
        room: usize,
        with_cpu: bool,
        lined: Vec<Named>,
        place: &'static Place<T>,
    ) -> Self {
        let session = Arc::new(Session::new(ignored, room, with_cpu, lined));
        Self { session, place, installed: Mutex::default(), ended: Mutex::default() }
    }

    /// Installs the hook, or the tool where there are no frame hooks; `lines` is the tool that reports
    /// lines, if there is one.
    pub fn start<H: FrameHook>(
        &self,
        py: Python<'_>,
        hook: impl FnOnce(Arc<Session<T>>) -> H,
        tool: impl FnOnce() -> PyResult<Tool>,
        lines: impl FnOnce() -> PyResult<Option<Tool>>,
    ) -> PyResult<()> {
        if lock(&self.installed).is_some() || lock(&self.ended).is_some() {
            return Err(PyRuntimeError::new_err("a profile is started once"));
        }
        self.session.register(py, self.place, None);
        let lines = lines()?;
        *lock(&self.session.lines) = lines.map(|tool| Arc::new(tool) as _);
        let install = || -> PyResult<Source> {
            if framehook::version() == 0 {
                return Ok(Source::Tool(tool()?));
            }
            let hook = Builder::new(NAME).install(py, hook(self.session.clone()))?;
            Ok(Source::Hook(hook.id(), Box::new(hook)))
        };
        let source = install().inspect_err(|_| self.remove_lines(py))?;
        *lock(&self.installed) = Some(source);
        self.session.begin();
        Ok(())
    }

    /// Counts nothing that the calling thread begins from now on.
    pub fn leave_out_this_thread(&self, py: Python<'_>) {
        // No lock is held while the interpreter is called.
        let id = match &*lock(&self.installed) {
            Some(Source::Hook(id, _)) => *id,
            Some(Source::Tool(_)) => return monitoring::leave_out_this_thread(self.session.serial),
            None => return,
        };
        let Ok(api) = Api::get() else { return };
        // SAFETY: attached; any id is allowed.
        if unsafe { (api.PyUnstable_FrameHook_DisableInThread)(id) } != 0 {
            drop(PyErr::take(py)); // the hook has been removed
        }
    }

    fn remove_lines(&self, py: Python<'_>) {
        let tool = lock(&self.session.lines).take();
        if let Some(tool) = tool {
            tool.remove(py);
        }
    }

    /// Removes the hook or the tool. What is under way ends now.
    pub fn stop(&self, py: Python<'_>) {
        let Some(source) = lock(&self.installed).take() else { return };
        let now = self.session.clock.now();
        lock(&self.ended).get_or_insert(now);
        self.session.cpu.stop();
        let slots = lock(&self.session.threads).clone();
        slots.iter().for_each(|slot| slot.cpu.stop());
        self.remove_lines(py);
        match source {
            Source::Hook(_, hook) => drop(hook),
            Source::Tool(tool) => tool.remove(py),
        }
    }

    /// What was found until now or until the end; `thread` makes a thread's result of its tally,
    /// the time and the CPU time.
    pub fn result<'py>(
        &self,
        py: Python<'py>,
        timed: bool,
        thread: impl Fn(&T, u64, u64) -> PyResult<Bound<'py, PyDict>>,
    ) -> PyResult<Bound<'py, PyDict>>
    where
        T: Clone,
    {
        let session = &*self.session;
        let now = lock(&self.ended).unwrap_or_else(|| session.clock.now());
        let slots = lock(&session.threads).clone();
        let threads = PyList::empty(py);
        for slot in slots {
            let Some(tally) = slot.tally.with(py, |tally| tally.clone()) else { continue };
            let cpu = slot.cpu.nanoseconds();
            let found = thread(&tally, now, cpu)?;
            found.set_item("ident", slot.ident)?;
            found.set_item("cpu", cpu)?;
            let name = lock(&slot.name).clone();
            found.set_item("name", name)?;
            threads.append(found)?;
        }
        let found = PyDict::new(py);
        let (identities, chosen) = {
            let codes = lock(&session.codes);
            (codes.identities().to_vec(), codes.found())
        };
        found.set_item("codes", result::functions(py, &identities)?)?;
        // Without a lock held: an object may be collected meanwhile.
        let objects = lock(&session.codes).objects(py);
        found.set_item("objects", objects.into_pyobject(py)?)?;
        found.set_item("chosen", chosen)?;
        found.set_item("threads", threads)?;
        found.set_item("began", session.began_at)?;
        let (clock, since) = (session.clock, session.since.load(Ordering::Relaxed));
        found.set_item("date", session.date + clock.nanoseconds(since - session.began))?;
        found.set_item("wall", clock.nanoseconds(now.saturating_sub(since)))?;
        found.set_item("cpu", session.cpu.nanoseconds())?;
        found.set_item("clock", session.clock.name())?;
        found.set_item("timed", timed)?;
        Ok(found)
    }

    /// In the child of a fork.
    pub fn after_fork(&self, py: Python<'_>, restart: impl FnOnce(&mut T)) {
        self.session.forget_others(self.place);
        self.session.with(py, self.place, restart);
    }
}

impl<T: Tally> Drop for Running<T> {
    fn drop(&mut self) {
        // Let go where no lock is held.
        let kept = lock(&self.session.codes).take_kept();
        drop(kept);
    }
}
