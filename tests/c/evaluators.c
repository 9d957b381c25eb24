/* evaluators: frame evaluation functions (PEP 523) that tests set and take away.
 *
 * A frame is opaque here, as it is for everybody outside of the interpreter: what is known of it is its code object.
 * All but `default` run the frame in the interpreter's own loop. What is newer than CPython 3.13 is looked up when
 * it is called, so that this module loads on stock too.
 */

#define _GNU_SOURCE             /* RTLD_DEFAULT */
#include "testmodule.h"
#include <dlfcn.h>
#include <stdatomic.h>
#include <string.h>

typedef struct _PyInterpreterFrame Frame;

#define MOST_INTERPRETERS 64
static atomic_llong counted[MOST_INTERPRETERS];     /* by interpreter: each thread of each may count at once */
static PyObject *recorded;                          /* a list of code objects while `record` is set */

static int
is_called(Frame *frame, const char *name)
{
    PyCodeObject *code = (PyCodeObject *)PyUnstable_InterpreterFrame_GetCode(frame);
    int equal = PyUnicode_CompareWithASCIIString(code->co_name, name) == 0;
    Py_DECREF(code);
    return equal;
}

static PyObject *
evaluate_pass(PyThreadState *tstate, Frame *frame, int throwflag)
{
    return _PyEval_EvalFrameDefault(tstate, frame, throwflag);
}

/* Counts the functions named `seen`. */
static PyObject *
evaluate_count(PyThreadState *tstate, Frame *frame, int throwflag)
{
    if (is_called(frame, "seen")) {
        int64_t id = PyInterpreterState_GetID(tstate->interp);
        atomic_fetch_add(&counted[id % MOST_INTERPRETERS], 1);
    }
    return _PyEval_EvalFrameDefault(tstate, frame, throwflag);
}

static PyObject *
evaluate_record(PyThreadState *tstate, Frame *frame, int throwflag)
{
    if (recorded != NULL && !throwflag) {
        PyObject *code = PyUnstable_InterpreterFrame_GetCode(frame);
        int status = PyList_Append(recorded, code);
        Py_DECREF(code);
        if (status < 0) {
            return _PyEval_EvalFrameDefault(tstate, frame, 1);
        }
    }
    return _PyEval_EvalFrameDefault(tstate, frame, throwflag);
}

/* Functions named `seen` raise before their first instruction. */
static PyObject *
evaluate_raise_before(PyThreadState *tstate, Frame *frame, int throwflag)
{
    if (!throwflag && is_called(frame, "seen")) {
        PyErr_SetString(PyExc_LookupError, "before");
        throwflag = 1;
    }
    return _PyEval_EvalFrameDefault(tstate, frame, throwflag);
}

/* Functions named `seen` run, and their result is thrown away. */
static PyObject *
evaluate_raise_after(PyThreadState *tstate, Frame *frame, int throwflag)
{
    int is_seen = is_called(frame, "seen");
    PyObject *result = _PyEval_EvalFrameDefault(tstate, frame, throwflag);
    if (is_seen && result != NULL) {
        Py_DECREF(result);
        PyErr_SetString(PyExc_LookupError, "after");
        return NULL;
    }
    return result;
}

/* Functions named `seen` run, and return 42 nevertheless. */
static PyObject *
evaluate_answer(PyThreadState *tstate, Frame *frame, int throwflag)
{
    int is_seen = is_called(frame, "seen");
    PyObject *result = _PyEval_EvalFrameDefault(tstate, frame, throwflag);
    if (is_seen && result != NULL) {
        Py_SETREF(result, PyLong_FromLong(42));
    }
    return result;
}

/* A function named `switch` finds another evaluator in charge: this one sets it before the function runs. */
static PyObject *
evaluate_switch(PyThreadState *tstate, Frame *frame, int throwflag)
{
    if (is_called(frame, "switch")) {
        _PyInterpreterState_SetEvalFrameFunc(tstate->interp, evaluate_count);
    }
    return _PyEval_EvalFrameDefault(tstate, frame, throwflag);
}

