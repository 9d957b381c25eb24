"""What switches compilation on and off: disable, stances, full graphs, nested compilation, resets."""

import torch
import torch._dynamo
import torch._dynamo.config
from torch._dynamo.decorators import skip
from torch._dynamo.eval_frame import _debug_get_cache_entry_list

X = torch.arange(4.0)


def callback_now():
    callback = torch._C._dynamo.eval_frame.get_eval_frame_callback()
    return callback if callback is None or callback is False else "on"


def disabled_function(t):
    @torch.compiler.disable
    def inner(x):
        return deeper(x) * 2

    def deeper(x):
        return x + 1

    def f(x):
        return inner(x.sin()).cos()
    f = t.compile(f)
    return f(X), f(X)


def disabled_but_not_below(t):
    def deeper(x):
        return x + 1

    @torch.compiler.disable(recursive=False)
    def inner(x):
        return deeper(x) * 2

    def f(x):
        return inner(x.sin()).cos()
    return t.compile(f)(X)


def disabled_with_reason(t):
    @torch.compiler.disable(reason="it is not ready")
    def inner(x):
        return x + 1

    def f(x):
        return inner(x) * 2
    return t.raised(t.compile(f, fullgraph=True), X)


def disabled_at_the_top(t):
    f = torch.compiler.disable(t.compile(lambda x: x + 1))
    return f(X)


def skipped(t):
    @skip
    def inner(x):
        return deeper(x) * 2

    def deeper(x):
        return x + 1

    def f(x):
        return inner(x.sin())
    return t.compile(f)(X)


def callback_is_seen(t):
    seen = []

    @skip
    def look():
        seen.append(callback_now())

    @torch.compiler.disable
    def look_disabled():
        seen.append(callback_now())

    def f(x):
        look()
        look_disabled()
        torch._dynamo.graph_break()
        return x + 1
    f = t.compile(f)
    f(X), f(X), look()
    return seen


def strategy_for_code(t):
    from torch._dynamo.types import FrameAction, FrameExecStrategy
    seen = []

    def deeper(x):
        return x + 1

    def inner(x):
        seen.append(callback_now())
        return deeper(x) * 2

    def f(x):
        torch._dynamo.graph_break()
        return inner(x)
    results = []
    for current, below in (("DEFAULT", "SKIP"), ("SKIP", "DEFAULT"), ("SKIP", "SKIP"), ("RUN_ONLY", "DEFAULT"),
                           ("DEFAULT", "RUN_ONLY"), ("SKIP", "RUN_ONLY"), ("DEFAULT", "DEFAULT")):
        torch._dynamo.reset()
        strategy = FrameExecStrategy(FrameAction[current] if hasattr(FrameAction, "__getitem__") else
                                     getattr(FrameAction, current), getattr(FrameAction, below))
        torch._dynamo.eval_frame.set_code_exec_strategy(inner.__code__, strategy)
        compiled = t.compile(f)
        results.append((compiled(X), compiled(X), len(t.graphs), seen[-1:], callback_now()))
        torch._dynamo.eval_frame.reset_code(inner.__code__)
    return results


def strategy_for_generator(t):
    from torch._dynamo.types import FrameAction, FrameExecStrategy
    seen = []

    def numbers():
        for n in range(3):
            seen.append(callback_now())
            yield n

    torch._dynamo.eval_frame.set_code_exec_strategy(
        numbers.__code__, FrameExecStrategy(FrameAction.SKIP, FrameAction.SKIP))

    @skip
    def drive():
        for _ in numbers():
            seen.append(callback_now())

    def f(x):
        drive()
        return x + 1
    t.compile(f)(X)
    return seen


def strategy_after_it_ran(t):
    from torch._dynamo.types import FrameAction, FrameExecStrategy

    def inner(x):
        torch._dynamo.graph_break()
        return x * 2

    def f(x):
        torch._dynamo.graph_break()
        return inner(x)
    skip = FrameExecStrategy(FrameAction.SKIP, FrameAction.DEFAULT)
    compiled, counts = t.compile(f), []
    for strategy in (None, skip, None):
        if strategy is None:
            torch._dynamo.eval_frame.reset_code(inner.__code__)
        else:
            torch._dynamo.eval_frame.set_code_exec_strategy(inner.__code__, strategy)
        compiled(X), compiled(X)
        counts.append((len(t.graphs), len(_debug_get_cache_entry_list(inner))))
    return counts


