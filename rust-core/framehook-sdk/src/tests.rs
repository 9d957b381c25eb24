//! The safe face against a stand-in for CPython that counts references.
//!
//! `attached` fails a test that leaves an object, an exception or a hook behind.

use crate::api::{Api, Hooks};
use crate::mock::{self, Outcome};
use crate::*;
use std::ffi::{c_void, CStr};
use std::ptr::null_mut;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

/// Runs `body` attached to a new interpreter, ends that, and looks at what is left.
fn attached(body: impl FnOnce(Python<'_>, &'static mock::Interpreter)) {
    let interpreter = mock::attach(0);
    // SAFETY: the thread is attached, and the stand-in has everything.
    body(unsafe { Python::assume_attached() }.expect("everything is found"), interpreter);
    assert!(!mock::is_raised(), "an exception is left");
    interpreter.end();
    mock::attach_to(None);
    assert_eq!(mock::living(), 0, "objects are left");
}

/// Takes over a reference of the stand-in.
fn own<'py>(py: Python<'py>, pointer: *mut api::PyObject) -> Object<'py> {
    // SAFETY: the stand-in's functions return new references.
    unsafe { Object::from_raw(py, pointer.cast()) }.expect("not NULL")
}

/// A hook made of a function, which tells when it is dropped.
struct Probe<F> {
    answer: F,
    drops: Arc<AtomicUsize>,
}

impl<F> FrameHook for Probe<F>
where
    F: for<'call> Fn(&Frame<'call>) -> Result<'call, Verdict<'call>> + Send + Sync + 'static,
{
    fn on_frame<'call>(&self, frame: &Frame<'call>) -> Result<'call, Verdict<'call>> {
        (self.answer)(frame)
    }
}

impl<F> Drop for Probe<F> {
    fn drop(&mut self) {
        self.drops.fetch_add(1, Ordering::Relaxed);
    }
}

fn probe<F>(answer: F) -> (Probe<F>, Arc<AtomicUsize>)
where
    F: for<'call> Fn(&Frame<'call>) -> Result<'call, Verdict<'call>> + Send + Sync + 'static,
{
    let drops = Arc::new(AtomicUsize::new(0));
    (Probe { answer, drops: drops.clone() }, drops)
}

fn start_one() -> Outcome {
    mock::start(&mut mock::Frame::new("f", &[]))
}

#[test]
fn a_hook_reads_everything_about_its_frame() {
    attached(|py, _| {
        let seen = Arc::new(Mutex::new(Vec::new()));
        let notes = seen.clone();
        let (hook, _) = probe(move |frame| {
            let code = frame.code()?;
            let mut notes = notes.lock().unwrap();
            notes.push(code.name()?);
            notes.push(code.qualified_name()?);
            notes.push(code.file_name()?);
            notes.push(code.first_line()?.to_string());
            notes.push(frame.argument(1)?.as_int()?.to_string());
            notes.push(frame.argument_name(1)?);
            notes.push(frame.argument_named("x")?.str()?);
            for argument in frame.arguments() {
                let (name, value) = argument?;
                notes.push(format!("{name}={}", value.repr()?));
            }
            notes.push(frame.argument(2).unwrap_err().to_string());
            notes.push(frame.argument(usize::MAX).unwrap_err().to_string());
            notes.push(frame.argument_name(2).unwrap_err().to_string());
            assert!(frame.argument_named("z").unwrap_err().is(Exception::KeyError));
            assert!(frame.function()?.code_of()?.is(&code));
            assert_eq!(frame.globals()?.type_name(), "dict");
            assert!(!frame.globals()?.is(&frame.builtins()?));
            Ok(Verdict::Pass)
        });
        let _installed = py.interpreter().install("reader", hook).unwrap();
        let mut frame = mock::Frame::new("f", &[("x", 10), ("y", -1)]);
        assert_eq!(mock::start(&mut frame), Outcome::Unchanged);
        let expected = [
            "f",
            "C.f",
            "file.py",
            "7",
            "-1",
            "y",
            "10",
            "x=10",
            "y=-1",
            "IndexError",
            "IndexError",
            "IndexError",
        ];
        assert_eq!(*seen.lock().unwrap(), expected);
    });
}

