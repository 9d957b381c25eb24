"""Runs the tests of mutated source and prints the result of each test: a JSON list on the last line of its output.

    python worker.py FILE SEED HOOK                      a mutated test module
    python worker.py FILE SEED HOOK MODULE TESTS...      a mutated module, which replaces MODULE, and the names of tests' modules

What else is on while it runs follows from the seed, and is the same for each interpreter but for HOOK, which is a kind of frame
hook that changes nothing of what runs, or `none`. FUZZ_COLLECTOR: how many more objects there may be before the collector runs.
"""

import gc
import importlib.machinery
import importlib.util
import inspect
import io
import json
import os
import random
import re
import resource
import sys
import threading
import unittest

SECONDS, BYTES, PROCESSES = 20, 3 << 30, 256
# Hooks that are those of a client, and its module.
CLIENTS = {"profiler": "ferrule_profiler", "debugger": "ferrule_debugger"}
LOOKS = ("alone", "alone", "trace", "profile", "lines", "looked at", "evaluator", "greenlets")


def chances(what, seed):
    """The same from process to process, and independent of what else is chosen for a seed."""
    return random.Random(f"{what} {seed}")


def look(seed):
    """Who looks on while it runs."""
    return chances("look", seed).choice(LOOKS)


def limit():
    """A mutated test may do anything."""
    resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS + 2))
    resource.setrlimit(resource.RLIMIT_AS, (BYTES, BYTES))
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 24, 1 << 24))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def without_places(text):
    """What differs from process to process, or from one build to another, is left out."""
    if "0x" in text and re.search(r"\[\d+ chars\]|^\?", text, re.MULTILINE):
        # unittest shortens, and marks, by what addresses have in common.
        text = text.partition("<")[0]
    text = text.replace("'_framecore', ", "")
    text = re.sub(r"0x[0-9a-fA-F]+", "0x", text)
    text = re.sub(r"(?<=Diff is )\d+", "N", text)
    # Where unittest leaves out the middle of a text, an address may have been cut in two.
    return re.sub(r"\[\d+ chars\](?:[0-9a-fA-F]+(?=>))?|\d{5,}|\S*/\S+", "N", text)[:300]


class Results(unittest.TestResult):
    def __init__(self):
        super().__init__()
        self.results = []

    def note(self, test, what, error=None):
        said = f"{error[0].__name__}: {without_places(str(error[1]))}" if error else ""
        self.results.append([without_places(str(test)), what, said])

    def addSuccess(self, test):
        self.note(test, "passed")

    def addError(self, test, error):
        self.note(test, "error", error)

    def addFailure(self, test, error):
        self.note(test, "failed", error)

    def addSkip(self, test, reason):
        self.note(test, "skipped")

    def addSubTest(self, test, subtest, error):
        if error is not None:
            self.note(subtest, "sub", error)


def trace(frame, event, argument):
    return trace


def profile(frame, event, argument):
    frame.f_lineno


def watch_lines():
    monitoring = sys.monitoring
    monitoring.use_tool_id(monitoring.COVERAGE_ID, "fuzz")
    for event in (monitoring.events.LINE, monitoring.events.PY_RETURN, monitoring.events.PY_UNWIND):
        monitoring.register_callback(monitoring.COVERAGE_ID, event, lambda *_: None)
    monitoring.set_events(monitoring.COVERAGE_ID,
                          monitoring.events.LINE | monitoring.events.PY_RETURN | monitoring.events.PY_UNWIND)


def look_at_frames(also):
    """Another thread walks this one's frames, and calls `also`."""
    ident = threading.get_ident()

    def look():
        while not done.wait(0.002):
            also()
            frame = sys._current_frames().get(ident)
            while frame is not None:
                frame.f_lineno, frame.f_code
                frame = frame.f_back

    done = threading.Event()
    thread = threading.Thread(target=look, daemon=True)
    thread.start()
    return done