def wrong_arguments(t):
    module = torch._C._dynamo.eval_frame
    return [t.raised(function, *arguments) for function, arguments in (
        (module.set_eval_frame, (3,)), (module.set_eval_frame, (True,)), (module.reset_code, (3,)),
        (module.set_skip_guard_eval_unsafe, (3,)), (module.set_fullgraph_error_on_nested_compile, (None,)),
        (module._debug_get_cache_entry_list, (3,)), (module.set_code_exec_strategy, (3, None)))]


def run_only(t):
    def f(x):
        return x + 1
    first = torch._dynamo.run(f)(X)
    second = t.compile(f)(X)
    third = torch._dynamo.run(f)(X), torch._dynamo.run(f)(X.double())
    return first, second, third


def full_graph(t):
    def inner(x):
        return x + 1

    def f(x):
        return inner(x) * 2
    f = t.compile(f, fullgraph=True)
    return f(X), f(X), f(X.double())


def full_graph_with_break(t):
    def f(x):
        torch._dynamo.graph_break()
        return x + 1
    f = t.compile(f, fullgraph=True)
    return t.raised(f, X), t.raised(f, X)


def full_graph_that_is_skipped(t):
    @skip
    def f(x):
        return x + 1
    return t.raised(t.compile(f, fullgraph=True), X)


def full_graph_calls_user_code(t):
    class Watched(torch.nn.Module):
        def forward(self, x):
            return x * 2

    seen = []

    def backend(module, inputs):
        def run(*arguments):
            seen.append(callback_now())
            return helper(module, *arguments)
        return run

    def helper(module, *arguments):
        return module.forward(*arguments)
    f = t.compile(Watched(), fullgraph=True, backend=backend)
    return f(X), f(X), seen


def full_graph_nested_is_error(t):
    """The compiled code calls a function that would be compiled."""
    seen = []

    def logger(x):
        seen.append(callback_now())
        return x + 1

    def f(x):
        logger(x)
        return x * 2
    results = []
    for on in (True, False):
        for full in (True, False):
            torch._dynamo.reset()
            with torch._dynamo.config.patch(error_on_dynamo_callback_in_fullgraph_compiled_code=on,
                                            reorderable_logging_functions={logger}):
                results.append(t.raised(t.compile(f, fullgraph=full), X))
    return results, seen, len(t.graphs)


def error_on_break_toggled(t):
    def inner(x):
        with torch._dynamo.error_on_graph_break(False):
            torch._dynamo.graph_break()
            return x + 1

    @torch._dynamo.error_on_graph_break(True)
    def strict(x):
        torch._dynamo.graph_break()
        return x

    def f(x):
        return inner(x) * 2

    def g(x):
        return strict(x) * 2
    return t.raised(t.compile(f), X), t.raised(t.compile(g), X)


def compile_calls_compiled(t):
    inner = t.compile(lambda x: x + 1)

    def f(x):
        return inner(x) * 2
    f = t.compile(f)
    return f(X), f(X), inner(X)


def compiled_below_break(t):
    inner = t.compile(lambda x: x + 1, fullgraph=True)

    def f(x):
        torch._dynamo.graph_break()
        return inner(x) * 2
    f = t.compile(f)
    return f(X), f(X)


def compiled_below_disabled(t):
    inner = t.compile(lambda x: x + 1)

    @torch.compiler.disable
    def middle(x):
        return inner(x) * 3

    def f(x):
        return middle(x.sin()) + 1
    f = t.compile(f)
    return f(X), f(X)


def backend_compiles(t):
    """The compiler of one function calls a compiled function itself."""
    helper = t.compile(lambda x: x.sin() + 1, fullgraph=True)
    seen = []

    def backend(module, inputs):
        seen.append(helper(torch.ones(3)))
        return module.forward
    f = t.compile(lambda x: x * 2, backend=backend)
    return f(X), f(X), seen, callback_now()


