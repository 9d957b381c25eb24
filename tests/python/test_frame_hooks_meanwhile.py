"""Other code that runs while hooks are called: in keys of views, in other threads, in destructors.

It may let a view expire, change the code of the function, and add or remove hooks and evaluators.
"""

import threading
import warnings

from hook_variants import EVERYWHERE, KINDS, Kind, VariantTestCase, extension, finish, installed, varied
from looking import Call, Refused, called, in_another_thread
from support import PythonApi, code_of, framecore, needs_hooks

USES = {
    "code": lambda view: view.code,
    "function": lambda view: view.function,
    "globals": lambda view: view.globals,
    "builtins": lambda view: view.builtins,
    "argument_names": lambda view: view.argument_names,
    "arguments": lambda view: view.arguments(),
    "argument by index": lambda view: view.argument(0),
    "argument by name": lambda view: view.argument("a"),
}


class Index:
    """An index that does something in __index__()."""

    def __init__(self, act):
        self.act = act

    def __index__(self):
        self.act()
        return 0


@needs_hooks
class Views(VariantTestCase):
    def result_of(self, kind, act):
        """Call a function, and return what act(view) returned in the hook."""
        answers = []
        call = Call(PythonApi(), kind, "None", lambda view: answers.append(act(view)))
        with installed(call.api, call.hook):
            self.assertEqual(call.run("secret"), ["original", "secret"])
        return answers[0]

    @varied(apis=("Python",))
    def test_a_view_that_expires_while_a_key_is_converted_is_not_read(self, api, kind):
        converting, may_continue, outcomes = threading.Event(), threading.Event(), []

        def wait():
            converting.set()
            may_continue.wait(60)

        def read(view):
            try:
                outcomes.append(view.argument(Index(wait)))
            except RuntimeError:
                outcomes.append(RuntimeError)

        def start(view):
            thread = threading.Thread(target=read, args=(view,))
            thread.start()
            converting.wait(60)
            return thread

        def another_frame(secret):
            may_continue.set()
            thread.join()

        thread = self.result_of(kind, start)
        another_frame("of another frame")
        self.assertEqual(outcomes, [RuntimeError])

    @varied(apis=("Python",))
    def test_a_view_serves_only_the_thread_that_was_given_it(self, api, kind):
        def use(view):
            def in_thread(ident):
                found = {}
                for name, use in USES.items():
                    try:
                        found[name] = use(view)
                    except RuntimeError:
                        pass
                return found
            # Its own thread can read it before and after.
            return view.argument(0), in_another_thread(in_thread), view.argument(0)

        self.assertEqual(self.result_of(kind, use), ("secret", {}, "secret"))

    @varied(apis=("Python",))
    def test_a_key_may_run_python_while_the_view_is_valid(self, api, kind):
        ran = []
        key = Index(lambda: ran.append(called()))
        self.assertEqual(self.result_of(kind, lambda view: view.argument(key)), "secret")
        self.assertEqual(ran, ["called"])

    @varied(apis=("Python",))
    def test_a_view_is_valid_until_its_hook_returns_though_the_hook_was_removed(self, api, kind):
        answers = []

        def hook(view):
            if view.code is offered.__code__:
                answers.append((view.argument(Index(framecore.clear_frame_hooks)),
                                view.argument("a"), view.code))

        offered = kind.make("{give} a")
        api.add(hook)
        self.assertEqual(finish(offered("secret")), "secret")
        self.assertEqual(answers, [("secret", "secret", offered.__code__)])

    def test_a_key_that_fails_is_no_reading(self):
        def fail():
            raise Refused

        def read(view):
            with self.assertRaises(Refused):
                view.argument(Index(fail))
            return view.argument(0)

        self.assertEqual(self.result_of(KINDS["function, plain"], read), "secret")


