"""Random functions over lists, bytes, bytearrays, arrays and memoryviews: items are read and stored, lists are passed on, shared, nested and dropped."""

import array
import copyreg
import threading

from generator import FLOATS, INTS, OTHERS, PARAMETERS, STYLES, Generator


class Dropped(threading.local):
    """What went away in this thread during a call, and the lists that its destructors see: those of the arguments."""

    def __init__(self):
        self.begin()

    def begin(self):
        self.numbers, self.lists = [], []

    def show(self, arguments):
        self.lists += [argument for argument in arguments if isinstance(argument, list)]


DROPPED = Dropped()


def digest(items):
    return [len(items), *(item if isinstance(item, int | float) and abs(item) < 10**40 else type(item).__name__ for item in items[:6])]


class Loud:
    """Says when it goes away, with what lists contain then. Some change a list."""

    CHANGES = {5: lambda items: items.append(0.5), 6: lambda items: items.__delitem__(slice(1)), 7: lambda items: items.reverse()}

    def __init__(self, number):
        self.number = number
        # Those of the call for which it was made: what is in a circle goes away during another one.
        self.dropped, self.lists = DROPPED.numbers, DROPPED.lists

    def __deepcopy__(self, memo):
        return Loud(self.number)

    def __repr__(self):
        return f"Loud {self.number}"

    def __del__(self):
        self.dropped.append((self.number, [digest(items) for items in self.lists]))
        for items in self.lists[-1:]:
            self.CHANGES.get(self.number, len)(items)


def copied(view):
    """How copy.deepcopy() makes another view, of another object."""
    return memoryview, (view.obj,)


copyreg.pickle(memoryview, copied)


def silenced(value):
    """The value with None for what notes that it is dropped."""
    if isinstance(value, list | tuple):
        return type(value)(silenced(item) for item in value)
    return None if isinstance(value, Loud) else value


def numbers(rng, values, small):
    chosen = values if rng.random() < 0.3 else small
    return [rng.choice(chosen) for _ in range(rng.randrange(0, 7))]


def container(rng, kind):
    """A container for a parameter of this kind: "list" of numbers of one type most of the time, "nested", "bytes" or "array"."""
    ints, floats = [*range(-8, 9), 255, 256, 257, 10**6], [n / 2 for n in range(-8, 9)]
    if kind == "bytes":
        content = [rng.randrange(256) for _ in range(rng.randrange(0, 7))]
        return bytes(content) if rng.random() < 0.4 else bytearray(content)
    if kind == "array":
        code = rng.choice("bBhHiIlLqQfd")
        made = array.array(code)
        for _ in range(rng.randrange(0, 7)):
            try:
                made.append(rng.choice(ints if rng.random() < 0.7 else [*INTS, *FLOATS]))
            except (OverflowError, TypeError):
                pass
        return memoryview(made) if rng.random() < 0.4 else made
    if kind == "tuple":
        made = numbers(rng, INTS, ints) if rng.random() < 0.5 else numbers(rng, FLOATS, floats)
        if rng.random() < 0.3:
            made[1:] = [rng.choice([*OTHERS, *floats, *ints, (1, 2), [3], Loud(3)])]
        return tuple(made)
    if kind == "pairs":
        one, other = rng.choice([(ints, ints), (floats, floats), (ints, floats), (INTS, FLOATS)])
        pairs = [(rng.choice(one), rng.choice(other)) for _ in range(rng.randrange(1, 5))]
        if rng.random() < 0.2:
            pairs.append(rng.choice([(1,), (1, 2, 3), (None, 1), (Loud(4), 1), [1, 2], 5, pairs[0]]))
        return pairs
    if kind == "nested":
        rows = [numbers(rng, INTS, ints) if rng.random() < 0.7 else numbers(rng, FLOATS, floats) for _ in range(rng.randrange(1, 4))]
        if rng.random() < 0.3:
            rows.append(rows[0])
        if rng.random() < 0.15:
            rows.append([Loud(rng.choice([1, 5, 6, 7]))])
        return rows
    made = numbers(rng, INTS, ints) if rng.random() < 0.5 else numbers(rng, FLOATS, floats)
    odd = rng.random()
    if odd < 0.2 and made:
        made[rng.randrange(len(made))] = rng.choice([*OTHERS, "text", 0.5, 7, Loud(rng.choice([2, 5, 6, 7])), [1, 2], b"ab"])
    return made


