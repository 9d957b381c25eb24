"""What hooks in Python alone have: callables of any kind, what _framecore reports, views."""

import functools
import gc
import sys
import weakref

from support import HookTestCase, framecore, framehook, needs_hooks


@needs_hooks
class PythonHooks(HookTestCase):
    def test_sys_has_no_functions_of_hooks(self):
        self.assertEqual([name for name in dir(sys) if "frame_hook" in name], [])

    def test_wrong_answers(self):
        def target():
            return "ran"

        answers = [0, True, "code", (), len, object(), framecore.DISABLE, None]
        entries = answers[:]
        framecore.add_frame_hook(lambda view: entries.pop(0)
                                 if view.code is target.__code__ else None)
        for answer in answers[:-2]:
            with self.assertRaises(TypeError) as caught:
                target()
            self.assertIn(type(answer).__name__, str(caught.exception))
        self.assertEqual(target(), "ran")

    def test_a_function_is_taken_for_its_code(self):
        def target():
            return "ran"

        def other():
            return "other"

        class Named:
            def method():
                return "method"

        answers = [other, Named().method, Named.method, other.__code__]
        entries = answers[:]
        framecore.add_frame_hook(lambda view: entries.pop(0) if view.code is target.__code__ else None)
        self.assertEqual([target() for _ in answers], ["other", "method", "method", "other"])
        self.assertEqual(entries, [])

    def test_callables_of_other_kinds(self):
        class Callable:
            def __init__(self):
                self.views = []

            def __call__(self, view):
                self.views.append(view)

            method = __call__

        def target():
            return "ran"

        for hook in (Callable(), Callable().method, functools.partial(lambda view: None), [].append,
                     type, str.__len__):
            handle = framecore.add_frame_hook(hook)
            try:
                result = target()
            except TypeError:
                # The result of type(view) is no answer, and str.__len__(view) itself fails.
                result = TypeError
            framecore.remove_frame_hook(handle)
            self.assertEqual(result, TypeError if hook in (type, str.__len__) else "ran")

    def test_a_callable_that_takes_no_argument(self):
        def target():
            pass
        handle = framecore.add_frame_hook(lambda: None)
        # assertRaises is Python code, and would call functions while the hook is there.
        try:
            target()
        except TypeError:
            failed = True
        else:
            failed = False
        framecore.remove_frame_hook(handle)
        self.assertTrue(failed)

    def test_what_cannot_be_added(self):
        for wrong in (None, 3, "hook", []):
            with self.assertRaises(TypeError):
                framecore.add_frame_hook(wrong)
        for arguments in ((), (print, 3), (print, "name", 1)):
            with self.assertRaises(TypeError):
                framecore.add_frame_hook(*arguments)
        self.assertEqual(framecore.frame_hooks(), [])

    def test_identity_decides(self):
        class Equal:
            def __eq__(self, other):
                return True

            def __hash__(self):
                return 1

            def __call__(self, view):
                pass

        one, two, three = Equal(), Equal(), Equal()
        framecore.add_frame_hook(one)
        framecore.add_frame_hook(two)
        with self.assertRaises(ValueError):
            framecore.add_frame_hook(one)
        with self.assertRaises(ValueError):
            framecore.remove_frame_hook(three)
        framecore.remove_frame_hook(two)
        self.assertEqual([info["hook"] is one for info in framecore.frame_hooks()], [True])

    def test_a_duplicate_add_inside_the_hook(self):
        def target():
            pass

        def hook(view):
            if view.code is target.__code__:
                framecore.add_frame_hook(hook)

        framecore.add_frame_hook(hook)
        with self.assertRaises(ValueError):
            target()

    def test_what_hooks_reports(self):
        def target():
            pass

        new = target.__code__.replace()
        answers = [None, new, KeyError, framecore.DISABLE]

        def hook(view):
            if view.code is target.__code__:
                answer = answers.pop(0)
                if answer is KeyError:
                    raise KeyError
                return answer
            return framecore.DISABLE

        framecore.frame_hooks()
        handle = framecore.add_frame_hook(hook, "a name")
        for _ in range(6):
            try:
                target()
            except KeyError:
                pass
        info, = framecore.frame_hooks()
        expected = {"id": handle, "name": "a name", "hook": hook, "enabled": True,
                    "replacements": 1, "errors": 1}
        self.assertEqual({key: info[key] for key in expected}, expected)
        self.assertEqual(info["calls"], 4)
        self.assertGreater(info["nanoseconds"], 0)

    def test_disable_is_one_object(self):
        self.assertEqual(repr(framecore.DISABLE), "framehook.DISABLE")
        with self.assertRaises(TypeError):
            type(framecore.DISABLE)()

    def test_a_hook_that_is_gone_is_released(self):
        class Hook:
            def __call__(self, view):
                pass

        for remove in (lambda hook: framecore.remove_frame_hook(hook),
                       lambda hook: framecore.clear_frame_hooks()):
            hook = Hook()
            reference = weakref.ref(hook)
            framecore.add_frame_hook(hook)
            remove(hook)
            del hook
            self.assertIsNone(reference())

    def test_at_the_limit_of_recursion_a_hook_costs_what_a_profile_function_does(self):
        def deepest(level=0):
            try:
                return deepest(level + 1)
            except RecursionError:
                return level

        def passes(view):
            pass

        def watches(view):
            view.watch(lambda event: None)

        self.addCleanup(sys.setrecursionlimit, sys.getrecursionlimit())
        sys.setrecursionlimit(400)
        self.addCleanup(sys.setprofile, sys.getprofile())
        sys.setprofile(lambda *event: None)
        profiled = deepest()
        sys.setprofile(None)
        for hook in passes, watches:
            with framehook.hook(hook):
                reached = deepest()
            with self.subTest(hook=hook.__name__):
                self.assertEqual(reached, profiled)


