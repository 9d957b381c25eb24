//! `co_extra` against a model: indices requested and released, values set, got
//! and freed, code objects that die, free functions that do all of that again,
//! and allocations that fail. Then two threads on one code object.
//!
//! A value is a number here, and each is used once. So a value that is freed
//! twice, or not, or found under another index, is seen; a table or code object
//! that is used after it was freed is seen by AddressSanitizer (`ci/asan`), and
//! a data race by ThreadSanitizer (`ci/tsan`).

use super::error::Error;
use super::index::{Index, Key, Tag, MOST_INDICES};
use super::registry::{is_code_before_any_release, Registry, Unusable};
use super::table::{capacity_for, find, TableRef};
use crate::cpython::{PyCodeObject, PyObject};
use crate::in_cpython::{CodeExtraState, FreeFunction, Table};
use crate::stand_in::code::PyCode_Type;
use crate::stand_in::memory::{allow, allowed, blocks, with_each_allocation_failing, zeroed};
use crate::stand_in::reclaim;
use crate::stand_in::threads::{forget_locks, locks_held};
use proptest::prelude::*;
use std::cell::RefCell;
use std::collections::{HashMap, HashSet, VecDeque};
use std::ffi::c_void;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

// ---- small helpers ----------------------------------------------------------

/// An interpreter, as far as `co_extra` can tell.
struct Interpreter {
    state: Box<CodeExtraState>,
    id: i64,
}

impl Interpreter {
    fn new(id: i64) -> Self {
        // SAFETY: zeros are the state's first value, as in CPython.
        let state = unsafe { zeroed() };
        Interpreter { state, id }
    }

    fn registry(&mut self) -> Registry {
        // SAFETY: the state is ours and outlives the tests' use of this.
        unsafe { Registry::new(&raw mut *self.state, Tag::of_interpreter(self.id)) }
    }
}

fn new_code() -> *mut PyCodeObject {
    // SAFETY: nothing but `co_extra` is looked at, and that starts as NULL.
    let code: *mut PyCodeObject = Box::into_raw(unsafe { zeroed() });
    // SAFETY: just made; an object of this type, which every object starts with.
    unsafe { (*code.cast::<PyObject>()).ob_type = (&raw mut PyCode_Type).cast() };
    code
}

fn handle(code: *mut PyCodeObject) -> crate::code::Code {
    // SAFETY: the tests pass live code objects only.
    unsafe { crate::code::Code::new(code) }
}

/// What `code_dealloc` does.
fn kill(registry: Registry, code: *mut PyCodeObject) {
    // SAFETY: live until the next line, which the model makes sure is the last.
    unsafe {
        registry.forget(handle(code));
        drop(Box::from_raw(code));
    }
}

fn set(registry: Registry, code: *mut PyCodeObject, raw: isize, value: usize) -> Result<(), Error> {
    // SAFETY: the tests pass live code objects only.
    unsafe { registry.update(handle(code), raw, |_| value as *mut c_void) }
}

