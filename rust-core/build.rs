//! Finds the bindings that `build.rs-wrapper` made for the CPython build at
//! hand and hands the build's facts on to the crate. It has no dependencies of
//! its own: bindgen is compiled once, in the wrapper, and not once a build.

use std::env;
use std::path::PathBuf;
use std::process::exit;

fn main() {
    let root = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").expect("set by cargo"));
    let bindings = env::var_os("FERRULE_BINDINGS")
        .map(PathBuf::from)
        .unwrap_or_else(|| root.join("../build/ferrule/rust-core/bindings.rs"));
    if !bindings.is_file() {
        eprintln!(
            "no bindings at {}: run `make` first (it builds them for build/ferrule), \
             or name another build's with FERRULE_BINDINGS=",
            bindings.display()
        );
        exit(1);
    }
    let bindings = bindings.canonicalize().unwrap_or(bindings);
    println!("cargo:rustc-env=FERRULE_BINDINGS_RS={}", bindings.display());
    println!("cargo:rerun-if-changed={}", bindings.display());
    println!("cargo:rerun-if-env-changed=FERRULE_BINDINGS");
    println!("cargo:rustc-check-cfg=cfg(loom)");
    println!("cargo:rustc-check-cfg=cfg(fuzzing)");
    println!("cargo:rustc-check-cfg=cfg(ferrule_checks)");
    println!("cargo:rustc-check-cfg=cfg(ferrule_wrong_layout)");
    // The wrapper leaves these names in the bindings where they are true of the build.
    let text = std::fs::read_to_string(&bindings).expect("bindings are text");
    for fact in [
        "ferrule_free_threaded",
        "ferrule_counts_in_c",
        "ferrule_delayed_frees_have_sizes",
        "ferrule_tier2",
        "ferrule_py314",
    ] {
        println!("cargo:rustc-check-cfg=cfg({fact})");
        if text.contains(fact) {
            println!("cargo:rustc-cfg={fact}");
        }
    }
    for fact in ["FERRULE_RUSTC", "FERRULE_LLVM", "FERRULE_CROSS_LTO", "FERRULE_DEBIAN_REVISION"] {
        println!("cargo:rerun-if-env-changed={fact}");
        println!("cargo:rustc-env={fact}={}", env::var(fact).unwrap_or_default());
    }
}
