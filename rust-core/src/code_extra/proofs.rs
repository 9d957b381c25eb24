//! What is claimed of indices, of tables and of the registry's slots (`fake_cpython::claims`).

use super::index::*;
use super::registry::{place_of, FIRST_SEGMENT, SEGMENTS};
use super::table::*;
use crate::fake_cpython::claims::claims;
use crate::in_cpython::Table;

/// Far more entries than there are indices of all interpreters.
const MOST_BITS: usize = 44;

fn index(raw: usize) -> Option<Index> {
    Index::from_raw(raw as isize)
}

fn parts(index: Index) -> (usize, usize, usize) {
    // A tag is not known but by the first index that it gives.
    (index.generation(), Index::first(index.tag(), 0).raw() as usize, index.slot())
}

claims! {
    claim_a_table_takes_its_keys_and_is_no_larger(count) if count <= 1 << MOST_BITS => {
        let capacity = capacity_for(count);
        capacity.is_power_of_two()
            && limit(capacity) >= count
            && (capacity == 1 || limit(capacity / 2) < count)
            && (capacity < 4 || limit(capacity) < capacity)
            && Table::bytes(capacity) > capacity * WORDS_PER_ENTRY * size_of::<usize>()
    };

    claim_a_mask_tells_the_capacity(bits) if bits <= MOST_BITS =>
        capacity_of(mask_of(1 << bits)) == 1 << bits;

    /// Of any number, whether it is an index or not: what `find` reads is an entry of the table, and
    /// the one where a walk over all entries begins.
    claim_the_first_look_is_at_an_entry(index, bits) if bits <= MOST_BITS => {
        let words = words_to_home(index, mask_of(1 << bits));
        words % WORDS_PER_ENTRY == 0
            && words / WORDS_PER_ENTRY < 1 << bits
            && words / WORDS_PER_ENTRY == position_of(index, 0, (1 << bits) - 1)
    };

    claim_a_walk_meets_each_entry_once(home, one, other, bits)
        if bits <= MOST_BITS && one < 1 << bits && other < 1 << bits && one != other => {
        let last = (1 << bits) - 1;
        position_of(home, one, last) != position_of(home, other, last)
            && position_of(home, one, last) <= last
    };

    claim_each_slot_has_a_place_of_its_own(one, other)
        if one < MOST_INDICES && other < MOST_INDICES && one != other => {
        let (segment, place, size) = place_of(one);
        let (other_segment, other_place, other_size) = place_of(other);
        segment < SEGMENTS
            && place < size
            && (segment, place) != (other_segment, other_place)
            && (segment != other_segment || size == other_size)
    };

    claim_segments_double(slot) if slot < MOST_INDICES => {
        let (segment, _, size) = place_of(slot);
        size == FIRST_SEGMENT << segment.saturating_sub(1)
    };

    claim_a_number_is_an_index_or_none(raw) => match index(raw) {
        Some(index) => {
            (raw as isize) >= 0
                && index.raw() == raw as isize
                && index.slot() < MOST_INDICES
                && index.generation() < (1 << 21) - 1
        }
        None => (raw as isize) < 0 || raw >> 42 == (1 << 21) - 1,
    };

    claim_two_numbers_are_two_indices(one, other) if one != other =>
        match (index(one), index(other)) {
            (Some(one), Some(other)) => parts(one) != parts(other),
            _ => true,
        };

    /// The next index of a slot is a later one of the same slot and interpreter. So none comes twice.
    claim_a_slot_never_gives_an_index_again(raw) if index(raw).is_some() => {
        let before = index(raw).unwrap_or_else(|| Index::first(Tag::of_interpreter(0), 0));
        match before.successor() {
            Some(next) => {
                next.raw() > before.raw()
                    && next.slot() == before.slot()
                    && next.tag() == before.tag()
                    && next.generation() == before.generation() + 1
                    && index(next.raw() as usize) == Some(next)
            }
            None => before.generation() == (1 << 21) - 2,
        }
    };

    claim_a_first_index_has_its_slot_and_tag(raw, slot)
        if index(raw).is_some() && slot < MOST_INDICES => {
        let tag = index(raw).map_or(Tag::of_interpreter(0), Index::tag);
        let first = Index::first(tag, slot);
        first.slot() == slot && first.tag() == tag && first.generation() == 0
    };

    /// A key is of one kind, and determines its index.
    claim_keys_cannot_be_mixed_up(raw) if index(raw).is_some() => {
        let index = index(raw).unwrap_or_else(|| Index::first(Tag::of_interpreter(0), 0));
        let (live, gone) = (Key::live(index), Key::gone(index));
        live != gone
            && live != Key::EMPTY
            && gone != Key::EMPTY
            && live.index() == index
            && gone.index() == index
            && index.raw() != NO_INDEX
    };
}
