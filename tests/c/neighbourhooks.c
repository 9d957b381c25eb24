/* neighbourhooks: what hooks written in C do beside others.
 *
 * They look at the stack while a frame is dispatched, remove themselves in an entry callback, are installed and removed
 * by the million, run code of another interpreter, and wait in a thread while the interpreter ends.
 */

#include "hooktesting.h"
#include <pthread.h>
#include <unistd.h>

static void
release_object(void *object)
{
    Py_DECREF((PyObject *)object);
}

/* ---- A hook that looks at the stack, with no Python frame of its own --------------------------------------------- */

/* Consumes the reference; NULL is None. */
static int
append(PyObject *list, PyObject *item)
{
    if (item == NULL) {
        item = Py_NewRef(Py_None);
    }
    int status = PyList_Append(list, item);
    Py_DECREF(item);
    return status;
}

/* User data: (code, replacement or None, list). The list gets what C functions say of the current frame. */
static int
look(Frame *frame, void *data, PyUnstable_FrameHookAnswer *answer)
{
    if (code_of(frame) != PyTuple_GET_ITEM(data, 0)) {
        return PyUnstable_FRAMEHOOK_PASS;
    }
    PyObject *list = PyTuple_GET_ITEM(data, 2);
    PyFrameObject *current = PyThreadState_GetFrame(PyThreadState_Get());
    PyFrameObject *back = current == NULL ? NULL : PyFrame_GetBack(current);
    if (append(list, Py_XNewRef(PyEval_GetFrame())) < 0 || append(list, (PyObject *)current) < 0
        || append(list, (PyObject *)back) < 0 || append(list, Py_XNewRef(PyEval_GetGlobals())) < 0
        || append(list, PyEval_GetFrameLocals()) < 0
        || PyErr_WarnEx(PyExc_UserWarning, "from a hook in C", 1) < 0) {
        return PyUnstable_FRAMEHOOK_ERROR;
    }
    if (PyTuple_GET_ITEM(data, 1) == Py_None) {
        return PyUnstable_FRAMEHOOK_PASS;
    }
    answer->object = Py_NewRef(PyTuple_GET_ITEM(data, 1));
    return PyUnstable_FRAMEHOOK_REPLACE;
}

static PyObject *
add_looker(PyObject *Py_UNUSED(module), PyObject *args)
{
    PyObject *code, *replacement, *list;
    if (!PyArg_ParseTuple(args, "OOO!", &code, &replacement, &PyList_Type, &list)) {
        return NULL;
    }
    return install_with_object(look, args, release_object, "looker", 0);
}

/* ---- A hook that removes itself in its callback ------------------------------------------------------------------ */

static _Thread_local long long leaving;     /* the id of that hook: a test has one at a time */
static atomic_int pending_at_free;

/* User data: (code, whether to fail, what to call when it is freed). */
static int
leave(Frame *frame, void *data, PyUnstable_FrameHookAnswer *Py_UNUSED(answer))
{
    if (code_of(frame) != PyTuple_GET_ITEM(data, 0)) {
        return PyUnstable_FRAMEHOOK_PASS;
    }
    bool fails = PyTuple_GET_ITEM(data, 1) == Py_True;
    if (PyUnstable_FrameHook_Remove(leaving) < 0) {
        return PyUnstable_FRAMEHOOK_ERROR;
    }
    if (fails) {
        PyErr_SetString(PyExc_ValueError, "the hook's own error");
        return PyUnstable_FRAMEHOOK_ERROR;
    }
    return PyUnstable_FRAMEHOOK_PASS;
}

/* What the callable raises stays set: that is the point. */
static void
free_and_call(void *data)
{
    if (PyErr_Occurred()) {
        atomic_fetch_add(&pending_at_free, 1);
    }
    Py_XDECREF(PyObject_CallNoArgs(PyTuple_GET_ITEM(data, 2)));
    Py_DECREF((PyObject *)data);
}

static PyObject *
add_leaving(PyObject *Py_UNUSED(module), PyObject *args)
{
    PyObject *code, *fails, *at_end;
    if (!PyArg_ParseTuple(args, "OO!O", &code, &PyBool_Type, &fails, &at_end)) {
        return NULL;
    }
    PyObject *id = install_with_object(leave, args, free_and_call, "leaving", 0);
    if (id != NULL) {
        leaving = PyLong_AsLongLong(id);
    }
    return id;
}

static PyObject *
take_pending_at_free(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(ignored))
{
    return PyLong_FromLong(atomic_exchange(&pending_at_free, 0));
}

/* ---- Adding ------------------------------------------------------------------------------------------------------ */

static PyObject *
add_named(PyObject *Py_UNUSED(module), PyObject *name)
{
    char *bytes;
    if (PyBytes_AsStringAndSize(name, &bytes, NULL) < 0) {
        return NULL;
    }
    return install_with_object(pass, name, release_object, bytes, 0);
}

static PyObject *
add_null(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(ignored))
{
    if (PyUnstable_AddFrameHook(PyInterpreterState_Get(), NULL) < 0) {
        return NULL;
    }
    Py_RETURN_NONE;
}

static PyObject *
add_null_extended(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(ignored))
{
    return id_or_error(install(.name = "nothing"));
}

