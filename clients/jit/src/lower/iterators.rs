//! Loops: over ranges, containers, and what `enumerate`, `zip` and `reversed` make of them.
//!
//! An iterator is a value on the stack alone: what makes one is compiled where a loop or another iterator takes it at once. So no two
//! values are one iterator, and none is known by its identity.

use super::{Flow, Lowering};
use crate::bounds::Fact;
use crate::decode::Instruction;
use crate::kind::{Kind, Val, INT};
use crate::opcode as op;
use crate::python::{BYTES, BYTES_OF_ARRAY, ITEMS, ITEMS_OF_TUPLE};
use crate::resolve::Result;
use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::types::I64;
use cranelift_codegen::ir::{InstBuilder, MemFlags, Value};
use smallvec::SmallVec;

impl Lowering<'_, '_> {
    /// `iter(value)`, of which an iterator is its own.
    pub(super) fn iterator_of(&mut self, value: &Val) -> Result<Val> {
        if value.kind.is_iterator() {
            return Ok(value.clone());
        }
        if !value.kind.is_container() {
            return self.range_iterator(value);
        }
        let (object, index) = (Self::word(value)?, self.int(0));
        let kind = Kind::Iterator { of: Box::new(value.kind.clone()), backwards: false };
        Ok(Val { owned: value.owned, ..Val::new(kind, &[object, index]) })
    }

    /// A call of `enumerate`, `zip` or `reversed`.
    pub(super) fn call_for_iterator(&mut self, name: &str, arguments: &[Val]) -> Result<Val> {
        let mut next = self.code.at(self.instruction.next);
        while let Some(constant) = next.filter(|next| next.opcode == op::LOAD_CONST) {
            next = self.code.at(constant.next);
        }
        if !next.is_some_and(|next| matches!(next.opcode, op::GET_ITER | op::CALL)) {
            return Err(format!("{name} that is kept"));
        }
        // What the arguments own is released after the call.
        let borrowed: Vec<Val> = arguments.iter().map(Val::borrowed).collect();
        match (name, &borrowed[..]) {
            ("enumerate", [x]) => {
                let first = self.int(0);
                self.enumerated(first, x)
            }
            ("enumerate", [x, first]) if first.kind.is_int() => {
                self.enumerated(Self::word(first)?, x)
            }
            ("reversed", [x]) => self.reversed(x),
            ("zip", [_, ..]) => {
                let (mut kinds, mut words) = (Vec::new(), SmallVec::new());
                for argument in &borrowed {
                    let iterator = self.iterator_of(argument)?;
                    kinds.push(iterator.kind);
                    words.extend(iterator.words);
                }
                Ok(Val { kind: Kind::Zip(kinds), words, owned: false })
            }
            _ => Err(format!("{name} of such arguments")),
        }
    }

    fn enumerated(&mut self, first: Value, x: &Val) -> Result<Val> {
        let iterator = self.iterator_of(x)?;
        let mut words = SmallVec::from_slice(&[first]);
        words.extend(iterator.words);
        Ok(Val { kind: Kind::Enumerate(Box::new(iterator.kind)), words, owned: false })
    }

    fn reversed(&mut self, x: &Val) -> Result<Val> {
        match (&x.kind, &x.words[..]) {
            (Kind::List(_) | Kind::TupleObject(_), &[object]) => {
                let size = self.length(x)?;
                let last = self.b.ins().iadd_imm(size, -1);
                let kind = Kind::Iterator { of: Box::new(x.kind.clone()), backwards: true };
                Ok(Val::new(kind, &[object, last]))
            }
            (Kind::Range { descending }, _) => {
                let iterator = self.counted_range(x)?;
                let &[start, left, step] = &iterator.words[..] else {
                    return Err("internal: an iterator of other words".into());
                };
                // The last value is one of the range. Without one, what is computed is not used.
                let turns = self.b.ins().iadd_imm(left, -1);
                let distance = self.b.ins().imul(turns, step);
                let last = self.b.ins().iadd(start, distance);
                let back = self.b.ins().ineg(step);
                let kind = Kind::RangeIterator { descending: !descending };
                Ok(Val::new(kind, &[last, left, back]))
            }
            _ => self.refuse("reversed", &[x]),
        }
    }

