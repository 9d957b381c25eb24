"""Expressions of random programs: values, calls, comprehensions, and what looks at frames."""

from tests.differential.programs_text import FINALIZERS, LOCALS, Text


class Expressions(Text):
    """Each method returns the text of an expression that can stand in the scope."""

    def probe(self):
        self.probes += 1
        if self.chance(0.25):
            action = self.pick(FINALIZERS)
            self.use("finalizer " + action)
            return f"Probe('p{self.probes}', {action!r})"
        return f"Probe('p{self.probes}')"

    def constant(self):
        return self.pick(
            ("0", "1", "7", "'x'", "'text'", "None", "(1, 2)", "2.5", "True", "b'b'", "[]", "{}"))

    def name(self, scope):
        if scope.names and not self.chance(0.04):
            return self.pick(scope.names)
        return self.pick(LOCALS) if self.chance(0.3) else self.constant()

    def expression(self, scope, depth=2):
        if depth <= 0:
            return self.name(scope) if self.chance(0.6) else self.constant()
        return self.weighted((
            (6, self.constant),
            (10, lambda: self.name(scope)),
            (7, self.probe),
            (9, lambda: self.call(scope, depth)),
            (3, lambda: self.comprehension(scope)),
            (2, lambda: self.lambda_call(scope)),
            (2, lambda: self.display(scope, depth)),
            (2, lambda: self.conditional(scope, depth)),
            (1, lambda: self.walrus(scope, depth)),
            (2, lambda: self.instance_use(scope)),
            (1, lambda: self.builtin_callback(scope)),
            (1, lambda: self.frame_expression()),
            (1, lambda: f"f'{{1}}' + show({self.name(scope)})"),
            (1, lambda: self.evaluate(scope)),
        ))()

    def display(self, scope, depth):
        items = [self.expression(scope, depth - 1) for _ in range(self.random.randrange(1, 4))]
        form = self.random.randrange(4)
        if form == 0:
            return f"[{', '.join(items)}]"
        if form == 1:
            return f"({', '.join(items)},)"
        if form == 2:
            return "{" + ", ".join(f"{i}: {item}" for i, item in enumerate(items)) + "}"
        return f"[*({items[0]},), *range(2)]"

    def conditional(self, scope, depth):
        then = self.expression(scope, depth - 1)
        condition = self.condition(scope)
        return f"({then} if {condition} else {self.expression(scope, depth - 1)})"

    def condition(self, scope):
        return self.pick(
            (f"{self.name(scope)} is None", f"len(KEPT) > {self.random.randrange(3)}",
             f"isinstance({self.name(scope)}, int)", "gc.isenabled()", "True", "False",
             f"{self.random.randrange(3)} < len(ERRORS)", f"type({self.name(scope)}) is str"))

    def walrus(self, scope, depth):
        if scope.kind == "class":
            return self.constant()
        self.use("walrus")
        name = self.pick(LOCALS)
        text = f"({name} := {self.expression(scope, depth - 1)})"
        self.assigned(scope, name)
        return text

    def assigned(self, scope, name):
        if name not in scope.names:
            scope.names.append(name)

    def frame_expression(self):
        return self.pick(("sys._getframe().f_lineno", "sys._getframe().f_lasti",
                          "sys._getframe().f_code.co_name", "len(sys._getframe().f_locals)",
                          "sys._getframe()", "sys._getframe().f_back", "chain(sys._getframe())"))

    def comprehension(self, scope):
        self.use("comprehension")
        inner = self.random.randrange(2, 5)
        seen = self.name(scope) if scope.kind != "class" else self.constant()
        form = self.random.randrange(7)
        if form == 0:
            return f"[(i, {seen}) for i in range({inner})]"
        if form == 1:
            return f"{{i: {seen} for i in range({inner}) if i}}"
        if form == 2:
            return f"[[chain(sys._getframe()) for j in range(1)] for i in range({inner - 1})]"
        if form == 3:
            return f"list((i, {seen}) for i in range({inner}))"
        if form == 4:
            return f"[lambda: (i, {seen}) for i in range({inner})][0]()"
        if form == 5:
            return f"[locals_of(sys._getframe()) for i in range({inner - 1}) for j in (i, i)]"
        return f"sorted({{i % 2 for i in range({inner})}})"

    def lambda_call(self, scope):
        self.use("lambda")
        return self.pick((f"(lambda a, b={self.constant()}: (a, b))({self.name(scope)})",
                          "(lambda *a, **k: (len(a), sorted(k)))(1, 2, z=3)",
                          "(lambda: chain(sys._getframe()))()",
                          "(lambda n: sys._getframe(n).f_lineno)(0)"))

    def builtin_callback(self, scope):
        self.use("callback from C")
        function = self.plain_function(1)
        if function is None:
            return "sorted([3, 1, 2], key=lambda n: -n)"
        return self.pick(
            (f"sorted([2, 1], key=lambda n: (show({function.name}(n)), n))",
             f"list(map({function.name}, (1, 2)))", f"list(filter({function.name}, (0, 5)))",
             f"reduce(lambda a, b: {function.name}(b), (1, 2, 3))",
             f"partial({function.name}, 5)()",
             f"max((1, 2), key=lambda n: n if {function.name}(n) else -n)"))

    def plain_function(self, arguments):
        fitting = [c for c in self.callables
                   if c.kind == "function" and not set(c.keyword_only) - c.keyword_defaults
                   and len(c.positional) - c.defaults <= arguments
                   and (c.star or arguments <= len(c.positional))]
        return self.pick(fitting) if fitting else None

    def evaluate(self, scope):
        self.use("eval")
        return self.pick(("eval('chain(sys._getframe())')", "eval('[i for i in range(2)]')",
                          "eval('(lambda: sys._getframe().f_lineno)()')",
                          "eval('v0 + 1', {'v0': 4})", "eval('missing_one', {}, LoggingDict())"))

    def arguments(self, callee, scope, depth):
        """Arguments in one of the ways to pass them. Nearly always they fit."""
        value = lambda: self.expression(scope, depth - 1)
        if self.chance(0.03):
            self.use("call that does not fit")
            return self.pick(("", "1, 2, 3, 4, 5, 6, 7", "nonsense=1", "*(1,), **{'nonsense': 2}"))
        required = len(callee.positional) - callee.defaults
        count = self.random.randrange(required, len(callee.positional) + 1)
        positional, keywords = [], []
        for i, name in enumerate(callee.positional[:count]):
            if i >= callee.positional_only and self.chance(0.2):
                keywords.append((name, value()))
            elif keywords:
                if i < callee.positional_only:
                    break
                keywords.append((name, value()))
            else:
                positional.append(value())
        for name in callee.keyword_only:
            if name not in callee.keyword_defaults or self.chance(0.5):
                keywords.append((name, value()))
        if callee.star and not keywords and count == len(callee.positional) and self.chance(0.5):
            positional += [value() for _ in range(self.random.randrange(1, 4))]
        if callee.double_star and self.chance(0.5):
            keywords.append(("extra", value()))
        parts = list(positional)
        if positional and self.chance(0.12):
            self.use("call with *")
            split = self.random.randrange(len(positional))
            parts = [*positional[:split], "*(" + ", ".join(positional[split:]) + ",)"]
        if keywords and self.chance(0.2):
            self.use("call with **")
            parts.append("**{" + ", ".join(f"'{name}': {text}" for name, text in keywords) + "}")
        else:
            parts += [f"{name}={text}" for name, text in keywords]
        return ", ".join(parts)

    def call(self, scope, depth=2):
        functions = [c for c in self.callables if c.kind == "function"]
        if not functions or self.chance(0.15):
            return self.lambda_call(scope)
        self.use("call")
        callee = self.pick(functions[-4:])
        return f"{callee.name}({self.arguments(callee, scope, depth)})"

    def instance_use(self, scope):
        if not self.classes:
            return self.constant()
        self.use("class use")
        return self.pick(self.classes).use(self, scope)
