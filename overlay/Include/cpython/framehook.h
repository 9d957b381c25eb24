/* Frame hooks: call a function before the first instruction of each Python
   frame. It can let the frame run other code, give the call a result, and be
   called again when the frame is left, yields or is resumed. Several hooks work
   side by side.

   For compilers, PyUnstable_Frame_Continue() lets frames continue in the
   interpreter that compiled code has left, and
   PyUnstable_InterpreterFrame_GetLocal() reads a variable by its index.

   Made by cbindgen from rust-core/src (frame_hook, frame_continue, frame):
   change it there and run `make header`.

       static int
       on_entry(struct _PyInterpreterFrame *frame, void *user_data,
                PyUnstable_FrameHookAnswer *answer)
       {
           counter++;
           return PyUnstable_FRAMEHOOK_PASS;
       }

       PyUnstable_FrameHookDefinition definition = {
           .size = sizeof(definition), .name = "counter", .on_entry = on_entry,
       };
       PyUnstable_FrameHookId id = PyUnstable_FrameHook_Install(&definition);

   Include it after Python.h. Unless stated otherwise, a function needs an
   attached thread state (the GIL), and returns 0, or -1 with an exception set.

   An entry callback is called once for each frame: not when a generator is
   resumed, nor when a debugger jumps back to the first line. It is not called
   for frames that start while a callback of a hook runs further down the same
   stack (a greenlet has a stack of its own), nor for those of trace, profile and
   monitoring functions. The frame can be read with the functions below, by the
   thread of the callback, until that returns; otherwise they raise RuntimeError.
   Until all entry callbacks have returned, nothing else leads to the frame:
   tracebacks and PyEval_GetFrame() skip it.

   The interface is unstable, and only Ferrule has it. This file needs nothing
   but Python.h, so an extension can come with a copy of it. With
   FRAMEHOOK_OPTIONAL defined, the extension loads on every CPython, and
   FrameHook_Available() returns whether there are frame hooks. */

#ifndef Py_CPYTHON_FRAMEHOOK_H
#define Py_CPYTHON_FRAMEHOOK_H

#ifndef Py_PYTHON_H
#  error "include Python.h before cpython/framehook.h"
#elif defined(Py_LIMITED_API)
#  error "frame hooks are not in the limited API: do not define Py_LIMITED_API"
#else

#ifdef FRAMEHOOK_OPTIONAL
#  define FRAMEHOOK_API __attribute__((weak)) Py_IMPORTED_SYMBOL
#else
#  define FRAMEHOOK_API Py_IMPORTED_SYMBOL
#endif

struct _PyInterpreterFrame;

/*
 The version of this interface, as PyUnstable_FrameHook_Version() returns
 it.
 */
#define PyUnstable_FRAMEHOOK_VERSION 1

/*
 Verdict of an entry callback: the call fails with the exception that is
 set.
 */
#define PyUnstable_FRAMEHOOK_ERROR -1

/*
 Verdict: the frame runs unchanged.
 */
#define PyUnstable_FRAMEHOOK_PASS 0

/*
 Verdict: the code in `object` runs instead, with the same arguments.
 */
#define PyUnstable_FRAMEHOOK_REPLACE 1

/*
 Verdict: the frame runs unchanged, and the hook is disabled for this code
 object in all threads.
 */
#define PyUnstable_FRAMEHOOK_DISABLE 2

/*
 Verdict: nothing runs; the call returns `object`.
 */
#define PyUnstable_FRAMEHOOK_RESULT 3

/*
 Event of an answer: the frame returns, raises or is dropped. Exactly one of
 the three is delivered.
 */
#define PyUnstable_FRAMEHOOK_ON_EXIT 1

/*
 Event of an answer: the frame is suspended by a yield or an await.
 */
#define PyUnstable_FRAMEHOOK_ON_YIELD 2

/*
 Event of an answer: the suspended frame is resumed.
 */
#define PyUnstable_FRAMEHOOK_ON_RESUME 4

/*
 Scope of an answer: the hook is not called for callees of the frame.
 */
#define PyUnstable_FRAMEHOOK_EXCLUDE_CALLEES 1

