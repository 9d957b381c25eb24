"""Random functions over instances: attributes are read and stored, methods and items called, and objects and classes changed meanwhile."""

from generator import HEADER, PARAMETERS, Generator

ATTRIBUTES = ["x", "y"]
CLASSES = ["Plain", "Slotted", "Derived", "Both", "Odd"]
SOURCE = """class Plain:
    K = 3
    def __init__(self, x, y, other=None):
        self.x = x
        self.y = y
        self.items = [x, y, x]
        self.other = other
{methods}
class Slotted:
    __slots__ = ("x", "y", "items", "other")
    K = 0.5
    __init__ = Plain.__init__
{methods}
class Derived(Plain):
    K = -2
    def get(self, n):
        return self.x - n
class Both(Slotted):
    pass
class Odd(Plain):
    def __init__(self, y, x, other=None):
        self.other = other
        self.y = y
        self.x = self.y + x
        self.items = [x]
    twice = property(lambda self: self.x * 2, lambda self, value: setattr(self, "y", value))
def change(number, p):
    number %= 12
    if number == 0: type(p).K = 7
    elif number == 1: type(p).get = lambda self, n: n
    elif number == 2: p.extra = number
    elif number == 3: del p.y
    elif number == 4: p.__dict__["x"] = 4
    elif number == 5: p.__class__ = Derived
    elif number == 6: p.x = None
    elif number == 7: p.K = 9
    elif number == 8: p.__dict__ = {{"x": 8, "y": 8.5}}
    elif number == 9: type(p).y = property(lambda self: 9)
    elif number == 10: p.get = lambda n: n + 10
    else: p.x = "text"
def state(p):
    own = list(getattr(p, "__dict__", {{}}).items())
    names = [name for name in ("x", "y", "other") if hasattr(p, name)]
    return type(p).__name__, [name for name, _ in own], [getattr(p, name) for name in names], list(getattr(p, "items", ()))
def main(a, b, c):
    p, q = {first}(a, b), {second}(b, a)
    p.other = q
    ps = [p, q] + [{third}(c, a, p) for _ in range(3)]
    try:
        result = run(p, q, ps, a, b, c)
    except (AttributeError, TypeError, IndexError) as error:
        if isinstance(c, int) and c % 2:
            raise
        result = type(error).__name__, str(error)
    return result, [state(one) for one in ps]
"""
ODD = ["del {0}.{1}", "{0}.extra = {2}", "{0}.{1} = None", "{0}.__dict__['{1}'] = {2}", "{0}.__class__ = Derived", "change(a, {0})", "change(i1, {0})",
       "change({2}, {0}) if {0}.K == 3 else None", "{0}.K = {2}", "{0}.other = None", "{0}.items.append({2})", "{0}.items[0] = {2}", "{0}.items = ps",
       "{0}.items = [{2}]", "{0}.{1} = range(3)", "{0}[1] = {2}", "w = [({2}, 1000), range(3)]", "w = max(({2}, v) for v in (1, 2))", "w = ({2}, {0}.put)",
       "w = [{0}.put({2}), ({2}, 1000)]", "raise IndexError([({2}, 1000), range(3)])"]


