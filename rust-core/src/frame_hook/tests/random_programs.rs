//! Programs with hooks by chance, and those that were wrong once.

use super::programs::Action::*;
use super::programs::{run, Action, Answer, Body, Ending, Place, Program, Verdict};
use proptest::prelude::*;

const PASSES: Answer = Answer {
    verdict: Verdict::Pass,
    events: 0,
    scope: 0,
    fails: 0,
    in_entry: None,
    in_event: None,
};
const EXCLUDE_CALLEES: u8 = 6;
const ONLY_CALLEES: u8 = 7;
const ONLY_CALLEES_EVERYWHERE: u8 = 8;
const CALL: Action = Call { function: 0, catches: true };

fn function(actions: &[Action]) -> Body {
    Body { is_generator: false, parts: vec![actions.to_vec()] }
}

fn add(hook: u8) -> Action {
    Add { hook, place: Place::Last }
}

#[test]
fn a_hook_that_is_removed_in_its_callback_silences_none_that_takes_its_slot() {
    for scope in [EXCLUDE_CALLEES, ONLY_CALLEES, ONLY_CALLEES_EVERYWHERE] {
        run(Program {
            hooks: vec![
                vec![Answer {
                    scope,
                    in_entry: Some(Call { function: 2, catches: true }),
                    ..PASSES
                }],
                vec![PASSES],
            ],
            functions: vec![function(&[]), function(&[CALL]), function(&[Clear, add(1)])],
            main: vec![add(0), Call { function: 1, catches: true }],
            short: Vec::new(),
        });
    }
}

#[test]
fn a_resumed_generator_silences_no_hook_in_the_slot_of_a_removed_one() {
    for scope in [EXCLUDE_CALLEES, ONLY_CALLEES, ONLY_CALLEES_EVERYWHERE] {
        run(Program {
            hooks: vec![vec![Answer { scope, ..PASSES }], vec![PASSES]],
            functions: vec![
                function(&[]),
                Body { is_generator: true, parts: vec![vec![CALL], vec![CALL]] },
            ],
            main: vec![
                add(0),
                Generate { function: 1, steps: 1, end: Ending::Keep },
                Clear,
                add(1),
                Resume(0),
            ],
            short: Vec::new(),
        });
    }
}

#[test]
fn a_hook_that_is_disabled_in_its_callback_gets_the_generators_events() {
    run(Program {
        hooks: vec![vec![Answer {
            events: 7,
            in_entry: Some(Switch { installed: 0, on: false }),
            ..PASSES
        }]],
        functions: vec![Body { is_generator: true, parts: vec![Vec::new()] }],
        main: vec![add(0), Generate { function: 0, steps: 2, end: Ending::Drop }],
        short: Vec::new(),
    });
}

#[test]
fn scopes_of_a_resumed_generator_end_one_after_the_other() {
    let silent = Answer { scope: EXCLUDE_CALLEES, ..PASSES };
    let calls = Answer { events: 1, in_event: Some(CallReentrant(0)), ..silent.clone() };
    run(Program {
        hooks: vec![vec![calls], vec![silent]],
        functions: vec![function(&[]), Body { is_generator: true, parts: Vec::new() }],
        main: vec![add(1), add(0), add(0), Generate { function: 1, steps: 1, end: Ending::Drop }],
        short: Vec::new(),
    });
}

// --- By chance. ---

fn place() -> impl Strategy<Value = Place> {
    prop_oneof![
        3 => Just(Place::Last),
        1 => Just(Place::First),
        1 => any::<u8>().prop_map(Place::Before),
        1 => any::<u8>().prop_map(Place::After),
    ]
}

fn ending() -> impl Strategy<Value = Ending> {
    prop_oneof![Just(Ending::Drop), Just(Ending::Throw), Just(Ending::Keep)]
}

fn action() -> impl Strategy<Value = Action> {
    prop_oneof![
        8 => (any::<u8>(), prop::bool::weighted(0.7))
            .prop_map(|(function, catches)| Call { function, catches }),
        1 => Just(Raise),
        3 => (any::<u8>(), place()).prop_map(|(hook, place)| Add { hook, place }),
        1 => any::<u8>().prop_map(Remove),
        1 => (any::<u8>(), any::<bool>())
            .prop_map(|(installed, on)| Switch { installed, on }),
        1 => any::<(u8, u8, u8, bool)>().prop_map(|(installed, function, variant, on)| {
            SwitchForCode { installed, function, variant, on }
        }),
        6 => (any::<u8>(), any::<u8>(), ending())
            .prop_map(|(function, steps, end)| Generate { function, steps, end }),
        2 => any::<u8>().prop_map(Resume),
        1 => (any::<u8>(), any::<bool>())
            .prop_map(|(function, below)| CallUnhooked { function, below }),
        1 => any::<u8>().prop_map(CallReentrant),
    ]
}

fn verdict() -> impl Strategy<Value = Verdict> {
    prop_oneof![
        12 => Just(Verdict::Pass),
        3 => Just(Verdict::Disable),
        2 => Just(Verdict::Result),
        1 => Just(Verdict::Raise),
        4 => any::<u8>().prop_map(Verdict::Replace),
        1 => Just(Verdict::Unknown),
    ]
}

fn answer() -> impl Strategy<Value = Answer> {
    let acts = || prop::option::weighted(0.2, action());
    let fails = prop_oneof![4 => Just(0u8), 1 => any::<u8>()];
    (verdict(), any::<u8>(), any::<u8>(), fails, acts(), acts()).prop_map(
        |(verdict, events, scope, fails, in_entry, in_event)| Answer {
            verdict,
            events,
            scope,
            fails,
            in_entry,
            in_event,
        },
    )
}

fn body() -> impl Strategy<Value = Body> {
    let parts = prop::collection::vec(prop::collection::vec(action(), 0..4), 0..4);
    (any::<bool>(), parts).prop_map(|(is_generator, parts)| Body { is_generator, parts })
}

fn program() -> impl Strategy<Value = Program> {
    (
        prop::collection::vec(prop::collection::vec(answer(), 1..4), 1..6),
        prop::collection::vec(body(), 1..6),
        prop::collection::vec(action(), 0..30),
        prop_oneof![4 => Just(Vec::new()), 1 => prop::collection::vec(any::<u8>(), 1..20)],
    )
        .prop_map(|(hooks, functions, mut main, short)| {
            main.insert(0, add(0));
            main.insert(0, add(1));
            Program { hooks, functions, main, short }
        })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]
    #[test]
    fn programs_with_hooks_do_what_the_model_says(program in program()) {
        run(program);
    }
}
