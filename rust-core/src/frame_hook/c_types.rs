//! The types and constants of `cpython/framehook.h`, with their documentation there.

use crate::cpython::{_PyInterpreterFrame, PyCodeObject, PyObject};
use core::ffi::{c_char, c_int, c_longlong, c_uint, c_void};
use core::ptr::null_mut;

/// The version of this interface, as PyUnstable_FrameHook_Version() returns
/// it.
pub const FRAMEHOOK_VERSION: c_int = 1;

/// The id of an installed hook: a positive number that an interpreter never
/// uses again.
pub type FrameHookId = c_longlong;

/// Verdict of an entry callback: the call fails with the exception that is
/// set.
pub const FRAMEHOOK_ERROR: c_int = -1;
/// Verdict: the frame runs unchanged.
pub const FRAMEHOOK_PASS: c_int = 0;
/// Verdict: the code in `object` runs instead, with the same arguments.
pub const FRAMEHOOK_REPLACE: c_int = 1;
/// Verdict: the frame runs unchanged, and the hook is disabled for this code
/// object in all threads.
pub const FRAMEHOOK_DISABLE: c_int = 2;
/// Verdict: nothing runs; the call returns `object`.
pub const FRAMEHOOK_RESULT: c_int = 3;

/// Event of an answer: the frame returns, raises or is dropped. Exactly one of
/// the three is delivered.
pub const FRAMEHOOK_ON_EXIT: c_uint = 1;
/// Event of an answer: the frame is suspended by a yield or an await.
pub const FRAMEHOOK_ON_YIELD: c_uint = 2;
/// Event of an answer: the suspended frame is resumed.
pub const FRAMEHOOK_ON_RESUME: c_uint = 4;

/// Scope of an answer: the hook is not called for callees of the frame.
pub const FRAMEHOOK_EXCLUDE_CALLEES: c_uint = 1;
/// Scope of an answer: the hook is called for callees of the frame, even if a
/// scope around it excludes them.
pub const FRAMEHOOK_ONLY_CALLEES: c_uint = 2;
/// Scope of an answer: as ONLY_CALLEES, and the hook is called in no other
/// thread or greenlet.
pub const FRAMEHOOK_ONLY_CALLEES_EVERYWHERE: c_uint = 3;

/// What an entry callback returns beside its verdict. All fields are 0 when
/// the callback is called, and are ignored if the verdict is ERROR.
///
/// The struct lies on the C stack of the dispatch. The callback may write to
/// it until it returns, but not from another greenlet.
#[repr(C)]
pub struct FrameHookAnswer {
    /// A new reference: the code for REPLACE, the value for RESULT.
    pub object: *mut PyObject,
    /// Passed to each event of this frame, and then to `free_data`.
    pub data: *mut c_void,
    /// PyUnstable_FRAMEHOOK_ON_... combined. Any of them implies ON_EXIT. 0:
    /// the frame is not watched.
    pub events: c_uint,
    /// 0, or one of the three scopes. A scope is in force on the stack of the
    /// thread or greenlet that runs the frame, until the frame is left, and
    /// not while it is suspended. The innermost scope of a hook wins.
    pub scope: c_uint,
}

impl FrameHookAnswer {
    /// As the entry callback finds it.
    ///
    /// cbindgen:ignore
    pub const EMPTY: Self =
        FrameHookAnswer { object: null_mut(), data: null_mut(), events: 0, scope: 0 };
}

/// Kind of an event: the frame has returned `value`.
pub const FRAMEHOOK_RETURNED: c_int = 0;
/// Kind of an event: the exception `value` has left the frame.
pub const FRAMEHOOK_RAISED: c_int = 1;
/// Kind of an event: the frame has yielded `value`.
pub const FRAMEHOOK_YIELDED: c_int = 2;
/// Kind of an event: the frame is resumed, and has executed nothing yet.
pub const FRAMEHOOK_RESUMED: c_int = 3;
/// Kind of an event: the frame was suspended or had not started, and never
/// runs again.
pub const FRAMEHOOK_DROPPED: c_int = 4;

