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
import contextlib
import errno
import fcntl
import fnmatch
import hashlib
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
import tomllib
import urllib.error
import urllib.request
from functools import cmp_to_key
from http.client import HTTPException
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
sys.path.insert(0, str(ROOT / "tools"))

import patches  # noqa: E402  (needs the path above)

# python.org answers at once or is not within reach.
CONNECT_SECONDS = 8
APT_SECONDS = 900
BLOCK = 1 << 18

# Which of Debian's patches are taken (CPYTHON_SERIES=), the first where nothing is said.
SERIES = ("fixes", "debian")

# Failures of writing; any other one while downloading is the network's.
OUR_SIDE = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EACCES, errno.EPERM,
            errno.EROFS, errno.ENOENT)


class FetchError(Exception):
    """What stops the run; the text tells the user what to do."""

    code = 1


class Unreachable(FetchError):
    """An origin has nothing for us; the next one is tried."""

    code = 3


# ---- telling ---------------------------------------------------------------

def note(text):
    print(text, file=sys.stderr, flush=True)


class Progress:
    """A line that counts up, where somebody is looking."""

    def __init__(self, label):
        self.label = label
        self.shown = sys.stderr.isatty()
        self.last = 0.0

    def __call__(self, done, total):
        now = time.monotonic()
        if self.shown and now - self.last > 0.1:
            self.last = now
            part = f"{100 * done // total:3}%" if total else str(done)
            print(f"\r{self.label} {part}\x1b[K", end="", file=sys.stderr, flush=True)

    def end(self):
        if self.shown and self.last:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)


# ---- files -----------------------------------------------------------------

def sha256(path):
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def digest(path):
    """Of a file, or of the names and contents of all files below a directory."""
    if not path.is_dir():
        return sha256(path)
    total = hashlib.sha256()
    for name in sorted(file.relative_to(path).as_posix() for file in path.rglob("*")
                       if file.is_file() or file.is_symlink()):
        file = path / name
        content = os.readlink(file) if file.is_symlink() else sha256(file)
        total.update(f"{name}\0{content}\n".encode())
    return total.hexdigest()


def write_atomically(path, text):
    temp = path.with_name(path.name + ".tmp")
    with open(temp, "w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    os.replace(temp, path)


def read_json(path):
    """The object in a file that we wrote, or None: a broken one counts as absent."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return found if isinstance(found, dict) else None


def remove(path):
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


@contextlib.contextmanager
def locked(directory):
    """Keep a second run out of a directory; then what is temporary in it is stale.

    Where nothing can be written nobody else writes either.
    """
    if directory.is_dir() and not os.access(directory, os.W_OK, effective_ids=True):
        yield
        return
    directory.mkdir(parents=True, exist_ok=True)
    with open(directory / ".lock", "w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            note(f"another fetch is at work in {directory}; waiting for it")
            fcntl.flock(file, fcntl.LOCK_EX)
        for stale in directory.glob(".tmp-*"):
            remove(stale)
        yield


@contextlib.contextmanager
def temporary(directory):
    """A directory beside the result, gone afterwards whatever happens."""
    path = Path(tempfile.mkdtemp(prefix=".tmp-", dir=directory))
    try:
        yield path
    finally:
        remove(path)


# ---- pins ------------------------------------------------------------------

class Pins:
    """cpython/upstream.toml, read."""

    def __init__(self, path):
        with open(path, "rb") as file:
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
    """A verified tarball, and the Debian fixes that go on top of it, if any."""

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


# ---- the tarball that the user gives ---------------------------------------

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


# ---- the cache -------------------------------------------------------------

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
        os.replace(path, self.path / name)
        return self.path / name


# ---- python.org ------------------------------------------------------------

def download(release, target):
    """Fetch the release's file to `target`, then verify it."""
    label = f"downloading {release['file']}"
    progress, done, total = Progress(label), 0, 0
    note(f"{label} from {release['url'].split('/')[2]}")
    try:
        with urllib.request.urlopen(release["url"], timeout=CONNECT_SECONDS) as answer, \
                open(target, "wb") as file:
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


def verify(path, release, came_from):
    found = sha256(path)
    if found != release["sha256"]:
        raise FetchError(f"{came_from} is not the file that is pinned:\n"
                         f"  expected {release['sha256']}\n  found    {found}\n"
                         "Do not use it. Run again; if it persists, report it.")


def from_python_org(pins, release, cache, work):
    tarball = cache.tarball(release)
    if tarball:
        return Source(release, "python.org", tarball)
    target = work / release["file"]
    download(release, target)
    return Source(release, "python.org", cache.keep(target, release["file"]))


# ---- Debian, through apt ---------------------------------------------------

KEYRINGS = ("/usr/share/keyrings/debian-archive-keyring.gpg",
            "/usr/share/keyrings/debian-archive-keyring.pgp")


def run_apt(command, work, env):
    """One apt program's output; its last complaints where it fails."""
    try:
        run = subprocess.run(command, cwd=work, env=env, stdin=subprocess.DEVNULL,
                             stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                             text=True, errors="replace", timeout=APT_SECONDS)
    except FileNotFoundError:
        raise Unreachable(f"{command[0]} is not on this machine") from None
    except subprocess.TimeoutExpired:
        raise Unreachable(f"{command[0]} gave no answer for {APT_SECONDS} s") from None
    if run.returncode != 0:
        said = [l for l in run.stderr.splitlines() if l[:2] in ("E:", "W:")]
        if "No space left on device" in run.stderr:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(work))
        raise Unreachable(f"{shlex.join(command[:2])}: " + ("; ".join(said[-3:]) or "failed"))
    return run.stdout


