//! Reading code objects and functions through PyO3: what can be compiled at all, constants, kinds of arguments.

use crate::closure::free_variables;
use crate::decode::{Code, Instruction, Region};
use crate::kind::Kind;
use crate::opcode as op;
use crate::parts;
use crate::python::{int_value, CodeObject};
use crate::resolve::Literal;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyCode, PyFloat, PyFrozenSet, PyInt, PyString, PyTuple};

/// How deep tuples in constants are looked into.
const DEEPEST: u32 = 3;
const OPTIMIZED_WITH_NEW_LOCALS: i32 = 0x3;
/// `*args`, `**kwargs`, generators and coroutines of all kinds.
const NOT_PLAIN: i32 = 0x4 | 0x8 | SUSPENDS;
/// Generators and coroutines.
const GENERATOR: i32 = 0x20;
const SUSPENDS: i32 = 0x20 | 0x80 | 0x100 | 0x200;

/// What of a code object decides whether it is compiled.
pub struct Shape {
    /// The parameters, those that are keyword-only among them.
    pub arguments: usize,
    /// With the cells of enclosing functions' variables.
    pub locals: usize,
    pub free: usize,
}

/// A plain function's shape, or why it is not one.
pub fn shape(code: &Bound<'_, PyCode>) -> Result<Shape, String> {
    let raw = code.as_ptr().cast::<CodeObject>();
    // SAFETY: a code object, whose fields never change; *layouts*.
    let (flags, arguments, keyword_only, locals, free) = unsafe {
        let raw = &*raw;
        (raw.flags, raw.argument_count, raw.keyword_only, raw.locals_plus, raw.free)
    };
    if flags & OPTIMIZED_WITH_NEW_LOCALS != OPTIMIZED_WITH_NEW_LOCALS {
        return Err("not the code of a function".into());
    }
    if flags & NOT_PLAIN != 0 {
        return Err("a generator, a coroutine, or a function with *args or **kwargs".into());
    }
    let number = |n: i32| usize::try_from(n).map_err(|_| "a negative count".to_string());
    let arguments = number(arguments)? + number(keyword_only)?;
    Ok(Shape { arguments, locals: number(locals)?, free: number(free)? })
}

/// How many slots frames have for variables and cells.
pub fn slots(code: &Bound<'_, PyCode>) -> usize {
    // SAFETY: a code object, whose fields never change; *layouts*.
    unsafe { (*code.as_ptr().cast::<CodeObject>()).locals_plus }.try_into().unwrap_or(0)
}

/// The instructions, without what is specialized or instrumented.
fn decode_alone(code: &Bound<'_, PyCode>) -> PyResult<Code> {
    let bytes = parts::bytes_of(code)?;
    Ok(Code::decode(bytes.as_bytes()))
}

/// What is seen of instructions without decoding them: flags.
#[derive(Clone, Copy, Default)]
pub struct Glance(u8);

impl Glance {
    const CACHES: u8 = 0xf;
    const JUMPS_BACK: u8 = 0x10;
    const MAKES_FUNCTIONS: u8 = 0x20;
    const CALLS: u8 = 0x40;
    const UNKNOWN: u8 = 0x80;

    /// The flags of each opcode, and its number of caches.
    const OF: [u8; 256] = {
        let (mut all, mut opcode) = ([Self::UNKNOWN; 256], 0);
        while opcode < all.len() {
            if let Some(general) = op::general(opcode as u8) {
                let flag = match general {
                    op::JUMP_BACKWARD => Self::JUMPS_BACK,
                    op::MAKE_FUNCTION => Self::MAKES_FUNCTIONS,
                    op::CALL | op::CALL_KW => Self::CALLS,
                    _ => 0,
                };
                all[opcode] = flag | op::units_of_caches(general) as u8;
            }
            opcode += 1;
        }
        all
    };

