"""`make lint`, of Python: ruff, mypy and pyright by pyproject.toml, in an environment below build/ that is made where it is missing."""

import subprocess
import sys
from pathlib import Path

from benchmarks.suite.environment import EnvironmentFailed, ensure
from tools.places import BUILD, ROOT


def main() -> int:
    try:
        python, _ = ensure(str(BUILD / "lint-env"), sys.executable, str(ROOT / "tools" / "requirements-lint.txt"))
    except EnvironmentFailed as failure:
        sys.exit(f"ferrule: {failure}")
    tools, benchmarks = Path(python).parent, ROOT / "benchmarks"
    mypy: list[str | Path] = [tools / "mypy", "--no-error-summary", "--config-file", ROOT / "pyproject.toml"]
    # The benchmarks are run as files by a Python 3.13, and import each other as such.
    checks: list[tuple[str, Path, list[str | Path]]] = [
        ("ruff", ROOT, [tools / "ruff", "check", "--quiet"]), ("mypy", ROOT, mypy),
        ("mypy, of benchmarks", benchmarks, [*mypy, "--python-version", "3.13", *sorted(benchmarks.glob("*.py"))]),
        ("mypy, of examples", ROOT, ["env", f"MYPYPATH={ROOT / 'overlay' / 'Lib'}", *mypy, "--python-version", "3.13", "--strict",
                                     ROOT / "tests" / "typing" / "hooks.py", *sorted((ROOT / "examples" / "hooks").glob("*.py"))]),
        ("pyright", ROOT, [tools / "pyright", "--warnings"])]
    # Each prints what it has found, so that one run shows all.
    failed = [name for name, place, command in checks if subprocess.run(command, cwd=place).returncode]
    for name in failed:
        print(f"FAILED: {name}", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
