//! What compiled code believes of globals, builtins, functions and code, checked when it is entered.
//!
//! A dict's version says that nothing in it has changed. Otherwise each name is looked up again: another object, or the same
//! address with another object, makes the code unusable.

use crate::bind::Origin;
use crate::defaults::Defaults;
use crate::instances;
use crate::parts;
use crate::python::{DictObject, PyDict_GetItemWithError, ThreadState};
use framehook::raw::Api;
use pyo3::ffi::{PyFunctionObject, PyObject, PyTypeObject};
use pyo3::prelude::*;
use pyo3::types::{PyString, PyType, PyWeakrefReference};
use std::cell::Cell;

/// How an object is known to be still itself.
enum Identity {
    /// Not there.
    Absent,
    /// Kept alive: it cannot refer to code.
    Kept(Py<PyAny>),
    /// Watched, so that no circle keeps a function alive.
    Weak(usize, Py<PyWeakrefReference>),
}

/// A class as it was. While it has this version, it and its bases have not changed.
struct ClassState {
    class: *mut PyTypeObject,
    weak: Py<PyWeakrefReference>,
    version: u32,
    /// How many names its instances share: an attribute that is found in the class is none of them.
    keys: isize,
}

impl ClassState {
    /// # Safety
    /// The thread is attached.
    unsafe fn holds(&self) -> bool {
        // SAFETY: attached; nothing is read of a class that is gone.
        unsafe {
            is_alive(&self.weak)
                && instances::version_of(self.class) == self.version
                && instances::key_count(self.class) == self.keys
        }
    }
}

/// One name in one dict, or one object, or what a class is.
///
/// # Invariants
/// `dict` is alive when the dependencies before this one in their list hold: it is the globals or builtins of the function that is
/// entered or of one that was found before, or of a module that was found before. It is NULL for an object that is only to be alive, and
/// for a class.
pub struct Dependency {
    dict: *mut PyObject,
    version: Cell<u64>,
    name: Py<PyString>,
    value: Identity,
    /// For a function that is called: the address of its code object, or 0.
    code: usize,
    observers: *const usize,
    class: Option<ClassState>,
    /// Those of its defaults that calls of it use.
    defaults: Option<Defaults>,
    /// That code object. Functions that call each other would keep each other's code.
    weak_code: Option<Py<PyWeakrefReference>>,
}

