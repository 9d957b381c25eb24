"""The many ways in which one thing about frame hooks is tested: kinds of functions, kinds of hooks, surroundings.

A scenario is a method of a VariantTestCase that takes an API (how hooks are added) and a kind (of function). It is
run in every surrounding: plainly, beside an evaluator, at the edges of chunks, in other threads and interpreters.
"""

import atexit
import contextlib
import functools
import gc
import importlib
import os
import sys
import sysconfig
import textwrap

from support import CApi, HookTestCase, ProgramTestCase, PythonApi, SimpleCApi, file_module, framecore, in_a_child, in_new_thread, use_extensions  # noqa: F401


def extension(name):
    """An extension of tests/c. Other interpreters inherit the path, and cannot build."""
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError:
        use_extensions()
        return importlib.import_module(name)


# --- Kinds of functions. -------------------------------------------------------------------------------------------

STYLES = {
    # What begins it, what gives the result, and what makes it this style.
    "function": ("def", "return", "pass"),
    "generator": ("def", "return", "if 0: yield"),
    "coroutine": ("async def", "return", "pass"),
    "asynchronous generator": ("async def", "yield", "pass"),
}
LAYOUTS = {
    "plain": "pass",
    "cell": "reader = lambda: a",
    "free variable": "free",
    "cell and free variable": "reader = lambda: (a, free)",
}
BODY_LINE = 3       # a body begins so many lines below the def


class Kind:
    """Makes functions of one style with one layout."""

    def __init__(self, style, layout):
        self.style, self.layout = style, layout
        self.name = f"{style}, {layout}"
        self.has_cell = "cell" in layout

    def make(self, body, name="offered", parameters="a", filename="<offered>", module="offered_module", **globals_):
        """A function with a parameter `a`; in the body, {give} is return or yield."""
        begin, give, marker = STYLES[self.style]
        lines = [f"    {begin} {name}({parameters}):"]
        lines += [f"        {line}" for line in (LAYOUTS[self.layout], marker)]
        lines += textwrap.indent(body.format(give=give), " " * 8).splitlines()
        namespace = {"__name__": module, **globals_}
        source = "def make(free):\n" + "\n".join(lines) + f"\n    return {name}\n"
        exec(compiled(source, filename), namespace)
        function = namespace["make"]("free")
        # Code about which no hook was called yet.
        function.__code__ = function.__code__.replace()
        return function


@functools.cache
def compiled(source, filename):
    return compile(source, filename, "exec")


KINDS = {kind.name: kind for kind in (Kind(style, layout) for style in STYLES for layout in LAYOUTS)}
# Asynchronous generators return nothing.
ALL = tuple(name for name, kind in KINDS.items() if kind.style != "asynchronous generator")
FUNCTIONS = tuple(name for name in ALL if KINDS[name].style == "function")
# Without a prologue, and with the longest there is.
TWO = ("function, plain", "generator, cell and free variable")


def finish(made):
    """The result of a call: of a generator or coroutine, which is run to its end, what it gives."""
    if hasattr(made, "__anext__"):
        made = made.__anext__()
    if not hasattr(made, "send"):
        return made
    try:
        while True:
            made.send(None)
    except StopIteration as stopped:
        return stopped.value


# --- Kinds of hooks. -----------------------------------------------------------------------------------------------

APIS = {api.name: api for api in (PythonApi, CApi, SimpleCApi)}


@contextlib.contextmanager
def installed(api, hook, name=None):
    handle = api.add(hook, name)
    try:
        yield handle
    finally:
        api.remove(handle)


# --- Surroundings. -------------------------------------------------------------------------------------------------

class Plainly:
    apis = tuple(APIS)

    @staticmethod
    def is_possible():
        return True

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        pass

    def run(self, case, scenario, *arguments):
        case.run_scenario(scenario, *arguments)


class BesideAnEvaluator(Plainly):
    def __enter__(self):
        extension("evaluators").set("pass")
        return self

    def __exit__(self, *exception):
        extension("evaluators").set("null")


@functools.cache
def remove_perf_map_at_exit():
    def remove():
        with contextlib.suppress(FileNotFoundError):
            os.unlink(f"/tmp/perf-{os.getpid()}.map")
    atexit.register(remove)


class BesideThePerfTrampoline(Plainly):
    @staticmethod
    def is_possible():
        return sysconfig.get_config_var("PY_HAVE_PERF_TRAMPOLINE") == 1

    def __enter__(self):
        remove_perf_map_at_exit()
        sys.activate_stack_trampoline("perf")
        return self

    def __exit__(self, *exception):
        sys.deactivate_stack_trampoline()


class InAThread(Plainly):
    def run(self, case, scenario, *arguments):
        in_new_thread(super().run, case, scenario, *arguments)


# Words. A call of a scenario takes less than the probe, a step of the descent more than the paddings differ by.
PROBE = 250
PADDINGS = (0, 4, 8, 12)
EDGES = 400     # frames down there are two edges


