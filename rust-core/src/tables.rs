//! The tables in which CPython finds functions, getters and types of this crate.
//!
//! A function or a getter is declared once, as the entry of its table: its name, what `help()`
//! shows, and a function of Rust. The function for C around that follows from the entry.

use crate::cpython as c;
use crate::cpython::PyObject;
use crate::object::Owned;
use crate::thread::Thread;
use core::ffi::{c_int, c_void, CStr};
use core::mem::zeroed;
use core::ptr::null_mut;

/// `text` as a C string that lives for ever.
macro_rules! c_text {
    ($($text:expr),+) => {
        match core::ffi::CStr::from_bytes_with_nul(concat!($($text),+, "\0").as_bytes()) {
            Ok(text) => text,
            Err(_) => c"",
        }
    };
}
pub(crate) use c_text;

/// What a function of Rust comes to, for Python.
pub trait ForPython {
    /// A new reference; NULL: an exception is set.
    fn for_python(self, thread: Thread) -> *mut PyObject;
}

/// `None`: an exception is set.
impl ForPython for Option<Owned> {
    #[inline] // or its symbol would be exported
    fn for_python(self, _thread: Thread) -> *mut PyObject {
        self.map_or(null_mut(), Owned::into_raw)
    }
}

/// The arguments of a call, without names.
///
/// # Invariants
/// `count` live objects are at `first`, for as long as the call lasts.
#[derive(Clone, Copy)]
pub struct Arguments {
    first: *const *mut PyObject,
    count: isize,
}

impl Arguments {
    /// # Safety
    /// As the type's invariant says.
    pub unsafe fn new(first: *const *mut PyObject, count: isize) -> Self {
        Arguments { first, count }
    }

    /// The arguments and their number, if there are at most `N`. Places without one are NULL.
    pub fn some<const N: usize>(self) -> Option<([*mut PyObject; N], usize)> {
        let mut all = [null_mut(); N];
        let count = usize::try_from(self.count).ok().filter(|count| *count <= N)?;
        for (i, place) in all.iter_mut().take(count).enumerate() {
            // SAFETY: so many are there, by the type's invariant.
            *place = unsafe { self.first.add(i).read() };
        }
        Some((all, count))
    }

    /// The arguments, if there are exactly `N`.
    pub fn all<const N: usize>(self) -> Option<[*mut PyObject; N]> {
        // SAFETY: so many are there, by the type's invariant.
        (self.count == N as isize).then(|| unsafe { *self.first.cast::<[*mut PyObject; N]>() })
    }
}

/// The arguments of a call, with and without names.
///
/// # Invariants
/// `names` is NULL or a tuple of str that lives for as long as the call lasts. `first` has `positional` live objects
/// without a name for as long, and then one for each name.
#[derive(Clone, Copy)]
pub struct NamedArguments {
    first: *const *mut PyObject,
    positional: usize,
    names: *mut PyObject,
}

impl NamedArguments {
    /// # Safety
    /// As the type's invariant says.
    pub unsafe fn new(first: *const *mut PyObject, count: isize, names: *mut PyObject) -> Self {
        NamedArguments { first, positional: count as usize, names }
    }

    /// As `PyObject_Vectorcall` takes them: the arguments, how many of them have no name, and the names.
    pub fn parts(self) -> (*const *mut PyObject, usize, *mut PyObject) {
        (self.first, self.positional, self.names)
    }

    /// The first `N` positional arguments, and the others; `None`: there are fewer.
    pub fn split<const N: usize>(self) -> Option<([*mut PyObject; N], Self)> {
        let positional = self.positional.checked_sub(N)?;
        // SAFETY: so many are there, by the type's invariant.
        let (own, first) = unsafe { (*self.first.cast::<[*mut PyObject; N]>(), self.first.add(N)) };
        Some((own, NamedArguments { first, positional, ..self }))
    }

