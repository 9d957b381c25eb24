# needs: python3-greenlet
"""Stacks that are switched in the middle of deep recursions and generators, and one that is never finished."""
import gc

import greenlet


def down(n, peer):
    if n:
        return down(n - 1, peer) + 1
    return peer.switch() or 0


def other():
    for i in (j * j for j in range(5)):
        main.switch(i)


main = greenlet.getcurrent()
peer = greenlet.greenlet(other)
print([down(depth, peer) for depth in (3, 900, 40, 700)])
abandoned = [greenlet.greenlet(lambda: down(50, main)) for _ in range(100)]
for one in abandoned:
    one.switch()
del abandoned, one
print(gc.collect() >= 0, greenlet.getcurrent() is main)
