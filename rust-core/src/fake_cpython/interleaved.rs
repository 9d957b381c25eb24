//! Threads that loom runs in every order: atomics, memory, locks and a world that stops.
//!
//! An atomic here is a word in its place, as in the interpreter, so that the crate's own layouts and
//! pointer arithmetic serve. Beside each there is one of loom's, which has the value and knows who
//! may see what. It comes when the word is given to other threads: by `share`, or with the block it
//! lies in, when a pointer to the block is stored, a lock is given back or the world runs again.
//! From then on loom fails a model in which a thread reaches the word without having been given
//! it, so a block that is published too early, or too loosely, is seen.
//!
//! A block that is freed stays until the end of its execution. loom fails a model in which a thread
//! has used the block and that use does not come before; a later use is seen here.
//!
//! What is taken as given: CPython's lock excludes others, the world stops when no thread is
//! attached, and a delayed block is freed when each thread that was attached has been outside.
//! Plain fields are not followed, only the atomics in the same block.

use crate::cpython::PyInterpreterState;
use loom::sync::atomic::AtomicUsize as Modelled;
use loom::sync::{Mutex, MutexGuard, RwLock, RwLockReadGuard, RwLockWriteGuard};
use loom::thread::{current, ThreadId};
use std::cell::{RefCell, UnsafeCell};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::ffi::c_void;
use std::rc::Rc;

pub use std::sync::atomic::Ordering;

extern "C" {
    fn calloc(count: usize, bytes: usize) -> *mut c_void;
    fn free(block: *mut c_void);
}

const WORD: usize = size_of::<usize>();

/// A block of memory, or a structure that the model shares.
struct Block {
    bytes: usize,
    /// The thread that has it exclusively; `None`: shared.
    owner: Option<ThreadId>,
    freed: bool,
    /// Freed by its maker, when the execution is over.
    from_malloc: bool,
}

/// A block that waits until each of these threads has been outside.
type Waiting = (usize, HashSet<usize>);

