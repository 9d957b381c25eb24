"""What a run was measured on: the machine, and how each interpreter was built."""

import json
import os
import platform
import re
from collections.abc import Mapping
from typing import Any

from measuring import run

Facts = Mapping[str, Any]       # of a run, as its file has them

FACTS = """
import json, sys, sysconfig
try:
    import _framecore
    core = _framecore.info()
except ImportError:
    core = None
variables = sysconfig.get_config_vars()
print(json.dumps({
    "version": sys.version, "ferrule": core,
    "compiler": sys.version[sys.version.rindex("[") + 1:-1] if "[" in sys.version else "",
    "cflags": " ".join(str(variables.get(name) or "") for name in ("PY_CFLAGS", "CFLAGS_NODIST")),
    "configure": variables.get("CONFIG_ARGS") or "",
    "debug": bool(variables.get("Py_DEBUG")),
}))
"""


def first(pattern: str, path: str, default: str = "unknown") -> str:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            found = re.search(pattern, file.read(), re.MULTILINE)
    except OSError:
        return default
    return found[1].strip('"') if found else default


def describe() -> dict[str, Any]:
    memory = int(first(r"^MemTotal:\s*(\d+)", "/proc/meminfo", "0")) / 2 ** 20
    return {
        "cpu": first(r"^model name\s*: (.*)", "/proc/cpuinfo", platform.machine()),
        "cores": os.cpu_count(),
        "memory": f"{memory:.0f} GiB",
        "os": first(r"^PRETTY_NAME=(.*)", "/etc/os-release", platform.system()),
        "kernel": platform.release(),
        "virtual": "hypervisor" in first(r"^flags\s*: (.*)", "/proc/cpuinfo", ""),
    }


def without_paths(flags: str) -> str:
    """Flags as they matter to others: not where a tool or a cache lies on this machine."""
    words = re.findall(r"'[^']*'|\S+", flags)
    return " ".join(word.strip("'") for word in words if "/" not in word and not word.strip("'").startswith("FERRULE_"))


def describe_python(path: str) -> dict[str, Any]:
    found = json.loads(run([path, "-c", FACTS]).stdout)
    found["cflags"], found["configure"] = map(without_paths, (found["cflags"], found["configure"]))
    return found


def fingerprint(path: str) -> dict[str, int]:
    """What changes when the program is built anew."""
    status = os.stat(path)
    return {"bytes": status.st_size, "modified": int(status.st_mtime)}


def pyperf_metadata(facts: Facts, name: str) -> dict[str, Any]:
    """What holds for every run of one interpreter, in the names that pyperf gives to such things."""
    build = facts["builds"][name]
    return {
        "cpu_model_name": facts["machine"]["cpu"], "cpu_count": facts["machine"]["cores"],
        "platform": f"{facts['machine']['os']}, Linux {facts['machine']['kernel']}",
        "python_implementation": "cpython", "python_version": build["version"].split(" ")[0],
        "python_compiler": build["compiler"] or "unknown", "python_cflags": build["cflags"] or "unknown",
        "python_config_args": build["configure"] or "none", "interpreter": name,
        "command": facts["command"],
    }
