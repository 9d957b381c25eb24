"""Attributes of instances."""

import sys

import jit_support
from jit_support import Case, define, shown, what_happens

setUpModule = jit_support.load

POINT = """
    class Point:
        K = 3
        def __init__(self, x, y):
            self.x = x
            self.y = y
        def total(self):
            return self.x + self.y
        def move(self, by):
            self.x += by
            self.y = self.x * 0.5
            self.x /= self.y
            return self.x
        def best(self, other):
            return self if self.x > other.x else other
    class Slotted:
        __slots__ = ("x", "y")
        K, __init__, total, move, best = 0.5, Point.__init__, Point.total, Point.move, Point.best
"""


class ObjectCase(Case):
    def same(self, source, *, source_of_arguments="", times=3, expect=None):
        """`f` of a source does with what `arguments()` of it makes the same, `times` times, compiled and not. The compiled one's statistics."""
        source = POINT + source_of_arguments + source
        outcomes = []
        for compiles in (False, True):
            made = define(source)
            self.jit.disable()
            what_happens(made.f, made.arguments())
            if compiles:
                self.jit.enable()
                self.jit.compile_at_next_call(made.f)
            found = []
            for _ in range(times):
                arguments = made.arguments()
                found.append((what_happens(made.f, arguments), self.state(arguments)))
            outcomes.append(found)
        self.assertEqual(outcomes[1], outcomes[0])
        stats = self.jit.stats(made.f)
        if expect is not None:
            # Where a function is called that was observed until then, the first call is interpreted.
            self.assertIn(stats.get("entered", 0), (expect[0] - 1, expect[0]), self.jit.explain(made.f))
            self.assertEqual(stats.get("left", 0), expect[1], self.jit.explain(made.f))
        return made, stats

    def test_an_object_of_the_class_that_becomes_a_descriptor(self):
        made = define("""
    class D:
        pass
    class P:
        d = D()
        def __init__(self):
            self.d = 1.5
    def f(p):
        total = 0.0
        for i in range(3):
            total += p.d
            p.d = 1.5
        return total
        """)
        p = made.P()
        self.jit.enable()
        self.jit.compile_at_next_call(made.f)
        self.assertEqual([made.f(p), made.f(p)], [4.5, 4.5])
        stored = []
        made.D.__get__, made.D.__set__ = lambda self, instance, owner: 100.0, lambda self, instance, value: stored.append(value)
        self.assertEqual(made.f(p), 300.0)
        self.assertEqual(stored, [1.5] * 3)

    def test_names_that_are_not_interned(self):
        self.same("""
    Point.Kind = 3
    made = []
    def arguments():
        p = Point(1, 2)
        if len(made) > 2:
            p.__dict__["".join(["to", "tal"])] = lambda: 100
            p.__dict__["".join(["Ki", "nd"])] = 7
        made.append(p)
        return p,
    def f(p):
        total = 0
        for i in range(10):
            total += p.total() + p.Kind
        return total
        """, times=6)
        self.same("""
    def arguments():
        p = Point(1, 2)
        p.__dict__["".join(["n", "ew"])] = 9
        return p,
    def f(p):
        total = 0
        for i in range(10):
            total += p.new
        return total
        """, expect=(3, 0))

    def same_in_loops(self, source, run):
        """What `run` returns for the namespace of a source is the same where loops are compiled, and `f` had one that was."""
        outcomes = []
        for compiles in (False, True):
            made = define(source)
            self.jit.disable()
            if compiles:
                self.jit.enable()
            outcomes.append(run(made))
        self.assertEqual(outcomes[1], outcomes[0])
        self.assertTrue(self.jit.stats(made.f)["loops"], self.jit.explain(made.f))

    def state(self, value, depth=3):
        if isinstance(value, list | tuple):
            return [self.state(item, depth) for item in value]
        if type(value).__module__ != "defined" or not depth:
            return shown(value)
        own = [(name, self.state(item, depth - 1)) for name, item in getattr(value, "__dict__", {}).items()]
        slots = [(name, self.state(getattr(value, name, "unbound"), depth - 1)) for name in ("x", "y") if not hasattr(value, "__dict__")]
        return type(value).__name__, own, slots


