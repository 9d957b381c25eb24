//! The machine that the C compiler makes code for, as rustc and libclang call it.

use crate::common::Outcome;
use std::path::Path;
use std::process::Command;

/// What the frame core is built for.
#[derive(Debug, PartialEq)]
pub struct Target {
    /// rustc's name of it.
    pub for_rustc: String,
    /// The flags that name it to libclang; none for the machine that builds.
    pub for_clang: Vec<String>,
}

impl Target {
    /// Queries the compiler, which is `cc` with its arguments. `host` is the machine that builds, as rustc calls it.
    pub fn of_compiler(cc: &str, host: &str) -> Outcome<Self> {
        let mut words = cc.split_whitespace();
        let program = words.next().ok_or("--cc names no compiler")?;
        let said = Command::new(program)
            .args(words.clone())
            .arg("-dumpmachine")
            .output()
            .map_err(|e| format!("cannot run {program}: {e}"))?;
        let target = Self::named(String::from_utf8_lossy(&said.stdout).trim(), words, host);
        if target.for_rustc != host {
            target.look_for_library()?;
        }
        Ok(target)
    }

    /// rustc itself would say that it cannot find a crate, of whatever is compiled first.
    fn look_for_library(&self) -> Outcome<()> {
        let name = &self.for_rustc;
        let said = Command::new("rustc")
            .args(["--print", "target-libdir", "--target", name])
            .output()
            .map_err(|e| format!("cannot run rustc: {e}; run `make deps`"))?;
        if said.status.success() && Path::new(String::from_utf8_lossy(&said.stdout).trim()).is_dir()
        {
            return Ok(());
        }
        Err(format!(
            "this rustc has no standard library for {name}: `rustup target add {name}`, or the distribution's package \
             (Debian: libstd-rust-dev of that architecture)"
        ))
    }

    /// `machine` is the compiler's name of it. A compiler that names none builds for this machine.
    fn named<'a>(machine: &str, words: impl Iterator<Item = &'a str>, host: &str) -> Self {
        let processor = |name: &str| name.split('-').next().map(rustc_processor).map(str::to_owned);
        if machine.is_empty() || processor(machine) == processor(host) {
            return Self { for_rustc: host.to_owned(), for_clang: Vec::new() };
        }
        let mut parts: Vec<&str> = machine.split('-').collect();
        let processor = rustc_processor(parts.remove(0));
        // The vendor may be left out, and is unknown to rustc.
        if parts.len() > 2 {
            parts.remove(0);
        }
        let mut for_clang = vec![format!("--target={machine}")];
        for_clang.extend(words.filter(|word| word.starts_with("--sysroot=")).map(str::to_owned));
        Self { for_rustc: format!("{processor}-unknown-{}", parts.join("-")), for_clang }
    }
}

/// What rustc calls a processor of which a C compiler has another name.
fn rustc_processor(name: &str) -> &str {
    match name {
        "amd64" => "x86_64",
        "arm64" => "aarch64",
        "ppc64le" => "powerpc64le",
        // With the extensions that Linux distributions take for granted.
        "riscv64" => "riscv64gc",
        name => name,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOST: &str = "x86_64-unknown-linux-gnu";

    fn named(machine: &str, words: &str) -> Target {
        Target::named(machine, words.split_whitespace(), HOST)
    }

    #[test]
    fn a_compiler_for_this_machine_changes_nothing() {
        let own = Target { for_rustc: HOST.into(), for_clang: Vec::new() };
        for machine in ["x86_64-linux-gnu", "x86_64-pc-linux-gnu", "amd64-linux-gnu", HOST, ""] {
            assert_eq!(named(machine, "--sysroot=/elsewhere"), own, "{machine}");
        }
        assert_eq!(
            Target::named("riscv64-linux-gnu", "".split(' '), "riscv64gc-unknown-linux-gnu")
                .for_clang,
            [""; 0]
        );
    }

    #[test]
    fn another_machine_is_named_to_both() {
        for machine in
            ["aarch64-linux-gnu", "aarch64-unknown-linux-gnu", "aarch64-redhat-linux-gnu"]
        {
            let target = named(machine, "-pipe --sysroot=/arm");
            assert_eq!(target.for_rustc, "aarch64-unknown-linux-gnu", "{machine}");
            assert_eq!(target.for_clang, [format!("--target={machine}"), "--sysroot=/arm".into()]);
        }
        assert_eq!(named("riscv64-linux-gnu", "").for_rustc, "riscv64gc-unknown-linux-gnu");
        assert_eq!(named("powerpc64le-linux-gnu", "").for_rustc, "powerpc64le-unknown-linux-gnu");
        assert_eq!(named("aarch64-linux-musl", "").for_rustc, "aarch64-unknown-linux-musl");
    }

    #[test]
    fn a_library_that_is_missing_is_named() {
        let target = Target { for_rustc: "no-such-machine".into(), for_clang: Vec::new() };
        assert!(target
            .look_for_library()
            .unwrap_err()
            .contains("rustup target add no-such-machine"));
        let said = Command::new("rustc").args(["--print", "host-tuple"]).output().unwrap();
        let own = String::from_utf8(said.stdout).unwrap().trim().to_owned();
        Target { for_rustc: own, for_clang: Vec::new() }.look_for_library().unwrap();
    }

    #[test]
    fn the_compiler_that_is_missing_is_named() {
        assert!(Target::of_compiler("/no/such/compiler -m64", HOST)
            .unwrap_err()
            .contains("/no/such/compiler"));
    }
}
