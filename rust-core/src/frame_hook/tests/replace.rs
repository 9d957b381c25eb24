//! Other code in the place of a frame's own.

use super::exchange::{self, size, Below, Input, Other, Side};
use super::support::Became::{Failed, Replaced, StaysEnabled};
use super::support::*;
use crate::cpython as c;
use crate::cpython::{_PyInterpreterFrame, PyObject};
use crate::fake_cpython::code::Function;
use crate::fake_cpython::memory::{allow, with_each_allocation_failing};
use crate::fake_cpython::objects::{count, incref, set_destructor};
use crate::fake_cpython::{exceptions, frames, memory, values};
use crate::frame::{_PyFrame_MakeAndSetFrameObject, Frame};
use proptest::prelude::*;
use std::cell::Cell;
use std::ptr::null_mut;
use std::rc::Rc;

const BASE: Function = Function { name: "old", ..Function::PLAIN };

const AB: Function = Function { positional: "a b", ..BASE };

/// The outcome of a call of `old` for which a hook returns `new`: the slots with which `new` starts,
/// or the exception. The call goes through its prologue first, or comes from an evaluator: that
/// makes no difference.
fn exchanged(old: Function, new: Function, arguments: &str) -> Result<String, String> {
    let _engine = Engine::start();
    let closure = |function: Function| -> String {
        let names = function.free.split_whitespace();
        names.map(|name| format!("free-{name} ")).collect()
    };
    let function = define(old, &closure(old));
    let other = define(Function { name: "new", ..new }, &closure(new));
    let reply = Reply::Run(other.code);
    add(move |_| reply);
    let ran = function.call(arguments);
    let by_evaluator = function.call_by_evaluator(arguments);
    assert_eq!(
        ran.as_ref().map(|ran| (&ran.code, &ran.slots)),
        by_evaluator.as_ref().map(|ran| (&ran.code, &ran.slots))
    );
    let ran = ran?;
    assert_eq!((ran.code.as_str(), ran.answers), ("new", vec![Replaced, StaysEnabled]));
    assert_eq!((count(function.code.cast()), count(other.code.cast())), (1, 1));
    Ok(ran.slots)
}

#[test]
fn arguments_go_to_the_parameters_of_their_names() {
    let all = Function {
        positional: "a b",
        keyword_only: "k l m",
        star: "rest",
        double_star: "more",
        ..BASE
    };
    let cases = [
        (BASE, BASE, "", ""),
        (AB, AB, "1 2", "1 2"),
        (AB, Function { positional: "b a", ..BASE }, "1 2", "2 1"),
        (all, all, "1 2 3 4 5 6 7", "1 2 3 4 5 6 7"),
        (all, Function { keyword_only: "m k l", ..all }, "1 2 3 4 5 6 7", "1 2 5 3 4 6 7"),
        (
            all,
            Function { positional: "b a", keyword_only: "l k m", ..all },
            "1 2 3 4 5 6 7",
            "2 1 4 3 5 6 7",
        ),
        // What *args and **kwargs are called makes no difference.
        (
            all,
            Function { star: "others", double_star: "rest", ..all },
            "1 2 3 4 5 6 7",
            "1 2 3 4 5 6 7",
        ),
        // The other locals are the new code's own, and empty.
        (AB, Function { locals: "x y z", ..AB }, "1 2", "1 2 - - -"),
        (Function { locals: "x y z", ..AB }, AB, "1 2", "1 2"),
        (Function { locals: "x", ..AB }, Function { locals: "y", ..AB }, "1 2", "1 2 -"),
        // The sizes of the stacks differ.
        (AB, Function { stack: 40, ..AB }, "1 2", "1 2"),
        (Function { stack: 40, ..AB }, AB, "1 2", "1 2"),
    ];
    for (old, new, arguments, expected) in cases {
        assert_eq!(exchanged(old, new, arguments).as_deref(), Ok(expected));
    }
}

