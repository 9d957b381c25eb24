"""Frame hooks, and callbacks of theirs, that are C alone: no frame of their own lies above the one that they are asked about."""

import functools
import itertools
import sys
import unittest

from support import needs_hooks, use_extensions

use_extensions()
import evaluators

try:
    import framehook
except ImportError:     # stock CPython
    framehook = None


class Frames:
    """The frames that sys._getframe() finds, called by C: `look`, with whatever arguments."""

    def __init__(self, depth=0):
        self.found = []
        looks = itertools.starmap(sys._getframe, itertools.repeat((depth,)))
        self.look = functools.partial(next, map(self.found.append, looks))

    def names(self):
        return [frame.f_code.co_name for frame in self.found]


def f(a=1, b=2, c=3):
    return a


def generator(a=1, b=2):
    yield a
    yield b


def calls_it(run):
    return run()


def use_the_stack(depth=30):
    """What has been on the data stack is overwritten."""
    many = [depth] * 9, [depth] * 9, [depth] * 9
    return use_the_stack(depth - 1) if depth else many


@needs_hooks
class FramesThatCFinds(unittest.TestCase):
    """No incomplete frame: neither the one that is offered, nor the mark at which a callback is told."""

    def tearDown(self):
        framehook.clear()

    def check(self, frames, names):
        use_the_stack()
        self.assertEqual(frames.names()[:len(names)], names)
        for frame in frames.found:
            self.assertIsInstance(dict(frame.f_locals), dict)
            self.assertGreater(frame.f_lineno, 0)
            self.assertIsNotNone(frame.f_back)

    def test_a_hook_finds_the_caller(self):
        for function, expected in (f, 1), (generator, [1, 2]):
            with self.subTest(function.__name__):
                frames = Frames()
                framehook.add(frames.look)      # is asked about calls_it() and what that calls
                came = calls_it(function)
                framehook.clear()
                self.check(frames, [self.id().split(".")[-1], "calls_it"])
                self.assertEqual(came if function is f else list(came), expected)

    def test_who_is_told_finds_the_caller(self):
        for depth, name in enumerate(("calls_it", self.id().split(".")[-1])):
            frames = Frames(depth)

            def hook(view, frames=frames):
                if view.code in (f.__code__, generator.__code__):
                    view.watch(frames.look, None, True, True)

            framehook.add(hook)
            calls_it(f)
            framehook.clear()
            self.check(frames, [name])
            framehook.add(hook)
            calls_it(lambda: sum(generator()))
            framehook.clear()
            self.check(frames, [name, "<lambda>" if depth == 0 else "calls_it"])

    def test_who_binds_the_arguments_of_a_spared_call_finds_the_caller(self):
        for below in False, True:
            for depth, name in enumerate(("<lambda>", "calls_it", self.id().split(".")[-1])):
                frames = Frames(depth)

                class Key(str):
                    __hash__ = str.__hash__
                    __eq__ = staticmethod(frames.look)      # says None: it is another keyword

                with self.assertRaises(TypeError):
                    calls_it(lambda: framehook.original(f, below=below)(**{Key("a"): 1}))
                self.check(frames, [name])


@needs_hooks
class WhatCCalls(unittest.TestCase):
    def test_a_generator_of_a_callback_is_not_taken_for_that_of_the_frame_it_is_told_of(self):
        # Under an evaluator no eval loop has a frame of its own between the two.
        def made(event):
            yield

        def gen():
            yield 10
            return "value"

        def hook(view):
            if view.code is gen.__code__:
                view.watch(framehook.outside(made), None, False, True)      # told that it goes on
            elif view.code is made.__code__:
                view.watch(lambda event: codes.append(event.code))

        codes = []
        for evaluator in "default", "pass":
            with self.subTest(evaluator):
                evaluators.set(evaluator)
                try:
                    with framehook.hook(hook):
                        it = gen()
                        self.assertEqual(next(it), 10)
                        with self.assertRaises(StopIteration) as raised:
                            next(it)
                        self.assertEqual(raised.exception.value, "value")
                        del it
                finally:
                    evaluators.set("default")
        self.assertEqual(set(codes), {made.__code__})


if __name__ == "__main__":
    unittest.main()
