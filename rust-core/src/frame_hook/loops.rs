//! Loops of code objects: a hook is called at the head of a hot loop, and may take the frame over.
//!
//! ```text
//!   JUMP_BACKWARD ── watch ──► opcode 234: counts its turns down in its cache entry
//!                                  │ none left
//!                                  └──► _PyRust_LoopIsHot ──► on_loop ──► continues, or is left
//! ```
//!
//! The counting opcode is a form of JUMP_BACKWARD that the eval loop implements where opcodes are unknown
//! (`ferrule_compilers.h`). `_PyOpcode_Deopt` has JUMP_BACKWARD for it, so `co_code`, comparisons, instrumentation and
//! tier 2 see that; `_co_code_adaptive` is corrected here. Instrumentation replaces it, and [`rearm`] puts it back.
//!
//! A clause that safety comments cite: *hot*: the frame is the calling thread's current one, at its JUMP_BACKWARD, with
//! its stack pointer saved. It and its code stay while it executes.

use super::c_types::{
    FrameLoop, FRAMELOOP_CONTINUE, FRAMELOOP_ERROR, FRAMELOOP_RESULT, FRAMELOOP_UNWIND,
};
use super::code_record::{self, CodeRecord};
use super::counted::count_one;
use super::entry_frame::{begin_loop_callback, starts_within_a_callback};
use super::error::{Outcome, Raised};
use super::eval_loop::end_call;
use super::hook::references::HookInUse;
use super::listening::is_open;
use super::monitoring::is_monitored;
use super::opt_out;
use super::registry::{self, Refusal};
use super::resume::despecialize;
use super::state::{levels, visible_if, DispatchGuard};
use super::world::{despecialize_all, with_world_stopped};
use crate::code::Code;
use crate::cpython as c;
use crate::cpython::{
    _PyInterpreterFrame, PyCodeObject, PyInterpreterState, PyObject, PyThreadState,
};
use crate::frame::{object_of_frame, Frame, Owner};
use crate::object::Owned;
use crate::thread::{NotStopped, Thread};
use core::ffi::{c_int, c_longlong, CStr};
use core::ptr::null_mut;
use core::sync::atomic::{AtomicU16, AtomicU8, Ordering};

/// The opcode of a JUMP_BACKWARD that counts its turns.
pub const COUNTED_JUMP: u8 = 234;
/// The cache entry of a JUMP_BACKWARD where there is none. CPython begins with another one, and only tier 2 changes it.
const NO_JUMP: u16 = 0;
/// The code units of a JUMP_BACKWARD.
const WIDTH: c_int = 2;

/// The opcode of an instruction. Other threads may execute and write it.
///
/// # Safety
/// `at` is one of the instructions of code that lives as long as `'a`.
unsafe fn opcode<'a>(at: *mut c::_Py_CODEUNIT) -> &'a AtomicU8 {
    // SAFETY: the caller says that the code lives as long as `'a`.
    unsafe { AtomicU8::from_ptr((&raw mut (*at).op.code).cast()) }
}

/// The cache entry of a JUMP_BACKWARD.
///
/// # Safety
/// As for [`opcode`], and `at` is a JUMP_BACKWARD in whatever form.
unsafe fn entry<'a>(at: *mut c::_Py_CODEUNIT) -> &'a AtomicU16 {
    // SAFETY: the caller says that it is a JUMP_BACKWARD of live code, so a cache entry follows.
    unsafe { AtomicU16::from_ptr(&raw mut (*at.add(1)).cache) }
}

/// Calls `visit` with the index and the address of each instruction from the first RESUME on, until that returns false.
///
/// # Safety
/// The world is stopped, or the calling thread has the code's lock.
unsafe fn each_instruction(code: Code, mut visit: impl FnMut(usize, *mut c::_Py_CODEUNIT) -> bool) {
    // SAFETY: live by the type's invariant; each index is that of an instruction.
    unsafe {
        let length = (*code.as_ptr()).ob_base.ob_size as usize;
        let mut at = code.prologue().unwrap_or(length);
        while at < length && visit(at, code.first_instruction().add(at)) {
            at += c::_PyInstruction_GetLength(code.as_ptr(), at as c_int) as usize;
        }
    }
}