#[test]
fn cells_and_free_variables_are_made_anew_for_the_other_code() {
    let cases = [
        (Function { cells: "a", ..AB }, AB, "1 2", "1 2"),
        (AB, Function { cells: "a", ..AB }, "1 2", "[1] 2"),
        (Function { cells: "a", ..AB }, Function { cells: "b", ..AB }, "1 2", "1 [2]"),
        (Function { cells: "a b", ..AB }, Function { cells: "b a", ..AB }, "1 2", "[1] [2]"),
        (
            Function { cells: "a b", ..AB },
            Function { positional: "b a", cells: "b", ..BASE },
            "1 2",
            "[2] 1",
        ),
        (Function { cells: "x y", ..AB }, Function { cells: "x", ..AB }, "1 2", "1 2 [-]"),
        (
            Function { star: "s", cells: "s", ..AB },
            Function { star: "t", cells: "a", ..AB },
            "1 2 3",
            "[1] 2 3",
        ),
        (
            Function { free: "f g", ..AB },
            Function { free: "f g", locals: "x", ..AB },
            "1 2",
            "1 2 - [free-f] [free-g]",
        ),
        (
            Function { free: "f", cells: "a x", ..AB },
            Function { free: "f", cells: "b", ..AB },
            "1 2",
            "1 [2] [free-f]",
        ),
    ];
    for (old, new, arguments, expected) in cases {
        assert_eq!(exchanged(old, new, arguments).as_deref(), Ok(expected));
    }
}

#[test]
fn code_that_does_not_fit_is_refused_with_a_reason() {
    let number = "it has another number of parameters";
    let stars = "only one of the two has *args or **kwargs";
    let kind = "it is of another kind (function, generator, coroutine, class or module body)";
    let names = "its parameters have other names";
    let twice = "two of its parameters have one name";
    let free_number = "it has another number of free variables";
    let free_names = "its free variables have other names";
    let positional = |positional| Function { positional, ..BASE };
    let flags = |more: u32| Function { flags: BASE.flags | more, ..AB };
    let cases = [
        (AB, positional("a"), "1 2", number),
        (AB, positional("a b c"), "1 2", number),
        (AB, Function { keyword_only: "b", ..positional("a") }, "1 2", number),
        (Function { keyword_only: "b", ..positional("a") }, AB, "1 2", number),
        (AB, Function { star: "s", ..AB }, "1 2", stars),
        (Function { star: "s", ..AB }, AB, "1 2 3", stars),
        (Function { star: "s", ..AB }, Function { double_star: "s", ..AB }, "1 2 3", stars),
        (AB, flags(c::CO_GENERATOR), "1 2", kind),
        (AB, flags(c::CO_COROUTINE), "1 2", kind),
        (AB, flags(c::CO_ASYNC_GENERATOR), "1 2", kind),
        (AB, flags(c::CO_ITERABLE_COROUTINE), "1 2", kind),
        (flags(c::CO_GENERATOR), AB, "1 2", kind),
        (AB, Function { flags: c::CO_OPTIMIZED, ..AB }, "1 2", kind),
        (AB, Function { flags: c::CO_NEWLOCALS, ..AB }, "1 2", kind),
        (AB, positional("a c"), "1 2", names),
        (AB, positional("A b"), "1 2", names),
        (
            Function { keyword_only: "c", ..AB },
            Function { positional: "a c", keyword_only: "b", ..BASE },
            "1 2 3",
            names,
        ),
        (AB, Function { free: "f", ..AB }, "1 2", free_number),
        (Function { free: "f", ..AB }, AB, "1 2", free_number),
        (Function { free: "f", ..AB }, Function { free: "g", ..AB }, "1 2", free_names),
        (Function { free: "f g", ..AB }, Function { free: "g f", ..AB }, "1 2", free_names),
        (positional("a a b"), positional("b a a"), "1 2 3", twice),
        (positional("a b c"), positional("a a b"), "1 2 3", names),
        (positional("a a b"), positional("a b a"), "1 2 3", twice),
        (positional("a b"), positional("b b"), "1 2", names),
        (positional("a a"), positional("a b"), "1 2", twice),
        (positional("b a a"), positional("a b b"), "1 2 3", twice),
    ];
    for (old, new, arguments, why) in cases {
        let expected = format!(
            "framehook.IncompatibleCodeError: frame hook test: code new cannot stand in for old: {why}"
        );
        assert_eq!(
            exchanged(old, new, arguments),
            Err(expected),
            "{} {}",
            old.positional,
            new.positional
        );
    }
}

