"""Frame hooks: what they promise, point by point, for hooks written in Python and for hooks written in C.

The classes that end in Points hold the tests, and run with both faces. What the C interface has besides is in
test_frame_hooks_c.py; kinds of calls, threads and the interpreter's end in test_frame_hooks_everywhere.py.
"""

import builtins
import dis
import gc
import os
import sys
import sysconfig
import threading
import traceback
import types
import unittest
import weakref

from support import (CFace, HookTestCase, ProgramTestCase, PythonFace, code_named, code_of, framecore, in_new_thread,
                     needs_hooks, recursion_limit, use_extensions)

use_extensions()
import foreignchunk
import framehooks

FREE_THREADED = bool(sysconfig.get_config_var("Py_GIL_DISABLED"))
WARM = 200      # calls after which a call is specialized
MANY = " = ".join(f"v{i}" for i in range(500))      # many more locals


class Thing:
    """Something that a weak reference can watch."""


def specialized(function):
    """The names of the instructions as they are now, adaptive ones as what they have become."""
    return [i.opname for i in dis.get_instructions(function, adaptive=True)]


def positions(error):
    """What a traceback shows, without the texts: (function, line, column)."""
    return [(frame.name, frame.lineno, frame.colno) for frame in traceback.extract_tb(error.__traceback__)]


def failure(kind, call, *arguments):
    """The exception of a call with its traceback, which assertRaises would take away."""
    try:
        call(*arguments)
    except kind as error:
        return error
    raise AssertionError(f"no {kind.__name__} was raised")


