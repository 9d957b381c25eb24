"""python -m ferrule_profiler diff BEFORE AFTER, and merge -o FILE FILE ..."""

import argparse
import json
import marshal
import pstats
import re
import sys

from . import _core
from ._export import write_file
from ._table import seconds
from ._text import short, visible

KINDS = {"pstats": "pstats (.prof)", "folded": "folded paths", "speedscope": "speedscope",
         "timeline": "a timeline"}
FOLDED = re.compile(r"(.*) (\d+)")
# A dict of tuples of three, or an empty one. Of other content marshal might make gigabytes.
PSTATS = re.compile(rb"[{\xfb](?:[)\xa9]\x03|0\Z)")
# Where a function begins moves with each change above it.
LINE = re.compile(r":\d+\)")
SORTS = ("own", "total", "calls")


class CompareError(Exception):
    """Files that are not what they should be."""


def is_function(found):
    return type(found) is tuple and [type(part) for part in found] == [str, int, str]


def are_numbers(found):
    return all(type(number) in (int, float) for number in found)


def is_row(found):
    """Whether it is what pstats files have of a function. cProfile and profile have other callers."""
    if type(found) is not tuple or len(found) != 5 or type(found[4]) is not dict or not are_numbers(found[:4]):
        return False
    return all(is_function(caller) and (type(row) is int or (type(row) is tuple and len(row) == 4 and are_numbers(row)))
               for caller, row in found[4].items())


def is_pstats(found):
    return type(found) is dict and all(is_function(function) and is_row(row) for function, row in found.items())


def are_dicts(found):
    return type(found) is list and all(type(part) is dict for part in found)


def is_timeline(found):
    return (are_dicts(found.get("traceEvents")) and type(other := found.get("otherData", {})) is dict
            and type(other.get("dropped events", {})) is dict)


def is_speedscope(found):
    shared, profiles = found.get("shared"), found.get("profiles")
    if type(shared) is not dict or not are_dicts(shared.get("frames")) or not are_dicts(profiles):
        return False
    for profile in profiles:
        samples = profile.get("samples", [])
        if type(profile.get("name")) is not str or "events" not in profile and "samples" not in profile:
            return False
        if type(samples) is not list or not all(type(sample) is list and are_numbers(sample) for sample in samples):
            return False
        events = profile.get("events", [])
        if not are_dicts(events) or not are_numbers(event.get("frame") for event in events):
            return False
    return True


def loaded(path):
    """(kind, content) of a file that a profiler has written."""
    try:
        with open(path, "rb") as file:
            content = file.read()
    except OSError as error:
        raise CompareError(f"{path} cannot be read: {error.strerror}") from None
    try:
        text = content.decode()
    except UnicodeDecodeError:
        text = None
    try:
        found = json.loads(text or "")
        if type(found) is dict and is_timeline(found):
            return "timeline", found
        if type(found) is dict and is_speedscope(found):
            return "speedscope", found
    except (ValueError, RecursionError):
        pass
    if text is not None:
        lines = [FOLDED.fullmatch(line) for line in text.splitlines() if line.strip()]
        # Of a program that has called nothing it is empty.
        if all(lines) and (lines or path.endswith(".folded")):
            return "folded", [(line[1], int(line[2])) for line in lines]
    try:
        found = marshal.loads(content) if PSTATS.match(content) else None
    except Exception:       # whatever it makes of it
        found = None
    if not is_pstats(found):
        raise CompareError(f"{path} is none of {', '.join(KINDS.values())}")
    return "pstats", found


def all_loaded(paths):
    """The kind of all files, and what is in them."""
    found = [loaded(path) for path in paths]
    kinds = {kind for kind, _ in found}
    if len(kinds) > 1:
        raise CompareError("these files have several formats: "
                           + ", ".join(f"{path} is {KINDS[kind]}"
                                       for path, (kind, _) in zip(paths, found)))
    return kinds.pop(), [content for _, content in found]


# --- merge ---------------------------------------------------------------------------------------

def with_times(row):
    """Of callers the module profile has the number of calls alone."""
    return *row[:4], {caller: (found, found, 0, 0) if type(found) is int else found for caller, found in row[4].items()}


def merged_pstats(contents):
    kinds = {type(found) for content in contents for row in content.values() for found in row[4].values()}
    whole = {}
    for content in contents:
        for function, row in content.items():
            if len(kinds) > 1:
                row = with_times(row)
            whole[function] = pstats.add_func_stats(whole[function], row) if function in whole else row
    return marshal.dumps(whole)


def merged_folded(contents):
    sums = {}
    for lines in contents:
        for path, count in lines:
            sums[path] = sums.get(path, 0) + count
    return "".join(f"{path} {count}\n" for path, count in sums.items())


def merged_speedscope(contents):
    whole, *others = contents
    several = len({content.get("name") for content in contents}) > 1
    frames, profiles = [], []
    for content in (whole, *others):
        for profile in content["profiles"]:
            if "events" in profile:
                profile["events"] = [{**event, "frame": event["frame"] + len(frames)}
                                     for event in profile["events"]]
            if "samples" in profile:        # those of other profilers
                profile["samples"] = [[frame + len(frames) for frame in sample] for sample in profile["samples"]]
            if several:
                profile["name"] = f"{content.get('name')}: {profile['name']}"
            profiles.append(profile)
        frames += content["shared"]["frames"]
    return json.dumps({**whole, "shared": {"frames": frames}, "profiles": profiles})


