"""A server of asyncio, and eight threads that add and remove tools while it answers. Run by run.py.

It prints its port, answers until a line comes on its standard input, and then what the threads have done, as JSON. Whatever is
still installed then, and whatever a thread found wrong, is a problem.
"""

import asyncio
import collections
import contextlib
import cProfile
import gc
import json
import random
import sys
import sysconfig
import threading
import time
import traceback
import types

import codeextra
import evaluators

import work

try:
    import framehook
except ImportError:     # stock: what needs hooks is left out
    framehook = None

FREE_THREADED = bool(sysconfig.get_config_var("Py_GIL_DISABLED"))
PAUSE = 0.002       # between two turns of a thread, so that the server gets its share


def code_below(code):
    yield code
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from code_below(constant)


CODES = [code for thing in vars(work).values() if isinstance(thing, types.FunctionType)
         for code in code_below(thing.__code__)]
CodeMap = framehook.CodeMap if framehook else dict
COPIES = CodeMap((code, code.replace()) for code in CODES)
# What may run when the work is done: hooks of other threads put copies in the place of code.
KNOWN = CodeMap((code, True) for code in [*CODES, *COPIES.values()])
EXPECTED = [(name, n, work.SYNCHRONOUS[name](n)) for name in work.kinds(FREE_THREADED) if name in work.SYNCHRONOUS for n in (3, 7)]


class Tool:
    """A thread of its own. Each turn adds tools, works beside them, and removes them."""

    def __init__(self, number, stop):
        self.random = random.Random(number)
        self.stop = stop
        self.turns = 0
        self.problems = collections.Counter()
        self.thread = threading.Thread(target=self.run, name=type(self).__name__)

    def run(self):
        while not self.stop.is_set():
            try:
                self.turn()
            except Exception as error:
                self.problems["".join(traceback.format_exception(error))] += 1
            self.turns += 1
            time.sleep(PAUSE)

    def work(self, times=3):
        for _ in range(times):
            name, n, expected = self.random.choice(EXPECTED)
            if work.SYNCHRONOUS[name](n) != expected:
                self.problems[f"{name}({n}) is not {expected}"] += 1

    def turn(self):
        raise NotImplementedError


class Calls(Tool):
    """A hook that looks at all there is, in any place of the order, for all threads or one."""

    def look(self, view):
        self.seen += 1
        view.arguments(), view.function, view.globals

    def turn(self):
        self.seen = 0
        hook = self.look
        handle = framehook.add(hook, first=self.random.random() < 0.5, this_thread=self.random.random() < 0.5,
                               visible=self.random.random() < 0.2)
        try:
            self.work()
        finally:
            framehook.remove(handle)
        if not self.seen:
            self.problems["a hook was not called"] += 1


class Disables(Tool):
    """Hooks that return Disable, and all the ways to switch them off and on."""

    def turn(self):
        entries = []

        def disable_code(view):
            entries.append(1)
            return framehook.DISABLE

        code = self.random.choice(CODES)
        with framehook.hook(disable_code) as hook:
            self.work(1)
            framehook.disable_for_code(hook, code)
            framehook.enable_for_code(hook, code)
            for block in (framehook.disabled(hook), framehook.disabled_in_thread(hook),
                          framehook.disabled_for_code(hook, code, self.random.choice(CODES))):
                with block:
                    self.work(1)
            self.work(1)
        if not entries:
            self.problems["a hook that returns Disable was not called"] += 1


class Replaces(Tool):
    """All of the work is done by copies, with a caller that wants the original."""

    def turn(self):
        def replace(view):
            return COPIES.get(view.code, framehook.DISABLE)

        with framehook.hook(replace) as hook:
            self.work()
            n = self.random.randrange(9)
            if framehook.unhooked(work.deep)(n) != n:
                self.problems["the original returns something else"] += 1
            replaced = hook.info.replacements
        if not replaced:
            self.problems["nothing was replaced"] += 1


class Watches(Tool):
    """Frames are watched from entry to exit; scopes and results besides."""

    def turn(self):
        begun, delivered = [], []

        def counts(view):
            """In this thread alone. What counts is C, so that it does the same at the recursion limit."""
            if view.code not in KNOWN:
                return framehook.DISABLE
            begun.append(1)
            view.watch(delivered.append)

        def listens(view):
            if view.code not in KNOWN:
                return framehook.DISABLE
            view.watch(lambda event: None, None, yields=True, resumes=True)
            if view.code.co_name == "raise_after":
                view.only_callees() if self.random.random() < 0.1 else view.exclude_callees()

        def answers(view):
            return view.result(self.fives[view.argument("n")]) if view.code.co_name == "fib" else framehook.DISABLE

        handle = framehook.add(counts, this_thread=True)
        try:
            with framehook.hook(listens):
                self.work()
        finally:
            framehook.remove(handle)
        if not begun or len(delivered) != len(begun):
            self.problems[f"{len(begun)} frames were watched, and {len(delivered)} exits reported"] += 1
        handle = framehook.add(answers, this_thread=True)
        try:
            if work.fib(5) != self.fives[5]:
                self.problems["a hook's value is not the call's"] += 1
        finally:
            framehook.remove(handle)

    fives = [5] * 20


