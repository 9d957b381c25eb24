//! Arithmetic on ints of 64 bits: what does not fit leaves.

use super::Lowering;
use crate::bounds::Fact;
use crate::kind::{Kind, Val, FLOAT, INT};
use crate::resolve::Result;
use cranelift_codegen::ir::condcodes::{FloatCC, IntCC};
use cranelift_codegen::ir::types::{F64, I32, I64};
use cranelift_codegen::ir::{BlockArg, InstBuilder, Value};
use cranelift_frontend::FunctionBuilder;

/// The operators of BINARY_OP.
pub mod operator {
    pub const ADD: u32 = 0;
    pub const AND: u32 = 1;
    pub const FLOOR_DIVIDE: u32 = 2;
    pub const LEFT_SHIFT: u32 = 3;
    pub const MULTIPLY: u32 = 5;
    pub const REMAINDER: u32 = 6;
    pub const OR: u32 = 7;
    pub const POWER: u32 = 8;
    pub const RIGHT_SHIFT: u32 = 9;
    pub const SUBTRACT: u32 = 10;
    pub const TRUE_DIVIDE: u32 = 11;
    pub const XOR: u32 = 12;
    /// From here on the same in place.
    pub const IN_PLACE: u32 = 13;
}
use operator as op;

/// Up to this magnitude every int is a float.
const EXACT: i64 = 1 << 53;

impl Lowering<'_, '_> {
    /// Two ints or bools.
    pub(super) fn int_binary(&mut self, operator: u32, x: &Val, y: &Val) -> Result<Val> {
        let (a, b) = (Self::word(x)?, Self::word(y)?);
        let bools = x.kind == Kind::Bool && y.kind == Kind::Bool;
        let bitwise = if bools { Kind::Bool } else { INT };
        let result = match operator {
            op::ADD => self.add(a, b),
            op::SUBTRACT => match self.known(b) {
                Some(number) if number != i64::MIN => self.add_known(a, -number),
                _ => self.checked(a, b, |l, a, b| l.b.ins().ssub_overflow(a, b)),
            },
            op::MULTIPLY => self.checked(a, b, |l, a, b| l.b.ins().smul_overflow(a, b)),
            op::AND => return Ok(Val::new(bitwise, &[self.b.ins().band(a, b)])),
            op::OR => return Ok(Val::new(bitwise, &[self.b.ins().bor(a, b)])),
            op::XOR => return Ok(Val::new(bitwise, &[self.b.ins().bxor(a, b)])),
            op::FLOOR_DIVIDE => self.floor_divide(a, b),
            op::REMAINDER => self.remainder(a, b),
            op::LEFT_SHIFT => self.left_shift(a, b),
            op::RIGHT_SHIFT => self.right_shift(a, b),
            op::TRUE_DIVIDE => {
                self.guard_exact(x)?;
                self.guard_exact(y)?;
                let zero = self.b.ins().icmp_imm(IntCC::Equal, b, 0);
                self.guard(zero);
                let (a, b) =
                    (self.b.ins().fcvt_from_sint(F64, a), self.b.ins().fcvt_from_sint(F64, b));
                let quotient = self.b.ins().fdiv(a, b);
                return Ok(Val::new(FLOAT, &[self.computed_once(quotient)]));
            }
            op::POWER => self.power(a, b)?,
            _ => return self.refuse("an operator", &[x, y]),
        };
        Ok(Val::new(INT, &[result]))
    }

    pub(super) fn add(&mut self, a: Value, b: Value) -> Value {
        match (self.known(a), self.known(b)) {
            (_, Some(number)) => self.add_known(a, number),
            (Some(number), _) => self.add_known(b, number),
            _ => self.checked(a, b, |l, a, b| l.b.ins().sadd_overflow(a, b)),
        }
    }

    /// A comparison of the sum is one instruction less than a look at the flags.
    fn add_known(&mut self, a: Value, number: i64) -> Value {
        let sum = self.b.ins().iadd_imm(a, number);
        let beyond = if number < 0 { IntCC::SignedGreaterThan } else { IntCC::SignedLessThan };
        let overflow = self.b.ins().icmp(beyond, sum, a);
        self.guard(overflow);
        sum
    }

    fn checked(
        &mut self,
        a: Value,
        b: Value,
        operation: impl Fn(&mut Self, Value, Value) -> (Value, Value),
    ) -> Value {
        let (result, overflow) = operation(self, a, b);
        self.guard(overflow);
        result
    }

    /// Leaves if an int is not exactly a float.
    pub(super) fn guard_exact(&mut self, value: &Val) -> Result<()> {
        let number = Self::word(value)?;
        let shifted = self.b.ins().iadd_imm(number, EXACT);
        let inexact = self.b.ins().icmp_imm(IntCC::UnsignedGreaterThan, shifted, 2 * EXACT);
        self.guard(inexact);
        Ok(())
    }

    /// Leaves for 0, which raises, and for -1, which may overflow.
    fn guard_divisor(&mut self, divisor: Value) {
        let above = self.b.ins().iadd_imm(divisor, 1);
        let bad = self.b.ins().icmp_imm(IntCC::UnsignedLessThanOrEqual, above, 1);
        self.guard(bad);
    }

    /// The exponent of a divisor that is a power of two.
    fn power_of_two(&self, divisor: Value) -> Option<u32> {
        let number = self.known(divisor)?;
        (number > 0 && number & (number - 1) == 0).then(|| number.trailing_zeros())
    }

    /// Whether the remainder of the machine, which has the dividend's sign, has to be moved to the divisor's.
    fn off(&mut self, remainder: Value, divisor: Value) -> Value {
        let signs = self.b.ins().bxor(remainder, divisor);
        let differ = self.below(signs, 0);
        let some = self.b.ins().icmp_imm(IntCC::NotEqual, remainder, 0);
        self.b.ins().band(differ, some)
    }

