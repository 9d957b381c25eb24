#![no_main]

use ferrule_core_fuzz::fuzzing::{apart, replacement};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: replacement::Input| apart(|| replacement::run(input)));
