/* wordhooks: hooks of the second edition that give each frame a word of their own, and write down
 * what becomes of it.
 *
 * A word is memory of libc's, which does not fail where a test has CPython's allocators fail. It
 * stays until the test has seen it: a word that is freed twice, or told of afterwards, is counted
 * and no crash. So is a word, or the data of a hook, that is freed while a callback uses it.
 *
 * Every function is looked up at run time, so that the module loads on a stock CPython too.
 */

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <cpython/framehook.h>
#include <dlfcn.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

typedef struct _PyInterpreterFrame Frame;

/* One frame's. Without the GIL one thread at a time works on each; the list of all has a lock. */
typedef struct Word {
    struct Word *next;
    int ends;           /* how often it was told that the frame returned, raised or was dropped */
    int others;         /* how often it was told of yields and resumptions */
    int freed;
    int late;           /* how often it was told, or freed, after it had been freed, or freed while it was told */
    int under_way;      /* how many callbacks use it */
} Word;

static Word *words;
static PyMutex lock;
static int data_installed, data_freed;
static atomic_int data_freed_early;

typedef struct {
    PyObject *code;     /* what the hook is for; all else is settled */
    PyObject *object;   /* what it answers with, or NULL */
    int verdict;
    unsigned int tell, extent;
    int fails;          /* of which kind of event it fails when it is told; -1: of none */
    int raises;         /* whether it leaves an exception behind, whatever the verdict is */
    PyObject *keeps;    /* what it only refers to, or NULL */
    PyObject *when_asked, *when_told;   /* what it calls then, the second with the kind of event; or NULL */
    atomic_int under_way;   /* how many calls of the hook and its callback use this */
} Data;

static PyObject *(*get_code)(Frame *);
static PyUnstable_FrameHookId (*install)(PyInterpreterState *,
                                         const PyUnstable_FrameHookDefinition *);
static int (*remove_hook)(PyInterpreterState *, PyUnstable_FrameHookId);
static PyObject *(*call_original)(PyObject *, PyObject *const *, size_t, PyObject *, int);

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
asked(Frame *frame, void *user_data, PyUnstable_FrameHookAnswer *answer)
{
    Data *data = user_data;
    PyObject *code = get_code(frame);
    Py_XDECREF(code);
    if (code != data->code) {
        return code == NULL ? PyUnstable_FRAMEHOOK_ERROR : PyUnstable_FRAMEHOOK_DISABLE;
    }
    atomic_fetch_add(&data->under_way, 1);
    int status = call(data->when_asked, NULL);
    atomic_fetch_sub(&data->under_way, 1);
    if (status < 0) {
        return PyUnstable_FRAMEHOOK_ERROR;
    }
    Word *word = calloc(1, sizeof(*word));
    if (word == NULL) {
        Py_FatalError("no memory for a word");
    }
    PyMutex_Lock(&lock);
    word->next = words;
    words = word;
    PyMutex_Unlock(&lock);
    answer->data = word;
    answer->events = data->tell;
    answer->scope = data->extent;
    answer->object = Py_XNewRef(data->object);
    if (data->verdict == PyUnstable_FRAMEHOOK_ERROR || data->raises) {
        PyErr_SetString(PyExc_ValueError, "the hook fails");
    }
    return data->verdict;
}

static int
told(const PyUnstable_FrameHookEvent *event, void *user_data)
{
    Data *data = user_data;
    Word *word = event->data;
    word->late += word->freed;
    if (event->kind == PyUnstable_FRAMEHOOK_YIELDED
        || event->kind == PyUnstable_FRAMEHOOK_RESUMED) {
        word->others++;
    }
    else {
        word->ends++;
    }
    int status = 0, fails = event->kind == data->fails;
    if (data->when_told != NULL) {
        word->under_way++;
        atomic_fetch_add(&data->under_way, 1);
        PyObject *kind = PyLong_FromLong(event->kind);
        status = kind == NULL ? -1 : call(data->when_told, kind);
        Py_XDECREF(kind);
        atomic_fetch_sub(&data->under_way, 1);
        word->under_way--;
        word->late += word->freed;
    }
    if (fails && status == 0) {
        PyErr_SetString(PyExc_ValueError, "the callback fails");
        return -1;
    }
    return status;
}

static void
free_data(void *freed)
{
    Word *word = freed;
    word->late += word->freed + (word->under_way > 0);
    word->freed++;
}

static void
free_data(void *user_data)
{
    Data *data = user_data;
    data_freed++;
    if (atomic_load(&data->under_way) > 0) {
        /* It stays, for who still uses it. */
        atomic_fetch_add(&data_freed_early, 1);
        return;
    }
    Py_DECREF(data->code);
    Py_XDECREF(data->object);
    Py_XDECREF(data->keeps);
    Py_XDECREF(data->when_asked);
    Py_XDECREF(data->when_told);
    free(data);
}