def apt_settings(dump):
    """`apt-config dump` as [(name, value)]."""
    return re.findall(r'^(\S+) "(.*)";$', dump, re.M)


def apt_source_files(settings):
    """The machine's own lists of package sources."""
    values = dict(settings)
    etc = Path(values.get("Dir", "/")) / values.get("Dir::Etc", "etc/apt")
    yield etc / values.get("Dir::Etc::sourcelist", "sources.list")
    parts = etc / values.get("Dir::Etc::sourceparts", "sources.list.d")
    if parts.is_dir():
        yield from (p for p in sorted(parts.iterdir()) if p.suffix in (".list", ".sources"))


def one_line_entries(text):
    """[(uri, suite, components, signed-by)] of a .list file."""
    for line in text.splitlines():
        match = re.match(r"\s*deb(?:-src)?\s+(?:\[(.*?)\]\s*)?(\S+)\s+(\S+)\s*([^#]*)", line)
        if match:
            options = dict(o.split("=", 1) for o in (match[1] or "").split() if "=" in o)
            yield match[2], match[3], match[4].split(), options.get("signed-by", "")


def deb822_entries(text):
    """[(uri, suite, components, signed-by)] of a .sources file."""
    lines = [l for l in text.splitlines() if not l.startswith("#")]
    for paragraph in re.split(r"\n[ \t]*\n", "\n".join(lines)):
        # A field goes on in the lines that begin with a blank (an inline key does).
        fields = {name.lower(): value.strip() for name, value in
                  re.findall(r"^([\w-]+):((?:.*)(?:\n[ \t].*)*)", paragraph, re.M)}
        if fields.get("enabled", "yes").lower() in ("no", "false", "0", "off"):
            continue
        for uri in fields.get("uris", "").split():
            for suite in fields.get("suites", "").split():
                yield (uri, suite, fields.get("components", "").split(),
                       fields.get("signed-by", ""))


