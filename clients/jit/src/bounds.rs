//! Range analysis: in which intervals the ints of a function are. Conditions that this decides become constants, and branches on them
//! jumps, so guards that never fail are gone before Cranelift compiles the function.
//!
//! The dominator tree is walked from its root: there the condition of a branch holds in all blocks below its edge. At the heads of
//! loops intervals are widened until nothing changes, then narrowed again. The number of walks is bounded, so this takes linear time.

use crate::interval::Interval;
use cranelift_codegen::cursor::{Cursor, FuncCursor};
use cranelift_codegen::dominator_tree::DominatorTree;
use cranelift_codegen::entity::SecondaryMap;
use cranelift_codegen::flowgraph::ControlFlowGraph;
use cranelift_codegen::ir::condcodes::{CondCode, IntCC};
use cranelift_codegen::ir::types::{I16, I32, I64, I8};
use cranelift_codegen::ir::{
    Block, BlockArg, BlockCall, Function, Inst, InstBuilder, InstructionData, Opcode, Type, Value,
    ValueDef,
};

/// After so many walks everything that still changes is widened to all numbers; after `MOST_WALKS` the analysis is given up.
const PATIENCE: usize = 5;
const MOST_WALKS: usize = 12;
/// How deep conditions are looked into.
const DEEPEST: usize = 4;

/// What lowering knows of a value beside its instruction.
#[derive(Clone, Copy, PartialEq)]
pub enum Fact {
    Nothing,
    Within(Interval),
    /// Python's remainder of a division by this value.
    RemainderBy(Value),
    /// The sum is not used where it overflows.
    NoOverflow,
}

/// By value.
pub type Facts = SecondaryMap<Value, Fact>;

pub fn no_facts() -> Facts {
    SecondaryMap::with_default(Fact::Nothing)
}

enum Change {
    Jump(Inst, BlockCall),
    Constant(Inst, i64),
    NoOverflow(Inst),
}

enum Step {
    Enter(Block),
    /// The entries of `undo` that are to be kept.
    Leave(usize),
}

#[derive(PartialEq)]
enum Phase {
    Widen,
    Narrow,
    Decide,
}

struct Analysis<'a> {
    func: &'a Function,
    facts: &'a Facts,
    /// In reverse postorder, from 1 on; 0 is unreachable.
    order: SecondaryMap<Block, u32>,
    children: SecondaryMap<Block, Vec<Block>>,
    /// The only branch to a block.
    branch: SecondaryMap<Block, Option<Inst>>,
    is_head: SecondaryMap<Block, bool>,

    now: SecondaryMap<Value, Interval>,
    undo: Vec<(Value, Interval)>,
    /// Parameters of blocks: what edges forward have passed in this walk, edges back in the last one and in this one.
    forward: SecondaryMap<Value, Interval>,
    back: SecondaryMap<Value, Interval>,
    back_next: SecondaryMap<Value, Interval>,
    /// Parameters of heads of loops in the last walk.
    head: SecondaryMap<Value, Interval>,
    reached: SecondaryMap<Block, bool>,
    /// By an edge back.
    reached_back: SecondaryMap<Block, bool>,
    phase: Phase,
    walks: usize,
    changed: bool,
    changes: Vec<Change>,
}

/// Decides what can be decided.
pub fn decide(func: &mut Function, facts: &Facts) {
    let cfg = ControlFlowGraph::with_function(func);
    let dominators = DominatorTree::with_function(func, &cfg);
    let changes = Analysis::new(func, facts, &cfg, &dominators).run();
    for change in changes {
        apply(func, change);
    }
}

