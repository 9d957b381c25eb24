//! Making an extension module without `unsafe`: what [`module!`](crate::module!) expands to.

use crate::api::{find_symbol, Api, PyObject};
use crate::capsule::{forget_payload, panic_text};
use crate::error::{Error, Exception};
use crate::object::Object;
use crate::python::Python;
use crate::Result;
use std::ffi::{c_char, c_int, c_void, CString};
use std::mem::{align_of, size_of};
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::ptr::null_mut;
use std::sync::OnceLock;

/// The positional arguments of a function of a module.
#[derive(Clone, Copy)]
pub struct Arguments<'py> {
    python: Python<'py>,
    /// # Invariants
    /// Objects that live as long as `'py`, since the caller of the function keeps them.
    pointers: &'py [*mut PyObject],
}

impl<'py> Arguments<'py> {
    /// How many there are.
    pub fn len(&self) -> usize {
        self.pointers.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.pointers.is_empty()
    }

    /// One of them. TypeError if there are not so many.
    pub fn get(&self, index: usize) -> Result<'py, Object<'py>> {
        let pointer = self.pointers.get(index).copied().unwrap_or(null_mut());
        // SAFETY: attached, and the caller keeps the argument alive.
        let object = unsafe { Object::from_borrowed(self.python, pointer) };
        object.ok_or_else(|| {
            let text = format!("argument {} is missing, {} given", index + 1, self.len());
            Error::new(Exception::TypeError, text)
        })
    }

    /// All of them, if there are as many. TypeError if not.
    pub fn exactly<const N: usize>(&self) -> Result<'py, [Object<'py>; N]> {
        let wrong = || {
            let text = format!("{N} positional arguments are needed, {} given", self.len());
            Error::new(Exception::TypeError, text)
        };
        let pointers: [*mut PyObject; N] = self.pointers.try_into().map_err(|_| wrong())?;
        Ok(pointers.map(|pointer| {
            // SAFETY: attached, and the caller keeps the argument alive.
            let object = unsafe { Object::from_borrowed(self.python, pointer) };
            object.expect("CPython passes no NULL for an argument")
        }))
    }
}

/// `PyMethodDef`.
#[repr(C)]
#[doc(hidden)]
pub struct Method {
    name: *const c_char,
    call: Option<RawFunction>,
    flags: c_int,
    doc: *const c_char,
}

/// `PyModuleDef_Slot`.
#[repr(C)]
struct Slot {
    kind: c_int,
    value: *mut c_void,
}

/// What follows the object header in `PyModuleDef`: `m_base` without that, and the rest.
#[repr(C)]
struct DefinitionBody {
    base_init: *mut c_void,
    base_index: isize,
    base_copy: *mut c_void,
    name: *const c_char,
    doc: *const c_char,
    state_bytes: isize,
    methods: *const Method,
    slots: *const Slot,
    traverse: *mut c_void,
    clear: *mut c_void,
    free: *mut c_void,
}

/// A function that takes its arguments as an array (METH_FASTCALL).
#[doc(hidden)]
pub type RawFunction =
    unsafe extern "C" fn(*mut PyObject, *const *mut PyObject, isize) -> *mut PyObject;
#[doc(hidden)]
pub type RawModule = *mut PyObject;

const METH_FASTCALL: c_int = 0x80;
const SLOT_MULTIPLE_INTERPRETERS: c_int = 3;
const OWN_GIL_SUPPORTED: *mut c_void = std::ptr::without_provenance_mut(2);
const SLOT_GIL: c_int = 4;
const GIL_NOT_USED: *mut c_void = std::ptr::without_provenance_mut(1);

/// One function of a module, as the macro lists it.
#[doc(hidden)]
pub struct Function {
    pub name: &'static str,
    pub doc: &'static str,
    pub call: RawFunction,
}

/// The address of a module's definition, once it is made.
#[doc(hidden)]
pub type Definition = OnceLock<usize>;

