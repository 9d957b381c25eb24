//! A method compiler for functions over numbers, on the frame hooks of Ferrule.
//!
//! A hook finds functions with loops, or that call themselves, of instructions that are compiled. Such a function gets a vectorcall
//! of this crate, which compiles it for the types of its arguments, enters the machine code, and continues in the interpreter where
//! that is left. The package in Python has the interface.

mod addresses;
mod bind;
mod bounds;
mod branches;
mod buffers;
mod closure;
mod code;
mod compile;
mod compiled;
mod containers;
mod context;
mod continuation;
mod decode;
mod defaults;
mod depend;
mod elf;
mod entry;
mod exit;
mod generate;
mod hot;
mod instances;
mod integers;
mod interval;
mod iterators;
mod kind;
mod lists;
mod lower;
mod memory;
mod methods;
mod numbers;
mod objects;
mod opcode;
mod operators;
mod outer;
mod parts;
mod phis;
mod python;
mod record;
mod resolve;
mod seen;
mod sequences;
mod slot;
mod stack;
mod symbols;
mod tally;
mod unbox;
mod watch;

use pyo3::prelude::*;

/// The compiler, written in Rust.
#[pymodule]
mod _core {
    use super::*;
    use pyo3::exceptions::PyRuntimeError;
    use pyo3::ffi::{PyImport_GetMagicNumber, PySys_GetObject};
    use pyo3::types::{PyCode, PyDict, PyFunction};
    use std::sync::atomic::Ordering;

    /// The magic number of the bytecode that is compiled, as `.pyc` files begin with it.
    #[pyfunction]
    fn magic_number() -> [u8; 4] {
        let [low, high] = opcode::MAGIC_NUMBER.to_le_bytes();
        [low, high, b'\r', b'\n']
    }

    /// The names of instructions that are compiled, with their numbers; and how many caches each of all has.
    #[pyfunction]
    fn opcodes() -> (Vec<(&'static str, u8)>, Vec<usize>) {
        let names = opcode::TABLE.iter().map(|&(name, number, _)| (name, number)).collect();
        (names, (0..=u8::MAX).map(opcode::units_of_caches).collect())
    }

    /// For each opcode the instruction of which it is a form.
    #[pyfunction]
    fn general_opcodes() -> Vec<Option<u8>> {
        (0..=u8::MAX).map(opcode::general).collect()
    }

    /// Whether this interpreter has all that compiled code needs of it.
    #[pyfunction]
    fn can_continue() -> bool {
        framehook::raw::Api::get().is_ok()
    }

    /// The version of frame hooks that this interpreter has; 0: none.
    #[pyfunction]
    fn version() -> u32 {
        framehook::version()
    }

    /// Starts compiling loops that have taken so many turns, and functions that call themselves after so many calls. RuntimeError:
    /// this interpreter cannot.
    #[pyfunction]
    fn enable(py: Python<'_>, turns: u16, calls: u32) -> PyResult<()> {
        if cfg!(Py_GIL_DISABLED) {
            return Err(PyRuntimeError::new_err("ferrule_jit needs a build with the GIL"));
        }
        hot::TURNS.store(turns.max(1), Ordering::Relaxed);
        watch::CALLS.store(calls, Ordering::Relaxed);
        start_compiling(py)
    }

    /// For ferrule_jit.pth: enables the compiler as `enable()` of the package does by default. What only some start-ups need is left to that:
    /// names of code, and what is missing.
    #[pyfunction]
    fn start(py: Python<'_>) -> PyResult<()> {
        let package =
            || py.import("ferrule_jit._compiler")?.call_method0("start_if_possible").map(drop);
        let names = ["FERRULE_JIT_PERF_MAP", "FERRULE_JIT_GDB"];
        if names.iter().any(|name| std::env::var_os(name).is_some()) || !can_run(py) {
            return package();
        }
        start_compiling(py).or_else(|_| package())
    }

    /// Whether the interpreter is as `what_is_missing()` of the package wants it.
    fn can_run(_py: Python<'_>) -> bool {
        // SAFETY: attached; a string.
        let has_objects = unsafe { !PySys_GetObject(c"getobjects".as_ptr()).is_null() };
        // SAFETY: attached.
        let magic = unsafe { PyImport_GetMagicNumber() } as u32;
        !cfg!(Py_GIL_DISABLED)
            && !has_objects
            && magic == u32::from_le_bytes(magic_number())
            && version() != 0
            && can_continue()
    }

    fn start_compiling(py: Python<'_>) -> PyResult<()> {
        if entry::ENABLED.load(Ordering::Relaxed) {
            return Ok(());
        }
        record::prepare(py)?;
        entry::prepare(py)?;
        watch::start(py)?;
        entry::ENABLED.store(true, Ordering::Relaxed);
        Ok(())
    }

    /// Stops: functions get their own vectorcall back when they are called next.
    #[pyfunction]
    fn disable() {
        entry::ENABLED.store(false, Ordering::Relaxed);
        watch::stop();
    }

    #[pyfunction]
    fn is_enabled() -> bool {
        entry::ENABLED.load(Ordering::Relaxed)
    }

    /// Has a function compiled when it is called next, however often it was called.
    #[pyfunction]
    fn request(function: &Bound<'_, PyFunction>) -> PyResult<()> {
        watch::request(function)
    }

    /// What is known of a code object.
    #[pyfunction]
    fn facts<'py>(code: &Bound<'py, PyCode>) -> PyResult<Bound<'py, PyDict>> {
        watch::examine_known(code)?;
        seen::facts(code)
    }

    /// For each version of a function, its IR and its machine code.
    #[pyfunction]
    fn dump(function: &Bound<'_, PyFunction>) -> PyResult<Vec<String>> {
        seen::dump(function)
    }

    /// Keeps all code objects that the hook is called for from now on.
    #[pyfunction]
    fn start_collecting() {
        seen::start_collecting();
    }

    /// The code objects that were kept.
    #[pyfunction]
    fn collected(py: Python<'_>) -> Vec<Py<PyCode>> {
        seen::collected(py)
    }

    /// Attempts to compile, those that failed, and the seconds that they took.
    #[pyfunction]
    fn totals() -> (u64, u64, f64) {
        tally::totals()
    }

    /// Whether code that is compiled from now on is named for perf, and for debuggers.
    #[pyfunction]
    fn name_code(perf: bool, debuggers: bool) {
        symbols::FOR_PERF.store(perf, Ordering::Relaxed);
        symbols::FOR_DEBUGGERS.store(debuggers, Ordering::Relaxed);
    }

    /// Gives a forked child a map of its own for perf.
    #[pyfunction]
    fn after_fork() {
        symbols::after_fork();
    }

    /// Bytes that are mapped for machine code.
    #[pyfunction]
    fn mapped() -> usize {
        memory::mapped()
    }
}
