"""What the tests in this directory share.

They run under the interpreter that they test. The same files also run on a stock build, with
FERRULE_TESTS_ON_STOCK=1, where everything about _framecore is left out: so a test of CPython's behaviour proves
itself against CPython. With FERRULE_TESTS_ON_MONITORING=1 the hooks are those of the distribution framehook, over
sys.monitoring: tests/clients/test_framehook_on_stock.py.
"""

import dis
import functools
import importlib.util
import os
import subprocess
import sys
import sysconfig
import threading
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))

ON_STOCK = os.environ.get("FERRULE_TESTS_ON_STOCK") == "1"
ON_MONITORING = os.environ.get("FERRULE_TESTS_ON_MONITORING") == "1"
STOCK_PYTHON = os.environ.get("STOCK_PYTHON") or None

if ON_STOCK:
    framecore = framehook = None
elif ON_MONITORING:
    import framehook
    from framehook import _monitoring as framecore
else:
    import _framecore as framecore
    import framehook

# How many times as long a program may take as on a machine of today: an emulated one is slow.
PATIENCE = float(os.environ.get("FERRULE_TEST_PATIENCE") or 1)
FREE_THREADED = bool(sysconfig.get_config_var("Py_GIL_DISABLED"))
# How deep calls can nest that go through C where nothing is specialized, as without the GIL: debug builds have room for 500 calls of C.
DEPTH_THROUGH_C = 120 if FREE_THREADED and hasattr(sys, "gettotalrefcount") else 1_000

# tests/run.py does not collect tests that are skipped for reasons with these beginnings.
needs_framecore = unittest.skipIf(ON_STOCK, "only on Ferrule: stock CPython has no _framecore")
needs_hooks = unittest.skipIf(ON_STOCK, "only on Ferrule: stock CPython has no frame hooks")
# CPython 3.13 lets a monitoring callback resume or close the generator that it is called for, and then crashes.
not_over_monitoring = unittest.skipIf(ON_MONITORING, "only on Ferrule: crashes CPython")
about_stock = unittest.skipUnless(ON_STOCK, "only on stock")
# What stock gets wrong without a crash ends its debug build in an assertion.
not_on_stock_debug = unittest.skipIf(ON_STOCK and hasattr(sys, "gettotalrefcount"), "ends stock's debug build in an assertion of CPython's")
needs_stock = unittest.skipIf(STOCK_PYTHON is None, "no stock build to compare with: STOCK_PYTHON is not set")

try:
    import _testcapi
except ImportError:     # not every build has CPython's test modules
    _testcapi = None
needs_failing_allocations = unittest.skipIf(
    not hasattr(_testcapi, "set_nomemory") or hasattr(sys, "getobjects"),
    "needs _testcapi.set_nomemory, and no --with-trace-refs: CPython ends the process where its "
    "list of objects cannot grow")

ROOT_CHUNK_BYTES = 16 * 1024
CACHED_CHUNK_BYTES = 1024 * 1024     # the largest first chunk of the cache: what a thread keeps besides its chunks in use
KEPT_CHUNKS_BYTES = 16 * 1024 * 1024    # what all threads together keep besides, until a full collection

# The main thread's stack is small on some systems, and so is a thread's: deep recursion of Python functions needs
# none of it, but destructors and the like do.
THREAD_STACK_BYTES = 16 * 1024 * 1024
IN_A_CHILD = "FERRULE_TEST_IN_A_CHILD"


@functools.cache
def extension_builder():
    """The module that builds the test extensions, by its path: what imports this may not have the root on its own."""
    source = os.path.join(ROOT, "tests", "c", "build_extensions.py")
    spec = importlib.util.spec_from_file_location("build_extensions", source)
    builder = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(builder)
    return builder


@functools.cache
def extension_directory():
    """Where the test extensions for the running interpreter are; builds them if need be."""
    # One directory per interpreter: those of two builds may differ in ABI.
    tag = os.path.basename(os.path.dirname(os.path.abspath(sys.executable))) or "python"
    kind = sysconfig.get_config_var("SOABI") or "abi"
    return extension_builder().build(sys.executable, os.path.join(ROOT, "build", "test-extensions", f"{tag}-{kind}"))


def use_extensions():
    """Make the test extensions importable."""
    directory = extension_directory()
    if directory not in sys.path:
        sys.path.insert(0, directory)
    return directory


def run_program(source, *arguments, python=None, timeout=300, environment=None):
    """Run Python source in a fresh process: a crash there is a result here. The extensions can be imported."""
    python = python or sys.executable
    variables = dict(os.environ)
    distribution = [os.path.dirname(os.path.dirname(framehook.__file__))] if ON_MONITORING else []
    variables["PYTHONPATH"] = os.pathsep.join([*distribution, HERE, extension_directory()])
    variables["PYTHONFAULTHANDLER"] = "1"
    variables.update(environment or {})
    return subprocess.run([python, "-c", source, *map(str, arguments)], capture_output=True, text=True,
                          env=variables, timeout=PATIENCE * timeout)


