"""Destructors: they run where they run interpreted, between the same stores, and see the same frames."""

import jit_support
from jit_support import Case, define, run_alone

setUpModule = jit_support.load


# Each function takes lists of a box, which refer to objects with a destructor, and has several references to them.
PROGRAM = """
    import sys

    class Noisy:
        def __init__(self, out, name):
            self.out, self.name = out, name

        def __del__(self):
            frames, frame = [], sys._getframe(1)
            while frame:
                frames.append((frame.f_code.co_name, frame.f_lineno))
                frame = frame.f_back
            print(self.name, self.out, frames if SHOWS_FRAMES else "")

    def two_variables(box, out, n):
        a = box.pop()
        b = a
        for i in range(n):
            out[0] = i
            if i == n - 2:
                a, b = 1, 2
                out[1] = 12345

    def returned_from_a_loop(box, out, n):
        a = box.pop()
        b = a
        total = 0
        for i in range(n):
            total += i
        return total

    def one_in_the_other(box, out, n):
        a = box.pop()
        b = [a]
        for i in range(n):
            out[0] = i
            if i == n - 2:
                a, b = 1, 2
                out[1] = 12345

    def many_variables(box, out, n):
        a = box.pop()
        b = c = d = e = a
        g = [a]
        h = [g, a]
        for i in range(n):
            out[0] += i
        return n

    def zipped(box, out, n):
        for i in range(n):
            out[0] = i
            if i == n - 2:
                for a, b in zip(box[-1], box.pop()):
                    out[1] += 1
                out[1] = 12345

    def take(box):
        a = box.pop()
        b = a
        return 1

    def returned_by_a_callee(box, out, n):
        for i in range(n):
            out[0] = i
            if i == n - 3:
                out[2] += take(box)
                out[1] = 4444

    def shrink(given, box, now):
        if now:
            given = box.pop()
        return 5

    def argument_of_a_callee(box, out, n):
        for i in range(n):
            out[0] = i
            out[2] += shrink([box[-1]], box, i == n - 3) + out[1]
            out[1] = 5555 + i

    def arguments_of_a_callee(box, out, n):
        for i in range(n):
            out[0] = i
            out[2] += shrink([[box[-1]], box[-1:]], box, i == n - 3) + out[1]
            out[1] = 5555 + i

    def generate(out):
        try:
            yield 1
            yield 2
        finally:
            print("closed", out)

    def make(out, name):
        made = Noisy(out, name)
        return [made, (made,), {1: made}, lambda at=made: at][turn]

    # These are compiled in part: what their variables have is in the frames of running loops alone.
    def assigned(box, out, n):
        x = make(out, "assigned")
        for i in range(n):
            out[0] = i
            if i == n - 2:
                x = 5
                out[1] = 77

    def deleted(box, out, n):
        x = make(out, "deleted")
        y = x
        for i in range(n):
            out[0] = i
            if i == n - 4:
                del x
                out[1] = 77
            if i == n - 2:
                y = out[0]
                out[2] = 77

    def in_a_tuple(box, out, n):
        x = make(out, "in_a_tuple")
        y = (x, 1)
        for i in range(n):
            out[0] = i
            if i == n - 4:
                x = None
            if i == n - 3:
                y = i
                out[1] = 9

    def in_a_list(box, out, n):
        x = make(out, "in_a_list")
        out.append(x)
        del x
        x = out[-1]
        for i in range(n):
            out[0] = i
            if i == n - 5:
                x = None
                out[2] = 4
            if i == n - 3:
                out[3] = i
                out[1] = 9

    def in_a_slice(box, out, n):
        a, b = box.pop(), [1, 2, 3]
        c = [a[0], a[0], 5]
        for i in range(n):
            out[0] = i
            b[:2] = b[1::-1]
            c[:] = c[::-1]
            if i == n - 5:
                c[0:2] = b[::2]
                out[1] = 77
            if i == n - 4:
                a[:1] = b[::-1]
                out[2] = 77
            if i == n - 2:
                c[1:] = c[:1:2]
                out[1] = 78

    def of_a_method(box, out, n):
        a = box.pop()
        add = a.append
        for i in range(n):
            out[0] = i
            if i == n - 6:
                add(5)
            if i == n - 4:
                a = out
            if i == n - 2:
                add = a.append
                out[1] = 77

    def out_of_a_generator(box, out, n):
        for g in generate(out):
            for i in range(n):
                out[0] = i
            break
        out[1] = 5

    for way in ("loop", "function"):
        for name in FUNCTIONS:
            function = globals()[name]
            if way == "function" and ferrule_jit.is_enabled():
                ferrule_jit.compile_at_next_call(function)
            for turn in range(4):
                out = [0, 0, 0]
                box = [[Noisy(out, (name, index))] for index in range(3)]
                print(way, name, turn, function(box, out, 3000 if way == "loop" else 60), out)
                del box
    AFTER
"""
ENTERED = "assert all(ferrule_jit.stats(globals()[name])['entered'] for name in FUNCTIONS)"


