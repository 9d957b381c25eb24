//! `co_extra` against a model: indices requested and released, values set, got and freed, code
//! objects that die, interpreters that end, free functions that do all of that again, and
//! allocations that fail.
//!
//! A value is a number here, and each is used once. So a value that is freed twice, or not, or found
//! under another index, is seen; a table or code object that is used after it was freed is seen by
//! AddressSanitizer. The unit tests run steps that proptest makes; the fuzz target `code_extra` runs
//! those that libFuzzer finds.

use super::error::Error;
use super::index::Tag;
use super::registry::{is_code_before_any_release, Registry, Unusable};
use super::table::{find, TableRef};
use crate::cpython::{PyCodeObject, PyObject};
use crate::fake_cpython::code::PyCode_Type;
use crate::fake_cpython::memory::{allow, allowed, blocks, zeroed};
use crate::fake_cpython::threads::locks_held;
use crate::in_cpython::{CodeExtraState, FreeFunction, Table};
use std::cell::RefCell;
use std::collections::{HashMap, HashSet, VecDeque};
use std::ffi::c_void;

// ---- small helpers ----------------------------------------------------------

/// An interpreter, as far as `co_extra` can observe.
pub(super) struct Interpreter {
    state: Box<CodeExtraState>,
    pub(super) id: i64,
}

impl Interpreter {
    pub(super) fn new(id: i64) -> Self {
        // SAFETY: zeros are the state's first value, as in CPython.
        let state = unsafe { zeroed() };
        Interpreter { state, id }
    }

    pub(super) fn registry(&mut self) -> Registry {
        // SAFETY: the state is ours and outlives the tests' use of this.
        unsafe { Registry::new(&raw mut *self.state, Tag::of_interpreter(self.id)) }
    }
}

pub(super) fn new_code() -> *mut PyCodeObject {
    // SAFETY: nothing but `co_extra` is looked at, and that starts as NULL.
    let code: *mut PyCodeObject = Box::into_raw(unsafe { zeroed() });
    // SAFETY: just made; an object of this type, which every object starts with.
    unsafe { (*code.cast::<PyObject>()).ob_type = (&raw mut PyCode_Type).cast() };
    code
}

pub(super) fn handle(code: *mut PyCodeObject) -> crate::code::Code {
    // SAFETY: the tests pass live code objects only.
    unsafe { crate::code::Code::new(code) }
}

/// What `code_dealloc` does.
pub(super) fn kill(registry: Registry, code: *mut PyCodeObject) {
    // SAFETY: live until the next line, which the model makes sure is the last.
    unsafe {
        registry.forget(handle(code));
        drop(Box::from_raw(code));
    }
}

pub(super) fn set(
    registry: Registry,
    code: *mut PyCodeObject,
    raw: isize,
    value: usize,
) -> Result<(), Error> {
    // SAFETY: the tests pass live code objects only.
    unsafe { registry.update(handle(code), raw, |_| value as *mut c_void) }
}

/// As `PyUnstable_Code_GetExtra` does it.
pub(super) fn get(registry: Registry, code: *mut PyCodeObject, raw: isize) -> Result<usize, Error> {
    // SAFETY: the tests pass live code objects only.
    unsafe {
        match find(handle(code), raw) {
            Some(value) => Ok(value as usize),
            None if is_code_before_any_release(code.cast()) => Ok(0),
            None if registry.index_in_use(raw) == Err(Unusable::Released) => Err(Error::Released),
            None => Ok(0),
        }
    }
}

pub(super) fn release(registry: Registry, raw: isize) -> Result<(), Error> {
    // SAFETY: the tests' interpreter is the calling thread's.
    unsafe { registry.release(raw) }
}

pub(super) fn finish(registry: Registry) {
    // SAFETY: one thread uses it.
    unsafe { registry.finish() };
}

pub(super) fn bytes_of(code: *mut PyCodeObject) -> usize {
    // SAFETY: live, and one thread uses it.
    unsafe { TableRef::of(handle(code)) }.map_or(0, TableRef::bytes)
}

// ---- the model --------------------------------------------------------------

pub(super) const CODES: usize = 6;
pub(super) const INTERPRETERS: usize = 3;
const DEPTH: usize = 3;