#[test]
fn a_stored_code_object_replaces() {
    attached(|py, _| {
        let new = own(py, mock::code("new"));
        let stored = new.store().unwrap();
        let (hook, _) =
            probe(move |frame| Ok(Verdict::Replace(stored.get(frame.python())?.into_code()?)));
        let installed = py.interpreter().install("replacer", hook).unwrap();
        assert_eq!(start_one(), Outcome::Replaced(new.identity()));
        assert_eq!(mock::references(new.as_raw()), 2);
        drop(installed);
        assert_eq!(mock::references(new.as_raw()), 1);
        assert_eq!(start_one(), Outcome::Unchanged);
    });
}

#[test]
fn settled_is_told_to_the_engine() {
    attached(|py, _| {
        let (hook, _) = probe(|_| Ok(Verdict::Settled));
        let _installed = py.interpreter().install("settler", hook).unwrap();
        assert_eq!(start_one(), Outcome::Settled);
    });
}

#[test]
fn errors_of_both_kinds_fail_the_call() {
    attached(|py, _| {
        let (hook, _) = probe(|frame| {
            frame.argument(5)?;
            Ok(Verdict::Pass)
        });
        let installed = py.interpreter().install("reads too far", hook).unwrap();
        assert_eq!(start_one(), Outcome::Failed);
        assert_eq!(mock::raised(), ("IndexError", "no such parameter".to_owned()));
        installed.remove(py).unwrap();

        let (hook, _) = probe(|_| Err(Error::new(Exception::ValueError, "not today")));
        let _installed = py.interpreter().install("refuses", hook).unwrap();
        assert_eq!(start_one(), Outcome::Failed);
        assert_eq!(mock::raised(), ("ValueError", "not today".to_owned()));
    });
}

#[test]
fn a_panic_becomes_a_runtime_error_that_names_the_hook() {
    struct BadPayload;
    impl Drop for BadPayload {
        fn drop(&mut self) {
            panic!("again");
        }
    }
    attached(|py, interpreter| {
        let (hook, drops) = probe(|frame| match frame.argument(0)?.as_int()? {
            0 => panic!("literally"),
            1 => panic!("formatted {}", frame.argument_count()),
            _ => std::panic::panic_any(BadPayload),
        });
        let installed = py.interpreter().install("panicker", hook).unwrap();
        for (argument, text) in [(0, "literally"), (1, "formatted 1"), (2, "no message")] {
            let mut frame = mock::Frame::new("f", &[("x", argument)]);
            assert_eq!(mock::start(&mut frame), Outcome::Failed);
            let expected = format!("frame hook \"panicker\" panicked: {text}");
            assert_eq!(mock::raised(), ("RuntimeError", expected));
        }
        assert_eq!(interpreter.hook_count(), 1, "a hook that has panicked stays");
        drop(installed);
        assert_eq!(drops.load(Ordering::Relaxed), 1);
    });
}

#[test]
fn dropping_the_guard_removes_the_hook_and_drops_it_once() {
    attached(|py, interpreter| {
        let (hook, drops) = probe(|_| Ok(Verdict::Pass));
        let installed = py.interpreter().install("short", hook).unwrap();
        assert!(installed.is_installed());
        assert_eq!(installed.id(), 1);
        // A guard may go while an exception is on its way.
        mock::raise("KeyError", "on its way");
        drop(installed);
        assert_eq!(mock::raised(), ("KeyError", "on its way".to_owned()));
        assert_eq!(interpreter.hook_count(), 0);
        assert_eq!(drops.load(Ordering::Relaxed), 1);
    });
}

