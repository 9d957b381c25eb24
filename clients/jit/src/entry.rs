//! The vectorcall of compiled functions: from objects to machine words, and back.

use crate::bind::gather;
use crate::compile::compile;
use crate::compiled::Compiled;
use crate::context::{Context, Outcome, LEFT};
use crate::continuation::Continuation;
use crate::depend::{observers, unobserved};
use crate::exit;
use crate::instances;
use crate::kind::{Kind, FLOAT, INT};
use crate::lower::MOST_ARGUMENTS;
use crate::parts;
use crate::python::{int_value, CodeObject, PyFunction_SetVectorcall, ThreadState, PENDING};
use crate::record::{self, count, Observers, Record};
use crate::slot::Cause;
use crate::stack;
use crate::unbox::{fits, unbox_one};
use framehook::raw::Api;
use pyo3::ffi::{self, PyFunctionObject, PyObject};
use pyo3::prelude::*;
use pyo3::types::{PyCode, PyDict, PyFunction, PyWeakrefMethods, PyWeakrefReference};
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicUsize, Ordering};

/// How many versions of a function there are at most.
const MOST_VERSIONS: usize = 2;
/// How often dependencies of a function may change before it is given back.
pub const MOST_CHANGES: u32 = 4;
/// After so many observed calls in succession a function is left to the interpreter, whose calls of it are specialized again.
const MOST_OBSERVED: u32 = 512;
/// After so many entries a function is judged: by how often it was left.
const JUDGED: u64 = 64;

/// Whether compiled code is entered at all.
pub static ENABLED: AtomicBool = AtomicBool::new(false);
/// The id of this crate's hook, or 0.
pub static HOOK: AtomicI64 = AtomicI64::new(0);
/// Every Python function's vectorcall, as the interpreter has set it.
static ORIGINAL: AtomicUsize = AtomicUsize::new(0);

type Vectorcall = unsafe extern "C" fn(
    *mut PyObject,
    *const *mut PyObject,
    usize,
    *mut PyObject,
) -> *mut PyObject;

/// Gives a function the vectorcall of compiled functions. `record` is that of its code.
pub fn take(function: &Bound<'_, pyo3::types::PyFunction>, record: &Record) {
    if record.in_part.get() {
        return;
    }
    if record.observers.get().0.is_null() {
        let Ok(word) = observers(&parts::code_of(function)) else { return };
        record.observers.set(Observers(word));
    }
    let raw = function.as_ptr().cast::<PyFunctionObject>();
    // SAFETY: a function, which is alive; its vectorcall is never NULL.
    let own = unsafe { (*raw).vectorcall }.map_or(0, |own| own as usize);
    if own == enter as *const () as usize {
        return;
    }
    // All functions share one vectorcall. A function with another one is left alone.
    let known = ORIGINAL.load(Ordering::Relaxed);
    if own == known {
        // SAFETY: attached; `enter` does all that the original does.
        unsafe { PyFunction_SetVectorcall(raw, enter) };
    }
}

/// Has the hook not called for a code object any more: it would observe its calls.
pub fn ignore(code: &Bound<'_, PyCode>, record: &Record) {
    record.counted.set(false);
    if let Ok(api) = Api::get() {
        let disable = api.PyUnstable_FrameHook_DisableForCode;
        // SAFETY: attached; any id is allowed, and a code object. A failure leaves the hook as it is.
        if unsafe { disable(HOOK.load(Ordering::Relaxed), code.as_ptr()) } < 0 {
            drop(PyErr::take(code.py()));
        }
    }
}

/// Has loops of a code object reported after so many turns, while the hook is installed.
pub fn watch_loops(code: &Bound<'_, PyCode>, turns: u16) -> PyResult<()> {
    let watch = Api::get()?.PyUnstable_FrameHook_WatchLoops;
    let hook = HOOK.load(Ordering::Relaxed);
    // SAFETY: attached, as the binding says; any id is allowed.
    if hook != 0 && unsafe { watch(hook, code.as_ptr(), turns.into()) } < 0 {
        return Err(PyErr::fetch(code.py()));
    }
    Record::of(code)?.watched.set(hook);
    Ok(())
}

