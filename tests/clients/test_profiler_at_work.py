"""A profile as a decorator, in coroutines, and in notebooks."""

import asyncio
import contextlib
import functools
import io
import json
import os
import re
import sys
import threading
import types
from html.parser import HTMLParser
from unittest import mock

from profiler_support import ProfilerTestCase, load

setUpModule = load


def work(n):
    return n + 1


class Decorated(ProfilerTestCase):
    def setUp(self):
        super().setUp()
        self.results = []
        self.profiled = functools.partial(self.profiler.profiled, output=self.results.append)

    def calls(self, name="work"):
        return [sum(function.calls for function in result.find(name)) for result in self.results]

    def test_each_call_is_a_profile(self):
        @self.profiled()
        def run(n, *, more):
            "doc"
            return [work(i) for i in range(n)][-1] + more

        self.assertEqual((run(2, more=1), run(3, more=2)), (3, 5))
        self.assertEqual(self.calls(), [2, 3])
        self.assertEqual(self.calls("run"), [1, 1])
        self.assertEqual((run.__name__, run.__doc__), ("run", "doc"))

    def test_a_table_or_a_file(self):
        @self.profiler.profiled
        def printed():
            work(1)

        with contextlib.redirect_stderr(io.StringIO()) as said:
            printed()
        self.assertRegex(said.getvalue(), r"(?m)^ *1 .* work ")
        path = os.path.join(self.directory(), "found.folded")
        self.profiler.profiled(work, output=path)(1)
        with open(path) as file:
            self.assertIn(";work ", file.read())

    def test_it_raises(self):
        @self.profiled()
        def run():
            work(1)
            raise KeyError

        for _ in range(2):
            with self.assertRaises(KeyError):
                run()
        self.assertEqual(self.calls(), [1, 1])

    def test_calls_within_a_profile_are_its_own(self):
        @self.profiled()
        def run(n):
            return work(n) if n == 0 else run(n - 1)

        run(5)
        self.assertEqual((self.calls(), self.calls("run")), ([1], [6]))
        with self.profiler.profile() as profile:
            run(2)
        self.assertEqual(len(self.results), 1)
        self.assertEqual(profile.result.find("run")[0].calls, 3)

    def test_in_many_threads(self):
        run = self.profiled(lambda: [work(1) for _ in range(100)])
        threads = [threading.Thread(target=run) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertTrue(self.results)
        with self.profiler.profile():
            pass

    def test_methods_and_options(self):
        class Thing:
            @self.profiled(lines="method", builtins=True)
            def method(self, n):
                return work(len("x" * n))

            @classmethod
            @self.profiled()
            def of_class(cls):
                return cls

        self.assertEqual(Thing().method(3), 4)
        self.assertIs(Thing.of_class(), Thing)
        self.assertEqual([len(result.lines) for result in self.results], [1, 0])

    def test_coroutines(self):
        @self.profiled()
        async def run(n):
            for _ in range(n):
                await asyncio.sleep(0)
                work(1)
            return n

        self.assertEqual(asyncio.run(run(3)), 3)

        async def both():
            return await asyncio.gather(run(2), run(2))

        self.assertEqual(asyncio.run(both()), [2, 2])
        self.assertEqual(self.calls()[0], 3)
        self.assertEqual(len(self.results), 2)
        task = None

        async def cancelled():
            nonlocal task
            task = asyncio.create_task(run(1_000_000))
            await asyncio.sleep(0.01)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

        asyncio.run(cancelled())
        self.assertEqual(len(self.results), 3)

    def test_what_makes_no_sense(self):
        async def made():
            yield

        def generator():
            yield

        for function in (made, generator):
            with self.assertRaisesRegex(TypeError, "a generator's call only makes it"):
                self.profiler.profiled(function)
        with self.assertRaises(ValueError):
            self.profiler.profiled(work, count=True, trace=1)
        with self.assertRaises(TypeError):
            self.profiler.profiled(work, nosuch=True)

    def test_async_with(self):
        async def run():
            async with self.profiler.profile() as profile:
                await asyncio.sleep(0)
                work(1)
            work(1)
            return profile.result

        self.assertEqual(asyncio.run(run()).find("work")[0].calls, 1)

        async def fails():
            async with self.profiler.profile():
                raise KeyError

        with self.assertRaises(KeyError):
            asyncio.run(fails())
        with self.profiler.profile():
            pass


class Source(HTMLParser):
    """The document within an iframe."""

    def handle_starttag(self, tag, attributes):
        self.tag, self.document = tag, dict(attributes)["srcdoc"]


class Shell:
    """What the magic uses of IPython's."""

    def __init__(self):
        self.user_ns, self.magics, self.shown = {"work": work}, {}, []
        self.compile = self

    def register_magic_function(self, function, kind, name):
        self.magics[name] = kind, function

    def transform_cell(self, cell):
        return cell

    def cache(self, code):
        return "<cell>"

    def __call__(self, code, name, mode):
        return compile(code, name, mode)

    def showtraceback(self, error):
        self.shown.append(error)


class UsageError(Exception):
    pass


class Notebooks(ProfilerTestCase):
    def setUp(self):
        super().setUp()
        self.shell = Shell()
        self.profiler.load_ipython_extension(self.shell)
        kind, self.magic = self.shell.magics["ferrule_profile"]
        self.assertEqual(kind, "line_cell")
        modules = {"IPython": types.ModuleType("IPython"), "IPython.core": types.ModuleType("core"),
                   "IPython.core.error": types.SimpleNamespace(UsageError=UsageError)}
        self.enterContext(mock.patch.dict(sys.modules, modules))

    def test_a_cell_and_a_line(self):
        result = self.magic("", "for i in range(3):\n    found = work(i)\n")
        self.assertEqual((result.find("work")[0].calls, self.shell.user_ns["found"]), (3, 3))
        self.assertEqual({function.name for function in result.functions.values()}, {"work", "<module>"})
        self.assertEqual(self.magic("work(7)").find("work")[0].calls, 1)

    def test_options(self):
        path = os.path.join(self.directory(), "a b.folded")
        result = self.magic(f"--lines work --builtins -o '{path}'", "work(len('x'))")
        self.assertEqual(len(result.lines), 1)
        self.assertTrue(os.path.exists(path))
        self.assertFalse(self.magic("--count", "work(1)").timed)
        for wrong in ("--nosuch", "--count --lines work", "--lines", "positional"):
            with self.subTest(wrong), self.assertRaisesRegex(UsageError, "^%%ferrule_profile: "):
                self.magic(wrong, "work(1)")
        with self.profiler.profile(), self.assertRaisesRegex(UsageError, "a profile is being made already"):
            self.magic("", "work(1)")

    def test_a_cell_that_raises_has_its_profile(self):
        for error in (KeyError, KeyboardInterrupt, SystemExit):
            self.shell.user_ns["error"] = error
            result = self.magic("", "work(1)\nraise error")
            self.assertEqual(result.find("work")[0].calls, 1)
            kind, _, traceback = self.shell.shown.pop()
            self.assertEqual((kind, traceback.tb_frame.f_code.co_filename), (error, "<cell>"))
        with self.assertRaises(SyntaxError):
            self.magic("", "work(")
        with self.profiler.profile():
            pass

    def test_results_are_shown(self):
        result = self.magic("", "work(1)\n'<script>\"&amp;'")
        parsed = Source()
        parsed.feed(result._repr_html_())
        self.assertEqual(parsed.tag, "iframe")
        data = json.loads(re.search(r'id="data" [^>]*>(.*?)</script>', parsed.document)[1])
        self.assertEqual({row[0] for row in data["functions"]}, {"work", "<module>"})
        printer = types.SimpleNamespace(text=self.shell.shown.append)
        result._repr_pretty_(printer, False)
        self.assertIn("work", self.shell.shown.pop())
