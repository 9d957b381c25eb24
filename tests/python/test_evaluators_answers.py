"""PEP 523: what an evaluator returns or raises in place of the function."""

import traceback

from evaluator_scenarios import WARM_UP, EvaluatorTestCase, warm_up
from support import ON_STOCK, use_extensions

use_extensions()
import evaluators


class Answers(EvaluatorTestCase):
    """An evaluator that does not just run the frame, for each kind of frame, warm or not."""

    def both(self, run):
        for warm in (False, True):
            if warm:
                warm_up(run)
            for allow in ((False,) if ON_STOCK else (False, True)):
                if allow:
                    evaluators.allow_specialization(True)
                yield
        if not ON_STOCK:
            evaluators.allow_specialization(False)

    def test_an_evaluator_may_return_something_else(self):
        class Thing:
            @property
            def seen(self):
                return 1

        def seen():
            return 1

        thing = Thing()

        def run():
            return seen(), thing.seen, [seen() for _ in range(2)]

        for _ in self.both(run):
            evaluators.set("answer")
            result = run()
            evaluators.set("default")
            self.assertEqual(result, (42, 42, [42, 42]))

    def raises(self, run, message, names):
        found = None
        try:
            run()
        except LookupError as error:
            self.assertEqual(str(error), message)
            found = [frame.name for frame in traceback.extract_tb(error.__traceback__)]
        self.assertEqual(found, ["raises", *names])

    def test_an_evaluator_may_raise_before_the_first_instruction(self):
        def seen():
            raise AssertionError("it ran")

        def run():
            try:
                seen()
            except ZeroDivisionError:
                pass

        def harmless():
            pass

        def warm():
            harmless()

        for _ in self.both(warm):
            evaluators.set("raise_before")
            self.raises(run, "before", ["run", "seen"])
            evaluators.set("default")

    def test_an_evaluator_may_raise_after_the_last_instruction(self):
        def seen():
            return 1

        def run():
            return seen()

        for _ in self.both(run):
            evaluators.set("raise_after")
            self.raises(run, "after", ["run"])
            evaluators.set("default")

    def test_an_exception_from_an_evaluator_can_be_caught(self):
        def seen(n):
            return n

        def run():
            caught = 0
            for n in range(5):
                try:
                    seen(n)
                except LookupError:
                    caught += 1
            return caught

        for _ in self.both(run):
            for name in ("raise_before", "raise_after"):
                evaluators.set(name)
                caught = run()
                evaluators.set("default")
                self.assertEqual(caught, 5)
            self.assertEqual(run(), 0)

    def test_an_evaluator_may_raise_when_a_generator_is_resumed(self):
        def seen():
            yield 1
            yield 2

        def run(generator):
            result = []
            for i in generator:
                result.append(i)
            return result

        for _ in self.both(lambda: run(seen())):
            generator = seen()
            evaluators.set("raise_before")
            with self.assertRaisesRegex(LookupError, "before"):
                run(generator)
            evaluators.set("default")
            self.assertEqual(list(generator), [])

    def test_arguments_die_when_they_would_without_an_evaluator(self):
        events = []

        class Argument:
            def __del__(self):
                events.append("gone")

        def callee(argument):
            del argument
            events.append("deleted")

        def run():
            callee(Argument())

        warm_up(run)
        events.clear()
        run()
        plain, events[:] = events[:], []
        self.assertEqual(plain, ["gone", "deleted"])
        if ON_STOCK:
            # While the call lasts, the caller's stack has a reference too.
            plain = ["deleted", "gone"]
        for allow in ((False,) if ON_STOCK else (False, True)):
            if allow:
                evaluators.allow_specialization(True)
            evaluators.set("pass")
            run()
            evaluators.set("default")
            self.assertEqual(events, plain)
            events.clear()

    def test_a_function_can_replace_the_evaluator_that_runs_it(self):
        def seen():
            return 1

        def switch():
            return seen() + seen()

        def run():
            evaluators.set("switch")
            evaluators.take_count()
            result = switch(), evaluators.get(), evaluators.take_count()
            evaluators.set("default")
            return result

        for _ in range(WARM_UP):
            self.assertEqual(run(), (2, "count", 2))