/// One execution. loom's threads take turns in one thread of the system, so this is no more shared
/// than a local variable is. It is never borrowed while loom may switch.
#[derive(Default)]
pub(super) struct Execution {
    atomics: HashMap<usize, Rc<Modelled>>,
    blocks: BTreeMap<usize, Block>,
    locks: HashMap<usize, &'static Mutex<()>>,
    held: HashMap<usize, (ThreadId, MutexGuard<'static, ()>)>,
    world: Option<&'static RwLock<()>>,
    stopped: Option<(ThreadId, RwLockWriteGuard<'static, ()>)>,
    pub limbo: Option<&'static Mutex<()>>,
    pub attached: HashSet<usize>,
    pub readers: HashMap<ThreadId, usize>,
    pub waiting: Vec<Waiting>,
}

thread_local! {
    /// Where atomics lie that do not begin a word, in blocks of a size.
    static SMALL: RefCell<HashMap<usize, Vec<usize>>> = RefCell::default();
    static NOW: RefCell<Execution> = RefCell::default();
}

pub(super) fn now<R>(work: impl FnOnce(&mut Execution) -> R) -> R {
    NOW.with_borrow_mut(work)
}

impl Execution {
    fn block_at(&mut self, address: usize) -> Option<(usize, &mut Block)> {
        let (start, block) = self.blocks.range_mut(..=address).next_back()?;
        (address < start + block.bytes).then_some((*start, block))
    }

    /// loom's atomic for a word. A word of a block that nothing else has seen gets one here.
    fn atomic(&mut self, address: usize, value: impl FnOnce() -> usize) -> Rc<Modelled> {
        let (_, block) = self.block_at(address).expect("an atomic that no thread has been given");
        assert!(!block.freed, "a block is used after it was freed");
        assert!(
            block.owner.is_none_or(|owner| owner == current().id()),
            "a block is used that its thread has not given away"
        );
        self.atomics.entry(address).or_insert_with(|| Rc::new(Modelled::new(value()))).clone()
    }

    /// From now on other threads may have the block.
    fn give(&mut self, start: usize) {
        let Some(block) = self.blocks.get_mut(&start) else { return };
        if block.owner.take().is_none() {
            return;
        }
        let words = (start..start + block.bytes).step_by(WORD);
        let small = SMALL.with_borrow(|it| it.get(&block.bytes).cloned().unwrap_or_default());
        for address in words.chain(small.into_iter().map(|offset| start + offset)) {
            self.atomics.entry(address).or_insert_with(|| {
                // SAFETY: within a block that nothing else has seen, which began as zeros.
                Rc::new(Modelled::new(unsafe { (address as *const usize).read_unaligned() }))
            });
        }
    }

    /// Gives away what this thread has made.
    fn give_all(&mut self) {
        let own = |block: &Block| block.owner == Some(current().id());
        let starts: Vec<_> =
            self.blocks.iter().filter(|(_, it)| own(it)).map(|(start, _)| *start).collect();
        starts.into_iter().for_each(|start| self.give(start));
    }
}

// --- Models. ---

/// Runs a model in every order of its steps. Nothing may be left over.
pub fn explore(model: impl Fn() + Send + Sync + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.max_branches = 100_000;
    let count = std::sync::Arc::new(std::sync::atomic::AtomicUsize::new(0));
    let counted = count.clone();
    builder.check(move || {
        counted.fetch_add(1, Ordering::Relaxed);
        now(|it| *it = Execution::default());
        model();
        end();
    });
    println!("executions: {}", count.load(Ordering::Relaxed));
}

fn end() {
    let execution = now(std::mem::take);
    assert!(execution.held.is_empty(), "a lock is left locked");
    assert!(execution.stopped.is_none(), "the world is left stopped");
    assert!(execution.waiting.is_empty(), "a block waits for a thread that is over");
    for (start, block) in execution.blocks {
        if block.from_malloc {
            assert!(block.freed, "memory is left over");
            // SAFETY: from `allocation`, and the execution is over.
            unsafe { free(start as *mut c_void) };
        }
    }
    // SAFETY: boxes that were leaked below, and no guard is left.
    unsafe {
        for lock in execution.locks.into_values().chain(execution.limbo) {
            drop(Box::from_raw(std::ptr::from_ref(lock).cast_mut()));
        }
        if let Some(world) = execution.world {
            drop(Box::from_raw(std::ptr::from_ref(world).cast_mut()));
        }
    }
}

/// A `T` has atomics at these offsets that do not begin a word.
pub fn has_small_atomics<T>(offsets: &[usize]) {
    let bytes = size_of::<T>().next_multiple_of(WORD);
    SMALL.with_borrow_mut(|it| it.insert(bytes, offsets.to_vec()));
}

/// A structure of zeros, changed by `set_up`, that all threads of the model may reach. It stays as
/// long as the test.
pub fn shared<T>(set_up: impl FnOnce(&mut T)) -> *mut T {
    // SAFETY: the structures of CPython and of the crate begin as zeros.
    let mut made: Box<T> = Box::new(unsafe { std::mem::zeroed() });
    set_up(&mut made);
    let start = Box::into_raw(made);
    share(start);
    start
}

/// What is at `start` is reached by all threads of the model.
pub fn share<T>(start: *mut T) {
    now(|it| {
        let owner = Some(current().id());
        let (bytes, freed, from_malloc) = (size_of::<T>(), false, false);
        it.blocks.insert(start as usize, Block { bytes, owner, freed, from_malloc });
        it.give(start as usize);
    });
}

/// The structure is over: no thread reaches it any more.
pub unsafe fn over<T>(start: *mut T) {
    // SAFETY: `shared` has made it, the caller says, and no thread uses it any more.
    unsafe { died(start.cast()) };
    now(|it| it.blocks.remove(&(start as usize)));
    // SAFETY: `shared` has leaked it from a box, and this is the one time that it is dropped.
    drop(unsafe { Box::from_raw(start) });
}

// --- Memory. ---

/// A block of zeros that this thread alone has.
pub unsafe fn allocation(bytes: usize) -> *mut c_void {
    let bytes = bytes.next_multiple_of(WORD);
    // SAFETY: any size will do.
    let start = unsafe { calloc(1, bytes + WORD) };
    let owner = Some(current().id());
    let (freed, from_malloc) = (false, true);
    now(|it| it.blocks.insert(start as usize, Block { bytes, owner, freed, from_malloc }));
    start
}

/// The block is not used any more.
pub unsafe fn died(start: *mut c_void) {
    let start = start as usize;
    let atomics = now(|it| {
        let block = it.blocks.get_mut(&start).expect("what is freed was allocated");
        assert!(!block.freed, "freed twice");
        block.freed = true;
        (start..start + block.bytes)
            .filter_map(|address| it.atomics.remove(&address))
            .collect::<Vec<_>>()
    });
    for atomic in atomics {
        let mut atomic = Rc::into_inner(atomic).expect("a block is freed in the middle of a use");
        // loom looks who has used the word, and whether that came before.
        atomic.with_mut(|_| ());
    }
}

// --- Locks. ---

pub fn locks_held() -> usize {
    now(|it| it.held.values().filter(|(owner, _)| *owner == current().id()).count())
}

#[no_mangle]
extern "C" fn PyMutex_Lock(lock: *mut u8) {
    let lock = lock as usize;
    let is_there = now(|it| it.block_at(lock).is_some_and(|(_, block)| !block.freed));
    assert!(is_there, "a lock of memory that was freed");
    let mutex =
        now(|it| *it.locks.entry(lock).or_insert_with(|| Box::leak(Box::new(Mutex::new(())))));
    let guard = mutex.lock().expect("a lock");
    now(|it| assert!(it.held.insert(lock, (current().id(), guard)).is_none()));
}

#[no_mangle]
extern "C" fn PyMutex_Unlock(lock: *mut u8) {
    let (owner, guard) = now(|it| {
        it.give_all();
        it.held.remove(&(lock as usize)).expect("what is unlocked is locked")
    });
    assert!(owner == current().id(), "unlocked by another thread");
    drop(guard);
}

// --- The world. ---

fn world() -> &'static RwLock<()> {
    now(|it| *it.world.get_or_insert_with(|| Box::leak(Box::new(RwLock::new(())))))
}

/// Between two points at which the thread can be stopped.
pub fn running<R>(work: impl FnOnce() -> R) -> R {
    let _guard: RwLockReadGuard<'_, ()> = world().read().expect("a lock");
    work()
}

pub fn is_world_stopped() -> bool {
    now(|it| it.stopped.as_ref().is_some_and(|(owner, _)| *owner == current().id()))
}

#[no_mangle]
extern "C" fn _PyEval_StopTheWorld(_interp: *mut PyInterpreterState) {
    assert_eq!(locks_held(), 0, "the others are waited for while a lock is held");
    let guard = world().write().expect("a lock");
    now(|it| it.stopped = Some((current().id(), guard)));
}

#[no_mangle]
extern "C" fn _PyEval_StartTheWorld(_interp: *mut PyInterpreterState) {
    let (owner, guard) = now(|it| {
        it.give_all();
        it.stopped.take().expect("started without having stopped")
    });
    assert!(owner == current().id(), "started by another thread");
    drop(guard);
}

// --- Atomics. ---

/// What fits into a word.
pub trait Word: Copy {
    fn to_word(self) -> usize;
    fn from_word(word: usize) -> Self;
}

macro_rules! words {
    ($($kind:ty: $to:expr, $from:expr;)*) => {
        $(impl Word for $kind {
            fn to_word(self) -> usize {
                $to(self)
            }

            fn from_word(word: usize) -> Self {
                $from(word)
            }
        })*
    };
}

words! {
    bool: |it| it as usize, |it| it & 0xff != 0;
    u32: |it| it as usize, |it| it as u32;
    u64: |it| it as usize, |it| it as u64;
    usize: |it| it, |it| it;
    isize: |it| it as usize, |it| it as isize;
}

impl<T> Word for *mut T {
    fn to_word(self) -> usize {
        self as usize
    }

