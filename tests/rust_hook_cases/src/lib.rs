//! Hooks that go wrong, and guards that go in the wrong place: for
//! `tests/python/test_rust_sdk_*.py`.
#![deny(unsafe_code)]

mod continued;
mod loops;

use framehook::{
    incompatibility, unhooked, Also, Answer, Builder, CRecursion, Event, EventKind, Frame,
    FrameHook, Installed, Position,
};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyCode, PyDict, PyFunction, PyTuple};
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// How many hooks and data have been dropped.
static DROPPED: AtomicI64 = AtomicI64::new(0);
static DROPPED_DATA: AtomicI64 = AtomicI64::new(0);
/// Guards that wait to be dropped elsewhere.
static PARKED: Mutex<Vec<Arc<Installed<Case>>>> = Mutex::new(Vec::new());

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn code_of<'py>(function: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyCode>> {
    match function.cast::<PyFunction>() {
        Ok(function) => Ok(function.getattr("__code__")?.cast_into()?),
        Err(_) => Ok(function.cast::<PyCode>()?.clone()),
    }
}

fn text_of(object: &Bound<'_, PyAny>, attribute: &str) -> PyResult<String> {
    Ok(object.getattr(attribute)?.str()?.to_string())
}

/// What the hooks say with a frame: counted when it is dropped, and then it calls or panics.
struct FrameData {
    number: i64,
    at_end: Option<Py<PyAny>>,
    panics: bool,
}

impl Drop for FrameData {
    fn drop(&mut self) {
        DROPPED_DATA.fetch_add(1, Ordering::Relaxed);
        if let Some(function) = self.at_end.take() {
            Python::attach(|py| {
                function.call1(py, (self.number,)).unwrap();
            });
        }
        if self.panics {
            panic!("data is dropped");
        }
    }
}

/// A hook that does what `kind` says about one code object and disables itself for all others.
struct Case {
    kind: String,
    code: Py<PyCode>,
    extra: Py<PyAny>,
    entries: AtomicI64,
    seen: Mutex<Vec<String>>,
    own_guard: Mutex<Option<Arc<Installed<Case>>>>,
}

impl Case {
    fn say(&self, text: String) {
        lock(&self.seen).push(text);
    }

    fn data(&self) -> FrameData {
        self.data_that(None, false)
    }

    fn data_that(&self, at_end: Option<Py<PyAny>>, panics: bool) -> FrameData {
        FrameData { number: self.entries.load(Ordering::Relaxed), at_end, panics }
    }

    fn read(&self, frame: &Frame<'_>) -> PyResult<()> {
        let code = frame.code()?;
        let mut seen = vec![
            text_of(&code, "co_qualname")?,
            text_of(&code, "co_filename")?,
            text_of(&code, "co_firstlineno")?,
            text_of(frame.function()?.as_any(), "__name__")?,
            frame.globals()?.get_item("__name__")?.map_or(String::new(), |name| name.to_string()),
            frame.builtins()?.get_item("len")?.repr()?.to_string(),
        ];
        for argument in frame.arguments() {
            let (name, value) = argument?;
            let name = name.to_string();
            assert!(frame.argument_named(&name)?.is(&value), "one by index, one by name");
            seen.push(format!("{name}={}", value.repr()?));
        }
        lock(&self.seen).extend(seen);
        Ok(())
    }

    fn read_more(&self, frame: &Frame<'_>) -> PyResult<()> {
        self.say(format!("free={}", frame.free_variables()?.repr()?));
        self.say(format!("locals={}", frame.locals()?.is_some()));
        let caller = frame.caller()?;
        let (code, line) = caller.ok_or_else(|| PyValueError::new_err("no caller"))?;
        self.say(format!("caller={}:{}", text_of(&code, "co_name")?, line.unwrap_or(0)));
        let first = frame.argument(0)?;
        assert!(frame.argument_is(0, &first)? && !frame.argument_is(0, &code)?);
        Ok(())
    }
}

impl FrameHook for Case {
    type Data = FrameData;

