//! Who need not be asked: what is settled, where slots are used again for other hooks.

use super::support::*;
use crate::frame_hook::snapshot::SnapshotRef;
use crate::in_cpython::SlotMask;
use std::cell::RefCell;
use std::collections::{HashMap, HashSet};
use std::rc::Rc;

/// Runs a script, and returns who was asked in each of its rounds.
///
/// `+a` adds a hook, `-a` removes it, `!a` has it answer SETTLED from now on, `?` calls the
/// function, `?2` another one. `a:off` and `a:on` switch it, `a:thread-off` in the thread,
/// `a:code-off` for the first function.
fn rounds(script: &str) -> String {
    let _engine = Engine::start();
    let log = Log::default();
    let functions = [define(with_parameters(""), ""), define(with_parameters(""), "")];
    let settling: Rc<RefCell<HashSet<String>>> = Rc::default();
    let mut hooks: HashMap<String, i64> = HashMap::new();
    let mut rounds = Vec::new();
    for step in script.split_whitespace() {
        let (kind, name) = step.split_at(1);
        match kind {
            "+" => {
                let (notes, settling, own) = (log.clone(), settling.clone(), name.to_string());
                let hook = add(move |_| {
                    notes.note(&own);
                    if settling.borrow().contains(&own) {
                        Reply::Settled
                    } else {
                        Reply::Pass
                    }
                });
                hooks.insert(name.to_string(), hook.id);
            }
            "-" => assert_eq!(remove(hooks[name]), Ok(())),
            "!" => {
                settling.borrow_mut().insert(name.to_string());
            }
            "?" => {
                let function = &functions[if name.is_empty() { 0 } else { 1 }];
                function.call("").expect("a call");
                let asked = log.read().replace(' ', "");
                rounds.push(if asked.is_empty() { "-".to_string() } else { asked });
            }
            _ => {
                let id = hooks[kind];
                let done = match &name[1..] {
                    "on" => enable(id, true),
                    "off" => enable(id, false),
                    "thread-on" => enable_in_thread(id, true),
                    "thread-off" => enable_in_thread(id, false),
                    "code-on" => enable_for_code(id, functions[0].code, true),
                    "code-off" => enable_for_code(id, functions[0].code, false),
                    other => panic!("no such step: {other}"),
                };
                assert_eq!(done, Ok(()));
            }
        }
    }
    rounds.join(" ")
}

#[test]
fn verdicts_belong_to_the_hook_and_not_to_its_slot() {
    for (script, expected) in [
        // One hook, one code object.
        ("+a ? ?", "a a"),
        ("+a !a ? ? ?", "a - -"),
        ("+a ? !a ? ?", "a a -"),
        ("+a !a ? ?2 ? ?2", "a a - -"),
        // A hook that is added again is another one.
        ("+a !a ? ? -a +a ? ?", "a - a -"),
        // Another hook in the slot of one that has settled.
        ("+a !a ? -a +b ?", "a b"),
        ("+a !a ? -a +b ? +c ? -b +d ?", "a b bc cd"),
        ("+a +b !a !b ? ? -a +c ?", "ab - c"),
        ("+a +b !a !b ? -b +c ? -a +d ?", "ab c cd"),
        // What others have settled since is not lost, nor taken for the newcomer's.
        ("+a +b !a ? -a +c !b ? ?", "ab bc c"),
        ("+a +b !a !b ? -a +c !c ? ? -b +d ?", "ab c - d"),
        ("+a !a ? +b !b ? ? +c ? -a +d ?", "a b - c cd"),
        // Switched off and on again.
        ("+a a:off ? a:on ?", "- a"),
        ("+a !a ? a:off ? a:on ?", "a - -"),
        ("+a +b a:off !b ? a:on ?", "b a"),
        ("+a a:off -a +b ?", "b"),
        ("+a +b a:off +c ? -c ? -b ?", "bc b -"),
        // In the thread.
        ("+a +b a:thread-off ? a:thread-on ?", "b ab"),
        ("+a a:thread-off ? -a +b ?", "- b"),
        ("+a +b a:thread-off b:thread-off -a +c ? b:thread-on ?", "c bc"),
        ("+a +b a:thread-off -b +c ? c:thread-off ? -a +d ?", "c - d"),
        // For one code object.
        ("+a a:code-off ? ?2 a:code-on ?", "- a a"),
        ("+a !a ? a:code-on ? ?", "a a -"),
        ("+a +b a:code-off ? b:code-off ? a:code-on ?", "b - a"),
        ("+a a:code-off -a +b ?", "b"),
        ("+a +b a:code-off -b +c ? -a +d ?", "c cd"),
    ] {
        assert_eq!(rounds(script), expected, "{script}");
    }
}

#[test]
fn sixteen_million_changes_and_more_make_no_difference() {
    let _engine = Engine::start();
    let log = Log::default();
    let function = define(with_parameters(""), "");
    let asked = |expected: &str| {
        function.call("").expect("a call");
        assert_eq!(log.read(), expected);
    };
    log.add("a", Reply::Settled);
    asked("a");
    // SAFETY: a field of the state, which nobody else uses.
    unsafe { (*thread().state()).epoch = (1 << 24) - 2 };
    for _ in 0..5 {
        let hook = log.add("b", Reply::Settled);
        asked("b");
        asked("");
        assert_eq!(remove(hook.id), Ok(()));
        let hook = log.add("c", Reply::Pass);
        asked("c");
        assert_eq!(remove(hook.id), Ok(()));
    }
    asked("");
}

#[test]
fn a_mask_tells_its_hooks_from_those_that_came_later() {
    let _engine = Engine::start();
    let hooks = [(); 3].map(|()| add(|_| Reply::Pass));
    let masks = || {
        let snapshot = SnapshotRef::current(thread()).expect("hooks");
        let now = snapshot.get();
        let all = SlotMask { epoch: now.epoch(), slots: 0b111 };
        (all, SlotMask { epoch: 1, slots: 0b111 }.valid(now), all.valid(now))
    };
    let (all, first_alone, every) = masks();
    assert_eq!((first_alone, every), (0b001, 0b111));
    assert_eq!(remove(hooks[1].id), Ok(()));
    add(|_| Reply::Pass);
    let snapshot = SnapshotRef::current(thread()).expect("hooks");
    let now = snapshot.get();
    assert_eq!(all.valid(now), 0b101, "the second slot is another hook's");
    for slot in 0..3 {
        for member in [false, true] {
            let mask = all.with(now, slot, member);
            let own = if member { 1 << slot } else { 0 };
            assert_eq!((mask.epoch, mask.slots), (now.epoch(), 0b101 & !(1 << slot) | own));
            assert_eq!(mask.valid(now), mask.slots);
        }
    }
    let nobody = SlotMask { epoch: 0, slots: 0 };
    assert_eq!(nobody.valid(now), 0);
}
