//! `range` and the loops over one.

use super::{Flow, Lowering};
use crate::decode::Instruction;
use crate::kind::{Kind, Val, INT};
use crate::opcode::FOR_ITER;
use crate::resolve::Result;
use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{InstBuilder, Value};

impl Lowering<'_, '_> {
    /// `range(...)` of one to three ints; no bools, whose attributes a range would keep.
    pub(super) fn range(&mut self, arguments: &[Val]) -> Result<Val> {
        if !arguments.iter().all(|a| matches!(a.kind, Kind::Int { .. })) {
            return Err("range of what is no int".into());
        }
        let words = arguments.iter().map(Self::word).collect::<Result<Vec<_>>>()?;
        let (zero, one) = (self.int(0), self.int(1));
        let (start, stop, step) = match *words {
            [stop] => (zero, stop, one),
            [start, stop] => (start, stop, one),
            [start, stop, step] => (start, stop, step),
            _ => return Err("range of so many arguments".into()),
        };
        let known = self.known(step);
        let descending = known.is_some_and(|step| step < 0);
        if known.is_none_or(|step| step == 0 || step == i64::MIN) {
            // Zero raises. Where the direction is not known it is taken to be up.
            let bad = self.b.ins().icmp_imm(IntCC::SignedLessThanOrEqual, step, 0);
            self.guard(bad);
        }
        let descending = descending && known != Some(i64::MIN);
        Ok(Val::new(Kind::Range { descending }, &[start, stop, step]))
    }

    /// `iter(range)`. Leaves if there are more than an int of 64 bits can count.
    pub(super) fn range_iterator(&mut self, range: &Val) -> Result<Val> {
        let (Kind::Range { descending }, &[start, stop, step]) = (&range.kind, &range.words[..])
        else {
            return self.refuse("a loop", &[range]);
        };
        let (low, high) = if *descending { (stop, start) } else { (start, stop) };
        let (span, overflow) = self.b.ins().ssub_overflow(high, low);
        self.guard(overflow);
        let some = self.b.ins().icmp(IntCC::SignedLessThan, low, high);
        let count = if self.known(step) == Some(1) {
            span
        } else {
            // At most 2**63 - 1 + 2**63 - 2, so no carry.
            let size = if *descending { self.b.ins().ineg(step) } else { step };
            let rounded = self.b.ins().iadd(span, size);
            let rounded = self.b.ins().iadd_imm(rounded, -1);
            self.b.ins().udiv(rounded, size)
        };
        let zero = self.int(0);
        let left = self.b.ins().select(some, count, zero);
        let kind = Kind::RangeIterator { descending: *descending };
        Ok(Val::new(kind, &[start, left, step]))
    }

    /// How many turns a loop over a range has left at its back edge; `None`: it is another loop.
    pub(super) fn range_left(&self, instruction: Instruction) -> Option<Value> {
        let head = instruction.target().and_then(|target| self.source.code.at(target))?;
        let iterator = self.stack.last().filter(|_| head.opcode == FOR_ITER)?;
        match (&iterator.kind, &iterator.words[..]) {
            (Kind::RangeIterator { .. }, &[_, left, _]) => Some(left),
            _ => None,
        }
    }

    /// The next value, or on behind the loop.
    pub(super) fn for_iter(&mut self, instruction: Instruction) -> Result<Flow> {
        let iterator = self.stack.last().cloned().ok_or("internal: the stack is empty")?;
        let &[next, left, step] = &iterator.words[..] else {
            return self.refuse("a loop", &[&iterator]);
        };
        let Kind::RangeIterator { .. } = iterator.kind else {
            return self.refuse("a loop", &[&iterator]);
        };
        let target = instruction.target().ok_or("internal: a loop without an end")?;
        self.stack.pop();
        let end = self.edge(target);
        let body = self.b.create_block();
        self.b.ins().brif(left, body, &[], end, &[]);
        self.b.switch_to_block(body);
        let after = self.b.ins().iadd(next, step);
        let fewer = self.b.ins().iadd_imm(left, -1);
        self.stack.push(Val::new(iterator.kind, &[after, fewer, step]));
        self.push(INT, &[next]);
        Ok(Flow::Next)
    }
}
