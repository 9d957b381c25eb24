//! Hooks that go wrong, and guards that go in the wrong place: for
//! `tests/python/test_rust_sdk_*.py`.
#![forbid(unsafe_code)]

use framehook::{
    Arguments, Error, Exception, Frame, FrameHook, Installed, Object, Python, Result, Stored,
    Verdict,
};
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Hooks that have been dropped, in all interpreters.
static DROPPED: AtomicI64 = AtomicI64::new(0);
/// Guards and objects that wait to be dropped elsewhere.
static PARKED_GUARDS: Mutex<Vec<Arc<Installed<Case>>>> = Mutex::new(Vec::new());
static PARKED_OBJECTS: Mutex<Vec<Stored>> = Mutex::new(Vec::new());

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A hook that does what `kind` says about one code object and settles all others.
struct Case {
    kind: String,
    code: usize,
    _keeps_code: Stored,
    extra: Stored,
    asked: AtomicI64,
    seen: Mutex<Vec<String>>,
    own_guard: Mutex<Option<Arc<Installed<Case>>>>,
}

impl FrameHook for Case {
    fn on_frame<'call>(&self, frame: &Frame<'call>) -> Result<'call, Verdict<'call>> {
        let code = frame.code()?;
        if code.identity() != self.code {
            return Ok(Verdict::Settled);
        }
        self.asked.fetch_add(1, Ordering::Relaxed);
        let extra = self.extra.get(frame.python())?;
        match self.kind.as_str() {
            "pass" | "panic when dropped" => Ok(Verdict::Pass),
            "settle" => Ok(Verdict::Settled),
            "panic" => panic!("{} starts", code.name()?),
            "replace" => Ok(Verdict::Replace(extra.code_of()?)),
            "raise" => Err(Error::from_object(extra)),
            "read too far" => frame.argument(frame.argument_count()).map(|_| Verdict::Pass),
            "read no name" => frame.argument_named("no such name").map(|_| Verdict::Pass),
            "call" => {
                let name = frame.python().string(&code.name()?)?;
                let answer = extra.call(&[&name])?;
                Ok(if answer.is_none() {
                    Verdict::Pass
                } else {
                    Verdict::Replace(answer.code_of()?)
                })
            }
            "read" => {
                let mut seen = vec![
                    code.qualified_name()?,
                    code.file_name()?,
                    code.first_line()?.to_string(),
                    frame.function()?.attribute("__name__")?.str()?,
                    frame.globals()?.item(&frame.python().string("__name__")?)?.str()?,
                    frame.builtins()?.item(&frame.python().string("len")?)?.repr()?,
                ];
                for argument in frame.arguments() {
                    let (name, value) = argument?;
                    assert!(frame.argument_named(&name)?.is(&value), "one by index, one by name");
                    seen.push(format!("{name}={}", value.repr()?));
                }
                lock(&self.seen).extend(seen);
                Ok(Verdict::Pass)
            }
            "remove itself" => {
                let guard = lock(&self.own_guard).take();
                drop(guard);
                Ok(Verdict::Pass)
            }
            other => Err(Error::new(Exception::ValueError, format!("no case {other:?}"))),
        }
    }
}

impl Drop for Case {
    fn drop(&mut self) {
        DROPPED.fetch_add(1, Ordering::Relaxed);
        if self.kind == "panic when dropped" {
            panic!("as its kind says");
        }
    }
}

/// What Python code gets: the guard, until it is taken away.
type Slot = Mutex<Option<Arc<Installed<Case>>>>;

fn slot<'a, 'py>(object: &'a Object<'py>) -> Result<'py, &'a Slot> {
    object.value::<Slot>().ok_or_else(|| Error::new(Exception::TypeError, "not from install()"))
}

fn guard<'py>(object: &Object<'py>) -> Result<'py, Arc<Installed<Case>>> {
    // Cloned, so that the lock is not held while the guard is used.
    let guard = lock(slot(object)?).clone();
    guard.ok_or_else(|| Error::new(Exception::ValueError, "the guard is gone"))
}

fn taken<'py>(object: &Object<'py>) -> Result<'py, Arc<Installed<Case>>> {
    let guard = lock(slot(object)?).take();
    guard.ok_or_else(|| Error::new(Exception::ValueError, "the guard is gone"))
}

fn install<'py>(py: Python<'py>, arguments: Arguments<'py>) -> Result<'py, Object<'py>> {
    let [kind, function, extra] = arguments.exactly()?;
    let kind = kind.as_str()?.to_owned();
    let code = function.code_of()?;
    let case = Case {
        kind: kind.clone(),
        code: code.identity(),
        _keeps_code: code.store()?,
        extra: extra.store()?,
        asked: AtomicI64::new(0),
        seen: Mutex::default(),
        own_guard: Mutex::default(),
    };
    let installed = Arc::new(py.interpreter().install(&kind, case)?);
    if kind == "remove itself" {
        *lock(&installed.hook().own_guard) = Some(installed.clone());
        return Ok(py.none());
    }
    py.capsule::<Slot>(Mutex::new(Some(installed)))
}

fn asked<'py>(py: Python<'py>, arguments: Arguments<'py>) -> Result<'py, Object<'py>> {
    let [object] = arguments.exactly()?;
    py.int(guard(&object)?.hook().asked.load(Ordering::Relaxed))
}

fn seen<'py>(py: Python<'py>, arguments: Arguments<'py>) -> Result<'py, Object<'py>> {
    let [object] = arguments.exactly()?;
    let text = lock(&guard(&object)?.hook().seen).join("\n");
    py.string(&text)
}

