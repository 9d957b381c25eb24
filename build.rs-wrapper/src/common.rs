//! What the other modules share: their errors, the project's root, and how files are written.

use std::fs;
use std::path::{Path, PathBuf};

/// Every failure ends as one message that says what to do.
pub type Outcome<T> = Result<T, String>;

pub fn project_root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// Writes `text` unless the file has it already, so that nothing downstream is
/// rebuilt without need.
pub fn write_if_changed(path: &Path, text: &str) -> Outcome<()> {
    if fs::read_to_string(path).is_ok_and(|old| old == text) {
        return Ok(());
    }
    if let Some(parent) = path.parent() {
        fs::create_dir_all(parent).map_err(|e| format!("{}: {e}", parent.display()))?;
    }
    fs::write(path, text).map_err(|e| format!("{}: {e}", path.display()))
}
