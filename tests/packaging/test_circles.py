"""No modules use each other in a circle: in the Rust crates of the workspace, unit tests included, and in all of the tree's Python."""

import functools
import tomllib
import unittest
from pathlib import Path

import python_modules
import rust_modules
from circles import circles

ROOT = Path(__file__).resolve().parents[2]


@functools.cache
def crates():
    """{where its sources are, from ROOT: the graph of its modules}"""
    members = tomllib.loads((ROOT / "Cargo.toml").read_text(encoding="utf-8"))["workspace"]["members"]
    graphs = {}
    for folder in [f"{member}/src" for member in members]:
        files = rust_modules.sources_in(ROOT / folder)
        root = "lib.rs" if "lib.rs" in files else "main.rs"
        graphs[folder] = rust_modules.graph_of(rust_modules.modules_of(files, tests=True, root=root))
    return graphs


@functools.cache
def python():
    """The graph of the tree's Python modules."""
    return python_modules.graph_of(python_modules.sources_in(ROOT))


class Tree(unittest.TestCase):
    def test_crates_have_no_circles(self):
        for folder, graph in crates().items():
            with self.subTest(folder):
                self.assertEqual("\n".join(circles(graph)), "")

    def test_python_has_no_circles(self):
        self.assertEqual("\n".join(circles(python())), "")

    def test_the_graphs_are_those_of_the_tree(self):
        # Were nothing found any more, nothing could be wrong.
        graphs = crates()
        for folder, user, used in (
            ("build.rs-wrapper/src", "object", "target"), ("clients/dynamo/src", "installing", "on_entry"),
            ("clients/profiler/src", "session", "place"), ("rust-core/framehook-sdk/src", "install", "hook"),
            ("rust-core/src", "fake_cpython::frames", "fake_cpython::code"), ("rust-core/src", "reference_count::for_tests", "fake_cpython::objects"),
            ("rust-core/src", "frame_hook::tests::programs::engine", "frame_hook::tests::programs::language"),
        ):
            self.assertIn(tuple(used.split("::")), graphs[folder][tuple(user.split("::"))], f"{folder}: {user} uses {used}")
        graph = python()
        for user, used in (
            ("benchmarks/run.py", "benchmarks/suite/environment.py"), ("ci/matrix.py", "ci/builds.py"),
            ("clients/debugger/src/ferrule_debugger/session.py", "clients/debugger/src/ferrule_debugger/index.py"),
            ("clients/profiler/python/ferrule_profiler/_result.py", "clients/profiler/python/ferrule_profiler/_export.py"),
            ("cpython/fetch.py", "tools/patches.py"), ("tools/release.py", "tools/sbom.py"),
            ("tests/packaging/test_circles.py", "tests/packaging/circles.py"), ("tests/run.py", "tests/steps.py"),
            ("tools/build.py", "tools/variants.py"),
        ):
            self.assertIn(used, graph[user], f"{user} imports {used}")


class Rust(unittest.TestCase):
    """What the test would say of other crates."""

    def circles(self, tests=True, root="lib.rs", **texts):
        files = {f"{name}.rs": text for name, text in texts.items()}
        return circles(rust_modules.graph_of(rust_modules.modules_of(files, tests, root)))

    def test_a_root_and_its_modules(self):
        said = self.circles(root="main.rs", main="mod a;\nfn main() { a::f() }\npub fn g() {}", a="use crate::g;")
        self.assertEqual(said, ["a circle:\n    lib uses a: a::f\n    a uses lib: crate::g"])

    def test_what_only_tests_compile(self):
        texts = {"lib": "mod a;\n#[cfg(test)]\nmod b;", "a": "#[cfg(test)]\nuse crate::b::f;", "b": "use crate::a::g;"}
        self.assertEqual(len(self.circles(**texts)), 1)
        self.assertEqual(self.circles(tests=False, **texts), [])

    def test_an_inline_module_uses_what_its_file_uses(self):
        inline = "mod inner { use super::super::b::f; mod deeper { fn f() { super::super::g() } } }"
        self.assertEqual(len(self.circles(lib="mod a; mod b;", a=inline, b="use crate::a::inner::g;")), 1)
        self.assertEqual(self.circles(lib="mod a; mod b;", a=inline, b=""), [])

    def test_a_file_that_an_attribute_names(self):
        texts = {"lib": "mod a;", "a": '#[path = "a_inner.rs"]\nmod inner;\nuse inner::f;'}
        self.assertEqual(len(self.circles(a_inner="use super::g;", **texts)), 1)
        self.assertEqual(self.circles(a_inner="", **texts), [])


class Python(unittest.TestCase):
    """What the test would say of other trees."""

    def graph(self, files):
        return {user: sorted(used) for user, used in python_modules.graph_of(files).items() if used}

    def test_two_that_import_each_other(self):
        said = circles(python_modules.graph_of({"a.py": "import b", "b.py": "def f():\n    from a import g"}))
        self.assertEqual(said, ["a circle:\n    a.py uses b.py: b\n    b.py uses a.py: a.g"])

    def test_every_way_to_import(self):
        package = {"src/p/__init__.py": "", "src/p/b.py": "", "src/p/q/__init__.py": ""}
        for text in ("import p.b", "import os, p.b as c", "from p import b", "from p.b import f as g, h", "from p import (\n    b,\n)",
                     "from . import b", "from .b import *", "from .\\\n    b import f", "if x: from . import b", "x = 1; import p.b"):
            for user in ("src/p/a.py", "src/p/q/__init__.py"):
                text = text.replace("from .", "from ..") if user.endswith("__init__.py") else text
                with self.subTest(text, user=user):
                    self.assertEqual(self.graph({**package, user: text})[user], ["src/p/b.py"])

    def test_what_is_no_import(self):
        for text in ("# import b", "'import b'", 'f"""\nimport b\n"""', "def f():\n    yield from b", "raise E from b", "from a import b"):
            with self.subTest(text):
                self.assertEqual(self.graph({"a.py": text, "b.py": ""}), {})

    def test_scripts_of_other_directories(self):
        files = {"ci/run": "import steps, json", "ci/json.py": "", "tests/steps.py": "", "tools/json.py": ""}
        self.assertEqual(self.graph(files), {"ci/run": ["ci/json.py", "tests/steps.py"]})
        files |= {"tools/steps.py": "", "tools/p/__init__.py": "", "tools/p/steps.py": ""}
        self.assertEqual(self.graph(files), {"ci/run": ["ci/json.py", "tests/steps.py", "tools/steps.py"]})

    def test_what_a_package_has_and_what_is_an_extension(self):
        files = {"p/__init__.py": "from .a import f", "p/a.py": "from p import _core"}
        self.assertEqual(self.graph(files), {"p/__init__.py": ["p/a.py"]})
        self.assertEqual(self.graph({**files, "p/__init__.py": "from ._core import f\nfrom . import a"}), {"p/__init__.py": ["p/a.py"]})
        self.assertEqual(self.graph({**files, "p/a.py": "from p import f"})["p/a.py"], ["p/__init__.py"])