def backend_compiles_more_each_time(t):
    def backend(module, inputs):
        inner = t.compile(lambda x: x + len(t.graphs))
        inner(torch.ones(2))
        inner(torch.ones(3))
        return module.forward
    f = t.compile(lambda x: x * 2, backend=backend, dynamic=False)
    return f(X), f(torch.ones(2)), len(t.graphs)


def backend_raises(t):
    def backend(module, inputs):
        raise ZeroDivisionError("no luck")
    f = t.compile(lambda x: x * 2, backend=backend)
    error = t.raised(f, X)
    return type(error).__name__, str(error).splitlines()[0], callback_now(), t.compile(lambda x: x + 3)(X)


def backend_raises_and_errors_are_suppressed(t):
    def backend(module, inputs):
        raise ZeroDivisionError("no luck")
    with torch._dynamo.config.patch(suppress_errors=True):
        f = t.compile(lambda x: x * 2, backend=backend)
        return t.raised(f, X), t.raised(f, X)


def backend_uses_random_numbers(t):
    import random
    random.seed(3)
    expected = random.random()
    random.seed(3)

    def backend(module, inputs):
        random.random()
        return module.forward
    t.compile(lambda x: x * 2, backend=backend)(X)
    return random.random() == expected


def forced_eager(t):
    f = t.compile(lambda x: x * 2)
    with torch.compiler.set_stance("force_eager"):
        first = f(X)
    return first, len(t.graphs), f(X), len(t.graphs)


def stance_within(t):
    def f(x):
        torch._dynamo.graph_break()
        torch.compiler.set_stance("force_eager")
        return x + 1
    try:
        return t.raised(t.compile(f), X)
    finally:
        torch.compiler.set_stance("default")


def resets(t):
    def f(x):
        return x + 1
    compiled, counts = t.compile(f), []
    for _ in range(3):
        compiled(X)
        counts.append(len(_debug_get_cache_entry_list(f)))
        torch._dynamo.reset()
        counts.append(len(_debug_get_cache_entry_list(f)))
    return counts, len(t.graphs)


def code_is_replaced(t):
    def f(x):
        return x + 1

    def g(x):
        return x * 5
    compiled = t.compile(f)
    first = compiled(X)
    f.__code__ = g.__code__
    return first, compiled(X)


def explains(t):
    def f(x):
        x = x + 1
        torch._dynamo.graph_break()
        return x * 2
    found = torch._dynamo.explain(f)(X)
    return found.graph_count, found.graph_break_count, found.op_count


def knows_that_it_compiles(t):
    def f(x):
        if torch.compiler.is_compiling():
            return x + 1
        return x - 1
    return t.compile(f)(X), f(X)


def allowed_in_graph(t):
    @torch._dynamo.allow_in_graph
    def opaque(x):
        return x.sin() + 1

    def f(x):
        return opaque(x) * 2
    return t.compile(f)(X)


def nonstrict(t):
    @torch._dynamo.nonstrict_trace
    def opaque(x):
        return x + 1

    def f(x):
        return opaque(x) * 2
    return t.raised(t.compile(f, fullgraph=True), X)


def compile_as_context(t):
    def f(x):
        return x + 1
    with torch._dynamo.config.patch(raise_on_ctx_manager_usage=False), torch._dynamo.optimize(t.backend):
        first = f(X)
    return first, len(t.graphs), f(X)


def guard_hook_is_called(t):
    seen = []
    module = torch._C._dynamo.eval_frame
    before = module.set_guard_complete_hook(lambda hit: seen.append(hit) or hit)
    try:
        f = t.compile(lambda x: x + 1)
        f(X), f(X), f(X.double())
    finally:
        after = module.set_guard_complete_hook(before)
    return before, callable(after), seen


def guard_hook_forces_compilation(t):
    module = torch._C._dynamo.eval_frame
    before = module.set_guard_complete_hook(lambda hit: False)
    try:
        f = t.compile(lambda x: x + 1)
        f(X), f(X), f(X)
    finally:
        module.set_guard_complete_hook(before)
    return len(t.graphs)
