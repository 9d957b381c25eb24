"""Gradients, and the modes of torch."""

import torch
import torch._dynamo
from torch import nn
from torch.utils.checkpoint import checkpoint

X = torch.arange(1.0, 5.0)


def leaf():
    return X.clone().requires_grad_()


def backward(t):
    f, x = t.compile(lambda x: (x * x).sum()), leaf()
    f(x).backward()
    return x.grad


def backward_after_break(t):
    def f(x):
        y = x * 2
        torch._dynamo.graph_break()
        return (y * x).sum()
    f, x = t.compile(f), leaf()
    f(x).backward()
    f(x).backward()
    return x.grad


def backward_within(t):
    def f(x):
        (x * x).sum().backward()
        return x.grad
    return t.raised(t.compile(f), leaf())


def gradient_within(t):
    def f(x):
        return torch.autograd.grad((x * x * x).sum(), x)[0]
    return t.raised(t.compile(f), leaf())


def second_gradient(t):
    f, x = t.compile(lambda x: (x ** 3).sum()), leaf()
    first, = torch.autograd.grad(f(x), x, create_graph=True)
    return torch.autograd.grad(first.sum(), x)[0]


def aot_eager(t):
    f, x = torch.compile(lambda x: (x.sin() * 2).sum(), backend="aot_eager"), leaf()
    f(x).backward()
    return x.grad, torch._dynamo.eval_frame._get_total_cache_entry_count(f._torchdynamo_orig_callable)


def no_grad_around(t):
    f, x = t.compile(lambda x: x * 2), leaf()
    with torch.no_grad():
        first = f(x)
    return first, f(x)


def no_grad_as_decorator(t):
    @t.compile
    @torch.no_grad()
    def f(x):
        return x * 2
    return f(leaf())


def no_grad_within(t):
    def f(x):
        with torch.no_grad():
            y = x * 2
        return y + x
    return t.compile(f)(leaf())


def mode_left_by_a_break(t):
    def f(x):
        torch.set_grad_enabled(False)
        y = x * 2
        torch._dynamo.graph_break()
        torch.set_grad_enabled(True)
        return y + x
    return t.compile(f)(leaf()), torch.is_grad_enabled()


def inference_mode(t):
    f = t.compile(lambda x: x * 2)
    with torch.inference_mode():
        first = f(X)
    return first, f(X), first.is_inference()


def autocast(t):
    def f(x):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            return x @ x
    return t.compile(f)(torch.ones(2, 2)).dtype


def autocast_around(t):
    f = t.compile(lambda x: x @ x)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        first = f(torch.ones(2, 2))
    return first.dtype, f(torch.ones(2, 2)).dtype


def own_function(t):
    class Double(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * 2

        @staticmethod
        def backward(ctx, grad):
            return grad * 3
    f, x = t.compile(lambda x: Double.apply(x).sum()), leaf()
    f(x).backward()
    return x.grad


def tensor_hooks(t):
    def f(x):
        y = x * 2
        y.register_hook(lambda grad: grad * 5)
        return y.sum()
    f, x = t.compile(f), leaf()
    result = t.raised(f, x)
    if isinstance(result, torch.Tensor):
        result.backward()
    return x.grad


def detaches(t):
    f, x = t.compile(lambda x: (x.detach() * x).sum()), leaf()
    f(x).backward()
    return x.grad


def requires_grad_within(t):
    def f(x):
        y = x.clone().requires_grad_()
        return y * 2
    return t.raised(t.compile(f), X)


def checkpointed(t):
    def block(x):
        return torch.sin(x) * x

    def f(x):
        return checkpoint(block, x, use_reentrant=False).sum()
    f, x = t.compile(f), leaf()
    f(x).backward()
    return x.grad


def optimizer_step(t):
    net = nn.Linear(4, 1)
    nn.init.constant_(net.weight, 0.5)
    nn.init.constant_(net.bias, 0.0)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)

    @t.compile
    def step(x):
        optimizer.zero_grad()
        loss = net(x).pow(2).sum()
        loss.backward()
        optimizer.step()
        return loss.detach()
    return [step(X) for _ in range(3)], net.weight


def compiled_optimizer(t):
    weight = nn.Parameter(torch.ones(3))
    optimizer = torch.optim.Adam([weight], lr=0.1)
    step = t.compile(optimizer.step)
    for _ in range(3):
        weight.grad = torch.ones(3)
        step()
    return weight


def training_loop(t):
    net = nn.Sequential(nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 1))
    for parameter in net.parameters():
        nn.init.constant_(parameter, 0.3)
    compiled = t.compile(net)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.05)
    losses = []
    for _ in range(4):
        loss = compiled(X).pow(2).sum()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())
    return losses


def function_transforms(t):
    def f(x):
        return torch.func.vmap(torch.func.grad(lambda y: (y * y).sum()))(x.reshape(2, 2))
    return t.raised(t.compile(f), X)


def compiled_under_vmap(t):
    f = t.compile(lambda x: x * 2 + 1)
    return t.raised(torch.vmap(f), X)


def jacobian(t):
    def f(x):
        return torch.func.jacrev(lambda y: y * y)(x)
    return t.raised(t.compile(f), X)


def dispatch_mode(t):
    class Counts(torch.utils._python_dispatch.TorchDispatchMode):
        count = 0

        def __torch_dispatch__(self, function, types, arguments=(), keywords=None):
            Counts.count += 1
            return function(*arguments, **(keywords or {}))
    f = t.compile(lambda x: x * 2 + 1)
    with Counts():
        first = f(X)
    return first, Counts.count, f(X), len(t.graphs)


def function_mode(t):
    class Doubles(torch.overrides.TorchFunctionMode):
        def __torch_function__(self, function, types, arguments=(), keywords=None):
            result = function(*arguments, **(keywords or {}))
            return result * 2 if function is torch.add else result

    def f(x):
        return torch.add(x, 1)
    f = t.compile(f)
    with Doubles():
        first = f(X)
    return first, f(X)


def tensor_subclass(t):
    class Tagged(torch.Tensor):
        @classmethod
        def __torch_function__(cls, function, types, arguments=(), keywords=None):
            return super().__torch_function__(function, types, arguments, keywords or {})
    return t.raised(t.compile(lambda x: x * 2), X.as_subclass(Tagged))


def random_numbers(t):
    def f(x):
        return x + torch.rand(4)
    f = t.compile(f)
    torch.manual_seed(7)
    first = f(X)
    torch.manual_seed(7)
    return first, X + torch.rand(4)


def deterministic_flag(t):
    f = t.compile(lambda x: x * 2)
    first = f(X)
    torch.use_deterministic_algorithms(True)
    try:
        return first, f(X), len(t.graphs)
    finally:
        torch.use_deterministic_algorithms(False)
