"""Frame hooks: watched generators, coroutines and asynchronous generators."""

import ast
import asyncio
import contextlib
import gc
import sys
import threading
import types
import unittest
import weakref

from support import framehook, in_new_thread, needs_hooks, not_over_monitoring, use_extensions
from test_hook_watching import Watcher

use_extensions()


def counting(n):
    for i in range(n):
        yield i
    return "end"


def patient():
    while True:
        try:
            yield 1
        except KeyError:
            yield "caught"


@needs_hooks
class Generators(unittest.TestCase):
    def setUp(self):
        self.watcher = Watcher(counting, patient, delegating)
        framehook.add(self.watcher)
        self.addCleanup(framehook.remove, self.watcher)

    def events(self):
        return self.watcher.taken()

    def test_each_yield_and_each_resumption(self):
        self.assertEqual(list(counting(2)), [0, 1])
        self.assertEqual(self.events(), [("resumed", None), ("yielded", 0), ("resumed", None), ("yielded", 1),
                                         ("resumed", None), ("returned", "end")])

    def test_a_watch_without_yields_gets_the_exit_event_alone(self):
        self.watcher.yields = self.watcher.resumes = False
        self.assertEqual(list(counting(2)), [0, 1])
        self.assertEqual(self.events(), [("returned", "end")])

    def test_loops_send_next_and_unpacking_are_the_same(self):
        def loop():
            for value in counting(3):
                pass

        def unpack():
            [*counting(3)]

        def send():
            generator = counting(3)
            try:
                value = None
                while True:
                    value = generator.send(None)
            except StopIteration as stop:
                self.assertEqual(stop.value, "end")

        expected = [event for i in range(3) for event in (("resumed", None), ("yielded", i))]
        for use in (loop, unpack, send, lambda: sum(counting(3))):
            for _ in range(30):     # specialized on the way
                use()
                self.assertEqual(self.events(), [*expected, ("resumed", None), ("returned", "end")])

    def test_one_that_is_closed_or_collected_while_suspended_was_dropped(self):
        for drop in (lambda generator: generator.close(), lambda generator: None):
            generator = counting(3)
            next(generator)
            drop(generator)
            del generator
            self.assertEqual(self.events(), [("resumed", None), ("yielded", 0), ("dropped", None)])

    def test_one_that_never_began_was_dropped(self):
        counting(3)
        self.assertEqual(self.events(), [("dropped", None)])
        counting(3).close()
        self.assertEqual(self.events(), [("dropped", None)])

    def test_one_in_a_cycle_is_dropped_by_the_collector(self):
        holder = []
        holder.append(holder)
        generator = counting(3)
        next(generator)
        holder.append(generator)
        del generator, holder
        gc.collect()
        self.assertEqual(self.events()[2:], [("dropped", None)])

    def test_data_that_leads_to_its_generator_keeps_nothing_alive(self):
        class Data:
            pass

        data = self.watcher.mark = Data()
        alive = weakref.ref(data)
        data.generator = counting(3)
        next(data.generator)
        self.watcher.mark = None
        del data
        gc.collect()
        self.assertIsNone(alive())

    def test_an_exception_that_is_thrown_in(self):
        generator = patient()
        next(generator)
        self.assertEqual(generator.throw(KeyError), "caught")
        self.assertRaises(OSError, generator.throw, OSError("o"))
        self.assertEqual(self.events(), [("resumed", None), ("yielded", 1), ("resumed", None), ("yielded", "caught"),
                                         ("resumed", None), ("raised", "OSError('o')")])

    def test_closing_one_that_has_a_handler_runs_it(self):
        def cleans_up():
            try:
                yield 1
            finally:
                self.cleaned = True

        self.watcher.codes.add(cleans_up.__code__)
        generator = cleans_up()
        next(generator)
        generator.close()
        self.assertTrue(self.cleaned)
        self.assertEqual(self.events(), [("resumed", None), ("yielded", 1), ("resumed", None),
                                         ("raised", "GeneratorExit()")])

    def test_yield_from_watches_each_of_them(self):
        self.assertEqual(list(delegating(2)), [0, 1, "end"])
        self.assertEqual(self.watcher.kinds(), ["resumed", "resumed", "yielded", "yielded", "resumed", "resumed",
                                                "yielded", "yielded", "resumed", "resumed", "returned", "yielded",
                                                "resumed", "returned"])

    def test_its_frame_may_be_kept_beyond_the_end(self):
        generator = counting(1)
        frame = generator.gi_frame
        self.assertEqual(list(generator), [0])
        self.assertEqual(self.watcher.kinds(), ["resumed", "yielded", "resumed", "returned"])
        self.assertEqual(frame.f_locals["i"], 0)
        generator = counting(1)
        frame = generator.gi_frame
        next(generator)
        del generator
        self.assertEqual(self.watcher.kinds(), ["resumed", "yielded", "dropped"])
        del frame
        # One that has not begun is marked as over, and reported when it is freed.
        generator = counting(1)
        generator.gi_frame.clear()
        self.assertEqual(list(generator), [])
        del generator
        self.assertEqual(self.watcher.kinds(), ["dropped"])

    def test_a_suspended_one_shows_no_caller(self):
        generator = counting(2)
        next(generator)
        self.assertIsNone(generator.gi_frame.f_back)
        self.assertEqual(generator.gi_frame.f_locals, {"n": 2, "i": 0})
        self.assertFalse(generator.gi_running)

    def test_another_thread_may_resume_it(self):
        generator = counting(2)
        next(generator)
        found = []
        in_new_thread(lambda: found.extend(generator))
        self.assertEqual(found, [1])
        self.assertEqual(self.watcher.kinds(), ["resumed", "yielded", "resumed", "yielded", "resumed", "returned"])

    def test_threads_that_end_keep_nothing_of_what_they_resumed(self):
        for _ in range(200):
            generator = counting(2)
            next(generator)
            thread = threading.Thread(target=list, args=(generator,))
            del generator
            thread.start()
            thread.join()
        del thread
        gc.collect()
        kinds = self.watcher.kinds()
        self.assertEqual(kinds.count("returned"), 200)
        self.assertNotIn("dropped", kinds)

    def test_unwatched_ones_of_the_same_code_are_resumed_beside_it(self):
        watched = counting(100)
        next(watched)
        framehook.disable(self.watcher)
        other = counting(100)
        framehook.enable(self.watcher)
        for a, b in zip(other, range(100)):
            self.assertEqual(a, b)
            next(watched, None)
        self.assertEqual(self.watcher.kinds()[-1], "returned")

    def test_a_recursion_error_at_a_resumption_has_an_event(self):
        generator = counting(3)
        next(generator)

        def deep():
            try:
                deep()
            except RecursionError:
                for _ in generator:
                    pass

        limit = sys.getrecursionlimit()
        try:
            sys.setrecursionlimit(200)
            try:
                deep()
            except RecursionError:
                pass
        finally:
            sys.setrecursionlimit(limit)
        list(generator)
        kinds = self.watcher.kinds()
        self.assertEqual(len([kind for kind in kinds if kind in ("returned", "raised", "dropped")]), 1, kinds)


