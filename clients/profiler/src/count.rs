//! The hook that only counts.

use crate::session::{Local, Session, Tally};
use framehook::{Answer, Frame, FrameHook};
use pyo3::prelude::*;
use rustc_hash::FxHashMap;
use std::cell::RefCell;
use std::sync::Arc;

/// So many code objects that were called lately are found at once.
const RECENT: usize = 256;

/// How often a thread has called each function.
#[derive(Clone)]
pub struct Counts {
    recent: Vec<(usize, u32)>,
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
        Self { recent: vec![(0, 0); RECENT], place_of, counts }
    }

    fn absorb(&mut self, other: &Self) {
        for (key, place) in &other.place_of {
            let (number, calls) = other.counts[*place as usize];
            self.add(*key, number, calls);
        }
    }
}

thread_local! {
    pub static HERE: RefCell<Option<Local<Counts>>> = const { RefCell::new(None) };
}

/// The hook.
pub struct Count(pub Arc<Session<Counts>>);

impl Count {
    #[cold]
    #[inline(never)]
    fn count_slowly<'py>(&self, frame: &Frame<'py>) -> PyResult<Answer<'py>> {
        let (session, py) = (&*self.0, frame.py());
        session.register(py, &HERE, Some(frame));
        let known = session.know(&frame.code()?);
        if known.ignored {
            return Ok(Answer::settled());
        }
        session.with(py, &HERE, |counts| counts.add(known.key, known.number, 1));
        Ok(Answer::pass())
    }
}

impl FrameHook for Count {
    type Word = ();

    #[inline]
    fn ask<'py>(&self, frame: &Frame<'py>) -> PyResult<Answer<'py>> {
        // The reference is given back late: at once it would wait for the store that has counted it.
        let code = frame.code()?;
        let key = code.as_ptr() as usize;
        let counted = self.0.with(frame.py(), &HERE, |counts| counts.count(key));
        drop(code);
        match counted.flatten() {
            Some(()) => Ok(Answer::pass()),
            None => self.count_slowly(frame),
        }
    }
}
