"""--only and --hide: a result without some functions, whose time their callers have."""

from copy import copy
from os import fspath, sep
from os.path import abspath, normpath, realpath

from ._text import CUT


class Files:
    """Files that are named by paths: a file or directory, the end or any part of one's path, or `<frozen`."""

    def __init__(self, paths):
        listed = [paths] if isinstance(paths, str) else paths
        self.begins, self.parts = set(), set()
        for path in map(fspath, listed):
            if path.startswith("<"):
                self.begins.add(path)
                continue
            part = normpath(path)
            if not part.startswith((sep, ".")):
                self.parts.add(part)
            for whole in (abspath(path), realpath(path)):
                self.begins.add(whole.rstrip(sep) + sep)
        self.begins = tuple(self.begins)

    def __contains__(self, file):
        return f"{file}{sep}".startswith(self.begins) or any(f"{sep}{part}{sep}" in f"{sep}{file}{sep}" for part in self.parts)

    def __bool__(self):
        return bool(self.begins)


def hidden_in(result, only, hide):
    """The numbers of functions that are not shown. Labels are."""
    only, hide = Files(only), Files(hide)
    return {number for number, function in result.functions.items() if function.kind != "label"
            and (function.file in hide or bool(only) and function.file not in only)}


class Tree:
    """The tree of a thread without hidden functions. `moved` has (caller, callee, own time, its CPU time) of hidden ones by who has it now."""

    def __init__(self, nodes, hidden):
        self.rows = [list(node) for node in nodes[:1]]
        self.moved, self.via = [], []
        at, places = {}, [0]
        totals = [node.own for node in nodes]
        for place in range(len(nodes) - 1, 0, -1):
            totals[nodes[place].parent] += totals[place]
        edges = [None] * len(nodes)     # of those that a hidden function has called
        for place, node in enumerate(nodes[1:], 1):
            parent = places[node.parent]
            if node.function in hidden:
                self.rows[parent][3] += node.own
                self.rows[parent][6] += node.cpu
                self.moved.append((self.caller(parent), self.function(parent), node.own, node.cpu))
                places.append(parent)
                continue
            new = parent if self.rows[parent][1] == node.function != CUT else at.setdefault((parent, node.function), len(self.rows))
            if new == len(self.rows):
                self.rows.append([parent, node.function, 0, 0, 0, 0, 0])
            self.rows[new][4] += node.runs if new == parent else node.again
            self.rows[new][5] += node.own if new == parent else node.again_own
            self.rows[new][2] += node.runs
            self.rows[new][3] += node.own
            self.rows[new][6] += node.cpu
            places.append(new)
            if nodes[node.parent].function in hidden and node.function != CUT:
                edges[place] = edge = self.function(parent), node.function
                within = self.is_within(edge, place, nodes, edges)
                runs = node.runs - node.again
                self.via.append((edge, runs, runs if within else 0, node.own - node.again_own, 0 if within else totals[place]))

    def function(self, place):
        """None: it is the thread, or a cut."""
        number = self.rows[place][1]
        return number if number >= 0 else None

    def caller(self, place):
        parent = self.rows[place][0]
        return None if parent is None else self.function(parent)

    @staticmethod
    def is_within(edge, place, nodes, edges):
        """Whether a call is within another one of the same edge."""
        while place := nodes[place].parent:
            if edges[place] == edge:
                return True
        return False


def grouped(result, only, hide, make_node, make_edge):
    """The result without the functions of some files. Their own time is that of the nearest caller that is left."""
    hidden = hidden_in(result, only, hide)
    made = copy(result)
    trees = [Tree(thread.nodes, hidden) for thread in result.threads]
    made.threads = [thread._replace(nodes=[make_node(*row) for row in tree.rows]) for thread, tree in zip(result.threads, trees)]
    edges = {(edge.caller, edge.callee): edge for edge in result.edges if edge.callee not in hidden and edge.caller not in hidden}
    own, cpu = {}, {}
    for tree in trees:
        for (caller, callee), runs, recursive, took, total in tree.via:
            known = edges.get((caller, callee), make_edge(caller, callee, 0, 0, 0, 0, 0, 0))
            calls = runs if result.functions[callee].kind in ("function", "builtin") else 0
            edges[caller, callee] = known._replace(calls=known.calls + calls, runs=known.runs + runs, recursive=known.recursive + recursive,
                                                   own=known.own + took, total=min(known.total + total, result.functions[callee].total))
    for tree in trees:
        for caller, function, took, busy in tree.moved:
            own[function] = own.get(function, 0) + took
            cpu[function] = cpu.get(function, 0) + busy
            known = edges.get((caller, function))
            if known is not None:       # not of the thread itself
                edges[caller, function] = known._replace(own=known.own + took)
    made.hidden, made.lost = len(hidden), own.pop(None, 0)
    made.functions = {number: function._replace(own=function.own + own.get(number, 0), cpu=function.cpu + cpu.get(number, 0))
                      for number, function in result.functions.items() if number not in hidden}
    made.edges = list(edges.values())
    made.lines = {number: lines for number, lines in result.lines.items() if number not in hidden}
    return made