/// Does not have loops of a code object reported any more, nor its observers.
pub fn unwatch(code: &Bound<'_, PyCode>, record: &Record) -> PyResult<()> {
    let unwatch = Api::get()?.PyUnstable_FrameHook_UnwatchLoops;
    // SAFETY: attached, as the binding says; any id is allowed.
    if unsafe { unwatch(HOOK.load(Ordering::Relaxed), code.as_ptr()) } < 0 {
        return Err(PyErr::fetch(code.py()));
    }
    record.watched.set(0);
    Ok(())
}

/// The thread's `eval_breaker` now.
fn eval_breaker() -> usize {
    // SAFETY: called in attached threads, whose state stays; signal handlers and other threads set flags of the word meanwhile.
    unsafe {
        let thread = ffi::PyThreadState_GetUnchecked().cast::<ThreadState>();
        std::ptr::addr_of!((*thread).eval_breaker).read_volatile()
    }
}

/// Whether the code was called since a tool or a hook has come or gone.
pub fn is_up_to_date(code: &Bound<'_, PyCode>) -> bool {
    // SAFETY: a code object of *layouts*, whose fields only attached threads write.
    let version = unsafe { (*code.as_ptr().cast::<CodeObject>()).instrumented_for };
    version == eval_breaker() & !PENDING
}

/// Leaves functions to the interpreter until the observers of their code have changed: its loops, which are watched, are counted anew
/// then, and for code without loops the hook is called again. Whether that could be arranged.
pub fn rest(code: &Bound<'_, PyCode>, record: &Record) -> bool {
    let hook = HOOK.load(Ordering::Relaxed);
    if hook == 0 {
        return false;
    }
    if record.watched.get() != hook {
        if watch_loops(code, u16::MAX).is_err() {
            return false;
        }
        record.watched_for_rest.set(true);
    }
    record.rests.set(true);
    true
}

/// Nothing observes the code any more: takes the functions that rest.
pub fn wake(code: &Bound<'_, PyCode>, record: &Record) {
    record.rests.set(false);
    record.observed.set(0);
    if record.watched_for_rest.take() {
        // Or the hook would be called, and so observe the code, at each later change.
        drop(unwatch(code, record));
    }
    let resting = record.resting.take();
    let alive = resting.iter().filter_map(|known| known.bind(code.py()).upgrade());
    for function in alive.filter_map(|function| function.cast_into_exact::<PyFunction>().ok()) {
        if parts::code_of(&function).is(code) {
            take(&function, record);
        }
    }
}

/// Whether signal handlers or other work wait for this thread, which counts as an observer.
pub fn is_work_pending() -> bool {
    eval_breaker() & PENDING != 0
}

/// An observed call. After many the function is left to the interpreter, until its observers have changed.
///
/// # Safety
/// Attached; a function and its code, with its record.
#[cold]
unsafe fn leave_observed(function: *mut PyObject, code: *mut PyObject, record: &Record) {
    if is_work_pending() {
        return; // which hides whether there is a tool
    }
    record.observed.set(record.observed.get() + 1);
    if record.observed.get() <= MOST_OBSERVED && !record.rests.get() {
        return;
    }
    record.observed.set(0);
    // SAFETY: attached, and a code object. PyO3 lets go at once of an error that is dropped.
    unsafe {
        Python::attach_unchecked(|py| {
            let code = Bound::from_borrowed_ptr(py, code).cast_into_unchecked();
            let known = PyWeakrefReference::new(&Bound::from_borrowed_ptr(py, function));
            if let Some(known) = known.ok().filter(|_| rest(&code, record)) {
                record.resting.borrow_mut().push(known.unbind());
                give_back(function);
            }
        });
    }
}