    /// Nothing is copied, unless a tool has changed instructions.
    pub fn at(code: &Bound<'_, PyCode>) -> PyResult<Self> {
        let raw = code.as_ptr().cast::<CodeObject>();
        // SAFETY: a code object; *layouts*. So many bytes follow, which only attached threads change; nothing runs meanwhile.
        let own = unsafe {
            let first = std::ptr::addr_of!((*raw).instructions).cast::<u8>();
            std::slice::from_raw_parts(first, 2 * (*raw).size as usize)
        };
        let found = Self::of(own);
        if found.0 & Self::UNKNOWN == 0 {
            return Ok(found);
        }
        Ok(Self::of(parts::bytes_of(code)?.as_bytes()))
    }

    fn of(bytes: &[u8]) -> Self {
        let (mut found, mut at) = (0, 0);
        while let Some(opcode) = bytes.get(at) {
            let one = Self::OF[*opcode as usize];
            found |= one & !Self::CACHES;
            at += 2 + 2 * usize::from(one & Self::CACHES);
        }
        Self(found)
    }

    /// There is a loop.
    pub fn jumps_back(self) -> bool {
        self.0 & Self::JUMPS_BACK != 0
    }

    /// There may be a generator expression.
    pub fn makes_functions(self) -> bool {
        self.0 & Self::MAKES_FUNCTIONS != 0
    }

    pub fn calls(self) -> bool {
        self.0 & Self::CALLS != 0
    }
}

/// The instructions with the generator expressions that are compiled.
pub fn decode(code: &Bound<'_, PyCode>) -> PyResult<Code> {
    let mut decoded = decode_alone(code)?;
    let mut found = decoded.find_expressions();
    let constants = parts::constants_of(code);
    found.retain(|expression| {
        let constant = constants.get_item(expression.constant).ok();
        let inner = constant.and_then(|constant| constant.cast_into_exact::<PyCode>().ok());
        inner.is_some_and(|inner| start_of_generator(&inner).ok().flatten().is_some())
    });
    decoded.expressions = found;
    Ok(decoded)
}

/// The code of a generator expression.
pub struct Inner {
    /// Of the code object.
    pub address: usize,
    pub code: Code,
    pub constants: Vec<Literal>,
    /// The head of its outermost loop, whose iterator is on the stack.
    pub start: u32,
    /// With its cells, of which this is the first.
    pub slots: usize,
    pub first_free: usize,
}

/// The code objects of code's generator expressions, in order.
pub fn code_of_expressions<'py>(
    code: &Bound<'py, PyCode>,
    decoded: &Code,
) -> PyResult<Vec<Bound<'py, PyCode>>> {
    let constants = parts::constants_of(code);
    let one = |constant| Ok(constants.get_item(constant)?.cast_into_exact::<PyCode>()?);
    decoded.expressions.iter().map(|expression| one(expression.constant)).collect()
}

/// Those of code, in order.
pub fn expressions(code: &Bound<'_, PyCode>, decoded: &Code) -> PyResult<Vec<Inner>> {
    let mut all = Vec::new();
    for object in code_of_expressions(code, decoded)? {
        let Some((code, start)) = start_of_generator(&object)? else { continue };
        let (address, slots) = (object.as_ptr() as usize, slots(&object));
        // SAFETY: a code object.
        let (_, first_free) = unsafe { free_variables(object.as_ptr()) };
        let constants = literals(&object);
        all.push(Inner { address, code, constants, start, slots, first_free });
    }
    Ok(all)
}

/// Whether functions with this code are generators or coroutines.
pub fn suspends(code: &Bound<'_, PyCode>) -> bool {
    // SAFETY: a code object, whose fields never change; *layouts*.
    let flags = unsafe { (*code.as_ptr().cast::<CodeObject>()).flags };
    flags & SUSPENDS != 0
}

