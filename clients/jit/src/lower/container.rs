//! What instructions do with containers of all kinds.

use super::{Flow, Lowering};
use crate::kind::{Kind, Val};
use crate::opcode::Special;
use crate::resolve::Result;

impl Lowering<'_, '_> {
    /// The container is below the top.
    fn before_item(&mut self, count: usize) {
        let container = self.stack.len().checked_sub(2).and_then(|place| self.stack.get(place));
        if matches!(container, Some(Val { kind: Kind::Instance(_), .. })) {
            self.before_special(count);
        }
    }

    /// `container[index]`.
    pub(super) fn subscript(&mut self) -> Result<Flow> {
        self.before_item(2);
        let (index, container) = (self.pop()?, self.pop()?);
        let container = self.as_object(container);
        let is_known = container.kind.is_container()
            || matches!(container.kind, Kind::Buffer { .. } | Kind::Tuple(_));
        if is_known && matches!(index.kind, Kind::Float { .. } | Kind::None) {
            return Ok(self.leave()); // TypeError
        }
        let result = match &container.kind {
            // Nothing is known of what never was there.
            Kind::List(items) if **items == Kind::Object => return Ok(self.leave()),
            Kind::List(items) => self.list_item(&container, &index, items)?,
            Kind::Tuple(_) | Kind::TupleObject(_) => match self.tuple_item(&container, &index)? {
                Some(item) => item,
                None => return Ok(self.leave()),
            },
            Kind::Bytes | Kind::ByteArray => self.byte(&container, &index)?,
            Kind::Buffer { format, .. } => self.buffer_item(&container, &index, *format)?,
            Kind::Instance(_) => {
                let (result, stores) =
                    self.call_special(Special::GetItem, container, &[index], 2)?;
                self.stack.push(result);
                if stores {
                    self.release_after_call();
                }
                return Ok(Flow::Next);
            }
            _ => return self.refuse("an item", &[&container]),
        };
        self.stack.push(result);
        Ok(Flow::Next)
    }

    /// `container[index] = value`.
    pub(super) fn store_subscript(&mut self) -> Result<Flow> {
        self.before_item(3);
        let (index, container, value) = (self.pop()?, self.pop()?, self.pop()?);
        match &container.kind {
            Kind::List(_) => self.store_list_item(&container, &index, &value)?,
            Kind::Tuple(_) | Kind::TupleObject(_) => return Ok(self.leave()), // TypeError
            Kind::ByteArray if value.kind.is_float() || value.kind == Kind::None => {
                return Ok(self.leave()); // TypeError
            }
            Kind::ByteArray => self.store_byte(&container, &index, &value)?,
            Kind::Bytes | Kind::Buffer { readonly: true, .. } => {
                return Ok(self.leave()); // TypeError
            }
            Kind::Buffer { format, .. } => {
                return self.store_buffer_item(&container, &index, &value, *format);
            }
            Kind::Instance(_) => {
                let (result, stores) =
                    self.call_special(Special::SetItem, container, &[index, value], 2)?;
                if result.kind.holds_objects() {
                    return self.refuse("__setitem__", &[&result]);
                }
                if stores {
                    self.release_after_call();
                }
            }
            _ => return self.refuse("an item", &[&container]),
        }
        Ok(Flow::Next)
    }

    /// `len(container)`.
    pub(super) fn length_of(&mut self, container: &Val) -> Result<Val> {
        let size = match &container.kind {
            Kind::Tuple(items) => self.int(items.len() as i64),
            Kind::Buffer { .. } => self.buffer_length(container)?,
            _ => self.length(container)?,
        };
        Ok(Val::new(crate::kind::INT, &[size]))
    }
}
