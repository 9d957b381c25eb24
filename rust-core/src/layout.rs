//! Where the shared fields lie: one table, asserted in Rust and in C.
//!
//! Extensions and profilers built for stock CPython 3.13 read these fields at
//! these offsets, so they may never move. The numbers are bytes on a 64-bit
//! machine. cbindgen exports each constant as `_PyRust_<NAME>`, and
//! `include/ferrule_layout.h` asserts the same numbers against C's `offsetof`:
//! a layout that differs anywhere stops the build on whichever side sees it.

use crate::cpython::{_PyInterpreterFrame, _PyStackChunk, _PyThreadStateImpl, PyThreadState};
use core::mem::size_of;
use memoffset::offset_of;
use static_assertions::const_assert_eq;

/// `_PyStackChunk.previous`
pub const CHUNK_PREVIOUS: usize = 0;
/// `_PyStackChunk.size`
pub const CHUNK_SIZE: usize = 8;
/// `_PyStackChunk.top`
pub const CHUNK_TOP: usize = 16;
/// `_PyStackChunk.data`: where the slots begin.
pub const CHUNK_DATA: usize = 24;
/// `PyThreadState.datastack_chunk`
#[cfg(not(ferrule_wrong_layout))]
pub const TS_DATASTACK_CHUNK: usize = 232;
/// `PyThreadState.datastack_chunk`, wrong on purpose: a test builds with
/// `--cfg ferrule_wrong_layout` and expects the build to fail.
#[cfg(ferrule_wrong_layout)]
pub const TS_DATASTACK_CHUNK: usize = 8;
/// `PyThreadState.datastack_top`
pub const TS_DATASTACK_TOP: usize = 240;
/// `PyThreadState.datastack_limit`
pub const TS_DATASTACK_LIMIT: usize = 248;
/// `_PyInterpreterFrame.f_executable`
pub const FRAME_EXECUTABLE: usize = 0;
/// `_PyInterpreterFrame.previous`
pub const FRAME_PREVIOUS: usize = 8;
/// `_PyInterpreterFrame.stacktop`
pub const FRAME_STACKTOP: usize = 64;
/// `_PyInterpreterFrame.owner`
pub const FRAME_OWNER: usize = 70;
/// `_PyInterpreterFrame.localsplus`
pub const FRAME_LOCALSPLUS: usize = 72;
/// `sizeof(_PyInterpreterFrame)`
pub const FRAME_SIZEOF: usize = 80;

const_assert_eq!(size_of::<usize>(), 8);
const_assert_eq!(offset_of!(_PyStackChunk, previous), CHUNK_PREVIOUS);
const_assert_eq!(offset_of!(_PyStackChunk, size), CHUNK_SIZE);
const_assert_eq!(offset_of!(_PyStackChunk, top), CHUNK_TOP);
const_assert_eq!(offset_of!(_PyStackChunk, data), CHUNK_DATA);
const_assert_eq!(offset_of!(_PyThreadStateImpl, base), 0);
const_assert_eq!(offset_of!(PyThreadState, datastack_chunk), TS_DATASTACK_CHUNK);
const_assert_eq!(offset_of!(PyThreadState, datastack_top), TS_DATASTACK_TOP);
const_assert_eq!(offset_of!(PyThreadState, datastack_limit), TS_DATASTACK_LIMIT);
const_assert_eq!(offset_of!(_PyInterpreterFrame, f_executable), FRAME_EXECUTABLE);
const_assert_eq!(offset_of!(_PyInterpreterFrame, previous), FRAME_PREVIOUS);
const_assert_eq!(offset_of!(_PyInterpreterFrame, stacktop), FRAME_STACKTOP);
const_assert_eq!(offset_of!(_PyInterpreterFrame, owner), FRAME_OWNER);
const_assert_eq!(offset_of!(_PyInterpreterFrame, localsplus), FRAME_LOCALSPLUS);
const_assert_eq!(size_of::<_PyInterpreterFrame>(), FRAME_SIZEOF);
