//! What hooks promise, without frames.

use super::language::*;
use std::collections::{HashMap, HashSet};

/// A hook that was added, by a number that no other has; which one it is.
#[derive(Clone, Copy, PartialEq)]
struct Installed {
    number: usize,
    hook: usize,
}

/// A frame, and the hooks that watch it, with their answers.
#[derive(Clone, Default)]
struct Frame {
    function: usize,
    variant: u8,
    watches: Vec<(Installed, Answer)>,
}

/// What is on the stack.
enum Level {
    Runs(Frame),
    /// No hook is called for frames above.
    Unhooked,
}

/// A generator.
struct Generator {
    frame: Frame,
    /// The part that it does next; `None`: it is over.
    next: Option<usize>,
}

enum Called {
    Came(Came),
    Generator(Generator),
}

struct Model<'a> {
    program: &'a Program,
    log: Log,
    installed: Vec<Installed>,
    added: usize,
    off: HashSet<usize>,
    disabled: HashSet<(usize, usize, u8)>,
    turns: HashMap<usize, usize>,
    stack: Vec<Level>,
    /// Callbacks in progress, each with whether it makes a re-entrant call.
    callbacks: Vec<bool>,
    kept: Vec<Option<Generator>>,
    fuel: u32,
}

pub fn run(program: &Program) -> Log {
    let mut model = Model {
        program,
        log: Vec::new(),
        installed: Vec::new(),
        added: 0,
        off: HashSet::new(),
        disabled: HashSet::new(),
        turns: HashMap::new(),
        stack: Vec::new(),
        callbacks: Vec::new(),
        kept: Vec::new(),
        fuel: FUEL,
    };
    for action in &program.main {
        let done = model.act(action);
        model.log.push(format!("main {done:?}"));
    }
    while let Some(generator) = model.kept.pop() {
        model.drop(generator);
    }
    model.log
}