class OrderAndAnswerPoints:
    """Points 1 to 4."""

    # 1. Hooks run in registration order; each sees the code that the one before chose.

    def test_01_order_of_registration(self):
        def target():
            pass

        asked = []

        def note(mark):
            def hook(view):
                if view.code is target.__code__:
                    asked.append(mark)
            return hook

        handles = [self.add(note(mark)) for mark in range(5)]
        target()
        self.assertEqual(asked, [0, 1, 2, 3, 4])
        self.assertEqual([info["id"] for info in framecore.frame_hooks()], handles)
        self.remove(handles[2])
        self.add(note("again"))
        del asked[:]
        target()
        self.assertEqual(asked, [0, 1, 3, 4, "again"])

    def test_01_each_sees_what_the_one_before_chose(self):
        def target():
            return "original"

        codes = [code_named("target", f"def target():\n return 'number {n}'") for n in range(3)]
        chain = [target.__code__, *codes]
        seen = []

        def step(n):
            def hook(view):
                if view.code is chain[n]:
                    seen.append(n)
                    return chain[n + 1]
            return hook

        for n in range(3):
            self.add(step(n))
        last = self.recorder(codes[-1])
        self.add(last)
        self.assertEqual(target(), "number 2")
        self.assertEqual((seen, last.seen), ([0, 1, 2], ["target"]))

    # 2. None or the same code means unchanged; references are exact either way.

    def test_02_unchanged_and_changed_keep_references_exact(self):
        def target(a, *, b):
            return a is b

        copy = target.__code__.replace()
        argument = Thing()
        answers = {"None": None, "the same code": target.__code__, "other code": copy}
        for name, answer in answers.items():
            with self.subTest(name):
                handle = self.add(self.recorder(target, answer=answer))
                counted = (target, target.__code__, copy, argument, target.__globals__, answer)
                for _ in range(WARM):
                    self.assertTrue(target(argument, b=argument))
                before = list(map(sys.getrefcount, counted))
                for _ in range(100):
                    target(argument, b=argument)
                self.assertEqual(list(map(sys.getrefcount, counted)), before)
                self.remove(handle)

    def test_02_the_same_code_is_no_replacement(self):
        def target():
            return sys._getframe().f_code

        handle = self.add(self.recorder(target, answer=target.__code__))
        self.assertIs(target(), target.__code__)
        info = self.info(handle)
        self.assertEqual(info["replacements"], 0)

    # 3. A hook that raises unwinds like a failed call.

    def failing(self, function, error=KeyError):
        def hook(view):
            if view.code is code_of(function):
                raise error("refused")
        return hook

    def test_03_the_caller_gets_the_exception(self):
        def target():
            self.fail("it ran")

        def caller():
            try:
                target()
            except KeyError as error:
                return error.args
        handle = self.add(self.failing(target))
        for _ in range(WARM):
            self.assertEqual(caller(), ("refused",))
        self.assertEqual(self.info(handle)["errors"], WARM)
        self.remove(handle)

        def target():
            return "runs again"
        self.assertEqual(target(), "runs again")

    def test_03_the_traceback_is_that_of_a_failed_call(self):
        def target():
            pass

        def too_many(x):
            pass

        def caller(function):
            return (1,
                    [function(), 2])

        hook = self.failing(target)
        self.add(hook)
        for _ in range(WARM):
            expected = positions(failure(TypeError, caller, too_many))
            found = positions(failure(KeyError, caller, target))
        self.assertEqual([name for name, _, _ in expected], ["failure", "caller"])
        self.assertEqual(found[:-1], expected)
        self.assertEqual(found[-1][:2], ("hook", hook.__code__.co_firstlineno + 2))

    def test_03_every_kind_of_call_can_fail(self):
        class Kinds:
            def __init__(self, fail=True):
                pass

            def method(self):
                pass

            @property
            def attribute(self):
                pass

            def __getitem__(self, index):
                pass

        def function(*args, **kwargs):
            return 0

        def generator(*args):
            yield

        async def coroutine(*args):
            pass

        async def asynchronous_generator(*args):
            yield

        thing = Kinds()
        arguments = (1, 2)
        kinds = {
            "function": (function, lambda: function()),
            "keywords": (function, lambda: function(a=1)),
            "star": (function, lambda: function(*arguments, **{"k": 1})),
            "from C": (function, lambda: list(map(function, arguments))),
            "sort key": (function, lambda: sorted(arguments, key=function)),
            "method": (Kinds.method, lambda: thing.method()),
            "initializer": (Kinds.__init__, lambda: Kinds()),
            "property": (Kinds.attribute, lambda: thing.attribute),
            "subscript": (Kinds.__getitem__, lambda: thing[0]),
            "generator": (generator, lambda: generator(*arguments)),
            "coroutine": (coroutine, lambda: coroutine(*arguments)),
            "asynchronous generator": (asynchronous_generator, lambda: asynchronous_generator(1)),
        }
        for name, (function_, call) in kinds.items():
            with self.subTest(name):
                for _ in range(WARM):
                    result = call()
                    if hasattr(result, "close"):
                        result.close()
                handle = self.add(self.failing(function_))
                for _ in range(WARM):
                    with self.assertRaises(KeyError):
                        call()
                self.remove(handle)
                result = call()
                if hasattr(result, "close"):
                    result.close()

    def test_03_nothing_is_leaked(self):
        def target(a, /, b, *rest, c, **others):
            pass

        def generator(a):
            yield

        def closure():
            return a
        a = 1

        handle = self.add(self.failing(target))
        self.add(self.failing(generator, LookupError))
        self.add(self.failing(closure, ValueError))
        watched = [Thing() for _ in range(5)]
        references = [weakref.ref(thing) for thing in watched]
        before = foreignchunk.chunks()
        counts = list(map(sys.getrefcount, (target, target.__code__, generator, closure, closure.__closure__[0])))
        for _ in range(WARM):
            with self.assertRaises(KeyError):
                target(watched[0], watched[1], watched[2], c=watched[3], d=watched[4])
            with self.assertRaises(LookupError):
                generator(watched[0])
            with self.assertRaises(ValueError):
                closure()
        self.assertEqual(list(map(sys.getrefcount, (target, target.__code__, generator, closure,
                                                    closure.__closure__[0]))), counts)
        self.assertEqual(foreignchunk.chunks(), before)
        self.assertEqual(self.info(handle)["errors"], WARM)
        del watched
        self.assertEqual([reference() for reference in references], [None] * 5)

    def test_03_no_recursion_is_used_up(self):
        def target():
            pass

        def down(n):
            return down(n - 1) if n else "bottom"

        self.add(self.failing(target))

        def many_failures():
            for _ in range(2_000):
                try:
                    target()
                except KeyError:
                    pass
                try:
                    max([1], key=lambda x: target())
                except KeyError:
                    pass
            return down(400)

        self.assertEqual(in_new_thread(many_failures), "bottom")

    def test_03_a_later_hook_is_not_asked(self):
        def target():
            pass

        later = self.recorder(target)
        self.add(self.failing(target))
        self.add(later)
        with self.assertRaises(KeyError):
            target()
        self.assertEqual(later.seen, [])

    # 4. Code that cannot stand in raises a named error before anything was touched.

    INCOMPATIBLE = {
        "one parameter more": ("def t(a): pass", "def t(a, b): pass"),
        "one with a default more": ("def t(a): pass", "def t(a, b=1): pass"),
        "one parameter fewer": ("def t(a, b): pass", "def t(a): pass"),
        "none": ("def t(a): pass", "def t(): pass"),
        "another name": ("def t(a): pass", "def t(b): pass"),
        "keyword-only": ("def t(a): pass", "def t(*, a): pass"),
        "keyword-only of another name": ("def t(*, a): pass", "def t(*, b): pass"),
        "a keyword-only one more": ("def t(*, a): pass", "def t(*, a, b): pass"),
        "a local of that name": ("def t(a): pass", "def t(b): a = 1"),
        "*args": ("def t(): pass", "def t(*args): pass"),
        "no *args": ("def t(*args): pass", "def t(): pass"),
        "**kwargs": ("def t(): pass", "def t(**kwargs): pass"),
        "no **kwargs": ("def t(**kwargs): pass", "def t(): pass"),
        "*args for **kwargs": ("def t(*args): pass", "def t(**args): pass"),
        "a generator": ("def t(): pass", "def t(): yield"),
        "no generator": ("def t(): yield", "def t(): pass"),
        "a coroutine": ("def t(): pass", "async def t(): pass"),
        "a coroutine for a generator": ("def t(): yield", "async def t(): pass"),
        "an asynchronous generator for a coroutine": ("async def t(): pass", "async def t(): yield"),
        "an asynchronous generator for a generator": ("def t(): yield", "async def t(): yield"),
        "a class body": ("def t(): pass", "class t: pass"),
        "a free variable": ("def t(): pass", "def outer(x):\n def t(): x\n return t"),
        "no free variable": ("def outer(x=1):\n def t(): x\n return t\nt = outer()", "def t(): pass"),
        "another free variable": ("def outer(x=1):\n def t(): x\n return t\nt = outer()",
                                  "def outer(y):\n def t(): y\n return t"),
        "one free variable more": ("def outer(x=1):\n def t(): x\n return t\nt = outer()",
                                   "def outer(x, y):\n def t(): return x, y\n return t"),
    }

    def test_04_code_that_cannot_stand_in(self):
        for name, (old, new) in self.INCOMPATIBLE.items():
            with self.subTest(name):
                namespace = {}
                exec(old, namespace)
                function = namespace["t"]
                code = code_named("t", new)
                self.check_incompatible(function, code)

    def test_04_module_code_for_a_function(self):
        def t():
            pass
        self.check_incompatible(t, compile("pass", "<module>", "exec"))

    def check_incompatible(self, function, replacement):
        parameters = function.__code__
        names = parameters.co_varnames
        positional = parameters.co_argcount
        keyword_only = names[positional:positional + parameters.co_kwonlyargcount]
        arguments = [Thing() for _ in range(positional)]
        keywords = {name: Thing() for name in keyword_only}

        def caller():
            return function(*arguments, **keywords)

        counted = [function, function.__code__, replacement, *arguments, *keywords.values()]
        handle = self.add(self.replacer((function, replacement)))
        later = self.recorder(function, replacement)
        self.add(later)
        before = foreignchunk.chunks()
        for _ in range(2):
            with self.assertRaises(framecore.IncompatibleCodeError):
                caller()
        counts = list(map(sys.getrefcount, counted))
        for _ in range(50):
            with self.assertRaises(framecore.IncompatibleCodeError):
                caller()
        self.assertEqual(list(map(sys.getrefcount, counted)), counts)
        error = failure(framecore.IncompatibleCodeError, caller)
        self.assertIsInstance(error, ValueError)
        self.assertIn("cannot stand in", str(error))
        # The frame that never ran is not in the traceback.
        self.assertEqual([name for name, _, _ in positions(error)], ["failure", "caller"])
        del error
        self.assertEqual(foreignchunk.chunks(), before)
        self.assertEqual(later.seen, [])
        self.remove(handle)
        result = caller()
        if hasattr(result, "close"):
            result.close()

    def test_04_a_compatible_one_after_an_incompatible_one(self):
        def target(a):
            return "original", a

        answers = [code_named("target", "def target(b): pass"),
                   code_named("target", "def target(a): return 'replaced', a")]
        self.add(lambda view: answers.pop(0) if view.code is target.__code__ and answers else None)
        with self.assertRaises(framecore.IncompatibleCodeError):
            target(1)
        self.assertEqual(target(2), ("replaced", 2))
        self.assertEqual(target(3), ("original", 3))


