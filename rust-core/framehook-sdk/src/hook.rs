//! Writing a hook, installing it and taking it out.

use crate::api::{verdict, Api, InterpreterFrame, PyObject};
use crate::capsule::{drop_in, forget_payload, panic_text};
use crate::error::{Error, Exception};
use crate::frame::Frame;
use crate::object::Code;
use crate::python::{while_attached_to, Interpreter, Python};
use crate::Result;
use std::ffi::{c_int, c_void, CString};
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::Arc;

/// What a hook answers about a frame.
#[derive(Debug)]
pub enum Verdict<'call> {
    /// No change; ask again when this code starts the next time.
    Pass,
    /// Run this code instead, with the same arguments. Code that cannot stand in
    /// fails the call with `IncompatibleCodeError`; the frame's own code is no change.
    Replace(Code<'call>),
    /// No change, and never ask again about this code object: its calls then run at
    /// full speed.
    Settled,
}

/// A hook: asked about each frame before its first instruction, in the thread
/// that runs it. Not asked about frames that start while it, or another hook, runs
/// in the same thread.
///
/// Threads may ask at the same time, hence `Sync`. A panic becomes a RuntimeError
/// that fails the call, unless the extension is built with `panic = "abort"`.
///
/// Never hold a lock while you call into Python, drop an [`Object`](crate::Object) included: other
/// threads may run meanwhile, and their frames ask the same hook.
///
/// ```
/// use framehook::{Frame, FrameHook, Result, Verdict};
/// use std::sync::atomic::{AtomicU64, Ordering};
///
/// struct CountStarts(AtomicU64);
///
/// impl FrameHook for CountStarts {
///     fn on_frame<'call>(&self, _: &Frame<'call>) -> Result<'call, Verdict<'call>> {
///         self.0.fetch_add(1, Ordering::Relaxed);
///         Ok(Verdict::Pass)
///     }
/// }
/// ```
/// What cannot be shared between threads is refused:
/// ```compile_fail,E0277
/// use framehook::{Frame, FrameHook, Result, Verdict};
///
/// struct CountStarts(std::cell::Cell<u64>);
///
/// impl FrameHook for CountStarts {
///     fn on_frame<'call>(&self, _: &Frame<'call>) -> Result<'call, Verdict<'call>> {
///         self.0.set(self.0.get() + 1);
///         Ok(Verdict::Pass)
///     }
/// }
/// ```
pub trait FrameHook: Send + Sync + 'static {
    /// The verdict, or an exception that fails the call, as a wrong number of
    /// arguments would.
    fn on_frame<'call>(&self, frame: &Frame<'call>) -> Result<'call, Verdict<'call>>;
}

/// What a hook is for the engine: its user data. Owned by the engine and by the guard.
struct Registration<H> {
    hook: H,
    name: String,
    api: &'static Api,
    interpreter: i64,
    /// The engine's handle; 0 until it is known.
    id: AtomicI64,
    /// The guard is gone: whatever the engine asks, the hook is not asked any more.
    retired: AtomicBool,
    /// The engine has given the hook back.
    released: AtomicBool,
}

/// A hook that is installed; removes it when it is dropped.
///
/// Dropped in a thread that is not attached to the hook's interpreter, it cannot
/// remove anything: then the hook is retired, which means that it is not asked any
/// more and that the interpreter takes it out when it would ask it the next time,
/// or at its end. Dropped after the interpreter's end, or after somebody else has
/// removed the hook, it does nothing.
///
/// The hook itself is dropped when both the engine and the guard have let it go.
pub struct Installed<H: FrameHook> {
    registration: Arc<Registration<H>>,
    keeps: bool,
}

