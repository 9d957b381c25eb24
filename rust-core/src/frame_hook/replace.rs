//! Other code for a frame that has not run yet.
//!
//! Before the first instruction only the arguments are set, so the new frame may
//! look quite different: more locals, other cells, another stack. Arguments are
//! moved by name and kind. A frame of another size takes the old one's place on
//! the data stack.

use super::error::{Outcome, Raised};
use super::frame::{Code, Frame, Stage};
use super::Thread;
use crate::check::check;
use crate::cpython as c;
use crate::cpython::{_PyInterpreterFrame, PyObject};
use crate::data_stack::{DataStack, Slots};
use crate::frame::write_empty;
use crate::reference_count::decref;
use crate::stack_ref::{StackRef, StackSlot};
use core::ffi::{c_char, CStr};
use core::mem::MaybeUninit;
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

/// What a frame holds before its first instruction: its arguments, and behind them, in
/// no order, the cells and free variables of its prologue. The other locals are NULL and
/// may be many.
///
/// Dropping this closes none of them: whoever fills it sees to what is in it.
struct Held {
    few: [MaybeUninit<StackSlot>; Held::FEW],
    many: Option<NonNull<StackSlot>>,
    arguments: usize,
    /// Arguments, cells and free variables.
    count: usize,
}

impl Held {
    /// So many need no allocation.
    const FEW: usize = 24;

    /// Of a frame at that stage.
    fn of(thread: Thread, frame: Frame, stage: Stage) -> Outcome<Self> {
        let code = frame.code();
        let arguments = code.parameters().count();
        let most_others =
            if stage == Stage::AfterPrologue { code.cells() + code.free_variables() } else { 0 };
        let few = [const { MaybeUninit::uninit() }; Held::FEW];
        let mut held = Held { few, many: None, arguments, count: arguments };
        if arguments + most_others > Held::FEW {
            let bytes = (arguments + most_others) * size_of::<StackSlot>();
            // SAFETY: the raw allocator takes any size; a frame's fits.
            let block = unsafe { c::PyMem_RawMalloc(bytes) };
            held.many = Some(NonNull::new(block.cast()).ok_or_else(|| Raised::no_memory(thread))?);
        }
        let kept = held.slots();
        // SAFETY: there is room for all arguments, and a frame has them first.
        unsafe { kept.copy_from_nonoverlapping(frame.slots(), arguments) };
        if most_others != 0 {
            for slot in arguments..code.slots() {
                if held.count == arguments + most_others {
                    break;
                }
                // SAFETY: one of the frame's slots, and there is room.
                unsafe {
                    let place = frame.slots().add(slot);
                    if !(*place).is_empty() {
                        kept.add(held.count).write(place.read());
                        held.count += 1;
                    }
                }
            }
        }
        Ok(held)
    }

    /// Where they are; those before `count` are set.
    fn slots(&mut self) -> *mut StackSlot {
        self.many.map_or(self.few.as_mut_ptr().cast(), NonNull::as_ptr)
    }

    /// Makes all slots of the frame that they are from empty.
    ///
    /// # Safety
    /// The frame's `slots` slots begin at `first`, as they were, and own nothing any more.
    unsafe fn empty(&self, first: *mut StackSlot, slots: usize) {
        // SAFETY: the first of the frame's slots.
        unsafe { write_empty(first, self.arguments) };
        let mut left = self.count - self.arguments;
        for slot in self.arguments..slots {
            if left == 0 {
                break;
            }
            // SAFETY: one of the frame's slots.
            unsafe {
                let place = first.add(slot);
                if !(*place).is_empty() {
                    place.write(StackSlot::EMPTY);
                    left -= 1;
                }
            }
        }
    }
}

impl Drop for Held {
    #[inline]
    fn drop(&mut self) {
        if let Some(block) = self.many {
            // SAFETY: allocated in `of`.
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
    let stage = frame.stage();
    // The two frames may overlap, so what the old one holds is kept aside. Nothing is
    // counted: the references are the same ones.
    let mut held = Held::of(thread, frame, stage)?;
    let saved = held.slots();
    // SAFETY: the frame is live; what is copied is its fixed part.
    let header: _PyInterpreterFrame = unsafe { frame.as_ptr().read() };
    check!(header.frame_obj.is_null(), "a frame that is offered has been seen");
    // SAFETY: the thread's own data stack, and its topmost frame; what it holds is
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
    // SAFETY: so many slots are there. Where the frame stays in its place, the old one's
    // other locals are NULL.
    unsafe {
        let first = replaced.slots();
        if raw == frame.as_ptr() {
            held.empty(first, old.slots());
            write_empty(first.add(old.slots()), new.slots().saturating_sub(old.slots()));
        } else {
            write_empty(first, new.slots());
        }
    }
    let any_cell = stage == Stage::AfterPrologue && old.cells() != 0;
    for slot in 0..held.arguments {
        let Some(target) = target_slot(old, new, slot) else { continue };
        // SAFETY: within what is kept, and within the new frame's slots; no code runs while they are borrowed.
        let (old_slot, new_slot) = unsafe {
            (StackSlot::at(saved.add(slot)), StackSlot::at(replaced.slots().add(target)))
        };
        let value = if any_cell && old.is_cell(slot) {
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
        if let Some(displaced) = new_slot.replace(value) {
            // Two parameters of one name, which no compiler makes: the last one stays. The first is closed
            // with the rest, below. A cell that makes room for it is not the last to hold its content.
            drop(old_slot.replace(Some(displaced)));
        }
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
    for slot in 0..held.count {
        // SAFETY: kept here, and looked at no more.
        drop(unsafe { StackSlot::leave(saved.add(slot)) });
    }
    // SAFETY: the reference was the old frame's.
    unsafe { decref(old.object()) };
    Ok(replaced)
}
