/* suitewatch.h: the hook "watch" of suitehooks. It gives each frame data of its own, and watches it for all events. Its
 * callbacks end the process if
 * - an event has an unknown kind, another code, no value or one that it should not have, or comes in another interpreter;
 * - the events of a frame are in an order that is impossible, or one follows the frame's exit event;
 * - data is freed twice, during a callback for its frame, or before the frame's exit event;
 * - a function's frame ends in another thread than it began in, or is dropped although its thread still runs;
 * - the collector visits data whose frame is not a suspended generator's;
 * - an answer is not empty, or an exception is set, when a callback is called;
 * - it is called once its user data is freed.
 * No data may be left when the runtime is finalized.
 *
 * The data of a frame is an index of a table, with the entry's generation number above it. Entries are used again, and
 * their memory is never freed, so that wrong data is detected and not dereferenced. The table has no lock: a forked child
 * may be without the thread that held it. Its memory comes from the C library, since tests count what Python's allocators
 * give. */

#include <stdarg.h>
#include <stdlib.h>

/* The state of a watched frame. NEW: not watched yet. OVER: its exit event was delivered. */
enum { WRONG, NEW, PLAIN, CREATED, RUNNING, SUSPENDED, OVER, STATES };
#define KINDS (PyUnstable_FRAMEHOOK_DROPPED + 1)

/* What an event makes of a state. PLAIN is the frame of code that makes no generator of any kind. */
static const unsigned char after[STATES][KINDS] = {
    [PLAIN] = {[PyUnstable_FRAMEHOOK_RETURNED] = OVER,
               [PyUnstable_FRAMEHOOK_RAISED] = OVER,
               [PyUnstable_FRAMEHOOK_DROPPED] = OVER},
    [CREATED] = {[PyUnstable_FRAMEHOOK_RESUMED] = RUNNING, [PyUnstable_FRAMEHOOK_DROPPED] = OVER},
    [RUNNING] = {[PyUnstable_FRAMEHOOK_RETURNED] = OVER,
                 [PyUnstable_FRAMEHOOK_RAISED] = OVER,
                 [PyUnstable_FRAMEHOOK_YIELDED] = SUSPENDED,
                 [PyUnstable_FRAMEHOOK_DROPPED] = OVER},
    [SUSPENDED] = {[PyUnstable_FRAMEHOOK_RESUMED] = RUNNING, [PyUnstable_FRAMEHOOK_DROPPED] = OVER},
};
static const char *const state_names[STATES] = {"wrong", "new", "plain", "created", "running", "suspended", "over"};

/* Of one interpreter. Never freed, so that a call that comes too late finds it. */
typedef struct {
    int64_t interpreter;
    atomic_bool is_gone;        /* free_user_data was called */
} Watcher;

typedef struct {
    atomic_ullong generation;   /* odd: in use */
    atomic_uint next;           /* free entry, plus 1; 0: none */
    Watcher *watcher;
    PyObject *code;             /* borrowed, for its address */
    uint64_t thread;            /* in which it began */
    unsigned char state;
    bool is_in_event;               /* its event callback runs */
} Entry;

#define INDEX_BITS 24
#define INDEX_MASK ((1u << INDEX_BITS) - 1)
#define CHUNK_BITS 12
#define CHUNK_ENTRIES (1u << CHUNK_BITS)

static _Atomic(Entry *) chunks[1u << (INDEX_BITS - CHUNK_BITS)];
static atomic_uint entries_made;
static atomic_ullong free_head;     /* the first free entry, plus 1, below a number that changes each time */
static atomic_llong data_in_use;

/* The end of the process. */
_Py_NO_RETURN static void
give_up(const char *format, ...)
{
    char text[1000];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof(text), format, arguments);
    va_end(arguments);
    _Py_FatalErrorFunc("suitehooks", text);
}

static Entry *
entry_at(unsigned int index)
{
    _Atomic(Entry *) *place = &chunks[index >> CHUNK_BITS];
    Entry *chunk = atomic_load(place);
    if (chunk == NULL) {
        Entry *made = calloc(CHUNK_ENTRIES, sizeof(Entry));
        if (made == NULL) {
            give_up("no memory for the data of frames");
        }
        if (atomic_compare_exchange_strong(place, &chunk, made)) {
            chunk = made;
        }
        else {
            free(made);
        }
    }
    return &chunk[index & (CHUNK_ENTRIES - 1)];
}

