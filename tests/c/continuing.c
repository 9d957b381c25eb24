/* continuing: frames that continue from records. continue_frames() takes any records; run() stops a program at its instructions, takes its
 * frames away, and lets them continue: nothing else of the program may change. */

#define Py_BUILD_CORE
#include "hooktesting.h"
#include "internal/pycore_frame.h"
#include "internal/pycore_code.h"
#include "internal/pycore_pystate.h"
#include "opcode_ids.h"
#include <signal.h>

static PyObject *nothing;       /* NULL among values */

/* ---- records from Python ---- */

typedef struct {
    PyUnstable_FrameRecord *records;
    Py_ssize_t count;
    PyObject **kept;            /* function, code and locals of each record, which records borrow */
    Py_ssize_t *lengths;        /* of the slots, where they are read from a tuple */
} Records;

static void
free_records(Records *all)
{
    for (Py_ssize_t i = 0; i < all->count; i++) {
        PyMem_Free(all->records[i].slots);
        for (int j = 0; j < 3; j++) {
            Py_XDECREF(all->kept[3 * i + j]);
        }
    }
    PyMem_Free(all->records);
    PyMem_Free(all->kept);
    PyMem_Free(all->lengths);
    *all = (Records){0};
}

static int
make_room(Records *all, Py_ssize_t count)
{
    all->count = 0;
    all->records = PyMem_Calloc(count + 1, sizeof(all->records[0]));
    all->kept = PyMem_Calloc(3 * count + 3, sizeof(PyObject *));
    all->lengths = PyMem_Calloc(count + 1, sizeof(Py_ssize_t));
    if (all->records == NULL || all->kept == NULL || all->lengths == NULL) {
        free_records(all);
        PyErr_NoMemory();
        return -1;
    }
    all->count = count;
    return 0;
}

