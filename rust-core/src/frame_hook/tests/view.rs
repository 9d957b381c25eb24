//! What a hook may read of a frame.

use super::support::*;
use crate::fake_cpython::code::Function;
use crate::fake_cpython::objects::{count, decref};
use crate::fake_cpython::{exceptions, frames, values};
use crate::frame_hook::c_api::frames::*;
use std::cell::Cell;
use std::ptr::null_mut;
use std::rc::Rc;

const EXPIRED: &str =
    "RuntimeError: this frame is not being dispatched: an entry callback may read it until it returns";
const NO_SUCH_NUMBER: &str = "IndexError: the code has no parameter of that number";

/// What `look` writes down of the frame of a call with these arguments, at its `RESUME` and before
/// an evaluator.
fn seen(
    function: &Defined,
    arguments: &str,
    look: impl Fn(EntryFrame) -> String + 'static,
) -> String {
    let log = Log::default();
    let notes = log.clone();
    let hook = add(move |frame| {
        notes.note(&look(frame));
        Reply::Pass
    });
    function.call(arguments).expect("a call");
    let seen = log.read();
    function.call_by_evaluator(arguments).expect("a call");
    assert_eq!(log.read(), seen, "the prologue makes no difference");
    assert_eq!(remove(hook.id), Ok(()));
    seen
}

#[test]
fn arguments_are_read_by_number_and_by_name() {
    let all = Function {
        positional: "a b",
        keyword_only: "k",
        star: "rest",
        double_star: "more",
        locals: "x y",
        ..Function::PLAIN
    };
    for (function, arguments, expected) in [
        (Function::PLAIN, "", ""),
        (with_parameters("a"), "1", "a=1"),
        (all, "1 2 3 4 5", "a=1 b=2 k=3 rest=4 more=5"),
        (
            Function { cells: "b z rest", free: "f", ..all },
            "1 2 3 4 5",
            "a=1 b=2 k=3 rest=4 more=5",
        ),
    ] {
        let _engine = Engine::start();
        let closure = if function.free.is_empty() { "" } else { "content" };
        let function = define(function, closure);
        assert_eq!(seen(&function, arguments, EntryFrame::arguments), expected);
        let by_name = |frame: EntryFrame| {
            let each = (0..frame.count()).map(|index| {
                let name = frame.argument_name(index).expect("a name");
                format!("{name}={}", frame.argument_named(&name).expect("a value"))
            });
            each.collect::<Vec<_>>().join(" ")
        };
        assert_eq!(seen(&function, arguments, by_name), expected);
    }
}

#[test]
fn there_are_no_other_numbers_and_no_other_names() {
    let _engine = Engine::start();
    let function =
        define(Function { locals: "x", cells: "c", free: "f", ..with_parameters("a b") }, "free");
    for index in [-1, 2, 3, isize::MAX, isize::MIN] {
        let look = move |frame: EntryFrame| {
            let (value, name) = (frame.argument(index), frame.argument_name(index));
            assert_eq!(value, name);
            value.unwrap_err()
        };
        assert_eq!(seen(&function, "1 2", look), NO_SUCH_NUMBER);
    }
    for name in ["x", "c", "f", "", "A"] {
        let look = move |frame: EntryFrame| frame.argument_named(name).unwrap_err();
        assert_eq!(
            seen(&function, "1 2", look),
            format!("KeyError: {name}").trim_end_matches(": ")
        );
    }
    let number = Own(values::tuple(vec![]));
    let key = number.0;
    let look = move |frame: EntryFrame| frame.argument_by(key).unwrap_err();
    assert_eq!(seen(&function, "1 2", look), "TypeError: the name of a parameter is a str");
}

#[test]
fn code_function_globals_and_builtins_are_the_frames_own() {
    let _engine = Engine::start();
    let function = define(with_parameters("a"), "");
    let expected = function.function.0;
    let code = function.code;
    let look = move |frame: EntryFrame| {
        // SAFETY: a frame that is being dispatched.
        let found = unsafe {
            [
                PyUnstable_FrameHook_GetCode(frame.0),
                PyUnstable_FrameHook_GetFunction(frame.0),
                PyUnstable_FrameHook_GetGlobals(frame.0),
                PyUnstable_FrameHook_GetBuiltins(frame.0),
            ]
        };
        // SAFETY: a live function; new references.
        unsafe {
            let wanted =
                [code.cast(), expected.cast(), (*expected).func_globals, (*expected).func_builtins];
            let before = wanted.map(count);
            found.iter().for_each(|it| decref(*it));
            let after = wanted.map(count);
            format!("{} {}", found == wanted, (0..4).all(|i| before[i] == after[i] + 1))
        }
    };
    assert_eq!(seen(&function, "1", look), "true true");
}

