/* watchhooks: hooks of the second edition that benchmarks measure, each as small as a hook of its kind can be.
 *
 * Every function is looked up at run time, so that the module loads on a stock CPython too.
 */

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <cpython/framehook.h>
#include <dlfcn.h>
#include <string.h>

#ifdef __x86_64__
#  include <x86intrin.h>
#  define CLOCK() __rdtsc()
#else
#  include <time.h>
static unsigned long long
CLOCK(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000000000ULL + now.tv_nsec;
}
#endif

typedef struct _PyInterpreterFrame Frame;

static unsigned long long asked, told, ticks;

static int
passes(Frame *frame, void *data, PyUnstable_FrameHookAnswer *answer)
{
    (void)frame, (void)data, (void)answer;
    asked++;
    return PyUnstable_FRAMEHOOK_PASS;
}

static int
watches(Frame *frame, void *data, PyUnstable_FrameHookAnswer *answer)
{
    (void)frame, (void)data;
    asked++;
    answer->events = PyUnstable_FRAMEHOOK_ON_EXIT;
    return PyUnstable_FRAMEHOOK_PASS;
}

static int
counts(const PyUnstable_FrameHookEvent *event, void *data)
{
    (void)event, (void)data;
    told++;
    return 0;
}

static int
starts_clock(Frame *frame, void *data, PyUnstable_FrameHookAnswer *answer)
{
    (void)frame, (void)data;
    asked++;
    answer->events = PyUnstable_FRAMEHOOK_ON_EXIT;
    unsigned long long now = CLOCK();
    memcpy(&answer->data, &now, sizeof(answer->data));
    return PyUnstable_FRAMEHOOK_PASS;
}

static int
stops_clock(const PyUnstable_FrameHookEvent *event, void *data)
{
    (void)data;
    unsigned long long began = 0;
    memcpy(&began, &event->data, sizeof(event->data));
    ticks += CLOCK() - began;
    told++;
    return 0;
}

/* The code of a frame, borrowed. */
static PyObject *
code_of(Frame *frame)
{
    static PyObject *(*get_code)(Frame *);
    if (get_code == NULL) {
        void *found = dlsym(RTLD_DEFAULT, "PyUnstable_FrameHook_GetCode");
        memcpy(&get_code, &found, sizeof(found));
    }
    PyObject *code = get_code(frame);
    Py_XDECREF(code);
    return code;
}

/* Functions, and the two code objects of each. */
static struct {
    PyObject *function, *code, *other;
} swaps[8];
static int swap_count;

/* Has the other code run each time. */
static int
exchanges(Frame *frame, void *data, PyUnstable_FrameHookAnswer *answer)
{
    (void)data;
    PyObject *code = code_of(frame);
    for (int i = 0; i < swap_count; i++) {
        if (code == swaps[i].code) {
            answer->object = Py_NewRef(swaps[i].other);
            return PyUnstable_FRAMEHOOK_REPLACE;
        }
    }
    return PyUnstable_FRAMEHOOK_DISABLE;
}

/* Gives None for one function, and settles all others. */
static int
answers(Frame *frame, void *code, PyUnstable_FrameHookAnswer *answer)
{
    if (code_of(frame) != code) {
        return PyUnstable_FRAMEHOOK_DISABLE;
    }
    answer->object = Py_NewRef(Py_None);
    return PyUnstable_FRAMEHOOK_RESULT;
}

static PyObject *
install(PyUnstable_FrameHookEntryFunction ask, PyUnstable_FrameHookEventFunction tell, void *data)
{
    PyUnstable_FrameHookId (*install_hook)(PyInterpreterState *, const PyUnstable_FrameHookDefinition *);
    void *found = dlsym(RTLD_DEFAULT, "PyUnstable_InstallFrameHook");
    if (found == NULL) {
        PyErr_SetString(PyExc_RuntimeError, "this interpreter has no second edition of frame hooks");
        return NULL;
    }
    memcpy(&install_hook, &found, sizeof(found));
    PyUnstable_FrameHookDefinition definition = {
        .size = sizeof(definition), .name = "watchhooks", .on_entry = ask, .on_event = tell, .user_data = data,
    };
    long long id = install_hook(PyInterpreterState_Get(), &definition);
    return id < 0 ? NULL : PyLong_FromLongLong(id);
}

static PyObject *
add(PyObject *module, PyObject *kind)
{
    (void)module;
    static const struct {
        const char *name;
        PyUnstable_FrameHookEntryFunction ask;
        PyUnstable_FrameHookEventFunction tell;
    } kinds[] = {{"pass", passes, NULL}, {"watch", watches, counts}, {"clock", starts_clock, stops_clock},
                 {"exchange", exchanges, NULL}};
    for (size_t i = 0; i < sizeof(kinds) / sizeof(*kinds); i++) {
        if (PyUnicode_CompareWithASCIIString(kind, kinds[i].name) == 0) {
            return install(kinds[i].ask, kinds[i].tell, NULL);
        }
    }
    return PyErr_Format(PyExc_ValueError, "no hook of that kind: %R", kind);
}

