/* watchhooks: hooks that benchmarks measure, each as small as a hook of its kind can be. */

#include "hooktesting.h"

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

static unsigned long long entries, events, ticks;     /* calls of entry and event callbacks; of the clock */

static int
passes(Frame *Py_UNUSED(frame), void *Py_UNUSED(data), PyUnstable_FrameHookAnswer *Py_UNUSED(answer))
{
    entries++;
    return PyUnstable_FRAMEHOOK_PASS;
}

static int
watches(Frame *Py_UNUSED(frame), void *Py_UNUSED(data), PyUnstable_FrameHookAnswer *answer)
{
    entries++;
    answer->events = PyUnstable_FRAMEHOOK_ON_EXIT;
    return PyUnstable_FRAMEHOOK_PASS;
}

static int
counts(const PyUnstable_FrameHookEvent *Py_UNUSED(event), void *Py_UNUSED(data))
{
    events++;
    return 0;
}

static int
starts_clock(Frame *Py_UNUSED(frame), void *Py_UNUSED(data), PyUnstable_FrameHookAnswer *answer)
{
    entries++;
    answer->events = PyUnstable_FRAMEHOOK_ON_EXIT;
    unsigned long long now = CLOCK();
    memcpy(&answer->data, &now, sizeof(answer->data));
    return PyUnstable_FRAMEHOOK_PASS;
}

static int
stops_clock(const PyUnstable_FrameHookEvent *event, void *Py_UNUSED(data))
{
    unsigned long long began = 0;
    memcpy(&began, &event->data, sizeof(event->data));
    ticks += CLOCK() - began;
    events++;
    return 0;
}

/* Functions, and the two code objects of each. */
static struct {
    PyObject *function, *code, *other;
} swaps[8];
static int swap_count;

/* Has the other code run each time. */
static int
exchanges(Frame *frame, void *Py_UNUSED(data), PyUnstable_FrameHookAnswer *answer)
{
    PyObject *code = code_of(frame);
    for (int i = 0; i < swap_count; i++) {
        if (code == swaps[i].code) {
            answer->object = Py_NewRef(swaps[i].other);
            return PyUnstable_FRAMEHOOK_REPLACE;
        }
    }
    return PyUnstable_FRAMEHOOK_DISABLE;
}

/* Gives None for one function, and is disabled for all others. */
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
add(PyObject *Py_UNUSED(module), PyObject *kind)
{
    static const struct {
        const char *name;
        PyUnstable_FrameHookEntryFunction on_entry;
        PyUnstable_FrameHookEventFunction on_event;
    } kinds[] = {{"pass", passes, NULL}, {"watch", watches, counts}, {"clock", starts_clock, stops_clock},
                 {"exchange", exchanges, NULL}};
    for (size_t i = 0; i < Py_ARRAY_LENGTH(kinds); i++) {
        if (PyUnicode_CompareWithASCIIString(kind, kinds[i].name) == 0) {
            return id_or_error(install(.name = "watchhooks", .on_entry = kinds[i].on_entry,
                                       .on_event = kinds[i].on_event));
        }
    }
    return PyErr_Format(PyExc_ValueError, "no hook of that kind: %R", kind);
}

/* The code object has to live as long as the hook. */
static PyObject *
add_result(PyObject *Py_UNUSED(module), PyObject *code)
{
    return id_or_error(install(.name = "watchhooks", .on_entry = answers, .user_data = code));
}

/* Reads the clock twice, `count` times: what the clock alone takes. */
static PyObject *
read_clock(PyObject *Py_UNUSED(module), PyObject *number)
{
    unsigned long long count = PyLong_AsUnsignedLongLong(number);
    for (unsigned long long i = 0; i < count; i++) {
        unsigned long long began = CLOCK();
        ticks += CLOCK() - began;
    }
    Py_RETURN_NONE;
}

/* A callback of sys.monitoring that counts, for what frame hooks are compared with. */
static PyObject *
note(PyObject *Py_UNUSED(module), PyObject *const *Py_UNUSED(arguments), Py_ssize_t Py_UNUSED(count))
{
    events++;
    Py_RETURN_NONE;
}

/* The same with a clock. Nothing joins start and end: the tool keeps a stack for each thread, and assumes that
   frames end in the reverse order of their starts. */
#define DEEPEST 4096
static _Thread_local unsigned long long began_at[DEEPEST];
static _Thread_local unsigned int depth;

static PyObject *
note_start(PyObject *Py_UNUSED(module), PyObject *const *Py_UNUSED(arguments), Py_ssize_t Py_UNUSED(count))
{
    entries++;
    began_at[depth++ % DEEPEST] = CLOCK();
    Py_RETURN_NONE;
}

static PyObject *
note_end(PyObject *Py_UNUSED(module), PyObject *const *Py_UNUSED(arguments), Py_ssize_t Py_UNUSED(count))
{
    ticks += CLOCK() - began_at[--depth % DEEPEST];
    events++;
    Py_RETURN_NONE;
}

/* A callback that swaps the code of a function when a frame of it starts, for the next call: each time, as a tool
   does that decides for each call. */
static PyObject *
add_swap(PyObject *Py_UNUSED(module), PyObject *args)
{
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
note_and_swap(PyObject *Py_UNUSED(module), PyObject *const *arguments, Py_ssize_t Py_UNUSED(count))
{
    for (int i = 0; i < swap_count; i++) {
        PyObject *next = arguments[0] == swaps[i].code ? swaps[i].other
                         : arguments[0] == swaps[i].other ? swaps[i].code : NULL;
        if (next != NULL) {
            events++;
            if (PyObject_SetAttrString(swaps[i].function, "__code__", next) < 0) {
                return NULL;
            }
        }
    }
    Py_RETURN_NONE;
}

static PyObject *
counters(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(ignored))
{
    return Py_BuildValue("KKK", entries, events, ticks);
}

static PyMethodDef methods[] = {
    {"add", add, METH_O, "Install a hook of the kind 'pass', 'watch', 'exchange' or 'clock', which reads the clock on entry "
                         "and exit; its id."},
    {"add_result", add_result, METH_O, "Install a hook that gives None for calls of a code object; its id."},
    {"read_clock", read_clock, METH_O, "Read the clock twice, so many times."},
    {"note", C_FUNCTION(note), METH_FASTCALL, "Count a call; takes any arguments."},
    {"note_start", C_FUNCTION(note_start), METH_FASTCALL, "Read the clock when a frame starts."},
    {"note_end", C_FUNCTION(note_end), METH_FASTCALL, "Read the clock when a frame ends."},
    {"add_swap", add_swap, METH_VARARGS, "add_swap(function, code, other): what is swapped or exchanged."},
    {"note_and_swap", C_FUNCTION(note_and_swap), METH_FASTCALL, "Give the function that starts its other code."},
    {"counters", counters, METH_NOARGS, "Return the calls of entry and event callbacks, and the clock's ticks."},
    {NULL, NULL, 0, NULL},
};

MODULE(watchhooks, "Hooks that benchmarks measure.",
       {Py_mod_multiple_interpreters, Py_MOD_MULTIPLE_INTERPRETERS_SUPPORTED})
