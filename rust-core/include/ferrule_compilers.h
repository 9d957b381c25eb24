/* What the eval loop does for compilers from outside: ferrule_eval_loop.h
   includes this file, and says how its macros are used. The functions are in
   rust-core/src/frame_hook/loops.rs. */
#ifndef FERRULE_COMPILERS_H
#define FERRULE_COMPILERS_H

/* A function whose vectorcall was set is called by CALL_NON_PY_GENERAL, as is
   a method of one. */
#define CALL_OF_SET_VECTORCALL(CALLABLE) \
    if (PyFunction_Check(CALLABLE) || Py_TYPE(CALLABLE) == &PyMethod_Type) { \
        goto call_set_vectorcall; \
    }

/* CALL_ALLOC_AND_ENTER_INIT calls such an __init__ in place. */
#define INIT_WITH_SET_VECTORCALL(INIT) \
    if (__builtin_expect( \
            (INIT)->vectorcall != _PyFunction_Vectorcall, 0)) \
    { \
        goto init_with_set_vectorcall; \
    }

/* JUMP_BACKWARD in code whose loops are watched. Its cache entry is the number
   of turns before the next call into Rust. They are counted first: if oparg is
   used first, clang 22 keeps it in a register that takes one more instruction
   to decode, in every instruction. */
#if USE_COMPUTED_GOTOS
#  define ON_COUNTED_JUMP if (0) { TARGET(COUNTED_JUMP)
#else
#  define ON_COUNTED_JUMP if (next_instr->op.code == _PyRust_COUNTED_JUMP) {
#endif
#define COUNTED_JUMP() \
    ON_COUNTED_JUMP \
        if (__builtin_expect(next_instr[1].cache-- == 0, 0)) { \
            goto loop_is_hot; \
        } \
        frame->instr_ptr = next_instr; \
        next_instr += 2; \
        CHECK_EVAL_BREAKER(); \
        next_instr -= oparg; \
        DISPATCH(); \
    }

/* The rest of all three, out of the way of the instructions. A loop whose
   signal handler raises is still hot. */
#define COMPILER_LABELS() \
loop_is_hot: \
    next_instr[1].cache = 0; \
    frame->instr_ptr = next_instr; \
    next_instr += 2; \
    CHECK_EVAL_BREAKER(); \
    _PyFrame_SetStackPointer(frame, stack_pointer); \
    oparg = (int)_PyRust_LoopIsHot(tstate, frame, oparg); \
    if (frame == tstate->current_frame && _PyErr_Occurred(tstate)) { \
        next_instr = frame->instr_ptr + 1; \
        stack_pointer = _PyFrame_GetStackPointer(frame); \
        goto error; \
    } \
    goto continue_in_current_frame; \
call_set_vectorcall: \
    { \
        PyObject **base = stack_pointer - oparg - 2; \
        PyObject **args = base + 2 - (base[1] != NULL); \
        PyObject *callable = base[0], *called = callable; \
        if (base[1] == NULL && Py_TYPE(callable) == &PyMethod_Type) { \
            called = ((PyMethodObject *)callable)->im_func; \
        } \
        if (!PyFunction_Check(called) \
            || ((PyFunctionObject *)called)->vectorcall \
                == _PyFunction_Vectorcall) \
        { \
            GO_TO_INSTRUCTION(CALL); \
        } \
        STAT_INC(CALL, hit); \
        if (called != callable) { \
            base[1] = Py_NewRef(((PyMethodObject *)callable)->im_self); \
            base[0] = Py_NewRef(called); \
            args = base + 1; \
            Py_DECREF(callable); \
        } \
        PyObject *res = ((PyFunctionObject *)called)->vectorcall( \
            called, args, \
            (stack_pointer - args) | PY_VECTORCALL_ARGUMENTS_OFFSET, NULL); \
        assert((res != NULL) ^ (_PyErr_Occurred(tstate) != NULL)); \
        Py_DECREF(called); \
        for (; args < stack_pointer; args++) { \
            Py_DECREF(*args); \
        } \
        stack_pointer = base; \
        if (res == NULL) { \
            goto error; \
        } \
        PUSH(res); \
        CHECK_EVAL_BREAKER(); \
        DISPATCH(); \
    } \
init_with_set_vectorcall: \
    stack_pointer = _PyRust_CallInit(stack_pointer, oparg); \
    if (_PyErr_Occurred(tstate)) { \
        goto error; \
    } \
    CHECK_EVAL_BREAKER(); \
    DISPATCH();

#endif