    /// The arguments by parameter; NULL: not given. The first `by_position` parameters are given by position or by
    /// name, the others by name. `None`: these are arguments of another signature.
    pub fn bind<const N: usize>(
        self,
        parameters: [&CStr; N],
        by_position: usize,
    ) -> Option<[*mut PyObject; N]> {
        let mut given = [null_mut(); N];
        if self.positional > by_position {
            return None;
        }
        for (at, place) in given.iter_mut().enumerate().take(self.positional) {
            // SAFETY: so many are there, by the type's invariant.
            *place = unsafe { self.first.add(at).read() };
        }
        // SAFETY: a tuple, by the type's invariant.
        let named = if self.names.is_null() { 0 } else { unsafe { c::PyTuple_Size(self.names) } };
        for at in 0..named {
            // SAFETY: a str of the tuple. The comparison runs no Python code.
            let is = |parameter: &&CStr| unsafe {
                let name = c::PyTuple_GetItem(self.names, at);
                c::PyUnicode_CompareWithASCIIString(name, parameter.as_ptr()) == 0
            };
            let place = given.get_mut(parameters.iter().position(is)?)?;
            if !place.is_null() {
                return None;
            }
            // SAFETY: there is an object for each name, by the type's invariant.
            *place = unsafe { self.first.add(self.positional + at as usize).read() };
        }
        Some(given)
    }
}

/// A function as CPython calls it where it has no argument, or one.
pub type Plain = unsafe extern "C" fn(*mut PyObject, *mut PyObject) -> *mut PyObject;
/// A function with more arguments.
pub type Fast = unsafe extern "C" fn(*mut PyObject, *const *mut PyObject, isize) -> *mut PyObject;

/// A function whose arguments may have names.
pub type Named = unsafe extern "C" fn(
    *mut PyObject,
    *const *mut PyObject,
    isize,
    *mut PyObject,
) -> *mut PyObject;

/// Of a function whose arguments may have names: what CPython takes in its tables.
pub const fn plain_of_named(function: Named) -> Plain {
    // SAFETY: CPython casts it back, since the flags of the entry say what it is.
    unsafe { core::mem::transmute::<Named, Plain>(function) }
}

/// Of a function with more arguments: what CPython takes in its tables.
pub const fn plain(function: Fast) -> Plain {
    // SAFETY: CPython casts it back, since the flags of the entry say what it is.
    unsafe { core::mem::transmute::<Fast, Plain>(function) }
}

/// The entry of a function: its arguments (`none`, `one`, `many` or `named`), its name and the rest of its
/// signature, what `help()` shows, and the function of Rust. That one gets the thread, the object
/// or module, and the argument, the [`Arguments`] or the [`NamedArguments`]. It returns what is [`ForPython`], and may be
/// unsafe: both objects are live, and the first one is of the type that has the table.
macro_rules! method {
    ($kind:ident $name:literal $signature:literal, $doc:literal, $function:expr) => {{
        let (call, flags) = $crate::tables::method!(@$kind $function);
        $crate::cpython::PyMethodDef {
            ml_name: $crate::tables::c_text!($name).as_ptr(),
            ml_meth: Some(call),
            ml_flags: flags as core::ffi::c_int,
            ml_doc: $crate::tables::c_text!($name, $signature, "\n--\n\n", $doc).as_ptr(),
        }
    }};
    (@none $function:expr) => {{
        unsafe extern "C" fn call(
            this: *mut $crate::cpython::PyObject,
            _: *mut $crate::cpython::PyObject,
        ) -> *mut $crate::cpython::PyObject {
            // SAFETY: called by CPython as the table says: a thread state is attached.
            unsafe {
                let thread = $crate::thread::Thread::current();
                let function = $function;
                $crate::tables::ForPython::for_python(function(thread, this), thread)
            }
        }
        (call as $crate::tables::Plain, $crate::cpython::METH_NOARGS)
    }};
    (@one $function:expr) => {{
        unsafe extern "C" fn call(
            this: *mut $crate::cpython::PyObject,
            argument: *mut $crate::cpython::PyObject,
        ) -> *mut $crate::cpython::PyObject {
            // SAFETY: called by CPython as the table says: a thread state is attached.
            unsafe {
                let thread = $crate::thread::Thread::current();
                let function = $function;
                $crate::tables::ForPython::for_python(function(thread, this, argument), thread)
            }
        }
        (call as $crate::tables::Plain, $crate::cpython::METH_O)
    }};
    (@many $function:expr) => {{
        unsafe extern "C" fn call(
            this: *mut $crate::cpython::PyObject,
            first: *const *mut $crate::cpython::PyObject,
            count: isize,
        ) -> *mut $crate::cpython::PyObject {
            // SAFETY: called by CPython as the table says: a thread state is attached, and so many
            // arguments are there.
            unsafe {
                let thread = $crate::thread::Thread::current();
                let arguments = $crate::tables::Arguments::new(first, count);
                let function = $function;
                $crate::tables::ForPython::for_python(function(thread, this, arguments), thread)
            }
        }
        ($crate::tables::plain(call), $crate::cpython::METH_FASTCALL)
    }};
    (@named $function:expr) => {{
        unsafe extern "C" fn call(
            this: *mut $crate::cpython::PyObject,
            first: *const *mut $crate::cpython::PyObject,
            count: isize,
            names: *mut $crate::cpython::PyObject,
        ) -> *mut $crate::cpython::PyObject {
            // SAFETY: called by CPython as the table says: a thread state is attached, so many
            // arguments are there, and one more for each name.
            unsafe {
                let thread = $crate::thread::Thread::current();
                let arguments = $crate::tables::NamedArguments::new(first, count, names);
                let function = $function;
                $crate::tables::ForPython::for_python(function(thread, this, arguments), thread)
            }
        }
        (
            $crate::tables::plain_of_named(call),
            $crate::cpython::METH_FASTCALL | $crate::cpython::METH_KEYWORDS,
        )
    }};
}
pub(crate) use method;

