//! References to objects that are no numbers.
//!
//! *Owners*: an object in a local variable is a reference of the frame's own, and so is each one on the stack where a block starts.
//! Within a block a value on the stack may borrow: the variable or the container that it was loaded from keeps it alive until
//! `secure` is called, which happens before anything is released and before a block ends. What a callee gets is kept by its caller.
//!
//! References are released after all guards of their instruction, and only if no code of the program can run: `may_release` leaves
//! before the instruction otherwise, of all that it releases together. A callee that changes containers may take the other references
//! away, so behind its call there is another guard (`release_after_call`).

use super::{Lowering, Val};
use crate::kind::Kind;
use crate::objects;
use crate::opcode as op;
use crate::python::REFERENCES;
use crate::slot::Cause;
use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::types::{I32, I64};
use cranelift_codegen::ir::{
    AbiParam, Block, InstBuilder, MemFlags, Signature, StackSlot, StackSlotData, StackSlotKind,
    Value,
};

/// Of so many objects it is compared whether two are the same.
const FEW: usize = 4;

/// How many values an instruction takes from the stack and uses without keeping them.
pub(super) fn consumed(opcode: u8, argument: u32) -> usize {
    match opcode {
        op::POP_TOP
        | op::TO_BOOL
        | op::YIELD_VALUE
        | op::POP_JUMP_IF_NONE
        | op::POP_JUMP_IF_NOT_NONE
        | op::UNARY_NOT
        | op::LIST_EXTEND
        | op::UNPACK_SEQUENCE => 1,
        // A method that is called is passed the object.
        op::LOAD_ATTR => 1 - (argument & 1) as usize,
        op::BINARY_SUBSCR
        | op::BINARY_OP
        | op::COMPARE_OP
        | op::CONTAINS_OP
        | op::DELETE_SUBSCR
        | op::IS_OP
        | op::STORE_ATTR => 2,
        op::STORE_SUBSCR | op::BINARY_SLICE => 3,
        op::STORE_SLICE | op::BUILD_SLICE => 4,
        op::CALL => 2 + argument as usize,
        op::CALL_KW => 3 + argument as usize,
        _ => 0,
    }
}

impl Lowering<'_, '_> {
    /// The values that the current instruction consumes and that have references of their own: guards are emitted for their release.
    pub(super) fn before_consuming(&mut self, count: usize) -> Vec<Val> {
        let start = self.stack.len().saturating_sub(count);
        let taken = self.owned(count);
        if taken.is_empty() || self.is_handed_on(start, &taken) {
            return taken;
        }
        self.secure();
        let taken = self.owned(count);
        self.may_release(&taken);
        taken
    }

    /// Of so many values on top of the stack those that have references of their own.
    pub(super) fn owned(&self, count: usize) -> Vec<Val> {
        let start = self.stack.len().saturating_sub(count);
        self.stack.iter().skip(start).filter(|value| value.owned).cloned().collect()
    }

    /// Whether what is consumed is a value alone that a list or an instance gets, which has another reference then.
    fn is_handed_on(&self, start: usize, taken: &[Val]) -> bool {
        let [value] = taken else { return false };
        let place = start + 1; // the container is above the value
        let keeps = |container: &Val| match self.instruction.opcode {
            op::STORE_SUBSCR => matches!(container.kind, Kind::List(_)),
            op::STORE_ATTR => matches!(container.kind, Kind::Instance(_)),
            _ => false,
        };
        value.kind.is_reference()
            && self.stack.get(start).is_some_and(|first| first.owned)
            && self.stack.get(place).is_some_and(keeps)
    }

    /// A store releases an item, from which a value on the stack below what is consumed may be borrowed.
    pub(super) fn before_storing_item(&mut self, count: usize) {
        let below = self.stack.len().saturating_sub(count);
        if self.stack.iter().take(below).any(|v| v.kind.holds_objects() && !v.owned) {
            self.secure();
        }
    }

    /// Releases them. A result that was borrowed from one of them gets a reference of its own.
    pub(super) fn after_consuming(&mut self, taken: &[Val]) {
        if taken.is_empty() {
            return;
        }
        self.own_stack();
        taken.iter().for_each(|value| self.release(value));
    }

