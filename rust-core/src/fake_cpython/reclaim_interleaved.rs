//! Delayed reclaim in a model of loom: a block is freed once each thread that was attached has been outside.

use super::interleaved::now;
use super::memory::deallocation;
use loom::sync::Mutex;
use loom::thread::current;
use std::ffi::c_void;

fn limbo() -> &'static Mutex<()> {
    now(|it| *it.limbo.get_or_insert_with(|| Box::leak(Box::new(Mutex::new(())))))
}

/// The thread with this number reads from now on. Said before the thread begins.
pub fn attach(reader: usize) {
    now(|it| it.attached.insert(reader));
}

/// This thread is the reader with this number.
pub fn begin(reader: usize) {
    now(|it| it.readers.insert(current().id(), reader));
}

/// This thread holds nothing that it has read, and reads no more.
pub fn detach() {
    let guard = limbo().lock().expect("a lock");
    let ready = now(|it| {
        let reader = it.readers.remove(&current().id()).expect("a reader");
        it.attached.remove(&reader);
        it.waiting.iter_mut().for_each(|(_, readers)| {
            readers.remove(&reader);
        });
        let (ready, waiting): (Vec<_>, Vec<_>) =
            it.waiting.drain(..).partition(|(_, readers)| readers.is_empty());
        it.waiting = waiting;
        ready
    });
    ready.into_iter().for_each(|(start, _)| deallocation(start as *mut c_void));
    drop(guard);
}

/// Frees the block when each thread that is attached now has been outside.
#[no_mangle]
extern "C" fn _PyMem_FreeDelayed(
    block: *mut c_void,
    #[cfg(ferrule_delayed_frees_have_sizes)] _bytes: usize,
) {
    let guard = limbo().lock().expect("a lock");
    let readers = now(|it| it.attached.clone());
    if readers.is_empty() {
        deallocation(block);
    } else {
        now(|it| it.waiting.push((block as usize, readers)));
    }
    drop(guard);
}
