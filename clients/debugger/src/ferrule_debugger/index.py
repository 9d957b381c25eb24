"""Which code objects have been seen, by file and line."""

import collections
import weakref
from types import CodeType

LINES_PER_BUCKET = 64


def lines_of(code):
    """The lines that have instructions of this code object itself, not of functions in it."""
    return {line for _, _, line in code.co_lines() if line}


class _Seen(weakref.ref):
    """A code object that was seen, and where it is kept."""

    __slots__ = ("key", "buckets")


class CodeIndex:
    """Code objects, held weakly, that can be looked up by a line.

    A file is cut into buckets of lines, and a code object is in each that it has a line in. So a
    look-up does not depend on how many code objects there are.
    """

    def __init__(self):
        self._seen = {}         # id of the code -> _Seen
        self._files = {}        # file name -> {number of the bucket: {id of the code: _Seen}}
        self._outer = {}        # file name -> {id of the code: _Seen}: what has code within it
        # Code that has died is forgotten later on: a function in Python that were called as it dies
        # would be seen by the program's trace and profile functions.
        self._dead = collections.deque()

    def __len__(self):
        self._forget_dead()
        return len(self._seen)

    def add(self, code, file):
        """Remember a code object as one of a file. False: it was known."""
        self._forget_dead()
        key = id(code)
        known = self._seen.get(key)
        if known is not None and known() is code:
            return False
        seen = _Seen(code, self._dead.append)
        seen.key = key
        lines = lines_of(code)
        lines.add(code.co_firstlineno)
        buckets = self._files.setdefault(file, {})
        seen.buckets = []
        for number in range(min(lines) // LINES_PER_BUCKET, max(lines) // LINES_PER_BUCKET + 1):
            bucket = buckets.setdefault(number, {})
            bucket[key] = seen
            seen.buckets.append(bucket)
        self._seen[key] = seen
        if CodeType in map(type, code.co_consts):
            outer = self._outer.setdefault(file, {})
            outer[key] = seen
            seen.buckets.append(outer)
        return True

    def at(self, file, line):
        """The code objects of a file that may have this line."""
        buckets = self._files.get(file)
        bucket = buckets and buckets.get(line // LINES_PER_BUCKET)
        if not bucket:
            return []
        return [code for seen in list(bucket.values()) if (code := seen()) is not None]

    def take_inner(self, file):
        """The code objects within those of a file that were not taken before."""
        for seen in list(self._outer.pop(file, {}).values()):
            if (code := seen()) is not None:
                yield from (each for each in code.co_consts if isinstance(each, CodeType))

    def clear(self):
        self._seen.clear()
        self._files.clear()
        self._outer.clear()
        self._dead.clear()

    def _forget_dead(self):
        while self._dead:
            try:
                seen = self._dead.popleft()
            except IndexError:      # another thread was faster
                return
            # Another code object may have the address, and the place, by now.
            for places in (self._seen, *seen.buckets):
                if places.get(seen.key) is seen:
                    del places[seen.key]
