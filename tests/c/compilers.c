/* compilers: what frame hooks have for compilers, driven from Python: vectorcalls that are set and given back, loops, and
 * whether calls of a code object are observed.
 */

#include "hooktesting.h"

/* ---- Functions whose vectorcall was set ----------------------------------------------------------------------- */

static long long calls;
static vectorcallfunc interpreted;     /* CPython's own, of a function that nothing was done to */

/* What a call of any function returns while the vectorcall is `answer`. */
static PyObject *answered;

static PyObject *
answer(PyObject *Py_UNUSED(self), PyObject *const *Py_UNUSED(args), size_t Py_UNUSED(nargsf), PyObject *Py_UNUSED(names))
{
    calls++;
    return Py_XNewRef(answered);
}

static PyObject *
none(PyObject *Py_UNUSED(self), PyObject *const *Py_UNUSED(args), size_t Py_UNUSED(nargsf), PyObject *Py_UNUSED(names))
{
    Py_RETURN_NONE;
}

static PyObject *
add(PyObject *Py_UNUSED(self), PyObject *const *args, size_t Py_UNUSED(nargsf), PyObject *Py_UNUSED(names))
{
    return PyNumber_Add(args[0], args[1]);
}

/* Calls what the function does, too; it may be reached again meanwhile. */
static PyObject *
pass_on(PyObject *self, PyObject *const *args, size_t nargsf, PyObject *names)
{
    calls++;
    return interpreted(self, args, nargsf, names);
}

/* Returns what it was called with: the arguments, and the names of the last ones. */
static PyObject *
arguments(PyObject *Py_UNUSED(self), PyObject *const *args, size_t nargsf, PyObject *names)
{
    calls++;
    Py_ssize_t count = PyVectorcall_NARGS(nargsf) + (names ? PyTuple_GET_SIZE(names) : 0);
    PyObject *all = PyTuple_New(count);
    for (Py_ssize_t i = 0; all != NULL && i < count; i++) {
        PyTuple_SET_ITEM(all, i, Py_NewRef(args[i]));
    }
    return all ? Py_BuildValue("NO", all, names ? names : Py_None) : NULL;
}

static PyObject *
fail(PyObject *Py_UNUSED(self), PyObject *const *Py_UNUSED(args), size_t Py_UNUSED(nargsf), PyObject *Py_UNUSED(names))
{
    calls++;
    return PyErr_Format(PyExc_ZeroDivisionError, "compiled");
}

static const struct {
    const char *name;
    vectorcallfunc call;
} kinds[] = {{"answer", answer}, {"none", none}, {"add", add}, {"pass_on", pass_on}, {"arguments", arguments}, {"fail", fail}};

static PyObject *
set_vectorcall(PyObject *Py_UNUSED(module), PyObject *args)
{
    PyObject *function;
    const char *kind;
    if (!PyArg_ParseTuple(args, "O!s", &PyFunction_Type, &function, &kind)) {
        return NULL;
    }
    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
        if (strcmp(kinds[i].name, kind) == 0) {
            PyFunction_SetVectorcall((PyFunctionObject *)function, kinds[i].call);
            Py_RETURN_NONE;
        }
    }
    return PyErr_Format(PyExc_ValueError, "no such kind: %s", kind);
}

/* The way back that every CPython has. */
static PyObject *
set_interpreted(PyObject *Py_UNUSED(module), PyObject *function)
{
    PyFunction_SetVectorcall((PyFunctionObject *)function, interpreted);
    Py_RETURN_NONE;
}

static PyObject *
none_or_error(int result)
{
    return result < 0 ? NULL : Py_NewRef(Py_None);
}

static PyObject *
restore(PyObject *Py_UNUSED(module), PyObject *function)
{
    return none_or_error(PyUnstable_Function_RestoreVectorcall(function));
}

static PyObject *
version(PyObject *Py_UNUSED(module), PyObject *function)
{
    return PyLong_FromUnsignedLong(((PyFunctionObject *)function)->func_version);
}

static PyObject *
is_interpreted(PyObject *Py_UNUSED(module), PyObject *function)
{
    return PyBool_FromLong(((PyFunctionObject *)function)->vectorcall == interpreted);
}

