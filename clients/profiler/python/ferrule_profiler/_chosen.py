"""The functions whose lines have times, as they are named."""

from os import fspath
from os.path import abspath, normpath, realpath
from types import CodeType


def files(path):
    """What the name of a file may end with that is meant by this one."""
    path = fspath(path)
    return dict.fromkeys([normpath(path), abspath(path), realpath(path)])


def code_of(function):
    """The code object of a function, of what is wrapped in it, or of a method. TypeError: there is none."""
    seen = function
    for _ in range(100):
        seen = getattr(seen, "__wrapped__", getattr(seen, "__func__", seen))
    code = getattr(seen, "__code__", seen)
    if type(code) is not CodeType:
        raise TypeError(f"lines are functions in Python, or their names, not {function!r}")
    return code


def named(function):
    """(what it is called, pairs as the core has them: the name of a function, that of a file)"""
    if isinstance(function, str):
        file, colon, name = function.rpartition(":")
        return function, [(name, path) for path in (files(file) if colon else [None])]
    code = code_of(function)
    return code.co_qualname, [(code.co_qualname, code.co_filename)]


class Chosen:
    """`all` are the pairs."""

    def __init__(self, functions, paths):
        is_one = isinstance(functions, (str, CodeType)) or callable(functions)
        listed = [functions] if is_one else functions
        self.texts = [named(function) for function in listed]
        listed = [paths] if isinstance(paths, str) else paths
        self.texts += [(fspath(path), [(None, file) for file in files(path)]) for path in listed]
        self.all = [pair for _, pairs in self.texts for pair in pairs]

    def missing(self, found):
        """What has not been called; `found` says for each pair whether it has."""
        found = iter(found)
        return [text for text, pairs in self.texts if not any([next(found) for _ in pairs])]
