"""Loops that a hook watches: what its callback sees, and what it may have become of the frame."""

import _thread
import asyncio
import dis
import gc
import signal
import sys
import threading
import traceback
import unittest

from loops_support import Slots, answering, compilers, index_at, jumps, nested, total, watched
from support import in_a_child, needs_hooks

try:
    import framehook
except ImportError:     # stock CPython
    framehook = None


def raised_by(call):
    """The traceback of the KeyError that a call raises."""
    try:
        call()
    except KeyError as error:
        return error.__traceback__
    raise AssertionError("no exception")


@needs_hooks
class Counting(unittest.TestCase):
    def count(self, function, turns, call):
        before = compilers.looped()
        with watched(None, function, turns=turns):
            result = call()
        return result, compilers.looped() - before

    def test_every_so_many_turns(self):
        for turns in (1, 2, 7, 10, 1000):
            for n in (0, 1, turns - 1, turns, turns + 1, 5 * turns):
                self.assertEqual(self.count(total, turns, lambda: total(n)), (n * (n - 1) // 2, n // turns), (n, turns))

    def test_over_all_calls(self):
        self.assertEqual(self.count(total, 10, lambda: [total(3) for _ in range(10)]), ([3] * 10, 3))

    def test_each_loop_by_itself(self):
        result, count = self.count(nested, 10, lambda: nested(30))
        # The last turn of a while loop does not jump back.
        self.assertEqual((result, count), (30 * 30 * 29 // 2, 3 + 30 * 29 // 10))

    def test_how_many_loops_there_are(self):
        def comprehensions(n):
            return [i for i in range(n)], {i for i in range(n)}, {i: i for i in range(n)}

        def two(n):
            while n:
                n -= 1
                if n % 2:
                    continue
                n -= 0
            for _ in ():
                pass

        def none(n): return n
        with watched(None) as hook:
            for function in (total, nested, comprehensions, two, none):
                self.assertEqual(compilers.watch_loops(hook, function.__code__, 5), len(jumps(function.__code__)))

    def test_all_kinds(self):
        def comprehension(n): return len([i for i in range(n)])

        def generator(n):
            for i in range(n):
                yield i

        def generates(n): return len(list(generator(n)))

        async def coroutine(n):
            i = 0
            while i <= n:
                i += 1
            return i - 1
        module = compile("for i in range(n): x = i\n", "module", "exec")
        body = compile("class C:\n for i in range(n):\n  x = i\n", "class", "exec")
        [class_body] = [const for const in body.co_consts if hasattr(const, "co_code")]
        for code, call, result in ((comprehension, comprehension, 20), (generator, generates, 20),
                                   (coroutine, lambda n: asyncio.run(coroutine(n)), 20),
                                   (module, lambda n: exec(module, {"n": n}), None),
                                   (class_body, lambda n: exec(body, {"n": n}), None)):
            with self.subTest(code):
                before = compilers.looped()
                with watched(None, code, turns=5):
                    self.assertEqual(call(20), result)
                self.assertEqual(compilers.looped() - before, 4)

    def test_a_long_loop(self):
        text = "def f(n):\n s = 0\n for i in range(n):\n" + "  s += i; s -= i\n" * 200 + "  s += i\n return s\n"
        namespace = {}
        exec(text, namespace)
        self.assertIn("EXTENDED_ARG", dis.Bytecode(namespace["f"]).dis())
        self.assertEqual(self.count(namespace["f"], 5, lambda: namespace["f"](20)), (190, 4))

    def test_in_threads(self):
        results = []

        def run():
            results.append(total(50_000))
        before = compilers.looped()
        with watched(None, total, turns=100):
            threads = [threading.Thread(target=run) for _ in range(4)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        self.assertEqual(results, [50_000 * 49_999 // 2] * 4)
        self.assertGreater(compilers.looped() - before, 1)


@needs_hooks
class Seen(unittest.TestCase):
    """What a callback gets."""

    def test_the_frame(self):
        seen = []

        def callback(hot):
            frame = sys._getframe(1)
            slots = Slots(hot)
            seen.append((slots.values["n"], slots.values["s"], slots.values["i"], slots.stack[0].__length_hint__(), frame.f_code,
                         frame.f_locals["i"], frame.f_lineno - frame.f_code.co_firstlineno, hot["turns"], hot["function"], hot["code"],
                         hot["jump"], hot["instruction"]))
        with watched(callback, total):
            total(35)
        code = total.__code__
        [(jump, head)] = jumps(code).items()
        self.assertEqual(seen, [(35, sum(range(t)), t - 1, 35 - t, code, t - 1, line, 10, total, code, jump, head)
                                for t, line in ((10, 3), (20, 3), (30, 3))])

    def test_cells_and_what_is_unbound(self):
        seen = []

        def f(n):
            cell = 1
            for _ in range(n):
                cell += 1

            def inner(): return cell
            late = 1
            return inner() + late

        def callback(hot):
            values = Slots(hot).values
            seen.append((values["cell"].cell_contents, values["late"], values["inner"]))
        with watched(callback, f):
            self.assertEqual(f(10), 12)
        self.assertEqual(seen, [(11, compilers.UNBOUND, compilers.UNBOUND)])

    def test_loops_within_a_callback_are_not_its(self):
        def callback(hot):
            self.assertEqual(total(100), 4950)
            self.assertEqual(nested(20), 20 * 190)
        before = compilers.looped()
        with watched(callback, total, nested):
            total(20)
        self.assertEqual(compilers.looped() - before, 2)

    def test_the_collector_and_a_signal_in_a_callback(self):
        got = []

        def callback(hot):
            gc.collect()
            signal.raise_signal(signal.SIGUSR1)
            got.append(len(handled))
        handled = []
        before = signal.signal(signal.SIGUSR1, lambda *_: handled.append(sys._getframe(1).f_code))
        self.addCleanup(signal.signal, signal.SIGUSR1, before)
        with watched(callback, total):
            self.assertEqual(total(30), 435)
        self.assertEqual(len(handled), 3)
        self.assertEqual(len(got), 3)

    def test_loops_of_a_re_entrant_call(self):
        seen = []

        def callback(hot):
            seen.append(hot["code"])
            if len(seen) == 1:
                self.assertEqual(framehook.reentrant(nested)(10), 10 * 45)
        with watched(callback, total, nested):
            self.assertEqual(total(10), 45)
        self.assertEqual(seen, [total.__code__, *[nested.__code__] * 10])

        def hook(view):
            if view.code is catches.__code__:
                framehook.reentrant(total)(10)
        seen.clear()
        seen.append(None)
        with watched(callback, total), framehook.hook(hook):
            catches(1)
        self.assertEqual(seen, [None, total.__code__])

    def test_pending_work_comes_first(self):
        """The collector runs at the jump, after signals were looked at there, and a finalizer in C sends one."""
        events = []

        class Finalized:
            __del__ = staticmethod(_thread.interrupt_main)

        def loop(n):
            kept = ()
            for _ in range(n):
                kept = {1}, kept        # allocates, and no instruction but the jump checks for pending work

        def garbage():
            found = Finalized()
            found.itself = found
        previous, thresholds = signal.signal(signal.SIGINT, lambda number, frame: events.append("signal")), gc.get_threshold()
        self.addCleanup(signal.signal, signal.SIGINT, previous)
        self.addCleanup(gc.set_threshold, *thresholds)
        gc.collect()
        gc.disable()
        spare = []
        while gc.get_count()[0] < 0:    # without the GIL, after many objects were freed
            spare.append([])
        garbage()
        with watched(lambda hot: events.append("loop"), loop, turns=1):
            gc.enable()
            gc.set_threshold(1, 0)      # without the GIL 512 allocations are counted at once, and none if this is not 0
            loop(1000)
            gc.set_threshold(*thresholds)
        # The loop was hot at each turn. At one, the signal was pending.
        self.assertEqual((events.count("signal"), events.count("loop")), (1, 999))

    def test_other_hooks_see_calls_as_ever(self):
        seen = []

        def hook(view):
            if view.code is total.__code__:
                view.watch(lambda event: seen.append((event.kind, event.value)))
        with watched(answering(compilers.RESULT, object="answer"), total), framehook.hook(hook):
            self.assertEqual(total(100), "answer")
        self.assertEqual(seen, [("returned", "answer")])


def catches(n):
    try:
        for i in range(n):
            pass
    except LookupError as error:
        return "caught", error, i
    else:
        return "else"
    finally:
        n = None


@needs_hooks
class Answers(unittest.TestCase):
    def test_it_continues_as_it_was(self):
        for function in (total, nested, catches):
            expected = function(40)
            with watched(answering(compilers.CONTINUE), function, turns=1):
                self.assertEqual(function(40), expected)

    def test_other_values(self):
        def callback(hot):
            values, iterator = hot["slots"][:-1], hot["slots"][-1]
            if iterator.__length_hint__() == 90:
                iterator.__setstate__(80)   # that many further
                hot["write"] = [values[0], "x", None, iterator]

        def f(n):
            s = ""
            for i in range(n):
                s = (s, i)
            return s
        with watched(callback, f):
            result = f(100)
        for i in range(99, 89, -1):
            self.assertEqual(result[1], i)
            result = result[0]
        self.assertEqual(result, "x")

    def test_a_result(self):
        def calls(n):
            return [total(n), total(n=n), (lambda: total(n))(), *map(total, [n])]

        class C:
            loop = total
            attribute = property(lambda self: total(self))

            def __init__(self, n=100):
                for _ in range(n):
                    pass

            def __len__(self):
                for _ in range(100):
                    pass
        with watched(answering(compilers.RESULT, object=7), total, C.__len__):
            self.assertEqual(calls(100), [7] * 4)
            self.assertEqual(len(C()), 7)
        with watched(answering(compilers.RESULT, object=None), C.__init__):
            self.assertIsInstance(C(), C)
        with watched(answering(compilers.RESULT, object=1), C.__init__), self.assertRaisesRegex(TypeError, "should return None"):
            C()
        code = compile("for i in range(100): pass\nwent_on = True\n", "module", "exec")
        namespace = {}
        with watched(answering(compilers.RESULT, object=None), code):
            exec(code, namespace)
        self.assertEqual(namespace["i"], 9)
        self.assertNotIn("continued", namespace)

    def test_an_exception_that_the_function_handles(self):
        error = KeyError("raised")
        with watched(answering(compilers.ERROR, **{"raise": error}), catches):
            self.assertEqual(catches(100), ("caught", error, 9))

        def callback(hot):
            raise error
        with watched(callback, catches):
            self.assertEqual(catches(100), ("caught", error, 9))

    def test_an_exception_that_it_does_not_handle(self):
        def calls():
            return total(100)
        with watched(answering(compilers.ERROR, **{"raise": KeyError(1)}), total):
            names = [(frame.name, frame.lineno) for frame in traceback.extract_tb(raised_by(calls))]
        self.assertEqual(names[1:], [("calls", calls.__code__.co_firstlineno + 1), ("total", total.__code__.co_firstlineno + 2)])

    def test_an_exception_at_another_instruction(self):
        at = index_at(total.__code__, 4)
        with watched(answering(compilers.ERROR, instruction=at, write=[100, 1, 2], **{"raise": KeyError(1)}), total):
            frame = raised_by(lambda: total(100)).tb_next.tb_next
        self.assertEqual((frame.tb_lineno, frame.tb_frame.f_locals), (total.__code__.co_firstlineno + 4, {"n": 100, "s": 1, "i": 2}))

    def test_an_exception_that_leaves_it(self):
        def calls():
            return catches(100)
        at = index_at(catches.__code__, 5)
        with watched(answering(compilers.UNWIND, instruction=at, **{"raise": KeyError(1)}), catches):
            names = [(frame.name, frame.lineno) for frame in traceback.extract_tb(raised_by(calls))]
        self.assertEqual(names[1:], [("calls", calls.__code__.co_firstlineno + 1), ("catches", catches.__code__.co_firstlineno + 5)])

    def test_it_continues_at_another_instruction(self):
        at = index_at(total.__code__, 4)
        with watched(answering(compilers.CONTINUE, instruction=at, write=[100, "all of it", 99]), total):
            self.assertEqual(total(100), "all of it")

        def then(n):
            for i in range(n):
                pass
            for j in range(n):
                pass
            return i, j
        second = max(jumps(then.__code__).values())

        def callback(hot):
            if hot["instruction"] != second:
                hot["write"] = [*hot["slots"][:-1], iter(range(1, 4))]
                hot["instruction"] = second
        with watched(callback, then):
            self.assertEqual(then(100), (9, 3))

    def test_turns(self):
        seen = []

        def callback(hot):
            seen.append(Slots(hot).values["i"])
            hot["turns"] = len(seen) * 10 if len(seen) < 4 else 0
        with watched(callback, total, turns=3):
            total(1000)
            total(1000)
        self.assertEqual(seen, [2, 12, 32, 62])

    def test_no_turns_until_the_code_is_instrumented_anew(self):
        def once(hot):
            seen.append(Slots(hot).values["i"])
            hot["turns"] = 0
        seen = []
        with watched(once, total, turns=3) as hook:
            for _ in range(3):
                total(100)
            self.assertEqual(seen, [2])
            with framehook.hook(lambda view: None):
                total(100)
                total(100)
            self.assertEqual(seen, [2, 2])
            compilers.watch_loops(hook, total.__code__, 5)
            total(100)
            total(100)
        self.assertEqual(seen, [2, 2, 4])

    def test_generators(self):
        def generator(n):
            got = []
            for i in range(n):
                got.append((yield i))
            return got
        for verdict in (compilers.RESULT, compilers.UNWIND):
            rest = {"object": 1} if verdict == compilers.RESULT else {"raise": KeyError()}
            with watched(answering(verdict, **rest), generator):
                with self.assertRaisesRegex(SystemError, "ends a generator"):
                    list(generator(100))

        def callback(hot):
            hot["slots"][-1].__setstate__(88)
        with watched(callback, generator):
            self.assertEqual(list(generator(100)), [*range(10), 98, 99])
        with watched(answering(compilers.ERROR, **{"raise": KeyError()}), generator), self.assertRaises(KeyError):
            list(generator(100))

    def test_within_a_handler(self):
        def f(n):
            try:
                raise KeyError
            except KeyError:
                for i in range(n):
                    pass
                return i

        def outer(n):
            try:
                raise ValueError("outer")
            except ValueError:
                result = total(n)
                return result, sys.exception()
        with watched(answering(compilers.RESULT, object=1), f, total):
            with self.assertRaisesRegex(SystemError, "may be handling an exception"):
                f(100)
            self.assertIsNone(sys.exception())
            result, handled = outer(100)
            self.assertEqual((result, handled.args), (1, ("outer",)))
        with watched(answering(compilers.CONTINUE), f):
            self.assertEqual(f(100), 99)

    def test_answers_that_make_no_sense(self):
        for answer, text in (({"verdict": 9}, "unknown"), ({"verdict": compilers.RESULT}, "unknown"),
                             ({"object": 1}, "does not go with its object"), ({"turns": -1}, "no number of turns"),
                             ({"turns": 65536}, "no number of turns"), ({"stack_depth": -1}, "has room"),
                             ({"stack_depth": 1000}, "has room"), ({"verdict": compilers.ERROR}, "set no exception"),
                             ({"verdict": compilers.UNWIND}, "set no exception"), ({"raise": KeyError()}, "answered with none"),
                             ({"instruction": -1}, "no instruction begins"), ({"instruction": 10**6}, "no instruction begins"),
                             ({"instruction": jumps(total.__code__).popitem()[0] + 1}, "no instruction begins")):
            with self.subTest(answer):
                with watched(lambda hot, answer=answer: hot.update(answer), total), self.assertRaisesRegex(SystemError, text):
                    total(100)
                self.assertEqual(total(100), 4950)

    @in_a_child
    def test_the_prefixes_of_an_instruction_belong_to_it(self):
        text = "def f(n):\n s = 0\n for i in range(n):\n" + "  s += i; s -= i\n" * 200 + " return s\n"
        namespace = {}
        exec(text, namespace)
        f = namespace["f"]
        prefixes = [it.offset // 2 for it in dis.get_instructions(f) if it.opname == "EXTENDED_ARG"]
        self.assertEqual(len(prefixes), 2)
        self.assertIn(prefixes[0], jumps(f.__code__).values())
        for index in prefixes:
            with watched(answering(compilers.CONTINUE, instruction=index + 1), f), self.assertRaisesRegex(SystemError, "no instruction begins"):
                f(20)
        [(_, head)] = jumps(f.__code__).items()
        with watched(answering(compilers.ERROR, instruction=head, **{"raise": KeyError(1)}), f), self.assertRaises(KeyError):
            f(20)

    def test_references(self):
        class Thing:
            pass
        thing = Thing()

        def f(it, n):
            for i in range(n):
                it = it, i
                it = it[0]
            return n
        for callback in (answering(compilers.RESULT, object=thing), answering(compilers.CONTINUE),
                         answering(compilers.ERROR, **{"raise": KeyError()}), answering(compilers.UNWIND, **{"raise": KeyError()}),
                         answering(compilers.CONTINUE, instruction=index_at(f.__code__, 4), write=[thing, 1, thing])):
            counts = []
            for _ in range(4):
                with watched(callback, f):
                    for _ in range(20):
                        try:
                            f(thing, 100)
                        except KeyError as error:
                            error.__traceback__ = None
                counts.append(sys.getrefcount(thing))
            self.assertEqual(counts[1:], counts[:-1])


@needs_hooks
class Watching(unittest.TestCase):
    def test_once_removed_it_is_not_called(self):
        before = compilers.looped()
        for how in ("remove", "unwatch"):
            hook = compilers.add_hook(None)
            compilers.watch_loops(hook, total.__code__, 5)
            if how == "unwatch":
                compilers.unwatch_loops(hook, total.__code__)
                self.assertNotIn(bytes([234]), compilers.instructions(total.__code__)[::2])
            compilers.remove(hook)
            total(100)
        self.assertEqual(compilers.looped(), before)
        self.assertNotIn(bytes([234]), compilers.instructions(total.__code__)[::2])

    def test_one_hook_for_each_code(self):
        with watched(None, total) as one, watched(None) as other:
            with self.assertRaisesRegex(RuntimeError, "another frame hook watches"):
                compilers.watch_loops(other, total.__code__, 5)
            compilers.watch_loops(one, total.__code__, 7)
            compilers.unwatch_loops(other, total.__code__)
            before = compilers.looped()
            total(70)
            self.assertEqual(compilers.looped() - before, 10)
            compilers.remove(one)
            compilers.watch_loops(other, total.__code__, 5)
            total(70)
            self.assertEqual(compilers.looped() - before, 24)

    def test_what_is_refused(self):
        with self.assertRaisesRegex(ValueError, "not installed"):
            compilers.watch_loops(10**6, total.__code__, 5)
        with watched(None) as hook:
            for turns in (0, -1, 65536):
                with self.assertRaisesRegex(ValueError, "1 to 65,535"):
                    compilers.watch_loops(hook, total.__code__, turns)
            for watch in (compilers.watch_loops, lambda *args: compilers.unwatch_loops(*args[:2])):
                with self.assertRaisesRegex(TypeError, "code object"):
                    watch(hook, total, 5)
        other = framehook.add(lambda view: None)
        self.addCleanup(framehook.remove, other)
        with self.assertRaisesRegex(ValueError, "no loop callback"):
            compilers.watch_loops(other, total.__code__, 5)

    def test_a_hook_that_is_disabled(self):
        with watched(None, total) as hook:
            before = compilers.looped()
            for disabled in (framehook.disabled, framehook.disabled_in_thread):
                with disabled(hook):
                    total(100)
            self.assertEqual(compilers.looped(), before)
            total(100)
            self.assertEqual(compilers.looped() - before, 10)

    def test_changes_within_a_callback(self):
        with watched(None) as hook:
            def gone(hot):
                compilers.remove(hook_of_it)

            def unwatch(hot):
                compilers.unwatch_loops(hook_of_it, total.__code__)

            def watch_again(hot):
                compilers.watch_loops(hook_of_it, total.__code__, 20)

            def trace(hot):
                sys.settrace(lambda *_: None)
                sys.settrace(None)
            for change, calls in ((gone, 1), (unwatch, 1), (watch_again, 6), (trace, 10)):
                with watched(change, total) as hook_of_it:
                    before = compilers.looped()
                    self.assertEqual(total(100), 4950)
                # The answer's number of turns is that of before, and counts once more.
                self.assertEqual(compilers.looped() - before, calls, change)

    def test_code_that_goes(self):
        for _ in range(20):
            namespace = {}
            exec("def f(n):\n for i in range(n): pass\n return i\n", namespace)
            with watched(None, namespace["f"]):
                namespace["f"](100)
            compilers.observers(namespace["f"].__code__)
        gc.collect()
