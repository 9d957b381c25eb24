//! Variables of a loop that are not in its frame's slots: globals, and what cells hold.
//!
//! While compiled code runs they are in machine words, as locals behind those of the frame. Nothing else can see them meanwhile: no
//! code of the program runs, the GIL is held, and a callee that depends on a global that is stored is refused. Wherever compiled code
//! is left they are written to their homes first. A dict that is watched, or has keys that are no str, is left alone.

use crate::closure::is_cell;
use crate::code::{kind_of, supported_within};
use crate::decode::{Code, Region};
use crate::opcode as op;
use crate::parts;
use crate::python::{PyCell_Get, PyCell_Set, PyEval_GetFrameLocals};
use framehook::HotLoop;
use pyo3::ffi::{self, PyObject};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyFunction, PyString};
use std::cell::Cell;
use std::collections::HashMap;

/// Where a variable is while the interpreter runs.
enum Home {
    Global(u32, Py<PyString>),
    /// In a cell, in this slot of the frame.
    Cell(usize),
}

struct Variable {
    home: Home,
    stored: bool,
}

/// What of a loop is compiled, and its variables outside of the frame.
pub struct Outer {
    pub head: u32,
    /// The loop that has this head.
    pub innermost: Region,
    /// What is compiled; `None`: all that follows.
    pub region: Option<Region>,
    variables: Vec<Variable>,
    /// Cells are read and written where they are: functions that are called may use them.
    shared: Cell<bool>,
    /// Whether names are those of a namespace, which has to be the globals.
    namespace: bool,
}

/// What of a loop is compiled, and where its variables outside of the frame are among the locals.
#[derive(Default)]
pub struct Outside {
    /// By index in `co_names`, and by the slot of the cell.
    pub globals: HashMap<u32, usize>,
    pub cells: HashMap<u32, usize>,
    /// What is compiled, and the loop without which it is not worth it.
    pub region: Option<Region>,
    pub innermost: Option<Region>,
    /// Some of the variables are stored.
    pub stores: bool,
    /// Those of cells are read and written there. At the start they have what the cells contain.
    pub shared: bool,
}

impl Outer {
    /// Of the loop with this head. `in_part`: not all of the code is compiled. `None`: nor is the loop.
    pub fn of(
        function: &Bound<'_, PyFunction>,
        decoded: &Code,
        head: u32,
        in_part: bool,
    ) -> PyResult<Option<Self>> {
        let Some(innermost) = decoded.loop_at(head) else { return Ok(None) };
        let mut region = supported_within(decoded, innermost).then_some(innermost);
        for around in decoded.loops().filter(|l| l.contains(head) && l.end >= innermost.end) {
            if region.is_some_and(|region| region.start >= around.start && region.end <= around.end)
                && supported_within(decoded, around)
            {
                region = Some(around);
            }
        }
        let Some(region) = region else { return Ok(None) };
        let region = in_part.then_some(region);
        let mut outer = Self {
            head,
            innermost,
            region,
            variables: Vec::new(),
            shared: Cell::new(false),
            namespace: false,
        };
        let within = |unit| region.is_none_or(|region| region.contains(unit));
        for instruction in decoded.instructions().filter(|i| within(i.start)) {
            outer.add(function, instruction.opcode, instruction.argument)?;
        }
        for expression in decoded.expressions.iter().filter(|e| within(e.start)) {
            for slot in &expression.cells {
                outer.add(function, op::LOAD_DEREF, *slot)?;
            }
        }
        Ok(Some(outer))
    }

    fn add(&mut self, function: &Bound<'_, PyFunction>, opcode: u8, argument: u32) -> PyResult<()> {
        let index = if opcode == op::LOAD_GLOBAL { argument >> 1 } else { argument };
        let stored = matches!(
            opcode,
            op::STORE_NAME
                | op::STORE_GLOBAL
                | op::DELETE_NAME
                | op::DELETE_GLOBAL
                | op::STORE_DEREF
        );
        self.namespace |= matches!(opcode, op::LOAD_NAME | op::STORE_NAME | op::DELETE_NAME);
        let home = match opcode {
            op::LOAD_DEREF | op::STORE_DEREF => Home::Cell(index as usize),
            _ if stored || matches!(opcode, op::LOAD_NAME | op::LOAD_GLOBAL) => {
                let name = parts::names_of(&parts::code_of(function)).get_item(index as usize)?;
                let name = name.cast_into_exact::<PyString>()?;
                // What is no container and is not stored is a constant, on which compiled code depends.
                if !stored {
                    let value = parts::globals_of(function).get_item(&name)?;
                    let kind = value.map(|value| kind_of(&value));
                    if !kind.is_some_and(|kind| kind.is_reference()) {
                        return Ok(());
                    }
                }
                Home::Global(index, name.unbind())
            }
            _ => return Ok(()),
        };
        let same = |variable: &&mut Variable| match (&variable.home, &home) {
            (Home::Global(a, _), Home::Global(b, _)) => a == b,
            (Home::Cell(a), Home::Cell(b)) => a == b,
            _ => false,
        };
        match self.variables.iter_mut().find(same) {
            Some(known) => known.stored |= stored,
            None => self.variables.push(Variable { home, stored }),
        }
        Ok(())
    }