fn apply(func: &mut Function, change: Change) {
    match change {
        Change::Jump(inst, destination) => {
            let opcode = Opcode::Jump;
            func.dfg.insts[inst] = InstructionData::Jump { opcode, destination };
        }
        Change::Constant(inst, number) => {
            let ty = func.dfg.value_type(func.dfg.first_result(inst));
            func.dfg.replace(inst).iconst(ty, number);
        }
        Change::NoOverflow(inst) => {
            let InstructionData::Binary { opcode, args: [a, b] } = func.dfg.insts[inst] else {
                return;
            };
            let &[result, overflow] = func.dfg.inst_results(inst) else { return };
            let mut cursor = FuncCursor::new(func).at_inst(inst);
            let never = cursor.ins().iconst(I8, 0);
            let plain = match opcode {
                Opcode::SaddOverflow => cursor.ins().iadd(a, b),
                Opcode::SsubOverflow => cursor.ins().isub(a, b),
                _ => cursor.ins().imul(a, b),
            };
            func.dfg.detach_inst_results(inst);
            func.dfg.change_to_alias(result, plain);
            func.dfg.change_to_alias(overflow, never);
            func.layout.remove_inst(inst);
        }
    }
}

impl<'a> Analysis<'a> {
    fn new(
        func: &'a Function,
        facts: &'a Facts,
        cfg: &ControlFlowGraph,
        dominators: &DominatorTree,
    ) -> Self {
        let none = || SecondaryMap::with_default(Interval::NONE);
        let mut made = Self {
            func,
            facts,
            order: SecondaryMap::new(),
            children: SecondaryMap::new(),
            branch: SecondaryMap::new(),
            is_head: SecondaryMap::new(),
            now: none(),
            undo: Vec::new(),
            forward: none(),
            back: none(),
            back_next: none(),
            head: none(),
            reached: SecondaryMap::new(),
            reached_back: SecondaryMap::new(),
            phase: Phase::Widen,
            walks: 0,
            changed: true,
            changes: Vec::new(),
        };
        for (number, block) in dominators.cfg_rpo().enumerate() {
            made.order[*block] = number as u32 + 1;
            if let Some(parent) = dominators.idom(*block) {
                made.children[parent].push(*block);
            }
        }
        for block in dominators.cfg_rpo() {
            let mut edges = cfg.pred_iter(*block);
            made.branch[*block] = edges.next().filter(|_| edges.next().is_none()).map(|e| e.inst);
            let is_back = |edge: Block| made.order[edge] >= made.order[*block];
            made.is_head[*block] = cfg.pred_iter(*block).any(|edge| is_back(edge.block));
        }
        made
    }

    fn run(mut self) -> Vec<Change> {
        while self.changed {
            if self.walks == MOST_WALKS {
                return Vec::new();
            }
            self.walk();
        }
        for phase in [Phase::Narrow, Phase::Decide] {
            self.phase = phase;
            self.walk();
        }
        self.changes
    }

    fn walk(&mut self) {
        self.changed = false;
        self.forward.clear();
        self.reached.clear();
        let back_before = self.reached_back.clone();
        let entry = self.func.layout.entry_block();
        let mut steps: Vec<Step> = entry.into_iter().map(Step::Enter).collect();
        while let Some(step) = steps.pop() {
            match step {
                Step::Enter(block) => {
                    steps.push(Step::Leave(self.undo.len()));
                    let is_reached =
                        Some(block) == entry || self.reached[block] || back_before[block];
                    if is_reached && self.enter(block) {
                        self.block(block, Some(block) == entry);
                        steps.extend(self.children[block].iter().rev().map(|b| Step::Enter(*b)));
                    }
                }
                Step::Leave(kept) => {
                    for (value, interval) in self.undo.drain(kept..).rev() {
                        self.now[value] = interval;
                    }
                }
            }
        }
        self.changed |= self.reached_back != back_before;
        std::mem::swap(&mut self.back, &mut self.back_next);
        self.back_next.clear();
        self.walks += 1;
    }

    /// Makes use of the condition of the only branch to a block; false: it never holds.
    fn enter(&mut self, block: Block) -> bool {
        let Some(branch) = self.branch[block] else { return true };
        let InstructionData::Brif { arg, blocks: [yes, no], .. } = self.func.dfg.insts[branch]
        else {
            return true;
        };
        let pool = &self.func.dfg.value_lists;
        let (yes, no) = (yes.block(pool), no.block(pool));
        let kept = self.undo.len();
        if yes != no {
            self.assume(arg, yes == block, 0);
        }
        self.undo.iter().skip(kept).all(|(value, _)| !self.now[*value].is_empty())
    }