/// Codes, indices and interpreters are numbers of those that there are, modulo how many.
#[derive(Clone, Debug)]
#[cfg_attr(fuzzing, derive(arbitrary::Arbitrary))]
pub enum Step {
    Request {
        by: u8,
        frees: bool,
    },
    RequestMany {
        by: u8,
        count: u8,
    },
    Release(u16),
    /// By an interpreter that may be another one than the index is of, as of the next ones.
    ReleaseBy {
        by: u8,
        index: u16,
    },
    Set {
        code: u8,
        index: u16,
    },
    SetNull {
        code: u8,
        index: u16,
    },
    SetBy {
        by: u8,
        code: u8,
        index: u16,
    },
    /// A value under each index that is in use.
    SetAll(u8),
    Get {
        code: u8,
        index: u16,
    },
    GetBy {
        by: u8,
        code: u8,
        index: u16,
    },
    GetMadeUp {
        code: u8,
        which: u8,
    },
    /// A code object dies, in the hands of that interpreter.
    Kill {
        by: u8,
        code: u8,
    },
    /// An interpreter ends, and another one begins.
    End(u8),
    /// The next allocations fail after this many.
    Allow(Option<u8>),
}

#[derive(Clone, Copy)]
struct Handed {
    raw: isize,
    of: usize,
    frees: bool,
    released: bool,
}

#[derive(Default)]
struct Code {
    address: usize,
    /// By whom it is being killed.
    killer: Option<usize>,
    /// Whose values it has, if it has any.
    owner: usize,
    values: HashMap<isize, usize>,
    /// Values under indices that are being released, which are not freed yet.
    gone: HashSet<usize>,
}

impl Code {
    fn owner(&self) -> Option<usize> {
        (!self.values.is_empty() || !self.gone.is_empty()).then_some(self.owner)
    }
}

#[derive(Default)]
struct Model {
    registries: Vec<Registry>,
    indices: Vec<Handed>,
    codes: Vec<Option<Code>>,
    /// Values of code objects that have died in another interpreter, by index.
    orphans: Vec<(isize, usize)>,
    next_value: usize,
    /// Taken out, and must be freed before the call that did it returns.
    to_free: HashSet<usize>,
    nested: VecDeque<Step>,
    depth: usize,
    /// The interpreter that is at its end.
    ending: Option<usize>,
}

thread_local! {
    static MODEL: RefCell<Model> = RefCell::default();
}

fn model<T>(look: impl FnOnce(&mut Model) -> T) -> T {
    MODEL.with_borrow_mut(look)
}

fn registry_of(interpreter: usize) -> Registry {
    model(|m| m.registries[interpreter])
}

impl Model {
    /// One of all indices, or one in use.
    fn pick(&self, index: u16, in_use: bool) -> Option<Handed> {
        let found = || self.indices.iter().filter(|handed| !(in_use && handed.released));
        let count = found().count();
        (count > 0).then(|| *found().nth(usize::from(index) % count).expect("below the count"))
    }

    fn code(&mut self, code: u8) -> Option<&mut Code> {
        self.codes[usize::from(code) % CODES].as_mut()
    }

    fn frees(&self, raw: isize) -> bool {
        self.indices.iter().any(|handed| handed.raw == raw && handed.frees)
    }

    fn in_use(&self, interpreter: usize) -> usize {
        self.indices.iter().filter(|handed| handed.of == interpreter && !handed.released).count()
    }

    fn next_value(&mut self) -> usize {
        self.next_value += 1;
        self.next_value * 16
    }
}

fn interpreter(by: u8) -> usize {
    usize::from(by) % INTERPRETERS
}

/// The free function of the model's indices.
unsafe extern "C" fn free_value(value: *mut c_void) {
    assert!(!value.is_null(), "a free function sees NULL");
    assert_eq!(locks_held(), 0, "a free function runs while a lock is held");
    let value = value as usize;
    let step = model(|m| {
        let mut expected = m.to_free.remove(&value);
        for code in m.codes.iter_mut().flatten() {
            code.gone.remove(&value);
            if !expected && code.killer.is_some() {
                let before = code.values.len();
                code.values.retain(|_, v| *v != value);
                expected = code.values.len() != before;
            }
        }
        assert!(expected, "value {value} is freed twice, or while it is set");
        (m.depth < DEPTH).then(|| m.nested.pop_front()).flatten()
    });
    match (step, model(|m| m.ending)) {
        (Some(_), Some(ending)) => nothing_is_left_of(ending),
        (Some(step), None) => take(step),
        (None, _) => {}
    }
}

