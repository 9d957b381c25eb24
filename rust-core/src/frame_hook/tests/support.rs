//! Hooks that are closures, and calls that go the way of the eval loop.

use crate::cpython as c;
use crate::cpython::{_PyInterpreterFrame, PyThreadState};
use crate::cpython::{PyCodeObject, PyFunctionObject, PyInterpreterState, PyObject};
use crate::eval_frame::{_PyInterpreterState_SetEvalFrameFunc, _PyRust_EvalFrame};
use crate::fake_cpython::code::Function;
use crate::fake_cpython::objects::{decref, incref, name_of};
use crate::fake_cpython::threads::PyThreadState_Get;
use crate::fake_cpython::{code, exceptions, frames, memory, values, World};
use crate::frame::Frame;
use crate::frame_hook::c_api::frames::*;
use crate::frame_hook::c_api::hooks::*;
use crate::frame_hook::c_types::*;
use crate::frame_hook::dispatch_state::*;
use crate::frame_hook::eval_loop::*;
use crate::frame_hook::return_shim::{_PyRust_ReturnToShim, Ahead, HERE};
use crate::frame_hook::shim_code;
use crate::frame_hook::state::levels;
use crate::frame_hook::watch::memory::free_unused;
use crate::frame_hook::{disabled, registry, suspended};
use crate::in_cpython::Listening;
use crate::object::Owned;
use crate::thread::Thread;
use std::cell::{Cell, RefCell};
use std::ffi::{c_int, c_longlong, c_uint, c_void, CString};
use std::ptr::null_mut;
use std::rc::Rc;

// --- The engine. ---

/// An interpreter with an engine; both end with it, and nothing may be left over.
pub struct Engine {
    _world: World,
}

impl Engine {
    pub fn start() -> Self {
        Engine { _world: World::new() }
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        if std::thread::panicking() {
            return;
        }
        memory::allow(None);
        assert_eq!(levels(thread()), (0, 0), "a dispatch is left over");
        registry::close(thread());
        suspended::forget(thread());
        // SAFETY: the thread's own, and it ends. Fields of the state, which nothing else uses.
        let fields = unsafe {
            free_unused(thread().its_state());
            disabled::free(thread().its_state());
            let state = thread().state();
            [&raw mut (*state).incompatible, &raw mut (*state).watched_type]
        };
        for field in fields {
            // SAFETY: NULL, or the field's reference.
            drop(unsafe { Owned::new(field.replace(null_mut())) });
        }
    }
}

pub fn thread() -> Thread {
    // SAFETY: a test's thread is always attached.
    unsafe { Thread::current() }
}

pub fn interpreter() -> *mut PyInterpreterState {
    thread().interpreter()
}

pub fn current_frame() -> *mut _PyInterpreterFrame {
    // SAFETY: the thread's own state.
    unsafe { (*PyThreadState_Get()).current_frame }
}

/// A status of the C interface, with the exception that goes with it.
pub fn outcome(status: c_int) -> Result<(), String> {
    match (status, exceptions::taken()) {
        (0, None) => Ok(()),
        (-1, Some(exception)) => Err(exception),
        other => panic!("status and exception do not go together: {other:?}"),
    }
}

// --- Hooks. ---

/// What a hook answers.
#[derive(Clone, Copy)]
pub enum Reply {
    Pass,
    Disable,
    /// That code is to run. The hook gives a new reference away.
    Run(*mut PyCodeObject),
    /// As `Run`, with something that may be no code.
    RunObject(*mut PyObject),
    /// A `ValueError` with that text.
    Raise(&'static str),
    /// Any verdict, and any object, of which a new reference is given away.
    Raw(c_int, *mut PyObject),
}

/// The frame that a hook is called for.
#[derive(Clone, Copy)]
pub struct EntryFrame(pub *mut _PyInterpreterFrame);

/// What an object that the C interface has made is called, or the exception.
fn described(object: *mut PyObject) -> Result<String, String> {
    if object.is_null() {
        return Err(exceptions::taken().expect("an exception"));
    }
    let name = name_of(object);
    // SAFETY: ours.
    unsafe { decref(object) };
    Ok(name)
}

// SAFETY of all: a frame that this thread dispatches, and that is there.
impl EntryFrame {
    pub fn code(self) -> Result<String, String> {
        // SAFETY: above.
        described(unsafe { PyUnstable_FrameHook_GetCode(self.0) })
    }

    pub fn count(self) -> isize {
        // SAFETY: above.
        unsafe { PyUnstable_FrameHook_GetArgumentCount(self.0) }
    }