    fn from_word(word: usize) -> Self {
        word as *mut T
    }
}

/// An atomic in its place. Has the methods that the crate uses.
#[repr(transparent)]
pub struct Atomic<W>(UnsafeCell<W>);

pub type AtomicBool = Atomic<bool>;
pub type AtomicU32 = Atomic<u32>;
pub type AtomicU64 = Atomic<u64>;
pub type AtomicUsize = Atomic<usize>;
pub type AtomicIsize = Atomic<isize>;
pub type AtomicPtr<T> = Atomic<*mut T>;

// SAFETY: loom's threads take turns, and loom's atomic has the value as soon as there are several.
unsafe impl<W> Sync for Atomic<W> {}
// SAFETY: loom's threads take turns; the type has no tie to a thread.
unsafe impl<W> Send for Atomic<W> {}

impl<W: Word> Atomic<W> {
    pub const fn new(value: W) -> Self {
        Atomic(UnsafeCell::new(value))
    }

    pub unsafe fn from_ptr<'a>(word: *mut W) -> &'a Self {
        // SAFETY: the caller passes a live word, and the type has the layout of `W`.
        unsafe { &*word.cast() }
    }

    fn modelled(&self) -> Rc<Modelled> {
        // Two of 32 bits or less can lie in one word of eight, and each has its own address.
        // SAFETY: read as what it is, while nothing else has it.
        now(|it| it.atomic(self.0.get() as usize, || unsafe { self.0.get().read() }.to_word()))
    }

