"""Starts a profile in a Python that a profiled program has started."""

import importlib.machinery
import importlib.util
import os
import sys


def _run_sitecustomize():
    here = os.path.dirname(os.path.abspath(__file__))
    sys.path[:] = [path for path in sys.path if os.path.abspath(path) != here]
    # The one that this has hidden takes its place, as if it had been found at once.
    theirs = importlib.machinery.PathFinder.find_spec("sitecustomize")
    if theirs is not None:
        module = sys.modules["sitecustomize"] = importlib.util.module_from_spec(theirs)
        theirs.loader.exec_module(module)
    if "FERRULE_PROFILER" in os.environ:
        try:
            writer = _load("ferrule_profiler", os.path.dirname(here))
        except ImportError:
            return      # a Python that it was not built for
        if writer is not None:
            writer.start()


def _load(name, directory):
    """Import the package from where it is, without a look into what else is there."""
    spec = importlib.util.spec_from_file_location(name, os.path.join(directory, "__init__.py"),
                                                  submodule_search_locations=[directory])
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    try:
        from ferrule_profiler import _library
        with _library.private():
            spec.loader.exec_module(module)
            from ferrule_profiler import _command
            writer = _command.writer_of_child()
        _library.hide()
        return writer
    except BaseException:
        del sys.modules[name]
        raise


_run_sitecustomize()
