"""A program for a debugger that attaches to it: it calls the same functions again and again, below a hook on request."""

import sys
import time


def add(a, b):
    total = a + b  # at sum
    return total  # at result


def fail(value):
    raise ValueError(value)  # at fail


def turn(n):
    value = add(n, n)  # at turn
    try:
        fail(value)
    except ValueError:
        pass
    time.sleep(0.05)


def main(kind):
    if kind == "hooked":
        import framehook

        framehook.add(lambda view: None)
    print("ready", flush=True)
    n = 0
    while True:
        turn(n)
        n += 1


if __name__ == "__main__":
    main(sys.argv[1])
