//! What is known of a value while code is compiled, and how it lies in machine words.

use cranelift_codegen::ir::types::{Type, F64, I64};
use cranelift_codegen::ir::Value;
use smallvec::SmallVec;
use std::collections::BTreeMap;
use std::sync::Mutex;

/// After so many names of classes all are forgotten.
const MOST_NAMES: usize = 1024;

/// For people: the names of classes by address.
static CLASS_NAMES: Mutex<BTreeMap<usize, String>> = Mutex::new(BTreeMap::new());

/// Notes the name of a class, of which there is none at that address any more if it had another one.
pub fn name_class(class: usize, name: String) {
    if let Ok(mut names) = CLASS_NAMES.lock() {
        if names.len() >= MOST_NAMES {
            names.clear();
        }
        names.insert(class, name);
    }
}

/// What calls of a function depend on, beside its cells and defaults: the addresses of its code, globals and builtins.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Callable {
    pub code: usize,
    pub globals: usize,
    pub builtins: usize,
}

/// The type of a value, exact at each point of compiled code: a block is compiled once for each combination that reaches it.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Kind {
    /// A local variable without a value.
    Unbound,
    /// A local variable that has a number, or no value: first a word that is 0 if it has none.
    Maybe(Box<Kind>),
    /// A local variable of a generator expression too: the words of its value, which the interpreter has in a cell.
    InCell(Box<Kind>),
    /// NULL on the evaluation stack.
    Null,
    /// An exact int of 64 bits. `object`: a second word has the object that it was read from, borrowed, or 0.
    Int {
        object: bool,
    },
    /// An exact float, likewise.
    Float {
        object: bool,
    },
    /// 0 or 1.
    Bool,
    None,
    /// An object whose address is known: a constant of the code, or a global that is checked at each entry.
    Constant(usize),
    /// A borrowed argument of which nothing else is known. One word.
    Object,
    /// A function, borrowed: an argument, or what a cell contains. One word.
    Function(Callable),
    /// A method of an exact list, by its definition, and the list's kind: the object, then the list.
    Method(usize, Box<Kind>),
    /// A cell of the function's closure, or in a slot of a loop's frame, borrowed. One word.
    Cell,
    /// Start, stop, step. The sign of the step is the direction.
    Range {
        descending: bool,
    },
    /// The next value, how many are left (unsigned), step.
    RangeIterator {
        descending: bool,
    },
    /// Of a range whose step is 1: the next value and the end. It is exhausted if that is no greater.
    Counter,
    /// A tuple that is no object: the words of its items.
    Tuple(Vec<Kind>),
    /// An iterator over a container of this kind: the object, then the index of the next item. A value on the stack, never one of a variable:
    /// no two values are one iterator.
    Iterator {
        of: Box<Kind>,
        backwards: bool,
    },
    /// `enumerate` of an iterator: the next number, then the iterator.
    Enumerate(Box<Kind>),
    /// `zip` of iterators.
    Zip(Vec<Kind>),
    /// An exact list, and what its items were when it was looked at: each load compares. One word, the object.
    List(Box<Kind>),
    /// An exact tuple that is an object, and what its items were when it was looked at: one kind for all of them, however many there are, or
    /// one for each. Loads compare kinds, and a length that is known is compared where the tuple becomes known. One word.
    TupleObject(Vec<Kind>),
    /// An object of the class with this address. What its attributes are is known of the class (`instances`). One word.
    Instance(usize),
    /// An exact bytes object, likewise.
    Bytes,
    ByteArray,
    /// A borrowed argument that is an array or a memoryview of items of this format: the object, where they are, and how many.
    Buffer {
        array: bool,
        format: u8,
        readonly: bool,
    },
}

pub const INT: Kind = Kind::Int { object: false };
pub const FLOAT: Kind = Kind::Float { object: false };

impl Kind {
    /// An int or a bool, whose first word is the number.
    pub fn is_int(&self) -> bool {
        matches!(self, Self::Int { .. } | Self::Bool)
    }

    pub fn is_float(&self) -> bool {
        matches!(self, Self::Float { .. })
    }

    pub fn is_number(&self) -> bool {
        self.is_int() || self.is_float()
    }

