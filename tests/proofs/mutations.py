"""What is broken on purpose, and what must notice it.

A batch is broken at once, in one copy. Its changes do not hide each other: what one of them must break has nothing to do with the others.
A change is (file below rust-core/src, text that is there once, other text, who must fail). Who is a claim, without its prefix, or
a test: "interleaved_..." for a model, anything else for a test of proofs.
"""

from collections.abc import Callable

Change = tuple[str, str, str, list[str]]

PARAMETERS = "every_map_of_five_parameters_is_one_to_one_by_name_and_kind"

SIZES, TABLE, INDEX = "data_stack/sizes.rs", "code_extra/table.rs", "code_extra/index.rs"
REGISTRY, VALUES, CACHE = "code_extra/registry.rs", "code_extra/values.rs", "data_stack/cache.rs"
COUNTED, LOCK = "frame_hook/counted.rs", "mutex.rs"
HOOKS, REFERENCES = "frame_hook/hook/list.rs", "frame_hook/hook/references.rs"
DISABLE, MAP = "frame_hook/opt_out.rs", "frame_hook/parameter_map.rs"

BATCHES: list[list[Change]] = [
    # --- Arithmetic. ---
    [
        (SIZES, "slots.checked_add(HEADROOM_SLOTS)?", "slots.checked_add(0)?", ["a_new_chunk_takes_the_frame"]),
        (SIZES, "bytes.saturating_mul(2)", "bytes.saturating_mul(1)", ["a_new_chunk_is_twice_the_one_below"]),
        (SIZES, "top.wrapping_add(bytes) < limit", "top.wrapping_add(bytes) <= limit",
         ["what_fits_ends_before_the_limit", "nothing_fits_where_there_is_no_chunk"]),
        (SIZES, "    bytes < room", "    bytes <= room", ["what_fits_the_room_ends_before_the_limit"]),
        (SIZES, "(top - first) / SLOT_BYTES", "(top - first) / (2 * SLOT_BYTES)", ["a_top_is_found_again"]),
        (TABLE, "capacity - capacity / 4", "capacity", ["a_table_takes_its_keys_and_is_no_larger"]),
        (TABLE, "(capacity - 1) * WORDS_PER_ENTRY", "capacity * WORDS_PER_ENTRY",
         ["a_mask_tells_the_capacity", "the_first_look_is_at_an_entry"]),
        (TABLE, "home.wrapping_add(step) & last", "home.wrapping_add(step / 2) & last", ["a_walk_meets_each_entry_once"]),
        (REGISTRY, "slot.ilog2() as usize - 3", "slot.ilog2() as usize - 4", ["each_slot_has_a_place_of_its_own", "segments_double"]),
        (INDEX, "Index(self.0 + ONE_GENERATION)", "Index(self.0 + ONE_GENERATION / 2)", ["a_slot_never_gives_an_index_again"]),
        (INDEX, "(index.generation() < LAST_GENERATION)", "(index.generation() <= LAST_GENERATION)",
         ["a_number_is_an_index_or_none"]),
        (INDEX, "Index(tag.0 << SLOT_BITS |", "Index(tag.0 << (SLOT_BITS - 1) |", ["a_first_index_has_its_slot_and_tag"]),
        ("frame_hook/set.rs", "u64::from(self.epoch) << 32", "u64::from(self.epoch) << 31", ["a_set_is_read_as_it_was_written"]),
        (MAP, "other != slot &&", "other > slot &&", [PARAMETERS]),
    ],
    [
        (SIZES, "needed.max(wanted).checked_next_power_of_two()", "needed.max(wanted).checked_mul(2)?.checked_next_power_of_two()",
         ["a_new_chunk_is_no_larger_than_it_must_be"]),
        (SIZES, "chunk_bytes - CHUNK_DATA", "chunk_bytes - SLOT_BYTES", ["what_fits_the_room_ends_before_the_limit"]),
        (SIZES, "top.wrapping_add(bytes)", "top.wrapping_add(2 * bytes)", ["two_frames_that_were_admitted_fit"]),
        (TABLE, "while limit(capacity) < count", "while limit(capacity) + 1 < count", ["a_table_takes_its_keys_and_is_no_larger"]),
        (TABLE, "index.wrapping_mul(WORDS_PER_ENTRY) & mask", "index & mask", ["the_first_look_is_at_an_entry"]),
        (REGISTRY, "slot - size, size)", "slot - size / 2, size)", ["each_slot_has_a_place_of_its_own"]),
        (INDEX, "const GONE: usize = 1 << 63;", "const GONE: usize = 1 << 62;", ["keys_cannot_be_mixed_up"]),
        (INDEX, "self.0 & (MOST_INDICES - 1)", "self.0 & (MOST_INDICES / 2 - 1)", ["two_numbers_are_two_indices"]),
        # Kinds are mixed.
        (MAP, "let (first, end) = if slot < self.positional", "let (first, end) = if true { (0, self.named) } else if slot < self.positional",
         [PARAMETERS]),
    ],
    [
        # An overflow.
        (SIZES, ".checked_mul(SLOT_BYTES)?", ".wrapping_add(0) * SLOT_BYTES", ["a_new_chunk_takes_the_frame"]),
        (MAP, "other != slot &&", "", [PARAMETERS]),
    ],
    # --- Threads: hooks, and what all threads keep. ---
    [
        (COUNTED, "counter.fetch_add(amount, Ordering::AcqRel)", "counter.fetch_add(amount, Ordering::Relaxed)",
         ["interleaved_two_dispatches_end_while_their_hook_is_removed", "interleaved_a_hook_is_removed_while_a_dispatch_uses_it"]),
        (CACHE, "left.fetch_update(Relaxed, Relaxed, |left| left.checked_sub(missing)).is_ok()",
         "left.load(Relaxed).checked_sub(missing).map(|rest| left.store(rest, Relaxed)).is_some()",
         ["interleaved_threads_keep_no_more_than_is_there"]),
        (DISABLE, "registry.release(index)?;", "", ["interleaved_threads_agree_on_one_index"]),
        # A removed hook that leads to the next one without a reference.
        (HOOKS, "                next.as_ref().references.share();\n", "", ["interleaved_two_threads_remove_two_hooks_during_a_dispatch"]),
    ],
    [
        # A dispatch that has a hook and does not use it.
        (REFERENCES, "        self.users.share();\n        HookInUse(NonNull::from(self))", "        HookInUse(NonNull::from(self))",
         ["interleaved_two_threads_remove_two_hooks_during_a_dispatch", "interleaved_a_hook_is_added_and_all_are_removed_during_a_dispatch"]),
        (CACHE, "left.fetch_add(surplus, Relaxed)", "left.store(left.load(Relaxed) + surplus, Relaxed)",
         ["interleaved_what_threads_give_up_can_be_claimed_again"]),
        (DISABLE, "place.compare_exchange(0, index + 1, Ordering::AcqRel, Ordering::Acquire)",
         "{ place.store(index + 1, Ordering::Release); Ok::<isize, isize>(index) }", ["interleaved_threads_agree_on_one_index"]),
    ],
    # --- Threads: values on code objects. ---
    [
        (VALUES, ".compare_exchange(expected, table.as_ptr(), Ordering::AcqRel, Ordering::Acquire)",
         ".compare_exchange(expected, table.as_ptr(), Ordering::Relaxed, Ordering::Relaxed)",
         ["interleaved_a_reader_finds_a_whole_value_or_none", "interleaved_a_value_stays_found_while_its_table_is_replaced"]),
    ],
    [
        # The first look does not wait for what the table's writer has done.
        (TABLE, "    let table = unsafe { extra_of(code) }.load(Ordering::Acquire);",
         "    let table = unsafe { extra_of(code) }.load(Ordering::Relaxed);",
         ["interleaved_a_reader_finds_a_whole_value_or_none"]),
    ],
    [
        (VALUES, "free_delayed(table.as_ptr().cast(), table.bytes())", "crate::cpython::PyMem_Free(table.as_ptr().cast())",
         ["interleaved_a_value_stays_found_while_its_table_is_replaced", "interleaved_a_table_of_several_goes_with_its_last_value"]),
    ],
    [
        # A value is seen before what it leads to.
        (TABLE, "entry.value.swap(value, Ordering::AcqRel)", "entry.value.swap(value, Ordering::Relaxed)",
         ["interleaved_a_reader_finds_a_whole_value_or_none"]),
    ],
    [
        (REGISTRY, "self.0.count().store(count + 1, Ordering::Release)", "self.0.count().store(count + 1, Ordering::Relaxed)",
         ["interleaved_an_index_is_whole_when_it_is_seen"]),
        # A value is freed where it is found, and stays.
        (TABLE, "entry.map_or(null_mut(), |entry| self.swap(lock, entry, null_mut()))",
         "entry.map_or(null_mut(), |entry| entry.value.load(Ordering::Acquire))",
         ["interleaved_a_code_object_dies_while_an_index_is_released"]),
    ],
    [
        # A free slot stays in the list of free ones.
        (REGISTRY, "unsafe { (*state).first_free = (*first_free).next_free };", "", ["interleaved_a_released_slot_is_handed_out_once"]),
        # The last one has the code object.
        (VALUES, """            .compare_exchange(expected, table.as_ptr(), Ordering::AcqRel, Ordering::Acquire)
            .map_err(|_| Refused::For(Error::ForeignCode))?;""", "            .swap(table.as_ptr(), Ordering::AcqRel);",
         ["interleaved_two_interpreters_store_on_one_code_object"]),
    ],
    [
        # The slot's next index is the one before.
        (REGISTRY, "before.successor().ok_or(Refused::For(exhausted))?", "before.successor().map(|_| before).ok_or(Refused::For(exhausted))?",
         ["interleaved_an_index_that_comes_after_shows_nothing_to_the_one_before"]),
        # The value before is looked up without the lock that the store has.
        (VALUES, """                let mut locked = self.lock();
                // SAFETY: attached by the type's invariant. An index that""", """                let before = unsafe { value_in_use(code, raw) };
                let mut locked = self.lock();
                // SAFETY: attached by the type's invariant. An index that""", []),
        (VALUES, "edit(value_in_use(code, raw))", "edit(before)", ["interleaved_two_threads_disable_two_hooks_for_one_code"]),
    ],
    [
        # No lock at all.
        (LOCK, "unsafe { PyMutex_Lock(lock.cast()) };", "",
         ["interleaved_two_writers_lose_nothing_and_free_each_value_once", "interleaved_a_new_index_is_handed_out_once"]),
        (LOCK, "unsafe { PyMutex_Unlock(self.0.cast()) };", "", []),
    ],
    [
        # Who frees the code object does not wait for who takes its table away.
        (VALUES, "unsafe { extra_of(code) }.store(null_mut(), Ordering::Release)", "unsafe { extra_of(code) }.store(null_mut(), Ordering::Relaxed)",
         ["interleaved_a_code_object_dies_while_an_index_is_released"]),
    ],
    [
        # A table does not learn that its code object has died.
        (VALUES, "        table.forget_code(&mut locked);\n", "",
         ["interleaved_a_code_object_dies_elsewhere_while_an_index_is_released",
          "interleaved_a_code_object_dies_elsewhere_while_its_owner_ends"]),
    ],
]


def break_all(batch: list[Change], read: Callable[[str], str]) -> tuple[dict[str, str], list[str]]:
    """{file: its text with the changes of a batch}, and a line for each change whose text does not occur there once."""
    texts: dict[str, str] = {}
    faults = []
    for file, text, other, _ in batch:
        content = texts[file] if file in texts else read(file)
        if content.count(text) != 1:
            faults.append(f"{file} has this {content.count(text)} times and not once, so mutations.py must change: {text}")
        texts[file] = content.replace(text, other)
    return texts, faults
