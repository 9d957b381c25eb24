"""Methods of instances, what they make of items, and instances that are made."""

import jit_support
from jit_support import define, what_happens
from test_jit_objects import POINT, ObjectCase

setUpModule = jit_support.load


class Methods(ObjectCase):
    ARGUMENTS = """
    def arguments():
        return [{kind}(n * 1.5, n + 0.5) for n in range(1, 9)],
    """

    def test_called(self):
        for kind in ("Point", "Slotted"):
            with self.subTest(kind):
                made, _ = self.same("""
    def f(points):
        total, best = 0, points[0]
        for p in points[1:]:
            total += p.total() + p.move(2)
            best = best.best(p)
        return total, best.x, best is points[0]
                """, source_of_arguments=self.ARGUMENTS.format(kind=kind), expect=(3, 0))

    def test_of_a_base(self):
        self.same("""
    class Derived(Point):
        def total(self, n=4, *, m=5):
            return self.x - n * m
    class Further(Derived): pass
    def arguments():
        return [Further(n, n) for n in range(5)],
    def f(points):
        total = 0
        for p in points:
            total += p.total() + p.total(1) + p.total(m=3, n=2) + p.move(by=2)
        return total
        """)

    def test_a_loop_that_runs(self):
        source = POINT + """
    def f(points, odd):
        total = 0
        for turn in range(3000):
            p = points[turn % len(points)]
            total += p.move(1)
            if turn == 2000:
                points[odd].y = "text"
                points[odd].x = odd
        return total
        """
        for kind in ("Point", "Slotted"):
            for odd in (1, 2):
                def run(made, kind=kind, odd=odd):
                    points = [getattr(made, kind)(n, n) for n in range(1, 5)]
                    return what_happens(made.f, (points, odd)), self.state(points)
                self.same_in_loops(source, run)

    def test_left_in_the_middle_of_a_method(self):
        # What it has stored by then is not stored once more.
        for value in ("2**70", "None", "0", "'text'", "True"):
            for loops in (False, True):
                with self.subTest(value=value, loops=loops):
                    source = POINT + f"""
    class Counter:
        def __init__(self):
            self.n, self.last, self.seen = 0, 1, 0
        def add(self, value):
            self.n += 1
            self.seen = self.last + 1
            self.last = self.seen // value
            self.n += 10
            return self.last
    def f(counter, values):
        total = 0
        for value in values:
            total += counter.add(value)
            counter.last = 5
        return total
    def caught(counter, values):
        try:
            return f(counter, values)
        except (TypeError, ZeroDivisionError) as error:
            places, step = [], error.__traceback__
            while step:
                places.append((step.tb_frame.f_code.co_name, step.tb_lineno))
                step = step.tb_next
            return type(error), str(error), places
    def arguments():
        return Counter(), [1, 2] * 1500 + [{value}] + [1, 3] * 50
                    """
                    outcomes = []
                    for compiles in (False, True):
                        made = define(source)
                        self.jit.disable()
                        made.f(made.Counter(), [1, 2])
                        if compiles:
                            self.jit.enable()
                            if not loops:
                                self.jit.compile_at_next_call(made.f)
                        found = []
                        for _ in range(3):
                            arguments = made.arguments()
                            found.append((what_happens(made.caught, arguments), self.state(arguments[0])))
                        outcomes.append(found)
                    self.assertEqual(outcomes[1][0][0][0].replace("'", ""), outcomes[0][0][0][0].replace("'", ""))
                    self.assertEqual(outcomes[1], outcomes[0])
                    self.assertTrue(self.jit.stats(made.f).get("loops" if loops else "versions"), self.jit.explain(made.f))

    def test_frames_of_a_method_that_was_left(self):
        source = POINT + """
    import sys
    SEEN = []
    class Odd:
        def __radd__(self, other):
            frame, names = sys._getframe(1), []
            while frame.f_code.co_filename == "<defined>":
                names.append((frame.f_code.co_name, frame.f_lineno, sorted(frame.f_locals)))
                frame = frame.f_back
            SEEN.append(names)
            return 7
    def f(point, odd):
        for turn in range(3000):
            if turn == 2500:
                point.y = odd
            point.x = turn
            again(point)
        return SEEN
    def again(point):
        point.x += 1
        return point.total()
        """
        self.same_in_loops(source, lambda made: what_happens(made.f, (made.Point(1, 2), made.Odd())))


