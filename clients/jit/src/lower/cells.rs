//! Variables in cells.
//!
//! Cells are read and stored where they are, since what is called may have the same ones. A number or None is stored where there was
//! one or nothing; other contents stay as long as compiled code runs, so what is read from a cell may be borrowed.

use super::{Flow, Lowering};
use crate::kind::{Kind, Val};
use crate::methods;
use crate::objects;
use crate::python::{BUILTINS, CLOSURE, CODE, CONTENT, GLOBALS, ITEMS_OF_TUPLE};
use crate::resolve::Result;
use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::types::I64;
use cranelift_codegen::ir::{InstBuilder, MemFlags, Value};

impl Lowering<'_, '_> {
    /// COPY_FREE_VARS: the last variables are the cells of the function's closure.
    pub(super) fn copy_cells(&mut self, count: usize) -> Result<()> {
        let flags = MemFlags::trusted();
        let closure = self.b.ins().load(I64, flags, self.function, CLOSURE);
        let first = self.locals.len().checked_sub(count).ok_or("internal: COPY_FREE_VARS")?;
        for index in 0..count {
            let offset = ITEMS_OF_TUPLE + 8 * index as i32;
            let cell = self.b.ins().load(I64, flags, closure, offset);
            self.set_local(first + index, Val::new(Kind::Cell, &[cell]))?;
        }
        Ok(())
    }

    /// The cells of a loop that shares them have no other variables.
    pub(super) fn share_cells(&mut self) -> Result<()> {
        let outside = self.outside;
        for place in outside.cells.values().filter(|_| outside.shared) {
            let old = self.set_local(*place, Val::plain(Kind::Unbound))?;
            self.release(&old);
        }
        Ok(())
    }

    /// The local variable that has what a cell contains, if cells are not shared.
    fn variable_of(&self, slot: u32) -> Option<usize> {
        let outside = self.outside;
        outside.cells.get(&slot).copied().filter(|_| !outside.shared)
    }

    /// MAKE_CELL: the cell has what the variable has. Only generator expressions that are compiled are passed it.
    pub(super) fn make_cell(&mut self, slot: usize) -> Result<()> {
        let local = self.locals.get_mut(slot).ok_or("internal: no such local")?;
        if matches!(local.kind, Kind::InCell(_) | Kind::Cell) {
            return Err("a cell in a cell".into());
        }
        local.kind = Kind::InCell(Box::new(local.kind.clone()));
        Ok(())
    }

    /// The value of a variable that is known, though the interpreter has it in a cell.
    fn load_in_cell(&mut self, slot: usize) -> Result<Flow> {
        let local = self.locals.get(slot).cloned().ok_or("internal: no such local")?;
        let Kind::InCell(kind) = local.kind else { return Err("internal: no cell".into()) };
        let value = match *kind {
            Kind::Unbound => return Ok(self.leave()), // UnboundLocalError, or NameError
            Kind::Maybe(kind) => {
                let (bound, words) = local.words.split_first().ok_or("internal: no words")?;
                let unbound = self.b.ins().icmp_imm(IntCC::Equal, *bound, 0);
                self.guard(unbound);
                Val::new(*kind, words)
            }
            kind => Val::new(kind, &local.words),
        };
        self.stack.push(value);
        Ok(Flow::Next)
    }

    fn cell(&self, slot: u32) -> Result<Value> {
        match self.locals.get(slot as usize) {
            Some(cell) if cell.kind == Kind::Cell => Self::word(cell),
            _ => Err("a variable without a cell".into()),
        }
    }

    pub(super) fn load_cell(&mut self, slot: u32) -> Result<Flow> {
        if self.around.is_some() {
            return self.load_around(slot);
        }
        if let Some(Kind::InCell(_)) = self.locals.get(slot as usize).map(|local| &local.kind) {
            return self.load_in_cell(slot as usize);
        }
        if let Some(place) = self.variable_of(slot) {
            return self.load(place);
        }
        let kind = match self.outside.cells.get(&slot) {
            Some(place) => {
                self.source.locals.get(*place).cloned().ok_or("internal: no variable")?
            }
            None => self.resolve.cell(slot)?,
        };
        let cell = self.cell(slot)?;
        let content = self.b.ins().load(I64, MemFlags::trusted(), cell, CONTENT);
        if kind == Kind::Unbound {
            return Ok(self.leave());
        }
        let empty = self.b.ins().icmp_imm(IntCC::Equal, content, 0);
        self.guard(empty);
        let value = self.content(content, &kind)?;
        self.stack.push(value);
        Ok(Flow::Next)
    }

    /// An object as a value of a kind; leaves if it is another one.
    fn content(&mut self, object: Value, kind: &Kind) -> Result<Val> {
        match kind {
            Kind::Object => Ok(Val::new(Kind::Object, &[object])),
            Kind::Constant(address) => {
                let other = self.b.ins().icmp_imm(IntCC::NotEqual, object, *address as i64);
                self.guard(other);
                Ok(Val::plain(kind.clone()))
            }
            Kind::Function(callable) => {
                self.guard_type(object, objects::function_type());
                let fields = [
                    (CODE, callable.code),
                    (GLOBALS, callable.globals),
                    (BUILTINS, callable.builtins),
                ];
                for (offset, expected) in fields {
                    let found = self.b.ins().load(I64, MemFlags::trusted(), object, offset);
                    let other = self.b.ins().icmp_imm(IntCC::NotEqual, found, expected as i64);
                    self.guard(other);
                }
                Ok(Val::new(kind.clone(), &[object]))
            }
            Kind::Method(definition, list) => {
                self.guard_type(object, methods::method_type());
                let flags = MemFlags::trusted();
                let found = self.b.ins().load(I64, flags, object, methods::DEFINITION);
                let other = self.b.ins().icmp_imm(IntCC::NotEqual, found, *definition as i64);
                self.guard(other);
                let itself = self.b.ins().load(I64, flags, object, methods::LIST);
                self.guard_type(itself, objects::container_type(list));
                Ok(Val::new(kind.clone(), &[object, itself]))
            }
            _ => {
                let value = self.item(object, kind)?;
                let keeps = value.kind != Kind::Bool && value.kind.is_number();
                if !keeps || self.source.cells_change {
                    return Ok(value);
                }
                Ok(Val::new(value.kind.widest(), &[Self::word(&value)?, object]))
            }
        }
    }

    pub(super) fn store_cell(&mut self, slot: u32) -> Result<Flow> {
        if let Some(Kind::InCell(_)) = self.locals.get(slot as usize).map(|local| &local.kind) {
            self.before_replacing(&[slot as usize]);
            let value = self.pop()?;
            let value = Val { kind: Kind::InCell(Box::new(value.kind.clone())), ..value };
            self.replace_local(slot as usize, value)?;
            return Ok(Flow::Next);
        }
        if let Some(place) = self.variable_of(slot) {
            return self.store_outside(place);
        }
        let (value, cell) = (self.pop()?, self.cell(slot)?);
        if !value.kind.is_number() && value.kind != Kind::None {
            return Ok(self.leave());
        }
        let items = self.store_items(std::slice::from_ref(&value))?;
        let item = self.b.ins().stack_addr(I64, items, 0);
        self.changed(objects::store_in_cell as *const () as usize, &[cell, item]);
        self.stores_cells = true;
        Ok(Flow::Next)
    }
}
