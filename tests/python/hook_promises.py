"""What the tests of the promises of frame hooks share.

The promises are numbered 1 to 19, and each test has the number of its promise in its name. The
tests are in the modules test_hook_promises_*.py. Classes whose names end in Points have tests that
are written once. A subclass for each API runs them, with hooks in Python and with hooks in C.
"""

import traceback

MANY = " = ".join(f"v{i}" for i in range(500))      # many more locals


def positions(error):
    """What a traceback shows, without the texts: (function, line, column)."""
    return [(frame.name, frame.lineno, frame.colno)
            for frame in traceback.extract_tb(error.__traceback__)]


def failure(kind, call, *arguments):
    """The exception of a call with its traceback, which assertRaises would take away."""
    try:
        call(*arguments)
    except kind as error:
        return error
    raise AssertionError(f"no {kind.__name__} was raised")
