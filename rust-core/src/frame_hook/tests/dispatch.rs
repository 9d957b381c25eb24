//! Dispatching a frame.

use super::support::Became::{Disabled, Failed, Replaced, StaysEnabled};
use super::support::*;
use crate::code_extra::_PyRust_FiniCodeExtra;
use crate::cpython as c;
use crate::cpython::{_PyInterpreterFrame, PyCodeObject, PyInterpreterState};
use crate::eval_frame::_PyInterpreterState_SetEvalFrameFunc;
use crate::fake_cpython::code::Function;
use crate::fake_cpython::objects::count;
use crate::fake_cpython::threads::{Attached, PyThreadState_Get, RESULT_OF_THE_LOOP};
use crate::fake_cpython::{exceptions, frames, memory, objects, values};
use crate::frame::{_PyFrame_MakeAndSetFrameObject, Frame};
use crate::frame_hook::eval_loop::_PyRust_Instrument;
use crate::frame_hook::registry;
use std::cell::{Cell, RefCell};
use std::ptr::null_mut;
use std::rc::Rc;
use std::sync::atomic::Ordering;

fn ran(code: &str, slots: &str, answers: &[super::support::Became]) -> Result<Ran, String> {
    Ok(Ran { code: code.to_string(), slots: slots.to_string(), answers: answers.to_vec() })
}

/// A function with that name and no parameters.
fn named(name: &str) -> Defined {
    define(Function { name, ..Function::PLAIN }, "")
}

// --- Answers. ---

#[test]
fn without_hooks_no_frame_is_dispatched() {
    let _engine = Engine::start();
    let function = define(
        Function { positional: "a b", cells: "b", locals: "x", free: "c", ..Function::PLAIN },
        "see",
    );
    let expected = ran("function", "one [two] - [see]", &[Disabled]);
    assert_eq!(function.call("one two"), expected);
    let gone = add(|_| Reply::Pass);
    assert_eq!(remove(gone.id), Ok(()));
    assert_eq!(function.call("one two"), expected);
}

#[test]
fn a_call_runs_unchanged_if_hooks_pass_or_are_disabled() {
    for (replies, answers) in [
        (vec![Reply::Pass], [StaysEnabled, StaysEnabled]),
        (vec![Reply::Disable], [Disabled, Disabled]),
        (vec![Reply::Disable, Reply::Pass], [StaysEnabled, StaysEnabled]),
        (vec![Reply::Disable, Reply::Disable], [Disabled, Disabled]),
    ] {
        let _engine = Engine::start();
        let function = define(Function { positional: "a", cells: "a", ..Function::PLAIN }, "");
        for reply in replies {
            add(move |_| reply);
        }
        for answer in answers {
            assert_eq!(function.call("x"), ran("function", "[x]", &[answer]));
        }
    }
}

#[test]
fn the_code_of_an_answer_runs_in_the_place_of_the_frames_own() {
    let _engine = Engine::start();
    let (function, other) = (named("own"), named("other"));
    let reply = Reply::Run(other.code);
    add(move |_| reply);
    let expected = ran("other", "", &[Replaced, StaysEnabled]);
    assert_eq!(function.call(""), expected);
    assert_eq!(function.call(""), expected);
    assert_eq!(
        other.call(""),
        ran("other", "", &[StaysEnabled]),
        "its own code is none but its own"
    );
}

#[test]
fn the_hooks_after_a_replacement_see_the_other_code() {
    let _engine = Engine::start();
    let log = Log::default();
    let functions = ["own", "second", "third"].map(named);
    let seeing = |name: &'static str, reply| {
        let log = log.clone();
        add(move |frame| {
            log.note(&format!("{name}:{}", frame.code().expect("code")));
            reply
        })
    };
    seeing("a", Reply::Pass);
    seeing("b", Reply::Run(functions[1].code));
    seeing("c", Reply::Run(functions[2].code));
    seeing("d", Reply::Pass);
    assert_eq!(functions[0].call(""), ran("third", "", &[Replaced, StaysEnabled]));
    assert_eq!(log.read(), "a:own b:own c:second d:third");
}

#[test]
fn a_hook_that_is_disabled_for_the_other_code_is_not_called_for_it() {
    let _engine = Engine::start();
    let log = Log::default();
    let (own, other) = (named("own"), named("other"));
    log.add("first", Reply::Run(other.code));
    let second = log.add("second", Reply::Pass);
    assert_eq!(enable_for_code(second.id, other.code, false), Ok(()));
    assert_eq!(own.call(""), ran("other", "", &[Replaced, StaysEnabled]));
    assert_eq!(log.read(), "first");
}

