//! One instruction.

use super::int::operator;
use super::own::consumed;
use super::{Flow, Lowering};
use crate::decode::Instruction;
use crate::kind::{Kind, Val, FLOAT, INT};
use crate::objects;
use crate::opcode as op;
use crate::opcode::Special;
use crate::resolve::{Literal, Result};
use crate::slot::Cause;
use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::types::I64;
use cranelift_codegen::ir::{InstBuilder, MemFlags, Value};

/// How deep tuples may be in each other, and how many words one may have: in a loop they grow with each turn.
const DEEPEST: usize = 5;
const MOST_WORDS: usize = 48;
/// The argument of CALL_INTRINSIC_1 for `+x`.
const UNARY_POSITIVE: u32 = 5;

impl Lowering<'_, '_> {
    /// Compiles an instruction. What is not compiled is an exit where an exception is about to be raised, and refused elsewhere.
    pub(super) fn step(&mut self, instruction: Instruction) -> Result<Flow> {
        let mark = self.mark();
        let count = match (instruction.opcode, self.stack.last()) {
            // The items of another one are references that it hands on.
            (op::UNPACK_SEQUENCE, Some(Val { kind: Kind::Tuple(_), .. })) => 0,
            // Instead of the slice, what it is made of.
            (op::STORE_SLICE, _) if self.restart.is_some() => 7,
            // They are looked at once it is known what is called.
            (op::CALL, _) if self.calls_function(instruction.argument as usize) => 0,
            (opcode, _) => consumed(opcode, instruction.argument),
        };
        if matches!(
            instruction.opcode,
            op::STORE_SUBSCR | op::STORE_ATTR | op::STORE_SLICE | op::DELETE_SUBSCR
        ) {
            self.before_storing_item(count);
        }
        self.taken = self.before_consuming(count);
        let result = self.compile(instruction);
        if let Ok(Flow::Next) = result {
            let taken = std::mem::take(&mut self.taken);
            self.after_consuming(&taken);
        }
        match result {
            Err(_) if self.code.raises_from(instruction.start) => {
                Ok(self.leave_instead(&mark, Cause::Guard))
            }
            Err(_) if self.may_end(instruction.start) => Ok(self.leave_instead(&mark, Cause::End)),
            Err(_) if self.is_rare => Ok(self.leave_instead(&mark, Cause::Guard)),
            result => result,
        }
    }

