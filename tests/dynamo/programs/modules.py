"""torch.nn modules."""

import torch
import torch._dynamo
from torch import nn

X = torch.arange(8.0).reshape(2, 4)


def made(module, value=0.5):
    """With parameters that do not depend on random numbers."""
    for parameter in module.parameters():
        nn.init.constant_(parameter, value)
    return module


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.one, self.two = nn.Linear(4, 3), nn.Linear(3, 2)
        self.register_buffer("seen", torch.zeros(()))
        self.calls = 0

    def forward(self, x):
        self.calls += 1
        return self.two(torch.relu(self.one(x)))


def linear(t):
    return t.compile(made(nn.Linear(4, 2)))(X)


def network(t):
    net = made(Net())
    compiled = t.compile(net)
    return compiled(X), compiled(X), net.calls, type(compiled).__name__


def compiled_in_place(t):
    net = made(Net())
    net.compile(backend=t.backend)
    return net(X), net(X + 1)


def compiled_part(t):
    net = made(Net())
    net.two = t.compile(net.two)
    return net(X), sorted(net.state_dict())


def compiled_forward(t):
    net = made(Net())
    net.forward = t.compile(net.forward)
    return net(X), net(X)


def with_break(t):
    class Broken(Net):
        def forward(self, x):
            x = self.one(x)
            torch._dynamo.graph_break()
            return self.two(x)
    compiled = t.compile(made(Broken()))
    return compiled(X), compiled(X)


def buffer_changes(t):
    class Counts(Net):
        def forward(self, x):
            self.seen += 1
            return x + self.seen
    net = Counts()
    compiled = t.compile(net)
    return compiled(X), compiled(X), net.seen


def training_flag(t):
    net = made(nn.Sequential(nn.Linear(4, 2), nn.Dropout(0.0)))
    compiled = t.compile(net)
    first = compiled(X)
    net.eval()
    return first, compiled(X), compiled.training


def sequential_and_list(t):
    class Many(nn.Module):
        def __init__(self):
            super().__init__()
            self.items = nn.ModuleList([nn.Linear(4, 4) for _ in range(3)])
            self.named = nn.ModuleDict({"a": nn.ReLU(), "b": nn.Tanh()})

        def forward(self, x, name):
            for item in self.items:
                x = item(x)
            return self.named[name](x)
    compiled = t.compile(made(Many(), 0.25))
    return compiled(X, "a"), compiled(X, "b")


def forward_hooks(t):
    net, seen = made(nn.Linear(4, 2)), []
    net.register_forward_pre_hook(lambda module, arguments: (arguments[0] + 1,))
    net.register_forward_hook(lambda module, arguments, output: output * 2)
    compiled = t.compile(net)
    first = compiled(X)
    net.register_forward_hook(lambda module, arguments, output: seen.append(1))
    return first, compiled(X), len(seen)


def parameter_replaced(t):
    net = made(nn.Linear(4, 2))
    compiled = t.compile(net)
    first = compiled(X)
    net.weight = nn.Parameter(torch.ones(2, 4))
    return first, compiled(X)


def two_of_one_class(t):
    one, two = made(nn.Linear(4, 2)), made(nn.Linear(4, 2), 0.25)
    one, two = t.compile(one), t.compile(two)
    return one(X), two(X), one(X)


def attribute_of_module(t):
    class Scales(nn.Module):
        factor = 2

        def forward(self, x):
            return x * self.factor
    net = Scales()
    compiled = t.compile(net)
    first = compiled(X)
    net.factor = 3
    return first, compiled(X)


def method_other_than_forward(t):
    class Encoder(nn.Linear):
        def encode(self, x):
            return self(x) + 1
    net = made(Encoder(4, 2))
    return t.compile(net.encode)(X), t.compile(net.encode)(X)


def lazy_module(t):
    class Lazy(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = nn.LazyLinear(2)

        def forward(self, x):
            return self.inner(x)
    return t.compile(Lazy())(X).shape


def batch_norm(t):
    net = nn.BatchNorm1d(4)
    compiled = t.compile(net)
    compiled(X)
    net.eval()
    return compiled(X), net.running_mean


def embedding(t):
    net = made(nn.Embedding(5, 3))
    return t.compile(net)(torch.tensor([0, 3, 4]))


def recurrent(t):
    return t.raised(t.compile(made(nn.GRUCell(4, 3), 0.1)), X)


def attention(t):
    net = made(nn.MultiheadAttention(4, 2, batch_first=True), 0.1).eval()
    x = X.unsqueeze(0)
    return t.compile(net)(x, x, x)[0]


def convolution(t):
    net = made(nn.Sequential(nn.Conv1d(1, 2, 3), nn.ReLU(), nn.Flatten()))
    return t.compile(net)(X.unsqueeze(1))


def parametrized(t):
    class Doubles(nn.Module):
        def forward(self, weight):
            return weight * 2
    net = made(nn.Linear(4, 2))
    nn.utils.parametrize.register_parametrization(net, "weight", Doubles())
    return t.compile(net)(X)


def saved_and_loaded(t):
    net = made(Net())
    compiled = t.compile(net)
    first = compiled(X)
    other = Net()
    other.load_state_dict(compiled._orig_mod.state_dict())
    return first, t.compile(other)(X)


def functional_call(t):
    net = made(nn.Linear(4, 2))

    def f(weights, x):
        return torch.func.functional_call(net, weights, (x,))
    weights = {"weight": torch.ones(2, 4), "bias": torch.zeros(2)}
    return t.compile(f)(weights, X)


def of_a_class_decorator(t):
    @t.compile
    class Compiled(nn.Module):
        def forward(self, x):
            return x * 2
    return Compiled()(X)


def super_forward(t):
    class Wider(Net):
        def forward(self, x):
            return super().forward(x) + 1
    return t.compile(made(Wider()))(X)