    fn on_entry<'py>(&self, frame: &Frame<'py>) -> PyResult<Answer<'py, FrameData>> {
        let py = frame.py();
        let code = frame.code()?;
        if !code.is(&self.code) {
            return Ok(Answer::disable());
        }
        self.entries.fetch_add(1, Ordering::Relaxed);
        let extra = self.extra.bind(py);
        match self.kind.as_str() {
            "pass" | "panic when dropped" => Ok(Answer::pass()),
            "disable" => Ok(Answer::disable()),
            "drop" => {
                drop(self.extra.clone_ref(py));
                Ok(Answer::pass())
            }
            "panic" => panic!("{} starts", text_of(&code, "co_name")?),
            "replace" => Ok(Answer::replace(code_of(extra)?)),
            "raise" => Err(PyErr::from_value(extra.clone())),
            "raise badly" => Err(PyErr::new::<PyValueError, _>(Badly)),
            "read too far" => frame.argument(frame.argument_count()).map(|_| Answer::pass()),
            "read no name" => frame.argument_named("no such name").map(|_| Answer::pass()),
            "call" => {
                let answer = extra.call1((text_of(&code, "co_name")?,))?;
                if answer.is_none() {
                    return Ok(Answer::pass());
                }
                Ok(Answer::replace(code_of(&answer)?))
            }
            "read" => self.read(frame).map(|()| Answer::pass()),
            "read more" => self.read_more(frame).map(|()| Answer::pass()),
            "remove itself" => {
                let guard = lock(&self.own_guard).take();
                drop(guard);
                Ok(Answer::pass())
            }
            "result" => Ok(Answer::result(extra.clone())),
            "excludes callees" => Ok(Answer::pass().exclude_callees()),
            "only callees" => Ok(Answer::pass().only_callees()),
            "watch" | "exit panics" | "exit raises" => Ok(Answer::pass().watch(self.data())),
            "watch all" | "exit calls" => {
                Ok(Answer::pass().watch_also(Also::YIELDS | Also::RESUMES, self.data()))
            }
            "data calls" => {
                let at_end = Some(self.extra.clone_ref(py));
                Ok(Answer::pass().watch(self.data_that(at_end, false)))
            }
            "data panics" => Ok(Answer::pass().watch(self.data_that(None, true))),
            other => Err(PyValueError::new_err(format!("no case {other:?}"))),
        }
    }

    fn on_event(&self, event: &Event<'_, '_, FrameData>) -> PyResult<()> {
        let number = event.data().number;
        let text = match event.kind() {
            EventKind::Returned(value) => format!("returned {}", value.repr()?),
            EventKind::Raised(value) => format!("raised {}", value.repr()?),
            EventKind::Yielded(value) => format!("yielded {}", value.repr()?),
            EventKind::Resumed => "resumed".to_owned(),
            EventKind::Dropped => "dropped".to_owned(),
        };
        let text = format!("{number}: {} {text}", text_of(&event.code(), "co_name")?);
        self.say(text.clone());
        let extra = self.extra.bind(event.py());
        match self.kind.as_str() {
            "exit panics" => panic!("delivered"),
            "exit raises" => return Err(PyErr::from_value(extra.clone())),
            "exit calls" => {
                extra.call1((text,))?;
            }
            _ => {}
        }
        assert_eq!(number, event.data().number, "the data is still there");
        Ok(())
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

/// The arguments of an exception that cannot be made.
struct Badly;

impl pyo3::PyErrArguments for Badly {
    fn arguments(self, _: Python<'_>) -> Py<PyAny> {
        panic!("no arguments");
    }
}

/// Numbers as data: they are not boxed.
struct Numbers {
    code: Py<PyCode>,
    next: AtomicI64,
    seen: Mutex<Vec<u64>>,
}

impl FrameHook for Numbers {
    type Data = u64;

    fn on_entry<'py>(&self, frame: &Frame<'py>) -> PyResult<Answer<'py, u64>> {
        if !frame.code()?.is(&self.code) {
            return Ok(Answer::disable());
        }
        // Beyond 32 bits.
        let number = self.next.fetch_add(1, Ordering::Relaxed).unsigned_abs() + (1 << 40);
        Ok(Answer::pass().watch(number))
    }

    fn on_event(&self, event: &Event<'_, '_, u64>) -> PyResult<()> {
        lock(&self.seen).push(event.data() - (1 << 40));
        Ok(())
    }
}

/// Passes and does nothing else: what a question costs, and an event.
struct Pass {
    watches: bool,
}

impl FrameHook for Pass {
    type Data = u64;

    fn on_entry<'py>(&self, _: &Frame<'py>) -> PyResult<Answer<'py, u64>> {
        Ok(if self.watches { Answer::pass().watch(5) } else { Answer::pass() })
    }
}

/// Counts its calls while it listens, and makes a re-entrant call when it is
/// called for one code object.
struct Listener {
    listens: AtomicBool,
    panics: AtomicBool,
    entries: AtomicI64,
    code: Py<PyCode>,
    outside: Py<PyAny>,
}

impl FrameHook for Listener {
    type Data = ();

    fn listens(&self) -> bool {
        assert!(!self.panics.load(Ordering::Relaxed), "listening");
        self.listens.load(Ordering::Relaxed)
    }

