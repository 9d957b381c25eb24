"""Frame hooks: one exit event for each watched frame."""

import contextlib
import faulthandler
import gc
import inspect
import sys
import tempfile
import threading
import traceback
import unittest
import weakref

from support import framehook, in_many_threads, needs_hooks, run_program


class Watcher:
    """A hook that watches the frames of some functions and keeps their events."""

    def __init__(self, *functions, mark=None, yields=True, resumes=True, on_event=None, answer=None):
        self.codes = {function.__code__ for function in functions}
        self.events, self.mark = [], mark
        self.yields, self.resumes, self.on_event, self.answer = yields, resumes, on_event, answer

    def __call__(self, view):
        if view.code in self.codes:
            view.watch(self.delivered, self.mark, yields=self.yields, resumes=self.resumes)
            return self.answer(view) if self.answer else None

    def delivered(self, event):
        self.events.append((event.kind, event.value if event.kind != "raised" else repr(event.value)))
        if self.on_event:
            self.on_event(event)

    def taken(self):
        events, self.events = self.events, []
        return events

    def kinds(self):
        return [kind for kind, _ in self.taken()]


@needs_hooks
class Leaving(unittest.TestCase):
    def test_the_event_of_a_return_has_its_value_data_and_code(self):
        def function(a):
            return [a]

        delivered, own_data = [], object()

        def hook(view):
            if view.code is function.__code__:
                view.watch(delivered.append, own_data)

        with framehook.hook(hook):
            result = function(1)
        (event,) = delivered
        self.assertIs(event.value, result)
        self.assertIs(event.data, own_data)
        self.assertIs(event.code, function.__code__)
        self.assertEqual((event.kind, tuple(event)), ("returned", ("returned", [1], function.__code__, own_data)))
        self.assertEqual(type(event).__name__, "FrameEvent")

    def test_an_exception_has_an_event_and_propagates_unchanged(self):
        def fails():
            raise KeyError("k")

        def outer():
            fails()

        watcher = Watcher(fails, outer)
        with self.assertRaises(KeyError) as without:
            outer()
        with framehook.hook(watcher), self.assertRaises(KeyError) as caught:
            outer()
        self.assertEqual(watcher.taken(), [("raised", "KeyError('k')")] * 2)
        lines = [[frame.lineno for frame in traceback.extract_tb(found.exception.__traceback__)][1:]
                 for found in (without, caught)]
        self.assertEqual(*lines)
        self.assertIsNone(caught.exception.__context__)

    def test_frames_have_exit_events_in_whichever_way_they_start(self):
        class Thing:
            def __init__(self):
                self.a = 1

            @property
            def value(self):
                return 2

            def __getitem__(self, index):
                return index

            def method(self, *args, k=3):
                return args, k

        watcher = Watcher(Thing.__init__, Thing.value.fget, Thing.__getitem__, Thing.method)

        def use():
            thing = Thing()
            return thing.value, thing[4], thing.method(5), thing.method(*[6], **{"k": 7}), list(map(thing.method, [8]))

        expected = use()
        with framehook.hook(watcher):
            for _ in range(30):         # specialized on the way
                self.assertEqual(use(), expected)
        self.assertEqual(watcher.taken()[-6:], [
            ("returned", None), ("returned", 2), ("returned", 4), ("returned", ((5,), 3)), ("returned", ((6,), 7)),
            ("returned", ((8,), 3))])

    def test_modules_classes_and_exec_are_left_too(self):
        kinds = []

        def hook(view):
            if view.code.co_filename == "<watched>":
                view.watch(lambda event: kinds.append((view_name(event), event.kind)))

        def view_name(event):
            return event.code.co_name

        with framehook.hook(hook):
            self.assertRaises(ZeroDivisionError, exec, compile(
                "class C:\n def f(self): pass\nC().f()\n1/0", "<watched>", "exec"), {})
        self.assertEqual(kinds, [("C", "returned"), ("f", "returned"), ("<module>", "raised")])

    def test_exit_callbacks_run_in_the_reverse_order_of_entry_callbacks(self):
        def function():
            return 1

        delivered = []

        def noted(mark):
            return Watcher(function, on_event=lambda event: delivered.append((mark, event.kind)))

        with framehook.hook(noted(1)), framehook.hook(noted(2)), framehook.hook(noted(3)):
            function()
        self.assertEqual(delivered, [(3, "returned"), (2, "returned"), (1, "returned")])

    def test_the_events_of_a_recursion_come_from_the_inside(self):
        def recurse(n):
            return n and recurse(n - 1) + 1

        watcher = Watcher(recurse)
        with framehook.hook(watcher):
            self.assertEqual(recurse(500), 500)
        self.assertEqual(watcher.taken(), [("returned", n) for n in range(501)])

    def test_the_limit_of_recursion_is_where_it_was(self):
        def depth(n=0):
            try:
                return depth(n + 1)
            except RecursionError:
                return n

        expected = depth()
        watcher = Watcher(depth)
        with framehook.hook(watcher):
            # The hook and what it calls are Python functions, and need a frame where depth() needs none.
            self.assertIn(expected - depth(), range(3))
        self.assertEqual({kind for kind, _ in watcher.taken()}, {"returned"})

    def test_a_callback_that_raises_makes_the_call_fail(self):
        def function():
            return 1

        def fails():
            raise KeyError("first")

        def complain(event):
            raise RuntimeError(event.kind)

        others = Watcher(function, fails)
        with framehook.hook(others), framehook.hook(Watcher(function, fails, on_event=complain)):
            with self.assertRaisesRegex(RuntimeError, "returned") as caught:
                function()
            self.assertIsNone(caught.exception.__context__)
            with self.assertRaisesRegex(RuntimeError, "raised") as caught:
                fails()
        self.assertEqual(repr(caught.exception.__context__), "KeyError('first')")
        # The remaining callbacks get the new outcome of the call.
        self.assertEqual(others.taken(), [("raised", "RuntimeError('returned')"), ("raised", "RuntimeError('raised')")])

    def test_a_callback_may_raise_the_exception_of_its_event(self):
        def fails():
            raise KeyError

        def again(event):
            raise event.value

        with framehook.hook(Watcher(fails, on_event=again)), self.assertRaises(KeyError) as caught:
            fails()
        self.assertIsNone(caught.exception.__context__)

    def test_contexts_are_as_of_what_is_raised_within_except(self):
        def fails():
            try:
                raise KeyError("inner")
            except KeyError:
                raise ValueError("outer")

        def in_its_own_handler(raised):
            try:
                raise OSError("first")
            except OSError:
                raise OSError("second")

        def its_context(raised):
            raise raised.__context__

        def the_same_again(raised):
            raise

        def from_another(raised):
            raise OSError("new") from raised.__context__

        def of_c(raised):
            int("x")

        def without_any(raised):
            with contextlib.suppress(OSError):
                in_its_own_handler(raised)
            self.assertIs(sys.exception(), raised)
            raise OSError("after it")

        def contexts(act):
            try:
                raise TypeError("around")
            except TypeError:
                try:
                    act()
                except Exception as error:
                    found = []
                    while error is not None and error not in found:
                        found.append(error)
                        error = error.__context__
                    return [repr(one) for one in found], error

        for act in (in_its_own_handler, its_context, the_same_again, from_another, of_c, without_any):
            with self.subTest(act.__name__):
                def by_hand():
                    try:
                        fails()
                    except ValueError as error:
                        act(error)

                expected = contexts(by_hand)
                with framehook.hook(Watcher(fails, on_event=lambda event: act(event.value))):
                    self.assertEqual(contexts(fails), expected)

    def test_a_removed_hook_gets_no_event_and_its_data_is_freed(self):
        class Data:
            pass

        own_data = Data()
        alive = weakref.ref(own_data)
        delivered = []

        def hook(view):
            if view.code is function.__code__:
                view.watch(delivered.append, words.pop())

        def function():
            framehook.remove(hook)
            self.assertIsNotNone(alive())

        words = [own_data]
        del own_data
        framehook.add(hook)
        function()
        self.assertEqual(delivered, [])
        self.assertIsNone(alive())

    def test_a_disabled_hook_gets_the_events_of_frames_that_it_watches(self):
        def function():
            framehook.disable(watcher)

        watcher = Watcher(function)
        with framehook.hook(watcher):
            function()
            function()
        self.assertEqual(watcher.kinds(), ["returned"])

    def test_a_frame_that_is_replaced_in_the_same_dispatch_is_one_frame(self):
        def original(a):
            return a

        def other(a):
            x = [a] * 30
            return x[0], len(x)

        codes = []

        def first(view):
            if view.code is original.__code__:
                view.watch(lambda event: codes.append(event.code))

        def second(view):
            if view.code is original.__code__:
                return other.__code__

        with framehook.hook(first), framehook.hook(second):
            self.assertEqual(original(1), (1, 30))
        self.assertEqual(codes, [other.__code__])

    def test_a_failed_dispatch_is_an_event_for_watches(self):
        def function():
            pass

        def fails(view):
            if view.code is function.__code__:
                raise OSError("no")

        watcher = Watcher(function)
        with framehook.hook(watcher), framehook.hook(fails):
            self.assertRaisesRegex(OSError, "no", function)
        self.assertEqual(watcher.taken(), [("raised", "OSError('no')")])

    def test_a_hook_watches_a_frame_once(self):
        def function():
            pass

        def twice(view):
            if view.code is function.__code__:
                view.watch(print)
                view.watch(print)

        with framehook.hook(twice), self.assertRaisesRegex(RuntimeError, "once"):
            function()

    def test_what_is_no_callable_is_refused(self):
        def function():
            pass

        for arguments in ((), (3,), (print, 1, 2, 3, 4)):
            def wrong(view):
                if view.code is function.__code__:
                    view.watch(*arguments)
            with self.subTest(arguments), framehook.hook(wrong):
                self.assertRaises(TypeError, function)

    def test_a_view_that_has_expired_watches_nothing(self):
        views = []

        def keep(view):
            views.append(view)
            return framehook.DISABLE

        with framehook.hook(keep):
            (lambda: None)()
        for use in (lambda view: view.watch(print), lambda view: view.result(1), lambda view: view.exclude_callees(),
                    lambda view: view.locals, lambda view: view.caller):
            self.assertRaises(RuntimeError, use, views[0])

    def test_events_of_other_threads_frames_are_delivered_there(self):
        def function():
            return threading.get_ident()

        wrong = []
        watcher = Watcher(function, on_event=lambda event: event.value == threading.get_ident() or wrong.append(event))
        with framehook.hook(watcher):
            in_many_threads(4, lambda: [function() for _ in range(300)])
        self.assertEqual((len(watcher.taken()), wrong), (1200, []))

    def test_what_a_callback_starts_is_not_dispatched(self):
        def function():
            helper()

        def helper():
            pass

        entries = []

        def hook(view):
            if view.code in (function.__code__, helper.__code__):
                entries.append(view.code.co_name)
                view.watch(lambda event: helper())

        with framehook.hook(hook):
            function()
        self.assertEqual(entries, ["function", "helper"])