#[test]
fn a_guard_that_comes_too_late_keeps_the_exception_on_its_way() {
    attached(|py, _| {
        let (hook, drops) = probe(|_| Ok(Verdict::Pass));
        let installed = py.interpreter().install("in a round", hook).unwrap();
        // Removed, while a round still uses it: so removing it again is an error.
        let round = mock::hold_releases();
        py.interpreter().clear_hooks().unwrap();
        mock::raise("KeyError", "on its way");
        drop(installed);
        assert_eq!(mock::raised(), ("KeyError", "on its way".to_owned()));
        drop(round);
        assert_eq!(drops.load(Ordering::Relaxed), 1);
    });
}

#[test]
fn a_guard_that_is_kept_leaves_its_hook_until_the_end() {
    let (hook, drops) = probe(|_| Ok(Verdict::Pass));
    let counted = drops.clone();
    attached(move |py, interpreter| {
        py.interpreter().install("stays", hook).unwrap().keep();
        assert_eq!(interpreter.hook_count(), 1);
        assert_eq!(counted.load(Ordering::Relaxed), 0);
    });
    assert_eq!(drops.load(Ordering::Relaxed), 1);
}

#[test]
fn a_guard_does_nothing_when_others_have_removed_the_hook() {
    attached(|py, _| {
        let (hook, drops) = probe(|_| Ok(Verdict::Pass));
        let installed = py.interpreter().install("cleared", hook).unwrap();
        py.interpreter().clear_hooks().unwrap();
        assert!(!installed.is_installed());
        assert_eq!(drops.load(Ordering::Relaxed), 0, "the guard still has it");
        assert!(installed.enable(py, false).unwrap_err().is(Exception::ValueError));
        drop(installed);
        assert_eq!(drops.load(Ordering::Relaxed), 1);

        let (hook, _) = probe(|_| Ok(Verdict::Pass));
        let installed = py.interpreter().install("cleared too", hook).unwrap();
        py.interpreter().clear_hooks().unwrap();
        assert!(installed.remove(py).unwrap_err().is(Exception::ValueError));
    });
}

#[test]
fn a_guard_that_goes_while_detached_retires_the_hook() {
    attached(|py, interpreter| {
        let asked = Arc::new(AtomicUsize::new(0));
        let counter = asked.clone();
        let (hook, drops) = probe(move |_| {
            counter.fetch_add(1, Ordering::Relaxed);
            Ok(Verdict::Pass)
        });
        let installed = py.interpreter().install("retires", hook).unwrap();
        start_one();
        std::thread::spawn(move || drop(installed)).join().unwrap();
        assert_eq!((interpreter.hook_count(), drops.load(Ordering::Relaxed)), (1, 0));
        // It is not asked, and taken out at this opportunity.
        assert_eq!(start_one(), Outcome::Unchanged);
        assert_eq!((interpreter.hook_count(), drops.load(Ordering::Relaxed)), (0, 1));
        assert_eq!(asked.load(Ordering::Relaxed), 1);
    });
}

#[test]
fn a_guard_does_not_touch_another_interpreters_hooks() {
    attached(|py, first| {
        let (hook, _) = probe(|_| Ok(Verdict::Pass));
        let installed = py.interpreter().install("of the first", hook).unwrap();
        let second = mock::attach(1);
        let (hook, _) = probe(|_| Ok(Verdict::Pass));
        let other = py.interpreter().install("of the second", hook).unwrap();
        assert_eq!(installed.id(), other.id(), "handles are counted in each interpreter");
        let error = installed.enable(py, false).unwrap_err();
        let text = "RuntimeError: frame hook \"of the first\" belongs to interpreter 0, not 1";
        assert_eq!(error.to_string(), text);
        assert!(installed.remove(py).unwrap_err().is(Exception::RuntimeError));
        assert_eq!((first.hook_count(), second.hook_count()), (1, 1));
        drop(other);
        assert_eq!((first.hook_count(), second.hook_count()), (1, 0));
        second.end();
        mock::attach_to(Some(first));
        assert_eq!(start_one(), Outcome::Unchanged);
        assert_eq!(first.hook_count(), 0, "it had been retired");
    });
}

