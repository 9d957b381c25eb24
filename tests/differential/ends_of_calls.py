"""What destructors see and do at the end of calls. Prints everything; run on two interpreters by test_ends_of_calls.py.

Each way in which a call can hold an object to its end meets each thing that the object's destructor may do.
"""

import gc
import signal
import sys
import threading
import traceback
import types
import weakref

seen, kept = [], []


def note(*words):
    seen.append(" ".join(map(str, words)))


def name_and_line(frame):
    return f"{frame.f_code.co_name}:{frame.f_lineno - frame.f_code.co_firstlineno}"


def names_back(most=12):
    names, frame = [], sys._getframe(1)
    while frame is not None and len(names) < most:
        variables = "" if frame.f_code.co_name == "<module>" else sorted(frame.f_locals)
        names.append(f"{name_and_line(frame)} {variables}")
        frame = frame.f_back
    return " < ".join(names)


def recurse(levels):
    return levels and recurse(levels - 1)


def recurse_to_the_limit(level=0):
    try:
        return recurse_to_the_limit(level + 1)
    except RecursionError:
        return level


# --- What a destructor does. ---------------------------------------------------------------------------------------

def looks_at_frames(it):
    note(names_back())


def raises(it):
    raise ValueError("from the destructor")


def lives_on(it):
    kept.append(it)


def collects(it):
    gc.collect()


def calls_deep(it):
    note(recurse(400), names_back(4))


def calls_as_deep_as_it_can(it):
    note(recurse_to_the_limit())


def traces_a_call(it):
    def tracer(frame, event, argument):
        note("traced", name_and_line(frame), event)
        return tracer

    sys.settrace(tracer)
    recurse(1)
    sys.settrace(None)


def turns_tracing_on(it):
    def tracer(frame, event, argument):
        note("traced", name_and_line(frame), event)
        return tracer

    sys.settrace(tracer)


def turns_profiling_on(it):
    sys.setprofile(lambda frame, event, argument: note("profiled", frame.f_code.co_name, event))


def keeps_frames(it):
    kept.extend((sys._getframe(), sys._getframe(1)))


def clears_frames(it):
    frame = sys._getframe(1)
    while frame:
        try:
            frame.clear()
        except RuntimeError as error:
            note(frame.f_code.co_name, error)
        frame = frame.f_back


def asks_from_outside(it):
    frame = sys._current_frames()[threading.get_ident()]
    note(name_and_line(frame), name_and_line(frame.f_back))
    note(sorted(type(holder).__name__ for holder in gc.get_referrers(it)))


def sends_a_signal(it):
    def handler(number, frame):
        note("signal in", name_and_line(frame))
        raise KeyError("from the handler")

    signal.signal(signal.SIGUSR1, handler)
    signal.raise_signal(signal.SIGUSR1)


def ends_another_call(it):
    if it.generation < 30:
        holds_in_a_local(Dies(it.act, it.generation + 1))
        raise ValueError(it.generation)


def replaces_the_code(it):
    holds_in_a_local.__code__ = holds_in_a_local.__code__.replace(co_name="replaced")
    holds_in_an_argument.__defaults__ = None


ACTS = (looks_at_frames, raises, lives_on, collects, calls_deep, calls_as_deep_as_it_can, traces_a_call, turns_tracing_on,
        turns_profiling_on, keeps_frames, clears_frames, asks_from_outside, sends_a_signal, ends_another_call,
        replaces_the_code)


class Dies:
    def __init__(self, act, generation=0):
        self.act, self.generation = act, generation

    def __del__(self):
        note("dies")
        self.act(self)


class DiesWithAMethod(Dies):
    def method(self, argument):
        pass


# --- Who holds it to the end of a call. ----------------------------------------------------------------------------

def holds_in_a_local(it):
    moved = it
    del it


def holds_in_an_argument(it=None):
    pass


def holds_ten(a, b, c, d, e, f, g, h, i, j):
    k = l = m = n = o = p = q = r = s = t = a


def holds_in_a_cell(it):
    return (lambda: it) and None


def has_an_exception(it):
    raise LookupError


def has_an_object(it):
    sys._getframe()


def has_an_object_that_lives(it):
    kept.append(sys._getframe())


def is_traced_by(it):
    sys._getframe().f_trace = it


def has_another_variable(it):
    sys._getframe().f_locals["another"] = it


def yields(it):
    yield it


class Holder:
    def __init__(self, it=None):
        pass

    def method(self, it):
        pass

    def __getitem__(self, it):
        pass

    @classmethod
    def of_class(cls, it):
        pass


def by_exception(make):
    try:
        has_an_exception(make())
    except LookupError as error:
        note("caught", len(traceback.extract_tb(error.__traceback__)))


def by_bound_method(make):
    method = Holder().method
    method(make())


def by_self(make):
    DiesWithAMethod(make.act).method(1)


def by_self_of_a_bound_method(make):
    method = DiesWithAMethod(make.act).method
    method(1)
    del method


def by_function(make):
    namespace = {}
    exec("def function(argument):\n global function\n del function\n", namespace)
    namespace["function"].held = make()
    namespace["function"](1)


def by_code(make):
    namespace = {}
    exec("def function(argument):\n global function\n del function\n", namespace)
    it = make()
    kept.append(weakref.ref(namespace["function"].__code__, lambda reference: it.act(it)))
    namespace["function"](1)
    it.act = lambda it: None


def by_generators(make):
    list(yields(make()))
    begun = yields(make())
    next(begun)
    del begun
    yields(make())


CALLS = {
    "local": lambda make: holds_in_a_local(make()),
    "argument": lambda make: holds_in_an_argument(make()),
    "ten": lambda make: holds_ten(make(), 1, make(), 2, 3, 4, 5, 6, 7, make()),
    "cell": lambda make: holds_in_a_cell(make()),
    "exception": by_exception,
    "object": lambda make: has_an_object(make()),
    "object that lives": lambda make: has_an_object_that_lives(make()),
    "f_trace": lambda make: is_traced_by(make()),
    "another variable": lambda make: has_another_variable(make()),
    "method": lambda make: Holder().method(make()),
    "bound method": by_bound_method,
    "self": by_self,
    "self of a bound method": by_self_of_a_bound_method,
    "__init__": lambda make: Holder(make()),
    "__getitem__": lambda make: Holder()[make()],
    "class method": lambda make: Holder.of_class(make()),
    "function": by_function,
    "code": by_code,
    "locals mapping": lambda make: exec("it = make()\ndef function(): return it\n", {"make": make}, {}),
    "generators": by_generators,
}


class Maker:
    def __init__(self, act):
        self.act = act

    def __call__(self):
        return Dies(self.act)


def show_what_was_kept():
    for it in kept:
        if isinstance(it, types.FrameType):
            variables = sorted(it.f_locals) if it.f_code.co_name != "<module>" else ""
            note("kept frame", name_and_line(it), variables, it.f_back and it.f_back.f_code.co_name)
        else:
            note("kept", type(it).__name__)
    kept.clear()
    gc.collect()
    kept.clear()


def main():
    sys.unraisablehook = lambda what: note("unraisable", what.exc_type.__name__, what.exc_value)
    for act in ACTS:
        for name, call in CALLS.items():
            note("==", act.__name__, "/", name)
            for _ in range(10):     # so that the calls are specialized
                try:
                    call(Maker(act))
                except Exception as error:
                    note("raised", type(error).__name__, error)
                finally:
                    sys.settrace(None)
                    sys.setprofile(None)
            show_what_was_kept()
            holds_in_an_argument.__defaults__ = (None,)
    print(*seen, sep="\n")


if __name__ == "__main__":
    main()