class ReplacementPoints:
    """Points 5 to 8."""

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
        new = code_named("target", source.format(
            body="return a, b, c, captured, marker, len('xx'), sys._getframe().f_code.co_filename"), "<new>")
        self.add(self.replacer((target, new)))
        self.assertEqual(target(1), (1, "default", "keyword default", ["closure"], "global", "own builtin", "<new>"))
        self.assertEqual(target(1, 2, c=3)[:3], (1, 2, 3))
        self.assertIs(target.__code__, old)
        self.assertEqual((target.note, target.__qualname__), ("in the dictionary", "a.qualified.name"))

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

        new = code_named("target", "import sys\ndef target():\n\n\n local = 5\n return sys._getframe()", "<new>")
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
        "more locals": ("def t(a, b): return a, b", f"def t(a, b):\n {MANY} = b\n return a, v499", (1, 2), {}),
        "fewer locals": (f"def t(a, b):\n {MANY} = b\n return a, v499", "def t(a, b): return a, b", (1, 2), {}),
        "another order": ("def t(a, b, c): return a, b, c", "def t(c, a, b): return a, b, c", (1, 2, 3), {}),
        "another order, positional-only": ("def t(a, b, /, c, d): return a, b, c, d",
                                           "def t(b, a, /, d, c): return a, b, c, d", (1, 2, 3, 4), {}),
        # How a call may name them no longer matters once it is made.
        "positional-only ones": ("def t(a, b): return a, b", "def t(b, /, a): return a, b", (1,), {"b": 2}),
        "no positional-only ones": ("def t(a, /, b): return a, b", "def t(a, b): return a, b", (1, 2), {}),
        "another order, keyword-only": ("def t(*, a, b): return a, b", "def t(*, b, a): return a, b", (),
                                        {"a": 1, "b": 2}),
        "other names of *args and **kwargs": ("def t(x, *args, k, **kwargs): return x, args, k, kwargs",
                                              "def t(x, *rest, k, **others): return x, rest, k, others",
                                              (1, 2, 3), {"k": 4, "m": 5}),
        "*args and **kwargs that swap names": ("def t(*a, **b): return a, b", "def t(*b, **a): return b, a",
                                               (1,), {"k": 2}),
        "a name that was *args becomes a local": ("def t(*a): return a", "def t(*b):\n a = b\n return a", (1,), {}),
        "a parameter in a cell": ("def t(a, b): return a, b", "def t(a, b): return (lambda: (a, b))()", (1, 2), {}),
        "a parameter no longer in a cell": ("def t(a, b): return (lambda: (a, b))()", "def t(a, b): return a, b",
                                            (1, 2), {}),
        "all kinds in cells": ("def t(a, /, b, *c, d, **e): return a, b, c, d, e",
                               "def t(a, /, b, *c, d, **e): return (lambda: (a, b, c, d, e))()",
                               (1, 2, 3), {"d": 4, "f": 5}),
        "other cells in another order": (
            "def t(a, b):\n x = y = 1\n (lambda: (x, y))\n return a, b",
            "def t(a, b):\n z = a\n def inner():\n  return z, b\n return inner()", (1, 2), {}),
        "a cell that becomes a local": ("def t(a):\n x = a\n return (lambda: x)()", "def t(a):\n x = a\n return x",
                                        (1,), {}),
        "comprehensions": ("def t(a): return [a]", "def t(a): return [x for x in [a] if (lambda: x)()]", (1,), {}),
        "a thousand arguments": ("def t(*a): return len(a)", "def t(*a):\n b = 1\n return len(a)",
                                 tuple(range(1000)), {}),
        "two hundred parameters": (
            f"def t({', '.join(f'p{i}' for i in range(200))}): return p0, p199",
            f"def t({', '.join(f'p{i}' for i in reversed(range(200)))}): return p0, p199", tuple(range(200)), {}),
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
                "more locals": f"{head}(a, b, *c, d, **e):\n {MANY} = d\n " + statement.format("a, b, c, v9, e"),
                "another order": f"{head}(b, a, *x, d, **y):\n " + statement.format("a, b, x, d, y"),
                "cells": f"{head}(a, b, *c, d, **e):\n " + statement.format("(lambda: (a, b, c, d, e))()"),
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
        # A cell that is a local besides: the comprehension is inlined.
        readers = [lambda: (inner, b) for inner in range(a)]
        one, two = "one", "two"
        return [read() for read in readers], (lambda: (one, two, free))(), inner, free
    return target
