//! Classes whose instances' attributes are compiled, and what these attributes were when an instance was looked at.
//!
//! *Layouts of instances* are those of 3.13, which no public header has: `prepare` compares them with what an instance of a new class
//! looks like, and without them no attribute is compiled.

use crate::kind::{self, Kind};
use crate::lists::{cleared, Item};
use crate::parts::{self, is_plain};
use crate::python::{OfAddress, PyUnstable_Type_AssignVersionTag};
use pyo3::ffi::{self, PyHeapTypeObject, PyMemberDescrObject, PyObject, PyTypeObject};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString, PyTuple, PyType, PyWeakrefReference};
use std::collections::HashMap;
use std::ffi::c_ulong;
use std::hash::BuildHasherDefault;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard};

/// After so many classes those that are gone are removed.
const MANY: usize = 256;
const INLINE_VALUES: c_ulong = 1 << 2;

/// An instance whose values are behind its head.
#[repr(C)]
struct Instance {
    head: PyObject,
    capacity: u8,
    size: u8,
    embedded: u8,
    valid: u8,
    values: [*mut PyObject; 1],
}

/// `PyDictKeysObject` of a build with a GIL, before its indices and entries.
#[repr(C)]
struct Keys {
    references: isize,
    log2_size: u8,
    log2_bytes: u8,
    kind: u8,
    version: u32,
    usable: isize,
    entries: isize,
    indices: [u8; 0],
}

/// Not 0 if an instance's attributes are behind its head.
pub const VALID: i32 = std::mem::offset_of!(Instance, valid) as i32;
const VALUES: i32 = std::mem::offset_of!(Instance, values) as i32;
/// Where an instance refers to its dict, if it was made.
pub const DICT: i32 = -3 * size_of::<usize>() as i32;

/// What frees instances of classes that Python code makes.
static DEALLOC: AtomicUsize = AtomicUsize::new(0);
static IS_AS_EXPECTED: AtomicBool = AtomicBool::new(false);
static CLASSES: Mutex<Option<HashMap<usize, Class, BuildHasherDefault<OfAddress>>>> =
    Mutex::new(None);

/// A class that was seen.
struct Class {
    weak: Py<PyWeakrefReference>,
    /// With this version its attributes' places are these.
    version: u32,
    /// Of `__slots__`, those of bases included.
    slots: Vec<i32>,
    /// By place.
    kinds: HashMap<i32, Seen>,
}

/// What an attribute was: of this kind, or perhaps `None`.
#[derive(Clone)]
pub struct Seen {
    pub kind: Kind,
    pub or_none: bool,
}

impl Seen {
    /// This is stored, or found, beside what was before.
    fn add(&mut self, kind: Kind) {
        self.or_none |= (kind == Kind::None) != (self.kind == Kind::None);
        if !self.or_none || kind != Kind::None {
            self.kind = kind;
        }
    }
}

impl Class {
    fn add(&mut self, place: i32, kind: Kind) {
        match self.kinds.get_mut(&place) {
            Some(seen) => seen.add(kind),
            None => drop(self.kinds.insert(place, Seen { kind, or_none: false })),
        }
    }

    fn may_be_none(&self, place: i32) -> bool {
        self.kinds.get(&place).is_some_and(|seen| seen.or_none)
    }
}

/// Where an attribute is found.
pub enum Attribute<'py> {
    /// In the instance, at this offset. `inline`: if its values are valid.
    Value { offset: i32, inline: bool, seen: Option<Seen> },
    /// In the class. `inline`: if an instance's values are valid, and there is none at `hidden_by`.
    OfClass { value: Bound<'py, PyAny>, inline: bool, hidden_by: Option<i32> },
}

/// # Safety
/// Attached; the class is alive, and of a type that has shared keys.
unsafe fn keys_of(class: *mut PyTypeObject) -> *const Keys {
    // SAFETY: by contract: it was made at run time.
    unsafe { (*class.cast::<PyHeapTypeObject>()).ht_cached_keys.cast::<Keys>() }
}

