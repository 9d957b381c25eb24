//! Lists and bytearrays that are made, and methods that change lists.
//!
//! What is made is the value's own until it is stored or returned. What its items are is only expected: it is that of the first one
//! that was put into it here, and each load of an item looks.

use super::int::operator;
use super::{Flow, Lowering};
use crate::kind::{Kind, Val, FLOAT, INT};
use crate::lists;
use crate::methods;
use crate::resolve::{Meaning, Result};
use crate::sequences;
use crate::slot::Cause;
use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::types::I64;
use cranelift_codegen::ir::{
    Block, BlockArg, InstBuilder, MemFlags, StackSlot, StackSlotData, StackSlotKind, Value,
};

/// The most items of a list or a tuple that is written out.
pub(super) const MOST_ITEMS: usize = 16;
/// The words of a `lists::Item`.
const WORDS: usize = 3;

/// So deep the items of containers in each other are known: in a loop that puts a container into another one each turn has a kind of its own.
const DEEPEST: usize = 4;

/// What an item of such a value is expected to be when it is read.
pub(super) fn expected(kind: &Kind) -> Kind {
    match kind {
        Kind::Int { .. } => INT,
        Kind::Float { .. } => FLOAT,
        Kind::Bool | Kind::None => kind.clone(),
        kind if kind.is_container() && kind.depth() < DEEPEST => kind.clone(),
        Kind::List(_) => list_of(Kind::Object),
        Kind::TupleObject(_) => Kind::TupleObject(vec![Kind::Object]),
        Kind::Buffer { array: false, .. } => Kind::Object,
        kind if kind.is_reference() => kind.clone(),
        _ => Kind::Object,
    }
}

fn list_of(items: Kind) -> Kind {
    Kind::List(Box::new(items))
}

impl Lowering<'_, '_> {
    /// `[a, b, c]`.
    pub(super) fn build_list(&mut self, count: usize) -> Result<()> {
        let start = self.stack.len().checked_sub(count).ok_or("internal: BUILD_LIST")?;
        if count > MOST_ITEMS {
            return Err("a list of so many items".into());
        }
        let items = self.stack.split_off(start);
        let (values, tuples) = self.boxed_all(&items)?;
        let slot = self.store_items(&values)?;
        let place = self.b.ins().stack_addr(I64, slot, 0);
        let number = self.int(count as i64);
        let list = self.call_helper(lists::make as *const () as usize, &[place, number], true);
        self.guard_made(list, &tuples);
        // The list has references of its own.
        items.iter().for_each(|item| self.release(item));
        let first = values.first().map(|item| expected(&item.kind));
        let kind = list_of(first.unwrap_or_else(|| {
            self.origins.insert(list, self.instruction.start);
            let known = self.source.expected.get(&self.instruction.start);
            known.cloned().unwrap_or(Kind::Object)
        }));
        self.stack.push(Val::owning(kind, &[list]));
        Ok(())
    }

    /// Calls a function that makes an object; leaves if it could not.
    pub(super) fn made(&mut self, helper: usize, arguments: &[Value]) -> Value {
        let object = self.call_helper(helper, arguments, true);
        let failed = self.b.ins().icmp_imm(IntCC::Equal, object, 0);
        self.guard(failed);
        object
    }

    /// Leaves if a word is 0, and releases tuples that were made before that.
    pub(super) fn guard_or_undo(&mut self, word: Value, tuples: &[Val]) {
        let failed = self.b.ins().icmp_imm(IntCC::Equal, word, 0);
        if tuples.is_empty() {
            return self.guard(failed);
        }
        let exit = self.exit_here(Cause::Guard);
        let (undo, go_on) = (self.cold_block(), self.b.create_block());
        self.b.ins().brif(failed, undo, &[], go_on, &[]);
        self.b.switch_to_block(undo);
        tuples.iter().for_each(|tuple| self.release(tuple));
        self.b.ins().jump(exit, &[]);
        self.b.switch_to_block(go_on);
    }

    /// The same where the tuples are not needed any more in either case.
    pub(super) fn guard_made(&mut self, word: Value, tuples: &[Val]) {
        self.guard_or_undo(word, tuples);
        tuples.iter().for_each(|tuple| self.release(tuple));
    }

    /// Calls a function that changes a list; leaves if it could not.
    pub(super) fn changed(&mut self, helper: usize, arguments: &[Value]) {
        self.changed_with(helper, arguments, &[]);
    }

    /// The same with tuples that were made for it.
    pub(super) fn changed_with(&mut self, helper: usize, arguments: &[Value], tuples: &[Val]) {
        let done = self.call_helper(helper, arguments, true);
        self.guard_made(done, tuples);
        self.stores = true;
    }

