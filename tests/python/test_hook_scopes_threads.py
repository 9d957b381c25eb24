"""Scopes concern the stack on which they were set: other threads are not affected, unless the scope is for all of them."""

import concurrent.futures
import contextlib
import gc
import threading
import types

from hook_variants import BesideAnEvaluator, InAnInterpreter, InAnInterpreterWithItsOwnGIL, Plainly, SurroundedTestCase, extension
from support import framehook, in_many_threads, in_new_thread, in_threads, needs_hooks


def leaf():
    return "leaf"


def inner(act=None):
    if act is not None:
        act()
    leaf()


def middle(act=None):
    inner(act)


def outer(act=None):
    middle(act)


def generator(*acts):
    for act in acts:
        leaf()
        if act is not None:
            act()
        yield
    leaf()


@types.coroutine
def once():
    yield


async def coroutine(*acts):
    for act in acts:
        leaf()
        if act is not None:
            act()
        await once()
    leaf()


async def asynchronous_generator(*acts):
    for act in acts:
        leaf()
        if act is not None:
            act()
        yield


def step(made):
    with contextlib.suppress(StopIteration, StopAsyncIteration):
        (made if hasattr(made, "send") else made.__anext__()).send(None)


FUNCTIONS = (leaf, inner, middle, outer, generator, coroutine, asynchronous_generator)
CODES = {function.__code__ for function in FUNCTIONS}
LIMITS = {
    "exclude_callees": lambda view: view.exclude_callees(),
    "only_callees": lambda view: view.only_callees(),
    "everywhere": lambda view: view.only_callees(everywhere=True),
}


class Entries:
    """A hook that records the thread and function of each call, and sets a scope."""

    def __init__(self, **limits):
        self.limits, self.names = limits, {}

    def __call__(self, view):
        if view.code not in CODES:
            return framehook.DISABLE
        name = view.code.co_name
        self.names.setdefault(threading.get_ident(), []).append(name)
        limit = self.limits.get(name)
        if limit:
            LIMITS[limit](view)
        return None

    def here(self):
        """Its calls in this thread since the last use of this method."""
        return self.names.pop(threading.get_ident(), [])


class Worker:
    def __init__(self):
        self.pool = concurrent.futures.ThreadPoolExecutor(1)

    def __call__(self, function, *arguments):
        return self.pool.submit(function, *arguments).result(60)


