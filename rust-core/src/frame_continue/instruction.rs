//! Instructions of code that may be specialized, instrumented or replaced by an executor at any time.

use crate::code::Code;
use crate::cpython as c;

/// An instruction of a code object, behind its `EXTENDED_ARG` prefixes.
#[derive(Clone, Copy)]
pub struct Instruction {
    /// Its index in code units.
    pub index: usize,
    /// Its opcode without specialization and instrumentation.
    opcode: u32,
    argument: u8,
}

impl Instruction {
    /// The instruction at `index`, or behind the prefixes there. `None`: the code ends before.
    ///
    /// # Safety
    /// An instruction of `code` begins at `index`, if that is below [`Code::size`].
    pub unsafe fn at(code: Code, index: usize) -> Option<Self> {
        let mut index = index;
        while index < code.size() {
            // SAFETY: an instruction of live code. Only its opcode changes, and CPython maps all of them.
            let (opcode, argument) = unsafe {
                let base = c::_Py_GetBaseOpcode(code.as_ptr(), index as core::ffi::c_int);
                (base as u32, (*code.first_instruction().add(index)).op.arg)
            };
            if opcode != c::EXTENDED_ARG {
                return Some(Instruction { index, opcode, argument });
            }
            index += 1;
        }
        None
    }

    /// How many code units it takes, its caches included.
    pub fn units(self) -> usize {
        let table: *const u8 = (&raw const c::_PyOpcode_Caches).cast();
        // SAFETY: the table has an entry for each opcode, which is below 256, and never changes.
        let caches = unsafe { *table.add(self.opcode as usize & 0xff) };
        1 + usize::from(caches)
    }

    /// Whether a frame may wait here for one that it has called: the result is pushed, and the next instruction follows.
    pub fn waits_for_a_call(self) -> bool {
        match self.opcode {
            c::CALL | c::CALL_KW | c::CALL_FUNCTION_EX | c::BINARY_SUBSCR => true,
            // The form for a method pushes two values.
            c::LOAD_ATTR => self.argument & 1 == 0,
            _ => false,
        }
    }
}