    /// The values in memory, as the functions of `lists` take them.
    pub(super) fn store_items(&mut self, items: &[Val]) -> Result<StackSlot> {
        let slot = if let Some(slot) = self.items {
            slot
        } else {
            let size = (8 * WORDS * MOST_ITEMS) as u32;
            let data = StackSlotData::new(StackSlotKind::ExplicitSlot, size, 3);
            *self.items.insert(self.b.create_sized_stack_slot(data))
        };
        for (index, item) in items.iter().enumerate() {
            let (tag, bits) = match item.kind {
                Kind::Int { .. } => (lists::INT, Self::word(item)?),
                Kind::Float { .. } => {
                    let number = Self::word(item)?;
                    (lists::FLOAT, self.b.ins().bitcast(I64, MemFlags::new(), number))
                }
                _ => (lists::OBJECT, self.int(0)),
            };
            let object = match tag {
                lists::OBJECT => self.object_of(item)?,
                _ => item.object().unwrap_or_else(|| self.b.ins().iconst(I64, 0)),
            };
            let tag = self.int(tag);
            for (word, value) in [tag, bits, object].into_iter().enumerate() {
                let offset = 8 * (WORDS * index + word) as i32;
                self.b.ins().stack_store(value, slot, offset);
            }
        }
        Ok(slot)
    }

    /// Appends a value to a list, which gets a reference of its own.
    fn append(&mut self, list: &Val, value: &Val) -> Result<()> {
        let object = Self::word(list)?;
        let (values, tuples) = self.boxed_all(std::slice::from_ref(value))?;
        let value = values.first().ok_or("internal: no value")?;
        let end = self.append_in_place(object, value)?;
        let slot = self.store_items(&values)?;
        let item = self.b.ins().stack_addr(I64, slot, 0);
        let helper = lists::append as *const () as usize;
        let done = self.call_helper(helper, &[object, item], true);
        self.guard_or_undo(done, &tuples);
        if let Some(end) = end {
            self.b.ins().jump(end, &[]);
            self.b.switch_to_block(end);
        }
        tuples.iter().for_each(|tuple| self.release(tuple));
        self.stores = true;
        self.learn(object, &expected(&value.kind));
        Ok(())
    }

    /// LIST_APPEND, of a comprehension.
    pub(super) fn list_append(&mut self, depth: u32) -> Result<()> {
        let value = self.pop()?;
        let place = self.place(depth)?;
        let list = self.stack.get(place).cloned().ok_or("internal: LIST_APPEND")?;
        let Kind::List(_) = list.kind else { return self.refuse("appending", &[&list]) };
        let stores = self.stores;
        self.append(&list, &value)?;
        self.stores = stores; // nothing else refers to the list yet
        self.release(&value);
        Ok(())
    }

    /// LIST_EXTEND, by a constant or a list.
    pub(super) fn list_extend(&mut self, depth: u32) -> Result<()> {
        let other = self.pop()?;
        let place = self.place(depth)?;
        let list = self.stack.get(place).cloned().ok_or("internal: LIST_EXTEND")?;
        let Kind::List(_) = list.kind else { return self.refuse("extending", &[&list]) };
        let stores = self.stores;
        self.extend(&list, &other)?;
        self.stores = stores; // as above
        Ok(())
    }

    fn extend(&mut self, list: &Val, other: &Val) -> Result<()> {
        let object = Self::word(list)?;
        let (from, items) = match &other.kind {
            Kind::Constant(address) => {
                let known = self.constants.iter().find(|known| known.address == *address);
                let items = known.and_then(|known| known.items.as_ref());
                let items = items.ok_or("extending by a constant that is no tuple")?;
                let first = items.first().map_or(Kind::Object, |item| expected(&item.kind));
                (self.int(*address as i64), first)
            }
            Kind::List(items) => (Self::word(other)?, (**items).clone()),
            Kind::TupleObject(items) => {
                (Self::word(other)?, items.first().cloned().unwrap_or(Kind::Object))
            }
            _ => return self.refuse("extending", &[list, other]),
        };
        self.changed(lists::extend as *const () as usize, &[object, from]);
        self.learn(object, &items);
        Ok(())
    }

    /// Expects such items of a list from now on, if nothing was known, or ints where there is a float now.
    pub(super) fn learn(&mut self, list: Value, items: &Kind) {
        if *items == Kind::Object {
            return;
        }
        if let Some(origin) = self.origins.get(&list) {
            let learned = self.learned.entry(*origin).or_insert_with(|| items.clone());
            if learned.is_like(items) {
                *learned = learned.join(items);
            }
        }
        for value in self.locals.iter_mut().chain(&mut self.stack) {
            let kind = match &mut value.kind {
                Kind::InCell(kind) => &mut **kind,
                kind => kind,
            };
            let Kind::List(known) = kind else { continue };
            let is_wider = **known == Kind::Object || (**known == INT && *items == FLOAT);
            if value.words.first() == Some(&list) && is_wider {
                **known = items.clone();
            }
        }
    }

