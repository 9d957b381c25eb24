"""A clone of the last commit, for what is built and tested beside the work tree."""

import shutil
import subprocess
from pathlib import Path


def at_last_commit(source: Path, place: Path) -> None:
    """Makes `place` a clone of `source`, at its last commit. One that an earlier run has left is used again, with what was built in it."""
    if not (place / ".git").exists():
        shutil.rmtree(place, ignore_errors=True)
        place.parent.mkdir(parents=True, exist_ok=True)
        subprocess.run(["git", "clone", "--quiet", source, place], check=True)
    subprocess.run(["git", "fetch", "--quiet", source, "HEAD"], cwd=place, check=True)
    subprocess.run(["git", "checkout", "--quiet", "--force", "--detach", "FETCH_HEAD"], cwd=place, check=True)
