/* framehooks: the C interface of frame hooks, driven from Python.
 *
 * Every function is looked up at run time, so that the module loads on a stock CPython too; there, available() is
 * False. It also has what hooks are compared with: an evaluator of PEP 523 that only passes frames on.
 */

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <cpython/framehook.h>
#include <dlfcn.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>

typedef struct _PyInterpreterFrame Frame;

/* ---- The functions under test, by their names without the prefix --------------------------------------------- */

#define FUNCTIONS(X) \
    X(AddFrameHook) X(RemoveFrameHook) X(ContainsFrameHook) X(ClearFrameHooks) X(AddFrameHookEx) \
    X(RemoveFrameHookEx) X(FrameHook_GetId) X(EnableFrameHook) X(DisableFrameHook) X(EnableFrameHookInThread) \
    X(DisableFrameHookInThread) X(EnableFrameHookForCode) X(DisableFrameHookForCode) X(HookFrame_GetCode) \
    X(HookFrame_GetFunction) X(HookFrame_GetGlobals) X(HookFrame_GetBuiltins) X(HookFrame_GetArgumentCount) \
    X(HookFrame_GetArgument) X(HookFrame_GetArgumentName) X(HookFrame_GetArgumentByName)

/* The types are the header's: a declaration that changes no longer compiles here. */
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

static bool
find_functions(void)
{
    bool all = true;
#define FIND(name) all = find("PyUnstable_" #name, &api.name) && all;
    FUNCTIONS(FIND)
#undef FIND
    return all;
}

