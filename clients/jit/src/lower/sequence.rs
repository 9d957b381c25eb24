//! Lists and tuples as a whole: `in`, slices, and builtins that take them.

use super::around::Restart;
use super::{Flow, Lowering};
use crate::decode::Instruction;
use crate::kind::{Kind, Val, FLOAT, INT};
use crate::lists;
use crate::opcode as op;
use crate::resolve::Result;
use crate::sequences;
use cranelift_codegen::ir::condcodes::{FloatCC, IntCC};
use cranelift_codegen::ir::types::{F64, I64};
use cranelift_codegen::ir::{InstBuilder, MemFlags, Value};

/// The operator of `compare` for `==`.
const EQUAL: u32 = 2;

impl Lowering<'_, '_> {
    /// `x in y`, or with `inverse` `x not in y`.
    pub(super) fn contains(&mut self, inverse: bool) -> Result<Flow> {
        let (y, x) = (self.pop()?, self.pop()?);
        if !x.kind.is_number() && x.kind != Kind::None {
            return self.refuse("in", &[&x, &y]);
        }
        let members = self.literal_of(&y).and_then(|literal| literal.members.clone());
        let found = match &y.kind {
            _ if members.is_some() => {
                let depth = self.stack.len();
                members.iter().flatten().for_each(|member| self.push_literal(member));
                let members = self.stack.split_off(depth);
                self.is_one_of(&x, &members)?
            }
            Kind::Tuple(kinds) => {
                let members = Self::items_within(&y, kinds);
                self.is_one_of(&x, &members)?
            }
            Kind::List(_) | Kind::TupleObject(_) => {
                let slot = self.store_items(std::slice::from_ref(&x))?;
                let item = self.b.ins().stack_addr(I64, slot, 0);
                let helper = sequences::contains as *const () as usize;
                let answer = self.call_helper(helper, &[Self::word(&y)?, item], true);
                let unknown = self.b.ins().icmp_imm(IntCC::UnsignedGreaterThan, answer, 1);
                self.guard(unknown);
                self.b.ins().icmp_imm(IntCC::NotEqual, answer, 0)
            }
            Kind::Range { .. } if x.kind.is_int() => {
                let mut words = y.words.to_vec();
                words.push(Self::word(&x)?);
                let helper = sequences::range_contains as *const () as usize;
                let answer = self.call_helper(helper, &words, true);
                self.b.ins().icmp_imm(IntCC::NotEqual, answer, 0)
            }
            _ => return self.refuse("in", &[&x, &y]),
        };
        let found = self.bool(found);
        let word = self.b.ins().bxor_imm(Self::word(&found)?, i64::from(inverse));
        self.push(Kind::Bool, &[word]);
        Ok(Flow::Next)
    }

    /// A condition: a number, or None, is equal to one of the members, or the same object.
    fn is_one_of(&mut self, x: &Val, members: &[Val]) -> Result<Value> {
        let known = |value: &&Val| value.kind.is_number() || value.kind == Kind::None;
        if let Some(other) = members.iter().find(|value| !known(value)) {
            return self.refuse("in", &[x, other]);
        }
        if x.kind.is_float() && members.iter().any(|member| member.kind.is_float()) {
            let number = Self::word(x)?;
            let nan = self.b.ins().fcmp(FloatCC::Unordered, number, number);
            self.guard(nan); // it may be the same object
        }
        let mut any = self.b.ins().iconst(cranelift_codegen::ir::types::I8, 0);
        for member in members {
            if (x.kind == Kind::None) != (member.kind == Kind::None) {
                continue;
            }
            let same = if x.kind == Kind::None {
                self.b.ins().iconst(cranelift_codegen::ir::types::I8, 1)
            } else {
                let same = self.compare(EQUAL, x, member)?;
                self.truth(&same)?
            };
            any = self.b.ins().bor(any, same);
        }
        Ok(any)
    }

    /// The bounds of a slice, or `None` if they raise.
    pub(super) fn bounds_of(&mut self, start: &Val, stop: &Val) -> Result<Option<(Value, Value)>> {
        if start.kind.is_float() || stop.kind.is_float() {
            return Ok(None); // TypeError
        }
        let mut index = |value: &Val, default: i64| match value.kind {
            Kind::None => Ok(self.int(default)),
            ref kind if kind.is_int() => Self::word(value),
            _ => self.refuse("an index", &[value]),
        };
        Ok(Some((index(start, 0)?, index(stop, i64::MAX)?)))
    }

