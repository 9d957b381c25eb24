"""Dynamic shapes, recompilations and their limit."""

import torch
import torch._dynamo
import torch._dynamo.config

X = torch.arange(4.0)


def sizes(*counts):
    return [torch.arange(float(count)) for count in counts]


def automatic(t):
    def f(x):
        return x * x.shape[0] + 1
    f = t.compile(f)
    return [f(x) for x in sizes(3, 4, 5, 6, 7)]


def dynamic_from_the_start(t):
    def f(x):
        return x.reshape(-1, 2) * x.shape[0]
    f = t.compile(f, dynamic=True)
    return [f(x) for x in sizes(4, 6, 8)]


def never_dynamic(t):
    def f(x):
        return x + 1
    f = t.compile(f, dynamic=False)
    return [f(x) for x in sizes(2, 3, 4, 3)]


def marked(t):
    def f(x):
        return x.sum() * x.shape[0]
    f = t.compile(f)
    x, y = sizes(3, 5)
    torch._dynamo.mark_dynamic(x, 0)
    return f(x), f(y)


def marked_static(t):
    def f(x):
        return x + x.shape[0]
    f = t.compile(f, dynamic=True)
    x, y = sizes(3, 5)
    torch._dynamo.mark_static(x, 0)
    return f(x), f(y)


def marked_and_specialized(t):
    def f(x):
        return x + 1 if x.shape[0] == 3 else x - 1
    x = torch.ones(3)
    torch._dynamo.mark_dynamic(x, 0)
    return t.raised(t.compile(f), x)


def zero_and_one(t):
    def f(x):
        return x * 2 + x.shape[0]
    f = t.compile(f)
    return [f(x) for x in sizes(0, 1, 2, 3)]


def branch_on_shape(t):
    def f(x):
        return x + 1 if x.shape[0] > 4 else x - 1
    f = t.compile(f)
    return [f(x) for x in sizes(3, 4, 5, 6, 2)]


def two_dimensions(t):
    def f(x, y):
        return x @ y
    f = t.compile(f)
    return [f(torch.ones(2, n), torch.ones(n, m)) for n, m in ((3, 4), (4, 5), (5, 6))]


def whole_numbers(t):
    def f(x, n):
        return x * n
    f = t.compile(f)
    return [f(X, n) for n in (1, 2, 3, 4, 5)]


def floats(t):
    def f(x, n):
        return x * n
    f = t.compile(f)
    return [f(X, n) for n in (1.5, 2.5, 3.5)]


def strings(t):
    def f(x, kind):
        return x + len(kind)
    f = t.compile(f)
    return [f(X, kind) for kind in ("a", "bb", "a")]


def flags(t):
    def f(x, flag):
        return x + 1 if flag else x - 1
    f = t.compile(f)
    return [f(X, flag) for flag in (True, False, True, None)]


def kinds(t):
    def f(x):
        return x + x
    f = t.compile(f)
    return [f(x) for x in (X, X.int(), X.double(), X.bool(), X)]


def lists_of_lengths(t):
    def f(items):
        return sum(items)
    f = t.compile(f)
    return [f([X] * n) for n in (1, 2, 3, 2)]


def keys(t):
    def f(items):
        return sum(items.values())
    f = t.compile(f)
    return f({"a": X}), f({"b": X}), f({"a": X, "b": X})


def strides(t):
    def f(x):
        return x + 1
    f = t.compile(f)
    x = torch.arange(6.0).reshape(2, 3)
    return f(x), f(x.t()), f(x[:, ::2])


def gradient_or_not(t):
    def f(x):
        return x * 2
    f = t.compile(f)
    return f(X), f(X.clone().requires_grad_())


def the_limit(t):
    def f(x, kind):
        return x + len(kind)
    f = t.compile(f)
    with torch._dynamo.config.patch(recompile_limit=3):
        return [f(X, "x" * n) for n in range(6)], [f(X, "x" * n) for n in range(6)]


def the_limit_is_an_error(t):
    def f(x, kind):
        return x + len(kind)
    f = t.compile(f)
    with torch._dynamo.config.patch(recompile_limit=2, fail_on_recompile_limit_hit=True):
        return [t.raised(f, X, "x" * n) for n in range(4)]


def the_limit_of_a_full_graph(t):
    def f(x, kind):
        return x + len(kind)
    f = t.compile(f, fullgraph=True)
    with torch._dynamo.config.patch(recompile_limit=2):
        return [t.raised(f, X, "x" * n) for n in range(4)]


def the_accumulated_limit(t):
    def f(x, kind):
        return x + len(kind)
    f = t.compile(f)
    with torch._dynamo.config.patch(recompile_limit=8, accumulated_recompile_limit=3):
        return [f(X, "x" * n) for n in range(6)]


def the_limit_below_it(t):
    def inner(x, kind):
        torch._dynamo.graph_break()
        return x * len(kind)

    def f(x, kind):
        torch._dynamo.graph_break()
        return inner(x + len(kind), kind)
    f = t.compile(f)
    with torch._dynamo.config.patch(recompile_limit=2):
        return [f(X, "x" * n) for n in range(5)]