class Monitors(Tool):
    """sys.monitoring: all events, for everything and for one code object."""

    ID = 4

    def turn(self):
        monitoring = sys.monitoring
        events = monitoring.events
        seen = []
        monitoring.use_tool_id(self.ID, "soak")
        try:
            for event in (events.PY_START, events.PY_RETURN, events.PY_YIELD, events.LINE, events.CALL, events.PY_UNWIND):
                monitoring.register_callback(self.ID, event, lambda *arguments: seen.append(1))
            if self.random.random() < 0.5:
                monitoring.set_events(self.ID, events.PY_START | events.PY_RETURN | events.PY_UNWIND)
            for code in self.random.sample(CODES, 3):
                monitoring.set_local_events(self.ID, code, events.LINE | events.PY_YIELD | events.CALL)
            self.work()
            for code in CODES:
                monitoring.set_local_events(self.ID, code, 0)
            monitoring.set_events(self.ID, 0)
        finally:
            monitoring.free_tool_id(self.ID)


class Traces(Tool):
    """settrace: in this thread, and in all."""

    def turn(self):
        seen = []

        def trace(frame, event, argument):
            if frame.f_code not in KNOWN:
                return None
            seen.append(event)
            return trace

        sys.settrace(trace)
        try:
            self.work()
        finally:
            sys.settrace(None)
        if not seen:
            self.problems["nothing was traced"] += 1
        # Without the GIL, CPython 3.13 changes the tracers of other threads while these run.
        if not FREE_THREADED and self.random.random() < 0.3:
            threading.settrace_all_threads(lambda frame, event, argument: None)
            try:
                self.work(1)
            finally:
                threading.settrace_all_threads(None)


class Profiles(Tool):
    """setprofile in this thread and in all, cProfile, and the profiler on frame hooks."""

    def turn(self):
        # Without the GIL: cProfile of CPython 3.13 notes the calls of all threads in one list, without a lock.
        which = self.random.choice((0, 2) if FREE_THREADED else (0, 1, 2, 3))
        if which == 0:
            seen = []
            sys.setprofile(lambda frame, event, argument: seen.append(event))
            try:
                self.work()
            finally:
                sys.setprofile(None)
            if not seen:
                self.problems["nothing was profiled"] += 1
        elif which == 1:
            with cProfile.Profile() as profile:
                self.work()
            profile.create_stats()
            if not profile.stats:
                self.problems["cProfile has seen nothing"] += 1
        elif which == 2 and ferrule_profiler is not None:
            with ferrule_profiler.profile() as profile:
                self.work()
            if not profile.result.functions:
                self.problems["the profiler has seen nothing"] += 1
        elif which == 3:
            threading.setprofile_all_threads(lambda frame, event, argument: None)
            try:
                self.work(1)
            finally:
                threading.setprofile_all_threads(None)


class Gate(Tool):
    """Evaluators, values on code objects, code that dies, and the collector."""

    # Stock has no way to give an index back.
    FOR_EVER = None if framehook else codeextra.request("none")

    def turn(self):
        index = codeextra.request("none") if self.FOR_EVER is None else self.FOR_EVER
        # Without the GIL, CPython 3.13 keeps it for ever.
        for number in range(0 if FREE_THREADED else 5):
            code = compile(f"def made(x): return x + {number}", "<made>", "exec")
            exec(code, namespace := {})
            made = namespace["made"]
            codeextra.set(made.__code__, index, number + 1)
            if made(1) != number + 1 or codeextra.get(made.__code__, index) != number + 1:
                self.problems["code of its own returns something else"] += 1
        for code in self.random.sample(CODES, 5):
            codeextra.set(code, index, 7)
        evaluators.set(self.random.choice(("pass", "count")))
        try:
            self.work(2)
        finally:
            evaluators.set("default")
        if self.FOR_EVER is None:
            codeextra.release(index)
        if self.random.random() < 0.1:
            gc.collect()


TOOLS = (*((Calls, Disables, Replaces, Watches) if framehook else ()), Monitors, Traces, Profiles, Gate)

try:
    import ferrule_profiler
except ImportError:
    ferrule_profiler = None


async def serve(reader, writer):
    """One line for each request: `number kind n`, answered by `number result`."""
    with contextlib.suppress(ConnectionError):
        while line := await reader.readline():
            number, kind, n = line.decode().split()
            writer.write(f"{number} {await work.answer(kind, int(n))}\n".encode())
            await writer.drain()
    writer.close()


async def main(stop):
    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    async with server:
        await asyncio.get_running_loop().run_in_executor(None, sys.stdin.readline)
    stop.set()


if __name__ == "__main__":
    stop = threading.Event()
    sys.setswitchinterval(0.001)
    tools = [tool(number, stop) for number, tool in enumerate(TOOLS) if tool.__name__ in (sys.argv[1:] or tool.__name__)]
    for tool in tools:
        tool.thread.start()
    try:
        asyncio.run(main(stop))
    finally:
        stop.set()
        for tool in tools:
            tool.thread.join()
    problems = sum((tool.problems for tool in tools), collections.Counter())
    if framehook and framehook.hooks():
        problems[f"hooks are left: {framehook.hooks()}"] += 1
    if left := [number for number in range(6) if sys.monitoring.get_tool(number)]:
        problems[f"tools of sys.monitoring are left: {left}"] += 1
    print(json.dumps({"turns": {type(tool).__name__: tool.turns for tool in tools}, "problems": problems,
                      "profiler": ferrule_profiler is not None}))
