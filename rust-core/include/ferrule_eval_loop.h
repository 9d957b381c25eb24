/* What the eval loop does about frame hooks: Python/ceval_macros.h includes this file where the frame core is Rust.
   Each macro stands for statements in _PyEval_EvalFrameDefault(), with its variables and labels. The functions are
   rust-core/src/frame_hook. */
#ifndef FERRULE_EVAL_LOOP_H
#define FERRULE_EVAL_LOOP_H

/* A frame that starts is not shown to others before it is offered, and one that goes on is watched again. */
#define _Py_Instrument(CODE, INTERP) _PyRust_Instrument(frame, CODE, INTERP)

/* What is pending may run while a frame is at its RESUME. Only then is it settled where that frame comes from, as
   monitoring sees it. The JIT's instructions have no RESUME. */
#ifndef _Py_JIT
#  define _Py_HandlePending(TSTATE) _PyRust_HandlePending(TSTATE, frame)
#endif

/* Offers a frame that starts to the hooks, which may put another in its place or end the call. Those that watch a
   generator learn that it goes on. ASK_AGAIN is what to do when the next frame of this code is to come here too. */
#define OFFER_TO_FRAME_HOOKS(ASK_AGAIN) \
    if (__builtin_expect(tstate->interp->frame_hooks.active, 0)) { \
        _PyFrame_SetStackPointer(frame, stack_pointer); \
        _PyRust_GoesOn next = _PyRust_OfferFrame(tstate, frame); \
        if (next.answer == _PyRust_Answer_Elsewhere) { \
            oparg = (int)next.ahead; \
            goto go_on_in_current_frame; \
        } \
        stack_pointer = _PyFrame_GetStackPointer(frame); \
        if (next.answer == _PyRust_Answer_AskAgain) { \
            ASK_AGAIN; \
        } \
    }

/* A frame that hooks watch has come back to the mark below it, which is the current frame now. */
#define TELL_FRAME_HOOKS() goto frame_came_back

/* Code that handles what is thrown into a `yield from` asserts that something was thrown in: as who is told of a frame
   may do, too. */
#ifdef NDEBUG
#  define THROWN_BY_FRAME_HOOKS() ((void)0)
#else
#  define THROWN_BY_FRAME_HOOKS() (throwflag = 1)
#endif

#include "ferrule_compilers.h"

/* What is done there: hooks are told; and then, or where a hook has put another frame in the place of the one that was
   offered, it goes on in the thread's current frame, `oparg` ahead of where that stands, or with the exception that is
   set: of the call at which it stands, or if `oparg` is not 0, of the instruction that ends there. In one place and with
   what every instruction has alone, so that the registers of the loop are not chosen for it. */
#define FRAME_HOOK_LABELS() \
    COMPILER_LABELS() \
frame_came_back: \
    oparg = (int)_PyRust_FrameCameBack(tstate); \
go_on_in_current_frame: \
    frame = tstate->current_frame; \
    if (_PyErr_Occurred(tstate)) { \
        THROWN_BY_FRAME_HOOKS(); \
        if (oparg == 0) { goto unwound; } \
        next_instr = frame->instr_ptr + oparg; \
        stack_pointer = _PyFrame_GetStackPointer(frame); \
        goto error; \
    } \
    static_assert(PY_EVAL_C_STACK_UNITS == _PyRust_EVAL_C_STACK_UNITS, "frame_continue says so"); \
    next_instr = frame->instr_ptr + oparg; \
    stack_pointer = _PyFrame_GetStackPointer(frame); \
    DISPATCH()

#endif