/// The entry of a getter: its name, what `help()` shows, and a function of Rust, as for a method
/// without arguments.
macro_rules! getter {
    ($name:literal, $doc:literal, $function:expr) => {{
        unsafe extern "C" fn get(
            this: *mut $crate::cpython::PyObject,
            _: *mut core::ffi::c_void,
        ) -> *mut $crate::cpython::PyObject {
            // SAFETY: called by CPython as the table says: a thread state is attached.
            unsafe {
                let thread = $crate::thread::Thread::current();
                let function = $function;
                $crate::tables::ForPython::for_python(function(thread, this), thread)
            }
        }
        $crate::cpython::PyGetSetDef {
            name: $crate::tables::c_text!($name).as_ptr(),
            get: Some(get),
            set: None,
            doc: $crate::tables::c_text!($doc).as_ptr(),
            closure: core::ptr::null_mut(),
        }
    }};
}
pub(crate) use getter;

/// Ends a table of methods.
// SAFETY: all zeros is that sentinel.
pub(crate) const NO_METHOD: c::PyMethodDef = unsafe { zeroed() };
/// Ends a table of getters.
// SAFETY: all zeros is that sentinel.
pub(crate) const NO_GETTER: c::PyGetSetDef = unsafe { zeroed() };
/// Ends a table of a type's slots.
pub(crate) const NO_SLOT: c::PyType_Slot = slot(0, null_mut());

/// The entry of a type's slot.
pub const fn slot(number: u32, value: *mut c_void) -> c::PyType_Slot {
    c::PyType_Slot { slot: number as c_int, pfunc: value }
}

/// The entry of what `help()` shows of a type.
pub const fn doc(text: &'static CStr) -> c::PyType_Slot {
    slot(c::Py_tp_doc, text.as_ptr().cast_mut().cast())
}

// The flags of a type, beside the defaults. Not `pub`: cbindgen would show them to C.
/// Its attributes cannot be changed.
pub(crate) const IMMUTABLE: u32 = 1 << 8;
/// Only Rust makes objects of the type.
pub(crate) const NOT_TO_BE_MADE: u32 = 1 << 7;
/// Classes can be derived from the type.
pub(crate) const FOR_SUBCLASSES: u32 = 1 << 10;

/// A type of objects of `size` bytes.
pub const fn specification(
    name: &'static CStr,
    size: usize,
    flags: u32,
    slots: *mut c::PyType_Slot,
) -> c::PyType_Spec {
    c::PyType_Spec { name: name.as_ptr(), basicsize: size as c_int, itemsize: 0, flags, slots }
}

/// Frees an object of a heap type that has no references: a value for `Py_tp_dealloc`.
pub unsafe extern "C" fn deallocate(this: *mut PyObject) {
    // SAFETY: an object whose last reference is gone; it holds one to its type.
    unsafe {
        let kind = (*this).ob_type;
        c::PyObject_Free(this.cast());
        c::Py_DecRef(kind.cast());
    }
}
