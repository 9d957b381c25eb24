"""Profiling the Pythons that a program starts.

They find `_startup` on their path, whose sitecustomize module starts a profile. So they must look
at PYTHONPATH: not with -I or -E, nor with -S.
"""

import json
import os
import types

VARIABLE = "FERRULE_PROFILER"
STARTUP = os.path.join(os.path.dirname(os.path.abspath(__file__)), "_startup")


def prepare(options):
    """Set the environment of the processes to come."""
    os.environ[VARIABLE] = json.dumps({**vars(options), "program": [], "module": None})
    paths = [STARTUP, *filter(None, [os.environ.get("PYTHONPATH")])]
    os.environ["PYTHONPATH"] = os.pathsep.join(paths)


def inherited():
    """The options that prepare() has left for this process."""
    options = types.SimpleNamespace(**json.loads(os.environ[VARIABLE]))
    options.child = True
    return options
