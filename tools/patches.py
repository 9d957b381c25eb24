#!/usr/bin/env python3
"""Apply the project's patches to a CPython source tree, and measure them.

  patches.py apply --source DIR --version 3.13.5
  patches.py stat

patches/<major.minor>/series names the patches in order.  Where one hunk cannot
serve all releases, there are several patches, each with the releases that it is
for after its name: `<3.13.6`, `>=3.13.6`, or both ends of a range.  So the next
release gets the patches of the last one.

Patches only insert, and what they insert into C is compiled only where
Py_RUST_CORE (in public headers: Py_FERRULE) is defined, or Py_FERRULE_TUNING, for
lines that have nothing to do with Rust: so one tree builds both Ferrule and what
upstream wrote.  `stat` checks that in the patches and counts
the added lines against the budget; `apply` checks the files that come out.

Exit codes: 0 fine, 1 a patch or the rules are broken, 2 wrong usage.
"""

import argparse
import hashlib
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
# Lines of at most 79 columns, with the braces that PEP 7 requires, and no macro where an insertion does: of longer lines
# the same patches had 700, with 170 for what compilers from outside need, 50 for long integers, 155 for regular expressions and stores, 35 for JSON.
BUDGET = 1291
# What the series includes and C compiles, written by hand: it counts as though it were in a patch.
HEADERS = sorted(set((ROOT / "rust-core" / "include").glob("*.h")) - {ROOT / "rust-core" / "include" / "ferrule_core.h"})

# Left in a tree so that no build uses what is only half patched.
FAILED_MARK = ".ferrule-patch-failed"
APPLIED_MARK = ".ferrule-patches"

BOUND = re.compile(r"(<|>=)([0-9]+(?:\.[0-9]+)*)")
HUNK = re.compile(r"@@ -\d+(?:,(\d+))? \+\d+(?:,(\d+))? @@")
# What git writes for changes that are not lines: none of them is an insertion.
NOT_INSERTIONS = ("deleted file mode", "rename from", "rename to", "copy from",
                  "copy to", "old mode", "GIT binary patch", "Binary files")


# A callback that gets how many of how many are done.
Progress = Callable[[int, int], None]


class PatchError(Exception):
    """Something about the patches that the user has to know."""


# ---- which patches ---------------------------------------------------------

def default_directory(version: str) -> Path:
    return ROOT / "patches" / ".".join(version.split(".")[:2])


class Entry(NamedTuple):
    """A line of a series."""
    name: str
    bounds: tuple[tuple[str, str], ...]     # such as (("<", "3.13.6"),)

    def serves(self, version: str) -> bool:
        return all((release(version) < release(bound)) == (comparison == "<") for comparison, bound in self.bounds)


def release(version: str) -> tuple[int, ...]:
    """'3.13.5' as numbers; what follows the last one does not count."""
    return tuple(map(int, re.findall(r"\d+", re.split(r"[^0-9.]", version)[0])))


def read_series(directory: Path) -> list[Entry]:
    """The patches in order; a missing series is an error, an empty one is not."""
    series = directory / "series"
    try:
        text = series.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise PatchError(f"{series} is missing: it lists the patches to apply, in order "
                         "(an empty file means none)") from None
    entries: list[Entry] = []
    for number, line in enumerate(text.splitlines(), 1):
        words = line.split("#", 1)[0].split()
        if not words:
            continue
        bounds = [BOUND.fullmatch(word) for word in words[1:] if word != "-p1"]
        if None in bounds or words.count("-p1") > 1:
            raise PatchError(f"{series}:{number}: only a patch name and releases are understood here, such as >=3.13.6 "
                             f"(every patch is applied with -p1), found: {line.strip()}")
        if not (series.parent / words[0]).is_file():
            raise PatchError(f"{series}:{number}: {words[0]} does not exist")
        if words[0] in [entry.name for entry in entries]:
            raise PatchError(f"{series}:{number}: {words[0]} is listed twice")
        entries.append(Entry(words[0], tuple((bound[1], bound[2]) for bound in bounds if bound)))
    return entries


def selected(directory: Path, version: str) -> list[Path]:
    """Paths of the patches that make up the series for this version."""
    return [directory / entry.name for entry in read_series(directory) if entry.serves(version)]