    pub fn argument(self, index: isize) -> Result<String, String> {
        // SAFETY: above.
        described(unsafe { PyUnstable_FrameHook_GetArgument(self.0, index) })
    }

    pub fn argument_name(self, index: isize) -> Result<String, String> {
        // SAFETY: above.
        described(unsafe { PyUnstable_FrameHook_GetArgumentName(self.0, index) })
    }

    pub fn argument_by(self, name: *mut PyObject) -> Result<String, String> {
        // SAFETY: above; a live object.
        described(unsafe { PyUnstable_FrameHook_GetArgumentByName(self.0, name) })
    }

    pub fn argument_named(self, name: &str) -> Result<String, String> {
        let name = Own(values::text(name));
        self.argument_by(name.0)
    }

    /// Names and values of all parameters, such as "a=one b=two".
    pub fn arguments(self) -> String {
        let each = (0..self.count()).map(|index| {
            let (name, value) = (self.argument_name(index), self.argument(index));
            format!("{}={}", name.expect("a name"), value.expect("a value"))
        });
        each.collect::<Vec<_>>().join(" ")
    }
}

type OnEntry = Rc<dyn Fn(EntryFrame) -> Reply>;

/// What a hook's user data points to.
struct UserData {
    /// `None` once the data was freed.
    on_entry: RefCell<Option<OnEntry>>,
    freed: Cell<usize>,
    at_the_end: RefCell<Option<Box<dyn FnOnce()>>>,
}

unsafe extern "C" fn on_entry(
    frame: *mut _PyInterpreterFrame,
    data: *mut c_void,
    answer: *mut FrameHookAnswer,
) -> c_int {
    // SAFETY: the data of a hook that is installed, or was when the dispatch began.
    let on_entry = unsafe { (*data.cast::<UserData>()).on_entry.borrow().clone() };
    let reply = on_entry.expect("a hook whose data was freed is called")(EntryFrame(frame));
    let (verdict, object) = match reply {
        Reply::Pass => (FRAMEHOOK_PASS, null_mut()),
        Reply::Disable => (FRAMEHOOK_DISABLE, null_mut()),
        Reply::Run(code) => (FRAMEHOOK_REPLACE, code.cast()),
        Reply::RunObject(object) => (FRAMEHOOK_REPLACE, object),
        Reply::Raise(text) => {
            exceptions::raise_value_error(text);
            (FRAMEHOOK_ERROR, null_mut())
        }
        Reply::Raw(verdict, object) => (verdict, object),
    };
    if !object.is_null() {
        // SAFETY: alive; the dispatch's answer.
        unsafe {
            incref(object);
            (*answer).object = object;
        }
    }
    verdict
}

unsafe extern "C" fn free(data: *mut c_void) {
    // SAFETY: the data of a hook, whose memory stays until its test has seen how often it was
    // freed.
    let data = unsafe { &*data.cast::<UserData>() };
    data.freed.set(data.freed.get() + 1);
    drop(data.on_entry.take());
    if let Some(work) = data.at_the_end.take() {
        work();
    }
}

/// A hook that was added.
pub struct Added {
    pub id: c_longlong,
    data: *mut UserData,
}

impl Added {
    /// How often its user data was freed.
    pub fn freed(&self) -> usize {
        // SAFETY: stays until this goes.
        unsafe { (*self.data).freed.get() }
    }

    /// Has that done when the user data is freed.
    pub fn at_the_end(&self, work: impl FnOnce() + 'static) {
        // SAFETY: stays until this goes.
        unsafe { (*self.data).at_the_end.replace(Some(Box::new(work))) };
    }

    pub fn data(&self) -> *mut c_void {
        self.data.cast()
    }

