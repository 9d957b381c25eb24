//! Calls: of builtins that are computed in place, and of compiled functions.

use super::{Flow, Lowering, MOST_ARGUMENTS};
use crate::context;
use crate::instances::instantiate;
use crate::kind::{Kind, Val, FLOAT, INT};
use crate::opcode::Special;
use crate::resolve::{Meaning, Passed, Result, Target};
use crate::slot::Cause;
use cranelift_codegen::ir::condcodes::{FloatCC, IntCC};
use cranelift_codegen::ir::types::{F64, I64};
use cranelift_codegen::ir::{InstBuilder, MemFlags, StackSlotData, StackSlotKind};

impl Lowering<'_, '_> {
    /// A call with so many arguments, of which the last ones have these names.
    pub(super) fn call(&mut self, count: usize, names: &[usize]) -> Result<Flow> {
        if self.stack.iter().any(|value| value.kind.holds_objects()) && self.calls_function(count) {
            // What a callee is given stays alive, whatever it changes.
            self.secure();
            self.taken = self.owned(count + 2);
        }
        if names.is_empty() {
            if let Some(flow) = self.call_method(count)? {
                return Ok(flow);
            }
        }
        let start = self.stack.len().checked_sub(count).filter(|start| *start >= 2);
        let start = start.ok_or("internal: CALL")?;
        let arguments = self.stack.split_off(start);
        let arguments: Vec<Val> =
            arguments.into_iter().map(|value| self.as_object(value)).collect();
        let (mut itself, callable) = (self.pop()?, self.pop()?);
        let mut arguments = arguments;
        if let Kind::Instance(_) = itself.kind {
            arguments.insert(0, std::mem::replace(&mut itself, Val::plain(Kind::Null)));
        }
        if let (Kind::Null, Kind::Function(kind)) = (&itself.kind, &callable.kind) {
            let arguments = self.parameters(Target::Any(*kind), &arguments, names)?;
            return self.call_function(Target::Any(*kind), &callable, &arguments, start - 2);
        }
        let (Kind::Null, Kind::Constant(address)) = (&itself.kind, &callable.kind) else {
            return self.refuse("a call", &[&callable]);
        };
        let meaning = self.resolve.meaning(*address);
        let result = match (meaning, &arguments[..]) {
            (Meaning::Function, arguments) => {
                let target = Target::Known(*address);
                let arguments = self.parameters(target, arguments, names)?;
                return self.call_function(target, &callable, &arguments, start - 2);
            }
            (Meaning::Class, _) => {
                let init = self.resolve.init(*address)?;
                let (target, init) = (Target::Known(init), Val::plain(Kind::Constant(init)));
                let instance = Val::plain(Kind::Instance(*address)); // it has no word yet
                let all: Vec<Val> = std::iter::once(instance).chain(arguments).collect();
                let arguments = self.parameters(target, &all, names)?;
                return self.call_function(target, &init, &arguments, start - 2);
            }
            _ if !names.is_empty() => return Err("keywords for what is no Python function".into()),
            (Meaning::Range, arguments) if arguments.iter().any(|a| a.kind.is_float()) => {
                return Ok(self.leave()); // TypeError
            }
            (Meaning::Range, arguments) => self.range(arguments)?,
            (Meaning::Abs, [x]) => self.absolute(x)?,
            (Meaning::Min | Meaning::Max, [_, _, ..]) => {
                return self.extremes(&arguments, meaning == Meaning::Max);
            }
            (Meaning::Builtin(name), arguments) => {
                let sequence = match arguments {
                    [x] => self.builtin_of_sequence(name, *address, x)?,
                    _ => None,
                };
                match sequence {
                    Some(result) => result,
                    None => self.builtin(name, arguments)?,
                }
            }
            (Meaning::Min | Meaning::Max, [x]) => {
                let name = if meaning == Meaning::Max { "max" } else { "min" };
                let result = self.builtin_of_sequence(name, *address, x)?;
                result.ok_or("min or max of one argument")?
            }
            (Meaning::Iterator(name), arguments) => self.call_for_iterator(name, arguments)?,
            (Meaning::Container(name), arguments) => self.call_for_container(name, arguments)?,
            (Meaning::Int, []) => self.empty(INT),
            (Meaning::Float, []) => self.empty(FLOAT),
            (Meaning::Bool, []) => self.empty(Kind::Bool),
            (Meaning::Int, [x]) => self.int_of(x)?,
            (Meaning::Float, [x]) => self.float_of(x)?,
            (Meaning::Len, [x]) => self.length_of(x)?,
            (Meaning::IsInstance, [x, Val { kind: Kind::Constant(class), .. }]) => {
                let truth = self.resolve.is_instance(&x.kind, *class)?;
                Val::new(Kind::Bool, &[self.int(i64::from(truth))])
            }
            (Meaning::Bool, [x]) => {
                let truth = self.truth(x)?;
                if x.kind == Kind::None {
                    Val::new(Kind::Bool, &[truth])
                } else {
                    self.bool(truth)
                }
            }
            (Meaning::Math(name), arguments) => self.math(name, arguments)?,
            _ => return Err("a call of something that is not compiled".into()),
        };
        self.stack.push(result);
        Ok(Flow::Next)
    }

