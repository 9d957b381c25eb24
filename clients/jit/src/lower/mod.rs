//! From bytecode to Cranelift's IR: each block once for each combination of kinds that reaches it.
//!
//! *No foreign code*: what is compiled runs no code of the program and does not let go of the GIL. It computes, changes items of
//! containers, or leaves at the start of an instruction. So what held at the entry (globals, callees, tools) holds until it is left,
//! and so does the type of an object.

mod around;
mod array;
mod buffer;
mod build;
mod builtins;
mod calls;
mod cells;
mod compare;
mod container;
mod edges;
mod expression;
mod float;
mod instance;
mod int;
mod iterators;
mod joins;
mod list;
mod math;
mod operators;
mod outside;
mod own;
mod ranges;
mod sequence;
mod step;
mod store;
mod tuple;
mod undo;

use crate::bounds::{no_facts, Fact, Facts};
use crate::code::Inner;
use crate::context::{self, Table};
use crate::decode::{Code, Instruction, Region};
use crate::interval::Interval;
use crate::kind::{Kind, Val, FLOAT, INT};
use crate::opcode as op;
use crate::opcode::Special;
use crate::outer::Outside;
use crate::resolve::{Literal, Resolve, Result};
use crate::slot::{Cause, Exit, Slot};
use around::{Around, Restart};
use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::types::{I64, I8};
use cranelift_codegen::ir::{
    AbiParam, AliasRegion, Block, InstBuilder, InstructionData, MemFlags, Opcode, SigRef,
    Signature, StackSlot, Value,
};
use cranelift_codegen::isa::CallConv;
use cranelift_frontend::FunctionBuilder;
use joins::{Joins, Turn};
use smallvec::SmallVec;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

/// What compiled code loads from and stores to the context, and what it polls.
fn in_context() -> MemFlags {
    MemFlags::trusted().with_alias_region(Some(AliasRegion::Vmctx))
}

/// Cranelift merges loads of a region between calls, over the turns of a loop too. What it merges takes a register for longer, so that is
/// for functions with a loop that gains by it.
fn in_region(region: AliasRegion, is_used: bool) -> MemFlags {
    MemFlags::trusted().with_alias_region(is_used.then_some(region))
}

/// Loops and calls poll once in so many: a few microseconds, for what lies between has neither.
const POLLED_TURNS: i64 = 1 << 8;
/// Why a function is refused in which something is of too many types.
pub const TOO_MANY_VERSIONS: &str = "too many combinations of types";
/// The most words of the arguments of a call.
pub const MOST_ARGUMENTS: usize = 16;

/// What is to be compiled.
pub struct Source<'a> {
    pub code: &'a Code,
    /// Where it starts, and what its locals and its stack are there.
    pub start: u32,
    pub locals: &'a [Kind],
    pub stack: &'a [Kind],
    /// See `Start`.
    pub natural: &'a [usize],
    /// A call that is left is made once more by the interpreter, or, if the function may have stored something, continued.
    pub repeats_calls: bool,
    pub constants: &'a [Literal],
    pub table: &'a Table,
    /// What its own calls of itself are believed to return.
    pub returns: Option<Kind>,
    /// What may be `None` or something else is compiled for both, where there is room.
    pub splits: bool,
    /// What is put into the empty lists that are made, by the code unit, as far as it is known.
    pub expected: &'a BTreeMap<u32, Kind>,
    /// Containers at the start are owned already: those of a frame, from whose slots they were taken.
    pub takes_over: bool,
    pub outside: &'a Outside,
    /// The code of its generator expressions, as many as `code` has.
    pub inner: &'a [Inner],
    /// What these have outside of their frames.
    pub nothing: &'a Outside,
    /// The function is passed behind the arguments.
    pub closure: bool,
    /// Cells are stored while it runs, so no object that one contained is kept.
    pub cells_change: bool,
}

/// What has become of it, beside the IR.
pub struct Lowered {
    pub exits: Vec<Exit>,
    /// What it returns in a machine word.
    pub returns: Option<Kind>,
    /// What it should have been, if it was believed to return something that it never does.
    pub other: Option<Kind>,
    pub blocks: usize,
    /// It changes objects that others may refer to.
    pub stores: bool,
    pub stores_cells: bool,
    /// A generator expression calls what may store something, but is believed not to.
    pub repeats: bool,
    /// What is put into the empty lists that it makes, by the code unit.
    pub learned: BTreeMap<u32, Kind>,
    pub facts: Facts,
    /// There are loops whose first turn was compiled apart.
    pub has_peeled: bool,
}

