"""Threads, tasks, tracers, the collector, export and inductor."""

import asyncio
import contextvars
import gc
import queue
import sys
import threading
import time
import weakref

import torch
import torch._dynamo
from torch import nn

X = torch.arange(4.0)


def callback_now():
    callback = torch._C._dynamo.eval_frame.get_eval_frame_callback()
    return callback if callback is None or callback is False else "on"


def in_threads(work, count=3):
    """What each of some threads gives, one after the other."""
    results = []
    for number in range(count):
        thread = threading.Thread(target=lambda number=number: results.append(work(number)))
        thread.start()
        thread.join()
    return results


def compiled_in_threads(t):
    f = t.compile(lambda x: x + 1)
    return in_threads(lambda number: f(X + number)), f(X), len(t.graphs)


def each_compiles_its_own(t):
    return in_threads(lambda number: t.compile(lambda x: x * number)(X))


def at_the_same_time(t):
    f = t.compile(lambda x: x.sin() + 1)
    expected, wrong = X.sin() + 1, []

    def work():
        for _ in range(30):
            if not torch.equal(f(X), expected):
                wrong.append(1)
    f(X)
    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return wrong, len(t.graphs)


def callback_of_other_threads(t):
    seen = []

    def f(x):
        torch._dynamo.graph_break()
        seen.extend(in_threads(lambda number: callback_now(), 1))
        return x + 1
    return t.compile(f)(X), seen, callback_now()


def thread_runs_on_meanwhile(t):
    """Its functions are none of the compiler's business."""
    stop, calls = threading.Event(), []

    def small(n):
        return n + 1

    def work():
        while not stop.is_set():
            calls.append(small(1))
            time.sleep(0.001)
    thread = threading.Thread(target=work)
    thread.start()
    f = t.compile(lambda x: x * 3)
    result = f(X)
    stop.set()
    thread.join()
    return result, set(calls)


def worker_with_queue(t):
    todo, done = queue.Queue(), queue.Queue()
    f = t.compile(lambda x: x * 2)

    def work():
        while (item := todo.get()) is not None:
            done.put(f(item))
    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    for n in range(3):
        todo.put(X + n)
    todo.put(None)
    thread.join()
    return [done.get() for _ in range(3)]


def tasks(t):
    f = t.compile(lambda x: x + 1)

    async def work(n):
        await asyncio.sleep(0)
        return f(X + n)

    async def main():
        return await asyncio.gather(*(work(n) for n in range(3)))
    return asyncio.run(main()), callback_now()


def compiled_coroutine_function(t):
    @t.compile
    async def work(x):
        await asyncio.sleep(0)
        return x + 1
    return t.raised(asyncio.run, work(X))


def context_variables(t):
    variable = contextvars.ContextVar("variable", default=2)

    def f(x):
        return x * variable.get()
    f = t.compile(f)
    first = t.raised(f, X)
    variable.set(5)
    return first, t.raised(f, X)


def collector_runs(t):
    def f(x):
        torch._dynamo.graph_break()
        gc.collect()
        return x + 1
    f = t.compile(f)
    return f(X), f(X)


def function_dies(t):
    def make():
        def f(x):
            return x + 1
        return f
    f = make()
    reference = weakref.ref(f)
    result = t.compile(f)(X)
    torch._dynamo.reset()
    del f
    gc.collect()
    return result, reference() is None


def code_dies(t):
    died = []

    def make(n):
        names = {}
        exec(f"def f(x):\n    return x + {n}", names)
        weakref.finalize(names["f"].__code__, died.append, n)
        return names["f"]
    results = [t.compile(make(n))(X) for n in range(3)]
    torch._dynamo.reset()
    gc.collect()
    return results, sorted(died)


def destructor_within(t):
    class Thing:
        def __del__(self):
            dropped.append(callback_now())
    dropped = []

    def f(x):
        thing = Thing()
        torch._dynamo.graph_break()
        del thing
        return x + 1
    return t.compile(f)(X), dropped


def traced(t):
    names = []

    def tracer(frame, event, argument):
        if frame.f_code.co_filename == __file__:
            names.append(frame.f_code.co_name)
    f = t.compile(lambda x: x + 1)
    f(X)
    sys.settrace(tracer)
    try:
        second = f(X)
    finally:
        sys.settrace(None)
    return second, names


def traced_from_the_start(t):
    names = set()

    def tracer(frame, event, argument):
        if frame.f_code.co_filename == __file__ and event == "call":
            names.add(frame.f_code.co_name)
    f = t.compile(lambda x: x + 1)
    sys.settrace(tracer)
    try:
        result = f(X)
    finally:
        sys.settrace(None)
    return result, len(t.graphs), sorted(names)


