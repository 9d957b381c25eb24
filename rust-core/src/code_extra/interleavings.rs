//! `co_extra` in every order of its threads' steps, by loom (`ci/proofs`).
//!
//! What must hold, whatever the order:
//! - No index is handed out twice, and one that was released is never one in use again.
//! - A reader finds a value that was stored under its index, or none.
//! - A value stays found while other indices get theirs.
//! - A value is given to its free function once.
//! - No table and no segment is freed while a reader may have it. No thread reaches one that was not
//!   given to it. (`fake_cpython::interleaved` looks.)

use super::error::Error;
use super::index::Tag;
use super::registry::{is_code_before_any_release, Registry, Unusable, CODE_TYPE_UNTIL_RELEASE};
use super::table::find;
use crate::code::Code;
use crate::cpython::{PyCodeObject, PyCode_Type, PyObject};
use crate::fake_cpython::interleaved::{allocation, died, explore, over, share, shared};
use crate::fake_cpython::reclaim_interleaved::{attach, begin, detach};
use crate::in_cpython::CodeExtraState;
use crate::sync::{AtomicUsize, Ordering};
use loom::thread::{spawn, JoinHandle};
use std::cell::RefCell;
use std::ffi::c_void;

thread_local! {
    /// Values given to free functions. loom's threads take turns in one thread of the system.
    static FREED: RefCell<Vec<usize>> = const { RefCell::new(Vec::new()) };
}

unsafe extern "C" fn note(value: *mut c_void) {
    FREED.with_borrow_mut(|freed| freed.push(value as usize));
}

/// What was freed, in order of size.
fn freed() -> Vec<usize> {
    let mut freed = FREED.take();
    freed.sort();
    freed
}

/// An interpreter and a code object, as threads share them.
#[derive(Clone, Copy)]
struct Place {
    registry: Registry,
    code: *mut PyCodeObject,
}

// SAFETY: what is behind it is made for several threads, which is what is modelled.
unsafe impl Send for Place {}

/// Either the value, 0 for none, or why there is none.
type Found = Result<usize, Unusable>;

impl Place {
    fn new() -> Self {
        FREED.take();
        share((&raw const CODE_TYPE_UNTIL_RELEASE).cast_mut());
        // The execution before may have released an index.
        CODE_TYPE_UNTIL_RELEASE.store(&raw mut PyCode_Type, Ordering::Relaxed);
        let code = shared(|code: &mut PyCodeObject| {
            // SAFETY: every object starts with this one.
            unsafe { (*(&raw mut *code).cast::<PyObject>()).ob_type = &raw mut PyCode_Type };
        });
        Place { registry: interpreter(0), code }
    }

    fn code(self) -> Code {
        // SAFETY: live until `close`.
        unsafe { Code::new(self.code) }
    }

    fn request(self) -> isize {
        self.registry.request(Some(note)).expect("memory").raw()
    }

    fn try_set(self, index: isize, value: usize) -> Result<(), Error> {
        // SAFETY: live until `close`.
        unsafe { self.registry.update(self.code(), index, |_| value as *mut c_void) }
    }

    fn set(self, index: isize, value: usize) {
        assert_eq!(self.try_set(index, value), Ok(()));
    }

    /// As `PyUnstable_Code_GetExtra` does it.
    fn get(self, index: isize) -> Found {
        // SAFETY: live until `close`.
        unsafe {
            match find(self.code(), index) {
                Some(value) => Ok(value as usize),
                None if is_code_before_any_release(self.code.cast()) => Ok(0),
                None => self.registry.index_in_use(index).map(|_| 0),
            }
        }
    }

    fn release(self, index: isize) {
        // SAFETY: the interpreter is the threads'.
        assert_eq!(unsafe { self.registry.release(index) }, Ok(()));
    }

    /// The code object dies, and then the interpreter. No thread is left.
    fn close(self) {
        // SAFETY: nothing else uses them any more.
        unsafe {
            self.registry.forget(self.code());
            over(self.code);
            end_of(self.registry);
        }
    }
}

/// The interpreter's end.
///
/// # Safety
/// No thread uses it any more.
unsafe fn end_of(registry: Registry) {
    // SAFETY: the caller says that no thread uses it any more. `interpreter` has made its state.
    unsafe {
        registry.finish();
        over(registry.state());
    }
}

fn interpreter(id: i64) -> Registry {
    let state: *mut CodeExtraState = shared(|_| ());
    // SAFETY: zeros are the state's first value, as in CPython; it stays until the model's end.
    unsafe { Registry::new(state, Tag::of_interpreter(id)) }
}

/// A thread that is attached from now on.
fn thread<R: 'static>(number: usize, work: impl FnOnce() -> R + 'static) -> JoinHandle<R> {
    attach(number);
    spawn(move || {
        begin(number);
        let result = work();
        detach();
        result
    })
}