/// An event of a watched frame. References are borrowed for the time of the
/// callback.
#[repr(C)]
pub struct FrameHookEvent {
    /// PyUnstable_FRAMEHOOK_RETURNED and so on.
    pub kind: c_int,
    /// The value returned or yielded, or the exception; otherwise NULL.
    pub value: *mut PyObject,
    /// The code object that ran.
    pub code: *mut PyObject,
    /// `data` of the answer.
    pub data: *mut c_void,
}

/// An entry callback. Returns a verdict. Called once for each frame, right
/// before its first instruction.
pub type FrameHookEntryFunction = unsafe extern "C" fn(
    frame: *mut _PyInterpreterFrame,
    user_data: *mut c_void,
    answer: *mut FrameHookAnswer,
) -> c_int;

/// An event callback. Returns 0, or -1 with an exception set.
///
/// The frame is gone or suspended when it is called; a resumed frame has
/// executed nothing. If several hooks watch a frame, their event callbacks run
/// in the reverse order of their entry callbacks. No exception is set when it
/// is called.
///
/// -1 makes the call fail with the exception that is set; an exception on its
/// way becomes the context of that one. For a generator, StopIteration and
/// StopAsyncIteration become RuntimeError. For DROPPED, the exception is
/// reported as unraisable. Remaining callbacks still run.
pub type FrameHookEventFunction =
    unsafe extern "C" fn(event: *const FrameHookEvent, user_data: *mut c_void) -> c_int;

/// A hook of the frame hook proposal for CPython: returns a new reference to
/// the code that runs instead, or NULL for no change; NULL with an exception
/// set fails the call.
pub type FrameHookSimpleFunction =
    unsafe extern "C" fn(frame: *mut _PyInterpreterFrame) -> *mut PyCodeObject;

/// Flag of a definition: the time that the callbacks take is measured, by two
/// clock readings a call.
pub const FRAMEHOOK_TIMED: c_uint = 1;
/// Flag of a definition: the hook is called in the installing thread only, and
/// removed when that ends.
pub const FRAMEHOOK_THIS_THREAD: c_uint = 2;
/// Flag of a definition: trace, profile and monitoring functions see the
/// Python code that the callbacks run.
pub const FRAMEHOOK_VISIBLE: c_uint = 4;

/// Position of a hook: after all others.
pub const FRAMEHOOK_LAST: c_int = 0;
/// Position: before all others.
pub const FRAMEHOOK_FIRST: c_int = 1;
/// Position: right before the hook `other`.
pub const FRAMEHOOK_BEFORE: c_int = 2;
/// Position: right after the hook `other`.
pub const FRAMEHOOK_AFTER: c_int = 3;

/// Answer of a loop callback: the exception that is set is raised at
/// `instruction`, where the function may handle it.
pub const FRAMELOOP_ERROR: c_int = -1;
/// Answer: the frame continues at `instruction`.
pub const FRAMELOOP_CONTINUE: c_int = 0;
/// Answer: the function returns `object`.
pub const FRAMELOOP_RESULT: c_int = 1;
/// Answer: the exception that is set leaves the function, whose traceback
/// entry is that of `instruction`. No handler of the function is executed.
pub const FRAMELOOP_UNWIND: c_int = 2;

