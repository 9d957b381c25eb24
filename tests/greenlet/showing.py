"""How the programs here show what holds with greenlets: function by function, and then the end of the program."""

import sys

try:
    import framehook
except ImportError:     # stock CPython
    framehook = None


def check_equal(found, expected):
    if found != expected:
        raise AssertionError(f"{found!r}, not {expected!r}")


def show_all(functions):
    """Call each, and print a line that begins with "ok" where no check failed and no hook is left. The number of those that failed."""
    failed = 0
    for show in functions:
        try:
            show()
            check_equal(framehook.hooks(), [])
        except Exception:
            sys.excepthook(*sys.exc_info())
            framehook.clear()
            failed += 1
        else:
            print(f"ok {show.__name__.replace('_', ' ')}", flush=True)
    return failed


def run(main):
    """End with main()'s exit code. Without frame hooks there is nothing to show."""
    if framehook is None:
        print("ok without frame hooks there is nothing to show")
    else:
        sys.exit(main())
