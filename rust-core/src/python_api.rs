//! What Python sees: the built-in module `_framecore`, and the build's name.
//!
//! Nothing here is on a hot path. Every object made is owned by an [`Owned`]
//! until it is handed to the caller, so an early return leaks nothing.

use crate::cpython as c;
use crate::cpython::PyObject;
use crate::data_stack::DataStack;
use crate::frame_hook;
use crate::object::{ForC, Owned};
use crate::tables::{c_text, method, NO_METHOD};
use crate::thread::Thread;
use core::ffi::{c_char, c_int, c_void, CStr};
use core::mem::zeroed;

const VERSION: &CStr = c_text!(env!("CARGO_PKG_VERSION"));
const RUSTC: &CStr = c_text!(env!("FERRULE_RUSTC"));
const LLVM: &CStr = c_text!(env!("FERRULE_LLVM"));
const DEBIAN_REVISION: &CStr = c_text!(env!("FERRULE_DEBIAN_REVISION"));
/// What `sys.version` and `python -VV` have in place of a branch's name. Without a comma, as
/// `platform` takes that line apart at commas.
const BUILD_IDENTIFIER: &CStr = if DEBIAN_REVISION.is_empty() {
    c_text!("Ferrule ", env!("CARGO_PKG_VERSION"))
} else {
    c_text!("Ferrule ", env!("CARGO_PKG_VERSION"), " with Debian ", env!("FERRULE_DEBIAN_REVISION"))
};
const CROSS_LTO: bool = matches!(env!("FERRULE_CROSS_LTO").as_bytes(), b"1");

/// The parts of the interpreter that are Rust in this build.
const RUST_PARTS: [&CStr; 7] = [
    c"data_stack",
    c"stack_refs",
    c"code_extra",
    c"frame",
    c"frame_lifecycle",
    c"eval_frame",
    c"frame_hooks",
];

fn rust_parts(thread: Thread) -> Option<Owned> {
    let list = Owned::list(thread)?;
    for part in RUST_PARTS {
        list.append(thread, &Owned::text(thread, part)?)?;
    }
    Some(list)
}

fn build_info(thread: Thread) -> Option<Owned> {
    let info = Owned::dict(thread)?;
    info.set(thread, c"version", Owned::text(thread, VERSION)?)?;
    info.set(thread, c"cpython", Owned::text(thread, c::CPYTHON_VERSION)?)?;
    let revision = if DEBIAN_REVISION.is_empty() {
        Owned::none(thread)
    } else {
        Owned::text(thread, DEBIAN_REVISION)?
    };
    info.set(thread, c"debian_revision", revision)?;
    info.set(thread, c"rust", rust_parts(thread)?)?;
    info.set(thread, c"rustc", Owned::text(thread, RUSTC)?)?;
    info.set(thread, c"llvm", Owned::text(thread, LLVM)?)?;
    info.set(thread, c"cross_lto", Owned::truth(thread, CROSS_LTO)?)?;
    info.set(thread, c"debug_assertions", Owned::truth(thread, cfg!(ferrule_checks))?)?;
    Some(info)
}

fn thread_stats(thread: Thread) -> Option<Owned> {
    // SAFETY: the calling thread's own.
    let stats = unsafe { DataStack::of(thread.tstate()) }.stats();
    let dict = Owned::dict(thread)?;
    dict.set(thread, c"chunks_pushed", Owned::number(thread, stats.chunks_pushed)?)?;
    dict.set(thread, c"chunks_popped", Owned::number(thread, stats.chunks_popped)?)?;
    dict.set(thread, c"chunks_cached", Owned::number(thread, stats.chunks_cached)?)?;
    dict.set(thread, c"cache_hits", Owned::number(thread, stats.cache_hits)?)?;
    dict.set(thread, c"bytes_held", Owned::number(thread, stats.bytes_held)?)?;
    dict.set(thread, c"bytes_high_water", Owned::number(thread, stats.bytes_high_water)?)?;
    Some(dict)
}

/// The functions of the module; those that concern hooks are declared there.
static METHODS: ForC<[c::PyMethodDef; 15]> = {
    let [a, b, c, d, e, f, g, h, i, j, k, l] = frame_hook::python::METHODS;
    ForC::new([
        method!(
            none "info" "($module, /)",
            "Return a new dict of facts about this build: what is Rust and what made it.",
            |thread, _| build_info(thread)
        ),
        method!(
            none "datastack_stats" "($module, /)",
            "Return a new dict of the calling thread's data stack counters.",
            |thread, _| thread_stats(thread)
        ),
        a,
        b,
        c,
        d,
        e,
        f,
        g,
        h,
        i,
        j,
        k,
        l,
        NO_METHOD,
    ])
};

// The two slot values are the constants 2 and 1 of `moduleobject.h`, cast to
// pointers as that header does.
static SLOTS: ForC<[c::PyModuleDef_Slot; 4]> = ForC::new([
    c::PyModuleDef_Slot {
        slot: c::Py_mod_exec as c_int,
        value: frame_hook::python::fill_module as *mut c_void,
    },
    c::PyModuleDef_Slot {
        slot: c::Py_mod_multiple_interpreters as c_int,
        // Py_MOD_PER_INTERPRETER_GIL_SUPPORTED
        value: core::ptr::without_provenance_mut::<c_void>(2),
    },
    c::PyModuleDef_Slot {
        slot: c::Py_mod_gil as c_int,
        value: core::ptr::without_provenance_mut::<c_void>(1), // Py_MOD_GIL_NOT_USED
    },
    // SAFETY: all zeros is the sentinel that ends the table.
    unsafe { zeroed() },
]);

static MODULE: ForC<c::PyModuleDef> = ForC::new(c::PyModuleDef {
    m_name: c"_framecore".as_ptr(),
    m_doc: c"The Rust frame core: what this build has, and its counters.".as_ptr(),
    m_methods: METHODS.get().cast(),
    m_slots: SLOTS.get().cast(),
    // SAFETY: zeros are valid for every field; `PyModuleDef_Init` sets the
    // reference count and the type.
    ..unsafe { zeroed() }
});

/// The module's entry in `Modules/config.c`. A new reference, as for any module
/// with slots.
///
/// # Safety
/// Called by the import system, with a thread state.
#[no_mangle]
pub unsafe extern "C" fn PyInit__framecore() -> *mut PyObject {
    // SAFETY: the definition lives for ever and is written by CPython only.
    unsafe { c::PyModuleDef_Init(MODULE.get()) }
}

/// What precedes the date in `sys.version`: "Ferrule", its version, and Debian's
/// revision of the source. A string that lives for ever.
#[no_mangle]
pub extern "C" fn _PyRust_BuildIdentifier() -> *const c_char {
    BUILD_IDENTIFIER.as_ptr()
}
