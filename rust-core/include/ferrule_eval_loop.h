/* What the eval loop does about frame hooks: Python/ceval_macros.h includes
   this file where the frame core is Rust. Each macro holds statements of
   _PyEval_EvalFrameDefault() and uses its variables and labels, as CPython's
   own do. The functions are in rust-core/src/frame_hook. */
#ifndef FERRULE_EVAL_LOOP_H
#define FERRULE_EVAL_LOOP_H

/* Whether Rust has something to do at a RESUME of this thread (Here), of other
   threads (Elsewhere), or of none (Nowhere). */
#define FRAME_HOOKS_LISTENING() \
    (((_PyThreadStateImpl *)tstate)->frame_hooks.listening)

/* Executes RESUME as RESUME_CHECK where hooks of other threads keep it
   unspecialized. Does nothing where RESUME_CHECK would deoptimize, or where a
   LINE event is due; see IMITATE_RESUME_CHECK(). */
#define RESUME_IF_HOOKED_ELSEWHERE() \
    if (FRAME_HOOKS_LISTENING() == _PyRust_Listening_Elsewhere \
        && _Py_atomic_load_uintptr_relaxed(&tstate->eval_breaker) \
            == FT_ATOMIC_LOAD_UINTPTR_ACQUIRE( \
                _PyFrame_GetCode(frame)->_co_instrumentation_version) \
        && next_instr->op.code != INSTRUMENTED_LINE) \
    { \
        QSBR_QUIESCENT_STATE(tstate); \
        DISPATCH(); \
    }

/* Dispatches the hooks for the current frame, which may replace it or end its
   call. A generator that is resumed is dispatched to its watches only.
   IF_DISABLED is executed if all hooks are disabled for the frame's code. */
#define DISPATCH_FRAME_HOOKS(IF_DISABLED) \
    if (__builtin_expect( \
            FRAME_HOOKS_LISTENING() == _PyRust_Listening_Here, 0)) \
    { \
        _PyFrame_SetStackPointer(frame, stack_pointer); \
        _PyRust_DispatchResult result = \
            _PyRust_DispatchFrameHooks(tstate, frame); \
        if (result.next == _PyRust_NextStep_CurrentFrame) { \
            oparg = (int)result.ahead; \
            goto continue_in_current_frame; \
        } \
        stack_pointer = _PyFrame_GetStackPointer(frame); \
        if (result.next == _PyRust_NextStep_Specialize) { \
            IF_DISABLED; \
        } \
    }

/* Works around gh-155992: a LINE event after RESUME is reported as it is after
   RESUME_CHECK. Comes last in RESUME: handlers of what is pending must see the
   frame there. A hook has kept the instruction unspecialized, though a handler
   may have removed it. There is no RESUME_CHECK without the GIL. */
#ifdef Py_GIL_DISABLED
#  define IMITATE_RESUME_CHECK() ((void)0)
#else
#  define IMITATE_RESUME_CHECK() \
    if (next_instr->op.code == INSTRUMENTED_LINE \
        && this_instr->op.code == RESUME) \
    { \
        _PyRust_ImitateResumeCheck(frame); \
    }
#endif

/* Code that handles what is thrown into a `yield from` asserts that something
   was thrown in. A callback may raise there too. */
#ifdef NDEBUG
#  define THROWN_BY_FRAME_HOOKS() ((void)0)
#else
#  define THROWN_BY_FRAME_HOOKS() (throwflag = 1)
#endif

#include "ferrule_compilers.h"

/* return_to_shim: a watched frame has returned, yielded or raised to its
   return shim, which is current now. Calls the watch's callback.
   continue_in_current_frame: the same, and a dispatch, may have made another
   frame current. Execution continues there, `oparg` code units ahead of its
   instr_ptr, or with the exception that is set: raised by the call at
   instr_ptr, or, if `oparg` is not 0, by the instruction that ends there.
   The code uses only what every instruction has, so that the compiler does not
   choose the loop's registers for it. */
#define FRAME_HOOK_LABELS() \
    COMPILER_LABELS() \
return_to_shim: \
    oparg = (int)_PyRust_ReturnToShim(tstate); \
continue_in_current_frame: \
    frame = tstate->current_frame; \
    if (_PyErr_Occurred(tstate)) { \
        THROWN_BY_FRAME_HOOKS(); \
        if (oparg == 0) { goto unwound; } \
        next_instr = frame->instr_ptr + oparg; \
        stack_pointer = _PyFrame_GetStackPointer(frame); \
        goto error; \
    } \
    static_assert(PY_EVAL_C_STACK_UNITS == _PyRust_EVAL_C_STACK_UNITS, \
                  "frame_continue has the number"); \
    next_instr = frame->instr_ptr + oparg; \
    stack_pointer = _PyFrame_GetStackPointer(frame); \
    DISPATCH()

#endif
