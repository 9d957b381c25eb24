"""Code of the program that runs in the middle of what is compiled: where it stands, what it changes, and what happens then are as interpreted."""

import textwrap

import jit_support
from jit_support import Case, run_alone

setUpModule = jit_support.load


HEADER = """
    import gc
    import sys
    import threading
    gc.disable()        # what is in cycles goes when each run is over

    IS_COMPILED = ferrule_jit.is_enabled()
    WARM = 60

    def hot(*functions):
        for function in functions:
            if IS_COMPILED:
                ferrule_jit.compile_at_next_call(function)

    def enable():
        if IS_COMPILED:
            ferrule_jit.enable(turns=20, calls=5)

    def attempt(function, *arguments):
        try:
            print(function(*arguments))
        except BaseException as error:
            places, step = [], error.__traceback__.tb_next
            while step:
                code = step.tb_frame.f_code
                places.append((code.co_name, list(code.co_positions())[step.tb_lasti // 2]))
                step = step.tb_next
            print(type(error).__name__, error, places)

    class Number:
        def __init__(self, event):
            self.event = event

        def __add__(self, other):
            result = self.event()
            return 7 if result is None else result

        def __index__(self):
            return self + 0

        __radd__ = __add__

    class Noisy:
        def __init__(self, event):
            self.event = event

        def __del__(self):
            self.event()

    sys.unraisablehook = lambda error: print("unraisable", type(error.exc_value).__name__)
    entered = 0
    enable()
"""
FOOTER = """
    assert not IS_COMPILED or entered >= 50, entered
"""

# An event is in `__init__`, in a method and what it calls, in `__getitem__`, in `__add__`, and in `__setitem__`.
CALLS = """
class P:
    k = 1
    def __init__(self, x, box):
        self.r = [x]
        self.x = x + box[0]
        self.y = x
    def m(self, k, box):
        self.x += k
        self.x = inner(self.x, box) + 1
        return self.x + self.k
    def __getitem__(self, i):
        t = i + self.x
        return t + self.b[2]
    def __add__(self, i):
        t = i - self.x
        return t + self.b[1]
    def __setitem__(self, i, v):
        self.b[3] = v
        self.y = i + self.b[3]
        self.x = v & 1023
def inner(x, box):
    t = x + box[1]
    return t & 1023
def f(n, p, box, new, at):
    t = 0
    for i in range(n):
        q = P(i, box)
        p.b = box
        t += p.m(1, box)
        t += p[i]
        t += p + i
        p[i] = t & 255
        t &= 65535
        if i >= at: box[(i - at) & 3] = new[(i - at) & 3]
    return t
"""
IN_CALLEES = """
    def frames():
        frame, found = sys._getframe(1), []
        while frame:
            if frame.f_code.co_filename == "source":
                found.append(frame)
            frame = frame.f_back
        return found

    def shows_frames(box):
        for frame in frames():
            values = {name: value for name, value in frame.f_locals.items() if type(value) in (int, float)}
            print(frame.f_code.co_name, frame.f_lineno, frame.f_lasti, values)

    def raises(box):
        raise KeyError("event")

    def replaces_items(box):
        box[:] = [1, 2, 3, 4]

    def clears(box):
        box.clear()

    def replaces_a_method(box):
        names["P"].m = lambda self, k, box: 100

    def deletes_setitem(box):
        if "__setitem__" in names["P"].__dict__:
            del names["P"].__setitem__

    def replaces_init(box):
        names["P"].__init__ = lambda self, x, box: None

    def replaces_code(box):
        names["inner"].__code__ = (lambda x, box: 3).__code__

    def deletes_all(box):
        for name in ("f", "inner", "P"):
            names.pop(name, None)

    def a_float(box):
        names["P"].k = 2.5
        return 2.5

    def a_large_int(box):
        return 2 ** 90

    def calls_again(box):
        names["f"](20, names["P"](1, [0] * 4), [0] * 4, [0] * 4, 100)

    def traces(box):
        def trace(frame, event, argument):
            if frame.f_code.co_filename == "source":
                print(frame.f_code.co_name, event, frame.f_lineno)
            return trace
        sys.settrace(trace)

    def changes_variables(box):
        for frame in frames():
            for name in ("t", "k", "i"):
                if name in frame.f_locals:
                    frame.f_locals[name] = 3

    def in_a_thread(box):
        thread = threading.Thread(target=lambda: (calls_again(box), setattr(names["P"], "k", 3)))
        thread.start()
        thread.join()

    def replaces_dict(box):
        names["p"].__dict__ = {"x": 1, "y": 2, "b": [9, 9, 9, 9]}

    def deletes_an_attribute(box):
        names["p"].__dict__.pop("x", None)

    def replaces_class(box):
        names["p"].__class__ = type("Q", (names["P"],), {"k": 9})

    def disables(box):
        ferrule_jit.disable()

    for event in EVENTS:
        for at, new in ((WARM - 9, "NNNN"), (WARM // 2, (2 ** 70, 4, True, "D")), (WARM - 6, (5, 3, 0.5, "D")), (WARM - 5, ("N", 2 ** 64, 4, "D"))):
            names, box = {"__name__": "source"}, [0] * 4
            exec(compile(SOURCE, "source", "exec"), names)
            f, P, inner = (names[name] for name in ("f", "P", "inner"))
            p = names["p"] = P(1, [0] * 4)
            functions = f, inner, P.__init__, P.m, P.__getitem__, P.__add__, P.__setitem__
            hot(*functions)
            f(10, p, [0] * 4, [0] * 4, 100)
            hot(*functions)
            f(WARM, p, [0] * 4, [0] * 4, 100)
            happens = lambda: globals()[event](box)
            new = [Number(happens) if item == "N" else Noisy(happens) if item == "D" else item for item in new]
            print(event, at)
            attempt(f, WARM, p, box, new, at)
            print([item if type(item) in (int, float, bool) else type(item).__name__ for item in box])
            sys.settrace(None)
            enable()
            attempt(f, WARM, p, [0] * 4, [0] * 4, 100)
            if IS_COMPILED:
                entered += ferrule_jit.stats(f).get("entered", 0)
            keep, Noisy.__del__ = Noisy.__del__, lambda self: None
            del f, p, P, inner, functions, names, new, happens, box
            gc.collect()
            Noisy.__del__ = keep
"""