    /// Has all of the stack own its objects. To be called before the instruction's first exit.
    pub(super) fn secure(&mut self) {
        self.own_stack();
        for (value, before) in self.stack.iter().zip(&mut self.before.1) {
            before.owned = value.owned;
        }
    }

    /// The same where no exit follows.
    pub(super) fn own_stack(&mut self) {
        for index in 0..self.stack.len() {
            let Some(value) = self.stack.get(index).cloned() else { return };
            let value = self.own(value);
            if let Some(place) = self.stack.get_mut(index) {
                *place = value;
            }
        }
    }

    /// The value with references of its own.
    pub(super) fn own(&mut self, value: Val) -> Val {
        if value.owned || !value.kind.holds_objects() {
            return value;
        }
        for (_, object) in value.objects() {
            self.keep(object);
        }
        Val { owned: true, ..value }
    }

    /// One reference more. The count of an immortal object does not change.
    pub(super) fn keep(&mut self, object: Value) {
        let flags = MemFlags::trusted();
        let count = self.b.ins().load(I32, flags, object, REFERENCES);
        let more = self.b.ins().iadd_imm(count, 1);
        let immortal = self.b.ins().icmp_imm(IntCC::SignedLessThan, count, 0);
        let more = self.b.ins().select(immortal, count, more);
        self.b.ins().store(flags, more, object, REFERENCES);
    }

    /// Leaves if code of the program could run when the values are released.
    pub(super) fn may_release(&mut self, values: &[Val]) {
        let exit = |this: &mut Self| this.exit_here(Cause::Guard);
        self.guard_release(values, exit);
    }

    /// Goes to an exit if code of the program could run when the values are released.
    fn guard_release(&mut self, values: &[Val], exit: impl FnOnce(&mut Self) -> Block) {
        let owned = values.iter().filter(|value| value.owned).flat_map(Val::objects);
        // Of these nothing but memory is freed.
        let is_memory = |kind: &Kind| matches!(kind, Kind::Bytes | Kind::ByteArray);
        let objects: Vec<Value> =
            owned.filter(|(kind, _)| !is_memory(kind)).map(|(_, object)| object).collect();
        if objects.is_empty() {
            return;
        }
        let exit = exit(self);
        let (last, go_on) = (self.cold_block(), self.b.create_block());
        let may_be_last = self.may_be_last(&objects);
        self.b.ins().brif(may_be_last, last, &[], go_on, &[]);
        self.b.switch_to_block(last);
        let plain = if let [object] = objects[..] {
            self.call_helper(objects::is_plain as *const () as usize, &[object], true)
        } else {
            let slot = self.slot_for(objects.len());
            for (index, object) in objects.iter().enumerate() {
                self.b.ins().stack_store(*object, slot, 8 * index as i32);
            }
            let place = self.b.ins().stack_addr(I64, slot, 0);
            let count = self.int(objects.len() as i64);
            self.call_helper(objects::all_plain as *const () as usize, &[place, count], true)
        };
        self.b.ins().brif(plain, go_on, &[], exit, &[]);
        self.b.switch_to_block(go_on);
    }

    /// Memory for so many objects.
    fn slot_for(&mut self, count: usize) -> StackSlot {
        let size = 8 * count as u32;
        let slot = if let Some(slot) = self.released {
            slot
        } else {
            let data = StackSlotData::new(StackSlotKind::ExplicitSlot, size, 3);
            *self.released.insert(self.b.create_sized_stack_slot(data))
        };
        let data = &mut self.b.func.sized_stack_slots[slot];
        data.size = data.size.max(size);
        slot
    }

