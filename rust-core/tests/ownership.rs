//! Misuse of stack references, frame hooks and locks does not compile, and that is because of the types.
//!
//! Each file in `tests/ownership` is a misuse. Three compilations prove one:
//! - as it is, it fails with the error that its first line names;
//! - with `--cfg corrected`, where the misuse is left out, it compiles (with all others at once);
//! - with the protection taken out of the modules that it names, as its other lines say, it compiles
//!   too: so it is that protection which stops it, and the test would notice its absence.
//!
//! A case that names no module is one of `stack_ref`. It is compiled with that module alone, and others with the whole
//! crate, as a module of `frame_hook`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

struct Case {
    name: String,
    text: String,
    error: String,
    /// In which module to replace what, and by what.
    without: Vec<(String, String, String)>,
}

const STACK_REF: &str = "stack_ref/mod.rs";

impl Case {
    fn read(path: &Path) -> Self {
        let text = fs::read_to_string(path).expect("a case is text");
        let (mut errors, mut without, mut module) = (Vec::new(), Vec::new(), STACK_REF.to_owned());
        for (key, value) in text
            .lines()
            .filter_map(|line| line.strip_prefix("//! ").and_then(|rule| rule.split_once(": ")))
        {
            match key {
                "error" => errors.push(value.to_owned()),
                "module" => module = value.to_owned(),
                "without" => {
                    let (from, to) =
                        value.split_once(" => ").unwrap_or((value.trim_end_matches(" =>"), ""));
                    without.push((module.clone(), from.to_owned(), to.to_owned()));
                }
                _ => panic!("{path:?}: {key:?} is no rule"),
            }
        }
        let [error] = &errors[..] else { panic!("{path:?} must name one error") };
        Case {
            name: path.file_stem().expect("a file").to_string_lossy().into_owned(),
            error: error.clone(),
            without,
            // `mod` takes no inner comments of another crate's kind, so the header goes.
            text: text
                .lines()
                .filter(|line| !line.starts_with("//!"))
                .map(|line| format!("{line}\n"))
                .collect(),
        }
    }

    fn is_of_stack_ref(&self) -> bool {
        self.without.iter().all(|(module, ..)| module == STACK_REF)
    }

    /// The crate that it is compiled in, with other cases of its kind beside it.
    fn write_crate(&self, directory: &Path, weakened: bool, beside: &[&Case]) -> PathBuf {
        let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
        let root = directory.join("lib.rs");
        if self.is_of_stack_ref() {
            fs::create_dir_all(directory.join("stack_ref")).expect("a place to write");
            fs::copy(sources.join(STACK_REF), directory.join(STACK_REF)).expect("copied");
            edit(&directory.join(STACK_REF), |text| text.replace("pub mod exports;", ""));
            fs::write(&root, BELOW_STACK_REF).expect("written");
        } else {
            copy_all(&sources, directory);
        }
        let within = if self.is_of_stack_ref() { "" } else { "frame_hook" };
        let parent =
            if within.is_empty() { root.clone() } else { directory.join("frame_hook/mod.rs") };
        for case in beside.iter().chain([&self]) {
            edit(&parent, |text| format!("{text}\nmod {};\n", case.name));
            let file = directory.join(within).join(&case.name).with_extension("rs");
            fs::write(file, &case.text).expect("written");
        }
        for (module, from, to) in self.without.iter().filter(|_| weakened) {
            edit(&directory.join(module), |text| {
                let name = &self.name;
                assert!(text.contains(from), "{name}: {module} has no {from:?} to take out");
                text.replace(from, to)
            });
        }
        root
    }
}

/// What `stack_ref` needs, in a crate that has nothing else.
const BELOW_STACK_REF: &str = "
    #![allow(dead_code, unused_imports, missing_docs)]
    mod check { macro_rules! check { ($($rest:tt)*) => {} } pub(crate) use check; }
    mod cpython { pub struct PyObject(usize); }
    mod reference_count {
        use crate::cpython::PyObject;
        pub unsafe fn incref(_: *mut PyObject) {}
        pub unsafe fn decref(_: *mut PyObject) {}
        pub unsafe fn decref_within<T>(_: *mut PyObject, _: impl FnOnce() -> T) {}
        pub unsafe fn is_immortal(_: *mut PyObject) -> bool { false }
        pub unsafe fn has_deferred_count(_: *mut PyObject) -> bool { false }
    }
    mod stack_ref;
";

/// What the frame core uses of other crates.
const OTHER_CRATES: &str = "
    #[macro_export]
    macro_rules! offset_of { ($($rest:tt)*) => { core::mem::offset_of!($($rest)*) } }
    #[macro_export]
    macro_rules! const_assert_eq { ($a:expr, $b:expr) => { const _: () = assert!($a == $b); } }
";

fn edit(path: &Path, change: impl FnOnce(String) -> String) {
    let text = fs::read_to_string(path).expect("is there");
    fs::write(path, change(text)).expect("written");
}

