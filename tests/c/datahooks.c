/* datahooks: hooks that give each frame data of its own, and record what becomes of that.
 *
 * The data of a frame is memory of libc's, which does not fail where a test has CPython's allocators fail. It stays
 * until the test has seen it: data that is freed twice, or used by an event afterwards, is counted and no crash. So is
 * data of a frame, or user data of a hook, that is freed while a callback uses it.
 */

#include "hooktesting.h"
#include <stdlib.h>

/* The data of one frame. Without the GIL one thread at a time works on each; the list of all has a lock. */
typedef struct FrameData {
    struct FrameData *next;
    int ends;           /* how many events said that the frame returned, raised or was dropped */
    int others;         /* how many said that it yielded or was resumed */
    int freed;
    int late;           /* how many events, and calls of free_data, came after it was freed or within an event */
    int in_use;         /* how many callbacks use it */
} FrameData;

static FrameData *frames;
static PyMutex lock;
static int hooks_installed, hooks_freed;
static atomic_int hooks_freed_early;

/* The user data of a hook. */
typedef struct {
    PyObject *code;     /* what the hook is for; it is disabled for all else */
    PyObject *object;   /* of the answer, or NULL */
    int verdict;
    unsigned int events, scope;
    int fails;          /* the kind of event for which the event callback fails; -1: none */
    int raises;         /* whether the entry callback leaves an exception set, whatever the verdict is */
    PyObject *keeps;    /* what it only refers to, or NULL */
    PyObject *on_entry, *on_event;  /* what the callbacks call, the second with the kind of event; or NULL */
    atomic_int in_use;  /* how many callbacks use this */
} Hook;

/* Calls it with `argument`, unless that is NULL. 0, or -1 with an exception. */
static int
call(PyObject *callable, PyObject *argument)
{
    if (callable == NULL) {
        return 0;
    }
    PyObject *result = PyObject_CallFunctionObjArgs(callable, argument, NULL);
    Py_XDECREF(result);
    return result == NULL ? -1 : 0;
}

static int
on_entry(Frame *frame, void *user_data, PyUnstable_FrameHookAnswer *answer)
{
    Hook *hook = user_data;
    PyObject *code = code_of(frame);
    if (code != hook->code) {
        return code == NULL ? PyUnstable_FRAMEHOOK_ERROR : PyUnstable_FRAMEHOOK_DISABLE;
    }
    atomic_fetch_add(&hook->in_use, 1);
    int status = call(hook->on_entry, NULL);
    atomic_fetch_sub(&hook->in_use, 1);
    if (status < 0) {
        return PyUnstable_FRAMEHOOK_ERROR;
    }
    FrameData *data = calloc(1, sizeof(*data));
    if (data == NULL) {
        Py_FatalError("no memory for the data of a frame");
    }
    PyMutex_Lock(&lock);
    data->next = frames;
    frames = data;
    PyMutex_Unlock(&lock);
    answer->data = data;
    answer->events = hook->events;
    answer->scope = hook->scope;
    answer->object = Py_XNewRef(hook->object);
    if (hook->verdict == PyUnstable_FRAMEHOOK_ERROR || hook->raises) {
        PyErr_SetString(PyExc_ValueError, "the hook fails");
    }
    return hook->verdict;
}

static int
on_event(const PyUnstable_FrameHookEvent *event, void *user_data)
{
    Hook *hook = user_data;
    FrameData *data = event->data;
    data->late += data->freed;
    if (event->kind == PyUnstable_FRAMEHOOK_YIELDED || event->kind == PyUnstable_FRAMEHOOK_RESUMED) {
        data->others++;
    }
    else {
        data->ends++;
    }
    int status = 0, fails = event->kind == hook->fails;
    if (hook->on_event != NULL) {
        data->in_use++;
        atomic_fetch_add(&hook->in_use, 1);
        PyObject *kind = PyLong_FromLong(event->kind);
        status = kind == NULL ? -1 : call(hook->on_event, kind);
        Py_XDECREF(kind);
        atomic_fetch_sub(&hook->in_use, 1);
        data->in_use--;
        data->late += data->freed;
    }
    if (fails && status == 0) {
        PyErr_SetString(PyExc_ValueError, "the callback fails");
        return -1;
    }
    return status;
}

static void
free_frame_data(void *freed)
{
    FrameData *data = freed;
    data->late += data->freed + (data->in_use > 0);
    data->freed++;
}

