"""Frame hooks: scopes, results, unhooked calls, order, and what a view reads."""

import contextlib
import copy
import gc
import sys
import threading
import time
import unittest
import weakref

from support import framehook, in_a_child, in_new_thread, needs_hooks
from test_hook_watching import Watcher


def leaf():
    return "leaf"


def middle():
    return leaf()


def outer():
    return middle(), leaf()


class Entries:
    """A hook that records the functions for which it is called, and sets a scope."""

    def __init__(self, **limits):
        self.limits, self.names = limits, []

    def __call__(self, view):
        name = view.code.co_name
        if view.code.co_filename != __file__ or name.startswith("test") or name in ("__enter__", "__exit__"):
            return None
        self.names.append(name)
        limit = self.limits.get(name)
        if limit:
            getattr(view, limit)()
        return None

    def of(self, call):
        self.names = []
        with framehook.hook(self):
            call()
        return [name for name in self.names if name not in ("of", "<lambda>")]


@needs_hooks
class Scopes(unittest.TestCase):
    def test_nothing_below_a_frame(self):
        self.assertEqual(Entries(middle="exclude_callees").of(outer), ["outer", "middle", "leaf"])
        self.assertEqual(Entries(outer="exclude_callees").of(lambda: (outer(), leaf())), ["outer", "leaf"])

    def test_they_nest_and_the_inner_one_counts(self):
        def program():
            outer()

        entries = Entries(program="exclude_callees")
        self.assertEqual(entries.of(lambda: (program(), leaf())), ["program", "leaf"])
        entries = Entries(outer="only_callees", middle="exclude_callees")
        self.assertEqual(entries.of(lambda: (outer(), leaf())), ["outer", "middle", "leaf", "leaf"])

    def test_that_of_a_hook_that_is_gone_silences_none_that_comes_after_it(self):
        def generator():
            yield leaf()
            yield leaf()

        with framehook.hook(Entries(generator="exclude_callees")):
            running = generator()
            next(running)
        self.assertEqual(Entries().of(lambda: next(running)), ["leaf"])

    def test_they_end_however_the_frame_is_left(self):
        def fails():
            leaf()
            raise KeyError

        def program():
            try:
                fails()
            except KeyError:
                leaf()

        self.assertEqual(Entries(fails="exclude_callees").of(program), ["program", "fails", "leaf"])

    def test_they_pause_while_a_generator_is_suspended(self):
        def generator():
            leaf()
            yield
            leaf()
            yield

        def program():
            for _ in generator():
                middle()

        self.assertEqual(Entries(generator="exclude_callees").of(program), ["program", "generator", *["middle", "leaf"] * 2])

    def test_a_generator_that_is_dropped_leaves_none(self):
        def generator():
            yield

        def program():
            g = generator()
            next(g)
            del g
            leaf()

        for limit in ("exclude_callees", "only_callees"):
            self.assertEqual(Entries(generator=limit).of(program), ["program", "generator", "leaf"])

    def test_only_callees_everywhere_silences_other_threads(self):
        def other():
            in_thread.append(leaf())

        def program():
            in_new_thread(other)
            leaf()

        class Everywhere(Entries):
            def __call__(self, view):
                super().__call__(view)
                if view.code is program.__code__:
                    view.only_callees(everywhere=True)

        in_thread = []
        names = Everywhere().of(lambda: (program(), other()))
        self.assertEqual(names, ["program", "leaf", "other", "leaf"])
        names = Entries(program="only_callees").of(lambda: (program(), other()))
        self.assertEqual(names, ["program", "other", "leaf", "leaf", "other", "leaf"])
        self.assertEqual(len(in_thread), 4)

    def test_another_hook_knows_nothing_of_them(self):
        every = Entries()
        with framehook.hook(every):
            Entries(outer="exclude_callees").of(outer)
        self.assertEqual([name for name in every.names if name in ("outer", "middle", "leaf")],
                         ["outer", "middle", "leaf", "leaf"])

    def test_a_hook_that_was_removed_leaves_none_to_the_next_in_its_place(self):
        def program():
            framehook.remove(first)
            framehook.add(second)
            leaf()

        first, second = Entries(program="exclude_callees"), Entries()
        framehook.add(first)
        try:
            program()
        finally:
            framehook.remove(second)
        self.assertEqual((first.names, second.names), (["program"], ["leaf"]))

    def test_a_hook_for_this_thread_is_not_called_elsewhere(self):
        entries = Entries()
        framehook.add(entries, this_thread=True)
        try:
            in_new_thread(outer)
            leaf()
        finally:
            framehook.remove(entries)
        self.assertEqual(entries.names, ["leaf"])


