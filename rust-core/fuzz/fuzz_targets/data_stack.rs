#![no_main]

use ferrule_core_fuzz::fuzzing::{apart, data_stack};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|steps: Vec<data_stack::Step>| apart(|| data_stack::run(steps)));
