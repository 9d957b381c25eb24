/* suitehooks: the frame hooks with which CPython's own tests are run; see tests/hooked.
 *
 * add(kind) installs one for the calling interpreter, which keeps it to its end:
 * - "copy" has an equal copy of each code object run in its place. A code object owns its copy, in an extra slot, so
 *   that the copy is specialized as the original would be. What `_co_code_adaptive` shows, for dis, are the instructions
 *   of the copy then: those that run. The hook is disabled for the copies.
 * - "observe" looks for frames, and then does as "copy". On every call C code looks at the topmost frames, and keeps some
 *   beyond their calls. On some calls the function that add() was given looks from Python: see suiteobserver.py.
 * - "pass" lets everything run as it is, and wants to be asked again.
 * Where the interpreter has no frame hooks, add() does nothing.
 */

#define PY_SSIZE_T_CLEAN
#define Py_BUILD_CORE_MODULE    /* for what a frame object is about */
#include <Python.h>
#include <cpython/framehook.h>
#include <dlfcn.h>
#include <internal/pycore_frame.h>
#include <stdatomic.h>
#include <string.h>

typedef struct _PyInterpreterFrame Frame;

static __typeof__(PyUnstable_AddFrameHookEx) *add_hook;
static __typeof__(PyUnstable_DisableFrameHookForCode) *disable_for_code;
static __typeof__(PyUnstable_HookFrame_GetCode) *get_code;

/* What a hook knows about a code object. */
typedef struct {
    PyObject *copy;             /* NULL: it is a copy itself */
    atomic_ulong calls;         /* of the original */
} Known;

static Known is_a_copy;

/* A hook that copies. */
typedef struct {
    Py_ssize_t index;               /* of the extra slot */
    PyUnstable_FrameHookId id;      /* 0 until the hook is installed */
    PyObject *observe;              /* the function that looks from Python; NULL: none */
    PyFrameObject *kept;            /* or NULL */
} Copier;

static void
free_copier(void *data)
{
    Copier *copier = data;
    Py_XDECREF(copier->observe);
    Py_XDECREF(copier->kept);
    PyMem_RawFree(copier);
}

static void
free_known(void *value)
{
    Known *known = value;
    if (known != &is_a_copy) {
        Py_DECREF(known->copy);
        PyMem_RawFree(known);
    }
}

/* A new Known with a copy of `code`; NULL with an exception. */
static Known *
make_known(PyObject *code, Copier *copier)
{
    /* One object for the name: CPython's cache of methods keeps each new one. */
    PyObject *name = PyUnicode_InternFromString("replace");
    PyObject *copy = name == NULL ? NULL : PyObject_CallMethodNoArgs(code, name);
    Py_XDECREF(name);
    if (copy == NULL) {
        return NULL;
    }
    Known *known = PyMem_RawCalloc(1, sizeof(Known));
    if (known == NULL) {
        Py_DECREF(copy);
        PyErr_NoMemory();
        return NULL;
    }
    known->copy = copy;
    if (PyUnstable_Code_SetExtra(copy, copier->index, &is_a_copy) < 0
        || (copier->id != 0 && disable_for_code(copier->id, copy) < 0))
    {
        free_known(known);
        return NULL;
    }
    return known;
}

/* What is known about `code`, as long as the code lives; NULL with an exception. */
static Known *
know(PyObject *code, Copier *copier)
{
    void *found = NULL;
    PyUnstable_Code_GetExtra(code, copier->index, &found);
    if (found != NULL) {
        return found;
    }
    Known *known = make_known(code, copier);
    if (known == NULL) {
        return NULL;
    }
    /* Another thread may have been here meanwhile; then what it has made is used. */
    int failed = 0;
    Py_BEGIN_CRITICAL_SECTION(code);
    PyUnstable_Code_GetExtra(code, copier->index, &found);
    if (found == NULL) {
        failed = PyUnstable_Code_SetExtra(code, copier->index, known);
    }
    Py_END_CRITICAL_SECTION();
    if (found != NULL || failed) {
        free_known(known);
    }
    return failed ? NULL : found != NULL ? found : known;
}

/* Has the copy run, if there is one. Without `known` an exception is set. */
static PyUnstable_FrameHookVerdict
run_copy(Known *known, PyCodeObject **replacement)
{
    if (known == NULL) {
        /* Tests let allocations fail: those of the hook are not what they are about. */
        if (!PyErr_ExceptionMatches(PyExc_MemoryError)) {
            return PyUnstable_FRAMEHOOK_ERROR;
        }
        PyErr_Clear();
        return PyUnstable_FRAMEHOOK_PASS;
    }
    if (known->copy == NULL) {
        return PyUnstable_FRAMEHOOK_PASS;
    }
    *replacement = (PyCodeObject *)Py_NewRef(known->copy);
    return PyUnstable_FRAMEHOOK_REPLACE;
}

static PyUnstable_FrameHookVerdict
copy_code(Frame *frame, void *user_data, PyCodeObject **replacement)
{
    PyObject *code = get_code(frame);
    Known *known = know(code, user_data);
    Py_DECREF(code);
    return run_copy(known, replacement);
}

/* ---- Looking for frames --------------------------------------------------------------------------------------- */

#define FRAMES 4    /* that C looks at on every call */

/* On which calls of a code object Python looks: on the first, second, fourth, eighth ... and on every 512th. Each takes as
 * long as some hundred calls. */
static bool
is_a_turn_for_python(unsigned long calls)
{
    return (calls & (calls - 1)) == 0 || calls % 512 == 0;
}

/* Whether frames that this one calls may outlive their calls. Else tests would find objects alive that should have died
 * with a frame. After a test method and after the body of a module other calls come first. */
