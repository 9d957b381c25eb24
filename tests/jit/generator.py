"""Random functions over numbers: statements of all kinds that are compiled, over values at which something changes."""

import random
import re

INTS = [0, 1, -1, 2, -2, 3, -3, 5, 7, -7, 8, 10, 63, 64, -64, 255, 256, 257, 1000, 2**30 - 1, 2**30, -2**30, 2**31, -2**31, 2**32,
        2**53 - 1, 2**53, 2**53 + 1, -2**53 - 1, 2**60, 2**61 + 1, 2**62, -2**62, 2**63 - 1, 2**63 - 2, -2**63, -2**63 + 1, 2**63,
        -2**63 - 1, 2**64, 10**30, -10**30]
FLOATS = [0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 1.5, 2.0, 3.0, -2.5, 0.1, 1e-5, 1e10, -1e10, 1e16, 2.0**53, 2.0**53 + 2, -2.0**63, 2.0**63,
          1e18, 1e100, 1e308, -1e308, 5e-324, 2.2250738585072014e-308, float("inf"), float("-inf"), float("nan")]
DEFAULTS = ["0", "1", "-3", "7", "True", "2**63 - 1"]
OTHERS = [True, False, None]
BINARY = ["+", "-", "*", "//", "%", "/", "&", "|", "^", "<<", ">>", "**"]
COMPARE = ["<", "<=", "==", "!=", ">", ">="]
# What raises for no number, and gives a number again.
CALM_CALLS = ["abs", "float", "bool", "min", "max", "math.fabs", "math.sin", "math.atan", "math.asinh", "math.isnan", "math.isfinite"]
# The share of programs in which most of what is executed raises nothing: in the others few calls get as far as a loop.
CALM = 0.8
CALLS = ["abs", "int", "float", "bool", "min", "max", "sqrt", "round", "math.floor", "math.ceil", "math.fabs", "math.sin", "math.exp",
         "math.atan", "math.log", "math.log10", "math.trunc", "math.expm1", "math.cbrt", "math.asinh", "math.degrees", "math.isnan",
         "math.isinf", "math.isfinite"]
OF_TWO = ["math.atan2", "math.fmod", "math.pow", "math.copysign", "math.log"]
OF_INTS = ["math.gcd", "math.lcm", "math.comb", "pow"]
PARAMETERS = ["a", "b", "c"]
VARIABLES = ["x", "y", "z", *PARAMETERS]
# How `main` has its variables: as locals, as globals, in cells, or as those of a module that it executes.
STYLES = ["locals"] * 5 + ["globals", "cells", "module"]
MODULE = """class Finished(Exception): pass
BODY = compile({body!r}, "<program of main>", "exec")
SPACE = {{}}
def main(a, b, c):
    SPACE.clear()
    SPACE.update(a=a, b=b, c=c, Finished=Finished)
    try:
        exec(BODY, SPACE)
    except Finished:
        pass
    return SPACE.get("result")
"""
HEADER = """import math
from math import sqrt
LIMIT = 7
SCALE = 1.5
"""


def arguments(rng, kinds):
    """Values of these kinds: "int", "float", "other"."""
    choices = {"int": INTS, "float": FLOATS, "other": OTHERS}
    small = {"int": [*range(-8, 9)], "float": [n / 2 for n in range(-8, 9)], "other": OTHERS}
    return tuple(rng.choice((choices if rng.random() < 0.5 else small)[kind]) for kind in kinds)


