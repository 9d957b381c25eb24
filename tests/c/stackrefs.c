/* Calls every helper of pycore_stackref.h on an object, and prints what each did to its reference count.
 *
 * Compiled twice for one interpreter: with Py_RUST_CORE the helpers are Rust, without they are CPython's own inlines. The
 * two must print the same. It needs CPython's internal headers, so it is no part of build_extensions.py.
 */

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include "pycore_object.h"
#include "pycore_stackref.h"

#ifdef Py_RUST_CORE
#  define MODULE_NAME "stackrefs_rust"
#  define INIT PyInit_stackrefs_rust
#else
#  define MODULE_NAME "stackrefs_original"
#  define INIT PyInit_stackrefs_original
/* What 3.14's names mean in terms of 3.13's. */
#  define PyStackRef_IsNull(ref) ((ref).bits == Py_STACKREF_NULL.bits)
#  define PyStackRef_AsPyObjectBorrow PyStackRef_Get
#  define PyStackRef_AsPyObjectSteal PyStackRef_StealObject
#  define PyStackRef_FromPyObjectSteal PyStackRef_StealRef
#  define PyStackRef_FromPyObjectNew PyStackRef_NewRefDeferred
#  define PyStackRef_FromPyObjectImmortal PyStackRef_StealRef
#  define PyStackRef_DUP PyStackRef_NewRef
#  define PyStackRef_CLOSE PyStackRef_DECREF
#  define PyStackRef_XCLOSE PyStackRef_XDECREF
#endif

static Py_ssize_t
count_of(PyObject *object)
{
    return object == NULL ? 0 : Py_REFCNT(object);
}

/* The observations: (what was called, how the count changed since the last one, the word less the address). */
typedef struct {
    PyObject *list;
    PyObject *object;
    Py_ssize_t count;
    int failed;
} Log;

static void
note(Log *log, const char *what, uintptr_t result)
{
    Py_ssize_t now = count_of(log->object);
    PyObject *row = Py_BuildValue("snn", what, now - log->count, (Py_ssize_t)(result - (uintptr_t)log->object));
    if (row == NULL || PyList_Append(log->list, row) < 0) {
        log->failed = 1;
    }
    Py_XDECREF(row);
    log->count = count_of(log->object);
}

#define NOTE(what, word) note(&log, (what), (uintptr_t)(word))

static void
with_any(Log *the_log, PyObject *object)
{
    Log log = *the_log;
    _PyStackRef ref = PyStackRef_StealRef(Py_XNewRef(object));
    NOTE("StealRef", ref.bits);
    NOTE("Get", PyStackRef_Get(ref));
    NOTE("IsNull", (uintptr_t)object + (uintptr_t)PyStackRef_IsNull(ref));
    NOTE("AsPyObjectBorrow", PyStackRef_AsPyObjectBorrow(ref));
    _PyStackRef second = PyStackRef_XNewRef(ref);
    NOTE("XNewRef", second.bits);
    PyStackRef_XDECREF(second);
    NOTE("XDECREF", 0);
    Py_XDECREF(PyStackRef_StealObject(ref));
    NOTE("StealObject", 0);

    ref = PyStackRef_XNewRefDeferred(object);
    NOTE("XNewRefDeferred", ref.bits);
    NOTE("Get, maybe tagged", PyStackRef_Get(ref));
    second = PyStackRef_XNewRef(ref);
    NOTE("XNewRef, maybe tagged", second.bits);
    PyObject *taken = PyStackRef_StealObject(second);
    NOTE("StealObject, maybe tagged", taken);
    Py_XDECREF(taken);
    NOTE("Py_XDECREF of that", 0);
    PyStackRef_XCLOSE(ref);
    NOTE("XCLOSE", 0);

    ref = PyStackRef_XNewRefDeferred(object);
    PyStackRef_XSETREF(ref, PyStackRef_XNewRefDeferred(object));
    NOTE("XSETREF", ref.bits);
    PyStackRef_CLEAR(ref);
    NOTE("CLEAR", ref.bits + (uintptr_t)object);
    PyStackRef_CLEAR(ref);
    NOTE("CLEAR of NULL", ref.bits + (uintptr_t)object);

    _PyStackRef stack[3] = {PyStackRef_XNewRefDeferred(object), Py_STACKREF_NULL,
                            PyStackRef_StealRef(Py_XNewRef(object))};
    NOTE("three slots", stack[0].bits);
    PyObject *objects[3] = {Py_None, Py_None, Py_None};
    _Py_untag_stack_borrowed(objects, stack, 3);
    NOTE("untag_stack_borrowed", objects[0]);
    NOTE("untag_stack_borrowed, NULL", (uintptr_t)object + (uintptr_t)objects[1]);
    _Py_untag_stack_steal(objects, stack, 3);
    NOTE("untag_stack_steal", objects[2]);
    NOTE("untag_stack_steal, NULL", (uintptr_t)object + (uintptr_t)objects[1]);
    Py_XDECREF(objects[0]);
    Py_XDECREF(objects[2]);
    NOTE("Py_XDECREF of those", 0);
    *the_log = log;
}

