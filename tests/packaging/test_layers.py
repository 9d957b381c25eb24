"""The modules of the frame core use each other in one direction: the one that ARCHITECTURE.md has in a table.

What only unit tests and fuzz targets compile has no layers, and is left out. That nothing runs in a circle is tested in `test_circles.py`.
"""

import re
import unittest
from pathlib import Path

from circles import circles, name_of
from rust_modules import graph_of, modules_of, sources_in

ROOT = Path(__file__).resolve().parents[2]
SOURCES = ROOT / "rust-core" / "src"
BINDINGS = ROOT / "build.rs-wrapper" / "src" / "bindings.rs"
ARCHITECTURE = ROOT / "ARCHITECTURE.md"

TABLE = "| modules of | from the ground up |"
THE_CRATE = "the crate"


def layers_in(page):
    """{room: [the modules of a layer, ...]} from the table, the ground first."""
    rooms = {}
    lines = iter(page[page.index(TABLE):].splitlines()[2:])
    for line in lines:
        if not line.startswith("|"):
            break
        room, order = (cell.strip() for cell in line.strip("| ").split(" | "))
        name = () if room == THE_CRATE else tuple(room.strip("`").split("::"))
        rooms[name] = [re.findall(r"`(\w+)`", layer) for layer in order.split("►")]
    return rooms


def against_layers(graph, rooms):
    """What is wrong with the table, and which uses do not go down."""
    wrong = []
    for room, layers in rooms.items():
        depth, height = len(room), {}
        for number, layer in enumerate(layers, 1):
            for name in layer:
                if height.setdefault(name, number) != number:
                    wrong.append(f"the table has {name} twice")
        there = {module[depth] for module in graph if len(module) > depth and module[:depth] == room}
        where = f"of {name_of(room)}" if room else "of the crate"
        wrong += [f"the table has no layer for {name}, a module {where}" for name in sorted(there - height.keys())]
        wrong += [f"the table has {name}, and there is no such module {where}" for name in sorted(height.keys() - there)]
        for user, targets in graph.items():
            for used, path in targets.items():
                if any(len(module) <= depth or module[:depth] != room for module in (user, used)):
                    continue
                low, high = height.get(used[depth]), height.get(user[depth])
                if used[depth] != user[depth] and low and high and low >= high:
                    how = "above it" if low > high else "beside it"
                    wrong.append(f"{name_of(user)} uses {name_of(used)}, which is {how} in the table: {path}")
    return wrong


def sources():
    files = sources_in(SOURCES)
    # What bindgen is configured to write into the bindings is a part of `cpython`, which includes them.
    written = re.findall(r'"([^"\n]*\bcrate::[^"\n]*)"', BINDINGS.read_text(encoding="utf-8"))
    files["cpython.rs"] += "\n".join(written)
    return files


class FrameCore(unittest.TestCase):
    def setUp(self):
        self.graph = graph_of(modules_of(sources()))

    def test_every_use_goes_down_the_layers_of_architecture_md(self):
        wrong = against_layers(self.graph, layers_in(ARCHITECTURE.read_text(encoding="utf-8")))
        if wrong:
            self.fail("\n".join(["rust-core/src and the table in ARCHITECTURE.md:", *wrong]))

    def test_the_graph_is_that_of_the_crate(self):
        # Were nothing found any more, nothing could be wrong.
        for user, used in (("data_stack::stack", "cpython"), ("frame_hook::entry_callback", "frame_hook::replace"), ("eval_frame", "frame_hook"),
                           ("frame_hook", "frame_hook::eval_loop"), ("frame_hook::entry_frame", "frame")):
            self.assertIn(tuple(used.split("::")), self.graph[tuple(user.split("::"))], f"{user} uses {used}")
        self.assertNotIn(("fake_cpython",), self.graph)


