"""Jumps whose argument is negative in 32 bits, as no compiler writes them: to the instruction in front that returns a constant."""

import opcode
import sys

OPS = opcode.opmap


def extended(name, argument):
    """The instruction, after three EXTENDED_ARG."""
    *prefixes, last = argument.to_bytes(4, "big", signed=True)
    return [unit for prefix in prefixes for unit in (OPS["EXTENDED_ARG"], prefix)] + [OPS[name], last]


HEAD = [OPS["RESUME"], 0, OPS["JUMP_FORWARD"], 2, OPS["LOAD_CONST"], 1, OPS["RETURN_VALUE"], 0]
PROGRAMS = {
    "a jump": HEAD + extended("JUMP_FORWARD", -6),
    "a condition": HEAD + [OPS["LOAD_CONST"], 2] + extended("POP_JUMP_IF_TRUE", -8) + [0, 0],
}


def program():
    pass


def trace(frame, event, argument):
    frame.f_trace_opcodes = True
    return trace


for name, units in PROGRAMS.items():
    code = program.__code__.replace(co_consts=(None, 33, True), co_stacksize=4, co_code=bytes(units))
    for tracer in (None, trace):
        sys.settrace(tracer)
        result = eval(code)
        sys.settrace(None)
        print(name, "traced" if tracer else "plain", result)
