"""The modules of the frame core use each other in one direction: the one that ARCHITECTURE.md has in a table.

The graph is made from the text of rust-core/src: from `use` lines and from paths that begin with `crate`, `super`, `self` or
a module's own child. What only unit tests and fuzz targets compile is left out. A call of a method names no module, and is not seen.
"""

import re
import unittest
from pathlib import Path, PurePosixPath

ROOT = Path(__file__).resolve().parents[2]
SOURCES = ROOT / "rust-core" / "src"
BINDINGS = ROOT / "build.rs-wrapper" / "src" / "bindings.rs"
ARCHITECTURE = ROOT / "ARCHITECTURE.md"

TABLE = "| modules of | from the ground up |"
THE_CRATE = "the crate"

# --- Reading Rust. ----------------------------------------------------------------------------------------------

COMMENT_OR_LITERAL = re.compile(
    r"""//[^\n]*|/\*.*?\*/|\br(?P<hashes>\#*)".*?"(?P=hashes)|"(?:\\.|[^"\\])*"|'(?:\\.[^']*|[^'\\])'""", re.DOTALL | re.VERBOSE)
FOR_TESTS = re.compile(r"#\s*\[\s*cfg\s*\(\s*(?:test|fuzzing|any\s*\(\s*test\s*,\s*fuzzing\s*\))\s*\)\s*\]")
DECLARATION = re.compile(r"\bmod\s+(\w+)\s*;")
USE = re.compile(r"\buse\s+([^;]+);")
PATH = re.compile(r"(?<![\w:.])\w+(?:\s*::\s*\w+)+")


def item_end(text, start):
    """Where the item that begins at `start` is over: behind its `;`, or behind its block."""
    depth, is_use = 0, re.compile(r"\s*(?:pub(?:\([^)]*\))?\s+)?use\b")
    is_use = is_use.match(re.sub(r"^(\s*#\s*\[[^]]*\])+", "", text[start:]))
    for position in range(start, len(text)):
        character = text[position]
        depth += (character in "([{") - (character in ")]}")
        if depth == 0 and (character == ";" or character == "}" and not is_use):
            return position + 1
    return len(text)


def code_of(text):
    """The text without comments, literals, and what only unit tests and fuzz targets compile."""
    text = COMMENT_OR_LITERAL.sub(" ", text)
    while found := FOR_TESTS.search(text):
        text = text[:found.start()] + text[item_end(text, found.end()):]
    return text


def expanded(tree):
    """The paths of a `use`: `a::{b, c::d as e}` is `a::b` and `a::c::d`."""
    prefix, brace, rest = tree.partition("{")
    if not brace:
        return [re.sub(r"\s+as\s.*|::self$", "", tree.strip())]
    parts, depth, part = [], 0, ""
    for character in rest.rpartition("}")[0]:
        depth += (character == "{") - (character == "}")
        if character == "," and depth == 0:
            parts, part = [*parts, part], ""
        else:
            part += character
    return [prefix.strip() + path for part in [*parts, part] if part.strip() for path in expanded(part)]


def paths_in(code):
    used = [path for tree in USE.findall(code) for path in expanded(tree)]
    return used + PATH.findall(USE.sub(" ", code))


# --- The graph. -------------------------------------------------------------------------------------------------

def modules_of(files):
    """The code of each module by its name, which is a tuple: () is the crate's root. `files` has texts by path."""
    modules = {}

    def add(name, path, folder):
        modules[name] = code_of(files[str(path)])
        for child in DECLARATION.findall(modules[name]):
            flat, deep = folder / f"{child}.rs", folder / child / "mod.rs"
            found = [path for path in (flat, deep) if str(path) in files]
            if len(found) != 1:
                raise AssertionError(f"{path} declares the module {child}, and there are {len(found)} files for it")
            add((*name, child), found[0], folder / child)

    add((), PurePosixPath("lib.rs"), PurePosixPath("."))
    return modules


