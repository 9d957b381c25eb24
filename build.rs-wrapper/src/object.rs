//! The frame core as one object file, made with the flags of a CPython build.

use crate::common::{project_root, Outcome};
use crate::target::Target;
use crate::{bindings, flags};
use std::path::{Path, PathBuf};
use std::process::Command;

/// What to build.
pub struct Request<'a> {
    /// The object file.
    pub output: &'a Path,
    /// Where bindings and cargo's output go; one a CPython build.
    pub work_dir: &'a Path,
    /// Emit bitcode for the linker.
    pub cross_lto: bool,
    /// The build's C compiler, with the words that belong to it.
    pub cc: &'a str,
    /// The build's archiver.
    pub ar: &'a str,
    /// Extra cfgs.
    pub cfg: &'a [String],
    /// The C compiler's flags.
    pub cflags: &'a [String],
}

/// Builds the crate and takes its object out of the static library: as an
/// object it goes everywhere that CPython's own objects go, `libpython` as an
/// archive or as a shared library included.
pub fn build(request: &Request) -> Outcome<()> {
    let work_dir = absolute(request.work_dir)?;
    let bindings_file = work_dir.join("bindings.rs");
    let host = std::env::var("FERRULE_TARGET").map_err(|_| "run it as build.rs-wrapper/run")?;
    let target = Target::of_compiler(request.cc, &host)?;
    bindings::write(&bindings_file, &[&target.for_clang[..], request.cflags].concat())?;
    let target_dir = work_dir.join("target");
    let archive = target_dir.join(&target.for_rustc).join("release/libferrule_core.rlib");
    // Of an earlier build: were it still there after this one went elsewhere, it would be linked.
    for stale in [archive.as_path(), request.output] {
        match std::fs::remove_file(stale) {
            Err(e) if e.kind() != std::io::ErrorKind::NotFound => {
                return Err(format!("{}: {e}", stale.display()));
            }
            _ => {}
        }
    }
    run_cargo(request, &target.for_rustc, &bindings_file, &target_dir)?;
    if !archive.is_file() {
        return Err(format!("cargo left no {}", archive.display()));
    }
    extract_object(request, &archive, &work_dir)
}

/// The profile of the frame core, in full and above every other source of it: cargo's
/// configuration and environment may have one for other programs, and the object must
/// have no unwinding tables, no bitcode of rustc's own LTO, and be one.
const PROFILE: [&str; 11] = [
    "opt-level=3",
    "codegen-units=1",
    "panic='abort'",
    "debug=1",
    "lto=false",
    "incremental=false",
    "overflow-checks=false",
    "debug-assertions=false",
    "strip='none'",
    "rpath=false",
    "split-debuginfo='off'",
];

fn run_cargo(
    request: &Request,
    target: &str,
    bindings_file: &Path,
    target_dir: &Path,
) -> Outcome<()> {
    let (rustc, llvm) = rustc_versions()?;
    let mut cargo = Command::new("cargo");
    for setting in PROFILE {
        cargo.args(["--config", &format!("profile.release.{setting}")]);
    }
    cargo
        .args(["rustc", "--quiet", "--release", "--locked", "--lib", "--crate-type", "rlib"])
        .args(["--target", target, "--package", "ferrule-core", "--manifest-path"])
        .arg(project_root().join("Cargo.toml"))
        .arg("--target-dir")
        .arg(target_dir)
        .env("FERRULE_BINDINGS", bindings_file)
        .env("FERRULE_RUSTC", rustc)
        .env("FERRULE_LLVM", llvm)
        .env("FERRULE_CROSS_LTO", if request.cross_lto { "1" } else { "0" })
        .arg("--")
        .args(flags::for_rustc(request.cflags));
    if request.cross_lto {
        cargo.arg("-Clinker-plugin-lto");
    }
    // Sanitizers are an unstable flag: they want this variable with a stable compiler.
    if let Some(name) = flags::sanitizer(request.cflags) {
        if std::env::var_os("RUSTC_BOOTSTRAP").is_some() {
            cargo.arg(format!("-Zsanitizer={name}")).arg("-Cunsafe-allow-abi-mismatch=sanitizer");
        }
    }
    if let Some(kind) = flags::branch_protection(request.cflags) {
        // Unstable too, and no change of the language: allowed for this one crate.
        cargo.arg(format!("-Zcf-protection={kind}"));
        if std::env::var_os("RUSTC_BOOTSTRAP").is_none() {
            cargo.env("RUSTC_BOOTSTRAP", "ferrule_core");
        }
    }
    if flags::has_assertions(request.cflags) {
        cargo.args(["--cfg", "ferrule_checks"]);
    }
    for cfg in request.cfg {
        cargo.args(["--cfg", cfg]);
    }
    run(&mut cargo)
}

