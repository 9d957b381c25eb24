//! Hooks that come and go.

use super::support::*;
use crate::cpython::{_PyInterpreterFrame, PyCodeObject};
use crate::fake_cpython::code::times_despecialized;
use crate::fake_cpython::exceptions;
use crate::fake_cpython::memory::{self, allow, with_each_allocation_failing};
use crate::fake_cpython::threads::Attached;
use crate::frame_hook::c_api::hooks::*;
use crate::frame_hook::c_types::*;
use crate::frame_hook::description::Description;
use crate::frame_hook::registry;
use std::cell::RefCell;
use std::ffi::{c_int, c_void};
use std::ptr::{null, null_mut};
use std::rc::Rc;

const NOT_INSTALLED: &str = "ValueError: this frame hook is not installed";
const INSTALLED: &str = "ValueError: this frame hook is installed already";

#[test]
fn hooks_are_called_in_the_order_in_which_they_were_added() {
    let _engine = Engine::start();
    let log = Log::default();
    let function = define(with_parameters("a"), "");
    let hooks: Vec<_> = ["one", "two", "three"].map(|name| log.add(name, Reply::Pass)).into();
    function.call("x").expect("a call");
    assert_eq!(log.read(), "one two three");
    assert_eq!(remove(hooks[1].id), Ok(()));
    function.call("x").expect("a call");
    assert_eq!(log.read(), "one three");
    log.add("two again", Reply::Pass);
    function.call("x").expect("a call");
    assert_eq!(log.read(), "one three two again");
}

#[test]
fn a_handle_is_never_given_out_again() {
    let _engine = Engine::start();
    let mut last = 0;
    for _ in 0..5 {
        let hook = add(|_| Reply::Pass);
        assert!(hook.id > last);
        last = hook.id;
        assert_eq!(remove(hook.id), Ok(()));
    }
    assert_eq!(remove(last), Err(NOT_INSTALLED.to_string()));
}

#[test]
fn what_is_not_installed_cannot_be_removed_nor_switched() {
    let _engine = Engine::start();
    let function = define(with_parameters(""), "");
    let gone = add(|_| Reply::Pass);
    assert_eq!(remove(gone.id), Ok(()));
    for id in [gone.id, gone.id + 1, 0, -1, i64::MAX] {
        let refused = Err(NOT_INSTALLED.to_string());
        assert_eq!(remove(id), refused);
        for on in [true, false] {
            assert_eq!(enable(id, on), refused);
            assert_eq!(enable_in_thread(id, on), refused);
            assert_eq!(enable_for_code(id, function.code, on), refused);
        }
    }
}

#[test]
fn a_hook_is_the_same_if_function_and_data_are() {
    let _engine = Engine::start();
    let (one, other) = (add(|_| Reply::Pass), add(|_| Reply::Pass));
    assert_eq!(one.add_again(), Err(INSTALLED.to_string()));
    assert_eq!(remove(one.id), Ok(()));
    assert_eq!(one.freed(), 1);
    let again = one.add_again().expect("it is gone");
    assert!(again > other.id);
    assert_eq!(other.add_again(), Err(INSTALLED.to_string()));
    assert_eq!((one.freed(), other.freed()), (1, 0));
}

unsafe extern "C" fn simple(_frame: *mut _PyInterpreterFrame) -> *mut PyCodeObject {
    null_mut()
}

unsafe extern "C" fn other_simple(_frame: *mut _PyInterpreterFrame) -> *mut PyCodeObject {
    exceptions::raise_value_error("from a simple hook");
    null_mut()
}

/// A hook whose data is a counter.
unsafe extern "C" fn counting(
    _frame: *mut _PyInterpreterFrame,
    data: *mut c_void,
    _answer: *mut FrameHookAnswer,
) -> c_int {
    // SAFETY: a test's counter.
    unsafe { *data.cast::<usize>() += 1 };
    FRAMEHOOK_PASS
}

#[test]
fn a_hook_of_the_proposal_is_known_by_its_function() {
    let _engine = Engine::start();
    let function = define(with_parameters(""), "");
    // SAFETY: attached.
    let add = |hook| outcome(unsafe { PyUnstable_AddFrameHook(interpreter(), Some(hook)) });
    // SAFETY: attached.
    let remove = |hook| outcome(unsafe { PyUnstable_RemoveFrameHook(interpreter(), Some(hook)) });
    assert_eq!(remove(simple), Err(NOT_INSTALLED.to_string()));
    assert_eq!(add(simple), Ok(()));
    assert_eq!(add(simple), Err(INSTALLED.to_string()));
    assert!(function.call("").is_ok());
    assert_eq!(add(other_simple), Ok(()));
    assert_eq!(function.call(""), Err("ValueError: from a simple hook".to_string()));
    assert_eq!(remove(other_simple), Ok(()));
    assert!(function.call("").is_ok());
    assert_eq!((remove(simple), remove(simple)), (Ok(()), Err(NOT_INSTALLED.to_string())));
}

