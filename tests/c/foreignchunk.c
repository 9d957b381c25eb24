/* foreignchunk: an extension that changes the data stack directly.
 *
 * Some tools know the layout of the data stack and act on it by themselves: graph compilers put frames into
 * chunks of their own, and greenlets give each stack of frames its own list of chunks. What they all rely on:
 *
 *   - PyThreadState has datastack_chunk, datastack_top and datastack_limit; all NULL is an empty stack;
 *   - chunks come from, and go back to, the arena allocator, with the size in the chunk's header;
 *   - a chunk that is not the current one has in `top` how many words of `data` are in use;
 *   - a frame at &data[0] is the chunk's first: when it is popped, the chunk goes.
 *
 * The functions here do the same things, so that tests can show that the interpreter keeps to these rules.
 */

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define FOREIGN_CHUNK_BYTES ((size_t)16 * 1024)

/* Exported by the interpreter, declared in an internal header only. */
struct _PyInterpreterFrame;
PyAPI_FUNC(void) _PyThreadState_PopFrame(PyThreadState *, struct _PyInterpreterFrame *);

static _PyStackChunk *
push_foreign_chunk(PyThreadState *tstate, size_t words_used)
{
    PyObjectArenaAllocator arena;
    PyObject_GetArenaAllocator(&arena);
    _PyStackChunk *chunk = arena.alloc(arena.ctx, FOREIGN_CHUNK_BYTES);
    if (chunk == NULL) {
        PyErr_NoMemory();
        return NULL;
    }
    _PyStackChunk *current = tstate->datastack_chunk;
    if (current != NULL) {
        current->top = (size_t)(tstate->datastack_top - &current->data[0]);
    }
    chunk->previous = current;
    chunk->size = FOREIGN_CHUNK_BYTES;
    chunk->top = 0;
    tstate->datastack_chunk = chunk;
    tstate->datastack_top = &chunk->data[0] + words_used;
    tstate->datastack_limit = (PyObject **)((char *)chunk + FOREIGN_CHUNK_BYTES);
    return chunk;
}

static void
pop_foreign_chunk(PyThreadState *tstate, _PyStackChunk *chunk)
{
    PyObjectArenaAllocator arena;
    PyObject_GetArenaAllocator(&arena);
    _PyStackChunk *below = chunk->previous;
    tstate->datastack_chunk = below;
    tstate->datastack_top = &below->data[0] + below->top;
    tstate->datastack_limit = (PyObject **)((char *)below + below->size);
    arena.free(arena.ctx, chunk, chunk->size);
}

/* call_on_chunk(callable, interpreter_pops, words_used) -> (result, address)
 *
 * A frame of `words_used` words is at the start of a foreign chunk while `callable` runs above it. Then either
 * the interpreter pops that frame, or this module takes its chunk back by itself. */
static PyObject *
call_on_chunk(PyObject *module, PyObject *args)
{
    (void)module;
    PyObject *callable;
    int interpreter_pops;
    Py_ssize_t words_used = 1;
    if (!PyArg_ParseTuple(args, "Op|n:call_on_chunk", &callable, &interpreter_pops, &words_used)) {
        return NULL;
    }
    size_t room = (FOREIGN_CHUNK_BYTES - offsetof(_PyStackChunk, data)) / sizeof(PyObject *);
    if (words_used < 1 || (size_t)words_used > room) {
        PyErr_Format(PyExc_ValueError, "words_used is 1 to %zu", room);
        return NULL;
    }
    PyThreadState *tstate = PyThreadState_Get();
    if (tstate->datastack_chunk == NULL) {
        PyErr_SetString(PyExc_RuntimeError, "no chunk below");
        return NULL;
    }
    _PyStackChunk *chunk_before = tstate->datastack_chunk;
    PyObject **top_before = tstate->datastack_top;
    PyObject **limit_before = tstate->datastack_limit;
    _PyStackChunk *chunk = push_foreign_chunk(tstate, (size_t)words_used);
    if (chunk == NULL) {
        return NULL;
    }
    PyObject **top_foreign = tstate->datastack_top;
    PyObject **limit_foreign = tstate->datastack_limit;
    uintptr_t address = (uintptr_t)chunk;

    PyObject *result = PyObject_CallFunction(callable, "K", (unsigned long long)address);

    PyObject *raised = PyErr_GetRaisedException();
    int returned = tstate->datastack_chunk == chunk && tstate->datastack_top == top_foreign
                   && tstate->datastack_limit == limit_foreign;
    if (returned) {
        if (interpreter_pops) {
            _PyThreadState_PopFrame(tstate, (struct _PyInterpreterFrame *)&chunk->data[0]);
        }
        else {
            pop_foreign_chunk(tstate, chunk);
        }
    }
    int as_before = tstate->datastack_chunk == chunk_before && tstate->datastack_top == top_before
                    && tstate->datastack_limit == limit_before;
    if (!returned || !as_before) {
        Py_XDECREF(result);
        Py_XDECREF(raised);
        PyErr_SetString(PyExc_AssertionError,
                        returned ? "after the pop the stack is not what it was before the push"
                                 : "after the call the foreign chunk is not the current one, as it was");
        return NULL;
    }
    if (result == NULL) {
        PyErr_SetRaisedException(raised);
        return NULL;
    }
    return Py_BuildValue("NK", result, (unsigned long long)address);
}

/* call_on_empty_stack(callable) -> (result, chunks freed, bytes freed)
 *
 * The stack is taken away, `callable` runs on none, what it left behind is freed chunk by chunk, and the stack
 * comes back: one switch to a greenlet and back, and the greenlet's end. */
