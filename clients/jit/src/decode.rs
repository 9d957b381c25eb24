//! A code object's instructions.

use crate::opcode as op;

/// The argument of SET_FUNCTION_ATTRIBUTE for cells.
const CLOSURE: u32 = 8;

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

    /// Whether it computes a value, and neither jumps nor stores anything that is there already.
    pub fn stores_nothing(&self) -> bool {
        const IN_PLACE: u32 = 13;
        match self.opcode {
            op::BINARY_OP => self.argument < IN_PLACE,
            op::LOAD_FAST
            | op::LOAD_FAST_CHECK
            | op::LOAD_FAST_LOAD_FAST
            | op::LOAD_CONST
            | op::LOAD_GLOBAL
            | op::LOAD_NAME
            | op::LOAD_DEREF
            | op::LOAD_ATTR
            | op::PUSH_NULL
            | op::CALL
            | op::CALL_KW
            | op::CALL_INTRINSIC_1
            | op::BINARY_SUBSCR
            | op::BINARY_SLICE
            | op::BUILD_LIST
            | op::BUILD_SLICE
            | op::BUILD_TUPLE
            | op::LIST_EXTEND
            | op::COMPARE_OP
            | op::CONTAINS_OP
            | op::COPY
            | op::GET_ITER
            | op::IS_OP
            | op::NOP
            | op::POP_TOP
            | op::SWAP
            | op::TO_BOOL
            | op::UNARY_INVERT
            | op::UNARY_NEGATIVE
            | op::UNARY_NOT
            | op::UNPACK_SEQUENCE => true,
            _ => false,
        }
    }

    /// Whether it loads variables and constants, or computes a number.
    pub fn loads_only(&self) -> bool {
        let loads = [op::LOAD_FAST, op::LOAD_FAST_LOAD_FAST, op::LOAD_CONST];
        loads.contains(&self.opcode) || self.opcode == op::BINARY_OP && self.stores_nothing()
    }

    /// Whether it may be one of a generator expression that is compiled.
    pub fn is_of_generator(&self) -> bool {
        let jumps = self.target().is_some();
        let own = matches!(
            self.opcode,
            op::END_FOR
                | op::LIST_APPEND
                | op::LOAD_FAST_AND_CLEAR
                | op::RESUME
                | op::RETURN_CONST
                | op::STORE_FAST
                | op::STORE_FAST_LOAD_FAST
                | op::STORE_FAST_STORE_FAST
                | op::YIELD_VALUE
        );
        jumps || own || self.stores_nothing()
    }

    /// Where control may go from here without an exception.
    pub fn successors(&self) -> impl Iterator<Item = u32> {
        let ends = matches!(
            self.opcode,
            op::RETURN_VALUE
                | op::RETURN_CONST
                | op::RAISE_VARARGS
                | op::JUMP_BACKWARD
                | op::JUMP_BACKWARD_NO_INTERRUPT
                | op::JUMP_FORWARD
        );
        self.target().into_iter().chain((!ends).then_some(self.next))
    }
}

/// A stretch of code units.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Region {
    pub start: u32,
    pub end: u32,
}

impl Region {
    pub fn contains(self, unit: u32) -> bool {
        (self.start..self.end).contains(&unit)
    }
}

/// All instructions by the code unit at which they start; EXTENDED_ARG is part of the next one.
pub struct Code {
    by_unit: Vec<Option<Instruction>>,
    makes_functions: bool,
    /// Those that are compiled.
    pub expressions: Vec<Expression>,
}

/// A generator expression that is the argument of a builtin.
#[derive(Debug)]
pub struct Expression {
    /// The first instruction that makes the function, the one behind these, the call of the function, and the one behind the builtin's.
    pub start: u32,
    pub made: u32,
    pub call: u32,
    pub next: u32,
    /// The index of its code among the constants.
    pub constant: usize,
    /// The slots of the cells that it is passed.
    pub cells: Vec<u32>,
}

/// A set of code units.
pub struct Units(Vec<bool>);

impl Units {
    /// Adds one of the code; whether it was not there.
    pub fn insert(&mut self, unit: u32) -> bool {
        self.0.get_mut(unit as usize).is_some_and(|there| !std::mem::replace(there, true))
    }
}

impl Code {
    /// An empty set.
    pub fn no_units(&self) -> Units {
        Units(vec![false; self.by_unit.len()])
    }

