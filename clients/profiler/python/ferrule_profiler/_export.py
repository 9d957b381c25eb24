"""The files that a result can be written to."""

from _thread import get_ident
# The program may put other functions in their places.
from io import open
from os import fspath, getpid, replace, unlink

from ._formats import callgrind, folded, pstats, speedscope, whole_table

FORMATS = {"table": whole_table, "html": None, "pstats": pstats, "speedscope": speedscope,
           "callgrind": callgrind, "folded": folded}
SUFFIXES = {
    ".html": "html", ".prof": "pstats", ".pstats": "pstats", ".speedscope.json": "speedscope",
    ".callgrind": "callgrind", ".txt": "table", ".json": "speedscope",
}


def format_of(path):
    """The format that belongs to a file's name."""
    name = fspath(path).rpartition("/")[2]
    if name.startswith("callgrind.out"):
        return "callgrind"
    for suffix, format in SUFFIXES.items():
        if name.endswith(suffix):
            return format
    return "pstats"


def maker(path, format=None):
    """The function that makes the content of a file. It imports nothing any more."""
    format = format or format_of(path)
    if format not in FORMATS:
        raise ValueError(f"a format is one of {', '.join(FORMATS)}, not {format!r}")
    if format == "html":
        from ._page import page
        return page
    return FORMATS[format]


def write(result, path, format=None):
    """Write the file, whole or not at all."""
    write_file(path, maker(path, format)(result))


def write_file(path, content):
    """Write a file, whole or not at all."""
    if isinstance(content, str):
        content = content.encode("utf-8", "backslashreplace")
    path = fspath(path)
    beside = f"{path}.{getpid()}.{get_ident()}.part"
    try:
        with open(beside, "wb") as file:
            file.write(content)
        replace(beside, path)
    except BaseException:
        try:
            unlink(beside)
        except OSError:
            pass        # it was not made
        raise
