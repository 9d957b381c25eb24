"""Prints each call and how it ends, indented by depth."""
import inspect
import threading
from collections.abc import Iterator

import framehook

GENERATORS = inspect.CO_GENERATOR | inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR
here = threading.local()        # each thread has its own depth

def text(value: object) -> str:
    try:
        return repr(value)
    except Exception:           # `self` of __init__ has no attributes yet
        return f"<{type(value).__name__}>"

def line(words: str, before: int = 0, after: int = 0) -> None:
    depth = getattr(here, "depth", 0) + before
    print("  " * depth + words)
    here.depth = depth + after

def on_event(event: framehook.FrameEvent) -> None:
    name = event.code.co_qualname
    if event.kind == "resumed":
        line(f"resume {name}", after=1)
    elif event.kind == "dropped":           # it was suspended, so no depth to leave
        line(f"{name} dropped")
    else:
        line(f"{name} {event.kind} {text(event.value)}", before=-1)

def trace(view: framehook.FrameView) -> framehook.Disable | None:
    if view.code.co_filename != __file__:
        return framehook.DISABLE            # for this code object
    arguments = ", ".join(map(text, view.arguments().values()))
    is_generator = bool(view.code.co_flags & GENERATORS)        # the call only makes it
    line(f"{view.code.co_qualname}({arguments})", after=not is_generator)
    view.watch(on_event, yields=is_generator, resumes=is_generator)
    return None

class Point:
    def __init__(self, x: int) -> None:
        self.x = x

    def __repr__(self) -> str:
        return f"Point({self.x})"

def numbers() -> Iterator[object]:
    yield Point(1)
    yield 2

def main() -> None:
    kept = numbers()
    next(kept)
    del kept

with framehook.hook(trace):
    main()