    /// What the items of a tuple of these kinds are: one kind if they are alike.
    pub fn tuple_of(items: Vec<Kind>) -> Self {
        let Some(first) = items.first() else { return Self::TupleObject(vec![Self::Object]) };
        if items.iter().all(|item| item.is_like(first)) {
            return Self::TupleObject(vec![items
                .iter()
                .fold(first.clone(), |all, item| all.join(item))]);
        }
        Self::TupleObject(items)
    }

    /// A container: its word is an object, to which compiled code has a reference or borrows one.
    pub fn is_container(&self) -> bool {
        matches!(self, Self::List(_) | Self::TupleObject(_) | Self::Bytes | Self::ByteArray)
    }

    /// A container, an array or an instance: its first word is an object.
    pub fn is_reference(&self) -> bool {
        self.is_container() || matches!(self, Self::Buffer { .. } | Self::Instance(_))
    }

    /// Whether its first word is an object to which compiled code may have a reference.
    pub fn is_counted(&self) -> bool {
        matches!(self, Self::Object | Self::Function(_) | Self::Method(..)) || self.is_reference()
    }

    /// Whether there is such an object in it.
    pub fn holds_objects(&self) -> bool {
        match self {
            Self::Tuple(items) | Self::Zip(items) => items.iter().any(Self::holds_objects),
            Self::Enumerate(inner) | Self::InCell(inner) => inner.holds_objects(),
            Self::Iterator { .. } => true,
            other => other.is_counted(),
        }
    }

    /// What a loop calls for each of its turns.
    pub fn is_iterator(&self) -> bool {
        matches!(
            self,
            Self::RangeIterator { .. }
                | Self::Counter
                | Self::Iterator { .. }
                | Self::Enumerate(_)
                | Self::Zip(_)
        )
    }

    /// The types of the machine words, in order.
    pub fn words(&self, out: &mut SmallVec<[Type; 4]>) {
        match self {
            Self::Unbound | Self::Null | Self::None | Self::Constant(_) => {}
            Self::Maybe(kind) => {
                out.push(I64);
                kind.words(out);
            }
            Self::InCell(kind) => kind.words(out),
            Self::Int { object } => out.extend(std::iter::repeat_n(I64, 1 + usize::from(*object))),
            Self::Float { object } => {
                out.push(F64);
                out.extend(object.then_some(I64));
            }
            Self::Bool
            | Self::Object
            | Self::Function(_)
            | Self::Cell
            | Self::List(_)
            | Self::TupleObject(_)
            | Self::Instance(_)
            | Self::Bytes
            | Self::ByteArray => out.push(I64),
            Self::Range { .. } | Self::RangeIterator { .. } | Self::Buffer { .. } => {
                out.extend([I64; 3]);
            }
            Self::Iterator { .. } | Self::Counter | Self::Method(..) => out.extend([I64; 2]),
            Self::Enumerate(iterator) => {
                out.push(I64);
                iterator.words(out);
            }
            Self::Tuple(items) | Self::Zip(items) => items.iter().for_each(|item| item.words(out)),
        }
    }

    /// The number of machine words.
    pub fn count(&self) -> usize {
        let mut words = SmallVec::new();
        self.words(&mut words);
        words.len()
    }

