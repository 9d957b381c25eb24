"""Classes of random programs."""

from tests.differential.programs_text import Scope


class GeneratedClass:
    """A class of the program. `use` uses only what the class defines."""

    def __init__(self, name, generator):
        self.name = name
        self.members = set()
        g = generator
        if g.classes and g.chance(0.3):
            self.base = g.pick(g.classes).name
        else:
            self.base = g.pick(("", "Probe", "object"))
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
            self.method(
                "__init__", init.signature(("self",)), init.names(), g,
                first=(f"self.name = 'of {name}'", "self.action = None",
                       f"self.v = {g.constant()}"), returns=False)
        for member, weight in (("property", 0.5), ("getitem", 0.4), ("call", 0.3), ("iter", 0.3),
                               ("getattr", 0.25), ("del", 0.25), ("add", 0.25), ("eq", 0.2),
                               ("len", 0.2), ("contains", 0.2), ("plain", 0.5), ("static", 0.2),
                               ("classmethod", 0.2), ("super", 0.2), ("setattr", 0.1)):
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
        g.put("emit('del', type(self).__name__, chain(sys._getframe()))")
        g.put(
            g.pick(("pass", "KEPT.append(sys._getframe())", "SAVED.append(self)",
                    "look(sys._getframe())", "gc.collect()", "raise Boom('__del__')",
                    "if KEPT: attempt('clear', KEPT[-1].clear)")))
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
        g.put("    except (AttributeError, TypeError) as e: "
              "return show(e), __class__, sys._getframe().f_locals")

    def use(self, g, scope):
        arguments = g.arguments(self.init, scope, 1) if "init" in self.members else (
            "'named'" if self.base == "Probe" else "")
        made = f"{self.name}({arguments})"
        choices = [made]
        for member, text in (("property", ".prop"), ("getitem", "[1]"), ("getitem", "['k']"),
                             ("call", "(1, k=2)"), ("add", " + 1"), ("eq", " == 1"),
                             ("getattr", ".xyz"), ("super", ".parent()"), ("static", ".static(1)"),
                             ("classmethod", ".made(1, 2)")):
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
