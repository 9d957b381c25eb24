#!/usr/bin/env python3
"""Build the extension modules of this directory for one interpreter, from an installation or a build tree.

    python3 tests/c/build_extensions.py --python build/ferrule/python --out build/test-extensions/ferrule

Also a module: build(python, out) is what the tests call. The compiler is $CC or cc.
"""

import argparse
import json
import os
import shlex
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
MODULES = ("arenafault", "codeextra", "compilers", "continuing", "datahooks", "evaluators", "foreignchunk", "framehooks",
           "neighbourhooks", "singlestep", "suitehooks", "watchhooks")
# Last on the path: an interpreter that has the header finds its own first.
OVERLAY = os.path.join(ROOT, "overlay", "Include")
HEADERS = (os.path.join(OVERLAY, "cpython", "framehook.h"),
           *(os.path.join(HERE, name) for name in ("testmodule.h", "hooktesting.h", "suitewatch.h")))
FLAGS = ["-std=c11", "-O1", "-g", "-fPIC", "-shared", "-fno-strict-overflow", "-Wall", "-Wextra", "-Werror"]

FACTS = """
import json, sys, sysconfig
print(json.dumps({
    "includes": sorted({sysconfig.get_path("include"), sysconfig.get_path("platinclude")}),
    "suffix": sysconfig.get_config_var("EXT_SUFFIX"),
    "version": sys.version,
    "api_version": sys.api_version,
    "free_threaded": bool(sysconfig.get_config_var("Py_GIL_DISABLED")),
    "trace_refs": hasattr(sys, "getobjects"),
}))
"""


def facts_of(python):
    done = subprocess.run([python, "-I", "-S", "-c", FACTS], capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"{python} does not tell its build's facts:\n{done.stderr}")
    return json.loads(done.stdout)


def is_current(target, sources):
    """Whether `target` is newer than all sources."""
    try:
        built = os.stat(target).st_mtime_ns
    except FileNotFoundError:
        return False
    return all(os.stat(source).st_mtime_ns < built for source in sources)


def build(python, out):
    """Build what is not up to date into `out`; return that directory."""
    facts = facts_of(python)
    os.makedirs(out, exist_ok=True)
    compiler = shlex.split(os.environ.get("CC") or "cc")
    for name in MODULES:
        source = os.path.join(HERE, name + ".c")
        target = os.path.join(out, name + facts["suffix"])
        if is_current(target, [source, python, *HEADERS, os.path.abspath(__file__)]):
            continue
        # Written beside and moved: another test process may be loading the old one.
        unfinished = f"{target}.{os.getpid()}.tmp"
        command = [*compiler, *FLAGS, *(f"-I{directory}" for directory in facts["includes"]), f"-I{OVERLAY}",
                   source, "-o", unfinished]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            raise RuntimeError(f"{name} does not build:\n{shlex.join(command)}\n{done.stderr}")
        os.replace(unfinished, target)
    return out


def main():
    parser = argparse.ArgumentParser(description="Build the test extensions for one interpreter.")
    parser.add_argument("--python", required=True)
    parser.add_argument("--out", required=True)
    arguments = parser.parse_args()
    print(build(os.path.abspath(arguments.python), os.path.abspath(arguments.out)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
