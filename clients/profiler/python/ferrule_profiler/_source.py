"""The source of functions."""

import io
import sys
import tokenize
from io import open
from os import stat
from stat import S_ISREG

MOST_BYTES = 4 << 20    # of a file with source
CHANGED = "The file was changed after the profile began: this is what it is now."


def lines_of(file, date):
    """The lines of a file, or of what the program has given to linecache in its place, and whether
    they are older than `date`."""
    try:
        known = stat(file)
        # A pipe would have us wait, and a file may be as large as it likes.
        if S_ISREG(known.st_mode) and known.st_size <= MOST_BYTES:
            with open(file, "rb") as opened:
                content = opened.read(MOST_BYTES + 1)
            if len(content) <= MOST_BYTES:
                encoding, _ = tokenize.detect_encoding(io.BytesIO(content).readline)
                return io.StringIO(content.decode(encoding), newline=None).readlines(), known.st_mtime <= date
    except (OSError, SyntaxError, ValueError):
        pass
    linecache = sys.modules.get("linecache")
    cache = vars(linecache).get("cache") if type(linecache) is type(sys) else None
    known = cache.get(file) if type(cache) is dict else None
    if type(known) is tuple and len(known) == 4 and type(known[2]) is list:
        return [line for line in known[2] if type(line) is str], True
    return [], True
