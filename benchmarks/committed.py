"""The committed instruction counts: what a call benchmark's iteration may cost on the release build.

Counted are the instructions in the interpreter's own code: the C library picks its string functions by the CPU, so a
sum with them would differ between machines. Another compiler makes other code; the file says whose figures it has.
"""

import json
import os
import tomllib
from collections.abc import Mapping
from typing import Any

from measuring import CALLGRIND_ITERATIONS, ROOT, Instructions, run

Counts = Mapping[str, Mapping[str, Instructions]]

FILE = os.path.join(ROOT, "benchmarks", "instructions.toml")
UPDATE = "make bench-instructions-update"
ALLOWED = 1.01

HEADER = f"""\
# Instructions of one iteration of each call benchmark, in the release build's own code. `make test-release` fails where
# one is more than 1 % above its figure. To change them on purpose: `{UPDATE}`, and say in the commit why.
"""

FACTS = """
import json, sys, sysconfig
import _framecore
core = _framecore.info()
print(json.dumps({
    "cpython": core["debian_revision"] or core["cpython"],
    "compiler": sys.version[sys.version.rindex("[") + 1:].partition(".")[0],
    "rustc": core["rustc"].rpartition(".")[0],
    "cross_lto": core["cross_lto"],
    "profile_guided": "--enable-optimizations" in sysconfig.get_config_var("CONFIG_ARGS"),
    "flags": sysconfig.get_config_var("PY_CFLAGS"),
}))
"""


def facts_of(python: str) -> dict[str, Any]:
    """What the figures depend on, beside the project's own code."""
    return json.loads(run([python, "-I", "-c", FACTS]).stdout)


def per_iteration(counts: Counts) -> dict[str, float]:
    return {name: round(row["python"].own / CALLGRIND_ITERATIONS) for name, row in counts.items()}


def write(path: str, counts: Counts, facts: Mapping[str, Any]) -> None:
    with open(path, "w", encoding="utf-8") as file:
        file.write(HEADER + "\n[build]\n")
        file.writelines(f"{key} = {json.dumps(value)}\n" for key, value in facts.items())
        file.write("\n[instructions]\n")
        file.writelines(f"{name} = {value}\n" for name, value in per_iteration(counts).items())


def check(path: str, counts: Counts, facts: Mapping[str, Any]) -> tuple[list[str], bool]:
    """Compare with the committed figures: (lines to print, whether all is well)."""
    with open(path, "rb") as file:
        committed = tomllib.load(file)
    others = [f"{key}: {facts.get(key)}, the figures are for {value}" for key, value in committed["build"].items()
              if facts.get(key) != value]
    if others:
        return ["not compared with the committed figures: this build is made by other tools", *others], True
    lines, fine = [], True
    for name, now in per_iteration(counts).items():
        before = committed["instructions"].get(name)
        if before is None:
            lines.append(f"{name}: no committed figure ({now:,} now): {UPDATE}")
            fine = False
        elif now > before * ALLOWED:
            lines.append(f"{name}: {now:,} instructions, {before:,} are committed: {100 * (now / before - 1):+.2f} %")
            fine = False
        elif now < before / ALLOWED:
            lines.append(f"{name}: {now:,} instructions, {before:,} are committed: better; keep it with {UPDATE}")
    for name in committed["instructions"].keys() - counts.keys():
        lines.append(f"{name}: a committed figure for a benchmark that is gone: {UPDATE}")
        fine = False
    return lines or ["all within 1 % of the committed figures"], fine
