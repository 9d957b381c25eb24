"""Blocks of frame hooks that are given up, or end elsewhere than they began: in another thread, after the thread, not at all."""

import collections
import concurrent.futures
import contextlib
import gc
import threading

from support import HookTestCase, ProgramTestCase, counter, framehook, in_many_threads, in_new_thread, needs_hooks, new_function


def do_nothing(view):
    pass


class Worker:
    """A thread that runs what it is given, one after the other."""

    def __init__(self):
        self.pool = concurrent.futures.ThreadPoolExecutor(1)

    def __call__(self, function, *arguments):
        return self.pool.submit(function, *arguments).result(60)

    def end(self):
        self.pool.shutdown()


class Keeper:
    """A block by other means: the object's own methods, an ExitStack, a context manager made of a generator."""

    def __init__(self, block):
        self.block = block

    def enter(self):
        self.block.__enter__()

    def leave(self):
        self.block.__exit__(None, None, None)


class KeptInAStack(Keeper):
    def __init__(self, block):
        self.block, self.stack = block, contextlib.ExitStack()

    def enter(self):
        self.stack.enter_context(self.block)

    def leave(self):
        self.stack.close()


class KeptInAGenerator(Keeper):
    def __init__(self, block):
        def generator():
            with block:
                yield

        self.block = contextlib.contextmanager(generator)()


class KeptInACoroutine(Keeper):
    def __init__(self, block):
        async def coroutine():
            with block:
                await Once()

        class Once:
            def __await__(self):
                yield

        self.coroutine = coroutine()

    def enter(self):
        self.coroutine.send(None)

    def leave(self):
        with contextlib.suppress(StopIteration):
            self.coroutine.send(None)


KEEPERS = (Keeper, KeptInAStack, KeptInAGenerator, KeptInACoroutine)
SUSPENSIONS = {
    "disabled": lambda hook, function: framehook.disabled(hook),
    "disabled_in_thread": lambda hook, function: framehook.disabled_in_thread(hook),
    "disabled_for_code": lambda hook, function: framehook.disabled_for_code(hook, function),
}


class BlocksTestCase(HookTestCase):
    def setUp(self):
        super().setUp()
        self.function = new_function()
        self.callable = counter(self.function)

    def times(self):
        """How often the hook is called for a call."""
        before = self.callable.entries
        self.function()
        return self.callable.entries - before

    def workers(self, count=2):
        workers = [Worker() for _ in range(count)]
        for worker in workers:
            self.addCleanup(worker.end)
        return workers


