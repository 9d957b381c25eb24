//! How a slot of a frame is made of the words that compiled code has left.

use crate::kind::Kind;
use crate::opcode::Special;

/// Where the words of a value are in the buffer of an exit.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Slot {
    /// NULL.
    Empty,
    /// The number, and the object if there is one.
    Int(u16, Option<u16>),
    Float(u16, Option<u16>),
    Bool(u16),
    None,
    Constant(usize),
    Object(u16),
    Range([u16; 3]),
    RangeIterator([u16; 3], bool),
    Counter([u16; 2]),
    Tuple(Vec<Slot>),
    /// A new cell with this content.
    Cell(Box<Slot>),
    /// NULL if the word is 0.
    Maybe(u16, Box<Slot>),
    /// The container, the index of the next item.
    Iterator(u16, u16, bool),
    /// The next number.
    Enumerate(u16, Box<Slot>),
    Zip(Vec<Slot>),
}

impl Slot {
    /// For a value of this kind whose words are at these places; what is left of them is returned.
    pub fn of<'a>(kind: &Kind, places: &'a [u16]) -> (Self, &'a [u16]) {
        let own = match kind {
            Kind::Tuple(_) | Kind::Zip(_) | Kind::InCell(_) => 0,
            Kind::Enumerate(_) | Kind::Maybe(_) => 1,
            _ => kind.count(),
        };
        let (own, rest) = places.split_at(own);
        let slot = match (kind, own) {
            (Kind::Int { .. }, [value, object @ ..]) => Self::Int(*value, object.first().copied()),
            (Kind::Float { .. }, [value, object @ ..]) => {
                Self::Float(*value, object.first().copied())
            }
            (Kind::Bool, [value]) => Self::Bool(*value),
            (Kind::None, _) => Self::None,
            (Kind::Constant(address), _) => Self::Constant(*address),
            (
                Kind::Object
                | Kind::Function(_)
                | Kind::Cell
                | Kind::List(_)
                | Kind::TupleObject(_)
                | Kind::Instance(_)
                | Kind::Bytes
                | Kind::ByteArray,
                [object],
            ) => Self::Object(*object),
            (Kind::Buffer { .. } | Kind::Method(..), [object, ..]) => Self::Object(*object),
            (Kind::Range { .. }, [start, stop, step]) => Self::Range([*start, *stop, *step]),
            (Kind::Counter, [next, end]) => Self::Counter([*next, *end]),
            (Kind::RangeIterator { descending }, [next, left, step]) => {
                Self::RangeIterator([*next, *left, *step], *descending)
            }
            (Kind::Iterator { backwards, .. }, [object, index]) => {
                Self::Iterator(*object, *index, *backwards)
            }
            (Kind::Maybe(kind), [bound]) => {
                let (value, rest) = Self::of(kind, rest);
                return (Self::Maybe(*bound, Box::new(value)), rest);
            }
            (Kind::InCell(kind), _) => {
                let (content, rest) = Self::of(kind, rest);
                return (Self::Cell(Box::new(content)), rest);
            }
            (Kind::Enumerate(kind), [number]) => {
                let (iterator, rest) = Self::of(kind, rest);
                return (Self::Enumerate(*number, Box::new(iterator)), rest);
            }
            (Kind::Tuple(kinds) | Kind::Zip(kinds), _) => {
                let mut places = rest;
                let mut items = Vec::with_capacity(kinds.len());
                for kind in kinds {
                    let (item, left) = Self::of(kind, places);
                    items.push(item);
                    places = left;
                }
                let is_tuple = matches!(kind, Kind::Tuple(_));
                return (if is_tuple { Self::Tuple(items) } else { Self::Zip(items) }, places);
            }
            _ => Self::Empty,
        };
        (slot, rest)
    }
}

impl Slot {
    /// Each has a state of its own, even if two have the same words.
    pub fn has_state(&self) -> bool {
        matches!(
            self,
            Self::RangeIterator(..)
                | Self::Counter(_)
                | Self::Iterator(..)
                | Self::Enumerate(..)
                | Self::Zip(_)
                | Self::Cell(_)
        )
    }
}

/// What an exit leaves.
#[derive(Debug)]
pub struct Exit {
    /// The instruction (code unit) that the interpreter executes next; for a call that is in progress, the CALL.
    pub unit: u32,
    /// For a call in progress: the code unit behind it.
    pub after: u32,
    pub locals: Vec<Slot>,
    pub stack: Vec<Slot>,
    /// How many words it stores.
    pub words: usize,
    pub cause: Cause,
    /// For a call in progress: the function that is called.
    pub callee: Slot,
    /// For a call in progress that the interpreter makes again: which value of the stack is replaced by what continues it (`Continuation`).
    pub resumes: Option<usize>,
    /// For a call of a class: the instance, whose `__init__` is in progress. For an operator: the operand whose method is.
    pub instance: Slot,
    /// The method of that operand.
    pub special: Option<Special>,
    /// The words that are references of the frame's own, to be released when the slots have theirs.
    pub owned: Vec<u16>,
    /// The instruction loads this attribute of the instance on top of the stack, which was not seen as `None` and as something else.
    pub attribute: Option<i32>,
}

/// Why compiled code is left.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Cause {
    /// An instruction that the interpreter has to execute: it overflows, raises, or gets something unforeseen.
    Guard,
    /// The interpreter has something to do: a signal, another thread, the collector.
    Poll,
    /// What follows is not compiled.
    End,
    /// Too many calls in each other.
    Depth,
    /// The function that was called was left.
    Call,
    /// A generator expression whose code is observed, or was never executed so far.
    Cold,
    /// A function that was called was left, and the interpreter calls it again.
    Repeat,
    /// A value is returned that does not fit into a machine word: the stack's only item.
    Return,
}