    /// `sequence[start:stop]`.
    pub(super) fn slice(&mut self) -> Result<Flow> {
        let (stop, start, sequence) = (self.pop()?, self.pop()?, self.pop()?);
        let sequence = self.as_object(sequence);
        if !matches!(sequence.kind, Kind::List(_) | Kind::TupleObject(_)) {
            return self.refuse("a slice", &[&sequence]);
        }
        let Some((start, stop)) = self.bounds_of(&start, &stop)? else { return Ok(self.leave()) };
        let result = self.sliced(&sequence, start, stop)?;
        self.stack.push(result);
        Ok(Flow::Next)
    }

    /// `list[start:stop:step]`: the instruction that makes the slice, and the one that takes it.
    pub(super) fn slice_with_step(&mut self, build: Instruction) -> Result<Flow> {
        let taken = self.code.takes_slice(build).filter(|i| !self.targets.contains(&i.start));
        let taken = taken.ok_or("a slice that is kept")?;
        if self.begin_stored_slice(taken) {
            return Ok(Flow::Next);
        }
        let Some((list, words)) = self.stepped()? else { return Ok(self.leave()) };
        let made = self.made(sequences::slice_with_step as *const () as usize, &words);
        self.stack.push(Val::owning(list.kind, &[made]));
        self.instruction.next = taken.next;
        Ok(Flow::Next)
    }

    /// Whether a slice with a step is stored by the next STORE_SLICE, which makes it then: what it is made of stays on the stack, and what
    /// is left until then starts at the instruction that makes it.
    fn begin_stored_slice(&mut self, taken: Instruction) -> bool {
        let mut behind = self.code.instructions().skip_while(|i| i.start < taken.next).peekable();
        while behind.next_if(|i| i.loads_only() && !self.targets.contains(&i.start)).is_some() {}
        let is_stored = behind
            .next()
            .is_some_and(|i| i.opcode == op::STORE_SLICE && !self.targets.contains(&i.start));
        // An operand of its own would be released behind this instruction.
        if !is_stored || self.restart.is_some() || !self.taken.is_empty() {
            return false;
        }
        self.before_storing_item(4);
        let (locals, stack) = self.before.clone();
        let (instruction, stores) = (self.instruction, self.stores);
        self.restart = Some(Restart { instruction, locals, stack, stores, inside: false });
        self.instruction.next = taken.next;
        true
    }

    /// The list of a slice with a step, and what the functions of `sequences` take; `None`: TypeError.
    fn stepped(&mut self) -> Result<Option<(Val, Vec<Value>)>> {
        let (step, stop, start, list) = (self.pop()?, self.pop()?, self.pop()?, self.pop()?);
        let Kind::List(_) = list.kind else { return self.refuse("a slice", &[&list]) };
        if [&step, &stop, &start].iter().any(|value| value.kind.is_float()) {
            return Ok(None);
        }
        let (mut words, mut without) = (vec![Self::word(&list)?], 0);
        for (bit, value) in [(1, &start), (2, &stop), (4, &step)] {
            words.push(match value.kind {
                Kind::None => self.int(1),
                ref kind if kind.is_int() => Self::word(value)?,
                _ => return self.refuse("an index", &[value]),
            });
            without |= if value.kind == Kind::None { bit } else { 0 };
        }
        words.push(self.int(without));
        Ok(Some((list, words)))
    }

    pub(super) fn sliced(&mut self, sequence: &Val, start: Value, stop: Value) -> Result<Val> {
        let object = Self::word(sequence)?;
        let (helper, kind) = match &sequence.kind {
            Kind::TupleObject(kinds) if kinds.len() > 1 => {
                return self.refuse("a slice", &[sequence]);
            }
            Kind::TupleObject(_) => {
                (sequences::slice_tuple as *const () as usize, sequence.kind.clone())
            }
            _ => (lists::slice as *const () as usize, sequence.kind.clone()),
        };
        Ok(Val::owning(kind, &[self.made(helper, &[object, start, stop])]))
    }