static PyObject *
called(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(ignored))
{
    return PyLong_FromLongLong(calls);
}

static PyObject *
set_answer(PyObject *Py_UNUSED(module), PyObject *value)
{
    Py_XSETREF(answered, Py_NewRef(value));
    Py_RETURN_NONE;
}

/* ---- Whether calls are observed ------------------------------------------------------------------------------- */

/* Out of line, so that its instructions can be counted. */
__attribute__((noinline, visibility("default"))) int
compilers_may_be_observed(const PyThreadState *tstate, const size_t *observers)
{
    return FrameHook_MayBeObserved(tstate, observers);
}

static PyObject *
observers(PyObject *Py_UNUSED(module), PyObject *code)
{
    const size_t *word = PyUnstable_Code_Observers(code);
    return word == NULL ? NULL : PyLong_FromVoidPtr((void *)word);
}

static PyObject *
may_be_observed(PyObject *Py_UNUSED(module), PyObject *address)
{
    const size_t *word = PyLong_AsVoidPtr(address);
    return word == NULL ? NULL : PyBool_FromLong(compilers_may_be_observed(PyThreadState_Get(), word));
}

static PyObject *
is_observed(PyObject *Py_UNUSED(module), PyObject *code)
{
    int observed = PyUnstable_Code_IsObserved(code);
    return observed < 0 ? NULL : PyBool_FromLong(observed);
}

static int
nothing(void *Py_UNUSED(unused))
{
    return 0;
}

/* Adds a pending call, and calls PyUnstable_Code_IsObserved() before the interpreter does it. */
static PyObject *
may_be_observed_while_pending(PyObject *module, PyObject *address)
{
    PyObject *before = may_be_observed(module, address);
    if (before == NULL || Py_AddPendingCall(nothing, NULL) < 0) {
        Py_XDECREF(before);
        return NULL;
    }
    return Py_BuildValue("NN", before, may_be_observed(module, address));
}

/* ---- Loops ---------------------------------------------------------------------------------------------------- */

static long long hot_loops;

static int
disable(Frame *Py_UNUSED(frame), void *Py_UNUSED(user_data), PyUnstable_FrameHookAnswer *Py_UNUSED(answer))
{
    return PyUnstable_FRAMEHOOK_DISABLE;
}

static void
free_object(void *object)
{
    Py_DECREF((PyObject *)object);
}

/* The frame's slots as a list, with `unbound` where one is NULL. */
static PyObject *unbound;

static PyObject *
slots_of(const PyUnstable_FrameLoop *hot)
{
    int count = hot->local_count + hot->stack_depth;
    PyObject *list = PyList_New(count);
    for (int i = 0; list != NULL && i < count; i++) {
        PyList_SET_ITEM(list, i, Py_NewRef(hot->slots[i] ? hot->slots[i] : unbound));
    }
    return list;
}

/* Puts the values of a list into the slots. */
static void
write_slots(PyUnstable_FrameLoop *hot, PyObject *list)
{
    int locals = hot->local_count, before = locals + hot->stack_depth;
    int now = (int)PyList_GET_SIZE(list);
    for (int i = 0; i < (now > before ? now : before); i++) {
        PyObject *old = i < before ? hot->slots[i] : NULL;
        PyObject *value = i < now ? PyList_GET_ITEM(list, i) : NULL;
        hot->slots[i] = value == unbound ? NULL : Py_XNewRef(value);
        if (i >= before - 1 && i < now) {
            hot->stack_depth = i + 1 - locals;
        }
        Py_XDECREF(old);
    }
    hot->stack_depth = now - locals;
}

/* Calls the callable with a dict. What it leaves there is the answer: "verdict" and the fields, "slots" if they are to be
 * written, "object", "raise". */
