/* The C side of rust-core/src/layout.rs: the same numbers, checked by the C
   compiler. Python/pystate.c includes this file, so every build checks it. */
#ifndef FERRULE_LAYOUT_H
#define FERRULE_LAYOUT_H

#include "ferrule_core.h"

#define ASSERT_OFFSET(type, field, number) \
    _Static_assert(offsetof(type, field) == _PyRust_##number, #type "." \
                   #field " is not where rust-core/src/layout.rs says")

ASSERT_OFFSET(_PyStackChunk, previous, CHUNK_PREVIOUS);
ASSERT_OFFSET(_PyStackChunk, size, CHUNK_SIZE);
ASSERT_OFFSET(_PyStackChunk, top, CHUNK_TOP);
ASSERT_OFFSET(_PyStackChunk, data, CHUNK_DATA);
ASSERT_OFFSET(PyThreadState, datastack_chunk, TS_DATASTACK_CHUNK);
ASSERT_OFFSET(PyThreadState, datastack_top, TS_DATASTACK_TOP);
ASSERT_OFFSET(PyThreadState, datastack_limit, TS_DATASTACK_LIMIT);
ASSERT_OFFSET(_PyInterpreterFrame, f_executable, FRAME_EXECUTABLE);
ASSERT_OFFSET(_PyInterpreterFrame, previous, FRAME_PREVIOUS);
ASSERT_OFFSET(_PyInterpreterFrame, stacktop, FRAME_STACKTOP);
ASSERT_OFFSET(_PyInterpreterFrame, owner, FRAME_OWNER);
ASSERT_OFFSET(_PyInterpreterFrame, localsplus, FRAME_LOCALSPLUS);
_Static_assert(offsetof(_PyThreadStateImpl, base) == 0,
               "_PyThreadStateImpl does not begin with its base");
_Static_assert(sizeof(_PyInterpreterFrame) == _PyRust_FRAME_SIZEOF,
               "_PyInterpreterFrame has another size in "
               "rust-core/src/layout.rs");

#undef ASSERT_OFFSET
#endif