/// How many names the instances of a class share. They are only ever added. 0: it has no shared keys.
///
/// # Safety
/// Attached; a class that is alive.
pub unsafe fn key_count(class: *mut PyTypeObject) -> isize {
    // SAFETY: by contract.
    unsafe {
        if (*class).tp_flags & INLINE_VALUES == 0 {
            0
        } else {
            (*keys_of(class)).entries
        }
    }
}

/// The shared name of this index.
///
/// # Safety
/// As for `keys_of`; there is one.
unsafe fn key(class: *mut PyTypeObject, index: isize) -> *mut PyObject {
    // SAFETY: by contract, and by *layouts of instances*: entries of two words are behind the indices.
    unsafe {
        let keys = keys_of(class);
        let entries = (*keys).indices.as_ptr().add(1 << (*keys).log2_bytes);
        *entries.cast::<[*mut PyObject; 2]>().offset(index).cast::<*mut PyObject>()
    }
}

/// Compares the layouts with what an instance looks like, once.
pub fn prepare(py: Python<'_>) -> PyResult<()> {
    let class = py.get_type::<PyType>().call1(("Probe", PyTuple::empty(py), PyDict::new(py)))?;
    let object = class.call0()?;
    let (first, second) = (0.5f64.into_pyobject(py)?, 1.5f64.into_pyobject(py)?);
    object.setattr("first", &first)?;
    object.setattr("second", &second)?;
    let raw = object.as_ptr();
    let ty = class.as_ptr().cast::<PyTypeObject>();
    // SAFETY: a class and its instance; what is read lies within them, by their flags and sizes, or is compared before it is used.
    let (as_expected, no_dict) = unsafe {
        if (*ty).tp_flags & INLINE_VALUES == 0
            || (*ty).tp_basicsize != size_of::<PyObject>() as isize
        {
            return Ok(());
        }
        let (values, has) = (value_at(raw, VALUES), |index, name| {
            key(ty, index) == PyString::intern(py, name).as_ptr()
        });
        let same = values == first.as_ptr() && value_at(raw, VALUES + 8) == second.as_ptr();
        let (instance, dealloc) = (raw.cast::<Instance>(), (*ty).tp_dealloc);
        DEALLOC.store(dealloc.map_or(0, |dealloc| dealloc as usize), Ordering::Relaxed);
        let order = order_of(instance).cast::<[u8; 2]>().read() == [0, 1];
        let same = same
            && order
            && (*instance).size == 2
            && (*keys_of(ty)).entries == 2
            && has(0, "first")
            && has(1, "second");
        (same && (*raw.cast::<Instance>()).valid == 1, value_at(raw, DICT).is_null())
    };
    let dict = object.getattr("__dict__")?;
    // SAFETY: as above.
    let shares =
        unsafe { value_at(raw, DICT) == dict.as_ptr() && (*raw.cast::<Instance>()).valid == 1 };
    object.setattr("__dict__", PyDict::new(py))?;
    // SAFETY: as above.
    let replaced = unsafe { (*raw.cast::<Instance>()).valid == 0 };
    IS_AS_EXPECTED.store(as_expected && no_dict && shares && replaced, Ordering::Relaxed);
    Ok(())
}

/// # Safety
/// Attached; an instance that is alive, and the place of an attribute in it.
unsafe fn value_at(object: *mut PyObject, offset: i32) -> *mut PyObject {
    // SAFETY: by contract.
    unsafe { *object.byte_offset(offset as isize).cast::<*mut PyObject>() }
}

/// The class of an object if its attributes may be compiled.
fn class_of<'py>(object: &Bound<'py, PyAny>) -> Option<Bound<'py, PyType>> {
    let class = object.get_type();
    is_plain_class(&class).then_some(class)
}

