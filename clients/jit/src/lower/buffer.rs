//! Items of bytes and bytearrays.

use super::Lowering;
use crate::kind::{Kind, Val, INT};
use crate::python::{BYTES, BYTES_OF_ARRAY};
use crate::resolve::Result;
use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::types::I64;
use cranelift_codegen::ir::{InstBuilder, MemFlags, Value};

impl Lowering<'_, '_> {
    /// `bytes[index]`.
    pub(super) fn byte(&mut self, bytes: &Val, index: &Val) -> Result<Val> {
        let place = self.byte_place(bytes, index)?;
        Ok(Val::new(INT, &[self.b.ins().uload8(I64, MemFlags::trusted(), place, 0)]))
    }

    /// `bytearray[index] = value`; leaves for what is no byte.
    pub(super) fn store_byte(&mut self, bytes: &Val, index: &Val, value: &Val) -> Result<()> {
        if !value.kind.is_int() {
            return self.refuse("a byte", &[value]);
        }
        let number = Self::word(value)?;
        let beyond = self.b.ins().icmp_imm(IntCC::UnsignedGreaterThan, number, 255);
        self.guard(beyond);
        let place = self.byte_place(bytes, index)?;
        self.b.ins().istore8(MemFlags::trusted(), number, place, 0);
        self.stores = true;
        Ok(())
    }

    fn byte_place(&mut self, bytes: &Val, index: &Val) -> Result<Value> {
        let object = Self::word(bytes)?;
        let size = self.length(bytes)?;
        let place = self.index_within(index, size)?;
        let start = if bytes.kind == Kind::Bytes {
            self.b.ins().iadd_imm(object, i64::from(BYTES))
        } else {
            self.b.ins().load(I64, self.unchanged, object, BYTES_OF_ARRAY)
        };
        Ok(self.b.ins().iadd(start, place))
    }
}
