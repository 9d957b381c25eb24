"""`make show`: what is chosen, what it comes to, and what is built of it."""

import json
import shlex

from tools import choices, making, places, toolchain
from tools.choices import Choices
from tools.configuring import is_as_chosen
from tools.errors import BuildError
from tools.variants import VARIANTS


def show() -> None:
    # In one piece: `make show | head` closes the pipe after the first.
    print("\n".join(lines()) + "\n", end="")


def lines() -> list[str]:
    recorded = choices.read()
    chosen = recorded or Choices()
    variables = {name: value for name, value in chosen.variables.items() if name not in choices.RELEASE_VARIABLES}
    return [
        f"chosen      {chosen.described()}" if recorded else "chosen      nothing yet: the defaults",
        f"release     {release(chosen)}",
        f"flags       {shlex.join(chosen.flags) or 'none'}",
        f"variables   {' '.join(f'{name}={shlex.quote(value)}' for name, value in variables.items()) or 'none'}",
        f"tools       {tools(chosen)}",
        "builds",
        *(f"  {variant:20}{state(variant):10}{facts.what}{details(variant, recorded)}" for variant, facts in VARIANTS.items()),
    ]


def release(chosen: Choices) -> str:
    facts = source()
    if facts is None:
        wanted = [f"{name}={chosen.variables[name]}" for name in choices.RELEASE_VARIABLES if name in chosen.variables]
        return f"{' '.join(wanted) or 'the default'}, not fetched yet"
    fixes = f", Debian {facts['debian_revision']} with {len(facts['fixes'])} of its fixes" if facts["debian_revision"] else ""
    return f"CPython {facts['version']} from {facts['origin']}{fixes}, in {facts['source']}"


def source() -> dict | None:
    """The source tree's facts, where it is there."""
    try:
        return json.loads(places.source_facts().read_text())
    except (FileNotFoundError, ValueError):
        return None


def tools(chosen: Choices) -> str:
    try:
        rust = toolchain.find_rust(required=False)
        compiler = toolchain.find_compiler(rust.llvm if rust else None, chosen.variables.get("CC"))
    except BuildError as error:
        return str(error)
    return f"{compiler.description}, " + ("rustc {}.{} (LLVM {})".format(*rust.version, rust.llvm) if rust else "no rustc")


def state(variant: str) -> str:
    if making.finished(variant).exists():
        return "built"
    return "begun" if (places.BUILD / variant / "Makefile").exists() else "-"


def details(variant: str, chosen: Choices | None) -> str:
    """Of one that is configured: where it goes, whether the linker inlines Rust into C, and whether it is out of date."""
    facts = making.facts_of(variant)
    if not facts:
        return ""
    older = "" if is_as_chosen(variant, chosen) else "; of other choices than those above"
    inlined = "no Rust"
    if facts.get("RUST_CORE") == "1":
        inlined = "yes" if facts.get("RUST_CORE_CROSS_LTO") == "1" else "no"
    return f" (cross-language LTO: {inlined}; compiler {facts.get('CC')}; to {facts.get('prefix')}{older})"