@needs_hooks
class Scopes(SurroundedTestCase):
    SURROUNDINGS = Plainly, BesideAnEvaluator, InAnInterpreter, InAnInterpreterWithItsOwnGIL

    def workers(self, count):
        workers = [Worker() for _ in range(count)]
        for worker in workers:
            self.addCleanup(worker.pool.shutdown)
        return workers

    def elsewhere(self, limit):
        """The hook's calls in another thread while this one is below a frame with the limit, and before and after."""
        workers = [Worker() for _ in range(2)]
        entries = Entries(middle=limit)
        found = []

        def use():
            outer()
            return entries.here()

        def limited():
            leaf()
            return entries.here()

        with framehook.hook(entries):
            expected = use()
            self.assertEqual(expected, ["outer", "middle"] if limit == "exclude_callees" else ["outer", "middle", "inner", "leaf"])
            outer(lambda: found.extend((workers[0](use), workers[1](limited), workers[0](use))))
            own = entries.here()
            self.assertEqual(own, expected)
            self.assertEqual(found, [[], [], []] if limit == "everywhere" else [expected, ["leaf"], expected])
            # And afterwards.
            self.assertEqual([use(), workers[0](use), workers[1](limited)], [expected, expected, ["leaf"]])
        for worker in workers:
            worker.pool.shutdown()

    def test_other_threads_are_not_affected(self):
        for limit in LIMITS:
            self.in_each_surrounding("elsewhere", limit)

    def test_the_hook_is_called_for_a_request_in_each_of_many_threads(self):
        """The program of the report: each thread is below a frame of its own meanwhile."""
        for limit in "only_callees", "exclude_callees":
            entries, failures = Entries(middle=limit), []
            everybody = threading.Barrier(4)

            def work():
                try:
                    for _ in range(50):
                        middle(lambda: everybody.wait(60))
                        found = entries.here()
                        if found != ["middle"] + ["inner", "leaf"] * (limit == "only_callees"):
                            failures.append(found)
                except BaseException as error:
                    failures.append(repr(error))
                    everybody.abort()

            with framehook.hook(entries):
                in_many_threads(4, work)
            self.assertEqual(failures, [])

    def test_a_thread_that_begins_below_a_frame_is_not_below_it(self):
        def in_thread():
            leaf()
            found.append(entries.here())

        def begin():
            in_new_thread(in_thread)

        for limit, expected in (("exclude_callees", ["leaf"]), ("only_callees", ["leaf"]), ("everywhere", [])):
            entries, found = Entries(inner=limit), []
            with framehook.hook(entries):
                inner(begin)
            self.assertEqual(found, [expected], limit)

    def test_called_again_below_a_frame_in_an_excluding_scope(self):
        entries = Entries(outer="only_callees", middle="exclude_callees")
        with framehook.hook(entries):
            outer()
            self.assertEqual(entries.here(), ["outer", "middle"])

        # A hook is not called below its exclude_callees(): the scope within comes from a generator that has begun elsewhere.
        entries = Entries(middle="exclude_callees", generator="only_callees")
        with framehook.hook(entries):
            made = generator(None, None, None)
            step(made)
            self.assertEqual(entries.here(), ["generator", "leaf"])
            middle(lambda: (leaf(), step(made), leaf()))
            self.assertEqual(entries.here(), ["middle", "leaf"])      # the one below the generator
            middle()
            self.assertEqual(entries.here(), ["middle"])

    def test_not_called_below_a_frame_in_an_including_scope(self):
        for outside in "only_callees", "everywhere":
            entries = Entries(outer=outside, middle="exclude_callees")
            with framehook.hook(entries):
                outer()
                leaf()
            self.assertEqual(entries.here(), ["outer", "middle", "leaf"])

    def test_everywhere_ends_with_the_last_frame_that_says_so(self):
        entries, found = Entries(outer="everywhere", inner="everywhere"), []
        (worker,) = self.workers(1)

        def use():
            leaf()
            return entries.here()

        def act():
            found.append(worker(use))

        with framehook.hook(entries):
            outer(act)
            found.append(worker(use))
            inner(act)
            found.append(worker(use))
        self.assertEqual(found, [[], ["leaf"], [], ["leaf"]])
        self.assertEqual(entries.here(), ["outer", "middle", "inner", "leaf", "inner", "leaf"])

    def test_everywhere_in_two_threads_at_once(self):
        one, two, three = self.workers(3)
        entries = Entries(inner="everywhere")
        enter, leave = {}, {}
        for worker in one, two:
            enter[worker], leave[worker] = threading.Event(), threading.Event()

        def hold(worker):
            inner(lambda: (enter[worker].set(), leave[worker].wait(60)))

        def use():
            leaf()
            return entries.here()

        with framehook.hook(entries):
            # The hook is not called for the second one any more: so its scope is set like the first one's, before.
            first = one.pool.submit(hold, one)
            enter[one].wait(60)
            self.assertEqual((three(use), use()), ([], []))
            second = two.pool.submit(hold, two)
            enter[two].wait(60)
            self.assertEqual((three(use), use()), ([], []))
            leave[one].set()
            first.result(60)
            self.assertEqual((three(use), use()), (["leaf"], ["leaf"]))
            leave[two].set()
            second.result(60)
            self.assertEqual((one(use), two(use), three(use), use()), (
                ["inner", "leaf", "leaf"], ["leaf", "leaf"], ["leaf"], ["leaf"]))

    def test_everywhere_of_one_hook_is_nothing_to_another(self):
        (worker,) = self.workers(1)
        first, second, found = Entries(inner="everywhere"), Entries(), []

        def use():
            leaf()
            return first.here(), second.here()

        with framehook.hook(first), framehook.hook(second):
            inner(lambda: found.append(worker(use)))
        self.assertEqual(found, [([], ["leaf"])])

    def test_everywhere_ends_however_the_frame_does(self):
        (worker,) = self.workers(1)

        def use():
            leaf()
            return entries.here()

        def fails():
            found.append(worker(use))
            raise KeyError

        entries, found = Entries(inner="everywhere"), []
        with framehook.hook(entries):
            with self.assertRaises(KeyError):
                inner(fails)
            found.append(worker(use))
        self.assertEqual(found, [[], ["leaf"]])
        # The hook goes while it is in force, and comes again.
        found.clear()
        with framehook.hook(entries):
            def leave():
                framehook.remove(entries)
                framehook.add(entries)
                found.append(worker(use))
            inner(leave)
        self.assertEqual(found, [["leaf"]])

    def test_while_a_generator_is_suspended_nothing_is_limited_anywhere(self):
        one, two = self.workers(2)
        for function in generator, coroutine, asynchronous_generator:
            for limit in LIMITS:
                with self.subTest(function.__name__, limit=limit):
                    entries, found = Entries(**{function.__name__: limit}), []

                    def use():
                        leaf()
                        return entries.here()

                    def act():
                        found.append(two(use))

                    with framehook.hook(entries):
                        made = one(lambda: function(act, act, act))
                        if limit == "everywhere":
                            self.assertEqual(use(), ["leaf"])
                        for resumes in one, two, lambda call, *arguments: call(*arguments):
                            if resumes is two:
                                act = None
                                continue
                            resumes(step, made)
                            entries.names.clear()
                            self.assertEqual((use(), one(use), two(use)), (["leaf"],) * 3)
                        del made
                        gc.collect()
                        self.assertEqual((use(), one(use), two(use)), (["leaf"],) * 3)
                    self.assertEqual(found, [[] if limit == "everywhere" else ["leaf"]] * 2)

    def test_a_generator_takes_its_scope_to_the_thread_that_resumes_it(self):
        one, two, three = self.workers(3)
        for function in generator, coroutine, asynchronous_generator:
            for limit, below in (("exclude_callees", []), ("only_callees", ["leaf"])):
                with self.subTest(function.__name__, limit=limit):
                    entries, beside = Entries(**{function.__name__: limit}), []

                    def act():
                        beside.append([worker(use) for worker in (one, two, three) if worker is not running])

                    def use():
                        leaf()
                        return entries.here()

                    def may_continue():
                        entries.here()
                        step(made)
                        return entries.here()

                    with framehook.hook(entries):
                        made = function(act, act, act)
                        self.assertEqual(entries.here(), [function.__name__])
                        for running in one, two, three:
                            self.assertEqual(running(may_continue), below)
                            self.assertEqual(running(use), ["leaf"])
                        self.assertEqual(beside, [[["leaf"]] * 2] * 3)
                        del made
                        gc.collect()

    def test_a_thread_that_ends_in_the_middle_limits_nothing_any_more(self):
        """The generator is resumed in another thread than that in which its scope began, which has ended."""
        (worker,) = self.workers(1)
        for limit in LIMITS:
            with self.subTest(limit):
                entries, kept = Entries(generator=limit, inner=limit), []

                def begin():
                    kept.append(generator(None, None))
                    step(kept[0])

                def use():
                    leaf()
                    return entries.here()

                with framehook.hook(entries):
                    thread = threading.Thread(target=begin)
                    thread.start()
                    thread.join()
                    # Another thread may get the number of one that is gone.
                    entries.names.clear()
                    self.assertEqual((use(), worker(use)), (["leaf"], ["leaf"]))
                    step(kept[0])
                    self.assertEqual(entries.here(), [] if limit == "exclude_callees" else ["leaf"])
                    kept.clear()
                    gc.collect()
                    self.assertEqual((use(), worker(use)), (["leaf"], ["leaf"]))

    def test_scopes_of_hooks_in_c(self):
        datahooks = extension("datahooks")
        (worker,) = self.workers(1)
        for number, in_thread in ((1, 1), (2, 1), (3, 0)):
            # The words count the hook's calls.
            def act():
                worker(inner)

            handle = datahooks.add(inner.__code__, 0, events=1, scope=number)
            inner(act)
            framehook.remove(handle)
            self.assertEqual(datahooks.take_frames(), [(1, 0, 1, 0)] * (1 + in_thread), number)
            self.assertEqual(datahooks.take_hooks(), (1, 1))

    def test_everywhere_of_a_hook_for_one_thread(self):
        (worker,) = self.workers(1)
        entries, other, found = Entries(inner="everywhere"), Entries(), []

        def use():
            leaf()
            return entries.here(), other.here()

        framehook.add(entries, this_thread=True)
        framehook.add(other)
        inner(lambda: found.append(worker(use)))
        self.assertEqual((found, entries.here()), ([([], ["leaf"])], ["inner", "leaf"]))

    def test_many_threads_with_scopes_of_all_kinds_dispatch_their_own_frames(self):
        import random

        entries, failures = Entries(inner="exclude_callees", outer="only_callees", generator="exclude_callees"), []

        def work(seed):
            chance = random.Random(seed)
            made = []
            try:
                for _ in range(300):
                    what = chance.randrange(5)
                    if what == 0:
                        outer()
                        expected = ["outer", "middle", "inner"]
                    elif what == 1:
                        inner()
                        expected = ["inner"]
                    elif what == 2:
                        made.append(generator(None, None))
                        expected = ["generator"]
                    elif what == 3 and made:
                        step(made[-1])
                        expected = []
                    else:
                        made[:1] = []
                        leaf()
                        expected = ["leaf"]
                    found = entries.here()
                    if found != expected:
                        failures.append((what, found, expected))
            except BaseException as error:
                failures.append(repr(error))

        # One list for each thread: the hook's own is no one's.
        names = threading.local()

        def hook(view):
            if view.code not in CODES:
                return framehook.DISABLE
            name = view.code.co_name
            names.__dict__.setdefault("list", []).append(name)
            limit = entries.limits.get(name)
            if limit:
                LIMITS[limit](view)

        def here():
            found = names.__dict__.get("list", [])
            names.list = []
            return found

        entries.here = here
        with framehook.hook(hook):
            in_threads(work, range(4))
        self.assertEqual(failures[:3], [])

    def test_wrong_arguments_and_two_scopes_in_one_answer(self):
        def answers(*says):
            def hook(view):
                if view.code is leaf.__code__:
                    for say in says:
                        say(view)
                else:
                    return framehook.DISABLE
            with framehook.hook(hook):
                return leaf()

        self.assertRaises(TypeError, answers, lambda view: view.only_callees(True))
        self.assertRaises(TypeError, answers, lambda view: view.only_callees(nowhere=True))
        self.assertRaises(TypeError, answers, lambda view: view.exclude_callees(True))
        for first in LIMITS.values():
            self.assertEqual(answers(first), "leaf")
            for second in LIMITS.values():
                with self.assertRaises(RuntimeError):
                    answers(first, second)
                self.assertEqual(leaf(), "leaf")
        self.assertEqual(answers(lambda view: view.only_callees(everywhere=0)), "leaf")
        # Who catches it has said the first.
        entries = []

        def hook(view):
            if view.code is inner.__code__:
                view.exclude_callees()
                try:
                    view.only_callees()
                except RuntimeError as error:
                    entries.append(str(error))
            elif view.code is leaf.__code__:
                entries.append("leaf")
            else:
                return framehook.DISABLE

        with framehook.hook(hook):
            inner()
            leaf()
        self.assertEqual((len(entries), entries[1:]), (2, ["leaf"]))