    /// Whether the callable below so many arguments is a Python function.
    pub(super) fn calls_function(&self, count: usize) -> bool {
        let place = self.stack.len().checked_sub(count + 2);
        let callable = place.and_then(|place| self.stack.get(place));
        callable.is_some_and(|callable| match callable.kind {
            Kind::Constant(address) => {
                matches!(self.resolve.meaning(address), Meaning::Function | Meaning::Class)
            }
            Kind::Function(_) => true,
            _ => false,
        })
    }

    fn absolute(&mut self, x: &Val) -> Result<Val> {
        let word =
            if x.kind.is_number() { Self::word(x)? } else { return self.refuse("abs", &[x]) };
        if x.kind.is_float() {
            return Ok(Val::new(FLOAT, &[self.b.ins().fabs(word)]));
        }
        let least = self.b.ins().icmp_imm(IntCC::Equal, word, i64::MIN);
        self.guard(least);
        let size = self.b.ins().iabs(word);
        let Some(object) = x.object() else { return Ok(Val::new(INT, &[size])) };
        // What is not negative is given back as it is.
        let (negative, none) = (self.below(word, 0), self.int(0));
        let object = self.b.ins().select(negative, none, object);
        Ok(Val::new(Kind::Int { object: true }, &[size, object]))
    }

    /// `min` or `max` of two numbers of one type: the first one unless the second one is beyond it.
    pub(super) fn extreme(&mut self, x: &Val, y: &Val, greatest: bool) -> Result<Val> {
        if !x.kind.is_like(&y.kind) || !x.kind.is_number() {
            return self.refuse("min or max", &[x, y]);
        }
        let (a, b) = (Self::word(x)?, Self::word(y)?);
        let second = match (x.kind.is_float(), greatest) {
            (true, true) => self.b.ins().fcmp(FloatCC::GreaterThan, b, a),
            (true, false) => self.b.ins().fcmp(FloatCC::LessThan, b, a),
            (false, true) => self.b.ins().icmp(IntCC::SignedGreaterThan, b, a),
            (false, false) => self.b.ins().icmp(IntCC::SignedLessThan, b, a),
        };
        let kind = if x.kind == y.kind { x.kind.clone() } else { x.kind.widest() };
        let (x, y) = (self.as_kind(&kind, x)?, self.as_kind(&kind, y)?);
        let mut result = Val::plain(kind);
        for (x, y) in x.into_iter().zip(y) {
            result.words.push(self.b.ins().select(second, y, x));
        }
        Ok(result)
    }

    fn int_of(&mut self, x: &Val) -> Result<Val> {
        match x.kind {
            Kind::Int { .. } => Ok(x.clone()),
            Kind::Bool => Ok(Val::new(INT, &x.words)),
            Kind::Float { .. } => {
                let number = Self::word(x)?;
                Ok(Val::new(INT, &[self.truncated(number)]))
            }
            _ => self.refuse("int", &[x]),
        }
    }

    fn float_of(&mut self, x: &Val) -> Result<Val> {
        match x.kind {
            Kind::Float { .. } => Ok(x.clone()),
            Kind::Int { .. } | Kind::Bool => Ok(Val::new(FLOAT, &[self.as_float(x)?])),
            _ => self.refuse("float", &[x]),
        }
    }

    /// What the parameters of a Python function get: arguments, or defaults.
    fn parameters(
        &mut self,
        target: Target,
        arguments: &[Val],
        names: &[usize],
    ) -> Result<Vec<Val>> {
        let positional = arguments.len() - names.len().min(arguments.len());
        let mut values = Vec::new();
        for passed in self.resolve.bind(target, positional, names)? {
            let value = match passed {
                Passed::Argument(index) => {
                    arguments.get(index).cloned().ok_or("internal: no such argument")?
                }
                Passed::Default(literal) => {
                    self.push_literal(&literal);
                    self.pop()?
                }
            };
            // Of a constant of its own a function knows more than of what it is given.
            let Kind::Constant(address) = value.kind else {
                values.push(value);
                continue;
            };
            let kind = self.resolve.callable(address).map_or(Kind::Object, Kind::Function);
            values.push(Val::new(kind, &[self.int(address as i64)]));
        }
        Ok(values)
    }

