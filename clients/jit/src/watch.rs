//! The frame hook that selects functions to compile.

use crate::closure;
use crate::code::{self, Glance};
use crate::decode::Code;
use crate::depend::is_unobserved;
use crate::entry;
use crate::hot;
use crate::opcode::{LOAD_DEREF, LOAD_GLOBAL};
use crate::parts;
use crate::record::{self, Record};
use crate::seen;
use framehook::{Answer, Builder, Frame, FrameHook, HotLoop, Installed, LoopAnswer};
use pyo3::prelude::*;
use pyo3::types::{PyCode, PyFunction};
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::Mutex;

/// A function without a loop of its own is compiled when it was called so often.
pub static CALLS: AtomicU32 = AtomicU32::new(40);

/// Code without a loop is examined when it was called so often. Much of a program runs once or twice, and to decode it takes as long
/// as some calls of the hook.
const EXAMINED_AT: u32 = 4;

/// Loops and functions with generator expressions, which take turns of their own, are looked at so often before these are hot.
const LOOKS: u16 = 32;

/// How many functions are looked at for one that calls the first one back.
const MOST_IN_A_CIRCLE: usize = 6;

/// Called for each code object until it is known what becomes of it, and at hot loops.
pub struct Watch;

static INSTALLED: Mutex<Option<Installed<Watch>>> = Mutex::new(None);

/// Installs the hook.
pub fn start(py: Python<'_>) -> PyResult<()> {
    let installed = Builder::new("ferrule_jit").install(py, Watch)?;
    entry::HOOK.store(installed.id(), Ordering::Relaxed);
    let before = INSTALLED.lock().map(|mut place| place.replace(installed));
    drop(before); // not under the lock
    Ok(())
}

/// Removes it.
pub fn stop() {
    entry::HOOK.store(0, Ordering::Relaxed);
    let before = INSTALLED.lock().map(|mut place| place.take());
    drop(before);
}

impl FrameHook for Watch {
    type Data = ();

    fn on_entry<'py>(&self, frame: &Frame<'py>) -> PyResult<Answer<'py>> {
        match without_panic(|| consider(frame)) {
            Some(Ok(false)) => Ok(Answer::pass()),
            // Errors are not reported to the program: the function is interpreted.
            Some(Ok(true) | Err(_)) | None => Ok(Answer::disable()),
        }
    }

    fn on_loop<'py>(&self, hot: &mut HotLoop<'_, 'py>) -> PyResult<LoopAnswer<'py>> {
        let code = hot.code();
        let record = Record::of(&code)?;
        let enter = || {
            if let Some(turns) = turns_before_look(&code, record) {
                hot.set_turns(turns);
                return Ok(LoopAnswer::Continue);
            }
            record.was_hot.set(true);
            let is_enabled = entry::ENABLED.load(Ordering::Relaxed);
            if !has_compiled_loop(&code, record)? || record.given_back.get() || !is_enabled {
                hot.set_turns(0);
                return Ok(LoopAnswer::Continue);
            }
            hot::enter(hot, record)
        };
        // Errors are not reported here either.
        match without_panic(enter) {
            Some(Ok(answer)) => Ok(answer),
            Some(Err(_)) | None => {
                hot.set_turns(0);
                Ok(LoopAnswer::Continue)
            }
        }
    }
}

/// The result, or `None` if it panicked: PyO3 does where there is no memory for an object that is always made. What is dropped is
/// released at once: an error that nothing reports keeps the exception that the program handles, with all frames of its traceback.
fn without_panic<T>(run: impl FnOnce() -> T) -> Option<T> {
    // SAFETY: the callbacks are called in an attached thread.
    unsafe { Python::attach_unchecked(|_| catch_unwind(AssertUnwindSafe(run)).ok()) }
}

/// Whether a loop of one of the code's generator expressions was hot.
fn has_hot_expression(code: &Bound<'_, PyCode>) -> bool {
    let was_hot = |expression: &Bound<'_, PyCode>| {
        // SAFETY: attached; the constant is alive while its record is used.
        let record = unsafe { record::find(expression.as_ptr()) };
        code::is_generator(expression) && record.is_some_and(|record| record.was_hot.get())
    };
    let mut constants = parts::constants_of(code).iter();
    constants.any(|constant| constant.cast_exact::<PyCode>().is_ok_and(was_hot))
}

/// A loop is not hot yet: after how many turns it is to be looked at again. Without generator expressions it is hot when it is looked at.
fn turns_before_look(code: &Bound<'_, PyCode>, record: &Record) -> Option<u16> {
    let left = record.looks.get();
    if left == 0 || has_hot_expression(code) {
        record.looks.set(0);
        return None;
    }
    record.looks.set(left - 1);
    Some(turns_of_look())
}