    fn narrow(&mut self, value: Value, interval: Interval) {
        let old = self.now[value];
        let new = old.meet(interval);
        if new != old {
            self.undo.push((value, old));
            self.now[value] = new;
        }
    }

    /// A condition holds, or does not.
    fn assume(&mut self, condition: Value, holds: bool, depth: usize) {
        let zero = if holds { IntCC::NotEqual } else { IntCC::Equal };
        let now = self.now[condition];
        self.narrow(condition, now.where_it_holds(zero, Interval::just(0)));
        let ValueDef::Result(inst, _) = self.func.dfg.value_def(condition) else { return };
        let deeper = depth + 1;
        match self.func.dfg.insts[inst] {
            _ if depth == DEEPEST => {}
            InstructionData::Unary { opcode: Opcode::Uextend, arg } => {
                self.assume(arg, holds, deeper);
            }
            InstructionData::Binary { opcode: Opcode::Bor, args } if !holds => {
                args.into_iter().for_each(|arg| self.assume(arg, false, deeper));
            }
            InstructionData::Binary { opcode: Opcode::Band, args: [a, b] }
                if holds && self.is_condition(a) && self.is_condition(b) =>
            {
                self.assume(a, true, deeper);
                self.assume(b, true, deeper);
            }
            InstructionData::IntCompare { cond, args: [a, b], .. } if self.is_wide(a) => {
                let cond = if holds { cond } else { cond.complement() };
                let (x, y) = (self.now[a], self.now[b]);
                self.narrow(a, x.where_it_holds(cond, y));
                self.narrow(b, y.where_it_holds(cond.swap_args(), x));
                if !holds {
                    self.assume_fits(cond, a, b);
                }
            }
            InstructionData::IntCompareImm { cond, arg, imm, .. } => {
                let number = Interval::just(imm.bits());
                if let Some(condition) = self.bool_of(cond, arg, imm.bits(), holds) {
                    self.assume(arg, condition, deeper);
                } else if self.is_wide(arg) {
                    let cond = if holds { cond } else { cond.complement() };
                    let x = self.now[arg];
                    self.narrow(arg, x.where_it_holds(cond, number));
                }
            }
            _ => {}
        }
    }

    /// What a comparison of a condition with 0 says of it.
    fn bool_of(&self, cond: IntCC, arg: Value, number: i64, holds: bool) -> Option<bool> {
        if number != 0 || !self.now[arg].is_within(Interval::CONDITION) {
            return None;
        }
        match cond {
            IntCC::Equal => Some(!holds),
            IntCC::NotEqual => Some(holds),
            _ => None,
        }
    }

    /// The complements of the comparisons that lowering makes to see whether `sum`, or what was shifted, has overflown.
    fn assume_fits(&mut self, cond: IntCC, result: Value, other: Value) {
        match self.instruction(result) {
            Some(InstructionData::BinaryImm64 { opcode: Opcode::IaddImm, arg, imm })
                if arg == other =>
            {
                let number = imm.bits();
                let is_test = match cond {
                    IntCC::SignedGreaterThanOrEqual => number >= 0,
                    IntCC::SignedLessThanOrEqual => number < 0,
                    _ => false,
                };
                if is_test {
                    let number = Interval::just(number);
                    self.narrow(result, Interval::clamped(self.now[arg].sum(number)));
                    self.narrow(arg, Interval::clamped(self.now[result].difference(number)));
                }
            }
            Some(InstructionData::Binary { opcode: Opcode::Sshr, args: [shifted, count] })
                if cond == IntCC::Equal =>
            {
                if let Some(wide) = self.shift_back(shifted, count, other) {
                    self.narrow(shifted, Interval::clamped(wide));
                }
            }
            _ => {}
        }
    }

    /// If `shifted` is `original` shifted to the left: between which numbers it would be.
    fn shift_back(&self, shifted: Value, count: Value, original: Value) -> Option<(i128, i128)> {
        match self.instruction(shifted)? {
            InstructionData::Binary { opcode: Opcode::Ishl, args }
                if args == [original, count] && self.is_count(count) =>
            {
                Some(self.now[original].shifted_left(self.now[count]))
            }
            _ => None,
        }
    }

