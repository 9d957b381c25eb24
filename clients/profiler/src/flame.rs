//! The picture of the paths.

use inferno::flamegraph::{from_lines, Options, TextTruncateDirection};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

/// A flame graph as SVG, made of lines with a path and a number each.
pub fn svg(lines: &str, title: &str, unit: &str) -> PyResult<Vec<u8>> {
    let mut options = Options::default();
    options.title = title.to_owned();
    options.count_name = unit.to_owned();
    options.text_truncate_direction = TextTruncateDirection::Right;
    options.hash = true; // a function has one color in each picture
    let mut picture = Vec::new();
    from_lines(&mut options, lines.lines(), &mut picture)
        .map_err(|error| PyValueError::new_err(error.to_string()))?;
    Ok(picture)
}
