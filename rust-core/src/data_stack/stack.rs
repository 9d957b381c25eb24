//! Frames go onto a data stack and off it.

use super::chunk::{Chunk, Slot};
use super::sizes::{fits_between, fits_in_room, new_chunk_bytes, slots_used, SLOT_BYTES};
use crate::check::check;
use crate::cpython::{_PyStackChunk, _PyThreadStateImpl, PyThreadState};
use crate::in_cpython::DataStackState;
use crate::thread::Thread;
use core::ptr::{null_mut, NonNull};

/// The size of a frame.
///
/// A type of its own, so that slots and bytes cannot be mixed up.
///
/// # Invariants
/// As many bytes are at most `isize::MAX`. So the number of bytes does not overflow, and is not taken
/// for a negative one, which would fit anywhere.
#[derive(Clone, Copy)]
pub struct Slots(usize);

impl Slots {
    /// A frame of `count` slots, as `co_framesize` counts them. CPython keeps
    /// that below `INT_MAX / sizeof(PyObject *)`.
    ///
    /// # Safety
    /// `count` is at most `isize::MAX / SLOT_BYTES`.
    #[inline(always)]
    pub unsafe fn new(count: usize) -> Self {
        // INVARIANT: the caller says so.
        Slots(count)
    }

    #[inline(always)]
    const fn bytes(self) -> usize {
        self.0 * SLOT_BYTES
    }
}

/// The data stack of one thread, borrowed from its thread state for one call.
///
/// # Invariants
/// The thread state is live, and nothing else uses its data stack meanwhile.
pub struct DataStack(NonNull<_PyThreadStateImpl>);

impl DataStack {
    /// # Safety
    /// `tstate` is not NULL, and no other thread uses its data stack meanwhile: it is the calling
    /// thread's own, or is being torn down, or its thread waits for the GIL or is stopped.
    #[inline(always)]
    pub unsafe fn of(tstate: *mut PyThreadState) -> Self {
        // SAFETY: the caller passes a thread state, which is not NULL. CPython allocates each as a
        // `_PyThreadStateImpl`, whose first field is the `PyThreadState`.
        DataStack(unsafe { NonNull::new_unchecked(tstate.cast()) })
    }

    // The three fields of CPython's, each by itself: no reference is made to the thread state,
    // since other threads write other fields of it.

    #[inline(always)]
    fn chunk(&self) -> *mut _PyStackChunk {
        // SAFETY: live by the type's invariant.
        unsafe { (*self.0.as_ptr()).base.datastack_chunk }
    }

    #[inline(always)]
    fn top(&self) -> *mut Slot {
        // SAFETY: live by the type's invariant.
        unsafe { (*self.0.as_ptr()).base.datastack_top }
    }

    #[inline(always)]
    fn limit(&self) -> *mut Slot {
        // SAFETY: live by the type's invariant.
        unsafe { (*self.0.as_ptr()).base.datastack_limit }
    }

    #[inline(always)]
    fn set_top(&mut self, top: *mut Slot) {
        // SAFETY: live by the type's invariant, and nothing else uses the field.
        unsafe { (*self.0.as_ptr()).base.datastack_top = top };
    }

    /// Makes a chunk the current one, or none.
    #[inline(always)]
    fn set_chunk(&mut self, chunk: Option<Chunk>) {
        // SAFETY: live by the type's invariant, and nothing else uses the fields.
        unsafe {
            (*self.0.as_ptr()).base.datastack_chunk = chunk.map_or(null_mut(), Chunk::as_ptr);
            (*self.0.as_ptr()).base.datastack_limit = chunk.map_or(null_mut(), Chunk::limit);
        }
    }

    #[inline(always)]
    fn state(&self) -> &DataStackState {
        // SAFETY: live by the type's invariant.
        unsafe { &*DataStackState::of(self.0.as_ptr()) }
    }

    #[inline(always)]
    fn state_mut(&mut self) -> &mut DataStackState {
        // SAFETY: live and unshared by the type's invariant.
        unsafe { &mut *DataStackState::of(self.0.as_ptr()) }
    }

    #[inline(always)]
    fn current(&self) -> Option<Chunk> {
        // SAFETY: the field is NULL or a live chunk (module invariants).
        unsafe { Chunk::from_raw(self.chunk()) }
    }

    /// Whether the current chunk has room. NULL fields have none.
    #[inline(always)]
    fn fits_here(&self, size: Slots) -> bool {
        fits_between(size.bytes(), self.top() as usize, self.limit() as usize)
    }

