"""Starts a profile in a Python that a profiled program has started."""

import importlib.machinery
import importlib.util
import os
import sys


def _go_on():
    here = os.path.dirname(os.path.abspath(__file__))
    sys.path[:] = [path for path in sys.path if os.path.abspath(path) != here]
    # The one that this has hidden takes its place, as if it had been found at once.
    theirs = importlib.machinery.PathFinder.find_spec("sitecustomize")
    if theirs is not None:
        module = sys.modules["sitecustomize"] = importlib.util.module_from_spec(theirs)
        theirs.loader.exec_module(module)
    if "FERRULE_PROFILER" in os.environ:
        from ferrule_profiler._subprocesses import begin
        begin()


_go_on()
