//! Other code for a frame that has not run yet.
//!
//! Before the first instruction only the arguments are set, so the new frame may
//! look quite different: more locals, other cells, another stack. Arguments are
//! moved by name and kind. A frame of another size takes the old one's place on
//! the data stack.

use super::error::{Outcome, Raised};
use super::frame::{Code, Frame, Stage};
use super::kept::incompatible_code_error;
use super::view::unbound;
use crate::cpython as c;
use crate::cpython::{_PyInterpreterFrame, PyObject};
use crate::data_stack::{DataStack, Slots};
use crate::frame::{leave_object, write_empty};
use crate::reference_count::decref;
use crate::stack_ref::{StackRef, StackSlot};
use crate::thread::Thread;
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

/// The slots of the parameters that have names of their own: all but `*args` and `**kwargs`,
/// whatever those are called.
fn named(code: Code) -> usize {
    code.parameters().positional + code.parameters().keyword_only
}

/// Where the argument in slot `slot` of `old` goes in `new`; `None` if it has no place there.
///
/// Both have the same number of positional parameters, and of keyword-only ones.
fn target_slot(old: Code, new: Code, slot: usize) -> Option<usize> {
    if slot >= named(old) {
        return Some(slot);
    }
    let name = old.slot_name(slot);
    if same_name(name, new.slot_name(slot)) {
        return Some(slot);
    }
    let positional = old.parameters().positional;
    let (first, end) = if slot < positional { (0, positional) } else { (positional, named(old)) };
    (first..end).find(|&other| same_name(name, new.slot_name(other)))
}

