"""Checks what `make lint` cannot have clippy check: that SAFETY comments say something, and that unsafe blocks are short.

    python3 tests/proofs/comments.py        # the directories below; exit code 1 and a line for each fault
    python3 tests/proofs/comments.py FILE...

A comment that names "the caller's contract", "as above" and the like, and hardly anything else, does not say which clause of the
contract holds, nor why nothing else reaches the memory.
"""

import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
# Where the rule holds.
HOLDS = ("rust-core/src",)
MOST_LINES = 8
FEWEST_WORDS = 3

EMPTY = re.compile(r"(the )?(caller's|callers'|same|function's|trait's) contract|by contract|(the same )?as (above|there|before)|ditto", re.I)
# Text in which braces mean nothing.
COMMENT_OR_LITERAL = re.compile(r"""//[^\n]*|r(#+)".*?"\1|b?c?"(?:\\.|[^"\\])*"|'(?:\\.[^']*|[^'\\])'""", re.S)


def blank(match):
    return re.sub(r"[^\n]", "_", match[0])


def block_end(text, start):
    depth = 0
    for brace in re.compile(r"[{}]").finditer(text, start):
        depth += 1 if brace[0] == "{" else -1
        if depth == 0:
            return brace.start()
    raise SystemExit("an unsafe block without an end")


def faults(source):
    """[(line, what is wrong)] of Rust source."""
    found, lines = [], source.splitlines()
    at = 0
    while at < len(lines):
        comment = re.match(r"\s*(?:\S.*)?//\s*SAFETY:(.*)", lines[at])
        at += 1
        if comment:
            begin, words = at, comment[1]
            while at < len(lines) and (more := re.match(r"\s*//(?!/)(.*)", lines[at])) and "SAFETY:" not in more[1]:
                words, at = words + " " + more[1].strip(), at + 1
            left = re.findall(r"[\w`*]+", EMPTY.sub(" ", words))
            if len(left) < FEWEST_WORDS and (EMPTY.search(words) or not left):
                found.append((begin, f"this does not say what holds: SAFETY:{words}"))
    code = COMMENT_OR_LITERAL.sub(blank, source)
    for block in re.finditer(r"\bunsafe\s*(?=\{)", code):
        inside = code.count("\n", block.end(), block_end(code, block.end())) - 1
        if inside > MOST_LINES:
            found.append((code.count("\n", 0, block.start()) + 1, f"an unsafe block of {inside} lines, and {MOST_LINES} are allowed"))
    return sorted(found)


def sources():
    for folder in HOLDS:
        yield from sorted((ROOT / folder).rglob("*.rs"))


def main(arguments):
    count = 0
    for path in map(Path, arguments) if arguments else sources():
        for line, wrong in faults(path.read_text(encoding="utf-8")):
            count += 1
            print(f"{path}:{line}: {wrong}")
    return 1 if count else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
