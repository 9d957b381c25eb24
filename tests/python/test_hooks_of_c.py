"""Frame hooks, and callbacks of theirs, that are C alone: no frame of their own lies above the one that they are called for."""

import functools
import gc
import itertools
import sys
import threading
import types
import unittest

from support import CApi, SimpleCApi, framecore, framehook, in_new_thread, needs_hooks, use_extensions

use_extensions()
import datahooks
import evaluators


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
    """No incomplete frame: neither the new one, nor the return shim at which a callback is called."""

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
                framehook.add(frames.look)      # is called for calls_it() and what that calls
                came = calls_it(function)
                framehook.clear()
                self.check(frames, [self.id().split(".")[-1], "calls_it"])
                self.assertEqual(came if function is f else list(came), expected)

    def test_a_callback_finds_the_caller(self):
        for depth, name in enumerate(("calls_it", self.id().split(".")[-1])):
            frames = Frames(depth)

            def hook(view, frames=frames):
                if view.code in (f.__code__, generator.__code__):
                    view.watch(frames.look, None, yields=True, resumes=True)

            framehook.add(hook)
            calls_it(f)
            framehook.clear()
            self.check(frames, [name])
            framehook.add(hook)
            calls_it(lambda: sum(generator()))
            framehook.clear()
            self.check(frames, [name, "<lambda>" if depth == 0 else "calls_it"])

    def test_the_binding_of_an_unhooked_calls_arguments_finds_the_caller(self):
        for below in False, True:
            for depth, name in enumerate(("<lambda>", "calls_it", self.id().split(".")[-1])):
                frames = Frames(depth)

                class Key(str):
                    __hash__ = str.__hash__
                    __eq__ = staticmethod(frames.look)      # says None: it is another keyword

                with self.assertRaises(TypeError):
                    calls_it(lambda: framehook.unhooked(f, callees=below)(**{Key("a"): 1}))
                self.check(frames, [name])


@needs_hooks
class WhatCCalls(unittest.TestCase):
    def test_a_generator_of_a_callback_is_not_taken_for_that_of_the_event(self):
        # Under an evaluator no eval loop has a frame of its own between the two.
        def made(event):
            yield

        def gen():
            yield 10
            return "value"

        def hook(view):
            if view.code is gen.__code__:
                view.watch(framehook.reentrant(made), None, resumes=True)      # called for the resumption
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


VISIBLE = 4


def helper(*ignored):
    return helpers_helper()


def helpers_helper():
    return None


@types.coroutine
def once():
    yield


async def coroutine():
    await once()


def noted(install, run):
    """The names of the code whose frames a trace or profile function is called for."""
    names = set()

    def note(frame, event, argument):
        names.add(frame.f_code.co_name)
        return note

    install(note)
    try:
        run()
    finally:
        install(None)
    return names


def traced(run):
    return noted(sys.settrace, run)


def profiled(run):
    return noted(sys.setprofile, run)


def profiled_in_all_threads(run):
    return noted(threading.setprofile_all_threads, run)


def monitored(run):
    names = set()
    monitoring, events = sys.monitoring, sys.monitoring.events
    monitoring.use_tool_id(3, "test")
    everything = 0
    for event in (events.PY_START, events.PY_RESUME, events.PY_RETURN, events.PY_YIELD, events.LINE, events.CALL, events.INSTRUCTION):
        monitoring.register_callback(3, event, lambda code, *arguments: names.add(code.co_name))
        everything |= event
    monitoring.set_events(3, everything)
    try:
        run()
    finally:
        monitoring.set_events(3, 0)
        monitoring.free_tool_id(3)
    return names


TOOLS = (traced, profiled, profiled_in_all_threads, monitored)


def use_all():
    f()
    list(generator())
    try:
        made = coroutine()
        made.send(None)
        made.send(None)
    except StopIteration:
        pass
    made = generator()
    next(made)
    del made        # is dropped
    gc.collect()


USED = {"f", "generator", "coroutine", "once"}
RUN = {"helper", "helpers_helper"}


