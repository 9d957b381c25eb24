"""PEP 523: an evaluator sees every frame that starts, wherever and however deep it starts."""

import sys

from evaluator_scenarios import DEEP, SCENARIOS, EvaluatorTestCase, frames_of, functions, inits, warm_up
from support import FREE_THREADED, ON_STOCK, in_new_thread, make_recursion, needs_framecore, recursion_limit, use_extensions

use_extensions()
import evaluators


class EveryFrame(EvaluatorTestCase):
    maxDiff = None

    def check(self, scenario, *, warm_without, warm_with, allow=False):
        run, expected = scenario()
        plain = run()
        if warm_without:
            warm_up(run)
        if allow:
            evaluators.allow_specialization(True)
        evaluators.set("record")
        if warm_with:
            warm_up(run)
        result, frames = frames_of(run)
        evaluators.set("default")
        if allow:
            evaluators.allow_specialization(False)
        self.assertEqual(result, plain)
        self.assertEqual(run(), plain)
        return frames, expected

    def check_all(self, **how):
        for scenario in SCENARIOS:
            with self.subTest(scenario.__name__):
                frames, expected = self.check(scenario, **how)
                self.assertEqual(frames, expected)

    def test_of_code_that_never_ran_is_seen_once(self):
        self.check_all(warm_without=False, warm_with=False)

    def test_of_code_that_was_warmed_up_before_is_seen_once(self):
        self.check_all(warm_without=True, warm_with=False)

    def test_of_code_that_is_warmed_up_under_the_evaluator_is_seen_once(self):
        self.check_all(warm_without=False, warm_with=True)

    def test_is_seen_once_however_warm(self):
        self.check_all(warm_without=True, warm_with=True)

    @needs_framecore
    def test_of_specialized_code_is_seen_once_by_an_evaluator_that_allows_it(self):
        for without in (False, True):
            for under in (False, True):
                self.check_all(warm_without=without, warm_with=under, allow=True)

    def test_init_is_seen_before_warm_up(self):
        frames, expected = self.check(inits, warm_without=False, warm_with=False)
        self.assertEqual(frames, expected)

    def test_init_is_seen_after_warm_up(self):
        # In stock the specialized instruction that calls a class skips the evaluator. So once a class
        # was called a few times, its __init__ is not seen. What that calls, super().__init__, is.
        ways = [dict(warm_without=without, warm_with=under, allow=allow)
                for without, under in ((True, False), (False, True), (True, True))
                for allow in ((False,) if ON_STOCK else (False, True))]
        for way in ways:
            with self.subTest(**way):
                frames, expected = self.check(inits, **way)
                if ON_STOCK and not FREE_THREADED:
                    self.assertLess(len(frames), len(expected))
                else:
                    self.assertEqual(frames, expected)

    def test_a_thrown_exception_resumes_a_generator_through_the_evaluator(self):
        def seen():
            try:
                yield 1
            except KeyError:
                yield 2

        evaluators.set("count")
        evaluators.take_count()
        generator = seen()
        self.assertEqual(next(generator), 1)
        self.assertEqual(generator.throw(KeyError), 2)
        generator.close()
        self.assertEqual(evaluators.take_count(), 4)

    def test_is_seen_with_settrace_and_setprofile(self):
        run, expected = functions()
        for setter in (sys.settrace, sys.setprofile):
            calls = []

            def trace(frame, event, argument):
                if event == "call":
                    calls.append(frame.f_code.co_name)

            warm_up(run)
            evaluators.set("record")
            setter(trace)
            try:
                _, frames = frames_of(run)
            finally:
                setter(None)
            evaluators.set("default")
            self.assertEqual(frames, expected)
            self.assertEqual([name for name in calls if name.startswith("seen")], expected)


class Depth(EvaluatorTestCase):
    def test_recursion_is_right_at_every_edge_of_a_chunk(self):
        def at_every_depth(recurse, depths):
            return [recurse(depth, lambda: depth) for depth in depths]

        for local_count, step in ((10, 1), (300, 1), (3_000, 7)):
            recurse = make_recursion(local_count)
            depths = range(0, min(DEEP, 300), step)
            for allow in ((False,) if ON_STOCK else (False, True)):
                if allow:
                    evaluators.allow_specialization(True)
                evaluators.set("pass")
                found = in_new_thread(at_every_depth, recurse, depths)
                evaluators.set("default")
                self.assertEqual(found, list(depths))

    def test_deep_recursion_comes_back(self):
        recurse = make_recursion(10)
        with recursion_limit(DEEP + 100):
            for name in ("pass", "count"):
                evaluators.set(name)
                self.assertEqual(in_new_thread(recurse, DEEP, lambda: "bottom"), "bottom")

    def test_endless_recursion_is_an_exception(self):
        class Thing:
            def __init__(self):
                Thing()

            @property
            def total(self):
                return self.total

        def function():
            return function()

        def generator():
            yield from generator()

        thing = Thing.__new__(Thing)
        for run in (Thing, function, lambda: thing.total, lambda: list(generator())):
            for allow in ((False,) if ON_STOCK else (False, True)):
                if allow:
                    evaluators.allow_specialization(True)
                for _ in range(3):
                    evaluators.set("pass")
                    with self.assertRaises(RecursionError):
                        in_new_thread(run)
                    evaluators.set("default")