    /// The parameters of a block are the lists that an edge passes.
    pub(super) fn trace_origins(&mut self, block: Block, arguments: &[BlockArg]) {
        let traced = self.b.block_params(block).iter().zip(arguments).filter_map(|(to, from)| {
            let BlockArg::Value(from) = from else { return None };
            Some((*to, *self.origins.get(from)?))
        });
        let traced: Vec<(Value, u32)> = traced.collect();
        for (value, origin) in traced {
            self.origins.entry(value).or_insert(origin);
        }
    }

    /// Operators with a list as an operand.
    pub(super) fn list_binary(
        &mut self,
        operator: u32,
        in_place: bool,
        x: &Val,
        y: &Val,
    ) -> Result<Val> {
        match (operator, &x.kind, &y.kind) {
            (operator::ADD, Kind::List(_), Kind::List(_) | Kind::TupleObject(_)) if in_place => {
                self.extend(x, y)?;
                let Kind::List(items) = &x.kind else { return Ok(x.borrowed()) };
                let kind = match &y.kind {
                    Kind::List(_) if **items == Kind::Object => y.kind.clone(),
                    _ => x.kind.clone(),
                };
                Ok(Val::new(kind, &[Self::word(x)?]))
            }
            (operator::ADD, Kind::TupleObject(_), _) | (operator::ADD, _, Kind::TupleObject(_)) => {
                self.concatenated(x, y)
            }
            (operator::ADD, Kind::List(items), Kind::List(_)) => {
                let (a, b) = (Self::word(x)?, Self::word(y)?);
                let kind = if **items == Kind::Object { y.kind.clone() } else { x.kind.clone() };
                let made = self.made(lists::concatenate as *const () as usize, &[a, b]);
                Ok(Val::owning(kind, &[made]))
            }
            // In place, what is released may be anything.
            (operator::MULTIPLY, Kind::List(_), kind) if kind.is_int() && !in_place => {
                self.repeated(x, y)
            }
            (operator::MULTIPLY, kind, Kind::List(_)) if kind.is_int() => self.repeated(y, x),
            _ => self.refuse("arithmetic", &[x, y]),
        }
    }

    /// `x + y` of tuples of one type.
    fn concatenated(&mut self, x: &Val, y: &Val) -> Result<Val> {
        let (a, b) = (self.as_object(x.borrowed()), self.as_object(y.borrowed()));
        let (Kind::TupleObject(items), Kind::TupleObject(others)) = (&a.kind, &b.kind) else {
            return self.refuse("arithmetic", &[x, y]);
        };
        if !a.kind.is_like(&b.kind) || items.len() != 1 {
            return self.refuse("arithmetic", &[x, y]);
        }
        let kind = if items[..] == [Kind::Object] { others } else { items };
        let words = [Self::word(&a)?, Self::word(&b)?];
        let made = self.made(lists::concatenate as *const () as usize, &words);
        Ok(Val::owning(Kind::TupleObject(kind.clone()), &[made]))
    }

    fn repeated(&mut self, list: &Val, count: &Val) -> Result<Val> {
        let words = [Self::word(list)?, Self::word(count)?];
        let made = self.made(lists::repeat as *const () as usize, &words);
        Ok(Val::owning(list.kind.clone(), &[made]))
    }

    /// A call of `list`, `tuple` or `bytearray`.
    pub(super) fn call_for_container(&mut self, name: &str, arguments: &[Val]) -> Result<Val> {
        match (name, arguments) {
            ("list", []) => {
                let none = self.int(0);
                let made = self.made(lists::make as *const () as usize, &[none, none]);
                Ok(Val::owning(list_of(Kind::Object), &[made]))
            }
            ("list" | "tuple", [x]) if matches!(x.kind, Kind::TupleObject(_)) => {
                let Kind::TupleObject(items) = &x.kind else { return self.refuse(name, &[x]) };
                if name == "tuple" {
                    return Ok(x.borrowed()); // the same one
                }
                let item = if let [item] = &items[..] { item.clone() } else { Kind::Object };
                let made = self.made(sequences::list_of as *const () as usize, &[Self::word(x)?]);
                Ok(Val::owning(list_of(item), &[made]))
            }
            ("tuple", [x]) => match &x.kind {
                Kind::List(items) => {
                    let kind = Kind::TupleObject(vec![(**items).clone()]);
                    let helper = sequences::tuple_of as *const () as usize;
                    Ok(Val::owning(kind, &[self.made(helper, &[Self::word(x)?])]))
                }
                _ => self.refuse(name, &[x]),
            },
            ("list", [x]) if matches!(x.kind, Kind::List(_)) => {
                let (start, stop) = (self.int(0), self.int(i64::MAX));
                self.sliced(x, start, stop)
            }
            ("list", [x]) if matches!(x.kind, Kind::Range { .. }) => {
                let iterator = self.counted_range(x)?;
                let helper = lists::of_range as *const () as usize;
                Ok(Val::owning(list_of(INT), &[self.made(helper, &iterator.words)]))
            }
            ("bytearray", [x]) if x.kind.is_int() => {
                let count = Self::word(x)?;
                let made = self.made(lists::bytearray as *const () as usize, &[count]);
                Ok(Val::owning(Kind::ByteArray, &[made]))
            }
            _ => Err(format!("{name} of such arguments")),
        }
    }