/// As `PyUnstable_Code_GetExtra` does it.
fn get(registry: Registry, code: *mut PyCodeObject, raw: isize) -> Result<usize, Error> {
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

fn release(registry: Registry, raw: isize) -> Result<(), Error> {
    // SAFETY: the tests' interpreter is the calling thread's.
    unsafe { registry.release(raw) }
}

fn finish(registry: Registry) {
    // SAFETY: one thread uses it.
    unsafe { registry.finish() };
}

fn bytes_of(code: *mut PyCodeObject) -> usize {
    // SAFETY: live, and one thread uses it.
    unsafe { TableRef::of(handle(code)) }.map_or(0, TableRef::bytes)
}

// ---- the model --------------------------------------------------------------

const CODES: usize = 6;
const DEPTH: usize = 3;

#[derive(Clone, Debug)]
enum Step {
    Request {
        frees: bool,
    },
    Release(usize),
    Set {
        code: usize,
        index: usize,
    },
    SetNull {
        code: usize,
        index: usize,
    },
    Get {
        code: usize,
        index: usize,
    },
    GetOldOrMadeUp {
        code: usize,
        index: usize,
    },
    Kill(usize),
    /// The next allocations fail after this many.
    Allow(Option<usize>),
}

struct Handed {
    raw: isize,
    frees: bool,
    released: bool,
}

#[derive(Default)]
struct Code {
    address: usize,
    dying: bool,
    values: HashMap<isize, usize>,
}

#[derive(Default)]
struct Model {
    indices: Vec<Handed>,
    codes: Vec<Option<Code>>,
    next_value: usize,
    /// Taken out, and must be freed before the call that did it returns.
    to_free: HashSet<usize>,
    freed: usize,
    nested: VecDeque<Step>,
    depth: usize,
    registry: Option<Registry>,
}

thread_local! {
    static MODEL: RefCell<Model> = RefCell::default();
}

fn model<T>(look: impl FnOnce(&mut Model) -> T) -> T {
    MODEL.with_borrow_mut(look)
}

impl Model {
    fn registry(&self) -> Registry {
        self.registry.expect("set at the start")
    }

    fn pick(&self, index: usize) -> Option<usize> {
        (!self.indices.is_empty()).then(|| index % self.indices.len())
    }

    /// An index in use, most often: the last ones are.
    fn pick_in_use(&self, index: usize) -> Option<usize> {
        let in_use: Vec<usize> =
            (0..self.indices.len()).filter(|i| !self.indices[*i].released).collect();
        (!in_use.is_empty()).then(|| in_use[index % in_use.len()])
    }

    fn frees(&self, raw: isize) -> bool {
        self.indices.iter().any(|handed| handed.raw == raw && handed.frees)
    }
}

/// The free function of the model's indices.
unsafe extern "C" fn free_value(value: *mut c_void) {
    assert!(!value.is_null(), "a free function sees NULL");
    assert_eq!(locks_held(), 0, "a free function runs while a lock is held");
    let value = value as usize;
    let step = model(|m| {
        let expected = m.to_free.remove(&value) || {
            let dying = m.codes.iter_mut().flatten().filter(|code| code.dying);
            let mut found = false;
            for code in dying {
                let before = code.values.len();
                code.values.retain(|_, v| *v != value);
                found |= code.values.len() != before;
            }
            found
        };
        assert!(expected, "value {value} is freed twice, or while it is set");
        m.freed += 1;
        (m.depth < DEPTH).then(|| m.nested.pop_front()).flatten()
    });
    if let Some(step) = step {
        take(step);
    }
}

fn take(step: Step) {
    model(|m| m.depth += 1);
    run_step(step);
    model(|m| m.depth -= 1);
}

fn run_step(step: Step) {
    let registry = model(|m| m.registry());
    match step {
        Step::Request { frees } => {
            let free: FreeFunction = if frees { Some(free_value) } else { None };
            match registry.request(free) {
                Ok(index) => model(|m| {
                    let raw = index.raw();
                    assert!(m.indices.iter().all(|handed| handed.raw != raw), "{raw} again");
                    m.indices.push(Handed { raw, frees, released: false });
                }),
                Err(error) => assert_eq!(error, Error::NoMemory),
            }
        }
        Step::Release(which) => {
            let Some((position, raw, was_released)) = model(|m| {
                let position = m.pick(which)?;
                Some((position, m.indices[position].raw, m.indices[position].released))
            }) else {
                return;
            };
            if was_released {
                let error = release(registry, raw).expect_err("released before");
                assert!(matches!(error, Error::Released | Error::NoMemory));
                return;
            }
            if allowed() == Some(0) {
                assert_eq!(release(registry, raw), Err(Error::NoMemory));
                assert!(registry.index_in_use(raw).is_ok());
                return;
            }
            let taken: Vec<usize> = model(|m| {
                m.indices[position].released = true;
                let frees = m.indices[position].frees;
                let mut taken = Vec::new();
                for code in m.codes.iter_mut().flatten() {
                    taken.extend(code.values.remove(&raw));
                }
                if frees {
                    m.to_free.extend(&taken);
                }
                taken
            });
            assert_eq!(release(registry, raw), Ok(()));
            model(|m| taken.iter().for_each(|v| assert!(!m.to_free.contains(v), "{v} not freed")));
        }
        Step::Set { code, index } => set_in_model(registry, code, index, true),
        Step::SetNull { code, index } => set_in_model(registry, code, index, false),
        Step::Get { code, index } => {
            let Some((address, raw, expected)) = model(|m| {
                let position = m.pick_in_use(index)?;
                let handed = &m.indices[position];
                let code = m.codes[code % CODES].as_ref()?;
                // What no function frees vanishes from a dying code object unseen.
                let unknown = code.dying && !handed.frees;
                let value = code.values.get(&handed.raw).copied().unwrap_or(0);
                Some((code.address, handed.raw, (!unknown).then_some(value)))
            }) else {
                return;
            };
            let found = get(registry, address as *mut PyCodeObject, raw);
            if let Some(expected) = expected {
                assert_eq!(found, Ok(expected), "under {raw:#x}");
            }
        }
        Step::GetOldOrMadeUp { code, index } => {
            let Some((address, raw, expected)) = model(|m| {
                let code = m.codes[code % CODES].as_ref()?;
                let old = m.indices.iter().filter(|handed| handed.released).nth(index % 7);
                let (raw, expected) = match old {
                    Some(handed) => (handed.raw, Err(Error::Released)),
                    None => ([-1, -2, isize::MAX, 1 << 50][index % 4], Ok(0)),
                };
                Some((code.address, raw, expected))
            }) else {
                return;
            };
            assert_eq!(get(registry, address as *mut PyCodeObject, raw), expected);
        }
        Step::Kill(which) => {
            let Some(address) = model(|m| {
                let code = m.codes[which % CODES].as_mut()?;
                (!std::mem::replace(&mut code.dying, true)).then_some(code.address)
            }) else {
                return;
            };
            kill(registry, address as *mut PyCodeObject);
            model(|m| {
                let dead = m.codes[which % CODES].take().expect("was dying");
                let left: Vec<_> = dead.values.keys().filter(|raw| m.frees(**raw)).collect();
                assert!(left.is_empty(), "values of a dead code object were not freed");
            });
            let address = new_code() as usize;
            model(|m| m.codes[which % CODES] = Some(Code { address, ..Code::default() }));
        }
        Step::Allow(allocations) => allow(allocations),
    }
}

fn set_in_model(registry: Registry, code: usize, index: usize, with_value: bool) {
    // One in eight times an index that may be out of use.
    let Some((address, raw, released)) = model(|m| {
        let position = if index % 8 == 0 { m.pick(index / 8)? } else { m.pick_in_use(index)? };
        let handed = &m.indices[position];
        let code = m.codes[code % CODES].as_ref()?;
        Some((code.address, handed.raw, handed.released))
    }) else {
        return;
    };
    let address = address as *mut PyCodeObject;
    if released {
        assert_eq!(set(registry, address, raw, 16), Err(Error::Released));
        return;
    }
    let (value, old) = model(|m| {
        m.next_value += 1;
        let value = if with_value { m.next_value * 16 } else { 0 };
        let frees = m.frees(raw);
        let code = m.codes[code % CODES].as_mut().expect("picked above");
        let old =
            if with_value { code.values.insert(raw, value) } else { code.values.remove(&raw) };
        // What no function frees vanishes from a dying code object unseen.
        let old = if code.dying && !frees { None } else { old };
        if let (Some(old), true) = (old, frees) {
            m.to_free.insert(old);
        }
        (value, old)
    });
    match set(registry, address, raw, value) {
        Ok(()) => {
            // The code object may be gone by now: only the model is asked.
            if let Some(old) = old {
                model(|m| assert!(!m.to_free.contains(&old), "the old value was not freed"));
            }
        }
        Err(error) => {
            assert_eq!(error, Error::NoMemory);
            assert_eq!(old, None, "replacing a value needs no memory");
            // Nothing ran, so the code object is still there, and as it was.
            model(|m| {
                let code = m.codes[code % CODES].as_mut().expect("nothing ran");
                code.values.remove(&raw);
            });
            assert_eq!(get(registry, address, raw), Ok(0));
        }
    }
}

fn steps() -> impl Strategy<Value = Step> {
    let code = 0usize..CODES;
    prop_oneof![
        6 => any::<bool>().prop_map(|frees| Step::Request { frees }),
        4 => (0usize..1000).prop_map(Step::Release),
        40 => (code.clone(), 0usize..1000).prop_map(|(code, index)| Step::Set { code, index }),
        10 => (code.clone(), 0usize..1000).prop_map(|(code, index)| Step::SetNull { code, index }),
        30 => (code.clone(), 0usize..1000).prop_map(|(code, index)| Step::Get { code, index }),
        5 => (code.clone(), 0usize..1000)
            .prop_map(|(code, index)| Step::GetOldOrMadeUp { code, index }),
        3 => code.prop_map(Step::Kill),
        2 => proptest::option::of(0usize..3).prop_map(Step::Allow),
    ]
}

fn run(steps: Vec<Step>, nested: Vec<Step>) {
    allow(None);
    let before = blocks();
    let mut interpreter = Interpreter::new(0);
    let registry = interpreter.registry();
    let codes = (0..CODES)
        .map(|_| Some(Code { address: new_code() as usize, ..Code::default() }))
        .collect();
    let nested = nested.into();
    model(|m| *m = Model { codes, nested, registry: Some(registry), ..Model::default() });
    for step in steps {
        take(step);
        assert!(model(|m| m.to_free.is_empty()), "something is still to be freed");
    }
    allow(None);
    model(|m| m.nested.clear());
    // Half of the code objects die before the interpreter, half after it.
    for which in 0..CODES / 2 {
        run_step(Step::Kill(which));
    }
    model(|m| {
        for which in 0..CODES {
            let code = m.codes[which].take().expect("replaced when killed");
            let left: Vec<usize> =
                code.values.iter().filter(|(raw, _)| m.frees(**raw)).map(|(_, v)| *v).collect();
            m.to_free.extend(left);
            m.codes[which] = Some(Code { address: code.address, ..Code::default() });
        }
    });
    finish(registry);
    assert!(model(|m| m.to_free.is_empty()), "the interpreter's end did not free all");
    for which in 0..CODES {
        let code = model(|m| m.codes[which].take().expect("alive")).address as *mut PyCodeObject;
        assert_eq!(bytes_of(code), 0);
        kill(registry, code);
    }
    assert_eq!(blocks(), before, "memory is left");
}

const STEPS_PER_CASE: usize = 4_000;

proptest! {
    // 260 cases of 4,000 steps: 1.04 million operations, and up to 260,000 nested ones.
    #![proptest_config(ProptestConfig {
        cases: 260,
        max_shrink_iters: 2_000,
        ..ProptestConfig::default()
    })]

    #[test]
    fn random_use_agrees_with_the_model_and_frees_each_value_once(
        steps in proptest::collection::vec(steps(), STEPS_PER_CASE),
        nested in proptest::collection::vec(steps(), 1_000),
    ) {
        run(steps, nested);
    }
}

