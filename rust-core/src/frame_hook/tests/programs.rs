//! Programs with hooks, on the engine and on a model, which must agree on all callbacks and on the outcome of each
//! call.
//!
//! A program is functions and generators that call each other, raise, stop each other in the middle,
//! and change hooks; a hook is a list of answers, which also says what its callbacks do. The engine
//! runs them on `fake_cpython` as the eval loop would: frames, shims, `RESUME` in its two
//! forms. The model is `Model` below: lists, and no frames. The unit tests run programs that proptest
//! makes; the fuzz target `frame_hooks` runs those that libFuzzer finds.

// Beside this file, and not in a directory of their own: make looks no deeper for sources.
#[path = "programs_engine.rs"]
mod engine;
#[path = "programs_language.rs"]
mod language;
#[path = "programs_model.rs"]
mod model;

pub use language::*;

use std::fmt::Write;

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
