//! Which functions a profile knows.

use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyCode, PyString};
use rustc_hash::FxHashMap;

/// So many code objects are kept alive, so that their address says who they are. Others are known
/// by their name and place, which takes longer.
const MOST_KEPT: usize = 100_000;

const GENERATOR: u32 = 0x20;
const COROUTINE: u32 = 0x80;
const ITERABLE_COROUTINE: u32 = 0x100;
const ASYNC_GENERATOR: u32 = 0x200;

/// So many labels have names of their own. Later ones share one.
const MOST_LABELS: usize = 1000;
/// The file of the profiler that is a part of programs.
const MIDDLEWARE: &[u8] = b"web.py";
const OTHER_LABELS: &str = "[labels that came later]";

/// What is between the name of a function and that of one that is made in it.
const WITHIN: &[u8] = b".<locals>.";

/// A text of Python. A file's name that is not UTF-8 has surrogates, which no `String` holds.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Text(Vec<u8>);

/// How surrogates are encoded.
const AS_THEY_ARE: &std::ffi::CStr = c"surrogatepass";

impl From<&str> for Text {
    fn from(text: &str) -> Self {
        Self(text.as_bytes().to_vec())
    }
}

impl Text {
    pub fn of(string: &Bound<'_, PyString>) -> Option<Self> {
        if let Ok(text) = string.to_str() {
            return Some(text.into());
        }
        // SAFETY: attached, with a string; the names are good for the call. The result is a new
        // reference, or null with an exception that is set.
        let encoded = unsafe {
            let (object, how) = (string.as_ptr(), AS_THEY_ARE.as_ptr());
            let made = ffi::PyUnicode_AsEncodedString(object, c"utf-8".as_ptr(), how);
            Bound::from_owned_ptr_or_err(string.py(), made)
        };
        Some(Self(encoded.ok()?.cast::<PyBytes>().ok()?.as_bytes().to_vec()))
    }
}

impl<'py> IntoPyObject<'py> for &Text {
    type Target = PyAny;
    type Output = Bound<'py, PyAny>;
    type Error = PyErr;

    fn into_pyobject(self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let (bytes, length) = (self.0.as_ptr().cast(), self.0.len() as ffi::Py_ssize_t);
        // SAFETY: attached; the bytes are good for the call. The result is as above.
        unsafe {
            let made = ffi::PyUnicode_DecodeUTF8(bytes, length, AS_THEY_ARE.as_ptr());
            Bound::from_owned_ptr_or_err(py, made)
        }
    }
}

/// Who a function is, beyond the life of its code object.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Identity {
    pub file: Text,
    pub line: u32,
    pub name: Text,
    pub qualified: Text,
    /// `"function"`, `"generator"`, `"coroutine"`, `"async generator"`, `"builtin"` or `"label"`.
    pub kind: &'static str,
}

/// How the frames of a function run.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub enum Kind {
    /// From their beginning to their end.
    #[default]
    Whole,
    /// Piece by piece.
    Generator,
    /// Piece by piece, and between the pieces it waits for something.
    Awaiting,
}

/// What the profile knows of a code object.
#[derive(Clone, Copy)]
pub struct Known {
    /// The function's number.
    pub number: u32,
    /// By what a graph finds it.
    pub key: usize,
    pub kind: Kind,
    /// Whether it is the profiler's own.
    pub ignored: bool,
    /// Whether its lines have times.
    pub lined: bool,
}

/// A function or a file that was chosen by its name, and whether one was there.
pub struct Named {
    /// A function's, as far as it was given: `method`, `Class.method`.
    pub name: Option<Text>,
    /// A file's, or the end of one's path.
    pub file: Option<Text>,
    pub found: bool,
}

/// Whether `name` is all of `text`, or what comes after one of its separators.
fn ends(text: &[u8], separator: u8, name: &[u8]) -> bool {
    let before = text.strip_suffix(name);
    before.is_some_and(|before| before.is_empty() || before.last() == Some(&separator))
}

impl Named {
    /// Functions that a function makes are chosen with it.
    fn is(&self, identity: &Identity) -> bool {
        let is_name = |name: &Text| {
            let all = &*identity.qualified.0;
            let outer = all.windows(WITHIN.len()).enumerate().filter(|(_, part)| *part == WITHIN);
            let outer = outer.map(|(place, _)| &all[..place]);
            outer.chain([all]).any(|qualified| ends(qualified, b'.', &name.0))
        };
        let is_file = |file: &Text| ends(&identity.file.0, b'/', &file.0);
        self.name.as_ref().is_none_or(is_name) && self.file.as_ref().is_none_or(is_file)
    }
}

/// The functions of a profile. Code objects with one name, file and line are one function.
pub struct Codes {
    by_address: FxHashMap<usize, Known>,
    numbers: FxHashMap<Identity, u32>,
    identities: Vec<Identity>,
    kept: Vec<(u32, Py<PyAny>)>,
    ignored: Option<String>,
    lined: Vec<Named>,
    labels: usize,
}

