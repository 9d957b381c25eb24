//! The hooks against a model: a list of hooks, and plain sets of what they are disabled for.
//!
//! Hooks are added, removed, enabled, disabled and suspended, and raise, within dispatches too. Which are called, in
//! which order, and how the eval loop continues must be as in the model.

use super::support::Became;
use super::support::*;
use crate::code::Code;
use crate::frame_hook::switch;
use proptest::prelude::*;
use std::cell::{Cell, RefCell};
use std::collections::{HashMap, HashSet, VecDeque};
use std::rc::Rc;

const CODES: usize = 3;

/// What a hook does when it is called.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Will {
    Pass,
    Disable,
    Raise,
    /// Adds another hook, and passes.
    Add,
    /// Removes the hook at that place, which may be itself, and passes.
    Remove(usize),
    /// Switches the hook at that place off, and passes.
    SwitchOff(usize),
}

/// The scope of a switch or a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Where {
    Everywhere,
    InThread,
    ForCode(usize),
}

#[derive(Clone, Debug)]
enum Step {
    Add(Will),
    Remove(usize),
    Clear,
    Become(usize, Will),
    Switch(usize, Where, bool),
    /// A block begins or ends.
    Block(usize, Where, bool),
    Call(usize),
}

fn will() -> impl Strategy<Value = Will> {
    prop_oneof![
        6 => Just(Will::Pass),
        6 => Just(Will::Disable),
        1 => Just(Will::Raise),
        1 => Just(Will::Add),
        1 => any::<usize>().prop_map(Will::Remove),
        1 => any::<usize>().prop_map(Will::SwitchOff),
    ]
}

fn place() -> impl Strategy<Value = Where> {
    prop_oneof![Just(Where::Everywhere), Just(Where::InThread), (0..CODES).prop_map(Where::ForCode),]
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => will().prop_map(Step::Add),
        3 => any::<usize>().prop_map(Step::Remove),
        1 => Just(Step::Clear),
        3 => (any::<usize>(), will()).prop_map(|(which, will)| Step::Become(which, will)),
        3 => (any::<usize>(), place(), any::<bool>()).prop_map(|(a, b, c)| Step::Switch(a, b, c)),
        3 => (any::<usize>(), place(), any::<bool>()).prop_map(|(a, b, c)| Step::Block(a, b, c)),
        20 => (0..CODES).prop_map(Step::Call),
    ]
}

/// The model, which also decides what the hooks do.
#[derive(Default)]
struct Model {
    /// Handles, in order.
    hooks: Vec<i64>,
    wills: HashMap<i64, Will>,
    /// The hooks that are disabled, and where.
    off: HashSet<(i64, Where)>,
    blocks: HashMap<(i64, Where), usize>,
    dispatch: Dispatch,
}

/// The dispatch in progress.
#[derive(Default)]
struct Dispatch {
    code: usize,
    /// The hooks that are still to be called, unless something happens first.
    waiting: VecDeque<i64>,
    has_passed: bool,
    has_failed: bool,
}

type Shared = Rc<RefCell<Model>>;

impl Model {
    fn is_off(&self, id: i64, place: Where) -> bool {
        self.off.contains(&(id, place)) || self.blocks.get(&(id, place)).is_some_and(|it| *it > 0)
    }

    /// Whether a hook is enabled for this code, in whatever thread.
    fn is_open(&self, id: i64, code: usize) -> bool {
        !self.is_off(id, Where::Everywhere) && !self.is_off(id, Where::ForCode(code))
    }

    fn pick(&self, which: usize) -> Option<i64> {
        (!self.hooks.is_empty()).then(|| self.hooks[which % self.hooks.len()])
    }

    /// A dispatch begins. Returns how the eval loop continues if no hook is called.
    fn begin(&mut self, code: usize) -> Option<Became> {
        let open: Vec<i64> =
            self.hooks.iter().copied().filter(|id| self.is_open(*id, code)).collect();
        let here = open.iter().copied().filter(|id| !self.is_off(*id, Where::InThread)).collect();
        self.dispatch = Dispatch { code, waiting: here, ..Dispatch::default() };
        // A thread in which no hook is called leaves it to other threads to find that out.
        let is_on = |id: &&i64| !self.is_off(**id, Where::Everywhere);
        let enabled: Vec<i64> = self.hooks.iter().filter(is_on).copied().collect();
        let for_others =
            !enabled.is_empty() && enabled.iter().all(|id| self.is_off(*id, Where::InThread));
        match (open.is_empty(), self.dispatch.waiting.is_empty()) {
            (true, _) if for_others => Some(Became::StaysEnabled),
            (true, _) => Some(Became::Disabled),
            (false, true) => Some(Became::StaysEnabled),
            _ => None,
        }
    }

    /// The hook that is called next.
    fn next(&mut self) -> Option<i64> {
        loop {
            let id = self.dispatch.waiting.pop_front()?;
            if self.hooks.contains(&id) && !self.is_off(id, Where::Everywhere) {
                return Some(id);
            }
        }
    }

    /// How the eval loop continues after the dispatch.
    fn answer(&self) -> Became {
        let is_open = self.hooks.iter().any(|id| self.is_open(*id, self.dispatch.code));
        if self.dispatch.has_passed || is_open {
            Became::StaysEnabled
        } else {
            Became::Disabled
        }
    }
}