#[test]
fn resume_may_be_specialized_after_a_replacement_if_all_hooks_are_disabled() {
    let _engine = Engine::start();
    let (own, other) = (named("own"), named("other"));
    let code = other.code;
    add(
        move |frame| {
            if frame.code() == Ok("own".to_string()) {
                Reply::Run(code)
            } else {
                Reply::Disable
            }
        },
    );
    assert_eq!(other.call(""), ran("other", "", &[Disabled]));
    assert_eq!(own.call(""), ran("other", "", &[Replaced, Disabled]));
}

#[test]
fn answers_that_make_no_sense_fail_the_call() {
    let _engine = Engine::start();
    let (function, other) = (named("own"), named("other"));
    let text = Own(values::text("no code"));
    let no_exception = "SystemError: frame hook test answered with an error and set no exception";
    let unknown =
        "SystemError: frame hook test answered with a verdict that is unknown, or does not go \
                   with its object";
    let no_code = "TypeError: frame hook test returned neither None nor framehook.DISABLE nor a \
                   function or code object, but an object of type str";
    for (reply, expected) in [
        (Reply::Raise("no"), "ValueError: no"),
        (Reply::Raw(-1, null_mut()), no_exception),
        (Reply::Raw(-1, other.code.cast()), no_exception),
        (Reply::Raw(-2, null_mut()), unknown),
        (Reply::Raw(3, null_mut()), unknown),
        (Reply::Raw(1, null_mut()), unknown),
        (Reply::Raw(0, other.code.cast()), unknown),
        (Reply::Raw(2, other.code.cast()), unknown),
        (Reply::RunObject(text.0), no_code),
    ] {
        let log = Log::default();
        let hook = add(move |_| reply);
        let later = log.add("later", Reply::Pass);
        assert_eq!(function.call(""), Err(expected.to_string()));
        assert_eq!(log.read(), "", "no hook is called after a failure");
        assert_eq!((count(text.0), count(other.code.cast())), (1, 1));
        assert_eq!(remove(hook.id), Ok(()));
        assert_eq!(function.call(""), ran("own", "", &[StaysEnabled]));
        assert_eq!(remove(later.id), Ok(()));
    }
}

#[test]
fn an_exception_fails_the_call_whatever_the_hook_answers() {
    let _engine = Engine::start();
    let (function, other) = (named("own"), named("other"));
    for reply in [Reply::Pass, Reply::Disable, Reply::Run(other.code), Reply::Raw(7, null_mut())] {
        let hook = add(move |_| {
            exceptions::raise_value_error("set");
            reply
        });
        assert_eq!(function.call(""), Err("ValueError: set".to_string()));
        assert_eq!(count(other.code.cast()), 1);
        assert_eq!(remove(hook.id), Ok(()));
    }
    add(|_| Reply::Pass);
    assert_eq!(function.call(""), ran("own", "", &[StaysEnabled]), "no hook was disabled");
}

#[test]
fn the_frames_own_code_as_an_answer_is_a_pass() {
    let _engine = Engine::start();
    let function = named("own");
    let reply = Reply::Run(function.code);
    add(move |_| reply);
    assert_eq!(function.call(""), ran("own", "", &[StaysEnabled]));
    assert_eq!(count(function.code.cast()), 1);
}

#[test]
fn calls_replacements_errors_and_time_are_counted() {
    let _engine = Engine::start();
    let (function, other) = (named("own"), named("other"));
    let replies = [Reply::Pass, Reply::Run(other.code), Reply::Raise("no"), Reply::Disable];
    let next = RefCell::new(replies.into_iter());
    let timed = try_add_as("timed", 1, move |_| next.borrow_mut().next().expect("a reply"))
        .expect("a hook");
    let plain = add(|_| Reply::Pass);
    for _ in replies {
        let _ = function.call("");
    }
    let counted = |id| {
        let in_use = registry::find(thread(), id).expect("a hook");
        let hook = in_use.get();
        [&hook.calls, &hook.replacements, &hook.errors, &hook.nanoseconds]
            .map(|counter| counter.load(Ordering::Relaxed))
    };
    assert_eq!(counted(timed.id), [4, 1, 1, 4], "the clock advances by one in each call");
    assert_eq!(counted(plain.id), [3, 0, 0, 0]);
}

