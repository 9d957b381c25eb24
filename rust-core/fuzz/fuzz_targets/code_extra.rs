#![no_main]

use ferrule_core_fuzz::fuzzing::{apart, code_extra};
use libfuzzer_sys::fuzz_target;

/// Steps, and those that free functions take.
type Input = (Vec<code_extra::Step>, Vec<code_extra::Step>);

fuzz_target!(|input: Input| apart(|| code_extra::run(input.0, input.1)));