/// A value that leads to a block with the number in it.
fn whole_value(number: usize) -> usize {
    // SAFETY: any size will do; a word fits.
    unsafe {
        let block: *mut usize = allocation(size_of::<usize>()).cast();
        block.write(number);
        block as usize
    }
}

/// The number in the block that a value leads to; 0 without a value.
fn number_in(value: usize) -> usize {
    if value == 0 {
        return 0;
    }
    // SAFETY: a block of `whole_value`, which stays until the model's end.
    unsafe { AtomicUsize::from_ptr(value as *mut usize) }.load(Ordering::Relaxed)
}

#[test]
fn interleaved_a_reader_finds_a_whole_value_or_none() {
    explore(|| {
        let place = Place::new();
        let index = place.request();
        let writer = thread(0, move || {
            [16, 32].map(|number| {
                let value = whole_value(number);
                place.set(index, value);
                value
            })
        });
        let reader =
            thread(1, move || [(), ()].map(|()| place.get(index).map(number_in).expect("in use")));
        let [first, second] = reader.join().expect("a reader");
        assert!([0, 16, 32].contains(&first), "{first} was never stored");
        assert!([0, 16, 32].contains(&second) && second >= first, "{second} after {first}");
        let values = writer.join().expect("a writer");
        assert_eq!(place.get(index), Ok(values[1]));
        assert_eq!(freed(), [values[0]]);
        place.close();
        assert_eq!(freed(), [values[1]]);
        // SAFETY: no thread is left.
        values.into_iter().for_each(|value| unsafe { died(value as *mut c_void) });
    });
}

#[test]
fn interleaved_a_value_stays_found_while_its_table_is_replaced() {
    explore(|| {
        let place = Place::new();
        let (old, new) = (place.request(), place.request());
        place.set(old, 16);
        let writer = thread(0, move || place.set(new, 32));
        let reader = thread(1, move || (place.get(old), place.get(new), place.get(old)));
        let (first, other, second) = reader.join().expect("a reader");
        assert_eq!((first, second), (Ok(16), Ok(16)));
        assert!([Ok(0), Ok(32)].contains(&other), "{other:?}");
        writer.join().expect("a writer");
        assert_eq!((place.get(old), place.get(new)), (Ok(16), Ok(32)));
        place.close();
        assert_eq!(freed(), [16, 32]);
    });
}

#[test]
fn interleaved_a_table_of_several_goes_with_its_last_value() {
    explore(|| {
        let place = Place::new();
        let (one, other) = (place.request(), place.request());
        place.set(one, 16);
        place.set(other, 32);
        let writer = thread(0, move || {
            place.set(one, 0);
            place.set(other, 0);
            place.set(other, 48);
        });
        let reader = thread(1, move || (place.get(one), place.get(other)));
        let (first, second) = reader.join().expect("a reader");
        assert!([Ok(0), Ok(16)].contains(&first), "{first:?}");
        assert!([Ok(0), Ok(32), Ok(48)].contains(&second), "{second:?}");
        writer.join().expect("a writer");
        place.close();
        assert_eq!(freed(), [16, 32, 48]);
    });
}

#[test]
fn interleaved_an_index_that_comes_after_shows_nothing_to_the_one_before() {
    explore(|| {
        let place = Place::new();
        let index = place.request();
        place.set(index, 16);
        let writer = thread(0, move || {
            place.release(index);
            let next = place.request();
            assert_ne!(next, index);
            place.set(next, 32);
            next
        });
        let reader = thread(1, move || [place.get(index), place.get(index)]);
        for found in reader.join().expect("a reader") {
            // The value may have been taken out already. It is NULL then, for a moment.
            assert!([Ok(16), Ok(0), Err(Unusable::Released)].contains(&found), "{found:?}");
        }
        let next = writer.join().expect("a writer");
        assert_eq!((place.get(index), place.get(next)), (Err(Unusable::Released), Ok(32)));
        assert_eq!(freed(), [16]);
        place.close();
        assert_eq!(freed(), [32]);
    });
}

/// Uses up the registry's first segment, so that the next index is in one of its own.
fn use_up_a_segment(place: Place) {
    assert_eq!([(); 16].map(|()| place.request()).last(), Some(&15));
}

#[test]
fn interleaved_a_new_index_is_handed_out_once() {
    explore(|| {
        let place = Place::new();
        use_up_a_segment(place);
        let writers = [0, 1].map(|number| thread(number, move || place.request()));
        let mut all = writers.map(|it| it.join().expect("a writer"));
        all.sort();
        assert_eq!(all, [16, 17]);
        assert_eq!(place.registry.lock().in_use(), 18);
        place.close();
    });
}