fn copy_all(from: &Path, to: &Path) {
    fs::create_dir_all(to).expect("a place to write");
    for entry in fs::read_dir(from).expect("a directory") {
        let (path, name) = entry.map(|it| (it.path(), it.file_name())).expect("readable");
        if path.is_dir() {
            copy_all(&path, &to.join(name));
        } else {
            fs::copy(&path, to.join(name)).expect("copied");
        }
    }
}

fn rustc() -> Command {
    let mut rustc = Command::new(std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into()));
    rustc.args(["--edition", "2021", "--crate-type", "lib", "--emit", "metadata"]);
    rustc
}

fn compile(root: &Path, others: &Path, corrected: bool) -> Output {
    let mut rustc = rustc();
    // What a case does with an `unsafe fn` is not the point of it.
    rustc.args(["-D", "unused_must_use", "-A", "dead_code", "-A", "unexpected_cfgs"]);
    rustc.args(["-A", "unused_variables", "-A", "unused_imports", "--cap-lints", "forbid"]);
    let directory = root.ancestors().nth(2).expect("a file is in two directories");
    rustc.arg("--out-dir").arg(directory);
    rustc.arg("-C").arg(format!("incremental={}", directory.join("incremental").display()));
    for name in ["memoffset", "static_assertions"] {
        rustc.arg("--extern").arg(format!("{name}={}", others.display()));
    }
    for (is_so, fact) in [
        (corrected, "corrected"),
        (cfg!(ferrule_free_threaded), "ferrule_free_threaded"),
        (cfg!(ferrule_counts_in_c), "ferrule_counts_in_c"),
        (cfg!(ferrule_delayed_frees_have_sizes), "ferrule_delayed_frees_have_sizes"),
        (cfg!(ferrule_tier2), "ferrule_tier2"),
        (cfg!(ferrule_py314), "ferrule_py314"),
    ] {
        if is_so {
            rustc.args(["--cfg", fact]);
        }
    }
    for name in ["FERRULE_RUSTC", "FERRULE_LLVM", "FERRULE_CROSS_LTO", "FERRULE_DEBIAN_REVISION"] {
        rustc.env(name, "");
    }
    rustc.env("FERRULE_BINDINGS_RS", env!("FERRULE_BINDINGS_RS"));
    rustc.env("CARGO_PKG_VERSION", env!("CARGO_PKG_VERSION"));
    rustc.arg(root).output().expect("rustc runs")
}

fn text(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn check(case: &Case, directory: &Path, others: &Path) {
    let sources = directory.join("src");
    let root = case.write_crate(&sources, false, &[]);

    let misuse = compile(&root, others, false);
    assert!(!misuse.status.success(), "{}: the misuse compiles", case.name);
    let message = text(&misuse);
    assert!(message.contains(&case.error), "{}: not {}:\n{message}", case.name, case.error);
    let errors = message.lines().filter(|line| line.starts_with("error")).count();
    // The error, and the line that says that compiling stopped.
    assert_eq!(errors, 2, "{}: more is wrong than the misuse:\n{message}", case.name);

    let root = case.write_crate(&sources, true, &[]);
    let weakened = compile(&root, others, false);
    assert!(
        weakened.status.success(),
        "{}: something else stops the misuse, too:\n{}",
        case.name,
        text(&weakened)
    );
}

#[test]
fn misuse_does_not_compile_and_the_types_are_why() {
    let cases = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/ownership");
    let scratch = Path::new(env!("CARGO_TARGET_TMPDIR")).join("ownership");
    let _ = fs::remove_dir_all(&scratch); // an earlier run's copies may have modules that are gone
    fs::create_dir_all(&scratch).expect("a place to write");
    fs::write(scratch.join("others.rs"), OTHER_CRATES).expect("written");
    let made = rustc().arg("--out-dir").arg(&scratch).arg(scratch.join("others.rs")).output();
    assert!(made.expect("rustc runs").status.success());
    let others = scratch.join("libothers.rmeta");
    let cases: Vec<_> = fs::read_dir(cases)
        .expect("the cases are there")
        .map(|entry| Case::read(&entry.expect("readable").path()))
        .collect();
    let of_stack_ref = cases.iter().filter(|case| case.is_of_stack_ref()).count();
    assert!(of_stack_ref >= 8 && cases.len() >= of_stack_ref + 8, "cases are missing");
    for (kind, of_stack_ref) in [("stack_ref", true), ("whole", false)] {
        let cases: Vec<_> =
            cases.iter().filter(|it| it.is_of_stack_ref() == of_stack_ref).collect();
        // One place for all: what a case does not change is not checked again.
        let directory = scratch.join(kind);
        let (first, rest) = cases.split_first().expect("there are cases of each kind");
        let root = first.write_crate(&directory.join("src"), false, rest);
        let corrected = compile(&root, &others, true);
        assert!(corrected.status.success(), "{kind}, corrected: {}", text(&corrected));
        cases.iter().for_each(|case| check(case, &directory, &others));
    }
}
