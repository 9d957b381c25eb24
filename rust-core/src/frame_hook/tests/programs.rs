//! Programs with hooks, on the engine and on a model, which must agree on all that is asked and told
//! and on what comes of each call.
//!
//! A program is functions and generators that call each other, raise, stop each other in the middle,
//! and change hooks; a hook is a list of answers, which also says what its callbacks do. The engine
//! runs them on the stand-in for CPython as the eval loop would: frames, marks, `RESUME` in its two
//! forms. The model is `Model` below: lists, and no frames. The unit tests run programs that proptest
//! makes; the fuzz target `frame_hooks` runs those that libFuzzer finds.

// Beside this file, and not in a directory of their own: make looks no deeper for sources.
#[path = "programs_engine.rs"]
mod engine;
#[path = "programs_model.rs"]
mod model;

use std::fmt::Write;

/// One function may run this code, one in the place of the other; the last one fits nowhere.
const VARIANTS: u8 = 3;
const MISFIT: u8 = VARIANTS;
const MOST_FUNCTIONS: usize = 6;
const MOST_HOOKS: usize = 6;
/// So many actions a program does at most.
const FUEL: u32 = 150;

/// All numbers are taken modulo what there is.
#[derive(Clone, Debug)]
#[cfg_attr(fuzzing, derive(arbitrary::Arbitrary))]
pub enum Action {
    Call {
        function: u8,
        catches: bool,
    },
    Raise,
    Add {
        hook: u8,
        place: Place,
    },
    Remove(u8),
    Clear,
    Switch {
        installed: u8,
        on: bool,
    },
    SwitchForCode {
        installed: u8,
        function: u8,
        variant: u8,
        on: bool,
    },
    /// A generator goes on so often, and then that happens to it.
    Generate {
        function: u8,
        steps: u8,
        end: Ending,
    },
    /// A generator that is kept goes on.
    GoOn(u8),
    /// Nobody is asked about the call; nor, perhaps, about those below it.
    CallOriginal {
        function: u8,
        below: bool,
    },
    /// As though no hook ran.
    CallOutside(u8),
}

#[derive(Clone, Copy, Debug)]
#[cfg_attr(fuzzing, derive(arbitrary::Arbitrary))]
pub enum Place {
    Last,
    First,
    Before(u8),
    Behind(u8),
}

#[derive(Clone, Copy, Debug)]
#[cfg_attr(fuzzing, derive(arbitrary::Arbitrary))]
pub enum Ending {
    Drop,
    Throw,
    Keep,
}

#[derive(Clone, Copy, Debug, PartialEq)]
#[cfg_attr(fuzzing, derive(arbitrary::Arbitrary))]
pub enum Verdict {
    Pass,
    Settle,
    Result,
    Raise,
    Replace(u8),
    /// A number that is no verdict.
    Unknown,
}

/// What a hook does when it is asked.
#[derive(Clone, Debug)]
#[cfg_attr(fuzzing, derive(arbitrary::Arbitrary))]
pub struct Answer {
    pub verdict: Verdict,
    /// What it wants to be told, as bits, and the extent.
    pub tell: u8,
    pub extent: u8,
    /// Of what kinds of events it fails when it is told, as bits.
    pub fails: u8,
    pub when_asked: Option<Action>,
    pub when_told: Option<Action>,
}

#[derive(Clone, Debug)]
#[cfg_attr(fuzzing, derive(arbitrary::Arbitrary))]
pub struct Body {
    pub is_generator: bool,
    /// A function does all of it in one run, a generator one part after the other.
    pub parts: Vec<Vec<Action>>,
}

#[derive(Clone, Debug)]
#[cfg_attr(fuzzing, derive(arbitrary::Arbitrary))]
pub struct Program {
    pub hooks: Vec<Vec<Answer>>,
    pub functions: Vec<Body>,
    pub main: Vec<Action>,
    /// After how many allocations the next one fails, for one step of the engine after the other.
    /// Who is asked is not foreseen then; nothing may break, and nothing may be left.
    pub short: Vec<u8>,
}

impl Answer {
    fn tell(&self) -> u32 {
        u32::from(self.tell & 7)
    }

    fn extent(&self) -> u32 {
        u32::from(self.extent % 9).saturating_sub(5)
    }

    fn fails(&self, kind: i32) -> bool {
        // One bit alone does not make it fail.
        self.fails & 0x80 != 0 && self.fails >> kind & 1 != 0
    }
}

impl Program {
    fn shortened(mut self) -> Self {
        self.functions.truncate(MOST_FUNCTIONS);
        for body in &mut self.functions {
            body.parts.truncate(4);
        }
        if self.functions.is_empty() {
            self.functions.push(Body { is_generator: false, parts: Vec::new() });
        }
        self.hooks.truncate(MOST_HOOKS);
        self.hooks.retain(|answers| !answers.is_empty());
        self
    }

    fn function(&self, number: u8) -> usize {
        usize::from(number) % self.functions.len()
    }
}

/// What happens, as text.
type Log = Vec<String>;

/// How a call ends.
type Came = Result<String, String>;

fn shown(came: &Came) -> String {
    match came {
        Ok(value) => format!("value {value}"),
        Err(raised) => format!("raised {raised}"),
    }
}

fn name_of(function: usize, variant: u8) -> String {
    format!("f{function}v{variant}")
}

const KINDS: [&str; 5] = ["returned", "raised", "yielded", "resumed", "dropped"];

/// What is compared of an exception: all of those of programs, and the class of the engine's own.
fn comparable(raised: &str) -> String {
    let class = raised.split(':').next().expect("some text");
    if class == "ValueError" {
        raised.to_string()
    } else {
        class.to_string()
    }
}

pub fn run(program: Program) {
    let program = program.shortened();
    let happened = engine::run(&program);
    if !program.short.is_empty() {
        return;
    }
    let expected = model::run(&program);
    let differs = happened.iter().zip(&expected).position(|(one, other)| one != other);
    let at = differs.unwrap_or(happened.len().min(expected.len()));
    if at < happened.len().max(expected.len()) {
        let mut text = String::new();
        for line in &happened[at.saturating_sub(10)..at] {
            let _ = writeln!(text, "  {line}");
        }
        panic!(
            "after\n{text}came {:?}, the model says {:?}\n{program:?}",
            happened.get(at),
            expected.get(at)
        );
    }
}
