"""The module framehook, and the examples in docs/."""

import gc
import inspect
import os
import re
import shlex
import subprocess
import sys
import tempfile
import threading
import unittest
import weakref

from support import (
    FREE_THREADED,
    ROOT,
    HookTestCase,
    about_stock,
    extension_builder,
    extension_directory,
    framecore,
    framehook,
    in_many_threads,
    in_new_thread,
    needs_hooks,
)

OVERLAY = os.path.join(ROOT, "overlay", "Lib", "framehook.py")


class WithoutFrameHooks(unittest.TestCase):
    """What the module says on an interpreter that has no frame hooks."""

    PROGRAM = """
import sys
sys.modules["_framecore"] = None        # as on stock CPython
sys.modules.pop("framehook", None)
with open(sys.argv[1], encoding="utf-8") as file:
    source = file.read()
try:
    exec(compile(source, "framehook.py", "exec"), {"__name__": "framehook"})
except ImportError as error:
    print(error.name, error.__cause__, error.__suppress_context__)
    print(error)
"""

    def test_importing_says_what_is_needed(self):
        done = subprocess.run([sys.executable, "-c", self.PROGRAM, OVERLAY], capture_output=True, text=True, timeout=60)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        facts, message = done.stdout.splitlines()
        self.assertEqual(facts, "framehook None True")
        self.assertIn("Ferrule", message)
        self.assertIn(os.path.basename(sys.executable), message)

    @about_stock
    def test_stock_cannot_import_it(self):
        with self.assertRaises(ImportError):
            import framehook  # noqa: F401


@needs_hooks
class Module(HookTestCase):
    def setUp(self):
        super().setUp()
        self.entries = []

        def count(view):
            self.entries.append(view.code.co_name)
        self.count = count

    def test_what_it_has(self):
        for name in framehook.__all__:
            self.assertTrue(inspect.getdoc(getattr(framehook, name)), name)
        public = {name for name, value in vars(framehook).items()
                  if not name.startswith("_") and getattr(value, "__module__", None) == "framehook"}
        self.assertLessEqual(public, set(framehook.__all__))
        self.assertIs(framehook.DISABLE, framecore.DISABLE)
        self.assertIs(framehook.IncompatibleCodeError, framecore.IncompatibleCodeError)
        self.assertIs(framehook.FrameView, framecore.FrameView)
        self.assertIn("framehook", sys.stdlib_module_names)

    def test_a_with_statement(self):
        def target():
            pass
        with framehook.hook(self.count, "counter") as hook:
            target()
            info, = framehook.hooks()
            handle = hook.id
        target()
        self.assertEqual((info.order, info.name, info.id, info.hook, info.enabled),
                         (0, "counter", handle, self.count, True))
        self.assertEqual(framehook.hooks(), [])
        # Nothing of the module itself is offered, nor what else it calls.
        self.assertEqual(self.entries, ["target"])
        with self.assertRaises(ValueError):
            hook.id
        self.assertEqual((hook.info.calls, hook.info.replacements, hook.info.errors), (1, 0, 0))
        self.assertGreater(hook.info.seconds, 0)

    def test_nothing_of_the_module_is_ever_dispatched(self):
        seen = []
        with framehook.hook(lambda view: seen.append((view.code.co_filename, view.code.co_name))) as hook:
            framehook.hooks()
            repr(hook), hook.info, hook.id
            with framehook.disabled_for_code(hook, self.setUp, self.tearDown), framehook.disabled_in_thread(hook):
                pass
            with framehook.disabled(hook), hook:
                pass
            handle = framehook.add(len)
            framehook.disable(handle), framehook.enable(handle), framehook.remove(len)
        self.assertEqual(seen, [])

    def test_the_block_ends_with_an_exception(self):
        with self.assertRaises(KeyError):
            with framehook.hook(self.count):
                raise KeyError
        self.assertEqual(framehook.hooks(), [])

    def test_the_hook_is_removed_in_the_block(self):
        for remove in (framehook.clear, lambda: framehook.remove(self.count)):
            with framehook.hook(self.count):
                remove()
            self.assertEqual(framehook.hooks(), [])

    def test_blocks_in_blocks(self):
        def target():
            pass
        hook = framehook.hook(self.count)
        with hook:
            with hook:
                target()
            target()
        target()
        self.assertEqual(self.entries, ["target"] * 2)
        # Another object for the same callable is another hook.
        with hook, self.assertRaises(ValueError):
            with framehook.hook(self.count):
                self.fail("a hook was installed twice")
        self.assertEqual(framehook.hooks(), [])

    def test_a_decorator(self):
        @framehook.hook(self.count)
        def target(n):
            return target(n - 1) + 1 if n else 0

        self.assertEqual(target(2), 2)
        self.assertEqual(self.entries.count("target"), 3)
        self.assertEqual((target.__name__, framehook.hooks()), ("target", []))
        with self.assertRaises(TypeError):
            target("x")
        self.assertEqual(framehook.hooks(), [])

    def test_a_decorated_hook(self):
        entries = []

        @framehook.hook
        def hook(view):
            entries.append(view.code.co_name)

        @hook
        def target():
            pass

        def other():
            pass

        target()
        with hook:
            other()
        handle = framehook.add(hook)
        other()
        framehook.disable(hook)
        other()
        framehook.remove(hook)
        self.assertEqual(entries, ["target", "other", "other"])
        self.assertNotEqual(handle, 0)

    def test_in_threads_at_once(self):
        @framehook.hook(lambda view: None)
        def target(barrier):
            barrier.wait(60)
            return len(framehook.hooks())

        barrier = threading.Barrier(4)
        results = []
        in_many_threads(4, lambda: results.append(target(barrier)))
        self.assertEqual(len(results), 4)
        self.assertEqual(framehook.hooks(), [])

    def test_add_remove_clear(self):
        def other(view):
            pass
        first, second = framehook.add(self.count), framehook.add(other, "other")
        self.assertEqual([(info.order, info.id) for info in framehook.hooks()], [(0, first), (1, second)])
        self.assertEqual(framehook.hooks()[1].name, "other")
        with self.assertRaises(ValueError):
            framehook.add(other)
        framehook.remove(first)
        framehook.remove(other)
        for gone in (first, other, framehook.hook(other)):
            with self.assertRaises(ValueError):
                framehook.remove(gone)
            with self.assertRaises(ValueError):
                framehook.disable(gone)
        framehook.add(self.count), framehook.add(other)
        framehook.clear()
        self.assertEqual(framehook.hooks(), [])
        with self.assertRaises(TypeError):
            framehook.add(3)

    def test_switches(self):
        def target():
            pass

        def times(function=target):
            del self.entries[:]
            function()
            return self.entries.count("target")

        with framehook.hook(self.count) as hook:
            for which in (hook, self.count, hook.id):
                framehook.disable(which)
                self.assertEqual((times(), framehook.hooks()[0].enabled), (0, False))
                framehook.enable(which)
                framehook.disable_in_thread(which)
                self.assertEqual((times(), times(lambda: in_new_thread(target))), (0, 1))
                framehook.enable_in_thread(which)
                for code in (target, target.__code__):
                    framehook.disable_for_code(which, code)
                    self.assertEqual(times(), 0)
                    framehook.enable_for_code(which, code)
                    self.assertEqual(times(), 1)
                with framehook.disabled(which):
                    self.assertEqual(times(), 0)
                with framehook.disabled_in_thread(which):
                    self.assertEqual(times(), 0)
                with framehook.disabled_for_code(which, target, times):
                    self.assertEqual(times(), 0)
                self.assertEqual(times(), 1)
            framehook.disable_for_code(hook, self.test_switches)
            with self.assertRaises(TypeError):
                framehook.disable_for_code(hook, "target")
            with framehook.disabled(hook), framehook.disabled_for_code(hook, target):
                framehook.clear()

    def test_hooks_in_c_are_listed(self):
        extension_directory()
        from support import use_extensions
        use_extensions()
        import framehooks
        handle = framehooks.add_native("pass")
        info, = framehook.hooks()
        self.assertEqual((info.name, info.id, info.hook), ("pass", handle, None))
        with framehook.disabled(handle):
            self.assertFalse(framehook.hooks()[0].enabled)