/// Whether each parameter of `new` gets exactly one argument of `old`.
///
/// No compiler makes two parameters of one name, but a code object can be made with them. Such
/// parameters are accepted only where each keeps its slot: by name nobody can tell them apart.
fn is_one_to_one(old: Code, new: Code) -> bool {
    let moves = |slot: usize| !same_name(old.slot_name(slot), new.slot_name(slot));
    // An argument whose slot has the same name in both stays there. So one that moves needs a slot
    // whose own argument moves too, and a name that no other argument has.
    (0..named(old)).filter(|&slot| moves(slot)).all(|slot| {
        let alike = (0..named(old))
            .any(|other| other != slot && same_name(old.slot_name(slot), old.slot_name(other)));
        !alike && target_slot(old, new, slot).is_some_and(moves)
    })
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
    if (old.flags() ^ new.flags()) & KIND_FLAGS != 0 {
        return Some(
            c"it is of another kind (function, generator, coroutine, class or module body)",
        );
    }
    if (0..before.count()).any(|slot| target_slot(old, new, slot).is_none()) {
        return Some(c"its parameters have other names");
    }
    if !is_one_to_one(old, new) {
        return Some(c"two of its parameters have one name");
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
    if new.prologue().is_none() {
        return Some(c"it has no RESUME instruction");
    }
    None
}

/// Raises `IncompatibleCodeError`.
#[cold]
fn refuse(thread: Thread, name: *const c_char, old: Code, new: Code, why: &CStr) -> Raised {
    let class = match incompatible_code_error(thread) {
        Ok(class) => class,
        Err(raised) => return raised,
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

/// What a frame holds. The values of its arguments come first. Behind them, in no order, is what
/// else is in its slots: above all the cells and free variables that its prologue has put there.
///
/// Dropping this closes none of them. An argument that is in a cell is held by a new reference. All
/// other words are those of the frame, which keeps them if the exchange fails.
struct Held {
    few: [MaybeUninit<StackSlot>; Held::FEW],
    many: Option<NonNull<StackSlot>>,
    arguments: usize,
    count: usize,
}

impl Held {
    /// So many need no allocation.
    const FEW: usize = 24;

    /// Of a frame that is being offered. `UnboundLocalError` where an argument has lost its value.
    fn of(thread: Thread, frame: Frame) -> Outcome<Self> {
        let arguments = frame.code().parameters().count();
        let in_use = frame.slots_in_use();
        let cells = (0..arguments).filter(|&slot| frame.has_cell_at(slot)).count();
        // SAFETY: so many slots are in use.
        let filled = |slot: &usize| unsafe { !frame.slots().add(*slot).read().is_empty() };
        let most = arguments + cells + (arguments..in_use).filter(filled).count();
        let few = [const { MaybeUninit::uninit() }; Held::FEW];
        let mut held = Held { few, many: None, arguments, count: 0 };
        if most > Held::FEW {
            // SAFETY: the raw allocator takes any size; a frame's fits.
            let block = unsafe { c::PyMem_RawMalloc(most * size_of::<StackSlot>()) };
            held.many = Some(NonNull::new(block.cast()).ok_or_else(|| Raised::no_memory(thread))?);
        }
        for slot in 0..arguments {
            // SAFETY: one of the frame's slots.
            let mut word = unsafe { frame.slots().add(slot).read() };
            if frame.has_cell_at(slot) {
                // SAFETY: a new reference to what is in the cell, or NULL.
                let content =
                    unsafe { NonNull::new(frame.argument(slot)).map(|it| StackRef::steal(it)) };
                word = StackSlot::EMPTY;
                drop(word.replace(content));
            }
            if word.is_empty() {
                held.give_back(frame);
                return Err(unbound(thread, frame.code(), slot));
            }
            held.push(word);
        }
        for slot in (0..arguments).filter(|&slot| frame.has_cell_at(slot)) {
            // SAFETY: one of the frame's slots.
            held.push(unsafe { frame.slots().add(slot).read() });
        }
        for slot in (arguments..in_use).filter(filled) {
            // SAFETY: as above.
            held.push(unsafe { frame.slots().add(slot).read() });
        }
        Ok(held)
    }

    /// Where they are; those before `count` are set.
    fn slots(&mut self) -> *mut StackSlot {
        self.many.map_or(self.few.as_mut_ptr().cast(), NonNull::as_ptr)
    }

    /// Appends a word. There is room.
    fn push(&mut self, word: StackSlot) {
        // SAFETY: `of` has counted before.
        unsafe { self.slots().add(self.count).write(word) };
        self.count += 1;
    }

    /// Leaves the frame as it was. Only the new references to values of cells are given up. Each
    /// cell still has its value, so no destructor runs.
    fn give_back(&mut self, frame: Frame) {
        let known = self.count.min(self.arguments);
        for slot in (0..known).filter(|&slot| frame.has_cell_at(slot)) {
            // SAFETY: set, and looked at no more.
            drop(unsafe { StackSlot::leave(self.slots().add(slot)) });
        }
        self.count = 0;
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

/// Puts a frame that runs `new` in the place of `frame`, and returns it, still being offered. On
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
    // Nobody finds a frame that is being offered. If somebody has made an object for it all the
    // same, that object gets a copy of the frame as it is now.
    // SAFETY: a frame of this thread, at rest. What runs here cannot see the frame.
    unsafe { leave_object(frame.as_ptr()) };
    // The two frames may overlap, so what the old one holds is kept aside. Nothing is
    // counted but values of cells: the references are the same ones.
    let mut held = Held::of(thread, frame)?;
    // SAFETY: the frame is live; what is copied is its fixed part.
    let header: _PyInterpreterFrame = unsafe { frame.as_ptr().read() };
    // SAFETY: the thread's own data stack, and its topmost frame; what it holds is
    // kept aside.
    let place = unsafe {
        DataStack::of(thread.tstate())
            .exchange_top(frame.as_ptr().cast(), Slots::new(new.frame_slots()))
    };
    let Some(place) = place else {
        held.give_back(frame);
        return Err(Raised::no_memory(thread));
    };
    // SAFETY: room for a frame of `new`, on top of this thread's data stack.
    let replaced = unsafe { fill(place.as_ptr().cast(), &header, new) };
    for slot in 0..held.arguments {
        let Some(target) = target_slot(old, new, slot) else { continue };
        // SAFETY: set, and taken once; the slot of the new frame is empty, since the map is one to
        // one.
        unsafe { replaced.slots().add(target).write(held.slots().add(slot).read()) };
    }
    // SAFETY: the thread's own state.
    unsafe {
        let current = &raw mut (*thread.tstate()).current_frame;
        if *current == frame.as_ptr() {
            *current = replaced.as_ptr();
        }
    }
    // What the old frame still holds: cells, free variables, its code. Only now,
    // since destructors may run.
    for slot in held.arguments..held.count {
        // SAFETY: kept here, and looked at no more.
        drop(unsafe { StackSlot::leave(held.slots().add(slot)) });
    }
    // SAFETY: the reference was the old frame's.
    unsafe { decref(old.object()) };
    Ok(replaced)
}

/// Makes a frame at `raw` that runs `new` and is called as the one with `header` was: with empty
/// slots, and hidden, as it is being offered.
///
/// # Safety
/// There is room for the frame, on top of the calling thread's data stack. The references of
/// `header`, but for that to its code, and the one to `new`, are given up.
unsafe fn fill(raw: *mut _PyInterpreterFrame, header: &_PyInterpreterFrame, new: Code) -> Frame {
    // SAFETY: the caller's contract.
    unsafe {
        (&raw mut (*raw).f_executable).write(new.object());
        (&raw mut (*raw).previous).write(header.previous);
        (&raw mut (*raw).f_funcobj).write(header.f_funcobj);
        (&raw mut (*raw).f_globals).write(header.f_globals);
        (&raw mut (*raw).f_builtins).write(header.f_builtins);
        (&raw mut (*raw).f_locals).write(header.f_locals);
        (&raw mut (*raw).frame_obj).write(null_mut());
        (&raw mut (*raw).stacktop).write(new.slots() as i32);
        (&raw mut (*raw).owner).write(header.owner);
        let frame = Frame::new(raw);
        write_empty(frame.slots(), new.slots());
        frame.hide(Stage::Fresh);
        frame
    }
}