@needs_hooks
class Views(HookTestCase):
    def kept_view(self, *arguments):
        def target(a=1, *, b=2):
            pass

        kept = []
        hook = lambda view: kept.append(view) if view.code is target.__code__ else None
        framecore.add_frame_hook(hook)
        target(*arguments)
        framecore.remove_frame_hook(hook)
        return kept[0]

    def test_a_view_kept_past_the_call(self):
        view = self.kept_view()
        uses = [lambda: view.code, lambda: view.function, lambda: view.globals,
                lambda: view.builtins, lambda: view.argument_names, lambda: view.argument(0),
                lambda: view.argument("a"), lambda: view.arguments()]
        for use in uses:
            for _ in range(3):
                with self.assertRaisesRegex(RuntimeError, "^this view of a frame has expired: "):
                    use()
        self.assertIsInstance(repr(view), str)

    def test_a_view_kept_past_a_hook_that_fails_or_replaces(self):
        def target():
            pass

        kept = []
        answers = [KeyError, target.__code__.replace()]

        def hook(view):
            if view.code is target.__code__:
                kept.append(view)
                answer = answers.pop(0)
                if answer is KeyError:
                    raise KeyError
                return answer

        framecore.add_frame_hook(hook)
        with self.assertRaises(KeyError):
            target()
        target()
        framecore.remove_frame_hook(hook)
        for view in kept:
            with self.assertRaisesRegex(RuntimeError, "expired"):
                view.code

    def test_a_view_keeps_nothing_alive(self):
        class Thing:
            pass
        thing = Thing()
        reference = weakref.ref(thing)
        view = self.kept_view(thing)
        del thing
        gc.collect()
        self.assertIsNone(reference())
        self.assertIsNotNone(view)

    def test_a_view_in_a_cycle(self):
        def target():
            pass

        def hook(view):
            if view.code is target.__code__:
                hook.view = view

        framecore.add_frame_hook(hook)
        target()
        framecore.remove_frame_hook(hook)
        del hook
        gc.collect()

    def test_views_cannot_be_made_or_changed(self):
        with self.assertRaises(TypeError):
            framecore.FrameView()
        with self.assertRaises(TypeError):
            framecore.FrameView.__new__(framecore.FrameView)
        with self.assertRaises(TypeError):
            object.__new__(framecore.FrameView)
        problems = []

        def target():
            pass

        def hook(view):
            if view.code is target.__code__:
                for name in ("code", "function", "globals", "builtins", "argument_names", "other"):
                    try:
                        setattr(view, name, 1)
                    except AttributeError:
                        problems.append(name)
        framecore.add_frame_hook(hook)
        target()
        self.assertEqual(len(problems), 6)

    def test_arguments_of_the_wrong_type(self):
        def target(a):
            pass

        problems = []

        def hook(view):
            if view.code is target.__code__:
                for wrong in (None, 1.5, b"a", ()):
                    try:
                        view.argument(wrong)
                    except TypeError:
                        problems.append(wrong)
        framecore.add_frame_hook(hook)
        target(1)
        self.assertEqual(problems, [None, 1.5, b"a", ()])
