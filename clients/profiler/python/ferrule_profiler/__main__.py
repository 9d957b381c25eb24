"""python -m ferrule_profiler [options] script.py args, or -m module args."""

import os
import sys
from _thread import TIMEOUT_MAX

from . import _library

with _library.private(_library.IS_LOOKED_FOR):
    import argparse

    from . import _command
    from ._export import FORMATS, STDOUT, format_of, is_plain
    from ._table import SORTS

USAGE = ("python -m ferrule_profiler [options] (-m MODULE | SCRIPT) [ARGUMENT ...]\n"
         "       python -m ferrule_profiler [options] --pid PID\n"
         "       python -m ferrule_profiler diff BEFORE AFTER\n"
         "       python -m ferrule_profiler merge -o FILE FILE ...")
TRACE_EVENTS = 400_000
# A script of such a name is run.
COMMANDS = ["diff"], ["merge"]


def above_zero(text):
    number = float(text)
    if not 0 < number < TIMEOUT_MAX:
        raise ValueError
    return number


def whole(text):
    number = int(text)
    if number < 0:
        raise ValueError
    return number


def many(text):
    number = int(text)
    if number < 1:
        raise ValueError
    return number


def process(text):
    number = int(text)
    if not 0 < number < 1 << 31:
        raise ValueError
    return number


# What argparse calls them in an error.
above_zero.__name__, whole.__name__ = "number of seconds above 0", "number from 0 on"
many.__name__, process.__name__ = "number from 1 on", "number of a process"


def parser():
    made = argparse.ArgumentParser(prog="ferrule_profiler", usage=USAGE, allow_abbrev=False,
                                   description="Profile every call of a program, in all threads.")
    made.add_argument("-o", "--output", metavar="FILE", action="append", default=[],
                      help="write a file: the end of its name says what (.html, .prof, "
                      ".speedscope.json, .callgrind, .folded, .txt); - is standard output; may be given"
                      " several times")
    made.add_argument("--format", choices=FORMATS, help="write that format, whatever the name")
    made.add_argument("--count", action="store_true", help="only count calls: no times")
    made.add_argument("--sample", action="store_true",
                      help="count calls, and take times from a timer: faster, less exact")
    made.add_argument("--builtins", action="store_true", help="C functions too")
    made.add_argument("--cpu", action="store_true", help="functions have CPU time too, beside wall time")
    made.add_argument("--lines", metavar="FUNCTION", action="append", default=[],
                      help="the times of its lines too: name, Class.name or file.py:name; may be given several times")
    made.add_argument("--lines-of", metavar="FILE", action="append", default=[],
                      help="the same of all functions of a file")
    made.add_argument("--only", metavar="PATH", action="append", default=[],
                      help="show functions of this file or directory alone; what others take is in what has called"
                      " them; may be given several times")
    made.add_argument("--hide", metavar="PATH", action="append", default=[],
                      help="do not show functions of this file or directory")
    made.add_argument("--trace", metavar="FILE", help="write a timeline that Perfetto opens; - is standard output")
    made.add_argument("--trace-events", type=many, metavar="N",
                      help="the timeline has the last N beginnings and ends of each thread"
                      f" (default {TRACE_EVENTS})")
    made.add_argument("--trace-seconds", type=above_zero, metavar="N",
                      help="and nothing older than N seconds")
    made.add_argument("--trace-arguments", action="store_true",
                      help="the timeline has the arguments of calls: short numbers and texts as"
                      " they are, the types of others")
    made.add_argument("--sort", choices=SORTS, default="own", help="the table's order")
    made.add_argument("--limit", type=whole, default=40, metavar="N",
                      help="rows of the table; 0: all")
    made.add_argument("--quiet", action="store_true", help="print no table")
    made.add_argument("--save-every", type=above_zero, metavar="SECONDS",
                      help="write the files so often while the program runs: then a crash or a"
                      " SIGKILL loses no more than that")
    made.add_argument("--subprocesses", action="store_true",
                      help="profile forks and other Pythons that the program starts too; each "
                      "writes files of its own, with its process id in their names")
    made.add_argument("--pid", type=process, metavar="PID",
                      help="profile a process of Ferrule that runs, until Ctrl-C or its end")
    made.add_argument("--seconds", type=above_zero, metavar="N",
                      help="with --pid: end the profile after N seconds")
    made.add_argument("--live", action="store_true",
                      help="with --pid: show each second what the process does, in the terminal")
    made.add_argument("-m", dest="module", metavar="MODULE", nargs=argparse.REMAINDER,
                      help="run a module as a program")
    made.add_argument("program", nargs=argparse.REMAINDER, metavar="SCRIPT",
                      help="the program and its arguments")
    return made


