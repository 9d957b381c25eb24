"""A process whose stack is known: it says "ready" once it sleeps where its scenario says, and a tool may look.

Lines that end with a comment "at NAME" are the lines of the frames of the function NAME.
"""

import asyncio
import sys
import threading
import time

SLEEP = 600
DEPTH = 1000


def inner():
    print("ready", flush=True)
    time.sleep(SLEEP)  # at inner


def middle():
    inner()  # at middle


def stand_in():
    # Its code runs in the place of middle's.
    nothing = 0
    inner()  # at stand_in
    return nothing


def outer():
    middle()  # at outer


def recurse(depth):
    if depth == 0:
        inner()  # at bottom
    else:
        recurse(depth - 1)  # at recurse


def generator():
    yield 1
    inner()  # at generator
    yield 2


def consume():
    for _ in generator():  # at consume
        pass


async def coroutine():
    inner()  # at coroutine


async def awaiting():
    await coroutine()  # at awaiting


def in_thread():
    event.wait(SLEEP)  # at in_thread


def slow_hook(view):
    if view.code is middle.__code__:
        inner()  # at slow_hook


def passing(view):
    return None


def watching(view):
    view.watch(lambda event: None)


def replacing(view):
    return stand_in.__code__ if view.code is middle.__code__ else None


event = threading.Event()
HOOKS = {"hooked": passing, "watched": watching, "replaced": replacing, "in a hook": slow_hook}
CALLS = {"deep": lambda: recurse(DEPTH), "generator": consume, "coroutine": lambda: asyncio.run(awaiting())}


def main(scenario):
    for name, hook in HOOKS.items():
        if scenario.startswith(name):
            import framehook

            framehook.add(hook)
    if scenario == "thread":
        threading.Thread(target=in_thread, name="other", daemon=True).start()
    sys.setrecursionlimit(DEPTH * 2)
    # "hooked deep" is "deep" with that hook.
    call = next((call for name, call in CALLS.items() if scenario.endswith(name)), outer)
    call()


if __name__ == "__main__":
    main(sys.argv[1])