/// Whether instances have attributes as `object` gives them.
fn is_plain_class(class: &Bound<'_, PyType>) -> bool {
    let ty = class.as_type_ptr();
    // SAFETY: a class that is alive.
    let (flags, get, set) = unsafe { ((*ty).tp_flags, (*ty).tp_getattro, (*ty).tp_setattro) };
    let is_plain = flags & (ffi::Py_TPFLAGS_HEAPTYPE | ffi::Py_TPFLAGS_IMMUTABLETYPE)
        == ffi::Py_TPFLAGS_HEAPTYPE
        && get
            .is_some_and(|get| get as usize == ffi::PyObject_GenericGetAttr as *const () as usize)
        && set
            .is_some_and(|set| set as usize == ffi::PyObject_GenericSetAttr as *const () as usize);
    is_plain && IS_AS_EXPECTED.load(Ordering::Relaxed)
}

/// The classes in which attributes are looked up, in order, with their dicts.
fn bases<'py>(class: &Bound<'py, PyType>) -> Option<Vec<(*mut PyTypeObject, Bound<'py, PyDict>)>> {
    let object = std::ptr::addr_of_mut!(ffi::PyBaseObject_Type);
    let mut all = Vec::new();
    for base in class.mro().iter() {
        let ty = base.as_ptr().cast::<PyTypeObject>();
        // SAFETY: attached; a class that its subclass keeps alive, whose dict is a new reference, or NULL with an exception.
        let dict = unsafe {
            if !is_of_python(ty) && ty != object {
                return None;
            }
            Bound::from_owned_ptr_or_opt(class.py(), ffi::PyType_GetDict(ty))
        };
        let dict = dict?.cast_into_exact::<PyDict>().ok().filter(is_plain)?;
        all.push((ty, dict));
    }
    Some(all)
}

/// Where the slots of a class and its bases are.
fn slots(class: &Bound<'_, PyType>) -> Option<Vec<i32>> {
    let mut found = Vec::new();
    for (ty, _) in bases(class)? {
        // SAFETY: a class that is alive; its members end with one without a name.
        unsafe {
            let mut member = (*ty).tp_members;
            while !member.is_null() && !(*member).name.is_null() {
                if (*member).type_code == ffi::Py_T_OBJECT_EX {
                    found.push((*member).offset as i32);
                }
                member = member.add(1);
            }
        }
    }
    Some(found)
}

/// The version of a class, which changes with it and its bases; 0: it has none.
///
/// # Safety
/// Attached; a class that is alive.
pub unsafe fn version_of(class: *mut PyTypeObject) -> u32 {
    // SAFETY: by contract.
    unsafe { (*class).tp_version_tag }
}

/// The class of an object whose attributes may be compiled, and whether it was known.
pub fn class_seen(object: &Bound<'_, PyAny>) -> Option<(usize, bool)> {
    let class = class_of(object)?;
    register(&class).map(|(_, is_known)| (class.as_type_ptr() as usize, is_known))
}

/// The version of a class that is called to make an instance, if nothing but `__init__` has a part in that.
pub fn made_by_init(class: &Bound<'_, PyType>) -> Option<u32> {
    let (ty, object) = (class.as_type_ptr(), std::ptr::addr_of!(ffi::PyBaseObject_Type));
    // SAFETY: two types that are alive.
    let is_plain = unsafe {
        let alloc = (*ty)
            .tp_alloc
            .is_some_and(|alloc| alloc as usize == ffi::PyType_GenericAlloc as *const () as usize);
        let new = |ty: *const PyTypeObject| (*ty).tp_new.map(|new| new as usize);
        alloc && new(ty) == new(object) && (*ty).tp_flags & ffi::Py_TPFLAGS_IS_ABSTRACT == 0
    };
    if !is_plain || !is_plain_class(class) {
        return None;
    }
    register(class).map(|(version, _)| version)
}

