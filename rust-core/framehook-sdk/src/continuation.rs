//! Frames that compiled code has left continue in the interpreter.

use crate::raw::{self, Api};
use pyo3::ffi::PyObject;
use pyo3::prelude::*;
use pyo3::types::{PyCode, PyFunction};
use std::ffi::c_int;
use std::ptr::null_mut;

/// A variable or a value on the evaluation stack; `None` is NULL.
pub type Slot<'py> = Option<Bound<'py, PyAny>>;

/// A frame that compiled code has left. See `docs/compilers.md`.
pub struct FrameRecord<'py> {
    function: Bound<'py, PyFunction>,
    code: Option<Bound<'py, PyCode>>,
    locals: Option<Bound<'py, PyAny>>,
    instruction: usize,
    depth: usize,
    slots: Vec<Slot<'py>>,
}

impl<'py> FrameRecord<'py> {
    /// A frame of `function` at an instruction, whose index counts code units: the next one to execute
    /// in the innermost frame, the call at which the others wait. All variables first, then the
    /// evaluation stack.
    pub fn new(
        function: Bound<'py, PyFunction>,
        instruction: usize,
        variables: impl IntoIterator<Item = Slot<'py>>,
        stack: impl IntoIterator<Item = Slot<'py>>,
    ) -> Self {
        let mut slots: Vec<_> = variables.into_iter().collect();
        let variables = slots.len();
        slots.extend(stack);
        let depth = slots.len() - variables;
        Self { function, code: None, locals: None, instruction, depth, slots }
    }

    /// The code that runs; otherwise what the function has when it continues. Needed if other code may have run since
    /// it was compiled, which can assign another `__code__`.
    #[must_use]
    pub fn running(mut self, code: Bound<'py, PyCode>) -> Self {
        self.code = Some(code);
        self
    }

    /// The mapping of the locals, for the code of a module, a class body or `exec`.
    #[must_use]
    pub fn with_locals(mut self, locals: Bound<'py, PyAny>) -> Self {
        self.locals = Some(locals);
        self
    }
}

/// How the innermost frame continues.
pub enum Resume<'py> {
    /// With its next instruction.
    Next,
    /// The same, with this value on its stack.
    With(Bound<'py, PyAny>),
    /// Its instruction raises this.
    Raise(PyErr),
}

/// Continues frames, the outermost first, each of which was called by the one before it. Returns what
/// the outermost one returns.
///
/// ```no_run
/// use framehook::{continue_frames, FrameRecord, Resume};
/// use pyo3::{prelude::*, types::PyFunction};
/// /// Leaves `def triple(x): return x * 3` after `RESUME` and the two loads.
/// fn leave<'py>(triple: Bound<'py, PyFunction>, x: Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
///     let py = triple.py();
///     let three = 3i32.into_pyobject(py)?.into_any();
///     let record = FrameRecord::new(triple, 3, [Some(x.clone())], [Some(x), Some(three)]);
///     // SAFETY: the function has one variable, and at its third code unit it has two values on the stack.
///     unsafe { continue_frames(py, vec![record], Resume::Next) }
/// }
/// ```
///
/// # Safety
/// Each record has the variables of its code, with cells where the code has cells, and just the stack
/// that the code has at the instruction, which begins at that index.
pub unsafe fn continue_frames<'py>(
    py: Python<'py>,
    records: Vec<FrameRecord<'py>>,
    resume: Resume<'py>,
) -> PyResult<Bound<'py, PyAny>> {
    let api = Api::get()?;
    // What stays alive meanwhile, and the references that are given away.
    let mut kept = Vec::with_capacity(records.len());
    let mut slots: Vec<Vec<*mut PyObject>> = Vec::with_capacity(records.len());
    let mut places = Vec::with_capacity(records.len());
    for record in records {
        slots.push(record.slots.into_iter().map(given_away).collect());
        places.push((record.instruction, record.depth));
        kept.push((record.function, record.code, record.locals));
    }
    let raw: Vec<_> = kept
        .iter()
        .zip(&mut slots)
        .zip(places)
        .map(|(((function, code, locals), slots), (instruction, depth))| raw::Record {
            function: function.as_ptr(),
            code: code.as_ref().map_or(null_mut(), Bound::as_ptr),
            locals: locals.as_ref().map_or(null_mut(), Bound::as_ptr),
            // -1 is refused. No code has a stack that deep: the caller has made a mistake, and leaks.
            instruction: c_int::try_from(instruction).unwrap_or(-1),
            stack_depth: c_int::try_from(depth).unwrap_or(0),
            slots: slots.as_mut_ptr(),
        })
        .collect();
    let value = match resume {
        Resume::Next => null_mut(),
        Resume::With(value) => value.into_ptr(),
        Resume::Raise(error) => {
            error.restore(py);
            null_mut()
        }
    };
    let count = isize::try_from(raw.len()).unwrap_or(isize::MAX);
    // SAFETY: attached. The records are as the caller says; what they borrow is `kept`, and the references in the slots
    // and `value` are given away. A new reference, or NULL with an exception.
    unsafe {
        let result = (api.PyUnstable_Frame_Continue)(raw.as_ptr(), count, value);
        Bound::from_owned_ptr_or_err(py, result)
    }
}

/// A reference that other code releases.
fn given_away(slot: Slot<'_>) -> *mut PyObject {
    slot.map_or(null_mut(), Bound::into_ptr)
}
