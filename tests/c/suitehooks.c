/* suitehooks: the frame hooks with which CPython's own tests are run; see tests/hooked.
 *
 * add(kind) installs one for the calling interpreter, which keeps it to its end:
 * - "copy" has an equal copy of each code object run in its place. A code object owns its copy, in an extra slot, so
 *   that the copy is specialized as the original would be. What `_co_code_adaptive` shows, for dis, are the instructions
 *   of the copy then: those that run. The hook is disabled for the copies.
 * - "observe" looks for frames, and then does as "copy". On every call C code looks at the topmost frames, and keeps some
 *   beyond their calls. On some calls the function that add() was given looks from Python: see suiteobserver.py.
 * - "pass" lets everything run as it is, and wants to be asked again.
 * - "watch" watches every frame, with yields and resumptions, and checks each call of its callbacks; see below.
 * For a hook in Python that does the same (suitewatcher.py) there are Word, excused() and fatal().
 * Where the interpreter has no frame hooks, add() does nothing.
 */

#define PY_SSIZE_T_CLEAN
#define Py_BUILD_CORE_MODULE    /* for what a frame object is about, and whether an interpreter ends */
#include <Python.h>
#include <cpython/framehook.h>
#include <dlfcn.h>
#include <internal/pycore_frame.h>
#include <internal/pycore_interp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <string.h>

typedef struct _PyInterpreterFrame Frame;

static __typeof__(PyUnstable_AddFrameHookEx) *add_hook;
static __typeof__(PyUnstable_FrameHook_DisableForCode) *disable_for_code;
static __typeof__(PyUnstable_FrameHook_GetCode) *get_code;
static __typeof__(PyUnstable_InstallFrameHook) *install_hook;

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
static int
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

static int
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

static int
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

/* ---- Watching every frame --------------------------------------------------------------------------------------- */

/* The hook "watch" gives each frame a word of its own, and asks for all events. Its callbacks end the process if
 * - an event has an unknown kind, another code, no value or one that it should not have, or comes in another interpreter;
 * - the events of a frame are in an order that is impossible, or one follows the frame's end;
 * - a word is freed twice, during a callback for its frame, or before the frame's end was told;
 * - a function's frame ends in another thread than it began in, or is dropped although its thread goes on;
 * - the collector visits a word whose frame is not a suspended generator's;
 * - an answer is not empty, or an exception is set, when a callback is called;
 * - it is called once its user data is freed.
 * At the end of the runtime no word may be left.
 *
 * A word is the number of an entry of a table, below the entry's generation. Entries are used again, and their memory is
 * never freed, so that a wrong word is noticed and leads nowhere. The table has no lock: a child that was forked may be
 * without the thread that held it. Its memory comes from the C library, since tests count what Python's allocators give. */

/* The state of a watched frame. NEW: as yet nobody watches it. OVER: its end was told. */
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
    bool is_told;               /* a callback is under way */
} Entry;

#define INDEX_BITS 24
#define INDEX_MASK ((1u << INDEX_BITS) - 1)
#define CHUNK_BITS 12
#define CHUNK_ENTRIES (1u << CHUNK_BITS)

static _Atomic(Entry *) chunks[1u << (INDEX_BITS - CHUNK_BITS)];
static atomic_uint entries_made;
static atomic_ullong free_head;     /* the first free entry, plus 1, below a number that changes each time */
static atomic_llong words_in_use;

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
            give_up("no memory for words");
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