@needs_hooks
class Results(unittest.TestCase):
    def answer(self, function, value):
        def hook(view):
            return view.result(value(view)) if view.code is function.__code__ else framehook.DISABLE
        return framehook.hook(hook)

    def test_the_call_has_the_value_and_nothing_runs(self):
        def function(a, *args, k=1, **kwargs):
            ran.append(a)
            return a

        ran = []
        with self.answer(function, lambda view: ("instead", view.arguments())):
            for _ in range(30):
                self.assertEqual(function(1, 2, k=3, z=4),
                                 ("instead", {"a": 1, "args": (2,), "k": 3, "kwargs": {"z": 4}}))
            self.assertEqual(list(map(function, [5]))[0][0], "instead")
        self.assertEqual(ran, [])
        self.assertEqual((function(6), ran), (6, [6]))

    def test_arguments_die_as_they_would_have(self):
        class Thing:
            pass

        def function(thing, cell):
            return lambda: cell

        with self.answer(function, lambda view: None):
            thing = Thing()
            alive = weakref.ref(thing)
            count = sys.getrefcount(thing)
            self.assertIsNone(function(thing, thing))
            self.assertEqual(sys.getrefcount(thing), count)
            function((lambda: thing)(), 1)
            del thing
            self.assertIsNone(alive())

    def test_of_methods_properties_and_items(self):
        class Class:
            def __init__(self, a):
                self.a = a

            @property
            def value(self):
                return 1

            def __getitem__(self, index):
                return index

        def hook(view):
            results = {Class.__init__.__code__: None, Class.value.fget.__code__: 2, Class.__getitem__.__code__: 3}
            return view.result(results[view.code]) if view.code in results else framehook.DISABLE

        with framehook.hook(hook):
            for _ in range(30):
                thing = Class(1)
                self.assertEqual((thing.value, thing[0], vars(thing)), (2, 3, {}))

    def test_of_generators_and_coroutines_is_what_the_call_returns(self):
        def generator():
            yield 1

        async def coroutine():
            pass

        with self.answer(generator, lambda view: [5, 6]), self.answer(coroutine, lambda view: 7):
            self.assertEqual((list(generator()), coroutine()), ([5, 6], 7))

    def test_later_hooks_are_not_called_and_earlier_ones_have_their_exit_events(self):
        watcher, later = Watcher(leaf), Entries()
        with framehook.hook(watcher), self.answer(leaf, lambda view: 1), framehook.hook(later):
            self.assertEqual(leaf(), 1)
        self.assertEqual((watcher.taken(), later.names), ([("returned", 1)], []))

    def test_a_hook_that_answers_may_watch_too(self):
        delivered = []

        def hook(view):
            if view.code is leaf.__code__:
                view.watch(lambda event: delivered.append((event.kind, event.value)))
                return view.result(8)

        with framehook.hook(hook):
            self.assertEqual(leaf(), 8)
        self.assertEqual(delivered, [("returned", 8)])

    def test_a_result_is_forgotten_where_the_hook_fails_or_chooses_code(self):
        class Value:
            pass

        alive = []

        def hook(view):
            if view.code is leaf.__code__:
                value = Value()
                alive.append(weakref.ref(value))
                view.result(value)
                if len(alive) == 1:
                    raise OSError
                return (lambda: "code").__code__

        with framehook.hook(hook):
            self.assertRaises(OSError, leaf)
            self.assertEqual(leaf(), "code")
        gc.collect()
        self.assertEqual([reference() for reference in alive], [None, None])

    def test_an_answer_that_makes_no_sense_frees_its_data(self):
        class Data:
            pass

        words, delivered = [], []

        def hook(view):
            if view.code is leaf.__code__:
                data = Data()
                words.append(weakref.ref(data))
                view.watch(lambda event: delivered.append(event.kind), data)
                view.result(1)
            return framehook.DISABLE

        with framehook.hook(hook), self.assertRaisesRegex(SystemError, "does not go with its object"):
            leaf()
        self.assertEqual(([data() for data in words], delivered), ([None], ["raised"]))

    def test_tracers_see_no_frame(self):
        events = []

        def trace(frame, event, argument):
            events.append((frame.f_code.co_name, event))

        with self.answer(leaf, lambda view: 1):
            sys.setprofile(trace)
            try:
                leaf()
            finally:
                sys.setprofile(None)
        self.assertEqual([event for event in events if event[0] in ("leaf", "hook", "<lambda>")], [])


