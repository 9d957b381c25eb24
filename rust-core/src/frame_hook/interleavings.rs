//! Adding and removing hooks during dispatches, in every order of the threads' steps, by loom (`ci/proofs`).
//!
//! Whatever the order:
//! - A dispatch calls the hooks that were installed when it began, except those removed meanwhile. No hook and no user
//!   data is freed while the hook is called. Each is freed once.
//! - Threads that need the index of the opt-out masks agree on one, and keep no other.
//! - Disabling in one thread does not undo disabling in another.
//!
//! `fake_cpython::interleaved` checks the memory. That the world stops only where a thread allows it is assumed of
//! CPython.

use super::c_types::{FrameHookAnswer, FRAMEHOOK_PASS};
use super::counted::count_one;
use super::description::Description;
use super::hook::{Hook, SMALL_ATOMICS};
use super::opt_out::{reserve, set, set_disabled};
use super::registry::{add, clear, close, first, remove};
use crate::code::Code;
use crate::code_extra::{Registry, CODE_TYPE_UNTIL_RELEASE};
use crate::cpython::_PyInterpreterFrame;
use crate::fake_cpython::code::plain;
use crate::fake_cpython::interleaved::{explore, has_small_atomics, running, share};
use crate::fake_cpython::objects::decref;
use crate::fake_cpython::World;
use crate::in_cpython::{CodeExtraState, FrameHookState};
use crate::thread::Thread;
use loom::thread::{spawn, JoinHandle};
use std::cell::RefCell;
use std::ffi::{c_int, c_void};
use std::ptr::{null_mut, without_provenance_mut};

thread_local! {
    /// User data that was freed. loom's threads take turns in one thread of the system.
    static FREED: RefCell<Vec<usize>> = const { RefCell::new(Vec::new()) };
}

unsafe extern "C" fn note(data: *mut c_void) {
    FREED.with_borrow_mut(|freed| freed.push(data as usize));
}

fn freed() -> Vec<usize> {
    let mut freed = FREED.take();
    freed.sort();
    freed
}

unsafe extern "C" fn hook(
    _: *mut _PyInterpreterFrame,
    _: *mut c_void,
    _: *mut FrameHookAnswer,
) -> c_int {
    FRAMEHOOK_PASS
}

/// An interpreter whose hooks all threads of the model may reach.
struct Engine {
    _world: World,
}

impl Engine {
    fn start() -> Self {
        FREED.take();
        has_small_atomics::<Hook>(&SMALL_ATOMICS);
        let world = World::new();
        share((&raw const CODE_TYPE_UNTIL_RELEASE).cast_mut());
        // SAFETY: live as long as the world.
        unsafe {
            share(FrameHookState::of(world.interpreter()));
            share(CodeExtraState::of(world.interpreter()));
        }
        Engine { _world: world }
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            close(thread());
        }
    }
}

fn thread() -> Thread {
    // SAFETY: all threads of a model share one state, of which nothing here uses what is a thread's
    // own.
    unsafe { Thread::current() }
}

/// Adds a hook with that user data. Its handle.
fn add_hook(data: usize) -> i64 {
    let mut description = Description::new(hook, without_provenance_mut(data), c"hook");
    description.free_user_data = Some(note);
    add(thread(), &description).ok().expect("memory")
}

/// The user data of the hooks that a dispatch comes to.
fn dispatch() -> Vec<usize> {
    let mut seen = Vec::new();
    let (mut at, epoch) = running(|| first(thread()));
    while let Some(in_use) = at {
        let hook = in_use.get();
        count_one(&hook.calls);
        hook.is_ordinary();
        let data = hook.user_data as usize;
        let freed = FREED.with_borrow(|freed| freed.contains(&data));
        assert!(!freed, "a hook is freed while it is called");
        seen.push(data);
        at = running(|| in_use.into_next(epoch));
    }
    seen
}

fn in_thread<R: 'static>(work: impl FnOnce() -> R + 'static) -> JoinHandle<R> {
    spawn(work)
}