class ObjectGenerator(Generator):
    """A program whose `run` has two instances and a list of some."""

    def source(self):
        self.methods, self.run = [], False
        for number in range(self.rng.randrange(2)):
            self.helper(f"helper{number}")
        self.method("get", "n", ["return self.x + n", "return self.y * self.K", "return self.get2(n) - self.y", "return self.items[1]"])
        self.method("get2", "n", ["return n", "return self.x", "return self.x if self.x > n else self.y"])
        self.method("put", "n", ["self.x = n", "self.x += n; self.y = n", "self.x, self.y = self.y, n", "self.items[0] = n; self.x = self.items[1]",
                                 "self.y = self.get2(n); return self.y", "self.x -= 1; self.x = n / self.x"])
        self.method("best", "other", ["return self if self.x > other.x else other", "self.y = other.x; return self", "return other"])
        self.method("seek", "n", ["return self if self.x > n else None", "return self.other", "if n: return self.other", "return self.x if n else None",
                                  "self.y = n; return self.other if n else None", "if self.other is None: return self\n        return self.other.seek(n)"])
        self.method("__getitem__", "n", ["return self.x if self.x > n else None", "return self.items[n]", "return self.x if n else self.y",
                                         "return self.get2(n) + self.x"])
        self.method("__setitem__", "n, value", ["self.items[n] = value", "self.x = value; self.items[n] = value; self.y = n", "self.y = value; return value",
                                                "self.y = value; return self", "self.items[n] = value; return range(n)"])
        for name in ("__add__", "__rmul__", "__sub__", "__lt__", "__eq__"):
            if self.rng.random() < 0.8:
                body = ["return self.x < other.x", "return self.y == other", "self.y = 1; return self.x > 2", "return other"]
                if name not in ("__lt__", "__eq__"):
                    body = ["return self.x", "return self.x + self.get2(1)", "self.x = self.x + self.y; return self.y", "self.put(3); return other",
                            "return self"]
                self.method(name, "other", [*body, "return NotImplemented if isinstance(other, Slotted) else self.x", "self.y = 2; return NotImplemented"])
        self.run = True
        self.function("main", PARAMETERS, statements=self.rng.randrange(3, 9), written="p, q, ps, a, b, c")
        first = [self.rng.choice(CLASSES) for _ in range(2)]
        classes = SOURCE.format(methods="\n".join(self.methods), first=first[0], second=first[self.rng.random() < 0.4], third=self.rng.choice(first))
        return HEADER + classes + "\n".join(self.lines).replace("def main(", "def run(") + "\n"

    def method(self, name, parameters, bodies):
        self.methods.append(f"    def {name}(self, {parameters}):\n        {self.rng.choice(bodies)}")

    def instance(self):
        return self.rng.choice(["p", "p", "q", "ps[1]", "ps[2]", "p.best(q)", "p.other", "ps[2].other", "ps[1].seek(i1)"])

    def atom(self, names):
        if not self.run or self.rng.random() < 0.65:
            return super().atom(names)
        one, number = self.rng.choice("ppq") if self.rng.random() < 0.8 else self.instance(), super().atom(names)
        return self.rng.choice([f"{one}.{self.rng.choice(ATTRIBUTES)}"] * 5 + [f"{one}.get({number})"] * 2 + [
            f"{one}.K", f"{one}[{self.rng.choice('01')}]", f"{one}.items[{self.rng.choice('012')}]", f"isinstance({one}, {self.rng.choice(CLASSES)})",
            f"({one} {self.rng.choice(['+', '-', '<', '==', '!='])} {self.rng.choice(['p', 'q', number])})", f"{number} * {one}", f"({one} + {number}) * 1",
            f"{one}.put({number})" if self.rng.random() < 0.3 else "1", f"{one}.twice" if self.rng.random() < 0.1 else "2"])

    def assign(self, pad):
        if not self.run or self.rng.random() < 0.45:
            super().assign(pad)
            return
        one, name, value = self.instance(), self.rng.choice(ATTRIBUTES), self.expression(1)
        kind = self.rng.random()
        if kind < 0.08:
            made = f"{self.rng.choice(CLASSES)}({value}, {self.rng.choice(self.known)}{self.rng.choice(['', ', p', ', other=q'])})"
            self.lines.append(f"{pad}{self.rng.choice(['p =', 'q =', 'ps[0] =', 'p.other =', 'ps = ps[1:] +', 'x ='])} {made}")
            if "+" in self.lines[-1].split(made)[0]:
                self.lines[-1] = self.lines[-1].replace(made, f"[{made}]")
            if self.lines[-1].startswith(f"{pad}x ="):
                self.lines[-1] += f".{name}"
        elif kind < 0.4:
            self.lines.append(f"{pad}{one}.{name} {self.rng.choice(['', '', '+', '-', '*'])}= {value}")
        elif kind < 0.6:
            self.lines.append(f"{pad}{one}.put({value})")
        elif kind < 0.7:
            self.lines.append(f"{pad}{one}[{self.rng.choice('012')}] = {value}")
        elif kind < 0.75:
            self.lines += [f"{pad}for one in ps:", f"{pad}    {self.rng.choice(['x', 'y'])} {self.rng.choice(['', '+'])}= one.{name}",
                           f"{pad}    one.{self.rng.choice(['put(x)', 'x += 1', 'y = one.get(y)', 'best(p)', 'other = q'])}"]
        elif kind < 0.8:
            self.lines += [f"{pad}node, steps = {one}, 0",
                           f"{pad}while {self.rng.choice(['node is not None', 'node'])} and steps < {self.rng.randrange(1, 7)}:",
                           f"{pad}    {self.rng.choice(['x', 'y'])} {self.rng.choice(['', '+'])}= node.{name}", f"{pad}    steps += 1",
                           f"{pad}    node = {self.rng.choice(['node.other', 'node.seek(x)', f'node.seek({value})'])}"
                           if self.rng.random() < 0.9 else f"{pad}    node, node.other = node.other, {self.rng.choice(['None', 'p', 'q', 'node'])}"]
        elif kind < (0.88 if self.calm else 0.92):
            odd = self.rng.choice(ODD).format(one, name, value)
            if len(pad) == 4 and self.rng.random() < 0.4:
                # So seldom that the rest of the loop stays compiled.
                self.lines += [f"{pad}for k in range(320):", f"{pad}    {self.rng.choice('xy')} = {one}.{name}", f"{pad}    if k % 64 == 63: {odd}"]
                return
            self.lines.append(f"{pad}{f'if {self.condition()}: ' if self.rng.random() < 0.7 and '=' not in odd[:1] else ''}{odd}")
        else:
            self.lines.append(f"{pad}{self.rng.choice(['p, q = q, p', 'p = p.best(q)', 'q = p.other or q', 'q = ps[1]', 'ps[0] = q', 'ps = ps[1:] + ps[:1]'])}")