    /// Whether some are stored.
    fn stores(&self) -> bool {
        let shared = self.shared.get();
        let kept = |variable: &&Variable| !shared || matches!(variable.home, Home::Global(..));
        self.variables.iter().filter(kept).any(|variable| variable.stored)
    }

    /// Whether compiled code keeps variables beside their cells that it stores, or that a function stores which it calls.
    pub fn keeps_cells(&self, callee_stores: bool) -> bool {
        let is_cell = |variable: &Variable| matches!(variable.home, Home::Cell(_));
        !self.shared.get()
            && self.variables.iter().any(|v| (v.stored || callee_stores) && is_cell(v))
    }

    /// In what is compiled from now on such variables are in their cells all the time.
    pub fn share_cells(&self) {
        self.shared.set(true);
    }

    /// Whether they are.
    pub fn shares_cells(&self) -> bool {
        self.shared.get()
    }

    /// Whether a global is stored.
    pub fn stores_global(&self, name: &Bound<'_, PyString>) -> bool {
        self.variables.iter().any(|variable| match &variable.home {
            Home::Global(_, own) => variable.stored && own.as_ptr() == name.as_ptr(),
            Home::Cell(_) => false,
        })
    }

    /// For lowering. The variables are locals behind so many slots of the frame.
    pub fn outside(&self, slots: usize) -> Outside {
        let (region, innermost, stores) = (self.region, Some(self.innermost), self.stores());
        let shared = self.shared.get();
        let mut outside = Outside { region, innermost, stores, shared, ..Outside::default() };
        for (index, variable) in self.variables.iter().enumerate() {
            match variable.home {
                Home::Global(name, _) => outside.globals.insert(name, slots + index),
                Home::Cell(slot) => outside.cells.insert(slot as u32, slots + index),
            };
        }
        outside
    }

    /// The values, `None` for what is unbound; or `None` if there is something that compiled code cannot have.
    pub fn read<'py>(
        &self,
        hot: &HotLoop<'_, 'py>,
        globals: &Bound<'py, PyDict>,
    ) -> PyResult<Option<Vec<Option<Bound<'py, PyAny>>>>> {
        if self.namespace && !is_namespace(hot.py(), globals)? {
            return Ok(None);
        }
        let in_dict = self.variables.iter().any(|v| matches!(v.home, Home::Global(..)));
        if in_dict && !parts::is_plain(globals) {
            return Ok(None);
        }
        let mut cells = Vec::new();
        let mut values = Vec::with_capacity(self.variables.len());
        for variable in &self.variables {
            values.push(match &variable.home {
                Home::Global(_, name) => globals.get_item(name)?,
                Home::Cell(slot) => {
                    let Some(cell) = hot.local(*slot)?.filter(is_cell) else { return Ok(None) };
                    // The variables of a function that was made by hand may have one cell.
                    if cells.contains(&cell.as_ptr()) {
                        return Ok(None);
                    }
                    cells.push(cell.as_ptr());
                    // SAFETY: attached, and a cell; a new reference, or NULL where it is empty.
                    unsafe { Bound::from_owned_ptr_or_opt(hot.py(), PyCell_Get(cell.as_ptr())) }
                }
            });
        }
        Ok(Some(values))
    }

    /// Writes the values that were stored, of which it takes over the references. They were numbers or None, and are, so no code of
    /// the program runs; and no key is new, so nothing is allocated. `shares_cells`: what was compiled does, which other code of the
    /// loop may not do.
    pub fn write(
        &self,
        hot: &HotLoop<'_, '_>,
        globals: &Bound<'_, PyDict>,
        values: &[*mut PyObject],
        shares_cells: bool,
    ) {
        for (variable, value) in self.variables.iter().zip(values) {
            // SAFETY: attached; the value is NULL or an owned reference, which is released below.
            unsafe {
                match &variable.home {
                    _ if !variable.stored => {}
                    Home::Global(_, name) => write_global(globals.as_ptr(), name.as_ptr(), *value),
                    Home::Cell(_) if shares_cells => {}
                    Home::Cell(slot) => {
                        if let Ok(Some(cell)) = hot.local(*slot) {
                            PyCell_Set(cell.as_ptr(), *value);
                        }
                    }
                }
                ffi::Py_XDECREF(*value);
            }
        }
    }
}

/// Stores or deletes a global, unless it is that object already.
///
/// # Safety
/// Attached; a dict, a str, and an object or NULL.
unsafe fn write_global(globals: *mut PyObject, name: *mut PyObject, value: *mut PyObject) {
    // SAFETY: by contract.
    unsafe {
        let status = match ffi::PyDict_GetItemWithError(globals, name) {
            found if found == value => 0,
            _ if value.is_null() => ffi::PyDict_DelItem(globals, name),
            _ => ffi::PyDict_SetItem(globals, name, value),
        };
        if status < 0 {
            ffi::PyErr_Clear();
        }
    }
}

/// Whether the names of the current frame are its globals.
fn is_namespace(py: Python<'_>, globals: &Bound<'_, PyDict>) -> PyResult<bool> {
    // SAFETY: attached, in a frame: a new reference, or NULL with an exception.
    let names = unsafe { Bound::from_owned_ptr_or_err(py, PyEval_GetFrameLocals())? };
    Ok(names.is(globals))
}
