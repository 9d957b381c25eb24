//! A frame of any owner, and what its fields mean.

use super::slots::slot_with;
use crate::check::check;
use crate::code::Code;
use crate::cpython as c;
use crate::cpython::{_PyInterpreterFrame, PyFrameObject, PyObject};
use crate::object::Owned;
use crate::stack_ref::{StackRef, StackRefBorrow, StackSlot, Untagged};
use core::ffi::c_char;
use core::ptr::{null_mut, NonNull};
use core::sync::atomic::{compiler_fence, Ordering};

/// Whose memory a frame lies in.
#[derive(Clone, Copy, PartialEq)]
pub struct Owner(c_char);

impl Owner {
    /// A thread's data stack.
    pub const THREAD: Self = Owner(c::FRAME_OWNED_BY_THREAD);
    /// A generator, coroutine or asynchronous generator.
    pub const GENERATOR: Self = Owner(c::FRAME_OWNED_BY_GENERATOR);
    /// A frame object, whose call is over.
    pub const FRAME_OBJECT: Self = Owner(c::FRAME_OWNED_BY_FRAME_OBJECT);
    /// The C stack: the shim at the bottom of an eval loop, or a return shim. It has no code.
    pub const C_STACK: Self = Owner(c::FRAME_OWNED_BY_CSTACK);
}

/// The first slot of a frame: where C's flexible array begins. There always is one, used or not.
///
/// # Safety
/// `frame` points to a frame, or to memory for one.
#[inline(always)]
pub unsafe fn first_slot(frame: *mut _PyInterpreterFrame) -> *mut StackSlot {
    // SAFETY: within the frame.
    unsafe { (&raw mut (*frame).localsplus).cast() }
}

/// A frame.
///
/// # Invariants
/// Points to a `_PyInterpreterFrame` whose fields are set, and that the calling thread alone works
/// on: its own, or with every other thread stopped. A frame of the C stack runs no code of its own: of
/// the fields below `previous` those are set that its creator reads, and `code` must not be called.
///
/// *Given up with the frame*: the `leave_*` methods take a reference out and leave the field's word in
/// place. Their caller says that the frame owned the reference and that nothing reads the field as a
/// reference any more: the frame is unlinked, so samplers and debuggers do not find it, and it has no
/// frame object, so the collector does not either.
///
/// *Not a borrow*: the type is `Copy` and has no lifetime, since no Rust value represents that of a frame: it ends where
/// the eval loop clears it, or a callback lets it end. So methods read and write one field each, and lend nothing, but
/// for `held`, whose caller vouches for the slot. A caller that runs foreign code knows why the frame is still there:
/// it is the thread's current frame or below it, or the caller holds a reference to its generator or frame object.
#[derive(Clone, Copy, PartialEq)]
#[repr(transparent)]
pub struct Frame(NonNull<_PyInterpreterFrame>);

impl Frame {
    /// # Safety
    /// `frame` is as the type's invariant says for as long as the result is used.
    #[inline(always)]
    pub unsafe fn new(frame: *mut _PyInterpreterFrame) -> Self {
        // SAFETY: the caller passes a frame, which is not NULL.
        Frame(unsafe { NonNull::new_unchecked(frame) })
    }

    /// `None` of NULL.
    ///
    /// # Safety
    /// NULL, or as the type's invariant says.
    #[inline(always)]
    pub unsafe fn or_none(frame: *mut _PyInterpreterFrame) -> Option<Self> {
        NonNull::new(frame).map(Frame)
    }

    #[inline(always)]
    pub fn as_ptr(self) -> *mut _PyInterpreterFrame {
        self.0.as_ptr()
    }

    #[inline(always)]
    pub fn owner(self) -> Owner {
        // SAFETY: live by the type's invariant.
        Owner(unsafe { (*self.as_ptr()).owner })
    }

    #[inline(always)]
    pub fn set_owner(self, owner: Owner) {
        // SAFETY: live by the type's invariant.
        unsafe { (*self.as_ptr()).owner = owner.0 };
    }

    /// Whether the frame belongs to a call in progress or to a generator.
    #[cfg(ferrule_checks)]
    pub fn belongs_to_a_call(self) -> bool {
        self.owner() == Owner::THREAD || self.owner() == Owner::GENERATOR
    }

    /// The code, which the frame holds. The frame is not on the C stack.
    #[inline(always)]
    pub fn code(self) -> Code {
        check!(self.owner() != Owner::C_STACK, "the code of a frame without code is read");
        // SAFETY: live by the type's invariant. Such a frame runs a code object.
        unsafe { Code::new((*self.as_ptr()).f_executable.cast()) }
    }