"""
        namespace = {}
        exec(source.format(unused="pass"), namespace)
        target = namespace["outer"]()
        code = target.__code__
        few, many = [code_named("target", source.format(unused=unused)) for unused in ("pass", f"{MANY} = 1")]
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

        new = code_named("target", "def target(a, keep):\n f = lambda: a\n keep.append(sys._getframe())")
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


class AskingPoints:
    """Points 9 to 14."""

    # 9. A hook sees a frame once, at first entry: never on generator resume or throw.

    def test_09_once_for_each_generator(self):
        def target():
            try:
                yield 1
                yield 2
            except KeyError:
                yield 3
            finally:
                pass

        hook = self.recorder(target)
        self.add(hook)
        generator = target()
        self.assertEqual(hook.seen, ["target"])
        self.assertEqual((next(generator), generator.send(None), generator.throw(KeyError)), (1, 2, 3))
        generator.close()
        self.assertEqual(list(target()), [1, 2])
        for _ in target():
            pass
        self.assertEqual(hook.seen, ["target"] * 3)

    def test_09_once_for_each_coroutine_and_asynchronous_generator(self):
        @types.coroutine
        def pause():
            yield

        async def numbers():
            await pause()
            yield 1
            await pause()
            yield 2

        async def target():
            return [x async for x in numbers()]

        hook = self.recorder(target, numbers, pause)
        self.add(hook)
        for _ in range(3):
            coroutine = target()
            resumed = 0
            try:
                while True:
                    coroutine.send(None)
                    resumed += 1
            except StopIteration as stopped:
                self.assertEqual(stopped.value, [1, 2])
            self.assertEqual(resumed, 2)
        self.assertEqual(hook.seen, ["target", "numbers", "pause", "pause"] * 3)

    def test_09_a_generator_made_before_the_hook_came_is_not_offered(self):
        def target():
            yield 1
            yield 2

        started, fresh = target(), target()
        next(started)
        hook = self.recorder(target)
        self.add(hook)
        self.assertEqual((list(started), list(fresh)), ([2], [1, 2]))
        self.assertEqual(hook.seen, [])

    # 10. No re-entry on the same thread while a hook runs; other threads go on.

    def test_10_what_a_hook_calls_is_not_offered(self):
        def helper():
            return inner() + sum(x for x in range(3))

        def inner():
            return 1

        def target():
            return helper()

        seen = []

        def hook(view):
            seen.append(view.code.co_name)
            if view.code is target.__code__:
                helper()
                seen.append("hook ends")

        self.add(hook)
        del seen[:]
        target()
        self.assertEqual(seen[:], ["target", "hook ends", "helper", "inner", "<genexpr>"])

    def test_10_a_hook_that_fails_leaves_the_guard_open(self):
        def target():
            pass

        fails = [True, False, True, False]

        def hook(view):
            if view.code is target.__code__ and fails.pop(0):
                raise KeyError
        self.add(hook)
        for _ in range(2):
            with self.assertRaises(KeyError):
                target()
            target()
        self.assertEqual(fails, [])

    def test_10_other_threads_go_on(self):
        def slow():
            pass

        def quick():
            pass

        asked_about_quick = threading.Event()
        waited = []

        def hook(view):
            if view.code is slow.__code__:
                # Until the same hook is asked in another thread.
                waited.append(asked_about_quick.wait(60))
            elif view.code is quick.__code__:
                asked_about_quick.set()

        self.add(hook)
        thread = threading.Thread(target=slow)
        thread.start()
        quick()
        thread.join()
        self.assertEqual(waited, [True])

    # 11. Adding and removing hooks inside a hook is safe; a duplicate add and an unknown remove raise.

    def test_11_a_hook_added_in_a_round_is_asked_from_the_next_frame_on(self):
        def first():
            pass

        def second():
            pass

        late = self.recorder(first, second)
        added = []

        def hook(view):
            if view.code is first.__code__ and not added:
                added.append(self.add(late))

        self.add(hook)
        first()
        self.assertEqual(late.seen, [])
        second()
        first()
        self.assertEqual(late.seen, ["second", "first"])

    def test_11_a_hook_removed_in_a_round_is_not_asked_any_more(self):
        def target():
            pass

        later = self.recorder(target)
        handles = []

        def hook(view):
            if view.code is target.__code__ and handles:
                self.remove(handles.pop())

        self.add(hook)
        handles.append(self.add(later))
        target()
        target()
        self.assertEqual(later.seen, [])
        self.assertEqual(len(framecore.frame_hooks()), 1)

    def test_11_a_hook_may_remove_itself_and_all(self):
        def target():
            return "original"

        new = code_named("target", "def target(): return 'replaced'")
        handles = []

        def remove_itself(view):
            if view.code is target.__code__:
                self.remove(handles[0])
                return new

        handles.append(self.add(remove_itself))
        self.assertEqual((target(), target()), ("replaced", "original"))

        def remove_all(view):
            if view.code is target.__code__:
                self.clear()
                return new

        later = self.recorder(target, new)
        self.add(remove_all)
        self.add(later)
        self.assertEqual((target(), target()), ("replaced", "original"))
        self.assertEqual(later.seen, [])
        self.assertEqual(framecore.frame_hooks(), [])

    def test_11_a_hook_that_removes_itself_and_fails(self):
        def target():
            return "ran"

        handles = []

        def hook(view):
            if view.code is target.__code__:
                self.remove(handles.pop())
                raise KeyError("last words")

        handles.append(self.add(hook))
        with self.assertRaisesRegex(KeyError, "last words"):
            target()
        self.assertEqual(target(), "ran")

    def test_11_churn_inside_a_hook(self):
        def target():
            return "ran"

        def churn(view):
            if view.code is target.__code__:
                handles = [self.add(self.recorder()) for _ in range(20)]
                for handle in handles[::2] + handles[1::2]:
                    self.remove(handle)

        self.add(churn)
        for _ in range(50):
            self.assertEqual(target(), "ran")
        self.assertEqual(len(framecore.frame_hooks()), 1)

    def test_11_unknown_hooks(self):
        handle = self.add(self.recorder())
        self.remove(handle)
        for unknown in (handle, 0, -1, 1 << 40):
            with self.assertRaises(ValueError):
                self.remove(unknown)
            with self.assertRaises(ValueError):
                self.switch(unknown, True)
            with self.assertRaises(ValueError):
                self.switch_in_thread(unknown, True)
            with self.assertRaises(ValueError):
                self.switch_for_code(unknown, code_of(self.setUp), True)

    def test_11_handles_are_never_used_again(self):
        handles = []
        for _ in range(100):
            handles.append(self.add(self.recorder()))
            self.remove(handles[-1])
        self.assertEqual(len(set(handles)), 100)

    def test_11_there_is_room_for_32(self):
        def target():
            return "ran"

        hooks = [self.recorder(target) for _ in range(33)]
        handles = [self.add(hook) for hook in hooks[:32]]
        with self.assertRaises(RuntimeError):
            self.add(hooks[32])
        self.assertEqual(target(), "ran")
        self.assertEqual([hook.seen for hook in hooks], [["target"]] * 32 + [[]])
        self.remove(handles[10])
        self.add(hooks[32])
        target()
        self.assertEqual([len(hook.seen) for hook in hooks], [2] * 10 + [1] + [2] * 21 + [1])

    # 13. Enable and disable per hook, per thread, per code object.

    def test_13_per_hook(self):
        def target():
            pass

        hooks = [self.recorder(target) for _ in range(3)]
        handles = [self.add(hook) for hook in hooks]
        self.switch(handles[1], False)
        target()
        self.assertEqual([len(hook.seen) for hook in hooks], [1, 0, 1])
        self.assertEqual([info["enabled"] for info in framecore.frame_hooks()], [True, False, True])
        self.switch(handles[1], True)
        target()
        self.assertEqual([len(hook.seen) for hook in hooks], [2, 1, 2])

    def test_13_a_disabled_hook_keeps_what_it_has_settled(self):
        def settled():
            pass

        def other():
            pass

        hook = self.recorder(settled, other)
        about_settled = self.recorder(settled, answer=self.SETTLED)
        both = lambda view: (hook(view), about_settled(view))[1]
        handle = self.add(both)
        settled(), other()
        self.switch(handle, False)
        settled(), other()
        self.switch(handle, True)
        settled(), other()
        self.assertEqual(hook.seen, ["settled", "other", "other"])

    def test_13_per_thread(self):
        def target():
            pass

        seen = []

        def hook(view):
            if view.code is target.__code__:
                seen.append(threading.get_ident())

        handle = self.add(hook)
        here = threading.get_ident()
        self.switch_in_thread(handle, False)
        target()
        self.assertEqual(seen, [])

        def elsewhere():
            target()
            self.switch_in_thread(handle, False)
            target()
            self.switch_in_thread(handle, True)
            target()

        in_new_thread(elsewhere)
        self.assertEqual((len(seen), here in seen), (2, False))
        # Another thread's switching has done nothing here.
        target()
        self.assertNotIn(here, seen)
        self.switch_in_thread(handle, True)
        target()
        self.assertEqual(seen.count(here), 1)

    def test_13_per_thread_is_per_hook(self):
        def target():
            pass

        hooks = [self.recorder(target) for _ in range(3)]
        handles = [self.add(hook) for hook in hooks]
        self.switch_in_thread(handles[0], False)
        self.switch_in_thread(handles[2], False)
        target()
        self.assertEqual([len(hook.seen) for hook in hooks], [0, 1, 0])
        self.remove(handles[0])
        newest = self.recorder(target)
        self.add(newest)
        target()
        # A new hook does not inherit the place of the one that went.
        self.assertEqual(([len(hook.seen) for hook in hooks], newest.seen), ([0, 2, 0], ["target"]))

    def test_13_per_code(self):
        def one():
            pass

        def two():
            pass

        hook = self.recorder(one, two)
        handle = self.add(hook)
        self.switch_for_code(handle, one.__code__, False)
        for _ in range(WARM):
            one(), two()
        self.assertEqual(hook.seen, ["two"] * WARM)
        del hook.seen[:]
        self.switch_for_code(handle, one.__code__, True)
        one(), two()
        self.assertEqual(hook.seen, ["one", "two"])

    def test_13_enabling_for_code_forgets_that_it_was_settled(self):
        def target():
            pass

        hook = self.recorder(target, answer=self.SETTLED)
        other = self.recorder(target, answer=self.SETTLED)
        handle = self.add(hook)
        self.add(other)
        for _ in range(WARM):
            target()
        self.switch_for_code(handle, target.__code__, True)
        for _ in range(WARM):
            target()
        self.assertEqual((hook.seen, other.seen), (["target"] * 2, ["target"]))

    def test_13_for_something_that_is_no_code(self):
        handle = self.add(self.recorder())
        for wrong in (None, self.setUp, "code", 3):
            with self.assertRaises(TypeError):
                self.switch_for_code(handle, wrong, True)
            with self.assertRaises(TypeError):
                self.switch_for_code(handle, wrong, False)

    # 14. Frames started by trace, profile and monitoring callbacks are skipped.

    def test_14_trace_and_profile_functions(self):
        def helper():
            pass

        def callback(frame, event, argument):
            if not events:
                helper()
            events.append(event)
            return callback

        def target():
            return [1]

        hook = self.recorder(helper, callback, target)
        self.add(hook)
        for install in (sys.settrace, sys.setprofile):
            events = []
            del hook.seen[:]
            install(callback)
            try:
                target()
            finally:
                install(None)
            self.assertIn("call", events)
            self.assertEqual(hook.seen, ["target"])

    def test_14_monitoring_callbacks(self):
        def helper():
            pass

        def started(code, offset):
            if code is target.__code__:
                helper()
                events.append("start")

        def returned(code, offset, value):
            if code is target.__code__:
                helper()
                events.append("return")

        def target():
            return [1]

        events = []
        hook = self.recorder(helper, started, returned, target)
        self.add(hook)
        monitoring = sys.monitoring
        tool = 4
        monitoring.use_tool_id(tool, "test")
        try:
            monitoring.register_callback(tool, monitoring.events.PY_START, started)
            monitoring.register_callback(tool, monitoring.events.PY_RETURN, returned)
            monitoring.set_events(tool, monitoring.events.PY_START | monitoring.events.PY_RETURN)
            try:
                target()
            finally:
                monitoring.set_events(tool, 0)
        finally:
            monitoring.free_tool_id(tool)
        self.assertEqual((hook.seen, events), (["target"], ["start", "return"]))

    def test_14_after_a_callback_frames_are_offered_again(self):
        def target():
            pass

        hook = self.recorder(target)
        self.add(hook)

        def failing(frame, event, argument):
            raise KeyError

        # A trace function that fails is taken away.
        sys.settrace(failing)
        try:
            target()
        except KeyError:
            failed = True
        else:
            failed = False
        self.assertEqual((failed, sys.gettrace()), (True, None))
        del hook.seen[:]
        target()
        self.assertEqual(hook.seen, ["target"])


class CostPoints:
    """Points 15 to 17, as far as they can be seen without a clock."""

    # 15. Zero hooks: specialization intact.

    @unittest.skipIf(FREE_THREADED, "3.13 does not specialize without the GIL")
    def test_15_after_the_last_hook_calls_are_specialized(self):
        def leaf(a):
            return a

        def target(n):
            for i in range(n):
                leaf(i)

        for _ in range(5):
            target(WARM)
        expected = specialized(target)
        self.assertIn("CALL_PY_EXACT_ARGS", expected)
        self.assertIn("RESUME_CHECK", expected)
        handle = self.add(self.recorder(leaf))
        target(3)
        self.remove(handle)
        for _ in range(5):
            target(WARM)
        self.assertEqual(specialized(target), expected)

    @unittest.skipIf(FREE_THREADED, "3.13 does not specialize without the GIL")
    def test_15_a_replacement_that_is_settled_is_specialized(self):
        def target():
            return "original"

        def other():
            return "replaced"

        handle = self.add(self.replacer((target, other)))
        for _ in range(WARM):
            self.assertEqual(target(), "replaced")
        self.assertNotIn("RESUME_CHECK", specialized(other))
        self.switch_for_code(handle, other.__code__, False)
        for _ in range(WARM):
            self.assertEqual(target(), "replaced")
        self.assertIn("RESUME_CHECK", specialized(other))
        # It is offered again when somebody cares for it.
        recorder = self.recorder(other)
        second = self.add(recorder)
        self.assertEqual((target(), other()), ("replaced", "replaced"))
        self.assertEqual(recorder.seen, ["other", "other"])
        self.remove(second)

    # 16. Hooks active: every start of a frame is seen, and no C stack is used for it.

    def test_16_specialized_calls_are_seen(self):
        class Kinds:
            def __init__(self):
                self.x = 1

            def method(self):
                pass

            @property
            def attribute(self):
                pass

            def __getitem__(self, index):
                pass

        class Dynamic:
            def __getattribute__(self, name):
                pass

        def numbers():
            yield 1

        def star(*args, **kwargs):
            pass

        def delegate():
            yield from numbers()

        thing, dynamic, arguments, keywords = Kinds(), Dynamic(), (1,), {"a": 1}

        def everything():
            Kinds()
            thing.method()
            thing.attribute
            thing[0]
            dynamic.anything
            for _ in numbers():
                pass
            for _ in delegate():
                pass
            star(*arguments, **keywords)
            star(1, a=2)
            list(map(star, arguments))

        for _ in range(WARM):
            everything()
        hook = self.recorder(everything, Kinds.__init__, Kinds.method, Kinds.attribute, Kinds.__getitem__,
                             Dynamic.__getattribute__, numbers, delegate, star)
        self.add(hook)
        expected = ["everything", "__init__", "method", "attribute", "__getitem__", "__getattribute__", "numbers",
                    "delegate", "numbers", "star", "star", "star"]
        for _ in range(WARM):
            del hook.seen[:]
            everything()
            self.assertEqual(hook.seen, expected)

    # 17. A verdict "not interested in this code" is remembered.

    def test_17_a_settled_code_object_is_not_asked_about_again(self):
        def target():
            pass

        first = self.recorder(target, answer=self.SETTLED)
        second = self.recorder(target)
        self.add(first)
        self.add(second)
        for _ in range(WARM):
            target()
        self.assertEqual((first.seen, second.seen), (["target"], ["target"] * WARM))

    def test_17_settled_is_about_one_code_object(self):
        def target():
            pass

        equal = target.__code__.replace()
        self.assertEqual(equal, target.__code__)
        hook = self.recorder(target, equal, answer=self.SETTLED)
        self.add(hook)
        target()
        target.__code__ = equal
        target()
        target()
        self.assertEqual(hook.seen, ["target"] * 2)

    def test_17_what_the_hook_before_chose_is_what_settles(self):
        def target():
            return "original"

        new = code_named("target", "def target(): return 'replaced'")
        first = self.replacer((target, new))
        second = self.recorder(target, new, answer=self.SETTLED)
        handle = self.add(first)
        self.add(second)
        for _ in range(3):
            self.assertEqual(target(), "replaced")
        self.assertEqual(len(second.seen), 1)
        self.remove(handle)
        for _ in range(3):
            self.assertEqual(target(), "original")
        self.assertEqual(len(second.seen), 2)

    def test_17_a_new_hook_is_asked_about_what_others_have_settled(self):
        def target():
            pass

        old = self.recorder(target, answer=self.SETTLED)
        self.add(old)
        for _ in range(WARM):
            target()
        new = self.recorder(target, answer=self.SETTLED)
        self.add(new)
        for _ in range(WARM):
            target()
        self.assertEqual((old.seen, new.seen), (["target"], ["target"]))

    def test_17_a_hook_added_again_starts_afresh(self):
        def target():
            pass

        hook = self.recorder(target, answer=self.SETTLED)
        for n in range(3):
            handle = self.add(hook)
            target(), target()
            self.remove(handle)
            target()
            self.assertEqual(hook.seen, ["target"] * (n + 1))

    def test_17_settled_generators(self):
        def target():
            yield 1

        hook = self.recorder(target, answer=self.SETTLED)
        self.add(hook)
        for _ in range(WARM):
            self.assertEqual(list(target()), [1])
        self.assertEqual(hook.seen, ["target"])

    @unittest.skipIf(FREE_THREADED, "3.13 does not specialize without the GIL")
    def test_17_settled_code_is_specialized_again(self):
        class Kinds:
            def __init__(self):
                self.x = 1

            @property
            def attribute(self):
                return self.x

            def __getitem__(self, index):
                return index

        def leaf(a):
            return a

        def target(n):
            for i in range(n):
                leaf(i)
                Kinds().attribute
                Kinds()[i]

        for _ in range(5):
            target(WARM)
        expected = {function.__qualname__: specialized(function)
                    for function in (leaf, target, Kinds.__init__, Kinds.attribute.fget, Kinds.__getitem__)}
        for name, opcodes in expected.items():
            self.assertIn("RESUME_CHECK", opcodes, name)
        asked = []

        def hook(view):
            asked.append(view.code)
            return self.SETTLED

        self.add(hook)
        # More than one, of whom each has settled.
        self.add(lambda view: self.SETTLED)
        for _ in range(5):
            target(WARM)
        for function in (leaf, target, Kinds.__init__, Kinds.attribute.fget, Kinds.__getitem__):
            self.assertEqual(specialized(function), expected[function.__qualname__])
            self.assertEqual(sum(code is function.__code__ for code in asked), 1)


class CoexistencePoints:
    """Points 18 and 19."""

    # 18. A PEP 523 evaluator and the perf trampoline go on working, after the hooks.

    def test_18_an_evaluator_gets_the_frame_after_the_hooks(self):
        def target(a):
            return "original", a

        def generator():
            yield "original"

        new = code_named("replaced", "def replaced(a): return 'replaced', a")
        new_generator = code_named("replaced_generator", "def replaced_generator(): yield 'replaced'")
        names = []
        hook = self.replacer((target, new), (generator, new_generator))
        handle = self.add(hook)
        framehooks.evaluations(names)
        framehooks.set_evaluator("count")
        try:
            for _ in range(WARM):
                del names[:]
                results = target(1), list(generator()), list(map(target, [2]))
        finally:
            framehooks.set_evaluator(None)
            framehooks.evaluations(None)
        self.assertEqual(results, (("replaced", 1), ["replaced"], [("replaced", 2)]))
        self.assertEqual(names.count("replaced"), 2)
        self.assertIn("replaced_generator", names)
        self.assertNotIn(target.__qualname__, names)
        self.assertNotIn(generator.__qualname__, names)
        self.assertGreaterEqual(self.info(handle)["replacements"], 3 * WARM)

    def test_18_a_hook_that_fails_before_an_evaluator(self):
        def target():
            self.fail("it ran")

        def fail(view):
            if view.code is target.__code__:
                raise KeyError("refused")

        names = []
        self.add(fail)
        framehooks.evaluations(names)
        framehooks.set_evaluator("count")
        try:
            for _ in range(WARM):
                try:
                    target()
                except KeyError as error:
                    caught = positions(error)
        finally:
            framehooks.set_evaluator(None)
            framehooks.evaluations(None)
        self.assertEqual([name for name, _, _ in caught][0], sys._getframe().f_code.co_name)
        self.assertNotIn(target.__qualname__, names)

    def test_18_a_settled_hook_beside_an_evaluator(self):
        def target():
            pass

        hook = self.recorder(target, answer=self.SETTLED)
        self.add(hook)
        names = []
        framehooks.evaluations(names)
        framehooks.set_evaluator("count")
        try:
            for _ in range(WARM):
                target()
        finally:
            framehooks.set_evaluator(None)
            framehooks.evaluations(None)
        self.assertEqual(hook.seen, ["target"])
        self.assertEqual(names.count(target.__qualname__), WARM)

    # 19. A hook can read arguments without making a frame object or changing the frame.

    def test_19_reading(self):
        def target(a, /, b, *rest, k, **others):
            unset = 1
            cell = lambda: (a, unset)
            return a, b, rest, k, others, cell

        def closure():
            return outer
        outer = 1
        read = []

        def hook(view):
            if view.code is target.__code__:
                read.append({
                    "function": view.function, "globals": view.globals, "builtins": view.builtins,
                    "names": view.argument_names, "arguments": view.arguments(),
                    "by index": [view.argument(i) for i in range(5)],
                    "by name": [view.argument(name) for name in ("a", "b", "k", "rest", "others")],
                })
            elif view.code is closure.__code__:
                read.append((view.argument_names, view.arguments()))

        self.add(hook)
        thing = Thing()
        result = target(thing, 2, 3, 4, k=5, z=6)
        self.assertEqual(result[:5], (thing, 2, (3, 4), 5, {"z": 6}))
        facts = read.pop()
        self.assertIs(facts["function"], target)
        self.assertIs(facts["globals"], globals())
        self.assertIs(facts["builtins"], target.__builtins__)
        # As in co_varnames: positional ones, keyword-only ones, *args, **kwargs.
        self.assertEqual(facts["names"], ("a", "b", "k", "rest", "others"))
        expected = [thing, 2, 5, (3, 4), {"z": 6}]
        self.assertEqual(facts["by index"], expected)
        self.assertEqual(facts["by name"], expected)
        self.assertEqual(list(facts["arguments"].items()), list(zip(facts["names"], expected)))
        closure()
        self.assertEqual(read, [((), {})])

    def test_19_reading_what_is_not_there(self):
        def target(a, *, b):
            c = 1
            return c

        errors = []

        def hook(view):
            if view.code is target.__code__:
                for which in (2, 100, -1, -2, -100, sys.maxsize, "c", "x", "", "\ud800"):
                    try:
                        errors.append((which, view.argument(which)))
                    except (IndexError, KeyError) as error:
                        errors.append((which, type(error)))

        self.add(hook)
        target(1, b=2)
        self.assertEqual(errors, [(which, IndexError if isinstance(which, int) else KeyError) for which in
                                  (2, 100, -1, -2, -100, sys.maxsize, "c", "x", "", "\ud800")])

    def test_19_reading_after_a_hook_has_replaced(self):
        def target(a, b):
            return a, b

        new = code_named("target", f"def target(b, a):\n {MANY} = 1\n return (lambda: (a, b))()")
        read = []

        def hook(view):
            if view.code is new:
                read.append((view.function, view.argument_names, view.arguments(), view.argument("a")))

        self.add(self.replacer((target, new)))
        self.add(hook)
        self.assertEqual(target(1, 2), (1, 2))
        self.assertEqual(read, [(target, ("b", "a"), {"b": 2, "a": 1}, 1)])

    def test_19_reading_parameters_in_cells(self):
        def target(a, *b, c, **d):
            return (lambda: (a, b, c, d))()

        read = []
        self.add(lambda view: read.append(view.arguments()) if view.code is target.__code__ else None)
        for _ in range(WARM):
            self.assertEqual(target(1, 2, c=3, e=4), (1, (2,), 3, {"e": 4}))
        self.assertEqual(read, [{"a": 1, "c": 3, "b": (2,), "d": {"e": 4}}] * WARM)

    @unittest.skipIf(FREE_THREADED, "counts blocks of the object allocator, which 3.13t has not")
    def test_19_no_frame_object_is_made(self):
        def target(a, b):
            return a, b

        allocated = sys.getallocatedblocks
        grown = []

        def hook(view):
            if view.code is target.__code__:
                # The numbers themselves are blocks: as many in the first pair as in the second.
                first = allocated()
                second = allocated()
                view.argument(0)
                view.argument("b")
                view.code
                view.function
                third = allocated()
                grown.append((second - first, third - second))

        self.add(hook)
        for _ in range(WARM):
            target("x", "y")
        plain, reading = zip(*grown[-20:])
        self.assertEqual(max(reading), max(plain))

    def test_19_reading_does_not_change_the_frame(self):
        def target(a, *rest, **others):
            return sys.getrefcount(a), sys.getrefcount(rest), sys.getrefcount(others)

        def read(view):
            if view.code is target.__code__:
                view.arguments()
                view.argument(0), view.argument("rest"), view.function, view.globals, view.builtins

        expected = target(Thing(), 1, b=2)
        self.add(read)
        for _ in range(WARM):
            self.assertEqual(target(Thing(), 1, b=2), expected)


@needs_hooks
class PythonOrderAndAnswer(PythonFace, OrderAndAnswerPoints, HookTestCase):
    def test_04_incompatible_code_error_is_a_value_error(self):
        self.assertTrue(issubclass(framecore.IncompatibleCodeError, ValueError))


@needs_hooks
class COrderAndAnswer(CFace, OrderAndAnswerPoints, HookTestCase):
    pass


@needs_hooks
class PythonReplacement(PythonFace, ReplacementPoints, HookTestCase):
    pass


@needs_hooks
class CReplacement(CFace, ReplacementPoints, HookTestCase):
    pass


@needs_hooks
class PythonAsking(PythonFace, AskingPoints, HookTestCase):
    pass


@needs_hooks
class CAsking(CFace, AskingPoints, HookTestCase):
    pass


@needs_hooks
class PythonCost(PythonFace, CostPoints, HookTestCase):
    pass


@needs_hooks
class CCost(CFace, CostPoints, HookTestCase):
    pass


@needs_hooks
class PythonCoexistence(PythonFace, CoexistencePoints, HookTestCase):
    pass


@needs_hooks
class CCoexistence(CFace, CoexistencePoints, HookTestCase):
    pass


@needs_hooks
class Interpreters(ProgramTestCase):
    """Point 12 is about whole interpreters: a fresh process for each."""

    # 12. Per interpreter; released before the interpreter's last garbage collection.

    RELEASED = """
