//! Arithmetic on floats, and on a float and an int.

use super::int::operator as op;
use super::Lowering;
use crate::context;
use crate::kind::{Val, FLOAT};
use crate::numbers;
use crate::resolve::Result;
use cranelift_codegen::ir::condcodes::FloatCC;
use cranelift_codegen::ir::types::{F64, I64};
use cranelift_codegen::ir::{
    AbiParam, InstBuilder, MemFlags, Signature, StackSlotData, StackSlotKind, Value,
};

impl Lowering<'_, '_> {
    /// Two numbers, one of them a float; `None`: floats have no such operator.
    pub(super) fn float_binary(&mut self, operator: u32, x: &Val, y: &Val) -> Result<Option<Val>> {
        let (a, b) = (self.as_float(x)?, self.as_float(y)?);
        let result = match operator {
            op::ADD => self.b.ins().fadd(a, b),
            op::SUBTRACT => self.b.ins().fsub(a, b),
            op::MULTIPLY => self.b.ins().fmul(a, b),
            op::TRUE_DIVIDE => {
                self.guard_not_zero(b);
                let quotient = self.b.ins().fdiv(a, b);
                self.computed_once(quotient)
            }
            op::REMAINDER => {
                self.guard_not_zero(b);
                self.call_of_floats(numbers::remainder as *const () as usize, &[a, b])
            }
            op::FLOOR_DIVIDE => {
                self.guard_not_zero(b);
                self.call_of_floats(numbers::floor_divide as *const () as usize, &[a, b])
            }
            op::POWER => {
                let address = numbers::float_power as *const () as usize;
                self.checked_call(address, &[a, b], F64)?
            }
            _ => return Ok(None),
        };
        Ok(Some(Val::new(FLOAT, &[result])))
    }

    pub(super) fn guard_not_zero(&mut self, divisor: Value) {
        let zero = self.b.ins().f64const(0.0);
        let bad = self.b.ins().fcmp(FloatCC::Equal, divisor, zero);
        self.guard(bad);
    }

    /// Has a number computed here. Cranelift computes it in each of the blocks that use it first on their paths, as those of a store
    /// in place and of one that is not, and does not see how long a division takes. Here it is stored into the word of the context
    /// that each exit stores first, so nothing reads it.
    pub(super) fn computed_once(&mut self, number: Value) -> Value {
        if self.stores_items {
            self.b.ins().store(super::in_context(), number, self.context, context::EXIT);
        }
        number
    }

    /// Two ints: `a ** b` where it is an int of 64 bits.
    pub(super) fn power(&mut self, a: Value, b: Value) -> Result<Value> {
        if self.known(b) == Some(2) {
            let (result, overflow) = self.b.ins().smul_overflow(a, a);
            self.guard(overflow);
            return Ok(result);
        }
        self.checked_call(numbers::int_power as *const () as usize, &[a, b], I64)
    }

    /// Calls a function of floats that returns one. It neither fails nor calls back.
    pub(super) fn call_of_floats(&mut self, address: usize, arguments: &[Value]) -> Value {
        let mut signature = Signature::new(self.call_conv);
        signature.params.extend(arguments.iter().map(|_| AbiParam::new(F64)));
        signature.returns.push(AbiParam::new(F64));
        let signature = self.signature(signature);
        let address = self.int(address as i64);
        let call = self.b.ins().call_indirect(signature, address, arguments);
        self.b.inst_results(call).first().copied().unwrap_or(address)
    }

    /// Calls a function that stores its result where its last argument says and returns 1, or 0 to leave.
    pub(super) fn checked_call(
        &mut self,
        address: usize,
        arguments: &[Value],
        result: cranelift_codegen::ir::Type,
    ) -> Result<Value> {
        let mut signature = Signature::new(self.call_conv);
        for argument in arguments {
            signature.params.push(AbiParam::new(self.b.func.dfg.value_type(*argument)));
        }
        signature.params.push(AbiParam::new(I64));
        signature.returns.push(AbiParam::new(I64));
        let signature = self.signature(signature);
        let slot = if let Some(slot) = self.scratch {
            slot
        } else {
            let slot = StackSlotData::new(StackSlotKind::ExplicitSlot, 8, 3);
            *self.scratch.insert(self.b.create_sized_stack_slot(slot))
        };
        let place = self.b.ins().stack_addr(I64, slot, 0);
        let address = self.int(address as i64);
        let mut all = arguments.to_vec();
        all.push(place);
        let call = self.b.ins().call_indirect(signature, address, &all);
        let good = self.b.inst_results(call).first().copied().ok_or("internal: no result")?;
        self.require(good);
        Ok(self.b.ins().load(result, MemFlags::trusted(), place, 0))
    }
}