def digest(directory: Path, version: str, compiled: bool = False) -> str:
    """Changes whenever a tree would have to be patched differently; where compiled is true, whenever something that is compiled would."""
    total = hashlib.sha256()
    for path in selected(directory, version):
        content = path.read_bytes()
        if compiled and all(name.endswith(b".py") for name in re.findall(rb"^\+\+\+ b/(\S+)", content, re.M)):
            continue
        total.update(f"{path.name} {len(content)}\n".encode())
        total.update(content)
    return total.hexdigest()


# ---- reading a patch -------------------------------------------------------

def strip_first(path: str) -> str:
    """What -p1 makes of a path in a header line (a tab starts the time stamp)."""
    return path.split("\t")[0].strip().partition("/")[2]


def scan(path: Path) -> Iterator[tuple[int, str, str | None, str]]:
    """Yield (line number, kind, file, text) of what a patch says.

    The kinds: '@' a hunk begins, ' ' context, '+', '-', '!' not an insertion. Hunk
    lengths are followed, since a deleted line may itself look like a header.
    """
    target: str | None = None
    old_left, new_left = 0, 0
    text = path.read_text(encoding="utf-8", errors="surrogateescape")
    for number, line in enumerate(text.removesuffix("\n").split("\n"), 1):
        if old_left > 0 or new_left > 0:
            kind = line[:1]
            if kind == "+":
                new_left -= 1
                yield number, "+", target, line[1:]
            elif kind == "-":
                old_left -= 1
                yield number, "-", target, line[1:]
            elif kind != "\\":
                old_left -= 1
                new_left -= 1
                yield number, " ", target, line[1:]
            continue
        match = HUNK.match(line)
        if match:
            if target is None:
                raise PatchError(f"{path}:{number}: a hunk without a file name before it")
            old_left, new_left = (int(n) if n is not None else 1 for n in match.groups())
            yield number, "@", target, line
        elif line.startswith("+++ "):
            if line[4:].startswith("/dev/null"):
                yield number, "!", target, "deletes a whole file"
            else:
                target = strip_first(line[4:])
        elif line.startswith("--- "):
            target = strip_first(line[4:])
        elif line.startswith(NOT_INSERTIONS):
            yield number, "!", target, line
    if old_left > 0 or new_left > 0:
        raise PatchError(f"{path}: the last hunk is cut short")


def files_of(path: Path) -> list[str]:
    """The files a patch writes, relative to the source tree."""
    names = dict.fromkeys(file for _, _, file, _ in scan(path) if file)
    return list(names)


# ---- guards ----------------------------------------------------------------

# What a part of a conditional needs to be compiled: the Rust core, its absence, or neither.
WITH_CORE, WITHOUT_CORE, EITHER = "with", "without", "either"
OTHER_PART = {WITH_CORE: WITHOUT_CORE, WITHOUT_CORE: WITH_CORE, EITHER: EITHER}
OPENING = ("if", "ifdef", "ifndef")
DIRECTIVE = re.compile(r"\s*#\s*(if|ifdef|ifndef|elif|elifdef|elifndef|else|endif)\b(.*)")
COMMENT = re.compile(r"//.*|/\*.*")
SYMBOL = r"(?:Py_RUST_CORE|Py_FERRULE_TUNING|Py_FERRULE)"
DEFINED = rf"defined\s*(?:{SYMBOL}|\(\s*{SYMBOL}\s*\))"


def is_c(file: str) -> bool:
    return file.endswith((".c", ".h", ".c.in"))


def part_opened(word: str, condition: str) -> str:
    """What the first part of a conditional needs; EITHER where that is not plain."""
    condition = COMMENT.sub("", condition).strip()
    if word != "if":
        if not re.fullmatch(SYMBOL, condition):
            return EITHER
        return WITH_CORE if word == "ifdef" else WITHOUT_CORE
    if re.fullmatch(rf"{DEFINED}(?:\s*&&[^|?\\]*)?", condition):
        return WITH_CORE
    if re.fullmatch(rf"!\s*{DEFINED}(?:\s*\|\|[^?\\]*)?", condition):
        return WITHOUT_CORE
    return EITHER


def directives(lines: Iterable[str]) -> Iterator[tuple[str, str | None, str, bool]]:
    """Yield (line, directive or None, the rest of it, whether this one continues the line before)."""
    continued = False
    for line in lines:
        match = None if continued else DIRECTIVE.match(line)
        yield line, *(match.groups() if match else (None, "")), continued
        continued = line.endswith("\\")


