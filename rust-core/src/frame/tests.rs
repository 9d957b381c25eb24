//! Frames made by hand, whose objects count references and record when they are freed, against what CPython
//! does with them.

mod calls;

use super::getters::*;
use super::handle::Frame;
use super::hidden_locals::_PyFrame_HasHiddenLocals;
use super::initialize::{_PyFrame_Initialize, _PyRust_BeginCall};
use super::lifecycle::{_PyFrame_ClearExceptCode, _PyFrame_ClearLocals, _PyRust_EndCall};
use super::move_frame::_PyRust_MoveFrame;
use super::object::_PyFrame_MakeAndSetFrameObject;
use super::traverse::_PyFrame_Traverse;
use crate::cpython as c;
use crate::cpython::{_PyInterpreterFrame, PyCodeObject, PyFrameObject, PyObject};
use crate::data_stack::_PyThreadState_HasStackSpace;
use crate::fake_cpython::code::{self, instruction};
use crate::fake_cpython::exceptions::{
    cleared, memory_error, PyErr_GetRaisedException, PyErr_SetRaisedException,
};
use crate::fake_cpython::frames::{function, push, slot};
use crate::fake_cpython::memory::allow;
use crate::fake_cpython::objects::{
    count, decref, freed, incref, kept_zeros, object, set_destructor, PyObject_GC_IsTracked,
};
use crate::fake_cpython::values;
use crate::fake_cpython::World;
use proptest::prelude::*;
use std::cell::RefCell;
use std::collections::HashSet;
use std::ffi::{c_char, c_int, c_void};
use std::ptr::null_mut;
use std::rc::Rc;

const PLACES: usize = 6;
const INSTRUCTIONS: usize = 16;
const FIRST_TRACEABLE: usize = 3;
const FIELDS: usize = size_of::<_PyInterpreterFrame>() / size_of::<usize>() - 1;

// --- Frames and what they hold. ---

fn new_code(locals: usize, stack: usize) -> *mut PyCodeObject {
    code::plain(locals, stack, INSTRUCTIONS, FIRST_TRACEABLE)
}

/// A frame, the test's references to what it holds, and how many slots there are.
#[derive(Clone, Copy)]
struct Made {
    frame: *mut _PyInterpreterFrame,
    code: *mut PyCodeObject,
    function: *mut PyObject,
    mapping: *mut PyObject,
    slots: [*mut PyObject; PLACES],
}

impl Made {
    /// A frame in the middle of its code that owns one reference to each object; slots where
    /// `filled` has a 0 bit are empty. The test has references of its own.
    fn new(owner: c_char, filled: u32) -> Self {
        let code = new_code(PLACES - 2, 2);
        let frame: *mut _PyInterpreterFrame =
            kept_zeros(size_of::<_PyInterpreterFrame>() + PLACES * 8).cast();
        let held = || {
            let it = object();
            // SAFETY: alive.
            unsafe { incref(it) };
            it
        };
        let made = Made {
            frame,
            code,
            function: held(),
            mapping: held(),
            slots: std::array::from_fn(|i| if filled >> i & 1 == 1 { held() } else { null_mut() }),
        };
        // SAFETY: memory for a frame with its slots.
        unsafe {
            incref(code.cast());
            (*frame).f_executable = code.cast();
            (*frame).f_funcobj = made.function;
            (*frame).f_locals = made.mapping;
            (*frame).stacktop = PLACES as c_int;
            (*frame).owner = owner;
        }
        for (i, value) in made.slots.into_iter().enumerate() {
            // SAFETY: one of the frame's slots.
            unsafe { slot(frame, i).write(value) };
        }
        made.at_instruction(FIRST_TRACEABLE + 2)
    }

    /// Fails where `frame` does not have these slots.
    fn check_slots(self, frame: *mut _PyInterpreterFrame) {
        // SAFETY: a live frame of the same code.
        unsafe {
            assert_eq!((*frame).stacktop, PLACES as c_int);
            for (i, value) in self.slots.into_iter().enumerate() {
                assert_eq!(slot(frame, i).read(), value);
            }
        }
    }

