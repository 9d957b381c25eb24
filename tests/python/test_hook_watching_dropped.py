"""A watched generator is dropped when it is closed or freed, whatever has looked through the collector's lists; and there is nothing of the
engine's in these."""

import gc
import threading
import types
import weakref

from hook_variants import SurroundedTestCase, extension, surrounded
from support import framehook, needs_hooks
from test_hook_cycles import KINDS, Thing

# Those that are dropped, and do not get a GeneratorExit of what they wait for.
DROPPED = [kind for kind in KINDS if kind not in ("generator that delegates", "coroutine", "asynchronous generator that waits")]


def referents_of_all(things, depth=3):
    """What they refer to, and what that refers to ..., as the collector sees it."""
    found = list(things)
    for _ in range(depth):
        found = gc.get_referents(*found)
        yield found


def lists_of_the_collector(made):
    """What code that looks through them may hold: (name, what is held)."""
    yield "all objects", gc.get_objects()
    yield "referents", gc.get_referents(made)
    yield "referents of referents", list(referents_of_all([made]))
    yield "referrers", gc.get_referrers(made)
    yield "each generation", [gc.get_objects(generation) for generation in range(3)]


def wanted(kinds):
    return [kind for kind in kinds if kind not in ("yielded", "resumed")]


class Watching:
    def __init__(self, function):
        self.code, self.kinds, self.threads = function.__code__, [], []

    def __call__(self, view):
        if view.code is not self.code:
            return framehook.DISABLE
        view.watch(self.on_event, Thing(), yields=True, resumes=True)

    def on_event(self, event):
        self.kinds.append(event.kind)
        self.threads.append(threading.get_ident())