    fn instruction(&self, value: Value) -> Option<InstructionData> {
        self.func.dfg.value_def(value).inst().map(|inst| self.func.dfg.insts[inst])
    }

    fn is_condition(&self, value: Value) -> bool {
        self.now[value].is_within(Interval::CONDITION)
    }

    fn is_count(&self, value: Value) -> bool {
        self.now[value].is_within(Interval::new(0, 63))
    }

    fn is_wide(&self, value: Value) -> bool {
        self.func.dfg.value_type(value) == I64
    }

    fn block(&mut self, block: Block, is_entry: bool) {
        let func = self.func;
        for param in func.dfg.block_params(block) {
            let all = all_of(func.dfg.value_type(*param));
            let mut interval = self.forward[*param].join(self.back[*param]);
            if is_entry || all.1 {
                interval = all.0;
            }
            if self.is_head[block] {
                interval = self.at_head(*param, interval);
            }
            self.now[*param] = self.with_fact(*param, interval);
        }
        for inst in func.layout.block_insts(block) {
            self.inst(block, inst);
        }
    }

    /// A parameter of the head of a loop gets this.
    fn at_head(&mut self, param: Value, interval: Interval) -> Interval {
        let old = self.head[param];
        let new = match self.phase {
            Phase::Narrow | Phase::Decide => interval.meet(old),
            _ if interval.is_within(old) => old,
            _ if self.walks < 2 => old.join(interval),
            _ if self.walks < PATIENCE => old.widened(interval),
            _ => Interval::ALL,
        };
        self.changed |= new != old;
        self.head[param] = new;
        new
    }

    fn with_fact(&self, value: Value, interval: Interval) -> Interval {
        match self.facts[value] {
            Fact::Within(known) => interval.meet(known),
            Fact::RemainderBy(divisor) => match self.now[divisor] {
                divisor if divisor.low > 0 => interval.meet(Interval::new(0, divisor.high - 1)),
                divisor if divisor.high < 0 => interval.meet(Interval::new(divisor.low + 1, 0)),
                _ => interval,
            },
            _ => interval,
        }
    }

    fn inst(&mut self, block: Block, inst: Inst) {
        match self.func.dfg.insts[inst] {
            InstructionData::Jump { destination, .. } => return self.pass(block, &destination),
            InstructionData::Brif { arg, blocks: [yes, no], .. } => {
                let condition = self.now[arg];
                let may_be = |interval| !condition.meet(interval).is_empty();
                let always = condition.compare(IntCC::NotEqual, Interval::just(0));
                if self.phase == Phase::Decide {
                    let taken = always.map(|holds| if holds { yes } else { no });
                    self.changes.extend(taken.map(|taken| Change::Jump(inst, taken)));
                }
                if may_be(Interval::ALL) && always != Some(false) {
                    self.pass(block, &yes);
                }
                if may_be(Interval::just(0)) {
                    self.pass(block, &no);
                }
                return;
            }
            _ => {}
        }
        let results = self.func.dfg.inst_results(inst);
        let Some((first, others)) = results.split_first() else { return };
        let ty = self.func.dfg.value_type(*first);
        let computed = self.computed(inst, *first);
        self.now[*first] = self.with_fact(*first, computed.unwrap_or(all_of(ty).0));
        for other in others {
            let all = all_of(self.func.dfg.value_type(*other)).0;
            self.now[*other] = self.with_fact(*other, all);
        }
        if let (&[other], Some(wide)) = (others, self.overflowing(inst)) {
            let never = Interval::fitting(wide).is_some();
            self.now[*first] = Interval::clamped(wide);
            self.now[other] = if never { Interval::just(0) } else { Interval::CONDITION };
            if never && self.phase == Phase::Decide {
                self.changes.push(Change::NoOverflow(inst));
            }
        } else if let (Some(number), Phase::Decide) = (self.now[*first].known(), &self.phase) {
            let is_constant = matches!(self.func.dfg.insts[inst], InstructionData::UnaryImm { .. });
            if computed.is_some() && !is_constant && matches!(ty, I64 | I8) {
                self.changes.push(Change::Constant(inst, number));
            }
        }
    }

