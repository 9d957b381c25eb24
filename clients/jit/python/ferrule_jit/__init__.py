"""A method compiler for functions over numbers, on the frame hooks of Ferrule.

    import ferrule_jit
    ferrule_jit.enable()

From then on functions with loops over ints and floats, and functions that call themselves, run as machine code where
that gives the same as CPython. ``explain(function)`` says what became of one.
"""

from ._compiler import compile_at_next_call, disable, dump, enable, explain, is_enabled, start_if_possible, stats, what_is_missing

__all__ = ["compile_at_next_call", "disable", "dump", "enable", "explain", "is_enabled", "start_if_possible", "stats", "what_is_missing"]