class MadeUp(unittest.TestCase):
    """What the tests above would say of other crates."""

    PAGE = f"Text.\n\n{TABLE}\n|---|---|\n| {THE_CRATE} | `low` ► `left`, `right` ► `high` |\n\nMore text.\n"

    def graph(self, **texts):
        files = {"lib.rs": "".join(f"mod {name};" for name in ("low", "left", "right", "high"))}
        files |= {f"{name}.rs": "" for name in ("low", "left", "right", "high")}
        return graph_of(modules_of(files | {f"{name}.rs": text for name, text in texts.items()}))

    def wrong(self, **texts):
        graph = self.graph(**texts)
        return circles(graph) + against_layers(graph, layers_in(self.PAGE))

    def test_uses_that_go_down_are_right(self):
        self.assertEqual(self.wrong(high="use crate::{left::f, right};", right="use super::low::*;"), [])

    def test_two_that_use_each_other(self):
        said = self.wrong(left="use crate::right::f;", right="fn f() { crate::left::g() }")[0]
        self.assertEqual(said, "a circle:\n    left uses right: crate::right::f\n    right uses left: crate::left::g")

    def test_a_circle_of_three_is_reported_once(self):
        graph = self.graph(left="use crate::right;", right="use crate::high;", high="use crate::left;")
        self.assertEqual(len(circles(graph)), 1)
        self.assertEqual(circles(graph)[0].count("uses"), 3)

    def test_a_use_that_goes_up(self):
        self.assertEqual(self.wrong(low="use crate::{left, high::{f as g, h}};"),
                         ["low uses left, which is above it in the table: crate::left",
                          "low uses high, which is above it in the table: crate::high::f"])

    def test_a_use_within_a_layer(self):
        self.assertEqual(self.wrong(left="use crate::right::f;"),
                         ["left uses right, which is beside it in the table: crate::right::f"])

    def test_every_way_to_write_a_use(self):
        for text in ("use crate::high;", "pub(super) use crate::\n    high::f;", "use super::{\n    low,\n    high::f,\n};",
                     "fn f() { crate::high::g() }", "macro_rules! m { () => { $crate::high::f() } }",
                     "fn f(_: super::high::T) {}", "fn f() { use crate::high as c; }", "use crate::{high as h};",
                     "use self::super::high::f;"):
            with self.subTest(text):
                self.assertEqual(len(self.wrong(left=text)), 1)

    def test_what_is_no_use(self):
        for text in ("// use crate::high;\n", "/* crate::high::f */", 'const A: &str = "crate::high::f";',
                     'const A: [char; 3] = [\'"\', \'\\\'\', \'\\u{22}\']; // "crate::high::f"', "#[cfg(test)]\nuse crate::{high, right};",
                     "#[cfg(test)]\n#[allow(dead_code)]\nfn f(_: [u8; 2]) { crate::high::g() }", "use core::high::f;",
                     "#[cfg(test)]\nmod tests {\n    use crate::high;\n}", "#[cfg(fuzzing)]\npub mod fuzzing {\n    pub use crate::high;\n}",
                     "#[cfg(any(test, fuzzing))]\n#[cfg(not(loom))]\nuse crate::high;", "fn f<'a>(_: &'a str) -> high::T {}"):
            with self.subTest(text):
                self.assertEqual(self.wrong(left=text), [])

    def test_what_follows_an_item_for_tests_counts(self):
        for item in ("#[cfg(test)] use core::{a, b};", "#[cfg(test)] fn f() { {} }", "#[cfg(test)] mod tests { fn f() {} }",
                     "#[cfg(any(test, fuzzing))] use core::{a, b};", "#[cfg(not(any(test, fuzzing)))]"):
            with self.subTest(item):
                self.assertEqual(len(self.wrong(left=f"{item} use crate::high;")), 1)

    def test_a_module_and_its_children(self):
        files = {"lib.rs": "mod room;", "room/mod.rs": "mod a;\nmod b;\npub use a::f;\n", "room/a.rs": "use super::b::g;",
                 "room/b.rs": ""}
        self.assertEqual(circles(graph_of(modules_of(files))), [])
        files["room/b.rs"] = "use super::f;"
        self.assertEqual(circles(graph_of(modules_of(files))),
                         ["a circle:\n    room uses room::a: a::f\n    room::a uses room::b: super::b::g\n"
                          "    room::b uses room: super::f"])

    def test_the_table_has_to_have_each_module_once(self):
        graph = self.graph()
        rooms = {(): [["low", "left"], ["left", "other"]]}
        self.assertEqual(against_layers(graph, rooms),
                         ["the table has left twice", "the table has no layer for high, a module of the crate",
                          "the table has no layer for right, a module of the crate",
                          "the table has other, and there is no such module of the crate"])

    def test_a_module_without_a_file(self):
        with self.assertRaisesRegex(AssertionError, "lib.rs declares the module gone, and there are 0 files for it"):
            modules_of({"lib.rs": "mod gone;"})
