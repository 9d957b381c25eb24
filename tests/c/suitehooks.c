/* suitehooks: the frame hooks with which CPython's own tests are run; see tests/hooked.
 *
 * add(kind) installs one for the calling interpreter, which keeps it to its end:
 * - "copy" has an equal copy of each code object run in its place. A code object owns its copy, in an extra slot, so
 *   that the copy is specialized as the original would be. What `_co_code_adaptive` shows, for dis, are the instructions
 *   of the copy then: those that run. The hook is disabled for the copies.
 * - "observe" looks for frames, and then does as "copy". On every call C code looks at the topmost frames, and keeps some
 *   beyond their calls. On some calls the function that add() was given looks from Python: see suiteobserver.py.
 * - "pass" lets everything run as it is, and is called each time.
 * - "watch" watches every frame, with yields and resumptions, and checks each call of its callbacks; see suitewatch.h.
 * For a hook in Python that does the same (suitewatcher.py) there are FrameData, excused() and fatal().
 * Where the interpreter has no frame hooks, add() does nothing.
 */

#define Py_BUILD_CORE_MODULE    /* for what a frame object is about, and whether an interpreter is finalized */
#include "hooktesting.h"
#include <internal/pycore_frame.h>
#include <internal/pycore_interp.h>
#include "suitewatch.h"

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
        || (copier->id != 0 && PyUnstable_FrameHook_DisableForCode(copier->id, copy) < 0))
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
static int
run_copy(Known *known, PyUnstable_FrameHookAnswer *answer)
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
    answer->object = Py_NewRef(known->copy);
    return PyUnstable_FRAMEHOOK_REPLACE;
}