    /// Adds a hook with the same function and the same data.
    pub fn add_again(&self) -> Result<c_longlong, String> {
        add_with(c"again".as_ptr(), self.data.cast(), 0)
    }
}

/// User data whose memory is freed with its test, and not with the hook.
#[derive(Default)]
struct Kept(RefCell<Vec<*mut UserData>>);

impl Drop for Kept {
    fn drop(&mut self) {
        for data in self.0.take() {
            // SAFETY: made by `new_data`; the test is over.
            let data = unsafe { Box::from_raw(data) };
            // What a test that has failed did not free may refer to what is gone.
            std::mem::forget((data.on_entry.take(), data.at_the_end.take()));
        }
    }
}

thread_local! {
    static KEPT: Kept = Kept::default();
}

fn new_data(on_entry: impl Fn(EntryFrame) -> Reply + 'static) -> *mut UserData {
    let data = Box::into_raw(Box::new(UserData {
        on_entry: RefCell::new(Some(Rc::new(on_entry))),
        freed: Cell::new(0),
        at_the_end: RefCell::new(None),
    }));
    KEPT.with(|kept| kept.0.borrow_mut().push(data));
    data
}

fn add_with(
    name: *const std::ffi::c_char,
    data: *mut c_void,
    flags: c_uint,
) -> Result<c_longlong, String> {
    let definition = FrameHookDefinition {
        name,
        on_entry: Some(on_entry),
        user_data: data,
        free_user_data: Some(free),
        flags,
        ..definition()
    };
    // SAFETY: attached; a string or NULL, and data as the functions want it.
    let id = unsafe { PyUnstable_FrameHook_Install(&raw const definition) };
    outcome(if id > 0 { 0 } else { id as c_int }).map(|()| id)
}

/// A definition of which only the size is set.
pub fn definition() -> FrameHookDefinition {
    // SAFETY: zeros are valid for each field.
    let zeros: FrameHookDefinition = unsafe { std::mem::zeroed() };
    FrameHookDefinition { size: size_of::<FrameHookDefinition>(), ..zeros }
}

/// Adds a hook.
pub fn try_add(on_entry: impl Fn(EntryFrame) -> Reply + 'static) -> Result<Added, String> {
    try_add_as("test", 0, on_entry)
}

pub fn try_add_as(
    name: &str,
    flags: c_uint,
    on_entry: impl Fn(EntryFrame) -> Reply + 'static,
) -> Result<Added, String> {
    let name = CString::new(name).expect("a name");
    let data = new_data(on_entry);
    match add_with(name.as_ptr(), data.cast(), flags) {
        Ok(id) => Ok(Added { id, data }),
        Err(exception) => {
            // SAFETY: stays until the test is over.
            unsafe {
                assert_eq!((*data).freed.get(), 0, "data is freed that the caller keeps");
                drop((*data).on_entry.take());
            }
            Err(exception)
        }
    }
}

pub fn add(on_entry: impl Fn(EntryFrame) -> Reply + 'static) -> Added {
    try_add(on_entry).expect("a hook")
}

pub fn remove(id: c_longlong) -> Result<(), String> {
    // SAFETY: attached.
    outcome(unsafe { PyUnstable_FrameHook_Remove(id) })
}

pub fn clear() {
    // SAFETY: attached.
    assert_eq!(outcome(unsafe { PyUnstable_FrameHook_Clear() }), Ok(()));
}

pub fn enable(id: c_longlong, on: bool) -> Result<(), String> {
    // SAFETY: attached.
    outcome(unsafe {
        if on {
            PyUnstable_FrameHook_Enable(id)
        } else {
            PyUnstable_FrameHook_Disable(id)
        }
    })
}

pub fn enable_in_thread(id: c_longlong, on: bool) -> Result<(), String> {
    // SAFETY: attached.
    outcome(unsafe {
        if on {
            PyUnstable_FrameHook_EnableInThread(id)
        } else {
            PyUnstable_FrameHook_DisableInThread(id)
        }
    })
}

pub fn enable_for_code(id: c_longlong, code: *mut PyCodeObject, on: bool) -> Result<(), String> {
    // SAFETY: attached; a live object.
    outcome(unsafe {
        if on {
            PyUnstable_FrameHook_EnableForCode(id, code.cast())
        } else {
            PyUnstable_FrameHook_DisableForCode(id, code.cast())
        }
    })
}

/// Notes of hooks.
#[derive(Clone, Default)]
pub struct Log(Rc<RefCell<Vec<String>>>);

impl Log {
    pub fn note(&self, text: &str) {
        self.0.borrow_mut().push(text.to_string());
    }

    /// All notes since the last call of this, with spaces between them.
    pub fn read(&self) -> String {
        self.0.take().join(" ")
    }

    /// Adds a hook that writes its name down and answers that.
    pub fn add(&self, name: &'static str, reply: Reply) -> Added {
        let log = self.clone();
        add(move |_| {
            log.note(name);
            reply
        })
    }
}

// --- Functions and calls. ---

/// A reference of a test's own.
pub struct Own<T>(pub *mut T);

impl<T> Drop for Own<T> {
    fn drop(&mut self) {
        // SAFETY: as the type says.
        unsafe { decref(self.0.cast()) };
    }
}

/// A function of Python with its code.
pub struct Defined {
    pub function: Own<PyFunctionObject>,
    pub code: *mut PyCodeObject,
}

/// A function with those parameters.
pub fn with_parameters(positional: &str) -> Function<'_> {
    Function { positional, ..Function::PLAIN }
}

