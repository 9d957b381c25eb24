"""Prints each call and how it ends, indented by depth."""
import inspect
import threading

import framehook

GENERATORS = inspect.CO_GENERATOR | inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR
here = threading.local()        # each thread has its own depth

def text(value):
    try:
        return repr(value)
    except Exception:           # `self` of __init__ has no attributes yet
        return f"<{type(value).__name__}>"

def line(words, before=0, after=0):
    depth = getattr(here, "depth", 0) + before
    print("  " * depth + words)
    here.depth = depth + after

def on_event(event):
    name = event.code.co_qualname
    if event.kind == "resumed":
        line(f"resume {name}", after=1)
    elif event.kind == "dropped":           # it was suspended, so no depth to leave
        line(f"{name} dropped")
    else:
        line(f"{name} {event.kind} {text(event.value)}", before=-1)

def trace(view):
    if view.code.co_filename != __file__:
        return framehook.DISABLE            # for this code object
    arguments = ", ".join(map(text, view.arguments().values()))
    is_generator = bool(view.code.co_flags & GENERATORS)        # the call only makes it
    line(f"{view.code.co_qualname}({arguments})", after=not is_generator)
    view.watch(on_event, yields=is_generator, resumes=is_generator)

class Point:
    def __init__(self, x):
        self.x = x

    def __repr__(self):
        return f"Point({self.x})"

def numbers():
    yield Point(1)
    yield 2

def main():
    kept = numbers()
    next(kept)
    del kept

with framehook.hook(trace):
    main()