def merged_timelines(contents):
    """Their times have one clock, and each event says whose process it is."""
    whole, dropped = [], {}
    for content in contents:
        whole += content["traceEvents"]
        process = next((event["pid"] for event in content["traceEvents"] if "pid" in event), None)
        for name, count in content.get("otherData", {}).get("dropped events", {}).items():
            dropped[f"{process} {name}"] = count
    return json.dumps({"displayTimeUnit": "ns", "otherData": {"dropped events": dropped},
                       "traceEvents": whole})


def merge(options):
    kind, contents = all_loaded(options.files)
    merged = {"pstats": merged_pstats, "folded": merged_folded, "speedscope": merged_speedscope,
              "timeline": merged_timelines}[kind]
    write_file(options.output, merged(contents))


# --- diff ----------------------------------------------------------------------------------------

def functions(stats):
    """{(file, name, which of these): (runs, own, total)}: no line, which moves with what is above it."""
    found = {}
    for (file, _, name), (_, runs, own, total, _) in sorted(stats.items()):
        place = next(place for place in range(len(stats))
                     if (short(file), name, place) not in found)
        found[short(file), name, place] = runs, own, total
    return found


def change(value, text):
    return ("+" if value > 0 else "-" if value < 0 else " ") + text(abs(value)).strip()


def table(before, after, sort, limit):
    """The functions that have changed most."""
    none = (0, 0, 0)
    rows = [(key, before.get(key, none), after.get(key, none)) for key in before | after]
    rows = [row for row in rows if row[1] != row[2]]
    place = {"calls": 0, "own": 1, "total": 2}[sort]
    rows.sort(key=lambda row: (-abs(row[2][place] - row[1][place]), row[0]))
    cells = [["calls", "change", "own", "change", "total", "change", "function"]]
    for (file, name, _), old, new in rows[:limit or None]:
        cells.append([f"{new[0]:,}", change(new[0] - old[0], "{:,}".format)]
                     + [text for place in (1, 2) for text in (
                         seconds(new[place]), change(new[place] - old[place], seconds))]
                     + [visible(name) if file == "~" else f"{visible(name)}  {file}"])
    widths = [max(map(len, column)) for column in zip(*cells)]
    lines = ["  ".join([*(text.rjust(width) for text, width in zip(row[:-1], widths)), row[-1]])
             for row in cells]
    own = [sum(row[1] for row in side.values()) for side in (before, after)]
    lines.insert(0, f"own time of all functions: {seconds(own[1]).strip()},"
                 f" {change(own[1] - own[0], seconds)}; {len(rows):,} functions differ\n")
    if limit and len(rows) > limit:
        lines.append(f"... and {len(rows) - limit:,} more (--limit 0 shows all)")
    return "\n".join(lines)


def difference(before, after):
    """A flame graph of what is after: red where a function takes more than before, blue for less."""
    sums = {}
    for place, lines in enumerate((before, after)):
        for path, count in lines:
            sums.setdefault(LINE.sub(")", path), [0, 0])[place] += count
    lines = "".join(f"{path} {old} {new}\n" for path, (old, new) in sorted(sums.items()))
    try:
        return _core.flame_graph(lines, "", "")
    except ValueError as error:
        raise CompareError(f"there is nothing to draw: {error}") from None


def diff(options):
    kind, (before, after) = all_loaded([options.before, options.after])
    if kind == "pstats" and not options.output:
        print(table(functions(before), functions(after), options.sort, options.limit))
    elif kind == "folded" and options.output:
        write_file(options.output, difference(before, after))
    else:
        raise CompareError("diff prints a table of pstats files (.prof), and makes a flame graph of"
                           " folded paths with -o FILE.svg")


# --- the command ---------------------------------------------------------------------------------

def parser(whole):
    made = argparse.ArgumentParser(prog="ferrule_profiler", allow_abbrev=False)
    commands = made.add_subparsers(required=True)
    command = commands.add_parser("diff", help="compare two profiles", description="Compare two"
                                  " profiles: a table of .prof files, a flame graph of .folded files.")
    command.set_defaults(run=diff)
    command.add_argument("before")
    command.add_argument("after")
    command.add_argument("-o", "--output", metavar="FILE.svg", help="write a flame graph of AFTER:"
                         " red is more than before, blue is less")
    command.add_argument("--sort", choices=SORTS, default="own", help="what has changed most in it")
    command.add_argument("--limit", type=whole, default=40, metavar="N", help="rows; 0: all")
    command = commands.add_parser("merge", help="add up several profiles", description="Make one"
                                  " file of several with one format: .prof, .folded,"
                                  " .speedscope.json, timelines.")
    command.set_defaults(run=merge)
    command.add_argument("files", nargs="+", metavar="FILE")
    command.add_argument("-o", "--output", required=True, metavar="FILE")
    return made


def main(arguments, whole):
    options = parser(whole).parse_args(arguments)
    try:
        options.run(options)
    except (CompareError, OSError) as error:
        print(visible(f"ferrule_profiler: {error}"), file=sys.stderr)
        return 1
    return 0
