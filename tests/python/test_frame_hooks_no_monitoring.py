"""Code with CO_NO_MONITORING_EVENTS runs as ever, whatever looks at it: hooks, tracers, profilers, monitoring.

CPython 3.13 itself hangs at the first call of such code once its instrumentation is out of date. So each program runs in a
process of its own, and the time that it has only ends one that hangs.
"""


from support import ProgramTestCase, needs_hooks

BEGINNING = """
import asyncio, contextlib, gc, sys, threading, types
import framehook

NO_EVENTS = 0x2000000

def marked(function):
    \"\"\"The same function, with the flag on its code and on that of functions within.\"\"\"
    def mark(code):
        return code.replace(co_flags=code.co_flags | NO_EVENTS, co_consts=tuple(
            mark(constant) if isinstance(constant, types.CodeType) else constant for constant in code.co_consts))
    new = types.FunctionType(mark(function.__code__), function.__globals__, function.__name__, function.__defaults__,
                             function.__closure__)
    new.__kwdefaults__ = function.__kwdefaults__
    return new

@marked
def plain(a=1):
    return a + 1

@marked
def recursive(n):
    return n and 1 + recursive(n - 1)

@marked
def fails():
    return 1 / 0

@marked
def loops(n):
    total = 0
    for i in range(n):
        total += i
    return total

@marked
def generator(n):
    for i in range(n):
        got = yield i
    return n

@marked
def delegates(n):
    return (yield from generator(n))

@marked
def closure(a):
    def inner(b):
        nonlocal a
        a += b
        return a
    return inner

@types.coroutine
def once():
    yield

@marked
async def coroutine(a):
    await once()
    return a

@marked
async def asynchronous_generator(n):
    for i in range(n):
        await once()
        yield i

def ordinary(a):
    return plain(a) * 2

def finish(coroutine):
    while True:
        try:
            coroutine.send(None)
        except StopIteration as stop:
            return stop.value

async def all_of(asynchronous):
    return [one async for one in asynchronous]

def use():
    found = [plain(), plain(5), recursive(50), loops(20), list(generator(3)), list(delegates(3)), closure(1)(2), ordinary(3),
             finish(coroutine(7)), finish(all_of(asynchronous_generator(3))), list(map(plain, [1, 2])), sorted([2, 1], key=plain)]
    try:
        fails()
    except ZeroDivisionError as error:
        found.append(error.__traceback__.tb_next.tb_lineno - fails.__code__.co_firstlineno)
    begun = generator(3)
    next(begun)
    begun.close()
    begun = generator(3)
    next(begun)
    with contextlib.suppress(KeyError):
        begun.throw(KeyError)
    return found

EXPECTED = [2, 6, 50, 190, [0, 1, 2], [0, 1, 2], 3, 8, 7, [0, 1, 2], [2, 3], [1, 2], 2]

def check():
    for _ in range(30):         # specialized on the way
        found = use()
        assert found == EXPECTED, found
"""

HOOKS = {
    "passes": "lambda view: None",
    "disables": "lambda view: framehook.DISABLE",
    "watches": "lambda view: view.watch(lambda event: None, None, yields=True, resumes=True)",
    "limits": "lambda view: view.exclude_callees()",
}
TOOLS = {
    "nothing": ("pass", "pass"),
    "settrace": ("sys.settrace(trace)", "sys.settrace(None)"),
    "setprofile": ("sys.setprofile(lambda *event: None)", "sys.setprofile(None)"),
    "monitoring": ("monitor(sys.monitoring.events)", "stop_monitoring()"),
}
TOOLS_BEGINNING = """
def trace(frame, event, argument):
    return trace

def monitor(events):
    sys.monitoring.use_tool_id(2, "test")
    everything = 0
    for name in ("PY_START", "PY_RESUME", "PY_RETURN", "PY_YIELD", "PY_UNWIND", "PY_THROW", "LINE", "INSTRUCTION", "CALL", "JUMP",
                 "BRANCH", "RAISE", "RERAISE", "EXCEPTION_HANDLED", "STOP_ITERATION"):
        event = getattr(events, name)
        sys.monitoring.register_callback(2, event, lambda *arguments: None)
        everything |= event
    sys.monitoring.set_events(2, everything)

def stop_monitoring():
    sys.monitoring.set_events(2, 0)
    sys.monitoring.free_tool_id(2)
"""
GUARD = 60      # seconds, after which a program is said to hang


