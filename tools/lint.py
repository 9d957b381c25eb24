"""`make lint`, of Python: ruff and mypy by pyproject.toml, in an environment below build/ that is made where it is missing."""

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
    tools = Path(python).parent
    # Each says what it has found, so that one run shows all.
    checks = [("ruff", "check", "--quiet"), ("mypy", "--no-error-summary")]
    return max([subprocess.run([tools / name, *words], cwd=ROOT).returncode for name, *words in checks])


if __name__ == "__main__":
    sys.exit(main())
