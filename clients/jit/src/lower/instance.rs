//! Attributes of instances.
//!
//! *Until it is left*: the class of an object, and what the class has, are changed by code of the program alone. That the class is the
//! one for which code was compiled is compared at each entry (`depend`).

use super::Lowering;
use crate::instances::{create, expect, DICT, VALID};
use crate::kind::{Kind, Val};
use crate::objects;
use crate::resolve::{Attribute, Result, Usage};
use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::types::I64;
use cranelift_codegen::ir::{InstBuilder, Value};

impl Lowering<'_, '_> {
    fn class_of(object: &Val) -> Result<usize> {
        match object.kind {
            Kind::Instance(class) => Ok(class),
            _ => Err(format!("an attribute of {}", object.kind.describe())),
        }
    }

    /// Leaves if the attributes are not behind the object's head.
    fn guard_values(&mut self, object: Value) {
        let valid = self.b.ins().uload8(I64, self.unchanged, object, VALID);
        self.require(valid);
    }

    /// `object.name`, or the method of that name and the object.
    pub(super) fn load_attribute(&mut self, object: Val, name: u32, is_called: bool) -> Result<()> {
        let (class, word) = (Self::class_of(&object)?, Self::word(&object)?);
        let usage = if is_called { Usage::Call } else { Usage::Load };
        match self.resolve.instance_attribute(class, name, usage)? {
            Attribute::Value { offset, inline, seen } => {
                if is_called {
                    return Err("a call of what an attribute refers to".into());
                }
                if inline {
                    self.guard_values(word);
                }
                let value = self.b.ins().load(I64, self.of_items, word, offset);
                self.require(value);
                let seen = seen.ok_or("an attribute of a type that is not compiled")?;
                if !seen.or_none {
                    self.of_one_kind.insert(self.instruction.unit, offset);
                } else if self.may_split() {
                    let is_none = objects::none() as i64;
                    let is_none = self.b.ins().icmp_imm(IntCC::Equal, value, is_none);
                    self.split_none(is_none);
                }
                let value = self.item(value, &seen.kind)?;
                self.stack.push(value);
            }
            Attribute::OfClass { literal, inline, hidden_by } => {
                if inline {
                    self.guard_values(word);
                }
                if let Some(offset) = hidden_by {
                    let value = self.b.ins().load(I64, self.of_items, word, offset);
                    let hidden = self.b.ins().icmp_imm(IntCC::NotEqual, value, 0);
                    self.guard(hidden);
                }
                self.push_literal(&literal);
                if is_called {
                    self.stack.push(object);
                }
            }
        }
        Ok(())
    }

    /// `object.name = value`. An object whose dict was made is left to the interpreter: the dict has a version.
    pub(super) fn store_attribute(&mut self, name: u32) -> Result<()> {
        let (object, value) = (self.pop()?, self.pop()?);
        let (class, word) = (Self::class_of(&object)?, Self::word(&object)?);
        let Attribute::Value { offset, inline, .. } =
            self.resolve.instance_attribute(class, name, Usage::Store)?
        else {
            return Err("a store to an attribute that instances do not have".into());
        };
        if inline {
            self.guard_values(word);
            let dict = self.b.ins().load(I64, self.unchanged, word, DICT);
            let is_made = self.b.ins().icmp_imm(IntCC::NotEqual, dict, 0);
            self.guard(is_made);
        }
        let old = self.b.ins().load(I64, self.of_items, word, offset);
        let [there, end] = [(); 2].map(|()| self.b.create_block());
        let none = self.cold_block();
        self.b.ins().brif(old, there, &[], none, &[]);
        self.b.switch_to_block(there);
        let place = self.b.ins().iadd_imm(word, i64::from(offset));
        let stored = self.store_at(place, &value)?;
        self.b.ins().jump(end, &[]);
        self.b.switch_to_block(none);
        let (values, tuples) = self.boxed_all(std::slice::from_ref(&value))?;
        let slot = self.store_items(&values)?;
        let (item, offset_of) = (self.b.ins().stack_addr(I64, slot, 0), self.int(offset.into()));
        self.changed_with(create as *const () as usize, &[word, offset_of, item], &tuples);
        self.b.ins().jump(end, &[]);
        self.b.switch_to_block(end);
        if stored != Kind::Object {
            expect(class, offset, stored);
        }
        Ok(())
    }
}
