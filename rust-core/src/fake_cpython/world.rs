//! An interpreter for one test.

use super::threads::Attached;
use super::{exceptions, memory, objects, threads};
use crate::code_extra::_PyRust_FiniCodeExtra;
use crate::cpython::{PyInterpreterState, PyThreadState};
use crate::data_stack::_PyRust_ClearDataStack;
use std::thread::panicking;

/// An interpreter with this thread attached. When it goes, everything that was made since it came
/// must have gone too: objects, blocks, chunks, and the exception that is set.
pub struct World {
    attached: Attached,
    objects: usize,
    blocks: isize,
    arena: usize,
}

impl World {
    pub fn new() -> Self {
        memory::allow(None);
        exceptions::cleared();
        exceptions::unraisable();
        World {
            objects: objects::made(),
            blocks: memory::blocks(),
            arena: memory::arena_bytes(),
            attached: Attached::to_interpreter(0),
        }
    }

    pub fn interpreter(&self) -> *mut PyInterpreterState {
        self.attached.interpreter
    }

    pub fn tstate(&self) -> *mut PyThreadState {
        self.attached.tstate()
    }
}

impl Drop for World {
    fn drop(&mut self) {
        if panicking() {
            return;
        }
        memory::allow(None);
        assert_eq!(exceptions::taken(), None, "an exception is left over");
        // SAFETY: the interpreter is over, and nothing else refers to it.
        unsafe {
            assert!((*self.tstate()).current_frame.is_null(), "a frame is left over");
            _PyRust_FiniCodeExtra(self.interpreter());
            _PyRust_ClearDataStack(self.tstate());
        }
        let living: Vec<_> =
            objects::living_since(self.objects).into_iter().map(objects::name_of).collect();
        assert!(living.is_empty(), "objects are left over: {living:?}");
        assert_eq!(memory::blocks(), self.blocks, "memory is left over");
        assert_eq!(memory::arena_bytes(), self.arena, "chunks are left over");
        assert_eq!(threads::locks_held(), 0, "a lock is left locked");
        assert!(!threads::is_world_stopped(), "the world is left stopped");
    }
}
