"""Starting and stopping the compiler, and what it says of functions."""

import os
import sys
from _frozen_importlib_external import MAGIC_NUMBER

from . import _core

# Little is imported: `-X ferrule_jit` is a part of each start-up.
FunctionType, CodeType = type(lambda: None), type((lambda: None).__code__)

is_enabled = _core.is_enabled
disable = _core.disable

_at_fork = []


def enable(*, turns=1000, calls=40, perf_map=None, gdb=None):
    """Start compiling: loops that have taken so many turns, and after so many calls functions that call themselves.

    With `perf_map` code is named in /tmp/perf-PID.map, with `gdb` for debuggers, by GDB's JIT interface. None: where FERRULE_JIT_PERF_MAP
    or FERRULE_JIT_GDB is set in the environment. RuntimeError: this interpreter cannot, and why.
    """
    missing = what_is_missing()
    if missing:
        raise RuntimeError(f"ferrule_jit cannot run here: {missing}")
    perf_map = bool(os.environ.get("FERRULE_JIT_PERF_MAP")) if perf_map is None else perf_map
    gdb = bool(os.environ.get("FERRULE_JIT_GDB")) if gdb is None else gdb
    if perf_map and not _at_fork:
        _at_fork.append(_core.after_fork)
        os.register_at_fork(after_in_child=_core.after_fork)
    _core.name_code(perf_map, gdb)
    _core.enable(turns, calls)


def what_is_missing():
    """What this interpreter lacks, or None."""
    if sys.implementation.name != "cpython" or sys.version_info[:2] != (3, 13):
        return "it is for CPython 3.13"
    if "t" in sys.abiflags:
        return "it needs a build with the GIL: without it inline caches and objects change under compiled code"
    if hasattr(sys, "getobjects"):
        return "objects of a build with --with-trace-refs are not supported"
    if not _core.version():
        return "there are no frame hooks, which are a part of Ferrule"
    if not _core.can_continue():
        return "PyUnstable_Frame_Continue is missing, which is a part of newer releases of Ferrule"
    if bytes(_core.magic_number()) != MAGIC_NUMBER:
        return "its bytecode is another one: see importlib.util.MAGIC_NUMBER"
    return None


def compile_at_next_call(function):
    """Compile a function when it is called next, however often it was called; for the types of that call's arguments."""
    if not isinstance(function, FunctionType):
        raise TypeError(f"a Python function is needed, not {type(function).__name__}")
    if not is_enabled():
        raise RuntimeError("ferrule_jit is not enabled")
    _core.request(function)


def stats(function=None):
    """What was counted about a function: calls before it was compiled, entries, exits, and its versions. Without one: about all."""
    if function is None:
        attempts, failed, seconds = _core.totals()
        facts = {"compiled": attempts - failed, "refused": failed, "seconds": seconds}
    else:
        facts = _core.facts(_code_of(function))
    facts["machine_code_mapped"] = _core.mapped()
    return facts


def explain(function):
    """Whether a function was compiled, for which types, how often it fell back to the interpreter, and on which lines."""
    from ._report import read
    return read(_code_of(function)).text()


def _code_of(function):
    """A function's code; that of a module, of exec() or of a class is given itself."""
    return function if isinstance(function, CodeType) else function.__code__


def dump(function):
    """Cranelift's IR and the machine code of all that a function was compiled to. It is compiled once more for that, as it would be now."""
    return "\n".join(_core.dump(function))


def start_if_possible():
    """For ferrule_jit.pth: `python -X ferrule_jit`, or FERRULE_JIT in the environment. With the value "warn" it says why it cannot."""
    try:
        enable()
    except RuntimeError as error:
        if "warn" in (sys._xoptions.get("ferrule_jit"), os.environ.get("FERRULE_JIT")):
            print(error, file=sys.stderr)
