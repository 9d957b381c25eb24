"""Random programs about frames: what a seed gives is the same for ever, on every Python.

A program defines functions, generators, coroutines and classes, each of which may call those before it, and
then uses them. It ends because nothing loops without a bound and its functions share a number of calls
(`fuel`). What it does to be seen is defined in programs_worker.py.
"""

import random
from collections import Counter

LOCALS = ("v0", "v1", "v2", "v3", "v4")
ERRORS = ("Boom", "ValueError", "KeyError", "TypeError", "ZeroDivisionError", "IndexError")
FINALIZERS = ("back", "locals", "keep", "clear", "collect", "resurrect", "raise", "write", "generator")
EVENTS = ("PY_START", "PY_RESUME", "PY_RETURN", "PY_YIELD", "CALL", "LINE", "JUMP", "BRANCH", "RAISE", "RERAISE",
          "EXCEPTION_HANDLED", "PY_UNWIND", "PY_THROW", "STOP_ITERATION", "C_RETURN", "C_RAISE")
DEEPEST_BLOCK = 3
FARTHEST_RECURSION = 400


class Callable:
    """Something that a program has defined: its name, its kind and what it takes."""

    def __init__(self, name, kind, positional=(), defaults=0, positional_only=0, star=None, keyword_only=(),
                 keyword_defaults=(), double_star=None):
        self.name, self.kind = name, kind
        self.positional, self.defaults, self.positional_only = tuple(positional), defaults, positional_only
        self.star, self.keyword_only, self.double_star = star, tuple(keyword_only), double_star
        self.keyword_defaults = frozenset(keyword_defaults)

    def signature(self, first=()):
        parts = list(first)
        required = len(self.positional) - self.defaults
        for i, name in enumerate(self.positional):
            parts.append(name if i < required else f"{name}={i * 10}")
            if i + 1 == self.positional_only:
                parts.append("/")
        if self.positional_only == 0 and first and len(self.positional) > 2:
            parts.insert(len(first), "/")
        if self.star:
            parts.append("*" + self.star)
        elif self.keyword_only:
            parts.append("*")
        parts += [f"{name}='{name}'" if name in self.keyword_defaults else name for name in self.keyword_only]
        if self.double_star:
            parts.append("**" + self.double_star)
        return ", ".join(parts)

    def names(self):
        return [*self.positional, *self.keyword_only, *filter(None, (self.star, self.double_star))]


class Scope:
    """Where statements go: what kind of code it is, and which names it has."""

    def __init__(self, kind, names, outer=None):
        self.kind, self.names, self.outer = kind, list(names), outer
        self.loops = 0          # loops around the statement
        self.in_finally = False


