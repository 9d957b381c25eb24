//! A code object's instructions.

use crate::opcode as op;

/// One instruction with its argument.
#[derive(Clone, Copy, Debug)]
pub struct Instruction {
    pub opcode: u8,
    pub argument: u32,
    /// The first code unit, an EXTENDED_ARG if there is one: here the interpreter can execute it.
    pub start: u32,
    /// Its own code unit, behind EXTENDED_ARG.
    pub unit: u32,
    /// The code unit behind it and its caches.
    pub next: u32,
}

impl Instruction {
    /// Where it jumps to, if it does.
    pub fn target(&self) -> Option<u32> {
        match self.opcode {
            op::POP_JUMP_IF_FALSE
            | op::POP_JUMP_IF_TRUE
            | op::POP_JUMP_IF_NONE
            | op::POP_JUMP_IF_NOT_NONE
            | op::JUMP_FORWARD => self.next.checked_add(self.argument),
            // END_FOR and POP_TOP are skipped when the iterator is exhausted.
            op::FOR_ITER => self.next.checked_add(self.argument)?.checked_add(2),
            op::JUMP_BACKWARD | op::JUMP_BACKWARD_NO_INTERRUPT => {
                self.next.checked_sub(self.argument)
            }
            _ => None,
        }
    }
}

/// All instructions by the code unit at which they start; EXTENDED_ARG is part of the next one.
pub struct Code {
    by_unit: Vec<Option<Instruction>>,
}

impl Code {
    /// From the bytes of `co_code`, in which nothing is specialized or instrumented. An instruction that is not compiled ends its
    /// stretch: what follows it is decoded as if it had no caches, so the caller looks at reachable instructions only.
    pub fn decode(bytes: &[u8], caches_of: impl Fn(u8) -> usize) -> Self {
        let units = bytes.len() / 2;
        let mut by_unit = vec![None; units];
        let (mut unit, mut start, mut extended) = (0usize, 0usize, 0u32);
        while unit < units {
            let (opcode, low) = (bytes[2 * unit], u32::from(bytes[2 * unit + 1]));
            let argument = extended << 8 | low;
            if opcode == op::EXTENDED_ARG {
                extended = argument;
                unit += 1;
                continue;
            }
            let next = unit + 1 + caches_of(opcode);
            by_unit[start] = Some(Instruction {
                opcode,
                argument,
                start: start as u32,
                unit: unit as u32,
                next: next as u32,
            });
            (unit, start, extended) = (next, next, 0);
        }
        Self { by_unit }
    }

    /// The instruction that starts at a code unit.
    pub fn at(&self, unit: u32) -> Option<Instruction> {
        self.by_unit.get(unit as usize).copied().flatten()
    }

    /// All of them, in order.
    pub fn instructions(&self) -> impl Iterator<Item = Instruction> + '_ {
        self.by_unit.iter().copied().flatten()
    }

    pub fn has_loop(&self) -> bool {
        self.instructions().any(|i| i.opcode == op::JUMP_BACKWARD)
    }

    /// Whether control may leave the straight line from `unit` only by raising: what is not compiled there is a cold exit.
    pub fn raises_from(&self, unit: u32) -> bool {
        let mut at = unit;
        while let Some(instruction) = self.at(at) {
            if instruction.opcode == op::RAISE_VARARGS {
                return true;
            }
            let ends =
                matches!(instruction.opcode, op::RETURN_VALUE | op::RETURN_CONST | op::FOR_ITER);
            if ends || instruction.target().is_some() {
                return false;
            }
            at = instruction.next;
        }
        false
    }
}
