//! Other code for a frame that has not run yet.
//!
//! Before the first instruction only the arguments are set, so the new frame may
//! look quite different: more locals, other cells, another stack. Arguments are
//! moved by name and kind. A frame of another size takes the old one's place on
//! the data stack.

use super::error::{Outcome, Raised};
use super::frame::{Code, Frame, Stage};
use super::Thread;
use crate::cpython as c;
use crate::cpython::{_PyInterpreterFrame, PyObject};
use crate::data_stack::{DataStack, Slots};
use crate::frame::write_empty;
use crate::reference_count::decref;
use crate::stack_ref::{StackRef, StackSlot};
use core::ffi::{c_char, CStr};
use core::ptr::{null_mut, NonNull};

/// Flags that must be the same: what kind of object a call returns, and where
/// locals live.
const KIND_FLAGS: u32 = c::CO_GENERATOR
    | c::CO_COROUTINE
    | c::CO_ASYNC_GENERATOR
    | c::CO_ITERABLE_COROUTINE
    | c::CO_OPTIMIZED
    | c::CO_NEWLOCALS;

/// Where the argument in slot `slot` of `old` goes in `new`; `None`: nowhere. The
/// groups of both have the same sizes.
fn target_slot(old: Code, new: Code, slot: usize) -> Option<usize> {
    let groups = old.parameters();
    let names = groups.positional + groups.keyword_only;
    if slot >= names {
        return Some(slot); // *args and **kwargs, whatever they are called
    }
    let name = old.slot_name(slot);
    if same_name(name, new.slot_name(slot)) {
        return Some(slot);
    }
    let (first, end) =
        if slot < groups.positional { (0, groups.positional) } else { (groups.positional, names) };
    (first..end).find(|&other| same_name(name, new.slot_name(other)))
}

/// Whether two strings are equal. Names in code objects are interned, so equal
/// ones are nearly always the same.
fn same_name(one: *mut PyObject, other: *mut PyObject) -> bool {
    // SAFETY: two strings.
    one == other || unsafe { c::PyUnicode_Compare(one, other) } == 0
}

/// Why `new` cannot run in the place of `old`; `None`: it can.
fn obstacle(old: Code, new: Code) -> Option<&'static CStr> {
    let (before, after) = (old.parameters(), new.parameters());
    if before.positional != after.positional || before.keyword_only != after.keyword_only {
        return Some(c"it has another number of parameters");
    }
    if before.star != after.star || before.double_star != after.double_star {
        return Some(c"only one of the two has *args or **kwargs");
    }
    if (old.get().co_flags as u32 ^ new.get().co_flags as u32) & KIND_FLAGS != 0 {
        return Some(
            c"it is of another kind (function, generator, coroutine, class or module body)",
        );
    }
    if (0..before.count()).any(|slot| target_slot(old, new, slot).is_none()) {
        return Some(c"its parameters have other names");
    }
    let free = old.free_variables();
    if free != new.free_variables() {
        return Some(c"it has another number of free variables");
    }
    let (first, other_first) = (old.slots() - free, new.slots() - free);
    let same =
        (0..free).all(|i| same_name(old.slot_name(first + i), new.slot_name(other_first + i)));
    if !same {
        return Some(c"its free variables have other names");
    }
    let first_traceable = new.get()._co_firsttraceable as isize;
    // SAFETY: a code object is live, and its size is its number of instructions.
    if first_traceable >= unsafe { (*new.as_ptr()).ob_base.ob_size } {
        return Some(c"it has no RESUME instruction");
    }
    None
}

/// Raises `IncompatibleCodeError`.
#[cold]
fn refuse(thread: Thread, name: *const c_char, old: Code, new: Code, why: &CStr) -> Raised {
    let Some(class) = super::python::incompatible_code_error(thread) else {
        return Raised::by_cpython(thread);
    };
    // SAFETY: the format takes a string, two objects and a string; all live.
    unsafe {
        c::PyErr_Format(
            class,
            c"frame hook %s: code %R cannot stand in for %R: %s".as_ptr(),
            name,
            new.object(),
            old.object(),
            why.as_ptr(),
        );
    }
    Raised::by_cpython(thread)
}

/// Memory for the old frame's slots while the new one is made over it. What is in
/// them is the business of whoever fills them: dropping this closes none.
struct Scratch {
    few: [StackSlot; Scratch::FEW],
    many: Option<NonNull<StackSlot>>,
}

impl Scratch {
    /// Slots that need no allocation.
    const FEW: usize = 48;

    fn new(thread: Thread, slots: usize) -> Outcome<Self> {
        let mut scratch = Scratch { few: [const { StackSlot::EMPTY }; Scratch::FEW], many: None };
        if slots > Scratch::FEW {
            // SAFETY: the raw allocator takes any size; a frame's fits.
            let block = unsafe { c::PyMem_RawMalloc(slots * size_of::<StackSlot>()) };
            scratch.many =
                Some(NonNull::new(block.cast()).ok_or_else(|| Raised::no_memory(thread))?);
        }
        Ok(scratch)
    }