class Generator:
    """One program: a module with a function `main` of three parameters, and what it calls."""

    def __init__(self, seed, kinds):
        self.rng = random.Random(seed)
        self.kinds, self.floats = kinds, any(kind not in ("int", "other") for kind in kinds)
        self.calm = self.rng.random() < CALM
        # Where floats are about, an operator of bits is an exception most of the time.
        of_bits = not self.floats or (not self.calm and self.rng.random() < 0.2)
        self.binary = BINARY if of_bits else ["+", "-", "*", "//", "%", "/", "**"]
        self.lines = []
        self.loops = 0
        # Variables that are indices.
        self.places = []
        self.helpers = []
        # By name: the parameters with a default, and those that are keyword-only.
        self.optional = {}
        self.has_pair = False
        self.style, self.function_name = "locals", None

    def source(self):
        self.style = self.rng.choice(STYLES)
        for number in range(self.rng.randrange(3)):
            self.helper(f"helper{number}")
        if self.rng.random() < 0.3:
            self.recursive()
        if self.rng.random() < 0.3:
            self.pair()
        if self.style in ("globals", "module") and self.rng.random() < 0.5:
            self.lines += ["def reader(n):", f"    return {self.rng.choice('xyz')} + n"]
            self.helpers.append(("reader", 1))
        self.function("main", PARAMETERS, statements=self.rng.randrange(3, 9))
        return self.program()

    def program(self):
        """The text of all functions; in one style, what was the body of `main` is the code of a module."""
        if self.style != "module":
            return HEADER + "\n".join(self.lines) + "\n"
        start = next(index for index, line in enumerate(self.lines) if line.startswith("def main("))
        body = [re.sub(r"\breturn (.*)", r"result = \1; raise Finished", line[4:]) for line in self.lines[start + 1:]]
        return HEADER + MODULE.format(body=HEADER + "\n".join(self.lines[:start] + body) + "\n")

    def prologue(self, name):
        """Where the variables of `main` are."""
        if name != "main":
            return
        if self.style == "globals":
            self.lines.append("    global x, y, z")
        if self.style == "cells":
            self.lines += ["    def show(): return x, y", "    def bump():", "        nonlocal z", "        z += 1", "        return z"]

    def helper(self, name):
        parameters = PARAMETERS[:self.rng.randrange(1, 4)]
        with_default = parameters[self.rng.randrange(len(parameters) + 1):] if self.rng.random() < 0.5 else []
        only = self.rng.randrange(len(parameters)) if self.rng.random() < 0.25 else len(parameters)
        written = [f"{name}={self.rng.choice([*DEFAULTS, '0.5'] if self.floats else DEFAULTS)}" if name in with_default else name
                   for name in parameters]
        if only < len(parameters):
            written.insert(only, "*")
        self.function(name, parameters, statements=self.rng.randrange(1, 3), written=", ".join(written))
        self.helpers.append((name, len(parameters)))
        self.optional[name] = with_default, parameters[only:]

    def pair(self):
        """A helper that returns a tuple."""
        values = [self.expression(1, ["n", "m"]) for _ in range(3)]
        self.lines += ["def pair(n, m):", f"    return {values[0]}, ({values[1]}, {values[2]})"]
        self.has_pair = True

    def recursive(self):
        # Bounded by its first argument, which the callers mask.
        names = self.rng.choice([["again"], ["again", "other"], ["again", "other", "third"]])
        for name, callee in zip(names, names[1:] + names[:1]):
            end, step = self.expression(1, ["a", "b"]), self.expression(1, ["a", "b"])
            operation = f" {self.rng.choice(['+', '-', '*', '^'])} {self.rng.choice(['n', 'b', '1'])}" if self.rng.random() < 0.8 else ""
            self.lines += [f"def {name}(n, a, b):", "    if n <= 0:", f"        return {end}", f"    return {callee}(n - 1, {step}, a){operation}"]
        self.helpers.append(("again", 3))

    def function(self, name, parameters, statements, written=None):
        self.lines.append(f"def {name}({written or ', '.join(parameters)}):")
        self.prologue(name)
        self.function_name = name
        self.loops, self.places = 0, []
        self.known = list(parameters)
        start = ["0", "1", "0.0", "1.0", "1000", "a", "LIMIT", "SCALE"] if self.floats else ["0", "1", "1000", "a", "LIMIT"]
        self.lines.append(f"    x = {self.rng.choice(start)}")
        self.known.append("x")
        for name in ("y", "z"):
            self.lines.append(f"    {name} = {self.rng.choice(['0', '1', '0.5' if self.floats else '2', *parameters])}")
            self.known.append(name)
        self.bind_counters()
        self.bound = list(self.known)
        if self.calm and self.function_name == "main":
            self.loop("    ", 1)
        for _ in range(statements):
            self.statement(1, 0)
        self.lines.append(f"    return {self.result()}")

    def bind_counters(self):
        """In a calm program the variables of loops are bound where there was none."""
        if self.calm:
            self.lines.append("    i1 = i2 = i3 = 0")
            # None and bools have no arithmetic to speak of.
            self.known = [name for name in self.known if name not in PARAMETERS or self.kinds[PARAMETERS.index(name)] in ("int", "float")]

    def result(self):
        if self.in_cells() and self.rng.random() < 0.3:
            return "show()"
        if self.rng.random() < 0.15 and not (self.calm and self.function_name != "main"):
            return ", ".join(self.rng.choice(self.known) for _ in range(self.rng.randrange(2, 4)))
        return self.expression(2)

    def targets(self):
        """The variables that may get any number: in a calm program those that have one."""
        return [name for name in VARIABLES if name in self.known] if self.calm else VARIABLES

    def in_cells(self):
        return self.style == "cells" and self.function_name == "main"

    # ---- statements ---------------------------------------------------------------

    def statement(self, depth, loop):
        pad = "    " * depth
        kind = self.rng.random()
        if kind < 0.32 or depth > 3:
            self.assign(pad)
        elif kind < 0.45:
            target = self.rng.choice(self.bound)
            operators = ["+", "-", "*", "//", "%", "&", "^"] if self.binary is BINARY else self.binary[:6]
            operator = self.rng.choice(operators)
            self.lines.append(f"{pad}{target} {operator}= {self.operand(operator, self.expression(1))}")
        elif kind < 0.60:
            self.lines.append(f"{pad}if {self.condition()}:")
            self.block(depth + 1, loop)
            if self.rng.random() < 0.5:
                self.lines.append(f"{pad}else:")
                self.block(depth + 1, loop)
        elif kind < 0.80 and self.loops < self.most_loops():
            self.loop(pad, depth)
        elif kind < 0.84 and loop:
            self.lines.append(f"{pad}if {self.condition()}: {self.rng.choice(['break', 'continue'])}")
        elif kind < 0.88:
            self.lines.append(f"{pad}if {self.condition()}: return {self.result()}")
        elif kind < 0.91:
            names = self.rng.sample(self.targets(), 2)
            self.lines.append(f"{pad}{names[0]}, {names[1]} = {self.expression(1)}, {self.expression(1)}")
            self.known += [name for name in names if name not in self.known]
        elif kind < 0.93:
            self.lines.append(f"{pad}try:")
            self.block(depth + 1, loop)
            self.lines.append(f"{pad}except (ZeroDivisionError, ValueError, OverflowError, TypeError):")
            self.lines.append(f"{pad}    {self.rng.choice(self.bound)} = {self.rng.choice(['0', '-1', '0.5'])}")
            if self.rng.random() < 0.3:
                self.lines.append(f"{pad}{self.rng.choice(['else', 'finally'])}:")
                self.assign(pad + "    ")
        elif kind < 0.94:
            names = self.rng.sample(self.targets(), 2)
            self.lines.append(f"{pad}{names[0]}, {names[1]} = divmod({self.expression(1)}, {self.operand('%', self.expression(1))})")
            self.known += [name for name in names if name not in self.known]
        elif kind < 0.95:
            if self.rng.random() < 0.5:
                self.lines.append(f"{pad}assert {self.condition()}, {self.rng.choice(self.known)}")
            else:
                self.lines.append(f"{pad}if {self.condition()}: raise ValueError({self.rng.choice(self.known)})")
        elif kind < (0.95 if self.calm else 0.97):
            # Somewhere a variable is not bound any more.
            name = self.rng.choice(self.bound)
            self.lines.append(f"{pad}if {self.condition()}: del {name}")
        else:
            self.assign(pad)

    def most_loops(self):
        """A calm program executes all that it has, so that is less."""
        return (2 if self.function_name == "main" else 1) if self.calm else 3

    def block(self, depth, loop):
        for _ in range(self.rng.randrange(1, 4)):
            self.statement(depth, loop)

    def assign(self, pad):
        if self.rng.random() < 0.06:
            self.lines.append(f"{pad}{self.rng.choice('xyz')} = {self.over_generator()}")
            return
        if self.has_pair and self.function_name == "main" and self.rng.random() < 0.15:
            self.lines.append(f"{pad}x, (y, z) = pair({self.expression(1)}, {self.expression(1)})")
            return
        name = self.rng.choice(self.targets())
        self.lines.append(f"{pad}{name} = {self.expression(2)}")
        if name not in self.known:
            # Where it is assigned in a branch it may be unbound later.
            self.known.append(name)

    def loop(self, pad, depth):
        self.loops += 1
        counter = f"i{self.loops}"
        bounds = ["3", "5", "LIMIT", "int(x)", "int(a)"] if self.floats else ["3", "5", "LIMIT", "a", "b", "x", "int(x)"]
        bound = self.rng.choice(bounds[:3] if self.calm else bounds)
        if self.rng.random() < 0.6:
            step = self.rng.choice(["", "", "", ", 2", ", -1", ", 3" if self.calm else ", 0" if self.floats else ", c"])
            start = self.rng.choice(["0", "1", "-2", "5"]) if step or self.rng.random() < 0.5 else None
            arguments = f"{start}, {bound}{step}" if start else bound
            fuel = f"{pad}    if {counter} > 20 or {counter} < -20: break"
            self.lines += [f"{pad}for {counter} in range({arguments}):", fuel]
        else:
            self.lines += [f"{pad}{counter} = 0", f"{pad}while {self.condition()}:", f"{pad}    {counter} += 1",
                           f"{pad}    if {counter} > 9: break"]
        self.known.append(counter)
        self.places.append(counter)
        # Ints do not grow without end.
        self.lines += [f"{pad}    if abs({name}) > 1e40: break" for name in self.bound if name in VARIABLES]
        self.block(depth + 1, 1)
        if self.rng.random() < 0.15:
            self.lines.append(f"{pad}else:")
            self.assign(pad + "    ")

    # ---- expressions --------------------------------------------------------------

    def condition(self):
        kind = self.rng.random()
        if kind < 0.06:
            return f"{self.expression(1)} {self.rng.choice(COMPARE)} {self.expression(1)} {self.rng.choice(COMPARE)} {self.expression(1)}"
        if kind < 0.1:
            return f"({self.rng.choice(self.bound)} := {self.expression(1)}) {self.rng.choice(COMPARE)} {self.expression(1)}"
        if kind < 0.65:
            return f"{self.expression(1)} {self.rng.choice(COMPARE)} {self.expression(1)}"
        if kind < 0.7:
            return f"{self.expression(1)} {self.rng.choice(['in', 'not in'])} {self.members()}"
        if kind < 0.8:
            return f"not {self.rng.choice(self.known)}"
        if kind < 0.9:
            return f"{self.condition()} {self.rng.choice(['and', 'or'])} {self.condition()}"
        if kind < 0.93:
            return f"{self.rng.choice(self.known)} is {self.rng.choice(['None', 'not None'])}"
        return self.rng.choice(self.known)

    def over_generator(self):
        """A builtin of a generator expression."""
        reduction = self.rng.choice(["sum", "sum", "any", "all", "min", "max"])
        item = self.rng.choice(["g", f"g * {self.rng.choice(self.known)}", f"g == {self.rng.choice(self.known)}", self.expression(1)])
        source = self.rng.choice(["range(5)", "range(3, -3, -1)", f"({self.expression(0)}, {self.expression(0)})", "(1, 2, 0.5)"])
        condition = self.rng.choice(["", "", f" if g != {self.rng.choice(self.known)}", " for w in range(g)" if source[0] == "r" else ""])
        return f"{reduction}({item} for g in {source}{condition})"

    def members(self):
        """What a number may be in."""
        return self.rng.choice(["(0, 1, 2)", "{1, 2.5, None}", "(-1, 0.0, 2**53, True)", "(7,)", f"({self.expression(0)}, {self.expression(0)})",
                                f"range({self.rng.choice(['5', '-3, 9', '9, -9, -2'])})"])

    def atom(self, names):
        if self.in_cells() and self.rng.random() < 0.02:
            return "bump()"
        kind = self.rng.random()
        if kind < 0.62:
            return self.rng.choice(names)
        if kind < 0.80:
            return str(self.rng.choice([0, 1, 2, 3, -1, 7, 10, 64, 1000, 2**31, 2**53, 2**62]))
        if kind < (0.92 if self.floats else 0.80 if self.calm else 0.82):
            return str(self.rng.choice([0.0, 0.5, 1.0, 2.0, -1.5, 1e10, 1e300]))
        return self.rng.choice(["LIMIT", "SCALE", "True", "False", "math.pi"] if self.floats else ["LIMIT", "7", "True", "False"])

    def operand(self, operator, text):
        """The right operand of an operator: in a calm program no zero that is divided by."""
        return f"({text} or 1)" if self.calm and operator in ("//", "%", "/") else text

    def call(self, inner):
        """A builtin function of several arguments, or of ints."""
        kind = self.rng.random()
        if self.calm:
            kind = 0.75 if self.floats else 0.95 if kind < 0.5 else 0.8
        if kind < 0.3 and self.floats:
            return f"{self.rng.choice(OF_TWO)}({inner[0]}, {inner[1]})"
        if kind < 0.5:
            return f"{self.rng.choice(OF_INTS)}({inner[0]}, {inner[1]} & 15)"
        if kind < 0.6:
            return f"pow({', '.join(inner)})"
        if kind < 0.7:
            return self.rng.choice([f"math.isqrt({inner[0]})", f"math.factorial({inner[0]} & 31)"])
        if kind < 0.85:
            return f"{self.rng.choice(['min', 'max'])}({', '.join(inner[:2] if self.calm else inner)})"
        if kind < 0.9:
            return self.rng.choice(["int()", "bool()", "float()" if self.floats else "sum((a, b))"])
        return f"sum(range({inner[0]} & 1023, {inner[1]} & 1023{self.rng.choice(['', ', 2', ', -3'])}))"

    def expression(self, depth, names=None):
        names = names or self.known
        kind = self.rng.random()
        if depth == 0 or kind < 0.25:
            return self.atom(names)
        inner = [self.expression(depth - 1, names) for _ in range(3)]
        if kind < 0.75:
            operator = self.rng.choice(self.binary)
            if self.calm and operator in (("/", "**") if self.binary is BINARY else ("**",)):
                operator = "-"  # no float among ints, and no complex number
            if operator in ("<<", ">>"):
                return f"({inner[0]} {operator} ({inner[1]} & 63){' - 2' if not self.calm and self.rng.random() < 0.1 else ''})"
            if operator == "**":
                return f"({inner[0]} ** {self.rng.choice(['2', '3', '0', '0.5', '-1', '2.0'])})"
            return f"({inner[0]} {operator} {self.operand(operator, inner[1])})"
        if kind < 0.81:
            return f"({self.rng.choice(['-', '~', '+', 'not '] if self.binary is BINARY else ['-', '-', '+'])}{inner[0]})"
        if kind < 0.85:
            return f"({inner[0]} if {inner[1]} {self.rng.choice(COMPARE)} {inner[2]} else {inner[0]})"
        if kind < 0.89:
            return self.call(inner)
        if kind < 0.94 or not self.helpers:
            of_ints = ["abs", "int", "bool", "min", "max"] if self.calm else ["abs", "int", "bool", "min", "max", "int", "float"]
            of_floats = CALM_CALLS if self.calm else CALLS
            name = self.rng.choice(of_floats if self.floats else of_ints)
            count = 2 if name in ("min", "max") else 1
            return f"{name}({', '.join(inner[:count])})"
        name, count = self.rng.choice(self.helpers)
        if name == "again":
            return f"again({'5' if self.calm and self.floats else f'{inner[0]} & 15'}, {inner[1]}, {inner[2]})"
        return self.call_of(name, inner[:count])

    def call_of(self, name, values):
        """A call of a helper, some of whose arguments are left out, or have keywords in any order."""
        optional, only = self.optional.get(name, ((), ()))
        positional, keywords, named = [], [], False
        for parameter, value in zip(PARAMETERS, values):
            if parameter in optional and self.rng.random() < 0.4:
                named = True
                continue
            named = named or parameter in only or self.rng.random() < 0.15
            if named:
                keywords.append(f"{parameter}={value}")
            else:
                positional.append(value)
        self.rng.shuffle(keywords)
        return f"{name}({', '.join(positional + keywords)})"
