//! A hook's view of the frame that is about to start.

use crate::api::{Hooks, InterpreterFrame};
use crate::object::{Code, Object};
use crate::python::Python;
use crate::Result;
use std::ptr::NonNull;

/// A frame before its first instruction. Reading it neither changes it nor makes
/// a frame object.
///
/// It is the hook's to read until the hook returns, and cannot be kept longer:
///
/// ```
/// use framehook::{Frame, FrameHook, Result, Verdict};
/// use std::cell::Cell;
/// thread_local!(static KEPT: Cell<Option<usize>> = Cell::default());
/// struct Hook;
/// impl FrameHook for Hook {
///     fn on_frame<'call>(&self, frame: &Frame<'call>) -> Result<'call, Verdict<'call>> {
///         KEPT.set(Some(frame.argument_count()));
///         Ok(Verdict::Pass)
///     }
/// }
/// ```
/// A hook that stores the frame does not compile, not even where no other thread gets to:
/// ```compile_fail,E0521
/// use framehook::{Frame, FrameHook, Result, Verdict};
/// use std::cell::Cell;
/// thread_local!(static KEPT: Cell<Option<&'static Frame<'static>>> = Cell::default());
/// struct Hook;
/// impl FrameHook for Hook {
///     fn on_frame<'call>(&self, frame: &Frame<'call>) -> Result<'call, Verdict<'call>> {
///         KEPT.set(Some(frame));
///         Ok(Verdict::Pass)
///     }
/// }
/// ```
/// Nor does one that only works with frames of a longer life:
/// ```compile_fail,E0308
/// use framehook::{Frame, FrameHook, Result, Verdict};
/// use std::cell::Cell;
/// thread_local!(static KEPT: Cell<Option<&'static Frame<'static>>> = Cell::default());
/// struct Hook;
/// impl FrameHook for Hook {
///     fn on_frame(&self, frame: &'static Frame<'static>) -> Result<'static, Verdict<'static>> {
///         KEPT.set(Some(frame));
///         Ok(Verdict::Pass)
///     }
/// }
/// ```
/// And what could hold one is no part of a hook, since a frame belongs to its thread:
/// ```
/// fn part_of_a_hook<T: Send + Sync>() {}
/// part_of_a_hook::<std::sync::Mutex<Vec<framehook::Stored>>>();
/// ```
/// ```compile_fail,E0277
/// fn part_of_a_hook<T: Send + Sync>() {}
/// part_of_a_hook::<std::sync::Mutex<Vec<framehook::Frame<'static>>>>();
/// ```
///
/// # Invariants
/// `frame` is being offered to a hook in this thread, as long as `'call` lasts.
pub struct Frame<'call> {
    python: Python<'call>,
    hooks: &'static Hooks,
    frame: NonNull<InterpreterFrame>,
}

impl<'call> Frame<'call> {
    /// # Safety
    /// A hook is being asked about `frame` in this thread until `'call` ends.
    pub(crate) unsafe fn new(
        python: Python<'call>,
        hooks: &'static Hooks,
        frame: NonNull<InterpreterFrame>,
    ) -> Self {
        // INVARIANT: the caller promises it.
        Self { python, hooks, frame }
    }

    /// The proof that this thread may touch Python objects.
    pub fn python(&self) -> Python<'call> {
        self.python
    }

    /// The code that is to run, as the hooks before have left it.
    pub fn code(&self) -> Result<'call, Code<'call>> {
        // SAFETY: attached, and the frame is being offered; a new reference or NULL
        // with an exception.
        let code = unsafe {
            self.python.own((self.hooks.PyUnstable_HookFrame_GetCode)(self.frame.as_ptr()))
        }?;
        code.into_code()
    }

    /// The function that was called. CPython makes one for a module, a class body
    /// and `exec()` too.
    pub fn function(&self) -> Result<'call, Object<'call>> {
        // SAFETY: as in `code`.
        unsafe {
            self.python.own((self.hooks.PyUnstable_HookFrame_GetFunction)(self.frame.as_ptr()))
        }
    }

    /// The global names: a dict.
    pub fn globals(&self) -> Result<'call, Object<'call>> {
        // SAFETY: as in `code`.
        unsafe {
            self.python.own((self.hooks.PyUnstable_HookFrame_GetGlobals)(self.frame.as_ptr()))
        }
    }

    /// The built-in names: a dict.
    pub fn builtins(&self) -> Result<'call, Object<'call>> {
        // SAFETY: as in `code`.
        unsafe {
            self.python.own((self.hooks.PyUnstable_HookFrame_GetBuiltins)(self.frame.as_ptr()))
        }
    }

    /// How many parameters the code has, `*args` and `**kwargs` included.
    pub fn argument_count(&self) -> usize {
        // SAFETY: attached, and the frame is being offered.
        let count =
            unsafe { (self.hooks.PyUnstable_HookFrame_GetArgumentCount)(self.frame.as_ptr()) };
        usize::try_from(count).unwrap_or(0) // it is never negative
    }

    /// The value of a parameter: positional ones first, then keyword-only ones,
    /// `*args`, `**kwargs`. IndexError if there is no such parameter.
    pub fn argument(&self, index: usize) -> Result<'call, Object<'call>> {
        // SAFETY: as in `code`; any index is allowed.
        unsafe {
            self.python.own((self.hooks.PyUnstable_HookFrame_GetArgument)(
                self.frame.as_ptr(),
                signed(index),
            ))
        }
    }

    /// The name of a parameter, in the same order. IndexError if there is no such parameter.
    pub fn argument_name(&self, index: usize) -> Result<'call, String> {
        // SAFETY: as in `code`; any index is allowed.
        let name = unsafe {
            self.python.own((self.hooks.PyUnstable_HookFrame_GetArgumentName)(
                self.frame.as_ptr(),
                signed(index),
            ))
        }?;
        name.as_str().map(str::to_owned)
    }

    /// The value of the parameter of that name; names are compared one by one.
    /// KeyError if there is no such parameter.
    pub fn argument_named(&self, name: &str) -> Result<'call, Object<'call>> {
        let name = self.python.string(name)?;
        // SAFETY: as in `code`; the name is a str that lives.
        unsafe {
            self.python.own((self.hooks.PyUnstable_HookFrame_GetArgumentByName)(
                self.frame.as_ptr(),
                name.as_raw().cast(),
            ))
        }
    }

    /// Names and values of all parameters, in order.
    pub fn arguments(
        &self,
    ) -> impl Iterator<Item = Result<'call, (String, Object<'call>)>> + use<'_, 'call> {
        (0..self.argument_count())
            .map(|index| Ok((self.argument_name(index)?, self.argument(index)?)))
    }
}

/// An index as C has it. What does not fit is no parameter's index in any case.
fn signed(index: usize) -> isize {
    isize::try_from(index).unwrap_or(isize::MAX)
}