@needs_hooks
class Dropped(SurroundedTestCase):
    KINDS = [(kind,) for kind in KINDS]

    @surrounded
    def test_the_event_comes_when_the_generator_is_closed_or_freed(self, kind):
        function, run = KINDS[kind]
        for number in range(5):
            for end in "close", "give up":
                if end == "close" and not hasattr(function(), "close"):
                    continue
                watching = Watching(function)
                with framehook.hook(watching):
                    made = run(function())
                    name, held = list(lists_of_the_collector(made))[number]
                    if end == "close":
                        made.close()
                        found = list(watching.kinds)
                    # Some of the lists hold the generator itself.
                    elif any(one is made for one in held) or name != "referents":
                        found = None
                    else:
                        del made
                        gc.collect()
                        found = list(watching.kinds)
                    if found is not None:
                        self.assertIn(wanted(found), (["dropped"], ["raised"]), (name, end))
                        self.assertEqual(found, watching.kinds)
                    before = list(watching.kinds)
                    made = None
                    del held
                    gc.collect()
                    self.assertEqual(len(wanted(watching.kinds)), 1, (name, end))
                    if found is not None:
                        self.assertEqual(watching.kinds, before, (name, end))

    @surrounded
    def test_the_collector_shows_nothing_of_the_engine_s(self, kind):
        function, run = KINDS[kind]
        with framehook.hook(Watching(function)) as hook:
            made = run(function())
            known = {id(thing) for thing in (made, function, hook, hook.callable)}
            for found in [gc.get_objects(), *referents_of_all([made])]:
                for thing in found:
                    cls = type(thing)
                    if id(thing) in known or isinstance(thing, type):
                        continue
                    self.assertNotIn("Watch", cls.__name__.replace("Watching", ""))
                    if getattr(cls, "__module__", None) in ("framehook", "_framecore"):
                        # A user's own objects, and what the module shows.
                        self.assertIn(cls.__name__, (*framehook.__all__, "_CodeReference", "Suspension"))
            del made

    @surrounded
    def test_what_a_watch_keeps_is_among_the_generator_s_referents(self, kind):
        """The collector finds callback and data through the generator itself; other referents are as without a hook."""
        function, run = KINDS[kind]
        thing, callback = Thing(), Watching(function).on_event

        def hook(view):
            if view.code is not function.__code__:
                return framehook.DISABLE
            view.watch(callback, thing, yields=True, resumes=True)

        plain = run(function())
        with framehook.hook(hook):
            made = run(function())
        referents = gc.get_referents(made)
        self.assertEqual([sum(one is thing for one in referents), sum(one is callback for one in referents)], [1, 1])
        others = [type(one) for one in gc.get_referents(plain)]
        more = [type(one) for one in referents if one is not thing and one is not callback]
        for cls in others:
            more.remove(cls)
        self.assertLessEqual(set(more), {types.CodeType, types.FunctionType}, more)

    @surrounded
    def test_the_event_comes_where_the_generator_is_freed_and_not_where_a_list_is(self, kind):
        """Another thread has the lists: the drop is reported where the generator is closed or released."""
        function, run = KINDS[kind]
        watching = Watching(function)
        looked, lets_go, held = threading.Event(), threading.Event(), []

        def look():
            held.append(gc.get_referents(made[0]))
            looked.set()
            lets_go.wait(60)
            held.clear()

        with framehook.hook(watching):
            made = [run(function())]
            thread = threading.Thread(target=look)
            thread.start()
            looked.wait(60)
            del made[:]
            gc.collect()
            self.assertEqual((len(wanted(watching.kinds)), set(watching.threads)), (1, {threading.get_ident()}))
            lets_go.set()
            thread.join()
        self.assertEqual(len(wanted(watching.kinds)), 1)

    def test_data_goes_as_it_is_dropped(self):
        for kind in KINDS:
            function, run = KINDS[kind]
            alive = []

            def hook(view):
                if view.code is not function.__code__:
                    return framehook.DISABLE
                thing = Thing()
                alive.append(weakref.ref(thing))
                view.watch(lambda event: None, thing)

            with framehook.hook(hook):
                made = run(function())
                held = gc.get_objects()
                if hasattr(made, "close"):
                    # The list has the data, which lives; the engine has given it up.
                    made.close()
                del held
                gc.collect()
                if hasattr(made, "close"):
                    self.assertIsNone(alive[0](), kind)
                del made
                gc.collect()
                self.assertIsNone(alive[0](), kind)

    def test_data_of_c_is_freed_as_the_generator_is_closed(self):
        datahooks = extension("datahooks")
        for kind in DROPPED:
            function, run = KINDS[kind]
            handle = datahooks.add(function.__code__, 0, events=7)
            made = run(function())
            if not hasattr(made, "close"):
                framehook.remove(handle)
                del made
                gc.collect()
                datahooks.take_frames()
                continue
            held = gc.get_objects(), gc.get_referents(made), gc.get_referrers(made)
            made.close()
            # What becomes of a word can be read while it lives on.
            ((ends, _, freed, late),) = datahooks.take_frames()
            self.assertEqual((ends, freed, late), (1, 1, 0), kind)
            framehook.remove(handle)
            del held, made
            gc.collect()
            self.assertEqual(datahooks.take_frames(), [])
        datahooks.take_hooks()

    def test_those_of_each_generator_once_where_all_are_held(self):
        def generator(number):
            yield number

        numbers = []

        def hook(view):
            if view.code is not generator.__code__:
                return framehook.DISABLE
            view.watch(lambda event: numbers.append((event.kind, event.data)), view.argument(0))

        with framehook.hook(hook):
            made = [generator(number) for number in range(300)]
            for one in made[:200:2] + made[1:100:2]:
                next(one)
            held = [gc.get_objects(), gc.get_referents(*made)]
            for one in made[:100]:
                one.close()
            self.assertEqual(numbers, [("dropped", number) for number in range(100)])
            del held, one
            made.clear()
            gc.collect()
        self.assertEqual(sorted(number for _, number in numbers), list(range(300)))

    def test_a_process_that_ends_while_its_objects_are_held(self):
        for keep in ("import builtins; builtins.held = gc.get_objects()", "held = gc.get_objects()",
                     "sys.held = gc.get_objects(), gc.get_referents(made)", "held = [gc.get_objects()]; held.append(held)"):
            out = self.assert_program_succeeds(f"""
import framehook, gc, os, sys
def generator():
    yield 1
def callback(event, write=os.write):
    write(1, event.kind.encode() + b"\\n")
def hook(view):
    if view.code is not generator.__code__:
        return framehook.DISABLE
    view.watch(callback)
framehook.add(hook)
made = generator()
next(made)
{keep}
""")
            self.assertEqual(out, "dropped\n", keep)