/// Takes over the callees of new code whose calls were counted so far. It is valid, and nothing has run since it was compiled.
pub fn take_callees(py: Python<'_>, compiled: &Compiled) {
    for (code, address) in compiled.dependencies.iter().filter_map(|d| d.callee()) {
        // SAFETY: the dependency holds, so the code object is alive.
        let code: Bound<'_, PyCode> =
            unsafe { Bound::from_borrowed_ptr(py, code as *mut PyObject).cast_into_unchecked() };
        // SAFETY: attached; the code is alive while its record is used.
        let record = unsafe { record::find(code.as_ptr()) };
        let Some(record) = record.filter(|record| record.counted.get()) else { continue };
        ignore(&code, record);
        // What is counted after it was examined calls itself, or has generator expressions; the rest is compiled with its callers alone.
        if let Some(address) = address.filter(|_| record.examined.get() != 0) {
            // SAFETY: a function which the dict has in which it was found.
            let function = unsafe {
                Bound::from_borrowed_ptr(py, address as *mut PyObject).cast_into_unchecked()
            };
            take(&function, record);
        }
    }
}

/// Learns every function's vectorcall from a new one.
pub fn prepare(py: Python<'_>) -> PyResult<()> {
    // SAFETY: attached, and strings that are copied; a code object, or NULL with an exception. A function of it and of a dict, or the same.
    let function = unsafe {
        let code = ffi::PyCode_NewEmpty(c"".as_ptr(), c"".as_ptr(), 0);
        let code = Bound::from_owned_ptr_or_err(py, code.cast())?;
        let made = ffi::PyFunction_New(code.as_ptr(), PyDict::new(py).as_ptr());
        Bound::from_owned_ptr_or_err(py, made)?
    };
    let raw = function.as_ptr().cast::<PyFunctionObject>();
    // SAFETY: what was made is a function.
    let own = unsafe { (*raw).vectorcall }.map_or(0, |own| own as usize);
    ORIGINAL.store(own, Ordering::Relaxed);
    parts::names(py);
    instances::prepare(py)?;
    py.get_type::<Continuation>();
    stack::prepare(py);
    Ok(())
}

/// Calls the function as CPython does.
///
/// # Safety
/// As for a vectorcall.
unsafe fn interpret(
    function: *mut PyObject,
    arguments: *const *mut PyObject,
    flags: usize,
    names: *mut PyObject,
) -> *mut PyObject {
    // SAFETY: attached. `function` has this crate's vectorcall, so it is a function. `prepare` has stored the address of a function of
    // this type; the arguments are the caller's.
    unsafe {
        if stack::is_deep(ffi::PyThreadState_GetUnchecked().cast()) {
            give_back(function);
        }
        let original = std::mem::transmute::<usize, Vectorcall>(ORIGINAL.load(Ordering::Relaxed));
        original(function, arguments, flags, names)
    }
}

/// # Safety
/// A function, and the thread is attached.
unsafe fn give_back(function: *mut PyObject) {
    if let Ok(api) = Api::get() {
        // SAFETY: by contract. Of a function it does not fail.
        unsafe { (api.PyUnstable_Function_RestoreVectorcall)(function) };
    }
}