static int
copy_code(Frame *frame, void *user_data, PyUnstable_FrameHookAnswer *answer)
{
    PyObject *code = PyUnstable_FrameHook_GetCode(frame);
    Known *known = know(code, user_data);
    Py_DECREF(code);
    return run_copy(known, answer);
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

static int
observe_and_copy(Frame *frame, void *user_data, PyUnstable_FrameHookAnswer *answer)
{
    Copier *copier = user_data;
    PyObject *code = PyUnstable_FrameHook_GetCode(frame);
    Known *known = know(code, copier);
    Py_DECREF(code);
    if (known != NULL && known != &is_a_copy) {
        look_from_c(copier, frame);
        unsigned long calls = atomic_fetch_add(&known->calls, 1) + 1;
        if (is_a_turn_for_python(calls) && look_from_python(copier) < 0) {
            return PyUnstable_FRAMEHOOK_ERROR;
        }
    }
    return run_copy(known, answer);
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

/* ---- For a hook in Python that watches every frame ---------------------------------------------------------------- */

/* What the module keeps in each interpreter. */
typedef struct {
    PyObject *data_type;
    PyObject *frame_hooks;      /* _framecore's function; NULL: no hook in Python watches */
    PyObject *id;               /* of that hook */
    unsigned long long excuses; /* how many of its errors have excused something */
} State;

/* The data of a frame: its state, which the event callback updates, and its code. Not tracked by the garbage collector, so
 * that collections are not shifted. */
typedef struct {
    PyObject_HEAD
    PyObject *code;
    int state;
} FrameData;

/* How often the hook in Python has failed; ULLONG_MAX if that cannot be found out. */
static unsigned long long
count_errors(State *state)
{
    unsigned long long count = ULLONG_MAX;
    PyObject *hooks = PyObject_CallNoArgs(state->frame_hooks);
    for (Py_ssize_t i = 0; hooks != NULL && i < PyList_GET_SIZE(hooks); i++) {
        PyObject *id = PyDict_GetItemString(PyList_GET_ITEM(hooks, i), "id");
        PyObject *errors = PyDict_GetItemString(PyList_GET_ITEM(hooks, i), "errors");
        if (id != NULL && errors != NULL && PyObject_RichCompareBool(id, state->id, Py_EQ) == 1) {
            count = PyLong_AsUnsignedLongLong(errors);
        }
    }
    Py_XDECREF(hooks);
    PyErr_Clear();
    return count;
}

/* Whether a callback may have missed an event: the interpreter ends, or the hook has failed since, as where a signal's
 * handler raises an exception in it, or there is no stack or memory to call it. Each failure excuses one miss. */
static bool
is_excused(State *state)
{
    PyObject *exception = PyErr_GetRaisedException();
    bool excused = state->frame_hooks == NULL || is_ending(PyInterpreterState_Get());
    if (!excused) {
        unsigned long long errors = count_errors(state);
        excused = errors > state->excuses;
        state->excuses += excused && errors != ULLONG_MAX;
    }
    PyErr_SetRaisedException(exception);
    return excused;
}

static PyObject *
new_data(PyTypeObject *type, PyObject *arguments, PyObject *names)
{
    PyObject *code;
    if (names != NULL || !PyArg_ParseTuple(arguments, "O!:FrameData", &PyCode_Type, &code)) {
        return PyErr_Occurred() ? NULL : PyErr_Format(PyExc_TypeError, "FrameData has no named arguments");
    }
    FrameData *data = (FrameData *)type->tp_alloc(type, 0);
    if (data != NULL) {
        data->code = Py_NewRef(code);
        data->state = NEW;
    }
    return (PyObject *)data;
}

static void
free_data_object(PyObject *self)
{
    FrameData *data = (FrameData *)self;
    PyTypeObject *type = Py_TYPE(self);
    if (data->state != OVER && data->state != NEW) {
        bool may_have_failed = (data->state == CREATED || data->state == PLAIN) && current_malloc() != first_malloc;
        if (!may_have_failed && !is_excused(PyType_GetModuleState(type))) {
            give_up("data is freed while its frame is %s", state_names[data->state]);
        }
    }
    Py_XDECREF(data->code);
    type->tp_free(self);
    Py_DECREF(type);
}

/* The watch has begun. */
static PyObject *
data_begin(PyObject *self, PyObject *Py_UNUSED(ignored))
{
    FrameData *data = (FrameData *)self;
    data->state = first_state((PyCodeObject *)data->code);
    Py_RETURN_NONE;
}

static PyMethodDef data_methods[] = {
    {"begin", data_begin, METH_NOARGS, "The frame is watched from now on."},
    {NULL, NULL, 0, NULL},
};

static PyMemberDef data_members[] = {
    {"code", Py_T_OBJECT_EX, offsetof(FrameData, code), Py_READONLY, "the code of the frame"},
    {"state", Py_T_INT, offsetof(FrameData, state), 0, "the state of the frame: an index of AFTER"},
    {NULL, 0, 0, 0, NULL},
};

static PyType_Slot data_slots[] = {
    {Py_tp_new, new_data},
    {Py_tp_dealloc, free_data_object},
    {Py_tp_methods, data_methods},
    {Py_tp_members, data_members},
    {0, NULL},
};

static PyType_Spec data_specification = {
    .name = "suitehooks.FrameData",
    .basicsize = sizeof(FrameData),
    .flags = Py_TPFLAGS_DEFAULT,
    .slots = data_slots,
};

/* ---- The module ------------------------------------------------------------------------------------------------ */

static PyObject *
add(PyObject *Py_UNUSED(module), PyObject *arguments)
{
    const char *name;
    PyObject *observe = NULL;
    if (!PyArg_ParseTuple(arguments, "s|O:add", &name, &observe)) {
        return NULL;
    }
    if (!FrameHook_Available()) {
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
        id = install(.name = name, .on_entry = observe == NULL ? copy_code : observe_and_copy, .user_data = copier,
                     .free_user_data = free_copier);
        if (id < 0) {
            free_copier(copier);
            return NULL;
        }
        copier->id = id;
    }
    else if (strcmp(name, "pass") == 0) {
        id = install(.name = name, .on_entry = pass);
    }
    else if (strcmp(name, "watch") == 0) {
        id = add_watch(name);
    }
    else {
        return PyErr_Format(PyExc_ValueError, "no such hook: %s", name);
    }
    return id_or_error(id);
}

static PyObject *
alone(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(ignored))
{
    return PyBool_FromLong(PyInterpreterState_Next(PyInterpreterState_Head()) == NULL);
}

static PyObject *
watched_by(PyObject *module, PyObject *arguments)
{
    State *state = PyModule_GetState(module);
    PyObject *id, *frame_hooks;
    if (!PyArg_ParseTuple(arguments, "O!O:watched_by", &PyLong_Type, &id, &frame_hooks)) {
        return NULL;
    }
    Py_XSETREF(state->id, Py_NewRef(id));
    Py_XSETREF(state->frame_hooks, Py_NewRef(frame_hooks));
    Py_RETURN_NONE;
}

static PyObject *
excused(PyObject *module, PyObject *Py_UNUSED(ignored))
{
    return PyBool_FromLong(is_excused(PyModule_GetState(module)));
}

static PyObject *
fatal(PyObject *Py_UNUSED(module), PyObject *text)
{
    const char *bytes = PyUnicode_AsUTF8(text);
    give_up("%s", bytes == NULL ? "?" : bytes);
}

static PyMethodDef methods[] = {
    {"add", add, METH_VARARGS, "add(kind[, observe]): install that hook in this interpreter. Its id; None without "
                               "frame hooks. `observe` is for the hook of that name, and gets the topmost frame."},
    {"alone", alone, METH_NOARGS, "Whether there is one interpreter in the process."},
    {"watched_by", watched_by, METH_VARARGS, "watched_by(id, frame_hooks): that hook in Python watches all frames. "
                                             "The function is _framecore's."},
    {"excused", excused, METH_NOARGS, "Whether that hook may have missed an event. Each of its failures excuses one."},
    {"fatal", fatal, METH_O, "End the process with that text."},
    {"misuse", misuse, METH_VARARGS, "misuse(what, code): call a callback of the hook that watches in a way that ends the "
                                     "process."},
    {NULL, NULL, 0, NULL},
};

/* `after` for Python: for each state a dict from the kinds of events that are possible to the next state. */
static PyObject *
make_after(void)
{
    static const char *const kinds[KINDS] = {"returned", "raised", "yielded", "resumed", "dropped"};
    PyObject *table = PyTuple_New(STATES);
    for (int state = 0; table != NULL && state < STATES; state++) {
        PyObject *events = PyDict_New();
        PyTuple_SET_ITEM(table, state, events);     /* NULL: the tuple goes */
        for (int kind = 0; events != NULL && kind < KINDS; kind++) {
            PyObject *next = after[state][kind] == WRONG ? NULL : PyLong_FromLong(after[state][kind]);
            if (next != NULL && PyDict_SetItemString(events, kinds[kind], next) < 0) {
                events = NULL;
            }
            Py_XDECREF(next);
        }
        if (events == NULL) {
            Py_CLEAR(table);
        }
    }
    return table;
}

static int
execute(PyObject *module)
{
    if (first_malloc == NULL) {
        first_malloc = current_malloc();
    }
    State *state = PyModule_GetState(module);
    state->data_type = PyType_FromModuleAndSpec(module, &data_specification, NULL);
    PyObject *table = state->data_type == NULL ? NULL : make_after();
    if (PyModule_Add(module, "AFTER", table) < 0) {
        return -1;
    }
    return PyModule_AddObjectRef(module, "FrameData", state->data_type);
}

static int
traverse(PyObject *module, visitproc visit, void *arg)
{
    State *state = PyModule_GetState(module);
    Py_VISIT(state->data_type);
    Py_VISIT(state->frame_hooks);
    Py_VISIT(state->id);
    return 0;
}

static int
clear(PyObject *module)
{
    State *state = PyModule_GetState(module);
    Py_CLEAR(state->data_type);
    Py_CLEAR(state->frame_hooks);
    Py_CLEAR(state->id);
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
    .m_size = sizeof(State),
    .m_methods = methods,
    .m_slots = slots,
    .m_traverse = traverse,
    .m_clear = clear,
};

PyMODINIT_FUNC
PyInit_suitehooks(void)
{
    return PyModuleDef_Init(&definition);
}