    /// A word that changes by one in each turn of the loop that ends here; `None`: it is another loop.
    pub(super) fn counted_turns(&mut self, instruction: Instruction) -> Result<Option<Value>> {
        let head = instruction.target().and_then(|target| self.code.at(target));
        let iterator = self.stack.last().filter(|_| head.is_some_and(|h| h.opcode == op::FOR_ITER));
        let Some(iterator) = iterator.cloned() else { return Ok(None) };
        self.turns_of(&iterator)
    }

    /// It is 0 once at least in each loop that takes a turn: many short loops poll as one does.
    fn turns_of(&mut self, iterator: &Val) -> Result<Option<Value>> {
        Ok(match (&iterator.kind, &iterator.words[..]) {
            (Kind::RangeIterator { .. }, &[_, left, _]) => Some(left),
            (Kind::Counter, &[next, end]) => Some(self.b.ins().isub(end, next)),
            (Kind::Iterator { backwards, .. }, &[_, index]) => {
                Some(self.b.ins().iadd_imm(index, if *backwards { 1 } else { -1 }))
            }
            (Kind::Enumerate(kind), _) => {
                let (_, inner) = Self::enumerated_by(iterator, kind)?;
                self.turns_of(&inner)?
            }
            (Kind::Zip(kinds), _) => match Self::iterators_of(iterator, kinds).first() {
                Some(first) => self.turns_of(first)?,
                None => None,
            },
            _ => None,
        })
    }

    /// The next value, or on behind the loop.
    pub(super) fn for_iter(&mut self, instruction: Instruction) -> Result<Flow> {
        let holds = self.stack.last().is_some_and(|iterator| iterator.kind.holds_objects());
        if holds {
            self.secure();
        }
        let iterator = self.stack.last().cloned().ok_or("internal: the stack is empty")?;
        if !iterator.kind.is_iterator() {
            return self.refuse("a loop", &[&iterator]);
        }
        let target = instruction.target().ok_or("internal: a loop without an end")?;
        let is_over = self.is_exhausted(&iterator)?;
        let (body, end) = (self.b.create_block(), self.b.create_block());
        self.b.ins().brif(is_over, end, &[], body, &[]);
        self.b.switch_to_block(end);
        self.may_release(std::slice::from_ref(&iterator));
        self.stack.pop();
        self.release(&iterator);
        let edge = self.edge(target);
        self.b.ins().jump(edge, &[]);
        self.b.switch_to_block(body);
        if is_of_unknown_items(&iterator.kind) {
            return Ok(self.leave());
        }
        let (item, advanced) = self.take_next(&iterator)?;
        self.stack.push(Val { owned: iterator.owned, ..advanced });
        self.stack.push(item);
        Ok(Flow::Next)
    }

    /// The iterators that a `zip` has.
    fn iterators_of(zip: &Val, kinds: &[Kind]) -> Vec<Val> {
        let mut words = zip.words.iter().copied();
        let iterator = |kind: &Kind| Val {
            kind: kind.clone(),
            words: words.by_ref().take(kind.count()).collect(),
            owned: false,
        };
        kinds.iter().map(iterator).collect()
    }

    /// The iterator that an `enumerate` has, and the next number.
    fn enumerated_by(value: &Val, kind: &Kind) -> Result<(Value, Val)> {
        let (number, words) = value.words.split_first().ok_or("internal: no words")?;
        Ok((*number, Val::new(kind.clone(), words)))
    }

    /// A condition: there is no next item. A container's size is that of now.
    fn is_exhausted(&mut self, iterator: &Val) -> Result<Value> {
        match (&iterator.kind, &iterator.words[..]) {
            (Kind::RangeIterator { .. }, &[_, left, _]) => {
                Ok(self.b.ins().icmp_imm(IntCC::Equal, left, 0))
            }
            (Kind::Counter, &[next, end]) => {
                Ok(self.b.ins().icmp(IntCC::SignedGreaterThanOrEqual, next, end))
            }
            (Kind::Iterator { of, .. }, &[object, index]) => {
                let size = self.length(&Val::new((**of).clone(), &[object]))?;
                // The index of a backward iterator gets negative.
                Ok(self.b.ins().icmp(IntCC::UnsignedGreaterThanOrEqual, index, size))
            }
            (Kind::Enumerate(kind), _) => {
                let (_, iterator) = Self::enumerated_by(iterator, kind)?;
                self.is_exhausted(&iterator)
            }
            (Kind::Zip(kinds), _) => {
                let mut any = None;
                for iterator in Self::iterators_of(iterator, kinds) {
                    let is_over = self.is_exhausted(&iterator)?;
                    any = Some(match any {
                        None => is_over,
                        Some(others) => self.b.ins().bor(others, is_over),
                    });
                }
                any.ok_or_else(|| "zip of nothing".into())
            }
            _ => self.refuse("a loop", &[iterator]),
        }
    }