    fn compile(&mut self, instruction: Instruction) -> Result<Flow> {
        let argument = instruction.argument;
        let (first, second) = ((argument >> 4) as usize, (argument & 15) as usize);
        match instruction.opcode {
            op::RESUME | op::NOP => {}
            op::COPY_FREE_VARS => self.copy_cells(argument as usize)?,
            op::LOAD_FAST | op::LOAD_FAST_CHECK => return self.load(argument as usize),
            op::LOAD_FAST_LOAD_FAST => {
                self.bind(first)?;
                self.bind(second)?;
                self.load(first)?;
                return self.load(second);
            }
            op::LOAD_FAST_AND_CLEAR => {
                let value = self.set_local(argument as usize, Val::plain(Kind::Unbound))?;
                let unbound = value.kind == Kind::Unbound;
                self.stack.push(if unbound { Val::plain(Kind::Null) } else { value });
            }
            op::STORE_FAST => {
                self.before_replacing(&[argument as usize]);
                self.store(argument as usize)?;
            }
            op::STORE_FAST_STORE_FAST => {
                if first == second {
                    return Err("a variable that is assigned twice at once".into());
                }
                self.before_replacing(&[first, second]);
                self.store(first)?;
                self.store(second)?;
            }
            op::STORE_FAST_LOAD_FAST => {
                let unbound = |local: &Val| local.kind == Kind::Unbound;
                if first != second && self.locals.get(second).is_none_or(unbound) {
                    return Ok(self.leave()); // UnboundLocalError
                }
                self.before_replacing(&[first]);
                if first != second {
                    self.bind(second)?;
                }
                self.store(first)?;
                return self.load(second);
            }
            op::DELETE_FAST => {
                let index = argument as usize;
                if self.locals.get(index).is_none_or(|local| local.kind == Kind::Unbound) {
                    return Ok(self.leave());
                }
                self.bind(index)?;
                self.before_replacing(&[index]);
                self.replace_local(index, Val::plain(Kind::Unbound))?;
            }
            op::LOAD_CONST => {
                let literal = self.constant(argument)?;
                self.push_literal(&literal);
            }
            op::LOAD_GLOBAL => {
                let flow = self.load_global(argument >> 1)?;
                if argument & 1 != 0 {
                    self.push(Kind::Null, &[]);
                }
                return Ok(flow);
            }
            op::LOAD_NAME => return self.load_global(argument),
            op::STORE_NAME | op::STORE_GLOBAL => return self.store_global(argument),
            op::DELETE_NAME | op::DELETE_GLOBAL => return self.delete_global(argument),
            op::LOAD_DEREF => return self.load_cell(argument),
            op::STORE_DEREF => return self.store_cell(argument),
            op::RETURN_CONST if self.around.is_some() => return self.end_expression(),
            op::YIELD_VALUE => return self.yield_item(),
            op::MAKE_CELL => self.make_cell(argument as usize)?,
            op::RETURN_VALUE | op::RETURN_CONST if self.keeps_variables() => return Ok(self.end()),
            op::LOAD_ATTR => {
                let object = self.pop()?;
                let is_called = argument & 1 != 0;
                match object.kind {
                    Kind::List(_) => {
                        self.load_method(object, argument >> 1, is_called)?;
                        return Ok(Flow::Next);
                    }
                    Kind::Instance(_) => {
                        self.load_attribute(object, argument >> 1, is_called)?;
                        return Ok(Flow::Next);
                    }
                    _ => {}
                }
                let Kind::Constant(address) = object.kind else {
                    return self.refuse("an attribute", &[&object]);
                };
                let literal = self.resolve.attribute(address, argument >> 1)?;
                self.push_literal(&literal);
                if is_called {
                    self.push(Kind::Null, &[]);
                }
            }
            op::STORE_ATTR => self.store_attribute(argument)?,
            op::PUSH_NULL => self.push(Kind::Null, &[]),
            op::POP_TOP | op::END_FOR => drop(self.pop()?),
            op::COPY => {
                let place = self.place(argument)?;
                let value = self.stack.get(place).ok_or("internal: COPY")?.borrowed();
                self.stack.push(value);
            }
            op::SWAP => {
                let (place, top) = (self.place(argument)?, self.place(1)?);
                self.stack.swap(place, top);
            }
            op::BINARY_SUBSCR => return self.subscript(),
            op::STORE_SUBSCR => return self.store_subscript(),
            op::STORE_SLICE => return self.store_slice(),
            op::DELETE_SUBSCR => return self.delete_subscript(),
            op::CONTAINS_OP => return self.contains(argument != 0),
            op::BINARY_OP => {
                let in_place = argument >= operator::IN_PLACE;
                let operator = if in_place { argument - operator::IN_PLACE } else { argument };
                if self.takes_instance(2) {
                    return self.instance_operator(Special::Binary {
                        operator,
                        in_place,
                        takes_part: false,
                    });
                }
                let (y, x) = (self.pop()?, self.pop()?);
                let (x, y) = (self.as_object(x), self.as_object(y));
                let of_sequence =
                    |value: &Val| matches!(value.kind, Kind::List(_) | Kind::TupleObject(_));
                let result = if of_sequence(&x) || of_sequence(&y) {
                    self.list_binary(operator, in_place, &x, &y)?
                } else if x.kind.is_int() && y.kind.is_int() {
                    self.int_binary(operator, &x, &y)?
                } else if x.kind.is_number() && y.kind.is_number() {
                    match self.float_binary(operator, &x, &y)? {
                        Some(result) => result,
                        None => return Ok(self.leave()), // TypeError
                    }
                } else if Self::without_arithmetic(&x) && Self::without_arithmetic(&y) {
                    return Ok(self.leave()); // TypeError
                } else {
                    return self.refuse("arithmetic", &[&x, &y]);
                };
                self.stack.push(result);
            }
            op::COMPARE_OP if self.takes_instance(2) => {
                return self.instance_operator(Special::Comparison(argument >> 5));
            }
            op::COMPARE_OP => {
                let (y, x) = (self.pop()?, self.pop()?);
                let ordered = !matches!(argument >> 5, 2 | 3);
                if ordered
                    && (x.kind == Kind::None || y.kind == Kind::None)
                    && Self::without_arithmetic(&x)
                    && Self::without_arithmetic(&y)
                {
                    return Ok(self.leave()); // TypeError
                }
                let result = self.compare(argument >> 5, &x, &y)?;
                self.stack.push(result);
            }
            op::IS_OP => {
                let (y, x) = (self.pop()?, self.pop()?);
                let same = match (&x.kind, &y.kind) {
                    (Kind::None, Kind::None) => self.int(1),
                    (Kind::None, other) | (other, Kind::None) if *other != Kind::Object => {
                        self.int(0)
                    }
                    _ => {
                        let (a, b) = (self.identity(&x)?, self.identity(&y)?);
                        let same = self.b.ins().icmp(IntCC::Equal, a, b);
                        self.b.ins().uextend(I64, same)
                    }
                };
                let word = self.b.ins().bxor_imm(same, i64::from(argument));
                self.push(Kind::Bool, &[word]);
            }
            op::TO_BOOL => {
                let value = self.pop()?;
                if value.kind == Kind::Bool {
                    self.stack.push(value);
                    return Ok(Flow::Next);
                }
                let truth = self.truth(&value)?;
                let truth = self.as_bool(truth);
                self.stack.push(truth);
            }
            op::UNARY_NOT => {
                let value = self.pop()?;
                let truth = self.truth(&value)?;
                let inverse = self.b.ins().icmp_imm(IntCC::Equal, truth, 0);
                let result = self.bool(inverse);
                self.stack.push(result);
            }
            op::UNARY_NEGATIVE if self.takes_instance(1) => {
                return self.instance_operator(Special::Negative);
            }
            op::UNARY_NEGATIVE => {
                let value = self.pop()?;
                if value.kind == Kind::None {
                    return Ok(self.leave()); // TypeError
                }
                if !value.kind.is_number() {
                    return self.refuse("-", &[&value]);
                }
                let result = self.negative(&value)?;
                self.stack.push(result);
            }
            op::UNARY_INVERT => {
                let value = self.pop()?;
                if value.kind.is_float() || value.kind == Kind::None {
                    return Ok(self.leave()); // TypeError
                }
                let Kind::Int { .. } = value.kind else {
                    return self.refuse("~", &[&value]); // of a bool it warns
                };
                let word = Self::word(&value)?;
                let result = self.b.ins().bnot(word);
                self.push(INT, &[result]);
            }
            op::CALL_INTRINSIC_1 if argument == UNARY_POSITIVE => {
                let value = self.pop()?;
                let result = match value.kind {
                    Kind::Int { .. } | Kind::Float { .. } => value,
                    Kind::Bool => Val::new(INT, &value.words),
                    _ => return self.refuse("+", &[&value]),
                };
                self.stack.push(result);
            }
            op::BUILD_TUPLE => {
                let start = self.stack.len().checked_sub(argument as usize);
                if self.stack.iter().any(|value| value.kind.holds_objects()) {
                    self.secure();
                }
                let items = self.stack.split_off(start.ok_or("internal: BUILD_TUPLE")?);
                let kinds = items.iter().map(|item| item.kind.clone()).collect();
                let words = items.iter().flat_map(|item| item.words.iter().copied()).collect();
                let owned = items.iter().any(|item| item.kind.holds_objects());
                let kind = Kind::Tuple(kinds);
                if kind.depth() > DEEPEST || kind.count() > MOST_WORDS {
                    return Err("tuples in each other".into());
                }
                self.stack.push(Val { kind, words, owned });
            }
            op::BUILD_LIST => self.build_list(argument as usize)?,
            op::LIST_APPEND => self.list_append(argument)?,
            op::LIST_EXTEND => self.list_extend(argument)?,
            op::BINARY_SLICE => return self.slice(),
            op::BUILD_SLICE => return self.slice_with_step(instruction),
            op::UNPACK_SEQUENCE => return self.unpack(argument as usize),
            op::GET_ITER => {
                let value = self.pop()?;
                let value = match value.kind {
                    Kind::Tuple(_) => {
                        let object = self.boxed(value.borrowed())?;
                        self.exchanged(&value, object)
                    }
                    _ => self.as_object(value),
                };
                let iterator = self.iterator_of(&value)?;
                self.stack.push(iterator);
            }
            op::FOR_ITER => return self.for_iter(instruction),
            op::CALL => return self.call(argument as usize, &[]),
            op::CALL_KW => {
                let names = self.pop()?;
                let names = self.items_of(&names).ok_or("keywords that are no constant")?;
                let names: Vec<usize> = names.iter().map(|name| name.address).collect();
                return self.call(argument as usize, &names);
            }
            op::JUMP_BACKWARD => {
                let left = self.counted_turns(instruction)?;
                self.poll(left);
                return self.jump(instruction);
            }
            op::JUMP_FORWARD | op::JUMP_BACKWARD_NO_INTERRUPT => return self.jump(instruction),
            op::POP_JUMP_IF_TRUE | op::POP_JUMP_IF_FALSE => {
                let value = self.pop()?;
                let known = value.words.first().filter(|_| value.kind == Kind::Bool);
                if let Some(truth) = known.and_then(|word| self.known(*word)) {
                    // What is not reached may be of other types.
                    return match (truth != 0) == (instruction.opcode == op::POP_JUMP_IF_TRUE) {
                        true => self.jump(instruction),
                        false => Ok(Flow::Next),
                    };
                }
                let truth = self.truth(&value)?;
                return self.branch(instruction, truth, op::POP_JUMP_IF_TRUE);
            }
            op::POP_JUMP_IF_NONE | op::POP_JUMP_IF_NOT_NONE => {
                let value = self.pop()?;
                let taken = std::mem::take(&mut self.taken);
                self.after_consuming(&taken);
                if value.kind == Kind::Object {
                    let (object, none) = (Self::word(&value)?, objects::none() as i64);
                    let is_none = self.b.ins().icmp_imm(IntCC::Equal, object, none);
                    return self.branch(instruction, is_none, op::POP_JUMP_IF_NONE);
                }
                let is_none = value.kind == Kind::None;
                if is_none == (instruction.opcode == op::POP_JUMP_IF_NONE) {
                    return self.jump(instruction);
                }
            }
            op::RETURN_VALUE | op::RETURN_CONST => {
                if instruction.opcode == op::RETURN_CONST {
                    let literal = self.constant(argument)?;
                    self.push_literal(&literal);
                }
                self.before_returning();
                let value = self.pop()?;
                let object = self.boxed(value.borrowed()).unwrap_or_else(|_| value.clone());
                let object =
                    if object.kind == value.kind { value } else { self.exchanged(&value, object) };
                self.release_locals();
                return self.return_value(object);
            }
            other => {
                return Err(match op::name(other) {
                    Some(name) => format!("{name} {argument} is not compiled"),
                    None => format!("instruction {other} is not compiled"),
                });
            }
        }
        Ok(Flow::Next)
    }