static const struct {
    const char *name;
    _PyFrameEvalFunction function;
} evaluators[] = {
    {"default", _PyEval_EvalFrameDefault},
    {"pass", evaluate_pass},
    {"count", evaluate_count},
    {"record", evaluate_record},
    {"raise_before", evaluate_raise_before},
    {"raise_after", evaluate_raise_after},
    {"answer", evaluate_answer},
    {"switch", evaluate_switch},
    {"null", NULL},
};

static PyObject *
set_evaluator(PyObject *module, PyObject *name)
{
    (void)module;
    const char *wanted = PyUnicode_AsUTF8(name);
    if (wanted == NULL) {
        return NULL;
    }
    for (size_t i = 0; i < Py_ARRAY_LENGTH(evaluators); i++) {
        if (strcmp(wanted, evaluators[i].name) == 0) {
            _PyInterpreterState_SetEvalFrameFunc(PyInterpreterState_Get(), evaluators[i].function);
            Py_RETURN_NONE;
        }
    }
    PyErr_Format(PyExc_ValueError, "no evaluator is called %R", name);
    return NULL;
}

static PyObject *
get_evaluator(PyObject *module, PyObject *unused)
{
    (void)module;
    (void)unused;
    _PyFrameEvalFunction function = _PyInterpreterState_GetEvalFrameFunc(PyInterpreterState_Get());
    for (size_t i = 0; i < Py_ARRAY_LENGTH(evaluators); i++) {
        if (function == evaluators[i].function) {
            return PyUnicode_FromString(evaluators[i].name);
        }
    }
    return PyUnicode_FromString("unknown");
}

static PyObject *
allow_specialization(PyObject *module, PyObject *allow)
{
    (void)module;
    int truth = PyObject_IsTrue(allow);
    if (truth < 0) {
        return NULL;
    }
    void (*set)(PyInterpreterState *, int);
    *(void **)&set = dlsym(RTLD_DEFAULT, "_PyInterpreterState_SetEvalFrameAllowSpecialization");
    if (set == NULL) {
        PyErr_SetString(PyExc_NotImplementedError, "this interpreter has no such function");
        return NULL;
    }
    set(PyInterpreterState_Get(), truth);
    Py_RETURN_NONE;
}

static PyObject *
specialization_enabled(PyObject *module, PyObject *unused)
{
    (void)module;
    (void)unused;
    int (*is_enabled)(PyInterpreterState *);
    *(void **)&is_enabled = dlsym(RTLD_DEFAULT, "_PyInterpreterState_IsSpecializationEnabled");
    if (is_enabled == NULL) {
        PyErr_SetString(PyExc_NotImplementedError, "this interpreter has no such function");
        return NULL;
    }
    return PyLong_FromLong(is_enabled(PyInterpreterState_Get()));
}

/* take_count() -> how often this interpreter's `count` saw a function named `seen`; starts again from 0. */
static PyObject *
take_count(PyObject *module, PyObject *unused)
{
    (void)module;
    (void)unused;
    int64_t id = PyInterpreterState_GetID(PyInterpreterState_Get());
    return PyLong_FromLongLong(atomic_exchange(&counted[id % MOST_INTERPRETERS], 0));
}

static PyObject *
record_into(PyObject *module, PyObject *list)
{
    (void)module;
    if (list != Py_None && !PyList_Check(list)) {
        PyErr_SetString(PyExc_TypeError, "a list, or None");
        return NULL;
    }
    Py_XSETREF(recorded, list == Py_None ? NULL : Py_NewRef(list));
    Py_RETURN_NONE;
}

static PyMethodDef methods[] = {
    {"set", set_evaluator, METH_O, "Set an evaluator of this module by name."},
    {"get", get_evaluator, METH_NOARGS, "The name of the evaluator that is set."},
    {"allow_specialization", allow_specialization, METH_O, "Allow specialization under evaluators, or not."},
    {"specialization_enabled", specialization_enabled, METH_NOARGS, "Whether calls of functions are specialized now."},
    {"take_count", take_count, METH_NOARGS, "Functions named `seen` that `count` saw since the last call."},
    {"record_into", record_into, METH_O, "The list where `record` puts code objects; None for no list."},
    {NULL, NULL, 0, NULL},
};

MODULE(evaluators, "Frame evaluation functions for tests.", {Py_mod_multiple_interpreters, Py_MOD_PER_INTERPRETER_GIL_SUPPORTED})