/// Has the loops of `code` counted: how many there are, and the cache entry of the first one.
///
/// # Safety
/// As for [`each_instruction`].
unsafe fn arm(code: Code, turns: u16) -> (c_int, Option<u16>) {
    let (mut count, mut before) = (0, None);
    let arm_one = |_, at| {
        // SAFETY: an instruction of live code. Both forms mean the same to a thread that executes the jump.
        unsafe {
            if u32::from(opcode(at).load(Ordering::Relaxed)) == c::JUMP_BACKWARD {
                let entry = entry(at).swap(turns.saturating_sub(1), Ordering::Relaxed);
                before = before.or(Some(entry));
                opcode(at).store(COUNTED_JUMP, Ordering::Relaxed);
                count += 1;
            }
        }
        true
    };
    // SAFETY: *stopped* or locked, says the caller, so no other thread changes instructions.
    unsafe { each_instruction(code, arm_one) };
    (count, before)
}

/// Has one loop counted no longer.
///
/// # Safety
/// As for [`opcode`].
unsafe fn disarm_one(at: *mut c::_Py_CODEUNIT, before: u16) {
    // SAFETY: an instruction of live code, says the caller; a counting one is a JUMP_BACKWARD.
    unsafe {
        if opcode(at).load(Ordering::Relaxed) == COUNTED_JUMP {
            entry(at).store(before, Ordering::Relaxed);
            opcode(at).store(c::JUMP_BACKWARD as u8, Ordering::Relaxed);
        }
    }
}

/// Has no loop of `code` counted any longer.
///
/// # Safety
/// The world is stopped.
unsafe fn disarm(code: Code, record: &CodeRecord) {
    let Some((_, _, before)) = record.loops() else { return };
    record.set_loops(0, 0, 0);
    // SAFETY: the world is stopped, says the caller; instructions of live code.
    unsafe {
        each_instruction(code, |_, at| {
            disarm_one(at, before);
            true
        });
    }
}

/// Has the loops of `code` watched by a hook, which is called every `turns` turns. Returns how many there are.
pub fn watch(thread: Thread, id: c_longlong, code: Code, turns: c_int) -> Outcome<c_int> {
    let hook = registry::find(thread, id).ok_or_else(|| Refusal::Unknown.raise(thread))?;
    if hook.get().on_loop.is_none() {
        return Err(Raised::value_error(thread, c"this frame hook has no loop callback"));
    }
    let turns = u16::try_from(turns).ok().filter(|turns| *turns != 0);
    let turns = turns
        .ok_or_else(|| Raised::value_error(thread, c"a loop is hot after 1 to 65,535 turns"))?;
    // SAFETY: the caller has the code, and the record is used by this call only.
    let record = unsafe { code_record::get(thread, code) }?;
    // SAFETY: the world is stopped. *quiet*: nothing here waits or runs Python code.
    let loops = unsafe { with_world_stopped(thread, |quiet| take(quiet, id, code, record, turns)) };
    loops.ok_or_else(|| {
        Raised::runtime_error(thread, c"another frame hook watches the loops of this code object")
    })
}

/// [`watch`], with the world stopped. `None`: another hook watches them.
///
/// # Safety
/// The world is stopped.
unsafe fn take(
    quiet: &NotStopped,
    id: c_longlong,
    code: Code,
    record: &CodeRecord,
    turns: u16,
) -> Option<c_int> {
    let thread = quiet.thread();
    if let Some((other, ..)) = record.loops() {
        if other != id && quiet.hooks().any(|hook| hook.id == other) {
            return None;
        }
        // SAFETY: the world is stopped, says the caller.
        unsafe { disarm(code, record) };
    }
    // SAFETY: the world is stopped, says the caller; the state is live, and nothing here waits.
    let (count, before) = unsafe {
        if c::HAS_TIER2 {
            despecialize_all(thread); // what is compiled of it has another instruction in the place of the jump
        }
        (*thread.state()).loops = true;
        arm(code, turns)
    };
    record.set_loops(id, turns, before.unwrap_or(NO_JUMP));
    Some(count)
}