/// Notes a class; its version, and whether it was known.
fn register(class: &Bound<'_, PyType>) -> Option<(u32, bool)> {
    let ty = class.as_type_ptr();
    let address = ty as usize;
    // SAFETY: attached; a class that is alive.
    let version = unsafe { version_of(ty) };
    let known = version != 0 && with(address, |known| known.version == version).unwrap_or(false);
    if known {
        return Some((version, true));
    }
    let slots = slots(class)?;
    // SAFETY: as above.
    let version = unsafe {
        PyUnstable_Type_AssignVersionTag(ty);
        version_of(ty)
    };
    if version == 0 {
        return None;
    }
    let weak = PyWeakrefReference::new(class).ok()?.unbind();
    kind::name_class(address, class.name().ok()?.to_string());
    let mut classes = CLASSES.lock().ok()?;
    let classes = classes.get_or_insert_default();
    if classes.len() >= MANY {
        classes.retain(|_, known| known.weak.bind(class.py()).upgrade().is_some());
    }
    // What is known of a class holds on when it changes; another one may be at the same address.
    let is_same =
        |known: &Class| known.weak.bind(class.py()).upgrade().is_some_and(|known| known.is(class));
    let kinds = classes.remove(&address).filter(is_same).map(|known| known.kinds);
    classes.insert(address, Class { weak, version, slots, kinds: kinds.unwrap_or_default() });
    Some((version, false))
}

/// What is known of a class.
fn with<T>(class: usize, use_it: impl FnOnce(&mut Class) -> T) -> Option<T> {
    CLASSES.lock().ok()?.as_mut()?.get_mut(&class).map(use_it)
}

/// The attributes of an instance of a class that is known, with their places.
pub fn attributes<'py>(object: &Bound<'py, PyAny>) -> Vec<(i32, Bound<'py, PyAny>)> {
    let raw = object.as_ptr();
    // SAFETY: attached, and the instance is alive: it keeps its attributes, or there are NULLs.
    unsafe {
        let value = |place| Bound::from_borrowed_ptr_or_opt(object.py(), value_at(raw, place));
        let all = |known: &mut Class| -> Vec<i32> { places(known, raw).collect() };
        let places = with(object.get_type_ptr() as usize, all).unwrap_or_default();
        places.into_iter().filter_map(|place| Some((place, value(place)?))).collect()
    }
}

/// Where the attributes of an instance of a class that is known are.
///
/// # Safety
/// Attached, and the instance is alive.
unsafe fn places(known: &Class, raw: *mut PyObject) -> impl Iterator<Item = i32> + '_ {
    // SAFETY: attached; if the class has shared keys, the instance has room for so many values.
    let count = unsafe {
        let (class, instance) = (ffi::Py_TYPE(raw), raw.cast::<Instance>());
        match key_count(class) {
            0 => 0,
            _ if (*instance).valid == 0 => 0,
            count => count.min((*instance).capacity.into()),
        }
    };
    known.slots.iter().copied().chain((0..count).map(|index| VALUES + 8 * index as i32))
}