@needs_hooks
class Unseen(unittest.TestCase):
    """Whatever looks at frames does not see that one is watched."""

    def look(self):
        def inner():
            frame, names = sys._getframe(), []
            while frame is not None and frame.f_code is not Unseen.look.__code__:
                names.append((frame.f_code.co_name, frame.f_lineno))
                frame = frame.f_back
            stack = [(info.function, info.lineno) for info in inspect.stack(0)[:3]]
            return names, stack, [(s.name, s.lineno) for s in traceback.extract_stack()[-3:]]

        def middle():
            return inner()

        def outer():
            return [middle()][0]

        return outer, (inner, middle, outer)

    def test_walks_find_what_they_find_without_a_hook(self):
        outer, functions = self.look()
        found = []
        for watchers in (0, 2):
            with contextlib.ExitStack() as stack:
                for _ in range(watchers):
                    stack.enter_context(framehook.hook(Watcher(*functions)))
                found.append(outer())
        self.assertEqual(*found)

    def test_tracers_and_monitoring_see_the_same_events(self):
        def generator(n):
            try:
                for i in range(n):
                    yield i
            finally:
                fails(n)

        def fails(n):
            if n == 2:
                raise ValueError
            return n

        def program():
            result = [sum(generator(3))]
            try:
                list(generator(2))
            except ValueError:
                result.append("caught")
            g = generator(5)
            next(g)
            g.close()
            return result

        codes = {function.__code__ for function in (generator, fails, program)}

        def events_of(install, remove):
            found = []

            def trace(frame, event, argument):
                if frame.f_code in codes:
                    found.append((frame.f_code.co_name, event, frame.f_lineno))
                return trace

            install(trace)
            try:
                program()
            finally:
                remove()
            return found

        def monitored():
            found, monitoring, tool = [], sys.monitoring, 3
            monitoring.use_tool_id(tool, "watching")
            for event in ("PY_START", "PY_RESUME", "PY_RETURN", "PY_YIELD", "PY_UNWIND", "PY_THROW", "RAISE", "RERAISE",
                          "EXCEPTION_HANDLED"):
                def note(code, *rest, event=event):
                    if code in codes or code.co_filename == __file__:
                        found.append((event, code.co_name, rest[0] if event != "PY_UNWIND" else None))
                monitoring.register_callback(tool, getattr(monitoring.events, event), note)
            events = monitoring.events
            monitoring.set_events(tool, events.PY_START | events.PY_RESUME | events.PY_RETURN | events.PY_YIELD
                                  | events.PY_UNWIND | events.PY_THROW | events.RAISE | events.RERAISE
                                  | events.EXCEPTION_HANDLED)
            try:
                program()
            finally:
                monitoring.set_events(tool, 0)
                monitoring.free_tool_id(tool)
            return [event for event in found if event[1] in ("generator", "fails", "program")]

        def all_events():
            return (events_of(sys.settrace, lambda: sys.settrace(None)),
                    events_of(sys.setprofile, lambda: sys.setprofile(None)), monitored())

        expected = all_events()
        watcher = Watcher(generator, fails, program)
        with framehook.hook(watcher), framehook.hook(Watcher(generator, program)):
            self.assertEqual(all_events(), expected)
        self.assertTrue(watcher.taken())

    def test_faulthandler_skips_several_return_shims(self):
        def inner():
            with tempfile.TemporaryFile() as file:
                faulthandler.dump_traceback(file, all_threads=False)
                file.seek(0)
                return [line.split()[-1] for line in file.read().decode().splitlines()[1:]]

        def outer():
            return inner()

        expected = outer()
        with framehook.hook(Watcher(inner, outer)), framehook.hook(Watcher(inner, outer)), \
                framehook.hook(Watcher(inner)):
            found = outer()
        self.assertEqual(found, expected)

    def test_events_make_no_table_of_strings_larger(self):
        # A program of its own: nothing in it has the words of events for constants.
        done = run_program("""
import framehook, tracemalloc
def function(): pass
with framehook.hook(lambda view: view.watch(lambda event: None)):
    function()
    tracemalloc.start()
    for _ in range(60_000):
        function()
    print(tracemalloc.get_traced_memory()[1])
""")
        self.assertLess(int(done.stdout), 100_000)

    def test_the_collector_may_run_anywhere(self):
        def generator():
            yield gc.collect() and 1
            yield gc.get_referrers(generator) and 2

        def function():
            gc.collect()
            return list(generator())

        watcher = Watcher(function, generator, on_event=lambda event: gc.collect())
        with framehook.hook(watcher):
            self.assertEqual(function()[1], 2)


@needs_hooks
class Ends(unittest.TestCase):
    def test_a_thread_that_ends_and_an_interpreter_that_ends_leave_nothing_untold(self):
        done = run_program("""
import framehook, atexit
def generator():
    yield 1
    yield 2
def hook(view):
    if view.code is generator.__code__:
        view.watch(lambda event: print(event.kind, flush=True))
    else:
        return framehook.DISABLE
framehook.add(hook)
g = generator()
next(g)
import sys
sys.modules["keeper"] = g
import builtins
builtins.keeper = g
""")
        self.assertEqual((done.returncode, done.stderr, done.stdout), (0, "", "dropped\n"))

    def test_os_exit_and_daemon_threads_do_no_harm(self):
        done = run_program("""
import framehook, threading, time
def waits():
    started.set()
    while True:
        time.sleep(0.001)
def hook(view):
    if view.code is waits.__code__:
        view.watch(lambda event: print(event.kind, flush=True))
    else:
        return framehook.DISABLE
started = threading.Event()
framehook.add(hook)
threading.Thread(target=waits, daemon=True).start()
started.wait()
""")
        self.assertEqual((done.returncode, done.stderr, done.stdout), (0, "", "dropped\n"))
