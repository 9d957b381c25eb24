"""What a program needs before its tests run: wheels, one environment for each interpreter, its source, a database.

All of it is kept below build/real-programs/NAME, and used again as long as the requirements are the same.
"""

import contextlib
import json
import os
import pwd
import shutil
import socket
import subprocess
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
PLACE = ROOT / "build" / "real-programs"
CONSTRAINTS = HERE / "constraints.txt"

# Lets tests/hooked install its hook where FERRULE_SUITE_HOOK names one; it does nothing elsewhere. PYTHONPATH would do as
# well, but programs' own tests look at that. In a virtual environment CPython reads .pth files twice.
INSTALL = f"""
import site
if not hasattr(site, "ferrule_hook"):
    site.ferrule_hook = True
    with open({str(ROOT / "tests" / "hooked" / "sitecustomize.py")!r}) as file:
        exec(compile(file.read(), file.name, "exec"), {{}})
"""
HOOK = f'import os; "FERRULE_SUITE_HOOK" in os.environ and exec({INSTALL!r}, {{}})\n'


class Missing(Exception):
    """Why a program cannot be tried here."""


def clean(**more: str) -> dict[str, str]:
    """The environment without what is set for another Python."""
    kept = {key: value for key, value in os.environ.items() if not key.startswith("PYTHON") and key not in ("VIRTUAL_ENV", "MAKEFLAGS")}
    return {**kept, "LC_ALL": "C.UTF-8", **more}


def say(words: list, log: Path, seconds: int = 1800, **options) -> None:
    """Runs what is to succeed."""
    with log.open("a") as file:
        file.write(f"$ {' '.join(map(str, words))}\n")
        file.flush()
        try:
            done = subprocess.run(words, stdin=subprocess.DEVNULL, stdout=file, stderr=subprocess.STDOUT, timeout=seconds, env=clean(), **options)
        except subprocess.TimeoutExpired:
            raise Missing(f"{words[0]} took more than {seconds} s (log: {log})") from None
    if done.returncode:
        raise Missing(f"exit status {done.returncode} of `{' '.join(map(str, words[1:6]))} ...` (log: {log})")


class Kept:
    """A directory that is made anew when what it is made from is another."""

    def __init__(self, directory: Path, facts: object):
        self.directory, self.stamp = directory, directory / "ferrule-made-from.json"
        self.facts = json.dumps(facts, sort_keys=True)

    def current(self) -> bool:
        return self.stamp.exists() and self.stamp.read_text() == self.facts

    def begin(self) -> None:
        shutil.rmtree(self.directory, ignore_errors=True)
        self.directory.mkdir(parents=True)

    def end(self) -> None:
        self.stamp.write_text(self.facts)


def pip(python: Path, *words: str) -> list:
    return [python, "-m", "pip", "--disable-pip-version-check", "--quiet", *words]


def builder(stock: Path) -> Path:
    """A Python with pip, of the stock interpreter, that gets and builds what both sides are given."""
    kept = Kept(PLACE / "tools", str(stock))
    if not kept.current():
        kept.begin()
        say([stock, "-m", "venv", "--clear", kept.directory], PLACE / "tools.log")
        kept.end()
    return kept.directory / "bin" / "python"


def wheels(name: str, requirements: list[str], stock: Path) -> Path:
    """Wheels of all requirements and of what they need. Both sides are given these very files."""
    kept = Kept(PLACE / name / "wheels", [requirements, CONSTRAINTS.read_text()])
    if not kept.current():
        kept.begin()
        say(pip(builder(stock), "wheel", "--prefer-binary", "--constraint", CONSTRAINTS, "--wheel-dir", kept.directory, *requirements),
            PLACE / name / "wheels.log")
        kept.end()
    return kept.directory


def environment(name: str, side: str, interpreter: Path, found: Path) -> Path:
    """The environment's python."""
    made = sorted(path.name for path in found.glob("*.whl"))
    kept = Kept(PLACE / name / f"environment-{side}", [str(interpreter), made, HOOK])
    inside = kept.directory / "bin" / "python"
    if not kept.current():
        kept.begin()
        log = PLACE / name / f"environment-{side}.log"
        say([interpreter, "-m", "venv", "--clear", kept.directory], log)
        say(pip(inside, "install", "--no-index", "--no-deps", *(str(found / wheel) for wheel in made)), log)
        library = next((kept.directory / "lib").glob("python3*")) / "site-packages"
        (library / "ferrule-suite-hook.pth").write_text(HOOK)
        kept.end()
    return inside


def source(requirement: str, stock: Path) -> Path:
    """A program's source archive, as it is on the package index: many wheels have no tests."""
    wanted, version = requirement.split("==")
    place = PLACE / "sources"
    place.mkdir(parents=True, exist_ok=True)

    def there() -> list[Path]:
        return [path for path in place.glob("*.tar.gz") if path.name.lower().replace("-", "_") == f"{wanted}_{version}.tar.gz".lower().replace("-", "_")]

    if not there():
        say(pip(builder(stock), "download", "--no-deps", "--no-binary", wanted, "--dest", place, requirement), PLACE / "sources.log")
    if not there():
        raise Missing(f"there is no source archive of {requirement}")
    return there()[0]


def unpack(archive: Path, directory: Path, remove: list[str]) -> None:
    """Anew for each run; without what would hide the installed package."""
    directory.mkdir(parents=True)
    subprocess.run(["tar", "-xf", archive, "-C", directory, "--strip-components=1", "--no-same-owner"], check=True)
    for pattern in remove:
        gone = list(directory.glob(pattern))
        if not gone:
            raise Missing(f"{archive.name} has no {pattern} to take away")
        for path in gone:
            shutil.rmtree(path) if path.is_dir() else path.unlink()


@contextlib.contextmanager
def postgresql():
    """A cluster in a directory of its own, of an unprivileged user's; gives the variables by which clients find it."""
    programs = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
    if not programs:
        raise Missing("PostgreSQL is not there (Debian: postgresql)")
    programs = programs[-1].parent
    # PostgreSQL refuses to run as root.
    user = "postgres" if os.geteuid() == 0 else pwd.getpwuid(os.geteuid()).pw_name
    become = ["setpriv", f"--reuid={user}", f"--regid={user}", "--init-groups"] if os.geteuid() == 0 else []
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        port = one.getsockname()[1]
    place = Path(tempfile.mkdtemp(prefix="ferrule-postgresql-"))
    log = PLACE / "postgresql.log"
    try:
        if become:
            shutil.chown(place, user)
        place.chmod(0o755)
        say([*become, programs / "initdb", "--pgdata", place / "data", "--auth=trust", "--username=postgres", "--encoding=UTF8", "--no-sync"], log, cwd=place)
        options = f"-c listen_addresses=127.0.0.1 -c port={port} -c unix_socket_directories={place} -c fsync=off -c max_connections=200"
        # pg_ctl leaves the server its own output; a file of its own, so that nothing waits for that.
        say([*become, programs / "pg_ctl", "--pgdata", place / "data", "--wait", "--log", place / "server.log", "--options", options, "start"], log, cwd=place)
        try:
            yield {"PGHOST": "127.0.0.1", "PGPORT": str(port), "PGUSER": "postgres", "PGDATABASE": "postgres"}
        finally:
            say([*become, programs / "pg_ctl", "--pgdata", place / "data", "--mode", "immediate", "stop"], log, cwd=place)
    finally:
        shutil.rmtree(place, ignore_errors=True)


SERVICES = {"postgresql": postgresql}
