//! The frames of a chain: their memory first, then what they hold.
//!
//! # Invariants
//! - *Own memory*: frames that were pushed here and are linked to each other alone, by `previous`. No thread state leads
//!   to them, so no sampler, debugger or collector reads them before the chain is entered.

use super::instruction::Instruction;
use super::record::{FrameRecord, Refusal};
use crate::code::Code;
use crate::cpython as c;
use crate::cpython::_PyInterpreterFrame;
use crate::data_stack::{_PyThreadState_PopFrame, DataStack, Slots};
use crate::exception::drop_aside;
use crate::frame::{_PyFrame_Initialize, slot_with, Frame};
use crate::object::Owned;
use crate::reference_count::new_reference;
use crate::thread::Thread;
use core::ffi::c_int;
use core::ptr::null_mut;
use core::sync::atomic::{AtomicUsize, Ordering};

/// Memory for the frames of a chain. Each has its code, of which it owns a reference, and nothing else.
pub struct Memory {
    thread: Thread,
    innermost: *mut _PyInterpreterFrame,
}

impl Memory {
    /// No memory yet.
    pub fn none(thread: Thread) -> Self {
        Memory { thread, innermost: null_mut() }
    }

    /// Pushes a frame of `code` upon those that there are; `None` without memory.
    pub fn push(&mut self, code: Code) -> Option<()> {
        // SAFETY: the calling thread's own stack; the size is a `co_framesize`.
        let pushed = unsafe {
            let size = Slots::new(code.frame_slots());
            DataStack::of(self.thread.tstate()).push(size)
        };
        let frame: *mut _PyInterpreterFrame = pushed?.as_ptr().cast();
        // SAFETY: *own memory*. The code is live.
        unsafe {
            (*frame).previous = self.innermost;
            (*frame).f_executable = new_reference(code.as_object());
        }
        self.innermost = frame;
        Some(())
    }

    /// Pops all frames again.
    pub fn give_back(self) {
        let mut frame = self.innermost;
        while !frame.is_null() {
            // SAFETY: *own memory*, which owns a reference to its code. What was pushed upon the frame is popped; so is what
            // a destructor pushes.
            unsafe {
                let (below, code) = ((*frame).previous, Owned::new((*frame).f_executable));
                _PyThreadState_PopFrame(self.thread.tstate(), frame);
                drop_aside(code);
                frame = below;
            }
        }
    }

    /// Instruments all code as a `RESUME` does. Returns whether there was anything to do.
    pub fn instrument(&self) -> Result<bool, Refusal> {
        let (mut frame, mut changed) = (self.innermost, false);
        while !frame.is_null() {
            // SAFETY: *own memory*, with code. No lock is held.
            unsafe {
                changed |= instrument(self.thread, Code::new((*frame).f_executable.cast()))?;
                frame = (*frame).previous;
            }
        }
        Ok(changed)
    }
}

/// The frames of a chain, filled.
pub struct Filled {
    pub innermost: Frame,
    pub outermost: Frame,
    /// Where the innermost one continues.
    next: *mut c::_Py_CODEUNIT,
    /// How many code units its instruction takes, without prefixes.
    units: usize,
}

impl Filled {
    /// Fills memory with frames. Consumes the references of the records. `None`: there are no records.
    ///
    /// # Safety
    /// The records were checked. The memory was pushed for them.
    pub unsafe fn new(memory: Memory, records: &[FrameRecord]) -> Option<Self> {
        let mut at = memory.innermost;
        let mut filled: Option<Filled> = None;
        for record in records.iter().rev() {
            // SAFETY: *own memory*, pushed for this record, which was checked with the code that is there.
            let (code, call, frame) = unsafe {
                let (code, below) = (Code::new((*at).f_executable.cast()), (*at).previous);
                let call = record.instruction(code)?;
                let frame = fill(at, record, code, call);
                at = below;
                (code, call, frame)
            };
            if let Some(filled) = &mut filled {
                filled.outermost = frame;
                continue;
            }
            let index = record.instruction as usize;
            // SAFETY: an instruction of the code begins at the index, which was checked.
            let next = unsafe { code.first_instruction().add(index) };
            filled = Some(Filled { innermost: frame, outermost: frame, next, units: call.units() });
        }
        filled
    }

