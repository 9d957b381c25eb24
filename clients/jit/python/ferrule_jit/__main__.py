"""python -m ferrule_jit [options] script.py [arguments]: runs a program with the compiler, and reports what became of it."""

import argparse
import os
import runpy
import sys
import sysconfig
from pathlib import Path

from . import _compiler, _core, _page, _report


def parser():
    made = argparse.ArgumentParser(
        prog="python -m ferrule_jit", usage="%(prog)s [options] (-m MODULE | SCRIPT) [ARGUMENT ...]", allow_abbrev=False,
        description="Run a program with the compiler, and report for each function and loop what became of it.")
    made.add_argument("-o", "--output", metavar="FILE", help="write a page of HTML with the source instead of the report as text")
    made.add_argument("--all", action="store_true", help="report functions of installed libraries too")
    made.add_argument("--turns", type=int, default=1000, metavar="N", help="compile loops after N turns (default %(default)s)")
    made.add_argument("--calls", type=int, default=40, metavar="N",
                      help="compile functions that call themselves after N calls (default %(default)s)")
    made.add_argument("--perf-map", action="store_true", default=None, help="name compiled code for perf, in /tmp/perf-PID.map")
    made.add_argument("--gdb", action="store_true", default=None, help="name compiled code for debuggers, by GDB's JIT interface")
    made.add_argument("-m", dest="module", metavar="MODULE", nargs=argparse.REMAINDER, help="run a module as a program")
    made.add_argument("program", nargs=argparse.REMAINDER, metavar="SCRIPT", help="the program and its arguments")
    return made


def program_of(made, options):
    """The program's name, its arguments, and what runs it."""
    if options.module:
        return options.module[0], options.module[1:], runpy.run_module
    if options.module is not None or not options.program:
        made.error("name a program: a script, or -m and a module")
    return options.program[0], options.program[1:], runpy.run_path


def is_library(file):
    paths = {sysconfig.get_path(name) for name in ("stdlib", "purelib", "platlib")} | {str(Path(__file__).parent), str(Path(os.__file__).parent)}
    return file.startswith("<frozen ") or any(file.startswith(f"{path}{os.sep}") for path in paths)


def functions(everything):
    """All that were seen: those in which most time was spent in compiling first."""
    found = [_report.read(code) for code in _core.collected()]
    found = [function for function in found if everything or not is_library(function.file)]
    return sorted(found, key=lambda function: (-len(function.versions), -function.seconds, function.file, function.line))


def report(options, name):
    found = functions(options.all)
    if options.output:
        Path(options.output).write_text(_page.page(f"ferrule_jit: {name}", _report.summary(), found), encoding="utf-8")
        return
    # Behind what the program has printed.
    sys.stdout.flush()
    print(*(function.text() for function in found), _report.summary(), sep="\n", file=sys.stderr)


def main(arguments=None):
    made = parser()
    options = made.parse_args(arguments)
    name, rest, run = program_of(made, options)
    if options.output:
        options.output = str(Path(options.output).absolute())
    try:
        _compiler.enable(turns=options.turns, calls=options.calls, perf_map=options.perf_map, gdb=options.gdb)
    except RuntimeError as error:
        made.exit(1, f"{error}\n")
    _core.start_collecting()
    sys.argv[:] = [name, *rest]
    if run is runpy.run_path:
        sys.path[0] = str(Path(name).resolve().parent)
    try:
        run(name, run_name="__main__", **({"alter_sys": True} if run is runpy.run_module else {}))
    finally:
        _compiler.disable()
        report(options, name)


if __name__ == "__main__":
    main()
