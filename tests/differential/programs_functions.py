"""Functions, generators and coroutines of random programs: how they are defined and used."""

from tests.differential.programs_statements import Statements
from tests.differential.programs_text import ERRORS, LOCALS, Callable, Scope

FARTHEST_RECURSION = 400


class Functions(Statements):
    """Statements that define something to call, and that call it."""

    # --- Functions within functions. --------------------------------------------------------------

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
        nonlocals = captured and scope.kind not in ("module", "class")
        if nonlocals and captured not in callee.names() and self.chance(0.3):
            self.use("nonlocal")
            self.put(f"nonlocal {captured}")
            self.put(f"{captured} = {self.constant()}")
        elif captured and captured not in callee.names():
            self.put(f"emit('captured', {captured})")
            # It is only read here. An assignment would make it a local, which is unbound above.
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
            self.put("attempt('cells', lambda f: [c.cell_contents for c in f.__closure__ or ()], "
                     f"{name})")
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
        self.block(f"def {name}(k=1):", "fuel()", self.body(inner, 1, 2), "yield k",
                   self.body(inner, 0, 2))
        self.nesting -= 1
        self.put(f"emit('local generator', next({name}(), None))")
        if self.chance(0.4):
            self.put(f"GENERATORS.append({name}()); next(GENERATORS[-1], None)")

    # --- Generators and coroutines. ---------------------------------------------------------------

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
        self.block(
            "except (StopIteration, GeneratorExit, Exception) as _e:",
            self.pick(("emit('generator raised', _e)", "look_error(_e)", "ERRORS.append(_e)")))
        self.put(
            self.pick((f"GENERATORS.append(locals().get('{name}'))", f"{name} = None",
                       f"{name} = None", "pass", "GENERATORS.clear()", "_f = None")))

    def generator_steps(self, name):
        for _ in range(self.random.randrange(1, 6)):
            verb = self.weighted((
                (8, ("next", f"emit('next', next({name}, 'over'))")),
                (4, ("send", f"emit('send', {name}.send(None), {name}.send({self.probe()}))")),
                (4, ("throw", f"emit('throw', {name}.throw({self.pick(ERRORS)}(5)))")),
                (2, ("throw GeneratorExit",
                     f"attempt('throw exit', {name}.throw, GeneratorExit())")),
                (4, ("close", f"emit('close', {name}.close())")),
                (3, ("for", f"for _i in {name}: emit('item', _i)")),
                (3, ("gi_frame", f"look({name}.gi_frame)")),
                (2, ("gi_frame kept", f"if {name}.gi_frame: KEPT.append({name}.gi_frame)")),
                (2, ("gi_frame clear",
                     f"if {name}.gi_frame: attempt('generator clear', {name}.gi_frame.clear)")),
                (2, ("gi_frame write",
                     f"if {name}.gi_frame: {name}.gi_frame.f_locals['v1'] = {self.probe()}")),
                (2, ("state", f"emit('state', {name}.gi_running, {name}.gi_suspended, "
                              f"{name}.gi_yieldfrom is None)")),
                # CPython 3.13 never frees one that has not begun and is in a local of its own.
                (1, ("cycle", f"if {name}.gi_suspended: {name}.gi_frame.f_locals['v2'] = {name}")),
                (1, ("thread", f"in_thread(next, {name}, 'over')")),
                # There is a frame object only if something has looked at the frame.
                (1, ("referents",
                     f"emit('referents', sorted(type(x).__name__ for x in gc.get_referents({name}) "
                     "if type(x).__name__ != 'frame'))")),
                (1, ("list", f"emit('list', list({name}))")),
            ))
            self.use("generator " + verb[0])
            self.put(verb[1])

    def plan(self):
        steps = ["('send', None)"]
        for _ in range(self.random.randrange(0, 4)):
            steps.append(
                self.weighted(
                    ((6, lambda: f"('send', {self.probe()})"), (4, lambda: "('send', 3)"),
                     (2, lambda: f"('throw', {self.pick(ERRORS)}('thrown'))"),
                     (1, lambda: "('throw', GeneratorExit())"), (2, lambda: "('close',)")))())
        return f"[{', '.join(steps)}]"

    def use_coroutine(self, scope, callee=None):
        callee = callee or self.of_kind("coroutine")
        if callee is None:
            return
        self.use("coroutine driven")
        name = self.new_name("co")
        self.block(
            "try:", f"{name} = {callee.name}({self.arguments(callee, scope, 1)})",
            self.pick((
                f"drive({name}, {self.plan()})", f"drive({name}, {self.plan()})",
                f"drive({name}, [('send', None)]); look({name}.cr_frame); "
                f"drive({name}, {self.plan()[:-1]}, ('close',)])",
                f"drive({name}.__await__(), {self.plan()})",
                f"in_thread(drive, {name}, {self.plan()})",
                f"emit('origin', {name}.cr_origin, {name}.cr_await)")))
        self.block("except Exception as _e:", "emit('coroutine raised', _e)")
        self.put(self.pick(
            (f"GENERATORS.append(locals().get('{name}'))", f"{name} = None", "pass")))

    def use_async_generator(self, scope, callee=None):
        callee = callee or self.of_kind("asyncgen")
        if callee is None:
            return
        self.use("async generator driven")
        name = self.new_name("ag")
        self.block(
            "try:", f"{name} = {callee.name}({self.arguments(callee, scope, 1)})", *[
                self.pick((f"drive({name}.__anext__(), {self.plan()})",
                           f"drive({name}.asend(None), {self.plan()})",
                           f"drive({name}.athrow({self.pick(ERRORS)}('into')), {self.plan()})",
                           f"drive({name}.aclose(), {self.plan()})", f"look({name}.ag_frame)",
                           f"emit('ag', {name}.ag_running, {name}.ag_await)"))
                for _ in range(self.random.randrange(1, 4))
            ])
        self.block("except Exception as _e:", "emit('async generator raised', _e)")
        self.put(self.pick(
            (f"GENERATORS.append(locals().get('{name}'))", f"{name} = None", "pass")))

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
            self.put("v3 = [await Suspend(i) for i in range(2)]")
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

    # --- Definitions at the program's own level. --------------------------------------------------

    def random_signature(self, name, kind):
        count = self.weighted(((3, 0), (5, 1), (4, 2), (2, 3), (1, 5)))
        positional = ("a", "b", "c", "d", "e")[:count]
        defaults = self.random.randrange(count + 1) if self.chance(0.4) else 0
        positional_only = self.random.randrange(1, count + 1) if count and self.chance(0.15) else 0
        star = "args" if self.chance(0.18) else None
        keyword_only = ("k1", "k2")[:self.weighted(((8, 0), (2, 1), (1, 2)))]
        keyword_defaults = [k for k in keyword_only if self.chance(0.5)]
        return Callable(name, kind, positional, defaults, positional_only, star, keyword_only,
                        keyword_defaults, "kwargs" if self.chance(0.15) else None)

    def define(self, kind):
        self.use("def " + kind)
        prefix = {"function": "f", "generator": "gf", "coroutine": "cf", "asyncgen": "af"}[kind]
        callee = self.random_signature(self.new_name(prefix), kind)
        scope = Scope(kind, callee.names())
        if self.chance(0.1) and kind == "function":
            self.use("decorator")
            self.put(
                self.pick(("@(lambda f: f)",
                           "@partial(lambda tag, f: (emit(tag, f), f)[1], 'decorated')")))
        begin = "async def" if kind in ("coroutine", "asyncgen") else "def"
        self.put(f"{begin} {callee.name}({callee.signature()}):")
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
        """A function that raises through a given number of frames."""
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
        """A recursion that crosses edges of the data stack, and does something at its bottom."""
        self.use("deep recursion")
        name = self.new_name("deep")
        pads = self.pick((0, 3, 30, 120, 500))
        depth = self.pick((10, 60, 200, 600)) if pads < 500 else self.pick((10, 60))
        bottom = self.pick(
            ("return chain(sys._getframe())[:90]", "KEPT.append(sys._getframe()); return n",
             "raise Boom('at the bottom')", "return sys._getframe(3).f_lineno",
             "return sys._getframe(5).f_locals['n']",
             "sys._getframe(2).f_locals['held'] = 'changed'; return n", "gc.collect(); return n",
             "return [i for i in range(3)]", "return sum(i for i in range(4))"))
        self.put(f"def {name}(n, *rest):")
        self.depth += 1
        if pads:
            self.put(" = ".join(f"x{i}" for i in range(pads)) + " = n")
        self.put(f"held = {'None' if self.chance(0.6) else 'Probe(n) if n < 4 else n'}")
        self.put(f"if n == 0: {bottom}")
        call = self.pick(
            (f"{name}(n - 1)", f"{name}(n - 1, *rest)", f"{name}(*(n - 1,))", f"{name}(n=n - 1)",
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
        """A recursion that comes to the limit."""
        self.use("recursion into the limit")
        name = self.new_name("endless")
        defaults = ", ".join(f"x{i}=0" for i in range(self.pick((0, 2, 40)))) or "x=0"
        self.put(f"def {name}(n, {defaults}):")
        self.depth += 1
        self.put(f"held = {self.probe()}" if self.chance(0.3) else "held = n")
        # CPython 3.13 does not check the limit in specialized calls that take defaults.
        self.put(f"if n > {FARTHEST_RECURSION}: raise RecursionError('no limit')")
        self.put(f"return {name}(n + 1)")
        self.depth -= 1
        return name, (
            f"sys.setrecursionlimit(len(traceback.extract_stack()) + {self.pick((40, 150))})\n"
            f"try: {name}(0)\nexcept RecursionError as _e: emit('limit', _e); look_error(_e); "
            f"ERRORS.append(_e)\nsys.setrecursionlimit(1000)")

    def define_generic(self):
        # Type parameters have a scope and a frame of their own.
        self.use("type parameters")
        name = self.new_name("generic")
        self.block(f"def {name}[T](a: T, b=[chain(sys._getframe())]):", "return a, b")
        self.put(f"emit('generic', {name}(1))")

    def swap_code(self):
        fitting = [c for c in self.callables if c.kind == "function"]
        if len(fitting) < 2:
            return
        self.use("code swapped")
        a, b = self.pick(fitting).name, self.pick(fitting).name
        self.block(
            "try:",
            self.pick((f"{a}.__code__ = {b}.__code__", f"{a}.__defaults__ = (1, 2, 3)",
                       f"{a}.__kwdefaults__ = {{'k1': 1, 'k2': 2}}", f"{a}.__defaults__ = None",
                       f"{a}.__code__ = {a}.__code__.replace(co_name='renamed')")))
        self.block("except ValueError as _e:", "emit('swap', _e)")
