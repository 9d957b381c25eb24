# needs: libpython3.13-stdlib python3.13-venv python3-dev gcc
"""Every module of Debian's library, what sysconfig says, an environment with pip, and an extension that is compiled."""
import importlib
import pathlib
import site
import subprocess
import sys
import sysconfig
import tempfile

left_out = {"antigravity", "this", "idlelib", "turtledemo", "lib2to3", "tkinter", "turtle", "_gdbm", "_tkinter",
            "_android_support", "_ios_support", "_apple_support", "_aix_support", "framehook",
            # Of other systems.
            "_overlapped", "_scproxy", "_winapi", "_wmi", "msvcrt", "nt", "winreg", "winsound"}
missing = []
for name in sorted(sys.stdlib_module_names - left_out):
    try:
        importlib.import_module(name)
    except ImportError as error:
        missing.append(f"{name}: {error}")
print(missing)
assert not missing
print({name: sysconfig.get_config_var(name) for name in ("CC", "EXT_SUFFIX", "CFLAGS", "INCLUDEPY", "MULTIARCH", "LIBDIR")},
      site.getsitepackages(), sysconfig.get_default_scheme(), sysconfig.get_platform())
with tempfile.TemporaryDirectory() as directory:
    subprocess.run([sys.executable, "-m", "venv", f"{directory}/env"], check=True)
    inside = f"{directory}/env/bin/python"
    reported = subprocess.run([inside, "-c", "import sys; print(sys.prefix != sys.base_prefix, sys.version)"],
                          check=True, capture_output=True, text=True).stdout
    assert reported == f"True {sys.version}\n", reported
    print(subprocess.run([inside, "-m", "pip", "--version"], check=True, capture_output=True, text=True).stdout.split()[0])
    pathlib.Path(directory, "own.c").write_text('''
#include <Python.h>
static PyModuleDef own = {PyModuleDef_HEAD_INIT, .m_name = "own"};
PyMODINIT_FUNC PyInit_own(void) { return PyModule_Create(&own); }
''')
    name = f"{directory}/own{sysconfig.get_config_var('EXT_SUFFIX')}"
    subprocess.run(["gcc", "-shared", "-fPIC", f"-I{sysconfig.get_path('include')}", "-o", name, f"{directory}/own.c"], check=True)
    sys.path.insert(0, directory)
    print(importlib.import_module("own").__name__)
refused = subprocess.run([sys.executable, "-m", "pip", "install", "x"], capture_output=True, text=True)
assert "externally-managed-environment" in refused.stderr or "No module named pip" in refused.stderr, refused.stderr
