"""A release from python.org."""

import errno
import urllib.error
import urllib.request
from http.client import HTTPException

from .messages import Progress, Unreachable, note
from .pins import Source, verify

# python.org answers at once or is not within reach.
CONNECT_SECONDS = 8
BLOCK = 1 << 18
# Failures of writing; any other one while downloading is the network's.
OUR_SIDE = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EACCES, errno.EPERM,
            errno.EROFS, errno.ENOENT)


def download(release, target):
    """Fetch the release's file to `target`, then verify it."""
    label = f"downloading {release['file']}"
    progress, done, total = Progress(label), 0, 0
    note(f"{label} from {release['url'].split('/')[2]}")
    try:
        with urllib.request.urlopen(release["url"], timeout=CONNECT_SECONDS) as answer, \
                target.open("wb") as file:
            total = int(answer.headers.get("Content-Length") or 0)
            while block := answer.read(BLOCK):
                file.write(block)
                done += len(block)
                progress(done, total)
    except urllib.error.HTTPError as error:
        raise Unreachable(f"{release['url']}: {error.code} {error.reason}") from None
    except urllib.error.URLError as error:
        raise Unreachable(f"{release['url']}: {error.reason}") from None
    except (OSError, HTTPException) as error:
        if getattr(error, "errno", None) in OUR_SIDE:
            raise
        raise Unreachable(f"{release['url']}: interrupted after {done} bytes "
                          f"({error or type(error).__name__})") from None
    finally:
        progress.end()
    if done < total:
        raise Unreachable(f"{release['url']}: interrupted after {done} of {total} bytes")
    verify(target, release, release["url"])


def from_python_org(pins, release, cache, work):
    tarball = cache.tarball(release)
    if tarball:
        return Source(release, "python.org", tarball)
    target = work / release["file"]
    download(release, target)
    return Source(release, "python.org", cache.keep(target, release["file"]))
