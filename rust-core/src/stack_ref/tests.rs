//! Every operation on every kind of object, in all four representations.

use super::*;
use crate::fake_cpython::objects::TestObject;
use proptest::prelude::*;

#[derive(Clone, Copy, Debug, PartialEq)]
enum Kind {
    Ordinary,
    Immortal,
    DeferredCount,
}

const KINDS: [Kind; 3] = [Kind::Ordinary, Kind::Immortal, Kind::DeferredCount];

fn object(kind: Kind) -> TestObject {
    TestObject {
        immortal: kind == Kind::Immortal,
        deferred: kind == Kind::DeferredCount,
        ..TestObject::new()
    }
}

fn pointer(object: &TestObject) -> NonNull<PyObject> {
    NonNull::new(object.as_object()).expect("not NULL")
}

/// What a representation does with each kind, as the headers of CPython have it.
struct Expected {
    null: usize,
    /// For each of `KINDS`: the tag of a new reference, of one taken over.
    new: [usize; 3],
    stolen: [usize; 3],
    immortal: usize,
}

fn check_representation<R: Representation>(expected: Expected) {
    assert_eq!(R::NULL, expected.null);
    for (i, kind) in KINDS.into_iter().enumerate() {
        // A new reference, what it counts, and what it looks like.
        let it = object(kind);
        let counted = i32::from(kind != Kind::Immortal && expected.new[i] == 0);
        // SAFETY: alive.
        let new = unsafe { StackRef::<R>::new(pointer(&it)) };
        assert_eq!(it.count.get(), 1 + counted, "{kind:?}");
        assert_eq!(new.object(), pointer(&it));
        let second = new.dup();
        assert_eq!(it.count.get(), 1 + 2 * counted);
        let third = new.borrow().dup();
        assert_eq!(it.count.get(), 1 + 3 * counted);
        assert_eq!(third.borrow().object(), pointer(&it));
        third.close();
        drop(second);
        assert_eq!(it.count.get(), 1 + counted);
        let bits = new.into_bits();
        assert_eq!(bits, it.as_object() as usize | expected.new[i], "{kind:?}");
        assert_eq!(it.count.get(), 1 + counted, "handing over counts nothing");
        // SAFETY: the word that was handed over.
        let again = unsafe { StackRef::<R>::from_bits(bits) }.expect("not NULL");
        // What leaves the stack is counted, whatever it was there.
        assert_eq!(again.into_object(), pointer(&it));
        assert_eq!(it.count.get(), 1 + i32::from(kind != Kind::Immortal));

        // A reference taken over: the count stays, and closing it gives it up.
        let it = object(kind);
        // SAFETY: alive, and its one reference is given away.
        let stolen = unsafe { StackRef::<R>::steal(pointer(&it)) };
        assert_eq!(it.count.get(), 1);
        let bits = stolen.into_bits();
        assert_eq!(bits, it.as_object() as usize | expected.stolen[i], "{kind:?}");
        // SAFETY: the word that was handed over.
        drop(unsafe { StackRef::<R>::from_bits(bits) });
        let freed = u16::from(kind != Kind::Immortal);
        assert_eq!(it.freed.get(), freed, "{kind:?}");
    }
    let it = object(Kind::Immortal);
    // SAFETY: immortal.
    let immortal = unsafe { StackRef::<R>::immortal(pointer(&it)) };
    assert_eq!(immortal.into_bits(), it.as_object() as usize | expected.immortal);
    assert_eq!(it.count.get(), 1);
    // SAFETY: NULL is a word of every representation.
    assert!(unsafe { StackRef::<R>::from_bits(R::NULL) }.is_none());
}

#[test]
fn references_of_3_13_with_the_gil_are_plain_pointers() {
    check_representation::<Untagged>(Expected {
        null: 0,
        new: [0, 0, 0],
        stolen: [0, 0, 0],
        immortal: 0,
    });
}

#[test]
fn references_of_3_13_free_threaded_tag_what_is_deferred() {
    check_representation::<Deferred>(Expected {
        null: 0,
        new: [0, 0, 1],
        stolen: [0, 0, 0],
        immortal: 0,
    });
}

#[test]
fn references_of_3_14_with_the_gil_tag_what_is_immortal() {
    check_representation::<TaggedImmortal>(Expected {
        null: 1,
        new: [0, 1, 0],
        stolen: [0, 1, 0],
        immortal: 1,
    });
}