    /// `list[start:stop] = other`. Leaves if code of the program could run when old items are released.
    pub(super) fn store_slice(&mut self) -> Result<Flow> {
        let (stop, start) = (self.pop()?, self.pop()?);
        let list = self.pop()?;
        let Kind::List(_) = list.kind else { return self.refuse("a slice", &[&list]) };
        if self.restart.is_some() {
            let stepped = self.stepped()?;
            let bounds = self.bounds_of(&start, &stop)?;
            let (Some((other, words)), Some((start, stop))) = (stepped, bounds) else {
                return Ok(self.leave()); // TypeError
            };
            let words = [&[Self::word(&list)?, start, stop], &words[..]].concat();
            self.changed(sequences::store_slice_with_step as *const () as usize, &words);
            if let Kind::List(items) = &other.kind {
                self.learn(Self::word(&list)?, items);
            }
            self.restart = None;
            return Ok(Flow::Next);
        }
        let other = self.pop()?;
        if other.kind.is_number() || other.kind == Kind::None {
            return Ok(self.leave()); // TypeError
        }
        let Some((start, stop)) = self.bounds_of(&start, &stop)? else { return Ok(self.leave()) };
        let (values, tuples) = self.boxed_all(&[other])?;
        let other = values.first().ok_or("internal: no value")?;
        let items = match &other.kind {
            Kind::List(items) => (**items).clone(),
            Kind::TupleObject(items) => items.first().cloned().unwrap_or(Kind::Object),
            _ => return self.refuse("a slice", &[&list, other]),
        };
        let words = [Self::word(&list)?, start, stop, Self::word(other)?];
        self.changed_with(sequences::store_slice as *const () as usize, &words, &tuples);
        self.learn(Self::word(&list)?, &items);
        Ok(Flow::Next)
    }

    /// `del list[index]`.
    pub(super) fn delete_subscript(&mut self) -> Result<Flow> {
        let (index, list) = (self.pop()?, self.pop()?);
        let Kind::List(_) = list.kind else { return self.refuse("del", &[&list]) };
        if matches!(index.kind, Kind::Float { .. } | Kind::None) {
            return Ok(self.leave()); // TypeError
        }
        let size = self.length(&list)?;
        let place = self.index_within(&index, size)?;
        self.changed(sequences::delete as *const () as usize, &[Self::word(&list)?, place]);
        Ok(Flow::Next)
    }

    /// A builtin that is called with a list or a tuple; `None`: it is none of them.
    pub(super) fn builtin_of_sequence(
        &mut self,
        name: &str,
        callable: usize,
        x: &Val,
    ) -> Result<Option<Val>> {
        let items = match &x.kind {
            Kind::List(items) => &**items,
            Kind::TupleObject(items) if items.len() == 1 => &items[0],
            _ => return Ok(None),
        };
        let (callable, sequence) = (self.int(callable as i64), Self::word(x)?);
        let result = match (name, items) {
            ("any" | "all", _) => Kind::Bool,
            ("sum", Kind::Bool) => INT,
            ("sum" | "min" | "max", Kind::Int { .. } | Kind::Float { .. })
            | ("min" | "max", Kind::Bool) => items.clone(),
            ("sorted", Kind::Int { .. } | Kind::Float { .. } | Kind::Bool) => {
                let made = self.made(sequences::call as *const () as usize, &[callable, sequence]);
                return Ok(Some(Val::owning(Kind::List(Box::new(items.clone())), &[made])));
            }
            _ => return self.refuse(name, &[x]),
        };
        let tag = match result {
            INT => lists::INT,
            FLOAT => lists::FLOAT,
            _ => sequences::BOOL,
        };
        let tag = self.int(tag);
        let helper = sequences::call_for_number as *const () as usize;
        let word = self.checked_call(helper, &[callable, sequence, tag], I64)?;
        let word =
            if result == FLOAT { self.b.ins().bitcast(F64, MemFlags::new(), word) } else { word };
        if result == Kind::Bool {
            self.within(word, 0, 1);
        }
        Ok(Some(Val::new(result, &[word])))
    }
}
