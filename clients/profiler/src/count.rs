//! The hook that only counts.

use crate::face::{attached, Frame, Hook, Said, Told};
use crate::place::{Owner, Place, Quick};
use crate::session::{Session, Tally};
use pyo3::prelude::*;
use pyo3::types::PyCode;
use pyo3::Borrowed;
use rustc_hash::FxHashMap;
use std::cell::RefCell;
use std::sync::Arc;

/// So many code objects that were called lately are found at once.
const RECENT: usize = 256;

/// How often a thread has called each function.
#[derive(Clone)]
pub struct Counts {
    recent: Box<[(usize, u32); RECENT]>,
    place_of: FxHashMap<usize, u32>,
    /// The function's number in the profile, and its calls.
    pub counts: Vec<(u32, u64)>,
}

impl Counts {
    fn slot(key: usize) -> usize {
        // Code objects are some hundred bytes apart.
        (key >> 4 ^ key >> 12) % RECENT
    }

    /// Counts a call of code that was called before.
    #[inline(always)]
    fn count(&mut self, key: usize) -> Option<()> {
        let (known, place) = self.recent[Self::slot(key)];
        if known == key {
            self.counts[place as usize].1 += 1;
            return Some(());
        }
        let place = *self.place_of.get(&key)?;
        self.recent[Self::slot(key)] = (key, place);
        self.counts[place as usize].1 += 1;
        Some(())
    }

    fn add(&mut self, key: usize, number: u32, calls: u64) {
        let next = self.counts.len() as u32;
        let place = *self.place_of.entry(key).or_insert(next);
        if place == next {
            self.counts.push((number, 0));
        }
        self.counts[place as usize].1 += calls;
    }

    /// Forgets what was counted: for the child of a fork.
    pub fn restart(&mut self) {
        for (_, calls) in &mut self.counts {
            *calls = 0;
        }
    }
}

impl Tally for Counts {
    fn new(_: u64, _: usize) -> Self {
        let (place_of, counts) = (FxHashMap::default(), Vec::new());
        Self { recent: Box::new([(0, 0); RECENT]), place_of, counts }
    }

    fn absorb(&mut self, other: &Self) {
        for (key, place) in &other.place_of {
            let (number, calls) = other.counts[*place as usize];
            self.add(*key, number, calls);
        }
    }
}

thread_local! {
    static QUICK: Quick<Counts> = const { Quick::new() };
    static OWNER: RefCell<Option<Owner<Counts>>> = const { RefCell::new(None) };
}

/// Where a thread keeps its part.
pub static HERE: Place<Counts> = Place { quick: &QUICK, owner: &OWNER };

/// The hook.
pub struct Count(pub Arc<Session<Counts>>);

impl Count {
    #[cold]
    #[inline(never)]
    fn count_slowly(&self, code: &Bound<'_, PyCode>, frame: &Frame) -> Said {
        let (session, py) = (&*self.0, code.py());
        session.register(py, &HERE, Some((code, frame)));
        let known = session.know(code);
        if known.ignored {
            return Said::Settled;
        }
        session.with(py, &HERE, |counts| counts.add(known.key, known.number, 1));
        Said::Pass
    }
}

impl Hook for Count {
    const WATCHES: bool = false;

    #[inline(always)]
    fn ask(&self, py: Python<'_>, code: Borrowed<'_, '_, PyCode>, frame: &Frame) -> Said {
        let key = code.as_ptr() as usize;
        match self.0.with(py, &HERE, |counts| counts.count(key)).flatten() {
            Some(()) => Said::Pass,
            None => attached(|_| self.count_slowly(&code, frame)),
        }
    }

    fn tell(&self, _: Python<'_>, _: Borrowed<'_, '_, PyCode>, _: Told, _: u64) {}
}
