//! Names of machine code, for perf and for debuggers. Both are opt-in.
//!
//! perf reads `/tmp/perf-PID.map`, which the interpreter writes. Debuggers that know GDB's JIT interface stop at
//! `__jit_debug_register_code` and read an ELF file with one symbol, which `__jit_debug_descriptor` leads to.

use crate::elf;
use std::collections::BTreeMap;
use std::ffi::{c_char, c_int, c_void, CString};
use std::ptr::null_mut;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Whether code that is compiled from now on is named for perf, and for debuggers.
pub static FOR_PERF: AtomicBool = AtomicBool::new(false);
pub static FOR_DEBUGGERS: AtomicBool = AtomicBool::new(false);

const REGISTER: u32 = 1;
const UNREGISTER: u32 = 2;

extern "C" {
    fn PyUnstable_WritePerfMapEntry(code: *const c_void, size: u32, name: *const c_char) -> c_int;
    fn PyUnstable_PerfMapState_Fini();
}

/// `struct jit_code_entry` of GDB's interface.
#[repr(C)]
struct CodeEntry {
    next: *mut CodeEntry,
    previous: *mut CodeEntry,
    file: *const u8,
    size: u64,
}

/// `struct jit_descriptor`.
#[repr(C)]
pub struct Descriptor {
    version: u32,
    action: u32,
    relevant: *mut CodeEntry,
    first: *mut CodeEntry,
}

/// The descriptor, which a debugger reads while the process is stopped.
///
/// # Invariants
/// It is written by the owner of `LIVE`'s lock alone. Its entries form a doubly linked list of values in `LIVE`.
#[repr(transparent)]
pub struct Shared(std::cell::UnsafeCell<Descriptor>);

// SAFETY: threads reach the descriptor with `LIVE` locked, by the invariant.
unsafe impl Sync for Shared {}

/// The name is the interface's.
#[no_mangle]
#[allow(non_upper_case_globals)]
pub static __jit_debug_descriptor: Shared = Shared(std::cell::UnsafeCell::new(Descriptor {
    version: 1,
    action: 0,
    relevant: null_mut(),
    first: null_mut(),
}));

/// Debuggers set a breakpoint here.
#[no_mangle]
#[inline(never)]
pub extern "C" fn __jit_debug_register_code() {
    std::hint::black_box(&__jit_debug_descriptor);
}

/// Code that has a name.
struct Named {
    size: usize,
    name: CString,
    /// The file that debuggers read, and where the list refers to it.
    for_debuggers: Option<(Box<CodeEntry>, Vec<u8>)>,
}

// SAFETY: the pointers of an entry lead to entries and files in `LIVE`, and are followed with its lock held.
unsafe impl Send for Named {}

/// By address.
static LIVE: Mutex<BTreeMap<usize, Named>> = Mutex::new(BTreeMap::new());

fn live() -> MutexGuard<'static, BTreeMap<usize, Named>> {
    LIVE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A name that is known outside until this is dropped.
pub struct Symbol(usize);

/// Names code, if that is wanted.
pub fn add(address: usize, size: usize, name: impl FnOnce() -> String) -> Option<Symbol> {
    let (perf, debuggers) =
        (FOR_PERF.load(Ordering::Relaxed), FOR_DEBUGGERS.load(Ordering::Relaxed));
    if !perf && !debuggers {
        return None;
    }
    let name = CString::new(name().replace(['\0', '\n'], "?")).ok()?;
    let mut named = Named { size, name, for_debuggers: None };
    if perf {
        write_for_perf(address, &named);
    }
    let mut live = live();
    if debuggers {
        let file = elf::file(address, size, &named.name);
        let entry = CodeEntry {
            next: null_mut(),
            previous: null_mut(),
            file: file.as_ptr(),
            size: file.len() as u64,
        };
        let (entry, file) = named.for_debuggers.insert((Box::new(entry), file));
        entry.file = file.as_ptr();
        // SAFETY: `LIVE` is locked; the entry and its file stay where they are until `drop` unlinks them.
        unsafe { link(entry) };
    }
    live.insert(address, named);
    Some(Symbol(address))
}

/// perf looks addresses up in the order of the file: the last entry of an address is the one that counts.
fn write_for_perf(address: usize, named: &Named) {
    let size = u32::try_from(named.size).unwrap_or(u32::MAX);
    // SAFETY: the function reads a string that ends with zero; it opens the file if need be. A failure leaves code without a name.
    unsafe { PyUnstable_WritePerfMapEntry(address as *const c_void, size, named.name.as_ptr()) };
}

/// After a fork: the child has a file of its own, with what it has inherited.
pub fn after_fork() {
    if FOR_PERF.load(Ordering::Relaxed) {
        // SAFETY: the only thread of the child; closes the parent's file. The next entry opens one.
        unsafe { PyUnstable_PerfMapState_Fini() };
        live().iter().for_each(|(address, named)| write_for_perf(*address, named));
    }
}

/// # Safety
/// `LIVE` is locked; the entry is not moved while it is linked.
unsafe fn link(entry: &mut CodeEntry) {
    // SAFETY: the lock's owner alone uses the descriptor, by the invariant.
    let descriptor = unsafe { &mut *__jit_debug_descriptor.0.get() };
    entry.next = descriptor.first;
    // SAFETY: entries in the list are alive, by the invariant.
    if let Some(next) = unsafe { entry.next.as_mut() } {
        next.previous = entry;
    }
    descriptor.first = entry;
    announce(descriptor, REGISTER, entry);
}

/// # Safety
/// `LIVE` is locked, and the entry is linked.
unsafe fn unlink(entry: &mut CodeEntry) {
    // SAFETY: the lock's owner alone uses the descriptor, by the invariant.
    let descriptor = unsafe { &mut *__jit_debug_descriptor.0.get() };
    // SAFETY: entries in the list are alive, by the invariant.
    let (next, previous) = unsafe { (entry.next.as_mut(), entry.previous.as_mut()) };
    if let Some(next) = next {
        next.previous = entry.previous;
    }
    match previous {
        Some(previous) => previous.next = entry.next,
        None => descriptor.first = entry.next,
    }
    announce(descriptor, UNREGISTER, entry);
}

fn announce(descriptor: &mut Descriptor, action: u32, entry: *mut CodeEntry) {
    descriptor.action = action;
    descriptor.relevant = entry;
    __jit_debug_register_code();
    descriptor.action = 0;
    descriptor.relevant = null_mut();
}

impl Drop for Symbol {
    fn drop(&mut self) {
        let mut live = live();
        if let Some(named) = live.get_mut(&self.0) {
            if let Some((entry, _)) = &mut named.for_debuggers {
                // SAFETY: `LIVE` is locked, and `add` has linked the entry.
                unsafe { unlink(entry) };
            }
        }
        live.remove(&self.0);
    }
}
