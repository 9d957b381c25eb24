//! A dispatch in progress, and its outcome.

use super::entry_frame::EntryFrame;
use super::error::Outcome;
use super::hook::references::HookInUse;
use super::hook::Hook;
use super::listening::{enabled_in_first_group, is_open};
use super::opt_out;
use super::set::HookSet;
use super::shim_code::is_return_shim;
use super::state::DispatchGuard;
use super::watch::Watch;
use crate::code::Code;
use crate::cpython as c;
use crate::frame::Frame;
use crate::object::Owned;
use crate::thread::Thread;

/// How the eval loop continues after a dispatch.
#[repr(C)]
#[derive(Clone, Copy, PartialEq)]
#[cfg_attr(any(test, fuzzing), derive(Debug))]
pub enum NextStep {
    /// In the same frame. All hooks are disabled for the code object: `RESUME` may be specialized.
    Specialize = 0,
    /// In the same frame. `RESUME` stays as it is, so that the next frame of this code object is dispatched too.
    KeepUnspecialized = 1,
    /// In the thread's current frame, so many instructions ahead of its `instr_ptr`; or with the exception that is
    /// set, in the caller of the dispatched frame.
    CurrentFrame = 2,
}

/// What a dispatch comes to for its frame.
pub(super) enum DispatchOutcome {
    /// The frame runs; `CurrentFrame`: it was replaced.
    Runs(NextStep),
    /// The call ends before the frame runs: with this value, or with the exception that is set.
    Ends(Outcome<Owned>),
}

/// A dispatch in progress.
pub(super) struct DispatchState<'a> {
    /// The frame for which the next hook is called.
    pub frame: EntryFrame,
    /// Hooks that were added later are not called.
    pub epoch: u32,
    /// The hooks that scopes exclude on this stack.
    pub excluded: &'a HookSet,
    /// The hooks that are disabled for the frame's code.
    pub disabled: HookSet,
    /// Whether some hook is to be called for the next frame of this code too.
    pub passed: bool,
    /// Whether the frame was replaced.
    pub replaced: bool,
    /// The instruction at which the frame continues, unless it is replaced.
    pub next: *mut c::_Py_CODEUNIT,
    /// The frame below it before the dispatch.
    pub caller: Option<Frame>,
    pub guard: DispatchGuard,
}

impl DispatchState<'_> {
    /// Whether a hook is called in this thread, on this stack and for this code.
    pub fn calls(&self, thread: Thread, hook: &Hook) -> bool {
        is_open(thread, hook) && !self.excluded.has(hook) && !self.disabled.has(hook)
    }

    /// The frame has other code now.
    pub fn has_replaced(&mut self, thread: Thread) {
        self.disabled = opt_out::set(thread, self.frame.code());
        self.replaced = true;
    }

    /// Ends a dispatch that has not only called hooks that pass. `at` is the hook that was called last, and `ended` what
    /// it has ended the call with.
    #[cold]
    #[inline(never)]
    pub fn finish(
        self,
        thread: Thread,
        at: Option<HookInUse>,
        ended: Option<Outcome<Owned>>,
    ) -> (Frame, DispatchOutcome) {
        let DispatchState { frame, passed, replaced, next, caller, guard, .. } = self;
        update_watches(thread, *frame, caller, replaced, ended.is_none());
        // Hooks that were removed meanwhile may be freed now, and their owners' code runs: within the dispatch, with the
        // frame still hidden.
        drop(at);
        drop(guard);
        // Nothing runs from here on that could change what is found.
        if let Some(end) = ended {
            // A frame that does not run stays hidden: `next` may be of code that was replaced.
            return (frame.keep_hidden(), DispatchOutcome::Ends(end));
        }
        let first = frame.code().first_instruction();
        let frame = frame.show(if replaced { first } else { next });
        let next = match (replaced, passed) {
            (true, _) => NextStep::CurrentFrame,
            (false, true) => NextStep::KeepUnspecialized,
            // Hooks may have been added and removed meanwhile.
            (false, false) => next_step_for(thread, frame.code()),
        };
        (frame, DispatchOutcome::Runs(next))
    }
}

/// `Specialize` if all hooks are disabled for `code`, in all threads.
#[inline(never)]
pub(super) fn next_step_for(thread: Thread, code: Code) -> NextStep {
    let (groups, enabled) = enabled_in_first_group(thread);
    let all_disabled = match groups {
        0 => true,
        1 => enabled & !opt_out::slots_of_first_group(thread, code) == 0,
        _ => HookSet::enabled(thread).without(&opt_out::set(thread, code)).is_empty(),
    };
    if all_disabled {
        NextStep::Specialize
    } else {
        NextStep::KeepUnspecialized
    }
}

/// Sets the code of the watches that began in this dispatch to the code that runs, if that is another. `caller` was
/// below the frame before it. A frame that does not run makes no generator.
#[inline(always)]
pub(super) fn update_watches(
    thread: Thread,
    frame: Frame,
    caller: Option<Frame>,
    replaced: bool,
    runs: bool,
) {
    const MAKES_GENERATOR: u32 = c::CO_GENERATOR | c::CO_COROUTINE | c::CO_ASYNC_GENERATOR;
    let makes_generator = runs && frame.code().flags() & MAKES_GENERATOR != 0;
    if replaced || makes_generator {
        update_each_watch(thread, frame, caller, makes_generator);
    }
}

/// [`update_watches`], if there is something to set. The shims above the caller are those of this dispatch. The caller
/// may be a shim itself: of a frame that is being destroyed and runs a destructor, or one at which an event callback in
/// C runs.
#[cold]
#[inline(never)]
fn update_each_watch(thread: Thread, frame: Frame, caller: Option<Frame>, makes_generator: bool) {
    let mut at = frame.previous();
    while let Some(shim) = at.filter(|it| at != caller && is_return_shim(*it)) {
        // A return shim of this dispatch: no frame was left to it, nor is one that a destructor
        // runs now.
        at = shim.previous();
        // SAFETY: *quiet*: the code that the return shim had is released last.
        let before = Watch::at(shim, &unsafe { thread.not_stopped() })
            .map(|watch| watch.set_code(frame.code(), makes_generator));
        drop(before);
    }
}
