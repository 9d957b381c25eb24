"""Operators of instances."""

import jit_support
from jit_support import what_happens
from test_jit_objects import ObjectCase

setUpModule = jit_support.load

BINARY = {"+": "add", "-": "sub", "*": "mul", "/": "truediv", "//": "floordiv", "%": "mod", "<<": "lshift", ">>": "rshift", "&": "and", "|": "or", "^": "xor",
          "@": "matmul"}
COMPARISONS = {"<": "lt", "<=": "le", "==": "eq", "!=": "ne", ">": "gt", ">=": "ge"}
VECTOR = """
    class Vector:
        def __init__(self, x, y): self.x, self.y = x, y
        def __repr__(self): return f"Vector({self.x}, {self.y})"
        def __add__(self, other): return Vector(self.x + other.x, self.y + other.y)
        def __sub__(self, other): return Vector(self.x - other.x, self.y - other.y)
        def __mul__(self, by): return Vector(self.x * by, self.y * by)
        def __rmul__(self, by): return Vector(by * self.x, by * self.y)
        def __neg__(self): return Vector(-self.x, -self.y)
        def __lt__(self, other): return self.x < other.x
        def __eq__(self, other):
            if not isinstance(other, Vector):
                return NotImplemented
            return self.x == other.x and self.y == other.y
"""


def methods(names, body, template="__{}__"):
    return "".join(f"        def {template.format(name)}(self, other): {body.format(name=name)}\n" for name in names)


class Compiled(ObjectCase):
    def test_vectors(self):
        self.same("""
    def arguments():
        return Vector(1.5, 2.0), Vector(-0.25, 4.0)
    def f(v, w):
        total = Vector(0.0, 0.0)
        for i in range(5):
            total = total + v * 2 - 0.5 * w + -v
            total += w * i
            total -= v
            if total < v: total = total * 0.5
            if total == w: total = w
        return total.x, total.y, total < v, total == total
        """, source_of_arguments=VECTOR, expect=(3, 0))

    def test_in_a_loop_that_runs(self):
        for odd in ("1.5", "'text'", "2**70", "None"):
            with self.subTest(odd):
                self.same_in_loops(VECTOR + f"""
    def f(v, w):
        for turn in range(4000):
            if turn == 3000: w.x = {odd}
            v = v + w * 3 - -w
            if v < w: v = v * 0.25
            if v == w: v.y += 1
        return v
                """, lambda made: what_happens(made.f, (made.Vector(1, 2), made.Vector(3, 5))))

    def test_each_operator(self):
        for symbol, name in BINARY.items():
            with self.subTest(symbol):
                self.same(f"""
    class A:
        def __init__(self, x): self.x = x
        def __{name}__(self, other): return self.x * 10 + other
        def __r{name}__(self, other): return self.x * 100 + other
    def arguments():
        return A(3), A(4), 5
    def f(a, b, n):
        c = a
        c {symbol}= n
        return a {symbol} n, n {symbol} a, a {symbol} 1.5, True {symbol} b, c
                """, expect=(3, 0))

    def test_each_comparison(self):
        for symbol, name in COMPARISONS.items():
            with self.subTest(symbol):
                self.same(f"""
    class A:
        def __init__(self, x): self.x = x
        def __{name}__(self, other): return self.x {symbol} other.x
    def arguments():
        return A(3), A(0), 7
    def f(a, b, n):
        total = 0
        for b.x in range(n):
            if a {symbol} b: total += 1
            total += 10 if b {symbol} a else 20
            total += 100 * (a {symbol} b)
        return a {symbol} b, total
                """.replace("for b.x in range(n):", "for i in range(n):\n            b.x = i"), expect=(3, 0))

    def test_in_generator_expressions(self):
        self.same("""
    def arguments():
        return [Vector(n, n / 2) for n in range(6)], Vector(2, 1)
    def f(all, v):
        return any(v == w for w in all), all[2] == v, any(v < w for w in all)
        """, source_of_arguments=VECTOR)

    def test_memory(self):
        made = self.compiled_vectors()
        self.releases_memory(made.f)

    def compiled_vectors(self):
        return jit_support.define(VECTOR + """
    def f(n):
        v, w = Vector(0, 1), Vector(2.5, 3)
        for i in range(n):
            v = v + w * 2 - -w
            v += 3 * w
            if i % 50 == 0: w.x = 2**70 if i % 100 else 1
            if v == w: return v
        return 0
        """)