def file_module(thing):
    """The name under which the file of a class can be imported, also where it is run as a program."""
    return os.path.splitext(os.path.basename(sys.modules[thing.__module__].__file__))[0]


def in_a_child(test):
    """A test that runs in a process of its own: a crash or a hang there is a failure of this test alone."""
    @functools.wraps(test)
    def run(self):
        if os.environ.get(IN_A_CHILD):
            return test(self)
        name = f"{file_module(type(self))}.{type(self).__name__}.{self._testMethodName}"
        done = run_program(f"import unittest; unittest.main(module=None, argv=['', {name!r}])",
                           environment={IN_A_CHILD: "1"})
        if done.returncode:
            self.fail(f"exit code {done.returncode}\n{done.stdout[-500:]}\n{done.stderr[-6000:]}")
    return run


class ProgramTestCase(unittest.TestCase):
    def completed(self, source, *arguments, **options):
        """The program ends with exit code 0; it is returned as subprocess does."""
        done = run_program(source, *arguments, **options)
        if done.returncode:
            self.fail(f"exit code {done.returncode}\n{done.stdout[-2000:]}\n{done.stderr[-6000:]}")
        return done

    def assert_program_succeeds(self, source, *arguments, **options):
        """The program ends with exit code 0; what it printed is returned."""
        return self.completed(source, *arguments, **options).stdout


def in_new_thread(function, *arguments):
    """Run a function in a thread of its own, with an almost empty data stack; return or raise what it did."""
    outcome = []

    def body():
        try:
            outcome.append((True, function(*arguments)))
        except BaseException as error:
            outcome.append((False, error))

    previous = threading.stack_size(THREAD_STACK_BYTES)
    try:
        thread = threading.Thread(target=body)
        thread.start()
    finally:
        threading.stack_size(previous)
    thread.join()
    succeeded, value = outcome[0]
    if not succeeded:
        raise value
    return value


def in_threads(function, arguments):
    """Call a function with each of the arguments, in threads that run at the same time; raise what one of them did."""
    errors = []

    def body(argument):
        try:
            function(argument)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=body, args=(argument,)) for argument in arguments]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]


def in_many_threads(count, function):
    """Call a function in so many threads at the same time."""
    in_threads(lambda _: function(), range(count))


class recursion_limit:
    """Allow `depth` more frames, for the time of a `with` block."""

    def __init__(self, depth):
        self.depth = depth

    def __enter__(self):
        self.previous = sys.getrecursionlimit()
        sys.setrecursionlimit(max(self.previous, self.depth + 500))

    def __exit__(self, *exception):
        sys.setrecursionlimit(self.previous)


def make_recursion(local_count):
    """A function recurse(n, at_bottom) with `local_count` locals besides, the first and last of which are used.

    It returns what at_bottom() returned, and fails when a local does not keep its value below deeper frames.
    """
    names = [f"v{i}" for i in range(local_count)]
    first, last = names[0], names[-1]
    source = (f"def recurse(n, at_bottom):\n"
              f"    {first} = n\n"
              f"    {last} = n\n"
              f"    result = recurse(n - 1, at_bottom) if n else at_bottom()\n"
              f"    if {first} != n or {last} != n:\n"
              f"        raise AssertionError('a local of frame %d has changed' % n)\n"
              f"    return result\n")
    # Assigned where nothing gets to: they make the frame big and take no time.
    for start in range(0, local_count, 500):
        source += f"    {' = '.join(names[start:start + 500])} = None\n"
    namespace = {}
    exec(source, namespace)
    return namespace["recurse"]


def stack_words(function):
    """Words of the data stack that depend on the function (the fixed part of a frame comes on top)."""
    code = function.__code__
    return code.co_nlocals + len(code.co_cellvars) + len(code.co_freevars) + code.co_stacksize


def specialized(function):
    """The names of a function's instructions, each in the form that it is specialized to now."""
    return [i.opname for i in dis.get_instructions(function, adaptive=True)]


def attempt(number, operation):
    """What the operation returns while allocation `number` from now fails, or MemoryError; the first is number 1."""
    # These are looked up, and the difference is made, before allocations fail.
    fail, succeed, others = _testcapi.set_nomemory, _testcapi.remove_mem_hooks, number - 1
    fail(others, number)
    try:
        return operation()
    except MemoryError:
        return MemoryError
    finally:
        succeed()


class Thing:
    """An object that a weak reference can watch."""


# --- Frame hooks. -------------------------------------------------------------------------------------------------

WARM = 200      # calls after which a call is specialized


def code_of(thing):
    """The code object of a function, method or property; a code object is its own."""
    thing = getattr(thing, "fget", thing)
    return getattr(thing, "__code__", thing)


