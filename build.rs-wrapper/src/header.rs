//! cbindgen: the header that C includes.

use crate::common::{project_root, write_if_changed, Outcome};

/// Writes the committed header, or with `check` fails where it differs.
pub fn write_or_check(check: bool) -> Outcome<()> {
    let core = project_root().join("rust-core");
    let path = core.join("include/ferrule_core.h");
    let config = cbindgen::Config::from_file(core.join("cbindgen.toml"))?;
    let bindings = cbindgen::Builder::new()
        .with_crate(&core)
        .with_config(config)
        .generate()
        .map_err(|e| format!("cbindgen cannot read rust-core: {e}"))?;
    let mut text = Vec::new();
    bindings.write(&mut text);
    let text = String::from_utf8(text).map_err(|e| format!("the header is not UTF-8: {e}"))?;
    if !check {
        return write_if_changed(&path, &text);
    }
    let committed = std::fs::read_to_string(&path).unwrap_or_default();
    if committed == text {
        return Ok(());
    }
    let line = committed.lines().zip(text.lines()).take_while(|(a, b)| a == b).count() + 1;
    Err(format!(
        "{} is not what rust-core/src gives (line {line} differs): run `make header` and commit it",
        path.display()
    ))
}