/*
 Scope of an answer: the hook is called for callees of the frame, even if a
 scope around it excludes them.
 */
#define PyUnstable_FRAMEHOOK_ONLY_CALLEES 2

/*
 Scope of an answer: as ONLY_CALLEES, and the hook is called in no other
 thread or greenlet.
 */
#define PyUnstable_FRAMEHOOK_ONLY_CALLEES_EVERYWHERE 3

/*
 Kind of an event: the frame has returned `value`.
 */
#define PyUnstable_FRAMEHOOK_RETURNED 0

/*
 Kind of an event: the exception `value` has left the frame.
 */
#define PyUnstable_FRAMEHOOK_RAISED 1

/*
 Kind of an event: the frame has yielded `value`.
 */
#define PyUnstable_FRAMEHOOK_YIELDED 2

/*
 Kind of an event: the frame is resumed, and has executed nothing yet.
 */
#define PyUnstable_FRAMEHOOK_RESUMED 3

/*
 Kind of an event: the frame was suspended or had not started, and never
 runs again.
 */
#define PyUnstable_FRAMEHOOK_DROPPED 4

/*
 Flag of a definition: the time that the callbacks take is measured, by two
 clock readings a call.
 */
#define PyUnstable_FRAMEHOOK_TIMED 1

/*
 Flag of a definition: the hook is called in the installing thread only, and
 removed when that ends.
 */
#define PyUnstable_FRAMEHOOK_THIS_THREAD 2

/*
 Flag of a definition: trace, profile and monitoring functions see the
 Python code that the callbacks run.
 */
#define PyUnstable_FRAMEHOOK_VISIBLE 4

/*
 Position of a hook: after all others.
 */
#define PyUnstable_FRAMEHOOK_LAST 0

/*
 Position: before all others.
 */
#define PyUnstable_FRAMEHOOK_FIRST 1

/*
 Position: right before the hook `other`.
 */
#define PyUnstable_FRAMEHOOK_BEFORE 2

/*
 Position: right after the hook `other`.
 */
#define PyUnstable_FRAMEHOOK_AFTER 3

/*
 Answer of a loop callback: the exception that is set is raised at
 `instruction`, where the function may handle it.
 */
#define PyUnstable_FRAMELOOP_ERROR -1

/*
 Answer: the frame continues at `instruction`.
 */
#define PyUnstable_FRAMELOOP_CONTINUE 0

/*
 Answer: the function returns `object`.
 */
#define PyUnstable_FRAMELOOP_RESULT 1

/*
 Answer: the exception that is set leaves the function, whose traceback
 entry is that of `instruction`. No handler of the function is executed.
 */
#define PyUnstable_FRAMELOOP_UNWIND 2

/*
 The id of an installed hook: a positive number that an interpreter never
 uses again.
 */
typedef long long PyUnstable_FrameHookId;

/*
 What an entry callback returns beside its verdict. All fields are 0 when
 the callback is called, and are ignored if the verdict is ERROR.

 The struct lies on the C stack of the dispatch. The callback may write to
 it until it returns, but not from another greenlet.
 */
typedef struct PyUnstable_FrameHookAnswer {
  /*
   A new reference: the code for REPLACE, the value for RESULT.
   */
  PyObject *object;
  /*
   Passed to each event of this frame, and then to `free_data`.
   */
  void *data;
  /*
   PyUnstable_FRAMEHOOK_ON_... combined. Any of them implies ON_EXIT. 0:
   the frame is not watched.
   */
  unsigned int events;
  /*
   0, or one of the three scopes. A scope is in force on the stack of the
   thread or greenlet that runs the frame, until the frame is left, and
   not while it is suspended. The innermost scope of a hook wins.
   */
  unsigned int scope;
} PyUnstable_FrameHookAnswer;

/*
 An event of a watched frame. References are borrowed for the time of the
 callback.
 */
typedef struct PyUnstable_FrameHookEvent {
  /*
   PyUnstable_FRAMEHOOK_RETURNED and so on.
   */
  int kind;
  /*
   The value returned or yielded, or the exception; otherwise NULL.
   */
  PyObject *value;
  /*
   The code object that ran.
   */
  PyObject *code;
  /*
   `data` of the answer.
   */
  void *data;
} PyUnstable_FrameHookEvent;

