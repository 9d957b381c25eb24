/* codeextra: an extension that attaches numbers to code objects, and that sees how each is freed.
 *
 * A value is a number that is not 0; None is NULL. The free function writes down every value and the
 * interpreter that it ran in, and then calls a hook, a Python callable of one interpreter: so a test can do anything
 * while a value is being freed. A code object can be "remembered" without a reference, to be used while it dies.
 *
 * PyUnstable_Eval_ReleaseCodeExtraIndex is looked up when it is called: the module loads on stock CPython too.
 */

#define _GNU_SOURCE
#include "testmodule.h"
#include <dlfcn.h>
#include <stdatomic.h>
#include <stdint.h>

typedef int (*release_function)(Py_ssize_t);

static release_function
find_release(void)
{
    /* A function pointer through a union: ISO C has no cast from void *. */
    union { void *object; release_function function; } found;
    found.object = dlsym(RTLD_DEFAULT, "PyUnstable_Eval_ReleaseCodeExtraIndex");
    return found.function;
}

/* What was freed, for all interpreters of the process. */
#define MOST_FREED 300000
static struct { uintptr_t value; int64_t interpreter; } freed_log[MOST_FREED];
static atomic_size_t freed_count;

static PyObject *hook;               /* owned by the interpreter below */
static int64_t hook_interpreter = -1;
static PyObject *remembered;         /* borrowed, and maybe dying */

static int64_t
current_interpreter(void)
{
    return PyInterpreterState_GetID(PyInterpreterState_Get());
}

static void
free_value(void *value)
{
    size_t position = atomic_fetch_add(&freed_count, 1);
    if (position < MOST_FREED) {
        freed_log[position].value = (uintptr_t)value;
        freed_log[position].interpreter = current_interpreter();
    }
    if (hook == NULL || hook_interpreter != current_interpreter()) {
        return;
    }
    PyObject *pending = PyErr_GetRaisedException();
    PyObject *callable = Py_NewRef(hook);
    PyObject *result = PyObject_CallFunction(callable, "K", (unsigned long long)(uintptr_t)value);
    if (result == NULL) {
        PyErr_WriteUnraisable(callable);
    }
    Py_XDECREF(result);
    Py_DECREF(callable);
    PyErr_SetRaisedException(pending);
}

/* A free function that does not keep to the rules: it leaves an exception set. */
static void
free_and_raise(void *value)
{
    if (value != NULL) {
        PyErr_SetString(PyExc_KeyError, "from a free function");
    }
}

static PyObject *
as_object(void *value)
{
    if (value == NULL) {
        Py_RETURN_NONE;
    }
    return PyLong_FromUnsignedLongLong((uintptr_t)value);
}

/* A converter for PyArg_ParseTuple: a number, or None for NULL. */
static int
as_value(PyObject *object, void *value)
{
    if (object == Py_None) {
        *(void **)value = NULL;
        return 1;
    }
    *(void **)value = PyLong_AsVoidPtr(object);
    return !PyErr_Occurred();
}

/* -1 must come with an exception; where it does not, that is what is raised. */
static PyObject *
failure(void)
{
    if (!PyErr_Occurred()) {
        PyErr_SetString(PyExc_AssertionError, "-1 without an exception");
    }
    return NULL;
}

static PyObject *
has_release(PyObject *module, PyObject *ignored)
{
    (void)module, (void)ignored;
    return PyBool_FromLong(find_release() != NULL);
}

/* request(kind) -> index; kind is "log", "raise" or "none" */
static PyObject *
request(PyObject *module, PyObject *args)
{
    (void)module;
    const char *kind = "log";
    if (!PyArg_ParseTuple(args, "|s:request", &kind)) {
        return NULL;
    }
    freefunc function = kind[0] == 'l' ? free_value : kind[0] == 'r' ? free_and_raise : NULL;
    Py_ssize_t index = PyUnstable_Eval_RequestCodeExtraIndex(function);
    return index < 0 ? failure() : PyLong_FromSsize_t(index);
}

