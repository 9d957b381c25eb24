//! Builtin functions of several arguments, or that make other values than numbers.

use super::int::operator as op;
use super::{Flow, Lowering};
use crate::integers;
use crate::kind::{Kind, Val, FLOAT, INT};
use crate::numbers;
use crate::resolve::Result;
use cranelift_codegen::ir::types::I64;
use cranelift_codegen::ir::InstBuilder;

/// The operators of `compare`.
const LESS: u32 = 0;
const GREATER: u32 = 4;

impl Lowering<'_, '_> {
    /// `int()` and so on of no argument.
    pub(super) fn empty(&mut self, kind: Kind) -> Val {
        let word = if kind == FLOAT { self.b.ins().f64const(0.0) } else { self.int(0) };
        Val::new(kind, &[word])
    }

    /// `min` or `max`: the first one unless a later one is beyond it. If two types are compared, the code behind the call is compiled
    /// for both.
    pub(super) fn extremes(&mut self, arguments: &[Val], greatest: bool) -> Result<Flow> {
        let (first, rest) = arguments.split_first().ok_or("min or max of nothing")?;
        let mut best = first.clone();
        for (index, next) in rest.iter().enumerate() {
            if best.kind.is_like(&next.kind) {
                best = self.extreme(&best, next, greatest)?;
                continue;
            }
            let is_last = index + 1 == rest.len();
            if !is_last || !best.kind.is_number() || !next.kind.is_number() {
                return self.refuse("min or max", &[&best, next]);
            }
            let beyond = self.compare(if greatest { GREATER } else { LESS }, next, &best)?;
            let beyond = self.truth(&beyond)?;
            // For both edges.
            self.own_stack();
            let (take, keep) = (self.b.create_block(), self.b.create_block());
            self.b.ins().brif(beyond, take, &[], keep, &[]);
            for (block, value) in [(take, next), (keep, &best)] {
                self.b.switch_to_block(block);
                self.stack.push(value.clone());
                let edge = self.edge(self.instruction.next);
                self.b.ins().jump(edge, &[]);
                self.stack.pop();
            }
            return Ok(Flow::End);
        }
        self.stack.push(best);
        Ok(Flow::Next)
    }

    pub(super) fn builtin(&mut self, name: &str, arguments: &[Val]) -> Result<Val> {
        match (name, arguments) {
            ("divmod", [x, y]) => self.divmod(x, y),
            ("pow", [x, y]) if x.kind.is_int() && y.kind.is_int() => {
                self.int_binary(op::POWER, x, y)
            }
            ("pow", [x, y]) if x.kind.is_number() && y.kind.is_number() => {
                let result = self.float_binary(op::POWER, x, y)?;
                result.ok_or_else(|| "internal: floats have powers".into())
            }
            ("pow", [x, y, z]) if arguments.iter().all(|value| value.kind.is_int()) => {
                let words = [Self::word(x)?, Self::word(y)?, Self::word(z)?];
                self.call_of_ints(integers::power_modulo as *const () as usize, &words)
            }
            ("round", [x]) => match x.kind {
                Kind::Int { .. } => Ok(x.clone()),
                Kind::Bool => Ok(Val::new(INT, &x.words)),
                Kind::Float { .. } => {
                    let nearest = numbers::nearest as *const () as usize;
                    let number = Self::word(x)?;
                    let whole = self.call_of_floats(nearest, &[number]);
                    Ok(Val::new(INT, &[self.truncated(whole)]))
                }
                _ => self.refuse("round", &[x]),
            },
            ("sum", [x]) => self.sum(x),
            _ => Err(format!("{name} of such arguments")),
        }
    }

    fn divmod(&mut self, x: &Val, y: &Val) -> Result<Val> {
        let operators = [op::FLOOR_DIVIDE, op::REMAINDER];
        let mut items = Vec::new();
        for operator in operators {
            items.push(if x.kind.is_int() && y.kind.is_int() {
                self.int_binary(operator, x, y)?
            } else if x.kind.is_number() && y.kind.is_number() {
                self.float_binary(operator, x, y)?.ok_or("internal: floats have remainders")?
            } else {
                return self.refuse("divmod", &[x, y]);
            });
        }
        let kinds = items.iter().map(|item| item.kind.clone()).collect();
        let words = items.iter().flat_map(|item| item.words.iter().copied()).collect();
        Ok(Val { kind: Kind::Tuple(kinds), words, owned: false })
    }

    /// Of a range, or of a tuple of ints. Floats are added with a correction.
    fn sum(&mut self, x: &Val) -> Result<Val> {
        if let Kind::Range { .. } = x.kind {
            let iterator = self.counted_range(x)?;
            return self
                .call_of_ints(integers::sum_of_range as *const () as usize, &iterator.words);
        }
        let items = match &x.kind {
            Kind::Tuple(kinds) if kinds.iter().all(Kind::is_int) => kinds,
            _ => return self.refuse("sum", &[x]),
        };
        let mut words = x.words.iter();
        let mut total = self.int(0);
        for item in items {
            let word = words.next().copied().ok_or("internal: a tuple without words")?;
            words.by_ref().take(item.count() - 1).for_each(drop);
            total = self.add(total, word);
        }
        Ok(Val::new(INT, &[total]))
    }

    /// Calls one of the functions of `integers`.
    pub(super) fn call_of_ints(
        &mut self,
        address: usize,
        words: &[cranelift_codegen::ir::Value],
    ) -> Result<Val> {
        Ok(Val::new(INT, &[self.checked_call(address, words, I64)?]))
    }
}