def target_of(module, path, modules):
    """The module that a path in `module` leads to; None where it leads out of the crate, or to a name that was brought in."""
    words = re.split(r"\s*::\s*", path.strip())
    if words[0] == "crate":
        place, words = (), words[1:]
    elif words[0] in ("self", "super"):
        place = module
        while words and words[0] in ("self", "super"):
            place = place[:-1] if words[0] == "super" else place
            words = words[1:]
    elif (*module, words[0]) in modules:
        place = module
    else:
        return None
    while words and (*place, words[0]) in modules:
        place, words = (*place, words[0]), words[1:]
    return place


def graph_of(modules):
    """{module: {module that it uses: the path by which it does}}"""
    graph = {module: {} for module in modules}
    for module, code in modules.items():
        for path in paths_in(code):
            target = target_of(module, path, modules)
            if target not in (None, module):
                graph[module].setdefault(target, re.sub(r"\s", "", path))
    return graph


def name_of(module):
    return "::".join(module) or "lib"


def circles(graph):
    """What to say of circles: the shortest ones, and no two that have a use in common."""
    found = []
    for start in graph:
        ways, seen = [[start]], set()
        while ways:
            way = ways.pop(0)
            if start in graph[way[-1]]:
                found.append(list(zip(way, [*way[1:], start])))
                break
            fresh = [target for target in graph[way[-1]] if target not in seen]
            seen.update(fresh)
            ways += [[*way, target] for target in fresh]
    told, said = set(), []
    for circle in sorted(found, key=len):
        if told.isdisjoint(circle):
            told.update(circle)
            said.append("a circle:" + "".join(f"\n    {name_of(user)} uses {name_of(used)}: {graph[user][used]}"
                                              for user, used in circle))
    return said


# --- The layers. ------------------------------------------------------------------------------------------------

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
                    wrong.append(f"{name_of(user)} uses {name_of(used)}, which stands {how} in the table: {path}")
    return wrong


def sources():
    files = {path.relative_to(SOURCES).as_posix(): path.read_text(encoding="utf-8") for path in SOURCES.rglob("*.rs")}
    # What bindgen is told to write into the bindings is a part of `cpython`, which includes them.
    written = re.findall(r'"([^"\n]*\bcrate::[^"\n]*)"', BINDINGS.read_text(encoding="utf-8"))
    files["cpython.rs"] += "\n".join(written)
    return files


class FrameCore(unittest.TestCase):
    def setUp(self):
        self.graph = graph_of(modules_of(sources()))

    def test_no_modules_use_each_other_in_a_circle(self):
        found = circles(self.graph)
        if found:
            self.fail("\n".join(["rust-core/src:", *found]))

    def test_every_use_goes_down_the_layers_of_architecture_md(self):
        wrong = against_layers(self.graph, layers_in(ARCHITECTURE.read_text(encoding="utf-8")))
        if wrong:
            self.fail("\n".join(["rust-core/src and the table in ARCHITECTURE.md:", *wrong]))

    def test_the_graph_is_that_of_the_crate(self):
        # Were nothing found any more, nothing could be wrong.
        for user, used in (("data_stack::stack", "cpython"), ("frame_hook::asking", "frame_hook::replace"), ("eval_frame", "frame_hook"),
                           ("frame_hook", "frame_hook::dispatch"), ("frame_hook::offered", "frame")):
            self.assertIn(tuple(used.split("::")), self.graph[tuple(user.split("::"))], f"{user} uses {used}")
        self.assertNotIn(("stand_in",), self.graph)


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

    def test_a_circle_of_three_is_told_once(self):
        graph = self.graph(left="use crate::right;", right="use crate::high;", high="use crate::left;")
        self.assertEqual(len(circles(graph)), 1)
        self.assertEqual(circles(graph)[0].count("uses"), 3)

    def test_a_use_that_goes_up(self):
        self.assertEqual(self.wrong(low="use crate::{left, high::{f as g, h}};"),
                         ["low uses left, which stands above it in the table: crate::left",
                          "low uses high, which stands above it in the table: crate::high::f"])

    def test_a_use_within_a_layer(self):
        self.assertEqual(self.wrong(left="use crate::right::f;"),
                         ["left uses right, which stands beside it in the table: crate::right::f"])

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
