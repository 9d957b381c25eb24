//! The hook that times each call at both of its ends.

use crate::arguments::described;
use crate::face::{attached, Frame, Hook, Said, Told};
use crate::graph::{Begun, Graph};
use crate::place::{Owner, Place, Quick};
use crate::ring::Ring;
use crate::session::{modules, Session, Tally};
use pyo3::prelude::*;
use pyo3::types::PyCode;
use pyo3::Borrowed;
use std::cell::RefCell;
use std::sync::Arc;

/// So many calls of a thread have numbers that no other thread's have.
const NUMBERS: u32 = 40;

thread_local! {
    static QUICK: Quick<Graph> = const { Quick::new() };
    static OWNER: RefCell<Option<Owner<Graph>>> = const { RefCell::new(None) };
}

/// Where a thread keeps its part.
pub static HERE: Place<Graph> = Place { quick: &QUICK, owner: &OWNER };

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

/// The hook. With `ARGUMENTS` the timeline has those of each call.
pub struct Exact<const ARGUMENTS: bool>(pub Arc<Session<Graph>>);

/// The name of the task of asyncio that runs in this thread.
fn running_task(py: Python<'_>) -> Option<String> {
    let task = modules(py)?.get_item("asyncio").ok()?.call_method0("current_task").ok()?;
    task.call_method0("get_name").ok()?.extract().ok()
}

fn said(begun: Begun) -> Said {
    match begun {
        Begun::Running(id) => Said::Watch(id),
        Begun::Made(id) => Said::WatchAll(id),
    }
}

impl<const ARGUMENTS: bool> Exact<ARGUMENTS> {
    /// The first call of this code from where the thread is.
    #[cold]
    #[inline(never)]
    fn begin_slowly(&self, code: &Bound<'_, PyCode>, frame: &Frame) -> Said {
        let (session, py) = (&*self.0, code.py());
        session.register(py, &HERE, Some((code, frame)));
        let known = session.know(code);
        if known.ignored {
            return Said::Settled;
        }
        let begun = session.with(py, &HERE, |graph| {
            let link = graph.link(known.key, known.number, known.resumable);
            graph.begin(link, session.clock.now())
        });
        let Some(begun) = begun else { return Said::Pass };
        if ARGUMENTS {
            self.note_arguments(py, &begun, frame);
        }
        said(begun)
    }

    #[cold]
    #[inline(never)]
    fn note_arguments(&self, py: Python<'_>, begun: &Begun, frame: &Frame) {
        if let Some(text) = described(py, frame) {
            self.0.with(py, &HERE, |graph| graph.with_arguments(begun, text));
        }
    }

    #[cold]
    #[inline(never)]
    fn resume_slowly(&self, code: &Bound<'_, PyCode>, id: u64) {
        let (session, py) = (&*self.0, code.py());
        session.register(py, &HERE, None);
        let known = session.know(code);
        let unnamed = session.with(py, &HERE, |graph| {
            let link = graph.link(known.key, known.number, known.resumable);
            graph.resume(link, id, session.clock.now())
        });
        if unnamed == Some(true) {
            self.name_task(py, id);
        }
    }

    /// A coroutine begins that no other one has awaited: whose is it?
    #[cold]
    #[inline(never)]
    fn name_task(&self, py: Python<'_>, id: u64) {
        let name = running_task(py);
        self.0.with(py, &HERE, |graph| graph.name_task(id, name));
    }

    fn resumed(&self, py: Python<'_>, code: Borrowed<'_, '_, PyCode>, id: u64) {
        let key = code.as_ptr() as usize;
        let known = self.0.with(py, &HERE, |graph| {
            let link = graph.find(key)?;
            Some(graph.resume(link, id, self.0.clock.now()))
        });
        match known.flatten() {
            Some(false) => {}
            Some(true) => attached(|py| self.name_task(py, id)),
            None => attached(|_| self.resume_slowly(&code, id)),
        }
    }
}

impl<const ARGUMENTS: bool> Hook for Exact<ARGUMENTS> {
    const WATCHES: bool = true;

    #[inline(always)]
    fn ask(&self, py: Python<'_>, code: Borrowed<'_, '_, PyCode>, frame: &Frame) -> Said {
        let key = code.as_ptr() as usize;
        let begun = self.0.with(py, &HERE, |graph| {
            Some(graph.find(key).map(|link| graph.begin(link, self.0.clock.now())))
        });
        match begun.flatten().flatten() {
            Some(begun) => {
                if ARGUMENTS {
                    attached(|py| self.note_arguments(py, &begun, frame));
                }
                said(begun)
            }
            None => attached(|_| self.begin_slowly(&code, frame)),
        }
    }

    #[inline(always)]
    fn tell(&self, py: Python<'_>, code: Borrowed<'_, '_, PyCode>, told: Told, word: u64) {
        if told == Told::Resumed {
            return self.resumed(py, code, word);
        }
        self.0.with(py, &HERE, |graph| {
            graph.leave(word, self.0.clock.now(), told == Told::Raised);
            if told != Told::Yielded {
                graph.forget(word);
            }
        });
    }
}
