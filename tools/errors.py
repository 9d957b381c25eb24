"""Errors, for a user: the cause in one line, then what to do or where the details are."""

import errno
import re

# Lines of a log that say why a command failed. Make's own come after them and say only that something did.
CAUSE = re.compile(
    r"^ferrule(-build)?: |(^|\s)(fatal )?error(\[E\d+\])?: |undefined reference|undefined symbol|(command |: )not found"
    r"|No space left|No rule to make|cannot execute|Permission denied|Killed|Segmentation fault|^\w*(Error|Exception): ",
)
GAVE_UP = re.compile(r"^make(\[\d+\])?: \*\*\* ")
LINES_BEFORE_GIVING_UP = 200


class BuildError(Exception):
    """A message for the user; the details are in a log."""


def cause(log: str) -> str:
    """The line of a failed command's log that says why; nothing where none does."""
    lines = [line.strip() for line in log.splitlines() if line.strip()]
    end = next((number for number, line in enumerate(lines) if GAVE_UP.match(line)), len(lines))
    # What a test of CPython printed long before is no cause.
    window = lines[max(0, end - LINES_BEFORE_GIVING_UP):end]
    found = next((line for line in window if CAUSE.search(line)), None)
    # rustc says where in a line of its own.
    rest = window[window.index(found) + 1:] if found else []
    if rest and rest[0].startswith("--> "):
        return f"{rest[0][4:]}: {found}"
    # Of cargo's chain of reasons the last one says most.
    reasons = [line for before, line in zip(rest, rest[1:]) if before == "Caused by:"]
    if reasons:
        return f"{found}: {reasons[-1]}"
    if found is None and "No rule to make" in "".join(lines[end:end + 1]):
        found = lines[end]
    return found or (window[-1] if window else "")


def explain(error: OSError) -> str:
    """What to do about an error of the operating system."""
    where = error.filename or "the disk"
    if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
        return (f"cannot write {where}: {error.strerror}. Build as the user who owns this clone, in a place that can be "
                "written (what another user built goes away with `make distclean`, as that user).")
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return f"no space left for {where}: a build needs up to 2 GB"
    return f"{where}: {error.strerror or error}"