    /// The instruction that runs, or is to run next.
    #[inline(always)]
    pub fn instruction(self) -> *mut c::_Py_CODEUNIT {
        // SAFETY: live by the type's invariant.
        unsafe { (*self.as_ptr()).instr_ptr }
    }

    #[inline(always)]
    pub fn set_instruction(self, next: *mut c::_Py_CODEUNIT) {
        // SAFETY: live by the type's invariant. Who reads through it is the eval loop.
        unsafe { (*self.as_ptr()).instr_ptr = next };
    }

    /// How many bytes lie between the first instruction and the one that runs or is to run.
    #[inline(always)]
    pub fn instruction_offset(self) -> isize {
        let (first, current) = (self.code().first_instruction(), self.instruction());
        (current as isize).wrapping_sub(first as isize)
    }

    /// Whether the frame has not come to its first `RESUME`: its cells may not be there yet, or its
    /// generator. Such a frame is never visible. Frames in generators never are
    /// incomplete, those on the C stack always.
    #[inline(always)]
    pub fn is_incomplete(self) -> bool {
        if self.owner() == Owner::C_STACK {
            return true;
        }
        if self.owner() == Owner::GENERATOR {
            return false;
        }
        self.instruction() < self.code().first_resume()
    }

    /// Takes the frame for one that has just come to its first `RESUME`.
    #[inline(always)]
    pub fn pretend_it_resumed(self) {
        // SAFETY: an instruction follows the first `RESUME`.
        self.set_instruction(unsafe { self.code().first_resume().add(1) });
    }

    /// This frame, or the first one below it that is complete.
    #[inline(always)]
    pub fn first_complete(self) -> Option<Frame> {
        let mut frame = self;
        while frame.is_incomplete() {
            frame = frame.previous()?;
        }
        Some(frame)
    }

    /// The frame that called this one.
    #[inline(always)]
    pub fn previous(self) -> Option<Frame> {
        // SAFETY: live by the type's invariant; who is linked is a frame.
        unsafe { Frame::or_none((*self.as_ptr()).previous) }
    }

    /// The frames below this one, the innermost first.
    #[inline(always)]
    pub fn callers(self) -> Frames {
        Frames(self.previous())
    }

    /// From now on this frame leads where `other` leads.
    #[inline(always)]
    pub fn lead_where(self, other: Frame) {
        // SAFETY: live by the type's invariant.
        self.set_previous(unsafe { (*other.as_ptr()).previous });
    }

    /// From now on this frame leads to `previous`, a frame or NULL, whose fields are in memory
    /// first: see [`Thread::set_current_frame`](crate::thread::Thread::set_current_frame).
    #[inline(always)]
    pub fn set_previous(self, previous: *mut _PyInterpreterFrame) {
        compiler_fence(Ordering::Release);
        // SAFETY: live by the type's invariant.
        unsafe { (*self.as_ptr()).previous = previous };
    }

    #[inline(always)]
    pub fn unlink(self) {
        self.set_previous(null_mut());
    }

    #[inline(always)]
    pub fn first_slot(self) -> *mut StackSlot {
        // SAFETY: live by the type's invariant.
        unsafe { first_slot(self.as_ptr()) }
    }

