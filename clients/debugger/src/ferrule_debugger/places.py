"""Where a breakpoint that is typed can stop."""

import functools
import importlib.util
import inspect
import linecache
import os
import sys
import types
import warnings

from .index import lines_of

_lines = {}     # file -> (its lines as linecache has them, those with code)


def function_behind(value):
    """The function in Python that a callable, a method or a property runs. None: there is none."""
    for _ in range(100):        # a chain of wrappers may be a circle
        inner = getattr(value, "__wrapped__", None)
        if inner is None and isinstance(value, functools.partial | functools.partialmethod | functools.cached_property):
            inner = value.func
        elif inner is None and isinstance(value, property):
            inner = value.fget
        elif inner is None and isinstance(value, functools.singledispatchmethod):
            inner = value.dispatcher.dispatch(object)
        if inner is None:
            inner = getattr(value, "__func__", None)
        if inner is None:
            return value if isinstance(value, types.FunctionType) else None
        value = inner
    return None


def attribute(expression, globals, locals):
    """The value of a dotted name, whose last attribute is not computed: a property is itself."""
    owner, _, name = expression.rpartition(".")
    value = eval(expression if not owner else owner, globals, locals)
    return inspect.getattr_static(value, name) if owner else value


def learn_source(file, canonic):
    """Let linecache have the source of a file that is not one: a module of an archive."""
    if not os.path.exists(file):
        for module in list(sys.modules.values()):
            name = getattr(module, "__file__", None)
            if isinstance(name, str) and canonic(name) == file:
                linecache.lazycache(file, vars(module))
                return


def file_of_module(name, canonic):
    """The file of a module that is imported, or that can be without the import of another."""
    module = sys.modules.get(name)
    if module is not None:
        file = getattr(module, "__file__", None)
        return canonic(file) if isinstance(file, str) else None
    parent = name.rpartition(".")[0]
    if parent and parent not in sys.modules:
        return None
    try:
        spec = importlib.util.find_spec(name)
    except (ImportError, ValueError, AttributeError):
        return None
    if spec is None or not spec.has_location:
        return None
    file = canonic(spec.origin)
    if not os.path.exists(file):
        linecache.lazycache(file, {"__name__": name, "__spec__": spec, "__loader__": spec.loader})
    return file


def lines_with_code(file):
    """The lines of a file that have code. None: it cannot be compiled, or its source is not found."""
    source = linecache.getlines(file)
    if not source:
        return None
    known, lines = _lines.get(file, (None, None))
    if known is not source:
        lines = compiled_lines("".join(source), file)
        _lines[file] = source, lines
    return lines


def compiled_lines(source, file):
    """The lines with code of source that is compiled by this name."""
    try:
        with warnings.catch_warnings(action="ignore"):
            codes = [compile(source, file, "exec", dont_inherit=True)]
    except (SyntaxError, ValueError):
        return None
    lines = set()
    while codes:
        code = codes.pop()
        lines |= lines_of(code)
        codes += [each for each in code.co_consts if isinstance(each, types.CodeType)]
    return lines
