//! What becomes of a frame that is offered.

use super::support::*;
use crate::frame_hook::Answer;
use crate::stand_in::code::Function;
use crate::stand_in::frames;
use crate::stand_in::objects::{decref, object};

#[test]
fn without_hooks_nobody_wants_to_see_a_frame() {
    let hooks = Hooks::new();
    let code = Function { positional: "a", cells: "a b", free: "c", ..Function::default() }.code();
    let function = frames::function(code, &[object()]);
    let frame = hooks.call(function, &[object()]);
    assert!(hooks.offer() == Answer::Settled);
    // SAFETY: alive.
    assert_eq!(unsafe { (*frame).f_executable }, code.cast());
    frames::end_current();
    // SAFETY: the test's own references.
    unsafe {
        decref(function.cast());
        decref(code.cast());
    }
}