class Made(ObjectCase):
    def test_instances(self):
        for kind in ("Point", "Slotted"):
            with self.subTest(kind):
                self.same(f"""
    def arguments():
        return [{kind}(0, 0.5) for _ in range(8)], 0.5
    def f(points, by):
        last = {kind}(0, 1.0)
        for i in range(len(points)):
            points[i] = p = {kind}(i, i * by)
            p.x += last.x
            last = {kind}(y=p.y + i, x=p.x)
            points[i].y += {kind}(i, 2.0).total()
        return last.x, last.y
                """, expect=(3, 0))

    def test_what_is_not_made_by_init_alone(self):
        for body in ("def __new__(cls, *args): NOTES.append(args); return object.__new__(cls)", "def __del__(self): NOTES.append('gone')",
                     "def __init__(self, x, y): self.x = x; self.y = y; return [None, 5][x == 7]", "def __init__(self, x, y): self.x = y // x",
                     "def __init__(self, x, y=5, *, z=3): self.y = y; self.x = x; self.z = z",
                     "x = property(lambda self: 3, lambda self, value: NOTES.append(value))",
                     "def __init__(self, *values): self.x = values[1]", "__slots__ = ('z',)",
                     "__class__ = property(lambda self: int)", "pass"):
            with self.subTest(body):
                self.same(f"""
    NOTES = []
    class Derived(Point):
        {body}
    def arguments():
        return 12, NOTES
    def f(n, notes):
        total = 0
        for i in range(1, n):
            p = Derived(n - i, i)
            total += p.x * i
            notes.append(i)
        return total, notes[:]
                """)

    def test_init_is_left(self):
        for odd in ("2**70", "None", "'text'", "0"):
            for loops in (False, True):
                with self.subTest(odd=odd, loops=loops):
                    source = POINT + f"""
    class Half(Point):
        def __init__(self, x, y, counts):
            counts[0] += 1
            self.x = x
            self.y = 1000 // y
            self.z = self.y + 1
    def f(values, counts):
        total, last = 0, Half(1, 2, counts)
        for value in values:
            try:
                last = Half(1, value, counts)
            except (TypeError, ZeroDivisionError) as error:
                total += error.__traceback__.tb_next.tb_lineno
            total += last.z - last.x
        return total, counts, vars(last)
    def arguments():
        return [1, 2] * 1500 + [{odd}] + [3] * 50, [0]
                    """
                    outcomes = []
                    for compiles in (False, True):
                        made = define(source)
                        self.jit.disable()
                        made.f([1, 2], [0])
                        if compiles:
                            self.jit.enable()
                            if not loops:
                                self.jit.compile_at_next_call(made.f)
                        outcomes.append([what_happens(made.f, made.arguments()) for _ in range(3)])
                    self.assertEqual(outcomes[1], outcomes[0])
                    facts = self.jit.stats(made.f)
                    self.assertTrue(facts.get("loops") or facts.get("versions"), self.jit.explain(made.f))

    def test_init_returns_an_object_after_all(self):
        for odd in "collections.deque()", "Plain()", "5", "[1]":
            with self.subTest(odd):
                self.running(f"""
                    import collections
                    def local():
                        class Plain{'n' * 200}: pass
                        return Plain{'n' * 200}
                    Plain = local()
                    odd = {odd}
                    class Point:
                        def __init__(self, x, other):
                            self.x = x
                            if x == 2500: return (other, 1)[0]
                    def run(n, other):
                        total = 0
                        for i in range(n): total += Point(i, other).x
                        return total
                    def f(n): return run(n, odd)
                """, 3000, times=2)

    def test_a_metaclass_is_not_asked_when_a_class_is_called(self):
        made = self.running("""
            import types
            notes = []
            class Meta(type):
                def __getattribute__(cls, name):
                    notes.append(name)
                    return super().__getattribute__(name)
            class Made(metaclass=Meta): pass
            class Module(types.ModuleType):
                def __getattribute__(self, name):
                    notes.append(name)
                    return super().__getattribute__(name)
            module, other = Module("module"), types.ModuleType("other")
            other.__getattr__ = notes.append
            notes.clear()
            def f(n):
                total = 0
                for i in range(n):
                    total += i
                    if i == 2500: Made()
                    if i > n: module() + other()
                return total, notes
        """, 3000)
        self.assertTrue(self.jit.stats(made.f).get("loops"), self.jit.explain(made.f))

    def test_attributes_are_made_in_order(self):
        made = define(POINT + """
    def g(points):
        for p in points:
            p.y = 1
            p.x = 2
        return 0
        """)
        made.g([made.Point(1, 2)])
        self.jit.compile_at_next_call(made.g)
        for _ in range(3):
            points = [made.Point.__new__(made.Point) for _ in range(4)] + [made.Point(3, 4)]
            made.g(points)
            self.assertEqual([list(vars(p).items()) for p in points], [[("y", 1), ("x", 2)]] * 4 + [[("x", 2), ("y", 1)]])
        self.assertGreater(self.jit.stats(made.g)["entered"], 0, self.jit.explain(made.g))

    def test_destructors_and_weak_references(self):
        self.same("""
    import weakref
    NOTES = []
    class Loud(Point):
        def __init__(self, x, y):
            self.x, self.y = x, y
        def __del__(self):
            NOTES.append(self.x)
    class Watched(Point):
        pass
    def arguments():
        watched = [Watched(n, [Loud(-n, 0)] if n == 3 else n) for n in range(6)]
        NOTES.append([weakref.ref(one, lambda dead: NOTES.append("dead")) for one in watched[:2]])
        return watched, NOTES
    def f(points, notes):
        for i in range(len(points)):
            points[i] = Watched(i, 0.5)
            notes.append(i)
            p = Loud(i, i)
            p = Loud(i + 100, i)
        return notes[1:].copy()
        """)

    def test_memory(self):
        made = define(POINT + """
    def f(n):
        kept = [None] * 10
        for i in range(n):
            p = Point(i * 1.5, i)
            kept[i % 10] = Slotted(p, i)
            p.x += 1000
        return 0
        """)
        self.releases_memory(made.f)