/*
 A frame at the head of a hot loop: its JUMP_BACKWARD was executed, and the
 instruction that it leads to is next.

 The struct lies on the C stack. The callback may read and write it until it
 returns.
 */
typedef struct PyUnstable_FrameLoop {
  /*
   The frame.
   */
  struct _PyInterpreterFrame *frame;
  /*
   The function that runs; borrowed.
   */
  PyObject *function;
  /*
   The code that runs; borrowed.
   */
  PyCodeObject *code;
  /*
   The frame's own slots: locals, cells and free variables,
   then the evaluation stack. They own their references, and
   are NULL where unbound. To write one, store the new reference and
   release the old one afterwards.
   */
  PyObject **slots;
  /*
   How many locals, cells and free variables there are: `co_nlocalsplus`.
   */
  int local_count;
  /*
   How many values are on the evaluation stack. May be written, up to
   `co_stacksize`.
   */
  int stack_depth;
  /*
   The index of the JUMP_BACKWARD, in code units.
   */
  int jump;
  /*
   The index of the next instruction, in code units: the loop's head. May
   be written.
   */
  int instruction;
  /*
   After how many further turns the callback is called again for this
   loop, at most 65,535; 0: not until the code is instrumented anew, as
   when a tool or a hook was added, or WatchLoops() is called again. May
   be written.
   */
  int turns;
  /*
   A new reference: the value for RESULT. NULL at first.
   */
  PyObject *object;
} PyUnstable_FrameLoop;

/*
 A hook to be installed. Fields may be 0 or NULL unless they say otherwise.
 */
typedef struct PyUnstable_FrameHookDefinition {
  /*
   sizeof(PyUnstable_FrameHookDefinition). Required.
   */
  size_t size;
  /*
   UTF-8, copied; used in messages and in framehook.hooks().
   */
  const char *name;
  /*
   A PyUnstable_FrameHookEntryFunction. Required.
   */
  int (*on_entry)(struct _PyInterpreterFrame *frame,
                  void *user_data,
                  struct PyUnstable_FrameHookAnswer *answer);
  /*
   A PyUnstable_FrameHookEventFunction. Without it, `events` of an answer
   must be 0.
   */
  int (*on_event)(const struct PyUnstable_FrameHookEvent *event,
                  void *user_data);
  /*
   Passed to both callbacks.
   */
  void *user_data;
  /*
   Called once with `user_data` when the hook was removed and no callback
   of it runs; not if the installation fails. It may be called before
   `free_data` of frames that the hook still watches. It is called with no
   exception set, and one that it leaves is reported as unraisable.
   */
  void (*free_user_data)(void *user_data);
  /*
   Called once with `data` of each answer that has `events` or a `scope`,
   when no further event is delivered, whatever the reason: also if an
   exception is set beside the answer, or if the call fails. Never while
   `on_event` runs for that frame. Exceptions as for `free_user_data`.
   */
  void (*free_data)(void *data);
  /*
   As tp_traverse: visits each object to which `data` owns a reference.
   Without it the collector frees no reference cycle through `data`.
   */
  int (*traverse_data)(void *data, int (*visit)(PyObject*, void*), void *arg);
  /*
   PyUnstable_FRAMEHOOK_TIMED, ..._THIS_THREAD and ..._VISIBLE combined.
   */
  unsigned int flags;
  /*
   PyUnstable_FRAMEHOOK_LAST and so on.
   */
  int position;
  /*
   For BEFORE and AFTER.
   */
  PyUnstable_FrameHookId other;
  /*
   A PyUnstable_FrameLoopFunction, for PyUnstable_FrameHook_WatchLoops().
   */
  int (*on_loop)(struct PyUnstable_FrameLoop *hot, void *user_data);
} PyUnstable_FrameHookDefinition;

/*
 A frame that was left elsewhere and continues in the interpreter.

 The references in `slots` are consumed; the others are borrowed.
 */
