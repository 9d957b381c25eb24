# needs: python3-torch g++
# seconds: 1200
"""torch.compile over a graph break, a closure, a generator and a loop: the results, and how many graphs there are."""
import torch
import torch._dynamo

graphs = []


def backend(module, inputs):
    graphs.append(len(list(module.graph.nodes)))
    return module.forward


def broken(x):
    y = x.sin()
    print("a break", end=" ")
    return y.cos()


def closure(scale):
    return lambda x: (x * scale).relu()


def generated(x):
    return sum(x * i for i in (j for j in range(3)))


def looped(x):
    for i in range(4):
        x = x + i
    return x


x = torch.arange(6.0).reshape(2, 3)
for function in (broken, closure(3), generated, looped):
    torch._dynamo.reset()
    graphs.clear()
    compiled = torch.compile(function, backend=backend)
    print(torch.equal(compiled(x), function(x)), compiled(x).sum().item(), graphs)