static PyObject *
call_on_empty_stack(PyObject *module, PyObject *callable)
{
    (void)module;
    PyThreadState *tstate = PyThreadState_Get();
    _PyStackChunk *chunk = tstate->datastack_chunk;
    PyObject **top = tstate->datastack_top;
    PyObject **limit = tstate->datastack_limit;
    tstate->datastack_chunk = NULL;
    tstate->datastack_top = NULL;
    tstate->datastack_limit = NULL;

    PyObject *result = PyObject_CallNoArgs(callable);

    Py_ssize_t chunks = 0;
    Py_ssize_t bytes = 0;
    PyObjectArenaAllocator arena;
    PyObject_GetArenaAllocator(&arena);
    _PyStackChunk *left = tstate->datastack_chunk;
    while (left != NULL) {
        _PyStackChunk *previous = left->previous;
        chunks += 1;
        bytes += (Py_ssize_t)left->size;
        left->previous = NULL;
        arena.free(arena.ctx, left, left->size);
        left = previous;
    }
    tstate->datastack_chunk = chunk;
    tstate->datastack_top = top;
    tstate->datastack_limit = limit;
    if (result == NULL) {
        return NULL;
    }
    return Py_BuildValue("Nnn", result, chunks, bytes);
}

/* leave_chunks(): push foreign chunks and leave them. Only for a thread that has this as its function: no Python
 * frame may run on that thread afterwards. */
#define CHUNKS_LEFT 3

static PyObject *
leave_chunks(PyObject *module, PyObject *unused)
{
    (void)module;
    (void)unused;
    for (int i = 0; i < CHUNKS_LEFT; i++) {
        if (push_foreign_chunk(PyThreadState_Get(), 1) == NULL) {
            return NULL;
        }
    }
    Py_RETURN_NONE;
}

/* chunks() -> [(address, size, words in use)], the current chunk first: what an outside profiler reads. */
static PyObject *
chunks(PyObject *module, PyObject *unused)
{
    (void)module;
    (void)unused;
    PyThreadState *tstate = PyThreadState_Get();
    PyObject *list = PyList_New(0);
    if (list == NULL) {
        return NULL;
    }
    for (_PyStackChunk *chunk = tstate->datastack_chunk; chunk != NULL; chunk = chunk->previous) {
        Py_ssize_t used = chunk == tstate->datastack_chunk ? tstate->datastack_top - &chunk->data[0]
                                                           : (Py_ssize_t)chunk->top;
        PyObject *row = Py_BuildValue("Knn", (unsigned long long)(uintptr_t)chunk, (Py_ssize_t)chunk->size, used);
        if (row == NULL || PyList_Append(list, row) < 0) {
            Py_XDECREF(row);
            Py_DECREF(list);
            return NULL;
        }
        Py_DECREF(row);
    }
    return list;
}

/* copy_chunks() -> bytes copied; profilers copy each chunk whole, by its size. */
static PyObject *
copy_chunks(PyObject *module, PyObject *unused)
{
    (void)module;
    (void)unused;
    PyThreadState *tstate = PyThreadState_Get();
    size_t copied = 0;
    for (_PyStackChunk *chunk = tstate->datastack_chunk; chunk != NULL; chunk = chunk->previous) {
        void *copy = PyMem_RawMalloc(chunk->size);
        if (copy == NULL) {
            return PyErr_NoMemory();
        }
        memcpy(copy, chunk, chunk->size);
        size_t size = ((_PyStackChunk *)copy)->size;
        PyMem_RawFree(copy);
        if (size != chunk->size) {
            PyErr_SetString(PyExc_AssertionError, "the copy is not the chunk");
            return NULL;
        }
        copied += size;
    }
    return PyLong_FromSize_t(copied);
}

/* limit_is_end() -> whether the limit is the end of the current chunk, as a pop by others restores it. */
static PyObject *
limit_is_end(PyObject *module, PyObject *unused)
{
    (void)module;
    (void)unused;
    PyThreadState *tstate = PyThreadState_Get();
    char *end = (char *)tstate->datastack_chunk + tstate->datastack_chunk->size;
    return PyBool_FromLong((char *)tstate->datastack_limit == end);
}

static PyMethodDef methods[] = {
    {"call_on_chunk", call_on_chunk, METH_VARARGS, "Call on a foreign chunk; it is popped by the interpreter or not."},
    {"call_on_empty_stack", call_on_empty_stack, METH_O, "Call with the data stack taken away for the time."},
    {"leave_chunks", leave_chunks, METH_NOARGS, "Push foreign chunks that are never popped."},
    {"chunks", chunks, METH_NOARGS, "The chunks of this thread: (address, size, words in use)."},
    {"copy_chunks", copy_chunks, METH_NOARGS, "Copy every chunk by its size; the bytes copied."},
    {"limit_is_end", limit_is_end, METH_NOARGS, "Whether the limit is the end of the current chunk."},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef definition = {
    .m_base = PyModuleDef_HEAD_INIT,
    .m_name = "foreignchunk",
    .m_doc = "Handles the data stack as tools outside of the interpreter do.",
    .m_size = -1,
    .m_methods = methods,
};

PyMODINIT_FUNC
PyInit_foreignchunk(void)
{
    PyObject *module = PyModule_Create(&definition);
    if (module != NULL && PyModule_AddIntMacro(module, CHUNKS_LEFT) < 0) {
        Py_CLEAR(module);
    }
    return module;
}