    /// Whether the front chunk has room, and may be used: not as a root. A thread with
    /// many stacks, one for each greenlet, would end up with a large root in each.
    #[inline(always)]
    fn cached_fits(&self, size: Slots) -> bool {
        fits_in_room(size.bytes(), self.state().cached_room()) && !self.chunk().is_null()
    }

    /// Whether [`push_unchecked`](Self::push_unchecked) may push frames of
    /// `size` slots in all. Two loads and a comparison; at an edge, two more.
    #[inline(always)]
    pub fn has_space(&self, size: Slots) -> bool {
        if self.fits_here(size) {
            true
        } else {
            unlikely();
            self.cached_fits(size)
        }
    }

    /// Pushes a frame whose slots are not initialized; `None` when memory ran
    /// out, and then nothing has changed and no exception is set.
    #[inline(always)]
    pub fn push(&mut self, size: Slots) -> Option<NonNull<Slot>> {
        if self.fits_here(size) {
            Some(self.bump(size))
        } else {
            push_slow(self, size)
        }
    }

    /// Pushes a frame where [`has_space`](Self::has_space) would admit it; else `None`, and nothing
    /// has changed.
    #[inline(always)]
    pub fn push_if_space(&mut self, size: Slots) -> Option<NonNull<Slot>> {
        if self.fits_here(size) {
            Some(self.bump(size))
        } else {
            push_if_cached_fits(self, size)
        }
    }

    /// Pushes a frame that [`has_space`](Self::has_space) has admitted.
    ///
    /// # Safety
    /// `has_space` was true for this frame, or for this frame and others pushed
    /// together with it, and nothing was pushed or popped in between. Or all of them
    /// fitted the chunk that was current, and it is again, without what was pushed
    /// meanwhile: traces of tier 2 call this before they push.
    #[inline(always)]
    pub unsafe fn push_unchecked(&mut self, size: Slots) -> NonNull<Slot> {
        if self.fits_here(size) {
            self.bump(size)
        } else {
            unlikely();
            // It does not fit here, so `has_space` spoke of the front chunk. That
            // holds for the second of two frames as well: the front chunk takes both,
            // or the first fitted here and the front chunk is still unused, or the
            // first has entered the front chunk, and then this one fits above it.
            // SAFETY: so there are a current chunk and a front chunk that the frame fits.
            unsafe { push_on_cached(self, size) }
        }
    }

    #[inline(always)]
    fn bump(&mut self, size: Slots) -> NonNull<Slot> {
        let base = self.top();
        // SAFETY: `size` slots fit below the limit (`fits_here`), and a chunk
        // is one allocation.
        self.set_top(unsafe { base.add(size.0) });
        // SAFETY: room was found, so the fields are not NULL.
        unsafe { NonNull::new_unchecked(base) }
    }

    /// Pops the topmost frame, which begins at `base`.
    ///
    /// # Safety
    /// `base` is where the topmost frame begins, and its slots are dead. The stack is the calling
    /// thread's own, and the thread is attached.
    #[inline(always)]
    pub unsafe fn pop(&mut self, base: *mut Slot) {
        check!(self.current().is_some(), "a frame is popped from no chunk");
        // SAFETY: a frame is on the stack, so there is a current chunk.
        let chunk = unsafe { self.current().unwrap_unchecked() };
        if base == chunk.data() {
            // SAFETY: the topmost frame, whose slots the caller says are dead, is the only one in the
            // current chunk. The stack is the attached thread's own.
            unsafe { leave_chunk(self) };
        } else {
            check!(
                chunk.data() < base && base <= self.top(),
                "the frame popped is not in the current chunk"
            );
            self.set_top(base);
        }
    }

    /// Takes the topmost frame off and pushes one of `size` slots in its place,
    /// not initialized: at the same address if it fits there. `None` without
    /// memory, and then nothing has changed.
    ///
    /// # Safety
    /// `base` is where the topmost frame begins, and its slots are dead once this
    /// succeeds.
    pub unsafe fn exchange_top(&mut self, base: *mut Slot, size: Slots) -> Option<NonNull<Slot>> {
        if fits_between(size.bytes(), base as usize, self.limit() as usize) {
            // SAFETY: within the chunk, and slots of a chunk are not NULL.
            unsafe {
                self.set_top(base.add(size.0));
                return Some(NonNull::new_unchecked(base));
            }
        }
        // SAFETY: a frame is on the stack, so there is a current chunk.
        let chunk = unsafe { self.current().unwrap_unchecked() };
        let top = self.top();
        match chunk.previous() {
            // The frame is the only one of its chunk, which goes with it.
            Some(below) if base == chunk.data() => {
                self.make_current(below);
                let pushed = push_slow(self, size);
                if pushed.is_some() {
                    // SAFETY: not current any more. The caller says that the slots of its only frame are dead.
                    unsafe { self.retire(chunk) };
                } else {
                    self.set_chunk(Some(chunk));
                    self.set_top(top);
                }
                pushed
            }
            _ => {
                self.set_top(base);
                let pushed = push_slow(self, size);
                if pushed.is_none() {
                    self.set_top(top);
                }
                pushed
            }
        }
    }