/// What installing by this definition comes to.
fn installed(definition: FrameHookDefinition) -> Result<(), String> {
    // SAFETY: attached; what the definition names is live.
    let id = unsafe { PyUnstable_FrameHook_Install(&raw const definition) };
    outcome(if id > 0 { 0 } else { id as c_int })
}

#[test]
fn what_makes_no_hook_is_refused() {
    let _engine = Engine::start();
    let refused = |text: &str| Err(format!("ValueError: {text}"));
    let sound = || FrameHookDefinition { on_entry: Some(counting), ..definition() };
    assert_eq!(installed(definition()), refused("a frame hook needs an entry callback, not NULL"));
    let size = "a definition of a frame hook begins with its size in bytes";
    assert_eq!(installed(FrameHookDefinition { size: 8, ..sound() }), refused(size));
    // SAFETY: attached.
    let null = unsafe { PyUnstable_FrameHook_Install(null()) };
    assert_eq!(outcome(null as c_int), refused(size));
    let flags = FrameHookDefinition { flags: 8, ..sound() };
    assert_eq!(installed(flags), refused("unknown flags for a frame hook"));
    let position = FrameHookDefinition { position: 4, ..sound() };
    assert_eq!(installed(position), refused("unknown position for a frame hook"));
    let name = FrameHookDefinition { name: c"\xff".as_ptr(), ..sound() };
    assert_eq!(installed(name), Err("UnicodeDecodeError: not UTF-8".to_string()));
    // SAFETY: attached.
    unsafe {
        let null = PyUnstable_AddFrameHook(interpreter(), None);
        assert_eq!(outcome(null), refused("a frame hook is a function, not NULL"));
        let here = interpreter();
        let _other = Attached::to_interpreter(1);
        let elsewhere = "RuntimeError: the calling thread belongs to another interpreter";
        let status = PyUnstable_AddFrameHook(here, Some(simple));
        assert_eq!(outcome(status), Err(elsewhere.to_string()));
    }
}

#[test]
fn a_thousand_and_twenty_four_hooks_can_be_there_and_no_more() {
    let _engine = Engine::start();
    let log = Log::default();
    let function = define(with_parameters(""), "");
    let hooks: Vec<_> = (0..1024).map(|_| log.add("old", Reply::Pass)).collect();
    let full = "RuntimeError: 1024 frame hooks are installed, and no more can be: remove one first";
    for _ in 0..2 {
        assert_eq!(try_add(|_| Reply::Pass).err(), Some(full.to_string()));
    }
    for place in [0, 17, 31] {
        assert_eq!(remove(hooks[place].id), Ok(()));
        log.add("new", Reply::Pass);
        assert!(try_add(|_| Reply::Pass).is_err());
    }
    function.call("").expect("a call");
    assert_eq!(log.read(), [["old"; 1021].join(" "), ["new"; 3].join(" ")].join(" "));
    clear();
    assert_eq!(hooks.iter().map(Added::freed).collect::<Vec<_>>(), [1; 1024]);
    log.add("after", Reply::Pass);
    function.call("").expect("a call");
    assert_eq!(log.read(), "after");
}

#[test]
fn user_data_is_freed_once_by_whatever_takes_the_hook_away() {
    let (removed, cleared, ended) = {
        let _engine = Engine::start();
        let hooks = [(); 3].map(|()| add(|_| Reply::Pass));
        let [removed, cleared, ended] = &hooks;
        assert_eq!(remove(removed.id), Ok(()));
        assert_eq!([removed, cleared, ended].map(Added::freed), [1, 0, 0]);
        clear();
        clear();
        let [removed, cleared, _] = hooks;
        (removed, cleared, add(|_| Reply::Pass))
    };
    assert_eq!([removed.freed(), cleared.freed(), ended.freed()], [1, 1, 1]);
}

