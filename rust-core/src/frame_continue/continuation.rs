//! A chain of frames from its records to its result.

use super::chain::{Filled, Memory};
use super::entry::{evaluate, has_c_stack, Entry};
use super::record::{FrameRecord, Place, Refusal};
use crate::cpython as c;
use crate::cpython::PyObject;
use crate::exception::drop_aside;
use crate::object::Owned;
use crate::thread::Thread;
use core::ptr::null_mut;

/// What is to continue.
///
/// # Invariants
/// The records keep to their documentation, as far as they are not refused. The references in their slots are this
/// one's.
pub struct Continuation<'a> {
    thread: Thread,
    records: &'a [FrameRecord],
    value: Option<Owned>,
    raised: Option<Owned>,
}

impl<'a> Continuation<'a> {
    /// # Safety
    /// As the invariant says.
    pub unsafe fn new(
        thread: Thread,
        records: &'a [FrameRecord],
        value: Option<Owned>,
        raised: Option<Owned>,
    ) -> Self {
        // An exception takes the place of a value.
        let value = if raised.is_some() { None } else { value };
        // INVARIANT: the caller says so.
        Continuation { thread, records, value, raised }
    }

    /// The result of the outermost frame, or NULL with an exception set.
    pub fn run(mut self) -> *mut PyObject {
        // First, since what is given up may run any code.
        self.respect_recursion_limit();
        let mut memory = Memory::none(self.thread);
        if let Err(refusal) = self.prepare(&mut memory) {
            memory.give_back();
            return self.refused(refusal);
        }
        let (value, raised) = (self.value.take(), self.raised.take());
        // SAFETY: all records were checked, and the memory was pushed for them. The references are given away.
        let Some(chain) = (unsafe { Filled::new(memory, self.records) }) else { return null_mut() };
        // SAFETY: the innermost frame has room for a value if there is one, which was checked.
        let ahead = unsafe { chain.place(value, raised.is_some()) };
        let (innermost, outermost) = (chain.innermost, chain.outermost);
        let raised = raised.map_or(null_mut(), Owned::into_raw);
        let entry = Entry { innermost, outermost, raised, ahead, frames: self.records.len() };
        // SAFETY: complete frames, linked to each other alone. The code was instrumented when the thread could be
        // stopped for the last time. There is C stack, and no exception is set.
        unsafe { evaluate(self.thread, entry) }
    }

    /// Checks all records, and pushes memory for their frames, the outermost first.
    fn prepare(&self, memory: &mut Memory) -> Result<(), Refusal> {
        if self.records.is_empty() {
            return Err(Refusal::Value(c"there is no frame to continue"));
        }
        if !has_c_stack(self.thread) {
            return Err(Refusal::CStack);
        }
        let mut inner = self.records.len();
        for record in self.records {
            inner -= 1;
            let is_innermost = inner == 0;
            let place = Place { is_innermost, gets_value: !is_innermost || self.value.is_some() };
            // SAFETY: the type's invariant.
            let code = unsafe { record.checked(place) }?;
            memory.push(code).ok_or(Refusal::Memory)?;
        }
        // Another thread may run meanwhile and add tools, so no code may be left that was not looked at since.
        while memory.instrument()? {}
        Ok(())
    }

    /// Raises RecursionError in the innermost frame if there are more frames than the limit allows.
    fn respect_recursion_limit(&mut self) {
        // SAFETY: the thread's own field.
        let remaining = unsafe { (*self.thread.tstate()).py_recursion_remaining };
        if self.raised.is_some() || self.records.len() <= usize::try_from(remaining).unwrap_or(0) {
            return;
        }
        self.value = None;
        // SAFETY: attached, says the `Thread`; no exception is set.
        unsafe {
            Refusal::CStack.raise();
            self.raised = Owned::new(c::PyErr_GetRaisedException());
        }
    }

    /// Raises why nothing runs, and gives all references up.
    fn refused(self, refusal: Refusal) -> *mut PyObject {
        // SAFETY: attached, says the `Thread`, and without a lock. An exception that was to be raised becomes the context
        // of this one.
        unsafe {
            refusal.raise();
            if let Some(raised) = self.raised {
                c::_PyErr_ChainExceptions1(raised.into_raw());
            }
            drop_aside(self.value);
        }
        for record in self.records {
            // SAFETY: the type's invariant; no frame has taken the references.
            unsafe { record.give_up_slots() };
        }
        null_mut()
    }
}
