//! Frames that hooks watch: their shims, their data, and scopes.

use super::exchange::{size, Below};
use super::support::Became::{Answered, Failed, Replaced, StaysEnabled};
use super::support::*;
use super::watchers::{named, shims_below, value, Caller, Watchers, Wish, PASSES, WATCHES};
use crate::cpython as c;
use crate::fake_cpython::code::Function;
use crate::fake_cpython::{exceptions, frames, memory, values};
use crate::frame_hook::c_types::*;
use crate::frame_hook::notify::drop_watches_of;
use crate::frame_hook::watch::Watch;
use std::ptr::null_mut;

// --- Events. ---

#[test]
fn exit_callbacks_run_in_the_reverse_order_of_entry_callbacks() {
    let mut watchers = Watchers::start();
    let (main, function, other) = (named("main"), named("function"), named("other"));
    for name in ["a", "b", "c"] {
        watchers.add(name, WATCHES);
    }
    let caller = Caller::begin(&main);
    for _ in 0..3 {
        assert_eq!(caller.call(&function, ""), value("function"));
        let text = "a?function b?function c?function c:function:returned(function) \
                    b:function:returned(function) a:function:returned(function)";
        assert_eq!(watchers.log.read(), text);
    }
    assert_eq!(caller.call(&other, ""), value("other"));
    assert_eq!(watchers.log.read(), "a?other b?other c?other");
    assert_eq!(watchers.ends(), [1; 9]);
}

#[test]
fn each_hook_has_a_shim_below_the_frame_and_none_is_left_in_a_list() {
    let mut watchers = Watchers::start();
    let (main, function) = (named("main"), named("function"));
    watchers.add("a", WATCHES);
    watchers.add("b", WATCHES);
    let caller = Caller::begin(&main);
    let frame = function.start("");
    assert_eq!((dispatch(), shims_below(frame)), (StaysEnabled, 2));
    // SAFETY: the thread's own list.
    unsafe { assert!(Watch::first_of(thread().its_state(), &thread().not_stopped()).is_some()) };
    assert_eq!(caller.end(), Ok("function".to_string()));
    // SAFETY: the thread's own list still.
    unsafe { assert!(Watch::first_of(thread().its_state(), &thread().not_stopped()).is_none()) };
}

#[test]
fn exit_callbacks_get_an_exception_and_it_propagates() {
    let mut watchers = Watchers::start();
    let (main, function) = (named("main"), named("function"));
    watchers.add("a", WATCHES);
    watchers.add("b", WATCHES);
    let caller = Caller::begin(&main);
    function.start("");
    assert_eq!(dispatch(), StaysEnabled);
    watchers.log.read();
    let raised = caller.fail().expect_err("an exception");
    assert!(raised.contains("raised"), "{raised}");
    let text = format!("b:function:raised({raised}) a:function:raised({raised})");
    assert_eq!(watchers.log.read(), text);
    assert_eq!(watchers.ends(), [1, 1]);
}

#[test]
fn a_callback_that_fails_fails_the_call_and_the_others_still_run() {
    for fails in [FRAMEHOOK_RETURNED, FRAMEHOOK_RAISED] {
        let mut watchers = Watchers::start();
        let (main, function) = (named("main"), named("function"));
        watchers.add("a", WATCHES);
        watchers.add("b", Wish { fails: Some(fails), ..WATCHES });
        let caller = Caller::begin(&main);
        function.start("");
        assert_eq!(dispatch(), StaysEnabled);
        let came = if fails == FRAMEHOOK_RAISED { caller.fail() } else { caller.end() };
        let raised = came.expect_err("an exception");
        assert!(raised.contains('b'), "{raised}");
        let log = watchers.log.read();
        assert!(log.ends_with(&format!("a:function:raised({raised})")), "{log}");
        assert_eq!(watchers.ends(), [1, 1]);
    }
}