/// What is known of classes, for a walk through many instances.
pub struct Known(MutexGuard<'static, Option<HashMap<usize, Class, BuildHasherDefault<OfAddress>>>>);

impl Known {
    /// `None`: nothing is known.
    pub fn of_all() -> Option<Self> {
        CLASSES.lock().ok().map(Self)
    }

    /// Passes what is released with an instance to a function, if freeing it runs no code of the program for the instance itself, which is the result.
    ///
    /// # Safety
    /// Attached, and the object is alive.
    pub unsafe fn values_of(
        &self,
        object: *mut PyObject,
        mut released: impl FnMut(*mut PyObject),
    ) -> bool {
        // SAFETY: by contract; a type says where weak references are.
        unsafe {
            let ty = ffi::Py_TYPE(object);
            let Some(known) = self.0.as_ref().and_then(|known| known.get(&(ty as usize))) else {
                return false;
            };
            let weak = (*ty).tp_weaklistoffset;
            let is_plain = known.version == version_of(ty)
                && is_of_python(ty)
                && (*ty).tp_finalize.is_none()
                && (*ty).tp_del.is_none()
                && (weak == 0 || value_at(object, weak as i32).is_null());
            let has_no_dict = (*ty).tp_dictoffset == 0
                || (*ty).tp_flags & INLINE_VALUES != 0
                    && value_at(object, DICT).is_null()
                    && (*object.cast::<Instance>()).valid != 0;
            if !is_plain || !has_no_dict {
                return false;
            }
            let values = places(known, object).map(|place| value_at(object, place));
            values.filter(|value| !value.is_null()).for_each(&mut released);
            true
        }
    }
}

/// Whether a class was made by Python code, as the functions that free its instances say.
///
/// # Safety
/// Attached; a class that is alive.
unsafe fn is_of_python(class: *mut PyTypeObject) -> bool {
    // SAFETY: by contract.
    let dealloc = unsafe { (*class).tp_dealloc };
    dealloc.is_some_and(|dealloc| dealloc as usize == DEALLOC.load(Ordering::Relaxed))
}

/// Makes an instance without attributes; NULL: leave.
///
/// # Safety
/// Attached; a class of `made_by_init`.
pub unsafe extern "C" fn instantiate(class: *mut PyTypeObject) -> *mut PyObject {
    // SAFETY: by contract. The collector may run later.
    unsafe { cleared(ffi::PyType_GenericAlloc(class, 0)) }
}

/// Stores an attribute where there is none; 0: leave.
///
/// # Safety
/// Attached; an instance without a dict that has a place there, and an item whose object is alive.
pub unsafe extern "C" fn create(object: *mut PyObject, offset: i64, item: *const Item) -> u64 {
    // SAFETY: by contract. Behind values is the order in which they were made.
    unsafe {
        let value = cleared((*item).object());
        if value.is_null() {
            return 0;
        }
        *object.byte_offset(offset as isize).cast::<*mut PyObject>() = value;
        if (*ffi::Py_TYPE(object)).tp_flags & INLINE_VALUES != 0 {
            let instance = object.cast::<Instance>();
            let index = (offset - i64::from(VALUES)) / 8;
            *order_of(instance).add((*instance).size.into()) = index as u8;
            (*instance).size += 1;
        }
        1
    }
}

/// # Safety
/// An instance with values behind its head.
unsafe fn order_of(instance: *mut Instance) -> *mut u8 {
    // SAFETY: by contract.
    unsafe {
        let values = std::ptr::addr_of_mut!((*instance).values).cast::<*mut PyObject>();
        values.add((*instance).capacity.into()).cast()
    }
}

/// Whether an attribute of a class was seen as `None` and as something else.
pub fn may_be_none(class: usize, place: i32) -> bool {
    with(class, |known| known.may_be_none(place)) == Some(true)
}

/// Notes what an attribute is.
pub fn note(class: usize, place: i32, kind: Option<Kind>) {
    with(class, |known| match kind {
        Some(kind) => known.add(place, kind),
        // What it was besides `None` it may be again.
        None if known.may_be_none(place) => {}
        None => drop(known.kinds.remove(&place)),
    });
}

/// The class of a kind, if it is still alive, and its version.
pub fn class(py: Python<'_>, address: usize) -> Option<(Bound<'_, PyType>, u32)> {
    let weak = with(address, |known| known.weak.clone_ref(py))?;
    let class = weak.bind(py).upgrade()?.cast_into::<PyType>().ok()?;
    let (version, _) = is_plain_class(&class).then(|| register(&class))??;
    Some((class, version))
}

/// What a class and its bases have for a name, as an instance finds it.
pub fn in_class<'py>(
    class: &Bound<'py, PyType>,
    name: &Bound<'py, PyString>,
) -> Result<Option<Bound<'py, PyAny>>, String> {
    let bases = bases(class).ok_or("a class of a base that is built in")?;
    for (_, dict) in bases {
        if let Ok(Some(found)) = dict.get_item(name) {
            return Ok(Some(found));
        }
    }
    Ok(None)
}