    /// A number or None: no method of a program is called for it.
    fn without_arithmetic(value: &Val) -> bool {
        value.kind.is_number() || value.kind == Kind::None
    }

    fn as_bool(&mut self, truth: Value) -> Val {
        if self.b.func.dfg.value_type(truth) == I64 {
            return Val::new(Kind::Bool, &[truth]);
        }
        self.bool(truth)
    }

    /// Where the item is that is `depth` from the top, 1 being the top.
    pub(super) fn place(&self, depth: u32) -> Result<usize> {
        self.stack
            .len()
            .checked_sub(depth as usize)
            .ok_or_else(|| "internal: the stack is short".into())
    }

    fn constant(&self, index: u32) -> Result<Literal> {
        let literal = self.constants.get(index as usize);
        literal.cloned().ok_or_else(|| "internal: no such constant".into())
    }

    pub(super) fn push_literal(&mut self, literal: &Literal) {
        let object = literal.address as i64;
        match literal.kind {
            Kind::Int { object: true } => {
                let words = [self.int(literal.bits), self.int(object)];
                self.push(literal.kind.clone(), &words);
            }
            Kind::Int { object: false } | Kind::Bool => {
                let word = self.int(literal.bits);
                self.push(literal.kind.clone(), &[word]);
            }
            Kind::Float { .. } => {
                let number = self.b.ins().f64const(f64::from_bits(literal.bits as u64));
                let object = self.int(object);
                self.push(Kind::Float { object: true }, &[number, object]);
            }
            // A global.
            Kind::TupleObject(_) => {
                let object = self.int(object);
                self.push(literal.kind.clone(), &[object]);
            }
            _ => self.push(literal.kind.clone(), &[]),
        }
    }

