"""Labels: parts of a program that a profile shows apart."""

from . import _profile


class label:
    """A block that has a place of its own in the profile, by this name: a request, a test, a phase.

        with ferrule_profiler.label("GET /users"):
            ...

    What runs in it is below the label in paths, and the label has calls and times. Without a profile it does nothing.
    """

    __slots__ = ("name",)
    again = False       # whether it was entered before, and is no new call

    def __init__(self, name):
        if not isinstance(name, str):
            raise TypeError(f"a label is a str, not {type(name).__name__}")
        self.name = name

    def __repr__(self):
        return f"ferrule_profiler.label({self.name!r})"

    def __enter__(self):
        running = _profile.running()
        if running is not None:
            running.enter_label(self.name, self.again)
        return self

    def __exit__(self, kind, error, traceback):
        running = _profile.running()
        if running is not None:
            running.leave_label(self.name, self.again, kind is not None)


class continued(label):
    """Another part of a label that was left."""

    __slots__ = ()
    again = True
