/* A toy: toy.compile(f) has a function of int arithmetic and while loops run on C integers. docs/compilers.md explains it. */
#include <Python.h>
#include <cpython/framehook.h>
#include <opcode.h>

#define MOST 64                                         /* slots of a frame */
typedef struct { PyCodeObject *code; PyObject *bytes; const size_t *observers; } Toy;
typedef struct { long long value[MOST]; char bound[MOST]; int depth, at; } State;     /* locals and stack; the instruction */
static Py_ssize_t toys;                                 /* the index under which code has its Toy */
static vectorcallfunc interpreted;
static long long entries, exits;

#define BINARY(OP, A, B, RESULT) ((OP) == NB_ADD ? __builtin_add_overflow(A, B, RESULT) \
    : (OP) == NB_SUBTRACT ? __builtin_sub_overflow(A, B, RESULT) : __builtin_mul_overflow(A, B, RESULT))
#define COMPARE(OP, A, B) ((OP) == Py_LT ? (A) < (B) : (OP) == Py_LE ? (A) <= (B) : (OP) == Py_EQ ? (A) == (B) \
    : (OP) == Py_NE ? (A) != (B) : (OP) == Py_GT ? (A) > (B) : (A) >= (B))
/* Whether `run` knows all instructions and constants. */
static int is_known(const Toy *toy) {
    static const unsigned char known[] = {CACHE, RESUME, LOAD_FAST, LOAD_FAST_LOAD_FAST, LOAD_CONST, STORE_FAST, STORE_FAST_LOAD_FAST,
        BINARY_OP, COMPARE_OP, POP_JUMP_IF_FALSE, POP_JUMP_IF_TRUE, JUMP_BACKWARD, RETURN_VALUE};
    const unsigned char *at = (unsigned char *)PyBytes_AS_STRING(toy->bytes), *end = at + PyBytes_GET_SIZE(toy->bytes);
    for (int overflow = 0; at < end; at += 2) {
        PyObject *value = *at == LOAD_CONST ? PyTuple_GET_ITEM(toy->code->co_consts, at[1]) : NULL;
        int op = *at == BINARY_OP ? at[1] % NB_INPLACE_ADD : NB_ADD;
        if (!memchr(known, *at, sizeof(known)) || (op != NB_ADD && op != NB_SUBTRACT && op != NB_MULTIPLY) || (*at == COMPARE_OP && !(at[1] & 16))
            || (value && (!PyLong_CheckExact(value) || (PyLong_AsLongLongAndOverflow(value, &overflow), overflow)))) return 0;
    }
    return toy->code->co_nlocalsplus + toy->code->co_stacksize <= MOST && !(toy->code->co_flags & (CO_VARARGS | CO_VARKEYWORDS | CO_GENERATOR))
        && !toy->code->co_kwonlyargcount && !toy->code->co_ncellvars && !toy->code->co_nfreevars;
}
/* Runs from the instruction state->at. 1: value[0] is the result. 0: the interpreter has to continue at state->at. */
static int run(const Toy *toy, State *state) {
    const unsigned char *bytes = (unsigned char *)PyBytes_AS_STRING(toy->bytes);
    long long *local = state->value, *stack = local + toy->code->co_nlocalsplus, result;
    for (; ; state->at++) {
        int op = bytes[2 * state->at], arg = bytes[2 * state->at + 1], *depth = &state->depth;
        if (op == LOAD_FAST || op == LOAD_FAST_LOAD_FAST || op == LOAD_CONST) {
            stack[(*depth)++] = op == LOAD_CONST ? PyLong_AsLongLong(PyTuple_GET_ITEM(toy->code->co_consts, arg))
                : local[op == LOAD_FAST ? arg : arg >> 4];
            if (op == LOAD_FAST_LOAD_FAST) stack[(*depth)++] = local[arg & 15];
        } else if (op == STORE_FAST || op == STORE_FAST_LOAD_FAST) {
            int to = op == STORE_FAST ? arg : arg >> 4;
            local[to] = stack[--*depth], state->bound[to] = 1;
            if (op == STORE_FAST_LOAD_FAST) stack[(*depth)++] = local[arg & 15];
        } else if (op == BINARY_OP) {                   /* what does not fit is left to the interpreter */
            if (BINARY(arg % NB_INPLACE_ADD, stack[*depth - 2], stack[*depth - 1], &result)) return 0;
            stack[--*depth - 1] = result;
        } else if (op == COMPARE_OP) {
            --*depth, stack[*depth - 1] = COMPARE(arg >> 5, stack[*depth - 1], stack[*depth]);
        } else if (op == POP_JUMP_IF_FALSE || op == POP_JUMP_IF_TRUE) {
            if (stack[--*depth] == (op == POP_JUMP_IF_TRUE)) state->at += arg + 1;
        } else if (op == JUMP_BACKWARD) {               /* a signal, a tracer: the interpreter jumps, and looks */
            if (FrameHook_MayBeObserved(PyThreadState_Get(), toy->observers)) return 0;
            state->at += 1 - arg;
        } else if (op == RETURN_VALUE) return local[0] = stack[--*depth], 1;
    }
}
/* Enters with borrowed slots. 1: *slots is the result. 0: slots are new references, for an exit. -1: exception. 2: not entered. */
static int enter(PyObject *code, State *state, PyObject **slots) {
    Toy *toy = NULL;
    if (PyUnstable_Code_GetExtra(code, toys, (void **)&toy) < 0 || toy == NULL
        || (FrameHook_MayBeObserved(PyThreadState_Get(), toy->observers) && PyUnstable_Code_IsObserved(code))) return 2;
    int locals = toy->code->co_nlocalsplus, overflow = 0;
    for (int i = 0; i < locals; i++) {
        if ((state->bound[i] = slots[i] != NULL) && !PyLong_CheckExact(slots[i])) return 2;
        if (slots[i] && (state->value[i] = PyLong_AsLongLongAndOverflow(slots[i], &overflow), overflow)) return 2;
    }
    int returned = run(toy, state), count = returned ? 1 : locals + state->depth;
    entries++, exits += !returned, memset(returned ? state->bound : state->bound + locals, 1, returned ? 1 : state->depth);
    for (int i = 0; i < count; i++)
        if ((slots[i] = state->bound[i] ? PyLong_FromLongLong(state->value[i]) : NULL) == NULL && state->bound[i]) {
            while (i-- > 0) Py_XDECREF(slots[i]);
            return -1;
        }
    return returned;
}
static PyObject *compiled(PyObject *self, PyObject *const *args, size_t nargsf, PyObject *names) {
    PyCodeObject *code = (PyCodeObject *)PyFunction_GET_CODE(self);
    PyObject *slots[MOST] = {NULL};
    State state = {.at = 0};
    if (names != NULL || PyVectorcall_NARGS(nargsf) != code->co_argcount) return interpreted(self, args, nargsf, names);
    memcpy(slots, args, code->co_argcount * sizeof(*slots));
    int way = enter((PyObject *)code, &state, slots);
    PyUnstable_FrameRecord record = {self, NULL, NULL, state.at, state.depth, slots};
    return way == 2 ? interpreted(self, args, nargsf, names) : way == 1 ? slots[0] : way < 0 ? NULL : PyUnstable_Frame_Continue(&record, 1, NULL);
}
static int on_loop(PyUnstable_FrameLoop *hot, void *unused) {
    PyObject *slots[MOST];
    State state = {.at = hot->instruction};
    memcpy(slots, hot->slots, hot->local_count * sizeof(*slots));
    int way = hot->stack_depth ? 2 : enter((PyObject *)hot->code, &state, slots);
    if (way == 1) return hot->object = slots[0], PyUnstable_FRAMELOOP_RESULT;
    for (int i = 0; way == 0 && i < hot->local_count + state.depth; i++) {
        PyObject *old = i < hot->local_count ? hot->slots[i] : NULL;
        hot->slots[i] = slots[i];
        Py_XDECREF(old);
    }
    if (way == 0) hot->stack_depth = state.depth, hot->instruction = state.at;
    return way < 0 ? PyUnstable_FRAMELOOP_ERROR : PyUnstable_FRAMELOOP_CONTINUE;
}