#[test]
fn a_guard_outlives_the_interpreter() {
    let (hook, drops) = probe(|_| Ok(Verdict::Pass));
    let mut kept = None;
    attached(|py, _| kept = Some(py.interpreter().install("outlived", hook).unwrap()));
    let installed = kept.unwrap();
    assert!(!installed.is_installed());
    // The number comes again, and so do the handles.
    attached(|py, interpreter| {
        let (hook, _) = probe(|_| Ok(Verdict::Pass));
        let other = py.interpreter().install("of the next life", hook).unwrap();
        assert_eq!(installed.id(), other.id());
        drop(installed);
        assert_eq!(interpreter.hook_count(), 1);
        assert_eq!(drops.load(Ordering::Relaxed), 1);
    });
}

#[test]
fn a_hook_may_remove_itself_while_it_runs() {
    attached(|py, interpreter| {
        let guard: Arc<Mutex<Option<Box<dyn std::any::Any + Send>>>> = Arc::default();
        let own_guard = guard.clone();
        let (hook, drops) = probe(move |_| {
            let guard = own_guard.lock().unwrap().take();
            drop(guard);
            Ok(Verdict::Settled)
        });
        let installed = py.interpreter().install("once", hook).unwrap();
        *guard.lock().unwrap() = Some(Box::new(installed));
        assert_eq!(start_one(), Outcome::Settled);
        assert_eq!((interpreter.hook_count(), drops.load(Ordering::Relaxed)), (0, 1));
    });
}

#[test]
fn a_hook_that_cannot_be_installed_is_dropped_once() {
    attached(|py, _| {
        let (hook, drops) = probe(|_| Ok(Verdict::Pass));
        mock::refuse_hooks(true);
        let error = py.interpreter().install("one too many", hook).err().unwrap();
        mock::refuse_hooks(false);
        assert!(error.is(Exception::RuntimeError));
        assert_eq!(drops.load(Ordering::Relaxed), 1);

        let (hook, drops) = probe(|_| Ok(Verdict::Pass));
        let error = py.interpreter().install("zero \0 byte", hook).err().unwrap();
        assert!(error.is(Exception::ValueError));
        assert_eq!(drops.load(Ordering::Relaxed), 1);
    });
}

#[test]
fn enabling_in_all_three_ways_reaches_the_engine() {
    attached(|py, _| {
        let (hook, _) = probe(|_| Ok(Verdict::Settled));
        let installed = py.interpreter().install("switched", hook).unwrap();
        let code = own(py, mock::code("f")).into_code().unwrap();
        let ways: [&dyn Fn(bool) -> bool; 3] = [
            &|on| installed.enable(py, on).is_ok(),
            &|on| installed.enable_in_thread(py, on).is_ok(),
            &|on| installed.enable_for(&code, on).is_ok(),
        ];
        for way in ways {
            assert!(way(false));
            assert_eq!(start_one(), Outcome::Unchanged);
            assert!(way(true));
            assert_eq!(start_one(), Outcome::Settled);
        }
    });
}

