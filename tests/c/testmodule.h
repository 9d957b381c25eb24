/* What the test modules share. Included first. */

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#define C_FUNCTION(function) ((PyCFunction)(void (*)(void))(function))

/* The module with the functions `methods`; the further arguments are slots. */
#define MODULE(name, doc, ...) \
    static PyModuleDef_Slot module_slots[] = {__VA_ARGS__, {Py_mod_gil, Py_MOD_GIL_NOT_USED}, {0, NULL}}; \
    static struct PyModuleDef module_definition = { \
        PyModuleDef_HEAD_INIT, .m_name = #name, .m_doc = doc, .m_methods = methods, .m_slots = module_slots, \
    }; \
    PyMODINIT_FUNC \
    PyInit_##name(void) \
    { \
        return PyModuleDef_Init(&module_definition); \
    }