/// Has the loops of `code` watched no longer, if it is this hook that watches them.
pub fn unwatch(thread: Thread, id: c_longlong, code: Code) {
    let disarm_own = |_: &NotStopped| {
        // SAFETY: the thread is attached, the caller has the code, and the world is stopped.
        unsafe {
            let record = code_record::find(thread.interpreter(), code);
            let is_its = |record: &&CodeRecord| record.loops().is_some_and(|(hook, ..)| hook == id);
            if let Some(record) = record.filter(is_its) {
                disarm(code, record);
            }
        }
    };
    // SAFETY: *quiet*: instructions are written.
    unsafe { with_world_stopped(thread, disarm_own) };
}

/// The events of a code object were changed, or its version.
///
/// # Safety
/// The calling thread is attached to `interpreter`, and has the code's lock or has stopped the world.
#[no_mangle]
pub unsafe extern "C" fn _PyRust_CodeInstrumented(
    interpreter: *mut PyInterpreterState,
    code: *mut PyCodeObject,
) {
    // SAFETY: the caller says that the thread is attached and has the code's lock. The code is alive during the call.
    unsafe {
        let code = Code::new(code);
        let Some(record) = code_record::find(interpreter, code) else { return };
        record.forget();
        if let Some((hook, turns, before)) = record.loops() {
            rearm(Thread::current(), code, record, (hook, turns, before));
        }
    }
}

/// Has the loops of `code` counted anew. The numbers are what the record has of them.
///
/// # Safety
/// As for [`arm`], and the thread is attached.
unsafe fn rearm(
    thread: Thread,
    code: Code,
    record: &CodeRecord,
    (hook, turns, before): (c_longlong, u16, u16),
) {
    // SAFETY: the caller says so.
    let (_, now) = unsafe { arm(code, turns) };
    let entry = now.unwrap_or(before);
    record.set_loops(hook, turns, entry);
    if entry == NO_JUMP && !cfg!(ferrule_free_threaded) {
        enable_again(thread, code, hook);
    }
}

/// Observers of code without loops have come or gone: the hook that watches it is called for its next frame. It may have left the code to the
/// interpreter while a tool observed it; loops that are counted anew say the same. Without the GIL the lock of the masks is not taken
/// with the world stopped: its holder may be stopped. A mask that needs memory which there is not stays. Traces of
/// tier 2 were invalidated with the code's instructions.
fn enable_again(thread: Thread, code: Code, hook: c_longlong) {
    if opt_out::set_disabled(thread, code, hook, false).is_ok() && code.prologue().is_some() {
        // SAFETY: it has such an instruction.
        unsafe { despecialize(code.first_resume()) };
    }
}

/// `_co_code_adaptive` while loops are or were watched: a new reference, or NULL with an exception.
///
/// # Safety
/// The calling thread is attached; `code` is live.
#[no_mangle]
pub unsafe extern "C" fn _PyRust_GetCodeAdaptive(code: *mut PyCodeObject) -> *mut PyObject {
    // SAFETY: the caller says that the thread is attached, and the code live.
    let (thread, code) = unsafe { (Thread::current(), Code::new(code)) };
    // SAFETY: a live code object; its size is its number of instructions.
    let units = unsafe { (*code.as_ptr()).ob_base.ob_size };
    let bytes = units * size_of::<c::_Py_CODEUNIT>() as isize;
    // SAFETY: the thread is attached. The new bytes are as long as the instructions, and nothing else has them. *quiet*:
    // instructions are copied.
    unsafe {
        let shown = c::PyBytes_FromStringAndSize(null_mut(), bytes);
        if !shown.is_null() {
            let copy = c::PyBytes_AsString(shown).cast::<c::_Py_CODEUNIT>();
            with_world_stopped(thread, |_| {
                copy_as_stock_has_it(thread, code, copy, units as usize)
            });
        }
        shown
    }
}