    /// The arguments of an edge.
    fn pass(&mut self, from: Block, edge: &BlockCall) {
        let pool = &self.func.dfg.value_lists;
        let to = edge.block(pool);
        let is_back = self.order[from] >= self.order[to];
        let (reached, passed) = if is_back {
            (&mut self.reached_back, &mut self.back_next)
        } else {
            (&mut self.reached, &mut self.forward)
        };
        reached[to] = true;
        for (param, arg) in self.func.dfg.block_params(to).iter().zip(edge.args(pool)) {
            if let BlockArg::Value(arg) = arg {
                passed[*param] = passed[*param].join(self.now[arg]);
            }
        }
    }

    /// The result of an operation that tells whether it has overflown, as if it did not.
    fn overflowing(&self, inst: Inst) -> Option<(i128, i128)> {
        let InstructionData::Binary { opcode, args: [a, b] } = self.func.dfg.insts[inst] else {
            return None;
        };
        let (a, b) = (self.now[a], self.now[b]);
        match opcode {
            Opcode::SaddOverflow => Some(a.sum(b)),
            Opcode::SsubOverflow => Some(a.difference(b)),
            Opcode::SmulOverflow => Some(a.product(b)),
            _ => None,
        }
    }

    /// The interval of the first result; `None`: nothing is known of it, or it is no mere number.
    fn computed(&self, inst: Inst, result: Value) -> Option<Interval> {
        let ty = self.func.dfg.value_type(result);
        match self.func.dfg.insts[inst] {
            InstructionData::UnaryImm { imm, .. } => {
                Some(Interval::just(imm.bits())).filter(|known| ty == I64 || known.is_natural())
            }
            InstructionData::Unary { opcode, arg } => self.unary(opcode, self.now[arg], ty),
            InstructionData::BinaryImm64 { opcode, arg, imm } => {
                let opcode = match opcode {
                    Opcode::IaddImm => Opcode::Iadd,
                    Opcode::ImulImm => Opcode::Imul,
                    Opcode::BandImm => Opcode::Band,
                    Opcode::IshlImm => Opcode::Ishl,
                    Opcode::SshrImm => Opcode::Sshr,
                    Opcode::UshrImm => Opcode::Ushr,
                    _ => return None,
                };
                self.binary(opcode, self.now[arg], Interval::just(imm.bits()), result)
            }
            InstructionData::Binary { opcode, args: [a, b] } => {
                self.binary(opcode, self.now[a], self.now[b], result)
            }
            InstructionData::IntCompare { cond, args: [a, b], .. } => {
                if let (IntCC::NotEqual, Some(InstructionData::Binary { opcode, args })) =
                    (cond, self.instruction(a))
                {
                    let [shifted, count] = args;
                    let wide = match opcode {
                        Opcode::Sshr => self.shift_back(shifted, count, b),
                        _ => None,
                    };
                    if wide.and_then(Interval::fitting).is_some() {
                        return Some(Interval::just(0));
                    }
                }
                Some(self.compared(cond, a, self.now[b]))
            }
            InstructionData::IntCompareImm { cond, arg, imm, .. } => {
                Some(self.compared(cond, arg, Interval::just(imm.bits())))
            }
            InstructionData::Ternary { opcode: Opcode::Select, args: [condition, a, b] } => {
                Some(self.selected(condition, a, b))
            }
            InstructionData::Load { opcode, .. } => {
                // No constant: it is what was loaded.
                let interval = match opcode {
                    Opcode::Uload8 => Interval::unsigned(8),
                    Opcode::Uload16 => Interval::unsigned(16),
                    Opcode::Uload32 => Interval::unsigned(32),
                    Opcode::Sload8 => Interval::new(i8::MIN.into(), i8::MAX.into()),
                    Opcode::Sload16 => Interval::new(i16::MIN.into(), i16::MAX.into()),
                    Opcode::Sload32 => Interval::new(i32::MIN.into(), i32::MAX.into()),
                    _ => return None,
                };
                Some(interval)
            }
            _ => None,
        }
    }