class Order(Case):
    def compare(self, functions, shows_frames):
        """Prints the same with the compiler and without it."""
        head = f"    FUNCTIONS, SHOWS_FRAMES = {functions.split()}, {shows_frames}; "
        made = run_alone(head + PROGRAM.replace("AFTER", ENTERED))
        plain = run_alone(head + "ferrule_jit.disable()" + PROGRAM.replace("AFTER", ""))
        self.assertEqual(made.splitlines(), plain.splitlines())

    def test_several_references_go_at_once(self):
        self.compare("two_variables returned_from_a_loop one_in_the_other many_variables zipped returned_by_a_callee", True)

    def test_variables_of_a_frame_whose_loop_runs(self):
        self.compare("assigned deleted in_a_tuple in_a_list in_a_slice of_a_method out_of_a_generator", True)

    def test_a_callee_takes_the_other_reference_away(self):
        # Frames are continued when the arguments are gone.
        self.compare("argument_of_a_callee arguments_of_a_callee", False)


class Globals(Case):
    def test_what_is_left_to_the_interpreter_is_not_kept_alive(self):
        # Neither a dict nor an instance with __slots__ can be referred to weakly.
        made = self.running("""
            import types
            notes = []
            class Noisy:
                __slots__ = "x"
                def __init__(self, x): self.x = x
                def get(self): return self.x
                def __del__(self): notes.append(self.x)
            module = types.ModuleType("module")
            def run(n):
                total = 0
                for i in range(n):
                    total += i
                    if i % 500 == 499: total += items[1].x
                    if i % 500 == 498: total += noisy.get()
                    if i % 500 == 497: total += module.items[1].x
                return total
            def f(n):
                global items, noisy
                items, noisy, module.items = {1: Noisy(1)}, Noisy(2), {1: Noisy(3)}
                total = run(n)
                items = noisy = module.items = None
                return total, notes
        """, 5000)
        self.assertTrue(self.jit.stats(made.run).get("loops"), self.jit.explain(made.run))


class Recursion(Case):
    """What a recursion has stored is not known while it is compiled: what it was given is looked at behind each call."""

    SOURCE = """
    K = 1
    class Noisy:
        def __init__(self, next=None):
            self.next = next
        def __del__(self):
            global K
            K = 1000
    def one(x, box, n):
        if n == 0:
            box[1] = box[2] = box[3] = []
            return 0
        return one(box[n], box, n - 1) + K
    def two(x, box, n):
        if n == 0:
            box[1] = box[2] = box[3] = []
            return 0
        return other(box[n], box, n - 1) + K
    def other(x, box, n):
        if n == 0:
            box[1] = box[2] = box[3] = []
            return 0
        return two(box[n], box, n - 1) + K
    def inner(x, box, n):
        for i in range(3):
            if n == 0:
                box[1] = box[2] = box[3] = []
                return i
            if i == 1:
                return inner(box[n], box, n - 1) + K
        return 5
    class Holder:
        def __init__(self):
            self.a, self.b = Noisy(), Noisy()
        def drop(self, x, n):
            if n == 0:
                self.a = None
                self.b = None
                return 0
            if n == 1:
                return self.drop(self.a, n - 1) + K
            return self.drop(self.b, n - 1) + K
    """

    def test_a_callee_of_its_own_takes_the_other_reference_away(self):
        for name, depth in (("one", 2), ("one", 3), ("two", 2), ("two", 3), ("other", 3), ("inner", 2), ("inner", 3)):
            with self.subTest(name=name, depth=depth):
                made = define(self.SOURCE)
                function = getattr(made, name)

                def outcome(made=made, function=function, depth=depth):
                    box = [[made.Noisy()] for _ in range(5)]
                    made.globals["K"] = 1
                    return function(box[4], box, depth), made.globals["K"]

                self.jit.disable()
                expected = outcome()
                self.jit.enable()
                self.compiled(function, [made.Noisy()], [[made.Noisy()] for _ in range(5)], depth)
                self.assertEqual([outcome() for _ in range(3)], [expected] * 3)
                self.assertGreater(self.jit.stats(function)["entered"], 2)

    def test_a_method_takes_attributes_away(self):
        made = define(self.SOURCE)

        def outcome():
            holder = made.Holder()
            made.globals["K"] = 1
            return holder.drop(made.Noisy(), 2), made.globals["K"]

        self.jit.disable()
        expected = outcome()
        self.jit.enable()
        holder = made.Holder()
        self.compiled(made.Holder.drop, holder, holder.a, 1)
        self.assertEqual([outcome() for _ in range(3)], [expected] * 3)
        self.assertGreater(self.jit.stats(made.Holder.drop)["entered"], 2)

    def test_a_recursion_in_a_generator_expression_that_stores(self):
        made = define("""
    def grow(box, n, limit):
        box.append(n)
        if n == 0:
            return limit
        return sum(grow(box, n - 1, limit) for _ in range(2)) + 1
        """)
        for limit in (1, 2**62):  # the second one outgrows a machine word in the middle
            with self.subTest(limit):
                self.jit.disable()
                expected = []
                result = made.grow(expected, 6, limit)
                self.jit.enable()
                made.grow([], 3, 1)
                self.jit.compile_at_next_call(made.grow)
                made.grow([], 3, 1)
                box = []
                self.assertEqual(made.grow(box, 6, limit), result)
                self.assertEqual(box, expected)