/// Whether functions with this code are generators, as those of generator expressions are.
pub fn is_generator(code: &Bound<'_, PyCode>) -> bool {
    // SAFETY: a code object, whose fields never change; *layouts*.
    let flags = unsafe { (*code.as_ptr().cast::<CodeObject>()).flags };
    flags & GENERATOR != 0
}

/// The instructions of a generator of one argument, its iterator, over which it loops, and the head of that loop; `None`: it is not
/// compiled as a part of another function.
fn start_of_generator(code: &Bound<'_, PyCode>) -> PyResult<Option<(Code, u32)>> {
    let raw = code.as_ptr().cast::<CodeObject>();
    // SAFETY: a code object, whose fields never change; *layouts*.
    let (flags, arguments, keyword_only, cells) =
        unsafe { ((*raw).flags, (*raw).argument_count, (*raw).keyword_only, (*raw).cells) };
    if flags & (SUSPENDS | NOT_PLAIN) != GENERATOR || arguments != 1 || keyword_only + cells != 0 {
        return Ok(None);
    }
    let decoded = decode_alone(code)?;
    let mut begin = decoded.instructions().skip_while(|i| i.opcode != op::RETURN_GENERATOR).skip(1);
    let opcodes = [op::POP_TOP, op::RESUME, op::LOAD_FAST];
    let is = |i: Option<Instruction>, opcode| i.is_some_and(|i| i.opcode == opcode);
    if !opcodes.into_iter().all(|opcode| is(begin.next(), opcode)) {
        return Ok(None);
    }
    let head = begin.find(|i| i.opcode != op::GET_ITER).filter(|i| i.opcode == op::FOR_ITER);
    drop(begin);
    let Some(head) = head else { return Ok(None) };
    let (mut seen, mut work) = (decoded.no_units(), vec![head.start]);
    while let Some(unit) = work.pop() {
        let Some(instruction) = decoded.at(unit).filter(Instruction::is_of_generator) else {
            return Ok(None);
        };
        if seen.insert(unit) {
            work.extend(instruction.successors());
        }
    }
    Ok(Some((decoded, head.start)))
}

/// Why a function is not compiled as a whole, and the code unit because of which, if it is one.
pub fn refusal(object: &Bound<'_, PyCode>, code: &Code) -> Option<(Option<u32>, String)> {
    if let Err(why) = shape(object) {
        return Some((None, why));
    }
    let stores = |i: &Instruction| matches!(i.opcode, op::STORE_GLOBAL | op::DELETE_GLOBAL);
    if let Some(store) = code.instructions().find(stores) {
        return Some((Some(store.start), "it assigns globals".into()));
    }
    let all = Region { start: 0, end: u32::MAX };
    unsupported(code, all, false).map(|(unit, why)| (Some(unit), why))
}

/// Whether a loop can take turns of which all instructions are compiled.
pub fn supported_within(code: &Code, region: Region) -> bool {
    unsupported(code, region, true).is_none()
}

/// Whether there is such a loop, in code whose frames compiled code can enter.
pub fn has_loop(object: &Bound<'_, PyCode>, code: &Code) -> bool {
    !suspends(object) && code.loops().any(|region| supported_within(code, region))
}

/// Whether an instruction is compiled where it is.
fn is_compiled(code: &Code, instruction: Instruction) -> bool {
    let Instruction { opcode, start, .. } = instruction;
    match opcode {
        op::RETURN_GENERATOR | op::YIELD_VALUE => false,
        op::BUILD_SLICE => code.takes_slice(instruction).is_some(),
        op::MAKE_FUNCTION | op::SET_FUNCTION_ATTRIBUTE => code
            .expressions
            .iter()
            .any(|expression| (expression.start..expression.made).contains(&start)),
        opcode => op::caches(opcode).is_some(),
    }
}

