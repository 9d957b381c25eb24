"""A Debian in a directory: made by debootstrap, with the machine's own mirror, and commands run in it."""

import contextlib
import hashlib
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import IO

ROOT = Path(__file__).resolve().parents[2]

from cpython.upstream.debian import apt_settings, mirrors

# What dpkg and apt write about themselves, and what is made when something runs.
PASSING = re.compile(r"^/(proc|sys|dev|tmp|run|root|var/(cache|log|lib/(apt|dpkg|systemd|ucf|texmf)|tmp))(/|$)|/etc/(ld\.so\.cache|\.pwd\.lock)$"
                     r"|/__pycache__(/|$)|^/usr/lib/locale|/etc/resolv.conf|^/packages(/|$)|^/programs(/|$)")


# Debian's releases that packages are made for.
RELEASES = {"trixie": 13, "bookworm": 12}
# What the mark of a chroot says when it is complete.
DONE = "done\n"


class Failed(Exception):
    """What a check found; the text says it."""


def source_release() -> Path:
    """What `make dist` has made; where it has made nothing, the program ends and says so."""
    releases = sorted((ROOT / "build/dist").glob("ferrule-*.tar.xz"))
    if not releases:
        sys.exit(f"{Path(sys.argv[0]).name}: build/dist has no source release: make dist")
    return releases[-1]


def counted(steps: Iterable[bool]) -> int:
    """Goes through steps that say whether they passed, and prints the counts; an error is a failure too, and ends them. Returns the exit status."""
    passed = failed = 0
    try:
        for fine in steps:
            passed, failed = passed + fine, failed + (not fine)
    except (Failed, subprocess.SubprocessError) as error:
        print(f"{Path(sys.argv[0]).name}: {error}", flush=True)
        failed += 1
    print(f"{passed} passed, {failed} failed, 0 skipped")
    return 1 if failed or not passed else 0


class Chroot:
    """A Debian in a directory."""

    def __init__(self, root: Path, suite: str = "trixie"):
        self.root, self.suite = root, suite

    def make(self) -> None:
        mark = self.root / ".ferrule-chroot"
        if mark.exists() and mark.read_text() == DONE:
            return
        if mark.exists():
            # One that was interrupted.
            shutil.rmtree(self.root)
        elif self.root.exists() and any(self.root.iterdir()):
            raise Failed(f"{self.root} is not empty, and no chroot that was made here: name another directory with --root")
        self.root.mkdir(parents=True, exist_ok=True)
        mark.write_text("begun\n")
        settings = apt_settings(subprocess.run(["apt-config", "dump"], capture_output=True, text=True, check=True).stdout)
        archive, security = mirrors(settings)
        if not archive:
            raise Failed("apt's configuration names no archive of Debian's")
        subprocess.run(["debootstrap", "--variant=minbase", self.suite, self.root, archive[0][0]], check=True, stdout=subprocess.DEVNULL)
        lines = [f"deb {archive[0][0]} {self.suite} main", *(f"deb {uri} {self.suite}-security main" for uri, _ in security)]
        (self.root / "etc/apt/sources.list").write_text("\n".join(lines) + "\n")
        # The machine's way to the archive is the chroot's.
        own = [f'{name} "{value}";' for name, value in settings if name.startswith("Acquire::") and "::Proxy" in name]
        (self.root / "etc/apt/apt.conf.d/80ferrule").write_text(
            "\n".join([*own, 'APT::Install-Recommends "false";', 'Acquire::Languages "none";']) + "\n")
        with contextlib.suppress(OSError):
            shutil.copyfile("/etc/resolv.conf", self.root / "etc/resolv.conf")
        # Whom the machine trusts besides, for machines that use a proxy; ca-certificates takes them up when it is installed.
        for certificate in Path("/usr/local/share/ca-certificates").glob("*.crt"):
            place = self.root / "usr/local/share/ca-certificates"
            place.mkdir(parents=True, exist_ok=True)
            shutil.copy(certificate, place)
        self.run("apt-get", "update")
        mark.write_text(DONE)

    def run(self, *words: str, check: bool = True, seconds: int = 1800, network: bool = True,
            environment: dict[str, str] | None = None, output: IO[str] | None = None) -> subprocess.CompletedProcess:
        """A command in the chroot, with a /proc and a /dev that are gone with it. What it says is in the answer, or goes to `output`."""
        said = {"capture_output": True} if output is None else {"stdout": output, "stderr": subprocess.STDOUT}
        script = 'mount -t proc proc "$0/proc" && mount --rbind /dev "$0/dev" && root=$0 && exec chroot "$root" "$@"'
        # A shell starts what is in its background with SIGINT ignored, and Python then cannot interrupt itself. `unshare` takes no notice
        # of other signals: it is killed with this program, however that ends, and what is inside with it.
        done = subprocess.run(
            ["setpriv", "--pdeathsig", "KILL", "env", "--default-signal=INT", "unshare", "--mount", "--pid", "--fork", "--kill-child",
             *([] if network else ["--net"]),
             "sh", "-c", script, self.root, *words],
            stdin=subprocess.DEVNULL, text=True, errors="replace", timeout=seconds, **said,
            env={"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/root", "LC_ALL": "C.UTF-8", "DEBIAN_FRONTEND": "noninteractive",
                 "PYTHONDONTWRITEBYTECODE": "1", "TERM": "dumb", **(environment or {})})
        if check and done.returncode != 0:
            answer = (done.stdout or "") + (done.stderr or "")
            raise Failed(f"{' '.join(words)[:200]}: exit status {done.returncode}\n{answer.strip()[-3000:]}")
        return done

    def install(self, *names: str) -> None:
        self.run("apt-get", "install", "-y", "--allow-downgrades", *names)

    def files(self) -> dict[str, str]:
        """Each file that matters, and what is in it."""
        found = {}
        for directory, names, files in os.walk(self.root):
            inside = "/" + os.path.relpath(directory, self.root)
            names[:] = [name for name in names if not PASSING.match(os.path.normpath(f"{inside}/{name}"))
                        and not Path(directory, name).is_symlink() and name != "__pycache__"]
            for name in files:
                path, shown = Path(directory, name), os.path.normpath(f"{inside}/{name}")
                if PASSING.search(shown):
                    continue
                if path.is_symlink():
                    found[shown] = "-> " + str(path.readlink())
                elif path.is_file():
                    with path.open("rb") as file:
                        found[shown] = hashlib.file_digest(file, "sha256").hexdigest()
        return found