typedef struct PyUnstable_FrameRecord {
  /*
   A Python function: the frame's globals and builtins are its own.
   */
  PyObject *function;
  /*
   The code that runs. NULL: what the function has now, so give the code if
   other code may have run since it was compiled and assigned another
   `__code__`. It has no more free variables than the function's closure.
   */
  PyCodeObject *code;
  /*
   NULL, or the mapping of the locals if the code is that of a module, a
   class body or exec().
   */
  PyObject *locals;
  /*
   Index of an instruction, in code units. Innermost frame: the next
   instruction. Other frames: the CALL, CALL_KW, CALL_FUNCTION_EX,
   BINARY_SUBSCR or LOAD_ATTR whose result is awaited. EXTENDED_ARG
   belongs to the instruction.
   */
  int instruction;
  /*
   How many values are on the evaluation stack. What the awaited call takes
   from the stack is not there any more.
   */
  int stack_depth;
  /*
   `co_nlocalsplus` variables, then the evaluation stack. NULL for a
   variable that is unbound and for an empty place on the stack. A variable
   with a cell is the cell.
   */
  PyObject **slots;
} PyUnstable_FrameRecord;

/*
 An entry callback. Returns a verdict. Called once for each frame, right
 before its first instruction.
 */
typedef int (*PyUnstable_FrameHookEntryFunction)(struct _PyInterpreterFrame *frame,
                                                 void *user_data,
                                                 struct PyUnstable_FrameHookAnswer *answer);

/*
 An event callback. Returns 0, or -1 with an exception set.

 The frame is gone or suspended when it is called; a resumed frame has
 executed nothing. If several hooks watch a frame, their event callbacks run
 in the reverse order of their entry callbacks. No exception is set when it
 is called.

 -1 makes the call fail with the exception that is set; an exception on its
 way becomes the context of that one. For a generator, StopIteration and
 StopAsyncIteration become RuntimeError. For DROPPED, the exception is
 reported as unraisable. Remaining callbacks still run.
 */
typedef int (*PyUnstable_FrameHookEventFunction)(const struct PyUnstable_FrameHookEvent *event,
                                                 void *user_data);

/*
 A loop callback. Returns PyUnstable_FRAMELOOP_CONTINUE and so on.

 It may run Python code, which is not dispatched and whose events are hidden
 as those of code that an entry callback runs. The frame is the thread's
 current one, and what an entry callback can read of it can be read.
 */
typedef int (*PyUnstable_FrameLoopFunction)(struct PyUnstable_FrameLoop *hot,
                                            void *user_data);

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

/*
 PyUnstable_FRAMEHOOK_VERSION of the interpreter. Needs no thread state.
 */
FRAMEHOOK_API int PyUnstable_FrameHook_Version(void);

/*
 Installs a hook in the calling thread's interpreter and returns its id, or
 -1 with an exception set. The definition is copied.

 Every code object is dispatched again at its next call, which costs each of
 them one slow start; hooks that are disabled for it are not called. Raises
 the audit event framehook.add with the name.

 ValueError: a field makes no sense, `other` is not installed, or a hook
 with this `on_entry` and `user_data` is installed. RuntimeError: 1,024
 hooks are installed.
 */
FRAMEHOOK_API
PyUnstable_FrameHookId PyUnstable_FrameHook_Install(const struct PyUnstable_FrameHookDefinition *definition);

/*
 Removes a hook. None of its callbacks is called afterwards, not even by a
 dispatch in progress. ValueError: it is not installed.
 */
FRAMEHOOK_API int PyUnstable_FrameHook_Remove(PyUnstable_FrameHookId id);

/*
 Removes all hooks of the calling thread's interpreter, those of others too.
 */
FRAMEHOOK_API int PyUnstable_FrameHook_Clear(void);

/*
 Enables a hook that PyUnstable_FrameHook_Disable() has disabled.
 */
FRAMEHOOK_API int PyUnstable_FrameHook_Enable(PyUnstable_FrameHookId id);

/*
 Disables a hook in all threads. It keeps its position and the code objects
 for which it is disabled.
 */
FRAMEHOOK_API int PyUnstable_FrameHook_Disable(PyUnstable_FrameHookId id);