static void
free_hook(void *user_data)
{
    Hook *hook = user_data;
    hooks_freed++;
    if (atomic_load(&hook->in_use) > 0) {
        /* It stays: a callback still uses it. */
        atomic_fetch_add(&hooks_freed_early, 1);
        return;
    }
    Py_DECREF(hook->code);
    Py_XDECREF(hook->object);
    Py_XDECREF(hook->keeps);
    Py_XDECREF(hook->on_entry);
    Py_XDECREF(hook->on_event);
    free(hook);
}

static PyObject *
add(PyObject *Py_UNUSED(module), PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"code", "verdict", "events", "scope", "object", "fails", "flags", "raises", "keeps",
                            "on_entry", "on_event", NULL};
    Hook given = {.fails = -1};
    unsigned int flags = 0;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O!i|IIOiIpOOO:add", names, &PyCode_Type, &given.code,
                                     &given.verdict, &given.events, &given.scope, &given.object, &given.fails, &flags,
                                     &given.raises, &given.keeps, &given.on_entry, &given.on_event)) {
        return NULL;
    }
    Hook *hook = malloc(sizeof(*hook));
    if (hook == NULL) {
        return PyErr_NoMemory();
    }
    *hook = given;
    Py_INCREF(hook->code);
    Py_XINCREF(hook->object);
    Py_XINCREF(hook->keeps);
    Py_XINCREF(hook->on_entry);
    Py_XINCREF(hook->on_event);
    PyUnstable_FrameHookId id = install(.name = "data", .on_entry = on_entry, .on_event = on_event, .user_data = hook,
                                        .free_user_data = free_hook, .free_data = free_frame_data, .flags = flags);
    if (id < 0) {
        free_hook(hook);
        hooks_freed--;
        return NULL;
    }
    hooks_installed++;
    return id_or_error(id);
}

static PyObject *
call_unhooked(PyObject *Py_UNUSED(module), PyObject *const *arguments, Py_ssize_t count)
{
    if (count < 2) {
        PyErr_SetString(PyExc_TypeError, "call_unhooked() takes a truth value, a callable and its arguments");
        return NULL;
    }
    return PyUnstable_FrameHook_CallUnhooked(arguments[1], arguments + 2, (size_t)(count - 2), NULL,
                                             PyObject_IsTrue(arguments[0]));
}

static PyObject *
take_frames(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(ignored))
{
    PyObject *list = PyList_New(0);
    while (list != NULL && frames != NULL) {
        FrameData *data = frames;
        PyObject *entry = Py_BuildValue("iiii", data->ends, data->others, data->freed, data->late);
        if (entry == NULL || PyList_Append(list, entry) < 0) {
            Py_CLEAR(list);
        }
        Py_XDECREF(entry);
        frames = data->next;
        free(data);
    }
    if (list != NULL && PyList_Reverse(list) < 0) {
        Py_CLEAR(list);
    }
    return list;
}

static PyObject *
take_hooks(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(ignored))
{
    PyObject *counts = Py_BuildValue("ii", hooks_installed, hooks_freed);
    hooks_installed = hooks_freed = 0;
    return counts;
}

static PyObject *
take_early(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(ignored))
{
    return PyLong_FromLong(atomic_exchange(&hooks_freed_early, 0));
}

/* What take_...() return is counted since their last call. */
static PyMethodDef methods[] = {
    {"add", C_FUNCTION(add), METH_VARARGS | METH_KEYWORDS, "Install a hook for one code object with that answer; its id."},
    {"remove", remove_hook, METH_O, "Remove a hook by id."},
    {"call_unhooked", C_FUNCTION(call_unhooked), METH_FASTCALL, "call_unhooked(callees, callable, *arguments)"},
    {"take_frames", take_frames, METH_NOARGS,
     "What became of the data of each frame: (ends, others, freed, late), in the order of their starts."},
    {"take_hooks", take_hooks, METH_NOARGS, "How many hooks were installed, and how often user data was freed."},
    {"take_early", take_early, METH_NOARGS, "How often user data was freed while a callback used it."},
    {NULL, NULL, 0, NULL},
};

MODULE(datahooks, "Hooks that give each frame data of its own.",
       {Py_mod_multiple_interpreters, Py_MOD_MULTIPLE_INTERPRETERS_SUPPORTED})
