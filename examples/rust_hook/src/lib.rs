//! An extension module with two frame hooks, in safe Rust alone.
//!
//! `count_calls()` counts how often each code object starts; `replace(old, new)`
//! lets every call of one function run another one's code. Each returns an object,
//! and its hook is installed as long as that object lives.
#![forbid(unsafe_code)]

use framehook::{
    Arguments, Code, Error, Exception, Frame, FrameHook, Installed, Object, Python, Result, Stored,
    Verdict,
};
use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

/// Counts the starts of each code object. Keeps the code objects that it has
/// counted: the address of one that has died may be another's soon.
#[derive(Default)]
struct CallCounter {
    counts: Mutex<HashMap<usize, (Stored, u64)>>,
}

impl CallCounter {
    /// Adds one, if the code object is known.
    fn add_to_known(&self, identity: usize) -> bool {
        // Nothing here calls into Python while the lock is held.
        let mut counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        counts.get_mut(&identity).map(|(_, count)| *count += 1).is_some()
    }

    fn add_to_new(&self, identity: usize, code: Stored) {
        let mut counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        let mut code = Some(code);
        let entry = counts.entry(identity);
        let (_, count) = entry.or_insert_with(|| (code.take().expect("taken once"), 0));
        *count += 1;
        drop(counts);
        // Another thread was faster: its reference is there, and this one goes only
        // now, since the object's end could run anything.
        drop(code);
    }

    fn count_of(&self, code: &Code<'_>) -> u64 {
        let counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        counts.get(&code.identity()).map_or(0, |(_, count)| *count)
    }
}

impl FrameHook for CallCounter {
    fn on_frame<'call>(&self, frame: &Frame<'call>) -> Result<'call, Verdict<'call>> {
        let code = frame.code()?;
        if !self.add_to_known(code.identity()) {
            self.add_to_new(code.identity(), code.store()?);
        }
        Ok(Verdict::Pass)
    }
}

/// Runs one code object in place of another.
struct Replacement {
    old: usize,
    /// So that no other code object gets the address of the old one.
    _keeps_old: Stored,
    new: Stored,
}

impl FrameHook for Replacement {
    fn on_frame<'call>(&self, frame: &Frame<'call>) -> Result<'call, Verdict<'call>> {
        if frame.code()?.identity() != self.old {
            // All other code runs at full speed from its second call on.
            return Ok(Verdict::Settled);
        }
        Ok(Verdict::Replace(self.new.get(frame.python())?.into_code()?))
    }
}

fn available<'py>(py: Python<'py>, arguments: Arguments<'py>) -> Result<'py, Object<'py>> {
    let [] = arguments.exactly()?;
    Ok(py.boolean(framehook::available()))
}

fn count_calls<'py>(py: Python<'py>, arguments: Arguments<'py>) -> Result<'py, Object<'py>> {
    let [] = arguments.exactly()?;
    py.capsule(py.interpreter().install("call counter", CallCounter::default())?)
}

fn calls<'py>(py: Python<'py>, arguments: Arguments<'py>) -> Result<'py, Object<'py>> {
    let [counter, function] = arguments.exactly()?;
    let counter = counter.value::<Installed<CallCounter>>().ok_or_else(|| {
        Error::new(Exception::TypeError, "the first argument must come from count_calls()")
    })?;
    let count = counter.hook().count_of(&function.code_of()?);
    py.int(i64::try_from(count).unwrap_or(i64::MAX))
}

fn replace<'py>(py: Python<'py>, arguments: Arguments<'py>) -> Result<'py, Object<'py>> {
    let [old, new] = arguments.exactly()?;
    let (old, new) = (old.code_of()?, new.code_of()?);
    let hook = Replacement { old: old.identity(), _keeps_old: old.store()?, new: new.store()? };
    py.capsule(py.interpreter().install("replacement", hook)?)
}

framehook::module! {
    name: "rust_hook",
    init: PyInit_rust_hook,
    doc: "Two frame hooks, written in Rust.",
    functions: {
        available: "available()\n--\n\nWhether this interpreter has frame hooks.",
        count_calls: "count_calls()\n--\n\nCount the starts of every code object, while the result lives.",
        calls: "calls(counter, function, /)\n--\n\nHow often the function, or code object, has started.",
        replace: "replace(old, new, /)\n--\n\nCalls of old run new's code, while the result lives.",
    }
}
