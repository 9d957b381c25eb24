//! Whether anybody observes calls of a code object.
//!
//! Compiled code that is called instead of a function compares one word of its code's record with the thread's
//! `eval_breaker`. They are equal only if nothing is pending in the thread, no tool and no hook was added since the word
//! was filled, no monitoring event is enabled for the code, and all hooks are disabled for it. Whether the code was
//! instrumented since does not matter: events and hooks are looked at themselves.
//!
//! The word is a cache that [`is_observed`] fills. Whatever bumps the instrumentation version makes it differ by itself:
//! tools, hooks that are added or enabled. The rest calls `CodeRecord::forget`: local events
//! (`_PyRust_CodeInstrumented`), and a hook that is enabled for the code (`switch`). If a word was given out, an evaluator bumps
//! the version ([`evaluator_changed`]), and so do hooks that are removed or disabled: compilers look again
//! ([`observers_changed`]).

use super::code_record;
use super::dispatch_state::{next_step_for, NextStep};
use super::error::Outcome;
use super::monitoring::is_monitored;
use super::opt_out;
use super::set::HookSet;
use super::world::{observers_changed, with_world_stopped};
use crate::code::Code;
use crate::cpython as c;
use crate::sync::Ordering;
use crate::thread::Thread;

/// The address of the word for `code`. It stays as long as the code object and the interpreter.
pub fn word(thread: Thread, code: Code) -> Outcome<*const usize> {
    // SAFETY: the caller of `PyUnstable_Code_Observers` keeps the code alive while the address is used.
    let record = unsafe { code_record::get(thread, code) }?;
    // SAFETY: the state is live; the field is set with the world stopped. *quiet*: a field is written.
    unsafe { with_world_stopped(thread, |_| (*thread.state()).observers_known = true) };
    is_observed(thread, code);
    Ok((&raw const *record.unobserved()).cast())
}

/// Whether anything observes calls of `code` in this thread. Fills the word if nothing does in any thread.
pub fn is_observed(thread: Thread, code: Code) -> bool {
    // SAFETY: the thread is attached. The caller has the code, and the record is not used any longer.
    let record = unsafe { code_record::find(thread.interpreter(), code) };
    let before = record.map(|record| record.unobserved().load(Ordering::Acquire));
    let now = thread.eval_breaker();
    // SAFETY: an attached thread's interpreter is live.
    let has_evaluator = unsafe { (*thread.interpreter()).eval_frame.is_some() };
    let is_pending = now & ((1 << c::_PY_EVAL_EVENTS_BITS) - 1) != 0;
    if is_pending || has_evaluator || is_monitored(thread, code) {
        return true;
    }
    if next_step_for(thread, code) != NextStep::Specialize {
        // A hook of another thread keeps the word from being filled.
        return !HookSet::open(thread).without(&opt_out::set(thread, code)).is_empty();
    }
    if let (Some(record), Some(before)) = (record, before) {
        // Fails if anything was forgotten meanwhile.
        let word = record.unobserved();
        let _ = word.compare_exchange(before, now, Ordering::AcqRel, Ordering::Relaxed);
    }
    false
}

/// An evaluator of PEP 523 was set or removed.
pub fn evaluator_changed() {
    // SAFETY: who sets an evaluator is attached.
    let thread = unsafe { Thread::current() };
    // SAFETY: the state is live. *quiet*: it runs no Python code.
    unsafe {
        if (*thread.state()).observers_known {
            with_world_stopped(thread, |_| observers_changed(thread));
        }
    }
}