/// What is not known by an address has an odd key: addresses are even.
fn key_of_number(number: u32) -> usize {
    (number as usize) << 1 | 1
}

/// A text attribute, whatever it is made of.
pub fn text(object: &Bound<'_, PyAny>, name: &str) -> Text {
    let value = object.getattr(name).ok();
    let string = value.as_ref().and_then(|value| value.cast::<PyString>().ok());
    string.and_then(Text::of).unwrap_or_else(|| "?".into())
}

fn number(object: &Bound<'_, PyAny>, name: &str) -> u32 {
    object.getattr(name).and_then(|value| value.extract()).unwrap_or(0)
}

/// Reads who a code object is. No Python code runs.
pub fn identify(code: &Bound<'_, PyCode>) -> Identity {
    let flags = number(code, "co_flags");
    let kind = if flags & GENERATOR != 0 && flags & ITERABLE_COROUTINE == 0 {
        "generator"
    } else if flags & (COROUTINE | ITERABLE_COROUTINE) != 0 {
        "coroutine"
    } else if flags & ASYNC_GENERATOR != 0 {
        "async generator"
    } else {
        "function"
    };
    Identity {
        file: text(code, "co_filename"),
        line: number(code, "co_firstlineno"),
        name: text(code, "co_name"),
        qualified: text(code, "co_qualname"),
        kind,
    }
}

impl Codes {
    /// Functions of files that begin with `ignored` are the profiler's own. The lines of `lined`
    /// have times.
    pub fn new(ignored: Option<String>, lined: Vec<Named>) -> Self {
        Self {
            by_address: FxHashMap::default(),
            numbers: FxHashMap::default(),
            identities: Vec::new(),
            kept: Vec::new(),
            ignored,
            lined,
            labels: 0,
        }
    }

    /// Which of the chosen ones were there, in the order in which they were given.
    pub fn found(&self) -> Vec<bool> {
        self.lined.iter().map(|named| named.found).collect()
    }

    /// Whether a function has times of its lines.
    fn is_lined(&mut self, identity: &Identity) -> bool {
        let mut lined = false;
        for named in &mut self.lined {
            if named.is(identity) {
                named.found = true;
                lined = true;
            }
        }
        lined
    }

    /// What is at this address, if it is kept.
    pub fn at(&self, address: usize) -> Option<Known> {
        self.by_address.get(&address).copied()
    }

    /// Whether a file is the profiler's own.
    pub fn is_own(&self, file: &Text) -> bool {
        let within =
            self.ignored.as_ref().and_then(|prefix| file.0.strip_prefix(prefix.as_bytes()));
        within.is_some_and(|name| name != MIDDLEWARE)
    }

    /// Takes down what is at this address.
    pub fn add(&mut self, address: usize, object: Py<PyAny>, identity: Identity) -> Known {
        let ignored = self.is_own(&identity.file);
        let kind = match identity.kind {
            "function" | "builtin" => Kind::Whole,
            "generator" => Kind::Generator,
            _ => Kind::Awaiting,
        };
        // What is not kept has a key of which no line is reported.
        let kept = self.kept.len() < MOST_KEPT;
        let lined = kept && !ignored && identity.kind != "builtin" && self.is_lined(&identity);
        let next = self.identities.len() as u32;
        let number = *self.numbers.entry(identity.clone()).or_insert(next);
        if number == next {
            self.identities.push(identity);
        }
        let key = if kept { address } else { key_of_number(number) };
        let known = Known { number, key, kind, ignored, lined };
        if kept {
            self.kept.push((number, object));
            self.by_address.insert(address, known);
        }
        known
    }

    /// The key and the number of a label.
    pub fn label(&mut self, name: Text) -> (usize, u32) {
        let identity = |name: Text| {
            let (file, qualified) = ("~".into(), name.clone());
            Identity { file, line: 0, name, qualified, kind: "label" }
        };
        let mut label = identity(name);
        if !self.numbers.contains_key(&label) {
            self.labels += 1;
            if self.labels > MOST_LABELS {
                label = identity(OTHER_LABELS.into());
            }
        }
        let next = self.identities.len() as u32;
        let number = *self.numbers.entry(label.clone()).or_insert(next);
        if number == next {
            self.identities.push(label);
        }
        (key_of_number(number), number)
    }

    /// All functions, in the order of their numbers.
    pub fn identities(&self) -> &[Identity] {
        &self.identities
    }

    /// An object of each function that has one, with its number.
    pub fn objects(&self, py: Python<'_>) -> Vec<(u32, Py<PyAny>)> {
        self.kept.iter().map(|(number, object)| (*number, object.clone_ref(py))).collect()
    }

    /// Everything that is kept alive, to be let go where no lock is held.
    pub fn take_kept(&mut self) -> Vec<(u32, Py<PyAny>)> {
        self.by_address.clear();
        std::mem::take(&mut self.kept)
    }
}
