"""Downloads that are kept."""

import contextlib
from pathlib import Path

from .files import read_json, sha256
from .messages import FetchError, note
from .pins import Source, check_dsc


class Cache:
    """Downloads, each verified whenever it is used."""

    def __init__(self, path):
        self.path = path

    def tarball(self, release):
        path = self.path / release["file"]
        if not path.is_file():
            return None
        found = sha256(path)
        if found == release["sha256"]:
            return path
        note(f"{path} is damaged (sha256 {found}, expected {release['sha256']}): to be got again")
        self.discard(path)
        return None

    @staticmethod
    def discard(path):
        """What is wrong goes; where the cache cannot be written it stays and is not used."""
        with contextlib.suppress(OSError):
            path.unlink()

    def record(self, release):
        return self.path / f"debian-{release['version']}.json"

    def fixes(self, release):
        """(path, revision) of Debian's verified fixes, or None."""
        record = read_json(self.record(release))
        if record is None:
            return None
        try:
            dsc = self.path / record["dsc"]
            fixes = self.path / record["fixes"]
            if sha256(dsc) != record["dsc_sha256"]:
                raise FetchError(f"{dsc} is damaged")
            check_dsc(dsc, release, fixes)
            return fixes, record["revision"]
        except (FetchError, KeyError, OSError) as error:
            note(f"Debian's fixes in {self.path} are to be got again: {error}")
            self.discard(self.record(release))
            return None

    def get(self, release, origin):
        """What is complete here for one attempt, as a Source, else None."""
        if origin == "debian" and release["debian_fixes"]:
            fixes = self.fixes(release)
            tarball = fixes and self.tarball(release)
            return Source(release, origin, tarball, *fixes) if tarball else None
        tarball = self.tarball(release)
        # Without fixes, a release's own file is the same from wherever it came.
        return Source(release, "python.org", tarball) if tarball else None

    def keep(self, path, name):
        return path.replace(self.path / name)


def default_cache(env, root):
    """Where downloads are kept, for the project in this directory."""
    if env.get("FERRULE_CACHE"):
        return Path(env["FERRULE_CACHE"])
    # A source release has all files with it.
    if (root / "sources").is_dir():
        return root / "sources"
    base = env.get("XDG_CACHE_HOME") or Path(env.get("HOME") or "~").expanduser() / ".cache"
    return Path(base) / "ferrule"
