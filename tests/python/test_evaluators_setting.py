"""PEP 523: evaluators are set and taken away at any time, and say whether code is specialized."""

import threading
import unittest

from evaluator_scenarios import EvaluatorTestCase, warm_up
from support import FREE_THREADED, ON_STOCK, about_stock, in_many_threads, needs_framecore, specialized, use_extensions

use_extensions()
import evaluators


class SettingAndGetting(EvaluatorTestCase):
    def test_none_is_the_default_evaluator(self):
        self.assertEqual(evaluators.get(), "default")
        evaluators.set("pass")
        self.assertEqual(evaluators.get(), "pass")
        evaluators.set("default")
        self.assertEqual(evaluators.get(), "default")
        evaluators.set("pass")
        evaluators.set("null")
        self.assertEqual(evaluators.get(), "default")

    def test_a_running_frame_stays_with_the_evaluator_that_started_it(self):
        def seen():
            evaluators.set("default")
            return "done"

        evaluators.set("answer")
        self.assertEqual(seen(), 42)
        self.assertEqual(seen(), "done")

    @needs_framecore
    def test_specialization_is_enabled_unless_an_evaluator_forbids_it(self):
        self.assertEqual(evaluators.specialization_enabled(), 1)
        evaluators.set("pass")
        self.assertEqual(evaluators.specialization_enabled(), 0)
        evaluators.allow_specialization(True)
        self.assertEqual(evaluators.specialization_enabled(), 1)
        # The permission belongs to the interpreter: it outlives the evaluator.
        evaluators.set("default")
        evaluators.set("count")
        self.assertEqual(evaluators.specialization_enabled(), 1)
        evaluators.allow_specialization(False)
        self.assertEqual(evaluators.specialization_enabled(), 0)
        evaluators.set("default")
        self.assertEqual(evaluators.specialization_enabled(), 1)

    @about_stock
    def test_stock_cannot_allow_specialization(self):
        self.assertRaises(NotImplementedError, evaluators.allow_specialization, True)

    def test_changes_count_as_rare_events(self):
        import _testinternalcapi
        _testinternalcapi.reset_rare_event_counters()
        events = []
        for name in ("pass", "pass", "count", "default", "default"):
            evaluators.set(name)
            events.append(_testinternalcapi.get_rare_event_counters()["set_eval_frame_func"])
        self.assertEqual(events, [1, 1, 2, 3, 3])


@unittest.skipIf(FREE_THREADED, "3.13's free-threaded build specializes nothing")
class Specialization(EvaluatorTestCase):
    def make_caller(self):
        class Thing:
            def __init__(self):
                pass

            @property
            def total(self):
                return 1

            def __getitem__(self, index):
                return index

        def callee(a):
            return a

        def items():
            yield 1

        def caller(thing=Thing()):
            callee(1)
            for _ in items():
                pass
            return thing.total + thing[1]
        # A copy never ran. The code itself would still be specialized by the test before.
        caller.__code__ = caller.__code__.replace()
        return caller

    NAMES = {"CALL_PY_EXACT_ARGS", "FOR_ITER_GEN", "LOAD_ATTR_PROPERTY", "BINARY_SUBSCR_GETITEM"}

    def test_continues_without_an_evaluator(self):
        caller = self.make_caller()
        warm_up(caller)
        self.assertLessEqual(self.NAMES, set(specialized(caller)))

    def test_is_off_under_an_evaluator(self):
        caller = self.make_caller()
        evaluators.set("pass")
        warm_up(caller)
        self.assertEqual(self.NAMES.intersection(specialized(caller)), set())
        evaluators.set("default")
        warm_up(caller)
        self.assertLessEqual(self.NAMES, set(specialized(caller)))

    @needs_framecore
    def test_continues_under_an_evaluator_that_allows_it(self):
        caller = self.make_caller()
        evaluators.set("pass")
        evaluators.allow_specialization(True)
        warm_up(caller)
        self.assertLessEqual(self.NAMES, set(specialized(caller)))

    @needs_framecore
    def test_what_was_specialized_before_stays_under_an_evaluator_that_allows_it(self):
        caller = self.make_caller()
        warm_up(caller)
        before = specialized(caller)
        evaluators.allow_specialization(True)
        evaluators.set("pass")
        warm_up(caller)
        self.assertEqual(specialized(caller), before)


class Threads(EvaluatorTestCase):
    def test_each_thread_is_seen(self):
        def seen():
            return 1

        def body():
            for _ in range(1_000):
                seen()

        evaluators.set("count")
        evaluators.take_count()
        in_many_threads(4, body)
        self.assertEqual(evaluators.take_count(), 4_000)

    def test_evaluators_come_and_go_while_threads_run(self):
        class Thing:
            def __init__(self, value):
                self.value = value

            @property
            def total(self):
                return self.value

        def items(n):
            for i in range(n):
                yield i

        def body():
            try:
                while not stop:
                    if Thing(3).total + sum(i for i in items(4)) != 9:
                        wrong.append("result")
            except BaseException as error:
                wrong.append(error)

        stop, wrong = [], []
        threads = [threading.Thread(target=body) for _ in range(3)]
        for thread in threads:
            thread.start()
        try:
            for turn in range(300):
                evaluators.set(("pass", "count", "default", "switch")[turn % 4])
                if not ON_STOCK:
                    evaluators.allow_specialization(turn % 3 == 0)
        finally:
            stop.append(True)
            for thread in threads:
                thread.join()
        self.assertEqual(wrong, [])