class NotImplementedReturned(ObjectCase):
    """What the first method returns is found out by compiled code, or where a method was left for the interpreter."""

    def check_operator(self, symbol, own, other, in_place=False, left="A(3)", right="B(4)", is_compiled=True):
        statement = f"c = a; c {symbol}= b" if in_place else f"c = a {symbol} b"
        made, stats = self.same(f"""
    class A:
        def __init__(self, x): self.x, self.calls = x, 0
{own}
    class B:
        def __init__(self, x): self.x, self.calls = x, 0
{other}
    def arguments():
        return {left}, {right}, 1
    def f(a, b, n):
        total = 0
        for i in range(n):
            {statement}
            total += 1
        return total, c
        """)
        self.assertEqual(bool(stats.get("entered")), is_compiled, self.jit.explain(made.f))

    def test_the_method_of_the_other_operand_is_called(self):
        # At once; after a store, which is not done again; in the interpreter, which gets an int that is too large.
        bodies = ["return NotImplemented if self.x else True", "self.calls += 1; return NotImplemented if self.calls else True",
                  "self.calls += 1; self.x = self.x << 40 << self.calls * 20; return NotImplemented if self.calls == 1 else True"]
        for symbol, name in [*BINARY.items(), *COMPARISONS.items()]:
            swapped = {"lt": "gt", "le": "ge", "gt": "lt", "ge": "le"}.get(name, name if name in ("eq", "ne") else f"r{name}")
            for body in bodies[:3 if symbol in "+<" else 2]:
                for other in ("", methods([swapped], "self.calls += other.calls + 10; other.calls += self.x; return self.x"),
                              methods([swapped], "self.calls += 100; return NotImplemented")):
                    with self.subTest(symbol=symbol, body=body, other=other):
                        self.check_operator(symbol, methods([name], body), other)

    def test_in_place(self):
        for symbol, name in (("+", "add"), ("*", "mul"), (">>", "rshift"), ("|", "or")):
            for other in ("", methods([f"r{name}"], "return self.x + other.calls")):
                for body in ("self.calls += 1; return NotImplemented if self.calls else True", "self.x <<= 70; return NotImplemented if self.x else True"):
                    with self.subTest(symbol=symbol, other=other, body=body):
                        self.check_operator(symbol, methods([name], body), other, in_place=True)

    def test_one_class(self):
        for symbol in "+<=":
            with self.subTest(symbol):
                symbol = "==" if symbol == "=" else symbol
                own = methods(["add", "radd", "lt", "gt", "eq"], "self.calls += 1; return NotImplemented if self.calls else True")
                self.check_operator(symbol, own, "", right="A(4)")
                self.check_operator(symbol, own + methods(["lt", "eq"], "self.x <<= 70; return NotImplemented if self.x else True"), "", right="A(4)")

    def test_numbers(self):
        own = methods(["add", "radd", "lt", "eq", "ne", "or", "ror"], "self.calls += 1; self.x <<= 50; return NotImplemented if self.calls else True")
        for symbol in ("+", "<", "==", "!=", "|"):
            for number in ("5", "0.5", "None", "True", "2**80"):
                with self.subTest(symbol=symbol, number=number):
                    fits = number != "2**80"
                    self.check_operator(symbol, own, "", right=number, is_compiled=fits)
                    self.check_operator(symbol, own, "", left=number, right="A(4)", is_compiled=fits and symbol in "+|")
                    self.check_operator(symbol, own, "", left=number, right="A(4)", in_place=symbol in "+|", is_compiled=fits and symbol in "+|")

    def test_names_of_classes_in_errors(self):
        for symbol, name in (("+", "add"), ("<", "lt")):
            _, stats = self.same(f"""
    class A{'n' * 200}:
        def __init__(self): self.x = 1
        def __{name}__(self, other): self.x <<= 70; return NotImplemented if self.x else True
    def arguments():
        return A{'n' * 200}(), 5
    def f(a, n):
        return a {symbol} n
            """)
            self.assertGreater(stats.get("left", 0), 0)

    def test_object_has_a_method_for_unequal(self):
        # object.__ne__ calls __eq__ of the same operand.
        for body in ("return NotImplemented if self.calls < 9 else True", "self.calls += 1; return NotImplemented if self.calls < 9 else True"):
            for other in ("", methods(["eq"], "self.calls += 1; return True"), methods(["eq"], "return NotImplemented")):
                with self.subTest(body=body, other=other):
                    self.check_operator("!=", methods(["ne"], body), other)

    def test_methods_of_the_metaclass_are_none_of_the_class(self):
        # type has __or__ and __ror__.
        self.check_operator("|", methods(["or"], "self.calls += 1; self.x <<= 70; return NotImplemented if self.calls else True"), "")