    /// A condition: at least one of these references may be the last one when the others are released.
    fn may_be_last(&mut self, objects: &[Value]) -> Value {
        let mut any = None;
        let mut either = |this: &mut Self, condition: Value| {
            any = Some(any.map_or(condition, |any| this.b.ins().bor(any, condition)));
        };
        let mut distinct: Vec<Value> = objects.to_vec();
        distinct.sort_unstable();
        distinct.dedup();
        let are_few = distinct.len() <= FEW;
        for (index, object) in distinct.iter().enumerate() {
            let count = self.b.ins().load(I32, MemFlags::trusted(), *object, REFERENCES);
            let own = objects.iter().filter(|other| *other == object).count();
            let most = if are_few { own } else { objects.len() };
            let last = self.b.ins().icmp_imm(IntCC::UnsignedLessThanOrEqual, count, most as i64);
            either(self, last);
            for other in distinct.iter().skip(index + 1).filter(|_| are_few) {
                let same = self.b.ins().icmp(IntCC::Equal, *object, *other);
                either(self, same);
            }
        }
        any.unwrap_or(self.context)
    }

    /// Releases what a call of a compiled function that changes containers has consumed, with its result on the stack. Leaves behind the
    /// call, as the instruction's last exit, if code of the program could run then.
    pub(super) fn release_after_call(&mut self) {
        let taken = std::mem::take(&mut self.taken);
        if taken.is_empty() {
            return;
        }
        self.own_stack();
        let instruction = self.instruction;
        let exit = |this: &mut Self| {
            this.instruction.start = instruction.next;
            let (locals, stack) = (this.locals.clone(), this.stack.clone());
            let exit = this.exit(locals, stack, Cause::Guard, None, taken.clone());
            this.instruction = instruction;
            exit
        };
        self.guard_release(&taken, exit);
        self.after_consuming(&taken);
    }

    /// Releases what a value owns.
    pub(super) fn release(&mut self, value: &Val) {
        if !value.owned {
            return;
        }
        let flags = MemFlags::trusted();
        for (_, object) in value.objects() {
            let (last, more, go_on) =
                (self.cold_block(), self.b.create_block(), self.b.create_block());
            let count = self.b.ins().load(I32, flags, object, REFERENCES);
            let one = self.b.ins().icmp_imm(IntCC::Equal, count, 1);
            self.b.ins().brif(one, last, &[], more, &[]);
            self.b.switch_to_block(last);
            self.call_helper(objects::free as *const () as usize, &[object], false);
            self.b.ins().jump(go_on, &[]);
            self.b.switch_to_block(more);
            self.drop_shared(object, count);
            self.b.ins().jump(go_on, &[]);
            self.b.switch_to_block(go_on);
        }
    }

    /// Puts a value into a local variable. The guards for the release of the old one were emitted.
    pub(super) fn replace_local(&mut self, index: usize, value: Val) -> crate::resolve::Result<()> {
        let value = self.own(value);
        let old = self.set_local(index, value)?;
        self.release(&old);
        Ok(())
    }

    /// Emits the guards for new values of local variables.
    pub(super) fn before_replacing(&mut self, indices: &[usize]) {
        let old: Vec<Val> =
            indices.iter().filter_map(|index| self.locals.get(*index)).cloned().collect();
        if old.iter().any(|old| old.owned) {
            self.secure();
            self.may_release(&old);
        }
    }

    /// Emits the guards for the release of all variables: a value is about to be returned, which owns what it holds.
    pub(super) fn before_returning(&mut self) {
        if !self.locals.iter().chain(&self.stack).any(|value| value.kind.holds_objects()) {
            return;
        }
        self.secure();
        let locals = self.locals.clone();
        // That a running loop is left where it returns does not count against it.
        let cause = if self.source.takes_over { Cause::End } else { Cause::Guard };
        self.guard_release(&locals, |this| this.exit_here(cause));
    }

    pub(super) fn release_locals(&mut self) {
        let locals = self.locals.clone();
        locals.iter().for_each(|local| self.release(local));
    }

    /// Calls a function of `objects`, whose arguments and result are words.
    pub(super) fn call_helper(
        &mut self,
        address: usize,
        arguments: &[Value],
        result: bool,
    ) -> Value {
        let mut signature = Signature::new(self.call_conv);
        for argument in arguments {
            signature.params.push(AbiParam::new(self.b.func.dfg.value_type(*argument)));
        }
        signature.returns.extend(result.then_some(AbiParam::new(I64)));
        let signature = self.signature(signature);
        let address = self.int(address as i64);
        let call = self.b.ins().call_indirect(signature, address, arguments);
        self.b.inst_results(call).first().copied().unwrap_or(address)
    }
}