def at_edges(action):
    """Run it wherever the next frames need another chunk, above frames of several alignments; how often it ran."""
    namespace = {}
    exec(f"def probe():\n return\n {' = '.join(f'v{i}' for i in range(PROBE))} = None", namespace)
    probe = namespace["probe"]
    ran = 0

    def descend(left):
        nonlocal ran
        before = framecore.datastack_stats()["chunks_pushed"]
        probe()
        if framecore.datastack_stats()["chunks_pushed"] > before:
            ran += 1
            action()
        if left:
            descend(left - 1)

    for padding in PADDINGS:
        locals_ = "".join(f" v{i} = None\n" for i in range(padding))
        exec(f"def pad(descend, left):\n descend(left)\n{locals_}", namespace)
        namespace["pad"](descend, EDGES)
    return ran


class AtTheEdgesOfChunks(Plainly):
    def run(self, case, scenario, *arguments):
        ran = in_new_thread(at_edges, lambda: case.run_scenario(scenario, *arguments))
        case.assertGreater(ran, len(PADDINGS))


class InAnInterpreter(Plainly):
    """Of this process, with the main interpreter's GIL."""

    configuration = "legacy"

    def __enter__(self):
        import _interpreters
        self.interpreters = _interpreters
        self.id = _interpreters.create(self.configuration)
        return self

    def __exit__(self, *exception):
        self.interpreters.destroy(self.id)

    def run(self, case, scenario, *arguments):
        failed = self.interpreters.exec(self.id, textwrap.dedent(f"""
            import sys
            sys.path[:] = {sys.path!r}
            from {file_module(type(case))} import {type(case).__name__} as Case
            Case().run_scenario({scenario!r}, *{arguments!r})
        """))
        if failed is not None:
            case.fail(failed.errdisplay)


class InAnInterpreterWithItsOwnGIL(InAnInterpreter):
    configuration = "isolated"
    # The extension with the C APIs has objects that interpreters share.
    apis = (PythonApi.name,)


SURROUNDINGS = (Plainly, BesideAnEvaluator, InAThread, InAnInterpreter, InAnInterpreterWithItsOwnGIL)


def scenario_of(case, name):
    """The function of this name, or what it is a test of."""
    function = getattr(type(case), name)
    return getattr(function, "scenario", function)


class SurroundedTestCase(HookTestCase, ProgramTestCase):
    """Its scenarios run in each of the surroundings, with each of KINDS: tuples of arguments that can be written."""

    SURROUNDINGS, KINDS = SURROUNDINGS, ((),)
    collects_often = False      # then what is there already is not looked through each time

    def run_scenario(self, name, *arguments):
        scenario_of(self, name)(self, *arguments)

    def in_each_surrounding(self, name, *arguments):
        if self.collects_often:
            gc.freeze()
            self.addCleanup(gc.unfreeze)
        for surrounding in self.SURROUNDINGS:
            with surrounding() as around:
                for kind in self.KINDS:
                    with self.subTest(surrounding.__name__, arguments=(*kind, *arguments)):
                        around.run(self, name, *kind, *arguments)


def surrounded(scenario):
    """Makes a test of a scenario."""
    @functools.wraps(scenario)
    def test(self):
        self.in_each_surrounding(scenario.__name__)
    test.scenario = scenario
    return test


EVERYWHERE = (Plainly, BesideAnEvaluator, BesideThePerfTrampoline, AtTheEdgesOfChunks, InAThread, InAnInterpreter,
              InAnInterpreterWithItsOwnGIL)
HERE = (Plainly, BesideAnEvaluator, BesideThePerfTrampoline)


class VariantTestCase(HookTestCase, ProgramTestCase):
    def run_scenario(self, scenario, api, kind, *more):
        try:
            scenario_of(self, scenario)(self, APIS[api](), KINDS[kind], *more)
        finally:
            if "framehooks" in sys.modules:
                # The callables of simple hooks must not outlive their interpreter.
                sys.modules["framehooks"].forget_simple()
        self.assertEqual(framecore.frame_hooks(), [])

    def in_every_variant(self, scenario, *more, kinds=ALL, apis=tuple(APIS), surroundings=EVERYWHERE):
        """Run the scenario for each kind and API in each surrounding; `more` is strings and numbers for it."""
        # Scenarios collect often: what is there already need not be looked through each time.
        gc.freeze()
        self.addCleanup(gc.unfreeze)
        for surrounding in surroundings:
            if not surrounding.is_possible():
                continue
            with surrounding() as around:
                for api in apis:
                    for kind in kinds:
                        if api in around.apis:
                            with self.subTest(surrounding.__name__, api=api, kind=kind, more=more):
                                around.run(self, scenario.__name__, api, kind, *more)


def varied(*more, **variants):
    """Makes a test of a scenario: in_every_variant() with these arguments."""
    def decorate(scenario):
        @functools.wraps(scenario)
        def test(self):
            self.in_every_variant(scenario, *more, **variants)
        test.scenario = scenario
        return test
    return decorate
