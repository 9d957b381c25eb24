"""Random programs about frames that hooks are to disturb, and must not.

They are the programs of programs_generator.py, and besides they use every tool that looks for frames, jump, send
signals, replace code, switch greenlets, take turns in threads, change the hooks, and run out of memory at their end.
What they do to be seen is defined in hooked_programs_helpers.py.

A hook leaves some marks that are no mistakes. Nothing of that is in these programs:
- How far a program may recurse: a hook in Python runs above the frame that is offered.
- How many objects the collector finds, and how many references a code object has: a hook has objects of its own.
- All that a generator refers to: its watches are among that.
- Whether the code that runs is the function's own code object: a hook may have a copy of it run.
"""

from tests.differential import programs_generator
from tests.differential.programs_text import ERRORS, Scope

MEMORY = ("windows", "endless", "none")
SIGNALS = ("stack", "locals", "write", "raise", "call", "keep", "look", "trace", "hooks", "collect")
# To the def line, to its own line, by some lines, to a line of the function by its place.
TARGETS = ("'first'", "'here'", "-1", "1", "2", "-3", "('place', 0)", "('place', 2)", "('place', -1)")


class Generator(programs_generator.Generator):
    def __init__(self, seed, greenlets=False, memory="windows"):
        super().__init__(f"hooked {seed}")
        self.greenlets, self.memory = greenlets, memory
        self.lean = []

    # --- What differs where a hook is. --------------------------------------------------------------------------

    def reference_counts(self, scope):
        self.use("reference count")
        if scope.kind == "class" or not scope.names:
            return
        name = self.new_name("r")
        self.put(f"{name} = {self.probe()}")
        self.put(f"emit('count', sys.getrefcount({name}))")

    def collect(self, scope):
        self.use("gc.collect")
        self.put(self.pick(("gc.collect()", "gc.collect()", "gc.collect(0)")))

    def define_endless(self):
        return self.define_recursion()

    # --- Statements. --------------------------------------------------------------------------------------------

    def more_statements(self, scope, simple):
        table = [(10, self.look_around), (3, self.signal), (3, self.change_hooks), (3, self.hooks_do), (2, self.turn),
                 (2, self.exception_tools)]
        if self.greenlets:
            table += [(3, self.switch_out)]
        if not simple:
            table += [(3, self.jumping), (2, self.logged_block)]
        if scope.kind != "class":
            table += [(2, self.replace_code), (1, self.interleave)]
            if self.greenlets:
                table += [(3, self.use_greenlet)]
        return table

    def look_around(self, scope):
        self.use("look around")
        level = self.random.randrange(1, 6)
        frame = self.a_frame()
        self.put(self.pick((
            f"LOGGER.warning('logged', stacklevel={level})", "LOGGER.warning('logged', stack_info=True)",
            f"LOGGER.info('with a stack', stacklevel={level}, stack_info=True)",
            f"warnings.warn('warned', stacklevel={level})",
            f"warnings.warn(DeprecationWarning('old'), stacklevel={level})",
            "warnings.warn('elsewhere', skip_file_prefixes=('<program>',))",
            "emit('stack', names_of(inspect.stack(0)))", "emit('current', chain(inspect.currentframe()))",
            f"emit('outer', names_of(inspect.getouterframes({frame}, 0)))",
            f"emit('extracted', names_of(traceback.extract_stack(limit={level})))",
            f"emit('of frame', names_of(traceback.extract_stack({frame})))",
            "emit('formatted', formatted(traceback.format_stack(limit=3)))",
            "emit('walked', names_of(traceback.walk_stack(None)))",
            f"emit('module name', sys._getframemodulename({level - 1}))",
            f"emit('getframe', attempt('getframe', sys._getframe, {level + 40}))",
            "emit('current frames', chain(sys._current_frames()[threading.get_ident()]))",
            "emit('current exceptions', sys._current_exceptions()[threading.get_ident()])",
            f"emit('arguments', tuple(inspect.getargvalues({frame}))[:3])" if scope.kind not in ("module", "class")
            else "emit('current', chain(inspect.currentframe()))",
            f"emit('frame info', names_of([inspect.getframeinfo({frame}, 0)]))",
        )))

    def exception_tools(self, scope):
        self.use("tools for exceptions")
        self.put(self.pick((
            "emit('traced', names_of(inspect.trace(0)) if sys.exception() else None)",
            "if ERRORS: emit('inner', names_of(inspect.getinnerframes(ERRORS[-1].__traceback__, 0)))",
            "if ERRORS: emit('extracted', names_of(traceback.extract_tb(ERRORS[-1].__traceback__)))",
            "if ERRORS: emit('captured', captured(ERRORS[-1]))",
            "if GENERATORS: emit('generator', state_of(GENERATORS[-1]))")))

    def logged_block(self, scope):
        self.use("logged exception")
        self.block("try:", lambda: self.failing(scope))
        self.block("except Exception:", self.pick((
            f"LOGGER.exception('failed', stacklevel={self.random.randrange(1, 4)})",
            "LOGGER.error('failed', exc_info=True, stack_info=True)",
            "emit('traced', type(sys.exception()), names_of(inspect.trace(0)))")))

    def signal(self, scope):
        self.use("signal")
        self.block("try:", f"send_signal({self.pick(SIGNALS)!r})")
        self.block("except Boom as _e:", "look_error(_e)")

    def change_hooks(self, scope):
        self.use("hooks changed")
        self.put(f"change_hooks({self.random.randrange(10)})")

    def hooks_do(self, scope):
        """What lasts: hooks of a thread, blocks that end elsewhere, cycles, callbacks that wait."""
        self.use("hooks changed for longer")
        table = [(3, "hook"), (1, "remove"), (4, "begin"), (3, "end"), (2, "cycle"), (3, "probe")]
        if self.greenlets:
            table += [(3, "park"), (2, "unpark")]
        self.put(f"hooks_do({self.weighted(table)!r}, {self.random.randrange(5040)})")

    def task(self, scope):
        """A function for a thread that takes turns: it hands over between most of what it does."""
        name = self.new_name("task")
        whats = [self.hooks_do, self.hooks_do, self.hooks_do, self.step, self.step, self.share, self.look_around]
        whats += [self.use_greenlet, self.hooks_do] if self.greenlets else []
        self.put(f"def {name}(a=1):")
        self.depth += 1
        self.put("fuel()")
        function = self.plain_function(1)
        inside = Scope("function", ["a"])
        for _ in range(self.random.randrange(4, 12)):
            what = self.pick(whats)
            if function is not None and self.chance(0.2):
                self.put(f"attempt('in task', {function.name}, a)")
            elif what is self.use_greenlet and function is None:
                continue
            else:
                what(inside)
            if self.chance(0.6):
                self.turn(inside)
        self.put("return a")
        self.depth -= 1
        return name

    def step(self, scope):
        self.use("shared generator is resumed")
        self.put(f"step({self.random.randrange(12)})")

    def share(self, scope):
        """Make a generator for all threads and greenlets."""
        generators = [callee for callee in self.callables if callee.kind == "generator"]
        if generators:
            callee = self.pick(generators)
            self.block("try:", f"GENERATORS.append({callee.name}({self.arguments(callee, scope, 1)}))")
            self.caught()

    def tasks(self, scope):
        self.use("tasks in threads that take turns")
        names = [self.task(scope) for _ in range(self.random.randrange(2, 4))]
        self.share(scope)
        self.put(f"interleave({', '.join(f'({name}, {i})' for i, name in enumerate(names))})")

    def turn(self, scope):
        self.use("turn of another thread")
        self.put(f"turn({self.chance(0.5)})")

    def interleave(self, scope):
        if self.plain_function(1) is None:
            return
        self.use("threads that take turns")
        functions = [self.plain_function(1).name for _ in range(self.random.randrange(2, 4))]
        self.put(f"interleave({', '.join(f'({name}, {i})' for i, name in enumerate(functions))})")

    def jumping(self, scope):
        self.use("jump")
        event = self.weighted(((8, "line"), (1, "call"), (1, "return"), (1, "exception"), (1, "opcode")))
        self.put(f"sys.settrace(make_jumper({event!r}, {self.random.randrange(7)}, "
                 f"[{', '.join(self.pick(TARGETS) for _ in range(self.random.randrange(1, 3)))}]))")
        self.block("try:", self.body(scope, 1, 2), lambda: self.call_something(scope))
        self.block("finally:", "sys.settrace(None)")

    def replace_code(self, scope):
        function = self.plain_function(1)
        if function is None:
            return
        self.use("code replaced")
        name = self.new_name("other")
        self.put(f"{name} = with_other_code({function.name}, {self.random.randrange(4)})")
        self.put(f"attempt('other code', {name}, {self.expression(scope, 1)})")
        if self.chance(0.3):
            self.put(f"SAVED.append({name})")

    # --- Greenlets. ---------------------------------------------------------------------------------------------

    def switch_out(self, scope):
        self.use("greenlet switched out")
        self.put(f"emit('switched back', switch_out({self.expression(scope, 1)}))")

    def use_greenlet(self, scope, callee=None):
        callee = callee or self.plain_function(1)
        if callee is None:
            return
        self.use("greenlet")
        name = self.new_name("glet")
        self.put(f"{name} = greenlet({callee.name})")
        self.put(f"attempt('switch', {name}.switch, {self.expression(scope, 1)})")
        for _ in range(self.random.randrange(0, 4)):
            self.put(self.weighted((
                (5, f"attempt('switch', {name}.switch, {self.probe()})"),
                (2, f"attempt('throw', {name}.throw, {self.pick(ERRORS)}('thrown'))"),
                (1, f"attempt('kill', {name}.throw)"),
                (2, f"emit('greenlet', {name}.dead, bool({name}), chain({name}.gr_frame))"),
                (1, f"if {name}.gr_frame: KEPT.append({name}.gr_frame)"),
                (1, f"if {name}.gr_frame: emit('greenlet locals', locals_of({name}.gr_frame))"),
                (1, f"if {name}.gr_frame and own_frame({name}.gr_frame): {name}.gr_frame.f_locals['v1'] = 5"),
                (1, "gc.collect()"))))
        self.put(self.pick((f"{name} = None", f"GENERATORS.append({name})", "pass",
                            f"while not {name}.dead: attempt('finish', {name}.switch, None)")))

    # --- No memory. ---------------------------------------------------------------------------------------------

    def define_lean(self):
        """A function for where there is no memory. It makes no function: CPython 3.13 gives up its code twice then."""
        name = self.new_name("lean")
        kind = self.weighted(((6, "function"), (3, "generator"), (2, "coroutine"), (1, "method")))
        indent = 0
        if kind == "method":
            owner = self.new_name("Lean")
            self.put(f"class {owner}:")
            self.depth += 1
            indent = 1
            self.put(f"def {self.pick(('__init__', '__call__'))}(self, a=1):")
        else:
            self.put(f"{'async ' if kind == 'coroutine' else ''}def {name}(a=1, b=(2,), *rest, c=3, **more):")
        self.depth += 1
        self.put("held = [a, None]")
        for _ in range(self.random.randrange(2, 6)):
            self.put(self.pick((
                "held.append((a, held[:1]))", "text = str(a) + 'x'", "a = {'k': a, **{'m': 1}}", "sys._getframe()",
                "frame = sys._getframe(); frame.f_locals; frame = None", "sys._getframe(1).f_locals",
                "frame = sys._getframe(); frame.f_locals['text'] = 'w'; frame = None", "held += [*held, 1]",
                "try: held[99]\nexcept IndexError: pass", "try: raise Boom(a)\nexcept Boom as e: error = e\nfinally: error = None",
                "sorted([2, 1], key=str)", "held = list(map(str, held))", "f'{a} {held}'", "gc.collect(0)",
                "x = [i for i in range(3)]", "a, *text = held", "emit('lean', a)", "send_signal('locals')",
                "change_hooks(5)", "change_hooks(7)",
                *self.lean, *self.lean)).replace("\n", "\n" + "    " * self.depth))
        if kind == "generator":
            self.put("held = yield a")
            self.put("try: yield held\nfinally: held = None".replace("\n", "\n" + "    " * self.depth))
        elif kind == "coroutine":
            self.put("await Suspend(a)")
        elif kind == "function":
            self.put("return held")
        self.depth -= 1 + indent
        if kind == "generator":
            self.lean += [f"list({name}(a))", f"next({name}(a, b=1))", f"g = {name}(); next(g); g.close(); g = None",
                          f"try: [*{name}()]\nfinally: a = 3"]
        elif kind == "coroutine":
            self.lean += [f"drive({name}(a), [('send', None), ('send', 1)])", f"{name}().close()"]
        elif kind == "method":
            self.lean += [f"{owner}()", f"attempt('lean', {owner}())"]
        else:
            self.lean += [f"{name}(a)", f"{name}(*(1, 2, 3), c=5, d=6)", f"attempt('lean', {name}, a)"]
        return name if kind == "function" else None

    def define_more(self):
        self.starved = []
        if self.memory == "none" or not self.chance(0.2):
            return
        self.use("no memory")
        for _ in range(self.random.randrange(2, 6)):
            self.starved.append(self.define_lean())
        self.starved.append(self.define_function_of_leans())
        self.starved = [name for name in self.starved if name]

    def define_function_of_leans(self):
        name = self.new_name("lean")
        self.block(f"def {name}(a):", *[line for call in self.lean[-4:] for line in call.split("\n")])
        return name

    def put_the_end(self):
        if self.starved:
            self.put(f"starve({self.memory == 'endless'}, {self.random.randrange(100)}, {', '.join(self.starved)})")

    # --- The program. -------------------------------------------------------------------------------------------

    def more_actions(self, scope):
        whats = [self.jumping, self.signal, self.replace_code, self.look_around, self.look_around]
        if self.chance(0.4):
            whats.append(self.interleave)
        if self.chance(0.5):
            whats.append(self.tasks)
        if self.greenlets:
            whats += [self.use_greenlet] * self.random.randrange(0, 3)
        return [lambda what=what: self.guarded(scope, what) for what in whats]

    def guarded(self, scope, what):
        self.block("try:", lambda: what(scope))
        self.caught()


def program(seed, greenlets=False, memory="windows"):
    """The program of a seed: its source, and how often it has each construct."""
    generator = Generator(seed, greenlets, memory)
    return generator.program().replace("gc.get_referents(", "referents_of("), generator.used
