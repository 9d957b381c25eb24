#![no_main]

use ferrule_core_fuzz::fuzzing::{apart, frame_hooks};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|program: frame_hooks::Program| apart(|| frame_hooks::run(program)));