#[test]
fn objects_keep_exact_references() {
    attached(|py, _| {
        let number = py.int(-1).unwrap();
        assert_eq!(number.as_int().unwrap(), -1);
        let again = number.clone();
        assert!(again.is(&number));
        assert_eq!(mock::references(number.as_raw()), 2);
        drop(again);
        assert_eq!(mock::references(number.as_raw()), 1);
        let raw = number.into_raw();
        assert_eq!(mock::references(raw), 1);
        // SAFETY: the reference that into_raw gave away.
        drop(unsafe { Object::from_raw(py, raw) });

        let dict = py.dict().unwrap();
        let key = py.string("key").unwrap();
        assert!(dict.item(&key).unwrap_err().is(Exception::KeyError));
        dict.set_item(&key, &py.int(3).unwrap()).unwrap();
        dict.set_item(&key, &py.int(4).unwrap()).unwrap();
        assert_eq!(dict.item(&key).unwrap().as_int().unwrap(), 4);
        assert!(key.set_item(&key, &key).unwrap_err().is(Exception::TypeError));

        let callable = own(py, mock::callable());
        assert!(callable.call(&[&key, &dict]).unwrap().is(&key));
        assert!(callable.call(&[]).unwrap_err().is(Exception::ValueError));
        assert!(callable.is_true().unwrap_err().is(Exception::TypeError));
        assert!(py.boolean(true).is_true().unwrap());
        assert!(!py.none().is_true().unwrap());
        assert!(key.as_int().unwrap_err().is(Exception::TypeError));
        assert!(dict.as_str().unwrap_err().is(Exception::TypeError));
        assert_eq!(key.as_str().unwrap(), "key");
        assert!(dict.str().unwrap_err().is(Exception::TypeError));
    });
}

#[test]
fn only_code_becomes_code() {
    attached(|py, _| {
        let error = py.int(1).unwrap().into_code().unwrap_err();
        assert_eq!(error.to_string(), "TypeError: a code object is needed, not int");
        let error = py.int(1).unwrap().code_of().unwrap_err();
        assert!(error.is(Exception::TypeError));
        let function = own(py, mock::function(mock::code("f")));
        assert_eq!(function.code_of().unwrap().name().unwrap(), "f");
        assert!(function.code_of().unwrap().code_of().is_ok());
    });
}

#[test]
fn running_out_of_memory_is_an_error() {
    attached(|py, _| {
        mock::fail_next_allocation();
        assert_eq!(py.int(1).unwrap_err().to_string(), "MemoryError");
        let error = Error::new(Exception::ValueError, "text");
        mock::fail_next_allocation();
        error.raise(py);
        assert_eq!(mock::raised().0, "MemoryError");
        // The capsule that was not made gives its value back.
        let value = Arc::new(());
        mock::fail_next_allocation();
        assert!(py.capsule(value.clone()).is_err());
        assert_eq!(Arc::strong_count(&value), 1);
    });
}

#[test]
fn a_capsule_gives_its_value_out_as_its_own_type_alone() {
    attached(|py, _| {
        let value = Arc::new(5_u8);
        let capsule = py.capsule(value.clone()).unwrap();
        assert_eq!(**capsule.value::<Arc<u8>>().unwrap(), 5);
        assert!(capsule.value::<Arc<i8>>().is_none());
        assert!(py.int(1).unwrap().value::<Arc<u8>>().is_none());
        assert!(own(py, mock::foreign_capsule()).value::<Arc<u8>>().is_none());
        mock::raise("KeyError", "on its way");
        drop(capsule);
        assert_eq!(mock::raised().0, "KeyError");
        assert_eq!(Arc::strong_count(&value), 1);
    });
}

#[test]
fn a_panic_in_a_destructor_goes_nowhere() {
    struct Panics;
    impl Drop for Panics {
        fn drop(&mut self) {
            panic!("in a destructor");
        }
    }
    attached(|py, _| drop(py.capsule(Panics).unwrap()));
}

#[test]
fn a_stored_object_belongs_to_its_interpreter() {
    attached(|py, first| {
        let object = py.int(5).unwrap();
        let stored = object.store().unwrap();
        assert!(stored.get(py).unwrap().is(&object));
        let second = mock::attach(1);
        let text = "RuntimeError: an object of interpreter 0 cannot be used in interpreter 1";
        assert_eq!(stored.get(py).unwrap_err().to_string(), text);
        second.end();
        mock::attach_to(Some(first));
        drop(stored);
        assert_eq!(mock::references(object.as_raw()), 1);
    });
}