    /// Lets the innermost frame continue, with a value perhaps, or with an exception that its instruction raises. Returns
    /// how far ahead of its `instr_ptr` that is; with an exception, where the instruction ends.
    ///
    /// A tool that wants lines sees the line that begins at the instruction: `instr_ptr` is at the first `RESUME`, whose
    /// line CPython takes for another one.
    ///
    /// # Safety
    /// The frame has room for the value.
    pub unsafe fn place(&self, value: Option<Owned>, raises: bool) -> Ahead {
        let frame = self.innermost;
        if let Some(value) = value {
            // SAFETY: the caller says that there is room.
            unsafe { frame.push(value) };
        }
        if raises {
            // `instr_ptr` is behind the prefixes.
            return self.units as Ahead;
        }
        let resume = frame.code().first_resume();
        if self.next <= resume {
            // It starts, and says so to frame hooks.
            // SAFETY: *own memory*.
            unsafe { (*frame.as_ptr()).return_offset = 0 };
        }
        let comes_from = if frame.is_incomplete() { self.next } else { resume };
        frame.set_instruction(comes_from);
        // SAFETY: two instructions of one code object, the first of which comes first.
        unsafe { self.next.offset_from(comes_from) as Ahead }
    }
}

/// How far ahead of `instr_ptr` a frame continues, in code units.
pub type Ahead = core::ffi::c_uint;

/// Makes a frame of `code` out of memory, which waits at `call`. Consumes the references of the record.
///
/// # Safety
/// *own memory*, for a frame of `code`, which is the record's, and so is `call`. The record was checked.
unsafe fn fill(
    memory: *mut _PyInterpreterFrame,
    record: &FrameRecord,
    code: Code,
    call: Instruction,
) -> Frame {
    let count = record.count(code);
    // SAFETY: *own memory*, with the frame size of `code`, which it holds. The objects are live, as the record was checked;
    // the frame owns references of its own, to the code too.
    let frame = unsafe {
        let held = Owned::new((*memory).f_executable);
        let has_locals = !record.locals.is_null();
        let locals = if has_locals { new_reference(record.locals) } else { null_mut() };
        let function = new_reference(record.function).cast();
        _PyFrame_Initialize(memory, function, locals, code.as_ptr(), code.slots() as c_int);
        drop(held);
        Frame::new(memory)
    };
    for i in 0..count {
        // SAFETY: *own memory*. The record has so many slots, and the frame too: its stack is not too deep. The
        // references are the record's to give.
        unsafe {
            let value = Owned::new(*record.slots.add(i));
            frame.first_slot().add(i).write(slot_with(value));
        }
    }
    // SAFETY: *own memory*, and an instruction of the code.
    unsafe {
        (*memory).stacktop = count as c_int;
        (*memory).return_offset = call.units() as u16;
        frame.set_instruction(code.first_instruction().add(call.index));
    }
    frame
}

/// As [`Memory::instrument`], one code object.
///
/// # Safety
/// The calling thread holds no lock: another one may run meanwhile.
unsafe fn instrument(thread: Thread, code: Code) -> Result<bool, Refusal> {
    // SAFETY: live by the invariant of `Code`. Other threads change the field, hence the atomic.
    let version =
        unsafe { AtomicUsize::from_ptr(&raw mut (*code.as_ptr())._co_instrumentation_version) };
    let version = version.load(Ordering::Acquire);
    if version == thread.eval_breaker() >> c::_PY_EVAL_EVENTS_BITS << c::_PY_EVAL_EVENTS_BITS {
        return Ok(false);
    }
    // SAFETY: live code, and the thread's interpreter.
    match unsafe { c::_Py_Instrument(code.as_ptr(), thread.interpreter()) } {
        0 => Ok(true),
        _ => Err(Refusal::Raised),
    }
}
