//! The frame hook that selects functions to compile.

use crate::closure;
use crate::code;
use crate::decode::Code;
use crate::entry;
use crate::hot;
use crate::opcode::{LOAD_DEREF, LOAD_GLOBAL};
use crate::parts;
use crate::record::{self, Record};
use crate::seen;
use framehook::raw::Api;
use framehook::{Answer, Builder, Frame, FrameHook, HotLoop, Installed, LoopAnswer};
use pyo3::prelude::*;
use pyo3::types::{PyCode, PyFunction};
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::Mutex;

/// A function without a loop is compiled when it was called so often.
pub static CALLS: AtomicU32 = AtomicU32::new(40);

/// Code without a loop is examined when it was called so often. Much of a program runs once or twice, and to decode it takes as long
/// as some calls of the hook.
const EXAMINED_AT: u32 = 4;

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
        if record.given_back.get() || !entry::ENABLED.load(Ordering::Relaxed) {
            hot.set_turns(0);
            return Ok(LoopAnswer::Continue);
        }
        // Errors are not reported here either.
        match without_panic(|| hot::enter(hot, record)) {
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

/// Has hot loops of a code object reported.
fn watch_loops(code: &Bound<'_, PyCode>) -> PyResult<()> {
    let watch = Api::get()?.PyUnstable_FrameHook_WatchLoops;
    // SAFETY: attached, as the binding says; any id is allowed.
    if unsafe {
        watch(
            entry::HOOK.load(Ordering::Relaxed),
            code.as_ptr(),
            hot::TURNS.load(Ordering::Relaxed).into(),
        )
    } < 0
    {
        return Err(PyErr::fetch(code.py()));
    }
    Ok(())
}

/// Has loops watched, or refuses the code; whether either was done.
fn examine(code: &Bound<'_, PyCode>, record: &Record, decoded: &Code) -> PyResult<bool> {
    let refusal = code::refusal(code, decoded);
    let has_loop = code::has_loop(code, decoded);
    match refusal {
        Some((unit, why)) if has_loop => record.refuse_in_part(unit, why),
        Some((unit, why)) => {
            record.refused_at.set(unit);
            record.refuse(why);
            return Ok(true);
        }
        None => {}
    }
    if has_loop {
        watch_loops(code)?;
    }
    Ok(has_loop)
}

/// Examines code that was called, if that was not often enough for it.
pub fn examine_known(code: &Bound<'_, PyCode>) -> PyResult<()> {
    // SAFETY: attached; the code object is alive while its record is used.
    match unsafe { record::find(code.as_ptr()) } {
        Some(record) if !record.examined.get() => {
            examine(code, record, &code::decode(code)?).map(drop)
        }
        _ => Ok(()),
    }
}

/// Whether the hook is done with the code of this frame.
fn consider(frame: &Frame<'_>) -> PyResult<bool> {
    let code = frame.code()?;
    seen::collect(&code);
    let function = frame.function()?;
    // A hook may have given the frame other code.
    if !parts::code_of(&function).is(&code) {
        return Ok(true);
    }
    let record = Record::of(&code)?;
    let calls = record.calls.get() + 1;
    record.calls.set(calls);
    if !record.examined.get() {
        let examined_at = EXAMINED_AT.min(CALLS.load(Ordering::Relaxed).saturating_sub(1));
        if calls < examined_at && !(calls == 1 && code::jumps_back(&code)?) {
            record.counted.set(true);
            return Ok(false);
        }
        record.counted.set(false);
        record.examined.set(true);
        let decoded = code::decode(&code)?;
        if examine(&code, record, &decoded)? {
            return Ok(true);
        }
        // Others are compiled with the functions that call them.
        let counted = calls_itself(&function, decoded)?;
        record.counted.set(counted);
        return Ok(!counted);
    }
    if record.given_back.get() {
        return Ok(true);
    }
    if calls < CALLS.load(Ordering::Relaxed) {
        return Ok(false);
    }
    record.counted.set(false);
    entry::take(&function, record);
    Ok(true)
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
    entry::ignore(&code, record);
    record.examined.set(true);
    examine(&code, record, &code::decode(&code)?)?;
    if !record.given_back.get() {
        entry::take(function, record);
    }
    Ok(())
}