@needs_hooks
class UnhookedCalls(unittest.TestCase):
    def test_an_unhooked_call_is_not_dispatched_and_what_is_below_is(self):
        entries = Entries()
        self.assertEqual(entries.of(lambda: framehook.unhooked(outer)()), ["middle", "leaf", "leaf"])
        self.assertEqual(entries.of(lambda: framehook.unhooked(outer, callees=True)()), [])
        self.assertEqual(entries.of(lambda: (framehook.unhooked(outer, callees=True)(), leaf())), ["leaf"])

    def test_from_the_code_that_replaces_it(self):
        def function(n):
            return n and function(n - 1)

        def other(n):
            if n == 3:
                return "three"
            return framehook.unhooked(function)(n)

        other_code = other.__code__.replace(co_freevars=("function",))
        self.assertIsNone(framehook.incompatibility(function, other_code))

        def hook(view):
            return other_code if view.code is function.__code__ else framehook.DISABLE

        with framehook.hook(hook):
            self.assertEqual(function(5), "three")
            self.assertEqual(function(2), 0)

    def test_arguments_keywords_methods_and_errors(self):
        class Class:
            def method(self, a, *, b):
                return self, a, b

        thing, entries = Class(), Entries()

        def program():
            self.assertEqual(framehook.unhooked(thing.method)(1, b=2), (thing, 1, 2))
            self.assertRaises(TypeError, framehook.unhooked(thing.method))
            self.assertEqual(framehook.unhooked(len)([1, 2]), 2)

        self.assertNotIn("method", entries.of(program))
        self.assertRaises(TypeError, framehook.unhooked, 3)

    def test_a_call_that_never_begins_affects_nothing_later(self):
        def takes_one(a):
            pass

        def program():
            self.assertRaises(TypeError, framehook.unhooked(takes_one))
            takes_one(1)

        self.assertEqual(Entries().of(program), ["program", "takes_one"])

    def test_of_a_generator_function(self):
        def generator():
            yield leaf()

        self.assertEqual(Entries().of(lambda: list(framehook.unhooked(generator)())), ["leaf"])