/// Copies the instructions, with JUMP_BACKWARD for the counting form.
///
/// # Safety
/// The world is stopped, and `copy` has room for so many `units`.
unsafe fn copy_as_stock_has_it(
    thread: Thread,
    code: Code,
    copy: *mut c::_Py_CODEUNIT,
    units: usize,
) {
    // SAFETY: the world is stopped, says the caller, and there is room. Each index is below the number of units.
    unsafe {
        copy.copy_from_nonoverlapping(code.first_instruction(), units);
        let record = code_record::find(thread.interpreter(), code);
        let Some((_, _, before)) = record.and_then(CodeRecord::loops) else { return };
        each_instruction(code, |index, _| {
            disarm_one(copy.add(index), before);
            true
        });
    }
}

/// The hook to call for a hot loop. `None`: none is called now.
///
/// # Safety
/// *hot*.
unsafe fn hook_of(thread: Thread, frame: Frame, record: Option<&CodeRecord>) -> Option<HookInUse> {
    let (id, ..) = record.and_then(CodeRecord::loops)?;
    let hook = registry::find(thread, id);
    if hook.is_none() {
        // It was removed.
        unwatch(thread, id, frame.code());
    }
    hook.filter(|hook| {
        // A callback may wait in another greenlet, or have made a re-entrant call. Its levels are no tracer's.
        let (callbacks, hidden) = levels(thread);
        let is_within = || callbacks != 0 && starts_within_a_callback(frame);
        // SAFETY: the calling thread's own field.
        let is_traced = unsafe { (*thread.tstate()).tracing } > hidden as c_int;
        hook.get().is_enabled()
            && is_open(thread, hook.get())
            && !is_traced
            && !is_within()
            && !is_monitored(thread, frame.code())
    })
}

/// A loop is hot: calls the hook that watches it, unless work is pending. Returns how far ahead of its `instr_ptr` the thread's current frame
/// continues. If an exception is set and that frame is still `frame`, the exception is raised at its `instr_ptr`.
///
/// # Safety
/// `tstate` is the calling thread's own, attached thread state. `frame` is its current frame, at a counting JUMP_BACKWARD
/// that jumps `distance` code units back, with its stack pointer saved.
#[no_mangle]
#[inline(never)]
pub unsafe extern "C" fn _PyRust_LoopIsHot(
    tstate: *mut PyThreadState,
    frame: *mut _PyInterpreterFrame,
    distance: c_int,
) -> c_int {
    // SAFETY: the caller says that `tstate` is the thread's own, and that the frame is its current one, so that no other
    // thread links or clears it: *hot*.
    unsafe {
        let (thread, frame) = (Thread::new(tstate), Frame::new(frame));
        let record = code_record::find(thread.interpreter(), frame.code());
        let turns = record.and_then(CodeRecord::loops).map_or(u16::MAX, |(_, turns, _)| turns);
        set_turns(frame.instruction(), turns);
        match hook_of(thread, frame, record) {
            Some(hook) => call(thread, frame, &hook, WIDTH - distance, turns),
            None => WIDTH - distance,
        }
    }
}

/// Sets after how many turns a loop is hot, if it is counted.
///
/// # Safety
/// `jump` is a JUMP_BACKWARD of live code, in whatever form.
unsafe fn set_turns(jump: *mut c::_Py_CODEUNIT, turns: u16) {
    // SAFETY: the caller says what it is. Where it is instrumented, its cache entry means something else.
    unsafe {
        if opcode(jump).load(Ordering::Relaxed) == COUNTED_JUMP {
            entry(jump).store(turns.saturating_sub(1), Ordering::Relaxed);
        }
    }
}

/// Whether the frame may be within an `except` or `finally` block, which has an exception to restore: an exception is
/// handled in the thread, and a value on the stack may be the one that was handled before.
///
/// # Safety
/// *hot*.
unsafe fn may_handle_an_exception(thread: Thread, frame: Frame) -> bool {
    let none = &raw mut c::_Py_NoneStruct;
    // SAFETY: the thread's own fields.
    let handled = unsafe { (*(*thread.tstate()).exc_info).exc_value };
    let is_saved = |index: usize| {
        // SAFETY: *hot*, says the caller, so the values on the stack are live.
        let value = unsafe { frame.held(index) }.map(|held| held.object().as_ptr());
        value.is_some_and(|value| {
            // SAFETY: live, as before; so is its type.
            let flags = unsafe { (*(*value).ob_type).tp_flags };
            value == none || flags & u64::from(c::Py_TPFLAGS_BASE_EXC_SUBCLASS) != 0
        })
    };
    !handled.is_null()
        && handled != none
        && (frame.code().slots()..frame.slots_at_rest()).any(is_saved)
}