/// The vectorcall.
///
/// # Safety
/// As for every vectorcall: the thread is attached, the arguments are borrowed until it returns.
unsafe extern "C" fn enter(
    function: *mut PyObject,
    arguments: *const *mut PyObject,
    flags: usize,
    names: *mut PyObject,
) -> *mut PyObject {
    // SAFETY: only functions have this vectorcall.
    let code = unsafe { (*function.cast::<PyFunctionObject>()).func_code };
    // SAFETY: attached; the record is used as long as the code is kept, below, or nothing else is run.
    let Some(record) = (unsafe { record::find(code) }) else {
        // SAFETY: as this function is called. The code was assigned.
        return unsafe {
            give_back(function);
            interpret(function, arguments, flags, names)
        };
    };
    // Without a word to compare, the code was assigned to a function that had other code.
    let observers = record.observers.get().0;
    let refused = record.given_back.get() || record.in_part.get();
    if refused || !ENABLED.load(Ordering::Relaxed) || observers.is_null() {
        // SAFETY: as this function is called.
        return unsafe {
            give_back(function);
            interpret(function, arguments, flags, names)
        };
    }
    // SAFETY: attached.
    let thread = unsafe { ffi::PyThreadState_GetUnchecked() }.cast::<ThreadState>();
    // SAFETY: attached, and a function's code object.
    if !unsafe { unobserved(thread, observers, code) } {
        // SAFETY: as this function is called.
        return unsafe {
            leave_observed(function, code, record);
            interpret(function, arguments, flags, names)
        };
    }
    record.observed.set(0);
    let count = flags & !ffi::PY_VECTORCALL_ARGUMENTS_OFFSET;
    let mut gathered = [std::ptr::null_mut(); MOST_ARGUMENTS];
    // SAFETY: a code object of *layouts*; as this function is called. That many arguments are given, or were gathered.
    let given = unsafe {
        let takes = (*code.cast::<CodeObject>()).argument_count;
        let only = (*code.cast::<CodeObject>()).keyword_only;
        if names.is_null() && count == (takes + only) as usize && only == 0 {
            std::slice::from_raw_parts(arguments, count)
        } else {
            match gather(function, code, arguments, count, names, &mut gathered) {
                Some(count) => &gathered[..count],
                None => return interpret(function, arguments, flags, names),
            }
        }
    };
    let mut words = [0u64; MOST_ARGUMENTS];
    let depth = stack::room(thread);
    let found = if depth > 0 {
        // SAFETY: attached; the code is alive, for nothing of the program runs before the next line but one.
        unsafe { choose(function, record, thread, given, &mut words) }
    } else {
        None
    };
    let Some(compiled) = found else {
        // SAFETY: as this function is called.
        return unsafe { interpret(function, arguments, flags, names) };
    };
    // SAFETY: a code object; it keeps the record while foreign code runs.
    unsafe { ffi::Py_INCREF(code) };
    // The caller may have borrowed them from a list that is changed now.
    let kept = if compiled.stores { given } else { &[] };
    // SAFETY: the arguments are alive.
    kept.iter().for_each(|argument| unsafe { ffi::Py_INCREF(*argument) });
    // SAFETY: as above; the words are of the version's kinds, and its dependencies hold.
    let result = unsafe { run(function, record, &compiled, thread, depth, &words) };
    // SAFETY: taken above.
    kept.iter().for_each(|argument| unsafe { ffi::Py_DECREF(*argument) });
    drop(compiled);
    // SAFETY: taken above.
    unsafe { ffi::Py_DECREF(code) };
    result
}