@needs_hooks
class OrderAndReading(unittest.TestCase):
    def test_first_before_and_after(self):
        hooks = {name: Entries() for name in "abcdef"}
        add = framehook.add
        handles = [add(hooks["a"]), add(hooks["b"]), add(hooks["c"], first=True), add(hooks["d"], before=hooks["b"]),
                   add(hooks["e"], after=hooks["c"]), add(hooks["f"], after=hooks["b"])]
        try:
            order = [info.hook for info in framehook.hooks()]
            self.assertEqual(order, [hooks[name] for name in "ceadbf"])
        finally:
            for handle in handles:
                framehook.remove(handle)
        with self.assertRaises(ValueError):
            add(hooks["a"], before=12345)
        with self.assertRaises(TypeError):
            add(hooks["a"], first=True, before=hooks["b"])
        self.assertEqual(framehook.hooks(), [])

    def test_what_a_view_reads(self):
        value = 5

        def closure():
            return value

        def calls():
            return closure()                                                        # here

        found = {}

        def hook(view):
            if view.code is closure.__code__:
                found.update(free=view.free_variables, locals=view.locals, caller=view.caller)
            elif view.code.co_name == "<module>" or view.code.co_name == "Body":
                found[view.code.co_name] = view.locals
            return framehook.DISABLE

        names = {"x": 1}
        with framehook.hook(hook):
            calls()
            exec("class Body: pass", names)
        self.assertEqual((found["free"], found["locals"]), ({"value": 5}, None))
        code, line = found["caller"]
        self.assertIs(code, calls.__code__)
        self.assertEqual(line, calls.__code__.co_firstlineno + 1)
        self.assertIs(found["<module>"], names)
        self.assertIn("__module__", found["Body"])

    def test_what_can_stand_in_is_known_beforehand(self):
        def other(a):
            pass

        self.assertIsNone(framehook.incompatibility(leaf, middle))
        self.assertIsNotNone(framehook.incompatibility(leaf, other))
        self.assertEqual(framehook.incompatibility(leaf, other), "it has another number of parameters")
        self.assertIsNone(framehook.incompatibility(leaf.__code__, middle.__code__))
        self.assertRaises(TypeError, framehook.incompatibility, leaf, 3)

    def test_enabling_for_one_code_object_is_about_that_one_alone(self):
        entries = []

        def hook(view):
            entries.append(view.code)
            return framehook.DISABLE

        with framehook.hook(hook):
            outer()
            del entries[:]
            framehook.enable_for_code(hook, leaf)
            outer()
        self.assertEqual([code for code in entries if code.co_filename == __file__], [leaf.__code__])

    def test_the_python_of_a_hook_is_hidden_unless_it_is_visible(self):
        def hook(view):
            helper()
            return None

        def helper():
            pass

        def events(**options):
            found = []
            framehook.add(hook, **options)
            sys.setprofile(lambda frame, event, argument: found.append((frame.f_code.co_name, event)))
            try:
                leaf()
            finally:
                sys.setprofile(None)
                framehook.remove(hook)
            return {name for name, event in found if event == "call"}

        self.assertEqual(events() & {"hook", "helper", "leaf"}, {"leaf"})
        self.assertEqual(events(visible=True) & {"hook", "helper", "leaf"}, {"hook", "helper", "leaf"})

    @in_a_child     # without the GIL CPython 3.13 keeps all code for ever, once a thread was started
    def test_a_map_of_code_objects_goes_by_identity_and_forgets_the_dead(self):
        def make():
            def function():
                return 1
            return function

        one = make()
        two = one.__code__.replace()
        self.assertEqual(one.__code__, two)
        codes = framehook.CodeMap({one.__code__: 1})
        codes[two] = 2
        self.assertEqual((codes[one], codes[two], len(codes), list(codes.values())), (1, 2, 2, [1, 2]))
        self.assertEqual(set(map(id, codes)), {id(one.__code__), id(two)})
        first, second = framehook.CodeMap({one: 1}), framehook.CodeMap({two: 1})
        self.assertEqual((first == second, first == framehook.CodeMap(first), codes == first, first == {one.__code__: 1}),
                         (False, True, False, False))
        copied = copy.copy(codes)
        self.assertEqual(copied, codes)
        copied[leaf] = 3
        self.assertEqual((leaf in copied, leaf in codes), (True, False))
        del two, second, copied
        gc.collect()
        self.assertEqual((len(codes), one in codes, leaf in codes), (1, True, False))
        del codes[one]
        self.assertRaises(KeyError, codes.__getitem__, one)
        self.assertRaises(KeyError, codes.__delitem__, one)
        self.assertEqual(codes.pop(one, "none"), "none")

    def test_what_is_no_code_is_no_key_of_a_map_of_code(self):
        codes = framehook.CodeMap()
        for key in (len, int, None, "leaf", object()):
            for use in (codes.__getitem__, codes.__delitem__, codes.__contains__, codes.pop, codes.setdefault,
                        lambda key: codes.__setitem__(key, 1)):
                with self.assertRaisesRegex(TypeError, "a code object is expected, or a function or method that has one, not"):
                    use(key)
        for use in (codes.__getitem__, codes.__delitem__, codes.pop):
            with self.assertRaises(KeyError) as caught:
                use(leaf)
            self.assertEqual(caught.exception.args, (leaf,))
        with self.assertRaises(KeyError):
            codes.popitem()
        self.assertEqual((len(codes), leaf in codes, codes.get(leaf), codes.setdefault(leaf, 1), codes.setdefault(leaf, 2)),
                         (0, False, None, 1, 1))

    def test_an_entry_that_code_has_left_behind_in_a_map_of_code_is_not_the_next_one_s(self):
        """Where there is no memory to take it out, as code dies, another code object may get the address."""
        for use, expected in (
            (lambda codes: codes.pop(leaf, "none"), "none"),
            (lambda codes: codes.setdefault(leaf, "new"), "new"),
            (lambda codes: codes.get(leaf, "none"), "none"),
            (lambda codes: leaf in codes, False),
        ):
            codes, one = framehook.CodeMap(), leaf.__code__.replace()
            codes[one] = "old"
            left = codes._entries[id(one)]
            del one
            gc.collect()
            left[0].key = id(leaf.__code__)
            codes._entries[left[0].key] = left
            self.assertEqual(use(codes), expected)

    @in_a_child
    def test_a_map_of_code_that_dies_and_deep_copies_of_it(self):
        class Value:
            pass

        codes, value, one = framehook.CodeMap(), Value(), leaf.__code__.replace()
        codes[one], alive = value, weakref.ref(value)
        copied = copy.deepcopy(codes)
        self.assertEqual((list(map(id, copied)), copied[one] is value), ([id(one)], False))
        del value
        gc.disable()
        del codes
        self.assertIsNone(alive())
        gc.enable()
        del one
        gc.collect()
        self.assertEqual((len(copied), list(copied.items())), (0, []))
        copied[leaf] = copied
        again = copy.deepcopy(copied)
        self.assertIs(again[leaf], again)

    def test_threads_that_use_a_map_of_code_at_once(self):
        codes = [leaf.__code__.replace() for _ in range(30)]
        shared, failures, stop = framehook.CodeMap((code, 0) for code in codes), [], threading.Event()

        def work(*uses):
            try:
                while not stop.is_set():
                    for use in uses:
                        use()
            except BaseException as error:
                failures.append(repr(error))

        def changes(numbers):
            for number in numbers:
                shared.pop(codes[number], None)
                shared[codes[number]] = number

        def takes_one():
            with contextlib.suppress(KeyError):
                shared.popitem()

        interval = sys.getswitchinterval()
        self.addCleanup(sys.setswitchinterval, interval)
        sys.setswitchinterval(1e-6)
        threads = [threading.Thread(target=work, args=uses) for uses in (
            (lambda: changes(range(15)),), (lambda: changes(range(29, 5, -1)),),
            (lambda: copy.copy(shared), lambda: list(shared.items()), lambda: list(shared.values()), lambda: 7 in shared.values()),
            (lambda: shared == framehook.CodeMap(shared), takes_one, lambda: shared.setdefault(codes[3], 3), lambda: list(shared)),
            (lambda: shared.__setitem__(leaf.__code__.replace(), 1),))]
        for thread in threads:
            thread.start()
        time.sleep(1)
        stop.set()
        for thread in threads:
            thread.join()
        self.assertEqual(failures, [])

    def test_the_version(self):
        self.assertEqual(framehook.version, 1)
