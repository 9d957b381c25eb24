//! Other code for a frame that has not run yet.
//!
//! Before the first instruction only the arguments are set, so the new frame may differ: more locals, other cells,
//! another stack size. Four steps: the old frame's references are taken out of it; a frame for the other code is made
//! in its place on the data stack; the arguments are stored into it by name and kind; and what is left over is
//! released.

use super::entry_frame::{EntryFrame, NewFrame};
use super::error::{Outcome, Raised};
use super::once_cell::incompatible_code_error;
use super::parameter_map::{Names, ParameterMap};
use super::return_offset::Stage;
use super::view::unbound;
use crate::code::Code;
use crate::cpython as c;
use crate::cpython::{_PyInterpreterFrame, PyObject};
use crate::data_stack::{DataStack, Slots};
use crate::frame::{_PyFrame_Initialize, leave_object, slot_with, Frame};
use crate::reference_count::decref;
use crate::stack_ref::StackSlot;
use crate::thread::Thread;
use core::ffi::{c_char, CStr};
use core::mem::MaybeUninit;
use core::ptr::NonNull;

/// Flags that must be the same: what kind of object a call returns, and where
/// locals live.
const KIND_FLAGS: u32 = c::CO_GENERATOR
    | c::CO_COROUTINE
    | c::CO_ASYNC_GENERATOR
    | c::CO_ITERABLE_COROUTINE
    | c::CO_OPTIMIZED
    | c::CO_NEWLOCALS;

/// The names of the parameters of two code objects.
struct NamesOf {
    old: Code,
    new: Code,
}

impl Names for NamesOf {
    #[inline] // or its symbol would be exported, as of the next one
    fn is_same(&self, slot: usize, other: usize) -> bool {
        same_name(self.old.slot_name(slot), self.new.slot_name(other))
    }

    #[inline]
    fn is_alike(&self, slot: usize, other: usize) -> bool {
        same_name(self.old.slot_name(slot), self.old.slot_name(other))
    }
}

/// Which parameter of `new` gets which argument of `old`. Both have the same number of positional
/// parameters, and of keyword-only ones.
fn map_of(old: Code, new: Code) -> ParameterMap<NamesOf> {
    let parameters = old.parameters();
    ParameterMap {
        positional: parameters.positional,
        named: parameters.named(),
        names: NamesOf { old, new },
    }
}

/// Whether two strings are equal. Names in code objects are interned, so equal
/// ones are nearly always the same.
#[inline] // or its symbol would be exported
fn same_name(one: *mut PyObject, other: *mut PyObject) -> bool {
    // SAFETY: two strings.
    one == other || unsafe { c::PyUnicode_Compare(one, other) } == 0
}

/// Why `new` cannot run in the place of `old`; `None`: it can.
pub fn incompatibility(old: Code, new: Code) -> Option<&'static CStr> {
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
    let map = map_of(old, new);
    if (0..before.count()).any(|slot| map.target(slot).is_none()) {
        return Some(c"its parameters have other names");
    }
    if !map.is_one_to_one() {
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
            new.as_object(),
            old.as_object(),
            why.as_ptr(),
        );
    }
    Raised::by_cpython(thread)
}

/// The contents of a frame's slots, taken out of it. The values of its arguments come first. After them, in no
/// order, are those of all other slots: above all the cells and free variables that its prologue has stored there.
///
/// Dropping this releases none of them. An argument that is in a cell is held by a new reference. All
/// other slots are copies of the frame's, which keeps them if the exchange fails.
struct Taken {
    few: [MaybeUninit<StackSlot>; Taken::FEW],
    many: Option<NonNull<StackSlot>>,
    arguments: usize,
    count: usize,
}

impl Taken {
    /// So many need no allocation.
    const FEW: usize = 24;

    /// `UnboundLocalError` if an argument has lost its value, `MemoryError` without memory. Then
    /// nothing is taken.
    fn from(thread: Thread, frame: &EntryFrame) -> Outcome<Self> {
        let arguments = frame.code().parameters().count();
        let in_use = frame.slots_at_rest();
        // SAFETY: so many slots are in use.
        let content = |slot: usize| unsafe { frame.first_slot().add(slot).read() };
        let cells = || (0..arguments).filter(|&slot| frame.look().has_cell_at(slot));
        let others = || (arguments..in_use).filter(|&slot| !content(slot).is_empty());
        let mut taken = Taken::with_room(arguments + cells().count() + others().count())
            .ok_or_else(|| Raised::no_memory(thread))?;
        for slot in 0..arguments {
            let value = if frame.look().has_cell_at(slot) {
                slot_with(frame.look().argument(slot))
            } else {
                content(slot)
            };
            if value.is_empty() {
                taken.give_back(frame);
                return Err(unbound(thread, frame.code(), slot));
            }
            taken.push(value);
        }
        taken.arguments = arguments;
        cells().chain(others()).for_each(|slot| taken.push(content(slot)));
        Ok(taken)
    }

    /// Has taken nothing yet. `None` without memory.
    fn with_room(count: usize) -> Option<Self> {
        let few = [const { MaybeUninit::uninit() }; Taken::FEW];
        let mut taken = Taken { few, many: None, arguments: 0, count: 0 };
        if count > Taken::FEW {
            // SAFETY: the raw allocator takes any size; a frame's fits.
            let block = unsafe { c::PyMem_RawMalloc(count * size_of::<StackSlot>()) };
            taken.many = Some(NonNull::new(block.cast())?);
        }
        Some(taken)
    }

