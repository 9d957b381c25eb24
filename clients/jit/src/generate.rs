//! Machine code from Cranelift's IR.

use crate::{addresses, branches};
use cranelift_codegen::control::ControlPlane;
use cranelift_codegen::isa::{OwnedTargetIsa, TargetIsa};
use cranelift_codegen::settings::{self, Configurable};
use cranelift_codegen::{CodegenResult, CompiledCode, Context};
use std::sync::OnceLock;

/// The machine that this is.
pub fn isa() -> Result<&'static OwnedTargetIsa, String> {
    static ISA: OnceLock<Result<OwnedTargetIsa, String>> = OnceLock::new();
    let make = || {
        let mut flags = settings::builder();
        let values = [
            ("opt_level", "speed"),
            ("is_pic", "false"),
            ("enable_verifier", if cfg!(debug_assertions) { "true" } else { "false" }),
            ("preserve_frame_pointers", "true"),
            ("enable_probestack", "false"),
        ];
        for (name, value) in values {
            flags.set(name, value).map_err(|error| error.to_string())?;
        }
        let flags = settings::Flags::new(flags);
        cranelift_native::builder()?.finish(flags).map_err(|error| error.to_string())
    };
    ISA.get_or_init(make).as_ref().map_err(Clone::clone)
}

/// Compiles the function of a context. With a listing the code has its text.
pub fn code(
    context: &mut Context,
    isa: &dyn TargetIsa,
    listing: bool,
) -> CodegenResult<CompiledCode> {
    let mut control = ControlPlane::default();
    context.verify_if(isa)?;
    context.optimize(isa, &mut control)?;
    if branches::decide(&mut context.func, &context.cfg, &context.domtree) {
        context.compute_cfg();
        context.compute_domtree();
        context.eliminate_unreachable_code(isa)?;
        context.verify_if(isa)?;
    }
    if cfg!(target_arch = "aarch64") {
        addresses::separate(&mut context.func);
    }
    let made = isa.compile_function(&context.func, &context.domtree, listing, &mut control)?;
    Ok(made.apply_params(&context.func.params))
}
