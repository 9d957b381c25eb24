//! Branches on what a branch before them has decided. Cranelift merges equal conditions, but leaves the branches on them.

use cranelift_codegen::dominator_tree::DominatorTree;
use cranelift_codegen::flowgraph::ControlFlowGraph;
use cranelift_codegen::ir::{Block, Function, Inst, InstructionData, Opcode, Value};
use std::collections::HashMap;

/// A branch, and the block that it ends.
type Branch = (Inst, Block);

/// Makes jumps of them. Whether there were any.
pub fn decide(func: &mut Function, cfg: &ControlFlowGraph, dominators: &DominatorTree) -> bool {
    let mut branches: HashMap<Value, Vec<Branch>> = HashMap::new();
    for block in dominators.cfg_rpo().copied() {
        let Some(inst) = func.layout.last_inst(block) else { continue };
        if let InstructionData::Brif { arg, .. } = func.dfg.insts[inst] {
            branches.entry(arg).or_default().push((inst, block));
        }
    }
    let mut jumps = Vec::new();
    for alike in branches.values() {
        for (number, (inst, block)) in alike.iter().enumerate() {
            let above = alike[..number].iter();
            let mut decided = above.filter_map(|(branch, _)| {
                let targets = destinations(func, *branch)?;
                let is_taken = |target: Block| {
                    cfg.pred_iter(target).count() == 1
                        && dominators.dominates(target, *block, &func.layout)
                };
                (0..2).find(|taken| targets[0] != targets[1] && is_taken(targets[*taken]))
            });
            jumps.extend(decided.next().map(|taken| (*inst, taken)));
        }
    }
    for (inst, taken) in &jumps {
        if let InstructionData::Brif { blocks, .. } = func.dfg.insts[*inst] {
            let (opcode, destination) = (Opcode::Jump, blocks[*taken]);
            func.dfg.insts[*inst] = InstructionData::Jump { opcode, destination };
        }
    }
    !jumps.is_empty()
}

/// Where it goes if its condition holds, and otherwise.
fn destinations(func: &Function, branch: Inst) -> Option<[Block; 2]> {
    let InstructionData::Brif { blocks, .. } = func.dfg.insts[branch] else { return None };
    Some(blocks.map(|call| call.block(&func.dfg.value_lists)))
}