#[test]
fn interleaved_an_index_is_whole_when_it_is_seen() {
    explore(|| {
        let place = Place::new();
        use_up_a_segment(place);
        let writer = thread(0, move || [place.request(), place.request()]);
        let reader = thread(1, move || [16, 17].map(|raw| place.registry.index_in_use(raw)));
        for (raw, found) in [16, 17].into_iter().zip(reader.join().expect("a reader")) {
            match found {
                Ok(index) => assert_eq!(index.raw(), raw),
                Err(why) => assert_eq!(why, Unusable::Unknown, "{raw}"),
            }
        }
        assert_eq!(writer.join().expect("a writer"), [16, 17]);
        place.close();
    });
}

#[test]
fn interleaved_a_released_slot_is_handed_out_once() {
    explore(|| {
        let place = Place::new();
        let index = place.request();
        let releases = thread(0, move || {
            place.release(index);
            place.request()
        });
        let requests = thread(1, move || place.request());
        let all = [index, releases.join().expect("one"), requests.join().expect("other")];
        assert!(all[0] != all[1] && all[0] != all[2] && all[1] != all[2], "{all:?}");
        assert_eq!(place.registry.index_in_use(all[0]), Err(Unusable::Released));
        for raw in &all[1..] {
            assert_eq!(place.registry.index_in_use(*raw).map(|it| it.raw()), Ok(*raw));
        }
        place.close();
    });
}

#[test]
fn interleaved_two_writers_lose_nothing_and_free_each_value_once() {
    explore(|| {
        let place = Place::new();
        let (one, other) = (place.request(), place.request());
        let first = thread(0, move || {
            place.set(one, 16);
            place.set(other, 32);
        });
        let second = thread(1, move || place.set(other, 48));
        first.join().expect("a writer");
        second.join().expect("a writer");
        assert_eq!(place.get(one), Ok(16));
        let (stays, goes) = match place.get(other) {
            Ok(32) => (32, 48),
            found => (found.expect("in use"), 32),
        };
        assert_eq!(freed(), [goes]);
        place.close();
        assert_eq!(freed(), [16, stays]);
    });
}

/// A thread in which the code object dies, under this interpreter, and its memory goes.
fn death(number: usize, place: Place, under: Registry) -> JoinHandle<()> {
    // SAFETY: nothing but the owner of its values has the code object any more.
    thread(number, move || unsafe {
        under.forget(place.code());
        over(place.code);
    })
}

#[test]
fn interleaved_a_code_object_dies_while_an_index_is_released() {
    explore(|| {
        let place = Place::new();
        let (stays, goes) = (place.request(), place.request());
        place.set(stays, 16);
        place.set(goes, 32);
        let dies = death(0, place, place.registry);
        let releases = thread(1, move || place.release(goes));
        dies.join().expect("one");
        releases.join().expect("other");
        assert_eq!(freed(), [16, 32]);
        // SAFETY: both threads are over.
        unsafe { end_of(place.registry) };
    });
}

#[test]
fn interleaved_a_code_object_dies_elsewhere_while_an_index_is_released() {
    explore(|| {
        let place = Place::new();
        let elsewhere = interpreter(1);
        let (stays, goes) = (place.request(), place.request());
        place.set(stays, 16);
        place.set(goes, 32);
        let dies = death(0, place, elsewhere);
        let releases = thread(1, move || place.release(goes));
        dies.join().expect("one");
        releases.join().expect("other");
        // What is not released stays its interpreter's.
        assert_eq!(freed(), [32]);
        // SAFETY: both threads are over.
        unsafe {
            end_of(place.registry);
            end_of(elsewhere);
        }
        assert_eq!(freed(), [16]);
    });
}

/// As far as this may happen: the owner's memory stays until both are done. CPython lets no two
/// interpreters that run at once share an object; where they did, `forget` could lock a registry
/// that is gone.
#[test]
fn interleaved_a_code_object_dies_elsewhere_while_its_owner_ends() {
    explore(|| {
        let place = Place::new();
        let elsewhere = interpreter(1);
        let index = place.request();
        place.set(index, 16);
        let dies = death(0, place, elsewhere);
        // SAFETY: the interpreter's last thread.
        let ends = thread(1, move || unsafe { place.registry.finish() });
        dies.join().expect("one");
        ends.join().expect("other");
        assert_eq!(freed(), [16]);
        // SAFETY: both threads are over.
        unsafe {
            over(place.registry.state());
            end_of(elsewhere);
        }
    });
}

#[test]
fn interleaved_two_interpreters_store_on_one_code_object() {
    explore(|| {
        let place = Place::new();
        let other = Place { registry: interpreter(1), ..place };
        let stores = |number, place: Place, value| {
            thread(number, move || {
                let index = place.request();
                place.try_set(index, value)
            })
        };
        let [one, two] = [stores(0, place, 16), stores(1, other, 32)].map(|it| it.join());
        let (first, second) = match (one.expect("one"), two.expect("other")) {
            (Ok(()), Err(Error::ForeignCode)) => (place, other),
            (Err(Error::ForeignCode), Ok(())) => (other, place),
            found => panic!("{found:?}"),
        };
        first.close();
        // SAFETY: both threads are over.
        unsafe { end_of(second.registry) };
    });
}
