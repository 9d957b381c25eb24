"""A profiler with exact counts, on the frame hooks of Ferrule or sys.monitoring of CPython 3.13.

    python -m ferrule_profiler script.py        # a table, and files with -o

    import ferrule_profiler
    with ferrule_profiler.profile() as profile:
        work()
    profile.result.print_table()
    profile.result.write("work.html")

Every call of every Python function in all threads is counted, with its time. Where calls cannot be
counted, as on stock CPython without the GIL, starting a profile is a ProfilerError that says so.
"""

from . import _library

with _library.private(_library.IS_LOOKED_FOR):
    from . import web
    from ._decorator import profiled
    from ._label import label
    from ._profile import Profile, ProfilerError, available, profile, start, stop
    from ._result import Edge, Function, Line, Node, Result, Task, Thread
    from ._text import CUT

__all__ = ["CUT", "Edge", "Function", "Line", "Node", "Profile", "ProfilerError", "Result", "Task", "Thread",
           "available", "label", "profile", "profiled", "start", "stop", "web"]


def load_ipython_extension(shell):
    """%load_ext ferrule_profiler"""
    from ._ipython import load
    load(shell)
