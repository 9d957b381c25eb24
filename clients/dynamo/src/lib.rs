//! The part of TorchDynamo that touches frames, on frame hooks.
//!
//! The functions of this module have the names and the meaning of those in
//! `torch._C._dynamo.eval_frame`, whose place they take while `ferrule_dynamo` is installed.

mod answer;
mod around;
mod cache;
mod call;
mod callback;
mod code_state;
mod compile;
mod entry;
mod evaluator;
mod extra;
mod frame_view;
mod functions;
mod handover;
mod installing;
mod on_entry;
mod settings;
mod strategy;
mod switch;
mod torch_2_6;

use pyo3::prelude::*;

/// TorchDynamo's frame evaluation, written in Rust on frame hooks.
#[pymodule]
mod _core {
    #[pymodule_export]
    use crate::around::{
        get_bytecode_debugger_callback, register_breakpoint_code, set_bytecode_debugger_callback,
    };
    #[pymodule_export]
    use crate::code_state::CodeState;
    #[pymodule_export]
    use crate::entry::{CacheEntry, PrecompileEntry};
    #[pymodule_export]
    use crate::evaluator::{c_recursion_left, is_compiling};
    #[pymodule_export]
    use crate::frame_view::Frame;
    #[pymodule_export]
    use crate::functions::{
        cache_entries_of, cache_entries_of_region, clear_precompiled, count_cache_entries,
        get_callback, get_region, heed_c_recursion_limit, leave_alone, load_precompiled,
        precompiled_of, reset_code, set_callback, set_frame_count, set_guard_complete_hook,
        set_guard_error_hook, set_lru, set_nested_is_error, set_region, set_skip_unsafe,
        set_strategy, version,
    };
    #[pymodule_export]
    use crate::handover::{
        guard_error_hook, inherit_strategy, is_slot_used, only_slot_of, own_precompiled,
        own_strategies, read_setting, stop, stop_frames, Stopped,
    };
    #[pymodule_export]
    use crate::installing::{install, prepare, uninstall};
    #[pymodule_export]
    use crate::switch::{forked, is_enabled, is_installed};
    #[pymodule_export]
    use crate::torch_2_6::skip_code;
}
