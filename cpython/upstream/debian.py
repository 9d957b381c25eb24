"""A release and its fixes from Debian's archive, by way of apt."""

import errno
import json
import os
import re
import shlex
import subprocess
from functools import cmp_to_key
from pathlib import Path

from .files import sha256, write_atomically
from .messages import Unreachable, note
from .pins import Source, check_dsc, verify

APT_SECONDS = 900
KEYRINGS = ("/usr/share/keyrings/debian-archive-keyring.gpg",
            "/usr/share/keyrings/debian-archive-keyring.pgp")


def run_apt(command, work, env):
    """One apt program's output; its last complaints where it fails."""
    try:
        run = subprocess.run(command, cwd=work, env=env, stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace", timeout=APT_SECONDS)
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
        # A field continues in the lines that begin with a blank (an inline key does).
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
    keyring = signed_by or next((k for k in KEYRINGS if Path(k).exists()), "")
    lines = ["Types: deb-src", f"URIs: {uri}", f"Suites: {suite}", "Components: main"]
    if keyring:
        # A key that is in the field itself begins on a line of its own.
        lines.append(f"Signed-By:\n {keyring}" if "\n" in keyring else f"Signed-By: {keyring}")
    return "\n".join(lines) + "\n"


def apt_environment(work, settings, stanzas):
    """An APT_CONFIG that reads and writes nothing of the system's but its Acquire settings.

    The system's hooks must not run: some delete what other packages need.  Its
    proxies and credentials must keep working.
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