impl<'py> Interpreter<'py> {
    /// Installs a hook in this interpreter, behind those that are there. `name`
    /// appears in messages and in `framehook.hooks()`.
    ///
    /// RuntimeError if the interpreter has no frame hooks, or as many as it allows; ValueError
    /// if the name has a zero byte. Each code object is asked about again at its next
    /// call, which costs each of them one slow start.
    pub fn install<H: FrameHook>(self, name: &str, hook: H) -> Result<'py, Installed<H>> {
        let python = self.python;
        let hooks = python.hooks()?;
        let c_name = CString::new(name).map_err(|_| {
            Error::new(Exception::ValueError, "the name of a frame hook has a zero byte")
        })?;
        let registration = Arc::new(Registration {
            hook,
            name: name.to_owned(),
            api: python.api,
            interpreter: self.id(),
            id: AtomicI64::new(0),
            retired: AtomicBool::new(false),
            released: AtomicBool::new(false),
        });
        let user_data = Arc::into_raw(registration.clone()).cast_mut();
        // SAFETY: attached to this interpreter; `ask` and `release` are made for this
        // user data, a reference that the engine owns from here on, and the name is copied.
        let id = unsafe {
            (hooks.PyUnstable_AddFrameHookEx)(
                self.state,
                ask::<H>,
                user_data.cast(),
                Some(release::<H>),
                c_name.as_ptr(),
                0,
            )
        };
        if let Err(error) = python.check(id) {
            if !registration.released.load(Ordering::Acquire) {
                // SAFETY: the engine has not taken over the reference that was made above.
                drop(unsafe { Arc::from_raw(user_data) });
            }
            return Err(error);
        }
        registration.id.store(id, Ordering::Release);
        Ok(Installed { registration, keeps: false })
    }
}

impl<H: FrameHook> Installed<H> {
    /// The hook.
    pub fn hook(&self) -> &H {
        &self.registration.hook
    }

    /// The engine's handle: a positive number, never used twice in an interpreter.
    /// The functions of the Python module `framehook` take it.
    pub fn id(&self) -> i64 {
        self.registration.id.load(Ordering::Acquire)
    }

    /// Whether the engine still has the hook: others may remove it too.
    pub fn is_installed(&self) -> bool {
        !self.registration.released.load(Ordering::Acquire)
    }

    /// Removes the hook now. ValueError if somebody else has removed it;
    /// RuntimeError, and the hook is retired, if the thread is attached to another
    /// interpreter.
    pub fn remove(self, python: Python<'_>) -> Result<'_, ()> {
        self.in_own_interpreter(python)?;
        // Whatever comes of it, dropping the guard has nothing left to do.
        self.registration.retired.store(true, Ordering::Release);
        remove(python, self.id())
    }

    /// Leaves the hook installed until the interpreter's end.
    pub fn keep(mut self) {
        self.keeps = true;
    }

    /// Asks the hook, or does not ask it, from now on. A disabled hook keeps its place
    /// in the order and what it has settled. ValueError if the hook has been removed;
    /// RuntimeError in another interpreter than the hook's.
    pub fn enable<'py>(&self, python: Python<'py>, on: bool) -> Result<'py, ()> {
        self.in_own_interpreter(python)?;
        let hooks = python.hooks()?;
        let state = python.interpreter().state;
        // SAFETY: attached to this interpreter; any handle is allowed.
        let status = unsafe {
            if on {
                (hooks.PyUnstable_EnableFrameHook)(state, self.id())
            } else {
                (hooks.PyUnstable_DisableFrameHook)(state, self.id())
            }
        };
        python.check(status.into())
    }

    /// The same for frames of the calling thread only.
    pub fn enable_in_thread<'py>(&self, python: Python<'py>, on: bool) -> Result<'py, ()> {
        self.in_own_interpreter(python)?;
        let hooks = python.hooks()?;
        // SAFETY: attached; any handle is allowed.
        let status = unsafe {
            if on {
                (hooks.PyUnstable_EnableFrameHookInThread)(self.id())
            } else {
                (hooks.PyUnstable_DisableFrameHookInThread)(self.id())
            }
        };
        python.check(status.into())
    }

    /// The same for one code object: enabling forgets that it was settled, disabling settles it.
    pub fn enable_for<'py>(&self, code: &Code<'py>, on: bool) -> Result<'py, ()> {
        let python = code.python();
        self.in_own_interpreter(python)?;
        let hooks = python.hooks()?;
        // SAFETY: attached; any handle is allowed, and the code is alive.
        let status = unsafe {
            if on {
                (hooks.PyUnstable_EnableFrameHookForCode)(self.id(), code.as_raw().cast())
            } else {
                (hooks.PyUnstable_DisableFrameHookForCode)(self.id(), code.as_raw().cast())
            }
        };
        python.check(status.into())
    }

    fn in_own_interpreter<'py>(&self, python: Python<'py>) -> Result<'py, ()> {
        let here = python.interpreter().id();
        let own = self.registration.interpreter;
        if own == here {
            return Ok(());
        }
        let text = format!(
            "frame hook {:?} belongs to interpreter {own}, not {here}",
            self.registration.name
        );
        Err(Error::new(Exception::RuntimeError, text))
    }
}