@needs_hooks
class ChangedFunctions(VariantTestCase):
    """A hook assigns function.__code__: this call keeps its code, and the next has the other."""

    def assign(self, api, kind, other_style, replaces):
        offered = kind.make("{give} ['original', a]")
        code = offered.__code__
        other = Kind(other_style, kind.layout).make("{give} ['other', a]", name="other").__code__
        stand_in = code_of(kind.make("{give} ['replaced', a]", name="stand_in"))

        def hook(view):
            if view.code is code:
                view.function.__code__ = other
                return stand_in if replaces else None

        made = offered(0)
        expected_type = type(made)
        finish(made)
        with warnings.catch_warnings():
            # Python warns when code of another kind is assigned.
            warnings.simplefilter("ignore", DeprecationWarning)
            with installed(api, hook):
                made = offered(1)
            self.assertIs(type(made), expected_type)
            self.assertIs(offered.__code__, other)
            if kind.style != "function":
                self.assertEqual((made.__name__, made.__qualname__),
                                 (offered.__name__, offered.__qualname__))
            self.assertEqual(finish(made), ["replaced" if replaces else "original", 1])
            self.assertEqual(finish(offered(2)), ["other", 2])

    def test_the_call_continues_with_the_code_of_its_frame_as_its_own_kind(self):
        for other in ("function", "generator", "coroutine", "asynchronous generator"):
            self.in_every_variant(self.assign, other, False, kinds=tuple(KINDS))

    def test_a_replacement_is_of_the_kind_of_the_code_that_was_called(self):
        for other in ("function", "generator", "coroutine", "asynchronous generator"):
            self.in_every_variant(self.assign, other, True, kinds=tuple(KINDS))


@needs_hooks
class Rounds(VariantTestCase):
    """What is found before a hook is called may be freed when it returns."""

    def added_by_a_destructor(self, api, kind, answer):
        offered, other = kind.make("{give} a"), kind.make("{give} a", name="other")
        codes = {"offered": offered.__code__, "other": other.__code__}
        entries, handles = [], []

        def second(view):
            entries.extend(name for name, code in codes.items() if view.code is code)

        class First:
            def __call__(self, view):
                if view.code is offered.__code__:
                    api.remove(handles.pop())
                    return api.DISABLE if answer == "disabled_code" else None

            def __del__(self):
                handles.append(api.add(second))

        for _ in range(4):
            finish(offered(1)), finish(other(1))
        handles.append(api.add(First()))
        finish(other(1))
        finish(offered(1))      # the first hook is removed, and dies
        self.assertEqual(entries, [])
        for _ in range(3):
            finish(offered(1))
        finish(other(1))
        api.remove(handles.pop())
        self.assertEqual(entries, ["offered"] * 3 + ["other"])

    def test_a_hook_added_by_the_destructor_of_a_removed_one_is_called(self):
        # Not the simple form: a simple hook keeps its callable alive.
        for answer in ("disabled_code", "None"):
            self.in_every_variant(self.added_by_a_destructor, answer, apis=("Python", "C"))

    def evaluator_taken_away(self, api, kind, how):
        evaluators = extension("evaluators")
        seen = kind.make("{give} a", name="seen")

        def take_away():
            evaluators.set("null" if how != "another" else "pass")

        def hook(view):
            if view.code is seen.__code__:
                if how == "in another thread":
                    in_another_thread(lambda ident: take_away())
                else:
                    take_away()

        for call in (lambda: seen(1), lambda: next(map(seen, [1]))):
            for _ in range(20):
                finish(call())
            evaluators.take_count()
            evaluators.set("count")
            try:
                with installed(api, hook):
                    self.assertEqual(finish(call()), 1)
            finally:
                evaluators.set("null")
            self.assertEqual(evaluators.take_count(), 0)

    def test_an_evaluator_that_a_hook_takes_away_is_not_called_any_more(self):
        surroundings = tuple(around for around in EVERYWHERE
                             if around.__name__ != "BesideAnEvaluator")
        for how in ("here", "in another thread", "another"):
            self.in_every_variant(self.evaluator_taken_away, how, surroundings=surroundings)
