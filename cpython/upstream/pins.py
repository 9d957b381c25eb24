"""Which releases there are, and the files that are theirs by digest (cpython/upstream.toml)."""

import re
import tomllib

from .files import digest, sha256
from .messages import FetchError

# Which of Debian's patches are taken (CPYTHON_SERIES=), the first where nothing is said.
SERIES = ("fixes", "debian")


class Pins:
    """cpython/upstream.toml, read."""

    def __init__(self, path):
        with path.open("rb") as file:
            content = tomllib.load(file)
        self.releases = {r["version"]: r for r in content["release"]}
        self.default = [(d["version"], d["origin"]) for d in content["default"]]
        self.source = content["debian"]["source"]
        self.fixes = content["debian"]["fixes"]

    def take_series(self, name):
        """Which of Debian's patches are taken."""
        if name not in SERIES:
            raise FetchError(f"CPYTHON_SERIES is {name!r}; it is one of {', '.join(SERIES)}")
        if name == "debian":
            self.fixes = ["*"]

    def release(self, version):
        if version not in self.releases:
            raise FetchError(f"CPython {version} is not pinned; choose one of "
                             f"{', '.join(self.releases)} (CPYTHON_VERSION=)")
        return self.releases[version]

    def attempts(self, version):
        """(release, origin) in the order in which they are tried."""
        if version:
            release = self.release(version)
            return [(release, origin) for origin in release["origins"]]
        return [(self.releases[v], origin) for v, origin in self.default]

    def by_hash(self, found):
        return next((r for r in self.releases.values() if found in (r["sha256"], r.get("tree_sha256"))), None)


class Source:
    """A verified tarball, and the Debian fixes applied on top of it, if any."""

    def __init__(self, release, origin, tarball, fixes=None, revision=None):
        self.release = release
        self.origin = origin
        self.tarball = tarball
        self.fixes = fixes
        self.revision = revision

    @property
    def name(self):
        return f"{self.release['version']}-{self.origin}"

    def fixes_sha256(self):
        return digest(self.fixes) if self.fixes else None


def verify(path, release, came_from):
    found = sha256(path)
    if found != release["sha256"]:
        raise FetchError(f"{came_from} is not the file that is pinned:\n"
                         f"  expected {release['sha256']}\n  found    {found}\n"
                         "Do not use it. Run again; if it persists, report it.")


def check_dsc(dsc, release, fixes):
    """Both files must be those that the source package's description lists."""
    text = dsc.read_text(encoding="utf-8", errors="replace")
    section = re.search(r"^Checksums-Sha256:\n((?: .*\n)+)", text, re.M)
    sums = {name: digest for digest, _, name in
            (line.split() for line in section[1].splitlines())} if section else {}
    if release["sha256"] not in sums.values():
        raise FetchError(f"{dsc.name} does not list the tarball that is pinned "
                         f"({release['sha256']})")
    found = sha256(fixes)
    if sums.get(fixes.name) != found:
        raise FetchError(f"{fixes.name} is not what {dsc.name} lists:\n"
                         f"  expected {sums.get(fixes.name)}\n  found    {found}")
