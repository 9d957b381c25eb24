//! Instructions that turn out not to be compiled when a part of their code was emitted: that part is not reached.

use super::{Flow, Lowering};
use crate::slot::Cause;
use cranelift_codegen::cursor::{Cursor, FuncCursor};
use cranelift_codegen::ir::{Block, Inst, InstBuilder, TrapCode};
use smallvec::SmallVec;

/// Where the code of an instruction begins, and what is changed as it is emitted.
pub(super) struct Mark {
    block: Option<Block>,
    last: Option<Inst>,
    blocks: usize,
    pending: usize,
    /// Of what is on the stack.
    owned: SmallVec<[bool; 8]>,
    stores: bool,
    stores_cells: bool,
}

impl Lowering<'_, '_> {
    pub(super) fn mark(&self) -> Mark {
        let block = self.b.current_block();
        Mark {
            block,
            last: block.and_then(|block| self.b.func.layout.last_inst(block)),
            blocks: self.b.func.dfg.num_blocks(),
            pending: self.pending.len(),
            owned: self.before.1.iter().map(|value| value.owned).collect(),
            stores: self.stores,
            stores_cells: self.stores_cells,
        }
    }

    /// Leaves at the start of this instruction, in the place of the code that was emitted since the mark: it may own, make or change
    /// something, and blocks of it may have no end.
    pub(super) fn leave_instead(&mut self, mark: &Mark, cause: Cause) -> Flow {
        let layout = &self.b.func.layout;
        let first = match mark.last {
            Some(last) => layout.next_inst(last),
            None => mark.block.and_then(|block| layout.first_inst(block)),
        };
        let (Some(block), Some(first)) = (mark.block, first) else {
            let exit = self.exit_here(cause);
            self.b.ins().jump(exit, &[]);
            return Flow::End;
        };
        self.abandon(mark);
        let unreached = self.b.create_block();
        self.b.func.layout.split_block(unreached, first);
        for (value, owned) in self.before.1.iter_mut().zip(&mark.owned) {
            value.owned = *owned;
        }
        (self.stores, self.stores_cells) = (mark.stores, mark.stores_cells);
        self.exits_here.clear();
        let exit = self.exit_here(cause);
        FuncCursor::new(self.b.func).at_bottom(block).ins().jump(exit, &[]);
        Flow::End
    }

    /// Gives each block since then an end, unless it gets one later. No exits and edges are left of them.
    fn abandon(&mut self, mark: &Mark) {
        let is_kept = |block: Block| (block.as_u32() as usize) < mark.blocks;
        self.pending.truncate(mark.pending);
        for (_, arrivals) in self.joins.arrivals.values_mut() {
            arrivals.retain(|arrival| is_kept(arrival.from));
        }
        self.joins.arrivals.retain(|_, (_, arrivals)| !arrivals.is_empty());
        // The current one first: it is to have its end before another one is current.
        let current = self.b.current_block();
        let since = (mark.blocks..self.b.func.dfg.num_blocks()).map(|n| Block::from_u32(n as u32));
        for block in current.into_iter().chain(since) {
            if !self.has_end(block) {
                self.b.switch_to_block(block);
                self.b.ins().trap(TrapCode::unwrap_user(1));
            }
        }
    }

    fn has_end(&self, block: Block) -> bool {
        let last = self.b.func.layout.last_inst(block);
        last.is_some_and(|last| self.b.func.dfg.insts[last].opcode().is_terminator())
    }
}