fn texts(text: &str) -> Vec<*mut PyObject> {
    text.split_whitespace().map(values::text).collect()
}

/// Makes a function of it. Its closure's cells hold those texts.
pub fn define(function: Function, closure: &str) -> Defined {
    let code = Own(function.code());
    Defined { function: Own(frames::function(code.0, &texts(closure))), code: code.0 }
}

/// A frame in which a call continues after its dispatch.
#[derive(Debug, PartialEq)]
pub struct Ran {
    /// The name of its code.
    pub code: String,
    /// What its slots hold: "-" for nothing, "[x]" for a cell with x.
    pub slots: String,
    /// The outcome of each of its dispatches.
    pub answers: Vec<Became>,
}

/// What the slots of a frame hold, as `Ran` has it.
pub fn slots_of(frame: *mut _PyInterpreterFrame) -> String {
    let name = |object: *mut PyObject| {
        if object.is_null() {
            "-".to_string()
        } else {
            name_of(object)
        }
    };
    // SAFETY: a live frame at rest.
    let count = unsafe { (*frame).stacktop } as usize;
    let each = (0..count).map(|number| {
        // SAFETY: one of its slots, and what is in it.
        unsafe {
            let value = frames::slot(frame, number).read();
            if !value.is_null() && (*value).ob_type == &raw mut c::PyCell_Type {
                format!("[{}]", name(values::content_of_cell(value)))
            } else {
                name(value)
            }
        }
    });
    each.collect::<Vec<_>>().join(" ")
}

/// What `look` finds of each frame whose call ends from now on, before the frame is cleared.
pub fn at_end<T: 'static>(
    look: impl Fn(*mut _PyInterpreterFrame) -> T + 'static,
) -> Rc<RefCell<Vec<T>>> {
    let found = Rc::new(RefCell::new(Vec::new()));
    let into = found.clone();
    frames::at_end(move |frame| into.borrow_mut().push(look(frame)));
    found
}

/// The outcome of a dispatch.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Became {
    /// `RESUME` may be specialized.
    Disabled,
    /// The next frame of its code is dispatched too.
    StaysEnabled,
    /// Another frame is the thread's current one, and starts.
    Replaced,
    /// The frame is gone, and the value of its call is on the stack of the frame below, which may
    /// be a shim.
    Answered,
    /// The frame is gone, and an exception is set.
    Failed,
}

/// Whether a frame is a return shim.
pub fn is_return_shim(frame: *mut _PyInterpreterFrame) -> bool {
    // SAFETY: a frame of this thread.
    shim_code::is_return_shim(unsafe { Frame::new(frame) })
}

/// The thread's current frame continues so far ahead of its `instr_ptr`.
pub fn advance(ahead: Ahead) {
    if ahead != HERE {
        let frame = current_frame();
        // SAFETY: the thread's current frame, which is at an instruction of its code.
        unsafe { (*frame).instr_ptr = (*frame).instr_ptr.add(ahead as usize) };
    }
}

/// What the eval loop does when a frame was left to a return shim.
pub fn return_to_shim() {
    // SAFETY: the thread's own state, whose current frame is a shim.
    advance(unsafe { _PyRust_ReturnToShim(PyThreadState_Get()) });
}

/// Dispatches the thread's current frame, as `RESUME` does: not if there is nothing to do about hooks.
pub fn dispatch() -> Became {
    // SAFETY: a field of the thread's own.
    match unsafe { (*thread().own()).listening } {
        Listening::Nowhere => return Became::Disabled,
        Listening::Elsewhere => return Became::StaysEnabled,
        Listening::Here => {}
    }
    let frame = current_frame();
    // SAFETY: the thread's own state, and its current frame, which has been called.
    let (below, DispatchResult { next, ahead }) =
        unsafe { ((*frame).previous, _PyRust_DispatchFrameHooks(PyThreadState_Get(), frame)) };
    advance(ahead);
    match next {
        NextStep::Specialize => Became::Disabled,
        NextStep::KeepUnspecialized => Became::StaysEnabled,
        NextStep::CurrentFrame if exceptions::is_set() => Became::Failed,
        NextStep::CurrentFrame if current_frame() == below || is_return_shim(current_frame()) => {
            Became::Answered
        }
        NextStep::CurrentFrame => Became::Replaced,
    }
}