def switcher(seed):
    """What goes to another greenlet every so often, which runs for a while, at some depth and in generators, and returns."""
    from _testinternalcapi import get_c_recursion_remaining

    import greenlet
    chance, ident, home = chances("switch", seed).random, threading.get_ident(), greenlet.getcurrent()

    def deep(depth):
        if depth > 0:
            for _ in step(depth):
                pass
        else:
            home.switch()

    def step(depth):
        yield
        deep(depth - 1)

    def run():
        while True:
            deep(int(chance() * 9))

    def switch():
        nonlocal home
        if threading.get_ident() != ident or greenlet.getcurrent() is other:
            return
        # Where little of the C stack is left, objects wait in CPython's trashcan. greenlet 3.5.6 frees one of them in a switch, and
        # CPython frees it again: any 3.13 crashes.
        if chance() < 0.02 and get_c_recursion_remaining() > 500:
            home = greenlet.getcurrent()
            other.switch()

    other = greenlet.greenlet(run)
    # It begins here, where the stack is low.
    other.switch()
    return switch


def switching(seed):
    """A hook that goes to another greenlet in its entry callback, and in its exit callbacks."""
    switch = switcher(seed)

    def callback_and_switch(event):
        read_event(event)
        switch()

    def hook(view):
        view.watch(callback_and_switch, None, yields=True, resumes=True)
        switch()
    return hook


def read_event(event):
    """The callback of hooks that watch a frame."""
    event.kind, event.code, event.value, event.data


def watcher():
    """A hook that gets all events of a frame."""
    return lambda view: view.watch(read_event, view.code, yields=True, resumes=True)


def changing(seed):
    """A hook that watches some frames, sets scopes, disables itself, and changes which other hooks there are."""
    import framehook
    chance, others = chances("change", seed).random, []

    def hook(view):
        what = int(chance() * 40)
        try:
            if what == 0 and len(others) < 4:
                others.append(framehook.add(watcher(), first=chance() < 0.5, this_thread=chance() < 0.3))
            elif what == 1:
                framehook.remove(others.pop(0))
            elif what == 2:
                view.only_callees()
            elif what == 3:
                view.exclude_callees()
            elif what == 4 and chance() < 0.1:
                return framehook.DISABLE
            elif what == 5:
                framehook.disable_for_code(others[-1], view.code)
            elif what == 6:
                framehook.enable_for_code(others[-1], view.code)
            elif what == 7:
                framehook.reentrant(gc.isenabled)()
            elif what < 24:
                view.watch(read_event, None, yields=what % 2 == 0, resumes=what % 3 == 0)
        except (IndexError, ValueError):
            # There is none, or another thread has removed it.
            pass

    return hook


class Cycle:
    """A hook that leads to a generator that it watches, by its callable, its callback, its data and its block."""

    def __init__(self):
        with framehook.hook(self.hook) as self.block:
            self.current = self.steps()
            next(self.current)

    def steps(self):
        yield 1

    def hook(self, view):
        view.watch(self.callback, self, yields=True, resumes=True)

    def callback(self, event):
        read_event(event)


class Waiting:
    """A hook of which a callback waits in a greenlet."""

    def __init__(self, stage, visible=True):
        self.stage, self.home, self.waits = stage, greenlet.getcurrent(), False
        # Nothing is traced in a thread while a hidden callback waits.
        self.handle = framehook.add(self.hook, visible=visible)
        self.greenlet = greenlet.greenlet(self.run)
        self.greenlet.switch()

    def run(self):
        for _ in self.steps():
            pass

    def steps(self):
        yield 1

    def hook(self, view):
        if view.code is Waiting.steps.__code__:
            view.watch(self.callback, self, yields=True, resumes=True)

    def callback(self, event):
        if event.kind == self.stage and not self.waits:
            self.waits = True
            self.home.switch()

    def continue_it(self):
        if self.waits:
            self.greenlet.parent = greenlet.getcurrent()
            self.greenlet.switch()


