"""Frame hooks, promises 1 to 4: the order in which hooks are called, and what each answer does."""

import sys
import weakref

from hook_promises import failure, positions
from support import WARM, CApi, HookTestCase, PythonApi, Thing, code_named, code_of, framecore, in_new_thread, needs_hooks, use_extensions

use_extensions()
import foreignchunk


class OrderAndAnswerPoints:
    """Promises 1 to 4."""

    # 1. Hooks run in registration order; each sees the code that the one before chose.

    def test_01_order_of_registration(self):
        def target():
            pass

        entries = []

        def note(mark):
            def hook(view):
                if view.code is target.__code__:
                    entries.append(mark)
            return hook

        handles = [self.add(note(mark)) for mark in range(5)]
        target()
        self.assertEqual(entries, [0, 1, 2, 3, 4])
        self.assertEqual([info["id"] for info in framecore.frame_hooks()], handles)
        self.remove(handles[2])
        self.add(note("again"))
        del entries[:]
        target()
        self.assertEqual(entries, [0, 1, 3, 4, "again"])

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
        counted = (target, target.__code__, generator, closure, closure.__closure__[0])
        counts = list(map(sys.getrefcount, counted))
        for _ in range(WARM):
            with self.assertRaises(KeyError):
                target(watched[0], watched[1], watched[2], c=watched[3], d=watched[4])
            with self.assertRaises(LookupError):
                generator(watched[0])
            with self.assertRaises(ValueError):
                closure()
        self.assertEqual(list(map(sys.getrefcount, counted)), counts)
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

    def test_03_a_later_hook_is_not_called(self):
        def target():
            pass

        later = self.recorder(target)
        self.add(self.failing(target))
        self.add(later)
        with self.assertRaises(KeyError):
            target()
        self.assertEqual(later.seen, [])

    # 4. Code that cannot stand in raises an error of its own class, and changes nothing.

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
        "an asynchronous generator for a coroutine": ("async def t(): pass",
                                                      "async def t(): yield"),
        "an asynchronous generator for a generator": ("def t(): yield", "async def t(): yield"),
        "a class body": ("def t(): pass", "class t: pass"),
        "a free variable": ("def t(): pass", "def outer(x):\n def t(): x\n return t"),
        "no free variable": ("def outer(x=1):\n def t(): x\n return t\nt = outer()",
                             "def t(): pass"),
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


@needs_hooks
class PythonOrderAndAnswer(PythonApi, OrderAndAnswerPoints, HookTestCase):
    def test_04_incompatible_code_error_is_a_value_error(self):
        self.assertTrue(issubclass(framecore.IncompatibleCodeError, ValueError))


@needs_hooks
class COrderAndAnswer(CApi, OrderAndAnswerPoints, HookTestCase):
    pass
