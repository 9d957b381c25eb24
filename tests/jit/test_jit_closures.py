"""Variables of enclosing functions."""

import gc
import sys
import threading
import types
import weakref

import jit_support
from jit_support import ClosureCase, define, run_alone
from surroundings import alarms

setUpModule = jit_support.load


class Closures(ClosureCase):
    def test_numbers_and_containers(self):
        f, = self.both("""
            def make(a=3, b=0.5, c=[1, 2, 3], d=b"ab", e=None, g=True):
                def f(n):
                    total = 0
                    for i in range(n): total += a * i + b + c[i % 3] + d[i & 1] + (7 if e is None else 0) + g
                    return total, a, b, c, d, e, g
                return f
        """, [(0, (n,)) for n in (0, 1, 5)])
        self.entered(f)
        self.assertTrue(self.jit.stats(f)["versions"], self.jit.explain(f))

    def test_what_is_returned_is_the_object(self):
        for value in (10**15, 1.5, -7.25, [1], b"ab", "text", (1, 2), None):
            space = define("def make(value):\n    def f(): return value\n    return f")
            f = self.compiled(space.make(value))
            for _ in range(3):
                self.assertIs(f(), value)
            self.assertGreater(self.jit.stats(f)["entered"], 1)

    def test_a_cell_is_stored(self):
        bump, total, show = self.both("""
            def make():
                count, last = 0, None
                def bump(d):
                    nonlocal count, last
                    count += d
                    last = d
                    return count
                def total(n):
                    before, sums = count, 0
                    for i in range(n): sums += bump(i) - count + count * 2
                    return before, sums, count, last
                def show(): return count, last
                return bump, total, show
        """, [(0, (3,)), (1, (5,)), (2, ()), (0, (0.5,)), (1, (3,)), (2, ()), (0, (2**63 - 1,)), (0, (2**63,)), (1, (2,)), (0, ("x",)), (2, ())])
        self.entered(bump)
        self.entered(total)

    def test_what_was_read_is_released_meanwhile(self):
        # The number that was read first is in the cell alone, and freed by the first store.
        f, = self.both("""
            def make():
                x = 10**15 + 0
                def store(n):
                    nonlocal x
                    x = n * 10**12
                    return x
                def read(): return x
                def f(n):
                    first, other = x, read()
                    a = [store(n + i) for i in range(9)]
                    return first, other, first + 1, a, x, read()
                return f
        """, [(0, (n,)) for n in (1, 2, 5)])
        self.entered(f)

    def test_only_numbers_are_stored(self):
        f, = self.both("""
            def make():
                x = [1]
                def f(n):
                    nonlocal x
                    y = x
                    if n == 3: x = 5
                    if n == 4: x = [n]
                    if n == 5: x = None
                    return x, y
                return f
        """, [(0, (n,)) for n in (0, 3, 4, 4, 5, 3, 0, 4, 0)])
        self.entered(f)

    def test_what_is_dropped_is_noticed(self):
        space = define("""
            class Loud:
                def __del__(self): seen.append(1)
            seen = []
            def make():
                x = None
                def put(value):
                    nonlocal x
                    x = value
                def f(n):
                    nonlocal x
                    x = n
                    return n + 1
                return put, f
        """)
        put, f = space.make()
        self.compiled(f, 1)
        for _ in range(3):
            put(space.Loud())
            before = len(space.seen)
            self.assertEqual((f(3), len(space.seen)), (4, before + 1))

    def test_empty_cells(self):
        f, drop = self.both("""
            def make():
                x = y = 1
                def f(n): return x + n + y
                def drop():
                    nonlocal x
                    del x
                return f, drop
        """, [(0, (1,)), (1, ()), (0, (1,)), (1, ())])
        self.entered(f)
        late, = self.both("""
            def make():
                def f(n):
                    if n > 3: return later
                    return n
                return f
                later = 1
        """, [(0, (n,)) for n in (1, 5, 2)])
        self.entered(late)
        f, = self.both("""
            def make():
                x = 1
                def drop():
                    nonlocal x
                    del x
                drop()
                def f(n):
                    nonlocal x
                    x = n
                    return x
                return f
        """, [(0, (n,)) for n in (1, 5, 2)])
        self.entered(f)

    def test_two_types_and_no_more(self):
        space = define("def make(k):\n    def f(n):\n        t = 0\n        for i in range(n): t += k\n        return t\n    return f\n")
        made = {value: space.make(value) for value in (2, 0.5, True, 2**70, None)}
        made[2](3)
        for function in made.values():
            self.jit.compile_at_next_call(function)
        for _ in range(50):
            self.assertEqual([repr(made[value](4)) for value in (2, 0.5, True, 2**70)], ["8", "2.0", "4", str(2**72)])
            self.assertRaises(TypeError, made[None], 4)
        stats = self.jit.stats(made[2])
        self.assertGreater(stats["entered"], 50)
        self.assertEqual(stats["left"], 0)

    def test_exceptions_have_the_variables(self):
        functions = self.both("""
            def make():
                d, names = 0, []
                def inner(n):
                    k = n + 1
                    return k // (d - n)
                def f(n):
                    t = 0
                    for i in range(n): t += inner(i) + d
                    return t
                def change(value):
                    nonlocal d
                    d = value
                return f, change, inner
        """, [(1, (10,)), (0, (5,)), (1, (3,)), (0, (9,)), (2, (3,)), (1, (2**62,)), (0, (3,)), (1, ("x",)), (0, (3,))])
        self.entered(functions[0])

    def test_recursion_through_cells(self):
        f, other = self.both("""
            def make():
                calls = 0
                def f(n):
                    nonlocal calls
                    calls += 1
                    return n if n < 2 else f(n - 1) + other(n - 2)
                def other(n): return n if n < 2 else f(n - 1) * 2 + calls
                return f, other
        """, [(0, (n,)) for n in (1, 2, 8, 15)] + [(1, (9,))])
        self.entered(f)

    def test_the_recursion_limit(self):
        f, = self.both("def make():\n    def f(n): return 0 if n == 0 else 1 + f(n - 1)\n    return f", [(0, (5,)), (0, (500,))])
        self.assertRaises(RecursionError, f, 10**6)
        self.assertEqual(f(100), 100)

    def test_the_code_of_a_function_in_a_cell_is_assigned(self):
        space = define("""
            def make():
                def step(n): return n + 1
                def f(n): return step(n) * 10
                return f, step
            def other(n): return n - 1
        """)
        f, step = space.make()
        self.compiled(f, 1)
        self.assertEqual(f(5), 60)
        step.__code__ = space.other.__code__
        self.assertEqual(f(5), 40)
        self.assertEqual(f(6), 50)

    def test_a_loop_only_reads_what_its_callee_stores(self):
        for condition, body in (("bump() < n", "i += 1"), ("i < n", "i += bump() > 0"), ("n > (i % (bump() or 1))", "i += 1")):
            made = define(f"""
                def f(n):
                    def bump():
                        nonlocal z
                        z += 1
                        return z
                    z = i = 0
                    while {condition}:
                        {body}
                        if z >= 3000: return i, z
                    return i, z
            """).f
            for _ in range(3):
                self.assertEqual(made(5000), (3000, 3000), condition)
            self.assertGreater(self.jit.stats(made)["entered"], 0)

    def test_code_that_keeps_a_variable_beside_code_whose_callee_stores_it(self):
        # What is compiled first does not reach the call; what is compiled next leaves the variable in its cell; then the first again.
        made = define("""
            def f(a):
                def bump():
                    nonlocal z
                    z += 1
                    return z
                z = 0.5
                seen = i = 0
                while i < 4000:
                    i += 1
                    z = z + 2
                    if a is not None:
                        seen += bump() > 0
                        if i == 3000: a = None
                return i, z, seen
        """).f
        for _ in range(3):
            self.assertEqual(made(None), (4000, 8000.5, 0))
            self.assertEqual(made(1.5), (4000, 11000.5, 3000))
        self.assertGreater(self.jit.stats(made)["entered"], 0)

    def test_a_comprehension_has_a_variable_in_a_cell_of_the_same_name(self):
        for change, around in (("", "lambda: x"), ("x += 2", "lambda: x"), ("x += t", "sum(x + j for j in range(3))")):
            made = self.running(f"""
                def f(n):
                    x, t = 7, 0
                    inner = {around}
                    for i in range(4):
                        r = [sum(x + j for j in range(2)) for x in range(n)]
                        {change}
                        t += x + len(r)
                    for i in range(n):
                        t += x
                    return sum(r), t, x, inner() if callable(inner) else inner
            """, 3000, times=3)
            self.assertTrue(self.jit.stats(made.f).get("entered"), self.jit.explain(made.f))

    def test_a_caller_that_is_called_back_stores_what_was_read(self):
        # The number that `read` returns is in the cell alone, and freed by the store.
        source = """
            def make():
                x = 10**15
                def read(): return x
                def store(n):
                    nonlocal x
                    x = 10**15 + n
                return read, store
            read, store = make()
            def first(n, out):
                if n <= 0: return 0
                store(n)
                return second(n - 1, out)
            def second(n, out):
                v = read()
                first(n, out)
                out.append(10**16 + n)
                out.append(v)
                out.append(10**17 + n)
                return n
        """
        plain, made = define(source), define(source)
        self.compiled(made.first, 5, [0])
        for n in (0, 1, 5, 30):
            outs = [0], [0]
            self.assertEqual(made.first(n, outs[1]), plain.first(n, outs[0]))
            self.assertEqual(outs[1], outs[0])

    def test_another_function_is_put_into_the_cell(self):
        space = define("""
            def make():
                def step(n): return n + 1
                def f(n): return step(n) * 10
                def put(other):
                    nonlocal step
                    step = other
                return f, put
            class Callable:
                def __call__(self, n): return n * n
        """)
        f, put = space.make()
        self.compiled(f, 1)
        for other, wanted in ((lambda n: n - 1, 40), (abs, 50), (space.Callable(), 250), (float, 50.0), (lambda n: "x", "x" * 10)):
            for _ in range(3):
                put(other)
                self.assertEqual(repr(f(5)), repr(wanted))
        put(3)
        self.assertRaisesRegex(TypeError, "not callable", f, 5)

    def test_code_that_is_gone(self):
        # Another function's code is where the first one's was.
        space = define("""
            def make():
                step = None
                def put(other):
                    nonlocal step
                    step = other
                def f(n): return step(n) * 10
                return f, put
        """)
        f, put = space.make()
        put(define("def g(n): return n + 0", **space.globals).g)
        for number in range(40):
            function = eval(f"lambda n: n + {number}", space.globals)
            put(function)
            self.jit.compile_at_next_call(f)
            self.assertEqual(f(1), 10 * (1 + number))
            del function
            gc.collect()

    def test_globals_of_another_module(self):
        space = define("x = 5\ndef make(step):\n    def f(n): return step(n) + x\n    return f")
        other = define("x = 100\ndef step(n): return n + x")
        f = space.make(other.step)
        for _ in range(4):
            self.jit.compile_at_next_call(f)
            self.assertEqual(f(1), 106)
        same = types.FunctionType(other.step.__code__, space.globals)
        f = space.make(same)
        for _ in range(4):
            self.jit.compile_at_next_call(f)
            self.assertEqual(f(1), 11)

    def test_modules_and_builtins_in_cells(self):
        f, = self.both("""
            def make():
                import math
                from math import sqrt
                size, text = abs, str
                def f(n):
                    t = 0.0
                    for i in range(n): t += sqrt(i) + math.floor(i / 2) + size(-i)
                    return t
                return f
        """, [(0, (n,)) for n in (0, 1, 9)])
        self.entered(f)

    def test_a_module_in_a_cell_is_replaced(self):
        space = define("""
            def make(m):
                def f(n): return m.floor(n)
                def put(other):
                    nonlocal m
                    m = other
                return f, put
        """)
        import math
        f, put = space.make(math)
        self.compiled(f, 1.5)
        put(types.SimpleNamespace(floor=lambda n: "other"))
        self.assertEqual(f(1.5), "other")

    def test_nothing_is_kept_alive(self):
        class Thing:
            pass
        space = define("""
            def make(thing, k):
                def step(n): return n + k
                def f(n): return step(n) if thing is not None else f(n - 1)
                return f
        """)
        thing = Thing()
        gone = weakref.ref(thing)
        f = self.compiled(space.make(thing, 1), 3)
        code = weakref.ref(f.__code__)
        del thing, f
        gc.collect()
        self.assertIsNone(gone())
        del space.make, space.globals["make"]
        del space
        gc.collect()
        self.assertIsNone(code())

    def test_a_closure_in_a_global(self):
        space = define("""
            def make(k): return lambda n: n * k
            triple = make(3)
            def f(n):
                t = 0
                for i in range(n): t += triple(i)
                return t
        """)
        self.compiled(space.f, 4)
        self.assertEqual(space.f(5), 30)
        self.assertGreater(self.jit.stats(space.f)["entered"], 1)
        space.globals["triple"] = space.make(0.5)
        self.assertEqual(space.f(5), 5.0)
        space.globals["triple"] = space.make(2)
        self.assertEqual(space.f(5), 20)

    def test_tracers_and_generators(self):
        space = define("""
            def make():
                n = 0
                def step(k):
                    nonlocal n
                    n += k
                    return n
                def f(k):
                    t = 0
                    for i in range(k): t += step(i)
                    return t
                def steps(k):
                    for i in range(k): yield step(i)
                return f, steps, step
        """)
        f, steps, step = space.make()
        self.compiled(f, 4)
        lines = []
        def trace(frame, event, argument):
            if frame.f_code in (f.__code__, step.__code__):
                lines.append(event)
            return trace
        before = step(0)
        sys.settrace(trace)
        try:
            f(3)
        finally:
            sys.settrace(None)
        self.assertEqual((lines.count("call"), lines.count("return")), (4, 4))
        self.assertEqual(step(0), before + 3)
        self.assertEqual(list(steps(4)), [before + 3, before + 4, before + 6, before + 9])
        self.assertEqual(f(2), 2 * before + 19)

    def test_signal_handlers_see_and_change_cells(self):
        space = define("""
            def make():
                n, stop = 0, 0
                def step():
                    nonlocal n
                    n += 1
                    return stop
                def f():
                    while not step(): pass
                    return n
                def look(): return n
                def end(value):
                    nonlocal stop
                    stop = value
                return f, look, end
        """)
        f, look, end = space.make()
        end(1)
        self.compiled(f)
        end(0)
        seen = []
        def handler(number, frame):
            seen.append(look())
            if len(seen) > 3:
                end(2.5)
        with alarms(handler, 0.02):
            result = f()
        self.assertEqual(sorted(seen), seen)
        self.assertGreaterEqual(result, seen[-1])
        self.assertGreater(self.jit.stats(f)["entered"], 1)

    def test_another_thread_stores_a_cell(self):
        space = define("""
            def make():
                stop = 0
                def asked(): return stop
                def f():
                    n = 0
                    while not asked(): n += 1
                    return n
                def end():
                    nonlocal stop
                    stop = 1
                return f, end
        """)
        f, end = space.make()
        end()
        self.compiled(f)
        f, end = space.make()
        self.jit.compile_at_next_call(f)
        results = []
        thread = threading.Thread(target=lambda: results.append(f()))
        thread.start()
        while self.jit.stats(f)["polled"] == 0 and not results:
            pass
        end()
        thread.join()
        self.assertGreater(results[0], 255)

    def test_without_memory(self):
        run_alone("""
            import _testcapi
            def make():
                x = 10**15
                def store(n):
                    nonlocal x
                    x = n * 10**12
                    return x
                def f(n):
                    t = 0
                    for i in range(n): t += store(i)
                    return t
                return f
            f = make()
            f(3)
            ferrule_jit.compile_at_next_call(f)
            wanted = f(9)
            assert ferrule_jit.stats(f)["entered"] == 1
            for first in range(1, 30):
                _testcapi.set_nomemory(first, first + 2)
                try:
                    result = f(9)
                except MemoryError:
                    result = wanted
                finally:
                    _testcapi.remove_mem_hooks()
                assert result == wanted, first
        """)