    fn on_entry<'py>(&self, frame: &Frame<'py>) -> PyResult<Answer<'py>> {
        self.entries.fetch_add(1, Ordering::Relaxed);
        let code = frame.code()?;
        if code.is(&self.code) {
            framehook::reentrant(self.outside.bind(frame.py())).call1((1,))?;
        }
        Ok(Answer::pass())
    }
}

/// Drops the parked guards; called by address, in an interpreter that cannot import this module.
// SAFETY: no other symbol of the process has this name.
#[allow(unsafe_code)]
#[no_mangle]
pub extern "C" fn rust_hook_cases_drop_parked() -> i64 {
    let guards = std::mem::take(&mut *lock(&PARKED));
    guards.len() as i64
}

/// For the tests of the crate framehook.
#[pymodule]
mod rust_hook_cases {
    use super::*;

    #[pymodule_export]
    use super::continued::continue_all;
    #[pymodule_export]
    use super::loops::{loops, Loops};

    /// A hook that is installed, until its guard is taken away.
    #[pyclass(frozen)]
    struct Guard(Mutex<Option<Arc<Installed<Case>>>>);

    impl Guard {
        fn get(&self) -> PyResult<Arc<Installed<Case>>> {
            // Cloned, so that the lock is not held while the guard is used.
            let guard = lock(&self.0).clone();
            guard.ok_or_else(|| PyValueError::new_err("the guard is gone"))
        }

        fn take(&self) -> PyResult<Arc<Installed<Case>>> {
            let guard = lock(&self.0).take();
            guard.ok_or_else(|| PyValueError::new_err("the guard is gone"))
        }
    }

    #[pymethods]
    impl Guard {
        fn entries(&self) -> PyResult<i64> {
            Ok(self.get()?.hook().entries.load(Ordering::Relaxed))
        }

        fn seen(&self) -> PyResult<Vec<String>> {
            Ok(lock(&self.get()?.hook().seen).clone())
        }

        fn id(&self) -> PyResult<i64> {
            Ok(self.get()?.id())
        }

        fn is_installed(&self) -> PyResult<bool> {
            Ok(self.get()?.is_installed())
        }

        fn remove(&self, py: Python<'_>) -> PyResult<()> {
            let guard = Arc::into_inner(self.take()?);
            guard.ok_or_else(|| PyValueError::new_err("the guard is in use"))?.remove(py)
        }

        fn keep(&self) -> PyResult<()> {
            if let Some(guard) = Arc::into_inner(self.take()?) {
                guard.keep();
            }
            Ok(())
        }

        fn enable(&self, py: Python<'_>, on: bool) -> PyResult<()> {
            let guard = self.get()?;
            match on {
                true => guard.enable(py),
                false => guard.disable(py),
            }
        }

        fn enable_in_thread(&self, py: Python<'_>, on: bool) -> PyResult<()> {
            let guard = self.get()?;
            match on {
                true => guard.enable_in_thread(py),
                false => guard.disable_in_thread(py),
            }
        }

        fn enable_for_code(&self, function: &Bound<'_, PyAny>, on: bool) -> PyResult<()> {
            let (guard, code) = (self.get()?, code_of(function)?);
            match on {
                true => guard.enable_for_code(&code),
                false => guard.disable_for_code(&code),
            }
        }

        fn drop_detached(&self) -> PyResult<()> {
            let guard = self.take()?;
            // This thread waits attached. It can: dropping takes no lock of the interpreter's.
            std::thread::spawn(move || drop(guard))
                .join()
                .map_err(|_| PyValueError::new_err("dropping the guard has panicked"))
        }

        fn park(&self) -> PyResult<()> {
            let guard = self.take()?;
            lock(&PARKED).push(guard);
            Ok(())
        }
    }