@needs_hooks
class Suspended(BlocksTestCase):
    def setUp(self):
        super().setUp()
        framehook.add(self.callable)

    def each(self):
        for name, open_block in SUSPENSIONS.items():
            for keeper in KEEPERS:
                yield name, keeper.__name__, lambda: keeper(open_block(self.callable, self.function))

    def check_all_as_before(self, *workers):
        self.assertEqual([self.times(), in_new_thread(self.times), *(worker(self.times) for worker in workers)],
                         [1] * (2 + len(workers)))

    def test_a_block_that_ends_in_another_thread_ends_where_it_began(self):
        one, two = self.workers()
        for name, keeper, keep in self.each():
            with self.subTest(name, keeper=keeper):
                kept = keep()
                one(kept.enter)
                elsewhere = int(name == "disabled_in_thread")
                self.assertEqual((one(self.times), two(self.times), self.times()), (0, elsewhere, elsewhere))
                two(kept.leave)
                self.check_all_as_before(one, two)

    def test_a_block_that_ends_in_another_thread_leaves_the_others_that_began_there(self):
        one, two = self.workers()
        for name, keeper, keep in self.each():
            with self.subTest(name, keeper=keeper):
                outer, inner, here = keep(), keep(), keep()
                one(outer.enter), two(here.enter), one(inner.enter)
                two(inner.leave)
                self.assertEqual((one(self.times), two(self.times)), (0, 0))
                two(here.leave)
                elsewhere = int(name == "disabled_in_thread")
                self.assertEqual((one(self.times), two(self.times)), (0, elsewhere))
                self.assertEqual(self.times(), elsewhere)
                two(outer.leave)
                self.check_all_as_before(one, two)

    def test_blocks_end_in_any_order_and_any_thread(self):
        one, two, three = workers = self.workers(3)
        for name, keeper, keep in self.each():
            with self.subTest(name, keeper=keeper):
                kept = [keep() for _ in range(6)]
                for number, block in enumerate(kept):
                    workers[number % 2](block.enter)
                for number in 3, 0, 5, 4, 1, 2:
                    self.assertEqual((one(self.times), two(self.times)) == (1, 1), False)
                    workers[2 - number % 3](kept[number].leave)
                self.check_all_as_before(*workers)

    def test_a_block_that_began_in_a_thread_that_is_gone_leaves_nothing(self):
        for name, keeper, keep in self.each():
            with self.subTest(name, keeper=keeper):
                for end in "leave", "give up":
                    kept = keep()
                    in_new_thread(kept.enter)
                    elsewhere = int(name == "disabled_in_thread")
                    self.assertEqual((self.times(), in_new_thread(self.times)), (elsewhere, elsewhere))
                    if end == "give up" and name != "disabled_in_thread" and not isinstance(
                            kept, (KeptInAGenerator, KeptInACoroutine)):
                        # No thread ends such a block, so it is in force.
                        kept.leave()
                    elif end == "leave":
                        kept.leave()
                    del kept
                    gc.collect()
                    self.check_all_as_before()

    def test_a_generator_that_is_given_up_ends_its_block_in_whichever_thread_frees_it(self):
        one, two = self.workers()
        for name, open_block in SUSPENSIONS.items():
            for keeper in KeptInAGenerator, KeptInACoroutine:
                with self.subTest(name, keeper=keeper.__name__):
                    kept = [keeper(open_block(self.callable, self.function))]
                    one(kept[0].enter)
                    self.assertEqual(one(self.times), 0)

                    def give_up():
                        kept.clear()
                        gc.collect()

                    two(give_up)
                    gc.collect()
                    self.check_all_as_before(one, two)

    def test_one_object_that_is_entered_in_two_threads(self):
        one, two = self.workers()
        for name, open_block in SUSPENSIONS.items():
            elsewhere = int(name == "disabled_in_thread")
            with self.subTest(name):
                block = Keeper(open_block(self.callable, self.function))
                one(block.enter), two(block.enter)
                self.assertEqual((one(self.times), two(self.times), self.times()), (0, 0, elsewhere))
                # The entry of the thread that leaves.
                one(block.leave)
                self.assertEqual((one(self.times), two(self.times)), (elsewhere, 0))
                # It has none any more: the latest.
                one(block.leave)
                self.check_all_as_before(one, two)

    def test_one_object_whose_entries_another_thread_ends_latest_first(self):
        one, two, three = self.workers(3)
        block = Keeper(framehook.disabled_in_thread(self.callable))
        one(block.enter), two(block.enter)
        three(block.leave)
        self.assertEqual((one(self.times), two(self.times), three(self.times)), (0, 1, 1))
        three(block.leave)
        self.check_all_as_before(one, two, three)

    def test_one_object_that_is_nested_in_a_thread_and_left_in_another(self):
        one, two = self.workers()
        for name, open_block in SUSPENSIONS.items():
            elsewhere = int(name == "disabled_in_thread")
            with self.subTest(name):
                block = Keeper(open_block(self.callable, self.function))
                for _ in range(3):
                    one(block.enter)
                two(block.leave), one(block.leave)
                self.assertEqual((one(self.times), two(self.times)), (0, elsewhere))
                two(block.leave)
                self.check_all_as_before(one, two)

    def test_one_object_of_which_one_thread_is_gone(self):
        (one,) = self.workers(1)
        block = Keeper(framehook.disabled_in_thread(self.callable))
        one(block.enter)
        in_new_thread(block.enter)
        self.assertEqual((one(self.times), self.times()), (0, 1))
        one(block.leave)
        self.check_all_as_before(one)
        block.leave()       # that of the thread that is gone
        self.check_all_as_before(one)

    def test_a_thread_gets_nothing_of_one_that_is_gone(self):
        """Not even one that has its place in memory, or its number."""
        blocks = []
        for _ in range(50):
            blocks.append(Keeper(framehook.disabled_in_thread(self.callable)))
            in_new_thread(blocks[-1].enter)
            self.assertEqual((in_new_thread(self.times), self.times()), (1, 1))

        def leave_and_look():
            blocks.pop().leave()
            return self.times()

        while blocks:
            self.assertEqual((in_new_thread(leave_and_look), self.times()), (1, 1))

    def test_what_was_switched_off_by_itself_stays_so(self):
        one, two = self.workers()
        one(framehook.disable_in_thread, self.callable)
        for _ in range(3):
            kept = Keeper(framehook.disabled_in_thread(self.callable))
            one(kept.enter)
            two(kept.leave)
            self.assertEqual((one(self.times), two(self.times)), (0, 1))
        kept = Keeper(framehook.disabled_in_thread(self.callable))
        one(kept.enter)
        one(framehook.enable_in_thread, self.callable)
        self.assertEqual(one(self.times), 0)
        two(kept.leave)
        self.check_all_as_before(one, two)

    def test_a_block_whose_hook_is_gone_leaves_the_next_ones_alone(self):
        one, two = self.workers()
        for name, keeper, keep in self.each():
            with self.subTest(name, keeper=keeper):
                kept = keep()
                one(kept.enter)
                framehook.remove(self.callable)
                framehook.add(self.callable)
                two(kept.leave)
                self.check_all_as_before(one, two)

    def test_a_block_that_is_left_more_often_than_entered_changes_nothing(self):
        one, two = self.workers()
        for name, open_block in SUSPENSIONS.items():
            with self.subTest(name):
                block = Keeper(open_block(self.callable, self.function))
                other = Keeper(open_block(self.callable, self.function))
                one(block.enter), one(block.leave)
                for worker in one, two:
                    with contextlib.suppress(RuntimeError):
                        worker(block.leave)
                self.check_all_as_before(one, two)
                one(other.enter)
                for worker in two, one:
                    with contextlib.suppress(RuntimeError):
                        worker(block.leave)
                self.assertEqual(one(self.times), 0)
                two(other.leave)
                self.check_all_as_before(one, two)

    def test_many_threads_end_each_others_blocks(self):
        block = framehook.disabled_in_thread(self.callable)
        queue, failures, started = collections.deque(), [], threading.Barrier(4)

        def work(number):
            try:
                started.wait(60)
                for turn in range(200):
                    new = block if turn % 2 else framehook.disabled_in_thread(self.callable)
                    new.__enter__()
                    queue.append(new)
                    with contextlib.suppress(IndexError):
                        queue.popleft().__exit__(None, None, None)
                started.wait(60)
                while True:
                    with contextlib.suppress(IndexError):
                        queue.popleft().__exit__(None, None, None)
                    if not queue:
                        break
                started.wait(60)
                failures.append(self.times() or "off for ever")
            except BaseException as error:
                failures.append(repr(error))

        threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        # The counts of threads at once may mix; what matters is that each hook is called.
        self.assertEqual([failure for failure in failures if isinstance(failure, str)], [])
        self.check_all_as_before()


