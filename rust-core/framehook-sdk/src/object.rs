//! References to Python objects.

use crate::api::PyObject;
use crate::error::{Error, Exception};
use crate::python::Python;
use crate::stored::Stored;
use crate::Result;
use std::ffi::c_void;
use std::fmt;
use std::ptr::{null_mut, NonNull};

/// A reference to a Python object: counted, and given back when it is dropped.
///
/// It lives at most as long as the call that it was made in. To keep an object
/// longer, [`store`](Self::store) it:
///
/// ```
/// use framehook::{Frame, FrameHook, Object, Result, Stored, Verdict};
/// use std::cell::RefCell;
/// thread_local!(static KEPT: RefCell<Option<Stored>> = RefCell::default());
/// struct Hook;
/// impl FrameHook for Hook {
///     fn on_frame<'call>(&self, frame: &Frame<'call>) -> Result<'call, Verdict<'call>> {
///         KEPT.set(Some(frame.globals()?.store()?));
///         Ok(Verdict::Pass)
///     }
/// }
/// ```
/// ```compile_fail,E0521
/// use framehook::{Frame, FrameHook, Object, Result, Stored, Verdict};
/// use std::cell::RefCell;
/// thread_local!(static KEPT: RefCell<Option<Object<'static>>> = RefCell::default());
/// struct Hook;
/// impl FrameHook for Hook {
///     fn on_frame<'call>(&self, frame: &Frame<'call>) -> Result<'call, Verdict<'call>> {
///         KEPT.set(Some(frame.globals()?));
///         Ok(Verdict::Pass)
///     }
/// }
/// ```
/// Nor can it go to another thread:
/// ```compile_fail,E0277
/// fn elsewhere(object: framehook::Object<'_>) {
///     std::thread::scope(|scope| { scope.spawn(|| object.is_none()); });
/// }
/// ```
///
/// Methods that run Python code (all that return a [`Result`]) may let other
/// threads run: call them without holding a lock that a hook takes.
///
/// # Invariants
/// `pointer` is a reference that this value owns, to an object of the
/// interpreter that the thread is attached to.
pub struct Object<'py> {
    python: Python<'py>,
    pointer: NonNull<PyObject>,
}

impl<'py> Object<'py> {
    /// Takes over a reference.
    ///
    /// # Safety
    /// `pointer` is NULL, or a `PyObject *` of this interpreter and a reference
    /// that the caller owns and gives away.
    pub unsafe fn from_raw(python: Python<'py>, pointer: *mut c_void) -> Option<Self> {
        // SAFETY: the caller's promise is handed on.
        unsafe { Self::from_owned(python, pointer.cast()) }
    }

    /// # Safety
    /// As for [`from_raw`](Self::from_raw).
    pub(crate) unsafe fn from_owned(python: Python<'py>, pointer: *mut PyObject) -> Option<Self> {
        // INVARIANT: the caller gives the reference away.
        NonNull::new(pointer).map(|pointer| Self { python, pointer })
    }

    /// # Safety
    /// `pointer` is NULL or an object of this interpreter that is alive.
    pub(crate) unsafe fn from_borrowed(
        python: Python<'py>,
        pointer: *mut PyObject,
    ) -> Option<Self> {
        if !pointer.is_null() {
            // SAFETY: attached, and the object is alive.
            unsafe { (python.api.python.Py_IncRef)(pointer) };
        }
        // SAFETY: the reference just made is given away.
        unsafe { Self::from_owned(python, pointer) }
    }

    /// The `PyObject *`, borrowed, for code that has another binding to Python.
    pub fn as_raw(&self) -> *mut c_void {
        self.pointer.as_ptr().cast()
    }

    /// The `PyObject *` together with its reference, which is the caller's to give back.
    pub fn into_raw(self) -> *mut c_void {
        std::mem::ManuallyDrop::new(self).as_raw()
    }

    fn raw(&self) -> *mut PyObject {
        self.pointer.as_ptr()
    }