#[test]
fn code_without_resume_is_refused() {
    let _engine = Engine::start();
    let (old, new) = (define(AB, ""), define(Function { name: "new", ..AB }, ""));
    // SAFETY: a code object of the test's own.
    unsafe { (*new.code)._co_firsttraceable = (*new.code).ob_base.ob_size as i32 };
    let reply = Reply::Run(new.code);
    add(move |_| reply);
    let why = "it has no RESUME instruction";
    let expected = format!(
        "framehook.IncompatibleCodeError: frame hook test: code new cannot stand in for old: {why}"
    );
    assert_eq!(old.call("1 2"), Err(expected));
}

#[test]
fn the_message_names_the_hook_and_both_codes() {
    let _engine = Engine::start();
    let (old, new) = (define(AB, ""), define(Function { name: "other", ..BASE }, ""));
    let reply = Reply::Run(new.code);
    try_add_as("tool 7", 0, move |_| reply).expect("a hook");
    let expected =
        "framehook.IncompatibleCodeError: frame hook tool 7: code other cannot stand in \
                    for old: it has another number of parameters";
    assert_eq!(old.call("1 2"), Err(expected.to_string()));
}

#[test]
fn parameters_of_one_name_may_stay_where_they_are() {
    let twins = Function { positional: "a a b", ..BASE };
    let others = Function { positional: "a a b", locals: "x", cells: "b", ..BASE };
    assert_eq!(exchanged(twins, others, "1 2 3").as_deref(), Ok("1 2 [3] -"));
}

fn side() -> impl Strategy<Value = Side> {
    let names = |most| prop::collection::vec(0u8..6, 0..most);
    (names(6), names(4), any::<(bool, bool, u8, u8, u8, u16)>(), names(4), names(3), any::<u8>())
        .prop_map(|(positional, keyword_only, some, cells, free, kind)| {
            let (star, double_star, locals, own_cells, unmade, stack) = some;
            Side {
                positional,
                keyword_only,
                star,
                double_star,
                locals,
                cells,
                own_cells,
                unmade,
                free,
                stack,
                kind,
                has_no_resume: kind % 16 == 0,
            }
        })
}

fn other() -> impl Strategy<Value = Other> {
    let order = prop::option::weighted(0.8, prop::collection::vec(any::<u8>(), 0..6));
    (side(), order, prop::option::weighted(0.2, any::<u8>()))
        .prop_map(|(side, same_in_order, allowed)| Other { side, same_in_order, allowed })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_000))]
    /// Whatever the parameters are called, and wherever the frame lies.
    #[test]
    fn arguments_are_moved_one_to_one_or_not_at_all(
        first in side(),
        others in prop::collection::vec(other(), 1..4),
        distance in any::<Option<u8>>(),
    ) {
        exchange::run(Input { first, others, distance });
    }
}

// --- Where the frame lies. ---

#[test]
fn a_frame_of_another_size_finds_its_place_wherever_the_old_one_lies() {
    // The old frame lies that many slots before its chunk's end, or is the first of a chunk.
    for distance in [0, 1, 7, 8, 9, 40, 41, 400] {
        for (old_stack, new_stack) in
            [(4, 4), (4, 12), (12, 4), (4, 44), (4, 45), (44, 4), (4, 6000), (6000, 4)]
        {
            for first_of_chunk in [false, true] {
                let _engine = Engine::start();
                let old = define(Function { stack: old_stack, cells: "a", ..AB }, "");
                let new = define(
                    Function { stack: new_stack, positional: "b a", locals: "x", ..BASE },
                    "",
                );
                let place = if first_of_chunk { 0 } else { size(old.code) + distance };
                let _below = Below::all_but(place);
                let reply = Reply::Run(new.code);
                add(move |_| reply);
                assert_eq!(old.call("one two").map(|ran| ran.slots).as_deref(), Ok("two one -"));
            }
        }
    }
}

