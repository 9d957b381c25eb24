//! Unhooked calls: no hook is dispatched for the frame of the call.
//!
//! A replacement whose guard has failed calls the original function, and must not be replaced again. A return shim
//! is linked below the frame that makes the call, and identifies the call's frame: the first one of its function directly
//! above. A destructor that runs before it has another function, or is further up. Code that binds the arguments may be
//! the function itself, which is not dispatched then either. A frame that was never dispatched, because there was no
//! hook, leaves the shim as it is: if the function adds a hook and a destructor of its locals is the function
//! itself, that is unhooked as well. A greenlet that is suspended meanwhile keeps its shim with its frames.

use super::c_types::FRAMEHOOK_EXCLUDE_CALLEES;
use super::entry_frame::never_dispatch;
use super::error::Outcome;
use super::list::{behind, enter, leave, Next};
use super::scope::Scope;
use super::shim_code::is_return_shim;
use super::verdict::Request;
use super::watch::owned::OwnedWatch;
use super::watch::{Watch, AT_ROOT, UNHOOKED};
use crate::check::check;
use crate::cpython as c;
use crate::cpython::PyObject;
use crate::frame::{Frame, Owner};
use crate::object::Owned;
use crate::thread::{NotStopped, Thread};
use core::mem::ManuallyDrop;
use core::ptr::{null_mut, NonNull};

/// Adds `by` to the number of calls whose frame has not started: [`is_unhooked`] is a load if there is none.
fn count(thread: Thread, by: i32) {
    // SAFETY: the calling thread's own.
    unsafe { (*thread.own()).unhooked = (*thread.own()).unhooked.wrapping_add_signed(by) };
}

/// The watches of unhooked calls that no frame has made: greenlets and threads begin with them.
fn at_roots(thread: Thread) -> *mut Next<Watch> {
    // SAFETY: live, as the thread's own state is. No reference is made.
    unsafe { (&raw mut (*thread.own()).unhooked_at_roots).cast() }
}

/// Whether the watch is that of a call of `function` whose frame has not started.
fn is_call_of(watch: &Watch, function: *mut PyObject) -> bool {
    watch.has_state(UNHOOKED) && watch.request().data == function.cast()
}

/// Leaves the list of the calls that no frame has made, if it is in that.
#[inline] // or its symbol would be exported
fn leave_roots(watch: &Watch) {
    if watch.has_state(AT_ROOT) {
        watch.set_state(AT_ROOT, false);
        // SAFETY: *member*, it says. *alone*: the list of the calling thread, whose state is live: the call that ends
        // here, or runs, was made with it. If the thread was cleared meanwhile, nothing begins the list, and those in
        // it still lead to each other.
        unsafe { leave(watch) };
    }
}

/// The unhooked call of `function` that `frame` has made, if its own frame has not started.
fn call_by(frame: Frame, function: *mut PyObject, quiet: &NotStopped) -> Option<&Watch> {
    frame.callers().map_while(|it| Watch::at(it, quiet)).find(|watch| is_call_of(watch, function))
}

/// The unhooked call whose frame this is. The search ends at a shim, where a frame has ended: a frame that a callback or
/// a destructor starts there belongs to none of the calls further down.
fn call_with_frame(frame: Frame, quiet: &NotStopped) -> Option<&Watch> {
    for caller in frame.callers() {
        let call = call_by(caller, frame.function(), quiet);
        if call.is_some() || caller.owner() != Owner::C_STACK || is_return_shim(caller) {
            return call;
        }
    }
    call_at_root(frame.function(), quiet)
}

/// The same of a call that no frame has made, on this stack.
fn call_at_root(function: *mut PyObject, quiet: &NotStopped) -> Option<&Watch> {
    // SAFETY: the calling thread's own list. Those in it are live until their calls end, which is not before `quiet` is
    // over; each knows its stack since it was added to the list.
    unsafe {
        let mut at = at_roots(quiet.thread()).read();
        while let Some(watch) = at.map(|it| it.as_ref()) {
            if is_call_of(watch, function) && Scope::is_here(watch.scope.get(), quiet.thread()) {
                return Some(watch);
            }
            at = behind(watch);
        }
    }
    None
}

