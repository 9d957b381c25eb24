"""watch(arguments=True, caller=True) where entry callbacks, callbacks and frames switch greenlets.

Run by run.py with an interpreter that has greenlet and frame hooks.
"""

import gc
import threading
import weakref

import greenlet

from showing import check_equal, framehook, run, show_all

CONTEXT = {"arguments": True, "caller": True}


class Thing:
    pass


def target(a, *rest, key=3):
    keeps = lambda: a
    a = None
    return keeps


def generator(a):
    yield a
    yield a


def switches(a):
    greenlet.getcurrent().parent.switch("in the frame")
    return a


def switch_back(value=None):
    return greenlet.getcurrent().parent.switch(value)


def first_frames():
    """The first Python frame of a greenlet has no caller; its arguments are those of switch()."""
    events = []
    with framehook.hook(lambda view: view.watch(events.append, **CONTEXT) if view.code is target.__code__ else None):
        greenlet.greenlet(target).switch(1, 2, key=4)
        inner = greenlet.greenlet(lambda: target(5))
        inner.switch()
    check_equal([event.arguments for event in events], [{"a": 1, "key": 4, "rest": (2,)}, {"a": 5, "key": 3, "rest": ()}])
    check_equal(events[0].caller, (None, -1))
    check_equal(events[1].caller, (inner_code(), inner_code().co_firstlineno))


def inner_code():
    return next(constant for constant in first_frames.__code__.co_consts
                if getattr(constant, "co_name", "") == "<lambda>" and "target" in constant.co_names and not constant.co_varnames)


def frames_that_switch():
    """The caller is that of the call, and the arguments those of the call, whichever greenlet runs when the frame ends."""
    events = []

    def calls(number):
        return switches(number)

    with framehook.hook(lambda view: view.watch(events.append, **CONTEXT) if view.code is switches.__code__ else None):
        made = [greenlet.greenlet(calls) for _ in range(5)]
        for number, one in enumerate(made):
            check_equal(one.switch(number), "in the frame")
        for one in reversed(made):
            one.switch()
    check_equal([event.arguments for event in events], [{"a": number} for number in reversed(range(5))])
    check_equal({event.caller for event in events}, {(calls.__code__, calls.__code__.co_firstlineno + 1)})


def entry_callbacks_that_wait():
    """A hook waits in a greenlet before it watches; in another one its view has the arguments, and no caller."""
    events, views, refused = [], [], []

    def hook(view):
        if view.code is target.__code__:
            views.append(view)
            switch_back()
            view.watch(events.append, **CONTEXT)

    with framehook.hook(hook):
        waiting = greenlet.greenlet(lambda: target(Thing()))
        waiting.switch()
        view, = views
        check_equal(sorted(view.arguments()), ["a", "key", "rest"])
        for options in CONTEXT, {"caller": True}:
            try:
                view.watch(events.append, **options)
            except RuntimeError as error:
                refused.append(str(error))
        # Nothing is watched by what was refused: the hook's own call is the first.
        waiting.switch()
    check_equal((len(refused), len(set(refused))), (2, 1))
    check_equal([event.kind for event in events], ["returned"])
    check_equal(type(events[0].arguments["a"]), Thing)
    check_equal(events[0].caller[0].co_name, "<lambda>")


def watches_that_are_begun_elsewhere():
    """Without a caller the other greenlet may begin the watch; the hook then may not."""
    events, views, refused = [], [], []

    def hook(view):
        if view.code is target.__code__:
            views.append(view)
            switch_back()
            try:
                view.watch(events.append)
            except RuntimeError as error:
                refused.append(str(error))

    with framehook.hook(hook):
        waiting = greenlet.greenlet(target)
        waiting.switch(7)
        views[0].watch(events.append, "elsewhere", arguments=True)
        waiting.switch()
    check_equal((len(refused), [(event.data, event.arguments["a"]) for event in events]), (1, [("elsewhere", 7)]))


