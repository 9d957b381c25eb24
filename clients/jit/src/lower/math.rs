//! Functions of `math` for floats. What raises is left to the interpreter.

use super::Lowering;
use crate::kind::{Kind, Val, FLOAT, INT};
use crate::resolve::Result;
use cranelift_codegen::ir::condcodes::FloatCC;
use cranelift_codegen::ir::{InstBuilder, Value};
use std::ffi::c_double;

extern "C" {
    fn sin(x: c_double) -> c_double;
    fn cos(x: c_double) -> c_double;
    fn tan(x: c_double) -> c_double;
    fn exp(x: c_double) -> c_double;
    fn asin(x: c_double) -> c_double;
    fn acos(x: c_double) -> c_double;
    fn atan(x: c_double) -> c_double;
    fn sinh(x: c_double) -> c_double;
    fn cosh(x: c_double) -> c_double;
    fn tanh(x: c_double) -> c_double;
}

/// The function of the C library that CPython calls.
fn address(name: &str) -> Option<usize> {
    type Function = unsafe extern "C" fn(c_double) -> c_double;
    let function: Function = match name {
        "sin" => sin,
        "cos" => cos,
        "tan" => tan,
        "exp" => exp,
        "asin" => asin,
        "acos" => acos,
        "atan" => atan,
        "sinh" => sinh,
        "cosh" => cosh,
        "tanh" => tanh,
        _ => return None,
    };
    Some(function as usize)
}

impl Lowering<'_, '_> {
    pub(super) fn math(&mut self, name: &str, arguments: &[Val]) -> Result<Val> {
        let [x] = arguments else { return Err(format!("math.{name} of so many arguments")) };
        if !x.kind.is_number() {
            return self.refuse(&format!("math.{name}"), &[x]);
        }
        if let ("floor" | "ceil", Kind::Int { .. }) = (name, &x.kind) {
            return Ok(x.clone()); // int.__floor__ gives the int itself
        }
        if let ("floor" | "ceil", Kind::Bool) = (name, &x.kind) {
            return Ok(Val::new(INT, &x.words));
        }
        let number = self.as_float(x)?;
        let result = match name {
            "fabs" => self.b.ins().fabs(number),
            "sqrt" => {
                let zero = self.b.ins().f64const(0.0);
                let negative = self.b.ins().fcmp(FloatCC::LessThan, number, zero);
                self.guard(negative);
                self.b.ins().sqrt(number)
            }
            "floor" | "ceil" => {
                let whole = self.call_of_floats(
                    if name == "floor" { crate::numbers::floor } else { crate::numbers::ceil }
                        as usize,
                    &[number],
                );
                return Ok(Val::new(INT, &[self.truncated(whole)]));
            }
            _ => {
                let address = address(name).ok_or("a function of math that is not compiled")?;
                let result = self.call_of_floats(address, &[number]);
                self.guard_finite(result);
                result
            }
        };
        Ok(Val::new(FLOAT, &[result]))
    }

    /// Leaves for infinity and nan, of which some are errors.
    fn guard_finite(&mut self, number: Value) {
        use cranelift_codegen::ir::condcodes::IntCC;
        let size = self.b.ins().fabs(number);
        let infinite = self.b.ins().f64const(f64::INFINITY);
        let finite = self.b.ins().fcmp(FloatCC::LessThan, size, infinite);
        let bad = self.b.ins().icmp_imm(IntCC::Equal, finite, 0);
        self.guard(bad);
    }
}
