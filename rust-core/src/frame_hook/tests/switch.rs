//! Blocks in which a hook is disabled.

use super::support::*;
use crate::code::Code;
use crate::fake_cpython::memory::allow;
use crate::fake_cpython::objects::count;
use crate::frame_hook::switch;

/// A block of any of the three kinds begins, or ends.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Kind {
    Everywhere,
    InThread,
    ForCode,
}

const KINDS: [Kind; 3] = [Kind::Everywhere, Kind::InThread, Kind::ForCode];

fn block(kind: Kind, id: i64, function: &Defined, begins: bool) -> Result<(), String> {
    // SAFETY: live code.
    let code = unsafe { Code::new(function.code) };
    let done = match (kind, begins) {
        (Kind::Everywhere, true) => switch::suspend(thread(), id),
        (Kind::InThread, true) => switch::suspend_in_thread(thread(), id),
        (Kind::ForCode, true) => switch::suspend_for_code(thread(), id, code),
        (Kind::Everywhere, false) => {
            switch::resume(thread(), id);
            Ok(())
        }
        (Kind::InThread, false) => {
            switch::resume_in_thread(thread(), id, thread().number());
            Ok(())
        }
        (Kind::ForCode, false) => {
            switch::resume_for_code(thread(), id, code);
            Ok(())
        }
    };
    outcome(if done.is_ok() { 0 } else { -1 })
}

fn switched(kind: Kind, id: i64, function: &Defined, on: bool) -> Result<(), String> {
    match kind {
        Kind::Everywhere => enable(id, on),
        Kind::InThread => enable_in_thread(id, on),
        Kind::ForCode => enable_for_code(id, function.code, on),
    }
}

#[test]
fn blocks_nest_and_the_last_one_that_ends_puts_things_back() {
    for kind in KINDS {
        for was_on in [true, false] {
            let _engine = Engine::start();
            let log = Log::default();
            let function = define(with_parameters(""), "");
            let hook = log.add("called", Reply::Pass);
            let is_called = || {
                function.call("").expect("a call");
                log.read() == "called"
            };
            assert_eq!(switched(kind, hook.id, &function, was_on), Ok(()));
            for depth in 1..4 {
                for _ in 0..depth {
                    assert_eq!(block(kind, hook.id, &function, true), Ok(()));
                    assert!(!is_called());
                }
                for left in (0..depth).rev() {
                    assert_eq!(block(kind, hook.id, &function, false), Ok(()));
                    assert_eq!(is_called(), left == 0 && was_on, "{kind:?}");
                }
            }
        }
    }
}

#[test]
fn a_switch_within_a_block_shows_when_the_block_has_ended() {
    for kind in KINDS {
        for on in [true, false] {
            let _engine = Engine::start();
            let log = Log::default();
            let function = define(with_parameters(""), "");
            let hook = log.add("called", Reply::Pass);
            assert_eq!(switched(kind, hook.id, &function, !on), Ok(()));
            assert_eq!(block(kind, hook.id, &function, true), Ok(()));
            assert_eq!(switched(kind, hook.id, &function, on), Ok(()));
            function.call("").expect("a call");
            assert_eq!(log.read(), "", "{kind:?}");
            assert_eq!(block(kind, hook.id, &function, false), Ok(()));
            function.call("").expect("a call");
            assert_eq!(log.read(), if on { "called" } else { "" }, "{kind:?}");
        }
    }
}

#[test]
fn blocks_of_different_kinds_and_hooks_are_apart() {
    let _engine = Engine::start();
    let log = Log::default();
    let functions = [define(with_parameters(""), ""), define(with_parameters(""), "")];
    let hooks = [log.add("a", Reply::Pass), log.add("b", Reply::Pass)];
    for kind in KINDS {
        assert_eq!(block(kind, hooks[0].id, &functions[0], true), Ok(()));
    }
    let called = |function: usize| {
        functions[function].call("").expect("a call");
        log.read()
    };
    assert_eq!((called(0), called(1)), ("b".to_string(), "b".to_string()));
    assert_eq!(block(Kind::Everywhere, hooks[0].id, &functions[0], false), Ok(()));
    assert_eq!((called(0), called(1)), ("b".to_string(), "b".to_string()));
    assert_eq!(block(Kind::InThread, hooks[0].id, &functions[0], false), Ok(()));
    assert_eq!((called(0), called(1)), ("b".to_string(), "a b".to_string()));
    assert_eq!(block(Kind::ForCode, hooks[0].id, &functions[0], false), Ok(()));
    assert_eq!((called(0), called(1)), ("a b".to_string(), "a b".to_string()));
}

#[test]
fn a_block_outlives_its_hook_and_does_not_touch_the_next_one() {
    for kind in KINDS {
        let _engine = Engine::start();
        let log = Log::default();
        let function = define(with_parameters(""), "");
        let gone = log.add("gone", Reply::Pass);
        assert_eq!(block(kind, gone.id, &function, true), Ok(()));
        assert_eq!(remove(gone.id), Ok(()));
        let next = log.add("next", Reply::Pass);
        function.call("").expect("a call");
        assert_eq!(log.read(), "next", "{kind:?}");
        assert_eq!(block(kind, next.id, &function, true), Ok(()));
        assert_eq!(block(kind, gone.id, &function, false), Ok(()));
        function.call("").expect("a call");
        assert_eq!(log.read(), "", "{kind:?}");
        assert_eq!(block(kind, next.id, &function, false), Ok(()));
        function.call("").expect("a call");
        assert_eq!(log.read(), "next", "{kind:?}");
        let unknown = "ValueError: this frame hook is not installed";
        assert_eq!(block(kind, gone.id, &function, true), Err(unknown.to_string()));
    }
}

#[test]
fn code_lives_while_a_block_has_it_and_goes_when_the_block_ends() {
    let _engine = Engine::start();
    let function = define(with_parameters(""), "");
    let hook = add(|_| Reply::Pass);
    for _ in 0..3 {
        assert_eq!(block(Kind::ForCode, hook.id, &function, true), Ok(()));
        assert_eq!(count(function.code.cast()), 2);
    }
    for left in [2, 2, 1, 1] {
        assert_eq!(block(Kind::ForCode, hook.id, &function, false), Ok(()));
        assert_eq!(count(function.code.cast()), left);
    }
    // One that never ends is the interpreter's to end.
    assert_eq!(block(Kind::ForCode, hook.id, &function, true), Ok(()));
}

#[test]
fn without_memory_no_block_begins_and_each_one_ends() {
    let _engine = Engine::start();
    let log = Log::default();
    let hook = log.add("called", Reply::Pass);
    let functions: Vec<_> = (0..40).map(|_| define(with_parameters(""), "")).collect();
    let mut failures = 0;
    for function in &functions {
        allow(Some(0));
        let begun = block(Kind::ForCode, hook.id, function, true);
        allow(None);
        if let Err(exception) = begun {
            assert_eq!(exception, "MemoryError");
            failures += 1;
            function.call("").expect("a call");
            assert_eq!(log.read(), "called");
            assert_eq!(block(Kind::ForCode, hook.id, function, true), Ok(()));
        }
        function.call("").expect("a call");
        assert_eq!(log.read(), "");
    }
    assert!(failures > 1, "the list grows now and then");
    for function in &functions {
        allow(Some(0));
        assert_eq!(block(Kind::ForCode, hook.id, function, false), Ok(()));
        allow(None);
    }
    for function in &functions {
        function.call("").expect("a call");
        assert_eq!(log.read(), "called");
    }
}
