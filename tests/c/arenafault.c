/* arenafault: watches and breaks the arena allocator.
 *
 * The interpreter takes the chunks of its data stack, and the arenas of small objects, from one replaceable
 * allocator. This module puts itself in front of it, counts what goes through, and can refuse any allocation,
 * so that a test can ask: what happens when this very one fails, and did all memory come back?
 *
 * Counters are changed by threads without the GIL too (a thread's end), hence the atomics.
 */

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

static PyObjectArenaAllocator original;
static bool installed;

static atomic_llong allocations;
static atomic_llong frees;
static atomic_llong failures;
static atomic_llong bytes_outstanding;
static atomic_llong blocks_outstanding;
static atomic_llong bytes_high_water;

/* Allocations first_failing .. last_failing, counted by `requested`, are refused; 0 refuses none. */
static atomic_llong requested;
static atomic_llong first_failing;
static atomic_llong last_failing;
/* Allocations below this size are neither counted nor refused by fail_at(). */
static atomic_llong smallest_failing;
static atomic_llong largest_failing;

/* How often one block was freed, until its address is handed out again. */
static _Atomic(uintptr_t) watched;
static atomic_llong watched_frees;
static atomic_llong watched_size;

static void *
fault_alloc(void *ctx, size_t size)
{
    (void)ctx;
    long long last = atomic_load(&last_failing);
    if (last != 0 && (long long)size >= atomic_load(&smallest_failing)
        && (long long)size <= atomic_load(&largest_failing)) {
        long long number = atomic_fetch_add(&requested, 1) + 1;
        if (number >= atomic_load(&first_failing) && number <= last) {
            atomic_fetch_add(&failures, 1);
            return NULL;
        }
    }
    void *block = original.alloc(original.ctx, size);
    if (block == NULL) {
        return NULL;
    }
    if ((uintptr_t)block == atomic_load(&watched)) {
        /* The address has a new life: what is freed from now on is another block. */
        atomic_store(&watched, (uintptr_t)0);
    }
    atomic_fetch_add(&allocations, 1);
    atomic_fetch_add(&blocks_outstanding, 1);
    long long now = atomic_fetch_add(&bytes_outstanding, (long long)size) + (long long)size;
    long long high = atomic_load(&bytes_high_water);
    while (now > high && !atomic_compare_exchange_weak(&bytes_high_water, &high, now)) {
    }
    return block;
}

static void
fault_free(void *ctx, void *block, size_t size)
{
    (void)ctx;
    if (block != NULL) {
        if ((uintptr_t)block == atomic_load(&watched)) {
            atomic_fetch_add(&watched_frees, 1);
            atomic_store(&watched_size, (long long)size);
        }
        atomic_fetch_add(&frees, 1);
        atomic_fetch_sub(&blocks_outstanding, 1);
        atomic_fetch_sub(&bytes_outstanding, (long long)size);
    }
    original.free(original.ctx, block, size);
}

static PyObject *
install(PyObject *module, PyObject *unused)
{
    (void)module;
    (void)unused;
    if (installed) {
        PyErr_SetString(PyExc_RuntimeError, "already installed");
        return NULL;
    }
    PyObject_GetArenaAllocator(&original);
    PyObjectArenaAllocator mine = {NULL, fault_alloc, fault_free};
    PyObject_SetArenaAllocator(&mine);
    installed = true;
    Py_RETURN_NONE;
}

static PyObject *
remove_(PyObject *module, PyObject *unused)
{
    (void)module;
    (void)unused;
    if (!installed) {
        PyErr_SetString(PyExc_RuntimeError, "not installed");
        return NULL;
    }
    PyObject_SetArenaAllocator(&original);
    installed = false;
    atomic_store(&last_failing, 0);
    Py_RETURN_NONE;
}

static PyObject *
counts(PyObject *module, PyObject *unused)
{
    (void)module;
    (void)unused;
    return Py_BuildValue("{s:L,s:L,s:L,s:L,s:L,s:L}",
                         "allocations", atomic_load(&allocations),
                         "frees", atomic_load(&frees),
                         "failures", atomic_load(&failures),
                         "bytes_outstanding", atomic_load(&bytes_outstanding),
                         "blocks_outstanding", atomic_load(&blocks_outstanding),
                         "bytes_high_water", atomic_load(&bytes_high_water));
}

static PyObject *
bytes_now(PyObject *module, PyObject *unused)
{
    (void)module;
    (void)unused;
    return PyLong_FromLongLong(atomic_load(&bytes_outstanding));
}

static PyObject *
requested_now(PyObject *module, PyObject *unused)
{
    (void)module;
    (void)unused;
    return PyLong_FromLongLong(atomic_load(&requested));
}

static PyObject *
fail_at(PyObject *module, PyObject *args, PyObject *kwargs)
{
    (void)module;
    static char *names[] = {"n", "count", "smallest", "largest", NULL};
    long long n;
    long long count = 1;
    long long smallest = 0;
    long long largest = INT64_MAX;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "L|LLL:fail_at", names, &n, &count, &smallest, &largest)) {
        return NULL;
    }
    if (n < 0 || count < 1) {
        PyErr_SetString(PyExc_ValueError, "n is at least 0 and count at least 1");
        return NULL;
    }
    if (!installed && n != 0) {
        PyErr_SetString(PyExc_RuntimeError, "not installed");
        return NULL;
    }
    atomic_store(&last_failing, 0);
    atomic_store(&requested, 0);
    atomic_store(&failures, 0);
    atomic_store(&smallest_failing, smallest);
    atomic_store(&largest_failing, largest);
    atomic_store(&first_failing, n);
    atomic_store(&last_failing, n == 0 ? 0 : n + count - 1);
    Py_RETURN_NONE;
}

static PyObject *
watch(PyObject *module, PyObject *address)
{
    (void)module;
    unsigned long long value = PyLong_AsUnsignedLongLong(address);
    if (value == (unsigned long long)-1 && PyErr_Occurred()) {
        return NULL;
    }
    atomic_store(&watched_frees, 0);
    atomic_store(&watched_size, 0);
    atomic_store(&watched, (uintptr_t)value);
    Py_RETURN_NONE;
}

static PyObject *
watch_result(PyObject *module, PyObject *unused)
{
    (void)module;
    (void)unused;
    return Py_BuildValue("LL", atomic_load(&watched_frees), atomic_load(&watched_size));
}

static PyMethodDef methods[] = {
    {"install", install, METH_NOARGS, "Install a wrapper of the arena allocator."},
    {"remove", remove_, METH_NOARGS, "Give the arena allocator back."},
    {"counts", counts, METH_NOARGS, "What went through since the module was loaded."},
    {"bytes_now", bytes_now, METH_NOARGS, "Bytes allocated and not freed."},
    {"requested_now", requested_now, METH_NOARGS, "Allocations requested since fail_at(), refused ones included."},
    {"fail_at", (PyCFunction)(void (*)(void))fail_at, METH_VARARGS | METH_KEYWORDS,
     "Refuse allocations n to n + count - 1 from now, among those of a size within the bounds; 0: none."},
    {"watch", watch, METH_O, "Count the frees of the block at this address."},
    {"watch_result", watch_result, METH_NOARGS, "(frees of the watched block, the size given to the last)."},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef definition = {
    .m_base = PyModuleDef_HEAD_INIT,
    .m_name = "arenafault",
    .m_doc = "Counts and refuses allocations of the arena allocator.",
    .m_size = -1,
    .m_methods = methods,
};

PyMODINIT_FUNC
PyInit_arenafault(void)
{
    return PyModule_Create(&definition);
}
