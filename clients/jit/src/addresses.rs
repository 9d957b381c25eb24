//! Addresses that Cranelift's backend for arm64 gets wrong.
//!
//! A load or a store adds an index to its address that it shifts by the size of what is loaded. Cranelift 0.121 takes the count of a
//! shift for that size if it is equal modulo the bits of what is loaded, instead of the address's 64 (CVE-2026-34971): it adds `i` for
//! `i << 8` where a byte is loaded. No release that our oldest compiler can build has the correction.

use cranelift_codegen::cursor::{Cursor, FuncCursor};
use cranelift_codegen::ir::{Function, Inst, InstBuilder, InstructionData, Opcode, Value};

/// Has such addresses computed apart from the load or store. To be called after all optimizations, which would undo it.
pub fn separate(func: &mut Function) {
    let mut cursor = FuncCursor::new(func);
    while cursor.next_block().is_some() {
        while let Some(inst) = cursor.next_inst() {
            let Some((address, bits)) = accessed(cursor.func, inst) else { continue };
            if !is_taken_wrongly(cursor.func, address, bits) {
                continue;
            }
            // The same number, and no sum.
            let apart = cursor.ins().bor(address, address);
            match &mut cursor.func.dfg.insts[inst] {
                InstructionData::Load { arg, .. } => *arg = apart,
                InstructionData::Store { args: [_, place], .. } => *place = apart,
                _ => {}
            }
        }
    }
}

/// The address that an instruction loads from or stores to, and the bits of what is there.
fn accessed(func: &Function, inst: Inst) -> Option<(Value, u64)> {
    let (opcode, address, ty) = match func.dfg.insts[inst] {
        InstructionData::Load { opcode, arg, .. } => {
            (opcode, arg, func.dfg.value_type(func.dfg.first_result(inst)))
        }
        InstructionData::Store { opcode, args: [value, address], .. } => {
            (opcode, address, func.dfg.value_type(value))
        }
        _ => return None,
    };
    let bits = match opcode {
        Opcode::Uload8 | Opcode::Sload8 | Opcode::Istore8 => 8,
        Opcode::Uload16 | Opcode::Sload16 | Opcode::Istore16 => 16,
        Opcode::Uload32 | Opcode::Sload32 | Opcode::Istore32 => 32,
        _ => u64::from(ty.bits()),
    };
    Some((address, bits))
}

/// Whether an address is a sum with an index that is shifted by such a count, or such a sum with a constant beside.
fn is_taken_wrongly(func: &Function, address: Value, bits: u64) -> bool {
    let is_shifted = |value: Value| match binary(func, value) {
        Some((Opcode::Ishl, [_, count])) => constant(func, count).is_some_and(|count| {
            let count = count % 64;
            count >= bits && 8 << (count % bits) == bits
        }),
        _ => false,
    };
    let is_sum = |value: Value| match binary(func, value) {
        Some((Opcode::Iadd, terms)) => terms.into_iter().any(is_shifted),
        _ => false,
    };
    let is_beside = |value: Value| match binary(func, value) {
        Some((Opcode::Iadd, terms)) => terms.into_iter().any(is_sum),
        _ => false,
    };
    is_sum(address) || is_beside(address)
}

fn binary(func: &Function, value: Value) -> Option<(Opcode, [Value; 2])> {
    let inst = func.dfg.value_def(func.dfg.resolve_aliases(value)).inst()?;
    match func.dfg.insts[inst] {
        InstructionData::Binary { opcode, args } => Some((opcode, args)),
        _ => None,
    }
}

fn constant(func: &Function, value: Value) -> Option<u64> {
    let inst = func.dfg.value_def(func.dfg.resolve_aliases(value)).inst()?;
    match func.dfg.insts[inst] {
        InstructionData::UnaryImm { opcode: Opcode::Iconst, imm } => Some(imm.bits() as u64),
        _ => None,
    }
}