/* (function, code or None, locals or None, instruction, variables, stack) */
static int
read_record(Records *all, Py_ssize_t i, PyObject *tuple)
{
    PyUnstable_FrameRecord *record = &all->records[i];
    PyObject *function, *code, *locals, *variables, *stack;
    int instruction;
    if (!PyArg_ParseTuple(tuple, "OOOiO!O!", &function, &code, &locals, &instruction, &PyTuple_Type, &variables,
                          &PyTuple_Type, &stack)) {
        return -1;
    }
    Py_ssize_t given = PyTuple_GET_SIZE(variables), depth = PyTuple_GET_SIZE(stack);
    record->slots = PyMem_Calloc(given + depth + 1, sizeof(PyObject *));
    if (record->slots == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    record->function = all->kept[3 * i] = Py_NewRef(function);
    if (code != Py_None) {
        record->code = (PyCodeObject *)(all->kept[3 * i + 1] = Py_NewRef(code));
    }
    if (locals != Py_None) {
        record->locals = all->kept[3 * i + 2] = Py_NewRef(locals);
    }
    record->instruction = instruction;
    record->stack_depth = (int)depth;
    for (Py_ssize_t j = 0; j < given + depth; j++) {
        PyObject *value = j < given ? PyTuple_GET_ITEM(variables, j) : PyTuple_GET_ITEM(stack, j - given);
        record->slots[j] = value == nothing ? NULL : Py_NewRef(value);
    }
    all->lengths[i] = given + depth;
    return 0;
}

/* Continues frames from a list of records. If they are given away, the list is emptied, and the reference to the value consumed. */
static PyObject *
continue_listed(PyObject *list, PyObject *value, PyObject *exception, int given_away)
{
    PyObject *given = value == nothing ? NULL : Py_NewRef(value);
    if (given_away) {
        Py_DECREF(value);
    }
    Records all;
    if (make_room(&all, PyList_GET_SIZE(list)) < 0) {
        Py_XDECREF(given);
        return NULL;
    }
    for (Py_ssize_t i = 0; i < all.count; i++) {
        if (read_record(&all, i, PyList_GET_ITEM(list, i)) < 0) {
            for (Py_ssize_t j = 0; j < i; j++) {
                for (Py_ssize_t k = 0; k < all.lengths[j]; k++) {
                    Py_XDECREF(all.records[j].slots[k]);
                }
            }
            free_records(&all);
            Py_XDECREF(given);
            return NULL;
        }
    }
    if (given_away && PyList_SetSlice(list, 0, PyList_GET_SIZE(list), NULL) < 0) {
        Py_FatalError("a list cannot be emptied");
    }
    if (exception != nothing) {
        PyErr_SetRaisedException(Py_NewRef(exception));
    }
    PyObject *result = PyUnstable_Frame_Continue(all.records, all.count, given);
    free_records(&all);
    return result;
}

/* continue_frames(records, value=NULL, exception=NULL) */
static PyObject *
continue_frames(PyObject *Py_UNUSED(module), PyObject *args)
{
    PyObject *list, *value = nothing, *exception = nothing;
    if (!PyArg_ParseTuple(args, "O!|OO", &PyList_Type, &list, &value, &exception)) {
        return NULL;
    }
    return continue_listed(list, value, exception, 0);
}

/* give_frames(records, value=[], exception=NULL): the list of records and that of the value are emptied first, so what nothing else refers to
 * ends where its reference is given up */
static PyObject *
give_frames(PyObject *Py_UNUSED(module), PyObject *args)
{
    PyObject *list, *value = NULL, *exception = nothing;
    if (!PyArg_ParseTuple(args, "O!|O!O", &PyList_Type, &list, &PyList_Type, &value, &exception)) {
        return NULL;
    }
    PyObject *given = value != NULL && PyList_GET_SIZE(value) > 0 ? Py_NewRef(PyList_GET_ITEM(value, 0)) : Py_NewRef(nothing);
    if (value != NULL && PyList_SetSlice(value, 0, PyList_GET_SIZE(value), NULL) < 0) {
        Py_DECREF(given);
        return NULL;
    }
    return continue_listed(list, given, exception, 1);
}

/* with_signal(number, records): they continue with a signal that is pending */
static PyObject *
with_signal(PyObject *Py_UNUSED(module), PyObject *args)
{
    int number;
    PyObject *list;
    if (!PyArg_ParseTuple(args, "iO!", &number, &PyList_Type, &list)) {
        return NULL;
    }
    PyObject *arguments = PyTuple_Pack(1, list);
    if (arguments == NULL) {
        return NULL;
    }
    raise(number);
    PyObject *result = continue_frames(NULL, arguments);
    Py_DECREF(arguments);
    return result;
}

/* ---- a program that is stopped ---- */

/* {address of code: (bytes: depth of the stack + 1 where an instruction begins, the code without handlers, bytes: what the instruction has)} */
#define HAS_HANDLER 1
#define HAS_CACHES 2
#define HAS_PREFIX 4
static PyObject *codes;
#define TOOL 3                  /* of sys.monitoring */
#define DEEP 30
#define MOST_FRAMES 20000
#define ENDS_PROGRAM 16384      /* one of so many instructions raises an exception that no frame handles */
static PyObject *stop;          /* the exception that drops frames */
static PyObject *pending;       /* the exception that continued frames raise; NULL: they run on */
static _PyInterpreterFrame *bottom;     /* what has called run() */
static long long events, rest_until, first, step, stops, frames_taken, longest, unfit;
static int raises, elsewhere;   /* raises: an exception of its own at each stop; elsewhere: by Continue, or not */
static int passes;              /* the next event is that of the instruction that continues */
static int throws;              /* the next event RAISE is that of the exception with which frames continue */
static Records taken;
static PyObject **objects;      /* the frame objects of the frames taken, the innermost last; NULL: none */

/* What is known of code, borrowed; NULL: nothing. By its address: CPython hashes all instructions each time. */
static PyObject *
known(PyObject *code)
{
    PyObject *address = PyLong_FromVoidPtr(code);
    PyObject *facts = address == NULL ? NULL : PyDict_GetItem(codes, address);
    Py_XDECREF(address);
    return facts;
}

static int
is_fit(_PyInterpreterFrame *frame)
{
    PyObject *code = frame->f_executable;
    return frame->owner == FRAME_OWNED_BY_THREAD && PyFunction_Check(frame->f_funcobj) && known(code) != NULL;
}

/* How many frames there are up to the entry of the loop that run() has called; 0: some of them cannot continue. */
static Py_ssize_t
count_frames(_PyInterpreterFrame *innermost)
{
    Py_ssize_t count = 0;
    _PyInterpreterFrame *frame = innermost;
    for (; frame != NULL && frame->owner != FRAME_OWNED_BY_CSTACK; frame = frame->previous, count++) {
        if (!is_fit(frame)) {
            return 0;
        }
    }
    return frame != NULL && frame->previous == bottom ? count : 0;
}

/* The slots in use. The eval loop alone knows how many there are in the current frame, and CPython does not say so to functions that are
 * called for an instruction. */
static int
slots_of(_PyInterpreterFrame *frame)
{
    PyCodeObject *code = (PyCodeObject *)frame->f_executable;
    if (frame->stacktop >= 0) {
        return frame->stacktop;
    }
    PyObject *depths = PyTuple_GET_ITEM(known((PyObject *)code), 0);
    return code->co_nlocalsplus + PyBytes_AS_STRING(depths)[frame->instr_ptr - _PyCode_CODE(code)] - 1;
}

/* Takes all that a frame owns but its function, and leaves code without handlers. */
static void
take(_PyInterpreterFrame *frame, Py_ssize_t i)
{
    PyUnstable_FrameRecord *record = &taken.records[i];
    PyCodeObject *code = (PyCodeObject *)frame->f_executable;
    PyObject *dead = PyTuple_GET_ITEM(known((PyObject *)code), 1);
    int count = slots_of(frame);
    record->function = taken.kept[3 * i] = Py_NewRef(frame->f_funcobj);
    taken.kept[3 * i + 1] = (PyObject *)code;
    record->code = code;
    record->locals = taken.kept[3 * i + 2] = Py_XNewRef(frame->f_locals);
    if (code->co_flags & CO_OPTIMIZED) {
        record->locals = NULL;          /* what locals() of C has left there */
    }
    record->instruction = (int)(frame->instr_ptr - _PyCode_CODE(code));
    record->stack_depth = count - code->co_nlocalsplus;
    for (int j = 0; j < count; j++) {
        record->slots[j] = frame->localsplus[j];
        frame->localsplus[j] = NULL;
    }
    if (frame->stacktop >= 0) {
        frame->stacktop = code->co_nlocalsplus;
    }
    frame->f_executable = Py_NewRef(dead);
    frame->instr_ptr = _PyCode_CODE((PyCodeObject *)dead) + record->instruction;
    objects[i] = (PyObject *)frame->frame_obj;
    frame->frame_obj = NULL;
}

static int
take_all(_PyInterpreterFrame *innermost, Py_ssize_t count)
{
    if (make_room(&taken, count) < 0) {
        return -1;
    }
    objects = PyMem_Calloc(count, sizeof(PyObject *));
    if (objects == NULL) {
        free_records(&taken);
        PyErr_NoMemory();
        return -1;
    }
    _PyInterpreterFrame *frame = innermost;
    for (Py_ssize_t i = count - 1; i >= 0; i--, frame = frame->previous) {
        taken.records[i].slots = PyMem_Calloc(slots_of(frame) + 1, sizeof(PyObject *));
        if (taken.records[i].slots == NULL) {
            free_records(&taken);
            PyErr_NoMemory();
            return -1;
        }
    }
    frame = innermost;
    for (Py_ssize_t i = count - 1; i >= 0; i--, frame = frame->previous) {
        take(frame, i);
    }
    return 0;
}

/* The frames that continue get the objects of those that were taken. */
static void
give_objects_back(_PyInterpreterFrame *innermost, Py_ssize_t count)
{
    _PyInterpreterFrame *frame = innermost;
    for (Py_ssize_t i = count - 1; i >= 0; i--, frame = frame->previous) {
        PyFrameObject *object = (PyFrameObject *)objects[i];
        if (object == NULL) {
            continue;
        }
        if (frame->frame_obj != NULL) {
            Py_FatalError("a frame that continues has an object already");
        }
        object->f_frame = frame;
        frame->frame_obj = object;
    }
    PyMem_Free(objects);
    objects = NULL;
}

/* Whether the current frame stops here. */
static int
is_stop(_PyInterpreterFrame *frame, PyObject *code, Py_ssize_t offset)
{
    if (events < first || events < rest_until || frames_taken > MOST_FRAMES || (step == 0 ? events != first : (events - first) % step != 0)) {
        return 0;
    }
    PyObject *facts = known(code);
    if (facts == NULL || frame == NULL || frame->f_executable != code) {
        return 0;
    }
    PyObject *begins = PyTuple_GET_ITEM(facts, 0);
    uint8_t *tools = ((PyCodeObject *)code)->_co_monitoring->per_instruction_tools;
    if (tools != NULL && (tools[offset / 2] & (tools[offset / 2] - 1)) != 0) {
        return 0;       /* another tool would get the instruction's event twice */
    }
    return offset / 2 < PyBytes_GET_SIZE(begins) && PyBytes_AS_STRING(begins)[offset / 2] != 0
        /* its line would be reported twice */
        && _PyCode_CODE((PyCodeObject *)code)[offset / 2].op.code != INSTRUMENTED_LINE;
}

static int
what_it_has(_PyInterpreterFrame *frame)
{
    PyCodeObject *code = (PyCodeObject *)frame->f_executable;
    PyObject *table = PyTuple_GET_ITEM(known((PyObject *)code), 2);
    return PyBytes_AS_STRING(table)[frame->instr_ptr - _PyCode_CODE(code)];
}

/* Whether a frame of the chain handles what is raised. Where none does, it ends the program. */
static int
is_handled(_PyInterpreterFrame *innermost, Py_ssize_t count)
{
    _PyInterpreterFrame *frame = innermost;
    for (Py_ssize_t i = 0; i < count; i++, frame = frame->previous) {
        if (what_it_has(frame) & HAS_HANDLER) {
            return 1;
        }
    }
    return 0;
}

/* Whether a tool of the program gets offsets of exceptions. */
static int
are_offsets_seen(void)
{
    _Py_GlobalMonitors *monitors = &PyInterpreterState_Get()->monitors;
    int tools = monitors->tools[PY_MONITORING_EVENT_RAISE] | monitors->tools[PY_MONITORING_EVENT_PY_UNWIND]
                | monitors->tools[PY_MONITORING_EVENT_EXCEPTION_HANDLED] | monitors->tools[PY_MONITORING_EVENT_RERAISE];
    return (tools & ~(1 << TOOL)) != 0;
}

/* Whether an exception may be raised at this stop. CPython has another offset for one that a monitoring function raises than for one of the
 * instruction itself: that is behind the prefixes, and tools get the last cache entry. A frame object for the traceback is made before any function is called, so the innermost
 * frame has none; one that nothing else refers to is dropped. An exception that ends the program is raised at a few instructions only. */
static int
may_raise(_PyInterpreterFrame *innermost, Py_ssize_t count)
{
    int has = what_it_has(innermost);
    if ((has & HAS_PREFIX) || ((has & HAS_CACHES) && are_offsets_seen())) {
        return 0;
    }
    if (events % ENDS_PROGRAM != ENDS_PROGRAM - first && !is_handled(innermost, count)) {
        return 0;
    }
    if (innermost->frame_obj != NULL && Py_REFCNT(innermost->frame_obj) == 1) {
        Py_CLEAR(innermost->frame_obj);
    }
    return innermost->frame_obj == NULL;
}

/* The callback of RAISE. Frames that continue with an exception have got as far as this before any code of the program runs. */
static PyObject *
at_raise(PyObject *Py_UNUSED(module), PyObject *const *Py_UNUSED(args), Py_ssize_t Py_UNUSED(count))
{
    if (throws) {
        throws = 0;
        give_objects_back(PyThreadState_Get()->current_frame, taken.count);
        free_records(&taken);
    }
    Py_RETURN_NONE;
}

/* Has the collector count nothing while frames are dropped, and count on afterwards. Without the GIL it is no part of traces when it runs. */
#ifdef Py_GIL_DISABLED
#  define PAUSE_COLLECTOR()
#  define RESUME_COLLECTOR()
#else
static int allocations;         /* what it has counted */
#  define YOUNG_COUNT (PyInterpreterState_Get()->gc.generations[0].count)
#  define PAUSE_COLLECTOR() (allocations = YOUNG_COUNT, YOUNG_COUNT = INT_MIN / 2)
#  define RESUME_COLLECTOR() (YOUNG_COUNT = allocations)
#endif

/* The callback of INSTRUCTION. */
static PyObject *
at_instruction(PyObject *Py_UNUSED(module), PyObject *const *args, Py_ssize_t count)
{
    PyThreadState *tstate = PyThreadState_Get();
    _PyInterpreterFrame *frame = tstate->current_frame;
    if (count != 2 || bottom == NULL) {
        Py_RETURN_NONE;
    }
    if (passes) {
        passes = 0;
        give_objects_back(frame, taken.count);
        free_records(&taken);
        Py_RETURN_NONE;
    }
    Py_ssize_t offset = PyLong_AsSsize_t(args[1]);
    events++;
    if (!is_stop(frame, args[0], offset)) {
        Py_RETURN_NONE;
    }
    Py_ssize_t frames = count_frames(frame);
    if (frames == 0 || (raises && !may_raise(frame, frames))) {
        unfit++;
        Py_RETURN_NONE;
    }
    rest_until = frames > DEEP ? events + 5 * frames : 0;   /* a deep recursion at each instruction takes its square */
    stops++;
    frames_taken += frames;
    longest = frames > longest ? frames : longest;
    PyObject *raised = NULL;
    if (raises) {
        raised = PyObject_CallFunction(PyExc_LookupError, "L", stops);
        if (raised == NULL) {
            return NULL;
        }
    }
    if (!elsewhere) {
        if (raised == NULL) {
            Py_RETURN_NONE;
        }
        PyErr_SetObject(PyExc_LookupError, raised);
        Py_DECREF(raised);
        return NULL;
    }
    if (take_all(frame, frames) < 0) {
        Py_XDECREF(raised);
        return NULL;
    }
    PAUSE_COLLECTOR();
    pending = raised;
    tstate->tracing++;          /* no tool sees how they are dropped */
    PyErr_SetNone(stop);
    return NULL;
}

/* The frames that were dropped continue. */
static PyObject *
continue_taken(PyThreadState *tstate)
{
    PyErr_Clear();
    RESUME_COLLECTOR();
    tstate->tracing--;
    if (pending != NULL) {
        PyErr_SetObject(PyExc_LookupError, pending);
        Py_CLEAR(pending);
        throws = 1;
        PyObject *result = PyUnstable_Frame_Continue(taken.records, taken.count, NULL);
        if (throws) {
            Py_FatalError("no frame has raised the exception");
        }
        return result;
    }
    passes = 1;
    PyObject *result = PyUnstable_Frame_Continue(taken.records, taken.count, NULL);
    if (passes) {
        Py_FatalError("no frame has continued");
    }
    return result;
}

/* run(codes, first, step, raises, elsewhere, callable, *args): stops at event `first`, and then at each `step`-th one */
static PyObject *
run(PyObject *Py_UNUSED(module), PyObject *const *args, Py_ssize_t count)
{
    PyThreadState *tstate = PyThreadState_Get();
    if (count < 6 || bottom != NULL) {
        PyErr_SetString(PyExc_RuntimeError, "run() takes six arguments and more, and is not called by itself");
        return NULL;
    }
    events = rest_until = stops = frames_taken = longest = unfit = 0;
    first = PyLong_AsLongLong(args[1]);
    step = PyLong_AsLongLong(args[2]);
    raises = PyObject_IsTrue(args[3]);
    elsewhere = PyObject_IsTrue(args[4]);
    if (PyErr_Occurred()) {
        return NULL;
    }
    codes = Py_NewRef(args[0]);
    bottom = tstate->current_frame;
    PyObject *result = PyObject_Vectorcall(args[5], args + 6, count - 6, NULL);
    while (result == NULL && PyErr_ExceptionMatches(stop)) {
        result = continue_taken(tstate);
    }
    bottom = NULL;
    Py_CLEAR(codes);
    return result;
}

static PyObject *
counts(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(none))
{
    return Py_BuildValue("{sLsLsLsLsL}", "events", events, "stops", stops, "frames", frames_taken, "longest", longest,
                         "unfit", unfit);
}

/* ---- variables by index ---- */

/* get_local(depth, index): of the frame that has called, or of one further out; `nothing` for NULL without an exception */
static PyObject *
get_local(PyObject *Py_UNUSED(module), PyObject *args)
{
    int depth;
    Py_ssize_t index;
    if (!PyArg_ParseTuple(args, "in", &depth, &index)) {
        return NULL;
    }
    _PyInterpreterFrame *frame = PyThreadState_Get()->current_frame;
    while (depth-- > 0) {
        frame = frame->previous;
    }
    PyObject *value = PyUnstable_InterpreterFrame_GetLocal(frame, index);
    return value != NULL || PyErr_Occurred() ? value : Py_NewRef(nothing);
}

static PyObject *
as_tuple(_PyInterpreterFrame *frame)
{
    PyObject *code = PyUnstable_InterpreterFrame_GetCode(frame);
    int count = ((PyCodeObject *)code)->co_nlocalsplus;
    Py_DECREF(code);
    PyObject *values[100], *result = PyTuple_New(count);
    if (result == NULL || count > 100 || PyUnstable_InterpreterFrame_GetLocals(frame, values) != count) {
        Py_XDECREF(result);
        return NULL;
    }
    for (int i = 0; i < count; i++) {
        PyTuple_SET_ITEM(result, i, values[i] == NULL ? Py_NewRef(nothing) : values[i]);
    }
    return result;
}

static PyObject *
get_locals(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(none))
{
    return as_tuple(PyThreadState_Get()->current_frame);
}

static PyObject *
get_names(PyObject *Py_UNUSED(module), PyObject *code)
{
    return PyUnstable_Code_GetLocalPlusNames((PyCodeObject *)code);
}

static PyObject *
get_locals_nowhere(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(none))
{
    int status = PyUnstable_InterpreterFrame_GetLocals(PyThreadState_Get()->current_frame, NULL);
    return status < 0 ? NULL : PyLong_FromLong(status);
}

static PyObject *seen;          /* a list: what evaluators and hooks see */

static int
see(struct _PyInterpreterFrame *frame)
{
    PyObject *values = as_tuple(frame);
    int status = values == NULL ? -1 : PyList_Append(seen, values);
    Py_XDECREF(values);
    return status;
}

static PyObject *
evaluator(PyThreadState *tstate, struct _PyInterpreterFrame *frame, int throwing)
{
    if (frame->owner == FRAME_OWNED_BY_THREAD && see(frame) < 0) {
        PyErr_WriteUnraisable(NULL);
    }
    return _PyEval_EvalFrameDefault(tstate, frame, throwing);
}

static int
on_entry(struct _PyInterpreterFrame *frame, void *Py_UNUSED(data), PyUnstable_FrameHookAnswer *Py_UNUSED(answer))
{
    return see(frame) < 0 ? PyUnstable_FRAMEHOOK_ERROR : PyUnstable_FRAMEHOOK_PASS;
}

/* see_by_evaluator(callable), see_by_hook(callable): a list of the variables of each frame that starts meanwhile */
static PyObject *
see_by(PyObject *callable, int by_hook)
{
    PyUnstable_FrameHookId id = 0;
    seen = PyList_New(0);
    if (seen == NULL) {
        return NULL;
    }
    if (!by_hook) {
        _PyInterpreterState_SetEvalFrameFunc(PyInterpreterState_Get(), evaluator);
    } else if ((id = install(.name = "seeing", .on_entry = on_entry)) < 0) {
        return NULL;
    }
    PyObject *result = PyObject_CallNoArgs(callable);
    if (by_hook) {
        PyUnstable_FrameHook_Remove(id);
    } else {
        _PyInterpreterState_SetEvalFrameFunc(PyInterpreterState_Get(), _PyEval_EvalFrameDefault);
    }
    PyObject *list = seen;
    seen = NULL;
    if (result == NULL) {
        Py_DECREF(list);
        return NULL;
    }
    Py_DECREF(result);
    return list;
}

static PyObject *
see_by_evaluator(PyObject *Py_UNUSED(module), PyObject *callable)
{
    return see_by(callable, 0);
}

static PyObject *
see_by_hook(PyObject *Py_UNUSED(module), PyObject *callable)
{
    return see_by(callable, 1);
}

/* recursion_remaining() -> (of Python, of C) */
static PyObject *
recursion_remaining(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(none))
{
    PyThreadState *tstate = PyThreadState_Get();
    return Py_BuildValue("ii", tstate->py_recursion_remaining, tstate->c_recursion_remaining);
}

/* at_c_depth(remaining, callable): calls with so many levels of C recursion left */
static PyObject *
at_c_depth(PyObject *Py_UNUSED(module), PyObject *args)
{
    int remaining;
    PyObject *callable;
    if (!PyArg_ParseTuple(args, "iO", &remaining, &callable)) {
        return NULL;
    }
    PyThreadState *tstate = PyThreadState_Get();
    int before = tstate->c_recursion_remaining;
    tstate->c_recursion_remaining = remaining;
    PyObject *result = PyObject_CallNoArgs(callable);
    tstate->c_recursion_remaining += before - remaining;
    return result;
}

static PyMethodDef methods[] = {
    {"continue_frames", continue_frames, METH_VARARGS, NULL},
    {"give_frames", give_frames, METH_VARARGS, NULL},
    {"with_signal", with_signal, METH_VARARGS, NULL},
    {"at_raise", (PyCFunction)(void (*)(void))at_raise, METH_FASTCALL, NULL},
    {"at_instruction", (PyCFunction)(void (*)(void))at_instruction, METH_FASTCALL, NULL},
    {"run", (PyCFunction)(void (*)(void))run, METH_FASTCALL, NULL},
    {"counts", counts, METH_NOARGS, NULL},
    {"get_local", get_local, METH_VARARGS, NULL},
    {"get_locals", get_locals, METH_NOARGS, NULL},
    {"get_names", get_names, METH_O, NULL},
    {"get_locals_nowhere", get_locals_nowhere, METH_NOARGS, NULL},
    {"see_by_evaluator", see_by_evaluator, METH_O, NULL},
    {"see_by_hook", see_by_hook, METH_O, NULL},
    {"recursion_remaining", recursion_remaining, METH_NOARGS, NULL},
    {"at_c_depth", at_c_depth, METH_VARARGS, NULL},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef definition = {PyModuleDef_HEAD_INIT, .m_name = "continuing", .m_size = -1, .m_methods = methods};

PyMODINIT_FUNC
PyInit_continuing(void)
{
    PyObject *module = PyModule_Create(&definition);
    nothing = PyObject_CallNoArgs((PyObject *)&PyBaseObject_Type);
    stop = PyErr_NewException("continuing.Stop", PyExc_BaseException, NULL);
    if (module == NULL || nothing == NULL || stop == NULL || PyModule_AddObjectRef(module, "nothing", nothing) < 0) {
        return NULL;
    }
#ifdef Py_GIL_DISABLED
    PyUnstable_Module_SetGIL(module, Py_MOD_GIL_NOT_USED);
#endif
    return module;
}
