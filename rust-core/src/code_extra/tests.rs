//! `co_extra`: steps by chance against the model, single facts, and two threads on one code object.
//!
//! A table or code object that is used after it was freed is seen by AddressSanitizer (`ci/asan`), and
//! a data race by ThreadSanitizer (`ci/tsan`).

use super::error::Error;
use super::index::{Index, Key, Tag, MOST_INDICES};
use super::model::{
    bytes_of, finish, get, kill, new_code, release, run, set, Interpreter, Step, CODES,
    INTERPRETERS,
};
use super::registry::{Registry, Unusable};
use super::table::capacity_for;
use crate::cpython::PyCodeObject;
use crate::fake_cpython::memory::{blocks, with_each_allocation_failing};
use crate::fake_cpython::reclaim;
use crate::fake_cpython::threads::forget_locks;
use crate::in_cpython::Table;
use crate::mutex::Held;
use proptest::prelude::*;
use std::ffi::c_void;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

fn steps() -> impl Strategy<Value = Step> {
    let (by, code, index) = (0..INTERPRETERS as u8, 0..CODES as u8, 0u16..1000);
    prop_oneof![
        6 => (by.clone(), any::<bool>()).prop_map(|(by, frees)| Step::Request { by, frees }),
        1 => (by.clone(), any::<u8>()).prop_map(|(by, count)| Step::RequestMany { by, count }),
        6 => index.clone().prop_map(Step::Release),
        1 => (by.clone(), index.clone()).prop_map(|(by, index)| Step::ReleaseBy { by, index }),
        40 => (code.clone(), index.clone()).prop_map(|(code, index)| Step::Set { code, index }),
        10 => (code.clone(), index.clone()).prop_map(|(code, index)| Step::SetNull { code, index }),
        4 => (by.clone(), code.clone(), index.clone())
            .prop_map(|(by, code, index)| Step::SetBy { by, code, index }),
        1 => code.clone().prop_map(Step::SetAll),
        30 => (code.clone(), index.clone()).prop_map(|(code, index)| Step::Get { code, index }),
        5 => (by.clone(), code.clone(), index)
            .prop_map(|(by, code, index)| Step::GetBy { by, code, index }),
        1 => (code.clone(), any::<u8>()).prop_map(|(code, which)| Step::GetMadeUp { code, which }),
        3 => (by.clone(), code).prop_map(|(by, code)| Step::Kill { by, code }),
        1 => by.prop_map(Step::End),
        2 => proptest::option::of(0u8..3).prop_map(Step::Allow),
    ]
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
    unsafe { Held::forget(registry.lock_place()) };
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

/// A value that shows under which index it was stored.
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

/// Two threads, each with half of the operations; `ci/tsan` runs ten million.
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
