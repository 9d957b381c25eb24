//! Items of lists as they are stored.
//!
//! *In place*: an int or a float to which the list has the only reference gets the new value. It is no other object for anyone: who
//! has seen the object has a reference, and numbers that compiled code reads from lists are copies.

use super::Lowering;
use crate::kind::{Kind, Val, FLOAT, INT};
use crate::objects;
use crate::python::{FLOAT_VALUE, LONG_DIGIT, LONG_SHIFT, LONG_SIZE, LONG_TAG, REFERENCES, TYPE};
use crate::resolve::Result;
use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::types::{I32, I64};
use cranelift_codegen::ir::{Block, InstBuilder, MemFlags, Value};

/// The tag of a positive int of one digit, and those of all ints of one or none are below twice that.
const ONE_DIGIT: i64 = 8;

impl Lowering<'_, '_> {
    /// `list[index] = value`. Leaves if code of the program could run when the old item is released.
    pub(super) fn store_list_item(&mut self, list: &Val, index: &Val, value: &Val) -> Result<()> {
        let place = self.list_place(list, index)?;
        let (values, tuples) = self.boxed_all(std::slice::from_ref(value))?;
        let value = values.first().ok_or("internal: no value")?;
        self.stores = true;
        let items = match value.kind {
            Kind::Float { .. } => FLOAT,
            Kind::Int { .. } => INT,
            Kind::TupleObject(_) => value.kind.clone(),
            _ => Kind::Object,
        };
        self.learn(Self::word(list)?, &items);
        match value.kind {
            Kind::Float { object: false } => self.store_float(place, Self::word(value)?),
            Kind::Int { object: false } => self.store_int(place, Self::word(value)?),
            Kind::Float { .. } | Kind::Int { .. } => {
                let object = value.object().ok_or("internal: no object")?;
                let helper = if value.kind.is_float() {
                    objects::store_float as *const () as usize
                } else {
                    objects::store_int as *const () as usize
                };
                let good = self.call_helper(helper, &[place, Self::word(value)?, object], true);
                self.guard_made(good, &tuples);
            }
            _ => {
                let object = self.object_of(value)?;
                self.store_object(place, object, &tuples);
            }
        }
        Ok(())
    }

    /// Where nothing else refers to a float of the list, it gets the new value (*in place*).
    fn store_float(&mut self, place: Value, number: Value) {
        let flags = MemFlags::trusted();
        let old = self.b.ins().load(I64, self.of_items, place, 0);
        let [float, here, end] = [(); 3].map(|()| self.b.create_block());
        let anew = self.cold_block();
        let is_float = self.is_of_type(old, objects::float_type());
        self.b.ins().brif(is_float, float, &[], anew, &[]);
        self.b.switch_to_block(float);
        let count = self.b.ins().load(I32, flags, old, REFERENCES);
        let single = self.b.ins().icmp_imm(IntCC::Equal, count, 1);
        self.b.ins().brif(single, here, &[], anew, &[]);
        self.b.switch_to_block(here);
        self.b.ins().store(flags, number, old, FLOAT_VALUE);
        self.b.ins().jump(end, &[]);
        self.store_anew(anew, objects::store_float as *const () as usize, place, number, end);
    }

