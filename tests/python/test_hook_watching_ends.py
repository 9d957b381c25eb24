"""An interpreter ends while frames are watched: what may happen in the callbacks of their drops."""

import unittest

from support import FREE_THREADED, ProgramTestCase, needs_hooks

try:
    import ctypes
except ImportError:
    ctypes = None

BEGINNING = """
import framehook, os, sys

def say(*words):
    os.write(1, (" ".join(map(str, words)) + "\\n").encode())

def gen():
    yield 1

def begin():
    generator = gen()
    next(generator)
    return generator

def watching(callback, word=None):
    def hook(view):
        if view.code is gen.__code__:
            view.watch(callback, word and word())
        else:
            return framehook.DISABLE
    return framehook.add(hook)
"""


@needs_hooks
class Ends(ProgramTestCase):
    # Freed memory is overwritten at once.
    FILLED = {"PYTHONMALLOC": "debug"}

    def check(self, program, expected):
        """In the main interpreter and in another one."""
        inside = f"""
import _interpreters
other = _interpreters.create("legacy")
assert _interpreters.exec(other, {BEGINNING + program!r}) is None
_interpreters.destroy(other)
"""
        for where, source in (("main", BEGINNING + program), ("another", inside)):
            with self.subTest(where):
                found = self.assert_program_succeeds(source, environment=self.FILLED)
                self.assertEqual(found.splitlines(), expected)

    def test_a_callback_releases_the_generator_of_its_event(self):
        self.check("""
def callback(event):
    say(event.kind, len(kept))
    kept.clear()
watching(callback)
watching(callback)
kept = [begin()]
""", ["dropped 1", "dropped 0"])

    def test_the_destructor_of_the_data_releases_the_generator(self):
        self.check("""
class Word:
    def __del__(self):
        say("word")
        kept.clear()
watching(lambda event: say(event.kind))
watching(lambda event: say(event.kind), Word)
kept = [begin()]
""", ["dropped", "word", "dropped"])

    def test_a_callback_begins_another_generator_and_keeps_it(self):
        self.check("""
def callback(event):
    say(event.kind)
    kept.append(framehook.reentrant(gen)())
    next(kept[-1])
watching(callback)
kept = [begin()]
""", ["dropped"])

    def test_the_destructor_of_the_data_starts_another_generator_and_keeps_it(self):
        self.check("""
class Word:
    def __del__(self):
        kept.append(begin())
watching(lambda event: say(event.kind), Word)
kept = [begin()]
""", ["dropped"])

    @unittest.skipIf(FREE_THREADED, "CPython hangs where its end begins in ctypes, without hooks too")
    @unittest.skipIf(ctypes is None, "needs ctypes")
    def test_a_callback_looks_at_the_stack_where_watched_frames_end_the_runtime(self):
        found = self.assert_program_succeeds(BEGINNING + """
import ctypes

def callback(event):
    names, frame = [], sys._getframe()
    while frame is not None and len(names) < 9:
        names.append(frame.f_code.co_name)
        frame = frame.f_back
    say(event.kind, *names)

def leave():
    ctypes.pythonapi.Py_Exit(0)

def outer():
    leave()

def hook(view):
    if view.code in (leave.__code__, outer.__code__):
        view.watch(callback)
    else:
        return framehook.DISABLE
framehook.add(hook)
outer()
""")
        self.assertEqual(found.splitlines(), ["dropped callback leave outer <module>"] * 2)
