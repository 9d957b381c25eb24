/* framehooks: the C interface of frame hooks, driven from Python.
 *
 * It also has what hooks are compared with: an evaluator of PEP 523 that only passes frames on.
 */

#include "hooktesting.h"

static PyObject *
available(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(ignored))
{
    return PyBool_FromLong(FrameHook_Available());
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

/* ---- Hooks that call a Python callable ------------------------------------------------------------------------ */

/* The frame for which a hook runs in this thread: hooks do not nest. */
static _Thread_local Frame *current;

/* Calls the callable, which reads the frame with the functions below. */
static PyObject *
call(PyObject *callable, Frame *frame)
{
    Frame *before = current;
    current = frame;
    PyObject *answer = PyObject_CallNoArgs(callable);
    current = before;
    return answer;
}

/* The hooks of the proposal have no user data, so there is a function for each slot. */
#define SLOTS 4
static PyObject *simple_callables[SLOTS];

static PyCodeObject *
run_simple(int slot, Frame *frame)
{
    PyObject *callable = Py_NewRef(simple_callables[slot]);
    PyObject *answer = call(callable, frame);
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
static PyCodeObject *(*const simple_hooks[SLOTS])(Frame *) = {simple_0, simple_1, simple_2, simple_3};

static bool
is_slot(int slot)
{
    if (slot < 0 || slot >= SLOTS) {
        PyErr_SetString(PyExc_IndexError, "no such slot");
        return false;
    }
    return true;
}

static PyObject *
add_simple(PyObject *Py_UNUSED(module), PyObject *args)
{
    int slot;
    PyObject *callable;
    if (!PyArg_ParseTuple(args, "iO", &slot, &callable) || !is_slot(slot)) {
        return NULL;
    }
    /* Before the hook is installed: without the GIL another thread may call it at once. */
    PyObject *before = simple_callables[slot];
    simple_callables[slot] = Py_NewRef(callable);
    int result = PyUnstable_AddFrameHook(PyInterpreterState_Get(), simple_hooks[slot]);
    if (result != 0) {
        PyObject *unused = simple_callables[slot];
        simple_callables[slot] = before;
        before = unused;
    }
    Py_XDECREF(before);
    return none_or_error(result);
}

static PyObject *
remove_simple(PyObject *Py_UNUSED(module), PyObject *number)
{
    int slot = PyLong_AsInt(number);
    if (PyErr_Occurred() || !is_slot(slot)) {
        return NULL;
    }
    /* The callable stays until the slot is used again: a dispatch in progress may still call it. */
    return none_or_error(PyUnstable_RemoveFrameHook(PyInterpreterState_Get(), simple_hooks[slot]));
}

static PyObject *
forget_simple(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(ignored))
{
    for (int slot = 0; slot < SLOTS; slot++) {
        Py_CLEAR(simple_callables[slot]);
    }
    Py_RETURN_NONE;
}

/* Hooks with a definition; their user data is the callable. */
static PyObject *disable;       /* what the callable returns for DISABLE; lives as long as the process */
static atomic_llong freed;      /* how often user data was freed */

static int
call_callable(Frame *frame, void *callable, PyUnstable_FrameHookAnswer *answer)
{
    PyObject *result = call(callable, frame);
    if (result == NULL) {
        return PyUnstable_FRAMEHOOK_ERROR;
    }
    if (result == Py_None || result == disable) {
        Py_DECREF(result);
        return result == disable ? PyUnstable_FRAMEHOOK_DISABLE : PyUnstable_FRAMEHOOK_PASS;
    }
    answer->object = result;
    return PyUnstable_FRAMEHOOK_REPLACE;
}

static void
free_object(void *object)
{
    atomic_fetch_add(&freed, 1);
    Py_DECREF((PyObject *)object);
}

static PyObject *
add_extended(PyObject *Py_UNUSED(module), PyObject *args)
{
    PyObject *callable;
    const char *name;
    int flags = 0;
    if (!PyArg_ParseTuple(args, "Oz|i", &callable, &name, &flags)) {
        return NULL;
    }
    return install_with_object(call_callable, callable, free_object, name, (unsigned int)flags);
}

static PyObject *
freed_count(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(ignored))
{
    return PyLong_FromLongLong(atomic_load(&freed));
}

/* ---- Hooks in C alone ----------------------------------------------------------------------------------------- */

#define ENTRY(name) \
    static int \
    name(Frame *Py_UNUSED(frame), void *Py_UNUSED(data), PyUnstable_FrameHookAnswer *Py_UNUSED(answer))

ENTRY(always_disable) { return PyUnstable_FRAMEHOOK_DISABLE; }

static int
own_code(Frame *frame, void *Py_UNUSED(data), PyUnstable_FrameHookAnswer *answer)
{
    answer->object = PyUnstable_FrameHook_GetCode(frame);
    return answer->object == NULL ? PyUnstable_FRAMEHOOK_ERROR : PyUnstable_FRAMEHOOK_REPLACE;
}

/* Hooks that break the rules. */
ENTRY(error_without_exception) { return PyUnstable_FRAMEHOOK_ERROR; }
ENTRY(replace_by_null) { return PyUnstable_FRAMEHOOK_REPLACE; }
ENTRY(unknown_verdict) { return 99; }

static int
replace_by_tuple(Frame *Py_UNUSED(frame), void *Py_UNUSED(data), PyUnstable_FrameHookAnswer *answer)
{
    answer->object = PyTuple_New(0);
    return PyUnstable_FRAMEHOOK_REPLACE;
}

ENTRY(pass_with_exception)
{
    PyErr_SetString(PyExc_LookupError, "left behind");
    return PyUnstable_FRAMEHOOK_PASS;
}

static const struct {
    const char *name;
    PyUnstable_FrameHookEntryFunction on_entry;
} native_hooks[] = {
    {"pass", pass},
    {"disable", always_disable},
    {"own code", own_code},
    {"error without exception", error_without_exception},
    {"replace by NULL", replace_by_null},
    {"replace by tuple", replace_by_tuple},
    {"unknown verdict", unknown_verdict},
    {"pass with exception", pass_with_exception},
};

static PyObject *
add_native(PyObject *Py_UNUSED(module), PyObject *kind)
{
    const char *name = PyUnicode_AsUTF8(kind);
    if (name == NULL) {
        return NULL;
    }
    for (size_t i = 0; i < Py_ARRAY_LENGTH(native_hooks); i++) {
        if (strcmp(native_hooks[i].name, name) == 0) {
            /* The user data differs, so that one kind can be installed many times. */
            static atomic_llong number;
            void *data = (void *)(intptr_t)(atomic_fetch_add(&number, 1) + 1);
            return id_or_error(install(.name = name, .on_entry = native_hooks[i].on_entry, .user_data = data));
        }
    }
    return PyErr_Format(PyExc_ValueError, "no such hook: %s", name);
}

/* Replaces code by what a dictionary says; user data is the dictionary. */
static int
look_up(Frame *frame, void *replacements, PyUnstable_FrameHookAnswer *answer)
{
    PyObject *code = code_of(frame);
    int result = code == NULL ? -1 : PyDict_GetItemRef(replacements, code, &answer->object);
    return result < 0 ? PyUnstable_FRAMEHOOK_ERROR
           : result == 0 ? PyUnstable_FRAMEHOOK_PASS : PyUnstable_FRAMEHOOK_REPLACE;
}

static PyObject *
add_replacer(PyObject *Py_UNUSED(module), PyObject *replacements)
{
    if (!PyDict_Check(replacements)) {
        return PyErr_Format(PyExc_TypeError, "a dictionary from code to code");
    }
    return install_with_object(look_up, replacements, free_object, "replacer", 0);
}

/* Exchanges one code object for another, and is disabled for the rest: the least that a tool which rewrites code can
   do. User data is a tuple of the two. */
static int
exchange(Frame *frame, void *pair, PyUnstable_FrameHookAnswer *answer)
{
    PyObject *code = code_of(frame);
    if (code != PyTuple_GET_ITEM(pair, 0)) {
        return code == NULL ? PyUnstable_FRAMEHOOK_ERROR : PyUnstable_FRAMEHOOK_DISABLE;
    }
    answer->object = Py_NewRef(PyTuple_GET_ITEM(pair, 1));
    return PyUnstable_FRAMEHOOK_REPLACE;
}

static PyObject *
add_exchange(PyObject *Py_UNUSED(module), PyObject *pair)
{
    if (!PyTuple_Check(pair) || PyTuple_GET_SIZE(pair) != 2) {
        return PyErr_Format(PyExc_TypeError, "a tuple of two code objects");
    }
    return install_with_object(exchange, pair, free_object, "exchange", 0);
}

/* ---- Switching ------------------------------------------------------------------------------------------------ */

static PyObject *
clear(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(ignored))
{
    return none_or_error(PyUnstable_FrameHook_Clear());
}

#define SWITCH(name, in_what) \
    static PyObject * \
    name(PyObject *Py_UNUSED(module), PyObject *args) \
    { \
        long long id; \
        int on; \
        if (!PyArg_ParseTuple(args, "Lp", &id, &on)) { \
            return NULL; \
        } \
        return none_or_error(on ? PyUnstable_FrameHook_Enable##in_what(id) \
                             : PyUnstable_FrameHook_Disable##in_what(id)); \
    }
SWITCH(switch_hook, )
SWITCH(switch_in_thread, InThread)

static PyObject *
switch_for_code(PyObject *Py_UNUSED(module), PyObject *args)
{
    long long id;
    PyObject *code;
    int on;
    if (!PyArg_ParseTuple(args, "LOp", &id, &code, &on)) {
        return NULL;
    }
    return none_or_error(on ? PyUnstable_FrameHook_EnableForCode(id, code)
                         : PyUnstable_FrameHook_DisableForCode(id, code));
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
    name(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(ignored)) \
    { \
        return has_frame() ? PyUnstable_FrameHook_##function(current) : NULL; \
    }
GETTER(get_code, GetCode)
GETTER(get_function, GetFunction)
GETTER(get_globals, GetGlobals)
GETTER(get_builtins, GetBuiltins)

static PyObject *
argument_count(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(ignored))
{
    return has_frame() ? PyLong_FromSsize_t(PyUnstable_FrameHook_GetArgumentCount(current)) : NULL;
}

#define BY_INDEX(name, function) \
    static PyObject * \
    name(PyObject *Py_UNUSED(module), PyObject *number) \
    { \
        Py_ssize_t index = PyLong_AsSsize_t(number); \
        if ((index == -1 && PyErr_Occurred()) || !has_frame()) { \
            return NULL; \
        } \
        return PyUnstable_FrameHook_##function(current, index); \
    }
BY_INDEX(argument, GetArgument)
BY_INDEX(argument_name, GetArgumentName)

static PyObject *
argument_by_name(PyObject *Py_UNUSED(module), PyObject *name)
{
    return has_frame() ? PyUnstable_FrameHook_GetArgumentByName(current, name) : NULL;
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
set_evaluator(PyObject *Py_UNUSED(module), PyObject *kind)
{
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
evaluations(PyObject *Py_UNUSED(module), PyObject *names)
{
    PyObject *before = atomic_exchange(&evaluated_names, names == Py_None ? NULL : Py_NewRef(names));
    Py_XDECREF(before);
    return PyLong_FromLongLong(atomic_exchange(&evaluated, 0));
}

/* ---- The module ------------------------------------------------------------------------------------------------ */

static PyMethodDef methods[] = {
    {"available", available, METH_NOARGS, "Whether the interpreter has frame hooks."},
    {"add_simple", add_simple, METH_VARARGS, "add_simple(slot, callable): install the proposal's hook of that slot."},
    {"remove_simple", remove_simple, METH_O, "Remove the proposal's hook of a slot."},
    {"forget_simple", forget_simple, METH_NOARGS, "Drop the callables of all slots."},
    {"clear", clear, METH_NOARGS, "Remove all hooks."},
    {"add_extended", add_extended, METH_VARARGS, "add_extended(callable, name, flags=0): install a hook; its id."},
    {"add_native", add_native, METH_O, "Install one of the hooks in C: its id."},
    {"add_replacer", add_replacer, METH_O, "Install a hook that replaces by a dictionary: its id."},
    {"add_exchange", add_exchange, METH_O, "Install a hook that exchanges one code object for another: its id."},
    {"freed", freed_count, METH_NOARGS, "How often user data was freed."},
    {"remove", remove_hook, METH_O, "Remove a hook by id."},
    {"switch", switch_hook, METH_VARARGS, "switch(id, on): enable or disable a hook."},
    {"switch_in_thread", switch_in_thread, METH_VARARGS, "switch_in_thread(id, on)"},
    {"switch_for_code", switch_for_code, METH_VARARGS, "switch_for_code(id, code, on)"},
    {"get_code", get_code, METH_NOARGS, "Of the frame for which the hook runs."},
    {"get_function", get_function, METH_NOARGS, "Of the frame for which the hook runs."},
    {"get_globals", get_globals, METH_NOARGS, "Of the frame for which the hook runs."},
    {"get_builtins", get_builtins, METH_NOARGS, "Of the frame for which the hook runs."},
    {"argument_count", argument_count, METH_NOARGS, "Of the frame for which the hook runs."},
    {"argument", argument, METH_O, "Of the frame for which the hook runs, by index."},
    {"argument_name", argument_name, METH_O, "Of the frame for which the hook runs, by index."},
    {"argument_by_name", argument_by_name, METH_O, "Of the frame for which the hook runs."},
    {"set_evaluator", set_evaluator, METH_O, "Set the evaluator: 'pass', 'count' or None."},
    {"evaluations", evaluations, METH_O, "Frames counted so far, from 0 again; and a list for the names, or None."},
    {NULL, NULL, 0, NULL},
};

static int
execute(PyObject *module)
{
    if (disable == NULL) {
        disable = PyUnicode_InternFromString("DISABLE");
        if (disable == NULL) {
            return -1;
        }
    }
    if (PyModule_AddIntConstant(module, "TIMED", PyUnstable_FRAMEHOOK_TIMED) < 0) {
        return -1;
    }
    return PyModule_AddObjectRef(module, "DISABLE", disable);
}

MODULE(framehooks, "The C interface of frame hooks, driven from Python.", {Py_mod_exec, execute},
       {Py_mod_multiple_interpreters, Py_MOD_MULTIPLE_INTERPRETERS_SUPPORTED})
