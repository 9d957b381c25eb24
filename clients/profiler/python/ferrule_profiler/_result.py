"""What a profile has found."""

import re
from types import CodeType
from typing import NamedTuple

from ._group import grouped
from ._text import CUT, short


def last_line(code):
    """The last line of a code object, and of those that are in it."""
    last = max((end for _, end, _, _ in code.co_positions() if end), default=0)
    return max([last, *(last_line(constant) for constant in code.co_consts
                        if type(constant) is CodeType)])


class Function(NamedTuple):
    """A function, and what its calls have taken. Times are in seconds."""

    file: str
    line: int
    name: str
    qualname: str
    kind: str           # function, generator, coroutine, async generator, builtin, label
    calls: int          # how many frames were made
    runs: int           # how often one began or was resumed: more than calls for a generator
    recursive: int      # runs within another run of the same function
    raised: int         # runs that an exception has ended
    own: float
    total: float        # with what it has called; a call within another one counts once
    awaited: float      # while calls of a coroutine or async generator were suspended, all together
    cpu: float          # CPU time of `own`; 0 if it was not measured
    total_cpu: float    # and of `total`

    @property
    def place(self):
        return f"{short(self.file)}:{self.line}" if self.has_source else self.name

    @property
    def has_source(self):
        """Whether it is a function in Python: no C function, no label."""
        return self.kind not in ("builtin", "label")


class Line(NamedTuple):
    """A line of a function. What a call takes before its first line is in the function's first one."""

    runs: int       # how often it has begun
    own: float      # seconds, without the functions that it has called


class Edge(NamedTuple):
    """A caller and a callee, as numbers of functions. The caller None: no known caller."""

    caller: int | None
    callee: int
    calls: int
    runs: int
    recursive: int
    raised: int
    own: float
    total: float

# What asyncio calls a task that has been given no name.
MADE_UP = re.compile(r"Task-\d+")
# A thread of a pool, which has a number; and what threading calls a thread that has been given no name.
OF_POOL = re.compile(r"(.+?)[-_ ]\d+( \(.*\))?", re.DOTALL)


class Node(NamedTuple):
    """The end of a path. Its parent comes before it in the list; None: it is the thread."""

    parent: int | None
    function: int       # its number; CUT: what is missing below the parent
    runs: int
    own: float
    again: int          # runs that the function has called itself, directly: they are at this place too
    again_own: float    # and what they have taken
    cpu: float          # CPU time of `own`, if it was measured


class Thread(NamedTuple):
    """A thread. `nodes` is the tree of its paths; the first node is the thread itself.

    `seconds` are those of its functions, `cpu` its CPU time.
    `events` are the last ones: (nanoseconds since the beginning, function's number or -1 for an
    end, name of the task where its coroutine begins or is resumed, arguments), the last two often None.
    `dropped` is how many came before. Calls that were under way then begin at the first event.
    """

    name: str
    ident: int
    seconds: float
    cpu: float
    nodes: list
    events: list
    dropped: int

    @property
    def waiting(self):
        """The seconds in which it did not run: asleep, blocked, or waiting for the GIL or a core."""
        return max(self.seconds - self.cpu, 0)

    @property
    def paths(self):
        """Each path that has counted something: (tuple of functions' numbers, runs, own seconds)."""
        found = ((path, self.nodes[place]) for path, place in self.walk())
        return [(tuple(path), node.runs, node.own) for path, node in found
                if node.runs or node.own]

    def walk(self):
        """Each path with the place of its node, those below a node after it. The list changes."""
        children = [[] for _ in self.nodes]
        for place, node in enumerate(self.nodes[1:], 1):
            children[node.parent].append(place)
        path, left = [], [iter(children[0])]
        while left:
            place = next(left[-1], None)
            if place is None:
                left.pop()
                if path:
                    path.pop()
                continue
            path.append(self.nodes[place].function)
            left.append(iter(children[place]))
            yield path, place


def pool_of(thread):
    """What threads of one pool have in common: their name without the number."""
    found = OF_POOL.fullmatch(thread.name)
    return found[1] + (found[2] or "") if found else thread.name