# A class, or an instance, is changed while a loop that uses it runs.
CLASS = """
class P:
    k = 5
    def __init__(self, x, y):
        self.x, self.y = x, y
    def norm(self):
        return self.x * self.x + self.y
    def step(self, d):
        self.x = self.x + d
        return self.x
    def __getitem__(self, i):
        return self.x + i
    def __setitem__(self, i, v):
        self.y = v + i
def f(o, n, box, new, at):
    t = 0
    for i in range(n):
        t += o.norm() + o.k
        o.x = i
        o.y += 1
        t += o[i]
        o[i] = 2
        t += o.step(1)
        if i == at: box[0] = new
        t += box[0]
        if o: t += 1
    return t
"""
OF_CLASSES = """
    def other_class():
        names = {"__name__": "source"}
        exec(SOURCE, names)
        return names["P"]

    def add(o):
        type(o).__setattr__ = lambda self, name, value: object.__setattr__(self, name, value + 1)

    def delete_and_getattr(o):
        del o.x
        type(o).__getattr__ = lambda self, name: 11

    def item_of_base(o):
        del type(o).__getitem__

    def store_in_dict(o):
        attributes = o.__dict__
        attributes["z"] = 1
        o.x = 5
        attributes["x"] = 9

    CHANGES = [
        add, delete_and_getattr, item_of_base, store_in_dict,
        lambda o: setattr(type(o), "x", property(lambda self: 7, lambda self, value: None)),
        lambda o: setattr(type(o), "k", type("D", (), {"__get__": lambda self, o, c: 3})()),
        lambda o: setattr(type(o), "__getattribute__", lambda self, name: 1 if name == "k" else object.__getattribute__(self, name)),
        lambda o: setattr(o, "__class__", other_class()),
        lambda o: setattr(o, "__class__", type("Q", (type(o),), {"norm": lambda self: 3})),
        lambda o: setattr(o, "__dict__", {"y": 2, "x": 3.5}),
        lambda o: [setattr(o, f"a{i}", i) for i in range(40)],
        lambda o: delattr(o, "y"),
        lambda o: (delattr(o, "x"), setattr(o, "x", "s")),
        lambda o: setattr(o, "y", 2 ** 70),
        lambda o: (setattr(o, "y", float("nan")), setattr(o, "x", -0.0)),
        lambda o: setattr(o, "y", True),
        lambda o: setattr(o, "norm", lambda: 100),
        lambda o: setattr(o, "k", 2.5),
        lambda o: setattr(type(o), "norm", staticmethod(lambda: 8)),
        lambda o: setattr(type(o), "norm", classmethod(lambda cls: 9)),
        lambda o: setattr(type(o).norm, "__code__", (lambda self: 12).__code__),
        lambda o: setattr(type(o), "__bool__", lambda self: False),
        lambda o: setattr(type(o), "__len__", lambda self: 0),
        lambda o: setattr(type(o), "x", type("S", (), {"__slots__": ("x",)}).x),
        lambda o: delattr(type(o), "k"),
        lambda o: setattr(type(o), "__del__", lambda self: print("gone", sorted(self.__dict__))),
        lambda o: setattr(type(o), "__class__", type("M", (type,), {})),
    ]
    for number, change in enumerate(CHANGES):
        for at in (WARM // 2, WARM - 3):
            names = {"__name__": "source"}
            exec(compile(SOURCE, "source", "exec"), names)
            f, P = names["f"], names["P"]

            def happens():
                box[0] = 0
                change(o)
                return 0

            box, event = [0], Number(happens)
            hot(f)
            f(P(1, 2), 30, [0], event, -1)
            f(P(1, 2), 30, [0], event, -1)
            if IS_COMPILED:
                entered += ferrule_jit.stats(f)["entered"] > 0
            o = P(1, 2)
            print(number, at)
            attempt(f, o, WARM, box, event, at)
            print(sorted(o.__dict__), [type(value).__name__ for value in o.__dict__.values()])
            attempt(f, o, WARM, box, event, -1)
            del o
            gc.collect()
    assert not IS_COMPILED or entered == 2 * len(CHANGES)
"""

