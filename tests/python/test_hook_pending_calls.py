"""What waits to be handled by a thread (a signal, an exception set by another thread, a pending call) is handled where it is without hooks.

CPython handles it as a function begins, as a generator goes on after a yield, at jumps back, and after calls of C; not where a `yield from`
or `await` goes on, nor as a function returns. A hook or callback in Python begins functions at each of these places.
"""

import _thread
import contextlib
import functools
import operator
import signal
import sys
import threading
import traceback
import types
import unittest

from hook_variants import extension
from support import ProgramTestCase, STOCK_PYTHON, needs_hooks, needs_stock, run_program

try:
    import framehook
except ImportError:     # stock CPython
    framehook = None
try:
    import ctypes
except ImportError:
    ctypes = None


class Raised(BaseException):
    """What another thread has had raised."""


# --- Ways for something to wait to be handled: what has it wait is C, and takes the number of a signal or nothing. ----------------------

@contextlib.contextmanager
def signal_with_a_handler(log):
    def handler(number, frame):
        log.append(("handled in", frame.f_code.co_name, frame.f_lineno))

    before = signal.signal(signal.SIGINT, handler)
    try:
        yield _thread.interrupt_main
    finally:
        signal.signal(signal.SIGINT, before)


@contextlib.contextmanager
def signal_that_raises(log):
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield _thread.interrupt_main
    finally:
        signal.signal(signal.SIGINT, before)


@contextlib.contextmanager
def exception_of_another_thread(log):
    # ctypes passes an argument more, and C does not look at it.
    set_exception = ctypes.pythonapi.PyThreadState_SetAsyncExc
    yield functools.partial(set_exception, ctypes.c_ulong(threading.get_ident()), ctypes.py_object(Raised))


@contextlib.contextmanager
def pending_call(log):
    @ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p)
    def call(argument):
        frame = sys._getframe(1)
        log.append(("handled in", frame.f_code.co_name, frame.f_lineno))
        return 0

    yield functools.partial(ctypes.pythonapi.Py_AddPendingCall, call, None)


WAYS = [signal_with_a_handler, signal_that_raises]
if ctypes is not None:
    WAYS += [exception_of_another_thread, pending_call]


def now_of(call):
    """`now.it` has something wait: an attribute that C reads, since nothing is handled after that, as it is after calls.

    `now.then(function, ...)` does that too and calls the function, both in C.
    """
    def then(self, function, *arguments):
        return list(map(operator.call, (call, functools.partial(function, *arguments))))[1]

    return type("Now", (int,), {"it": property(call), "then": then})(signal.SIGINT)


# --- Places at which it waits. ----------------------------------------------------------------------------------------------------------

def begins(log, now):
    def inner():
        log.append("inner")
        return "value"

    def outer():
        log.append("outer")
        return inner()

    return now.then(outer)


def begins_a_generator(log, now):
    def gen():
        log.append("gen")
        yield 1

    return list(now.then(gen))


def goes_on_after_a_yield(log, now):
    def gen():
        try:
            log.append("first")
            yield 1
            log.append("second")
            yield 2
        except BaseException as error:
            log.append(("gen has it", type(error).__name__))
            raise

    made = gen()
    return next(made), now.then(made.__next__)


def goes_on_after_a_yield_from(log, now):
    def inner():
        try:
            got = yield 1
            log.append(("inner goes on", got))
        except BaseException as error:
            log.append(("inner has it", type(error).__name__))
            return "inner"
        yield 2

    def outer():
        try:
            return (yield from inner())
        except BaseException as error:
            log.append(("outer has it", type(error).__name__))
            raise

    made = outer()
    return next(made), now.then(made.send, 5)


def goes_on_after_two_yields_from(log, now):
    def inner():
        try:
            yield 1
        except BaseException as error:
            log.append(("inner has it", type(error).__name__))
            return "inner"
        yield 2

    def middle():
        return (yield from inner()), "middle"

    def outer():
        return (yield from middle()), "outer"

    made = outer()
    return next(made), now.then(made.__next__)


def goes_on_after_an_await(log, now):
    class Once:
        def __await__(self):
            try:
                yield "awaited"
            except BaseException as error:
                log.append(("Once has it", type(error).__name__))

    async def inner():
        await Once()
        return "inner"

    async def outer():
        try:
            return await inner()
        except BaseException as error:
            log.append(("outer has it", type(error).__name__))
            raise

    made = outer()
    return made.send(None), now.then(made.send, None)


def goes_on_after_an_await_of_c(log, now):
    async def outer():
        try:
            return await waits_in_c()
        except BaseException as error:
            log.append(("outer has it", type(error).__name__))
            raise

    class waits_in_c:
        def __await__(self):
            return iter([1, 2])

    made = outer()
    return made.send(None), now.then(made.send, None)