def delegating(n):
    yield (yield from counting(n))


@needs_hooks
class Alone(unittest.TestCase):
    def test_a_hook_that_is_disabled_in_its_call_gets_its_events(self):
        kinds = []

        def hook(view):
            if view.code is generator.__code__:
                view.watch(lambda event: kinds.append(event.kind), None, yields=True, resumes=True)
                framehook.disable(hook)

        def generator():
            yield

        with framehook.hook(hook):
            list(generator())
        self.assertEqual(kinds, ["resumed", "yielded", "resumed", "returned"])


@needs_hooks
class Failures(unittest.TestCase):
    def watch(self, function, when, error=RuntimeError):
        def on_event(event):
            if event.kind == when:
                raise error(when)

        watcher = Watcher(function, on_event=on_event)
        framehook.add(watcher)
        self.addCleanup(framehook.remove, watcher)
        return watcher

    def test_of_a_yield_callback_are_thrown_into_the_generator(self):
        watcher = self.watch(counting, "yielded")
        generator = counting(3)
        self.assertRaisesRegex(RuntimeError, "yielded", next, generator)
        self.assertEqual(list(generator), [])
        self.assertEqual(watcher.kinds(), ["resumed", "yielded", "resumed", "raised"])

    def test_may_be_caught_by_the_generator(self):
        watcher = self.watch(patient, "yielded", KeyError)
        framehook.add(other := Watcher(patient), first=True)
        self.addCleanup(framehook.remove, other)
        generator = patient()
        self.assertRaises(KeyError, next, generator)
        self.assertEqual(watcher.kinds(), ["resumed", "yielded", "resumed", "yielded", "resumed", "raised"])
        self.assertEqual(other.kinds(), ["resumed", "raised"])

    def test_at_a_resumption_are_raised_there(self):
        def cleans_up():
            try:
                yield 1
                yield 2
            except RuntimeError as error:
                yield str(error)

        first = []

        def on_event(event):
            if event.kind == "resumed" and first:
                raise RuntimeError(first.pop())
            first.append("again") if event.kind == "yielded" and event.value == 1 else None

        with framehook.hook(Watcher(cleans_up, on_event=on_event)):
            self.assertEqual(list(cleans_up()), [1, "again"])

    def test_where_it_is_dropped_are_reported(self):
        self.watch(counting, "dropped")
        found = []
        hook, sys.unraisablehook = sys.unraisablehook, lambda report: found.append(report)
        try:
            counting(1)
        finally:
            sys.unraisablehook = hook
        self.assertEqual([str(report.exc_value) for report in found], ["dropped"])
        self.assertIn("the drop callback of frame hook", found[0].err_msg)
        del found[:]

    @not_over_monitoring
    def test_to_resume_the_generator_of_the_event(self):
        answers = []

        def on_event(event):
            if event.kind != "yielded":
                return
            for use in (lambda: next(generator), lambda: generator.throw(OSError), lambda: generator.close()):
                try:
                    answers.append(use())
                except ValueError as error:
                    answers.append(str(error))

        with framehook.hook(Watcher(counting, on_event=on_event)):
            generator = counting(1)
            self.assertEqual(next(generator), 0)
        self.assertEqual(answers, ["generator already executing"] * 3)
        self.assertEqual(list(generator), [])

    @not_over_monitoring
    def test_to_close_the_generator_that_is_resumed(self):
        answers = []

        def on_event(event):
            if event.kind != "resumed":
                return
            for use in (lambda: generator.close(), lambda: generator.throw(OSError), lambda: next(generator)):
                try:
                    answers.append(use())
                except ValueError as error:
                    answers.append(str(error))

        with framehook.hook(Watcher(counting, patient, on_event=on_event)):
            generator = counting(2)
            self.assertEqual(list(generator), [0, 1])
            self.assertEqual(answers, ["generator already executing"] * 9)
            generator = patient()
            next(generator)
            self.assertEqual(generator.throw(KeyError), "caught")
        self.assertEqual(answers, ["generator already executing"] * 15)
        self.assertIsNone(generator.close())

    def test_a_value_that_dies_as_its_hook_fails_cannot_close_its_generator(self):
        class Closes:
            def __del__(self):
                for use in (generator.close, generator.gi_frame.clear, lambda: next(generator)):
                    try:
                        answers.append(use())
                    except (ValueError, RuntimeError) as error:
                        answers.append(type(error))

        def yields_it():
            kept = [object() for _ in range(10)]
            yield Closes()
            return kept

        def on_event(event):
            kind = event.kind
            del event
            if kind == "yielded":
                1 / 0
            if kind == "resumed" and answers:
                # Other objects would lie where those of a frame that was cleared have lain.
                seen.append(([bytearray(n) for n in range(500)] and generator.gi_frame.f_locals)["kept"])

        def hook(view):
            if view.code is yields_it.__code__:
                view.watch(on_event, None, yields=True, resumes=True)

        for hooks in (1, 2):
            answers, seen = [], []
            with contextlib.ExitStack() as stack:
                for _ in range(hooks):
                    stack.enter_context(framehook.hook(lambda view: hook(view)))
                generator = yields_it()
                self.assertRaises(ZeroDivisionError, next, generator)
            self.assertEqual(answers, [ValueError, RuntimeError, ValueError])
            # The callback that has failed is called for the resumption, with its exception.
            self.assertEqual([[type(one) for one in kept] for kept in seen], [[object] * 10])

    def test_have_the_context_of_what_is_thrown_in(self):
        def handles():
            try:
                raise KeyError("handled")
            except KeyError:
                yield 1

        def around():
            try:
                raise OSError("around it")
            except OSError:
                yield from handles()

        def contexts(use):
            try:
                raise LookupError("caller")
            except LookupError:
                try:
                    use()
                except ValueError as error:
                    found = []
                    while error is not None:
                        found.append(repr(error))
                        error = error.__context__
                    return found

        def thrown():
            generator = function()
            next(generator)
            generator.throw(ValueError("delivered"))

        def suspended_once():
            generator = function()
            next(generator)
            next(generator)

        # It is resumed twice: as it begins, and after its yield.
        for failing in (["yielded"], ["resumed", "yielded", "resumed"]):
            def on_event(event):
                delivered.append(event.kind)
                if delivered == failing:
                    raise ValueError("delivered")

            for function, handled in ((handles, "KeyError('handled')"), (around, "OSError('around it')")):
                delivered = []
                with framehook.hook(Watcher(function, on_event=on_event, resumes=failing[0] == "resumed")):
                    found = contexts(suspended_once)
                self.assertEqual(delivered[:len(failing)], failing)
                self.assertEqual(found, ["ValueError('delivered')", handled, "LookupError('caller')"])
                self.assertEqual(found, contexts(thrown))