class Left(ObjectCase):
    """Methods that compiled code leaves in the middle are not called again."""

    def test_within_a_method(self):
        for statement in ("c = a + b", "c = a - 2", "c = 2 - a", "c = -a", "c = a < b", "c = a == 2", "a += b; c = a", "c = (a + b) + (b + a)",
                          "c = (a + 1) - (-b)", "c = a.x + (a + b)", "if a < b: c = 1\n            else: c = 2"):
            with self.subTest(statement):
                self.same(f"""
    class A:
        def __init__(self, x): self.x, self.calls = x, 0
        def step(self):
            self.calls += 1
            self.x = self.x * 3 + 1
            return self.x
        def __add__(self, other): return self.step() + self.calls
        __radd__ = __add__
        def __sub__(self, other): return self.step() - self.calls
        __rsub__ = __sub__
        def __neg__(self): return -self.step()
        def __lt__(self, other): return self.step() > 10**12
        def __eq__(self, other): return self.step() > 10**12
    def arguments():
        return A(1), A(2), 60
    def f(a, b, n):
        total = 0
        kept = a, b
        for i in range(n):
            {statement}
            a, b = kept
            total += a.calls
        return c, total, a.x, b.x, a.calls, b.calls
                """)

    def test_exceptions(self):
        for statement in ("v + 1", "1 + v", "v - w", "v * None", "v < 2", "v << 2", "-w", "v == w", "v @ w", "None < v", "2 / v", "v ** 2"):
            with self.subTest(statement):
                self.same(f"""
    class Odd(Vector):
        def __neg__(self): return self.y[0]
        def __matmul__(self, other): return other.z
    def arguments():
        return Vector(1, 2), Odd(2, 3), 9
    def f(v, w, n):
        total = 0
        for i in range(n):
            total += i
            if i == 6: {statement}
        return total
                """, source_of_arguments=VECTOR)

    def test_frames(self):
        self.same("""
    import sys
    class A:
        def __init__(self): self.x, self.hook = 0, 1
        def __add__(self, other):
            self.x += self.hook + 1
            return self
        def __rmul__(self, other):
            self.x += self.hook + 2
            return other
    class Hook:
        def __add__(self, number): SEEN.append(names()); return number
    SEEN, CALLS = [], []
    def names():
        frame, found = sys._getframe(2), []
        while frame and frame.f_code.co_filename == "<defined>":
            found.append((frame.f_code.co_name, frame.f_lineno, frame.f_lasti, [type(value).__name__ for value in frame.f_locals.values()]))
            frame = frame.f_back
        return found
    def arguments():
        CALLS.append(1)
        a = A()
        if len(CALLS) > 3: a.hook = Hook()
        return a, 12, SEEN
    def f(a, n, seen):
        total = 0
        for i in range(n):
            total += 2 * a
            a = a + 1
        return total
        """, expect=(3, 1))

    def test_another_object_is_returned(self):
        self.same("""
    class A:
        def __init__(self, x): self.x = x
        def __add__(self, other): return self if self.x else other
    def arguments():
        return A(0), A(1), 3
    def f(a, b, n):
        total = 0
        for i in range(n):
            c = a + b
            total += c.x
            c = b + a
            total += c.x
        return total, c is b
        """, expect=(3, 0))
        self.same("""
    class A:
        def __init__(self, x): self.x = x
        def __lt__(self, other): return self.x and other
    def arguments():
        return A(0), A(1), 3
    def f(a, b, n):
        total = 0
        for i in range(n):
            if a < b: total += 10
            if b < a: total += 100
            if b < n: total += 1000
        return total, a < b, (b < a) is a
        """)

    def test_exceptions_of_methods(self):
        for statement in ("a + 1", "1 - a", "a < 1", "-a", "a == a", "b = a; b *= a"):
            with self.subTest(statement):
                self.assertTrue(self.same(f"""
    class A:
        def __init__(self, x): self.x, self.calls = x, 0
        def __add__(self, other): self.calls += 1; return 10 // self.x
        def __neg__(self): self.calls += 1; return 10 % self.x
        __rsub__ = __mul__ = __add__
        def __lt__(self, other): self.calls += 1; return 10 // self.x > 1
        __eq__ = __lt__
    def arguments():
        return A(3), 9
    def f(a, n):
        total = 0
        for i in range(n):
            a.x = 5 - i
            {statement}
            total += a.calls
        return total
                """)[1].get("left"))