    /// The method of a list: what is called next and the list, or an object.
    pub(super) fn load_method(&mut self, list: Val, name: u32, is_called: bool) -> Result<()> {
        let Some((address, definition)) = self.resolve.list_method(name)? else {
            return self.refuse("an attribute", &[&list]);
        };
        if is_called {
            self.stack.push(Val::plain(Kind::Constant(address)));
            self.stack.push(list);
            return Ok(());
        }
        let (object, which) = (Self::word(&list)?, self.int(definition as i64));
        let made = self.made(methods::make as *const () as usize, &[which, object]);
        let kind = Kind::Method(definition, Box::new(list.kind));
        self.stack.push(Val::owning(kind, &[made, object]));
        Ok(())
    }

    /// A call of a method of a list, if it is one.
    pub(super) fn call_method(&mut self, count: usize) -> Result<Option<Flow>> {
        let start = self.stack.len().checked_sub(count + 2).ok_or("internal: CALL")?;
        let Some([callable, itself, arguments @ ..]) = self.stack.get(start..) else {
            return Ok(None);
        };
        let (name, list) = match (&callable.kind, &itself.kind) {
            (Kind::Constant(address), Kind::List(_)) => match self.resolve.meaning(*address) {
                Meaning::ListMethod(name) => (name, itself.clone()),
                _ => return Ok(None),
            },
            // The object keeps the list.
            (Kind::Method(definition, list), Kind::Null) => {
                let name = methods::name_of(*definition).ok_or("internal: no such method")?;
                (name, Val::new((**list).clone(), &callable.words[1..]))
            }
            _ => return Ok(None),
        };
        let Kind::List(items) = &list.kind else { return Ok(None) };
        if self.restart.is_some() && name != "copy" {
            return Err("a method that changes a list, for a generator".into());
        }
        let (items, arguments) = ((**items).clone(), arguments.to_vec());
        self.stack.truncate(start);
        let object = Self::word(&list)?;
        let mut result = Val::plain(Kind::None);
        match (name, &arguments[..]) {
            ("append", [value]) => self.append(&list, value)?,
            ("insert", [index, value]) if index.kind.is_int() => {
                let (values, tuples) = self.boxed_all(std::slice::from_ref(value))?;
                let slot = self.store_items(&values)?;
                let item = self.b.ins().stack_addr(I64, slot, 0);
                let words = [object, Self::word(index)?, item];
                self.changed_with(lists::insert as *const () as usize, &words, &tuples);
                self.learn(object, &expected(&values[0].kind));
            }
            ("extend", [other]) if matches!(other.kind, Kind::List(_) | Kind::TupleObject(_)) => {
                self.extend(&list, other)?;
            }
            ("reverse", []) => self.changed(lists::reverse as *const () as usize, &[object]),
            ("copy", []) => {
                let (start, stop) = (self.int(0), self.int(i64::MAX));
                result = self.sliced(&list, start, stop)?;
            }
            // Nothing is known of what never was there.
            ("pop", [] | [_]) if items == Kind::Object => return Ok(Some(self.leave())),
            ("pop", []) => {
                let last = Val::new(INT, &[self.int(-1)]);
                result = self.pop_item(&list, &last)?;
            }
            ("pop", [index]) if index.kind.is_int() => {
                result = self.pop_item(&list, index)?;
            }
            _ => return Err(format!("list.{name} of such arguments")),
        }
        self.stack.push(result);
        Ok(Some(Flow::Next))
    }

    /// `list.pop(index)`; leaves if there is no such item.
    fn pop_item(&mut self, list: &Val, index: &Val) -> Result<Val> {
        let object = Self::word(list)?;
        let size = self.length(list)?;
        let place = self.index_within(index, size)?;
        let item = self.item_at(&list.kind, object, place)?;
        let owned = item.kind.is_reference();
        let keeps = self.int(i64::from(owned));
        self.changed(lists::remove as *const () as usize, &[object, place, keeps]);
        Ok(Val { owned, ..item })
    }
}

const _: () = assert!(size_of::<lists::Item>() == 8 * WORDS);
