//! The clang that goes with the libclang that bindgen loads.
//!
//! bindgen reads headers with the search paths of a clang: the one that `CLANG_PATH` names, or the
//! first that it finds. The compiler's own headers are among them, and those of another version do
//! not compile.

use std::path::{Path, PathBuf};
use std::process::Command;

const NAMED: &str = "CLANG_PATH";

/// Names the clang of libclang's version to bindgen. False where there is none: libclang then takes
/// the headers beside itself.
pub fn choose_clang() -> bool {
    if std::env::var_os(NAMED).is_some() {
        return true;
    }
    let Some((wanted, _)) = bindgen::clang_version().parsed else { return true };
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = candidates(wanted, std::env::split_paths(&path))
        .into_iter()
        .find(|program| major(program) == Some(wanted));
    if let Some(program) = &found {
        std::env::set_var(NAMED, program);
    }
    found.is_some()
}

/// Where a clang of this version is looked for: its distribution's place first.
fn candidates(major: u32, path: impl Iterator<Item = PathBuf>) -> Vec<PathBuf> {
    let mut found = vec![PathBuf::from(format!("/usr/lib/llvm-{major}/bin/clang"))];
    found.extend(
        path.flat_map(|directory| {
            [directory.join(format!("clang-{major}")), directory.join("clang")]
        }),
    );
    found
}

/// The major version that a program says is clang's.
fn major(program: &Path) -> Option<u32> {
    let said = Command::new(program).arg("--version").output().ok()?;
    major_in(&String::from_utf8_lossy(&said.stdout))
}

fn major_in(said: &str) -> Option<u32> {
    let after = said.split("clang version ").nth(1)?;
    after.split('.').next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clang_says_its_version() {
        assert_eq!(major_in("Debian clang version 22.1.8 (1~deb13u5)\nTarget: x"), Some(22));
        assert_eq!(major_in("clang version 19.1.7\n"), Some(19));
        assert_eq!(major_in("gcc (Debian 12.2.0) 12.2.0"), None);
        assert_eq!(major(Path::new("/no/such/clang")), None);
    }

    #[test]
    fn the_distributions_place_comes_first_and_the_versioned_name_before_the_plain_one() {
        let found = candidates(22, [PathBuf::from("/a"), PathBuf::from("/b")].into_iter());
        let names: Vec<_> = found.iter().map(|path| path.to_str().unwrap()).collect();
        assert_eq!(
            names,
            ["/usr/lib/llvm-22/bin/clang", "/a/clang-22", "/a/clang", "/b/clang-22", "/b/clang"]
        );
    }
}
