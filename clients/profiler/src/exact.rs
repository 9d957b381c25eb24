//! The hook that times each call at both of its ends.

use crate::graph::{Begun, Graph};
use crate::ring::Ring;
use crate::session::{Local, Session, Tally};
use framehook::{Also, Answer, Event, EventKind, Frame, FrameHook};
use pyo3::prelude::*;
use std::cell::RefCell;
use std::sync::Arc;

/// So many calls of a thread have numbers that no other thread's have.
const NUMBERS: u32 = 40;

thread_local! {
    pub static HERE: RefCell<Option<Local<Graph>>> = const { RefCell::new(None) };
}

impl Tally for Graph {
    fn new(serial: u64, room: usize) -> Self {
        let mut graph = Graph::new(serial << NUMBERS);
        graph.ring = Ring::new(room);
        graph
    }

    fn absorb(&mut self, other: &Self) {
        // Nothing of a thread that has ended goes on.
        Graph::absorb(self, &other.ended(0));
    }
}

/// The hook.
pub struct Exact(pub Arc<Session<Graph>>);

/// The name of the task of asyncio that runs in this thread.
fn running_task(py: Python<'_>) -> Option<String> {
    let modules = py.import("sys").ok()?.getattr("modules").ok()?;
    let task = modules.get_item("asyncio").ok()?.call_method0("current_task").ok()?;
    task.call_method0("get_name").ok()?.extract().ok()
}

fn answer<'py>(begun: Begun) -> Answer<'py, u64> {
    match begun {
        Begun::Running(id) => Answer::pass().watch(id),
        Begun::Made(id) => Answer::pass().watch_also(Also::YIELDS | Also::RESUMES, id),
    }
}

impl Exact {
    /// The first call of this code from where the thread is.
    #[cold]
    #[inline(never)]
    fn begin_slowly<'py>(&self, frame: &Frame<'py>) -> PyResult<Answer<'py, u64>> {
        let (session, py) = (&*self.0, frame.py());
        session.register(py, &HERE, Some(frame));
        let known = session.know(&frame.code()?);
        if known.ignored {
            return Ok(Answer::settled());
        }
        let begun = session.with(py, &HERE, |graph| {
            let link = graph.link(known.key, known.number, known.resumable);
            graph.begin(link, session.clock.now())
        });
        Ok(begun.map_or_else(Answer::pass, answer))
    }

    #[cold]
    #[inline(never)]
    fn resume_slowly(&self, event: &Event<'_, '_, u64>) {
        let (session, py) = (&*self.0, event.py());
        session.register(py, &HERE, None);
        let known = session.know(&event.code());
        let unnamed = session.with(py, &HERE, |graph| {
            let link = graph.link(known.key, known.number, known.resumable);
            graph.resume(link, *event.word(), session.clock.now())
        });
        if unnamed == Some(true) {
            self.name_task(py, *event.word());
        }
    }

    /// A coroutine begins that no other one has awaited: whose is it?
    #[cold]
    #[inline(never)]
    fn name_task(&self, py: Python<'_>, id: u64) {
        let name = running_task(py);
        self.0.with(py, &HERE, |graph| graph.name_task(id, name));
    }
}

impl FrameHook for Exact {
    type Word = u64;

    #[inline]
    fn ask<'py>(&self, frame: &Frame<'py>) -> PyResult<Answer<'py, u64>> {
        // The reference is given back late: at once it would wait for the store that has counted it.
        let code = frame.code()?;
        let key = code.as_ptr() as usize;
        let begun = self.0.with(frame.py(), &HERE, |graph| {
            Some(graph.find(key).map(|link| graph.begin(link, self.0.clock.now())))
        });
        drop(code);
        match begun.flatten().flatten() {
            Some(begun) => Ok(answer(begun)),
            None => self.begin_slowly(frame),
        }
    }

    #[inline]
    fn tell(&self, event: &Event<'_, '_, u64>) -> PyResult<()> {
        let id = *event.word();
        let (py, clock) = (event.py(), self.0.clock);
        if let EventKind::Resumed = event.kind() {
            let key = event.code().as_ptr() as usize;
            let known = self.0.with(py, &HERE, |graph| {
                let link = graph.find(key)?;
                Some(graph.resume(link, id, clock.now()))
            });
            match known.flatten() {
                Some(false) => {}
                Some(true) => self.name_task(py, id),
                None => self.resume_slowly(event),
            }
            return Ok(());
        }
        let raised = matches!(event.kind(), EventKind::Raised(_));
        let goes_on = matches!(event.kind(), EventKind::Yielded(_));
        self.0.with(py, &HERE, |graph| {
            graph.leave(id, clock.now(), raised);
            if !goes_on {
                graph.tasks.forget(id);
            }
        });
        Ok(())
    }
}