// --- Failure. ---

/// The contents of a frame, but for its instruction and its stage.
fn contents_of(frame: *mut _PyInterpreterFrame) -> Vec<usize> {
    // SAFETY: a live frame with all its slots.
    unsafe {
        let mut header = frame.read();
        header.instr_ptr = null_mut();
        header.return_offset = 0;
        let fixed: [usize; 9] = (&raw const header).cast::<[usize; 9]>().read();
        let slots = (*frame).stacktop as usize;
        let first: *const usize = frames::slot(frame, 0).cast();
        [&fixed[..], std::slice::from_raw_parts(first, slots)].concat()
    }
}

#[test]
fn without_memory_the_frame_stays_as_it_was() {
    let many: Vec<String> = (0..30).map(|i| format!("p{i}")).collect();
    let many = many.join(" ");
    let values: Vec<String> = (0..30).map(|i| format!("v{i}")).collect();
    let old = Function { positional: &many, cells: "p0 p7 p29 x y", free: "f", ..BASE };
    let new = Function { name: "new", stack: 9000, ..old };
    let mut steps = 0;
    let _engine = Engine::start();
    let (function, other) = (define(old, "free"), define(new, "free"));
    let log = Log::default();
    let is_armed = Rc::new(Cell::new(None));
    let (armed, notes, code) = (is_armed.clone(), log.clone(), other.code);
    add(move |frame| {
        notes.note(&frame.arguments());
        allow(armed.get());
        Reply::Run(code)
    });
    with_each_allocation_failing(|| {
        is_armed.set(memory::allowed());
        allow(None);
        let frame = function.start(&values.join(" "));
        // SAFETY: live objects, borrowed.
        let held: Vec<*mut PyObject> =
            (0..30).map(|i| unsafe { frames::slot(frame, i).read() }).collect();
        let counts: Vec<_> = held.iter().map(|it| count(*it)).collect();
        let contents = contents_of(frame);
        let ended = at_end(move |frame| {
            (frame, contents_of(frame), held.iter().map(|it| count(*it)).collect::<Vec<_>>())
        });
        let answer = dispatch();
        allow(None);
        assert!(log.read().starts_with("p0=v0 p1=v1"));
        if answer == Replaced {
            frames::end_current();
            return true;
        }
        steps += 1;
        assert_eq!(answer, Failed);
        assert_eq!(exceptions::taken(), Some("MemoryError".to_string()));
        assert_eq!(ended.take(), [(frame, contents, counts)]);
        assert_eq!(count(other.code.cast()), 1);
        false
    });
    assert_eq!(steps, 2, "what is held is kept aside, and the frame needs a chunk");
}

#[test]
fn a_frame_that_cannot_be_replaced_stays_as_it_was() {
    let old = Function { cells: "b x", free: "f", ..AB };
    for new in [
        Function { free: "f", positional: "b b", ..BASE },
        Function { positional: "b a", ..BASE },
        Function { free: "f", positional: "a a b", ..BASE },
    ] {
        let _engine = Engine::start();
        let (function, other) = (define(old, "free"), define(new, "free"));
        let reply = Reply::Run(other.code);
        add(move |_| reply);
        let frame = function.start("1 2");
        let contents = contents_of(frame);
        let ended = at_end(contents_of);
        assert_eq!(dispatch(), Failed);
        assert!(exceptions::taken().is_some_and(|it| it.starts_with("framehook.Incompatible")));
        assert_eq!(ended.take(), [contents]);
    }
}

#[test]
fn an_argument_whose_cell_was_emptied_cannot_be_moved() {
    let _engine = Engine::start();
    let old = define(Function { cells: "a b", ..AB }, "");
    let new = define(Function { name: "new", positional: "b a", ..BASE }, "");
    let reply = Reply::Run(new.code);
    add(move |_| reply);
    for number in [0, 1] {
        let frame = old.start("1 2");
        // SAFETY: one of the frame's slots, which has a cell.
        values::empty_cell(unsafe { frames::slot(frame, number).read() });
        let contents = contents_of(frame);
        let ended = at_end(contents_of);
        assert_eq!(dispatch(), Failed);
        let name = ["a", "b"][number];
        let expected = format!(
            "UnboundLocalError: parameter '{name}' has no value any more: its cell was emptied"
        );
        assert_eq!(exceptions::taken(), Some(expected));
        assert_eq!(ended.take(), [contents]);
    }
}

