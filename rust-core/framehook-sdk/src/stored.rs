//! References that outlive the call.

use crate::api::{Api, PyObject};
use crate::error::{Error, Exception};
use crate::object::Object;
use crate::python::{while_attached_to, Interpreter, Python};
use crate::Result;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;

/// Whether an interpreter is still there. One for each interpreter that stores
/// something; a capsule in the interpreter's own dict owns the end of it.
struct Life {
    interpreter: i64,
    goes_on: AtomicBool,
}

/// In the interpreter's dict; dropped when the interpreter clears that, at its end.
struct EndOfLife(Arc<Life>);

impl Drop for EndOfLife {
    fn drop(&mut self) {
        self.0.goes_on.store(false, Ordering::Release);
    }
}

impl Life {
    /// The life of this interpreter; made at the first call.
    fn of<'py>(interpreter: Interpreter<'py>) -> Result<'py, Arc<Life>> {
        let python = interpreter.python;
        let table = &python.api.python;
        // SAFETY: attached to this interpreter; borrowed, and the interpreter keeps it.
        let dict = unsafe {
            let dict = (table.PyInterpreterState_GetDict)(interpreter.state);
            Object::from_borrowed(python, dict)
        };
        let dict = dict.ok_or_else(|| {
            Error::new(Exception::RuntimeError, "the interpreter has no room for stored objects")
        })?;
        // Two extensions that contain this crate have two keys.
        let key = python.string(&format!("framehook.life.{:p}", &KEY))?;
        let life = Arc::new(Life { interpreter: interpreter.id(), goes_on: AtomicBool::new(true) });
        // Another thread may do the same: the one that comes first wins, and the
        // other's life ends unused.
        let own = python.capsule(EndOfLife(life))?;
        let mut found = std::ptr::null_mut();
        // SAFETY: attached; the dict, the key and the capsule are alive, and there is
        // room for the result, a new reference.
        let status = unsafe {
            (table.PyDict_SetDefaultRef)(
                dict.as_raw().cast(),
                key.as_raw().cast(),
                own.as_raw().cast(),
                &mut found,
            )
        };
        python.check(status.into())?;
        // SAFETY: a new reference, or NULL.
        let found = unsafe { Object::from_owned(python, found) };
        let life = found.as_ref().and_then(|found| found.value::<EndOfLife>());
        life.map(|life| life.0.clone()).ok_or_else(|| {
            Error::new(Exception::RuntimeError, "somebody has changed the interpreter's own dict")
        })
    }

    fn is_of(&self, interpreter: Interpreter<'_>) -> bool {
        // A number comes again when Python is initialized again; then the old life is over.
        self.goes_on.load(Ordering::Acquire) && self.interpreter == interpreter.id()
    }
}

/// Its address is part of the key.
static KEY: u8 = 0;

/// A reference to a Python object that can be kept, in a hook for example, and used
/// whenever a thread is attached to the object's interpreter.
///
/// Dropped in a thread that is not attached to that interpreter, or after the
/// interpreter's end, it gives nothing back: the object then lives as long as the
/// interpreter. Garbage collection does not see these references.
///
/// # Invariants
/// While `life` goes on, `pointer` is a reference that this value owns to an object
/// of that interpreter.
pub struct Stored {
    api: &'static Api,
    pointer: NonNull<PyObject>,
    life: Arc<Life>,
}

// SAFETY: the object is only touched by a thread that is attached to its
// interpreter, which `get` and `drop` make sure of.
unsafe impl Send for Stored {}
// SAFETY: see Send; `get` needs no more than a shared reference, and counts
// references as any thread does.
unsafe impl Sync for Stored {}

impl Stored {
    pub(crate) fn new<'py>(object: &Object<'py>) -> Result<'py, Self> {
        let python = object.python();
        let life = Life::of(python.interpreter())?;
        let raw: *mut PyObject = object.clone().into_raw().cast();
        // SAFETY: it was a reference, so it is not NULL.
        let pointer = unsafe { NonNull::new_unchecked(raw) };
        // INVARIANT: the clone's reference is this value's, and the life is the interpreter's.
        Ok(Self { api: python.api, pointer, life })
    }

    /// The object. RuntimeError in another interpreter than its own.
    pub fn get<'py>(&self, python: Python<'py>) -> Result<'py, Object<'py>> {
        if !self.life.is_of(python.interpreter()) {
            let text = format!(
                "an object of interpreter {} cannot be used in interpreter {}",
                self.life.interpreter,
                python.interpreter().id()
            );
            return Err(Error::new(Exception::RuntimeError, text));
        }
        // SAFETY: attached to the object's interpreter, and this value's reference keeps
        // the object alive.
        let object = unsafe { Object::from_borrowed(python, self.pointer.as_ptr()) };
        object.ok_or_else(|| Error::new(Exception::SystemError, "a stored object is NULL"))
    }
}

impl Drop for Stored {
    fn drop(&mut self) {
        while_attached_to(self.api, self.life.interpreter, |python| {
            if self.life.is_of(python.interpreter()) {
                // SAFETY: attached to the object's interpreter, which goes on; the
                // reference is this value's and is given back once.
                unsafe { (self.api.python.Py_DecRef)(self.pointer.as_ptr()) };
            }
        });
    }
}