    /// Of a value that is about to be stored: the block that it leads to is given away.
    fn given(value: W) -> usize {
        let word = value.to_word();
        now(|it| it.give(word));
        word
    }

    pub fn load(&self, order: Ordering) -> W {
        W::from_word(self.modelled().load(order))
    }

    pub fn store(&self, value: W, order: Ordering) {
        self.modelled().store(Self::given(value), order);
        self.write_through(value);
    }

    pub fn swap(&self, value: W, order: Ordering) -> W {
        let before = W::from_word(self.modelled().swap(Self::given(value), order));
        self.write_through(value);
        before
    }

    pub fn compare_exchange(
        &self,
        from: W,
        to: W,
        order: Ordering,
        failed: Ordering,
    ) -> Result<W, W> {
        let done = self.modelled().compare_exchange(from.to_word(), Self::given(to), order, failed);
        if done.is_ok() {
            self.write_through(to);
        }
        done.map(W::from_word).map_err(W::from_word)
    }

    fn change(&self, order: Ordering, work: impl Fn(usize) -> usize) -> W {
        let done = self
            .fetch_update(order, Ordering::Relaxed, |it| Some(W::from_word(work(it.to_word()))));
        done.unwrap_or_else(|_| unreachable!())
    }

    pub fn fetch_add(&self, value: W, order: Ordering) -> W {
        let before = W::from_word(self.modelled().fetch_add(value.to_word(), order));
        self.write_through(W::from_word(before.to_word().wrapping_add(value.to_word())));
        before
    }

    pub fn fetch_sub(&self, value: W, order: Ordering) -> W {
        let before = W::from_word(self.modelled().fetch_sub(value.to_word(), order));
        self.write_through(W::from_word(before.to_word().wrapping_sub(value.to_word())));
        before
    }

    pub fn fetch_or(&self, value: W, order: Ordering) -> W {
        self.change(order, |it| it | value.to_word())
    }

    pub fn fetch_and(&self, value: W, order: Ordering) -> W {
        self.change(order, |it| it & value.to_word())
    }

    pub fn fetch_update(
        &self,
        order: Ordering,
        failed: Ordering,
        mut work: impl FnMut(W) -> Option<W>,
    ) -> Result<W, W> {
        let mut last = None;
        let done = self.modelled().fetch_update(order, failed, |it| {
            last = work(W::from_word(it));
            last.map(W::to_word)
        });
        if let (Ok(_), Some(value)) = (done, last) {
            self.write_through(value);
        }
        done.map(W::from_word).map_err(W::from_word)
    }

    /// The word itself is read where no other thread is left. loom does not switch between a change
    /// and this.
    fn write_through(&self, value: W) {
        // SAFETY: live, and loom's threads take turns.
        unsafe { self.0.get().write(value) };
    }

    /// The word itself, of which there must be no other thread that knows.
    pub fn get_mut(&mut self) -> &mut W {
        let address = self.0.get() as usize;
        if let Some(modelled) = now(|it| it.atomics.remove(&address)) {
            let mut modelled = Rc::into_inner(modelled).expect("used by another thread");
            *self.0.get_mut() = W::from_word(modelled.with_mut(|it| *it));
        }
        self.0.get_mut()
    }
}