def why_not(path):
    """Why a file cannot be written when the program has ended; None: it can be, as far as is known."""
    if path == STDOUT:
        return None
    directory = os.path.dirname(os.path.abspath(path))
    if not path:
        return "name a file"
    if os.path.isdir(path):
        return f"{path} is a directory: name a file in it"
    if not os.path.isdir(directory):
        return f"there is no directory {directory}: make it first"
    if not os.access(path if os.path.exists(path) else directory, os.W_OK):
        return f"{path} may not be written: name another file"
    return None


def check_files(options, error):
    """Find what would be lost at the end."""
    named = [("-o", path) for path in options.output]
    if options.trace is not None:
        named.append(("--trace", options.trace))
    written = set()
    for option, path in named:
        why = why_not(path)
        if why is not None:
            error(f"{option}: {why}")
        place = os.path.realpath(path)
        if place in written and is_plain(path):
            error(f"{option}: {path} is named twice: each file has one format")
        written.add(place)


def parsed(arguments):
    """The options, with the program."""
    made = parser()
    options = made.parse_args(arguments)
    if options.pid is not None:
        if options.module is not None or options.program:
            made.error("--pid takes a process that runs, and no program to start")
        if options.subprocesses:
            made.error("--subprocesses needs a program to start")
        if options.live and (options.only or options.hide):
            made.error("--live shows all functions: not with --only or --hide")
        if options.live and not os.isatty(1):
            made.error("--live needs a terminal as standard output")
    elif options.live:
        made.error("--live needs --pid")
    elif options.seconds is not None:
        made.error("--seconds needs --pid")
    elif options.module:
        module, *rest = options.module
        options.program = [module, *rest, *options.program]
    elif options.module is not None or not options.program:
        made.error("name a program: a script, or -m and a module")
    if options.format and not options.output:
        made.error("--format needs -o FILE")
    if options.quiet and not (options.output or options.live) and options.trace is None:
        made.error("--quiet prints no table: add -o FILE or --trace FILE, or nothing is left of the profile")
    try:
        for path in options.output:
            options.format or format_of(path)
    except ValueError as error:
        made.error(f"-o: {error}, or say --format")
    check_files(options, made.error)
    if options.subprocesses and not all(map(is_plain, [*options.output, options.trace or ""])):
        made.error("--subprocesses needs names of files: each process writes its own")
    if (options.count or options.sample) and (options.builtins or options.trace or options.cpu):
        made.error("--builtins, --cpu and --trace need exact times: not with --count or --sample")
    if (options.count or options.sample) and (options.lines or options.lines_of):
        made.error("--lines and --lines-of need exact times: not with --count or --sample")
    if not all(options.only + options.hide):
        made.error("--only and --hide need the name of a file or directory")
    if not all(name.rpartition(":")[2] for name in options.lines) or not all(options.lines_of):
        made.error("--lines needs the name of a function, --lines-of that of a file")
    for name in ("events", "seconds", "arguments"):
        if getattr(options, f"trace_{name}") and options.trace is None:
            made.error(f"--trace-{name} needs --trace FILE")
    options.trace_events = options.trace_events or TRACE_EVENTS
    if options.count and options.sample:
        made.error("--count or --sample, not both")
    return options


def main(arguments=None):
    arguments = sys.argv[1:] if arguments is None else arguments
    if arguments[:1] in COMMANDS and not os.path.exists(arguments[0]):
        with _library.private(_library.IS_LOOKED_FOR):
            from . import _compare
        return _compare.main(arguments, whole)
    with _library.private(_library.IS_LOOKED_FOR):
        options = parsed(arguments)
        if options.pid is not None:
            from . import _attach
            return _attach.run(options)
    return _command.run(options, as_module=options.module is not None)


if __name__ == "__main__":
    status = main()
    # What follows with -i has seen how the program has ended.
    if status and not sys.flags.inspect:
        sys.exit(status)