@needs_hooks
class Installed(BlocksTestCase):
    """framehook.hook()"""

    def test_a_block_that_is_given_up_is_no_other_ones(self):
        def abandon():
            contextlib.ExitStack().enter_context(framehook.hook(do_nothing))

        def other(view):
            pass

        seen = collections.Counter()
        for _ in range(100):
            abandon()
            block = framehook.hook(other)
            seen[repr(block).endswith("not installed>")] += 1
            with block:
                framehook.remove(other)
            seen[[info.hook for info in framehook.hooks()] == [do_nothing]] += 1
            framehook.clear()
            abandon()
            with self.assertRaises(ValueError):
                with framehook.hook(do_nothing):
                    pass
            seen[len(framehook.hooks()) == 1] += 1
            framehook.clear()
        self.assertEqual(set(seen), {True})

    def test_an_object_that_never_began_has_no_handle_and_no_info_whatever_was_there(self):
        kept = []
        for number in range(200):
            with contextlib.ExitStack() as stack:
                stack.enter_context(framehook.hook(do_nothing))
                stack.pop_all()     # and that is given up
            block = framehook.hook(lambda view: None)
            self.assertRaises(ValueError, lambda: block.id)
            self.assertIsNone(block.info)
            framehook.clear()
            if number % 3:
                kept.append(block)

    def test_a_block_that_is_given_up_stays_installed_and_can_be_removed(self):
        def begin():
            framehook.hook(self.callable).__enter__()

        begin()
        gc.collect()
        self.assertEqual(self.times(), 1)
        framehook.remove(self.callable)
        self.assertEqual((self.times(), framehook.hooks()), (0, []))
        with framehook.hook(self.callable):
            self.assertEqual(self.times(), 1)

    def test_a_block_left_elsewhere_removes_its_hook(self):
        one, two = self.workers()
        for keeper in KEEPERS:
            with self.subTest(keeper.__name__):
                kept = keeper(framehook.hook(self.callable))
                one(kept.enter)
                self.assertEqual((self.times(), two(self.times)), (1, 1))
                two(kept.leave)
                self.assertEqual((self.times(), framehook.hooks()), (0, []))

    def test_a_block_whose_thread_has_ended_stays_in_force(self):
        for keeper in KEEPERS:
            with self.subTest(keeper.__name__):
                kept = keeper(framehook.hook(self.callable))
                in_new_thread(kept.enter)
                self.assertEqual((self.times(), in_new_thread(self.times)), (1, 1))
                kept.leave()
                self.assertEqual((self.times(), framehook.hooks()), (0, []))

    def test_one_object_entered_in_two_threads_is_removed_by_the_last_that_leaves(self):
        one, two = self.workers()
        block = Keeper(framehook.hook(self.callable))
        one(block.enter), two(block.enter)
        one(block.leave)
        self.assertEqual(self.times(), 1)
        one(block.leave)
        self.assertEqual((self.times(), framehook.hooks()), (0, []))

    def test_an_object_of_which_each_of_many_threads_has_blocks(self):
        block, failures = framehook.hook(self.callable), []

        def work():
            try:
                for _ in range(100):
                    with block, block:
                        # Another thread's call may be counted too.
                        if not self.times():
                            failures.append("not called within the block")
            except BaseException as error:
                failures.append(repr(error))

        in_many_threads(4, work)
        self.assertEqual((failures[:3], framehook.hooks()), ([], []))

    def test_decorated_functions_in_a_pool(self):
        @framehook.hook(self.callable)
        def decorated():
            return self.times() > 0

        with concurrent.futures.ThreadPoolExecutor(4) as pool:
            found = list(pool.map(lambda _: decorated(), range(200)))
        self.assertEqual((set(found), framehook.hooks()), ({True}, []))

    def test_context_managers_made_of_generators_in_a_pool(self):
        @contextlib.contextmanager
        def quiet():
            with framehook.disabled_in_thread(self.callable):
                yield

        framehook.add(self.callable)
        workers = self.workers(3)
        for number in range(60):
            begins, ends = workers[number % 3], workers[number // 3 % 3]
            block = quiet()
            begins(block.__enter__)
            self.assertEqual(begins(self.times), 0)
            ends(block.__exit__, None, None, None)
            self.assertEqual([worker(self.times) for worker in workers], [1, 1, 1])

    def test_a_stack_that_is_closed_elsewhere(self):
        framehook.add(self.callable)
        one, two = self.workers()
        for _ in range(3):
            stack = contextlib.ExitStack()

            def fill():
                for open_block in SUSPENSIONS.values():
                    stack.enter_context(open_block(self.callable, self.function))
                stack.enter_context(framehook.hook(do_nothing))

            one(fill)
            self.assertEqual((one(self.times), two(self.times), len(framehook.hooks())), (0, 0, 2))
            two(stack.close)
            self.assertEqual((one(self.times), two(self.times), len(framehook.hooks())), (1, 1, 1))

    def test_an_object_made_in_the_place_of_one_whose_block_is_open_in_a_thread(self):
        entered, leaves = threading.Event(), threading.Event()

        def hold():
            with framehook.hook(self.callable):
                entered.set()
                leaves.wait(60)

        thread = threading.Thread(target=hold)
        thread.start()
        entered.wait(60)
        for _ in range(100):
            with self.assertRaises(ValueError):
                with framehook.hook(self.callable):
                    pass
            with framehook.hook(do_nothing):
                pass
        self.assertEqual(self.times(), 1)
        leaves.set()
        thread.join()
        self.assertEqual((self.times(), framehook.hooks()), (0, []))


@needs_hooks
class OtherInterpreters(ProgramTestCase):
    def test_a_block_left_in_another_thread_of_another_interpreter(self):
        for kind in "legacy", "isolated":
            with self.subTest(kind):
                self.assert_program_succeeds(f"""
import _interpreters
interpreter = _interpreters.create({kind!r})
problem = _interpreters.exec(interpreter, '''
import framehook, threading
entries = []
def work():
    pass
def hook(view):
    if view.code is work.__code__:
        entries.append(1)
def times():
    entries.clear()
    work()
    return len(entries)
def enters():
    block.__enter__()
    steps.append(times())
    entered.set()
    left.wait(60)
    steps.append(times())
framehook.add(hook)
for make in (framehook.disabled_in_thread, framehook.disabled, lambda hook: framehook.disabled_for_code(hook, work)):
    block, steps, entered, left = make(hook), [], threading.Event(), threading.Event()
    thread = threading.Thread(target=enters)
    thread.start()
    entered.wait(60)
    block.__exit__(None, None, None)
    left.set()
    thread.join()
    assert steps == [0, 1], steps
    assert times() == 1
    # The thread is gone before the block ends.
    thread = threading.Thread(target=block.__enter__)
    thread.start()
    thread.join()
    block.__exit__(None, None, None)
    assert times() == 1
''')
assert problem is None, problem
_interpreters.destroy(interpreter)
""")