/* request_many(count) -> list of the indices that there were before one was refused */
static PyObject *
request_many(PyObject *module, PyObject *args)
{
    (void)module;
    Py_ssize_t count;
    if (!PyArg_ParseTuple(args, "n:request_many", &count)) {
        return NULL;
    }
    PyObject *list = PyList_New(0);
    while (list != NULL && count-- > 0) {
        Py_ssize_t index = PyUnstable_Eval_RequestCodeExtraIndex(free_value);
        if (index < 0) {
            break;
        }
        PyObject *number = PyLong_FromSsize_t(index);
        if (number == NULL || PyList_Append(list, number) < 0) {
            Py_CLEAR(list);
        }
        Py_XDECREF(number);
    }
    PyErr_Clear();
    return list;
}

static PyObject *
release(PyObject *module, PyObject *args)
{
    (void)module;
    Py_ssize_t index;
    if (!PyArg_ParseTuple(args, "n:release", &index)) {
        return NULL;
    }
    release_function function = find_release();
    if (function == NULL) {
        PyErr_SetString(PyExc_NotImplementedError, "this interpreter cannot release an index");
        return NULL;
    }
    if (function(index) < 0) {
        return failure();
    }
    if (PyErr_Occurred()) {
        return NULL;
    }
    Py_RETURN_NONE;
}

static PyObject *
get_of(PyObject *code, Py_ssize_t index)
{
    void *value = (void *)(uintptr_t)0xdead;
    int status = PyUnstable_Code_GetExtra(code, index, &value);
    return status < 0 ? failure() : as_object(value);
}

static PyObject *
set_of(PyObject *code, Py_ssize_t index, void *value)
{
    if (PyUnstable_Code_SetExtra(code, index, value) < 0) {
        return failure();
    }
    if (PyErr_Occurred()) {
        return NULL;
    }
    Py_RETURN_NONE;
}

static PyObject *
get(PyObject *module, PyObject *args)
{
    (void)module;
    PyObject *code;
    Py_ssize_t index;
    return PyArg_ParseTuple(args, "On:get", &code, &index) ? get_of(code, index) : NULL;
}

static PyObject *
set(PyObject *module, PyObject *args)
{
    (void)module;
    PyObject *code;
    Py_ssize_t index;
    void *value;
    if (!PyArg_ParseTuple(args, "OnO&:set", &code, &index, as_value, &value)) {
        return NULL;
    }
    return set_of(code, index, value);
}

static PyObject *
old_names(PyObject *module, PyObject *code)
{
    (void)module;
    void *value = NULL;
    _Py_COMP_DIAG_PUSH
    _Py_COMP_DIAG_IGNORE_DEPR_DECLS
    Py_ssize_t index = _PyEval_RequestCodeExtraIndex(NULL);
    if (index < 0 || _PyCode_SetExtra(code, index, (void *)(uintptr_t)4242) < 0
        || _PyCode_GetExtra(code, index, &value) < 0) {
        return failure();
    }
    _Py_COMP_DIAG_POP
    return as_object(value);
}

static PyObject *
remember(PyObject *module, PyObject *code)
{
    (void)module;
    remembered = code == Py_None ? NULL : code;
    Py_RETURN_NONE;
}

static PyObject *
get_remembered(PyObject *module, PyObject *args)
{
    (void)module;
    Py_ssize_t index;
    return PyArg_ParseTuple(args, "n:get_remembered", &index) ? get_of(remembered, index) : NULL;
}

static PyObject *
set_remembered(PyObject *module, PyObject *args)
{
    (void)module;
    Py_ssize_t index;
    void *value;
    if (!PyArg_ParseTuple(args, "nO&:set_remembered", &index, as_value, &value)) {
        return NULL;
    }
    return set_of(remembered, index, value);
}

/* Keeps a code object alive whatever its interpreter does; drop_remembered gives that reference back. */
static PyObject *
keep_remembered(PyObject *module, PyObject *ignored)
{
    (void)module, (void)ignored;
    Py_INCREF(remembered);
    Py_RETURN_NONE;
}

static PyObject *
drop_remembered(PyObject *module, PyObject *ignored)
{
    (void)module, (void)ignored;
    Py_DECREF(remembered);
    remembered = NULL;
    Py_RETURN_NONE;
}

static PyObject *
set_hook(PyObject *module, PyObject *callable)
{
    (void)module;
    Py_XDECREF(hook);
    hook = callable == Py_None ? NULL : Py_NewRef(callable);
    hook_interpreter = current_interpreter();
    Py_RETURN_NONE;
}

