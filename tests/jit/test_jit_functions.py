"""Functions in local variables, parameters and cells that compiled code calls."""

import jit_support
from jit_support import ClosureCase, define

setUpModule = jit_support.load


class Functions(ClosureCase):
    """As parameters and in local variables."""

    def test_a_parameter_is_called(self):
        source = """
            def make():
                def apply(f, n, x):
                    for i in range(n): x = f(x, i)
                    return x, f
                def call(kind, n, x):
                    k = kind
                    if kind == 0: return apply(lambda x, i: x + i, n, x)[0]
                    if kind == 1: return apply(lambda x, i: x * k + i, n, x)[0]
                    if kind == 2: return apply(max, n, x)[0]
                    return apply(None, n, x)[0]
                return call, apply
        """
        call, apply = self.both(source, [(0, (kind, n, x)) for kind in (0, 1, 2, 3) for n in (0, 2, 5) for x in (1, 0.5, 2**62)])
        self.entered(apply)

    def test_a_global_function_is_passed(self):
        space = define("""
            def square(x): return x * x
            def apply(f, x): return f(x) + 1
            def f(n):
                t = 0
                for i in range(n): t += apply(square, i)
                return t
        """)
        self.compiled(space.f, 5)
        self.assertEqual(space.f(5), 35)
        self.assertGreater(self.jit.stats(space.f)["entered"], 1)
        space.globals["square"] = lambda x: -x
        self.assertEqual(space.f(5), -5)
        space.square.__code__ = (lambda x: x).__code__
        self.assertEqual(space.f(5), -5)

    def test_functions_of_one_code(self):
        space = define("""
            def make(k): return lambda x: x + k
            def f(g, h, n):
                t = 0
                for i in range(n):
                    t += g(i) * h(i)
                    g, h = h, g
                return t, g is h
        """)
        one, two = space.make(1), space.make(2)
        self.compiled(space.f, one, two, 3)
        self.assertEqual(space.f(one, two, 4), (2 + 6 + 12 + 20, False))
        self.assertEqual(space.f(one, one, 2), (1 + 4, True))
        self.assertEqual(space.f(one, space.make(0.5), 2), (0.5 + 3.0, False))

    def test_arguments_by_keyword_and_defaults(self):
        f, = self.both("""
            def make():
                k = 3
                def step(a, b, *, c): return a * 100 + b * 10 + c + k
                def f(n): return step(b=n, a=1, c=n) + step(n, 1, c=2)
                return f
        """, [(0, (n,)) for n in (1, 2, 9)])
        self.entered(f)

    def test_a_frame_of_a_function_that_is_gone(self):
        # What is released where compiled code is left removes the last reference but that of the frame.
        f, = self.both("""
            def make():
                def step(n):
                    x = n * 3
                    return 100 // (n - 2) + x
                def f(n):
                    g = step
                    t = 0
                    for i in range(n): t += g(i)
                    return t
                return f
        """, [(0, (n,)) for n in (1, 2, 5)])
        self.entered(f)


class Loops(ClosureCase):
    """Running loops that call functions in cells and variables."""

    def loop(self, source, *arguments):
        made = self.running(source, *arguments)
        self.assertTrue(self.jit.stats(made.f).get("loops"), self.jit.explain(made.f))
        self.entered(made.f)
        return made

    def test_an_inner_function_reads(self):
        made = self.loop("""
            def f(n):
                base, total = 3, 0
                def step(x): return x * base
                def show(): return total
                for i in range(n):
                    total += step(i)
                    if i % 500 == 0: base += 1
                return total, base, show(), step(1)
        """, 4000)
        loops = len(self.jit.stats(made.f)["loops"])
        # The functions are others in each call.
        for _ in range(3):
            made.f(2500)
        self.assertEqual(len(self.jit.stats(made.f)["loops"]), loops)

    def test_an_inner_function_reads_what_the_loop_stores(self):
        for start in ("0", "0.5", "None", "[1, 2]"):
            self.loop(f"""
                def f(n):
                    x = {start}
                    def step(i): return i if x is None else i + 1
                    total = 0
                    for i in range(n):
                        total += step(i)
                        if i % 300 == 299: x = i if i < 1900 else None
                    return total, x
            """, 4000)

    def test_an_inner_function_stores(self):
        self.running("""
            def f(n):
                x = 0
                def step(i):
                    nonlocal x
                    x += i
                    return x
                total = 0
                for i in range(n): total += step(i)
                return total, x
        """, 4000, times=3)

    def test_an_exception_in_an_inner_function(self):
        self.loop("""
            def f(n):
                base = 2000
                def step(i):
                    k = i
                    return 10 // (base - i)
                total = 0
                for i in range(n):
                    total += step(i)
                    if i == 50: base += 1
                return total
        """, 3000)

    def test_a_function_in_a_local_variable_changes(self):
        self.loop("""
            def f(n):
                def one(i): return i + 1
                def two(i): return i * 0.5
                g, total = one, 0
                for i in range(n):
                    total += g(i)
                    if i == 1500: g = two
                    if i == 2500: g = abs
                return total
        """, 4000)

    def test_a_module_level_loop_calls_a_closure(self):
        code = compile("def make(k): return lambda n: n * k\ntriple = make(3)\nt = 0\nfor i in range(4000): t += triple(i)\n", "<module>", "exec")
        space = {}
        exec(code, space)
        self.assertEqual(space["t"], 3 * sum(range(4000)))
        self.assertGreater(self.jit.stats(code)["entered"], 0, self.jit.explain(code))