import gc, sys, _framecore

class Watched:
    def __init__(self, name):
        self.name = name
    def __call__(self, view):
        pass
    def __del__(self):
        # Everything still works: this is not yet the end.
        print("released", self.name, len([x for x in range(3)]), flush=True)

sys.path.append(sys.argv[1])
import framehooks
hook = Watched("Python")
hook.cycle = hook
_framecore.add_frame_hook(hook)
del hook
framehooks.add_extended(Watched("C"), "watched")
print("end of the program")
"""

    def test_12_released_at_the_end(self):
        out = self.assert_program_succeeds(self.RELEASED, os.path.dirname(framehooks.__file__))
        lines = out.splitlines()
        self.assertEqual(lines[0], "end of the program")
        self.assertEqual(sorted(lines[1:]), ["released C 3", "released Python 3"])

    SUBINTERPRETERS = """
import sys, _framecore, _interpreters
seen = []
_framecore.add_frame_hook(lambda view: seen.append(view.code.co_name))

other = _interpreters.create()
def run(source):
    problem = _interpreters.exec(other, source)
    assert problem is None, problem

run('''if True:
    import _framecore
    assert _framecore.frame_hooks() == []
    def target():
        return 1
    assert target() == 1
    own = []
    _framecore.add_frame_hook(lambda view: own.append(view.code.co_name))
    target()
    assert own[-1] == "target", own
    class Released:
        def __call__(self, view):
            pass
        def __del__(self):
            print("released in the other", flush=True)
    _framecore.add_frame_hook(Released())
    assert len(_framecore.frame_hooks()) == 2
''')
assert "target" not in seen, seen
assert len(_framecore.frame_hooks()) == 1
def mine():
    pass