    fn at_instruction(self, number: usize) -> Self {
        // SAFETY: within the code.
        unsafe { (*self.frame).instr_ptr = instruction(self.code, number) };
        self
    }

    fn in_a_thread() -> Self {
        Made::new(c::FRAME_OWNED_BY_THREAD, u32::MAX)
    }

    fn object(self) -> *mut PyFrameObject {
        // SAFETY: a frame.
        unsafe { (*self.frame).frame_obj }
    }

    fn make_object(self) -> *mut PyFrameObject {
        // SAFETY: complete, and without an object.
        unsafe { _PyFrame_MakeAndSetFrameObject(self.frame) }
    }

    fn called_by(self, caller: Made) -> Self {
        // SAFETY: frames.
        unsafe { (*self.frame).previous = caller.frame };
        self
    }

    fn end(self) {
        // SAFETY: at rest, and linked from nowhere.
        unsafe { _PyFrame_ClearExceptCode(self.frame) };
    }

    /// The objects that it holds, in the order in which clearing gives them up.
    fn held(self) -> Vec<*mut PyObject> {
        let mut all: Vec<_> = self.slots.into_iter().filter(|it| !it.is_null()).collect();
        all.extend([self.mapping, self.function]);
        all
    }

    /// Gives the test's own references up, so that clearing the frame frees everything.
    fn only_the_frame_holds(self) -> Self {
        for it in self.held() {
            // SAFETY: the test's reference.
            unsafe { decref(it) };
        }
        self
    }
}

/// Runs `action` and returns what was freed meanwhile, in order; `look` is called at each.
fn deaths(action: impl FnOnce(), look: impl Fn(*mut PyObject) + 'static) -> Vec<*mut PyObject> {
    let log = Rc::new(RefCell::new(Vec::new()));
    let own = log.clone();
    set_destructor(Some(Rc::new(move |it| {
        own.borrow_mut().push(it);
        look(it);
    })));
    action();
    set_destructor(None);
    log.take()
}

// --- Clearing. ---

#[test]
fn slots_die_in_order_then_the_mapping_then_the_function() {
    let made = Made::in_a_thread().only_the_frame_holds();
    let died = deaths(|| made.end(), |_| {});
    assert_eq!(died, made.held());
    assert_eq!(count(made.code.cast()), 2, "the code is the caller's to give up");
}

#[test]
fn a_destructor_finds_no_slot_in_use_and_no_mapping_that_dies() {
    let made = Made::new(c::FRAME_OWNED_BY_THREAD, 0b10101).only_the_frame_holds();
    let died = deaths(
        || made.end(),
        move |it| {
            // SAFETY: the frame's memory stays; only its fields are read.
            let (top, mapping) = unsafe { ((*made.frame).stacktop, (*made.frame).f_locals) };
            assert_eq!(top, 0);
            let over = it == made.mapping || it == made.function;
            assert_eq!(mapping, if over { null_mut() } else { made.mapping });
        },
    );
    assert_eq!(died, made.held());
}

#[test]
fn clearing_locals_again_does_nothing_more() {
    let made = Made::in_a_thread();
    for _ in 0..2 {
        // SAFETY: at rest.
        unsafe { _PyFrame_ClearLocals(made.frame) };
        assert!(made.slots.into_iter().chain([made.mapping]).all(|it| count(it) == 1));
        assert_eq!(count(made.function), 2);
    }
}

#[test]
fn a_frame_object_without_other_references_is_freed_first_and_is_out_of_the_frame() {
    let made = Made::in_a_thread().only_the_frame_holds();
    let its_object: *mut PyObject = made.make_object().cast();
    let died = deaths(
        || made.end(),
        move |it| {
            assert!(made.object().is_null());
            if it == its_object {
                // SAFETY: the frame's memory stays.
                assert_eq!(unsafe { (*made.frame).stacktop }, PLACES as c_int);
            }
        },
    );
    assert_eq!(died, [vec![its_object], made.held()].concat());
    assert_eq!(PyObject_GC_IsTracked(its_object), 0);
}

// --- Outliving the call. ---

