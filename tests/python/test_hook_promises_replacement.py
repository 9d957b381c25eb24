"""Frame hooks, promises 5 to 8: what code that runs in place of other code keeps and gets."""

import builtins
import gc
import sys
import weakref

from hook_promises import MANY
from support import WARM, CApi, HookTestCase, PythonApi, Thing, code_named, framecore, in_new_thread, needs_hooks, recursion_limit


class ReplacementPoints:
    """Promises 5 to 8."""

    # 5. The replacement keeps what belongs to the function.

    def test_05_the_function_stays_the_same(self):
        source = """
def make():
    captured = ["closure"]
    def target(a, b="default", *, c="keyword default"):
        {body}
    return target
"""
        own_builtins = {**vars(builtins), "len": lambda x: "own builtin"}
        namespace = {"marker": "global", "__builtins__": own_builtins, "sys": sys}
        exec(source.format(body="return captured"), namespace)
        target = namespace["make"]()
        target.note = "in the dictionary"
        target.__qualname__ = "a.qualified.name"
        old = target.__code__
        body = "return a, b, c, captured, marker, len('xx'), sys._getframe().f_code.co_filename"
        new = code_named("target", source.format(body=body), "<new>")
        self.add(self.replacer((target, new)))
        self.assertEqual(
            target(1),
            (1, "default", "keyword default", ["closure"], "global", "own builtin", "<new>"))
        self.assertEqual(target(1, 2, c=3)[:3], (1, 2, 3))
        self.assertIs(target.__code__, old)
        self.assertEqual((target.note, target.__qualname__),
                         ("in the dictionary", "a.qualified.name"))

    def test_05_a_generator_keeps_the_name_of_its_function(self):
        def target(n):
            yield n
        target.__qualname__ = "a.qualified.name"
        target.__name__ = "name"
        new = code_named("target", "def target(n):\n yield 'new'\n yield n", "<new>")
        self.add(self.replacer((target, new)))
        generator = target(7)
        self.assertEqual((generator.__name__, generator.__qualname__), ("name", "a.qualified.name"))
        self.assertIs(generator.gi_code, new)
        self.assertIs(generator.gi_frame.f_code, new)
        self.assertEqual(list(generator), ["new", 7])

    def test_05_the_frame_is_that_of_the_replacement(self):
        def target():
            pass

        new = code_named("target",
                         "import sys\ndef target():\n\n\n local = 5\n return sys._getframe()",
                         "<new>")
        self.add(self.replacer((target, new)))
        target.__globals__.setdefault("sys", sys)
        frame = target()
        self.assertIs(frame.f_code, new)
        self.assertEqual((frame.f_lineno, frame.f_locals), (6, {"local": 5}))
        self.assertIs(frame.f_globals, target.__globals__)
        self.assertIs(frame.f_back, sys._getframe())

    # 6. More locals, other cells, another stack size; arguments are mapped by name and kind.

    MAPPED = {
        # (original, replacement, arguments, keyword arguments)
        "more locals": ("def t(a, b): return a, b", f"def t(a, b):\n {MANY} = b\n return a, v499",
                        (1, 2), {}),
        "fewer locals": (f"def t(a, b):\n {MANY} = b\n return a, v499", "def t(a, b): return a, b",
                         (1, 2), {}),
        "another order": ("def t(a, b, c): return a, b, c", "def t(c, a, b): return a, b, c",
                          (1, 2, 3), {}),
        "another order, positional-only": ("def t(a, b, /, c, d): return a, b, c, d",
                                           "def t(b, a, /, d, c): return a, b, c, d",
                                           (1, 2, 3, 4), {}),
        # Which parameters a call may name matters to the call alone, and that is over by now.
        "positional-only ones": ("def t(a, b): return a, b", "def t(b, /, a): return a, b", (1,),
                                 {"b": 2}),
        "no positional-only ones": ("def t(a, /, b): return a, b", "def t(a, b): return a, b",
                                    (1, 2), {}),
        "another order, keyword-only": ("def t(*, a, b): return a, b",
                                        "def t(*, b, a): return a, b", (), {"a": 1, "b": 2}),
        "other names of *args and **kwargs": (
            "def t(x, *args, k, **kwargs): return x, args, k, kwargs",
            "def t(x, *rest, k, **others): return x, rest, k, others", (1, 2, 3), {"k": 4, "m": 5}),
        "*args and **kwargs that swap names": ("def t(*a, **b): return a, b",
                                               "def t(*b, **a): return b, a", (1,), {"k": 2}),
        "a name that was *args becomes a local": ("def t(*a): return a",
                                                  "def t(*b):\n a = b\n return a", (1,), {}),
        "a parameter in a cell": ("def t(a, b): return a, b",
                                  "def t(a, b): return (lambda: (a, b))()", (1, 2), {}),
        "a parameter no longer in a cell": ("def t(a, b): return (lambda: (a, b))()",
                                            "def t(a, b): return a, b", (1, 2), {}),
        "all kinds in cells": ("def t(a, /, b, *c, d, **e): return a, b, c, d, e",
                               "def t(a, /, b, *c, d, **e): return (lambda: (a, b, c, d, e))()",
                               (1, 2, 3), {"d": 4, "f": 5}),
        "other cells in another order": (
            "def t(a, b):\n x = y = 1\n (lambda: (x, y))\n return a, b",
            "def t(a, b):\n z = a\n def inner():\n  return z, b\n return inner()", (1, 2), {}),
        "a cell that becomes a local": ("def t(a):\n x = a\n return (lambda: x)()",
                                        "def t(a):\n x = a\n return x", (1,), {}),
        "comprehensions": ("def t(a): return [a]",
                           "def t(a): return [x for x in [a] if (lambda: x)()]", (1,), {}),
        "a thousand arguments": ("def t(*a): return len(a)", "def t(*a):\n b = 1\n return len(a)",
                                 tuple(range(1000)), {}),
        "two hundred parameters": (
            f"def t({', '.join(f'p{i}' for i in range(200))}): return p0, p199",
            f"def t({', '.join(f'p{i}' for i in reversed(range(200)))}): return p0, p199",
            tuple(range(200)), {}),
    }

    def test_06_arguments_are_mapped(self):
        for name, (old, new, arguments, keywords) in self.MAPPED.items():
            with self.subTest(name):
                namespace = {}
                exec(old, namespace)
                function = namespace["t"]
                expected = function(*arguments, **keywords)
                code = code_named("t", new)
                handle = self.add(self.replacer((function, code)))
                for _ in range(WARM):
                    self.assertEqual(function(*arguments, **keywords), expected)
                self.assertGreaterEqual(self.info(handle)["replacements"], WARM)
                self.remove(handle)
                self.assertEqual(function(*arguments, **keywords), expected)

    def test_06_arguments_are_mapped_for_generators_and_coroutines(self):
        def run(thing):
            try:
                while True:
                    thing.send(None)
            except StopIteration as stopped:
                return stopped.value

        def first(generator):
            return run(generator.__anext__())

        kinds = {
            "generator": ("def t", "yield {}", lambda made: next(made)),
            "coroutine": ("async def t", "return {}", run),
            "asynchronous generator": ("async def t", "yield {}", first),
        }
        for kind, (head, statement, finish) in kinds.items():
            old = f"{head}(a, b, *c, d, **e):\n " + statement.format("a, b, c, d, e")
            replacements = {
                "copy": old,
                "more locals": f"{head}(a, b, *c, d, **e):\n {MANY} = d\n "
                + statement.format("a, b, c, v9, e"),
                "another order": f"{head}(b, a, *x, d, **y):\n "
                + statement.format("a, b, x, d, y"),
                "cells": f"{head}(a, b, *c, d, **e):\n "
                + statement.format("(lambda: (a, b, c, d, e))()"),
            }
            for name, new in replacements.items():
                with self.subTest(kind, replacement=name):
                    namespace = {}
                    exec(old, namespace)
                    function = namespace["t"]
                    code = code_named("t", new)
                    handle = self.add(self.replacer((function, code)))
                    for _ in range(WARM):
                        made = function(1, 2, 3, d=4, f=5)
                        self.assertEqual(finish(made), (1, 2, (3,), 4, {"f": 5}))
                    self.remove(handle)

    def test_06_free_variables_stay_connected(self):
        def make():
            count = 0
            other = "other"

            def target(step):
                nonlocal count
                count += step
                return count, other
            return target, lambda: count

        target, read = make()
        new = code_named("target", """
def make():
    count = other = extra = 0
    def target(step):
        nonlocal count
        inside = step * 10
        def add():
            nonlocal count
            count += inside
        add()
        return count, other
""")
        self.assertEqual(new.co_freevars, target.__code__.co_freevars)
        self.assertEqual(target(1), (1, "other"))
        handle = self.add(self.replacer((target, new)))
        for n in range(1, WARM):
            self.assertEqual(target(1), (1 + 10 * n, "other"))
        self.assertEqual(read(), 1 + 10 * (WARM - 1))
        self.remove(handle)
        self.assertEqual(target(1)[0], read())

    def test_06_cells_that_are_no_arguments(self):
        source = """
def outer():
    free = 5

    def target(a, b):
        {unused}
        inner = a
        # `inner` is a local of the comprehension too, which is inlined.
        readers = [lambda: (inner, b) for inner in range(a)]
        one, two = "one", "two"
        return [read() for read in readers], (lambda: (one, two, free))(), inner, free
    return target
"""
        namespace = {}
        exec(source.format(unused="pass"), namespace)
        target = namespace["outer"]()
        code = target.__code__
        few, many = [code_named("target", source.format(unused=unused))
                     for unused in ("pass", f"{MANY} = 1")]
        expected = target(3, "b")
        self.assertEqual(expected, ([(2, "b")] * 3, ("one", "two", 5), 3, 5))
        for new in (few, many):
            counts = [sys.getrefcount(one) for one in (code, new, target)]
            handle = self.add(self.replacer((code, new)))
            for _ in range(WARM):
                self.assertEqual(target(3, "b"), expected)
            self.assertEqual(self.info(handle)["replacements"], WARM)
            self.remove(handle)
            self.assertEqual(target(3, "b"), expected)
            self.assertEqual([sys.getrefcount(one) for one in (code, new, target)], counts)

    def test_06_another_stack_size(self):
        def target(a, b):
            return [a, b, *(a, b)]
        for size in (100, 5_000, 60_000):
            new = target.__code__.replace(co_stacksize=size)
            handle = self.add(self.replacer((target, new)))
            for _ in range(20):
                self.assertEqual(target(1, 2), [1, 2, 1, 2])
            self.remove(handle)

    def test_06_super_and_class_cells(self):
        class Base:
            def method(self, x):
                return ["base", x]

        class Child(Base):
            def method(self, x):
                return super().method(x)

        new = code_named("method", "class Child:\n def method(self, x):\n  y = 'new'\n"
                                   "  return [y, *super().method(x), __class__.__name__]")
        self.add(self.replacer((Child.method, new)))
        child = Child()
        for _ in range(WARM):
            self.assertEqual(child.method(3), ["new", "base", 3, "Child"])

    # 7. Arguments are moved, not duplicated: destructors run when they would in a plain call.

    def test_07_destructors_run_when_they_would(self):
        log = []

        class Noisy:
            def __init__(self, name):
                self.name = name

            def __del__(self):
                log.append(self.name)

        source = """
def t(a, b, *rest, k, **others):
    {before}
    log.append("start")
    a = None
    log.append("a gone")
    del rest
    log.append("rest gone")
    others.clear()
    log.append("others gone")
    k = b
    log.append("k gone")
    {after}
"""
        bodies = {
            "as it is": ("pass", "pass"),
            "more locals": (MANY + " = 0", "pass"),
            "cells": ("inner = lambda: (a, b, k)", "del inner"),
        }
        namespace = {"log": log}
        exec(source.format(before="pass", after="pass"), namespace)
        function = namespace["t"]

        def calls():
            del log[:]
            function(Noisy("a"), Noisy("b"), Noisy("rest"), k=Noisy("k"), x=Noisy("other"))
            log.append("returned")
            function(*(Noisy("a"), Noisy("b")), **{"k": Noisy("k")})
            log.append("end")
            return log[:]

        expected = calls()
        self.assertEqual(expected[:3], ["start", "a", "a gone"])
        for name, (before, after) in bodies.items():
            with self.subTest(name):
                code = code_named("t", source.format(before=before, after=after))
                handle = self.add(self.replacer((function, code)))
                for _ in range(WARM):
                    self.assertEqual(calls(), expected)
                self.remove(handle)

    def test_07_a_generator_that_never_runs_drops_its_arguments(self):
        def target(a):
            yield a

        new = code_named("target", f"def target(a):\n {MANY} = 1\n yield (lambda: a)()")
        self.add(self.replacer((target, new)))
        thing = Thing()
        reference = weakref.ref(thing)
        generator = target(thing)
        del thing
        self.assertIsNotNone(reference())
        generator.close()
        del generator
        self.assertIsNone(reference())

    def test_07_garbage_is_collected_through_a_replaced_frame(self):
        def target(a, keep):
            keep.append(sys._getframe())

        new = code_named("target",
                         "def target(a, keep):\n f = lambda: a\n keep.append(sys._getframe())")
        self.add(self.replacer((target, new)))

        def cycle():
            thing = Thing()
            thing.kept = []
            target(thing, thing.kept)
            return weakref.ref(thing)

        references = [cycle() for _ in range(10)]
        gc.collect()
        self.assertEqual([reference() for reference in references], [None] * 10)

    # 8. It works at the edge of a chunk, for any frame size.

    def test_08_replacement_at_every_depth(self):
        sizes = (1, 40, 300, 3_000)
        functions = {}
        for size in sizes:
            locals_ = " = ".join(f"v{i}" for i in range(size))
            namespace = {}
            exec(f"def t(a, *b, c):\n {locals_} = a\n return v0, b, c, v{size - 1}", namespace)
            functions[size] = namespace["t"]
        depth = 2_000

        def sweep(function, replacement):
            expected = function(1, 2, c=3)
            crossed = 0
            handle = self.add(self.replacer((function, replacement)))

            def descend(left):
                nonlocal crossed
                before = framecore.datastack_stats()["chunks_pushed"]
                if function(1, 2, c=3) != expected:
                    raise AssertionError(f"{left} above the bottom")
                crossed += framecore.datastack_stats()["chunks_pushed"] > before
                if left:
                    descend(left - 1)

            with recursion_limit(depth + 100):
                descend(depth)
            replacements = self.info(handle)["replacements"]
            self.remove(handle)
            return crossed, replacements

        for old in sizes:
            for new in sizes:
                with self.subTest(f"{old} locals, {new} in the replacement"):
                    code = functions[new].__code__.replace()
                    crossed, replacements = in_new_thread(sweep, functions[old], code)
                    self.assertEqual(replacements, depth + 1)
                    # A frame smaller than a step of the recursion may pass between the edges.
                    if max(old, new) >= 40:
                        self.assertGreaterEqual(crossed, 1)


@needs_hooks
class PythonReplacement(PythonApi, ReplacementPoints, HookTestCase):
    pass


@needs_hooks
class CReplacement(CApi, ReplacementPoints, HookTestCase):
    pass