def mirrors(settings):
    """((uri, signed-by) candidates of Debian's archive, the same of its security archive)."""
    archive, security = {}, {}
    for path in apt_source_files(settings):
        try:
            text = path.read_text(encoding="utf-8", errors="replace")
        except OSError:
            continue
        read = deb822_entries if path.suffix == ".sources" else one_line_entries
        for uri, suite, components, signed_by in read(text):
            if "main" not in components or uri.startswith("cdrom:"):
                continue
            safe = suite.endswith(("-security", "/updates"))
            (security if safe else archive).setdefault(uri.rstrip("/"), signed_by)
    # Other vendors use the same suite names; Debian's own archive ends like this.
    ranked = sorted(archive.items(), key=lambda item: not item[0].endswith("/debian"))
    return ranked, list(security.items())


def stanza(uri, suite, signed_by):
    keyring = signed_by or next((k for k in KEYRINGS if os.path.exists(k)), "")
    lines = ["Types: deb-src", f"URIs: {uri}", f"Suites: {suite}", "Components: main"]
    if keyring:
        # A key that stands in the field itself begins on a line of its own.
        lines.append(f"Signed-By:\n {keyring}" if "\n" in keyring else f"Signed-By: {keyring}")
    return "\n".join(lines) + "\n"


def apt_environment(work, settings, stanzas):
    """An APT_CONFIG that reads and writes nothing of the system's but its Acquire settings.

    The system's hooks must not run: some delete what other packages need.  Its
    proxies and credentials must go on working.
    """
    for name in ("lists/partial", "cache/archives/partial", "sources", "got"):
        (work / name).mkdir(parents=True, exist_ok=True)
    (work / "sources" / "ferrule.sources").write_text("\n".join(stanzas))
    config = [f'{name} "{value}";' for name, value in settings if name.startswith("Acquire::")]
    own = {"Dir::Etc::main": "/dev/null", "Dir::Etc::parts": "/dev/null",
           "Dir::Etc::sourcelist": "/dev/null", "Dir::Etc::sourceparts": work / "sources",
           "Dir::Etc::preferences": "/dev/null", "Dir::Etc::preferencesparts": "/dev/null",
           "Dir::State::lists": work / "lists", "Dir::State::status": "/dev/null",
           "Dir::Cache": work / "cache", "Acquire::AllowInsecureRepositories": "false",
           "Acquire::AllowWeakRepositories": "false", "APT::Update::Error-Mode": "any",
           # The download user could not write here.
           "APT::Sandbox::User": "root"}
    config += [f'{name} "{value}";' for name, value in own.items()]
    (work / "apt.conf").write_text("\n".join(config) + "\n")
    return {**os.environ, "APT_CONFIG": str(work / "apt.conf"), "LC_ALL": "C"}


def apt_versions(work, env, source, version):
    """The Debian versions of this upstream release on offer, newest last."""
    listed = run_apt(["apt-cache", "showsrc", "--only-source", source], work, env)
    every = re.findall(r"^Version: (\S+)$", listed, re.M)
    found = sorted({v for v in every if re.sub(r"^\d+:", "", v).rsplit("-", 1)[0] == version})

    def compare(a, b):
        newer = subprocess.run(["dpkg", "--compare-versions", a, "gt", b])
        return 1 if newer.returncode == 0 else -1

    if not found:
        offered = ", ".join(sorted(set(every))) or "nothing"
        raise Unreachable(f"the mirror has {offered}, not {version}")
    return sorted(found, key=cmp_to_key(compare)) if len(found) > 1 else found


def apt_update(pins, release, work, settings):
    """Private package lists of the suite that has the release; the environment to use them."""
    archive, security = mirrors(settings)
    if not archive:
        raise Unreachable("apt's configuration names no Debian archive")
    errors = []
    for uri, signed_by in archive:
        main = [stanza(uri, release["suite"], signed_by)]
        safe = [stanza(u, release["suite"] + "-security", s) for u, s in security]
        # A mirror without the security suite still has the last point release.
        for stanzas in [main + safe, main] if safe else [main]:
            env = apt_environment(work, settings, stanzas)
            try:
                run_apt(["apt-get", "update"], work, env)
                apt_versions(work, env, pins.source, release["version"])
            except Unreachable as error:
                errors.append(str(error))
                continue
            if safe and stanzas == main:
                note("warning: Debian's security suite is not within reach; "
                     f"its newest fixes may be missing ({errors[-1]})")
            return env
    raise Unreachable(errors[-1])


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


