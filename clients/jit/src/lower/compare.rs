//! Comparisons and truth.

use super::Lowering;
use crate::kind::{Kind, Val};
use crate::resolve::Result;
use cranelift_codegen::ir::condcodes::{FloatCC, IntCC};
use cranelift_codegen::ir::types::I64;
use cranelift_codegen::ir::{InstBuilder, Value};

impl Lowering<'_, '_> {
    /// `x < y` and so on, by the number of the operator in `opcode.cmp_op`.
    pub(super) fn compare(&mut self, operator: u32, x: &Val, y: &Val) -> Result<Val> {
        use FloatCC as F;
        use IntCC as I;
        let (ints, floats) = match operator {
            0 => (I::SignedLessThan, F::LessThan),
            1 => (I::SignedLessThanOrEqual, F::LessThanOrEqual),
            2 => (I::Equal, F::Equal),
            3 => (I::NotEqual, F::NotEqual),
            4 => (I::SignedGreaterThan, F::GreaterThan),
            5 => (I::SignedGreaterThanOrEqual, F::GreaterThanOrEqual),
            _ => return self.refuse("a comparison", &[x, y]),
        };
        let holds = if x.kind.is_int() && y.kind.is_int() {
            let (a, b) = (Self::word(x)?, Self::word(y)?);
            self.b.ins().icmp(ints, a, b)
        } else if x.kind.is_number() && y.kind.is_number() {
            // CPython compares an int and a float exactly.
            for value in [x, y] {
                if value.kind.is_int() {
                    self.guard_exact(value)?;
                }
            }
            let (a, b) = (self.as_float(x)?, self.as_float(y)?);
            self.b.ins().fcmp(floats, a, b)
        } else {
            return self.refuse("a comparison", &[x, y]);
        };
        Ok(self.bool(holds))
    }

    /// A condition of the machine as a bool.
    pub(super) fn bool(&mut self, condition: Value) -> Val {
        let word = self.b.ins().uextend(I64, condition);
        Val::new(Kind::Bool, &[word])
    }

    /// What `if` asks: a condition of the machine.
    pub(super) fn truth(&mut self, value: &Val) -> Result<Value> {
        match value.kind {
            Kind::Bool | Kind::Int { .. } => {
                let word = Self::word(value)?;
                if let Some(condition) = self.condition(word) {
                    return Ok(condition);
                }
                Ok(self.b.ins().icmp_imm(IntCC::NotEqual, word, 0))
            }
            Kind::Float { .. } => {
                let (word, zero) = (Self::word(value)?, self.b.ins().f64const(0.0));
                // Also true for nan.
                Ok(self.b.ins().fcmp(FloatCC::NotEqual, word, zero))
            }
            Kind::None => Ok(self.int(0)),
            Kind::Function(_) | Kind::Method(..) => Ok(self.int(1)),
            Kind::Instance(class) => {
                self.resolve.is_true(class)?;
                Ok(self.int(1))
            }
            Kind::Buffer { .. } => {
                let size = self.buffer_length(value)?;
                Ok(self.b.ins().icmp_imm(IntCC::NotEqual, size, 0))
            }
            ref kind if kind.is_container() => {
                let size = self.length(value)?;
                Ok(self.b.ins().icmp_imm(IntCC::NotEqual, size, 0))
            }
            _ => self.refuse("the truth", &[value]),
        }
    }
}
