"""Hostile use: wrong callbacks, interrupted compilers, resets at unexpected places."""

import gc
import os
import sys
import threading
import types
import warnings
import weakref

import torch
import torch._dynamo
from torch._dynamo.decorators import skip

X = torch.arange(4.0)
EXTENSION = torch._C._dynamo.eval_frame


def callback_now():
    callback = EXTENSION.get_eval_frame_callback()
    return callback if callback is None or callback is False else "on"


def leaf(x):
    return x + 1


def with_callback(t, callback, work=lambda: leaf(X)):
    """What `work` does while the thread has a callback of the user's own."""
    before = EXTENSION.set_eval_frame(callback)
    try:
        return t.raised(work)
    finally:
        EXTENSION.set_eval_frame(before)


def answers_nothing(t):
    return with_callback(t, lambda *arguments: None), callback_now()


def answers_another_class(t):
    return [with_callback(t, lambda *arguments, answer=answer: answer) for answer in (3, "code", (), leaf.__code__)]


if torch.__version__.startswith("2.6."):
    del answers_another_class       # its own evaluator aborts the process


def takes_no_arguments(t):
    return with_callback(t, lambda: None)


def raises_at_once(t):
    def callback(*arguments):
        raise LookupError("not today")
    return with_callback(t, callback), callback_now(), leaf(X)


def answers_half(t):
    strategy = EXTENSION._FrameExecStrategy(EXTENSION._FrameAction.DEFAULT, EXTENSION._FrameAction.DEFAULT)
    answers = [types.SimpleNamespace(frame_exec_strategy=strategy),
               types.SimpleNamespace(frame_exec_strategy=strategy, apply_to_code=False),
               types.SimpleNamespace(frame_exec_strategy=strategy, apply_to_code=False, guarded_code=None),
               types.SimpleNamespace(frame_exec_strategy=strategy, apply_to_code=False, guarded_code=3),
               types.SimpleNamespace(frame_exec_strategy=3, apply_to_code=False, guarded_code=None),
               types.SimpleNamespace(frame_exec_strategy=None, apply_to_code=True, guarded_code=None)]

    def functions():
        for _ in answers:
            names = {}
            exec("def f(x): return x + 1", names)
            yield names["f"]
    return [with_callback(t, lambda *arguments, answer=answer: answer, lambda function=function: function(X))
            for answer, function in zip(answers, functions(), strict=True)]


def no_callback_at_all(t):
    return [t.raised(EXTENSION.set_eval_frame, wrong) for wrong in (3, True, "on", X)], callback_now()


def what_a_callback_is_given(t):
    seen = []

    def outer(free):
        def f(a, /, b, *rest, c=3, **more):
            return a + free
        return f

    def callback(frame, entry, state):
        seen.append((type(frame).__name__, frame.f_code.co_name, dict(frame.f_locals), frame.f_lasti,
                     frame.f_lineno - frame.f_code.co_firstlineno, frame.f_globals is globals(),
                     len(frame.closure), entry, state, callback_now()))
        raise LookupError(frame.f_code.co_name)
    result = with_callback(t, callback, lambda: outer(1))
    f = outer(2)
    return result, with_callback(t, callback, lambda: f(1, 2, 3, d=4)), seen


def interrupted(t):
    """Control-C while a backend runs."""
    interrupts = [KeyboardInterrupt("now"), SystemExit(3), GeneratorExit("closed")]

    def backend(module, inputs):
        if interrupts:
            raise interrupts.pop(0)
        return t.backend(module, inputs)

    def f(x):
        return x * 2
    f = torch.compile(f, backend=backend)
    results = []
    while interrupts:
        try:
            results.append(f(X))
        except BaseException as error:
            results.append(error)
        results.append(callback_now())
    return results, f(X), len(t.graphs)


def backend_raises_an_unexpected_exception(t):
    class Odd(Exception):
        def __str__(self):
            raise ValueError("no text")

    def backend(module, inputs):
        raise Odd
    f = torch.compile(lambda x: x + 1, backend=backend)
    try:
        f(X)
    except Exception as error:
        return type(error).__name__, callback_now()


def backend_gives_no_function(t):
    return [type(t.raised(torch.compile(lambda x: x + 1, backend=lambda module, inputs, wrong=wrong: wrong), X)).__name__
            for wrong in (None, 3, "function")], callback_now()


def backend_resets(t):
    def backend(module, inputs):
        torch._dynamo.reset()
        return t.backend(module, inputs)

    def f(x):
        torch._dynamo.graph_break()
        return x * 2
    f = torch.compile(f, backend=backend)
    return f(X), f(X), callback_now()


def backend_compiles_itself(t):
    calls = []

    def g(x):
        return f(x) + 1

    def backend(module, inputs):
        calls.append(callback_now())
        if len(calls) < 3:
            calls.append(t.raised(g, X))
        return t.backend(module, inputs)

    def f(x):
        return x * 2
    f = torch.compile(f, backend=backend)
    return f(X), calls


def backend_changes_the_callback(t):
    def backend(module, inputs):
        EXTENSION.set_eval_frame(False)
        return t.backend(module, inputs)
    f = torch.compile(lambda x: x + 1, backend=backend)
    result = f(X)
    return result, callback_now()