/// An exit whose code is still to be emitted.
struct Pending {
    block: Block,
    instruction: Instruction,
    locals: Vec<Val>,
    stack: Vec<Val>,
    cause: Cause,
    callee: Option<Val>,
    /// What it owns beside the slots.
    beside: Vec<Val>,
    resumes: Option<usize>,
    instance: Option<Val>,
    special: Option<Special>,
}

enum Flow {
    Next,
    End,
}

pub struct Lowering<'a, 'f> {
    b: FunctionBuilder<'f>,
    source: &'a Source<'a>,
    /// Those of the source, or of a generator expression.
    code: &'a Code,
    constants: &'a [Literal],
    outside: &'a Outside,
    around: Option<Box<Around<'a>>>,
    /// Where the interpreter starts again if what is being compiled is a part of such an expression.
    restart: Option<Restart>,
    resolve: &'a mut dyn Resolve,
    call_conv: CallConv,
    context: Value,
    /// How many further calls may be in each other.
    depth: Value,
    /// The function, if it has variables of enclosing ones.
    function: Value,
    arguments: Option<StackSlot>,
    scratch: Option<StackSlot>,
    /// For items that are put into a list.
    items: Option<StackSlot>,
    /// For containers that are released together.
    released: Option<StackSlot>,
    /// Where empty lists were made, by their word.
    origins: HashMap<Value, u32>,
    learned: BTreeMap<u32, Kind>,
    signatures: HashMap<Signature, SigRef>,
    facts: Facts,

    locals: Vec<Val>,
    stack: Vec<Val>,
    /// The instruction being compiled, and both as they were before it.
    instruction: Instruction,
    before: (Vec<Val>, Vec<Val>),
    exits_here: Vec<(Cause, Block)>,
    /// What it consumes, and releases at its end.
    taken: Vec<Val>,
    stores: bool,
    stores_cells: bool,
    repeats: bool,

    targets: HashSet<u32>,
    /// The heads of loops with other loops in them. To know more in further versions of them costs more than it gains.
    outer_loops: HashSet<u32>,
    /// Loops whose first turn is compiled apart, and whether they are in other ones.
    peeled: Vec<(Region, bool)>,
    /// For loads of the items of lists, which only helpers change.
    of_items: MemFlags,
    /// For loads of what else only helpers change: types, sizes, and where items are.
    unchanged: MemFlags,
    /// Items are stored, so what is computed is used in blocks that do not dominate each other.
    stores_items: bool,
    /// Which turn of a loop in `peeled` is being compiled.
    turn: Option<Turn>,
    /// Reached only where an attribute was `None`: what is not compiled there is left to the interpreter.
    is_rare: bool,
    /// By code unit: how many versions of the instruction go on in two ways.
    splits: HashMap<u32, u32>,
    /// By code unit: the attribute that is loaded, if it was not seen as `None` and as something else.
    of_one_kind: HashMap<u32, i32>,
    joins: Joins,
    blocks: usize,
    pending: Vec<Pending>,
    returns: Option<Kind>,
    /// The first kind that is returned, or float rather than int, and whether `returns` ever is.
    seen: Option<Kind>,
    matched: bool,
}

/// The type of compiled functions.
pub fn signature(call_conv: CallConv) -> Signature {
    let mut signature = Signature::new(call_conv);
    signature.params.extend([AbiParam::new(I64); 3 + context::IN_REGISTERS]);
    signature.returns.extend([AbiParam::new(I64); 2]);
    signature
}

/// Makes the first values equal to the second ones. Most of them are already, and a copy takes memory.
fn refresh(values: &mut Vec<Val>, others: &[Val]) {
    values.truncate(others.len());
    for (value, other) in values.iter_mut().zip(others) {
        if value != other {
            value.clone_from(other);
        }
    }
    values.extend_from_slice(&others[values.len()..]);
}

/// The code units that are jumped to, and the heads of loops with other loops in them.
fn targets(code: &Code) -> (HashSet<u32>, HashSet<u32>) {
    let has_loop =
        |outer: &Region| code.loops().any(|l| l.start != outer.start && outer.contains(l.start));
    let outer_loops = code.loops().filter(has_loop).map(|outer| outer.start).collect();
    (code.instructions().filter_map(|i| i.target()).collect(), outer_loops)
}

