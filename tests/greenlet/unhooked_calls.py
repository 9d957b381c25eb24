"""Unhooked calls, and scopes, where greenlets begin, and where they wait before the frame of such a call has begun.

Run by run.py with an interpreter that has greenlet and frame hooks.
"""

import functools

import greenlet

from showing import check_equal, framehook, run, show_all

MAIN = greenlet.getcurrent()


def f(a=None):
    return a


def calls_a_hook_for_f(entries):
    def hook(view):
        if view.code is f.__code__:
            entries.append(view.argument(0))

    return framehook.hook(hook)


def waiting():
    MAIN.switch()


class Key(str):
    """A keyword whose first comparison switches to the main greenlet: the frame of the call has not begun."""

    __hash__ = str.__hash__
    compared = False

    def __eq__(self, other):
        if not self.compared:
            self.compared = True
            MAIN.switch()
        return str.__eq__(self, other)


# --- Scopes. -------------------------------------------------------------------------------------------------------

def what_is_called_beside(begin_of, answer):
    """The calls of a hook that sets that scope with the view of generator(), while a greenlet waits whose beginning is begin_of()."""
    entries = []

    def hook(view):
        entries.append(view.code.co_name)
        if view.code.co_name == "generator":
            answer(view)

    with framehook.hook(hook):
        waits = greenlet.greenlet(begin_of())
        waits.switch()
        entries.clear()
        f()
        found = list(entries)
        entries.clear()
        waits.switch()
    return found


def a_scope_of_a_greenlets_first_frame_is_its_own():
    def generator():
        waiting()
        yield

    for answer, expected in ((lambda view: view.exclude_callees(), ["f"]), (lambda view: view.only_callees(), ["f"]),
                             (lambda view: view.only_callees(everywhere=True), [])):
        for begin_of in lambda: generator().__next__, lambda: lambda: next(generator()):
            check_equal(what_is_called_beside(begin_of, answer), expected)


def a_coroutine_resumed_as_a_greenlets_first_frame_has_its_scope_there():
    class Once:
        def __await__(self):
            yield

    async def coroutine():
        await Once()
        waiting()
        f("below")

    entries = []

    def hook(view):
        if view.code is f.__code__:
            entries.append(view.argument(0))
        if view.code is coroutine.__code__:
            view.exclude_callees()

    def outcome(send):
        try:
            send(None)
        except StopIteration:
            return "returned"

    with framehook.hook(hook):
        for wrap in False, True:
            waits = coroutine()
            waits.send(None)
            may_continue = greenlet.greenlet(functools.partial(outcome, waits.send) if wrap else waits.send)
            may_continue.switch(*([] if wrap else [None]))
            entries.clear()
            f("beside")
            try:
                may_continue.switch()    # f("below")
            except StopIteration:
                pass
            check_equal(entries, ["beside"])


def an_unhooked_call_that_starts_a_greenlet_affects_no_other():
    entries = []
    with calls_a_hook_for_f(entries):
        for first in framehook.unhooked(waiting, callees=True), lambda: framehook.unhooked(waiting, callees=True)():
            waits = greenlet.greenlet(first)
            waits.switch()
            f("beside")
            check_equal(entries, ["beside"])
            waits.switch()
            entries.clear()


# --- An unhooked call whose frame has not begun. ----------------------------------------------------------------------

def a_call_that_waits_is_unhooked_though_its_frame_begins_within_another():
    entries = []

    def g(a):
        if a == "outer":
            waits.switch()
        return a

    def hook(view):
        if view.code is g.__code__:
            entries.append(view.argument(0))

    with framehook.hook(hook):
        waits = greenlet.greenlet(lambda: framehook.unhooked(g)(**{Key("a"): "inner"}))
        waits.switch()
        check_equal(framehook.unhooked(g)("outer"), "outer")
        check_equal(waits.dead, True)
        g("entries")
    check_equal(entries, ["entries"])


def a_call_that_waits_at_the_root_of_its_greenlet_affects_no_other():
    entries = []
    with calls_a_hook_for_f(entries):
        waits = greenlet.greenlet(functools.partial(framehook.unhooked(f), **{Key("a"): "unhooked_calls"}))
        waits.switch()
        greenlet.greenlet(f).switch("hooked")
        check_equal(entries, ["hooked"])
        check_equal(waits.switch(), "unhooked_calls")
    check_equal(entries, ["hooked"])


def calls_that_wait_continue_in_any_order():
    entries = []
    with calls_a_hook_for_f(entries):
        waiting_calls = []
        for number in range(9):
            call = functools.partial(framehook.unhooked(f, callees=number % 2 == 0), **{Key("a"): number})
            waits = greenlet.greenlet(call if number % 3 else lambda call=call: call())
            waits.switch()
            waiting_calls.append(waits)
        f("between")
        for number in 4, 0, 8, 1, 7, 2, 6:
            check_equal(waiting_calls[number].switch(), number)
            f(number)
        # The others are given up: their frames never begin.
        del waiting_calls, waits, call
        f("after")
    check_equal(entries, ["between", 4, 0, 8, 1, 7, 2, 6, "after"])


SHOWN = (
    a_scope_of_a_greenlets_first_frame_is_its_own, a_coroutine_resumed_as_a_greenlets_first_frame_has_its_scope_there,
    an_unhooked_call_that_starts_a_greenlet_affects_no_other, a_call_that_waits_is_unhooked_though_its_frame_begins_within_another,
    a_call_that_waits_at_the_root_of_its_greenlet_affects_no_other, calls_that_wait_continue_in_any_order,
)


def main():
    return 1 if show_all(SHOWN) else 0


run(main)