/// What an object that took its frame over looks like.
fn check_owns(taken: *mut PyFrameObject, made: Made) {
    // SAFETY: a live frame object with a frame of its own.
    let own = unsafe {
        let own = (*taken).f_frame;
        assert_eq!(own.cast(), (&raw mut (*taken)._f_frame_data));
        assert_eq!((*own).owner, c::FRAME_OWNED_BY_FRAME_OBJECT);
        assert!((*own).previous.is_null() && (*own).frame_obj.is_null());
        assert_eq!((*own).f_executable, made.code.cast());
        assert_eq!(((*own).f_funcobj, (*own).f_locals), (made.function, made.mapping));
        own
    };
    made.check_slots(own);
    for it in made.held() {
        assert_eq!((count(it), freed(it)), (2, 0), "moved, neither counted nor closed");
    }
    assert_eq!(count(made.code.cast()), 3, "the object has a reference of its own to the code");
    assert_eq!(PyObject_GC_IsTracked(taken.cast()), 1);
}

#[test]
fn a_frame_whose_object_is_referenced_moves_into_it() {
    let caller = Made::in_a_thread();
    let made = Made::in_a_thread().called_by(caller);
    let taken = made.make_object();
    // SAFETY: alive.
    unsafe { incref(taken.cast()) };
    assert_eq!(deaths(|| made.end(), |_| {}), []);
    assert_eq!(count(taken.cast()), 1);
    check_owns(taken, made);
    // SAFETY: a live frame object.
    unsafe {
        assert_eq!((*taken).f_back, caller.object());
        assert_eq!(count((*taken).f_back.cast()), 2, "its frame's and the callee's");
        assert_eq!((*(*taken).f_frame).instr_ptr, instruction(made.code, FIRST_TRACEABLE + 2));
    }
    assert_eq!(PyObject_GC_IsTracked(caller.object().cast()), 0, "its call is in progress");
}

#[test]
fn callers_that_must_not_be_seen_are_passed_over() {
    let bottom = Made::in_a_thread();
    let not_started = Made::in_a_thread().at_instruction(FIRST_TRACEABLE - 1).called_by(bottom);
    let shim = Made::new(c::FRAME_OWNED_BY_CSTACK, 0).called_by(not_started);
    let made = Made::new(c::FRAME_OWNED_BY_GENERATOR, 0b110).called_by(shim);
    let taken = made.make_object();
    // SAFETY: alive.
    unsafe { incref(taken.cast()) };
    made.end();
    check_owns(taken, made);
    // SAFETY: a live frame object.
    assert_eq!(unsafe { (*taken).f_back }, bottom.object());
    assert!(!bottom.object().is_null());
    assert!(not_started.object().is_null() && shim.object().is_null());
}

#[test]
fn a_frame_without_a_caller_has_no_back() {
    let shim = Made::new(c::FRAME_OWNED_BY_CSTACK, 0);
    for made in [Made::in_a_thread(), Made::in_a_thread().called_by(shim)] {
        let taken = made.make_object();
        // SAFETY: alive.
        unsafe { incref(taken.cast()) };
        made.end();
        check_owns(taken, made);
        // SAFETY: a live frame object.
        assert!(unsafe { (*taken).f_back }.is_null());
    }
}

#[test]
fn a_generator_that_never_started_looks_as_if_it_had() {
    for before in [0, FIRST_TRACEABLE - 1, FIRST_TRACEABLE] {
        let made = Made::new(c::FRAME_OWNED_BY_GENERATOR, u32::MAX).at_instruction(before);
        let taken = made.make_object();
        // SAFETY: alive.
        unsafe { incref(taken.cast()) };
        made.end();
        let expected = if before < FIRST_TRACEABLE { FIRST_TRACEABLE + 1 } else { before };
        // SAFETY: a live frame object.
        assert_eq!(unsafe { (*(*taken).f_frame).instr_ptr }, instruction(made.code, expected));
    }
}

