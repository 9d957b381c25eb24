//! Machine code with all that belongs to it.

use crate::context::{Context, Entry, Outcome, Table};
use crate::depend::Dependency;
use crate::kind::Kind;
use crate::memory::CodeMemory;
use crate::outer::Outer;
use crate::python::ThreadState;
use crate::symbols::Symbol;
use std::cell::Cell;
use std::rc::Rc;

/// Machine code of one function for arguments of certain kinds.
pub struct Compiled {
    /// Its name outside, withdrawn before the memory is unmapped.
    pub _symbol: Option<Symbol>,
    /// Freed after all that can run it: its code object's record, callers, and entries in progress own it.
    pub _memory: CodeMemory,
    pub entry: Entry,
    pub table: Box<Table>,
    /// The kinds of the locals at the start, of parameters alone if that is the first instruction, and of the stack.
    pub parameters: Vec<Kind>,
    pub stack: Vec<Kind>,
    /// See `Start`.
    pub natural: Vec<usize>,
    pub start: u32,
    /// By the interpreter too, which knows the object of each number.
    pub is_entered: bool,
    /// Of a loop.
    pub outer: Option<Rc<Outer>>,
    /// Its variables in cells are there all the time.
    pub shares_cells: bool,
    pub returns: Option<Kind>,
    pub dependencies: Vec<Rc<Dependency>>,
    /// The addresses of the dicts of the function that it was compiled for.
    pub globals: usize,
    pub builtins: usize,
    /// The code that it calls.
    pub _callees: Vec<Rc<Compiled>>,
    /// The level of the outermost caller that it calls back, whose code owns it: it is no other one's callee.
    pub calls_back: usize,
    pub size: usize,
    pub blocks: usize,
    /// It changes objects that others may refer to.
    pub stores: bool,
    /// A generator expression calls a function that was being compiled: whether that stores something was not known.
    pub repeats: bool,
    /// By slot: what cells are expected to contain.
    pub cells: Vec<(u32, Kind)>,
    /// Whether it, or what it calls, reads or stores cells, and whether it stores some.
    pub uses_cells: bool,
    pub stores_cells: bool,
    pub microseconds: f64,
    pub entered: Cell<u64>,
    /// How many times in succession a loop has ended after a few turns.
    pub short: Cell<u32>,
}

impl Compiled {
    /// Runs the code.
    ///
    /// # Safety
    /// The thread is attached, the words are of the kinds that it was compiled for, and its dependencies hold.
    #[inline]
    pub unsafe fn run(&self, context: &mut Context, depth: i64, words: &[u64]) -> Outcome {
        self.entered.set(self.entered.get().wrapping_add(1));
        let word = |index: usize| words.get(index).copied().unwrap_or(0);
        // SAFETY: by contract; the code reads as many words as its kinds have.
        unsafe { (self.entry)(context, depth, words.as_ptr(), word(0), word(1), word(2)) }
    }

    /// Whether all that it believes still holds.
    ///
    /// # Safety
    /// The thread is attached, and a function with `globals` is alive, whose builtins are those of its compilation.
    #[inline]
    pub unsafe fn is_valid(&self) -> bool {
        // SAFETY: the dicts of the first ones are the function's; each of the others was found by one before it.
        self.dependencies.iter().all(|dependency| unsafe { dependency.holds() })
    }

    /// True if calls of its callees are not observed.
    ///
    /// # Safety
    /// As for `is_valid`, which it is; `thread` is the thread's state.
    #[inline]
    pub unsafe fn is_unobserved(&self, thread: *const ThreadState) -> bool {
        // SAFETY: the dependencies hold, so the functions and their code are alive; the thread's own state.
        self.dependencies.iter().all(|dependency| unsafe { dependency.unobserved(thread) })
    }
}