class Elsewhere:
    """A hook that has other hooks begin, and end elsewhere: in other threads and greenlets, and in blocks of others."""

    def __init__(self, seed):
        # Once: tests change what there is to import.
        global framehook, greenlet
        import framehook
        try:
            import greenlet
        except ImportError:
            greenlet = None
        self.chance, self.ident = chances("elsewhere", seed).random, threading.get_ident()
        self.handles, self.blocks, self.waiting, self.codes = [], [], [], [read_event.__code__]
        # Those of `framehook` are not offered; calls of hooks are made as though none ran.
        self.make_cycle = framehook.reentrant(Cycle)

    def hook(self, view):
        self.codes[0] = view.code
        what = int(self.chance() * 40)
        if what == 0:
            view.only_callees(everywhere=self.chance() < 0.5)
        elif what == 1:
            view.exclude_callees()
        if what < 20:
            view.watch(read_event, None, yields=what % 2 == 0, resumes=what % 3 == 0)
        if self.chance() < 0.02:
            self.change()

    def change(self):
        """Whatever thread it is that calls this."""
        what, some = int(self.chance() * 10), int(self.chance() * 100)
        try:
            if what == 0 and len(self.handles) < 9:
                self.handles.append(framehook.add(watcher(), this_thread=self.chance() < 0.7))
            elif what == 1:
                framehook.remove(self.handles.pop(some % len(self.handles)))
            elif what < 5 and len(self.blocks) < 9:
                handle = self.handles[some % len(self.handles)]
                block = (framehook.hook(watcher()), framehook.disabled(handle), framehook.disabled_in_thread(handle),
                         framehook.disabled_for_code(handle, self.codes[0]))[some % 4]
                block.__enter__()
                self.blocks.append(block)
            elif what < 8:
                self.blocks.pop(some % len(self.blocks)).__exit__(None, None, None)
            elif what == 8:
                self.make_cycle()
            elif threading.get_ident() == self.ident and greenlet is not None:
                self.wait(some)
        except (IndexError, ValueError, ZeroDivisionError):
            # There is none, or it is gone, perhaps with its thread.
            pass

    def wait(self, some):
        if len(self.waiting) < 4 and some % 2:
            self.waiting.append(one := Waiting(("yielded", "resumed", "returned")[some % 3]))
            if some % 4 == 1:
                framehook.remove(one.handle)
                one.handle = None
        else:
            one = self.waiting.pop(0)
            if one.handle:
                framehook.remove(one.handle)
            one.continue_it()


def profiled(seed):
    """A profile, by hooks in Rust: exact, counts alone, or with a timeline."""
    import ferrule_profiler
    options = ({}, {"count": True}, {"trace": 1000, "arguments": True})[seed % 3]
    profile = ferrule_profiler.start(**options)

    def stop():
        profile.stop()
        if not profile.result.functions:
            raise AssertionError("the profile has no function")
    return stop


def debugger(seed, lines):
    """A debugger with breakpoints in the mutated source, that continues from each in one of the ways that trace nothing."""
    import linecache

    import ferrule_debugger
    chance = chances("debugger", seed).random

    class Debugger(ferrule_debugger.Bdb):
        def user_line(self, frame):
            what = int(chance() * 8)
            if what == 0:
                self.set_next(frame)
            elif what == 1:
                self.set_return(frame)
            elif what == 2:
                self.set_until(frame)
            else:
                self.set_continue()

        def user_return(self, frame, value):
            self.set_continue()

    debugger = Debugger()
    file = debugger.canonic("mutated.py")
    # There is no such file.
    linecache.cache[file] = len(lines), None, ["pass\n"] * len(lines), file
    for _ in range(20):
        debugger.set_break(file, 1 + int(chance() * len(lines)))
    del linecache.cache[file]
    return debugger


def reader(view):
    """A hook that looks at all there is."""
    view.function, view.globals, view.argument_names, view.arguments(), view.caller


def copier():
    """A hook that has a copy of the code run."""
    import framehook
    copies = framehook.CodeMap()

    def replace(view):
        code = view.code
        # A class body with a comprehension in it cannot be copied.
        if not code.co_flags & inspect.CO_OPTIMIZED:
            return framehook.DISABLE
        if code not in copies:
            copies[code] = code.replace()
        return copies[code]
    return replace