static unsigned int
take_index(void)
{
    unsigned long long head = atomic_load(&free_head);
    while (head & INDEX_MASK) {
        unsigned int index = (head & INDEX_MASK) - 1;
        unsigned long long then = ((head >> INDEX_BITS) + 1) << INDEX_BITS | atomic_load(&entry_at(index)->next);
        if (atomic_compare_exchange_weak(&free_head, &head, then)) {
            return index;
        }
    }
    unsigned int index = atomic_fetch_add(&entries_made, 1);
    if (index >= INDEX_MASK) {
        give_up("too many frames are watched");
    }
    return index;
}

static void
give_back_index(unsigned int index)
{
    unsigned long long head = atomic_load(&free_head), then;
    do {
        atomic_store(&entry_at(index)->next, (unsigned int)(head & INDEX_MASK));
        then = ((head >> INDEX_BITS) + 1) << INDEX_BITS | (index + 1);
    } while (!atomic_compare_exchange_weak(&free_head, &head, then));
}

/* The entry of data that was given to a frame and is not freed. */
static Entry *
entry_of(void *data, const char *when)
{
    uintptr_t number = (uintptr_t)data;
    unsigned int index = number & INDEX_MASK;
    Entry *entry = index < atomic_load(&entries_made) ? entry_at(index) : NULL;
    if (entry == NULL || (entry->generation & (UINTPTR_MAX >> INDEX_BITS)) != number >> INDEX_BITS) {
        give_up("%s: data %p is freed, or was never given", when, data);
    }
    return entry;
}

/* Whether the calling thread is attached, to the interpreter of that hook. */
static void
check_place(Watcher *watcher, const char *when)
{
    PyThreadState *thread = PyThreadState_GetUnchecked();
    if (thread == NULL) {
        give_up("%s: no thread state is attached", when);
    }
    if (PyInterpreterState_GetID(thread->interp) != watcher->interpreter) {
        give_up("%s: it is another interpreter", when);
    }
    if (PyErr_Occurred()) {
        PyErr_Print();
        give_up("%s: an exception is set", when);
    }
}

static bool
is_ending(PyInterpreterState *interpreter)
{
    return Py_IsFinalizing() || _PyInterpreterState_GetFinalizing(interpreter) != NULL;
}

/* Whether allocations may be made to fail now: then CPython's allocators are not those of the beginning. */
static void *first_malloc;

static void *
current_malloc(void)
{
    PyMemAllocatorEx allocator;
    PyMem_GetAllocator(PYMEM_DOMAIN_RAW, &allocator);
    return (void *)allocator.malloc;
}

/* The state in which the watch of a frame begins. A module that awaits makes a coroutine, and its frame has ended then. */
static unsigned char
first_state(PyCodeObject *code)
{
    int makes_generator = code->co_flags & (CO_GENERATOR | CO_COROUTINE | CO_ASYNC_GENERATOR);
    return makes_generator && code->co_flags & CO_OPTIMIZED ? CREATED : PLAIN;
}

/* New data, for a frame of that code. */
static void *
give_data(Watcher *watcher, PyCodeObject *code)
{
    unsigned int index = take_index();
    Entry *entry = entry_at(index);
    entry->watcher = watcher;
    entry->code = (PyObject *)code;
    entry->thread = PyThreadState_Get()->id;
    entry->state = first_state(code);
    entry->is_in_event = false;
    unsigned long long generation = atomic_fetch_add(&entry->generation, 1) + 1;
    atomic_fetch_add(&data_in_use, 1);
    return (void *)((uintptr_t)generation << INDEX_BITS | index);
}

static int
watch_frame(Frame *frame, void *user_data, PyUnstable_FrameHookAnswer *answer)
{
    Watcher *watcher = user_data;
    check_place(watcher, "called about a frame");
    if (atomic_load(&watcher->is_gone)) {
        give_up("called about a frame: the user data is freed");
    }
    if (answer->object != NULL || answer->data != NULL || answer->events != 0 || answer->scope != 0) {
        give_up("called about a frame: the answer is not empty");
    }
    PyObject *code = PyUnstable_FrameHook_GetCode(frame);
    if (code == NULL) {
        give_up("called about a frame: it cannot be read");
    }
    answer->data = give_data(watcher, (PyCodeObject *)code);
    Py_DECREF(code);
    answer->events = PyUnstable_FRAMEHOOK_ON_EXIT | PyUnstable_FRAMEHOOK_ON_YIELD | PyUnstable_FRAMEHOOK_ON_RESUME;
    return PyUnstable_FRAMEHOOK_PASS;
}