    fn floor_divide(&mut self, a: Value, b: Value) -> Value {
        if let Some(exponent) = self.power_of_two(b) {
            return self.b.ins().sshr_imm(a, i64::from(exponent));
        }
        self.guard_divisor(b);
        self.divide(
            a,
            b,
            |l, a, b| l.short_quotient(a, b),
            |l, a, b| {
                let quotient = l.b.ins().sdiv(a, b);
                let back = l.b.ins().imul(quotient, b);
                let remainder = l.b.ins().isub(a, back);
                let off = l.off(remainder, b);
                let off = l.b.ins().uextend(I64, off);
                l.b.ins().isub(quotient, off)
            },
        )
    }

    /// Divides without signs where both numbers have 32 bits: many processors take a third of the time for that.
    fn divide(
        &mut self,
        a: Value,
        b: Value,
        short: impl Fn(&mut Self, Value, Value) -> Value,
        long: impl Fn(&mut Self, Value, Value) -> Value,
    ) -> Value {
        let both = self.b.ins().bor(a, b);
        let high = self.b.ins().ushr_imm(both, 32);
        let (is_long, is_short, end) =
            (self.b.create_block(), self.b.create_block(), self.b.create_block());
        let result = self.b.append_block_param(end, I64);
        self.b.ins().brif(high, is_long, &[], is_short, &[]);
        self.b.switch_to_block(is_short);
        let value = short(self, a, b);
        self.b.ins().jump(end, &[BlockArg::Value(value)]);
        self.b.switch_to_block(is_long);
        let value = long(self, a, b);
        self.b.ins().jump(end, &[BlockArg::Value(value)]);
        self.b.switch_to_block(end);
        result
    }

    /// The quotient of numbers of 32 bits. By a constant it is a multiplication by 2**64 / b, rounded up: the error is below
    /// a * b / 2**64, which is below 1.
    fn short_quotient(&mut self, a: Value, b: Value) -> Value {
        if let Some(divisor) = self.known(b).filter(|divisor| *divisor > 2) {
            let reciprocal = self.int((u64::MAX / divisor as u64 + 1) as i64);
            return self.b.ins().umulhi(a, reciprocal);
        }
        self.short(a, b, |b, x, y| b.ins().udiv(x, y))
    }

    fn short(
        &mut self,
        a: Value,
        b: Value,
        operation: impl Fn(&mut FunctionBuilder<'_>, Value, Value) -> Value,
    ) -> Value {
        let (x, y) = (self.b.ins().ireduce(I32, a), self.b.ins().ireduce(I32, b));
        let narrow = operation(&mut self.b, x, y);
        self.b.ins().uextend(I64, narrow)
    }

    fn remainder(&mut self, a: Value, b: Value) -> Value {
        if self.power_of_two(b).is_some() {
            let mask = self.b.ins().iadd_imm(b, -1);
            return self.b.ins().band(a, mask);
        }
        self.guard_divisor(b);
        let result = self.divide(
            a,
            b,
            |l, a, b| {
                if l.known(b).is_none() {
                    return l.short(a, b, |b, x, y| b.ins().urem(x, y));
                }
                let quotient = l.short_quotient(a, b);
                let back = l.b.ins().imul(quotient, b);
                l.b.ins().isub(a, back)
            },
            |l, a, b| {
                let remainder = l.b.ins().srem(a, b);
                let off = l.off(remainder, b);
                let moved = l.b.ins().iadd(remainder, b);
                l.b.ins().select(off, moved, remainder)
            },
        );
        self.facts[result] = Fact::RemainderBy(b);
        result
    }

    /// A count that is negative raises; bits that are lost, the sign among them, make it a larger int.
    fn left_shift(&mut self, a: Value, b: Value) -> Value {
        let bad = self.b.ins().icmp_imm(IntCC::UnsignedGreaterThan, b, 62);
        self.guard(bad);
        let shifted = self.b.ins().ishl(a, b);
        let back = self.b.ins().sshr(shifted, b);
        let lost = self.b.ins().icmp(IntCC::NotEqual, back, a);
        self.guard(lost);
        shifted
    }

    fn right_shift(&mut self, a: Value, b: Value) -> Value {
        let bad = self.b.ins().icmp_imm(IntCC::UnsignedGreaterThan, b, 63);
        self.guard(bad);
        self.b.ins().sshr(a, b)
    }

    pub(super) fn negative(&mut self, value: &Val) -> Result<Val> {
        let number = Self::word(value)?;
        if value.kind.is_float() {
            return Ok(Val::new(FLOAT, &[self.b.ins().fneg(number)]));
        }
        let least = self.b.ins().icmp_imm(IntCC::Equal, number, i64::MIN);
        self.guard(least);
        Ok(Val::new(INT, &[self.b.ins().ineg(number)]))
    }

    /// The number as a float, as CPython converts it in arithmetic: to the nearest, ties to even.
    pub(super) fn as_float(&mut self, value: &Val) -> Result<Value> {
        let number = Self::word(value)?;
        if value.kind.is_float() {
            return Ok(number);
        }
        if value.kind.is_int() {
            return Ok(self.b.ins().fcvt_from_sint(F64, number));
        }
        self.refuse("a float", &[value])
    }

    /// Truncated towards zero; leaves for what is no int of 64 bits.
    pub(super) fn truncated(&mut self, number: Value) -> Value {
        let limit = self.b.ins().f64const(9.0e18);
        let size = self.b.ins().fabs(number);
        // False for nan too.
        let fits = self.b.ins().fcmp(FloatCC::LessThan, size, limit);
        self.require(fits);
        self.b.ins().fcvt_to_sint(I64, number)
    }
}
