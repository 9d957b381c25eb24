/* What the test modules with frame hooks share. Included first. They load on a stock CPython too, where nothing but
 * install() refuses: a test that calls the interface directly runs only where FrameHook_Available() is not 0. */

#define FRAMEHOOK_OPTIONAL
#include "testmodule.h"
#include <cpython/framehook.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>

typedef struct _PyInterpreterFrame Frame;

/* install(.name = "one", .on_entry = on_entry) returns the id, or -1 with an exception. */
#define install(...) \
    install_definition(&(PyUnstable_FrameHookDefinition){.size = sizeof(PyUnstable_FrameHookDefinition), __VA_ARGS__})

static inline PyUnstable_FrameHookId
install_definition(const PyUnstable_FrameHookDefinition *definition)
{
    if (!FrameHook_Available()) {
        PyErr_SetString(PyExc_RuntimeError, "this interpreter has no frame hooks");
        return -1;
    }
    PyUnstable_FrameHookId id = PyUnstable_FrameHook_Install(definition);
    if (id <= 0 && !PyErr_Occurred()) {
        PyErr_Format(PyExc_AssertionError, "the id %lld without an exception", id);
    }
    return id <= 0 ? -1 : id;
}

/* The int of an id that install() has returned. Without memory for it the hook is removed. */
static inline PyObject *
id_or_error(PyUnstable_FrameHookId id)
{
    PyObject *number = id < 0 ? NULL : PyLong_FromLongLong(id);
    if (id > 0 && number == NULL) {
        PyObject *raised = PyErr_GetRaisedException();
        PyUnstable_FrameHook_Remove(id);
        PyErr_SetRaisedException(raised);
    }
    return number;
}

/* Installs a hook whose user data is a new reference to an object, which `free_object` releases. */
static inline PyObject *
install_with_object(PyUnstable_FrameHookEntryFunction on_entry, PyObject *object, void (*free_object)(void *),
                    const char *name, unsigned int flags)
{
    Py_INCREF(object);
    PyUnstable_FrameHookId id = install(.name = name, .on_entry = on_entry, .user_data = object,
                                        .free_user_data = free_object, .flags = flags);
    if (id < 0) {
        Py_DECREF(object);
    }
    return id_or_error(id);
}

/* Removes the hook with this id, an int. */
static inline PyObject *
remove_hook(PyObject *Py_UNUSED(module), PyObject *number)
{
    long long id = PyLong_AsLongLong(number);
    if ((id == -1 && PyErr_Occurred()) || PyUnstable_FrameHook_Remove(id) < 0) {
        return NULL;
    }
    Py_RETURN_NONE;
}

/* The code of a frame, borrowed from it; NULL with an exception. */
static inline PyObject *
code_of(Frame *frame)
{
    PyObject *code = PyUnstable_FrameHook_GetCode(frame);
    Py_XDECREF(code);
    return code;
}

/* An entry callback that does nothing. */
static inline int
pass(Frame *Py_UNUSED(frame), void *Py_UNUSED(user_data), PyUnstable_FrameHookAnswer *Py_UNUSED(answer))
{
    return PyUnstable_FRAMEHOOK_PASS;
}
