//! Code objects, with what a frame must know of its code.

use super::exceptions::PyErr_NoMemory;
use super::memory::is_allowed;
use super::objects::{decref, named_type, text, with_zeros};
use super::threads::{is_world_stopped, PyThreadState_Get};
use super::values::{bytes, tuple};
use crate::code_extra::_PyRust_ClearCodeExtra;
use crate::cpython as c;
use crate::cpython::{_PyInterpreterFrame, PyCodeObject, PyObject, PyThreadState, PyTypeObject};
use std::cell::Cell;
use std::ffi::c_int;

#[no_mangle]
#[allow(non_upper_case_globals)]
pub static mut PyCode_Type: PyTypeObject = PyTypeObject {
    tp_dealloc: Some(deallocate),
    tp_repr: Some(qualified_name),
    ..named_type(c"code")
};

/// The kind of a slot for a local, which may be a cell besides.
const LOCAL: u32 = 0x20;
/// An instruction that says nothing to the crate.
const ANY: u8 = 0;
/// Slots that a frame has before those of its code.
const FIELDS: usize = size_of::<_PyInterpreterFrame>() / size_of::<usize>() - 1;

/// A code object with nothing but numbers: locals, stack, instructions and, among them, the first
/// that is traceable.
pub fn plain(
    locals: usize,
    stack: usize,
    instructions: usize,
    traceable: usize,
) -> *mut PyCodeObject {
    let code: *mut PyCodeObject =
        with_zeros(&raw mut PyCode_Type, instructions * size_of::<c::_Py_CODEUNIT>());
    // SAFETY: a code object made just now.
    unsafe {
        (*code).ob_base.ob_size = instructions as isize;
        (*code).co_nlocalsplus = locals as c_int;
        (*code).co_stacksize = stack as c_int;
        (*code).co_framesize = (FIELDS + locals + stack) as c_int;
        (*code)._co_firsttraceable = traceable as c_int;
    }
    code
}

/// The address of an instruction.
pub fn instruction(code: *mut PyCodeObject, number: usize) -> *mut c::_Py_CODEUNIT {
    // SAFETY: within the code's memory.
    unsafe { (&raw mut (*code).co_code_adaptive).cast::<c::_Py_CODEUNIT>().add(number) }
}

/// What is said of a function to have code for it. Names are separated by spaces.
#[derive(Clone, Copy)]
pub struct Function<'a> {
    pub name: &'a str,
    pub positional: &'a str,
    pub keyword_only: &'a str,
    /// The name of `*args`, or nothing.
    pub star: &'a str,
    /// The name of `**kwargs`, or nothing.
    pub double_star: &'a str,
    pub locals: &'a str,
    /// Cells, parameters among them.
    pub cells: &'a str,
    /// Those of the cells that the prologue does not make, as in code that was written by hand.
    pub unmade: &'a str,
    pub free: &'a str,
    pub stack: usize,
    /// Flags beside those that follow from the parameters.
    pub flags: u32,
}

impl Function<'static> {
    /// Without parameters or variables.
    pub const PLAIN: Self = Function {
        name: "function",
        positional: "",
        keyword_only: "",
        star: "",
        double_star: "",
        locals: "",
        cells: "",
        unmade: "",
        free: "",
        stack: 4,
        flags: c::CO_OPTIMIZED | c::CO_NEWLOCALS,
    };
}

fn words(names: &str) -> Vec<&str> {
    names.split_whitespace().collect()
}

