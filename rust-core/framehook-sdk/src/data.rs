//! The data of watched frames, as the interpreter keeps it: a pointer's worth of memory each.
//!
//! A number is kept as it is; a value of another type is boxed.

use std::any::Any;
use std::ffi::c_void;
use std::ptr::without_provenance_mut;

macro_rules! numbers {
    ($($number:ty),*) => {
        fn as_number<W: Any>(data: &W) -> Option<usize> {
            let data: &dyn Any = data;
            $(if let Some(number) = data.downcast_ref::<$number>() {
                return Some(*number as usize);
            })*
            None
        }

        /// Lends data that the interpreter passes back.
        ///
        /// # Safety
        /// It was made by `into_raw::<W>` and is not dropped while `body` runs.
        pub(crate) unsafe fn with<W: Any, T>(raw: *mut c_void, body: impl FnOnce(&W) -> T) -> T {
            $({
                let data: &dyn Any = &(raw as usize as $number);
                if let Some(data) = data.downcast_ref() {
                    return body(data);
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

/// What the interpreter keeps.
pub(crate) fn into_raw<W: Any>(data: W) -> *mut c_void {
    match as_number(&data) {
        Some(number) => without_provenance_mut(number),
        None => Box::into_raw(Box::new(data)).cast(),
    }
}

/// Drops data.
///
/// # Safety
/// It was made by `into_raw::<W>`, and it is not used any more. Or it is NULL.
pub(crate) unsafe fn drop_raw<W: Any>(raw: *mut c_void) {
    if !is_number::<W>() && !raw.is_null() {
        // SAFETY: no number, so from a box; the caller gives it up.
        drop(unsafe { Box::from_raw(raw.cast::<W>()) });
    }
}

/// Whether data of the type is kept in a box, which has to be freed.
pub(crate) fn is_boxed<W: Any>() -> bool {
    !is_number::<W>() && (size_of::<W>() != 0 || std::mem::needs_drop::<W>())
}