    /// Without regard to whether an object is known.
    pub fn is_like(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Int { .. }, Self::Int { .. }) | (Self::Float { .. }, Self::Float { .. }) => true,
            (Self::InCell(a), Self::InCell(b)) => a.can_join(b),
            (Self::Method(a, list), Self::Method(b, other)) => a == b && list.is_like(other),
            (Self::Tuple(a), Self::Tuple(b)) => {
                a.len() == b.len() && a.iter().zip(b).all(|(a, b)| a.is_like(b))
            }
            // What is in a list is only expected, so nothing is as good as something.
            (Self::List(a), Self::List(b)) => {
                **a == Self::Object || **b == Self::Object || a.is_like(b)
            }
            (Self::TupleObject(a), Self::TupleObject(b)) => match (&a[..], &b[..]) {
                ([Self::Object], [_]) | ([_], [Self::Object]) => true,
                _ => a.len() == b.len() && a.iter().zip(b).all(|(a, b)| a.is_like(b)),
            },
            _ => self == other,
        }
    }

    /// Whether one kind covers both: they are alike, or one is that of a variable without a value.
    pub fn can_join(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Maybe(a), Self::Maybe(b)) => a.is_like(b),
            (Self::Maybe(a), b) | (b, Self::Maybe(a)) => *b == Self::Unbound || a.is_like(b),
            (Self::Unbound, b) | (b, Self::Unbound) => *b == Self::Unbound || b.is_number(),
            _ => self.is_like(other),
        }
    }

    /// Whether a value of kind `other` can be passed where this kind is expected: the missing object is 0.
    pub fn covers(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Int { object: wide }, Self::Int { object })
            | (Self::Float { object: wide }, Self::Float { object }) => *wide || !*object,
            (Self::Maybe(a), Self::Maybe(b)) | (Self::InCell(a), Self::InCell(b)) => a.covers(b),
            (Self::Maybe(a), b) => *b == Self::Unbound || a.covers(b),
            (Self::Method(a, list), Self::Method(b, other)) => a == b && list.covers(other),
            (Self::Tuple(a), Self::Tuple(b)) => {
                a.len() == b.len() && a.iter().zip(b).all(|(a, b)| a.covers(b))
            }
            (Self::List(a), Self::List(b)) => **b == Self::Object || a.covers(b),
            (Self::TupleObject(a), Self::TupleObject(b)) => {
                let all = || a.len() == b.len() && a.iter().zip(b).all(|(a, b)| a.covers(b));
                matches!((&a[..], &b[..]), ([_], [Self::Object])) || all()
            }
            _ => self == other,
        }
    }

    /// The kind that covers this one and another one that it can be joined with.
    pub fn join(&self, other: &Self) -> Self {
        match (self, other) {
            (Self::Unbound, Self::Unbound) => Self::Unbound,
            (Self::Maybe(a), Self::Maybe(b)) => Self::Maybe(Box::new(a.join(b))),
            (Self::InCell(a), Self::InCell(b)) => Self::InCell(Box::new(a.join(b))),
            (Self::Method(a, list), Self::Method(_, other)) => {
                Self::Method(*a, Box::new(list.join(other)))
            }
            (Self::Maybe(_), Self::Unbound) => self.clone(),
            (Self::Maybe(a), b) => Self::Maybe(Box::new(a.join(b))),
            (a, Self::Maybe(_)) => other.join(a),
            (Self::Unbound, kind) | (kind, Self::Unbound) => Self::Maybe(Box::new(kind.clone())),
            (Self::Tuple(a), Self::Tuple(b)) => {
                Self::Tuple(a.iter().zip(b).map(|(a, b)| a.join(b)).collect())
            }
            (Self::List(a), Self::List(b)) if **b != Self::Object && **a != Self::Object => {
                Self::List(Box::new(a.join(b)))
            }
            (Self::TupleObject(a), Self::TupleObject(b))
                if a[..] != [Self::Object] && b[..] != [Self::Object] =>
            {
                Self::TupleObject(a.iter().zip(b).map(|(a, b)| a.join(b)).collect())
            }
            _ if self.covers(other) => self.clone(),
            _ => other.clone(),
        }
    }

    /// The kind that covers all that are like this one.
    pub fn widest(&self) -> Self {
        match self {
            Self::Int { .. } => Self::Int { object: true },
            Self::Float { .. } => Self::Float { object: true },
            Self::Maybe(kind) => Self::Maybe(Box::new(kind.widest())),
            Self::InCell(kind) => Self::InCell(Box::new(kind.widest())),
            Self::Tuple(items) => Self::Tuple(items.iter().map(Self::widest).collect()),
            other => other.clone(),
        }
    }

    /// Calls `found` for each of these objects among the words of a value of this kind; the words that are left.
    pub fn find_objects<'w, W>(
        &self,
        words: &'w [W],
        found: &mut impl FnMut(&Kind, &W),
    ) -> &'w [W] {
        let (counted, words_of_its_own) = match self {
            Self::Tuple(items) | Self::Zip(items) => {
                return items.iter().fold(words, |words, item| item.find_objects(words, found));
            }
            Self::Enumerate(iterator) => {
                return iterator.find_objects(words.get(1..).unwrap_or(&[]), found);
            }
            Self::InCell(kind) => return kind.find_objects(words, found),
            Self::Iterator { of, .. } => (Some(&**of), 2),
            kind => (kind.is_counted().then_some(kind), kind.count()),
        };
        if let (Some(kind), Some(word)) = (counted, words.first()) {
            found(kind, word);
        }
        words.get(words_of_its_own..).unwrap_or(&[])
    }

    /// How deep containers, and tuples, are in each other.
    pub fn depth(&self) -> usize {
        match self {
            Self::List(items) => 1 + items.depth(),
            Self::Tuple(items) | Self::TupleObject(items) => {
                1 + items.iter().map(Self::depth).max().unwrap_or(0)
            }
            _ => 0,
        }
    }

    /// For people.
    pub fn describe(&self) -> String {
        match self {
            Self::Unbound => "unbound".into(),
            Self::Maybe(kind) => format!("{} or unbound", kind.describe()),
            Self::InCell(kind) => format!("{} in a cell", kind.describe()),
            Self::Null => "NULL".into(),
            Self::Int { .. } => "int".into(),
            Self::Float { .. } => "float".into(),
            Self::Bool => "bool".into(),
            Self::None => "None".into(),
            Self::Constant(_) => "a constant".into(),
            Self::Object => "another object".into(),
            Self::Function(_) => "function".into(),
            Self::Method(..) => "method of a list".into(),
            Self::Cell => "cell".into(),
            Self::Range { .. } => "range".into(),
            Self::RangeIterator { .. } | Self::Counter => "iterator of a range".into(),
            Self::List(items) if **items == Self::Object => "list".into(),
            Self::List(items) => format!("list of {}", items.describe()),
            Self::Iterator { of, backwards: false } => format!("iterator of a {}", of.describe()),
            Self::Iterator { of, .. } => format!("reversed {}", of.describe()),
            Self::Buffer { array, format, .. } => {
                let name = if *array { "array" } else { "memoryview" };
                format!("{name} of '{}'", char::from(*format))
            }
            Self::Instance(class) => {
                let names = CLASS_NAMES.lock().ok();
                let name = names.and_then(|names| names.get(class).cloned());
                name.unwrap_or_else(|| "instance".into())
            }
            Self::Enumerate(_) => "enumerate".into(),
            Self::Zip(_) => "zip".into(),
            Self::Bytes => "bytes".into(),
            Self::ByteArray => "bytearray".into(),
            Self::TupleObject(items) if items[..] == [Self::Object] => "tuple".into(),
            Self::Tuple(items) | Self::TupleObject(items) => {
                let named: Vec<String> = items.iter().map(Self::describe).collect();
                match &named[..] {
                    [one] if matches!(self, Self::TupleObject(_)) => format!("tuple of {one}"),
                    _ => format!("tuple of ({})", named.join(", ")),
                }
            }
        }
    }
}

