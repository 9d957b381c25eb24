//! Memory for machine code: writable while it is filled, then executable, never both; bounded; unmapped with the last owner.

use std::sync::atomic::{AtomicUsize, Ordering};

/// The most that is mapped at a time, in bytes.
const LIMIT: usize = 64 << 20;

static MAPPED: AtomicUsize = AtomicUsize::new(0);

/// One function's machine code.
///
/// # Invariants
/// `address` is the start of a private mapping of `length` bytes that this value owns; it is readable and executable.
pub struct CodeMemory {
    address: *mut libc::c_void,
    length: usize,
}

/// How many bytes are mapped for machine code.
pub fn mapped() -> usize {
    MAPPED.load(Ordering::Relaxed)
}

impl CodeMemory {
    /// A copy of `code` that can be executed, or why there is none.
    pub fn new(code: &[u8]) -> Result<Self, String> {
        // SAFETY: sysconf takes any number.
        let page = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
        let page = usize::try_from(page).map_err(|_| "the size of a page is unknown")?;
        let length = code.len().max(1).next_multiple_of(page);
        if MAPPED.fetch_add(length, Ordering::Relaxed) + length > LIMIT {
            MAPPED.fetch_sub(length, Ordering::Relaxed);
            return Err(format!("there are {} MiB of machine code already", LIMIT >> 20));
        }
        let writable = libc::PROT_READ | libc::PROT_WRITE;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        // SAFETY: a new mapping, anywhere.
        let address = unsafe { libc::mmap(std::ptr::null_mut(), length, writable, flags, -1, 0) };
        if address == libc::MAP_FAILED {
            MAPPED.fetch_sub(length, Ordering::Relaxed);
            return Err("no memory for machine code".into());
        }
        // INVARIANT: not executable yet, and not returned before it is; the destructor needs the mapping alone.
        let memory = Self { address, length };
        // SAFETY: the mapping is writable, at least as long as the code, and not shared yet.
        unsafe { std::ptr::copy_nonoverlapping(code.as_ptr(), address.cast(), code.len()) };
        clear_cache(address, length);
        // SAFETY: this value's own mapping, into which no reference exists.
        if unsafe { libc::mprotect(address, length, libc::PROT_READ | libc::PROT_EXEC) } != 0 {
            return Err("this system does not allow memory to be made executable".into());
        }
        if !synchronize() {
            return Err("this system cannot have all processors fetch new machine code".into());
        }
        Ok(memory)
    }

    /// Where the code starts.
    pub fn address(&self) -> *const u8 {
        self.address.cast_const().cast()
    }
}

/// Has caches of instructions read what was written.
#[cfg(target_arch = "aarch64")]
fn clear_cache(address: *mut libc::c_void, length: usize) {
    extern "C" {
        fn __clear_cache(from: *mut libc::c_void, to: *mut libc::c_void);
    }
    // SAFETY: the range is mapped; the compiler's runtime library has the function.
    unsafe { __clear_cache(address, address.byte_add(length)) }
}

/// Has the processors that run other threads discard what they have fetched before from these addresses, where other code may have
/// been: the lock that hands the interpreter over to another thread is no such instruction. Whether the kernel can do that.
#[cfg(target_arch = "aarch64")]
fn synchronize() -> bool {
    let barrier = |command: libc::c_int| {
        // SAFETY: the system call touches no memory of the process.
        unsafe { libc::syscall(libc::SYS_membarrier, command, 0, 0) == 0 }
    };
    // Once in a process that is registered for it. Linux before 4.16 has only one that waits until each processor was in the kernel.
    barrier(libc::MEMBARRIER_CMD_PRIVATE_EXPEDITED_SYNC_CORE)
        || barrier(libc::MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED_SYNC_CORE)
            && barrier(libc::MEMBARRIER_CMD_PRIVATE_EXPEDITED_SYNC_CORE)
        || barrier(libc::MEMBARRIER_CMD_GLOBAL)
}

/// The processor's caches are coherent.
#[cfg(not(target_arch = "aarch64"))]
fn clear_cache(_: *mut libc::c_void, _: usize) {}

#[cfg(not(target_arch = "aarch64"))]
fn synchronize() -> bool {
    true
}

impl Drop for CodeMemory {
    fn drop(&mut self) {
        // SAFETY: this value's own mapping, by the invariant. Each entry in progress holds the owner.
        unsafe { libc::munmap(self.address, self.length) };
        MAPPED.fetch_sub(self.length, Ordering::Relaxed);
    }
}
