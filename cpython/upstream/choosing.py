"""One origin after the other, each to its end."""

import os

from .debian import from_debian
from .files import locked, read_json, temporary
from .given import from_user
from .messages import Unreachable, note
from .python_org import from_python_org

ORIGINS = {"python.org": from_python_org, "debian": from_debian}


def in_cache(attempts, cache, release, origin):
    source = cache.get(release, origin)
    return source if source and usable(source, attempts) else None


def over_network(pins, release, origin, cache):
    with locked(cache.path), temporary(cache.path) as work:
        return ORIGINS[origin](pins, release, cache, work)


def usable(source, attempts):
    """A vulnerable release is no match while its fixed form can still be got."""
    fixed = (source.release["version"], "debian")
    return (source.origin == "debian" or not source.release["debian_fixes"]
            or fixed not in [(r["version"], o) for r, o in attempts])


def missing(attempts, cache, reasons):
    # A file by itself brings no fixes: name a release that needs none, where allowed.
    release = next((r for r, _ in attempts if not r["debian_fixes"]), attempts[0][0])
    return ("CPython's source is not within reach:\n" + "\n".join(reasons) + "\n"
            f"Get {release['file']} some other way ({release['url']}),\n"
            f"  sha256 {release['sha256']},\n"
            f"then run again with CPYTHON_TARBALL=/path/to/{release['file']}, or put it into "
            f"{cache.path}/.")


def last_choice_first(attempts, record):
    """Stay with what the last run chose, whatever has come within reach or into the cache since."""
    before = read_json(record) or {}
    return sorted(attempts, key=lambda attempt: (attempt[0]["version"], attempt[1]) !=
                  (before.get("version"), before.get("origin")))


def choose(pins, attempts, cache, ready, refresh):
    """(source, None), or (None, stamp) where a finished tree will do.

    One attempt after the other, each to its end: a later one that happens to be
    in the cache must not win over an earlier one that can be downloaded.
    """
    reasons = []
    for release, origin in attempts:
        stamp = None if refresh else ready(release, origin)
        if stamp:
            return None, stamp
        cached = cached_source(attempts, cache, release, origin)
        if cached and not refresh:
            return cached, None
        try:
            return over_network(pins, release, origin, cache), None
        except Unreachable as error:
            note(f"not from {origin}: {error}")
            reasons.append(f"  {origin}: {error}")
        if cached:
            note("warning: going on with what is in the cache")
            return cached, None
    raise Unreachable(missing(attempts, cache, reasons))


def cached_source(attempts, cache, release, origin):
    # Locking would make the directory.
    if not cache.path.is_dir():
        return None
    with locked(cache.path):
        return in_cache(attempts, cache, release, origin)


def of_tarball(pins, path, version, debian, ready):
    """(source, None) of the user's tarball, or (None, stamp) of the tree made of it, which may outlive it."""
    if not os.path.lexists(path):
        wanted = [pins.release(version)] if version else pins.releases.values()
        stamps = [stamp for release in wanted if (stamp := ready(release, "user")) and stamp.get("tarball") == path]
        if stamps:
            return None, stamps[0]
    return from_user(pins, path, version, debian), None
