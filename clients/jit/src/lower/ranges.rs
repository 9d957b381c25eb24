//! `range` and its iterator.

use super::Lowering;
use crate::kind::{Kind, Val};
use crate::resolve::Result;
use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::InstBuilder;

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

    /// `iter(range)`.
    pub(super) fn range_iterator(&mut self, range: &Val) -> Result<Val> {
        match (&range.kind, &range.words[..]) {
            (Kind::Range { .. }, &[start, stop, step]) if self.known(step) == Some(1) => {
                Ok(Val::new(Kind::Counter, &[start, stop]))
            }
            _ => self.counted_range(range),
        }
    }

    /// With how many values are left. Leaves if there are more than an int of 64 bits can count.
    pub(super) fn counted_range(&mut self, range: &Val) -> Result<Val> {
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
}