// ---- single facts -----------------------------------------------------------

#[test]
fn the_first_indices_of_the_main_interpreter_are_small_numbers() {
    let mut interpreter = Interpreter::new(0);
    for expected in 0..100 {
        assert_eq!(interpreter.registry().request(None).map(Index::raw), Ok(expected));
    }
    finish(interpreter.registry());
}

#[test]
fn an_index_is_made_of_its_parts() {
    for id in [0, 1, 2, 4_194_300, 4_194_301, i64::MAX] {
        let tag = Tag::of_interpreter(id);
        for slot in [0, 1, 77, MOST_INDICES - 1] {
            let index = Index::first(tag, slot);
            assert_eq!((index.slot(), index.tag(), index.generation()), (slot, tag, 0));
            let next = index.successor().expect("there are many");
            assert_eq!((next.slot(), next.tag(), next.generation()), (slot, tag, 1));
            assert!(index.raw() >= 0 && next.raw() > index.raw());
            assert!(Key::live(index) != Key::EMPTY && Key::gone(index) != Key::EMPTY);
        }
    }
}

#[test]
fn a_slot_without_more_generations_is_not_used_again() {
    let mut interpreter = Interpreter::new(0);
    let registry = interpreter.registry();
    let mut last = registry.request(None).expect("memory");
    let mut count = 0usize;
    while last.slot() == 0 {
        assert_eq!(release(registry, last.raw()), Ok(()));
        last = registry.request(None).expect("memory");
        count += 1;
    }
    assert_eq!((count, last.raw()), ((1 << 21) - 1, 1));
    finish(registry);
}

