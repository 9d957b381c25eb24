"""%%ferrule_profile, for IPython and Jupyter."""

import argparse
import shlex

from ._profile import ProfilerError, start


class Parser(argparse.ArgumentParser):
    def error(self, message):
        from IPython.core.error import UsageError
        raise UsageError(f"%%ferrule_profile: {message}")


def parser():
    made = Parser(prog="%%ferrule_profile", add_help=False, allow_abbrev=False)
    made.add_argument("--count", action="store_true")
    made.add_argument("--sample", action="store_true")
    made.add_argument("--builtins", action="store_true")
    made.add_argument("--cpu", action="store_true")
    made.add_argument("--lines", action="append", default=[])
    made.add_argument("-o", "--output", action="append", default=[])
    return made


def profiled(shell, line, cell):
    """Run a cell under a profile; its result, which a notebook shows as a page, and a terminal as a table."""
    options = vars(parser().parse_args(shlex.split(line)))
    outputs = options.pop("output")
    code = shell.transform_cell(cell)
    compiled = shell.compile(code, shell.compile.cache(code), "exec")
    namespace = shell.user_ns
    try:
        made = start(**options)
    except (ProfilerError, ValueError) as error:
        parser().error(str(error))
    try:
        exec(compiled, namespace)
    except BaseException as error:      # an interrupt too: what was found until then is shown all the same
        made.stop()
        shell.showtraceback((type(error), error, error.__traceback__.tb_next))      # without this frame
    result = made.stop().result
    for path in outputs:
        result.write(path)
    return result


def load(shell):
    def ferrule_profile(line, cell=None):
        """%%ferrule_profile [--count | --sample] [--builtins] [--cpu] [--lines FUNCTION] [-o FILE]

        Profile the cell, or what is on the line.
        """
        if cell is None:
            return profiled(shell, "", line)
        return profiled(shell, line, cell)

    shell.register_magic_function(ferrule_profile, "line_cell", "ferrule_profile")
