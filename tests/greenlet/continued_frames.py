"""Frames that continue from records in greenlets, which switch in the middle of them: each greenlet keeps its frames.

Run by run.py with an interpreter that has greenlet, with the extension continuing on its path.
"""

import gc
import sys
import weakref

import continuing
import greenlet

GREENLETS = 300
LENGTHS = (1, 2, 30, 700)       # of chains: some are longer than a chunk of the data stack

hub = greenlet.getcurrent()


class Value:
    """Its end can be observed."""


def innermost(mark, value):
    before = sys._getframe().f_back
    got = hub.switch(mark)
    return got, before is sys._getframe().f_back, value


def waits(number, value):
    got, same, value = innermost(number, value)
    return got + 1, same and sys._getframe().f_lineno > 0, value


def outer(number, value):
    got, same, value = waits(number, value)
    return got + 1, same, value


def index_of(function, opname):
    import dis
    return [it.offset // 2 for it in dis.get_instructions(function) if it.opname == opname][0]


CALL = {function: index_of(function, "CALL") for function in (waits, outer)}
RESUME = index_of(innermost, "RESUME") + 1
NOTHING = (continuing.nothing,)


def chain(length, mark, value):
    """`length` frames upon each other, that of `innermost` the last."""
    callers = [(outer, None, None, CALL[outer], (0, value, *NOTHING * 2), ()) for _ in range(length - 2)]
    if length > 1:
        callers.append((waits, None, None, CALL[waits], (0, value, *NOTHING * 2), ()))
    return [*callers, (innermost, None, None, RESUME, (mark, value, *NOTHING * 2), ())]


def body(mark, value):
    return continuing.continue_frames(chain(LENGTHS[mark % len(LENGTHS)], mark, value))


def check(what, *where):
    if not what:
        raise AssertionError(where)


def run_all(finish):
    started, ends = [], []
    for mark in range(GREENLETS):
        value = Value()
        ends.append(weakref.ref(value))
        one = greenlet.greenlet(body)
        check(one.switch(mark, value) == mark, mark, "did not get to its innermost frame")
        depth, frame = 0, one.gr_frame
        while frame is not None and frame.f_code is not body.__code__:
            depth, frame = depth + (frame.f_code in (innermost.__code__, waits.__code__, outer.__code__)), frame.f_back
        check(depth == LENGTHS[mark % len(LENGTHS)], mark, "has so many frames:", depth)
        started.append(one)
    del value, frame, one
    if finish:
        for mark in sorted(range(GREENLETS), key=lambda mark: (mark * 7919) % GREENLETS):
            got = started[mark].switch(1000)
            length = LENGTHS[mark % len(LENGTHS)]
            check(got[:2] == (1000 + length - 1, True), mark, got)
            check(type(got[2]) is Value, mark)
            del got
    started.clear()
    gc.collect()
    check(all(end() is None for end in ends), "values are left")


def main():
    sys.setrecursionlimit(5000)
    for finish in (True, False, True):
        before = continuing.recursion_remaining()
        run_all(finish)
        check(continuing.recursion_remaining() == before, "recursion")
        print("ok greenlets with continued frames", "are finished" if finish else "are dropped", flush=True)


if __name__ == "__main__":
    main()