del seen[:]
mine()
assert seen == ["mine"], seen
_interpreters.destroy(other)
print("destroyed", flush=True)
mine()
assert seen[-1] == "mine"
"""

    def test_12_per_interpreter(self):
        out = self.assert_program_succeeds(self.SUBINTERPRETERS)
        self.assertEqual(out.splitlines(), ["released in the other", "destroyed"])

    # 16. Without C recursion: far deeper than the C stack would allow.

    DEEP = """
import sys, _framecore
sys.path.append(sys.argv[1])
import framehooks
sys.setrecursionlimit(110_000)

def down(n):
    return down(n - 1) + 1 if n else 0

copy = down.__code__.replace(co_stacksize=down.__code__.co_stacksize + 3)
assert down(100_000) == 100_000
asked = 0

def count(view):
    global asked
    asked += view.code is down.__code__

def replace(view):
    return copy if view.code is down.__code__ else None

for hook in (count, replace):
    _framecore.add_frame_hook(hook)
    assert down(100_000) == 100_000
    _framecore.remove_frame_hook(hook)
    print(hook.__name__, asked)
for add, what in ((framehooks.add_native, "pass"), (framehooks.add_replacer, {down.__code__: copy})):
    handle = add(what)
    assert down(100_000) == 100_000
    framehooks.remove(handle)
    print("C")
"""

    def test_16_recursion_of_100_000(self):
        out = self.assert_program_succeeds(self.DEEP, os.path.dirname(framehooks.__file__))
        self.assertEqual(out.splitlines(), ["count 100001", "replace 100001", "C", "C"])

    # 18. The perf trampoline.

    TRAMPOLINE = """
import sys, _framecore
def target():
    return "original"
namespace = {}
exec("def target(): return 'replaced'", namespace)
new = namespace["target"].__code__
old = target.__code__
_framecore.add_frame_hook(lambda view: new if view.code is old else None)
sys.activate_stack_trampoline("perf")
results = {target() for _ in range(300)} | set(map(lambda x: target(), range(300)))
assert sys.is_stack_trampoline_active()
sys.deactivate_stack_trampoline()
results |= {target() for _ in range(300)}
print(sorted(results))
"""

    def test_18_the_perf_trampoline_goes_on_working(self):
        if not sysconfig.get_config_var("PY_HAVE_PERF_TRAMPOLINE"):
            self.skipTest("no perf trampoline on this platform")
        self.assertEqual(self.assert_program_succeeds(self.TRAMPOLINE).strip(), "['replaced']")


if __name__ == "__main__":
    unittest.main()
