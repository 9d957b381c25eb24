"""What became of each function: read from the compiler, by source line."""

import dataclasses
import opcode
import re

from . import _core


@dataclasses.dataclass(frozen=True)
class Version:
    """Machine code for arguments of certain types; from the head of a loop on, if `line` is one."""

    line: int | None
    types: tuple
    returns: str | None
    size: int
    seconds: float
    entered: int
    lines: frozenset | None = None      # of a loop that is compiled without what is around it

    def text(self):
        took = f"{self.size} bytes in {self.seconds * 1000:.2f} ms, entered {times(self.entered)}"
        if self.line is None:
            return f"compiled for ({', '.join(self.types)}) -> {self.returns or 'other values'}: {took}"
        return f"compiled from the loop in line {self.line} on: {took}"


@dataclasses.dataclass(frozen=True)
class Function:
    """A code object's fate."""

    name: str
    file: str
    line: int
    lines: frozenset        # that have instructions
    versions: tuple         # of Version
    reason: str | None      # why it is not compiled, or not any more
    reason_line: int | None
    given_back: bool
    exits: dict             # line: how often compiled code was left there
    facts: dict

    @property
    def status(self):
        if self.reason:
            return "given back" if self.versions and self.given_back else "compiled in part" if self.versions else "not compiled"
        return "compiled" if self.versions else "not hot"

    def is_compiled(self, line):
        return not self.given_back and any(version.lines is None or line in version.lines for version in self.versions)

    @property
    def seconds(self):
        """What compiling took, in vain or not."""
        return self.facts.get("spent", 0.0) / 1e6

    def notes(self):
        """The texts about it, by line."""
        found = {}

        def add(line, text):
            found.setdefault(self.line if line is None else line, []).append(text)
        for version in self.versions:
            add(version.line, version.text())
        if self.reason:
            add(self.reason_line, f"{self.status}: {self.reason}")
        elif self.facts.get("rests"):
            add(None, "observed by a tool for long: interpreted until that has ended, and a loop, if there is one, is hot again")
        elif self.status == "not hot":
            add(None, "not compiled: not called often enough, or no loop")
        for line, count in self.exits.items():
            add(line, f"left {times(count)}")
        return found

    def text(self):
        lines = [f"{self.name} ({self.file}:{self.line})"]
        notes = self.notes()
        lines += [f"  {text}" for text in notes.pop(self.line, ())]
        lines += [f"  line {line}: {text}" for line, texts in sorted(notes.items()) for text in texts]
        if self.versions:
            facts = self.facts
            lines.append(f"  entered {times(facts['entered'])}, left {times(facts['left'])}, interrupted {times(facts['polled'])}, "
                         f"{facts['missed']} calls with other types")
        return "\n".join(lines)


def times(count):
    return "once" if count == 1 else f"{count} times"


def read(code):
    """The fate of a code object."""
    facts = _core.facts(code)
    positions = list(code.co_positions())

    def line(unit):
        return positions[unit][0] if unit is not None and unit < len(positions) else None
    versions = [Version(None, tuple(types), returns, size, microseconds / 1e6, entered)
                for types, returns, size, _, microseconds, entered in facts.get("versions", ())]
    versions += [Version(line(unit), tuple(types), None, size, microseconds / 1e6, entered,
                         region and frozenset(line(unit) for unit in range(*region)))
                 for unit, types, size, microseconds, entered, region in facts.get("loops", ())]
    exits = {}
    for unit, count in facts.get("places", ()):
        exits[line(unit)] = exits.get(line(unit), 0) + count
    reason = facts.get("refused")
    if reason:
        reason = re.sub(r"\binstruction (\d+)\b", lambda found: f"the instruction {opcode.opname[int(found[1])]}", reason)
    return Function(
        name=code.co_qualname, file=code.co_filename, line=code.co_firstlineno,
        lines=frozenset(line for _, _, line in code.co_lines() if line is not None),
        versions=tuple(versions), reason=reason, reason_line=line(facts.get("refused_at")), given_back=facts.get("given_back", False),
        exits=exits, facts=facts)


def summary():
    """What compiling took in this process."""
    attempts, failed, seconds = _core.totals()
    return f"{times(attempts - failed)} compiled, {times(failed)} refused, {seconds * 1000:.1f} ms of processor time, " \
           f"{_core.mapped() // 1024} KiB of machine code"
