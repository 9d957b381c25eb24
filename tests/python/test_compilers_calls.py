"""Functions whose vectorcall was set: every kind of call site calls it, before it was warm and after, and the interpreter again
once the function was given back."""

import contextlib
import dis
import sys
import traceback
import types
import unittest

from call_sites import ANSWER, init_sites, sites
from support import FREE_THREADED, _testcapi, needs_failing_allocations, needs_hooks, use_extensions

use_extensions()
try:
    import compilers
    import framehook
except ImportError:     # stock CPython
    framehook = None

WARM = 300
CALLS = 500


def opnames(function):
    return {instruction.opname for instruction in dis.get_instructions(function, adaptive=True)}


class Cases(unittest.TestCase):
    def setUp(self):
        compilers.set_answer(ANSWER)

    def warm(self, call):
        for _ in range(WARM):
            call()

    def calls_of(self, call, times=CALLS):
        """What a site returns, each time the same, and how many of the calls the vectorcall has got."""
        before = compilers.called()
        first = call()
        for _ in range(times - 1):
            self.assertEqual(call(), first)
        return first, compilers.called() - before


@needs_hooks
class EverySite(Cases):
    def test_warm_and_cold_before_while_and_after(self):
        for index, (name, *_) in enumerate(sites()):
            for warm in (0, WARM):
                for back in ("restored", "restored twice", "replaced first"):
                    with self.subTest(name, warm=warm, back=back):
                        _, function, call, result, answer = sites()[index]
                        for _ in range(warm):
                            self.assertEqual(call(), result)
                        compilers.set_vectorcall(function, "answer")
                        self.assertFalse(compilers.is_interpreted(function))
                        if answer is None:
                            compilers.set_answer(None)
                        if name == "@f" or name == "with o":
                            self.assertIs(call(), ANSWER)
                        self.assertEqual(self.calls_of(call), (answer, CALLS))
                        compilers.set_answer(ANSWER)
                        if back == "replaced first":
                            compilers.set_vectorcall(function, "pass_on")
                            self.assertEqual(self.calls_of(call), (result, CALLS))
                        compilers.restore(function)
                        if back == "restored twice":
                            version = compilers.version(function)
                            compilers.restore(function)
                            self.assertEqual(compilers.version(function), version)
                        self.assertTrue(compilers.is_interpreted(function))
                        self.assertNotEqual(compilers.version(function), 0)
                        self.assertEqual(self.calls_of(call), (result, 0))
                        compilers.set_vectorcall(function, "pass_on")
                        self.assertEqual(self.calls_of(call), (result, CALLS))

    def test_init(self):
        for index, (name, *_) in enumerate(init_sites()):
            for warm in (0, WARM):
                with self.subTest(name, warm=warm):
                    _, init, call = init_sites()[index]
                    for _ in range(warm):
                        made = call()
                    compilers.set_answer(None)
                    compilers.set_vectorcall(init, "answer")
                    before = compilers.called()
                    for _ in range(CALLS):
                        made = call()
                        self.assertFalse(hasattr(made, "a"))
                    self.assertEqual(compilers.called() - before, CALLS)
                    compilers.set_vectorcall(init, "pass_on")
                    for _ in range(CALLS):
                        made = call()
                        self.assertIn(made.a, (1, 2))
                    self.assertEqual(compilers.called() - before, 2 * CALLS)
                    compilers.restore(init)
                    for _ in range(CALLS):
                        self.assertIn(call().a, (1, 2))
                    self.assertEqual(compilers.called() - before, 2 * CALLS)


