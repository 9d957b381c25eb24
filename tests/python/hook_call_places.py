"""The places where CPython does or does not look for what waits to be handled, each with a hook's reason to be called there."""

import _thread
import contextlib
import functools
import operator
import signal
import sys
import threading
import types

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


def resumes_after_a_yield(log, now):
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


def resumes_after_a_yield_from(log, now):
    def inner():
        try:
            got = yield 1
            log.append(("inner continues", got))
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


def resumes_after_two_yields_from(log, now):
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


def resumes_after_an_await(log, now):
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


def resumes_after_an_await_of_c(log, now):
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


def resumes_in_an_asynchronous_generator(log, now):
    @types.coroutine
    def once():
        try:
            yield
        except BaseException as error:
            log.append(("once has it", type(error).__name__))

    async def gen():
        await once()
        log.append("after the await")
        yield 1
        log.append("after the yield")

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
        log.append("outer continues")

    return outer()


def returns_to_c(log, now):
    def inner(one):
        return now.it

    def outer():
        try:
            list(map(inner, [1]))
        except BaseException as error:
            log.append(("outer has it", type(error).__name__))
        log.append("outer continues")

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
        log.append("outer continues")

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
        log.append("outer continues")

    return outer()


def raises(log, now):
    def inner():
        now.it + 1          # a TypeError

    def outer():
        try:
            inner()
        except TypeError:
            log.append("outer has it")
        log.append("outer continues")

    return outer()


def coroutine_returns(log, now):
    async def inner():
        return now.it

    async def outer():
        try:
            await inner()
        except BaseException as error:
            log.append(("outer has it", type(error).__name__))
        log.append("outer continues")

    try:
        outer().send(None)
    except StopIteration:
        log.append("over")


PLACES = (
    begins, begins_a_generator, resumes_after_a_yield, resumes_after_a_yield_from, resumes_after_two_yields_from,
    resumes_after_an_await, resumes_after_an_await_of_c, resumes_in_an_asynchronous_generator, is_thrown_into, is_closed, returns,
    returns_to_c, yields, yields_through_another, raises, coroutine_returns,
)