class Generator:
    def __init__(self, seed):
        self.random = random.Random(f"ferrule {seed}")
        self.lines = []
        self.depth = 0
        self.used = Counter()
        self.probes = 0
        self.callables = []
        self.classes = []
        self.names = 0
        self.nesting = 0        # of function definitions

    # --- Text. --------------------------------------------------------------------------------------------------

    def put(self, text):
        self.lines.append("    " * self.depth + text)

    def block(self, header, *body):
        """A header and what functions or lines put below it."""
        self.put(header)
        self.depth += 1
        before = len(self.lines)
        for part in body:
            if isinstance(part, str):
                self.put(part)
            else:
                part()
        if len(self.lines) == before:
            self.put("pass")
        self.depth -= 1

    def use(self, construct):
        self.used[construct] += 1

    def chance(self, probability):
        return self.random.random() < probability

    def pick(self, items):
        return items[int(self.random.random() * len(items))]

    def weighted(self, table):
        total = sum(weight for weight, _ in table)
        at = self.random.random() * total
        for weight, item in table:
            at -= weight
            if at < 0:
                return item
        return table[-1][1]

    def new_name(self, prefix):
        self.names += 1
        return f"{prefix}{self.names}"

    # --- Expressions. -------------------------------------------------------------------------------------------

    def probe(self):
        self.probes += 1
        if self.chance(0.25):
            action = self.pick(FINALIZERS)
            self.use("finalizer " + action)
            return f"Probe('p{self.probes}', {action!r})"
        return f"Probe('p{self.probes}')"

    def constant(self):
        return self.pick(("0", "1", "7", "'x'", "'text'", "None", "(1, 2)", "2.5", "True", "b'b'", "[]", "{}"))

    def name(self, scope):
        if scope.names and not self.chance(0.04):
            return self.pick(scope.names)
        return self.pick(LOCALS) if self.chance(0.3) else self.constant()

    def expression(self, scope, depth=2):
        if depth <= 0:
            return self.name(scope) if self.chance(0.6) else self.constant()
        return self.weighted((
            (6, self.constant), (10, lambda: self.name(scope)), (7, self.probe),
            (9, lambda: self.call(scope, depth)), (3, lambda: self.comprehension(scope)),
            (2, lambda: self.lambda_call(scope)), (2, lambda: self.display(scope, depth)),
            (2, lambda: self.conditional(scope, depth)), (1, lambda: self.walrus(scope, depth)),
            (2, lambda: self.instance_use(scope)), (1, lambda: self.builtin_callback(scope)),
            (1, lambda: self.frame_expression()), (1, lambda: f"f'{{1}}' + show({self.name(scope)})"),
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
        return f"({self.expression(scope, depth - 1)} if {self.condition(scope)} else {self.expression(scope, depth - 1)})"

    def condition(self, scope):
        return self.pick((f"{self.name(scope)} is None", f"len(KEPT) > {self.random.randrange(3)}",
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
        return self.pick(("sys._getframe().f_lineno", "sys._getframe().f_lasti", "sys._getframe().f_code.co_name",
                          "len(sys._getframe().f_locals)", "sys._getframe()", "sys._getframe().f_back",
                          "chain(sys._getframe())"))

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
            return f"sorted([3, 1, 2], key=lambda n: -n)"
        return self.pick((f"sorted([2, 1], key=lambda n: (show({function.name}(n)), n))",
                          f"list(map({function.name}, (1, 2)))", f"list(filter({function.name}, (0, 5)))",
                          f"reduce(lambda a, b: {function.name}(b), (1, 2, 3))", f"partial({function.name}, 5)()",
                          f"max((1, 2), key=lambda n: n if {function.name}(n) else -n)"))

    def plain_function(self, arguments):
        fitting = [c for c in self.callables if c.kind == "function" and not set(c.keyword_only) - c.keyword_defaults
                   and len(c.positional) - c.defaults <= arguments <= (99 if c.star else len(c.positional))]
        return self.pick(fitting) if fitting else None

    def evaluate(self, scope):
        self.use("eval")
        return self.pick((f"eval('chain(sys._getframe())')", f"eval('[i for i in range(2)]')",
                          f"eval('(lambda: sys._getframe().f_lineno)()')", "eval('v0 + 1', {'v0': 4})",
                          "eval('missing_one', {}, LoggingDict())"))

    def arguments(self, callee, scope, depth):
        """Arguments that fit, nearly always, in one of the ways to pass them."""
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

    # --- Statements. --------------------------------------------------------------------------------------------

    def statements(self, scope, count):
        for _ in range(count):
            self.statement(scope)

    def body(self, scope, least=1, most=3):
        return lambda: self.statements(scope, self.random.randrange(least, most + 1))

    def statement(self, scope):
        simple = self.depth >= DEEPEST_BLOCK + self.nesting
        table = [
            (14, self.assign), (5, self.observe_locals), (4, self.observe_chain), (4, self.keep_frame),
            (4, self.look_at_kept), (4, self.write_locals), (3, self.clear_frame), (4, self.look_at_errors),
            (3, self.delete), (2, self.collect), (3, self.reference_counts), (5, self.evaluate_statement),
            (2, self.finish), (2, self.cycle), (2, self.augmented), (1, self.locals_call),
            (1, self.set_frame_attribute), (2, self.unpack), (1, self.weak_reference), (1, self.guarded_call),
        ]
        if not simple:
            table += [
                (4, self.branch), (5, self.loop), (9, self.try_statement), (4, self.with_statement),
                (2, self.match_statement), (2, self.execute), (2, self.tracing),
            ]
            if self.nesting < 2 and scope.kind != "class":
                table += [(4, self.closure), (1, self.local_class), (2, self.local_generator)]
        if scope.kind in ("generator", "asyncgen"):
            table += [(14, self.yield_statement)]
        if scope.kind == "generator":
            table += [(4, self.yield_from)]
        if scope.kind in ("coroutine", "asyncgen"):
            table += [(10, self.await_statement)]
            if not simple:
                table += [(4, self.async_with), (4, self.async_for)]
        if scope.kind != "class":
            table += [(3, self.use_generator), (2, self.use_coroutine), (2, self.use_async_generator)]
        self.weighted(table + self.more_statements(scope, simple))(scope)

    def more_statements(self, scope, simple):
        """What other kinds of programs have besides; `simple`: no blocks."""
        return []

    def assign(self, scope):
        name = self.pick(LOCALS)
        self.put(f"{name} = {self.expression(scope)}")
        self.assigned(scope, name)

    def augmented(self, scope):
        name = self.new_name("n")
        self.put(f"{name} = {self.random.randrange(5)}")
        self.put(f"{name} += {self.random.randrange(3)}")
        self.put(f"emit('augmented', {name}, sys._getframe().f_lineno)")

    def evaluate_statement(self, scope):
        self.put(f"emit('value', {self.expression(scope)})")

    def guarded_call(self, scope):
        function = self.plain_function(1)
        if function is not None:
            self.put(f"attempt('attempt', {function.name}, {self.expression(scope)})")

    def delete(self, scope):
        if scope.names and scope.kind != "class":
            self.use("del")
            name = self.pick(scope.names)
            # Such a name is unbound from here on, and closures find an empty cell.
            self.put(f"{name} = {self.probe()}; del {name}" if self.chance(0.6) else f"{name} = None")
            if self.chance(0.7):
                self.put(f"{name} = {self.constant()}")
                self.assigned(scope, name)
            elif name in scope.names:
                scope.names.remove(name)

    def unpack(self, scope):
        self.use("unpacking")
        a, b = self.pick(LOCALS), self.pick(LOCALS)
        self.put(f"{a}, *{b} = {self.expression(scope, 1)}, {self.constant()}, {self.probe()}"
                 if a != b else f"{a}, = [{self.expression(scope, 1)}]")
        self.assigned(scope, a)
        if a != b:
            self.assigned(scope, b)

    def observe_locals(self, scope):
        self.use("f_locals")
        self.put("emit('locals', locals_of(sys._getframe()))")

    def observe_chain(self, scope):
        self.use("chain")
        self.put("emit('chain', chain(sys._getframe()))")

    def locals_call(self, scope):
        self.use("locals()")
        if scope.kind == "module":
            return
        self.put(self.pick(("emit('locals()', sorted(locals()))", "locals()['v9'] = 1",
                            "emit('locals() is', locals() is locals(), len(locals()), len(vars()), len(dir()))")))

    def keep_frame(self, scope):
        self.use("frame kept")
        self.put(self.pick(("KEPT.append(sys._getframe())", "KEPT.append(sys._getframe())",
                            "KEPT.append(sys._getframe().f_back or sys._getframe())",
                            "KEPT[:1] = [sys._getframe()]", "KEPT.append((lambda: sys._getframe())())",
                            "KEPT.append(sys._getframe().f_locals)" if scope.kind != "module"
                            else "KEPT.append(sys._getframe())")))

    def a_frame(self):
        return self.pick(("sys._getframe()", "sys._getframe()", "(sys._getframe().f_back or sys._getframe())",
                          "kept(0, sys._getframe())",
                          "kept(-1, sys._getframe())"))

    def look_at_kept(self, scope):
        self.use("frame looked at")
        self.put(self.pick(("for _f in KEPT[-2:]: look(_f)", "if KEPT: look(KEPT.pop())", f"look({self.a_frame()})",
                            "look(sys._getframe())", "KEPT.clear()", "if KEPT: KEPT.pop(0)",
                            "emit('kept', KEPT)")))
        if scope.kind == "class":
            self.put("_f = None")

    def write_locals(self, scope):
        self.use("f_locals write")
        name = repr(self.pick(LOCALS + ("a", "b", "self", "new1", "new2")))
        frame = self.a_frame()
        value = self.expression(scope, 1)
        self.put("try:")
        self.depth += 1
        form = self.random.randrange(10)
        if form < 5:
            self.put(f"{frame}.f_locals[{name}] = {value}")
        elif form == 5:
            self.put(f"{frame}.f_locals.update({{{name}: {value}, 'v1': 1}})")
        elif form == 6:
            self.put(f"emit('setdefault', {frame}.f_locals.setdefault({name}, {value}))")
        elif form == 7:
            self.put(f"emit('pop', {frame}.f_locals.pop('new1', 'none'))")
        elif form == 8:
            self.put(f"del {frame}.f_locals[{name}]")
        else:
            self.put(f"_p = {frame}.f_locals")
            self.put(f"emit('proxy', {name} in _p, len(_p) if type(_p) is not dict else -1, _p == _p)")
        self.depth -= 1
        self.block("except Exception as _e:", "emit('write raised', _e)")
        if self.chance(0.5) and scope.names and scope.kind not in ("module", "class"):
            self.put(f"emit('after write', {self.pick(scope.names)})")

    def clear_frame(self, scope):
        self.use("frame.clear()")
        self.put(f"attempt('clear', {self.a_frame()}.clear)")

    def set_frame_attribute(self, scope):
        self.use("frame attribute set")
        frame = self.a_frame()
        self.put(self.pick((f"{frame}.f_trace_opcodes = True", f"{frame}.f_trace_lines = False",
                            f"attempt('set f_lineno', setattr, {frame}, 'f_lineno', sys._getframe().f_lineno)",
                            f"{frame}.f_trace = make_tracer('own')", f"attempt('set', setattr, {frame}, 'f_back', 1)")))

    def look_at_errors(self, scope):
        self.use("error looked at")
        self.put(self.pick(("if ERRORS: look_error(ERRORS[-1])", "if ERRORS: look_error(ERRORS.pop())",
                            "if ERRORS: error_text(ERRORS[-1])", "ERRORS.clear()",
                            "if ERRORS: traceback.clear_frames(ERRORS[-1].__traceback__)",
                            "if ERRORS: ERRORS[-1] = ERRORS[-1].with_traceback(None)",
                            "if ERRORS and ERRORS[-1].__traceback__: look(ERRORS[-1].__traceback__.tb_frame)",
                            "if ERRORS: ERRORS[-1].add_note('note')")))

    def collect(self, scope):
        self.use("gc.collect")
        self.put(self.pick(("emit('collect', gc.collect())", "gc.collect()", "gc.collect(0)",
                            "gc.set_threshold(20)", "gc.set_threshold(0)")))

    def reference_counts(self, scope):
        self.use("reference count")
        if scope.kind == "class" or not scope.names:
            return
        name = self.new_name("r")
        self.put(f"{name} = {self.probe()}")
        self.put(self.pick((f"emit('count', sys.getrefcount({name}))",
                            f"_l = [{name}] * 3; emit('count', sys.getrefcount({name}), sys.getrefcount(_l))",
                            f"KEPT.append(sys._getframe()); emit('count', sys.getrefcount({name}), "
                            f"sys.getrefcount(sys._getframe()), sys.getrefcount(sys._getframe().f_code))")))
        if self.chance(0.5):
            self.put(f"{name} = None")

    def finish(self, scope):
        """Leave the block: return, raise, break or continue."""
        form = self.random.randrange(4)
        if scope.loops and form == 0:
            self.put(f"if {self.condition(scope)}: {self.pick(('break', 'continue'))}")
        elif form == 1 and scope.kind in ("function", "coroutine", "generator"):
            self.put(f"if {self.condition(scope)}: return {self.expression(scope, 1)}")
        elif form in (2, 3) and scope.kind not in ("module", "class"):
            self.use("raise")
            error = f"{self.pick(ERRORS)}({self.random.randrange(100)})"
            self.put(f"if {self.condition(scope)}: raise {error}")

    def cycle(self, scope):
        self.use("cycle through a frame")
        probe = self.new_name("c")
        self.put(f"{probe} = {self.probe()}")
        self.put(self.pick((f"{probe}.frame = sys._getframe()", f"{probe}.frames = [sys._getframe(), {probe}]",
                            f"{probe}.inner = lambda: {probe}" if scope.kind != "class" else f"{probe}.me = {probe}",
                            f"{probe}.locals = sys._getframe().f_locals" if scope.kind != "module"
                            else f"{probe}.me = {probe}",
                            f"{probe}.back = sys._getframe().f_back")))

    def weak_reference(self, scope):
        self.use("weak reference")
        if self.callables:
            target = self.pick(self.callables).name
            self.put(f"_w = weakref.ref({target}, lambda _: emit('weak', chain(sys._getframe())))")

    # --- Compound statements. -----------------------------------------------------------------------------------

    def branch(self, scope):
        self.block(f"if {self.condition(scope)}:", self.body(scope))
        if self.chance(0.5):
            self.block("else:", self.body(scope))

    def loop(self, scope):
        scope.loops += 1
        if self.chance(0.7):
            name = self.pick(LOCALS)
            over = self.weighted(((6, lambda: f"range({self.random.randrange(2, 6)})"),
                                  (2, lambda: f"({self.probe()}, {self.probe()})"),
                                  (2, lambda: self.generator_call(scope) or "range(2)")))()
            if scope.kind == "class":
                over = "range(2)"
            self.use("for over a generator" if "(" in over and not over.startswith(("range", "(")) else "for")
            self.assigned(scope, name)
            self.block(f"for {name} in {over}:", self.body(scope))
        else:
            self.use("while")
            name = self.new_name("w")
            self.put(f"{name} = {self.random.randrange(2, 5)}")
            self.block(f"while {name} > 0:", f"{name} -= 1", self.body(scope))
        scope.loops -= 1
        if self.chance(0.2):
            self.block("else:", self.body(scope, 1, 1))

    def failing(self, scope):
        """A statement that is likely to raise."""
        functions = [c for c in self.callables if c.kind == "raiser"]
        if functions and self.chance(0.5):
            self.use("raise through frames")
            self.put(f"{self.pick(functions).name}({self.random.randrange(1, 11)})")
            return
        self.put(self.pick((f"raise {self.pick(ERRORS)}({self.random.randrange(9)}, {self.probe()})", "[][1]",
                            "undefined_name", "1 // 0", "{}['missing']", "None.attribute", "int('x')",
                            f"raise {self.pick(ERRORS)}(1) from Boom('cause')", "iter(3)",
                            "raise ExceptionGroup('group', [Boom(1), ValueError(2), ExceptionGroup('inner', [KeyError(3)])])",
                            "assert False, 'asserted'", "sys.maxsize()", "import no_such_module_here")))

    def try_statement(self, scope):
        self.use("try")
        loops, was_in_finally = scope.loops, scope.in_finally

        def attempt():
            self.body(scope, 0, 2)()
            if self.chance(0.75):
                self.failing(scope)

        self.block("try:", attempt)
        form = self.random.randrange(10)
        if form == 0:
            self.use("except*")
            name = self.new_name("e")
            # No break, continue or return in there.
            scope.loops = 0
            kind, scope.kind = scope.kind, "class" if scope.kind != "module" else "module"
            self.block(f"except* ({self.pick(ERRORS)}, Boom) as {name}:", f"ERRORS.append({name})",
                       f"look_error({name})")
            scope.kind = kind
            self.block("except* Exception:", "emit('except*', sys.exception())")
            scope.loops = loops
            return
        if form < 8:
            name = self.new_name("e")
            kinds = self.weighted(((6, "Exception"), (2, self.pick(ERRORS)), (1, f"({', '.join(ERRORS[:3])})")))

            def handle():
                if self.chance(0.6):
                    self.use("error kept")
                    self.put(f"ERRORS.append({name})")
                self.put(self.pick((f"look_error({name})", f"look_error({name})", f"error_text({name})",
                                    f"emit('caught', {name}, sys.exc_info()[0] is type({name}))",
                                    f"look({name}.__traceback__.tb_frame)",
                                    f"{name}.frame = sys._getframe(); {name}.itself = {name}")))
                self.body(scope, 0, 2)()
                if self.chance(0.12) and scope.kind not in ("module", "class"):
                    self.use("reraise")
                    self.put("raise" if self.chance(0.5) else f"raise Boom('again') from {name}")

            self.block(f"except {kinds} as {name}:", handle)
            if kinds != "Exception" and scope.kind == "module":
                self.block("except Exception as _e:", "emit('caught', _e)")
            if self.chance(0.15):
                self.block("else:", self.body(scope, 1, 1))
        if form >= 8 or self.chance(0.3):
            self.use("finally")
            scope.in_finally, scope.loops = True, 0
            self.block("finally:", "emit('finally', sys.exception())", self.body(scope, 0, 2))
            scope.in_finally, scope.loops = was_in_finally, loops

    def with_statement(self, scope):
        self.use("with")
        managers = [f"Manager('m{self.random.randrange(99)}', {self.chance(0.6)}, {self.chance(0.08)})"
                    for _ in range(self.random.randrange(1, 3))]
        name = self.pick(LOCALS)
        self.assigned(scope, name)

        def inside():
            self.body(scope, 1, 2)()
            if self.chance(0.3):
                self.failing(scope)

        self.block(f"with {managers[0]} as {name}{''.join(', ' + m for m in managers[1:])}:", inside)

    def match_statement(self, scope):
        self.use("match")
        self.put(f"match {self.expression(scope, 1)}:")
        self.depth += 1
        self.block("case int(m) | [m, *_]:", "emit('match number or sequence', m)", self.body(scope, 0, 1))
        self.block("case Probe(name=m) if m:", "emit('match probe', m)")
        self.block("case {0: m, **rest}:", "emit('match mapping', m, rest)")
        self.block("case _:", self.body(scope, 1, 1))
        self.depth -= 1

    def execute(self, scope):
        self.use("exec")
        inner = self.pick((
            "v0 = 1\\nemit('in exec', chain(sys._getframe()))", "def f():\\n    return sys._getframe()\\nKEPT.append(f())",
            "v1 = [i for i in (1, 2)]\\nemit('in exec', v1)", "class E:\\n    v = 1\\n    emit('in exec', sorted(locals()))",
            "raise Boom('in exec')", "emit('in exec', sys._getframe().f_lineno)\\nv0 = Probe('of exec')"))
        where = self.pick(("", ", globals(), {}", ", globals(), LoggingDict()", ", dict(globals())"))
        if where == "" and scope.kind == "module":
            where = ", dict(globals())"
        self.block("try:", f"exec(\"{inner}\"{where})")
        self.block("except Boom as _e:", "look_error(_e)")

    def tracing(self, scope):
        body = self.body(scope, 1, 3)
        form = self.random.randrange(5)
        if form < 2:
            self.use("settrace")
            jump = f"({self.random.randrange(6)}, {self.random.randrange(-2, 4)})" if self.chance(0.15) else None
            if jump:
                self.use("jump")
            opcodes = self.chance(0.2)
            self.put(f"sys.settrace(make_tracer('t', {opcodes}, {self.chance(0.9)}, {jump}, "
                     f"{('return',) if self.chance(0.3) else ()}))")
            end = "sys.settrace(None)"
        elif form == 2:
            self.use("setprofile")
            self.put("sys.setprofile(make_profiler('p'))")
            end = "sys.setprofile(None)"
        else:
            self.use("monitoring")
            events = sorted({self.pick(EVENTS[:14]) for _ in range(self.random.randrange(1, 5))})
            self.put(f"monitor({events!r})")
            end = "monitor_off()"
        if self.chance(0.25):
            self.put("sys._getframe().f_trace = make_tracer('here')")
        self.block("try:", body, lambda: self.call_something(scope))
        self.block("finally:", end)

    def call_something(self, scope):
        if scope.kind != "class":
            self.put(f"emit('called', {self.call(scope)})")

    # --- Functions within functions. ----------------------------------------------------------------------------

    def closure(self, scope):
        self.use("closure")
        name = self.new_name("inner")
        callee = self.random_signature(name, "function")
        captured = self.pick(scope.names) if scope.names else None
        inner = Scope("function", callee.names() + ([captured] if captured else []), scope)
        self.nesting += 1
        self.put(f"def {name}({callee.signature()}):")
        self.depth += 1
        self.put("fuel()")
        if captured and scope.kind not in ("module", "class") and captured not in callee.names() and self.chance(0.3):
            self.use("nonlocal")
            self.put(f"nonlocal {captured}")
            self.put(f"{captured} = {self.constant()}")
        elif captured and captured not in callee.names():
            self.put(f"emit('captured', {captured})")
            # Read only: an assignment would make it a local, unbound above.
            inner.names = [n for n in inner.names if n != captured]
        saved = list(self.callables)
        self.body(inner, 1, 3)()
        self.callables = saved
        self.put(f"return {self.expression(inner, 1)}")
        self.depth -= 1
        self.nesting -= 1
        if self.chance(0.85):
            self.put(f"emit('closure', {name}({self.arguments(callee, scope, 2)}))")
        if self.chance(0.4):
            self.put(f"attempt('cells', lambda f: [c.cell_contents for c in f.__closure__ or ()], {name})")
        if self.chance(0.2) and scope.kind not in ("class",):
            self.put(f"SAVED.append({name})")

    def local_class(self, scope):
        self.use("class body")
        name = self.new_name("L")
        inner = Scope("class", [], scope)
        self.nesting += 1
        self.block(f"class {name}:", "v0 = sys._getframe().f_lineno", self.body(inner, 1, 3),
                   "emit('class body', sorted(locals()), chain(sys._getframe()))")
        self.nesting -= 1
        if self.chance(0.3):
            self.put(f"del {name}")

    def local_generator(self, scope):
        self.use("local generator")
        name = self.new_name("g")
        inner = Scope("generator", ["k"], scope)
        self.nesting += 1
        self.block(f"def {name}(k=1):", "fuel()", self.body(inner, 1, 2), "yield k", self.body(inner, 0, 2))
        self.nesting -= 1
        self.put(f"emit('local generator', next({name}(), None))")
        if self.chance(0.4):
            self.put(f"GENERATORS.append({name}()); next(GENERATORS[-1], None)")

    # --- Generators and coroutines. -----------------------------------------------------------------------------

    def of_kind(self, kind):
        found = [c for c in self.callables if c.kind == kind]
        return self.pick(found) if found else None

    def generator_call(self, scope):
        callee = self.of_kind("generator")
        return callee and f"{callee.name}({self.arguments(callee, scope, 1)})"

    def yield_statement(self, scope):
        self.use("yield")
        name = self.pick(LOCALS)
        if scope.kind == "asyncgen" or self.chance(0.7):
            self.put(f"{name} = yield {self.expression(scope, 1)}")
        else:
            self.put(f"{name} = (yield), (yield 2)")
        self.assigned(scope, name)
        if self.chance(0.4):
            self.put(f"emit('sent', {name}, chain(sys._getframe()))")

    def yield_from(self, scope):
        call = self.generator_call(scope)
        self.use("yield from")
        name = self.pick(LOCALS)
        self.put(f"{name} = yield from {call if call and self.chance(0.7) else '(1, 2)'}")
        self.assigned(scope, name)

    def use_generator(self, scope, callee=None):
        callee = callee or self.of_kind("generator")
        if callee is None:
            return
        name = self.new_name("gen")
        self.block("try:",
                   f"{name} = {callee.name}({self.arguments(callee, scope, 1)})",
                   lambda: self.generator_steps(name))
        self.block("except (StopIteration, GeneratorExit, Exception) as _e:",
                   self.pick(("emit('generator raised', _e)", "look_error(_e)", "ERRORS.append(_e)")))
        self.put(self.pick((f"GENERATORS.append(locals().get('{name}'))", f"{name} = None", f"{name} = None", "pass",
                            "GENERATORS.clear()", f"_f = None")))

    def generator_steps(self, name):
        for _ in range(self.random.randrange(1, 6)):
            verb = self.weighted((
                (8, ("next", f"emit('next', next({name}, 'over'))")),
                (4, ("send", f"emit('send', {name}.send(None), {name}.send({self.probe()}))")),
                (4, ("throw", f"emit('throw', {name}.throw({self.pick(ERRORS)}(5)))")),
                (2, ("throw GeneratorExit", f"attempt('throw exit', {name}.throw, GeneratorExit())")),
                (4, ("close", f"emit('close', {name}.close())")),
                (3, ("for", f"for _i in {name}: emit('item', _i)")),
                (3, ("gi_frame", f"look({name}.gi_frame)")),
                (2, ("gi_frame kept", f"if {name}.gi_frame: KEPT.append({name}.gi_frame)")),
                (2, ("gi_frame clear", f"if {name}.gi_frame: attempt('generator clear', {name}.gi_frame.clear)")),
                (2, ("gi_frame write", f"if {name}.gi_frame: {name}.gi_frame.f_locals['v1'] = {self.probe()}")),
                (2, ("state", f"emit('state', {name}.gi_running, {name}.gi_suspended, {name}.gi_yieldfrom is None)")),
                (1, ("cycle", f"if {name}.gi_frame: {name}.gi_frame.f_locals['v2'] = {name}")),
                (1, ("thread", f"in_thread(next, {name}, 'over')")),
                # Whether there is a frame object is a matter of who has looked.
                (1, ("referents", f"emit('referents', sorted(type(x).__name__ for x in gc.get_referents({name}) "
                                  "if type(x).__name__ != 'frame'))")),
                (1, ("list", f"emit('list', list({name}))")),
            ))
            self.use("generator " + verb[0])
            self.put(verb[1])

    def plan(self):
        steps = ["('send', None)"]
        for _ in range(self.random.randrange(0, 4)):
            steps.append(self.weighted(((6, lambda: f"('send', {self.probe()})"), (4, lambda: "('send', 3)"),
                                        (2, lambda: f"('throw', {self.pick(ERRORS)}('thrown'))"),
                                        (1, lambda: "('throw', GeneratorExit())"), (2, lambda: "('close',)")))())
        return f"[{', '.join(steps)}]"

    def use_coroutine(self, scope, callee=None):
        callee = callee or self.of_kind("coroutine")
        if callee is None:
            return
        self.use("coroutine driven")
        name = self.new_name("co")
        self.block("try:",
                   f"{name} = {callee.name}({self.arguments(callee, scope, 1)})",
                   self.pick((f"drive({name}, {self.plan()})", f"drive({name}, {self.plan()})",
                              f"drive({name}, [('send', None)]); look({name}.cr_frame); drive({name}, {self.plan()[:-1]}, ('close',)])",
                              f"drive({name}.__await__(), {self.plan()})", f"in_thread(drive, {name}, {self.plan()})",
                              f"emit('origin', {name}.cr_origin, {name}.cr_await)")))
        self.block("except Exception as _e:", "emit('coroutine raised', _e)")
        self.put(self.pick((f"GENERATORS.append(locals().get('{name}'))", f"{name} = None", "pass")))

    def use_async_generator(self, scope, callee=None):
        callee = callee or self.of_kind("asyncgen")
        if callee is None:
            return
        self.use("async generator driven")
        name = self.new_name("ag")
        self.block("try:",
                   f"{name} = {callee.name}({self.arguments(callee, scope, 1)})",
                   *[self.pick((f"drive({name}.__anext__(), {self.plan()})", f"drive({name}.asend(None), {self.plan()})",
                                f"drive({name}.athrow({self.pick(ERRORS)}('into')), {self.plan()})",
                                f"drive({name}.aclose(), {self.plan()})", f"look({name}.ag_frame)",
                                f"emit('ag', {name}.ag_running, {name}.ag_await)"))
                     for _ in range(self.random.randrange(1, 4))])
        self.block("except Exception as _e:", "emit('async generator raised', _e)")
        self.put(self.pick((f"GENERATORS.append(locals().get('{name}'))", f"{name} = None", "pass")))

    def await_statement(self, scope):
        self.use("await")
        name = self.pick(LOCALS)
        callee = self.of_kind("coroutine")
        if callee is not None and self.chance(0.4):
            self.put(f"{name} = await {callee.name}({self.arguments(callee, scope, 1)})")
        else:
            self.put(f"{name} = await Suspend({self.expression(scope, 1)})")
        self.assigned(scope, name)

    def async_with(self, scope):
        self.use("async with")
        self.block(f"async with Manager('am', {self.chance(0.6)}):", self.body(scope, 1, 2),
                   lambda: self.failing(scope) if self.chance(0.3) else None)

    def async_for(self, scope):
        callee = self.of_kind("asyncgen")
        self.use("async for")
        if callee is None:
            self.put(f"v3 = [await Suspend(i) for i in range(2)]")
            self.assigned(scope, "v3")
            return
        call = f"{callee.name}({self.arguments(callee, scope, 1)})"
        if self.chance(0.3):
            self.put(f"v3 = [item async for item in {call}]")
            self.assigned(scope, "v3")
            return
        scope.loops += 1
        self.assigned(scope, "v3")
        self.block(f"async for v3 in {call}:", self.body(scope, 1, 2))
        scope.loops -= 1

    # --- Definitions at the program's own level. ----------------------------------------------------------------

    def random_signature(self, name, kind):
        count = self.weighted(((3, 0), (5, 1), (4, 2), (2, 3), (1, 5)))
        positional = ("a", "b", "c", "d", "e")[:count]
        defaults = self.random.randrange(count + 1) if self.chance(0.4) else 0
        positional_only = self.random.randrange(1, count + 1) if count and self.chance(0.15) else 0
        star = "args" if self.chance(0.18) else None
        keyword_only = ("k1", "k2")[:self.weighted(((8, 0), (2, 1), (1, 2)))]
        keyword_defaults = [k for k in keyword_only if self.chance(0.5)]
        return Callable(name, kind, positional, defaults, positional_only, star, keyword_only, keyword_defaults,
                        "kwargs" if self.chance(0.15) else None)

    def define(self, kind):
        self.use("def " + kind)
        prefix = {"function": "f", "generator": "gf", "coroutine": "cf", "asyncgen": "af"}[kind]
        callee = self.random_signature(self.new_name(prefix), kind)
        scope = Scope(kind, callee.names())
        if self.chance(0.1) and kind == "function":
            self.use("decorator")
            self.put(self.pick(("@(lambda f: f)", "@partial(lambda tag, f: (emit(tag, f), f)[1], 'decorated')")))
        self.put(f"{'async ' if kind in ('coroutine', 'asyncgen') else ''}def {callee.name}({callee.signature()}):")
        self.depth += 1
        self.nesting += 1
        self.put("fuel()")
        if self.chance(0.15):
            self.use("global")
            self.put("global g1")
            self.put(f"g1 = {self.expression(scope, 1)}")
        if self.chance(0.1):
            self.use("frame with many locals")
            self.put(" = ".join(f"x{i}" for i in range(self.pick((40, 200, 600)))) + " = None")
        self.body(scope, 2, 5)()
        if kind in ("generator", "asyncgen"):
            self.yield_statement(scope)
            self.body(scope, 0, 2)()
        if kind in ("function", "coroutine") and self.chance(0.8):
            self.put(f"return {self.expression(scope, 1)}")
        self.nesting -= 1
        self.depth -= 1
        self.callables.append(callee)

    def define_raiser(self):
        """Raises through as many frames as it is told."""
        name = self.new_name("raiser")
        form = self.random.randrange(3)
        self.put(f"def {name}(n):")
        self.depth += 1
        self.put(f"held = {self.probe()}")
        if form == 1:
            self.block("try:", f"if n: {name}(n - 1)")
            self.block("finally:", "emit('unwinding', n, held)")
        elif form == 2:
            self.block("if n:", f"[{name}(m) for m in (n - 1,)]")
        else:
            self.block("if n:", f"{name}(n - 1)")
        self.put(f"raise {self.pick(ERRORS)}('from', n)")
        self.depth -= 1
        self.callables.append(Callable(name, "raiser"))

    def define_recursion(self):
        """A recursion that crosses edges of the data stack, and what it does at its end."""
        self.use("deep recursion")
        name = self.new_name("deep")
        pads = self.pick((0, 3, 30, 120, 500))
        depth = self.pick((10, 60, 200, 600)) if pads < 500 else self.pick((10, 60))
        bottom = self.pick(("return chain(sys._getframe())[:90]", "KEPT.append(sys._getframe()); return n",
                            "raise Boom('at the bottom')", "return sys._getframe(3).f_lineno",
                            "return sys._getframe(5).f_locals['n']", "sys._getframe(2).f_locals['held'] = 'changed'; return n",
                            "gc.collect(); return n", "return [i for i in range(3)]",
                            "return sum(i for i in range(4))"))
        self.put(f"def {name}(n, *rest):")
        self.depth += 1
        if pads:
            self.put(" = ".join(f"x{i}" for i in range(pads)) + " = n")
        self.put(f"held = {'None' if self.chance(0.6) else 'Probe(n) if n < 4 else n'}")
        self.put(f"if n == 0: {bottom}")
        call = self.pick((f"{name}(n - 1)", f"{name}(n - 1, *rest)", f"{name}(*(n - 1,))", f"{name}(n=n - 1)",
                          f"(lambda: {name}(n - 1))()", f"next({name}(m) for m in (n - 1,))"))
        if call.startswith("next"):
            depth = min(depth, 200)
        self.put(f"result = {call}")
        self.put("return (result, held) if n % 50 == 0 and n < 200 else result")
        self.depth -= 1
        run = self.pick((f"emit('deep', {name}({depth}))", f"attempt('deep', {name}, {depth})",
                         f"in_thread({name}, {depth})",
                         f"for _i in range(3): attempt('deep', {name}, {depth} + _i)"))
        return name, run

    def define_endless(self):
        """A recursion into the limit."""
        self.use("recursion into the limit")
        name = self.new_name("endless")
        self.put(f"def {name}(n, {', '.join(f'x{i}=0' for i in range(self.pick((0, 2, 40)))) or 'x=0'}):")
        self.depth += 1
        self.put(f"held = {self.probe()}" if self.chance(0.3) else "held = n")
        # CPython 3.13 does not check the limit in calls that take defaults once they are specialized.
        self.put(f"if n > {FARTHEST_RECURSION}: raise RecursionError('no limit')")
        self.put(f"return {name}(n + 1)")
        self.depth -= 1
        return name, (f"sys.setrecursionlimit(len(traceback.extract_stack()) + {self.pick((40, 150))})\n"
                      f"try: {name}(0)\nexcept RecursionError as _e: emit('limit', _e); look_error(_e); "
                      f"ERRORS.append(_e)\nsys.setrecursionlimit(1000)")

    def define_class(self):
        self.use("class")
        cls = GeneratedClass(self.new_name("C"), self)
        self.classes.append(cls)

    def define_generic(self):
        # Type parameters are a scope of their own, with a frame of its own.
        self.use("type parameters")
        name = self.new_name("generic")
        self.block(f"def {name}[T](a: T, b=[chain(sys._getframe())]):", f"return a, b")
        self.put(f"emit('generic', {name}(1))")

    def swap_code(self):
        fitting = [c for c in self.callables if c.kind == "function"]
        if len(fitting) < 2:
            return
        self.use("code swapped")
        a, b = self.pick(fitting).name, self.pick(fitting).name
        self.block("try:", self.pick((f"{a}.__code__ = {b}.__code__", f"{a}.__defaults__ = (1, 2, 3)",
                                      f"{a}.__kwdefaults__ = {{'k1': 1, 'k2': 2}}", f"{a}.__defaults__ = None",
                                      f"{a}.__code__ = {a}.__code__.replace(co_name='renamed')")))
        self.block("except ValueError as _e:", "emit('swap', _e)")

    def guarded_statement(self, scope):
        """A statement of the program's own level: what it raises is shown, and the program goes on."""
        self.block("try:", self.body(scope, 1, 2))
        self.caught()

    def caught(self):
        self.block("except Exception as _e:", self.pick(("look_error(_e)", "look_error(_e); ERRORS.append(_e)",
                                                         "error_text(_e)", "emit('main', _e)")))

    def use_callable(self, scope, callee):
        """One call of what was defined: nothing is left out."""
        how = {"generator": self.use_generator, "coroutine": self.use_coroutine,
               "asyncgen": self.use_async_generator}.get(callee.kind)
        if how:
            how(scope, callee)
        elif callee.kind == "function":
            self.block("try:", f"emit('result', {callee.name}({self.arguments(callee, scope, 2)}))")
            self.caught()
        else:
            self.block("try:", f"{callee.name}({self.random.randrange(12)})")
            self.caught()

    def use_class(self, scope, cls):
        self.block("try:", *[f"emit('result', {cls.use(self, scope)})" for _ in range(2)])
        self.caught()

    def warm(self, scope):
        """Calls often enough to be specialized."""
        functions = [c for c in self.callables if c.kind == "function"]
        if not functions:
            return
        self.use("specialized call")
        callee = self.pick(functions)
        self.block("try:", lambda: self.block(f"for _i in range({self.pick((4, 10, 30))}):",
                                              f"v0 = {callee.name}({self.arguments(callee, scope, 1)})"))
        self.block("except Exception as _e:", "emit('warm', _e)")

    def define_more(self):
        """What other kinds of programs define first."""

    def more_actions(self, scope):
        """What other kinds of programs do besides."""
        return []

    def put_the_end(self):
        """How they end."""

    def program(self):
        """The source of the program."""
        self.define_more()
        if self.chance(0.1):
            self.use("async generator hooks")
            self.put("sys.set_asyncgen_hooks(lambda g: emit('first', g), lambda g: emit('finalize', g))")
        if self.chance(0.3):
            self.define_raiser()
        runs = []
        for _ in range(self.random.randrange(3, 8)):
            self.weighted((
                (8, lambda: self.define("function")), (4, lambda: self.define("generator")),
                (2, lambda: self.define("coroutine")), (2, lambda: self.define("asyncgen")), (3, self.define_class),
                (1, self.define_raiser), (1, lambda: runs.append(self.define_recursion())),
                (0.4, lambda: runs.append(self.define_endless())), (0.3, self.define_generic)))()
        scope = Scope("module", ["v0", "v1"])
        self.put(f"v0 = {self.probe()}")
        self.put("v1 = 1")
        actions = [lambda run=run: [self.put(line) for line in run.split("\n")] for _, run in runs]
        actions += [lambda c=c: self.use_callable(scope, c) for c in self.callables]
        actions += [lambda c=c: self.use_class(scope, c) for c in self.classes]
        actions += [lambda: self.guarded_statement(scope) for _ in range(self.random.randrange(3, 7))]
        actions += [lambda: self.warm(scope)] * self.random.randrange(0, 3)
        if self.chance(0.15):
            actions.append(self.swap_code)
        actions += self.more_actions(scope)
        self.random.shuffle(actions)
        for action in actions:
            action()
        self.put("emit('last', len(KEPT), len(ERRORS), len(GENERATORS), len(SAVED))")
        self.put_the_end()
        return "\n".join(self.lines) + "\n"


class GeneratedClass:
    """A class of the program: what it defines is what `use` may use."""

    def __init__(self, name, generator):
        self.name = name
        self.members = set()
        g = generator
        self.base = g.pick(g.classes).name if g.classes and g.chance(0.3) else g.pick(("", "Probe", "object"))
        init = self.init = g.random_signature("__init__", "function")
        g.put(f"class {name}({self.base}):" if self.base else f"class {name}:")
        g.depth += 1
        g.nesting += 1
        if g.chance(0.1):
            g.use("__slots__")
            g.put("__slots__ = ('v', 'name', 'action')" if self.base in ("", "object") else "v = 0")
        if g.chance(0.8):
            g.use("__init__")
            self.members.add("init")
            self.method("__init__", init.signature(("self",)), init.names(), g,
                        first=(f"self.name = 'of {name}'", "self.action = None", f"self.v = {g.constant()}"), returns=False)
        for member, weight in (("property", 0.5), ("getitem", 0.4), ("call", 0.3), ("iter", 0.3), ("getattr", 0.25),
                               ("del", 0.25), ("add", 0.25), ("eq", 0.2), ("len", 0.2), ("contains", 0.2),
                               ("plain", 0.5), ("static", 0.2), ("classmethod", 0.2), ("super", 0.2), ("setattr", 0.1)):
            if g.chance(weight):
                g.use("member " + member)
                self.members.add(member)
                getattr(self, "define_" + member)(g)
        g.put("here = chain(sys._getframe())")
        g.depth -= 1
        g.nesting -= 1

    def method(self, name, signature, names, g, first=(), returns=True):
        g.put(f"def {name}({signature}):")
        g.depth += 1
        g.put("fuel()")
        for line in first:
            g.put(line)
        scope = Scope("function" if returns else "method", ["self", *names])
        g.body(scope, 0, 2)()
        if returns:
            g.put(f"return {g.expression(scope, 1)}")
        g.depth -= 1

    def define_property(self, g):
        g.put("@property")
        self.method("prop", "self", (), g)

    def define_getitem(self, g):
        self.method("__getitem__", "self, key", ("key",), g,
                    first=("if isinstance(key, int) and key > 3: raise IndexError(key)",))

    def define_call(self, g):
        self.method("__call__", "self, *args, **kwargs", ("args", "kwargs"), g)

    def define_iter(self, g):
        g.put("def __iter__(self):")
        g.depth += 1
        scope = Scope("generator", ["self"])
        g.put("fuel()")
        g.body(scope, 0, 2)()
        g.put("yield self")
        g.depth -= 1

    def define_getattr(self, g):
        g.put("def __getattr__(self, attribute):")
        g.depth += 1
        g.put("if attribute.startswith('x'): return chain(sys._getframe())")
        g.put("raise AttributeError(attribute)")
        g.depth -= 1

    def define_setattr(self, g):
        g.put("def __setattr__(self, attribute, value):")
        g.depth += 1
        g.put("emit('setattr', attribute, sys._getframe().f_back.f_code.co_name)")
        g.put("object.__setattr__(self, attribute, value)")
        g.depth -= 1

    def define_del(self, g):
        g.put("def __del__(self):")
        g.depth += 1
        g.put(f"emit('del', type(self).__name__, chain(sys._getframe()))")
        g.put(g.pick(("pass", "KEPT.append(sys._getframe())", "SAVED.append(self)", "look(sys._getframe())",
                      "gc.collect()", "raise Boom('__del__')", "if KEPT: attempt('clear', KEPT[-1].clear)")))
        g.depth -= 1

    def define_add(self, g):
        self.method("__add__", "self, other", ("other",), g)

    def define_eq(self, g):
        g.put("def __eq__(self, other):")
        g.put("    emit('eq', chain(sys._getframe()))")
        g.put("    return self is other")
        g.put("__hash__ = object.__hash__")

    def define_len(self, g):
        g.put("def __len__(self):")
        g.put("    return len(sys._getframe().f_locals)")

    def define_contains(self, g):
        self.method("__contains__", "self, item", ("item",), g)

    def define_plain(self, g):
        self.plain = g.random_signature("plain", "function")
        self.method("plain", self.plain.signature(("self",)), self.plain.names(), g)

    def define_static(self, g):
        g.put("@staticmethod")
        g.put("def static(a, b=2): return a, b, chain(sys._getframe())")

    def define_classmethod(self, g):
        g.put("@classmethod")
        g.put("def made(cls, *args): return cls, args, sys._getframe()")

    def define_super(self, g):
        g.put("def parent(self):")
        g.put("    try: return super().plain(1)")
        g.put("    except (AttributeError, TypeError) as e: return show(e), __class__, sys._getframe().f_locals")

    def use(self, g, scope):
        arguments = g.arguments(self.init, scope, 1) if "init" in self.members else (
            "'named'" if self.base == "Probe" else "")
        made = f"{self.name}({arguments})"
        choices = [made]
        for member, text in (("property", ".prop"), ("getitem", "[1]"), ("getitem", "['k']"), ("call", "(1, k=2)"),
                             ("add", " + 1"), ("eq", " == 1"), ("getattr", ".xyz"), ("super", ".parent()"),
                             ("static", ".static(1)"), ("classmethod", ".made(1, 2)")):
            if member in self.members:
                choices.append(made + text)
        if "iter" in self.members:
            choices.append(f"list({made})[-1]")
            choices.append(f"[*{made}]")
        if "len" in self.members:
            choices.append(f"len({made})")
        if "contains" in self.members:
            choices.append(f"(1 in {made})")
        if "plain" in self.members:
            choices.append(f"{made}.plain({g.arguments(self.plain, scope, 1)})")
        if "getitem" in self.members and "iter" not in self.members:
            choices.append(f"[i for i in {made}]")
        return g.pick(choices)


def program(seed):
    """The program of a seed: its source, and how often it has each construct."""
    generator = Generator(seed)
    return generator.program(), generator.used