static int
call_callable(PyUnstable_FrameLoop *hot, void *callable)
{
    hot_loops++;
    PyObject *slots = slots_of(hot);
    PyObject *answer = slots == NULL ? NULL : Py_BuildValue(
        "{s:N,s:O,s:O,s:i,s:i,s:i}", "slots", slots, "code", hot->code, "function", hot->function, "jump", hot->jump,
        "instruction", hot->instruction, "turns", hot->turns);
    if (answer == NULL) {
        return PyUnstable_FRAMELOOP_ERROR;
    }
    PyObject *result = PyObject_CallOneArg(callable, answer);
    if (result == NULL) {
        Py_DECREF(answer);
        return PyUnstable_FRAMELOOP_ERROR;
    }
    Py_DECREF(result);
    PyObject *verdict = PyDict_GetItemString(answer, "verdict");
    PyObject *raised = PyDict_GetItemString(answer, "raise");
    PyObject *written = PyDict_GetItemString(answer, "write");
    hot->instruction = PyLong_AsInt(PyDict_GetItemString(answer, "instruction"));
    hot->turns = PyLong_AsInt(PyDict_GetItemString(answer, "turns"));
    hot->object = Py_XNewRef(PyDict_GetItemString(answer, "object"));
    PyObject *deeper = PyDict_GetItemString(answer, "stack_depth");
    int status = verdict ? PyLong_AsInt(verdict) : PyUnstable_FRAMELOOP_CONTINUE;
    if (written != NULL) {
        write_slots(hot, written);
    }
    if (deeper != NULL) {
        hot->stack_depth = PyLong_AsInt(deeper);
    }
    if (raised != NULL) {
        PyErr_SetRaisedException(Py_NewRef(raised));
    }
    Py_DECREF(answer);
    return status;
}

/* A callback that does nothing but count. */
static int
count_loop(PyUnstable_FrameLoop *Py_UNUSED(hot), void *Py_UNUSED(unused))
{
    hot_loops++;
    return PyUnstable_FRAMELOOP_CONTINUE;
}

/* One that takes all values out of the frame and puts them back, as a compiler does that enters a loop and leaves it. */
static int
move_slots(PyUnstable_FrameLoop *hot, void *Py_UNUSED(unused))
{
    hot_loops++;
    int depth = hot->stack_depth, count = hot->local_count + depth;
    PyObject **taken = PyMem_New(PyObject *, count);
    if (taken == NULL) {
        return PyUnstable_FRAMELOOP_CONTINUE;
    }
    memcpy(taken, hot->slots, count * sizeof(PyObject *));
    memset(hot->slots, 0, count * sizeof(PyObject *));
    hot->stack_depth = 0;
    memcpy(hot->slots, taken, count * sizeof(PyObject *));
    hot->stack_depth = depth;
    PyMem_Free(taken);
    return PyUnstable_FRAMELOOP_CONTINUE;
}

/* One that ends the function now and then, with None or with an exception. */
static int
end_function(PyUnstable_FrameLoop *hot, void *Py_UNUSED(unused))
{
    switch (hot_loops++ % 5) {
    case 0:
        hot->object = Py_NewRef(Py_None);
        return PyUnstable_FRAMELOOP_RESULT;
    case 1:
        PyErr_SetString(PyExc_LookupError, "raised at a loop");
        return PyUnstable_FRAMELOOP_ERROR;
    case 2:
        PyErr_SetString(PyExc_LookupError, "leaves a loop");
        return PyUnstable_FRAMELOOP_UNWIND;
    default:
        return PyUnstable_FRAMELOOP_CONTINUE;
    }
}

static PyObject *
add_hook(PyObject *Py_UNUSED(module), PyObject *args)
{
    PyObject *callable;
    int flags = 0;
    if (!PyArg_ParseTuple(args, "O|i", &callable, &flags)) {
        return NULL;
    }
    if (!FrameHook_Available()) {
        return PyLong_FromLong(0);
    }
    PyUnstable_FrameLoopFunction on_loop = callable == Py_None ? count_loop : call_callable;
    if (PyUnicode_Check(callable)) {
        on_loop = PyUnicode_CompareWithASCIIString(callable, "move") == 0 ? move_slots : end_function;
    }
    /* Each hook has user data of its own, or it would be the same hook. */
    callable = PyCallable_Check(callable) ? Py_NewRef(callable) : PyList_New(0);
    if (callable == NULL) {
        return NULL;
    }
    PyUnstable_FrameHookId id = install(.name = "loops", .on_entry = disable, .user_data = callable, .flags = flags,
                                        .free_user_data = free_object, .on_loop = on_loop);
    if (id < 0) {
        Py_DECREF(callable);
    }
    return id_or_error(id);
}