/// The innermost loops that read items of containers and for the most part change nothing, and whether they are in other ones. What a
/// first turn has loaded and checked Cranelift takes for the later ones, unless something may have changed it.
fn peeled(code: &Code) -> Vec<(Region, bool)> {
    let loops: BTreeSet<Region> =
        code.loops().filter_map(|region| code.loop_at(region.start)).collect();
    let holds = |outer: &Region, l: &Region| l != outer && outer.contains(l.start);
    let has = |region: &Region, test: fn(u8) -> bool| {
        code.instructions().any(|i| region.contains(i.unit) && test(i.opcode))
    };
    let reads =
        |region: &Region| has(region, |opcode| matches!(opcode, op::BINARY_SUBSCR | op::LOAD_ATTR));
    let changes = |opcode| {
        matches!(
            opcode,
            op::CALL | op::CALL_KW | op::STORE_SUBSCR | op::STORE_SLICE | op::DELETE_SUBSCR
        ) || matches!(
            opcode,
            op::STORE_ATTR
                | op::LIST_APPEND
                | op::LIST_EXTEND
                | op::STORE_DEREF
                | op::STORE_GLOBAL
                | op::STORE_NAME
        )
    };
    let is_one = |region: &&Region| {
        let is_innermost = !loops.iter().any(|l| holds(region, l));
        is_innermost && reads(region) && !has(region, changes)
    };
    let is_nested = |region: &Region| loops.iter().any(|l| holds(l, region));
    loops.iter().filter(is_one).map(|region| (*region, is_nested(region))).collect()
}

/// Fills a function of that type. An error is a code unit and what is wrong there.
pub fn lower<'a>(
    builder: FunctionBuilder<'_>,
    source: &'a Source<'a>,
    resolve: &'a mut dyn Resolve,
) -> std::result::Result<Lowered, (u32, String)> {
    let call_conv = builder.func.signature.call_conv;
    let nothing =
        Instruction { opcode: crate::opcode::NOP, argument: 0, start: 0, unit: 0, next: 0 };
    let (targets, outer_loops) = targets(source.code);
    let peeled = peeled(source.code);
    let mut lowering = Lowering {
        b: builder,
        source,
        code: source.code,
        constants: source.constants,
        outside: source.outside,
        around: None,
        restart: None,
        resolve,
        call_conv,
        context: Value::from_u32(0),
        depth: Value::from_u32(0),
        function: Value::from_u32(0),
        arguments: None,
        scratch: None,
        items: None,
        released: None,
        origins: HashMap::new(),
        learned: BTreeMap::new(),
        signatures: HashMap::new(),
        facts: no_facts(),
        locals: Vec::new(),
        stack: Vec::new(),
        instruction: nothing,
        before: (Vec::new(), Vec::new()),
        exits_here: Vec::new(),
        taken: Vec::new(),
        stores: false,
        stores_cells: false,
        repeats: false,
        targets,
        outer_loops,
        of_items: in_region(AliasRegion::Heap, !peeled.is_empty()),
        unchanged: in_region(AliasRegion::Table, !peeled.is_empty()),
        stores_items: source
            .code
            .instructions()
            .any(|i| matches!(i.opcode, op::STORE_SUBSCR | op::STORE_ATTR)),
        peeled,
        turn: None,
        is_rare: false,
        splits: HashMap::new(),
        of_one_kind: HashMap::new(),
        joins: Joins::default(),
        blocks: 0,
        pending: Vec::new(),
        returns: source.returns.clone(),
        seen: None,
        matched: false,
    };
    // An error is that of the last instruction.
    let exits = lowering.all().map_err(|why| (lowering.instruction.start, why))?;
    let Lowering {
        mut b,
        returns,
        blocks,
        seen,
        matched,
        stores,
        stores_cells,
        repeats,
        learned,
        facts,
        peeled,
        ..
    } = lowering;
    let is_sum = (&returns, &seen) == (&Some(INT), &Some(FLOAT));
    let is_first = source.returns.is_none() && !source.takes_over;
    b.seal_all_blocks();
    b.finalize();
    Ok(Lowered {
        exits,
        returns,
        other: if matched && !(is_sum && is_first) { None } else { seen },
        blocks,
        stores,
        stores_cells,
        repeats,
        learned,
        facts,
        has_peeled: !peeled.is_empty(),
    })
}