def goes_on_in_an_asynchronous_generator(log, now):
    @types.coroutine
    def once():
        try:
            yield
        except BaseException as error:
            log.append(("once has it", type(error).__name__))

    async def gen():
        await once()
        log.append("behind the await")
        yield 1
        log.append("behind the yield")

    made = gen()
    step = made.__anext__()
    step.send(None)
    try:
        now.then(step.send, None)
    except StopIteration as stop:
        log.append(("yielded", stop.value))
    try:
        now.then(made.__anext__().send, None)
    except StopAsyncIteration:
        log.append("over")


def is_thrown_into(log, now):
    def gen():
        try:
            yield 1
        except KeyError:
            log.append("thrown in")
            yield 2

    made = gen()
    return next(made), now.then(made.throw, KeyError)


def is_closed(log, now):
    def gen():
        try:
            yield 1
        finally:
            log.append("closed")

    def plain():
        yield 1

    found = []
    for function in gen, plain:
        made = function()
        next(made)
        found.append(now.then(made.close))
    return found


def returns(log, now):
    def inner():
        return now.it

    def outer():
        try:
            inner()
        except BaseException as error:
            log.append(("outer has it", type(error).__name__))
        log.append("outer goes on")

    return outer()


def returns_to_c(log, now):
    def inner(one):
        return now.it

    def outer():
        try:
            list(map(inner, [1]))
        except BaseException as error:
            log.append(("outer has it", type(error).__name__))
        log.append("outer goes on")

    return outer()


def yields(log, now):
    def gen():
        try:
            yield now.it
        except BaseException as error:
            log.append(("gen has it", type(error).__name__))

    def outer():
        try:
            for one in gen():
                log.append("in the loop")
                del one
        except BaseException as error:
            log.append(("outer has it", type(error).__name__))
        log.append("outer goes on")

    return outer()


def yields_through_another(log, now):
    def gen():
        try:
            yield now.it
        except BaseException as error:
            log.append(("gen has it", type(error).__name__))

    def through():
        try:
            yield from gen()
        except BaseException as error:
            log.append(("through has it", type(error).__name__))

    def outer():
        try:
            for one in through():
                log.append("in the loop")
                del one
        except BaseException as error:
            log.append(("outer has it", type(error).__name__))
        log.append("outer goes on")

    return outer()


def raises(log, now):
    def inner():
        now.it + 1          # a TypeError

    def outer():
        try:
            inner()
        except TypeError:
            log.append("outer has it")
        log.append("outer goes on")

    return outer()


def coroutine_returns(log, now):
    async def inner():
        return now.it

    async def outer():
        try:
            await inner()
        except BaseException as error:
            log.append(("outer has it", type(error).__name__))
        log.append("outer goes on")

    try:
        outer().send(None)
    except StopIteration:
        log.append("over")


PLACES = (
    begins, begins_a_generator, goes_on_after_a_yield, goes_on_after_a_yield_from, goes_on_after_two_yields_from,
    goes_on_after_an_await, goes_on_after_an_await_of_c, goes_on_in_an_asynchronous_generator, is_thrown_into, is_closed, returns,
    returns_to_c, yields, yields_through_another, raises, coroutine_returns,
)


# --- Hooks. -----------------------------------------------------------------------------------------------------------------------------

def told(event):
    for _ in range(3):          # jumps back, and calls
        helper()


def helper():
    return [1, 2, 3].index(2)


def of_this_test(view):
    return view.code.co_filename == __file__ and view.code.co_name != "then"


def passes(view):
    helper()


def settles(view):
    helper()
    return framehook.SETTLED


def watches(view):
    if of_this_test(view):
        view.watch(told, None, True, True)


def watches_the_end(view):
    if of_this_test(view):
        view.watch(told)


def limits(view):
    if of_this_test(view):
        view.watch(told, None, True, True)
        view.only_below()


def copies(view):
    copy = COPIES.get(view.code)
    if copy is None and of_this_test(view):
        copy = COPIES[view.code] = view.code.replace()
    return copy


def calls_outside(view):
    if view.code is helper.__code__:
        return framehook.SETTLED
    framehook.outside(helper)()


COPIES = framehook.CodeMap() if framehook else {}
HOOKS = (passes, settles, watches, watches_the_end, limits, copies, calls_outside)


def observed(place, way):
    """What can be seen of it: what was logged, what came of it, and how the exception went."""
    log = []

    def run():
        with way(log) as call:
            try:
                log.append(("result", place(log, now_of(call))))
            except BaseException as error:
                log.append((type(error).__name__, str(error),
                            [(entry.name, entry.lineno) for entry in traceback.extract_tb(error.__traceback__)]))
            # What waits still is handled here.
            for _ in range(3):
                helper()

    try:
        run()
    except BaseException as error:
        log.append(("late", type(error).__name__))
    return log


def fresh(code):
    """An equal code object, of which nothing is specialized: some specialized calls handle nothing."""
    return code.replace(co_consts=tuple(fresh(constant) if isinstance(constant, types.CodeType) else constant
                                        for constant in code.co_consts))


