//! The language of the programs, and the texts of their logs.

/// One function may run this code, one in the place of the other; the last one fits nowhere.
pub const VARIANTS: u8 = 3;
pub const MISFIT: u8 = VARIANTS;
pub const MOST_FUNCTIONS: usize = 6;
pub const MOST_HOOKS: usize = 6;
/// So many actions a program does at most.
pub const FUEL: u32 = 150;

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
    /// A generator is resumed so often, and then that happens to it.
    Generate {
        function: u8,
        steps: u8,
        end: Ending,
    },
    /// A generator that is kept is resumed.
    Resume(u8),
    /// An unhooked call; with its callees, perhaps.
    CallUnhooked {
        function: u8,
        below: bool,
    },
    /// As though no hook ran.
    CallReentrant(u8),
}

#[derive(Clone, Copy, Debug)]
#[cfg_attr(fuzzing, derive(arbitrary::Arbitrary))]
pub enum Place {
    Last,
    First,
    Before(u8),
    After(u8),
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
    Disable,
    Result,
    Raise,
    Replace(u8),
    /// A number that is no verdict.
    Unknown,
}

/// What a hook does when it is called.
#[derive(Clone, Debug)]
#[cfg_attr(fuzzing, derive(arbitrary::Arbitrary))]
pub struct Answer {
    pub verdict: Verdict,
    /// The events that it requests, as bits, and the scope.
    pub events: u8,
    pub scope: u8,
    /// The kinds of events for which its callback fails, as bits.
    pub fails: u8,
    pub in_entry: Option<Action>,
    pub in_event: Option<Action>,
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
    /// The model does not know which hooks are called then; nothing may break or leak.
    pub short: Vec<u8>,
}

impl Answer {
    pub fn events(&self) -> u32 {
        u32::from(self.events & 7)
    }

    pub fn scope(&self) -> u32 {
        u32::from(self.scope % 9).saturating_sub(5)
    }

    pub fn fails(&self, kind: i32) -> bool {
        // One bit alone does not make it fail.
        self.fails & 0x80 != 0 && self.fails >> kind & 1 != 0
    }
}

impl Program {
    pub fn shortened(mut self) -> Self {
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

    pub fn function(&self, number: u8) -> usize {
        usize::from(number) % self.functions.len()
    }
}

/// What happens, as text.
pub type Log = Vec<String>;

/// How a call ends.
pub type Came = Result<String, String>;

pub fn shown(came: &Came) -> String {
    match came {
        Ok(value) => format!("value {value}"),
        Err(raised) => format!("raised {raised}"),
    }
}

pub fn name_of(function: usize, variant: u8) -> String {
    format!("f{function}v{variant}")
}

pub const KINDS: [&str; 5] = ["returned", "raised", "yielded", "resumed", "dropped"];

/// What is compared of an exception: all of those of programs, and the class of the engine's own.
pub fn comparable(raised: &str) -> String {
    let class = raised.split(':').next().expect("some text");
    if class == "ValueError" {
        raised.to_string()
    } else {
        class.to_string()
    }
}