/// A version for these arguments, which are stored into `words`.
///
/// # Safety
/// Attached; `record` is that of the function's code, and the arguments are alive.
unsafe fn choose(
    function: *mut PyObject,
    record: &Record,
    thread: *const ThreadState,
    given: &[*mut PyObject],
    words: &mut [u64; MOST_ARGUMENTS],
) -> Option<Rc<Compiled>> {
    // SAFETY: a function.
    let (globals, builtins) = unsafe {
        let function = &*function.cast::<PyFunctionObject>();
        (function.func_globals as usize, function.func_builtins as usize)
    };
    record.forget_old();
    let mut versions = 0;
    // One by one, without a borrow: a lookup in a dict with odd keys runs code.
    for compiled in (0..).map_while(|index| record.compiled.borrow().get(index).cloned()) {
        if compiled.globals != globals || compiled.builtins != builtins {
            return None;
        }
        if !compiled.is_entered {
            continue;
        }
        // SAFETY: the arguments are alive.
        let fits = unsafe {
            unbox(&compiled.parameters, function, given, words) && fits(function, &compiled.cells)
        };
        if !fits {
            versions += 1;
            continue;
        }
        // SAFETY: attached; the globals and builtins are the function's, which is what the version is for.
        if unsafe { compiled.is_valid() } {
            // SAFETY: it is valid, for the same function and thread.
            return unsafe { compiled.is_unobserved(thread) }.then_some(compiled);
        }
        record.changed.set(record.changed.get() + 1);
    }
    if versions >= MOST_VERSIONS {
        count(&record.missed);
        let hits = record.entered.get();
        if record.missed.get() > 1000 && record.missed.get() > hits / 8 {
            record.refuse("it is called with arguments of too many types".into());
        }
        return None;
    }
    // SAFETY: attached, and the arguments are alive.
    if given.iter().any(|argument| unsafe { is_large(*argument) }) {
        return None; // it would be refused, and other calls may be of smaller ones
    }
    if record.changed.get() > MOST_CHANGES {
        record.refuse("globals that it uses change".into());
        return None;
    }
    // SAFETY: attached, a function, and arguments that are alive.
    unsafe { make(function, record, given) };
    let made = record.compiled.borrow().last().cloned()?;
    // SAFETY: the arguments are alive: compiling has not run code of the program.
    let fits = unsafe { unbox(&made.parameters, function, given, words) };
    // SAFETY: the function's own globals are compared before anything is looked up in them.
    let holds = made.globals == globals && unsafe { made.is_valid() && made.is_unobserved(thread) };
    (fits && holds).then_some(made)
}

/// Whether an object is an int that does not fit into a machine word.
///
/// # Safety
/// The thread is attached, and the object is alive.
unsafe fn is_large(object: *mut PyObject) -> bool {
    // SAFETY: by contract.
    unsafe { ffi::PyLong_CheckExact(object) != 0 && int_value(object).is_none() }
}

/// Compiles for these arguments. What fails is refused for good.
///
/// # Safety
/// Attached; a function, its code's record, and arguments that are alive.
#[cold]
unsafe fn make(function: *mut PyObject, record: &Record, given: &[*mut PyObject]) {
    let attempt = |py: Python<'_>| {
        // SAFETY: the vectorcall's callable, which the caller of it keeps, is a function.
        let function = unsafe { Bound::from_borrowed_ptr(py, function).cast_into_unchecked() };
        // SAFETY: objects that are alive, by contract.
        let kind = |object: &*mut PyObject| unsafe {
            crate::code::kind_of(&Bound::from_borrowed_ptr(py, *object))
        };
        let parameters: Vec<Kind> = given.iter().map(kind).collect();
        let made = compile(&function, record, &parameters, 0);
        made.map(|made| take_callees(py, &made))
    };
    // SAFETY: attached.
    let result =
        unsafe { Python::attach_unchecked(|py| catch_unwind(AssertUnwindSafe(|| attempt(py)))) };
    // SAFETY: attached.
    unsafe { ffi::PyErr_Clear() };
    match result {
        Ok(Ok(())) => {}
        // Its loops may be compiled all the same.
        Ok(Err(why)) if !record.loops.borrow().is_empty() => {
            record.refuse_in_part(record.refused_at.get(), why);
        }
        Ok(Err(why)) => record.refuse(why),
        Err(_) => record.refuse("the compiler has failed".into()),
    }
}

/// Stores the arguments as words of these kinds, and the function behind them; whether they are of them.
///
/// # Safety
/// Attached, and the arguments are alive.
#[inline]
unsafe fn unbox(
    kinds: &[Kind],
    function: *mut PyObject,
    given: &[*mut PyObject],
    words: &mut [u64; MOST_ARGUMENTS],
) -> bool {
    let mut places = words.iter_mut();
    let mut put = |word: u64| {
        if let Some(place) = places.next() {
            *place = word;
        }
    };
    // SAFETY: the caller says that the arguments are alive.
    let fits = kinds.len() == given.len()
        && kinds
            .iter()
            .zip(given)
            .all(|(kind, object)| unsafe { unbox_one(kind, *object, &mut put) });
    put(function as u64);
    fits
}