# The operands of a slice that is stored run code of the program, which changes the lists.
SLICES = """
def f(a, b, i, k, j, m, s, n, new):
    for q in range(n):
        a[i:k] = b[j:m:s]
        if q == n - 2:
            i, k, j, m, s = new
    return a, b, q
"""
OF_SLICES = """
    def changes(what, a, b):
        print(what)
        if what == "clear": b.clear()
        if what == "grow": a.extend(range(20)), b.append(99)
        if what == "raise": raise KeyError("event")
        if what == "again": names["f"]([1, 2, 3], [4, 5, 6], 0, 2, None, None, -1, WARM, (0, 3, 2, None, -1))
        return 1

    for way in ("loop", "function"):
        for place in range(5):
            for what in ("clear", "grow", "raise", "again", True, 2 ** 62, 2 ** 63, -2 ** 63, -2 ** 70, 0, None, 0.5):
                a, b, old = [1, 2.5, "x", 2 ** 70], [5, [6], None, 300], [0, 2, 3, None, -1]
                new = [*old]
                new[place] = Number(lambda: changes(what, a, b)) if type(what) is str else what
                names = {"__name__": "source"}
                exec(compile(SOURCE, "source", "exec"), names)
                f, turns = names["f"], WARM if way == "loop" else 5
                if way == "function":
                    hot(f)
                    f([1, 2, 3], [4, 5, 6], *old, 5, old)
                attempt(f, a, b, *old, turns, new)
                print(a, b)
                attempt(f, a, a, *old, turns, new)
                print(a, b)
                if IS_COMPILED:
                    entered += ferrule_jit.stats(f)["entered"] > 0
    assert not IS_COMPILED or entered > 100, entered

    # A key function gets its list empty, and what it does to it is an error of the sort.
    def keys(rows):
        add, take, put = rows.append, rows.pop, rows.insert
        def appends(v):
            for i in range(40):
                add(v)
                take()
            return -v
        def stores(v):
            for i in range(40):
                rows[i:i] = rows[:3:-1]
                put(-1, v)
                take(0)
            return -v
        def items(v):
            for i in range(40):
                rows[i - i] = v
            return -v
        def reverses(v):
            for i in range(40):
                rows.reverse()
                rows.extend(rows[:1])
                add(1)
            return -v
        return appends, stores, items, reverses

    rows = []
    for key in keys(rows):
        for turn in range(3):
            rows[:] = range(WARM)
            hot(key)
            attempt(lambda: rows.sort(key=key))
            print(len(rows), rows[:8])
        entered += ferrule_jit.stats(key).get("entered", 0) if IS_COMPILED else 0
"""

