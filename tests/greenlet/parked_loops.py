"""Loop callbacks that wait in a greenlet: hot loops of other greenlets are still hot, and each frame gets on where it was.

Run by run.py with an interpreter that has greenlet and frame hooks, with the extensions of tests/c on its path.
"""

import contextlib
import gc
import sys
import traceback

import compilers
import greenlet

from showing import check_equal, framehook, run, show_all

TURNS = 10
hub = greenlet.getcurrent()


def total(n):
    s = 0
    for i in range(n):
        s += i
    return s


@contextlib.contextmanager
def watched(callback):
    hook = compilers.add_hook(callback)
    try:
        compilers.watch_loops(hook, total.__code__, TURNS)
        yield hook
    finally:
        with contextlib.suppress(ValueError):
            compilers.remove(hook)


def wait(hot):
    """A callback that lets others run first, but in the hub."""
    if greenlet.getcurrent() is not hub:
        hub.switch("waits")


def finish(one):
    result = "waits"
    while result == "waits":
        result = one.switch()
    return result


def loops_are_hot_while_callbacks_wait():
    with watched(wait):
        before = compilers.looped()
        made = [greenlet.greenlet(total) for _ in range(50)]
        for number, one in enumerate(made):
            check_equal(one.switch(TURNS + number), "waits")
        check_equal(compilers.looped() - before, 50)
        check_equal(total(3 * TURNS), sum(range(3 * TURNS)))
        check_equal(compilers.looped() - before, 53)
        gc.collect()
        for number, one in reversed(list(enumerate(made))):
            check_equal(finish(one), sum(range(TURNS + number)))


def loops_are_hot_while_entry_callbacks_wait():
    def leaf():
        return "leaf"

    def hook(view):
        if view.code is leaf.__code__:
            hub.switch("waits")
    with framehook.hook(hook), watched(None):
        one = greenlet.greenlet(leaf)
        check_equal(one.switch(), "waits")
        before = compilers.looped()
        total(3 * TURNS)
        check_equal(compilers.looped() - before, 3)
        check_equal(one.switch(), "leaf")


def loops_are_not_hot_under_a_tracer():
    with watched(wait):
        one = greenlet.greenlet(total)
        check_equal(one.switch(TURNS), "waits")
        before = compilers.looped()
        sys.settrace(lambda *_: None)
        try:
            total(3 * TURNS)
        finally:
            sys.settrace(None)
        check_equal(compilers.looped() - before, 0)
        check_equal(finish(one), sum(range(TURNS)))


def an_exception_is_thrown_into_a_callback():
    with watched(wait):
        one = greenlet.greenlet(total)
        check_equal(one.switch(2 * TURNS), "waits")
        try:
            one.throw(KeyError(1))
        except KeyError as error:
            names = [step.name for step in traceback.extract_tb(error.__traceback__)]
        check_equal(names[-2:], ["total", "wait"])
        one = greenlet.greenlet(total)
        one.switch(2 * TURNS)
        del one
        gc.collect()


def a_hook_is_removed_while_its_callback_waits():
    with watched(wait) as hook:
        one = greenlet.greenlet(total)
        check_equal(one.switch(5 * TURNS), "waits")
        compilers.remove(hook)
        check_equal(one.switch(), sum(range(5 * TURNS)))


def main():
    return show_all((loops_are_hot_while_callbacks_wait, loops_are_hot_while_entry_callbacks_wait, loops_are_not_hot_under_a_tracer,
                     an_exception_is_thrown_into_a_callback, a_hook_is_removed_while_its_callback_waits))


if __name__ == "__main__":
    run(main)
