/* Frame hooks: look at a Python frame before its first instruction, and let it
   run other code if you like. Many hooks work side by side.

   Unstable API, of Ferrule only: no other CPython has it. An extension that
   wants to load elsewhere too looks the functions up at run time (dlsym).

   Include it after Python.h. Unless it says otherwise, a function needs an
   attached thread state (the GIL), returns 0 for success, and -1 with an
   exception set for failure. */

#ifndef Py_CPYTHON_FRAMEHOOK_H
#define Py_CPYTHON_FRAMEHOOK_H

#ifndef Py_PYTHON_H
#  error "include Python.h before cpython/framehook.h"
#elif defined(Py_LIMITED_API)
#  error "frame hooks are not part of the limited API: compile without Py_LIMITED_API"
#else

#ifdef __cplusplus
extern "C" {
#endif

struct _PyInterpreterFrame;

/* ---- Hooks ---------------------------------------------------------------

   A hook is asked once for each frame, when the frame is about to run for the
   first time: never when a generator resumes, nor when a debugger jumps back to
   the first line. It is not asked for frames that start while a hook runs
   further down on the same stack (a greenlet has a stack of its own), nor for
   those of trace, profile and monitoring callbacks. It is asked for code that
   is traced; if it runs Python code, that is traced too.

   The frame is the hook's to read, with the functions below and in the thread
   that was asked, until it returns; not longer. While hooks look at it no other
   way leads to the frame: tracebacks, PyEval_GetFrame() and the like pass it by. */

/* The simple hook: returns a new reference to the code that shall run instead,
   or NULL for no change; NULL with an exception set fails the call. Returning
   the frame's own code is no change either. */
typedef PyCodeObject *(*_PyFrameHookFunction)(struct _PyInterpreterFrame *frame);

/* What an extended hook answers. */
typedef enum {
    PyUnstable_FRAMEHOOK_ERROR = -1,   /* an exception is set: the call fails */
    PyUnstable_FRAMEHOOK_PASS = 0,     /* no change; ask again next time */
    PyUnstable_FRAMEHOOK_REPLACE = 1,  /* run *replacement instead */
    PyUnstable_FRAMEHOOK_SETTLED = 2,  /* no change; never ask again about this code object */
} PyUnstable_FrameHookVerdict;

/* The extended hook. For REPLACE it stores a new reference in *replacement. */
typedef PyUnstable_FrameHookVerdict (*PyUnstable_FrameHookFunction)(
    struct _PyInterpreterFrame *frame, void *user_data, PyCodeObject **replacement);

/* Installs a hook, behind those that are there. ValueError: that function is
   installed already. RuntimeError: 32 hooks are installed. Every code object is
   asked about again at its next call; that costs each of them one slow start.
   ValueError: NULL. The thread state must belong to `interp`, else RuntimeError,
   also in the functions below. */
PyAPI_FUNC(int) PyUnstable_AddFrameHook(PyInterpreterState *interp, _PyFrameHookFunction hook);

/* Removes it; it is not asked again, in a round that is under way neither.
   ValueError: not installed. */
PyAPI_FUNC(int) PyUnstable_RemoveFrameHook(PyInterpreterState *interp, _PyFrameHookFunction hook);

/* 1 if the function is installed in that interpreter, and it is the thread's; else 0.
   Cannot fail. */
PyAPI_FUNC(int) PyUnstable_ContainsFrameHook(PyInterpreterState *interp, _PyFrameHookFunction hook);

/* Removes every hook of the interpreter. */
PyAPI_FUNC(int) PyUnstable_ClearFrameHooks(PyInterpreterState *interp);

/* A hook's handle: a positive number, never used twice in an interpreter. */
typedef long long PyUnstable_FrameHookId;

/* Installs an extended hook and returns its handle, or -1 with an exception.
   `name` is UTF-8 (else ValueError), is copied and appears in messages; NULL: none. `free_user_data` (may be NULL) is
   called with `user_data` once the hook is gone and no round uses it any more:
   on removal, or before the interpreter's last garbage collection; not when this
   call fails. No exception is set when it is called; one that it leaves behind is
   reported and not passed on. It may call anything here. `flags` is 0, or PyUnstable_FRAMEHOOK_TIMED to measure the time that
   the hook takes (two clock readings a call). ValueError: that function is
   installed with that data already; NULL for it; unknown flags. */
#define PyUnstable_FRAMEHOOK_TIMED 1
PyAPI_FUNC(PyUnstable_FrameHookId) PyUnstable_AddFrameHookEx(
    PyInterpreterState *interp, PyUnstable_FrameHookFunction hook, void *user_data,
    void (*free_user_data)(void *), const char *name, int flags);

/* Removes the hook with this handle. ValueError: there is none. */
PyAPI_FUNC(int) PyUnstable_RemoveFrameHookEx(PyInterpreterState *interp, PyUnstable_FrameHookId id);

/* The handle of a simple hook. ValueError: not installed. */
PyAPI_FUNC(PyUnstable_FrameHookId) PyUnstable_FrameHook_GetId(
    PyInterpreterState *interp, _PyFrameHookFunction hook);

/* Asks the hook (1) or does not ask it (0) from now on, everywhere. A disabled
   hook keeps its place in the order and what it has settled. */
PyAPI_FUNC(int) PyUnstable_EnableFrameHook(PyInterpreterState *interp, PyUnstable_FrameHookId id);
PyAPI_FUNC(int) PyUnstable_DisableFrameHook(PyInterpreterState *interp, PyUnstable_FrameHookId id);

/* The same for frames of the calling thread only. */
PyAPI_FUNC(int) PyUnstable_EnableFrameHookInThread(PyUnstable_FrameHookId id);
PyAPI_FUNC(int) PyUnstable_DisableFrameHookInThread(PyUnstable_FrameHookId id);

/* The same for one code object: enabling forgets that it was settled, disabling
   settles it. TypeError: not a code object. */
PyAPI_FUNC(int) PyUnstable_EnableFrameHookForCode(PyUnstable_FrameHookId id, PyObject *code);
PyAPI_FUNC(int) PyUnstable_DisableFrameHookForCode(PyUnstable_FrameHookId id, PyObject *code);

/* ---- Reading the frame ---------------------------------------------------

   Only while a hook is being asked about this frame, in its thread; before and after, as
   long as the frame is there, they raise RuntimeError. None of these changes the
   frame or makes a frame object. New references; a few instructions each, but
   for the last one, which compares names. */

/* The code that is to run, as the hooks before have left it. */
PyAPI_FUNC(PyObject *) PyUnstable_HookFrame_GetCode(struct _PyInterpreterFrame *frame);
/* The function that was called; CPython makes one for a module, a class body and
   exec() too. */
PyAPI_FUNC(PyObject *) PyUnstable_HookFrame_GetFunction(struct _PyInterpreterFrame *frame);
PyAPI_FUNC(PyObject *) PyUnstable_HookFrame_GetGlobals(struct _PyInterpreterFrame *frame);
PyAPI_FUNC(PyObject *) PyUnstable_HookFrame_GetBuiltins(struct _PyInterpreterFrame *frame);

/* How many parameters the code has, *args and **kwargs included. -1: as above. */
PyAPI_FUNC(Py_ssize_t) PyUnstable_HookFrame_GetArgumentCount(struct _PyInterpreterFrame *frame);
/* The value of parameter `index`: positional ones first, then keyword-only, *args,
   **kwargs. IndexError: no such parameter. UnboundLocalError: it lives in a cell that
   somebody has emptied. */
PyAPI_FUNC(PyObject *) PyUnstable_HookFrame_GetArgument(struct _PyInterpreterFrame *frame, Py_ssize_t index);
/* The name of parameter `index`. IndexError: no such parameter. */
PyAPI_FUNC(PyObject *) PyUnstable_HookFrame_GetArgumentName(struct _PyInterpreterFrame *frame, Py_ssize_t index);
/* The value of the parameter of that name (a str). KeyError: no such parameter.
   UnboundLocalError: as above. */
PyAPI_FUNC(PyObject *) PyUnstable_HookFrame_GetArgumentByName(struct _PyInterpreterFrame *frame, PyObject *name);

#ifdef __cplusplus
}
#endif
#endif /* Py_PYTHON_H && !Py_LIMITED_API */
#endif /* !Py_CPYTHON_FRAMEHOOK_H */