class Items(ObjectCase):
    GRID = """
    class Grid:
        def __init__(self, width, height):
            self.width, self.height, self.items = width, height, [0.0] * (width * height)
        def place(self, x, y):
            if 0 <= x < self.width and 0 <= y < self.height:
                return y * self.width + x
            raise IndexError(x, y)
        def __getitem__(self, at):
            x, y = at
            return self.items[self.place(x, y)]
        def __setitem__(self, at, value):
            x, y = at
            self.width += 0
            self.items[self.place(x, y)] = value
    """

    def test_read_and_stored(self):
        for cut, odd in ((0, "1.5"), (1, "1.5"), (0, "'text'"), (0, "2**70"), (0, "None")):
            with self.subTest(cut=cut, odd=odd):
                self.same(f"""
    def arguments():
        grid = Grid(6, 6)
        grid.items[20] = {odd}
        return grid, 6 + {cut}
    def f(grid, n):
        for y in range(1, n - 1):
            for x in range(1, n - 1):
                grid[x, y] = 0.25 * (grid[x - 1, y] + grid[x + 1, y] + grid[x, y - 1] + grid[x, y + 1]) + x
                grid[0, 0] += grid[x, y]
        return grid[0, 0], grid[2, 3]
                """, source_of_arguments=self.GRID)

    def test_in_a_loop_that_runs(self):
        for odd in ("1.5", "'text'", "2**70", "None"):
            with self.subTest(odd):
                source = POINT + self.GRID + f"""
    def f(grid):
        for turn in range(4000):
            x = turn & 3
            if turn == 3000:
                grid.items[5] = {odd}
            grid[x, 1] = grid[x, 0] * 0.5 + grid[1, 1] - x
            grid[x, 0] += 1
        return grid.items
                """
                self.same_in_loops(source, lambda made: what_happens(made.f, (made.Grid(4, 4),)))

    def test_rows_of_arrays(self):
        self.same("""
    from array import array
    class Rows:
        def __init__(self, rows): self.rows = rows
        def __getitem__(self, at):
            if isinstance(at, tuple):
                return self.rows[at[0]][at[1]]
            return self.rows[at]
        def __setitem__(self, at, value):
            if isinstance(at, tuple):
                self.rows[at[0]][at[1]] = value
            else:
                self.rows[at] = value
    def arguments():
        return Rows([array("d", [n, n + 1, n + 2]) for n in range(3)]),
    def f(rows):
        for i in range(3):
            for k in range(3):
                rows[i][k] *= rows[k][i] + rows[i, k]
                rows[i, k] -= rows[k][k]
            rows[i], rows[2 - i] = rows[2 - i], rows[i]
        return rows[1][2], rows[0, 1], len(rows[2])
        """, expect=(3, 0))

    def test_arrays_of_other_formats(self):
        self.same("""
    from array import array
    def arguments():
        return [array("d", [1, 2]), array("d", [3]), array("f", [4]), array("i", [5]), array("d"), array("d", [6])],
    def f(arrays):
        total = 0
        for a in arrays:
            total += len(a)
            if len(a):
                total += a[0]
                a[0] = total
        return total, arrays[0][0], arrays[5][0]
        """)

    def test_isinstance(self):
        self.same("""
    class Derived(Point): pass
    class Liar(Point):
        __class__ = property(lambda self: int)
    def arguments():
        return [Derived(1, 2), Derived(3, 4)], Liar(1, 2), 5
    def f(points, liar, n):
        total = 0
        for p in points:
            total += isinstance(p, Point) + 2 * isinstance(p, Derived) + 4 * isinstance(p, int) + 8 * isinstance(p, object)
            total += 16 * isinstance(n, int) + 32 * isinstance(n, float) + 64 * isinstance(n > 4, int) + 128 * isinstance((n, n), tuple)
        return total
    def g(liar):
        return isinstance(liar, Point), isinstance(liar, int)
        """, expect=(3, 0))
        made = define(POINT + """
    class Liar(Point):
        __class__ = property(lambda self: int)
    def f(liar):
        total = 0
        for i in range(3):
            total += isinstance(liar, int)
        return total
        """)
        self.jit.compile_at_next_call(made.f)
        self.assertEqual([made.f(made.Liar(1, 2)) for _ in range(3)], [3, 3, 3])