# Functions that are items of a list, or variables that change places.
FUNCTIONS = """
def one(x):
    return x + 1
def two(x):
    return x * 2
def three(x, y=5):
    return x - y
def closure(k):
    def inner(x):
        return x + k
    return inner
def f(functions, n, box, new, at):
    t = 0
    for i in range(n):
        for g in functions:
            t += g(i)
        t += functions[0](t & 255)
        if i == at: box[0] = new
        t += box[0]
    return t
def f2(functions, n, box, new, at):
    g, h = functions[0], functions[1]
    t = 0
    for i in range(n):
        t += g(i) + h(i)
        g, h = h, g
        if i == at: box[0] = new
        t += box[0]
    return t
"""
OF_FUNCTIONS = """
    one = lambda: names["one"]
    three = lambda: names["three"]
    cells = lambda: [inner.__closure__[0] for inner in closures]
    CHANGES = [
        lambda: setattr(one(), "__code__", names["two"].__code__),
        lambda: functions.__setitem__(0, three()),
        lambda: functions.reverse(),
        lambda: setattr(three(), "__defaults__", (2.5,)),
        lambda: setattr(three(), "__defaults__", None),
        lambda: functions.append(len),
        lambda: functions.clear(),
        lambda: setattr(one(), "__code__", one().__code__.replace(co_firstlineno=99)),
        lambda: [setattr(cell, "cell_contents", 2.5) for cell in cells()],
        lambda: delattr(cells()[0], "cell_contents"),
        lambda: sys.setprofile(lambda frame, event, argument: print(frame.f_code.co_name, event) if frame.f_code.co_name == "one" else None),
    ]
    for number, change in enumerate(CHANGES):
        for kind in range(4):
            for name in ("f", "f2"):
                names = {"__name__": "source"}
                exec(compile(SOURCE, "source", "exec"), names)
                f, closure = names[name], names["closure"]
                closures = [closure(1), closure(2), closure(300)]
                functions = [
                    [one(), names["two"], three()], [one(), one(), one()], [*closures], [one(), closure(7), names["two"]],
                ][kind]

                def happens():
                    box[0] = 0
                    change()
                    return 0

                box, event = [0], Number(happens)
                hot(f)
                f(functions, 30, [0], event, -1)
                f(functions, 30, [0], event, -1)
                if IS_COMPILED:
                    entered += ferrule_jit.stats(f)["entered"] > 0
                print(number, kind, name)
                attempt(f, functions, WARM, box, event, WARM - 4)
                sys.setprofile(None)
                attempt(f, functions, WARM, box, event, -1)
"""


class Events(Case):
    def compare(self, program, source="", events=""):
        """Prints the same with the compiler and without it, and compiled code was entered."""
        program = f"SOURCE, EVENTS = {source!r}, {events.split()}\n" + textwrap.dedent(HEADER + program + FOOTER)
        made = run_alone("pass\n" + program).splitlines()
        plain = run_alone("ferrule_jit.disable()\n" + program).splitlines()
        self.assertEqual(made, plain)

    def test_events_in_functions_that_compiled_code_has_called(self):
        self.compare(IN_CALLEES, CALLS, """
            shows_frames raises replaces_items clears replaces_a_method deletes_setitem replaces_init replaces_code deletes_all a_float
            a_large_int calls_again traces changes_variables in_a_thread replaces_dict deletes_an_attribute replaces_class disables""")

    def test_classes_that_change_in_a_loop(self):
        self.compare(OF_CLASSES, CLASS)

    def test_operands_of_slices_that_change_the_lists(self):
        self.compare(OF_SLICES, SLICES)

    def test_functions_in_variables_that_change(self):
        self.compare(OF_FUNCTIONS, FUNCTIONS)