    /// Makes the frame at `base`, whose memory is given up, not the thread's current one. It may be that:
    /// `RETURN_GENERATOR` makes the frame below current after it has popped this one, and a signal
    /// handler may walk frames in between.
    ///
    /// # Safety
    /// The stack is the calling thread's own, and the thread is attached.
    unsafe fn step_off(&mut self, base: *mut Slot) {
        let (tstate, frame) = (self.0.as_ptr().cast::<PyThreadState>(), base.cast());
        // SAFETY: live by the type's invariant. The caller says that the thread itself pops, and it alone
        // writes the field. A current frame has its fields set, and leads to one that has or to NULL.
        unsafe {
            if (*tstate).current_frame == frame {
                Thread::new(tstate).set_current_frame((*frame).previous);
            }
        }
    }

    /// Goes back to a chunk that another one was entered above.
    fn make_current(&mut self, chunk: Chunk) {
        self.set_chunk(Some(chunk));
        // SAFETY: `top` was set when the chunk above was entered, and counts slots
        // of this chunk. Live by `Chunk`'s invariant.
        self.set_top(unsafe { chunk.data().add((*chunk.as_ptr()).top) });
    }

    /// Gives a chunk to the chunk cache.
    ///
    /// # Safety
    /// The chunk is in no list any more, and holds no live frame.
    unsafe fn retire(&mut self, chunk: Chunk) {
        let state = self.state_mut();
        // SAFETY: the caller says that the chunk is in no list and holds no live frame.
        unsafe { state.keep(chunk) };
        state.count_switch();
    }

    /// Makes `chunk` the current one and pushes a frame of `size` slots on it.
    ///
    /// # Safety
    /// `chunk` is in no list, and the frame fits; with a slot to spare where the
    /// chunk becomes the root.
    unsafe fn enter(&mut self, chunk: Chunk, size: Slots) -> NonNull<Slot> {
        let below = self.current();
        let base = match below {
            Some(below) => {
                let used = slots_used(below.data() as usize, self.top() as usize);
                // SAFETY: live by `Chunk`'s invariant. `top` counts slots.
                unsafe { (*below.as_ptr()).top = used };
                chunk.data()
            }
            // The root's first slot stays free, so that no frame of it is taken
            // for the chunk's first and the root is never left.
            // SAFETY: every chunk has more than one slot.
            None => unsafe { chunk.data().add(1) },
        };
        // SAFETY: the caller says that the chunk is in no list, so it is ours; so is the stack.
        unsafe { chunk.set_previous(below) };
        self.set_chunk(Some(chunk));
        // SAFETY: the caller says that the frame fits the chunk, and slots of a chunk are not NULL.
        unsafe {
            self.set_top(base.add(size.0));
            NonNull::new_unchecked(base)
        }
    }

    /// As [`enter`](Self::enter), for a chunk that comes from the chunk cache.
    ///
    /// # Safety
    /// As for `enter`.
    unsafe fn enter_cached(&mut self, chunk: Chunk, size: Slots) -> NonNull<Slot> {
        self.state_mut().cache_hits += 1;
        // SAFETY: the caller says that the chunk is in no list, and that the frame fits.
        unsafe { self.enter(chunk, size) }
    }

    /// Drops every chunk, those of the chunk cache too. The counters stay.
    ///
    /// # Safety
    /// No frame on this stack is alive.
    pub unsafe fn clear(&mut self) {
        let mut next = self.current();
        self.set_chunk(None);
        self.set_top(null_mut());
        while let Some(chunk) = next {
            next = chunk.previous();
            // SAFETY: the caller says that no frame is alive. The thread state leads to no chunk any more.
            unsafe { chunk.free() };
        }
        self.state_mut().clear_cache();
    }

    /// Frees what is cached after the front chunk.
    pub fn keep_first_only(&mut self) {
        self.state_mut().keep_first_only();
    }

    /// Bytes of all chunks of the current stack, without the chunk cache. Walks the
    /// chunks: one step each, and there are few of them.
    fn bytes_in_chunks(&self) -> usize {
        let mut bytes = 0;
        let mut next = self.current();
        while let Some(chunk) = next {
            bytes += chunk.size();
            next = chunk.previous();
        }
        bytes
    }