class Attributes(ObjectCase):
    ARGUMENTS = """
    def arguments():
        return [{kind}(n * 1.5, n) for n in range(1, 9)],
    """

    def test_read_and_stored(self):
        for kind in ("Point", "Slotted"):
            with self.subTest(kind):
                self.same("""
    def f(points):
        total = 0
        for p in points:
            total += p.x * p.y
            p.x, p.y = p.y + 0.25, p.y + 1
            p.x -= 1
            p.y = p.y * 1000
        return total
                """, source_of_arguments=self.ARGUMENTS.format(kind=kind), expect=(3, 0))

    def test_of_all_types(self):
        for value in ("1", "2**70", "2**40", "1.5", "True", "None", "'text'", "[1, 2]", "(1, 2)", "b'ab'", "bytearray(b'ab')", "Point(1, 2)", "{}"):
            for other in ("1", "0.5", "None", "[3]", "Slotted(1, 2)"):
                with self.subTest(value=value, other=other):
                    self.same(f"""
    def arguments():
        return [Point({value}, 1), Point({value}, 2), Point({other}, 3)], {other}
    def f(points, value):
        found = []
        for p in points:
            found.append(p.y)
            old = p.x
            p.x = value
            p.x = old
            p.y = value
        return len(found)
                    """)

    def test_an_object_that_only_an_attribute_refers_to(self):
        self.same("""
    class Loud:
        def __del__(self): NOTES.append("gone")
    NOTES = []
    def arguments():
        return [Point(Loud() if n == 4 else [Loud()] if n == 6 else n, 1) for n in range(8)], NOTES
    def f(points, notes):
        for p in points:
            p.x = 5
            notes.append(p.y)
        return len(notes)
        """)

    def test_a_number_that_others_have_is_not_changed(self):
        self.same("""
    def arguments():
        shared = 1000.5
        return Point(shared, 2000), shared, [shared]
    def f(p, value, items):
        n, kept = 1, p.x
        for i in range(3):
            p.x += 1.0
            p.y += 1
            if i == 0:
                kept = p.x
        return kept, value, items[0], p.x, p.y
        """, expect=(3, 0))

    def test_one_object_under_several_names(self):
        self.same("""
    def arguments():
        p = Point(1.0, 2)
        return p, p, [p, p]
    def f(p, q, points):
        for one in points:
            one.x += 1.0
            q.x *= 2
            points[0].y = p.y + q.y
        return p.x, q.y
        """, expect=(3, 0))

    def test_where_there_is_none(self):
        for change in ("del p.x", "p.__dict__.clear()", "p.__dict__ = {'y': 3}", "p.__dict__ = {'x': 3, 'y': 4}", "p.__dict__['x'] = 9", "p.__class__ = Other",
                       "p.z = 1", "Point.x = 5", "Point.x = property(lambda self: 6)", "Point.__getattr__ = lambda self, name: 7",
                       "Point.__getattribute__ = lambda self, name: 8", "Point.__setattr__ = lambda self, name, value: None", "vars(p).update(x=2.5)",
                       "[setattr(p, f'n{n}', n) for n in range(40)]", "p.K = 4", "Point.K = 5", "Other.K = 6",
                       "Point.__bases__ = Point.__bases__[::-1]", "Base.x = 6"):
            with self.subTest(change):
                outcomes = []
                for compiles in (False, True):
                    space = define(POINT + """
    class Base:
        K = 1
    class Point(Point, Base): pass
    class Other(Point): pass
    def arguments(n):
        return Point(n, 0.5), Point(1, 2.5)
    def f(p, q):
        p.y += q.y
        q.x = p.x + p.K
        for i in range(3):
            q.x += p.x
            p.x = q.x + p.K
        return p.x, q.x
                    """)
                    self.jit.disable()
                    space.f(*space.arguments(1))
                    if compiles:
                        self.jit.enable()
                        self.jit.compile_at_next_call(space.f)
                    pairs = [space.arguments(n) for n in range(7)]
                    found = [what_happens(space.f, pair) for pair in pairs[:2]]
                    self.assertEqual(bool(self.jit.stats(space.f).get("versions")), compiles)
                    for pair in pairs[2:5]:
                        exec(change, space.globals, {"p": pair[0]})
                        found += [what_happens(space.f, pair), what_happens(space.f, pairs[5])]
                        found += [what_happens(self.state, (one,)) for one in pair]
                    outcomes.append(found)
                self.assertEqual(outcomes[1], outcomes[0])

    def test_a_dict_that_was_made(self):
        # It has a version, which others may have remembered.
        made, stats = self.same("""
    def arguments():
        p = Point(1.0, 2.0)
        vars(p)
        return p,
    def f(p):
        total = 0.0
        for _ in range(3):
            total += p.x
            p.x = p.x + 1
        return total, vars(p)
        """)

    def test_attributes_of_a_class(self):
        self.same("""
    def arguments():
        return Point(1, 2), Slotted(3, 4)
    def f(p, q):
        total = 0
        for i in range(10):
            total += p.K * i + q.K
        return total
        """, expect=(3, 0))

    def test_a_class_that_changes(self):
        made = define(POINT + """
    def f(p):
        total = 0
        for i in range(3):
            total += p.K + p.total()
        return total
        """)
        point = made.Point(1, 2)
        self.compiled(made.f, point)
        self.assertEqual(made.f(point), 18)
        made.Point.K = 4
        self.assertEqual(made.f(point), 21)
        made.Point.total = lambda self: 0
        self.assertEqual(made.f(point), 12)
        point.total = lambda: 1
        self.assertEqual(made.f(point), 15)

    def test_truth(self):
        for body in ("pass", "def __len__(self): return 0", "def __bool__(self): return self.x > 2"):
            with self.subTest(body):
                self.same(f"""
    class Derived(Point):
        {body}
    def arguments():
        return [Derived(n, 1) for n in range(5)], Slotted(1, 2)
    def f(points, other):
        total = 0
        for p in points:
            if p:
                total += p.x
            total += 10 if not p else 100
            other = other and p or other
        return total, other.x, bool(other)
                """)
        made = define(POINT + """
    def f(p):
        total = 0
        for i in range(3):
            total += 1 if p else 10
        return total
        """)
        self.compiled(made.f, made.Point(1, 2))
        made.Point.__bool__ = lambda self: False
        self.assertEqual(made.f(made.Point(1, 2)), 30)

    def test_a_class_of_an_attribute_that_changes(self):
        made = define(POINT + """
    class Holder:
        def __init__(self, p):
            self.p = p
    def f(h):
        total = 0
        for i in range(3):
            total += h.p.x + h.p.K
        return total
        """)
        holder = made.Holder(made.Point(1, 2))
        self.compiled(made.f, holder)
        for k in range(3):
            made.Point.K = k
            self.assertEqual(made.f(holder), 3 + 3 * k)
            self.assertTrue(self.jit.stats(made.f)["versions"], self.jit.explain(made.f))
        made.Point.__getattribute__ = lambda self, name: 9
        self.assertEqual(made.f(holder), 54)

    def test_a_class_is_not_kept(self):
        import gc
        import weakref
        made = define(POINT + """
    def f(p):
        for i in range(3):
            p.x += p.total()
        return p.x
        """)
        self.compiled(made.f, made.Point(1, 2))
        weak = weakref.ref(made.Point)
        del made
        gc.collect()
        self.assertIsNone(weak())

    def test_properties_are_left_to_the_interpreter(self):
        made = define(POINT + """
    class Point(Point):
        z = property(lambda self: self.x * 2)
    def f(p):
        total = 0
        for i in range(3):
            total += p.z
        return total
        """)
        self.jit.compile_at_next_call(made.f)
        self.assertEqual([made.f(made.Point(2, 1)) for _ in range(3)], [12, 12, 12])
        self.assertIn("the attribute z, a property", self.jit.explain(made.f))

    def test_slots_of_another_class(self):
        made = define("""
    class A:
        __slots__ = ("x",)
    class B:
        __slots__ = ("z",)
        x = A.x
    def f(b):
        for i in range(3):
            b.z += b.x
        """)
        b = made.B()
        b.z = 1
        self.jit.compile_at_next_call(made.f)
        for _ in range(3):
            with self.assertRaisesRegex(TypeError, "descriptor 'x' for 'A' objects"):
                made.f(b)

    def test_memory(self):
        made = define(POINT + """
    P = Point(1.5, [])
    def f(n):
        return g(P, n)
    def g(p, n):
        for i in range(n):
            p.x = i * 1.5
            p.x += 1000
            p.y = [i]
            kept = p.y
        return 0
        """)
        self.compiled(made.g, made.P, 10)
        made.g(made.P, 1000)
        blocks = sys.getallocatedblocks()
        made.g(made.P, 20_000)
        self.assertLess(sys.getallocatedblocks() - blocks, 1000)