    /// From the bytes of `co_code`, in which nothing is specialized or instrumented.
    pub fn decode(bytes: &[u8]) -> Self {
        let units = bytes.len() / 2;
        let (mut by_unit, mut makes_functions) = (vec![None; units], false);
        let (mut unit, mut start, mut extended) = (0usize, 0usize, 0u32);
        while unit < units {
            let (opcode, low) = (bytes[2 * unit], u32::from(bytes[2 * unit + 1]));
            let argument = extended << 8 | low;
            if opcode == op::EXTENDED_ARG {
                extended = argument;
                unit += 1;
                continue;
            }
            makes_functions |= opcode == op::MAKE_FUNCTION;
            let next = unit + 1 + op::units_of_caches(opcode);
            by_unit[start] = Some(Instruction {
                opcode,
                argument,
                start: start as u32,
                unit: unit as u32,
                next: next as u32,
            });
            (unit, start, extended) = (next, next, 0);
        }
        Self { by_unit, makes_functions, expressions: Vec::new() }
    }

    /// The instruction that starts at a code unit.
    pub fn at(&self, unit: u32) -> Option<Instruction> {
        self.by_unit.get(unit as usize).copied().flatten()
    }

    /// The instruction that takes a slice with a step, if it loads it.
    pub fn takes_slice(&self, build: Instruction) -> Option<Instruction> {
        let taken = self.at(build.next).filter(|i| i.opcode == op::BINARY_SUBSCR);
        taken.filter(|_| build.argument == 3)
    }

    /// What may be a generator expression whose code is compiled: the call of a name with one, over what stores nothing.
    pub fn find_expressions(&self) -> Vec<Expression> {
        if !self.makes_functions {
            return Vec::new();
        }
        let all: Vec<Instruction> = self.instructions().collect();
        let made = (0..all.len()).filter(|index| all[*index].opcode == op::MAKE_FUNCTION);
        made.filter_map(|index| self.expression(&all, index)).collect()
    }

    /// The one whose function is made by the instruction of this index.
    fn expression(&self, all: &[Instruction], index: usize) -> Option<Expression> {
        let code = all.get(index.checked_sub(1)?).filter(|i| i.opcode == op::LOAD_CONST)?;
        let (mut first, mut behind, mut cells) = (index - 1, index + 1, Vec::new());
        if all.get(behind)?.opcode == op::SET_FUNCTION_ATTRIBUTE {
            let tuple = all.get(index.checked_sub(2)?).filter(|i| i.opcode == op::BUILD_TUPLE)?;
            first = (index - 2).checked_sub(tuple.argument as usize)?;
            let loads = all.get(first..index - 2)?;
            if all[behind].argument != CLOSURE || loads.iter().any(|i| i.opcode != op::LOAD_FAST) {
                return None;
            }
            cells = loads.iter().map(|load| load.argument).collect();
            behind += 1;
        }
        let rest = all.get(behind..)?;
        let is_call = |i: &Instruction, argument| i.opcode == op::CALL && i.argument == argument;
        let end = rest
            .windows(3)
            .position(|w| w[0].opcode == op::GET_ITER && is_call(&w[1], 0) && is_call(&w[2], 1))?;
        let stretch = all.get(first..behind + end + 3)?;
        let is_inside = |unit: u32| stretch.iter().any(|i| i.start == unit);
        let straight = !self.instructions().filter_map(|i| i.target()).any(is_inside);
        if !straight || !rest[..end].iter().all(|i| i.stores_nothing()) {
            return None;
        }
        let (call, last) = (rest[end + 1], rest[end + 2]);
        Some(Expression {
            start: stretch[0].start,
            made: rest.first()?.start,
            call: call.start,
            next: last.next,
            constant: code.argument as usize,
            cells,
        })
    }

    /// All of them, in order.
    pub fn instructions(&self) -> impl Iterator<Item = Instruction> + '_ {
        self.by_unit.iter().copied().flatten()
    }

    /// From the head of each loop to its jump back, that included. A loop has as many as ways back.
    pub fn loops(&self) -> impl Iterator<Item = Region> + '_ {
        let jumps = self.instructions().filter(|i| i.opcode == op::JUMP_BACKWARD);
        jumps.filter_map(|jump| Some(Region { start: jump.target()?, end: jump.next }))
    }

    /// The loop with this head.
    pub fn loop_at(&self, head: u32) -> Option<Region> {
        self.loops().filter(|region| region.start == head).max_by_key(|region| region.end)
    }

    /// Whether a loop can take a turn without an instruction of it.
    pub fn can_turn_without(&self, region: Region, avoided: u32) -> bool {
        let (mut seen, mut work) = (self.no_units(), vec![region.start]);
        seen.insert(avoided);
        while let Some(unit) = work.pop() {
            let Some(instruction) = self.at(unit) else { continue };
            if !region.contains(unit) || !seen.insert(unit) {
                continue;
            }
            if instruction.opcode == op::JUMP_BACKWARD && instruction.target() == Some(region.start)
            {
                return true;
            }
            work.extend(instruction.successors());
        }
        false
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
