//! Edges of the control flow, and the blocks that they go to.

use super::joins::{all, kinds, widen, Arrival, Turn, Version};
use super::{Lowering, TOO_MANY_VERSIONS};
use crate::kind::Kind;
use crate::resolve::Result;
use cranelift_codegen::ir::{Block, BlockArg, InstBuilder, Value};
use smallvec::SmallVec;

/// The most blocks of one function.
const MOST_BLOCKS: usize = 300;
/// How many versions of an instruction go on in two ways, and how many of all instructions. Beyond that an attribute that may be `None` is taken to be of
/// its other kind: of variables that are `None` or something else each combination is a version.
const MOST_SPLITS_HERE: u32 = 4;
const MOST_SPLITS: u32 = 8;
/// How many versions of a block may differ in known objects alone.
const MOST_ALIKE: usize = 3;

impl Lowering<'_, '_> {
    /// The block to jump to from here, without arguments, to go on at a code unit with the values at hand.
    pub(super) fn edge(&mut self, unit: u32) -> Block {
        self.own_stack();
        let from = self.b.create_block();
        let here = self.instruction.unit;
        let place = if unit > here { unit } else { here };
        let turn = self.turn.filter(|_| self.around.is_none() && self.peeled_with(here, unit));
        let (locals, stack) = (self.locals.clone(), self.stack.clone());
        let arrival = Arrival { from, turn, is_rare: self.is_rare, locals, stack };
        let (first, arrivals) =
            self.joins.arrivals.entry(unit).or_insert_with(|| (place, Vec::new()));
        *first = place.min(*first);
        arrivals.push(arrival);
        from
    }

    /// Compiles a code unit for the edges that have arrived there.
    pub(super) fn join(&mut self, unit: u32) -> Result<()> {
        let (_, mut rest) = self.joins.arrivals.remove(&unit).ok_or("internal: no edges")?;
        while let Some(first) = rest.first() {
            let (mut locals, mut stack) = (kinds(&first.locals), kinds(&first.stack));
            let turn = first.turn;
            let (mut is_rare, mut group) = (true, Vec::new());
            for arrival in std::mem::take(&mut rest) {
                let other = (kinds(&arrival.locals), kinds(&arrival.stack));
                let alike = arrival.turn == turn;
                if alike && all((&locals, &stack), (&other.0, &other.1), Kind::can_join) {
                    widen(&mut locals, &other.0);
                    widen(&mut stack, &other.1);
                    is_rare &= arrival.is_rare;
                    group.push(arrival);
                } else {
                    rest.push(arrival);
                }
            }
            let (index, is_new) = self.version(unit, turn, locals, stack)?;
            let versions = self.joins.versions.get(&unit);
            let version = versions.and_then(|v| v.get(index)).ok_or("internal: no version")?;
            let (block, turn) = (version.block, version.turn);
            let kinds = (version.locals.clone(), version.stack.clone());
            for arrival in group {
                self.b.switch_to_block(arrival.from);
                let mut arguments = Vec::new();
                let values = arrival.locals.iter().chain(&arrival.stack);
                for (kind, value) in kinds.0.iter().chain(&kinds.1).zip(values) {
                    arguments.extend(self.as_kind(kind, value)?.into_iter().map(BlockArg::Value));
                }
                self.b.ins().jump(block, &arguments);
                self.trace_origins(block, &arguments);
            }
            if is_new {
                if self.around.is_none() {
                    self.turn = turn;
                }
                self.is_rare = is_rare;
                self.block(unit, block, kinds)?;
            }
        }
        Ok(())
    }