    /// The next item, which is borrowed from its container, and the iterator after it. It is not exhausted.
    fn take_next(&mut self, iterator: &Val) -> Result<(Val, Val)> {
        match (&iterator.kind, &iterator.words[..]) {
            (Kind::RangeIterator { .. }, &[next, left, step]) => {
                let after = self.b.ins().iadd(next, step);
                self.facts[after] = Fact::NoOverflow; // it is used if there is a next item
                let fewer = self.b.ins().iadd_imm(left, -1);
                let advanced = Val::new(iterator.kind.clone(), &[after, fewer, step]);
                Ok((Val::new(INT, &[next]), advanced))
            }
            (Kind::Counter, &[next, end]) => {
                let after = self.b.ins().iadd_imm(next, 1); // at most the end
                Ok((Val::new(INT, &[next]), Val::new(Kind::Counter, &[after, end])))
            }
            (Kind::Iterator { of, backwards }, &[object, index]) => {
                let item = self.item_at(of, object, index)?;
                let after = self.b.ins().iadd_imm(index, if *backwards { -1 } else { 1 });
                Ok((item, Val::new(iterator.kind.clone(), &[object, after])))
            }
            (Kind::Enumerate(kind), _) => {
                let (number, inner) = Self::enumerated_by(iterator, kind)?;
                let (item, inner) = self.take_next(&inner)?;
                let one = self.int(1);
                let (after, overflow) = self.b.ins().sadd_overflow(number, one);
                self.guard(overflow);
                let (mut words, mut pair) =
                    (SmallVec::from_slice(&[after]), SmallVec::from_slice(&[number]));
                words.extend(inner.words);
                pair.extend(item.words);
                let pair =
                    Val { kind: Kind::Tuple(vec![INT, item.kind]), words: pair, owned: false };
                Ok((pair, Val { kind: iterator.kind.clone(), words, owned: false }))
            }
            (Kind::Zip(kinds), _) => {
                let (mut items, mut item_words, mut words) =
                    (Vec::new(), SmallVec::new(), SmallVec::new());
                for inner in Self::iterators_of(iterator, kinds) {
                    let (item, inner) = self.take_next(&inner)?;
                    items.push(item.kind);
                    item_words.extend(item.words);
                    words.extend(inner.words);
                }
                let item = Val { kind: Kind::Tuple(items), words: item_words, owned: false };
                Ok((item, Val { kind: iterator.kind.clone(), words, owned: false }))
            }
            _ => self.refuse("a loop", &[iterator]),
        }
    }

    /// The item of a container at an index within it.
    pub(super) fn item_at(&mut self, container: &Kind, object: Value, index: Value) -> Result<Val> {
        let flags = MemFlags::trusted();
        let start = match container {
            Kind::List(items) => {
                let start = self.b.ins().load(I64, self.unchanged, object, ITEMS);
                let offset = self.b.ins().ishl_imm(index, 3);
                let place = self.b.ins().iadd(start, offset);
                let item = self.b.ins().load(I64, self.of_items, place, 0);
                return self.item(item, items);
            }
            Kind::TupleObject(items) => {
                let [kind] = &items[..] else { return Err("a loop over several types".into()) };
                let offset = self.b.ins().ishl_imm(index, 3);
                let place = self.b.ins().iadd(object, offset);
                let item = self.b.ins().load(I64, self.unchanged, place, ITEMS_OF_TUPLE);
                return self.item(item, kind);
            }
            Kind::Bytes => self.b.ins().iadd_imm(object, i64::from(BYTES)),
            _ => self.b.ins().load(I64, self.unchanged, object, BYTES_OF_ARRAY),
        };
        let place = self.b.ins().iadd(start, index);
        Ok(Val::new(INT, &[self.b.ins().uload8(I64, flags, place, 0)]))
    }
}

/// Whether there is a list in it of which no item has been seen.
fn is_of_unknown_items(iterator: &Kind) -> bool {
    match iterator {
        Kind::Iterator { of, .. } => **of == Kind::List(Box::new(Kind::Object)),
        Kind::Enumerate(iterator) => is_of_unknown_items(iterator),
        Kind::Zip(iterators) => iterators.iter().any(is_of_unknown_items),
        _ => false,
    }
}
