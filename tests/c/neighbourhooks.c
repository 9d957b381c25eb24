/* neighbourhooks: what hooks written in C do beside others.
 *
 * They look around while a frame is offered, leave in the middle of an answer, come and go by the million, run code
 * of another interpreter, and wait in a thread while the interpreter ends. Every function of frame hooks is looked
 * up at run time, so that the module loads on a stock CPython too.
 */

#define _GNU_SOURCE             /* RTLD_DEFAULT */
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <cpython/framehook.h>
#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>
#include <unistd.h>

typedef struct _PyInterpreterFrame Frame;

#define FUNCTIONS(X) X(AddFrameHook) X(AddFrameHookEx) X(RemoveFrameHookEx) X(HookFrame_GetCode)

#define MEMBER(name) __typeof__(PyUnstable_##name) *name;
static struct { FUNCTIONS(MEMBER) } api;
#undef MEMBER

static bool
find(const char *name, void *where)
{
    void *found = dlsym(RTLD_DEFAULT, name);
    memcpy(where, &found, sizeof(found));
    return found != NULL;
}

static void
find_functions(void)
{
#define FIND(name) find("PyUnstable_" #name, &api.name);
    FUNCTIONS(FIND)
#undef FIND
}

static bool
is_offered(Frame *frame, PyObject *code)
{
    PyObject *offered = api.HookFrame_GetCode(frame);
    bool same = offered == code;
    Py_XDECREF(offered);
    return same;
}

static PyObject *
as_handle(PyUnstable_FrameHookId id)
{
    return id < 0 ? NULL : PyLong_FromLongLong(id);
}

/* Adds a hook whose user data is an object; `release` gives its reference back. */
static PyObject *
add_with_object(PyUnstable_FrameHookFunction hook, PyObject *data, void (*release)(void *), const char *name)
{
    PyUnstable_FrameHookId id = api.AddFrameHookEx(PyInterpreterState_Get(), hook, Py_NewRef(data), release, name, 0);
    if (id < 0) {
        Py_DECREF(data);
    }
    return as_handle(id);
}

static void
release_object(void *object)
{
    Py_DECREF((PyObject *)object);
}

/* ---- A hook that looks around, with no Python frame of its own ------------------------------------------------ */