def stock_lines(text: str) -> list[str]:
    """The lines of a C file that count where none of the symbols is defined; blank ones do not."""
    kept: list[str] = []
    parts: list[str] = []
    for line, word, condition, continued in directives(text.split("\n")):
        if word in OPENING:
            parts.append(part_opened(word, condition))
        # An #elif of a guard stays, and so is seen.
        guard = parts and parts[-1] != EITHER and word in (*OPENING, "else", "endif")
        if word == "else" and parts:
            parts[-1] = OTHER_PART[parts[-1]]
        elif word == "endif" and parts:
            parts.pop()
        if not guard and WITH_CORE not in parts and (line.strip() or continued):
            kept.append(line)
    return kept


class Opened:
    """A conditional that a patch, or the code around it, has begun."""

    def __init__(self, part: str, added: bool, number: int, hunk: int | None) -> None:
        self.part, self.added, self.number, self.hunk = part, added, number, hunk


def unguarded(path: Path) -> Iterator[str]:
    """Complaints about added lines of C that are compiled where there is no Rust core.

    A patch shows parts of a file. So a guard may be opened in one hunk and closed
    in another, and one that is upstream's or another patch's counts as far as it is seen.
    """
    files: dict[str, list[tuple[int, str, str]]] = {}
    for number, kind, file, text in scan(path):
        if file and is_c(file) and kind in "@ +":
            files.setdefault(file, []).append((number, kind, "" if kind == "@" else text))
    for file, lines in files.items():
        yield from (f"{path}:{number}: {file}: {why}" for number, why in unguarded_lines(lines))


def unguarded_lines(lines: list[tuple[int, str, str]]) -> Iterator[tuple[int, str]]:
    """(line number, complaint) for the lines of one file."""
    stack: list[Opened] = []
    hunk: int | None = None
    with_directives = zip(lines, directives(text for _, _, text in lines))
    for (number, kind, text), (_, word, condition, continued) in with_directives:
        added, guard = kind == "+", False
        top = stack[-1] if stack else None
        if kind == "@":
            hunk = number
            # What is not the patch's own may be closed between two hunks.
            while stack and not stack[-1].added:
                stack.pop()
        elif word in OPENING:
            stack.append(Opened(part_opened(word, condition), added, number, hunk))
            guard = stack[-1].part != EITHER
        elif word and top and top.added == added:
            guard = top.part != EITHER
            if word == "endif":
                stack.pop()
            elif word == "else":
                top.part = OTHER_PART[top.part]
            elif added and guard:
                yield number, "a guard has no #elif"
        elif word and added:
            yield number, f"#{word} belongs to no #if of this patch"
            continue
        elif word and top and top.hunk == hunk:
            yield top.number, f"is open where upstream has an #{word}"
        if (added and not guard and (text.strip() or continued)
                and all(opened.part != WITH_CORE for opened in stack)):
            yield number, f"compiled where there is no Rust core: {text.strip()}"
    yield from ((opened.number, "is never closed") for opened in stack if opened.added)


# ---- PEP 7 -----------------------------------------------------------------

COLUMNS = 79
NO_CODE = re.compile(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\])*"|\'(?:\\.|[^\'\\])*\'', re.S)
BRANCH = re.compile(r"\b(if|for|while|switch)\s*\(|\b(else|do)\b(?!\s*if\b)")


def badly_written(lines: list[tuple[int, str]]) -> Iterator[tuple[int, str]]:
    """(line number, complaint) where lines of C are not as PEP 7 wants them: short, without tabs, and with braces."""
    for number, line in lines:
        if len(line) > COLUMNS:
            yield number, f"{len(line)} columns, {len(line) - COLUMNS} too many"
        if "\t" in line:
            yield number, "has a tab"
    # Lengths and lines stay, so that a place in the text leads to its line.
    text = NO_CODE.sub(lambda match: re.sub(r"[^\n]", " ", match[0]), "\n".join(line for _, line in lines))
    text = re.sub(r"(?m)^\s*#\s*(?!define).*$", lambda match: " " * len(match[0]), text.replace("\\\n", " \n"))
    for match in BRANCH.finditer(text):
        rest = text[match.end():]
        if match[1]:
            rest = behind_parenthesis(rest)
        rest = rest.lstrip()
        # A `while` may end a do, and a patch may show the first lines of a statement only.
        ends_a_do = match[1] == "while" and text[:match.start()].rstrip().endswith("}")
        if rest and rest[0] != "{" and not ends_a_do:
            yield lines[text.count("\n", 0, match.start())][0], f"`{match[1] or match[2]}` without braces"


