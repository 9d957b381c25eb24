"""The files that a result can be written to."""

import sys
from _thread import get_ident
# The program may put other functions in their places.
from io import open
from os import (
    O_CREAT,
    O_TRUNC,
    O_WRONLY,
    close,
    fchmod,
    fspath,
    fstat,
    getpid,
    listxattr,
    lstat,
    replace,
    stat,
    unlink,
    write as write_descriptor,
)
from os import open as open_descriptor
from stat import S_IMODE, S_ISREG

from ._formats import callgrind, folded, pstats, speedscope, whole_table

FORMATS = {"table": whole_table, "html": None, "pstats": pstats, "speedscope": speedscope,
           "callgrind": callgrind, "folded": folded}
SUFFIXES = {
    ".html": "html", ".prof": "pstats", ".pstats": "pstats", ".speedscope.json": "speedscope",
    ".callgrind": "callgrind", ".txt": "table", ".json": "speedscope", ".folded": "folded",
}
STDOUT = "-"
# Every file on some systems has this one, and it is made for the new file too.
LABEL = "security.selinux"


def format_of(path):
    """The format that belongs to a file's name. ValueError: none does."""
    name = fspath(path).rpartition("/")[2]
    if name == STDOUT:
        return "table"
    if name.startswith("callgrind.out"):
        return "callgrind"
    for suffix, format in SUFFIXES.items():
        if name.endswith(suffix):
            return format
    if "." in name[1:]:
        raise ValueError(f"no format has names like {name!r}: they end with {', '.join(SUFFIXES)}")
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
    """Write the file: see write_file()."""
    write_file(path, maker(path, format)(result))


def is_plain(path):
    """Whether a file of this name can be written several times: it is a plain one, or none yet."""
    try:
        return path != STDOUT and S_ISREG(stat(path).st_mode)
    except OSError:
        return True


def write_file(path, content):
    """Write a file. A plain one is whole or not there; others, and links, are written into."""
    if isinstance(content, str):
        content = content.encode("utf-8", "backslashreplace")
    path = fspath(path)
    if path == STDOUT:
        write_stdout(content)
    elif not put_in_place(path, content):
        # What is there stays what it is. A FIFO is not opened as though it had to be made.
        flags = O_WRONLY | O_TRUNC | (O_CREAT if is_plain(path) else 0)
        with open(open_descriptor(path, flags, 0o666), "wb") as file:
            file.write(content)


def write_stdout(content):
    """After what the program has printed, though it may have put something in the place of print()."""
    for stream in (sys.stdout, sys.__stdout__):
        try:
            stream.flush()
        except Exception:
            pass        # closed, or none
    left = memoryview(content)
    while left:
        left = left[write_descriptor(1, left):]


def put_in_place(path, content):
    """Write another file and give it this name; False: that would change more than the content."""
    try:
        known = lstat(path)
    except OSError:
        known = None
    if known is not None:
        if not S_ISREG(known.st_mode) or known.st_nlink > 1 or attributes(path):
            return False
        close(open_descriptor(path, O_WRONLY))      # OSError: it may not be written
    directory, slash, _ = path.rpartition("/")
    beside = f"{directory}{slash}.ferrule-{getpid()}-{get_ident()}.part"
    try:
        file = open(beside, "xb")
    except OSError:
        return False        # what is there may be written still
    try:
        with file:
            if known is not None:
                made = fstat(file.fileno())
                if (made.st_uid, made.st_gid) != (known.st_uid, known.st_gid):
                    unlink(beside)
                    return False
                fchmod(file.fileno(), S_IMODE(known.st_mode))
            file.write(content)
        replace(beside, path)
    except BaseException:
        try:
            unlink(beside)
        except OSError:
            pass        # it was not made
        raise
    return True


def attributes(path):
    """Whether a file has more than a mode: access control lists, say."""
    try:
        return set(listxattr(path)) - {LABEL}
    except OSError:
        return False        # no file has there
