#!/usr/bin/env python3
"""Say what is newer than the CPython that is built upon (cpython/upstream.toml).

Debian's archive is searched for the newest revision of the release that has Debian's fixes, and python.org for the newest
release of the series. Nothing is changed. What to do about each is said with it.

exit codes:
  0  nothing is newer           3  neither could be reached
  1  something is newer
"""

import argparse
import os
import re
import sys
import tempfile
import urllib.error
import urllib.request
from pathlib import Path

from cpython.upstream.cache import Cache, default_cache
from cpython.upstream.debian import apt_settings, apt_update, apt_versions, run_apt
from cpython.upstream.files import read_json
from cpython.upstream.messages import Unreachable
from cpython.upstream.pins import Pins
from cpython.upstream.python_org import CONNECT_SECONDS

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent


def in_debian(pins, release):
    """Debian's newest revision of this release."""
    with tempfile.TemporaryDirectory() as temporary:
        work = Path(temporary)
        settings = apt_settings(run_apt(["apt-config", "dump"], work, {**os.environ, "LC_ALL": "C"}))
        env = apt_update(pins, release, work, settings)
        return apt_versions(work, env, pins.source, release["version"])[-1]


def number(version):
    return tuple(map(int, version.split(".")))


def at_python_org(release):
    """The newest release of the same series that is there."""
    index, series = release["url"].rsplit("/", 2)[0] + "/", release["version"].rsplit(".", 1)[0]
    try:
        with urllib.request.urlopen(index, timeout=CONNECT_SECONDS) as answer:
            listed = answer.read().decode(errors="replace")
    except (OSError, urllib.error.URLError) as error:
        raise Unreachable(f"{index}: {getattr(error, 'reason', error)}") from None
    found = re.findall(rf'href="({re.escape(series)}\.\d+)/"', listed)
    if not found:
        raise Unreachable(f"{index} lists no release of {series}")
    return max(found, key=number)


def check_debian(pins, cache):
    """What is newer in Debian, as a text; None where nothing is."""
    release = next(release for release in pins.releases.values() if release["debian_fixes"])
    newest = in_debian(pins, release)
    used = (read_json(cache.record(release)) or {}).get("revision")
    print(f"Debian's {release['suite']} has {pins.source} {newest}; the cache has {used or 'none'}")
    if used in (None, newest):
        return None
    return (f"Debian has {newest}: python3 -m cpython.fetch --refresh, then make test, "
            "and a new revision of the packages (docs/packaging.md)")


def check_python_org(pins):
    """What is newer at python.org, as a text; None where nothing is."""
    release = max(pins.releases.values(), key=lambda release: number(release["version"]))
    newest = at_python_org(release)
    print(f"python.org has {newest}; the newest that is pinned is {release['version']}")
    if number(newest) <= number(release["version"]):
        return None
    return (f"CPython {newest} is out: pin it in cpython/upstream.toml, then CPYTHON_VERSION={newest} ./configure && make test; "
            "what its patches have to change goes into a file NAME@VERSION.patch")


def main(argv=None, env=os.environ):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--config", type=Path, default=HERE / "upstream.toml", metavar="FILE", help="the pins")
    pins = Pins(parser.parse_args(argv).config)
    cache = Cache(default_cache(env, ROOT).absolute())
    newer, unreachable = [], 0
    for name, check in (("Debian", lambda: check_debian(pins, cache)), ("python.org", lambda: check_python_org(pins))):
        try:
            newer.append(check())
        except Unreachable as error:
            unreachable += 1
            print(f"{name} could not be reached: {error}")
    newer = [text for text in newer if text]
    print("\n".join(newer or ["nothing newer was seen"]))
    return 1 if newer else 3 if unreachable == 2 else 0


if __name__ == "__main__":
    sys.exit(main())
