"""The modules of a Rust crate, and which of them uses which: from the text of `use` items and of paths.

A path counts if it begins with `crate`, `super`, `self` or a module's own child. What an inline module uses, its file uses.
A call of a method names no module, and is not seen.
"""

import re
from pathlib import PurePosixPath

COMMENT_OR_LITERAL = re.compile(
    r"""//[^\n]*|/\*.*?\*/|\br(?P<hashes>\#*)".*?"(?P=hashes)|"(?:\\.|[^"\\])*"|'(?:\\.[^']*|[^'\\])'""", re.DOTALL | re.VERBOSE)
FOR_TESTS = re.compile(r"#\s*\[\s*cfg\s*\(\s*(?:test|fuzzing|any\s*\(\s*test\s*,\s*fuzzing\s*\))\s*\)\s*\]")
ELSEWHERE = re.compile(r'#\[path = "([^"]+)"\]\s*mod\s+(\w+);')
DECLARATION = re.compile(r"\bmod\s+(\w+)\s*;")
INLINE = re.compile(r"\bmod\s+(\w+)\s*\{")
USE = re.compile(r"\buse\s+([^;]+);")
PATH = re.compile(r"(?<![\w:.])\w+(?:\s*::\s*\w+)+")


def item_end(text, start):
    """Where the item that begins at `start` is over: after its `;`, or after its block."""
    depth, is_use = 0, re.compile(r"\s*(?:pub(?:\([^)]*\))?\s+)?use\b")
    is_use = is_use.match(re.sub(r"^(\s*#\s*\[[^]]*\])+", "", text[start:]))
    for position in range(start, len(text)):
        character = text[position]
        depth += (character in "([{") - (character in ")]}")
        if depth == 0 and (character == ";" or character == "}" and not is_use):
            return position + 1
    return len(text)


def code_of(text, tests):
    """The text without comments and literals, and without `tests` without what only unit tests and fuzz targets compile."""
    text = COMMENT_OR_LITERAL.sub(" ", text)
    while not tests and (found := FOR_TESTS.search(text)):
        text = text[:found.start()] + text[item_end(text, found.end()):]
    return text


def scopes_in(module, code):
    """(scope, code) of a file: its module, and the inline modules in it."""
    while found := INLINE.search(code):
        end = item_end(code, found.start())
        yield from scopes_in((*module, found[1]), code[found.end():end - 1])
        code = code[:found.start()] + code[end:]
    yield module, code


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


def modules_of(files, tests=False, root="lib.rs"):
    """{module: its (scope, code) pairs}; a name is a tuple, () the crate's root. `files` has texts by path."""
    modules = {}

    def add(name, path, folder):
        code = code_of(files[str(path)], tests)
        modules[name] = list(scopes_in(name, code))
        elsewhere = {child: path.parent / file for file, child in ELSEWHERE.findall(files[str(path)])}
        for child in DECLARATION.findall(code):
            flat, deep = folder / f"{child}.rs", folder / child / "mod.rs"
            found = [file for file in {flat, deep, elsewhere.get(child)} if str(file) in files]
            if len(found) != 1:
                raise AssertionError(f"{path} declares the module {child}, and there are {len(found)} files for it")
            add((*name, child), found[0], folder / child)

    add((), PurePosixPath(root), PurePosixPath("."))
    return modules


def target_of(scope, path, modules):
    """The module that a path in `scope` leads to; None where it leads out of the crate, or to a name that was brought in."""
    words = re.split(r"\s*::\s*", path.strip())
    if words[0] == "crate":
        place, words = (), words[1:]
    elif words[0] in ("self", "super"):
        place = scope
        while words and words[0] in ("self", "super"):
            place = place[:-1] if words[0] == "super" else place
            words = words[1:]
    elif (*scope, words[0]) in modules:
        place = scope
    else:
        return None
    while words and (*place, words[0]) in modules:
        place, words = (*place, words[0]), words[1:]
    while place not in modules:     # an inline module
        place = place[:-1]
    return place


def graph_of(modules):
    """{module: {module that it uses: the path by which it does}}"""
    graph = {module: {} for module in modules}
    for module, scopes in modules.items():
        for scope, code in scopes:
            for path in paths_in(code):
                target = target_of(scope, path, modules)
                if target not in (None, module):
                    graph[module].setdefault(target, re.sub(r"\s", "", path))
    return graph


def sources_in(folder):
    return {path.relative_to(folder).as_posix(): path.read_text(encoding="utf-8") for path in folder.rglob("*.rs")}