/// Calls the loop callback, and does what it answers.
///
/// # Safety
/// *hot*.
unsafe fn call(thread: Thread, frame: Frame, hook: &HookInUse, ahead: c_int, turns: u16) -> c_int {
    let Some(on_loop) = hook.get().on_loop else { return ahead };
    let (code, jump) = (frame.code(), frame.instruction());
    // SAFETY: *hot*, says the caller. The jump is one of the code's instructions.
    let (at, is_handling) = unsafe {
        let at = jump.offset_from(code.first_instruction()) as c_int;
        (at, may_handle_an_exception(thread, frame))
    };
    let guard = DispatchGuard::begin(thread);
    if guard.defers() {
        // The callback may run for long without seeing it. The next jump does the work first.
        // SAFETY: *hot*: a JUMP_BACKWARD of the code.
        unsafe { set_turns(jump, 1) };
        return ahead;
    }
    let mut hot = FrameLoop {
        frame: frame.as_ptr(),
        function: frame.function(),
        code: code.as_ptr(),
        slots: frame.first_slot().cast(),
        local_count: code.slots() as c_int,
        stack_depth: (frame.slots_at_rest() - code.slots()) as c_int,
        jump: at,
        instruction: at + ahead,
        turns: c_int::from(turns),
        object: null_mut(),
    };
    // SAFETY: the definition's owner says that `on_loop` takes such arguments. *hot*: frames that start meanwhile lie
    // above the frame, and are gone when the callback returns. It writes to `hot` until then.
    let verdict = unsafe {
        let offset = begin_loop_callback(frame);
        let data = hook.get().user_data;
        let verdict = visible_if(hook.get().visible, thread, || on_loop(&raw mut hot, data));
        offset.write_to(frame);
        drop(guard);
        verdict
    };
    // SAFETY: *hot*; `is_handling` was true of the frame as the callback found it.
    unsafe { heed(thread, frame, hook, &hot, at + ahead, (verdict, is_handling)) }
}

/// Why an answer cannot be executed, which is raised instead.
///
/// # Safety
/// *hot*.
unsafe fn refusal(
    frame: Frame,
    hot: &FrameLoop,
    verdict: c_int,
    handles: bool,
) -> Option<&'static CStr> {
    let code = frame.code();
    // SAFETY: live by the type's invariant.
    let stack = unsafe { (*code.as_ptr()).co_stacksize };
    let leaves = verdict == FRAMELOOP_RESULT || verdict == FRAMELOOP_UNWIND;
    if !(0..=stack).contains(&hot.stack_depth) {
        return Some(
            c"a loop callback of frame hook %s left more on the evaluation stack than has room",
        );
    }
    if !(0..=c_int::from(u16::MAX)).contains(&hot.turns) {
        return Some(c"a loop callback of frame hook %s gave no number of turns from 0 to 65,535");
    }
    if !(FRAMELOOP_ERROR..=FRAMELOOP_UNWIND).contains(&verdict)
        || (verdict == FRAMELOOP_RESULT) == hot.object.is_null()
    {
        return Some(c"a loop callback of frame hook %s answered with what is unknown, or does not go with its object");
    }
    if leaves && frame.owner() != Owner::THREAD {
        return Some(c"a loop callback of frame hook %s ends a generator, which only its own instructions can do");
    }
    if leaves && handles {
        return Some(
            c"a loop callback of frame hook %s leaves a function that may be handling an exception",
        );
    }
    None
}

/// Whether an instruction of the code begins there. Its `EXTENDED_ARG` prefixes belong to it.
fn is_instruction(thread: Thread, code: Code, index: c_int) -> bool {
    let (mut found, mut is_behind_prefix) = (false, false);
    let visit = |at: usize, _: *mut c::_Py_CODEUNIT| {
        found |= at as c_int == index && !is_behind_prefix;
        // SAFETY: an instruction of live code. CPython maps an instrumented one to its own opcode.
        let base = unsafe { c::_Py_GetBaseOpcode(code.as_ptr(), at as c_int) };
        is_behind_prefix = base as u32 == c::EXTENDED_ARG;
        (at as c_int) < index
    };
    // SAFETY: the world is stopped. *quiet*: instructions are read.
    unsafe { with_world_stopped(thread, |_| each_instruction(code, visit)) };
    found
}

