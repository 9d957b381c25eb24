//! The instructions of a return shim, by which it is also recognized.

use crate::cpython as c;
use crate::frame::{Frame, Owner};
use crate::in_cpython::RETURN_TO_SHIM;
use crate::object::ForC;

/// An instruction without an argument, as the eval loop reads it.
#[repr(C, align(2))]
struct Unit {
    code: u8,
    argument: u8,
}

const fn unit(code: u8) -> Unit {
    Unit { code, argument: 0 }
}

/// The instructions of a shim. The first, `INTERPRETER_EXIT`, shows frame walkers that read a caller's instruction what
/// kind of frame it is.
static INSTRUCTIONS: ForC<[Unit; 3]> =
    ForC::new([unit(c::INTERPRETER_EXIT as u8), unit(RETURN_TO_SHIM), unit(RETURN_TO_SHIM)]);
/// The offset from the first instruction at which a returning frame continues.
pub(super) const RETURNS_TO: u16 = 1;
/// The offset from the calling instruction at which a yielding generator's frame continues.
pub const YIELDS_TO: usize = 1 + size_of::<c::_PySendCache>() / size_of::<c::_Py_CODEUNIT>();

/// The first one.
pub fn first() -> *mut c::_Py_CODEUNIT {
    INSTRUCTIONS.get().cast()
}

/// Whether a shim was reached by the return of a frame.
#[inline(always)]
pub fn is_returned_to(shim: Frame) -> bool {
    // SAFETY: one of the three.
    shim.instruction() == unsafe { first().add(RETURNS_TO as usize) }
}

/// Whether a shim was reached by the yield of a generator.
#[inline(always)]
pub fn is_yielded_to(shim: Frame) -> bool {
    // SAFETY: one of the three.
    shim.instruction() == unsafe { first().add(YIELDS_TO) }
}

/// Whether a frame is a return shim: no other frame executes these instructions.
#[inline(always)]
pub fn is_return_shim(frame: Frame) -> bool {
    frame.owner() == Owner::C_STACK
        && (frame.instruction() as usize).wrapping_sub(first() as usize) < size_of::<[Unit; 3]>()
}
