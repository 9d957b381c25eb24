//! Functions of `math` for floats. What raises is left to the interpreter.

use super::Lowering;
use crate::integers;
use crate::kind::{Kind, Val, FLOAT, INT};
use crate::resolve::Result;
use cranelift_codegen::ir::condcodes::FloatCC;
use cranelift_codegen::ir::{InstBuilder, Value};
use std::ffi::CStr;

/// Of one finite number, and of two.
const OF_ONE: &[&CStr] = &[
    c"sin", c"cos", c"tan", c"exp", c"exp2", c"expm1", c"log", c"log2", c"log10", c"log1p",
    c"cbrt", c"asin", c"acos", c"atan", c"sinh", c"cosh", c"tanh", c"asinh", c"acosh", c"atanh",
];
const OF_TWO: &[&CStr] = &[c"atan2", c"fmod", c"pow"];

/// The function that CPython calls. The linker could find another one for this crate: Rust's library has some, and `cbrt` of that
/// one rounds otherwise.
fn of_library(names: &[&CStr], name: &str) -> Result<usize> {
    let found = names.iter().find(|known| known.to_bytes() == name.as_bytes());
    let found = found.ok_or_else(|| format!("math.{name} of so many arguments"))?;
    // SAFETY: dlsym takes any string, and the default scope always exists.
    let address = unsafe { libc::dlsym(libc::RTLD_DEFAULT, found.as_ptr()) };
    if address.is_null() {
        return Err(format!("this system has no {name}"));
    }
    Ok(address as usize)
}

/// Of ints: what CPython does of 64 bits.
fn of_ints(name: &str, count: usize) -> Option<usize> {
    Some(match (name, count) {
        ("gcd", 2) => integers::gcd as *const () as usize,
        ("lcm", 2) => integers::lcm as *const () as usize,
        ("comb", 2) => integers::comb as *const () as usize,
        ("isqrt", 1) => integers::isqrt as *const () as usize,
        ("factorial", 1) => integers::factorial as *const () as usize,
        _ => return None,
    })
}

impl Lowering<'_, '_> {
    pub(super) fn math(&mut self, name: &str, arguments: &[Val]) -> Result<Val> {
        if let Some(other) = arguments.iter().find(|argument| !argument.kind.is_number()) {
            return self.refuse(&format!("math.{name}"), &[other]);
        }
        if let Some(address) = of_ints(name, arguments.len()) {
            if let Some(float) = arguments.iter().find(|argument| argument.kind.is_float()) {
                return self.refuse(&format!("math.{name}"), &[float]);
            }
            let words = arguments.iter().map(Self::word).collect::<Result<Vec<_>>>()?;
            return self.call_of_ints(address, &words);
        }
        match arguments {
            [x] => self.math_of_one(name, x),
            [x, y] => self.math_of_two(name, x, y),
            _ => Err(format!("math.{name} of so many arguments")),
        }
    }

    fn math_of_one(&mut self, name: &str, x: &Val) -> Result<Val> {
        if let ("floor" | "ceil" | "trunc", Kind::Int { .. }) = (name, &x.kind) {
            return Ok(x.clone()); // int.__floor__ gives the int itself
        }
        if let ("floor" | "ceil" | "trunc", Kind::Bool) = (name, &x.kind) {
            return Ok(Val::new(INT, &x.words));
        }
        let number = self.as_float(x)?;
        let result = match name {
            "fabs" => self.b.ins().fabs(number),
            "sqrt" => {
                let zero = self.b.ins().f64const(0.0);
                let negative = self.b.ins().fcmp(FloatCC::LessThan, number, zero);
                self.guard(negative);
                let root = self.b.ins().sqrt(number);
                self.computed_once(root)
            }
            "degrees" | "radians" => {
                let half = std::f64::consts::PI;
                let factor = if name == "degrees" { 180.0 / half } else { half / 180.0 };
                let factor = self.b.ins().f64const(factor);
                self.b.ins().fmul(number, factor)
            }
            "isnan" | "isinf" | "isfinite" => {
                let is = self.classified(name, number);
                return Ok(self.bool(is));
            }
            "trunc" => return Ok(Val::new(INT, &[self.truncated(number)])),
            "floor" | "ceil" => {
                let whole = self.call_of_floats(
                    if name == "floor" { crate::numbers::floor } else { crate::numbers::ceil }
                        as usize,
                    &[number],
                );
                return Ok(Val::new(INT, &[self.truncated(whole)]));
            }
            _ => {
                let address = of_library(OF_ONE, name)?;
                let result = self.call_of_floats(address, &[number]);
                self.guard_finite(result);
                result
            }
        };
        Ok(Val::new(FLOAT, &[result]))
    }

    fn math_of_two(&mut self, name: &str, x: &Val, y: &Val) -> Result<Val> {
        let (a, b) = (self.as_float(x)?, self.as_float(y)?);
        if name == "copysign" {
            return Ok(Val::new(FLOAT, &[self.b.ins().fcopysign(a, b)]));
        }
        if name == "log" {
            let address = of_library(OF_ONE, name)?;
            let (a, b) = (self.call_of_floats(address, &[a]), self.call_of_floats(address, &[b]));
            self.guard_finite(a);
            self.guard_finite(b);
            self.guard_not_zero(b);
            return Ok(Val::new(FLOAT, &[self.b.ins().fdiv(a, b)]));
        }
        let address = of_library(OF_TWO, name)?;
        self.guard_finite(a);
        self.guard_finite(b);
        let result = self.call_of_floats(address, &[a, b]);
        self.guard_finite(result);
        Ok(Val::new(FLOAT, &[result]))
    }

    fn classified(&mut self, name: &str, number: Value) -> Value {
        if name == "isnan" {
            return self.b.ins().fcmp(FloatCC::Unordered, number, number);
        }
        let size = self.b.ins().fabs(number);
        let infinite = self.b.ins().f64const(f64::INFINITY);
        let condition = if name == "isinf" { FloatCC::Equal } else { FloatCC::LessThan };
        self.b.ins().fcmp(condition, size, infinite)
    }

    /// Leaves for infinity and nan, of which some are errors.
    fn guard_finite(&mut self, number: Value) {
        let size = self.b.ins().fabs(number);
        let infinite = self.b.ins().f64const(f64::INFINITY);
        let finite = self.b.ins().fcmp(FloatCC::LessThan, size, infinite);
        self.require(finite);
    }
}
