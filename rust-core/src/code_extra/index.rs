//! What an index is made of, so that one that is out of use is distinguished from its
//! successor and from another interpreter's.
//!
//! ```text
//!   63   62 ........ 42   41 ............ 20   19 ......... 0
//!  ┌────┬──────────────┬────────────────────┬────────────────┐
//!  │ 0  │  generation  │  interpreter's tag │      slot      │
//!  └────┴──────────────┴────────────────────┴────────────────┘
//! ```
//!
//! The main interpreter's tag is 0, and a slot's first generation too: there the
//! first indices are 0, 1, 2 and so on, as in stock CPython. Callers must take an
//! index as opaque all the same.

const SLOT_BITS: u32 = 20;
const TAG_BITS: u32 = 22;
const GENERATION_BITS: u32 = 21;

/// How many indices one interpreter can have in use at once.
pub(super) const MOST_INDICES: usize = 1 << SLOT_BITS;

/// Used where no index was handed out yet. No index has this value.
pub const NO_INDEX: isize = -1;

const ONE_GENERATION: usize = 1 << (SLOT_BITS + TAG_BITS);
const LAST_GENERATION: usize = (1 << GENERATION_BITS) - 1;
const LAST_TAG: usize = (1 << TAG_BITS) - 1;

/// Set in a key whose index was released. It is the sign bit, which is clear in every index.
const GONE: usize = 1 << 63;

/// An index that may or may not be in use.
///
/// # Invariants
/// The highest bit is clear, and the generation is not the last.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Index(usize);

impl Index {
    /// `None` for a number that is never an index: negative, or too large.
    pub fn from_raw(raw: isize) -> Option<Self> {
        // INVARIANT: checked here, both parts at once.
        let index = Index(raw as usize);
        (index.generation() < LAST_GENERATION).then_some(index)
    }

    /// The index that a slot gives when it is used for the first time.
    pub fn first(tag: Tag, slot: usize) -> Self {
        // INVARIANT: both parts are far below the highest bit.
        Index(tag.0 << SLOT_BITS | (slot & (MOST_INDICES - 1)))
    }

    /// The index that the same slot gives next; `None` when it has no more.
    pub fn successor(self) -> Option<Self> {
        // INVARIANT: the generation stays within its bits, and below the last.
        (self.generation() + 1 < LAST_GENERATION).then_some(Index(self.0 + ONE_GENERATION))
    }

    pub fn raw(self) -> isize {
        self.0 as isize
    }

    pub fn slot(self) -> usize {
        self.0 & (MOST_INDICES - 1)
    }

    pub fn generation(self) -> usize {
        self.0 >> (SLOT_BITS + TAG_BITS)
    }

    pub fn tag(self) -> Tag {
        Tag(self.0 >> SLOT_BITS & LAST_TAG)
    }
}

/// Distinguishes the indices of interpreters.
///
/// # Invariants
/// At most [`LAST_TAG`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Tag(usize);

impl Tag {
    /// The tag of the interpreter with this id. Ids are never used again, so
    /// tags repeat only after four million interpreters.
    pub fn of_interpreter(id: i64) -> Self {
        match id {
            0 => Tag(0),
            // INVARIANT: 1 to LAST_TAG.
            _ => Tag(1 + (id as u64 % LAST_TAG as u64) as usize),
        }
    }
}

/// An index in a table or in the registry: in use, or released.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Key(pub usize);

impl Key {
    /// Used where no index was put yet. Equal to no index, and to no other
    /// key, because no index has the last generation.
    pub(super) const EMPTY: Key = Key(i32::MIN as usize);

    pub fn live(index: Index) -> Self {
        Key(index.0)
    }

    pub fn gone(index: Index) -> Self {
        Key(index.0 | GONE)
    }

    /// The index, released or not. Not for [`Key::EMPTY`].
    pub fn index(self) -> Index {
        // INVARIANT: the highest bit is cleared.
        Index(self.0 & !GONE)
    }
}