    /// Puts a value into a local, and returns what was there.
    pub(super) fn set_local(&mut self, index: usize, value: Val) -> Result<Val> {
        let local = self.locals.get_mut(index).ok_or("internal: no such local")?;
        Ok(std::mem::replace(local, value))
    }

    /// Leaves if a variable that may be unbound is.
    fn bind(&mut self, index: usize) -> Result<()> {
        let local = self.locals.get(index).cloned().ok_or("internal: no such local")?;
        let Kind::Maybe(kind) = local.kind else { return Ok(()) };
        let (bound, words) = local.words.split_first().ok_or("internal: no words")?;
        let unbound = self.b.ins().icmp_imm(IntCC::Equal, *bound, 0);
        self.guard(unbound); // UnboundLocalError
        self.set_local(index, Val::new(*kind, words))?;
        Ok(())
    }

    pub(super) fn load(&mut self, index: usize) -> Result<Flow> {
        if matches!(self.locals.get(index), Some(Val { kind: Kind::InCell(_), .. })) {
            return Err("a cell".into());
        }
        self.bind(index)?;
        let value = self.locals.get(index).cloned().ok_or("internal: no such local")?;
        if value.kind == Kind::Unbound {
            return Ok(self.leave()); // UnboundLocalError
        }
        self.stack.push(value.borrowed());
        Ok(Flow::Next)
    }

