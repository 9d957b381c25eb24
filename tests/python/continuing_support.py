"""What the tests of frames that continue from records share."""

import dis

import support

support.use_extensions()

import continuing

nothing = continuing.nothing


def instructions(code):
    """All instructions but prefixes and caches, in order."""
    return [it for it in dis.get_instructions(code) if it.opname != "EXTENDED_ARG"]


def index_of(function, opname, number=0, argument=None):
    """The index, in code units, of an instruction; the `number`-th of that name, and with what `dis` shows as its argument."""
    return [it.offset // 2 for it in instructions(function.__code__)
            if it.opname == opname and argument in (None, it.argrepr)][number]


def after(function, opname, number=0):
    """The index of the instruction after that one."""
    index = index_of(function, opname, number)
    return min(it.offset // 2 for it in instructions(function.__code__) if it.offset // 2 > index)


def variables(function, **values):
    """The variables of a frame in order; what is not given is unbound."""
    code = function.__code__
    names = (*code.co_varnames, *(name for name in code.co_cellvars if name not in code.co_varnames), *code.co_freevars)
    unknown = values.keys() - set(names)
    if unknown:
        raise ValueError(f"no variables of {function.__name__}: {unknown}")
    return tuple(values.get(name, nothing) for name in names)


def record(function, instruction, stack=(), *, code=None, locals=None, **values):
    return (function, code, locals, instruction, variables(function, **values), tuple(stack))


def continued(*records, value=nothing, exception=nothing):
    return continuing.continue_frames(list(records), value, exception)
