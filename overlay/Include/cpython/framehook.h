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
    PyUnstable_FRAMEHOOK_RESULT = 3,   /* run nothing: the call has this value; second edition only */
} PyUnstable_FrameHookVerdict;

/* The extended hook. For REPLACE it stores a new reference in *replacement. */
typedef PyUnstable_FrameHookVerdict (*PyUnstable_FrameHookFunction)(
    struct _PyInterpreterFrame *frame, void *user_data, PyCodeObject **replacement);

/* Installs a hook, behind those that are there. ValueError: that function is
   installed already. RuntimeError: 1,024 hooks are installed. Every code object is
   asked about again at its next call; that costs each of them one slow start.
   ValueError: NULL. The thread state must belong to `interp`, else RuntimeError,
   also in the functions below. Adding raises the audit event framehook.add with
   the hook's name, in each of the ways to do it. */
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
   called with `user_data` once the hook was removed and is not being called any more:
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

/* ---- The second edition --------------------------------------------------

   A hook that is installed with a definition may do more than answer: it can be told when a
   frame is left, limit what it is asked about while a frame lasts, and give the
   value of a call. All of the first edition works on such hooks too. */

/* The edition that the interpreter has: 2. Missing where there is the first one only.
   Needs no thread state. */
#define PyUnstable_FRAMEHOOK_VERSION 2
PyAPI_FUNC(int) PyUnstable_FrameHook_Version(void);

/* What `tell` of an answer is made of. */
#define PyUnstable_FRAMEHOOK_TELL_LEAVE 1   /* the frame's end, once: returned, raised or dropped */
#define PyUnstable_FRAMEHOOK_TELL_YIELD 2   /* each yield or await that suspends it too */
#define PyUnstable_FRAMEHOOK_TELL_RESUME 4  /* each time that it goes on too */

/* What `extent` of an answer may be: the scope of the frame. In force until the frame is left, and not
   while it is suspended, on the stack of the thread, or greenlet, that runs it. Other threads and greenlets
   go on as without it. The innermost scope of a hook counts. */
#define PyUnstable_FRAMEHOOK_NOT_BELOW 1    /* do not call the hook for the callees of this frame */
#define PyUnstable_FRAMEHOOK_ONLY_BELOW 2   /* call it for them, though a scope around this one excludes them */
#define PyUnstable_FRAMEHOOK_ONLY_BELOW_EVERYWHERE 3    /* the same, and for nothing else in any other
                                                           thread or greenlet */

/* What a hook says beside its verdict. All of it is 0 when the hook is asked. Nothing of
   it counts where the verdict is ERROR. */
typedef struct {
    PyObject *object;       /* a new reference: for REPLACE the code, for RESULT the value */
    void *word;             /* comes back with each event of this frame; `free_word` frees it */
    unsigned int tell;      /* PyUnstable_FRAMEHOOK_TELL_... together; 0: nothing. With any of
                               them the frame's end is told. */
    unsigned int extent;    /* 0, or one of the three */
} PyUnstable_FrameHookAnswer;

/* `answer` lies on the C stack, below the hook: it may be written to until the hook returns, but by
   no other greenlet while this one waits. */
typedef PyUnstable_FrameHookVerdict (*PyUnstable_FrameHookAsk)(
    struct _PyInterpreterFrame *frame, void *user_data, PyUnstable_FrameHookAnswer *answer);

/* What has happened to a frame. `value` and `code` are borrowed for the time of the call. */
typedef struct {
    int kind;               /* PyUnstable_FRAMEHOOK_RETURNED and so on */
    PyObject *value;        /* what it returned or yielded, or the exception; else NULL */
    PyObject *code;         /* the code that ran */
    void *word;             /* as the hook gave it */
} PyUnstable_FrameHookEvent;

#define PyUnstable_FRAMEHOOK_RETURNED 0
#define PyUnstable_FRAMEHOOK_RAISED 1
#define PyUnstable_FRAMEHOOK_YIELDED 2
#define PyUnstable_FRAMEHOOK_RESUMED 3
#define PyUnstable_FRAMEHOOK_DROPPED 4      /* it was not run to its end, and never will be */

/* Tells a hook what has happened to a frame that it watches. The frame is there no more, or is
   suspended; where it goes on, nothing of it has run yet. Hooks are told in the reverse
   of the order in which they asked. No exception is set when it is called. It cannot
   change what happens, but -1 with an exception set makes the call fail with
   that one (a raised one becomes its context; StopIteration and StopAsyncIteration about a
   generator become RuntimeError); where nobody waits for a dropped frame, the
   exception is reported. Who is left to be told is told all the same. */
typedef int (*PyUnstable_FrameHookTell)(const PyUnstable_FrameHookEvent *event, void *user_data);

/* Flags of a definition, beside PyUnstable_FRAMEHOOK_TIMED. */
#define PyUnstable_FRAMEHOOK_THIS_THREAD 2  /* ask it about frames of the calling thread only */
#define PyUnstable_FRAMEHOOK_VISIBLE 8      /* the Python code that it runs is shown to trace, profile and
                                               monitoring functions; without it, it is not */