impl Dependency {
    /// That a name has this value, or none.
    pub fn new(
        dict: &Bound<'_, PyAny>,
        name: &Bound<'_, PyString>,
        value: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Self> {
        let value = match value {
            None => Identity::Absent,
            Some(value) => match PyWeakrefReference::new(value) {
                Ok(weak) => Identity::Weak(value.as_ptr() as usize, weak.unbind()),
                Err(_) => Identity::Kept(value.clone().unbind()),
            },
        };
        Ok(Self::of(dict.as_ptr(), name.clone().unbind(), value))
    }

    fn of(dict: *mut PyObject, name: Py<PyString>, value: Identity) -> Self {
        // Version 0 is no dict's: the first check looks the name up.
        Self {
            dict,
            version: Cell::new(0),
            name,
            value,
            code: 0,
            observers: std::ptr::null(),
            class: None,
            defaults: None,
            weak_code: None,
        }
    }

    /// That an object is alive. It can be referred to weakly.
    pub fn alive(object: &Bound<'_, PyAny>) -> PyResult<Self> {
        let value =
            Identity::Weak(object.as_ptr() as usize, PyWeakrefReference::new(object)?.unbind());
        let name = parts::names(object.py()).name.clone_ref(object.py());
        Ok(Self::of(std::ptr::null_mut(), name, value))
    }

    /// That a class has this version; `method`: a function that it or a base has, or the class itself.
    pub fn of_class(
        class: &Bound<'_, PyType>,
        version: u32,
        method: &Bound<'_, PyAny>,
    ) -> PyResult<Self> {
        let mut made = Self::alive(method)?;
        let (weak, class) = (PyWeakrefReference::new(class)?.unbind(), class.as_ptr().cast());
        // SAFETY: attached, as the binding says; a class that is alive.
        let keys = unsafe { instances::key_count(class) };
        made.class = Some(ClassState { class, weak, version, keys });
        Ok(made)
    }

    /// Whether it is about this object as something that a class has.
    pub fn is_of_class(&self, class: &Bound<'_, PyType>, method: &Bound<'_, PyAny>) -> bool {
        let same = self.class.as_ref().is_some_and(|state| state.class == class.as_ptr().cast());
        same && self.address() == method.as_ptr() as usize
    }

    /// The address of the value.
    pub fn address(&self) -> usize {
        match &self.value {
            Identity::Absent => 0,
            Identity::Kept(object) => object.as_ptr() as usize,
            Identity::Weak(address, _) => *address,
        }
    }

    /// Whether it is about this name in this dict.
    pub fn is_about(&self, dict: &Bound<'_, PyAny>, name: &Bound<'_, PyString>) -> bool {
        self.dict == dict.as_ptr() && self.name.as_ptr() == name.as_ptr()
    }

    /// Whether it is about a name in this dict.
    pub fn is_in(&self, dict: &Bound<'_, PyAny>) -> bool {
        self.dict == dict.as_ptr()
    }

    pub fn name<'py>(&self, py: Python<'py>) -> Bound<'py, PyString> {
        self.name.bind(py).clone()
    }

    /// That the function is called, or functions with this code, so that it matters too.
    pub fn with_code(&mut self, code: &Bound<'_, PyAny>) -> PyResult<()> {
        self.observers = observers(code)?;
        self.code = code.as_ptr() as usize;
        if !self.is_function() {
            return Ok(()); // it is the object
        }
        self.weak_code = Some(PyWeakrefReference::new(code)?.unbind());
        Ok(())
    }

    /// That a call of the function, whose address this is, uses a default; `None`: it is none that can be depended on.
    ///
    /// # Safety
    /// As for `Defaults::add`.
    pub unsafe fn with_default(
        &mut self,
        function: &Bound<'_, PyAny>,
        origin: Origin,
    ) -> Option<Py<PyAny>> {
        // SAFETY: by contract.
        unsafe { self.defaults.get_or_insert_default().add(function, origin) }
    }

    /// Whether the object is a function, if it has code.
    fn is_function(&self) -> bool {
        !self.dict.is_null() || self.class.is_some()
    }

    /// The addresses of the code that is called, if it is about some, and of the function if it is a known one.
    pub fn callee(&self) -> Option<(usize, Option<usize>)> {
        (self.code != 0).then(|| (self.code, self.is_function().then(|| self.address())))
    }

    /// True if calls of the function are not observed, or the dependency is not a callee.
    ///
    /// # Safety
    /// As for `unobserved`, and the dependency holds.
    #[inline]
    pub unsafe fn unobserved(&self, thread: *const ThreadState) -> bool {
        // SAFETY: the function has this code, so it is alive, and the word is that code's.
        self.code == 0 || unsafe { unobserved(thread, self.observers, self.code as *mut PyObject) }
    }

    /// Whether it still holds.
    ///
    /// # Safety
    /// The thread is attached, and the dependencies before this one hold.
    #[inline]
    pub unsafe fn holds(&self) -> bool {
        if let Some(class) = &self.class {
            // SAFETY: attached, by contract. The class has the function, and it or a base refers to it.
            return unsafe { class.holds() && self.function_holds() };
        }
        if self.dict.is_null() {
            // SAFETY: attached, by contract.
            return matches!(&self.value, Identity::Weak(_, weak) if unsafe { is_alive(weak) });
        }
        // SAFETY: the dict is alive, by the invariant; reads under the GIL.
        let version = unsafe { (*self.dict.cast::<DictObject>()).version };
        if version != self.version.get() {
            // SAFETY: attached, and those before it hold: what this function asks of its caller too.
            if !unsafe { self.found() } {
                return false;
            }
            self.version.set(version);
        }
        // SAFETY: the dict has the function.
        unsafe { self.function_holds() }
    }

    /// Whether a function that is called has the code that it had, and the defaults.
    ///
    /// # Safety
    /// As for `holds`; the function is alive.
    #[inline]
    unsafe fn function_holds(&self) -> bool {
        if self.code == 0 {
            return true;
        }
        let function = self.address() as *mut PyObject;
        // SAFETY: alive, by contract; it is a function, since it has code.
        unsafe {
            (*function.cast::<PyFunctionObject>()).func_code as usize == self.code
                && self.weak_code.as_ref().is_some_and(|weak| is_alive(weak))
                && self.defaults.as_ref().is_none_or(|defaults| defaults.hold(function))
        }
    }

    /// Looks the name up.
    ///
    /// # Safety
    /// As for `holds`.
    #[cold]
    unsafe fn found(&self) -> bool {
        // SAFETY: a dict that is alive, and a str.
        let found = unsafe { PyDict_GetItemWithError(self.dict, self.name.as_ptr()) };
        if found.is_null() {
            // SAFETY: attached.
            let failed = unsafe { !pyo3::ffi::PyErr_Occurred().is_null() };
            if failed {
                // SAFETY: attached.
                unsafe { pyo3::ffi::PyErr_Clear() };
            }
            return !failed && matches!(self.value, Identity::Absent);
        }
        match &self.value {
            Identity::Absent => false,
            Identity::Kept(object) => object.as_ptr() == found,
            Identity::Weak(address, weak) => {
                // SAFETY: the caller says that the thread is attached.
                let py = unsafe { Python::assume_attached() };
                let alive = weak.bind(py).upgrade();
                *address == found as usize && alive.is_some_and(|alive| alive.as_ptr() == found)
            }
        }
    }
}

/// Whether the object of a weak reference is alive.
///
/// # Safety
/// The thread is attached.
unsafe fn is_alive(weak: &Py<PyWeakrefReference>) -> bool {
    // SAFETY: by contract.
    weak.bind(unsafe { Python::assume_attached() }).upgrade().is_some()
}

/// True if calls of a code object are not observed in this thread: no tracer, no tool of `sys.monitoring`, no hook, no pending work.
///
/// # Safety
/// The thread is attached, `thread` is its state, and `code` is a code object that is alive, whose word `observers` is.
#[inline]
pub unsafe fn unobserved(
    thread: *const ThreadState,
    observers: *const usize,
    code: *mut PyObject,
) -> bool {
    // SAFETY: by contract; the word lives as long as the code. Signal handlers set flags in the other one.
    let equal = unsafe {
        std::ptr::addr_of!((*thread).eval_breaker).read_volatile() == observers.read_volatile()
    };
    equal || is_unobserved(code)
}

/// The same without the word.
#[cold]
pub fn is_unobserved(code: *mut PyObject) -> bool {
    // SAFETY: attached, as the caller says; a code object.
    Api::get().is_ok_and(|api| unsafe { (api.PyUnstable_Code_IsObserved)(code) } == 0)
}

/// The word that says whether calls of a code object are observed.
pub fn observers(code: &Bound<'_, PyAny>) -> PyResult<*const usize> {
    // SAFETY: attached, as the binding says.
    let word = unsafe { (Api::get()?.PyUnstable_Code_Observers)(code.as_ptr()) };
    if word.is_null() {
        return Err(PyErr::fetch(code.py()));
    }
    Ok(word)
}