/*
 Enables a hook that PyUnstable_FrameHook_DisableInThread() has disabled in
 the calling thread.
 */
FRAMEHOOK_API
int PyUnstable_FrameHook_EnableInThread(PyUnstable_FrameHookId id);

/*
 Disables a hook in the calling thread.
 */
FRAMEHOOK_API
int PyUnstable_FrameHook_DisableInThread(PyUnstable_FrameHookId id);

/*
 Enables a hook for a code object for which it is disabled. TypeError:
 `code` is no code object.
 */
FRAMEHOOK_API
int PyUnstable_FrameHook_EnableForCode(PyUnstable_FrameHookId id,
                                       PyObject *code);

/*
 Disables a hook for a code object in all threads, as the verdict DISABLE
 does. TypeError: `code` is no code object.
 */
FRAMEHOOK_API
int PyUnstable_FrameHook_DisableForCode(PyUnstable_FrameHookId id,
                                        PyObject *code);

/*
 Whether a frame of `code` cannot run `other` instead: 0, or 1 and the
 reason in *reason (if `reason` is not NULL), a string that is never freed.
 -1 with TypeError: one of them is no code object.
 */
FRAMEHOOK_API
int PyUnstable_FrameHook_Incompatibility(PyObject *code,
                                         PyObject *other,
                                         const char **reason);

/*
 Calls a Python function as PyObject_Vectorcall() does, but dispatches no
 hook for the frame of the call; if `callees` is not 0, nor for its callees.
 Other callables are called as usual.
 */
FRAMEHOOK_API
PyObject *PyUnstable_FrameHook_CallUnhooked(PyObject *callable,
                                            PyObject *const *args,
                                            size_t nargsf,
                                            PyObject *kwnames,
                                            int callees);

/*
 A re-entrant call: calls a callable from within a callback of a hook as
 PyObject_Vectorcall() does, and dispatches hooks for it as if the callback
 did not run, this hook among them. For hooks that run code of others, as a
 compiler does. The frame cannot be read meanwhile. Without a callback it is
 a plain call.
 */
FRAMEHOOK_API
PyObject *PyUnstable_FrameHook_CallReentrant(PyObject *callable,
                                             PyObject *const *args,
                                             size_t nargsf,
                                             PyObject *kwnames);

/*
 Sets after how many more levels of C recursion the calling thread raises
 RecursionError, and returns how many were left. For hooks that run a deeply
 recursive compiler; they restore the value afterwards. As with
 sys.setrecursionlimit(), a number for which the stack is too small ends the
 process.
 */
FRAMEHOOK_API int PyUnstable_FrameHook_SetCRecursionRemaining(int levels);

/*
 As in the frame hook proposal for CPython: installs a hook that may only
 replace code. `interp` must be the calling thread's, otherwise
 RuntimeError.
 */
FRAMEHOOK_API
int PyUnstable_AddFrameHook(PyInterpreterState *interp,
                            PyCodeObject *(*hook)(struct _PyInterpreterFrame *frame));

/*
 As in the frame hook proposal for CPython: removes a hook that
 PyUnstable_AddFrameHook() has installed.
 */
FRAMEHOOK_API
int PyUnstable_RemoveFrameHook(PyInterpreterState *interp,
                               PyCodeObject *(*hook)(struct _PyInterpreterFrame *frame));

/*
 The code object that is to run, as the hooks before this one have left it.
 */
FRAMEHOOK_API
PyObject *PyUnstable_FrameHook_GetCode(struct _PyInterpreterFrame *frame);

/*
 The function that was called. CPython makes one for a module, a class body
 and exec() too.
 */
FRAMEHOOK_API
PyObject *PyUnstable_FrameHook_GetFunction(struct _PyInterpreterFrame *frame);

/*
 The global variables.
 */
FRAMEHOOK_API
PyObject *PyUnstable_FrameHook_GetGlobals(struct _PyInterpreterFrame *frame);

/*
 The builtins.
 */
FRAMEHOOK_API
PyObject *PyUnstable_FrameHook_GetBuiltins(struct _PyInterpreterFrame *frame);

/*
 The mapping that holds the locals of a module, a class body or exec();
 otherwise None.
 */