/// What the hook with this handle does when it is called.
fn act(shared: &Shared, id: i64) -> Reply {
    let mut model = shared.borrow_mut();
    assert_eq!(model.next(), Some(id), "another one was to be called");
    let will = model.wills[&id];
    model.dispatch.has_passed |= !matches!(will, Will::Disable | Will::Raise);
    match will {
        Will::Pass => {}
        Will::Disable => {
            let place = Where::ForCode(model.dispatch.code);
            model.off.insert((id, place));
            return Reply::Disable;
        }
        Will::Raise => {
            model.dispatch.has_failed = true;
            return Reply::Raise("no");
        }
        Will::Add => {
            drop(model);
            add_one(shared, Will::Pass);
        }
        Will::Remove(which) => {
            let victim = model.pick(which);
            model.hooks.retain(|it| Some(*it) != victim);
            drop(model);
            assert_eq!(victim.map_or(Ok(()), remove), Ok(()));
        }
        Will::SwitchOff(which) => {
            let victim = model.pick(which);
            model.off.extend(victim.map(|it| (it, Where::Everywhere)));
            drop(model);
            assert_eq!(victim.map_or(Ok(()), |it| enable(it, false)), Ok(()));
        }
    }
    Reply::Pass
}

fn add_one(shared: &Shared, will: Will) {
    let own = Rc::new(Cell::new(0));
    let (id, model) = (own.clone(), Rc::downgrade(shared));
    let added = try_add(move |_| act(&model.upgrade().expect("the model"), id.get()));
    let mut model = shared.borrow_mut();
    let hook = added.expect("room for a hook");
    own.set(hook.id);
    model.hooks.push(hook.id);
    model.wills.insert(hook.id, will);
}

/// Calls a function, and compares what comes of it with the model.
fn call(shared: &Shared, function: &Defined, code: usize) {
    let at_once = shared.borrow_mut().begin(code);
    let result = function.call("");
    let mut model = shared.borrow_mut();
    if model.dispatch.has_failed {
        assert_eq!(result, Err("ValueError: no".to_string()));
    } else {
        let missing = if at_once.is_none() { model.next() } else { None };
        assert_eq!(missing, None, "was not called");
        let expected = at_once.unwrap_or_else(|| model.answer());
        assert_eq!(result.expect("a call").answers, [expected]);
    }
}

fn run(steps: Vec<Step>) {
    let _engine = Engine::start();
    let functions: Vec<Defined> = (0..CODES).map(|_| define(with_parameters(""), "")).collect();
    let shared = Shared::default();
    let pick = |which: usize| shared.borrow().pick(which);
    for step in steps {
        match step {
            Step::Add(will) => add_one(&shared, will),
            Step::Remove(which) => {
                if let Some(id) = pick(which) {
                    shared.borrow_mut().hooks.retain(|it| *it != id);
                    assert_eq!(remove(id), Ok(()));
                }
            }
            Step::Clear => {
                shared.borrow_mut().hooks.clear();
                clear();
            }
            Step::Become(which, will) => {
                if let Some(id) = pick(which) {
                    shared.borrow_mut().wills.insert(id, will);
                }
            }
            Step::Switch(which, place, on) => {
                let Some(id) = pick(which) else { continue };
                let done = match place {
                    Where::Everywhere => enable(id, on),
                    Where::InThread => enable_in_thread(id, on),
                    Where::ForCode(code) => enable_for_code(id, functions[code].code, on),
                };
                assert_eq!(done, Ok(()));
                let mut model = shared.borrow_mut();
                if on {
                    model.off.remove(&(id, place));
                } else {
                    model.off.insert((id, place));
                }
            }
            Step::Block(which, place, begins) => {
                let Some(id) = pick(which) else { continue };
                let mut model = shared.borrow_mut();
                let blocks = model.blocks.entry((id, place)).or_default();
                if !begins && *blocks == 0 {
                    continue;
                }
                *blocks = if begins { *blocks + 1 } else { *blocks - 1 };
                drop(model);
                // SAFETY: live code.
                let code = |code: usize| unsafe { Code::new(functions[code].code) };
                let done = match place {
                    Where::Everywhere if begins => switch::suspend(thread(), id),
                    Where::Everywhere => {
                        switch::resume(thread(), id);
                        Ok(())
                    }
                    Where::InThread if begins => switch::suspend_in_thread(thread(), id),
                    Where::InThread => {
                        switch::resume_in_thread(thread(), id, thread().number());
                        Ok(())
                    }
                    Where::ForCode(about) if begins => {
                        switch::suspend_for_code(thread(), id, code(about))
                    }
                    Where::ForCode(about) => {
                        switch::resume_for_code(thread(), id, code(about));
                        Ok(())
                    }
                };
                assert!(done.is_ok());
            }
            Step::Call(code) => call(&shared, &functions[code], code),
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 500,
        max_shrink_iters: 2_000,
        ..ProptestConfig::default()
    })]
    #[test]
    fn calls_of_hooks_and_their_outcome_are_as_in_the_model(
        steps in prop::collection::vec(step(), 0..150)
    ) {
        run(steps);
    }
}
