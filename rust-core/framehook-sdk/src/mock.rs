//! A stand-in for CPython and the engine, for the unit tests: objects with a count of
//! references, threads that are attached to interpreters, and hooks that are asked.
//!
//! Everything belongs to the thread that made it, so that each test has a world of
//! its own; types and exceptions' types are shared.

#![allow(non_snake_case)]

use crate::api::{
    AskHook, DestroyCapsule, FreeUserData, InterpreterFrame, InterpreterState, PyObject,
    ThreadState,
};
use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::ffi::{c_char, c_int, c_void, CStr, CString};
use std::ptr::null_mut;
use std::sync::{Mutex, OnceLock};

pub enum Kind {
    None,
    Int(i64),
    Bool(bool),
    Str(CString),
    Dict(Vec<(usize, usize)>),
    /// A type: its name.
    Type(&'static str),
    /// An exception: what it was raised with.
    Exception(usize),
    /// Anything that has attributes.
    Record(Vec<(&'static str, usize)>),
    /// Returns its first argument, or raises ValueError.
    Function,
    Capsule(usize, usize, Option<DestroyCapsule>),
}

pub struct Object {
    pub references: Cell<isize>,
    class: *mut Object,
    pub kind: RefCell<Kind>,
}

pub struct Interpreter {
    pub id: i64,
    dict: Cell<*mut PyObject>,
    hooks: RefCell<Vec<Hook>>,
    next_hook: Cell<i64>,
}

#[derive(Clone, Copy)]
struct Hook {
    id: i64,
    ask: AskHook,
    user_data: *mut c_void,
    free: Option<FreeUserData>,
    enabled: bool,
}

#[derive(Default)]
struct World {
    attached: Cell<Option<&'static Interpreter>>,
    raised: Cell<usize>,
    living: Cell<isize>,
    /// The next call that makes an object fails.
    no_memory: Cell<bool>,
    refuse_hooks: Cell<bool>,
    /// Hooks that are freed when the last `Held` goes: the end of a round.
    held: RefCell<Option<Vec<Hook>>>,
}

thread_local! {
    static WORLD: World = World::default();
}

// --- What tests use. -----------------------------------------------------------

/// Attaches the thread to a new interpreter.
pub fn attach(id: i64) -> &'static Interpreter {
    let interpreter = Box::leak(Box::new(Interpreter {
        id,
        dict: Cell::new(null_mut()),
        hooks: RefCell::default(),
        next_hook: Cell::new(1),
    }));
    attach_to(Some(interpreter));
    interpreter.dict.set(PyDict_New());
    interpreter
}

/// Attaches the thread to that interpreter, or to none.
pub fn attach_to(interpreter: Option<&'static Interpreter>) {
    WORLD.with(|world| world.attached.set(interpreter));
}

impl Interpreter {
    /// What the interpreter's end does: hooks first, its dict later.
    pub fn end(&self) {
        while let Some(hook) = self.hooks.borrow_mut().pop() {
            hook.release();
        }
        Py_DecRef(self.dict.replace(null_mut()));
    }

    pub fn hook_count(&self) -> usize {
        self.hooks.borrow().len()
    }
}

/// The objects of this thread that are alive.
pub fn living() -> isize {
    WORLD.with(|world| world.living.get())
}

/// Whether an exception is set.
pub fn is_raised() -> bool {
    WORLD.with(|world| world.raised.get() != 0)
}

/// Sets an exception of that type.
pub fn raise(name: &'static str, text: &str) {
    let text = string(text);
    PyErr_SetObject(type_named(name), text);
    Py_DecRef(text);
}

/// The type and the text of the exception that is set; clears it.
pub fn raised() -> (&'static str, String) {
    let exception = PyErr_GetRaisedException();
    assert!(!exception.is_null(), "no exception is set");
    let found = match &*object(exception).kind.borrow() {
        Kind::Exception(text) => (class_name(exception), text_of(*text as *mut PyObject)),
        _ => panic!("not an exception"),
    };
    Py_DecRef(exception);
    found
}

pub fn fail_next_allocation() {
    WORLD.with(|world| world.no_memory.set(true));
}

pub fn refuse_hooks(refuse: bool) {
    WORLD.with(|world| world.refuse_hooks.set(refuse));
}

/// As long as this lives, hooks that are removed are not freed, as in a round.
pub struct Held;

pub fn hold_releases() -> Held {
    WORLD.with(|world| *world.held.borrow_mut() = Some(Vec::new()));
    Held
}

impl Drop for Held {
    fn drop(&mut self) {
        let held = WORLD.with(|world| world.held.borrow_mut().take());
        held.into_iter().flatten().for_each(|hook| hook.release());
    }
}

pub fn string(text: &str) -> *mut PyObject {
    new("str", Kind::Str(CString::new(text).expect("without zeros")))
}

/// A code object.
pub fn code(name: &str) -> *mut PyObject {
    let file = string("file.py");
    new(
        "code",
        Kind::Record(vec![
            ("co_name", string(name) as usize),
            ("co_qualname", string(&format!("C.{name}")) as usize),
            ("co_filename", file as usize),
            ("co_firstlineno", PyLong_FromLongLong(7) as usize),
        ]),
    )
}

/// A function with that code; takes the reference.
pub fn function(code: *mut PyObject) -> *mut PyObject {
    new("function", Kind::Record(vec![("__code__", code as usize)]))
}

pub fn callable() -> *mut PyObject {
    new("builtin", Kind::Function)
}

pub fn references(pointer: *mut c_void) -> isize {
    object(pointer.cast()).references.get()
}

/// A frame that is offered to hooks; owns its objects.
pub struct Frame {
    pub code: *mut PyObject,
    pub function: *mut PyObject,
    pub globals: *mut PyObject,
    pub builtins: *mut PyObject,
    pub arguments: Vec<(&'static str, *mut PyObject)>,
}

impl Frame {
    pub fn new(name: &str, arguments: &[(&'static str, i64)]) -> Self {
        let code = code(name);
        Py_IncRef(code);
        let arguments =
            arguments.iter().map(|(name, value)| (*name, PyLong_FromLongLong(*value))).collect();
        Self {
            code,
            function: function(code),
            globals: PyDict_New(),
            builtins: PyDict_New(),
            arguments,
        }
    }
}

impl Drop for Frame {
    fn drop(&mut self) {
        for pointer in [self.code, self.function, self.globals, self.builtins] {
            Py_DecRef(pointer);
        }
        for (_, value) in &self.arguments {
            Py_DecRef(*value);
        }
    }
}

/// What the engine made of the hooks' answers.
#[derive(Debug, PartialEq, Eq)]
pub enum Outcome {
    Unchanged,
    /// The address of the code, whose reference has been given back.
    Replaced(usize),
    /// Not asked any more about this code; hooks are not told from each other here.
    Settled,
    Failed,
}

/// A frame starts: its hooks are asked, and each sees what the one before chose.
pub fn start(frame: &mut Frame) -> Outcome {
    let interpreter = WORLD.with(|world| world.attached.get()).expect("attached");
    let hooks = interpreter.hooks.borrow().clone();
    let _held = hold_releases();
    let mut outcome = Outcome::Unchanged;
    for hook in hooks.iter().filter(|hook| hook.enabled) {
        let mut replacement = null_mut();
        let pointer: *mut Frame = frame;
        // SAFETY: what `install` registered, called as the engine does.
        match unsafe { (hook.ask)(pointer.cast(), hook.user_data, &mut replacement) } {
            0 => assert!(!is_raised()),
            1 => {
                assert!(!is_raised());
                Py_DecRef(std::mem::replace(&mut frame.code, replacement));
                outcome = Outcome::Replaced(replacement as usize);
            }
            2 => outcome = Outcome::Settled,
            -1 => {
                assert!(is_raised());
                return Outcome::Failed;
            }
            other => panic!("verdict {other}"),
        }
    }
    outcome
}

// --- Objects. -------------------------------------------------------------------

fn object<'a>(pointer: *mut PyObject) -> &'a Object {
    assert!(!pointer.is_null());
    // SAFETY: tests pass objects that `new` or `type_named` made, and that are alive.
    let object = unsafe { &*pointer.cast::<Object>() };
    assert!(object.references.get() > 0, "an object that is dead");
    object
}

fn new(class: &'static str, kind: Kind) -> *mut PyObject {
    if WORLD.with(|world| world.no_memory.replace(false)) {
        raise("MemoryError", "mock");
        return null_mut();
    }
    WORLD.with(|world| world.living.set(world.living.get() + 1));
    let class = type_named(class).cast();
    Box::into_raw(Box::new(Object { references: Cell::new(1), class, kind: RefCell::new(kind) }))
        .cast()
}

/// The type of that name; types live for ever.
fn type_named(name: &'static str) -> *mut PyObject {
    static TYPES: OnceLock<Mutex<HashMap<&'static str, usize>>> = OnceLock::new();
    let mut types = TYPES.get_or_init(Mutex::default).lock().expect("no test panics here");
    let address = *types.entry(name).or_insert_with(|| {
        let kind = RefCell::new(Kind::Type(name));
        let references = Cell::new(isize::MAX / 2);
        Box::into_raw(Box::new(Object { references, class: null_mut(), kind })) as usize
    });
    address as *mut PyObject
}

/// Where a variable of this name holds the type.
fn variable_named(name: &'static str) -> *mut c_void {
    static VARIABLES: OnceLock<Mutex<HashMap<&'static str, usize>>> = OnceLock::new();
    let mut variables = VARIABLES.get_or_init(Mutex::default).lock().expect("no test panics here");
    let address = *variables
        .entry(name)
        .or_insert_with(|| Box::into_raw(Box::new(type_named(name))) as usize);
    address as *mut c_void
}

fn class_name(pointer: *mut PyObject) -> &'static str {
    match &*object(object(pointer).class.cast()).kind.borrow() {
        Kind::Type(name) => name,
        _ => panic!("a class is a type"),
    }
}

fn is_type(pointer: *mut PyObject) -> bool {
    matches!(&*object(pointer).kind.borrow(), Kind::Type(_))
}

pub fn text_of(pointer: *mut PyObject) -> String {
    match &*object(pointer).kind.borrow() {
        Kind::Str(text) => text.to_str().expect("UTF-8").to_owned(),
        _ => panic!("not a str"),
    }
}

fn wrong_type() {
    raise("TypeError", "mock");
}

// --- CPython's functions. -------------------------------------------------------

pub extern "C" fn Py_IncRef(pointer: *mut PyObject) {
    // Types are shared between threads, and live for ever.
    if !pointer.is_null() && !is_type(pointer) {
        let references = &object(pointer).references;
        references.set(references.get() + 1);
    }
}

pub extern "C" fn Py_DecRef(pointer: *mut PyObject) {
    if pointer.is_null() || is_type(pointer) {
        return;
    }
    let references = &object(pointer).references;
    if references.get() > 1 {
        references.set(references.get() - 1);
        return;
    }
    if let Kind::Capsule(_, _, Some(destroy)) = *object(pointer).kind.borrow() {
        // SAFETY: a capsule that is about to be freed.
        unsafe { destroy(pointer) };
    }
    WORLD.with(|world| world.living.set(world.living.get() - 1));
    // SAFETY: `new` made it from a box, and this was the last reference.
    let object = unsafe { Box::from_raw(pointer.cast::<Object>()) };
    match object.kind.into_inner() {
        Kind::Exception(held) => Py_DecRef(held as *mut PyObject),
        Kind::Record(fields) => {
            fields.iter().for_each(|(_, held)| Py_DecRef(*held as *mut PyObject));
        }
        Kind::Dict(items) => items.iter().for_each(|(key, value)| {
            Py_DecRef(*key as *mut PyObject);
            Py_DecRef(*value as *mut PyObject);
        }),
        _ => {}
    }
}

extern "C" fn Py_GetConstant(number: u32) -> *mut PyObject {
    assert_eq!(number, 0);
    new("NoneType", Kind::None)
}

extern "C" fn PyErr_GetRaisedException() -> *mut PyObject {
    WORLD.with(|world| world.raised.replace(0)) as *mut PyObject
}

extern "C" fn PyErr_SetRaisedException(exception: *mut PyObject) {
    Py_DecRef(WORLD.with(|world| world.raised.replace(exception as usize)) as *mut PyObject);
}

extern "C" fn PyErr_SetObject(class: *mut PyObject, value: *mut PyObject) {
    Py_IncRef(value);
    let exception = new("exception", Kind::Exception(value as usize));
    // SAFETY: just made, and nobody else has it.
    unsafe { (*exception.cast::<Object>()).class = class.cast() };
    PyErr_SetRaisedException(exception);
}

extern "C" fn PyErr_GivenExceptionMatches(given: *mut PyObject, class: *mut PyObject) -> c_int {
    let name_of = |pointer| match &*object(pointer).kind.borrow() {
        Kind::Type(name) => *name,
        _ => class_name(pointer),
    };
    let (given, class) = (name_of(given), name_of(class));
    let is_exception = given.ends_with("Error") || given == "KeyboardInterrupt";
    (given == class
        || class == "BaseException" && is_exception
        || class == "Exception" && given.ends_with("Error"))
    .into()
}

extern "C" fn PyObject_Type(pointer: *mut PyObject) -> *mut PyObject {
    let class = object(pointer).class;
    if class.is_null() {
        type_named("type")
    } else {
        class.cast()
    }
}

extern "C" fn PyObject_Str(pointer: *mut PyObject) -> *mut PyObject {
    match &*object(pointer).kind.borrow() {
        Kind::Int(value) => string(&value.to_string()),
        Kind::Str(text) => string(text.to_str().expect("UTF-8")),
        _ => {
            wrong_type();
            null_mut()
        }
    }
}

extern "C" fn PyObject_IsTrue(pointer: *mut PyObject) -> c_int {
    match &*object(pointer).kind.borrow() {
        Kind::Int(value) => (*value != 0).into(),
        Kind::Bool(value) => (*value).into(),
        Kind::None => 0,
        Kind::Function => {
            wrong_type();
            -1
        }
        _ => 1,
    }
}

extern "C" fn PyObject_GetAttr(pointer: *mut PyObject, name: *mut PyObject) -> *mut PyObject {
    let name = text_of(name);
    let found = match &*object(pointer).kind.borrow() {
        Kind::Type(own) if name == "__name__" => return string(own),
        Kind::Type(_) if name == "__basicsize__" => return PyLong_FromLongLong(16),
        Kind::Record(fields) => {
            fields.iter().find(|(key, _)| *key == name).map(|(_, value)| *value)
        }
        _ => None,
    };
    match found {
        Some(value) => {
            Py_IncRef(value as *mut PyObject);
            value as *mut PyObject
        }
        None => {
            raise("AttributeError", &name);
            null_mut()
        }
    }
}

fn dict_place(items: &[(usize, usize)], key: *mut PyObject) -> Option<usize> {
    let key = text_of(key);
    items.iter().position(|(other, _)| text_of(*other as *mut PyObject) == key)
}

extern "C" fn PyObject_GetItem(dict: *mut PyObject, key: *mut PyObject) -> *mut PyObject {
    if let Kind::Dict(items) = &*object(dict).kind.borrow() {
        if let Some(place) = dict_place(items, key) {
            Py_IncRef(items[place].1 as *mut PyObject);
            return items[place].1 as *mut PyObject;
        }
    }
    raise("KeyError", &text_of(key));
    null_mut()
}

extern "C" fn PyObject_SetItem(
    dict: *mut PyObject,
    key: *mut PyObject,
    value: *mut PyObject,
) -> c_int {
    if let Kind::Dict(items) = &mut *object(dict).kind.borrow_mut() {
        Py_IncRef(value);
        match dict_place(items, key) {
            Some(place) => Py_DecRef(std::mem::replace(&mut items[place].1, value as usize) as _),
            None => {
                Py_IncRef(key);
                items.push((key as usize, value as usize));
            }
        }
        return 0;
    }
    wrong_type();
    -1
}

extern "C" fn PyDict_SetDefaultRef(
    dict: *mut PyObject,
    key: *mut PyObject,
    value: *mut PyObject,
    result: *mut *mut PyObject,
) -> c_int {
    let missing = matches!(&*object(dict).kind.borrow(), Kind::Dict(items) if dict_place(items, key).is_none());
    if missing {
        PyObject_SetItem(dict, key, value);
    }
    // SAFETY: the caller gives room for it.
    unsafe { *result = PyObject_GetItem(dict, key) };
    (!missing).into()
}

extern "C" fn PyObject_Vectorcall(
    callable: *mut PyObject,
    arguments: *const *mut PyObject,
    count: usize,
    names: *mut PyObject,
) -> *mut PyObject {
    assert!(names.is_null());
    if !matches!(&*object(callable).kind.borrow(), Kind::Function) || count == 0 {
        raise("ValueError", "no argument");
        return null_mut();
    }
    // SAFETY: there is one at least.
    let first = unsafe { *arguments };
    Py_IncRef(first);
    first
}

extern "C" fn PyUnicode_FromStringAndSize(start: *const c_char, length: isize) -> *mut PyObject {
    // SAFETY: the caller passes text of this length.
    let bytes = unsafe { std::slice::from_raw_parts(start.cast::<u8>(), length as usize) };
    string(std::str::from_utf8(bytes).expect("UTF-8"))
}

extern "C" fn PyUnicode_AsUTF8AndSize(pointer: *mut PyObject, length: *mut isize) -> *const c_char {
    if let Kind::Str(text) = &*object(pointer).kind.borrow() {
        // SAFETY: the caller gives room for it.
        unsafe { *length = text.as_bytes().len() as isize };
        return text.as_ptr();
    }
    wrong_type();
    std::ptr::null()
}

pub extern "C" fn PyLong_FromLongLong(value: i64) -> *mut PyObject {
    new("int", Kind::Int(value))
}

extern "C" fn PyLong_AsLongLong(pointer: *mut PyObject) -> i64 {
    if let Kind::Int(value) = &*object(pointer).kind.borrow() {
        return *value;
    }
    wrong_type();
    -1
}

extern "C" fn PyBool_FromLong(value: std::ffi::c_long) -> *mut PyObject {
    new("bool", Kind::Bool(value != 0))
}

pub extern "C" fn PyDict_New() -> *mut PyObject {
    new("dict", Kind::Dict(Vec::new()))
}

extern "C" fn PyCapsule_New(
    pointer: *mut c_void,
    name: *const c_char,
    destroy: Option<DestroyCapsule>,
) -> *mut PyObject {
    new("PyCapsule", Kind::Capsule(pointer as usize, name as usize, destroy))
}

extern "C" fn PyCapsule_GetPointer(capsule: *mut PyObject, name: *const c_char) -> *mut c_void {
    match *object(capsule).kind.borrow() {
        Kind::Capsule(pointer, own, _) if own == name as usize => pointer as *mut c_void,
        _ => panic!("not a capsule of this name"),
    }
}

extern "C" fn PyCapsule_GetName(capsule: *mut PyObject) -> *const c_char {
    match *object(capsule).kind.borrow() {
        Kind::Capsule(_, name, _) => name as *const c_char,
        _ => panic!("not a capsule"),
    }
}

/// A capsule that somebody else has made, with a name of the same text.
pub fn foreign_capsule() -> *mut PyObject {
    static NAME: [u8; 16] = *b"framehook.value\0";
    PyCapsule_New(8 as *mut c_void, NAME.as_ptr().cast(), None)
}

extern "C" fn PyThreadState_GetUnchecked() -> *mut ThreadState {
    let interpreter = WORLD.with(|world| world.attached.get());
    interpreter.map_or(null_mut(), |state| std::ptr::from_ref(state).cast_mut().cast())
}

extern "C" fn PyThreadState_GetInterpreter(thread: *mut ThreadState) -> *mut InterpreterState {
    thread.cast()
}

fn state<'a>(interpreter: *mut InterpreterState) -> &'a Interpreter {
    // SAFETY: interpreters are leaked, and a thread state is its interpreter here.
    unsafe { &*interpreter.cast::<Interpreter>() }
}

extern "C" fn PyInterpreterState_GetID(interpreter: *mut InterpreterState) -> i64 {
    state(interpreter).id
}

extern "C" fn PyInterpreterState_GetDict(interpreter: *mut InterpreterState) -> *mut PyObject {
    state(interpreter).dict.get()
}

extern "C" fn PyModuleDef_Init(definition: *mut PyObject) -> *mut PyObject {
    definition
}

// --- The engine's functions. ----------------------------------------------------

impl Hook {
    fn release(&self) {
        let held = WORLD.with(|world| match &mut *world.held.borrow_mut() {
            Some(held) => {
                held.push(*self);
                true
            }
            None => false,
        });
        if held {
            return;
        }
        if let Some(free) = self.free {
            // SAFETY: the engine's last word about this hook.
            unsafe { free(self.user_data) };
        }
    }
}

extern "C" fn PyUnstable_AddFrameHookEx(
    interpreter: *mut InterpreterState,
    ask: AskHook,
    user_data: *mut c_void,
    free: Option<FreeUserData>,
    name: *const c_char,
    flags: c_int,
) -> i64 {
    assert_eq!(flags, 0);
    // SAFETY: a C string.
    assert!(!unsafe { CStr::from_ptr(name) }.is_empty());
    if WORLD.with(|world| world.refuse_hooks.get()) {
        raise("RuntimeError", "64 hooks are installed");
        return -1;
    }
    let interpreter = state(interpreter);
    let id = interpreter.next_hook.replace(interpreter.next_hook.get() + 1);
    interpreter.hooks.borrow_mut().push(Hook { id, ask, user_data, free, enabled: true });
    id
}

extern "C" fn PyUnstable_RemoveFrameHookEx(interpreter: *mut InterpreterState, id: i64) -> c_int {
    let interpreter = state(interpreter);
    let place = interpreter.hooks.borrow().iter().position(|hook| hook.id == id);
    let Some(place) = place else {
        raise("ValueError", "no such hook");
        return -1;
    };
    let hook = interpreter.hooks.borrow_mut().remove(place);
    hook.release();
    0
}

extern "C" fn PyUnstable_ClearFrameHooks(interpreter: *mut InterpreterState) -> c_int {
    let hooks = state(interpreter).hooks.take();
    hooks.iter().for_each(Hook::release);
    0
}

fn enable(interpreter: &Interpreter, id: i64, on: bool) -> c_int {
    if let Some(hook) = interpreter.hooks.borrow_mut().iter_mut().find(|hook| hook.id == id) {
        hook.enabled = on;
        return 0;
    }
    raise("ValueError", "no such hook");
    -1
}

extern "C" fn PyUnstable_EnableFrameHook(interpreter: *mut InterpreterState, id: i64) -> c_int {
    enable(state(interpreter), id, true)
}

extern "C" fn PyUnstable_DisableFrameHook(interpreter: *mut InterpreterState, id: i64) -> c_int {
    enable(state(interpreter), id, false)
}

extern "C" fn PyUnstable_EnableFrameHookInThread(id: i64) -> c_int {
    enable(WORLD.with(|world| world.attached.get()).expect("attached"), id, true)
}

extern "C" fn PyUnstable_DisableFrameHookInThread(id: i64) -> c_int {
    enable(WORLD.with(|world| world.attached.get()).expect("attached"), id, false)
}

extern "C" fn PyUnstable_EnableFrameHookForCode(id: i64, code: *mut PyObject) -> c_int {
    assert_eq!(class_name(code), "code");
    PyUnstable_EnableFrameHookInThread(id)
}

extern "C" fn PyUnstable_DisableFrameHookForCode(id: i64, code: *mut PyObject) -> c_int {
    assert_eq!(class_name(code), "code");
    PyUnstable_DisableFrameHookInThread(id)
}

fn offered<'a>(frame: *mut InterpreterFrame) -> &'a Frame {
    // SAFETY: `start` passes its frame, which it borrows meanwhile.
    unsafe { &*frame.cast::<Frame>() }
}

fn given(pointer: *mut PyObject) -> *mut PyObject {
    Py_IncRef(pointer);
    pointer
}

extern "C" fn PyUnstable_HookFrame_GetCode(frame: *mut InterpreterFrame) -> *mut PyObject {
    given(offered(frame).code)
}

extern "C" fn PyUnstable_HookFrame_GetFunction(frame: *mut InterpreterFrame) -> *mut PyObject {
    given(offered(frame).function)
}

extern "C" fn PyUnstable_HookFrame_GetGlobals(frame: *mut InterpreterFrame) -> *mut PyObject {
    given(offered(frame).globals)
}

extern "C" fn PyUnstable_HookFrame_GetBuiltins(frame: *mut InterpreterFrame) -> *mut PyObject {
    given(offered(frame).builtins)
}

extern "C" fn PyUnstable_HookFrame_GetArgumentCount(frame: *mut InterpreterFrame) -> isize {
    offered(frame).arguments.len() as isize
}

fn argument(frame: *mut InterpreterFrame, index: isize) -> Option<(&'static str, *mut PyObject)> {
    let found = offered(frame).arguments.get(usize::try_from(index).ok()?);
    found.copied()
}

extern "C" fn PyUnstable_HookFrame_GetArgument(
    frame: *mut InterpreterFrame,
    index: isize,
) -> *mut PyObject {
    match argument(frame, index) {
        Some((_, value)) => given(value),
        None => {
            raise("IndexError", "no such parameter");
            null_mut()
        }
    }
}

extern "C" fn PyUnstable_HookFrame_GetArgumentName(
    frame: *mut InterpreterFrame,
    index: isize,
) -> *mut PyObject {
    match argument(frame, index) {
        Some((name, _)) => string(name),
        None => {
            raise("IndexError", "no such parameter");
            null_mut()
        }
    }
}

extern "C" fn PyUnstable_HookFrame_GetArgumentByName(
    frame: *mut InterpreterFrame,
    name: *mut PyObject,
) -> *mut PyObject {
    let name = text_of(name);
    match offered(frame).arguments.iter().find(|(own, _)| *own == name) {
        Some((_, value)) => given(*value),
        None => {
            raise("KeyError", &name);
            null_mut()
        }
    }
}

/// What dlsym is in a process with Python.
pub fn find_symbol(name: &CStr) -> *mut c_void {
    macro_rules! functions {
        ($($name:ident)*) => {
            match name.to_str().expect("ASCII") {
                $(stringify!($name) => return $name as *mut c_void,)*
                "PyObject_Repr" => return PyObject_Str as *mut c_void,
                "PyBaseObject_Type" => return type_named("object").cast(),
                "PyCode_Type" => return type_named("code").cast(),
                "PyCapsule_Type" => return type_named("PyCapsule").cast(),
                _ => {}
            }
        };
    }
    macro_rules! exceptions {
        ($($name:literal)*) => {
            match name.to_str().expect("ASCII") {
                $(concat!("PyExc_", $name) => variable_named($name),)*
                _ => null_mut(),
            }
        };
    }
    functions! {
        Py_IncRef Py_DecRef Py_GetConstant PyErr_GetRaisedException PyErr_SetRaisedException
        PyErr_SetObject PyErr_GivenExceptionMatches PyObject_Type PyObject_Str PyObject_IsTrue
        PyObject_GetAttr PyObject_GetItem PyObject_SetItem PyObject_Vectorcall
        PyUnicode_FromStringAndSize PyUnicode_AsUTF8AndSize PyLong_FromLongLong PyLong_AsLongLong
        PyBool_FromLong PyDict_New PyDict_SetDefaultRef PyCapsule_New PyCapsule_GetPointer
        PyCapsule_GetName PyThreadState_GetUnchecked PyThreadState_GetInterpreter
        PyInterpreterState_GetID PyInterpreterState_GetDict PyModuleDef_Init
        PyUnstable_AddFrameHookEx PyUnstable_RemoveFrameHookEx PyUnstable_ClearFrameHooks
        PyUnstable_EnableFrameHook PyUnstable_DisableFrameHook PyUnstable_EnableFrameHookInThread
        PyUnstable_DisableFrameHookInThread PyUnstable_EnableFrameHookForCode
        PyUnstable_DisableFrameHookForCode PyUnstable_HookFrame_GetCode
        PyUnstable_HookFrame_GetFunction PyUnstable_HookFrame_GetGlobals
        PyUnstable_HookFrame_GetBuiltins PyUnstable_HookFrame_GetArgumentCount
        PyUnstable_HookFrame_GetArgument PyUnstable_HookFrame_GetArgumentName
        PyUnstable_HookFrame_GetArgumentByName
    }
    exceptions! {
        "AttributeError" "BaseException" "Exception" "ImportError" "IndexError" "KeyError" "OverflowError"
        "RuntimeError" "SystemError" "TypeError" "ValueError"
    }
}
