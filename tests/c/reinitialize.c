/* reinitialize: a program that has Python in it, and initializes and finalizes it again and again.
 *
 *     reinitialize PYTHON TIMES SOURCE
 *
 * PYTHON is the interpreter whose library it is linked with: its standard library is found from there. Each time SOURCE is run.
 * From half of the times on it prints the resident memory in KiB after each.
 */

#include <Python.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static long
resident(void)
{
    long pages = -1;
    FILE *file = fopen("/proc/self/statm", "r");
    if (file == NULL || fscanf(file, "%*d %ld", &pages) != 1) {
        abort();
    }
    fclose(file);
    return pages * (sysconf(_SC_PAGESIZE) / 1024);
}

static int
run(const char *python, const char *source)
{
    PyConfig config;
    PyConfig_InitPythonConfig(&config);
    config.site_import = 0;
    PyStatus status = PyConfig_SetBytesString(&config, &config.program_name, python);
    if (!PyStatus_Exception(status)) {
        status = Py_InitializeFromConfig(&config);
    }
    PyConfig_Clear(&config);
    if (PyStatus_Exception(status)) {
        Py_ExitStatusException(status);
    }
    int failed = PyRun_SimpleString(source);
    return Py_FinalizeEx() != 0 || failed != 0;
}

int
main(int argc, char **argv)
{
    if (argc != 4) {
        return 2;
    }
    int times = atoi(argv[2]);
    for (int number = 1; number <= times; number++) {
        if (run(argv[1], argv[3])) {
            fprintf(stderr, "it failed the %d. time\n", number);
            return 1;
        }
        if (number >= times / 2) {
            printf("%ld\n", resident());
        }
    }
    return 0;
}
