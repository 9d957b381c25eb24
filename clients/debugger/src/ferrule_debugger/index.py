"""Which code objects have been seen, by file and line."""

import collections
import threading
import weakref
from types import CodeType

LINES_PER_BUCKET = 64


def lines_of(code):
    """The lines that have instructions of this code object itself, not of functions in it."""
    return {line for _, _, line in code.co_lines() if line}


class _Seen(weakref.ref):
    """A code object that was seen, and the buckets that it is in."""

    __slots__ = ("key", "buckets")


class CodeIndex:
    """Code objects, held weakly, that can be looked up by a line.

    A file is cut into buckets of lines, and a code object is in each that it has a line in. So a
    look-up does not depend on how many code objects there are.
    """

    def __init__(self):
        self._seen = {}         # id of the code -> _Seen
        self._files = {}        # file name -> how many code objects it has
        self._buckets = {}      # (file name, number, or None: what has code within it) -> {id of the code: _Seen}
        self._lock = threading.RLock()
        self._adding = False    # this thread is, where a signal handler or a destructor adds code too
        # Code that has died is forgotten later on: a function in Python that were called as it dies
        # would be seen by the program's trace and profile functions.
        self._dead = collections.deque()

    def __len__(self):
        self._forget_dead()
        return len(self._seen)

    def add(self, code, file):
        """Remember a code object as one of a file. False: it was known."""
        key = id(code)
        known = self._seen.get(key)
        if known is not None and known() is code:
            return False
        lines = lines_of(code)
        lines.add(code.co_firstlineno)
        numbers = [*range(min(lines) // LINES_PER_BUCKET, max(lines) // LINES_PER_BUCKET + 1)]
        if CodeType in map(type, code.co_consts):
            numbers.append(None)
        with self._lock:
            self._forget_dead()
            outer, self._adding = self._adding, True
            try:
                seen = _Seen(code, self._dead.append)
                seen.key, seen.buckets = key, [(file, number) for number in numbers]
                self._files[file] = self._files.get(file, 0) + 1
                for place in seen.buckets:
                    self._buckets.setdefault(place, {})[key] = seen
                self._seen[key] = seen
            finally:
                self._adding = outer
        return True

    def at(self, file, line):
        """The code objects of a file that may have this line."""
        return self._alive(self._buckets.get((file, line // LINES_PER_BUCKET), {}))

    def has(self, file):
        """Whether code of a file has run."""
        self._forget_dead()
        return file in self._files

    def take_inner(self, file):
        """The code objects within those of a file that were not taken before."""
        for code in self._alive(self._buckets.pop((file, None), {})):
            yield from (each for each in code.co_consts if isinstance(each, CodeType))

    @staticmethod
    def _alive(bucket):
        return [code for seen in list(bucket.values()) if (code := seen()) is not None]

    def clear(self):
        with self._lock:
            for each in (self._seen, self._files, self._buckets, self._dead):
                each.clear()

    def renew_lock(self):
        self._lock, self._adding = threading.RLock(), False

    def _forget_dead(self):
        with self._lock:
            while self._dead and not self._adding:
                seen = self._dead.popleft()
                # Another code object may have the address, and the place, by now.
                if self._seen.get(seen.key) is seen:
                    del self._seen[seen.key]
                for place in seen.buckets:
                    bucket = self._buckets.get(place, {})
                    if bucket.get(seen.key) is seen:
                        del bucket[seen.key]
                    if not bucket:
                        self._buckets.pop(place, None)
                file = seen.buckets[0][0]
                left = self._files.pop(file, 1) - 1
                if left:
                    self._files[file] = left