FRAMEHOOK_API
PyObject *PyUnstable_FrameHook_GetLocals(struct _PyInterpreterFrame *frame);

/*
 A new dict of the free variables by name, without those that are unset.
 */
FRAMEHOOK_API
PyObject *PyUnstable_FrameHook_GetFreeVariables(struct _PyInterpreterFrame *frame);

/*
 The code object of the calling frame, and its line: *line, if `line` is not
 NULL; -1 if unknown. None and -1 if no Python code has called. RuntimeError
 while the callback waits in another greenlet.
 */
FRAMEHOOK_API
PyObject *PyUnstable_FrameHook_GetCaller(struct _PyInterpreterFrame *frame,
                                         int *line);

/*
 The number of parameters, `*args` and `**kwargs` included; -1 with
 RuntimeError.
 */
FRAMEHOOK_API
Py_ssize_t PyUnstable_FrameHook_GetArgumentCount(struct _PyInterpreterFrame *frame);

/*
 The argument for parameter `index`: positional parameters first, then
 keyword-only ones, `*args`, `**kwargs`. IndexError: there is no such
 parameter. UnboundLocalError: its cell is empty.
 */
FRAMEHOOK_API
PyObject *PyUnstable_FrameHook_GetArgument(struct _PyInterpreterFrame *frame,
                                           Py_ssize_t index);

/*
 As GetArgument(), but a borrowed reference, valid until the callback
 returns or runs Python code. No reference count changes.
 */
FRAMEHOOK_API
PyObject *PyUnstable_FrameHook_BorrowArgument(struct _PyInterpreterFrame *frame,
                                              Py_ssize_t index);

/*
 The name of parameter `index`, a str. IndexError: there is no such
 parameter.
 */
FRAMEHOOK_API
PyObject *PyUnstable_FrameHook_GetArgumentName(struct _PyInterpreterFrame *frame,
                                               Py_ssize_t index);

/*
 The argument for the parameter called `name`, a str. Compares names.
 KeyError: there is no such parameter. UnboundLocalError: its cell is empty.
 */
FRAMEHOOK_API
PyObject *PyUnstable_FrameHook_GetArgumentByName(struct _PyInterpreterFrame *frame,
                                                 PyObject *name);

/*
 The address of a word that equals the `eval_breaker` of a thread only if
 nothing observes calls of `code` in that thread now: nothing is pending
 (signals, the GIL, the collector), no function for tracing or profiling, no
 event of sys.monitoring, no evaluator of PEP 523, and no hook that is not
 disabled for the code. NULL with an exception set: no code object, or no
 memory.

 The address is valid as long as the code object and the interpreter. Code
 that is called instead of the function compares both words on each call, as
 FrameHook_MayBeObserved() does, and at its back edges. If they
 differ, it calls PyUnstable_Code_IsObserved(), or leaves the call to the
 interpreter.

 A function that gets another `__code__` keeps its vectorcall:
 PyFunction_AddWatcher() reports it.
 */
FRAMEHOOK_API const size_t *PyUnstable_Code_Observers(PyObject *code);

/*
 Whether anybody observes calls of `code` in the calling thread: 0 or 1, or
 -1 with TypeError. Sets the word of PyUnstable_Code_Observers() if nothing
 does. 1 also if a hook that is called in this thread was not yet called for
 the code, or has not disabled itself for it; then let the interpreter call it.
 */
FRAMEHOOK_API int PyUnstable_Code_IsObserved(PyObject *code);

/*
 Takes back what PyFunction_SetVectorcall() has done: the interpreter
 executes the function's code again, and calls of it are specialized again.
 TypeError: `function` is no Python function.
 */
FRAMEHOOK_API int PyUnstable_Function_RestoreVectorcall(PyObject *function);

/*
 Calls the hook's `on_loop` at the head of each loop of `code` that has
 taken `turns` turns (1 to 65,535), and again after as many, or as the
 callback says. Returns the number of loops; -1 with an exception set.

 Turns are counted per loop, over all calls and threads. Loops are those
 that end with a JUMP_BACKWARD, comprehensions among them; the one of
 `yield from` and `await` is none. The callback is not called in a frame
 that runs within a callback, while the code has events of sys.monitoring
 (trace and profile functions included), or where the hook is disabled.

 ValueError: the hook is not installed, or has no `on_loop`; a wrong number
 of turns. RuntimeError: another hook watches them. TypeError: no code
 object.
 */