impl Lowering<'_, '_> {
    /// Compiles all blocks; the exits.
    fn all(&mut self) -> Result<Vec<Exit>> {
        self.entry()?;
        while let Some(unit) = self.joins.first() {
            self.join(unit)?;
        }
        self.emit_exits()
    }

    /// Reads the locals and the stack.
    fn entry(&mut self) -> Result<()> {
        let entry = self.b.create_block();
        self.b.append_block_params_for_function_params(entry);
        self.b.switch_to_block(entry);
        let parameters = self.b.block_params(entry).to_vec();
        let [context, depth, words, ref registers @ ..] = parameters[..] else {
            return Err("internal: the function has no parameters".into());
        };
        (self.context, self.depth) = (context, depth);
        self.fence();
        let mut registers = registers.iter().copied();
        let mut offset = 0;
        for (place, kind) in self.source.locals.iter().chain(self.source.stack).enumerate() {
            let mut types = SmallVec::new();
            kind.words(&mut types);
            let mut value = Val::plain(kind.clone());
            for ty in types {
                value.words.push(match registers.next() {
                    Some(word) if ty == I64 => word,
                    Some(word) => self.b.ins().bitcast(ty, MemFlags::new(), word),
                    None => self.b.ins().load(ty, MemFlags::trusted(), words, offset),
                });
                offset += 8;
            }
            match (kind, &value.words[..]) {
                (Kind::Bool, [truth]) => drop(self.within(*truth, 0, 1)),
                (Kind::RangeIterator { descending: false }, [_, _, step]) => {
                    self.within(*step, 1, i64::MAX);
                }
                _ => {}
            }
            if let Some(number) =
                value.words.first().filter(|_| self.source.natural.contains(&place))
            {
                self.within(*number, 0, i64::MAX);
            }
            value.owned = self.source.takes_over && kind.holds_objects();
            let value = self.own(value);
            let value = self.located(value)?;
            self.locals.push(value);
        }
        if self.source.closure {
            self.function = match registers.next() {
                Some(word) => word,
                None => self.b.ins().load(I64, MemFlags::trusted(), words, offset),
            };
        }
        self.stack = self.locals.split_off(self.source.locals.len());
        self.share_cells()?;
        let block = self.edge(self.source.start);
        self.b.ins().jump(block, &[]);
        Ok(())
    }

    /// A fence for Cranelift's alias analysis, and one instruction. No load behind it is taken for one before it.
    fn fence(&mut self) {
        self.b.ins().atomic_load(I64, MemFlags::trusted(), self.context);
    }

    /// Compiles a version of the block that starts at a code unit, to its end.
    fn block(&mut self, unit: u32, block: Block, kinds: (Vec<Kind>, Vec<Kind>)) -> Result<()> {
        self.b.switch_to_block(block);
        if self.turn.is_some_and(|turn| turn.first == block) {
            self.fence();
        }
        let mut words = self.b.block_params(block).to_vec().into_iter();
        let mut values = |kinds: Vec<Kind>| -> Vec<Val> {
            let value = |kind: Kind| {
                let count = kind.count();
                let owned = kind.holds_objects();
                Val { kind, words: words.by_ref().take(count).collect(), owned }
            };
            kinds.into_iter().map(value).collect()
        };
        self.locals = values(kinds.0);
        self.stack = values(kinds.1);
        let mut at = unit;
        loop {
            if at != unit && self.targets.contains(&at) {
                let block = self.edge(at);
                self.b.ins().jump(block, &[]);
                return Ok(());
            }
            let instruction = self.code.at(at).ok_or("internal: no instruction there")?;
            self.instruction = instruction;
            refresh(&mut self.before.0, &self.locals);
            refresh(&mut self.before.1, &self.stack);
            self.exits_here.clear();
            if self.is_outside(at) {
                self.end();
                return Ok(());
            }
            if let Some((index, expression)) = self.expression_at(at) {
                if self.is_cold(index) {
                    let exit = self.exit_here(Cause::Cold);
                    self.b.ins().jump(exit, &[]);
                    return Ok(());
                }
                self.begin_expression();
                at = expression.made;
                continue;
            }
            let flow = match self.restart.as_ref().map(|restart| restart.instruction.start) {
                Some(start) if self.around.is_none() && self.expression_at(start).is_some() => {
                    self.within_expression(start, instruction)?
                }
                _ => self.step(instruction)?,
            };
            match flow {
                // Some instructions are compiled with the one behind them.
                Flow::Next => at = self.instruction.next,
                Flow::End => {
                    if self.around.is_none() {
                        let restart = self.restart.take();
                        self.stores |= restart.is_some_and(|restart| restart.stores);
                    }
                    return Ok(());
                }
            }
        }
    }