static PyObject *
add(PyObject *module, PyObject *args, PyObject *kwargs)
{
    (void)module;
    static char *names[] = {"code", "verdict", "tell", "extent", "object", "fails", "flags", "raises",
                            "keeps", "when_asked", "when_told", NULL};
    Data given = {.fails = -1};
    unsigned int flags = 0;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O!i|IIOiIpOOO:add", names, &PyCode_Type,
                                     &given.code, &given.verdict, &given.tell, &given.extent,
                                     &given.object, &given.fails, &flags, &given.raises, &given.keeps,
                                     &given.when_asked, &given.when_told)) {
        return NULL;
    }
    if (install == NULL) {
        PyErr_SetString(PyExc_RuntimeError, "there is no second edition of frame hooks here");
        return NULL;
    }
    Data *data = malloc(sizeof(*data));
    if (data == NULL) {
        return PyErr_NoMemory();
    }
    *data = given;
    Py_INCREF(data->code);
    Py_XINCREF(data->object);
    Py_XINCREF(data->keeps);
    Py_XINCREF(data->when_asked);
    Py_XINCREF(data->when_told);
    PyUnstable_FrameHookDefinition definition = {
        .size = sizeof(definition), .name = "word", .on_entry = asked, .on_event = told, .user_data = data,
        .free_user_data = free_data, .free_data = free_data, .flags = flags,
    };
    PyUnstable_FrameHookId id = install(PyInterpreterState_Get(), &definition);
    if (id < 0) {
        free_data(data);
        data_freed--;
        return NULL;
    }
    data_installed++;
    PyObject *handle = PyLong_FromLongLong(id);
    if (handle == NULL) {
        PyObject *raised = PyErr_GetRaisedException();
        remove_hook(PyInterpreterState_Get(), id);
        PyErr_SetRaisedException(raised);
    }
    return handle;
}

static PyObject *
remove_(PyObject *module, PyObject *handle)
{
    (void)module;
    long long id = PyLong_AsLongLong(handle);
    if ((id == -1 && PyErr_Occurred()) || remove_hook(PyInterpreterState_Get(), id) < 0) {
        return NULL;
    }
    Py_RETURN_NONE;
}

static PyObject *
original(PyObject *module, PyObject *const *arguments, Py_ssize_t count)
{
    (void)module;
    if (count < 2) {
        PyErr_SetString(PyExc_TypeError, "original() takes a truth, a callable and its arguments");
        return NULL;
    }
    return call_original(arguments[1], arguments + 2, (size_t)(count - 2), NULL,
                         PyObject_IsTrue(arguments[0]));
}

/* Since this was asked last: for each word (ends, others, freed, late), the first one first. */
static PyObject *
take_words(PyObject *module, PyObject *Py_UNUSED(ignored))
{
    (void)module;
    PyObject *list = PyList_New(0);
    while (list != NULL && words != NULL) {
        Word *word = words;
        PyObject *entry = Py_BuildValue("iiii", word->ends, word->others, word->freed, word->late);
        if (entry == NULL || PyList_Append(list, entry) < 0) {
            Py_CLEAR(list);
        }
        Py_XDECREF(entry);
        words = word->next;
        free(word);
    }
    if (list != NULL && PyList_Reverse(list) < 0) {
        Py_CLEAR(list);
    }
    return list;
}

/* Since this was asked last: how many hooks were installed, how often the data of one was freed. */
static PyObject *
take_data(PyObject *module, PyObject *Py_UNUSED(ignored))
{
    (void)module;
    PyObject *counts = Py_BuildValue("ii", data_installed, data_freed);
    data_installed = data_freed = 0;
    return counts;
}

/* Since this was asked last: how often the data of a hook was freed while a call of the hook used it. */
static PyObject *
take_early(PyObject *module, PyObject *Py_UNUSED(ignored))
{
    (void)module;
    return PyLong_FromLong(atomic_exchange(&data_freed_early, 0));
}

static PyMethodDef methods[] = {
    {"add", (PyCFunction)(void (*)(void))add, METH_VARARGS | METH_KEYWORDS,
     "Install a hook for one code object that answers that; its handle."},
    {"remove", remove_, METH_O, "Remove a hook."},
    {"original", (PyCFunction)(void (*)(void))original, METH_FASTCALL,
     "original(below, callable, *arguments): call it and ask no hook about it."},
    {"take_words", take_words, METH_NOARGS,
     "What became of each word: (ends, others, freed, late)."},
    {"take_data", take_data, METH_NOARGS,
     "How many hooks were installed, and how often the data of one was freed."},
    {"take_early", take_early, METH_NOARGS,
     "How often the data of a hook was freed while a call of the hook used it."},
    {NULL, NULL, 0, NULL},
};

static int
look_up(PyObject *module)
{
    (void)module;
    const struct {
        const char *name;
        void *place;
    } functions[] = {
        {"PyUnstable_FrameHook_GetCode", &get_code},
        {"PyUnstable_InstallFrameHook", &install},
        {"PyUnstable_RemoveFrameHookEx", &remove_hook},
        {"PyUnstable_FrameHook_CallUnhooked", &call_original},
    };
    for (size_t i = 0; i < sizeof(functions) / sizeof(*functions); i++) {
        void *found = dlsym(RTLD_DEFAULT, functions[i].name);
        memcpy(functions[i].place, &found, sizeof(found));
    }
    return 0;
}

static PyModuleDef_Slot slots[] = {
    {Py_mod_exec, look_up},
    {Py_mod_gil, Py_MOD_GIL_NOT_USED},
    {0, NULL},
};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, .m_name = "wordhooks", .m_methods = methods, .m_slots = slots,
};

PyMODINIT_FUNC
PyInit_wordhooks(void)
{
    return PyModuleDef_Init(&definition);
}