#[test]
fn a_stored_object_is_not_touched_without_its_interpreter() {
    let mut kept = Vec::new();
    attached(|py, first| {
        let object = py.int(5).unwrap();
        let stored = [object.store().unwrap(), object.store().unwrap(), object.store().unwrap()];
        let [detached, elsewhere, later] = stored;
        std::thread::spawn(move || drop(detached)).join().unwrap();
        let second = mock::attach(1);
        drop(elsewhere);
        second.end();
        mock::attach_to(Some(first));
        assert_eq!(mock::references(object.as_raw()), 4);
        kept.push(later);
        // The references that could not be given back, for `attached` to find nothing left.
        for _ in 0..3 {
            mock::Py_DecRef(object.as_raw().cast());
        }
    });
    // The interpreter's end, and a next life with the same number: the object is gone.
    attached(|py, _| {
        let stored = kept.pop().unwrap();
        assert!(stored.get(py).unwrap_err().is(Exception::RuntimeError));
        drop(stored);
    });
}

#[test]
fn any_exception_object_can_be_raised_and_nothing_else() {
    attached(|py, _| {
        mock::raise("KeyboardInterrupt", "");
        let raised = Error::take(py);
        let object = raised.object().unwrap().clone();
        assert!(!raised.is(Exception::Exception));
        Error::from_object(object).raise(py);
        assert_eq!(mock::raised().0, "KeyboardInterrupt");
        let error = Error::from_object(py.int(1).unwrap());
        assert!(error.is(Exception::TypeError) && error.object().is_none());
        // An exception's class is not an exception.
        let class = raised.object().unwrap().class().unwrap();
        assert!(Error::from_object(class).is(Exception::TypeError));
        drop(raised);
        assert!(Error::take(py).is(Exception::SystemError));
    });
}

/// A process where `missing` is missing.
fn resolve_without(missing: &'static str) -> std::result::Result<Api, &'static str> {
    let find = |name: &CStr| -> *mut c_void {
        if name.to_str() == Ok(missing) {
            null_mut()
        } else {
            mock::find_symbol(name)
        }
    };
    // SAFETY: the stand-in's functions are what the names say.
    unsafe { Api::resolve(&find) }
}

#[test]
fn without_hooks_everything_but_hooks_works() {
    assert!(available());
    let api = resolve_without("PyUnstable_RemoveFrameHookEx").unwrap();
    let api: &'static Api = Box::leak(Box::new(api));
    attached(|_, _| {
        // SAFETY: attached.
        let py = unsafe { Python::with(api) };
        assert!(!py.has_hooks());
        let (hook, drops) = probe(|_| Ok(Verdict::Pass));
        let error = py.interpreter().install("nowhere", hook).err().unwrap();
        assert!(error.is(Exception::RuntimeError));
        assert!(error
            .to_string()
            .contains("no frame hooks (PyUnstable_RemoveFrameHookEx is missing)"));
        assert_eq!(drops.load(Ordering::Relaxed), 1);
        assert!(py.interpreter().clear_hooks().is_err());
        assert_eq!(py.int(3).unwrap().as_int().unwrap(), 3);
    });
}

#[test]
fn a_process_without_python_is_told_by_the_first_missing_name() {
    assert_eq!(resolve_without("Py_IncRef").err(), Some("Py_IncRef"));
    assert_eq!(resolve_without("PyExc_ValueError").err(), Some("PyExc_ValueError"));
}

mod a_module {
    use crate::{Arguments, Error, Exception, Object, Python, Result};

    fn add<'py>(py: Python<'py>, arguments: Arguments<'py>) -> Result<'py, Object<'py>> {
        let [left, right] = arguments.exactly()?;
        py.int(left.as_int()? + right.as_int()?)
    }

    fn last<'py>(_: Python<'py>, arguments: Arguments<'py>) -> Result<'py, Object<'py>> {
        if arguments.is_empty() {
            return Err(Error::new(Exception::ValueError, "nothing"));
        }
        let _beyond = arguments.get(arguments.len()).unwrap_err();
        arguments.get(arguments.len() - 1)
    }

    fn fall<'py>(_: Python<'py>, _: Arguments<'py>) -> Result<'py, Object<'py>> {
        panic!("over");
    }

    crate::module! {
        name: "mocked",
        init: PyInit_mocked,
        doc: "A module.",
        functions: { add: "add(left, right)", last: "last(*arguments)", fall: "fall()" }
    }
}