/// Whether `__class__` of instances is their class.
pub fn has_own_class(class: &Bound<'_, PyType>) -> Result<bool, String> {
    let name = parts::names(class.py()).class.bind(class.py());
    let owned = bases(class).ok_or("a class of a base that is built in")?;
    let last = std::ptr::addr_of_mut!(ffi::PyBaseObject_Type);
    let has = |(ty, dict): &(*mut PyTypeObject, Bound<'_, PyDict>)| {
        *ty != last && !matches!(dict.get_item(name), Ok(None))
    };
    Ok(!owned.iter().any(has))
}

/// Notes what is stored to an attribute: its kind if nothing is known yet, and whether it is `None` or not.
pub fn expect(class: usize, offset: i32, kind: Kind) {
    with(class, |known| match known.kinds.get(&offset) {
        Some(seen) if (seen.kind == Kind::None) == (kind == Kind::None) => {}
        _ => known.add(offset, kind),
    });
}

/// Where instances of a class have an attribute, or why it is not compiled.
pub fn attribute<'py>(
    class: &Bound<'py, PyType>,
    name: &Bound<'py, PyString>,
    stores: bool,
) -> Result<Attribute<'py>, String> {
    let ty = class.as_ptr().cast::<PyTypeObject>();
    let why = |what: &str| format!("the attribute {}, {what}", name.to_string_lossy());
    // SAFETY: attached, and a class that is alive.
    let inline = unsafe { (*ty).tp_flags } & INLINE_VALUES != 0;
    let is_name = |index: &isize| {
        // SAFETY: as above; a name that is there, an exact str. One that came in by the instance's dict may not be interned.
        // The comparison runs no code.
        unsafe {
            let key = key(ty, *index);
            key == name.as_ptr() || ffi::PyUnicode_Compare(key, name.as_ptr()) == 0
        }
    };
    // SAFETY: as above.
    let index = unsafe { key_count(ty) };
    let index = (0..index).find(is_name);
    let place = index.map(|index| VALUES + 8 * index as i32);
    let value = |offset, inline| {
        let seen = with(ty as usize, |known| known.kinds.get(&offset).cloned()).flatten();
        Attribute::Value { offset, inline, seen }
    };
    let Some(found) = in_class(class, name)? else {
        let place = place.ok_or_else(|| why("which instances of the class do not have"))?;
        return Ok(value(place, true));
    };
    let found_type = found.get_type_ptr();
    if found_type == std::ptr::addr_of_mut!(ffi::PyMemberDescr_Type) {
        // SAFETY: a descriptor of that type.
        let (owner, member) = unsafe {
            let descriptor = found.as_ptr().cast::<PyMemberDescrObject>();
            ((*descriptor).d_common.d_type, *(*descriptor).d_member)
        };
        // SAFETY: two types.
        let is_own = unsafe { ffi::PyType_IsSubtype(ty, owner) } != 0;
        if !is_own || member.type_code != ffi::Py_T_OBJECT_EX || member.flags != 0 {
            return Err(why("a member of C"));
        }
        return Ok(value(member.offset as i32, false));
    }
    // SAFETY: a type.
    if unsafe { (*found_type).tp_descr_set }.is_some() {
        return Err(why("a property"));
    }
    // SAFETY: a type.
    if unsafe { (*found_type).tp_flags } & ffi::Py_TPFLAGS_IMMUTABLETYPE == 0 {
        // It may become a descriptor's class, and the version of this class stays.
        return Err(why("for which the class has an object of a class in Python"));
    }
    if let Some(place) = place {
        let is_there = with(ty as usize, |known| known.kinds.contains_key(&place));
        if stores || is_there == Some(true) {
            return Ok(value(place, true));
        }
    }
    // SAFETY: as above.
    if !inline && unsafe { (*ty).tp_dictoffset } != 0 {
        return Err(why("which may be in a dict"));
    }
    Ok(Attribute::OfClass { value: found, inline, hidden_by: place })
}