def added_up(name, threads):
    """Several threads as one, without events. Paths that are equal become one."""
    rows, at = [[None, -1, 0, 0, 0, 0, 0]], {}
    for thread in threads:
        places = [0]
        for node in thread.nodes[1:]:
            key = places[node.parent], node.function
            places.append(place := at.setdefault(key, len(rows)))
            if place == len(rows):
                rows.append([*key, 0, 0, 0, 0, 0])
            rows[place][2:] = map(sum, zip(rows[place][2:], node[2:]))
    return Thread(f"{name} ({len(threads)} threads)", 0, sum(thread.seconds for thread in threads),
                  sum(thread.cpu for thread in threads), [Node(*row) for row in rows], [], 0)


class Task(NamedTuple):
    """The tasks of asyncio that have one name and one coroutine."""

    name: str           # the coroutine's, if asyncio has named the tasks
    coroutine: str
    tasks: int          # how many they are
    runs: int           # how often they began or were resumed
    seconds: float      # while they ran
    awaited: float      # while they were suspended


class Result:
    """What a profile has found, all threads together.

    `functions` is {number: Function}; `edges`, `threads` and `tasks` are lists of Edge, Thread and
    Task, and `pools` are the threads with those of a pool added up. `clock` is the clock's name; `timed` says whether there are times. `date` is when it began,
    in seconds since 1970; `wall` how long it took; `cpu` the CPU time of the process.
    `program` is the command line, `pid` the process, `python` its version. `interpreters` says whether
    the program had subinterpreters at hand, whose code is not counted.
    `lines` is {number of a function: {number of a line: Line}}, of the functions for which they were requested;
    `missing` is what was requested and not called. `with_cpu`: functions have CPU time.
    """

    def __init__(self, found):
        self.codes = found["codes"]
        self.clock = found["clock"]
        self.timed = found["timed"]
        self.program, self.pid, self.python = found["program"], found["pid"], found["python"]
        self.interpreters, self.with_cpu = found["interpreters"], found["with_cpu"]
        self.began = found["began"]         # nanoseconds of the monotonic clock, as all processes have
        self.date, self.wall, self.cpu = (found[key] / 1e9 for key in ("date", "wall", "cpu"))
        self._objects = dict(reversed(found["objects"]))
        self._lines = dict(found.get("lines", ()))      # instead of code objects, from another process
        self.tasks = self._sum_tasks(found["threads"])
        self.threads = [self._thread(thread) for thread in found["threads"]]
        self.functions = self._sum_functions(found["threads"])
        self.edges = self._sum_edges(found["threads"])
        self.lines = self._sum_lines(found["threads"])
        self.missing = found["missing"]
        self.hidden, self.lost = 0, 0       # by grouped(): how many functions, and the time that no other has

    def __getstate__(self):
        return {**vars(self), "_objects": {}}       # code objects are not for other processes

    def code_of(self, number):
        """The code object of a function; None: it is not known any more."""
        known = self._objects.get(number)
        return known if type(known) is CodeType else None

    def last_line_of(self, number):
        """The last line of a function; None: it is not known."""
        code = self.code_of(number)
        return self._lines.get(number) if code is None else last_line(code)

    def _sum_tasks(self, threads):
        sums = {}
        for thread in threads:
            for name, number, *counted in thread["tasks"]:
                coroutine = self.codes[number][3] if number >= 0 else ""
                if not name or MADE_UP.fullmatch(name):
                    name = coroutine
                known = sums.get((name, coroutine), (0, 0, 0, 0))
                sums[name, coroutine] = tuple(map(sum, zip(known, counted)))
        found = [Task(*key, tasks, runs, time / 1e9, awaited / 1e9) for key, (tasks, runs, time, awaited) in sums.items()
                 if runs]
        return sorted(found, key=lambda task: -task.seconds)

    def _sum_functions(self, threads):
        sums = {}
        for thread in threads:
            for number, *counted in thread["functions"]:
                if any(counted):
                    known = sums.get(number)
                    sums[number] = list(map(sum, zip(known, counted))) if known else counted
        cpu = self._sum_cpu() if self.with_cpu else {}
        return {number: Function(*self.codes[number], *counts, *(time / 1e9 for time in times), cpu.get(number, 0))
                for number, (*counts, own, total, awaited, own_cpu) in sums.items() for times in [(own, total, awaited, own_cpu)]}

    def _sum_cpu(self):
        """CPU time of functions and their callees, from the trees."""
        sums = {}
        for thread in self.threads:
            totals = [node.cpu for node in thread.nodes]
            for place in range(len(totals) - 1, 0, -1):
                totals[thread.nodes[place].parent] += totals[place]
            for path, place in thread.walk():
                if path[-1] not in path[:-1]:
                    sums[path[-1]] = sums.get(path[-1], 0) + totals[place]
        return sums

    def _sum_edges(self, threads):
        sums = {}
        for thread in threads:
            for caller, callee, *counted in thread["edges"]:
                if any(counted):
                    known = sums.get((caller, callee))
                    sums[caller, callee] = (list(map(sum, zip(known, counted))) if known
                                            else counted)
        return [Edge(None if caller < 0 else caller, callee, *counts, own / 1e9, total / 1e9)
                for (caller, callee), (*counts, own, total) in sums.items()]

    def _sum_lines(self, threads):
        sums = {}
        for thread in threads:
            for number, line, runs, own in thread["lines"]:
                known = sums.setdefault(number, {}).get(line, Line(0, 0))
                sums[number][line] = Line(known.runs + runs, known.own + own / 1e9)
        for number, lines in sums.items():
            function = self.functions[number]
            first = lines.get(function.line, Line(0, 0))
            before = max(function.own - sum(line.own for line in lines.values()), 0)
            lines[function.line] = Line(first.runs, first.own + before)
        return {number: dict(sorted(lines.items())) for number, lines in sums.items()}

    @staticmethod
    def _thread(thread):
        nodes = [Node(parent if parent >= 0 else None, number, runs, own / 1e9, again, again_own / 1e9, cpu / 1e9)
                 for parent, number, _, runs, own, again, again_own, cpu in thread["nodes"]]
        return Thread(thread["name"], thread["ident"], sum(node.own for node in nodes),
                      thread["cpu"] / 1e9, nodes, thread.get("events", []),
                      thread.get("dropped", 0))

    @property
    def waiting(self):
        """The seconds in which threads did not run, of all threads together."""
        return sum(thread.waiting for thread in self.threads)

    @property
    def pools(self):
        """The threads; those of a pool, whose names differ by a number, are added up to one."""
        pools = {}
        for thread in self.threads:
            pools.setdefault(pool_of(thread), []).append(thread)
        return [threads[0] if len(threads) == 1 else added_up(name, threads) for name, threads in pools.items()]

    @property
    def cuts(self):
        """At how many places paths are missing: see CUT."""
        return sum(node.function == CUT for thread in self.threads for node in thread.nodes)

    @property
    def seconds(self):
        """The time of all functions in all threads."""
        return sum(function.own for function in self.functions.values())

    @property
    def labels(self):
        """What label() has named, those that took most first: Function each."""
        found = [function for function in self.functions.values() if function.kind == "label"]
        return sorted(found, key=lambda function: (-function.total, -function.calls, function.name))

    def callers(self, number):
        return [edge for edge in self.edges if edge.callee == number]

    def callees(self, number):
        return [edge for edge in self.edges if edge.caller == number]

    def find(self, name):
        """The functions of this name, or qualified name."""
        return [function for function in self.functions.values()
                if name in (function.name, function.qualname)]

    def grouped(self, only=(), hide=()):
        """The result without functions of some files: see --only and --hide. Their callers have their time."""
        return grouped(self, only, hide, Node, Edge)

    def print_table(self, file=None, *, sort="own", limit=40):
        """Print the functions that have taken most."""
        from ._table import table
        print(table(self, sort=sort, limit=limit), file=file)

    def _repr_html_(self):
        """The page, for notebooks."""
        from html import escape

        from ._page import page
        return ('<iframe style="width: 100%; height: 80vh; min-height: 500px; border: 0" title="profile"'
                f' srcdoc="{escape(page(self))}"></iframe>')

    def _repr_pretty_(self, printer, cycle):
        from ._table import table
        printer.text(table(self))

    def write(self, path, format=None):
        """Write a file. Its format is said, or seen from the name's end."""
        from ._export import write
        write(self, path, format)