def region_ends_twice(t):
    seen = []

    @skip
    def end():
        seen.append(callback_now())
        EXTENSION.set_eval_frame(None)
        seen.append(callback_now())

    def inner(x):
        return x + 2

    def f(x):
        end()
        return inner(x)
    return t.compile(f)(X), seen, callback_now()


def resets_within(t):
    @skip
    def reset():
        torch._dynamo.reset()

    def f(x):
        y = x + 1
        reset()
        return y * 2
    f = t.compile(f)
    return f(X), f(X), len(t.graphs)


def resets_its_own_code(t):
    @skip
    def reset():
        EXTENSION.reset_code(f.__code__)
        gc.collect()

    def f(x):
        y = x + 1
        reset()
        return y * 2
    compiled = t.compile(f)
    return compiled(X), compiled(X), len(t.graphs)


def guard_resets(t):
    """A guard that runs code of the user, which takes away what is being looked through."""
    class Odd:
        active = False

        def __eq__(self, other):
            if Odd.active:
                torch._dynamo.reset()
                gc.collect()
            return isinstance(other, Odd)

        def __hash__(self):
            return 3

    keys = {Odd(): 1}

    def f(x):
        return x + len(keys)
    f = t.compile(f)
    first = f(X)
    Odd.active = True
    keys[Odd()] = 2
    return first, f(X), f(torch.ones(5))


def code_is_replaced_within(t):
    def other(x):
        return x * 7

    def f(x):
        y = x + 1
        change()
        return y * 2

    @skip
    def change():
        f.__code__ = other.__code__
    compiled = t.compile(f)
    return compiled(X), compiled(X)


def code_is_copied(t):
    """Copies of code have nothing of what is known of it."""
    def f(x):
        return x * 2
    first = t.compile(f)(X)
    f.__code__ = f.__code__.replace(co_name="g")
    entries = torch._dynamo.eval_frame._debug_get_cache_entry_list(f.__code__)
    return first, len(entries), t.compile(f)(X), len(t.graphs)


def compiled_code_is_copied(t):
    """What Dynamo has made runs under the user's hand, compiled and not."""
    def f(x):
        return x * 2
    t.compile(f)(X)
    (entry,) = torch._dynamo.eval_frame._debug_get_cache_entry_list(f.__code__)
    f.__code__ = entry.code.replace(co_name="copy")
    return f(X), t.compile(f)(X)


def code_without_arguments(t):
    """Code whose arguments the user has taken away."""
    def f(x):
        return X * 2
    f = types.FunctionType(f.__code__.replace(co_argcount=0, co_varnames=("y",), co_nlocals=1), globals())
    return t.compile(f)()


def module_and_class_bodies(t):
    def callback(frame, entry, state):
        raise LookupError(frame.f_code.co_name)
    return [with_callback(t, callback, work) for work in (
        lambda: exec("a = 3", {}), lambda: eval("3 + 4"), lambda: type("C", (), {}), lambda: [n for n in range(3)])]


def deleted_cell(t):
    """A free variable without a value."""
    def outer():
        free = X

        def f(x):
            return x + free
        del free
        return f
    return t.raised(t.compile(outer()), X)


def recursion_without_end(t):
    def f(x):
        torch._dynamo.graph_break()
        return f(x + 1)
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(400)
    try:
        error = t.raised(torch.compile(f, backend="eager"), X)
    finally:
        sys.setrecursionlimit(limit)
    return type(error).__name__, callback_now(), t.compile(leaf)(X)


def recursion_limit_of_the_compiler(t):
    torch._dynamo.set_recursion_limit(12_000)
    try:
        return t.compile(lambda x: x + 1)(X), torch._dynamo.get_recursion_limit()
    finally:
        torch._dynamo.set_recursion_limit(-1)


def recursion_limit_that_makes_no_sense(t):
    return [t.raised(torch._dynamo.set_recursion_limit, wrong) for wrong in (0, -2, 2 ** 40, "deep")]


def recursion_limit_is_heeded(t):
    """How deep a compiler may call itself through C; not by how much the way there differs."""
    depths = []

    def down(n):
        depths[-1] = n
        next(map(down, [n + 1]))

    def backend(module, inputs):
        depths.append(0)
        t.raised(down, 1)
        return t.backend(module, inputs)
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(100_000)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for limit in (1_000, 2_000, -1):
                torch._dynamo.set_recursion_limit(limit)
                torch.compile(lambda x: x + 1, backend=backend)(X)
    finally:
        torch._dynamo.set_recursion_limit(-1)
        sys.setrecursionlimit(before)
    low, high, own = depths
    return high - low, own > high


def recursion_limit_is_too_low(t):
    torch._dynamo.set_recursion_limit(1)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            error = t.raised(t.compile(lambda x: x + 1), X)
    finally:
        torch._dynamo.set_recursion_limit(-1)
    return type(error).__name__, callback_now(), t.compile(leaf)(X)


def warnings_are_errors(t):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return t.compile(lambda x: x + 1)(X)


