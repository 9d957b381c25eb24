//! Operators of instances: calls of the methods that their classes have for them.

use super::int::operator;
use super::{Flow, Lowering};
use crate::kind::Kind;
use crate::opcode::Special;
use crate::resolve::Result;

impl Lowering<'_, '_> {
    /// Whether one of so many values on top of the stack is an instance.
    pub(super) fn takes_instance(&self, count: usize) -> bool {
        let mut values = self.stack.iter().rev().take(count);
        values.any(|value| matches!(value.kind, Kind::Instance(_)))
    }

    /// An operator of which an operand is an instance. If both are, its method is that of the left one.
    pub(super) fn instance_operator(&mut self, special: Special) -> Result<Flow> {
        let is_power = |operator| operator == operator::POWER;
        if matches!(special, Special::Binary { operator, .. } if is_power(operator)) {
            return Err("** of an instance".into());
        }
        let count = if special == Special::Negative { 1 } else { 2 };
        self.before_special(count);
        let last = self.pop()?;
        let first = if count == 2 { Some(self.pop()?) } else { None };
        let is_instance = |kind: &Kind| matches!(kind, Kind::Instance(_));
        let (special, object, other, depth) = match (special, first) {
            (_, Some(first)) if is_instance(&first.kind) => (special, first, Some(last), 2),
            (Special::Binary { operator, in_place, .. }, Some(first)) => {
                (Special::Reflected { operator, in_place }, last, Some(first), 1)
            }
            (_, Some(first)) => return self.refuse("a comparison", &[&first, &last]),
            (_, None) => (special, last, None, 1),
        };
        let is_known = |kind: &Kind| kind.is_number() || *kind == Kind::None || is_instance(kind);
        if let Some(other) = other.as_ref().filter(|other| !is_known(&other.kind)) {
            return self.refuse("an operator", &[&object, other]);
        }
        let (result, stores) = self.call_special(special, object, other.as_slice(), depth)?;
        if matches!(special, Special::Comparison(_)) && result.kind != Kind::Bool {
            return self.refuse("a comparison whose method returns", &[&result]);
        }
        self.stack.push(result);
        if stores {
            self.release_after_call();
        }
        Ok(Flow::Next)
    }
}
