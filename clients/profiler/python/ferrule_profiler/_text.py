"""Names as reports have them."""

from os import sep

# The number of what is missing below the function before it in a path: paths that took little where
# there were too many, or calls that were too deep. Its name is CUT_NAME.
CUT = -2
CUT_NAME = "[cut]"


def visible(text):
    """The text with escapes in place of what cannot be shown: it may be a terminal's command, the end
    of a line, or no character of XML."""
    if text.isprintable():
        return text
    return "".join(character if character.isprintable()
                   else character.encode("unicode_escape").decode("ascii") for character in text)


def short(file):
    """The last two parts of a file's name: enough to know it."""
    parts = file.replace(sep, "/").split("/")
    return visible("/".join(parts[-2:]) if len(parts) > 1 else file)


def named(function):
    """A function's name, and where it is: no other function has the same, as far as readers can tell."""
    if not function.has_source:
        return visible(function.name)
    return f"{visible(function.qualname)} ({short(function.file)}:{function.line})"