#[test]
fn a_hook_lives_as_long_as_it_is_being_called() {
    let _engine = Engine::start();
    let function = define(with_parameters(""), "");
    let log = Log::default();
    let other = log.add("never called", Reply::Pass);
    assert_eq!(remove(other.id), Ok(()));
    let handles = Rc::new(RefCell::new(Vec::new()));
    let (own, notes) = (handles.clone(), log.clone());
    let first = add(move |_| {
        for id in own.take() {
            assert_eq!(remove(id), Ok(()));
        }
        notes.note("first");
        Reply::Pass
    });
    let second = log.add("second", Reply::Pass);
    for (hook, name) in [(&first, "first is freed"), (&second, "second is freed")] {
        let notes = log.clone();
        hook.at_the_end(move || notes.note(name));
    }
    handles.replace(vec![first.id, second.id]);
    function.call("").expect("a call");
    assert_eq!(log.read(), "second is freed first first is freed");
    assert_eq!([first.freed(), second.freed()], [1, 1]);
}

#[test]
fn what_a_hook_leaves_behind_when_it_goes_is_reported_and_no_more() {
    let _engine = Engine::start();
    let report = "Exception ignored in free_user_data of frame hook test: ValueError: at its end";
    for is_pending in [false, true] {
        let hook = add(|_| Reply::Pass);
        hook.at_the_end(move || {
            assert_eq!(exceptions::taken(), None, "what is pending is put aside");
            exceptions::raise_value_error("at its end");
        });
        if is_pending {
            exceptions::raise_value_error("pending");
        }
        // SAFETY: attached.
        assert_eq!(unsafe { PyUnstable_FrameHook_Remove(hook.id) }, 0);
        let pending = is_pending.then(|| "ValueError: pending".to_string());
        assert_eq!(exceptions::taken(), pending);
        assert_eq!(exceptions::unraisable(), [report]);
    }
}

#[test]
fn a_hook_may_be_added_and_removed_while_another_goes() {
    let _engine = Engine::start();
    let function = define(with_parameters(""), "");
    let log = Log::default();
    let hook = log.add("old", Reply::Pass);
    let notes = log.clone();
    hook.at_the_end(move || {
        notes.add("new", Reply::Pass);
        let gone = notes.add("gone", Reply::Pass);
        assert_eq!(remove(gone.id), Ok(()));
    });
    assert_eq!(remove(hook.id), Ok(()));
    function.call("").expect("a call");
    assert_eq!(log.read(), "new");
}

#[test]
fn a_failed_allocation_leaves_no_hook_behind() {
    let _engine = Engine::start();
    let log = Log::default();
    let function = define(with_parameters(""), "");
    for expected in ["", "one", "one two"] {
        let before = memory::blocks();
        with_each_allocation_failing(|| {
            let notes = log.clone();
            let name = if expected.is_empty() { "one" } else { "two" };
            let added = try_add(move |_| {
                notes.note(name);
                Reply::Pass
            });
            let Err(exception) = added else { return true };
            assert_eq!(exception, "MemoryError");
            allow(None);
            function.call("").expect("a call");
            assert_eq!(log.read(), expected);
            // What the first hook of an interpreter allocates, whether or not it is added.
            assert!(memory::blocks() == before || expected.is_empty());
            false
        });
        function.call("").expect("a call");
        log.read();
    }
}

#[test]
fn removing_needs_no_memory() {
    let _engine = Engine::start();
    let hooks = [(); 5].map(|()| add(|_| Reply::Pass));
    allow(Some(0));
    assert_eq!(remove(hooks[1].id), Ok(()));
    assert_eq!(remove(hooks[4].id), Ok(()));
    clear();
    assert_eq!(hooks.map(|hook| hook.freed()), [1; 5]);
}

#[test]
fn hooks_are_removed_without_memory_and_leave_nothing() {
    let _engine = Engine::start();
    let mut blocks = Vec::new();
    for _ in 0..3 {
        let first = [(); 4].map(|()| add(|_| Reply::Pass));
        assert_eq!(remove(first[2].id), Ok(()));
        let second = [(); 2].map(|()| add(|_| Reply::Pass));
        allow(Some(0));
        assert_eq!(remove(second[0].id), Ok(()));
        assert_eq!(remove(first[0].id), Ok(()));
        clear();
        allow(None);
        assert_eq!(
            (first.map(|hook| hook.freed()), second.map(|hook| hook.freed())),
            ([1; 4], [1; 2])
        );
        blocks.push(memory::blocks());
    }
    // The interpreter keeps what its first hook has allocated.
    assert_eq!(blocks, [blocks[0]; 3]);
}

