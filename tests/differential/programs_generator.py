"""Random programs about frames: what a seed gives is the same for ever, on every Python.

A program defines functions, generators, coroutines and classes, each of which may call those before
it, and then uses them. It ends because no loop is without a bound, and because all its functions
share a number of calls (`fuel`). What a program does to be seen is defined in programs_worker.py.
"""

from tests.differential.programs_classes import GeneratedClass
from tests.differential.programs_functions import Functions
from tests.differential.programs_text import Scope


class Generator(Functions):
    """One program."""

    def define_class(self):
        self.use("class")
        cls = GeneratedClass(self.new_name("C"), self)
        self.classes.append(cls)

    def guarded_statement(self, scope):
        """A statement of the module. What it raises is shown, and the program continues."""
        self.block("try:", self.body(scope, 1, 2))
        self.caught()

    def caught(self):
        self.block(
            "except Exception as _e:",
            self.pick(("look_error(_e)", "look_error(_e); ERRORS.append(_e)", "error_text(_e)",
                       "emit('main', _e)")))

    def use_callable(self, scope, callee):
        """Use a callable. Each is used at least once."""
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
        """Call a function often enough for it to be specialized."""
        functions = [c for c in self.callables if c.kind == "function"]
        if not functions:
            return
        self.use("specialized call")
        callee = self.pick(functions)
        self.block(
            "try:", lambda: self.block(f"for _i in range({self.pick((4, 10, 30))}):",
                                       f"v0 = {callee.name}({self.arguments(callee, scope, 1)})"))
        self.block("except Exception as _e:", "emit('warm', _e)")

    def define_more(self):
        """Definitions that other kinds of programs begin with."""

    def more_actions(self, scope):
        """Further actions of other kinds of programs."""
        return []

    def put_the_end(self):
        """The last lines of a program."""

    def program(self):
        """The source of the program."""
        self.define_more()
        if self.chance(0.1):
            self.use("async generator hooks")
            self.put(
                "sys.set_asyncgen_hooks(lambda g: emit('first', g), lambda g: emit('finalize', g))")
        if self.chance(0.3):
            self.define_raiser()
        runs = []
        for _ in range(self.random.randrange(3, 8)):
            self.weighted(
                ((8, lambda: self.define("function")), (4, lambda: self.define("generator")),
                 (2, lambda: self.define("coroutine")), (2, lambda: self.define("asyncgen")),
                 (3, self.define_class), (1, self.define_raiser),
                 (1, lambda: runs.append(self.define_recursion())),
                 (0.4, lambda: runs.append(self.define_endless())), (0.3, self.define_generic)))()
        scope = Scope("module", ["v0", "v1"])
        self.put(f"v0 = {self.probe()}")
        self.put("v1 = 1")
        actions = [lambda run=run: [self.put(line) for line in run.split("\n")] for _, run in runs]
        actions += [lambda c=c: self.use_callable(scope, c) for c in self.callables]
        actions += [lambda c=c: self.use_class(scope, c) for c in self.classes]
        actions += [lambda: self.guarded_statement(scope)
                    for _ in range(self.random.randrange(3, 7))]
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


def program(seed):
    """The program of a seed: its source, and how often it has each construct."""
    generator = Generator(seed)
    return generator.program(), generator.used