    #[pyfunction]
    #[pyo3(signature = (kind, function, extra, *, first = false, before = None, after = None,
                        this_thread = false, visible = false, timed = false, name = None))]
    #[allow(clippy::too_many_arguments)]
    fn install(
        py: Python<'_>,
        kind: String,
        function: &Bound<'_, PyAny>,
        extra: Py<PyAny>,
        first: bool,
        before: Option<i64>,
        after: Option<i64>,
        this_thread: bool,
        visible: bool,
        timed: bool,
        name: Option<String>,
    ) -> PyResult<Option<Guard>> {
        let case = Case {
            kind: kind.clone(),
            code: code_of(function)?.unbind(),
            extra,
            entries: AtomicI64::new(0),
            seen: Mutex::default(),
            own_guard: Mutex::default(),
        };
        let place = match (first, before, after) {
            (true, _, _) => Position::First,
            (_, Some(other), _) => Position::Before(other),
            (_, _, Some(other)) => Position::After(other),
            _ => Position::Last,
        };
        let mut builder = Builder::new(name.unwrap_or(kind.clone())).position(place);
        for (wanted, with) in [
            (this_thread, Builder::this_thread as fn(Builder) -> Builder),
            (visible, Builder::visible),
            (timed, Builder::timed),
        ] {
            builder = if wanted { with(builder) } else { builder };
        }
        let installed = Arc::new(builder.install(py, case)?);
        if kind == "remove itself" {
            *lock(&installed.hook().own_guard) = Some(installed.clone());
            return Ok(None);
        }
        Ok(Some(Guard(Mutex::new(Some(installed)))))
    }

    #[pyclass(frozen)]
    struct NumberGuard(Installed<Numbers>);

    #[pymethods]
    impl NumberGuard {
        fn seen(&self) -> Vec<u64> {
            lock(&self.0.hook().seen).clone()
        }
    }

    #[pyfunction]
    fn watch_numbers(function: &Bound<'_, PyAny>) -> PyResult<NumberGuard> {
        let code = code_of(function)?.unbind();
        let hook = Numbers { code, next: AtomicI64::new(0), seen: Mutex::default() };
        Ok(NumberGuard(Builder::new("numbers").install(function.py(), hook)?))
    }

    #[pyclass(frozen)]
    struct Listening {
        installed: Installed<Listener>,
    }

    #[pymethods]
    impl Listening {
        #[new]
        fn new(code: Bound<'_, PyCode>, outside: Py<PyAny>) -> PyResult<Self> {
            let py = code.py();
            let hook = Listener {
                listens: AtomicBool::new(true),
                panics: AtomicBool::new(false),
                entries: AtomicI64::new(0),
                code: code.unbind(),
                outside,
            };
            Ok(Self { installed: Builder::new("listener").install(py, hook)? })
        }

        fn listen(&self, on: bool, panics: bool) {
            self.installed.hook().listens.store(on, Ordering::Relaxed);
            self.installed.hook().panics.store(panics, Ordering::Relaxed);
        }

        fn entries(&self) -> i64 {
            self.installed.hook().entries.swap(0, Ordering::Relaxed)
        }
    }

    #[pyclass(frozen)]
    struct Passing {
        _installed: Installed<Pass>,
    }

    #[pyfunction]
    fn pass_all(py: Python<'_>, watches: bool) -> PyResult<Passing> {
        Ok(Passing { _installed: Builder::new("pass").install(py, Pass { watches })? })
    }

    #[pyfunction]
    #[pyo3(signature = (function, callees, *arguments, **keywords))]
    fn call_unhooked<'py>(
        function: &Bound<'py, PyAny>,
        callees: bool,
        arguments: &Bound<'py, PyTuple>,
        keywords: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let call = unhooked(function);
        let call = if callees { call.and_callees() } else { call };
        match (arguments.is_empty(), keywords) {
            (true, None) => call.call0(),
            (false, None) => call.call1(arguments),
            (_, keywords) => call.call(arguments, keywords),
        }
    }

    /// Calls a function twice: with `inner` levels of C recursion left, and then with `levels`. Returns
    /// what the second call has returned, and how many levels there were before each limit was set.
    #[pyfunction]
    fn call_with_levels<'py>(
        function: &Bound<'py, PyAny>,
        levels: i32,
        inner: i32,
    ) -> PyResult<(Bound<'py, PyAny>, i32, i32)> {
        let py = function.py();
        let outer = CRecursion::allow(py, levels)?;
        let within = CRecursion::allow(py, inner)?;
        let said = function.call0();
        let before = (outer.before(), within.before());
        drop(within);
        said?;
        Ok((function.call0()?, before.0, before.1))
    }

    #[pyfunction]
    fn reason_against(
        code: Bound<'_, PyAny>,
        other: Bound<'_, PyAny>,
    ) -> PyResult<Option<&'static str>> {
        incompatibility(&code_of(&code)?, &code_of(&other)?)
    }

    #[pyfunction]
    fn drop_parked() -> i64 {
        rust_hook_cases_drop_parked()
    }

    #[pyfunction]
    fn dropped() -> i64 {
        DROPPED.load(Ordering::Relaxed)
    }

    #[pyfunction]
    fn dropped_data() -> i64 {
        DROPPED_DATA.load(Ordering::Relaxed)
    }

    #[pyfunction]
    fn clear_hooks(py: Python<'_>) -> PyResult<()> {
        framehook::clear(py)
    }
}