    /// The proof that came with this reference.
    pub fn python(&self) -> Python<'py> {
        self.python
    }

    /// A number that no other living object has (`id()` in Python).
    pub fn identity(&self) -> usize {
        self.pointer.as_ptr() as usize
    }

    /// Whether both are the same object (`is` in Python).
    pub fn is(&self, other: &Object<'_>) -> bool {
        self.pointer == other.pointer
    }

    /// Whether it is `None`.
    pub fn is_none(&self) -> bool {
        self.is(&self.python.none())
    }

    /// `bool(object)`. May run Python code, and raise what that raises.
    pub fn is_true(&self) -> Result<'py, bool> {
        // SAFETY: attached, and the object is alive.
        let answer = unsafe { (self.python.api.python.PyObject_IsTrue)(self.raw()) };
        self.python.check(answer.into())?;
        Ok(answer != 0)
    }

    /// Its type.
    pub fn class(&self) -> Result<'py, Object<'py>> {
        // SAFETY: attached, and the object is alive; a new reference.
        unsafe { self.python.own((self.python.api.python.PyObject_Type)(self.raw())) }
    }

    /// Whether the object's type is exactly the one at this address.
    pub(crate) fn has_exact_type(&self, type_object: *const PyObject) -> bool {
        self.class().is_ok_and(|class| std::ptr::eq(class.raw(), type_object))
    }

    /// The name of its type, for messages.
    pub fn type_name(&self) -> String {
        let name = self.class().and_then(|class| class.attribute("__name__"));
        name.ok().and_then(|name| name.as_str().ok().map(str::to_owned)).unwrap_or_default()
    }

    /// `str(object)`. May run Python code, and raise what that raises.
    pub fn str(&self) -> Result<'py, String> {
        // SAFETY: attached, and the object is alive; a new reference or NULL with an exception.
        let text = unsafe { self.python.own((self.python.api.python.PyObject_Str)(self.raw())) }?;
        text.as_str().map(str::to_owned)
    }

    /// `repr(object)`. May run Python code, and raise what that raises.
    pub fn repr(&self) -> Result<'py, String> {
        // SAFETY: attached, and the object is alive; a new reference or NULL with an exception.
        let text = unsafe { self.python.own((self.python.api.python.PyObject_Repr)(self.raw())) }?;
        text.as_str().map(str::to_owned)
    }

    /// The text of a Python str, without a copy. TypeError for anything else;
    /// UnicodeEncodeError if the text has lone surrogates.
    ///
    /// ```
    /// fn first<'a>(object: &'a framehook::Object<'_>) -> Option<&'a str> {
    ///     object.as_str().ok()
    /// }
    /// ```
    /// ```compile_fail,E0515
    /// fn first<'a>(object: framehook::Object<'a>) -> Option<&'a str> {
    ///     object.as_str().ok()
    /// }
    /// ```
    pub fn as_str(&self) -> Result<'py, &str> {
        let mut length: isize = 0;
        // SAFETY: attached, the object is alive, and there is room for the length.
        let start =
            unsafe { (self.python.api.python.PyUnicode_AsUTF8AndSize)(self.raw(), &mut length) };
        if start.is_null() {
            return Err(Error::take(self.python));
        }
        // SAFETY: CPython keeps the UTF-8 form of a str, of this length, unchanged as
        // long as the str lives; `self` keeps it alive while the result is borrowed.
        let bytes = unsafe { std::slice::from_raw_parts(start.cast::<u8>(), length as usize) };
        // SAFETY: CPython made this UTF-8 from code points, without surrogates.
        Ok(unsafe { std::str::from_utf8_unchecked(bytes) })
    }

    /// The value of a Python int, or of what has `__index__`. TypeError for
    /// anything else, OverflowError if it does not fit.
    pub fn as_int(&self) -> Result<'py, i64> {
        // SAFETY: attached, and the object is alive.
        let value = unsafe { (self.python.api.python.PyLong_AsLongLong)(self.raw()) };
        if value != -1 {
            return Ok(value);
        }
        // -1 is a value like any other, or says that an exception is set.
        // SAFETY: attached; the exception that was set, or NULL, is ours now.
        let raised = unsafe {
            let raised = (self.python.api.python.PyErr_GetRaisedException)();
            Object::from_owned(self.python, raised)
        };
        raised.map_or(Ok(value), |raised| Err(Error::raised(raised)))
    }

    /// `object.name`. May run Python code; AttributeError if there is none.
    pub fn attribute(&self, name: &str) -> Result<'py, Object<'py>> {
        let name = self.python.string(name)?;
        // SAFETY: attached, and both are alive; a new reference or NULL with an exception.
        unsafe {
            self.python.own((self.python.api.python.PyObject_GetAttr)(self.raw(), name.raw()))
        }
    }

    /// `object[key]`. May run Python code; KeyError or IndexError if there is none.
    pub fn item(&self, key: &Object<'py>) -> Result<'py, Object<'py>> {
        // SAFETY: attached, and both are alive; a new reference or NULL with an exception.
        unsafe { self.python.own((self.python.api.python.PyObject_GetItem)(self.raw(), key.raw())) }
    }

    /// `object[key] = value`. May run Python code, and raise what that raises.
    pub fn set_item(&self, key: &Object<'py>, value: &Object<'py>) -> Result<'py, ()> {
        // SAFETY: attached, and all three are alive.
        let status = unsafe {
            (self.python.api.python.PyObject_SetItem)(self.raw(), key.raw(), value.raw())
        };
        self.python.check(status.into())
    }

    /// `object(*arguments)`. Frames that start meanwhile in this thread are offered
    /// to no hook, if it is a hook that calls. Raises what the call raises.
    pub fn call(&self, arguments: &[&Object<'py>]) -> Result<'py, Object<'py>> {
        let pointers: Vec<*mut PyObject> =
            arguments.iter().map(|argument| argument.raw()).collect();
        // SAFETY: attached; the callable and the arguments are alive, and there are as
        // many as is said, none by keyword; a new reference or NULL with an exception.
        unsafe {
            self.python.own((self.python.api.python.PyObject_Vectorcall)(
                self.raw(),
                pointers.as_ptr(),
                pointers.len(),
                null_mut(),
            ))
        }
    }

    /// As a code object; TypeError if it is none.
    pub fn into_code(self) -> Result<'py, Code<'py>> {
        if self.has_exact_type(self.python.api.python.PyCode_Type) {
            // INVARIANT: the type was just looked at.
            return Ok(Code(self));
        }
        let text = format!("a code object is needed, not {}", self.type_name());
        Err(Error::new(Exception::TypeError, text))
    }

    /// The code of a Python function, or the code object itself. TypeError if it is neither.
    pub fn code_of(&self) -> Result<'py, Code<'py>> {
        match self.clone().into_code() {
            Ok(code) => Ok(code),
            Err(_) => match self.attribute("__code__") {
                Ok(code) => code.into_code(),
                Err(error) if error.is(Exception::AttributeError) => {
                    let text = format!(
                        "a Python function or its code is needed, not {}",
                        self.type_name()
                    );
                    Err(Error::new(Exception::TypeError, text))
                }
                Err(error) => Err(error),
            },
        }
    }

    /// A reference that can be kept beyond the call, in a hook for example.
    /// RuntimeError or MemoryError if the interpreter is too far at its end.
    pub fn store(&self) -> Result<'py, Stored> {
        Stored::new(self)
    }
}