static void
with_object(Log *the_log, PyObject *object, int immortal)
{
    Log log = *the_log;
    _PyStackRef ref = PyStackRef_NewRefDeferred(object);
    NOTE("NewRefDeferred", ref.bits);
    PyStackRef_INCREF(ref);
    NOTE("INCREF", 0);
    PyStackRef_DECREF(ref);
    NOTE("DECREF", 0);
    _PyStackRef second = PyStackRef_NewRef(ref);
    NOTE("NewRef", second.bits);
    PyStackRef_SETREF(second, PyStackRef_StealRef(Py_NewRef(object)));
    NOTE("SETREF", second.bits);
    PyStackRef_DECREF(second);
    PyStackRef_DECREF(ref);
    NOTE("DECREF of both", 0);

    ref = PyStackRef_FromPyObjectNew(object);
    NOTE("FromPyObjectNew", ref.bits);
    second = PyStackRef_DUP(ref);
    NOTE("DUP", second.bits);
    PyStackRef_CLOSE(second);
    NOTE("CLOSE", 0);
    PyObject *taken = PyStackRef_AsPyObjectSteal(ref);
    NOTE("AsPyObjectSteal", taken);
    ref = PyStackRef_FromPyObjectSteal(taken);
    NOTE("FromPyObjectSteal", ref.bits);
    PyStackRef_XCLOSE(ref);
    NOTE("XCLOSE", 0);
    if (immortal) {
        ref = PyStackRef_FromPyObjectImmortal(object);
        NOTE("FromPyObjectImmortal", ref.bits);
        PyStackRef_CLOSE(PyStackRef_DUP(ref));
        PyStackRef_CLOSE(ref);
        NOTE("CLOSE of immortal", 0);
    }
    *the_log = log;
}

/* exercise() or exercise(object) -> [(helper, change of the count, tag)]; without an object: NULL */
static PyObject *
exercise(PyObject *module, PyObject *args)
{
    (void)module;
    PyObject *object = NULL;
    if (!PyArg_ParseTuple(args, "|O:exercise", &object)) {
        return NULL;
    }
    Log log = {PyList_New(0), object, count_of(object), 0};
    if (log.list == NULL) {
        return NULL;
    }
    Py_ssize_t before = log.count;
    with_any(&log, object);
    if (object != NULL) {
        with_object(&log, object, _Py_IsImmortal(object));
    }
    if (count_of(object) != before) {
        PyErr_Format(PyExc_AssertionError, "the count was %zd and is %zd", before, count_of(object));
        log.failed = 1;
    }
    if (log.failed) {
        Py_CLEAR(log.list);
    }
    return log.list;
}

/* close_last(make, how): closes the only reference to what make() returns, in one of five ways. */
static PyObject *
close_last(PyObject *module, PyObject *args)
{
    (void)module;
    PyObject *make;
    int how;
    if (!PyArg_ParseTuple(args, "Oi:close_last", &make, &how)) {
        return NULL;
    }
    PyObject *object = PyObject_CallNoArgs(make);
    if (object == NULL) {
        return NULL;
    }
    _PyStackRef ref = PyStackRef_StealRef(object);
    switch (how) {
        case 0: PyStackRef_DECREF(ref); break;
        case 1: PyStackRef_XDECREF(ref); break;
        case 2: PyStackRef_CLEAR(ref); break;
        case 3: PyStackRef_XSETREF(ref, Py_STACKREF_NULL); break;
        default: PyStackRef_CLOSE(ref); break;
    }
    Py_RETURN_NONE;
}

/* facts() -> (is it Rust, free-threaded, with assertions, total references counted) */
static PyObject *
facts(PyObject *module, PyObject *unused)
{
    (void)module;
    (void)unused;
    int rust = 0, free_threaded = 0, assertions = 1, counted = 0;
#ifdef Py_RUST_CORE
    rust = 1;
#endif
#ifdef Py_GIL_DISABLED
    free_threaded = 1;
#endif
#ifdef NDEBUG
    assertions = 0;
#endif
#ifdef Py_REF_DEBUG
    counted = 1;
#endif
    return Py_BuildValue("iiii", rust, free_threaded, assertions, counted);
}

static PyMethodDef methods[] = {
    {"exercise", exercise, METH_VARARGS, "Call every helper on an object, or on NULL."},
    {"close_last", close_last, METH_VARARGS, "Close the only reference to a new object."},
    {"facts", facts, METH_NOARGS, "What this module was compiled with."},
    {NULL, NULL, 0, NULL},
};

static PyModuleDef_Slot slots[] = {
#ifdef Py_GIL_DISABLED
    {Py_mod_gil, Py_MOD_GIL_NOT_USED},
#endif
    {0, NULL},
};

static struct PyModuleDef definition = {
    .m_base = PyModuleDef_HEAD_INIT,
    .m_name = MODULE_NAME,
    .m_doc = "Every helper of stack references, on any object.",
    .m_methods = methods,
    .m_slots = slots,
};

PyMODINIT_FUNC
INIT(void)
{
    return PyModuleDef_Init(&definition);
}