    /// Ints of fewer than 64 bits are taken as unsigned.
    fn compared(&self, cond: IntCC, a: Value, y: Interval) -> Interval {
        let is_equality = matches!(cond, IntCC::Equal | IntCC::NotEqual);
        let x = self.now[a];
        let is_comparable = self.is_wide(a) || (is_equality && y.is_natural());
        match x.compare(cond, y).filter(|_| is_comparable) {
            Some(holds) => Interval::just(holds.into()),
            None => Interval::CONDITION,
        }
    }

    fn selected(&self, condition: Value, a: Value, b: Value) -> Interval {
        let (mut x, mut y) = (self.now[a], self.now[b]);
        match self.now[condition].compare(IntCC::NotEqual, Interval::just(0)) {
            Some(true) => return x,
            Some(false) => return y,
            None => {}
        }
        if let Some(InstructionData::IntCompare { cond, args: [p, q], .. }) =
            self.instruction(condition).filter(|_| self.is_wide(a))
        {
            // As for min() and max().
            let at = |value: Value, interval: Interval, cond: IntCC| match value {
                value if value == p => interval.where_it_holds(cond, self.now[q]),
                value if value == q => interval.where_it_holds(cond.swap_args(), self.now[p]),
                _ => interval,
            };
            (x, y) = (at(a, x, cond), at(b, y, cond.complement()));
        }
        x.join(y)
    }

    fn unary(&self, opcode: Opcode, x: Interval, ty: Type) -> Option<Interval> {
        if x.is_empty() {
            return Some(x);
        }
        match opcode {
            Opcode::Uextend => Some(x),
            Opcode::Ireduce => Some(x).filter(|x| x.is_within(all_of(ty).0)),
            Opcode::Bnot if ty == I64 => Some(x.inverted()),
            Opcode::Ineg if ty == I64 => Interval::fitting(Interval::just(0).difference(x)),
            Opcode::Iabs if ty == I64 => Interval::fitting(x.absolute()),
            _ => None,
        }
    }

    fn binary(&self, opcode: Opcode, x: Interval, y: Interval, result: Value) -> Option<Interval> {
        if x.is_empty() || y.is_empty() {
            return Some(Interval::NONE);
        }
        let is_wide = self.is_wide(result);
        let natural = x.is_natural() && y.is_natural();
        let count = y.is_within(Interval::new(0, 63)) && is_wide;
        match opcode {
            Opcode::Iadd if self.facts[result] == Fact::NoOverflow => {
                Some(Interval::clamped(x.sum(y)))
            }
            Opcode::Iadd if is_wide => Interval::fitting(x.sum(y)),
            Opcode::Isub if is_wide => Interval::fitting(x.difference(y)),
            Opcode::Imul if is_wide => Interval::fitting(x.product(y)),
            Opcode::Band if is_wide || natural => Some(x.and(y)),
            Opcode::Bor if is_wide || natural => Some(x.or(y)),
            Opcode::Bxor if is_wide || natural => Some(x.xor(y)),
            Opcode::Ishl if count => Interval::fitting(x.shifted_left(y)),
            Opcode::Sshr if count => Some(x.shifted_right(y)),
            Opcode::Ushr if count && x.is_natural() => Some(x.shifted_right(y)),
            Opcode::Sdiv if is_wide && y.low > 0 => Some(x.quotient(y)),
            Opcode::Udiv if natural && y.low > 0 => Some(x.quotient(y)),
            Opcode::Srem if is_wide && y.low > 0 => Some(x.remainder(y)),
            Opcode::Urem if natural && y.low > 0 => Some(x.remainder(y)),
            Opcode::Umulhi if natural => {
                let (low, high) = x.product(y);
                Some(Interval::clamped((low >> 64, high >> 64)))
            }
            _ => None,
        }
    }
}

/// All values of a type, unsigned if it has less than 64 bits; and whether there is nothing to know of it.
fn all_of(ty: Type) -> (Interval, bool) {
    match ty {
        I8 => (Interval::unsigned(8), false),
        I16 => (Interval::unsigned(16), false),
        I32 => (Interval::unsigned(32), false),
        _ => (Interval::ALL, ty != I64),
    }
}
