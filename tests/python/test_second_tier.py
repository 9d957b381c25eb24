"""Hooks, frames and memory where CPython has a second tier, which compiles hot loops to traces.

Everywhere else these are loops like others.
"""

import gc
import sys
import threading
import unittest
import warnings

from support import HookTestCase, ProgramTestCase, counter, framehook, in_a_child, needs_hooks, new_function


def small():
    return 1


@needs_hooks
class Hooks(HookTestCase):
    """A hot loop is compiled with what it calls, as that is at that moment."""

    CALLS = 3_000       # enough to compile what follows upon a loop's first compilation, too

    def test_a_hook_is_called_again_for_code_that_a_loop_calls(self):
        for order in (("block", "switch"), ("switch", "block"), ("switch", "switch")):
            with self.subTest(order):
                function = new_function()

                def loop():
                    for _ in range(self.CALLS):
                        function()

                loop.__code__ = loop.__code__.replace()     # nothing of it is compiled yet
                callable = counter(function)
                with framehook.hook(callable) as hook:
                    for way in order:
                        before = callable.entries
                        if way == "block":
                            with framehook.disabled_for_code(hook, function.__code__):
                                loop()
                        else:
                            framehook.disable_for_code(hook, function.__code__)
                            loop()
                            framehook.enable_for_code(hook, function.__code__)
                        self.assertEqual(callable.entries, before, way)
                        loop()
                        self.assertEqual(callable.entries - before, self.CALLS, way)

    def test_what_was_compiled_for_side_exits_is_freed_with_its_loop(self):
        def loop():
            a = 0
            for i in range(self.CALLS):
                if i % 2:
                    a += 1
                else:
                    a -= 1

        def hooks_change():
            with framehook.hook(lambda view: None):
                loop()
            loop()

        def monitoring_changes():
            monitoring = sys.monitoring
            monitoring.use_tool_id(4, "side exits")
            monitoring.set_events(4, monitoring.events.PY_START)
            loop()
            monitoring.set_events(4, 0)
            monitoring.free_tool_id(4)
            loop()

        def code_dies():
            loop.__code__ = loop.__code__.replace()
            loop()

        for what in (hooks_change, monitoring_changes, code_dies):
            with self.subTest(what.__name__):
                what(), what()
                before = self.executors()
                for _ in range(10):
                    what()
                self.assertLess(self.executors() - before, 5)

    @staticmethod
    def executors():
        # What dies in one collection frees executors that refer to each other: they die in the next.
        for _ in range(3):
            gc.collect()
        return sum(type(each).__name__ == "uop_executor" for each in gc.get_objects())

    @in_a_child
    def test_a_destructor_within_a_running_trace_enables_a_hook(self):
        class EnablesHook:
            def __del__(self):
                framehook.enable_for_code(hook, function.__code__)

        def loop(things):
            for i in range(self.CALLS):
                things[i] = None
                function()

        function = new_function()
        callable = counter(function)
        with framehook.hook(callable) as hook:
            framehook.disable_for_code(hook, function.__code__)
            for _ in range(2):
                loop([None] * self.CALLS)
            things, at = [None] * self.CALLS, self.CALLS * 2 // 3
            things[at] = EnablesHook()
            loop(things)
        self.assertEqual(callable.entries, self.CALLS - at)

    @in_a_child
    def test_a_destructor_within_a_running_trace_adds_a_hook(self):
        """No instruction of a trace dispatches hooks: it is left where a frame begins, of code that also runs elsewhere too."""
        class AddsHook:
            def __del__(self):
                hook.__enter__()

        def plain(things, self):
            if things:
                loop(things, self)

        def generator(things, self):
            yield loop(things, self) if things else None

        async def coroutine(things, self):
            if things:
                loop(things, self)

        def loop(things, function):
            thing = None
            for _ in range(len(things)):
                thing = things.pop()
                thing = None
                function(None, function)

        warnings.simplefilter("ignore", RuntimeWarning)     # no coroutine is awaited
        runs = {plain: plain, generator: lambda *arguments: next(generator(*arguments)),
                coroutine: lambda *arguments: self.assertRaises(StopIteration, coroutine(*arguments).send, None)}
        for function, run in runs.items():
            for elsewhere in (False, True):
                with self.subTest(function.__name__, elsewhere=elsewhere):
                    begin = run if elsewhere else loop
                    loop.__code__ = loop.__code__.replace()
                    for _ in range(5):
                        begin([None] * self.CALLS, function)
                    callable = counter(function)
                    hook = framehook.hook(callable)
                    things = [None] * self.CALLS
                    things[self.CALLS // 3] = AddsHook()
                    begin(things, function)
                    hook.__exit__(None, None, None)
                    self.assertEqual(callable.entries, self.CALLS // 3 + 1)

    def test_arguments_are_seen_where_the_prologue_is_hot(self):
        """A recursive call of a trace leads to the callee's first instruction, which makes a cell."""
        def function(n, a, again):
            def inner():
                return n, a, again
            if n:
                for _ in range(100):
                    again(0, a, again)
            return inner()

        def other(n, a, again):
            return "other", n, a

        def hook(view):
            if view.code is not function.__code__:
                return framehook.DISABLE
            seen.append((view.argument(0), view.argument("n"), view.argument("a")))
            return other.__code__ if replaces else None

        seen, replaces = [], False
        with framehook.hook(hook):
            for _ in range(200):
                function(1, 2, function)
            self.assertEqual(set(seen), {(0, 0, 2), (1, 1, 2)})
            replaces = True
            self.assertEqual(function(1, 2, function), ("other", 1, 2))

    @in_a_child
    def test_constants_of_a_frame_that_was_replaced_are_its_codes(self):
        """The function that was called has others, and fewer."""
        def function(kept):
            pass

        def generator(kept):
            yield

        async def coroutine(kept):
            pass

        def run(coroutine):
            with self.assertRaises(StopIteration) as ended:
                coroutine.send(None)
            return ended.exception.value

        replacements = {}
        for called, begin, end in ((function, "def", "return"), (generator, "def", "yield"), (coroutine, "async def", "return")):
            space = {}
            exec(f"""
{begin} replacement(kept):
    for _ in range(300):
        small()
        kept.append(("constant", 123456, 2.5))
        kept.append("another")
    {end} kept
""", space)
            replacements[called.__code__] = space["replacement"].__code__
        with framehook.hook(lambda view: replacements.get(view.code, framehook.DISABLE)):
            for _ in range(5):
                for kept in (function([]), next(generator([])), run(coroutine([]))):
                    self.assertEqual(set(kept), {("constant", 123456, 2.5), "another"})


class Frames(ProgramTestCase):
    def test_a_trace_pushes_frames_where_the_cached_chunk_is_gone(self):
        """It reserves space once, for all the frames that it will push."""
        said = self.assert_program_succeeds("""
import mmap, resource, sys

def small():
    return 1
exec("def big():\\n if 0:\\n  " + "\\n  ".join(f"v{i} = {i}" for i in range(300)) + "\\n return 1\\n")
exec("def huge(n):\\n if 0:\\n  " + "\\n  ".join(f"v{i} = {i}" for i in range(20000)) + "\\n return huge(n - 1) if n else 0\\n")

def down(n):
    return down(n - 1) if n else 0

class Sized:
    fails = 0
    takes_the_cached_chunk = False

    def __len__(self):
        # What is kept of the data stack is given back where memory runs out.
        if self.takes_the_cached_chunk:
            self.takes_the_cached_chunk = False
            no_more_memory()
            try:
                huge(2000)
            except MemoryError:
                self.fails += 1
            resource.setrlimit(resource.RLIMIT_AS, (HARD, HARD))
        return 1

def loop(n):
    total = 0
    for i in range(n):
        if i == 297:
            sized.takes_the_cached_chunk = True
        total += small()
        total += len(sized)
        total += big()
    return total

def no_more_memory():
    with open("/proc/self/statm") as file:
        size = int(file.read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (size, HARD))

HARD = resource.getrlimit(resource.RLIMIT_AS)[1]
no_more_memory()
try:
    mmap.mmap(-1, 1 << 26).close()
except OSError:
    resource.setrlimit(resource.RLIMIT_AS, (HARD, HARD))
else:
    print("memory has no limit here")     # in an emulator, for one
    sys.exit()
sys.setrecursionlimit(5000)
sized = Sized()
for _ in range(6):
    loop(290)

def at(depth):
    if depth:
        return at(depth - 1)
    down(250)       # leaves a cached chunk
    return loop(300)

for depth in range(260):
    assert at(depth) == 900, depth
assert sized.fails, "memory never ran out"
""")
        if said:
            self.skipTest(said.strip())


class PutOff(ProgramTestCase):
    """What CPython destroys later, as its C stack was full, is not destroyed while compiled loops are dropped."""

    PROGRAM = """
import gc, sys
try:
    import _framecore
except ImportError:
    pass        # stock CPython
how, what = sys.argv[1:]
events = sys.monitoring.events
sys.monitoring.use_tool_id(4, "drops what is compiled")

def function():
    return 1

def loop(n):
    for i in range(n):
        function()
    for i in range(n):
        function()
    for i in range(n):
        pass

changing, ran = [False], []

def add(hook):
    changing[0] = True
    _framecore.add_frame_hook(hook)
    changing[0] = False

def set_events(events):
    sys.monitoring.set_events(4, events)

# Made now: any tuple that dies would have destroyed what was put off.
if how == "hooks":
    change, first, second = add, lambda frame: None, lambda frame: None
    add(first)
    _framecore.remove_frame_hook(first)        # what the first hook of all needs is there
else:
    change, first, second = set_events, events.PY_START, events.PY_START | events.PY_RETURN

class Dies:
    def __del__(self):
        ran.append(changing[0])
        if what == "change":
            change(second)
        else:
            loop(600)

class Deep:
    levels, kept = 0, None

    def __len__(self):
        if self.levels:
            self.levels -= 1
            return len(self)
        self.kept = None
        return 1

def can_go_down(levels):
    deep.levels = levels
    try:
        return bool(len(deep))
    except RecursionError:
        return False

sys.setrecursionlimit(1_000_000)
deep, low, high = Deep(), 1, 1_000_000
while high - low > 1:
    middle = (low + high) // 2
    low, high = (middle, high) if can_go_down(middle) else (low, middle)
gc.collect()
gc.disable()
loop(600)
loop(600)
deep.kept = [Dies()]
can_go_down(low - 10)
change(first)
loop(600)
loop(600)
list()      # dies, and with it what is still put off
assert ran == [False], ran
"""

    def check(self, how):
        for what in ("change", "loop"):
            with self.subTest(what):
                self.assert_program_succeeds(self.PROGRAM, how, what)

    @needs_hooks
    def test_where_hooks_change(self):
        self.check("hooks")

    def test_where_monitoring_changes(self):
        self.check("monitoring")


class Freed(unittest.TestCase):
    # Of the thread in which it is freed. It has no room for one deallocator for each trace: a function has two.
    STACK = 512 * 1024
    LENGTH = 16_000

    @in_a_child
    def test_a_long_chain_of_side_exits_is_freed(self):
        """Each function is compiled with the one that it calls; the first of them dies last."""
        source = """
def function():
    for _ in rounds: pass
    if ends[{0}]: return
    functions[{1}]()
"""
        ends, functions = [False] * (self.LENGTH + 1), [None] * (self.LENGTH + 1)
        variables = {"rounds": range(20), "ends": ends, "functions": functions}
        for number in reversed(range(self.LENGTH)):
            space = {}
            exec(source.format(number, number + 1), variables, space)
            functions[number] = space["function"]
            ends[number + 1] = True
            ends[self.LENGTH - 1] = True
            for _ in range(150):
                functions[number]()
            ends[number + 1] = False

        gc.disable()        # it would take the chain apart
        del space
        before = threading.stack_size(self.STACK)
        thread = threading.Thread(target=functions.clear)       # the last one first
        thread.start()
        thread.join()
        threading.stack_size(before)
