"""Statements of random programs: assignments, what is done to frames, and blocks."""

from tests.differential.programs_expressions import Expressions
from tests.differential.programs_text import ERRORS, EVENTS, LOCALS

DEEPEST_BLOCK = 3


class Statements(Expressions):
    """Each method puts one statement into the program.

    Some statements that statement() chooses from are defined in the subclass Functions.
    """

    def statements(self, scope, count):
        for _ in range(count):
            self.statement(scope)

    def body(self, scope, least=1, most=3):
        return lambda: self.statements(scope, self.random.randrange(least, most + 1))

    def statement(self, scope):
        simple = self.depth >= DEEPEST_BLOCK + self.nesting
        table = [
            (14, self.assign),
            (5, self.observe_locals),
            (4, self.observe_chain),
            (4, self.keep_frame),
            (4, self.look_at_kept),
            (4, self.write_locals),
            (3, self.clear_frame),
            (4, self.look_at_errors),
            (3, self.delete),
            (2, self.collect),
            (3, self.reference_counts),
            (5, self.evaluate_statement),
            (2, self.finish),
            (2, self.cycle),
            (2, self.augmented),
            (1, self.locals_call),
            (1, self.set_frame_attribute),
            (2, self.unpack),
            (1, self.weak_reference),
            (1, self.guarded_call),
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
            table += [(3, self.use_generator), (2, self.use_coroutine),
                      (2, self.use_async_generator)]
        self.weighted(table + self.more_statements(scope, simple))(scope)

    def more_statements(self, scope, simple):
        """Further statements of other kinds of programs. Where `simple`, no blocks."""
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
            # From here on the name is unbound, and closures find an empty cell.
            self.put(
                f"{name} = {self.probe()}; del {name}" if self.chance(0.6) else f"{name} = None")
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

    # --- Frames. ----------------------------------------------------------------------------------

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
        self.put(self.pick((
            "emit('locals()', sorted(locals()))", "locals()['v9'] = 1",
            "emit('locals() is', locals() is locals(), len(locals()), len(vars()), len(dir()))")))

    def keep_frame(self, scope):
        self.use("frame kept")
        self.put(
            self.pick(("KEPT.append(sys._getframe())", "KEPT.append(sys._getframe())",
                       "KEPT.append(sys._getframe().f_back or sys._getframe())",
                       "KEPT[:1] = [sys._getframe()]", "KEPT.append((lambda: sys._getframe())())",
                       "KEPT.append(sys._getframe().f_locals)"
                       if scope.kind != "module" else "KEPT.append(sys._getframe())")))

    def a_frame(self):
        return self.pick(
            ("sys._getframe()", "sys._getframe()", "(sys._getframe().f_back or sys._getframe())",
             "kept(0, sys._getframe())", "kept(-1, sys._getframe())"))

    def look_at_kept(self, scope):
        self.use("frame looked at")
        self.put(
            self.pick(("for _f in KEPT[-2:]: look(_f)", "if KEPT: look(KEPT.pop())",
                       f"look({self.a_frame()})", "look(sys._getframe())", "KEPT.clear()",
                       "if KEPT: KEPT.pop(0)", "emit('kept', KEPT)")))
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
            self.put(
                f"emit('proxy', {name} in _p, len(_p) if type(_p) is not dict else -1, _p == _p)")
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
        self.put(
            self.pick(
                (f"{frame}.f_trace_opcodes = True", f"{frame}.f_trace_lines = False",
                 f"attempt('set f_lineno', setattr, {frame}, 'f_lineno', sys._getframe().f_lineno)",
                 f"{frame}.f_trace = make_tracer('own')",
                 f"attempt('set', setattr, {frame}, 'f_back', 1)")))

    def look_at_errors(self, scope):
        self.use("error looked at")
        self.put(
            self.pick(
                ("if ERRORS: look_error(ERRORS[-1])", "if ERRORS: look_error(ERRORS.pop())",
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
        self.put(
            self.pick(
                (f"emit('count', sys.getrefcount({name}))",
                 f"_l = [{name}] * 3; emit('count', sys.getrefcount({name}), sys.getrefcount(_l))",
                 f"KEPT.append(sys._getframe()); emit('count', sys.getrefcount({name}), "
                 f"sys.getrefcount(sys._getframe()), sys.getrefcount(sys._getframe().f_code))")))
        if self.chance(0.5):
            self.put(f"{name} = None")

    def finish(self, scope):
        """Leave the block, by return, raise, break or continue."""
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
        self.put(
            self.pick(
                (f"{probe}.frame = sys._getframe()", f"{probe}.frames = [sys._getframe(), {probe}]",
                 f"{probe}.inner = lambda: {probe}"
                 if scope.kind != "class" else f"{probe}.me = {probe}",
                 f"{probe}.locals = sys._getframe().f_locals"
                 if scope.kind != "module" else f"{probe}.me = {probe}",
                 f"{probe}.back = sys._getframe().f_back")))

    def weak_reference(self, scope):
        self.use("weak reference")
        if self.callables:
            target = self.pick(self.callables).name
            self.put(f"_w = weakref.ref({target}, lambda _: emit('weak', chain(sys._getframe())))")

    # --- Blocks. ----------------------------------------------------------------------------------

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
            over_generator = "(" in over and not over.startswith(("range", "("))
            self.use("for over a generator" if over_generator else "for")
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
        self.put(
            self.pick((
                f"raise {self.pick(ERRORS)}({self.random.randrange(9)}, {self.probe()})", "[][1]",
                "undefined_name", "1 // 0", "{}['missing']", "None.attribute", "int('x')",
                f"raise {self.pick(ERRORS)}(1) from Boom('cause')", "iter(3)",
                "raise ExceptionGroup('group', "
                "[Boom(1), ValueError(2), ExceptionGroup('inner', [KeyError(3)])])",
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
            # Python allows no break, continue or return in there.
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
            kinds = self.weighted(
                ((6, "Exception"), (2, self.pick(ERRORS)), (1, f"({', '.join(ERRORS[:3])})")))

            def handle():
                if self.chance(0.6):
                    self.use("error kept")
                    self.put(f"ERRORS.append({name})")
                self.put(
                    self.pick((f"look_error({name})", f"look_error({name})", f"error_text({name})",
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
        managers = [
            f"Manager('m{self.random.randrange(99)}', {self.chance(0.6)}, {self.chance(0.08)})"
            for _ in range(self.random.randrange(1, 3))
        ]
        name = self.pick(LOCALS)
        self.assigned(scope, name)

        def inside():
            self.body(scope, 1, 2)()
            if self.chance(0.3):
                self.failing(scope)

        self.block(f"with {managers[0]} as {name}{''.join(', ' + m for m in managers[1:])}:",
                   inside)

    def match_statement(self, scope):
        self.use("match")
        self.put(f"match {self.expression(scope, 1)}:")
        self.depth += 1
        self.block("case int(m) | [m, *_]:", "emit('match number or sequence', m)",
                   self.body(scope, 0, 1))
        self.block("case Probe(name=m) if m:", "emit('match probe', m)")
        self.block("case {0: m, **rest}:", "emit('match mapping', m, rest)")
        self.block("case _:", self.body(scope, 1, 1))
        self.depth -= 1

    def execute(self, scope):
        self.use("exec")
        inner = self.pick(("v0 = 1\\nemit('in exec', chain(sys._getframe()))",
                           "def f():\\n    return sys._getframe()\\nKEPT.append(f())",
                           "v1 = [i for i in (1, 2)]\\nemit('in exec', v1)",
                           "class E:\\n    v = 1\\n    emit('in exec', sorted(locals()))",
                           "raise Boom('in exec')",
                           "emit('in exec', sys._getframe().f_lineno)\\nv0 = Probe('of exec')"))
        where = self.pick(
            ("", ", globals(), {}", ", globals(), LoggingDict()", ", dict(globals())"))
        if where == "" and scope.kind == "module":
            where = ", dict(globals())"
        self.block("try:", f"exec(\"{inner}\"{where})")
        self.block("except Boom as _e:", "look_error(_e)")

    def tracing(self, scope):
        body = self.body(scope, 1, 3)
        form = self.random.randrange(5)
        if form < 2:
            self.use("settrace")
            jump = None
            if self.chance(0.15):
                jump = f"({self.random.randrange(6)}, {self.random.randrange(-2, 4)})"
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
