"""The virtual environments that benchmarks need, made by the project in build/.

Standard library only: it runs before anything is installed. One environment measures and draws, under the machine's
own python3; each measured interpreter has one with what pyperformance's benchmarks import.
"""

import contextlib
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile

BENCHMARKS = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
ROOT = os.path.dirname(BENCHMARKS)
HARNESS = os.path.join(ROOT, "build", "bench-env")
HARNESS_REQUIREMENTS = os.path.join(BENCHMARKS, "requirements.txt")
BROWSER_REQUIREMENTS = os.path.join(BENCHMARKS, "requirements-browser.txt")
PYPERFORMANCE_REQUIREMENTS = os.path.join(BENCHMARKS, "requirements-pyperformance.txt")
STAMP = "ferrule-requirements.json"


class EnvironmentFailed(Exception):
    """A message that says what could not be made."""


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def blocks(requirements: str) -> list[str]:
    """The requirements of a pinned file, one by one: each with its hashes."""
    with open(requirements, encoding="utf-8") as file:
        text = file.read()
    return re.findall(r"^[A-Za-z0-9].*(?:\n    --hash.*)*", text, re.MULTILINE)


def pip(python: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([python, "-m", "pip", "--disable-pip-version-check", "install", "--quiet", *arguments],
                          capture_output=True, text=True, stdin=subprocess.DEVNULL)


def install_one_by_one(python: str, requirements: str) -> list[str]:
    """What can be installed; returns the names of the rest."""
    missing = []
    for block in blocks(requirements):
        with tempfile.NamedTemporaryFile("w", suffix=".txt") as file:
            file.write(block + "\n")
            file.flush()
            if pip(python, "--require-hashes", "--no-deps", "-r", file.name).returncode:
                missing.append(block.split("==")[0])
    return missing


def ensure(directory: str, python: str, requirements: str, all_or_nothing: bool = True) -> tuple[str, list[str]]:
    """An environment with what a pinned file says; made only where it is not there. Returns (its python, missing)."""
    with open(requirements, "rb") as file:
        stamp = {"python": os.path.realpath(python), "requirements": hashlib.sha256(file.read()).hexdigest()}
    path = os.path.join(directory, STAMP)
    inside = os.path.join(directory, "bin", "python")
    try:
        with open(path, encoding="utf-8") as file:
            found = json.load(file)
        if {key: found[key] for key in stamp} == stamp:
            return inside, found["missing"]
    except (FileNotFoundError, ValueError, KeyError):
        pass
    say(f"making {os.path.relpath(directory)} (once; a minute)")
    shutil.rmtree(directory, ignore_errors=True)
    made = subprocess.run([python, "-m", "venv", directory], capture_output=True, text=True)
    if made.returncode:
        raise EnvironmentFailed(f"{python} makes no virtual environment (Debian: python3-venv):\n"
                                + made.stdout + made.stderr)
    done = pip(inside, "--require-hashes", "-r", requirements)
    missing = []
    if done.returncode:
        if all_or_nothing:
            raise EnvironmentFailed(f"pip could not install {os.path.relpath(requirements)}:\n{done.stderr[-2000:]}")
        say("not all could be installed together; one by one")
        missing = install_one_by_one(inside, requirements)
    with open(path, "w", encoding="utf-8") as file:
        json.dump({**stamp, "missing": missing}, file)
    return inside, missing


def ensure_harness() -> str:
    return ensure(HARNESS, sys.executable, HARNESS_REQUIREMENTS)[0]


def ensure_browser_tools() -> None:
    """What drives a browser in the tests, installed into the harness's environment; the browser is the system's."""
    python = ensure_harness()
    if subprocess.run([python, "-c", "import playwright"], capture_output=True).returncode:
        say("installing what drives a browser (once)")
        done = pip(python, "--require-hashes", "-r", BROWSER_REQUIREMENTS)
        if done.returncode:
            raise EnvironmentFailed(f"pip could not install {os.path.relpath(BROWSER_REQUIREMENTS)}:\n"
                                    + done.stderr[-2000:])


def ensure_measured(name: str, python: str) -> tuple[str, list[str]]:
    """For one interpreter: (the environment's python, what could not be installed)."""
    return ensure(os.path.join(ROOT, "build", f"bench-env-{name}"), python, PYPERFORMANCE_REQUIREMENTS,
                  all_or_nothing=False)


def enable_compiler(inside: str, packages: str | None) -> None:
    """Whether each process of an environment starts with ferrule_jit, which is in the directory `packages`."""
    asked = [inside, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"]
    path = os.path.join(subprocess.check_output(asked, text=True).strip(), "ferrule_jit_enabled.pth")
    if packages is None:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path)
        return
    with open(path, "w", encoding="utf-8") as file:
        file.write(f"import sys; sys.path.append({packages!r}); import ferrule_jit; ferrule_jit.enable()\n")


def link_in(inside: str, python: str) -> str:
    """The path of another link of the interpreter whose environment has `inside` as its python."""
    path = os.path.join(os.path.dirname(inside), os.path.basename(python))
    if not os.path.lexists(path):
        os.symlink(python, path)
    return path


def enter_harness() -> None:
    """Continue in the harness's environment: starts this program anew there unless it is there already."""
    if os.path.realpath(sys.prefix) != os.path.realpath(HARNESS):
        try:
            python = ensure_harness()
        except EnvironmentFailed as failure:
            raise SystemExit(str(failure)) from None
        os.execv(python, [python, *sys.argv])