/// Whether this is the frame of an unhooked call. True once for each call.
pub fn is_unhooked(thread: Thread, frame: Frame) -> bool {
    // SAFETY: the calling thread's own.
    if unsafe { (*thread.own()).unhooked } == 0 {
        return false;
    }
    // SAFETY: *quiet*: frames are walked, and fields of the watch are written.
    let quiet = unsafe { thread.not_stopped() };
    let Some(call) = call_with_frame(frame, &quiet) else { return false };
    call.set_state(UNHOOKED, false);
    leave_roots(call);
    count(thread, -1);
    never_dispatch(frame);
    true
}

/// An unhooked call in progress. It ends when this is dropped.
///
/// # Invariants
/// The watch ends with this. Between two runs of foreign code the thread's current frame is the one that it was when this
/// began: its shim lies below that, or it was in the list of those that no frame has made.
struct UnhookedCall {
    thread: Thread,
    watch: ManuallyDrop<OwnedWatch>,
}

impl UnhookedCall {
    /// No hook is dispatched for the frame of the call that is made now, which runs `function`, if that is
    /// not NULL; nor for its callees, if `callees`.
    ///
    /// The shim lies below the thread's current frame, which makes the call, and not above it: CPython
    /// has functions that use whatever frame is the current one. If no frame calls, the watch is
    /// in a list of the thread's until the call's frame starts, and has the root of the stack.
    fn begin(thread: Thread, function: *mut PyObject, callees: bool) -> Outcome<Self> {
        let scope = if callees { FRAMEHOOK_EXCLUDE_CALLEES } else { 0 };
        let request = Request { data: function.cast(), events: 0, scope };
        let watch = OwnedWatch::new(thread, None, request, &raw mut c::_Py_NoneStruct)?;
        watch.set_state(UNHOOKED, !function.is_null());
        if let Some(caller) = thread.current_frame() {
            watch.insert_below(caller);
        } else if !function.is_null() {
            watch.set_state(AT_ROOT, true);
            // SAFETY: the scope is in no list. *alone*: the list is the thread's own. *stays*: in no list, and it leaves
            // this one in `leave_roots`, before it ends.
            unsafe {
                Scope::set_stack(watch.scope.get(), thread);
                enter(at_roots(thread), NonNull::from(&*watch));
            }
        }
        if callees {
            watch.begin_scope(thread, None);
        }
        count(thread, (!function.is_null()).into());
        Ok(UnhookedCall { thread, watch: ManuallyDrop::new(watch) })
    }
}

impl Drop for UnhookedCall {
    #[inline] // or its symbol would be exported
    fn drop(&mut self) {
        let (thread, watch) = (self.thread, &self.watch);
        count(thread, -i32::from(watch.has_state(UNHOOKED)));
        watch.end_scope();
        leave_roots(watch);
        if let Some(caller) = thread.current_frame() {
            let shim = watch.shim();
            check!(caller.previous() == Some(shim), "the shim of an unhooked call lies elsewhere");
            caller.lead_where(shim);
            shim.unlink();
        }
        // SAFETY: taken once, as this is dropped. *out*: it has left its lists, and its shim was
        // taken out above.
        unsafe { ManuallyDrop::take(&mut self.watch).end(thread) };
    }
}

/// The Python function that a call of this object runs; NULL: unknown.
///
/// # Safety
/// `callable` is live.
unsafe fn function_of(callable: *mut PyObject) -> *mut PyObject {
    // SAFETY: the caller says that `callable` is live. An object of the type of methods has their
    // layout.
    unsafe {
        let is_method = (*callable).ob_type == &raw mut c::PyMethod_Type;
        let function =
            if is_method { (*callable.cast::<c::PyMethodObject>()).im_func } else { callable };
        if (*function).ob_type == &raw mut c::PyFunction_Type {
            function
        } else {
            null_mut()
        }
    }
}

/// Calls a function without dispatching hooks for its frame; with `callees`, nor for its callees.
///
/// # Safety
/// As for `PyObject_Vectorcall`.
pub unsafe fn call(
    thread: Thread,
    callable: *mut PyObject,
    arguments: *const *mut PyObject,
    number: usize,
    names: *mut PyObject,
    callees: bool,
) -> Outcome<Option<Owned>> {
    // SAFETY: live, as the caller says. The function is compared with others, and not read through.
    let unhooked = UnhookedCall::begin(thread, unsafe { function_of(callable) }, callees)?;
    // SAFETY: the caller says what `PyObject_Vectorcall` needs: the callable, the arguments and the
    // names are live.
    let result = unsafe { Owned::new(c::PyObject_Vectorcall(callable, arguments, number, names)) };
    drop(unhooked);
    Ok(result)
}