class Refused(ObjectCase):
    def test_an_operand_of_a_subclass(self):
        self.same("""
    class Below(Vector):
        def __radd__(self, other): return 1000
        def __gt__(self, other): return True
    def arguments():
        return Vector(1, 2), Below(3, 4)
    def f(v, w):
        return v + w, v < w, w + v if False else 0
        """, source_of_arguments=VECTOR)

    def test_methods_in_place(self):
        self.same("""
    class A:
        def __init__(self, x): self.x = x
        def __add__(self, other): return A(self.x + other)
        def __iadd__(self, other): self.x += 100; return self
    def arguments():
        return A(1), 5
    def f(a, n):
        b = a
        for i in range(n): a += i
        return a is b, a.x, (a + 1).x
        """)

    def test_what_is_no_function(self):
        for method in ("__add__ = staticmethod(lambda other: 7)", "__add__ = classmethod(lambda cls, other: other)", "__add__ = 5", "__add__ = None",
                       "__add__ = property(lambda self: lambda other: 8)", "__radd__ = None", "__getattr__ = lambda self, name: lambda other: 9"):
            with self.subTest(method):
                self.same(f"""
    class A:
        {method}
    class B:
        def __add__(self, other, n=1): return NotImplemented if n else 1
        __lt__ = __add__
    def arguments():
        return A(), B(), 5
    def f(a, b, n):
        return b + a if n > 5 else a + n
    def g(a, b, n): return b + a
                """)
                self.same(f"""
    class A:
        {method}
    class B:
        def __add__(self, other, n=1): return NotImplemented if n else 1
    def arguments():
        return B(), A()
    def f(b, a):
        return b + a
                """)

    def test_powers(self):
        self.same("""
    class A:
        def __pow__(self, other, modulus=None): return 3, other, modulus
        def __rpow__(self, other): return 4
    def arguments(): return A(), 2
    def f(a, n): return a ** n, n ** a, a ** a
        """)

    def test_recursion(self):
        # The interpreter counts levels of C for operators, of which it has 10,000.
        jit_support.run_alone("""
            import sys
            sys.setrecursionlimit(100_000)
            class Tree:
                def __init__(self, below): self.below = below
                def __add__(self, n): return self.below + n if self.below else n
                def __lt__(self, n): return depth(self.below, n)
            def depth(tree, n): return tree < n if tree else True
            def deepest(compare):
                tree = None
                for _ in range(30_000): tree = Tree(tree)
                try:
                    (lambda: tree < 1 if compare else tree + 1)()
                except RecursionError as error:
                    return str(error)
            ferrule_jit.disable()
            expected = deepest(True), deepest(False)
            ferrule_jit.enable()
            for _ in range(100): Tree(Tree(None)) + 1, Tree(Tree(None)) < 1
            for function in (Tree.__add__, Tree.__lt__, depth): ferrule_jit.compile_at_next_call(function)
            deepest(True), deepest(False)
            assert (deepest(True), deepest(False)) == expected, expected
            assert None not in expected
        """)