    /// What slot `i` refers to.
    ///
    /// # Safety
    /// The slot is one of the frame's and is set. It keeps its reference while the borrow lives.
    #[inline(always)]
    pub unsafe fn held(&self, i: usize) -> Option<StackRefBorrow<'_>> {
        // SAFETY: the caller says that slot `i` is one of the frame's and set. No other thread writes
        // it (the type's invariant), and the caller keeps its reference for the borrow.
        unsafe { StackSlot::peek(self.first_slot().add(i)) }
    }

    /// How many slots hold something or are known to be empty: none while the frame executes.
    #[inline(always)]
    pub fn slots_in_use(self) -> usize {
        // SAFETY: live by the type's invariant.
        let top = unsafe { (*self.as_ptr()).stacktop };
        if top > 0 {
            top as usize
        } else {
            0
        }
    }

    /// The number of slots in use of a frame that does not execute. For such a frame this is what
    /// [`slots_in_use`](Self::slots_in_use) says, without its test.
    #[inline(always)]
    pub fn slots_at_rest(self) -> usize {
        // SAFETY: live by the type's invariant.
        let top = unsafe { (*self.as_ptr()).stacktop };
        check!(top >= 0, "a frame that executes is taken for one at rest");
        top as u32 as usize
    }

    /// Whether the frame has given up its slots, as at the end of its call.
    pub fn is_cleared(self) -> bool {
        // SAFETY: live by the type's invariant.
        unsafe { (*self.as_ptr()).stacktop == 0 }
    }

    /// Puts a value onto the stack of a frame at rest.
    ///
    /// # Safety
    /// The frame has a slot after those in use.
    #[inline(always)]
    pub unsafe fn push(self, value: Owned) {
        let top = self.slots_at_rest();
        // SAFETY: the caller says that this slot is the frame's. It is not in use, so no reference is
        // overwritten, and no other thread or collector reads it before `stacktop` includes it.
        unsafe {
            self.first_slot().add(top).write(slot_with(Some(value)));
            (*self.as_ptr()).stacktop = top as i32 + 1;
        }
    }

    /// From now on the frame has no slot in use.
    #[inline(always)]
    pub fn forget_slots(self) {
        // SAFETY: live by the type's invariant.
        unsafe { (*self.as_ptr()).stacktop = 0 };
    }

    /// The frame's object, borrowed, or NULL.
    #[inline(always)]
    pub fn object(self) -> *mut PyFrameObject {
        // SAFETY: live by the type's invariant.
        unsafe { (*self.as_ptr()).frame_obj }
    }

    /// Takes the reference to the frame's object out.
    ///
    /// # Safety
    /// The frame has an object.
    #[inline(always)]
    pub unsafe fn take_object(self) -> StackRef<Untagged> {
        // SAFETY: live by the type's invariant. The frame owned the reference, which the caller says is
        // not NULL, and the field is NULL before anything can run.
        unsafe {
            let object = NonNull::new_unchecked(self.object());
            (*self.as_ptr()).frame_obj = null_mut();
            StackRef::steal(object.cast())
        }
    }

    /// The locals of a module, a class, or `exec`, borrowed, or NULL.
    #[inline(always)]
    pub fn locals(self) -> *mut PyObject {
        // SAFETY: live by the type's invariant.
        unsafe { (*self.as_ptr()).f_locals }
    }

    /// Takes the reference to these locals out, if there are any.
    ///
    /// # Safety
    /// The frame owns the reference in the field, if that is not NULL.
    #[inline(always)]
    pub unsafe fn take_locals(self) -> Option<StackRef<Untagged>> {
        // SAFETY: live by the type's invariant. The caller says that the frame owned the reference, and
        // the field is NULL before a destructor or the collector can read it.
        unsafe {
            let locals = NonNull::new(self.locals());
            (*self.as_ptr()).f_locals = null_mut();
            locals.map(|it| StackRef::steal(it))
        }
    }

    /// Takes the reference to these locals out of a frame that ends, if there are any. The field
    /// keeps its word.
    ///
    /// # Safety
    /// The frame owns the reference, and nothing treats the field as filled from now on.
    #[inline(always)]
    pub unsafe fn leave_locals(self) -> Option<StackRef<Untagged>> {
        // SAFETY: *given up with the frame*.
        NonNull::new(self.locals()).map(|it| unsafe { StackRef::steal(it) })
    }

    /// The function, borrowed, or NULL.
    #[inline(always)]
    pub fn function(self) -> *mut PyObject {
        // SAFETY: live by the type's invariant.
        unsafe { (*self.as_ptr()).f_funcobj }
    }

    /// Takes the reference to the code out of a frame that ends. The field keeps its word, as with
    /// the function.
    ///
    /// # Safety
    /// The frame owns the reference, and nothing treats the field as filled from now on.
    #[inline(always)]
    pub unsafe fn leave_code(self) -> StackRef<Untagged> {
        // SAFETY: live by the type's invariant. *Given up with the frame*; a frame that is not on the C
        // stack has a code object.
        unsafe { StackRef::steal(NonNull::new_unchecked((*self.as_ptr()).f_executable)) }
    }

    /// Takes the reference to the function, which is never NULL, out of a frame that ends. The
    /// field keeps its word: that saves a write on every return.
    ///
    /// # Safety
    /// The frame owns the reference, and nothing treats the field as filled from now on.
    #[inline(always)]
    pub unsafe fn leave_function(self) -> StackRef<Untagged> {
        // SAFETY: *given up with the frame*; a frame that is not on the C stack has a function.
        unsafe { StackRef::steal(NonNull::new_unchecked(self.function())) }
    }
}

/// This frame, if any, and those below it, the innermost first.
pub struct Frames(pub Option<Frame>);

impl Iterator for Frames {
    type Item = Frame;

    #[inline(always)]
    fn next(&mut self) -> Option<Frame> {
        let frame = self.0?;
        self.0 = frame.previous();
        Some(frame)
    }
}