    /// Two ways to go on behind this instruction: if the condition holds, with `None` as its result, else from here on.
    pub(super) fn split_none(&mut self, is_none: Value) {
        let [none, other] = [(); 2].map(|()| self.b.create_block());
        self.b.ins().brif(is_none, none, &[], other, &[]);
        self.b.switch_to_block(none);
        *self.splits.entry(self.instruction.unit).or_insert(0) += 1;
        let (stack, taken) = (self.stack.clone(), self.taken.clone());
        self.push(Kind::None, &[]);
        self.after_consuming(&taken);
        let is_rare = std::mem::replace(&mut self.is_rare, true);
        let block = self.edge(self.instruction.next);
        self.b.ins().jump(block, &[]);
        (self.stack, self.is_rare) = (stack, is_rare);
        self.b.switch_to_block(other);
    }

    /// Whether there is room for the versions behind such a split. In a generator expression there is not: it starts again wherever it is left.
    pub(super) fn may_split(&self) -> bool {
        let here = self.splits.get(&self.instruction.unit).copied().unwrap_or(0);
        let has_room = here < MOST_SPLITS_HERE && self.splits.values().sum::<u32>() < MOST_SPLITS;
        has_room && self.source.splits && self.around.is_none() && self.restart.is_none()
    }

    /// The version for a state, and whether it is a new one.
    fn version(
        &mut self,
        unit: u32,
        turn: Option<Turn>,
        mut locals: Vec<Kind>,
        mut stack: Vec<Kind>,
    ) -> Result<(usize, bool)> {
        let turn = self.turn_at(unit, turn, (&locals, &stack));
        let versions = self.joins.versions.entry(unit).or_default();
        let begins = turn.is_none() && self.peeled.iter().any(|(region, _)| region.start == unit);
        let is_one = |v: &Version| match v.turn {
            Some(other) if begins => !other.later,
            other => other == turn,
        };
        let find = |test| {
            let fits =
                |v: &&Version| is_one(v) && all((&v.locals, &v.stack), (&locals, &stack), test);
            (versions.iter().position(|v| fits(&v)), versions.iter().filter(fits).count())
        };
        if let (Some(same), _) = find(|a, b| a == b) {
            return Ok((same, false));
        }
        let alike = find(Kind::can_join).1;
        if alike >= MOST_ALIKE || self.outer_loops.contains(&unit) {
            if let (Some(wider), _) = find(Kind::covers) {
                return Ok((wider, false));
            }
        }
        if alike >= MOST_ALIKE {
            // One that serves for those that there are, and for others like them.
            for version in versions.iter().filter(|v| is_one(v)) {
                if all((&version.locals, &version.stack), (&locals, &stack), Kind::can_join) {
                    widen(&mut locals, &version.locals);
                    widen(&mut stack, &version.stack);
                }
            }
            locals.iter_mut().chain(&mut stack).for_each(|kind| *kind = kind.widest());
        }
        self.blocks += 1;
        if self.blocks > MOST_BLOCKS {
            return Err(TOO_MANY_VERSIONS.into());
        }
        let block = self.b.create_block();
        let mut types = SmallVec::new();
        locals.iter().chain(&stack).for_each(|kind| kind.words(&mut types));
        for ty in types {
            self.b.append_block_param(block, ty);
        }
        let first = begins.then_some(Turn { first: block, later: false });
        versions.push(Version { locals, stack, block, turn: turn.or(first) });
        Ok((versions.len() - 1, true))
    }

    /// Whether one of those loops has both code units.
    fn peeled_with(&self, here: u32, unit: u32) -> bool {
        self.peeled.iter().any(|(region, _)| region.contains(here) && region.contains(unit))
    }

    /// The turn that edges of a turn go to; none if a first one begins.
    fn turn_at(&self, unit: u32, turn: Option<Turn>, kinds: (&[Kind], &[Kind])) -> Option<Turn> {
        let turn = turn?;
        let Some((_, is_nested)) = self.peeled.iter().find(|(region, _)| region.start == unit)
        else {
            return Some(turn);
        };
        let begun = self.joins.versions.get(&unit)?.iter().find(|v| v.block == turn.first)?;
        let is_alike = all((&begun.locals, &begun.stack), kinds, |a, b| a == b);
        (is_alike || !is_nested).then_some(Turn { later: true, ..turn })
    }
}