#[test]
fn a_million_indices_are_handed_out_and_then_none() {
    let mut interpreter = Interpreter::new(0);
    let registry = interpreter.registry();
    for slot in 0..MOST_INDICES {
        assert_eq!(registry.request(None).map(Index::slot), Ok(slot));
    }
    let exhausted = Err(Error::Exhausted { in_use: MOST_INDICES });
    assert_eq!(registry.request(None), exhausted);
    assert_eq!(release(registry, 70_000), Ok(()));
    let again = registry.request(None).expect("one was released");
    assert_eq!((again.slot(), again.generation()), (70_000, 1));
    assert_eq!(registry.request(None), exhausted);
    finish(registry);
    assert_eq!(registry.request(None), Err(Error::Finished));
}

#[test]
fn a_value_under_a_high_index_takes_no_more_than_under_a_low_one() {
    let mut interpreter = Interpreter::new(0);
    let registry = interpreter.registry();
    let indices: Vec<_> =
        (0..70_000).map(|_| registry.request(None).expect("memory").raw()).collect();
    let code = new_code();
    assert_eq!(set(registry, code, indices[69_999], 16), Ok(()));
    assert_eq!(bytes_of(code), Table::bytes(1));
    assert_eq!(set(registry, code, indices[3], 32), Ok(()));
    assert_eq!(bytes_of(code), Table::bytes(2));
    assert_eq!(get(registry, code, indices[69_999]), Ok(16));
    assert_eq!(get(registry, code, indices[3]), Ok(32));
    kill(registry, code);
    finish(registry);
}