/// An instruction of a region that is reached without an exception and is not compiled. In a loop, one of each turn.
fn unsupported(code: &Code, region: Region, is_loop: bool) -> Option<(u32, String)> {
    let (mut seen, mut work) = (code.no_units(), vec![region.start]);
    while let Some(unit) = work.pop() {
        if !region.contains(unit) {
            continue;
        }
        let Some(instruction) = code.at(unit) else {
            return Some((unit, "code that is not understood".into()));
        };
        if !seen.insert(unit) {
            continue;
        }
        if !is_compiled(code, instruction) {
            if code.raises_from(unit) || is_loop && code.can_turn_without(region, unit) {
                continue;
            }
            return Some((unit, format!("instruction {} is not compiled", instruction.opcode)));
        }
        work.extend(instruction.successors());
    }
    None
}

/// A constant of code: numbers as such, other objects by their address.
pub fn literal(object: &Bound<'_, PyAny>) -> Literal {
    literal_within(object, DEEPEST)
}

/// The items of tuples in tuples are read to a depth.
fn literal_within(object: &Bound<'_, PyAny>, depth: u32) -> Literal {
    let address = object.as_ptr() as usize;
    let literal = |kind, bits| Literal { bits, ..Literal::object(kind, address) };
    if let Ok(value) = object.cast_exact::<PyBool>() {
        return literal(Kind::Bool, i64::from(value.is_true()));
    }
    if object.cast_exact::<PyInt>().is_ok() {
        // SAFETY: attached, and an exact int.
        if let Some(value) = unsafe { int_value(object.as_ptr()) } {
            // Of these there is one object each.
            let small = (-5..=256).contains(&value);
            return literal(Kind::Int { object: !small }, value);
        }
    }
    if let Ok(value) = object.cast_exact::<PyFloat>() {
        return literal(Kind::Float { object: true }, value.value().to_bits() as i64);
    }
    let tuple = object.cast_exact::<PyTuple>().ok().filter(|_| depth > 0);
    if let Some(tuple) = tuple {
        let inner = |item: Bound<'_, PyAny>| literal_within(&item, depth - 1);
        let items = Some(tuple.iter().map(inner).collect());
        let members = members(tuple.iter());
        return Literal { items, members, ..literal(Kind::Constant(address), 0) };
    }
    if let Ok(set) = object.cast_exact::<PyFrozenSet>() {
        return Literal { members: members(set.iter()), ..literal(Kind::Constant(address), 0) };
    }
    literal(if object.is_none() { Kind::None } else { Kind::Constant(address) }, 0)
}

/// Of the items of a constant, those that can equal a number or None; `None`: that is not known of all of them.
fn members<'py>(items: impl Iterator<Item = Bound<'py, PyAny>>) -> Option<Vec<Literal>> {
    let mut members = Vec::new();
    for item in items.filter(|item| item.cast_exact::<PyString>().is_err()) {
        let literal = literal_within(&item, 0);
        let nan = literal.kind.is_float() && f64::from_bits(literal.bits as u64).is_nan();
        if nan || !(literal.kind.is_number() || literal.kind == Kind::None) {
            return None;
        }
        members.push(literal);
    }
    Some(members)
}

/// All constants of a code object, which keeps them alive.
pub fn literals(code: &Bound<'_, PyCode>) -> Vec<Literal> {
    parts::constants_of(code).iter().map(|constant| literal(&constant)).collect()
}

/// The kind of a parameter that gets this object.
pub fn kind_of(object: &Bound<'_, PyAny>) -> Kind {
    if let Some(container) = crate::containers::kind_of(object) {
        return container;
    }
    // SAFETY: attached, as the binding says; no exception is set while code is compiled.
    if let Some(buffer) = unsafe { crate::buffers::kind_of(object.as_ptr()) } {
        return buffer;
    }
    match literal(object).kind {
        Kind::Constant(_) => {
            let function = crate::closure::kind_of(object);
            function.or_else(|| crate::containers::kind_of_method(object)).unwrap_or(Kind::Object)
        }
        kind => kind.widest(),
    }
}