/// A frame at the head of a hot loop: its JUMP_BACKWARD was executed, and the
/// instruction that it leads to is next.
///
/// The struct lies on the C stack. The callback may read and write it until it
/// returns.
#[repr(C)]
pub struct FrameLoop {
    /// The frame.
    pub frame: *mut _PyInterpreterFrame,
    /// The function that runs; borrowed.
    pub function: *mut PyObject,
    /// The code that runs; borrowed.
    pub code: *mut PyCodeObject,
    /// The frame's own slots: locals, cells and free variables,
    /// then the evaluation stack. They own their references, and
    /// are NULL where unbound. To write one, store the new reference and
    /// release the old one afterwards.
    pub slots: *mut *mut PyObject,
    /// How many locals, cells and free variables there are: `co_nlocalsplus`.
    pub local_count: c_int,
    /// How many values are on the evaluation stack. May be written, up to
    /// `co_stacksize`.
    pub stack_depth: c_int,
    /// The index of the JUMP_BACKWARD, in code units.
    pub jump: c_int,
    /// The index of the next instruction, in code units: the loop's head. May
    /// be written.
    pub instruction: c_int,
    /// After how many further turns the callback is called again for this
    /// loop, at most 65,535; 0: not until the code is instrumented anew, as
    /// when a tool or a hook was added, or WatchLoops() is called again. May
    /// be written.
    pub turns: c_int,
    /// A new reference: the value for RESULT. NULL at first.
    pub object: *mut PyObject,
}

/// A loop callback. Returns PyUnstable_FRAMELOOP_CONTINUE and so on.
///
/// It may run Python code, which is not dispatched and whose events are hidden
/// as those of code that an entry callback runs. The frame is the thread's
/// current one, and what an entry callback can read of it can be read.
pub type FrameLoopFunction =
    unsafe extern "C" fn(hot: *mut FrameLoop, user_data: *mut c_void) -> c_int;

/// A hook to be installed. Fields may be 0 or NULL unless they say otherwise.
#[repr(C)]
pub struct FrameHookDefinition {
    /// sizeof(PyUnstable_FrameHookDefinition). Required.
    pub size: usize,
    /// UTF-8, copied; used in messages and in framehook.hooks().
    pub name: *const c_char,
    /// A PyUnstable_FrameHookEntryFunction. Required.
    pub on_entry: Option<
        unsafe extern "C" fn(
            frame: *mut _PyInterpreterFrame,
            user_data: *mut c_void,
            answer: *mut FrameHookAnswer,
        ) -> c_int,
    >,
    /// A PyUnstable_FrameHookEventFunction. Without it, `events` of an answer
    /// must be 0.
    pub on_event:
        Option<unsafe extern "C" fn(event: *const FrameHookEvent, user_data: *mut c_void) -> c_int>,
    /// Passed to both callbacks.
    pub user_data: *mut c_void,
    /// Called once with `user_data` when the hook was removed and no callback
    /// of it runs; not if the installation fails. It may be called before
    /// `free_data` of frames that the hook still watches. It is called with no
    /// exception set, and one that it leaves is reported as unraisable.
    pub free_user_data: Option<unsafe extern "C" fn(user_data: *mut c_void)>,
    /// Called once with `data` of each answer that has `events` or a `scope`,
    /// when no further event is delivered, whatever the reason: also if an
    /// exception is set beside the answer, or if the call fails. Never while
    /// `on_event` runs for that frame. Exceptions as for `free_user_data`.
    pub free_data: Option<unsafe extern "C" fn(data: *mut c_void)>,
    /// As tp_traverse: visits each object to which `data` owns a reference.
    /// Without it the collector frees no reference cycle through `data`.
    pub traverse_data: Option<
        unsafe extern "C" fn(
            data: *mut c_void,
            visit: unsafe extern "C" fn(*mut PyObject, *mut c_void) -> c_int,
            arg: *mut c_void,
        ) -> c_int,
    >,
    /// PyUnstable_FRAMEHOOK_TIMED, ..._THIS_THREAD and ..._VISIBLE combined.
    pub flags: c_uint,
    /// PyUnstable_FRAMEHOOK_LAST and so on.
    pub position: c_int,
    /// For BEFORE and AFTER.
    pub other: FrameHookId,
    /// A PyUnstable_FrameLoopFunction, for PyUnstable_FrameHook_WatchLoops().
    pub on_loop: Option<unsafe extern "C" fn(hot: *mut FrameLoop, user_data: *mut c_void) -> c_int>,
}