/* The code object has to live as long as the hook. */
static PyObject *
add_result(PyObject *module, PyObject *code)
{
    (void)module;
    return install(answers, NULL, code);
}

/* Two readings of the clock for each of `count` rounds: what the clock alone takes. */
static PyObject *
read_clock(PyObject *module, PyObject *number)
{
    (void)module;
    unsigned long long count = PyLong_AsUnsignedLongLong(number);
    for (unsigned long long i = 0; i < count; i++) {
        unsigned long long began = CLOCK();
        ticks += CLOCK() - began;
    }
    Py_RETURN_NONE;
}

/* A callback of sys.monitoring that counts, for what frame hooks are compared with. */
static PyObject *
note(PyObject *module, PyObject *const *arguments, Py_ssize_t count)
{
    (void)module, (void)arguments, (void)count;
    told++;
    Py_RETURN_NONE;
}

/* The same with a clock. Nothing joins a beginning and an end: the tool keeps a stack for each thread,
   and takes it for granted that frames end in the order in which they began. */
#define DEEPEST 4096
static _Thread_local unsigned long long began_at[DEEPEST];
static _Thread_local unsigned int depth;

static PyObject *
note_start(PyObject *module, PyObject *const *arguments, Py_ssize_t count)
{
    (void)module, (void)arguments, (void)count;
    asked++;
    began_at[depth++ % DEEPEST] = CLOCK();
    Py_RETURN_NONE;
}

static PyObject *
note_end(PyObject *module, PyObject *const *arguments, Py_ssize_t count)
{
    (void)module, (void)arguments, (void)count;
    ticks += CLOCK() - began_at[--depth % DEEPEST];
    told++;
    Py_RETURN_NONE;
}

/* A callback that swaps the code of a function as it begins, for its next call: each time, as a tool
   does that decides for each call. */
static PyObject *
add_swap(PyObject *module, PyObject *args)
{
    (void)module;
    PyObject *function, *code, *other;
    if (!PyArg_ParseTuple(args, "OOO", &function, &code, &other)) {
        return NULL;
    }
    if (swap_count == 8) {
        PyErr_SetString(PyExc_ValueError, "eight functions are enough");
        return NULL;
    }
    swaps[swap_count].function = Py_NewRef(function);
    swaps[swap_count].code = Py_NewRef(code);
    swaps[swap_count++].other = Py_NewRef(other);
    Py_RETURN_NONE;
}

static PyObject *
note_and_swap(PyObject *module, PyObject *const *arguments, Py_ssize_t count)
{
    (void)module, (void)count;
    for (int i = 0; i < swap_count; i++) {
        PyObject *next = arguments[0] == swaps[i].code ? swaps[i].other
                         : arguments[0] == swaps[i].other ? swaps[i].code : NULL;
        if (next != NULL) {
            told++;
            if (PyObject_SetAttrString(swaps[i].function, "__code__", next) < 0) {
                return NULL;
            }
        }
    }
    Py_RETURN_NONE;
}

static PyObject *
counters(PyObject *module, PyObject *Py_UNUSED(ignored))
{
    (void)module;
    return Py_BuildValue("KKK", asked, told, ticks);
}

static PyMethodDef methods[] = {
    {"add", add, METH_O, "Install a hook that says 'pass', 'watch' or 'exchange', or reads the 'clock' at both ends; its handle."},
    {"add_result", add_result, METH_O, "Install a hook that gives None for calls of a code object; its handle."},
    {"read_clock", read_clock, METH_O, "Read the clock twice, so many times."},
    {"note", (PyCFunction)(void (*)(void))note, METH_FASTCALL, "Count a call; takes any arguments."},
    {"note_start", (PyCFunction)(void (*)(void))note_start, METH_FASTCALL, "Read the clock at a beginning."},
    {"note_end", (PyCFunction)(void (*)(void))note_end, METH_FASTCALL, "Read the clock at an end."},
    {"add_swap", add_swap, METH_VARARGS, "add_swap(function, code, other): what is swapped or exchanged."},
    {"note_and_swap", (PyCFunction)(void (*)(void))note_and_swap, METH_FASTCALL,
     "Give the function that begins its other code."},
    {"counters", counters, METH_NOARGS, "Return how often hooks were asked and told, and the clock's ticks."},
    {NULL, NULL, 0, NULL},
};

static PyModuleDef_Slot slots[] = {
    {Py_mod_gil, Py_MOD_GIL_NOT_USED},
    {0, NULL},
};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, .m_name = "watchhooks", .m_methods = methods, .m_slots = slots,
};

PyMODINIT_FUNC
PyInit_watchhooks(void)
{
    return PyModuleDef_Init(&definition);
}
