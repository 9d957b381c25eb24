//! Scopes: while a frame runs, a hook is not called for its callees, or is called for them only.
//!
//! A scope begins when its frame starts or is resumed, and ends when that is left or suspended. It is in force on one
//! stack: a thread's, or a greenlet's, which has a data stack of its own. So a scope is known by the root chunk of the
//! data stack on which it began. A stack without a chunk gets its root then. The innermost scope of a hook on a stack
//! wins. `FRAMEHOOK_ONLY_CALLEES_EVERYWHERE` also holds on all stacks without a scope of the hook.

use super::c_types::{FRAMEHOOK_EXCLUDE_CALLEES, FRAMEHOOK_ONLY_CALLEES_EVERYWHERE};
use super::hook::Hook;
use super::list::{behind, enter, leave, Links, Member, Next};
use super::set::HookSet;
use crate::cpython::_PyStackChunk;
use crate::data_stack::{DataStack, Slots};
use crate::thread::Thread;
use core::ffi::c_uint;
use core::ptr::{null, NonNull};

/// A scope. It lies in its watch.
///
/// # Invariants
/// While it is in the list of a thread, which `FrameHookThread.scopes` begins, it stays where it
/// is, that thread alone works on it, and its watch holds its hook.
pub struct Scope {
    links: Links<Scope>,
    root: *mut _PyStackChunk,
    /// The hook that has it; NULL: an unhooked call, for which no hook is called.
    hook: *const Hook,
    kind: c_uint,
    /// No hook is called: by this scope, or by one around it on the same stack.
    excludes_all: bool,
    /// How many hooks have a scope here: this one, or one around it on the same stack. So a search need not go
    /// through all levels of a recursion. Too many if a scope around this one has ended first.
    hooks_here: u32,
}

// SAFETY: a field of its own, which nothing else writes while the scope is in the list.
unsafe impl Member for Scope {
    #[inline]
    fn links(&self) -> &Links<Self> {
        &self.links
    }
}

/// The root chunk of the current data stack, which is allocated if there is none; NULL: there is no memory.
fn root_or_made(thread: Thread) -> *mut _PyStackChunk {
    let root_now = root(thread);
    if !root_now.is_null() {
        return root_now;
    }
    // SAFETY: the calling thread's own. The frame is the topmost one, and unused.
    unsafe {
        let mut stack = DataStack::of(thread.tstate());
        if let Some(frame) = stack.push(Slots::new(1)) {
            stack.pop(frame.as_ptr()); // which leaves the root
        }
    }
    root(thread)
}

/// The root chunk of the current data stack; NULL: there is none.
fn root(thread: Thread) -> *mut _PyStackChunk {
    // SAFETY: the calling thread's own chunks, each of which leads to the one below.
    unsafe {
        let mut chunk = (*thread.tstate()).datastack_chunk;
        while !chunk.is_null() && !(*chunk).previous.is_null() {
            chunk = (*chunk).previous;
        }
        chunk
    }
}

/// The scopes of a thread on the stack with that root, the innermost first.
struct OnStack {
    next: Next<Scope>,
    root: *mut _PyStackChunk,
}

impl OnStack {
    /// Those of the stack that the thread is on.
    fn of(thread: Thread, root: *mut _PyStackChunk) -> Self {
        // SAFETY: the calling thread's own.
        OnStack { next: NonNull::new(unsafe { (*thread.own()).scopes.cast() }), root }
    }
}

impl Iterator for OnStack {
    type Item = *mut Scope;

    #[inline] // or its symbol would be exported
    fn next(&mut self) -> Option<*mut Scope> {
        loop {
            let scope = self.next?;
            // SAFETY: *alone*: the calling thread's own list. *member*: nothing is taken out while it is walked, so
            // those in it are live.
            let root = unsafe {
                self.next = behind(scope.as_ref());
                scope.as_ref().root
            };
            // One that began without memory for a stack is on each.
            if root == self.root || root.is_null() {
                return Some(scope.as_ptr());
            }
        }
    }
}

impl Scope {
    /// One that has not begun, with its stack.
    const fn on(root: *mut _PyStackChunk) -> Self {
        let links = Links::none();
        Scope { links, root, hook: null(), kind: 0, excludes_all: false, hooks_here: 0 }
    }

    /// Writes down the current stack, without beginning a scope.
    ///
    /// # Safety
    /// `this` is in no list.
    pub unsafe fn set_stack(this: *mut Scope, thread: Thread) {
        // SAFETY: the caller says that `this` is in no list, so nothing else reads or writes it.
        unsafe { *this = Scope::on(root_or_made(thread)) };
    }