def codes_below(code):
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield constant
            yield from codes_below(constant)


@contextlib.contextmanager
def hooks_of_c(place):
    """Hooks and callbacks in C that call Python."""
    wordhooks = extension("wordhooks")
    handles = [wordhooks.add(code, 0, tell=7, when_asked=helper, when_told=lambda kind: helper()) for code in codes_below(place.__code__)]
    try:
        yield
    finally:
        for handle in handles:
            framehook.remove(handle)
        wordhooks.take_words(), wordhooks.take_data()


@contextlib.contextmanager
def several_hooks(place):
    with framehook.hook(watches), framehook.hook(copies), framehook.hook(watches_the_end), framehook.hook(passes):
        yield


SURROUNDINGS = {
    **{hook.__name__: lambda place, hook=hook: framehook.hook(hook) for hook in HOOKS},
    "hooks in C": hooks_of_c,
    "several hooks": several_hooks,
}


@needs_hooks
class PendingCalls(ProgramTestCase):
    def fresh(self, place):
        return types.FunctionType(fresh(place.__code__), place.__globals__, place.__name__)

    def compare(self, ways=WAYS, before=lambda: None, after=lambda: None):
        for way in ways:
            for place in PLACES:
                expected = observed(self.fresh(place), way)
                # It has been handled somewhere.
                self.assertRegex(repr(expected), "handled in|KeyboardInterrupt|Raised", place.__name__)
                for name, surround in SURROUNDINGS.items():
                    again = self.fresh(place)
                    with self.subTest(place.__name__, way=way.__name__, hook=name):
                        before()
                        try:
                            with surround(again):
                                found = observed(again, way)
                        finally:
                            after()
                        self.assertEqual(found, expected)

    def test_it_is_handled_where_it_is_without_hooks(self):
        self.compare()

    def test_beside_an_evaluator(self):
        evaluators = extension("evaluators")
        self.compare(before=lambda: evaluators.set("pass"), after=lambda: evaluators.set("null"))

    def test_in_a_thread(self):
        if ctypes is None:
            self.skipTest("needs ctypes")
        failures = []

        def work():
            try:
                self.compare(ways=[exception_of_another_thread])
            except BaseException as error:
                failures.append(error)

        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
        self.assertEqual(failures, [])

    @needs_stock
    def test_without_hooks_it_is_handled_where_stock_does(self):
        program = """
import test_hook_pending_calls as module
for way in module.WAYS:
    for place in module.PLACES:
        print(way.__name__, place.__name__, module.observed(place, way))
"""
        done = run_program(program, python=STOCK_PYTHON, environment={"FERRULE_TESTS_ON_STOCK": "1"})
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(self.assert_program_succeeds(program).splitlines(), done.stdout.splitlines())

    def test_what_comes_while_a_hook_runs_can_end_it(self):
        """Else Ctrl-C would not end a hook that never returns."""
        for where in "hook", "callback":
            done = run_program(f"""
import _thread, framehook, itertools
def f():
    return 1
def loops(*ignored):
    _thread.interrupt_main()
    for _ in itertools.count():
        pass
def hook(view):
    if view.code is not f.__code__:
        return framehook.SETTLED
    if {where!r} == "hook":
        loops()
    view.watch(loops)
framehook.add(hook)
try:
    f()
except KeyboardInterrupt:
    print("ended")
""", timeout=60)
            self.assertEqual((done.stdout, done.returncode), ("ended\n", 0), (where, done.stderr))

    def test_none_is_lost_of_many(self):
        """As many handlers run as signals came one after the other, whatever hooks run meanwhile."""
        handled = []

        def f():
            return len(handled)

        def gen():
            yield from [1, 2]

        before = signal.signal(signal.SIGINT, lambda number, frame: handled.append(number))
        try:
            with framehook.hook(watches), framehook.hook(copies):
                for number in range(1, 300):
                    now_of(_thread.interrupt_main).then(f if number % 2 else lambda: list(gen()))
                    self.assertEqual(len(handled), number)
        finally:
            signal.signal(signal.SIGINT, before)

    def test_of_another_thread_while_a_hook_runs(self):
        """An exception that is set for a thread whose hook runs comes once."""
        if ctypes is None:
            self.skipTest("needs ctypes")
        caught, inside, goes_on = [], threading.Event(), threading.Event()

        def f():
            return 1

        def hook(view):
            if view.code is f.__code__:
                inside.set()
                goes_on.wait(60)

        def work():
            try:
                f()
                for _ in range(1000):
                    pass
            except Raised as error:
                caught.append(error)

        with framehook.hook(hook):
            thread = threading.Thread(target=work)
            thread.start()
            inside.wait(60)
            ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread.ident), ctypes.py_object(Raised))
            goes_on.set()
            thread.join()
        self.assertEqual(len(caught), 1)


if __name__ == "__main__":
    unittest.main()