    fn slots(&mut self) -> *mut StackSlot {
        self.many.map_or(self.few.as_mut_ptr(), NonNull::as_ptr)
    }
}

impl Drop for Scratch {
    #[inline]
    fn drop(&mut self) {
        if let Some(block) = self.many {
            // SAFETY: allocated in `new`.
            unsafe { c::PyMem_RawFree(block.as_ptr().cast()) };
        }
    }
}

/// Puts a frame that runs `new` in the place of `frame`, and returns it. On
/// failure nothing has changed. Consumes the reference to `new` in either case.
///
/// `name` is the hook's, for the message.
///
/// # Safety
/// `frame` is being offered in this thread, and the caller gives up its reference
/// to `new`.
pub unsafe fn replace(
    thread: Thread,
    frame: Frame,
    new: Code,
    name: *const c_char,
) -> Outcome<Frame> {
    // SAFETY: the caller's contract.
    let result = unsafe { exchange(thread, frame, new, name) };
    if result.is_err() {
        // SAFETY: given up by the caller, and not in any frame.
        unsafe { decref(new.object()) };
    }
    result
}

/// As [`replace`], but consumes the reference to `new` on success only.
///
/// # Safety
/// As for [`replace`].
unsafe fn exchange(thread: Thread, frame: Frame, new: Code, name: *const c_char) -> Outcome<Frame> {
    let old = frame.code();
    if let Some(why) = obstacle(old, new) {
        return Err(refuse(thread, name, old, new, why));
    }
    let count = old.slots();
    let mut scratch = Scratch::new(thread, count)?;
    let saved = scratch.slots();
    // The two frames may overlap, so all of the old one is kept aside. Nothing is
    // counted: the references are the same ones.
    // SAFETY: there is room for the old frame's slots in `saved`.
    unsafe { saved.copy_from_nonoverlapping(frame.slots(), count) };
    // SAFETY: the frame is live; what is copied is its fixed part.
    let header: _PyInterpreterFrame = unsafe { frame.as_ptr().read() };
    crate::check::check!(header.frame_obj.is_null(), "a frame that is offered has been seen");
    // SAFETY: the thread's own data stack, and its topmost frame, whose slots are
    // kept aside.
    let place = unsafe {
        DataStack::of(thread.tstate())
            .exchange_top(frame.as_ptr().cast(), Slots::new(new.get().co_framesize as usize))
    };
    let Some(place) = place else { return Err(Raised::no_memory(thread)) };
    let raw: *mut _PyInterpreterFrame = place.as_ptr().cast();
    // SAFETY: room for a frame of `new`, on top of this thread's data stack.
    let replaced = unsafe {
        (&raw mut (*raw).f_executable).write(new.object());
        (&raw mut (*raw).previous).write(header.previous);
        (&raw mut (*raw).f_funcobj).write(header.f_funcobj);
        (&raw mut (*raw).f_globals).write(header.f_globals);
        (&raw mut (*raw).f_builtins).write(header.f_builtins);
        (&raw mut (*raw).f_locals).write(header.f_locals);
        (&raw mut (*raw).frame_obj).write(null_mut());
        (&raw mut (*raw).instr_ptr).write(new.first_instruction());
        (&raw mut (*raw).stacktop).write(new.get().co_nlocalsplus);
        (&raw mut (*raw).return_offset).write(Stage::Fresh as u16);
        (&raw mut (*raw).owner).write(header.owner);
        Frame::new(raw)
    };
    // SAFETY: so many slots are there.
    unsafe { write_empty(replaced.slots(), new.slots()) };
    let cells = header.return_offset == Stage::AfterPrologue as u16;
    for slot in 0..old.parameters().count() {
        let Some(target) = target_slot(old, new, slot) else { continue };
        // SAFETY: within the old frame's slots, and the new one's; no code runs while they are borrowed.
        let (old_slot, new_slot) = unsafe {
            (StackSlot::at(saved.add(slot)), StackSlot::at(replaced.slots().add(target)))
        };
        let value = if cells && old.is_cell(slot) {
            // The cell of the prologue stays behind.
            old_slot.get().and_then(|cell| {
                // SAFETY: the prologue has put a cell there; what it returns is a new reference.
                unsafe {
                    let content = c::PyCell_Get(cell.object().as_ptr());
                    NonNull::new(content).map(|content| StackRef::steal(content))
                }
            })
        } else {
            old_slot.take()
        };
        let nothing_was_there = new_slot.replace(value);
        drop(nothing_was_there);
    }
    // SAFETY: the thread's own state.
    unsafe {
        let current = &raw mut (*thread.tstate()).current_frame;
        if *current == frame.as_ptr() {
            *current = raw;
        }
    }
    // What the old frame still holds: cells, free variables, its code. Only now,
    // since destructors may run.
    for slot in 0..count {
        // SAFETY: one of the old frame's slots; nobody else looks at it.
        drop(unsafe { StackSlot::leave(saved.add(slot)) });
    }
    // SAFETY: the reference was the old frame's.
    unsafe { decref(old.object()) };
    Ok(replaced)
}