    /// The words of a value where a kind is expected that covers its own.
    fn as_kind(&mut self, kind: &Kind, value: &Val) -> Result<SmallVec<[Value; 4]>> {
        let mut out = SmallVec::new();
        self.convert(kind, &value.kind, &mut value.words.iter().copied(), &mut out)?;
        Ok(out)
    }

    fn convert(
        &mut self,
        kind: &Kind,
        from: &Kind,
        words: &mut dyn Iterator<Item = Value>,
        out: &mut SmallVec<[Value; 4]>,
    ) -> Result<()> {
        if let (Kind::InCell(kind), Kind::InCell(from)) = (kind, from) {
            return self.convert(kind, from, words, out);
        }
        if let (Kind::Tuple(kinds), Kind::Tuple(from)) = (kind, from) {
            for (kind, from) in kinds.iter().zip(from) {
                self.convert(kind, from, words, out)?;
            }
            return Ok(());
        }
        if !kind.covers(from) {
            return Err("internal: a value of another kind".into());
        }
        match (kind, from) {
            (Kind::Maybe(_), Kind::Unbound) => {
                let mut types = SmallVec::new();
                kind.words(&mut types);
                for ty in types {
                    out.push(if ty == I64 { self.int(0) } else { self.b.ins().f64const(0.0) });
                }
                return Ok(());
            }
            (Kind::Maybe(kind), Kind::Maybe(from)) => {
                out.extend(words.next());
                return self.convert(kind, from, words, out);
            }
            (Kind::Maybe(kind), from) => {
                out.push(self.int(1));
                return self.convert(kind, from, words, out);
            }
            _ => {}
        }
        out.extend(words.take(from.count()));
        for _ in from.count()..kind.count() {
            out.push(self.b.ins().iconst(I64, 0));
        }
        Ok(())
    }

    // ---- leaving ----------------------------------------------------------------

    /// Leaves at the start of this instruction if the condition is not 0.
    fn guard(&mut self, bad: Value) {
        self.leave_if(bad, Cause::Guard);
    }

    /// Leaves at the start of this instruction unless the condition holds.
    fn require(&mut self, good: Value) {
        let exit = self.exit_here(Cause::Guard);
        let go_on = self.b.create_block();
        self.b.ins().brif(good, go_on, &[], exit, &[]);
        self.b.switch_to_block(go_on);
    }

    fn leave_if(&mut self, condition: Value, cause: Cause) {
        let exit = self.exit_here(cause);
        let go_on = self.b.create_block();
        self.b.ins().brif(condition, exit, &[], go_on, &[]);
        self.b.switch_to_block(go_on);
    }

    /// The block that leaves at the start of this instruction.
    fn exit_here(&mut self, cause: Cause) -> Block {
        if let Some((_, block)) = self.exits_here.iter().find(|(other, _)| *other == cause) {
            return *block;
        }
        let (locals, stack, beside) = match &self.restart {
            None => (self.before.0.clone(), self.before.1.clone(), Vec::new()),
            Some(again) => (again.locals.clone(), again.stack.clone(), self.beside(again)),
        };
        let block = self.exit(locals, stack, cause, None, beside);
        self.exits_here.push((cause, block));
        block
    }

    fn exit(
        &mut self,
        locals: Vec<Val>,
        stack: Vec<Val>,
        cause: Cause,
        callee: Option<Val>,
        beside: Vec<Val>,
    ) -> Block {
        let block = self.cold_block();
        let instruction = self.restart.as_ref().map_or(self.instruction, |again| again.instruction);
        let (resumes, instance, special) = (None, None, None);
        self.pending.push(Pending {
            block,
            instruction,
            locals,
            stack,
            cause,
            callee,
            beside,
            resumes,
            instance,
            special,
        });
        block
    }

    /// Leaves at the start of this instruction, always.
    fn leave(&mut self) -> Flow {
        let exit = self.exit_here(Cause::Guard);
        self.b.ins().jump(exit, &[]);
        Flow::End
    }

