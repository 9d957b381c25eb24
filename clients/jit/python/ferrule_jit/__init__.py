"""A method compiler for functions over numbers, on the frame hooks of Ferrule.

    import ferrule_jit
    ferrule_jit.enable()

From then on functions with loops over ints and floats, and functions that call themselves, run as machine code where
that gives the same as CPython. ``explain(function)`` says what became of one.
"""

__all__ = ["compile_at_next_call", "disable", "dump", "enable", "explain", "is_enabled", "start_if_possible", "stats", "what_is_missing"]


def _start():
    """For ferrule_jit.pth."""
    try:
        from ._core import start
    except ImportError:
        return      # in an isolated subinterpreter, into which no module of PyO3 is loaded
    start()


def __getattr__(name):
    # On first use: `-X ferrule_jit` is a part of each start-up, and needs the extension module alone.
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from . import _compiler
    globals().update((name, getattr(_compiler, name)) for name in __all__)
    return globals()[name]


def __dir__():
    return sorted({*globals(), *__all__})