    /// The counters of this thread.
    pub fn stats(&self) -> Stats {
        let state = self.state();
        Stats {
            chunks_pushed: state.chunks_allocated + state.cache_hits,
            chunks_popped: state.chunks_popped,
            chunks_cached: state.chunks_cached(),
            cache_hits: state.cache_hits,
            bytes_held: self.bytes_in_chunks() + state.bytes_cached(),
            bytes_high_water: state.bytes_high_water,
        }
    }
}

/// What [`DataStack::stats`] returns for a thread.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Stats {
    /// Chunks entered since the thread state was made.
    pub chunks_pushed: usize,
    /// Chunks left, those that other tools had pushed included.
    pub chunks_popped: usize,
    /// Chunks kept for the next recursion.
    pub chunks_cached: usize,
    /// Chunks entered from the cache: no memory was requested.
    pub cache_hits: usize,
    /// Bytes of the chunks in use and of those that are kept.
    pub bytes_held: usize,
    /// The most `bytes_held` has been.
    pub bytes_high_water: usize,
}

/// A hint for the compiler that the branch that calls this is rarely taken.
#[cold]
#[inline]
fn unlikely() {}

/// Pushes on the front chunk.
///
/// # Safety
/// There are a current chunk and a front chunk, and the frame fits the front chunk.
#[cold]
#[inline(never)]
unsafe fn push_on_cached(stack: &mut DataStack, size: Slots) -> NonNull<Slot> {
    check!(stack.cached_fits(size), "an unchecked push finds no room");
    // SAFETY: the caller says that there is a front chunk.
    let first = unsafe { stack.state_mut().take_first().unwrap_unchecked() };
    // SAFETY: taken, so in no list any more; the caller says that the frame fits.
    unsafe { stack.enter_cached(first, size) }
}

/// Pushes on the front chunk, if there is a current chunk and a front chunk that the frame fits.
#[cold]
#[inline(never)]
fn push_if_cached_fits(stack: &mut DataStack, size: Slots) -> Option<NonNull<Slot>> {
    // SAFETY: `cached_fits` was true: there are a current chunk and a front chunk that the frame fits.
    stack.cached_fits(size).then(|| unsafe { push_on_cached(stack, size) })
}

/// Pushes on another chunk: one that is kept, if the frame fits, else a new one. `None`
/// without memory.
#[cold]
#[inline(never)]
fn push_slow(stack: &mut DataStack, size: Slots) -> Option<NonNull<Slot>> {
    if stack.cached_fits(size) {
        // SAFETY: there are a current chunk and a front chunk that the frame fits.
        return Some(unsafe { push_on_cached(stack, size) });
    }
    if stack.current().is_some() {
        if let Some(chunk) = stack.state_mut().take_with_room(size.bytes()) {
            // SAFETY: in no list any more, and the frame fits.
            return Some(unsafe { stack.enter_cached(chunk, size) });
        }
    }
    let bytes = new_chunk_bytes(stack.current().map(Chunk::size), size.0)?;
    let chunk = match Chunk::allocate(bytes) {
        Some(chunk) => chunk,
        // What is kept must not be what is missing.
        None if stack.state_mut().clear_cache() => Chunk::allocate(bytes)?,
        None => return None,
    };
    // SAFETY: new, and made with headroom beyond the frame.
    let first = unsafe { stack.enter(chunk, size) };
    let held = stack.stats().bytes_held;
    let state = stack.state_mut();
    state.chunks_allocated += 1;
    // Only here can the bytes held rise: taking a kept chunk moves bytes, and
    // leaving a chunk keeps or frees them.
    state.bytes_high_water = state.bytes_high_water.max(held);
    Some(first)
}

/// Leaves the current chunk, whose only frame is being popped, for the one below.
///
/// # Safety
/// There is a current chunk, and no frame in it is alive. The stack is the calling thread's own, and the
/// thread is attached.
#[cold]
#[inline(never)]
unsafe fn leave_chunk(stack: &mut DataStack) {
    // SAFETY: the caller says that there is a current chunk.
    let chunk = unsafe { stack.current().unwrap_unchecked() };
    let Some(below) = chunk.previous() else {
        // A root that an extension pushed, with a frame at its first slot: keep it.
        stack.set_top(chunk.data());
        return;
    };
    // SAFETY: the caller says that the stack is the attached thread's own.
    unsafe { stack.step_off(chunk.data()) };
    stack.make_current(below);
    // SAFETY: not current any more, and the caller says that no frame in it is alive.
    unsafe { stack.retire(chunk) };
}