def behind_parenthesis(text: str) -> str:
    """What follows the parenthesis that was opened before."""
    depth = 1
    for at, char in enumerate(text):
        depth += {"(": 1, ")": -1}.get(char, 0)
        if depth == 0:
            return text[at + 1:]
    return ""


# ---- apply -----------------------------------------------------------------

def apply_one(source: Path, path: Path) -> None:
    """Apply one patch exactly (fuzz 0); raise with the file and hunk that failed."""
    if shutil.which("patch") is None:
        raise PatchError("the program `patch` is missing: run `make deps`")
    run = subprocess.run(
        ["patch", "-p1", "-F0", "--forward", "--batch", "--no-backup-if-mismatch",
         "--reject-file=-", "--input", str(path.absolute())],
        cwd=source, env={**os.environ, "LC_ALL": "C"}, stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace")
    if run.returncode != 0:
        raise PatchError(f"{path.name} does not apply: {why(run.stdout)}")


def why(output: str) -> str:
    """Out of patch's output, the files and hunks that failed."""
    file, reasons = "?", []
    for line in output.splitlines():
        named = re.match(r"(?:patching|checking) file '?(.*?)'?$", line)
        if named:
            file = named[1]
        elif re.match(r"Hunk #\d+ FAILED", line):
            reasons.append(f"{file}: {line.rstrip('.')}")
        elif "can't find file to patch" in line:
            reasons.append("a file that it patches is not in this tree")
        elif "previously applied" in line:
            reasons.append(f"{file}: already applied")
        elif "malformed patch" in line or "No space left" in line:
            reasons.append(line.strip())
    return "; ".join(dict.fromkeys(reasons)) or output.strip()[-400:] or "no reason given"


def apply_list(source: Path, paths: Sequence[Path], progress: Progress | None = None) -> list[str]:
    """Apply patches in order; return the files they wrote. Marks the tree on failure."""
    touched: dict[str, None] = {}
    for done, path in enumerate(paths):
        if progress:
            progress(done, len(paths))
        try:
            if files_of(path):
                apply_one(source, path)
            touched.update(dict.fromkeys(files_of(path)))
        except PatchError as error:
            (source / FAILED_MARK).write_text(f"{error}\n", encoding="utf-8")
            raise
    return list(touched)


def read(path: Path) -> str:
    """A file's text, byte for byte; a file that is not there is empty."""
    try:
        return path.read_bytes().decode(errors="surrogateescape")
    except FileNotFoundError:
        return ""


def apply_series(source: Path, directory: Path, version: str, progress: Progress | None = None) -> list[str]:
    """Apply the project's series to a fresh tree; return the files it wrote."""
    if not source.is_dir():
        raise PatchError(f"{source} is not a directory: run `make fetch` first")
    failed, applied = source / FAILED_MARK, source / APPLIED_MARK
    if failed.exists():
        raise PatchError(f"{source} is half patched ({failed.read_text().strip()}): "
                         "unpack it anew with `make fetch`")
    wanted = digest(directory, version)
    if applied.exists():
        if applied.read_text().strip() == wanted:
            return []
        raise PatchError(f"{source} carries other patches already: "
                         "unpack it anew with `make fetch`")
    paths = selected(directory, version)
    upstream = {name: read(source / name) for path in paths for name in files_of(path) if is_c(name)}
    touched = apply_list(source, paths, progress)
    for name, text in upstream.items():
        if stock_lines(read(source / name)) != stock_lines(text):
            failed.write_text(f"{name} is not upstream's where there is no Rust core\n", encoding="utf-8")
            raise PatchError(f"{name}, patched, is not upstream's where none of Py_RUST_CORE, "
                             "Py_FERRULE and Py_FERRULE_TUNING is defined; `make patch-stat` may say where")
    applied.write_text(wanted + "\n", encoding="utf-8")
    return touched


# ---- stat ------------------------------------------------------------------

def measure(path: Path) -> tuple[int, dict[str | None, int], list[str]]:
    """(added C lines, {other file: added lines}, [complaints]) of one patch."""
    c_lines = 0
    others: dict[str | None, int] = {}
    complaints: list[str] = []
    added: dict[str, list[tuple[int, str]]] = {}
    for number, kind, file, text in scan(path):
        if kind == "-":
            complaints.append(f"{path}:{number}: deletes or rewrites a line of {file}: "
                              f"{text.strip()}")
        elif kind == "!":
            complaints.append(f"{path}:{number}: not an insertion: {text}")
        elif kind == "@" and re.match(r"@@ -[1-9]\d*,0 ", text):
            complaints.append(f"{path}:{number}: a hunk without context goes by its line's number: into other lines of {file} in another release")
        elif kind == "+" and file and is_c(file):
            c_lines += 1
            added.setdefault(file, []).append((number, text))
        elif kind == "+":
            others[file] = others.get(file, 0) + 1
    for file, lines in added.items():
        complaints += [f"{path}:{number}: {file}: {why}" for number, why in badly_written(lines)]
    return c_lines, others, complaints + list(unguarded(path))


def strays(directory: Path, entries: list[Entry]) -> Iterator[str]:
    """Patch files that nothing would ever apply."""
    names = [entry.name for entry in entries]
    for path in sorted(directory.iterdir()):
        if path.suffix in (".patch", ".diff") and path.name not in names:
            yield f"{path}: not in the series"


def stat(directory: Path, budget: int, out: Callable[[str], object] = print) -> list[str]:
    """Print the table for one series; return the complaints."""
    entries = read_series(directory)
    complaints = list(strays(directory, entries))
    c_lines: dict[str, int] = {}
    out(f"{directory}: added lines")
    for name, bounds in entries:
        c_lines[name], other, bad = measure(directory / name)
        complaints += bad
        extra = "".join(f", {count} in {file}" for file, count in sorted(other.items()))
        extra += "".join(f" {comparison}{bound}" for comparison, bound in bounds)
        out(f"  {c_lines[name]:5} C  {name}{extra}")
    headers: dict[Path, int] = {}
    if directory.resolve().is_relative_to(ROOT / "patches"):
        headers = {path: len(path.read_text(encoding="utf-8").splitlines()) for path in HEADERS}
    for path, lines in headers.items():
        out(f"  {lines:5} C  {path.name}")
        complaints += [f"{path}:{number}: {why}" for number, why in badly_written(
            list(enumerate(path.read_text(encoding="utf-8").splitlines(), 1)))]
    # The series is another one from each bound on.
    first, *others = ["", *sorted({bound for entry in entries for _, bound in entry.bounds}, key=release)]
    for version in [first, *others]:
        total = sum(c_lines[entry.name] for entry in entries if entry.serves(version)) + sum(headers.values())
        label = f" from {version} on" if version else f" before {others[0]}" if others else ""
        out(f"  {total:5} C  in all{label}, of {budget} allowed")
        if total > budget:
            complaints.append(f"{directory}: {total} added lines of C{label}, "
                              f"{total - budget} over the budget of {budget}")
    return complaints


def all_series() -> list[Path]:
    found = sorted(p for p in (ROOT / "patches").glob("*") if p.is_dir())
    if not found:
        raise PatchError(f"{ROOT / 'patches'} holds no series")
    return found


# ---- command line ----------------------------------------------------------

def arguments(argv: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    one = commands.add_parser("apply", help="patch a source tree, fuzz 0")
    one.add_argument("--source", required=True, type=Path, metavar="DIR", help="the unpacked tree")
    one.add_argument("--version", required=True, help="its release, such as 3.13.5")
    two = commands.add_parser("stat", help="count added lines, refuse what is no insertion")
    two.add_argument("--budget", type=int, default=BUDGET, help="added C lines allowed")
    for sub in (one, two):
        sub.add_argument("--patches", metavar="DIR", type=Path,
                         help="the directory of the series (default: patches/<major.minor>)")
    return parser.parse_args(argv)


def main(argv: list[str] | None = None) -> int:
    args = arguments(argv)
    complaints: list[str] = []
    try:
        if args.command == "apply":
            directory = args.patches or default_directory(args.version)
            touched = apply_series(args.source, directory, args.version)
            count = len(selected(directory, args.version))
            print(f"{count} patches for {args.version}: " +
                  (f"wrote {len(touched)} files" if touched else "nothing to do"))
            return 0
        for directory in [args.patches] if args.patches else all_series():
            complaints += stat(directory, args.budget)
    except PatchError as error:
        complaints = [str(error)]
    for complaint in complaints:
        print(f"error: {complaint}", file=sys.stderr)
    return 1 if complaints else 0


if __name__ == "__main__":
    sys.exit(main())