def profiled(t):
    calls = []

    def profiler(frame, event, argument):
        if frame.f_code.co_filename == __file__ and event in ("call", "return"):
            calls.append((frame.f_code.co_name, event))

    def inner(x):
        torch._dynamo.graph_break()
        return x + 1

    def f(x):
        torch._dynamo.graph_break()
        return inner(x)
    f = t.compile(f)
    f(X)
    sys.setprofile(profiler)
    try:
        f(X)
    finally:
        sys.setprofile(None)
    return calls


def monitored(t):
    seen, monitoring = [], sys.monitoring
    f = t.compile(lambda x: x + 1)
    f(X)
    monitoring.use_tool_id(4, "programs")
    monitoring.register_callback(4, monitoring.events.PY_START, lambda code, offset: seen.append(
        code.co_name) if code.co_filename == __file__ else None)
    monitoring.set_events(4, monitoring.events.PY_START)
    try:
        f(X)
    finally:
        monitoring.set_events(4, 0)
        monitoring.free_tool_id(4)
    return seen


def traceback_of_compiled_code(t):
    def inner(x):
        torch._dynamo.graph_break()
        raise ValueError("deep")

    def f(x):
        torch._dynamo.graph_break()
        return inner(x)
    error, names = t.raised(t.compile(f), X), []
    traceback = error.__traceback__
    while traceback:
        name = traceback.tb_frame.f_code.co_name
        names.append(name.rpartition("_at_")[0] or name)
        traceback = traceback.tb_next
    return error, names


def stack_below_compiled_code(t):
    names = []

    @torch.compiler.disable
    def look():
        frame = sys._getframe(1)
        while frame:
            if frame.f_code.co_filename == __file__:
                names.append(frame.f_code.co_name)
            frame = frame.f_back

    def f(x):
        look()
        return x + 1
    f = t.compile(f)
    f(X), f(X)
    return names


def deep_recursion(t):
    def f(x, n):
        torch._dynamo.graph_break()
        return x if n == 0 else f(x + 1, n - 1)
    f = t.compile(f)
    return f(X, 5)


def profiler_of_torch(t):
    f = t.compile(lambda x: x + 1)
    f(X)
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as found:
        f(X)
    return sorted({event.name for event in found.events() if "TorchDynamo" in event.name
                   or "Compiled" in event.name})


def exported(t):
    class Net(nn.Module):
        def forward(self, x, n: int):
            return x * n + 1
    program = torch.export.export(Net(), (X, 2))
    return program.module()(X, 2), [node.op for node in program.graph.nodes]


def exported_strictly(t):
    class Net(nn.Module):
        def forward(self, x):
            return torch.relu(x) + x.shape[0]
    size = torch.export.Dim("size", min=2)
    program = torch.export.export(Net(), (X,), dynamic_shapes={"x": {0: size}}, strict=True)
    return program.module()(torch.ones(6)), [str(node.target) for node in program.graph.nodes]


def export_that_fails(t):
    class Net(nn.Module):
        def forward(self, x):
            return x + 1 if x.sum() > 0 else x - 1
    error = t.raised(torch.export.export, Net(), (X,), strict=True)
    return type(error).__name__


def dynamo_export(t):
    def f(x):
        return x.cos() + 1
    found = torch._dynamo.export(f)(X)
    return found.graph_module(X), [str(node.target) for node in found.graph_module.graph.nodes]


def conditional(t):
    def f(x):
        return torch.cond(x.sum() > 3, lambda y: y + 1, lambda y: y - 1, (x,))
    f = t.compile(f, fullgraph=True)
    return f(X), f(-X)


def conditional_in_eager(t):
    return torch.cond(X.sum() > 3, lambda y: y + 1, lambda y: y - 1, (X,))


def while_loop(t):
    def f(x):
        return torch._higher_order_ops.while_loop(lambda n, y: n < 3, lambda n, y: (n + 1, y * 2),
                                                  (torch.tensor(0), x))
    return t.raised(t.compile(f, fullgraph=True), X)


def inductor(t):
    f = torch.compile(lambda x, y: (x.sin() + y).sum(dim=0))
    return f(torch.ones(3, 4), X), f(torch.ones(3, 4), X)


def inductor_with_gradient(t):
    net = nn.Linear(4, 2)
    nn.init.constant_(net.weight, 0.5)
    nn.init.constant_(net.bias, 0.0)
    loss = torch.compile(net)(X).pow(2).sum()
    loss.backward()
    return loss, net.weight.grad


def inductor_with_break(t):
    def f(x):
        y = x * 2
        torch._dynamo.graph_break()
        return (y + 1).relu()
    f = torch.compile(f)
    return f(X), f(X)


def flexible_attention(t):
    from torch.nn.attention.flex_attention import flex_attention
    x = torch.ones(1, 1, 4, 8)
    return flex_attention(x, x, x).sum()