#[test]
fn an_interpreter_that_ends_takes_no_hooks() {
    let _engine = Engine::start();
    let hook = add(|_| Reply::Pass);
    let refused = "RuntimeError: frame hooks cannot be added while the interpreter ends";
    hook.at_the_end(move || {
        assert_eq!(try_add(|_| Reply::Pass).err(), Some(refused.to_string()));
    });
    registry::close(thread());
    assert_eq!(hook.freed(), 1);
    assert_eq!(try_add(|_| Reply::Pass).err(), Some(refused.to_string()));
    assert_eq!(remove(hook.id), Err(NOT_INSTALLED.to_string()));
    clear();
    assert!(define(with_parameters(""), "").call("").is_ok());
}

#[test]
fn a_dispatch_outlives_the_end_of_the_interpreters_hooks() {
    let _engine = Engine::start();
    let log = Log::default();
    let function = define(with_parameters(""), "");
    let notes = log.clone();
    let hook = add(move |_| {
        registry::close(thread());
        notes.note("closed");
        Reply::Pass
    });
    log.add("silent", Reply::Pass);
    function.call("").expect("a call");
    assert_eq!((log.read().as_str(), hook.freed()), ("closed", 1));
}

#[test]
fn code_is_despecialized_for_each_hook_that_is_added_and_for_none_that_is_removed() {
    let _engine = Engine::start();
    let before = times_despecialized();
    let hook = add(|_| Reply::Pass);
    assert_eq!(times_despecialized(), before + 1);
    assert_eq!(enable(hook.id, false), Ok(()));
    assert_eq!(enable(hook.id, false), Ok(()));
    assert_eq!(times_despecialized(), before + 1);
    assert_eq!(enable(hook.id, true), Ok(()));
    assert_eq!(enable(hook.id, true), Ok(()));
    assert_eq!(times_despecialized(), before + 2);
    assert_eq!(remove(hook.id), Ok(()));
    assert_eq!(times_despecialized(), before + 2);
}

#[test]
fn the_eval_loop_knows_whether_any_hook_may_be_called() {
    let _engine = Engine::start();
    // SAFETY: the state is live.
    let is_active = || unsafe { (*thread().state()).active };
    assert!(!is_active());
    let hooks = [(); 2].map(|()| add(|_| Reply::Pass));
    assert!(is_active());
    for (id, on, expected) in
        [(0, false, true), (1, false, false), (0, true, true), (1, true, true), (1, false, true)]
    {
        assert_eq!(enable(hooks[id].id, on), Ok(()));
        assert_eq!(is_active(), expected);
    }
    assert_eq!(remove(hooks[0].id), Ok(()));
    assert!(!is_active(), "the other one is switched off");
    assert_eq!(enable(hooks[1].id, true), Ok(()));
    assert!(is_active());
    clear();
    assert!(!is_active());
}

#[test]
fn a_block_that_is_left_removes_its_hook_unless_another_of_its_owners_lasts() {
    let _engine = Engine::start();
    let function = define(with_parameters(""), "");
    let (mut calls, owners) = (0usize, [1u64, 2]);
    let data: *mut usize = &raw mut calls;
    let enter = |owner: u64| {
        let description =
            Description { owner, ..Description::new(counting, data.cast(), c"block") };
        let id = registry::add(thread(), &description);
        id.map_err(|_| exceptions::taken().expect("an exception"))
    };
    let is_called = || {
        // SAFETY: the counter, which nothing else uses now.
        unsafe { data.write(0) };
        function.call("").expect("a call");
        // SAFETY: the counter still.
        unsafe { data.read() == 1 }
    };
    let id = enter(owners[0]).expect("a hook");
    assert_eq!(enter(owners[0]), Ok(id), "one more block, and the same hook");
    for other in [owners[1], 0] {
        assert_eq!(enter(other), Err(INSTALLED.to_string()));
    }
    let leave = |owner| registry::leave(thread(), owner).map(|hook| hook.get().id);
    let installed = |owner| registry::id_in_blocks(thread(), owner);
    assert!(is_called());
    assert_eq!(leave(owners[1]), None);
    assert_eq!(leave(owners[0]), Some(id));
    assert!(is_called());
    assert_eq!((installed(owners[0]), installed(owners[1])), (Some(id), None));
    assert_eq!(leave(owners[0]), Some(id));
    assert_eq!(installed(owners[0]), None);
    assert!(!is_called());
    // It was removed meanwhile, and installed again.
    enter(owners[0]).expect("a hook");
    clear();
    assert!(!is_called());
    let again = enter(0).expect("a hook");
    assert_eq!(leave(owners[0]), None);
    assert!(is_called());
    assert_eq!(remove(again), Ok(()));
    assert!(!is_called());
}