#[test]
fn a_call_runs_its_own_code_if_a_hook_gives_the_function_another() {
    let _engine = Engine::start();
    let kinds = [c::CO_OPTIMIZED | c::CO_NEWLOCALS, c::CO_GENERATOR];
    for (own, other) in [(kinds[0], kinds[1]), (kinds[1], kinds[0])] {
        let shape = |name, flags| Function { name, flags, cells: "a", ..with_parameters("a") };
        let (function, other) = (define(shape("own", own), ""), define(shape("other", other), ""));
        let (object, code) = (function.function.0, other.code);
        let hook = add(move |_| {
            // SAFETY: alive, both of them; the function's reference to its code is given up.
            unsafe {
                objects::incref(code.cast());
                let before = std::mem::replace(&mut (*object).func_code, code.cast());
                objects::decref(before);
            }
            Reply::Pass
        });
        assert_eq!(function.call("x"), ran("own", "[x]", &[StaysEnabled]));
        assert_eq!(function.call("x"), ran("other", "[x]", &[StaysEnabled]));
        assert_eq!(remove(hook.id), Ok(()));
    }
}

// --- Hooks that are added and removed in a dispatch. ---

#[test]
fn a_hook_that_is_added_in_a_dispatch_is_called_from_the_next_one_on() {
    let _engine = Engine::start();
    let log = Log::default();
    let function = named("own");
    let (notes, added) = (log.clone(), Cell::new(false));
    add(move |_| {
        notes.note("first");
        if !added.replace(true) {
            notes.add("new", Reply::Pass);
        }
        Reply::Disable
    });
    assert_eq!(function.call(""), ran("own", "", &[StaysEnabled]), "the new one has not seen it");
    assert_eq!(log.read(), "first");
    function.call("").expect("a call");
    assert_eq!(log.read(), "new");
}

#[test]
fn a_hook_that_is_removed_or_disabled_in_a_dispatch_is_not_called_any_more() {
    type Work = fn(i64) -> Result<(), String>;
    let works: [Work; 3] = [
        remove,
        |id| enable(id, false),
        |_| {
            clear();
            Ok(())
        },
    ];
    for work in works {
        let _engine = Engine::start();
        let log = Log::default();
        let function = named("own");
        let victim = Rc::new(Cell::new(0));
        let (id, notes) = (victim.clone(), log.clone());
        add(move |_| {
            notes.note("first");
            assert_eq!(work(id.get()), Ok(()));
            Reply::Pass
        });
        victim.set(log.add("victim", Reply::Pass).id);
        function.call("").expect("a call");
        assert_eq!(log.read(), "first");
    }
}

#[test]
fn a_hook_that_a_destructor_adds_at_the_end_of_a_dispatch_counts() {
    let _engine = Engine::start();
    let log = Log::default();
    let function = named("own");
    let own = Rc::new(Cell::new(0));
    let id = own.clone();
    let hook = add(move |_| {
        assert_eq!(remove(id.get()), Ok(()));
        Reply::Disable
    });
    own.set(hook.id);
    let notes = log.clone();
    hook.at_the_end(move || {
        notes.add("new", Reply::Pass);
    });
    assert_eq!(function.call(""), ran("own", "", &[StaysEnabled]));
    function.call("").expect("a call");
    assert_eq!(log.read(), "new");
}

// --- Which frames are dispatched. ---

#[test]
fn a_frame_is_dispatched_once() {
    let _engine = Engine::start();
    let log = Log::default();
    let function = define(Function { positional: "a", cells: "a", ..Function::PLAIN }, "");
    log.add("called", Reply::Pass);
    let frame = function.start("x");
    assert_eq!(dispatch(), StaysEnabled);
    let at = position(frame);
    for _ in 0..3 {
        assert_eq!(
            (dispatch(), position(frame)),
            (StaysEnabled, at),
            "a debugger has sent it back"
        );
    }
    assert_eq!(log.read(), "called");
    frames::end_current();
}

#[test]
fn a_frame_that_has_made_a_call_or_has_an_object_does_not_start() {
    let _engine = Engine::start();
    let log = Log::default();
    let function = named("own");
    log.add("called", Reply::Pass);
    let frame = function.start("");
    // SAFETY: the frame's own field.
    unsafe { (*frame).return_offset = 4 };
    assert_eq!(dispatch(), StaysEnabled);
    frames::end_current();
    let frame = function.start("");
    // SAFETY: complete, as it is at its RESUME.
    assert!(!unsafe { _PyFrame_MakeAndSetFrameObject(frame) }.is_null());
    assert_eq!(dispatch(), StaysEnabled);
    frames::end_current();
    assert_eq!(log.read(), "");
}

