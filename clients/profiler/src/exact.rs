//! The hook that times each call at both of its ends.

use crate::arguments::described;
use crate::entered::Entered;
use crate::graph::{Begun, Graph};
use crate::place::{Owner, Place, Quick};
use crate::ring::Ring;
use crate::session::{modules, Session, Tally};
use framehook::{Also, Answer, Event, EventKind, Frame, FrameHook};
use pyo3::prelude::*;
use pyo3::types::PyCode;
use pyo3::Borrowed;
use std::cell::RefCell;
use std::sync::Arc;

thread_local! {
    static QUICK: Quick<Graph> = const { Quick::new() };
    static OWNER: RefCell<Option<Owner<Graph>>> = const { RefCell::new(None) };
}

/// Where a thread keeps its part.
pub static HERE: Place<Graph> = Place { quick: &QUICK, owner: &OWNER };

impl Tally for Graph {
    fn new(serial: u64, room: usize, cpu: bool) -> Self {
        let mut graph = Graph::new(serial);
        if cpu {
            graph.begin_cpu();
        }
        graph.ring = Ring::new(room);
        graph.tasks.one_by_one = room != 0;
        graph
    }

    fn absorb(&mut self, other: &Self) {
        // Nothing runs in a thread that has ended.
        Graph::absorb(self, &other.returned(0, 0));
    }
}

/// The hook. With `ARGUMENTS` the timeline has those of each call.
pub struct Exact<const ARGUMENTS: bool>(pub Arc<Session<Graph>>);

/// The name of the task of asyncio that runs in this thread, and the code of its own coroutine.
fn running_task(py: Python<'_>) -> Option<(String, Option<Bound<'_, PyCode>>)> {
    let task = modules(py)?.get_item("asyncio").ok()?.call_method0("current_task").ok()?;
    let own = task.call_method0("get_coro").and_then(|coroutine| coroutine.getattr("cr_code"));
    let name = task.call_method0("get_name").ok()?.extract().ok()?;
    Some((name, own.ok().and_then(|own| own.cast_into().ok())))
}

#[inline(always)]
fn watched<'py>(begun: Begun) -> Answer<'py, u64> {
    match begun {
        Begun::Running(id) => Answer::pass().watch(id),
        Begun::Made(id) => Answer::pass().watch_also(Also::YIELDS | Also::RESUMES, id),
    }
}

impl<const ARGUMENTS: bool> Exact<ARGUMENTS> {
    #[cold]
    #[inline(never)]
    fn begin_slowly<'py>(&self, code: &Bound<'py, PyCode>, frame: &Frame<'py>) -> Answer<'py, u64> {
        let session = &*self.0;
        let begun =
            session.first_call(code, frame, |graph, link| graph.begin(link, session.clock.now()));
        match begun {
            Err(Ignored) => Answer::disable(), // and its thread may be the profiler's own
            Ok(None) => Answer::pass(),
            Ok(Some(begun)) => {
                if ARGUMENTS {
                    session.note_arguments(&begun, frame, code.py());
                }
                watched(begun)
            }
        }
    }
}

/// The code is the profiler's own.
pub struct Ignored;

/// The slower steps, for frame hooks and for callbacks of `sys.monitoring`.
impl Session<Graph> {
    /// The first call of this code from where the thread is. `None`: the thread has no tally.
    pub fn first_call<'py, R>(
        &self,
        code: &Bound<'py, PyCode>,
        frame: &dyn Entered<'py>,
        begin: impl FnOnce(&mut Graph, u32) -> R,
    ) -> Result<Option<R>, Ignored> {
        let py = code.py();
        let known = self.know(code);
        if known.ignored {
            return Err(Ignored);
        }
        self.register(py, &HERE, Some((code, frame)));
        Ok(self.with(py, &HERE, |graph| {
            let link = graph.link(known.key, known.number, known.kind);
            begin(graph, link)
        }))
    }

    #[cold]
    #[inline(never)]
    pub fn note_arguments(&self, begun: &Begun, frame: &dyn Entered<'_>, py: Python<'_>) {
        if let Some(text) = described(frame) {
            self.with(py, &HERE, |graph| graph.with_arguments(begun, text));
        }
    }

    #[cold]
    #[inline(never)]
    fn resume_slowly(&self, code: &Bound<'_, PyCode>, id: u64) {
        let py = code.py();
        self.register(py, &HERE, None);
        self.bring(py, id);
        let known = self.know(code);
        let unnamed = self.with(py, &HERE, |graph| {
            let link = graph.link(known.key, known.number, known.kind);
            graph.resume(link, id, self.clock.now())
        });
        if unnamed == Some(true) {
            self.name_task(code, id);
        }
    }

    /// A coroutine begins that no other one has awaited: whose is it?
    #[cold]
    #[inline(never)]
    fn name_task(&self, code: &Bound<'_, PyCode>, id: u64) {
        let (name, own) = running_task(code.py()).unzip();
        // What is thrown into a task enters the innermost coroutine, and none of those that await it.
        let own = own.flatten().filter(|own| !own.is(code)).map(|own| self.know(&own).number);
        self.with(code.py(), &HERE, |graph| graph.name_task(id, name, own));
    }

    /// A generator or coroutine runs from now on.
    pub fn resumed(&self, py: Python<'_>, code: Borrowed<'_, '_, PyCode>, id: u64) {
        let key = code.as_ptr() as usize;
        let known = self.with(py, &HERE, |graph| {
            let link = graph.find(key).filter(|_| graph.is_here(id))?;
            Some(graph.resume(link, id, self.clock.now()))
        });
        match known.flatten() {
            Some(false) => {}
            Some(true) => Python::attach(|_| self.name_task(&code, id)),
            None => Python::attach(|_| self.resume_slowly(&code, id)),
        }
    }
}

impl<const ARGUMENTS: bool> FrameHook for Exact<ARGUMENTS> {
    type Data = u64;
    const BARE: bool = true;

    #[inline(always)]
    fn on_entry<'py>(&self, frame: &Frame<'py>) -> PyResult<Answer<'py, u64>> {
        let code = frame.code()?;
        let key = code.as_ptr() as usize;
        let begun = self.0.with(frame.py(), &HERE, |graph| {
            Some(graph.find(key).map(|link| graph.begin(link, self.0.clock.now())))
        });
        Ok(match begun.flatten().flatten() {
            Some(begun) => {
                if ARGUMENTS {
                    Python::attach(|py| self.0.note_arguments(&begun, frame, py));
                }
                watched(begun)
            }
            None => Python::attach(|_| self.begin_slowly(&code, frame)),
        })
    }

    #[inline(always)]
    fn on_event(&self, event: &Event<'_, '_, u64>) -> PyResult<()> {
        let (py, kind, id) = (event.py(), event.kind(), *event.data());
        match kind {
            EventKind::Resumed => self.0.resumed(py, event.code(), id),
            EventKind::Dropped => self.0.dropped(py, id),
            EventKind::Yielded(_) => {
                self.0.with(py, &HERE, |graph| graph.suspend(id, self.0.clock.now()));
            }
            EventKind::Returned(_) | EventKind::Raised(_) => {
                let raised = matches!(kind, EventKind::Raised(_));
                let foreign = self.0.with(py, &HERE, |graph| {
                    graph.leave(id, self.0.clock.now(), raised);
                    graph.forget(id)
                });
                if foreign == Some(true) {
                    self.0.forget_moved(py, id);
                }
            }
        }
        Ok(())
    }
}
