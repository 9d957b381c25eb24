"""A thousand hooks at once: each is called in its turn, can be switched like any, and can be removed in any order."""

import gc
import random
import threading
import weakref

from hook_variants import SurroundedTestCase, extension, surrounded
from support import framehook, in_new_thread, in_threads, needs_hooks, new_function

MANY = 1_000
LIMIT = 1_024


def target(a=1):
    return a


def other(a=1):
    return "other", a


def generator():
    yield 1
    yield 2


class Hook:
    def __init__(self, number, log, about=target, answer=None):
        self.number, self.log, self.code, self.answer = number, log, about.__code__, answer

    def __call__(self, view):
        if view.code is self.code:
            self.log.append(self.number)
            return self.answer(view) if callable(self.answer) else self.answer
        return None


@needs_hooks
class Thousand(SurroundedTestCase):
    def run_scenario(self, *scenario):
        try:
            super().run_scenario(*scenario)
        finally:
            framehook.clear()

    def add_many(self, count=MANY, **options):
        log = []
        hooks = [Hook(number, log, **options) for number in range(count)]
        for hook in hooks:
            framehook.add(hook)
        return hooks, log

    @surrounded
    def test_all_are_called_in_order(self):
        hooks, log = self.add_many()
        expected = list(range(MANY))
        for _ in range(3):
            self.assertEqual(target(), 1)
            self.assertEqual(log, expected)
            log.clear()
        self.assertEqual([info.hook.number for info in framehook.hooks()], expected)
        self.assertEqual([info.order for info in framehook.hooks()], expected)
        # In another order.
        framehook.remove(hooks[-1])
        framehook.add(hooks[-1], first=True)
        framehook.remove(hooks[500])
        framehook.add(hooks[500], before=hooks[10])
        target()
        expected = [MANY - 1, *range(10), 500, *range(10, 500), *range(501, MANY - 1)]
        self.assertEqual(log, expected)

    def test_as_many_as_there_is_room_for(self):
        hooks, log = self.add_many(LIMIT)
        with self.assertRaises(RuntimeError):
            framehook.add(Hook(LIMIT, log))
        with self.assertRaises(RuntimeError):
            with framehook.hook(Hook(LIMIT, log)):
                pass
        with self.assertRaises(RuntimeError):
            framehook.add(Hook(LIMIT, log), first=True, this_thread=True)
        self.assertRaises(RuntimeError, in_new_thread, lambda: framehook.add(Hook(LIMIT, log), this_thread=True))
        target()
        self.assertEqual((len(log), len(framehook.hooks())), (LIMIT, LIMIT))
        framehook.remove(hooks[17])
        framehook.add(Hook(LIMIT, log))
        self.assertRaises(RuntimeError, framehook.add, hooks[17])
        log.clear()
        target()
        self.assertEqual(log, [number for number in range(LIMIT + 1) if number != 17])

    def test_hooks_of_threads_that_have_ended_take_no_room(self):
        """Nor do those that were removed, however many there were, and whatever they have left on code objects."""
        log = []
        function = new_function()
        for number in range(3 * LIMIT):
            hook = Hook(number, log, about=function, answer=framehook.DISABLE)
            framehook.add(hook)
            function()
            framehook.remove(hook)
        self.assertEqual(log, list(range(3 * LIMIT)))
        hooks, log = self.add_many(LIMIT)
        target()
        self.assertEqual(len(log), LIMIT)

    def switch(self, number):
        hooks, log = self.add_many()
        all_of_them = list(range(MANY))
        without = [one for one in all_of_them if one != number]

        def entries():
            log.clear()
            target()
            return list(log)

        hook = hooks[number]
        for off, on in ((framehook.disable, framehook.enable),
                        (framehook.disable_in_thread, framehook.enable_in_thread),
                        (lambda hook: framehook.disable_for_code(hook, target), lambda hook: framehook.enable_for_code(hook, target))):
            self.assertEqual(entries(), all_of_them)
            off(hook)
            self.assertEqual((entries(), entries()), (without, without))
            on(hook)
            self.assertEqual(entries(), all_of_them)
        for block in (framehook.disabled(hook), framehook.disabled_in_thread(hook), framehook.disabled_for_code(hook, target)):
            with block:
                self.assertEqual(entries(), without)
            self.assertEqual(entries(), all_of_them)
        # What is switched off for one thread is not for another.
        framehook.disable_in_thread(hook)
        self.assertEqual((entries(), in_new_thread(entries)), (without, all_of_them))
        framehook.enable_in_thread(hook)
        # It is disabled for this code.
        hook.answer = framehook.DISABLE
        self.assertEqual((entries(), entries()), (all_of_them, without))
        framehook.enable_for_code(hook, target)
        self.assertEqual((entries(), entries()), (all_of_them, without))
        # And the others have too.
        for one in hooks:
            one.answer = framehook.DISABLE
        self.assertEqual((entries(), entries()), (without, []))
        for one in hooks:
            one.answer = None
        for one in hooks[:number]:
            framehook.enable_for_code(one, target)
        self.assertEqual(entries(), all_of_them[:number])

    def test_each_can_be_switched_off(self):
        for number in 0, 31, 32, 33, 63, 64, 65, 500, MANY - 1:
            self.run_scenario("switch", number)
        self.in_each_surrounding("switch", MANY - 1)

    def test_all_others_are_switched_off(self):
        hooks, log = self.add_many()
        for off, on in ((framehook.disable, framehook.enable), (framehook.disable_in_thread, framehook.enable_in_thread),
                        (lambda hook: framehook.disable_for_code(hook, target), lambda hook: framehook.enable_for_code(hook, target))):
            for hook in hooks[:-1]:
                off(hook)
            log.clear()
            target()
            self.assertEqual(log, [MANY - 1])
            off(hooks[-1])
            log.clear()
            target()
            self.assertEqual(log, [])
            random.Random(3).shuffle(shuffled := list(hooks))
            for hook in shuffled:
                on(hook)
            target()
            self.assertEqual(log, list(range(MANY)))

    def removed(self, seed):
        chance = random.Random(seed)
        hooks, log = self.add_many()
        alive = [weakref.ref(hook) for hook in hooks]
        installed = {hook.number: hook for hook in hooks}
        del hooks
        while installed:
            for number in chance.sample(sorted(installed), min(97, len(installed))):
                framehook.remove(installed.pop(number))
            log.clear()
            target()
            self.assertEqual(log, sorted(installed))
        gc.collect()
        self.assertEqual((framehook.hooks(), [one for one in alive if one() is not None]), ([], []))

    def test_removed_in_any_order(self):
        self.in_each_surrounding("removed", 1)
        for seed in range(2, 5):
            self.run_scenario("removed", seed)

    def test_added_and_removed_in_between(self):
        chance, log = random.Random(50), []
        installed, numbers = [], iter(range(1_000_000))
        for _ in range(300):
            for _ in range(chance.randrange(20)):
                hook = Hook(next(numbers), log)
                if len(installed) < MANY:
                    place = chance.randrange(4)
                    beside = chance.choice(installed) if installed and place > 1 else None
                    if beside is None:
                        framehook.add(hook, first=place == 0)
                        installed.insert(0 if place == 0 else len(installed), hook)
                    else:
                        framehook.add(hook, **{("before" if place == 2 else "after"): beside})
                        installed.insert(installed.index(beside) + (place == 3), hook)
            for _ in range(chance.randrange(20)):
                if installed:
                    framehook.remove(installed.pop(chance.randrange(len(installed))))
            log.clear()
            target()
            self.assertEqual(log, [hook.number for hook in installed])

    def test_removed_while_they_are_called(self):
        for number in 0, 499, MANY - 1:
            log, removed = [], []

            def answer(view):
                for hook in hooks[::2]:
                    if hook.number not in removed:
                        removed.append(hook.number)
                        framehook.remove(hook)

            hooks = [Hook(one, log, answer=answer if one == number else None) for one in range(MANY)]
            for hook in hooks:
                framehook.add(hook)
            target()
            self.assertEqual(log, [one for one in range(MANY) if one <= number or one % 2])
            log.clear()
            target()
            self.assertEqual(log, list(range(1, MANY, 2)))
            framehook.clear()

    def test_all_of_them_watch(self):
        delivered = []
        log = []
        for function in target, generator:
            hooks = [Hook(number, log, about=function,
                          answer=lambda view, number=number: view.watch(
                              lambda event: delivered.append((event.kind, event.data)), number, yields=True, resumes=True))
                     for number in range(MANY)]
            for hook in hooks:
                framehook.add(hook)
            if function is target:
                self.assertEqual(target(), 1)
                self.assertEqual(delivered, [("returned", number) for number in reversed(range(MANY))])
            else:
                made = generator()
                self.assertEqual(next(made), 1)
                self.assertEqual(delivered, [(kind, number) for kind in ("resumed", "yielded") for number in reversed(range(MANY))])
                delivered.clear()
                del made
                gc.collect()
                self.assertEqual(sorted(delivered), [("dropped", number) for number in range(MANY)])
            delivered.clear()
            framehook.clear()

    def test_the_last_of_them_replaces_or_gives_the_value(self):
        hooks, log = self.add_many()
        hooks[-1].answer = other.__code__
        self.assertEqual((target(5), len(log)), (("other", 5), MANY))
        hooks[-1].answer = lambda view: view.result("a result")
        self.assertEqual(target(), "a result")
        hooks[0].answer = lambda view: view.result("the first one's")
        log.clear()
        self.assertEqual((target(), log), ("the first one's", [0]))

        def fails(view):
            raise KeyError(999)

        hooks[0].answer, hooks[-1].answer = None, fails
        self.assertRaises(KeyError, target)
        self.assertEqual(framehook.hooks()[-1].errors, 1)

    def test_a_mixture_of_hooks_for_this_thread_for_others_and_for_all(self):
        log, others = [], 40
        ready, ends = threading.Semaphore(0), threading.Event()
        counts = []

        def work(thread):
            for number in range(8):
                framehook.add(Hook((thread, number), log), this_thread=True)
            ready.release()
            ends.wait(60)

        threads = [threading.Thread(target=work, args=(thread,)) for thread in range(others)]
        for thread in threads:
            thread.start()
        for _ in threads:
            ready.acquire(timeout=60)
        for number in range(200):
            framehook.add(Hook(number, log), this_thread=number % 2 == 0)
        target()
        counts.append(list(log))
        log.clear()
        in_new_thread(target)
        counts.append(list(log))
        self.assertEqual(counts, [list(range(200)), list(range(1, 200, 2))])
        self.assertEqual(len(framehook.hooks()), 200 + 8 * others)
        ends.set()
        for thread in threads:
            thread.join()
        self.assertEqual(len(framehook.hooks()), 200)
        log.clear()
        target()
        self.assertEqual(log, list(range(200)))

    def test_hooks_in_c(self):
        datahooks = extension("datahooks")
        handles = [datahooks.add(target.__code__, 0, events=1) for _ in range(MANY)]
        target()
        self.assertEqual(datahooks.take_frames(), [(1, 0, 1, 0)] * MANY)
        for handle in handles[::3]:
            datahooks.remove(handle)
        target()
        self.assertEqual(len(datahooks.take_frames()), MANY - len(handles[::3]))
        framehook.clear()
        gc.collect()
        self.assertEqual(datahooks.take_hooks(), (MANY, MANY))

    def test_threads_add_and_remove_hundreds_at_once(self):
        failures = []

        def work(seed):
            log, chance = [], random.Random(seed)
            function = new_function()
            try:
                hooks = [Hook(number, log, about=function) for number in range(200)]
                for _ in range(2):
                    for hook in hooks:
                        framehook.add(hook)
                    log.clear()
                    function()
                    if log != list(range(200)):
                        failures.append(log)
                    for hook in chance.sample(hooks, 200):
                        framehook.remove(hook)
                    log.clear()
                    function()
                    if log:
                        failures.append(log)
            except BaseException as error:
                failures.append(repr(error))

        in_threads(work, range(4))
        self.assertEqual((failures[:1], framehook.hooks()), ([], []))

    def test_a_program_that_ends_with_a_thousand_hooks(self):
        out = self.assert_program_succeeds("""
import framehook
def target(): pass
def gen(): yield 1
def callback(event): pass
def hook_of(number):
    def hook(view):
        if view.code in (target.__code__, gen.__code__):
            view.watch(callback, number)
    return hook
for number in range(1000):
    framehook.add(hook_of(number), this_thread=number % 3 == 0)
target()
made = gen()
next(made)
print("ends")
""")
        self.assertEqual(out, "ends\n")