@needs_hooks
class Hidden(unittest.TestCase):
    """What a hook runs is not shown to tools, in Python and in C, unless it is visible."""

    def setUp(self):
        self.addCleanup(datahooks.take_hooks)
        self.addCleanup(datahooks.take_frames)
        self.addCleanup(framehook.clear)

    def check(self, expected, run=use_all):
        for tool in TOOLS:
            with self.subTest(tool.__name__):
                found = tool(run)
                self.assertEqual((found & RUN, found & USED), (expected, USED))
                self.assertEqual(found & {"hook", "<lambda>"} - ({"hook"} if expected else set()), set())

    def test_a_hook_in_c_of_each_kind(self):
        for api in CApi(), SimpleCApi():
            handle = api.add(helper)
            try:
                with self.subTest(api.name):
                    self.check(set())
            finally:
                api.remove(handle)
        sys.modules["framehooks"].forget_simple()

    def test_a_hook_in_c_with_entry_and_exit_callbacks(self):
        for flags, expected in ((0, set()), (VISIBLE, RUN), (2, set()), (2 | VISIBLE, RUN), (1, set())):
            for called in ({"on_entry": helper}, {"on_event": helper}, {"on_entry": helper, "on_event": helper}):
                handles = [datahooks.add(function.__code__, 0, events=7, flags=flags, **called) for function in (f, generator, coroutine)]
                with self.subTest(flags=flags, called=list(called)):
                    self.check(expected)
                for handle in handles:
                    framehook.remove(handle)

    def test_a_callback_of_each_kind_of_event_alone(self):
        for kind in range(5):
            for flags, expected in ((0, set()), (VISIBLE, RUN)):
                def delivered(event):
                    if event == kind:
                        helper()

                def run():
                    use_all()
                    if kind == 1:
                        thrown = generator()
                        next(thrown)
                        try:
                            thrown.throw(KeyError)
                        except KeyError:
                            pass

                handles = [datahooks.add(function.__code__, 0, events=7, flags=flags, on_event=delivered) for function in (f, generator, coroutine)]
                with self.subTest(kind=kind, flags=flags):
                    self.check(expected, run)
                for handle in handles:
                    framehook.remove(handle)

    def test_a_hook_in_python(self):
        def hook(view):
            helper()
            if view.code in (f.__code__, generator.__code__, coroutine.__code__):
                view.watch(helper, None, yields=True, resumes=True)

        for visible, expected in ((False, set()), (True, RUN)):
            framehook.add(hook, visible=visible)
            self.check(expected)
            framehook.remove(hook)
            with framehook.hook(hook, visible=visible):
                self.check(expected)

    def test_beside_an_evaluator_and_in_a_thread(self):
        for flags, expected in ((0, set()), (VISIBLE, RUN)):
            handles = [datahooks.add(function.__code__, 0, events=7, flags=flags, on_entry=helper, on_event=helper)
                       for function in (f, generator, coroutine)]
            in_new_thread(self.check, expected)
            evaluators.set("pass")
            try:
                self.check(expected)
            finally:
                evaluators.set("null")
            for handle in handles:
                framehook.remove(handle)

    def test_hidden_and_visible_hooks_side_by_side(self):
        def visible_helper(*ignored):
            pass

        def expected_of(tool):
            return tool(use_all) & {"helper", "visible_helper"}

        for first, second in ((0, VISIBLE), (VISIBLE, 0)):
            for flags, run in ((first, 0), (second, 1)):
                called = visible_helper if flags else helper
                for function in f, generator:
                    datahooks.add(function.__code__, 0, events=7, flags=flags, on_entry=called, on_event=called)
            for tool in TOOLS:
                self.assertEqual(expected_of(tool), {"visible_helper"}, tool.__name__)
            framehook.clear()

    def test_events_of_the_frame_itself_are_as_without_a_hook(self):
        def events(run):
            found = []

            def trace(frame, event, argument):
                found.append((frame.f_code.co_name, event, frame.f_lineno))
                return trace

            sys.settrace(trace)
            try:
                run()
            finally:
                sys.settrace(None)
            return found

        expected = events(use_all)
        for function in f, generator, coroutine:
            datahooks.add(function.__code__, 0, events=7, on_entry=helper, on_event=helper)
        self.assertEqual(events(use_all), expected)

    def test_unknown_flags(self):
        for flags in (8, 16, 32, 1 << 31):
            with self.assertRaises(ValueError):
                datahooks.add(f.__code__, 0, flags=flags)
        self.assertEqual(framecore.frame_hooks(), [])
