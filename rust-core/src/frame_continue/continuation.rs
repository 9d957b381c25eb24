//! A chain of frames from its records to its result.

use super::chain::{Filled, Memory};
use super::counts::Counts;
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
        // INVARIANT: the caller says so.
        Continuation { thread, records, value, raised }
    }

    /// The result of the outermost frame, or NULL with an exception set.
    pub fn run(mut self) -> *mut PyObject {
        self.respect_recursion_limit();
        // Before any code runs: what is given up may give a function other code.
        // SAFETY: the type's invariant.
        let counts = unsafe { Counts::of(self.records) };
        let mut memory = Memory::none(self.thread);
        let prepared = match counts {
            Some(_) => self.prepare(&mut memory),
            None => Err(Refusal::Memory),
        };
        if let Err(refusal) = prepared {
            memory.give_back();
            return self.refused(refusal, counts);
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

    /// Checks all records, and pushes memory for their frames, the outermost first. That memory holds the code of each, so
    /// no code runs before it is complete.
    fn prepare(&mut self, memory: &mut Memory) -> Result<(), Refusal> {
        if self.records.is_empty() {
            return Err(Refusal::Value(c"there is no frame to continue"));
        }
        if !has_c_stack(self.thread) {
            return Err(Refusal::CStack);
        }
        let has_value = self.value.is_some() && self.raised.is_none();
        let mut inner = self.records.len();
        for record in self.records {
            inner -= 1;
            let is_innermost = inner == 0;
            let place = Place { is_innermost, gets_value: !is_innermost || has_value };
            // SAFETY: the type's invariant.
            let code = unsafe { record.checked(place) }?;
            memory.push(code).ok_or(Refusal::Memory)?;
        }
        if !has_value {
            // An exception takes its place.
            self.value = None;
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
        // SAFETY: attached, says the `Thread`; no exception is set.
        unsafe {
            Refusal::CStack.raise();
            self.raised = Owned::new(c::PyErr_GetRaisedException());
        }
    }

    /// Raises why nothing runs, and gives all references up. Without memory for the counts they are counted one by one.
    fn refused(self, refusal: Refusal, counts: Option<Counts>) -> *mut PyObject {
        // SAFETY: attached, says the `Thread`, and without a lock. An exception that was to be raised becomes the context
        // of this one.
        unsafe {
            refusal.raise();
            if let Some(raised) = self.raised {
                c::_PyErr_ChainExceptions1(raised.into_raw());
            }
            drop_aside(self.value);
        }
        let mut counts = counts;
        let mut known = counts.as_mut().map_or(&[][..], Counts::as_slice).iter();
        for record in self.records {
            // SAFETY: the type's invariant; no frame has taken the references.
            unsafe {
                let count = known.next().map_or_else(|| record.references(), |count| *count);
                record.give_up_slots(count);
            }
        }
        null_mut()
    }
}
