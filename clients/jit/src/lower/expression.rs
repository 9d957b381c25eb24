//! Generator expressions that are the argument of a builtin: `sum(x * x for x in a)`.
//!
//! *Nothing is changed*: neither the items of such an expression nor what it loops over store anything, so the whole of it can be
//! computed once more. Wherever its code is left the interpreter starts at the instruction that makes the generator, with the values
//! from before it: no frame of the generator and no state of the builtin has to be made. What the code has of its own by then is released.

use super::around::{Around, Reduction, Restart};
use super::{Flow, Lowering};
use crate::decode::{Expression, Instruction};
use crate::kind::{Kind, Val, FLOAT, INT};
use crate::resolve::{Meaning, Result};
use crate::slot::Cause;
use cranelift_codegen::ir::condcodes::{FloatCC, IntCC};
use cranelift_codegen::ir::types::I8;
use cranelift_codegen::ir::InstBuilder;

impl<'a> Lowering<'a, '_> {
    /// The expression that starts at a code unit, if it is of code that is compiled as such.
    pub(super) fn expression_at(&self, unit: u32) -> Option<(usize, &'a Expression)> {
        if self.around.is_some() {
            return None;
        }
        self.code.expressions.iter().enumerate().find(|(_, expression)| expression.start == unit)
    }

    /// Whether the code of an expression is to be executed by the interpreter first.
    pub(super) fn is_cold(&self, index: usize) -> bool {
        self.source.inner.get(index).is_none_or(|inner| self.resolve.is_observed(inner.address))
    }

    /// Begins an expression: in the place of the generator's function there is nothing.
    pub(super) fn begin_expression(&mut self) {
        self.secure();
        let (locals, stack) = (self.locals.clone(), self.stack.clone());
        let stores = std::mem::take(&mut self.stores);
        let instruction = self.instruction;
        self.restart = Some(Restart { instruction, locals, stack, stores, inside: false });
        self.push(Kind::Null, &[]);
    }

    /// What the current instruction leaves if it fails in an expression, beside the state in which it is started again.
    pub(super) fn beside(&self, restart: &Restart) -> Vec<Val> {
        let (locals, stack) = &self.before;
        let (locals, above) =
            if restart.inside { (&locals[..], 0) } else { (&[][..], restart.stack.len()) };
        let all = locals.iter().chain(stack.iter().skip(above));
        all.filter(|value| value.owned).cloned().collect()
    }

    /// An instruction of an expression around its generator, which starts at that code unit.
    pub(super) fn within_expression(
        &mut self,
        start: u32,
        instruction: Instruction,
    ) -> Result<Flow> {
        let (index, expression) = self.expression_at(start).ok_or("internal: no expression")?;
        if instruction.start != expression.call {
            return self.step(instruction);
        }
        if self.stores {
            return Err("internal: what cannot be done again".into());
        }
        let (mark, before) = (self.mark(), self.before.clone());
        match self.evaluate_expression(index, expression) {
            Err(_) if self.may_end(start) => {
                self.before = before;
                Ok(self.leave_instead(&mark, Cause::End))
            }
            flow => flow,
        }
    }

    /// Compiles what the generator and the builtin do. The code behind the call has one version for each result.
    fn evaluate_expression(&mut self, index: usize, expression: &'a Expression) -> Result<Flow> {
        let inner = self.source.inner.get(index).ok_or("internal: no such expression")?;
        let (iterator, _, itself, callable) = (self.pop()?, self.pop()?, self.pop()?, self.pop()?);
        let (Kind::Constant(address), Kind::Null) = (&callable.kind, &itself.kind) else {
            return self.refuse("a call with a generator expression", &[&callable]);
        };
        let reduction = match self.resolve.meaning(*address) {
            Meaning::Builtin("sum") => Reduction::Sum,
            Meaning::Builtin("any") => Reduction::Any,
            Meaning::Builtin("all") => Reduction::All,
            Meaning::Min => Reduction::Extreme { greatest: false },
            Meaning::Max => Reduction::Extreme { greatest: true },
            _ => return Err("a generator expression for another builtin".into()),
        };
        if !iterator.kind.is_iterator() {
            return self.refuse("a loop", &[&iterator]);
        }
        self.resolve.enter(inner.address)?;
        let mut locals = vec![Val::plain(Kind::Unbound); inner.slots];
        if reduction == Reduction::Sum {
            locals.push(Val::new(INT, &[self.int(0)]));
        } else {
            locals.push(Val::plain(Kind::Unbound));
        }
        let (targets, outer_loops) = super::targets(&inner.code);
        let around = Around {
            code: std::mem::replace(&mut self.code, &inner.code),
            constants: std::mem::replace(&mut self.constants, &inner.constants),
            outside: std::mem::replace(&mut self.outside, self.source.nothing),
            locals: std::mem::replace(&mut self.locals, locals),
            stack: std::mem::replace(&mut self.stack, vec![iterator]),
            joins: std::mem::take(&mut self.joins),
            targets: std::mem::replace(&mut self.targets, targets),
            outer_loops: std::mem::replace(&mut self.outer_loops, outer_loops),
            instruction: self.instruction,
            expression,
            inner,
            reduction,
        };
        self.around = Some(Box::new(around));
        self.restart_inside(true);
        let result = self.items(inner.start);
        self.restart_inside(false);
        self.resolve.leave();
        let around = self.around.take().ok_or("internal: nothing around")?;
        (self.code, self.constants, self.outside) = (around.code, around.constants, around.outside);
        (self.locals, self.stack) = (around.locals, around.stack);
        (self.joins, self.targets) = (around.joins, around.targets);
        (self.outer_loops, self.instruction) = (around.outer_loops, around.instruction);
        result.map(|()| Flow::End)
    }

    fn restart_inside(&mut self, inside: bool) {
        if let Some(restart) = &mut self.restart {
            restart.inside = inside;
        }
    }

    /// Compiles all blocks of the generator.
    fn items(&mut self, start: u32) -> Result<()> {
        let block = self.edge(start);
        self.b.ins().jump(block, &[]);
        while let Some(unit) = self.joins.first() {
            self.join(unit)?;
        }
        Ok(())
    }

    /// LOAD_DEREF within an expression: a variable of the function around it.
    pub(super) fn load_around(&mut self, slot: u32) -> Result<Flow> {
        let mut around = self.around.take().ok_or("internal: nothing around")?;
        let index = (slot as usize).checked_sub(around.inner.first_free);
        let cell = index.and_then(|index| around.expression.cells.get(index)).copied();
        let known = around.locals.clone();
        std::mem::swap(&mut self.locals, &mut around.locals);
        let own = std::mem::replace(&mut self.outside, around.outside);
        let result = cell.map_or(Err("internal: no such cell".into()), |cell| self.load_cell(cell));
        self.outside = own;
        std::mem::swap(&mut self.locals, &mut around.locals);
        around.locals = known; // a variable that is bound here may be unbound elsewhere
        self.around = Some(around);
        result
    }

    /// YIELD_VALUE: an item of the generator.
    pub(super) fn yield_item(&mut self) -> Result<Flow> {
        let reduction = self.around.as_ref().map(|around| around.reduction);
        let value = self.pop()?;
        match reduction {
            Some(Reduction::Any) => self.end_if(&value, true)?,
            Some(Reduction::All) => self.end_if(&value, false)?,
            Some(Reduction::Sum) => {
                let total = self.add_item(&value)?;
                self.set_accumulator(total)?;
            }
            Some(Reduction::Extreme { greatest }) => {
                let best = self.best(&value, greatest)?;
                self.set_accumulator(best)?;
            }
            None => return Err("a generator".into()),
        }
        self.push(Kind::None, &[]); // what next() sends
        Ok(Flow::Next)
    }

    fn accumulator(&self) -> Result<Val> {
        self.locals.last().cloned().ok_or_else(|| "internal: no accumulator".into())
    }

    fn set_accumulator(&mut self, value: Val) -> Result<()> {
        let index = self.locals.len().checked_sub(1).ok_or("internal: no accumulator")?;
        self.set_local(index, value).map(drop)
    }

    /// The sum so far and an item. Behind the first float it is one, with a compensation for what rounding has lost.
    fn add_item(&mut self, item: &Val) -> Result<Val> {
        let total = self.accumulator()?;
        if !item.kind.is_number() {
            return self.refuse("sum", &[item]);
        }
        let pair = Kind::Tuple(vec![FLOAT, FLOAT]);
        match (&total.kind, &total.words[..]) {
            (Kind::Int { .. }, &[sum, ..]) if item.kind.is_int() => {
                let item = Self::word(item)?;
                Ok(Val::new(INT, &[self.add(sum, item)]))
            }
            (Kind::Int { .. }, _) => {
                let (sum, item) = (self.as_float(&total)?, self.as_float(item)?);
                let (sum, none) = (self.b.ins().fadd(sum, item), self.b.ins().f64const(0.0));
                Ok(Val::new(pair, &[sum, none]))
            }
            (Kind::Tuple(_), &[sum, lost]) => {
                let is_int = item.kind.is_int();
                let item = self.as_float(item)?;
                let next = self.b.ins().fadd(sum, item);
                if is_int {
                    return Ok(Val::new(pair, &[next, lost]));
                }
                let (size, other) = (self.b.ins().fabs(sum), self.b.ins().fabs(item));
                let first = self.b.ins().fcmp(FloatCC::GreaterThanOrEqual, size, other);
                let larger = self.b.ins().select(first, sum, item);
                let smaller = self.b.ins().select(first, item, sum);
                let rest = self.b.ins().fsub(larger, next);
                let rest = self.b.ins().fadd(rest, smaller);
                let lost = self.b.ins().fadd(lost, rest);
                Ok(Val::new(pair, &[next, lost]))
            }
            _ => self.refuse("sum", &[&total]),
        }
    }

    /// The greatest or least item so far, of those and of this one.
    fn best(&mut self, item: &Val, greatest: bool) -> Result<Val> {
        let best = self.accumulator()?;
        if !item.kind.is_number() {
            return self.refuse("min or max", &[item]);
        }
        let Kind::Maybe(kind) = best.kind else {
            if best.kind == Kind::Unbound {
                return Ok(item.clone());
            }
            return self.extreme(&best, item, greatest);
        };
        let (there, words) = best.words.split_first().ok_or("internal: no words")?;
        let of_both = self.extreme(&Val::new(*kind, words), item, greatest)?;
        let mut result = Val::plain(of_both.kind.clone());
        for (one, both) in self.as_kind(&of_both.kind, item)?.into_iter().zip(of_both.words) {
            result.words.push(self.b.ins().select(*there, both, one));
        }
        Ok(result)
    }

    /// Ends the loop if an item is true, or false: with that as the result.
    fn end_if(&mut self, item: &Val, result: bool) -> Result<()> {
        let truth = self.truth(item)?;
        self.before_returning();
        let (ended, go_on) = (self.b.create_block(), self.b.create_block());
        if result {
            self.b.ins().brif(truth, ended, &[], go_on, &[]);
        } else {
            self.b.ins().brif(truth, go_on, &[], ended, &[]);
        }
        self.b.switch_to_block(ended);
        let value = self.bool_of(result);
        let (locals, stack) = (self.locals.clone(), self.stack.clone());
        let taken = self.taken.clone();
        taken.iter().for_each(|value| self.release(value));
        self.go_behind(value)?;
        (self.locals, self.stack) = (locals, stack);
        self.b.switch_to_block(go_on);
        Ok(())
    }

    fn bool_of(&mut self, truth: bool) -> Val {
        let word = self.b.ins().iconst(I8, i64::from(truth));
        self.bool(word)
    }

    /// RETURN_CONST: there are no more items.
    pub(super) fn end_expression(&mut self) -> Result<Flow> {
        let reduction = self.around.as_ref().map(|around| around.reduction);
        self.before_returning();
        let total = self.accumulator()?;
        let value = match (reduction, &total.kind, &total.words[..]) {
            (Some(Reduction::Any), ..) => self.bool_of(false),
            (Some(Reduction::All), ..) => self.bool_of(true),
            (_, Kind::Unbound, _) => return Ok(self.leave()), // ValueError
            (_, Kind::Maybe(kind), &[there, ..]) => {
                let none = self.b.ins().icmp_imm(IntCC::Equal, there, 0);
                self.guard(none);
                Val::new((**kind).clone(), &total.words[1..])
            }
            (_, Kind::Tuple(_), &[sum, lost]) => {
                let zero = self.b.ins().f64const(0.0);
                let none = self.b.ins().fsub(lost, lost); // 0 if it is finite
                let finite = self.b.ins().fcmp(FloatCC::Equal, none, zero);
                let some = self.b.ins().fcmp(FloatCC::NotEqual, lost, zero);
                let is_added = self.b.ins().band(finite, some);
                let both = self.b.ins().fadd(sum, lost);
                Val::new(FLOAT, &[self.b.ins().select(is_added, both, sum)])
            }
            _ => total.clone(),
        };
        self.go_behind(value)?;
        Ok(Flow::End)
    }

    /// Jumps behind the call with its result, and releases what the generator has. The guards for that were emitted.
    fn go_behind(&mut self, value: Val) -> Result<()> {
        let own = [self.locals.clone(), self.stack.clone()].concat();
        own.iter().for_each(|value| self.release(value));
        let mut around = self.around.take().ok_or("internal: nothing around")?;
        let (restart, instruction) = (self.restart.take(), self.instruction);
        self.locals.clone_from(&around.locals);
        self.stack.clone_from(&around.stack);
        self.stack.push(value);
        std::mem::swap(&mut self.joins, &mut around.joins);
        self.instruction = around.instruction;
        let edge = self.edge(around.expression.next);
        self.b.ins().jump(edge, &[]);
        std::mem::swap(&mut self.joins, &mut around.joins);
        (self.around, self.restart, self.instruction) = (Some(around), restart, instruction);
        Ok(())
    }
}
