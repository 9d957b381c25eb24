"""The tarball, and Debian's packaging, that the user names."""

import contextlib
import re
import tarfile
from pathlib import Path

from .files import digest
from .messages import FetchError
from .pins import Source


def from_user(pins, path, version, debian=None):
    path = Path(path)
    try:
        found = digest(path)
    except OSError as error:
        raise FetchError(f"CPYTHON_TARBALL={path}: {error.strerror}") from None
    release = pins.by_hash(found)
    if release is None or (version and release["version"] != version):
        wanted = [pins.release(version)] if version else pins.releases.values()
        key = "tree_sha256" if path.is_dir() else "sha256"
        expected = "\n".join(f"  expected {r[key]} ({r['file']})" for r in wanted if key in r)
        raise FetchError(f"CPYTHON_TARBALL={path} is not {'what was unpacked from ' if path.is_dir() else ''}the file "
                         f"that is pinned (or it is truncated):\n{expected}\n  found    {found}")
    if not debian:
        return Source(release, "user", path)
    return Source(release, "user", path, Path(debian), debian_revision(pins, release, Path(debian)))


def debian_revision(pins, release, path):
    """Which revision of Debian's package this packaging is of; it must be of this release."""
    try:
        with debian_files(path) as read:
            first = read("changelog").decode().split("\n", 1)[0]
    except (OSError, KeyError, tarfile.TarError) as error:
        raise FetchError(f"CPYTHON_DEBIAN={path} is not Debian's packaging of {pins.source}: {error}") from None
    found = re.match(rf"{re.escape(pins.source)} \((({re.escape(release['version'])})-[^)]+)\)", first)
    if found is None:
        raise FetchError(f"CPYTHON_DEBIAN={path} begins with {first!r}, and the source is "
                         f"{pins.source} {release['version']}")
    return found[1]


@contextlib.contextmanager
def debian_files(path):
    """What reads the files of Debian's packaging, which is a tarball, or the directory that one was unpacked to."""
    if path.is_dir():
        yield lambda name: (path / name).read_bytes()
        return
    with tarfile.open(path, "r:xz") as tar:
        yield lambda name: tar.extractfile(f"debian/{name}").read()
