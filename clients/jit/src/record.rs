//! What is known of a code object: its compiled versions, how they fare, and why there is none.

use crate::compiled::Compiled;
use crate::context::Table;
use crate::kind::Kind;
use crate::outer::Outer;
use crate::python::{
    PyUnstable_Code_GetExtra, PyUnstable_Code_SetExtra, PyUnstable_Eval_RequestCodeExtraIndex,
};
use pyo3::exceptions::PyRuntimeError;
use pyo3::ffi::PyObject;
use pyo3::prelude::*;
use pyo3::types::{PyCode, PyWeakrefReference};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::ffi::c_void;
use std::rc::Rc;
use std::sync::OnceLock;

/// A value of `co_extra`. The GIL protects it: it is reached by attached threads alone, and no borrow of a cell lasts while
/// anything is called that could let go of the GIL.
#[derive(Default)]
pub struct Record {
    pub compiled: RefCell<Vec<Rc<Compiled>>>,
    /// Code from the heads of loops on.
    pub loops: RefCell<Vec<Rc<Compiled>>>,
    /// The word that says whether calls are observed, or NULL until it is asked for.
    pub observers: Cell<Observers>,
    /// The last reason why something was not compiled.
    pub refused: RefCell<Option<String>>,
    /// The code unit of the instruction because of which, if it was one.
    pub refused_at: Cell<Option<u32>>,
    /// Microseconds of processor time that compiling has taken, with or without success.
    pub spent: Cell<f64>,
    /// Not to be compiled any more; functions get their own vectorcall back.
    pub given_back: Cell<bool>,
    /// The versions that are being compiled, the outermost first.
    pub in_progress: RefCell<Vec<InProgress>>,
    /// Loops are compiled, but not the function: it has its own vectorcall.
    pub in_part: Cell<bool>,
    /// What is known of its loops.
    pub outer: RefCell<Vec<Rc<Outer>>>,
    /// The id of the hook that has its loops watched, or by which it was refused; 0: it was not examined.
    pub examined: Cell<i64>,
    /// The id of the hook that watches its loops, or its observers alone if it has none.
    pub watched: Cell<i64>,
    /// Calls in succession that were observed.
    pub observed: Cell<u32>,
    /// Its functions have their own vectorcall until the observers of the code have changed.
    pub rests: Cell<bool>,
    /// It is watched for that alone.
    pub watched_for_rest: Cell<bool>,
    /// The functions, as long as they live.
    pub resting: RefCell<Vec<Py<PyWeakrefReference>>>,
    /// The hook counts calls, so it observes them.
    pub counted: Cell<bool>,
    /// A loop of it was hot.
    pub was_hot: Cell<bool>,
    /// How often code with generator expressions is looked at before one of them is hot.
    pub looks: Cell<u16>,
    /// Calls that were seen before it was compiled.
    pub calls: Cell<u32>,
    /// Entries into compiled code, guards that failed, times that the interpreter had something to do.
    pub entered: Cell<u64>,
    pub left: Cell<u64>,
    pub polled: Cell<u64>,
    /// Calls with arguments of kinds for which there is no version.
    pub missed: Cell<u64>,
    /// What was compiled is to be compiled anew: a generator has run for the first time.
    pub renew: Cell<bool>,
    /// How often a dependency had changed.
    pub changed: Cell<u32>,
    /// By code unit: how often it was left there.
    pub places: RefCell<BTreeMap<u32, u64>>,
}

/// A version that is being compiled, which its callees may call.
pub struct InProgress {
    /// The address of its globals.
    pub globals: usize,
    pub parameters: Vec<Kind>,
    pub table: *const Table,
    /// What it is believed to return.
    pub returns: Option<Kind>,
    /// How many callers are being compiled around it.
    pub level: usize,
    /// Whether it is believed to change objects that others may refer to, and contents of cells.
    pub stores: bool,
    pub stores_cells: bool,
}

/// An address of `PyUnstable_Code_Observers`.
#[derive(Clone, Copy)]
pub struct Observers(pub *const usize);

impl Default for Observers {
    fn default() -> Self {
        Self(std::ptr::null())
    }
}

static INDEX: OnceLock<isize> = OnceLock::new();

/// # Safety
/// The interpreter calls it once with a value that `Record::of` has stored, when the code object goes away.
unsafe extern "C" fn free(record: *mut c_void) {
    if !record.is_null() {
        // SAFETY: `of` made it with Box, by contract; the code object no longer refers to it. Who frees a code object is attached.
        unsafe { Python::attach_unchecked(|_| drop(Box::from_raw(record.cast::<Record>()))) };
    }
}

/// Gets the index of `co_extra`.
pub fn prepare(_py: Python<'_>) -> PyResult<()> {
    if INDEX.get().is_none() {
        // SAFETY: attached, as the token says.
        let index = unsafe { PyUnstable_Eval_RequestCodeExtraIndex(free) };
        if index < 0 {
            return Err(PyRuntimeError::new_err("there is no room in co_extra of code objects"));
        }
        let _ = INDEX.set(index);
    }
    Ok(())
}

/// The record of a code object, if it has one.
///
/// # Safety
/// The thread is attached. The reference is used while the code object is alive.
#[inline]
pub unsafe fn find<'a>(code: *mut PyObject) -> Option<&'a Record> {
    let mut extra = std::ptr::null_mut();
    // SAFETY: a code object, as every function's code is.
    let status = unsafe { PyUnstable_Code_GetExtra(code, *INDEX.get()?, &mut extra) };
    if status < 0 {
        // SAFETY: attached.
        unsafe { pyo3::ffi::PyErr_Clear() };
        return None;
    }
    // SAFETY: `of` has stored it, and it lives as long as the code object. There are only shared references to a record.
    unsafe { extra.cast::<Record>().as_ref() }
}

impl Record {
    /// The record of a code object, made if need be.
    pub fn of<'a>(code: &'a Bound<'_, PyCode>) -> PyResult<&'a Self> {
        // SAFETY: attached, as the binding says; the result lives as long as its borrow of the code object.
        if let Some(found) = unsafe { find(code.as_ptr()) } {
            return Ok(found);
        }
        let index =
            INDEX.get().ok_or_else(|| PyRuntimeError::new_err("the compiler is not prepared"))?;
        let made = Box::into_raw(Box::<Self>::default());
        // SAFETY: the index is this crate's, whose function frees the record.
        if unsafe { PyUnstable_Code_SetExtra(code.as_ptr(), *index, made.cast()) } < 0 {
            // SAFETY: made above, and stored nowhere.
            drop(unsafe { Box::from_raw(made) });
            return Err(PyErr::fetch(code.py()));
        }
        // SAFETY: as for what is found.
        Ok(unsafe { &*made })
    }

    /// Loops alone are compiled, and why.
    pub fn refuse_in_part(&self, at: Option<u32>, why: String) {
        self.in_part.set(true);
        self.refused_at.set(at);
        *self.refused.borrow_mut() = Some(why);
    }

    /// Forgets what is to be compiled anew.
    pub fn forget_old(&self) {
        if self.renew.take() {
            drop((self.compiled.take(), self.loops.take()));
        }
    }

    pub fn refuse(&self, why: String) {
        self.given_back.set(true);
        *self.refused.borrow_mut() = Some(why);
    }
}

/// One more.
pub fn count(counter: &Cell<u64>) {
    counter.set(counter.get().wrapping_add(1));
}
