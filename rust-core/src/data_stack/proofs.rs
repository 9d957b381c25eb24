//! What is claimed of sizes, of chunks and of what fits (`fake_cpython::claims`).

use super::sizes::*;
use crate::fake_cpython::claims::claims;
use crate::layout::CHUNK_DATA;

/// The most slots that C can request: an `int`. CPython keeps frames below an eighth of it.
const MOST_SLOTS: usize = i32::MAX as usize;
/// No allocation ends after this address.
const LAST_ADDRESS: usize = isize::MAX as usize;

fn needed(slots: usize) -> u128 {
    (slots as u128 + HEADROOM_SLOTS as u128) * SLOT_BYTES as u128
}

fn new_chunk(is_root: usize, below: usize, slots: usize) -> Option<usize> {
    new_chunk_bytes((is_root % 2 == 0).then_some(below), slots)
}

claims! {
    /// With a slot to spare, which a root leaves empty, and one more after the frame. Refused are
    /// only frames for which no number of bytes is large enough.
    claim_a_new_chunk_takes_the_frame(is_root, below, slots) =>
        match new_chunk(is_root, below, slots) {
            Some(bytes) => {
                let frame = slots as u128 * SLOT_BYTES as u128;
                bytes.is_power_of_two()
                    && bytes % SLOT_BYTES == 0
                    && (bytes as u128) > (CHUNK_DATA + SLOT_BYTES) as u128 + frame
            }
            None => needed(slots) > 1 << 63,
        };

    claim_a_new_chunk_is_twice_the_one_below(below, slots) =>
        new_chunk_bytes(Some(below), slots).is_none_or(|bytes| {
            bytes as u128 >= (2 * below as u128).min(LARGEST_GROWN_CHUNK as u128)
                && bytes >= SMALLEST_CHUNK
        });

    claim_a_new_chunk_is_no_larger_than_it_must_be(is_root, below, slots) =>
        new_chunk(is_root, below, slots).is_none_or(|bytes| {
            bytes <= LARGEST_GROWN_CHUNK || ((bytes / 2) as u128) < needed(slots)
        });

    claim_what_fits_ends_before_the_limit(slots, top, limit)
        if slots <= MOST_SLOTS && top <= limit && limit <= LAST_ADDRESS =>
        fits_between(slots * SLOT_BYTES, top, limit) == (top + slots * SLOT_BYTES < limit);

    claim_nothing_fits_where_there_is_no_chunk(slots) if slots <= MOST_SLOTS =>
        !fits_between(slots * SLOT_BYTES, 0, 0);

    claim_what_fits_the_room_ends_before_the_limit(slots, chunk, bytes)
        if slots <= MOST_SLOTS
            && bytes > CHUNK_DATA
            && bytes <= LAST_ADDRESS
            && chunk <= LAST_ADDRESS - bytes =>
        !fits_in_room(slots * SLOT_BYTES, room_in(bytes))
            || chunk + CHUNK_DATA + slots * SLOT_BYTES < chunk + bytes;

    /// What `push_unchecked` relies on: two frames that were admitted together fit one after the
    /// other, each in the current chunk or on the front chunk.
    claim_two_frames_that_were_admitted_fit(one, other, top, limit, first, room)
        if one <= MOST_SLOTS / 2
            && other <= MOST_SLOTS / 2
            && top <= limit
            && limit <= LAST_ADDRESS
            && room <= LAST_ADDRESS
            && first <= LAST_ADDRESS - room => {
        let (one, other) = (one * SLOT_BYTES, other * SLOT_BYTES);
        let admitted = fits_between(one + other, top, limit) || fits_in_room(one + other, room);
        !admitted
            || if fits_between(one, top, limit) {
                fits_between(other, top + one, limit) || fits_in_room(other, room)
            } else {
                fits_in_room(one, room) && fits_between(other, first + one, first + room)
            }
    };

    claim_a_top_is_found_again(first, top)
        if first % SLOT_BYTES == 0 && top % SLOT_BYTES == 0 && first <= top =>
        first + slots_used(first, top) * SLOT_BYTES == top;
}