#[test]
fn every_capacity_takes_what_it_says_and_is_at_most_twice_too_large() {
    for count in 1..5_000 {
        let capacity = capacity_for(count);
        assert!(capacity - capacity / 4 >= count && capacity.is_power_of_two());
        assert!(capacity == 1 || capacity / 2 - capacity / 8 < count);
    }
}

#[test]
fn indices_and_values_of_two_interpreters_are_apart() {
    let (mut first, mut second) = (Interpreter::new(0), Interpreter::new(1));
    let (one, two) = (first.registry(), second.registry());
    let code = new_code();
    let of_one = one.request(None).expect("memory").raw();
    let of_two = two.request(None).expect("memory").raw();
    assert_eq!(set(one, code, of_one, 16), Ok(()));
    assert_eq!(set(two, code, of_one, 32), Err(Error::Unknown { in_use: 1 }));
    assert_eq!(set(two, code, of_two, 32), Err(Error::ForeignCode));
    assert_eq!(get(two, code, of_two), Ok(0));
    assert_eq!(release(two, of_one), Err(Error::Unknown { in_use: 1 }));
    assert_eq!(get(one, code, of_one), Ok(16));
    finish(two);
    kill(one, code);
    finish(one);
}

static ORPHANS_FREED: AtomicUsize = AtomicUsize::new(0);

unsafe extern "C" fn count_orphan(value: *mut c_void) {
    ORPHANS_FREED.fetch_add(value as usize, Ordering::Relaxed);
}

