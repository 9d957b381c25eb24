//! Objects that know how often they are referred to.
//!
//! The memory of an object stays until its test's thread is over. So one that is used after it has
//! died is noticed here, and a test may look at what is left of it.

#[cfg(loom)]
use super::interleaved as locks;
#[cfg(not(loom))]
use super::locks;
use crate::cpython::{PyObject, PyTypeObject};
use std::any::Any;
use std::cell::{Cell, RefCell};
use std::collections::HashSet;
use std::ffi::{c_int, c_void, CStr};
use std::mem::{offset_of, zeroed};
use std::ptr::{addr_eq, null_mut};
use std::rc::Rc;

/// An object that knows how often it is referred to. It takes the place of the
/// head of each of CPython's objects.
#[repr(C)]
pub struct TestObject {
    /// References counted.
    pub count: Cell<i32>,
    /// How often it has died.
    pub freed: Cell<u16>,
    /// The count never changes.
    pub immortal: bool,
    /// Frames may refer to it without counting.
    pub deferred: bool,
    /// What else is in a head of CPython's.
    pub rest: [u8; offset_of!(PyObject, ob_type) - 8],
    /// Its type, or NULL if its type is not read.
    pub kind: Cell<*mut PyTypeObject>,
}

const _: () = assert!(size_of::<TestObject>() == size_of::<PyObject>());
const _: () = assert!(offset_of!(TestObject, kind) == offset_of!(PyObject, ob_type));

impl TestObject {
    /// An object with one reference, and without a type.
    pub const fn new() -> Self {
        TestObject {
            count: Cell::new(1),
            freed: Cell::new(0),
            immortal: false,
            deferred: false,
            rest: [0; offset_of!(PyObject, ob_type) - 8],
            kind: Cell::new(null_mut()),
        }
    }

    pub const fn immortal() -> Self {
        TestObject { immortal: true, ..TestObject::new() }
    }

    pub const fn of_type(kind: *mut PyTypeObject) -> Self {
        TestObject { kind: Cell::new(kind), ..TestObject::new() }
    }

    /// As the pointer that the code under test sees.
    pub fn as_object(&self) -> *mut PyObject {
        (self as *const Self).cast_mut().cast()
    }
}

fn of<'a>(object: *mut PyObject) -> &'a TestObject {
    // SAFETY: in tests every object begins with a `TestObject` that outlives its references.
    unsafe { &*object.cast::<TestObject>() }
}

// --- Making and looking. ---

thread_local! {
    /// Everything that was made, so that its memory stays.
    static KEPT: RefCell<Vec<Box<dyn Any>>> = const { RefCell::new(Vec::new()) };
    /// The objects among it.
    static MADE: RefCell<Vec<*mut PyObject>> = const { RefCell::new(Vec::new()) };
    static TRACKED: RefCell<HashSet<usize>> = RefCell::default();
    static AT_THE_END: RefCell<Option<Destructor>> = const { RefCell::new(None) };
}

type Destructor = Rc<dyn Fn(*mut PyObject)>;

/// Memory of zeros that stays.
pub fn kept_zeros(bytes: usize) -> *mut u8 {
    let mut block = vec![0u128; bytes.div_ceil(16)].into_boxed_slice();
    let start = block.as_mut_ptr();
    KEPT.with_borrow_mut(|kept| kept.push(Box::new(block)));
    start.cast()
}

/// An object of so many bytes, all zeros after its head, with one reference.
pub fn with_zeros<T>(kind: *mut PyTypeObject, more_bytes: usize) -> *mut T {
    let object: *mut T = kept_zeros(size_of::<T>() + more_bytes).cast();
    // SAFETY: memory for an object, which begins with its head.
    unsafe { object.cast::<TestObject>().write(TestObject::of_type(kind)) };
    MADE.with_borrow_mut(|made| made.push(object.cast()));
    object
}

/// Has an object, which begins with a `TestObject`, stay.
pub fn keep<T: 'static>(object: T) -> *mut PyObject {
    let mut object = Box::new(object);
    let address: *mut T = &raw mut *object;
    KEPT.with_borrow_mut(|kept| kept.push(object));
    MADE.with_borrow_mut(|made| made.push(address.cast()));
    address.cast()
}

/// An object without a type, with one reference.
pub fn object() -> *mut PyObject {
    keep(TestObject::new())
}

pub fn count(object: *mut PyObject) -> i32 {
    of(object).count.get()
}

pub fn freed(object: *mut PyObject) -> u16 {
    of(object).freed.get()
}

pub fn is_of_type(object: *mut PyObject, kind: *mut PyTypeObject) -> bool {
    addr_eq(of(object).kind.get(), kind)
}

/// How many objects were made so far in this thread.
pub fn made() -> usize {
    MADE.with_borrow(Vec::len)
}

/// Those of the objects made since there were `before` that are alive.
pub fn living_since(before: usize) -> Vec<*mut PyObject> {
    MADE.with_borrow(|made| {
        made[before..].iter().copied().filter(|it| count(*it) != 0 && !of(*it).immortal).collect()
    })
}

/// What to call an object in messages.
pub fn name_of(object: *mut PyObject) -> String {
    if object.is_null() {
        return "NULL".to_string();
    }
    let kind = of(object).kind.get();
    // SAFETY: a type of the tests, which lives for ever.
    let Some(known) = (unsafe { kind.as_ref() }) else { return "an object".to_string() };
    // SAFETY: an object of the type.
    let name = known.tp_repr.map_or(null_mut(), |repr| unsafe { repr(object) });
    text_of(name).unwrap_or_else(|| format!("a {}", type_name(kind)))
}