/// After how many turns loops with generator expressions are looked at.
fn turns_of_look() -> u16 {
    turns().div_ceil(LOOKS)
}

/// The observers of code have changed, or it is to be compiled: gives the function, and those that rest, the vectorcall of compiled
/// functions, unless calls are observed. Whether the hook is done with it: pending work hides whether they are.
fn take_unobserved(
    code: &Bound<'_, PyCode>,
    function: Option<&Bound<'_, PyFunction>>,
    record: &Record,
) -> bool {
    if entry::is_work_pending() {
        return false;
    }
    entry::ignore(code, record);
    if is_unobserved(code.as_ptr()) || !entry::rest(code, record) {
        entry::wake(code, record);
        if let Some(function) = function {
            entry::take(function, record);
        }
    }
    true
}

/// After how many turns a loop is hot.
fn turns() -> u16 {
    hot::TURNS.load(Ordering::Relaxed)
}

/// Whether loops of the code are compiled. If not all of it is, that is recorded.
fn judge(code: &Bound<'_, PyCode>, record: &Record, decoded: &Code) -> bool {
    let has_loop = code::has_loop(code, decoded);
    match code::refusal(code, decoded) {
        Some((unit, why)) if has_loop => record.refuse_in_part(unit, why),
        Some((unit, why)) => {
            record.refused_at.set(unit);
            record.refuse(why);
        }
        None => {}
    }
    has_loop
}

/// Has loops watched, or refuses the code; whether either was done.
fn examine(code: &Bound<'_, PyCode>, record: &Record, decoded: &Code) -> PyResult<bool> {
    let has_loop = judge(code, record, decoded);
    if record.given_back.get() {
        return Ok(true);
    }
    let turns = turns();
    let expressions = code::code_of_expressions(code, decoded)?;
    for expression in &expressions {
        entry::watch_loops(expression, turns)?;
    }
    if has_loop && expressions.is_empty() {
        entry::watch_loops(code, turns)?;
    } else if has_loop {
        record.looks.set(LOOKS - 1);
        entry::watch_loops(code, turns_of_look())?;
    }
    Ok(has_loop)
}

/// Examines code that was called, if that was not often enough for it.
pub fn examine_known(code: &Bound<'_, PyCode>) -> PyResult<()> {
    // SAFETY: attached; the code object is alive while its record is used.
    match unsafe { record::find(code.as_ptr()) } {
        Some(record) if record.examined.get() == 0 => {
            examine(code, record, &code::decode(code)?).map(drop)
        }
        _ => Ok(()),
    }
}

/// Whether the hook is done with the code of this frame.
fn consider(frame: &Frame<'_>) -> PyResult<bool> {
    let code = frame.code()?;
    seen::collect(&code);
    let hook = entry::HOOK.load(Ordering::Relaxed);
    // SAFETY: attached; the code is alive while its record is used.
    let known = unsafe { record::find(code.as_ptr()) };
    if known.is_none_or(|record| record.examined.get() != hook || hook == 0) {
        return consider_new(frame, &code, hook);
    }
    let record = Record::of(&code)?;
    if record.given_back.get() || !(record.counted.get() || record.rests.get()) {
        return Ok(true);
    }
    // A hook may have given the frame other code.
    let function = frame.function().ok().filter(|function| parts::code_of(function).is(&code));
    if record.rests.get() {
        return Ok(take_unobserved(&code, function.as_ref(), record)); // its observers have changed
    }
    if function.is_none() {
        return Ok(true);
    }
    let calls = record.calls.get() + 1;
    record.calls.set(calls);
    if calls < CALLS.load(Ordering::Relaxed) {
        return Ok(false);
    }
    let is_cold = record.looks.get() > 0 && !has_hot_expression(&code);
    if is_cold {
        record.looks.set(record.looks.get() - 1);
        record.calls.set(EXAMINED_AT);
    } else if !take_unobserved(&code, function.as_ref(), record) {
        return Ok(false);
    }
    let is_done = !is_cold || record.looks.get() == 0;
    record.counted.set(!is_done);
    Ok(is_done)
}