def only(directory, pattern):
    found = sorted(directory.glob(pattern))
    if len(found) != 1:
        raise Unreachable(f"apt-get source brought no {pattern}")
    return found[0]


def from_debian(pins, release, cache, work):
    note(f"looking for {pins.source} {release['version']} in Debian's {release['suite']}")
    clean = {**os.environ, "LC_ALL": "C"}
    settings = apt_settings(run_apt(["apt-config", "dump"], work, clean))
    env = apt_update(pins, release, work, settings)
    revision = apt_versions(work, env, pins.source, release["version"])[-1]
    note(f"downloading {pins.source} {revision} through apt")
    got = work / "got"
    run_apt(["apt-get", "source", "--download-only", "--only-source",
             f"{pins.source}={revision}"], got, env)
    tarball = only(got, "*.orig.tar.xz")
    verify(tarball, release, f"Debian's {tarball.name}")
    if not release["debian_fixes"]:
        return Source(release, "python.org", cache.keep(tarball, release["file"]))
    dsc, fixes = only(got, "*.dsc"), only(got, "*.debian.tar.xz")
    check_dsc(dsc, release, fixes)
    record = {"revision": revision, "dsc": dsc.name, "dsc_sha256": sha256(dsc),
              "fixes": fixes.name}
    tarball = cache.keep(tarball, release["file"])
    cache.keep(dsc, dsc.name)
    fixes = cache.keep(fixes, fixes.name)
    # Last, so that what it names is complete.
    write_atomically(cache.record(release), json.dumps(record, indent=2) + "\n")
    return Source(release, "debian", tarball, fixes, revision)


# ---- choosing --------------------------------------------------------------

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


# ---- the tree --------------------------------------------------------------

def unpack(tarball, target, expected):
    """Unpack a tarball that holds the one directory `expected`; a directory is what one was unpacked to."""
    if tarball.is_dir():
        shutil.copytree(tarball, target / expected, symlinks=True)
        return
    progress = Progress(f"unpacking {tarball.name}")
    size = tarball.stat().st_size
    safe = {"filter": "data"} if hasattr(tarfile, "data_filter") else {}
    try:
        with open(tarball, "rb") as file, tarfile.open(fileobj=file, mode="r:xz") as tar:
            for member in tar:
                top, *rest = member.name.split("/")
                if top != expected or ".." in rest:
                    raise FetchError(f"{tarball}: unexpected path {member.name}")
                # Otherwise root would hand the files to whoever packed them.
                member.uid, member.gid, member.uname, member.gname = \
                    os.getuid(), os.getgid(), "", ""
                tar.extract(member, target, **safe)
                progress(file.tell(), size)
    except (tarfile.TarError, EOFError) as error:
        raise FetchError(f"{tarball} cannot be unpacked: {error}") from None
    finally:
        progress.end()


def chosen_fixes(fixes, patterns, target):
    """Take the fixes wanted out of Debian's packaging; their paths, in the series' order."""
    chosen = []
    with debian_files(fixes) as read:
        for line in read("patches/series").decode().splitlines():
            name = line.split("#", 1)[0].strip()
            if name and any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns):
                path = target / os.path.basename(name)
                path.write_bytes(read(f"patches/{name}"))
                chosen.append(path)
    if not chosen:
        raise FetchError(f"{fixes.name} holds none of the fixes that "
                         "cpython/upstream.toml names")
    return chosen


def same(one, other):
    try:
        return one.read_bytes() == other.read_bytes()
    except OSError:
        return False


