"""Starts a profile in a Python that a profiled program has started."""

import importlib.util
import os
import sys


def _go_on():
    here = os.path.dirname(os.path.abspath(__file__))
    sys.path[:] = [path for path in sys.path if os.path.abspath(path) != here]
    sys.modules.pop("sitecustomize", None)
    if importlib.util.find_spec("sitecustomize") is not None:
        import sitecustomize
    if "FERRULE_PROFILER" in os.environ:
        from ferrule_profiler._subprocesses import begin
        begin()


_go_on()