#[test]
fn without_memory_for_the_callers_object_the_chain_ends() {
    let made = Made::in_a_thread().called_by(Made::in_a_thread());
    let taken = made.make_object();
    // SAFETY: alive.
    unsafe { incref(taken.cast()) };
    cleared();
    allow(Some(0));
    made.end();
    allow(None);
    check_owns(taken, made);
    // SAFETY: a live frame object.
    assert!(unsafe { (*taken).f_back }.is_null());
    assert!(PyErr_GetRaisedException().is_null());
    assert_eq!(cleared(), ["MemoryError"]);
}

// --- Frame objects. ---

#[test]
fn an_exception_on_its_way_survives_the_making_of_an_object() {
    let made = Made::in_a_thread();
    let exception = object();
    PyErr_SetRaisedException(exception);
    let its_object = made.make_object();
    assert_eq!(made.object(), its_object);
    // SAFETY: a live frame object.
    assert_eq!(unsafe { (*its_object).f_frame }, made.frame);
    assert_eq!(PyErr_GetRaisedException(), exception);
    assert_eq!((count(exception), count(its_object.cast())), (1, 1));
}

#[test]
fn the_error_of_a_failed_allocation_takes_the_exceptions_place() {
    for raised in [object(), null_mut()] {
        let made = Made::in_a_thread();
        PyErr_SetRaisedException(raised);
        allow(Some(0));
        assert!(made.make_object().is_null());
        allow(None);
        assert!(made.object().is_null());
        assert_eq!(PyErr_GetRaisedException(), memory_error());
        assert!(raised.is_null() || freed(raised) == 1);
        assert!(made.held().into_iter().all(|it| count(it) == 2));
    }
}

// --- Looking. ---

unsafe extern "C" fn note(object: *mut PyObject, seen: *mut c_void) -> c_int {
    // SAFETY: the tests pass a vector.
    let seen = unsafe { &mut *seen.cast::<Vec<*mut PyObject>>() };
    seen.push(object);
    if seen.len() == seen.capacity() {
        seen.len() as c_int
    } else {
        0
    }
}

/// What the collector visits until it has visited `most`, and the value returned to it then.
fn seen(made: Made, most: usize) -> (Vec<*mut PyObject>, c_int) {
    let mut seen: Vec<*mut PyObject> = Vec::with_capacity(most);
    assert_eq!(seen.capacity(), most);
    // SAFETY: a frame with code, and the function's own argument.
    let result = unsafe { _PyFrame_Traverse(made.frame, note, (&raw mut seen).cast()) };
    (seen, result)
}

#[test]
fn the_collector_sees_everything_that_is_owned() {
    let made = Made::new(c::FRAME_OWNED_BY_THREAD, 0b011011);
    let slots: Vec<_> = made.slots.into_iter().filter(|it| !it.is_null()).collect();
    let fields = vec![made.mapping, made.function, made.code.cast()];
    assert_eq!(seen(made, 100), ([fields, slots.clone()].concat(), 0));
    let its_object: *mut PyObject = made.make_object().cast();
    let all = [vec![its_object, made.mapping, made.function, made.code.cast()], slots].concat();
    assert_eq!(seen(made, 100), (all.clone(), 0));
    for most in 1..=all.len() {
        assert_eq!(seen(made, most), (all[..most].to_vec(), most as c_int), "it may stop");
    }
    // SAFETY: what the eval loop does.
    unsafe { (*made.frame).stacktop = -1 };
    assert_eq!(seen(made, 100), (all[..4].to_vec(), 0), "a frame that executes shows no slots");
}

#[test]
fn hidden_locals_are_those_of_running_comprehensions() {
    let (value, empty, full) = (object(), values::cell(null_mut()), values::cell(object()));
    let (local, cell, free, hidden) =
        (0x20u32, c::CO_FAST_CELL, c::CO_FAST_FREE, c::CO_FAST_HIDDEN);
    let cases = [
        (local, value, false),
        (local | hidden, null_mut(), false),
        (local | hidden, value, true),
        (cell | hidden, empty, false),
        (cell | hidden, full, true),
        (local | cell | hidden, empty, false),
        (local | cell | hidden, value, true),
        // Without the kind of a cell, a cell is a value like any other.
        (local | hidden, empty, true),
        (free | hidden, empty, true),
        (free, full, false),
        (cell, full, false),
    ];
    for (kind, content, expected) in cases {
        for position in 0..4 {
            let made = Made::new(c::FRAME_OWNED_BY_THREAD, 0);
            let mut kinds = [0x20; 4];
            kinds[position] = kind as u8;
            // SAFETY: the frame's code, and the place of a slot.
            unsafe {
                (*made.code).co_localspluskinds = values::bytes(&kinds);
                slot(made.frame, position).write(content);
                assert_eq!(
                    _PyFrame_HasHiddenLocals(made.frame),
                    expected,
                    "kind {kind:#x} in slot {position}"
                );
            }
        }
    }
}

