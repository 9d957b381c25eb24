//! Reference counts of objects, as cheap as in C.
//!
//! How an object counts its references differs from build to build. Each way is a file, and has the
//! same six functions:
//!
//! | file | build |
//! |---|---|
//! | `gil` | with the GIL: a count is a number, which is read and written here |
//! | `in_c` | with the GIL, where CPython counts all references: debug builds, `--enable-pystats` |
//! | `free_threaded` | without the GIL: threads share counts, by rules that are CPython's |
//! | `for_tests` | the unit tests: `fake_cpython` |
//!
//! - `incref` takes a reference. The object is alive, and a thread state is held.
//! - `decref` gives one up, which the caller owns. The object's destructor may run, and with it any
//!   code.
//! - `decref_within` does the same. While a destructor runs, a value of the caller's is alive, and
//!   undoes at its end what holds only meanwhile.
//! - `is_immortal` says whether the object's count never changes.
//! - `is_shared` says whether there are more references than one; of an immortal object it is
//!   always true.
//! - `has_deferred_count` says whether frames may refer to the object without counting.

#[cfg(all(any(ferrule_free_threaded, ferrule_counts_in_c), not(any(test, fuzzing))))]
mod called;
#[cfg(any(test, fuzzing))]
mod for_tests;
#[cfg(all(ferrule_free_threaded, not(any(test, fuzzing))))]
mod free_threaded;
#[cfg(not(any(ferrule_free_threaded, test, fuzzing)))]
mod gil;
#[cfg(all(ferrule_counts_in_c, not(any(ferrule_free_threaded, test, fuzzing))))]
mod in_c;

// The one choice.
#[cfg(any(test, fuzzing))]
use for_tests as model;
#[cfg(all(ferrule_free_threaded, not(any(test, fuzzing))))]
use free_threaded as model;
#[cfg(not(any(ferrule_free_threaded, ferrule_counts_in_c, test, fuzzing)))]
use gil as model;
#[cfg(all(ferrule_counts_in_c, not(any(ferrule_free_threaded, test, fuzzing))))]
use in_c as model;

use crate::cpython::PyObject;
pub use model::{decref, decref_within, has_deferred_count, incref, is_immortal, is_shared};

/// Takes a reference, and returns the object.
///
/// # Safety
/// `object` is alive, and the calling thread is attached.
#[inline(always)]
pub unsafe fn new_reference(object: *mut PyObject) -> *mut PyObject {
    // SAFETY: the caller passes a live object, attached.
    unsafe { incref(object) };
    object
}
