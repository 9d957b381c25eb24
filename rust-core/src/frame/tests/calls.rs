//! How a call begins and ends, and how a frame moves into a generator.

use super::*;

#[test]
fn a_new_frame_is_empty_where_it_has_no_arguments() {
    for locals in [1, 3, PLACES, 40] {
        let code = new_code(locals, 1);
        let frame: *mut _PyInterpreterFrame =
            kept_zeros(size_of::<_PyInterpreterFrame>() + locals * 8).cast();
        let function: *mut c::PyFunctionObject =
            kept_zeros(size_of::<c::PyFunctionObject>()).cast();
        // SAFETY: memory for a frame with its slots, and for a function.
        unsafe {
            frame.cast::<u8>().write_bytes(0xff, FIELDS * 8 + locals * 8);
            _PyFrame_Initialize(frame, function, null_mut(), code, 1);
        }
        assert_eq!(count(code.cast()), 2);
        // SAFETY: a frame with its slots.
        unsafe {
            assert_eq!(slot(frame, 0).read() as usize, usize::MAX);
            assert!((1..locals).all(|i| slot(frame, i).read().is_null()));
            let fields = ((*frame).stacktop, (*frame).return_offset, (*frame).owner);
            assert_eq!(fields, (locals as c_int, 0, c::FRAME_OWNED_BY_THREAD));
            assert!(Frame::new(frame).is_incomplete());
        }
    }
}

/// Fails where a frame that was just begun has anything but what the call has given.
fn check_begun(
    frame: *mut _PyInterpreterFrame,
    callee: *mut c::PyFunctionObject,
    given: &[*mut PyObject],
    locals: usize,
) {
    // SAFETY: a live frame, and the function that it runs.
    unsafe {
        assert!((*frame).f_locals.is_null() && (*frame).frame_obj.is_null());
        assert_eq!((*frame).f_executable, (*callee).func_code);
        assert_eq!((*frame).f_funcobj, callee.cast());
        assert_eq!((*frame).f_globals, (*callee).func_globals);
        assert_eq!((*frame).f_builtins, (*callee).func_builtins);
    }
    for i in 0..locals {
        let wanted = given.get(i).copied().unwrap_or(null_mut());
        // SAFETY: one of the frame's slots.
        assert_eq!(unsafe { slot(frame, i).read() }, wanted);
    }
    assert!(given.iter().all(|it| count(*it) == 1));
}

/// Calls until the data stack has been to another chunk and back, with and without a receiver. Each
/// call gets just what its caller gives up, and its end gives it up.
#[test]
fn a_call_begins_with_its_arguments_and_ends_without_them() {
    let world = World::new();
    let tstate = world.tstate();
    // SAFETY: the thread's own.
    let chunk = || unsafe { (*tstate).datastack_chunk };
    // SAFETY: the thread's own data stack; each frame is the topmost one when it ends.
    let end = |frame| unsafe { _PyRust_EndCall(tstate, frame) };
    // SAFETY: the test's reference to a code object that a function has.
    let forget = |code: *mut PyCodeObject| unsafe { decref(code.cast()) };
    let code = new_code(1, 1);
    let made = function(code, &[]);
    // SAFETY: the thread's own data stack, and a function without parameters.
    let none = unsafe { _PyRust_BeginCall(tstate, made, null_mut(), [].as_ptr(), 0) };
    assert!(none.is_null(), "a call began on no chunk");
    let (mut calls, mut switches) = (vec![push(function(code, &[]), &[object()])], 0);
    forget(code);
    'again: for _ in 0..3 {
        for locals in (1..40).cycle() {
            let has_self = locals % 2 == 0;
            let given: Vec<_> = (0..locals / 2 + usize::from(has_self)).map(|_| object()).collect();
            let (receiver, arguments) = given.split_at(usize::from(has_self));
            let receiver = receiver.first().copied().unwrap_or(null_mut());
            let code = new_code(locals, 2);
            // SAFETY: made just now, and nothing else has it.
            unsafe { (*code).co_argcount = given.len() as c_int };
            let callee = function(code, &[]);
            let before = chunk();
            let (first, length) = (arguments.as_ptr(), arguments.len() as isize);
            // SAFETY: the thread's own data stack, a live function, and as many arguments.
            let (has_space, frame) = unsafe {
                let has_space = _PyThreadState_HasStackSpace(tstate, (*code).co_framesize);
                (has_space, _PyRust_BeginCall(tstate, callee, receiver, first, length))
            };
            assert_eq!(!frame.is_null(), has_space);
            if frame.is_null() {
                // As the eval loop continues: with a new chunk.
                calls.push(push(callee, &given));
                forget(code);
                break;
            }
            switches += usize::from(before != chunk());
            forget(code);
            check_begun(frame, callee, &given, locals);
            calls.push(frame);
            if switches == 2 {
                break 'again;
            }
        }
        // Back, so that the chunk that was left is the front chunk.
        calls.drain(1..).rev().for_each(end);
    }
    assert_ne!(switches, 0, "no call began on the front chunk");
    calls.into_iter().rev().for_each(end);
    // SAFETY: the test's reference.
    unsafe { decref(made.cast()) };
}

/// A destructor that runs at the end of a call is one level of C recursion deeper, whatever dies.
#[test]
fn a_destructor_at_the_end_of_a_call_has_one_level_of_c_recursion_less() {
    let world = World::new();
    let left = {
        let tstate = world.tstate();
        // SAFETY: the thread's own.
        move || unsafe { (*tstate).c_recursion_remaining }
    };
    let seen = Rc::new(RefCell::new(Vec::new()));
    set_destructor(Some(Rc::new({
        let (seen, left) = (seen.clone(), left);
        move |_| seen.borrow_mut().push(left())
    })));
    let code = new_code(2, 1);
    let frame = push(function(code, &[]), &[object()]);
    // SAFETY: the test's reference to the code; the frame of a call, the topmost one.
    unsafe {
        decref(code.cast());
        (*frame).f_locals = object();
        _PyRust_EndCall(world.tstate(), frame);
    }
    // The argument, the mapping, the function with what it has, and the code.
    assert!(seen.borrow().len() >= 4);
    assert!(seen.take().into_iter().all(|remaining| remaining == left() - 1));
    set_destructor(None);
}

#[test]
fn a_frame_that_moves_takes_everything_but_the_caller() {
    for filled in [0, 0b1, 0b101010, u32::MAX] {
        let made = Made::new(c::FRAME_OWNED_BY_THREAD, filled).called_by(Made::in_a_thread());
        let target: *mut _PyInterpreterFrame =
            kept_zeros(size_of::<_PyInterpreterFrame>() + PLACES * 8).cast();
        // SAFETY: memory for a frame of the same code.
        unsafe {
            _PyRust_MoveFrame(made.frame, target);
            assert!((*target).previous.is_null());
            assert_eq!((*target).instr_ptr, (*made.frame).instr_ptr);
            made.check_slots(target);
            assert!(made.held().into_iter().all(|it| count(it) == 2));
            _PyFrame_ClearExceptCode(target);
        }
        assert!(
            made.held().into_iter().all(|it| count(it) == 1),
            "the new place owns what it holds"
        );
    }
}