#[test]
fn a_call_that_does_not_run_has_exit_callbacks() {
    for (verdict, became, event) in
        [(FRAMEHOOK_ERROR, Failed, "raised"), (FRAMEHOOK_RESULT, Answered, "returned(given)")]
    {
        let mut watchers = Watchers::start();
        let (main, function) = (named("main"), named("function"));
        watchers.add("a", WATCHES);
        let object = if verdict == FRAMEHOOK_RESULT { values::text("given") } else { null_mut() };
        let given = (!object.is_null()).then(|| Own(object));
        watchers.add("b", Wish { verdict, object, ..PASSES });
        let caller = Caller::begin(&main);
        let (came, answers) = caller.call(&function, "");
        assert_eq!((came.is_ok(), answers), (verdict == FRAMEHOOK_RESULT, vec![became]));
        let log = watchers.log.read();
        assert!(log.starts_with(&format!("a?function b?function a:function:{event}")), "{log}");
        assert_eq!(watchers.ends(), [1]);
        drop((caller, given));
    }
}

#[test]
fn a_removed_hook_gets_no_event_and_its_data_is_freed_at_the_end() {
    let mut watchers = Watchers::start();
    let (main, function) = (named("main"), named("function"));
    let (first, _) = (watchers.add("a", WATCHES), watchers.add("b", WATCHES));
    let caller = Caller::begin(&main);
    function.start("");
    assert_eq!(dispatch(), StaysEnabled);
    assert_eq!(remove(first), Ok(()));
    assert_eq!(watchers.watchers[0].freed.get(), 1, "what it watches does not keep the user data");
    watchers.log.read();
    assert_eq!(caller.end(), Ok("function".to_string()));
    assert_eq!(watchers.log.read(), "b:function:returned(function)");
    assert_eq!(watchers.watchers[0].freed.get(), 1);
    assert_eq!(watchers.ends(), [0, 1]);
}

#[test]
fn frames_that_never_run_again_are_dropped_and_their_shims_stay() {
    let mut watchers = Watchers::start();
    let (main, function) = (named("main"), named("function"));
    watchers.add("a", WATCHES);
    let caller = Caller::begin(&main);
    let inner = [function.start(""), null_mut()];
    assert_eq!(dispatch(), StaysEnabled);
    let frames = [inner[0], function.start("")];
    assert_eq!(dispatch(), StaysEnabled);
    watchers.log.read();
    // SAFETY: the thread's own watches.
    unsafe { drop_watches_of(thread(), thread().its_state()) };
    assert_eq!(watchers.log.read(), "a:function:dropped a:function:dropped");
    assert_eq!(watchers.ends(), [1, 1]);
    for frame in frames {
        assert_eq!(shims_below(frame), 1);
    }
    // They continue after all, as no thread does that has ended: no event is delivered any more.
    for _ in frames {
        let before = current_frame();
        frames::end_current();
        let shim = current_frame();
        assert!(is_return_shim(shim) && before != shim);
        // The frame below the shim continues.
        exceptions::raise_value_error("x");
        return_to_shim();
        exceptions::taken();
    }
    assert_eq!(watchers.log.read(), "");
    drop(caller);
}

// --- Frames that move. ---

#[test]
fn a_frame_that_moves_over_a_chunks_edge_takes_its_shims_along() {
    for distance in [0, 1, 7, 8, 9, 40, 41, 400] {
        for new_stack in [1, 4, 12, 44, 45, 6000] {
            let mut watchers = Watchers::start();
            let main = named("main");
            let old = named("function");
            let new = define(Function { name: "other", stack: new_stack, ..Function::PLAIN }, "");
            let object = new.code.cast();
            watchers.add("a", WATCHES);
            let replaces = Wish { verdict: FRAMEHOOK_REPLACE, object, ..WATCHES };
            watchers.add("b", replaces);
            watchers.add("c", Wish { of: "other", scope: FRAMEHOOK_EXCLUDE_CALLEES, ..WATCHES });
            let _below = Below::all_but(size(old.code) + distance + size(main.code));
            let caller = Caller::begin(&main);
            old.start("");
            assert_eq!(dispatch(), Replaced);
            assert_eq!(shims_below(current_frame()), 3, "{distance} {new_stack}");
            frames::run_prologue(current_frame());
            assert_eq!(dispatch(), StaysEnabled);
            assert_eq!(shims_below(current_frame()), 3);
            watchers.log.read();
            assert_eq!(caller.end(), Ok("other".to_string()));
            let text = ["c", "b", "a"].map(|name| format!("{name}:other:returned(other)"));
            assert_eq!(watchers.log.read(), text.join(" "));
            assert_eq!(watchers.ends(), [1, 1, 1]);
            drop(caller);
        }
    }
}