#[test]
fn a_generators_frame_is_dispatched_when_it_is_made_and_not_when_it_starts() {
    let _engine = Engine::start();
    let log = Log::default();
    let generator = define(Function { flags: c::CO_GENERATOR, ..with_parameters("a") }, "");
    log.add("called", Reply::Pass);
    let frame = generator.start("x");
    assert_eq!((position(frame), dispatch()), (0, StaysEnabled), "at RETURN_GENERATOR");
    assert_eq!((position(frame), log.read().as_str()), (0, "called"));
    // SAFETY: the frame's own field. It is as if it had moved.
    unsafe {
        (*frame).owner = c::FRAME_OWNED_BY_GENERATOR;
        (*frame).return_offset = 0;
        assert_eq!((dispatch(), log.read().as_str()), (StaysEnabled, ""));
        (*frame).owner = c::FRAME_OWNED_BY_THREAD;
    }
    frames::end_current();
}

#[test]
fn frames_of_a_callback_are_not_dispatched() {
    let _engine = Engine::start();
    let log = Log::default();
    let (outer, inner) = (named("outer"), named("inner"));
    let function = define(with_parameters("a"), "");
    let notes = log.clone();
    add(move |frame| {
        notes.note(&frame.code().expect("code"));
        if frame.code() == Ok("outer".to_string()) {
            // Calls of a hook, one below the other.
            let below = inner.start("");
            notes.note(&format!("{:?}", dispatch()));
            assert_eq!(function.call("x"), ran("function", "x", &[StaysEnabled]));
            assert_eq!(current_frame(), below);
            frames::end_current();
            assert_eq!(function.call_by_evaluator("x"), ran("function", "x", &[StaysEnabled]));
        }
        Reply::Pass
    });
    assert_eq!(outer.call(""), ran("outer", "", &[StaysEnabled]));
    assert_eq!(log.read(), "outer StaysEnabled");
    named("after").call("").expect("a call");
    assert_eq!(log.read(), "after");
}

#[test]
fn a_callback_that_waits_in_another_greenlet_suppresses_no_dispatch() {
    let _engine = Engine::start();
    let log = Log::default();
    let (outer, elsewhere) = (named("outer"), Rc::new(named("elsewhere")));
    let notes = log.clone();
    let other = elsewhere.clone();
    // The second greenlet runs within the callback of the first, and calls another hook.
    let called = Rc::new(Cell::new(false));
    let first = called.clone();
    add(move |frame| {
        if first.replace(true) {
            return Reply::Pass;
        }
        notes.note(&frame.code().expect("code"));
        let mut fields = [null_mut(); 4];
        swap_stacks(&mut fields);
        assert_eq!(other.call(""), ran("elsewhere", "", &[StaysEnabled]));
        swap_stacks(&mut fields);
        // SAFETY: the other greenlet is over, and its one chunk is its own.
        unsafe {
            let chunk: *mut c::_PyStackChunk = fields[1].cast();
            memory::_PyObject_VirtualFree(chunk.cast(), (*chunk).size);
        }
        Reply::Pass
    });
    let notes = log.clone();
    add(move |frame| {
        notes.note(&format!("second:{}", frame.code().expect("code")));
        Reply::Pass
    });
    assert_eq!(outer.call(""), ran("outer", "", &[StaysEnabled]));
    assert_eq!(log.read(), "outer second:elsewhere second:outer");
}

#[test]
fn frames_of_a_tracer_are_not_dispatched() {
    let _engine = Engine::start();
    let log = Log::default();
    let function = named("own");
    log.add("called", Reply::Pass);
    for (tracing, expected) in [(1, ""), (2, ""), (0, "called")] {
        // SAFETY: the thread's own state.
        unsafe { (*PyThreadState_Get()).tracing = tracing };
        assert_eq!(function.call(""), ran("own", "", &[StaysEnabled]));
        assert_eq!(log.read(), expected);
    }
}

// --- What can be seen meanwhile. ---