/* The entry of a word that was given and is not freed. */
static Entry *
entry_of(void *word, const char *when)
{
    uintptr_t number = (uintptr_t)word;
    unsigned int index = number & INDEX_MASK;
    Entry *entry = index < atomic_load(&entries_made) ? entry_at(index) : NULL;
    if (entry == NULL || (entry->generation & (UINTPTR_MAX >> INDEX_BITS)) != number >> INDEX_BITS) {
        give_up("%s: word %p is freed, or was never given", when, word);
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

/* A new word, for a frame of that code. */
static void *
give_word(Watcher *watcher, PyCodeObject *code)
{
    unsigned int index = take_index();
    Entry *entry = entry_at(index);
    entry->watcher = watcher;
    entry->code = (PyObject *)code;
    entry->thread = PyThreadState_Get()->id;
    entry->state = first_state(code);
    entry->is_told = false;
    unsigned long long generation = atomic_fetch_add(&entry->generation, 1) + 1;
    atomic_fetch_add(&words_in_use, 1);
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
    PyObject *code = get_code(frame);
    if (code == NULL) {
        give_up("called about a frame: it cannot be read");
    }
    answer->data = give_word(watcher, (PyCodeObject *)code);
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
    if (entry->is_told) {
        give_up("an event of kind %d of %s: another is under way", event->kind, name);
    }
    entry->is_told = true;
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
    entry->is_told = false;
    return 0;
}

static void
free_checked_word(void *word)
{
    Entry *entry = entry_of(word, "a word is freed");
    Watcher *watcher = entry->watcher;
    check_place(watcher, "a word is freed");
    if (entry->is_told) {
        give_up("a word is freed during a callback");
    }
    /* Where there is no memory for the watch, or for the generator, the call fails and there is no event. */
    bool has_begun = entry->state != CREATED && entry->state != PLAIN;
    bool may_have_failed = !has_begun && current_malloc() != first_malloc;
    if (entry->state != OVER && !may_have_failed && !atomic_load(&watcher->is_gone)) {
        give_up("a word is freed while its frame is %s", state_names[entry->state]);
    }
    atomic_fetch_add(&entry->generation, 1);
    atomic_fetch_sub(&words_in_use, 1);
    give_back_index((uintptr_t)word & INDEX_MASK);
}

/* The collector comes through a generator that is suspended. */
static int
traverse_checked_word(void *word, visitproc visit, void *argument)
{
    (void)visit, (void)argument;
    Entry *entry = entry_of(word, "a word is visited");
    if (entry->is_told) {
        give_up("a word is visited during a callback");
    }
    if (entry->state != CREATED && entry->state != SUSPENDED) {
        give_up("a word is visited while its frame is %s", state_names[entry->state]);
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
check_that_no_word_is_left(void)
{
    long long left = atomic_load(&words_in_use);
    if (left != 0) {
        fprintf(stderr, "Fatal Python error: suitehooks: %lld words are not freed at the end\n", left);
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
    if (install_hook == NULL) {
        PyErr_SetString(PyExc_RuntimeError, "no frame can be watched here");
        return -1;
    }
    Watcher *watcher = new_watcher();
    if (watcher == NULL) {
        return -1;
    }
    PyInterpreterState *interpreter = PyInterpreterState_Get();
    if (interpreter == PyInterpreterState_Main() && Py_AtExit(check_that_no_word_is_left) < 0) {
        PyErr_SetString(PyExc_RuntimeError, "too many functions are called at the end");
        free(watcher);
        return -1;
    }
    PyUnstable_FrameHookDefinition definition = {
        .size = sizeof(definition), .name = name, .on_entry = watch_frame, .on_event = check_event, .user_data = watcher,
        .free_user_data = free_watcher, .free_data = free_checked_word,
        .traverse_data = traverse_checked_word,
    };
    PyUnstable_FrameHookId id = install_hook(interpreter, &definition);
    if (id < 0) {
        free(watcher);
    }
    return id;
}

/* misuse(what, code): a call of a callback of "watch" that must end the process; for the tests of these checks. */
static PyObject *
misuse(PyObject *module, PyObject *arguments)
{
    (void)module;
    const char *what;
    PyObject *code;
    if (!PyArg_ParseTuple(arguments, "sO!:misuse", &what, &PyCode_Type, &code)) {
        return NULL;
    }
    Watcher *watcher = new_watcher();
    if (watcher == NULL) {
        return NULL;
    }
    void *word = give_word(watcher, (PyCodeObject *)code);
    PyUnstable_FrameHookEvent event = {
        .kind = PyUnstable_FRAMEHOOK_RETURNED, .value = Py_None, .code = code, .word = word,
    };
#define IS(name) (strcmp(what, name) == 0)
    if (IS("unknown kind")) {
        event.kind = KINDS;
    }
    else if (IS("no value")) {
        event.value = NULL;
    }
    else if (IS("no exception")) {
        event.kind = PyUnstable_FRAMEHOOK_RAISED;
    }
    else if (IS("a value of a drop")) {
        event.kind = PyUnstable_FRAMEHOOK_DROPPED;
    }
    else if (IS("order")) {
        event.kind = PyUnstable_FRAMEHOOK_YIELDED;
    }
    else if (IS("other code")) {
        event.code = NULL;
    }
    else if (IS("end twice")) {
        check_event(&event, watcher);
    }
    else if (IS("other thread")) {
        entry_of(word, what)->thread++;
    }
    else if (IS("dropped in its thread")) {
        event.kind = PyUnstable_FRAMEHOOK_DROPPED;
        event.value = NULL;
    }
    else if (IS("other interpreter")) {
        watcher->interpreter++;
    }
    else if (IS("exception")) {
        PyErr_SetNone(PyExc_KeyError);
    }
    else if (IS("during a callback")) {
        entry_of(word, what)->is_told = true;
    }
    else if (IS("after the user data")) {
        free_watcher(watcher);
    }
    else if (IS("user data twice")) {
        free_watcher(watcher);
        free_watcher(watcher);
    }
    else if (IS("visited while it runs")) {
        traverse_checked_word(word, NULL, NULL);
    }
    else if (IS("freed early")) {
        free_checked_word(word);
    }
    else if (IS("freed twice") || IS("after the word")) {
        check_event(&event, watcher);
        free_checked_word(word);
        if (IS("freed twice")) {
            free_checked_word(word);
        }
    }
    else if (IS("freed during a callback")) {
        entry_of(word, what)->is_told = true;
        free_checked_word(word);
    }
    else if (IS("left")) {
        Py_AtExit(check_that_no_word_is_left);
        Py_RETURN_NONE;
    }
    else {
        return PyErr_Format(PyExc_ValueError, "no such misuse: %s", what);
    }
#undef IS
    check_event(&event, watcher);
    Py_RETURN_NONE;
}

/* ---- For a hook in Python that watches every frame ---------------------------------------------------------------- */

/* What the module keeps in each interpreter. */
typedef struct {
    PyObject *word_type;
    PyObject *frame_hooks;      /* _framecore's function; NULL: no hook in Python watches */
    PyObject *id;               /* of that hook */
    unsigned long long excuses; /* how many of its errors have excused something */
} State;

/* A word: the state of a frame, which the hook's callback keeps, and its code. Not known to the garbage collector, so that
 * no collection comes at another time. */
typedef struct {
    PyObject_HEAD
    PyObject *code;
    int state;
} Word;

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
new_word(PyTypeObject *type, PyObject *arguments, PyObject *names)
{
    PyObject *code;
    if (names != NULL || !PyArg_ParseTuple(arguments, "O!:Word", &PyCode_Type, &code)) {
        return PyErr_Occurred() ? NULL : PyErr_Format(PyExc_TypeError, "a word has no named arguments");
    }
    Word *word = (Word *)type->tp_alloc(type, 0);
    if (word != NULL) {
        word->code = Py_NewRef(code);
        word->state = NEW;
    }
    return (PyObject *)word;
}

static void
free_data_object(PyObject *self)
{
    Word *word = (Word *)self;
    PyTypeObject *type = Py_TYPE(self);
    if (word->state != OVER && word->state != NEW) {
        bool may_have_failed = (word->state == CREATED || word->state == PLAIN) && current_malloc() != first_malloc;
        if (!may_have_failed && !is_excused(PyType_GetModuleState(type))) {
            give_up("a word is freed while its frame is %s", state_names[word->state]);
        }
    }
    Py_XDECREF(word->code);
    type->tp_free(self);
    Py_DECREF(type);
}

/* The watch has begun. */
static PyObject *
word_begin(PyObject *self, PyObject *ignored)
{
    (void)ignored;
    Word *word = (Word *)self;
    word->state = first_state((PyCodeObject *)word->code);
    Py_RETURN_NONE;
}

static PyMethodDef word_methods[] = {
    {"begin", word_begin, METH_NOARGS, "The frame is watched from now on."},
    {NULL, NULL, 0, NULL},
};

static PyMemberDef word_members[] = {
    {"code", Py_T_OBJECT_EX, offsetof(Word, code), Py_READONLY, "the code of the frame"},
    {"state", Py_T_INT, offsetof(Word, state), 0, "the state of the frame: an index of AFTER"},
    {NULL, 0, 0, 0, NULL},
};

static PyType_Slot word_slots[] = {
    {Py_tp_new, new_word},
    {Py_tp_dealloc, free_data_object},
    {Py_tp_methods, word_methods},
    {Py_tp_members, word_members},
    {0, NULL},
};

static PyType_Spec word_specification = {
    .name = "suitehooks.Word",
    .basicsize = sizeof(Word),
    .flags = Py_TPFLAGS_DEFAULT,
    .slots = word_slots,
};

/* ---- The module ------------------------------------------------------------------------------------------------ */

static int
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
    else if (strcmp(name, "watch") == 0) {
        id = add_watch(name);
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
excused(PyObject *module, PyObject *ignored)
{
    (void)ignored;
    return PyBool_FromLong(is_excused(PyModule_GetState(module)));
}

static PyObject *
fatal(PyObject *module, PyObject *text)
{
    (void)module;
    const char *bytes = PyUnicode_AsUTF8(text);
    give_up("%s", bytes == NULL ? "?" : bytes);
}

static PyMethodDef methods[] = {
    {"add", add, METH_VARARGS, "add(kind[, observe]): install that hook in this interpreter. Its handle; None without "
                               "frame hooks. `observe` is for the hook of that name, and gets the topmost frame."},
    {"alone", alone, METH_NOARGS, "Whether there is one interpreter in the process."},
    {"watched_by", watched_by, METH_VARARGS, "watched_by(handle, frame_hooks): that hook in Python watches all frames. "
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
    void *found = dlsym(RTLD_DEFAULT, "PyUnstable_AddFrameHookEx");
    memcpy(&add_hook, &found, sizeof(found));
    found = dlsym(RTLD_DEFAULT, "PyUnstable_FrameHook_DisableForCode");
    memcpy(&disable_for_code, &found, sizeof(found));
    found = dlsym(RTLD_DEFAULT, "PyUnstable_FrameHook_GetCode");
    memcpy(&get_code, &found, sizeof(found));
    found = dlsym(RTLD_DEFAULT, "PyUnstable_InstallFrameHook");
    memcpy(&install_hook, &found, sizeof(found));
    if (first_malloc == NULL) {
        first_malloc = current_malloc();
    }
    State *state = PyModule_GetState(module);
    state->word_type = PyType_FromModuleAndSpec(module, &word_specification, NULL);
    PyObject *table = state->word_type == NULL ? NULL : make_after();
    if (PyModule_Add(module, "AFTER", table) < 0) {
        return -1;
    }
    return PyModule_AddObjectRef(module, "Word", state->word_type);
}

static int
traverse(PyObject *module, visitproc visit, void *arg)
{
    State *state = PyModule_GetState(module);
    Py_VISIT(state->word_type);
    Py_VISIT(state->frame_hooks);
    Py_VISIT(state->id);
    return 0;
}

static int
clear(PyObject *module)
{
    State *state = PyModule_GetState(module);
    Py_CLEAR(state->word_type);
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
