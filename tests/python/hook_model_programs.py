"""The programs of test_hook_model.py: functions of many kinds, what they do, and their source."""

from typing import NamedTuple

VARIANTS = 3                # codes of one function that can replace each other


class Kind(NamedTuple):
    """{n} is the function's number."""
    header: str
    call: str                       # an expression
    seen: str                       # an expression for the arguments in the body
    arguments: tuple                # what that is
    made: str = "f{n}"              # what is called
    value: str = "done"             # of the call, if no hook changes it
    is_generator: bool = False
    yields: bool = False            # between two parts of the body
    has_results: bool = True        # a hook may answer in its place


GENERATOR = {"is_generator": True, "yields": True, "has_results": False}
KINDS = {
    "function": Kind("def f{n}(a, b=2, *c, k, **d)", "f{n}(1, 3, 4, k=5, z=6)", "(a, b, c, k, d)", (1, 3, (4,), 5, {"z": 6})),
    "defaults": Kind("def f{n}(a, b=2, *, k=3)", "f{n}(1)", "(a, b, k)", (1, 2, 3)),
    "star": Kind("def f{n}(a, /, b, *, k)", "f{n}(*pair, **keywords)", "(a, b, k)", (1, 2, 3)),
    "map": Kind("def f{n}(a)", "list(map(f{n}, (7,)))[0]", "(a,)", (7,)),
    "closure": Kind("def f{n}(a)", "f{n}(1)", "(a, free)", (1, "free")),
    "generator": Kind("def f{n}(a)", "list(f{n}(1))", "(a,)", (1,), **GENERATOR),
    "for loop": Kind("def f{n}(a)", "[x for x in f{n}(1)]", "(a,)", (1,), **GENERATOR),
    "coroutine": Kind("async def f{n}(a)", "finish(f{n}(1))", "(a,)", (1,), is_generator=True, has_results=False),
    "initializer": Kind("def f{n}(self, a)", "type(f{n}(1)).__name__", "(a,)", (1,), made="type('C', (), {{'__init__': f{n}}})", value="C",
                        has_results=False),
    "property": Kind("def f{n}(a)", "f{n}.p", "(type(a).__name__,)", ("C",), made="type('C', (), {{'p': property(f{n})}})()"),
    "subscript": Kind("def f{n}(self, a)", "f{n}[3]", "(a,)", (3,), made="type('C', (), {{'__getitem__': f{n}}})()"),
}
# What makes the variants different: nothing, many locals, an argument in a cell.
LAYOUTS = ("pass", " = ".join(f"v{i}" for i in range(40)) + " = None", "inner = lambda: a")


class Boom(Exception):
    """What programs and hooks raise."""


def text_of(error):
    return str(error) if isinstance(error, Boom) else type(error).__name__


class finish:
    """Runs a coroutine to its end; a class, so that it is called without a frame that a hook would see first."""

    def __new__(cls, coroutine):
        try:
            coroutine.send(None)
        except StopIteration as stop:
            return stop.value


class Program:
    def __init__(self, chance, hooks, changes):
        self.kinds = [chance.choice(list(KINDS)) for _ in range(chance.randint(2, 6))]
        self.hooks, self.changes = hooks, changes
        self.bodies = [[[self.action(chance, number) for _ in range(chance.randint(0, 2))]
                        for _ in range(chance.randint(1, 4) if self.kind(number).yields else 1)] for number in range(len(self.kinds))]

    def kind(self, function):
        return KINDS[self.kinds[function]]

    def value(self, function):
        return [1] * (len(self.bodies[function]) - 1) if self.kind(function).yields else self.kind(function).value

    def change(self, chance):
        action = chance.choices(list(self.changes), list(self.changes.values()))[0]
        if action == "clear":
            return (action,)
        code = ((chance.randrange(len(self.kinds)), chance.randrange(VARIANTS)),) if action.endswith("code") else ()
        return action, chance.randrange(self.hooks), *code

    def action(self, chance, number):
        """Something that a function does. Only lower numbers are called: every call ends."""
        what = chance.random()
        if what < 0.06:
            return ("fail",)
        if what < 0.12 or not number:
            return ("change", *self.change(chance))
        return self.use(chance, chance.randrange(number), chance.random() < 0.6)

    def use(self, chance, callee, catches):
        if self.kind(callee).yields and chance.random() < 0.7:
            return "steps", callee, chance.randint(0, 4), chance.choice(("drop", "close", "throw"))
        return "call", callee, catches

    def lines(self, action, *details):
        if action == "fail":
            return ["raise Boom('program')"]
        if action == "change":
            return [f"change{tuple(details)}"]
        function, *details = details
        if action == "steps":
            steps, end = details
            return [f"g = f{function}(1)", f"for _ in range({steps}):", "    if next(g, None) is None:", "        break", "else:",
                    {"drop": "    pass", "close": "    g.close()", "throw": "    g.throw(Boom('thrown'))"}[end], "del g"]
        call = f"log.append(('value', {self.kind(function).call.format(n=function)}))"
        return ["try:", f"    {call}", "except EXPECTED as error:", "    log.append(('caught', text_of(error)))"] if details[0] else [call]

    def source(self, function, variant):
        kind, parts = self.kind(function), self.bodies[function]
        lines = [LAYOUTS[variant], f"log.append(('ran', ({function}, {variant}), {kind.seen}))"]
        for number, actions in enumerate(parts):
            lines += ["yield 1"] if number else []
            lines += [line for action in actions for line in self.lines(*action)]
        if kind.yields:
            lines += ["return", "yield"]
        elif self.kinds[function] != "initializer":
            lines += ["return 'done'"]
        return (f"def make(free):\n    {kind.header.format(n=function)}:\n" + "".join(f"        {line}\n" for line in lines)
                + f"    return {kind.made.format(n=function)}")


def find_code(code, name):
    if code.co_name == name:
        return code
    return next(filter(None, (find_code(c, name) for c in code.co_consts if hasattr(c, "co_consts"))), None)
