//! Items of arrays and memoryviews.

use super::{Flow, Lowering};
use crate::buffers;
use crate::kind::{Kind, Val, FLOAT, INT};
use crate::resolve::Result;
use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::types::{F32, F64, I64};
use cranelift_codegen::ir::{InstBuilder, MemFlags, StackSlotData, StackSlotKind, Value};

/// What a format is.
struct Format {
    bits: u32,
    signed: bool,
    float: bool,
}

fn format_of(code: u8) -> Format {
    let bits = match code.to_ascii_lowercase() {
        b'b' => 8,
        b'h' => 16,
        b'i' | b'f' => 32,
        _ => 64,
    };
    let float = matches!(code, b'f' | b'd');
    Format { bits, signed: code.is_ascii_lowercase(), float }
}

/// A view may begin anywhere.
fn flags() -> MemFlags {
    MemFlags::new().with_notrap()
}

impl Lowering<'_, '_> {
    /// The array or view with where its items are now.
    pub(super) fn located(&mut self, value: Val) -> Result<Val> {
        let Kind::Buffer { .. } = value.kind else { return Ok(value) };
        let object = Self::word(&value)?;
        let data = StackSlotData::new(StackSlotKind::ExplicitSlot, 16, 3);
        let slot = self.b.create_sized_stack_slot(data);
        let place = self.b.ins().stack_addr(I64, slot, 0);
        self.call_helper(buffers::locate as *const () as usize, &[object, place], false);
        let start = self.b.ins().stack_load(I64, slot, 0);
        let count = self.b.ins().stack_load(I64, slot, 8);
        Ok(Val { owned: value.owned, ..Val::new(value.kind, &[object, start, count]) })
    }

    /// `len(array)`; leaves if the view was released.
    pub(super) fn buffer_length(&mut self, buffer: &Val) -> Result<Value> {
        let &[_, start, count] = &buffer.words[..] else {
            return self.refuse("the length", &[buffer]);
        };
        let released = self.b.ins().icmp_imm(IntCC::Equal, start, 0);
        self.guard(released);
        Ok(count)
    }

    fn buffer_place(&mut self, buffer: &Val, index: &Val, format: &Format) -> Result<Value> {
        let &[_, start, count] = &buffer.words[..] else {
            return self.refuse("an item", &[buffer]);
        };
        let place = self.index_within(index, count)?;
        let size = i64::from(format.bits / 8);
        let offset = self.b.ins().imul_imm(place, size);
        Ok(self.b.ins().iadd(start, offset))
    }

    /// `array[index]`.
    pub(super) fn buffer_item(&mut self, buffer: &Val, index: &Val, code: u8) -> Result<Val> {
        let format = format_of(code);
        let place = self.buffer_place(buffer, index, &format)?;
        let ins = self.b.ins();
        let word = match (format.bits, format.signed) {
            (32, _) if format.float => {
                let single = ins.load(F32, flags(), place, 0);
                self.b.ins().fpromote(F64, single)
            }
            _ if format.float => ins.load(F64, flags(), place, 0),
            (8, true) => ins.sload8(I64, flags(), place, 0),
            (8, false) => ins.uload8(I64, flags(), place, 0),
            (16, true) => ins.sload16(I64, flags(), place, 0),
            (16, false) => ins.uload16(I64, flags(), place, 0),
            (32, true) => ins.sload32(flags(), place, 0),
            (32, false) => ins.uload32(flags(), place, 0),
            _ => ins.load(I64, flags(), place, 0),
        };
        if format.bits == 64 && !format.signed {
            let large = self.below(word, 0);
            self.guard(large);
        }
        Ok(Val::new(if format.float { FLOAT } else { INT }, &[word]))
    }

    /// `array[index] = value`; leaves for what the format cannot have.
    pub(super) fn store_buffer_item(
        &mut self,
        buffer: &Val,
        index: &Val,
        value: &Val,
        code: u8,
    ) -> Result<Flow> {
        let format = format_of(code);
        if !value.kind.is_number() || (value.kind.is_float() && !format.float) {
            return Ok(self.leave()); // TypeError
        }
        let word = if format.float { self.as_float(value)? } else { Self::word(value)? };
        if !format.float {
            self.guard_format(word, &format);
        }
        let place = self.buffer_place(buffer, index, &format)?;
        self.stores = true;
        match format.bits {
            32 if format.float => {
                let single = self.b.ins().fdemote(F32, word);
                self.b.ins().store(flags(), single, place, 0);
            }
            8 => {
                self.b.ins().istore8(flags(), word, place, 0);
            }
            16 => {
                self.b.ins().istore16(flags(), word, place, 0);
            }
            32 => {
                self.b.ins().istore32(flags(), word, place, 0);
            }
            _ => {
                self.b.ins().store(flags(), word, place, 0);
            }
        }
        Ok(Flow::Next)
    }

    /// Leaves if the format cannot have this int.
    fn guard_format(&mut self, word: Value, format: &Format) {
        let beyond = match (format.bits, format.signed) {
            (64, true) => return,
            (64, false) => self.below(word, 0),
            (bits, signed) => {
                // From the least one on, there are 2**bits of them.
                let least = if signed { -1i64 << (bits - 1) } else { 0 };
                let moved = self.b.ins().iadd_imm(word, -least);
                self.b.ins().icmp_imm(IntCC::UnsignedGreaterThanOrEqual, moved, 1i64 << bits)
            }
        };
        self.guard(beyond);
    }
}
