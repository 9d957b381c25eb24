"""@profiled."""

import functools
import sys

from . import _profile
from ._sample import identity


def kind_of(function):
    code = getattr(function, "__code__", None)
    return "function" if code is None else identity(code)[-1]


def profiled(function=None, *, output=None, **options):
    """Make a profile of each call of a function.

        @profiled                       # prints a table, on standard error
        @profiled(output="work.html")   # writes a file, anew at each call
        @profiled(output=results.append, sample=True)   # calls it with the result

    Calls within a profile that is being made already are a part of that. Other threads and tasks are in it, as ever.
    """
    if function is None:
        return functools.partial(profiled, output=output, **options)
    if kind_of(function) in ("generator", "async generator"):
        raise TypeError("a generator's call only makes it: profile what iterates over it")
    _profile.Profile(**options)     # what makes no sense is an error here

    def begin():
        return None if _profile.running() else _profile.start(**options)

    def end(profile):
        if profile is not None:
            result = profile.stop().result
            if output is None:
                result.print_table(file=sys.stderr)
            elif callable(output):
                output(result)
            else:
                result.write(output)

    if kind_of(function) == "coroutine":
        @functools.wraps(function)
        async def call(*arguments, **keywords):
            profile = begin()
            try:
                return await function(*arguments, **keywords)
            finally:
                end(profile)
    else:
        @functools.wraps(function)
        def call(*arguments, **keywords):
            profile = begin()
            try:
                return function(*arguments, **keywords)
            finally:
                end(profile)
    return call
