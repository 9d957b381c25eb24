//! The words of watched frames, as the engine keeps them: a pointer's worth of memory each.
//!
//! A number is kept as it is; for a value of another type the engine has the pointer of a box.

use std::any::Any;
use std::ffi::c_void;
use std::ptr::without_provenance_mut;

macro_rules! numbers {
    ($($number:ty),*) => {
        fn as_number<W: Any>(word: &W) -> Option<usize> {
            let word: &dyn Any = word;
            $(if let Some(number) = word.downcast_ref::<$number>() {
                return Some(*number as usize);
            })*
            None
        }

        /// Shows a word that the engine gives back.
        ///
        /// # Safety
        /// It was made by `into_raw::<W>` and is not dropped while `body` runs.
        pub(crate) unsafe fn with<W: Any, T>(raw: *mut c_void, body: impl FnOnce(&W) -> T) -> T {
            $({
                let word: &dyn Any = &(raw as usize as $number);
                if let Some(word) = word.downcast_ref() {
                    return body(word);
                }
            })*
            // SAFETY: no number, so the pointer of a box. It is not dropped, by the caller's
            // promise, and only shared references to it are made.
            body(unsafe { &*raw.cast() })
        }

        fn is_number<W: Any>() -> bool {
            use std::any::TypeId;
            $(TypeId::of::<W>() == TypeId::of::<$number>())||*
        }
    };
}

#[cfg(target_pointer_width = "64")]
numbers!(usize, u32, u64);
#[cfg(not(target_pointer_width = "64"))]
numbers!(usize, u32);

/// What the engine is to keep.
pub(crate) fn into_raw<W: Any>(word: W) -> *mut c_void {
    match as_number(&word) {
        Some(number) => without_provenance_mut(number),
        None => Box::into_raw(Box::new(word)).cast(),
    }
}

/// Drops a word.
///
/// # Safety
/// It was made by `into_raw::<W>`, and nobody uses it any more. Or it is NULL.
pub(crate) unsafe fn drop_raw<W: Any>(raw: *mut c_void) {
    if !is_number::<W>() && !raw.is_null() {
        // SAFETY: no number, so from a box; the caller gives it up.
        drop(unsafe { Box::from_raw(raw.cast::<W>()) });
    }
}
