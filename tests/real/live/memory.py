"""A program that allocates a known amount at a known place, below hooks on request; or twice, for tools that attach meanwhile."""

import sys
import time

SIZE = 48 << 20


def allocate():
    return bytearray(SIZE)  # at allocate


def middle():
    return allocate()


def stand_in():
    kept = allocate()
    return kept


def outer():
    return middle()


def generator():
    yield outer()


def main(kind):
    if kind in ("hooked", "replaced"):
        import framehook

        framehook.add(lambda view: stand_in.__code__ if kind == "replaced" and view.code is middle.__code__ else None)
    if kind == "attached":
        print("ready", flush=True)
        sys.stdin.readline()
    kept = list(generator())
    time.sleep(0.1)
    return len(kept)


if __name__ == "__main__":
    main(sys.argv[1])