    /// Whether it lies on the current stack.
    ///
    /// # Safety
    /// The calling thread's, and its stack is set.
    pub unsafe fn is_here(this: *mut Scope, thread: Thread) -> bool {
        // SAFETY: the caller says that `this` is the calling thread's: it is live, and no other
        // thread writes it.
        unsafe { (*this).root == root(thread) }
    }

    /// Begins for `hook`; for all hooks, if that is `None`.
    ///
    /// # Safety
    /// *stays*: `this` is in no list, and stays where it is until [`Scope::end`], as the hook does.
    pub unsafe fn begin(this: *mut Scope, thread: Thread, hook: Option<&Hook>, kind: c_uint) {
        let root = root_or_made(thread);
        // SAFETY: those in the list are live, and the calling thread's own.
        let outer = OnStack::of(thread, root).next().map(|outer| unsafe { &*outer });
        let is_new = hook.is_some_and(|hook| of_hook(thread, root, hook).is_none());
        let scope = Scope {
            hook: hook.map_or(null(), |hook| &raw const *hook),
            kind,
            excludes_all: hook.is_none() || outer.is_some_and(|outer| outer.excludes_all),
            hooks_here: outer.map_or(0, |outer| outer.hooks_here) + u32::from(is_new),
            ..Scope::on(root)
        };
        // SAFETY: *stays*. *alone*: the list is the thread's own.
        unsafe {
            this.write(scope);
            enter((&raw mut (*thread.own()).scopes).cast(), NonNull::new_unchecked(this));
        }
        if let (Some(hook), FRAMEHOOK_ONLY_CALLEES_EVERYWHERE) = (hook, kind) {
            hook.count_for_callees_alone(true);
        }
    }

    /// Ends.
    ///
    /// # Safety
    /// - *begun*: `this` has begun, and not ended.
    /// - *alone*: the thread in which it has begun is the calling one, or does not run: nothing else uses its list.
    #[inline] // or its symbol would be exported
    pub unsafe fn end(this: *const Scope) {
        // SAFETY: *begun*, so it is a *member*, and its watch has its hook. *alone*.
        let (hook, kind) = unsafe {
            leave(&*this);
            ((*this).hook.as_ref(), (*this).kind)
        };
        if let (Some(hook), FRAMEHOOK_ONLY_CALLEES_EVERYWHERE) = (hook, kind) {
            hook.count_for_callees_alone(false);
        }
    }
}

/// The hooks that have scopes on a stack, each with its innermost one.
struct EachHook {
    scopes: OnStack,
    seen: HookSet,
    /// How many of them are left, at most. `None`: unknown yet.
    left: Option<u32>,
}

impl EachHook {
    fn of(thread: Thread, root: *mut _PyStackChunk) -> Self {
        EachHook { scopes: OnStack::of(thread, root), seen: HookSet::NONE, left: None }
    }
}

impl Iterator for EachHook {
    type Item = *mut Scope;

    #[inline] // or its symbol would be exported
    fn next(&mut self) -> Option<*mut Scope> {
        while self.left != Some(0) {
            let scope = self.scopes.next()?;
            // SAFETY: live, and this thread's; so is its hook.
            let (hook, hooks_here) = unsafe { ((*scope).hook.as_ref(), (*scope).hooks_here) };
            let left = self.left.unwrap_or(hooks_here);
            self.left = Some(left);
            // Another hook may have the slot of one that was removed.
            if let Some(hook) = hook.filter(|hook| !hook.is_removed() && !self.seen.has(hook)) {
                self.seen.put(hook, true);
                self.left = Some(left - 1);
                return Some(scope);
            }
        }
        None
    }
}

/// The innermost scope of `hook` on a stack.
fn of_hook(thread: Thread, root: *mut _PyStackChunk, hook: &Hook) -> Option<*mut Scope> {
    // SAFETY: those in the list are live, and this thread's.
    EachHook::of(thread, root).find(|scope| unsafe { core::ptr::eq((**scope).hook, hook) })
}

/// The hooks that scopes on this stack exclude. There are scopes in this thread.
#[cold]
#[inline(never)]
pub fn excluded(thread: Thread) -> HookSet {
    let (root, mut excluded) = (root(thread), HookSet::NONE);
    // SAFETY: those in the list are live, and this thread's; so are their hooks.
    unsafe {
        if OnStack::of(thread, root).next().is_some_and(|scope| (*scope).excludes_all) {
            return HookSet::ALL;
        }
        for scope in EachHook::of(thread, root) {
            if let Some(hook) = (*scope).hook.as_ref() {
                excluded.put(hook, (*scope).kind == FRAMEHOOK_EXCLUDE_CALLEES);
            }
        }
    }
    excluded
}

/// Whether some scope of `hook` is in force on this stack.
pub fn has_scope_here(thread: Thread, hook: &Hook) -> bool {
    of_hook(thread, root(thread), hook).is_some()
}