/// rustc's version and its LLVM's, as `rustc -vV` prints them.
fn rustc_versions() -> Outcome<(String, String)> {
    let output = Command::new("rustc")
        .arg("-vV")
        .output()
        .map_err(|e| format!("cannot run rustc: {e}; run `make deps`"))?;
    let text = String::from_utf8_lossy(&output.stdout);
    let field = |name: &str| {
        text.lines().find_map(|line| line.strip_prefix(name)).unwrap_or("unknown").to_owned()
    };
    Ok((field("release: "), field("LLVM version: ")))
}

fn extract_object(request: &Request, archive: &Path, work_dir: &Path) -> Outcome<()> {
    let listing = Command::new(request.ar)
        .arg("t")
        .arg(archive)
        .output()
        .map_err(|e| format!("cannot run the archiver {}: {e}", request.ar))?;
    let listing = String::from_utf8_lossy(&listing.stdout);
    let members: Vec<&str> = listing.lines().filter(|m| m.starts_with("ferrule_core-")).collect();
    let [member] = members[..] else {
        return Err(format!(
            "{} has {} objects of the frame core, not one: codegen-units must be 1",
            archive.display(),
            members.len()
        ));
    };
    run(Command::new(request.ar).arg("x").arg(archive).arg(member).current_dir(work_dir))?;
    let from = work_dir.join(member);
    let to = absolute(request.output)?;
    if let Some(parent) = to.parent() {
        std::fs::create_dir_all(parent).map_err(|e| format!("{}: {e}", parent.display()))?;
    }
    if request.cross_lto {
        take_over_bitcode(request, &from, &to)?;
    } else {
        std::fs::copy(&from, &to).map_err(|e| format!("{}: {e}", to.display()))?;
    }
    std::fs::remove_file(&from).map_err(|e| format!("{}: {e}", from.display()))
}

/// Has clang write rustc's bitcode anew as if it were its own: with the target
/// triple of the C objects, which rustc spells otherwise (the linker warns of
/// each pair), and for the kind of LTO of the build, since a linker inlines
/// nothing between modules for thin and for full LTO. The code itself stays as
/// rustc optimized it.
fn take_over_bitcode(request: &Request, from: &Path, to: &Path) -> Outcome<()> {
    let lto = flags::lto(request.cflags).ok_or("--cross-lto without -flto in the C flags")?;
    let mut cc = request.cc.split_whitespace();
    let mut command = Command::new(cc.next().ok_or("--cc names no compiler")?);
    command
        .args(cc)
        .args([lto, "-O0", "-Wno-override-module", "-Qunused-arguments", "-x", "ir", "-c"])
        .arg(from)
        .arg("-o")
        .arg(to);
    run(&mut command)
}

fn run(command: &mut Command) -> Outcome<()> {
    let status = command
        .status()
        .map_err(|e| format!("cannot run {}: {e}", command.get_program().to_string_lossy()))?;
    if status.success() {
        return Ok(());
    }
    Err(format!("{} failed ({status})", command.get_program().to_string_lossy()))
}

fn absolute(path: &Path) -> Outcome<PathBuf> {
    std::path::absolute(path).map_err(|e| format!("{}: {e}", path.display()))
}
