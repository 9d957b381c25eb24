"""Memory stays as it is over many calls, compilations and resets."""

import unittest

from support import WAYS, run_script

SCRIPT = """
import gc, json, resource, torch, torch._dynamo
config = torch._dynamo.config
limits = ("recompile_limit", "accumulated_recompile_limit")
if not hasattr(config, limits[0]):      # as torch 2.6 calls them
    limits = ("cache_size_limit", "accumulated_cache_size_limit")
setattr(config, limits[0], 1000)
setattr(config, limits[1], 10**6)

def backend(module, inputs):
    return module.forward

def resident():
    gc.collect()
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * resource.getpagesize()

def grown(work, count):
    work(max(count // 4, 1))
    before = resident()
    work(count)
    return resident() - before

x = torch.ones(4)

def calls(count):
    f = torch.compile(lambda x: x * 2 + 1, backend=backend)
    for _ in range(count):
        f(x)
    torch._dynamo.reset()

def compilations(count):
    for start in range(0, count, 25):
        f = torch.compile(lambda x, kind: x + len(kind), backend=backend)
        for n in range(min(25, count)):
            f(x, "a" * n)
        torch._dynamo.reset()

def function(x):
    torch._dynamo.graph_break()
    return x + 1

def resets(count):
    for _ in range(count):
        torch.compile(function, backend=backend)(x)
        torch._dynamo.reset()

print(json.dumps([grown(calls, 1000), grown(compilations, 500), grown(resets, 200)]))
"""


class Memory(unittest.TestCase):
    def test_it_grows_no_more_than_with_the_evaluator(self):
        grown = {way: run_script(way, SCRIPT) for way in WAYS}
        for work, evaluator, hooks in zip(("calls", "compilations", "resets"), *grown.values(), strict=True):
            print(f"{work}: {evaluator >> 10} KiB with the evaluator, {hooks >> 10} KiB with hooks")
            with self.subTest(work=work):
                self.assertLess(hooks, max(evaluator, 0) + (4 << 20))