@needs_hooks
class NoMonitoringEvents(ProgramTestCase):
    def check(self, program):
        self.assert_program_succeeds(BEGINNING + TOOLS_BEGINNING + program, timeout=GUARD)

    def test_called_before_and_after_a_hook_was_added(self):
        for name, hook in HOOKS.items():
            with self.subTest(name):
                self.check(f"""
check()
with framehook.hook({hook}):
    check()
check()
""")
                self.check(f"""
for _ in range(3):
    with framehook.hook({hook}), framehook.hook(lambda view: framehook.DISABLE):
        check()
""")

    def test_under_tools_with_and_without_a_hook(self):
        for name, (begin, end) in TOOLS.items():
            for hook in (None, *HOOKS.values()):
                with self.subTest(name, hook=hook):
                    add = f"framehook.add({hook})" if hook else "pass"
                    self.check(f"""
def work():
    {begin}
    check()
    {add}
    check()
    {end}
    check()
    framehook.clear()
    {begin}
    check()
    {end}
    check()
work()
""")

    def test_events_of_that_code_alone(self):
        self.check("""
sys.monitoring.use_tool_id(2, "test")
for event in (sys.monitoring.events.PY_START, sys.monitoring.events.LINE, sys.monitoring.events.PY_RESUME):
    sys.monitoring.register_callback(2, event, lambda *arguments: sys.monitoring.DISABLE)
    for function in (plain, generator, coroutine, asynchronous_generator):
        sys.monitoring.set_local_events(2, function.__code__, event)
        check()
with framehook.hook(lambda view: None):
    check()
sys.monitoring.restart_events()
check()
""")

    def test_instrumentation_that_changes_while_it_runs(self):
        self.check("""
@marked
def changes(act):
    act()
    yield 1
    act()
    yield 2
    act()

@marked
def changes_before_it_recurses(act, n):
    act()
    return n and 1 + changes_before_it_recurses(act, n - 1)

def hook(view):
    return None

for begin, end in ((lambda: framehook.add(hook), lambda: framehook.remove(hook)),
                   (lambda: sys.settrace(trace), lambda: sys.settrace(None)),
                   (lambda: monitor(sys.monitoring.events), stop_monitoring)):
    for _ in range(10):
        turns = [begin, end] * 20
        assert list(changes(lambda: turns.pop(0)())) == [1, 2]
        assert changes_before_it_recurses(lambda: turns.pop(0)(), 16) == 16
        check()
""")

    def test_a_replacement_with_the_flag(self):
        self.check("""
def target(a=1):
    return a + 2
def gen(n):
    yield -n
answers = {target.__code__: plain.__code__, gen.__code__: generator.__code__}
def hook(view):
    return answers.get(view.code)
with framehook.hook(hook):
    for _ in range(30):
        assert (target(), target(4), list(gen(2))) == (2, 5, [0, 1])
answers = {plain.__code__: target.__code__, generator.__code__: gen.__code__}
with framehook.hook(hook):
    for _ in range(30):
        assert plain(1) in (3, 2) and list(generator(2)) in ([-2], [0, 1])
""")

    def test_in_threads_and_interpreters(self):
        self.check("""
framehook.add(lambda view: None)
threads = [threading.Thread(target=check) for _ in range(3)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
framehook.clear()
check()
""")
        inside = BEGINNING + "framehook.add(lambda view: None)\ncheck()\nsys.settrace(lambda *event: None)\ncheck()\nsys.settrace(None)"
        for kind in "legacy", "isolated":
            self.check(f"""
import _interpreters
interpreter = _interpreters.create({kind!r})
problem = _interpreters.exec(interpreter, {inside!r})
assert problem is None, problem
_interpreters.destroy(interpreter)
""")

    def test_beside_an_evaluator(self):
        for evaluator in "pass", "default":
            self.check(f"""
import evaluators
evaluators.set({evaluator!r})
check()
framehook.add(lambda view: None)
check()
sys.settrace(trace)
check()
sys.settrace(None)
framehook.clear()
evaluators.set("null")
check()
""")

    def test_a_module_and_a_class_body(self):
        self.check("""
def run(source):
    code = compile(source, "<marked>", "exec")
    names = {}
    exec(code.replace(co_flags=code.co_flags | NO_EVENTS), names)
    return names
for begin, end in ((lambda: framehook.add(print_nothing), lambda: framehook.clear()), (lambda: sys.settrace(trace), lambda: sys.settrace(None))):
    def print_nothing(view):
        pass
    begin()
    for _ in range(3):
        assert run("class C:\\n a = 1\\nb = C.a + 1")["b"] == 2
    end()
    assert run("b = [i for i in range(3)]")["b"] == [0, 1, 2]
""")

    def test_a_hook_in_c(self):
        self.check("""
import datahooks
for function in (plain, generator, coroutine, asynchronous_generator, recursive):
    handle = datahooks.add(function.__code__, 0, events=7)
    check()
    framehook.remove(handle)
    gc.collect()
    assert {frame[2:] for frame in datahooks.take_frames()} <= {(1, 0)}
check()
""")