/* churn(count): install and remove a hook so many times; how often that worked. */
static PyObject *
churn(PyObject *Py_UNUSED(module), PyObject *number)
{
    long count = PyLong_AsLong(number), done = 0;
    while (done < count && !PyErr_Occurred()) {
        PyUnstable_FrameHookId id = install(.name = "churn", .on_entry = pass);
        if (id < 0 || PyUnstable_FrameHook_Remove(id) < 0) {
            break;
        }
        done++;
    }
    PyErr_Clear();
    return PyLong_FromLong(done);
}

/* ---- Code of another interpreter --------------------------------------------------------------------------------- */

typedef struct {
    PyObject *code;     /* borrowed */
    long calls;         /* of the entry callback, for that code */
} Counter;

static int
count_and_disable(Frame *frame, void *data, PyUnstable_FrameHookAnswer *Py_UNUSED(answer))
{
    Counter *counter = data;
    counter->calls += code_of(frame) == counter->code;
    return PyUnstable_FRAMEHOOK_DISABLE;
}

static bool
run_code(PyObject *code)
{
    PyObject *globals = PyDict_New();
    PyObject *result = NULL;
    if (globals != NULL && PyDict_SetItemString(globals, "__builtins__", PyEval_GetBuiltins()) == 0) {
        result = PyEval_EvalCode(code, globals, globals);
    }
    Py_XDECREF(globals);
    Py_XDECREF(result);
    return result != NULL;
}

/* Writes the text of the exception that is set, and clears it. */
static void
take_error(char *text, size_t size)
{
    PyObject *error = PyErr_GetRaisedException();
    PyObject *message = error == NULL ? NULL : PyObject_Repr(error);
    const char *bytes = message == NULL ? NULL : PyUnicode_AsUTF8(message);
    snprintf(text, size, "%s", bytes == NULL ? "no exception" : bytes);
    Py_XDECREF(message);
    Py_XDECREF(error);
    PyErr_Clear();
}

/* run_elsewhere(code, times): run it in a new interpreter that shares this one's GIL and has a hook that is disabled for
   each code object; how often that hook was called for the code. */
static PyObject *
run_elsewhere(PyObject *Py_UNUSED(module), PyObject *args)
{
    int times;
    Counter counter = {NULL, 0};
    if (!PyArg_ParseTuple(args, "O!i", &PyCode_Type, &counter.code, &times)) {
        return NULL;
    }
    char problem[300] = "";
    PyThreadState *own = PyThreadState_Get();
    PyThreadState *other = Py_NewInterpreter();
    if (other == NULL) {
        PyThreadState_Swap(own);
        return PyErr_Format(PyExc_RuntimeError, "no interpreter");
    }
    if (install(.name = "counter", .on_entry = count_and_disable, .user_data = &counter) < 0) {
        take_error(problem, sizeof(problem));
    }
    for (int i = 0; i < times && !problem[0]; i++) {
        if (!run_code(counter.code)) {
            take_error(problem, sizeof(problem));
        }
    }
    Py_EndInterpreter(other);
    PyThreadState_Swap(own);
    if (problem[0]) {
        return PyErr_Format(PyExc_AssertionError, "in the other interpreter: %s", problem);
    }
    return PyLong_FromLong(counter.calls);
}

/* ---- A thread that runs C when the interpreter ends -------------------------------------------------------------- */

static void
report(void *descriptor)
{
    /* Another thread reads a byte at the other end. */
    if (write((int)(intptr_t)descriptor, "!", 1) < 0) {
        _exit(3);
    }
}

/* call_below(callable, descriptor): a byte is written if the C frame is unwound while the callable runs. */
static PyObject *
call_below(PyObject *Py_UNUSED(module), PyObject *args)
{
    PyObject *callable, *result;
    int descriptor;
    if (!PyArg_ParseTuple(args, "Oi", &callable, &descriptor)) {
        return NULL;
    }
    pthread_cleanup_push(report, (void *)(intptr_t)descriptor);
    result = PyObject_CallNoArgs(callable);
    pthread_cleanup_pop(0);
    return result;
}

/* ---- The module -------------------------------------------------------------------------------------------------- */

static PyMethodDef methods[] = {
    {"add_looker", add_looker, METH_VARARGS, "Install a hook that records what C functions return for the frame."},
    {"add_leaving", add_leaving, METH_VARARGS, "Install a hook that removes itself when it is called for a code."},
    {"take_pending_at_free", take_pending_at_free, METH_NOARGS, "How often user data was freed with an exception set."},
    {"add_named", add_named, METH_O, "Install a hook whose name is these bytes: its id."},
    {"add_null", add_null, METH_NOARGS, "Install NULL as a hook of the proposal."},
    {"add_null_extended", add_null_extended, METH_NOARGS, "Install a definition without an entry callback."},
    {"churn", churn, METH_O, "Install and remove a hook so many times; how often it worked."},
    {"run_elsewhere", run_elsewhere, METH_VARARGS, "Run code in another interpreter, where a hook is disabled for it."},
    {"call_below", call_below, METH_VARARGS, "Call it below a C frame that reports when it is unwound."},
    {NULL, NULL, 0, NULL},
};

MODULE(neighbourhooks, "What hooks written in C do beside others.",
       {Py_mod_multiple_interpreters, Py_MOD_PER_INTERPRETER_GIL_SUPPORTED})