def hook_adder(kind, seed, lines):
    """A function of a frame that adds the hook, and returns what is to be called when the tests are over, or None. To be made before
    anything is mutated that a hook's modules import."""
    if kind == "none":
        return lambda frame: None
    import framehook
    if kind == "profiler":
        import ferrule_profiler  # noqa: F401
        return lambda frame: profiled(seed)
    if kind == "debugger":
        debugs = debugger(seed, lines)

        def begin(frame):
            debugs.set_trace(frame)
            return debugs.set_quit
        return begin
    make = {"pass": lambda: lambda view: None, "read": lambda: reader, "copy": copier, "watch": watcher,
            "change": lambda: changing(seed), "switch": lambda: switching(seed), "elsewhere": lambda: Elsewhere(seed).hook}[kind]
    hook = make()

    def add(frame):
        framehook.add(hook)
    if kind == "elsewhere":
        add.also = hook.__self__.change
    return add


class StandsIn(importlib.machinery.SourceFileLoader):
    """Finds and loads one module: with other code, as often as it is imported."""

    def __init__(self, name, code):
        self.true = importlib.util.find_spec(name)
        super().__init__(name, self.true.origin)
        self.code = code

    def find_spec(self, name, path=None, target=None):
        if name != self.name:
            return None
        return importlib.util.spec_from_file_location(name, self.path, loader=self,
                                                      submodule_search_locations=self.true.submodule_search_locations)

    def get_code(self, name):
        return self.code


def tests_of(code, path, name, tests):
    """Runs the mutated code, and makes a suite of its own tests or of those that are named."""
    loader = unittest.defaultTestLoader
    if not name:
        module = type(sys)("mutated")
        module.__file__ = path
        sys.modules["mutated"] = module
        exec(code, module.__dict__)
        return loader.loadTestsFromModule(module)
    # What these import is not mutated: most of it would not import at all with a module that is.
    for test in tests:
        importlib.import_module(test)
    for loaded in (name, *tests):
        sys.modules.pop(loaded, None)
    sys.meta_path.insert(0, StandsIn(name, code))
    importlib.import_module(name)
    return loader.loadTestsFromNames(tests)


def main(path, seed, hook, name="", *tests):
    limit()
    how, surroundings = look(seed), chances("surroundings", seed)
    with open(path, encoding="utf-8") as file:
        source = file.read()
    code = compile(source, "mutated.py", "exec")
    result, said = Results(), io.StringIO()
    limit_of_recursion = surroundings.choice((300, 1000, 1000, 4000))
    gc.set_threshold(surroundings.choice((1, 20, 700, 2000)) + int(os.environ.get("FUZZ_COLLECTOR", "0")))
    sys.stdout, stdout = said, sys.stdout
    before = set(sys.modules)
    add_hook = hook_adder(hook, seed, source.splitlines())
    if hook not in CLIENTS:
        # Tests that go through all modules, as inspect.getmodule() does, find the same ones without a hook.
        for imported in sys.modules.keys() - before:
            del sys.modules[imported]
    if how == "greenlets":
        switch = switcher(seed)
    try:
        suite = tests_of(code, path, name, tests)
        sys.setrecursionlimit(limit_of_recursion)
        ends = add_hook(sys._getframe())
        # Tests that go through what sys has find the same in both.
        for name in ("add_frame_hook", "remove_frame_hook"):
            vars(sys).pop(name, None)
        if how == "trace":
            sys.settrace(trace)
        elif how == "profile":
            sys.setprofile(profile)
        elif how == "lines":
            watch_lines()
        elif how == "looked at":
            look_at_frames(getattr(add_hook, "also", lambda: None))
        elif how == "evaluator":
            # Another evaluator, in C, runs each frame.
            sys.activate_stack_trampoline("perf")
        elif how == "greenlets":
            def trace_and_switch(*_):
                switch()
                return trace_and_switch
            sys.settrace(trace_and_switch)
        suite.run(result)
        if ends:
            ends()
        outcome = "ran"
    except BaseException as error:
        outcome = f"{type(error).__name__}: {without_places(str(error))}"
    finally:
        sys.settrace(None)
        sys.setprofile(None)
        sys.setrecursionlimit(10_000)
    sys.stdout = stdout
    print("\n" + json.dumps([how, outcome, result.results]), flush=True)


if __name__ == "__main__":
    # What is mutated may read the arguments too: it finds none, in both interpreters.
    words = sys.argv[1:]
    del sys.argv[1:]
    main(words[0], int(words[1]), *words[2:])