/// An interpreter at its end hands out nothing, and keeps nothing.
fn nothing_is_left_of(ending: usize) {
    let registry = registry_of(ending);
    assert_eq!(registry.request(None), Err(Error::Finished));
    let (index, code) = model(|m| {
        let index = m.indices.iter().find(|handed| handed.of == ending).map(|handed| handed.raw);
        (index.unwrap_or(0), m.codes.iter().flatten().next().map_or(0, |code| code.address))
    });
    assert_eq!(set(registry, code as *mut PyCodeObject, index, 16), Err(Error::Finished));
}

fn take(step: Step) {
    model(|m| m.depth += 1);
    run_step(step);
    model(|m| m.depth -= 1);
}

fn request(by: usize, frees: bool) {
    let free: FreeFunction = if frees { Some(free_value) } else { None };
    match registry_of(by).request(free) {
        Ok(index) => model(|m| {
            let raw = index.raw();
            assert!(m.indices.iter().all(|handed| handed.raw != raw), "{raw} again");
            m.indices.push(Handed { raw, of: by, frees, released: false });
        }),
        Err(error) => {
            assert_eq!(error, Error::NoMemory);
            assert_eq!(allowed(), Some(0), "there was memory");
        }
    }
}

fn release_by(by: usize, handed: Handed) {
    let (registry, raw) = (registry_of(by), handed.raw);
    if allowed() == Some(0) {
        let before = registry.index_in_use(raw);
        assert_eq!(release(registry, raw), Err(Error::NoMemory));
        assert_eq!(registry.index_in_use(raw), before);
        return;
    }
    if handed.of != by || handed.released {
        let in_use = model(|m| m.in_use(by));
        let error = if handed.of == by { Error::Released } else { Error::Unknown { in_use } };
        assert_eq!(release(registry, raw), Err(error));
        return;
    }
    let taken: Vec<usize> = model(|m| {
        let mut taken = Vec::new();
        for it in m.indices.iter_mut().filter(|it| it.raw == raw) {
            it.released = true;
        }
        for code in m.codes.iter_mut().flatten() {
            let value = code.values.remove(&raw);
            if handed.frees {
                code.gone.extend(value);
            }
            taken.extend(value);
        }
        m.orphans.retain(|(index, value)| {
            taken.extend((*index == raw).then_some(*value));
            *index != raw
        });
        if handed.frees {
            m.to_free.extend(&taken);
        }
        taken
    });
    assert_eq!(release(registry, raw), Ok(()));
    model(|m| taken.iter().for_each(|v| assert!(!m.to_free.contains(v), "{v} not freed")));
}

/// Sets a value, or none.
fn set_by(by: usize, code: u8, handed: Handed, with_value: bool) {
    let (registry, raw) = (registry_of(by), handed.raw);
    let Some(address) = model(|m| {
        let code = m.code(code)?;
        // Nothing else has a code object that dies.
        code.killer.is_none_or(|killer| killer == by).then_some(code.address as *mut PyCodeObject)
    }) else {
        return;
    };
    let refused = model(|m| {
        let in_use = m.in_use(by);
        let owner = m.code(code).expect("picked above").owner();
        if handed.of != by {
            Some(Error::Unknown { in_use })
        } else if handed.released {
            Some(Error::Released)
        } else if owner.is_some_and(|owner| owner != by) {
            Some(Error::ForeignCode)
        } else {
            None
        }
    });
    if let Some(error) = refused {
        assert_eq!(set(registry, address, raw, 16), Err(error));
        return;
    }
    let (value, old, known) = model(|m| {
        let value = if with_value { m.next_value() } else { 0 };
        let code = m.code(code).expect("picked above");
        code.owner = by;
        let old =
            if with_value { code.values.insert(raw, value) } else { code.values.remove(&raw) };
        // What no function frees vanishes from a dying code object unseen.
        let known = code.killer.is_none() || handed.frees;
        if let (Some(old), true) = (old, handed.frees) {
            m.to_free.insert(old);
        }
        (value, old, known)
    });
    // SAFETY: live, and the closure calls nothing.
    let done = unsafe {
        registry.update(handle(address), raw, |found| {
            assert!(!known || found as usize == old.unwrap_or(0), "another value was there");
            value as *mut c_void
        })
    };
    match done {
        Ok(()) => {
            // The code object may be gone by now: only the model is read.
            if let (Some(old), true) = (old, handed.frees) {
                model(|m| assert!(!m.to_free.contains(&old), "the old value was not freed"));
            }
        }
        Err(error) => {
            assert_eq!(error, Error::NoMemory);
            assert_eq!(allowed(), Some(0), "there was memory");
            assert!(!known || old.is_none(), "replacing a value needs no memory");
            // Nothing ran, so the code object is still there, and as it was.
            model(|m| m.code(code).expect("nothing ran").values.remove(&raw));
            assert_eq!(get(registry, address, raw), Ok(0));
        }
    }
}