def arguments(rng, kinds, calm):
    """Values for the parameters; in a calm program containers of numbers that are seldom empty."""
    values = [rng.choice([*range(-8, 9), *INTS]) if kind == "int" else container(rng, kind) for kind in kinds]
    if calm and rng.random() < 0.9:
        for index, kind in enumerate(kinds):
            while kind != "int" and not is_calm(values[index]):
                values[index] = container(rng, kind)
    return tuple(values)


def is_calm(value):
    """Whether all items of a container are numbers, or such containers, and there are some."""
    return isinstance(value, int | float) or (isinstance(value, list | tuple) and len(value) > 0 and all(is_calm(item) for item in value)) \
        or (isinstance(value, bytes | bytearray | array.array | memoryview) and len(value) > 0)


class ListGenerator(Generator):
    """One program: `main` has two parameters that are containers, and an int."""

    def __init__(self, seed, kinds):
        super().__init__(seed, kinds)
        self.tuples, self.deep = False, "nested" in kinds or "pairs" in kinds
        # The list whose methods are in variables.
        self.kept = None

    def source(self):
        self.style = self.rng.choice(STYLES)
        if self.rng.random() < 0.3:
            self.function("change", ["a", "b", "c"], statements=self.rng.randrange(1, 4))
            self.helpers.append(("change", 3))
        self.function("main", ["a", "b", "c"], statements=self.rng.randrange(3, 9))
        return self.program()

    def function(self, name, parameters, statements):
        self.lines.append(f"def {name}({', '.join(parameters)}):")
        self.prologue(name)
        self.function_name = name
        self.loops, self.places = 0, ["c"]
        self.known, self.lists = ["c"], ["a", "b"]
        for number in ("x", "y", "z"):
            self.lines.append(f"    {number} = {self.rng.choice(['0', '1', '0.5', '1000', 'c', 'len(a)', 'len(b)'])}")
            self.known.append(number)
        if self.rng.random() < 0.5:
            self.lines.append(f"    q = {self.rng.choice(self.plain() if self.calm else self.lists)}")
            self.lists.append("q")
        self.tuples = self.rng.random() < 0.4
        if self.tuples:
            self.lines.append(f"    p = {self.rng.choice(['(x, y)', '(1, 2, 3)', '(0.5,)', 'tuple(b)', '(x, y, c)'])}")
            self.lines.append(f"    r = {self.rng.choice(['[(1, 2), (3, 4)]', '[(x, y)]', '[(c, 0.5), (1, 1.5)]'])}")
        self.kept = self.rng.choice(self.plain() or self.lists) if self.rng.random() < 0.3 else None
        if self.kept:
            self.lines.append(f"    add, take, put = {self.kept}.append, {self.kept}.pop, {self.kept}.insert")
        self.bind_counters()
        self.bound = list(self.known)
        if self.calm and name == "main":
            self.walk("    ", 1)
        for _ in range(statements):
            self.statement(1, 0)
        self.lines.append(f"    return {self.result()}")

    def plain(self):
        """The names of lists of numbers."""
        return [name for name in self.lists if name not in PARAMETERS or self.kinds[PARAMETERS.index(name)] == "list"]

    def targets(self):
        return [name for name in super().targets() if name != "c"] if self.calm else super().targets()

    def result(self):
        if self.in_cells() and self.rng.random() < 0.3:
            return "show()"
        if self.rng.random() < 0.3:
            return ", ".join(self.rng.choice(self.known + self.lists) for _ in range(self.rng.randrange(1, 4)))
        return self.expression(2)

    def statement(self, depth, loop):
        pad, kind = "    " * depth, self.rng.random()
        if self.tuples and self.rng.random() < 0.3:
            self.use_tuples(pad)
            return
        if self.rng.random() < 0.08:
            self.use_whole(pad)
            return
        if self.rng.random() < 0.06:
            self.store_slice(pad)
            return
        if self.kept and self.rng.random() < 0.15:
            self.use_methods(pad)
            return
        if self.rng.random() < 0.12:
            self.nest(pad, depth)
            return
        if self.rng.random() < 0.14:
            self.read(pad, depth)
            return
        if self.rng.random() < (0.1 if self.calm else 0.2):
            self.build(pad, depth)
            return
        if self.calm and 0.74 < kind < 0.95:
            kind = 0.96  # what a variable or an item is does not change
        if kind < 0.55:
            super().statement(depth, loop)
            return
        place = self.item(self.plain() if self.calm else None)
        if kind < 0.67:
            value = self.expression(1)
            self.lines.append(f"{pad}{place} = {f'({value}) % 1000003' if self.calm else value}")
        elif kind < 0.74:
            operators = ["+", "-"] if self.calm else ["+", "-", "*", "//", "%", "&", "^"]
            self.lines.append(f"{pad}{place} {self.rng.choice(operators)}= {self.expression(1)}")
        elif kind < 0.80:
            other = self.item()
            self.lines.append(f"{pad}{place}, {other} = {other}, {place}")
        elif kind < 0.86:
            self.lines.append(f"{pad}q = {self.rng.choice([*self.lists, place, 'a', 'b'])}")
            if depth == 1 and "q" not in self.lists:
                self.lists.append("q")
        elif kind < 0.89:
            one, other = self.rng.sample(["a", "b", "q"] if "q" in self.lists else ["a", "b"], 2)
            self.lines.append(pad + self.rng.choice([
                f"{one}, {other} = {other}, {one}", f"{one}, {other} = {other}, {other}", f"{one} = {other} = [{one}, {other}]",
                f"{one}, x = {other}, 1", f"q, {one} = [{one}], {other}", f"if ({one} if x else {other}) is None: x = 1"]))
        elif kind < 0.91:
            self.lines.append(f"{pad}{place} = {self.rng.choice([*self.lists, 'None', 'True', 'LIMIT'])}")
        elif kind < 0.93:
            self.lines.append(f"{pad}if {self.rng.choice(['', 'not '])}{self.rng.choice(self.lists)}:")
            self.block(depth + 1, loop)
        elif kind < 0.95:
            self.lines.append(f"{pad}{place}, x = {self.expression(1)}, {self.rng.choice(self.lists)}[0]")
        else:
            self.walk(pad, depth)

    def build(self, pad, depth):
        """Makes a list, or changes how many items one has. What grows has an end."""
        # Of the others there are no such methods, most of the time.
        others = {"a": "array", "b": "bytes"}
        names = [name for name in self.lists if others.get(name) not in self.kinds or self.rng.random() < 0.1]
        if self.calm:
            self.build_numbers(pad, depth)
            return
        name, kind = self.rng.choice(names or self.lists), self.rng.random()
        if kind < 0.4:
            self.lines.append(f"{pad}q = {self.new_list(name)}")
            if depth == 1 and "q" not in self.lists:
                self.lists.append("q")
        elif kind < 0.6:
            self.lines.append(f"{pad}if len({name}) < 30: {name}.append({self.expression(1)})")
        elif kind < 0.65:
            self.lines.append(f"{pad}if len({name}) < 4: {name}.append({self.rng.choice([*self.lists, '[x, y]', '[]'])})")
        elif kind < 0.7:
            self.lines.append(f"{pad}{name}.pop({self.rng.choice(['', '0', '-1', 'c', 'x'])})")
        elif kind < 0.8:
            target = self.rng.choice(["x", "y", "z", "q"])
            self.lines.append(f"{pad}if {name}: {target} = {name}.pop({self.rng.choice(['', '', '0', '-1'])})")
            if target == "q" and depth == 1 and "q" not in self.lists:
                self.lines.append(f"{pad}else: q = []")
                self.lists.append("q")
        elif kind < 0.85:
            self.lines.append(f"{pad}if len({name}) < 30: {name}.insert({self.rng.choice(['0', 'c', '-1', 'x'])}, {self.expression(1)})")
        elif kind < 0.9:
            other = self.rng.choice(self.lists)
            self.lines.append(f"{pad}if len({name}) + len({other}) < 20: {self.rng.choice([f'{name}.extend({other})', f'{name} += {other}'])}")
        elif kind < 0.95:
            self.lines.append(f"{pad}{name}.reverse()")
        else:
            self.lines.append(f"{pad}del {name}")

    def use_tuples(self, pad):
        """Makes, changes or reads `p`, a tuple, or `r`, a list of tuples."""
        one, other, number = self.expression(1), self.expression(1), self.rng.choice("xyz")
        place = self.rng.choice(["0", "-1", f"{self.rng.choice(self.places)} % len(r)", "c"][:3 if self.calm else 4])
        text = self.rng.choice([
            f"p = {one}, {other}", f"if len(p) < 9: p = p + ({one},)", "p = p[1:] + p[:1]", f"{number} = p[0] - p[-1] if p else 1", f"p = r[{place}]",
            f"if len(r) < 20: r.append(({one}, {other}))", f"r[{place}] = {one}, {other}", f"x, y = r[{place}]", f"{number} = r[{place}][{'01'[len(one) % 2]}]",
            "for v, w in r:\n{pad}    x += v - w", "for u, (v, w) in enumerate(r):\n{pad}    y -= v\n{pad}    if u > 4: break",
            f"for v in p:\n{{pad}}    {number} += v", f"{number} = {self.rng.choice(['sum', 'max', 'min', 'len', 'any', 'all'])}(p or (1,))",
            f"if {one} in p: {number} = {other}", "if len(r) > 1: del r[0]", f"r[1:] = [({one}, {other})]", "r = r[:]",
            f"r = [(w, v) for v, w in r][:{len(one)}]",
            f"for v in ({one}, {other}, c):\n{{pad}}    {number} = v", "x, y, z = (c, *p[:0], 1, 2)" if not self.calm else "x, y = y, x"])
        self.lines += (pad + text.replace("{pad}", pad)).split("\n")
        if " += " in text or " -= " in text:
            self.lines += [f"{pad}if abs({name}) > 1e40: {name} = 1" for name in "xyz"]

    def use_whole(self, pad):
        """What takes a list as a whole."""
        lists = self.plain() if self.calm else self.lists
        name, value, number = self.rng.choice(lists), self.expression(1), self.rng.choice("xyz")
        first = self.rng.choice(["0", "1", "c", "-1", ""])
        self.lines.append(pad + self.rng.choice([
            f"if {name}: {number} = {self.rng.choice(['sum', 'max', 'min', 'len', 'any', 'all'])}({name})", f"if {value} in {name}: {number} = 1",
            f"if {value} not in {name}: {number} = 2", f"if len({name}) < 20: {name}[{first}:2] = [{value}, {value}]", f"{name}[{first}:] = {name}[:3]",
            f"{number} = {self.over_generator_of(name)}", f"{number} = {self.over_generator_of(name)}",
            f"q = {name}[{first}::{self.rng.choice(['-1', '2', '-2', 'c'])}]" if not self.calm else f"q = {name}[::{self.rng.choice(['-1', '1'])}]",
            f"if len({name}) < 9: q = [sum(v % 97 * {self.rng.choice('gxyc')} for g in {name}) for v in {name}]",
            f"if len({name}) > 2: del {name}[{first or 0}]", f"if {name}: {number} = sorted({name})[0]", f"{name}[1:{first}] = ({value}, 1)"]))

    def store_slice(self, pad):
        """A slice with a step replaces another one, often of the same list, as when a part of it is reversed."""
        lists = self.plain() if self.calm else self.lists
        one, other, value = self.rng.choice(lists), self.rng.choice(lists), self.rng.choice(["c", "x", "1", "2", "-1", *self.places])
        if self.rng.random() < 0.5:
            place = f"{value} % len({one})" if self.calm or self.rng.random() < 0.5 else value
            text = f"{one}[:{place} + 1] = {one}[{place}::-1]"
        else:
            ends = [self.rng.choice(["", "0", "1", "-1", "c", value]) for _ in range(4)]
            step = self.rng.choice(["-1", "2", "-2", "c", "1"][:3 if self.calm else 5])
            text = f"{one}[{ends[0]}:{ends[1]}] = {other}[{ends[2]}:{ends[3]}:{step}]"
        self.lines.append(f"{pad}if len({one}) and len({one}) + len({other}) < 30: {text}")

    def use_methods(self, pad):
        """Calls methods that are in variables, and changes which. What adds an item takes one, for a loop may be over that list."""
        value, number, name = self.expression(1), self.rng.choice("xyz"), self.rng.choice(self.plain() or self.lists)
        self.lines.append(pad + self.rng.choice([
            f"add({value}); {number} = take(0)", f"add({value}); put(c, take()); take()",
            f"put(c, {value}); {number} = take({self.rng.choice(['0', '-1', ''])})",
            f"add({value}); put({self.rng.choice(['0', '1', '-1', 'c'])}, take(0)); {number} = take()", f"add({value}); take(); {number} = len({self.kept})",
            f"add, take, put = {name}.append, {name}.pop, {name}.insert", f"if x: {self.kept} = {name}",
            f"if {number}: add, take = {self.kept}.append, {self.kept}.pop"]))

    def over_generator_of(self, name):
        """A builtin of a generator expression."""
        reduction = self.rng.choice(["sum", "sum", "any", "all", "min", "max"])
        item = self.rng.choice(["g", "g * 2", f"g - {self.rng.choice('xyz')}", f"g > {self.rng.choice('xyzc')}", "g // 3", f"({self.expression(1)}) + g"])
        source = self.rng.choice([name, f"{name}[1:]", f"reversed({name})", f"range({self.rng.choice(['3', 'c & 7', 'len(a)'])})"])
        condition = self.rng.choice(["", "", f" if g != {self.rng.choice('xyzc')}", f" for w in {name} if w", " if g in (1, 2, 0.5)"])
        text = f"{reduction}({item} for g in {source}{condition})"
        return f"({text} if {name} else 1)" if self.calm else text

    def build_numbers(self, pad, depth):
        """The same with lists of numbers alone."""
        name, value, number = self.rng.choice(self.plain()), self.expression(1), self.rng.choice(["x", "y", "z"])
        change = self.rng.choice([
            f"{name}.append({value})", f"{name}.insert(c, {value})", f"{name}.extend([{value}, 2])", f"{name}.reverse()",
            f"q = {name}.copy()", f"q = {name}[:]",
            f"q = [{value}] * 3", "q = [0.0] * len(b)", "q = [1, -2, 3, 4]", f"q = [v * 2 for v in {name}]", f"q = [{value} for v in range(4)]",
            f"q = [(v + i) * 2 for i, v in enumerate({name})]", f"q = [v for v in {name} if v] + [1]", "q = list(range(1, 9))"])
        self.lines.append(f"{pad}if len({name}) < 30: {change}")
        self.lines.append(f"{pad}if len({name}) > 2: {number} = {name}.pop({self.rng.choice(['', '', '0', '-1'])})")
        if change[0] == "q" and "q" not in self.lists and depth == 1:
            self.lines[-2] = pad + change
            self.lists.append("q")

    def new_list(self, name):
        other, value = self.rng.choice(self.lists), self.expression(1)
        return self.rng.choice([
            "[]", f"[{value}]", f"[{value}, {self.expression(1)}, {other}]", "[1, -2, 3, 4]", "[0.5, 1.5, 2.5]", "[0] * (c & 7)",
            "(c & 3) * [1.5]", f"[{value}] * 3", "[0.0] * len(a)", f"[[0] * 3 for v in {name}]", f"[v for v in {name}]",
            f"[{value} for v in range(4)]", f"[v for v in {name} if v]", f"[(v + i) * 2 for i, v in enumerate({name})]",
            f"[[v, w] for v in {name} for w in {other}][:9]", f"[[i * v for i in range(3)] for v in {name}]", f"{name}[1:]",
            f"{name}[c:-1]", f"{name}[:x]", f"{name}[:]", f"{name}.copy()", f"({name} + {other})[:9]", f"list({name})", "list(range(c & 7))",
            "list(range(5, x, -1))[:9]", "bytearray(c & 15)", "bytearray(3)", "list()"])

    def walk(self, pad, depth):
        """A loop over the indices of a container."""
        if self.loops >= self.most_loops() or depth > 3:
            self.assign(pad)
            return
        self.loops += 1
        counter, name = f"i{self.loops}", self.rng.choice(self.plain() if self.calm and self.deep else self.lists)
        operator, kind = self.rng.choice(["+", "-", "*"]), self.rng.random()
        if kind < 0.4 or (name == "a" and "array" in self.kinds):
            self.lines.append(f"{pad}for {counter} in range(len({name})):")
            self.known.append(counter)
            self.places.append(counter)
            value = f"{name}[{counter}]"
        else:
            value = self.over_items(pad, counter, name, kind)
        targets = ["x", "y", "z", f"{name}[0]", f"{name}[-1]"]
        target = self.rng.choice(targets if name in self.plain() or not self.calm else targets[:3])
        self.lines.append(f"{pad}    {target} {operator}= {value}")
        if target not in "xyz":
            self.lines.append(f"{pad}    if abs({target}) > 1e40: break")
        self.lines += [f"{pad}    if abs({number}) > 1e40: break" for number in self.bound if number in "xyz"]
        self.block(depth + 1, 1)

    def names_of_two_loops(self):
        """Of the counters of a loop in another one, and of two lists."""
        self.loops += 2
        names = self.plain() if self.calm else self.lists
        return f"i{self.loops - 1}", f"i{self.loops}", self.rng.choice(names), self.rng.choice(names)

    def nest(self, pad, depth):
        """A loop in another one over indices, in which the sizes of lists are steady, or one of the two changes them or a variable."""
        if self.loops + 2 > self.most_loops() or depth > 2:
            self.assign(pad)
            return
        outer, inner, one, other = self.names_of_two_loops()
        steady = [f"x = {one}[{inner} % len({one})]", f"if {inner} < len({other}): {one}[{inner} % len({one})] = {other}[{inner}]",
                  f"y = {other}[-1] - {one}[{inner} % len({one})]", f"{one}[0], {other}[-1] = {other}[0], {one}[-1]"]
        unsteady = [f"if len({one}) < 20: {one}.append(c)", f"if len({other}) < 20: {other}.insert(0, 1)", f"if len({one}) > 1: {one}.pop()",
                    f"if len({other}) < 20: {other} += [2]", f"if len({other}) < 20: {other}.extend({one}[:2])", f"if len({one}) > 2: del {one}[0]",
                    f"{one}[1:] = {one}[:1]", f"{one} = {other}", f"{one}, {other} = {other}, {one}", f"{one} = {one}[:] + [1]", f"{one}[:] = {other}[:5]",
                    f"if {inner} == 1: {one}.sort()", f"if {outer} == 2: {one}.clear()"]
        unsteady += [f"change({one}, {other}, c - 1)"] * (4 if self.helpers else 0)
        unsteady += [] if self.calm or not self.deep else [f"{one}[0] = {other}", f"{one}[{inner}] = {one}[-1]", f"{one}[{inner}] = {one}"]
        within, around = self.rng.choices(steady, k=2), self.rng.choices(steady, k=self.rng.randrange(2))
        for lines in self.rng.choice([[], [within], [around], [within, around]]):
            lines.insert(self.rng.randrange(len(lines) + 1), self.rng.choice(unsteady))
        self.lines += [f"{pad}{inner} = 0", f"{pad}for {outer} in range({self.rng.choice(['3', 'len(b)', 'c & 7'])}):",
                       f"{pad}    if not {one} or not {other}: break", *(f"{pad}    {line}" for line in around),
                       f"{pad}    for {inner} in range({self.rng.choice(['2', '5', f'len({one})'])}):",
                       f"{pad}        if not {one} or not {other}: break", *(f"{pad}        {line}" for line in within)]

    def read(self, pad, depth):
        """A loop that calls nothing and only reads, most of the time, in one that changes something: what does not change may be loaded once."""
        if self.loops + 2 > self.most_loops() or depth > 2:
            self.assign(pad)
            return
        outer, inner, one, other = self.names_of_two_loops()
        reads = [f"x = x + {one}[{inner}]", f"y = {one}[{inner}] - {other}[{outer}]", f"x, y = y, {one}[{inner}]", f"z = z - {other}[0] + {one}[{inner}]",
                 f"if {one}[{inner}] > {other}[0]: continue", f"if {one}[{inner}] == {other}[-1]: break", f"if x > {one}[0]: x = {inner}",
                 f"if not {inner}: y = {one}[{outer}]", f"if {inner}: z = {other}[{outer}] + 1", f"z = {one}[{inner} - {outer}] * {other}[-{inner}] % 10007"]
        reads += [] if self.calm else [
            f"if {inner} == 2: x = 0.5", f"if {inner} > 1: {one} = {other}", f"q = {one}", f"if {inner} == 1: q = {other}", f"y = None if {inner} else 1",
            f"{one}, {other} = {other}, {one}", f"if {inner} > 1: del y", f"if {outer} == 2: {one}[{inner}] = {other}[0]", f"if {inner} == 3: {one} += [x]"]
        if self.deep and not self.calm:
            reads += [f"x = a[{outer}][{inner}]", f"y = a[{inner}][{outer}] + x", f"w = a[{inner}]\n        y = w[0]", f"q = a[{outer}]"]
        if self.tuples:
            reads += [f"x = p[{inner}]", f"x, y = r[{inner}]", f"y = r[{outer}][1] - r[{inner}][0]"]
        changes = [f"if len({one}) < 20: {one}.append(c)", f"if len({other}) > 1: {other}.pop()", f"{one}[1:] = {other}[:3]", f"{one} = {one}[:]",
                   f"{one}[0] = {other}[-1]", f"x = {outer}", "x = 0.5", f"if len({one}) < 20: {one}.insert(0, x)", f"del {other}[0]"]
        changes += [f"change({one}, {other}, c - 1)"] * (4 if self.helpers else 0)
        heads = [f"for {inner} in range({self.rng.choice(['3', 'c & 7', f'len({one})', f'len({other})'])}):", f"for {inner}, x in enumerate({one}):",
                 f"for {inner} in {other}:", f"while {inner} < 4:\n        {inner} += 1"]
        body = "\n".join(f"        {line}" for line in self.rng.choices(reads, k=self.rng.randrange(1, 5)))
        lines = [f"{inner} = 0", f"for {outer} in range({self.rng.choice(['3', 'len(b)', 'c & 7', f'len({one})'])}):",
                 *(f"    {line}" for line in self.rng.sample(changes, self.rng.randrange(3))), f"    {self.rng.choice(heads)}", body,
                 *(f"    {line}" for line in self.rng.sample(changes, self.rng.randrange(2)))]
        if self.rng.random() < 0.2:
            lines = ["try:", *(f"    {line}" for line in "\n".join(lines).split("\n")), "except IndexError:", "    y = 1"]
        self.lines += [pad + line for line in "\n".join(lines).split("\n")]
        self.lines += [f"{pad}if abs({number}) > 1e40: {number} = 1" for number in "xz"]

    def over_items(self, pad, counter, name, kind):
        """A loop over the items of a container; the variable that has one in each turn."""
        item, other = f"v{self.loops}", self.rng.choice([*self.lists, "range(c)", "reversed(range(5))"])
        names = [item]
        if kind < 0.6:
            head = f"{item} in {name}"
        elif kind < 0.7:
            head = f"{item} in reversed({name})"
        elif kind < 0.82:
            first = self.rng.choice(["", "", ", 1", ", x", ", c"])
            head, names = f"{counter}, {item} in enumerate({self.rng.choice([name, f'reversed({name})'])}{first})", [counter, item]
        elif kind < 0.96:
            head, names = f"{item}, {counter} in zip({name}, {other})", [item, counter]
        else:
            head, names = f"{counter}, ({item}, x) in enumerate(zip({name}, {other}))", [counter, item]
        self.lines += [f"{pad}for {head}:", f"{pad}    if len({name}) > 40: break"]
        self.known += names
        if self.deep and not self.calm and self.rng.random() < 0.5:
            self.lists.append(item)
        return item

    def item(self, names=None):
        name, kind = self.rng.choice(names or self.lists), self.rng.random()
        if self.calm:
            index = f"{self.rng.choice([*self.places, '1'])} % len({name})" if kind < 0.7 else self.rng.choice(["0", "-1"])
            return f"{name}[{index}][0]" if self.deep and name == "a" else f"{name}[{index}]"
        index = self.rng.choice(["0", "1", "-1", "2", "-2", "x", "c", "c % 3", "len(a) - 1", "True"])
        if kind < 0.5:
            index = self.rng.choice([known for known in self.known if known not in "yz"])
        if self.deep and self.rng.random() < 0.4:
            return f"{name}[{index}][{self.rng.choice(['0', '1', '-1', 'c', 'x'])}]"
        return f"{name}[{index}]"

    def atom(self, names):
        kind = self.rng.random()
        if kind < 0.3:
            return self.item()
        if kind < 0.36:
            return f"len({self.rng.choice(self.lists)})"
        if kind < 0.39 and self.helpers:
            return f"change({self.rng.choice(self.lists)}, {self.rng.choice(self.lists)}, c - 1)"
        return super().atom(names)

    def expression(self, depth, names=None):
        helpers, self.helpers = self.helpers, []
        try:
            return super().expression(depth, names)
        finally:
            self.helpers = helpers