/* Whether the event has a value where it should, and none elsewhere. */
static bool
has_right_value(const PyUnstable_FrameHookEvent *event)
{
    switch (event->kind) {
    case PyUnstable_FRAMEHOOK_RETURNED:
    case PyUnstable_FRAMEHOOK_YIELDED:
        return event->value != NULL && Py_REFCNT(event->value) > 0 && Py_TYPE(event->value) != NULL;
    case PyUnstable_FRAMEHOOK_RAISED:
        return event->value != NULL && Py_REFCNT(event->value) > 0 && PyExceptionInstance_Check(event->value);
    default:
        return event->value == NULL;
    }
}

/* Where a function's frame may end: in its thread. It is dropped with its thread only. */
static bool
ends_in_right_thread(Entry *entry, int kind)
{
    PyThreadState *thread = PyThreadState_Get();
    if (is_ending(thread->interp)) {
        return true;
    }
    return (entry->thread == thread->id) == (kind != PyUnstable_FRAMEHOOK_DROPPED);
}

/* The state after an event; WRONG if that cannot happen in this state. */
static unsigned char
next_state(Entry *entry, const PyUnstable_FrameHookEvent *event)
{
    if (entry->state == CREATED && event->kind == PyUnstable_FRAMEHOOK_RAISED
        && PyErr_GivenExceptionMatches(event->value, PyExc_MemoryError))
    {
        return OVER;        /* the generator could not be made */
    }
    return after[entry->state][event->kind];
}

static int
check_event(const PyUnstable_FrameHookEvent *event, void *user_data)
{
    Watcher *watcher = user_data;
    check_place(watcher, "an event");
    if (event->kind < 0 || event->kind >= KINDS) {
        give_up("an event: unknown kind %d", event->kind);
    }
    Entry *entry = entry_of(event->data, "an event");
    if (entry->watcher != watcher) {
        give_up("an event: it is another hook's");
    }
    if (atomic_load(&watcher->is_gone)) {
        give_up("an event: the user data is freed");
    }
    if (event->code == NULL || event->code != entry->code || !PyCode_Check(event->code)) {
        give_up("an event of kind %d: it is not the frame's code", event->kind);
    }
    const char *name = PyUnicode_AsUTF8(((PyCodeObject *)event->code)->co_qualname);
    if (name == NULL) {
        PyErr_Clear();
        name = "?";
    }
    if (entry->is_in_event) {
        give_up("an event of kind %d of %s: another is in progress", event->kind, name);
    }
    entry->is_in_event = true;
    if (!has_right_value(event)) {
        give_up("an event of kind %d of %s: value %p", event->kind, name, (void *)event->value);
    }
    if (entry->state == PLAIN && !ends_in_right_thread(entry, event->kind)) {
        give_up("an event of kind %d of %s: in thread %llu, began in %llu", event->kind, name,
                (unsigned long long)PyThreadState_Get()->id, (unsigned long long)entry->thread);
    }
    unsigned char next = next_state(entry, event);
    if (next == WRONG) {
        give_up("an event of kind %d of %s, which is %s", event->kind, name, state_names[entry->state]);
    }
    entry->state = next;
    entry->is_in_event = false;
    return 0;
}

static void
free_checked_data(void *data)
{
    Entry *entry = entry_of(data, "data is freed");
    Watcher *watcher = entry->watcher;
    check_place(watcher, "data is freed");
    if (entry->is_in_event) {
        give_up("data is freed during a callback");
    }
    /* Where there is no memory for the watch, or for the generator, the call fails and there is no event. */
    bool has_begun = entry->state != CREATED && entry->state != PLAIN;
    bool may_have_failed = !has_begun && current_malloc() != first_malloc;
    if (entry->state != OVER && !may_have_failed && !atomic_load(&watcher->is_gone)) {
        give_up("data is freed while its frame is %s", state_names[entry->state]);
    }
    atomic_fetch_add(&entry->generation, 1);
    atomic_fetch_sub(&data_in_use, 1);
    give_back_index((uintptr_t)data & INDEX_MASK);
}

/* The collector comes through a generator that is suspended. */
static int
traverse_checked_data(void *data, visitproc visit, void *argument)
{
    (void)visit, (void)argument;
    Entry *entry = entry_of(data, "data is visited");
    if (entry->is_in_event) {
        give_up("data is visited during a callback");
    }
    if (entry->state != CREATED && entry->state != SUSPENDED) {
        give_up("data is visited while its frame is %s", state_names[entry->state]);
    }
    return 0;
}