#[test]
fn a_frame_is_linked_and_hidden_while_it_is_dispatched() {
    let _engine = Engine::start();
    let shapes = [
        Function::PLAIN,
        with_parameters("a b"),
        Function { cells: "a c", ..with_parameters("a b") },
        Function { free: "f", ..with_parameters("a b") },
        Function { flags: c::CO_GENERATOR, ..with_parameters("a b") },
    ];
    let log = Log::default();
    let caller = named("caller");
    let bottom = caller.start("");
    let notes = log.clone();
    let hook = move |frame: EntryFrame| {
        // SAFETY: a live frame, which this thread works on.
        unsafe {
            let linked = current_frame() == frame.0 && (*frame.0).previous == bottom;
            let hidden = Frame::new(frame.0).is_incomplete();
            notes.note(&format!("{linked} {hidden}"));
        }
        Reply::Pass
    };
    add(hook);
    for shape in shapes {
        let function = define(shape, if shape.free.is_empty() { "" } else { "free" });
        let arguments = if shape.positional.is_empty() { "" } else { "one two" };
        let frame = function.start(arguments);
        let (slots, at) = (slots_of(frame), position(frame));
        assert_eq!(dispatch(), StaysEnabled);
        assert_eq!(log.read(), "true true");
        assert_eq!((slots_of(frame), position(frame)), (slots, at), "as it was");
        frames::end_current();
        function.call_by_evaluator(arguments).expect("a call");
        assert_eq!(log.read(), "true true");
        assert_eq!(current_frame(), bottom);
    }
    frames::end_current();
}

#[test]
fn a_frame_is_hidden_while_its_code_is_instrumented_until_it_is_dispatched() {
    let _engine = Engine::start();
    let function = define(Function { cells: "a", ..with_parameters("a") }, "");
    let frame = function.start("x");
    let at = position(frame);
    let was = Rc::new(Cell::new(0));
    for (is_dispatched, status) in [(false, 0), (false, -1), (true, 0)] {
        if is_dispatched {
            dispatch();
        }
        let seen = was.clone();
        frames::set_instrument(move || {
            // SAFETY: a live frame.
            seen.set(position(frame));
            status
        });
        // SAFETY: the thread's current frame, its code and its interpreter.
        let result = unsafe { _PyRust_Instrument(frame, function.code, interpreter()) };
        assert_eq!((result, position(frame)), (status, at));
        // SAFETY: alive. Without hooks nothing was dispatched, and the frame is new.
        assert_eq!(was.get(), if unsafe { (*frame).return_offset } == 0 { -1 } else { at });
    }
    frames::end_current();
}

// --- Evaluators. ---

#[test]
fn a_frame_that_an_evaluator_gets_is_dispatched_before_and_not_again() {
    let _engine = Engine::start();
    let log = Log::default();
    let function = define(Function { cells: "a", ..with_parameters("a b") }, "");
    let notes = log.clone();
    let hook = add(move |frame| {
        notes.note(&frame.arguments());
        Reply::Pass
    });
    let expected = ran("function", "[one] two", &[StaysEnabled]);
    assert_eq!(function.call_by_evaluator("one two"), expected);
    assert_eq!(log.read(), "a=one b=two");
    assert_eq!(enable(hook.id, false), Ok(()));
    let expected = ran("function", "[one] two", &[Disabled]);
    assert_eq!(function.call_by_evaluator("one two"), expected);
    assert_eq!(log.read(), "");
}

#[test]
fn hooks_that_an_evaluator_adds_or_enables_are_not_called_for_its_frame() {
    let _engine = Engine::start();
    let log = Log::default();
    let function = named("own");
    log.add("old", Reply::Disable);
    let (notes, added) = (log.clone(), Rc::new(Cell::new(0)));
    let id = added.clone();
    let adding = move || id.set(notes.add("new", Reply::Pass).id);
    assert_eq!(function.call_by_evaluator_that("", adding), ran("own", "", &[StaysEnabled]));
    assert_eq!(log.read(), "old");
    assert_eq!(enable_in_thread(added.get(), false), Ok(()));
    let switching = move || assert_eq!(enable_in_thread(added.get(), true), Ok(()));
    assert_eq!(function.call_by_evaluator_that("", switching), ran("own", "", &[StaysEnabled]));
    assert_eq!(log.read(), "");
    function.call_by_evaluator("").expect("a call");
    assert_eq!(log.read(), "new");
}

#[test]
fn an_evaluator_gets_the_code_that_a_hook_has_chosen() {
    let _engine = Engine::start();
    let function = define(with_parameters("a b"), "");
    let other = define(Function { name: "other", cells: "c a", ..with_parameters("b a") }, "");
    let reply = Reply::Run(other.code);
    add(move |_| reply);
    let expected = ran("other", "two [one] [-]", &[StaysEnabled]);
    assert_eq!(function.call_by_evaluator("one two"), expected);
}

