"""The library's modules, for the profiler alone.

The program may have modules of the same names, and may change what is in the library's. So the
profiler imports what it needs in private() blocks. Before the program begins, those modules are
taken out of sys.modules: the program imports its own.
"""

import os
import sys

# Python calls the program so while it looks for the module to run.
IS_LOOKED_FOR = getattr(sys, "argv", [])[:1] == ["-m"]

_imported = set()


def _of_runpy():
    """What Python has imported since its start to find the profiler."""
    names = list(sys.modules)
    if not IS_LOOKED_FOR or "site" not in names:
        return []
    return [name for name in names[names.index("site") + 1:names.index(__package__)]
            if name.partition(".")[0] in sys.stdlib_module_names]


OF_RUNPY = _of_runpy()


class private:
    """A block in which modules come from Python's own library, whatever comes before it in sys.path."""

    def __init__(self, when=True):
        self.when = when

    def __enter__(self):
        self.path, self.loaded = sys.path[:], set(sys.modules)
        library = os.path.dirname(os.__file__)
        if self.when and library in sys.path:
            sys.path[:] = sys.path[sys.path.index(library):]

    def __exit__(self, *exception):
        if self.when:
            sys.path[:] = self.path
            _imported.update(set(sys.modules) - self.loaded)


def hide():
    """What was imported so is the profiler's alone."""
    for name in _imported:
        if name.partition(".")[0] != __package__:
            sys.modules.pop(name, None)


def hide_runpy():
    """A script would not find these either."""
    for name in OF_RUNPY:
        sys.modules.pop(name, None)
