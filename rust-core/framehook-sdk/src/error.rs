//! What can go wrong: a Python exception, raised already or still to be made.

use crate::object::Object;
use crate::python::Python;
use std::fmt;

/// The outcome of what may raise.
pub type Result<'py, T> = std::result::Result<T, Error<'py>>;

/// The types of exceptions that [`Error::new`] makes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
#[allow(missing_docs)] // Python's own names say it
pub enum Exception {
    AttributeError,
    Exception,
    ImportError,
    IndexError,
    KeyError,
    OverflowError,
    RuntimeError,
    SystemError,
    TypeError,
    ValueError,
}

/// A Python exception on its way to Python code.
///
/// A hook or a function that returns it raises it. It is never also set in the
/// thread: what fails takes its exception along.
pub struct Error<'py>(Reason<'py>);

enum Reason<'py> {
    New(Exception, String),
    Raised(Object<'py>),
}

impl<'py> Error<'py> {
    /// An exception of that type with this text. It is made when it is raised, so
    /// this needs no [`Python`].
    pub fn new(exception: Exception, text: impl Into<String>) -> Self {
        Self(Reason::New(exception, text.into()))
    }

    /// An exception object; anything else becomes a TypeError when it is raised.
    pub fn from_object(exception: Object<'py>) -> Self {
        let python = exception.python();
        // Its type is asked, and not the object, which may lie about its class.
        let is_exception = exception.class().is_ok_and(|class| {
            // SAFETY: attached; both are objects that live.
            unsafe {
                (python.api.python.PyErr_GivenExceptionMatches)(
                    class.as_raw().cast(),
                    *python.api.python.PyExc_BaseException,
                ) == 1
            }
        });
        if is_exception {
            Self::raised(exception)
        } else {
            let text = format!("exceptions must be exceptions, not {}", exception.type_name());
            Self::new(Exception::TypeError, text)
        }
    }

    /// What a call has raised, so an exception for sure.
    pub(crate) fn raised(exception: Object<'py>) -> Self {
        Self(Reason::Raised(exception))
    }

    /// The exception object, if there is one already.
    pub fn object(&self) -> Option<&Object<'py>> {
        match &self.0 {
            Reason::New(..) => None,
            Reason::Raised(object) => Some(object),
        }
    }

    /// Whether an `except` clause for this type would catch it.
    pub fn is(&self, exception: Exception) -> bool {
        match &self.0 {
            Reason::New(own, _) => *own == exception || exception == Exception::Exception,
            Reason::Raised(object) => {
                let python = object.python();
                // SAFETY: attached; both are objects that live.
                unsafe {
                    (python.api.python.PyErr_GivenExceptionMatches)(
                        object.as_raw().cast(),
                        type_object(python, exception),
                    ) == 1
                }
            }
        }
    }

    /// The exception that a failed call has left; none is set afterwards.
    pub(crate) fn take(python: Python<'py>) -> Self {
        // SAFETY: attached; the exception that was set, or NULL, is ours now.
        let raised = unsafe {
            let raised = (python.api.python.PyErr_GetRaisedException)();
            Object::from_owned(python, raised)
        };
        match raised {
            Some(object) => Self(Reason::Raised(object)),
            None => Self::new(Exception::SystemError, "a call failed without an exception"),
        }
    }

    /// Sets the exception in the thread, for C to find.
    pub(crate) fn raise(self, python: Python<'py>) {
        match self.0 {
            // SAFETY: attached; takes the reference.
            Reason::Raised(object) => unsafe {
                (python.api.python.PyErr_SetRaisedException)(object.into_raw().cast())
            },
            Reason::New(exception, text) => match python.string(&text) {
                // SAFETY: attached; both are objects that live.
                Ok(text) => unsafe {
                    (python.api.python.PyErr_SetObject)(
                        type_object(python, exception),
                        text.as_raw().cast(),
                    )
                },
                // No memory for the text: MemoryError is what is raised.
                Err(Self(Reason::Raised(object))) => Self::raised(object).raise(python),
                // SAFETY: as above.
                Err(Self(Reason::New(..))) => unsafe {
                    (python.api.python.PyErr_SetObject)(
                        type_object(python, exception),
                        python.none().as_raw().cast(),
                    )
                },
            },
        }
    }
}

fn type_object(python: Python<'_>, exception: Exception) -> *mut crate::api::PyObject {
    let table = &python.api.python;
    let variable = match exception {
        Exception::AttributeError => table.PyExc_AttributeError,
        Exception::Exception => table.PyExc_Exception,
        Exception::ImportError => table.PyExc_ImportError,
        Exception::IndexError => table.PyExc_IndexError,
        Exception::KeyError => table.PyExc_KeyError,
        Exception::OverflowError => table.PyExc_OverflowError,
        Exception::RuntimeError => table.PyExc_RuntimeError,
        Exception::SystemError => table.PyExc_SystemError,
        Exception::TypeError => table.PyExc_TypeError,
        Exception::ValueError => table.PyExc_ValueError,
    };
    // SAFETY: the address of CPython's variable, which is set as long as the
    // interpreter runs.
    unsafe { *variable }
}

/// `ValueError: text` for what is still to be made, else the type's name: asking a
/// raised exception for its text could run Python code. [`Object::str`] does.
impl fmt::Display for Error<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Reason::New(exception, text) => write!(formatter, "{exception:?}: {text}"),
            Reason::Raised(object) => formatter.write_str(&object.type_name()),
        }
    }
}

impl fmt::Debug for Error<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, formatter)
    }
}

impl std::error::Error for Error<'_> {}
