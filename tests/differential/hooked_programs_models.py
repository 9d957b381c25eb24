"""Hooks that watch frames and have scopes, and what is known of when they are called."""

import random
import threading

import hooked_programs_helpers as helpers
import programs_worker as worker
from hooked_programs_hooks import HELPERS
from programs_worker import PROGRAM

framehook = None        # the worker imports it, unless there is to be no hook

SCOPES = (None, None, None, "exclude_callees", "exclude_callees", "only_callees", "everywhere")


def has_everywhere():
    return "everywhere" in (framehook.FrameView.only_callees.__doc__ or "")


def limit(view, scope):
    """Have the hook that is called for this frame be called nowhere below it, or only there."""
    if scope == "exclude_callees":
        view.exclude_callees()
    elif scope == "only_callees":
        view.only_callees()
    elif scope == "everywhere":
        view.only_callees(everywhere=True)


def make_scoped():
    """A hook with scopes that are not checked."""
    calls, kinds = 0, SCOPES if has_everywhere() else SCOPES[:-1]

    def hook(view):
        nonlocal calls
        if view.code.co_filename in HELPERS:
            return framehook.DISABLE
        calls += 1
        limit(view, kinds[calls % len(kinds)])
        return None

    return hook


class Watched:
    """A frame that is watched: where it is, by its events."""

    def __init__(self, code, alive):
        self.code, self.alive = code, alive
        alive[id(self)] = code.co_qualname
        self.is_generator = bool(code.co_flags & worker.GENERATOR_FLAGS)
        self.state = "suspended" if self.is_generator else "running"

    def __repr__(self):
        return f"{self.code.co_qualname}, {self.state}"

    def __del__(self):
        del self.alive[id(self)]


# What an event finds, and what it leaves.
EVENTS = {
    "yielded": ({"running"}, "suspended"),
    "resumed": ({"suspended"}, "running"),
    "returned": ({"running"}, "over"),
    "raised": ({"running"}, "over"),
    # A greenlet may be left in the middle.
    "dropped": ({"suspended", "running"}, "over"),
}


class Watching:
    """Makes hooks that watch each frame, and checks in which order the events of a frame come."""

    def __init__(self, around):
        self.around = around
        # A set of weak references would have each of them call a function, which is watched too.
        self.alive = {}         # id of the data of a watch -> the name of the frame's code

    def watcher(self):
        """A new hook."""
        def hook(view):
            code = view.code
            if code.co_filename in HELPERS:
                return framehook.DISABLE
            view.watch(self.on_event, Watched(code, self.alive), yields=True, resumes=True)
            return None

        return hook

    def on_event(self, event):
        if worker.current.quiet:
            return
        frame = event.data
        before, after = EVENTS[event.kind]
        if frame.state not in before or (event.kind == "yielded" and not frame.is_generator):
            self.around.complain("an event that cannot be", f"{event.kind} of {frame!r}")
        frame.state = after

    def end(self):
        # Greenlets may be left for ever, with their thread.
        if helpers.greenlet is None and not worker.current.quiet:
            if self.alive:
                self.around.complain("the data of a watch is left", list(self.alive.values()))


class Entered:
    """A frame of the program: on which stack it runs, and its scope."""

    def __init__(self, code, stack):
        self.code, self.stack, self.scope = code, stack, None


class Scopes:
    """A hook with scopes, and one in front of it that watches all frames of the program.

    The second knows of each stack which frames are on it, and so whether the first is to be called.
    """

    def __init__(self, around):
        self.around = around
        self.kinds = SCOPES if has_everywhere() else SCOPES[:-1]
        self.random = random.Random(1)
        self.stacks = {}        # stack -> the frames that run there, the innermost last
        self.expected = {}      # stack -> the frame for which the hook with scopes is to be called next, or None
        self.handles = framehook.add(self.witness), None
        self.handles = self.handles[0], framehook.add(self.scoped, after=self.handles[0])

    def end(self):
        for handle in self.handles:
            framehook.remove(handle)

    def here(self):
        current = helpers.greenlet.getcurrent() if helpers.greenlet else None
        return threading.get_ident(), id(current)

    def is_called_on(self, stack):
        scopes = [frame.scope for frame in self.stacks.get(stack, ()) if frame.scope]
        if scopes:
            return scopes[-1] != "exclude_callees"
        return not any(frame.scope == "everywhere" for frames in self.stacks.values() for frame in frames)

    def witness(self, view):
        code = view.code
        if code.co_filename != PROGRAM:
            return framehook.DISABLE
        # Without memory CPython 3.13 gets generator expressions wrong.
        if worker.current.quiet:
            return None
        stack = self.here()
        self.nothing_is_expected(stack)
        self.frame = Entered(code, stack)
        self.expected[stack] = self.frame if self.is_called_on(stack) else None
        if code.co_flags & worker.GENERATOR_FLAGS:
            self.frame.stack = None
        else:
            self.stacks.setdefault(stack, []).append(self.frame)
        view.watch(self.on_event, self.frame, yields=True, resumes=True)
        return None

    def nothing_is_expected(self, stack):
        if (frame := self.expected.pop(stack, None)) is not None:
            self.around.complain("the hook with scopes was not called", self.describe(frame))

    def describe(self, frame):
        scopes = {stack: [(one.code.co_name, one.scope) for one in frames] for stack, frames in self.stacks.items()}
        return f"for {frame.code.co_qualname}; scopes: {scopes}"

    def scoped(self, view):
        if view.code.co_filename != PROGRAM:
            return framehook.DISABLE
        if worker.current.quiet:
            return None
        frame = self.expected.pop(self.here(), None)
        if frame is None:
            self.around.complain("the hook with scopes was called", self.describe(Entered(view.code, None)))
        elif frame.code is not view.code:
            self.around.complain("the hook with scopes was called for another frame", self.describe(frame))
        else:
            frame.scope = self.random.choice(self.kinds)
            limit(view, frame.scope)
        return None

    def on_event(self, event):
        if worker.current.quiet:
            return
        frame, stack = event.data, self.here()
        self.nothing_is_expected(stack)
        if event.kind == "resumed":
            frame.stack = stack
            self.stacks.setdefault(stack, []).append(frame)
            return
        if frame.stack is not None:
            frames = self.stacks[frame.stack]
            if frames[-1] is not frame and event.kind != "dropped":
                self.around.complain("a frame was left that is not the innermost", self.describe(frame))
            frames.remove(frame)
            frame.stack = None
