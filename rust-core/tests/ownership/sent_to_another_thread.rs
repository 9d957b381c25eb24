//! error: E0277
//! without: _of: PhantomData<(*mut PyObject, R)> => _of: PhantomData<R>
use crate::stack_ref::{StackRef, Untagged};

fn needs_send<T: Send>(_: T) {}

pub fn misuse(reference: StackRef<Untagged>) {
    #[cfg(not(corrected))]
    needs_send(reference);
    #[cfg(corrected)]
    needs_send(reference.into_bits());
}
