//! Misuse of stack references does not compile, and that is because of the types.
//!
//! Each file in `tests/ownership` is a misuse. Three compilations prove one:
//! - as it is, it fails with the error that its first line names;
//! - with `--cfg corrected`, where the misuse is left out, it compiles;
//! - with the protection taken out of `stack_ref`, as its other lines say, it compiles too: so it
//!   is that protection which stops it, and the test would notice its absence.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

struct Case {
    name: String,
    path: PathBuf,
    error: String,
    /// What to replace in `stack_ref`, and by what.
    without: Vec<(String, String)>,
}

fn read_case(path: PathBuf) -> Case {
    let text = fs::read_to_string(&path).expect("a case is text");
    let values = |key: &str| -> Vec<String> {
        let prefix = format!("//! {key}: ");
        text.lines().filter_map(|line| line.strip_prefix(&prefix)).map(str::to_owned).collect()
    };
    let without = values("without")
        .iter()
        .map(|rule| {
            let (from, to) = rule.split_once(" => ").unwrap_or((rule.trim_end_matches(" =>"), ""));
            (from.to_owned(), to.to_owned())
        })
        .collect();
    let [error] = &values("error")[..] else { panic!("{path:?} must name one error") };
    Case {
        name: path.file_stem().expect("a file").to_string_lossy().into_owned(),
        error: error.clone(),
        without,
        path,
    }
}

/// The crate that a case is compiled in: `stack_ref` itself, above stand-ins for what is below it.
fn write_crate(directory: &Path, case: &Case, weakened: bool) -> PathBuf {
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut stack_ref = fs::read_to_string(sources.join("stack_ref/mod.rs")).expect("is there");
    stack_ref = stack_ref.replace("pub mod exports;", "");
    if weakened {
        for (from, to) in &case.without {
            assert!(
                stack_ref.contains(from),
                "{}: stack_ref has no {from:?} to take out",
                case.name
            );
            stack_ref = stack_ref.replace(from, to);
        }
    }
    fs::create_dir_all(directory).expect("a place to write");
    fs::write(directory.join("stack_ref.rs"), stack_ref).expect("written");
    let stand_ins = "
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
        mod case { include!(r\"@\"); }
    ";
    // `include!` takes no inner comments, so the case's header goes.
    let case_text: String = fs::read_to_string(&case.path)
        .expect("is there")
        .lines()
        .filter(|line| !line.starts_with("//!"))
        .map(|line| format!("{line}\n"))
        .collect();
    let case_file = directory.join("case.rs");
    fs::write(&case_file, case_text).expect("written");
    let root = directory.join("lib.rs");
    fs::write(&root, stand_ins.replace('@', &case_file.to_string_lossy())).expect("written");
    root
}

fn compile(root: &Path, corrected: bool) -> Output {
    let mut rustc = Command::new(std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into()));
    rustc.args(["--edition", "2021", "--crate-type", "lib", "--emit", "metadata"]);
    rustc.args(["-D", "unused_must_use", "--cap-lints", "forbid", "-A", "unexpected_cfgs"]);
    rustc.arg("--out-dir").arg(root.parent().expect("a file is in a directory"));
    if corrected {
        rustc.args(["--cfg", "corrected"]);
    }
    rustc.arg(root).output().expect("rustc runs")
}

fn text(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn misuse_does_not_compile_and_the_types_are_why() {
    let cases = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/ownership");
    let scratch = Path::new(env!("CARGO_TARGET_TMPDIR")).join("ownership");
    let mut count = 0;
    for entry in fs::read_dir(cases).expect("the cases are there") {
        let case = read_case(entry.expect("readable").path());
        let directory = scratch.join(&case.name);
        let root = write_crate(&directory, &case, false);

        let misuse = compile(&root, false);
        assert!(!misuse.status.success(), "{}: the misuse compiles", case.name);
        let message = text(&misuse);
        assert!(message.contains(&case.error), "{}: not {}:\n{message}", case.name, case.error);
        let errors = message.lines().filter(|line| line.starts_with("error")).count();
        // The error, and the line that says that compiling stopped.
        assert_eq!(errors, 2, "{}: more is wrong than the misuse:\n{message}", case.name);

        let corrected = compile(&root, true);
        assert!(corrected.status.success(), "{}: {}", case.name, text(&corrected));

        let root = write_crate(&directory.join("weakened"), &case, true);
        let weakened = compile(&root, false);
        assert!(
            weakened.status.success(),
            "{}: something else stops the misuse, too:\n{}",
            case.name,
            text(&weakened)
        );
        count += 1;
    }
    assert!(count >= 8, "only {count} cases were found");
}