impl Function<'_> {
    /// The instructions before `RESUME`, each with its argument.
    fn prologue(self, slots: &[(&str, u32)]) -> Vec<[u8; 2]> {
        let mut units = Vec::new();
        if !self.free.is_empty() {
            units.push([ANY, 0]);
        }
        let unmade = words(self.unmade);
        for (slot, (name, kind)) in slots.iter().enumerate() {
            if kind & c::CO_FAST_CELL != 0 && !unmade.contains(name) {
                if slot > 0xff {
                    units.push([c::EXTENDED_ARG as u8, (slot >> 8) as u8]);
                }
                units.push([c::MAKE_CELL as u8, slot as u8]);
            }
        }
        if self.flags & (c::CO_GENERATOR | c::CO_COROUTINE | c::CO_ASYNC_GENERATOR) != 0 {
            units.extend([[c::RETURN_GENERATOR as u8, 0], [ANY, 0]]);
        }
        units
    }

    /// A new code object, with one reference.
    pub fn code(self) -> *mut PyCodeObject {
        let parameters =
            words(&[self.positional, self.keyword_only, self.star, self.double_star].join(" "))
                .into_iter()
                .map(str::to_string)
                .collect::<Vec<_>>();
        let (cells, free) = (words(self.cells), words(self.free));
        let mut slots: Vec<(&str, u32)> = Vec::new();
        for name in parameters.iter().map(String::as_str).chain(words(self.locals)) {
            let cell = if cells.contains(&name) { c::CO_FAST_CELL } else { 0 };
            slots.push((name, LOCAL | cell));
        }
        let own_cells = cells.iter().filter(|it| !parameters.iter().any(|name| name == *it));
        slots.extend(own_cells.map(|name| (*name, c::CO_FAST_CELL)));
        slots.extend(free.iter().map(|name| (*name, c::CO_FAST_FREE)));
        let prologue = self.prologue(&slots);
        let code = plain(slots.len(), self.stack, prologue.len() + 4, prologue.len());
        for (number, unit) in prologue.into_iter().enumerate() {
            // SAFETY: one of the code's instructions.
            unsafe { instruction(code, number).cast::<[u8; 2]>().write(unit) };
        }
        let star = if self.star.is_empty() { 0 } else { c::CO_VARARGS };
        let double_star = if self.double_star.is_empty() { 0 } else { c::CO_VARKEYWORDS };
        let own = slots.iter().filter(|it| it.1 & LOCAL != 0).count();
        let kinds: Vec<_> = slots.iter().map(|it| it.1 as u8).collect();
        // SAFETY: a code object made just now, which nothing else has.
        unsafe {
            (*code).co_flags = (self.flags | star | double_star) as c_int;
            (*code).co_argcount = words(self.positional).len() as c_int;
            (*code).co_kwonlyargcount = words(self.keyword_only).len() as c_int;
            (*code).co_ncellvars = cells.len() as c_int;
            (*code).co_nfreevars = free.len() as c_int;
            (*code).co_nlocals = own as c_int;
        }
        // SAFETY: a code object made just now, which nothing else has.
        unsafe {
            (*code).co_localsplusnames = tuple(slots.iter().map(|it| text(it.0)).collect());
            (*code).co_localspluskinds = bytes(&kinds);
            (*code).co_qualname = text(self.name);
        }
        code
    }
}

/// The slots of which the prologue makes cells, and where it stops: at `RETURN_GENERATOR`, or at
/// `RESUME`.
pub fn prologue_of(code: *mut PyCodeObject) -> (Vec<usize>, usize) {
    // SAFETY: a live code object, and its instructions.
    let unit = |number| unsafe { instruction(code, number).cast::<[u8; 2]>().read() };
    let (mut cells, mut argument) = (Vec::new(), 0);
    // SAFETY: a live code object.
    let end = unsafe { (*code)._co_firsttraceable as usize };
    for number in 0..end {
        let [instruction, low] = unit(number);
        argument = argument << 8 | usize::from(low);
        match u32::from(instruction) {
            c::EXTENDED_ARG => continue,
            c::MAKE_CELL => cells.push(argument),
            c::RETURN_GENERATOR => return (cells, number),
            _ => {}
        }
        argument = 0;
    }
    (cells, end)
}

/// The name of a code object, borrowed, or NULL.
unsafe extern "C" fn qualified_name(code: *mut PyObject) -> *mut PyObject {
    // SAFETY: a code object, whose memory stays.
    unsafe { (*code.cast::<PyCodeObject>()).co_qualname }
}

unsafe extern "C" fn deallocate(object: *mut PyObject) {
    let code: *mut PyCodeObject = object.cast();
    // SAFETY: a code object without references, whose memory stays.
    unsafe {
        if !(*code).co_extra.is_null() {
            _PyRust_ClearCodeExtra(code);
        }
        for held in [(*code).co_localsplusnames, (*code).co_localspluskinds, (*code).co_qualname] {
            if !held.is_null() {
                decref(held);
            }
        }
    }
}

#[no_mangle]
extern "C" fn PyCode_Addr2Line(_code: *mut PyCodeObject, address: c_int) -> c_int {
    1000 + address
}

thread_local! {
    static TIMES_DESPECIALIZED: Cell<usize> = const { Cell::new(0) };
}

/// How often all code objects were de-specialized.
pub fn times_despecialized() -> usize {
    TIMES_DESPECIALIZED.get()
}

#[no_mangle]
extern "C" fn _PyRust_DespecializeAllCode(tstate: *mut PyThreadState) -> c_int {
    assert!(is_world_stopped(), "de-specialized while others run");
    assert_eq!(tstate, PyThreadState_Get());
    if !is_allowed() {
        PyErr_NoMemory();
        return -1;
    }
    TIMES_DESPECIALIZED.set(TIMES_DESPECIALIZED.get() + 1);
    0
}