# --- The documentation. --------------------------------------------------------------------------------------------

def blocks(text):
    """(language, code, what the comment before it says) of each fenced block."""
    return [(found[2], found[3], found[1] or "") for found in
            re.finditer(r"(?:<!-- (.*?) -->\n)?```(\w+)\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)]


def examples(text):
    """(Python code, expected output, comment) of each example."""
    found = blocks(text)
    for (language, code, comment), (next_language, output, _) in zip(found, found[1:] + [("", "", "")]):
        if language == "python":
            yield code, output if next_language == "text" else None, comment


def documents():
    found = {}
    for name in ("frame-hooks.md", "framehook-on-stock.md", "from-pep-523.md"):
        with open(os.path.join(ROOT, "docs", name), encoding="utf-8") as file:
            found[name] = file.read()
    return found


def example(path):
    """The text of a file that the documentation quotes."""
    with open(os.path.join(ROOT, path), encoding="utf-8") as file:
        return file.read()


def passing(name):
    """A hook of that name."""
    def hook(view):
        pass

    hook.__qualname__ = name
    return hook


@needs_hooks
class MapsOfCode(unittest.TestCase):
    def test_the_docstring_says_what_a_value_that_leads_to_its_key_does(self):
        text = " ".join(framehook.CodeMap.__doc__.split())
        self.assertRegex(text, "value")
        self.assertRegex(text, "as long as the map|while the map")

    def test_a_value_that_leads_to_its_key_keeps_the_entry_as_long_as_the_map(self):
        def make():
            def function():
                return make
            function.__code__ = function.__code__.replace()
            return function

        codes = framehook.CodeMap()
        function = make()
        codes[function] = function
        alive = weakref.ref(function)
        del function
        gc.collect()
        self.assertEqual((len(codes), alive() is None), (1, False))
        del codes
        gc.collect()
        self.assertIsNone(alive())

    def test_the_way_that_does_not(self):
        """A value that refers to the function weakly."""
        def make():
            def function():
                return make
            function.__code__ = function.__code__.replace()
            return function

        codes = framehook.CodeMap()
        function = make()
        codes[function] = weakref.ref(function)
        self.assertIs(codes[function](), function)
        alive = weakref.ref(function)
        del function
        gc.collect()
        self.assertIsNone(alive())


@needs_hooks
class Documentation(unittest.TestCase):
    def compile_c(self, code, directory, module=None):
        """Build a block of C; as an extension module if it is one."""
        builder = extension_builder()
        facts = builder.facts_of(sys.executable)
        source = os.path.join(directory, "example.c")
        with open(source, "w", encoding="utf-8") as file:
            file.write(code)
        target = os.path.join(directory, module + facts["suffix"]) if module else os.path.join(directory, "example.so")
        done = subprocess.run([*shlex.split(os.environ.get("CC") or "cc"), *builder.FLAGS,
                               *(f"-I{path}" for path in facts["includes"]), source, "-o", target],
                              capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_examples_in_python(self):
        count = 0
        for name, text in documents().items():
            for code, expected, comment in examples(text):
                with self.subTest(name, code=code[:200]), tempfile.TemporaryDirectory() as directory:
                    if comment.startswith("with "):
                        self.compile_c(example(f"examples/hooks/{comment[5:]}.c"), directory, comment[5:])
                    elif comment:
                        code = example(comment)
                    path = os.path.join(directory, "example.py")
                    with open(path, "w", encoding="utf-8") as file:
                        file.write(code)
                    done = subprocess.run([sys.executable, path], capture_output=True, text=True, timeout=120)
                    self.assertEqual((done.returncode, done.stderr), (0, ""))
                    self.assertIsNotNone(expected, "an example without its output")
                    if FREE_THREADED:   # the thread that made a generator frees it
                        expected = expected.replace("dropped in worker", "dropped in MainThread")
                    self.assertEqual(done.stdout, expected)
                    count += 1
        self.assertGreaterEqual(count, 8)

    def test_what_is_quoted_is_in_the_file(self):
        quoted = set()
        for language, code, comment in blocks(documents()["frame-hooks.md"]):
            if comment.startswith("examples/"):
                with self.subTest(comment):
                    self.assertIn(language, ("c", "python"))
                    self.assertIn("\n" + code, example(comment))
                    quoted.add(os.path.basename(comment))
        there = set(os.listdir(os.path.join(ROOT, "examples", "hooks"))) - {"__pycache__"}
        self.assertEqual(quoted, there)

    def test_the_module_in_c_is_used(self):
        text = documents()["frame-hooks.md"]
        self.assertIn("with callcounts", {comment for _, _, comment in examples(text)})
        # A block that is indented is one that no test finds.
        self.assertNotRegex(text, r"(?m)^ +```")

    def test_examples_in_c_compile(self):
        for name, text in documents().items():
            for language, code, comment in blocks(text):
                if language == "c":
                    with self.subTest(name), tempfile.TemporaryDirectory() as directory:
                        self.compile_c(example(comment) if comment else code, directory)

    def test_what_is_seen_beside_monitoring_is_what_the_page_says(self):
        program = os.path.join(ROOT, "benchmarks", "seen.py")
        done = subprocess.run([sys.executable, program], capture_output=True, text=True,
                              timeout=120)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertEqual(done.stdout.count("\n"), 17)
        with open(os.path.join(ROOT, "docs", "benchmarks.md"), encoding="utf-8") as file:
            self.assertIn(done.stdout, file.read())

    def test_the_example_in_the_module(self):
        source = inspect.getdoc(framehook)
        code = re.search(r"^    import collections.*?(?=^[A-Z])", source, re.DOTALL | re.MULTILINE)[0]
        program, expected = [], []
        for line in code.splitlines():
            program.append(line[4:])
            if "    # " in line:
                expected.append(line.rpartition("# ")[2])
        done = subprocess.run([sys.executable, "-c", "\n".join(program)], capture_output=True, text=True, timeout=120)
        self.assertEqual((done.stderr, done.stdout.splitlines()), ("", expected))

    def test_links(self):
        for name, text in documents().items():
            for target in re.findall(r"\]\(([^)]+)\)", text):
                with self.subTest(name, link=target):
                    page, _, anchor = target.partition("#")
                    with open(os.path.join(ROOT, "docs", page or name), encoding="utf-8") as file:
                        lines = file.read().splitlines()
                    if anchor:
                        self.assertIn(anchor, {re.sub(r"[^\w\- ]", "", line.lstrip("# ")).lower().replace(" ", "-")
                                               for line in lines if line.startswith("#")})