def in_a_destructor(t):
    results = []
    f = t.compile(lambda x: x + 1)

    class Dying:
        def __del__(self):
            results.append(f(X))
            results.append(callback_now())

    @skip
    def die():
        dying = Dying()
        del dying

    def g(x):
        die()
        return x * 2
    return t.compile(g)(X), results


def in_a_weak_reference(t):
    results = []
    f = t.compile(lambda x: x + 1)

    class Thing:
        pass

    thing = Thing()
    reference = weakref.ref(thing, lambda reference: results.append(f(X)))
    del thing
    return results, reference() is None


def in_a_signal_handler(t):
    import signal
    results = []
    f = t.compile(lambda x: x + 1)
    before = signal.signal(signal.SIGUSR1, lambda number, frame: results.append((f(X), callback_now())))

    @skip
    def interrupt():
        os.kill(os.getpid(), signal.SIGUSR1)

    def g(x):
        interrupt()
        return x * 2
    try:
        return t.compile(g)(X), results
    finally:
        signal.signal(signal.SIGUSR1, before)


def tracer_within(t):
    """A trace function is set from within a region, and the tracer calls what is compiled."""
    events, results = [], []
    other = t.compile(lambda x: x * 3)

    def tracer(frame, event, argument):
        if frame.f_code.co_name == "traced_helper":
            events.append(event)
            if event == "call":
                results.append(other(X))
        return tracer

    def traced_helper(x):
        return x + 1

    @skip
    def begin():
        sys.settrace(tracer)

    @skip
    def end():
        sys.settrace(None)

    def f(x):
        begin()
        y = traced_helper(x)
        end()
        return y
    try:
        return t.compile(f)(X), events, results
    finally:
        sys.settrace(None)


def monitoring_tool_raises(t):
    """A tool of sys.monitoring that fails where a compiled function begins."""
    tool = 3
    sys.monitoring.use_tool_id(tool, "unkind")

    def fails(code, offset):
        if code.co_name == "victim":
            raise LookupError("no")

    def victim(x):
        return x + 1

    sys.monitoring.register_callback(tool, sys.monitoring.events.PY_START, fails)
    sys.monitoring.set_events(tool, sys.monitoring.events.PY_START)
    try:
        return t.raised(t.compile(victim), X), callback_now()
    finally:
        sys.monitoring.set_events(tool, 0)
        sys.monitoring.free_tool_id(tool)


def generator_goes_elsewhere(t):
    """A generator that begins in a region, is resumed outside, in a thread, and in another region."""
    seen = []

    def numbers(x):
        seen.append(callback_now())
        yield x + 1
        seen.append(callback_now())
        yield x + 2
        seen.append(callback_now())
        yield x + 3
        seen.append(callback_now())

    kept = []

    def f(x):
        iterator = numbers(x)
        torch._dynamo.graph_break()
        keep(iterator)
        return next(iterator)

    @skip
    def keep(iterator):
        kept.append(iterator)
    results = [t.compile(f)(X)]
    results.append(next(kept[0]))
    thread = threading.Thread(target=lambda: results.append(next(kept[0])))
    thread.start()
    thread.join()
    results.append(t.compile(lambda iterator: next(iterator, None))(kept[0]))
    return results, seen, callback_now()


def generator_is_dropped_in_a_region(t):
    seen = []

    def numbers(x):
        try:
            yield x + 1
        finally:
            seen.append(callback_now())

    @skip
    def drop():
        kept.clear()
    kept = [numbers(X)]
    next(kept[0])

    def f(x):
        drop()
        return x + 1
    return t.compile(f)(X), seen, callback_now()


def forked_in_a_region(t):
    """The child of a fork in a region continues, compiles, and ends."""
    numbers = []

    @skip
    def fork():
        numbers.append(os.fork())

    def f(x):
        y = x + 1
        fork()
        return y * 2
    result = t.compile(f)(X)
    if numbers == [0]:
        code = 1
        try:
            more = torch.compile(lambda x: x * 5, backend="eager")(X)
            code = 0 if torch.equal(more, X * 5) and torch.equal(result, (X + 1) * 2) and callback_now() is None else 2
        finally:
            os._exit(code)
    return result, os.waitstatus_to_exitcode(os.waitpid(numbers[0], 0)[1])


def full_graph_in_another_thread(t):
    """What a full graph means for the frames below it is the matter of its own thread."""
    inside, may_continue = threading.Event(), threading.Event()

    def backend(module, inputs):
        def waits(*arguments):
            inside.set()
            may_continue.wait(60)
            return module.forward(*arguments)
        return waits

    results = []
    full = torch.compile(lambda x: x * 2, backend=backend, fullgraph=True)
    thread = threading.Thread(target=lambda: results.append(full(X)))
    thread.start()
    assert inside.wait(60)

    def f(x):
        y = x + 1
        torch._dynamo.graph_break()
        return y * 3
    results.append(t.compile(f)(X))
    results.append(len(t.graphs))

    def nothing_to_compile():
        return 3
    results.append(t.raised(t.compile(nothing_to_compile, fullgraph=True)))
    may_continue.set()
    thread.join()
    return results