def regenerate_configure(tree, old):
    """configure from the patched configure.ac, and nothing else."""
    inputs = ("configure.ac", "aclocal.m4")
    if old and all(same(tree / name, old / name) for name in inputs):
        shutil.copyfile(old / "configure", tree / "configure")
        return
    if shutil.which("autoconf") is None:
        raise FetchError("configure.ac is patched, and autoconf is missing: run `make deps`")
    note("running autoconf")
    run = subprocess.run(["autoconf", "--force"], cwd=tree, stdin=subprocess.DEVNULL,
                         capture_output=True, text=True, errors="replace")
    remove(tree / "autom4te.cache")
    if run.returncode != 0:
        raise FetchError(f"autoconf failed in {tree}:\n{run.stderr.strip()[-1500:]}")


def overlay_files(overlay):
    """The files that are added to the tree as they are, as paths relative to the overlay."""
    if not overlay.is_dir():
        raise FetchError(f"{overlay} is missing: it holds the files to add to the tree "
                         "(an empty directory means none)")
    found = (path.relative_to(overlay) for path in overlay.rglob("*") if path.is_file())
    return sorted(path for path in found if "__pycache__" not in path.parts)


def overlay_digest(overlay):
    """Changes whenever a tree would have to get other files."""
    total = hashlib.sha256()
    for name in overlay_files(overlay):
        content = (overlay / name).read_bytes()
        total.update(f"{name.as_posix()} {len(content)}\n".encode())
        total.update(content)
    return total.hexdigest()


