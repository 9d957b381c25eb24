//! References to containers.
//!
//! *Owners*: a container in a local variable is a reference of the frame's own, and so is each one on the stack where a block starts.
//! Within a block a value on the stack may borrow: the variable or the container that it was loaded from keeps it alive until
//! `secure` is called, which happens before anything is released and before a block ends. What a callee gets is kept by its caller.
//!
//! A reference is released after all guards of its instruction, and only if no code of the program can run: `may_release` leaves
//! before the instruction otherwise. What is released all the same is kept until compiled code has been left.

use super::{Lowering, Val};
use crate::kind::Kind;
use crate::objects;
use crate::opcode as op;
use crate::python::REFERENCES;
use crate::slot::Cause;
use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::types::{I32, I64};
use cranelift_codegen::ir::{AbiParam, InstBuilder, MemFlags, Signature, Value};

/// How many values an instruction takes from the stack and uses without keeping them.
pub(super) fn consumed(opcode: u8, argument: u32) -> usize {
    match opcode {
        op::POP_TOP
        | op::TO_BOOL
        | op::YIELD_VALUE
        | op::UNARY_NOT
        | op::LIST_EXTEND
        | op::UNPACK_SEQUENCE => 1,
        op::BINARY_SUBSCR
        | op::BINARY_OP
        | op::COMPARE_OP
        | op::CONTAINS_OP
        | op::DELETE_SUBSCR
        | op::IS_OP => 2,
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
        if !self.stack.iter().skip(start).any(|value| value.owned) {
            return Vec::new();
        }
        self.secure();
        let taken: Vec<Val> = self.stack.iter().skip(start).filter(|v| v.owned).cloned().collect();
        taken.iter().for_each(|value| self.may_release(value));
        taken
    }

    /// A store releases an item, from which a value on the stack below what is consumed may be borrowed.
    pub(super) fn before_storing_item(&mut self, count: usize) {
        let below = self.stack.len().saturating_sub(count);
        if self.stack.iter().take(below).any(|v| v.kind.holds_containers() && !v.owned) {
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

    /// Has all of the stack own its containers. To be called before the instruction's first exit.
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
        if value.owned || !value.kind.holds_containers() {
            return value;
        }
        for (_, object) in value.containers() {
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

    /// Leaves if code of the program could run when the value is released.
    pub(super) fn may_release(&mut self, value: &Val) {
        if !value.owned {
            return;
        }
        for (kind, object) in value.containers() {
            if !matches!(kind, Kind::List(_) | Kind::TupleObject(_)) {
                continue; // nothing but memory is freed
            }
            let exit = self.exit_here(Cause::Guard);
            let (last, go_on) = (self.b.create_block(), self.b.create_block());
            self.b.set_cold_block(last);
            let count = self.b.ins().load(I32, MemFlags::trusted(), object, REFERENCES);
            let one = self.b.ins().icmp_imm(IntCC::Equal, count, 1);
            self.b.ins().brif(one, last, &[], go_on, &[]);
            self.b.switch_to_block(last);
            let plain = self.call_helper(objects::is_plain as *const () as usize, &[object], true);
            self.b.ins().brif(plain, go_on, &[], exit, &[]);
            self.b.switch_to_block(go_on);
        }
    }

    /// Releases what a value owns.
    pub(super) fn release(&mut self, value: &Val) {
        if !value.owned {
            return;
        }
        let flags = MemFlags::trusted();
        for (_, object) in value.containers() {
            let (last, more, go_on) =
                (self.b.create_block(), self.b.create_block(), self.b.create_block());
            self.b.set_cold_block(last);
            let count = self.b.ins().load(I32, flags, object, REFERENCES);
            let one = self.b.ins().icmp_imm(IntCC::Equal, count, 1);
            self.b.ins().brif(one, last, &[], more, &[]);
            self.b.switch_to_block(last);
            let helper = objects::free as *const () as usize;
            self.call_helper(helper, &[self.context, object], false);
            self.b.ins().jump(go_on, &[]);
            self.b.switch_to_block(more);
            let fewer = self.b.ins().iadd_imm(count, -1);
            let immortal = self.b.ins().icmp_imm(IntCC::SignedLessThan, count, 0);
            let fewer = self.b.ins().select(immortal, count, fewer);
            self.b.ins().store(flags, fewer, object, REFERENCES);
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
            old.iter().for_each(|old| self.may_release(old));
        }
    }

    /// Emits the guards for the release of all variables: a value is about to be returned, which owns what it holds.
    pub(super) fn before_returning(&mut self) {
        if !self.locals.iter().chain(&self.stack).any(|value| value.kind.holds_containers()) {
            return;
        }
        self.secure();
        let locals = self.locals.clone();
        locals.iter().for_each(|local| self.may_release(local));
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
