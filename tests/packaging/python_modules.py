"""The Python modules of a tree, and which of them imports which, wherever in a file it does.

A module is imported by its name below its root: the directory above its packages, which scripts put on `sys.path`. Modules of the
same root come first. A name that several other roots have counts as all of these modules. What runs with the import of a module,
its packages' `__init__.py`, does not count.
"""

import io
import re
import sys
import tokenize
from collections import defaultdict
from pathlib import PurePosixPath


def module_of(path, files):
    """(root, dotted name) of a file."""
    path = PurePosixPath(path)
    root = path.parent
    while str(root / "__init__.py") in files:
        root = root.parent
    parts = path.with_suffix("").relative_to(root).parts
    return root, ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imports_in(text):
    """(level, module, names) of each import. From tokens, as programs that tests run are of the newest syntax."""
    line = []
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.NEWLINE or token.string == ";" and token.type == tokenize.OP:
            yield from imports_of(line)
            line = []
        elif token.type in (tokenize.NAME, tokenize.OP):
            line.append(token.string)


def imports_of(line):
    """Those of one statement, which may follow the colon of another."""
    for at, word in enumerate(line):
        if at and line[at - 1] != ":" or word not in ("import", "from"):
            continue
        words = list(line[at + 1:])
        if word == "from":
            middle = words.index("import")
            origin = "".join(words[:middle])
            level = len(origin) - len(origin.lstrip("."))
            yield level, origin[level:], names_in(words[middle + 1:])
        else:
            for name in names_in(words):
                yield 0, name, []


def names_in(words):
    """`a.b as c, d` is a.b and d."""
    names = "".join(f" {word} " if word == "as" else word for word in words if word not in "()").split(",")
    return [name.partition(" as ")[0] for name in names if name]


def graph_of(files):
    """{path: {path that it imports: the text by which it does}} of {path: text}."""
    named = defaultdict(dict)
    for path in files:
        root, name = module_of(path, files)
        named[name][root] = path

    def found(name, root):
        homes = named.get(name, {})
        if root in homes:
            return [homes[root]]
        return [] if name.partition(".")[0] in sys.stdlib_module_names else list(homes.values())

    graph = {path: {} for path in files}
    for path, text in files.items():
        root, own = module_of(path, files)
        package = own.split(".") if path.endswith("__init__.py") else own.split(".")[:-1]
        for level, module, names in imports_in(text):
            if level:
                module = ".".join([*package[:len(package) - level + 1], *filter(None, [module])])
            for name in names or [None]:
                below = found(f"{module}.{name}", root) if name else []
                for target in below or found(module, root):
                    if target != path and (below or not is_extension(name, target, files)):
                        graph[path].setdefault(target, f"{module}.{name}" if name else module)
    return graph


def is_extension(name, package, files):
    """Whether a name that is imported from a package is a module that is no Python file: the package itself says nothing of it, but
    may import from it."""
    said = re.sub(r"(?m)^ *from \S+ import ", "", files[package])
    return package.endswith("__init__.py") and name not in (None, "*") and not re.search(rf"\b{name}\b", said)


def sources_in(root):
    """The Python files of a tree by their paths, scripts without a suffix among them; without what is built and hidden."""
    files = {}
    for folder in root.iterdir():
        if not folder.is_dir() or folder.name == "build" or folder.name.startswith("."):
            continue
        for path in folder.rglob("*"):
            if path.suffix == ".py" or not path.suffix and path.is_file() and is_python_script(path):
                files[path.relative_to(root).as_posix()] = path.read_text(encoding="utf-8")
    return files


def is_python_script(path):
    with path.open("rb") as file:
        first = file.readline(100)
    return first.startswith(b"#!") and b"python" in first