/* Takes a reference, and NULL for None. */
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
look(Frame *frame, void *data, PyCodeObject **replacement)
{
    if (!is_offered(frame, PyTuple_GET_ITEM(data, 0))) {
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
    *replacement = (PyCodeObject *)Py_NewRef(PyTuple_GET_ITEM(data, 1));
    return PyUnstable_FRAMEHOOK_REPLACE;
}

static PyObject *
add_looker(PyObject *module, PyObject *args)
{
    (void)module;
    PyObject *code, *replacement, *list;
    if (!PyArg_ParseTuple(args, "OOO!", &code, &replacement, &PyList_Type, &list)) {
        return NULL;
    }
    return add_with_object(look, args, release_object, "looker");
}

/* ---- A hook that leaves while it is asked --------------------------------------------------------------------- */

static _Thread_local long long leaving;     /* the hook that is to leave: a test has one at a time */
static atomic_int pending_at_free;

/* User data: (code, whether to fail, what to call at the end). */
static int
leave(Frame *frame, void *data, PyCodeObject **replacement)
{
    (void)replacement;
    if (!is_offered(frame, PyTuple_GET_ITEM(data, 0))) {
        return PyUnstable_FRAMEHOOK_PASS;
    }
    bool fails = PyTuple_GET_ITEM(data, 1) == Py_True;
    if (api.RemoveFrameHookEx(PyInterpreterState_Get(), leaving) < 0) {
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
add_leaving(PyObject *module, PyObject *args)
{
    (void)module;
    PyObject *code, *fails, *at_end;
    if (!PyArg_ParseTuple(args, "OO!O", &code, &PyBool_Type, &fails, &at_end)) {
        return NULL;
    }
    PyObject *handle = add_with_object(leave, args, free_and_call, "leaving");
    if (handle != NULL) {
        leaving = PyLong_AsLongLong(handle);
    }
    return handle;
}

static PyObject *
take_pending_at_free(PyObject *module, PyObject *Py_UNUSED(ignored))
{
    (void)module;
    return PyLong_FromLong(atomic_exchange(&pending_at_free, 0));
}

/* ---- Adding ---------------------------------------------------------------------------------------------------- */

static int
pass(Frame *frame, void *data, PyCodeObject **replacement)
{
    (void)frame, (void)data, (void)replacement;
    return PyUnstable_FRAMEHOOK_PASS;
}

static PyObject *
add_named(PyObject *module, PyObject *name)
{
    (void)module;
    char *bytes;
    if (PyBytes_AsStringAndSize(name, &bytes, NULL) < 0) {
        return NULL;
    }
    return add_with_object(pass, name, release_object, bytes);
}

static PyObject *
add_null(PyObject *module, PyObject *Py_UNUSED(ignored))
{
    (void)module;
    if (api.AddFrameHook(PyInterpreterState_Get(), NULL) < 0) {
        return NULL;
    }
    Py_RETURN_NONE;
}

static PyObject *
add_null_extended(PyObject *module, PyObject *Py_UNUSED(ignored))
{
    (void)module;
    return as_handle(api.AddFrameHookEx(PyInterpreterState_Get(), NULL, NULL, NULL, "nothing", 0));
}

/* churn(count): add and remove a hook so many times; how often that worked. */
static PyObject *
churn(PyObject *module, PyObject *number)
{
    (void)module;
    long count = PyLong_AsLong(number), done = 0;
    PyInterpreterState *interp = PyInterpreterState_Get();
    while (done < count && !PyErr_Occurred()) {
        PyUnstable_FrameHookId id = api.AddFrameHookEx(interp, pass, NULL, NULL, "churn", 0);
        if (id < 0 || api.RemoveFrameHookEx(interp, id) < 0) {
            break;
        }
        done++;
    }
    PyErr_Clear();
    return PyLong_FromLong(done);
}

/* ---- Code of another interpreter ------------------------------------------------------------------------------ */

typedef struct {
    PyObject *code;     /* borrowed */
    long asked;
} Settler;

static int
count_and_settle(Frame *frame, void *data, PyCodeObject **replacement)
{
    (void)replacement;
    Settler *settler = data;
    settler->asked += is_offered(frame, settler->code);
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

/* run_elsewhere(code, times): run it in a new interpreter that shares this one's GIL and has a hook that settles
   everything; how often that hook was asked about the code. */
static PyObject *
run_elsewhere(PyObject *module, PyObject *args)
{
    (void)module;
    int times;
    Settler settler = {NULL, 0};
    if (!PyArg_ParseTuple(args, "O!i", &PyCode_Type, &settler.code, &times)) {
        return NULL;
    }
    char problem[300] = "";
    PyThreadState *own = PyThreadState_Get();
    PyThreadState *other = Py_NewInterpreter();
    if (other == NULL) {
        PyThreadState_Swap(own);
        return PyErr_Format(PyExc_RuntimeError, "no interpreter");
    }
    if (api.AddFrameHookEx(PyInterpreterState_Get(), count_and_settle, &settler, NULL, "settler", 0) < 0) {
        take_error(problem, sizeof(problem));
    }
    for (int i = 0; i < times && !problem[0]; i++) {
        if (!run_code(settler.code)) {
            take_error(problem, sizeof(problem));
        }
    }
    Py_EndInterpreter(other);
    PyThreadState_Swap(own);
    if (problem[0]) {
        return PyErr_Format(PyExc_AssertionError, "in the other interpreter: %s", problem);
    }
    return PyLong_FromLong(settler.asked);
}

/* ---- A thread that the interpreter's end meets in C ------------------------------------------------------------ */

static void
report(void *descriptor)
{
    /* Somebody waits for a byte at the other end. */
    if (write((int)(intptr_t)descriptor, "!", 1) < 0) {
        _exit(3);
    }
}

/* call_below(callable, descriptor): a byte is written if the C frame is unwound while the callable runs. */
static PyObject *
call_below(PyObject *module, PyObject *args)
{
    (void)module;
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

/* ---- The module ------------------------------------------------------------------------------------------------ */

static PyMethodDef methods[] = {
    {"add_looker", add_looker, METH_VARARGS, "Install a hook that writes down what C functions say of the frame."},
    {"add_leaving", add_leaving, METH_VARARGS, "Install a hook that removes itself when it is asked about a code."},
    {"take_pending_at_free", take_pending_at_free, METH_NOARGS, "How often user data was freed with an exception set."},
    {"add_named", add_named, METH_O, "Install a hook whose name is these bytes: its handle."},
    {"add_null", add_null, METH_NOARGS, "Install no function as a simple hook."},
    {"add_null_extended", add_null_extended, METH_NOARGS, "Install no function as an extended hook."},
    {"churn", churn, METH_O, "Add and remove a hook so many times; how often it worked."},
    {"run_elsewhere", run_elsewhere, METH_VARARGS, "Run a code object in an interpreter with a hook that settles."},
    {"call_below", call_below, METH_VARARGS, "Call it below a C frame that tells when it is unwound."},
    {NULL, NULL, 0, NULL},
};

static int
execute(PyObject *module)
{
    (void)module;
    find_functions();
    return 0;
}

static PyModuleDef_Slot slots[] = {
    {Py_mod_exec, execute},
    {Py_mod_multiple_interpreters, Py_MOD_PER_INTERPRETER_GIL_SUPPORTED},
    {Py_mod_gil, Py_MOD_GIL_NOT_USED},
    {0, NULL},
};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT,
    .m_name = "neighbourhooks",
    .m_doc = "What hooks written in C do beside others.",
    .m_methods = methods,
    .m_slots = slots,
};

PyMODINIT_FUNC
PyInit_neighbourhooks(void)
{
    return PyModuleDef_Init(&definition);
}