// --- Without memory. ---

#[test]
fn data_is_freed_once_whichever_allocation_fails() {
    let mut failures = 0;
    memory::with_each_allocation_failing(|| {
        let allowed = memory::allowed();
        memory::allow(None);
        let mut watchers = Watchers::start();
        let (main, function) = (named("main"), named("function"));
        let other = define(Function { name: "other", stack: 60, ..Function::PLAIN }, "");
        let wish = Wish { verdict: FRAMEHOOK_REPLACE, object: other.code.cast(), ..WATCHES };
        watchers.add("a", Wish { scope: FRAMEHOOK_ONLY_CALLEES, ..WATCHES });
        watchers.add("b", wish);
        watchers.add("c", Wish { of: "other", ..WATCHES });
        let caller = Caller::begin(&main);
        let frame = function.start("");
        memory::allow(allowed);
        let mut became = dispatch();
        if became == Replaced {
            frames::run_prologue(current_frame());
            became = dispatch();
        }
        let is_enough = memory::allowed() != Some(0);
        memory::allow(None);
        if became == Failed {
            failures += 1;
            let raised = caller.unwind().expect_err("an exception");
            assert!(raised.contains("MemoryError"), "{raised}");
        } else {
            assert_ne!(current_frame(), caller.frame, "{frame:?}");
            assert_eq!(caller.end(), Ok("other".to_string()));
        }
        // Each that watches gets the exit event, and the one without memory does not.
        let ends = watchers.ends();
        assert!(ends.iter().filter(|ends| **ends == 0).count() <= 1, "{ends:?}");
        drop(caller);
        became != Failed && is_enough
    });
    assert!(failures >= 3, "each of the three watches needs memory: {failures}");
}

#[test]
fn memory_for_watches_is_kept_for_later_ones() {
    let mut watchers = Watchers::start();
    let (main, function) = (named("main"), named("function"));
    watchers.add("a", WATCHES);
    let caller = Caller::begin(&main);
    assert_eq!(caller.call(&function, ""), value("function"));
    memory::allow(Some(0));
    function.start("");
    let became = dispatch();
    memory::allow(None);
    assert_eq!((became, caller.end()), (StaysEnabled, Ok("function".to_string())));
}

// --- Scopes. ---

#[test]
fn a_scope_excludes_callees_until_its_frame_is_left() {
    for scope in
        [FRAMEHOOK_EXCLUDE_CALLEES, FRAMEHOOK_ONLY_CALLEES, FRAMEHOOK_ONLY_CALLEES_EVERYWHERE]
    {
        let mut watchers = Watchers::start();
        let (main, function, other) = (named("main"), named("function"), named("other"));
        watchers.add("a", Wish { scope, ..PASSES });
        watchers.add("b", PASSES);
        let caller = Caller::begin(&main);
        function.start("");
        assert_eq!(dispatch(), StaysEnabled);
        watchers.log.read();
        let inner = Caller::begin(&main);
        assert_eq!(inner.call(&other, ""), value("other"));
        drop(inner);
        let inside = watchers.log.read();
        let expected =
            if scope == FRAMEHOOK_EXCLUDE_CALLEES { "b?other" } else { "a?other b?other" };
        assert_eq!(inside, expected);
        assert_eq!(caller.end(), Ok("function".to_string()));
        assert_eq!(caller.call(&other, ""), value("other"));
        assert_eq!(watchers.log.read(), "a?other b?other");
        // A scope alone delivers no event.
        assert_eq!(watchers.ends(), [0]);
    }
}