/// A value: its kind and its words.
#[derive(Clone, PartialEq, Debug)]
pub struct Val {
    pub kind: Kind,
    pub words: SmallVec<[Value; 3]>,
    /// Whether the references to its containers are its own; see `lower::own`.
    pub owned: bool,
}

impl Val {
    pub fn new(kind: Kind, words: &[Value]) -> Self {
        Self { kind, words: SmallVec::from_slice(words), owned: false }
    }

    /// A value that has no words.
    pub fn plain(kind: Kind) -> Self {
        Self { kind, words: SmallVec::new(), owned: false }
    }

    /// A value with references of its own.
    pub fn owning(kind: Kind, words: &[Value]) -> Self {
        Self { owned: true, ..Self::new(kind, words) }
    }

    /// The same value without references of its own.
    pub fn borrowed(&self) -> Self {
        Self { owned: false, ..self.clone() }
    }

    /// The objects in it to which it may have references.
    pub fn objects(&self) -> SmallVec<[(Kind, Value); 2]> {
        let mut out = SmallVec::new();
        self.kind.find_objects(&self.words, &mut |kind, word| out.push((kind.clone(), *word)));
        out
    }

    /// The object that an int or a float was read from, if one is known.
    pub fn object(&self) -> Option<Value> {
        match self.kind {
            Kind::Int { object: true } | Kind::Float { object: true } => self.words.get(1).copied(),
            _ => None,
        }
    }
}
