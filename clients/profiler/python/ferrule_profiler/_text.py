"""Names as reports have them."""

from os import sep


def short(file):
    """The last two parts of a file's name: enough to know it."""
    parts = file.replace(sep, "/").split("/")
    return "/".join(parts[-2:]) if len(parts) > 1 else file