    /// Where nothing else refers to an int of the list, it gets the new value (*in place*), if both have one digit and the new one is
    /// positive and not among those that there are once. One of the latter is stored without a call if the old item stays alive.
    fn store_int(&mut self, place: Value, number: Value) {
        let flags = MemFlags::trusted();
        let small_ints = objects::small_ints();
        let old = self.b.ins().load(I64, self.of_items, place, 0);
        let [int, here, other, swap, end] = [(); 5].map(|()| self.b.create_block());
        let anew = self.cold_block();
        let is_int = self.is_of_type(old, objects::int_type());
        self.b.ins().brif(is_int, int, &[], anew, &[]);

        self.b.switch_to_block(int);
        let references = self.b.ins().load(I32, flags, old, REFERENCES);
        let single = self.b.ins().icmp_imm(IntCC::Equal, references, 1);
        let tag = self.b.ins().load(I64, self.unchanged, old, LONG_TAG);
        let has_digit = self.b.ins().icmp_imm(IntCC::UnsignedLessThan, tag, 2 * ONE_DIGIT);
        let after_small = small_ints.first + small_ints.count;
        let beyond = self.b.ins().iadd_imm(number, -after_small);
        let fits = (1 << LONG_SHIFT) - after_small;
        let fits = self.b.ins().icmp_imm(IntCC::UnsignedLessThan, beyond, fits);
        let all = self.b.ins().band(single, has_digit);
        let all = self.b.ins().band(all, fits);
        self.b.ins().brif(all, here, &[], other, &[]);

        self.b.switch_to_block(here);
        self.b.ins().istore32(self.unchanged, number, old, LONG_DIGIT);
        let tag = self.int(ONE_DIGIT);
        self.b.ins().store(self.unchanged, tag, old, LONG_TAG);
        self.b.ins().jump(end, &[]);

        self.b.switch_to_block(other);
        let index = self.b.ins().iadd_imm(number, -small_ints.first);
        let is_small = self.b.ins().icmp_imm(IntCC::UnsignedLessThan, index, small_ints.count);
        let shared = self.b.ins().icmp_imm(IntCC::NotEqual, references, 1);
        let both = self.b.ins().band(is_small, shared);
        self.b.ins().brif(both, swap, &[], anew, &[]);

        self.b.switch_to_block(swap);
        let offset = self.b.ins().imul_imm(index, LONG_SIZE);
        let small = self.b.ins().iadd_imm(offset, small_ints.address as i64);
        self.b.ins().store(self.of_items, small, place, 0);
        self.drop_shared(old, references);
        self.b.ins().jump(end, &[]);
        self.store_anew(anew, objects::store_int as *const () as usize, place, number, end);
    }

    /// Stores another object.
    fn store_object(&mut self, place: Value, object: Value, tuples: &[Val]) {
        let old = self.b.ins().load(I64, self.of_items, place, 0);
        let [swap, end] = [(); 2].map(|()| self.b.create_block());
        let last = self.cold_block();
        let references = self.b.ins().load(I32, MemFlags::trusted(), old, REFERENCES);
        let single = self.b.ins().icmp_imm(IntCC::Equal, references, 1);
        self.b.ins().brif(single, last, &[], swap, &[]);
        self.b.switch_to_block(swap);
        self.b.ins().store(self.of_items, object, place, 0);
        self.drop_shared(old, references);
        self.keep(object);
        self.b.ins().jump(end, &[]);
        self.b.switch_to_block(last);
        let helper = objects::store as *const () as usize;
        let good = self.call_helper(helper, &[place, object], true);
        self.guard_or_undo(good, tuples);
        self.b.ins().jump(end, &[]);
        self.b.switch_to_block(end);
        tuples.iter().for_each(|tuple| self.release(tuple));
    }

    /// In `block`: a function makes the object and stores it, or compiled code is left. Goes on in `end`.
    fn store_anew(&mut self, block: Block, helper: usize, place: Value, number: Value, end: Block) {
        self.b.switch_to_block(block);
        let none = self.int(0);
        let good = self.call_helper(helper, &[place, number, none], true);
        let bad = self.b.ins().icmp_imm(IntCC::Equal, good, 0);
        self.guard(bad);
        self.b.ins().jump(end, &[]);
        self.b.switch_to_block(end);
    }

    fn cold_block(&mut self) -> Block {
        let block = self.b.create_block();
        self.b.set_cold_block(block);
        block
    }

    fn is_of_type(&mut self, object: Value, expected: usize) -> Value {
        let found = self.b.ins().load(I64, self.unchanged, object, TYPE);
        self.b.ins().icmp_imm(IntCC::Equal, found, expected as i64)
    }

    /// One reference less to an object that has `references`, more than one.
    pub(super) fn drop_shared(&mut self, object: Value, references: Value) {
        let fewer = self.b.ins().iadd_imm(references, -1);
        let immortal = self.b.ins().icmp_imm(IntCC::SignedLessThan, references, 0);
        let fewer = self.b.ins().select(immortal, references, fewer);
        self.b.ins().store(MemFlags::trusted(), fewer, object, REFERENCES);
    }
}