/// The same of code that was not examined for this hook. What a glance finds enough about is not decoded, nor is anything recorded of
/// most of it: much of a program runs once or twice.
fn consider_new(frame: &Frame<'_>, code: &Bound<'_, PyCode>, hook: i64) -> PyResult<bool> {
    // SAFETY: attached; the code is alive while its record is used.
    let known = unsafe { record::find(code.as_ptr()) };
    let is_watched = |record: &Record| record.watched.get() == hook && hook != 0;
    if known.is_some_and(|record| record.given_back.get() || is_watched(record)) {
        return Ok(true);
    }
    if known.is_none_or(|record| !record.counted.get()) {
        let glance = Glance::at(code)?;
        let is_compiled = match glance.jumps_back() {
            true => !code::suspends(code),
            false => glance.calls() && code::shape(code).is_ok(),
        };
        if !is_compiled {
            return Ok(true);
        }
        let record = Record::of(code)?;
        if glance.jumps_back() && !glance.makes_functions() {
            // Examined when one of them is hot.
            record.calls.set(record.calls.get() + 1);
            entry::watch_loops(code, turns())?;
            take_again(&frame.function()?, record);
            return Ok(true);
        }
        record.counted.set(!glance.jumps_back());
    }
    let record = Record::of(code)?;
    let function = frame.function()?;
    if !parts::code_of(&function).is(code) {
        return Ok(true);
    }
    record.calls.set(record.calls.get() + 1);
    let examined_at = EXAMINED_AT.min(CALLS.load(Ordering::Relaxed).saturating_sub(1));
    if record.examined.get() == 0 && record.counted.get() && record.calls.get() < examined_at {
        return Ok(false);
    }
    record.counted.set(false);
    record.examined.set(hook);
    let decoded = code::decode(code)?;
    if examine(code, record, &decoded)? {
        take_again(&function, record);
        return Ok(true);
    }
    // Others are compiled with the functions that call them.
    let has_expressions = !decoded.expressions.is_empty();
    let is_recursive = calls_itself(&function, decoded)?;
    entry::wake(code, record);
    record.looks.set(if has_expressions && !is_recursive { LOOKS } else { 0 });
    let counted = has_expressions || is_recursive;
    record.counted.set(counted);
    Ok(!counted)
}

/// Takes a function that was compiled before the compiler was disabled.
fn take_again(function: &Bound<'_, PyFunction>, record: &Record) {
    entry::wake(&parts::code_of(function), record);
    if !record.compiled.borrow().is_empty() {
        entry::take(function, record);
    }
}

/// Whether loops of the code are compiled, of which one is hot. It is examined if it was not, and not counted any more if they are not.
fn has_compiled_loop(code: &Bound<'_, PyCode>, record: &Record) -> PyResult<bool> {
    let hook = entry::HOOK.load(Ordering::Relaxed);
    if code::suspends(code) || record.examined.get() == hook {
        return Ok(!code::suspends(code));
    }
    record.examined.set(hook);
    if judge(code, record, &code::decode(code)?) {
        return Ok(true);
    }
    entry::unwatch(code, record)?;
    Ok(false)
}

/// Whether a function calls itself, or a function that does: what is called is a global or in a cell.
fn calls_itself(function: &Bound<'_, PyFunction>, decoded: Code) -> PyResult<bool> {
    let mut known = vec![function.clone()];
    let (mut looked, mut first) = (0, Some(decoded));
    while let Some(caller) = known.get(looked).cloned() {
        looked += 1;
        let code = parts::code_of(&caller);
        let (names, globals) = (parts::names_of(&code), parts::globals_of(&caller));
        let decoded = first.take().map_or_else(|| code::decode(&code), Ok)?;
        for instruction in decoded.instructions() {
            let value = match instruction.opcode {
                LOAD_GLOBAL => {
                    let name = names.get_item((instruction.argument >> 1) as usize)?;
                    globals.get_item(name)?
                }
                LOAD_DEREF => closure::in_cell(&caller, instruction.argument),
                _ => continue,
            };
            let Some(callee) = value.and_then(|value| value.cast_into_exact::<PyFunction>().ok())
            else {
                continue;
            };
            if callee.is(function) {
                return Ok(true);
            }
            if known.len() < MOST_IN_A_CIRCLE && !known.iter().any(|other| other.is(&callee)) {
                known.push(callee);
            }
        }
    }
    Ok(false)
}

/// Has a function compiled when it is called next.
pub fn request(function: &Bound<'_, PyFunction>) -> PyResult<()> {
    let code = parts::code_of(function);
    let record = Record::of(&code)?;
    if entry::is_up_to_date(&code) {
        entry::ignore(&code, record);
    } // or it is interpreted once more: neither it nor what it calls was seen since
    entry::wake(&code, record);
    record.counted.set(false);
    record.examined.set(entry::HOOK.load(Ordering::Relaxed));
    examine(&code, record, &code::decode(&code)?)?;
    if !record.given_back.get() {
        entry::take(function, record);
    }
    Ok(())
}