FRAMEHOOK_API
int PyUnstable_FrameHook_WatchLoops(PyUnstable_FrameHookId id,
                                    PyObject *code,
                                    int turns);

/*
 Ends WatchLoops(). Removing the hook does so too. TypeError: no code
 object.
 */
FRAMEHOOK_API
int PyUnstable_FrameHook_UnwatchLoops(PyUnstable_FrameHookId id,
                                      PyObject *code);

/*
 Continues frames that were left elsewhere, as a compiler does where its code
 cannot continue. `records[0]` is the outermost frame, and each of the others
 was called by the one before it. Returns what the outermost frame returns, or
 NULL with the exception that leaves it.

 The innermost frame continues with `value` on its stack, if that is not
 NULL; if an exception is set, that is raised by the instruction instead. The
 frames run in the eval loop as if it had called them: the C stack does not
 grow with their number, each counts for the recursion limit, and tools see
 them from now on. A frame that continues behind its first RESUME is not
 dispatched to hooks, and no evaluator of PEP 523 is called for it; what it
 calls is treated as usual.

 The exception that is being handled (PyErr_GetHandledException()) must be as
 it was in the innermost frame. If the recursion limit does not allow so many
 frames, RecursionError is raised in the innermost one.

 `value`, the references in all slots and the exception are consumed, also
 where nothing runs: ValueError and TypeError for a record that makes no sense
 or belongs to a generator or coroutine, MemoryError, and RecursionError where
 the C stack is exhausted. The instructions, stack depths and cells are not
 checked further.
 */
FRAMEHOOK_API
PyObject *PyUnstable_Frame_Continue(const struct PyUnstable_FrameRecord *records,
                                    Py_ssize_t count,
                                    PyObject *value);

/*
 A new reference to the value of the variable with this index, of
 co_nlocalsplus ones; cells are looked through. NULL without an exception for
 a variable that is unbound, or belongs to a comprehension within the
 function. NULL with IndexError: there is no such variable.

 For evaluators of PEP 523 and for hooks: the frame may run or be about to
 begin, in which case free variables are those of its function's closure.
 */
FRAMEHOOK_API
PyObject *PyUnstable_InterpreterFrame_GetLocal(struct _PyInterpreterFrame *frame,
                                               Py_ssize_t index);

/*
 Writes what GetLocal() returns for each variable to `out`, which has room for
 co_nlocalsplus references. Returns how many there are, or -1 with SystemError
 if `out` is NULL.
 */
FRAMEHOOK_API
int PyUnstable_InterpreterFrame_GetLocals(struct _PyInterpreterFrame *frame,
                                          PyObject **out);

/*
 A new reference to a tuple with the names of the variables of `code`, in the
 order of their indices.
 */
FRAMEHOOK_API PyObject *PyUnstable_Code_GetLocalPlusNames(PyCodeObject *code);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

/* The version of frame hooks: 0 if the interpreter has none, which only an
   extension sees that defines FRAMEHOOK_OPTIONAL. */
static inline int
FrameHook_Available(void)
{
#ifdef FRAMEHOOK_OPTIONAL
    if (PyUnstable_FrameHook_Version == 0) {
        return 0;
    }
#endif
    return PyUnstable_FrameHook_Version();
}

/* Whether anybody may observe a call of a code object that starts now in the
   thread. `observers` is what PyUnstable_Code_Observers() has returned for the
   code. Two loads: compiled code has them in line. */
static inline int
FrameHook_MayBeObserved(const PyThreadState *tstate, const size_t *observers)
{
    return *(const volatile uintptr_t *)&tstate->eval_breaker
        != *(const volatile size_t *)observers;
}

#endif /* Py_PYTHON_H && !Py_LIMITED_API */
#endif /* !Py_CPYTHON_FRAMEHOOK_H */
