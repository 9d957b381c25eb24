/* The C side of rust-core/src/layout.rs: the same numbers, checked by the C
   compiler. Python/pystate.c includes this file, so every build checks it. */
#ifndef FERRULE_LAYOUT_H
#define FERRULE_LAYOUT_H

#include "ferrule_core.h"

#define FERRULE_ASSERT_OFFSET(type, field, number) \
    _Static_assert(offsetof(type, field) == (number), \
                   #type "." #field " is not where rust-core/src/layout.rs says")

FERRULE_ASSERT_OFFSET(_PyStackChunk, previous, _PyRust_CHUNK_PREVIOUS);
FERRULE_ASSERT_OFFSET(_PyStackChunk, size, _PyRust_CHUNK_SIZE);
FERRULE_ASSERT_OFFSET(_PyStackChunk, top, _PyRust_CHUNK_TOP);
FERRULE_ASSERT_OFFSET(_PyStackChunk, data, _PyRust_CHUNK_DATA);
FERRULE_ASSERT_OFFSET(PyThreadState, datastack_chunk, _PyRust_TS_DATASTACK_CHUNK);
FERRULE_ASSERT_OFFSET(PyThreadState, datastack_top, _PyRust_TS_DATASTACK_TOP);
FERRULE_ASSERT_OFFSET(PyThreadState, datastack_limit, _PyRust_TS_DATASTACK_LIMIT);
FERRULE_ASSERT_OFFSET(_PyThreadStateImpl, base, 0);
FERRULE_ASSERT_OFFSET(_PyInterpreterFrame, f_executable, _PyRust_FRAME_EXECUTABLE);
FERRULE_ASSERT_OFFSET(_PyInterpreterFrame, previous, _PyRust_FRAME_PREVIOUS);
FERRULE_ASSERT_OFFSET(_PyInterpreterFrame, stacktop, _PyRust_FRAME_STACKTOP);
FERRULE_ASSERT_OFFSET(_PyInterpreterFrame, owner, _PyRust_FRAME_OWNER);
FERRULE_ASSERT_OFFSET(_PyInterpreterFrame, localsplus, _PyRust_FRAME_LOCALSPLUS);
_Static_assert(sizeof(_PyInterpreterFrame) == _PyRust_FRAME_SIZEOF,
               "_PyInterpreterFrame is not as large as rust-core/src/layout.rs says");

#undef FERRULE_ASSERT_OFFSET
#endif
