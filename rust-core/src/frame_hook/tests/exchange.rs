//! Calls whose code is exchanged for other code, against a plain model of the outcome.
//!
//! The unit tests run pairs that proptest makes; the fuzz target `replacement` runs what libFuzzer
//! finds. What is expected is worked out here from lists of names alone.

use super::support::*;
use crate::cpython as c;
use crate::cpython::PyCodeObject;
use crate::fake_cpython::code::Function;
use crate::fake_cpython::frames;
use crate::fake_cpython::memory::{allow, allowed};
use crate::fake_cpython::objects::{count, name_of};
use crate::fake_cpython::threads::PyThreadState_Get;
use crate::frame_hook::c_api::hooks::PyUnstable_FrameHook_Incompatibility;
use std::ptr::null_mut;

/// The slots of the thread's current chunk that are free.
pub fn room() -> usize {
    // SAFETY: the thread's own state.
    unsafe {
        let state = PyThreadState_Get();
        (*state).datastack_limit.offset_from((*state).datastack_top) as usize
    }
}

pub fn size(code: *mut PyCodeObject) -> usize {
    // SAFETY: live code.
    unsafe { (*code).co_framesize as usize }
}

/// Frames that lie below what a test runs.
pub struct Below(Vec<Defined>);

impl Below {
    /// Fills the current chunk, until there are so many slots left.
    pub fn all_but(slots: usize) -> Self {
        let mut below = Below(vec![define(with_parameters("n"), "")]);
        let smallest = size(below.0[0].code);
        below.0[0].start("0");
        while room() > slots + 2 * smallest {
            // One of them takes the most.
            let stack = 4 + (room() - slots - 2 * smallest).min(3000);
            below.0.push(define(Function { stack, ..with_parameters("n") }, ""));
            below.0.last().expect("pushed").start("0");
        }
        let rest = room().saturating_sub(slots);
        if rest >= smallest {
            let stack = 4 + rest - smallest;
            below.0.push(define(Function { stack, ..with_parameters("n") }, ""));
            below.0.last().expect("pushed").start("0");
        }
        below
    }
}

impl Drop for Below {
    fn drop(&mut self) {
        while !std::thread::panicking() && self.0.pop().is_some() {
            assert_eq!(slots_of(current_frame()), "0");
            frames::end_current();
        }
    }
}

/// What a code object is like. Names are numbers.
#[derive(Clone, Debug, Default)]
#[cfg_attr(fuzzing, derive(arbitrary::Arbitrary))]
pub struct Side {
    pub positional: Vec<u8>,
    pub keyword_only: Vec<u8>,
    pub star: bool,
    pub double_star: bool,
    pub locals: u8,
    /// Names of parameters that are cells, and how many other cells there are.
    pub cells: Vec<u8>,
    pub own_cells: u8,
    /// Of the cells that are parameters, as bits, those that the prologue does not make.
    pub unmade: u8,
    pub free: Vec<u8>,
    pub stack: u16,
    pub kind: u8,
    pub has_no_resume: bool,
}

/// Other code, and what it has in common with the code before it.
#[derive(Clone, Debug)]
#[cfg_attr(fuzzing, derive(arbitrary::Arbitrary))]
pub struct Other {
    pub side: Side,
    /// It has the same parameters, in an order that follows from these numbers.
    pub same_in_order: Option<Vec<u8>>,
    /// The hook that chooses it is short of memory after so many allocations.
    pub allowed: Option<u8>,
}

#[derive(Clone, Debug)]
#[cfg_attr(fuzzing, derive(arbitrary::Arbitrary))]
pub struct Input {
    pub first: Side,
    pub others: Vec<Other>,
    /// How many slots follow the first frame in its chunk.
    pub distance: Option<u8>,
}

const MOST_NAMES: usize = 40;
const MOST_OTHERS: usize = 3;
const MOST_FREE: usize = 4;

const KINDS: [u32; 8] = [
    c::CO_OPTIMIZED | c::CO_NEWLOCALS,
    c::CO_OPTIMIZED | c::CO_NEWLOCALS | c::CO_GENERATOR,
    c::CO_OPTIMIZED | c::CO_NEWLOCALS | c::CO_COROUTINE,
    c::CO_OPTIMIZED | c::CO_NEWLOCALS | c::CO_ASYNC_GENERATOR,
    c::CO_OPTIMIZED | c::CO_NEWLOCALS | c::CO_GENERATOR | c::CO_ITERABLE_COROUTINE,
    c::CO_OPTIMIZED,
    c::CO_NEWLOCALS,
    0,
];

fn joined(names: impl IntoIterator<Item = String>) -> String {
    names.into_iter().collect::<Vec<_>>().join(" ")
}