/// Runs the current frame as the eval loop does, until it is to continue; then it returns.
fn run_current(mut answers: Vec<Became>) -> Result<Ran, String> {
    loop {
        assert!(answers.len() < 3, "the frame is dispatched again and again");
        answers.push(dispatch());
        match answers.last() {
            Some(Became::Failed) => return Err(exceptions::taken().expect("an exception")),
            Some(Became::Replaced) => frames::run_prologue(current_frame()),
            _ => break,
        }
    }
    let frame = current_frame();
    // SAFETY: live, with code.
    let code = unsafe { (*frame).f_executable };
    let ran = Ran { code: name_of(code), slots: slots_of(frame), answers };
    frames::end_current();
    Ok(ran)
}

impl Defined {
    /// A new frame of a call with those texts as arguments, one for each parameter. It is not
    /// linked.
    pub fn push(&self, arguments: &str) -> *mut _PyInterpreterFrame {
        // SAFETY: alive.
        unsafe { incref(self.function.0.cast()) };
        frames::push(self.function.0, &texts(arguments))
    }

    /// A call that has come to its `RESUME`, or to its `RETURN_GENERATOR`.
    pub fn start(&self, arguments: &str) -> *mut _PyInterpreterFrame {
        let frame = self.push(arguments);
        frames::link(frame);
        frames::run_prologue(frame);
        frame
    }

    /// A whole call.
    pub fn call(&self, arguments: &str) -> Result<Ran, String> {
        self.start(arguments);
        run_current(Vec::new())
    }

    /// A whole call where the interpreter has an evaluator.
    pub fn call_by_evaluator(&self, arguments: &str) -> Result<Ran, String> {
        self.call_by_evaluator_that(arguments, || {})
    }

    /// The same, with an evaluator that does something before it runs the frame.
    pub fn call_by_evaluator_that(
        &self,
        arguments: &str,
        work: impl FnOnce() + 'static,
    ) -> Result<Ran, String> {
        WORK.set(Some(Box::new(work)));
        let frame = self.push(arguments);
        // SAFETY: attached, and a frame that is ready to run; it is handed over.
        let result = unsafe {
            _PyInterpreterState_SetEvalFrameFunc(interpreter(), Some(evaluator));
            let result = _PyRust_EvalFrame(PyThreadState_Get(), frame, 0);
            _PyInterpreterState_SetEvalFrameFunc(interpreter(), None);
            result
        };
        match (RAN.take(), result.is_null()) {
            (Some(ran), false) => ran,
            (None, true) => Err(exceptions::taken().expect("an exception")),
            _ => panic!("the evaluator was called, and has not returned"),
        }
    }
}

thread_local! {
    static WORK: RefCell<Option<Box<dyn FnOnce()>>> = const { RefCell::new(None) };
    static RAN: RefCell<Option<Result<Ran, String>>> = const { RefCell::new(None) };
}

unsafe extern "C" fn evaluator(
    _tstate: *mut PyThreadState,
    frame: *mut _PyInterpreterFrame,
    _throwflag: c_int,
) -> *mut PyObject {
    if let Some(work) = WORK.take() {
        work();
    }
    // SAFETY: a frame that was handed over.
    unsafe { (*frame).previous = current_frame() };
    frames::link(frame);
    frames::run_prologue(frame);
    RAN.set(Some(run_current(Vec::new())));
    std::ptr::without_provenance_mut(2)
}

/// The instruction of a frame, counted from its code's first one.
pub fn position(frame: *mut _PyInterpreterFrame) -> isize {
    // SAFETY: a live frame with code.
    unsafe {
        let first = code::instruction((*frame).f_executable.cast(), 0);
        ((*frame).instr_ptr as isize - first as isize) / size_of::<c::_Py_CODEUNIT>() as isize
    }
}

/// Exchanges the fields of the thread state that greenlets have of their own for those of another greenlet.
pub fn swap_stacks(fields: &mut [*mut c_void; 4]) {
    let [frame, chunk, top, limit] = fields;
    // SAFETY: the thread's own state.
    unsafe {
        let state = PyThreadState_Get();
        std::ptr::swap(&raw mut (*state).current_frame, (&raw mut *frame).cast());
        std::ptr::swap(&raw mut (*state).datastack_chunk, (&raw mut *chunk).cast());
        std::ptr::swap(&raw mut (*state).datastack_top, (&raw mut *top).cast());
        std::ptr::swap(&raw mut (*state).datastack_limit, (&raw mut *limit).cast());
    }
}
