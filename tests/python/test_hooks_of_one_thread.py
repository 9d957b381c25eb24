"""Hooks for one thread: they go with it, whatever it does at its end, and are nothing to the others."""

import concurrent.futures
import gc
import threading
import weakref

from hook_variants import SurroundedTestCase, extension, surrounded
from support import framehook, in_many_threads, in_new_thread, needs_hooks

try:
    import ctypes
except ImportError:
    ctypes = None


def target():
    return 1


def generator():
    yield 1
    yield 2


class Hook:
    """A hook that records in which thread it is called for target()."""

    def __init__(self, answer=None):
        self.entries, self.answer = [], answer

    def __call__(self, view):
        if view.code is target.__code__:
            self.entries.append(threading.get_ident())
            return self.answer
        return None

    def take(self):
        taken, self.entries = self.entries, []
        return taken


def names():
    return [info.name for info in framehook.hooks()]


@needs_hooks
class OneThread(SurroundedTestCase):
    @surrounded
    def test_it_goes_with_its_thread(self):
        hook = Hook()
        alive = weakref.ref(hook)

        def work(hook):
            handle = framehook.add(hook, "of a thread", this_thread=True)
            target()
            return handle, hook.take(), threading.get_ident(), names()

        handle, entries, ident, listed = in_new_thread(work, hook)
        self.assertEqual((entries, listed), ([ident], ["of a thread"]))
        self.assertEqual(framehook.hooks(), [])
        target()
        in_new_thread(target)
        self.assertEqual(hook.entries, [])
        for use in framehook.remove, framehook.enable, framehook.disable, framehook.disable_in_thread:
            self.assertRaises(ValueError, use, handle)
        self.assertRaises(ValueError, framehook.remove, hook)
        # It may be added again, here.
        framehook.add(hook)
        target()
        self.assertEqual(len(hook.take()), 1)
        framehook.remove(hook)
        del hook
        gc.collect()
        self.assertIsNone(alive())

    def test_1100_threads_one_after_the_other(self):
        hooks = []

        def work():
            for _ in range(2):
                hook = Hook()
                hooks.append(weakref.ref(hook))
                framehook.add(hook, this_thread=True)
                target()
                seen.append(len(hook.entries))

        seen = []
        for number in range(1_100):
            thread = threading.Thread(target=work)
            thread.start()
            thread.join()
            if number % 100 == 0:
                self.assertEqual(framehook.hooks(), [])
        del thread
        gc.collect()
        self.assertEqual((seen, framehook.hooks()), ([1] * 2_200, []))
        self.assertEqual(sum(hook() is not None for hook in hooks), 0)

    def test_threads_that_come_and_go_at_once(self):
        failures = []

        def work():
            try:
                hook = Hook()
                framehook.add(hook, this_thread=True)
                for _ in range(5):
                    target()
                if set(hook.entries) != {threading.get_ident()} or len(hook.entries) != 5:
                    failures.append(hook.entries)
            except BaseException as error:
                failures.append(repr(error))

        for _ in range(40):
            in_many_threads(10, work)
        self.assertEqual((failures, framehook.hooks()), ([], []))

    def test_others_know_nothing_of_it(self):
        hook, everywhere = Hook(), Hook()
        framehook.add(hook, this_thread=True)
        framehook.add(everywhere)
        with concurrent.futures.ThreadPoolExecutor(3) as pool:
            list(pool.map(lambda _: target(), range(50)))
        self.assertEqual((hook.take(), len(everywhere.take())), ([], 50))
        target()
        self.assertEqual((len(hook.take()), len(everywhere.take())), (1, 1))

    def test_a_thread_that_begins_while_there_is_one(self):
        """It is called neither at its beginning, nor later, nor after another hook has come."""
        hook, later = Hook(), Hook()
        framehook.add(hook, this_thread=True)
        begun, may_continue, counts = threading.Event(), threading.Event(), []

        def work():
            target()
            begun.set()
            may_continue.wait(60)
            target()
            counts.append((len(hook.take()), len(later.take())))

        thread = threading.Thread(target=work)
        thread.start()
        begun.wait(60)
        framehook.add(later)
        may_continue.set()
        thread.join()
        self.assertEqual(counts, [(0, 1)])

    def test_removed_in_another_thread(self):
        for remove in (lambda hook, handle: framehook.remove(hook), lambda hook, handle: framehook.remove(handle),
                       lambda hook, handle: framehook.clear()):
            begun, may_continue, counts = threading.Event(), threading.Event(), []
            hook, handles = Hook(), []

            def work():
                handles.append(framehook.add(hook, this_thread=True))
                target()
                begun.set()
                may_continue.wait(60)
                target()
                counts.append(len(hook.take()))

            thread = threading.Thread(target=work)
            thread.start()
            begun.wait(60)
            self.assertEqual(len(framehook.hooks()), 1)
            remove(hook, handles[0])
            self.assertEqual(framehook.hooks(), [])
            may_continue.set()
            thread.join()
            self.assertEqual((counts, framehook.hooks()), ([1], []))

    def test_switched_from_another_thread(self):
        """disable() holds for it as for any; what another thread says of itself does not concern it."""
        begun, may_continue, counts = threading.Barrier(2), threading.Barrier(2), []
        hook = Hook()

        def work():
            framehook.add(hook, this_thread=True)
            for _ in range(6):
                begun.wait(60)
                may_continue.wait(60)
                target()
                counts.append(len(hook.take()))

        thread = threading.Thread(target=work)
        thread.start()
        for act in (lambda: None, lambda: framehook.disable(hook), lambda: framehook.enable(hook),
                    lambda: framehook.disable_for_code(hook, target), lambda: framehook.enable_for_code(hook, target),
                    lambda: framehook.disable_in_thread(hook)):
            begun.wait(60)
            act()
            target()
            may_continue.wait(60)
        thread.join()
        self.assertEqual(counts, [1, 0, 1, 0, 1, 1])

    def test_disabled_there_is_disabled_for_it_alone(self):
        disables, other = Hook(framehook.DISABLE), Hook()
        framehook.add(other)

        def work():
            framehook.add(disables, this_thread=True)
            target(), target()
            return len(disables.take()), len(other.take())

        self.assertEqual(in_new_thread(work), (1, 2))
        target()
        self.assertEqual((len(disables.take()), len(other.take())), (0, 1))
        self.assertEqual(in_new_thread(work), (1, 2))

    def test_what_another_thread_disables_is_not_disabled_for_it(self):
        """Code for which all hooks of one thread are disabled is dispatched in another."""
        hook = Hook()
        begun, may_continue = threading.Event(), threading.Event()
        counts = []

        def work():
            framehook.add(hook, this_thread=True)
            begun.set()
            may_continue.wait(60)
            for _ in range(5):
                target()
            counts.append(len(hook.take()))

        thread = threading.Thread(target=work)
        thread.start()
        begun.wait(60)
        disables = Hook(framehook.DISABLE)
        framehook.add(disables, this_thread=True)
        for _ in range(300):        # specialized on the way
            target()
        self.assertEqual(len(disables.take()), 1)
        may_continue.set()
        thread.join()
        self.assertEqual(counts, [5])

    def test_placed_among_the_hooks_of_others(self):
        order = []

        def made(name):
            def hook(view):
                if view.code is target.__code__:
                    order.append(name)
            return hook

        a, b = made("a"), made("b")
        framehook.add(a, "a")
        framehook.add(b, "b")

        def work():
            framehook.add(made("first"), "first", first=True, this_thread=True)
            framehook.add(made("before b"), "before b", before=b, this_thread=True)
            framehook.add(made("after a"), "after a", after=a, this_thread=True)
            target()
            return names()

        self.assertEqual(in_new_thread(work), ["first", "a", "after a", "before b", "b"])
        self.assertEqual(order, ["first", "a", "after a", "before b", "b"])
        order.clear()
        target()
        self.assertEqual((order, names()), (["a", "b"], ["a", "b"]))

    def test_frames_that_it_watches_are_over_with_its_thread(self):
        """A generator outlives it: that one has no callbacks, and what its watch keeps is freed with the generator at the latest."""
        class Data:
            pass

        delivered, alive, kept = [], [], []

        class Watches:
            def __call__(self, view):
                if view.code is not generator.__code__:
                    return None
                data = Data()
                alive.append(weakref.ref(data))
                view.watch(lambda event: delivered.append(event.kind), data, yields=True, resumes=True)

        def work():
            hook = Watches()
            alive.append(weakref.ref(hook))
            framehook.add(hook, this_thread=True)
            kept.append(generator())
            next(kept[0])

        in_new_thread(work)
        self.assertEqual(delivered, ["resumed", "yielded"])
        self.assertEqual(list(kept[0]), [2])
        kept.clear()
        gc.collect()
        self.assertEqual((delivered, [reference() for reference in alive]), (["resumed", "yielded"], [None, None]))

    def test_its_destructor_runs_at_the_end_of_the_thread(self):
        """And does what it likes: adds and removes hooks, calls functions, begins threads."""
        acts = []

        class Leaves(Hook):
            def __del__(self):
                acts.append(target())
                other = Hook()
                framehook.add(other)
                target()        # no hook is called for it: the thread ends
                framehook.remove(other)
                # This thread has ended as far as hooks of it are concerned, or has not: none must be left.
                try:
                    framehook.add(Hook(), "late", this_thread=True)
                except RuntimeError:
                    pass

        def work():
            for _ in range(3):
                framehook.add(Leaves(), this_thread=True)

        in_new_thread(work)
        gc.collect()
        self.assertEqual((acts, names()), ([1] * 3, []))

    def test_a_thread_that_ends_by_an_exception_or_by_exit(self):
        import _thread

        def fails():
            framehook.add(Hook(), this_thread=True)
            raise SystemExit

        def exits():
            framehook.add(Hook(), this_thread=True)
            _thread.exit()

        for function in fails, exits:
            thread = threading.Thread(target=function)
            thread.start()
            thread.join()
            self.assertEqual(framehook.hooks(), [])

    def test_a_block_for_one_thread(self):
        hook = Hook()

        def work():
            with framehook.hook(hook, this_thread=True):
                target()
                in_new_thread(target)
                here = len(hook.take())
            target()
            return here, len(hook.take()), names()

        self.assertEqual(in_new_thread(work), (1, 0, []))
        self.assertEqual(work(), (1, 0, []))
        # A block that is open as its thread ends is over.
        block = framehook.hook(hook, this_thread=True)
        in_new_thread(block.__enter__)
        self.assertEqual(names(), [])
        self.assertRaises(ValueError, lambda: block.id)
        block.__exit__(None, None, None)
        with block:
            target()
        self.assertEqual((len(hook.take()), names()), (1, []))

    def test_blocks_that_suspend_it_may_outlive_its_thread(self):
        hook, blocks = Hook(), []

        def work():
            framehook.add(hook, this_thread=True)
            blocks.extend((framehook.disabled(hook), framehook.disabled_in_thread(hook), framehook.disabled_for_code(hook, target)))
            for block in blocks:
                block.__enter__()
            target()
            return len(hook.take())

        self.assertEqual(in_new_thread(work), 0)
        framehook.add(hook)
        for block in blocks:
            block.__exit__(None, None, None)
            target()
        self.assertEqual(len(hook.take()), 3)

    def test_hooks_in_c(self):
        datahooks = extension("datahooks")
        this_thread = 2

        def work():
            for _ in range(3):
                datahooks.add(target.__code__, 0, events=1, flags=this_thread)
            target()
            return len(framehook.hooks())

        self.assertEqual((in_new_thread(work), framehook.hooks()), (3, []))
        target()
        self.assertEqual((datahooks.take_frames(), datahooks.take_hooks(), datahooks.take_early()), ([(1, 0, 1, 0)] * 3, (3, 3), 0))

        def begin():
            datahooks.add(generator.__code__, 0, events=7, flags=this_thread)
            made = generator()
            next(made)
            return made

        made = in_new_thread(begin)
        self.assertEqual((list(made), datahooks.take_hooks()), ([2], (1, 1)))
        del made
        gc.collect()
        ((_, _, freed, late),) = datahooks.take_frames()
        self.assertEqual((freed, late), (1, 0))