fn handle<'py>(py: Python<'py>, arguments: Arguments<'py>) -> Result<'py, Object<'py>> {
    let [object] = arguments.exactly()?;
    py.int(guard(&object)?.id())
}

fn is_installed<'py>(py: Python<'py>, arguments: Arguments<'py>) -> Result<'py, Object<'py>> {
    let [object] = arguments.exactly()?;
    Ok(py.boolean(guard(&object)?.is_installed()))
}

fn remove<'py>(py: Python<'py>, arguments: Arguments<'py>) -> Result<'py, Object<'py>> {
    let [object] = arguments.exactly()?;
    let guard = Arc::into_inner(taken(&object)?)
        .ok_or_else(|| Error::new(Exception::ValueError, "the guard is in use"))?;
    guard.remove(py).map(|()| py.none())
}

fn keep<'py>(py: Python<'py>, arguments: Arguments<'py>) -> Result<'py, Object<'py>> {
    let [object] = arguments.exactly()?;
    if let Some(guard) = Arc::into_inner(taken(&object)?) {
        guard.keep();
    }
    Ok(py.none())
}

fn enable<'py>(py: Python<'py>, arguments: Arguments<'py>) -> Result<'py, Object<'py>> {
    let [object, on] = arguments.exactly()?;
    guard(&object)?.enable(py, on.is_true()?).map(|()| py.none())
}

fn enable_in_thread<'py>(py: Python<'py>, arguments: Arguments<'py>) -> Result<'py, Object<'py>> {
    let [object, on] = arguments.exactly()?;
    guard(&object)?.enable_in_thread(py, on.is_true()?).map(|()| py.none())
}

fn enable_for<'py>(py: Python<'py>, arguments: Arguments<'py>) -> Result<'py, Object<'py>> {
    let [object, function, on] = arguments.exactly()?;
    guard(&object)?.enable_for(&function.code_of()?, on.is_true()?).map(|()| py.none())
}

fn drop_detached<'py>(py: Python<'py>, arguments: Arguments<'py>) -> Result<'py, Object<'py>> {
    let [object] = arguments.exactly()?;
    let guard = taken(&object)?;
    // This thread waits attached. It can: dropping takes no lock of the interpreter's.
    std::thread::spawn(move || drop(guard))
        .join()
        .map_err(|_| Error::new(Exception::RuntimeError, "dropping the guard has panicked"))?;
    Ok(py.none())
}

fn park<'py>(py: Python<'py>, arguments: Arguments<'py>) -> Result<'py, Object<'py>> {
    let [object] = arguments.exactly()?;
    let guard = taken(&object)?;
    lock(&PARKED_GUARDS).push(guard);
    Ok(py.none())
}

fn drop_parked<'py>(py: Python<'py>, _: Arguments<'py>) -> Result<'py, Object<'py>> {
    let guards = std::mem::take(&mut *lock(&PARKED_GUARDS));
    let objects = std::mem::take(&mut *lock(&PARKED_OBJECTS));
    py.int((guards.len() + objects.len()) as i64)
}

fn enable_parked<'py>(py: Python<'py>, arguments: Arguments<'py>) -> Result<'py, Object<'py>> {
    let [on] = arguments.exactly()?;
    let on = on.is_true()?;
    let guards = lock(&PARKED_GUARDS).clone();
    for guard in guards {
        guard.enable(py, on)?;
    }
    Ok(py.none())
}

fn park_object<'py>(py: Python<'py>, arguments: Arguments<'py>) -> Result<'py, Object<'py>> {
    let [object] = arguments.exactly()?;
    let stored = object.store()?;
    lock(&PARKED_OBJECTS).push(stored);
    Ok(py.none())
}

fn parked_object<'py>(py: Python<'py>, _: Arguments<'py>) -> Result<'py, Object<'py>> {
    let stored = lock(&PARKED_OBJECTS).pop();
    stored.ok_or_else(|| Error::new(Exception::IndexError, "none"))?.get(py)
}

fn dropped<'py>(py: Python<'py>, _: Arguments<'py>) -> Result<'py, Object<'py>> {
    py.int(DROPPED.load(Ordering::Relaxed))
}

fn interpreter_id<'py>(py: Python<'py>, _: Arguments<'py>) -> Result<'py, Object<'py>> {
    py.int(py.interpreter().id())
}

fn clear_hooks<'py>(py: Python<'py>, _: Arguments<'py>) -> Result<'py, Object<'py>> {
    py.interpreter().clear_hooks().map(|()| py.none())
}

fn panic_now<'py>(_: Python<'py>, _: Arguments<'py>) -> Result<'py, Object<'py>> {
    panic!("in a function");
}

framehook::module! {
    name: "rust_hook_cases",
    init: PyInit_rust_hook_cases,
    doc: "For the tests of the crate framehook.",
    functions: {
        install: "install(kind, function, extra, /)",
        asked: "asked(guard, /)",
        seen: "seen(guard, /)",
        handle: "handle(guard, /)",
        is_installed: "is_installed(guard, /)",
        remove: "remove(guard, /)",
        keep: "keep(guard, /)",
        enable: "enable(guard, on, /)",
        enable_in_thread: "enable_in_thread(guard, on, /)",
        enable_for: "enable_for(guard, function, on, /)",
        drop_detached: "drop_detached(guard, /)",
        park: "park(guard, /)",
        drop_parked: "drop_parked()",
        enable_parked: "enable_parked(on, /)",
        park_object: "park_object(object, /)",
        parked_object: "parked_object()",
        dropped: "dropped()",
        interpreter_id: "interpreter_id()",
        clear_hooks: "clear_hooks()",
        panic_now: "panic_now()",
    }
}