#[test]
fn values_of_a_code_object_that_dies_elsewhere_wait_for_their_interpreter() {
    let before = blocks();
    let (mut first, mut second) = (Interpreter::new(0), Interpreter::new(1));
    let (one, two) = (first.registry(), second.registry());
    let released = one.request(Some(count_orphan)).expect("memory").raw();
    let kept = one.request(Some(count_orphan)).expect("memory").raw();
    let code = new_code();
    assert_eq!(set(one, code, released, 1), Ok(()));
    assert_eq!(set(one, code, kept, 100), Ok(()));
    kill(two, code);
    assert_eq!(ORPHANS_FREED.load(Ordering::Relaxed), 0);
    assert_eq!(release(one, released), Ok(()));
    assert_eq!(ORPHANS_FREED.load(Ordering::Relaxed), 1);
    finish(one);
    assert_eq!(ORPHANS_FREED.load(Ordering::Relaxed), 101);
    finish(two);
    assert_eq!(blocks(), before);
}

#[test]
fn a_failed_allocation_loses_nothing() {
    let mut interpreter = Interpreter::new(0);
    let registry = interpreter.registry();
    let mut indices = Vec::new();
    with_each_allocation_failing(|| {
        while indices.len() < 200 {
            match registry.request(None) {
                Ok(index) => indices.push(index.raw()),
                Err(error) => {
                    assert_eq!(error, Error::NoMemory);
                    return false;
                }
            }
        }
        true
    });
    assert_eq!(indices, (0..200).collect::<Vec<isize>>());
    let code = new_code();
    let mut stored = 0;
    with_each_allocation_failing(|| {
        while stored < 200 {
            let outcome = set(registry, code, indices[stored], 16 * (stored + 1));
            for (position, index) in indices.iter().enumerate() {
                let there = position < stored + usize::from(outcome.is_ok());
                let expected = if there { 16 * (position + 1) } else { 0 };
                assert_eq!(get(registry, code, *index), Ok(expected));
            }
            if outcome.is_err() {
                assert_eq!(outcome, Err(Error::NoMemory));
                return false;
            }
            stored += 1;
        }
        true
    });
    with_each_allocation_failing(|| {
        let outcome = release(registry, indices[0]);
        let found = registry.index_in_use(indices[0]);
        assert_eq!(found == Err(Unusable::Released), outcome.is_ok());
        outcome.is_ok()
    });
    kill(registry, code);
    finish(registry);
}

#[test]
fn a_code_object_without_values_has_no_table() {
    let before = blocks();
    let mut interpreter = Interpreter::new(0);
    let registry = interpreter.registry();
    let [first, second] = [(); 2].map(|()| registry.request(None).expect("memory").raw());
    let code = new_code();
    assert_eq!(set(registry, code, first, 0), Ok(()));
    assert_eq!(bytes_of(code), 0);
    assert_eq!(set(registry, code, first, 16), Ok(()));
    assert_eq!(set(registry, code, second, 16), Ok(()));
    assert_eq!(set(registry, code, first, 0), Ok(()));
    assert!(bytes_of(code) > 0);
    assert_eq!(release(registry, second), Ok(()));
    assert_eq!(bytes_of(code), 0);
    finish(registry);
    assert_eq!(blocks(), before);
    kill(registry, code);
}

#[test]
fn a_forked_child_can_take_a_lock_that_was_copied_as_held() {
    let mut interpreter = Interpreter::new(0);
    let registry = interpreter.registry();
    let index = registry.request(None).expect("memory").raw();
    let code = new_code();
    // The thread that holds it is not there any more.
    std::mem::forget(registry.lock());
    // SAFETY: no other thread knows the registry.
    unsafe { registry.forget_lock() };
    forget_locks();
    assert_eq!(set(registry, code, index, 16), Ok(()));
    assert_eq!(get(registry, code, index), Ok(16));
    kill(registry, code);
    finish(registry);
}

// ---- threads ----------------------------------------------------------------

/// What the threads share.
struct Shared {
    registry: Registry,
    code: *mut PyCodeObject,
    fixed: [isize; 3],
    /// Threads that are done. Orders the end, also for ThreadSanitizer, which does
    /// not see how the standard library joins threads.
    finished: AtomicUsize,
}

// SAFETY: what is behind it is made for several threads, which is what is tested.
unsafe impl Sync for Shared {}

static STORED: AtomicUsize = AtomicUsize::new(0);
static FREED: AtomicUsize = AtomicUsize::new(0);

