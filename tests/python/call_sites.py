"""The kinds of call sites that call a function, and those that call an `__init__`."""

import functools

# What a vectorcall returns that answers in place of the function.
ANSWER = "compiled"


def sites():
    """(name, the function, a call of it, what that returns, what it returns while the vectorcall answers): made anew each time."""
    found = []

    def site(name, function, call, result, answer=ANSWER):
        found.append((name, function, call, result, answer))

    def nothing(): return "own"
    site("f()", nothing, lambda: nothing(), "own")
    def two(a, b): return a
    site("f(x, y)", two, lambda: two(1, 2), 1)
    def defaults(a=0, b=0): return b
    site("f(x) with a default", defaults, lambda: defaults(1), 0)
    def keywords(a, b): return a
    site("f(a=, b=)", keywords, lambda: keywords(a=1, b=2), 1)
    def stars(*a): return a
    site("f(*args)", stars, lambda: stars(*(1, 2)), (1, 2))
    def double(**a): return a
    site("f(**kwargs)", double, lambda: double(**{"a": 1}), {"a": 1})
    def mapped(a): return a
    site("map(f)", mapped, lambda: next(map(mapped, (1,))), 1)
    def part(a): return a
    partial = functools.partial(part, 1)
    site("partial(f)", part, lambda: partial(), 1)
    def key(a): return 0
    site("sorted(key=f)", key, lambda: len(sorted([1], key=key)), 1, 1)
    def decorator(f): return f

    def decorated():
        @decorator
        def inner(): return 1
        return inner if inner == ANSWER else inner()
    site("@f", decorator, decorated, 1)
    def generator(): yield 1
    site("generator function", generator, lambda: next(iter(generator())), 1, ANSWER[0])

    class C:
        def method(self, a=0): return a
        def exact(self, a): return a
        @classmethod
        def of_class(cls, a): return a
        @staticmethod
        def static(a): return a
        @property
        def attribute(self): return 1
        def __getitem__(self, k): return k
        def __setitem__(self, k, v): C.written = v
        def __call__(self, a): return a
        def __add__(self, other): return 1
        def __eq__(self, other): return 2
        def __enter__(self): return 1
        def __exit__(self, *error): pass
        def __iter__(self): return iter("a")
        def __next__(self): return 1
    o, bound = C(), C().exact
    site("o.m()", C.method, lambda: o.method(), 0)
    site("o.m(x)", C.exact, lambda: o.exact(1), 1)
    site("bound(x)", C.exact, lambda: bound(1), 1)
    site("C.m(o, x)", C.exact, lambda: C.exact(o, 1), 1)
    site("C.classmethod(x)", C.__dict__["of_class"].__func__, lambda: C.of_class(1), 1)
    site("C.staticmethod(x)", C.static, lambda: C.static(1), 1)
    site("o.property", C.attribute.fget, lambda: o.attribute, 1)
    site("o[x]", C.__getitem__, lambda: o[1], 1)

    def store():
        o[1] = 2
    site("o[x] = y", C.__setitem__, store, None, None)
    site("o(x)", C.__call__, lambda: o(1), 1)
    site("o + o", C.__add__, lambda: o + o, 1)
    site("o == o", C.__eq__, lambda: o == o, 2)
    site("next(o)", C.__next__, lambda: next(o), 1)

    def managed():
        with o as entered:
            return entered
    site("with o", C.__enter__, managed, 1)

    class D(C):
        def through_super(self): return super().exact(1)
        def exact(self, a): return "D"
    d = D()
    site("super().m(x)", C.exact, lambda: d.through_super(), 1)
    site("method of a subclass", D.exact, lambda: d.exact(1), "D")

    class Everything:
        def __getattribute__(self, name): return 1
    everything = Everything()
    site("__getattribute__", Everything.__getattribute__, lambda: everything.x, 1)

    class Missing:
        def __getattr__(self, name): return 1
    missing = Missing()
    site("__getattr__", Missing.__getattr__, lambda: missing.x, 1)
    return found


def init_sites():
    class Made:
        def __init__(self, a): self.a = a

    class OfSub(Made):
        pass

    class OwnNew:
        def __new__(cls, a): return super().__new__(cls)
        def __init__(self, a): self.a = a
    return [("C(x)", Made.__init__, lambda: Made(1)), ("Sub(x)", Made.__init__, lambda: OfSub(2)),
            ("C(x) with __new__", OwnNew.__init__, lambda: OwnNew(1)), ("C(a=x)", Made.__init__, lambda: Made(a=1)),
            ("C(*x)", Made.__init__, lambda: Made(*(1,)))]