#[test]
fn a_parameter_that_the_prologue_makes_no_cell_of_is_moved_as_it_is() {
    let old = Function { cells: "a b", unmade: "b", ..AB };
    assert_eq!(exchanged(old, AB, "1 2").as_deref(), Ok("1 2"));
    let _engine = Engine::start();
    let (old, new) =
        (define(old, ""), define(Function { name: "new", positional: "b a", ..BASE }, ""));
    let reply = Reply::Run(new.code);
    add(move |_| reply);
    let frame = old.start("1 2");
    // SAFETY: the frame's second slot: the argument is a cell itself.
    let cell = unsafe {
        let place = frames::slot(frame, 1);
        place.write(values::cell(place.read()));
        place.read()
    };
    assert_eq!(dispatch(), Replaced);
    // SAFETY: the first slot of the frame of now.
    assert_eq!(unsafe { frames::slot(current_frame(), 0).read() }, cell);
    assert_eq!((slots_of(current_frame()).as_str(), count(cell)), ("[2] 1", 1));
    frames::end_current();
}

// --- Frame walkers. ---

#[test]
fn the_object_of_a_frame_that_is_replaced_keeps_what_it_shows() {
    let _engine = Engine::start();
    let old = define(Function { cells: "b", locals: "x", ..AB }, "");
    let new = define(Function { name: "new", positional: "b a", ..BASE }, "");
    let code = new.code;
    let is_kept = Rc::new(Cell::new(false));
    let made = Rc::new(Cell::new(null_mut()));
    let (place, kept) = (made.clone(), is_kept.clone());
    add(move |frame| {
        // SAFETY: a frame of this thread, which has no object.
        let object = unsafe { _PyFrame_MakeAndSetFrameObject(frame.0) };
        assert!(!object.is_null());
        if kept.get() {
            // SAFETY: alive.
            unsafe { incref(object.cast()) };
            place.set(object);
        }
        Reply::Run(code)
    });
    for keep in [false, true] {
        is_kept.set(keep);
        let expected = Ran {
            code: "new".to_string(),
            slots: "two one".to_string(),
            answers: vec![Replaced, StaysEnabled],
        };
        assert_eq!(old.call("one two"), Ok(expected));
    }
    let object = Own(made.get());
    // SAFETY: a live object with a frame of its own.
    unsafe {
        let own = (*object.0).f_frame;
        assert_eq!((*own).owner, c::FRAME_OWNED_BY_FRAME_OBJECT);
        assert_eq!((*own).f_executable, old.code.cast());
        assert_eq!(slots_of(own), "one [two] -");
        assert!(!Frame::new(own).is_incomplete());
    }
}

#[test]
fn a_destructor_that_runs_while_a_frame_is_replaced_sees_the_new_one() {
    let _engine = Engine::start();
    let old = define(Function { cells: "x", ..AB }, "");
    let new = define(Function { name: "new", positional: "b a", stack: 5000, ..BASE }, "");
    let seen = Rc::new(Cell::new(0));
    let reply = Reply::Run(new.code);
    add(move |_| reply);
    let frame = old.start("1 2");
    // SAFETY: the slot of the cell.
    let cell = unsafe { frames::slot(frame, 2).read() };
    let (code, looks) = (new.code, seen.clone());
    set_destructor(Some(Rc::new(move |object| {
        if object == cell {
            // SAFETY: the thread's current frame.
            unsafe {
                assert_eq!((*current_frame()).f_executable, code.cast());
                assert!(Frame::new(current_frame()).is_incomplete());
            }
            looks.set(looks.get() + 1);
        }
    })));
    assert_eq!(dispatch(), Replaced);
    set_destructor(None);
    assert_eq!((seen.get(), slots_of(current_frame()).as_str()), (1, "2 1"));
    frames::end_current();
}
