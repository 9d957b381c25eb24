/* hotswap: the worked example of PEP 523, in small.
 *
 * An evaluator counts in each code object's extra slot how often it was executed. A function for which a faster
 * version was offered gets that version's code once it is hot; from its next call on it runs the faster code, in the
 * interpreter's own loop and at its full speed. A compiler would make the faster version; here Python code brings it.
 *
 * Only the documented C API is used, so the module works on any CPython 3.12 and later.
 */

#define PY_SSIZE_T_CLEAN
#include <Python.h>

/* What hangs in the extra slot of a code object, from its first execution or its offer on. The interpreter frees it
 * with the code object. */
typedef struct {
    long long executions;
    PyObject *function;     /* a weak reference: a strong one would keep function and code alive for ever */
    PyObject *faster;       /* the code object that is waiting; NULL for none, and once it has been swapped in */
} Hotness;

static Py_ssize_t slot = -1;
static long long hot_after;
static long long swaps;
/* An evaluator that was set before is called after this module's. */
static _PyFrameEvalFunction next_evaluator;

static void
forget(void *extra)
{
    Hotness *hotness = extra;
    if (hotness != NULL) {
        Py_XDECREF(hotness->function);
        Py_XDECREF(hotness->faster);
        PyMem_Free(hotness);
    }
}

/* The code object's Hotness, made if need be; NULL with an exception. */
static Hotness *
hotness_of(PyObject *code)
{
    void *extra = NULL;
    if (PyUnstable_Code_GetExtra(code, slot, &extra) < 0) {
        return NULL;
    }
    if (extra != NULL) {
        return extra;
    }
    Hotness *hotness = PyMem_Calloc(1, sizeof(Hotness));
    if (hotness == NULL) {
        PyErr_NoMemory();
        return NULL;
    }
    if (PyUnstable_Code_SetExtra(code, slot, hotness) < 0) {
        PyMem_Free(hotness);
        return NULL;
    }
    return hotness;
}

/* Gives the function its faster code. The frames that run keep the code they started with. */
static int
swap_in(Hotness *hotness)
{
    PyObject *function;
    if (PyWeakref_GetRef(hotness->function, &function) < 0) {
        return -1;
    }
    PyObject *faster = hotness->faster;
    hotness->faster = NULL;
    int status = 0;
    if (function != NULL) {
        status = PyObject_SetAttrString(function, "__code__", faster);
        swaps += status == 0;
        Py_DECREF(function);
    }
    Py_DECREF(faster);
    return status;
}

static PyObject *
evaluate(PyThreadState *tstate, struct _PyInterpreterFrame *frame, int throwflag)
{
    /* With throwflag an exception is on its way into a generator: no time to do anything that could fail. */
    if (!throwflag) {
        PyObject *code = PyUnstable_InterpreterFrame_GetCode(frame);
        Hotness *hotness = hotness_of(code);
        if (hotness == NULL) {
            /* Out of memory. The slot is a cache: without it the program only stays slow. */
            PyErr_Clear();
        }
        else if (++hotness->executions >= hot_after && hotness->faster != NULL && swap_in(hotness) < 0) {
            PyErr_Clear();
        }
        Py_DECREF(code);
    }
    return next_evaluator(tstate, frame, throwflag);
}

static PyObject *
start(PyObject *module, PyObject *args)
{
    (void)module;
    long long executions;
    if (!PyArg_ParseTuple(args, "L:start", &executions)) {
        return NULL;
    }
    PyInterpreterState *interp = PyInterpreterState_Get();
    _PyFrameEvalFunction now = _PyInterpreterState_GetEvalFrameFunc(interp);
    hot_after = executions;
    if (now != evaluate) {
        next_evaluator = now;
        _PyInterpreterState_SetEvalFrameFunc(interp, evaluate);
    }
    Py_RETURN_NONE;
}

static PyObject *
stop(PyObject *module, PyObject *unused)
{
    (void)module;
    (void)unused;
    PyInterpreterState *interp = PyInterpreterState_Get();
    if (_PyInterpreterState_GetEvalFrameFunc(interp) == evaluate) {
        _PyInterpreterState_SetEvalFrameFunc(interp, next_evaluator);
    }
    Py_RETURN_NONE;
}

static PyObject *
offer(PyObject *module, PyObject *args)
{
    (void)module;
    PyObject *function, *faster;
    if (!PyArg_ParseTuple(args, "O!O!:offer", &PyFunction_Type, &function, &PyFunction_Type, &faster)) {
        return NULL;
    }
    Hotness *hotness = hotness_of(PyFunction_GetCode(function));
    if (hotness == NULL) {
        return NULL;
    }
    PyObject *reference = PyWeakref_NewRef(function, NULL);
    if (reference == NULL) {
        return NULL;
    }
    Py_XSETREF(hotness->function, reference);
    Py_XSETREF(hotness->faster, Py_NewRef(PyFunction_GetCode(faster)));
    Py_RETURN_NONE;
}

static PyObject *
executions_of(PyObject *module, PyObject *code)
{
    (void)module;
    void *extra = NULL;
    /* Fails with an exception for what is no code object. */
    if (PyUnstable_Code_GetExtra(code, slot, &extra) < 0) {
        return NULL;
    }
    return PyLong_FromLongLong(extra == NULL ? 0 : ((Hotness *)extra)->executions);
}

static PyObject *
swap_count(PyObject *module, PyObject *unused)
{
    (void)module;
    (void)unused;
    return PyLong_FromLongLong(swaps);
}

static PyMethodDef methods[] = {
    {"start", start, METH_VARARGS, "start(n): count executions; a function is hot after n of them."},
    {"stop", stop, METH_NOARGS, "Let frames be evaluated as before."},
    {"offer", offer, METH_VARARGS, "offer(function, faster): swap in the other's code once the function is hot."},
    {"executions", executions_of, METH_O, "How often a code object was executed while counting."},
    {"swap_count", swap_count, METH_NOARGS, "How many functions were given their faster code."},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef definition = {
    .m_base = PyModuleDef_HEAD_INIT,
    .m_name = "hotswap",
    .m_doc = "Swaps in a faster version of a function once it is hot.",
    .m_size = -1,           /* the evaluator's state is the process's: for the main interpreter only */
    .m_methods = methods,
};

PyMODINIT_FUNC
PyInit_hotswap(void)
{
    PyObject *module = PyModule_Create(&definition);
    if (module == NULL) {
        return NULL;
    }
    slot = PyUnstable_Eval_RequestCodeExtraIndex(forget);
    if (slot < 0) {
        if (!PyErr_Occurred()) {
            PyErr_SetString(PyExc_RuntimeError, "the interpreter has no extra slot left");
        }
        Py_CLEAR(module);
    }
    return module;
}