/// Runs compiled code to its end, or to where it is left, and then the interpreter.
///
/// # Safety
/// Attached; the function's code is alive and has this record; the words are of the version's kinds, and its dependencies hold.
unsafe fn run(
    function: *mut PyObject,
    record: &Record,
    compiled: &Rc<Compiled>,
    thread: *mut ThreadState,
    depth: i64,
    words: &[u64; MOST_ARGUMENTS],
) -> *mut PyObject {
    count(&record.entered);
    let mut context = Context::new(thread);
    // SAFETY: by contract.
    let outcome = unsafe { compiled.run(&mut context, depth, words) };
    if outcome.object != LEFT {
        // SAFETY: attached; an object is one of the arguments or constants, which are alive.
        return unsafe { box_result(compiled, outcome) };
    }
    let cause = judge(record, &context);
    if cause == Some(Cause::Depth) || stack::is_deep(thread) {
        // SAFETY: a function.
        unsafe { give_back(function) };
    }
    // SAFETY: the log is of this entry, whose code `compiled` keeps; the arguments are alive until the vectorcall returns.
    unsafe {
        let result = exit::continue_frames(&mut context, function);
        context.release(); // where the frames could not be made
        result
    }
}

/// The object for a value that compiled code has returned.
///
/// # Safety
/// Attached; the code has returned this, and objects that were passed in are alive.
pub unsafe fn box_result(compiled: &Compiled, outcome: Outcome) -> *mut PyObject {
    let Outcome { object, value } = outcome;
    if object != 0 {
        // SAFETY: an object that was passed in, or a constant: the caller says that it is alive.
        return unsafe { ffi::Py_NewRef(object as *mut PyObject) };
    }
    // SAFETY: the caller says that the thread is attached, which is all that these need.
    unsafe {
        match &compiled.returns {
            Some(INT) => ffi::PyLong_FromLongLong(value as i64),
            Some(FLOAT) => ffi::PyFloat_FromDouble(f64::from_bits(value)),
            Some(Kind::Bool) => ffi::PyBool_FromLong((value != 0).into()),
            Some(kind) if kind.is_reference() => value as usize as *mut PyObject,
            _ => ffi::Py_NewRef(ffi::Py_None()),
        }
    }
}

/// Counts an exit, and refuses a function that is left too often. The context is of an entry whose code is alive.
pub fn judge(record: &Record, context: &Context) -> Option<Cause> {
    // SAFETY: the code that has left is alive: the caller keeps it.
    let exit = unsafe { exit::exit_of(context.log.first()?) }?;
    // SAFETY: as above.
    let own = unsafe { exit::exit_of(context.log.last()?) }?; // of the function that was entered, where a callee was left
    match exit.cause {
        Cause::Poll => count(&record.polled),
        Cause::Guard => {
            count(&record.left);
            *record.places.borrow_mut().entry(own.unit).or_insert(0) += 1;
            let (entered, left) = (record.entered.get(), record.left.get());
            // SAFETY: attached; the code that has left is alive, and so are the objects among its words.
            if left <= JUDGED && unsafe { exit::learn(&context.log) } {
                record.renew.set(true);
            }
            if entered >= JUDGED && left > entered / 4 && !record.in_part.get() {
                record.refuse("it is left for the interpreter too often".into());
            }
        }
        // What was compiled is compiled anew, with what is known of the generator then.
        Cause::Cold if record.changed.get() < MOST_CHANGES => {
            record.changed.set(record.changed.get() + 1);
            record.renew.set(true);
        }
        Cause::Cold | Cause::End | Cause::Depth | Cause::Call | Cause::Repeat | Cause::Return => {}
    }
    Some(exit.cause)
}
