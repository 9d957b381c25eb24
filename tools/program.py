"""The `main` of a program that fetches or builds."""

import sys
from collections.abc import Callable

from cpython.upstream.messages import FetchError
from tools.errors import BuildError, explain


def run(main: Callable[[list[str]], None]) -> None:
    """Runs `main` with the arguments of the command line. An error of a build ends the program with its message alone."""
    try:
        main(sys.argv[1:])
    except (BuildError, FetchError) as error:
        sys.exit(f"ferrule: {error}")
    except OSError as error:
        sys.exit(f"ferrule: {explain(error)}")
