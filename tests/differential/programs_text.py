"""What random programs are made of: names, places for statements, lines, and chance."""

import random
from collections import Counter

LOCALS = ("v0", "v1", "v2", "v3", "v4")
ERRORS = ("Boom", "ValueError", "KeyError", "TypeError", "ZeroDivisionError", "IndexError")
FINALIZERS = ("back", "locals", "keep", "clear", "collect", "resurrect", "raise", "write",
              "generator")
EVENTS = ("PY_START", "PY_RESUME", "PY_RETURN", "PY_YIELD", "CALL", "LINE", "JUMP", "BRANCH",
          "RAISE", "RERAISE", "EXCEPTION_HANDLED", "PY_UNWIND", "PY_THROW", "STOP_ITERATION",
          "C_RETURN", "C_RAISE")


class Callable:
    """Something that a program has defined: its name, its kind and what it takes."""

    def __init__(self, name, kind, positional=(), defaults=0, positional_only=0, star=None,
                 keyword_only=(), keyword_defaults=(), double_star=None):
        self.name, self.kind = name, kind
        self.positional, self.defaults = tuple(positional), defaults
        self.positional_only = positional_only
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
        parts += [f"{name}='{name}'" if name in self.keyword_defaults else name
                  for name in self.keyword_only]
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


class Text:
    """The text of a program, and the chance that decides what comes next."""

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

    def put(self, text):
        self.lines.append("    " * self.depth + text)

    def block(self, header, *body):
        """Put a header, and below it the body: lines, and functions that put lines."""
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