    /// A call of a compiled function, whose callable is at that place of the stack.
    fn call_function(
        &mut self,
        target: Target,
        function: &Val,
        arguments: &[Val],
        operand: usize,
    ) -> Result<Flow> {
        let (result, stores) = self.call_compiled(target, function, arguments, operand, None)?;
        self.stack.push(result);
        if stores {
            self.release_after_call();
        }
        Ok(Flow::Next)
    }

    /// What an instruction takes from the stack is secured if it is a call of a method of an instance.
    pub(super) fn before_special(&mut self, count: usize) {
        self.secure();
        self.taken = self.before_consuming(count);
    }

    /// An instruction that calls a method of the class of the object that is `depth` from the top: its result, and whether it may have
    /// stored something.
    pub(super) fn call_special(
        &mut self,
        name: Special,
        object: Val,
        arguments: &[Val],
        depth: usize,
    ) -> Result<(Val, bool)> {
        let Kind::Instance(class) = object.kind else { return self.refuse("an item", &[&object]) };
        let other = arguments.first().map(|argument| &argument.kind);
        let (address, takes_part) = self.resolve.special(class, name, other)?;
        let name = match name {
            Special::Binary { operator, in_place, .. } => {
                Special::Binary { operator, in_place, takes_part }
            }
            name => name,
        };
        let operand = self.before.1.len().checked_sub(depth).ok_or("internal: no operands")?;
        let target = Target::Known(address);
        let arguments: Vec<Val> =
            std::iter::once(object).chain(arguments.iter().cloned()).collect();
        let arguments =
            arguments.into_iter().map(|value| self.as_object(value)).collect::<Vec<_>>();
        let arguments = self.parameters(target, &arguments, &[])?;
        let function = Val::plain(Kind::Constant(address));
        self.call_compiled(target, &function, &arguments, operand, Some(name))
    }

    /// Makes the instance in the place of the first argument if a class is called. All that may leave before the call has been looked at.
    fn instance_for(&mut self, returns: &Kind, arguments: &mut [Val]) -> Result<Option<Val>> {
        let Some(first) = arguments.first_mut() else { return Ok(None) };
        let (Kind::Instance(class), true) = (&first.kind, first.words.is_empty()) else {
            return Ok(None);
        };
        if *returns != Kind::None {
            return Err(
                "a call of a class whose __init__ returns something, or is in progress".into()
            );
        }
        let address = self.int(*class as i64);
        let made = self.made(instantiate as *const () as usize, &[address]);
        *first = Val::new(first.kind.clone(), &[made]);
        Ok(Some(Val { owned: true, ..first.clone() }))
    }