def code_named(name, source, filename="<replacement>"):
    """The code object called `name`, wherever in the source it is."""
    found = []

    def search(code):
        found.extend([code] if code.co_name == name else [])
        for constant in code.co_consts:
            if isinstance(constant, type(code)):
                search(constant)

    search(compile(source, filename, "exec"))
    if len(found) != 1:
        raise AssertionError(f"{len(found)} code objects called {name}")
    return found[0]


def new_function(name="target", body="return a", parameters="a=None"):
    """A function with code about which no hook was called yet."""
    namespace = {}
    exec(f"def {name}({parameters}):\n {body}", namespace)
    return namespace[name]


def counter(function, answer=None):
    """A hook that counts in its attribute `entries` how often it is called for the function."""
    code = function.__code__

    def hook(view):
        if view.code is code:
            hook.entries += 1
            return answer
        return None

    hook.entries = 0
    return hook


class Copier:
    """A hook that replaces all code with an equal copy."""

    def __init__(self):
        # The original is kept too. Else other code could get its address, and so its copy.
        self.copies = {}

    def __call__(self, view):
        code = view.code
        known = self.copies.get(id(code))
        if known is None:
            known = self.copies[id(code)] = code, code.replace()
        return known[1]


class CView:
    """What a hook written in C can read, as the view of a hook written in Python."""

    def __init__(self, framehooks):
        self._c = framehooks

    code = property(lambda self: self._c.get_code())
    function = property(lambda self: self._c.get_function())
    globals = property(lambda self: self._c.get_globals())
    builtins = property(lambda self: self._c.get_builtins())

    @property
    def argument_names(self):
        return tuple([self._c.argument_name(i) for i in range(self._c.argument_count())])

    def argument(self, which):
        return self._c.argument(which) if isinstance(which, int) else self._c.argument_by_name(which)

    def arguments(self):
        return {self._c.argument_name(i): self._c.argument(i) for i in range(self._c.argument_count())}


class PythonApi:
    """Hooks through _framecore."""

    name = "Python"
    DISABLE = getattr(framehook, "DISABLE", None)

    def add(self, hook, name=None):
        return framecore.add_frame_hook(hook, name)

    def remove(self, handle):
        framecore.remove_frame_hook(handle)

    def clear(self):
        framecore.clear_frame_hooks()

    def switch(self, handle, on):
        framecore.enable_frame_hook(handle, on)

    def switch_in_thread(self, handle, on):
        framecore.enable_frame_hook_in_thread(handle, on)

    def switch_for_code(self, handle, code, on):
        framecore.enable_frame_hook_for_code(handle, code, on)


class CApi:
    """Hooks installed through the C interface; each calls a Python callable."""

    if ON_MONITORING:
        __unittest_skip__, __unittest_skip_why__ = True, "only on Ferrule: hooks in C"
    name = "C"
    DISABLE = "DISABLE"     # the extension interns it: there is one such string

    @functools.cached_property
    def c(self):
        use_extensions()
        import framehooks
        return framehooks

    def add(self, hook, name=None):
        view = CView(self.c)
        # Not a lambda: it would be a frame more in tracebacks.
        return self.c.add_extended(functools.partial(hook, view), name)

    def remove(self, handle):
        self.c.remove(handle)

    def clear(self):
        self.c.clear()

    def switch(self, handle, on):
        self.c.switch(handle, on)

    def switch_in_thread(self, handle, on):
        self.c.switch_in_thread(handle, on)

    def switch_for_code(self, handle, code, on):
        self.c.switch_for_code(handle, code, on)


class SimpleCApi(CApi):
    """Hooks of the proposal's form, which can only replace code. There is room for four."""

    name = "simple C"
    DISABLE = None

    def add(self, hook, name=None):
        for slot in range(4):
            try:
                self.c.add_simple(slot, functools.partial(hook, CView(self.c)))
            except ValueError:      # the hook of this slot is installed
                continue
            return framecore.frame_hooks()[-1]["id"]
        raise AssertionError("all four are installed")


class HookTestCase(unittest.TestCase):
    """Leaves no hook behind, and says so when a test finds one."""

    def setUp(self):
        super().setUp()
        self.assertEqual(framecore.frame_hooks(), [])
        self.addCleanup(framecore.clear_frame_hooks)

    def recorder(self, *things, answer=None):
        """A hook that answers the same about each of these, and keeps their names in its `seen`."""
        codes = [code_of(thing) for thing in things]
        seen = []

        def hook(view):
            code = view.code
            for wanted in codes:
                # Not `in`: code objects are equal by their contents.
                if code is wanted:
                    seen.append(code.co_name)
                    return answer
            return None

        hook.seen = seen
        return hook

    def replacer(self, *pairs):
        """A hook that has one code run instead of another."""
        table = [(code_of(old), code_of(new)) for old, new in pairs]

        def hook(view):
            code = view.code
            for old, new in table:
                if code is old:
                    return new
            return None

        return hook

    def info(self, handle):
        return next(info for info in framecore.frame_hooks() if info["id"] == handle)
