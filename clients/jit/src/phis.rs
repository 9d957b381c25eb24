//! Parameters of blocks that only ever are one value. Lowering gives each block all variables. Cranelift removes parameters that are
//! one value from outside of all parameters; here the value may be a parameter of another block, as that of a loop around is.

use crate::bounds::{Fact, Facts};
use cranelift_codegen::entity::SecondaryMap;
use cranelift_codegen::ir::{Block, BlockArg, Function, Inst, Value};
use smallvec::SmallVec;

/// What a branch passes to a block.
#[derive(Clone)]
struct Edge {
    branch: Inst,
    /// Among the destinations of the branch.
    index: usize,
    arguments: SmallVec<[Value; 16]>,
}

/// Replaces them, in all instructions, by their values.
pub fn remove(func: &mut Function, facts: &mut Facts) {
    let mut edges = edges(func);
    let blocks: Vec<Block> = func.layout.blocks().collect();
    // By parameter; the value may have been replaced itself.
    let mut replaced: SecondaryMap<Value, Option<Value>> = SecondaryMap::new();
    let mut changed = true;
    while changed {
        changed = false;
        for block in &blocks {
            for (place, parameter) in func.dfg.block_params(*block).iter().enumerate() {
                if replaced[*parameter].is_some() {
                    continue;
                }
                let passed = edges[*block].iter_mut().map(|edge| {
                    let argument = &mut edge.arguments[place];
                    while let Some(value) = replaced[*argument] {
                        *argument = value;
                    }
                    *argument
                });
                replaced[*parameter] = only(passed, *parameter);
                changed |= replaced[*parameter].is_some();
            }
        }
    }
    for block in blocks {
        let parameters = func.dfg.detach_block_params(block);
        let kept: Vec<Value> = parameters.as_slice(&func.dfg.value_lists).to_vec();
        for parameter in &kept {
            match replaced[*parameter] {
                None => func.dfg.attach_block_param(block, *parameter),
                Some(value) => func.dfg.change_to_alias(*parameter, value),
            }
        }
        let is_kept = |place: &usize| replaced[kept[*place]].is_none();
        for edge in &edges[block] {
            let places = (0..kept.len()).filter(is_kept);
            let arguments: SmallVec<[BlockArg; 16]> =
                places.map(|place| BlockArg::Value(edge.arguments[place])).collect();
            let dfg = &mut func.dfg;
            let branch = &mut dfg.insts[edge.branch];
            let destinations =
                branch.branch_destination_mut(&mut dfg.jump_tables, &mut dfg.exception_tables);
            let call = &mut destinations[edge.index];
            call.clear(&mut dfg.value_lists);
            call.extend(arguments, &mut dfg.value_lists);
        }
    }
    for fact in facts.values_mut() {
        if let Fact::RemainderBy(divisor) = fact {
            *divisor = func.dfg.resolve_aliases(*divisor);
        }
    }
    func.dfg.resolve_all_aliases();
}

fn edges(func: &Function) -> SecondaryMap<Block, Vec<Edge>> {
    let mut edges: SecondaryMap<Block, Vec<Edge>> = SecondaryMap::new();
    for block in func.layout.blocks() {
        let Some(branch) = func.layout.last_inst(block) else { continue };
        let dfg = &func.dfg;
        let destinations =
            dfg.insts[branch].branch_destination(&dfg.jump_tables, &dfg.exception_tables);
        for (index, call) in destinations.iter().enumerate() {
            let arguments = call.args(&dfg.value_lists).filter_map(|a| a.as_value()).collect();
            edges[call.block(&dfg.value_lists)].push(Edge { branch, index, arguments });
        }
    }
    edges
}

/// The one value that is passed beside the parameter itself.
fn only(passed: impl Iterator<Item = Value>, parameter: Value) -> Option<Value> {
    let mut others = passed.filter(|value| *value != parameter);
    let first = others.next()?;
    others.all(|value| value == first).then_some(first)
}
