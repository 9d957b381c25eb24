"""watch(arguments=True, caller=True) where frames, callers and callbacks are as odd as they can be."""

import gc
import sys
import threading
import types
import unittest
import weakref

from hook_variants import SurroundedTestCase, surrounded
from support import FREE_THREADED, Thing, needs_hooks

try:
    import framehook
except ImportError:     # stock CPython
    framehook = None

CONTEXT = {"arguments": True, "caller": True}


class Watching:
    """A hook that watches the frames of one function, with arguments and caller."""

    def __init__(self, function, **options):
        self.code, self.events, self.options = function.__code__, [], {**CONTEXT, **options}

    def __call__(self, view):
        if view.code is self.code:
            view.watch(self.events.append, **self.options)


def names(code):
    """The code's parameters, in the order of a frame's locals."""
    count = code.co_argcount + code.co_kwonlyargcount
    count += sum(bool(code.co_flags & flag) for flag in (0x4, 0x8))
    return list(code.co_varnames[:count])


@needs_hooks
class Attacked(SurroundedTestCase):
    collects_often = True

    @surrounded
    def test_parameters_of_all_kinds(self):
        def positional(a, b=2, /, c=3):
            a = b = c = None

        def stars(*args, **kwargs):
            del args, kwargs

        def all_of_them(a, /, b, *args, c, d=4, **kwargs):
            del a, b, args, c, d, kwargs

        def captured(a, b=2, *args, c=3, **kwargs):
            a, more = [a], lambda: (a, b, args, c, kwargs)
            return more

        def deletes(a, b=2):
            keeps = lambda: (a, b)
            del a, b
            return keeps

        many = {}
        exec(f"def many({', '.join(f'p{i}' for i in range(300))}): p0 = 1", many)
        for function, given, keywords, expected in (
                (positional, (1,), {}, {"a": 1, "b": 2, "c": 3}),
                (positional, (1, 5), {"c": 6}, {"a": 1, "b": 5, "c": 6}),
                (stars, (), {}, {"args": (), "kwargs": {}}),
                (stars, (1, 2), {"args": 3, "kwargs": 4}, {"args": (1, 2), "kwargs": {"args": 3, "kwargs": 4}}),
                (all_of_them, (1, 2, 3), {"c": 5, "a": 6}, {"a": 1, "b": 2, "args": (3,), "c": 5, "d": 4, "kwargs": {"a": 6}}),
                (captured, (1,), {"e": 2}, {"a": 1, "b": 2, "args": (), "c": 3, "kwargs": {"e": 2}}),
                (deletes, (1,), {}, {"a": 1, "b": 2}),
                (many["many"], range(300), {}, {f"p{i}": i for i in range(300)})):
            with framehook.hook(Watching(function)) as hook:
                function(*given, **keywords)
            event, = hook.callable.events
            self.assertEqual(event.arguments, expected)
            self.assertEqual(list(event.arguments), names(function.__code__))

    @surrounded
    def test_frames_without_parameters(self):
        code = compile("class A:\n def m(self): pass\nA().m()\nx = 1", "<context>", "exec")
        events = []

        def hook(view):
            if view.code.co_filename == "<context>":
                view.watch(events.append, **CONTEXT)

        space = {}
        with framehook.hook(hook):
            exec(code, space)
        self.assertEqual([event.code.co_name for event in events], ["A", "m", "<module>"])
        self.assertEqual([set(event.arguments) for event in events], [set(), {"self"}, set()])
        self.assertEqual([event.caller for event in events[:2]], [(code, 1), (code, 3)])

    @surrounded
    def test_cells_that_are_emptied(self):
        """A hook in front takes a parameter's value away: through the cell, which the prologue has made."""
        def function(a, b):
            return lambda: (a, b)

        events, cells = [], []

        def second(view):
            if view.code is function.__code__:
                view.watch(events.append, **CONTEXT)

        def first(view):
            if view.code is function.__code__:
                # The one that refers to the value.
                cells[:] = [cell for cell in gc.get_referrers(view.argument("a")) if isinstance(cell, types.CellType)]
                for cell in cells:
                    del cell.cell_contents

        with framehook.hook(first), framehook.hook(second):
            made = function(Thing(), 2)
        emptied = bool(cells)
        event, = events
        self.assertEqual(sorted(event.arguments), ["b"] if emptied else ["a", "b"])
        if emptied:
            self.assertRaises(NameError, made)

    @surrounded
    def test_replaced_frames(self):
        """Each hook keeps what it would have read: of the code that the hooks before it have left."""
        def function(a, b=2, *, key=3):
            return a, b, key

        def other(b, a=5, *args, key=9):
            return "other", a, b, key

        def hook_of(name, answer=None):
            def hook(view):
                if view.function is function:
                    view.watch(lambda event: found.append((name, event.code.co_name, event.arguments, event.caller[0].co_name)), **CONTEXT)
                    return answer
            return hook

        def calls():
            return function(1, key=4)

        found = []
        code = function.__code__.replace(co_name="same")
        with framehook.hook(hook_of("before", code)), framehook.hook(hook_of("after")):
            self.assertEqual(calls(), (1, 2, 4))
        whole = {"a": 1, "b": 2, "key": 4}
        self.assertEqual(found, [("after", "same", whole, "calls"), ("before", "same", whole, "calls")])
        found.clear()
        if framehook.incompatibility(function.__code__, other.__code__) is None:
            with framehook.hook(hook_of("before", other.__code__)), framehook.hook(hook_of("after")):
                self.assertEqual(calls(), ("other", 1, 2, 4))
            self.assertEqual([arguments for _, _, arguments, _ in found], [{"b": 2, "a": 1, "args": (), "key": 4}, whole])

    @surrounded
    def test_callers_that_are_gone(self):
        def generator(a):
            yield a
            yield a

        # No constant of this function.
        space = {"generator": generator}
        exec("def makes(a):\n return generator(a)", space)
        makes = space.pop("makes")
        watching = Watching(generator, yields=True, resumes=True)
        with framehook.hook(watching):
            made = makes(3)
            caller = makes.__code__, 2
            gone = weakref.ref(makes)
            del makes
            gc.collect()
            self.assertIsNone(gone())
            self.assertEqual(list(made), [3, 3])
        self.assertEqual({event.caller for event in watching.events}, {caller})
        self.assertEqual(len({id(event.arguments) for event in watching.events}), 1)
        del caller
        kept = weakref.ref(watching.events[0].caller[0])
        del made
        watching.events.clear()
        gc.collect()
        self.assertIsNone(kept())

    @unittest.skipIf(FREE_THREADED, "once a thread has started, CPython 3.13 without the GIL makes functions immortal")

    @surrounded
    def test_callers_of_other_kinds(self):
        def function(a):
            return a

        watching = Watching(function)
        line = sys._getframe().f_lineno + 2
        with framehook.hook(watching):
            sorted([1], key=function)
            thread = threading.Thread(target=function, args=(2,))
            thread.start()
            thread.join()
        # What is called by C has the Python function that has called that.
        self.assertEqual([event.arguments for event in watching.events], [{"a": 1}, {"a": 2}])
        self.assertEqual(watching.events[0].caller, (sys._getframe().f_code, line))
        self.assertEqual(watching.events[1].caller[0], threading.Thread.run.__code__)

    @surrounded
    def test_a_thread_s_first_frame_has_no_caller(self):
        import _thread

        def function():
            done.release()

        done = _thread.allocate_lock()
        done.acquire()
        events = []

        def callback(event):
            events.append(event)
            over.release()

        over = _thread.allocate_lock()
        over.acquire()
        with framehook.hook(lambda view: view.watch(callback, **CONTEXT) if view.code is function.__code__ else None):
            _thread.start_new_thread(function, ())
            over.acquire()
        self.assertEqual([(event.caller, event.arguments) for event in events], [((None, -1), {})])

    @surrounded
    def test_truth_values_that_run_code(self):
        """A truth value runs any code: it watches the frame, gives up the view, or has the hook's answer read."""
        def function(a):
            return a

        log = []

        class Truth:
            def __init__(self, run, answer=True):
                self.run, self.answer = run, answer

            def __bool__(self):
                self.run()
                return self.answer

        def hook_with(name, run):
            def hook(view):
                if view.code is function.__code__:
                    try:
                        view.watch(log.append, Thing(), **{name: Truth(lambda: run(view))})
                    except RuntimeError as error:
                        log.append(str(error))
            return hook

        for name in "yields", "resumes", "arguments", "caller":
            with framehook.hook(hook_with(name, lambda view: view.watch(log.append, 1))):
                function(5)
            self.assertIn("watches the frame already", log[0])
            self.assertEqual([(event.kind, event.data) for event in log[1:]], [("returned", 1)])
            log.clear()
            with framehook.hook(hook_with(name, lambda view: (framehook.clear(), gc.collect()))):
                function(5)
            # The hook is removed: nothing is delivered to it.
            self.assertEqual(log, [])

            def elsewhere(view):
                def use():
                    for read in (lambda: view.watch(log.append, **CONTEXT), view.arguments, lambda: view.caller):
                        with self.assertRaisesRegex(RuntimeError, "another thread"):
                            read()
                thread = threading.Thread(target=use)
                thread.start()
                thread.join()

            with framehook.hook(hook_with(name, elsewhere)):
                function(5)
            event, = log
            self.assertEqual((event.kind, event.arguments), ("returned", {"a": 5} if name == "arguments" else None))
            log.clear()

    @surrounded
    def test_names_that_are_none_of_the_parameters(self):
        class Name(str):
            def __eq__(self, other):
                raise AssertionError("compared")
            __hash__ = str.__hash__

        def function(a):
            return a

        outcomes = []

        def hook(view):
            if view.code is function.__code__:
                for name in ("yields\0", "Yields", "yield", "yields ", "arguments\N{COMBINING ACUTE ACCENT}", "", "data\0", "\ud800"):
                    try:
                        view.watch(outcomes.append, **{name: True})
                    except TypeError as error:
                        outcomes.append(str(error))
                view.watch(outcomes.append, **{Name("arguments"): True})

        with framehook.hook(hook):
            function(1)
        *errors, event = outcomes
        self.assertEqual((len(errors), len(set(errors))), (8, 1))
        self.assertEqual(event.arguments, {"a": 1})

    @surrounded
    def test_events_that_are_kept(self):
        """An event is read after the end of its frame, its hook, its thread and its callback."""
        def function(a, b):
            a.append(b)
            return a

        kept = []

        def work():
            watching = Watching(function)
            with framehook.hook(watching, this_thread=True):
                function([1], 2)
            kept.extend(watching.events)

        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
        del thread
        gc.collect()
        event, = kept
        self.assertEqual(event.arguments, {"a": [1, 2], "b": 2})
        self.assertEqual(event.caller, (work.__code__, work.__code__.co_firstlineno + 3))
        # The dict is the event's: changed, it is seen by those who hold the event, and by no frame.
        event.arguments["a"] = event
        gone = weakref.ref(event.value) if hasattr(event.value, "__weakref__") else None
        event.arguments.clear()
        self.assertEqual(event.value, [1, 2])
        self.assertIsNone(gone)
        self.assertRaises(AttributeError, setattr, event, "arguments", None)

    @surrounded
    def test_events_that_lead_to_themselves(self):
        def generator(thing):
            yield thing

        references = []
        for number in range(4):
            thing = Thing()
            references.append(weakref.ref(thing))

            def callback(event, thing=thing):
                event.arguments["event"] = event
                thing.event = event

            with framehook.hook(lambda view: view.watch(callback, yields=True, **CONTEXT) if view.code is generator.__code__ else None):
                thing.made = generator(thing)
                if number % 2:
                    next(thing.made)
            del callback, thing
            gc.collect()
        self.assertEqual([reference() for reference in references], [None] * 4)

    @surrounded
    def test_failing_callbacks(self):
        """The exception of a callback leads to the event, and the event's arguments to the frame."""
        class Failed(Exception):
            pass

        def function(thing):
            return thing

        def callback(event):
            raise Failed(event)

        reference = None
        with framehook.hook(lambda view: view.watch(callback, **CONTEXT) if view.code is function.__code__ else None):
            thing = Thing()
            reference = weakref.ref(thing)
            with self.assertRaises(Failed) as caught:
                function(thing)
            self.assertIs(caught.exception.args[0].arguments["thing"], thing)
            thing.failed = caught.exception
            del caught, thing
        gc.collect()
        self.assertIsNone(reference())

    @surrounded
    def test_callbacks_that_call_what_is_watched(self):
        """Callbacks that call what is watched, through a re-entrant call: each has its own caller and arguments."""
        def function(n):
            return n

        seen = []

        def callback(event):
            seen.append((event.arguments["n"], event.caller[0].co_name))
            if event.arguments["n"]:
                framehook.reentrant(function)(event.arguments["n"] - 1)

        def calls():
            return function(3)

        with framehook.hook(lambda view: view.watch(callback, **CONTEXT) if view.code is function.__code__ else None):
            self.assertEqual(calls(), 3)
        self.assertEqual([n for n, _ in seen], [3, 2, 1, 0])
        self.assertEqual({caller for _, caller in seen[1:]}, {"callback"})

    def test_events_outlive_the_interpreter_s_hooks(self):
        out = self.assert_program_succeeds("""
import framehook, sys
def function(a, b=[2]):
    return a
events = []
framehook.add(lambda view: view.watch(events.append, events, arguments=True, caller=True) if view.code is function.__code__ else None)
function(events)
class AtTheEnd:
    def __init__(self):
        self.events = events
    def __del__(self, write=sys.stdout.write):
        event, = self.events
        write(f"{event.kind} {event.arguments['b']} {event.caller[1]} {event.arguments['a'] is self.events}")
sys.modules["at the end"] = AtTheEnd()
""")
        self.assertEqual(out, "returned [2] 7 True")
