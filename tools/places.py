"""Where things are, and that they can be there."""

import os
import re
from pathlib import Path

from tools.errors import BuildError

ROOT = Path(__file__).resolve().parent.parent
BUILD = ROOT / "build"


def logs() -> Path:
    return BUILD / "logs"


def source_facts() -> Path:
    return BUILD / "src" / "current.json"


def check() -> None:
    """Make and configure scripts take a path apart at blanks, and give others of these a meaning."""
    odd = re.search(r"[^\w./+,@~-]", str(ROOT))
    if odd:
        raise BuildError(f"the path of this clone has {odd[0]!r} in it, which make and configure scripts cannot take: "
                         f"move {ROOT} elsewhere")


def check_writable(directory: Path) -> None:
    """Now, and not with half of the work done."""
    if os.path.lexists(directory) and not directory.is_dir():
        raise BuildError(f"{directory} is no directory, and everything is built below it: move it away")
    found = next(place for place in (directory, *directory.parents) if place.exists())
    if not os.access(found, os.W_OK | os.X_OK, effective_ids=True):
        owner = found.stat().st_uid
        raise BuildError(f"{found} cannot be written" + ("" if owner == os.geteuid() else f"; it belongs to user {owner}")
                         + ": build as its owner, or in a clone of your own")