#[test]
fn a_call_that_fails_before_its_evaluator_leaves_nothing() {
    let _engine = Engine::start();
    let caller = named("caller");
    let function = define(Function { cells: "a", ..with_parameters("a b") }, "");
    let below = caller.start("");
    add(|_| Reply::Raise("no"));
    assert_eq!(function.call_by_evaluator("one two"), Err("ValueError: no".to_string()));
    assert_eq!(current_frame(), below);
    frames::end_current();
}

#[test]
fn an_evaluator_that_a_hook_has_cleared_is_not_called() {
    unsafe extern "C" fn never(
        _: *mut c::PyThreadState,
        _: *mut _PyInterpreterFrame,
        _: std::ffi::c_int,
    ) -> *mut c::PyObject {
        panic!("called");
    }
    let _engine = Engine::start();
    let function = named("own");
    add(|_| {
        // SAFETY: attached.
        unsafe { _PyInterpreterState_SetEvalFrameFunc(interpreter(), None) };
        Reply::Pass
    });
    let frame = function.push("");
    // SAFETY: attached, and a frame that is ready to run.
    unsafe {
        _PyInterpreterState_SetEvalFrameFunc(interpreter(), Some(never));
        let result = crate::eval_frame::_PyRust_EvalFrame(PyThreadState_Get(), frame, 0);
        assert_eq!(result.addr(), RESULT_OF_THE_LOOP);
        frames::_PyEval_FrameClearAndPop(PyThreadState_Get(), frame);
    }
}

// --- What is not remembered. ---

/// Stores a value of that interpreter on code.
fn store_value_of(interpreter: *mut PyInterpreterState, code: *mut PyCodeObject) {
    // SAFETY: attached to it; a live code object.
    unsafe {
        let registry = crate::code_extra::Registry::of(interpreter);
        let index = registry.request(None).expect("an index").raw();
        let stored = registry
            .update(crate::code::Code::new(code), index, |_| std::ptr::without_provenance_mut(1));
        assert!(stored.is_ok());
    }
}

#[test]
fn code_of_another_interpreter_is_dispatched_again_and_runs() {
    let _engine = Engine::start();
    let function = named("own");
    let other = Attached::to_interpreter(1);
    store_value_of(other.interpreter, function.code);
    let elsewhere = other.interpreter;
    other.leave();
    let log = Log::default();
    let hook = log.add("called", Reply::Disable);
    for _ in 0..2 {
        assert_eq!(function.call(""), ran("own", "", &[StaysEnabled]));
        assert_eq!(log.read(), "called");
    }
    let foreign = "RuntimeError: the code object belongs to another interpreter, which has frame \
                   hooks too";
    assert_eq!(enable_for_code(hook.id, function.code, false), Err(foreign.to_string()));
    // SAFETY: the other interpreter ends.
    unsafe { _PyRust_FiniCodeExtra(elsewhere) };
}

#[test]
fn without_memory_no_hook_is_disabled_and_the_call_runs() {
    let _engine = Engine::start();
    let function = named("own");
    let log = Log::default();
    let notes = log.clone();
    let is_short = Rc::new(Cell::new(true));
    let short = is_short.clone();
    add(move |_| {
        notes.note("called");
        memory::allow(short.get().then_some(0));
        Reply::Disable
    });
    for (is, answer, expected) in [
        (true, StaysEnabled, "called"),
        (true, StaysEnabled, "called"),
        (false, Disabled, "called"),
        (true, Disabled, ""),
    ] {
        is_short.set(is);
        assert_eq!(function.call(""), ran("own", "", &[answer]));
        memory::allow(None);
        assert_eq!(log.read(), expected);
    }
    let hook = add(|_| Reply::Pass);
    let other = named("other");
    memory::allow(Some(0));
    assert_eq!(enable_for_code(hook.id, other.code, false), Err("MemoryError".to_string()));
}

#[test]
fn a_failed_dispatch_is_unwound_with_the_frame_still_hidden() {
    let _engine = Engine::start();
    let function = define(Function { cells: "a", ..with_parameters("a") }, "");
    add(|_| Reply::Raise("no"));
    let (frame, below) = (function.start("x"), current_frame());
    let ended = at_end(|frame| {
        // SAFETY: a live frame.
        (frame, unsafe { Frame::new(frame) }.is_incomplete(), slots_of(frame))
    });
    assert_eq!(dispatch(), Failed);
    assert_eq!(ended.take(), [(frame, true, "[x]".to_string())]);
    assert_ne!(current_frame(), below);
    assert_eq!(exceptions::taken(), Some("ValueError: no".to_string()));
}