    /// Where they are; those before `count` are set.
    fn slots(&mut self) -> *mut StackSlot {
        self.many.map_or(self.few.as_mut_ptr().cast(), NonNull::as_ptr)
    }

    /// Appends a slot's content. There is room.
    fn push(&mut self, content: StackSlot) {
        // SAFETY: `from` has counted before.
        unsafe { self.slots().add(self.count).write(content) };
        self.count += 1;
    }

    /// Leaves the frame as it was. Only the new references to values of cells are released. Each
    /// cell still has its value, so no destructor runs.
    fn give_back(mut self, frame: &EntryFrame) {
        let known = self.count.min(frame.code().parameters().count());
        for slot in (0..known).filter(|&slot| frame.look().has_cell_at(slot)) {
            // SAFETY: set, and looked at no more.
            drop(unsafe { StackSlot::leave(self.slots().add(slot)) });
        }
    }

    /// Moves the arguments, which were those of a frame of `old`, into a new frame.
    fn place(&mut self, old: Code, made: &EntryFrame) {
        let map = map_of(old, made.code());
        for slot in 0..self.arguments {
            let Some(target) = map.target(slot) else { continue };
            // SAFETY: set, and taken once; the slot of the new frame is empty, since the map is one
            // to one.
            unsafe { made.first_slot().add(target).write(self.slots().add(slot).read()) };
        }
    }

    /// Releases what the new frame has no slot for: cells and free variables. Destructors may run.
    fn close(mut self) {
        for slot in self.arguments..self.count {
            // SAFETY: kept here, and looked at no more.
            drop(unsafe { StackSlot::leave(self.slots().add(slot)) });
        }
    }
}

impl Drop for Taken {
    #[inline]
    fn drop(&mut self) {
        if let Some(block) = self.many {
            // SAFETY: allocated in `with_room`.
            unsafe { c::PyMem_RawFree(block.as_ptr().cast()) };
        }
    }
}

/// Replaces `frame` by one that runs `new`, still being dispatched. On
/// failure nothing has changed.
///
/// `name` is the hook's, for the message.
///
/// # Safety
/// `frame` is being dispatched in this thread, and the caller holds a reference to `new`.
pub unsafe fn replace(
    thread: Thread,
    frame: &mut EntryFrame,
    new: Code,
    name: *const c_char,
) -> Outcome<()> {
    let old = frame.code();
    if let Some(why) = incompatibility(old, new) {
        return Err(refuse(thread, name, old, new, why));
    }
    // Frame walkers skip a frame that is being dispatched. If it has a frame object all the same, that gets a copy of
    // the frame as it is now.
    // SAFETY: a frame of this thread, at rest. What runs here cannot see the frame.
    unsafe { leave_object(**frame) };
    let mut taken = Taken::from(thread, frame)?;
    // SAFETY: what the frame holds is taken.
    let Some(made) = (unsafe { remake(thread, frame, new) }) else {
        taken.give_back(frame);
        return Err(Raised::no_memory(thread));
    };
    taken.place(old, &made);
    *frame = made;
    // Destructors may run from here on: the frame is whole again.
    taken.close();
    // SAFETY: the reference was the old frame's.
    unsafe { decref(old.as_object()) };
    Ok(())
}

/// Makes a frame that runs `new` where `frame` is, for the same call, hidden and with empty slots.
/// `None` without memory; then nothing has changed.
///
/// # Safety
/// `frame` is being dispatched in this thread. The references in its slots and the one to its code are
/// the caller's from now on.
unsafe fn remake(thread: Thread, frame: &EntryFrame, new: Code) -> Option<EntryFrame> {
    // SAFETY: the thread's own state, and its topmost frame. The two frames may overlap, so fields that stay are read
    // before.
    let (old, is_current): (_PyInterpreterFrame, bool) =
        unsafe { (frame.as_ptr().read(), (*thread.tstate()).current_frame == frame.as_ptr()) };
    // A signal handler that walks frames here finds neither the old one nor a half of the new.
    if is_current {
        // SAFETY: the frame below is live.
        unsafe { thread.set_current_frame(old.previous) };
    }
    let initialize = |place: NonNull<StackSlot>| {
        let made: *mut _PyInterpreterFrame = place.as_ptr().cast();
        // SAFETY: memory for a frame of this code, at the top of the data stack. The reference to the function moves,
        // and that to the locals.
        unsafe {
            _PyFrame_Initialize(made, old.f_funcobj.cast(), old.f_locals, new.as_ptr(), 0);
            let made = Frame::new(made);
            made.set_previous(old.previous);
            NewFrame::new(made).hide(Stage::Fresh)
        }
    };
    // SAFETY: the thread's own data stack, and its topmost frame.
    let made = unsafe {
        DataStack::of(thread.tstate())
            .exchange_top(frame.as_ptr().cast(), Slots::new(new.frame_slots()))
            .map(|place| initialize(place.cast()))
    };
    if is_current {
        // SAFETY: the new frame is whole, or the old one as it was.
        unsafe {
            thread.set_current_frame(made.as_ref().map_or(frame.as_ptr(), |made| made.as_ptr()));
        }
    }
    made
}