/// The same names in another order.
fn reordered(names: &[u8], order: &[u8]) -> Vec<u8> {
    let mut names = names.to_vec();
    for (place, step) in (0..names.len()).zip(order) {
        let other = place + usize::from(*step) % (names.len() - place);
        names.swap(place, other);
    }
    names
}

impl Side {
    /// No more of anything than a test has time for.
    fn shortened(mut self) -> Self {
        self.positional.truncate(MOST_NAMES);
        self.keyword_only.truncate(MOST_NAMES);
        self.free.truncate(MOST_FREE);
        self.free.sort();
        self.free.dedup();
        self.locals %= 8;
        self.own_cells %= 4;
        self.stack %= 9_000;
        self
    }

    fn flags(&self) -> u32 {
        // Most are functions.
        KINDS[usize::from(if self.kind < 128 { 0 } else { self.kind % 8 })]
    }

    fn parameters(&self) -> usize {
        let stars = usize::from(self.star) + usize::from(self.double_star);
        self.positional.len() + self.keyword_only.len() + stars
    }

    /// Whether a parameter of that name is a cell, and whether the prologue makes it one.
    fn cell(&self, name: u8) -> Option<bool> {
        let place = self.cells.iter().position(|cell| *cell == name)?;
        Some(self.unmade >> (place % 8) & 1 == 0)
    }

    fn define(&self, name: &str) -> Defined {
        let text = |names: &[u8]| joined(names.iter().map(|it| format!("n{it}")));
        let numbered = |letter: char, count: u8| joined((0..count).map(|i| format!("{letter}{i}")));
        let named = || self.positional.iter().chain(&self.keyword_only);
        let cells: Vec<u8> = named().copied().filter(|it| self.cell(*it).is_some()).collect();
        let unmade: Vec<u8> = named().copied().filter(|it| self.cell(*it) == Some(false)).collect();
        let mut unique = cells;
        unique.sort();
        unique.dedup();
        let defined = define(
            Function {
                name,
                positional: &text(&self.positional),
                keyword_only: &text(&self.keyword_only),
                star: if self.star { "args" } else { "" },
                double_star: if self.double_star { "kwargs" } else { "" },
                locals: &numbered('l', self.locals),
                cells: &format!("{} {}", text(&unique), numbered('c', self.own_cells)),
                unmade: &text(&unmade),
                free: &joined(self.free.iter().map(|it| format!("f{it}"))),
                stack: 4 + usize::from(self.stack),
                flags: self.flags(),
            },
            &joined(self.free.iter().map(|it| format!("free{it}"))),
        );
        if self.has_no_resume {
            // SAFETY: a code object of the test's own.
            unsafe { (*defined.code)._co_firsttraceable = (*defined.code).ob_base.ob_size as i32 };
        }
        defined
    }

    /// What the slots hold when the code starts with those values for its parameters.
    fn slots(&self, values: &[String]) -> String {
        let parameters = self.positional.iter().chain(&self.keyword_only);
        let shown = parameters.zip(values).map(|(name, value)| match self.cell(*name) {
            Some(true) => format!("[{value}]"),
            _ => value.clone(),
        });
        let stars = values.iter().skip(self.positional.len() + self.keyword_only.len()).cloned();
        let locals = (0..self.locals).map(|_| "-".to_string());
        let cells = (0..self.own_cells).map(|_| "[-]".to_string());
        let free = self.free.iter().map(|it| format!("[free{it}]"));
        joined(shown.chain(stars).chain(locals).chain(cells).chain(free))
    }
}

/// Where the arguments of one kind go: by name, and where a name is there twice, to their own places
/// alone. `None`: nowhere.
fn placed(old: &[u8], new: &[u8], twice: &[u8], values: &[String]) -> Option<Vec<String>> {
    if old.len() != new.len() {
        return None;
    }
    let mut left: Vec<(u8, &String)> = old.iter().copied().zip(values).collect();
    let mut placed = Vec::new();
    for (place, name) in new.iter().enumerate() {
        if twice.contains(name) {
            if old[place] != *name {
                return None;
            }
            placed.push(values[place].clone());
        } else {
            let found = left.iter().position(|(other, _)| other == name)?;
            placed.push(left.remove(found).1.clone());
        }
    }
    Some(placed)
}

