//! Part of `cpython/framehook.h`.

use super::continuation::Continuation;
use super::record::FrameRecord;
use crate::cpython as c;
use crate::cpython::{PyObject, Py_ssize_t};
use crate::object::Owned;
use crate::thread::Thread;
use core::slice;

/// Continues frames that were left elsewhere, as a compiler does where its code
/// cannot continue. `records[0]` is the outermost frame, and each of the others
/// was called by the one before it. Returns what the outermost frame returns, or
/// NULL with the exception that leaves it.
///
/// The innermost frame continues with `value` on its stack, if that is not
/// NULL; if an exception is set, that is raised by the instruction instead. The
/// frames run in the eval loop as if it had called them: the C stack does not
/// grow with their number, each counts for the recursion limit, and tools see
/// them from now on. A frame that continues behind its first RESUME is not
/// dispatched to hooks, and no evaluator of PEP 523 is called for it; what it
/// calls is treated as usual.
///
/// The exception that is being handled (PyErr_GetHandledException()) must be as
/// it was in the innermost frame. If the recursion limit does not allow so many
/// frames, RecursionError is raised in the innermost one.
///
/// `value`, the references in all slots and the exception are consumed, also
/// where nothing runs: ValueError and TypeError for a record that makes no sense
/// or belongs to a generator or coroutine, MemoryError, and RecursionError where
/// the C stack is exhausted. The instructions, stack depths and cells are not
/// checked further.
///
/// # Safety
/// The calling thread has an attached thread state. There are `count` records
/// that keep to the header; `value` is NULL or a reference of the caller's.
#[no_mangle]
pub unsafe extern "C" fn PyUnstable_Frame_Continue(
    records: *const FrameRecord,
    count: Py_ssize_t,
    value: *mut PyObject,
) -> *mut PyObject {
    let count = usize::try_from(count).unwrap_or(0);
    // SAFETY: the caller says that the thread is attached, that there are so many records, and that the references are
    // given away.
    unsafe {
        let thread = Thread::current();
        let records = if count == 0 { &[] } else { slice::from_raw_parts(records, count) };
        let raised = Owned::new(c::PyErr_GetRaisedException());
        Continuation::new(thread, records, Owned::new(value), raised).run()
    }
}