/* Where a hook comes among the others. */
#define PyUnstable_FRAMEHOOK_LAST 0
#define PyUnstable_FRAMEHOOK_FIRST 1
#define PyUnstable_FRAMEHOOK_BEFORE 2       /* right before `other` */
#define PyUnstable_FRAMEHOOK_BEHIND 3       /* right behind `other` */

typedef struct PyUnstable_FrameHookDefinition {
    size_t size;                            /* sizeof(PyUnstable_FrameHookDefinition) */
    const char *name;                       /* as for PyUnstable_AddFrameHookEx() */
    PyUnstable_FrameHookAsk ask;
    PyUnstable_FrameHookTell tell;          /* NULL: it watches no frame, and `tell` of an answer is
                                               an error */
    void *user_data;
    void (*free_user_data)(void *);         /* may be NULL; called once the hook was removed and neither
                                               `ask` nor `tell` of it is under way: perhaps before
                                               `free_word` of frames that it still watches */
    void (*free_word)(void *word);          /* may be NULL; called once for each answer with `tell` or
                                               `extent`, when nothing more is told of the frame, whatever
                                               the reason: also if the hook was removed, if an exception is
                                               set beside the answer, and if the call has failed. Never while
                                               `tell` runs for that frame. It may call anything here */
    unsigned int flags;
    int place;
    PyUnstable_FrameHookId other;           /* for BEFORE and BEHIND */
    int (*traverse_word)(void *word, visitproc visit, void *arg);
                                            /* may be NULL; as tp_traverse: visits each object to which the
                                               word owns a reference. Without it the collector frees no cycle
                                               of references through the word */
} PyUnstable_FrameHookDefinition;

/* Installs a hook and returns its handle, or -1 with an exception: those of
   PyUnstable_AddFrameHookEx(), and ValueError where the definition makes no sense or
   `other` is not installed. The definition is not used afterwards. */
PyAPI_FUNC(PyUnstable_FrameHookId) PyUnstable_InstallFrameHook(
    PyInterpreterState *interp, const PyUnstable_FrameHookDefinition *definition);

/* Whether `other` could run in the place of `code`: 1 or 0, and then *reason (where `reason` is
   not NULL) is a string that lives for ever. -1: TypeError, one of them is no code object. */
PyAPI_FUNC(int) PyUnstable_FrameHook_CanStandIn(PyObject *code, PyObject *other, const char **reason);

/* Calls a Python function as PyObject_Vectorcall() would, and asks no hook about its frame; if
   `below` is not 0, nor about any frame below it. A callable that is no Python function is
   called like any other. */
PyAPI_FUNC(PyObject *) PyUnstable_FrameHook_CallOriginal(
    PyObject *callable, PyObject *const *arguments, size_t nargsf, PyObject *names, int below);

/* Calls a callable from within a hook as PyObject_Vectorcall() would, and as though the hook did
   not run: hooks are asked about the frames of the call as about any, this hook among them. For
   hooks that run code of others while they are asked or told, as a compiler does. Meanwhile the
   frame cannot be read. What a hidden hook runs stays hidden. Where no hook runs it is a call like
   any other. */
PyAPI_FUNC(PyObject *) PyUnstable_FrameHook_CallOutside(
    PyObject *callable, PyObject *const *arguments, size_t nargsf, PyObject *names);

/* Sets after how many more levels of C recursion the calling thread raises RecursionError, and
   returns how many it had. For hooks that run a compiler, which calls itself deeply through C; they
   put back what there was. As with sys.setrecursionlimit(), a number for which the thread's stack is
   too small ends the process. */
PyAPI_FUNC(int) PyUnstable_FrameHook_SetCRecursionRemaining(int levels);

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

/* These came with the second edition. */

/* As GetArgument(), but a borrowed reference: the frame holds it while the hook looks at the
   frame and runs no Python code. No count is touched. */
PyAPI_FUNC(PyObject *) PyUnstable_HookFrame_BorrowArgument(struct _PyInterpreterFrame *frame, Py_ssize_t index);
/* A new dict of the free variables by name, without those that have no value. */
PyAPI_FUNC(PyObject *) PyUnstable_HookFrame_GetFreeVariables(struct _PyInterpreterFrame *frame);
/* The mapping that holds the locals of a module, a class body or exec(); None where there is none. */
PyAPI_FUNC(PyObject *) PyUnstable_HookFrame_GetLocals(struct _PyInterpreterFrame *frame);
/* The code of the frame that called, and its line (*line; -1: unknown; NULL: not wanted). None, and -1,
   where Python code has not called. RuntimeError while the hook waits in another greenlet. */
PyAPI_FUNC(PyObject *) PyUnstable_HookFrame_GetCaller(struct _PyInterpreterFrame *frame, int *line);

#ifdef __cplusplus
}
#endif
#endif /* Py_PYTHON_H && !Py_LIMITED_API */
#endif /* !Py_CPYTHON_FRAMEHOOK_H */