#[test]
fn a_scope_holds_on_its_own_stack_alone() {
    for (scope, here, elsewhere) in [
        (FRAMEHOOK_EXCLUDE_CALLEES, "b?other", "a?other b?other"),
        (FRAMEHOOK_ONLY_CALLEES, "a?other b?other", "a?other b?other"),
        (FRAMEHOOK_ONLY_CALLEES_EVERYWHERE, "a?other b?other", "b?other"),
    ] {
        let mut watchers = Watchers::start();
        let (main, function, other) = (named("main"), named("function"), named("other"));
        watchers.add("a", Wish { scope, ..PASSES });
        watchers.add("b", PASSES);
        let caller = Caller::begin(&main);
        function.start("");
        assert_eq!(dispatch(), StaysEnabled);
        watchers.log.read();
        let mut fields = [null_mut(); 4];
        for _ in 0..2 {
            swap_stacks(&mut fields);
            assert_eq!(other.call("").map(|ran| ran.code), Ok("other".to_string()));
            assert_eq!(watchers.log.read(), elsewhere);
            swap_stacks(&mut fields);
            assert_eq!(other.call("").map(|ran| ran.code), Ok("other".to_string()));
            assert_eq!(watchers.log.read(), here);
        }
        // SAFETY: the other stack is empty, and its one chunk is its own.
        unsafe {
            let chunk: *mut c::_PyStackChunk = fields[1].cast();
            memory::_PyObject_VirtualFree(chunk.cast(), (*chunk).size);
        }
        assert_eq!(caller.end(), Ok("function".to_string()));
    }
}

// --- Before an evaluator. ---

#[test]
fn what_an_evaluator_runs_returns_through_the_shims() {
    let mut watchers = Watchers::start();
    let (main, function, other) = (named("main"), named("function"), named("other"));
    let object = other.code.cast();
    let id = watchers.add("a", Wish { scope: FRAMEHOOK_EXCLUDE_CALLEES, ..PASSES });
    watchers.add("b", Wish { verdict: FRAMEHOOK_REPLACE, object, ..PASSES });
    let caller = Caller::begin(&main);
    for _ in 0..2 {
        let ran = function.call_by_evaluator("").map(|ran| ran.code);
        assert_eq!(ran, Ok("other".to_string()));
        assert_eq!(watchers.log.read(), "a?function b?function");
        assert_eq!(current_frame(), caller.frame);
        // SAFETY: the thread's own list.
        unsafe {
            assert!(Watch::first_of(thread().its_state(), &thread().not_stopped()).is_none())
        };
    }
    assert_eq!(watchers.ends(), [0, 0]);
    assert_eq!(remove(id), Ok(()));
    watchers.add("c", Wish { verdict: FRAMEHOOK_ERROR, of: "other", ..PASSES });
    watchers.add("d", WATCHES);
    assert!(function.call_by_evaluator("").is_err());
    drop(caller);
}

#[test]
fn a_call_that_fails_before_its_evaluator_has_exit_callbacks() {
    let mut watchers = Watchers::start();
    let (main, function) = (named("main"), named("function"));
    watchers.add("a", WATCHES);
    watchers.add("b", WATCHES);
    watchers.add("c", Wish { verdict: FRAMEHOOK_ERROR, ..PASSES });
    let caller = Caller::begin(&main);
    let raised = function.call_by_evaluator("").expect_err("an exception");
    let text = format!(
        "a?function b?function c?function b:function:raised({raised}) \
         a:function:raised({raised})"
    );
    assert_eq!(watchers.log.read(), text);
    assert_eq!(watchers.ends(), [1, 1]);
    assert_eq!(current_frame(), caller.frame);
}
