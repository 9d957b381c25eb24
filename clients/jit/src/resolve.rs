//! What lowering asks about objects. It sees numbers and addresses alone.

use crate::context::Table;
use crate::instances::Seen;
use crate::kind::{Callable, Kind};
use crate::opcode::Special;

/// What compiling gives, or why something is not compiled.
pub type Result<T> = std::result::Result<T, String>;

/// A value that is known when code is compiled.
#[derive(Clone, Debug)]
pub struct Literal {
    pub kind: Kind,
    /// The number, or the bits of the float.
    pub bits: i64,
    /// The object, which is kept alive or checked.
    pub address: usize,
    /// The items of a tuple.
    pub items: Option<Vec<Literal>>,
    /// What a number or None is compared with by `in`: the items of a tuple or a frozenset that are numbers or None, if the others are str.
    pub members: Option<Vec<Literal>>,
}

impl Literal {
    /// An object of which its kind is known.
    pub fn object(kind: Kind, address: usize) -> Self {
        Self { kind, bits: 0, address, items: None, members: None }
    }
}

/// Builtin functions that are compiled, beside those that have a meaning of their own.
pub const BUILTINS: &[&str] = &["all", "any", "divmod", "pow", "round", "sorted", "sum"];
/// The methods of lists that are compiled.
pub const LIST_METHODS: &[&str] = &["append", "copy", "extend", "insert", "pop", "reverse"];
/// The functions of `math` that are compiled.
pub const MATH: &[&str] = &[
    "sqrt",
    "fabs",
    "floor",
    "ceil",
    "trunc",
    "sin",
    "cos",
    "tan",
    "exp",
    "exp2",
    "expm1",
    "log",
    "log2",
    "log10",
    "log1p",
    "cbrt",
    "asin",
    "acos",
    "atan",
    "sinh",
    "cosh",
    "tanh",
    "asinh",
    "acosh",
    "atanh",
    "atan2",
    "fmod",
    "pow",
    "copysign",
    "degrees",
    "radians",
    "isnan",
    "isinf",
    "isfinite",
    "gcd",
    "lcm",
    "isqrt",
    "factorial",
    "comb",
];

/// What a known object does when it is called.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Meaning {
    Range,
    Abs,
    Min,
    Max,
    Int,
    Float,
    Bool,
    Len,
    IsInstance,
    /// One of `BUILTINS`.
    Builtin(&'static str),
    /// `enumerate`, `zip` or `reversed`.
    Iterator(&'static str),
    /// `list`, `tuple` or `bytearray`.
    Container(&'static str),
    /// One of `LIST_METHODS`.
    ListMethod(&'static str),
    /// A function of `math`, by its name.
    Math(&'static str),
    /// A Python function.
    Function,
    /// A class, perhaps one whose instances are made.
    Class,
    Other,
}

/// A Python function that is called.
#[derive(Clone, Copy)]
pub enum Target {
    /// The one with this address.
    Known(usize),
    /// Any of this kind.
    Any(Callable),
}

/// A compiled function that is called.
pub struct Callee {
    /// Through which its code is found.
    pub table: *const Table,
    pub parameters: Vec<Kind>,
    /// `None`: the function that is being compiled.
    pub returns: Option<Kind>,
    /// It is being compiled.
    pub recurs: bool,
    /// It calls what is being compiled.
    pub calls_back: bool,
    /// It changes objects that others may refer to. Of a function that is being compiled that is believed until it is known.
    pub stores: bool,
    /// It does so, or is or calls a function that is being compiled.
    pub may_store: bool,
    /// It is passed the function behind its arguments, which has its cells.
    pub closure: bool,
    /// What it returns may be what a cell contains.
    pub uses_cells: bool,
    /// It changes the contents of cells, or may do so.
    pub stores_cells: bool,
}

impl Callee {
    /// One that is being compiled.
    pub fn in_progress(table: *const Table, parameters: &[Kind], closure: bool) -> Self {
        Self {
            table,
            parameters: parameters.to_vec(),
            returns: None,
            recurs: true,
            calls_back: true,
            stores: false,
            may_store: true,
            closure,
            uses_cells: closure,
            stores_cells: false,
        }
    }
}

/// What an attribute is looked up for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Usage {
    Load,
    Call,
    Store,
}

/// Where an attribute of an instance is.
pub enum Attribute {
    /// At this offset, and what it was. `inline`: if the object's values are valid.
    Value { offset: i32, inline: bool, seen: Option<Seen> },
    /// In the class. `inline`: likewise, and if there is no value at the offset `hidden_by`.
    OfClass { literal: Literal, inline: bool, hidden_by: Option<i32> },
}

/// What a parameter of a call gets.
pub enum Passed {
    /// The argument of this index; keywords are counted behind the positional ones.
    Argument(usize),
    /// A default.
    Default(Literal),
}

/// Answers, and remembers what code depends on.
pub trait Resolve {
    /// The global or builtin of this index in `co_names`.
    fn global(&mut self, name: u32) -> Result<Literal>;
    /// The attribute of a module.
    fn attribute(&mut self, module: usize, name: u32) -> Result<Literal>;
    /// The attribute of instances of a class, or the method that is called.
    fn instance_attribute(&mut self, class: usize, name: u32, usage: Usage) -> Result<Attribute>;
    /// The `__init__` of a class whose instances are made by nothing but that.
    fn init(&mut self, class: usize) -> Result<usize>;
    /// The function that instances of a class have for an instruction, whose other operand is of a kind, and whether that has one too.
    fn special(
        &mut self,
        class: usize,
        name: Special,
        other: Option<&Kind>,
    ) -> Result<(usize, bool)>;
    /// That instances of a class are true, since it does not say what they are.
    fn is_true(&mut self, class: usize) -> Result<()>;
    /// Whether values of a kind are instances of a class.
    fn is_instance(&mut self, kind: &Kind, class: usize) -> Result<bool>;
    fn meaning(&self, address: usize) -> Meaning;
    /// The method of lists with this name, if it is compiled, and its definition. Its type keeps both.
    fn list_method(&self, name: u32) -> Result<Option<(usize, usize)>>;
    /// What the parameters of a Python function get, of so many positional arguments and of keywords with these addresses.
    fn bind(&mut self, target: Target, positional: usize, names: &[usize]) -> Result<Vec<Passed>>;
    /// The kind of a Python function with this address.
    fn callable(&self, address: usize) -> Option<Callable>;
    /// Whether the code with this address is observed, or was never executed.
    fn is_observed(&self, code: usize) -> bool;
    /// From here on names are those of the code of a generator expression, until `leave`.
    fn enter(&mut self, code: usize) -> Result<()>;
    fn leave(&mut self);
    /// What the cell in a slot is expected to contain.
    fn cell(&mut self, slot: u32) -> Result<Kind>;
    /// A Python function for arguments of these kinds. `returns` is what the function that is being compiled is believed to return:
    /// its callees may call it back.
    fn callee(
        &mut self,
        target: Target,
        arguments: &[Kind],
        returns: &mut Option<Kind>,
    ) -> Result<Callee>;
}