fn get_by(by: usize, code: u8, handed: Handed) {
    let Some((address, expected)) = model(|m| {
        let code = m.code(code)?;
        // What no function frees vanishes from a dying code object unseen.
        let known = code.killer.is_none() || handed.frees;
        let expected = match code.values.get(&handed.raw) {
            Some(value) => Ok(*value),
            None if handed.released && handed.of == by => Err(Error::Released),
            None => Ok(0),
        };
        known.then_some((code.address, expected))
    }) else {
        return;
    };
    let found = get(registry_of(by), address as *mut PyCodeObject, handed.raw);
    assert_eq!(found, expected, "under {:#x}", handed.raw);
}

fn kill_by(by: usize, which: u8) {
    let Some(address) = model(|m| {
        let code = m.code(which)?;
        if code.killer.is_some() {
            return None;
        }
        code.killer = Some(by);
        let address = code.address;
        if code.owner().is_some_and(|owner| owner != by) {
            // Its values are left to their interpreter. Those that are gone are freed by the thread that
            // releases their index.
            let values: Vec<_> = code.values.drain().collect();
            code.gone.clear();
            m.orphans.extend(values);
        }
        Some(address)
    }) else {
        return;
    };
    kill(registry_of(by), address as *mut PyCodeObject);
    let fresh = new_code() as usize;
    model(|m| {
        let place = usize::from(which) % CODES;
        let dead = m.codes[place].take().expect("was dying");
        let left: Vec<_> = dead.values.keys().filter(|raw| m.frees(**raw)).collect();
        assert!(left.is_empty(), "values of a dead code object were not freed");
        m.codes[place] = Some(Code { address: fresh, ..Code::default() });
    });
}

/// An interpreter ends: all its values are freed. What replaces it has handed out nothing.
fn end(interpreters: &mut [Interpreter], which: usize) {
    let registry = registry_of(which);
    let own = model(|m| {
        m.ending = Some(which);
        let own: Vec<Handed> = m.indices.iter().filter(|it| it.of == which).copied().collect();
        let frees = |raw: isize| own.iter().any(|it| it.raw == raw && it.frees);
        let mut left = Vec::new();
        for code in m.codes.iter_mut().flatten().filter(|code| code.owner == which) {
            left.extend(code.values.drain());
        }
        m.orphans.retain(|(raw, value)| {
            let is_own = own.iter().any(|it| it.raw == *raw);
            left.extend(is_own.then_some((*raw, *value)));
            !is_own
        });
        m.to_free.extend(left.into_iter().filter(|(raw, _)| frees(*raw)).map(|(_, value)| value));
        own
    });
    finish(registry);
    assert_eq!(registry.request(None), Err(Error::Finished));
    let id = interpreters[which].id;
    // The main interpreter has the same number again, when Python is initialized again.
    let next = if id == 0 { 0 } else { id + INTERPRETERS as i64 };
    interpreters[which] = Interpreter::new(next);
    model(|m| {
        assert!(m.to_free.is_empty(), "the interpreter's end did not free all");
        m.registries[which] = interpreters[which].registry();
        m.indices.retain(|it| !own.iter().any(|gone| gone.raw == it.raw));
        m.ending = None;
    });
}