#[test]
fn the_getters_return_code_instruction_and_line() {
    for number in [0, 1, 7] {
        let made = Made::in_a_thread().at_instruction(number);
        let bytes = 2 * number as c_int;
        // SAFETY: a frame with code.
        unsafe {
            assert_eq!(PyUnstable_InterpreterFrame_GetLasti(made.frame), bytes);
            assert_eq!(PyUnstable_InterpreterFrame_GetLine(made.frame), 1000 + bytes);
            let code = PyUnstable_InterpreterFrame_GetCode(made.frame);
            assert_eq!((code, count(code)), (made.code.cast(), 3));
        }
    }
}

// --- Many frames. ---

proptest! {
    #[test]
    fn a_stack_of_frames_gives_up_what_it_held_and_no_more(
        frames in proptest::collection::vec(
            (any::<u32>(), 0usize..8, 0usize..3, any::<bool>()),
            1..12,
        ),
        memory in proptest::option::of(0usize..10)
    ) {
        let mut stack: Vec<Made> = Vec::new();
        let mut kept: Vec<*mut PyObject> = Vec::new();
        let mut objects = HashSet::new();
        allow(memory);
        for &(filled, at, holders, generator) in &frames {
            let (held, called) = (c::FRAME_OWNED_BY_GENERATOR, c::FRAME_OWNED_BY_THREAD);
            let owner = if generator { held } else { called };
            let mut made = Made::new(owner, filled).at_instruction(at);
            if let Some(&caller) = stack.last() {
                made = made.called_by(caller);
            }
            stack.push(made);
            // SAFETY: a frame.
            let complete = !unsafe { Frame::new(made.frame) }.is_incomplete();
            if holders > 0 && complete {
                let it: *mut PyObject = made.make_object().cast();
                if it.is_null() {
                    prop_assert_eq!(PyErr_GetRaisedException(), memory_error());
                } else if holders > 1 {
                    // SAFETY: alive.
                    unsafe { incref(it) };
                    kept.push(it);
                }
            }
        }
        while let Some(made) = stack.pop() {
            objects.extend(stack.iter().chain([&made]).map(|it| it.object() as usize));
            let code = count(made.code.cast());
            let outlives = !made.object().is_null() && count(made.object().cast()) > 1;
            // An object for the caller may be made now.
            let its_object = made.object();
            made.end();
            objects.extend(stack.iter().map(|it| it.object() as usize));
            if outlives {
                check_owns(its_object, made);
            } else {
                prop_assert_eq!(count(made.code.cast()), code);
                prop_assert!(made.held().into_iter().all(|it| (count(it), freed(it)) == (1, 0)));
            }
        }
        for it in kept {
            // SAFETY: the test's references.
            unsafe { decref(it) };
        }
        for it in objects {
            let gone = it == 0 || freed(it as *mut PyObject) == 1;
            prop_assert!(gone, "an object of a frame is left over");
        }
        allow(None);
    }

    #[test]
    fn clearing_closes_each_slot_once(filled in any::<u32>(), top in 0..=PLACES) {
        let made = Made::new(c::FRAME_OWNED_BY_THREAD, filled);
        // SAFETY: a frame; what lies above its top is nothing of its own.
        unsafe {
            (*made.frame).stacktop = top as c_int;
            _PyFrame_ClearLocals(made.frame);
        }
        for (i, it) in made.slots.into_iter().enumerate() {
            let expected = if i < top { 1 } else { 2 };
            prop_assert!(it.is_null() || count(it) == expected);
        }
    }
}