/// Does what a loop callback has answered. Returns what [`_PyRust_LoopIsHot`] does.
///
/// # Safety
/// *hot*, and the callback has returned `verdict` with `hot` just now.
unsafe fn heed(
    thread: Thread,
    frame: Frame,
    hook: &HookInUse,
    hot: &FrameLoop,
    head: c_int,
    (verdict, is_handling): (c_int, bool),
) -> c_int {
    let (code, jump) = (frame.code(), frame.instruction());
    // SAFETY: NULL, or a reference that is ours. *hot*, says the caller.
    let (object, mut why) =
        unsafe { (Owned::new(hot.object), refusal(frame, hot, verdict, is_handling)) };
    if why.is_none() && hot.instruction != head && !is_instruction(thread, code, hot.instruction) {
        why = Some(c"a loop callback of frame hook %s continues where no instruction begins");
    }
    let raises = matches!(verdict, FRAMELOOP_ERROR | FRAMELOOP_UNWIND);
    if why.is_none() && raises != thread.has_exception() {
        why = Some(if raises {
            c"a loop callback of frame hook %s answered with an error and set no exception"
        } else {
            c"a loop callback of frame hook %s set an exception and answered with none"
        });
    }
    // SAFETY: the slots that the callback has left are the frame's: *hot*. So many are on its stack, as was checked.
    unsafe {
        if (0..=(*code.as_ptr()).co_stacksize).contains(&hot.stack_depth) {
            (*frame.as_ptr()).stacktop = code.slots() as c_int + hot.stack_depth;
        }
    }
    if let Some(why) = why {
        count_one(&hook.get().errors);
        // SAFETY: a class, and a format that takes a string. No lock is held.
        unsafe {
            c::PyErr_Format(c::PyExc_SystemError, why.as_ptr(), hook.get().name());
            drop_object(object);
        }
        return 0;
    }
    // SAFETY: *hot*: a JUMP_BACKWARD of the code.
    unsafe { change_turns(thread, code, jump, hot.turns) };
    let ahead = hot.instruction - hot.jump;
    if verdict == FRAMELOOP_CONTINUE {
        return ahead;
    }
    // SAFETY: an instruction of the code, as was checked.
    frame.set_instruction(unsafe { jump.offset(ahead as isize) });
    if verdict == FRAMELOOP_ERROR {
        return 0;
    }
    // SAFETY: *hot*, says the caller: the frame is the current one, and the topmost of the data stack. An exception is set
    // if there is no object, as was checked.
    unsafe {
        if verdict == FRAMELOOP_UNWIND {
            if let Some(object) = object_of_frame(frame) {
                c::PyTraceBack_Here(object.as_ptr());
            }
        }
        end_call(thread, frame, object.ok_or_else(|| Raised::by_cpython(thread))) as c_int
    }
}

/// Gives up the object of an answer that is refused, with the exception set.
///
/// # Safety
/// No lock is held.
unsafe fn drop_object(object: Option<Owned>) {
    // SAFETY: the caller says that no lock is held; the thread is attached.
    unsafe { crate::exception::drop_aside(object) };
}

/// Sets after how many turns the callback is called again for this loop; 0: never.
///
/// # Safety
/// `jump` is a JUMP_BACKWARD of `code`, in whatever form.
unsafe fn change_turns(thread: Thread, code: Code, jump: *mut c::_Py_CODEUNIT, turns: c_int) {
    // SAFETY: a JUMP_BACKWARD of live code, says the caller.
    unsafe {
        if turns != 0 {
            return set_turns(jump, turns as u16);
        }
        let record = code_record::find(thread.interpreter(), code);
        let before = record.and_then(CodeRecord::loops).map_or(0, |(_, _, before)| before);
        disarm_one(jump, before);
    }
}