def truth_values_that_switch():
    """The truth value of an option waits in a greenlet; meanwhile the hook returns, fails, or watches."""
    class Truth:
        def __init__(self, home):
            self.home = home

        def __bool__(self):
            self.home.switch()
            return True

    for option in "yields", "resumes", "arguments", "caller":
        for ends in "returns", "fails", "watches":
            events, outcomes = [], []

            def hook(view):
                if view.code is not target.__code__:
                    return

                def watch():
                    try:
                        view.watch(events.append, Thing(), **{option: Truth(home)})
                    except RuntimeError as error:
                        outcomes.append(str(error))
                    else:
                        outcomes.append("watched")

                home = greenlet.getcurrent()
                others.append(greenlet.greenlet(watch))
                others[0].switch()
                if ends == "fails":
                    raise KeyError
                if ends == "watches":
                    view.watch(events.append, "first")

            others = []
            with framehook.hook(hook):
                try:
                    target(1)
                except KeyError:
                    check_equal(ends, "fails")
                others[0].parent = greenlet.getcurrent()
                others[0].switch()
            check_equal((option, ends, len(outcomes), "watched" in outcomes), (option, ends, 1, False))
            check_equal([(event.kind, event.data) for event in events], [("returned", "first")] if ends == "watches" else [])
            others.clear()


def callbacks_that_keep_events():
    """Callbacks that wait in greenlets keep their events, after the frame and the hook have ended."""
    kept = []

    def reported(event):
        kept.append(event)
        switch_back()
        check_equal(event.arguments, {"a": 3})

    with framehook.hook(lambda view: view.watch(reported, yields=True, resumes=True, **CONTEXT) if view.code is generator.__code__ else None):
        waiting = greenlet.greenlet(lambda: list(generator(3)))
        waiting.switch()
    gc.collect()
    while not waiting.dead:
        waiting.switch()
    # With the hook removed nothing more is delivered.
    check_equal(({event.kind for event in kept}, len(kept)), ({kept[0].kind}, 1))
    check_equal(kept[0].caller[0].co_name, "<lambda>")


def what_a_dead_greenlet_keeps():
    """A greenlet that is given up in a watched frame: its arguments and its event's are freed."""
    references, kinds = [], []

    def session(end):
        thing = Thing()
        references.append(weakref.ref(thing))
        with framehook.hook(lambda view: view.watch(lambda event: kinds.append(event.kind), **CONTEXT) if view.code is switches.__code__ else None):
            one = greenlet.greenlet(switches)
            one.switch(thing)
            if end == "throw":
                one.throw(greenlet.GreenletExit)
            del one, thing

    for end in "throw", "give up":
        session(end)
        gc.collect()
    check_equal((kinds, [reference() for reference in references]), (["raised"] * 2, [None] * 2))


def threads():
    """In each thread its own greenlets: contexts are not mixed up."""
    wrong = []

    def work(thread):
        def caller(number):
            return switches((thread, number))

        for number in range(50):
            made = [greenlet.greenlet(caller) for _ in range(4)]
            for at, one in enumerate(made):
                one.switch(number * 4 + at)
            for one in made:
                one.switch()

    def reported(event):
        thread, _ = event.value
        if event.arguments["a"] is not event.value or event.caller[0].co_name != "caller" or thread != names[threading.get_ident()]:
            wrong.append(event)

    names = {}

    def begin(thread):
        names[threading.get_ident()] = thread
        work(thread)

    with framehook.hook(lambda view: view.watch(reported, **CONTEXT) if view.code is switches.__code__ else None):
        running = [threading.Thread(target=begin, args=(number,)) for number in range(4)]
        for one in running:
            one.start()
        for one in running:
            one.join()
    check_equal(wrong, [])


def main():
    return show_all((first_frames, frames_that_switch, entry_callbacks_that_wait, watches_that_are_begun_elsewhere, truth_values_that_switch,
                     callbacks_that_keep_events, what_a_dead_greenlet_keeps, threads))


run(main)
