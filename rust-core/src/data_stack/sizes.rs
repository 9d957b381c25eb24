//! Sizes of chunks and frames, and what fits: numbers in, numbers out.
//!
//! What is claimed of these functions in `proofs` is proved for all numbers (`ci/proofs`).

use crate::cpython::PyObject;
use crate::layout::CHUNK_DATA;

/// A slot is one object pointer.
pub const SLOT_BYTES: usize = size_of::<*mut PyObject>();

/// Where chunks stop growing, in bytes. Out-of-process profilers copy whole
/// chunks, and transparent huge pages (2 MiB) must not back a chunk that is
/// hardly used. A frame that needs more still gets a chunk of its own.
pub const LARGEST_GROWN_CHUNK: usize = 1024 * 1024;

/// The smallest chunk in bytes; CPython's number, and the root's size.
pub(super) const SMALLEST_CHUNK: usize = 16 * 1024;

/// Slots that a new chunk has room for beyond the frame that it is made for;
/// CPython's number.
pub(super) const HEADROOM_SLOTS: usize = 1000;

/// The bytes of a new chunk that takes a frame of so many slots, above a chunk of `below` bytes or
/// as a root; `None` where the number does not fit.
pub fn new_chunk_bytes(below: Option<usize>, slots: usize) -> Option<usize> {
    let needed = slots.checked_add(HEADROOM_SLOTS)?.checked_mul(SLOT_BYTES)?;
    let grown = below.map_or(SMALLEST_CHUNK, |bytes| bytes.saturating_mul(2));
    let wanted = grown.clamp(SMALLEST_CHUNK, LARGEST_GROWN_CHUNK);
    needed.max(wanted).checked_next_power_of_two()
}

/// Bytes for frames in a chunk of so many, unless it is a root.
#[inline(always)]
pub fn room_in(chunk_bytes: usize) -> usize {
    chunk_bytes - CHUNK_DATA
}

/// Whether a frame of so many bytes fits at `top`, with something left before `limit`. NULL has no
/// room, which needs no test of its own: no frame ends before NULL. The sum does not overflow, as
/// neither an address nor a number of bytes is above `isize::MAX`; and it is the next frame's place,
/// which a push computes anyway.
#[inline(always)]
pub fn fits_between(bytes: usize, top: usize, limit: usize) -> bool {
    top.wrapping_add(bytes) < limit
}

/// Whether a frame of so many bytes fits an empty chunk with so much room.
#[inline(always)]
pub fn fits_in_room(bytes: usize, room: usize) -> bool {
    bytes < room
}

/// How many slots lie between a chunk's first one and `top`.
#[inline(always)]
pub fn slots_used(first: usize, top: usize) -> usize {
    (top - first) / SLOT_BYTES
}
