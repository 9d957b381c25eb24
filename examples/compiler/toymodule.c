/* The module `toy`: compile(function, turns=1000) says whether it can; release(function) gives it back; counts() returns how often
   compiled code was entered, and how often it was left in the middle. */
#include "toy.c"

static PyUnstable_FrameHookId hook;

static void free_toy(void *toy) {
    Py_DECREF(((Toy *)toy)->bytes);
    PyMem_Free(toy);
}
static int on_entry(struct _PyInterpreterFrame *frame, void *unused, PyUnstable_FrameHookAnswer *answer) {
    return PyUnstable_FRAMEHOOK_DISABLE;                /* it is for loops */
}
static PyObject *compile(PyObject *module, PyObject *args) {
    PyObject *function;
    int turns = 1000;
    if (!PyArg_ParseTuple(args, "O!|i", &PyFunction_Type, &function, &turns)) return NULL;
    PyObject *code = PyFunction_GET_CODE(function);
    Toy *toy = PyMem_Malloc(sizeof(Toy));
    if (toy == NULL) return PyErr_NoMemory();
    *toy = (Toy){(PyCodeObject *)code, PyCode_GetCode((PyCodeObject *)code), PyUnstable_Code_Observers(code)};
    if (toy->bytes == NULL || toy->observers == NULL || !is_known(toy) || PyUnstable_Code_SetExtra(code, toys, toy) < 0) {
        Py_XDECREF(toy->bytes);
        PyMem_Free(toy);
        return PyErr_Occurred() ? NULL : Py_NewRef(Py_False);
    }
    if (PyUnstable_FrameHook_WatchLoops(hook, code, turns) < 0) return NULL;
    PyFunction_SetVectorcall((PyFunctionObject *)function, compiled);
    Py_RETURN_TRUE;
}
static PyObject *release(PyObject *module, PyObject *function) {
    if (PyUnstable_Function_RestoreVectorcall(function) < 0
        || PyUnstable_FrameHook_UnwatchLoops(hook, PyFunction_GET_CODE(function)) < 0
        || PyUnstable_Code_SetExtra(PyFunction_GET_CODE(function), toys, NULL) < 0) return NULL;
    Py_RETURN_NONE;
}
static PyObject *counts(PyObject *module, PyObject *unused) {
    return Py_BuildValue("LL", entries, exits);
}
static PyMethodDef methods[] = {
    {"compile", compile, METH_VARARGS, NULL}, {"release", release, METH_O, NULL}, {"counts", counts, METH_NOARGS, NULL}, {NULL, NULL, 0, NULL},
};
static int execute(PyObject *module) {
    PyUnstable_FrameHookDefinition definition = {.size = sizeof(definition), .name = "toy", .on_entry = on_entry, .on_loop = on_loop};
    PyObject *globals = PyDict_New(), *done = globals ? PyRun_String("def f(): pass", Py_file_input, globals, globals) : NULL;
    PyObject *function = done ? PyDict_GetItemString(globals, "f") : NULL;
    if (function != NULL) interpreted = ((PyFunctionObject *)function)->vectorcall;
    Py_XDECREF(done);
    Py_XDECREF(globals);
    toys = PyUnstable_Eval_RequestCodeExtraIndex(free_toy);
    hook = toys < 0 || interpreted == NULL ? -1 : PyUnstable_FrameHook_Install(&definition);
    return hook < 0 ? -1 : 0;
}
static PyModuleDef_Slot slots[] = {{Py_mod_exec, execute}, {0, NULL}};
static struct PyModuleDef toy_module = {PyModuleDef_HEAD_INIT, .m_name = "toy", .m_methods = methods, .m_slots = slots};
PyMODINIT_FUNC PyInit_toy(void) { return PyModuleDef_Init(&toy_module); }