    /// At a back edge or a call: leaves if the interpreter has something to do, or no turns are left. That is looked at
    /// once in `POLLED_TURNS`; where the turns of a loop are counted anyway, by what is left of them.
    fn poll(&mut self, left: Option<Value>) {
        let number = if left.is_some() { POLLED_TURNS } else { 1 };
        let (look, go_on) = (self.cold_block(), self.b.create_block());
        let flags = in_context();
        let before = if left.is_none() { Some(self.fewer_turns(number)) } else { None };
        // The lowest byte is that number modulo `POLLED_TURNS`.
        let counted = left.or(before).unwrap_or(self.context);
        let other_turn = self.b.ins().ireduce(I8, counted);
        self.b.ins().brif(other_turn, go_on, &[], look, &[]);
        self.b.switch_to_block(look);
        let fewer = before.unwrap_or_else(|| self.fewer_turns(number));
        let thread = self.b.ins().load(I64, flags, self.context, context::THREAD);
        let spent = self.b.ins().icmp_imm(IntCC::SignedLessThanOrEqual, fewer, 0);
        let breaker = self.breaker(thread);
        let either = self.b.ins().bor(breaker, spent);
        self.leave_if(either, Cause::Poll);
        self.b.ins().jump(go_on, &[]);
        self.b.switch_to_block(go_on);
    }

    fn fewer_turns(&mut self, number: i64) -> Value {
        let flags = in_context();
        let turns = self.b.ins().load(I64, flags, self.context, context::TURNS);
        let fewer = self.b.ins().iadd_imm(turns, -number);
        self.b.ins().store(flags, fewer, self.context, context::TURNS);
        fewer
    }

    /// Not 0 if the interpreter has something to do. The version of tools beside these flags changes only by foreign code.
    fn breaker(&mut self, thread: Value) -> Value {
        let offset = crate::python::EVAL_BREAKER;
        let address = self.b.ins().iadd_imm(thread, offset);
        // Signal handlers and other threads set it. An atomic load is a fence, behind which all memory is loaded anew. The turns are
        // stored in the region before a load of it each time, so it is not merged with another one either.
        if self.peeled.is_empty() {
            self.b.ins().atomic_load(I8, MemFlags::trusted(), address)
        } else {
            self.b.ins().load(I8, in_context(), address, 0)
        }
    }

    /// The code of all exits: the words that differ are stored, the oldest ones first, and the log gets them.
    fn emit_exits(&mut self) -> Result<Vec<Exit>> {
        let pending = std::mem::take(&mut self.pending);
        let (mut exits, mut stores) = (Vec::new(), Vec::new());
        for exit in &pending {
            let all = || exit.locals.iter().chain(&exit.stack).chain(&exit.beside);
            let words = all().chain(&exit.callee).flat_map(|value| value.words.iter().copied());
            let mut order: Vec<Value> = words.collect();
            order.sort_unstable();
            order.dedup();
            if order.len() > context::MOST_WORDS {
                return Err("too many variables".into());
            }
            let place = |word: &Value| order.binary_search(word).unwrap_or(0) as u16;
            let slot = |value: &Val| {
                let places: Vec<u16> = value.words.iter().map(place).collect();
                Slot::of(&value.kind, &places).0
            };
            let owned = all().filter(|value| value.owned).flat_map(Val::objects);
            let repeats = self.source.repeats_calls || exit.resumes.is_some();
            let in_call = exit.cause == Cause::Call && !repeats;
            let Instruction { start, unit, next, .. } = exit.instruction;
            exits.push(Exit {
                unit: if in_call { unit } else { start },
                after: next,
                locals: exit.locals.iter().map(slot).collect(),
                stack: exit.stack.iter().map(slot).collect(),
                words: order.len(),
                cause: exit.cause,
                callee: exit.callee.as_ref().map_or(Slot::Empty, slot),
                resumes: exit.resumes,
                instance: exit.instance.as_ref().map_or(Slot::Empty, slot),
                special: exit.special,
                owned: owned.map(|(_, word)| place(&word)).collect(),
                attribute: self.of_one_kind.get(&unit).copied(),
            });
            stores.push((order, exit.block, stores.len()));
        }
        if exits.is_empty() {
            return Ok(exits);
        }
        let out = self.cold_block();
        stores.sort_unstable();
        self.emit_stores(&stores, 0, out);
        // What all of them have in common.
        self.b.switch_to_block(out);
        let mut signature = Signature::new(self.call_conv);
        signature.params.extend([AbiParam::new(I64); 2]);
        let signature = self.signature(signature);
        let leave = self.b.ins().iconst(I64, context::leave as *const () as i64);
        let table = self.b.ins().iconst(I64, std::ptr::from_ref(self.source.table) as i64);
        self.b.ins().call_indirect(signature, leave, &[self.context, table]);
        let status = self.b.ins().iconst(I64, context::LEFT);
        self.b.ins().return_(&[status, status]);
        Ok(exits)
    }