impl Clone for Object<'_> {
    fn clone(&self) -> Self {
        // SAFETY: attached, and the object is alive.
        unsafe { (self.python.api.python.Py_IncRef)(self.raw()) };
        // INVARIANT: the reference just made is the clone's.
        Self { python: self.python, pointer: self.pointer }
    }
}

impl Drop for Object<'_> {
    fn drop(&mut self) {
        // SAFETY: attached; the reference is this value's and is given back once.
        unsafe { (self.python.api.python.Py_DecRef)(self.raw()) }
    }
}

/// The type's name and the address: asking for more could run Python code.
impl fmt::Debug for Object<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "<{} object at {:p}>", self.type_name(), self.pointer)
    }
}

/// A code object. The accessors read its attributes, which makes an object or two each time.
///
/// # Invariants
/// The object's type is `types.CodeType`.
#[derive(Clone, Debug)]
pub struct Code<'py>(Object<'py>);

impl<'py> Code<'py> {
    /// `co_name`: of a function, or `<module>`, `<lambda>` and the like.
    pub fn name(&self) -> Result<'py, String> {
        self.text("co_name")
    }

    /// `co_qualname`: with the names of the classes and functions around.
    pub fn qualified_name(&self) -> Result<'py, String> {
        self.text("co_qualname")
    }

    /// `co_filename`.
    pub fn file_name(&self) -> Result<'py, String> {
        self.text("co_filename")
    }

    /// `co_firstlineno`: 0 where there is none.
    pub fn first_line(&self) -> Result<'py, i64> {
        self.0.attribute("co_firstlineno")?.as_int()
    }

    fn text(&self, attribute: &str) -> Result<'py, String> {
        self.0.attribute(attribute)?.as_str().map(str::to_owned)
    }

    /// As any object.
    pub fn into_object(self) -> Object<'py> {
        self.0
    }
}

impl<'py> std::ops::Deref for Code<'py> {
    type Target = Object<'py>;

    fn deref(&self) -> &Object<'py> {
        &self.0
    }
}
