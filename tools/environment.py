"""What the programs that are started here inherit."""

import os
import re
from collections.abc import Mapping

from tools.choices import CONFIGURE_VARIABLES, RELEASE_VARIABLES


def split_flags(environment: Mapping[str, str]) -> tuple[str, str]:
    """The flags of the make that called, and the variables on its command line."""
    flags, *variables = re.split(r"(?:^|\s)--(?=\s|$)", environment.get("MAKEFLAGS", ""), maxsplit=1)
    return flags, "".join(variables)


def make_flags(environment: Mapping[str, str]) -> str:
    return split_flags(environment)[0]


def on_command_line(environment: Mapping[str, str]) -> list[str]:
    """The names of those variables; make puts their values into the environment."""
    return re.findall(r"(?<!\\)\s(\w+)[:+?]*=", split_flags(environment)[1])


def for_children(environment: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Without what is chosen for a build: that is said on the command line, all of it, and from one place."""
    ours = {*CONFIGURE_VARIABLES, *RELEASE_VARIABLES, "MAKEOVERRIDES", "MFLAGS", "MAKEFLAGS"}
    kept = {name: value for name, value in environment.items() if name not in ours}
    flags = make_flags(environment)
    # A variable on the outer make's command line would win over CPython's Makefile.
    return {**kept, "MAKEFLAGS": flags} if flags else kept


def jobs(environment: Mapping[str, str] = os.environ) -> list[str]:
    """`-j` for a make that is not under another make's job server."""
    if any(word.startswith(("-j", "--jobserver")) for word in make_flags(environment).split()):
        return []
    return [f"-j{os.cpu_count() or 1}"]
