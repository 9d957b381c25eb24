/* suitehooks: the frame hooks with which CPython's own tests are run; see tests/hooked.
 *
 * add(kind) installs one for the calling interpreter, which keeps it to its end:
 * - "copy" has an equal copy of each code object run in its place. A code object owns its copy, in an extra slot, so
 *   that the copy is specialized as the original would be. What `_co_code_adaptive` shows, for dis, are the instructions
 *   of the copy then: those that run. The hook is disabled for the copies.
 * - "pass" lets everything run as it is, and wants to be asked again.
 * Where the interpreter has no frame hooks, add() does nothing.
 */

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <cpython/framehook.h>
#include <dlfcn.h>
#include <stdatomic.h>
#include <string.h>

typedef struct _PyInterpreterFrame Frame;

static __typeof__(PyUnstable_AddFrameHookEx) *add_hook;
static __typeof__(PyUnstable_DisableFrameHookForCode) *disable_for_code;
static __typeof__(PyUnstable_HookFrame_GetCode) *get_code;

/* The value of a code object that is a copy. */
static char is_a_copy;

/* What the hook that copies knows. */
typedef struct {
    Py_ssize_t index;               /* of the extra slot */
    PyUnstable_FrameHookId id;      /* 0 until the hook is installed */
} Copier;

static void
free_copy(void *copy)
{
    if (copy != &is_a_copy) {
        Py_DECREF((PyObject *)copy);
    }
}

/* The copy of `code`, a borrowed reference; NULL with an exception. */
static PyObject *
make_copy(PyObject *code, Copier *copier)
{
    Py_ssize_t index = copier->index;
    PyObject *copy = PyObject_CallMethod(code, "replace", NULL);
    if (copy == NULL) {
        return NULL;
    }
    if (PyUnstable_Code_SetExtra(copy, index, &is_a_copy) < 0
        || (copier->id != 0 && disable_for_code(copier->id, copy) < 0)
        || PyUnstable_Code_SetExtra(code, index, copy) < 0)
    {
        Py_DECREF(copy);
        return NULL;
    }
    return copy;
}

static PyUnstable_FrameHookVerdict
copy_code(Frame *frame, void *user_data, PyCodeObject **replacement)
{
    Copier *copier = user_data;
    PyObject *code = get_code(frame);
    void *copy = NULL;
    PyUnstable_Code_GetExtra(code, copier->index, &copy);
    if (copy == NULL) {
        copy = make_copy(code, copier);
    }
    if (copy != NULL && copy != &is_a_copy) {
        *replacement = (PyCodeObject *)Py_NewRef((PyObject *)copy);
    }
    Py_DECREF(code);
    if (copy == NULL) {
        /* Tests let allocations fail: those of the hook are not what they are about. */
        if (!PyErr_ExceptionMatches(PyExc_MemoryError)) {
            return PyUnstable_FRAMEHOOK_ERROR;
        }
        PyErr_Clear();
    }
    return *replacement == NULL ? PyUnstable_FRAMEHOOK_PASS : PyUnstable_FRAMEHOOK_REPLACE;
}

/* The main interpreter's index, or -1; and the getter of `_co_code_adaptive` as it was. */
static atomic_llong shown_index = -1;
static getter original_getter;

static PyObject *
get_adaptive(PyObject *code, void *closure)
{
    void *copy = NULL;
    Py_ssize_t index = (Py_ssize_t)atomic_load(&shown_index);
    if (index >= 0 && PyUnstable_Code_GetExtra(code, index, &copy) < 0) {
        PyErr_Clear();
    }
    return original_getter(copy == NULL || copy == &is_a_copy ? code : (PyObject *)copy, closure);
}

static void
show_copies(Py_ssize_t index)
{
    if (PyInterpreterState_Get() != PyInterpreterState_Main()) {
        return;
    }
    atomic_store(&shown_index, index);
    for (PyGetSetDef *entry = PyCode_Type.tp_getset; original_getter == NULL && entry->name != NULL; entry++) {
        if (strcmp(entry->name, "_co_code_adaptive") == 0) {
            original_getter = entry->get;
            entry->get = get_adaptive;
        }
    }
}

static PyUnstable_FrameHookVerdict
pass(Frame *frame, void *user_data, PyCodeObject **replacement)
{
    (void)frame, (void)user_data, (void)replacement;
    return PyUnstable_FRAMEHOOK_PASS;
}

static PyObject *
add(PyObject *module, PyObject *kind)
{
    (void)module;
    const char *name = PyUnicode_AsUTF8(kind);
    if (name == NULL) {
        return NULL;
    }
    if (add_hook == NULL) {
        Py_RETURN_NONE;
    }
    PyUnstable_FrameHookId id;
    if (strcmp(name, "copy") == 0) {
        Py_ssize_t index = PyUnstable_Eval_RequestCodeExtraIndex(free_copy);
        if (index < 0) {
            return PyErr_Occurred() ? NULL : PyErr_Format(PyExc_RuntimeError, "no co_extra index is left");
        }
        Copier *copier = PyMem_RawCalloc(1, sizeof(Copier));
        if (copier == NULL) {
            return PyErr_NoMemory();
        }
        copier->index = index;
        show_copies(index);
        id = add_hook(PyInterpreterState_Get(), copy_code, copier, PyMem_RawFree, name, 0);
        if (id < 0) {
            PyMem_RawFree(copier);
            return NULL;
        }
        copier->id = id;
    }
    else if (strcmp(name, "pass") == 0) {
        id = add_hook(PyInterpreterState_Get(), pass, NULL, NULL, name, 0);
    }
    else {
        return PyErr_Format(PyExc_ValueError, "no such hook: %s", name);
    }
    return id < 0 ? NULL : PyLong_FromLongLong(id);
}

static PyMethodDef methods[] = {
    {"add", add, METH_O, "Install the hook of that kind in this interpreter: its handle; None without frame hooks."},
    {NULL, NULL, 0, NULL},
};

static int
execute(PyObject *module)
{
    (void)module;
    void *found = dlsym(RTLD_DEFAULT, "PyUnstable_AddFrameHookEx");
    memcpy(&add_hook, &found, sizeof(found));
    found = dlsym(RTLD_DEFAULT, "PyUnstable_DisableFrameHookForCode");
    memcpy(&disable_for_code, &found, sizeof(found));
    found = dlsym(RTLD_DEFAULT, "PyUnstable_HookFrame_GetCode");
    memcpy(&get_code, &found, sizeof(found));
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
    .m_name = "suitehooks",
    .m_doc = "The frame hooks with which CPython's own tests are run.",
    .m_methods = methods,
    .m_slots = slots,
};

PyMODINIT_FUNC
PyInit_suitehooks(void)
{
    return PyModuleDef_Init(&definition);
}