    pub(super) fn store(&mut self, index: usize) -> Result<()> {
        let mut value = self.pop()?;
        if value.kind == Kind::Null {
            value.kind = Kind::Unbound; // what LOAD_FAST_AND_CLEAR has found
        }
        self.replace_local(index, value)
    }

    fn jump(&mut self, instruction: Instruction) -> Result<Flow> {
        let target = instruction.target().ok_or("internal: a jump to nowhere")?;
        let block = self.edge(target);
        self.b.ins().jump(block, &[]);
        Ok(Flow::End)
    }

    /// The word by which an object that is no number is known.
    fn identity(&mut self, value: &Val) -> Result<Value> {
        match &value.kind {
            Kind::None => Ok(self.int(objects::none() as i64)),
            kind if kind.is_counted() => Self::word(value),
            _ => self.refuse("identity", &[value]),
        }
    }

    /// Jumps if a condition holds, or, with another instruction than `when`, if it does not.
    fn branch(&mut self, instruction: Instruction, truth: Value, when: u8) -> Result<Flow> {
        let target = instruction.target().ok_or("internal: a jump to nowhere")?;
        let block = self.edge(target);
        let go_on = self.b.create_block();
        if instruction.opcode == when {
            self.b.ins().brif(truth, block, &[], go_on, &[]);
        } else {
            self.b.ins().brif(truth, go_on, &[], block, &[]);
        }
        self.b.switch_to_block(go_on);
        Ok(Flow::Next)
    }

    /// Returns. The kind that the function returns first is returned in a machine word; others as an exit of their own.
    fn return_value(&mut self, value: Val) -> Result<Flow> {
        let plain = match value.kind {
            Kind::Int { .. } => INT,
            Kind::Float { .. } => FLOAT,
            Kind::Bool => Kind::Bool,
            Kind::None => Kind::None,
            ref kind if kind.is_reference() => kind.clone(),
            _ => return Ok(self.return_as_exit(value)),
        };
        let seen = self.seen.get_or_insert_with(|| plain.clone());
        if (&*seen, &plain) == (&INT, &FLOAT) {
            *seen = FLOAT; // a sum that starts with 0 is one as soon as something is added
        }
        if !self.returns.get_or_insert_with(|| plain.clone()).is_like(&plain) {
            return Ok(self.return_as_exit(value));
        }
        self.matched = true;
        let object = value.object();
        let object = object.unwrap_or_else(|| self.b.ins().iconst(I64, 0));
        let word = match plain {
            Kind::None => self.int(0),
            FLOAT => {
                let number = Self::word(&value)?;
                self.b.ins().bitcast(I64, MemFlags::new(), number)
            }
            _ => Self::word(&value)?,
        };
        self.b.ins().return_(&[object, word]);
        Ok(Flow::End)
    }

    fn return_as_exit(&mut self, value: Val) -> Flow {
        let block = self.exit(Vec::new(), vec![value], Cause::Return, None, Vec::new());
        self.b.ins().jump(block, &[]);
        Flow::End
    }
}