static PyObject *
missing(PyObject *module, PyObject *Py_UNUSED(ignored))
{
    (void)module;
    PyObject *names = PyList_New(0);
    if (names == NULL) {
        return NULL;
    }
#define APPEND(name) \
    if (api.name == NULL) { \
        PyObject *text = PyUnicode_FromString("PyUnstable_" #name); \
        if (text == NULL || PyList_Append(names, text) < 0) { \
            Py_XDECREF(text); \
            Py_DECREF(names); \
            return NULL; \
        } \
        Py_DECREF(text); \
    }
    FUNCTIONS(APPEND)
#undef APPEND
    return names;
}

static PyObject *
available(PyObject *module, PyObject *Py_UNUSED(ignored))
{
    (void)module;
    return PyBool_FromLong(find_functions());
}

/* 0 becomes None, -1 the exception that must then be set. */
static PyObject *
none_or_error(int result)
{
    if (result == 0) {
        Py_RETURN_NONE;
    }
    if (result != -1 || !PyErr_Occurred()) {
        return PyErr_Format(PyExc_AssertionError, "the function returned %d, with%s exception", result,
                            PyErr_Occurred() ? " an" : "out an");
    }
    return NULL;
}

/* ---- Hooks that ask a Python callable ------------------------------------------------------------------------- */

/* The frame that the hook running in this thread was asked about: hooks do not nest. */
static _Thread_local Frame *current;

/* Calls the callable, which reads the frame with the functions below. */
static PyObject *
ask(PyObject *callable, Frame *frame)
{
    Frame *before = current;
    current = frame;
    PyObject *answer = PyObject_CallNoArgs(callable);
    current = before;
    return answer;
}

/* The simple form. Its functions have no user data, so there is one for each slot. */
#define SLOTS 4
static PyObject *simple_callables[SLOTS];

static PyCodeObject *
run_simple(int slot, Frame *frame)
{
    PyObject *callable = Py_NewRef(simple_callables[slot]);
    PyObject *answer = ask(callable, frame);
    Py_DECREF(callable);
    if (answer == Py_None) {
        Py_DECREF(answer);
        return NULL;
    }
    return (PyCodeObject *)answer;
}

static PyCodeObject *simple_0(Frame *frame) { return run_simple(0, frame); }
static PyCodeObject *simple_1(Frame *frame) { return run_simple(1, frame); }
static PyCodeObject *simple_2(Frame *frame) { return run_simple(2, frame); }
static PyCodeObject *simple_3(Frame *frame) { return run_simple(3, frame); }
static const _PyFrameHookFunction simple_hooks[SLOTS] = {simple_0, simple_1, simple_2, simple_3};

static int
slot_of(PyObject *number)
{
    long slot = PyLong_AsLong(number);
    if (slot < 0 || slot >= SLOTS) {
        if (!PyErr_Occurred()) {
            PyErr_SetString(PyExc_IndexError, "no such slot");
        }
        return -1;
    }
    return (int)slot;
}

static PyObject *
add_simple(PyObject *module, PyObject *args)
{
    (void)module;
    PyObject *number, *callable;
    if (!PyArg_ParseTuple(args, "OO", &number, &callable)) {
        return NULL;
    }
    int slot = slot_of(number);
    if (slot < 0) {
        return NULL;
    }
    /* Before the hook is there: without the GIL another thread may be asked at once. */
    PyObject *before = simple_callables[slot];
    simple_callables[slot] = Py_NewRef(callable);
    int result = api.AddFrameHook(PyInterpreterState_Get(), simple_hooks[slot]);
    if (result != 0) {
        PyObject *unused = simple_callables[slot];
        simple_callables[slot] = before;
        before = unused;
    }
    Py_XDECREF(before);
    return none_or_error(result);
}

static PyObject *
remove_simple(PyObject *module, PyObject *number)
{
    (void)module;
    int slot = slot_of(number);
    if (slot < 0) {
        return NULL;
    }
    /* The callable stays until the slot is used again: a round may still run it. */
    return none_or_error(api.RemoveFrameHook(PyInterpreterState_Get(), simple_hooks[slot]));
}

static PyObject *
forget_simple(PyObject *module, PyObject *Py_UNUSED(ignored))
{
    (void)module;
    for (int slot = 0; slot < SLOTS; slot++) {
        Py_CLEAR(simple_callables[slot]);
    }
    Py_RETURN_NONE;
}

static PyObject *
contains_simple(PyObject *module, PyObject *number)
{
    (void)module;
    int slot = slot_of(number);
    return slot < 0 ? NULL : PyLong_FromLong(api.ContainsFrameHook(PyInterpreterState_Get(), simple_hooks[slot]));
}

static PyObject *
id_of_simple(PyObject *module, PyObject *number)
{
    (void)module;
    int slot = slot_of(number);
    if (slot < 0) {
        return NULL;
    }
    PyUnstable_FrameHookId id = api.FrameHook_GetId(PyInterpreterState_Get(), simple_hooks[slot]);
    return id < 0 ? NULL : PyLong_FromLongLong(id);
}

static PyObject *
clear(PyObject *module, PyObject *Py_UNUSED(ignored))
{
    (void)module;
    return none_or_error(api.ClearFrameHooks(PyInterpreterState_Get()));
}

/* The extended form; its user data is the callable. */
static PyObject *settled;       /* what the callable returns for SETTLED; lives as long as the process */
static atomic_llong freed;      /* how often user data was freed */

static int
verdict_of(PyObject *answer, PyCodeObject **replacement)
{
    if (answer == NULL) {
        return PyUnstable_FRAMEHOOK_ERROR;
    }
    if (answer == Py_None || answer == settled) {
        Py_DECREF(answer);
        return answer == settled ? PyUnstable_FRAMEHOOK_DISABLE : PyUnstable_FRAMEHOOK_PASS;
    }
    *replacement = (PyCodeObject *)answer;
    return PyUnstable_FRAMEHOOK_REPLACE;
}

static int
ask_callable(Frame *frame, void *callable, PyCodeObject **replacement)
{
    return verdict_of(ask(callable, frame), replacement);
}

static void
free_callable(void *callable)
{
    atomic_fetch_add(&freed, 1);
    Py_DECREF((PyObject *)callable);
}

static PyObject *
id_or_error(PyUnstable_FrameHookId id)
{
    if (id <= 0 && !PyErr_Occurred()) {
        return PyErr_Format(PyExc_AssertionError, "the handle %lld without an exception", id);
    }
    return id <= 0 ? NULL : PyLong_FromLongLong(id);
}

static PyObject *
add_extended(PyObject *module, PyObject *args)
{
    (void)module;
    PyObject *callable;
    const char *name;
    int flags = 0;
    if (!PyArg_ParseTuple(args, "Oz|i", &callable, &name, &flags)) {
        return NULL;
    }
    Py_INCREF(callable);
    PyUnstable_FrameHookId id = api.AddFrameHookEx(PyInterpreterState_Get(), ask_callable, callable,
                                                   free_callable, name, flags);
    if (id < 0) {
        Py_DECREF(callable);
    }
    return id_or_error(id);
}

static PyObject *
freed_count(PyObject *module, PyObject *Py_UNUSED(ignored))
{
    (void)module;
    return PyLong_FromLongLong(atomic_load(&freed));
}

/* ---- Hooks in C alone ----------------------------------------------------------------------------------------- */

static int
always_pass(Frame *frame, void *data, PyCodeObject **replacement)
{
    (void)frame, (void)data, (void)replacement;
    return PyUnstable_FRAMEHOOK_PASS;
}

static int
always_settle(Frame *frame, void *data, PyCodeObject **replacement)
{
    (void)frame, (void)data, (void)replacement;
    return PyUnstable_FRAMEHOOK_DISABLE;
}

static int
own_code(Frame *frame, void *data, PyCodeObject **replacement)
{
    (void)data;
    *replacement = (PyCodeObject *)api.HookFrame_GetCode(frame);
    return *replacement == NULL ? PyUnstable_FRAMEHOOK_ERROR : PyUnstable_FRAMEHOOK_REPLACE;
}

/* Hooks that break the rules. */
static int
error_without_exception(Frame *frame, void *data, PyCodeObject **replacement)
{
    (void)frame, (void)data, (void)replacement;
    return PyUnstable_FRAMEHOOK_ERROR;
}

static int
replace_by_null(Frame *frame, void *data, PyCodeObject **replacement)
{
    (void)frame, (void)data;
    *replacement = NULL;
    return PyUnstable_FRAMEHOOK_REPLACE;
}

static int
replace_by_tuple(Frame *frame, void *data, PyCodeObject **replacement)
{
    (void)frame, (void)data;
    *replacement = (PyCodeObject *)PyTuple_New(0);
    return PyUnstable_FRAMEHOOK_REPLACE;
}

static int
unknown_verdict(Frame *frame, void *data, PyCodeObject **replacement)
{
    (void)frame, (void)data, (void)replacement;
    return (int)99;
}

static int
pass_with_exception(Frame *frame, void *data, PyCodeObject **replacement)
{
    (void)frame, (void)data, (void)replacement;
    PyErr_SetString(PyExc_LookupError, "left behind");
    return PyUnstable_FRAMEHOOK_PASS;
}

static const struct {
    const char *name;
    PyUnstable_FrameHookFunction function;
} native_hooks[] = {
    {"pass", always_pass},
    {"settle", always_settle},
    {"own code", own_code},
    {"error without exception", error_without_exception},
    {"replace by NULL", replace_by_null},
    {"replace by tuple", replace_by_tuple},
    {"unknown verdict", unknown_verdict},
    {"pass with exception", pass_with_exception},
};

static PyObject *
add_native(PyObject *module, PyObject *kind)
{
    (void)module;
    const char *name = PyUnicode_AsUTF8(kind);
    if (name == NULL) {
        return NULL;
    }
    for (size_t i = 0; i < Py_ARRAY_LENGTH(native_hooks); i++) {
        if (strcmp(native_hooks[i].name, name) == 0) {
            /* The user data differs, so that one kind can be installed many times. */
            static atomic_llong number;
            void *data = (void *)(intptr_t)(atomic_fetch_add(&number, 1) + 1);
            return id_or_error(api.AddFrameHookEx(PyInterpreterState_Get(), native_hooks[i].function, data, NULL,
                                                  name, 0));
        }
    }
    return PyErr_Format(PyExc_ValueError, "no such hook: %s", name);
}

/* Replaces code by what a dictionary says; user data is the dictionary. */
static int
look_up(Frame *frame, void *replacements, PyCodeObject **replacement)
{
    PyObject *code = api.HookFrame_GetCode(frame);
    if (code == NULL) {
        return PyUnstable_FRAMEHOOK_ERROR;
    }
    PyObject *found;
    int result = PyDict_GetItemRef(replacements, code, &found);
    Py_DECREF(code);
    if (result <= 0) {
        return result < 0 ? PyUnstable_FRAMEHOOK_ERROR : PyUnstable_FRAMEHOOK_PASS;
    }
    *replacement = (PyCodeObject *)found;
    return PyUnstable_FRAMEHOOK_REPLACE;
}

static PyObject *
add_replacer(PyObject *module, PyObject *replacements)
{
    (void)module;
    if (!PyDict_Check(replacements)) {
        return PyErr_Format(PyExc_TypeError, "a dictionary from code to code");
    }
    Py_INCREF(replacements);
    PyUnstable_FrameHookId id = api.AddFrameHookEx(PyInterpreterState_Get(), look_up, replacements, free_callable,
                                                   "replacer", 0);
    if (id < 0) {
        Py_DECREF(replacements);
    }
    return id_or_error(id);
}

/* Exchanges one code object for another, and is not interested in the rest: the least that a tool which rewrites
   code can do. User data is a tuple of the two. */
static int
exchange(Frame *frame, void *pair, PyCodeObject **replacement)
{
    PyObject *code = api.HookFrame_GetCode(frame);
    if (code == NULL) {
        return PyUnstable_FRAMEHOOK_ERROR;
    }
    bool wanted = code == PyTuple_GET_ITEM(pair, 0);
    Py_DECREF(code);
    if (!wanted) {
        return PyUnstable_FRAMEHOOK_DISABLE;
    }
    *replacement = (PyCodeObject *)Py_NewRef(PyTuple_GET_ITEM(pair, 1));
    return PyUnstable_FRAMEHOOK_REPLACE;
}

static PyObject *
add_exchange(PyObject *module, PyObject *pair)
{
    (void)module;
    if (!PyTuple_Check(pair) || PyTuple_GET_SIZE(pair) != 2) {
        return PyErr_Format(PyExc_TypeError, "a tuple of two code objects");
    }
    Py_INCREF(pair);
    PyUnstable_FrameHookId id = api.AddFrameHookEx(PyInterpreterState_Get(), exchange, pair, free_callable,
                                                   "exchange", 0);
    if (id < 0) {
        Py_DECREF(pair);
    }
    return id_or_error(id);
}

/* ---- By handle ------------------------------------------------------------------------------------------------ */

static PyObject *
remove_extended(PyObject *module, PyObject *handle)
{
    (void)module;
    long long id = PyLong_AsLongLong(handle);
    if (id == -1 && PyErr_Occurred()) {
        return NULL;
    }
    return none_or_error(api.RemoveFrameHookEx(PyInterpreterState_Get(), id));
}

static PyObject *
switch_hook(PyObject *module, PyObject *args)
{
    (void)module;
    long long id;
    int on;
    if (!PyArg_ParseTuple(args, "Lp", &id, &on)) {
        return NULL;
    }
    PyInterpreterState *interp = PyInterpreterState_Get();
    return none_or_error(on ? api.EnableFrameHook(interp, id) : api.DisableFrameHook(interp, id));
}

static PyObject *
switch_in_thread(PyObject *module, PyObject *args)
{
    (void)module;
    long long id;
    int on;
    if (!PyArg_ParseTuple(args, "Lp", &id, &on)) {
        return NULL;
    }
    return none_or_error(on ? api.EnableFrameHookInThread(id) : api.DisableFrameHookInThread(id));
}

static PyObject *
switch_for_code(PyObject *module, PyObject *args)
{
    (void)module;
    long long id;
    PyObject *code;
    int on;
    if (!PyArg_ParseTuple(args, "LOp", &id, &code, &on)) {
        return NULL;
    }
    return none_or_error(on ? api.EnableFrameHookForCode(id, code) : api.DisableFrameHookForCode(id, code));
}

/* ---- Reading the current frame -------------------------------------------------------------------------------- */

static bool
has_frame(void)
{
    if (current == NULL) {
        PyErr_SetString(PyExc_RuntimeError, "no hook runs in this thread");
    }
    return current != NULL;
}

#define GETTER(name, function) \
    static PyObject * \
    name(PyObject *module, PyObject *Py_UNUSED(ignored)) \
    { \
        (void)module; \
        return has_frame() ? api.function(current) : NULL; \
    }
GETTER(get_code, HookFrame_GetCode)
GETTER(get_function, HookFrame_GetFunction)
GETTER(get_globals, HookFrame_GetGlobals)
GETTER(get_builtins, HookFrame_GetBuiltins)

static PyObject *
argument_count(PyObject *module, PyObject *Py_UNUSED(ignored))
{
    (void)module;
    return has_frame() ? PyLong_FromSsize_t(api.HookFrame_GetArgumentCount(current)) : NULL;
}

static PyObject *
argument(PyObject *module, PyObject *number)
{
    (void)module;
    Py_ssize_t index = PyLong_AsSsize_t(number);
    if ((index == -1 && PyErr_Occurred()) || !has_frame()) {
        return NULL;
    }
    return api.HookFrame_GetArgument(current, index);
}

static PyObject *
argument_name(PyObject *module, PyObject *number)
{
    (void)module;
    Py_ssize_t index = PyLong_AsSsize_t(number);
    if ((index == -1 && PyErr_Occurred()) || !has_frame()) {
        return NULL;
    }
    return api.HookFrame_GetArgumentName(current, index);
}

static PyObject *
argument_by_name(PyObject *module, PyObject *name)
{
    (void)module;
    return has_frame() ? api.HookFrame_GetArgumentByName(current, name) : NULL;
}

/* ---- What came before: an evaluator of PEP 523 ----------------------------------------------------------------- */

static atomic_llong evaluated;
static _Atomic(PyObject *) evaluated_names;     /* a list, or NULL: only count */

static PyObject *
pass_on(PyThreadState *tstate, Frame *frame, int throwing)
{
    return _PyEval_EvalFrameDefault(tstate, frame, throwing);
}

static PyObject *
count_and_pass_on(PyThreadState *tstate, Frame *frame, int throwing)
{
    atomic_fetch_add(&evaluated, 1);
    PyObject *names = atomic_load(&evaluated_names);
    if (names != NULL) {
        PyObject *code = PyUnstable_InterpreterFrame_GetCode(frame);
        PyObject *name = ((PyCodeObject *)code)->co_qualname;
        int failed = PyList_Append(names, name);
        Py_DECREF(code);
        if (failed) {
            PyErr_Clear();
        }
    }
    return _PyEval_EvalFrameDefault(tstate, frame, throwing);
}

static PyObject *
set_evaluator(PyObject *module, PyObject *kind)
{
    (void)module;
    const char *name = kind == Py_None ? "" : PyUnicode_AsUTF8(kind);
    if (name == NULL) {
        return NULL;
    }
    _PyFrameEvalFunction function = _PyEval_EvalFrameDefault;
    if (strcmp(name, "pass") == 0) {
        function = pass_on;
    }
    else if (strcmp(name, "count") == 0) {
        function = count_and_pass_on;
    }
    else if (name[0]) {
        return PyErr_Format(PyExc_ValueError, "no such evaluator: %s", name);
    }
    _PyInterpreterState_SetEvalFrameFunc(PyInterpreterState_Get(), function);
    Py_RETURN_NONE;
}

static PyObject *
evaluations(PyObject *module, PyObject *names)
{
    (void)module;
    PyObject *before = atomic_exchange(&evaluated_names, names == Py_None ? NULL : Py_NewRef(names));
    Py_XDECREF(before);
    return PyLong_FromLongLong(atomic_exchange(&evaluated, 0));
}

/* ---- The module ------------------------------------------------------------------------------------------------ */

static PyMethodDef methods[] = {
    {"available", available, METH_NOARGS, "Whether the interpreter has frame hooks."},
    {"missing", missing, METH_NOARGS, "The names of the functions that it has not."},
    {"add_simple", add_simple, METH_VARARGS, "Install the simple hook of a slot, which asks a callable."},
    {"remove_simple", remove_simple, METH_O, "Remove the simple hook of a slot."},
    {"forget_simple", forget_simple, METH_NOARGS, "Drop the callables of all slots."},
    {"contains_simple", contains_simple, METH_O, "Whether the simple hook of a slot is installed."},
    {"id_of_simple", id_of_simple, METH_O, "The handle of the simple hook of a slot."},
    {"clear", clear, METH_NOARGS, "Remove all hooks."},
    {"add_extended", add_extended, METH_VARARGS, "Install an extended hook that asks a callable: its handle."},
    {"add_native", add_native, METH_O, "Install one of the hooks in C: its handle."},
    {"add_replacer", add_replacer, METH_O, "Install a hook that replaces by a dictionary: its handle."},
    {"add_exchange", add_exchange, METH_O, "Install a hook that exchanges one code object for another: its handle."},
    {"freed", freed_count, METH_NOARGS, "How often user data was freed."},
    {"remove", remove_extended, METH_O, "Remove by handle."},
    {"switch", switch_hook, METH_VARARGS, "Enable or disable by handle."},
    {"switch_in_thread", switch_in_thread, METH_VARARGS, "The same for this thread."},
    {"switch_for_code", switch_for_code, METH_VARARGS, "The same for a code object."},
    {"get_code", get_code, METH_NOARGS, "Of the frame that the running hook is asked about."},
    {"get_function", get_function, METH_NOARGS, "Of the frame that the running hook is asked about."},
    {"get_globals", get_globals, METH_NOARGS, "Of the frame that the running hook is asked about."},
    {"get_builtins", get_builtins, METH_NOARGS, "Of the frame that the running hook is asked about."},
    {"argument_count", argument_count, METH_NOARGS, "Of the frame that the running hook is asked about."},
    {"argument", argument, METH_O, "Of the frame that the running hook is asked about, by index."},
    {"argument_name", argument_name, METH_O, "Of the frame that the running hook is asked about, by index."},
    {"argument_by_name", argument_by_name, METH_O, "Of the frame that the running hook is asked about."},
    {"set_evaluator", set_evaluator, METH_O, "Set the evaluator: 'pass', 'count' or None."},
    {"evaluations", evaluations, METH_O, "Frames counted so far, from 0 again; and a list for the names, or None."},
    {NULL, NULL, 0, NULL},
};

static int
execute(PyObject *module)
{
    find_functions();
    if (settled == NULL) {
        settled = PyUnicode_InternFromString("SETTLED");
        if (settled == NULL) {
            return -1;
        }
    }
    if (PyModule_AddIntConstant(module, "TIMED", PyUnstable_FRAMEHOOK_TIMED) < 0) {
        return -1;
    }
    return PyModule_AddObjectRef(module, "SETTLED", settled);
}

static PyModuleDef_Slot slots[] = {
    {Py_mod_exec, execute},
    {Py_mod_multiple_interpreters, Py_MOD_MULTIPLE_INTERPRETERS_SUPPORTED},
    {Py_mod_gil, Py_MOD_GIL_NOT_USED},
    {0, NULL},
};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT,
    .m_name = "framehooks",
    .m_doc = "The C interface of frame hooks, driven from Python.",
    .m_methods = methods,
    .m_slots = slots,
};

PyMODINIT_FUNC
PyInit_framehooks(void)
{
    return PyModuleDef_Init(&definition);
}
