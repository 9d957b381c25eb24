//! The instructions of a return shim, by which it is also recognized.

use crate::cpython as c;
use crate::frame::{Frame, Owner};
use crate::object::ForC;

/// An instruction without an argument, as the eval loop reads it.
#[repr(C, align(2))]
struct Unit {
    code: u8,
    argument: u8,
}

const fn unit(code: u32) -> Unit {
    Unit { code: code as u8, argument: 0 }
}

/// What a mark executes. The first instruction says what kind of frame it is, to whoever looks at
/// the instruction that has called.
static INSTRUCTIONS: ForC<[Unit; 3]> =
    ForC::new([unit(c::INTERPRETER_EXIT), unit(c::RESERVED), unit(c::RESERVED)]);
/// So many instructions behind the first one a frame returns to.
pub(super) const RETURNS_TO: u16 = 1;
/// So many instructions behind the one that has called a generator it yields to.
pub const YIELDS_TO: usize = 1 + size_of::<c::_PySendCache>() / size_of::<c::_Py_CODEUNIT>();

/// The first one.
pub fn first() -> *mut c::_Py_CODEUNIT {
    INSTRUCTIONS.get().cast()
}

/// Whether a frame is the mark of a watch: no other frame executes these instructions.
#[inline(always)]
pub fn is_mark(frame: Frame) -> bool {
    frame.owner() == Owner::C_STACK
        && (frame.instruction() as usize).wrapping_sub(first() as usize) < size_of::<[Unit; 3]>()
}
