/* Counts how calls end. An extension module; docs/frame-hooks.md quotes it. */
#include <Python.h>
#include <cpython/framehook.h>
#include <stdatomic.h>
#include <stdint.h>

static atomic_long started, returned, raised, last_raised;
static PyUnstable_FrameHookId id;

static int
on_entry(struct _PyInterpreterFrame *frame, void *user_data, PyUnstable_FrameHookAnswer *answer)
{
    (void)user_data;
    if (PyUnstable_FrameHook_GetArgumentCount(frame) == 0) {
        return PyUnstable_FRAMEHOOK_DISABLE;    /* for this code object */
    }
    answer->events = PyUnstable_FRAMEHOOK_ON_EXIT;
    answer->data = (void *)(intptr_t)++started; /* a pointer or a number */
    return PyUnstable_FRAMEHOOK_PASS;
}

static int
on_event(const PyUnstable_FrameHookEvent *event, void *user_data)
{
    (void)user_data;
    if (event->kind == PyUnstable_FRAMEHOOK_RETURNED) {
        returned++;
    }
    else if (event->kind == PyUnstable_FRAMEHOOK_RAISED) {
        raised++;
        last_raised = (intptr_t)event->data;
    }
    return 0;                                   /* -1 with an exception fails the call */
}

static PyObject *
start(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(ignored))
{
    PyUnstable_FrameHookDefinition definition = {
        .size = sizeof(definition), .name = "call counts", .on_entry = on_entry, .on_event = on_event,
    };
    id = PyUnstable_FrameHook_Install(&definition);
    return id < 0 ? NULL : PyLong_FromLongLong(id);
}

static PyObject *
stop(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(ignored))
{
    if (PyUnstable_FrameHook_Remove(id) < 0) {
        return NULL;
    }
    return Py_BuildValue("llll", (long)started, (long)returned, (long)raised, (long)last_raised);
}

static PyMethodDef methods[] = {
    {"start", start, METH_NOARGS, NULL}, {"stop", stop, METH_NOARGS, NULL}, {NULL, NULL, 0, NULL},
};
static PyModuleDef_Slot slots[] = {{Py_mod_gil, Py_MOD_GIL_NOT_USED}, {0, NULL}};
static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, .m_name = "callcounts", .m_methods = methods, .m_slots = slots,
};

PyMODINIT_FUNC
PyInit_callcounts(void)
{
    return PyModuleDef_Init(&definition);
}
