//! Variables outside of the frame, and where a loop that is compiled in part ends.

use super::{Flow, Lowering};
use crate::decode::Region;
use crate::kind::{Kind, Val};
use crate::resolve::Result;
use crate::slot::Cause;
use cranelift_codegen::ir::InstBuilder;

impl Lowering<'_, '_> {
    /// Whether the code unit is behind what is compiled.
    pub(super) fn is_outside(&self, unit: u32) -> bool {
        self.outside.region.is_some_and(|region| !region.contains(unit))
    }

    /// Whether compiled code can be left before an instruction that cannot be compiled: not each turn of the loop has it.
    pub(super) fn may_end(&self, unit: u32) -> bool {
        let code = self.code;
        let avoids = |region: Region| !region.contains(unit) || code.can_turn_without(region, unit);
        self.outside.innermost.is_some_and(avoids)
    }

    /// Leaves at the start of this instruction for good.
    pub(super) fn end(&mut self) -> Flow {
        let exit = self.exit_here(Cause::End);
        self.b.ins().jump(exit, &[]);
        Flow::End
    }

    /// A function cannot return from where variables are not written back.
    pub(super) fn keeps_variables(&self) -> bool {
        self.outside.stores
    }

    /// A global: a variable, or a constant.
    pub(super) fn load_global(&mut self, name: u32) -> Result<Flow> {
        if let Some(place) = self.outside.globals.get(&name) {
            return self.load(*place);
        }
        let literal = self.resolve.global(name)?;
        self.push_literal(&literal);
        Ok(Flow::Next)
    }

    pub(super) fn store_global(&mut self, name: u32) -> Result<Flow> {
        let place = self.outside.globals.get(&name).ok_or("a global is assigned")?;
        self.store_outside(*place)
    }

    /// Stores a number where there was one: nothing is released that others could see, and a dict gets no new key.
    pub(super) fn store_outside(&mut self, place: usize) -> Result<Flow> {
        let plain = |kind: &Kind| kind.is_number() || *kind == Kind::None;
        let value = self.pop()?;
        if !plain(&value.kind) || !self.locals.get(place).is_some_and(|old| plain(&old.kind)) {
            return Ok(self.leave());
        }
        self.set_local(place, value)?;
        Ok(Flow::Next)
    }

    pub(super) fn delete_global(&mut self, name: u32) -> Result<Flow> {
        let place = *self.outside.globals.get(&name).ok_or("a global is deleted")?;
        let plain = |old: &Val| old.kind.is_number() || old.kind == Kind::None;
        if !self.locals.get(place).is_some_and(plain) {
            return Ok(self.leave());
        }
        self.set_local(place, Val::plain(Kind::Unbound))?;
        Ok(Flow::Next)
    }
}
