/* singlestep: looks at the calling thread's frames between any two instructions of the processor, as a signal's handler may.
 *
 * The processor's trap flag makes SIGTRAP of every instruction. The handler walks the frames that the thread state leads to,
 * as faulthandler does, and notes the first one that is not whole. Linux on x86-64 alone.
 */

#define _GNU_SOURCE             /* REG_RIP */
#define Py_BUILD_CORE
#include "testmodule.h"
#include "internal/pycore_frame.h"
#include <signal.h>

#if defined(__x86_64__) && defined(__linux__)
#define AVAILABLE 1
#include <link.h>
#include <ucontext.h>

#define TRAP_FLAG 0x100
#define MOST_FRAMES 100000

static PyThreadState *stepped;          /* the thread that is looked at; one at a time */
static _PyInterpreterFrame *caller;     /* what has called run(): always among the frames */
static long long steps;
static const char *fault;
static int fault_depth;
static uintptr_t fault_address;

static int
is_alive(PyObject *object)
{
    return object != NULL && Py_REFCNT(object) > 0;
}

static int
is_in_chunk(_PyInterpreterFrame *frame)
{
    for (_PyStackChunk *chunk = stepped->datastack_chunk; chunk != NULL; chunk = chunk->previous) {
        if ((char *)frame >= (char *)chunk->data && (char *)frame < (char *)chunk + chunk->size) {
            return 1;
        }
    }
    return 0;
}

/* What is wrong with a frame; NULL: nothing. Memory that was given back is looked at first. */
static const char *
look_at(_PyInterpreterFrame *frame)
{
    int owner = frame->owner;
    if (owner == FRAME_OWNED_BY_CSTACK) {
        return NULL;            /* the bottom of an eval loop, or a shim: no code */
    }
    if (owner != FRAME_OWNED_BY_THREAD && owner != FRAME_OWNED_BY_GENERATOR && owner != FRAME_OWNED_BY_FRAME_OBJECT) {
        return "has no owner";
    }
    if (owner == FRAME_OWNED_BY_THREAD && !is_in_chunk(frame)) {
        return "is on no data stack";
    }
    PyObject *code = frame->f_executable;
    if (!is_alive(code) || !PyCode_Check(code)) {
        return "has no code";
    }
    if (!is_alive(frame->f_funcobj)) {
        return "has no function";
    }
    /* One before the first instruction: it is hidden. */
    Py_ssize_t offset = frame->instr_ptr - _PyCode_CODE((PyCodeObject *)code);
    return offset < -1 || offset >= Py_SIZE(code) ? "is at an instruction of other code" : NULL;
}

static void
at_instruction(int Py_UNUSED(number), siginfo_t *Py_UNUSED(info), void *context)
{
    greg_t *registers = ((ucontext_t *)context)->uc_mcontext.gregs;
    int depth = 0, found = 0;
    const char *wrong = NULL;
    steps++;
    for (_PyInterpreterFrame *frame = stepped->current_frame; frame != NULL; frame = frame->previous, depth++) {
        wrong = depth == MOST_FRAMES ? "is one of too many" : look_at(frame);
        if (wrong != NULL) {
            break;
        }
        found |= frame == caller;
    }
    if (wrong == NULL && !found) {
        wrong = "leads past the caller's";
    }
    if (wrong != NULL) {
        fault = wrong;
        fault_depth = depth;
        fault_address = (uintptr_t)registers[REG_RIP];
        registers[REG_EFL] &= ~(greg_t)TRAP_FLAG;
    }
}

/* Where the program was loaded: the first one that is reported. */
static int
base_of_program(struct dl_phdr_info *info, size_t Py_UNUSED(size), void *base)
{
    *(uintptr_t *)base = info->dlpi_addr;
    return 1;
}

static PyObject *
run(PyObject *Py_UNUSED(module), PyObject *callable)
{
    struct sigaction action = {.sa_sigaction = at_instruction, .sa_flags = SA_SIGINFO}, before;
    if (stepped != NULL) {
        PyErr_SetString(PyExc_RuntimeError, "one step at a time");
        return NULL;
    }
    sigemptyset(&action.sa_mask);
    if (sigaction(SIGTRAP, &action, &before) != 0) {
        return PyErr_SetFromErrno(PyExc_OSError);
    }
    stepped = PyThreadState_Get();
    caller = stepped->current_frame;
    steps = 0;
    fault = NULL;
    __builtin_ia32_writeeflags_u64(__builtin_ia32_readeflags_u64() | TRAP_FLAG);
    PyObject *result = PyObject_CallNoArgs(callable);
    __builtin_ia32_writeeflags_u64(__builtin_ia32_readeflags_u64() & ~(unsigned long long)TRAP_FLAG);
    stepped = NULL;
    sigaction(SIGTRAP, &before, NULL);
    if (fault != NULL) {
        Py_XDECREF(result);
        uintptr_t base = 0;
        dl_iterate_phdr(base_of_program, &base);
        char text[200];
        PyOS_snprintf(text, sizeof(text), "before instruction %lld, at %#llx of the program: frame %d, counted from the current one, %s",
                      steps, (unsigned long long)(fault_address - base), fault_depth, fault);
        PyErr_SetString(PyExc_AssertionError, text);
        return NULL;
    }
    if (result == NULL) {
        return NULL;
    }
    return Py_BuildValue("NL", result, steps);
}
#else
#define AVAILABLE 0

static PyObject *
run(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(callable))
{
    PyErr_SetString(PyExc_NotImplementedError, "needs Linux on x86-64");
    return NULL;
}
#endif

static PyMethodDef methods[] = {
    {"run", run, METH_O, "run(callable) -> (what it returned, how many instructions that took)\n\nAssertionError where a frame was not whole."},
    {NULL, NULL, 0, NULL},
};

static int
fill(PyObject *module)
{
    return PyModule_AddIntConstant(module, "available", AVAILABLE);
}

MODULE(singlestep, "Looks at frames between any two instructions.", {Py_mod_exec, fill})
