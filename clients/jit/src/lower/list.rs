//! Items of lists as they are read.

use super::Lowering;
use crate::buffers::{self, DESCRIPTION, ITEMS_OF_ARRAY};
use crate::kind::{Kind, Val, FLOAT, INT};
use crate::objects;
use crate::python::{FLOAT_VALUE, ITEMS, LONG_DIGIT, LONG_SHIFT, LONG_TAG, SIZE, TYPE};
use crate::resolve::Result;
use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::types::{F64, I64};
use cranelift_codegen::ir::{BlockArg, InstBuilder, MemFlags, Value};

/// No container has more items: memory has fewer bytes.
pub(super) const LARGEST: i64 = 1 << 60;

impl Lowering<'_, '_> {
    /// `list[index]`. The result is borrowed from the list.
    pub(super) fn list_item(&mut self, list: &Val, index: &Val, items: &Kind) -> Result<Val> {
        let place = self.list_place(list, index)?;
        let item = self.b.ins().load(I64, self.of_items, place, 0);
        self.item(item, items)
    }

    /// An object as a value of a kind; leaves if it is another one.
    pub(super) fn item(&mut self, item: Value, kind: &Kind) -> Result<Val> {
        let flags = MemFlags::trusted();
        match kind {
            Kind::Int { .. } => {
                self.guard_type(item, objects::int_type());
                Ok(Val::new(INT, &[self.unboxed(item)?]))
            }
            Kind::Float { .. } => {
                self.guard_type(item, objects::float_type());
                Ok(Val::new(FLOAT, &[self.b.ins().load(F64, flags, item, FLOAT_VALUE)]))
            }
            Kind::Bool => {
                let (no, yes) = objects::bools();
                let no = self.b.ins().icmp_imm(IntCC::Equal, item, no as i64);
                let yes = self.b.ins().icmp_imm(IntCC::Equal, item, yes as i64);
                let either = self.b.ins().bor(no, yes);
                self.require(either);
                Ok(self.bool(yes))
            }
            Kind::None => {
                let other = self.b.ins().icmp_imm(IntCC::NotEqual, item, objects::none() as i64);
                self.guard(other);
                Ok(Val::plain(Kind::None))
            }
            Kind::TupleObject(kinds) => {
                self.guard_tuple(item, kinds);
                Ok(Val::new(kind.clone(), &[item]))
            }
            Kind::List(_) | Kind::Bytes | Kind::ByteArray | Kind::Instance(_) => {
                self.guard_type(item, objects::container_type(kind));
                Ok(Val::new(kind.clone(), &[item]))
            }
            Kind::Buffer { array: true, format, .. } => {
                let (ty, description) =
                    buffers::array(*format).ok_or("an array of which nothing is known")?;
                self.guard_type(item, ty);
                let found = self.b.ins().load(I64, self.unchanged, item, DESCRIPTION);
                let other = self.b.ins().icmp_imm(IntCC::NotEqual, found, description as i64);
                self.guard(other);
                self.referred(item, kind)
            }
            _ => Err("an item of a list in which nothing that is compiled was seen".into()),
        }
    }

    /// The value of an object of this kind.
    pub(super) fn referred(&mut self, object: Value, kind: &Kind) -> Result<Val> {
        let value = Val::new(kind.clone(), &[object]);
        match kind {
            Kind::Buffer { array: true, format, .. } if buffers::array(*format).is_some() => {
                let start = self.b.ins().load(I64, self.unchanged, object, ITEMS_OF_ARRAY);
                let count = self.b.ins().load(I64, self.unchanged, object, SIZE);
                Ok(Val::new(kind.clone(), &[object, start, count]))
            }
            _ => self.located(value),
        }
    }

    pub(super) fn guard_type(&mut self, object: Value, expected: usize) {
        let same = self.is_of_type(object, expected);
        self.require(same);
    }

    /// A condition: the type of an object is this one.
    pub(super) fn is_of_type(&mut self, object: Value, expected: usize) -> Value {
        let found = self.b.ins().load(I64, self.unchanged, object, TYPE);
        self.b.ins().icmp_imm(IntCC::Equal, found, expected as i64)
    }

    /// The number of an exact int.
    fn unboxed(&mut self, item: Value) -> Result<Value> {
        let flags = self.unchanged;
        let tag = self.b.ins().load(I64, flags, item, LONG_TAG);
        let digit = self.b.ins().uload32(flags, item, LONG_DIGIT);
        self.within(digit, 0, (1 << LONG_SHIFT) - 1);
        let [other, negative, large] = [(); 3].map(|()| self.cold_block());
        let end = self.b.create_block();
        let result = self.b.append_block_param(end, I64);
        // The lowest two bits are 1 less the sign, and the digits are counted above three bits: 0 is 1, of which the digit is 0.
        let natural = self.b.ins().icmp_imm(IntCC::UnsignedLessThanOrEqual, tag, 8);
        self.b.ins().brif(natural, end, &[BlockArg::Value(digit)], other, &[]);
        self.b.switch_to_block(other);
        let many = self.b.ins().icmp_imm(IntCC::UnsignedGreaterThanOrEqual, tag, 16);
        self.b.ins().brif(many, large, &[], negative, &[]);
        self.b.switch_to_block(negative);
        let value = self.b.ins().ineg(digit);
        self.b.ins().jump(end, &[BlockArg::Value(value)]);
        self.b.switch_to_block(large);
        let value = self.checked_call(objects::int_value as *const () as usize, &[item], I64)?;
        self.b.ins().jump(end, &[BlockArg::Value(value)]);
        self.b.switch_to_block(end);
        Ok(result)
    }

    /// The index within `size`, counted from the end if it is negative; leaves beyond.
    pub(super) fn index_within(&mut self, index: &Val, size: Value) -> Result<Value> {
        if !index.kind.is_int() {
            return self.refuse("an index", &[index]);
        }
        let number = Self::word(index)?;
        let sign = self.b.ins().sshr_imm(number, 63);
        let from_end = self.b.ins().band(sign, size);
        let place = self.b.ins().iadd(number, from_end);
        let beyond = self.b.ins().icmp(IntCC::UnsignedGreaterThanOrEqual, place, size);
        self.guard(beyond);
        Ok(place)
    }

    /// The address of an item's place.
    pub(super) fn list_place(&mut self, list: &Val, index: &Val) -> Result<Value> {
        let object = Self::word(list)?;
        let size = self.length(list)?;
        let place = self.index_within(index, size)?;
        let items = self.b.ins().load(I64, self.unchanged, object, ITEMS);
        let offset = self.b.ins().ishl_imm(place, 3);
        Ok(self.b.ins().iadd(items, offset))
    }

    /// The object of a value that has one already.
    pub(super) fn object_of(&mut self, value: &Val) -> Result<Value> {
        match &value.kind {
            Kind::Bool => {
                let truth = Self::word(value)?;
                let (no, yes) = objects::bools();
                let (no, yes) = (self.int(no as i64), self.int(yes as i64));
                Ok(self.b.ins().select(truth, yes, no))
            }
            Kind::None => Ok(self.int(objects::none() as i64)),
            Kind::Constant(address) => Ok(self.int(*address as i64)),
            kind if kind.is_counted() => Self::word(value),
            _ => self.refuse("an item", &[value]),
        }
    }

    /// How many items a container has.
    pub(super) fn length(&mut self, value: &Val) -> Result<Value> {
        if !value.kind.is_container() {
            return self.refuse("the length", &[value]);
        }
        let object = Self::word(value)?;
        let size = self.b.ins().load(I64, self.unchanged, object, SIZE);
        Ok(self.within(size, 0, LARGEST))
    }
}