fn run_step(step: Step) {
    match step {
        Step::Request { by, frees } => request(interpreter(by), frees),
        Step::RequestMany { by, count } => {
            (0..count % 64).for_each(|it| request(interpreter(by), it % 3 != 0));
        }
        Step::Release(index) => {
            if let Some(handed) = model(|m| m.pick(index, false)) {
                release_by(handed.of, handed);
            }
        }
        Step::ReleaseBy { by, index } => {
            if let Some(handed) = model(|m| m.pick(index, false)) {
                release_by(interpreter(by), handed);
            }
        }
        Step::Set { code, index } | Step::SetNull { code, index } => {
            if let Some(handed) = model(|m| m.pick(index, true)) {
                set_by(handed.of, code, handed, matches!(step, Step::Set { .. }));
            }
        }
        Step::SetBy { by, code, index } => {
            if let Some(handed) = model(|m| m.pick(index, false)) {
                set_by(interpreter(by), code, handed, true);
            }
        }
        Step::SetAll(code) => {
            let count = model(|m| m.indices.len());
            for position in 0..count {
                // A free function may have had interpreters end meanwhile.
                let handed = model(|m| m.indices.get(position).copied());
                if let Some(handed) = handed.filter(|it| !it.released) {
                    set_by(handed.of, code, handed, true);
                }
            }
        }
        Step::Get { code, index } => {
            if let Some(handed) = model(|m| m.pick(index, index % 4 != 0)) {
                get_by(handed.of, code, handed);
            }
        }
        Step::GetBy { by, code, index } => {
            if let Some(handed) = model(|m| m.pick(index, false)) {
                get_by(interpreter(by), code, handed);
            }
        }
        Step::GetMadeUp { code, which } => {
            if let Some(address) = model(|m| m.code(code).map(|code| code.address)) {
                let raw = [-1, -2, isize::MAX, 1 << 40][usize::from(which) % 4];
                assert_eq!(get(registry_of(0), address as *mut PyCodeObject, raw), Ok(0));
            }
        }
        Step::Kill { by, code } => kill_by(interpreter(by), code),
        // Not from within a free function: its caller still needs its interpreter.
        Step::End(_) => {}
        Step::Allow(allocations) => allow(allocations.map(|it| usize::from(it % 4))),
    }
}

/// What holds between two steps.
fn check() {
    model(|m| {
        assert!(m.to_free.is_empty(), "something is still to be freed");
        for code in m.codes.iter().flatten() {
            assert!(code.killer.is_none() && code.gone.is_empty());
            let bytes = bytes_of(code.address as *mut PyCodeObject);
            assert_eq!(bytes == 0, code.values.is_empty(), "a table without need, or none");
            // At most half of a table's places are free, but for those of values that have gone.
            assert!(bytes >= Table::bytes(code.values.len()) || code.values.is_empty());
        }
    });
}

pub fn run(steps: Vec<Step>, nested: Vec<Step>) {
    allow(None);
    let before = blocks();
    let mut interpreters: Vec<_> = (0..INTERPRETERS as i64).map(Interpreter::new).collect();
    let codes = (0..CODES)
        .map(|_| Some(Code { address: new_code() as usize, ..Code::default() }))
        .collect();
    let registries = interpreters.iter_mut().map(Interpreter::registry).collect();
    let nested = nested.into();
    model(|m| *m = Model { registries, codes, nested, ..Model::default() });
    for step in steps {
        match step {
            Step::End(which) => end(&mut interpreters, interpreter(which)),
            step => take(step),
        }
        check();
    }
    allow(None);
    model(|m| m.nested.clear());
    // Half of the code objects die before their interpreter, half after it.
    for which in 0..CODES as u8 / 2 {
        kill_by(interpreter(which), which);
    }
    for which in 0..INTERPRETERS {
        end(&mut interpreters, which);
    }
    check();
    for which in 0..CODES as u8 {
        kill_by(0, which);
    }
    model(|m| {
        for code in m.codes.drain(..).flatten() {
            // SAFETY: made by `new_code`, and without values.
            drop(unsafe { Box::from_raw(code.address as *mut PyCodeObject) });
        }
    });
    // The interpreters that have begun last have handed out nothing.
    assert_eq!(blocks(), before, "memory is left");
}
