"""A method compiler for functions over numbers, on the frame hooks of Ferrule.

    import ferrule_jit
    ferrule_jit.enable()

From then on functions with loops over ints and floats, and functions that call themselves, run as machine code where
that gives the same as CPython. ``explain(function)`` says what became of one.
"""

import opcode
import sys
import sysconfig
import types

from ferrule_jit import _core

__all__ = ["compile_at_next_call", "disable", "enable", "explain", "is_enabled", "stats"]

is_enabled = _core.is_enabled
disable = _core.disable


def enable(*, turns=1000, calls=40):
    """Start compiling: loops that have taken so many turns, and after so many calls functions that call themselves.

    RuntimeError: this interpreter cannot, and why.
    """
    missing = what_is_missing()
    if missing:
        raise RuntimeError(f"ferrule_jit cannot run here: {missing}")
    _core.enable(bytes(opcode._inline_cache_entries.get(name, 0) for name in _names()), turns, calls)


def what_is_missing():
    """What this interpreter lacks, or None."""
    if sys.implementation.name != "cpython" or sys.version_info[:2] != (3, 13):
        return "it is for CPython 3.13"
    if sysconfig.get_config_var("Py_GIL_DISABLED"):
        return "it needs a build with the GIL: without it inline caches and objects change under compiled code"
    if sysconfig.get_config_var("Py_TRACE_REFS"):
        return "objects of a build with --with-trace-refs are not supported"
    if not _core.version():
        return "there are no frame hooks, which are a part of Ferrule"
    if not _core.can_continue():
        return "PyUnstable_Frame_Continue is missing, which is a part of newer releases of Ferrule"
    for name, number, caches in _core.opcodes():
        if opcode.opmap.get(name) != number or opcode._inline_cache_entries.get(name, 0) != caches:
            return f"the instruction {name} is another one"
    return None


def _names():
    return [opcode.opname[number] for number in range(256)]


def compile_at_next_call(function):
    """Compile a function when it is called next, however often it was called; for the types of that call's arguments."""
    if not isinstance(function, types.FunctionType):
        raise TypeError(f"a Python function is needed, not {type(function).__name__}")
    if not is_enabled():
        raise RuntimeError("ferrule_jit is not enabled")
    _core.request(function)


def stats(function):
    """What was counted about a function: calls before it was compiled, entries, exits, and its versions."""
    facts = _core.facts(function)
    facts["machine_code_mapped"] = _core.mapped()
    return facts


def explain(function):
    """Whether a function was compiled, for which types, how often it fell back to the interpreter, and on which lines."""
    facts = _core.facts(function)
    lines = [f"{function.__qualname__} ({function.__code__.co_filename}:{function.__code__.co_firstlineno})"]
    for parameters, returns, size, _blocks, microseconds in facts.get("versions", ()):
        lines.append(f"  compiled for ({', '.join(parameters)}) -> {returns or 'other values'}: "
                     f"{size} bytes in {microseconds / 1000:.2f} ms")
    for unit, size, microseconds in facts.get("loops", ()):
        line = list(function.__code__.co_positions())[unit][0]
        lines.append(f"  compiled from the loop in line {line} on: {size} bytes in {microseconds / 1000:.2f} ms")
    if facts.get("refused"):
        lines.append(f"  {'given back' if facts.get('versions') or facts.get('loops') else 'not compiled'}: {facts['refused']}")
    elif not facts.get("versions") and not facts.get("loops"):
        lines.append("  not compiled: not called often enough, or no loop" if "calls" in facts else "  not seen yet")
    if facts.get("versions") or facts.get("loops"):
        lines.append(f"  entered {facts['entered']} times, left {facts['left']} times, "
                     f"interrupted {facts['polled']} times, {facts['missed']} calls with other types")
    positions = list(function.__code__.co_positions())
    for unit, times in facts.get("places", ()):
        line = positions[unit][0] if unit < len(positions) else None
        lines.append(f"  line {line}: left {times} times")
    return "\n".join(lines)