static void
free_watcher(void *user_data)
{
    Watcher *watcher = user_data;
    check_place(watcher, "the user data is freed");
    if (atomic_exchange(&watcher->is_gone, true)) {
        give_up("the user data is freed twice");
    }
}

/* The runtime has ended. */
static void
check_that_no_data_is_left(void)
{
    long long left = atomic_load(&data_in_use);
    if (left != 0) {
        fprintf(stderr, "Fatal Python error: suitehooks: data of %lld frames is not freed at the end\n", left);
        abort();
    }
}

/* What watches the frames of the calling interpreter; NULL with an exception. */
static Watcher *
new_watcher(void)
{
    Watcher *watcher = calloc(1, sizeof(Watcher));
    if (watcher == NULL) {
        PyErr_NoMemory();
        return NULL;
    }
    watcher->interpreter = PyInterpreterState_GetID(PyInterpreterState_Get());
    return watcher;
}

static PyUnstable_FrameHookId
add_watch(const char *name)
{
    Watcher *watcher = new_watcher();
    if (watcher == NULL) {
        return -1;
    }
    if (PyInterpreterState_Get() == PyInterpreterState_Main() && Py_AtExit(check_that_no_data_is_left) < 0) {
        PyErr_SetString(PyExc_RuntimeError, "too many functions are called at the end");
        free(watcher);
        return -1;
    }
    PyUnstable_FrameHookId id = install(
        .name = name, .on_entry = watch_frame, .on_event = check_event, .user_data = watcher,
        .free_user_data = free_watcher, .free_data = free_checked_data, .traverse_data = traverse_checked_data);
    if (id < 0) {
        free(watcher);
    }
    return id;
}

/* misuse(what, code): a call of a callback of "watch" that must end the process; for the tests of these checks. */
static PyObject *
misuse(PyObject *Py_UNUSED(module), PyObject *arguments)
{
    const char *what;
    PyObject *code;
    if (!PyArg_ParseTuple(arguments, "sO!:misuse", &what, &PyCode_Type, &code)) {
        return NULL;
    }
    Watcher *watcher = new_watcher();
    if (watcher == NULL) {
        return NULL;
    }
    void *data = give_data(watcher, (PyCodeObject *)code);
    PyUnstable_FrameHookEvent event = {
        .kind = PyUnstable_FRAMEHOOK_RETURNED, .value = Py_None, .code = code, .data = data,
    };
    bool is_known = false;
#define MISUSE(name, ...) if (strcmp(what, name) == 0) { is_known = true; __VA_ARGS__; }
    MISUSE("unknown kind", event.kind = KINDS)
    MISUSE("no value", event.value = NULL)
    MISUSE("no exception", event.kind = PyUnstable_FRAMEHOOK_RAISED)
    MISUSE("a value of a drop", event.kind = PyUnstable_FRAMEHOOK_DROPPED)
    MISUSE("order", event.kind = PyUnstable_FRAMEHOOK_YIELDED)
    MISUSE("other code", event.code = NULL)
    MISUSE("end twice", check_event(&event, watcher))
    MISUSE("other thread", entry_of(data, what)->thread++)
    MISUSE("dropped in its thread", event.kind = PyUnstable_FRAMEHOOK_DROPPED; event.value = NULL)
    MISUSE("other interpreter", watcher->interpreter++)
    MISUSE("exception", PyErr_SetNone(PyExc_KeyError))
    MISUSE("during a callback", entry_of(data, what)->is_in_event = true)
    MISUSE("after the user data", free_watcher(watcher))
    MISUSE("user data twice", free_watcher(watcher); free_watcher(watcher))
    MISUSE("visited while it runs", traverse_checked_data(data, NULL, NULL))
    MISUSE("freed early", free_checked_data(data))
    MISUSE("freed twice", check_event(&event, watcher); free_checked_data(data); free_checked_data(data))
    MISUSE("after the data", check_event(&event, watcher); free_checked_data(data))
    MISUSE("freed during a callback", entry_of(data, what)->is_in_event = true; free_checked_data(data))
    MISUSE("left", Py_AtExit(check_that_no_data_is_left); Py_RETURN_NONE)
#undef MISUSE
    if (!is_known) {
        return PyErr_Format(PyExc_ValueError, "no such misuse: %s", what);
    }
    check_event(&event, watcher);
    Py_RETURN_NONE;
}
