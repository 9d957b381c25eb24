//! The hook that only counts.

use crate::entered::Entered;
use crate::exact::Ignored;
use crate::place::{Owner, Place, Quick};
use crate::session::{Session, Tally};
use framehook::{Answer, Frame, FrameHook};
use pyo3::prelude::*;
use pyo3::types::PyCode;
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
    pub fn count(&mut self, key: usize) -> Option<()> {
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

    pub fn add(&mut self, key: usize, number: u32, calls: u64) {
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
    fn new(_: u64, _: usize, _: bool) -> Self {
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
    fn count_slowly<'py>(&self, code: &Bound<'py, PyCode>, frame: &Frame<'py>) -> Answer<'py> {
        match self.0.first_call(code, frame) {
            Ok(()) => Answer::pass(),
            Err(Ignored) => Answer::disable(), // and its thread may be the profiler's own
        }
    }
}

impl Session<Counts> {
    /// A call of code that the thread has not called yet.
    pub fn first_call<'py>(
        &self,
        code: &Bound<'py, PyCode>,
        frame: &dyn Entered<'py>,
    ) -> Result<(), Ignored> {
        let (py, known) = (code.py(), self.know(code));
        if known.ignored {
            return Err(Ignored);
        }
        self.register(py, &HERE, Some((code, frame)));
        self.with(py, &HERE, |counts| counts.add(known.key, known.number, 1));
        Ok(())
    }
}

impl FrameHook for Count {
    type Data = ();
    const BARE: bool = true;

    #[inline(always)]
    fn on_entry<'py>(&self, frame: &Frame<'py>) -> PyResult<Answer<'py>> {
        let code = frame.code()?;
        let key = code.as_ptr() as usize;
        Ok(match self.0.with(frame.py(), &HERE, |counts| counts.count(key)).flatten() {
            Some(()) => Answer::pass(),
            None => Python::attach(|_| self.count_slowly(&code, frame)),
        })
    }
}
