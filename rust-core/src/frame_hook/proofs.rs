//! What is claimed of sets of hooks (`fake_cpython::claims`), and maps of parameters against all possible
//! ones.

use super::parameter_map::{Names, ParameterMap};
use crate::fake_cpython::claims::claims;
use crate::in_cpython::SlotMask;

claims! {
    claim_a_set_is_read_as_it_was_written(epoch, slots) => {
        let mask = SlotMask { epoch: epoch as u32, slots: slots as u32 };
        SlotMask::from_extra(mask.to_extra()) == mask
    };
}

/// Names are numbers.
struct Numbered<'a> {
    old: &'a [u8],
    new: &'a [u8],
}

impl Names for Numbered<'_> {
    fn is_same(&self, slot: usize, other: usize) -> bool {
        self.old[slot] == self.new[other]
    }

    fn is_alike(&self, slot: usize, other: usize) -> bool {
        self.old[slot] == self.old[other]
    }
}

/// All ways to name `count` parameters with names below `names`.
fn all(count: usize, names: u8) -> Vec<Vec<u8>> {
    (0..count).fold(vec![vec![]], |ways, _| {
        let longer = |way: Vec<u8>| (0..names).map(move |name| [way.clone(), vec![name]].concat());
        ways.into_iter().flat_map(longer).collect()
    })
}

/// Of `all`, one for each pattern: a name that has not come yet is the next number.
fn patterns(count: usize) -> Vec<Vec<u8>> {
    let is_first = |way: &Vec<u8>| {
        way.iter().try_fold(0, |next, &name| (name <= next).then_some(next.max(name + 1))).is_some()
    };
    all(count, count as u8).into_iter().filter(is_first).collect()
}

/// Whether a map within a kind of parameters exists that keeps each name. Tried, not found by the
/// code under test.
fn has_same_names(old: &[u8], new: &[u8]) -> bool {
    let (mut old, mut new) = (old.to_vec(), new.to_vec());
    old.sort();
    new.sort();
    old == new
}

fn has_twice(names: &[u8]) -> bool {
    (0..names.len()).any(|slot| names[..slot].contains(&names[slot]))
}

/// What is accepted, and where each argument goes, for each pattern of equal names among so many
/// parameters, with each number of positional ones.
#[test]
fn every_map_of_five_parameters_is_one_to_one_by_name_and_kind() {
    let (mut accepted, mut refused) = (0, 0);
    for count in 0..=5 {
        // A name of the new code is one of the old ones, or one that those have not.
        let news = all(count, count as u8 + 1);
        for (old, new) in
            patterns(count).iter().flat_map(|old| news.iter().map(move |new| (old, new)))
        {
            for positional in 0..=count {
                let map = ParameterMap { positional, named: count, names: Numbered { old, new } };
                let targets: Vec<_> = (0..count).map(|slot| map.target(slot)).collect();
                let is_accepted = targets.iter().all(Option::is_some) && map.is_one_to_one();
                let case = || format!("{old:?} to {new:?}, {positional} positional: {targets:?}");
                let same = has_same_names(&old[..positional], &new[..positional])
                    && has_same_names(&old[positional..], &new[positional..]);
                if is_accepted {
                    accepted += 1;
                    let mut reached = vec![false; count];
                    for (slot, target) in targets.iter().map(|it| it.expect("a target")).enumerate()
                    {
                        assert_eq!(old[slot], new[target], "another name: {}", case());
                        assert_eq!(
                            slot < positional,
                            target < positional,
                            "another kind: {}",
                            case()
                        );
                        assert!(
                            !std::mem::replace(&mut reached[target], true),
                            "twice: {}",
                            case()
                        );
                        let is_alone = old.iter().filter(|&&name| name == old[slot]).count() == 1;
                        assert!(is_alone || target == slot, "one of two moves: {}", case());
                    }
                } else {
                    refused += 1;
                    assert!(!same || has_twice(old), "refused without need: {}", case());
                    assert!(old != new, "the same names are refused: {}", case());
                }
                // What has its place by its kind stays.
                assert_eq!(map.target(count), Some(count));
            }
        }
    }
    assert!(accepted > 1_000 && refused > 1_000_000, "{accepted} accepted, {refused} refused");
}
