"""The configuration of PyO3's build script for an interpreter."""

import os
from pathlib import Path

from tools.running import said

# PyO3 up to 0.28, which has to be used without the GIL, believes that objects of a build with --with-trace-refs are larger.
# They are not since CPython 3.13. So it runs no such interpreter, and reads this. It does not run one for another machine either,
# which an emulator may run.
ASK = """if True:
    import sys, sysconfig
    get = sysconfig.get_config_var
    if get("Py_TRACE_REFS") or "for another machine" in sys.argv:
        flags = [name for name in ("Py_DEBUG", "Py_REF_DEBUG", "Py_GIL_DISABLED") if get(name)]
        if "Py_DEBUG" in flags and "Py_REF_DEBUG" not in flags:
            flags.append("Py_REF_DEBUG")
        print("implementation=CPython", f"version={sys.version_info[0]}.{sys.version_info[1]}",
              f"shared={'true' if get('Py_ENABLE_SHARED') else 'false'}", "abi3=false",
              f"executable={sys.executable}", f"pointer_width={sys.maxsize.bit_length() + 1}",
              f"build_flags={','.join(flags)}", "suppress_build_script_link_lines=false", sep="\\n")
    elif sys.prefix != sys.base_prefix:
        # One build for all environments of an interpreter: Cargo builds anew for another path.
        print(f"base={sys._base_executable}")
"""


def environment(python: str, below: Path) -> dict[str, str]:
    """The variables for it; a file below this directory may be made for it."""
    config = said([python, "-E", "-s", "-c", ASK, *(["for another machine"] if "CARGO_BUILD_TARGET" in os.environ else [])])
    if not config.startswith("implementation="):
        return {"PYO3_PYTHON": config.strip().removeprefix("base=") if config.startswith("base=") else python}
    below.mkdir(parents=True, exist_ok=True)
    file = below / "pyo3-config.txt"
    # Cargo builds anew what a newer file went into.
    if not file.exists() or file.read_text() != config:
        file.write_text(config)
    return {"PYO3_CONFIG_FILE": str(file)}