def add_overlay(tree, overlay):
    """Copy the overlay's files into the patched tree; return their names.

    One that is there already is an error: what is upstream's is changed by
    patches, where the change can be seen.
    """
    names = overlay_files(overlay)
    for name in names:
        taken = next((p for p in (name, *name.parents[:-1])
                      if os.path.lexists(tree / p) and (p == name or not (tree / p).is_dir())), None)
        if taken:
            raise FetchError(f"{overlay / name} cannot be added: CPython has a {taken} of its own "
                             "(an overlay only adds files; a patch changes them)")
        (tree / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(overlay / name, tree / name)
    return [name.as_posix() for name in names]


# What CPython's own tools make of the instructions' definitions, as its target
# regen-cases does: (generator, output, inputs).
BYTECODES = "Python/bytecodes.c"
OPTIMIZER_BYTECODES = "Python/optimizer_bytecodes.c"
GENERATED_CASES = (
    ("opcode_id_generator.py", "Include/opcode_ids.h", (BYTECODES,)),
    ("target_generator.py", "Python/opcode_targets.h", (BYTECODES,)),
    ("uop_id_generator.py", "Include/internal/pycore_uop_ids.h", (BYTECODES,)),
    ("py_metadata_generator.py", "Lib/_opcode_metadata.py", (BYTECODES,)),
    ("tier1_generator.py", "Python/generated_cases.c.h", (BYTECODES,)),
    ("tier2_generator.py", "Python/executor_cases.c.h", (BYTECODES,)),
    ("optimizer_generator.py", "Python/optimizer_cases.c.h", (OPTIMIZER_BYTECODES, BYTECODES)),
    ("opcode_metadata_generator.py", "Include/internal/pycore_opcode_metadata.h", (BYTECODES,)),
    ("uop_metadata_generator.py", "Include/internal/pycore_uop_metadata.h", (BYTECODES,)),
)
OLDEST_GENERATOR_PYTHON = (3, 11)


def regenerate_cases(tree, written):
    """Generate anew what depends on a patched input; the files that came out different.

    Without the Rust core they must be what upstream ships, as the patched files are.
    """
    if sys.version_info < OLDEST_GENERATOR_PYTHON:
        raise FetchError(f"{BYTECODES} is patched, and CPython's generators need Python 3.11: "
                         "run with a newer python3 (PYTHON3=)")
    changed = []
    for generator, output, inputs in GENERATED_CASES:
        if not set(inputs) & set(written):
            continue
        before = patches.read(tree / output)
        # -I would hide the generators' own modules from them; -B leaves no __pycache__.
        run = subprocess.run([sys.executable, "-B", f"Tools/cases_generator/{generator}", "-o", output, *inputs],
                             cwd=tree, stdin=subprocess.DEVNULL, capture_output=True, text=True,
                             errors="replace")
        if run.returncode != 0:
            raise FetchError(f"{generator} failed in {tree}:\n{run.stderr.strip()[-1500:]}")
        after = patches.read(tree / output)
        if patches.stock_lines(after) != patches.stock_lines(before):
            raise FetchError(f"{output}, generated anew, is not upstream's where there is no Rust core: "
                             f"what the patches add to {BYTECODES} changes more than the code between its guards")
        if after != before:
            changed.append(output)
    return changed


def settle_times(tree, written, old, old_written):
    """Let make see as changed what differs from the tree before, and only that.

    Patching and copying give each file the present time, also where the result
    is as before; and a file that is patched no more comes back with the old
    time of the tarball.
    """
    names = dict.fromkeys([*written, *old_written])
    for name in names:
        path = tree / name
        if not path.exists():
            continue
        if old and same(path, old / name):
            before = (old / name).stat()
            os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
        else:
            os.utime(path)
    # Else a build would want to make configure again.
    source, made = tree / "configure.ac", tree / "configure"
    if "configure" in names and made.stat().st_mtime_ns <= source.stat().st_mtime_ns:
        stamp = source.stat().st_mtime_ns + 1_000_000
        os.utime(made, ns=(stamp, stamp))


def make_tree(source, pins, directory, overlay, dest):
    """Build <dest>/<version>-<origin>/ anew and swap it in whole; return its stamp."""
    version = source.release["version"]
    place, top = dest / source.name, f"Python-{version}"
    before = read_json(place / "stamp.json") or {}
    old = place / top if before else None
    with temporary(dest) as work:
        fresh = work / "new"
        tree = fresh / top
        fresh.mkdir()
        unpack(source.tarball, fresh, top)
        fixes = chosen_fixes(source.fixes, pins.fixes, work) if source.fixes else []
        progress = Progress(f"patching {top}")
        try:
            written = patches.apply_list(tree, fixes, progress)
            written += patches.apply_series(tree, directory, version, progress)
        except patches.PatchError as error:
            failed = dest / f"{source.name}.failed"
            remove(failed)
            os.replace(fresh, failed)
            raise FetchError(f"{error}\nThe half patched tree is left in {failed} "
                             "to look at.") from None
        finally:
            progress.end()
        if "configure.ac" in written:
            regenerate_configure(tree, old)
            written.append("configure")
        if {BYTECODES, OPTIMIZER_BYTECODES} & set(written):
            written += regenerate_cases(tree, written)
        written += add_overlay(tree, overlay)
        written = list(dict.fromkeys(written))
        settle_times(tree, written, old, before.get("written", []))
        stamp = {"version": version, "origin": source.origin,
                 "debian_revision": source.revision,
                 "fixes": [path.name for path in fixes],
                 "tarball_sha256": source.release["sha256"],
                 "tarball": str(source.tarball),
                 "patches_sha256": patches.digest(directory, version),
                 "overlay_sha256": overlay_digest(overlay),
                 "fixes_sha256": source.fixes_sha256(),
                 "fixes_chosen": pins.fixes if source.fixes else [],
                 "series": "debian" if source.fixes and pins.fixes == ["*"] else "fixes",
                 "written": written}
        write_atomically(fresh / "stamp.json", json.dumps(stamp, indent=2) + "\n")
        # A crash between the two leaves no tree, and the next run makes it.
        if place.exists():
            os.replace(place, work / "old")
        os.replace(fresh, place)
    remove(dest / f"{source.name}.failed")
    return stamp


def finished(release, origin, pins, directory, overlay, dest, fixed=False):
    """The stamp of a tree that is as the pins, patches and overlay want it, else None.

    Needs neither the cache nor a network, so that a finished tree stays usable.
    """
    name = f"{release['version']}-{origin}"
    stamp = read_json(dest / name / "stamp.json")
    if stamp is None or not (dest / name / f"Python-{release['version']}").is_dir():
        return None
    wanted = {"tarball_sha256": release["sha256"],
              "patches_sha256": patches.digest(directory, release["version"]),
              "overlay_sha256": overlay_digest(overlay),
              "fixes_chosen": pins.fixes if fixed or origin == "debian" else []}
    same = {"fixes", "series"} <= stamp.keys() and all(stamp.get(key) == value for key, value in wanted.items())
    return stamp if same else None


def publish(stamp, dest, default):
    """current.json says which tree is meant; the builds read it. Return the tree's path."""
    tree = dest / f"{stamp['version']}-{stamp['origin']}" / f"Python-{stamp['version']}"
    tree = tree.resolve()
    path = str(tree.relative_to(ROOT)) if tree.is_relative_to(ROOT) else str(tree)
    keys = ("version", "origin", "debian_revision", "fixes", "series", "tarball_sha256")
    current = {key: stamp[key] for key in keys}
    current |= {"source": path, "patches_sha256": stamp["patches_sha256"]}
    if read_json(dest / "current.json") != current:
        write_atomically(dest / "current.json", json.dumps(current, indent=2) + "\n")
    chosen = {"version": stamp["version"], "origin": stamp["origin"]}
    if default and read_json(dest / "default.json") != chosen:
        write_atomically(dest / "default.json", json.dumps(chosen, indent=2) + "\n")
    return path


# ---- all together ----------------------------------------------------------

def default_cache(env):
    if env.get("FERRULE_CACHE"):
        return Path(env["FERRULE_CACHE"])
    # A source release has all files with it.
    if (ROOT / "sources").is_dir():
        return ROOT / "sources"
    base = env.get("XDG_CACHE_HOME") or Path(env.get("HOME") or "~").expanduser() / ".cache"
    return Path(base) / "ferrule"


def settled_first(attempts, record):
    """Stay with what the last run chose, whatever has come within reach or into the cache since."""
    before = read_json(record) or {}
    return sorted(attempts, key=lambda attempt: (attempt[0]["version"], attempt[1]) !=
                  (before.get("version"), before.get("origin")))


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


def fetch(args, env):
    pins = Pins(args.config)
    version = args.version or env.get("CPYTHON_VERSION") or None
    tarball, debian = env.get("CPYTHON_TARBALL"), env.get("CPYTHON_DEBIAN")
    pins.take_series(env.get("CPYTHON_SERIES") or SERIES[0])
    if debian and not tarball:
        raise FetchError("CPYTHON_DEBIAN= goes with CPYTHON_TARBALL=: name the release's tarball too")
    dest, cache = Path(args.dest).absolute(), Cache(default_cache(env).absolute())
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
            order = settled_first(attempts, dest / ("current.json" if version else "default.json"))
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
        path = publish(stamp, dest, default=not version and not tarball)
    print(f"{describe(stamp)}: {path}{' is up to date' if done else ''}")


def arguments(argv):
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dest", default=str(ROOT / "build" / "src"), metavar="DIR",
                        help="where the tree goes (default: build/src)")
    parser.add_argument("--version", help="the release, instead of CPYTHON_VERSION")
    parser.add_argument("--refresh", action="store_true",
                        help="ask Debian for newer fixes than those in the cache")
    parser.add_argument("--patches", metavar="DIR",
                        help="the project's patches (default: patches/<major.minor>)")
    parser.add_argument("--overlay", default=str(ROOT / "overlay"), metavar="DIR",
                        help="files to add to the tree as they are (default: overlay)")
    parser.add_argument("--config", default=str(HERE / "upstream.toml"), metavar="FILE",
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
        note("interrupted; run again to go on")
        return 130
    return 1


if __name__ == "__main__":
    sys.exit(main())