unsafe extern "C" fn count_freed(_value: *mut c_void) {
    FREED.fetch_add(1, Ordering::Relaxed);
}

/// A value that tells under which index it was stored.
fn value_for(raw: isize, number: usize) -> usize {
    (number << 8 | (raw as usize & 0xff)) + (1 << 60)
}

fn check_value(raw: isize, value: usize) {
    assert!(value == 0 || value & 0xff == raw as usize & 0xff, "{value:#x} is not under {raw}");
}

fn one_thread(shared: &Shared, number: usize, operations: usize) {
    reclaim::attach(number);
    let mut random = number as u64 * 0x9e37_79b9_7f4a_7c15 + 1;
    let mut own: Vec<isize> = Vec::new();
    for operation in 0..operations {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let dice = (random >> 40) as usize;
        let raw = shared.fixed[dice % 3];
        match dice / 3 % 100 {
            0..=59 => check_value(raw, get(shared.registry, shared.code, raw).expect("in use")),
            60..=89 => {
                STORED.fetch_add(1, Ordering::Relaxed);
                let value = value_for(raw, operation + 1);
                assert_eq!(set(shared.registry, shared.code, raw, value), Ok(()));
            }
            90..=93 => assert_eq!(set(shared.registry, shared.code, raw, 0), Ok(())),
            94..=97 => {
                // Indices that come and go make tables grow and be made anew.
                let index = shared.registry.request(Some(count_freed)).expect("memory").raw();
                STORED.fetch_add(1, Ordering::Relaxed);
                let value = value_for(index, operation + 1);
                assert_eq!(set(shared.registry, shared.code, index, value), Ok(()));
                assert_eq!(get(shared.registry, shared.code, index), Ok(value));
                own.push(index);
            }
            _ => {
                if let Some(index) = own.pop() {
                    assert_eq!(release(shared.registry, index), Ok(()));
                    assert_eq!(get(shared.registry, shared.code, index), Err(Error::Released));
                }
                if own.len() > 20 {
                    own.drain(..).for_each(|i| assert_eq!(release(shared.registry, i), Ok(())));
                }
            }
        }
        reclaim::outside();
    }
    reclaim::detach();
    shared.finished.fetch_add(1, Ordering::Release);
}

/// Two threads, each with half of the operations; `ci/tsan` asks for ten million.
#[test]
fn two_threads_set_and_get_on_one_code_object() {
    let operations = std::env::var("FERRULE_RACE_OPERATIONS")
        .map_or(400_000, |text| text.parse().expect("a number of operations"));
    let mut interpreter = Interpreter::new(0);
    let registry = interpreter.registry();
    let fixed = [(); 3].map(|()| registry.request(Some(count_freed)).expect("memory").raw());
    let shared = Shared { registry, code: new_code(), fixed, finished: AtomicUsize::new(0) };
    std::thread::scope(|scope| {
        for number in 0..2 {
            let shared = &shared;
            scope.spawn(move || one_thread(shared, number, operations / 2));
        }
    });
    assert_eq!(shared.finished.load(Ordering::Acquire), 2);
    kill(registry, shared.code);
    finish(registry);
    assert_eq!(FREED.load(Ordering::Relaxed), STORED.load(Ordering::Relaxed));
}

/// Not a test of ours: `ci/tsan` runs it and expects ThreadSanitizer to stop it.
#[test]
#[ignore = "must be stopped by ThreadSanitizer; ci/tsan runs it"]
fn races_for_a_plain_word() {
    struct Word(std::cell::UnsafeCell<usize>);
    // SAFETY: none. Wrong on purpose.
    unsafe impl Sync for Word {}
    let word = Word(std::cell::UnsafeCell::new(0));
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let (word, stop) = (&word, &stop);
        for _ in 0..2 {
            scope.spawn(move || {
                for _ in 0..100_000 {
                    // SAFETY: none. Wrong on purpose.
                    unsafe { word.0.get().write_volatile(word.0.get().read_volatile() + 1) };
                }
                stop.store(true, Ordering::Relaxed);
            });
        }
    });
    assert!(stop.load(Ordering::Relaxed));
}