static bool
calls_what_may_be_kept(PyFrameObject *frame)
{
    PyCodeObject *code = PyFrame_GetCode(frame);
    bool result = PyUnicode_EqualToUTF8(code->co_name, "_callTestMethod")
                  || PyUnicode_EqualToUTF8(code->co_name, "_call_with_frames_removed");
    Py_DECREF(code);
    return result;
}

/* Looks at the topmost frames, and keeps one. The frame that is offered must be hidden from every way of looking. */
static void
look_from_c(Copier *copier, Frame *offered)
{
    if (copier->kept != NULL && copier->kept->f_frame->owner == FRAME_OWNED_BY_FRAME_OBJECT) {
        Py_CLEAR(copier->kept);     /* its call is over */
    }
    PyFrameObject *frame = PyThreadState_GetFrame(PyThreadState_Get());
    if (frame != NULL && (PyEval_GetFrame() != frame || PyEval_GetGlobals() != frame->f_frame->f_globals)) {
        Py_FatalError("two ways of looking find two frames");
    }
    for (int i = 0; frame != NULL && i < FRAMES; i++) {
        if (frame->f_frame == offered) {
            Py_FatalError("a frame can be seen while it is offered");
        }
        PyFrameObject *back = PyFrame_GetBack(frame);
        if (back != NULL && calls_what_may_be_kept(back)) {
            Py_XSETREF(copier->kept, (PyFrameObject *)Py_NewRef((PyObject *)frame));
        }
        Py_SETREF(frame, back);
    }
    Py_XDECREF(frame);
    PyErr_Clear();      /* no memory for a frame object */
}

/* Has Python look, above the frame that is offered. 0; or -1 with an exception that is not the observer's: a signal's
 * handler has raised it, or another thread has sent it. */
static int
look_from_python(Copier *copier)
{
    PyThreadState *thread = PyThreadState_Get();
    PyObject *top = (PyObject *)PyEval_GetFrame();
    PyThreadState_EnterTracing(thread);     /* what it calls is not for trace functions */
    PyObject *result = PyObject_CallOneArg(copier->observe, top == NULL ? Py_None : top);
    PyThreadState_LeaveTracing(thread);
    if (result == NULL) {
        if (!PyErr_ExceptionMatches(PyExc_RecursionError) && !PyErr_ExceptionMatches(PyExc_MemoryError)) {
            return -1;
        }
        PyErr_Clear();
        return 0;
    }
    Py_DECREF(result);
    return 0;
}

static PyUnstable_FrameHookVerdict
observe_and_copy(Frame *frame, void *user_data, PyCodeObject **replacement)
{
    Copier *copier = user_data;
    PyObject *code = get_code(frame);
    Known *known = know(code, copier);
    Py_DECREF(code);
    if (known != NULL && known != &is_a_copy) {
        look_from_c(copier, frame);
        unsigned long calls = atomic_fetch_add(&known->calls, 1) + 1;
        if (is_a_turn_for_python(calls) && look_from_python(copier) < 0) {
            return PyUnstable_FRAMEHOOK_ERROR;
        }
    }
    return run_copy(known, replacement);
}

/* ---- What dis shows ------------------------------------------------------------------------------------------- */

/* The main interpreter's index, or -1; and the getter of `_co_code_adaptive` as it was. */
static atomic_llong shown_index = -1;
static getter original_getter;

static PyObject *
get_adaptive(PyObject *code, void *closure)
{
    void *found = NULL;
    Py_ssize_t index = (Py_ssize_t)atomic_load(&shown_index);
    if (index >= 0 && PyUnstable_Code_GetExtra(code, index, &found) < 0) {
        PyErr_Clear();
    }
    Known *known = found;
    return original_getter(known == NULL || known->copy == NULL ? code : known->copy, closure);
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

/* ---- The module ------------------------------------------------------------------------------------------------ */

static PyUnstable_FrameHookVerdict
pass(Frame *frame, void *user_data, PyCodeObject **replacement)
{
    (void)frame, (void)user_data, (void)replacement;
    return PyUnstable_FRAMEHOOK_PASS;
}

static PyObject *
add(PyObject *module, PyObject *arguments)
{
    (void)module;
    const char *name;
    PyObject *observe = NULL;
    if (!PyArg_ParseTuple(arguments, "s|O:add", &name, &observe)) {
        return NULL;
    }
    if (add_hook == NULL) {
        Py_RETURN_NONE;
    }
    PyUnstable_FrameHookId id;
    if (strcmp(name, "copy") == 0 || (strcmp(name, "observe") == 0 && observe != NULL)) {
        Py_ssize_t index = PyUnstable_Eval_RequestCodeExtraIndex(free_known);
        if (index < 0) {
            return PyErr_Occurred() ? NULL : PyErr_Format(PyExc_RuntimeError, "no co_extra index is left");
        }
        Copier *copier = PyMem_RawCalloc(1, sizeof(Copier));
        if (copier == NULL) {
            return PyErr_NoMemory();
        }
        copier->index = index;
        copier->observe = Py_XNewRef(observe);
        show_copies(index);
        id = add_hook(PyInterpreterState_Get(), observe == NULL ? copy_code : observe_and_copy, copier, free_copier,
                      name, 0);
        if (id < 0) {
            free_copier(copier);
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

static PyObject *
alone(PyObject *module, PyObject *ignored)
{
    (void)module, (void)ignored;
    return PyBool_FromLong(PyInterpreterState_Next(PyInterpreterState_Head()) == NULL);
}

static PyMethodDef methods[] = {
    {"add", add, METH_VARARGS, "add(kind[, observe]): install that hook in this interpreter. Its handle; None without "
                               "frame hooks. `observe` is for the hook of that name, and gets the topmost frame."},
    {"alone", alone, METH_NOARGS, "Whether there is one interpreter in the process."},
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
