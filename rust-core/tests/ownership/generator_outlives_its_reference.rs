//! error: E0505
//! module: frame_hook/generator.rs
//! without: object: &'a Owned) -> Option<Self> => object: &Owned) -> Option<Self>
use super::generator::Generator;
use crate::cpython::PyObject;
use crate::object::Owned;

pub fn misuse(code: *mut PyObject, object: Owned) -> Option<i8> {
    let generator = Generator::if_made_of(code, &object);
    #[cfg(not(corrected))]
    drop(object);
    generator.map(Generator::state)
}