@needs_hooks
class Asynchronous(unittest.TestCase):
    def test_a_loop_that_makes_many_of_them(self):
        """Where there is a second tier, the loop is run by it."""
        async def short():
            return 1

        async def loop(count):
            return sum([await short() for _ in range(count)])

        def run(count):
            with self.assertRaises(StopIteration) as caught:
                loop(count).send(None)
            self.assertEqual(caught.exception.value, count)

        run(3_000)
        watcher = Watcher(short)
        with framehook.hook(watcher):
            run(3_000)
        self.assertEqual(watcher.kinds(), ["resumed", "returned"] * 3_000)

    def test_coroutines_and_asynchronous_generators(self):
        async def inner():
            await asyncio.sleep(0)
            return 3

        async def agen():
            yield 1
            await asyncio.sleep(0)
            yield 2

        async def outer():
            total = await inner()
            async for value in agen():
                total += value
            return total

        watcher = Watcher(inner, agen, outer)
        with framehook.hook(watcher):
            self.assertEqual(asyncio.run(outer()), 6)
        kinds = watcher.kinds()
        self.assertEqual(kinds.count("returned"), 3)
        # A suspension is reported for each frame that waits.
        self.assertEqual(kinds.count("yielded"), kinds.count("resumed") - 3)

    def test_a_task_that_is_cancelled(self):
        async def waits():
            await asyncio.sleep(100)

        async def main():
            task = asyncio.create_task(waits())
            await asyncio.sleep(0)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

        watcher = Watcher(waits)
        with framehook.hook(watcher):
            asyncio.run(main())
        self.assertEqual(watcher.taken()[-1], ("raised", "CancelledError()"))

    def test_a_coroutine_that_is_never_awaited(self):
        async def never():
            pass

        watcher = Watcher(never)
        with framehook.hook(watcher), self.assertWarns(RuntimeWarning):
            never()
            gc.collect()
        self.assertEqual(watcher.kinds(), ["dropped"])

    def test_a_module_that_awaits_has_returned_with_its_coroutine(self):
        code = compile("import asyncio\nx = await asyncio.sleep(0, 5)", "<awaits>", "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
        kinds, names = [], {}

        def hook(view):
            if view.code is code:
                view.watch(lambda event: kinds.append((event.kind, type(event.value))), None, yields=True, resumes=True)

        with framehook.hook(hook):
            asyncio.run(eval(code, names))
        self.assertEqual((kinds, names["x"]), ([("returned", types.CoroutineType)], 5))

    def test_a_generators_code_that_is_executed_keeps_its_mapping(self):
        class Mapping(dict):
            pass

        mapping = Mapping()
        alive = weakref.ref(mapping)
        watcher = Watcher(patient)
        with framehook.hook(watcher):
            exec(patient.__code__, {}, mapping)
        self.assertEqual(watcher.kinds(), ["dropped"])
        del mapping
        self.assertIsNone(alive())