impl Model<'_> {
    fn pick(&self, which: u8) -> Option<Installed> {
        let count = self.installed.len();
        (count > 0).then(|| self.installed[usize::from(which) % count])
    }

    /// What limits a hook here, the innermost limit last.
    fn is_within_limits(&self, hook: Installed) -> bool {
        let mut called = true;
        for level in &self.stack {
            match level {
                // Whatever is requested above it.
                Level::Unhooked => return false,
                Level::Runs(frame) => {
                    for (watcher, answer) in &frame.watches {
                        if *watcher == hook && answer.scope() != 0 {
                            called = answer.scope() >= 2;
                        }
                    }
                }
            }
        }
        called
    }

    fn callback(&mut self, action: &Option<Action>) {
        let Some(action) = action else { return };
        self.callbacks.push(false);
        let done = self.act(action);
        self.log.push(format!("callback {done:?}"));
        self.callbacks.pop();
    }

    /// Calls the event callbacks of all that watch, the last one first, from the place `from` in the list on. Returns
    /// the exception that propagates then.
    fn deliver_from(
        &mut self,
        frame: &Frame,
        from: usize,
        kind: i32,
        value: &str,
        mut raised: Option<String>,
    ) -> Option<String> {
        for place in (0..from).rev() {
            raised = self.deliver_one(frame, place, kind, value, raised);
        }
        raised
    }

    fn deliver_one(
        &mut self,
        frame: &Frame,
        place: usize,
        kind: i32,
        value: &str,
        raised: Option<String>,
    ) -> Option<String> {
        let (hook, answer) = &frame.watches[place];
        // With another callback's exception the call has raised.
        let kind = if kind == 0 && raised.is_some() { 1 } else { kind };
        let is_requested = match kind {
            2 => answer.events() & 2 != 0,
            3 => answer.events() & 4 != 0,
            _ => answer.events() != 0,
        };
        if !is_requested || !self.installed.contains(hook) {
            return raised;
        }
        let what = match (kind, &raised) {
            (1, Some(raised)) => raised.as_str(),
            (0 | 2, _) => value,
            _ => "",
        };
        // Those that were called have left the frame, with their scopes.
        let in_force = match kind {
            3 => frame.watches.len(),
            4 => 0,
            _ => place + 1,
        };
        let watches = frame.watches[..in_force].to_vec();
        let name = name_of(frame.function, frame.variant);
        self.log.push(format!("{} event {name} {} {what}", hook.number, KINDS[kind as usize]));
        let answer = answer.clone();
        let number = hook.number;
        self.stack.push(Level::Runs(Frame { watches, ..*frame }));
        self.callback(&answer.in_event);
        self.stack.pop();
        if answer.fails(kind) {
            return Some(format!("ValueError: event {number}"));
        }
        raised
    }

    /// A frame starts. Returns how the call ends without running it, if it does.
    fn start(&mut self, frame: &mut Frame, is_unhooked: bool) -> Option<Came> {
        let code = |frame: &Frame| (frame.function, frame.variant);
        let is_within = self.callbacks.iter().any(|is_reentrant| !is_reentrant);
        if is_unhooked || is_within {
            return None;
        }
        let mut disabled = self.disabled.clone();
        let hooks = self.installed.clone();
        let is_open = |hook: &Installed| {
            let (function, variant) = code(frame);
            !self.off.contains(&hook.number)
                && !disabled.contains(&(hook.number, function, variant))
        };
        if !hooks.iter().any(is_open) {
            return None;
        }
        for hook in hooks {
            let (function, variant) = code(frame);
            if !self.installed.contains(&hook)
                || self.off.contains(&hook.number)
                || disabled.contains(&(hook.number, function, variant))
                || !self.is_within_limits(hook)
            {
                continue;
            }
            let name = name_of(function, variant);
            self.log.push(format!("{} entry {name}", hook.number));
            let answers = &self.program.hooks[hook.hook];
            let turn = self.turns.entry(hook.hook).or_default();
            let answer = answers[*turn % answers.len()].clone();
            *turn += 1;
            // Requests of the hooks before this one are in force.
            self.stack.push(Level::Runs(frame.clone()));
            self.callback(&answer.in_entry);
            self.stack.pop();
            if answer.verdict == Verdict::Raise {
                return Some(Err(format!("ValueError: entry {}", hook.number)));
            }
            if answer.events() != 0 || answer.scope() != 0 {
                frame.watches.push((hook, answer.clone()));
            }
            match answer.verdict {
                Verdict::Pass | Verdict::Raise => {}
                // A hook that was removed meanwhile is not disabled for code.
                Verdict::Disable => {
                    self.disabled.insert((hook.number, function, variant));
                }
                Verdict::Result => return Some(Ok(format!("result{}", hook.number))),
                Verdict::Unknown => return Some(Err("SystemError".to_string())),
                Verdict::Replace(other) => {
                    let other = other % (VARIANTS + 1);
                    if other == MISFIT {
                        return Some(Err("framehook.IncompatibleCodeError".to_string()));
                    }
                    if other != variant {
                        frame.variant = other;
                        disabled = self.disabled.clone();
                    }
                }
            }
        }
        None
    }

    fn call(&mut self, function: usize, is_unhooked: bool) -> Called {
        let mut frame = Frame { function, ..Frame::default() };
        let came = self.start(&mut frame, is_unhooked);
        if let Some(came) = came {
            return Called::Came(self.left(&frame, came));
        }
        let body = &self.program.functions[function];
        if body.is_generator {
            return Called::Generator(Generator { frame, next: Some(0) });
        }
        let name = name_of(function, frame.variant);
        self.stack.push(Level::Runs(frame.clone()));
        let ran = self.run_all(&body.parts);
        self.stack.pop();
        Called::Came(self.left(&frame, ran.map(|()| name)))
    }

    fn run_all(&mut self, parts: &[Vec<Action>]) -> Result<(), String> {
        parts.iter().flatten().try_for_each(|action| self.act(action))
    }

    /// A frame was left.
    fn left(&mut self, frame: &Frame, came: Came) -> Came {
        let (value, raised) = match came {
            Ok(value) => (value, None),
            Err(raised) => (String::new(), Some(raised)),
        };
        let kind = i32::from(raised.is_some());
        match self.deliver_from(frame, frame.watches.len(), kind, &value, raised) {
            Some(raised) => Err(raised),
            None => Ok(value),
        }
    }

    /// Resumes a generator, perhaps with an exception. Returns what it yields, or how it ends. Whether it is over
    /// is seen by its `next`.
    fn resume(&mut self, generator: &mut Generator, thrown: Option<String>) -> Came {
        let (frame, next) = (generator.frame.clone(), generator.next.expect("suspended"));
        let parts = &self.program.functions[frame.function].parts;
        let thrown = self.deliver_from(&frame, frame.watches.len(), 3, "", thrown);
        self.stack.push(Level::Runs(frame.clone()));
        let ran = match (thrown, parts.get(next)) {
            (Some(raised), _) => Err(raised),
            (None, Some(part)) => {
                part.iter().try_for_each(|action| self.act(action)).map(|()| true)
            }
            (None, None) => Ok(false),
        };
        self.stack.pop();
        generator.next = None;
        match ran {
            Ok(true) => match self.yielded(&frame) {
                Ok(()) => {
                    generator.next = Some(next + 1);
                    Ok("yield".to_string())
                }
                Err(raised) => self.left(&frame, Err(raised)),
            },
            Ok(false) => self.left(&frame, Ok("end".to_string())),
            Err(raised) => self.left(&frame, Err(raised)),
        }
    }

    /// A generator has yielded. If a callback fails, its exception is thrown in: resume callbacks of the hooks called
    /// before, and then of that one, are called.
    fn yielded(&mut self, frame: &Frame) -> Result<(), String> {
        for place in (0..frame.watches.len()).rev() {
            if let Some(raised) = self.deliver_one(frame, place, 2, "yield", None) {
                let mut raised = Some(raised);
                for before in (place..frame.watches.len()).rev() {
                    raised = self.deliver_one(frame, before, 3, "", raised);
                }
                return Err(raised.expect("an exception that is on its way"));
            }
        }
        Ok(())
    }

    fn drop(&mut self, generator: Option<Generator>) {
        if let Some(Generator { frame, next: Some(_) }) = generator {
            // A callback that fails is reported, and the next one is called.
            for place in (0..frame.watches.len()).rev() {
                self.deliver_one(&frame, place, 4, "", None);
            }
        }
    }

    fn generate(&mut self, function: usize, steps: u8, end: Ending) -> Result<(), String> {
        let mut generator = match self.call(function, false) {
            Called::Came(came) => {
                self.log.push(shown(&came));
                return came.map(|_| ());
            }
            Called::Generator(generator) => generator,
        };
        for _ in 0..steps % 6 {
            let came = self.resume(&mut generator, None);
            self.log.push(shown(&came));
            if generator.next.is_none() {
                return Ok(());
            }
        }
        match end {
            Ending::Drop => self.drop(Some(generator)),
            Ending::Throw => {
                let came = self.resume(&mut generator, Some("ValueError: thrown".to_string()));
                self.log.push(shown(&came));
            }
            Ending::Keep => self.kept.push(Some(generator)),
        }
        Ok(())
    }

    /// A call whose result is looked at, and a generator dropped.
    fn called(&mut self, called: Called) -> Result<(), String> {
        match called {
            Called::Came(came) => {
                self.log.push(shown(&came));
                came.map(|_| ())
            }
            Called::Generator(generator) => {
                self.log.push("generator".to_string());
                self.drop(Some(generator));
                Ok(())
            }
        }
    }

    fn act(&mut self, action: &Action) -> Result<(), String> {
        if self.fuel == 0 {
            return Ok(());
        }
        self.fuel -= 1;
        match *action {
            Action::Call { function, catches } => {
                let called = self.call(self.program.function(function), false);
                let came = self.called(called);
                if catches {
                    return Ok(());
                }
                return came;
            }
            Action::Raise => return Err("ValueError: program".to_string()),
            Action::Add { hook, place } => self.add(hook, place),
            Action::Remove(which) => {
                if let Some(hook) = self.pick(which) {
                    self.installed.retain(|it| *it != hook);
                }
            }
            Action::Clear => self.installed.clear(),
            Action::Switch { installed, on } => {
                if let Some(hook) = self.pick(installed) {
                    if on {
                        self.off.remove(&hook.number);
                    } else {
                        self.off.insert(hook.number);
                    }
                }
            }
            Action::SwitchForCode { installed, function, variant, on } => {
                if let Some(hook) = self.pick(installed) {
                    let function = self.program.function(function);
                    let key = (hook.number, function, variant % VARIANTS);
                    if on {
                        self.disabled.remove(&key);
                    } else {
                        self.disabled.insert(key);
                    }
                }
            }
            Action::Generate { function, steps, end } => {
                return self.generate(self.program.function(function), steps, end);
            }
            Action::Resume(which) => {
                if self.kept.is_empty() {
                    return Ok(());
                }
                let place = usize::from(which) % self.kept.len();
                // One that runs already cannot be resumed.
                let Some(mut generator) = self.kept[place].take() else { return Ok(()) };
                if generator.next.is_some() {
                    let came = self.resume(&mut generator, None);
                    self.log.push(shown(&came));
                }
                self.kept[place] = Some(generator);
            }
            Action::CallUnhooked { function, below } => {
                if below {
                    self.stack.push(Level::Unhooked);
                }
                let called = self.call(self.program.function(function), true);
                if below {
                    self.stack.pop();
                }
                return self.called(called);
            }
            Action::CallReentrant(function) => {
                let inner = self.callbacks.iter().rposition(|is_reentrant| !is_reentrant);
                if let Some(place) = inner {
                    self.callbacks[place] = true;
                }
                let called = self.call(self.program.function(function), false);
                if let Some(place) = inner {
                    self.callbacks[place] = false;
                }
                return self.called(called);
            }
        }
        Ok(())
    }

    fn add(&mut self, hook: u8, place: Place) {
        if self.program.hooks.is_empty() || self.installed.len() >= MOST_HOOKS {
            return;
        }
        let neighbour = |which| {
            self.pick(which)
                .map(|hook| self.installed.iter().position(|it| *it == hook).expect("installed"))
        };
        let position = match place {
            Place::Last => self.installed.len(),
            Place::First => 0,
            Place::Before(which) => neighbour(which).unwrap_or(0),
            Place::After(which) => neighbour(which).map_or(0, |place| place + 1),
        };
        self.added += 1;
        let hook = usize::from(hook) % self.program.hooks.len();
        self.installed.insert(position, Installed { number: self.added, hook });
    }
}