@needs_hooks
class What(Cases):
    """What a vectorcall gets, and what becomes of what it returns."""

    def test_arguments(self):
        def f(*args, **names): pass

        class C:
            def m(self, *args, **names): pass
        o = C()
        bound = o.m
        cases = [(f, lambda: f(), ((), None)), (f, lambda: f(1, 2), ((1, 2), None)), (f, lambda: f(1, a=2), ((1, 2), ("a",))),
                 (f, lambda: f(*(1, 2), **{"b": 3}), ((1, 2, 3), ("b",))), (C.m, lambda: o.m(1), ((o, 1), None)),
                 (C.m, lambda: bound(1), ((o, 1), None)), (C.m, lambda: bound(1, a=2), ((o, 1, 2), ("a",))),
                 (C.m, lambda: C.m(o), ((o,), None))]
        for function, call, expected in cases:
            for warm in (False, True):
                compilers.restore(function)
                if warm:
                    self.warm(call)
                compilers.set_vectorcall(function, "arguments")
                for _ in range(WARM):
                    self.assertEqual(call(), expected)

    def test_an_exception(self):
        def f(): pass

        def calls():
            f()
        for warm in (False, True):
            if warm:
                compilers.restore(f)
                self.warm(calls)
            compilers.set_vectorcall(f, "fail")
            for _ in range(WARM):
                try:
                    calls()
                except ZeroDivisionError as error:
                    lines = [(frame.name, frame.lineno) for frame in traceback.extract_tb(error.__traceback__)]
                self.assertEqual(lines[1:], [("calls", calls.__code__.co_firstlineno + 1)])

    def test_an_exception_of_an_item_and_of_a_getter(self):
        class C:
            def __getitem__(self, key): return 1
            @property
            def p(self): return 2

        def calls(o):
            return [0, (o[2],
                        o.p)]
        for function, line in ((C.__getitem__, 1), (C.p.fget, 2)):
            for warm in (False, True):
                if warm:
                    compilers.restore(function)
                    self.warm(lambda: calls(C()))
                compilers.set_vectorcall(function, "fail")
                for _ in range(WARM):
                    try:
                        calls(C())
                    except ZeroDivisionError as error:
                        last = traceback.extract_tb(error.__traceback__)[-1]
                    self.assertEqual((last.name, last.lineno), ("calls", calls.__code__.co_firstlineno + line))
                    del last
            compilers.restore(function)

    def test_a_class_that_the_call_changes(self):
        """The function that is called is freed by the call, its container is on the stack alone."""
        def of_class(called):
            class C:
                def __getitem__(self, key): return called(C, key)
                @property
                def p(self): return called(C, "p")
            return C

        def change(cls, key):
            del cls.__getitem__, cls.p
            return key
        for warm, item, attribute in ((warm, lambda o: o[5], lambda o: o.p) for warm in (False, True)):
            for call, expected in ((item, 5), (attribute, "p")):
                for _ in range(WARM if warm else 0):
                    call(of_class(lambda cls, key: key)())
                for _ in range(10):
                    cls = of_class(change)
                    one = of_class(lambda cls, key: key)()
                    for function in (cls.__getitem__, cls.p.fget, type(one).__getitem__, type(one).p.fget):
                        compilers.set_vectorcall(function, "pass_on")
                    del function
                    self.assertEqual([call(one) for _ in range(WARM)], [expected] * WARM)
                    self.assertEqual(call(cls()), expected)
                    self.assertRaises((AttributeError, TypeError), call, cls())

    def test_a_property_that_gets_another_getter(self):
        for other, expected in ((lambda self: 2, 2), (len, TypeError), (None, AttributeError)):
            class C:
                @property
                def p(self): return 1
            o, getter = C(), C.p.fget
            call = types.FunctionType((lambda: o.p).__code__.replace(), globals(), closure=(types.CellType(o),))
            self.warm(call)
            compilers.set_vectorcall(getter, "pass_on")
            self.assertEqual(self.calls_of(call), (1, CALLS))
            C.p.__init__(other)
            for _ in range(WARM):
                try:
                    found = call()
                except Exception as error:
                    found = type(error)
                self.assertEqual(found, expected)

    def test_init_that_returns_something_or_fails(self):
        class C:
            def __init__(self): pass

            def __del__(self):
                deleted.append(1)
        deleted = []
        self.warm(lambda: C())

        def make():
            return C()
        self.warm(make)
        for kind, error, text in (("answer", TypeError, r"__init__\(\) should return None, not 'str'"),
                                  ("fail", ZeroDivisionError, "compiled")):
            compilers.set_vectorcall(C.__init__, kind)
            deleted.clear()
            for _ in range(WARM):
                with self.assertRaisesRegex(error, f"^{text}$"):
                    make()
            self.assertEqual(len(deleted), WARM)

    def test_references(self):
        class Thing:
            pass

        def f(a, b): return a

        class C:
            def __init__(self, a): pass
            def m(self, a): return a
            def __getitem__(self, key): return key
            @property
            def p(self): return thing
        o, thing = C(0), Thing()
        bound = o.m
        calls = [lambda: f(thing, b=thing), lambda: f(thing, thing), lambda: o.m(thing), lambda: bound(thing), lambda: C(thing),
                 lambda: o[thing], lambda: o.p, lambda: C(0)[thing], lambda: C(0).p]
        functions = f, C.m, C.__init__, C.__getitem__, C.p.fget
        counts = []
        for kind in ("pass_on", "pass_on", "answer", "none", "fail", "pass_on"):
            for function in functions:
                compilers.set_vectorcall(function, kind)
            compilers.set_answer(None)
            for call in calls * WARM:
                with contextlib.suppress(ZeroDivisionError):
                    call()
            counts.append([sys.getrefcount(it) for it in (thing, o, bound, *functions)])
        self.assertEqual(counts[1:], counts[:-1])

    @needs_failing_allocations
    def test_init_where_an_allocation_fails(self):
        class Thing:
            pass

        class C:
            def __init__(self, a):
                self.a = (a,)   # for a list that cannot be made CPython without the GIL releases its items twice

            def __del__(self):
                deleted.append(1)
        thing, deleted = Thing(), []

        def make():
            return C(thing)
        self.warm(make)
        for kind in ("none", "pass_on", "fail"):
            compilers.set_vectorcall(C.__init__, kind)
            before, ends = sys.getrefcount(thing), set()
            for number in range(20):
                deleted.clear()
                made = None
                _testcapi.set_nomemory(number, number + 1)
                try:
                    made = make()
                    end = None
                except (MemoryError, ZeroDivisionError) as error:
                    end = type(error)
                finally:
                    _testcapi.remove_mem_hooks()
                ends.add(end)
                self.assertIs(type(made), C if end is None else type(None))
                del made
                self.assertEqual(sys.getrefcount(thing), before)
            self.assertLessEqual({MemoryError, ZeroDivisionError if kind == "fail" else None}, ends)

    def test_the_recursion_limit(self):
        def f(n):
            return 0 if n == 0 else f(n - 1) + 1
        for _ in range(WARM):
            f(2)
        compilers.set_vectorcall(f, "pass_on")
        self.assertEqual(f(50), 50)
        with self.assertRaises(RecursionError):
            f(10**6)
        compilers.restore(f)
        self.assertEqual(f(50), 50)
        with self.assertRaises(RecursionError):
            f(10**6)

    def test_a_function_that_is_given_back_within_its_own_call(self):
        def f(depth):
            if depth == 1:
                compilers.restore(f)
            return depth and f(depth - 1)
        for _ in range(WARM):
            compilers.set_vectorcall(f, "pass_on")
            before = compilers.called()
            f(3)
            self.assertEqual(compilers.called() - before, 3)

    def test_what_is_no_function(self):
        for thing in (len, 1, WARM.__add__, int):
            with self.assertRaisesRegex(TypeError, "^a Python function is expected$"):
                compilers.restore(thing)