def recompiling_is_an_error(t):
    def f(x):
        return x + 1
    f = t.compile(f, dynamic=False)
    with torch._dynamo.config.patch(error_on_recompile=True):
        return [t.raised(f, x) for x in sizes(3, 3, 4)]


def isolated(t):
    def f(x, kind):
        return x + len(kind)
    one = t.compile(f, isolate_recompiles=True)
    two = t.compile(f, isolate_recompiles=True)
    with torch._dynamo.config.patch(recompile_limit=2):
        first = [one(X, "x" * n) for n in range(4)]
        second = [two(X, "x" * n) for n in range(4)]
    regions = [len(torch._dynamo.eval_frame._get_cache_entries_for_region(f, it._isolate_recompiles_id))
               for it in (one, two)]
    return first, second, regions, torch._dynamo.eval_frame._get_total_cache_entry_count(f)


def isolated_and_not(t):
    def f(x):
        torch._dynamo.graph_break()
        return x.cos()
    plain, alone = t.compile(f), t.compile(f, isolate_recompiles=True)
    return plain(X), alone(X), alone(X.double()), plain(X.double())


def other_backend(t):
    def f(x):
        return x + 1
    def other(module, inputs):
        t.graphs.append(["other"])
        return module.forward
    one, two = t.compile(f), t.compile(f, backend=other)
    return one(X), two(X), one(X), two(X)


def stance_eager_on_recompile(t):
    def f(x):
        return x + 1
    f = t.compile(f, dynamic=False)
    first = f(X)
    with torch.compiler.set_stance("eager_on_recompile"):
        second = f(torch.ones(5))
    return first, second, f(torch.ones(5))


def stance_fail_on_recompile(t):
    def f(x):
        return x + 1
    f = t.compile(f, dynamic=False)
    first = f(X)
    with torch.compiler.set_stance("fail_on_recompile"):
        return first, f(X), t.raised(f, torch.ones(5))


def stance_eager_then_compile(t):
    def f(x):
        return x + x.shape[0]
    f = t.compile(f)
    with torch.compiler.set_stance("eager_then_compile"):
        return [f(x) for x in sizes(3, 4, 5)]


def stance_skips_guards(t):
    def f(x, n):
        return x + n
    f = t.compile(f, dynamic=False)
    first = f(X, 1), f(X, 2)
    with torch.compiler.set_stance("default", skip_guard_eval_unsafe=True):
        return first, f(X, 1), f(X, 2), t.raised(f, X, 3)


def stance_skips_guards_where_there_are_none(t):
    f = t.compile(lambda x: x + 1, options={"guard_filter_fn": torch.compiler.skip_all_guards_unsafe},
                  backend="eager")
    first = f(X)
    with torch.compiler.set_stance("default", skip_guard_eval_unsafe=True):
        return first, f(torch.ones(2, 2))


def entries_in_order(t):
    def f(x, kind):
        return x + len(kind)
    compiled = t.compile(f)
    for n in (1, 2, 3, 1):
        compiled(X, "x" * n)
    entries = torch._dynamo.eval_frame._debug_get_cache_entry_list(f)
    return [str(entry.compile_id) for entry in entries], [entry.trace_annotation for entry in entries]


def entries_without_order(t):
    def f(x, kind):
        return x + len(kind)
    compiled = t.compile(f)
    before = torch._C._dynamo.eval_frame._set_lru_cache(False)
    try:
        for n in (1, 2, 3, 1):
            compiled(X, "x" * n)
        entries = torch._dynamo.eval_frame._debug_get_cache_entry_list(f)
        return before, [str(entry.compile_id) for entry in entries]
    finally:
        torch._C._dynamo.eval_frame._set_lru_cache(before)


def guarded_object_dies(t):
    class Thing:
        def __init__(self, n):
            self.n = n

    def f(x, thing):
        return x * thing.n
    compiled = t.compile(f)
    results = [compiled(X, Thing(n)) for n in (2, 2, 3)]
    entries = torch._dynamo.eval_frame._debug_get_cache_entry_list(f)
    return results, len(entries), [entry.code is None for entry in entries]


def guarded_module_dies(t):
    def f(x, module):
        return module(x)
    compiled = t.compile(f)
    results = []
    for n in range(3):
        module = torch.nn.Linear(4, 2, bias=False)
        torch.nn.init.constant_(module.weight, n)
        results.append(compiled(X, module))
        del module
    entries = torch._dynamo.eval_frame._debug_get_cache_entry_list(f)
    return results, [entry.code is None for entry in entries]


def guard_raises(t):
    class Moody:
        raises = False

        @property
        def n(self):
            if Moody.raises:
                raise ValueError("not today")
            return 2

    moody = Moody()

    def f(x):
        return x * moody.n
    f = t.compile(f)
    first = f(X)
    Moody.raises = True
    second = t.raised(f, X), torch._C._dynamo.eval_frame.get_eval_frame_callback()
    Moody.raises = False
    return first, second, f(X), len(t.graphs)


def filtered_guards(t):
    scale = {"n": 2}

    def f(x):
        return x * scale["n"]
    f = t.compile(f, options={"guard_filter_fn": lambda guards: [False] * len(guards)})
    first = t.raised(f, X)
    scale["n"] = 5
    return first, t.raised(f, X)