static PyObject *
remove_it(PyObject *Py_UNUSED(module), PyObject *id)
{
    return remove_hook(NULL, id);
}

static PyObject *
watch_loops(PyObject *Py_UNUSED(module), PyObject *args)
{
    long long id;
    PyObject *code;
    int turns;
    if (!PyArg_ParseTuple(args, "LOi", &id, &code, &turns)) {
        return NULL;
    }
    /* A program on stock that is to be compared does the same steps. */
    int loops = FrameHook_Available() ? PyUnstable_FrameHook_WatchLoops(id, code, turns) : 0;
    return loops < 0 ? NULL : PyLong_FromLong(loops);
}

static PyObject *
unwatch_loops(PyObject *Py_UNUSED(module), PyObject *args)
{
    long long id;
    PyObject *code;
    if (!PyArg_ParseTuple(args, "LO", &id, &code)) {
        return NULL;
    }
    return none_or_error(PyUnstable_FrameHook_UnwatchLoops(id, code));
}

static PyObject *
looped(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(ignored))
{
    return PyLong_FromLongLong(hot_loops);
}

/* The instructions as they are in memory. */
static PyObject *
instructions(PyObject *Py_UNUSED(module), PyObject *code)
{
    PyCodeObject *its = (PyCodeObject *)code;
    return PyBytes_FromStringAndSize(its->co_code_adaptive, Py_SIZE(its) * 2);
}

static PyMethodDef methods[] = {
    {"set_vectorcall", set_vectorcall, METH_VARARGS, NULL},
    {"set_interpreted", set_interpreted, METH_O, NULL},
    {"restore", restore, METH_O, NULL},
    {"version", version, METH_O, NULL},
    {"is_interpreted", is_interpreted, METH_O, NULL},
    {"called", called, METH_NOARGS, NULL},
    {"set_answer", set_answer, METH_O, NULL},
    {"observers", observers, METH_O, NULL},
    {"may_be_observed", may_be_observed, METH_O, NULL},
    {"may_be_observed_while_pending", may_be_observed_while_pending, METH_O, NULL},
    {"is_observed", is_observed, METH_O, NULL},
    {"add_hook", add_hook, METH_VARARGS, NULL},
    {"remove", remove_it, METH_O, NULL},
    {"watch_loops", watch_loops, METH_VARARGS, NULL},
    {"unwatch_loops", unwatch_loops, METH_VARARGS, NULL},
    {"looped", looped, METH_NOARGS, NULL},
    {"instructions", instructions, METH_O, NULL},
    {NULL, NULL, 0, NULL},
};

static int
execute(PyObject *module)
{
    /* A function that nothing was done to has CPython's own vectorcall. */
    PyObject *globals = PyDict_New();
    PyObject *done = globals ? PyRun_String("def f(): pass", Py_file_input, globals, globals) : NULL;
    PyObject *function = done ? PyDict_GetItemString(globals, "f") : NULL;
    if (function != NULL) {
        interpreted = ((PyFunctionObject *)function)->vectorcall;
    }
    Py_XDECREF(done);
    Py_XDECREF(globals);
    if (unbound == NULL) {
        unbound = PyUnicode_FromString("<unbound>");
    }
    if (interpreted == NULL || unbound == NULL || PyModule_AddObjectRef(module, "UNBOUND", unbound) < 0
        || PyModule_AddIntConstant(module, "ERROR", PyUnstable_FRAMELOOP_ERROR) < 0
        || PyModule_AddIntConstant(module, "CONTINUE", PyUnstable_FRAMELOOP_CONTINUE) < 0
        || PyModule_AddIntConstant(module, "RESULT", PyUnstable_FRAMELOOP_RESULT) < 0
        || PyModule_AddIntConstant(module, "UNWIND", PyUnstable_FRAMELOOP_UNWIND) < 0) {
        return -1;
    }
    return 0;
}

MODULE(compilers, "What frame hooks have for compilers.", {Py_mod_exec, execute})
