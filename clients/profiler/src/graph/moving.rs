//! Generators and coroutines that one thread has suspended and another one resumes or drops.
//!
//! What is known of one is where it was run last. The numbers of functions and rows are a thread's own.

use super::{Graph, Resumable, NUMBERS, OF_LABEL, OF_THREAD};
use crate::exact::HERE;
use crate::session::{lock, Session};
use crate::tasks;
use pyo3::prelude::*;

/// What is known of a generator, for another thread.
#[derive(Default)]
pub struct Moved {
    /// The number of the function that awaits is that in the profile.
    known: Option<Resumable>,
    task: Option<tasks::Moved>,
}

/// The number of the thread in which a call was made.
fn home_of(id: u64) -> u64 {
    id >> NUMBERS
}

impl Graph {
    pub fn serial(&self) -> u64 {
        self.serial
    }

    /// Whether no other thread knows more of a generator.
    #[inline(always)]
    pub fn is_here(&self, id: u64) -> bool {
        if home_of(id) == self.serial {
            self.lent.is_empty() || !self.lent.contains(&id)
        } else {
            self.resumables.get(&id).is_some_and(|known| known.foreign)
        }
    }

    pub(super) fn describe(&self, id: u64) -> Moved {
        let mut known = self.resumables.get(&id).cloned();
        if let Some(known) = &mut known {
            let numbered = |(func, since)| Some((self.code_of(func)?, since));
            known.awaits = known.awaits.and_then(numbered);
        }
        Moved { known, task: self.tasks.describe(id) }
    }

    /// Another thread runs a generator from now on.
    fn give(&mut self, id: u64) -> Moved {
        let moved = self.describe(id);
        self.resumables.remove(&id);
        self.tasks.give(id);
        if home_of(id) == self.serial {
            self.lent.insert(id);
        }
        moved
    }

    /// Takes over what another thread has known. `counts`: with what it has [given](Self::give).
    pub(super) fn take_over(&mut self, id: u64, moved: Moved, counts: bool) {
        let foreign = home_of(id) != self.serial;
        self.lent.remove(&id);
        if let Some(mut known) = moved.known.or_else(|| foreign.then(Resumable::default)) {
            known.foreign = foreign;
            known.awaits = known.awaits.map(|(code, since)| (self.func(code), since));
            for label in &mut known.labels {
                label.id = (self.new_id() & OF_THREAD) << 3 | OF_LABEL;
            }
            self.resumables.insert(id, known);
        }
        if let Some(task) = moved.task {
            self.tasks.take(id, task, counts);
        }
    }

    /// A frame never runs again: a generator's that is suspended, or, where its thread ends, any. `true`: it was made in
    /// another thread.
    fn drop_frame(&mut self, id: u64, now: u64) -> bool {
        self.leave(id, now, false);
        let awaits = self.resumables.get_mut(&id).and_then(|known| known.awaits.take());
        if let Some(awaits) = awaits {
            self.has_awaited(id, awaits, now);
        }
        self.forget(id)
    }
}

impl Session<Graph> {
    /// This thread resumes a generator: it takes over what another one knows of it.
    #[cold]
    pub fn bring(&self, py: Python<'_>, id: u64) {
        let elsewhere = |graph: &mut Graph| (!graph.is_here(id)).then_some(graph.serial());
        let Some(Some(here)) = self.with(py, &HERE, elsewhere) else { return };
        let before = {
            let mut moved = lock(&self.moved);
            if here == home_of(id) {
                moved.remove(&id)
            } else {
                moved.insert(id, here)
            }
        };
        let before = self.thread(before.unwrap_or(home_of(id)));
        // In the child of a fork other threads are not there.
        let moved = before.and_then(|slot| slot.tally.with(py, |graph| graph.give(id)));
        self.with(py, &HERE, |graph| graph.take_over(id, moved.unwrap_or_default(), true));
    }

    /// A generator was closed or released while it was suspended, in whatever thread.
    pub fn dropped(&self, py: Python<'_>, id: u64) {
        let now = self.clock.now();
        let here = |graph: &mut Graph| graph.is_here(id).then(|| graph.drop_frame(id, now));
        match self.with(py, &HERE, here).flatten() {
            Some(false) => {}
            Some(true) => self.forget_moved(py, id),
            None => self.dropped_elsewhere(py, id, now),
        }
    }

    #[cold]
    fn dropped_elsewhere(&self, py: Python<'_>, id: u64, now: u64) {
        let before = lock(&self.moved).get(&id).copied();
        if let Some(slot) = self.thread(before.unwrap_or(home_of(id))) {
            slot.tally.with(py, |graph| graph.drop_frame(id, now));
        }
        if before.is_some() {
            self.forget_moved(py, id);
        }
    }

    /// A generator has ended that was made in another thread.
    #[cold]
    pub fn forget_moved(&self, py: Python<'_>, id: u64) {
        lock(&self.moved).remove(&id);
        if let Some(home) = self.thread(home_of(id)) {
            home.tally.with(py, |graph| graph.lent.remove(&id));
        }
    }
}
