//! cbindgen: the headers that C includes.

use crate::common::{project_root, write_if_changed, Outcome};
use std::path::Path;

/// Writes the committed headers, or with `check` fails where one differs.
pub fn write_or_check(check: bool) -> Outcome<()> {
    let root = project_root();
    let core = root.join("rust-core");
    let mut public = cbindgen::Builder::new()
        .with_config(cbindgen::Config::from_file(core.join("framehook.toml"))?);
    for file in [
        "frame_hook/c_types",
        "frame_hook/c_api/hooks",
        "frame_hook/c_api/frames",
        "frame_hook/c_api/compilers",
        "frame_continue/record",
        "frame_continue/c_api",
        "frame/locals",
    ] {
        public = public.with_src(core.join(format!("src/{file}.rs")));
    }
    let public = emit(public, &root.join("overlay/Include/cpython/framehook.h"), check)?;
    let mut config = cbindgen::Config::from_file(core.join("cbindgen.toml"))?;
    // The public header has these.
    for word in public.split(|c: char| !c.is_alphanumeric() && c != '_') {
        if let Some(item) = word.strip_prefix("PyUnstable_") {
            config.export.exclude.extend([word.to_owned(), item.to_owned()]);
        }
    }
    let internal = cbindgen::Builder::new().with_crate(&core).with_config(config);
    emit(internal, &core.join("include/ferrule_core.h"), check).map(|_| ())
}

/// The text of the header.
fn emit(builder: cbindgen::Builder, path: &Path, check: bool) -> Outcome<String> {
    let bindings =
        builder.generate().map_err(|e| format!("cbindgen cannot read rust-core: {e}"))?;
    let mut text = Vec::new();
    bindings.write(&mut text);
    let text = String::from_utf8(text).map_err(|e| format!("the header is not UTF-8: {e}"))?;
    let text = without_safety(&text);
    if !check {
        write_if_changed(path, &text)?;
        return Ok(text);
    }
    let committed = std::fs::read_to_string(path).unwrap_or_default();
    if committed == text {
        return Ok(text);
    }
    let line = committed.lines().zip(text.lines()).take_while(|(a, b)| a == b).count() + 1;
    Err(format!(
        "{} is not what rust-core/src gives (line {line} differs): run `make header` and commit it",
        path.display()
    ))
}

/// Leaves the sections "Safety" out: they say to Rust what the text before them says to C.
fn without_safety(text: &str) -> String {
    let mut kept: Vec<&str> = Vec::new();
    let mut within = false;
    for line in text.lines() {
        if line.trim().trim_start_matches("* ") == "# Safety" {
            within = true;
            // With the empty line before it.
            if kept.last().is_some_and(|line| matches!(line.trim(), "" | "*")) {
                kept.pop();
            }
        }
        within &= line.trim() != "*/";
        if !within {
            kept.push(line);
        }
    }
    kept.join("\n") + "\n"
}