#[test]
fn a_module_is_defined_behind_a_header_of_the_interpreters_size() {
    attached(|py, _| {
        // SAFETY: as if the module were imported.
        let definition = unsafe { a_module::PyInit_mocked() };
        // SAFETY: as before.
        let again = unsafe { a_module::PyInit_mocked() };
        assert_eq!(definition, again);
        // The stand-in's header has 16 bytes; three words of m_base follow, then the name.
        let words = definition.cast::<usize>();
        // SAFETY: a PyModuleDef is that long and more.
        let [name, doc] =
            [5, 6].map(|place| unsafe { CStr::from_ptr(*words.add(place) as *const i8) });
        assert_eq!((name, doc), (c"mocked", c"A module."));
        // SAFETY: the methods, four words each, with an empty one at the end.
        let methods = unsafe { *words.add(8) } as *const usize;
        let function = |index: usize| {
            // SAFETY: there are three functions.
            let (name, call) = unsafe { (*methods.add(4 * index), *methods.add(4 * index + 1)) };
            // SAFETY: a function's name, and the function.
            let name = unsafe { CStr::from_ptr(name as *const i8) };
            // SAFETY: as above.
            let call = unsafe { std::mem::transmute::<usize, module::RawFunction>(call) };
            (name, call)
        };
        // SAFETY: the word behind the last function.
        assert_eq!(unsafe { *methods.add(12) }, 0);
        let (two, three) = (py.int(2).unwrap(), py.int(3).unwrap());
        let arguments = [two.as_raw().cast(), three.as_raw().cast()];
        let call = |index: usize, count: isize| {
            // SAFETY: there are as many arguments.
            let result = unsafe { function(index).1(null_mut(), arguments.as_ptr(), count) };
            // SAFETY: a new reference or NULL.
            unsafe { Object::from_raw(py, result.cast()) }
        };
        assert_eq!(function(0).0, c"add");
        assert_eq!(call(0, 2).unwrap().as_int().unwrap(), 5);
        assert!(call(0, 1).is_none());
        let text = "2 positional arguments are needed, 1 given".to_owned();
        assert_eq!(mock::raised(), ("TypeError", text));
        assert!(call(1, 2).unwrap().is(&three));
        assert!(call(1, 0).is_none());
        assert_eq!(mock::raised(), ("ValueError", "nothing".to_owned()));
        assert!(call(2, 0).is_none());
        assert_eq!(mock::raised(), ("RuntimeError", "fall() panicked: over".to_owned()));
    });
}

const _: () = {
    const fn needs_send_and_sync<T: Send + Sync>() {}
    needs_send_and_sync::<Stored>();
    needs_send_and_sync::<Hooks>();
};

#[test]
fn a_module_is_imported_by_one_symbol_only() {
    use crate::module::is_init_of;
    assert!(is_init_of("PyInit_doubling", "doubling"));
    for init in ["PyInit_doublinG", "PyInit_doubling2", "PyInit_doublin", "PyInit_", "malloc", ""] {
        assert!(!is_init_of(init, "doubling"), "{init}");
    }
    assert!(!is_init_of("PyInit_a", "doubling"));
    assert!(!is_init_of("PyInitXdoubling", "doubling"));
}
