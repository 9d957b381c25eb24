//! Tuples: those of which only the items are known, and those that are objects.

use super::build::{expected, MOST_ITEMS};
use super::{Flow, Lowering};
use crate::kind::{Kind, Val};
use crate::objects;
use crate::python::{ITEMS_OF_TUPLE, SIZE};
use crate::resolve::{Literal, Result};
use crate::sequences;
use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::types::I64;
use cranelift_codegen::ir::{InstBuilder, Value};

impl Lowering<'_, '_> {
    /// The items of a tuple that is no object.
    pub(super) fn items_within(value: &Val, kinds: &[Kind]) -> Vec<Val> {
        let mut words = value.words.iter().copied();
        let item = |kind: &Kind| Val {
            kind: kind.clone(),
            words: words.by_ref().take(kind.count()).collect(),
            owned: value.owned && kind.holds_objects(),
        };
        kinds.iter().map(item).collect()
    }

    /// The items of a tuple that is a constant.
    pub(super) fn items_of(&self, value: &Val) -> Option<Vec<Literal>> {
        self.literal_of(value)?.items.clone()
    }

    /// A constant, as it was read.
    pub(super) fn literal_of(&self, value: &Val) -> Option<&Literal> {
        let Kind::Constant(address) = value.kind else { return None };
        self.constants.iter().find(|literal| literal.address == address)
    }

    /// A tuple that is a constant as an object whose items are known; other values as they are.
    pub(super) fn as_object(&mut self, value: Val) -> Val {
        let (Kind::Constant(address), Some(items)) = (&value.kind, self.items_of(&value)) else {
            return value;
        };
        let address = self.int(*address as i64);
        Val::new(kind_of(&items), &[address])
    }

    /// The value as an object if it is a tuple: one that is made is owned. What the value itself owns the caller releases.
    pub(super) fn boxed(&mut self, value: Val) -> Result<Val> {
        let mut made = Vec::new();
        let value = self.boxed_into(value, &mut made)?;
        made.pop();
        made.iter().for_each(|inner| self.release(inner));
        Ok(value)
    }

    /// The object that has taken the place of a value, with a reference of its own.
    pub(super) fn exchanged(&mut self, value: &Val, object: Val) -> Val {
        let object = self.own(object);
        self.release(value); // which the object refers to
        object
    }

    /// The values, tuples among them as objects, and those that were made, which the caller releases when others have references.
    pub(super) fn boxed_all(&mut self, values: &[Val]) -> Result<(Vec<Val>, Vec<Val>)> {
        let mut made = Vec::new();
        let boxed = values.iter().map(|value| self.boxed_into(value.borrowed(), &mut made));
        Ok((boxed.collect::<Result<_>>()?, made))
    }

    /// `made`: tuples that are there already, which are released before the interpreter makes them again, and then those that this one needs.
    fn boxed_into(&mut self, value: Val, made: &mut Vec<Val>) -> Result<Val> {
        let Kind::Tuple(kinds) = &value.kind else { return Ok(self.as_object(value)) };
        if !is_boxable(&value.kind) {
            return self.refuse("an object", &[&value]);
        }
        let mut items = Vec::new();
        for item in Self::items_within(&value.borrowed(), kinds) {
            items.push(self.boxed_into(item, made)?);
        }
        let slot = self.store_items(&items)?;
        let (place, count) = (self.b.ins().stack_addr(I64, slot, 0), self.int(kinds.len() as i64));
        let helper = sequences::make_tuple as *const () as usize;
        let tuple = self.call_helper(helper, &[place, count], true);
        self.guard_or_undo(tuple, made);
        let kinds = items.iter().map(|item| expected(&item.kind)).collect();
        let tuple = Val::owning(Kind::tuple_of(kinds), &[tuple]);
        made.push(tuple.clone());
        Ok(tuple)
    }

    /// The tuple at hand has as many items as its kind says.
    pub(super) fn guard_tuple(&mut self, tuple: Value, kinds: &[Kind]) {
        self.guard_type(tuple, objects::container_type(&Kind::TupleObject(Vec::new())));
        if kinds.len() > 1 {
            self.guard_size(tuple, kinds.len());
        }
    }

    fn guard_size(&mut self, tuple: Value, count: usize) {
        let size = self.b.ins().load(I64, self.unchanged, tuple, SIZE);
        let other = self.b.ins().icmp_imm(IntCC::NotEqual, size, count as i64);
        self.guard(other);
    }