/// What `PyInit_<module>` returns: the definition of the module, or NULL with an exception.
///
/// # Safety
/// CPython is importing the module in this thread.
#[doc(hidden)]
pub unsafe fn define(
    definition: &Definition,
    name: &'static str,
    doc: &'static str,
    functions: &[Function],
) -> RawModule {
    let api = match Api::get() {
        Ok(api) => api,
        Err(missing) => {
            raise_import_error(&format!(
                "{name} needs CPython 3.13 or newer: this interpreter has no {missing}"
            ));
            return null_mut();
        }
    };
    // SAFETY: the import's thread is attached, and stays so until this function returns.
    let python = unsafe { Python::with(api) };
    let header = match header_bytes(python) {
        Ok(header) => header,
        Err(error) => {
            error.raise(python);
            return null_mut();
        }
    };
    let address = *definition.get_or_init(|| make(header, name, doc, functions));
    // SAFETY: attached; a PyModuleDef that lives for ever.
    unsafe { (api.python.PyModuleDef_Init)(address as *mut PyObject) }
}

/// The size of what every object begins with, in this interpreter: it differs between
/// the normal and the free-threaded build, and the interpreter knows.
fn header_bytes(python: Python<'_>) -> Result<'_, usize> {
    // SAFETY: attached; a type that lives as long as the interpreter.
    let object =
        unsafe { Object::from_borrowed(python, python.api.python.PyBaseObject_Type.cast_mut()) };
    let size = object.map(|object| object.attribute("__basicsize__")?.as_int()).transpose()?;
    size.and_then(|size| usize::try_from(size).ok())
        .filter(|size| size % align_of::<DefinitionBody>() == 0)
        .ok_or_else(|| Error::new(Exception::SystemError, "objects of an unknown size"))
}

/// Makes a PyModuleDef. It is never freed: an extension module is never unloaded.
fn make(header: usize, name: &str, doc: &str, functions: &[Function]) -> usize {
    let forever = |text: &str| -> *const c_char {
        // A zero byte would end the text.
        CString::new(text.replace('\0', "")).unwrap_or_default().into_raw()
    };
    let mut methods: Vec<Method> = functions
        .iter()
        .map(|function| Method {
            name: forever(function.name),
            call: Some(function.call),
            flags: METH_FASTCALL,
            doc: forever(function.doc),
        })
        .collect();
    let end = std::ptr::null();
    methods.push(Method { name: end, call: None, flags: 0, doc: end });
    let slots = vec![
        Slot { kind: SLOT_MULTIPLE_INTERPRETERS, value: OWN_GIL_SUPPORTED },
        Slot { kind: SLOT_GIL, value: GIL_NOT_USED },
        Slot { kind: 0, value: null_mut() },
    ];
    let body = DefinitionBody {
        base_init: null_mut(),
        base_index: 0,
        base_copy: null_mut(),
        name: forever(name),
        doc: forever(doc),
        state_bytes: 0,
        methods: methods.leak().as_ptr(),
        slots: slots.leak().as_ptr(),
        traverse: null_mut(),
        clear: null_mut(),
        free: null_mut(),
    };
    // Words, for the alignment; zero is what PyModuleDef_Init expects of the header.
    let words = (header + size_of::<DefinitionBody>()).div_ceil(size_of::<u64>());
    let memory = vec![0u64; words].leak().as_mut_ptr();
    // SAFETY: there are so many bytes and more, and `header` keeps the alignment.
    unsafe { memory.byte_add(header).cast::<DefinitionBody>().write(body) };
    memory as usize
}

/// Where not even the table is complete: two functions are enough to say so.
fn raise_import_error(text: &str) {
    let set_string = find_symbol(c"PyErr_SetString");
    let import_error = find_symbol(c"PyExc_ImportError");
    if set_string.is_null() || import_error.is_null() {
        return;
    }
    let text = CString::new(text).unwrap_or_default();
    // SAFETY: the function of this name has this type in every CPython.
    let set_string = unsafe {
        std::mem::transmute::<*mut c_void, unsafe extern "C" fn(*mut PyObject, *const c_char)>(
            set_string,
        )
    };
    // SAFETY: the variable of this name holds an exception type, and the text is copied.
    unsafe { set_string(*import_error.cast::<*mut PyObject>(), text.as_ptr()) };
}

/// Calls a function of a module, on behalf of the C function that the macro writes.
///
/// # Safety
/// CPython calls this C function, with an array of `count` arguments.
#[doc(hidden)]
pub unsafe fn call<F>(
    name: &str,
    function: F,
    arguments: *const *mut PyObject,
    count: isize,
) -> *mut PyObject
where
    F: for<'py> FnOnce(Python<'py>, Arguments<'py>) -> Result<'py, Object<'py>>,
{
    let Ok(api) = Api::get() else { return null_mut() };
    // SAFETY: the caller of a C function is attached, until it returns.
    let python = unsafe { Python::with(api) };
    let pointers = match usize::try_from(count) {
        // SAFETY: CPython passes so many objects, which live as long as the call.
        Ok(count) if count > 0 => unsafe { std::slice::from_raw_parts(arguments, count) },
        _ => &[],
    };
    // INVARIANT: the caller keeps the arguments.
    let arguments = Arguments { python, pointers };
    let answer = catch_unwind(AssertUnwindSafe(|| function(python, arguments)));
    let answer = answer.unwrap_or_else(|payload| {
        let text = format!("{name}() panicked: {}", panic_text(&*payload));
        forget_payload(payload);
        Err(Error::new(Exception::RuntimeError, text))
    });
    match answer {
        Ok(object) => object.into_raw().cast(),
        Err(error) => {
            error.raise(python);
            null_mut()
        }
    }
}

/// Whether this is the symbol that CPython looks for to import the module of that name.
/// Another one could stand in for a function of the process that has another type.
#[doc(hidden)]
pub const fn is_init_of(init: &str, name: &str) -> bool {
    let (init, prefix, name) = (init.as_bytes(), b"PyInit_", name.as_bytes());
    if init.len() != prefix.len() + name.len() {
        return false;
    }
    let mut i = 0;
    while i < init.len() {
        let expected = if i < prefix.len() { prefix[i] } else { name[i - prefix.len()] };
        if init[i] != expected {
            return false;
        }
        i += 1;
    }
    true
}

/// Defines an extension module of functions written in safe Rust.
///
/// `init` is `PyInit_` and the name; anything else does not compile. The module works in
/// subinterpreters with a GIL of their own and in the free-threaded build, and one file serves all
/// builds of CPython 3.13.
///
/// ```
/// #![forbid(unsafe_code)]
/// use framehook::{Arguments, Object, Python, Result};
///
/// fn double<'py>(py: Python<'py>, arguments: Arguments<'py>) -> Result<'py, Object<'py>> {
///     let [number] = arguments.exactly()?;
///     py.int(number.as_int()?.wrapping_mul(2))
/// }
///
/// framehook::module! {
///     name: "doubling",
///     init: PyInit_doubling,
///     doc: "Doubles numbers.",
///     functions: {
///         double: "double(number, /)\n--\n\nTwice the number.",
///     }
/// }
/// # fn main() {}
/// ```
///
/// `init` becomes a symbol of the whole process, so it cannot be any:
///
/// ```
/// framehook::module! {
///     name: "doubling",
///     init: PyInit_doubling,
///     doc: "Doubles numbers.",
///     functions: {}
/// }
/// # fn main() {}
/// ```
/// ```compile_fail,E0080
/// framehook::module! {
///     name: "doubling",
///     init: PyInit_halving,
///     doc: "Doubles numbers.",
///     functions: {}
/// }
/// # fn main() {}
/// ```
#[macro_export]
macro_rules! module {
    (
        name: $name:literal,
        init: $init:ident,
        doc: $doc:literal,
        functions: { $($function:ident: $function_doc:literal),* $(,)? } $(,)?
    ) => {
        const _: () = ::core::assert!(
            $crate::__private::is_init_of(::core::stringify!($init), $name),
            "`init` must be `PyInit_` and the name of the module",
        );
        /// What CPython calls to import the module.
        ///
        /// # Safety
        /// CPython is importing the module in this thread.
        #[no_mangle]
        #[allow(non_snake_case)]
        pub unsafe extern "C" fn $init() -> $crate::__private::RawModule {
            // What the user of the macro has written is looked at outside of the unsafe
            // blocks, so that nothing unsafe slips in.
            static DEFINITION: $crate::__private::Definition =
                $crate::__private::Definition::new();
            let (name, doc): (&'static str, &'static str) = ($name, $doc);
            let functions = [$({
                unsafe extern "C" fn call(
                    _module: $crate::__private::RawModule,
                    arguments: *const $crate::__private::RawModule,
                    count: isize,
                ) -> $crate::__private::RawModule {
                    let (name, function) = (::core::stringify!($function), $function);
                    // SAFETY: CPython calls it, with so many arguments.
                    unsafe { $crate::__private::call(name, function, arguments, count) }
                }
                $crate::__private::Function {
                    name: ::core::stringify!($function),
                    doc: $function_doc,
                    call,
                }
            }),*];
            // SAFETY: CPython is importing the module, as this function's caller promises.
            unsafe { $crate::__private::define(&DEFINITION, name, doc, &functions) }
        }
    };
}
