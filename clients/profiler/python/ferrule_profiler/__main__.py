"""python -m ferrule_profiler [options] script.py args, or -m module args."""

import os
import sys
from _thread import TIMEOUT_MAX

from . import _library

with _library.private(_library.IS_LOOKED_FOR):
    import argparse

    from . import _command
    from ._export import FORMATS, format_of, is_plain
    from ._table import SORTS

USAGE = ("python -m ferrule_profiler [options] (-m MODULE | SCRIPT) [ARGUMENT ...]\n"
         "       python -m ferrule_profiler [options] --pid PID\n"
         "       python -m ferrule_profiler diff BEFORE AFTER\n"
         "       python -m ferrule_profiler merge -o FILE FILE ...")
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


def process(text):
    number = int(text)
    if not 0 < number < 1 << 31:
        raise ValueError
    return number


# What argparse calls them in an error.
above_zero.__name__, whole.__name__ = "number of seconds above 0", "number"
process.__name__ = "number of a process"


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
    made.add_argument("--trace", metavar="FILE", help="write a timeline that Perfetto opens")
    made.add_argument("--trace-events", type=whole, default=400_000, metavar="N",
                      help="the timeline has the last N beginnings and ends of each thread"
                      " (default %(default)s)")
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
    try:
        for path in options.output:
            options.format or format_of(path)
    except ValueError as error:
        made.error(f"-o: {error}, or say --format")
    if options.subprocesses and not all(map(is_plain, options.output)):
        made.error("--subprocesses needs names of files: each process writes its own")
    if (options.count or options.sample) and (options.builtins or options.trace or options.cpu):
        made.error("--builtins, --cpu and --trace need exact times: not with --count or --sample")
    if (options.count or options.sample) and (options.lines or options.lines_of):
        made.error("--lines and --lines-of need exact times: not with --count or --sample")
    if not all(options.only + options.hide):
        made.error("--only and --hide need the name of a file or directory")
    if not all(name.rpartition(":")[2] for name in options.lines) or not all(options.lines_of):
        made.error("--lines needs the name of a function, --lines-of that of a file")
    if options.trace_arguments and not (options.trace and options.trace_events):
        made.error("--trace-arguments needs --trace FILE")
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
