//! Configures the crate for whether the interpreter has a GIL.

fn main() {
    pyo3_build_config::use_pyo3_cfgs();
}