// --- str. ---

#[no_mangle]
#[allow(non_upper_case_globals)]
pub static mut PyUnicode_Type: PyTypeObject =
    PyTypeObject { tp_repr: Some(itself), ..named_type(c"str") };

unsafe extern "C" fn itself(text: *mut PyObject) -> *mut PyObject {
    text
}

#[repr(C)]
struct Text {
    head: TestObject,
    text: String,
}

/// A new `str`.
pub fn text(text: &str) -> *mut PyObject {
    keep(Text { head: TestObject::of_type(&raw mut PyUnicode_Type), text: text.to_string() })
}

/// The text of a `str`; `None` of anything else, and of NULL.
pub fn text_of(object: *mut PyObject) -> Option<String> {
    (!object.is_null() && is_of_type(object, &raw mut PyUnicode_Type))
        // SAFETY: each `str` of the tests is one of these, and its memory stays.
        .then(|| unsafe { (*object.cast::<Text>()).text.clone() })
}

// --- Counting. ---

/// From now on `destructor` is called in this thread for each object that is given up for good.
pub fn set_destructor(destructor: Option<Destructor>) {
    AT_THE_END.set(destructor);
}

pub unsafe fn incref(object: *mut PyObject) {
    let object = of(object);
    if object.immortal {
        return;
    }
    assert!(object.count.get() > 0, "a reference is taken to an object that has died");
    object.count.set(object.count.get() + 1);
}

pub unsafe fn decref(object: *mut PyObject) {
    // SAFETY: the caller gives up a reference to an object of the tests, whose memory stays.
    unsafe { decref_within(object, || ()) };
}

pub unsafe fn decref_within<T>(object: *mut PyObject, enter: impl FnOnce() -> T) {
    let object = of(object);
    if object.immortal {
        return;
    }
    object.count.set(object.count.get() - 1);
    assert!(object.count.get() >= 0, "a reference is given up twice");
    if object.count.get() == 0 {
        let _within = enter();
        assert_eq!(locks::locks_held(), 0, "a destructor runs while a lock is held");
        assert!(!locks::is_world_stopped(), "a destructor runs while the world is stopped");
        object.freed.set(object.freed.get() + 1);
        let destructor = AT_THE_END.with_borrow(|destructor| destructor.clone());
        if let Some(destructor) = destructor {
            destructor(object.as_object());
        }
        // SAFETY: a type of the tests, which lives for ever.
        if let Some(deallocate) = unsafe { object.kind.get().as_ref() }.and_then(|it| it.tp_dealloc)
        {
            // SAFETY: an object of the type, without references.
            unsafe { deallocate(object.as_object()) };
        }
    }
}

pub unsafe fn is_shared(object: *mut PyObject) -> bool {
    let object = of(object);
    object.immortal || object.count.get() > 1
}

pub unsafe fn is_immortal(object: *mut PyObject) -> bool {
    of(object).immortal
}

pub unsafe fn has_deferred_count(object: *mut PyObject) -> bool {
    of(object).deferred
}

#[no_mangle]
extern "C" fn Py_IncRef(object: *mut PyObject) {
    // SAFETY: needs nothing of the caller in tests.
    unsafe { incref(object) };
}

#[no_mangle]
extern "C" fn Py_DecRef(object: *mut PyObject) {
    // SAFETY: needs nothing of the caller in tests.
    unsafe { decref(object) };
}

// --- The collector. ---

#[no_mangle]
pub extern "C" fn PyObject_GC_IsTracked(object: *mut PyObject) -> c_int {
    TRACKED.with_borrow(|tracked| tracked.contains(&(object as usize))).into()
}

#[no_mangle]
extern "C" fn PyObject_GC_Track(object: *mut c_void) {
    let fresh = TRACKED.with_borrow_mut(|tracked| tracked.insert(object as usize));
    assert!(fresh, "tracked twice");
}

#[no_mangle]
extern "C" fn PyObject_GC_UnTrack(object: *mut c_void) {
    let known = TRACKED.with_borrow_mut(|tracked| tracked.remove(&(object as usize)));
    assert!(known, "not tracked");
}

/// The memory stays, as that of all objects.
#[no_mangle]
extern "C" fn PyObject_Free(object: *mut c_void) {
    assert_eq!(count(object.cast()), 0, "freed while it is referred to");
}

// --- Types. ---

/// A type that has a name, lives for ever, and is nothing else.
/// One whose objects hold something sets `tp_dealloc`, which gives it up.
pub const fn named_type(name: &'static CStr) -> PyTypeObject {
    // SAFETY: zeros are a value of every field; a `TestObject` takes the place of an object's head.
    unsafe {
        let mut kind: PyTypeObject = zeroed();
        kind.ob_base.ob_base = immortal_head();
        kind.tp_name = name.as_ptr();
        kind
    }
}

/// The head of an object that lives for ever, and has no type.
const fn immortal_head() -> PyObject {
    // SAFETY: of the same size, and any bytes are a head.
    unsafe { std::mem::transmute::<TestObject, PyObject>(TestObject::immortal()) }
}

pub fn type_name(kind: *mut PyTypeObject) -> String {
    // SAFETY: each type of the tests has a name.
    unsafe { CStr::from_ptr((*kind).tp_name) }.to_string_lossy().into_owned()
}

#[no_mangle]
extern "C" fn PyType_IsSubtype(one: *mut PyTypeObject, other: *mut PyTypeObject) -> c_int {
    addr_eq(one, other).into()
}

#[no_mangle]
#[allow(non_upper_case_globals)]
static mut _Py_NoneStruct: PyObject = immortal_head();
