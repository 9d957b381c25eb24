//! The Python interface.
//!
//! ```text
//!   functions, exports ──► hook ──► view, singleton ──► converted
//!   block, suspension ──► hook         what `with` statements use
//!   module                             the rest of `_framecore`
//! ```

mod block;
mod converted;
mod event;
mod exports;
mod functions;
mod hook;
mod module;
mod singleton;
mod suspension;
mod view;

pub use functions::METHODS;
pub use module::fill_module;