@needs_hooks
@unittest.skipIf(FREE_THREADED, "nothing is specialized without the GIL")
class Specialized(Cases):
    def test_a_specialized_call_while_and_after(self):
        def f(): pass

        def g(a): pass

        class C:
            def m(self): pass
        o = C()
        bound = o.m

        def plain(): f()
        def method(): o.m()
        def of_bound(): bound()
        def other(): g(1)
        for call, function in ((plain, f), (method, C.m), (of_bound, C.m), (other, g)):
            for _ in range(2):
                for _ in range(WARM):
                    call()
                self.assertTrue(opnames(call) & {"CALL_PY_EXACT_ARGS", "CALL_BOUND_METHOD_EXACT_ARGS"}, opnames(call))
                compilers.set_vectorcall(function, "none")
                for _ in range(WARM):
                    call()
                self.assertIn("CALL_NON_PY_GENERAL", opnames(call))
                compilers.restore(function)

    def test_the_way_back_that_every_cpython_has_stays_unspecialized(self):
        def f(): pass

        def call(): f()
        for _ in range(WARM):
            call()
        compilers.set_vectorcall(f, "none")
        for _ in range(WARM):
            call()
        compilers.set_interpreted(f)
        self.assertEqual(compilers.version(f), 0)
        for _ in range(WARM):
            call()
        self.assertIn("CALL", opnames(call))
        compilers.restore(f)
        for _ in range(20 * WARM):  # the site has failed before, so it waits longer
            call()
        self.assertIn("CALL_PY_EXACT_ARGS", opnames(call))

    def test_versions_are_new(self):
        def f(): pass
        versions = {compilers.version(f)}
        for _ in range(10):
            compilers.set_vectorcall(f, "none")
            self.assertEqual(compilers.version(f), 0)
            compilers.restore(f)
            versions.add(compilers.version(f))
        self.assertEqual(len(versions), 11)

    def test_hooks_are_dispatched_again_for_a_function_that_was_given_back(self):
        seen = []

        def f(): pass

        def hook(view):
            if view.code is f.__code__:
                seen.append(1)

        def call(): f()
        for _ in range(WARM):
            call()
        with framehook.hook(hook):
            compilers.set_vectorcall(f, "none")
            for _ in range(WARM):
                call()
            self.assertEqual(len(seen), 0)
            compilers.restore(f)
            for _ in range(WARM):
                call()
            self.assertEqual(len(seen), WARM)