/* freed() -> list of (value, interpreter), in order; the log is empty afterwards */
static PyObject *
freed(PyObject *module, PyObject *ignored)
{
    (void)module, (void)ignored;
    size_t count = atomic_exchange(&freed_count, 0);
    if (count > MOST_FREED) {
        PyErr_SetString(PyExc_OverflowError, "more was freed than can be written down");
        return NULL;
    }
    PyObject *list = PyList_New(0);
    for (size_t i = 0; list != NULL && i < count; i++) {
        PyObject *entry = Py_BuildValue("NL", as_object((void *)freed_log[i].value),
                                        (long long)freed_log[i].interpreter);
        if (entry == NULL || PyList_Append(list, entry) < 0) {
            Py_CLEAR(list);
        }
        Py_XDECREF(entry);
    }
    return list;
}

static PyObject *
has_table(PyObject *module, PyObject *code)
{
    (void)module;
    return PyBool_FromLong(((PyCodeObject *)code)->co_extra != NULL);
}

/* set_with_pending(code, index, value) -> whether an exception that was set before is the one that is set after */
static PyObject *
set_with_pending(PyObject *module, PyObject *args)
{
    (void)module;
    PyObject *code;
    Py_ssize_t index;
    void *value;
    if (!PyArg_ParseTuple(args, "OnO&:set_with_pending", &code, &index, as_value, &value)) {
        return NULL;
    }
    PyErr_SetString(PyExc_LookupError, "pending");
    int status = PyUnstable_Code_SetExtra(code, index, value);
    int kept = status == 0 && PyErr_ExceptionMatches(PyExc_LookupError);
    PyErr_Clear();
    return PyBool_FromLong(kept);
}

/* get_loop(code, index, count) -> the last value */
static PyObject *
get_loop(PyObject *module, PyObject *args)
{
    (void)module;
    PyObject *code;
    Py_ssize_t index, count;
    if (!PyArg_ParseTuple(args, "Onn:get_loop", &code, &index, &count)) {
        return NULL;
    }
    void *value = NULL;
    // Not `count` itself: its address is known, so each round would wait for memory, longer than for the call.
    for (Py_ssize_t left = count; left > 0; left--) {
        if (PyUnstable_Code_GetExtra(code, index, &value) < 0) {
            return failure();
        }
    }
    return as_object(value);
}

/* set_loop(code, index, count): values from 1 on */
static PyObject *
set_loop(PyObject *module, PyObject *args)
{
    (void)module;
    PyObject *code;
    Py_ssize_t index, count;
    if (!PyArg_ParseTuple(args, "Onn:set_loop", &code, &index, &count)) {
        return NULL;
    }
    for (Py_ssize_t i = 1; i <= count; i++) {
        if (PyUnstable_Code_SetExtra(code, index, (void *)i) < 0) {
            return failure();
        }
    }
    Py_RETURN_NONE;
}

static PyMethodDef methods[] = {
    {"has_release", has_release, METH_NOARGS, NULL},
    {"request", request, METH_VARARGS, NULL},
    {"request_many", request_many, METH_VARARGS, NULL},
    {"release", release, METH_VARARGS, NULL},
    {"get", get, METH_VARARGS, NULL},
    {"set", set, METH_VARARGS, NULL},
    {"old_names", old_names, METH_O, NULL},
    {"remember", remember, METH_O, NULL},
    {"get_remembered", get_remembered, METH_VARARGS, NULL},
    {"set_remembered", set_remembered, METH_VARARGS, NULL},
    {"keep_remembered", keep_remembered, METH_NOARGS, NULL},
    {"drop_remembered", drop_remembered, METH_NOARGS, NULL},
    {"set_hook", set_hook, METH_O, NULL},
    {"freed", freed, METH_NOARGS, NULL},
    {"has_table", has_table, METH_O, NULL},
    {"set_with_pending", set_with_pending, METH_VARARGS, NULL},
    {"get_loop", get_loop, METH_VARARGS, NULL},
    {"set_loop", set_loop, METH_VARARGS, NULL},
    {NULL, NULL, 0, NULL},
};

MODULE(codeextra, "Numbers attached to code objects.", {Py_mod_multiple_interpreters, Py_MOD_PER_INTERPRETER_GIL_SUPPORTED})