/// The values of the parameters of `new`, in the place of `old` with those values; `None`: it cannot
/// stand in.
fn expected(old: &Side, new: &Side, values: &[String]) -> Option<Vec<String>> {
    if old.star != new.star
        || old.double_star != new.double_star
        || old.flags() != new.flags()
        || old.free != new.free
        || new.has_no_resume
    {
        return None;
    }
    let all: Vec<u8> = old.positional.iter().chain(&old.keyword_only).copied().collect();
    let twice: Vec<u8> = all
        .iter()
        .copied()
        .filter(|name| all.iter().filter(|other| *other == name).count() > 1)
        .collect();
    let (positional, rest) = values.split_at(old.positional.len());
    let (keyword_only, stars) = rest.split_at(old.keyword_only.len());
    let mut all = placed(&old.positional, &new.positional, &twice, positional)?;
    all.extend(placed(&old.keyword_only, &new.keyword_only, &twice, keyword_only)?);
    all.extend_from_slice(stars);
    // Nothing has come to a name that had its own twice.
    let names = old.positional.iter().zip(&new.positional);
    let mut moved = names.chain(old.keyword_only.iter().zip(&new.keyword_only));
    moved.all(|(old, new)| old == new || !twice.contains(old)).then_some(all)
}

/// A call comes to this.
#[derive(Debug, PartialEq)]
enum Outcome {
    Runs { code: String, slots: String },
    Refused,
}

pub fn run(input: Input) {
    let mut sides = vec![input.first.shortened()];
    sides[0].has_no_resume = false;
    let mut limits = Vec::new();
    for other in input.others.into_iter().take(MOST_OTHERS) {
        let before = sides.last().expect("the first").clone();
        let mut side = other.side.shortened();
        if let Some(order) = other.same_in_order {
            side.positional = reordered(&before.positional, &order);
            side.keyword_only = reordered(&before.keyword_only, &order);
            (side.star, side.double_star) = (before.star, before.double_star);
            (side.free, side.kind) = (before.free, before.kind);
            side.has_no_resume = false;
        }
        sides.push(side);
        limits.push(other.allowed.map(|it| usize::from(it % 8)));
    }
    let _engine = Engine::start();
    let defined: Vec<Defined> =
        sides.iter().enumerate().map(|(i, side)| side.define(&format!("code{i}"))).collect();
    // One hook after the other chooses the next code.
    let values: Vec<String> = (0..sides[0].parameters()).map(|i| format!("v{i}")).collect();
    let mut outcome = Outcome::Runs { code: "code0".to_string(), slots: sides[0].slots(&values) };
    let mut now = values.clone();
    for (i, pair) in sides.windows(2).enumerate() {
        let next = expected(&pair[0], &pair[1], &now);
        assert_eq!(is_compatible(&defined[i], &defined[i + 1]), next.is_some(), "{pair:?}");
        let Some(next) = next else {
            outcome = Outcome::Refused;
            break;
        };
        now = next;
        outcome = Outcome::Runs { code: format!("code{}", i + 1), slots: pair[1].slots(&now) };
    }
    for (i, limit) in limits.iter().copied().enumerate() {
        let (from, code) = (format!("code{i}"), defined[i + 1].code);
        add(move |frame| {
            allow(None);
            if frame.code() != Ok(from.clone()) {
                return Reply::Pass;
            }
            // Nothing has seen the cells, if there are any.
            assert_eq!(frame.count(), frame.arguments().split_whitespace().count() as isize);
            allow(limit);
            Reply::Run(code)
        });
    }
    let below = input.distance.map(|it| Below::all_but(size(defined[0].code) + usize::from(it)));
    let counts = || defined.iter().map(|it| count(it.code.cast())).collect::<Vec<_>>();
    let before = counts();
    let arguments = joined(values);
    for by_evaluator in [false, true] {
        let call = |from: &Defined| {
            if by_evaluator {
                from.call_by_evaluator(&arguments)
            } else {
                from.call(&arguments)
            }
        };
        let came = call(&defined[0]);
        let was_short = limits.iter().any(Option::is_some) && allowed() == Some(0);
        allow(None);
        match came {
            Ok(ran) => assert_eq!(Outcome::Runs { code: ran.code, slots: ran.slots }, outcome),
            Err(text) if text == "MemoryError" => assert!(was_short, "there was memory"),
            Err(text) => {
                assert!(text.contains(": code code"), "{text}");
                assert_eq!(Outcome::Refused, outcome, "{text}");
            }
        }
        assert_eq!(counts(), before, "references to code are lost, or left");
    }
    drop(below);
}

/// The same as the C interface says it.
fn is_compatible(old: &Defined, new: &Defined) -> bool {
    let mut why = null_mut::<std::ffi::c_char>().cast_const();
    // SAFETY: live objects, and a place for the reason.
    let status = unsafe {
        PyUnstable_FrameHook_Incompatibility(old.code.cast(), new.code.cast(), &raw mut why)
    };
    assert_eq!(status == 1, !why.is_null(), "{} and {}", name_of(old.code.cast()), status);
    status == 0
}