    /// The item of a tuple at an index that is known. It is borrowed.
    fn item_of_tuple(&mut self, tuple: Value, index: usize, kind: &Kind) -> Result<Val> {
        let offset = ITEMS_OF_TUPLE + 8 * index as i32;
        let item = self.b.ins().load(I64, self.unchanged, tuple, offset);
        self.item(item, kind)
    }

    /// `tuple[index]`, of either sort.
    pub(super) fn tuple_item(&mut self, tuple: &Val, index: &Val) -> Result<Option<Val>> {
        let (Kind::Tuple(kinds) | Kind::TupleObject(kinds)) = &tuple.kind else {
            return self.refuse("an item", &[tuple]);
        };
        let is_object = matches!(tuple.kind, Kind::TupleObject(_));
        if !index.kind.is_int() {
            return self.refuse("an index", &[index]);
        }
        if let (true, [kind]) = (is_object, &kinds[..]) {
            let object = Self::word(tuple)?;
            let size = self.length(tuple)?;
            let place = self.index_within(index, size)?;
            let offset = self.b.ins().ishl_imm(place, 3);
            let place = self.b.ins().iadd(object, offset);
            let item = self.b.ins().load(I64, self.unchanged, place, ITEMS_OF_TUPLE);
            return self.item(item, kind).map(Some);
        }
        let number = Self::word(index)?;
        let Some(index) = self.known(number) else {
            return Err("an item of a tuple of several types, at an index that is not known".into());
        };
        let index = if index < 0 { index + kinds.len() as i64 } else { index };
        let Some(kind) = usize::try_from(index).ok().and_then(|index| kinds.get(index)) else {
            return Ok(None); // IndexError
        };
        if is_object {
            return self.item_of_tuple(Self::word(tuple)?, index as usize, kind).map(Some);
        }
        Ok(Self::items_within(tuple, kinds).get(index as usize).map(Val::borrowed))
    }

    /// UNPACK_SEQUENCE.
    pub(super) fn unpack(&mut self, count: usize) -> Result<Flow> {
        let value = self.pop()?;
        if let Some(items) = self.items_of(&value) {
            if items.len() != count {
                return Ok(self.leave()); // ValueError
            }
            items.iter().rev().for_each(|item| self.push_literal(item));
            return Ok(Flow::Next);
        }
        let mut items = Vec::with_capacity(count);
        match &value.kind {
            Kind::Tuple(kinds) if kinds.len() == count => items = Self::items_within(&value, kinds),
            Kind::TupleObject(kinds) if kinds.len() == count || kinds.len() == 1 => {
                let tuple = Self::word(&value)?;
                if kinds.len() == 1 {
                    self.guard_size(tuple, count);
                }
                for index in 0..count {
                    let kind = kinds.get(index).or(kinds.first()).ok_or("internal: no kinds")?;
                    items.push(self.item_of_tuple(tuple, index, kind)?);
                }
            }
            Kind::List(kind) => {
                let (list, size) = (Self::word(&value)?, self.length(&value)?);
                let other = self.b.ins().icmp_imm(IntCC::NotEqual, size, count as i64);
                self.guard(other);
                for index in 0..count {
                    let index = self.int(index as i64);
                    items.push(self.item_at(&Kind::List(kind.clone()), list, index)?);
                }
            }
            Kind::Tuple(_) | Kind::TupleObject(_) => return Ok(self.leave()), // ValueError
            _ => return self.refuse("unpacking", &[&value]),
        }
        self.stack.extend(items.into_iter().rev());
        Ok(Flow::Next)
    }
}

/// The kind of a tuple of constants.
fn kind_of(items: &[Literal]) -> Kind {
    let kind = |item: &Literal| match &item.items {
        Some(items) => kind_of(items),
        None => expected(&item.kind),
    };
    let seen = if items.len() > crate::containers::MOST_KINDS { 1 } else { items.len() };
    Kind::tuple_of(items.iter().take(seen).map(kind).collect())
}

/// Whether an object can be made of a tuple of this kind, or is there already.
fn is_boxable(kind: &Kind) -> bool {
    match kind {
        Kind::Tuple(items) => items.len() <= MOST_ITEMS && items.iter().all(is_boxable),
        Kind::None | Kind::Constant(_) => true,
        kind => kind.is_number() || kind.is_counted(),
    }
}
