#!/usr/bin/env python3
"""Get CPython's source, verify it, unpack it, apply the patches, add the overlay.

It comes from the tarball named by CPYTHON_TARBALL, or from where the pins say
(cpython/upstream.toml): Debian's source package by way of apt (its package lists
go to a temporary directory; nothing on the system changes), or python.org.  The
cache spares a download and decides nothing.  Debian's 3.13.5 gets Debian's fixes
first.  Run again when all is there, it does nothing; when the patches or the
overlay changed, it makes the tree anew from the cache.

environment:
  CPYTHON_TARBALL   a tarball to use instead, or the directory that one was unpacked to;
                    it must be one that is pinned
  CPYTHON_VERSION   the release to use (as --version)
  CPYTHON_DEBIAN    Debian's packaging to go with CPYTHON_TARBALL: its .debian.tar.xz,
                    or the directory that one was unpacked to
  CPYTHON_SERIES    which of Debian's patches: "fixes" (the default), or "debian" for
                    all of them
  FERRULE_CACHE     where downloads are kept (default: sources/ in a source release,
                    else ferrule/ in the user's cache directory)

exit codes:
  0  the tree is there          2  wrong usage
  1  it could not be made       3  no origin was within reach
"""

import argparse
import errno
import os
import sys
from pathlib import Path

from cpython.upstream.cache import Cache, default_cache
from cpython.upstream.choosing import choose, last_choice_first, of_tarball
from cpython.upstream.files import locked
from cpython.upstream.messages import FetchError, note
from cpython.upstream.pins import SERIES, Pins
from cpython.upstream.tree import finished, make_tree, publish
from tools import patches

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent


def describe(stamp):
    text = f"CPython {stamp['version']}"
    if stamp["debian_revision"]:
        return (f"{text}, Debian {stamp['debian_revision']} with "
                f"{len(stamp['fixes'])} of its fixes")
    return f"{text} as released{' (CPYTHON_TARBALL)' if stamp['origin'] == 'user' else ''}"


def warn_if_vulnerable(release, fixed):
    if release["debian_fixes"] and not fixed:
        note(f"WARNING: CPython {release['version']} as released has known vulnerabilities, "
             "and this is it without Debian's fixes.\n"
             "         Fine to look at; do not run it on anything that others can reach.")


def fetch(args, env):
    pins = Pins(args.config)
    version = args.version or env.get("CPYTHON_VERSION") or None
    tarball, debian = env.get("CPYTHON_TARBALL"), env.get("CPYTHON_DEBIAN")
    pins.take_series(env.get("CPYTHON_SERIES") or SERIES[0])
    if debian and not tarball:
        raise FetchError("CPYTHON_DEBIAN= goes with CPYTHON_TARBALL=: name the release's tarball too")
    dest, cache = Path(args.dest).absolute(), Cache(default_cache(env, ROOT).absolute())
    overlay = Path(args.overlay)
    attempts = pins.attempts(version)

    def series(release):
        return Path(args.patches or patches.default_directory(release["version"]))

    def ready(release, origin):
        return finished(release, origin, pins, series(release), overlay, dest, fixed=bool(debian))

    with locked(dest):
        if tarball:
            source, stamp = of_tarball(pins, tarball, version, debian, ready)
        else:
            order = last_choice_first(attempts, dest / ("current.json" if version else "default.json"))
            source, stamp = choose(pins, order, cache, ready, args.refresh)
        if source:
            # A refresh, or the user's tarball, may well be what the tree is made of.
            before = ready(source.release, source.origin)
            if before and before["fixes_sha256"] == source.fixes_sha256():
                stamp = before
        done = stamp is not None
        warn_if_vulnerable(source.release if source else pins.release(stamp["version"]),
                           source.fixes if source else stamp["fixes"])
        if not done:
            stamp = make_tree(source, pins, series(source.release), overlay, dest)
        path = publish(stamp, dest, ROOT, default=not version and not tarball)
    print(f"{describe(stamp)}: {path}{' is up to date' if done else ''}")


def arguments(argv):
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dest", default=str(ROOT / "build" / "src"), metavar="DIR",
                        help="where the tree goes (default: build/src)")
    parser.add_argument("--version", help="the release, instead of CPYTHON_VERSION")
    parser.add_argument("--refresh", action="store_true",
                        help="search Debian for newer fixes than those in the cache")
    parser.add_argument("--patches", metavar="DIR",
                        help="the project's patches (default: patches/<major.minor>)")
    parser.add_argument("--overlay", default=str(ROOT / "overlay"), metavar="DIR",
                        help="files to add to the tree as they are (default: overlay)")
    parser.add_argument("--config", type=Path, default=HERE / "upstream.toml", metavar="FILE",
                        help="the pins (default: cpython/upstream.toml)")
    return parser.parse_args(argv)


def explain(error):
    """What to do about an error of the operating system."""
    where = error.filename or "the disk"
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return (f"no space left for {where}: the source needs about 400 MB in --dest and "
                "60 MB in the cache (FERRULE_CACHE=). Make room and run again.")
    if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
        return (f"cannot write {where}: {error.strerror}. Give another directory with "
                "FERRULE_CACHE= (downloads) or --dest (the tree).")
    return f"{where}: {error.strerror or error}"


def main(argv=None, env=os.environ):
    args = arguments(argv)
    try:
        fetch(args, env)
        return 0
    except FetchError as error:
        note(f"error: {error}")
        return error.code
    except patches.PatchError as error:
        note(f"error: {error}")
    except OSError as error:
        note(f"error: {explain(error)}")
    except KeyboardInterrupt:
        note("interrupted; run again to continue")
        return 130
    return 1


if __name__ == "__main__":
    sys.exit(main())