    /// The stores of exits whose first `done` words are the same, and stored by the block `then`: what several of them have in common
    /// is in one block. Without that, half of all instructions are such stores.
    fn emit_stores(&mut self, exits: &[(Vec<Value>, Block, usize)], done: usize, then: Block) {
        if let [(words, block, number)] = exits {
            self.b.switch_to_block(*block);
            let number = self.b.ins().iconst(I64, *number as i64);
            self.b.ins().store(in_context(), number, self.context, context::EXIT);
            return self.store_words(words, done, then);
        }
        let common = |a: &[Value], b: &[Value]| a.iter().zip(b).take_while(|(a, b)| a == b).count();
        let shared: Vec<usize> =
            exits.windows(2).map(|pair| common(&pair[0].0, &pair[1].0)).collect();
        let Some(least) = shared.iter().copied().min() else { return };
        let mut then = then;
        if least > done {
            let block = self.cold_block();
            self.b.switch_to_block(block);
            self.store_words(&exits[0].0[..least], done, then);
            then = block;
        }
        let mut rest = exits;
        for (place, _) in shared.iter().enumerate().filter(|(_, shared)| **shared == least) {
            let (group, others) = rest.split_at(place + 1 - (exits.len() - rest.len()));
            self.emit_stores(group, least, then);
            rest = others;
        }
        self.emit_stores(rest, least, then);
    }

    /// Stores the words behind those that are done, and jumps.
    fn store_words(&mut self, words: &[Value], done: usize, then: Block) {
        for (place, word) in words.iter().enumerate().skip(done) {
            let offset = context::WORDS + 8 * place as i32;
            self.b.ins().store(in_context(), *word, self.context, offset);
        }
        self.b.ins().jump(then, &[]);
    }

    // ---- small things -----------------------------------------------------------

    fn cold_block(&mut self) -> Block {
        let block = self.b.create_block();
        self.b.set_cold_block(block);
        block
    }

    fn signature(&mut self, signature: Signature) -> SigRef {
        if let Some(known) = self.signatures.get(&signature) {
            return *known;
        }
        let made = self.b.import_signature(signature.clone());
        self.signatures.insert(signature, made);
        made
    }

    fn pop(&mut self) -> Result<Val> {
        self.stack.pop().ok_or_else(|| "internal: the stack is empty".into())
    }

    fn push(&mut self, kind: Kind, words: &[Value]) {
        self.stack.push(Val::new(kind, words));
    }

    /// The first word.
    fn word(value: &Val) -> Result<Value> {
        value.words.first().copied().ok_or_else(|| "internal: a value without words".into())
    }

    fn int(&mut self, number: i64) -> Value {
        self.b.ins().iconst(I64, number)
    }

    /// The value is a number from `low` to `high`.
    fn within(&mut self, value: Value, low: i64, high: i64) -> Value {
        self.facts[value] = Fact::Within(Interval::new(low, high));
        value
    }

    fn below(&mut self, value: Value, limit: i64) -> Value {
        self.b.ins().icmp_imm(IntCC::SignedLessThan, value, limit)
    }

    /// The number, if it is known.
    fn known(&self, value: Value) -> Option<i64> {
        let instruction = self.b.func.dfg.value_def(value).inst()?;
        match self.b.func.dfg.insts[instruction] {
            InstructionData::UnaryImm { imm, .. } => Some(imm.bits()),
            _ => None,
        }
    }

    /// The condition of the machine of which this is the word, if it is one.
    fn condition(&self, value: Value) -> Option<Value> {
        let instruction = self.b.func.dfg.value_def(value).inst()?;
        match self.b.func.dfg.insts[instruction] {
            InstructionData::Unary { opcode: Opcode::Uextend, arg } => Some(arg),
            _ => None,
        }
    }

    /// Of two values' kinds.
    fn refuse<T>(&self, what: &str, values: &[&Val]) -> Result<T> {
        let kinds: Vec<String> = values.iter().map(|value| value.kind.describe()).collect();
        Err(format!("{what} of {}", kinds.join(" and ")))
    }
}