    /// A call of a compiled function, without a frame. `special`: the instruction is no call, so no frame of the interpreter can wait there.
    fn call_compiled(
        &mut self,
        target: Target,
        function: &Val,
        arguments: &[Val],
        operand: usize,
        special: Option<Special>,
    ) -> Result<(Val, bool)> {
        if let Some(iterator) = arguments.iter().find(|argument| argument.kind.is_iterator()) {
            return self.refuse("a call", &[iterator]);
        }
        let kinds: Vec<Kind> = arguments.iter().map(|argument| argument.kind.clone()).collect();
        let mut believed = self.returns.clone();
        let callee = self.resolve.callee(target, &kinds, &mut believed);
        self.returns = believed;
        let callee = callee?;
        let is_operator = !matches!(special, None | Some(Special::GetItem | Special::SetItem));
        if is_operator && callee.calls_back {
            // The interpreter counts levels of C for it.
            return Err("recursion through an operator".into());
        }
        let in_expression = self.restart.is_some();
        if callee.stores_cells && in_expression {
            return Err("a call of a function that changes variables, for a generator".into());
        }
        if callee.stores && in_expression {
            return Err("a call of a function that changes containers, for a generator".into());
        }
        if special.is_none() && !callee.may_store {
            // If the callee may store something, the guard is behind the call (`release_after_call`).
            let taken = self.taken.clone();
            self.may_release(&taken);
        }
        self.repeats |= in_expression && callee.may_store;
        self.stores |= callee.stores;
        self.stores_cells |= callee.stores_cells;
        // Its own recursion: what it returns is believed until the end, and compared then.
        let returns = match callee.returns {
            Some(returns) => returns,
            None => self.returns.get_or_insert(INT).clone(),
        };
        if callee.recurs {
            self.poll(None);
        }
        // The generator has a frame too.
        let frames = if self.around.is_some() { 2 } else { 1 };
        let none_left = self.b.ins().icmp_imm(IntCC::SignedLessThan, self.depth, frames);
        self.leave_if(none_left, Cause::Depth);
        let count: usize = callee.parameters.iter().map(Kind::count).sum();
        if count + usize::from(callee.closure) > MOST_ARGUMENTS {
            return Err("a call with so many arguments".into());
        }
        let mut arguments = arguments.to_vec();
        let instance = self.instance_for(&returns, &mut arguments)?;
        let slot = if let Some(slot) = self.arguments {
            slot
        } else {
            let size = 8 * MOST_ARGUMENTS as u32;
            let slot = StackSlotData::new(StackSlotKind::ExplicitSlot, size, 3);
            *self.arguments.insert(self.b.create_sized_stack_slot(slot))
        };
        let depth = self.b.ins().iadd_imm(self.depth, -frames);
        let words = self.b.ins().stack_addr(I64, slot, 0);
        let mut passed = vec![self.context, depth, words];
        let mut place = 0;
        let function = match function.kind {
            Kind::Constant(address) => self.int(address as i64),
            _ => Self::word(function)?,
        };
        let function = Val::new(Kind::Object, &[function]);
        let behind = callee.closure.then_some((&Kind::Object, &function));
        for (kind, argument) in callee.parameters.iter().zip(&arguments).chain(behind) {
            for word in self.as_kind(kind, argument)? {
                if place >= context::IN_REGISTERS {
                    self.b.ins().stack_store(word, slot, 8 * place as i32);
                } else if self.b.func.dfg.value_type(word) == I64 {
                    passed.push(word);
                } else {
                    passed.push(self.b.ins().bitcast(I64, MemFlags::new(), word));
                }
                place += 1;
            }
        }
        while passed.len() < 3 + context::IN_REGISTERS {
            passed.push(depth); // not read
        }
        let table = self.int(callee.table as i64);
        let offset = std::mem::offset_of!(context::Table, address) as i32;
        let address = self.b.ins().load(I64, MemFlags::trusted(), table, offset);
        let signature = self.signature(super::signature(self.call_conv));
        let call = self.b.ins().call_indirect(signature, address, &passed);
        let &[object, value] = self.b.inst_results(call) else {
            return Err("internal: a call without results".into());
        };
        // The callee has exited, or its result does not fit: this frame exits too, with `instr_ptr` at the CALL.
        let repeats = self.source.repeats_calls || special.is_some() || instance.is_some();
        let ((locals, stack), beside) = if repeats {
            (self.before.clone(), instance.iter().cloned().collect())
        } else {
            ((self.locals.clone(), self.stack.clone()), self.taken.clone())
        };
        let left = if in_expression {
            self.exit_here(Cause::Repeat)
        } else {
            let exit = self.exit(locals, stack, Cause::Call, Some(function), beside);
            let stores = callee.stores || instance.is_some();
            let resumes = repeats && (stores || !self.source.repeats_calls);
            let pending = self.pending.last_mut().ok_or("internal: no exit")?;
            pending.resumes = resumes.then_some(operand);
            pending.instance =
                instance.clone().or(arguments.first().filter(|_| is_operator).cloned());
            pending.special = special;
            exit
        };
        let go_on = self.b.create_block();
        let has_left = self.b.ins().icmp_imm(IntCC::Equal, object, context::LEFT);
        self.b.ins().brif(has_left, left, &[], go_on, &[]);
        self.b.switch_to_block(go_on);
        // What it was read from may be released when its cell is stored.
        let object =
            if callee.uses_cells && self.source.cells_change { self.int(0) } else { object };
        if let Some(instance) = instance {
            return Ok((instance, callee.may_store));
        }
        let result = match returns {
            INT | FLOAT => {
                let float = returns == FLOAT;
                let number =
                    if float { self.b.ins().bitcast(F64, MemFlags::new(), value) } else { value };
                Val::new(returns.widest(), &[number, object])
            }
            Kind::Bool => Val::new(Kind::Bool, &[self.within(value, 0, 1)]),
            kind if kind.is_reference() => {
                let result = self.referred(value, &kind)?;
                Val { owned: true, ..result }
            }
            other => Val::plain(other),
        };
        Ok((result, callee.may_store))
    }
}
