"""Times from a timer: every few milliseconds a thread notes who runs in every other thread."""

import sys
from _thread import _get_main_thread_ident
from time import perf_counter

from ._loaded import core
from ._ticker import Ticker

INTERVAL = 0.005
GENERATOR, COROUTINE, ITERABLE_COROUTINE, ASYNC_GENERATOR = 0x20, 0x80, 0x100, 0x200
# The file of this package that is a part of programs.
MIDDLEWARE = "/web.py"


def identity(code):
    """A function's identity, from the core."""
    flags = code.co_flags
    kind = ("generator" if flags & GENERATOR and not flags & ITERABLE_COROUTINE else
            "coroutine" if flags & (COROUTINE | ITERABLE_COROUTINE) else
            "async generator" if flags & ASYNC_GENERATOR else "function")
    return code.co_filename, code.co_firstlineno, code.co_name, code.co_qualname, kind


def name_of(ident):
    """The name of a thread, as the core has it of those that it has seen."""
    thread = getattr(sys.modules.get("threading"), "_active", {}).get(ident)
    unknown = "MainThread" if ident == _get_main_thread_ident() else f"thread {ident}"
    return str(getattr(thread, "_name", unknown))


class Sampler:
    """Gives the time between two looks to the stacks that the second one sees."""

    def __init__(self, own, leave_out, interval=INTERVAL):
        self.own = own
        self.interval = interval
        self.times = {}         # thread -> path of code objects -> seconds
        self.kept = {}          # the code objects, by their addresses
        self.left_out = set()   # threads that are not looked at
        self.ticker = Ticker(interval, self.look, leave_out)
        self.last = None        # when it has looked last

    def start(self):
        """RuntimeError: no stack can be read here."""
        core.stacks()
        self.last = perf_counter()
        self.ticker.start()

    def stop(self):
        self.ticker.stop()

    def after_fork(self):
        """What was seen is the parent's."""
        self.times.clear()
        self.left_out.clear()
        self.last = perf_counter()
        self.ticker.after_fork()

    def look(self):
        now = perf_counter()
        took, self.last = now - self.last, now
        for ident, codes in core.stacks():
            if ident in self.left_out:
                continue
            path = []
            for code in reversed(codes):
                if code.co_filename.startswith(self.own) and not code.co_filename.endswith(MIDDLEWARE):
                    path.clear()        # what has started the profiler is not the program
                elif path[-1:] != [id(code)]:       # a function that calls itself is there once
                    path.append(id(code))
                    self.kept.setdefault(id(code), code)
            path = tuple(path)
            times = self.times.setdefault(ident, {})
            times[path] = times.get(path, 0) + took

    def add_to(self, found):
        """Put the times into what the counts have found."""
        numbers = {tuple(known): number for number, known in enumerate(found["codes"])}

        def number(address):
            known = identity(self.kept[address])
            if known not in numbers:
                numbers[known] = len(found["codes"])
                found["codes"].append(known)
                found["objects"].append((numbers[known], self.kept[address]))
            return numbers[known]

        by_ident = {thread["ident"]: thread for thread in found["threads"]}
        unseen = []
        for ident, times in list(self.times.items()):
            thread = by_ident.get(ident)
            if thread is None:
                if not any(times):
                    continue
                thread = {"name": name_of(ident), "ident": ident, "cpu": 0, "functions": [], "lines": [], "tasks": []}
                unseen.append(thread)
            self.add_thread(thread, {
                tuple(map(number, path)): round(took * 1e9) for path, took in list(times.items())})
        self.share_cpu_time(unseen, found)
        found["threads"].extend(unseen)

    @staticmethod
    def share_cpu_time(unseen, found):
        """Threads that have called nothing get the CPU time that no other thread has used."""
        left = max(found["cpu"] - sum(thread["cpu"] for thread in found["threads"]), 0)
        took = [sum(row[5] for row in thread["functions"]) for thread in unseen]
        for thread, own in zip(unseen, took):
            thread["cpu"] = min(own, own * left // (sum(took) or 1))

    @staticmethod
    def add_thread(thread, times):
        counts = {row[0]: row[1] for row in thread["functions"]}
        own, total, edges = {}, {}, {}
        nodes, places = [[-1, -1, 0, 0, 0, 0, 0, 0]], {(): 0}
        for path, took in times.items():
            if not path:
                continue
            own[path[-1]] = own.get(path[-1], 0) + took
            for function in set(path):
                total[function] = total.get(function, 0) + took
            for edge in set(zip((-1, *path), path)):
                edges[edge] = edges.get(edge, 0) + took
            for depth in range(1, len(path) + 1):
                if path[:depth] not in places:
                    places[path[:depth]] = len(nodes)
                    nodes.append([places[path[:depth - 1]], path[depth - 1], 0, 0, 0, 0, 0, 0])
            nodes[places[path]][4] += took
        thread["functions"] = [
            (function, counts.get(function, 0), counts.get(function, 0), 0, 0,
             own.get(function, 0), total.get(function, 0), 0, 0) for function in counts | total]
        thread["edges"] = [(caller, callee, 0, 0, 0, 0, 0, took)
                           for (caller, callee), took in edges.items()]
        thread["nodes"] = nodes