class Changed(ObjectCase):
    def test_classes(self):
        for change in ("A.__add__ = lambda self, other: 5", "del A.__add__", "B.__radd__ = lambda self, other: 6", "A.__iadd__ = lambda self, other: 7",
                       "B.__gt__ = lambda self, other: True", "A.__lt__ = lambda self, other: 'x'", "B.__bases__ = A,", "b.__class__ = A", "del A.__eq__",
                       "A.__add__.__code__ = (lambda self, other: 8).__code__", "A.__neg__ = None"):
            with self.subTest(change):
                self.assertTrue(self.same(f"""
    def classes():
        global A, B
        class Base: pass
        class A(Base):
            def __init__(self, x): self.x = x
            def __add__(self, other): return NotImplemented if self.x > 1 else 1
            def __lt__(self, other): return NotImplemented if self.x > 1 else True
            def __eq__(self, other): return other is None or self.x == 2
            def __neg__(self): return self.x
        class B(Base):
            def __init__(self, x): self.x = x
            def __radd__(self, other): return other.x
            def __gt__(self, other): return other.x > 1
    def arguments():
        classes()
        return A(1), B(2), change
    def change(a, b): {change}
    def f(a, b, change):
        total = 0
        for i in range(4000):
            if i == 3000: change(a, b)
            total += a + b
            if a < b: total += 10
            if a == b: total += 100
            total += -a
            n = a
            n += None
            total += n
        return total
                """)[1].get("entered"))

    def test_while_the_method_runs(self):
        """What a method that was left does to the classes of the operands, before it returns NotImplemented."""
        names = ["type(other).__radd__", "type(other).__gt__", "type(other).__eq__"]
        values = ["lambda self, other: 77", "staticmethod(lambda other: 78)", "property(lambda self: lambda other: 79)", "None", "5", "callable"]
        changes = [f"{name} = {value}" for name in names for value in values]
        changes += [f"{names} = C" for names in ("self.__class__", "other.__class__", "self.__class__ = other.__class__")]
        changes += ["other.__class__ = type(self)", "self.__class__ = type(other)", "del type(other).__radd__", "type(other).__bases__ = C,"]
        others = ["", methods(["add"], "return 3"), methods(["radd"], "return 4"), methods(["gt"], "return 5") + methods(["eq"], "return 6")]
        for change in changes:
            for other in others:
                for symbol in ("+", "<", "==", "!="):
                    for right in "AB":
                        with self.subTest(change=change, other=other, symbol=symbol, right=right):
                            self.same(f"""
    class Hook:
        def __add__(self, n): change(*self.operands); return n
    def classes():
        global A, B, C
        class Base:
            def __init__(self): self.calls, self.hook = 0, 1
        class C(Base):
            def __radd__(self, other): return 101
            def __gt__(self, other): return 102
        class A(Base):
            def __add__(self, other): self.calls += 1; self.hook + 1; return NotImplemented if self.calls else 1
            def __lt__(self, other): self.calls += 1; self.hook + 1; return NotImplemented if self.calls else True
            __eq__ = __ne__ = __lt__
            __radd__ = __add__
        class B(Base):
            pass
{other}
    def change(self, other):
        {change}
    CALLS = []
    def arguments():
        if not CALLS: classes()
        CALLS.append(1)
        a, b = A(), {right}()
        if len(CALLS) == 4: a.hook = Hook(); a.hook.operands = a, b
        return a, b
    def f(a, b):
        t = a.calls
        for i in range(1): t += a {symbol} b
        return t
                            """, expect=(3, 1))
