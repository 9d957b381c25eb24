"""Instructions whose argument has 32 bits, as no compiler writes them: a negative one, and one prefix more than there are bits."""

import opcode
import sys

OPS = opcode.opmap


def extended(name, argument, prefixes=3):
    """The instruction, after so many EXTENDED_ARG."""
    parts = [argument >> 8 * place & 0xff for place in range(prefixes, -1, -1)]
    return [unit for part in parts[:-1] for unit in (OPS["EXTENDED_ARG"], part)] + [OPS[name], parts[-1]]


# Each ends at the instruction in front that returns a constant.
HEAD = [OPS["RESUME"], 0, OPS["JUMP_FORWARD"], 2, OPS["LOAD_CONST"], 2, OPS["RETURN_VALUE"], 0]
PROGRAMS = {
    "a jump": HEAD + extended("JUMP_FORWARD", -6),
    "a condition": HEAD[:3] + [2] + HEAD[4:] + [OPS["LOAD_CONST"], 3] + extended("POP_JUMP_IF_TRUE", -8) + [0, 0],
    "a constant": [OPS["RESUME"], 0, *extended("LOAD_CONST", 1, prefixes=4), OPS["RETURN_VALUE"], 0],
    "bits that are lost": [OPS["RESUME"], 0, *extended("LOAD_CONST", 1 << 32 | 1, prefixes=4), OPS["RETURN_VALUE"], 0],
}


def program():
    pass


def trace(frame, event, argument):
    frame.f_trace_opcodes = True
    return trace


for name, units in PROGRAMS.items():
    code = program.__code__.replace(co_consts=(1, 2, 33, True), co_stacksize=4, co_code=bytes(units))
    for tracer in (None, trace):
        sys.settrace(tracer)
        result = eval(code)
        sys.settrace(None)
        print(name, "traced" if tracer else "plain", result)
