//! Per-code opt-out, with slots that are used again for other hooks.

use super::support::*;
use crate::in_cpython::{SlotMask, GROUP_SIZE, HOOK_GROUPS};
use std::cell::RefCell;
use std::collections::{HashMap, HashSet};
use std::rc::Rc;

/// Runs a script, and returns the hooks that were called in each of its dispatches.
///
/// `+a` adds a hook, `-a` removes it, `!a` has it answer DISABLE from now on, `?` calls the
/// function, `?2` another one. `a:off` and `a:on` switch it, `a:thread-off` in the thread,
/// `a:code-off` for the first function.
fn dispatches(script: &str) -> String {
    let _engine = Engine::start();
    let log = Log::default();
    let functions = [define(with_parameters(""), ""), define(with_parameters(""), "")];
    let settling: Rc<RefCell<HashSet<String>>> = Rc::default();
    let mut hooks: HashMap<String, i64> = HashMap::new();
    let mut dispatches = Vec::new();
    for step in script.split_whitespace() {
        let (kind, name) = step.split_at(1);
        match kind {
            "+" => {
                let (notes, settling, own) = (log.clone(), settling.clone(), name.to_string());
                let hook = add(move |_| {
                    notes.note(&own);
                    if settling.borrow().contains(&own) {
                        Reply::Disable
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
                let called = log.read().replace(' ', "");
                dispatches.push(if called.is_empty() { "-".to_string() } else { called });
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
    dispatches.join(" ")
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
        // Another hook in the slot of one that was disabled.
        ("+a !a ? -a +b ?", "a b"),
        ("+a !a ? -a +b ? +c ? -b +d ?", "a b bc cd"),
        ("+a +b !a !b ? ? -a +c ?", "ab - c"),
        ("+a +b !a !b ? -b +c ? -a +d ?", "ab c cd"),
        // Bits of others are not lost, nor taken for the new hook's.
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
        assert_eq!(dispatches(script), expected, "{script}");
    }
}

#[test]
fn sixteen_million_changes_and_more_make_no_difference() {
    let _engine = Engine::start();
    let log = Log::default();
    let function = define(with_parameters(""), "");
    let called = |expected: &str| {
        function.call("").expect("a call");
        assert_eq!(log.read(), expected);
    };
    log.add("a", Reply::Disable);
    called("a");
    // SAFETY: a field of the state, which nothing else uses.
    unsafe { (*thread().state()).epoch = (1 << 24) - 2 };
    for _ in 0..5 {
        let hook = log.add("b", Reply::Disable);
        called("b");
        called("");
        assert_eq!(remove(hook.id), Ok(()));
        let hook = log.add("c", Reply::Pass);
        called("c");
        assert_eq!(remove(hook.id), Ok(()));
    }
    called("");
}

#[test]
fn a_mask_distinguishes_its_hooks_from_later_ones() {
    let _engine = Engine::start();
    let hooks = [(); 3].map(|()| add(|_| Reply::Pass));
    // SAFETY: nothing is added or removed while the list is gone over; a field of the state.
    let valid = |mask: SlotMask| unsafe { mask.valid(epoch(), thread().not_stopped().hooks(), 0) };
    let all = SlotMask { epoch: epoch(), slots: 0b111 };
    assert_eq!((valid(SlotMask { epoch: 1, slots: 0b111 }), valid(all)), (0b001, 0b111));
    assert_eq!(remove(hooks[1].id), Ok(()));
    add(|_| Reply::Pass);
    assert_eq!(valid(all), 0b101, "the second slot is another hook's");
    assert_eq!(valid(SlotMask { epoch: 0, slots: 0 }), 0);
}

/// The number of hooks ever added.
fn epoch() -> u32 {
    // SAFETY: a field of the state.
    unsafe { (*thread().state()).epoch }
}

/// Adds a hook that writes its number down and answers that.
fn numbered(log: &Log, number: usize, reply: Reply) -> Added {
    let log = log.clone();
    add(move |_| {
        log.note(&number.to_string());
        reply
    })
}

#[test]
fn a_thousand_hooks_are_distinguished() {
    let _engine = Engine::start();
    let log = Log::default();
    let functions = [define(with_parameters(""), ""), define(with_parameters(""), "")];
    let hooks: Vec<_> = (0..HOOK_GROUPS * GROUP_SIZE)
        .map(|at| numbered(&log, at, if at % 3 == 0 { Reply::Disable } else { Reply::Pass }))
        .collect();
    let called = |function: &Defined| -> Vec<usize> {
        function.call("").expect("a call");
        log.read().split_whitespace().map(|name| name.parse().expect("a number")).collect()
    };
    let all = || 0..hooks.len();
    assert_eq!(called(&functions[0]), all().collect::<Vec<_>>());
    assert_eq!(called(&functions[0]), all().filter(|at| at % 3 != 0).collect::<Vec<_>>());
    // Each kind of switch reaches the right one of the last group.
    let (last, code) = (hooks.len() - 1, functions[1].code);
    assert_eq!(enable(hooks[last - 1].id, false), Ok(()));
    assert_eq!(enable_in_thread(hooks[last - 2].id, false), Ok(()));
    assert_eq!(enable_for_code(hooks[last - 4].id, code, false), Ok(()));
    let off = [last - 1, last - 2, last - 4];
    assert_eq!(called(&functions[1]), all().filter(|at| !off.contains(at)).collect::<Vec<_>>());
    // Slots are used again for other hooks, in whatever group.
    for at in [0, 40, last] {
        assert_eq!(remove(hooks[at].id), Ok(()));
        numbered(&log, 10_000 + at, Reply::Pass);
    }
    let newcomers = [10_000, 10_040, 10_000 + last];
    assert_eq!(called(&functions[0])[called_before_newcomers(&hooks)..], newcomers);
}

/// How many of the hooks are called for code that they have seen, where three were removed.
fn called_before_newcomers(hooks: &[Added]) -> usize {
    let last = hooks.len() - 1;
    (0..hooks.len())
        .filter(|at| at % 3 != 0 && ![0, 40, last, last - 1, last - 2].contains(at))
        .count()
}