#[test]
fn a_frame_can_be_read_until_its_dispatch_ends() {
    let _engine = Engine::start();
    let function = define(with_parameters("a"), "");
    let name = Own(values::text("a"));
    let kept = Rc::new(Cell::new(null_mut()));
    let place = kept.clone();
    add(move |frame| {
        place.set(frame.0);
        Reply::Pass
    });
    let frame = function.start("1");
    let entry = EntryFrame(frame);
    let expired = |what: Result<String, String>| assert_eq!(what, Err(EXPIRED.to_string()));
    for is_over in [false, true] {
        if is_over {
            dispatch();
            assert_eq!(kept.get(), frame);
        }
        expired(entry.code());
        expired(entry.argument(0));
        expired(entry.argument_name(0));
        expired(entry.argument_by(name.0));
        assert_eq!(entry.count(), -1);
        assert_eq!(exceptions::taken(), Some(EXPIRED.to_string()));
        for get in [
            PyUnstable_FrameHook_GetFunction,
            PyUnstable_FrameHook_GetGlobals,
            PyUnstable_FrameHook_GetBuiltins,
        ] {
            // SAFETY: a live frame.
            assert!(unsafe { get(frame) }.is_null());
            assert_eq!(exceptions::taken(), Some(EXPIRED.to_string()));
        }
    }
    frames::end_current();
}

#[test]
fn a_caller_that_is_dispatched_can_be_read_while_its_hook_calls() {
    let _engine = Engine::start();
    let function = define(with_parameters("a"), "");
    let inner = define(with_parameters("b"), "");
    let look = move |frame: EntryFrame| {
        inner.call("2").expect("a call");
        frame.arguments()
    };
    assert_eq!(seen(&function, "1", look), "a=1");
}

#[test]
fn an_argument_whose_cell_was_emptied_has_no_value() {
    let _engine = Engine::start();
    let function = define(Function { cells: "b", ..with_parameters("a b c") }, "");
    let log = Log::default();
    let notes = log.clone();
    add(move |frame| {
        let empty = "UnboundLocalError: parameter 'b' has no value any more: its cell was emptied";
        assert_eq!(frame.argument(1), Err(empty.to_string()));
        assert_eq!(frame.argument_named("b"), Err(empty.to_string()));
        assert_eq!(frame.argument_name(1), Ok("b".to_string()));
        notes.note(&format!("{:?} {:?}", frame.argument(0), frame.argument_named("c")));
        Reply::Pass
    });
    let frame = function.start("1 2 3");
    // SAFETY: the frame's second slot, which has a cell.
    values::empty_cell(unsafe { frames::slot(frame, 1).read() });
    dispatch();
    assert_eq!(log.read(), "Ok(\"1\") Ok(\"3\")");
    frames::end_current();
}

#[test]
fn a_parameter_that_the_prologue_makes_no_cell_of_is_a_plain_argument() {
    let _engine = Engine::start();
    let by_hand = Function { cells: "a b", unmade: "b", ..with_parameters("a b") };
    let function = define(by_hand, "");
    assert_eq!(seen(&function, "1 2", EntryFrame::arguments), "a=1 b=2");
    // Even where the argument is a cell.
    let log = Log::default();
    let notes = log.clone();
    add(move |frame| {
        notes.note(&frame.arguments());
        Reply::Pass
    });
    let frame = function.start("1 2");
    // SAFETY: the frame's second slot.
    unsafe {
        let place = frames::slot(frame, 1);
        place.write(values::cell(place.read()));
    }
    dispatch();
    assert_eq!(log.read(), "a=1 b=a cell");
    frames::end_current();
}

#[test]
fn cells_beyond_the_first_two_hundred_and_fifty_six_are_found() {
    let _engine = Engine::start();
    let names: Vec<String> = (0..300).map(|i| format!("p{i}")).collect();
    let values: Vec<String> = (0..300).map(|i| i.to_string()).collect();
    let function =
        define(Function { cells: "p3 p255 p256 p299", ..with_parameters(&names.join(" ")) }, "");
    let look = |frame: EntryFrame| {
        [3, 4, 255, 256, 257, 299].map(|i| frame.argument(i).expect("a value")).join(" ")
    };
    assert_eq!(seen(&function, &values.join(" "), look), "3 4 255 256 257 299");
}
