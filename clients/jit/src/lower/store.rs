//! Items of lists as they are stored.
//!
//! *In place*: an int or a float to which the list has the only reference gets the new value. It is no other object for anyone: who
//! has seen the object has a reference, and numbers that compiled code reads from lists are copies.

use super::Lowering;
use crate::kind::{Kind, Val, FLOAT, INT};
use crate::objects;
use crate::python::{
    ALLOCATED, FLOAT_VALUE, ITEMS, LONG_DIGIT, LONG_SHIFT, LONG_SIZE, LONG_TAG, REFERENCES, SIZE,
};
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
        let items = self.store_at(place, value)?;
        self.learn(Self::word(list)?, &items);
        Ok(())
    }

    /// Puts a value into the place of another one, which is not NULL: that of an item, or of an attribute. What it is as an item.
    pub(super) fn store_at(&mut self, place: Value, value: &Val) -> Result<Kind> {
        let (values, tuples) = self.boxed_all(std::slice::from_ref(value))?;
        let value = values.first().ok_or("internal: no value")?;
        self.stores = true;
        let items = match value.kind {
            Kind::Float { .. } => FLOAT,
            Kind::Int { .. } => INT,
            Kind::TupleObject(_) => value.kind.clone(),
            _ => Kind::Object,
        };
        match value.kind {
            _ if self.has_known_object(value) => {
                let object = value.object().ok_or("internal: no object")?;
                self.store_object(place, object, &tuples);
            }
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
        Ok(items)
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
        let (small, is_small) = self.small_int(number);
        let shared = self.b.ins().icmp_imm(IntCC::NotEqual, references, 1);
        let both = self.b.ins().band(is_small, shared);
        self.b.ins().brif(both, swap, &[], anew, &[]);

        self.b.switch_to_block(swap);
        self.b.ins().store(self.of_items, small, place, 0);
        self.drop_shared(old, references);
        self.b.ins().jump(end, &[]);
        self.store_anew(anew, objects::store_int as *const () as usize, place, number, end);
    }

    /// Where the object of an int is if it is one of those that there are once, and a condition: it is.
    fn small_int(&mut self, number: Value) -> (Value, Value) {
        let small_ints = objects::small_ints();
        let index = self.b.ins().iadd_imm(number, -small_ints.first);
        let is_small = self.b.ins().icmp_imm(IntCC::UnsignedLessThan, index, small_ints.count);
        let offset = self.b.ins().imul_imm(index, LONG_SIZE);
        let small = self.b.ins().iadd_imm(offset, small_ints.address as i64);
        (small, is_small)
    }

    /// A number that is a constant of the program.
    fn has_known_object(&self, value: &Val) -> bool {
        value.object().and_then(|object| self.known(object)).is_some_and(|object| object != 0)
    }

    /// Appends an object that there is already to a list that has room for it. What is compiled next is for the other cases, and has to
    /// jump to the block that is returned; `None`: all cases are left to it.
    ///
    /// A list that is being sorted has no room: `allocated` is -1.
    pub(super) fn append_in_place(&mut self, list: Value, value: &Val) -> Result<Option<Block>> {
        let (object, exists) = match value.kind {
            _ if self.has_known_object(value) => (value.object(), None),
            Kind::Int { object: false } => {
                let (small, is_small) = self.small_int(Self::word(value)?);
                (Some(small), Some(is_small))
            }
            Kind::Int { .. } | Kind::Float { .. } => (None, None),
            _ => (Some(self.object_of(value)?), None),
        };
        let Some(object) = object else { return Ok(None) };
        let [here, end] = [(); 2].map(|()| self.b.create_block());
        let other = self.cold_block();
        let size = self.b.ins().load(I64, self.unchanged, list, SIZE);
        let allocated = self.b.ins().load(I64, self.unchanged, list, ALLOCATED);
        let mut fits = self.b.ins().icmp(IntCC::SignedLessThan, size, allocated);
        if let Some(exists) = exists {
            fits = self.b.ins().band(fits, exists);
        }
        self.b.ins().brif(fits, here, &[], other, &[]);
        self.b.switch_to_block(here);
        let items = self.b.ins().load(I64, self.unchanged, list, ITEMS);
        let offset = self.b.ins().ishl_imm(size, 3);
        let place = self.b.ins().iadd(items, offset);
        self.b.ins().store(self.of_items, object, place, 0);
        let size = self.b.ins().iadd_imm(size, 1);
        self.b.ins().store(self.unchanged, size, list, SIZE);
        if exists.is_none() {
            self.keep(object);
        }
        self.b.ins().jump(end, &[]);
        self.b.switch_to_block(other);
        Ok(Some(end))
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

    /// Fills `block`: a function makes the object and stores it, or compiled code is left. What is compiled next is in `end`.
    fn store_anew(&mut self, block: Block, helper: usize, place: Value, number: Value, end: Block) {
        self.b.switch_to_block(block);
        let none = self.int(0);
        let good = self.call_helper(helper, &[place, number, none], true);
        self.require(good);
        self.b.ins().jump(end, &[]);
        self.b.switch_to_block(end);
    }

    /// One reference less to an object that has `references`, more than one.
    pub(super) fn drop_shared(&mut self, object: Value, references: Value) {
        let fewer = self.b.ins().iadd_imm(references, -1);
        let immortal = self.b.ins().icmp_imm(IntCC::SignedLessThan, references, 0);
        let fewer = self.b.ins().select(immortal, references, fewer);
        self.b.ins().store(MemFlags::trusted(), fewer, object, REFERENCES);
    }
}