#[test]
fn references_of_3_14_free_threaded_tag_what_is_deferred() {
    check_representation::<TaggedDeferred>(Expected {
        null: 1,
        new: [0, 0, 1],
        stolen: [0, 0, 0],
        immortal: 1,
    });
}

#[test]
fn an_early_return_closes_what_it_owns() {
    fn fails(it: &TestObject) -> Option<()> {
        // SAFETY: alive.
        let _owned = unsafe { StackRef::<Untagged>::new(pointer(it)) };
        None?;
        Some(())
    }
    let it = object(Kind::Ordinary);
    assert!(fails(&it).is_none());
    assert_eq!(it.count.get(), 1);
}

#[test]
fn a_word_of_memory_and_a_slot_are_the_same_size() {
    assert_eq!(size_of::<StackSlot<TaggedImmortal>>(), size_of::<usize>());
    assert_eq!(size_of::<StackRef<Deferred>>(), size_of::<usize>());
    assert_eq!(size_of::<StackRefBorrow<'_, Deferred>>(), size_of::<usize>());
}

/// Random use of slots against a model that counts what each slot must hold.
fn use_slots<R: Representation>(steps: &[(usize, usize, usize)]) {
    const SLOTS: usize = 4;
    let objects: Vec<TestObject> = KINDS.into_iter().map(object).collect();
    let mut slots = [const { StackSlot::<R>::EMPTY }; SLOTS];
    let mut model = [None::<usize>; SLOTS];
    let mut given_out = [0i32; 3];
    for &(step, slot, which) in steps {
        let it = pointer(&objects[which]);
        // SAFETY: alive, and references are given out below where they leave.
        let new = || unsafe { StackRef::<R>::new(it) };
        match step {
            0 => {
                slots[slot].set(new());
                model[slot] = Some(which);
            }
            1 => {
                slots[slot].clear();
                model[slot] = None;
            }
            2 => {
                if let Some(out) = slots[slot].take() {
                    let left = model[slot].take().expect("the model has it too");
                    assert_eq!(out.into_object(), pointer(&objects[left]));
                    given_out[left] += 1;
                }
            }
            3 => {
                let copy = slots[slot].get().map(StackRefBorrow::dup);
                let other = (slot + 1) % SLOTS;
                drop(slots[other].replace(copy));
                model[other] = model[slot];
            }
            _ => {
                if given_out[which] > 0 {
                    given_out[which] -= 1;
                    // SAFETY: one of those given out.
                    slots[slot].set(unsafe { StackRef::<R>::steal(it) });
                    model[slot] = Some(which);
                }
            }
        }
        for i in 0..SLOTS {
            assert_eq!(slots[i].get().map(|r| r.object()), model[i].map(|w| pointer(&objects[w])));
            assert_eq!(slots[i].is_empty(), model[i].is_none());
        }
        assert!(objects.iter().all(|it| it.freed.get() == 0));
    }
    for slot in &mut slots {
        slot.clear();
        assert!(slot.is_empty());
    }
    for (it, given) in objects.iter().zip(given_out) {
        let expected = if it.immortal { 1 } else { 1 + given };
        assert_eq!(it.count.get(), expected, "a count is lost or left over");
    }
}

proptest! {
    #[test]
    fn slots_neither_leak_nor_close_twice(
        steps in proptest::collection::vec((0usize..5, 0usize..4, 0usize..3), 0..300)
    ) {
        use_slots::<Untagged>(&steps);
        use_slots::<Deferred>(&steps);
        use_slots::<TaggedImmortal>(&steps);
        use_slots::<TaggedDeferred>(&steps);
    }
}

#[test]
fn what_c_calls_takes_null_where_c_may_pass_it() {
    use super::exports::*;
    use core::ptr::null_mut;
    // SAFETY: NULL is allowed in each.
    let (null, deferred) = unsafe {
        (_PyRust_StackRef_StealRef(null_mut()), _PyRust_StackRef_XNewRefDeferred(null_mut()))
    };
    assert!(_PyRust_StackRef_IsNull(null) && _PyRust_StackRef_IsNull(deferred));
    // SAFETY: NULL is allowed in each.
    unsafe {
        assert!(_PyRust_StackRef_IsNull(_PyRust_StackRef_XNewRef(null)));
        assert!(_PyRust_StackRef_Get(null).is_null());
        assert!(_PyRust_StackRef_StealObject(null).is_null());
        assert!(_PyRust_StackRef_AsPyObjectBorrow(null).is_null());
        _PyRust_StackRef_XDecref(null);
        _PyRust_StackRef_XCLOSE(null);
    }
}