#[test]
fn interleaved_a_hook_is_removed_while_a_dispatch_uses_it() {
    explore(|| {
        let engine = Engine::start();
        let id = add_hook(1);
        let removes = in_thread(move || assert!(remove(thread(), id).is_ok()));
        let seen = in_thread(dispatch).join().expect("a dispatch");
        assert!([vec![], vec![1]].contains(&seen), "{seen:?}");
        removes.join().expect("a thread");
        assert_eq!(freed(), [1]);
        drop(engine);
    });
}

#[test]
fn interleaved_two_dispatches_end_while_their_hook_is_removed() {
    explore(|| {
        let engine = Engine::start();
        let id = add_hook(1);
        let dispatches = [(), ()].map(|()| in_thread(dispatch));
        assert!(remove(thread(), id).is_ok());
        for one in dispatches {
            let seen = one.join().expect("a dispatch");
            assert!([vec![], vec![1]].contains(&seen), "{seen:?}");
        }
        assert_eq!(freed(), [1]);
        drop(engine);
    });
}

#[test]
fn interleaved_two_threads_remove_two_hooks_during_a_dispatch() {
    explore(|| {
        let engine = Engine::start();
        let ids = [1, 2].map(add_hook);
        let removes = ids.map(|id| in_thread(move || assert!(remove(thread(), id).is_ok())));
        let seen = dispatch();
        assert!([vec![], vec![1], vec![2], vec![1, 2]].contains(&seen), "{seen:?}");
        removes.into_iter().for_each(|it| it.join().expect("a thread"));
        assert_eq!(freed(), [1, 2]);
        drop(engine);
    });
}

#[test]
fn interleaved_a_hook_is_added_and_all_are_removed_during_a_dispatch() {
    explore(|| {
        let engine = Engine::start();
        add_hook(1);
        let adds = in_thread(|| add_hook(2));
        let clears = in_thread(|| clear(thread()));
        let seen = dispatch();
        assert!([vec![], vec![1], vec![2], vec![1, 2]].contains(&seen), "{seen:?}");
        adds.join().expect("a thread");
        clears.join().expect("a thread");
        let left = dispatch();
        drop(engine);
        assert!([vec![], vec![2]].contains(&left), "{left:?}");
        assert_eq!(freed(), [1, 2]);
    });
}

#[test]
fn interleaved_threads_agree_on_one_index() {
    explore(|| {
        let engine = Engine::start();
        let index = || {
            assert_eq!(reserve(thread(), 0), Ok(()));
            // SAFETY: this model's; set as an atomic, and not changed any more.
            unsafe { (&raw const (*thread().state()).extra_indices).cast::<isize>().read() - 1 }
        };
        let threads = [(), ()].map(|()| in_thread(index));
        let [one, other] = threads.map(|it| it.join().expect("a thread"));
        assert!(one == other && one >= 0, "{one} and {other}");
        // SAFETY: the model's interpreter.
        let registry = unsafe { Registry::of(thread().interpreter()) };
        assert_eq!(registry.index_in_use(one).map(|it| it.raw()), Ok(one));
        assert_eq!(registry.lock().in_use(), 1);
        drop(engine);
    });
}

#[test]
fn interleaved_two_threads_disable_two_hooks_for_one_code() {
    explore(|| {
        let engine = Engine::start();
        let ids = [1, 2].map(add_hook);
        let object = plain(0, 0, 1, 0);
        // SAFETY: live until the end.
        let code = unsafe {
            share(&raw mut (*object).co_extra);
            Code::new(object)
        };
        struct Sent(Code);
        // SAFETY: shared.
        unsafe impl Send for Sent {}
        let disabling = ids.map(|id| {
            let code = Sent(code);
            in_thread(move || assert_eq!(set_disabled(thread(), { &code }.0, id, true), Ok(())))
        });
        assert!(set(thread(), code).first_group() <= 3);
        disabling.into_iter().for_each(|it| it.join().expect("a thread"));
        assert_eq!(set(thread(), code).first_group(), 3);
        // SAFETY: the model's own.
        unsafe { decref(object.cast()) };
        drop(engine);
    });
}