impl<H: FrameHook> Drop for Installed<H> {
    fn drop(&mut self) {
        let registration = &self.registration;
        if self.keeps || registration.released.load(Ordering::Acquire) {
            return;
        }
        if registration.retired.swap(true, Ordering::AcqRel) {
            return; // by `remove`
        }
        while_attached_to(registration.api, registration.interpreter, |python| {
            // The one error there can be is that somebody else has just removed it.
            remove(python, registration.id.load(Ordering::Acquire)).ok();
        });
    }
}

fn remove(python: Python<'_>, id: i64) -> Result<'_, ()> {
    let hooks = python.hooks()?;
    let state = python.interpreter().state;
    // SAFETY: attached to this interpreter; any handle is allowed.
    let status = unsafe { (hooks.PyUnstable_RemoveFrameHookEx)(state, id) };
    python.check(status.into())
}

/// The C face of a hook of type `H`.
///
/// # Safety
/// The engine calls it, in an attached thread, with the frame that is offered, the user data of
/// `install::<H>` and room for the replacement.
unsafe extern "C" fn ask<H: FrameHook>(
    frame: *mut InterpreterFrame,
    user_data: *mut c_void,
    replacement: *mut *mut PyObject,
) -> c_int {
    // SAFETY: the engine keeps its reference until this round is over.
    let registration = unsafe { &*user_data.cast::<Registration<H>>() };
    // SAFETY: the engine asks in an attached thread, which stays attached until we return.
    let python = unsafe { Python::with(registration.api) };
    if registration.retired.load(Ordering::Acquire) {
        // Nobody could remove it at the time. An error: somebody has by now.
        remove(python, registration.id.load(Ordering::Acquire)).ok();
        return verdict::PASS;
    }
    let (Ok(hooks), Some(frame)) = (registration.api.hooks.as_ref(), NonNull::new(frame)) else {
        return verdict::PASS; // it was installed, and the engine has a frame
    };
    // SAFETY: the engine offers this frame to us until we return. Its lifetime may be
    // anything here, and so `on_frame`, which is to work with any, can use none but its call's.
    let frame = unsafe { Frame::new(python, hooks, frame) };
    let answer = catch_unwind(AssertUnwindSafe(|| registration.hook.on_frame(&frame)));
    let answer = answer.unwrap_or_else(|payload| {
        let text =
            format!("frame hook {:?} panicked: {}", registration.name, panic_text(&*payload));
        forget_payload(payload);
        Err(Error::new(Exception::RuntimeError, text))
    });
    match answer {
        Ok(Verdict::Pass) => verdict::PASS,
        Ok(Verdict::Settled) => verdict::SETTLED,
        Ok(Verdict::Replace(code)) => {
            // SAFETY: the engine gives room for the replacement, and takes the reference.
            unsafe { *replacement = code.into_object().into_raw().cast() };
            verdict::REPLACE
        }
        Err(error) => {
            error.raise(python);
            verdict::ERROR
        }
    }
}

/// Gives the engine's reference to a hook back.
///
/// # Safety
/// The engine calls it once, with the user data of `install::<H>`, in a thread attached
/// to the hook's interpreter, when no round uses the hook any more.
unsafe extern "C" fn release<H: FrameHook>(user_data: *mut c_void) {
    // SAFETY: `install` made it from this type of Arc and gave this reference away.
    let registration = unsafe { Arc::from_raw(user_data.cast::<Registration<H>>()) };
    registration.released.store(true, Ordering::Release);
    let (api, interpreter) = (registration.api, registration.interpreter);
    drop_in(api, interpreter, registration);
}
