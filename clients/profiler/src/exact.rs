//! The hook that times each call at both of its ends.

use crate::graph::{Begun, Graph};
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
    fn new(serial: u64) -> Self {
        Graph::new(serial << NUMBERS)
    }

    fn absorb(&mut self, other: &Self) {
        // Nothing of a thread that has ended goes on.
        Graph::absorb(self, &other.ended(0));
    }
}

/// The hook.
pub struct Exact(pub Arc<Session<Graph>>);

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
        session.with(py, &HERE, |graph| {
            let link = graph.link(known.key, known.number, known.resumable);
            graph.enter(link, *event.word(), session.clock.now());
        });
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
                graph.enter(link, id, clock.now());
                Some(())
            });
            if known.flatten().is_none() {
                self.resume_slowly(event);
            }
            return Ok(());
        }
        let raised = matches!(event.kind(), EventKind::Raised(_));
        self.0.with(py, &HERE, |graph| graph.leave(id, clock.now(), raised));
        Ok(())
    }
}
